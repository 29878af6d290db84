#!/usr/bin/env python3
"""Contenders for one value, each through `tenure run`, while every part of it is killed or stopped at random:
`tenure`, its guardian, the command, the server. Half of the runs wait in line for the value, the others try again and
again. The witness (see runs.py) proves that two holders were never alive together; every process that is left at the
end is a failure too. Of one run either `tenure` or the guardian is hit, never both: docs/run.md describes that case.

RUN_TEST_INTERRUPTIONS (15), RUN_TEST_CONTENDERS (4), RUN_TEST_SEED, RUN_TEST_SECONDS (no new interruption after
so long)."""
import collections
import glob
import os
import random
import signal
import subprocess
import sys
import threading
import time

from harness import PATIENCE, Server, text_of, until
from runs import Run, Witness, children_of, state_of

INTERRUPTIONS = int(os.environ.get("RUN_TEST_INTERRUPTIONS", "15"))
CONTENDERS = int(os.environ.get("RUN_TEST_CONTENDERS", "4"))
SECONDS = float(os.environ.get("RUN_TEST_SECONDS", "3600"))
SEED = int(os.environ.get("RUN_TEST_SEED", random.randrange(1 << 32)))
MODES = ("lock", "lock-child", "lock-forget", "lock-chain")
NOT_ACQUIRED = 121
# The leak check at the end of a sanitized program is a child process, which looks like a guardian here. If it
# is killed, its parent waits for it forever.
NO_LEAK_CHECK = {"ASAN_OPTIONS": os.environ.get("ASAN_OPTIONS", "") + ":detect_leaks=0"}


def tree_of(pid):
    """What its threads wait for, and the same of all processes below it."""
    threads = []
    for task in glob.glob("/proc/%d/task/*" % pid):
        try:
            threads.append("%s in %s" % (os.path.basename(task), text_of(task + "/wchan")))
        except OSError:
            pass
    return "%d %s (%s)%s" % (pid, state_of(pid), ", ".join(threads),
                             "".join("; " + tree_of(child) for child in children_of(pid)))


def guardians_of(pid):
    """Without the one that only tries whether a pid namespace is permitted: it has no arguments, and its leak check,
    a child process too, is on."""
    found = []
    for child in children_of(pid):
        try:
            if text_of("/proc/%d/cmdline" % child).count("\0") > 1:
                found.append(child)
        except OSError:
            pass
    return found


class Contender(threading.Thread):
    """Tries to get the value again and again."""

    def __init__(self, campaign, number):
        super().__init__(daemon=True)
        self.campaign = campaign
        self.random = random.Random(SEED * 1000 + number)
        self.run_now = None

    def run(self):
        while not self.campaign.over:
            mode = self.random.choice(MODES)
            containment = self.random.choice(("auto", "none"))
            wait = self.random.choice(("0s", "5s"))
            run = Run(self.campaign.server.port, "--from", "one", "--ttl", "2", "--kill-after", "0.3", "--wait", wait,
                      "--containment", containment, "--", *self.campaign.witness.command(mode), env=NO_LEAK_CHECK)
            self.run_now = run
            try:
                code, _, err = run.end()
            except subprocess.TimeoutExpired:
                self.campaign.complaints.append("a run does not end: " + tree_of(run.pid))
                return
            self.run_now = None
            if "Sanitizer" in err or "assert" in err:
                self.campaign.complaints.append(err)
            self.campaign.ends[code] += 1
            self.campaign.waits += wait != "0s"
            if code == NOT_ACQUIRED:
                time.sleep(0.05)
            else:
                self.campaign.acquired += 1


class Campaign:
    def __init__(self):
        self.random = random.Random(SEED)
        self.witness = Witness()
        self.server = Server(None, keep=True)
        r = self.server.client()
        r.execute_command("POOL", "CREATE", "one", "SET")
        r.execute_command("POOL", "ADD", "one", "it")
        r.close()
        self.over = False
        self.acquired = 0
        self.waits = 0
        self.ends = collections.Counter()
        self.done = collections.Counter()
        self.complaints = []
        self.hit_part = {}  # of a run, by its pid: tenure or the guardian
        self.contenders = [Contender(self, n) for n in range(CONTENDERS)]

    def holder(self):
        """A run that has a guardian: it holds the value, or is about to end."""
        for contender in self.contenders:
            run = contender.run_now
            if run is not None and run.process.poll() is None and guardians_of(run.pid):
                return run
        return None

    # ---- The interruptions ----

    @staticmethod
    def hit(pid, number):
        try:
            os.kill(pid, number)
        except ProcessLookupError:
            pass

    def stop_for_a_while(self, pid):
        """For longer than the ttl of the lease, or shorter."""
        self.hit(pid, signal.SIGSTOP)
        timer = threading.Timer(self.random.choice((0.1, 1.0, 3.5)), self.hit, (pid, signal.SIGCONT))
        timer.start()
        self.timers.append(timer)

    def guardian_of(self, run):
        found = guardians_of(run.pid)
        return found[0] if found else run.pid

    def main_of(self, run):
        found = children_of(self.guardian_of(run))
        return found[0] if found else run.pid

    def kill_tenure(self, run):
        self.hit(run.pid, signal.SIGKILL)

    def stop_tenure(self, run):
        self.stop_for_a_while(run.pid)

    def kill_guardian(self, run):
        self.hit(self.guardian_of(run), signal.SIGKILL)

    def stop_guardian(self, run):
        self.stop_for_a_while(self.guardian_of(run))

    def kill_command(self, run):
        self.hit(self.main_of(run), signal.SIGKILL)

    def stop_command(self, run):
        self.stop_for_a_while(self.main_of(run))

    def ask_tenure(self, run):
        self.hit(run.pid, self.random.choice((signal.SIGTERM, signal.SIGINT, signal.SIGHUP)))

    def restart_server(self, _):
        self.server.stop(signal.SIGKILL)
        time.sleep(self.random.choice((0, 0, 1.0, 2.5)))  # a mishap of some length, not a wait for anything
        self.server.start()

    def stop_server(self, _):
        self.stop_for_a_while(self.server.process.pid)

    def revoke(self, _):
        """With a notice: without one, the lease stays revoked until an operator confirms that the holder is dead."""
        lease = self.server.cli("LEASE", "one/it").split("\n")[1:2]
        self.server.cli("REVOKE", *lease, "AFTER", self.random.choice(("2", "4")))

    def interrupt(self):
        kinds = (self.kill_tenure, self.stop_tenure, self.kill_guardian, self.stop_guardian, self.kill_command,
                 self.stop_command, self.ask_tenure, self.restart_server, self.stop_server, self.revoke)
        run = until(self.holder, "a holder")
        until(lambda: self.witness.is_held() or run.process.poll() is not None, "its command")
        kind = self.random.choice(kinds)
        part = kind.__name__.split("_")[-1]
        if part in ("tenure", "guardian") and kind != self.ask_tenure and \
                self.hit_part.setdefault(run.pid, part) != part:
            return
        kind(run)
        self.done[kind.__name__] += 1
        time.sleep(self.random.random() * 0.3)  # how far the parts get before the next one

    # ---- All of it ----

    def run(self):
        self.timers = []
        begun = time.monotonic()
        for contender in self.contenders:
            contender.start()
        while sum(self.done.values()) < INTERRUPTIONS and time.monotonic() < begun + SECONDS:
            self.interrupt()
            assert not self.witness.twice(), "two holders were alive together: seed %d" % SEED
        self.over = True
        for timer in self.timers:
            timer.join()
        end = time.monotonic() + PATIENCE
        for contender in self.contenders:
            while contender.is_alive() and time.monotonic() < end:
                run = contender.run_now
                if run is not None:
                    self.hit(run.pid, signal.SIGTERM)
                contender.join(0.1)
            assert not contender.is_alive(), "a run does not end: seed %d" % SEED
        until(self.witness.is_free, "the last command's end")
        assert not self.witness.twice(), "two holders were alive together: seed %d" % SEED
        assert not self.complaints, self.complaints
        self.server.remove()
        self.witness.remove()
        self.report(time.monotonic() - begun)

    def report(self, seconds):
        print("seed %d: %d interruptions in %d s, %d times held, never by two"
              % (SEED, sum(self.done.values()), seconds, self.acquired))
        print("%d of %d runs waited in line" % (self.waits, sum(self.ends.values())))
        print("interruptions: " + ", ".join("%s %d" % item for item in sorted(self.done.items())))
        print("exit codes: " + ", ".join("%s: %d" % item for item in sorted(self.ends.items())))


if __name__ == "__main__":
    print("seed %d" % SEED)
    sys.stdout.flush()
    Campaign().run()
