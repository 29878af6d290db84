"""Results of reads: figures of pools with excluded values, templates, lists and single values."""
import json
import re
import unittest
import urllib.error
import urllib.request

from harness import Case, Server, pairs, until
from resp import Asking, Error


class Looking(Asking):
    def refused(self, code, *words):
        reply = self.ask.do(*words)
        self.assertIsInstance(reply, Error, (words, reply))
        self.assertTrue(reply.startswith(code + " "), reply)
        return reply

    def figures(self, pool):
        info = self.do("POOL", "INFO", pool)
        return info["size"], info["free"], info["excluded"]

    def metric(self, name, pool):
        url = "http://127.0.0.1:%d/metrics" % self.server.http_port
        with urllib.request.urlopen(url) as reply:
            text = reply.read().decode()
        return float(re.search(r'(?m)^tenure_%s\{pool="%s"\} (\S+)' % (name, pool), text).group(1))

    def test_excluded_values_are_neither_free_nor_part_of_the_occupancy(self):
        self.do("POOL", "CREATE", "few", "RANGE", 1, 10, "EXCLUDE", "4-10")
        self.assertEqual(self.figures("few"), (3, 3, 7))
        self.do("ALLOC", "few", "a", "COUNT", 3)
        self.assertEqual(self.figures("few"), (3, 0, 7))
        self.assertEqual(self.metric("pool_occupancy_ratio", "few"), 1)
        self.assertEqual(self.metric("pool_free", "few"), 0)
        self.assertEqual(self.metric("pool_exhaustion_seconds", "few"), 0)
        self.refused("EXHAUSTED", "ALLOC", "few", "b")

    def test_figures_of_the_largest_range(self):
        top = 2 ** 64 - 1
        self.do("POOL", "CREATE", "none", "RANGE", 0, top, "EXCLUDE", "0-%d" % top)
        self.assertEqual(self.figures("none")[:2], (0, 0))
        self.do("POOL", "CREATE", "one", "RANGE", 0, top, "EXCLUDE", "1-%d" % top)
        self.assertEqual(self.figures("one")[:2], (1, 1))

    def test_too_many_names_for_one_command_are_refused_with_the_limit(self):
        self.do("POOL", "CREATE", "names", "SET")
        for word in ("ADD", "REMOVE"):
            told = self.refused("TOO_LARGE", "POOL", word, "names", *range(5000))
            self.assertIn("at most 4096 names in one command", told)

    def test_a_quota_that_a_rekey_would_exceed_is_not_told_as_zero(self):
        self.do("POOL", "CREATE", "mine", "RANGE", 1, 9, "MAX_PER_HOLDER", 1)
        self.do("ALLOC", "mine", "full")
        lease = self.do("ALLOC", "mine", "other")
        self.assertNotIn("cap=", self.refused("QUOTA", "REKEY", lease["lease"], 1, "full"))
        self.assertIn("cap=1", self.refused("QUOTA", "ALLOC", "mine", "full"))

    def test_an_excluded_value_in_use_counts_while_it_is(self):
        self.do("POOL", "CREATE", "static", "RANGE", 1, 10, "EXCLUDE", "4-10")
        held = self.do("ALLOC", "static", "a", "VALUES", 2, 7, 8)
        self.assertEqual(self.figures("static"), (5, 3, 5))
        self.do("RELEASE", held["lease"], "a", held["epoch"])
        self.assertEqual(self.figures("static"), (3, 3, 7))
        self.do("ALLOC", "static", "b", "COUNT", 2)
        self.do("POOL", "ALTER", "static", "EXCLUDE", "1-5")  # to drain them
        self.assertEqual(self.figures("static"), (7, 5, 3))

    def test_more_than_a_pool_can_ever_give_is_too_large(self):
        self.do("POOL", "CREATE", "ten", "RANGE", 1, 12, "EXCLUDE", "11-12")
        self.do("ALLOC", "ten", "a")
        self.assertIn("cap=10", self.refused("TOO_LARGE", "ALLOC", "ten", "b", "COUNT", 200))
        self.refused("TOO_LARGE", "ALLOC", "b", "FROM", "ten", "COUNT", 6, "FROM", "ten", "COUNT", 6)
        self.refused("EXHAUSTED", "ALLOC", "ten", "b", "COUNT", 10)
        self.do("POOL", "CREATE", "empty", "SET")
        self.refused("EXHAUSTED", "ALLOC", "empty", "b")

    def test_a_template_sums_its_scopes(self):
        self.do("POOL", "CREATE", "ports", "RANGE", 1, 10, "EXCLUDE", "10", "SCOPED", "yes")
        leases = [self.do("ALLOC", "ports@" + scope, "a", "COUNT", 2) for scope in ("x", "y", "z")]
        self.do("REVOKE", leases[0]["lease"], "AFTER", 600)
        self.do("RELEASE", leases[1]["lease"], "a", leases[1]["epoch"])
        info = self.do("POOL", "INFO", "ports")
        self.assertEqual([info[key] for key in ("scopes", "size", "excluded", "free", "active", "revoking",
                                                "allocated_total", "released_total")],
                         [2, 18, 2, 14, 2, 2, 6, 2])
        self.refused("TOO_LARGE", "ALLOC", "ports@x", "b", "COUNT", 99)
        url = "http://127.0.0.1:%d/metrics" % self.server.http_port
        with urllib.request.urlopen(url) as reply:
            text = reply.read().decode()
        self.assertIn('tenure_pool_refusals_total{pool="ports",result="TOO_LARGE"} 1', text)

    def test_a_lease_shows_what_ended_it_when_it_retires_and_what_is_left(self):
        self.do("POOL", "CREATE", "timed", "RANGE", 1, 10, "LEASE", 3600)
        held = self.do("ALLOC", "timed", "a")
        shown = self.do("LEASE", held["lease"])
        self.assertIn(shown["seconds_left"], range(1, 3601))
        self.assertEqual((shown["ended_lsn"], shown["retires"]), (None, None))
        ended = self.do("RELEASE", held["lease"], "a", held["epoch"])
        shown = self.do("LEASE", held["lease"])
        self.assertEqual((shown["ended_lsn"], shown["seconds_left"]), (ended["lsn"], None))
        self.assertEqual(shown["retires"], shown["ended"] + 3600 * 1000)
        self.do("POOL", "CREATE", "kept", "RANGE", 1, 10)
        self.do("ALLOC", "kept", "a")
        self.assertIsNone(self.do("LEASES", "POOL", "kept")["leases"][0]["seconds_left"])

    def many(self, count, *words):
        """Sends the same request this many times without waiting; returns the replies."""
        for _ in range(count):
            self.ask.send(*words)
        return [self.ask.read() for _ in range(count)]

    def walk(self, *words):
        leases, cursor, pages = [], "0", 0
        while cursor != "0" or pages == 0:
            page = self.do("LEASES", *words, "CURSOR", cursor)
            leases += page["leases"]
            cursor, pages = str(page["cursor"]), pages + 1
            yield page["leases"], leases
        return

    def test_filtered_lists_are_whole_among_many_others(self):
        self.do("POOL", "CREATE", "large", "RANGE", 1, 100000)
        self.do("POOL", "CREATE", "small", "RANGE", 1, 100000)
        self.many(5000, "ALLOC", "large", "filler")
        self.many(1200, "ALLOC", "small", "one")
        page = self.do("LEASES", "HOLDER", "one", "COUNT", 1000)
        self.assertEqual((len(page["leases"]), str(page["cursor"]) != "0"), (1000, True))
        rest = self.do("LEASES", "HOLDER", "one", "COUNT", 1000, "CURSOR", page["cursor"])
        self.assertEqual((len(rest["leases"]), str(rest["cursor"])), (200, "0"))
        self.assertEqual(len({row["lease"] for row in page["leases"] + rest["leases"]}), 1200)
        self.assertEqual(len(self.do("LEASES", "POOL", "small", "COUNT", 1000)["leases"]), 1000)
        self.assertEqual(len(self.do("LEASES", "HOLDER", "filler", "COUNT", 1000)["leases"]), 1000)
        self.assertEqual(self.do("LEASES", "HOLDER", "one", "POOL", "large")["leases"], [])

    def rows(self, pool, *words):
        rows, cursor = [], "0"
        while True:
            page = self.do("POOL", "VALUES", pool, *words, "CURSOR", cursor)
            rows += [(row["value"], row["last"], row["state"], row["holder"]) for row in page["values"]]
            cursor = str(page["cursor"])
            if cursor == "0":
                return rows

    def test_the_values_of_a_range_are_used_ones_and_spans(self):
        self.do("POOL", "CREATE", "ids", "RANGE", "1-16777216,20000000-20000009", "EXCLUDE", "3-4",
                "COOLDOWN", 600)
        span = ("5", "16777216", "available", None)
        self.assertEqual(self.rows("ids"), [("1", "2", "available", None), ("3", "4", "excluded", None),
                                            span, ("20000000", "20000009", "available", None)])
        held = self.do("ALLOC", "ids", "me", "VALUES", 2, 3, 20000009)
        gone = self.do("ALLOC", "ids", "you")
        self.do("RELEASE", gone["lease"], "you", 1)
        want = [("1", "1", "cooling", "you"), ("2", "2", "available", None),
                ("3", "3", "active", "me"), ("4", "4", "excluded", None), span,
                ("20000000", "20000008", "available", None), ("20000009", "20000009", "active", "me")]
        self.assertEqual(self.rows("ids"), want)
        self.assertEqual(self.rows("ids", "COUNT", 1), want)
        self.assertEqual(self.rows("ids", "STATE", "active"), [want[2], want[6]])
        self.assertEqual(self.rows("ids", "STATE", "available"), [want[1], want[4], want[5]])
        page = self.do("POOL", "VALUES", "ids", "STATE", "cooling")
        self.assertEqual((page["values"][0]["lease"], page["values"][0]["count"]), (gone["lease"], 1))
        cooled = self.do("LEASE", gone["lease"])["ended"] + 600000
        self.assertEqual(page["values"][0]["until"], cooled)
        shown = self.do("VALUE", "ids/20000009")
        self.assertEqual((shown["state"], shown["lease"], shown["epoch"], shown["holder"]),
                         ("active", held["lease"], 1, "me"))
        self.refused("MALFORMED", "POOL", "VALUES", "ids", "STATE", "released")
        self.refused("POOL_NOTFOUND", "POOL", "VALUES", "nosuch")

    def test_values_are_written_in_the_format_of_their_pool(self):
        self.do("POOL", "CREATE", "net", "RANGE", "10.0.0.0/24", "FORMAT", "ipv4", "EXCLUDE", "10.0.0.0")
        self.do("ALLOC", "net", "a")
        self.assertEqual(self.rows("net")[1:], [("10.0.0.1", "10.0.0.1", "active", "a"),
                                                ("10.0.0.2", "10.0.0.255", "available", None)])
        self.assertEqual(self.do("VALUE", "net/10.0.0.1")["holder"], "a")
        self.refused("BAD_VALUE", "VALUE", "net/10.0.1.0")

    def test_the_members_of_a_set_are_listed_held_or_not(self):
        self.do("POOL", "CREATE", "gpus", "SET")
        self.do("POOL", "ADD", "gpus", "g1", "g2", "g3", "g4")
        self.do("POOL", "REMOVE", "gpus", "g2")
        lease = self.do("RESERVE", "job", "TTL", 60, "FROM", "gpus", "VALUES", 1, "g3")
        self.assertEqual(self.rows("gpus", "COUNT", 2), [("g1", None, "available", None),
                                                         ("g3", None, "reserved", "job"),
                                                         ("g4", None, "available", None)])
        self.do("RELEASE", lease["lease"], "job", 1)
        shown = self.do("VALUE", "gpus/g3")
        self.assertEqual((shown["state"], shown["lease"], shown["last_lease"], shown["last_holder"]),
                         ("available", None, lease["lease"], "job"))
        self.assertIsNone(self.do("VALUE", "gpus/g1")["last_holder"])
        self.refused("BAD_VALUE", "VALUE", "gpus/g2")
        self.refused("MALFORMED", "VALUE", "gpus")

    def test_a_template_has_no_values_and_a_scope_has_before_its_first_use(self):
        self.do("POOL", "CREATE", "tmpl", "RANGE", 1, 9, "SCOPED", "yes")
        self.assertIn("tmpl@", self.refused("BAD_REQUEST", "POOL", "VALUES", "tmpl"))
        self.assertEqual(self.rows("tmpl@new"), [("1", "9", "available", None)])
        self.assertEqual(self.do("VALUE", "tmpl@new/3")["state"], "available")
        self.do("ALLOC", "tmpl@new", "a")
        self.assertEqual(self.rows("tmpl@new")[0], ("1", "1", "active", "a"))

    def test_busy_tells_who_is_in_the_way_and_until_when(self):
        self.do("POOL", "CREATE", "locks", "RANGE", 1, 9, "COOLDOWN", 600)
        held = self.do("ALLOC", "locks", "job 1=%", "VALUES", 1, 3, "TTL", 60)
        said = self.refused("BUSY", "ALLOC", "locks", "other", "VALUES", 2, 4, 3)
        facts = dict(word.split("=") for word in said.split() if "=" in word)
        self.assertEqual({key: facts[key] for key in ("index", "lease", "epoch", "state", "holder", "until")},
                         {"index": "1", "lease": held["lease"], "epoch": "1", "state": "active",
                          "holder": "job%201%3D%25", "until": str(held["deadline"])})
        request = urllib.request.Request(
            "http://127.0.0.1:%d/v1/pools/locks/leases" % self.server.http_port,
            b'{"holder": "other", "values": ["3"]}', {"Content-Type": "application/json"})
        with self.assertRaises(urllib.error.HTTPError) as caught:
            urllib.request.urlopen(request)
        problem = json.load(caught.exception)
        self.assertEqual((problem["result"], problem["holder"], problem["lease"], problem["until"]),
                         ("BUSY", "job 1=%", held["lease"], str(held["deadline"])))
        self.do("RELEASE", held["lease"], "job 1=%", 1)
        said = self.refused("BUSY", "ALLOC", "locks", "other", "VALUES", 1, 3)
        cooled = self.do("LEASE", held["lease"])["ended"] + 600000
        self.assertIn(" retry_at=%d " % cooled, said)
        self.assertNotIn("holder=", said)

    def test_busy_repeated_for_an_operation_names_nobody_who_is_gone(self):
        self.do("POOL", "CREATE", "once", "RANGE", 1, 9)
        held = self.do("ALLOC", "once", "first", "VALUES", 1, 3)
        again = ("ALLOC", "once", "other", "VALUES", 1, 3, "OPID", "o1")
        self.assertIn("holder=first", self.refused("BUSY", *again))
        self.do("RELEASE", held["lease"], "first", 1)
        said = self.refused("BUSY", *again)
        self.assertIn("replayed=1", said)
        self.assertNotIn("first", said)

    def test_a_scope_may_have_its_own_range_and_policy(self):
        self.do("POOL", "CREATE", "con", "RANGE", 1, 10, "SCOPED", "yes", "LEASE", 60)
        self.do("POOL", "CREATE", "con@hw1", "RANGE", 100, 104, "MAX_PER_HOLDER", 1)
        again = self.do("POOL", "CREATE", "con@hw1", "RANGE", 100, 104, "MAX_PER_HOLDER", 1)
        self.assertEqual(again["result"], "NOOP")
        self.assertIn("option=lo", self.refused("EXISTS", "POOL", "CREATE", "con@hw1", "RANGE", 90, 104))
        self.assertEqual(self.do("ALLOC", "con@hw1", "a")["values"], ["100"])
        self.refused("QUOTA", "ALLOC", "con@hw1", "a")
        self.assertEqual(self.do("ALLOC", "con@other", "a", "COUNT", 2)["values"], ["1", "2"])
        self.assertEqual(self.figures("con"), (15, 12, 0))
        self.do("POOL", "ALTER", "con", "LEASE", 120, "RANGE", 1, 20)
        options = self.do("POOL", "INFO", "con@hw1")["options"]
        self.assertEqual((options["lo"], options["hi"], options["lease"]), ("100", "104", "120"))
        self.do("POOL", "ALTER", "con@hw1", "LEASE", 5)
        self.do("POOL", "ALTER", "con", "LEASE", 240)
        self.assertEqual(self.do("POOL", "INFO", "con@hw1")["options"]["lease"], "5")
        self.do("POOL", "ALTER", "con@hw1", "MAX_LEASE", 10)
        self.assertEqual(self.figures("con"), (25, 22, 0))
        self.do("DISOWN", "a")
        self.assertEqual(self.do("POOL", "INFO", "con@hw1")["free"], 5)
        self.refused("POOL_NOTFOUND", "POOL", "INFO", "con@other")
        self.refused("POOL_IN_USE", "POOL", "DROP", "con")
        self.do("POOL", "DROP", "con@hw1")
        self.do("POOL", "DROP", "con")
        self.refused("POOL_NOTFOUND", "POOL", "CREATE", "con@hw1")
        self.do("POOL", "CREATE", "plain", "RANGE", 1, 10)
        self.refused("POOL_NOTFOUND", "POOL", "CREATE", "plain@x")

    def test_what_all_scopes_share_is_not_one_scopes_own(self):
        self.do("POOL", "CREATE", "tog", "RANGE", 1, 10, "SCOPED", "yes")
        for words in (("STICKY", "yes", "LEASE", 60), ("SCOPED", "no")):
            self.refused("BAD_REQUEST", "POOL", "CREATE", "tog@x", *words)
        self.do("POOL", "CREATE", "tog@x", "MAX_LEASE", 10, "LEASE", 10)
        self.do("POOL", "ALTER", "tog", "LEASE", 60)
        self.do("POOL", "CREATE", "tog@y", "MAX_LEASE", 100)
        self.refused("BAD_POLICY", "POOL", "ALTER", "tog", "LEASE", 600)
        self.assertEqual(self.do("POOL", "INFO", "tog")["options"]["lease"], "60")

    def test_a_list_of_a_pool_that_is_not_there_is_refused(self):
        self.refused("POOL_NOTFOUND", "LEASES", "POOL", "nosuch")
        self.do("POOL", "CREATE", "made", "RANGE", 1, 9, "SCOPED", "yes")
        self.assertEqual(self.do("LEASES", "POOL", "made@nobody")["leases"], [])
        self.refused("POOL_NOTFOUND", "LEASES", "POOL", "other@nobody")

    def test_a_walk_finds_each_lease_that_stays_once_whatever_comes_and_goes(self):
        self.do("POOL", "CREATE", "busy", "RANGE", 1, 100000)
        for by in (("HOLDER", "walked"), ("POOL", "busy")):
            stay = self.many(100, "ALLOC", "busy", "walked")
            go = self.many(100, "ALLOC", "busy", "walked")
            more = self.many(100, "ALLOC", "busy", "walked")
            stay = {row["lease"] for row in stay + more}
            for _, leases in self.walk(*by, "COUNT", 20):
                for row in [go.pop() for _ in range(min(7, len(go)))]:
                    self.do("RELEASE", row["lease"], "walked", row["epoch"])
                self.many(3, "ALLOC", "busy", "walked")
            found = [row["lease"] for row in leases if row["lease"] in stay]
            self.assertEqual(len(found), len(stay), by)
            self.assertEqual(set(found), stay, by)
            self.do("DISOWN", "walked")


class Forgotten(unittest.TestCase):
    def test_a_value_does_not_show_its_last_holder_after_its_retention(self):
        server = Server(None, "--history-seconds", "1")
        self.addCleanup(server.remove)
        with server.client() as client:
            client.execute_command("POOL", "CREATE", "p", "RANGE", 1, 9)
            lease = pairs(client.execute_command("ALLOC", "p", "gone"))
            client.execute_command("RELEASE", lease["lease"], "gone", lease["epoch"])
            # Nothing is due, so no tick comes to remove it.
            until(lambda: "gone" not in client.execute_command("VALUE", "p/1"),
                  "the last holder is not shown")


class Selecting(Case):
    """The selections of EVENTS and LEASES."""

    def chosen(self, *words):
        page = pairs(self.do("EVENTS", "COUNT", 1000, *words))
        return [(e["kind"], e.get("holder")) for e in map(pairs, page["events"])]

    def test_events(self):
        for pool in ("left", "right"):
            self.do("POOL", "CREATE", pool, "RANGE", 1, 9)
        both = pairs(self.do("ALLOC", "Bundle/1", "FROM", "left", "VALUES", 1, 3, "FROM", "right", "VALUES", 1, 5))
        self.do("ALLOC", "left", "single/1", "VALUES", 1, 5)
        self.do("REVOKE", both["lease"], "REASON", "It smokes")
        bundle, single = ("lease.active", "Bundle/1"), ("lease.active", "single/1")
        ended = ("lease.revoking", "Bundle/1")
        self.assertEqual(self.chosen("KIND", "lease."), [bundle, single, ended])
        self.assertEqual(self.chosen("KIND", "lease.revoking"), [ended])
        self.assertEqual(self.chosen("KIND", "lease"), [])  # neither a kind nor up to a dot
        self.assertEqual(self.chosen("LEASE", both["lease"]), [bundle, ended])
        self.assertEqual(self.chosen("POOL", "left", "VALUE", 3), [bundle, ended])
        self.assertEqual(self.chosen("POOL", "left", "VALUE", 5), [single])  # the bundle's 5 is of the other pool
        self.assertEqual(self.chosen("TEXT", "BUNDLE"), [bundle, ended])
        self.assertEqual(self.chosen("TEXT", "smokes"), [ended])
        self.assertEqual(self.chosen("TEXT", "smokes", "HOLDER", "single/1"), [])
        self.assertEqual(self.chosen("ACTOR", "nobody"), [])

    def test_leases_by_the_beginning_of_the_holder(self):
        self.do("POOL", "CREATE", "begun", "RANGE", 1, 9)
        for holder in ("job/1", "job/2", "jo", "other"):
            self.do("ALLOC", "begun", holder)

        def holders(*words):
            return sorted(pairs(lease)["holder"] for lease in pairs(self.do("LEASES", *words))["leases"])
        self.assertEqual(holders("PREFIX", "job/"), ["job/1", "job/2"])
        self.assertEqual(holders("PREFIX", "jo", "POOL", "begun"), ["jo", "job/1", "job/2"])
        self.assertEqual(holders("PREFIX", "job/1", "HOLDER", "job/2"), [])
        self.assertEqual(holders("PREFIX", "x"), [])

class Sorted(Asking):
    """POOL LIST SORT and MATCH look at all pools, not only at those of one page."""

    def names(self, *words):
        reply = self.do("POOL", "LIST", *words)
        self.assertEqual(reply["cursor"], 0)
        return [pool["pool"] for pool in reply["pools"]], reply["matched"]

    def test_the_order_and_what_matches(self):
        pools = 3000  # more than one turn and more than one page
        for i in range(pools):
            self.ask.send("POOL", "CREATE", "p%04d" % i, "RANGE", 1, 10)
        for _ in range(pools):
            self.ask.read()
        for name, used in (("p2998", 9), ("p0007", 10), ("p1500", 1), ("p1400", 1)):
            self.do("ALLOC", name, "h", "COUNT", used)
        self.do("POOL", "CREATE", "small", "RANGE", 1, 2)
        self.do("POOL", "CREATE", "nets", "RANGE", 1, 10, "SCOPED", "yes")
        self.do("ALLOC", "nets@blue", "h", "COUNT", 8)
        self.assertEqual(self.names("SORT", "occupancy", "COUNT", 5),
                         (["p0007", "p2998", "nets", "nets@blue", "p1400"], pools + 3))
        self.assertEqual(self.names("SORT", "free", "COUNT", 3, "SCOPES", "no"),
                         (["p0007", "p2998", "nets"], pools + 2))
        self.assertEqual(self.names("SORT", "name", "COUNT", 2), (["nets", "nets@blue"], pools + 3))
        self.assertEqual(self.names("SORT", "occupancy", "MATCH", "p15*", "COUNT", 2), (["p1500", "p1501"], 100))
        self.assertEqual(self.names("SORT", "waiting", "MATCH", "none*"), ([], 0))
        whole, _ = self.names("SORT", "name", "COUNT", 1000)
        self.assertEqual(whole, sorted(whole))
        self.assertEqual(len(whole), 1000)
        url = "http://127.0.0.1:%d/v1/pools?sort=occupancy&count=1&match=p2*" % self.server.http_port
        with urllib.request.urlopen(url) as reply:
            page = json.loads(reply.read())
        self.assertEqual((page["pools"][0]["pool"], page["matched"]), ("p2998", "1000"))
        with self.server.standstill():  # a client that leaves in the middle of its list is forgotten
            for _ in range(20):
                gone = self.server.connect()
                gone.sendall(b"POOL LIST SORT occupancy COUNT 1000\r\n")
                gone.close()
        self.assertEqual(self.names("SORT", "waiting", "COUNT", 1, "SCOPES", "no")[1], pools + 2)


class Matching(Asking):
    def test_a_pattern_alone_is_a_list_in_pages(self):
        for name in ("few-1", "few-2", "many"):
            self.do("POOL", "CREATE", name, "RANGE", 1, 10)
        found, cursor = [], 0
        while True:
            page = self.do("POOL", "LIST", "MATCH", "few-[12]", "COUNT", 1, "CURSOR", cursor)
            self.assertNotIn("matched", page)
            found += [pool["pool"] for pool in page["pools"]]
            cursor = page["cursor"]
            if cursor == 0:
                break
        self.assertEqual(found, ["few-1", "few-2"])

    def test_what_does_not_go_together_is_refused(self):
        for words, why in ((("SORT", "age"), "SORT must be occupancy"), (("SCOPES", "maybe"), "SCOPES must be"),
                           (("SORT", "name", "CURSOR", 5), "takes no CURSOR")):
            reply = self.ask.do("POOL", "LIST", *words)
            self.assertIsInstance(reply, Error)
            self.assertIn(why, reply)


class Positions(Asking):
    """Every answer from the state contains the log position of that state."""

    def reads(self):
        return (("LEASE", "p/1"), ("LEASES",), ("VERIFY", self.lease, 1), ("EVENTS",), ("VALUE", "p/1"), ("POOL", "INFO", "p"),
                ("POOL", "LIST"), ("POOL", "VALUES", "p"), ("POOL", "METRICS", "p"), ("RULE", "INFO", "r"), ("RULE", "LIST"),
                ("SENSOR", "INFO", "s"), ("SENSOR", "LIST"), ("SENSOR", "STATUS", "s"))

    def test_a_read_and_its_refusal_tell_the_position(self):
        self.do("POOL", "CREATE", "p", "STICKY", "yes", "RANGE", 1, 9)
        self.lease = self.do("ALLOC", "p", "h")["lease"]
        self.do("RULE", "SET", "r", "t")
        last = pairs(self.server.local().execute_command("SENSOR", "SET", "s", "other", '{"command": ["/bin/true"]}'))["lsn"]
        for words in self.reads():
            with self.subTest(words=words):
                self.assertEqual(self.do(*words)["lsn"], last)
        for words in (("VERIFY", self.lease, 2), ("VERIFY", "0-99", 1), ("LEASE", "0-99"), ("LEASE", "p/2"), ("VALUE", "p/99"),
                      ("POOL", "INFO", "q"), ("RULE", "INFO", "q"), ("SENSOR", "INFO", "q"), ("SENSOR", "STATUS", "q")):
            with self.subTest(words=words):
                reply = self.ask.do(*words)
                self.assertIsInstance(reply, Error)
                self.assertTrue(reply.endswith(" lsn=%d" % last), reply)
        with self.assertRaises(urllib.error.HTTPError) as refused:
            urllib.request.urlopen("http://127.0.0.1:%d/v1/leases/%s/verify?epoch=2" % (self.server.http_port, self.lease))
        problem = json.load(refused.exception)
        self.assertEqual((problem["result"], problem["outcome"], problem["lsn"]), ("STALE", "committed", str(last)))
        self.assertEqual(refused.exception.headers["Tenure-LSN"], str(last))
        refused.exception.close()

    def test_what_the_state_was_not_asked_about_has_no_position(self):
        for words in (("VERIFY", "nonsense", 1), ("VERIFY", "0-1", 1, "FENCE", 2 ** 40)):
            self.assertNotIn("lsn=", self.ask.do(*words))


class Streams(Case):
    """The stream of events is filtered by the server."""

    def test_a_stream_has_the_filters_of_a_page(self):
        self.do("POOL", "CREATE", "flow", "RANGE", 1, 99)
        lease = pairs(self.do("ALLOC", "flow", "Loud/1"))["lease"]
        for query, wanted in (("kind=lease.active&pool=flow", ["Loud/1", "quiet/1"]), ("text=LOUD%2F1", ["Loud/1"]),
                              ("lease=" + lease, ["Loud/1"]), ("pool=flow&value=2", ["quiet/1"]),
                              ("holder=quiet%2F1&kind=lease.", ["quiet/1"]), ("actor=nobody", [])):
            with self.subTest(query=query):
                with urllib.request.urlopen("http://127.0.0.1:%d/v1/events?format=sse&after=0.1&%s"
                                            % (self.server.http_port, query), timeout=120) as stream:
                    if len(wanted) > 1 or "quiet/1" in wanted:
                        self.do("ALLOC", "flow", "quiet/1", "VALUES", 1, 2)
                    got = []
                    while len(got) < len(wanted):
                        line = stream.readline().decode()
                        if line.startswith("data: "):
                            got.append(json.loads(line[6:])["holder"])
                    self.assertEqual(got, wanted)
                held = pairs(self.do("VALUE", "flow/2"))
                if held["lease"]:
                    self.do("RELEASE", held["lease"], "quiet/1", held["epoch"])

    def test_what_a_stream_does_not_know_is_refused(self):
        for query in ("colour=red", "lease=nonsense", "text=" + "x" * 300, "actor=" + "x" * 300):
            with self.assertRaises(urllib.error.HTTPError) as refused:
                urllib.request.urlopen("http://127.0.0.1:%d/v1/events?format=sse&%s"
                                       % (self.server.http_port, query), timeout=120)
            self.assertEqual(refused.exception.code, 400)
            refused.exception.close()


class SensorRows(Case):
    def test_a_list_has_all_that_the_status_of_each_has(self):
        self.do("SENSOR", "SET", "listed", "t", json.dumps({"command": ["/bin/true"]}))
        row = pairs(pairs(self.do("SENSOR", "LIST"))["sensors"][0])
        status = pairs(self.do("SENSOR", "STATUS", "listed"))
        del status["lsn"]  # the list has one for all its rows
        self.assertEqual(row, status)
        self.do("SENSOR", "DELETE", "listed")


if __name__ == "__main__":
    unittest.main()
