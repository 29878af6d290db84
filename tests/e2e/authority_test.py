#!/usr/bin/env python3
"""Authority fails closed: while the disk is full, a deadline that has passed ends the authority of a lease and
its tokens, over every interface, although the log cannot record it."""
import http.client
import json
import signal
import unittest

import redis

from harness import PATIENCE, Server, pairs, until

FULL = ("--space-reserve-bytes", "1099511627776")  # more than there is: no new segment is made


class FullDisk(unittest.TestCase):
    def setUp(self):
        self.server = Server(None, "--segment-bytes", "65536")
        self.flags = self.server.flags
        self.r = self.server.client()
        self.r.execute_command("POOL", "CREATE", "p", "RANGE", 1, 100)

    def tearDown(self):
        self.r.close()
        self.server.remove()

    def restart(self, *more):
        self.r.close()
        self.server.stop(signal.SIGKILL)
        self.server.flags = self.flags + more
        self.server.start()
        self.r = self.server.client()

    def fill(self):
        """Until not even an empty command can be written."""
        self.restart(*FULL)

        def full():
            try:
                self.r.execute_command("TICK")
            except redis.ResponseError as error:
                return str(error).startswith("NOSPACE")
            return False
        until(full, "the disk is full")

    def lapse(self):
        """A lease with a token that outlasts it, a disk that is full before the deadline, and a clock past it."""
        ttl = 4
        while True:
            lease = pairs(self.r.execute_command("ALLOC", "p", "h", "TTL", 3600))
            token = pairs(self.r.execute_command("TOKEN", "ISSUE", lease["lease"], lease["epoch"],
                                                 "TTL", 3000))["token"]
            lease = pairs(self.r.execute_command("TOUCH", lease["lease"], lease["epoch"],
                                                 "TTL", ttl))
            self.fill()
            if self.r.time()[0] * 1000 < lease["deadline"]:
                break
            self.restart()
            ttl *= 2
        until(lambda: self.r.time()[0] * 1000 > lease["deadline"], "the deadline has passed")
        return lease, token

    def refused(self, start, *words):
        with self.assertRaises(redis.ResponseError) as caught:
            self.r.execute_command(*words)
        self.assertTrue(str(caught.exception).startswith(start), str(caught.exception))

    def call(self, method, path, body=None):
        connection = http.client.HTTPConnection("127.0.0.1", self.server.http_port,
                                                timeout=PATIENCE)
        connection.request(method, path, None if body is None else json.dumps(body))
        response = connection.getresponse()
        answer = json.loads(response.read())
        connection.close()
        return response.status, answer

    def metric(self, name):
        connection = http.client.HTTPConnection("127.0.0.1", self.server.http_port,
                                                timeout=PATIENCE)
        connection.request("GET", "/metrics")
        lines = connection.getresponse().read().decode().splitlines()
        connection.close()
        return float(next(line for line in lines if line.startswith(name + " ")).split()[1])

    def test_a_passed_deadline_ends_authority_although_nothing_can_be_logged(self):
        lease, token = self.lapse()
        name, epoch = lease["lease"], lease["epoch"]

        self.refused("OVERDUE", "VERIFY", name, epoch)
        self.refused("OVERDUE", "TOKEN", "ISSUE", name, epoch)
        self.refused("BAD_TOKEN", "TOKEN", "REFRESH", token)
        told = pairs(self.r.execute_command("TOKEN", "INTROSPECT", token))
        self.assertEqual((told["active"], told["reason"]), (0, "overdue"))
        self.assertEqual(pairs(self.r.execute_command("LEASE", name))["state"], "overdue")
        page = pairs(self.r.execute_command("LEASES", "POOL", "p"))["leases"]
        self.assertEqual([pairs(row)["state"] for row in page], ["overdue"])
        for state, count in (("active", 0), ("overdue", 1)):
            page = pairs(self.r.execute_command("LEASES", "POOL", "p", "STATE", state))["leases"]
            self.assertEqual(len(page), count)
        pool = pairs(self.r.execute_command("POOL", "INFO", "p"))
        self.assertEqual((pool["active"], pool["overdue_since"]), (1, lease["deadline"]))
        info = self.r.info("tenure")
        self.assertEqual(info["log_ahead_seconds"], 0)
        until(lambda: self.r.info("tenure")["overdue_seconds"] > 0, "it is told that the log is late")
        self.assertGreater(self.metric("tenure_engine_overdue_seconds"), 0)
        self.assertLess(self.metric("tenure_log_ahead_seconds"), 1)

        status, answer = self.call("GET", "/v1/leases/%s/verify?epoch=%s" % (name, epoch))
        self.assertEqual((status, answer["result"]), (409, "OVERDUE"))
        status, answer = self.call("GET", "/v1/leases/%s" % name)
        self.assertEqual((status, answer["state"]), (200, "overdue"))
        status, answer = self.call("POST", "/auth/introspect", {"token": token})
        self.assertEqual((status, answer["active"], answer["reason"]), (200, False, "overdue"))
        status, answer = self.call("POST", "/auth/refresh", {"token": token})
        self.assertEqual(status, 401)
        status, answer = self.call("POST", "/v1/leases/%s/token" % name, {"epoch": epoch})
        self.assertEqual((status, answer["result"]), (409, "OVERDUE"))

        self.restart()
        until(lambda: pairs(self.r.execute_command("LEASE", name))["state"] == "expired",
              "the end is in the log")
        self.refused("STALE", "VERIFY", name, epoch)
        self.assertIsNone(pairs(self.r.execute_command("POOL", "INFO", "p"))["overdue_since"])


if __name__ == "__main__":
    unittest.main()
