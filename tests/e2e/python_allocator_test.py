#!/usr/bin/env python3
"""IDAllocator of clients/python/tenure.py: what a program written for OpenSynaptic's own allocator
expects of it, on the real server."""
import inspect
import json
import os
import signal
import tempfile
import threading
import unittest

from harness import until
from pyclient import Case, Proxy, tenure

METRICS = {"base_lease_seconds": int, "effective_lease_seconds": int,
           "new_device_rate_per_hour": float, "ultra_rate_active": bool,
           "force_zero_lease_active": bool, "last_reclaim_count": int, "last_reclaim_at": int,
           "total_reclaimed": int, "allocated_count": int, "released_count": int,
           "updated_at": int}


class Allocating(Case):
    def setUp(self):
        self.number = getattr(type(self), "number", 0) + 1
        type(self).number = self.number

    def make(self, **options):
        options.setdefault("pool", "devices-%d" % self.number)
        allocator = tenure.IDAllocator(server=self.client, **options)
        self.addCleanup(allocator.close)
        return allocator

    def test_the_constructor_takes_what_the_original_takes(self):
        names = list(inspect.signature(tenure.IDAllocator).parameters)
        self.assertEqual(names[:7], ["base_dir", "start_id", "end_id", "persist_file",
                                     "max_released", "lease_policy", "metrics_sink"])
        os.environ["TENURE_URL"] = "tenure://" + self.address
        try:
            with tenure.IDAllocator(None, 1, 9, "data/x.json", 500, {}, None) as allocator:
                self.assertEqual((allocator.pool, allocator.allocate_id({"mac": "m"})),
                                 ("devices", 1))
        finally:
            del os.environ["TENURE_URL"]

    def test_a_device_that_returns_has_its_id_again(self):
        a = self.make()
        one = a.allocate_id(meta={"device_id": "DEV001"})
        two = a.allocate_id(meta={"device_id": "DEV002"})
        self.assertEqual((one, two), (1, 2))
        self.assertEqual(a.allocate_id({"device_id": "DEV001", "battery": 1}), one)
        self.assertTrue(a.release_id(one))
        self.assertEqual(self.client.lease("%s/%d" % (a.pool, one)).state, "offline")
        self.assertTrue(a.is_allocated(one))
        self.assertEqual(a.allocate_id({"device_id": "DEV003"}), 3)
        self.assertEqual(a.allocate_id({"device_id": "DEV001"}), one)
        self.assertEqual(self.client.lease("%s/%d" % (a.pool, one)).state, "active")

    def test_an_immediate_release_frees_the_id(self):
        a = self.make()
        one = a.allocate_id({"mac": "m1"})
        self.assertTrue(a.release_id(one, immediate=True))
        self.assertFalse(a.is_allocated(one))
        self.assertFalse(a.release_id(one))
        self.assertEqual(a.get_meta(one), {})
        self.assertFalse(a.touch(one, {"mac": "m1"}))
        self.assertEqual(a.allocate_id({"mac": "m2"}), one)

    def test_without_metadata_every_id_is_new(self):
        a = self.make()
        self.assertEqual([a.allocate_id(), a.allocate_id({}), a.allocate_id(None)], [1, 2, 3])

    def test_touch_renews_and_changes_metadata_but_not_whose_it_is(self):
        a = self.make()
        one = a.allocate_id({"serial": "s"})
        a.release_id(one)
        self.assertTrue(a.touch(aid=one, meta={"device_id": "other", "battery": 75}))
        self.assertEqual(a.get_meta(one), {"device_id": "other", "battery": 75})
        self.assertTrue(a.touch(one))
        self.assertEqual(a.get_meta(one), {"device_id": "other", "battery": 75})
        self.assertEqual(a.allocate_id({"serial": "s"}), one)
        self.assertNotEqual(a.allocate_id({"device_id": "other"}), one)

    def test_exhaustion_is_what_it_was(self):
        a = self.make(start_id=5, end_id=6)
        self.assertEqual((a.allocate_id({"mac": "1"}), a.allocate_id({"mac": "2"})), (5, 6))
        with self.assertRaises(RuntimeError) as caught:
            a.allocate_id({"mac": "3"})
        self.assertEqual(str(caught.exception), "[IDAllocator] ID pool exhausted (5-6)")
        self.assertIsInstance(caught.exception.__cause__, tenure.Exhausted)
        self.assertEqual(a.allocate_id({"mac": "2"}), 6)

    def test_a_pool_of_ids_is_all_or_nothing_and_released_one_by_one(self):
        a = self.make(start_id=1, end_id=10)
        gateway = {"device_id": "gateway"}
        ids = a.allocate_pool(count=4, meta=gateway)
        self.assertEqual(ids, [1, 2, 3, 4])
        holders = {self.client.lease("%s/%d" % (a.pool, i)).holder for i in ids}
        self.assertEqual(holders, {"device_id:gateway#x4"})
        self.assertEqual(a.allocate_pool(4, gateway), ids)
        self.assertTrue(a.release_id(2, immediate=True))
        self.assertFalse(a.release_id(2, immediate=True))
        self.assertFalse(a.touch(2))
        self.assertTrue(a.touch(3, {"device_id": "gateway", "battery": 7}))
        self.assertEqual(a.get_meta(3), {"device_id": "gateway", "battery": 7})
        self.assertEqual([a.is_allocated(i) for i in ids], [True, False, True, True])
        for count in (7, 12):
            with self.assertRaises(RuntimeError):
                a.allocate_pool(count, {"device_id": "too-large"})
        self.assertEqual([a.is_allocated(i) for i in range(1, 11)],
                         [True, False, True, True] + [False] * 6)
        self.assertEqual((a.allocate_pool(0), a.allocate_pool(-1)), ([], []))
        self.assertEqual(a.allocate_pool(4, gateway), ids)  # the device is back, with all of them
        self.assertEqual(a.release_pool([1, 2, 3, 4, 99], immediate=True), 4)
        self.assertEqual(len(set(a.allocate_pool(10))), 10)

    def test_a_refused_pool_of_ids_is_no_new_device(self):
        a = self.make(start_id=1, end_id=10)
        a.allocate_id({"device_id": "one"})
        rate = a.stats()["lease_metrics"]["new_device_rate_per_hour"]
        for number in range(5):
            with self.assertRaises(RuntimeError):
                a.allocate_pool(10, {"device_id": "many%d" % number})
        self.assertEqual(a.stats()["lease_metrics"]["new_device_rate_per_hour"], rate)

    def test_a_key_too_long_for_its_number_is_hashed(self):
        a = self.make()
        ids = a.allocate_pool(2, {"device_key": "k" * 128})
        self.assertEqual(a.allocate_pool(2, {"device_key": "k" * 128}), ids)
        holder = self.client.lease("%s/%d" % (a.pool, ids[1])).holder
        self.assertRegex(holder, "^device_key:[0-9a-f]{64}#x2$")

    def test_more_ids_than_a_lease_can_have_are_refused(self):
        with self.assertRaises(ValueError):
            self.make().allocate_pool(100000)

    def test_a_revoked_id_is_neither_free_nor_to_be_released(self):
        a = self.make()
        one = a.allocate_id({"mac": "m"})
        self.client.revoke(self.client.lease("%s/%d" % (a.pool, one)).lease)
        self.assertTrue(a.is_allocated(one))
        with self.assertRaises(tenure.WrongState):
            a.release_id(one)

    def test_the_key_is_the_one_that_the_server_derives(self):
        self.client.pool_create("keys", range=(1, 1000), sticky=True, identity_fallback="json")
        for meta in ({"device_key": "  k \n"}, {"device_key": "", "mac": "m"}, {"device_key": 7},
                     {"device_id": 0, "serial": "s", "mac": "m"}, {"uuid": True, "mac": "x"},
                     {"serial": "s", "device_meta": {"device_id": "inner"}},
                     {"device_meta": {"mac": "inner"}, "uuid": "u"}, {"mac": 1.5, "a": [1, 2.50]},
                     {"device_meta": {"b": 1, "a": {"ü": "\U0001f600\n"}}, "x": 1},
                     {"device_meta": {}, "z": [True, None, -0.0, 1e16, 1e-5, 123456789012345.6]},
                     {"serial": "é" * 64}, {"serial": "é" * 61}, {"device_key": "k" * 129},
                     {"device_key": "k" * 128}, {"free": "text" * 50}, {"q": "\x7f\"\\/"}):
            grant = self.client.alloc("keys", meta=meta)
            self.assertEqual(self.client.lease(grant.lease).holder,
                             tenure.derive_holder(meta, fallback=True), meta)

    def test_an_address_is_one_device_however_it_is_written(self):
        a = self.make()
        one = a.allocate_id({"mac": "52:54:00:AB:CD:01"})
        self.assertEqual(self.client.lease("%s/%d" % (a.pool, one)).holder, "mac:52:54:00:ab:cd:01")
        self.assertEqual(a.allocate_id({"mac": "5254.00ab.cd01"}), one)
        # An earlier version granted it under the address as it was written.
        old = self.client.alloc(a.pool, "mac:52-54-00-AB-CD-02").value
        self.assertEqual(a.allocate_id({"mac": "52-54-00-AB-CD-02"}), int(old))
        self.assertEqual(self.client.alloc(a.pool, meta={"mac": "52-54-00-AB-CD-02"}).value, old)
        several = self.client.alloc(a.pool, "mac:52-54-00-AB-CD-03#x2", count=2).values
        self.assertEqual(a.allocate_pool(2, {"mac": "52-54-00-AB-CD-03"}), list(map(int, several)))

    def test_a_pool_says_which_fields_a_device_is_known_by(self):
        a = self.make()
        self.client.pool_alter(a.pool, identity_fields="mac,serial")
        b = self.make()
        for who in (a, b):
            self.assertIs(type(who), tenure.IDAllocator)
        one = b.allocate_id({"serial": "s", "device_meta": {"mac": "52-54-00-00-00-01"}})
        self.assertEqual(self.client.lease("%s/%d" % (b.pool, one)).holder, "mac:52:54:00:00:00:01")
        grant = self.client.alloc(b.pool, meta={"mac": "525400000001", "device_key": "k"})
        self.assertEqual(int(grant.value), one)
        with self.assertRaisesRegex(tenure.BadPolicy, "a list of device_key"):
            self.client.pool_alter(b.pool, identity_fields="mac,mac")

    def test_a_policy_is_taken_as_it_is_or_refused(self):
        a = self.make(lease_policy={
            "offline_hold_days": 2, "base_lease_seconds": 172800, "min_lease_seconds": 0,
            "rate_window_seconds": 60, "high_rate_threshold_per_hour": 0.5,
            "ultra_rate_threshold_per_hour": 1.25, "ultra_rate_sustain_seconds": 0,
            "high_rate_min_factor": 0.0, "adaptive_enabled": False, "ultra_force_release": False,
            "metrics_emit_interval_seconds": 1})
        self.assertEqual(a.stats()["lease_policy"], {
            "base_lease_seconds": 172800, "min_lease_seconds": 0, "rate_window_seconds": 60,
            "high_rate_threshold_per_hour": 0.5, "ultra_rate_threshold_per_hour": 1.25,
            "ultra_rate_sustain_seconds": 0, "high_rate_min_factor": 0.0,
            "adaptive_enabled": False, "ultra_force_release": False,
            "metrics_emit_interval_seconds": 1})
        before = a.stats()["lease_policy"]
        for policy in ({"base_lease_seconds": 0}, {"base_lease_seconds": -1}, {"nonsense": 1},
                       {"offline_hold_days": 1.5},
                       {"offline_hold_days": 1, "base_lease_seconds": 5},
                       {"ultra_rate_threshold_per_hour": 0.25}, {"high_rate_min_factor": "much"},
                       {"min_lease_seconds": None}, {"rate_window_seconds": 0}):
            with self.assertRaises(ValueError, msg=policy):
                self.make(lease_policy=policy)
            with self.assertRaises(ValueError, msg=policy):
                self.make(lease_policy=policy, pool="refused")
        self.assertEqual(a.stats()["lease_policy"], before)
        self.make(lease_policy={"base_lease_seconds": 60})  # the same pool, one key changed
        self.assertEqual(a.stats()["lease_policy"], {**before, "base_lease_seconds": 60})

    def test_a_range_that_begins_with_zero_does(self):
        a = self.make(start_id=0, end_id=1)
        self.assertEqual([a.allocate_id(), a.allocate_id()], [0, 1])
        self.assertTrue(a.is_allocated(0) and a.release_id(0, immediate=True))

    def test_the_range_of_a_pool_that_is_there(self):
        self.make(start_id=10, end_id=20).allocate_id({"mac": "m"})
        self.assertEqual(self.make().stats()["range"], [10, 20])
        self.assertEqual(self.make(end_id=30).stats()["range"], [10, 30])
        with self.assertRaises(tenure.PoolInUse):
            self.make(start_id=11)
        self.client.pool_create("not-sticky", range=(1, 9))
        with self.assertRaises(ValueError):
            self.make(pool="not-sticky")

    def test_the_lease_shortens_when_many_devices_come(self):
        a = self.make(lease_policy={"base_lease_seconds": 1000, "high_rate_threshold_per_hour": 5,
                                    "ultra_rate_threshold_per_hour": 1000})
        for i in range(10):
            a.allocate_id({"mac": "m%d" % i})
        self.assertEqual(self.client.pool_metrics(a.pool).effective_lease_seconds, 500)
        a.release_id(1)
        lease = self.client.lease("%s/1" % a.pool)
        self.assertEqual(lease.deadline - lease.offline_since, 500 * 1000)

    def test_at_an_ultra_rate_an_offline_id_is_free_at_once(self):
        a = self.make(lease_policy={"ultra_rate_threshold_per_hour": 180,
                                    "ultra_rate_sustain_seconds": 0})
        a.release_id(a.allocate_id({"mac": "first"}))
        for i in range(200):
            a.allocate_id({"mac": "m%d" % i})
        metrics = self.client.pool_metrics(a.pool)
        self.assertTrue(metrics.ultra_rate_active and metrics.force_zero_lease_active)
        a.release_id(100)
        self.assertFalse(a.is_allocated(100))

    def test_what_is_expired_is_reclaimed(self):
        a = self.make(lease_policy={"base_lease_seconds": 1})
        one = a.allocate_id({"mac": "m"})
        counted = []
        until(lambda: counted.append(a.reclaim_expired()) or not a.is_allocated(one), "its end")
        self.assertLessEqual(sum(counted), 1)  # the server may have been faster
        self.assertEqual(a.stats()["lease_metrics"]["total_reclaimed"], 1)

    def test_stats(self):
        a = self.make(end_id=100)
        a.allocate_pool(4, {"mac": "m"})
        a.release_id(a.allocate_id({"mac": "n"}), immediate=True)
        stats = a.stats()
        self.assertEqual((stats["total_allocated"], stats["total_released"]), (4, 1))
        self.assertEqual((stats["next_candidate"], stats["range"]), (6, [1, 100]))
        self.assertEqual(set(stats["lease_metrics"]) | {"allocated_count", "released_count"},
                         set(METRICS))

    def test_the_sink_gets_the_eleven_metrics_and_may_fail(self):
        got = []

        def sink(metrics):
            got.append(metrics)
            raise KeyError("the sink's own fault")
        with self.assertLogs("tenure", "ERROR"):
            a = self.make(metrics_sink=sink, lease_policy={"metrics_emit_interval_seconds": 1})
            number = iter(range(10 ** 9))
            until(lambda: a.allocate_id({"mac": "m%d" % next(number)}) and len(got) >= 2,
                  "two reports")
        self.assertEqual({k: type(v) for k, v in got[-1].items()}, METRICS)
        a.close()
        self.assertFalse(a._thread.is_alive())

    def test_the_sink_hears_again_after_a_crash(self):
        got = []
        proxy = Proxy(self.server)
        self.addCleanup(proxy.close)
        policy = {"metrics_emit_interval_seconds": 1}
        with tenure.IDAllocator(server="127.0.0.1:%d" % proxy.port, metrics_sink=got.append,
                                pool="sink", lease_policy=policy) as a:
            number = iter(range(10 ** 9))

            def heard():
                a.allocate_id({"mac": "m%d" % next(number)})
                return got
            until(heard, "a report")
            self.server.stop(signal.SIGKILL)
            self.server.start()
            proxy.cut()
            type(self).client.close()
            type(self).address = "127.0.0.1:%d" % self.server.port
            type(self).client = tenure.Client(self.address)
            got.clear()
            until(heard, "another one")

    def test_sixty_four_threads_get_sixty_four_ids(self):
        a = self.make(start_id=1, end_id=64 * 5)
        ids, threads = [], []

        def work(i):
            for k in range(5):
                one = a.allocate_id({"device_id": "%d/%d" % (i, k)})
                if k % 2:
                    a.release_id(one)
                    a.touch(one)
                ids.append(one)
        for i in range(64):
            threads.append(threading.Thread(target=work, args=(i,)))
            threads[-1].start()
        for thread in threads:
            thread.join()
        self.assertEqual(sorted(ids), list(range(1, 64 * 5 + 1)))
        self.assertEqual(a.stats()["total_allocated"], 64 * 5)

    def test_ids_of_another_life_are_not_given_out_again(self):
        with tempfile.TemporaryDirectory() as base:
            os.mkdir(os.path.join(base, "data"))
            path = os.path.join(base, "data", "id_allocation.json")
            with open(path, "w", encoding="utf-8") as file:
                json.dump({"allocated": {"1": {"meta": {}}}, "released": []}, file)
            with self.assertRaises(tenure.MoveInFirst) as caught:
                self.make(base_dir=base)
            self.assertIsInstance(caught.exception, RuntimeError)
            with self.assertRaises(tenure.PoolNotFound):
                self.client.pool_info("devices-%d" % self.number)
            self.client.pool_create("moved-in", range=(1, 9), sticky=True)
            self.make(base_dir=base, pool="moved-in")  # somebody has taken care of it
            with open(path, "w", encoding="utf-8") as file:
                json.dump({"allocated": {}}, file)
            self.make(base_dir=base)


if __name__ == "__main__":
    unittest.main()
