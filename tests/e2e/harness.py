"""Helpers of the end-to-end tests: the real server process on a free port with its own
directory, started, awaited by its port file, and stopped by its own process id."""
import contextlib
import os
import resource
import shutil
import signal
import socket
import subprocess
import tempfile
import unittest

import redis

from patience import BUILD, COMPLAINT, PATIENCE, until

TENURED = os.path.join(BUILD, "tenured")

# The tests, and the servers that they start, need many open sockets.
SOFT, HARD = resource.getrlimit(resource.RLIMIT_NOFILE)
if SOFT < 4096:
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(4096, HARD), HARD))


def text_of(path):
    with open(path, encoding="utf-8") as file:
        return file.read()


def nobody_may_run(program):
    """Whether an unprivileged user may run it; the build may be in a directory that only its owner can enter."""
    return subprocess.run(["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "test", "-x",
                           os.path.abspath(program)], timeout=PATIENCE, check=False).returncode == 0


def reserve():
    """A socket that reserves its port as long as it is open: connections to the port are refused until
    a server of ours listens there, and again after that server has ended."""
    s = socket.socket()
    s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    s.bind(("127.0.0.1", 0))
    return s


def port_of(s):
    return s.getsockname()[1]


# Executes a program that has no /proc.
WITHOUT_PROC = ("unshare", "--mount", "sh", "-c", 'umount -l /proc && exec "$@"', "sh")


def runs_without_proc(program):
    """Not every container permits unmounting, even to root; and a program with a sanitizer needs /proc itself."""
    return subprocess.run([*WITHOUT_PROC, program, "--version"], stdout=subprocess.DEVNULL,
                          stderr=subprocess.DEVNULL, timeout=PATIENCE, check=False).returncode == 0


class Server:
    before = ()  # a command that executes the program after it
    # A client that does not read for a while counts as slow only in the tests of that.
    patience = ("--slow-seconds", "600")

    def __init__(self, data=None, *flags, keep=False):
        """`keep`: the server keeps its ports across restarts."""
        self.own = data is None
        self.data = data or tempfile.mkdtemp(prefix="tenure-e2e-")
        self.flags = flags
        self.held = [reserve(), reserve()] if keep else []
        self.start()

    def start(self):
        port_file = os.path.join(self.data, "port")
        if os.path.exists(port_file):
            os.unlink(port_file)
        self.log = open(os.path.join(self.data, "stderr"), "ab")
        resp, http = map(port_of, self.held) if self.held else (0, 0)
        self.process = subprocess.Popen(
            [*self.before, TENURED, "--data", os.path.join(self.data, "data"), "--listen", "127.0.0.1:%d" % resp,
             "--http", "127.0.0.1:%d" % http, "--port-file", port_file, *self.patience, *self.flags],
            stderr=self.log)

        def ready():
            assert self.process.poll() is None, text_of(self.log.name)
            return os.path.exists(port_file)
        until(ready, "the port file")
        ports = text_of(port_file).split()
        self.port = int(ports[0])
        data = self.flags[self.flags.index("--data") + 1] if "--data" in self.flags else \
            os.path.join(self.data, "data")
        self.socket = os.path.join(data, "tenure.sock")
        self.http_port = int(ports[1]) if len(ports) > 1 else None

    def stop(self, number=signal.SIGTERM):
        self.process.send_signal(number)
        code = self.process.wait(PATIENCE)
        self.log.close()
        return code

    def fail(self, ask):
        """Makes every write of the server fail, which ends it; returns the result of `ask`, and starts the
        server again. An idle server writes, too: if that has ended it, `ask` gets no answer and returns
        None, and everything is repeated."""
        def answer():
            resource.prlimit(self.process.pid, resource.RLIMIT_FSIZE, (0, 0))
            got = ask()
            assert self.process.wait(PATIENCE) == 1
            self.log.close()
            self.start()
            return got
        return until(answer, "a write that fails")

    @contextlib.contextmanager
    def standstill(self):
        """Stops the process by a signal; everything sent meanwhile arrives at once when the process continues."""
        def stands():
            return text_of("/proc/%d/stat" % self.process.pid).rsplit(")", 1)[1].split()[0] == "T"
        self.process.send_signal(signal.SIGSTOP)
        try:
            until(stands, "the server is stopped")
            yield
        finally:
            self.process.send_signal(signal.SIGCONT)

    def remove(self):
        if self.process.poll() is None:
            code = self.stop()
            assert code == 0, text_of(self.log.name)
        with open(self.log.name, encoding="utf-8", errors="replace") as log:
            said = log.read()  # in all of its lives, however they ended
        assert not COMPLAINT.search(said), said
        for s in self.held:
            s.close()
        if self.own:
            shutil.rmtree(self.data)

    def client(self, **options):
        return redis.Redis(port=self.port, decode_responses=True, **options)

    def local(self, **options):
        """Connects to the Unix-domain socket, as an administrator, which defining sensors requires."""
        return redis.Redis(unix_socket_path=self.socket, decode_responses=True, **options)

    def connect(self, port=None):
        s = socket.create_connection(("127.0.0.1", port or self.port), timeout=PATIENCE)
        s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return s

    def cli(self, *arguments):
        out = subprocess.run(["redis-cli", "-p", str(self.port), *arguments], timeout=PATIENCE,
                             stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
        return out.stdout.decode().strip()


def pairs(flat):
    return dict(zip(flat[::2], flat[1::2]))


def receive(s, length):
    """Receives exactly this many bytes."""
    parts = []
    while length > 0:
        part = s.recv(min(length, 1 << 20))
        assert part, "the server closed the connection"
        parts.append(part)
        length -= len(part)
    return b"".join(parts)


def read_bulk(s):
    """Reads the text of a bulk string, byte by byte up to its length."""
    head = b""
    while not head.endswith(b"\r\n"):
        head += receive(s, 1)
    return receive(s, int(head[1:]) + 2).decode()


def receive_until(s, end):
    got = b""
    while not got.endswith(end):
        more = s.recv(65536)
        if not more:
            break
        got += more
    return got


class Case(unittest.TestCase):
    flags = ()
    keep = False  # whether a server that is started again has the same ports

    @classmethod
    def setUpClass(cls):
        cls.server = Server(None, *cls.flags, keep=cls.keep)
        cls.r = cls.server.client()
        cls.local = cls.server.local()

    @classmethod
    def tearDownClass(cls):
        cls.local.close()
        cls.r.close()
        cls.server.remove()

    def do(self, *words):
        client = self.local if words[:2] == ("SENSOR", "SET") else self.r
        return client.execute_command(*words)

    def refused(self, start, *words):
        with self.assertRaises(redis.ResponseError) as caught:
            self.do(*words)
        self.assertTrue(str(caught.exception).startswith(start), str(caught.exception))
        return str(caught.exception)
