#!/usr/bin/env python3
"""Tokens: signed for leases, verified offline by an independent implementation, dead at the log
position of the revoke, and good or dead as before after a crash, a rotation and a restart."""
import base64
import http.client
import json
import os
import signal
import subprocess
import tempfile
import unittest

from harness import BUILD, PATIENCE, TENURED, Case, Server, pairs, until
from resp import Resp

SOURCE = os.environ.get("TENURE_SOURCE_DIR", ".")


def jose(server, cases):
    """The verdict of jose, with the key set that the server serves over HTTP."""
    modules = subprocess.run([os.path.join(SOURCE, "tools/npm.sh")], check=True,
                             capture_output=True, text=True).stdout.strip()
    url = "http://127.0.0.1:%d/.well-known/jwks.json" % server.http_port
    run = subprocess.run(["node", os.path.join(SOURCE, "tests/e2e/token_check.mjs"), modules],
                         input=json.dumps({"url": url, "cases": cases}), timeout=PATIENCE,
                         capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
    return json.loads(run.stdout)


def decode(part):
    return base64.urlsafe_b64decode(part + "=" * (-len(part) % 4))


def encode(data):
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def call(server, method, path, body=None, **headers):
    connection = http.client.HTTPConnection("127.0.0.1", server.http_port, timeout=PATIENCE)
    connection.request(method, path, None if body is None else json.dumps(body), headers)
    response = connection.getresponse()
    answer = json.loads(response.read())
    headers = {name.lower(): value for name, value in response.getheaders()}
    connection.close()
    return response.status, answer, headers


class Tokens(Case):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.r.execute_command("POOL", "CREATE", "p", "RANGE", "1", "100000")

    def lease(self, holder="me", *more):
        got = pairs(self.do("ALLOC", "p", holder, *more))
        return got["lease"], got["epoch"]

    def issue(self, lease, epoch, *more):
        return pairs(self.do("TOKEN", "ISSUE", lease, epoch, *more))

    def introspect(self, token, *more):
        return pairs(self.do("TOKEN", "INTROSPECT", token, *more))

    def assertLive(self, token):
        state = self.introspect(token)
        self.assertEqual(state["active"], 1, state)
        return state

    def assertDead(self, token, reason):
        state = self.introspect(token)
        self.assertEqual((state["active"], state.get("reason")), (0, reason))
        return state

    def test_an_independent_implementation_verifies_it_offline(self):
        lease, epoch = self.lease("jörg \"the\\holder\"")
        issued = self.issue(lease, epoch, "TTL", 3600, "SCOPE", "deploy read:logs")
        header, claims, signature = issued["token"].split(".")
        bad = signature[:-2] + ("A" if signature[-2] != "A" else "B") + signature[-1]
        forged = encode(decode(claims).replace(b"deploy", b"admins"))
        none = encode(b'{"alg":"none"}') + "." + claims + "."
        seen = jose(self.server, [
            {"token": issued["token"]}, {"token": header + "." + claims + "." + bad},
            {"token": header + "." + forged + "." + signature}, {"token": none},
            {"token": issued["token"], "issuer": "somebody"}, {"what": "thumbprints"}])
        self.assertTrue(seen[0]["ok"], seen[0])
        payload = seen[0]["payload"]
        self.assertEqual(payload["sub"], "holder:jörg \"the\\holder\"")
        self.assertEqual(payload["jti"], "%s.%s" % (lease, epoch))
        self.assertEqual(payload["jti"], issued["token_id"])
        self.assertEqual(payload["scope"], "deploy read:logs")
        self.assertEqual(payload["exp"] - payload["iat"], 3600)
        self.assertEqual(payload["exp"], issued["expires_at"])
        self.assertEqual([one["ok"] for one in seen[1:5]], [False] * 4)
        self.assertIn(seen[0]["header"]["kid"], seen[5])
        for token in (header + "." + claims + "." + bad, header + "." + forged + "." + signature):
            self.assertDead(token, "bad_signature")
        self.assertDead(none, "malformed")

    def test_a_token_that_another_implementation_signed_with_the_key_is_ours(self):
        lease, epoch = self.lease("signer")
        with open(os.path.join(self.server.data, "data", "token.keys"), "rb") as file:
            keys = file.read()
        jwk = {"kty": "OKP", "crv": "Ed25519", "x": encode(keys[16:48]), "d": encode(keys[48:80]),
               "kid": call(self.server, "GET", "/.well-known/jwks.json")[1]["keys"][0]["kid"]}
        now = int(self.do("TIME")[0])
        claims = {"iss": "tenure", "sub": "holder:signer", "jti": "%s.%s" % (lease, epoch),
                  "scope": "lease", "iat": now, "exp": now + 600}
        more = dict(claims, admin=True)
        late = dict(claims, exp=now - 1, iat=now - 2)
        good, extra, over = (one["token"] for one in jose(self.server, [
            {"what": "sign", "jwk": jwk, "claims": one} for one in (claims, more, late)]))
        self.assertLive(good)
        self.assertDead(extra, "bad_claims")
        self.assertDead(over, "expired")

    def test_it_dies_at_the_log_position_of_the_revoke(self):
        lease, epoch = self.lease()
        issued = self.issue(lease, epoch)
        self.assertLive(issued["token"])
        revoked = pairs(self.do("TOKEN", "REVOKE", issued["token_id"]))
        self.assertEqual((revoked["result"], revoked["state"]), ("OK", "revoking"))
        state = self.introspect(issued["token"], "FENCE", revoked["lsn"])
        self.assertEqual((state["active"], state["reason"]), (0, "stale"))
        self.assertGreaterEqual(state["lsn"], revoked["lsn"])
        self.assertEqual(state["jti"], issued["token_id"])
        # Whoever verifies offline only learns of it from exp.
        self.assertTrue(jose(self.server, [{"token": issued["token"]}])[0]["ok"])
        self.refused("STALE", "TOKEN", "REVOKE", issued["token_id"])
        self.refused("STALE", "TOKEN", "ISSUE", lease, epoch)
        self.refused("STATE", "TOKEN", "ISSUE", lease, revoked["epoch"])

    def test_a_revoke_repeated_with_its_operation_id_gets_the_first_answer(self):
        lease, epoch = self.lease()
        words = ["TOKEN", "REVOKE", "%s.%s" % (lease, epoch), "AFTER", 60, "OPID", "revoke-once"]
        first, second = pairs(self.do(*words)), pairs(self.do(*words))
        self.assertEqual((second["result"], second["lsn"], second["replayed"]),
                         ("OK", first["lsn"], 1))
        self.assertIsNotNone(first["deadline"])

    def test_it_dies_however_the_lease_ends(self):
        lease, epoch = self.lease("a")
        token = self.issue(lease, epoch)["token"]
        self.do("RELEASE", lease, "a", epoch)
        self.assertDead(token, "stale")
        lease, epoch = self.lease("b")
        token = self.issue(lease, epoch)["token"]
        rekeyed = pairs(self.do("REKEY", lease, epoch, "c"))
        self.assertDead(token, "stale")
        successor = self.issue(lease, rekeyed["epoch"])
        self.refused("STALE", "TOKEN", "REVOKE", "%s.%s" % (lease, epoch))
        self.assertEqual(self.assertLive(successor["token"])["sub"], "holder:c")
        lease, epoch = self.lease("d", "TTL", 3600)
        token = self.issue(lease, epoch)["token"]
        self.do("TOUCH", lease, epoch, "TTL", 1)
        until(lambda: not self.introspect(token)["active"], "the lease to expire")
        self.assertDead(token, "stale")

    def test_it_sleeps_while_a_sticky_holder_is_away(self):
        self.do("POOL", "CREATE", "sticky", "RANGE", "1", "9", "STICKY", "yes", "LEASE", "60")
        got = pairs(self.do("ALLOC", "sticky", "device"))
        old = self.issue(got["lease"], got["epoch"])["token"]
        self.do("RELEASE", got["lease"], "device", got["epoch"])
        away = pairs(self.do("LEASE", got["lease"]))
        self.assertEqual(away["state"], "offline")
        self.assertDead(old, "inactive" if away["epoch"] == got["epoch"] else "stale")
        back = pairs(self.do("ALLOC", "sticky", "device"))
        self.assertEqual(back["lease"], got["lease"])
        self.assertLive(self.issue(back["lease"], back["epoch"])["token"])

    def test_it_expires_by_its_own_time(self):
        lease, epoch = self.lease()
        token = self.issue(lease, epoch, "TTL", 1)["token"]
        until(lambda: not self.introspect(token)["active"], "the token to expire")
        self.assertDead(token, "expired")
        self.assertEqual(pairs(self.do("VERIFY", lease, epoch))["result"], "OK")
        self.refused("BAD_TOKEN", "TOKEN", "REFRESH", token)
        self.assertEqual(jose(self.server, [{"token": token}])[0]["code"], "ERR_JWT_EXPIRED")

    def test_a_refresh_leaves_the_old_token_alone_and_a_revoke_kills_both(self):
        lease, epoch = self.lease()
        old = self.issue(lease, epoch, "TTL", 1000, "REFRESH", 86400, "SCOPE", "x")
        new = pairs(self.do("TOKEN", "REFRESH", old["token"]))
        less = pairs(self.do("TOKEN", "REFRESH", old["token"], "TTL", 500))
        self.assertEqual([old["token_id"], "x", 1000, old["max_exp"]],
                         [new["token_id"], new["scope"], new["expires_in"], new["max_exp"]])
        self.assertEqual(less["expires_in"], 500)
        for one in (old, new, less):
            self.assertLive(one["token"])
        self.do("REVOKE", lease)
        for one in (old, new, less):
            self.assertDead(one["token"], "stale")
            self.assertIn("revoked or rekeyed", self.refused("BAD_TOKEN", "TOKEN", "REFRESH", one["token"]))

    def test_a_refresh_never_ends_later_than_the_issuer_allowed(self):
        lease, epoch = self.lease()
        issued = self.issue(lease, epoch, "TTL", 3600)
        self.assertEqual(issued["max_exp"], issued["expires_at"])
        for body in ({}, {"ttl": 7776000}):
            status, fresh, _ = call(self.server, "POST", "/auth/refresh", body,
                                    Authorization="Bearer " + issued["token"])
            self.assertEqual((status, fresh["expires_at"]), (200, issued["expires_at"]))
            issued = fresh
        state = self.assertLive(issued["token"])
        self.assertEqual((state["max_ttl"], state["max_exp"]), (3600, issued["expires_at"]))
        sliding = self.issue(lease, epoch, "TTL", 3600, "REFRESH", 7200)
        fresh = pairs(self.do("TOKEN", "REFRESH", sliding["token"], "TTL", 7776000))
        self.assertEqual((fresh["expires_in"], fresh["max_exp"]), (3600, sliding["max_exp"]))

    def test_a_token_of_a_timed_lease_lives_as_long_as_the_lease(self):
        got = pairs(self.do("ALLOC", "p", "timed", "TTL", 600))
        for words in ((), ("TTL", 3600)):
            issued = self.issue(got["lease"], got["epoch"], *words)
            self.assertEqual(issued["expires_at"], got["deadline"] // 1000)
        renewed = pairs(self.do("TOUCH", got["lease"], got["epoch"], "TTL", 1200))
        fresh = pairs(self.do("TOKEN", "REFRESH", issued["token"]))
        self.assertEqual(fresh["expires_at"], renewed["deadline"] // 1000)
        self.do("POOL", "CREATE", "held", "RANGE", "1", "9", "LEASE", "3600", "MAX_HOLD", "60")
        got = pairs(self.do("ALLOC", "held", "h"))
        issued = self.issue(got["lease"], got["epoch"], "TTL", 3600, "REFRESH", 3600)
        self.assertLessEqual(issued["expires_in"], 60)

    def test_what_cannot_be_issued_is_refused_by_name(self):
        lease, epoch = self.lease()
        self.refused("BAD_TTL", "TOKEN", "ISSUE", lease, epoch, "TTL", 0)
        self.assertIn("7776000", self.refused("BAD_TTL", "TOKEN", "ISSUE", lease, epoch, "TTL",
                                              7776001))
        self.refused("MALFORMED", "TOKEN", "ISSUE", lease, epoch, "SCOPE", "a\"b")
        self.refused("MALFORMED", "TOKEN", "ISSUE", lease, epoch, "SCOPE", "x" * 257)
        self.refused("NOTFOUND", "TOKEN", "ISSUE", "0-99999999", 1)
        self.refused("MALFORMED", "TOKEN", "REVOKE", lease)
        self.refused("NOTFOUND", "TOKEN", "REVOKE", "0-99999999.1")
        self.refused("BAD_TOKEN", "TOKEN", "REFRESH", "not.a.token")
        self.refused("MALFORMED", "TOKEN", "ISSUE", lease, epoch, "REFRESH", "x")
        self.assertDead("not.a.token", "malformed")
        self.assertDead("x" * 500000, "malformed")
        reserved = pairs(self.do("RESERVE", "h", "TTL", 60, "FROM", "p", "COUNT", 1))
        self.refused("STATE", "TOKEN", "ISSUE", reserved["lease"], reserved["epoch"])

    def test_http_has_the_same_and_says_no_store(self):
        lease, epoch = self.lease()
        status, issued, headers = call(self.server, "POST", "/v1/leases/%s/token" % lease,
                                       {"epoch": epoch, "ttl": 60})
        self.assertEqual((status, issued["token_type"], issued["expires_in"]), (200, "Bearer", 60))
        self.assertEqual(headers["cache-control"], "no-store")
        self.assertGreater(int(headers["tenure-lsn"]), 0)
        status, state, _ = call(self.server, "POST", "/auth/introspect", {"token": issued["token"]})
        self.assertEqual((status, state["active"], state["token_type"]), (200, True, "Bearer"))
        self.assertIsInstance(state["exp"], int)
        status, fresh, _ = call(self.server, "POST", "/auth/refresh", {"token": issued["token"]})
        self.assertEqual((status, fresh["token_id"]), (200, issued["token_id"]))
        status, again, _ = call(self.server, "POST", "/auth/refresh",
                                Authorization="bearer " + fresh["token"])
        self.assertEqual((status, again["token_id"]), (200, issued["token_id"]))
        status, again, _ = call(self.server, "POST", "/auth/refresh", {"ttl": 60},
                                Authorization="Bearer " + fresh["token"])
        self.assertEqual((status, again["expires_at"]), (200, issued["expires_at"]))
        status, again, _ = call(self.server, "POST", "/auth/refresh", {},
                                Authorization="Bearer " + fresh["token"])
        self.assertEqual((status, again["token_id"]), (200, issued["token_id"]))
        status, again, _ = call(self.server, "POST", "/auth/refresh", {"token": fresh["token"]},
                                Authorization="Bearer of something else")
        self.assertEqual((status, again["token_id"]), (200, issued["token_id"]))
        self.assertEqual(call(self.server, "POST", "/auth/refresh?token=x",
                              Authorization="Bearer " + fresh["token"])[0], 400)
        self.assertEqual(call(self.server, "POST", "/auth/refresh", Authorization="Basic eDp5")[0],
                         400)
        status, gone, _ = call(self.server, "DELETE", "/auth/token/" + issued["token_id"])
        self.assertEqual((status, gone["result"]), (200, "OK"))
        status, state, _ = call(self.server, "POST", "/auth/introspect",
                                {"token": fresh["token"], "fence": gone["lsn"]})
        self.assertEqual((status, state["active"], state["reason"]), (200, False, "stale"))
        status, again, _ = call(self.server, "POST", "/auth/revoke/" + issued["token_id"])
        self.assertEqual((status, again["result"]), (409, "STALE"))
        status, refused, _ = call(self.server, "POST", "/auth/refresh", {"token": fresh["token"]})
        self.assertEqual((status, refused["result"]), (401, "BAD_TOKEN"))
        self.assertEqual(call(self.server, "POST", "/auth/introspect", {})[0], 400)
        self.assertEqual(call(self.server, "POST", "/auth/introspect", {"token": 7})[0], 400)
        large = call(self.server, "POST", "/auth/introspect", {"token": "A" * 300000})
        self.assertEqual((large[0], large[1]["reason"]), (200, "malformed"))
        self.assertEqual(call(self.server, "GET", "/auth/introspect")[0], 405)

    def test_a_sensor_gets_a_token_for_its_lease_and_trigger(self):
        self.do("POOL", "CREATE", "sensors", "SET")
        self.do("POOL", "ADD", "sensors", "core.timer")
        self.do("SENSOR", "SET", "core.timer", "core.tick", '{"command":["/bin/true"]}')
        status, refused, _ = call(self.server, "POST", "/auth/sensor-token", {"ref": "core.timer"})
        self.assertEqual((status, refused["result"]), (404, "NOTFOUND"))
        self.assertIn("not running", refused["detail"])
        run = pairs(self.do("ALLOC", "sensors", "supervisor", "VALUES", 1, "core.timer"))
        status, issued, _ = call(self.server, "POST", "/auth/sensor-token", {"ref": "core.timer"})
        self.assertEqual(status, 200, issued)
        self.assertEqual([issued["sub"], issued["scope"], issued["trigger_types"],
                          issued["expires_in"], issued["token_id"]],
                         ["sensor:core.timer", "sensor", ["core.tick"], 7776000,
                          "%s.%s" % (run["lease"], run["epoch"])])
        seen = jose(self.server, [{"token": issued["token"]}])[0]["payload"]
        self.assertEqual([seen["sub"], seen["trigger_types"]],
                         ["sensor:core.timer", ["core.tick"]])
        self.assertEqual(call(self.server, "POST", "/auth/sensor-token", {"ref": "none"})[0], 404)
        call(self.server, "POST", "/auth/revoke/" + issued["token_id"])
        self.assertDead(issued["token"], "stale")
        self.refused("STATE", "TOKEN", "SENSOR", "core.timer")

    def test_metrics_count_them(self):
        def count(line):
            connection = http.client.HTTPConnection("127.0.0.1", self.server.http_port,
                                                    timeout=PATIENCE)
            connection.request("GET", "/metrics?pools=no")
            text = connection.getresponse().read().decode()
            connection.close()
            return next(int(one.rsplit(" ", 1)[1]) for one in text.splitlines()
                        if one.startswith(line + " "))
        names = ["tenure_tokens_issued_total", "tenure_tokens_revoked_total",
                 'tenure_token_introspections_total{outcome="live"}',
                 'tenure_token_introspections_total{outcome="stale"}']
        before = [count(name) for name in names]
        lease, epoch = self.lease()
        issued = self.issue(lease, epoch)
        self.do("TOKEN", "REFRESH", issued["token"])
        self.introspect(issued["token"])
        self.do("TOKEN", "REVOKE", issued["token_id"])
        self.introspect(issued["token"])
        self.refused("STALE", "TOKEN", "REVOKE", issued["token_id"])
        self.assertEqual([count(name) for name in names],
                         [before[0] + 2, before[1] + 1, before[2] + 1, before[3] + 1])

    def test_the_command_line_issues_and_introspects(self):
        lease, epoch = self.lease()

        def tenure(*words):
            run = subprocess.run([os.path.join(BUILD, "tenure"), "--port",
                                  str(self.server.port), "--json", *words],
                                 capture_output=True, text=True, timeout=PATIENCE, check=False)
            self.assertEqual(run.returncode, 0, run.stderr)
            return json.loads(run.stdout)
        issued = tenure("token", "issue", lease, str(epoch), "--ttl", "60")
        self.assertTrue(tenure("token", "introspect", issued["token"])["active"])
        self.assertEqual(tenure("token", "revoke", issued["token_id"])["result"], "OK")
        self.assertFalse(tenure("token", "introspect", issued["token"])["active"])


class Restarts(unittest.TestCase):
    def setUp(self):
        self.server = Server()
        self.r = self.server.client()
        self.r.execute_command("POOL", "CREATE", "p", "RANGE", "1", "1000")

    def tearDown(self):
        self.r.close()
        self.server.remove()

    def again(self, number=signal.SIGKILL):
        self.r.close()
        self.server.stop(number)
        self.server.start()
        self.r = self.server.client()

    def issue(self, holder):
        got = pairs(self.r.execute_command("ALLOC", "p", holder))
        return pairs(self.r.execute_command("TOKEN", "ISSUE", got["lease"], got["epoch"]))

    def active(self, issued):
        state = pairs(self.r.execute_command("TOKEN", "INTROSPECT", issued["token"]))
        return state["active"] == 1 or state["reason"]

    def kids(self):
        return [key["kid"] for key in
                call(self.server, "GET", "/.well-known/jwks.json")[1]["keys"]]

    def test_what_lives_lives_and_what_is_dead_stays_dead_after_a_crash(self):
        live, dead = self.issue("a"), self.issue("b")
        self.r.execute_command("TOKEN", "REVOKE", dead["token_id"])
        for _ in range(3):
            self.again()
            self.assertEqual([self.active(live), self.active(dead)], [True, "stale"])

    def test_a_rotation_overlaps_and_survives_a_crash(self):
        old = self.issue("a")
        rotated = pairs(self.r.execute_command("TOKEN", "ROTATE"))
        self.assertEqual(self.kids()[0], rotated["kid"])
        new = self.issue("b")
        for _ in range(2):
            self.assertEqual([self.active(old), self.active(new)], [True, True])
            self.assertEqual(len(self.kids()), 2)
            seen = jose(self.server, [{"token": old["token"]}, {"token": new["token"]}])
            self.assertEqual([one["ok"] for one in seen], [True, True])
            self.assertEqual(seen[1]["header"]["kid"], rotated["kid"])
            self.assertNotEqual(seen[0]["header"]["kid"], rotated["kid"])
            self.again()
        dropped = call(self.server, "POST", "/auth/rotate", {"now": True})[1]
        self.assertEqual((dropped["result"], self.kids()), ("OK", [dropped["kid"]]))
        self.again()
        self.assertEqual([self.active(old), self.active(new)], ["unknown_key"] * 2)
        self.assertEqual(jose(self.server, [{"token": new["token"]}])[0]["code"],
                         "ERR_JWKS_NO_MATCHING_KEY")

    def test_rotations_at_once_are_done_one_by_one_or_turned_away(self):
        connections = [Resp(self.server, 3) for _ in range(8)]
        for connection in connections:
            for _ in range(3):
                connection.send("TOKEN", "ROTATE")
        results = [connection.read() for connection in connections for _ in range(3)]
        for connection in connections:
            connection.close()
        done = [one["kid"] for one in results if isinstance(one, dict)]
        away = [one for one in results if str(one).startswith("OVERLOADED")]
        self.assertEqual(len(done) + len(away), 24)
        self.assertTrue(set(done) < set(self.kids()))
        self.assertEqual(len(self.kids()), 1 + len(done))

    def test_no_secret_is_in_the_log_the_command_line_the_environment_or_another_file(self):
        issued = self.issue("a")
        self.r.execute_command("TOKEN", "ROTATE")
        fresh = pairs(self.r.execute_command("TOKEN", "REFRESH", issued["token"]))
        self.r.execute_command("TOKEN", "INTROSPECT", issued["token"])
        call(self.server, "POST", "/auth/introspect", {"token": issued["token"]})
        call(self.server, "POST", "/auth/refresh", {"token": "bad" + issued["token"]})
        with open(os.path.join(self.server.data, "data", "token.keys"), "rb") as file:
            seed = file.read()[48:80]
        secrets = [issued["token"].encode(), issued["token"].split(".")[2].encode(),
                   fresh["token"].split(".")[2].encode(), seed, seed.hex().encode(),
                   encode(seed).encode(), base64.b64encode(seed)]
        seen = {}
        for name in ("cmdline", "environ"):
            with open("/proc/%d/%s" % (self.server.process.pid, name), "rb") as file:
                seen[name] = file.read()
        self.server.stop()  # files come and go while it runs
        for directory, _, names in os.walk(self.server.data):
            for name in set(names) - {"token.keys"}:
                with open(os.path.join(directory, name), "rb") as file:
                    seen[name] = file.read()
        self.assertIn(b"token_keys_rotated", seen["stderr"])
        for name, data in seen.items():
            for secret in secrets:
                self.assertNotIn(secret, data, name)

    def test_tokens_may_live_as_long_as_the_setting_says_and_name_its_issuer(self):
        self.server.flags = ("--token-ttl-seconds", "100", "--token-issuer", "https://t.example")
        self.again(signal.SIGTERM)
        issued = self.issue("a")
        self.assertEqual(issued["expires_in"], 100)
        seen = jose(self.server, [{"token": issued["token"], "issuer": "https://t.example"}])
        self.assertTrue(seen[0]["ok"], seen)


class KeyFile(unittest.TestCase):
    def refused(self, spoil):
        with tempfile.TemporaryDirectory(prefix="tenure-e2e-") as directory:
            server = Server(directory)
            path = os.path.join(directory, "data", "token.keys")
            self.assertEqual(os.stat(path).st_mode & 0o7777, 0o600)
            self.assertEqual(server.stop(), 0)
            spoil(path)
            run = subprocess.run([TENURED, "--data", os.path.join(directory, "data"), "--listen",
                                  "127.0.0.1:0", "--http", "off"], capture_output=True, text=True,
                                 timeout=PATIENCE, check=False)
            self.assertEqual(run.returncode, 2, run.stderr)
            return next(line for line in run.stderr.splitlines() if "event=refused" in line)

    def test_one_that_others_may_read_refuses_the_start(self):
        self.assertIn("chmod 600", self.refused(lambda path: os.chmod(path, 0o644)))

    def test_a_damaged_one_refuses_the_start(self):
        def spoil(path):
            with open(path, "r+b") as file:
                file.seek(60)
                file.write(b"\0\1\2\3")
        self.assertIn("is damaged: its checksum is wrong", self.refused(spoil))
        self.assertIn("is damaged", self.refused(lambda path: os.truncate(path, 0)))

    def test_one_that_is_gone_makes_new_keys_and_voids_old_tokens(self):
        server = Server()
        r = server.client()
        r.execute_command("POOL", "CREATE", "p", "RANGE", "1", "10")
        got = pairs(r.execute_command("ALLOC", "p", "a"))
        token = pairs(r.execute_command("TOKEN", "ISSUE", got["lease"], got["epoch"]))["token"]
        r.close()
        server.stop()
        os.unlink(os.path.join(server.data, "data", "token.keys"))
        server.start()
        r = server.client()
        self.assertEqual(pairs(r.execute_command("TOKEN", "INTROSPECT", token))["reason"],
                         "unknown_key")
        r.close()
        server.remove()


if __name__ == "__main__":
    unittest.main()
