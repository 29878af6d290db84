# tsan
"""Each connection gets a bounded share of a turn of the loop, whatever it sends. The server is stopped
while the flooding connections fill their sockets and one other client asks for the counters, so all of
it is there at once when the server continues. The counters in that client's reply then tell how much
the server did for the flooding connections first. No test here looks at a clock."""
import contextlib
import re
import socket
import tempfile
import unittest

from access_test import HASH, SECRET, user
from harness import PATIENCE, Server, read_bulk, receive, until

FLOODERS = 16
FLOOD = 256 << 10  # bytes that each of them sends
COMMANDS = 256  # the share of a connection in one turn, in commands
READ = 16 << 10  # and in bytes
STRANGER_COMMANDS = 32  # the same while nobody has logged in, if users are defined
STRANGER_READ = 2 << 10
TURNS = 3  # in which the other client is answered at the latest


def array(*words):
    """A request as client libraries send it: a line of text may not write."""
    return b"*%d\r\n" % len(words) + b"".join(b"$%d\r\n%s\r\n" % (len(w), w)
                                             for w in map(str.encode, words))


def calls(text, name):
    return number(text, "cmdstat_%s:calls=" % name)


def number(text, name):
    found = re.search(r"^%s(\d+)" % re.escape(name), text, re.M)
    return int(found.group(1)) if found else 0


def bytes_read(text):
    return number(text, "total_net_input_bytes:")


def errors(text):
    return number(text, "total_error_replies:")


def without_login(text):
    return number(text, "errorstat_NOAUTH:count=")


class Flood(unittest.TestCase):
    users = ""

    def setUp(self):
        with tempfile.NamedTemporaryFile("w", suffix=".conf", delete=False) as config:
            config.write(self.users)
        self.server = Server(None, "--config", config.name, "--client-memory", str(256 << 20))
        self.addCleanup(self.server.remove)
        self.other = self.server.connect()
        self.addCleanup(self.other.close)
        if self.users:
            self.other.sendall(array("AUTH", "root", SECRET))
            self.assertEqual(receive(self.other, 5), b"+OK\r\n")

    def info(self):
        self.other.sendall(b"INFO all\r\n")
        return read_bulk(self.other)

    def connections(self, count):
        """Connections that the server has served already."""
        sockets = []
        for _ in range(count):
            sockets.append(self.server.connect())
            self.addCleanup(sockets[-1].close)
            self.ping(sockets[-1])
        return sockets

    def ping(self, s):
        s.sendall(b"PING\r\n")
        until(lambda: s.recv(100).endswith(b"\r\n"), "an answer")

    def flood(self, request, flooders=FLOODERS):
        """The counters before, and when the other client is answered in the middle of the flood."""
        bytes_of_each = request * (FLOOD // len(request))
        sockets = self.connections(flooders)
        before = self.info()
        self.ping(sockets[-1])  # else the other client could still be the first to be looked at
        with self.server.standstill():
            for s in sockets:
                s.setblocking(False)
                self.assertGreater(s.send(bytes_of_each), 4 * READ)
                s.setblocking(True)
            self.other.sendall(b"INFO all\r\n")
        return before, read_bulk(self.other)

    def shares(self, request, count, commands=COMMANDS, read=READ):
        before, after = self.flood(request)
        self.assertLessEqual(count(after) - count(before), TURNS * FLOODERS * commands)
        self.assertLessEqual(bytes_read(after) - bytes_read(before), TURNS * FLOODERS * read + 100)


class Anybody(Flood):
    def test_ping(self):
        self.shares(b"PING\r\n", lambda info: calls(info, "ping"))

    def test_unknown_commands(self):
        self.shares(array("x"), errors)

    def test_commands_with_wrong_arguments(self):
        self.shares(array("RENEW"), errors)

    def test_writes(self):
        self.other.sendall(array("POOL", "CREATE", "p", "RANGE", "1", "1000000"))
        receive(self.other, 1)
        until(lambda: self.other.recv(65536).endswith(b"\r\n"), "the pool is there")
        self.shares(array("ALLOC", "p", "flooder"), lambda info: calls(info, "alloc"))

    def test_writes_that_are_refused_at_once(self):
        self.shares(array("RENEW", "x", "x", "1"), errors)

    def test_empty_lines(self):
        self.shares(b"\r\n", lambda info: 0)

    def test_one_request_without_end(self):
        """The bytes of an argument are no command; reading them is still bounded."""
        before, after = self.flood(b"*2\r\n$4\r\nECHO\r\n$500000\r\n" + b"z" * (FLOOD // 2))
        self.assertLessEqual(bytes_read(after) - bytes_read(before), TURNS * FLOODERS * READ + 100)

    def test_http(self):
        """A pipeline over HTTP is answered a few requests at a time, too."""
        request = b"GET /v1/pools HTTP/1.1\r\nHost: localhost\r\n\r\n"
        sockets = [socket.create_connection(("127.0.0.1", self.server.http_port), PATIENCE)
                   for _ in range(FLOODERS)]
        for s in sockets:
            self.addCleanup(s.close)
        before = self.info()
        with self.server.standstill():
            for s in sockets:
                s.sendall(request * 500)
            self.other.sendall(b"INFO all\r\n")
        after = read_bulk(self.other)
        self.assertLessEqual(calls(after, "pool|list") - calls(before, "pool|list"),
                             2 * TURNS * FLOODERS)

    def test_the_whole_flood_is_answered_in_order(self):
        """Also with writes in between, and when a request ends in a later read."""
        s = self.server.connect()
        self.addCleanup(s.close)
        count = 20000
        pipeline = b"".join(array("ECHO", "%06d" % i) + array("RENEW", "x", "x", "1") + array("x")
                            for i in range(count))
        sent = 0
        s.setblocking(False)
        got = bytearray()

        def step():
            nonlocal sent
            with contextlib.suppress(BlockingIOError):
                sent += s.send(pipeline[sent:sent + 65536])
            with contextlib.suppress(BlockingIOError):
                while True:
                    got.extend(s.recv(1 << 20))
            return got.count(b"\r\n") == 4 * count
        until(step, "all is answered")
        self.assertEqual(re.findall(rb"\$6\r\n(\d{6})\r\n-[A-Z_]+ [^\r]*\r\n-ERR unknown command",
                                    bytes(got)), [b"%06d" % i for i in range(count)])


class Strangers(Flood):
    """Users are defined and the flooding connections have not logged in."""
    users = user("root", "admin", secret=HASH)

    def test_ping(self):
        self.shares(b"PING\r\n", without_login, STRANGER_COMMANDS, STRANGER_READ)

    def test_unknown_commands(self):
        self.shares(array("x"), errors, STRANGER_COMMANDS, STRANGER_READ)

    def test_writes_that_need_a_login(self):
        self.shares(array("ALLOC", "p", "flooder"), without_login, STRANGER_COMMANDS, STRANGER_READ)

    def test_a_pipeline_of_a_user_comes_before_strangers(self):
        """The rest of its pipeline is served without waiting for a round of all strangers."""
        sockets = self.connections(200)
        before = without_login(self.info())
        asks = 4 * COMMANDS
        self.ping(sockets[-1])
        with self.server.standstill():
            for s in sockets:
                s.sendall(b"PING\r\n" * 10000)
            self.other.sendall(b"ECHO e\r\n" * asks + b"INFO all\r\n")
        receive(self.other, asks * len(b"$1\r\ne\r\n"))
        pings = without_login(read_bulk(self.other)) - before
        # One slice of each that is ready at first, then the user's turns with few of theirs between.
        self.assertLessEqual(pings, (len(sockets) + 5 * 64) * STRANGER_COMMANDS)

    def test_long_replies_of_a_user_come_before_those_of_strangers(self):
        """A command that may have a long reply, and that a run may send without a log-in."""
        sockets = self.connections(100)
        asks = 50
        before = number(self.info(), "errorstat_BAD_TOKEN:count=")
        self.ping(sockets[-1])
        with self.server.standstill():
            for s in sockets:
                s.sendall(array("SENSOR", "RULES", "s", "a.b.c") * 1000)
            self.other.sendall(array("LEASES") * asks + b"INFO all\r\n")
        reply = b"*6\r\n$6\r\ncursor\r\n:0\r\n$6\r\nleases\r\n*0\r\n$3\r\nlsn\r\n:1\r\n"
        self.assertEqual(receive(self.other, asks * len(reply)), reply * asks)
        strangers = number(read_bulk(self.other), "errorstat_BAD_TOKEN:count=") - before
        # One or two in each turn that the user's pipeline takes, not a round of all of them.
        self.assertLessEqual(strangers, len(sockets) + 4 * asks)


if __name__ == "__main__":
    unittest.main()
