#!/usr/bin/env python3
"""clients/python/tenure.py and the command line with the addresses of several nodes: they find the owner of
the log and go over to the next one, with the same operation ids."""
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
        c = self.nodes[n].client()
        self.addCleanup(c.close)
        until(lambda: c.execute_command("ROLE")[0] == "master", "node %d is the master" % n)

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
        c = self.nodes[0].client()
        self.addCleanup(c.close)
        until(lambda: c.execute_command("ROLE")[0] == "slave", "the owner has lost the log")
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


if __name__ == "__main__":
    unittest.main()
