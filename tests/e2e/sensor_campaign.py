#!/usr/bin/env python3
"""Sensors in large numbers, and their cost: run by tools/sensors-campaign.sh, which sets the numbers
in the environment. Prints a line for each figure; fails if a check does."""
import os
import random
import time
import unittest

from harness import until
from sensors import DUMMY, SensorCase, processes, totals

HERD = int(os.environ.get("SENSOR_TEST_HERD", "1000"))
SENSORS = int(os.environ.get("SENSOR_TEST_SENSORS", "50"))
TOGGLES = int(os.environ.get("SENSOR_TEST_TOGGLES", "10000"))
SEED = int(os.environ.get("SENSOR_TEST_SEED", "1"))


def parent(pid):
    with open("/proc/%d/stat" % pid, encoding="ascii", errors="replace") as file:
        return int(file.read().rsplit(")", 1)[1].split()[1])


def memory_kib(pid):
    """Private and proportional."""
    with open("/proc/%d/smaps_rollup" % pid, encoding="ascii") as file:
        rows = dict(line.split(":", 1) for line in file.read().splitlines()[1:])
    size = {name: int(rows[name].split()[0]) for name in ("Private_Clean", "Private_Dirty", "Pss")}
    return size["Private_Clean"] + size["Private_Dirty"], size["Pss"]


def tell(what, format_, *values):
    print("%-44s %s" % (what, format_ % values), flush=True)


class Campaign(SensorCase):
    flags = ("--log-format", "logfmt")

    def running(self):
        return totals(self.server)["tenure_sensors_running"]

    def test_a_herd_starts_and_stops(self):
        self.sensor("first")
        self.runs("first")  # the state's first pages, which any server has sooner or later
        _, before = memory_kib(self.server.process.pid)
        self.want("first", wanted=False)
        self.reaches("first", "stopped")
        self.do("SENSOR", "DELETE", "first")
        for i in range(HERD):
            self.sensor("h%d" % i, trigger="herd", settle_seconds=0)
        began = time.monotonic()
        self.do("RULE", "SET", "all", "herd")
        until(lambda: self.running() == HERD, "all run")
        started = time.monotonic() - began
        guardians = [parent(self.status("h%d" % i)["pid"]) for i in range(HERD)]
        self.assertEqual(len(set(guardians)), HERD)
        private, proportional = zip(*map(memory_kib, guardians))
        _, server = memory_kib(self.server.process.pid)
        began = time.monotonic()
        self.do("RULE", "DISABLE", "all")
        until(lambda: totals(self.server)['tenure_sensors{state="stopped"}'] == HERD, "all stopped")
        stopped = time.monotonic() - began
        self.assertEqual(self.ours(), [])
        self.assertEqual([processes(pid) for pid in guardians], [False] * HERD)
        tell("%d sensors started" % HERD, "%.1f s, %.0f a second", started, HERD / started)
        tell("%d sensors stopped, all proven dead" % HERD, "%.1f s, %.0f a second", stopped,
             HERD / stopped)
        tell("a guardian's memory", "%.0f KiB private, %.0f KiB proportional (largest %d, %d)",
             sum(private) / HERD, sum(proportional) / HERD, max(private), max(proportional))
        tell("the server's memory", "%.1f MiB with one running, %.1f MiB with %d", before / 1024,
             server / 1024, HERD)

    def test_toggles(self):
        """However rules are toggled, a sensor is started at most once in a settle window."""
        settle = 0.1
        order = random.Random(SEED)
        refs = [self.sensor("t%d" % i, DUMMY, "lock", self.path("t%d.lock" % i),
                            settle_seconds=settle) for i in range(SENSORS)]
        wanted = dict.fromkeys(refs, False)
        began = time.monotonic()
        for _ in range(TOGGLES):
            ref = order.choice(refs)
            wanted[ref] = not wanted[ref]
            self.want(ref, wanted=wanted[ref])
        toggled = time.monotonic() - began
        for ref in refs:
            self.reaches(ref, "running" if wanted[ref] else "stopped")
        span = time.monotonic() - began
        starts = [self.status(ref)["starts"] for ref in refs]
        self.assertLessEqual(max(starts), span / settle + 1)
        self.assertFalse([ref for ref in refs if os.path.exists(self.path(ref + ".lock.twice"))])
        pids = [self.status(ref)["pid"] for ref in refs if wanted[ref]]
        self.assertEqual(sorted(self.ours()), sorted(pids))
        tell("%d toggles of %d sensors" % (TOGGLES, SENSORS), "%.1f s; %d starts, at most %d of one",
             toggled, sum(starts), max(starts))


if __name__ == "__main__":
    unittest.main()
