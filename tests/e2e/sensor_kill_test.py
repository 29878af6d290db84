#!/usr/bin/env python3
"""The server is killed with -9 at random moments while rules are set and deleted. There are never two runs of
one sensor, no process of a dead server survives, no token of an ended run is accepted, and in the end the
wanted sensors run. The numbers are small here; the campaign makes them large."""
import os
import random
import signal
import unittest

import redis

from harness import until
from sensors import DUMMY, SensorCase, processes

SENSORS = int(os.environ.get("SENSOR_TEST_SENSORS", "10"))
KILLS = int(os.environ.get("SENSOR_TEST_KILLS", "5"))
SEED = int(os.environ.get("SENSOR_TEST_SEED", random.randrange(1 << 30)))


class Killed(SensorCase):
    def setUp(self):
        super().setUp()
        self.random = random.Random(SEED)
        self.refs = ["s%d" % i for i in range(SENSORS)]
        self.wanted = dict.fromkeys(self.refs, False)
        self.tokens = {}  # by lease and epoch, of every run that was seen

    def lock(self, ref):
        return self.path(ref + ".lock")

    def toggle(self):
        """Turns a random rule on or off. A command in flight when the server died may have been committed."""
        ref = self.random.choice(self.refs)
        self.wanted[ref] = not self.wanted[ref]
        try:
            self.want(ref, wanted=self.wanted[ref])
        except (redis.ResponseError, redis.ConnectionError):
            self.wanted[ref] = None
            raise

    def look(self):
        """Collects the tokens of the running sensors."""
        for ref in self.refs:
            try:
                token = self.token(ref)
                status = self.status(ref)
                if token and status["state"] == "running":
                    self.tokens[status["lease"], status["epoch"]] = (ref, token)
            except OSError:
                pass  # it does not run

    def check_never_two(self):
        self.assertEqual([ref for ref in self.refs if os.path.exists(self.lock(ref) + ".twice")], [],
                         "two of one sensor, seed %d" % SEED)

    def check_tokens(self):
        """Every collected token is invalid, or soon will be, unless its run is alive."""
        statuses = [self.status(ref) for ref in self.refs]
        now = {(status["lease"], status["epoch"]) for status in statuses if "lease" in status
               and status["state"] in ("starting", "running")}
        for run, (ref, token) in self.tokens.items():
            if run not in now:
                until(lambda: self.live(token) is not True, "%s of %s is dead" % (run, ref))
                self.assertEqual(self.emit(token, ref + ".trigger")[0], 401, (ref, run, SEED))

    def settle(self):
        """All wanted sensors run, one process each; no others do."""
        for ref in self.refs:
            self.want(ref, wanted=True)
            if not self.wanted[ref]:
                self.want(ref, wanted=False)
        for ref in self.refs:
            self.reaches(ref, "running" if self.wanted[ref] else "stopped")
        until(lambda: sorted(self.ours()) == sorted(
            self.status(ref).get("pid", 0) for ref in self.refs if self.wanted[ref]),
              "one process each, seed %d" % SEED)

    def test_never_two_and_none_is_left(self):
        for ref in self.refs:
            self.sensor(ref, DUMMY, "lock", self.lock(ref), settle_seconds=0.02)
            self.want(ref)
            self.wanted[ref] = True
        for kill in range(KILLS):
            for _ in range(self.random.randrange(2, 4 * SENSORS)):
                self.toggle()
            self.look()
            self.r.close()
            self.server.stop(signal.SIGKILL)
            if self.random.random() < 0.5:  # else the next one finds them dying
                until(lambda: not self.ours(), "what the killed server had started is dead")
            self.server.start()
            self.r = self.server.client()
            self.check_never_two()
            if kill % 10 == 9:
                self.check_tokens()
        self.settle()
        self.check_never_two()
        self.check_tokens()

    def test_a_guardian_that_is_killed_takes_its_sensor_with_it(self):
        self.sensor("s", DUMMY, "fork-ignore", 2, stop_seconds=0.2)
        first = self.runs("s")
        guardian = parent(first["pid"])
        until(lambda: len(self.ours()) == 3, "all of it runs")
        before = self.ours()
        os.kill(guardian, signal.SIGKILL)
        until(lambda: self.status("s")["starts"] == 2 and self.reaches("s", "running"),
              "it is started again")
        self.assertEqual([processes(pid) for pid in before], [False] * 3)


def parent(pid):
    with open("/proc/%d/stat" % pid, encoding="ascii", errors="replace") as file:
        return int(file.read().rsplit(")", 1)[1].split()[1])


class KilledAsByDefault(Killed):
    """With the containment that this machine permits."""
    flags = ("--sensor-containment", "auto")


if __name__ == "__main__":
    unittest.main()
