"""The first user appears on a server that anonymous clients use: their waits and subscriptions end with their
access, and a connection that only has to log in stays."""
import http.client
import json
import socket
import unittest

from harness import PATIENCE, Case, pairs, receive_until, until

SECRET = "staple 7 gun"


class FirstUser(Case):
    def ask(self, *words):
        """A socket that has sent this."""
        s = self.server.connect()
        self.addCleanup(s.close)
        s.sendall(b"*%d\r\n" % len(words) + b"".join(b"$%d\r\n%s\r\n" % (len(w), w)
                                                     for w in (str(word).encode() for word in words)))
        return s

    def waiting(self):
        return pairs(self.local.execute_command("POOL", "INFO", "one"))["waiting"]

    def test_anonymous_waiters_and_listeners_end(self):
        self.do("POOL", "CREATE", "one", "RANGE", 1, 1)
        self.do("ALLOC", "one", "holder")
        waiter = self.ask("ALLOC", "one", "anonymous", "WAIT", 3600)
        again = self.ask("ALLOC", "one", "with-id", "WAIT", 3600, "OPID", "op-1")
        listener = self.ask("SUBSCRIBE", "events")
        receive_until(listener, b"events\r\n:1\r\n")
        idle = self.ask("PING")
        receive_until(idle, b"+PONG\r\n")
        web = http.client.HTTPConnection("127.0.0.1", self.server.http_port, timeout=PATIENCE)
        self.addCleanup(web.close)
        web.request("POST", "/v1/pools/one/leases", json.dumps({"holder": "web", "wait": 3600}),
                    {"Content-Type": "application/json"})
        stream = http.client.HTTPConnection("127.0.0.1", self.server.http_port, timeout=PATIENCE)
        self.addCleanup(stream.close)
        stream.request("GET", "/v1/events?after=0.0")
        events = stream.getresponse()
        self.assertEqual(events.status, 200)
        until(lambda: self.waiting() == 3, "all wait in line")

        self.local.execute_command("USER", "ADD", "boss", "ROLE", "admin", "SECRET", SECRET)
        # They hear nothing more: no grant, no event.
        self.assertNotIn(b"active", receive_until(waiter, b"never"))
        self.assertNotIn(b"active", receive_until(again, b"never"))
        self.assertNotIn(b"user.", receive_until(listener, b"never"))
        self.assertNotIn(b"later", events.read())
        with self.assertRaises((http.client.HTTPException, ConnectionError)):
            web.getresponse()
        # A request with an operation id keeps its place for a client that comes back; the others leave the line.
        until(lambda: self.waiting() <= 1, "they leave the line")
        self.local.execute_command("POOL", "CREATE", "later", "RANGE", 1, 1)

        # One that only has to log in is not disconnected.
        idle.sendall(b"*1\r\n$4\r\nPING\r\n")
        self.assertIn(b"NOAUTH", receive_until(idle, b"\r\n"))
        idle.sendall(b"*3\r\n$4\r\nAUTH\r\n$4\r\nboss\r\n$%d\r\n%s\r\n" % (len(SECRET), SECRET.encode()))
        self.assertEqual(receive_until(idle, b"\r\n"), b"+OK\r\n")
        idle.shutdown(socket.SHUT_RDWR)


if __name__ == "__main__":
    unittest.main()
