#!/usr/bin/env python3
"""`tenure` and the Python client over TLS: they verify the server unless told otherwise."""
import os
import subprocess
import unittest
import unittest.mock

from harness import BUILD, PATIENCE
from pyclient import tenure
from tls_kit import Certificates, TlsServer

TENURE = os.path.join(BUILD, "tenure")


class Tool(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.certificates = Certificates()
        cls.other = Certificates()
        cls.server = TlsServer(None, *cls.certificates.flags("--tls-client-certificates", "optional"))
        cls.ca = cls.certificates["ca.pem"]

    @classmethod
    def tearDownClass(cls):
        cls.server.remove()
        cls.certificates.remove()
        cls.other.remove()

    def tenure(self, *words, **environment):
        kept = {name: value for name, value in os.environ.items() if not name.startswith("TENURE_")}
        return subprocess.run([TENURE, *words], env={**kept, **environment}, stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, check=False, timeout=PATIENCE)

    def good(self, *words, **environment):
        done = self.tenure(*words, **environment)
        self.assertEqual((done.returncode, done.stdout), (0, b"PONG\n"), done)
        return done.stderr.decode()

    def bad(self, why, *words, **environment):
        done = self.tenure(*words, **environment)
        self.assertEqual(done.returncode, 3, done)
        self.assertIn(why, done.stderr.decode())

    def test_options(self):
        port = str(self.server.tls_port)
        for host in ("localhost", "127.0.0.1"):
            self.assertEqual(self.good("-h", host, "-p", port, "--ca", self.ca, "ping"), "")
        self.good("-p", port, "--tls", "--ca", self.ca, "--cert", self.certificates["client.pem"], "--key",
                  self.certificates["client-key.pem"], "ping")

    def test_urls_and_variables(self):
        for scheme in ("rediss", "tenures"):
            self.good("ping", TENURE_URL="%s://localhost:%d" % (scheme, self.server.tls_port),
                      TENURE_CA_FILE=self.ca)
        self.good("ping", TENURE_PORT=str(self.server.tls_port), TENURE_TLS="yes", TENURE_CA_FILE=self.ca)
        self.good("ping", TENURE_PORT=str(self.server.port), TENURE_TLS="no", TENURE_CA_FILE=self.ca)
        done = self.tenure("ping", TENURE_PORT=str(self.server.port), TENURE_TLS="1")
        self.assertEqual(done.returncode, 2)
        self.assertIn(b"TENURE_TLS: '1' is not yes or no", done.stderr)

    def test_the_scheme_of_a_url_is_known_in_any_case(self):
        for scheme in ("REDISS", "Tenures"):
            url = "%s://localhost:%d" % (scheme, self.server.tls_port)
            self.good("--ca", self.ca, "-u", url, "ping")
            self.bad("certificate is not trusted", "-u", url, "ping")
        for scheme in ("REDIS", "tenure"):
            self.good("-u", "%s://localhost:%d" % (scheme, self.server.port), "ping")

    def test_an_unknown_scheme_does_not_mean_plain_text(self):
        """The plain port would answer, and get the secret."""
        for scheme in ("https", "redis+tls", "tenuress", " rediss", "tls", ""):
            url = "%s://localhost:%d" % (scheme, self.server.port)
            for words, environment in ((("-u", url, "ping"), {}), (("ping",), {"TENURE_URL": url})):
                done = self.tenure(*words, **environment)
                self.assertEqual(done.returncode, 2, (url, done))
                self.assertIn(b"or unix://PATH", done.stderr)

    def test_a_user_in_a_url_is_refused_and_not_printed(self):
        for start in ("rediss://user:hush@", "user:hush@", "tenure://hush/hush@", "bad://user:hush@"):
            url = "%slocalhost:%d" % (start, self.server.port)
            for words, environment in ((("-u", url, "ping"), {}), (("--url=" + url, "ping"), {}),
                                       (("ping",), {"TENURE_URL": url})):
                done = self.tenure(*words, **environment)
                self.assertEqual(done.returncode, 2, (url, done))
                self.assertIn(b"TENURE_SECRET", done.stderr)
                self.assertNotIn(b"hush", done.stderr + done.stdout)

    def test_what_cannot_be_verified_is_refused(self):
        port = str(self.server.tls_port)
        self.bad("certificate is not trusted", "-p", port, "--tls", "ping")
        self.bad("certificate is not trusted", "-p", port, "--ca", self.other["ca.pem"], "ping")
        self.bad("/nowhere: No such file or directory", "-p", port, "--ca", "/nowhere", "ping")
        self.bad("if this is a TLS port, use --tls or --ca", "-p", port, "ping")
        self.bad("is it a TLS port?", "-p", str(self.server.port), "--ca", self.ca, "ping")
        self.bad("closed the connection", "-p", port, "ping")

    def test_no_passphrase_is_asked_for(self):
        """At a terminal, OpenSSL would ask."""
        for key in self.certificates.encrypt("client"):
            self.bad("the key is encrypted; use one without a passphrase", "-p", str(self.server.tls_port), "--ca",
                     self.ca, "--cert", self.certificates["client.pem"], "--key", key, "ping")

    def elsewhere(self):
        """A server with a certificate of another host."""
        self.certificates.sign("elsewhere", "/CN=localhost", usage="serverAuth", names="DNS:elsewhere.example")
        return TlsServer(None, "--tls-listen", "127.0.0.1:0", "--tls-cert-file",
                         self.certificates["elsewhere.pem"], "--tls-key-file",
                         self.certificates["elsewhere-key.pem"])

    def test_another_name_is_refused(self):
        server = self.elsewhere()
        for host in ("localhost", "127.0.0.1"):
            self.bad("certificate is not trusted", "-h", host, "-p", str(server.tls_port), "--ca", self.ca, "ping")
        server.remove()

    def test_insecure_is_said_loudly(self):
        said = self.good("-p", str(self.server.tls_port), "--insecure", "ping")
        self.assertIn("WARNING: --insecure: the server's certificate is not verified", said)

    def test_large_imports_and_lists(self):
        options = ("-p", str(self.server.tls_port), "--ca", self.ca)
        self.assertEqual(self.tenure(*options, "pool", "create", "wide", "--range", "1", "100000").returncode, 0)
        rows = "".join("%d,h%d\n" % (i, i) for i in range(1, 5001))
        done = subprocess.run([TENURE, *options, "import", "wide", "--header"],
                              input=("value,holder\n" + rows).encode(), stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, timeout=PATIENCE, check=False)
        self.assertEqual(done.returncode, 0, done)
        out = self.tenure(*options, "leases", "--pool", "wide", "--limit", "0", "--json")
        self.assertEqual(out.stdout.count(b'"holder"'), 5000)


class Python(Tool):
    """The Python client."""

    def client(self, *address, **options):
        return tenure.Client(*address, retry_seconds=0, **options)

    def test_options(self):
        for url in ("tenures", "rediss"):
            with self.client("%s://localhost:%d" % (url, self.server.tls_port), ca_file=self.ca) as c:
                c.pool_create("py" + url, range=(1, 9))
                with c.hold("py" + url, "h", ttl=60) as held:
                    self.assertEqual(held.grant.values, ("1",))
        with self.client("127.0.0.1:%d" % self.server.tls_port, tls=True, ca_file=self.ca,
                         cert_file=self.certificates["client.pem"],
                         key_file=self.certificates["client-key.pem"]) as c:
            self.assertEqual(c.ping(), "PONG")

    def test_urls_and_variables(self):
        variables = {"TENURE_URL": "tenures://localhost:%d" % self.server.tls_port, "TENURE_CA_FILE": self.ca}
        with unittest.mock.patch.dict(os.environ, variables):
            with self.client() as c:
                self.assertEqual(c.ping(), "PONG")
        with unittest.mock.patch.dict(os.environ, {"TENURE_TLS": "1"}):
            self.assertRaises(ValueError, self.client)
        # The environment counts also if an address is passed; an argument goes before it.
        with unittest.mock.patch.dict(os.environ, {"TENURE_TLS": "yes", "TENURE_CA_FILE": self.ca}):
            with self.client("localhost:%d" % self.server.tls_port) as c:
                self.assertEqual(c.ping(), "PONG")
            with self.client("localhost:%d" % self.server.port, tls=False) as c:
                self.assertEqual(c.ping(), "PONG")

    def test_the_scheme_of_a_url_is_known_in_any_case(self):
        for scheme in ("REDISS", "Tenures"):
            url = "%s://localhost:%d" % (scheme, self.server.tls_port)
            with self.client(url, ca_file=self.ca) as c:
                self.assertEqual(c.ping(), "PONG")
            self.assertRaisesRegex(ValueError, "tls=False contradicts", self.client, url, tls=False)
        for scheme in ("REDIS", "tenure"):
            with self.client("%s://localhost:%d" % (scheme, self.server.port)) as c:
                self.assertEqual(c.ping(), "PONG")

    def test_an_unknown_scheme_does_not_mean_plain_text(self):
        for scheme in ("https", "redis+tls", " rediss", "redi\tss", ""):
            url = "%s://localhost:%d" % (scheme, self.server.port)
            self.assertRaisesRegex(ValueError, "or unix://PATH", self.client, url)
            with unittest.mock.patch.dict(os.environ, {"TENURE_URL": url}):
                self.assertRaisesRegex(ValueError, "or unix://PATH", self.client)

    def test_a_user_in_a_url_is_refused_and_not_printed(self):
        """The Python client accepts a user in a URL; a message about the URL does not have the secret."""
        for url in ("bad://user:hush@localhost", "tenure://user:hush@localhost/path", "tenure://user:hush@"):
            with self.assertRaises(ValueError) as caught:
                self.client(url)
            self.assertNotIn("hush", str(caught.exception))

    def test_what_cannot_be_verified_is_refused(self):
        url = "tenures://localhost:%d" % self.server.tls_port
        for options in ({}, {"ca_file": self.other["ca.pem"]}):
            with self.assertRaises(tenure.Unreachable) as caught, self.client(url, **options) as c:
                c.ping()
            self.assertIn("CERTIFICATE_VERIFY_FAILED", str(caught.exception))
        self.assertRaises(ValueError, self.client, "localhost:1", ca_file=self.ca)

    def test_no_passphrase_is_asked_for(self):
        for key in self.certificates.encrypt("client"):
            with self.assertRaisesRegex(ValueError, "the key is encrypted"):
                self.client("tenures://localhost", cert_file=self.certificates["client.pem"], key_file=key)

    def test_another_name_is_refused(self):
        server = self.elsewhere()
        with self.assertRaises(tenure.Unreachable) as caught, \
                self.client("tenures://localhost:%d" % server.tls_port, ca_file=self.ca) as c:
            c.ping()
        self.assertIn("Hostname mismatch", str(caught.exception))
        server.remove()

    def test_insecure_is_said_loudly(self):
        with self.assertWarnsRegex(RuntimeWarning, "not verified"):
            with self.client("tenures://localhost:%d" % self.server.tls_port, insecure=True) as c:
                self.assertEqual(c.ping(), "PONG")

    def test_large_imports_and_lists(self):
        with self.client("tenures://localhost:%d" % self.server.tls_port, ca_file=self.ca) as c:
            c.pool_create("large", range=(1, 100000))
            grants = [c.alloc("large", "h", count=250) for _ in range(20)]
            self.assertEqual(len({v for grant in grants for v in grant.values}), 5000)


if __name__ == "__main__":
    unittest.main()
