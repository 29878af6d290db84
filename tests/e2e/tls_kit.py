"""Helpers of the tests of TLS: certificates, and sockets with TLS."""
import os
import shutil
import socket
import ssl
import subprocess
import tempfile
import unittest
from typing import Sequence

from harness import PATIENCE, TENURED, Server, text_of, until


class Certificates:
    """A directory with the files of `tenured --make-certificate`, and more certificates of the same authority."""

    def __init__(self):
        self.dir = tempfile.mkdtemp(prefix="tenure-tls-")
        subprocess.run([TENURED, "--make-certificate", self.dir], stdout=subprocess.DEVNULL, check=True,
                       timeout=PATIENCE)

    def __getitem__(self, name):
        return os.path.join(self.dir, name)

    def sign(self, name, subject, *options, usage="clientAuth", names=None, days="30"):
        """Makes NAME.pem and NAME-key.pem. A negative number of days: the certificate has expired."""
        extensions = self[name + ".ext"]
        with open(extensions, "w", encoding="ascii") as file:
            file.write("extendedKeyUsage = %s\n" % usage)
            if names:
                file.write("subjectAltName = %s\n" % names)
        run("openssl", "req", "-new", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes",
            "-keyout", self[name + "-key.pem"], "-out", self[name + ".csr"], "-subj", subject)
        self.renew(name, days, *options)
        return self[name + ".pem"], self[name + "-key.pem"]

    def renew(self, name, days, *options):
        """Replaces the certificate by another one of the same key, in one step."""
        run("openssl", "x509", "-req", "-in", self[name + ".csr"], "-CA", self["ca.pem"], "-CAkey",
            self["ca-key.pem"], "-CAcreateserial", "-out", self[name + ".new"], "-extfile", self[name + ".ext"],
            "-days", days, *options)
        os.replace(self[name + ".new"], self[name + ".pem"])

    def encrypt(self, name):
        """The key NAME-key.pem with a passphrase, in both formats that OpenSSL writes."""
        for form, more in (("pkcs8", ("-topk8",)), ("ec", ("-aes128",))):
            out = self["%s-%s.pem" % (name, form)]
            run("openssl", form, *more, "-in", self[name + "-key.pem"], "-out", out, "-passout", "pass:hush")
            yield out

    def server(self, name, days="30"):
        return self.sign(name, "/CN=localhost", usage="serverAuth", names="DNS:localhost,IP:127.0.0.1",
                         days=days)

    def flags(self, *more):
        return ("--tls-listen", "127.0.0.1:0", "--https", "127.0.0.1:0", "--tls-cert-file",
                self["server.pem"], "--tls-key-file", self["server-key.pem"], "--tls-ca-file",
                self["ca.pem"], *more)

    def context(self, name=None, ca="ca.pem"):
        context = ssl.create_default_context(cafile=self[ca])
        if name:
            context.load_cert_chain(self[name + ".pem"], self[name + "-key.pem"])
        return context

    def remove(self):
        shutil.rmtree(self.dir)


def run(*words):
    subprocess.run(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=True, timeout=PATIENCE)


class TlsServer(Server):
    def start(self):
        super().start()
        ports = text_of(os.path.join(self.data, "port")).split()
        self.tls_port = int(ports[3]) if len(ports) > 3 else None
        self.https_port = int(ports[4]) if len(ports) > 4 else None

    def plain(self, port=None):
        """A socket to the TLS port, without a handshake."""
        return socket.create_connection(("127.0.0.1", port or self.tls_port), timeout=PATIENCE)

    def tls(self, context, port=None):
        return context.wrap_socket(self.plain(port), server_hostname="localhost")

    def info(self, name):
        """A number of INFO."""
        for line in self.cli("INFO").splitlines():
            if line.startswith(name + ":"):
                return int(line.split(":")[1])
        raise AssertionError(name)

    def says(self, *parts):
        """Waits for a log line that contains all of these texts."""
        return until(lambda: next((line for line in text_of(self.log.name).splitlines()
                                   if all(part in line for part in parts)), None), parts)


def read_all(s):
    """Reads until the other side closes; None: it closed without close_notify."""
    got = b""
    try:
        while True:
            more = s.recv(65536)
            if not more:
                return got
            got += more
    except ssl.SSLEOFError:
        return None


SECRET = "correct horse battery"


def hashed():
    """The hash of SECRET, for the configuration."""
    return subprocess.run([TENURED, "--hash-secret"], input=SECRET.encode() + b"\n", check=True,
                          stdout=subprocess.PIPE, timeout=PATIENCE).stdout.decode().strip()


class CertifiedCase(unittest.TestCase):
    """Tests with a server that has a certificate; `users` is its configuration, with %s for the hash."""
    more: Sequence[str] = ()
    users = ""

    @classmethod
    def setUpClass(cls):
        cls.certificates = Certificates()
        config = cls.certificates["tenure.ini"]
        with open(config, "w", encoding="ascii") as file:
            file.write(cls.users and cls.users % hashed())
        cls.server = TlsServer(None, *cls.certificates.flags("--config", config, *cls.more))

    @classmethod
    def tearDownClass(cls):
        cls.server.remove()
        cls.certificates.remove()
