#!/usr/bin/env python3
"""The page in the hands of an operator: Debian's Chromium, driven by playwright-core, with a real pointer and a real
keyboard against real servers (operator_test.mjs). web_test.py has the page's files and its smaller parts."""
import base64
import contextlib
import http.client
import json
import os
import shlex
import signal
import subprocess
import tempfile
import unittest

from browser import CHROMIUM
from cluster import Cluster
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


def end(process, *before):
    """Its last output; `before` has been read."""
    out, error = process.communicate(timeout=10 * PATIENCE)
    assert process.returncode == 0, error
    return json.loads([*before, *out.splitlines()][-1])


def play(server, turn, *words):
    return end(begin(server, turn, *words))


def write_users(path, users):
    """A configuration with these users, whose secret is SECRET; of each the lines of its role and limits."""
    hashed = subprocess.run([os.path.join(BUILD, "tenured"), "--hash-secret"], input=SECRET.encode() + b"\n", check=True,
                            stdout=subprocess.PIPE, timeout=PATIENCE).stdout.decode().strip()
    with open(path, "w", encoding="ascii") as out:
        for name, lines in users.items():
            out.write("[user %s]\nsecret = %s\n%s\n" % (name, hashed, lines))


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
        do("POOL", "CREATE", "growing", "RANGE", 1, 100)
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
        do("POOL", "CREATE", "churned", "RANGE", 1, 1)
        for _ in range(150):
            pipe.execute_command("ALLOC", "churned", "returning")
            pipe.execute_command("DISOWN", "returning")
        pipe.execute()
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


def steps(process, **doings):
    """Carries out the requests of the script, line by line, until it ends."""
    for line in process.stdout:
        doing = doings.get(line.split()[0])
        if doing is None:
            return
        doing()


class Absent(unittest.TestCase):
    def test_a_server_that_stops_and_one_that_is_gone(self):
        server = Server(keep=True)
        self.addCleanup(server.remove)
        with contextlib.ExitStack() as stack:
            process = begin(server, "stalls")
            steps(process, stop=lambda: stack.enter_context(server.standstill()), go=stack.close, kill=lambda: server.stop(signal.SIGKILL),
                  start=server.start)
            end(process, "null")

    def test_a_page_on_a_node_that_follows(self):
        cluster = Cluster(["n1", "n2"])
        self.addCleanup(cluster.remove)
        owner = cluster.owner()
        follower = cluster.others(owner)[0]
        with owner.client() as client:
            client.execute_command("POOL", "CREATE", "before", "RANGE", 1, 9)
        process = begin(follower, "follows", "", "", owner.name, follower.name, "http://127.0.0.1:%d" % owner.http_port)
        steps(process, kill=lambda: owner.stop(signal.SIGKILL))
        end(process, "null")


class Guarded(unittest.TestCase):
    """A server with users."""

    @classmethod
    def setUpClass(cls):
        with tempfile.TemporaryDirectory(prefix="tenure-operator-") as home:
            file = os.path.join(home, "tenured.conf")
            write_users(file, {"boss": "role = admin", "guest": "role = reader"})
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


class Limited(unittest.TestCase):
    """Users with every role, and users that may access only some pools or holders."""
    USERS = {"boss": "role = admin", "op": "role = operator", "tenant": "role = holder", "team": "role = operator\npools = team-*",
             "night": "role = operator\nholders = night/* sensor/mine", "caged": "role = admin\npools = team-* sensors"}
    VIEWS = ("#/", "#/pool/team-a", "#/pool/secret", "#/value/team-a/1", "#/value/secret/1", "#/lease/{team}", "#/lease/{secret}",
             "#/holder/day%2F1", "#/holder/night%2F1", "#/sensors", "#/sensor/mine", "#/sensor/theirs", "#/events", "#/health")
    POOL = ["Change …", "Drop …"]
    LEASE = ["Revoke …", "Release …", "Give to another holder …"]
    SENSOR = ["Start …", "Stop (disable) …", "Add a rule …"]

    @classmethod
    def setUpClass(cls):
        cls.home = tempfile.TemporaryDirectory(prefix="tenure-operator-")
        file = os.path.join(cls.home.name, "tenured.conf")
        write_users(file, cls.USERS)
        cls.server = Server(None, "--config", file)
        cls.boss = cls.server.client(username="boss", password=SECRET)
        do = cls.boss.execute_command
        for pool in ("team-a", "secret"):
            do("POOL", "CREATE", pool, "RANGE", 1, 9)
        cls.team = pairs(do("ALLOC", "team-a", "day/1"))["lease"]
        cls.secret = pairs(do("ALLOC", "secret", "night/1"))["lease"]
        for ref in ("mine", "theirs"):
            do("SENSOR", "SET", ref, "quiet." + ref, json.dumps({"command": ["/bin/sleep", "1000"]}))

    @classmethod
    def tearDownClass(cls):
        cls.boss.close()
        cls.server.remove()
        cls.home.cleanup()

    def seen_by(self, name):
        views = [view.format(team=self.team, secret=self.secret) for view in self.VIEWS]
        found = play(self.server, "sees", name, SECRET, " ".join(views), "team-a secret day night secret/1 mine")
        return dict(zip([*self.VIEWS, "team-a", "secret", "day", "night", "secret/1", "mine"], found.values()))

    def buttons(self, found, expected):
        self.assertEqual({view: found[view]["buttons"] for view in self.VIEWS if found[view]["buttons"]}, expected)

    def ask(self, name, method, path, body=None):
        connection = http.client.HTTPConnection("127.0.0.1", self.server.http_port, timeout=PATIENCE)
        connection.request(method, path, None if body is None else json.dumps(body), {
            "Content-Type": "application/json",
            "Authorization": "Basic " + base64.b64encode(("%s:%s" % (name, SECRET)).encode()).decode()})
        status = connection.getresponse().status
        connection.close()
        return status

    def test_an_operator_has_all_but_what_defines_programs(self):
        found = self.seen_by("op")
        sensor = [*self.SENSOR, "Delete …"]
        self.buttons(found, {
            "#/": ["Create a pool …"], "#/pool/team-a": self.POOL, "#/pool/secret": self.POOL, "#/value/team-a/1": self.LEASE,
            "#/value/secret/1": self.LEASE, "#/lease/{team}": self.LEASE, "#/lease/{secret}": self.LEASE,
            "#/holder/day%2F1": ["Disown …"], "#/holder/night%2F1": ["Disown …"], "#/sensors": ["Add a rule …"],
            "#/sensor/mine": sensor, "#/sensor/theirs": sensor})
        self.assertEqual(self.ask("op", "PUT", "/v1/sensors/new", {"trigger": "t", "spec": {"command": ["/bin/true"]}}), 403)
        self.assertEqual(self.ask("op", "PATCH", "/v1/pools/secret", {"cooldown": 0}), 200)

    def test_a_holder_may_release_its_own_and_nothing_else(self):
        found = self.seen_by("tenant")
        self.buttons(found, {})
        self.assertIn("You may not read it.", found["#/sensor/mine"]["text"])
        for method, path, body in (("PUT", "/v1/pools/new", {"range": [1, 2]}),
                                   ("POST", "/v1/leases/%s/release" % self.team, {"holder": "day/1", "epoch": 1}),
                                   ("POST", "/v1/leases/%s/revoke" % self.team, {}),
                                   ("POST", "/v1/holders/day%2F1/disown", {}), ("POST", "/v1/sensors/mine/disable", {})):
            self.assertEqual(self.ask("tenant", method, path, body), 403, path)
        # What it may do, it does from the page.
        with self.server.client(username="tenant", password=SECRET) as client:
            lease = pairs(client.execute_command("ALLOC", "team-a", "leaver"))
        play(self.server, "does", "tenant", SECRET, "#/lease/" + lease["lease"], "Release …", "{}", "#lease-life", "lease.released")

    def test_who_may_use_some_pools_sees_nothing_of_the_others(self):
        found = self.seen_by("team")
        self.buttons(found, {"#/": ["Create a pool …"], "#/pool/team-a": self.POOL, "#/value/team-a/1": self.LEASE, "#/lease/{team}": self.LEASE})
        for view in ("#/pool/secret", "#/value/secret/1"):
            self.assertIn("this user has no access to pool 'secret'", found[view]["text"])
        self.assertIn("no such lease", found["#/lease/{secret}"]["text"])
        self.assertIn("It holds nothing now", found["#/holder/night%2F1"]["text"])
        self.assertIn("You may not see them", found["#/sensors"]["text"])
        for view in ("#/", "#/events"):
            self.assertIn("team-a/1", found[view]["text"])
            for word in ("secret", "night", "mine", "theirs"):
                self.assertNotIn(word, found[view]["text"])
        for words in ("secret", "night", "secret/1", "mine"):
            self.assertIn("Nothing begins with this", found[words])
        self.assertEqual(self.ask("team", "POST", "/v1/holders/day%2F1/disown", {}), 403)
        self.assertEqual(self.ask("team", "PUT", "/v1/rules/r", {"trigger": "t"}), 403)
        play(self.server, "does", "team", SECRET, "#/", "Create a pool …", json.dumps({"pool": "team-b", "first": "1", "last": "9"}),
             "#pools", "team-b")
        play(self.server, "does", "team", SECRET, "#/", "Create a pool …", json.dumps({"pool": "other", "first": "1", "last": "9"}),
             "#act-result", "no access to pool 'other'")

    def test_who_may_use_some_holders_is_not_told_of_the_others(self):
        found = self.seen_by("night")
        self.assertEqual(found["#/sensor/mine"]["buttons"], [*self.SENSOR, "Delete …"])
        self.assertEqual(found["#/sensor/theirs"]["buttons"], ["Start …", "Add a rule …"])  # rules belong to no holder
        self.assertEqual(found["#/value/team-a/1"]["buttons"], [])
        self.assertEqual(found["#/holder/night%2F1"]["buttons"], ["Disown …"])
        self.assertIn("you may not see its holder", found["#/value/team-a/1"]["text"])
        self.assertIn("no access to holder 'day/1'", found["#/holder/day%2F1"]["text"])
        for view in self.VIEWS:
            self.assertNotIn("day/1", found[view]["text"].replace("'day/1'", "").replace("day/1\n", "", view.startswith("#/holder/day")))
        self.assertIn("Nothing begins with this", found["day"])
        for path in ("/v1/sensors/theirs/disable", "/v1/holders/day%2F1/disown"):
            self.assertEqual(self.ask("night", "POST", path, {}), 403)
        self.assertEqual(self.ask("night", "DELETE", "/v1/sensors/theirs"), 403)
        self.assertEqual(self.ask("night", "POST", "/v1/sensors/mine/disable", {}), 200)
        self.assertEqual(self.ask("night", "POST", "/v1/sensors/mine/enable", {}), 200)

    def test_an_administrator_of_some_pools_does_not_disown(self):
        found = self.seen_by("caged")
        self.assertEqual(found["#/holder/day%2F1"]["buttons"], [])
        self.assertEqual(found["#/sensors"]["buttons"], ["Add a sensor …", "Add a rule …"])
        self.assertNotIn("secret", found["#/events"]["text"])
        self.assertEqual(self.ask("caged", "POST", "/v1/holders/day%2F1/disown", {}), 403)


if __name__ == "__main__":
    unittest.main()
