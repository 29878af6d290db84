"""Every release's data directory opens, shows what that release showed, and can be written. The directories
are in tests/golden, made by make.py there with the programs of the release."""
import glob
import json
import os
import shutil
import subprocess
import tarfile
import tempfile
import unittest
from contextlib import closing

from harness import BUILD, PATIENCE, Server
from resp import Error, Resp

GOLDEN = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "golden")
TENURE = os.path.join(BUILD, "tenure")
# The server's sensors stay off, and the clock may be years ahead of the log.
FLAGS = ("--sensors", "off", "--confirm-time-jump")
FIGURES = ("pool", "active", "reserved", "offline", "revoking", "cooling", "allocated_total",
           "released_total", "revoked_total", "returned_total", "expired_total")


def pages(ask, *words):
    rows, cursor = [], "0"
    while True:
        page = ask.do(*words, "CURSOR", cursor)
        cursor = str(page["cursor"])
        rows += next(v for k, v in page.items() if k != "cursor")
        if cursor == "0":
            return rows


def applies(option, options):
    """Bounds mean nothing in a set, and the adaptive lease is for sticky pools: they are not shown."""
    if option in ("lo", "hi"):
        return options["kind"] != "set"
    adaptive = option in ("adaptive_enabled", "min_lease_seconds", "metrics_emit_interval_seconds") \
        or "rate_" in option or option == "ultra_force_release"
    return options["sticky"] == "yes" or not adaptive


class Upgrade(unittest.TestCase):
    def setUp(self):
        self.dir = tempfile.mkdtemp(prefix="tenure-upgrade-")
        self.data = os.path.join(self.dir, "data")

    def tearDown(self):
        shutil.rmtree(self.dir)

    def unpack(self, golden):
        shutil.rmtree(self.dir)
        with tarfile.open(golden) as tar:
            tar.extractall(self.dir)
        with open(os.path.join(self.dir, "expected.json"), encoding="utf-8") as file:
            return json.load(file)

    def offline(self, command):
        done = subprocess.run([TENURE, command, self.data], stdout=subprocess.PIPE, timeout=PATIENCE,
                              stderr=subprocess.STDOUT, check=False)
        out = done.stdout.decode()
        self.assertEqual(done.returncode, 0, out)
        return out.splitlines()

    def same(self, shown, before, keys=None):
        """`shown` has all of `before`, or those keys of it; it may have more."""
        for key in before if keys is None else keys:
            if key != "lsn":
                self.assertEqual(shown.get(key), before[key], (key, before))

    def compare_leases(self, ask, expected):
        leases = {row["lease"]: row for row in pages(ask, "LEASES")}
        self.assertEqual(set(leases), {row["lease"] for row in expected["leases"]})
        for row in expected["leases"]:
            self.same(leases[row["lease"]], row)
        for row in expected["ended"]:
            shown = ask.do("LEASE", row["lease"])
            if isinstance(shown, Error):  # history has let it go, a year later
                self.assertTrue(shown.startswith("RETIRED"), shown)
            else:
                self.same(shown, row)

    def compare_rest(self, ask, expected):
        for row in expected["pools"]:
            shown = ask.do("POOL", "INFO", row["pool"])
            options = row["options"]
            self.same(shown["options"], options, [key for key in options if applies(key, options)])
            if options["scoped"] == "no" or "@" in row["pool"]:  # templates had no figures
                self.same(shown, row, [key for key in FIGURES if key in row])
            else:
                held = [r for r in expected["leases"] if r["state"] == "active"
                        for pool in r["pools"] if pool.startswith(row["pool"] + "@")]
                self.assertEqual(shown["active"], len(held))
        self.assertEqual([r["pool"] for r in pages(ask, "POOL", "LIST")],
                         [r["pool"] for r in expected["pools"]])
        for shown, row in zip(pages(ask, "RULE", "LIST"), expected["rules"], strict=True):
            self.same(shown, row)
        for row in expected["sensors"]:
            self.same(ask.do("SENSOR", "INFO", row["ref"]), row, ("ref", "trigger", "spec", "enabled"))
        events = {e["id"]: e for e in ask.do("EVENTS", "COUNT", "1000")["events"]}
        for row in expected["events"]:
            self.same(events[row["id"]], row)

    def goes_on(self, ask):
        """Held values are not granted again, in any pool."""
        held = {(pool, value) for row in pages(ask, "LEASES")
                for pool, value in zip(row["pools"], row["values"])}
        for pool in ("ports", "devices", "consoles@a", "cold", "dice", "macs", "resting"):
            got = ask.do("ALLOC", pool, "after/the-upgrade")
            self.assertNotIn((pool, got["values"][0]), held)
        self.assertTrue(ask.do("ALLOC", "gpus", "after/the-upgrade", "COUNT", "1").startswith("EXHAUSTED"))
        return got

    def check_release(self, golden):
        expected = self.unpack(golden)
        self.assertIn(expected["check"][0], self.offline("check"))
        self.assertEqual(self.offline("dump")[-len(expected["dump"]):], expected["dump"])
        server = Server(self.dir, *FLAGS)
        try:
            with closing(Resp(server, 3)) as ask:
                self.compare_leases(ask, expected)
                self.compare_rest(ask, expected)
                got = self.goes_on(ask)
            server.stop(9)
            for _ in range(2):  # by the log, then by a snapshot of this version
                server.start()
                with closing(Resp(server, 3)) as ask:
                    self.same(ask.do("LEASE", got["lease"]), got, ("lease", "epoch", "values"))
                self.assertEqual(server.stop(), 0)
            server.start()
        finally:
            server.remove()
        self.assertEqual(self.offline("check")[-1], "ok")

    def test_a_data_directory_of_each_release_opens_and_goes_on(self):
        found = sorted(glob.glob(os.path.join(GOLDEN, "*.tar.gz")))
        self.assertTrue(found)
        for golden in found:
            with self.subTest(release=os.path.basename(golden)):
                self.check_release(golden)


if __name__ == "__main__":
    unittest.main()
