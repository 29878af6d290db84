#!/usr/bin/env python3
"""Ten thousand hostile sockets against one server, and an honest client that measures how long it
waits, without them and with them: run by tools/crowd.sh. Prints a table; fails if the server's memory
passes the bound that docs/security.md states, or if the honest client is not answered.

The crowd is a process with lower priority, since it represents other machines; its work in a second is
bounded, and printed. It still uses processor time, and so does the server that serves it. So the crowd
that causes the most work also runs against a second server on this machine: the additional wait of the
honest client is then not caused by the server that it asks.

The wait without a crowd is measured before, between and after the crowds, so that other work of the
machine affects both figures. With CROWD_REALTIME=1 (for root) the server and the honest client have
priority over everything else, the crowd included, as if each had its own machine. Times are reported but
not asserted."""
import http.client
import multiprocessing
import os
import resource
import socket
import struct
import time

from harness import Server, pairs, until

SECONDS = float(os.environ.get("CROWD_SECONDS", "60"))
CROWD = int(os.environ.get("CROWD_SOCKETS", "9900"))
RATE = int(os.environ.get("CROWD_RATE", "3000"))  # things that it does in a second, together
REALTIME = os.environ.get("CROWD_REALTIME") == "1"
MEMORY = 64 << 20
SLOW = 5
PAUSE = 0.002

ECHO = b"*2\r\n$4\r\nECHO\r\n$%d\r\n"
HEAD = b" HTTP/1.1\r\nHost: localhost\r\n"
POST = b"POST /v1/pools/p/leases" + HEAD + b"Content-Type: application/json\r\n"
# What a member says first, and then again and again; over HTTP or RESP. Nobody reads an answer.
CROWDS = {
    "idle": ((False, b"PING\r\n", b""), (True, b"", b"")),
    "a byte now and then": ((False, ECHO % 1000, b"x"), (False, b"PI", b"I"),
                            (True, b"GET /v1/pools" + HEAD + b"X-Long: ", b"y"),
                            (True, POST + b"Content-Length: 1000\r\n\r\n{", b" ")),
    "requests without end": ((False, ECHO % 500000, b"x" * 4096), (False, b"y", b"y" * 4096),
                             (False, ECHO % 10 ** 12, b"x"),
                             (False, b"*1000000\r\n", b"$1\r\nx\r\n"),
                             (True, b"GET /" + HEAD, b"X-More: %s\r\n" % (b"z" * 1000)),
                             (True, POST + b"Transfer-Encoding: chunked\r\n\r\n",
                              b"1000\r\n" + b" " * 4096 + b"\r\n")),
    # What takes long is asked for by some: whole requests are work, whoever sends them.
    "replies that nobody reads": (
        ((False, b"COMMAND DOCS\r\n" * 20, b"COMMAND DOCS\r\n" * 5),
         (True, (b"GET /openapi.json" + HEAD + b"\r\n") * 8,
          b"GET /metrics" + HEAD + b"\r\n")) * 25 +
        ((False, b"PSUBSCRIBE *\r\n", b""),
         (True, (b"GET /v1/events?after=0.0&count=1000" + HEAD + b"\r\n") * 2,
          b"GET /v1/leases?count=1000" + HEAD + b"\r\n"))),
    "coming and going": ((False, b"PING\r\n", None), (True, b"GET /livez" + HEAD + b"\r\n", None)),
}
CONTROL = "replies that nobody reads"


class Member:
    def __init__(self, ports, kind):
        self.is_http, self.first, self.later = kind
        self.port = ports[self.is_http]
        self.socket = None

    def leave(self):
        self.socket.close()
        self.socket = None

    def come(self):
        self.socket = socket.socket()
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        if self.later is None:  # no port is left behind
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.socket.settimeout(5)
        self.socket.connect(("127.0.0.1", self.port))
        self.socket.setblocking(False)
        self.socket.send(self.first)

    def was_hung_up_on(self):
        try:
            return self.socket.recv(1, socket.MSG_PEEK) == b""
        except BlockingIOError:
            return False
        except OSError:
            return True

    def step(self):
        """One action of the crowd: a connection begins, sends more or ends; a disconnected one begins again."""
        try:
            if self.socket is not None and self.later is None:
                self.leave()
                return
            if self.socket is not None and self.was_hung_up_on():
                self.leave()
            if self.socket is None:
                self.come()
            else:
                self.socket.send(self.later)
        except BlockingIOError:
            pass
        except OSError:
            self.leave()


def crowd(name, ports, full, stop, count):
    os.nice(5)
    kinds = CROWDS[name]
    members = [Member(ports, kinds[i % len(kinds)]) for i in range(CROWD)]
    begun = time.monotonic()
    done = 0
    while not stop.is_set():
        for _ in range(RATE // 100):
            members[done % CROWD].step()
            done += 1
        count.value = done
        if done >= CROWD:
            full.set()
        time.sleep(max(0.0, begun + done / RATE - time.monotonic()))
    full.set()


class Honest:
    """Sends one request at a time and records its duration."""

    def __init__(self, server):
        self.server = server
        self.r = server.client(socket_timeout=60)
        self.http = http.client.HTTPConnection("127.0.0.1", server.http_port, timeout=60)
        self.worst_rss = 0

    def rss(self):
        with open("/proc/%d/status" % self.server.process.pid, encoding="ascii") as file:
            rows = dict(line.split(":", 1) for line in file)
        return int(rows["VmRSS"].split()[0]) * 1024

    def lease(self):
        got = pairs(self.r.execute_command("ALLOC", "p", "honest"))
        self.r.execute_command("RELEASE", got["lease"], "honest", got["epoch"])

    def get(self):
        self.http.request("GET", "/v1/pools/p")
        answer = self.http.getresponse()
        assert answer.status == 200, answer.status
        answer.read()

    def page(self):
        self.r.execute_command("LEASES", "POOL", "p", "COUNT", 10)

    def measure(self, seconds):
        asks = (("PING", self.r.ping), ("ALLOC and RELEASE", self.lease), ("GET", self.get),
                ("LEASES of 10", self.page))
        times = {name: [] for name, _ in asks}
        self.worst_rss = 0
        self.http.close()  # the server may have, in the silence before; it is opened again
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            for name, ask in asks:
                before = time.perf_counter()
                ask()
                times[name].append(time.perf_counter() - before)
            self.worst_rss = max(self.worst_rss, self.rss())
            time.sleep(PAUSE)
        return times


def at(times, part):
    return sorted(times)[int(len(times) * part)] * 1e6


def tell(what, times, calm):
    cells = []
    for name, taken in times.items():
        than = ""
        if calm is not None:
            than = " (%.1fx %.1fx)" % tuple(at(taken, p) / at(calm[name], p) for p in (0.5, 0.99))
        cells.append("%s %.0f %.0f us%s" % (name, at(taken, 0.5), at(taken, 0.99), than))
    print("%-36s %s" % (what, ", ".join(cells)), flush=True)


def play(honest, name, server, seconds):
    ports = (server.port, server.http_port)
    context = multiprocessing.get_context("fork")
    full, stop = context.Event(), context.Event()
    count = context.Value("L", 0)
    process = context.Process(target=crowd, args=(name, ports, full, stop, count))
    process.start()
    try:
        full.wait(120)
        before = count.value
        times = honest.measure(seconds)
        rate = (count.value - before) / seconds
        clients = honest.r.info()["connected_clients"]
        kept = honest.r.info()["clients_memory"]
    finally:
        stop.set()
        process.join(60)
    assert process.exitcode == 0, process.exitcode
    until(lambda: honest.r.info()["clients_memory"] < 1 << 20, "what was kept is given back")
    print("%-28s %d things a second; at the end the server had %d RESP clients, %d MiB kept; "
          "load %.1f" % (name, rate, clients, kept >> 20, os.getloadavg()[0]), flush=True)
    assert kept <= 2 * MEMORY, "%d bytes are kept for clients" % kept
    return times


def fill(r):
    r.execute_command("POOL", "CREATE", "p", "RANGE", 1, 100000)
    for i in range(1000):
        r.execute_command("ALLOC", "p", "other-%d" % i, "COUNT", 40)


def start():
    return Server(None, "--client-memory", str(MEMORY), "--slow-seconds", str(SLOW))


def go_first(server):
    first = os.sched_param(1)
    for thread in os.listdir("/proc/%d/task" % server.process.pid):
        os.sched_setscheduler(int(thread), os.SCHED_RR, first)
    os.sched_setscheduler(0, os.SCHED_RR | os.SCHED_RESET_ON_FORK, first)


def play_elsewhere(honest, name, seconds):
    other = start()
    try:
        with other.client() as r:
            fill(r)
        return play(honest, name, other, seconds)
    finally:
        other.remove()


def main():
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    assert hard > CROWD + 100, "%d descriptors are not enough for the crowd" % hard
    server = start()
    try:
        honest = Honest(server)
        fill(honest.r)
        if REALTIME:
            go_first(server)
        part = SECONDS / (1.5 * len(CROWDS) + 1.5)
        print("%d sockets that do up to %d things a second" % (CROWD, RATE))
        calm = honest.measure(part / 2)
        base = honest.worst_rss
        crowds = {}
        worst = {}
        for name in CROWDS:
            crowds[name] = play(honest, name, server, part)
            worst[name] = honest.worst_rss
            if name == CONTROL:
                crowds[name + ", elsewhere"] = play_elsewhere(honest, name, part)
            for ask, taken in honest.measure(part / 2).items():
                calm[ask] += taken
        print("p50 and p99 of an honest client")
        tell("nobody else", calm, None)
        for name, times in crowds.items():
            tell(name, times, calm)
        bound = base + 2 * MEMORY + (64 << 20) + 28 * 1024 * (CROWD + 100) + (19 << 20)
        print("memory: %d MiB before, at most %s; bound %d" % (
            base >> 20, ", ".join("%d" % (w >> 20) for w in worst.values()), bound >> 20))
        assert max(worst.values()) <= bound, "%s bytes are more than the bound" % worst
        honest.r.close()
        honest.http.close()
    finally:
        server.remove()


if __name__ == "__main__":
    main()
