#!/usr/bin/env python3
"""clients/python/tenure.py when things go wrong: connections cut and servers killed with writes in
flight, leases that are held and lost, events that are followed across all of that."""
import signal
import threading
import unittest

from harness import PATIENCE, until
from pyclient import Case, Proxy, tenure


class Cut(Case):
    """The client speaks through a proxy, `direct` does not."""

    def setUp(self):
        self.proxy = Proxy(self.server)
        self.client = tenure.Client("127.0.0.1:%d" % self.proxy.port, timeout=PATIENCE,
                                    retry_seconds=PATIENCE)

    def tearDown(self):
        self.client.close()
        self.proxy.close()

    @property
    def direct(self):
        client = tenure.Client("127.0.0.1:%d" % self.server.port)
        self.addCleanup(client.close)
        return client

    def restart(self):
        self.server.stop(signal.SIGKILL)
        self.server.start()

    def in_thread(self, call):
        """The list that will have the outcome, and the thread."""
        outcome = []

        def run():
            try:
                outcome.append(call())
            except Exception as error:  # pylint: disable=broad-except
                outcome.append(error)
        thread = threading.Thread(target=run)
        thread.start()
        return outcome, thread


class LostReplies(Cut):
    def test_a_write_whose_reply_was_lost_in_a_crash_happens_once(self):
        self.client.pool_create("crash", range=(1, 100))
        self.proxy.swallow = True
        outcome, thread = self.in_thread(lambda: self.client.alloc("crash", "job/1"))
        direct = self.direct
        until(lambda: direct.pool_info("crash").active == 1, "the write is committed")
        self.restart()
        self.proxy.swallow = False
        self.proxy.cut()
        thread.join()
        (grant,) = outcome
        self.assertTrue(grant.replayed)
        (lease,) = self.direct.all_leases(pool="crash")
        self.assertEqual((lease.lease, lease.values), (grant.lease, grant.values))

    def test_an_answer_that_does_not_come_is_not_waited_for_forever(self):
        self.proxy.swallow = True
        with tenure.Client("127.0.0.1:%d" % self.proxy.port, timeout=1,
                           retry_seconds=PATIENCE) as client:
            outcome, thread = self.in_thread(client.ping)
            until(lambda: self.proxy.swallowed > 1, "it has asked twice")
            self.proxy.swallow = False
            thread.join()
        self.assertEqual(outcome, ["PONG"])

    def test_a_pipeline_goes_on_where_its_replies_ended(self):
        self.client.pool_create("line", range=(1, 5000))
        requests = [["ALLOC", "line", "job/%d" % i] for i in range(5000)]
        outcome, thread = self.in_thread(lambda: self.client.pipeline(requests))
        direct = self.direct
        until(lambda: direct.pool_info("line").active > 500, "a good part of it")
        self.restart()
        self.proxy.cut()
        thread.join()
        (answers,) = outcome
        self.assertEqual([a["values"] for a in answers], [[str(i)] for i in range(1, 5001)])
        self.assertEqual(self.direct.pool_info("line").active, 5000)

    def test_threads_writing_through_crashes_leave_what_they_were_told(self):
        self.client.pool_create("ledger", range=(1, 100000))
        ledger, threads, enough = {}, [], threading.Event()

        def work(name):
            i = 0
            while not enough.is_set() or i == 0:
                holder = "%s/%d" % (name, i)
                ledger[holder] = self.client.alloc("ledger", holder)
                i += 1
        for name in "abcdefgh":
            threads.append(threading.Thread(target=work, args=(name,)))
            threads[-1].start()
        for _ in range(3):
            before = len(ledger)
            until(lambda: len(ledger) > before + 50, "some writes")
            self.restart()
            self.proxy.cut()
        enough.set()
        for thread in threads:
            thread.join()
        found = list(self.direct.all_leases(pool="ledger"))
        self.assertEqual(len(found), len(ledger))
        self.assertEqual({x.holder: (x.lease, x.values) for x in found},
                         {h: (g.lease, g.values) for h, g in ledger.items()})


class Holding(Cut):
    def test_a_held_lease_is_renewed_and_then_released(self):
        self.client.pool_create("kept", range=(1, 9), lease=15)
        with self.client.hold("kept", "job/1", count=2, meta={"a": 1}) as held:
            self.assertEqual(held.values, ("1", "2"))
            first = self.direct.lease(held.token.lease)
            self.assertEqual(first.meta, {"a": 1})
            direct = self.direct
            until(lambda: direct.lease(held.token.lease).deadline > first.deadline + 6000,
                  "it was renewed more than once")
            held.check()
            self.assertGreater(held.remaining(), 0)
        self.assertEqual(self.direct.lease(held.token.lease).state, "released")
        self.assertFalse(held._thread.is_alive())

    def test_a_revoked_lease_is_lost_at_once_and_acknowledged_at_the_end(self):
        self.client.pool_create("permanent", range=(1, 9))
        told = []
        with self.assertRaises(tenure.LeaseLost):
            with self.client.hold("permanent", "job/1", on_lost=told.append) as held:
                self.assertIsNone(held.remaining())
                self.direct.revoke(held.token.lease)
                until(lambda: told, "its holder is told")
                self.assertTrue(held.lost)
                self.assertEqual(held.remaining(), 0)
                with self.assertRaises(tenure.LeaseLost):
                    held.check()
                self.assertEqual(self.direct.lease(held.token.lease).state, "revoking")
        self.assertEqual(told, [held])
        lease = self.direct.lease(held.token.lease)
        self.assertEqual((lease.state, lease.reason), ("revoked", "acknowledged"))

    def test_a_lease_that_was_given_up_is_released_if_it_is_still_there(self):
        self.client.pool_create("given-up", range=(1, 9), lease=600)
        held = self.client.hold("given-up", "job/1")
        held._lose("of old age")
        with self.assertRaisesRegex(tenure.LeaseLost, "of old age"):
            held.release()
        self.assertEqual(self.direct.lease(held.token.lease).state, "released")

    def test_a_lease_that_goes_to_another_holder_is_lost(self):
        self.client.pool_create("moved", range=(1, 9), lease=600)
        with self.assertRaises(tenure.LeaseLost):
            with self.client.hold("moved", "job/1") as held:
                self.direct.rekey(held.token.lease, 1, "job/2")
                until(lambda: held.lost, "it is lost")
        self.assertEqual(self.direct.lease(held.token.lease).state, "active")

    def test_a_lease_that_cannot_be_renewed_is_lost_before_it_ends(self):
        self.client.pool_create("cut", range=(1, 9), lease=6)
        told = []
        held = self.client.hold("cut", "job/1", on_lost=told.append)
        self.proxy.refuse = True
        self.proxy.cut()
        until(lambda: told, "its holder gives up")
        self.assertEqual(held.reason, "it was not renewed in time")
        self.proxy.refuse = False
        with self.assertRaises(tenure.LeaseLost):
            held.release()

    def test_its_holder_is_told_in_time_even_while_the_client_looks_for_the_server(self):
        """For example while the name resolver hangs."""
        self.client.pool_create("hangs", range=(1, 9), lease=6)
        told, looking, found = [], threading.Event(), threading.Event()
        self.addCleanup(found.set)
        held = self.client.hold("hangs", "job/1", on_lost=told.append)
        self.heard(self.direct)
        real = tenure._Address.connect

        def connect(address):
            looking.set()
            found.wait()
            return real(address)
        tenure._Address.connect = connect
        self.addCleanup(setattr, tenure._Address, "connect", real)
        self.proxy.cut()
        self.assertTrue(looking.wait(PATIENCE))
        until(lambda: told, "its holder gives up")
        self.assertEqual(held.reason, "it was not renewed in time")
        found.set()
        with self.assertRaises(tenure.LeaseLost):
            held.release()

    def test_a_crash_of_the_server_does_not_lose_a_lease(self):
        self.client.pool_create("through", range=(1, 9), lease=600)
        with self.client.hold_bundle("job/1", {"through": [7]}) as held:
            self.heard(self.direct)
            self.restart()
            self.proxy.cut()
            self.heard(self.direct)
            held.check()
        self.assertEqual(self.direct.lease(held.token.lease).state, "released")

    @staticmethod
    def heard(client):
        until(lambda: any(x["sub"] == "1" for x in client.client_list()), "its holder listens")

    def test_what_the_block_raises_comes_out(self):
        self.client.pool_create("raises", range=(1, 9), lease=600)
        with self.assertRaises(KeyError):
            with self.client.hold("raises", "job/1") as held:
                self.direct.revoke(held.token.lease)
                until(lambda: held.lost, "it is lost")
                raise KeyError
        with self.assertRaises(tenure.PoolNotFound):
            self.client.hold("none", "job/1")

    def test_a_holder_with_a_strange_name(self):
        self.client.pool_create("strange", range=(1, 9), lease=15)
        with self.client.hold("strange", "job?after=999999.0") as held:
            first, direct = held.grant.deadline, self.direct
            until(lambda: direct.lease(held.token.lease).deadline > first, "a renewal")


class Following(Cut):
    flags = ("--events-max", "100")

    def test_events_come_without_a_gap_across_cuts_and_crashes(self):
        self.client.pool_create("told", range=(1, 1000))
        start = self.direct.events(count=1).newest
        seen = []
        with self.client.follow(pool="told") as follower:
            for part in range(3):
                direct = self.direct
                for i in range(20):
                    direct.alloc("told", "job/%d/%d" % (part, i))
                while len(seen) < 20 * part + 10:
                    seen.append(follower.get())
                self.restart()
                self.proxy.cut()
            while len(seen) < 60:
                seen.append(follower.get())
            self.assertIsNone(follower.get(0))
        page = self.direct.events(after=start, count=100, pool="told")
        self.assertEqual(seen, list(page.events))
        with self.client.follow(after=page.events[-2].id, holder="job/2/19") as follower:
            self.assertEqual(next(follower), page.events[-1])

    def test_patience_begins_with_the_first_failure(self):
        self.client.pool_create("patient", range=(1, 9))
        follower = self.client.follow(pool="patient")
        self.addCleanup(follower.close)
        wire = follower._subscription.connection._wire
        before = wire.deadline
        outcome, thread = self.in_thread(follower.get)
        until(lambda: wire.deadline != before, "it waits")
        real = tenure._clock
        tenure._clock = lambda: real() + 2 * PATIENCE  # it has waited for a long time
        self.addCleanup(setattr, tenure, "_clock", real)
        self.restart()
        self.proxy.cut()
        self.direct.alloc("patient", "job/1")
        thread.join()
        self.assertEqual(outcome[0].kind, "lease.active")

    def test_closing_ends_the_iteration(self):
        follower = self.client.follow()
        outcome, thread = self.in_thread(lambda: list(follower))
        follower.close()
        thread.join()
        self.assertEqual(outcome, [[]])
        with self.assertRaises(TypeError):
            self.client.follow(pool="a", holder="b")

    def test_who_comes_too_late_is_told(self):
        self.client.pool_create("busy", range=(1, 9))
        for _ in range(30):
            grants = self.client.pipeline([["ALLOC", "busy", "h"]] * 9)
            self.client.pipeline([["RELEASE", g["lease"], "h", g["epoch"]] for g in grants])
        direct = self.direct
        until(lambda: direct.events(after="1.0", count=1).lost, "the first ones are dropped")
        with self.client.follow(after="1.0") as follower:
            first = follower.get()
            self.assertEqual(first.kind, "lost")
            self.assertEqual(follower.get().id, first.id)

    def test_channels_as_they_are(self):
        with self.client.subscription() as s:
            s.subscribe("events", "pool:raw")
            s.psubscribe("pool:*")
            self.direct.pool_create("raw", range=(1, 2))
            got = {(m.channel, m.pattern) for m in (s.get(), s.get(), s.get())}
            self.assertEqual(got, {("events", None), ("pool:raw", None), ("pool:raw", "pool:*")})
            with self.assertRaises(tenure.Rejected):
                s.subscribe("pool:no such pool")
            self.assertEqual(s.connection.ping(), "PONG")
            s.unsubscribe("events")
            s.punsubscribe()
            self.assertEqual((s.channels, s.patterns), ({"pool:raw"}, set()))
            self.direct.pool_drop("raw")
            self.assertIn('"pool.dropped"', s.get().payload)
            s.unsubscribe()
            s.unsubscribe()
            self.assertIsNone(s.get(0))

    def test_a_server_that_falls_silent_is_left(self):
        with self.client.connection() as connection:
            s = tenure.Subscription(connection)
            s.subscribe("events")
            self.proxy.swallow = True
            s.SILENCE = connection._timeout = 0.05
            with self.assertRaises(tenure.Unreachable):
                s.get()


if __name__ == "__main__":
    unittest.main()
