#!/usr/bin/env python3
"""EMIT: events of sensors, by their tokens, over RESP and HTTP; and everybody who may not."""
import http.client
import json
import unittest

from harness import PATIENCE, Case, pairs


class Emit(Case):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.r.execute_command("POOL", "CREATE", "p", "RANGE", "1", "1000")

    def emit(self, body, token=None):
        headers = {} if token is None else {"Authorization": "Bearer " + token}
        connection = http.client.HTTPConnection("127.0.0.1", self.server.http_port,
                                                timeout=PATIENCE)
        connection.request("POST", "/v1/events/emit", json.dumps(body), headers)
        response = connection.getresponse()
        answer = json.loads(response.read())
        connection.close()
        return response.status, answer, response.getheader("WWW-Authenticate")

    def test_without_a_token_that_lives_nobody_emits(self):
        status, problem, wanted = self.emit({"trigger_type": "t"})
        self.assertEqual((status, problem["result"], problem["outcome"], wanted),
                         (401, "BAD_TOKEN", "rejected", "Bearer"))
        status, problem, _ = self.emit({"trigger_type": "t"}, "a.b.c")
        self.assertEqual((status, problem["result"]), (401, "BAD_TOKEN"))
        self.refused("BAD_TOKEN", "EMIT", "a.b.c", "t")
        got = pairs(self.do("ALLOC", "p", "me"))
        issued = pairs(self.do("TOKEN", "ISSUE", got["lease"], got["epoch"]))
        self.do("TOKEN", "REVOKE", issued["token_id"])
        status, problem, wanted = self.emit({"trigger_type": "t"}, issued["token"])
        self.assertEqual((status, problem["result"], wanted), (401, "BAD_TOKEN", "Bearer"))
        self.assertIn("revoked", problem["detail"])
        self.refused("BAD_TOKEN", "EMIT", issued["token"], "t", "PAYLOAD", "{}")

    def test_a_token_that_is_no_sensors_emits_nothing(self):
        got = pairs(self.do("ALLOC", "p", "me"))
        token = pairs(self.do("TOKEN", "ISSUE", got["lease"], got["epoch"]))["token"]
        status, problem, wanted = self.emit({"trigger_type": "t"}, token)
        self.assertEqual((status, problem["result"], wanted), (403, "DENIED", None))
        self.refused("DENIED", "EMIT", token, "t")

    def test_what_is_malformed_is_refused_before_anything_is_logged(self):
        before = pairs(self.do("POOL", "INFO", "p"))["lsn"]
        self.refused("MALFORMED", "EMIT", "a.b.c", "t", "PAYLOAD", "[]")
        self.refused("TOO_LARGE", "EMIT", "a.b.c", "t", "PAYLOAD",
                     json.dumps({"x": "y" * 4096}))
        self.assertEqual(self.emit({"payload": {}}, "a.b.c")[0], 400)
        self.assertEqual(self.emit({"trigger_type": "t", "token": "x"}, "a.b.c")[0], 400)
        self.assertEqual(pairs(self.do("POOL", "INFO", "p"))["lsn"], before)


if __name__ == "__main__":
    unittest.main()
