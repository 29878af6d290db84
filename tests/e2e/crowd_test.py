# tsan
"""Crowds that try to exhaust the server's memory or time: requests that never end, replies
that are never read, a byte from time to time. The server stays within client_memory and answers honest
clients."""
import select
import signal
import socket
import tempfile
import time
import unittest

from harness import PATIENCE, Server, text_of, until

MEMORY = 8 << 20
CROWD = 200
PART = 400000  # of an argument of 500,000 bytes


def dropped(r, reason):
    return int(r.info()["%s_clients_dropped" % reason])


def stands(pid):
    return text_of("/proc/%d/stat" % pid).rsplit(")", 1)[1].split()[0] == "T"


class Crowd(unittest.TestCase):
    def setUp(self):
        self.server = Server(None, "--client-memory", str(MEMORY))
        self.addCleanup(self.server.remove)

    def crowd(self, count=CROWD):
        for _ in range(count):
            s = self.server.connect()
            s.setblocking(False)
            self.addCleanup(s.close)
            yield s

    def send_what_goes(self, sockets, bytes_of_each):
        """Sends until each socket has sent all its bytes or has been disconnected."""
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
            # The kernel takes as many bytes of each; a first reply of another length for each leaves the server
            # with another part of a reply, from none to all of it: half of one on average.
            ask = b"*2\r\n$7\r\nCOMMAND\r\n$4\r\nDOCS\r\n" * 200
            for i, s in enumerate(self.crowd(3 * CROWD)):
                self.send_what_goes([s], b"*2\r\n$4\r\nECHO\r\n$%d\r\n%s\r\n" % (100 * i, b"x" * 100 * i) + ask)
            until(lambda: dropped(r, "memory") > 0, "some are dropped")
            self.assertTrue(r.ping())
            self.assertLess(int(r.info()["clients_memory"]), 2 * MEMORY)

    def test_an_honest_client_has_its_share(self):
        """The crowd uses all memory; a request of usual size still fits, whole or in parts."""
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

    def test_bodies_that_never_end_leave_room_for_an_honest_one(self):
        """Large ones use the memory, then small ones the rest, to the last byte."""
        head = b"POST /v1/pools/p/leases HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n"
        body = b'{"holder": "honest", "ttl": 60}'
        crowd = []
        with self.server.client() as r:
            r.execute_command("POOL", "CREATE", "p", "RANGE", 1, 9)
            for part in [380000] * CROWD + [6000 >> i for i in range(13) for _ in range(4)]:
                s = self.server.connect(self.server.http_port)
                s.setblocking(False)
                self.addCleanup(s.close)
                self.send_what_goes([s], head % 390000 + b" " * part)
                crowd.append(s)
            until(lambda: int(r.info()["clients_memory"]) > MEMORY * 3 // 4, "the crowd has most of it")
            for _ in range(5):
                with self.server.connect(self.server.http_port) as s:
                    s.sendall(head % len(body) + body)
                    self.assertIn(b" 201 ", s.recv(65536))
            self.assertLess(int(r.info()["clients_memory"]), 2 * MEMORY)
            for s in crowd:
                s.close()
            until(lambda: int(r.info()["clients_memory"]) == 0, "all of it is given back")

    def test_what_is_freed_is_there_again(self):
        with self.server.client() as r:
            for s in list(self.crowd(40)):
                s.setblocking(True)
                s.sendall(b"*2\r\n$4\r\nECHO\r\n$500000\r\n" + b"x" * 100000)
                s.close()
            until(lambda: int(r.info()["clients_memory"]) == 0, "all of it is given back")
            self.assertEqual(len(r.echo("y" * 500000)), 500000)
            until(lambda: int(r.info()["clients_memory"]) == 0, "also what was served")


    def test_a_crowd_that_grows(self):
        """Each connection uses its current share; the sum of these shares must stay within the bound."""
        with self.server.client() as r:
            self.send_what_goes(self.crowd(), b"*2\r\n$4\r\nECHO\r\n$500000\r\n" + b"x" * PART)
            until(lambda: dropped(r, "memory") > 0, "there is no more than shares")
            clients = int(r.info()["connected_clients"])
            for s in self.crowd(1500):
                clients += 1
                part = min(60000, MEMORY // clients - 100)
                try:
                    s.send(b"*2\r\n$4\r\nECHO\r\n$500000\r\n" + b"x" * part)
                except OSError:
                    pass
                if clients % 100 == 0:
                    self.assertLess(int(r.info()["clients_memory"]), 2 * MEMORY)
            until(lambda: int(r.info()["clients_memory"]) > MEMORY, "the last have been read")
            self.assertEqual(r.echo("y" * 1000), "y" * 1000)


class Answers(unittest.TestCase):
    """Unread answers of HTTP count toward the same bound, once they are more than the sockets take."""
    memory = 4 * MEMORY

    def setUp(self):
        self.server = Server(None, "--client-memory", str(self.memory))
        self.addCleanup(self.server.remove)

    def ask(self, path, count):
        for _ in range(count):
            s = socket.socket()
            s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            s.settimeout(PATIENCE)
            s.connect(("127.0.0.1", self.server.http_port))
            self.addCleanup(s.close)
            s.sendall(("GET %s HTTP/1.1\r\nHost: localhost\r\n\r\n" % path).encode() * 3)
            yield s

    def statuses(self, sockets):
        """The head of each answer has been read, so all answers have been made."""
        return [s.recv(12, socket.MSG_WAITALL)[9:] for s in sockets]

    def kept(self, r):
        return int(r.info()["clients_memory"])

    def test_pages_that_nobody_reads(self):
        with self.server.client() as r:
            r.execute_command("POOL", "CREATE", "p", "RANGE", 1, 300000, "LEASE", 3600)
            for _ in range(1000):
                r.execute_command("ALLOC", "p", "h", "COUNT", 256)
            crowd = list(self.ask("/v1/events?after=0.0&count=1000", 40))
            until(lambda: int(r.info()["total_error_replies"]) > 0, "some are refused")
            self.assertGreater(self.kept(r), self.memory // 2)
            self.assertLess(self.kept(r), 2 * self.memory)
            self.assertIn(b"200", self.statuses(crowd))
            self.assertTrue(r.ping())

    def test_metrics_that_nobody_reads(self):
        with self.server.client() as r:
            with r.pipeline(transaction=False) as pipe:
                for i in range(6000):
                    pipe.execute_command("POOL", "CREATE", "pool-%d" % i, "RANGE", 1, 100)
                pipe.execute()
            got = [status for s in self.ask("/metrics", 30) for status in self.statuses([s])]
            self.assertIn(b"200", got)
            self.assertIn(b"503", got)
            self.assertLess(self.kept(r), 2 * self.memory)


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

    def test_who_waits_for_answers_is_not_idle(self):
        """Each request of a pipeline waits a second for something that never happens; a client without
        requests is disconnected meanwhile."""
        with tempfile.NamedTemporaryFile("w", suffix=".conf") as config:
            server = Server(None, "--config", config.name)
            self.addCleanup(server.remove)
            with server.client() as r, server.connect() as s:
                s.sendall(b"POOL LIST FENCE 999999\r\n" * 4)
                until(lambda: select.select([s], [], [], 0)[0] or
                      any(c["qbuf"] != "0" for c in r.client_list()), "it waits, or did already")
                config.write("[server]\nidle_seconds = 1\n")  # only now: it was idle at first
                config.flush()
                server.process.send_signal(signal.SIGHUP)
                until(lambda: "changed=idle_seconds" in text_of(server.log.name), "the reload")
                with server.connect() as quiet:
                    self.assertEqual(quiet.recv(1), b"")
                with s.makefile("rb") as replies:
                    for _ in range(4):
                        self.assertTrue(replies.readline().startswith(b"-NOT_YET "))

    def test_who_asks_while_the_server_stands_still_is_not_idle(self):
        """Its input is read before its idle time is checked."""
        server = Server(None, "--idle-seconds", "1")
        self.addCleanup(server.remove)

        def still():
            with server.connect() as s:
                try:
                    s.sendall(b"PING\r\n")
                    self.assertIn(s.recv(7), (b"+PONG\r\n", b""))
                except ConnectionError:
                    return False
                server.process.send_signal(signal.SIGSTOP)
                try:
                    until(lambda: stands(server.process.pid), "it stands still")
                    if select.select([s], [], [], 0)[0]:
                        return False  # we were too slow ourselves: it is dropped already
                    s.sendall(b"PING\r\n")
                    end = time.monotonic() + 2
                    until(lambda: time.monotonic() > end, "so long that it would be idle")
                finally:
                    server.process.send_signal(signal.SIGCONT)
                self.assertEqual(s.recv(7), b"+PONG\r\n")
                return True
        until(still, "a server that stood still")

    def test_who_waits_between_requests_stays(self):
        """Silence is not an unfinished request: only idle_seconds limits it."""
        server = Server(None, "--slow-seconds", "1")
        self.addCleanup(server.remove)
        with server.client() as r, server.connect() as quiet, server.connect() as s:
            quiet.sendall(b"PING\r\n")
            self.assertEqual(quiet.recv(100), b"+PONG\r\n")
            s.sendall(b"*2\r\n$4\r\nECHO\r\n")  # it is dropped: so the time has passed for both
            until(lambda: dropped(r, "unfinished") == 1, "the other is dropped")
            quiet.sendall(b"PING\r\n")
            self.assertEqual(quiet.recv(100), b"+PONG\r\n")

    def test_who_was_served_may_take_its_time(self):
        """It may be busy with earlier replies: megabytes wait in its own socket."""
        server = Server(None, "--slow-seconds", "1")
        self.addCleanup(server.remove)
        with server.client() as r, server.connect() as busy, server.connect() as s:
            busy.sendall(b"POOL LIST\r\n*2\r\n$4\r\nECHO\r\n$5\r\nhe")
            until(lambda: b"pools" in busy.recv(4096), "it is served")
            s.sendall(b"HELLO 2\r\n*2\r\n$4\r\nECHO\r\n$5\r\nhe")  # anybody may say hello
            until(lambda: dropped(r, "unfinished") == 1, "the other is dropped")
            busy.sendall(b"llo\r\n")
            got = b""
            while not got.endswith(b"hello\r\n"):
                got += busy.recv(4096)


if __name__ == "__main__":
    unittest.main()
