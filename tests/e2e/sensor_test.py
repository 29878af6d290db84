#!/usr/bin/env python3
"""Sensors: real processes that run while a rule wants them. The cases that the design of the
lifecycle names, under their names, and misbehaving processes."""
import json
import os
import pwd
import resource
import signal
import subprocess
import time
import unittest

from harness import BUILD, PATIENCE, nobody_may_run, pairs, text_of, until
from sensors import DUMMY, SensorCase, call, metrics, processes, totals


class Lifecycle(SensorCase):
    """Unit cases of the design: state is a function of the enabled rules."""

    def test_sensor_starts_with_active_rules(self):
        self.sensor("s")
        self.assertEqual(self.status("s")["state"], "stopped")
        status = self.runs("s")
        self.assertTrue(processes(status["pid"]))
        self.assertEqual([status["active_rules"], status["starts"], status["wanted"]], [1, 1, 1])
        lease = pairs(self.do("LEASE", status["lease"]))
        self.assertEqual([lease["state"], lease["epoch"]], ["active", status["epoch"]])
        self.assertEqual(self.live(self.token("s")), True)

    def test_sensor_stops_when_last_rule_disabled(self):
        self.sensor("s")
        status = self.runs("s")
        token = self.token("s")
        self.is_as_it_stays(status["pid"])
        self.want("s", wanted=False)
        stopped = self.reaches("s", "stopped")
        self.assertFalse(processes(status["pid"]))
        self.assertEqual(self.live(token), "stale")
        self.assertEqual([stopped["stops"], stopped["crashes"], stopped["last_exit_code"],
                          stopped["last_reason"]], [1, 0, 0, "no_rules"])
        self.assertFalse(os.path.exists(self.server.data + "/data/sensors/s/token"))
        self.assertEqual(pairs(self.do("LEASE", status["lease"]))["state"], "revoked")

    def test_the_list_says_which_of_them_run(self):
        self.sensor("s")
        self.sensor("other")
        self.runs("s")
        listed = [pairs(one) for one in pairs(self.do("SENSOR", "LIST"))["sensors"]]
        self.assertEqual({one["ref"]: one["state"] for one in listed},
                         {"s": "running", "other": "stopped"})
        self.assertEqual(pairs(self.do("SENSOR", "INFO", "s"))["state"], "running")
        out = subprocess.run([os.path.join(BUILD, "tenure"), "--port", str(self.server.port), "sensor",
                              "list"], capture_output=True, text=True, timeout=PATIENCE, check=True)
        self.assertRegex(out.stdout, r"SENSOR +STATE +TRIGGER(.*\n)+.*s +running +s.trigger")

    def test_sensor_remains_stopped_without_rules(self):
        self.sensor("s")
        self.sensor("other")
        self.do("RULE", "SET", "r", "s.trigger", "DISABLED")
        other = self.runs("other")  # whatever was to be done for the first is done by now
        self.assertEqual([self.status("s")["state"], self.status("s")["starts"]], ["stopped", 0])
        self.assertEqual(self.ours(), [other["pid"]])

    def test_sensor_continues_running_with_rules(self):
        self.sensor("s")
        status = self.runs("s")
        for i in range(5):
            self.do("RULE", "SET", "more%d" % i, "s.trigger")
        for i in range(5):
            self.do("RULE", "DELETE", "more%d" % i)
        self.sensor("other")
        self.runs("other")
        now = self.status("s")
        self.assertEqual([now["state"], now["pid"], now["starts"], now["active_rules"]],
                         ["running", status["pid"], 1, 1])

    def test_multiple_rules_same_trigger(self):
        self.sensor("s")
        self.want("s", "r1")
        self.want("s", "r2")
        pid = self.reaches("s", "running")["pid"]
        self.want("s", "r1", False)
        self.sensor("other")
        self.runs("other")
        self.assertEqual([self.status("s")["state"], self.status("s")["pid"]], ["running", pid])
        self.want("s", "r2", False)
        self.assertEqual(self.reaches("s", "stopped")["starts"], 1)


class Whole(SensorCase):
    """Integration cases of the design."""

    def test_end_to_end_lifecycle(self):
        self.sensor("core.timer", DUMMY, "print", 640)
        status = self.runs("core.timer")
        token = self.token("core.timer")
        code, answer = self.emit(token, "core.timer.trigger", {"n": 1})
        self.assertEqual(code, 200, answer)
        self.assertEqual(self.emit(token, "another.trigger")[0], 403)
        self.assertEqual(self.emit("x" + token, "core.timer.trigger")[0], 401)
        self.assertEqual(call(self.server, "POST", "/v1/events/emit", {"trigger_type": "t"})[0], 401)
        emitted = self.events("sensor.emitted")
        self.assertEqual([emitted[0]["id"], emitted[0]["trigger"]],
                         [answer["id"], "core.timer.trigger"])
        self.assertEqual(json.loads(emitted[0]["payload"]), {"n": 1})
        until(lambda: self.status("core.timer")["emitted"] == 1, "the event is counted")

        self.want("core.timer", wanted=False)
        self.reaches("core.timer", "stopped")
        self.assertEqual(self.emit(token, "core.timer.trigger")[0], 401)
        self.assertEqual(len(self.events("sensor.emitted")), 1)

        second = self.runs("core.timer")
        self.assertGreater([second["epoch"], second["lease"]], [0, ""])
        self.assertNotEqual(second["pid"], status["pid"])
        self.assertEqual([self.live(token), self.live(self.token("core.timer"))], ["stale", True])
        until(lambda: len(self.events("sensor.started", "sensor.stopped")) == 3, "what is reported")
        kinds = [event["kind"] for event in self.events("sensor.started", "sensor.stopped")]
        self.assertEqual(kinds, ["sensor.started", "sensor.stopped", "sensor.started"])
        stopped = self.lines("sensor_stopped")[0]
        self.assertIn("sensor=core.timer", stopped)
        self.assertIn("reason=no_rules", stopped)
        self.assertNotIn(token.split(".")[2], text_of(self.server.log.name))

    def toggle(self, window, *states):
        """All at once: they end long before the window does, unless the machine stands still."""
        began = time.monotonic()
        pipe = self.r.pipeline(transaction=False)
        for wanted in states:
            pipe.execute_command("RULE", "ENABLE" if wanted else "DISABLE", "rule.s")
        pipe.execute()
        if time.monotonic() - began >= window:
            self.skipTest("they took longer than the window")

    def test_rapid_rule_toggling(self):
        self.sensor("s", settle_seconds=5)
        self.want("s")
        self.toggle(5, *[False, True] * 50)
        self.reaches("s", "running")
        self.toggle(5, *[False, True] * 50)
        self.sensor("other")
        self.runs("other")
        status = self.status("s")
        self.assertEqual([status["starts"], status["stops"]], [1, 0])

    def test_sensor_crash_handling(self):
        self.sensor("s")
        first = self.runs("s")
        token = self.token("s")
        os.kill(first["pid"], signal.SIGKILL)
        second = until(lambda: self.status("s")["starts"] == 2 and self.reaches("s", "running"),
                       "it is started again")
        self.assertEqual([second["crashes"], second["restarts"], second["last_exit_signal"]],
                         [1, 1, signal.SIGKILL])
        self.assertEqual([self.live(token), self.live(self.token("s"))], ["stale", True])
        self.assertIn("attempt=1", self.lines("sensor_crashed")[0])
        self.assertNotEqual((second["lease"], second["epoch"]), (first["lease"], first["epoch"]))

    def test_database_connectivity_loss(self):
        """Nothing can be committed any more: the sensors are stopped, and the server ends."""
        pids = [self.runs(self.sensor("s%d" % i))["pid"] for i in range(3)]
        resource.prlimit(self.server.process.pid, resource.RLIMIT_FSIZE, (0, 0))
        try:
            self.do("RULE", "SET", "x", "y")
        except Exception as refusal:  # unknown or refused: it is the end that counts
            self.assertIsNotNone(refusal)
        self.assertEqual(self.server.process.wait(PATIENCE), 1)
        until(lambda: not any(processes(pid) for pid in pids), "the sensors are dead")
        self.server.log.close()
        self.server.start()
        self.r = self.server.client()
        for i in range(3):
            self.reaches("s%d" % i, "running")


class NoSpace(SensorCase):
    """A full disk: a tmpfs that every machine has, and a file that fills it up to the reserve of the
    server."""
    ROOM = 16 << 20

    def setUp(self):
        self.shm = "/dev/shm/tenure-e2e-%d" % os.getpid()
        free = os.statvfs("/dev/shm")
        reserve = free.f_bavail * free.f_frsize - self.ROOM
        self.flags = ("--data", self.shm, "--segment-bytes", "65536", "--space-reserve-bytes",
                      str(reserve))
        super().setUp()

    def leave(self):
        try:
            super().leave()
        finally:
            for directory, _, names in os.walk(self.shm, topdown=False):
                for name in names:
                    os.unlink(os.path.join(directory, name))
                os.rmdir(directory)

    def token(self, ref):
        return text_of(os.path.join(self.shm, "sensors", ref, "token")).strip()

    def fill(self):
        with open(os.path.join(self.shm, "fill"), "wb") as file:
            os.posix_fallocate(file.fileno(), 0, 2 * self.ROOM)
        for i in range(100000):
            try:
                self.do("RULE", "SET", "filler", "t%d" % (i % 2), "DISABLED")
            except Exception as refusal:
                self.assertTrue(str(refusal).startswith("NOSPACE"), refusal)
                return
        self.fail("the disk is not full")

    def test_token_revocation_failure(self):
        """The revoke is refused: the process is still stopped, its resource stays taken, and the
        revoke is tried again until it is committed."""
        self.sensor("s")
        first = self.runs("s")
        token = self.token("s")
        self.fill()
        self.do("SENSOR", "RESTART", "s")
        until(lambda: not processes(first["pid"]), "it is dead though nothing could be written")
        self.assertEqual(self.status("s")["state"], "stopping")
        self.assertEqual(self.live(token), True)  # nobody could say otherwise
        os.unlink(os.path.join(self.shm, "fill"))
        until(lambda: self.live(token) == "stale", "the revoke is committed")
        second = self.reaches("s", "running")
        self.assertEqual([second["starts"], self.live(self.token("s"))], [2, True])


class Manners(SensorCase):
    """Sensors that do not end, or do not stay alive."""

    def ends(self, ref, count):
        """Stops a sensor with this number of processes; none is left."""
        self.want(ref)
        until(lambda: len(self.ours()) == count, "%d processes" % count)
        self.is_as_it_stays(self.reaches(ref, "running")["pid"])
        self.want(ref, wanted=False)
        status = self.reaches(ref, "stopped")
        self.assertEqual(self.ours(), [])
        return status

    def test_one_that_ignores_sigterm_is_killed(self):
        self.sensor("s", DUMMY, "ignore-term", stop_seconds=0.2)
        self.assertEqual(self.ends("s", 1)["last_exit_signal"], signal.SIGKILL)

    def test_children_that_ignore_sigterm_are_killed(self):
        self.sensor("s", DUMMY, "fork-ignore", 5, stop_seconds=0.2)
        self.assertEqual(self.ends("s", 6)["crashes"], 0)

    def test_a_daemon_is_found_and_killed(self):
        """It has closed its descriptors, has a session of its own and ignores SIGTERM."""
        self.sensor("s", "/bin/sh", "-c", "%s daemonise; exec %s obey" % (DUMMY, DUMMY),
                    stop_seconds=0.2)
        self.assertEqual(self.ends("s", 2)["crashes"], 0)

    def test_a_sensor_that_becomes_a_daemon_has_crashed(self):
        """Its first process has ended; the processes that it has left must be dead before the next run is started."""
        self.sensor("s", DUMMY, "daemonise", max_restarts=3)
        self.want("s")
        self.assertEqual(self.reaches("s", "error")["starts"], 4)
        self.assertEqual(self.ours(), [])

    def test_a_crash_loop_ends_in_error_until_it_is_reset(self):
        self.sensor("s", DUMMY, "exit", 3, max_restarts=3)
        self.want("s")
        status = self.reaches("s", "error")
        self.assertEqual([status["starts"], status["crashes"], status["last_exit_code"]], [4, 4, 3])
        self.assertEqual(len(self.lines("sensor_crashed")), 4)
        until(lambda: len(self.events("sensor.error")) == 1, "the event")
        self.do("SENSOR", "RESET", "s")
        until(lambda: self.status("s")["starts"] == 8 and self.reaches("s", "error"), "four more")
        self.do("RULE", "SET", "another", "s.trigger")
        until(lambda: self.status("s")["starts"] == 12 and self.reaches("s", "error"), "four more")
        self.sensor("s")
        self.assertEqual(self.reaches("s", "running")["starts"], 13)

    def test_one_that_cannot_be_started_says_why(self):
        self.sensor("s", "/no/such/program", max_restarts=1)
        self.want("s")
        status = self.reaches("s", "error")
        self.assertIn("exec", status["last_error"])
        self.assertIn("step=exec", self.lines("sensor_start_failed")[0])

    def test_a_changed_description_restarts_it(self):
        self.sensor("s")
        first = self.runs("s")
        self.sensor("s", DUMMY, "ignore-term", stop_seconds=0.1)
        second = until(lambda: self.status("s")["starts"] == 2 and self.reaches("s", "running"),
                       "the changed one runs")
        self.assertFalse(processes(first["pid"]))
        self.do("SENSOR", "DISABLE", "s")
        self.assertEqual(self.reaches("s", "stopped")["last_reason"], "disabled")
        self.assertFalse(processes(second["pid"]))

    def test_one_that_is_deleted_ends(self):
        self.sensor("s")
        status = self.runs("s")
        self.do("SENSOR", "DELETE", "s")
        until(lambda: not processes(status["pid"]), "it is dead")
        until(lambda: "sensors/s" not in str(self.do("LEASES", "POOL", "sensors")), "no lease")
        self.sensor("s")
        self.assertNotEqual(self.reaches("s", "running")["pid"], status["pid"])

    def test_an_operator_who_revokes_its_lease_ends_it(self):
        self.sensor("s")
        status = self.runs("s")
        self.do("TOKEN", "REVOKE", "%s.%s" % (status["lease"], status["epoch"]))
        second = until(lambda: self.status("s")["starts"] == 2 and self.reaches("s", "running"),
                       "it runs with another lease")
        self.assertEqual([processes(status["pid"]), second["lease"] == status["lease"]],
                         [False, False])

    def test_the_server_that_is_stopped_stops_them_first(self):
        pids = [self.runs(self.sensor("s%d" % i))["pid"] for i in range(3)]
        tokens = [self.token("s%d" % i) for i in range(3)]
        self.again(signal.SIGTERM)
        self.assertEqual(len([line for line in self.lines("sensor_stopped")
                              if "reason=shutdown" in line]), 3)
        self.assertEqual([processes(pid) for pid in pids], [False] * 3)
        self.assertEqual([self.live(token) for token in tokens], ["stale"] * 3)
        for i in range(3):
            self.reaches("s%d" % i, "running")


class Surroundings(SensorCase):
    keep = True

    def shown(self, ref):
        path = os.path.join(self.server.data, "data", "sensors", ref)

        def read():
            logs = sorted(name for name in os.listdir(path) if name.startswith("log."))
            text = "".join(text_of(os.path.join(path, name)) for name in logs)
            return text if "env TENURE_RUN=" in text else None
        return until(read, "what it shows")

    def test_environment_descriptors_and_session(self):
        os.environ["LEAKED"] = "secret"
        self.addCleanup(os.environ.pop, "LEAKED")
        self.again(signal.SIGTERM)
        self.sensor("s", DUMMY, "show", cwd="/usr", env={"A": "b c"}, token_env="ATTUNE_API_TOKEN",
                    limits={"nofile": 77, "core_bytes": 0})
        status = self.runs("s")
        lines = self.shown("s").splitlines()
        env = dict(line[4:].split("=", 1) for line in lines if line.startswith("env "))
        run = "%s.%s" % (status["lease"], status["epoch"])
        self.assertEqual([env["A"], env["TENURE_SENSOR"], env["TENURE_TRIGGER"], env["TENURE_RUN"],
                          env["TENURE_API_URL"]],
                         ["b c", "s", "s.trigger", run,
                          "http://127.0.0.1:%d" % self.server.http_port])
        self.assertNotIn("LEAKED", env)
        self.assertNotIn("TENURE_TOKEN", env)
        me = pwd.getpwuid(os.geteuid()).pw_name
        self.assertEqual([env["USER"], env["LOGNAME"], env["TENURE_TOKEN_ENV"]],
                         [me, me, "ATTUNE_API_TOKEN"])
        self.assertEqual(self.live(env["ATTUNE_API_TOKEN"]), True)
        self.assertEqual(text_of(env["TENURE_TOKEN_FILE"]).strip(), env["ATTUNE_API_TOKEN"])
        self.assertEqual(os.stat(env["TENURE_TOKEN_FILE"]).st_mode & 0o777, 0o600)
        self.assertEqual([line for line in lines if line.startswith("fd ")],
                         ["fd 0 /dev/null", "fd 1 pipe", "fd 2 pipe"])
        self.assertIn("limit nofile 77 77", lines)
        self.assertIn("limit core 0 0", lines)
        self.assertIn("cwd /usr", lines)
        self.assertIn("leads 1", lines)
        with open("/proc/%d/cmdline" % status["pid"], "rb") as file:
            self.assertNotIn(env["ATTUNE_API_TOKEN"].encode(), file.read())

    @unittest.skipUnless(os.geteuid() == 0, "only root can become somebody else")
    def test_another_user(self):
        if not nobody_may_run(DUMMY):
            self.skipTest("nobody else may run it")
        for directory in (self.directory, self.server.data + "/data"):
            os.chmod(directory, 0o755)
        self.sensor("s", DUMMY, "show", user="nobody")
        self.runs("s")
        lines = self.shown("s").splitlines()
        self.assertIn("user 65534 65534", lines)
        self.assertIn("env USER=nobody", lines)
        self.assertIn("env LOGNAME=nobody", lines)
        self.sensor("bad", user="no-such-user", max_restarts=0)
        self.want("bad")
        self.assertIn("user", self.reaches("bad", "error")["last_error"])

    def test_output_is_kept_and_can_be_read_on(self):
        go = self.path("go")
        self.sensor("s", DUMMY, "print-on", go, 64 * 1000, log_bytes=16384, log_files=3)
        self.runs("s")
        first = pairs(self.do("SENSOR", "LOGS", "s"))
        self.assertEqual(first["output"], "")
        open(go, "w").close()
        got, position = "", first["next"]
        while "999 " not in got:
            page = pairs(self.do("SENSOR", "LOGS", "s", "AFTER", position))
            # What came before a gap that was told proves nothing about what comes after it.
            got, position = ("" if page["lost"] else got) + page["output"], page["next"]
        numbers = [int(line.split()[0]) for line in got.splitlines() if line.endswith("|")]
        self.assertEqual(numbers, list(range(numbers[0], 1000)))
        kept = os.listdir(os.path.join(self.server.data, "data", "sensors", "s"))
        self.assertLessEqual(len([name for name in kept if name.startswith("log.")]), 3)

    def test_output_is_followed_from_run_to_run_and_over_a_restart_of_the_server(self):
        self.sensor("s", "/bin/sh", "-c", "echo run $TENURE_RUN; exec %s obey" % DUMMY)
        first = self.runs("s")
        follower = subprocess.Popen([os.path.join(BUILD, "tenure"), "--port", str(self.server.port),
                                     "sensor", "logs", "s", "--follow"], stdout=subprocess.PIPE,
                                    stderr=subprocess.DEVNULL, text=True)
        try:
            def run_of(status):
                return "run %s.%s\n" % (status["lease"], status["epoch"])
            self.assertEqual(follower.stdout.readline(), run_of(first))
            self.do("SENSOR", "RESTART", "s")
            second = until(lambda: self.status("s")["starts"] == 2 and self.reaches("s", "running"),
                           "it is started again")
            self.assertEqual(follower.stdout.readline(), run_of(second))
            self.again(signal.SIGTERM)
            self.assertEqual(follower.stdout.readline(), run_of(self.reaches("s", "running")))
        finally:
            follower.kill()
            follower.wait(PATIENCE)
            follower.stdout.close()


class Health(SensorCase):
    def unhealthy(self, **health):
        self.sensor("s", max_restarts=1, health=dict({"interval_seconds": 0.05, "timeout_seconds": 20,
                                                      "threshold": 2}, **health))
        self.want("s")
        status = self.reaches("s", "error")
        self.assertEqual([status["starts"], status["crashes"], status["last_reason"]],
                         [2, 2, "unhealthy"])
        self.assertEqual(self.ours(), [])

    def healthy(self, good, **health):
        """`good` reports that it is asked repeatedly."""
        self.sensor("s", health=dict({"interval_seconds": 0.05, "timeout_seconds": 20, "threshold": 2},
                                     **health))
        self.runs("s")
        until(good, "it is asked")
        self.assertEqual(self.status("s")["crashes"], 0)

    def test_a_command_that_fails(self):
        self.unhealthy(command=["/bin/false"])

    def test_a_command_that_hangs(self):
        self.unhealthy(command=["/bin/sleep", "1000"], timeout_seconds=0.1)

    def test_a_command_that_succeeds(self):
        asked = self.path("asked")
        self.healthy(lambda: os.path.exists(asked) and len(text_of(asked)) > 10,
                     command=["/bin/sh", "-c", "echo x >> %s" % asked])

    def test_a_page_that_is_there_and_one_that_is_not(self):
        page = "http://127.0.0.1:%d/livez" % self.server.http_port

        def asked():  # each of these questions is an answer of 200 too
            count = [line.rsplit(" ", 1)[1] for line in metrics(self.server).splitlines()
                     if line.startswith('tenure_server_http_responses_total{status="200"}')]
            looked.append(int(count[0]) if count else 0)
            return looked[-1] > len(looked) + 5
        looked = []
        self.healthy(asked, http=page)
        self.want("s", wanted=False)
        self.reaches("s", "stopped")
        self.sensor("other", max_restarts=1,
                    health={"http": page + "/none", "interval_seconds": 0.05, "threshold": 2})
        self.want("other")
        self.assertEqual(self.reaches("other", "error")["last_reason"], "unhealthy")

    def test_a_heart_that_does_not_beat(self):
        self.unhealthy(heartbeat=True, timeout_seconds=0.1)

    def test_a_heart_that_beats(self):
        self.sensor("s", health={"heartbeat": True, "interval_seconds": 20, "threshold": 4})
        self.runs("s")
        token = self.token("s")
        for _ in range(20):
            self.assertEqual(call(self.server, "POST", "/v1/sensors/heartbeat", {}, token)[0], 200)
        self.assertEqual(self.status("s")["crashes"], 0)
        self.assertEqual(call(self.server, "POST", "/v1/sensors/heartbeat", {}, "no")[0], 401)


class Metrics(SensorCase):
    def test_the_seven(self):
        self.sensor("good")
        self.runs("good")
        self.want("good", wanted=False)
        self.reaches("good", "stopped")
        self.sensor("bad", DUMMY, "exit", 1, max_restarts=2)
        self.want("bad")
        self.reaches("bad", "error")
        self.sensor("runs")
        self.runs("runs")
        found = totals(self.server)
        expected = {"tenure_sensors_running": 1, "tenure_sensor_starts_total": 5,
                    "tenure_sensor_stops_total": 4, "tenure_sensor_crashes_total": 3,
                    "tenure_sensor_tokens_issued_total": 5, "tenure_sensor_tokens_revoked_total": 4,
                    'tenure_sensors{state="error"}': 1, 'tenure_sensors{state="stopped"}': 1,
                    'tenure_sensor_restart_attempts_bucket{le="1"}': 1,
                    'tenure_sensor_restart_attempts_bucket{le="2"}': 2,
                    'tenure_sensor_restart_attempts_bucket{le="+Inf"}': 2,
                    "tenure_sensor_restart_attempts_count": 2,
                    "tenure_sensor_restart_attempts_sum": 3}
        self.assertEqual({name: found[name] for name in expected}, expected)


if __name__ == "__main__":
    unittest.main()
