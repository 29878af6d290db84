#!/usr/bin/env python3
"""Rules and sensors as lines of JSON: out of one server and into another, by the command line."""
import json
import os
import subprocess
import unittest

from harness import BUILD, PATIENCE, Server, pairs

TENURE = os.path.abspath(os.path.join(BUILD, "tenure"))
META = {"seconds": 5, "unit": "ü \"s\""}
SPEC = {"command": ["/bin/true", "ü \"quoted\""], "env": {"A": "1"}}


def tenure(server, *words, given=None):
    """Exit code, standard output, standard error."""
    environment = {**os.environ, "TENURE_SOCKET": server.socket}
    done = subprocess.run([TENURE, *words], input=given, timeout=PATIENCE, check=False, text=True,
                          env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    return done.returncode, done.stdout, done.stderr


class Demand(unittest.TestCase):
    def serve(self):
        server = Server(None, "--sensors", "off")
        self.addCleanup(server.remove)
        return server

    def test_a_deployment_moves_in_whole(self):
        old, new = self.serve(), self.serve()
        with old.local() as client:
            for i in range(1005):  # more than a page
                client.execute_command("RULE", "SET", "r%d" % i, "t", *["DISABLED"] * (i % 2),
                                       *(["META", json.dumps(META)] if i % 100 == 7 else []))
            client.execute_command("SENSOR", "SET", "s.1", "t", json.dumps(SPEC))
            client.execute_command("SENSOR", "SET", "s.2", "u", json.dumps(SPEC), "DISABLED")
        for kind, count in (("rule", 1005), ("sensor", 2)):
            code, lines, error = tenure(old, kind, "export")
            self.assertEqual((code, error, lines.count("\n")), (0, "", count))
            code, said, _ = tenure(new, kind, "import", "--dry-run", given=lines)
            self.assertEqual((code, said), (0, "%d %ss can be set; nothing was sent\n" % (count, kind)))
            self.assertEqual(tenure(new, kind, "export"), (0, "", ""))
            for _ in range(2):  # it can be repeated
                self.assertEqual(tenure(new, kind, "import", "-", given=lines)[:2],
                                 (0, "%d %ss set\n" % (count, kind)))
            self.assertEqual(sorted(tenure(new, kind, "export")[1].splitlines()),
                             sorted(lines.splitlines()))
        with new.local() as client:
            sensor = pairs(client.execute_command("SENSOR", "INFO", "s.2"))
            rule = pairs(client.execute_command("RULE", "INFO", "r7"))
        self.assertEqual((sensor["trigger"], sensor["enabled"], json.loads(sensor["spec"])),
                         ("u", 0, SPEC))
        self.assertEqual((rule["enabled"], json.loads(rule["meta"])), (0, META))

    def test_metadata_of_a_rule_stays_until_it_is_replaced(self):
        with self.serve().local() as client:
            do = client.execute_command
            do("RULE", "SET", "r", "t", "META", '{"a": 1}')
            self.assertEqual(pairs(do("RULE", "SET", "r", "t"))["result"], "NOOP")
            self.assertEqual(pairs(do("RULE", "SET", "r", "t", "META", '{"a": 1}'))["result"],
                             "NOOP")
            do("RULE", "DISABLE", "r")
            self.assertEqual(pairs(do("RULE", "INFO", "r"))["meta"], '{"a": 1}')
            listed = pairs(pairs(do("RULE", "LIST"))["rules"][0])
            self.assertEqual((listed["meta_bytes"], "meta" in listed), (8, False))
            self.assertEqual(pairs(do("RULE", "SET", "r", "t", "META", "{}"))["result"], "OK")
            self.assertEqual(pairs(do("RULE", "INFO", "r"))["meta"], "{}")
            for meta, says in (("[]", "MALFORMED META"), ("{", "MALFORMED META"),
                               ('{"a":"%s"}' % ("x" * 4096), "TOO_LARGE META")):
                with self.assertRaisesRegex(Exception, says):
                    do("RULE", "SET", "r", "t", "META", meta)
            with self.assertRaisesRegex(Exception, "NOTFOUND"):
                do("RULE", "INFO", "none")

    def test_completion_knows_export_and_import(self):
        script = subprocess.run([TENURE, "completion", "bash"], check=True, text=True,
                                timeout=PATIENCE, stdout=subprocess.PIPE).stdout
        for word in ("rule", "sensor"):
            start = script.index("    %s)\n" % word)
            seconds = script[start:].split("seconds='", 1)[1].split("'", 1)[0].split()
            self.assertIn("export", seconds)
            self.assertIn("import", seconds)

    def test_their_help(self):
        server = self.serve()
        for words in (("help", "rule", "import"), ("rule", "import", "--help")):
            code, said, _ = tenure(server, *words)
            self.assertEqual(code, 0)
            self.assertIn("rule import [FILE] [--dry-run]", said)

    def test_nothing_is_sent_if_a_line_is_wrong(self):
        server = self.serve()
        good = '{"id": "r1", "trigger": "t"}\n\n'
        for line, reason in (("{} x", "not valid JSON"), ("[]", "not a JSON object"),
                             ('{"id": "r2"}', "trigger is missing"),
                             ('{"id": "r2", "trigger": "t", "enabled": 1}', "true or false"),
                             ('{"id": "r2", "id": "r3", "trigger": "t"}', "repeated"),
                             ('{"id": "r2", "trigger": "t", "meta": {}, "meta": {"a": 1}}', "repeated"),
                             ('{"id": "r2", "trigger": "t", "enabled": true, "enabled": false}',
                              "repeated"),
                             ('{"id": "r2", "trigger": "t", "meta": {"x": "%s"}}' % ("y" * 4096),
                              "more than"),
                             ("\0\0\0", "not a JSON object"), ("\x1b", "not a JSON object"),
                             ('{"id": "r2", "trigger": "t", "spec": {}}', "unknown field")):
            code, said, error = tenure(server, "rule", "import", given=good + line)
            self.assertEqual((code, said), (1, ""), line)
            self.assertIn("line 3", error)
            self.assertIn(reason, error)
        self.assertEqual(tenure(server, "rule", "export"), (0, "", ""))
        code, _, error = tenure(server, "sensor", "import", given='{"ref": "s", "trigger": "t"}')
        self.assertEqual((code, "spec is missing" in error), (1, True))

    def test_a_refused_line_is_named_and_those_before_it_are_set(self):
        server = self.serve()
        lines = '{"ref": "s1", "trigger": "t", "spec": {"command": ["/a"]}}\n' \
                '{"ref": "s2", "trigger": "t", "spec": {"comand": ["/a"]}}\n'
        code, said, error = tenure(server, "sensor", "import", given=lines)
        self.assertNotEqual(code, 0)
        self.assertEqual(said, "")
        self.assertIn("unknown member: comand", error)
        self.assertIn("line 2; 1 before it were set", error)


if __name__ == "__main__":
    unittest.main()
