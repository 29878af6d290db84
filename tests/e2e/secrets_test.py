"""Secrets stay where they belong: not in log lines, replies, command lines or core files."""
import os
import signal
import unittest

import redis

from access_test import HASH, SECRET, World, user
from harness import text_of


class Secrets(World):
    users = user("root", "admin") + user("ci", "holder")

    def everything_said(self):
        """Everything that other users may read about the process."""
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


class Memory(World):
    users = user("root", "admin") + user("reader", "reader")
    flags = ("--core-files", "on")  # so that its memory may be read

    def found(self, secrets):
        """Those that are in writable memory of the process."""
        pid = self.server.process.pid
        left = set()
        with open("/proc/%d/maps" % pid, encoding="ascii") as maps, open("/proc/%d/mem" % pid, "rb") as memory:
            for line in maps:
                span, rights = line.split()[:2]
                begin, end = (int(part, 16) for part in span.split("-"))
                if rights[:2] != "rw" or end - begin > 1 << 30 or "[v" in line:
                    continue
                try:
                    memory.seek(begin)
                    text = memory.read(end - begin)
                except OSError:
                    continue
                left |= {secret for secret in secrets if secret.encode() in text}
        return left

    def test_commands_with_secrets_are_wiped(self):
        """Also those that are refused, on a connection that stays."""
        secrets = ["kept-out-of-memory-%d" % i for i in range(8)]
        lines = [("USER", "ADD", "a", "ROLE", "admin", "SECRET", secrets[0]),
                 ("USER", "ADD", "a", "ROLE", "emperor", "SECRET", secrets[1]),
                 ("USER", "ADD", "root", "ROLE", "admin", "SECRET", secrets[2]),  # the file's
                 ("USER", "SET", "a", "SECRET", secrets[3], "SECRET", secrets[4]),
                 ("USER", "ADDD", "a", "SECRET", secrets[5]),
                 ("AUTH", "too", "many", secrets[6])]
        root = self.login("root")
        for words in lines:
            try:
                root.execute_command(*words)
            except redis.RedisError:
                pass
        reader = self.login("reader")
        with self.assertRaises(redis.RedisError):
            reader.execute_command("USER", "ADD", "b", "ROLE", "admin", "SECRET", secrets[7])
        self.assertEqual(self.found(secrets + ["not there at all"]), set())
        root.ping()
        reader.ping()


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
