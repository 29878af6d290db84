#!/usr/bin/env python3
"""Connections that send requests without end, and an honest client that measures how long it waits for
its own, at Tenure and at redis-server in turn, on the same machine and under the same flood: run by
tools/crowd.sh. Prints a table with the ratio of the two p99; fails if the honest client gets no reply.

The flood comes from a process of its own. It reads the replies and throws them away: a connection that
does not read them is no flood, since both servers stop serving it. Times are reported but not asserted: on a
machine with few cores the flood takes processor time from the server and from the honest client."""
import multiprocessing
import os
import resource
import select
import shutil
import socket
import subprocess
import tempfile
import time

import redis

from access_test import HASH, SECRET, user
from harness import Server, pairs, port_of, reserve, until
from share_test import array

SECONDS = float(os.environ.get("CROWD_SECONDS", "60"))
SIZES = tuple(int(n) for n in os.environ.get("CROWD_FLOODS", "16 200 5000").split())
ROUNDS = 3
CHUNK = 16 << 10
GOAL = 3.0
GET = b"GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n"
# What a flooding connection sends to Tenure and to Redis, whether users are defined, and whether the
# honest client writes. What begins like HTTP is sent to the port of HTTP, if there is one.
FLOODS = {
    "PING": (b"PING\r\n", b"PING\r\n", False, False),
    "unknown commands": (array("x"), array("x"), False, False),
    "writes": (array("ALLOC", "p", "flooder"), array("SET", "p", "flooder"), False, False),
    "writes, it writes, too": (array("ALLOC", "p", "flooder"), array("SET", "p", "flooder"), False, True),
    "PING before logging in": (b"PING\r\n", b"PING\r\n", True, False),
    "GET over HTTP": (GET, b"PING\r\n", False, False),
}


class Flooder:
    """Keeps the socket of a connection filled, reads what comes back, and connects again if it is
    closed."""

    def __init__(self, poll, sockets, port, request):
        self.poll, self.sockets, self.port, self.request = poll, sockets, port, request
        self.connect()

    def connect(self):
        self.socket = socket.socket()
        self.socket.settimeout(60)
        self.socket.connect(("127.0.0.1", self.port))
        self.socket.setblocking(False)
        self.left = self.request
        self.sockets[self.socket.fileno()] = self
        self.poll.register(self.socket.fileno(), select.EPOLLIN | select.EPOLLOUT)

    def close(self):
        self.poll.unregister(self.socket.fileno())
        del self.sockets[self.socket.fileno()]
        self.socket.close()

    def step(self, what):
        try:
            if what & select.EPOLLIN and not self.socket.recv(1 << 18):
                raise ConnectionError
            if what & select.EPOLLOUT:
                sent = self.socket.send(self.left)
                self.left = self.left[sent:] or self.request
        except BlockingIOError:
            pass
        except OSError:
            self.close()
            self.connect()


def flood(port, count, request, full, stop):
    os.nice(5)
    poll = select.epoll()
    sockets = {}
    chunk = request * (CHUNK // len(request))
    for _ in range(count):
        Flooder(poll, sockets, port, chunk)
    full.set()
    while not stop.is_set():
        for fd, what in poll.poll(0.1, 256):
            sockets[fd].step(what)
    for flooder in list(sockets.values()):
        flooder.close()


class Redis:
    """A redis-server of this test, with or without a password."""

    def __init__(self, users):
        self.data = tempfile.mkdtemp(prefix="tenure-flood-")
        with reserve() as held:
            self.port = port_of(held)
        secret = ("--requirepass", SECRET) if users else ()
        self.process = subprocess.Popen(
            ["redis-server", "--port", str(self.port), "--dir", self.data, "--save", "",
             "--appendonly", "yes", "--appendfsync", "always", "--maxclients", "10000", *secret],
            stdout=subprocess.DEVNULL)
        self.secret = SECRET if users else None
        until(self.answers, "redis-server answers")

    def answers(self):
        try:
            with self.client() as r:
                return r.ping()
        except redis.ConnectionError:
            return False

    def client(self, **options):
        return redis.Redis(port=self.port, password=self.secret, **options)

    def ask(self, r, writes):
        if writes:
            r.set("honest", "x")
        else:
            r.ping()

    def remove(self):
        self.process.terminate()
        self.process.wait()
        shutil.rmtree(self.data)


class Tenure(Server):
    def __init__(self, users):
        self.users = users
        self.config = tempfile.NamedTemporaryFile("w", suffix=".conf")
        self.config.write(user("root", "admin", secret=HASH) if users else "")
        self.config.flush()
        super().__init__(None, "--config", self.config.name)
        with self.client() as r:
            r.execute_command("POOL", "CREATE", "p", "RANGE", 1, 1000000)

    def client(self, **options):
        if self.users:
            options.update(username="root", password=SECRET)
        return super().client(**options)

    def ask(self, r, writes):
        if writes:
            got = pairs(r.execute_command("ALLOC", "honest", "honest"))
            r.execute_command("RELEASE", got["lease"], "honest", got["epoch"])
        else:
            r.ping()

    def remove(self):
        super().remove()
        self.config.close()


def measure(server, count, request, writes, seconds):
    """Seconds that each request of the honest client took."""
    context = multiprocessing.get_context("fork")
    full, stop = context.Event(), context.Event()
    r = server.client(socket_timeout=120)
    server.ask(r, writes)
    port = server.http_port if request == GET else server.port
    process = context.Process(target=flood, args=(port, count, request, full, stop))
    process.start()
    times = []
    try:
        assert full.wait(120), "the flood did not connect"
        end = time.monotonic() + seconds
        while time.monotonic() < end or not times:
            before = time.perf_counter()
            server.ask(r, writes)
            times.append(time.perf_counter() - before)
            time.sleep(0.002)
    finally:
        stop.set()
        process.join(60)
        r.close()
    assert process.exitcode == 0, process.exitcode
    return times


def at(times, part):
    return sorted(times)[int(len(times) * part)] * 1e3


def compare(name, seconds):
    ours, theirs, users, writes = FLOODS[name]
    tenure, other = Tenure(users), Redis(users)
    try:
        if writes:
            with tenure.client() as r:
                r.execute_command("POOL", "CREATE", "honest", "RANGE", 1, 1000)
        for count in SIZES:
            times = ([], [])
            for _ in range(ROUNDS):
                times[0].extend(measure(tenure, count, ours, writes, seconds))
                times[1].extend(measure(other, count, theirs, writes, seconds))
            ratio = at(times[0], 0.99) / at(times[1], 0.99)
            print("%-24s %5d  %6d replies, p50 %8.2f p99 %8.2f ms   redis %6d, %8.2f %8.2f ms"
                  "   p99 ratio %.2f%s" % (
                      name, count, len(times[0]), at(times[0], 0.5), at(times[0], 0.99),
                      len(times[1]), at(times[1], 0.5), at(times[1], 0.99), ratio,
                      "" if ratio <= GOAL else " (goal %g)" % GOAL), flush=True)
    finally:
        tenure.remove()
        other.remove()


def main():
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    assert hard > max(SIZES) + 100, "%d descriptors are not enough for the flood" % hard
    print("an honest client beside connections that send requests without end")
    for name in FLOODS:
        compare(name, SECONDS / (2 * ROUNDS * len(SIZES) * len(FLOODS)))


if __name__ == "__main__":
    main()
