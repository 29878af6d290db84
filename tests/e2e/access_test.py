# tsan
"""Access control: every command, as every role, with every kind of credentials, over RESP and HTTP.
The commands, their roles, examples and paths are those of docs/commands.md, which is made from the
table; so a new command is tested here automatically."""
import base64
import contextlib
import http.client
import json
import os
import re
import signal
import socket
import subprocess
import tempfile
import unittest

import redis

from harness import PATIENCE, TENURED, Server, pairs, receive_until, text_of, until
from resp import Resp

ROLES = ["none", "reader", "holder", "operator", "admin"]
DOCS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "docs", "commands.md")
SECRET = "correct horse battery"
# It is waited for, it ends the connection, or it is about connections as such: looked at apart.
APART = {"QUIT", "RESET", "AUTH", "HELLO", "CLIENT KILL", "SUBSCRIBE", "PSUBSCRIBE", "UNSUBSCRIBE",
         "PUNSUBSCRIBE", "TICK"}


def hash_of(secret):
    return subprocess.run([TENURED, "--hash-secret"], input=secret.encode() + b"\n", check=True,
                          stdout=subprocess.PIPE, timeout=PATIENCE).stdout.decode().strip()


HASH = hash_of(SECRET)


def user(name, role, extra="", secret=HASH):
    return "[user %s]\nrole = %s\nsecret = %s\n%s\n" % (name, role, secret, extra)


class Command:
    def __init__(self, name, text):
        self.name = name
        role = re.search(r"^(?:read|write|connection|job), (?:role (\w+), )?arity", text, re.M)
        assert role, name
        self.role = role.group(1) or "none"
        self.paths = re.findall(r"^    (GET|POST|PUT|PATCH|DELETE) (/\S+)$", text, re.M)


def commands():
    parts = re.split(r"^### (.+)$", text_of(DOCS), flags=re.M)[1:]
    return [Command(name, text) for name, text in zip(parts[::2], parts[1::2])]


class World(unittest.TestCase):
    """A server with a configuration file of its own."""
    users = ""
    flags = ()

    @classmethod
    def setUpClass(cls):
        cls.dir = tempfile.TemporaryDirectory(prefix="tenure-access-")
        cls.file = os.path.join(cls.dir.name, "tenured.conf")
        cls.write(cls.users)
        cls.server = Server(None, "--config", cls.file, *cls.flags)

    @classmethod
    def tearDownClass(cls):
        cls.server.remove()
        cls.dir.cleanup()

    @classmethod
    def write(cls, text):
        with open(cls.file, "w", encoding="ascii") as file:
            file.write(text)

    def reload(self, text):
        lines = text_of(self.server.log.name).count("event=reloaded")
        self.write(text)
        self.server.process.send_signal(signal.SIGHUP)
        until(lambda: text_of(self.server.log.name).count("event=reloaded") > lines, "the reload")

    def login(self, name, secret=SECRET):
        return self.server.client(username=name, password=secret)

    def http(self, method, path, name=None, secret=SECRET, header=None, body=None):
        c = http.client.HTTPConnection("127.0.0.1", self.server.http_port, timeout=PATIENCE)
        headers = {}
        if name is not None:
            headers["Authorization"] = "Basic " + base64.b64encode(
                ("%s:%s" % (name, secret)).encode()).decode()
        if header is not None:
            headers["Authorization"] = header
        if body is not None:
            headers["Content-Type"] = "application/json"
        c.request(method, path, body, headers)
        answer = c.getresponse()
        text = answer.read()
        c.close()
        return answer.status, text, answer.headers


def first_word(error):
    return str(error).split(" ", 1)[0]


class Matrix(World):
    users = "".join(user(role, role) for role in ROLES[1:]) + user("gone", "admin")

    def words(self, command):
        """Enough words: access is judged before the arguments."""
        return ["COMMAND"] if command.name == "COMMAND" else command.name.split() + ["x"] * 12

    def asked(self, client, command):
        """The first word of the refusal; empty: there was none."""
        connection = client.connection_pool.get_connection("x")
        try:
            connection.send_command(*self.words(command))
            connection.read_response()
            return ""
        except redis.exceptions.NoPermissionError:
            return "NOPERM"
        except redis.exceptions.AuthenticationError:
            return "NOAUTH"
        except redis.exceptions.ResponseError as error:
            return first_word(error)
        finally:
            client.connection_pool.release(connection)

    def test_every_command_as_every_role(self):
        looked = 0
        for role in ROLES:
            client = self.login(role) if role != "none" else self.server.client()
            for command in commands():
                if command.name in APART:
                    continue
                looked += 1
                got = self.asked(client, command)
                if ROLES.index(role) >= ROLES.index(command.role):
                    self.assertNotIn(got, ("NOPERM", "NOAUTH"), (role, command.name))
                else:
                    self.assertEqual(got, "NOAUTH" if role == "none" else "NOPERM",
                                     (role, command.name))
            client.close()
        self.assertGreater(looked, 5 * 50)

    def test_a_refusal_counts_once(self):
        admin = self.login("admin")
        for name, code in ((None, "NOAUTH"), ("reader", "NOPERM")):
            with contextlib.closing(Resp(self.server)) as client:
                if name is not None:
                    self.assertEqual(client.do("AUTH", name, SECRET), "OK")
                before = admin.info("all")
                self.assertEqual(first_word(client.do("TOUCH", "1-0", "x", "1")), code)
                after = admin.info("all")
            self.assertEqual(after["total_error_replies"] - before["total_error_replies"], 1, code)
            self.assertNotEqual(after["errorstat_" + code], before.get("errorstat_" + code))

    def test_every_path_as_every_role(self):
        looked = 0
        for role in ROLES:
            for command in commands():
                for method, path in command.paths:
                    looked += 1
                    path = re.sub(r"\{\w+\}", "x", path)
                    if command.name == "EVENTS":
                        path += "?format=json"
                    status, text, headers = self.http(method, path, role if role != "none" else None,
                                                      body="{}" if method != "GET" else None)
                    if ROLES.index(role) >= ROLES.index(command.role):
                        result = json.loads(text).get("result") if text[:1] == b"{" else ""
                        self.assertNotIn(result, ("NOPERM", "NOAUTH"), (role, command.name))
                    elif role == "none":
                        self.assertEqual(status, 401, (role, command.name, text))
                        self.assertIn("Basic", headers["WWW-Authenticate"])
                        self.assertEqual(json.loads(text)["result"], "NOAUTH")
                    else:
                        self.assertEqual(status, 403, (role, command.name, text))
                        self.assertEqual(json.loads(text)["result"], "NOPERM")
        self.assertGreater(looked, 5 * 40)

    def test_credentials_that_are_none(self):
        for name, secret in (("admin", "wrong"), ("nobody", SECRET), ("admin", "x" * 257),
                             ("x" * 65, SECRET), ("admin", SECRET + "\n")):
            with self.assertRaises(redis.exceptions.ResponseError) as caught:
                self.login(name, secret).ping()
            self.assertEqual(first_word(caught.exception), "WRONGPASS")
            status, text, _ = self.http("GET", "/v1/pools", name, secret)
            self.assertEqual((status, json.loads(text)["result"]), (401, "NOAUTH"))
        for header in ("Bearer admin", "Bearer x.y.z", "Bearer admin:wrong", "Basic !!!", "Basic ",
                       "Digest admin", "Basic " + base64.b64encode(b"x" * 5000).decode()):
            status, text, _ = self.http("GET", "/v1/pools", header=header)
            self.assertEqual(status, 401, header)

    def test_bearer_is_name_and_secret(self):
        self.assertEqual(self.http("GET", "/v1/pools", header="Bearer reader:" + SECRET)[0], 200)

    def test_a_failed_login_changes_nothing(self):
        with self.server.client() as anonymous:
            connection = anonymous.connection_pool.get_connection("x")
            for words, start in ((("AUTH", "admin", "wrong"), "WRONGPASS"),
                                 (("PING",), "NOAUTH"), (("HELLO", "3"), "NOAUTH"),
                                 (("HELLO", "3", "AUTH", "admin", "wrong"), "WRONGPASS"),
                                 (("INFO",), "NOAUTH")):
                connection.send_command(*words)
                with self.assertRaises(redis.exceptions.RedisError) as caught:
                    connection.read_response()
                # redis-py takes some of the first words away; what is left names them.
                self.assertTrue(isinstance(caught.exception, redis.exceptions.AuthenticationError)
                                or str(caught.exception).startswith(start), caught.exception)
            connection.send_command("AUTH", "reader", SECRET)
            self.assertEqual(connection.read_response(), "OK")
            connection.send_command("AUTH", "admin", "wrong")
            with self.assertRaises(redis.exceptions.RedisError):
                connection.read_response()
            connection.send_command("PING")
            self.assertEqual(connection.read_response(), "PONG")
            connection.send_command("SNAPSHOT")
            with self.assertRaises(redis.exceptions.NoPermissionError):
                connection.read_response()
            connection.send_command("RESET")
            self.assertEqual(connection.read_response(), "RESET")
            connection.send_command("PING")
            with self.assertRaises(redis.exceptions.AuthenticationError):
                connection.read_response()

    def test_a_pipeline_waits_for_its_login(self):
        with self.server.connect() as s:
            s.sendall(b"AUTH reader %s\r\nPING\r\nPOOL LIST\r\nPING\r\n" %
                      SECRET.replace(" ", "\\x20").encode())
            # An inline request has no blanks in its words: so it is the wrong secret.
            got = b""
            while got.count(b"\r\n") < 4:
                got += s.recv(65536)
            self.assertEqual([line[:6] for line in got.split(b"\r\n")[:4]],
                             [b"-WRONG", b"-NOAUT", b"-NOAUT", b"-NOAUT"])
            s.sendall(b"*3\r\n$4\r\nAUTH\r\n$6\r\nreader\r\n$%d\r\n%s\r\n" %
                      (len(SECRET), SECRET.encode()) +
                      b"PING\r\n*1\r\n$8\r\nSNAPSHOT\r\nPING\r\n")
            got = b""
            while got.count(b"\r\n") < 4:
                got += s.recv(65536)
            self.assertEqual([line[:6] for line in got.split(b"\r\n")[:4]],
                             [b"+OK", b"+PONG", b"-NOPER", b"+PONG"])

    def test_health_and_keys_are_for_everybody(self):
        for path in ("/livez", "/readyz", "/", "/openapi.json", "/.well-known/jwks.json"):
            self.assertEqual(self.http("GET", path)[0], 200, path)
        self.assertEqual(self.http("GET", "/metrics")[0], 401)
        self.assertEqual(self.http("GET", "/metrics", "reader")[0], 200)

    def test_the_command_line_logs_in_by_its_environment(self):
        tool = [os.path.join(os.path.dirname(TENURED), "tenure"), "-p", str(self.server.port),
                "pool", "list"]

        def run(**more):
            return subprocess.run(tool, env={**os.environ, **more}, stdout=subprocess.PIPE,
                                  stderr=subprocess.STDOUT, timeout=PATIENCE, check=False)
        for asked in (run(), run(TENURE_USER="reader", TENURE_SECRET="x")):
            self.assertEqual(asked.returncode, 44)
            self.assertIn(b"set TENURE_USER, and TENURE_SECRET or TENURE_SECRET_FILE", asked.stdout)
        self.assertIn(b"NOAUTH", run().stdout)
        self.assertEqual(run(TENURE_USER="reader", TENURE_SECRET=SECRET).returncode, 0)
        self.assertIn(b"WRONGPASS", run(TENURE_USER="reader", TENURE_SECRET="x").stdout)
        path = os.path.join(self.dir.name, "secret")
        with open(path, "w", encoding="ascii") as file:
            file.write(SECRET + "\n")
        self.assertEqual(run(TENURE_USER="reader", TENURE_SECRET_FILE=path).returncode, 0)
        got = run(TENURE_USER="reader", TENURE_SECRET_FILE=path + ".not")
        self.assertEqual(got.returncode, 44)
        self.assertIn(b"TENURE_SECRET_FILE %s.not: No such file" % path.encode(), got.stdout)


class Narrow(World):
    users = (user("root", "admin") +
             user("alice", "holder", "pools = a-*\nholders = alice/*") +
             user("bob", "holder", "pools = a-* b-*\nholders = bob/*") +
             user("oper", "operator", "pools = b-*") +
             user("look", "reader", "pools = a-*") +
             user("night", "operator", "holders = night/*") +
             user("deputy", "admin", "pools = a-*"))

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.root = cls.server.client(username="root", password=SECRET)
        for pool in ("a-1", "b-1"):
            cls.root.execute_command("POOL", "CREATE", pool, "RANGE", 1, 100, "LEASE", 3600)
        cls.alice, cls.bob, cls.oper, cls.look = (
            cls.server.client(username=name, password=SECRET)
            for name in ("alice", "bob", "oper", "look"))

    def refused(self, start, client, *words):
        with self.assertRaises(redis.exceptions.ResponseError) as caught:
            client.execute_command(*words)
        if start == "NOPERM":
            self.assertIsInstance(caught.exception, redis.exceptions.NoPermissionError)
        else:
            self.assertEqual(first_word(caught.exception), start, words)
        return str(caught.exception)

    def lease(self, client, pool, holder):
        reply = client.execute_command("ALLOC", pool, holder)
        answer = dict(zip(reply[::2], reply[1::2]))
        return answer["lease"], answer["epoch"]

    def test_pools_and_holders_bound_what_is_written(self):
        self.lease(self.alice, "a-1", "alice/1")
        self.refused("NOPERM", self.alice, "ALLOC", "b-1", "alice/1")
        self.refused("NOPERM", self.alice, "ALLOC", "a-1", "bob/1")
        self.refused("NOPERM", self.alice, "RESERVE", "alice/1", "TTL", 9, "FROM", "a-1", "COUNT", 1,
                     "FROM", "b-1", "COUNT", 1)
        self.refused("NOPERM", self.oper, "POOL", "DROP", "a-1")
        self.refused("NOPERM", self.oper, "SWEEP")
        self.refused("NOPERM", self.oper, "DISOWN", "bob/1")
        self.oper.execute_command("SWEEP", "POOL", "b-1")

    def test_a_lease_is_its_users_own(self):
        lease, epoch = self.lease(self.bob, "a-1", "bob/1")
        self.refused("NOTFOUND", self.alice, "TOUCH", lease, epoch)
        self.refused("NOTFOUND", self.oper, "REVOKE", lease)
        self.refused("NOTFOUND", self.oper, "RECLAIM", lease)
        self.refused("NOTFOUND", self.alice, "TOKEN", "ISSUE", lease, epoch)
        self.bob.execute_command("TOKEN", "ISSUE", lease, epoch)
        self.root.execute_command("TOKEN", "ISSUE", lease, epoch)
        self.bob.execute_command("RELEASE", lease, "bob/1", epoch)

    def test_a_token_is_for_the_leases_own_user(self):
        lease, epoch = self.lease(self.root, "a-1", "bob/9")
        self.refused("NOPERM", self.bob, "TOKEN", "ISSUE", lease, epoch)
        self.refused("DENIED", self.bob, "TOUCH", lease, epoch)

    def test_lists_show_what_one_may_see(self):
        mine, _ = self.lease(self.alice, "a-1", "alice/2")
        other, other_epoch = self.lease(self.bob, "b-1", "bob/2")
        both = dict(zip(*[iter(self.bob.execute_command(
            "RESERVE", "bob/3", "TTL", 60, "FROM", "a-1", "COUNT", 1, "FROM", "b-1", "COUNT", 5))] *
            2))["lease"]

        def seen(client, *words):
            reply = client.execute_command("LEASES", *words)
            answer = dict(zip(reply[::2], reply[1::2]))
            return {dict(zip(l[::2], l[1::2]))["lease"] for l in answer["leases"]}
        self.assertIn(mine, seen(self.alice))
        self.assertNotIn(other, seen(self.alice))
        self.assertNotIn(both, seen(self.look))  # a part of it is in a pool that is not theirs
        self.assertIn(mine, seen(self.look))
        self.assertLessEqual({mine, other, both}, seen(self.root))
        self.refused("NOTFOUND", self.look, "LEASE", other)
        self.refused("NOTFOUND", self.look, "LEASE", both)
        self.refused("NOTFOUND", self.look, "VERIFY", other, other_epoch)
        for nowhere in ("9-1", other[2:].join(("9-", ""))):  # nothing tells a hidden lease from none
            self.assertEqual(self.refused("NOTFOUND", self.look, "LEASE", other),
                             self.refused("NOTFOUND", self.look, "LEASE", nowhere))
            self.assertEqual(self.refused("NOTFOUND", self.look, "VERIFY", other, other_epoch),
                             self.refused("NOTFOUND", self.look, "VERIFY", nowhere, 1))
        self.refused("NOPERM", self.look, "LEASES", "POOL", "b-1")
        self.refused("NOPERM", self.look, "POOL", "INFO", "b-1")
        pools = dict(zip(*[iter(self.look.execute_command("POOL", "LIST"))] * 2))["pools"]
        self.assertEqual([dict(zip(p[::2], p[1::2]))["pool"] for p in pools], ["a-1"])
        status, text, _ = self.http("GET", "/v1/leases?count=1000", "look")
        self.assertEqual(status, 200)
        self.assertNotIn(other.encode() + b'"', text)
        self.assertNotIn(b"tenure_pool_", self.http("GET", "/metrics", "look")[1])
        self.assertIn(b"tenure_pool_", self.http("GET", "/metrics", "root")[1])

    def test_a_waiting_lease_is_seen_by_users_of_the_pools_that_it_waits_for(self):
        deputy = self.server.client(username="deputy", password=SECRET)
        self.root.execute_command("POOL", "CREATE", "b-2", "RANGE", 1, 1)
        self.lease(self.root, "b-2", "root/1")
        waiter = Resp(self.server)
        self.addCleanup(waiter.close)
        waiter.do("AUTH", "bob", SECRET)
        waiter.send("ALLOC", "b-2", "bob/7", "WAIT", 60)

        def waiting(client):
            reply = client.execute_command("LEASES", "STATE", "waiting")
            leases = dict(zip(reply[::2], reply[1::2]))["leases"]
            return [dict(zip(l[::2], l[1::2]))["lease"] for l in leases]
        until(lambda: waiting(self.oper), "a lease in line")
        lease, = waiting(self.root)
        self.assertEqual([waiting(c) for c in (self.oper, self.bob)], [[lease], [lease]])
        self.assertEqual([waiting(c) for c in (deputy, self.look)], [[], []])
        self.refused("NOTFOUND", self.look, "LEASE", lease)
        self.refused("NOTFOUND", deputy, "REVOKE", lease)
        self.oper.execute_command("LEASE", lease)
        self.oper.execute_command("REVOKE", lease)
        self.assertIn("EXHAUSTED", str(waiter.read()))
        self.bob.execute_command("LEASE", lease)  # its own
        self.refused("NOTFOUND", self.look, "LEASE", lease)

    def test_values_show_all_states_but_only_leases_that_one_may_see(self):
        def value(client, name):
            return dict(zip(*[iter(client.execute_command("VALUE", name))] * 2))

        def rows(client):
            page = dict(zip(*[iter(client.execute_command("POOL", "VALUES", "a-1", "COUNT", 1000))] * 2))
            rows = [dict(zip(*[iter(row)] * 2)) for row in page["values"]]
            return {row["value"]: (row["state"], row["holder"], row["lease"]) for row in rows}
        mine, epoch = self.lease(self.alice, "a-1", "alice/5")
        other, _ = self.lease(self.bob, "a-1", "bob/5")
        all_rows = rows(self.root)
        place = {row[2]: name for name, row in all_rows.items()}
        self.assertEqual(all_rows[place[other]], ("active", "bob/5", other))
        self.assertEqual(rows(self.alice)[place[mine]], ("active", "alice/5", mine))
        self.assertEqual(rows(self.alice)[place[other]], ("active", None, None))
        shown = value(self.alice, "a-1/" + place[other])
        self.assertEqual((shown["state"], shown["lease"], shown["holder"]), ("active", None, None))
        self.alice.execute_command("RELEASE", mine, "alice/5", epoch)
        self.assertEqual(value(self.alice, "a-1/" + place[mine])["last_holder"], "alice/5")
        self.assertIsNone(value(self.bob, "a-1/" + place[mine])["last_holder"])
        self.refused("NOPERM", self.look, "POOL", "VALUES", "b-1")
        self.refused("NOPERM", self.look, "VALUE", "b-1/1")

    def test_busy_names_a_lease_only_to_those_who_may_see_it(self):
        self.lease(self.bob, "a-1", "bob/8")
        rows = dict(zip(*[iter(self.bob.execute_command("LEASES", "HOLDER", "bob/8"))] * 2))["leases"]
        value = dict(zip(*[iter(rows[0])] * 2))["values"][0]

        def said(client, holder):
            with self.assertRaises(redis.ResponseError) as caught:
                client.execute_command("ALLOC", "a-1", holder, "VALUES", 1, value)
            return str(caught.exception)
        self.assertIn("holder=bob/8", said(self.bob, "bob/1"))
        bare = said(self.alice, "alice/1")
        self.assertTrue(bare.startswith("BUSY "), bare)
        self.assertNotRegex(bare, "bob|lease=|until=|epoch=")

    def test_a_page_of_what_one_may_see_is_full_among_many_others(self):
        self.root.execute_command("POOL", "CREATE", "a-many", "RANGE", 1, 100000)
        pipe = self.root.pipeline(transaction=False)
        for i in range(60):
            pipe.execute_command("ALLOC", "a-many", "alice/7" if i % 20 == 19 else "bob/7")
        pipe.execute()
        reply = self.alice.execute_command("LEASES", "POOL", "a-many", "COUNT", 10)
        self.assertEqual(len(dict(zip(*[iter(reply)] * 2))["leases"]), 3)
        for holder in ("alice/7", "bob/7"):
            self.root.execute_command("DISOWN", holder)
        until(lambda: self.root.execute_command("POOL", "DROP", "a-many"), "nothing is held")

    def test_whole_bundles_are_not_ended_through_a_part(self):
        """DISOWN with a pool would also end bundles with values of other pools."""
        self.bob.execute_command("RESERVE", "bob/5", "TTL", 60, "FROM", "a-1", "COUNT", 1,
                                 "FROM", "b-1", "COUNT", 1)
        self.refused("NOPERM", self.oper, "DISOWN", "bob/5", "POOL", "b-1")
        with self.login("night") as night:
            self.lease(night, "a-1", "night/1")
            self.refused("NOPERM", night, "DISOWN", "bob/5")
            reply = night.execute_command("DISOWN", "night/1")
            self.assertIn("OK", reply)

    def test_what_is_about_everything_is_for_users_without_limits(self):
        """A backup has all pools and the signing keys."""
        with self.login("deputy") as deputy:
            for words in ("BACKUP BEGIN", "BACKUP READ 1 token.keys 0", "BACKUP END 1", "TOKEN ROTATE",
                          "NODE CLOSE", "NODE FORGET n", "NODE STEP-DOWN"):
                self.refused("NOPERM", deputy, *words.split())
            self.assertEqual(deputy.execute_command("SNAPSHOT"), "OK")

    def test_sensors_are_of_their_pool(self):
        """Rules and sensors, too, are visible only to users who may see the pool of sensors."""
        spec = '{"command":["/bin/false"]}'
        self.root.execute_command("SENSOR", "SET", "never-1", "core.never", spec, "DISABLED")
        self.root.execute_command("RULE", "SET", "never-2", "core.never", "DISABLED")
        for words in (("SENSOR", "SET", "s2", "t", spec), ("SENSOR", "INFO", "never-1"),
                      ("SENSOR", "STATUS", "never-1"), ("SENSOR", "LOGS", "never-1"),
                      ("SENSOR", "ENABLE", "never-1"), ("SENSOR", "DISABLE", "never-1"),
                      ("SENSOR", "DELETE", "never-1"), ("SENSOR", "RESET", "never-1"),
                      ("SENSOR", "RESTART", "never-1"), ("TOKEN", "SENSOR", "never-1"),
                      ("RULE", "SET", "r2", "t"), ("RULE", "ENABLE", "never-2"),
                      ("RULE", "DISABLE", "never-2"), ("RULE", "DELETE", "never-2")):
            self.refused("NOPERM", self.oper, *words)
        self.refused("NOPERM", self.look, "SENSOR", "STATUS", "never-1")
        self.assertEqual(self.http("GET", "/api/v1/sensors/never-1/status", "look")[0], 403)
        for words in (("SENSOR", "LIST"), ("RULE", "LIST"), ("EVENTS", "COUNT", 1000)):
            for client in (self.look, self.oper):
                self.assertNotIn("never", str(client.execute_command(*words)), words)
            self.assertIn("never", str(self.root.execute_command(*words)), words)
        self.root.execute_command("SENSOR", "SET", "never-3", "core.never", spec, "DISABLED")
        for client, more in ((self.look, False), (self.root, True)):  # a cursor would tell that there are sensors
            page = pairs(client.execute_command("SENSOR", "LIST", "COUNT", 1))
            self.assertEqual(page["cursor"] not in ("0", 0), more, page)
        self.root.execute_command("SENSOR", "DELETE", "never-3")
        with self.login("night") as night:  # may see the pool, and not the run's lease
            night.execute_command("SENSOR", "STATUS", "never-1")
            for words in (("TOKEN", "SENSOR", "never-1"), ("SENSOR", "SET", "s2", "t", spec),
                          ("SENSOR", "INFO", "never-1"), ("SENSOR", "LOGS", "never-1"),
                          ("SENSOR", "ENABLE", "never-1"), ("SENSOR", "RESTART", "never-1")):
                self.refused("NOPERM", night, *words)
        self.root.execute_command("RULE", "DELETE", "never-2")
        self.root.execute_command("SENSOR", "DELETE", "never-1")

    def test_events_and_channels_too(self):
        subscriber = self.look.pubsub()
        subscriber.psubscribe("*")
        self.assertEqual(subscriber.get_message(timeout=PATIENCE)["type"], "psubscribe")
        hidden, _ = self.lease(self.bob, "b-1", "bob/4")
        shown, _ = self.lease(self.bob, "a-1", "bob/4")

        def heard():
            message = subscriber.get_message(timeout=PATIENCE)
            self.assertNotIn(hidden + '"', str(message["data"]))
            return shown + '"' in str(message["data"])
        until(heard, "the event that may be seen")
        subscriber.close()
        events = str(self.look.execute_command("EVENTS", "COUNT", 1000))
        self.assertIn("'%s'" % shown, events)
        self.assertNotIn("'%s'" % hidden, events)
        self.assertNotIn("b-1", events)
        c = http.client.HTTPConnection("127.0.0.1", self.server.http_port, timeout=PATIENCE)
        c.request("GET", "/v1/events?after=0.0", headers={
            "Authorization": "Bearer look:" + SECRET, "Accept": "text/event-stream"})
        stream = c.getresponse()
        text = b""
        while shown.encode() + b'"' not in text:
            text += stream.read1(65536)
        self.assertNotIn(hidden.encode() + b'"', text)
        c.close()


class Sparse(World):
    users = (user("root", "admin") + user("alice", "reader", "holders = alice/*") +
             user("single", "reader", "pools = one"))

    def test_a_list_goes_on_until_there_is_something_that_one_may_see(self):
        """Also if thousands of leases, or hundreds of pools, of other users come first."""
        with self.login("root") as root:
            pipe = root.pipeline(transaction=False)
            pipe.execute_command("POOL", "CREATE", "many", "RANGE", 1, 100000)
            for _ in range(9000):
                pipe.execute_command("ALLOC", "many", "bob/7")
            for i in range(300):
                pipe.execute_command("POOL", "CREATE", "0-%d" % i, "RANGE", 1, 9)
            pipe.execute_command("POOL", "CREATE", "one", "RANGE", 1, 9)
            pipe.execute_command("ALLOC", "one", "bob/7")
            pipe.execute_command("ALLOC", "many", "alice/7")
            pipe.execute()
        with self.login("alice") as alice, self.login("single") as single:
            for client, words, name in ((alice, ("LEASES", "POOL", "many", "COUNT", 1), "leases"),
                                        (alice, ("LEASES",), "leases"),
                                        (single, ("LEASES", "COUNT", 1), "leases"),
                                        (single, ("POOL", "LIST", "COUNT", 1), "pools")):
                reply = client.execute_command(*words)
                self.assertEqual(len(dict(zip(*[iter(reply)] * 2))[name]), 1, words)
            pipe = alice.pipeline(transaction=False)
            for _ in range(3):  # each starts over
                pipe.execute_command("LEASES", "COUNT", 1)
            self.assertEqual([len(reply[3]) for reply in pipe.execute()], [1, 1, 1])
        status, body = self.http("GET", "/v1/leases?count=1", "alice")[:2]
        self.assertEqual((status, len(json.loads(body)["leases"])), (200, 1))


class Changes(World):
    users = user("root", "admin") + user("eve", "operator")

    def setUp(self):
        self.reload(self.users)

    def test_whoever_is_gone_is_out_at_once(self):
        eve = self.login("eve")
        self.assertTrue(eve.ping())
        self.assertEqual(self.http("GET", "/v1/pools", "eve")[0], 200)
        connection = eve.connection_pool.get_connection("x")
        self.reload(user("root", "admin"))
        with self.assertRaises((redis.exceptions.ConnectionError,
                                redis.exceptions.AuthenticationError)):
            connection.send_command("PING", check_health=False)
            connection.read_response()
        self.assertEqual(self.http("GET", "/v1/pools", "eve")[0], 401)  # and not from memory
        self.assertEqual(self.http("GET", "/v1/pools", "root")[0], 200)
        other = hash_of("another")
        self.reload(user("root", "admin") + user("eve", "reader", secret=other))
        self.assertEqual(self.http("GET", "/v1/pools", "eve")[0], 401)
        self.assertEqual(self.http("GET", "/v1/pools", "eve", "another")[0], 200)
        with self.login("eve", "another") as again:
            with self.assertRaises(redis.exceptions.NoPermissionError):
                again.execute_command("SWEEP")
            self.reload(user("root", "admin") + user("eve", "operator", secret=other))
            again.execute_command("SWEEP")  # a role changes under way

    def test_another_secret_ends_what_the_old_one_began(self):
        connection = self.login("eve").connection_pool.get_connection("x")
        connection.send_command("PING")
        self.assertEqual(connection.read_response(), "PONG")
        self.reload(user("root", "admin") + user("eve", "operator", secret=hash_of("another")))
        with self.assertRaises((redis.exceptions.ConnectionError,
                                redis.exceptions.AuthenticationError)):
            connection.send_command("PING", check_health=False)
            connection.read_response()

    def login_over_the_end_of_all_users(self):
        """A connection whose login was waiting for its turn when the last user went; None: it had its
        turn before."""
        words = b"*3\r\n$4\r\nAUTH\r\n$3\r\neve\r\n$%d\r\n%s\r\n"
        crowd = [self.server.connect() for _ in range(16)]
        for s in crowd:
            s.sendall(words % (5, b"wrong"))
        waiting = self.server.connect()
        waiting.sendall(words % (len(SECRET), SECRET.encode()))
        self.reload("")
        answer = receive_until(waiting, b"\r\n")
        for s in crowd:
            s.close()
        if answer == b"+OK\r\n":
            waiting.close()
            return None
        self.assertTrue(answer.startswith(b"-WRONGPASS "), answer)
        return waiting

    def test_a_page_that_is_refused_in_the_middle_is_over(self):
        """The first user is added while pages of events are made for anonymous clients; no part of the pages
        is in the answers to later requests of the user on the same connections."""
        self.reload("")
        with self.server.client() as r:
            r.execute_command("POOL", "CREATE", "p", "RANGE", 1, 10000)
            for i in range(1000):
                r.execute_command("ALLOC", "p", "h%d" % i)
        crowd = [self.server.connect() for _ in range(8)]
        streams = [s.makefile("rb") for s in crowd]
        self.write(self.users)
        for s in crowd:
            s.sendall(b"EVENTS COUNT 1000\r\n" * 20)
        self.server.process.send_signal(signal.SIGHUP)
        until(lambda: self.http("GET", "/v1/pools")[0] == 401, "the users are there")
        for s, stream in zip(crowd, streams):
            for _ in range(20):
                self.reply(stream)
            s.sendall(b"AUTH eve \"%s\"\r\nEVENTS COUNT 1\r\n" % SECRET.encode())
            self.assertEqual(self.reply(stream), b"+OK\r\n")
            self.assertEqual(self.reply(stream).count(b"$4\r\nkind\r\n"), 1)
            stream.close()
            s.close()

    def reply(self, stream):
        head = stream.readline()
        if head[:1] == b"$":
            return head + stream.read(int(head[1:]) + 2 if head[1:2] != b"-" else 0)
        parts = int(head[1:]) if head[:1] == b"*" else 0
        return head + b"".join(self.reply(stream) for _ in range(parts))

    def test_a_login_that_outlives_all_users_is_over(self):
        waiting = []

        def found():
            self.reload(self.users)
            waiting.append(self.login_over_the_end_of_all_users())
            return waiting[-1] is not None

        until(found, "a login that waits while the last user goes")
        self.reload(self.users)
        with waiting[-1] as s:
            for secret, answer in ((SECRET, b"+OK\r\n"), ("wrong", b"-WRONGPASS ")):
                s.sendall(b"*3\r\n$4\r\nAUTH\r\n$3\r\neve\r\n$%d\r\n%s\r\n" %
                          (len(secret), secret.encode()))
                got = receive_until(s, b"\r\n")
                self.assertTrue(got.startswith(answer), got)
            s.sendall(b"PING\r\n")
            self.assertEqual(receive_until(s, b"\r\n"), b"+PONG\r\n")


class Start(unittest.TestCase):
    def test_listening_elsewhere_needs_users(self):
        with tempfile.TemporaryDirectory() as directory:
            path = os.path.join(directory, "c")

            def check(text):
                with open(path, "w", encoding="ascii") as file:
                    file.write(text)
                return subprocess.run([TENURED, "--config", path, "--check-config"], check=False,
                                      stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                      timeout=PATIENCE)
            elsewhere = "[server]\nlisten = 0.0.0.0:0\nhttp = off\n"
            refused = check(elsewhere)
            self.assertEqual(refused.returncode, 2)
            self.assertIn(b"without users", refused.stdout)
            plain = check(elsewhere + user("a", "reader"))
            self.assertEqual(plain.returncode, 2)
            self.assertIn(b"allow_plaintext = yes", plain.stdout)
            consented = elsewhere + "allow_plaintext = yes\n" + user("a", "reader")
            self.assertEqual(check(consented).returncode, 0)
            wrong = check(user("a", "reader", secret="hunter2"))
            self.assertEqual(wrong.returncode, 2)
            self.assertNotIn(b"hunter2", wrong.stdout)
            for text in (user("a:b", "reader"), user("a", "king"), "[user a]\nrole = admin\n",
                         user("a", "reader", "color = red"), user("a", "reader", "pools ="),
                         user("a", "reader", "holders = ; none"), "[user a]\nsecret = %s\n" % HASH):
                self.assertEqual(check(text).returncode, 2, text)

    def test_secrets_are_lines(self):
        for text in (b"", b"\n", b"x" * 257 + b"\n"):
            done = subprocess.run([TENURED, "--hash-secret"], input=text, check=False,
                                  stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=PATIENCE)
            self.assertEqual((done.returncode, done.stdout), (2, b""), text)


class Keys(World):
    """An Idempotency-Key belongs to its user, also while a request with it is in flight."""
    users = user("root", "admin") + user("ann", "operator") + user("bob", "operator")

    def request(self, name, key):
        body = b'{"holder": "h"}'
        secret = base64.b64encode(("%s:%s" % (name, SECRET)).encode())
        s = socket.create_connection(("127.0.0.1", self.server.http_port), timeout=PATIENCE)
        s.sendall(b"POST /v1/pools/keys/leases HTTP/1.1\r\nHost: localhost\r\n"
                  b"Authorization: Basic " + secret + b"\r\nIdempotency-Key: " + key +
                  b"\r\nContent-Length: %d\r\nConnection: close\r\n\r\n" % len(body) + body)
        return s

    def test_the_keys_of_two_users_do_not_meet(self):
        with self.login("root") as r:
            r.execute_command("POOL", "CREATE", "keys", "RANGE", 1, 1000000)
        numbers = iter(range(1000000))

        def crossed():
            """Bob's request comes between two of Ann's: if hers conflict, his was in flight together with her first."""
            key = b"key-%d" % next(numbers)
            sockets = [self.request(name, key) for name in ("ann", "bob", "ann")]
            answers = [receive_until(s, b"nothing") for s in sockets]
            for s in sockets:
                s.close()
            statuses = [answer[9:12] for answer in answers]
            self.assertEqual(statuses[1], b"201", answers[1])
            leases = {re.search(rb'"lease":"([^"]+)"', answer).group(1) for answer in answers
                      if answer[9:12] == b"201"}
            self.assertEqual(len(leases), 2)
            return b"409" in (statuses[0], statuses[2])
        until(crossed, "two of Ann's at once")


if __name__ == "__main__":
    unittest.main()
