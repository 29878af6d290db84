#!/usr/bin/env python3
"""The ready-made pools of the example configuration under many clients at once: no client gets a value of
another one, however they race, and the last value of a pool is found without guessing."""
import os
import threading
import unittest

import redis

from harness import Case, pairs, until

CLIENTS = 64
EACH = 25
EXAMPLE = os.path.join(os.environ.get("TENURE_SOURCE_DIR", "."), "packaging/tenured.conf.example")


class Pools(Case):
    flags = ("--config", EXAMPLE)

    def together(self, work):
        """`work(client, n)` on 64 connections that begin at the same time; what they returned."""
        start = threading.Barrier(CLIENTS)
        results, failures = [None] * CLIENTS, []

        def one(n):
            client = self.server.client()
            try:
                client.ping()
                start.wait()
                results[n] = work(client, n)
            except Exception as failure:  # told by the one who waits for all
                failures.append(failure)
            finally:
                client.close()
        threads = [threading.Thread(target=one, args=(n,)) for n in range(CLIENTS)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(failures, [])
        return results

    def leases_of(self, holder):
        found, cursor = [], 0
        while True:
            page = pairs(self.do("LEASES", "HOLDER", holder, "CURSOR", cursor))
            found += page["leases"]
            cursor = page["cursor"]
            if cursor == 0:
                return found

    def allocate(self, pool, count=EACH):
        """The values that 64 owners got, each allocated as a caller does: one at a time."""
        def work(client, n):
            got = []
            for i in range(count):
                reply = pairs(client.execute_command("ALLOC", pool, "instance/%d-%d" % (n, i)))
                got += reply["values"]
            return got
        return [value for got in self.together(work) for value in got]

    def check(self, pool, inside):
        values = self.allocate(pool)
        self.assertEqual(len(values), CLIENTS * EACH)
        self.assertEqual(len(set(values)), len(values))
        for value in values:
            self.assertTrue(inside(value), value)
        info = pairs(self.do("POOL", "INFO", pool))
        self.assertEqual(info["active"], CLIENTS * EACH)

    def test_network_identifiers(self):
        self.check("vxlan", lambda value: 1 <= int(value) <= 16777215)

    def test_console_ports_of_one_node(self):
        self.check("console-ports@sf-1", lambda value: 30000 <= int(value) < 30000 + CLIENTS * EACH)

    def test_each_node_has_ports_of_its_own(self):
        def work(client, n):
            return n % 8, pairs(client.execute_command("ALLOC", "console-ports@node%d" % (n % 8),
                                                       "instance/%d" % n))["values"][0]
        got = self.together(work)
        self.assertEqual(len(set(got)), CLIENTS)
        self.assertEqual({port for _, port in got}, {str(30000 + i) for i in range(CLIENTS // 8)})

    def test_vsock_contexts_without_a_lock(self):
        self.check("vsock-cid", lambda value: 3 <= int(value) <= 4294967294)

    def test_mac_addresses(self):
        self.check("mac", lambda value: value.startswith("52:54:") and len(value) == 17)

    def test_addresses_are_given_out_to_the_last_one_and_none_twice(self):
        """A range so small that a generator of random addresses would collide all the time: the 64
        race for 1024 of them until there are none."""
        self.do("POOL", "CREATE", "mac-few", "RANGE", "52:54:00:00:00:00", "52:54:00:00:03:ff",
                "STRATEGY", "random", "FORMAT", "mac")

        def work(client, n):
            got = []
            while True:
                try:
                    got += pairs(client.execute_command("ALLOC", "mac-few", "nic/%d" % n))["values"]
                except redis.ResponseError as refusal:
                    self.assertTrue(str(refusal).startswith("EXHAUSTED"), refusal)
                    return got
        values = [value for got in self.together(work) for value in got]
        self.assertEqual(sorted(values),
                         ["52:54:00:00:%02x:%02x" % (i // 256, i % 256) for i in range(1024)])
        self.assertNotEqual(values[:10], sorted(values)[:10])

    def test_one_address_asked_for_by_all_is_given_to_one(self):
        def work(client, n):
            try:
                client.execute_command("ALLOC", "mac", "race/%d" % n, "VALUES", 1, "52:54:ff:00:00:01")
                return True
            except redis.ResponseError as refusal:
                self.assertTrue(str(refusal).startswith("BUSY"), refusal)
                return False
        self.assertEqual(sum(self.together(work)), 1)

    def test_what_is_deleted_for_good_gives_everything_back(self):
        """hard_delete(): one command releases everything that the owner holds, in all pools."""
        owner = "instance/deleted"
        for pool in ("vxlan", "console-ports@sf-9", "vsock-cid", "mac"):
            self.do("ALLOC", pool, owner, "COUNT", 2)
        self.do("ALLOC", owner, "FROM", "vxlan", "COUNT", 1, "FROM", "mac", "COUNT", 1)
        other = pairs(self.do("ALLOC", "vxlan", "instance/other"))["lease"]
        leases = self.leases_of(owner)
        self.assertEqual(len(leases), 5)
        self.do("DISOWN", owner)
        until(lambda: not self.leases_of(owner), "the disown is done")
        for lease in leases:
            self.assertEqual(pairs(self.do("LEASE", pairs(lease)["lease"]))["state"], "released")
        self.assertEqual(pairs(self.do("LEASE", other))["state"], "active")
        self.assertEqual(self.refused("NOTFOUND", "LEASE", "console-ports@sf-9/30000")[:8], "NOTFOUND")


if __name__ == "__main__":
    unittest.main()
