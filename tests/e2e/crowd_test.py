# tsan
"""Crowds that want to use up the server's memory or its patience: requests that never end, replies
that nobody reads, a byte now and then. The server keeps to what client_memory says, and whoever asks
honestly is answered."""
import resource
import socket
import unittest

from harness import Server, text_of, until

MEMORY = 8 << 20
CROWD = 200
PART = 400000  # of an argument of 500,000 bytes


def dropped(r, reason):
    return int(r.info()["%s_clients_dropped" % reason])


class Crowd(unittest.TestCase):
    def setUp(self):
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        if soft < 4096:
            resource.setrlimit(resource.RLIMIT_NOFILE, (min(4096, hard), hard))
        self.server = Server(None, "--client-memory", str(MEMORY), "--slow-seconds", "600")
        self.addCleanup(self.server.remove)

    def crowd(self, count=CROWD):
        for _ in range(count):
            s = self.server.connect()
            s.setblocking(False)
            self.addCleanup(s.close)
            yield s

    def send_what_goes(self, sockets, bytes_of_each):
        """Until each has sent it all or has been hung up on."""
        left = {s: bytes_of_each for s in sockets}

        def step():
            for s in list(left):
                try:
                    left[s] = left[s][s.send(left[s]):]
                except BlockingIOError:
                    continue
                except OSError:
                    left[s] = b""
                if not left[s]:
                    del left[s]
            return not left
        until(step, "all have sent what they could")

    def test_requests_that_never_end(self):
        with self.server.client() as r:
            self.send_what_goes(self.crowd(), b"*2\r\n$4\r\nECHO\r\n$500000\r\n" + b"x" * PART)
            until(lambda: dropped(r, "memory") > 0, "some are dropped")
            self.assertTrue(r.ping())
            self.assertLess(int(r.info()["clients_memory"]), 2 * MEMORY)

    def test_replies_that_nobody_reads(self):
        with self.server.client() as r:
            ask = b"*2\r\n$7\r\nCOMMAND\r\n$4\r\nDOCS\r\n" * 200
            self.send_what_goes(self.crowd(), ask)
            until(lambda: dropped(r, "memory") > 0, "some are dropped")
            self.assertTrue(r.ping())
            self.assertLess(int(r.info()["clients_memory"]), 2 * MEMORY)

    def test_an_honest_client_has_its_share(self):
        """The crowd takes all there is; a request of usual size still fits, whole or in parts."""
        with self.server.client() as r:
            self.send_what_goes(self.crowd(), b"*2\r\n$4\r\nECHO\r\n$500000\r\n" + b"x" * PART)
            until(lambda: dropped(r, "memory") > 0, "some are dropped")
            self.assertEqual(r.echo("y" * 4096), "y" * 4096)
            with self.server.connect() as s:
                s.sendall(b"*2\r\n$4\r\nECHO\r\n$4096\r\n" + b"z" * 4000)
                self.assertTrue(r.ping())
                s.sendall(b"z" * 96 + b"\r\n")
                got = b""
                while len(got) < 4096:
                    got += s.recv(65536)
                self.assertTrue(got.startswith(b"$4096\r\nzzz"))

    def test_what_is_freed_is_there_again(self):
        with self.server.client() as r:
            for s in list(self.crowd(40)):
                s.setblocking(True)
                s.sendall(b"*2\r\n$4\r\nECHO\r\n$500000\r\n" + b"x" * 100000)
                s.close()
            until(lambda: int(r.info()["clients_memory"]) == 0, "all of it is given back")
            self.assertEqual(len(r.echo("y" * 500000)), 500000)
            until(lambda: int(r.info()["clients_memory"]) == 0, "also what was served")


class Trickle(unittest.TestCase):
    def test_a_byte_now_and_then(self):
        server = Server(None, "--slow-seconds", "1")
        self.addCleanup(server.remove)
        with server.client() as r, server.connect() as s:
            s.sendall(b"*2\r\n$4\r\nECHO\r\n$500000\r\n")
            s.settimeout(0.05)

            def trickle():
                try:
                    s.send(b"x")
                    return s.recv(10) == b""
                except socket.timeout:
                    return False
                except OSError:
                    return True
            until(trickle, "it is hung up on")
            self.assertEqual(dropped(r, "unfinished"), 1)
            self.assertIn("reason=unfinished", text_of(server.log.name))
            self.assertTrue(r.ping())

    def test_who_waits_between_requests_stays(self):
        """Silence is no unfinished request, however long: that is for idle_seconds."""
        server = Server(None, "--slow-seconds", "1")
        self.addCleanup(server.remove)
        with server.client() as r, server.connect() as quiet, server.connect() as s:
            quiet.sendall(b"PING\r\n")
            self.assertEqual(quiet.recv(100), b"+PONG\r\n")
            s.sendall(b"*2\r\n$4\r\nECHO\r\n")  # it is dropped: so the time has passed for both
            until(lambda: dropped(r, "unfinished") == 1, "the other is dropped")
            quiet.sendall(b"PING\r\n")
            self.assertEqual(quiet.recv(100), b"+PONG\r\n")


if __name__ == "__main__":
    unittest.main()
