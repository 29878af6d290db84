#!/usr/bin/env python3
"""Clients of a cluster: which node answers which request, what happens to connections when the log moves to another
node, and how clients of Redis find the owner. Real servers over made-up logs, which a test hands from one
node to another."""
# tsan
import http.client
import itertools
import json
import os
import signal
import socket
import struct
import subprocess
import threading
import unittest

import redis
from redis.sentinel import MasterNotFoundError, Sentinel

from fakecluster import FakeCluster
from harness import BUILD, PATIENCE, pairs, until
from resp import Error, Resp

SOURCE = os.environ.get("TENURE_SOURCE_DIR", ".")


class Case(unittest.TestCase):
    def setUp(self):
        self.cluster = FakeCluster()
        self.addCleanup(self.cluster.remove)
        self.nodes = self.cluster.nodes
        self.do = self.cluster.do
        owner = self.connect(0)
        self.assertEqual(pairs(owner.do("POOL", "CREATE", "p", "RANGE", "1", "100", "LEASE", "600"))["result"],
                         "OK")
        owner.close()
        self.do("sync")

    def connect(self, n, version=2):
        connection = Resp(self.nodes[n], version)
        self.addCleanup(connection.close)
        return connection

    def role_is(self, n, role):
        """Waits for the role: the loop of a server learns it a moment later."""
        until(lambda: self.nodes[n].role() == role, "node %d is %s" % (n, role))

    def lost(self):
        """No node owns the log; the last owner has closed the connections that it had."""
        idle = self.connect(0)
        idle.do("PING")
        self.do("lost")
        self.ends(idle)

    def rest(self, connection):
        """All replies up to the end of the connection."""
        replies = []
        try:
            while True:
                replies.append(connection.read())
        except (EOFError, ConnectionError):
            return replies

    def ends(self, connection):
        with self.assertRaises((EOFError, ConnectionError)):
            while True:
                connection.more()


class Refusals(Case):
    def test_a_follower_names_the_owner_for_writes_and_reads(self):
        follower = self.connect(1)
        for words in (["ALLOC", "p", "h"], ["POOL", "INFO", "p"], ["POOL", "INFO", "missing"],
                      ["LEASES", "POOL", "missing"], ["TOUCH", "0-1", "1"], ["TICK"], ["TOKEN", "ROTATE"],
                      ["VERIFY", "0-2", "1"], ["ALLOC"], ["SWEEP", "NONSENSE"]):
            reply = follower.do(*words)
            self.assertIsInstance(reply, Error, words)
            if words != ["ALLOC"]:  # too few words are refused wherever it is
                self.assertEqual(reply, "READONLY another node owns the log; ask it leader=%s leader_http="
                                 "127.0.0.1:%d" % (self.nodes[0].address, self.nodes[0].http_port), words)
        self.assertEqual(follower.do("PING"), "PONG")
        self.assertEqual(follower.do("SNAPSHOT"), "OK")
        self.assertIn("events", pairs(follower.do("EVENTS")))

    def test_without_an_owner_every_node_says_so(self):
        self.lost()
        for n in range(3):
            connection = self.connect(n)
            self.assertEqual(connection.do("ALLOC", "p", "h"),
                             "MASTERDOWN no node owns the log now; try again")
            self.assertEqual(connection.do("POOL", "INFO", "p"),
                             "MASTERDOWN no node owns the log now; try again")

    def test_an_owner_whose_time_is_over_does_not_answer_reads(self):
        owner = self.connect(0)
        self.do("expire")
        self.assertEqual(owner.do("POOL", "INFO", "p"), "MASTERDOWN no node owns the log now; try again")

    def test_an_owner_whose_time_was_over_long_ago_is_none(self):
        owner, reader, writer = self.connect(0), self.connect(0), self.connect(0)
        owner.do("PING")
        reader.do("READONLY")
        self.do("shut")
        writer.send("ALLOC", "p", "h")  # in the log or not: that is not known yet
        self.do("waiting")
        self.do("lapse")
        self.role_is(0, "slave")
        self.ends(owner)
        self.assertEqual(pairs(reader.do("POOL", "INFO", "p"))["active"], 0)
        for words in (("ALLOC", "p", "h"), ("POOL", "INFO", "p")):
            self.assertEqual(self.connect(0).do(*words), "MASTERDOWN no node owns the log now; try again")
        with self.nodes[0].client() as client:
            self.assertEqual(client.info("replication")["role"], "slave")
        self.assertNotIn("event=following", self.cluster.said())  # the engine has not been told
        self.do("renew")
        self.role_is(0, "master")
        self.do("open")
        self.assertEqual(pairs(writer.read())["result"], "OK")
        self.assertEqual(pairs(self.connect(0).do("ALLOC", "p", "h"))["result"], "OK")

    def test_a_read_waits_for_a_renewal_that_is_late(self):
        owner = self.connect(0)
        refusal = "MASTERDOWN no node owns the log now; try again"

        def answered():
            self.do("expire")
            owner.send("POOL", "INFO", "p")
            self.do("renew")
            reply = owner.read()
            return reply if reply != refusal else None  # the machine was busy for a second
        self.assertEqual(pairs(until(answered, "an answer"))["active"], 0)

    def test_after_readonly_a_follower_reads_its_own_state(self):
        owner = self.connect(0)
        made = pairs(owner.do("ALLOC", "p", "h", "COUNT", "2"))
        follower = self.connect(1)
        self.assertEqual(follower.do("READONLY"), "OK")
        self.assertEqual(pairs(follower.do("POOL", "INFO", "p"))["active"], 0)
        self.assertIn("NOT_YET", follower.do("POOL", "INFO", "p", "FENCE", made["lsn"]))
        follower.send("POOL", "INFO", "p", "FENCE", made["lsn"])
        self.do("sync")
        info = pairs(follower.read())
        self.assertEqual((info["active"], info["lsn"]), (2, made["lsn"]))
        self.assertEqual(pairs(follower.do("LEASE", made["lease"]))["holder"], "h")
        self.assertEqual(len(pairs(follower.do("LEASES", "POOL", "p"))["leases"]), 1)
        self.assertEqual(len(pairs(follower.do("POOL", "VALUES", "p"))["values"]), 3)  # two, and what is free
        self.assertEqual(pairs(follower.do("VALUE", "p/1"))["lease"], made["lease"])
        # Only the owner can say that a token is the live authority.
        self.assertTrue(follower.do("VERIFY", made["lease"], made["epoch"]).startswith("READONLY "))
        self.assertTrue(follower.do("TOKEN", "ISSUE", made["lease"], made["epoch"]).startswith("READONLY "))
        self.assertTrue(follower.do("ALLOC", "p", "h").startswith("READONLY "))
        self.assertEqual(follower.do("READWRITE"), "OK")
        self.assertTrue(follower.do("POOL", "INFO", "p").startswith("READONLY "))

    def test_state_that_is_too_old_is_not_shown(self):
        follower = self.connect(1)
        follower.do("READONLY")
        self.do("stale", 1, 10000)
        self.assertEqual(pairs(follower.do("POOL", "INFO", "p"))["active"], 0)
        self.do("stale", 1, 10001)
        self.assertEqual(follower.do("POOL", "INFO", "p"),
                         "MASTERDOWN this node has heard nothing of the owner of the log for more than 10000 ms")
        self.assertTrue(follower.do("ALLOC", "p", "h").startswith("READONLY "))

    def test_reset_ends_readonly(self):
        follower = self.connect(1)
        follower.do("READONLY")
        follower.do("RESET")
        self.assertTrue(follower.do("POOL", "INFO", "p").startswith("READONLY "))


class Connections(Case):
    def test_the_node_that_loses_the_log_answers_and_closes(self):
        owner, idle, reader, listener = (self.connect(0) for _ in range(4))
        reader.do("READONLY")
        listener.do("SUBSCRIBE", "events")
        listener3 = self.connect(0, 3)
        listener3.send("SUBSCRIBE", "events")
        self.assertEqual(listener3.read()[:2], ["subscribe", "events"])
        both = self.connect(0, 3)
        both.send("SUBSCRIBE", "+switch-master")
        self.assertEqual(both.read()[:2], ["subscribe", "+switch-master"])
        self.assertEqual(both.do("POOL", "INFO", "p")["pool"], "p")
        self.do("shut")
        owner.send("ALLOC", "p", "h")
        self.do("waiting")
        owner.send("ALLOC", "p", "h2")
        self.do("open")
        self.do("lead", 1)
        self.assertEqual(pairs(owner.read())["result"], "OK")
        for second in self.rest(owner):  # or nothing
            self.assertEqual(pairs(second)["result"], "OK", second)
        self.ends(idle)
        self.ends(both)
        self.assertEqual(pairs(reader.do("POOL", "INFO", "p"))["pool"], "p")
        for c in listener, listener3:  # news of the write before the log was lost
            self.assertIn('"holder":"h"', c.next_push()[2])
        new = self.connect(0)  # and who comes later stays
        self.assertTrue(new.do("ALLOC", "p", "h").startswith("READONLY "))
        self.assertTrue(new.do("ALLOC", "p", "h").startswith("READONLY "))
        self.assertIn("event=demoted", self.cluster.said())
        self.role_is(1, "master")
        self.assertIn("event=promoted", self.cluster.said())

    def test_nor_does_a_client_whose_first_command_is_in_flight_when_the_log_is_lost(self):
        first, both, listener = self.connect(0), self.connect(0, 3), self.connect(0, 3)
        for c in both, listener:
            c.send("SUBSCRIBE", "+switch-master")
            self.assertEqual(c.read()[:2], ["subscribe", "+switch-master"])
        self.do("shut")
        first.send("ALLOC", "p", "h")
        self.do("waiting")
        both.send("ALLOC", "p", "h2")
        asks = self.connect(0)
        until(lambda: "queue_commands:2" in asks.do("INFO"), "both to be in flight")
        self.do("refuse")
        self.do("open")
        for c in first, both:
            self.assertEqual(self.rest(c), [])
        self.do("lead", 1)
        self.assertEqual(listener.next_push()[1], "+switch-master")

    def test_a_client_of_the_owner_gets_no_refusal_when_the_log_is_lost(self):
        """At any moment: the log is lost in the middle of many commands that are sent without a pause."""
        for turn in range(30):
            client, reader = self.connect(turn % 3), self.connect(turn % 3)
            self.assertEqual(pairs(client.do("ALLOC", "p", "h%d" % turn))["result"], "OK")
            self.assertEqual(pairs(reader.do("POOL", "INFO", "p"))["pool"], "p")
            switch = threading.Thread(target=self.do, args=("lead", (turn + 1) % 3))
            switch.start()
            replies = []
            try:
                for n in itertools.count():
                    for m in range(64):
                        client.send("SWEEP", "OPID", "%d-%d-%d" % (turn, n, m))
                        reader.send("POOL", "INFO", "p")
                    replies += [c.read() for c in (client, reader) for _ in range(64)]
            except (EOFError, ConnectionError):
                switch.join()
            for reply in replies + self.rest(client) + self.rest(reader):
                self.assertNotIsInstance(reply, Error, turn)
            self.role_is((turn + 1) % 3, "master")

    def test_ids_over_udp_are_not_refused_because_the_renewal_is_late(self):
        """They were committed: the renewal is late when the node reads them."""
        self.connect(0).do("POOL", "CREATE", "ids", "RANGE", 1, 100, "STICKY", "yes")
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as device:
            device.settimeout(PATIENCE)
            device.connect(("127.0.0.1", self.nodes[0].udp_port))
            self.do("shut")
            device.send(struct.pack(">BHH", 3, 7, 3) + b'{"serial": "S-000001"}')
            self.do("waiting")
            self.do("expire")
            self.do("open")
            self.assertEqual(device.recv(64), struct.pack(">BHHIII", 4, 7, 3, 1, 2, 3))
            self.do("renew")

    def test_a_client_in_line_is_told_of_a_lead_that_was_lost_and_taken_again(self):
        ask, waits = self.connect(0, 3), self.connect(0, 3)
        ask.do("POOL", "CREATE", "one", "RANGE", 1, 1)
        ask.do("ALLOC", "one", "first")
        waits.send("ALLOC", "one", "second", "WAIT", 600, "OPID", "x")
        until(lambda: ask.do("LEASES", "STATE", "waiting")["leases"], "in line")
        self.do("lead", 0)
        self.assertRegex(waits.read(), "^LOST .*repeat the request")
        ask, again = self.connect(0, 3), self.connect(0, 3)
        lease = ask.do("LEASES", "STATE", "waiting")["leases"][0]
        self.assertFalse(lease["attended"])
        again.send("ALLOC", "one", "second", "WAIT", 600, "OPID", "x")
        until(lambda: ask.do("LEASE", lease["lease"])["attended"], "in line again")

    def test_a_client_in_line_leaves_it_when_the_ownership_lapses(self):
        ask, waits = self.connect(0, 3), self.connect(0, 3)
        ask.do("POOL", "CREATE", "one", "RANGE", 1, 1)
        ask.do("ALLOC", "one", "first")
        waits.send("ALLOC", "one", "second", "WAIT", 600)
        until(lambda: ask.do("LEASES", "STATE", "waiting")["leases"], "in line")
        self.do("lapse")
        self.ends(ask)
        self.do("renew")
        self.role_is(0, "master")
        ask = self.connect(0, 3)
        until(lambda: not ask.do("LEASES", "STATE", "waiting")["leases"], "out of line")
        self.rest(waits)

    def test_nothing_is_closed_where_the_log_was_not_lost(self):
        follower = self.connect(2)
        follower.do("PING")
        self.do("lead", 1)
        self.role_is(1, "master")
        self.assertEqual(follower.do("PING"), "PONG")

    def test_a_write_in_doubt_is_unknown_and_its_operation_resolves_it(self):
        owner = self.connect(0)
        self.do("doubt")
        self.assertTrue(owner.do("ALLOC", "p", "h", "OPID", "op1").startswith("LOST "))
        self.do("lead", 1)
        self.role_is(1, "master")
        again = pairs(self.connect(1).do("ALLOC", "p", "h", "OPID", "op1"))
        self.assertEqual((again["result"], again["replayed"]), ("OK", 1))
        self.assertEqual(pairs(self.connect(1).do("POOL", "INFO", "p"))["active"], 1)

    def test_events_have_the_same_ids_everywhere(self):
        self.connect(0).do("ALLOC", "p", "h")
        self.do("lead", 1)
        self.role_is(1, "master")
        self.connect(1).do("ALLOC", "p", "h2")
        self.do("sync")
        pages = [[e for e in pairs(self.connect(n).do("EVENTS"))["events"]] for n in range(3)]
        self.assertEqual(pages[0], pages[1])
        self.assertEqual(pages[0], pages[2])
        self.assertGreater(len(pages[0]), 2)


class Resuming(Case):
    """After an id that this node has not reached, but another node of the cluster has."""

    def resumes(self, n, after):
        """Whether node n continues after this event: EVENTS, SUBSCRIBE, and a stream over HTTP."""
        page = pairs(self.connect(n).do("EVENTS", "AFTER", after))
        subscriber = self.connect(n, 3)
        subscriber.send("SUBSCRIBE", "events?after=" + after)
        subscribed = not isinstance(subscriber.read(), Error)
        stream = http.client.HTTPConnection("127.0.0.1", self.nodes[n].http_port, timeout=PATIENCE)
        self.addCleanup(stream.close)
        stream.request("GET", "/v1/events?after=" + after, headers={"Accept": "text/event-stream"})
        answer = stream.getresponse()
        self.addCleanup(answer.close)
        self.assertEqual((page["lost"] == 0, answer.status), (subscribed, 200 if subscribed else 400))
        if subscribed:
            self.assertEqual(page["events"], [])
        return subscriber if subscribed else None

    def newest(self, n):
        return pairs(self.connect(n).do("EVENTS"))["newest"]

    def test_a_follower_that_is_behind_goes_on_when_it_has_the_event(self):
        owner = self.connect(0)
        owner.do("ALLOC", "p", "first")
        seen = self.newest(0)
        self.assertNotEqual(seen, self.newest(1))
        subscriber = self.resumes(1, seen)
        owner.do("ALLOC", "p", "second")
        self.do("sync")
        self.assertIn('"second"', subscriber.next_push()[2])

    def test_the_owner_goes_on_with_a_batch_that_its_followers_had_first(self):
        owner = self.connect(0)
        self.do("shut")
        owner.send("ALLOC", "p", "first")
        self.do("waiting")
        self.do("early")
        seen = self.newest(1)
        self.assertNotEqual(seen, self.newest(0))
        subscriber = self.resumes(0, seen)
        self.do("open")
        self.assertEqual(pairs(owner.read())["result"], "OK")
        owner.do("ALLOC", "p", "second")
        self.assertIn('"second"', subscriber.next_push()[2])

    def test_an_owner_whose_time_is_over_may_be_behind_the_next_one(self):
        self.do("expire")
        self.assertTrue(self.resumes(0, "1000000.0"))
        self.do("renew")
        self.assertIsNone(self.resumes(0, "1000000.0"))


class SentinelWords(Case):
    def test_every_node_says_which_one_is_the_master(self):
        for n in range(3):
            c = self.connect(n)
            owner = ["127.0.0.1", str(self.nodes[0].port)]
            self.assertEqual(c.do("SENTINEL", "GET-MASTER-ADDR-BY-NAME", "tenure"), owner)
            self.assertIsNone(c.do("sentinel", "get-master-addr-by-name", "other"))
            master = pairs(c.do("SENTINEL", "MASTER", "tenure"))
            self.assertEqual((master["name"], master["ip"], master["port"], master["flags"]),
                             ("tenure", *owner, "master"))
            self.assertEqual((master["num-slaves"], master["num-other-sentinels"], master["quorum"]),
                             ("2", "2", "2"))
            self.assertEqual([pairs(m) for m in c.do("SENTINEL", "MASTERS")], [master])
            replicas = [pairs(r) for r in c.do("SENTINEL", "REPLICAS", "tenure")]
            self.assertEqual([r["port"] for r in replicas], [str(m.port) for m in self.nodes[1:]])
            self.assertEqual({r["flags"] for r in replicas}, {"slave"})
            self.assertEqual([pairs(r) for r in c.do("SENTINEL", "SLAVES", "tenure")], replicas)
            others = [pairs(s) for s in c.do("SENTINEL", "SENTINELS", "tenure")]
            self.assertEqual([s["port"] for s in others], [str(m.port) for i, m in enumerate(self.nodes) if i != n])
            self.assertTrue(c.do("SENTINEL", "CKQUORUM", "tenure").startswith("OK 3 nodes"))
            for word in ("MASTER", "REPLICAS", "SENTINELS", "CKQUORUM"):
                self.assertTrue(c.do("SENTINEL", word, "other").startswith("ERR No such master"))

    def test_while_there_is_no_owner_the_last_one_is_down(self):
        c = self.connect(1)
        owner = ["127.0.0.1", str(self.nodes[0].port)]
        until(lambda: c.do("SENTINEL", "GET-MASTER-ADDR-BY-NAME", "tenure") == owner, "the node knows the owner")
        self.lost()
        until(lambda: c.do("SENTINEL", "GET-MASTER-ADDR-BY-NAME", "tenure") is None, "it knows that there is none")
        master = pairs(c.do("SENTINEL", "MASTER", "tenure"))
        self.assertEqual((master["port"], master["flags"]), (str(self.nodes[0].port), "master,s_down,o_down"))
        self.assertTrue(c.do("SENTINEL", "CKQUORUM", "tenure").startswith("NOQUORUM "))

    def test_role_info_and_hello(self):
        for n in range(3):
            c = self.connect(n)
            role = c.do("ROLE")
            info = dict(line.split(":", 1) for line in c.do("INFO").splitlines() if ":" in line)
            hello = pairs(c.do("HELLO"))
            if n == 0:
                self.assertEqual(role[0], "master")
                self.assertEqual([r[1] for r in role[2]], [str(m.port) for m in self.nodes[1:]])
                self.assertEqual((info["role"], info["connected_slaves"], hello["role"]), ("master", "2", "master"))
            else:
                self.assertEqual(role[:4], ["slave", "127.0.0.1", self.nodes[0].port, "connected"])
                self.assertEqual((info["role"], info["master_host"], info["master_port"], hello["role"]),
                                 ("slave", "127.0.0.1", str(self.nodes[0].port), "replica"))
                self.assertEqual((info["master_link_status"], info["connected_slaves"]), ("up", "0"))
        self.lost()
        c = self.connect(1)
        self.assertEqual(c.do("ROLE")[3], "connect")
        self.assertIn("master_link_status:down", c.do("INFO"))

    def test_a_new_owner_is_told_on_the_channel(self):
        for version in (2, 3):
            with self.subTest(version=version):
                listeners = [self.connect(n, version) for n in range(3)]
                for c in listeners:
                    c.do("SUBSCRIBE", "+switch-master") if version == 2 else c.send("SUBSCRIBE", "+switch-master")
                    if version == 3:
                        c.read()
                    c.send("PSUBSCRIBE", "+sl*")
                    c.read()
                old, new = (0, 2) if version == 2 else (2, 0)
                self.do("lead", new)
                self.role_is(new, "master")
                for c in listeners:
                    old_port, new_port = self.nodes[old].port, self.nodes[new].port
                    self.assertEqual(list(c.next_push()), ["message", "+switch-master",
                                     "tenure 127.0.0.1 %d 127.0.0.1 %d" % (old_port, new_port)])
                    self.assertEqual(list(c.next_push())[:3], ["pmessage", "+sl*", "+slave"])


class Http(Case):
    def ask(self, n, method, path, body=None, headers=()):
        connection = http.client.HTTPConnection("127.0.0.1", self.nodes[n].http_port, timeout=PATIENCE)
        self.addCleanup(connection.close)
        connection.request(method, path, None if body is None else json.dumps(body),
                           {"Content-Type": "application/json", **dict(headers)})
        answer = connection.getresponse()
        text = answer.read()
        is_json = "json" in (answer.getheader("Content-Type") or "")
        return answer, json.loads(text) if is_json else text.decode()

    def test_a_follower_sends_the_request_to_the_owner(self):
        owner = self.nodes[0]
        for method, path, body in (("POST", "/v1/pools/p/leases", {"holder": "h"}),
                                   ("GET", "/v1/leases?pool=p&holder=a/b%20%C3%A4&count=7", None),
                                   ("DELETE", "/v1/leases/0-2?holder=h&epoch=1", None),
                                   ("GET", "/v1/pools/a%2Fb", None)):
            with self.subTest(path=path):
                answer, problem = self.ask(1, method, path, body)
                self.assertEqual(answer.status, 307)
                self.assertEqual(answer.getheader("Location"), "http://127.0.0.1:%d%s" % (owner.http_port, path))
                self.assertEqual(answer.getheader("Tenure-Leader"), owner.address)
                self.assertEqual(answer.getheader("Content-Type"), "application/problem+json")
                self.assertEqual((problem["result"], problem["status"], problem["outcome"], problem["leader"],
                                  problem["leader_http"]),
                                 ("READONLY", 307, "rejected", owner.address, "127.0.0.1:%d" % owner.http_port))
        out = subprocess.run(["curl", "-sSL", "-X", "POST", "-d", '{"holder":"h","count":2}',
                              "-H", "Content-Type: application/json",
                              "http://127.0.0.1:%d/v1/pools/p/leases" % self.nodes[2].http_port],
                             stdout=subprocess.PIPE, timeout=PATIENCE, check=True)
        self.assertEqual(json.loads(out.stdout)["values"], ["1", "2"])

    def test_without_an_owner_the_answer_is_503(self):
        self.lost()
        for n in range(3):
            answer, problem = self.ask(n, "POST", "/v1/pools/p/leases", {"holder": "h"})
            self.assertEqual((answer.status, answer.getheader("Retry-After"), problem["result"]),
                             (503, "1", "MASTERDOWN"))
            self.assertIsNone(answer.getheader("Location"))
            self.assertEqual(self.ask(n, "GET", "/leaderz")[0].status, 503)
            answer, text = self.ask(n, "GET", "/readyz")
            self.assertEqual(answer.status, 503)
            self.assertIn("[-]log failed: no node owns it", text)
            self.assertEqual(self.ask(n, "GET", "/livez")[0].status, 200)

    def test_health_says_which_node_is_what(self):
        self.assertEqual([self.ask(n, "GET", "/leaderz")[0].status for n in range(3)], [200, 503, 503])
        self.assertEqual(self.ask(1, "GET", "/leaderz")[1]["detail"], "this node does not own the log")
        self.assertEqual([self.ask(n, "GET", "/readyz")[0].status for n in range(3)], [200, 200, 200])
        self.do("stale", 1, 10001)
        answer, text = self.ask(1, "GET", "/readyz")
        self.assertEqual(answer.status, 503)
        self.assertIn("[-]log failed: this node has not caught up with the owner", text)

    def test_a_header_asks_for_stale_state(self):
        stale = {"Tenure-Read": "stale"}
        answer, pool = self.ask(1, "GET", "/v1/pools/p", headers=stale)
        self.assertEqual((answer.status, pool["pool"]), (200, "p"))
        self.assertEqual(self.ask(1, "GET", "/v1/leases/0-2/verify?epoch=1", headers=stale)[0].status, 307)
        self.assertEqual(self.ask(1, "POST", "/v1/pools/p/leases", {"holder": "h"}, stale)[0].status, 307)

    def test_metrics_say_which_node_is_the_owner(self):
        def figures(n):
            lines = self.ask(n, "GET", "/metrics?pools=no")[1].splitlines()
            return {name: value for name, _, value in (line.partition(" ") for line in lines)}
        self.do("stale", 1, 2500)
        self.assertEqual([figures(n)["tenure_owner"] for n in range(3)], ["1", "0", "0"])
        self.assertEqual([figures(n)["tenure_takeovers_total"] for n in range(3)], ["1", "0", "0"])
        self.assertEqual([figures(n)["tenure_lag_seconds"] for n in range(3)], ["0", "2.5", "0"])
        self.do("lead", 1)
        self.role_is(1, "master")
        self.assertEqual([figures(n)["tenure_owner"] for n in range(3)], ["0", "1", "0"])
        self.assertEqual([figures(n)["tenure_takeovers_total"] for n in range(3)], ["1", "1", "0"])

    def test_events_and_metrics_come_from_any_node(self):
        pages = [self.ask(n, "GET", "/v1/events?format=json")[1]["events"] for n in range(3)]
        self.assertEqual(pages[0], pages[1])
        self.assertTrue(pages[0])
        self.assertIn('tenure_pool_values{pool="p"', self.ask(1, "GET", "/metrics")[1])


class RedisPy(Case):
    def sentinel(self):
        return Sentinel([("127.0.0.1", n.port) for n in self.nodes], decode_responses=True,
                        min_other_sentinels=2, socket_timeout=PATIENCE)

    def test_a_client_of_sentinel_goes_over_without_an_error(self):
        sentinel = self.sentinel()
        master = sentinel.master_for("tenure")
        self.addCleanup(master.close)
        self.assertEqual(sentinel.discover_master("tenure"), ("127.0.0.1", self.nodes[0].port))
        self.assertEqual(sorted(sentinel.discover_slaves("tenure")),
                         sorted(("127.0.0.1", n.port) for n in self.nodes[1:]))
        idle = self.connect(0)
        for turn in range(6):
            self.assertEqual(pairs(master.execute_command("ALLOC", "p", "h%d" % turn))["result"], "OK")
            to = (turn + 1) % 3
            self.do("lead", to)
            self.role_is(to, "master")
            self.ends(idle)  # so are those of the client closed
            idle = self.connect(to)
        self.assertEqual(pairs(master.execute_command("POOL", "INFO", "p"))["active"], 6)

    def test_without_an_owner_it_finds_no_master(self):
        sentinel = self.sentinel()
        self.lost()
        self.assertRaises(MasterNotFoundError, sentinel.discover_master, "tenure")
        self.do("lead", 2)
        self.role_is(2, "master")
        self.assertEqual(sentinel.discover_master("tenure"), ("127.0.0.1", self.nodes[2].port))

    def test_errors_are_those_that_the_library_knows(self):
        follower = self.nodes[1].client()
        self.addCleanup(follower.close)
        self.assertRaises(redis.exceptions.ReadOnlyError, follower.execute_command, "ALLOC", "p", "h")
        self.lost()
        with self.assertRaisesRegex(redis.exceptions.ResponseError, "^MASTERDOWN "):
            follower.execute_command("ALLOC", "p", "h")


class Node(Case):
    """The libraries for Node, each used as in users' programs: failover_test.mjs."""

    def fail_over(self, library):
        modules = subprocess.run([os.path.join(SOURCE, "tools/npm.sh")], stdout=subprocess.PIPE, text=True,
                                 timeout=600, check=True).stdout.strip()
        process = subprocess.Popen(
            ["node", os.path.join(SOURCE, "tests/e2e/failover_test.mjs"), modules, library, "p",
             *(str(n.port) for n in self.nodes)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        said = []
        try:
            for line in process.stdout:
                said.append(line.strip())
                if said[-1].startswith("lead "):
                    self.do(*said[-1].split())
                    self.role_is(int(said[-1].split()[1]), "master")
                elif said[-1] == "lost":
                    self.do("lost")
                else:
                    continue
                process.stdin.write("done\n")
                process.stdin.flush()
            self.assertEqual((process.wait(PATIENCE), said[-1:]), (0, ["passed"]), said)
        finally:
            process.kill()
            process.wait()
            process.stdin.close()
            process.stdout.close()

    def test_ioredis(self):
        self.fail_over("ioredis")

    def test_node_redis(self):
        self.fail_over("redis")


class Sensors(unittest.TestCase):
    """What runs once, on a node that loses the log and has it again before its loop looks."""

    def setUp(self):
        self.cluster = FakeCluster(1, os.path.join(BUILD, "tenure-guardian"))
        self.addCleanup(self.cluster.remove)
        self.client = redis.Redis(unix_socket_path=os.path.join(self.cluster.data, "unix"), decode_responses=True)
        self.addCleanup(self.client.close)
        self.client.execute_command("SENSOR", "SET", "s", "t", json.dumps({"command": ["/bin/sleep", "100000"]}))
        self.client.execute_command("RULE", "SET", "r", "t")

    def pid(self):
        """Of the running sensor; None: it does not run now, or the log was lost just now."""
        try:
            status = pairs(self.client.execute_command("SENSOR", "STATUS", "s"))
        except (redis.ConnectionError, redis.ResponseError):
            return None
        return status["pid"] if status["state"] == "running" else None

    def test_a_lead_that_was_lost_and_taken_again_begins_anew(self):
        for turn in range(5):
            before = until(self.pid, "run %d" % turn)
            self.cluster.do("lead", 0)
            until(lambda b=before: self.pid() not in (None, b), "run %d" % (turn + 1))
            self.assertFalse(os.path.exists("/proc/%s" % before))

    def test_a_lead_that_lapsed_and_was_renewed_goes_on(self):
        before = until(self.pid, "a run")
        self.cluster.do("lapse")
        os.kill(int(before), signal.SIGKILL)
        until(lambda: "event=supervisor_halted" in self.cluster.said(), "a refusal")
        self.cluster.do("renew")
        until(lambda: self.pid() not in (None, before), "another run")
        # Sensors run in this ownership, the first one, again: nothing may say that they are gone.
        self.assertNotIn("event=sensors_clean", self.cluster.said())


if __name__ == "__main__":
    unittest.main()
