#!/usr/bin/env python3
"""Ranges of several spans and values written as IPv4 addresses, by every way in: commands, HTTP, the
command line, the configuration file, imports."""
import json
import signal
import unittest
import urllib.error
import urllib.request

from config_test import Configured, check
from import_test import run
from resp import Asking, Error, Resp


class Spans(Asking):
    def refused(self, text, *words):
        reply = self.ask.do(*words)
        self.assertIsInstance(reply, Error, (words, reply))
        self.assertIn(text, reply)

    def options(self, pool):
        return self.do("POOL", "INFO", pool)["options"]

    def values(self, pool, count):
        return self.do("ALLOC", pool, "a", "COUNT", count)["values"]

    def http(self, method, path, body=None):
        url = "http://127.0.0.1:%d%s" % (self.server.http_port, path)
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(url, data, {"Content-Type": "application/json"}, method=method)
        try:
            with urllib.request.urlopen(request) as reply:
                return reply.status, json.load(reply)
        except urllib.error.HTTPError as error:
            with error:
                return error.code, json.load(error)

    def test_a_range_of_several_spans(self):
        self.do("POOL", "CREATE", "p", "RANGE", 500, 501, "RANGE", "100", "101", "EXCLUDE", "101-500")
        has = self.options("p")
        self.assertEqual((has["range"], has["lo"], has["hi"]), ("100-101,500-501", "100", "501"))
        info = self.do("POOL", "INFO", "p")
        self.assertEqual((info["size"], info["free"], info["excluded"]), (2, 2, 2))
        self.refused("BAD_VALUE", "ALLOC", "p", "a", "VALUES", 1, 300)
        self.refused("TOO_LARGE", "ALLOC", "p", "a", "COUNT", 3)
        self.assertEqual(self.values("p", 2), ["100", "501"])
        self.assertEqual(self.do("POOL", "CREATE", "p", "RANGE", "100-101,500-501", "EXCLUDE",
                                 "101-500")["result"], "NOOP")
        self.refused("range", "POOL", "CREATE", "p", "RANGE", "100-101,499-501", "EXCLUDE", "101-500")

    def test_what_is_wrong_with_a_range_is_said(self):
        for text, words in (("overlap", ("RANGE", 1, 5, "RANGE", 5, 9)),
                            ("lo is above hi", ("RANGE", 9, 1, "RANGE", 20, 30)),
                            ("more than 64", ("RANGE", ",".join(str(2 * i) for i in range(65)))),
                            ("not LO-HI or ADDRESS/BITS", ("RANGE", "10.0.0.7/24")),
                            ("differ from the ends", ("RANGE", 1, 5, "LO", 2)),
                            ("differ from the ends", ("HI", 6, "RANGE", 1, 5)),
                            ("255.255.255.255", ("FORMAT", "ipv4", "RANGE", 0, 1 << 32)),
                            ("no range", ("SET", "RANGE", "1-2,5-6", "KIND", "set"))):
            self.refused(text, "POOL", "CREATE", "wrong", *words)
        self.do("POOL", "CREATE", "most", "RANGE", ",".join(str(2 * i) for i in range(64)))
        self.refused("several spans", "POOL", "ALTER", "most", "HI", 500)

    def test_options_that_are_shown_can_be_given(self):
        self.do("POOL", "CREATE", "shown", "RANGE", "1-2,5-6", "FORMAT", "hex", "EXCLUDE", "2-5")
        words = [word for pair in self.options("shown").items() for word in pair]
        self.assertEqual(self.do("POOL", "CREATE", "shown", *words)["result"], "NOOP")
        self.do("POOL", "CREATE", "copy", *words)
        self.assertEqual(self.options("copy"), self.options("shown"))

    def test_macs_of_several_makers(self):
        self.do("POOL", "CREATE", "macs", "FORMAT", "mac",
                "RANGE", "52:54:00:00:00:00", "52:54:00:00:00:00",
                "RANGE", "02:16:3e:00:00:00", "02:16:3e:00:00:00")
        self.assertEqual(self.values("macs", 2), ["02:16:3e:00:00:00", "52:54:00:00:00:00"])

    def test_addresses(self):
        self.do("POOL", "CREATE", "net", "FORMAT", "ipv4", "RANGE", "10.0.0.0/30", "RANGE",
                "192.168.7.0/24", "EXCLUDE", "10.0.0.0,10.0.0.3,192.168.7.0/25")
        self.assertEqual(self.options("net")["exclude"], "10.0.0.0-10.0.0.0,10.0.0.3-10.0.0.3,"
                         "192.168.7.0-192.168.7.127")
        self.assertEqual(self.values("net", 3), ["10.0.0.1", "10.0.0.2", "192.168.7.128"])
        self.assertEqual(self.do("ALLOC", "net", "b", "VALUES", 1, "192.168.7.200")["values"],
                         ["192.168.7.200"])
        for wrong in ("10.0.0", "192.168.7.300", "192.168.7.0200", "3232237568"):
            self.refused("BAD_VALUE", "ALLOC", "net", "b", "VALUES", 1, wrong)
        self.assertEqual(self.do("POOL", "INFO", "net")["size"], 2 + 128)

    def test_over_http(self):
        for name, given in (("a", [[1, 2], {"lo": 5, "hi": 6}]), ("b", "1-2,5-6"),
                            ("c", [["1", "2"], ["5", "6"]])):
            status, reply = self.http("PUT", "/v1/pools/" + name, {"range": given})
            self.assertEqual(status, 201, reply)
            self.assertEqual(self.options(name)["range"], "1-2,5-6")
        self.assertEqual(self.http("PUT", "/v1/pools/b?range=1-2,5-6")[0], 200)
        self.assertEqual(self.http("PUT", "/v1/pools/d", {"range": "10.0.0.0/29", "format": "ipv4"})[0], 201)
        self.assertEqual(self.options("d")["range"], "10.0.0.0-10.0.0.7")
        for wrong, want in (("7", 400), ([[1, 2], 3], 400), ([[1, 2], [3]], 400), ([], 400),
                            ("10.0.0.1/24", 422), ([[1, 5], [5, 9]], 422)):
            status, reply = self.http("PUT", "/v1/pools/wrong", {"range": wrong})
            self.assertEqual(status, want, (wrong, reply))

    def test_on_the_command_line(self):
        code, _, err = run(self.server.port, "pool", "create", "line", "--range", "1", "2", "--range",
                           "5-6,9", "--range", "10.0.0.0/31", rows="")
        self.assertEqual((code, err), (0, ""))
        self.assertEqual(self.options("line")["range"], "1-2,5-6,9-9,167772160-167772161")

    def test_a_restart_keeps_the_spans(self):
        self.do("POOL", "CREATE", "kept", "RANGE", "1-2,5-6")
        self.values("kept", 3)
        self.do("POOL", "ALTER", "kept", "RANGE", "1-2,5-5,8-8")
        self.ask.close()
        self.server.stop(signal.SIGKILL)
        self.server.start()
        self.ask = Resp(self.server, 3)
        self.addCleanup(self.ask.close)
        self.assertEqual(self.options("kept")["range"], "1-2,5-5,8-8")
        self.assertEqual(self.values("kept", 1), ["8"])
        self.refused("POOL_IN_USE", "POOL", "ALTER", "kept", "RANGE", "1-2,8-8")

    def test_an_import_knows_the_gaps(self):
        self.do("POOL", "CREATE", "moved", "RANGE", "10.0.0.0/31", "RANGE", "10.0.0.8/31", "FORMAT", "ipv4")
        rows = "value,holder\n10.0.0.1,a\n10.0.0.4,b\n10.0.0.8,c\n"
        for more in (("--dry-run",), ()):
            code, out, err = run(self.server.port, "import", "moved", *more, rows=rows)
            self.assertEqual(code, 1, (out, err))
            self.assertIn("between two spans", out + err)
        self.assertEqual(self.do("POOL", "INFO", "moved")["active"], 2)


class Declared(unittest.TestCase):
    def test_spans_are_declared_once_and_altered_where_they_differ(self):
        server = Configured("[pool p]\nrange = 1 2\nrange = 5-6, 9-9\n"
                            "[pool net]\nformat = ipv4\nrange = 10.0.0.0/24 10.0.2.0/24\n")
        self.addCleanup(server.clean)
        self.assertEqual(server.option("p", "range"), "1-2,5-6,9-9")
        self.assertEqual(server.option("net", "range"), "10.0.0.0-10.0.0.255,10.0.2.0-10.0.2.255")
        server.reload("[pool p]\nrange = 1 2\nrange = 5-6, 9-9\n")
        self.assertEqual(server.lines("pool_altered"), [])
        server.reload("[pool p]\nrange = 1 9\n")
        self.assertEqual(server.option("p", "range"), "1-9")
        server.reload("[pool p]\nrange = 1-3,5-9\n")
        self.assertEqual(server.option("p", "range"), "1-3,5-9")

    def test_mistakes_are_told(self):
        for line in ("range = 1", "range = 1 2 3", "range = 1-2,x", "range = 1-5,5-6", "range = 10.0.0.1/8"):
            code, _, err = check("[pool p]\n%s\n" % line)
            self.assertNotEqual(code, 0, line)
            self.assertIn("range", err)


if __name__ == "__main__":
    unittest.main()
