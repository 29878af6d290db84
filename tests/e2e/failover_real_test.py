#!/usr/bin/env python3
"""Clients over real fail-overs: etcd, three nodes, and an owner that is killed with -9. The clients are used as
in users' programs, and know the addresses of all nodes."""
import json
import os
import signal
import subprocess
import threading
import unittest

import redis
from redis.sentinel import Sentinel

from cluster import Cluster
from harness import BUILD, PATIENCE, pairs, until
from pyclient import tenure

SOURCE = os.environ.get("TENURE_SOURCE_DIR", ".")
NOT_NOW = (redis.ConnectionError, redis.TimeoutError, redis.exceptions.ReadOnlyError)


class Case(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.cluster = Cluster(["a", "b", "c"])
        cls.addClassCleanup(cls.cluster.remove)
        cls.url = "tenure://" + ",".join("127.0.0.1:%d" % node.port for node in cls.cluster.nodes)

    def setUp(self):
        with tenure.Client(self.url, retry_seconds=PATIENCE) as client:
            self.pool = "p-" + self.id().rpartition(".")[2].replace("_", "-")
            client.pool_create(self.pool, range=(1, 100), lease=600)

    def kill_owner(self):
        """The owner dies; another node owns the log; the dead one comes back as a standby."""
        owner = self.cluster.owner()
        owner.stop(signal.SIGKILL)
        new = self.cluster.owner()
        self.assertIsNot(new, owner)
        owner.start()
        until(lambda: owner.role() == "slave", "the dead owner to come back")
        return new


class Python(Case):
    def test_the_client_of_ours(self):
        with tenure.Client(self.url, retry_seconds=PATIENCE) as client:
            with client.hold(self.pool, "held", ttl=30) as held:
                for turn in range(3):
                    grant = client.alloc(self.pool, "h%d" % turn, opid="op-%d" % turn)
                    self.kill_owner()
                    again = client.alloc(self.pool, "h%d" % turn, opid="op-%d" % turn)
                    self.assertEqual((again.lease, again.replayed), (grant.lease, True))
                self.assertFalse(held.lost)
                self.assertEqual(client.pool_info(self.pool).active, 4)

    def test_redis_py_by_sentinel(self):
        sentinel = Sentinel([("127.0.0.1", n.port) for n in self.cluster.nodes], decode_responses=True)
        master = sentinel.master_for("tenure")
        self.addCleanup(master.close)

        def alloc(turn):
            """While there is no owner, only connection errors occur."""
            try:
                return pairs(master.execute_command("ALLOC", self.pool, "h%d" % turn, "OPID", "py-%d" % turn))
            except NOT_NOW:
                return None
        for turn in range(3):
            first = until(lambda: alloc(turn), "an allocation")
            self.kill_owner()
            again = until(lambda: alloc(turn), "the same allocation")
            self.assertEqual(again["lease"], first["lease"])
        self.assertEqual(pairs(master.execute_command("POOL", "INFO", self.pool))["active"], 3)

    def test_events_are_followed_without_a_gap(self):
        with tenure.Client(self.url, retry_seconds=PATIENCE) as client, client.follow(pool=self.pool) as events:
            leases = []
            for turn in range(3):
                leases.append(client.alloc(self.pool, "h%d" % turn).lease)
                self.kill_owner()
            self.assertEqual([events.get(PATIENCE).lease for _ in leases], leases)


class CommandLine(Case):
    def run_cli(self, *words):
        out = subprocess.run([os.path.join(BUILD, "tenure"), "--url", self.url, *words], text=True, timeout=PATIENCE,
                             stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=False)
        self.assertEqual(out.returncode, 0, out)
        return out.stdout

    def test_it_waits_for_the_next_owner(self):
        first = json.loads(self.run_cli("--opid", "cli-1", "--json", "alloc", self.pool, "h"))
        owner = self.cluster.owner()
        owner.stop(signal.SIGKILL)
        again = json.loads(self.run_cli("--opid", "cli-1", "--json", "alloc", self.pool, "h"))  # at once
        self.assertEqual((again["lease"], again["replayed"]), (first["lease"], True))
        owner.start()
        until(lambda: owner.role() == "slave", "the dead owner to come back")

    def test_status_and_step_down(self):
        owner = self.cluster.owner()
        status = json.loads(self.run_cli("--json", "cluster", "status"))["nodes"]
        self.assertEqual({n["name"]: n["role"] for n in status},
                         {n.name: "owner" if n is owner else "follower" for n in self.cluster.nodes})
        self.run_cli("cluster", "step-down")
        self.assertIsNot(until(lambda: self.cluster.owner() is not owner and self.cluster.owner(), "another owner"),
                         owner)
        self.assertEqual(owner.role(), "slave")


class Leaving(unittest.TestCase):
    def test_a_node_is_forgotten_and_the_cluster_closed(self):
        cluster = Cluster(["a", "b"])
        self.addCleanup(cluster.remove)
        url = "tenure://" + ",".join("127.0.0.1:%d" % node.port for node in cluster.nodes)

        def run(*words, code=0):
            out = subprocess.run([os.path.join(BUILD, "tenure"), "--url", url, "--json", *words], text=True,
                                 timeout=PATIENCE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=False)
            self.assertEqual(out.returncode, code, out)
            return json.loads(out.stdout)
        run("pool", "create", "p", "--range", "1", "9")
        lease = run("alloc", "p", "h")["lease"]
        self.assertEqual(run("cluster", "forget", "x", code=11)["detail"], "there is no node 'x'")

        def names():
            return [n["name"] for n in run("cluster", "status")["nodes"]]
        until(lambda: names() == ["a", "b"], "b has registered itself")
        cluster.nodes[1].stop()
        run("cluster", "forget", "b")
        until(lambda: names() == ["a"], "b is forgotten")
        run("cluster", "close")
        until(lambda: cluster.nodes[0].role() == "slave", "the node that was the owner to have given the log up")
        cluster.nodes[0].stop()
        cluster.nodes[0].flags = ()  # alone
        cluster.nodes[0].start()
        with cluster.nodes[0].client() as client:
            self.assertEqual(pairs(client.execute_command("LEASE", lease))["holder"], "h")
            self.assertEqual(pairs(client.execute_command("ALLOC", "p", "h2"))["values"], ["2"])


class Node(Case):
    def fail_over(self, library):
        modules = subprocess.run([os.path.join(SOURCE, "tools/npm.sh")], stdout=subprocess.PIPE, text=True,
                                 timeout=600, check=True).stdout.strip()
        process = subprocess.Popen(
            ["node", os.path.join(SOURCE, "tests/e2e/failover_test.mjs"), modules, library, self.pool,
             *(str(n.port) for n in self.cluster.nodes)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.addCleanup(process.stdout.close)
        self.addCleanup(process.stdin.close)
        self.addCleanup(process.kill)
        watchdog = threading.Timer(PATIENCE, process.kill)
        watchdog.start()
        said = []
        for line in process.stdout:
            said.append(line.strip())
            if said[-1].startswith("lead "):
                self.cluster.etcd.process.send_signal(signal.SIGCONT)
                self.kill_owner()
            elif said[-1] == "lost":
                self.cluster.etcd.process.send_signal(signal.SIGSTOP)
            else:
                continue
            process.stdin.write("done\n")
            process.stdin.flush()
        watchdog.cancel()
        self.assertEqual((process.wait(PATIENCE), said[-1:]), (0, ["passed"]), said)

    def test_ioredis(self):
        self.fail_over("ioredis")

    def test_node_redis(self):
        self.fail_over("redis")


if __name__ == "__main__":
    unittest.main()
