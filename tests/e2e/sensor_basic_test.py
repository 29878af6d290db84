"""Sensors: real processes that run while rules need them. The basic promises; other tests have
misbehaving sensors."""
# tsan
import http.server
import json
import os
import signal
import threading
import time
import unittest

import redis

from harness import BUILD, TENURED, WITHOUT_PROC, Server, pairs, runs_without_proc, text_of, until
from sensors import processes

# Appends its pid and its epoch's run when it starts, and the word when it is asked to stop.
SCRIPT = """
trap 'echo stop >> "$OUT"; exit 0' TERM
printf %s "$TENURE_TOKEN" > "$OUT.token"
echo "start $$ $TENURE_RUN" >> "$OUT"
while :; do sleep 0.05; done
"""


class Sensors(unittest.TestCase):
    flags = ("--sensor-settle-seconds", "0.1", "--sensor-stop-seconds", "60",
             "--sensor-backoff-seconds", "0.05", "--sensor-backoff-max-seconds", "0.2")

    def setUp(self):
        self.server = Server(None, *self.flags)
        self.r = self.server.local()
        self.addCleanup(self.server.remove)
        self.addCleanup(self.r.close)
        self.out = os.path.join(self.server.data, "out")

    def do(self, *words):
        return self.r.execute_command(*words)

    def spec(self, script=SCRIPT, **more):
        return json.dumps({"command": ["/bin/sh", "-c", script], "env": {"OUT": self.out}, **more})

    def begin(self, script=SCRIPT, **more):
        self.do("SENSOR", "SET", "s", "t", self.spec(script, **more))
        self.do("RULE", "SET", "r", "t")

    def lines(self, word):
        got = text_of(self.out).splitlines() if os.path.exists(self.out) else []
        return [line.split() for line in got if line.startswith(word)]

    def started(self, count):
        return until(lambda: len(self.lines("start")) >= count and self.lines("start")[count - 1],
                     "start number %d" % count)

    def lease(self):
        try:
            return pairs(self.do("LEASE", "sensors/s"))
        except redis.ResponseError:
            return None

    def logged(self, *words):
        lines = text_of(self.server.log.name).splitlines()
        return [line for line in lines if all(word in line for word in words)]

    def said(self, *words):
        return until(lambda: self.logged(*words), "a line with %s" % " ".join(words))

    def events(self, kind):
        reply = pairs(self.do("EVENTS", "COUNT", "1000"))
        return [e for e in map(pairs, reply["events"]) if e["kind"] == kind]

    def verdict(self):
        return pairs(self.do("TOKEN", "INTROSPECT", text_of(self.out + ".token")))

    def restart(self, number):
        self.server.stop(number)
        self.server.start()
        self.r = self.server.local()

    def test_it_runs_from_the_first_enabled_rule_to_the_last(self):
        self.do("SENSOR", "SET", "s", "t", self.spec())
        self.do("RULE", "SET", "a", "t", "DISABLED")
        self.do("RULE", "SET", "other", "u")
        self.assertIsNone(self.lease())
        self.do("RULE", "ENABLE", "a")
        _, pid, run = self.started(1)
        lease = self.lease()
        self.assertEqual(lease["state"], "active")
        self.assertEqual(run, "%s.%s" % (lease["lease"], lease["epoch"]))
        until(lambda: self.verdict()["active"], "a token that lives")
        self.do("RULE", "SET", "b", "t")
        self.do("RULE", "DELETE", "a")
        self.do("RULE", "DISABLE", "b")
        until(lambda: self.lease() is None, "the lease's end")
        self.assertFalse(processes(int(pid)))
        self.assertFalse(self.verdict()["active"])
        self.assertEqual(len(self.lines("start")), 1)
        self.assertEqual(len(self.lines("stop")), 1)
        self.said("event=sensor_stopped", "reason=no_rules", "token_revoked=yes", "exit_code=0")

    def toggle(self, window, *last):
        """All at once: they end long before the window does, unless the machine stands still."""
        began = time.monotonic()
        pipe = self.r.pipeline(transaction=False)
        for _ in range(50):
            pipe.execute_command("RULE", "DISABLE", "r")
            pipe.execute_command("RULE", "ENABLE", "r")
        pipe.execute_command(*last)
        pipe.execute()
        if time.monotonic() - began >= window:
            self.skipTest("they took longer than the window")

    def test_toggles_are_settled(self):
        self.begin(settle_seconds=5)
        self.toggle(5, "PING")
        self.started(1)
        self.toggle(5, "SENSOR", "DISABLE", "s")
        self.said("event=sensor_stopped", "reason=disabled")
        self.assertEqual(len(self.lines("start")), 1)

    def test_stopping_the_server_stops_sensors_and_a_start_starts_them(self):
        self.begin()
        _, pid, first = self.started(1)
        self.server.stop()
        self.assertEqual(self.server.process.returncode, 0)
        self.assertFalse(processes(int(pid)))
        self.assertEqual(len(self.lines("stop")), 1)
        self.assertTrue(self.logged("event=sensor_stopped", "reason=shutdown", "token_revoked=yes"))
        self.server.start()
        self.r = self.server.local()
        _, _, second = self.started(2)
        self.assertNotEqual(first, second)
        until(lambda: len(self.events("sensor.started")) == 2, "the second event")
        self.assertEqual(len(self.events("sensor.stopped")), 1)

    def test_a_killed_server_leaves_nothing_and_its_run_is_over_before_the_next(self):
        self.begin()
        _, pid, _ = self.started(1)
        token = text_of(self.out + ".token")
        self.restart(signal.SIGKILL)
        self.started(2)
        self.assertFalse(processes(int(pid)))
        self.assertFalse(pairs(self.do("TOKEN", "INTROSPECT", token))["active"])
        self.said("event=sensor_stopped", "reason=orphaned")

    def test_crashes_are_restarted_and_in_the_end_an_error_that_a_rule_clears(self):
        self.begin("echo start $$ >> $OUT; exit 3", max_restarts=2)
        self.said("event=sensor_error", "reason=crashed")
        self.assertEqual(len(self.lines("start")), 3)
        crashed = self.logged("event=sensor_crashed", "exit_code=3")
        self.assertEqual([("attempt=%d " % n) in line + " " for n, line in enumerate(crashed, 1)],
                         [True] * 3)
        until(lambda: self.lease() is None, "the lease's end")
        until(lambda: self.events("sensor.error"), "the event")
        self.do("RULE", "SET", "another", "t")
        self.started(4)

    def test_what_cannot_be_started_says_why(self):
        self.do("SENSOR", "SET", "s", "t",
                json.dumps({"command": ["/nowhere/at-all"], "max_restarts": 0}))
        self.do("RULE", "SET", "r", "t")
        self.said("event=sensor_start_failed", "No such file")
        self.said("event=sensor_error")
        until(lambda: self.lease() is None, "the lease's end")

    def test_an_operator_who_revokes_the_lease_gets_another_run(self):
        self.begin()
        _, pid, _ = self.started(1)
        token = text_of(self.out + ".token")
        self.do("REVOKE", self.lease()["lease"])
        self.assertFalse(pairs(self.do("TOKEN", "INTROSPECT", token))["active"])
        self.started(2)
        self.assertFalse(processes(int(pid)))
        self.said("event=sensor_stopped", "reason=token_revoked")

    def test_another_description_replaces_the_run_and_deletion_ends_it(self):
        self.begin()
        self.started(1)
        self.do("SENSOR", "SET", "s", "t", self.spec(cwd="/tmp"))
        self.started(2)
        self.said("event=sensor_stopped", "reason=changed")
        self.do("SENSOR", "DELETE", "s")
        self.said("event=sensor_stopped", "reason=deleted")
        until(lambda: pairs(self.do("POOL", "INFO", "sensors"))["size"] == 0, "an empty pool")
        self.do("SENSOR", "SET", "s", "t", self.spec())
        self.started(3)

    def test_the_token_is_refreshed_in_its_file(self):
        self.begin("trap 'exit 0' TERM; echo start $$ $TENURE_TOKEN_FILE >> $OUT\n"
                   "while :; do sleep 0.05; done", token_ttl_seconds=2)
        path = self.started(1)[2]
        first = text_of(path)
        self.assertEqual(os.stat(path).st_mode & 0o777, 0o600)
        until(lambda: text_of(path) != first and
              pairs(self.do("TOKEN", "INTROSPECT", text_of(path)))["active"], "another token")
        self.assertEqual(len(self.lines("start")), 1)

    def test_the_token_is_in_no_log_and_on_no_command_line(self):
        self.begin()
        _, pid, _ = self.started(1)
        token = text_of(self.out + ".token")
        with open("/proc/%s/cmdline" % pid, "rb") as file:
            self.assertNotIn(token.encode(), file.read())
        with open("/proc/%s/stat" % pid, encoding="ascii") as file:
            guardian = file.read().rsplit(")", 1)[1].split()[1]
        with open("/proc/%s/cmdline" % guardian, "rb") as file:
            self.assertNotIn(token.encode(), file.read())
        self.server.stop()
        self.assertNotIn(token, text_of(self.server.log.name))
        self.server.start()

    def test_a_pool_of_that_name_that_is_not_ours_is_not_used(self):
        self.do("POOL", "CREATE", "sensors", "SET")
        self.do("POOL", "ADD", "sensors", "s")
        self.do("ALLOC", "sensors", "somebody")
        self.begin()
        self.said("event=sensor_waits", "pool=sensors")
        self.assertEqual(self.lease()["holder"], "somebody")
        self.restart(signal.SIGTERM)
        self.assertEqual(self.lease()["state"], "active")
        self.do("RELEASE", self.lease()["lease"], "somebody", "1")
        self.do("POOL", "DROP", "sensors")
        self.started(1)
        self.assertEqual(self.lease()["holder"], "sensor/s")

    def test_it_can_be_switched_off(self):
        server = Server(None, "--sensors", "off", *self.flags)
        self.addCleanup(server.remove)
        r = server.local()
        r.execute_command("SENSOR", "SET", "s", "t", self.spec())
        r.execute_command("RULE", "SET", "r", "t")
        self.assertEqual(server.stop(), 0)
        self.assertFalse(os.path.exists(self.out))


    def test_nothing_is_started_that_could_not_be_proven_dead(self):
        """Without /proc the guardian would look for children forever."""
        if not runs_without_proc(TENURED):
            self.skipTest("needs the right to unmount /proc, and no sanitizer")
        self.begin()
        self.started(1)
        self.server.flags += ("--sensor-guardian", os.path.abspath(os.path.join(BUILD, "tenure-guardian")))
        self.server.before = WITHOUT_PROC
        self.restart(signal.SIGTERM)
        self.said("event=supervisor_off", 'reason="there is no /proc/thread-self/children"')
        self.said("event=sensor_not_started", "sensor=s", "/proc")
        self.assertEqual(len(self.lines("start")), 1)
        self.server.before = ()
        self.restart(signal.SIGTERM)
        self.started(2)


class Health(Sensors):
    """The same kit; only the tests below."""

    def check(self, why, **health):
        """It may be found unhealthy before it has said that it has started."""
        self.begin(health={"interval_seconds": 0.05, "threshold": 2, **health}, max_restarts=1000)
        until(lambda: pairs(self.do("SENSOR", "STATUS", "s"))["starts"] >= 2, "a second run")
        self.said("event=sensor_crashed", "reason=unhealthy")
        self.said("event=sensor_stopped", "reason=unhealthy")

    def test_a_program_says_whether_it_is_well(self):
        bad = os.path.join(self.server.data, "bad")
        self.begin(health={"command": ["/bin/sh", "-c", "! test -e " + bad], "timeout_seconds": 60,
                           "interval_seconds": 0.05, "threshold": 2}, max_restarts=1000)
        self.started(1)
        self.assertEqual(self.logged("unhealthy"), [])
        with open(bad, "w", encoding="ascii"):
            pass
        self.started(2)
        os.unlink(bad)
        self.said("event=sensor_crashed", "reason=unhealthy")

    def test_a_check_that_hangs_is_a_failed_one(self):
        self.check("too long", command=["/bin/sleep", "100"], timeout_seconds=0.05)

    def test_a_heartbeat_that_does_not_come(self):
        self.check("heartbeat", heartbeat=True)

    def test_an_address_that_nobody_answers_at(self):
        self.check("reached", http="http://127.0.0.1:1/")

    def test_an_answer_says_whether_it_is_well(self):
        well = threading.Event()
        asked = threading.Event()
        well.set()

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self):
                asked.set()
                self.send_response(204 if well.is_set() and self.path == "/a?b" else 500)
                self.end_headers()

            def log_message(self, *_):
                pass
        door = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.addCleanup(door.server_close)
        self.addCleanup(door.shutdown)
        threading.Thread(target=door.serve_forever, daemon=True).start()
        self.begin(health={"http": "http://localhost:%d/a?b" % door.server_address[1],
                           "timeout_seconds": 60, "interval_seconds": 0.05, "threshold": 2},
                   max_restarts=1000)
        self.started(1)
        self.assertTrue(asked.wait(60))
        self.assertEqual(self.logged("unhealthy"), [])
        well.clear()
        self.started(2)
        self.said("event=sensor_stopped", "reason=unhealthy")


# Those of the kit are run once.
for name in [n for n in dir(Sensors) if n.startswith("test_")]:
    setattr(Health, name, None)

if __name__ == "__main__":
    unittest.main()
