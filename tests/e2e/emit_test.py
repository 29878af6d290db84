#!/usr/bin/env python3
"""The use of a running sensor's token, over RESP and HTTP: events and heartbeats. The sensor's status and
output, as other clients see them. And all who have no access."""
import http.client
import json
import os
import subprocess
import tempfile
import unittest

from harness import PATIENCE, TENURED, Server, pairs, text_of, until

# Prints what it is told to by lines of a file, and is otherwise quiet.
SCRIPT = """
printf %s "$TENURE_TOKEN" > "$OUT.tmp"; mv "$OUT.tmp" "$OUT"
echo "hello from $TENURE_SENSOR, ü"
while :; do sleep 0.05; done
"""

# The same; and at SIGTERM it emits what it still has, and keeps the answer.
FLUSHING = """
trap 'curl -s -o /dev/null -w %{http_code} -H "Authorization: Bearer $TENURE_TOKEN" \\
      -H "Content-Type: application/json" -d "{\\"trigger_type\\": \\"$TRIGGER\\"}" \\
      "$TENURE_API_URL/v1/events/emit" > "$OUT.code.tmp"; mv "$OUT.code.tmp" "$OUT.code"; exit 0' TERM
printf %s "$TENURE_TOKEN" > "$OUT.tmp"; mv "$OUT.tmp" "$OUT"
while :; do sleep 0.05; done
"""


class Sensors(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.server = Server(None, "--sensor-settle-seconds", "0", "--sensor-stop-seconds", "5")
        cls.r = cls.server.local()
        cls.do("POOL", "CREATE", "p", "RANGE", "1", "1000")

    @classmethod
    def tearDownClass(cls):
        cls.r.close()
        cls.server.remove()

    @classmethod
    def do(cls, *words):
        return cls.r.execute_command(*words)

    def refused(self, result, *words):
        try:
            reply = self.do(*words)
        except Exception as error:  # pylint: disable=broad-except
            self.assertTrue(str(error).startswith(result), str(error))
            return str(error)
        return self.fail("%s was answered %s" % (" ".join(map(str, words)), reply))

    def ask(self, method, path, body=None, token=None):
        headers = {} if token is None else {"Authorization": "Bearer " + token}
        connection = http.client.HTTPConnection("127.0.0.1", self.server.http_port,
                                                timeout=PATIENCE)
        connection.request(method, path, None if body is None else json.dumps(body), headers)
        response = connection.getresponse()
        answer = json.loads(response.read())
        connection.close()
        return response.status, answer, response.getheader("WWW-Authenticate")

    def emit(self, body, token=None):
        return self.ask("POST", "/v1/events/emit", body, token)

    def run_sensor(self, ref, **more):
        """A sensor that runs, and its token."""
        out = os.path.join(self.server.data, "token." + ref)
        spec = {"command": ["/bin/sh", "-c", SCRIPT], "env": {"OUT": out}, **more}
        self.do("SENSOR", "SET", ref, "t." + ref, json.dumps(spec))
        self.do("RULE", "SET", "rule." + ref, "t." + ref)
        self.addCleanup(self.do, "SENSOR", "DELETE", ref)
        return self.token_of(ref)

    def token_of(self, ref, after=None):
        out = os.path.join(self.server.data, "token." + ref)
        return until(lambda: os.path.exists(out) and text_of(out) != after and text_of(out),
                     "the token of " + ref)

    def status(self, ref):
        return pairs(self.do("SENSOR", "STATUS", ref))

    def emitted(self, ref):
        events = [pairs(e) for e in pairs(self.do("EVENTS", "COUNT", "1000"))["events"]]
        return [e for e in events if e["kind"] == "sensor.emitted" and e["name"] == ref]


class Rules(Sensors):
    def test_a_run_reads_the_enabled_rules_of_its_trigger(self):
        token, other = self.run_sensor("g1"), self.run_sensor("g2")
        self.do("RULE", "SET", "a", "t.g1", "META", '{"seconds": 5}')
        self.do("RULE", "SET", "b", "t.g1", "DISABLED", "META", '{"seconds": 6}')
        self.do("RULE", "SET", "c", "t.g2", "META", '{"seconds": 7}')
        for i in range(20):  # more than two pages
            self.do("RULE", "SET", "many%d" % i, "t.g1", "META", '{"i": %d}' % i)
        status, page, _ = self.ask("GET", "/v1/sensors/g1/rules", None, token)
        self.assertEqual((status, page["ref"], len(page["rules"])), (200, "g1", 8))
        self.assertNotEqual(page["cursor"], "0")
        rules = page["rules"]
        while page["cursor"] != "0":
            page = self.ask("GET", "/v1/sensors/g1/rules?cursor=" + page["cursor"], None, token)[1]
            rules += page["rules"]
        found = {rule["id"]: rule.get("meta") for rule in rules}
        self.assertEqual(found, {"rule.g1": None, "a": {"seconds": 5},
                                 **{"many%d" % i: {"i": i} for i in range(20)}})
        self.assertEqual({(rule["trigger"], rule["enabled"]) for rule in rules}, {("t.g1", True)})
        reply = pairs(self.do("SENSOR", "RULES", "g2", other))
        self.assertEqual([pairs(r)["id"] for r in reply["rules"]], ["rule.g2", "c"])
        self.do("RULE", "SET", "c", "t.g2", "META", '{"seconds": 8}')
        reply = pairs(self.do("SENSOR", "RULES", "g2", other, "COUNT", 2))
        self.assertEqual(json.loads(pairs(reply["rules"][1])["meta"]), {"seconds": 8})

    def test_nobody_else_reads_them(self):
        token = self.run_sensor("g3")
        self.run_sensor("g4")
        self.refused("DENIED", "SENSOR", "RULES", "g4", token)
        self.assertEqual(self.ask("GET", "/v1/sensors/g4/rules", None, token)[0], 403)
        self.refused("BAD_TOKEN", "SENSOR", "RULES", "g3", "a.b.c")
        self.assertEqual(self.ask("GET", "/v1/sensors/g3/rules", None, "a.b.c")[0], 401)
        self.do("RULE", "DISABLE", "rule.g3")
        until(lambda: self.status("g3")["state"] == "stopped", "its end")
        self.refused("BAD_TOKEN", "SENSOR", "RULES", "g3", token)


class Emit(Sensors):
    def test_a_run_emits_for_its_own_trigger_types_only(self):
        token = self.run_sensor("e1")
        first = pairs(self.do("EMIT", token, "t.e1", "PAYLOAD", '{"n": 1}'))
        self.assertEqual((first["result"], first["id"]), ("OK", "%d.0" % first["lsn"]))
        status, second, _ = self.emit({"trigger_type": "t.e1", "payload": {"n": 2}}, token)
        self.assertEqual((status, second["result"]), (200, "OK"))
        status, problem, wanted = self.emit({"trigger_type": "t.e2"}, token)
        self.assertEqual((status, problem["result"], wanted), (403, "DENIED", None))
        self.refused("DENIED", "EMIT", token, "t.e2")
        seen = self.emitted("e1")
        self.assertEqual([(e["id"], e["trigger"], json.loads(e["payload"])) for e in seen],
                         [(first["id"], "t.e1", {"n": 1}), (second["id"], "t.e1", {"n": 2})])
        run = self.status("e1")
        self.assertEqual([(e["lease"], e["epoch"]) for e in seen],
                         [(run["lease"], run["epoch"])] * 2)
        self.assertNotIn("reason", seen[0])
        until(lambda: self.status("e1")["emitted"] == 2, "both to be counted")
        page = self.ask("GET", "/v1/events?count=1000")[1]["events"]
        self.assertEqual([e["payload"] for e in page if e["kind"] == "sensor.emitted" and
                          e["name"] == "e1"], [{"n": 1}, {"n": 2}])

    def test_the_call_that_sensors_of_attune_make(self):
        token = self.run_sensor("a1")
        body = {"trigger_ref": "t.a1", "payload": {"n": 1}, "trigger_instance_id": "rule_7"}
        status, made, _ = self.ask("POST", "/api/v1/events", body, token)
        self.assertEqual((status, made["result"], made["id"]),
                         (201, "OK", "%d.0" % made["data"]["id"]))
        self.assertEqual([(e["id"], e["trigger"], json.loads(e["payload"]))
                          for e in self.emitted("a1")], [(made["id"], "t.a1", {"n": 1})])
        status, fresh, _ = self.ask("POST", "/api/v1/auth/refresh", {}, token)
        self.assertEqual(status, 200)
        status, more, _ = self.ask("POST", "/api/v1/events", {"trigger_ref": "t.a1"}, fresh["token"])
        self.assertEqual((status, more["data"]["id"] > made["data"]["id"]), (201, True))
        for body, key, want in (({"trigger_ref": "t.a2"}, token, 403),
                                ({"trigger_ref": "t.a1"}, None, 401),
                                ({"trigger_ref": "t.a1"}, "a.b.c", 401),
                                ({"trigger_type": "t.a1"}, token, 400)):
            self.assertEqual(self.ask("POST", "/api/v1/events", body, key)[0], want, body)
        self.do("REVOKE", self.status("a1")["lease"])
        status, problem, wanted = self.ask("POST", "/api/v1/events", {"trigger_ref": "t.a1"}, token)
        self.assertEqual((status, problem["result"], wanted), (401, "BAD_TOKEN", "Bearer"))
        self.assertEqual(len(self.emitted("a1")), 2)

    def test_what_a_run_can_emit_after_sigterm_depends_on_the_stop_order(self):
        for order, code, events in (("revoke_first", "401", 0), ("exit_first", "200", 1)):
            ref = order.replace("_", "-")
            out = os.path.join(self.server.data, "token." + ref)
            token = self.run_sensor(ref, command=["/bin/sh", "-c", FLUSHING], stop_order=order,
                                    env={"OUT": out, "TRIGGER": "t." + ref})
            self.do("RULE", "DISABLE", "rule." + ref)
            until(lambda: self.status(ref)["state"] == "stopped", "the end of " + ref)  # pylint: disable=W0640
            self.assertEqual((text_of(out + ".code"), len(self.emitted(ref))), (code, events))
            self.refused("BAD_TOKEN", "EMIT", token, "t." + ref)

    def test_an_operation_id_is_the_runs_own(self):
        one, two = self.run_sensor("o1"), self.run_sensor("o2")
        first = pairs(self.do("EMIT", one, "t.o1", "OPID", "1"))
        again = pairs(self.do("EMIT", one, "t.o1", "OPID", "1"))
        self.assertEqual((again["id"], again["replayed"]), (first["id"], 1))
        self.assertEqual(pairs(self.do("EMIT", two, "t.o2", "OPID", "1"))["replayed"], 0)
        self.refused("CONFLICT", "EMIT", one, "t.o1", "PAYLOAD", "{}", "OPID", "1")
        self.assertEqual(len(self.emitted("o1")), 1)

    def test_after_a_revoke_it_emits_no_more(self):
        token = self.run_sensor("v1")
        run = self.status("v1")
        self.do("REVOKE", run["lease"])
        status, problem, wanted = self.emit({"trigger_type": "t.v1"}, token)
        self.assertEqual((status, problem["result"], wanted), (401, "BAD_TOKEN", "Bearer"))
        self.assertIn("revoked", problem["detail"])
        self.refused("BAD_TOKEN", "EMIT", token, "t.v1", "PAYLOAD", "{}")
        self.assertEqual(self.emitted("v1"), [])

    def test_without_a_sensors_token_nobody_emits(self):
        status, problem, wanted = self.emit({"trigger_type": "t"})
        self.assertEqual((status, problem["result"], problem["outcome"], wanted),
                         (401, "BAD_TOKEN", "rejected", "Bearer"))
        status, problem, _ = self.emit({"trigger_type": "t"}, "a.b.c")
        self.assertEqual((status, problem["result"]), (401, "BAD_TOKEN"))
        self.refused("BAD_TOKEN", "EMIT", "a.b.c", "t")
        got = pairs(self.do("ALLOC", "p", "me"))
        token = pairs(self.do("TOKEN", "ISSUE", got["lease"], got["epoch"]))["token"]
        status, problem, wanted = self.emit({"trigger_type": "t"}, token)
        self.assertEqual((status, problem["result"], wanted), (403, "DENIED", None))
        self.refused("DENIED", "EMIT", token, "t")
        self.refused("DENIED", "SENSOR", "HEARTBEAT", token)

    def test_what_is_malformed_is_refused_before_anything_is_logged(self):
        for result, *words in [
                ("MALFORMED", "EMIT", "a.b.c", "t", "PAYLOAD", "[]"),
                ("TOO_LARGE", "EMIT", "a.b.c", "t", "PAYLOAD", json.dumps({"x": "y" * 4096})),
                ("BAD_REQUEST", "SENSOR", "SET", "bad", "t", '{"comand":["/bin/true"]}')]:
            self.assertNotIn(" lsn=", self.refused(result, *words))
        for body in {"payload": {}}, {"trigger_type": "t", "token": "x"}:
            status, problem, _ = self.emit(body, "a.b.c")
            self.assertEqual((status, problem["outcome"]), (400, "rejected"))
        self.refused("NOTFOUND", "SENSOR", "INFO", "bad")


class Others(Sensors):
    def test_a_heartbeat_is_by_the_token_of_a_run_that_lives(self):
        token = self.run_sensor("h1")
        beat = pairs(self.do("SENSOR", "HEARTBEAT", token))
        self.assertEqual((beat["result"], beat["expires_at"]),
                         ("OK", self.status("h1")["token_expires_at"]))
        status, beat, _ = self.ask("POST", "/v1/sensors/heartbeat", token=token)
        self.assertEqual((status, beat["result"]), (200, "OK"))
        self.assertEqual(self.ask("POST", "/v1/sensors/heartbeat")[0], 401)
        self.do("SENSOR", "DISABLE", "h1")
        until(lambda: self.status("h1")["state"] == "stopped", "it to stop")
        self.refused("BAD_TOKEN", "SENSOR", "HEARTBEAT", token)
        self.assertEqual(self.ask("POST", "/v1/sensors/heartbeat", token=token)[0], 401)

    def test_its_status_is_told_in_both_places(self):
        self.run_sensor("s1")
        got = until(lambda: (self.status("s1")["state"] == "running") and self.status("s1"), "a run")
        self.assertEqual((got["trigger"], got["wanted"], got["active_rules"], got["supervised"],
                          got["starts"], got["crashes"], got["last_reason"], got["next_in_ms"]),
                         ("t.s1", 1, 1, 1, 1, 0, None, None))
        os.kill(got["pid"], 0)
        self.assertEqual(pairs(self.do("LEASE", "sensors/s1"))["lease"], got["lease"])
        status, page, _ = self.ask("GET", "/v1/sensors/s1/status")
        self.assertEqual((status, page["pid"], page["state"]), (200, got["pid"], "running"))
        self.assertEqual(self.ask("GET", "/api/v1/sensors/s1/status")[1]["lease"], page["lease"])
        self.do("RULE", "DISABLE", "rule.s1")
        until(lambda: self.status("s1")["state"] == "stopped", "it to stop")
        got = self.status("s1")
        self.assertEqual((got["pid"], got["lease"], got["last_reason"], got["stops"]),
                         (None, None, "no_rules", 1))
        self.refused("NOTFOUND", "SENSOR", "STATUS", "nobody")
        self.assertEqual(self.ask("GET", "/v1/sensors/nobody/status")[0], 404)

    def test_a_restart_is_another_run_and_a_reset_needs_a_reason(self):
        token = self.run_sensor("r1")
        before = until(lambda: self.status("r1")["state"] == "running" and self.status("r1"), "it")
        self.refused("STATE", "SENSOR", "RESET", "r1")
        self.refused("NOTFOUND", "SENSOR", "RESTART", "nobody")
        answer = pairs(self.do("SENSOR", "RESTART", "r1"))
        self.assertEqual((answer["result"], answer["ref"]), ("OK", "r1"))
        self.token_of("r1", token)
        until(lambda: self.status("r1")["state"] == "running" and
              self.status("r1")["lease"] != before["lease"], "another run")
        self.refused("BAD_TOKEN", "EMIT", token, "t.r1")
        status, answer, _ = self.ask("POST", "/v1/sensors/r1/restart")
        self.assertEqual((status, answer["result"]), (200, "OK"))
        status, problem, _ = self.ask("POST", "/v1/sensors/nobody/reset")
        self.assertEqual((status, problem["result"]), (404, "NOTFOUND"))

    def test_its_output_is_read_from_the_end_and_from_a_position_on(self):
        self.run_sensor("l1")
        logs = lambda *words: pairs(self.do("SENSOR", "LOGS", "l1", *words))
        want = "hello from l1, ü\n"
        got = until(lambda: self.status("l1")["pid"] and logs()["output"] == want and logs(), "it")
        self.assertEqual((got["more"], got["lost"]), (0, 0))
        rest = logs("AFTER", got["next"])
        self.assertEqual((rest["output"], rest["next"]), ("", got["next"]))
        file, offset = got["next"].split(".")
        part = logs("AFTER", "%s.%d" % (file, int(offset) - 1), "COUNT", "1")
        self.assertEqual((part["output"], part["more"]), ("\n", 1))
        page = self.ask("GET", "/v1/sensors/l1/logs?count=65536")[1]
        self.assertEqual((page["output"], page["next"]), (want, got["next"]))
        # A character that is cut is told when it is whole.
        cut = self.ask("GET", "/v1/sensors/l1/logs?after=%s.0&count=%d" %
                       (file, int(offset) - 2))[1]
        self.assertEqual(cut["output"], "hello from l1, ")
        rest = self.ask("GET", "/v1/sensors/l1/logs?after=" + cut["next"])[1]
        self.assertEqual(rest["output"], "ü\n")
        self.refused("MALFORMED", "SENSOR", "LOGS", "l1", "AFTER", "x")
        self.refused("NOTFOUND", "SENSOR", "LOGS", "nobody")

    def test_nobody_but_the_supervisor_lets_its_lease_go(self):
        self.run_sensor("g1")
        run = self.status("g1")
        self.refused("DENIED", "RELEASE", run["lease"], "sensor/g1", run["epoch"])
        self.refused("DENIED", "TOUCH", run["lease"], run["epoch"])
        self.refused("DENIED", "REKEY", run["lease"], run["epoch"], "me")
        self.refused("DENIED", "REVOKE", run["lease"], "AFTER", "0")
        self.refused("DENIED", "ALLOC", "sensors", "me", "VALUES", "1", "g1")
        self.do("DISOWN", "sensor/g1")
        self.assertEqual(pairs(self.do("VERIFY", run["lease"], run["epoch"]))["result"], "OK")


class Users(Sensors):
    """Users have roles; a sensor has none and needs only its token."""
    SECRET = "correct horse battery"

    @classmethod
    def setUpClass(cls):
        hashed = subprocess.run([TENURED, "--hash-secret"], input=cls.SECRET.encode() + b"\n",
                                check=True, stdout=subprocess.PIPE, timeout=PATIENCE).stdout
        cls.dir = tempfile.TemporaryDirectory(prefix="tenure-emit-")
        config = os.path.join(cls.dir.name, "tenured.conf")
        with open(config, "w", encoding="ascii") as file:
            for name, more in ("boss", "role = admin"), ("guest", "role = reader\npools = p*"):
                file.write("[user %s]\nsecret = %s\n%s\n" % (name, hashed.decode().strip(), more))
        cls.server = Server(None, "--config", config, "--sensor-settle-seconds", "0")
        cls.r = cls.server.client(username="boss", password=cls.SECRET)
        cls.do("POOL", "CREATE", "p", "RANGE", "1", "1000")

    @classmethod
    def tearDownClass(cls):
        super().tearDownClass()
        cls.dir.cleanup()

    def test_a_sensor_needs_no_user(self):
        token = self.run_sensor("u1")
        nobody = self.server.client()
        self.addCleanup(nobody.close)
        emitted = pairs(nobody.execute_command("EMIT", token, "t.u1", "PAYLOAD", '{"n": 1}'))
        self.assertEqual(emitted["result"], "OK")
        self.assertEqual(pairs(nobody.execute_command("SENSOR", "HEARTBEAT", token))["result"], "OK")
        self.assertEqual(self.emit({"trigger_type": "t.u1"}, token)[0], 200)
        self.assertEqual(self.ask("POST", "/v1/sensors/heartbeat", token=token)[0], 200)
        status, problem, _ = self.emit({"trigger_type": "t.u1"}, "boss:" + self.SECRET)
        self.assertEqual((status, problem["result"]), (401, "BAD_TOKEN"))
        # And its token is nobody's password.
        self.assertEqual(self.ask("GET", "/v1/sensors/u1/status", token=token)[0], 401)
        self.assertEqual(len(self.emitted("u1")), 2)

    def test_who_has_nothing_to_do_with_sensors_hears_nothing_of_them(self):
        token = self.run_sensor("u2")
        self.do("EMIT", token, "t.u2")
        self.assertEqual(len(self.emitted("u2")), 1)
        guest = self.server.client(username="guest", password=self.SECRET)
        self.addCleanup(guest.close)
        page = pairs(guest.execute_command("EVENTS", "COUNT", "1000"))
        kinds = {pairs(e)["kind"] for e in page["events"]}
        self.assertIn("pool.created", kinds)
        self.assertFalse({k for k in kinds if k in ("sensor.emitted", "sensor.started")}, kinds)


del Sensors

if __name__ == "__main__":
    unittest.main()
