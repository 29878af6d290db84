#!/usr/bin/env python3
"""Sensors and rules that the configuration file declares: every mistake is reported with its line, set at the
start and at a reload where they differ, and left alone where they do not."""
import json
import re
import signal
import unittest

import redis

from config_test import Configured, Daemon, check
from harness import pairs, until
from sensors import DUMMY, SensorCase, processes

# What its file does not say is not declared; the sensor never runs, for nothing enables its rule.
SENSOR = ("[sensor core.timer]\n"
          "trigger = core.tick\n"
          'command = /usr/bin/python3 "/opt/my sensors/timer.py" \\"quoted\\"\n'
          "command = --every 5\n"
          "env.LEVEL = a b\n"
          "env.URL = http://127.0.0.1:1/;x\n"
          "limits.nofile = 1K\n"
          "limits.memory_bytes = 64M\n"
          "stop_seconds = 0.25\n"
          "health.http = http://127.0.0.1:9000/healthz\n"
          "health.interval_seconds = 3\n")
RULE = "[rule r1]\ntrigger = core.tick\nenabled = no\n"
DESCRIPTION = {"command": ["/usr/bin/python3", "/opt/my sensors/timer.py", '"quoted"', "--every", "5"],
               "env": {"LEVEL": "a b", "URL": "http://127.0.0.1:1/;x"},
               "limits": {"nofile": 1024, "memory_bytes": 64 << 20}, "stop_seconds": 0.25,
               "health": {"http": "http://127.0.0.1:9000/healthz", "interval_seconds": 3}}


class Check(unittest.TestCase):
    def test_every_mistake_is_told_with_its_line(self):
        code, out, err = check("[rule r1]\n"                # 1: no trigger
                               "[rule r1]\n"                # 2
                               "[sensor a/b]\n"             # 3
                               "[sensor z]\n"
                               "trigger = t\n"
                               "trigger = t\n"              # 6
                               "command = x\n"
                               "what = 1\n"                 # 8
                               'command = "open\n'          # 9
                               "stop_seconds = 1e5\n"       # 10
                               "max_restarts = -1\n"        # 11
                               "enabled = maybe\n"          # 12
                               "cwd = /\n"
                               "cwd = /tmp\n"               # 14
                               "env. = 1\n"                 # 15
                               "health.heartbeat = 1\n"     # 16
                               "[rule %s]\n"                # 17
                               "[rule r2]\n"
                               "command = x\n"              # 19
                               "trigger = t\n"
                               "[sensor long]\n"            # 21
                               "trigger = t\n" % ("x" * 129) +
                               ("command = %s\n" % ("x" * 180)) * 100 +
                               "[sensor none]\n"            # 123
                               "trigger = t\n"
                               "[sensor odd]\n"             # 125
                               "trigger = t\n"
                               "command = x\n"
                               "health.interval_seconds = 3\n")
        self.assertEqual((code, out), (2, ""))
        lines = [int(line.split(":")[1]) for line in err.splitlines()]
        self.assertEqual(sorted(lines), [1, 2, 3, 6, 8, 9, 10, 11, 12, 14, 15, 16, 17, 19, 21, 123,
                                         125], err)
        for words in ("its trigger is missing", "rule r1 is already in line 1",
                      "is not a sensor name", "unknown sensor key 'what'", 'a " is missing',
                      "90s, 15m, 12h, 30d", "is not yes or no", "cwd is set twice",
                      "unknown rule key 'command'", "longer than 16384 bytes",
                      "sensor none: command", "sensor odd: health"):
            self.assertIn(words, err)

    def test_the_printout_is_a_file_with_the_same_meaning(self):
        code, once, err = check(SENSOR + RULE)
        self.assertEqual((code, err), (0, ""))
        code, twice, err = check(once)
        self.assertEqual((code, err), (0, ""))
        self.assertEqual(once[once.index("[sensor "):], twice[twice.index("[sensor "):])
        self.assertEqual(re.sub(r" ; .*", "", once), re.sub(r" ; .*", "", twice))

    def test_metadata_of_a_rule_is_an_object(self):
        code, _, err = check("[rule r]\ntrigger = t\nmeta = [1]\n")
        self.assertEqual(code, 2)
        self.assertIn(":3: meta: ", err)
        code, _, err = check("[rule r]\ntrigger = t\nmeta = {}\nmeta = {}\n")
        self.assertIn(":4: meta is set twice", err)
        code, _, err = check("[rule r]\ntrigger = t\nmeta = {\"x\": \"%s\"}\n" % ("y" * 4096))
        self.assertIn(":3: meta: at most 4096 bytes", err)
        code, once, err = check(RULE + 'meta = {"x": "a; b"}\n')
        self.assertEqual((code, err), (0, ""))
        self.assertIn('meta = {"x": "a; b"}\n', once)

    def test_a_command_may_be_long(self):
        words = " ".join('"word %d"' % i for i in range(60)) + " " + "x" * 10000
        code, once, err = check("[sensor s]\ntrigger = t\ncommand = /bin/true %s\n" % words)
        self.assertEqual((code, err), (0, ""))
        self.assertIn(words, once)
        self.assertEqual(check(once)[0], 0)


class Declared(Daemon):
    def setUp(self):
        self.server = self.configured(SENSOR + RULE)
        self.r = self.server.client()
        self.local = self.server.local()
        self.addCleanup(self.r.close)
        self.addCleanup(self.local.close)

    def sensor(self, ref="core.timer"):
        return pairs(self.r.execute_command("SENSOR", "INFO", ref))

    def rules(self):
        rules = [pairs(rule) for rule in pairs(self.r.execute_command("RULE", "LIST"))["rules"]]
        return {rule["id"]: (rule["trigger"], rule["enabled"]) for rule in rules}

    def test_they_are_there_when_the_server_is(self):
        sensor = self.sensor()
        self.assertEqual((sensor["trigger"], sensor["enabled"], sensor["wanted"]), ("core.tick", 1, 0))
        self.assertEqual(json.loads(sensor["spec"]), DESCRIPTION)
        self.assertEqual(self.rules(), {"r1": ("core.tick", 0)})

    def test_what_is_as_declared_is_not_written_again(self):
        before = self.server.lsn()
        line = self.server.reload()
        self.assertIn("sensors_set=0 sensors_refused=0 rules_set=0 rules_refused=0", line)
        spaced = json.dumps(dict(reversed(DESCRIPTION.items())), indent=2)
        self.local.execute_command("SENSOR", "SET", "core.timer", "core.tick", spaced)
        self.assertIn("sensors_set=0", self.server.reload())
        self.assertEqual(self.server.lsn(), before + 1)

    def test_metadata_of_a_rule_is_set_where_it_is_declared(self):
        def meta(rule):
            return pairs(self.r.execute_command("RULE", "INFO", rule)).get("meta")
        self.server.write(SENSOR + RULE + 'meta = {"seconds": 5, "x": "a; b # c"}\n')
        self.assertIn("rules_set=1 rules_refused=0", self.server.reload())
        self.assertEqual(json.loads(meta("r1")), {"seconds": 5, "x": "a; b # c"})
        self.assertIn("rules_set=0", self.server.reload())
        self.r.execute_command("RULE", "SET", "r1", "core.tick", "DISABLED", "META", '{"seconds": 6}')
        self.assertIn("rules_set=1", self.server.reload())
        self.assertEqual(json.loads(meta("r1"))["seconds"], 5)
        self.server.write(SENSOR + RULE)  # a file that does not declare metadata leaves it
        self.assertIn("rules_set=0", self.server.reload())
        self.assertEqual(json.loads(meta("r1"))["seconds"], 5)

    def test_defaults_of_sensors_change_with_a_reload(self):
        text = "[sensor s]\ntrigger = t\ncommand = /bin/sleep 1000\n" \
            "[sensors]\nsensor_settle_seconds = %s\nsensor_token_env = %s\n" \
            "sensor_max_restarts = %s\n"
        server = self.configured(text % ("3600", "FIRST", 7) + "[rule r]\ntrigger = t\n")
        with server.client() as r:
            def pid(other_than=None):
                status = pairs(r.execute_command("SENSOR", "STATUS", "s"))
                return status["state"] == "running" and status["pid"] != other_than and status["pid"]

            def variables(of):
                with open("/proc/%d/environ" % of, encoding="ascii") as file:
                    return {line.split("=")[0] for line in file.read().split("\0")}
            first = until(pid, "it runs")
            self.assertIn("FIRST", variables(first))
            line = server.reload(text % ("0.05", "SECOND", 7))
            self.assertIn("changed=sensor_settle_seconds,sensor_token_env needs_restart=none", line)
            self.assertEqual(pid(), first)  # what runs goes on
            r.execute_command("RULE", "DISABLE", "r")
            until(lambda: not pid(), "it stops within the new time")
            r.execute_command("RULE", "ENABLE", "r")
            second = until(pid, "it runs again")
            self.assertIn("SECOND", variables(second))
            self.assertNotIn("FIRST", variables(second))
            self.assertIn("changed=none ", server.reload())
            self.assertEqual(pid(), second)

    def test_what_differs_is_set_and_what_is_not_declared_is_left_alone(self):
        self.local.execute_command("SENSOR", "SET", "other", "t", '{"command":["/bin/true"]}', "DISABLED")
        self.r.execute_command("RULE", "SET", "r2", "t", "DISABLED")
        self.r.execute_command("RULE", "SET", "r1", "elsewhere", "DISABLED")
        line = self.server.reload(SENSOR.replace("--every 5", "--every 6") + RULE)
        self.assertIn("sensors_set=1 sensors_refused=0 rules_set=1", line)
        self.assertEqual(json.loads(self.sensor()["spec"])["command"][-1], "6")
        self.assertEqual(self.rules(), {"r1": ("core.tick", 0), "r2": ("t", 0)})
        self.assertIn("sensors_set=0", self.server.reload(""))
        self.assertEqual([self.sensor("other")["enabled"], self.sensor()["trigger"]], [0, "core.tick"])

    def test_who_does_not_say_whether_it_is_enabled_leaves_that_to_commands(self):
        self.r.execute_command("SENSOR", "DISABLE", "core.timer")
        self.server.reload(SENSOR.replace("--every 5", "--every 7") + RULE)
        self.assertEqual(self.sensor()["enabled"], 0)
        self.server.reload(SENSOR + "enabled = yes\n" + RULE)
        self.assertEqual(self.sensor()["enabled"], 1)
        self.r.execute_command("SENSOR", "DISABLE", "core.timer")
        self.server.reload()
        self.assertEqual(self.sensor()["enabled"], 1)

    def test_a_restart_finds_them_as_they_are(self):
        before = self.server.lsn()
        self.server.stop()
        self.server.start()
        self.assertEqual(self.server.lines("sensor_declared")[1:], [])
        self.assertEqual(self.server.lsn(), before)

    def test_what_is_refused_is_logged_and_the_rest_is_done(self):
        self.server.stop()
        self.server.flags += ("--rules-max", "1")
        self.server.start()
        self.server.reload(SENSOR + RULE + "[rule r2]\ntrigger = x\n[sensor s2]\ntrigger = x\n"
                           "command = /bin/true\nenabled = no\n")
        self.assertIn("result=DEMAND_FULL", self.server.lines("rule_refused")[0])
        self.r = self.server.client()
        self.assertEqual(self.sensor("s2")["trigger"], "x")
        with self.assertRaises(redis.ResponseError):
            self.sensor("s3")


class Running(SensorCase):
    """Declared sensors run."""

    def setUp(self):
        super().setUp()
        self.config = self.path("conf")
        self.server.flags += ("--config", self.config)

    def declare(self, mode, enabled):
        with open(self.config, "w", encoding="utf-8") as file:
            file.write("[sensor s]\ntrigger = t\ncommand = %s %s\nenv.SENSOR_MARK = %s\n"
                       "settle_seconds = 0\nstop_seconds = 0.2\n[rule r]\ntrigger = t\nenabled = %s\n"
                       % (DUMMY, mode, self.mark, "yes" if enabled else "no"))

    def test_from_the_start_through_reloads_to_the_end(self):
        self.declare("obey", True)
        self.again(signal.SIGTERM)
        first = self.reaches("s", "running")
        self.declare("ignore-term", True)
        self.server.process.send_signal(signal.SIGHUP)
        second = until(lambda: self.status("s")["starts"] == 2 and self.reaches("s", "running"),
                       "what the file says now is run")
        self.assertEqual([processes(first["pid"]), self.ours()], [False, [second["pid"]]])
        self.declare("ignore-term", False)
        self.server.process.send_signal(signal.SIGHUP)
        self.reaches("s", "stopped")
        self.assertEqual(self.ours(), [])


if __name__ == "__main__":
    unittest.main()
