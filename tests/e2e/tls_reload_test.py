#!/usr/bin/env python3
"""Clients of TLS that are connected while SIGHUP changes the authorities, whether certificates are wanted, or the
users: a client that could not log in again, or not as the same user, is disconnected; all others stay."""
import re
import shutil
import signal
import ssl
import unittest

from harness import receive_until, text_of, until
from tls_kit import SECRET, Certificates, TlsServer, hashed



def words(*texts):
    """A request of RESP."""
    return b"*%d\r\n" % len(texts) + b"".join(b"$%d\r\n%s\r\n" % (len(t), t.encode()) for t in texts)


AUTH = words("AUTH", "client", SECRET)
EVENTS = b"GET /v1/events HTTP/1.1\r\nHost: localhost\r\nAccept: text/event-stream\r\n\r\n"
READY = b"GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n"


def receive_past(s, wanted):
    """Receives until this text has come, which need not be at the end."""
    got = b""
    while wanted not in got:
        more = s.recv(65536)
        if not more:
            break
        got += more
    return got


def answer_of(s):
    """An answer of HTTP, whole."""
    got = receive_past(s, b"\r\n\r\n")
    head, _, body = got.partition(b"\r\n\r\n")
    length = int(re.search(rb"(?i)content-length: (\d+)", head).group(1))
    while len(body) < length:
        body += s.recv(65536)
    return head


class Judged(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.certificates, cls.other, cls.hash = Certificates(), Certificates(), hashed()
        cls.addClassCleanup(cls.certificates.remove)
        cls.addClassCleanup(cls.other.remove)
        cls.trust(cls.certificates)
        cls.configure()
        files = cls.certificates.flags()
        cls.server = TlsServer(None, *files[:files.index("--tls-ca-file")], "--config", cls.certificates["tenure.ini"])
        cls.addClassCleanup(cls.server.remove)

    def setUp(self):
        self.trust(self.certificates)
        self.configure()
        self.reload()

    @classmethod
    def trust(cls, certificates):
        shutil.copy(certificates["ca.pem"], cls.certificates["clients.pem"])

    @classmethod
    def configure(cls, clients="optional", users=("client",), digest=None):
        with open(cls.certificates["tenure.ini"], "w", encoding="ascii") as file:
            file.write("[tls]\ntls_ca_file = %s\ntls_client_certificates = %s\n" % (cls.certificates["clients.pem"], clients))
            for name in users:
                file.write("[user %s]\nrole = operator\nsecret = %s\n" % (name, digest or cls.hash))

    def reload(self, *parts):
        before = text_of(self.server.log.name).count("event=reloaded")
        self.server.process.send_signal(signal.SIGHUP)
        until(lambda: text_of(self.server.log.name).count("event=reloaded") > before, "the reload")
        if parts:
            self.server.says(*parts)

    def tls(self, name=None, port=None):
        s = self.server.tls(self.certificates.context(name), port)
        self.addCleanup(s.close)
        return s

    def resp(self, name=None, text=b"PING\r\n", wanted=b"+PONG\r\n"):
        """A client that has been answered."""
        s = self.tls(name)
        s.sendall(text)
        receive_until(s, wanted)
        return s

    def https(self, name=None):
        s = self.tls(name, self.server.https_port)
        self.here(https=(s,))
        return s

    def stream(self, name):
        s = self.tls(name, self.server.https_port)
        s.sendall(EVENTS)
        self.assertIn(b"200 OK", receive_past(s, b"text/event-stream"))
        return s

    def gone(self, *sockets):
        for s in sockets:
            self.assertEqual(s.recv(1000), b"")

    def here(self, resp=(), https=()):
        for s in resp:
            s.sendall(b"PING\r\n")
            self.assertEqual(receive_until(s, b"\r\n"), b"+PONG\r\n")
        for s in https:
            s.sendall(READY)
            self.assertIn(b"200 OK", answer_of(s))

    def test_an_authority_that_is_removed_takes_its_clients_along(self):
        certified, secret, nameless = self.resp("client"), self.resp(None, AUTH, b"+OK\r\n"), self.resp(None, wanted=b"\r\n")
        web, web_nameless = self.https("client"), self.https()
        stream = self.stream("client")
        subscriber = self.resp("client", b"SUBSCRIBE events\r\n", b":1\r\n")
        self.reload("event=tls_loaded")
        self.here((certified, secret), (web, web_nameless))
        self.trust(self.other)
        self.reload()
        self.gone(certified, web, subscriber)
        until(lambda: not stream.recv(1000), "the end of the stream")
        self.here((secret,), (web_nameless,))
        nameless.sendall(b"PING\r\n")
        receive_until(nameless, b"\r\n")
        self.server.says("event=client_dropped", "reason=certificate", "id=")
        self.server.says("event=client_dropped", "reason=certificate", "addr=")

    def test_a_client_that_waits_leaves_the_line(self):
        admin = self.resp(None, AUTH, b"+OK\r\n")
        admin.sendall(words("POOL", "CREATE", "one", "RANGE", "1", "1") + words("ALLOC", "one", "first") + words("ECHO", "made"))
        receive_past(admin, b"made")
        waiting = self.tls("client")
        waiting.sendall(words("ALLOC", "one", "second", "WAIT", "1h"))

        def line():
            admin.sendall(words("LEASES", "STATE", "waiting") + words("ECHO", "done"))
            return receive_past(admin, b"done\r\n").count(b"second")
        until(line, "the client waits")
        self.trust(self.other)
        self.reload()
        until(lambda: not line(), "the line is empty")
        self.gone(waiting)

    def test_certificates_that_are_no_longer_wanted(self):
        certified, secret, web, web_nameless = (self.resp("client"), self.resp(None, AUTH, b"+OK\r\n"), self.https("client"),
                                                self.https())
        self.configure("no")
        self.reload()
        self.gone(certified, web)
        self.here((secret,), (web_nameless,))

    def test_certificates_that_are_required_from_now_on(self):
        certified, secret, web, web_nameless = (self.resp("client"), self.resp(None, AUTH, b"+OK\r\n"), self.https("client"),
                                                self.https())
        self.configure("required")
        self.reload()
        self.gone(secret, web_nameless)
        self.here((certified,), (web,))

    def test_files_that_cannot_be_used_change_nothing(self):
        certified, web = self.resp("client"), self.https("client")
        with open(self.certificates["clients.pem"], "wb") as file:
            file.write(b"nothing")
        self.reload("event=tls_reload_refused", "tls_ca_file")
        self.here((certified,), (web,))

    def test_users_that_are_deleted_or_changed(self):
        certified, secret, web = self.resp("client"), self.resp(None, AUTH, b"+OK\r\n"), self.https("client")
        stream = self.stream("client")
        self.configure(users=("another",))
        self.reload()
        self.gone(certified, secret, web)
        until(lambda: not stream.recv(1000), "the end of the stream")
        self.configure()
        self.reload()
        certified, web = self.resp("client"), self.https("client")
        self.configure(digest=hashed())
        self.reload()
        self.gone(certified, web)

    def test_a_certificate_that_names_another_user_now(self):
        self.certificates.sign("both", "/CN=first", names="DNS:client")
        both, only, web = self.resp("both"), self.resp("client"), self.https("both")
        self.configure(users=("client", "first"))
        self.reload()
        self.gone(both, web)
        self.here((only,))

    def test_a_handshake_that_the_reload_overtakes(self):
        for port in (self.server.tls_port, self.server.https_port):
            self.trust(self.certificates)
            self.reload()
            incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
            client = self.certificates.context("client").wrap_bio(incoming, outgoing, server_hostname="localhost")
            with self.server.plain(port) as s:
                with self.assertRaises(ssl.SSLWantReadError):
                    client.do_handshake()
                s.sendall(outgoing.read())
                incoming.write(s.recv(65536))
                client.do_handshake()
                self.trust(self.other)
                self.reload()
                s.sendall(outgoing.read())
                client.write(b"PING\r\n")
                s.sendall(outgoing.read())
                try:
                    while s.recv(65536):
                        pass
                except ConnectionResetError:
                    pass
        self.assertGreaterEqual(text_of(self.server.log.name).count("reason=certificate"), 1)


if __name__ == "__main__":
    unittest.main()
