#!/usr/bin/env python3
# tsan
"""Long replies are made between the turns of the loop, a few at a time, and only for clients that read
them. So a client that asks for little is answered first, however many clients ask for much. The server is
stopped while many clients ask, so that all requests are there at once when it continues."""
import contextlib
import http.client
import json
import re
import socket
import time
import unittest

import redis

from harness import PATIENCE, Case, Server, pairs, read_bulk, receive, receive_until, text_of, until

DOCS = b"COMMAND DOCS\r\n"
EVENTS = b"EVENTS COUNT 1000\r\n"
SLICE = 4  # replies that take long, between two looks at the sockets
DOOR = 4  # who come in, likewise
CROWD = 100
FENCE_SECONDS = 1  # how long a read waits for a log position


def reply_of(server, request):
    """The whole reply: it ends before the known reply to the next request."""
    with server.connect() as s:
        s.sendall(request + b"ECHO the-end\r\n")
        got = b""
        while not got.endswith(b"$7\r\nthe-end\r\n"):
            got += s.recv(1 << 20)
        return got[:-len(b"$7\r\nthe-end\r\n")]


def calls(text, name):
    found = re.search(r"cmdstat_%s:calls=(\d+)" % re.escape(name), text)
    return int(found.group(1)) if found else 0


class Turns(Case):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.r.execute_command("POOL", "CREATE", "p", "RANGE", 1, 10000, "LEASE", 3600)
        for i in range(500):
            got = pairs(cls.r.execute_command("ALLOC", "p", "holder-%d" % i))
            cls.r.execute_command("RELEASE", got["lease"], "holder-%d" % i, got["epoch"])

    def connect(self):
        s = self.server.connect()
        self.addCleanup(s.close)
        return s

    def stats(self, s):
        s.sendall(b"INFO commandstats\r\n")
        return read_bulk(s)

    def test_little_is_answered_before_much(self):
        """Even if it was requested last."""
        want = reply_of(self.server, DOCS)
        crowd = [self.connect() for _ in range(CROWD)]
        light = self.connect()
        before = calls(self.stats(light), "command|docs")
        with self.server.standstill():
            for s in crowd:
                s.sendall(DOCS)
            light.sendall(b"INFO commandstats\r\n")
        made = calls(read_bulk(light), "command|docs") - before
        self.assertLessEqual(made, 2 * SLICE)
        for s in crowd:
            self.assertEqual(receive(s, len(want)), want)

    def test_fences_that_end_together_are_answered_in_several_turns(self):
        """A thousand reads that wait for a log position that never comes: others are served in between."""
        many = 1000
        light = self.connect()
        fence = b"*5\r\n$4\r\nPOOL\r\n$4\r\nINFO\r\n$1\r\np\r\n$5\r\nFENCE\r\n$12\r\n999999999999\r\n"
        crowd = [self.connect() for _ in range(many)]

        def seen_between():
            for s in crowd:
                s.sendall(b"ECHO waits\r\n" + fence + b"ECHO over\r\n")
            for s in crowd:
                receive(s, len(b"$5\r\nwaits\r\n"))
            before = calls(self.stats(light), "pool|info")
            with self.server.standstill():
                end = time.monotonic() + FENCE_SECONDS
                until(lambda: time.monotonic() > end, "the end of all waits")
            looks = {0}
            while max(looks) < many:
                looks.add(calls(self.stats(light), "pool|info") - before)
            for s in crowd:
                receive_until(s, b"$4\r\nover\r\n")
            return len(looks) > 4
        until(seen_between, "a look between the answers")

    def test_who_is_there_is_answered_before_all_who_come(self):
        """A few are accepted between two polls of the sockets; finally all are."""
        def received(text):
            return int(re.search(r"total_connections_received:(\d+)", text).group(1))
        light = self.connect()
        light.sendall(b"INFO stats\r\n")
        before = received(read_bulk(light))
        with self.server.standstill():
            crowd = [self.connect() for _ in range(CROWD)]
            for s in crowd:
                s.sendall(b"PING\r\n")
            light.sendall(b"INFO stats\r\n")
        self.assertLessEqual(received(read_bulk(light)) - before, 2 * DOOR)
        for s in crowd:
            self.assertEqual(receive(s, 7), b"+PONG\r\n")

    def test_little_is_answered_before_pages_over_http(self):
        crowd = [http.client.HTTPConnection("127.0.0.1", self.server.http_port, timeout=PATIENCE)
                 for _ in range(CROWD)]
        light = self.connect()
        before = calls(self.stats(light), "events")
        for c in crowd:
            c.connect()
            self.addCleanup(c.close)
        with self.server.standstill():
            for c in crowd:
                c.request("GET", "/v1/events?count=1000&format=json")
            light.sendall(b"INFO commandstats\r\n")
        self.assertLessEqual(calls(read_bulk(light), "events") - before, 2 * SLICE)
        pages = [json.loads(c.getresponse().read()) for c in crowd]
        self.assertEqual(len(pages[0]["events"]), 1000)
        self.assertTrue(all(p == pages[0] for p in pages))

    def test_others_are_served_between_large_bodies(self):
        """Each takes milliseconds to judge, and some are judged for clients that have not logged in."""
        body = b'{"token": "' + b"x" * 380000
        light = self.connect()

        def memory():
            light.sendall(b"INFO clients\r\n")
            return int(re.search(r"clients_memory:(\d+)", read_bulk(light)).group(1))

        def seen_between():
            with contextlib.ExitStack() as stack:
                crowd = [stack.enter_context(self.server.connect(self.server.http_port)) for _ in range(CROWD)]
                for s in crowd:
                    s.sendall(b"POST /auth/refresh HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n"
                              % (len(body) + 2) + body)
                until(lambda: memory() >= CROWD * len(body), "the server to have read the bodies")
                before = calls(self.stats(light), "token|refresh")
                with self.server.standstill():
                    for s in crowd:
                        s.sendall(b'"}')
                looks = {0}
                while max(looks) < CROWD:
                    looks.add(calls(self.stats(light), "token|refresh") - before)
                for s in crowd:
                    self.assertEqual(receive(s, 12), b"HTTP/1.1 401")
            until(lambda: memory() == 0, "the end of the bodies")
            return len(looks) > CROWD // 2
        until(seen_between, "a look between the bodies")

    def test_a_list_is_not_behind_all_pages_of_events(self):
        none = b"*6\r\n$6\r\ncursor\r\n:0\r\n$5\r\nrules\r\n*0\r\n$3\r\nlsn\r\n:"
        crowd = [self.connect() for _ in range(CROWD)]
        other = self.connect()
        before = calls(self.stats(other), "events")
        with self.server.standstill():
            for s in crowd:
                s.sendall(EVENTS)
            other.sendall(b"RULE LIST\r\nINFO commandstats\r\n")
        self.assertEqual(receive(other, len(none)), none)
        while receive(other, 1) != b"\n":  # the position
            pass
        self.assertLessEqual(calls(read_bulk(other), "events") - before, 2 * SLICE)

    def test_much_is_made_for_who_reads(self):
        """Of a pipeline of slow requests, as many replies as the socket takes; the others when it is read."""
        want = reply_of(self.server, DOCS)
        count = 200
        before = calls(self.stats(self.connect()), "command|docs")
        with socket.socket() as s:
            s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            s.settimeout(PATIENCE)
            s.connect(("127.0.0.1", self.server.port))
            s.sendall(b"CLIENT SETNAME unread\r\n" + DOCS * count)
            until(lambda: [c for c in self.r.client_list()
                           if c["name"] == "unread" and int(c["omem"]) > 0], "the socket is full")
            made = calls(self.stats(self.connect()), "command|docs") - before
            self.assertLess(made, 10)
            self.assertEqual(receive(s, 5), b"+OK\r\n")
            for _ in range(count):
                self.assertEqual(receive(s, len(want)), want)

    def test_a_page_that_is_made_in_slices_is_whole(self):
        """For several at a time, some of whom leave meanwhile."""
        want = reply_of(self.server, EVENTS)
        self.assertGreater(len(want), 100000)
        crowd = [self.connect() for _ in range(12)]
        with self.server.standstill():
            for s in crowd:
                s.sendall(EVENTS * 3)
            for s in crowd[::3]:
                s.close()
        for i, s in enumerate(crowd):
            if i % 3 != 0:
                for _ in range(3):
                    self.assertEqual(receive(s, len(want)), want)
        self.assertTrue(self.r.ping())

    def test_order_in_a_pipeline(self):
        """Light, heavy and writes, mixed: the replies come in the order of the requests."""
        docs = reply_of(self.server, DOCS)
        crowd = [self.connect() for _ in range(20)]
        for s in crowd:
            s.sendall((b"PING\r\n" + DOCS + b"*1\r\n$5\r\nRENEW\r\n" + DOCS + b"ECHO e\r\n") * 10)
        for s in crowd:
            for _ in range(10):
                self.assertEqual(receive(s, 7), b"+PONG\r\n")
                self.assertEqual(receive(s, len(docs)), docs)
                self.assertEqual(receive(s, 1), b"-")
                while receive(s, 1) != b"\n":
                    pass
                self.assertEqual(receive(s, len(docs)), docs)
                self.assertEqual(receive(s, 7), b"$1\r\ne\r\n")


class Room(unittest.TestCase):
    """Without room for a long reply, it is refused by name while it is rendered."""
    memory = 4 << 20

    def setUp(self):
        self.server = Server(None, "--client-memory", str(self.memory), "--slow-seconds", "600")
        self.addCleanup(self.server.remove)
        self.r = self.server.client()
        self.addCleanup(self.r.close)

    def fill(self):
        """Uses up all the room, for which one of the clients is disconnected."""
        crowd = [self.server.connect() for _ in range(300)]
        for s in crowd:
            self.addCleanup(s.close)
            with contextlib.suppress(OSError):
                s.sendall(b"*2\r\n$4\r\nECHO\r\n$500000\r\n" + b"x" * 30000)
        until(lambda: int(self.r.info()["memory_clients_dropped"]) > 0, "there is no more")

    def test_long_pages_are_refused_and_short_ones_are_not(self):
        self.r.execute_command("POOL", "CREATE", "p", "RANGE", 1, 10000, "LEASE", 3600)
        for i in range(1000):
            self.r.execute_command("ALLOC", "p", "holder-%d" % i)
        self.fill()
        for words in (("EVENTS", "COUNT", 1000), ("LEASES", "COUNT", 1000)):
            with self.assertRaisesRegex(redis.ResponseError, "OVERLOADED.*slow clients"):
                self.r.execute_command(*words)
            self.assertEqual(len(pairs(self.r.execute_command(*words[:2], 10))[words[0].lower()]),
                             10)
        c = http.client.HTTPConnection("127.0.0.1", self.server.http_port, timeout=PATIENCE)
        self.addCleanup(c.close)
        c.request("GET", "/v1/events?count=1000&format=json")
        answer = c.getresponse()
        self.assertEqual((answer.status, answer.headers["Retry-After"]), (503, "1"))
        self.assertEqual(json.loads(answer.read())["outcome"], "rejected")

    def test_a_crowd_that_is_dropped_has_few_lines(self):
        """Each is counted: by a line of its own or in one for all."""
        crowd = [self.server.connect() for _ in range(300)]
        for s in crowd:
            self.addCleanup(s.close)
            with contextlib.suppress(OSError):
                s.sendall(b"*2\r\n$4\r\nECHO\r\n$500000\r\n" + b"x" * 100000)
        until(lambda: int(self.r.info()["memory_clients_dropped"]) >= 100, "most are dropped")

        def all_told():
            log = text_of(self.server.log.name)
            told = len(re.findall("event=client_dropped", log))
            more = sum(map(int, re.findall(r"event=clients_dropped more=(\d+)", log)))
            return more > 0 and told + more == int(self.r.info()["memory_clients_dropped"])
        until(all_told, "all of them are in the log")


if __name__ == "__main__":
    unittest.main()
