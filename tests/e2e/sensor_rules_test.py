"""The file of rules of a run: complete before the process begins, replaced when the enabled rules of its
trigger change, and followed by the signal that the sensor asks for."""
import json
import os
import unittest

from harness import text_of, until
from sensors import SensorCase, processes

# Says where its rules are, and counts the signals that it gets.
SCRIPT = """
trap 'echo signal >> "$OUT"' %s
trap 'exit 0' TERM
cp "$TENURE_RULES_FILE" "$OUT.first"
echo "$TENURE_RULES_FILE" >> "$OUT"
while :; do sleep 0.02; done
"""
# Handles the signal only after the test has allowed it to.
LATE = """
echo "$TENURE_RULES_FILE" >> "$OUT"
while ! test -e "$OUT.go"; do sleep 0.02; done
trap 'echo signal >> "$OUT"' HUP
while :; do sleep 0.02; done
"""


class Rules(SensorCase):
    def begin(self, ref="s", script=SCRIPT % "HUP", **terms):
        self.sensor(ref, "/bin/sh", "-c", script, env={"OUT": self.path(ref + ".out")}, **terms)
        self.want(ref)
        return until(lambda: self.lines(ref), "it has begun")[0]

    def lines(self, ref="s"):
        path = self.path(ref + ".out")
        return text_of(path).splitlines() if os.path.exists(path) else []

    def signals(self, ref="s"):
        return self.lines(ref).count("signal")

    @staticmethod
    def read(path):
        content = json.loads(text_of(path))
        return {rule["id"]: rule.get("meta") for rule in content["rules"]}

    def becomes(self, path, expected):
        until(lambda: self.read(path) == expected, "the rules are %s" % expected)

    def test_it_is_there_from_the_start_and_follows_every_kind_of_change(self):
        self.do("RULE", "SET", "before", "s.trigger", "META", '{"seconds": 1}')
        self.do("RULE", "SET", "off", "s.trigger", "DISABLED", "META", '{"seconds": 2}')
        self.do("RULE", "SET", "other", "another.trigger", "META", '{"seconds": 3}')
        path = self.begin(rules_signal="HUP")
        self.assertEqual(self.read(self.path("s.out.first")),
                         {"before": {"seconds": 1}, "rule.s": None})
        self.assertEqual(os.stat(path).st_mode & 0o777, 0o600)
        whole = json.loads(text_of(path))
        self.assertEqual((whole["sensor"], whole["trigger"], whole["complete"]),
                         ("s", "s.trigger", True))
        rules = {"before": {"seconds": 1}, "rule.s": None}
        for words, change in [
                (("SET", "before", "s.trigger", "META", '{"seconds": 9}'), {"before": {"seconds": 9}}),
                (("SET", "new", "s.trigger", "META", "{}"), {"new": {}}),
                (("ENABLE", "off"), {"off": {"seconds": 2}}),
                (("SET", "other", "s.trigger"), {"other": {"seconds": 3}})]:
            self.do("RULE", *words)
            rules.update(change)
            self.becomes(path, rules)
        for words, gone in [(("DISABLE", "off"), "off"), (("DELETE", "new"), "new"),
                            (("SET", "other", "another.trigger"), "other")]:
            self.do("RULE", *words)
            del rules[gone]
            self.becomes(path, rules)
        until(lambda: self.signals() == 7, "seven signals")
        self.want("s", wanted=False)
        self.do("RULE", "DISABLE", "before")
        self.reaches("s", "stopped")
        self.assertFalse(os.path.exists(path))

    def test_no_signal_unless_it_is_asked_for_and_none_for_rules_of_others(self):
        path = self.begin()
        other = self.begin("t", SCRIPT % "USR1", rules_signal="USR1")
        self.do("RULE", "SET", "more", "s.trigger")
        self.becomes(path, {"more": None, "rule.s": None})
        self.do("RULE", "SET", "more2", "t.trigger")
        self.becomes(other, {"more2": None, "rule.t": None})
        until(lambda: self.signals("t") == 1, "its signal")
        self.assertEqual(self.signals("s"), 0)

    def test_a_process_that_does_not_handle_the_signal_yet_is_not_ended_by_it(self):
        path = self.begin(script=LATE, rules_signal="HUP")
        pid = self.status("s")["pid"]
        self.do("RULE", "SET", "more", "s.trigger")
        self.becomes(path, {"more": None, "rule.s": None})
        self.do("RULE", "SET", "more2", "s.trigger")
        self.becomes(path, {"more": None, "more2": None, "rule.s": None})
        self.assertTrue(processes(pid))
        with open(self.path("s.out.go"), "w", encoding="utf-8"):
            pass
        until(lambda: self.signals() == 1, "the signal, when it is handled")
        self.assertEqual(self.status("s")["pid"], pid)

    def test_many_rules_and_a_new_run(self):
        rules = {"rule.s": None}
        for i in range(300):
            self.do("RULE", "SET", "r%d" % i, "s.trigger", "META", json.dumps({"i": i, "x": "y" * 64}))
            rules["r%d" % i] = {"i": i, "x": "y" * 64}
        path = self.begin()
        self.becomes(path, rules)
        self.again(9)
        self.reaches("s", "running")
        until(lambda: os.path.exists(path) and self.read(path) == rules, "the rules of the new run")

    def test_links_in_its_place_are_replaced_and_not_followed(self):
        path = self.begin()
        victim = self.path("victim")
        with open(victim, "w", encoding="ascii") as file:
            file.write("mine")
        for name in (path, path + ".new"):
            os.symlink(victim, name + ".link")
            os.rename(name + ".link", name)
        self.do("RULE", "SET", "more", "s.trigger")
        until(lambda: not os.path.islink(path), "the file is replaced")
        self.becomes(path, {"rule.s": None, "more": None})
        self.assertEqual(text_of(victim), "mine")
        self.assertFalse(os.path.lexists(path + ".new"))
        self.assertEqual(os.stat(path).st_mode & 0o777, 0o600)

    def test_whoever_reads_it_while_it_is_replaced_gets_one_of_the_two_whole(self):
        path = self.begin()
        with open(path, encoding="utf-8") as file:
            begun = file.read(10)
            self.do("RULE", "SET", "more", "s.trigger")
            self.becomes(path, {"rule.s": None, "more": None})
            rules = json.loads(begun + file.read())["rules"]
        self.assertEqual([rule["id"] for rule in rules], ["rule.s"])

    def test_more_than_fits_is_said_to_be_incomplete(self):
        path = self.begin()
        big = json.dumps({"x": "y" * 4000})
        for i in range(300):
            self.do("RULE", "SET", "r%d" % i, "s.trigger", "META", big)
        until(lambda: json.loads(text_of(path))["complete"] is False, "it is cut")
        self.assertLessEqual(os.stat(path).st_size, 1 << 20)
        for i in range(300):
            self.do("RULE", "DELETE", "r%d" % i)
        until(lambda: json.loads(text_of(path))["complete"], "it is complete again")
        self.becomes(path, {"rule.s": None})


if __name__ == "__main__":
    unittest.main()
