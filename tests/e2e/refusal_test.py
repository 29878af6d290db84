"""Refusals without the log: commands that the committed state refuses are answered at its position and not logged, unless the
client's own writes or an operation id say otherwise."""
import json
import re
import unittest
import urllib.error
import urllib.request

from harness import until
from resp import Asking, Error


def packed(words):
    parts = [str(word).encode() for word in words]
    return b"*%d\r\n" % len(parts) + b"".join(b"$%d\r\n%s\r\n" % (len(part), part) for part in parts)


def lsn_of(error):
    return int(re.search(r" lsn=(\d+)", str(error)).group(1))


class Refusals(Asking):
    def setUp(self):
        super().setUp()
        self.pool = "r%d" % id(self)
        self.do("POOL", "CREATE", self.pool, "RANGE", 1, 1)

    def hold(self):
        return self.do("ALLOC", self.pool, "holder")

    def refusal(self, *words):
        answer = self.ask.do(*words)
        self.assertIsInstance(answer, Error)
        return str(answer)

    def figure(self, name):
        return int(re.search(r"^%s:(\d+)" % name, self.do("INFO"), re.M).group(1))

    def unlogged(self, start, *words):
        """Refused without the log, at the latest when the engine has nothing else to do."""
        def refused():
            before = self.figure("lsn")
            error = self.refusal(*words)
            self.assertTrue(error.startswith(start + " "), error)
            return lsn_of(error) == before == self.figure("lsn")
        until(refused, "a refusal without the log")

    def test_refusals_leave_the_log_as_it_is(self):
        lease = self.hold()
        before = self.figure("refusals")
        for start, words in (
                ("EXHAUSTED", ("ALLOC", self.pool, "other")),
                ("BUSY", ("ALLOC", self.pool, "other", "VALUES", 1, 1)),
                ("STALE", ("TOUCH", lease["lease"], 2)),
                ("HOLDER", ("RELEASE", lease["lease"], "other", 1)),
                ("STATE", ("ACTIVATE", lease["lease"], "holder", 1)),
                ("NOTFOUND", ("TOUCH", "0-1", 1)),
                ("POOL_NOTFOUND", ("ALLOC", self.pool + "x", "other"))):
            self.unlogged(start, *words)
        self.assertGreaterEqual(self.figure("refusals"), before + 7)
        self.do("TOUCH", lease["lease"], 1)

    def test_a_refusal_follows_the_client_s_own_writes(self):
        lease = self.hold()
        self.unlogged("EXHAUSTED", "ALLOC", self.pool, "other")
        requests = (("RELEASE", lease["lease"], "holder", 1), ("ALLOC", self.pool, "next"),
                    ("ALLOC", self.pool, "late"))
        self.ask.socket.sendall(b"".join(packed(words) for words in requests))
        released, granted, refused = [self.ask.read() for _ in requests]
        self.assertEqual((released["result"], granted["result"]), ("OK", "OK"))
        self.assertEqual(granted["lsn"], released["lsn"] + 1)
        self.assertTrue(str(refused).startswith("EXHAUSTED "))
        self.assertEqual(lsn_of(refused), granted["lsn"] + 1)  # logged, behind them

    def test_a_refused_operation_is_remembered(self):
        lease = self.hold()
        self.unlogged("EXHAUSTED", "ALLOC", self.pool, "other")
        before = self.figure("lsn")
        first = self.refusal("ALLOC", self.pool, "other", "OPID", "op-" + self.pool)
        self.assertEqual(lsn_of(first), before + 1)
        self.do("RELEASE", lease["lease"], "holder", 1)
        again = self.refusal("ALLOC", self.pool, "other", "OPID", "op-" + self.pool)
        self.assertIn(" replayed=1", again)
        self.assertEqual(lsn_of(again), lsn_of(first))

    def post(self):
        request = urllib.request.Request(
            "http://127.0.0.1:%d/v1/pools/%s/leases" % (self.server.http_port, self.pool), method="POST",
            data=json.dumps({"holder": "other"}).encode(), headers={"Content-Type": "application/json"})
        with self.assertRaises(urllib.error.HTTPError) as refused:
            urllib.request.urlopen(request, timeout=60)
        with refused.exception as answer:
            return answer.code, json.load(answer), int(answer.headers["Tenure-LSN"])

    def test_http_refuses_without_the_log_too(self):
        self.hold()

        def refused():
            before = self.figure("lsn")
            code, problem, lsn = self.post()
            self.assertEqual((code, problem["result"], problem["outcome"]), (409, "EXHAUSTED", "committed"))
            return lsn == before == self.figure("lsn")
        until(refused, "a refusal without the log")

    def test_refusals_are_counted_for_their_pool(self):
        self.hold()
        before = self.figure("refusals")
        self.unlogged("EXHAUSTED", "ALLOC", self.pool, "other")
        with urllib.request.urlopen("http://127.0.0.1:%d/metrics" % self.server.http_port, timeout=60) as answer:
            lines = dict(line.rsplit(" ", 1) for line in answer.read().decode().splitlines() if line[0] != "#")
        self.assertGreater(int(lines["tenure_engine_refusals_total"]), before)
        self.assertGreater(int(lines['tenure_pool_refusals_total{pool="%s",result="EXHAUSTED"}' % self.pool]), 0)


if __name__ == "__main__":
    unittest.main()
