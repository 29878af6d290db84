# tsan
"""Clients that disconnect at the worst moment: while the server is serving them. The server is stopped
meanwhile, so that it sees everything that they sent, and the end of the connection, at once."""
import signal
import socket
import unittest

from harness import PATIENCE, Server, text_of, until


def words(*words_of_it):
    encoded = [word if isinstance(word, bytes) else str(word).encode() for word in words_of_it]
    return b"*%d\r\n" % len(encoded) + b"".join(b"$%d\r\n%s\r\n" % (len(word), word)
                                               for word in encoded)


class Leaving(unittest.TestCase):
    def setUp(self):
        self.server = Server()
        self.addCleanup(self.server.remove)

    def ask_and_leave(self, requests):
        """Sends requests whose replies are too long to be sent at once: the second part has no receiver."""
        s = self.server.connect()
        s.sendall(b"PING\r\n")
        self.assertEqual(s.recv(7), b"+PONG\r\n")
        self.server.process.send_signal(signal.SIGSTOP)
        try:
            s.sendall(requests)
            s.close()
        finally:
            self.server.process.send_signal(signal.SIGCONT)
        with self.server.client() as r:
            self.assertTrue(r.ping())
            until(lambda: len(r.client_list()) == 1, "the other connection is gone")
            self.assertTrue(r.ping())

    def test_while_it_subscribes(self):
        names = ["silent-%s-%d" % ("n" * 230, i) for i in range(1024)]
        for command in ("SUBSCRIBE", "PSUBSCRIBE"):
            self.ask_and_leave(words(command, *names))

    def test_before_a_read_that_waits(self):
        """The read is the first to find the connection closed: the server must not wait for it."""
        with self.server.connect() as s:
            s.sendall(words("COMMAND", "DOCS") + words("ECHO", "that was it"))
            docs = b""
            while not docs.endswith(b"that was it\r\n"):
                docs += s.recv(1 << 20)
        several = 128 * 1024 // (len(docs) - len(b"$11\r\nthat was it\r\n")) + 1
        self.ask_and_leave(words("COMMAND", "DOCS") * (2 * several) +
                           words("LEASES", "FENCE", 1 << 40))

    def busy(self, count):
        """Slow requests: each searches thousands of events and shows none."""
        with self.server.client() as r:
            if not r.execute_command("POOL", "LIST")[3]:
                r.execute_command("POOL", "CREATE", "many", "RANGE", 1, 100000)
                pipe = r.pipeline(transaction=False)
                for i in range(3000):
                    pipe.execute_command("ALLOC", "many", "h%d" % i)
                pipe.execute()
        return b"".join(words("EVENTS", "AFTER", "0.0", "POOL", "none", "COUNT", 1) +
                        words("ECHO", "n%d" % i) for i in range(count))

    def test_a_long_pipeline_takes_turns(self):
        """Its replies keep their order; other clients are answered before the pipeline ends."""
        requests = self.busy(500)
        with self.server.connect() as s, self.server.client() as r:
            s.sendall(requests)
            self.assertTrue(r.ping())
            got = b""
            while b"n499\r\n" not in got:
                got += s.recv(1 << 20)
            said = [line for line in got.split(b"\r\n") if line[:1] == b"n" and line[1:].isdigit()]
            self.assertEqual(said, [b"n%d" % i for i in range(500)])

    def test_while_it_waits_for_its_turn(self):
        requests = self.busy(500)
        for _ in range(3):
            self.ask_and_leave(requests)

    def test_the_server_stops_while_some_wait_for_their_turn(self):
        requests = self.busy(1000)
        several = [self.server.connect() for _ in range(4)]
        for s in several:
            s.sendall(requests)
        self.assertTrue(several[0].recv(1))
        self.assertEqual(self.server.stop(), 0)
        for s in several:
            s.close()

    def test_who_waits_for_a_turn_when_the_server_stops_is_answered(self):
        """The answer to the first request shows that the second has been read, and waits. All requests that
        were sent in one piece are answered."""
        self.busy(1)
        one = words("EVENTS", "AFTER", "0.0", "POOL", "none", "COUNT", 1)
        several = [self.server.connect() for _ in range(40)]
        for s in several:
            s.sendall(b"PING\r\n" + one + words("ECHO", "waited") + one + words("ECHO", "over"))
        for s in several:
            self.assertEqual(s.recv(7), b"+PONG\r\n")
        self.assertEqual(self.server.stop(), 0)
        answers = [s.makefile("rb").read() for s in several]
        for s in several:
            s.close()
        if "event=drain_over" in text_of(self.server.log.name):
            self.skipTest("the machine is too slow to answer them in the time that a server has")
        for answer in answers:
            self.assertIn(b"\r\nwaited\r\n", answer)
            self.assertTrue(answer.endswith(b"\r\nover\r\n"), answer)

    def test_answers_are_not_taken_back_from_who_goes_on_asking(self):
        """A socket that is closed with unread data makes the other side drop the data it has sent. The buffer
        of this client is so small that most of its answers wait in the server's."""
        with socket.socket() as s, self.server.client() as r:
            s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            s.settimeout(PATIENCE)
            s.connect(("127.0.0.1", self.server.port))
            s.sendall(words("ECHO", "e" * 100) * 400)
            until(lambda: r.info("commandstats")["cmdstat_echo"]["calls"] == 400, "all are answered")
            self.server.process.send_signal(signal.SIGTERM)
            until(lambda: "event=stopping" in text_of(self.server.log.name), "it stops")
            s.sendall(b"PING\r\n")
            answers = b""
            try:
                while more := s.recv(65536):
                    answers += more
            except ConnectionResetError:
                pass
        self.assertEqual(self.server.process.wait(PATIENCE), 0)
        self.server.log.close()
        if "event=drain_over" in text_of(self.server.log.name):
            self.skipTest("the machine is too slow to take them in the time that a server has")
        self.assertEqual(answers.count(b"e" * 100), 400)

    def test_reloads_do_not_end_a_server_that_stops(self):
        self.busy(1)
        process = self.server.process
        process.send_signal(signal.SIGTERM)
        while process.poll() is None:
            process.send_signal(signal.SIGHUP)
        self.assertEqual(process.returncode, 0)
        self.server.log.close()


if __name__ == "__main__":
    unittest.main()
