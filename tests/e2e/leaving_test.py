"""Clients that leave at the worst moment: while the server is in the middle of serving them. It is
stopped meanwhile, so that all of what they sent, and that they are gone, is there at once."""
import signal
import unittest

from harness import Server, until


def words(*words_of_it):
    encoded = [word if isinstance(word, bytes) else str(word).encode() for word in words_of_it]
    return b"*%d\r\n" % len(encoded) + b"".join(b"$%d\r\n%s\r\n" % (len(word), word)
                                               for word in encoded)


class Leaving(unittest.TestCase):
    def setUp(self):
        self.server = Server()
        self.addCleanup(self.server.remove)

    def ask_and_leave(self, requests):
        """Its replies are more than are sent at once: the second part finds nobody."""
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
        """The read is the first that finds nobody there: it must not be waited for."""
        with self.server.connect() as s:
            s.sendall(words("COMMAND", "DOCS") + words("ECHO", "that was it"))
            docs = b""
            while not docs.endswith(b"that was it\r\n"):
                docs += s.recv(1 << 20)
        several = 128 * 1024 // (len(docs) - len(b"$11\r\nthat was it\r\n")) + 1
        self.ask_and_leave(words("COMMAND", "DOCS") * (2 * several) +
                           words("LEASES", "FENCE", 1 << 40))


if __name__ == "__main__":
    unittest.main()
