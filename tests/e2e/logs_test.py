"""Output of sensors as it is read back, in pieces other than those that the sensor printed."""
import http.client
import json
import os
import pty
import subprocess
import unittest

from harness import BUILD, PATIENCE, Server

REF = "chatty"


class Logs(unittest.TestCase):
    def setUp(self):
        self.server = Server()
        self.addCleanup(self.server.remove)
        with self.server.client() as redis:  # before it serves, it removes what is of no sensor
            redis.ping()
        self.directory = os.path.join(self.server.data, "data", "sensors", REF)
        os.makedirs(self.directory)

    def prints(self, text, number=1):
        """Writes output as the sensor's guardian would."""
        with open(os.path.join(self.directory, "log.%d" % number), "ab") as file:
            file.write(text)

    def logs(self, after, count=None):
        connection = http.client.HTTPConnection("127.0.0.1", self.server.http_port, timeout=PATIENCE)
        path = "/v1/sensors/%s/logs?after=%s" % (REF, after)
        connection.request("GET", path + ("&count=%d" % count if count else ""))
        answer = connection.getresponse()
        self.assertEqual(answer.status, 200)
        body = json.loads(answer.read())
        connection.close()
        return body

    def test_a_character_is_told_whole_however_it_is_printed(self):
        self.prints(b"ab\xe2\x82")
        first = self.logs("0.0")
        self.assertEqual((first["output"], first["next"], first["more"]), ("ab", "1.2", False))
        # Whoever asks in between is not told a part of it.
        again = self.logs(first["next"])
        self.assertEqual((again["output"], again["next"], again["more"]), ("", "1.2", False))
        self.prints(b"\xac!")
        last = self.logs(again["next"])
        self.assertEqual((last["output"], last["next"]), ("\u20ac!", "1.6"))

    def test_what_is_no_character_holds_up_nobody(self):
        self.prints(b"\xff\xe2\x82")
        self.assertEqual(self.logs("0.0")["next"], "1.1")
        self.prints(b"x\xf0", 2)
        body = self.logs("1.1")
        self.assertEqual((body["output"], body["next"]), ("\ufffd\ufffdx", "2.1"))
        # Of less than a character there is nothing to wait for.
        self.assertEqual(self.logs("1.1", count=1)["next"], "1.2")
        self.assertEqual(self.logs("1.1", count=2)["next"], "1.3")

    def follow(self, least):
        """The output on a terminal that follows it: at least this number of bytes."""
        ours, theirs = pty.openpty()
        seen = b""
        with subprocess.Popen([os.path.join(BUILD, "tenure"), "--port", str(self.server.port),
                               "sensor", "logs", REF, "--follow"],
                              stdin=theirs, stdout=theirs, stderr=theirs) as process:
            os.close(theirs)
            try:
                while len(seen) < least:
                    seen += os.read(ours, 65536)
            finally:
                process.kill()
                os.close(ours)
        return seen

    def test_a_line_without_an_end_is_shown(self):
        """A terminal gets whole lines, but not one that grows without end."""
        self.prints(b"z" * 200000)
        seen = self.follow(131072)
        self.assertEqual(seen, b"z" * len(seen))

    def test_a_line_without_an_end_is_not_cut_within_a_character(self):
        self.prints(b"z" + "\u20ac".encode() * 70000)
        seen = self.follow(131072).decode(errors="ignore")
        self.assertEqual(seen, "z" + "\u20ac" * (len(seen) - 1))


if __name__ == "__main__":
    unittest.main()
