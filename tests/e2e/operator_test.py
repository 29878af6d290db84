#!/usr/bin/env python3
"""The page in the hands of an operator: Debian's Chromium, driven by playwright-core, with a real pointer and a real
keyboard against real servers (operator_test.mjs). web_test.py has the page's files and its smaller parts."""
import json
import os
import shlex
import subprocess
import tempfile
import unittest

from browser import CHROMIUM
from harness import BUILD, PATIENCE, Case, Server, pairs, until

SOURCE = os.environ.get("TENURE_SOURCE_DIR", ".")
SECRET = "right"


def modules():
    """The packages of npm, installed at the first use; a machine that cannot fails the tests."""
    return subprocess.run([os.path.join(SOURCE, "tools/npm.sh")], check=True, stdout=subprocess.PIPE,
                          text=True).stdout.strip()


def begin(server, turn, *words):
    assert CHROMIUM, "Chromium is not installed: tools/deps.sh test"
    return subprocess.Popen(
        ["node", os.path.join(SOURCE, "tests/e2e/operator_test.mjs"), modules(), CHROMIUM,
         "http://127.0.0.1:%d" % server.http_port, turn, *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def end(process):
    out, error = process.communicate(timeout=10 * PATIENCE)
    assert process.returncode == 0, error
    return json.loads(out.splitlines()[-1])


def play(server, turn, *words):
    return end(begin(server, turn, *words))


class Open(Case):
    """A server without access control."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        do = cls.r.execute_command
        do("POOL", "CREATE", "full", "RANGE", 1, 4)
        do("ALLOC", "full", "owner", "COUNT", 4)
        do("POOL", "CREATE", "almost", "RANGE", 1, 100)
        do("ALLOC", "almost", "batch", "COUNT", 92)
        do("POOL", "CREATE", "nets", "RANGE", 1, 9, "SCOPED", "yes")
        do("ALLOC", "nets@blue", "h", "COUNT", 2)
        do("ALLOC", "nets@red", "h")
        do("POOL", "CREATE", "kept", "RANGE", 1, 900, "STICKY", "yes", "LEASE", "30d")
        do("POOL", "CREATE", "scattered", "RANGE", 1, 2000)
        do("POOL", "CREATE", "told", "RANGE", 1, 90)
        do("ALLOC", "told", "first")
        do("ALLOC", "told", "second")
        do("POOL", "CREATE", "addresses", "FORMAT", "ipv4", "RANGE", "10.0.0.1", "10.0.0.9")
        do("POOL", "CREATE", "gpus", "SET")
        do("POOL", "ADD", "gpus", "gpu-1", "gpu-2")
        cls.mix(do)
        pipe = cls.r.pipeline(transaction=False)
        for i in range(801):
            pipe.execute_command("ALLOC", "scattered", "part/%d" % i)
        do("POOL", "CREATE", "lots", "RANGE", 1, 100)
        for _ in range(60):
            pipe.execute_command("ALLOC", "lots", "many")
        pipe.execute()
        do("ALLOC", "lots", "\u202egnp.exe", "META", json.dumps({"a": "\u0007\u001b[31m\u202eb"}))
        do("SNAPSHOT")
        cls.waiting = cls.server.connect()
        words = ("ALLOC", "full", "patient", "WAIT", "3600")
        cls.waiting.sendall(b"*5\r\n" + b"".join(b"$%d\r\n%s\r\n" % (len(word), word.encode()) for word in words))
        until(lambda: int(pairs(do("POOL", "INFO", "full"))["waiting"]) == 1, "one waits")

    @staticmethod
    def mix(do):
        """A pool with values in every state."""
        do("POOL", "CREATE", "mixed", "RANGE", 1, 30, "EXCLUDE", "20-22", "COOLDOWN", 0)
        do("RESERVE", "reserver", "TTL", 3600, "FROM", "mixed", "COUNT", 2)
        do("ALLOC", "mixed", "stays", "COUNT", 2)
        left = pairs(do("ALLOC", "mixed", "leaver"))
        do("RELEASE", left["lease"], "leaver", left["epoch"])
        revoked = pairs(do("ALLOC", "mixed", "revoked", "VALUES", 1, 10))
        do("REVOKE", revoked["lease"])
        do("POOL", "ALTER", "mixed", "COOLDOWN", 3600)
        cooling = pairs(do("ALLOC", "mixed", "cooled", "VALUES", 1, 11))
        do("RELEASE", cooling["lease"], "cooled", cooling["epoch"])

    @classmethod
    def tearDownClass(cls):
        cls.waiting.close()
        super().tearDownClass()

    def test_pools_are_sorted_colored_and_folded(self):
        play(self.server, "pools")

    def test_a_pool_has_charts_to_read_a_map_to_turn_and_a_line(self):
        play(self.server, "pool")

    def test_lives_tick_and_hostile_names_stay_names(self):
        play(self.server, "lives")

    def test_the_keyboard_finds_and_opens_everything(self):
        play(self.server, "search")

    def test_events_have_an_address_a_pause_without_loss_and_a_file(self):
        play(self.server, "events")

    def test_health_has_the_age_of_the_snapshot_batches_and_the_disk(self):
        play(self.server, "health")

    def test_a_view_begins_at_its_top_and_the_way_back_leads_to_the_place(self):
        server = Server()
        self.addCleanup(server.remove)
        with server.client() as client:
            for i in range(60):
                client.execute_command("POOL", "CREATE", "p%d" % i, "RANGE", 1, 9)
        play(server, "places")


class Guarded(unittest.TestCase):
    """A server with users."""

    @classmethod
    def setUpClass(cls):
        with tempfile.TemporaryDirectory(prefix="tenure-operator-") as home:
            hashed = subprocess.run([os.path.join(BUILD, "tenured"), "--hash-secret"], input=SECRET.encode() + b"\n", check=True,
                                    stdout=subprocess.PIPE, timeout=PATIENCE).stdout.decode().strip()
            file = os.path.join(home, "tenured.conf")
            with open(file, "w", encoding="ascii") as out:
                for name, role in (("boss", "admin"), ("guest", "reader")):
                    out.write("[user %s]\nrole = %s\nsecret = %s\n" % (name, role, hashed))
            cls.server = Server(None, "--config", file)
        cls.boss = cls.server.client(username="boss", password=SECRET)

    @classmethod
    def tearDownClass(cls):
        cls.boss.close()
        cls.server.remove()

    def test_1_an_administrator_does_all_that_there_is_to_do(self):
        command, curl = play(self.server, "acts", "boss", SECRET)
        # What the dialog showed does the same: it says that it has been done.
        out = subprocess.run([*shlex.split(curl), "-s", "-u", "boss:" + SECRET], check=True, stdout=subprocess.PIPE, timeout=PATIENCE)
        self.assertEqual(json.loads(out.stdout)["result"], "EXISTS")  # it was altered meanwhile
        self.boss.execute_command("POOL", "DROP", "made")
        words = shlex.split(command)
        self.assertEqual(words.pop(0), "tenure")
        subprocess.run([os.path.join(BUILD, "tenure"), "--port", str(self.server.port), *words], check=True, stdout=subprocess.PIPE,
                       timeout=PATIENCE, env={**os.environ, "TENURE_USER": "boss", "TENURE_SECRET": SECRET})
        options = pairs(pairs(self.boss.execute_command("POOL", "INFO", "made"))["options"])
        self.assertEqual([options[name] for name in ("format", "range", "lease", "exclude")],
                         ["ipv4", "10.9.0.1-10.9.0.9", "3600", "10.9.0.3-10.9.0.3"])

    def test_2_a_reader_sees_no_buttons_and_is_refused(self):
        do = self.boss.execute_command
        do("POOL", "CREATE", "guarded", "RANGE", 1, 9)
        do("ALLOC", "guarded", "tenant")
        do("SENSOR", "SET", "guard", "t", json.dumps({"command": ["/bin/sleep", "1000"]}))
        play(self.server, "reads", "guest", SECRET)

    def test_3_the_session_of_a_deleted_user_ends(self):
        self.boss.execute_command("USER", "ADD", "brief", "ROLE", "reader", "SECRET", "a-long-secret")
        process = begin(self.server, "dies", "brief", "a-long-secret")
        line = process.stdout.readline()
        if line.strip() == "ready":
            self.boss.execute_command("USER", "DELETE", "brief")
        end(process)


if __name__ == "__main__":
    unittest.main()
