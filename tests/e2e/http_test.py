#!/usr/bin/env python3
"""HTTP with real clients: curl, Python's http.client and raw sockets."""
import http.client
import json
import signal
import socket
import subprocess
import unittest

from harness import PATIENCE, Case, Server, receive_until, until


def connect(server):
    s = socket.create_connection(("127.0.0.1", server.http_port), timeout=PATIENCE)
    s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return s


class Answer:
    """A response: status, headers and, if it is JSON, what the body says."""

    def __init__(self, response):
        self.status = response.status
        self.headers = response.headers
        self.body = response.read()
        self.type = (response.headers["Content-Type"] or "").split(";")[0]
        self.json = json.loads(self.body) if self.type.endswith("json") and self.body else None

    def __str__(self):
        return "%d %s" % (self.status, self.body.decode(errors="replace"))


class HttpCase(Case):
    def setUp(self):
        self.c = http.client.HTTPConnection("127.0.0.1", self.server.http_port, timeout=PATIENCE)

    def tearDown(self):
        self.c.close()

    def ask(self, method, path, body=None, headers=None):
        data = json.dumps(body).encode() if isinstance(body, (dict, list)) else body
        all_headers = {"Content-Type": "application/json"} if data else {}
        all_headers.update(headers or {})
        self.c.request(method, path, data, all_headers)
        return Answer(self.c.getresponse())

    def problem(self, status, method, path, body=None, headers=None):
        """Asks for what must be refused with that status, as a problem."""
        answer = self.ask(method, path, body, headers)
        self.assertEqual((answer.status, answer.type), (status, "application/problem+json"),
                         str(answer))
        self.assertEqual(answer.json["status"], status)
        return answer

    def raw(self, data, end=b"nothing ends like this"):
        s = connect(self.server)
        s.sendall(data)
        got = receive_until(s, end)
        s.close()
        return got


class Pages(HttpCase):
    def test_health(self):
        for path in ("/livez", "/readyz", "/healthz"):
            answer = self.ask("GET", path)
            self.assertEqual((answer.status, answer.body), (200, b"ok\n"))
        verbose = self.ask("GET", "/readyz?verbose").body.decode()
        self.assertEqual(verbose.splitlines(), ["[+]loop ok", "[+]engine ok", "[+]serving ok",
                                                "readyz check passed"])
        self.assertIn(b"/readyz", self.ask("GET", "/").body)

    def test_head_options_and_wrong_methods(self):
        head = self.ask("HEAD", "/livez")
        self.assertEqual((head.status, head.headers["Content-Length"], head.body),
                         (200, "3", b""))
        options = self.ask("OPTIONS", "/livez")
        self.assertEqual((options.status, options.headers["Allow"]), (204, "GET, HEAD, OPTIONS"))
        self.assertEqual(self.problem(405, "POST", "/livez").headers["Allow"],
                         "GET, HEAD, OPTIONS")
        self.problem(404, "GET", "/nowhere")

    def test_curl_reads_it(self):
        out = subprocess.run(["curl", "-sS", "-i", "http://localhost:%d/readyz"
                              % self.server.http_port], timeout=PATIENCE, check=True,
                             stdout=subprocess.PIPE).stdout
        self.assertTrue(out.startswith(b"HTTP/1.1 200 OK\r\n"), out)


class BadInput(HttpCase):
    def test_only_this_machine_is_answered(self):
        for host in ("localhost", "LOCALHOST:7412", "127.0.0.1", "127.9.9.9:1", "[::1]:7412"):
            self.assertEqual(self.ask("GET", "/livez", headers={"Host": host}).status, 200, host)
        for host in ("example.com", "127.0.0.1.example.com", "localhost.example.com:7412", "10.0.0.1",
                     "[::2]", "[::1", "localhost:x", "x" * 300, "127.0.0.1@example.com"):
            self.problem(421, "GET", "/livez", headers={"Host": host})

    def test_pages_from_elsewhere_may_not_write(self):
        for origin in ("http://example.com", "null", "https://localhost", "http://localhost:1"):
            self.problem(403, "POST", "/livez", headers={"Origin": origin, "Host": "localhost"})
            self.assertEqual(self.ask("GET", "/livez", headers={"Origin": origin}).status, 200)
        self.problem(405, "POST", "/livez",
                     headers={"Origin": "http://localhost", "Host": "localhost"})

    def test_sizes(self):
        self.problem(414, "GET", "/" + "x" * 3000)
        self.problem(413, "POST", "/v1/leases", b"x" * (1024 * 1024 + 1))
        for more in (b"Expect: 100-continue\r\nContent-Length: 1048577",
                     b"Content-Length: 99999999", b"Content-Length: 18446744073709551615"):
            got = self.raw(b"POST /v1/leases HTTP/1.1\r\nHost: localhost\r\n" + more + b"\r\n\r\n")
            self.assertTrue(got.startswith(b"HTTP/1.1 413 "), got[:200])
        chunk = b"10000\r\n" + b"x" * 65536 + b"\r\n"
        got = self.raw(b"POST /v1/leases HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n"
                       b"Transfer-Encoding: chunked\r\n\r\n" + chunk * 17 + b"0\r\n\r\n")
        self.assertTrue(got.startswith(b"HTTP/1.1 413 "), got[:200])
        got = self.raw(b"GET / HTTP/1.1\r\nHost: localhost\r\nX: " + b"x" * 100000 + b"\r\n\r\n")
        self.assertTrue(got.startswith(b"HTTP/1.1 431 "), got[:200])

    def test_old_and_pipelined_requests(self):
        got = self.raw(b"GET /livez HTTP/1.0\r\n\r\n")
        self.assertTrue(got.startswith(b"HTTP/1.0 200") or got.startswith(b"HTTP/1.1 200"), got)
        self.assertTrue(got.endswith(b"\r\n\r\nok\n"), got)
        one = b"GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n"
        last = b"GET /livez HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
        self.assertEqual(self.raw(one * 9 + last).count(b"\r\n\r\nok\n"), 10)


class Slow(HttpCase):
    flags = ("--slow-seconds", "1")

    def test_what_is_no_http_ends_its_connection_and_no_other(self):
        for data in (b"*1\r\n$4\r\nPING\r\n", b"\x16\x03\x01\x02\x00", b"GET\r\n\r\n",
                     b"GET / HTTP/1.1\r\n\r\n", b"GET / HTTP/9.9\r\nHost: localhost\r\n\r\n",
                     b"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: x\r\n\r\n"):
            s = connect(self.server)
            s.sendall(data)
            s.shutdown(socket.SHUT_WR)
            got = receive_until(s, b"nothing ends like this")
            self.assertTrue(got == b"" or b" 40" in got[:16] or b" 505" in got[:16], got)
            s.close()
        self.assertEqual(self.ask("GET", "/livez").status, 200)

    def test_half_requests_are_hung_up_on(self):
        """A silent one, and one that sends a byte now and then."""
        silent = connect(self.server)
        silent.sendall(b"GET /livez HT")
        drip = connect(self.server)
        drip.sendall(b"POST /v1/leases HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000\r\n\r\n")
        drip.settimeout(0.05)

        def dropped():
            try:
                drip.send(b"x")
                return drip.recv(1) == b""
            except socket.timeout:
                return False
            except OSError:
                return True
        until(dropped, "the dripping client is dropped")
        self.assertEqual(receive_until(silent, b"nothing ends like this"), b"")
        silent.close()
        drip.close()


class ManyClients(HttpCase):
    flags = ("--max-connections", "8")

    def test_both_protocols_share_one_limit(self):
        self.r.ping()
        held = [connect(self.server) for _ in range(7)]
        for s in held:
            s.sendall(b"GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n")
            receive_until(s, b"ok\n")
        last = connect(self.server)
        self.assertTrue(receive_until(last, b"}\n").startswith(b"HTTP/1.1 503 "))
        resp = self.server.connect()
        self.assertEqual(receive_until(resp, b"\r\n"), b"-ERR max number of clients reached\r\n")
        for s in held + [last, resp]:
            s.close()
        until(lambda: self.raw(b"GET /livez HTTP/1.0\r\n\r\n").endswith(b"ok\n"), "room again")


class Lives(unittest.TestCase):
    def test_sigterm_exits_0_with_idle_and_half_open_connections(self):
        server = Server()
        idle, half = connect(server), connect(server)
        idle.sendall(b"GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n")
        receive_until(idle, b"ok\n")
        half.sendall(b"POST /v1/leases HTTP/1.1\r\nHost: localhost\r\nContent-Length: 10\r\n\r\nx")
        self.assertEqual(server.stop(signal.SIGTERM), 0)
        self.assertEqual(idle.recv(1), b"")
        idle.close()
        half.close()
        server.remove()

    def test_it_can_be_off(self):
        server = Server(None, "--http", "off")
        self.assertIsNone(server.http_port)
        self.assertTrue(server.client().ping())
        server.remove()


if __name__ == "__main__":
    unittest.main(verbosity=1)
