#!/usr/bin/env python3
"""`tenure run --wait`: order, ends of the wait, lost connections, and deadlines after a wait."""
import os
import pty
import signal
import subprocess
import tempfile
import time
import unittest

from harness import PATIENCE, Server, until
from runs import RunCase, TENURE

NOT_ACQUIRED, LOST = 121, 122


class Waiting(RunCase):
    def setUp(self):
        super().setUp()
        self.pool = "w%d" % id(self)
        self.do("POOL", "CREATE", self.pool, "SET")
        self.do("POOL", "ADD", self.pool, "it")
        self.file = os.path.join(self.witness.dir.name, "order")
        self.lease = self.alloc("first")

    def fields(self, *words):
        reply = self.do(*words)
        return dict(zip(reply[::2], reply[1::2]))

    def alloc(self, holder):
        return self.fields("ALLOC", self.pool, holder, "TTL", "3600")["lease"]

    def release(self, holder="first"):
        self.do("RELEASE", self.lease, holder, "1")

    def line(self):
        return self.fields("POOL", "INFO", self.pool)["waiting"]

    def wait(self, *options, command=None, **more):
        """A run that is in line."""
        count = self.line()
        run = self.start("--from", self.pool, "--wait", "1h", *options, "--", *(command or self.witness.command()),
                         **more)
        until(lambda: self.line() == count + 1, "the run is in line")
        return run

    def writes(self, word):
        return ["sh", "-c", "echo %s >>%s" % (word, self.file)]

    def test_each_starts_after_the_one_before_has_ended(self):
        runs = [self.wait(command=self.writes(word)) for word in ("a", "b", "c")]
        self.assertFalse(os.path.exists(self.file))
        self.release()
        for run in runs:
            self.assertEqual(run.end()[0], 0)
        with open(self.file, encoding="ascii") as file:
            self.assertEqual(file.read(), "a\nb\nc\n")
        self.assertEqual(self.line(), 0)

    def test_two_runs_of_one_value_never_live_together(self):
        self.release()
        first = self.start("--from", self.pool, "--", *self.witness.command())
        until(self.witness.is_held, "the first command")
        self.witness.forget()
        second = self.wait("--ttl", "3")
        first.signal(signal.SIGTERM)
        self.assertEqual(first.end()[0], 0)
        until(self.witness.is_held, "the second command")
        second.signal(signal.SIGTERM)
        self.assertEqual(second.end()[0], 0)
        self.assertFalse(self.witness.twice())

    def test_a_signal_leaves_the_line_at_once(self):
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            with self.subTest(number):
                run = self.wait("--holder", "shared")
                other = self.wait("--holder", "shared")  # not to be mixed up
                run.signal(number)
                code, _, err = run.end()
                self.assertEqual(code, NOT_ACQUIRED, err)
                self.assertEqual(self.line(), 1)
                other.signal(number)
                self.assertEqual(other.end()[0], NOT_ACQUIRED)
                self.assertEqual(self.line(), 0)

    def test_ctrl_c_leaves_the_line_at_once(self):
        main, side = pty.openpty()
        self.addCleanup(os.close, main)
        run = self.wait(stdin=side, start_new_session=True)
        os.close(side)
        os.killpg(run.pid, signal.SIGINT)
        self.assertEqual(run.end()[0], NOT_ACQUIRED)
        self.assertEqual(self.line(), 0)

    def test_an_ignored_signal_does_not_leave_the_line(self):
        run = self.wait(command=self.writes("ran"),
                        preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_IGN))
        run.signal(signal.SIGHUP)
        run.signal(signal.SIGWINCH)
        self.release()
        self.assertEqual(run.end()[0], 0)

    def test_a_wait_that_is_over_is_a_refusal(self):
        _, out, err = self.run_to_end("--from", self.pool, "--wait", "1", "--", "echo", "ran", code=NOT_ACQUIRED)
        self.assertEqual(out, "")
        self.assertIn("the wait is over", err)
        self.assertEqual(self.line(), 0)

    def test_wrong_waits_are_named(self):
        for wait in ("soon", "2d"):
            _, _, err = self.run_to_end("--from", self.pool, "--wait", wait, "--", "true", code=2)
            self.assertIn("--wait is", err)

    def test_a_wait_longer_than_the_ttl_costs_nothing_of_it(self):
        run = self.wait("--ttl", "2")
        since = self.fields("POOL", "INFO", self.pool)["waiting_since"]
        until(lambda: time.time() * 1000 > since + 3000, "a wait longer than the ttl")
        self.release()
        until(self.witness.is_held, "the command")
        for _ in range(4):  # renewals, well beyond the first deadline
            before = self.leases(self.pool)[0]["last_seen"]
            until(lambda seen=before: self.leases(self.pool)[0]["last_seen"] != seen, "a renewal")
        run.signal(signal.SIGTERM)
        self.assertEqual(run.end()[0], 0)

    def test_a_limit_that_the_pool_got_meanwhile_is_kept(self):
        run = self.wait("--ttl", "30", "--kill-after", "0.2")
        since = self.fields("POOL", "INFO", self.pool)["waiting_since"]
        until(lambda: time.time() * 1000 > since + 5500, "a wait that the ttl shows")
        self.do("POOL", "ALTER", self.pool, "MAX_HOLD", "5")
        self.release()
        until(self.witness.is_held, "the command")
        self.witness.forget()
        self.wait(command=self.witness.command())
        self.assertEqual(run.end()[0], LOST)
        until(lambda: self.line() == 0, "the next holder")
        until(lambda: self.witness.twice() or self.witness.is_held(), "the next command")
        self.assertFalse(self.witness.twice())


class Lost(RunCase):
    def test_a_run_takes_its_place_again_after_a_restart_of_the_server(self):
        server = Server(None, keep=True)
        self.addCleanup(server.remove)
        ask = server.client()
        for words in (("POOL", "CREATE", "one", "SET"), ("POOL", "ADD", "one", "it")):
            ask.execute_command(*words)
        lease = ask.execute_command("ALLOC", "one", "first", "TTL", "3600")
        lease = dict(zip(lease[::2], lease[1::2]))["lease"]
        run = self.start("--from", "one", "--wait", "1h", "--port", str(server.port), "--", "echo", "ran")
        until(lambda: "waiting" in server.cli("LEASES", "STATE", "waiting"), "in line")
        waits = server.cli("LEASES", "STATE", "waiting")
        server.stop(signal.SIGKILL)
        server.start()
        ask = server.client()

        def attended():
            reply = ask.execute_command("LEASES", "STATE", "waiting")
            found = [dict(zip(one[::2], one[1::2])) for one in dict(zip(reply[::2], reply[1::2]))["leases"]]
            return found if found and found[0]["attended"] in (1, True) else None
        found = until(attended, "its client is back")
        self.assertIn(str(found[0]["lease"]), waits)
        ask.execute_command("RELEASE", lease, "first", "1")
        code, out, err = run.end()
        self.assertEqual((code, out), (0, "ran\n"), err)
        self.assertIn("trying again", err)

    def test_a_signal_leaves_the_line_of_a_server_that_was_restored_from_a_backup(self):
        place = tempfile.TemporaryDirectory(prefix="tenure-run-")
        self.addCleanup(place.cleanup)
        backups, data = os.path.join(place.name, "backups"), os.path.join(place.name, "data")
        for words in (("--port", str(self.server.port), "backup", backups), ("restore", backups, data)):
            subprocess.run([TENURE, *words], check=True, timeout=PATIENCE, capture_output=True)
        server = Server(None, "--data", data)
        self.addCleanup(server.remove)
        ask = server.client()
        ask.execute_command("ALLOC", "one", "first", "TTL", "3600")
        run = self.start("--from", "one", "--wait", "1h", "--port", str(server.port), "--", "true")
        until(lambda: "waiting" in server.cli("LEASES", "STATE", "waiting"), "in line")
        run.signal(signal.SIGTERM)
        self.assertEqual(run.end()[0], NOT_ACQUIRED)
        self.assertNotIn("waiting", server.cli("LEASES", "STATE", "waiting"))


if __name__ == "__main__":
    unittest.main(verbosity=2)
