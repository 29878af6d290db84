#!/usr/bin/env python3
"""The commands of docs/cluster.md, pasted unchanged: the cluster on one machine, then the three machines of
packaging/cluster with their units, and every situation of the runbook, in the order of the page. Only addresses
differ (127.x.y.N for 10.0.0.N), and what `ssh` and `systemctl` do (machines.py)."""
import json
import os
import re
import signal
import unittest

from harness import text_of, until
from machines import SOURCE, Machines

PAGE = os.path.join(SOURCE, "docs/cluster.md")


def sections():
    """Command blocks by heading."""
    found, title = {}, ""
    for heading, block in re.findall(r"(?ms)^##+ (.*?)$|^```sh\n(.*?)^```$", text_of(PAGE)):
        if heading:
            title = heading
        else:
            found.setdefault(title, []).append(block)
    return found


BLOCKS = sections()
HERE = BLOCKS.pop("Start one on this machine")
PRELUDE, *PREPARE = BLOCKS.pop("Three machines")


ALONE = """
[server]
listen = %s:7411
http = %s:7412
[pool ports]
range = 30000 39999
lease = 15m
"""


# Longer than the default where a busy machine must not change the owner.
TTL = "4"
# What a newcomer does in the end, as the page says.
LEAVE = "kill %1 %3 %4\nwait\ntrap - EXIT\n"
# As etcd's manual says, on each machine.
PUT_BACK = """
for node in a:10.0.0.1 b:10.0.0.2 c:10.0.0.3; do
    name=${node%:*} host=${node#*:}
    scp old.db "root@$host:/root/old.db"
    ssh "root@$host" "rm -rf /var/lib/etcd/default; export ETCDCTL_API=3; . /etc/default/etcd
        etcdctl snapshot restore /root/old.db --name $name --data-dir /var/lib/etcd/default \\
            --initial-cluster \$ETCD_INITIAL_CLUSTER --initial-cluster-token tenure \\
            --initial-advertise-peer-urls http://$host:2380 && systemctl start --no-block etcd"
done
"""


class Newcomer(unittest.TestCase):
    def test_a_cluster_on_this_machine(self):
        """One shell with jobs, as at a terminal."""
        machines = Machines(0)
        self.addCleanup(machines.remove)
        text = "".join(HERE).replace("127.0.0.1", machines.net + "1")
        peer = "http://%s1:2380" % machines.net
        said = machines.paste("set -m\ntrap 'kill $(jobs -p)' EXIT\n" + text + LEAVE, TENURE_HOST=machines.net + "1",
                              ETCD_LISTEN_PEER_URLS=peer, ETCD_INITIAL_ADVERTISE_PEER_URLS=peer,
                              ETCD_INITIAL_CLUSTER="default=" + peer)
        for wanted in (r"\b30000\b", r"\b30001\b", r"(?m)^a +follower", r"(?m)^b +owner"):
            self.assertRegex(said, wanted)

    def test_each_block_says_what_it_is(self):
        """A block that no test runs could be wrong."""
        text = text_of(PAGE)
        self.assertEqual(re.findall(r"(?m)^```(?!sh$|$).*", text), [])
        outside = re.sub(r"(?ms)^```.*?^```$", "", text)
        self.assertEqual(re.findall(r"(?m)^(?:    |\t)\S.*", outside), [])


class Runbook(unittest.TestCase):
    """One cluster; each test continues where the one before it ended."""

    @classmethod
    def setUpClass(cls):
        cls.machines = Machines(4)
        cls.addClassCleanup(cls.machines.remove)
        cls.leases, cls.followed = [], set()
        # What fills etcd shall not take long.
        cls.machines.paste("sed -i 's/^.cluster.$/&\\nleader_ttl = %s/' packaging/cluster/tenured.conf" % TTL)
        cls.machines.paste("sed -i 's/BYTES=.*/BYTES=16777216/' packaging/cluster/?/etcd")

    def paste(self, text):
        return self.machines.paste(PRELUDE + text)

    def follow(self, title):
        """Does what this section tells an operator to do, and checks the output."""
        self.followed.add(title)
        return "".join(self.paste(block) for block in BLOCKS[title])

    def orphaned(self):
        """The nodes answer, and none of them owns the log."""
        return "no node owns the log" in self.paste("tenure --timeout 1s pool info ports 2>&1 || true")

    def status(self):
        nodes = json.loads(self.paste("tenure --json cluster status"))["nodes"]
        return {node["name"]: node["role"] for node in nodes}

    def alloc(self, count=1, *flags):
        for _ in range(count):
            holder = "h/%d" % len(self.leases)
            got = json.loads(self.paste("tenure --json %s alloc ports %s" % (" ".join(flags), holder)))
            self.leases.append((got["lease"], got["epoch"]))

    def intact(self):
        """All leases are there, the last one verifies, and another one can be granted."""
        found = json.loads(self.paste("tenure --json leases"))["leases"]
        self.assertLessEqual(set(self.leases), {(row["lease"], row["epoch"]) for row in found})
        self.paste("tenure verify %s %s" % self.leases[-1])
        self.alloc()

    def run_alone(self, machine):
        with open(machine.at("/etc/tenure/tenured.conf"), "w", encoding="utf-8") as file:
            file.write(ALONE % (machine.address, machine.address))
        self.paste("ssh root@%s systemctl start tenured" % machine.address)

    def roles(self, **wanted):
        until(lambda: self.status() == wanted, wanted)

    def test_01_files_for_a_node_that_ran_alone(self):
        machine = self.machines.all[0]
        self.run_alone(machine)
        self.alloc(3, "--socket", machine.at("/var/lib/tenure/tenure.sock"))
        for block in PREPARE:
            self.paste(block)
        self.assertFalse(machine.pid("tenured"))

    def test_02_in(self):
        self.follow("Turn a single node into a cluster")
        self.roles(a="owner", b="follower", c="follower")
        self.intact()

    def test_03_rolling_upgrade(self):
        self.paste("touch tenure_1.0_amd64.deb")
        self.follow("Rolling upgrade and restart")
        self.assertEqual(self.status()["a"], "follower")
        self.intact()

    def test_04_backup_and_restore(self):
        self.follow("Backup, and restoring a cluster from it")
        self.roles(a="owner", b="follower", c="follower")
        self.assertTrue(self.leases[0][0].startswith("0-"), self.leases)
        self.intact()
        self.assertFalse(self.leases[-1][0].startswith("0-"), self.leases)  # the next generation

    def test_05_a_node_is_added_and_replaced(self):
        self.run_alone(self.machines.all[3])  # the package has started it
        self.follow("Adding a node")
        self.roles(a="owner", b="follower", c="follower", d="follower")
        self.follow("Replacing a node")
        self.roles(a="owner", b="follower", c="follower")
        self.intact()

    def test_06_a_disk_is_lost(self):
        self.follow("The disk of one node is lost")
        self.roles(a="owner", b="follower", c="follower")
        self.intact()

    def test_07_quorum_lost(self):
        for number in (0, 1):
            self.machines.all[number].stop("etcd", signal.SIGKILL)
        until(self.orphaned, "no owner")
        self.follow("Quorum of etcd lost")
        self.intact()

    def test_08_etcd_full(self):
        fill = """for i in $(seq 100); do
            head -c 1000000 /dev/urandom | base64 -w 0 | etcdctl put /another-program/$i || exit 0
        done"""
        self.assertIn("database space exceeded", self.paste(fill))
        until(self.orphaned, "no owner")
        until(lambda: all(self.machines.said(i, "etcd has the alarm NOSPACE") for i in range(3)), "the nodes say so")
        self.assertIn("NOSPACE", self.follow("etcd is full"))
        self.intact()

    def test_09_etcd_put_back(self):
        self.paste("ETCDCTL_ENDPOINTS=http://10.0.0.1:2379 etcdctl snapshot save old.db")
        self.intact()
        self.paste("for host in $hosts; do ssh root@$host systemctl stop etcd; done")
        self.paste(PUT_BACK)
        until(lambda: all(self.machines.said(i, "put back") for i in range(3)), "the nodes notice")
        until(self.orphaned, "no owner")
        self.follow("etcd was put back to an older state")
        self.intact()

    def test_10_etcd_lost(self):
        self.follow("etcd is lost")
        self.intact()

    def test_11_out(self):
        said = self.follow("Close the cluster")
        self.assertIn("ports", said)
        running = [machine for machine in self.machines.all if machine.pid("tenured")]
        self.assertEqual(len(running), 1)
        self.paste("\n".join("tenure --url tenure://%s:7411 verify %s %s" % (running[0].address, *lease)
                             for lease in self.leases))

    def test_12_every_section_was_followed(self):
        self.assertEqual(set(BLOCKS), self.followed)


if __name__ == "__main__":
    unittest.main(failfast=True)
