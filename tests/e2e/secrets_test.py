"""Secrets stay where they belong: not in log lines, replies, command lines or core files."""
import os
import signal
import unittest

from access_test import HASH, SECRET, World, user
from harness import text_of


class Secrets(World):
    users = user("root", "admin") + user("ci", "holder")

    def everything_said(self):
        """All that others may read of the process."""
        said = text_of(self.server.log.name)
        for name in ("cmdline", "environ"):
            with open("/proc/%d/%s" % (self.server.process.pid, name), "rb") as file:
                said += file.read().decode("utf-8", "replace")
        return said

    def test_neither_said_nor_shown(self):
        root = self.login("root")
        root.execute_command("POOL", "CREATE", "ports", "RANGE", 1, 9)
        with self.login("ci") as ci:
            reply = ci.execute_command("ALLOC", "ports", "job")
            answer = dict(zip(reply[::2], reply[1::2]))
            token = dict(zip(*[iter(ci.execute_command(
                "TOKEN", "ISSUE", answer["lease"], answer["epoch"]))] * 2))["token"]
        for name, secret in (("ci", "guess-one"), (SECRET, "guess-two")):
            with self.assertRaises(Exception):
                self.login(name, secret).ping()
            self.assertEqual(self.http("GET", "/v1/pools", name, secret)[0], 401)
        self.http("POST", "/auth/introspect", "ci", body='{"token": "%s"}' % token)
        self.http("POST", "/auth/introspect", "ci", body='{"token": "%sx"}' % token)
        shown = str(root.info("all")) + str(root.client_list()) + str(root.config_get("*"))
        shown += str(root.execute_command("EVENTS")) + str(self.http("GET", "/metrics", "root")[1])
        said = self.everything_said() + shown
        # Whoever gives a secret for a name finds it where names are told.
        said = said.replace('user="%s"' % SECRET, "")
        for secret in (SECRET, "guess-one", "guess-two", HASH, HASH.rsplit("$", 1)[1], token,
                       token.rsplit(".", 1)[1]):
            self.assertNotIn(secret, said)
        self.assertIn("login_failed", said)

    def test_no_core_file_may_be_written(self):
        self.assertRegex(text_of("/proc/%d/limits" % self.server.process.pid),
                         r"Max core file size +0 +0 ")


class Crash(World):
    users = user("root", "admin")

    def test_leaves_no_core(self):
        pid = self.server.process.pid
        os.kill(pid, signal.SIGABRT)
        _, status = os.waitpid(pid, 0)
        self.server.process.returncode = -signal.SIGABRT
        self.assertTrue(os.WIFSIGNALED(status))
        self.assertFalse(os.WCOREDUMP(status))


if __name__ == "__main__":
    unittest.main()
