#!/usr/bin/env python3
"""The actor and the REASON of events, over every interface."""
import json
import unittest
import urllib.parse

from access_test import SECRET, World, user
from harness import pairs, until
from import_test import run
from resp import Resp

WHY = "the disk of host 7 fails, caf\u00e9"


class Actor(World):
    users = user("alice", "admin") + user("bob", "operator") + user("dora", "holder")

    def setUp(self):
        self.alice, self.bob, self.dora = (self.login(name) for name in ("alice", "bob", "dora"))
        self.pool = "p-" + self.id().rsplit(".", 1)[1][:50]
        self.alice.execute_command("POOL", "CREATE", self.pool, "RANGE", 1, 9)

    def events(self, kind=None, pool=None):
        got = pairs(self.alice.execute_command("EVENTS", "COUNT", 1000,
                                               *(["POOL", pool] if pool else [])))
        events = [pairs(e) for e in got["events"]]
        return [e for e in events if kind in (None, e["kind"])]

    def last(self, kind):
        return self.events(kind)[-1]

    def alloc(self, holder, *words):
        return pairs(self.dora.execute_command("ALLOC", self.pool, holder, *words))["lease"]

    def cli(self, *words, code=0, name="bob"):
        got = run(self.server.port, *words,
                  env={"TENURE_USER": name, "TENURE_SECRET": SECRET, "COLUMNS": "200"})
        self.assertEqual(got[0], code, got)
        return got[1]

    def test_an_event_names_the_user_whose_command_it_was(self):
        self.assertEqual(self.events("pool.created", self.pool)[0]["actor"], "alice")
        lease = self.alloc("job/1")
        born = self.last("lease.active")
        self.assertEqual((born["actor"], born["user"]), ("dora", "dora"))
        self.assertNotIn("reason_text", born)
        self.bob.execute_command("REVOKE", lease, "REASON", WHY)
        self.alice.execute_command("RECLAIM", lease, "REASON", "it is dead")
        revoking, revoked = self.last("lease.revoking"), self.last("lease.revoked")
        self.assertEqual([revoking[f] for f in ("actor", "user", "reason", "reason_text")],
                         ["bob", "dora", "revoked", WHY])
        self.assertEqual([revoked[f] for f in ("actor", "reason", "reason_text")],
                         ["alice", "reclaimed", "it is dead"])

    def test_what_time_does_has_no_actor(self):
        lease = self.alloc("job/2", "TTL", 1)
        until(lambda: any(e["lease"] == lease for e in self.events("lease.expired")), "the end")
        self.assertNotIn("actor", self.last("lease.expired"))
        lease = self.alloc("job/3")
        self.bob.execute_command("REVOKE", lease, "AFTER", 1, "REASON", WHY)
        until(lambda: any(e["lease"] == lease for e in self.events("lease.revoked")), "the end")
        ended = self.last("lease.revoked")
        self.assertEqual(("actor" in ended, "reason_text" in ended), (False, False))
        shown = json.loads(self.cli("--json", "history", "--holder", "job/3"))["history"]
        self.assertEqual([(s["end"], s["revoked_by"], s["revoked_text"], s.get("ended_by"))
                          for s in shown], [("revoked", "bob", WHY, None)])

    def test_every_operator_command_takes_a_reason(self):
        for words, kind in ((("POOL", "CREATE", "s", "SET"), "pool.created"),
                            (("POOL", "ALTER", "s", "LEASE", 60), "pool.altered"),
                            (("POOL", "ADD", "s", "a", "b"), "pool.added"),
                            (("POOL", "REMOVE", "s", "a"), "pool.removed"),
                            (("POOL", "DROP", "s"), "pool.dropped"),
                            (("RULE", "SET", "r", "t"), "rule.set"),
                            (("RULE", "DISABLE", "r"), "rule.set"),
                            (("RULE", "ENABLE", "r"), "rule.set"),
                            (("RULE", "DELETE", "r"), "rule.deleted"),
                            (("SENSOR", "SET", "x", "t", '{"command":["/bin/true"]}'),
                             "sensor.set"),
                            (("SENSOR", "DISABLE", "x"), "sensor.set"),
                            (("SENSOR", "DELETE", "x"), "sensor.deleted")):
            why = "because of " + " ".join(map(str, words[:2]))
            before = len(self.events(kind))
            self.alice.execute_command(*words, "REASON", why, "OPID", "%s-%s" % words[:2])
            self.assertEqual(len(self.events(kind)), before + 1, words)
            got = self.last(kind)
            self.assertEqual((got["actor"], got["reason_text"]), ("alice", why), words)
        lease = self.alloc("job/4")
        self.bob.execute_command("REKEY", lease, 1, "job/5", "REASON", "renamed")
        self.assertEqual(self.last("lease.rekeyed")["reason_text"], "renamed")
        self.bob.execute_command("DISOWN", "job/5", "REASON", "it has left")
        for kind in ("lease.released", "holder.disowned"):
            self.assertEqual([self.last(kind)[f] for f in ("actor", "reason_text")],
                             ["bob", "it has left"])
        lease = self.alloc("job/6")
        self.dora.execute_command("RELEASE", lease, "job/6", 1, "REASON", "done")
        self.assertEqual([self.last("lease.released")[f] for f in ("actor", "reason_text")],
                         ["dora", "done"])

    def test_a_reason_is_a_text_of_a_bounded_length(self):
        for why, says in (("x" * 257, "TOO_LARGE REASON: at most 256 bytes"),
                          ("", "MALFORMED REASON: it is empty"),
                          ("a\nb", "MALFORMED REASON: it contains control characters"),
                          (b"\xff", "MALFORMED REASON: it is not valid UTF-8")):
            with self.assertRaisesRegex(Exception, says):
                self.bob.execute_command("REVOKE", "0-1", "REASON", why)
        with self.assertRaisesRegex(Exception, "unexpected .REASON."):
            self.dora.execute_command("ALLOC", self.pool, "h", "REASON", "why not")
        lease = self.alloc("job/7")
        self.bob.execute_command("REVOKE", lease, "REASON", "x" * 256)
        self.assertEqual(self.last("lease.revoking")["reason_text"], "x" * 256)

    def test_over_http(self):
        lease = self.alloc("job/8")
        status, text, _ = self.http("POST", "/v1/leases/%s/revoke" % lease, "bob",
                                    body=json.dumps({"reason": WHY}))
        self.assertEqual(status, 200, text)
        status, text, _ = self.http("DELETE", "/v1/pools/none?reason=%s" % urllib.parse.quote(WHY),
                                    "alice")
        self.assertEqual(status, 404, text)
        status, text, _ = self.http("GET", "/v1/events?count=1000&pool=%s" % self.pool, "dora")
        event = [e for e in json.loads(text)["events"] if e["kind"] == "lease.revoking"][-1]
        self.assertEqual((event["actor"], event["reason_text"]), ("bob", WHY))

    def test_as_it_happens(self):
        three = Resp(self.server)
        self.addCleanup(three.close)
        self.assertEqual(three.do("HELLO", "3", "AUTH", "alice", SECRET)["proto"], 3)
        three.send("SUBSCRIBE", "pool:" + self.pool)
        three.read()
        lease = self.alloc("job/9")
        self.bob.execute_command("REVOKE", lease, "REASON", WHY)
        self.bob.execute_command("RECLAIM", lease)
        events = [json.loads(three.next_push()[-1]) for _ in range(3)]
        self.assertEqual([e["actor"] for e in events], ["dora", "bob", "bob"])
        self.assertEqual([e.get("reason_text") for e in events], [None, WHY, None])

    def test_the_command_line_gives_and_shows_it(self):
        lease = self.alloc("job/10")
        self.cli("revoke", lease, "--reason", "host 7 is sold")
        self.cli("reclaim", lease, name="alice")
        shown = self.cli("history", self.pool, "1")
        self.assertIn("reclaimed by alice (revoked by bob: host 7 is sold)", shown)
        shown = self.cli("events", "--pool", self.pool)
        self.assertIn("revoked by bob: host 7 is sold", shown)
        stint = json.loads(self.cli("--json", "history", self.pool, "1"))["history"][0]
        self.assertEqual([stint[f] for f in ("ended_by", "revoked_by", "revoked_text")],
                         ["alice", "bob", "host 7 is sold"])

    def test_it_is_there_after_a_kill(self):
        lease = self.alloc("job/11")
        self.bob.execute_command("REVOKE", lease, "REASON", WHY)
        before = self.events(pool=self.pool)
        self.server.stop(9)
        self.server.start()
        self.alice = self.login("alice")
        self.assertEqual(self.events(pool=self.pool), before)
        self.assertEqual(before[-1]["reason_text"], WHY)


if __name__ == "__main__":
    unittest.main()
