#!/usr/bin/env python3
"""clients/python/tenure.py and the command line with the addresses of several nodes: they find the owner of
the log and switch to the next one, with the same operation ids."""
import json
import os
import subprocess
import threading
import unittest

from fakecluster import FakeCluster
from harness import BUILD, PATIENCE, reserve, port_of, until
from pyclient import tenure


class Case(unittest.TestCase):
    def setUp(self):
        self.cluster = FakeCluster()
        self.addCleanup(self.cluster.remove)
        self.nodes = self.cluster.nodes
        self.do = self.cluster.do
        with tenure.Client(self.nodes[0].address) as client:
            client.pool_create("p", range=(1, 100), lease=600)
        self.do("sync")

    def lead(self, n):
        self.do("lead", n)
        until(lambda: self.nodes[n].role() == "master", "node %d is the master" % n)

    def url(self, *order):
        return "tenure://" + ",".join(self.nodes[n].address for n in order or (0, 1, 2))


class Python(Case):
    def client(self, *order, **options):
        client = tenure.Client(self.url(*order), **{"retry_seconds": PATIENCE, **options})
        self.addCleanup(client.close)
        return client

    def test_it_starts_at_any_node_and_goes_where_the_owner_goes(self):
        for order in ((0, 1, 2), (2, 1, 0), (1,)):  # a single follower names the owner, too
            client = self.client(*order)
            client.alloc("p", "a%d" % order[0])
            self.assertEqual(client.pool_info("p").name, "p")
        client = self.client()
        for turn in range(6):
            client.alloc("p", "h%d" % turn)
            self.lead((turn + 1) % 3)
        self.assertEqual(client.pool_info("p").active, 9)

    def test_an_address_where_nothing_listens_is_passed_over(self):
        with reserve() as gone:
            client = tenure.Client("tenure://127.0.0.1:%d,%s" % (port_of(gone), self.nodes[1].address))
            self.addCleanup(client.close)
            self.assertEqual(client.alloc("p", "h").epoch, 1)
            with client.connection() as mine:
                self.assertEqual(mine.ping(), "PONG")

    def test_a_write_in_doubt_is_resolved_by_the_next_owner(self):
        client = self.client()
        client.ping()
        self.do("doubt")
        grants = []
        thread = threading.Thread(target=lambda: grants.append(client.alloc("p", "h", count=2)))
        thread.start()
        until(lambda: self.nodes[0].role() == "slave", "the owner has lost the log")
        self.lead(1)
        thread.join(PATIENCE)
        self.assertEqual(grants[0].values, ("1", "2"))
        self.assertEqual(client.pool_info("p").active, 2)

    def test_without_an_owner_it_says_so_in_time(self):
        client = self.client(retry_seconds=0.2)
        self.do("lost")
        self.assertRaises(tenure.MasterDown, client.alloc, "p", "h")
        self.assertRaises(tenure.MasterDown, client.pool_info, "p")

    def test_a_pipeline_goes_on_at_the_new_owner(self):
        client = self.client()
        client.ping()
        self.lead(1)
        answers = client.pipeline([["ALLOC", "p", "h%d" % i] for i in range(50)])
        self.assertEqual([a["values"] for a in answers], [[str(i + 1)] for i in range(50)])

    def test_a_held_lease_is_kept_across_owners(self):
        client = self.client()
        client.pool_create("short", range=(1, 9), lease=3)
        with client.hold("short", "h") as held:
            first = client.lease(held.grant.lease).last_seen
            self.lead(1)
            until(lambda: client.lease(held.grant.lease).last_seen > first, "a renewal by the new owner")
            self.lead(2)
            second = client.lease(held.grant.lease).last_seen
            until(lambda: client.lease(held.grant.lease).last_seen > second, "another one")
            self.assertFalse(held.lost)

    def test_events_go_on_from_another_node(self):
        client = self.client()
        with client.follow(after="0") as events:
            kinds = [events.get(PATIENCE).kind]
            client.alloc("p", "h1")
            self.lead(1)
            client.alloc("p", "h2")
            self.do("sync")
            while len(kinds) < 3:
                kinds.append(events.get(PATIENCE).kind)
        self.assertEqual([k for k in kinds][-2:], ["lease.active"] * 2)


class CommandLine(Case):
    def run_cli(self, *words, url=None, code=0, env=()):
        out = subprocess.run([os.path.join(BUILD, "tenure"), *words], text=True, timeout=PATIENCE, check=False,
                             stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                             env={**os.environ, "TENURE_URL": url or self.url(), **dict(env)})
        self.assertEqual(out.returncode, code, out)
        return out

    def test_it_finds_the_owner_from_any_node(self):
        for order in ((0, 1, 2), (2, 1, 0), (1, 2)):
            self.run_cli("alloc", "p", "h%d" % order[0], url=self.url(*order))
        self.lead(1)
        self.run_cli("--url", self.url(0, 1), "alloc", "p", "h9", url="tenure://127.0.0.1:1")
        out = self.run_cli("pool", "info", "p", "--json")
        self.assertEqual(json.loads(out.stdout)["active"], "4")

    def test_one_follower_names_the_owner(self):
        out = self.run_cli("alloc", "p", "h", "--json", url=self.url(1))
        self.assertEqual(json.loads(out.stdout)["values"], ["1"])
        out = self.run_cli("role", "--json", url=self.url(1))
        self.assertEqual(json.loads(out.stdout)[0], "slave")

    def test_an_address_where_nothing_listens_is_passed_over(self):
        with reserve() as gone:
            self.run_cli("alloc", "p", "h", url="tenure://127.0.0.1:%d,%s" % (port_of(gone), self.nodes[2].address))
            out = self.run_cli("alloc", "p", "h", "--timeout", "1", code=3,
                               url="tenure://127.0.0.1:%d,127.0.0.1:%d" % (port_of(gone), port_of(gone)))
            self.assertIn("no node answers", out.stderr)

    def test_without_an_owner_it_says_so(self):
        self.do("lost")
        out = self.run_cli("alloc", "p", "h", "--timeout", "1", code=49)
        self.assertIn("no node owns the log", out.stderr)
        self.assertIn(self.nodes[1].address + ": follows, and knows of no owner", out.stderr)
        status = json.loads(self.run_cli("cluster", "status", "--json").stdout)
        self.assertEqual([n["role"] for n in status["nodes"]], ["follower"] * 3)

    def test_a_write_in_doubt_is_resolved_by_the_next_owner(self):
        self.do("doubt")
        outs = []
        thread = threading.Thread(target=lambda: outs.append(self.run_cli("alloc", "p", "h", "--json")))
        thread.start()
        until(lambda: self.nodes[0].role() == "slave", "the owner has lost the log")
        self.lead(1)
        thread.join(PATIENCE)
        done = json.loads(outs[0].stdout)
        self.assertEqual((done["values"], done["replayed"]), (["1"], True))

    def test_bad_urls(self):
        for url in ("tenure://a:7411,,b", "tenure://a:x,b", "a,b:70000", ",".join("h%d" % i for i in range(17))):
            out = self.run_cli("ping", url=url, code=2)
            self.assertIn("TENURE_URL", out.stderr)

    def test_cluster(self):
        out = self.run_cli("cluster", "status").stdout.splitlines()
        self.assertEqual(out[0].split()[:4], ["NODE", "ROLE", "ADDRESS", "HTTP"])
        self.assertEqual(out[1].split()[:3], ["node0", "owner", self.nodes[0].address])
        self.assertEqual(out[2].split()[:2], ["node1", "follower"])
        self.run_cli("cluster", "step-down")
        until(lambda: self.nodes[0].role() == "slave", "the owner has stepped down")
        self.lead(2)
        self.assertEqual(self.run_cli("cluster", "status", url=self.url(1)).stdout.splitlines()[3].split()[:2],
                         ["node2", "owner"])
        self.run_cli("cluster", "forget", "node9")
        out = self.run_cli("cluster", "forget", "nodeX", code=11)
        self.assertIn("there is no node 'nodeX'", out.stderr)
        for words in (["cluster"], ["cluster", "nonsense"], ["cluster", "forget"], ["cluster", "status", "x"]):
            self.assertIn("usage: tenure cluster", self.run_cli(*words, code=2).stderr)


if __name__ == "__main__":
    unittest.main()
