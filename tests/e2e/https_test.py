#!/usr/bin/env python3
"""HTTP over TLS and over a Unix-domain socket: the same answers, guards and streams as without."""
import http.client
import json
import os
import select
import signal
import socket
import stat
import subprocess
import unittest

from harness import PATIENCE, Server, until
from tls_kit import SECRET, CertifiedCase, Certificates, TlsServer, hashed, read_all


def curl(*words):
    return subprocess.run(["curl", "-sS", "-i", "--max-time", str(PATIENCE), *words], stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, check=False).stdout.decode()


class HttpsCase(CertifiedCase):
    def curl(self, path, *words):
        return curl("--cacert", self.certificates["ca.pem"],
                    "https://localhost:%d%s" % (self.server.https_port, path), *words)

    def connect(self, name=None):
        return http.client.HTTPSConnection("localhost", self.server.https_port, timeout=PATIENCE,
                                           context=self.certificates.context(name))

    def ask(self, text):
        """Sends raw bytes; returns all that comes back until the end."""
        with self.server.tls(self.certificates.context(), self.server.https_port) as s:
            s.sendall(text)
            return read_all(s)

    def call(self, connection, method, path, body=None, **headers):
        connection.request(method, path, body and json.dumps(body),
                           {"Content-Type": "application/json", **headers})
        answer = connection.getresponse()
        return answer.status, answer.read()


class Https(HttpsCase):
    def test_curl(self):
        self.assertIn("200 OK", self.curl("/readyz"))
        self.assertIn("certificate", curl("https://localhost:%d/readyz" % self.server.https_port))
        self.assertIn("tenure_tls_certificate_expiry_timestamp_seconds 1", self.curl("/metrics"))
        self.assertIn("<!doctype html>", self.curl("/", "-H", "Accept: text/html").lower())

    def test_answers_are_those_without_tls(self):
        plain = http.client.HTTPConnection("127.0.0.1", self.server.http_port, timeout=PATIENCE)
        for path in ("/openapi.json", "/v1/pools", "/livez", "/nowhere"):
            secure = self.connect()
            self.assertEqual(self.call(secure, "GET", path), self.call(plain, "GET", path))
            secure.close()
        plain.close()

    def test_many_requests_on_one_connection_and_large_bodies(self):
        c = self.connect()
        self.assertEqual(self.call(c, "PUT", "/v1/pools/big", {"kind": "set"})[0], 201)
        for step in range(20):
            names = ["name-%d-%d-%s" % (step, i, "x" * 50) for i in range(500)]
            status, body = self.call(c, "POST", "/v1/pools/big/resources", {"names": names})
            self.assertEqual(status // 100, 2, body)
        c.close()

    def test_a_stream_of_events(self):
        with self.server.tls(self.certificates.context(), self.server.https_port) as s:
            s.sendall(b"GET /v1/events HTTP/1.1\r\nHost: localhost\r\nAccept: text/event-stream\r\n\r\n")
            got = b""
            while b"\r\n\r\n" not in got:
                got += s.recv(4096)
            self.assertIn(b"text/event-stream", got)
            r = self.server.client()
            r.execute_command("POOL", "CREATE", "stream", "RANGE", 1, 100)
            for i in range(50):
                r.execute_command("ALLOC", "stream", "h%d" % i)
            r.close()
            while b"h49" not in got:
                got += s.recv(4096)
            self.assertIn(b"h0", got)

    def test_guards(self):
        post = b"POST /v1/pools/g/leases HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n"
        for text, status in (
                (b"GET /livez HTTP/1.1\r\nHost: a\r\nHost: b\r\nConnection: close\r\n\r\n", b"400"),
                (post + b"Content-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", b"400"),
                (post + b"Content-Length: 2\r\nContent-Length: 3\r\n\r\n{}", b"400"),
                (b"GET /v1/pools HTTP/1.1\r\nHost: evil.example\r\nConnection: close\r\n\r\n", b"421"),
                (post + b"Origin: http://localhost\r\nContent-Length: 2\r\n\r\n{}", b"403"),
                (post + b"Origin: https://evil.example\r\nContent-Length: 2\r\n\r\n{}", b"403"),
                (post + b"Sec-Fetch-Site: cross-site\r\nContent-Length: 2\r\n\r\n{}", b"403")):
            answer = self.ask(text)
            self.assertEqual(answer.split(b" ")[1], status, (text, answer))
            self.assertIn(b"application/problem+json", answer)
        self.assertEqual(self.ask(post + b"Origin: https://localhost\r\nContent-Type: application/json\r\n"
                                  b"Content-Length: 14\r\n\r\n{\"holder\":\"h\"}").split(b" ")[1], b"404")

    def test_goodbye_is_said_after_the_answer(self):
        with self.server.tls(self.certificates.context(), self.server.https_port) as s:
            s.suppress_ragged_eofs = False
            s.sendall(b"GET /livez HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
            self.assertTrue(read_all(s).endswith(b"ok\n"))

    def test_a_client_that_does_not_read_holds_nobody_up(self):
        with self.server.tls(self.certificates.context(), self.server.https_port) as s:
            for _ in range(20):
                s.sendall(b"GET /openapi.json HTTP/1.1\r\nHost: localhost\r\n\r\n")
            self.assertIn("200 OK", self.curl("/readyz"))

    def test_pieces_of_a_byte(self):
        with self.server.tls(self.certificates.context(), self.server.https_port) as s:
            for byte in b"GET /livez HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n":
                s.sendall(bytes([byte]))
            self.assertTrue(read_all(s).endswith(b"ok\n"))

    def test_connections_end_on_both_sides(self):
        for _ in range(30):
            self.server.tls(self.certificates.context(), self.server.https_port).close()
            s = self.server.plain(self.server.https_port)
            s.sendall(b"\x16\x03\x01")
            s.close()

        def gone():
            return 'tenure_server_connections{protocol="http"} 1\n' in self.curl("/metrics")
        until(gone, "they are gone")
        inner = os.listdir("/proc/%d/fd" % self.server.process.pid)
        self.assertLess(len(inner), 100)


class Stalled(HttpsCase):
    more = ("--slow-seconds", "1")

    def test_handshakes_and_requests_that_do_not_end_are_dropped(self):
        with self.server.plain(self.server.https_port) as s:
            self.assertEqual(s.recv(100), b"")
        self.server.says("client_dropped", "reason=handshake")
        with self.server.tls(self.certificates.context(), self.server.https_port) as s:
            s.sendall(b"GET / HTTP/1.1\r\nHost")
            self.assertFalse(read_all(s))

    def test_clients_that_never_read_are_dropped(self):
        """libmicrohttpd gives up first, while its output still waits for the client."""
        def descriptors():
            return len(os.listdir("/proc/%d/fd" % self.server.process.pid))
        until(lambda: self.server.info("connected_clients") == 1, "no other clients")
        before, dropped = descriptors(), self.server.info("slow_clients_dropped")
        deaf = []
        for _ in range(10):
            s = socket.socket()
            s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2048)
            s.connect(("127.0.0.1", self.server.https_port))
            s = self.certificates.context().wrap_socket(s, server_hostname="localhost")
            s.sendall(b"GET /openapi.json HTTP/1.1\r\nHost: localhost\r\n\r\n" * 20)
            deaf.append(s)
        until(lambda: self.server.info("slow_clients_dropped") >= dropped + 10, "all are dropped")
        until(lambda: descriptors() <= before + 1, "their sockets are closed")
        for s in deaf:
            s.close()

    def test_plain_http_is_hung_up_on(self):
        self.assertIn("Empty reply", curl("http://localhost:%d/" % self.server.https_port))
        self.server.says("reason=foreign", "the client speaks HTTP without TLS")


class Silent(HttpsCase):
    more = ("--slow-seconds", "1", "--max-connections", "1000")

    def test_many_silent_connections_are_dropped_at_once(self):
        """All of them, not a few each second, which would take minutes."""
        before = self.server.info("handshake_clients_dropped")
        silent = [self.server.plain(self.server.https_port) for _ in range(600)]
        until(lambda: self.server.info("handshake_clients_dropped") >= before + 600, "all are dropped")
        for s in silent:
            self.assertEqual(s.recv(1), b"")
            s.close()


class Full(HttpsCase):
    more = ("--max-connections", "20")

    def test_handshakes_count_as_clients(self):
        held = [self.server.plain(self.server.https_port) for _ in range(30)]
        until(lambda: len(select.select(held, [], [], 0)[0]) == 10, "ten too many are hung up on")
        with self.server.plain() as s, self.server.plain(self.server.http_port) as h:
            self.assertEqual(s.recv(1000), b"")
            self.assertIn(b"503", h.recv(1000))
        for s in held:
            s.close()
        until(lambda: "200 OK" in self.curl("/readyz"), "there is room again")


class Users(HttpsCase):
    more = ("--tls-client-certificates", "optional")
    users = "[user client]\nsecret = %s\nrole = operator\n\n[user default]\nrole = reader\nsecret = " \
            "$argon2id$v=19$m=19456,t=2,p=1$AAAAAAAAAAAAAAAAAAAAAA$AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA\n"

    def test_a_certificate_is_a_log_in(self):
        c = self.connect("client")
        self.assertEqual(self.call(c, "PUT", "/v1/pools/p", {"range": [1, 9]})[0], 201)
        status, body = self.call(c, "POST", "/v1/pools/p/leases", {"holder": "h"})
        self.assertEqual(status, 201)
        lease = json.loads(body)["lease"]
        self.assertEqual(json.loads(self.call(c, "GET", "/v1/leases/" + lease)[1])["user"], "client")
        # An explicit log-in goes before it.
        self.assertEqual(self.call(c, "GET", "/v1/pools", Authorization="Bearer client:wrong")[0], 401)
        self.assertEqual(self.call(c, "GET", "/v1/pools", Authorization="Bearer client:" + SECRET)[0], 200)
        c.close()
        c = self.connect()
        self.assertEqual(self.call(c, "GET", "/v1/pools")[0], 401)
        self.assertEqual(self.call(c, "GET", "/v1/pools", Authorization="Bearer client:" + SECRET)[0], 200)
        c.close()

    def test_failed_log_ins_name_the_address(self):
        c = self.connect()
        self.assertEqual(self.call(c, "GET", "/v1/pools", Authorization="Bearer client:wrong")[0], 401)
        c.close()
        self.server.says("login_failed", "127.0.0.1")


class Leaving(HttpsCase):
    def test_a_stop_answers_what_was_asked(self):
        server = TlsServer(None, *self.certificates.flags())
        with server.tls(self.certificates.context(), server.https_port) as s:
            s.sendall(b"GET /v1/events HTTP/1.1\r\nHost: localhost\r\nAccept: text/event-stream\r\n\r\n")
            self.assertIn(b"200", s.recv(100))
            idle = server.plain(server.https_port)
            server.process.send_signal(signal.SIGTERM)
            read_all(s)
        self.assertEqual(server.process.wait(PATIENCE), 0)
        idle.close()
        server.remove()


class Local(unittest.TestCase):
    def test_http_over_a_unix_domain_socket(self):
        server = Server(None, "--http", "off", "--http-unix", "web.sock")
        path = os.path.join(server.data, "data", "web.sock")
        self.assertEqual(stat.S_IMODE(os.stat(path).st_mode), 0o600)
        self.assertIn("200 OK", curl("--unix-socket", path, "http://localhost/readyz"))
        made = curl("--unix-socket", path, "-X", "PUT", "http://localhost/v1/pools/p", "-d",
                    '{"range":[1,9]}')
        self.assertIn("201", made)
        lease = curl("--unix-socket", path, "http://localhost/v1/pools/p/leases", "-d", '{"holder":"h"}')
        lease = json.loads(lease.split("\r\n\r\n")[1])["lease"]
        seen = curl("--unix-socket", path, "http://localhost/v1/leases/" + lease)
        self.assertIn('"user":"unix:%d"' % os.getuid(), seen)
        # Defining what programs run needs more than being on this machine: the socket proves it.
        spec = '{"trigger":"core.t","spec":{"command":["/bin/true"]}}'
        self.assertIn("20", curl("--unix-socket", path, "-X", "PUT", "http://localhost/v1/sensors/s", "-d",
                                 spec).split(" ")[1])
        self.assertEqual(server.stop(), 0)
        self.assertFalse(os.path.exists(path))
        server.remove()

    def test_users_are_known_by_their_process(self):
        config = "[user u]\nrole = reader\nsecret = %s\n" % hashed()
        certificates = Certificates()
        with open(certificates["t.ini"], "w", encoding="ascii") as file:
            file.write(config)
        server = Server(None, "--http-unix", "web.sock", "--config", certificates["t.ini"])
        path = os.path.join(server.data, "data", "web.sock")
        self.assertIn("200 OK", curl("--unix-socket", path, "http://localhost/v1/pools"))
        self.assertIn("401", curl("http://localhost:%d/v1/pools" % server.http_port))
        self.assertIn("403", curl("--unix-socket", path, "-X", "PUT", "-u", "u:" + SECRET, "-d", '{"range":[1,9]}',
                                  "http://localhost/v1/pools/p"))
        if os.geteuid() == 0:  # somebody else must log in, even if the file lets it connect
            os.chmod(server.data, 0o755)
            os.chmod(os.path.join(server.data, "data"), 0o755)
            os.chmod(path, 0o666)
            done = subprocess.run(["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "curl", "-sS",
                                   "-i", "--unix-socket", path, "http://localhost/v1/pools"],
                                  stdout=subprocess.PIPE, check=True, timeout=PATIENCE)
            self.assertIn(b"401", done.stdout)
            os.chmod(os.path.join(server.data, "data"), 0o700)
        server.remove()
        certificates.remove()


if __name__ == "__main__":
    unittest.main()
