#!/usr/bin/env python3
"""TLS on RESP: real clients, certificates of clients, reload, and clients that do not behave."""
import ctypes
import os
import signal
import socket
import ssl
import stat
import struct
import subprocess
import tempfile
import threading
import unittest

import redis

from harness import PATIENCE, TENURED, pairs, receive_until, text_of, until
from tls_kit import SECRET, CertifiedCase, Certificates, hashed, read_all, run

SOURCE = os.environ.get("TENURE_SOURCE_DIR", ".")


class TlsCase(CertifiedCase):
    def redis(self, name=None, **options):
        if name:
            options["ssl_certfile"] = self.certificates[name + ".pem"]
            options["ssl_keyfile"] = self.certificates[name + "-key.pem"]
        return redis.Redis(host="localhost", port=self.server.tls_port, ssl=True, decode_responses=True,
                           ssl_ca_certs=self.certificates["ca.pem"], ssl_check_hostname=True, **options)

    def info(self, name):
        return self.server.info(name)


class Clients(TlsCase):
    def cli(self, *words, ca="ca.pem"):
        done = subprocess.run(["redis-cli", "--tls", "--cacert", self.certificates[ca], "-h", "localhost",
                               "-p", str(self.server.tls_port), *words], stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, timeout=PATIENCE, check=False)
        return done.stdout.decode().strip()

    def test_redis_cli(self):
        self.assertEqual(self.cli("PING"), "PONG")
        self.assertIn("tls_port:%d" % self.server.tls_port, self.cli("INFO"))

    def test_urls_of_redis_cli_and_of_redis_py(self):
        """As docs/tls.md writes them."""
        url, authority = "rediss://localhost:%d" % self.server.tls_port, self.certificates["ca.pem"]
        for ca, answer in ((authority, "PONG"), (self.certificates["client.pem"], "")):
            done = subprocess.run(["redis-cli", "-u", url, "--cacert", ca, "PING"], stdout=subprocess.PIPE,
                                  stderr=subprocess.DEVNULL, timeout=PATIENCE, check=False)
            self.assertEqual(done.stdout.decode().strip(), answer)
        with redis.from_url("%s?ssl_ca_certs=%s" % (url, authority)) as r:
            self.assertTrue(r.ping())
        with redis.from_url(url) as r, self.assertRaises(redis.ConnectionError):
            r.ping()

    def test_redis_py(self):
        with self.redis() as r:
            r.execute_command("POOL", "CREATE", "py", "RANGE", 1, 9)
            self.assertEqual(pairs(r.execute_command("ALLOC", "py", "h"))["values"], ["1"])
            pipe = r.pipeline(transaction=False)
            for _ in range(5000):
                pipe.ping()
            self.assertEqual(pipe.execute(), [True] * 5000)

    def test_libraries_of_node(self):
        modules = subprocess.run([os.path.join(SOURCE, "tools/npm.sh")], check=True,
                                 stdout=subprocess.PIPE).stdout.decode().strip()
        subprocess.run(["node", os.path.join(SOURCE, "tests/e2e/tls_clients.mjs"), modules,
                        str(self.server.tls_port), self.certificates["ca.pem"]], check=True,
                       timeout=PATIENCE)

    def test_an_authority_that_did_not_sign_is_refused_by_clients(self):
        other = Certificates()
        try:
            context = other.context()
            with self.assertRaises(ssl.SSLCertVerificationError):
                self.server.tls(context)
        finally:
            other.remove()
        self.server.says("reason=handshake", "unknown ca")

    def test_the_name_is_checked_by_clients(self):
        with self.assertRaises(ssl.SSLCertVerificationError):
            self.certificates.context().wrap_socket(self.server.plain(), server_hostname="example.org")

    def test_old_versions_are_refused(self):
        for version in ("-tls1", "-tls1_1"):
            done = subprocess.run(["openssl", "s_client", "-connect", "127.0.0.1:%d" % self.server.tls_port,
                                   version, "-cipher", "ALL:@SECLEVEL=0"], input=b"", timeout=PATIENCE,
                                  stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
            self.assertNotEqual(done.returncode, 0)
            self.assertIn(b"protocol version", done.stdout)

    def test_versions_and_ciphers_that_are_spoken(self):
        for version, name in ((ssl.TLSVersion.TLSv1_2, "TLSv1.2"), (ssl.TLSVersion.TLSv1_3, "TLSv1.3")):
            context = self.certificates.context()
            context.minimum_version = context.maximum_version = version
            with self.server.tls(context) as s:
                self.assertEqual(s.version(), name)
                self.assertIsNone(s.compression())
                s.sendall(b"PING\r\n")
                self.assertEqual(receive_until(s, b"\r\n"), b"+PONG\r\n")
        context = self.certificates.context()
        context.maximum_version = ssl.TLSVersion.TLSv1_2
        context.set_ciphers("AES128-SHA:AES256-GCM-SHA384:ECDHE-ECDSA-AES128-SHA:@SECLEVEL=0")
        with self.assertRaises(ssl.SSLError):
            self.server.tls(context)

    def test_a_client_cannot_renegotiate(self):
        with subprocess.Popen(["openssl", "s_client", "-connect", "127.0.0.1:%d" % self.server.tls_port,
                               "-tls1_2", "-CAfile", self.certificates["ca.pem"]],
                              stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT) as process:
            out, _ = process.communicate(b"R\nPING\n", timeout=PATIENCE)
        self.assertIn(b"no renegotiation", out)
        self.assertNotIn(b"PONG", out)

    def test_a_pipeline_larger_than_all_buffers_of_a_client_that_does_not_read(self):
        one = b"*2\r\n$4\r\nECHO\r\n$1000\r\n" + b"x" * 1000 + b"\r\n"
        with self.server.tls(self.certificates.context()) as s:
            sender = threading.Thread(target=s.sendall, args=(one * 3000 + b"PING\r\n",), daemon=True)
            sender.start()
            before = self.info("total_net_input_bytes")
            until(lambda: self.info("total_net_input_bytes") > before, "something was read")
            self.assertEqual(receive_until(s, b"+PONG\r\n").count(b"x" * 1000), 3000)
            sender.join()

    def test_large_replies(self):
        docs = self.server.cli("COMMAND", "DOCS")
        self.assertGreater(len(docs), 20000)
        self.assertEqual(self.cli("COMMAND", "DOCS"), docs)

    def test_subscriptions(self):
        with self.redis() as r:
            channel = r.pubsub()
            channel.psubscribe("pool:*")
            self.assertEqual(channel.get_message(timeout=PATIENCE)["type"], "psubscribe")
            r.execute_command("POOL", "CREATE", "told", "RANGE", 1, 9)
            r.execute_command("ALLOC", "told", "h")
            until(lambda: channel.get_message(timeout=1), "an event")
            channel.close()

    def test_sessions_are_resumed_if_there_are_no_client_certificates(self):
        self.assertEqual(sessions(self, None), [True, True])

    def test_goodbye_is_said(self):
        with self.server.tls(self.certificates.context()) as s:
            s.suppress_ragged_eofs = False
            s.sendall(b"*1\r\n$4\r\nQUIT\r\n")
            self.assertEqual(read_all(s), b"+OK\r\n")

    def test_what_was_asked_before_the_end_is_answered(self):
        with self.server.tls(self.certificates.context()) as s:
            s.sendall(b"PING\r\n" * 100)
            socket.socket.shutdown(s, socket.SHUT_WR)  # below TLS: the client is gone as most clients go
            self.assertEqual(receive_until(s, b"+PONG\r\n" * 100).count(b"PONG"), 100)

    def test_the_certificate_is_in_the_figures(self):
        expiry = int(subprocess.run(["date", "+%s", "-d", ssl_date(self.certificates["server.pem"])],
                                    stdout=subprocess.PIPE, check=True).stdout)
        self.assertEqual(self.info("tls_certificate_expiry"), expiry)


def ssl_date(path):
    out = subprocess.run(["openssl", "x509", "-in", path, "-noout", "-enddate"], stdout=subprocess.PIPE,
                         check=True).stdout.decode()
    return out.strip().split("=")[1]


class Users(TlsCase):
    more = ("--tls-client-certificates", "optional")
    users = "[user client]\nsecret = %s\nrole = operator\n"

    def who(self, name=None):
        with self.redis(name) as r:
            return r.execute_command("POOL", "LIST")

    def test_a_certificate_with_the_name_of_a_user_is_a_log_in(self):
        with self.redis("client") as r:
            r.execute_command("POOL", "CREATE", "mine", "RANGE", 1, 9)
            lease = pairs(r.execute_command("ALLOC", "mine", "h"))["lease"]
            self.assertEqual(pairs(r.execute_command("LEASE", lease))["user"], "client")
            r.execute_command("RESET")
            self.assertEqual(pairs(r.execute_command("LEASE", lease))["user"], "client")

    def test_an_alternative_name_is_one_too(self):
        for number, names in enumerate(("DNS:client", "email:x@y.z,DNS:client", "URI:client")):
            name = "alternative%d" % number
            self.certificates.sign(name, "/O=Somebody", names=names)
            with self.redis(name) as r:
                r.execute_command("POOL", "LIST")

    def test_others_are_nameless(self):
        self.certificates.sign("stranger", "/CN=stranger")
        self.certificates.sign("twice", "/CN=client/CN=other")
        for name in (None, "stranger", "twice"):
            with self.assertRaises(redis.exceptions.AuthenticationError):
                self.who(name)
        with self.redis(username="client", password=SECRET) as r:
            r.execute_command("POOL", "LIST")

    def test_certificates_that_are_not_good_are_refused(self):
        other = Certificates()
        self.certificates.sign("old", "/CN=client", days="-1")
        self.certificates.sign("serving", "/CN=client", usage="serverAuth")
        for pem, key, why in ((other["client.pem"], other["client-key.pem"], "certificate"),
                              (self.certificates["old.pem"], self.certificates["old-key.pem"], "expired"),
                              (self.certificates["serving.pem"], self.certificates["serving-key.pem"],
                               "certificate purpose")):
            context = self.certificates.context()
            context.load_cert_chain(pem, key)
            with self.assertRaises((ssl.SSLError, ConnectionError)):
                with self.server.tls(context) as s:  # in 1.3 the client hears of it with the first read
                    s.sendall(b"PING\r\n")
                    self.assertFalse(s.recv(100))
                    raise ConnectionError
            self.server.says("reason=handshake", why)
        other.remove()


    def test_a_certificate_is_verified_at_every_connection(self):
        """A session that is resumed would not notice that the certificate has expired."""
        self.assertEqual(sessions(self, "client"), [False, False])


def sessions(case, name):
    """Whether a second connection resumes the session of the first, with TLS 1.2 and 1.3."""
    resumed = []
    for version in (ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3):
        context = case.certificates.context(name)
        context.minimum_version = context.maximum_version = version
        session = None
        for _ in range(2):
            with context.wrap_socket(case.server.plain(), server_hostname="localhost", session=session) as s:
                s.sendall(b"PING\r\n")
                receive_until(s, b"\r\n")
                session, reused = s.session, s.session_reused
        resumed.append(reused)
    return resumed


class Required(TlsCase):
    more = ("--tls-client-certificates", "required")

    def test_a_certificate_is_verified_at_every_connection(self):
        self.assertEqual(sessions(self, "client"), [False, False])

    def test_without_a_certificate_nobody_is_served(self):
        with self.assertRaises((ssl.SSLError, ConnectionError)):
            with self.server.tls(self.certificates.context()) as s:
                s.sendall(b"PING\r\n")
                self.assertNotIn(b"PONG", s.recv(100))
                raise ConnectionError
        with self.redis("client") as r:
            self.assertTrue(r.ping())


class Reload(TlsCase):
    def serial(self):
        context = self.certificates.context()
        with self.server.tls(context) as s:
            return s.getpeercert()["serialNumber"]

    def reload(self, *parts):
        before = text_of(self.server.log.name).count("event=reloaded")
        self.server.process.send_signal(signal.SIGHUP)
        until(lambda: text_of(self.server.log.name).count("event=reloaded") > before, "the reload")
        if parts:
            self.server.says(*parts)

    def replace(self, name):
        for end in (".pem", "-key.pem"):
            os.replace(self.certificates[name + end], self.certificates["server" + end])

    def test_a_new_certificate_is_used_and_connections_stay(self):
        old = self.serial()
        stop = threading.Event()
        faults = []

        def load():
            try:
                with self.redis() as r:
                    r.ping()
                    number = r.client_id()
                    while not stop.is_set():
                        r.ping()
                    if r.client_id() != number:
                        faults.append("reconnected")
            except redis.RedisError as error:
                faults.append(error)
        workers = [threading.Thread(target=load) for _ in range(4)]
        for worker in workers:
            worker.start()
        for number in range(5):
            self.certificates.server("next%d" % number)
            self.replace("next%d" % number)
            self.reload()
            until(lambda: self.serial() != old, "the new certificate")
            old = self.serial()
        stop.set()
        for worker in workers:
            worker.join()
        self.assertEqual(faults, [])

    def test_files_that_cannot_be_used_leave_the_old_certificate(self):
        old = self.serial()
        with open(self.certificates["server.pem"], "rb") as file:
            good = file.read()
        self.certificates.server("other")
        with open(self.certificates["other.pem"], "rb") as file:
            other = file.read()
        for bad, why in ((b"no certificate", "tls_cert_file"), (other, "tls_key_file")):
            with open(self.certificates["server.pem"], "wb") as file:
                file.write(bad)
            self.reload("event=tls_reload_refused", why, "the old certificate stays in use")
            self.assertEqual(self.serial(), old)
        with open(self.certificates["server.pem"], "wb") as file:
            file.write(good)
        self.reload()
        self.assertEqual(self.serial(), old)

    def test_one_that_expires_soon_is_told(self):
        self.certificates.server("short", days="13")
        self.replace("short")
        self.reload("event=tls_expiry", "expires soon")
        self.certificates.server("late", days="-1")
        self.replace("late")
        self.reload("event=tls_expiry", "has expired")
        with self.assertRaises(ssl.SSLCertVerificationError):
            self.serial()


class Rough(TlsCase):
    """Clients that do not behave, with the patience of a second."""
    more = ("--slow-seconds", "1")

    def hello(self):
        """The first flight of a client."""
        incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        client = self.certificates.context().wrap_bio(incoming, outgoing, server_hostname="localhost")
        with self.assertRaises(ssl.SSLWantReadError):
            client.do_handshake()
        return outgoing.read()

    def test_other_protocols_are_hung_up_on(self):
        for text, name in ((b"GET / HTTP/1.1\r\nHost: x\r\n\r\n", "HTTP"), (b"*1\r\n$4\r\nPING\r\n", "RESP")):
            with self.server.plain() as s:
                s.sendall(text)
                self.assertNotIn(b"PONG", s.recv(1000))
            self.server.says("reason=foreign", "the client speaks %s without TLS to the TLS port" % name)

    def test_a_browser_that_completes_the_handshake_is_hung_up_on(self):
        """What it sends then is HTTP, and a page chooses the body."""
        with self.server.tls(self.certificates.context()) as s:
            s.sendall(b"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 44\r\n\r\n"
                      b"*5\r\n$4\r\nPOOL\r\n$6\r\nCREATE\r\n$1\r\np\r\n$5\r\nRANGE\r\n")
            self.assertEqual(read_all(s), b"")
        self.server.says("reason=foreign")

    def test_a_handshake_that_does_not_end_is_dropped(self):
        hello = self.hello()
        before = self.info("handshake_clients_dropped")
        open_sockets = [self.server.plain() for _ in range(4)]
        for s, text in zip(open_sockets, (b"", hello[:1], hello[:-1], hello)):
            s.sendall(text)
        until(lambda: self.info("handshake_clients_dropped") >= before + 4, "four dropped")
        for s in open_sockets:
            while s.recv(4096):
                pass
            s.close()

    def test_records_that_are_cut_or_changed(self):
        hello = self.hello()
        for end in (3, 5, 6, 50):
            with self.server.plain() as s:
                s.sendall(hello[:end])
                s.shutdown(socket.SHUT_WR)
                self.assertEqual(s.recv(100), b"")
        for at, byte in ((1, 0xff), (3, 0xff), (5, 0xff), (9, 0x01)):
            changed = bytearray(hello)
            changed[at] = byte
            with self.server.plain() as s:
                s.sendall(changed)
                s.shutdown(socket.SHUT_WR)
                while s.recv(4096):
                    pass
        # In the middle of a session: a record of which the second half never comes, and one that is
        # not what was encrypted.
        with self.redis() as r:
            self.assertTrue(r.ping())
        incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        client = self.certificates.context().wrap_bio(incoming, outgoing, server_hostname="localhost")
        with self.server.plain() as s:
            while True:
                try:
                    client.do_handshake()
                    break
                except ssl.SSLWantReadError:
                    s.sendall(outgoing.read())
                    incoming.write(s.recv(65536))
            client.write(b"PING\r\n")
            record = bytearray(outgoing.read())
            record[-1] ^= 1
            s.sendall(record)
            until(lambda: s.recv(4096) == b"", "the end")
        self.server.says("reason=tls")

    def test_a_reset_in_the_middle(self):
        for _ in range(20):
            s = self.server.plain()
            s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            s.sendall(self.hello())
            s.close()
        with self.redis() as r:
            self.assertTrue(r.ping())


class Updating:
    """A client of TLS 1.3 that updates its keys; Python's ssl does not, so this is OpenSSL itself."""

    def __init__(self, s):
        lib = self.lib = ctypes.CDLL("libssl.so.3")
        for name in ("TLS_client_method", "SSL_CTX_new", "SSL_new"):
            getattr(lib, name).restype = ctypes.c_void_p
        self.context = ctypes.c_void_p(lib.SSL_CTX_new(ctypes.c_void_p(lib.TLS_client_method())))
        self.ssl = ctypes.c_void_p(lib.SSL_new(self.context))
        lib.SSL_set_fd(self.ssl, s.fileno())
        s.setblocking(True)
        assert lib.SSL_connect(self.ssl) == 1

    def update(self, answer):
        """False: the connection is closed."""
        return self.lib.SSL_key_update(self.ssl, answer) == 1 and self.lib.SSL_do_handshake(self.ssl) == 1

    def ask(self, text):
        out = ctypes.create_string_buffer(1000)
        if self.lib.SSL_write(self.ssl, text, len(text)) != len(text):
            return b""
        count = self.lib.SSL_read(self.ssl, out, 1000)
        return out.raw[:max(count, 0)]

    def free(self):
        self.lib.SSL_free(self.ssl)
        self.lib.SSL_CTX_free(self.context)


class KeyUpdates(TlsCase):
    asks = ((lambda server: server.tls_port, b"PING\r\n", b"+PONG"),
            (lambda server: server.https_port, b"GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n", b"200 OK"))

    def test_a_few_are_served(self):
        for port, text, reply in self.asks:
            with self.server.plain(port(self.server)) as s:
                client = Updating(s)
                for answer in (0, 1, 1, 0, 1):
                    self.assertTrue(client.update(answer))
                    self.assertIn(reply, client.ask(text))
                client.free()

    def test_a_flood_is_hung_up_on(self):
        for port, _, _ in self.asks:
            with self.server.plain(port(self.server)) as s:
                client = Updating(s)
                until(lambda c=client: not all(c.update(1) for _ in range(100)), "the end")
                client.free()
            self.server.says("reason=tls", "the client updates its keys too often")


class Flood(TlsCase):
    more = ("--max-connections", "1000", "--slow-seconds", "600")

    def test_stalled_handshakes_starve_nobody(self):
        rough = Rough.hello(self)
        with self.redis() as honest:
            honest.ping()
            stalled = []
            for number in range(600):
                s = self.server.plain()
                s.sendall(rough if number % 2 else rough[:100])
                stalled.append(s)
                if number % 20 == 0:
                    self.assertTrue(honest.ping())
            for _ in range(200):
                self.assertTrue(honest.ping())
            with self.redis() as newcomer:
                self.assertTrue(newcomer.ping())
            for s in stalled:
                s.close()
        until(lambda: self.info("connected_clients") < 10, "they are gone")
        self.assertGreaterEqual(self.info("tls_handshakes_failed"), 600)


class Settings(unittest.TestCase):
    def check(self, *flags, config=""):
        with tempfile.NamedTemporaryFile("w", suffix=".ini") as file:
            file.write(config)
            file.flush()
            return subprocess.run([TENURED, "--check-config", "--config", file.name, *flags],
                                  stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False,
                                  timeout=PATIENCE)

    def refused(self, why, *flags, config=""):
        done = self.check(*flags, config=config)
        self.assertEqual(done.returncode, 2, done.stdout)
        self.assertIn(why, done.stdout.decode())

    def test_beyond_loopback(self):
        user = "[user u]\nrole = reader\nsecret = %s\n" % hashed()
        for flag, instead in (("--listen", "tls_listen"), ("--http", "https")):
            self.refused("without users, the server may listen only on loopback", flag, "0.0.0.0:0")
            self.refused("use %s, or set allow_plaintext = yes" % instead, flag, "0.0.0.0:0", config=user)
            self.assertEqual(self.check(flag, "0.0.0.0:0", "--allow-plaintext", "yes", config=user).returncode, 0)
        certificates = Certificates()
        for flag in ("--tls-listen", "--https"):
            self.refused("without users", flag, "0.0.0.0:0")
            files = ("--tls-cert-file", certificates["server.pem"], "--tls-key-file",
                     certificates["server-key.pem"])
            self.assertEqual(self.check(flag, "0.0.0.0:0", *files, config=user).returncode, 0)
        certificates.remove()

    def test_files(self):
        certificates = Certificates()
        pem, key = certificates["server.pem"], certificates["server-key.pem"]
        listen = ("--tls-listen", "127.0.0.1:0")
        self.refused("TLS needs tls_cert_file and tls_key_file", *listen)
        self.refused("TLS needs tls_cert_file and tls_key_file", *listen, "--tls-cert-file", pem)
        self.refused("tls_cert_file /nowhere: No such file or directory", *listen, "--tls-cert-file", "/nowhere", "--tls-key-file", key)
        self.refused("tls_key_file", *listen, "--tls-cert-file", pem, "--tls-key-file",
                     certificates["client-key.pem"])
        good = (*listen, "--tls-cert-file", pem, "--tls-key-file", key)
        for encrypted in certificates.encrypt("server"):
            self.refused("the key is encrypted; use one without a passphrase", *listen, "--tls-cert-file", pem,
                         "--tls-key-file", encrypted)
        self.assertEqual(self.check(*good).returncode, 0)
        self.refused("tls_client_certificates needs tls_ca_file", *good, "--tls-client-certificates",
                     "required")
        self.refused("tls_ca_file", *good, "--tls-client-certificates", "optional", "--tls-ca-file", key)
        self.refused("is not no, optional or required", *good, "--tls-client-certificates", "yes")
        self.refused("is not no or yes", "--allow-plaintext", "on")
        certificates.remove()

    def test_an_authority_that_cannot_sign_is_refused(self):
        certificates = Certificates()
        self.addCleanup(certificates.remove)
        for name in ("server.pem", "server-key.pem"):
            os.unlink(certificates[name])
        authority, key = certificates["ca.pem"], certificates["ca-key.pem"]
        run("openssl", "x509", "-in", authority, "-signkey", key, "-days", "-1", "-out", authority + ".old")
        run("openssl", "ec", "-aes128", "-passout", "pass:x", "-in", key, "-out", key + ".locked")
        for old, new, why in ((authority, authority + ".old", b"has expired"),
                              (key, key + ".locked", b"not an authority and its key")):
            os.replace(new, old)
            done = subprocess.run([TENURED, "--make-certificate", certificates.dir], stderr=subprocess.PIPE,
                                  check=False, timeout=PATIENCE, start_new_session=True)
            self.assertEqual(done.returncode, 2)
            self.assertIn(why, done.stderr)
            self.assertFalse(os.path.exists(certificates["server.pem"]))

    def test_a_set_of_certificates_replaces_nothing(self):
        certificates = Certificates()
        if os.geteuid() == 0:  # the files are those of the directory's owner
            os.chown(certificates.dir, 12345, 12345)
            os.unlink(certificates["client.pem"])
            os.unlink(certificates["client-key.pem"])
            subprocess.run([TENURED, "--make-certificate", certificates.dir], stdout=subprocess.DEVNULL, check=True,
                           timeout=PATIENCE)
            self.assertEqual(os.stat(certificates["client-key.pem"]).st_uid, 12345)
        for name in ("ca", "server", "client"):
            self.assertEqual(stat.S_IMODE(os.stat(certificates[name + "-key.pem"]).st_mode), 0o600)
        done = subprocess.run([TENURED, "--make-certificate", certificates.dir], stderr=subprocess.PIPE,
                              check=False, timeout=PATIENCE)
        self.assertEqual(done.returncode, 2)
        self.assertIn(b"there is such a file already", done.stderr)
        authority = text_of(certificates["ca.pem"])
        for name in ("server.pem", "server-key.pem"):
            os.unlink(certificates[name])
        made = subprocess.run([TENURED, "--make-certificate", certificates.dir], stdout=subprocess.PIPE, check=True,
                              timeout=PATIENCE).stdout.decode()
        self.assertEqual(made.count("\n"), 2, made)
        self.assertEqual(text_of(certificates["ca.pem"]), authority)
        run("openssl", "verify", "-CAfile", certificates["ca.pem"], certificates["server.pem"], certificates["client.pem"])
        text = subprocess.run(["openssl", "x509", "-in", certificates["server.pem"], "-noout", "-ext",
                               "subjectAltName"], stdout=subprocess.PIPE, check=True).stdout.decode()
        for name in ("DNS:localhost", "IP Address:127.0.0.1", "IP Address:0:0:0:0:0:0:0:1"):
            self.assertIn(name, text)
        certificates.remove()


if __name__ == "__main__":
    unittest.main()
