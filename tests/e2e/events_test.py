#!/usr/bin/env python3
# tsan
"""Events: read back with EVENTS, and as they happen over SUBSCRIBE and PSUBSCRIBE, in both versions of
RESP; resumed after an event, across kill -9, and by readers that are too slow."""
import http.client
import json
import os
import select
import signal
import tempfile
import threading
import unittest

from harness import PATIENCE, Case, Server, pairs, receive_until, text_of, until
from resp import Error, Push, Resp


def order(event_id):
    lsn, index = event_id.split(".")
    return int(lsn), int(index)


def page(r, *words):
    got = pairs(r.execute_command("EVENTS", *words))
    got["events"] = [pairs(e) for e in got["events"]]
    return got


def dump(r, *words, after="0"):
    """All retained events, page by page."""
    events = []
    while True:
        got = page(r, "AFTER", after, "COUNT", 1000, *words)
        events += got["events"]
        after = got["next"]
        if not got["more"]:
            return events


def message(resp, channel=None):
    """The next message's payload."""
    got = resp.next_push()
    assert got[0] in ("message", "pmessage"), got
    if channel is not None:
        assert got[1] == channel, got
    return json.loads(got[-1])


def subscribe(resp, *names):
    resp.send("SUBSCRIBE", *names)
    return [resp.read() for _ in names]


class Shapes(Case):
    """Byte for byte as Redis has them."""

    def setUp(self):
        self.two = Resp(self.server)
        self.three = Resp(self.server, 3)

    def tearDown(self):
        self.two.close()
        self.three.close()

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.r.execute_command("POOL", "CREATE", "shapes", "RANGE", 1, 1000000)

    def says(self, resp, words, want):
        resp.send(*words)
        self.assertEqual(resp.raw(len(want)), want)
        self.assertEqual(resp.buffer, b"")

    def test_confirmations(self):
        for resp, push, null in (self.two, b"*", b"$-1\r\n"), (self.three, b">", b"_\r\n"):
            self.says(resp, ["SUBSCRIBE", "events", "pool:a"],
                      push + b"3\r\n$9\r\nsubscribe\r\n$6\r\nevents\r\n:1\r\n" +
                      push + b"3\r\n$9\r\nsubscribe\r\n$6\r\npool:a\r\n:2\r\n")
            self.says(resp, ["SUBSCRIBE", "events"],
                      push + b"3\r\n$9\r\nsubscribe\r\n$6\r\nevents\r\n:2\r\n")
            self.says(resp, ["PSUBSCRIBE", "x*"],
                      push + b"3\r\n$10\r\npsubscribe\r\n$2\r\nx*\r\n:3\r\n")
            self.says(resp, ["UNSUBSCRIBE", "pool:a"],
                      push + b"3\r\n$11\r\nunsubscribe\r\n$6\r\npool:a\r\n:2\r\n")
            self.says(resp, ["UNSUBSCRIBE", "never"],
                      push + b"3\r\n$11\r\nunsubscribe\r\n$5\r\nnever\r\n:2\r\n")
            self.says(resp, ["UNSUBSCRIBE"],
                      push + b"3\r\n$11\r\nunsubscribe\r\n$6\r\nevents\r\n:1\r\n")
            self.says(resp, ["UNSUBSCRIBE"], push + b"3\r\n$11\r\nunsubscribe\r\n" + null + b":1\r\n")
            self.says(resp, ["PUNSUBSCRIBE"],
                      push + b"3\r\n$12\r\npunsubscribe\r\n$2\r\nx*\r\n:0\r\n")
            self.says(resp, ["PUNSUBSCRIBE"],
                      push + b"3\r\n$12\r\npunsubscribe\r\n" + null + b":0\r\n")
            self.says(resp, ["PING"], b"+PONG\r\n")

    def test_messages(self):
        for resp, push in (self.two, b"*"), (self.three, b">"):
            resp.send("SUBSCRIBE", "events")
            resp.send("PSUBSCRIBE", "pool:[nm]ew")
            resp.read(), resp.read()
            lsn = pairs(self.do("POOL", "CREATE", "new", "RANGE", 1, 9))["lsn"]
            event = pairs(self.do("EVENTS", "AFTER", lsn - 1))["events"][0]
            payload = ('{"id":"%d.0","time":"%d","kind":"pool.created","pool":"new"}' % (
                lsn, pairs(event)["time"])).encode()
            bulk = b"$%d\r\n%s\r\n" % (len(payload), payload)
            want = {push + b"3\r\n$7\r\nmessage\r\n$6\r\nevents\r\n" + bulk,
                    push + b"4\r\n$8\r\npmessage\r\n$11\r\npool:[nm]ew\r\n$8\r\npool:new\r\n" + bulk}
            first = resp.raw(len(push + b"3\r\n$7\r\nmessage\r\n$6\r\nevents\r\n" + bulk))
            self.assertIn(first, want)
            want.remove(first)
            rest = want.pop()
            self.assertEqual(resp.raw(len(rest)), rest)
            self.do("POOL", "DROP", "new")

    def test_in_resp2_a_subscriber_may_ask_for_nothing_else(self):
        subscribe(self.two, "events")
        self.says(self.two, ["PING"], b"*2\r\n$4\r\npong\r\n$0\r\n\r\n")
        self.says(self.two, ["PING", "hey"], b"*2\r\n$4\r\npong\r\n$3\r\nhey\r\n")
        for words in ["ECHO", "x"], ["POOL", "INFO", "shapes"], ["ALLOC", "shapes", "h"], ["HELLO", "3"]:
            got = self.two.do(*words)
            self.assertIsInstance(got, Error)
            self.assertIn("only (P|S)SUBSCRIBE / (P|S)UNSUBSCRIBE / PING / QUIT / RESET are allowed "
                          "in this context", got)
        self.two.send("UNSUBSCRIBE")
        self.two.read()
        self.assertEqual(self.two.do("ECHO", "x"), "x")

    def test_in_resp3_everything_else_stays_possible(self):
        subscribe(self.three, "pool:shapes")
        made = self.three.do("ALLOC", "shapes", "me")
        self.assertEqual(made["state"], "active")
        self.assertEqual(message(self.three)["lease"], made["lease"])
        self.assertEqual(self.three.do("PING"), "PONG")
        self.assertEqual(self.three.do("LEASE", made["lease"])["holder"], "me")

    def test_reset_and_quit_end_it(self):
        for resp in self.two, self.three:
            subscribe(resp, "events", "pool:shapes")
            self.says(resp, ["RESET"], b"+RESET\r\n")
            self.do("ALLOC", "shapes", "reset")
            self.says(resp, ["PING"], b"+PONG\r\n")
            subscribe(resp, "events")
            self.says(resp, ["QUIT"], b"+OK\r\n")
            self.assertTrue(resp.ended())

    def test_a_confirmation_comes_after_the_writes_before_it(self):
        three = self.three
        three.send("ALLOC", "shapes", "before")
        three.send("SUBSCRIBE", "events")
        three.send("ALLOC", "shapes", "after")
        self.assertIn("lease", three.read())
        self.assertEqual(three.read(), ["subscribe", "events", 1])
        rest = [three.read(), three.read()]
        pushed = [json.loads(x[2]) for x in rest if isinstance(x, Push)]
        self.assertEqual([e["holder"] for e in pushed], ["after"])


class Channels(Case):
    def setUp(self):
        self.resp = Resp(self.server, 3)

    def tearDown(self):
        self.resp.close()

    def alloc(self, *words):
        return pairs(self.do("ALLOC", *words))

    def test_everything_is_on_events_and_reads_back_the_same(self):
        subscribe(self.resp, "events")
        self.do("POOL", "CREATE", "life", "RANGE", 1, 9, "LEASE", 60, "COOLDOWN", 1)
        self.do("POOL", "CREATE", "named", "SET")
        self.do("POOL", "ADD", "named", "gpu-1", "gpu-2")
        lease = self.alloc("life", "job/1", "COUNT", 2)
        self.do("RELEASE", lease["lease"], "job/1", 1)
        kept = pairs(self.do("RESERVE", "job/2", "TTL", 30, "FROM", "life", "COUNT", 1, "FROM",
                             "named", "VALUES", 1, "gpu-2"))
        self.do("ACTIVATE", kept["lease"], "job/2", 1)
        self.do("REKEY", kept["lease"], 1, "job/3")
        self.do("REVOKE", kept["lease"])
        self.do("ACK", kept["lease"], "job/3", 2)
        self.do("RULE", "SET", "r", "core.timer")
        self.do("SENSOR", "SET", "s", "core.timer", '{"command":["/bin/true"]}')
        self.do("RULE", "DELETE", "r")
        self.do("SENSOR", "DELETE", "s")
        self.alloc("life", "job/4")
        last = pairs(self.do("DISOWN", "job/4"))["lsn"]
        seen, kinds = [], []
        while not {"value.cooled", "holder.disowned"} <= set(kinds):
            seen.append(message(self.resp, "events"))
            kinds.append(seen[-1]["kind"])
        for kind in ("pool.created", "pool.added", "lease.active", "lease.released", "lease.reserved",
                     "lease.rekeyed", "lease.revoking", "lease.revoked", "rule.set", "demand.changed",
                     "sensor.set", "rule.deleted", "sensor.deleted", "holder.disowned"):
            self.assertIn(kind, kinds)
        first = seen[0]["id"]
        kept_events = dump(self.r)
        kept_events = [e for e in kept_events if order(first) <= order(e["id"]) <= order(seen[-1]["id"])]
        self.assertEqual([e["id"] for e in kept_events], [e["id"] for e in seen])
        for read, heard in zip(kept_events, seen):
            self.assertEqual(set(read), set(heard))
            for name, value in read.items():
                self.assertEqual(value if isinstance(value, (list, type(None))) else str(value),
                                 heard[name], name)
        bundle = next(e for e in seen if e["kind"] == "lease.reserved")
        self.assertEqual((bundle["values"][1], bundle["pools"]), ("gpu-2", ["life", "named"]))
        self.assertNotIn("pool", bundle)
        self.assertEqual(next(e for e in seen if e["kind"] == "pool.added")["number"], "2")
        self.assertGreater(last, 0)

    def test_a_bundle_is_told_to_both_of_its_pools_and_to_nobody_elses(self):
        for name in "left", "right", "other":
            self.do("POOL", "CREATE", name, "RANGE", 1, 9)
        subscribe(self.resp, "pool:left", "pool:right", "pool:other")
        made = pairs(self.do("ALLOC", "both", "FROM", "left", "COUNT", 2, "FROM", "right", "COUNT", 1))
        got = {self.resp.read()[1]: 1 for _ in range(2)}
        self.assertEqual(set(got), {"pool:left", "pool:right"})
        self.do("RELEASE", made["lease"], "both", 1)
        self.assertEqual({self.resp.read()[1] for _ in range(2)}, {"pool:left", "pool:right"})
        self.assertTrue(self.resp.silent())

    def test_a_holder_hears_that_it_has_lost_its_lease_whatever_the_way(self):
        self.do("POOL", "CREATE", "loss", "RANGE", 1, 99)
        subscribe(self.resp, "holder:loser")

        def hears(kind, reason):
            event = message(self.resp, "holder:loser")
            while event["kind"] == "lease.active":
                event = message(self.resp, "holder:loser")
            self.assertEqual((event["kind"], event["reason"]), (kind, reason))
            return event
        lease = self.alloc("loss", "loser")["lease"]
        self.do("REVOKE", lease)
        hears("lease.revoking", "revoked")
        self.do("RECLAIM", lease)
        hears("lease.revoked", "reclaimed")
        self.do("REKEY", self.alloc("loss", "loser")["lease"], 1, "winner")
        event = hears("lease.rekeyed", "rekeyed")
        self.assertEqual((event["holder"], event["previous_holder"]), ("winner", "loser"))
        self.alloc("loss", "loser", "TTL", 1)
        hears("lease.expired", "expired")
        self.alloc("loss", "loser")
        self.do("DISOWN", "loser")
        hears("lease.released", "disowned")
        self.assertEqual(message(self.resp)["kind"], "holder.disowned")

    def test_metrics_of_a_sticky_pool(self):
        self.do("POOL", "CREATE", "devices", "RANGE", 1, 99, "STICKY", "yes",
                "METRICS_EMIT_INTERVAL_SECONDS", 1)
        self.do("POOL", "CREATE", "plain", "RANGE", 1, 99)
        subscribe(self.resp, "metrics:devices", "metrics:plain", "metrics:nowhere")
        self.alloc("plain", "h")
        self.alloc("devices", "d1")
        got = message(self.resp, "metrics:devices")
        while got["allocated_count"] != "1":
            got = message(self.resp, "metrics:devices")
        self.assertEqual(set(got) | {"lsn"}, set(pairs(self.do("POOL", "METRICS", "devices"))))

    def test_patterns_over_redis_py(self):
        self.do("POOL", "CREATE", "glob-a", "RANGE", 1, 9)
        self.do("POOL", "CREATE", "glob-b", "RANGE", 1, 9)
        p = self.r.pubsub(ignore_subscribe_messages=True)
        p.psubscribe("pool:glob-?")
        p.subscribe("holder:by-name")
        until(lambda: p.get_message() is None and any(
            c["psub"] == "1" and c["sub"] == "1" for c in self.r.client_list()), "subscribed")
        self.alloc("glob-a", "h")
        self.alloc("glob-b", "by-name")
        got = [until(p.get_message, "a message") for _ in range(3)]
        self.assertEqual({(m["type"], m["pattern"], m["channel"]) for m in got},
                         {("message", None, "holder:by-name"),
                          ("pmessage", "pool:glob-?", "pool:glob-a"),
                          ("pmessage", "pool:glob-?", "pool:glob-b")})
        p.close()

    def test_more_names_than_anybody_can_have(self):
        self.resp.send("UNSUBSCRIBE", *("n%d" % i for i in range(1025)))
        self.assertEqual(str(self.resp.read()), "OVERLOADED at most 1024 names at once")
        self.resp.send("PUNSUBSCRIBE", *("n%d" % i for i in range(1024)))
        for i in range(1024):
            self.assertEqual(self.resp.read(), ["punsubscribe", "n%d" % i, 0])

    def test_after_unsubscribing_nothing_comes(self):
        self.do("POOL", "CREATE", "quiet", "RANGE", 1, 9)
        subscribe(self.resp, "pool:quiet", "events")
        self.alloc("quiet", "h")
        self.assertEqual({self.resp.read()[1], self.resp.read()[1]}, {"pool:quiet", "events"})
        self.resp.send("UNSUBSCRIBE")
        self.resp.read(), self.resp.read()
        self.alloc("quiet", "h")
        self.assertTrue(self.resp.silent())

    def test_names(self):
        for name, why in [("", "empty"), ("x" * 257, "longer"), ("pool:", "not a valid pool name"),
                          ("pool:a/b", "not a valid pool name"), ("pool:" + "p" * 65, "not a valid pool name"),
                          ("metrics:a b", "not a valid pool name"), ("holder:", "holder is missing"),
                          ("holder:" + "h" * 129, "too long"), (b"holder:\xff", "UTF-8"),
                          ("events?after=x", "an event id"), ("events?", "an event id"),
                          ("pool:p?after=1.", "not a valid pool name"), ("events?after=9999999999.0", "later")]:
            got = self.resp.do("SUBSCRIBE", "events", name)
            self.assertIsInstance(got, Error, name)
            self.assertIn(why, got)
        self.assertTrue(self.resp.silent())
        # Nobody's names are accepted, since clients subscribe to some; nothing is said there.
        for name in "__Booksleeve_MasterChanged", "__sentinel__:hello", "eventsource", "evénements":
            self.assertEqual(subscribe(self.resp, name)[0][1], name)
        # Of what looks like an id twice, the last counts; the rest is the holder's name.
        self.do("POOL", "CREATE", "odd", "RANGE", 1, 9)
        lsn = self.alloc("odd", "h?after=1.0")["lsn"]
        name = "holder:h?after=1.0?after=%d" % (lsn - 1)
        subscribe(self.resp, name)
        self.assertEqual(message(self.resp, name)["holder"], "h?after=1.0")

    def test_bounds(self):
        self.assertEqual(len(subscribe(self.resp, *["pool:p%d" % i for i in range(1024)])), 1024)
        got = self.resp.do("PSUBSCRIBE", "*")
        self.assertTrue(got.startswith("OVERLOADED"), got)
        others = [Resp(self.server) for _ in range(17)]
        for other in others:
            other.send("PSUBSCRIBE", *["x%d*" % i for i in range(1000)])
        refused = [other.read() for other in others]
        self.assertEqual(sum(isinstance(reply, Error) for reply in refused), 1)
        for other in others:
            other.close()
        until(lambda: self.r.info()["pubsub_patterns"] == 0, "they are gone")
        self.resp.send("UNSUBSCRIBE")
        counts = [self.resp.read()[2] for _ in range(1024)]
        self.assertEqual(counts, list(range(1023, -1, -1)))

    def test_patterns_that_take_long_to_match_are_bounded(self):
        def ask(resp, names):
            resp.send("PSUBSCRIBE", *names)
            got = resp.read()
            if not isinstance(got, Error):
                self.assertEqual([resp.read()[0] for _ in names[1:]], ["psubscribe"] * (len(names) - 1))
            return got
        slow = ["*[%s%03d]" % ("b" * 240, i) for i in range(1000)]
        usual = ["holder:team-%d/*" % i for i in range(1000)]
        got = ask(self.resp, slow)
        self.assertIsInstance(got, Error)
        self.assertIn("OVERLOADED the patterns are too expensive", got)
        self.assertNotIsInstance(ask(self.resp, usual), Error)
        others = [Resp(self.server) for _ in range(9)]
        refused = [isinstance(ask(other, slow[:4]), Error) for other in others]
        self.assertEqual(refused, [False] * 8 + [True])
        # Those that are gone make room.
        others[0].close()
        until(lambda: self.r.info()["pubsub_patterns"] == 1000 + 7 * 4, "one is gone")
        self.assertNotIsInstance(ask(others[8], slow[:4]), Error)
        for other in others[1:]:
            other.close()
        until(lambda: self.r.info()["pubsub_patterns"] == 1000, "they are gone")
        self.resp.send("PUNSUBSCRIBE")
        self.assertEqual([self.resp.read()[2] for _ in usual][-1], 0)

    def test_an_event_of_many_pools_does_not_hold_the_server(self):
        names = ["wide%d" % i for i in range(200)]
        for name in names:
            self.do("POOL", "CREATE", name, "RANGE", 1, 9)
        slow = []
        for i in range(7):
            slow.append(Resp(self.server))
            slow[-1].send("PSUBSCRIBE", *["*[%s%03d]" % ("b" * 240, n) for n in range(4)])
            self.assertEqual([slow[-1].read()[0] for _ in range(4)], ["psubscribe"] * 4)
            self.addCleanup(slow[-1].close)
        all_of_it = ["pool:" + name for name in names] + ["events", "holder:wide"]
        subscribe(self.resp, *all_of_it)
        claims = [word for name in names for word in ("FROM", name, "COUNT", 1)]
        made, pings, got = Resp(self.server), 0, []
        self.addCleanup(made.close)
        made.send("ALLOC", "wide", *claims)
        while len(got) < len(all_of_it):  # others are served between two parts of the event
            self.assertTrue(self.r.ping())
            pings += 0 < len(got)
            while self.resp.buffer or select.select([self.resp.socket], [], [], 0)[0]:
                got.append(self.resp.read()[1])
        self.assertEqual(sorted(got), sorted(all_of_it))
        self.assertEqual(got[0], "events")
        self.assertGreater(pings, 1)  # how many depends on the machine
        # Whoever resumes in the middle of such an event gets all of it once, on all its channels.
        lease = pairs(made.read())
        late = Resp(self.server)
        self.addCleanup(late.close)
        made.send("RELEASE", lease["lease"], "wide", lease["epoch"])
        subscribe(late, "events?after=%s.0" % (int(lease["lsn"]) - 1))
        self.assertEqual([message(late)["kind"] for _ in range(2)], ["lease.active", "lease.released"])
        got = [self.resp.read()[1] for _ in all_of_it]
        self.assertEqual(sorted(got), sorted(all_of_it))
        self.read_again(lease, all_of_it, slow)

    def read_again(self, lease, all_of_it, slow):
        """Reads the same events with a client that is behind and has expensive patterns: it also reads them in
        parts, and gets every message once."""
        for resp in slow:
            resp.close()
        until(lambda: self.r.info()["pubsub_patterns"] == 0, "they are gone")
        late, got = Resp(self.server), []
        self.addCleanup(late.close)
        late.send("PSUBSCRIBE", *["*[%s%03d]" % ("b" * 240, n) for n in range(4)])
        self.assertEqual([late.read()[0] for _ in range(4)], ["psubscribe"] * 4)
        after = "?after=%s.0" % (int(lease["lsn"]) - 1)
        late.send("SUBSCRIBE", *[name + after for name in all_of_it])
        self.assertEqual([late.read()[0] for _ in all_of_it], ["subscribe"] * len(all_of_it))
        pings = 0
        while len(got) < 2 * len(all_of_it):
            self.assertTrue(self.r.ping())
            pings += 0 < len(got)
            while late.buffer or select.select([late.socket], [], [], 0)[0]:
                got.append(late.read()[1])
        self.assertEqual(got[:len(all_of_it)], got[len(all_of_it):])
        self.assertEqual(sorted(got[:len(all_of_it)]), sorted(name + after for name in all_of_it))
        self.assertGreater(pings, 1)  # how many depends on the machine


class Pages(Case):
    def test_events_in_pages_and_by_filter(self):
        begin = page(self.r)["newest"] or "0"
        self.do("POOL", "CREATE", "a", "RANGE", 1, 99999)
        self.do("POOL", "CREATE", "b", "RANGE", 1, 99999)
        pipe = self.r.pipeline(transaction=False)
        for i in range(300):
            pipe.execute_command("ALLOC", "ab"[i % 2], "job/%d" % (i % 3))
        pipe.execute()
        everything = dump(self.r, after=begin)
        self.assertEqual(len(everything), 302)
        ids = [order(e["id"]) for e in everything]
        self.assertEqual(ids, sorted(set(ids)))
        by = dump(self.r, "POOL", "a", "HOLDER", "job/1")
        self.assertEqual([e["id"] for e in by], [
            e["id"] for e in everything if e.get("pool") == "a" and e.get("holder") == "job/1"])
        self.assertEqual(len(by), 50)
        got = page(self.r, "COUNT", 7, "AFTER", begin)
        self.assertEqual((len(got["events"]), got["more"], got["lost"]), (7, 1, 0))
        self.assertEqual(got["next"], everything[6]["id"])
        self.assertEqual(got["oldest"], dump(self.r)[0]["id"])
        self.assertEqual(got["newest"], everything[-1]["id"])
        got = page(self.r, "AFTER", got["newest"])
        self.assertEqual((got["events"], got["more"], got["lost"]), ([], 0, 0))
        ahead = page(self.r, "COUNT", 7, "AFTER", "%d.0" % (order(got["newest"])[0] + 10 ** 6))  # of another log
        first = page(self.r, "COUNT", 7)
        self.assertEqual((ahead["events"], ahead["next"], ahead["lost"]), (first["events"], first["next"], 1))
        self.assertEqual(page(self.r, "AFTER", 2 ** 64 - 1)["events"], [])
        for start, words in [("MALFORMED", ["AFTER", "x"]), ("MALFORMED", ["COUNT", 0]),
                             ("MALFORMED", ["COUNT", 1001]), ("BAD_NAME", ["HOLDER", "h" * 129]),
                             ("NOT_YET", ["FENCE", 999999])]:
            self.refused(start, "EVENTS", *words)

    def test_a_scan_that_finds_nothing_goes_on_from_where_it_stopped(self):
        self.do("POOL", "CREATE", "many", "RANGE", 1, 99999)
        for _ in range(4):
            pipe = self.r.pipeline(transaction=False)
            for i in range(3000):
                pipe.execute_command("ALLOC", "many", "h")
            pipe.execute()
        self.do("ALLOC", "many", "needle")
        got = page(self.r, "HOLDER", "needle")
        self.assertEqual((got["events"], got["more"]), ([], 1))
        self.assertEqual(len(dump(self.r, "HOLDER", "needle")), 1)

    def test_a_large_bundle_is_one_event(self):
        self.do("POOL", "CREATE", "large", "RANGE", 1, 10000)
        resp = Resp(self.server, 3)
        subscribe(resp, "pool:large")
        self.do("ALLOC", "large", "h", "COUNT", 256)
        self.assertEqual(len(message(resp)["values"]), 256)
        self.assertEqual(len(dump(self.r, "POOL", "large")[-1]["values"]), 256)
        resp.close()


class Gone(unittest.TestCase):
    """Pages of the oldest events, while these are dropped for new ones."""

    def setUp(self):
        self.server = Server(None, "--events-max", "1500")
        self.addCleanup(self.server.remove)
        self.full = threading.Event()
        with self.server.client() as r:  # from here on there is an event to begin with
            r.execute_command("POOL", "CREATE", "p", "RANGE", 1, 100000000)

    def write(self):
        with self.server.connect() as s:
            i = 0
            while not self.full.is_set():
                s.sendall(b"".join(b"*3\r\n$5\r\nALLOC\r\n$1\r\np\r\n$%d\r\n%s\r\n" % (len(h), h) for h in
                                   (b"h%d" % n for n in range(i, i + 500))) + b"PING\r\n")
                receive_until(s, b"+PONG\r\n")
                i += 500

    def test_a_page_ends_where_events_are_missing(self):
        """Also if they are dropped while the page is made; the next page reports that."""
        c = http.client.HTTPConnection("127.0.0.1", self.server.http_port, timeout=PATIENCE)
        self.addCleanup(c.close)

        def page_ends():
            c.request("GET", "/v1/events?count=1000&format=json")
            got = json.loads(c.getresponse().read())
            holders = [int(e["holder"][1:]) for e in got["events"] if "holder" in e]
            if holders:
                self.assertEqual(holders, list(range(holders[0], holders[-1] + 1)))
            self.assertFalse(got["lost"])
            # It began with what was the oldest then, whatever is gone since.
            self.assertEqual(got["oldest"], got["events"][0]["id"])
            return got["more"] and len(got["events"]) < 1000
        writer = threading.Thread(target=self.write)
        writer.start()
        try:
            for _ in range(3):
                until(page_ends, "a page that is not full")
        finally:
            self.full.set()
            writer.join()


class Resume(unittest.TestCase):
    def test_across_a_crash_nothing_is_missing_and_nothing_comes_twice(self):
        server = Server()
        self.addCleanup(server.remove)
        seen, written = [], 0
        r = server.client()
        r.execute_command("POOL", "CREATE", "p", "RANGE", 1, 1000000)
        for life in range(3):
            r = server.client()
            resp = Resp(server, 3)
            subscribe(resp, "events?after=%s" % (seen[-1]["id"] if seen else "0"))
            pipe = r.pipeline(transaction=False)
            for i in range(500):
                pipe.execute_command("ALLOC", "p", "life/%d" % life)
            pipe.execute()
            written += 500
            # Only a part is heard in this life.
            while sum(e["kind"] == "lease.active" for e in seen) < written - 250:
                seen.append(message(resp))
            resp.close()
            r.close()
            if life == 1:
                server.client().execute_command("SNAPSHOT")
            server.stop(signal.SIGKILL)
            server.start()
        resp = Resp(server, 3)
        subscribe(resp, "events?after=%s" % seen[-1]["id"])
        while sum(e["kind"] == "lease.active" for e in seen) < written:
            seen.append(message(resp))
        ids = [e["id"] for e in seen]
        self.assertEqual(ids, [e["id"] for e in dump(server.client())][:len(ids)])
        self.assertEqual(len(set(ids)), len(ids))
        resp.close()

    def test_two_places_on_one_connection(self):
        server = Server()
        self.addCleanup(server.remove)
        r = server.client()
        r.execute_command("POOL", "CREATE", "p", "RANGE", 1, 1000)
        lsn = [pairs(r.execute_command("ALLOC", "p", "h%d" % i))["lsn"] for i in range(20)]
        resp = Resp(server, 3)
        names = ["events", "events?after=%d" % lsn[9], "pool:p?after=%d.0" % lsn[14]]
        subscribe(resp, names[0])
        subscribe(resp, names[1])
        heard = {name: [] for name in names}
        got = message(resp, names[1])
        heard[names[1]].append(got["holder"])
        resp.send("SUBSCRIBE", names[2])
        r.execute_command("ALLOC", "p", "last")
        while any(len(h) == 0 or h[-1] != "last" for h in heard.values()):
            got = resp.read()
            if got[0] == "message":
                heard[got[1]].append(json.loads(got[2])["holder"])
        self.assertEqual(heard, {names[0]: ["last"],
                                 names[1]: ["h%d" % i for i in range(10, 20)] + ["last"],
                                 names[2]: ["h%d" % i for i in range(15, 20)] + ["last"]})
        self.assertTrue(resp.silent())
        resp.close()

    def test_whoever_comes_too_late_is_told(self):
        server = Server(None, "--events-max", "100")
        self.addCleanup(server.remove)
        r = server.client()
        r.execute_command("POOL", "CREATE", "p", "RANGE", 1, 100000)
        first = page(r)["oldest"]
        pipe = r.pipeline(transaction=False)
        for i in range(5000):
            pipe.execute_command("ALLOC", "p", "h")
        pipe.execute()
        until(lambda: order(page(r)["oldest"]) > order(first), "a thread lets the oldest go")
        got = page(r, "AFTER", first)
        self.assertEqual((got["lost"], got["events"][0]["id"]), (1, got["oldest"]))
        resp = Resp(server)
        names = ["events?after=" + first, "holder:h?after=" + first, "metrics:p"]
        subscribe(resp, *names)
        heard = {name: [] for name in names}
        while any(not h or h[-1]["id"] != got["newest"] for h in (heard[n] for n in names[:2])):
            said = resp.read()
            heard[said[1]].append(json.loads(said[2]) if '"lost"' not in said[2]
                                  else dict(json.loads(said[2]), id=""))
        for name in names[:2]:
            # It may be told again, as long as old files are still being let go.
            self.assertEqual(heard[name][0]["kind"], "lost")
            for before, said in zip(heard[name], heard[name][1:]):
                if before["kind"] == "lost":
                    self.assertEqual(said["id"], before["oldest"])
                elif said["kind"] != "lost":
                    self.assertEqual(order(said["id"])[0], order(before["id"])[0] + 1)
        self.assertEqual(heard["metrics:p"], [])
        # From the beginning is from whatever there is: nothing was promised, nothing is lost.
        other = Resp(server)
        subscribe(other, "events?after=0")
        self.assertEqual(message(other)["kind"], "lease.active")
        self.assertEqual(page(r)["lost"], 0)
        other.close()
        resp.close()


class Many(Case):
    def fill(self, count):
        self.do("POOL", "CREATE", "flood", "RANGE", 1, 10000000)
        for _ in range(count // 5000):
            pipe = self.r.pipeline(transaction=False)
            for _ in range(5000):
                pipe.execute_command("ALLOC", "flood", "h" * 128)
            pipe.execute()

    def test_a_reader_that_takes_nothing_for_a_while_gets_it_all(self):
        slow = Resp(self.server, 3)
        subscribe(slow, "pool:flood")
        quick = Resp(self.server)
        subscribe(quick, "events")
        before = page(self.r)["newest"]
        self.fill(20000)  # some 7 MB of messages: more than the sockets and the soft limit take
        mine = [c for c in self.r.client_list() if c["sub"] == "1" and c["resp"] == "3"]
        self.assertLess(int(mine[0]["omem"]), 1 << 20)
        for resp, count in (slow, 20001), (quick, 20001):
            ids = [message(resp)["id"] for _ in range(count)]
            self.assertEqual(len(set(ids)), count)
            self.assertEqual(ids, sorted(ids, key=order))
        self.assertTrue(before is None or order(before) < order(ids[0]))
        lease = pairs(self.do("ALLOC", "flood", "then"))["lease"]
        self.assertEqual(message(slow)["lease"], lease)
        self.assertEqual(message(quick)["lease"], lease)
        slow.close()
        quick.close()

    def test_subscribers_that_come_and_go_while_much_happens(self):
        self.do("POOL", "CREATE", "busy", "RANGE", 1, 10000000)
        resps = []
        for i in range(24):
            pipe = self.r.pipeline(transaction=False)
            for _ in range(50):
                pipe.execute_command("ALLOC", "busy", "h")
            pipe.execute()
            resp = Resp(self.server, 3)
            resps.append(resp)
            resp.send("SUBSCRIBE", "events", "pool:busy?after=0")
            resp.send("PSUBSCRIBE", "*")
            if i % 3 == 0:
                resp.send("UNSUBSCRIBE", "events")
            if i % 4 == 0:
                resps.pop(0).close()
        last = pairs(self.do("ALLOC", "busy", "last"))["lease"]
        for resp in resps:
            ids = []
            got = resp.read()
            while not (got[0] == "message" and got[1].startswith("pool:busy")
                       and json.loads(got[2]).get("lease") == last):
                if got[0] == "message" and got[1].startswith("pool:busy"):
                    ids.append(json.loads(got[2])["id"])
                got = resp.read()
            self.assertEqual(len(ids), 1201)
            self.assertEqual(len(set(ids)), 1201)
            resp.close()


class Idle(unittest.TestCase):
    def test_a_thousand_subscribers_and_none_is_dropped_for_being_idle(self):
        with tempfile.TemporaryDirectory(prefix="tenure-e2e-") as place:
            self.idle(os.path.join(place, "conf"))

    def reload(self, server, config, seconds):
        lines = text_of(server.log.name).count("changed=idle_seconds")
        with open(config, "w", encoding="ascii") as file:
            file.write("[server]\nidle_seconds = %d\n" % seconds)
        server.process.send_signal(signal.SIGHUP)
        until(lambda: text_of(server.log.name).count("changed=idle_seconds") > lines, "the reload")

    def idle(self, config):
        with open(config, "w", encoding="ascii"):
            pass
        server = Server(None, "--config", config)
        self.addCleanup(server.remove)
        with server.client() as client:
            client.execute_command("POOL", "CREATE", "few", "RANGE", 1, 100)
        many = [Resp(server, 2 + i % 2) for i in range(1000)]
        for i, resp in enumerate(many):
            if i % 3 == 2:
                resp.send("PSUBSCRIBE", "pool:f*w")
            else:
                resp.send("SUBSCRIBE", ("pool:few", "holder:one")[i % 3])
        for resp in many:
            self.assertEqual(resp.read()[2], 1)
        # Only now: until they had subscribed, they were as idle as any.
        self.reload(server, config, 1)
        for _ in range(2):  # the second is looked at when all others have been, after the first was
            with server.connect() as idle:
                self.assertEqual(idle.recv(1), b"")  # dropped; they, idle for longer, are not
        self.reload(server, config, 0)  # whoever comes now may take its time
        with server.client() as client:
            made = pairs(client.execute_command("ALLOC", "few", "one"))
        for resp in many:
            self.assertEqual(message(resp)["lease"], made["lease"])
        for resp in many:
            resp.close()
        with server.client() as client:
            until(lambda: int(client.info()["connected_clients"]) < 10, "all gone")


class Ends(unittest.TestCase):
    def test_one_event_that_is_too_much_for_a_connection_ends_only_that_connection(self):
        """256 long names, published 1024 times, are more than may be queued for one client."""
        server = Server()
        self.addCleanup(server.remove)
        r = server.client()
        pool = "p" * 64
        names = [("n%d-" % i).ljust(64, "x") for i in range(256)]
        r.execute_command("POOL", "CREATE", pool, "SET")
        r.execute_command("POOL", "ADD", pool, *names)
        greedy, modest = Resp(server, 3), Resp(server, 3)
        lsn = pairs(r.execute_command("TICK"))["lsn"]
        subscribe(greedy, *["events?after=%d.%d" % (lsn, i) for i in range(1024)])
        subscribe(modest, "events")
        self.assertEqual(r.info()["pubsub_channels"], 1025)
        r.execute_command("ALLOC", pool, "h", "COUNT", 256)
        self.assertEqual(len(message(modest)["values"]), 256)
        until(lambda: int(r.info()["slow_clients_dropped"]) == 1, "dropped")
        until(lambda: "reason=output" in text_of(server.log.name), "said so")
        until(lambda: r.info()["pubsub_channels"] == 1, "its names are gone with it")
        for resp in greedy, modest:
            resp.close()
        r.close()

    def test_a_large_event_for_many_comes_whole_and_once(self):
        """More than is rendered at a time: some clients get it from the tail, the others read it themselves."""
        server = Server(None, "--bundle-max", "4096")
        self.addCleanup(server.remove)
        r = server.client()
        pool = "p" * 64
        r.execute_command("POOL", "CREATE", pool, "SET")
        for begin in range(0, 4096, 1024):
            r.execute_command("POOL", "ADD", pool, *(("n%d-" % i).ljust(64, "x")
                                                     for i in range(begin, begin + 1024)))
        many = [Resp(server, 3) for _ in range(30)]
        for resp in many:
            subscribe(resp, "events", "pool:" + pool)
            resp.send("PSUBSCRIBE", "*")
            resp.read()
        r.execute_command("ALLOC", pool, "h", "COUNT", 4096)
        small = pairs(r.execute_command("POOL", "CREATE", "small", "RANGE", 1, 9))["lsn"]
        for resp in many:
            got = [resp.next_push() for _ in range(8)]
            self.assertEqual(sorted(m[-2] for m in got[:5]),
                             sorted(["events", "pool:" + pool] * 2 + ["holder:h"]))
            self.assertEqual({len(json.loads(m[-1])["values"]) for m in got[:5]}, {4096})
            self.assertEqual(sorted(m[-2] for m in got[5:]), ["events", "events", "pool:small"])
            self.assertEqual({json.loads(m[-1])["id"] for m in got[5:]}, {"%d.0" % small})
            self.assertTrue(resp.silent())
            resp.close()
        r.close()

    def test_a_server_with_subscribers_stops_when_told(self):
        server = Server()
        self.addCleanup(server.remove)
        resp = Resp(server, 3)
        subscribe(resp, "events?after=0")
        self.assertEqual(server.stop(), 0)
        self.assertEqual(receive_until(resp.socket, b"nothing"), b"")
        resp.close()

    def test_a_subscriber_that_never_reads_is_dropped(self):
        server = Server(None, "--slow-seconds", "3")
        self.addCleanup(server.remove)
        resp = Resp(server, 3)
        subscribe(resp, "events")
        r = server.client()
        r.execute_command("POOL", "CREATE", "p", "RANGE", 1, 10000000)

        def gone():
            for _ in range(20):  # so few at a time that our own socket takes all replies at once
                pipe = r.pipeline(transaction=False)
                for _ in range(100):
                    pipe.execute_command("ALLOC", "p", "h")
                pipe.execute()
            return int(r.info()["slow_clients_dropped"]) > 0
        until(gone, "dropped")
        resp.close()
        r.close()


if __name__ == "__main__":
    unittest.main()
