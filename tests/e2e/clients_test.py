#!/usr/bin/env python3
"""Client libraries: the exact words that uninstalled ones send when they connect, over a socket;
those of Node, with clients_test.mjs; and redis-py's subscriptions."""
import json
import os
import subprocess
import unittest

from harness import PATIENCE, TENURED, Case, pairs, port_of, reserve, until
from resp import Error, Resp

SOURCE = os.environ.get("TENURE_SOURCE_DIR", ".")


def hello(version):
    def check(reply):
        reply = reply if isinstance(reply, dict) else pairs(reply)
        return reply["proto"] == version and reply["role"] == "master" and reply["mode"] == "standalone"
    return check


def error(start):
    return lambda reply: isinstance(reply, Error) and reply.startswith(start)


def has(*parts):
    return lambda reply: all(part in reply for part in parts)


def number(reply):
    return isinstance(reply, int) and reply > 0


def config(name, value):
    """A flat array in RESP2, a map in RESP3."""
    return lambda reply: (reply if isinstance(reply, dict) else pairs(reply)) == {name: value}


OK = "OK"
# Capabilities that a client asks for and does without if it hears an error.
NO_NOTIFICATIONS = error("ERR unknown subcommand 'maint_notifications'")
NO_NOTIFICATIONS_UPPER = error("ERR unknown subcommand 'MAINT_NOTIFICATIONS'")
ECHO = "\x01\x7f0f9\x00\r\n7b-4c"

# (library, pipelined as the library does it, [(words, the reply)])
SEQUENCES = [
    ("go-redis 9, RESP3", False, [
        (["hello", "3", "setname", "worker"], hello(3)),
        (["client", "maint_notifications", "on", "moving-endpoint-type", "none"], NO_NOTIFICATIONS)]),
    ("go-redis 9, what it pipelines next", True, [
        (["hello", "3"], hello(3)),
        (["client", "setinfo", "LIB-NAME", "go-redis(,go1.23.4)"], OK),
        (["client", "setinfo", "LIB-VER", "9.16.0"], OK),
        (["ping"], "PONG")]),
    ("go-redis 9, a password", False, [
        (["hello", "3", "auth", "default", "secret", "setname", "worker"], hello(3)),
        (["client", "getname"], "worker")]),
    ("go-redis 9, RESP2", True, [
        (["hello", "2"], hello(2)),
        (["select", "0"], OK),
        (["readonly"], OK)]),
    ("Lettuce 6", True, [
        (["HELLO", "3"], hello(3)),
        (["CLIENT", "SETINFO", "lib-name", "Lettuce"], OK),
        (["CLIENT", "SETINFO", "lib-ver", "6.5.2.RELEASE/c77bc3d"], OK),
        (["PING"], "PONG")]),
    ("Lettuce 7", True, [
        (["HELLO", "3", "SETNAME", "app"], hello(3)),
        (["CLIENT", "SETINFO", "lib-name", "Lettuce(app)"], OK),
        (["CLIENT", "SETINFO", "lib-ver", "7.0.0.RELEASE/1"], OK),
        (["CLIENT", "MAINT_NOTIFICATIONS", "ON", "MOVING-ENDPOINT-TYPE", "internal-ip"],
         NO_NOTIFICATIONS_UPPER),
        (["COMMAND", "INFO", "subscribe"],
         lambda reply: reply[0][:3] == ["subscribe", -2, ["pubsub"]]),
        (["COMMAND"], lambda reply: {"alloc", "pool"} <= {row[0] for row in reply})]),
    ("Lettuce, a version that nobody has", False, [
        (["HELLO", "9"], error("NOPROTO")),
        (["PING"], "PONG")]),
    ("Jedis 6, RESP3", True, [
        (["HELLO", "3"], hello(3)),
        (["CLIENT", "SETNAME", "jedis-1"], OK),
        (["CLIENT", "SETINFO", "LIB-NAME", "jedis(app_v1.0)"], OK),
        (["CLIENT", "SETINFO", "LIB-VER", "6.0.0"], OK),
        (["SELECT", "0"], OK)]),
    ("Jedis 4, RESP2", True, [
        (["CLIENT", "SETINFO", "LIB-NAME", "jedis"], OK),
        (["CLIENT", "SETINFO", "LIB-VER", "5.1.0"], OK),
        (["PING"], "PONG")]),
    ("StackExchange.Redis 2, RESP2", True, [
        (["CLIENT", "SETNAME", "HOST(SE.Redis-v2.8.24.3255)"], OK),
        (["CLIENT", "SETINFO", "lib-name", "SE.Redis"], OK),
        (["CLIENT", "SETINFO", "lib-ver", "2.8.24.3255"], OK),
        (["CLIENT", "ID"], number),
        (["CONFIG", "GET", "slave-read-only"], config("slave-read-only", "yes")),
        (["CONFIG", "GET", "timeout"], config("timeout", "0")),
        (["CONFIG", "GET", "databases"], config("databases", "1")),
        (["INFO", "replication"], has("role:master", "connected_slaves:0")),
        (["INFO", "server"], has("redis_version:", "redis_mode:standalone")),
        (["SENTINEL", "MASTERS"], lambda reply: pairs(reply[0])["flags"] == "master"),
        (["CLUSTER", "NODES"], error("ERR unknown command")),
        (["GET", "__Booksleeve_TieBreak"], error("ERR unknown command")),
        (["ECHO", ECHO], ECHO)]),
    ("StackExchange.Redis 2, its second connection", True, [
        (["CLIENT", "SETNAME", "HOST(SE.Redis-v2.8.24.3255)"], OK),
        (["CLIENT", "ID"], number),
        (["ECHO", ECHO], ECHO),
        (["SUBSCRIBE", "__Booksleeve_MasterChanged"],
         lambda reply: reply == ["subscribe", "__Booksleeve_MasterChanged", 1]),
        (["PING"], lambda reply: reply == ["pong", ""]),
        (["UNSUBSCRIBE", "4f5e11e0"], lambda reply: reply == ["unsubscribe", "4f5e11e0", 1])]),
    ("StackExchange.Redis 2, RESP3", True, [
        (["HELLO", "3", "SETNAME", "HOST(SE.Redis-v2.8.24.3255)"], hello(3)),
        (["CLIENT", "SETINFO", "lib-name", "SE.Redis"], OK),
        (["CONFIG", "GET", "slave-read-only"], config("slave-read-only", "yes")),
        (["ECHO", ECHO], ECHO),
        (["SUBSCRIBE", "__Booksleeve_MasterChanged"],
         lambda reply: reply == ["subscribe", "__Booksleeve_MasterChanged", 1]),
        (["PING"], "PONG")]),
    ("redis-py 8", True, [
        (["HELLO", "3"], hello(3)),
        (["CLIENT", "MAINT_NOTIFICATIONS", "ON", "moving-endpoint-type", "internal-ip"],
         NO_NOTIFICATIONS_UPPER),
        (["CLIENT", "SETINFO", "LIB-NAME", "redis-py"], OK),
        (["CLIENT", "SETINFO", "LIB-VER", "8.0.0"], OK),
        (["SELECT", "0"], OK)]),
    ("redis-rs 1", True, [
        (["HELLO", "3"], hello(3)),
        (["CLIENT", "SETINFO", "LIB-NAME", "redis-rs"], OK),
        (["CLIENT", "SETINFO", "LIB-VER", "1.0.0"], OK)]),
    ("redis-rb", True, [
        (["HELLO", "3"], hello(3)),
        (["CLIENT", "SETINFO", "LIB-NAME", "redis-client"], OK)]),
    ("Predis, phpredis", True, [
        (["SELECT", "0"], OK),
        (["CLIENT", "SETNAME", "php"], OK),
        (["PING"], "PONG")]),
    ("redis-cli", False, [
        (["COMMAND", "DOCS"], lambda reply: "alloc" in str(reply).lower()),
        (["INFO"], has("redis_version:"))]),
]


class Sequences(Case):
    def test_what_libraries_send_when_they_connect(self):
        for library, pipelined, steps in SEQUENCES:
            resp = Resp(self.server)
            if pipelined:
                for words, _ in steps:
                    resp.send(*words)
            for words, want in steps:
                with self.subTest(library=library, words=words):
                    if not pipelined:
                        resp.send(*words)
                    reply = resp.read()
                    self.assertTrue(want(reply) if callable(want) else reply == want, reply)
            resp.close()

    def test_a_library_sees_who_it_is(self):
        resp = Resp(self.server, 3)
        resp.do("CLIENT", "SETNAME", "HOST(SE.Redis-v2.8.24.3255)")
        resp.do("CLIENT", "SETINFO", "lib-name", "go-redis(,go1.23.4)")
        me = [c for c in self.r.client_list() if c["id"] == str(resp.do("CLIENT", "ID"))]
        self.assertEqual((me[0]["name"], me[0]["lib-name"]),
                         ("HOST(SE.Redis-v2.8.24.3255)", "go-redis(,go1.23.4)"))
        resp.close()


class Node(unittest.TestCase):
    def test_node_redis_and_ioredis(self):
        modules = subprocess.run([os.path.join(SOURCE, "tools", "npm.sh")], check=True,
                                 stdout=subprocess.PIPE).stdout.decode().strip()
        script = os.path.join(SOURCE, "tests", "e2e", "clients_test.mjs")
        with reserve() as place:
            run = subprocess.run(["node", script, TENURED, modules, str(port_of(place))], check=False,
                                 timeout=4 * PATIENCE, stdout=subprocess.PIPE,
                                 stderr=subprocess.STDOUT)
        self.assertEqual(run.returncode, 0, run.stdout.decode())
        self.assertTrue(run.stdout.endswith(b"all ok\n"), run.stdout)


class Python(Case):
    def test_redis_py_resumes_a_subscription(self):
        self.do("POOL", "CREATE", "p", "RANGE", 1, 100)
        first = pairs(self.do("ALLOC", "p", "first"))["lsn"]
        self.do("ALLOC", "p", "second")
        p = self.r.pubsub(ignore_subscribe_messages=True)
        heard = []
        p.subscribe(**{"events?after=%d" % first: lambda m: heard.append(json.loads(m["data"]))})
        until(lambda: p.get_message(timeout=0.05) or heard, "a message")
        self.assertEqual([e["holder"] for e in heard], ["second"])
        p.close()


if __name__ == "__main__":
    unittest.main()
