"""Compressed answers over HTTP: for which requests, that they are right, and that streams and writes are not."""
import gzip
import http.client
import json
import subprocess
import threading
import unittest
import zlib

from harness import PATIENCE, Case

LEASES = 1000


class Gzip(Case):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        pipe = cls.r.pipeline(transaction=False)
        pipe.execute_command("POOL", "CREATE", "ports", "RANGE", "1", "100000")
        for i in range(LEASES):
            pipe.execute_command("ALLOC", "ports", "holder-of-port-%05d" % i, "META", '{"why":"test %d"}' % i)
        pipe.execute()

    def get(self, path, accept=None, method="GET", body=None, headers=None):
        connection = http.client.HTTPConnection("127.0.0.1", self.server.http_port, timeout=PATIENCE)
        self.addCleanup(connection.close)
        more = dict(headers or {})
        if accept is not None:
            more["Accept-Encoding"] = accept
        connection.request(method, path, body, more)
        answer = connection.getresponse()
        return answer, answer.read()

    def packed(self, path, **more):
        """The plain body, after comparing it with the compressed one."""
        plain, text = self.get(path, **more)
        self.assertIsNone(plain.getheader("Content-Encoding"))
        self.assertIn("Accept-Encoding", plain.getheader("Vary"))
        small, bytes_ = self.get(path, "gzip", **more)
        self.assertEqual(small.getheader("Content-Encoding"), "gzip")
        self.assertIn("Accept-Encoding", small.getheader("Vary"))
        self.assertEqual(gzip.decompress(bytes_), text)
        self.assertLess(len(bytes_), len(text) / 2)
        return text

    def test_short_and_long_lists(self):
        for count in (10, 50, 100, 500, LEASES):
            body = json.loads(self.packed("/v1/leases?count=%d" % count))
            self.assertEqual(len(body["leases"]), count)
        self.packed("/openapi.json")

    def test_which_codings_are_accepted(self):
        for accept, packed in [("gzip", True), ("GZIP", True), ("gzip, deflate, br", True), ("br;q=1, gzip;q=0.5", True),
                               ("*", True), ("x-gzip", True), ("gzip;q=0", False), ("gzip; q=0.000", False),
                               ("", False), ("br", False), ("identity", False), ("*;q=0", False),
                               ("gzip;q=0, *", False), ("identity, gzip;q=0.5", False),
                               ("identity;q=0.5, gzip", True), ("gzipped", False)]:
            answer, _ = self.get("/v1/leases?count=100", accept)
            self.assertEqual(answer.getheader("Content-Encoding") == "gzip", packed, accept)

    def test_what_is_not_compressed(self):
        # Short answers, writes (which may contain tokens), errors, and events as they happen.
        answer, _ = self.get("/v1/pools/ports", "gzip")
        self.assertIsNone(answer.getheader("Content-Encoding"))
        answer, body = self.get("/v1/pools/ports/leases", "gzip", "POST", json.dumps(
            {"holder": "h", "count": 250}), {"Content-Type": "application/json"})
        self.assertEqual((answer.status, answer.getheader("Content-Encoding")), (201, None), body)
        self.assertGreater(len(body), 1024)
        connection = http.client.HTTPConnection("127.0.0.1", self.server.http_port, timeout=PATIENCE)
        self.addCleanup(connection.close)
        connection.request("GET", "/v1/events?after=0.0", headers={"Accept": "text/event-stream",
                                                                   "Accept-Encoding": "gzip"})
        answer = connection.getresponse()
        self.assertEqual((answer.status, answer.getheader("Content-Type")), (200, "text/event-stream"))
        self.assertIsNone(answer.getheader("Content-Encoding"))
        self.assertTrue(answer.readline().startswith((b"id:", b"event:", b":", b"retry:", b"data:")))

    def test_head(self):
        plain, _ = self.get("/v1/leases?count=10", "gzip", "HEAD")
        body = self.get("/v1/leases?count=10", "gzip")[1]
        self.assertEqual((plain.getheader("Content-Encoding"), plain.getheader("Content-Length")),
                         ("gzip", str(len(body))))
        long, nothing = self.get("/v1/leases?count=1000", "gzip", "HEAD")
        self.assertEqual((long.getheader("Content-Encoding"), nothing), ("gzip", b""))

    def test_files_of_the_page(self):
        html = {"Accept": "text/html"}
        text = self.packed("/", headers=html)
        self.assertIn(b"<html", text)
        plain = self.get("/", headers=html)[0].getheader("ETag")
        small = self.get("/", "gzip", headers=html)[0].getheader("ETag")
        self.assertNotEqual(plain, small)  # a tag names bytes
        for tag, accept in ((plain, None), (small, "gzip"), ('"other", ' + small, "gzip"), ("*", "gzip")):
            answer, body = self.get("/", accept, headers={**html, "If-None-Match": tag})
            self.assertEqual((answer.status, body), (304, b""))
            self.assertEqual(answer.getheader("ETag"), small if accept else plain)
        answer, _ = self.get("/", "gzip", headers={**html, "If-None-Match": plain})
        self.assertEqual((answer.status, answer.getheader("Vary")), (200, "Accept, Accept-Encoding"))

    def test_metrics(self):
        answer, body = self.get("/metrics", "gzip")
        self.assertEqual(answer.getheader("Content-Encoding"), "gzip")
        self.assertIn(b"tenure_", gzip.decompress(body))

    def test_curl(self):
        url = "http://127.0.0.1:%d/v1/leases?count=1000" % self.server.http_port
        for version in ("--http1.1", "--http1.0"):
            plain, packed = (subprocess.run(["curl", "-sS", version, *more, url], timeout=PATIENCE, check=True,
                                            stdout=subprocess.PIPE).stdout for more in ([], ["--compressed"]))
            self.assertEqual(plain, packed)

    def test_many_at_once_and_clients_that_leave(self):
        """More long answers than are compressed at a time: all are right, compressed or not."""
        want = self.get("/v1/leases?count=1000")[1]
        connections = []
        for i in range(40):
            connection = http.client.HTTPConnection("127.0.0.1", self.server.http_port, timeout=PATIENCE)
            connection.request("GET", "/v1/leases?count=1000", headers={"Accept-Encoding": "gzip"})
            connections.append(connection)
        for connection in connections[::4]:
            connection.close()  # without reading

        got = {}

        def read(connection):
            answer = connection.getresponse()
            body = answer.read()
            got[connection] = gzip.decompress(body) if answer.getheader("Content-Encoding") else body
            connection.close()
        threads = [threading.Thread(target=read, args=(c,)) for i, c in enumerate(connections) if i % 4]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(PATIENCE)
        self.assertEqual(len(got), 30)
        self.assertEqual(set(got.values()), {want})
        # The places of those that left are free again.
        self.assertEqual(self.get("/v1/leases?count=1000", "gzip")[0].getheader("Content-Encoding"), "gzip")

    def test_a_client_that_reads_slowly(self):
        connection = http.client.HTTPConnection("127.0.0.1", self.server.http_port, timeout=PATIENCE)
        self.addCleanup(connection.close)
        connection.request("GET", "/v1/leases?count=1000", headers={"Accept-Encoding": "gzip"})
        answer = connection.getresponse()
        unpack = zlib.decompressobj(31)
        text = b""
        while True:
            part = answer.read(7)
            if not part:
                break
            text += unpack.decompress(part)
        text += unpack.flush()
        self.assertEqual(len(json.loads(text)["leases"]), 1000)


if __name__ == "__main__":
    unittest.main()
