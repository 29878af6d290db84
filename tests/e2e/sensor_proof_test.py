#!/usr/bin/env python3
"""A run counts as dead only when that is proven. The processes that these sensors leave have their own session
and an empty environment, and hold a lock on a file; a second run that finds the lock taken reports that."""
import os
import signal
import subprocess
import threading
import unittest

from harness import until
from sensors import DUMMY, SensorCase, processes, totals

LEAVERS = ("lock-forget", "lock-chain")  # the second forks every millisecond and exits


def with_word(word):
    """The pids of all processes that have the word on their command line and live."""
    found = []
    for entry in os.listdir("/proc"):
        try:
            with open("/proc/%s/cmdline" % entry, "rb") as file:
                if entry.isdigit() and word.encode() in file.read().split(b"\0"):
                    found.append(int(entry))
        except OSError:
            pass  # gone meanwhile
    return [pid for pid in found if processes(pid)]


def parent(pid):
    with open("/proc/%d/stat" % pid, "rb") as file:
        return int(file.read().rsplit(b")", 1)[1].split()[1])


def cgroups():
    """The directory of cgroup v2 in which the test may create others; None: there is none."""
    with open("/proc/self/mountinfo", encoding="ascii") as file:
        for line in file:
            path = line.split()[4]
            if " - cgroup2 " in line and os.access(path, os.W_OK) and os.geteuid() == 0:
                return path
    return None


class Stopper(threading.Thread):
    """Stops a process repeatedly until it has ended."""

    def __init__(self, pid):
        super().__init__()
        self.pid, self.over = pid, threading.Event()
        os.kill(pid, signal.SIGSTOP)
        self.start()

    def run(self):
        while not self.over.wait(0.0005):
            try:
                os.kill(self.pid, signal.SIGSTOP)
            except ProcessLookupError:
                return

    def end(self):
        self.over.set()
        self.join()


class Proof(SensorCase):
    def setUp(self):
        super().setUp()
        self.lock = self.path("lock")
        self.addCleanup(self.end_left)  # before the server is stopped

    def left(self):
        return with_word(self.lock)

    def end_left(self):
        def ended():
            for pid in self.left():
                try:
                    os.kill(pid, signal.SIGKILL)
                except ProcessLookupError:
                    pass
            return not self.left()
        until(ended, "nothing holds the lock")

    def never_two(self):
        self.assertFalse(os.path.exists(self.lock + ".twice"), "two runs of one sensor")

    def starts(self, mode):
        self.sensor("a", DUMMY, mode, self.lock, stop_seconds=0.2)
        status = self.runs("a")
        until(lambda: os.path.exists(self.lock) and os.path.getsize(self.lock) > 0, "it has the lock")
        return status

    def check_another_runs(self, before):
        def another():
            self.never_two()
            status = self.status("a")
            return status if status["state"] == "running" and status["lease"] != before["lease"] else None
        status = until(another, "another run")
        until(lambda: self.left(), "that has the lock")
        self.never_two()
        return status

    def test_a_stopped_guardian_and_a_killed_server_do_not_make_two_runs(self):
        for mode in LEAVERS:
            with self.subTest(mode):
                status = self.starts(mode)
                os.kill(parent(status["pid"]), signal.SIGSTOP)
                self.again(signal.SIGKILL)
                self.check_another_runs(status)
                self.want("a", wanted=False)
                self.reaches("a", "stopped")
                self.assertEqual(self.left(), [])

    def test_a_guardian_that_never_runs_again_does_not_make_two_runs(self):
        for mode in LEAVERS:
            with self.subTest(mode):
                status = self.starts(mode)
                stopper = Stopper(parent(status["pid"]))
                self.addCleanup(stopper.end)
                self.again(signal.SIGKILL)
                self.check_another_runs(status)
                stopper.end()
                self.want("a", wanted=False)
                self.reaches("a", "stopped")

    def test_a_guardian_that_hangs_under_a_living_server_does_not_make_two_runs(self):
        for mode in LEAVERS:
            with self.subTest(mode):
                status = self.starts(mode)
                guardian = parent(status["pid"])
                os.kill(guardian, signal.SIGSTOP)
                self.do("SENSOR", "RESTART", "a")
                self.check_another_runs(status)
                self.want("a", wanted=False)
                self.reaches("a", "stopped")

    def test_a_killed_guardian_does_not_make_two_runs(self):
        for mode in LEAVERS:
            with self.subTest(mode):
                status = self.starts(mode)
                os.kill(parent(status["pid"]), signal.SIGKILL)
                self.check_another_runs(status)
                self.want("a", wanted=False)
                self.reaches("a", "stopped")


class Reaped(Proof):
    """By the guardian alone."""
    flags = ("--sensor-containment", "none")

    def test_what_nothing_proves_dead_is_not_started_until_an_operator_vouches(self):
        status = self.starts("lock-forget")
        self.assertEqual(status["proof"], "reaped")
        os.kill(self.server.process.pid, signal.SIGSTOP)  # it must not see its guardian die
        os.kill(parent(status["pid"]), signal.SIGKILL)
        for _ in range(2):  # and it is not forgotten
            self.again(signal.SIGKILL)
            stuck = until(lambda: (lambda s: s if s.get("proof") == "none" else None)(self.status("a")),
                          "it is unproven")
            self.assertEqual((stuck["state"], stuck["wanted"]), ("stopping", 1))
            self.assertIn("nothing proves", stuck["last_error"])
            self.assertEqual(totals(self.server)["tenure_sensors_unproven"], 1)
        self.assertIn("unproven", str(self.events("sensor.error")))
        self.assertEqual(len(self.left()), 1)
        self.assertEqual(self.status("a")["starts"], 0)
        self.never_two()
        self.end_left()
        self.do("SENSOR", "RESET", "a")
        self.check_another_runs(status)
        self.assertEqual(totals(self.server)["tenure_sensors_unproven"], 0)


class Contained(Proof):
    """Proofs that work without an operator: no confirmation by an operator is ever needed."""
    kind = None

    def starts(self, mode):
        status = super().starts(mode)
        self.assertEqual(status["proof"], self.kind)
        return status

    def test_what_guardian_and_server_leave_is_proven_dead(self):
        for mode in LEAVERS:
            with self.subTest(mode):
                status = self.starts(mode)
                os.kill(self.server.process.pid, signal.SIGSTOP)  # it must not see its guardian die
                os.kill(parent(status["pid"]), signal.SIGKILL)
                self.again(signal.SIGKILL)
                self.check_another_runs(status)
                self.want("a", wanted=False)
                self.reaches("a", "stopped")


@unittest.skipIf(subprocess.run(["unshare", "--pid", "--fork", "--mount-proc", "true"], check=False,
                                stderr=subprocess.DEVNULL).returncode, "no pid namespace")
class Namespace(Contained):
    """The default of a server that may create namespaces."""
    flags = ("--sensor-containment", "auto")
    kind = "pidns"

    def test_a_sensor_may_be_kept_out_of_it(self):
        self.sensor("b", containment="none")
        self.assertEqual(self.runs("b")["proof"], "reaped")


@unittest.skipUnless(cgroups(), "no cgroup")
class Cgroup(Contained):
    kind = "cgroup"

    def setUp(self):
        self.group = os.path.join(cgroups(), "tenure-e2e-%d" % os.getpid())
        os.mkdir(self.group)
        self.addCleanup(os.rmdir, self.group)
        self.flags = ("--sensor-containment", "auto", "--sensor-cgroup", self.group)
        super().setUp()


del Proof, Contained  # only with a way of containment

if __name__ == "__main__":
    unittest.main()
