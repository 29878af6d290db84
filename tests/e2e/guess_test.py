# tsan
"""Connections that guess secrets cannot keep a user from logging in, from another address or from the same one. A
comparison takes tens of milliseconds, so what is counted is comparisons: how many were made between the
user's request and its answer. No test here looks at a clock."""
import base64
import http.client
import re
import socket
import tempfile
import unittest

from access_test import HASH, SECRET, user
from harness import PATIENCE, Server, receive_until, text_of, until
from share_test import array

GUESSERS = 300
FEW = 6  # comparisons before the user's: one may be under way, two kinds of turns
FAILURES = 8  # on one connection; then it is closed


class Guess(unittest.TestCase):
    def setUp(self):
        with tempfile.NamedTemporaryFile("w", suffix=".conf", delete=False) as config:
            config.write(user("root", "admin", secret=HASH) + user("alice", "holder", secret=HASH))
        self.server = Server(None, "--config", config.name)
        self.addCleanup(self.server.remove)

    def connect(self, address="127.0.0.1"):
        s = socket.create_connection(("127.0.0.1", self.server.port), PATIENCE, (address, 0))
        self.addCleanup(s.close)
        return s

    def failed(self):
        """Comparisons that failed so far."""
        c = http.client.HTTPConnection("127.0.0.1", self.server.http_port, timeout=PATIENCE)
        c.request("GET", "/metrics", headers={"Authorization": "Basic " + base64.b64encode(
            b"root:" + SECRET.encode()).decode()})
        text = c.getresponse().read().decode()
        c.close()
        return int(re.search(r'logins_total\{outcome="refused"\} (\d+)', text).group(1))

    def crowd(self, name, address="127.0.0.1"):
        """All of them wait for the answer to a guess; a few have had one."""
        self.failed()  # the user root is known from now on
        sockets = [self.connect(address) for _ in range(GUESSERS)]
        for i, s in enumerate(sockets):
            s.sendall(array("AUTH", name, "guess-%d" % i) * 20)
        until(lambda: self.failed() >= 2, "some guesses have failed")

    def login(self, address, most=FEW):
        s = self.connect(address)
        before = self.failed()
        s.sendall(array("AUTH", "alice", SECRET))
        self.assertEqual(receive_until(s, b"\r\n"), b"+OK\r\n")
        self.assertLessEqual(self.failed() - before, most)

    def test_from_another_address(self):
        self.crowd("alice")
        self.login("127.0.0.2")

    def test_from_the_same_address_while_others_are_guessed_at(self):
        self.crowd("root")
        self.login("127.0.0.1")

    def test_from_the_same_address_while_it_is_guessed_at(self):
        self.crowd("alice")
        self.login("127.0.0.1")

    def test_over_http(self):
        self.crowd("alice")
        before = self.failed()
        c = http.client.HTTPConnection("127.0.0.1", self.server.http_port, timeout=PATIENCE)
        self.addCleanup(c.close)
        c.request("GET", "/v1/pools", headers={"Authorization": "Bearer alice:" + SECRET})
        self.assertEqual(c.getresponse().status, 200)
        self.assertLessEqual(self.failed() - before, FEW)

    def test_a_connection_that_fails_often_is_closed(self):
        s = self.connect()
        s.sendall(array("AUTH", "alice", "wrong") * (FAILURES + 1))
        got = b""
        while True:
            part = s.recv(4096)
            if not part:
                break
            got += part
        self.assertEqual(got.count(b"-WRONGPASS"), FAILURES)

    def test_the_log_has_the_address_and_not_all_lines(self):
        s = self.connect("127.0.0.3")
        s.sendall(array("AUTH", "alice", "wrong-secret"))
        self.assertIn(b"WRONGPASS", receive_until(s, b"\r\n"))
        log = text_of(self.server.log.name)
        self.assertRegex(log, r'event=login_failed user=alice addr=127\.0\.0\.3')
        self.assertNotIn("wrong-secret", log)
        for _ in range(10):  # a name too long costs no comparison, so there are many in a second
            s = self.connect()
            s.sendall(array("AUTH", "x" * 100, "wrong") * FAILURES)
            while s.recv(4096):
                pass

        def all_told():
            text = text_of(self.server.log.name)
            more = sum(map(int, re.findall(r"event=logins_failed more=(\d+)", text)))
            return more > 0 and text.count("event=login_failed") + more == 1 + 10 * FAILURES
        until(all_told, "each failure has a line or is counted in one")


if __name__ == "__main__":
    unittest.main()
