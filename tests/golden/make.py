#!/usr/bin/python3
"""Makes the golden data directory of a release:

    TENURE_BUILD_DIR=DIRECTORY_OF_ITS_PROGRAMS tests/golden/make.py tests/golden/VERSION.tar.gz

Run this once for each release, with the programs of that release, and keep the file. Every later
version must open the directory, read from it what expected.json says, and continue. The server is
killed, so the directory has two snapshots and commands after the newest snapshot. Leases live for a
century, because tests open the directory at any later time."""
import json
import os
import shutil
import subprocess
import sys
import tarfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "e2e"))
import harness  # noqa: E402  (after the path is set)
from resp import Error, Resp  # noqa: E402

CENTURY = "3155760000"
FLAGS = ("--sensors", "off", "--segment-bytes", "65536", "--events-max", "1000",
         "--history-seconds", "31536000", "--op-window-seconds", "604800",
         "--rate-window-max", "3600", "--tick-step", "1")


def lease_of(reply):
    return reply["lease"], str(reply["epoch"])


class Story:
    def __init__(self, server):
        self.connection = Resp(server, 3)

    def __call__(self, *words):
        reply = self.connection.do(*words)
        assert not isinstance(reply, Error), (words, reply)
        return reply

    def alloc(self, pool, holder, *more):
        return lease_of(self("ALLOC", pool, holder, *more))


def pools_made(ask):
    ask("POOL", "CREATE", "ports", "RANGE", "30000", "30099", "EXCLUDE", "30010-30019", "LEASE", CENTURY)
    ask("POOL", "CREATE", "gpus", "SET", "LEASE", "0")
    ask("POOL", "ADD", "gpus", "gpu-0", "gpu-1", "gpu-2", "gpu-3")
    ask("POOL", "CREATE", "devices", "RANGE", "1", "500", "STICKY", "yes", "IDENTITY_FALLBACK", "json",
        "LEASE", CENTURY, "ADAPTIVE_ENABLED", "no")
    ask("POOL", "CREATE", "consoles", "RANGE", "40000", "40009", "SCOPED", "yes", "LEASE", CENTURY)
    ask("POOL", "CREATE", "cold", "RANGE", "1", "20", "STRATEGY", "coldest", "LEASE", CENTURY)
    ask("POOL", "CREATE", "dice", "RANGE", "1", "1000", "STRATEGY", "random", "RESERVE_TTL_MAX", CENTURY,
        "LEASE", CENTURY)
    ask("POOL", "CREATE", "macs", "RANGE", "02:00:00:00:00:00", "02:00:00:00:00:ff", "FORMAT", "mac",
        "STRATEGY", "next", "MAX_PER_HOLDER", "3", "LEASE", CENTURY)
    ask("POOL", "CREATE", "resting", "RANGE", "1", "50", "COOLDOWN", CENTURY, "GRACE", CENTURY, "LEASE", CENTURY)
    ask("POOL", "CREATE", "gone", "RANGE", "1", "5")


def leases_made(ask, part):
    name = lambda text: "%s/%s" % (text, part)  # noqa: E731
    ask.alloc("ports", name("job"), "COUNT", "3", "META", '{"part":"%s"}' % part)
    ask.alloc("gpus", name("job"), "COUNT", "1")
    ask("ALLOC", name("bundle"), "FROM", "ports", "COUNT", "2", "FROM", "consoles@" + part, "COUNT", "1")
    ask("RESERVE", name("later"), "TTL", CENTURY, "FROM", "dice", "COUNT", "2")
    lease, epoch = ask.alloc("devices", name("device"))
    ask("RELEASE", lease, name("device"), epoch)
    lease, epoch = ask.alloc("devices", name("returner"), "META", '{"mac":"aa:%s"}' % part)
    ask("RELEASE", lease, name("returner"), epoch)
    ask.alloc("devices", name("returner"))
    for i in range(3):
        lease, epoch = ask.alloc("cold", name("c%d" % i))
        ask("RELEASE", lease, name("c%d" % i), epoch)
    ask.alloc("macs", name("nic"), "COUNT", "2")
    lease, _ = ask.alloc("resting", name("revoked"))
    ask("REVOKE", lease, "AFTER", CENTURY)
    lease, epoch = ask.alloc("resting", name("cooling"))
    ask("RELEASE", lease, name("cooling"), epoch)
    lease, _ = ask.alloc("resting", name("reclaimed"))
    ask("REVOKE", lease)
    ask("RECLAIM", lease)
    lease, epoch = ask.alloc("dice", name("old-name"))
    ask("REKEY", lease, epoch, name("new-name"))
    ask("IMPORT", "ports", name("import"), "VALUES", "1", "3008%d" % len(part), "CREATED", "1700000000000")
    for i in range(4):
        ask.alloc("dice", name("leaver"))
    ask("DISOWN", name("leaver"))
    ask("ALLOC", "dice", name("once"), "OPID", name("op"))


def demand_made(ask, part):
    ask("SENSOR", "SET", "s-" + part, "core.timer", '{"command":["/bin/true"]}')
    ask("RULE", "SET", "r-" + part, "core.timer")
    ask("RULE", "SET", "off-" + part, "core.other", "DISABLED")
    ask("RULE", "SET", "dead-" + part, "core.other")
    ask("RULE", "DELETE", "dead-" + part)


def told(server):
    """What the release's own reads tell, as JSON."""
    ask = Story(server)

    def pages(*words):
        rows, cursor = [], "0"
        while True:
            page = ask(*words, "CURSOR", cursor)
            cursor = page["cursor"]
            rows += next(v for k, v in page.items() if k != "cursor")
            if str(cursor) == "0":
                return rows
    leases = pages("LEASES")
    ended = sorted({e["lease"] for e in ask("EVENTS", "COUNT", "1000")["events"]
                    if e.get("lease") and e["kind"] in ("lease.released", "lease.revoked")})
    return {
        "leases": leases,
        "ended": [ask("LEASE", lease) for lease in ended],
        "pools": [ask("POOL", "INFO", row["pool"]) for row in pages("POOL", "LIST")],
        "rules": pages("RULE", "LIST"),
        "sensors": [ask("SENSOR", "INFO", row["ref"]) for row in pages("SENSOR", "LIST")],
        "events": ask("EVENTS", "COUNT", "1000")["events"],
    }


def lived(server):
    ask = Story(server)
    pools_made(ask)
    for part in ("a", "bb", "ccc"):
        leases_made(ask, part)
        demand_made(ask, part)
        if part != "ccc":
            ask("SNAPSHOT")
    ask("POOL", "ALTER", "ports", "MAX_HOLD", "0")
    ask("POOL", "REMOVE", "gpus", "gpu-3")
    ask("POOL", "DROP", "gone")
    ask("POOL", "SEED", "devices", "GIVEN", "8", "RECLAIMED", "3")
    return told(server)


def offline(data, command):
    tenure = os.path.join(harness.BUILD, "tenure")
    return subprocess.run([tenure, command, data], stdout=subprocess.PIPE, check=True).stdout.decode()


def main(out):
    server = harness.Server(None, *FLAGS)
    try:
        expected = lived(server)
    finally:
        server.stop(9)
    data = os.path.join(server.data, "data")
    expected["dump"] = offline(data, "dump").splitlines()
    expected["check"] = [line for line in offline(data, "check").splitlines() if line.startswith("state  ")]
    with open(os.path.join(server.data, "expected.json"), "w", encoding="utf-8") as file:
        json.dump(expected, file, indent=1, sort_keys=True)
    with tarfile.open(out, "w:gz") as tar:
        tar.add(file.name, arcname="expected.json")
        for name in sorted(os.listdir(data)):
            if "spare" not in name and "key" not in name:
                tar.add(os.path.join(data, name), arcname="data/" + name)
    shutil.rmtree(server.data)


if __name__ == "__main__":
    main(sys.argv[1])
