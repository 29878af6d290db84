"""Users at run time: USER ADD, SET, DELETE, LIST, WHOAMI, quotas; over RESP, HTTP and the command line,
across restarts, and on connections that are open."""
import http.client
import json
import os
import pty
import signal
import stat
import subprocess
import tempfile
import threading
import unittest

import redis

from access_test import SECRET, World, user
from cluster import Cluster
from harness import BUILD, PATIENCE, TENURED, pairs, text_of, until
from tls_kit import CertifiedCase

TENURE = os.path.join(BUILD, "tenure")
NEW = "staple 7 gun"


def refused(client, *words):
    try:
        client.execute_command(*words)
    except redis.RedisError as error:
        return str(error)
    return None


class Users(World):
    """The file has one user, boss; all others are added at run time."""
    users = user("boss", "admin") + user("small", "holder", "max_values = 2")

    def setUp(self):
        self.boss = self.login("boss")

    def add(self, name, role="holder", *more, secret=NEW):
        return self.boss.execute_command("USER", "ADD", name, "ROLE", role, "SECRET", secret, *more)

    def named(self, name, secret=NEW):
        return self.login(name, secret)

    def test_a_user_logs_in_and_is_gone_when_deleted(self):
        self.add("ada", "reader", "POOLS", "a b-*")
        ada = self.named("ada")
        me = pairs(ada.execute_command("WHOAMI"))
        self.assertEqual((me["name"], me["role"], me["source"], me["pools"], me["max_values"]),
                         ("ada", "reader", "logged", "a b-*", 0))
        self.assertIn("EXISTS", refused(self.boss, "USER", "ADD", "ada", "ROLE", "admin", "SECRET", "x"))
        self.assertEqual(pairs(self.boss.execute_command("WHOAMI"))["source"], "file")
        self.boss.execute_command("USER", "DELETE", "ada")
        self.assertIsNotNone(refused(ada, "PING"))  # its connection is closed; it cannot come back
        with self.assertRaises(redis.ResponseError):
            self.named("ada").ping()
        self.assertIn("NOTFOUND", refused(self.boss, "USER", "DELETE", "ada"))

    def test_a_change_of_role_counts_for_the_next_command(self):
        self.add("eve", "reader")
        eve = self.named("eve")
        self.assertIn("permissions", refused(eve, "POOL", "CREATE", "eves", "RANGE", 1, 2))
        self.boss.execute_command("USER", "SET", "eve", "ROLE", "operator")
        self.assertIsNone(refused(eve, "POOL", "CREATE", "eves", "RANGE", 1, 2))
        self.boss.execute_command("USER", "SET", "eve", "POOLS", "other")
        self.assertIn("no access to pool", refused(eve, "POOL", "DROP", "eves"))
        self.boss.execute_command("USER", "SET", "eve", "POOLS", "*")
        self.assertIsNone(refused(eve, "POOL", "DROP", "eves"))

    def test_a_new_secret_ends_what_the_old_one_began(self):
        self.add("sam")
        sam = self.named("sam")
        sam.ping()
        self.boss.execute_command("USER", "SET", "sam", "SECRET", "another")
        self.assertIsNotNone(refused(sam, "PING"))
        with self.assertRaises(redis.ResponseError):
            self.named("sam").ping()
        self.named("sam", "another").ping()

    def test_who_ends_its_own_access_gets_the_answer(self):
        """Another client's command makes the server notice the change while the answer is on its way."""
        busy = True

        def load():
            client = self.login("boss")
            while busy:
                pipe = client.pipeline(transaction=False)
                for _ in range(50):
                    pipe.execute_command("WHOAMI")
                pipe.execute()
        threads = [threading.Thread(target=load) for _ in range(3)]
        for thread in threads:
            thread.start()
        try:
            for i in range(20):
                self.add("selfless", "admin")
                own = self.named("selfless")
                if i % 2:
                    self.assertIsNone(refused(own, "USER", "SET", "selfless", "SECRET", "another"))
                    self.boss.execute_command("USER", "DELETE", "selfless")
                else:
                    self.assertIsNone(refused(own, "USER", "DELETE", "selfless"))
                self.assertIsNotNone(refused(own, "PING"))
        finally:
            busy = False
            for thread in threads:
                thread.join(PATIENCE)

    def test_subscribers_streams_and_waiters_end_with_the_user(self):
        self.boss.execute_command("POOL", "CREATE", "one", "RANGE", 1, 1)
        self.boss.execute_command("ALLOC", "one", "boss/1")
        self.add("leo")
        heard = self.named("leo").pubsub()
        heard.subscribe("events")
        self.assertEqual(heard.get_message(timeout=PATIENCE)["type"], "subscribe")
        stream = http.client.HTTPConnection("127.0.0.1", self.server.http_port, timeout=PATIENCE)
        stream.request("GET", "/v1/events", headers={"Authorization": "Bearer leo:" + NEW,
                                                     "Accept": "text/event-stream"})
        body = stream.getresponse()
        waiter = self.named("leo").connection_pool.get_connection("ALLOC")
        waiter.send_command("ALLOC", "one", "leo/1", "WAIT", 600)
        over_http = http.client.HTTPConnection("127.0.0.1", self.server.http_port, timeout=PATIENCE)
        over_http.request("POST", "/v1/pools/one/leases", json.dumps({"holder": "leo/2", "wait": 600}),
                          {"Authorization": "Bearer leo:" + NEW, "Content-Type": "application/json"})

        def waiting():
            return pairs(self.boss.execute_command("POOL", "INFO", "one"))["waiting"]
        until(lambda: waiting() == 2, "both to be in line")
        self.boss.execute_command("USER", "DELETE", "leo")
        with self.assertRaises((redis.ConnectionError, redis.ResponseError)):
            while heard.get_message(timeout=PATIENCE) is not None:
                pass
        with self.assertRaises(redis.ConnectionError):
            waiter.read_response()
        with self.assertRaises((http.client.HTTPException, ConnectionError)):
            over_http.getresponse()
        while body.read(65536):
            pass
        until(lambda: waiting() == 0, "the line to be empty")

    def test_events_that_are_committed_while_others_are_delivered_end_with_the_user(self):
        """Many subscribers and many events at once: a turn of the server delivers what is committed during it."""
        for turn in range(5):
            self.add("leo")
            heard = [self.named("leo").pubsub() for _ in range(20)]
            for one in heard:
                one.subscribe("events")
                self.assertEqual(one.get_message(timeout=PATIENCE)["type"], "subscribe")
            with self.boss.pipeline(transaction=False) as both:
                for i in range(600):
                    when = "after" if i > 200 else "before"
                    both.execute_command("POOL", "CREATE", "%s-%d-%d" % (when, turn, i), "SET")
                    if i == 200:
                        both.execute_command("USER", "DELETE", "leo")
                both.execute()
            for one in heard:
                got = []
                with self.assertRaises((redis.ConnectionError, redis.ResponseError)):
                    while True:
                        message = one.get_message(timeout=PATIENCE)
                        got += [message["data"]] if message else []
                self.assertEqual([text for text in got if "after-" in text], [])

    def test_quotas(self):
        self.boss.execute_command("POOL", "CREATE", "many", "RANGE", 1, 100)
        self.add("max", "holder", "MAX_VALUES", 3)
        for name, secret, quota in (("max", NEW, 3), ("small", SECRET, 2)):
            client = self.named(name, secret)
            lease = pairs(client.execute_command("ALLOC", "many", "h", "COUNT", 2))
            if quota > 2:
                client.execute_command("ALLOC", "many", "h")
            self.assertIn("QUOTA", refused(client, "ALLOC", "many", "h"))
            self.assertIn("QUOTA", refused(client, "RESERVE", "h", "TTL", 9, "FROM", "many", "COUNT", 1))
            me = pairs(client.execute_command("WHOAMI"))
            self.assertEqual((me["values"], me["max_values"]), (quota, quota))
            client.execute_command("RELEASE", lease["lease"], "h", lease["epoch"])
            client.execute_command("ALLOC", "many", "h", "COUNT", 2)
        self.boss.execute_command("USER", "SET", "max", "MAX_VALUES", 0)
        self.named("max").execute_command("ALLOC", "many", "h", "COUNT", 20)

    def test_the_users_of_the_file_are_the_files(self):
        for words in (["ADD", "small", "ROLE", "admin", "SECRET", "x"], ["SET", "boss", "ROLE", "reader"],
                      ["DELETE", "boss"]):
            self.assertIn("configuration file", refused(self.boss, "USER", *words))
        self.add("later")
        later = self.named("later")
        later.ping()
        self.reload(self.users + user("later", "admin"))
        self.assertIsNotNone(refused(later, "PING"))  # the file's has another secret
        self.assertEqual(pairs(self.named("later", SECRET).execute_command("WHOAMI"))["source"], "file")
        self.reload(self.users)
        self.assertEqual(pairs(self.named("later").execute_command("WHOAMI"))["source"], "logged")

    def test_a_reload_leaves_users_of_the_log_alone(self):
        self.add("ken")
        ken = self.named("ken")
        number = ken.client_id()
        self.reload(self.users + user("other", "reader"))
        self.assertEqual(ken.client_id(), number)
        self.reload(self.users)

    def test_only_administrators_without_limits(self):
        self.add("op", "operator")
        self.assertIn("permissions", refused(self.named("op"), "USER", "LIST"))
        self.add("part", "admin", "POOLS", "a")
        part = self.named("part")
        for words in (["ADD", "x", "ROLE", "admin", "SECRET", "x"], ["SET", "part", "POOLS", "*"],
                      ["DELETE", "op"]):
            self.assertIn("limited", refused(part, "USER", *words) or "it was done")

    def events(self):
        return [pairs(e) for e in pairs(self.boss.execute_command("EVENTS", "COUNT", 1000))["events"]]

    def test_an_administrator_that_is_deleted_while_its_secret_is_hashed_adds_nobody(self):
        self.add("brief", "admin")
        connection = self.named("brief").connection_pool.get_connection("USER")
        connection.send_command("USER", "ADD", "friend", "ROLE", "admin", "SECRET", NEW)
        self.boss.execute_command("USER", "DELETE", "brief")
        with self.assertRaises(redis.RedisError):  # unless it came first, it was refused
            while True:
                connection.read_response()
        self.add("after")  # a hash that was begun later
        kinds = [(e["kind"], e.get("name")) for e in self.events()]
        self.assertNotIn(("user.added", "friend"), kinds[kinds.index(("user.deleted", "brief")):])

    def test_an_administrator_that_is_demoted_while_its_secret_is_hashed_adds_nobody(self):
        self.add("lower", "admin")
        connection = self.named("lower").connection_pool.get_connection("USER")
        connection.send_command("USER", "ADD", "crony", "ROLE", "admin", "SECRET", NEW)
        self.boss.execute_command("USER", "SET", "lower", "ROLE", "reader")
        try:
            connection.read_response()
        except redis.ResponseError as error:
            self.assertIn("permi", str(error))
        kinds = [(e["kind"], e.get("name")) for e in self.events()]
        self.assertNotIn(("user.added", "crony"), kinds[kinds.index(("user.changed", "lower")):])

    def test_a_list_without_a_pattern_is_refused(self):
        for words in ("POOLS", ","), ("POOLS", " "), ("HOLDERS", ", ,"), ("HOLDERS", ""):
            for verb in ["ADD", "blank", "ROLE", "reader", "SECRET", "x"], ["SET", "blank"]:
                self.assertIn("use * for all", refused(self.boss, "USER", *verb, *words) or "it was done")
        with tempfile.NamedTemporaryFile("w", suffix=".conf", encoding="ascii") as file:
            file.write(user("blank", "reader", "pools = ,"))
            file.flush()
            done = subprocess.run([TENURED, "--config", file.name, "--check-config"], check=False,
                                  stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=PATIENCE)
        self.assertNotEqual(done.returncode, 0)
        self.assertIn(b"the pattern is missing", done.stdout)

    def test_events_tell_administrators_who_changed_a_user_and_no_secret(self):
        self.add("tim", "reader", "REASON", "new here", secret="sesame")
        events = pairs(self.boss.execute_command("EVENTS", "COUNT", 1000))["events"]
        told = [pairs(e) for e in events if pairs(e)["kind"] == "user.added"]
        self.assertIn(("tim", "boss"), [(e.get("name"), e["actor"]) for e in told], told)
        self.assertNotIn("sesame", str(events))
        self.assertNotIn("argon2", str(events))
        seen = pairs(self.named("tim", "sesame").execute_command("EVENTS", "COUNT", 1000))["events"]
        self.assertFalse([e for e in seen if pairs(e)["kind"].startswith("user.")])

    def test_a_repeated_command_is_known(self):
        first = pairs(self.add("rob", "holder", "OPID", "op-rob"))
        again = pairs(self.add("rob", "holder", "OPID", "op-rob"))
        self.assertEqual(first["lsn"], again["lsn"])
        self.assertIn("CONFLICT", refused(self.boss, "USER", "ADD", "rob", "ROLE", "holder", "SECRET",
                                          "not the same", "OPID", "op-rob"))
        self.named("rob").ping()

    def test_bad_words(self):
        for words in (["ADD", "a:b", "ROLE", "reader", "SECRET", "x"], ["ADD", "c", "ROLE", "root", "SECRET", "x"],
                      ["ADD", "c", "ROLE", "reader"], ["ADD", "c", "ROLE", "reader", "SECRET", ""],
                      ["SET", "small2", "MAX_VALUES", "-1"], ["SET", "none", "ROLE", "reader"]):
            self.assertIsNotNone(refused(self.boss, "USER", *words), words)

    def test_http(self):
        status, _, _ = self.http("PUT", "/v1/users/web", "boss",
                                 body=json.dumps({"role": "reader", "secret": NEW}))
        self.assertEqual(status, 201)
        status, text, _ = self.http("GET", "/v1/whoami", "web", NEW)
        self.assertEqual((status, json.loads(text)["name"], json.loads(text)["role"]), (200, "web", "reader"))
        status, text, _ = self.http("PATCH", "/v1/users/web?secret=sesame", "boss")
        self.assertEqual(status, 400)
        self.assertIn(b"in the body", text)
        self.assertNotIn(b"sesame", text)
        status, _, _ = self.http("PATCH", "/v1/users/web", "boss", body=json.dumps({"role": "holder"}))
        self.assertEqual(status, 200)
        status, text, _ = self.http("GET", "/v1/users?count=2", "boss")
        page = json.loads(text)
        self.assertEqual((status, len(page["users"])), (200, 2))
        self.assertNotIn("argon2", text.decode())
        self.assertEqual(self.http("GET", "/v1/users", "web", NEW)[0], 403)
        self.assertEqual(self.http("DELETE", "/v1/users/web", "boss")[0], 200)
        self.assertEqual(self.http("GET", "/v1/whoami", "web", NEW)[0], 401)


class Certified(CertifiedCase):
    """A client certificate with the name of a user that was added at run time."""
    more = ("--tls-client-certificates", "optional")

    def local(self, *words):
        with self.server.local() as client:
            return client.execute_command("USER", *words)

    def connect(self):
        return http.client.HTTPSConnection("localhost", self.server.https_port, timeout=PATIENCE,
                                           context=self.certificates.context("client"))

    def asked(self, connection):
        connection.request("GET", "/v1/whoami")
        answer = connection.getresponse()
        return answer.status, answer.read()

    def test_it_logs_in_at_once_and_again_after_a_change(self):
        self.local("ADD", "client", "ROLE", "reader", "SECRET", NEW)
        self.server.stop()
        self.server.start()
        with self.server.tls(self.certificates.context("client")) as s:  # nobody looked at the users before
            s.sendall(b"*1\r\n$6\r\nWHOAMI\r\n")
            self.assertIn(b"client", s.recv(4096))
        kept = self.connect()
        self.assertEqual(self.asked(kept)[0], 200)
        self.local("SET", "client", "SECRET", "another")
        with self.assertRaises((http.client.HTTPException, OSError)):  # it was closed
            self.assertEqual(self.asked(kept)[0], 401)  # or is, after this answer
            self.assertIsNone(kept.sock)
            raise ConnectionError
        kept.close()
        self.assertEqual(self.asked(self.connect())[0], 200)


class CommandLine(World):
    """tenure user ...: the secret comes from a prompt, a file or standard input."""
    users = user("boss", "admin")

    def tenure(self, *arguments, name="boss", secret=SECRET, stdin=b""):
        done = subprocess.run([TENURE, "-p", str(self.server.port), *arguments], input=stdin,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False, timeout=PATIENCE,
                              env={**os.environ, "TENURE_USER": name, "TENURE_SECRET": secret})
        return done.returncode, done.stdout.decode()

    def test_secrets_from_standard_input_and_files(self):
        self.assertEqual(self.tenure("user", "add", "in", "--role", "reader", stdin=b"from a pipe\n")[0], 0)
        self.login("in", "from a pipe").ping()
        path = os.path.join(self.dir.name, "secret")
        with open(path, "w", encoding="ascii") as file:
            file.write("-from a file\n")
        code, out = self.tenure("user", "set", "in", "--secret-file", path, "--max-values", "3")
        self.assertEqual(code, 0, out)
        code, out = self.tenure("whoami", name="in", secret="-from a file")
        self.assertEqual(code, 0, out)
        self.assertRegex(out, r"max_values\s+3")
        self.assertIn("logged", self.tenure("user", "list")[1])
        self.assertEqual(self.tenure("user", "add", "in", "--role", "reader", stdin=b"x\n")[0], 10)
        self.assertEqual(self.tenure("user", "add", "no", "--role", "reader", stdin=b"")[0], 2)
        self.assertEqual(self.tenure("user", "delete", "in")[0], 0)
        code, out = self.tenure("whoami", name="in", secret="-from a file")
        self.assertEqual(code, 44)
        self.assertIn("TENURE_SECRET", out)

    def test_a_random_secret_in_a_new_file(self):
        path = os.path.join(self.dir.name, "random")
        add = ("user", "add", "made", "--role", "reader", "--new-secret-file", path)
        code, out = self.tenure(*add)
        self.assertEqual(code, 0, out)
        self.assertEqual(stat.S_IMODE(os.stat(path).st_mode), 0o600)
        secret = text_of(path).strip()
        self.assertRegex(secret, "^[0-9a-f]{32}$")
        self.login("made", secret).ping()
        self.assertNotIn(secret, out)
        # The file of another user is not replaced, and no file is left if nobody has its secret.
        code, out = self.tenure("user", "set", "made", "--new-secret-file=" + path)
        self.assertEqual(code, 2, out)
        self.assertIn("there is such a file already", out)
        self.login("made", secret).ping()
        other = os.path.join(self.dir.name, "other")
        self.assertEqual(self.tenure(*add[:-1], other)[0], 10)
        self.assertFalse(os.path.exists(other))
        self.assertEqual(self.tenure(*add, "--secret-file", path)[0], 2)
        code, out = self.tenure("user", "set", "made", "--new-secret-file", other)
        self.assertEqual(code, 0, out)
        self.login("made", text_of(other).strip()).ping()
        self.assertEqual(self.tenure("user", "delete", "made")[0], 0)

    def prompted(self, first, second):
        """The exit code, and what the terminal showed."""
        parent, child = pty.openpty()
        process = subprocess.Popen([TENURE, "-p", str(self.server.port), "user", "add", "tty", "--role", "reader"],
                                   stdin=child, stdout=child, stderr=child, start_new_session=True,
                                   env={**os.environ, "TENURE_USER": "boss", "TENURE_SECRET": SECRET})
        os.close(child)
        shown = b""
        for prompt, answer in ((b"Secret: ", first), (b"Again: ", second)):
            while prompt not in shown:
                shown += os.read(parent, 4096)
            os.write(parent, answer + b"\n")
        try:
            while True:
                shown += os.read(parent, 4096)
        except OSError:  # the program has ended
            pass
        os.close(parent)
        return process.wait(PATIENCE), shown

    def test_a_terminal_is_asked_twice_and_shows_nothing(self):
        code, shown = self.prompted(b"open sesame", b"open barley")
        self.assertEqual(code, 2, shown)
        code, shown = self.prompted(b"open sesame", b"open sesame")
        self.assertEqual(code, 0, shown)
        self.assertNotIn(b"sesame", shown)
        self.login("tty", "open sesame").ping()


class Bootstrap(World):
    """A server without users: the first ones come over the Unix-domain socket."""

    def test_the_first_user_closes_the_server_for_the_anonymous_for_good(self):
        anyone = self.server.client()
        me = pairs(anyone.execute_command("WHOAMI"))
        self.assertEqual((me["name"], me["role"], me["source"]), (None, "admin", "anonymous"))
        words = ["USER", "ADD", "root", "ROLE", "admin", "SECRET", NEW]
        self.assertIn("anonymous", refused(anyone, *words))
        self.assertEqual(self.http("PUT", "/v1/users/root",
                                   body=json.dumps({"role": "admin", "secret": NEW}))[0], 403)
        local = self.server.local()
        me = pairs(local.execute_command("WHOAMI"))
        self.assertEqual((me["name"], me["source"]), ("unix:%d" % os.getuid(), "socket"))
        local.execute_command(*words)
        self.assertIn("Authentication", refused(anyone, "PING"))
        self.login("root", NEW).ping()
        self.server.stop(signal.SIGKILL)
        self.server.start()
        self.assertIn("Authentication", refused(self.server.client(), "PING"))
        self.login("root", NEW).execute_command("SNAPSHOT")
        self.server.stop()
        self.server.start()
        root = self.login("root", NEW)
        root.ping()
        self.server.local().execute_command("USER", "DELETE", "root")
        self.assertIn("Authentication", refused(self.server.client(), "PING"))
        for where, _, files in os.walk(self.server.data):
            for name in files:
                if not name.endswith(".sock"):
                    with open(os.path.join(where, name), "rb") as file:
                        self.assertNotIn(NEW.encode(), file.read(), name)
        self.assertNotIn(NEW, text_of(self.server.log.name))


class Followers(unittest.TestCase):
    def test_a_subscriber_of_a_follower_gets_nothing_that_comes_after_its_user_was_deleted(self):
        cluster = Cluster(("a", "b"))
        self.addCleanup(cluster.remove)
        owner = cluster.owner()
        follower = cluster.others(owner)[0]
        boss = owner.local()
        self.addCleanup(boss.close)
        for turn in range(3):
            boss.execute_command("USER", "ADD", "eve", "ROLE", "reader", "SECRET", NEW)
            eve = follower.client(username="eve", password=NEW)
            self.addCleanup(eve.close)

            def knows(eve=eve):
                try:
                    return eve.ping()
                except redis.RedisError:
                    return False
            until(knows, "the follower to know the user")
            heard = eve.pubsub()
            heard.subscribe("events")
            self.assertEqual(heard.get_message(timeout=PATIENCE)["type"], "subscribe")
            with boss.pipeline(transaction=False) as both:
                both.execute_command("POOL", "CREATE", "before-%d" % turn, "SET")
                both.execute_command("USER", "DELETE", "eve")
                both.execute_command("POOL", "CREATE", "after-%d" % turn, "SET")
                both.execute()
            got = ""
            with self.assertRaises((redis.ConnectionError, redis.ResponseError)):
                while True:
                    message = heard.get_message(timeout=PATIENCE)
                    got += message["data"] if message else ""
            self.assertNotIn("after-%d" % turn, got)


if __name__ == "__main__":
    unittest.main()
