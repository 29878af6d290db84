#!/usr/bin/env python3
"""A disk that loses a page of the log after the server was killed, and a directory of format 1.

Once the server has been idle for a moment, no acknowledged write is lost without an error, and no id is
assigned twice even if one is lost."""
import glob
import os
import signal
import struct
import subprocess
import tarfile
import tempfile
import unittest

from harness import PATIENCE, TENURED, Server, text_of, until

PAGE = 4096
GOLDEN = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "golden", "segments-1.tar.xz")  # of format 1


def newest_segment(server):
    return max(glob.glob(os.path.join(server.data, "data", "0*.log")))


def pages_of(path):
    with open(path, "rb") as file:
        content = file.read()
    return [content[at:at + PAGE] for at in range(0, len(content), PAGE)]


def last_used(pages):
    return max(i for i, page in enumerate(pages) if page.strip(b"\0"))


def has_mark(server):
    """The last thing in the newest segment is a mark: with format 1 somewhere in its page."""
    pages = pages_of(newest_segment(server))
    page = pages[last_used(pages)]
    kinds = [page[at + 60:at + 64] for at in range(0, PAGE, 512)]
    return [kind for kind in kinds if kind in (b"BTCH", b"MARK")][-1:] == [b"MARK"]


def lose_last_page(server):
    path = newest_segment(server)
    at = last_used(pages_of(path)) * PAGE
    with open(path, "r+b") as file:
        file.seek(at)
        file.write(bytes(PAGE))


def refused(server):
    """Starts the server; its message if it refused, None if it runs."""
    try:
        server.start()
    except AssertionError as error:
        return str(error)
    return None


class LostPage(unittest.TestCase):
    def setUp(self):
        self.server = Server()
        self.addCleanup(self.server.remove)
        self.leases = []
        with self.server.client() as r:
            r.execute_command("POOL", "CREATE", "ports", "RANGE", 1, 1000)
        self.alloc(12)

    def alloc(self, count):
        with self.server.client() as r:
            for _ in range(count):
                reply = r.execute_command("ALLOC", "ports", "someone")
                self.leases.append(reply[reply.index("lease") + 1] if "lease" in reply else reply[1])

    def held(self):
        with self.server.client() as r:
            return [lease for lease in self.leases
                    if "active" in str(r.execute_command("LEASE", lease))]

    def test_after_a_pause(self):
        until(lambda: has_mark(self.server), "a mark")
        self.server.stop(signal.SIGKILL)
        lose_last_page(self.server)
        why = refused(self.server)
        if why is None:
            self.assertEqual(self.held(), self.leases)
            self.alloc(3)
            self.assertEqual(len(set(self.leases)), len(self.leases))
        else:
            self.assertIn("offset", why)

    def test_under_load(self):
        for _ in range(3):
            self.server.stop(signal.SIGKILL)
            lose_last_page(self.server)
            self.assertIsNone(refused(self.server))
            self.alloc(3)
            self.assertEqual(len(set(self.leases)), len(self.leases))


class Format1(unittest.TestCase):
    def test_a_directory_of_0_1_is_continued(self):
        with tempfile.TemporaryDirectory(prefix="tenure-e2e-") as data:
            with tarfile.open(GOLDEN) as tar:
                tar.extractall(os.path.join(data, "data"))
            check = subprocess.run([os.path.join(os.path.dirname(TENURED), "tenure"), "check",
                                    os.path.join(data, "data")], timeout=PATIENCE, check=False,
                                   stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
            self.assertEqual(check.returncode, 0, check.stdout)
            server = Server(data)
            try:
                with server.client() as r:
                    self.assertIn("active", str(r.execute_command("LEASE", "0-3")))
                    before = r.execute_command("ALLOC", "ports", "someone")
                server.stop(signal.SIGKILL)
                server.start()
                with server.client() as r:
                    self.assertIn("active", str(r.execute_command("LEASE", "0-3")))
                    self.assertNotEqual(r.execute_command("ALLOC", "ports", "someone"), before)
                with open(newest_segment(server), "rb") as file:
                    self.assertEqual(struct.unpack("<I", file.read(12)[8:])[0], 2)
            finally:
                server.remove()
                self.assertNotIn("event=log_torn_tail", text_of(os.path.join(data, "stderr")))


if __name__ == "__main__":
    unittest.main()
