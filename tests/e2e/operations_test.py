#!/usr/bin/env python3
"""The runbook of docs/operations.md, pasted block by block, unchanged, in the order of the page, on one machine: in
namespaces of its own for mounts and network, so that paths and ports are those of the page. Only `apt`, `systemctl`
and `journalctl` are simulated (machines.py). The disk is a small tmpfs, the clock is moved by libfaketime. Needs root."""
import glob
import json
import os
import re
import shutil
import signal
import subprocess
import tarfile
import tempfile
import unittest

from harness import BUILD, PATIENCE, text_of, until
from machines import SOURCE, Machine

PAGE = os.path.join(SOURCE, "docs/operations.md")
GOLDEN = os.path.join(SOURCE, "tests/golden/0.1.0.tar.gz")
FAKETIME = glob.glob("/usr/lib/*/faketime/libfaketime.so.1")
DATA = "/var/lib/tenure"
TOOLS = ("apt", "systemctl", "journalctl")
DISK_MB = 48
SECTOR = 4096
# The mount points that the page writes to are this machine's own. The package's user is root, as whom the server
# runs: another one might not get at its program.
BEGIN = """
ip link set lo up
cp -a /etc %(top)s/etc
mount --bind %(top)s/etc /etc
for place in var/lib var/backups run; do mkdir -p %(top)s/$place; mount --bind %(top)s/$place /$place; done
mkdir %(top)s/disk
mount -t tmpfs -o size=%(size)dm tmpfs %(top)s/disk
mkdir /etc/cron.d /run/lock 2>/dev/null
sed -i /^tenure:/d /etc/passwd /etc/group
echo tenure:x:0:0::/:/usr/sbin/nologin >> /etc/passwd
echo tenure:x:0: >> /etc/group
echo up
exec sleep infinity
"""
LOAD = "for i in $(seq 20); do tenure --json alloc ports load/$i > /dev/null; done & load=$!\n"


def sections():
    """Command blocks of the runbook, by heading."""
    found, title = {}, ""
    runbook = text_of(PAGE).split("\n## Packages and images")[0]
    for heading, block in re.findall(r"(?ms)^##+ (.*?)$|^```sh\n(.*?)^```$", runbook):
        if heading:
            title = heading
        else:
            found.setdefault(title, []).append(block)
    return found


BLOCKS = sections()
(PRELUDE,) = BLOCKS.pop("Runbook")


@unittest.skipUnless(os.geteuid() == 0, "needs root: mounts")
class Runbook(unittest.TestCase):
    """One machine; each test continues where the one before it ended."""

    @classmethod
    def setUpClass(cls):
        assert FAKETIME, "install the package faketime"
        cls.top = tempfile.mkdtemp(prefix="tenure-operations-")
        cls.addClassCleanup(shutil.rmtree, cls.top)
        cls.machine = Machine(cls.top, "machine", real=True)
        os.mkdir(cls.machine.dir)
        os.mkdir(os.path.join(cls.top, "bin"))
        kit = os.path.join(SOURCE, "tests/e2e/machines.py")
        for name, line in [(tool, "/usr/bin/python3 %s %s" % (kit, tool)) for tool in TOOLS] + [
                (name, os.path.join(os.path.abspath(BUILD), name)) for name in ("tenure", "tenured")] + [
                ("apt-get", "/bin/true")]:
            path = os.path.join(cls.top, "bin", name)
            with open(path, "w", encoding="ascii") as file:
                file.write('#!/bin/sh\nexec %s "$@"\n' % line)
            os.chmod(path, 0o755)
        cls.holder = subprocess.Popen(["unshare", "--net", "--mount", "sh", "-c", BEGIN % {"top": cls.top, "size": DISK_MB}],
                                      stdout=subprocess.PIPE)
        cls.addClassCleanup(cls.end)
        assert cls.holder.stdout.readline() == b"up\n"
        cls.followed, cls.leases = set(), []

    @classmethod
    def end(cls):
        cls.machine.stop("tenured")
        cls.holder.kill()
        cls.holder.communicate()

    def paste(self, text):
        """Runs the commands and returns their output. Each must succeed."""
        inherited = {key: value for key, value in os.environ.items() if not key.startswith("TENURE_")}
        with tempfile.TemporaryFile("w+") as out:
            done = subprocess.run(
                ["timeout", str(PATIENCE), "nsenter", "-t", str(self.holder.pid), "--net", "--mount", "--wd=" + self.top,
                 "/bin/bash", "-e", "-o", "pipefail", "-c", PRELUDE + text],
                stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.STDOUT, check=False, timeout=2 * PATIENCE,
                env=dict(inherited, MACHINES=self.top, MACHINE="machine", MACHINE_IS_REAL="yes",
                         TENURE_BUILD_DIR=os.path.abspath(BUILD), TENURE_SOURCE_DIR=SOURCE,
                         PATH=os.path.join(self.top, "bin") + ":" + os.environ["PATH"]))
            out.seek(0)
            said = out.read()
        log = text_of(self.machine.log("tenured"))[-2000:] if os.path.exists(self.machine.log("tenured")) else ""
        self.assertEqual(done.returncode, 0, "\n".join((text, said, log)))
        return said

    def follow(self, title, first=0, last=None):
        """Does what this section tells an operator to do, and checks the output."""
        self.followed.add(title)
        return "".join(self.paste(block) for block in BLOCKS[title][first:last])

    def alloc(self, count=1):
        for _ in range(count):
            got = json.loads(self.paste("tenure --json alloc ports h/%d" % len(self.leases)))
            self.leases.append((got["lease"], got["epoch"]))

    def intact(self):
        """The first and the last leases verify, and another one can be granted."""
        self.paste("\n".join("tenure verify %s %s" % lease for lease in {self.leases[0], *self.leases[-2:]}))
        self.alloc()

    def drop_in(self, *lines):
        """A drop-in of the unit for settings that only the test needs."""
        self.paste("mkdir -p /etc/systemd/system/tenured.service.d\ncat > /etc/systemd/system/tenured.service.d/test.conf <<end\n"
                   "[Service]\nEnvironment=TENURE_SEGMENT_BYTES=64K\n%s\nend\n" % "\n".join(lines))

    def clock(self, offset):
        self.drop_in("Environment=LD_PRELOAD=" + FAKETIME[0], "Environment=FAKETIME=" + offset,
                     "Environment=FAKETIME_DONT_FAKE_MONOTONIC=1",
                     "Environment=ASAN_OPTIONS=verify_asan_link_order=0")

    def said(self, text):
        return until(lambda: text in text_of(self.machine.log("tenured")), text)

    def test_01_install(self):
        self.drop_in()
        said = self.follow("Install")
        self.assertIn("active (running)", said)
        self.assertIn("PONG", said)
        self.paste("tenure pool create ports range 30000 39999 --lease 1h")
        self.alloc(3)

    def test_02_secure(self):
        said = self.follow("Secure")
        self.assertRegex(said, r"(?s)operator.*admin.*operator.*admin")
        self.assertIn("NOAUTH", self.paste("TENURE_SOCKET= tenure pool list 2>&1 || [ $? -eq 44 ]"))
        self.assertIn("0.0.0.0:7413", self.paste("cat /etc/tenure/tenured.conf"))
        self.intact()

    def test_03_monitor(self):
        said = self.follow("Monitor")
        self.assertIn("readyz check passed", said)
        self.assertRegex(said, r"(?m)^\d{3}$")
        self.assertIn("ports", said)

    def test_04_back_up_under_load(self):
        first, *rest = BLOCKS["Back up"]
        self.followed.add("Back up")
        self.assertRegex(self.paste(LOAD + first + "wait $load\n"), r"(?m)^ok$")
        for block in rest:
            self.paste(block)
        self.assertIn("backup /var/backups/tenure", self.paste("cat /etc/cron.d/tenure-backup"))

    def test_05_restore(self):
        self.paste("tenure backup /var/backups/tenure")
        said = self.follow("Restore", 0, 1)
        self.assertIn("ports", said)
        self.said("event=sensors_off")
        self.intact()
        self.assertFalse(self.leases[-1][0].startswith("0-"), self.leases)
        self.follow("Restore", 1)
        self.intact()

    def test_06_upgrade_of_data_of_an_earlier_version(self):
        with tarfile.open(GOLDEN) as tar:
            tar.extractall(os.path.join(self.top, "golden"))
        self.paste("systemctl stop tenured; mv %s /var/lib/aside; cp -a %s/golden/data %s" % (DATA, self.top, DATA))
        self.drop_in("Environment=TENURE_SENSORS=off", "Environment=TENURE_MAX_DOWNTIME_DAYS=36500")
        self.paste("systemctl start tenured")
        said = self.follow("Upgrade")
        self.assertIn("tenured ", said)
        self.assertIn("devices", said)
        self.paste("systemctl stop tenured; rm -rf %s /var/backups/tenure; mv /var/lib/aside %s" % (DATA, DATA))
        self.drop_in()
        self.paste("systemctl start tenured\ntenure backup /var/backups/tenure")
        self.intact()

    def test_07_the_disk_is_full(self):
        """Before, its data moves to the small disk, which another file fills."""
        self.paste("systemctl stop tenured; cp -a %s/. %s/disk/; mount --bind %s/disk %s; systemctl start tenured"
                   % (DATA, self.top, self.top, DATA))
        self.paste("dd if=/dev/zero of=%s/disk/movie bs=64K || true" % self.top)
        refused = """for i in $(seq 1000); do
            tenure alloc ports full/$i > /dev/null 2> why || { code=$?; cat why; exit $((code != 42)); }
        done; exit 1"""
        self.assertIn("NOSPACE", self.paste(refused))
        self.said("event=disk_full")
        self.assertIn("100%", self.follow("The disk is full", 0, 1))
        self.follow("The disk is full", 1, 2)
        self.paste("rm %s/disk/movie" % self.top)
        said = self.follow("The disk is full", 2)
        self.assertIn("overdue_seconds:0", said)
        self.said("event=disk_has_space")
        self.intact()

    def damage(self, pattern, offset):
        """Damages some bytes of the newest of these files."""
        self.paste("systemctl stop tenured")
        path = self.paste("ls -t %s/%s | head -n 1" % (DATA, pattern)).strip()
        self.paste("printf XXXXXXXX | dd of=%s bs=1 seek=%d conv=notrunc 2>&1" % (path, offset))
        self.paste("systemctl start tenured || true")

    def test_08_a_damaged_snapshot(self):
        self.paste("tenure snapshot")
        self.intact()
        self.damage("snapshot-*.snap", 5000)
        said = self.follow("The log is damaged", 0, 1)
        self.assertRegex(said, "event=refused .*snapshot")
        self.assertIn("ports", self.follow("The log is damaged", 1))
        self.intact()

    def damage_log(self):
        """Damages some bytes of a command that others follow, in each file that is long enough."""
        for path in glob.glob("/proc/%d/root%s/*.log" % (self.holder.pid, DATA)):
            with open(path, "r+b") as file:
                text = file.read()
                used = [at for at in range(SECTOR, len(text), SECTOR) if any(text[at:at + SECTOR])]
                if len(used) > 3:
                    file.seek(used[-3] + 40)
                    file.write(b"XXXXXXXX")

    def test_09_a_damaged_log(self):
        self.paste("tenure backup /var/backups/tenure")
        kept = len(self.leases)
        self.alloc(5)
        self.machine.stop("tenured", signal.SIGKILL)
        del self.leases[kept:]  # they came after the backup
        self.damage_log()
        self.paste("systemctl start tenured || true")
        self.assertRegex(self.follow("The log is damaged", 0, 1), r"event=refused .*\.log")
        self.paste("umount %s" % DATA)  # the lost disk
        self.assertIn("ports", self.follow("Restore", 0, 1))
        self.intact()

    def test_10_the_clock_has_jumped(self):
        self.paste("systemctl stop tenured")
        self.clock("+60d")
        self.paste("systemctl start tenured || true")
        said = self.follow("The clock has jumped")
        self.assertIn("max_downtime", said)
        self.assertIn("log_ahead_seconds:0", said)
        self.drop_in()
        self.paste("systemctl restart tenured")
        self.said("event=clock_ahead")
        self.alloc()

    def test_11_the_certificate_expires(self):
        before = self.paste("tenure info | grep tls_certificate_expiry; cat /etc/tenure/tls/server.pem")
        self.follow("The certificate expires")
        until(lambda: text_of(self.machine.log("tenured")).rstrip().rpartition("event=reloaded")[2].count("tls_loaded"), "it is used")
        self.assertNotEqual(self.paste("tenure info | grep tls_certificate_expiry; cat /etc/tenure/tls/server.pem"), before)
        self.paste("TENURE_USER=operator TENURE_SECRET_FILE=/etc/tenure/operator.secret tenure --url tenures://localhost:7413 "
                   "--ca /etc/tenure/tls/ca.pem whoami")

    def test_12_every_section_was_followed(self):
        self.assertEqual(set(BLOCKS), self.followed)

    def test_13_each_block_says_what_it_is(self):
        """A block that no test runs could be wrong."""
        runbook = text_of(PAGE).split("\n## Packages and images")[0]
        self.assertEqual(re.findall(r"(?m)^```(?!sh$|text$|$).*", runbook), [])
        outside = re.sub(r"(?ms)^```.*?^```$", "", runbook)
        self.assertEqual(re.findall(r"(?m)^(?:    |\t)\S.*", outside), [])


if __name__ == "__main__":
    unittest.main(failfast=True)
