"""`tenure --watch`: rounds on a terminal and elsewhere, marks, restarts of the server, and how it ends."""
import json
import os
import pty
import re
import select
import signal
import subprocess
import tempfile
import time
import unittest

from harness import BUILD, PATIENCE, Case

TENURE = os.path.join(BUILD, "tenure")


class Watched:
    """A `tenure --watch` whose output is read block by block."""

    def __init__(self, port, *words):
        self.error = tempfile.TemporaryFile()
        self.process = subprocess.Popen([TENURE, "-p", str(port), *words], stdout=subprocess.PIPE,
                                        stderr=self.error, text=True)

    def block(self):
        lines = []
        while True:
            line = self.process.stdout.readline()
            assert line, self.errors()
            if line == "\n":
                return lines
            lines.append(line.rstrip("\n"))

    def until(self, text):
        """Reads up to the block whose head contains this."""
        while True:
            block = self.block()
            if text in block[0]:
                return block

    def errors(self):
        self.error.seek(0)
        return self.error.read().decode()

    def end(self, number=signal.SIGINT):
        self.process.send_signal(number)
        self.process.stdout.read()
        code = self.process.wait(PATIENCE)
        self.process.stdout.close()
        self.error.close()
        return code


class Watch(Case):
    keep = True

    def watch(self, *words):
        return Watched(self.server.port, "--watch=0.2", *words)

    def test_rows_that_are_new_changed_and_gone(self):
        self.do("POOL", "CREATE", "ports", "RANGE", "1", "99")
        watched = self.watch("pool", "list")
        first = watched.block()
        self.assertRegex(first[0], r"^# \d\d:\d\d:\d\d\.\d+$")
        self.assertRegex(first[1], r"^  POOL +KIND")
        self.assertTrue(any(line.startswith("  ports  ") for line in first), first)
        self.assertIn("0 new, 0 changed, 0 gone", watched.block()[0])
        self.do("POOL", "CREATE", "added", "RANGE", "1", "9")
        block = watched.until("1 new")
        self.assertEqual([line[:7] for line in block if line[0] == "+"], ["+ added"])
        self.do("ALLOC", "ports", "me")
        block = watched.until("1 changed")
        self.assertEqual([line[:7] for line in block if line[0] == "*"], ["* ports"])
        self.do("POOL", "DROP", "added")
        self.assertIn("0 new, 0 changed, 1 gone", watched.until("1 gone")[0])
        self.assertEqual(watched.end(), 0)

    def test_time_that_passes_is_no_change(self):
        self.do("POOL", "CREATE", "timed", "RANGE", "1", "9", "LEASE", "55")
        self.do("ALLOC", "timed", "me")
        watched = self.watch("leases", "--pool", "timed")
        seen = set()
        while len(seen) < 2:  # "in 54 s", then another
            block = watched.block()
            seen.add(block[2].rsplit("  ", 1)[1])
            self.assertFalse(block[2].startswith("*"), block)
        self.assertEqual(watched.end(signal.SIGTERM), 0)

    def test_one_thing(self):
        self.do("POOL", "CREATE", "card", "RANGE", "1", "9")
        watched = self.watch("pool", "info", "card")
        self.assertTrue(all(line.startswith("  ") for line in watched.block()[1:] if line))
        self.do("ALLOC", "card", "me")
        block = watched.until(" changed")
        while not any(line.startswith("* ") for line in block):
            block = watched.block() + watched.block()  # a card has an empty line in it
        changed = {line.split()[1] for line in block if line.startswith("* ")}
        self.assertIn("free", changed)
        self.assertNotIn("pool", changed)
        self.assertEqual(watched.end(), 0)

    def test_a_server_that_is_restarted(self):
        self.do("POOL", "CREATE", "kept", "RANGE", "1", "9")
        watched = self.watch("pool", "list")
        watched.block()
        self.server.stop()
        end = time.monotonic() + PATIENCE
        while "retrying" not in watched.errors():
            self.assertLess(time.monotonic(), end)
            time.sleep(0.01)
        self.server.start()
        self.assertIn("0 new, 0 changed, 0 gone", watched.until("gone")[0])
        self.assertTrue(any(line.startswith("  kept") for line in watched.block()))
        self.assertEqual(watched.errors().count("retrying"), 1)  # not in each round
        self.assertEqual(watched.end(), 0)

    def test_json_is_a_line_for_each_round(self):
        watched = self.watch("--json", "leases")
        for _ in range(3):
            self.assertIn("leases", json.loads(watched.process.stdout.readline()))
        self.assertEqual(watched.end(), 0)

    def test_terminal(self):
        self.do("POOL", "CREATE", "drawn", "RANGE", "1", "9")
        for keys in (b"q", b"\x03"):
            pid, fd = pty.fork()
            if pid == 0:
                os.environ.update(TERM="xterm", COLUMNS="100")
                os.environ.pop("NO_COLOR", None)
                os.execl(TENURE, "tenure", "-p", str(self.server.port), "pool", "list", "--watch=0.2")
            said = b""
            lease = None
            end = time.monotonic() + PATIENCE
            while b"\x1b[7m" not in said.split(b"gone", 1)[-1]:  # a cell that is marked, after the head
                self.assertTrue(select.select([fd], [], [], end - time.monotonic())[0], said)
                said += os.read(fd, 65536)
                if lease is None and b"gone" in said:
                    lease = self.do("ALLOC", "drawn", "me")
            os.write(fd, keys)
            rest = b""
            while True:
                try:
                    part = os.read(fd, 65536)
                except OSError:
                    break
                if not part:
                    break
                rest += part
            self.assertEqual(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), 0)
            os.close(fd)
            self.assertIn(b"every 0.2 s: tenure pool list", said)
            self.assertIn(b"\x1b[H", said)
            # The last table stays on the screen.
            after = rest.split(b"\x1b[?1049l", 1)[1]
            self.assertIn(b"drawn", after)

    def test_what_cannot_be_watched(self):
        def run(*words):
            return subprocess.run([TENURE, "-p", str(self.server.port), *words], timeout=PATIENCE, text=True,
                                  check=False, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self.do("POOL", "CREATE", "untouched", "RANGE", "1", "9")
        for words in (["alloc", "untouched", "me"], ["token", "issue", "0-1", "me", "1"], ["events"], ["top"],
                      ["sensor", "logs", "x"], ["rule", "export"], ["client", "kill", "1"], ["check", "."]):
            done = run("--watch", *words)
            self.assertEqual(done.returncode, 2, done)
            self.assertIn("--watch is only for commands that read", done.stderr)
        self.assertNotIn("lease", str(self.do("LEASES", "POOL", "untouched")).replace("leases", ""))
        self.assertIn("--watch takes its value after a '=': --watch=5", run("--watch", "5", "pool", "list").stderr)
        for value in ("0.1", "0", "-1", "x", "", "86401"):
            done = run("--watch=" + value, "pool", "list")
            self.assertEqual((done.returncode, done.stdout), (2, ""), done)
        # The first round fails as it would without --watch.
        self.assertEqual(run("--watch", "pool", "info", "none").returncode, run("pool", "info", "none").returncode)
        self.assertEqual(subprocess.run([TENURE, "-p", "1", "--watch", "pool", "list"], check=False,
                                        timeout=PATIENCE, stderr=subprocess.DEVNULL).returncode, 3)


class Users(Case):
    def test_users_are_a_table(self):
        self.local.execute_command("USER", "ADD", "watcher", "ROLE", "reader", "SECRET", "a secret of it")
        out = subprocess.run([TENURE, "-s", self.server.socket, "user", "list"], timeout=PATIENCE, check=True,
                             stdout=subprocess.PIPE, text=True).stdout
        self.assertTrue(re.match(r"USER +ROLE +SOURCE", out), out)
        self.assertIn("watcher", out)


if __name__ == "__main__":
    unittest.main()
