#!/usr/bin/env python3
# tsan
"""HTTP with real clients: curl, Python's http.client and raw sockets."""
import http.client
import json
import os
import re
import signal
import socket
import subprocess
import unittest

from harness import BUILD, PATIENCE, Case, Server, pairs, receive_until, text_of, until

SOURCE = os.environ.get("TENURE_SOURCE_DIR", ".")


def unread(port):
    """The unread bytes in the sockets of the server at this port of 127.0.0.1, and those in transit."""
    total = 0
    for line in text_of("/proc/net/tcp").splitlines()[1:]:
        fields = line.split()
        sent, received = fields[4].split(":")
        local, remote = (int(end.split(":")[1], 16) for end in fields[1:3])
        if fields[3] == "01":  # established
            total += int(received, 16) if local == port else int(sent, 16) if remote == port else 0
    return total


def connect(server):
    s = socket.create_connection(("127.0.0.1", server.http_port), timeout=PATIENCE)
    s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return s


class Answer:
    """A response: status, headers and, if it is JSON, the parsed body."""

    def __init__(self, response):
        self.status = response.status
        self.headers = response.headers
        self.body = response.read()
        self.type = (response.headers["Content-Type"] or "").split(";")[0]
        self.json = json.loads(self.body) if self.type.endswith("json") and self.body else None

    def __str__(self):
        return "%d %s" % (self.status, self.body.decode(errors="replace"))


class HttpCase(Case):
    def setUp(self):
        self.c = http.client.HTTPConnection("127.0.0.1", self.server.http_port, timeout=PATIENCE)

    def tearDown(self):
        self.c.close()

    def ask(self, method, path, body=None, headers=None):
        data = json.dumps(body).encode() if isinstance(body, (dict, list)) else body
        all_headers = {"Content-Type": "application/json"} if data else {}
        all_headers.update(headers or {})
        self.c.request(method, path, data, all_headers)
        return Answer(self.c.getresponse())

    def problem(self, status, method, path, body=None, headers=None):
        """Sends a request that must be refused with that status, as a problem."""
        answer = self.ask(method, path, body, headers)
        self.assertEqual((answer.status, answer.type), (status, "application/problem+json"),
                         str(answer))
        self.assertEqual(answer.json["status"], status)
        return answer

    def raw(self, data, end=b"nothing ends like this"):
        s = connect(self.server)
        s.sendall(data)
        got = receive_until(s, end)
        s.close()
        return got


class Pages(HttpCase):
    def test_health(self):
        for path in ("/livez", "/readyz", "/leaderz", "/healthz", "/health"):
            answer = self.ask("GET", path)
            self.assertEqual((answer.status, answer.body), (200, b"ok\n"))
        verbose = self.ask("GET", "/readyz?verbose").body.decode()
        self.assertEqual(verbose.splitlines(), ["[+]loop ok", "[+]engine ok", "[+]disk ok",
                                                "[+]events ok", "[+]log ok", "[+]serving ok",
                                                "readyz check passed"])
        self.assertIn(b"/readyz", self.ask("GET", "/").body)

    def test_json_ends_in_a_newline(self):
        self.ask("PUT", "/v1/pools/lines", {"range": [1, 9]})
        for method, path in (("GET", "/v1/pools/lines"), ("GET", "/v1/pools"), ("GET", "/nowhere"),
                             ("GET", "/openapi.json"), ("POST", "/v1/pools/lines/leases"),
                             ("GET", "/.well-known/jwks.json")):
            body = self.ask(method, path).body
            self.assertTrue(body.endswith(b"}\n") and not body.endswith(b"\n\n"), (path, body[-9:]))
        self.assertTrue(self.raw(b"GET / HTTP/1.1\r\n\r\n").endswith(b"}\n"))

    def test_head_options_and_wrong_methods(self):
        head = self.ask("HEAD", "/livez")
        self.assertEqual((head.status, head.headers["Content-Length"], head.body),
                         (200, "3", b""))
        options = self.ask("OPTIONS", "/livez")
        self.assertEqual((options.status, options.headers["Allow"]), (204, "GET, HEAD, OPTIONS"))
        self.assertIn("PATCH", self.ask("OPTIONS", "*").headers["Allow"])
        self.assertEqual(self.problem(405, "POST", "/livez").headers["Allow"],
                         "GET, HEAD, OPTIONS")
        self.problem(404, "GET", "/nowhere")

    def test_metrics(self):
        whole = self.ask("GET", "/metrics")
        self.assertEqual((whole.status, whole.type), (200, "text/plain"))
        self.assertIn(b"\ntenure_engine_lsn", whole.body)
        self.ask("PUT", "/v1/pools/measured", {"range": [1, 9]})
        self.assertIn(b'pool="measured"', self.ask("GET", "/metrics").body)
        self.assertNotIn(b'pool="measured"', self.ask("GET", "/metrics?pools=no").body)
        many = [connect(self.server) for _ in range(20)]
        for s in many:
            s.sendall(b"GET /metrics HTTP/1.0\r\n\r\n")
        many.pop().close()
        for s in many:
            self.assertIn(b'pool="measured"', receive_until(s, b"nothing"))
            s.close()

    def test_the_interface_is_described(self):
        answer = self.ask("GET", "/openapi.json")
        self.assertEqual((answer.status, answer.type), (200, "application/json"))
        made = subprocess.run([os.path.join(BUILD, "gen-openapi")], timeout=PATIENCE, check=True,
                              stdout=subprocess.PIPE).stdout
        self.assertEqual(answer.json["paths"], json.loads(made)["paths"])

    def test_curl_reads_it(self):
        out = subprocess.run(["curl", "-sS", "-i", "http://localhost:%d/readyz"
                              % self.server.http_port], timeout=PATIENCE, check=True,
                             stdout=subprocess.PIPE).stdout
        self.assertTrue(out.startswith(b"HTTP/1.1 200 OK\r\n"), out)


class Commands(HttpCase):
    def done(self, method, path, body=None, headers=None, status=200):
        answer = self.ask(method, path, body, headers)
        self.assertEqual((answer.status, answer.type), (status, "application/json"), str(answer))
        return answer

    def made(self, path, body=None, headers=None):
        return self.done("POST", path, body, headers, 201)

    def pool(self, name, **options):
        self.done("PUT", "/v1/pools/" + name, options or {"range": [1, 9]}, status=201)

    def test_every_route_of_the_table_works(self):
        """In an order in which each finds the objects that it needs. L is the newest lease, E its epoch."""
        lease, seen = ["", "1"], set()
        script = """
            PUT /v1/pools/ports {"range": [30000, 30009], "lease": 60}
            PUT /v1/pools/gpus {"set": true}
            PUT /v1/pools/devices {"sticky": true}
            POST /v1/pools/gpus/resources {"names": ["gpu-1", "gpu-2"]}
            PATCH /v1/pools/ports {"lease": 120}
            GET /v1/pools/ports
            GET /v1/pools?count=100
            GET /v1/pools/devices/metrics
            GET /v1/pools/devices/history?step=hour
            DELETE /v1/pools/gpus/resources?name=gpu-2
            POST /v1/pools/ports/leases {"holder": "job/42", "count": 2, "ttl": 60, "meta": {"a": [1]}}
            GET /v1/leases/L
            GET /v1/pools/ports/values/30000/lease
            GET /v1/pools/ports/values?state=active&count=10
            GET /v1/pools/ports/values/30000
            GET /v1/leases/L/verify?epoch=E
            GET /v1/leases?pool=ports&state=active&count=10
            POST /v1/leases/L/touch {"epoch": "E", "ttl": 60}
            POST /v1/leases/L/token {"epoch": "E", "ttl": 60, "scope": "read"}
            POST /v1/leases/L/revoke {"after": 30}
            POST /v1/leases/L/ack {"holder": "job/42", "epoch": 1}
            POST /v1/reservations {"holder": "job/42", "ttl": 30, "from": [{"pool": "ports", "count": 2}, {"pool": "gpus", "values": ["gpu-1"]}]}
            POST /v1/leases/L/activate {"holder": "job/42", "epoch": E}
            POST /v1/leases/L/rekey {"epoch": E, "holder": "job/43"}
            POST /v1/leases/L/revoke
            POST /v1/leases/L/reclaim
            POST /v1/leases {"holder": "job/42", "from": [{"pool": "ports", "count": 1}]}
            POST /v1/leases/L/release {"holder": "job/42", "epoch": E}
            POST /v1/pools/ports/leases {"holder": "job/42"}
            DELETE /v1/leases/L?holder=job/42&epoch=E
            POST /v1/holders/job%2F42/disown {"pool": "ports"}
            POST /v1/pools/ports/imports {"holder": "job/7", "values": ["30007"], "created": "1700000000000"}
            DELETE /v1/leases/L?holder=job/7&epoch=E
            POST /v1/pools/devices/seed {"given": 8}
            POST /v1/sweep {"pool": "ports"}
            POST /v1/tick
            DELETE /v1/pools/ports
            POST /v1/snapshot
            PUT /v1/rules/r1 {"trigger": "core.timer", "meta": {"seconds": 5}}
            GET /v1/rules/r1
            POST /v1/rules/r1/disable
            POST /v1/rules/r1/enable
            GET /v1/rules
            PUT /v1/sensors/s1 {"trigger": "core.timer", "spec": {"command": ["/usr/bin/timer"]}}
            GET /v1/sensors/s1
            GET /v1/sensors/s1/status
            POST /v1/sensors/s1/restart
            POST /v1/sensors/s1/disable
            POST /v1/sensors/s1/enable
            GET /v1/sensors
            DELETE /v1/sensors/s1
            DELETE /v1/rules/r1
            GET /v1/cluster/nodes
            GET /v1/users
            GET /v1/whoami
        """
        for line in script.strip().splitlines():
            method, path, *body = line.split(None, 2)
            fill = lambda t: t.replace("/L", "/" + lease[0]).replace('"E"', '"%s"' % lease[1]) \
                .replace("=E", "=" + lease[1]).replace(": E", ": " + lease[1])
            answer = self.ask(method, fill(path), fill(body[0]).encode() if body else None)
            if line.strip().startswith("PUT /v1/sensors/"):
                self.assertEqual((answer.status, answer.json["result"]), (403, "NOPERM"))
                self.do("SENSOR", "SET", "s1", "core.timer", '{"command": ["/usr/bin/timer"]}')
                seen.add(("put", path))
                continue
            makes = path in ("/v1/leases", "/v1/reservations") or \
                path.endswith(("s/leases", "s/imports"))
            makes = method == "POST" and makes or method == "PUT" and "/pools/" in path
            self.assertEqual((answer.status, answer.type),
                             (201 if makes else 200, "application/json"), line + str(answer))
            if makes and method == "POST":
                self.assertEqual(answer.headers["Location"], "/v1/leases/" + answer.json["lease"])
                lease = [answer.json["lease"], answer.json["epoch"]]
            if "lsn" in answer.json:
                self.assertEqual(answer.headers["Tenure-LSN"], answer.json["lsn"])
            seen.add((method.lower(), path.split("?")[0]))
        for path, methods in self.ask("GET", "/openapi.json").json["paths"].items():
            shape = re.compile(re.sub("{[a-z]+}", "[^/]+", path) + "$")
            # A stream, what only a sensor that runs can do, what only a cluster can, and a user with a name.
            elsewhere = ("/v1/events", "/v1/events/emit", "/v1/sensors/heartbeat", "/v1/sensors/{ref}/rules",
                         "/v1/sensors/{ref}/logs", "/v1/sensors/{ref}/reset", "/v1/cluster/step-down",
                         "/v1/cluster/close", "/v1/cluster/nodes/{name}", "/v1/users/{name}")
            ours = path.startswith("/v1/") and path not in elsewhere
            for method in methods if ours else ():
                self.assertTrue(any(m == method and shape.match(p) for m, p in seen),
                                method + " " + path)

    def same(self, over_http, over_resp, where):
        """JSON and the reply of a RESP2 client have the same contents, except for positions and times."""
        if isinstance(over_http, dict) and isinstance(over_resp, str):
            self.assertEqual(over_http, json.loads(over_resp), where)
        elif isinstance(over_http, dict):
            other = pairs(over_resp)
            self.assertEqual(list(over_http), list(other), where)
            for name in set(over_http) - {"lsn", "updated_at"}:
                self.same(over_http[name], other[name], where + "." + name)
        elif isinstance(over_http, list):
            self.assertEqual(len(over_http), len(over_resp), where)
            for i, (one, other) in enumerate(zip(over_http, over_resp)):
                self.same(one, other, "%s[%d]" % (where, i))
        elif isinstance(over_http, (bool, float, int)):
            self.assertEqual(float(over_http), float(over_resp), where)
        elif over_http is None:
            self.assertIsNone(over_resp, where)
        else:
            self.assertEqual(over_http, str(over_resp), where)

    def test_both_encodings_give_the_same_content(self):
        self.pool("same", range=[1, 9], lease=3600)
        self.pool("sticky", range=[1, 9], sticky=True)
        self.done("PUT", "/v1/rules/same", {"trigger": "t"})
        # It is wanted, and would be started between two looks at its state.
        self.do("SENSOR", "SET", "same", "t", '{"command": ["x", "y"], "settle_seconds": 86400}')
        lease = self.made("/v1/pools/same/leases",
                          {"holder": "h", "count": 2, "meta": {"k": ["v", 1]}}).json["lease"]
        for path, words in [
                ("/v1/leases/" + lease, ["LEASE", lease]),
                ("/v1/pools/same/values/2/lease", ["LEASE", "same/2"]),
                ("/v1/leases/%s/verify?epoch=1" % lease, ["VERIFY", lease, "1"]),
                ("/v1/leases?pool=same&state=active", ["LEASES", "POOL", "same", "STATE", "active"]),
                ("/v1/pools/same", ["POOL", "INFO", "same"]),
                ("/v1/pools?count=3", ["POOL", "LIST", "COUNT", "3"]),
                ("/v1/pools/sticky/metrics", ["POOL", "METRICS", "sticky"]),
                ("/v1/rules", ["RULE", "LIST"]), ("/v1/sensors", ["SENSOR", "LIST"]),
                ("/v1/sensors/same", ["SENSOR", "INFO", "same"]),
                ("/v1/events?pool=same&count=5", ["EVENTS", "POOL", "same", "COUNT", "5"])]:
            self.same(self.done("GET", path).json, self.do(*words), path)
        key = {"Idempotency-Key": "same"}
        body = {"holder": "other", "values": ["7"]}
        self.made("/v1/pools/same/leases", body, key)
        self.same(self.made("/v1/pools/same/leases", body, key).json,
                  self.do("ALLOC", "same", "other", "VALUES", "1", "7", "OPID", "same"), "ALLOC")

    def test_names_with_slashes_and_scopes(self):
        self.pool("tpl", range=[1, 9], scoped=True)
        made = self.made("/v1/pools/tpl%40node%3A7/leases", {"holder": "a/b c"})
        seen = self.done("GET", "/v1/leases?holder=a%2Fb+c").json["leases"]
        self.assertEqual([l["lease"] for l in seen], [made.json["lease"]])
        self.assertEqual(self.done("GET", "/v1/pools/tpl@node:7/values/1/lease").json["holder"],
                         "a/b c")
        self.assertEqual(self.done("POST", "/v1/holders/a%2Fb%20c/disown").json["released"], "1")

    def test_a_pool_can_be_declared_again(self):
        first = self.ask("PUT", "/v1/pools/again", {"range": [1, 9], "lease": "1m"})
        self.assertEqual((first.status, first.json["result"]), (201, "OK"), str(first))
        for body in ({"range": [1, 9], "lease": 60}, {"lo": 1, "hi": 9, "lease": "60s"}):
            again = self.ask("PUT", "/v1/pools/again", body)
            self.assertEqual((again.status, again.json["result"]), (200, "NOOP"), str(again))
        for option, body in (("lease", {"range": [1, 9]}), ("hi", {"range": [1, 8], "lease": 60}),
                             ("exclude", {"range": [1, 9], "lease": 60, "exclude": "3"})):
            other = self.problem(409, "PUT", "/v1/pools/again", body)
            self.assertEqual((other.json["result"], other.json["option"]), ("EXISTS", option))
            self.assertIn("%s differs" % option, other.json["detail"])

    def test_adaptive_options_are_for_sticky_pools(self):
        self.pool("plain", range=[1, 9])
        self.pool("adaptive", range=[1, 9], sticky=True, high_rate_min_factor=0.5)
        plain = self.ask("GET", "/v1/pools/plain").json["options"]
        sticky = self.ask("GET", "/v1/pools/adaptive").json["options"]
        self.assertEqual(sticky["high_rate_min_factor"], "0.500000")
        self.assertEqual({name for name in sticky if name not in plain},
                         {"adaptive_enabled", "min_lease_seconds", "rate_window_seconds",
                          "high_rate_threshold_per_hour", "ultra_rate_threshold_per_hour",
                          "ultra_rate_sustain_seconds", "high_rate_min_factor",
                          "ultra_force_release", "metrics_emit_interval_seconds"})
        for method, path in (("PUT", "/v1/pools/other"), ("PATCH", "/v1/pools/plain")):
            refused = self.problem(422, method, path, {"high_rate_min_factor": 0.5})
            self.assertEqual(refused.json["detail"],
                             "high_rate_min_factor needs a sticky pool (sticky yes)")
        for body, words in (({"range": [10, 5]}, "range: lo is above hi"),
                            ({"lease": 9, "max_lease": 8}, "lease is above max_lease"),
                            ({"sticky": True, "lease": 5, "min_lease_seconds": 6},
                             "lease is below min_lease_seconds")):
            self.assertEqual(self.problem(422, "PUT", "/v1/pools/bad", body).json["detail"], words)
        zero = self.problem(422, "POST", "/v1/pools/plain/leases", {"holder": "h", "ttl": 0})
        self.assertNotIn("cap", zero.json)
        self.assertIn("above 0", zero.json["detail"])

    def test_durations_may_have_units(self):
        self.pool("units", range=[1, 9], lease="12h")
        self.assertEqual(self.ask("GET", "/v1/pools/units").json["options"]["lease"], "43200")
        for ttl, seconds in (("15m", "900"), ("90s", "90"), (60, "60"), ("60", "60")):
            lease = self.made("/v1/pools/units/leases", {"holder": "h", "ttl": ttl}).json["lease"]
            self.assertEqual(self.ask("GET", "/v1/leases/" + lease).json["ttl"], seconds)

    def test_refusals_are_problems_with_an_outcome(self):
        self.pool("few", range=[1, 1], lease=60)
        made = self.made("/v1/pools/few/leases", {"holder": "h"}).json["lease"]
        full = self.problem(409, "POST", "/v1/pools/few/leases", {"holder": "other"})
        self.assertEqual((full.json["result"], full.json["outcome"]), ("EXHAUSTED", "committed"))
        self.assertIn(int(full.headers["Retry-After"]), range(1, 61))
        self.assertEqual(full.headers["Tenure-LSN"], full.json["lsn"])
        for status, outcome, result, method, path, body in [
                (404, "committed", "POOL_NOTFOUND", "POST", "/v1/pools/none/leases", {"holder": "h"}),
                (409, "committed", "STALE", "POST", "/v1/leases/L/touch", {"epoch": "7"}),
                (403, "committed", "HOLDER", "POST", "/v1/leases/L/release",
                 {"holder": "x", "epoch": 1}),
                (404, "committed", "NOTFOUND", "POST", "/v1/leases/0-999999/reclaim", None),
                (409, "committed", "EXISTS", "PUT", "/v1/pools/few", {"range": [1, 2]}),
                (409, "committed", "POOL_IN_USE", "DELETE", "/v1/pools/few", None),
                (422, "rejected", "BAD_POLICY", "PUT", "/v1/pools/bad", {"strategy": "best"}),
                (400, "rejected", "MALFORMED", "POST", "/v1/pools/few/leases", {"holder": 5}),
                (400, "rejected", "MALFORMED", "POST", "/v1/pools/few/leases", {"what": "h"}),
                (400, "rejected", "MALFORMED", "GET", "/v1/leases/nonsense", None),
                (400, "rejected", "MALFORMED", "GET", "/v1/leases?state=odd", None)]:
            answer = self.problem(status, method, path.replace("/L", "/" + made), body)
            self.assertEqual((answer.json["outcome"], answer.json["result"]), (outcome, result),
                             str(answer))
        self.problem(404, "GET", "/v1/leases/0-999999")

    def test_pages(self):
        self.pool("pages", range=[1, 100])
        made = {self.made("/v1/pools/pages/leases", {"holder": "h%d" % i}).json["lease"]
                for i in range(25)}
        seen, path = [], "/v1/leases?pool=pages&count=10"
        while path:
            page = self.done("GET", path)
            seen += [l["lease"] for l in page.json["leases"]]
            link = page.headers["Link"]
            self.assertEqual(link is not None, page.json["cursor"] != "0")
            path = link and link[link.index("<") + 1:link.index(">")]
        self.assertEqual((len(seen), set(seen)), (25, made))

    def test_more_options_than_there_are(self):
        """Each option is compared with those before it, so their number is limited."""
        for count, status, result in ((3, 422, "BAD_POLICY"), (64, 422, "BAD_POLICY"),
                                      (65, 413, "TOO_LARGE"), (20000, 413, "TOO_LARGE")):
            body = {"o" + "".join(chr(97 + int(d)) for d in str(i)): 1 for i in range(count)}
            got = self.problem(status, "PUT", "/v1/pools/options", body)
            self.assertEqual((got.json["result"], got.json["outcome"]), (result, "rejected"))

    def test_more_bodies_at_once_than_there_is_room_for(self):
        """They are client memory; a client without room gets an answer that says so."""
        server = Server(None, "--client-memory", str(32 << 20))
        self.addCleanup(server.remove)
        part = b"{" + b" " * (383 * 1024)
        head = (b"POST /v1/pools/bodies/leases HTTP/1.1\r\nHost: localhost\r\n"
                b"Content-Length: %d\r\nConnection: close\r\n\r\n" % (len(part) + 1))
        many = [connect(server) for _ in range(200)]
        for s in many:
            s.sendall(head + part)
        # What the server has not read yet takes no room.
        until(lambda: unread(server.http_port) == 0, "all parts are read")
        for s in many:
            s.sendall(b"}")
        answers = [receive_until(s, b"nothing") for s in many]
        for s in many:
            s.close()
        self.assertEqual({a[9:12] for a in answers}, {b"400", b"503"})
        for a in answers:
            self.assertIn(b'"outcome":"rejected"', a)
            self.assertEqual(a[9:12] == b"503", b"Retry-After: 1\r\n" in a)

    def test_a_key_makes_a_repeat_safe(self):
        self.pool("once", range=[1, 9])
        key = {"Idempotency-Key": "order-1"}
        first = self.made("/v1/pools/once/leases", {"holder": "h"}, key)
        again = self.made("/v1/pools/once/leases", {"holder": "h"}, key)
        self.assertIsNone(first.headers["Idempotent-Replayed"])
        self.assertEqual(again.headers["Idempotent-Replayed"], "true")
        self.assertEqual((first.json["lease"], first.headers["Location"]),
                         (again.json["lease"], again.headers["Location"]))
        other = self.problem(422, "POST", "/v1/pools/once/leases", {"holder": "other"}, key)
        self.assertEqual(other.json["result"], "CONFLICT")
        self.problem(400, "POST", "/v1/pools/once/leases", {"holder": "h"},
                     {"Idempotency-Key": "k" * 65})

    def test_who_comes_back_after_retry_after_is_not_too_early(self):
        """Whole seconds, rounded up: a client that waits that long finds the value free."""
        self.pool("soon", range=[1, 1], lease=3600)
        self.made("/v1/pools/soon/leases", {"holder": "h"})
        for _ in range(50):
            full = self.problem(409, "POST", "/v1/pools/soon/leases", {"holder": "other"})
            seconds, micros = self.do("TIME")
            now_ms = int(seconds) * 1000 + int(micros) // 1000
            free_ms = now_ms + 1000 * int(full.headers["Retry-After"])
            self.assertGreaterEqual(free_ms, int(full.json["retry_at"]))

    def test_a_key_under_way_is_a_conflict(self):
        """Two at the same time: some of the repeats that arrive while the first request is being synced get a conflict."""
        self.pool("race", range=[1, 1000])

        def twins(number):
            body = b'{"holder": "h"}'
            request = (b"POST /v1/pools/race/leases HTTP/1.1\r\nHost: localhost\r\n"
                       b"Idempotency-Key: race-%d\r\nContent-Length: %d\r\nConnection: close\r\n"
                       b"\r\n" % (number, len(body)) + body)
            both = [connect(self.server), connect(self.server)]
            for s in both:
                s.sendall(request)
            answers = sorted((receive_until(s, b"nothing") for s in both), key=lambda a: a[9:12])
            for s in both:
                s.close()
            statuses = [a[9:12] for a in answers]
            self.assertIn(statuses, ([b"201", b"201"], [b"201", b"409"]))
            if statuses[1] == b"409":  # the first may still be committed: it is not known yet
                self.assertIn(b'"outcome":"unknown"', answers[1])
            return statuses[1] == b"409"
        numbers = iter(range(1000000))
        until(lambda: twins(next(numbers)), "a conflict")

    def test_fences(self):
        self.pool("fence", range=[1, 3])
        lsn = int(self.made("/v1/pools/fence/leases", {"holder": "h"}).json["lsn"])
        self.assertGreaterEqual(int(self.done("GET", "/v1/pools/fence?fence=%d" % lsn).json["lsn"]),
                                lsn)
        late = self.problem(503, "GET", "/v1/pools/fence?fence=%d" % (lsn + 1000000))
        self.assertEqual((late.json["result"], late.headers["Retry-After"]), ("NOT_YET", "1"))

    def test_a_read_sees_what_time_has_done(self):
        self.pool("short", range=[1, 1], lease=1)
        made = self.made("/v1/pools/short/leases", {"holder": "h"}).json["lease"]
        until(lambda: self.done("GET", "/v1/leases/" + made).json["state"] == "expired", "expiry")
        self.made("/v1/pools/short/leases", {"holder": "next", "ttl": 3600})

    def test_large_bundles_come_back_whole(self):
        self.pool("large", range=[1, 10000])
        made = self.made("/v1/pools/large/leases", {"holder": "h", "count": 256})
        self.assertEqual(len(made.json["values"]), 256)
        self.assertEqual(self.done("GET", made.headers["Location"]).json["values"],
                         made.json["values"])

    def test_pipelined_writes_and_odd_framings(self):
        self.pool("framing", range=[1, 100])
        body = b'{"holder": "h"}'
        head = b"POST /v1/pools/framing/leases HTTP/1.1\r\nHost: localhost\r\n"
        one = head + b"Content-Length: %d\r\n\r\n" % len(body) + body
        chunked = head + b"Transfer-Encoding: chunked\r\nConnection: close\r\n\r\n" + b"".join(
            b"1\r\n%c\r\n" % c for c in body) + b"0\r\n\r\n"
        got = self.raw(one * 20 + chunked)
        self.assertEqual(got.count(b"HTTP/1.1 201 Created"), 21, got)
        s = connect(self.server)
        s.sendall(head + b"Expect: 100-continue\r\nContent-Length: %d\r\n\r\n" % len(body))
        self.assertEqual(receive_until(s, b"\r\n\r\n"), b"HTTP/1.1 100 Continue\r\n\r\n")
        s.sendall(body)
        self.assertTrue(receive_until(s, b"}\n").startswith(b"HTTP/1.1 201 "))
        s.close()

    def test_head_options_and_methods_of_routes(self):
        self.pool("methods", range=[1, 3])
        head = self.ask("HEAD", "/v1/pools/methods")
        self.assertEqual((head.status, head.body), (200, b""))
        self.assertGreater(int(head.headers["Content-Length"]), 100)
        options = self.ask("OPTIONS", "/v1/pools/methods")
        self.assertEqual(options.status, 204)
        for method in ("GET", "HEAD", "PUT", "PATCH", "DELETE"):
            self.assertIn(method, options.headers["Allow"])
        self.assertIn("PUT", self.problem(405, "POST", "/v1/pools/methods").headers["Allow"])
        self.problem(404, "GET", "/v1/nothing")
        self.problem(404, "GET", "/v1/pools//leases/")

    def test_curl(self):
        url = "http://127.0.0.1:%d/v1/pools/curl" % self.server.http_port
        for words in (["-X", "PUT", "--json", '{"range": [1, 9]}', url],
                      ["--json", '{"holder": "job/42"}', url + "/leases"],
                      [url]):
            out = subprocess.run(["curl", "-sS", "--fail", *words], timeout=PATIENCE, check=True,
                                 stdout=subprocess.PIPE).stdout
            self.assertIsInstance(json.loads(out), dict)
        form = subprocess.run(["curl", "-sS", "-d", '{"holder": "job/42"}', url + "/leases"],
                              timeout=PATIENCE, check=True, stdout=subprocess.PIPE).stdout
        self.assertEqual(json.loads(form)["result"], "OK")


class BadInput(HttpCase):
    def test_bodies_that_are_no_requests(self):
        self.ask("PUT", "/v1/pools/p", {"range": [1, 9]})
        path = "/v1/pools/p/leases"
        for body in (b"{", b"[]", b"nul", b'"x"', b'{"holder": "h"} x', b'{"holder": "h",}',
                     b'{"holder": "h", "holder": "i"}', b'{"holder": "\xff\xfe"}',
                     b'{"holder": "\xc3\x28"}', b'{"meta": ' + b"[" * 5000,
                     b'{"holder": "h", "count": -1}', b'{"holder": "h", "count": 1.5}',
                     b'{"holder": "h", "count": 99999999999999999999999}',
                     b'{"holder": "h", "count": true}', b'{"holder": null}', b'{"holder": {}}',
                     b'{"holder": "a\\u0000b"}', b"\x00", b"{}" * 1000):
            answer = self.ask("POST", path, body)
            self.assertIn(answer.status, (400, 422), (body[:80], str(answer)))
            self.assertEqual(answer.json["outcome"], "rejected", body[:80])
        self.problem(400, "POST", path, b"a=b", {"Content-Type": "application/x-www-form-urlencoded"})
        self.problem(415, "POST", path, b"a=b", {"Content-Type": "text/plain"})
        self.problem(400, "POST", "/v1/pools/%zz/leases", {"holder": "h"})
        self.problem(400, "GET", "/v1/leases?" + "&".join("a%d=1" % i for i in range(100)))
        self.assertEqual(self.ask("GET", "/v1/pools/p").json["active"], "0")
        json_types = {"Content-Type": "Application/JSON; charset=utf-8"}
        self.assertEqual(self.ask("POST", path, b'{"holder": "h"}', json_types).status, 201)

    def test_only_this_machine_is_answered(self):
        for host in ("localhost", "LOCALHOST:7412", "127.0.0.1", "127.9.9.9:1", "[::1]:7412"):
            self.assertEqual(self.ask("GET", "/livez", headers={"Host": host}).status, 200, host)
        for host in ("example.com", "127.0.0.1.example.com", "localhost.example.com:7412", "10.0.0.1",
                     "[::2]", "[::1", "localhost:x", "x" * 300, "127.0.0.1@example.com"):
            self.problem(421, "GET", "/livez", headers={"Host": host})

    def test_pages_from_elsewhere_may_not_write(self):
        for origin in ("http://example.com", "null", "https://localhost", "http://localhost:1"):
            self.problem(403, "POST", "/livez", headers={"Origin": origin, "Host": "localhost"})
            self.assertEqual(self.ask("GET", "/livez", headers={"Origin": origin}).status, 200)
        self.problem(405, "POST", "/livez",
                     headers={"Origin": "http://localhost", "Host": "localhost"})

    def test_sizes(self):
        self.problem(414, "GET", "/" + "x" * 3000)
        self.problem(413, "POST", "/v1/leases", b"x" * (384 * 1024 + 1))
        for more in (b"Expect: 100-continue\r\nContent-Length: 393217",
                     b"Content-Length: 99999999", b"Content-Length: 18446744073709551615"):
            got = self.raw(b"POST /v1/leases HTTP/1.1\r\nHost: localhost\r\n" + more + b"\r\n\r\n")
            self.assertTrue(got.startswith(b"HTTP/1.1 413 "), got[:200])
        chunk = b"10000\r\n" + b"x" * 65536 + b"\r\n"
        got = self.raw(b"POST /v1/leases HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n"
                       b"Transfer-Encoding: chunked\r\n\r\n" + chunk * 7 + b"0\r\n\r\n")
        self.assertTrue(got.startswith(b"HTTP/1.1 413 "), got[:200])
        got = self.raw(b"GET / HTTP/1.1\r\nHost: localhost\r\nX: " + b"x" * 100000 + b"\r\n\r\n")
        self.assertTrue(got.startswith(b"HTTP/1.1 431 "), got[:200])
        self.assertIn(b"application/problem+json", got)

    def test_old_and_pipelined_requests(self):
        got = self.raw(b"GET /livez HTTP/1.0\r\n\r\n")
        self.assertTrue(got.startswith(b"HTTP/1.0 200") or got.startswith(b"HTTP/1.1 200"), got)
        self.assertTrue(got.endswith(b"\r\n\r\nok\n"), got)
        one = b"GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n"
        last = b"GET /livez HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
        self.assertEqual(self.raw(one * 9 + last).count(b"\r\n\r\nok\n"), 10)


class Framing(HttpCase):
    """Requests that two programs may parse differently, and those that the HTTP library would
    answer with its own texts: refused once, as a problem, and not executed."""

    HOST = b"Host: localhost\r\n"
    BODY = b'{"range": [1, 9]}'

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.number = 0

    def pool(self):
        Framing.number += 1
        return "framing%d" % Framing.number

    def refused_once(self, data, status, words=""):
        got = self.raw(data)
        head, _, body = got.partition(b"\r\n\r\n")
        lines = head.split(b"\r\n")
        self.assertTrue(lines[0].startswith(b"HTTP/1.1 %d " % status), (data[:200], got[:200]))
        self.assertIn(b"Content-Type: application/problem+json", lines)
        self.assertIn(b"Connection: close", lines)
        problem = json.loads(body)  # nothing after it: exactly one answer
        self.assertEqual((problem["status"], problem["outcome"]), (status, "rejected"))
        self.assertIn(words, problem["detail"])

    def not_executed(self, head, status, words="", body=None):
        """PUT of a pool with these lines in its head: the pool is not created."""
        pool = self.pool()
        body = self.BODY if body is None else body
        for more in (b"", b"GET /livez HTTP/1.1\r\n" + self.HOST + b"\r\n"):
            self.refused_once(b"PUT /v1/pools/" + pool.encode() + b" HTTP/1.1\r\n" + head +
                              b"\r\n" + body + more, status, words)
        self.refused("POOL_NOTFOUND", "POOL", "INFO", pool)

    def test_lengths_that_contradict_each_other(self):
        length = b"Content-Length: %d\r\n" % len(self.BODY)
        chunked = b"%x\r\n%s\r\n0\r\n\r\n" % (len(self.BODY), self.BODY)
        host = self.HOST
        self.not_executed(host + length + b"Transfer-Encoding: chunked\r\n", 400, "both")
        self.not_executed(host + b"Transfer-Encoding: chunked\r\n" + length, 400, "both", chunked)
        self.not_executed(host + b"transfer-encoding: identity\r\n" + length, 400, "both")
        self.not_executed(host + length + b"Content-Length: 5\r\n", 400, "Content-Length")
        self.not_executed(host + length + length, 400, "Content-Length")
        for value in (b"17, 17", b"17,17", b"+17", b"-1", b"0x11", b"", b"1 7", b"17;", b"1e1"):
            self.not_executed(host + b"Content-Length: " + value + b"\r\n", 400, "Content-Length")
        self.not_executed(host + b"Content-Length: 99999999999999999999\r\n", 413)
        for value in (b"gzip, chunked", b"chunked, chunked", b"xchunked", b"chunked ", b""):
            self.not_executed(host + b"Transfer-Encoding: " + value + b"\r\n", 501, "chunked",
                              chunked)
        self.not_executed(host + b"Transfer-Encoding: chunked\r\n" * 2, 400,
                          "Transfer-Encoding", chunked)

    def test_names_and_lines_that_are_read_in_more_than_one_way(self):
        length = b"Content-Length: %d\r\n" % len(self.BODY)
        chunked = b"%x\r\n%s\r\n0\r\n\r\n" % (len(self.BODY), self.BODY)
        for line in (b"Transfer-Encoding : chunked\r\n", b"Transfer-Encoding\t: chunked\r\n",
                     b"Content-Length : 17\r\n", b" Content-Length: 17\r\n", b": x\r\n",
                     b"no colon\r\n", b"X\x00Y: z\r\n", b"X-\xc3\xa9: z\r\n"):
            self.not_executed(self.HOST + line, 400, body=chunked)
            self.not_executed(self.HOST + length + line, 400)
        for line in (b"X: a\r\n b\r\n", b"Transfer-Encoding:\r\n chunked\r\n"):
            self.not_executed(self.HOST + line, 400, "folded")
        for line in (b"X: a\n", b"X: a\rTransfer-Encoding: chunked\r\n", b"X: a\r\r\n", b"\n"):
            self.not_executed(self.HOST + length + line, 400, "CRLF")
        for line in (b"X: a\x00b\r\n", b"X: \x01\r\n", b"X: \x7f\r\n", b"X: a\x0bb\r\n"):
            self.not_executed(self.HOST + length + line, 400, "control")
        self.not_executed(self.HOST * 2 + length, 400, "Host")
        self.not_executed(self.HOST + b"host: example.com\r\n" + length, 400, "Host")
        self.not_executed(length, 400, "Host")

    def test_chunks_that_are_none(self):
        for body in (b"x\r\n", b"\r\n", b"5\n", b"5\r\nabcdefg\r\n", b"0x5\r\n", b"-5\r\n", b" 5\r\n",
                     b"5 \r\n", b"1234567890123456\r\n", b"5\r\nabcde\n0\r\n\r\n",
                     b"0\r\nContent-Length: 5\r\n\r\n", b"0\r\n folded\r\n\r\n"):
            self.not_executed(self.HOST + b"Transfer-Encoding: chunked\r\n", 400, body=body)

    def test_request_lines_that_are_none(self):
        for line in (b"GET", b"GET /", b"GET  / HTTP/1.1", b"GET / HTTP/1.1 ", b"GET / HTTP/1.10",
                     b"GET / http/1.1", b"G(T / HTTP/1.1", b"GET /\x00 HTTP/1.1", b"*1",
                     b"\x16\x03\x01", b"GET / x HTTP/1.1", b" GET / HTTP/1.1"):
            self.refused_once(line + b"\r\n" + self.HOST + b"\r\n", 400)
        self.refused_once(b"GET / HTTP/1.1\n" + self.HOST + b"\r\n", 400, "CRLF")
        for version in (b"HTTP/2.0", b"HTTP/1.2", b"HTTP/9.9", b"HTTP/0.9"):
            self.refused_once(b"GET / " + version + b"\r\n" + self.HOST + b"\r\n", 505)
        self.refused_once(b"POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n", 400)

    def test_what_the_library_has_no_room_for(self):
        line = b"GET /livez%s HTTP/1.1\r\n" + self.HOST
        query = b"?" + b"&".join(b"a%d=%d" % (i, i) for i in range(300))
        self.refused_once(line % query + b"\r\n", 400, "arguments")
        self.refused_once(line % b"" + b"X: " + b"x" * 100000 + b"\r\n\r\n", 431)
        self.refused_once(line % (b"?" + b"x" * 100000) + b"\r\n", 431)
        self.refused_once(line % b"" + b"X: x\r\n" * 1000 + b"\r\n", 431)
        for cookie in (b"a=b;", b"a;", b"a=b,", b";"):  # the library keeps each of them
            for count in (300, 1000, 2000):
                self.refused_once(line % b"" + b"cookie: " + cookie * count + b"\r\n\r\n", 431)

    def test_the_largest_heads_are_answered(self):
        """libmicrohttpd has room for every request that is accepted: each request gets an answer."""
        for arguments in (0, 1, 32, 64):
            for fields in (0, 1, 50, 100, 120, 150):
                query = b"?" + b"&".join(b"a%d=%d" % (i, i) for i in range(arguments))
                head = b"GET /livez%s HTTP/1.1\r\n" % (query if arguments else b"") + self.HOST
                head += b"X: y\r\n" * fields + b"Connection: close\r\n"
                left = 12288 - len(head) - 64 * (fields + arguments + 2) - 64 - 7 - 2
                if left < 0:
                    continue
                got = self.raw(head + b"L: " + b"l" * left + b"\r\n\r\n")
                self.assertTrue(got.startswith(b"HTTP/1.1 200 "), (arguments, fields, got[:300]))
                self.refused_once(head + b"L: " + b"l" * (left + 10) + b"\r\n\r\n", 431)

    def test_requests_before_a_bad_one_are_served_first(self):
        good = b"GET /livez HTTP/1.1\r\n" + self.HOST + b"\r\n"
        bad = b"GET /livez HTTP/1.1\r\n" + self.HOST + b"X : y\r\n\r\n"
        got = self.raw(good * 3 + bad + good)
        self.assertEqual(got.count(b"HTTP/1.1 200 "), 3, got)
        self.assertEqual(got.count(b"HTTP/1.1 400 "), 1, got)
        self.assertEqual(got.count(b"HTTP/1.1 "), 4, got)
        self.assertGreater(got.index(b"HTTP/1.1 400 "), got.rindex(b"ok\n"))

    def test_a_bad_request_is_refused_however_it_is_cut(self):
        pool = self.pool().encode()
        data = (b"PUT /v1/pools/" + pool + b" HTTP/1.1\r\n" + self.HOST + b"Content-Length: 17\r\n"
                b"Content-Length: 0\r\n\r\n" + self.BODY)
        for cut in range(1, len(data), 7):
            s = connect(self.server)
            s.sendall(data[:cut])
            try:
                s.sendall(data[cut:])
            except (BrokenPipeError, ConnectionResetError):
                pass
            got = receive_until(s, b"nothing ends like this")
            s.close()
            self.assertTrue(got.startswith(b"HTTP/1.1 400 "), (cut, got))
            self.assertEqual(got.count(b"HTTP/1.1"), 1)
        self.refused("POOL_NOTFOUND", "POOL", "INFO", pool.decode())

    def test_good_requests_in_unusual_forms_are_served(self):
        pool = self.pool()
        chunked = b"%X;a=b;c\r\n%s\r\n000\r\nX-Trailer: y\r\n\r\n" % (len(self.BODY), self.BODY)
        last = (b"GET /v1/pools/" + pool.encode() + b" HTTP/1.1\r\nhOsT:localhost\r\n"
                b"Connection: close\r\n\r\n")
        got = self.raw(b"\r\n\r\nPUT /v1/pools/" + pool.encode() + b" HTTP/1.1\r\n" + self.HOST +
                       b"TRANSFER-ENCODING: \tChunked\r\nX:\r\nY: \xc3\xa9\r\n\r\n" + chunked +
                       b"\r\n" + last)
        self.assertTrue(got.startswith(b"HTTP/1.1 201 "), got)
        self.assertEqual(got.count(b"HTTP/1.1 200 "), 1, got)

    def test_they_are_counted(self):
        def count():
            text = self.ask("GET", "/metrics?pools=no").body.decode()
            return sum(int(line.rsplit(" ", 1)[1]) for line in text.splitlines()
                       if line.startswith("tenure_") and 'status="505"' in line)
        before = count()
        self.refused_once(b"GET / HTTP/3.0\r\n\r\n", 505)
        self.assertEqual(count(), before + 1)


class Slow(HttpCase):
    flags = ("--slow-seconds", "5")  # a server that stands still for half of that takes others for slow

    def test_what_is_no_http_ends_its_connection_and_no_other(self):
        for data in (b"*1\r\n$4\r\nPING\r\n", b"\x16\x03\x01\x02\x00", b"GET\r\n\r\n",
                     b"GET / HTTP/1.1\r\n\r\n", b"GET / HTTP/9.9\r\nHost: localhost\r\n\r\n",
                     b"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: x\r\n\r\n"):
            s = connect(self.server)
            s.sendall(data)
            s.shutdown(socket.SHUT_WR)
            got = receive_until(s, b"nothing ends like this")
            self.assertTrue(b" 400 " in got[:16] or b" 505 " in got[:16] or
                            (got == b"" and data.startswith(b"\x16")), got)
            s.close()
        self.assertEqual(self.ask("GET", "/livez").status, 200)

    def sockets(self):
        """The number of sockets that the server has open; its other files vary."""
        count, path = 0, "/proc/%d/fd/" % self.server.process.pid
        for name in os.listdir(path):
            try:
                count += os.readlink(path + name).startswith("socket:")
            except FileNotFoundError:
                pass
        return count

    def test_a_silent_stream_is_kept_and_one_that_is_not_read_is_dropped(self):
        self.r.execute_command("POOL", "CREATE", "p", "RANGE", 1, 1000000)
        before = self.sockets()
        live, stuck = connect(self.server), socket.socket()
        stuck.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        stuck.connect(("127.0.0.1", self.server.http_port))
        for s in (live, stuck):
            s.sendall(b"GET /v1/events?pool=p HTTP/1.1\r\nHost: localhost\r\n\r\n")
        got = b""
        while got.count(b":\n\n") < 3:
            more = live.recv(65536)
            self.assertNotEqual(more, b"")
            got += more
        self.assertEqual(self.sockets(), before + 2)

        def dropped():
            # So few at a time that our own sockets take it all, whenever we come to read it.
            pipe = self.r.pipeline(transaction=False)
            for _ in range(50):
                pipe.execute_command("ALLOC", "p", "a-long-holder/" + "x" * 100)
            pipe.execute()
            live.setblocking(False)
            try:
                while live.recv(1 << 20):
                    pass
            except BlockingIOError:
                pass
            return self.sockets() == before + 1
        until(dropped, "the one that is not read is dropped")
        live.close()
        until(lambda: self.sockets() == before, "the other one is seen to leave")
        stuck.close()

    def test_half_requests_are_hung_up_on(self):
        """A silent one, and one that sends a single byte from time to time."""
        silent = connect(self.server)
        silent.sendall(b"GET /livez HT")
        drip = connect(self.server)
        drip.sendall(b"POST /v1/leases HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000\r\n\r\n")
        drip.settimeout(0.05)

        def dropped():
            try:
                drip.send(b"x")
                return drip.recv(1) == b""
            except socket.timeout:
                return False
            except OSError:
                return True
        until(dropped, "the dripping client is dropped")
        self.assertEqual(receive_until(silent, b"nothing ends like this"), b"")
        silent.close()
        drip.close()


class ManyClients(HttpCase):
    flags = ("--max-connections", "8")

    def test_both_protocols_share_one_limit(self):
        self.r.ping()
        held = [connect(self.server) for _ in range(7)]
        for s in held:
            s.sendall(b"GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n")
            receive_until(s, b"ok\n")
        last = connect(self.server)
        self.assertTrue(receive_until(last, b"}\n").startswith(b"HTTP/1.1 503 "))
        resp = self.server.connect()
        self.assertEqual(receive_until(resp, b"\r\n"), b"-ERR max number of clients reached\r\n")
        for s in held + [last, resp]:
            s.close()

        def served():
            try:
                return self.raw(b"GET /livez HTTP/1.0\r\n\r\n").endswith(b"ok\n")
            except ConnectionError:
                return False  # turned away with its request unread
        until(served, "room again")


class Stream:
    """Server-sent events, one at a time, as (id, event, data)."""

    def __init__(self, server, path="/v1/events", headers=None):
        self.c = http.client.HTTPConnection("127.0.0.1", server.http_port, timeout=PATIENCE)
        self.c.request("GET", path, headers=headers or {})
        self.response = self.c.getresponse()
        assert self.response.status == 200, self.response.read()
        assert self.response.headers["Content-Type"] == "text/event-stream"

    def next(self):
        """None: the stream has ended."""
        got = {}
        while True:
            line = self.response.readline().decode()
            if line == "":
                return None
            if line == "\n":
                if "event" in got:
                    return got.get("id"), got["event"], json.loads(got["data"])
                got = {}
            else:
                name, value = line.rstrip("\n").split(":", 1)
                got[name] = value.lstrip(" ")

    def take(self, count):
        return [self.next() for _ in range(count)]

    def close(self):
        self.response.close()
        self.c.close()


class Events(HttpCase):
    def pool(self, name):
        self.assertEqual(self.ask("PUT", "/v1/pools/" + name, {"range": [1, 100000]}).status, 201)

    def alloc(self, pool, holder):
        answer = self.ask("POST", "/v1/pools/%s/leases" % pool, {"holder": holder})
        self.assertEqual(answer.status, 201, str(answer))
        return answer.json

    def test_live_and_resumed(self):
        live = Stream(self.server)
        self.pool("live")
        made = [self.alloc("live", "h%d" % i) for i in range(3)]
        seen = live.take(4)
        self.assertEqual([e[1] for e in seen], ["pool.created"] + ["lease.active"] * 3)
        self.assertEqual([e[2]["lease"] for e in seen[1:]], [m["lease"] for m in made])
        for number, kind, data in seen:
            self.assertEqual((data["id"], data["kind"]), (number, kind))
        again = Stream(self.server, headers={"Last-Event-ID": seen[1][0]})
        self.assertEqual(again.take(2), seen[2:])
        both = Stream(self.server, "/v1/events?after=" + seen[0][0],
                      {"Last-Event-ID": seen[2][0]})
        self.assertEqual(both.take(1), seen[3:])
        whole = Stream(self.server, "/v1/events?after=0.0")
        old = whole.take(1)
        while old[-1] != seen[-1]:
            old.append(whole.next())
        self.assertEqual(old[-4:], seen)
        self.alloc("live", "last")
        for stream in (live, again, both, whole):
            self.assertEqual(stream.next()[2]["holder"], "last")
            stream.close()

    def test_filters(self):
        self.pool("mine")
        self.pool("other")
        streams = {path: Stream(self.server, "/v1/events?" + path) for path in (
            "pool=mine", "holder=me/1", "channel=pool%3Amine", "channel=holder:me/1",
            "pool=mine&holder=me/1", "channel=events&pool=mine")}
        self.alloc("other", "you")
        self.alloc("other", "me/1")
        self.alloc("mine", "you")
        self.alloc("mine", "me/1")
        want = {"pool=mine": ["mine you", "mine me/1"], "holder=me/1": ["other me/1", "mine me/1"],
                "pool=mine&holder=me/1": ["mine me/1"]}
        for path, stream in streams.items():
            key = "holder=me/1" if path.endswith("holder:me/1") else path
            expected = want.get(key, want["pool=mine"])
            self.assertEqual(["%s %s" % (e[2]["pools"][0], e[2]["holder"])
                              for e in stream.take(len(expected))], expected, path)
            stream.close()

    def test_a_page_of_them_in_json(self):
        self.pool("page")
        for i in range(5):
            self.alloc("page", "h%d" % i)
        for path, headers in [("/v1/events?pool=page&format=json&count=3", None),
                              ("/v1/events?pool=page&count=3", None),
                              ("/v1/events?pool=page&count=3", {"Accept": "application/json"})]:
            page = self.ask("GET", path, headers=headers)
            self.assertEqual((page.status, page.type), (200, "application/json"), str(page))
            self.assertEqual([e["kind"] for e in page.json["events"]],
                             ["pool.created", "lease.active", "lease.active"])
            rest = self.ask("GET", path + "&after=" + page.json["next"], headers=headers)
            self.assertEqual([e["holder"] for e in rest.json["events"]], ["h2", "h3", "h4"])

    def test_what_a_stream_cannot_be_asked(self):
        for query in ("after=x", "after=1.2.3", "after=9999999999.0", "what=1", "channel=metrics:p", "channel=pool:",
                      "holder=" + "h" * 200):
            self.problem(400, "GET", "/v1/events?" + query)
        self.problem(400, "GET", "/v1/events", headers={"Last-Event-ID": "nonsense"})
        self.assertEqual(self.ask("GET", "/v1/events?format=json").type, "application/json")
        self.assertEqual(self.ask("HEAD", "/v1/events").headers["Content-Type"],
                         "text/event-stream")

    def test_many_streams_and_some_that_leave(self):
        self.pool("many")
        streams = [Stream(self.server, "/v1/events?pool=many") for _ in range(50)]
        streams += [Stream(self.server, "/v1/events?pool=many&after=0.0") for _ in range(50)]
        for stream in streams[::2]:
            stream.close()
        pipe = self.r.pipeline(transaction=False)
        for i in range(1000):
            pipe.execute_command("ALLOC", "many", "h%d" % i)
        pipe.execute()
        for stream in streams[1::2]:
            seen = stream.take(1000)
            if seen[0][1] == "pool.created":
                seen = seen[1:] + stream.take(1)
            self.assertEqual([e[2]["holder"] for e in seen], ["h%d" % i for i in range(1000)])
            stream.close()


class OldEvents(HttpCase):
    flags = ("--events-max", "1000")

    def test_who_fell_behind_is_told(self):
        self.ask("PUT", "/v1/pools/p", {"range": [1, 100000]})
        oldest = lambda: self.ask("GET", "/v1/events?format=json&count=1").json["oldest"]
        first = oldest()
        pipe = self.r.pipeline(transaction=False)
        for i in range(20000):
            pipe.execute_command("ALLOC", "p", "h%d" % i)
        pipe.execute()
        until(lambda: oldest() != first, "a thread lets the oldest go")
        stream = Stream(self.server, "/v1/events?after=" + first)
        seen = [stream.next()]
        self.assertEqual(seen[0][:2], (None, "lost"))
        while seen[-1][2].get("holder") != "h19999":  # meanwhile more may be dropped
            seen.append(stream.next())
        for before, after in zip(seen, seen[1:]):
            if before[1] == "lost":
                self.assertEqual(after[0], before[2]["oldest"])
        stream.close()


class Lives(unittest.TestCase):
    def setUp(self):
        self.server = Server()

    def tearDown(self):
        self.server.remove()

    def ask(self, method, path, body=None, headers=None):
        c = http.client.HTTPConnection("127.0.0.1", self.server.http_port, timeout=PATIENCE)
        c.request(method, path, json.dumps(body) if body else None, headers or {})
        answer = Answer(c.getresponse())
        c.close()
        return answer

    def test_what_was_answered_survives_kill_9(self):
        self.ask("PUT", "/v1/pools/p", {"range": [1, 1000], "lease": 3600})
        made = [self.ask("POST", "/v1/pools/p/leases", {"holder": "h%d" % i},
                         {"Idempotency-Key": "op-%d" % i}).json for i in range(20)]
        self.server.stop(signal.SIGKILL)
        self.server.start()
        for i, lease in enumerate(made):
            self.assertEqual(self.ask("GET", "/v1/leases/" + lease["lease"]).json["holder"],
                             "h%d" % i)
            again = self.ask("POST", "/v1/pools/p/leases", {"holder": "h%d" % i},
                             {"Idempotency-Key": "op-%d" % i})
            self.assertEqual((again.json["lease"], again.headers["Idempotent-Replayed"]),
                             (lease["lease"], "true"))

    def test_a_failed_write_is_an_unknown_outcome(self):
        self.ask("PUT", "/v1/pools/p", {"range": [1, 1000]})
        key = {"Idempotency-Key": "op"}

        def write():
            try:
                return self.ask("POST", "/v1/pools/p/leases", {"holder": "h"}, key)
            except ConnectionError:
                return None
        lost = self.server.fail(write)
        self.assertEqual((lost.status, lost.json["result"], lost.json["outcome"]),
                         (503, "HALTED", "unknown"))
        self.assertEqual(self.ask("POST", "/v1/pools/p/leases", {"holder": "h"}, key).status, 201)

    def test_sigterm_ends_streams_in_order(self):
        streams = [Stream(self.server, path) for path in ("/v1/events", "/v1/events?pool=p")]
        self.ask("PUT", "/v1/pools/p", {"range": [1, 9]})
        for stream in streams:
            self.assertEqual(stream.next()[1], "pool.created")
        self.assertEqual(self.server.stop(), 0)
        for stream in streams:
            self.assertIsNone(stream.next())
            stream.close()

    def test_a_stream_goes_on_after_kill_9(self):
        self.ask("PUT", "/v1/pools/p", {"range": [1, 9]})
        stream = Stream(self.server, "/v1/events?after=0.0")
        seen = stream.next()
        while seen[1] != "pool.created":
            seen = stream.next()
        self.server.stop(signal.SIGKILL)
        self.server.start()
        stream.close()
        stream = Stream(self.server, headers={"Last-Event-ID": seen[0]})
        lease = self.ask("POST", "/v1/pools/p/leases", {"holder": "h"}).json["lease"]
        self.assertEqual(stream.next()[2]["lease"], lease)
        stream.close()

    def test_sigterm_answers_what_waits(self):
        waiting = connect(self.server)
        waiting.sendall(b"GET /v1/pools?fence=1000000 HTTP/1.1\r\nHost: localhost\r\n\r\n")
        until(lambda: b'protocol="http"} 2' in self.ask("GET", "/metrics?pools=no").body,
              "the connection is there")
        self.assertEqual(self.server.stop(), 0)
        self.assertTrue(receive_until(waiting, b"nothing").startswith(b"HTTP/1.1 503 "))
        waiting.close()

    def test_sigterm_exits_0_with_idle_and_half_open_connections(self):
        idle, half = connect(self.server), connect(self.server)
        idle.sendall(b"GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n")
        receive_until(idle, b"ok\n")
        half.sendall(b"POST /v1/leases HTTP/1.1\r\nHost: localhost\r\nContent-Length: 10\r\n\r\nx")
        self.assertEqual(self.server.stop(signal.SIGTERM), 0)
        self.assertEqual(idle.recv(1), b"")
        idle.close()
        half.close()

    @unittest.skipUnless(os.path.exists("/proc/net/if_inet6") and
                         "0" * 31 + "1 " in text_of("/proc/net/if_inet6"), "there is no ::1 here")
    def test_it_listens_on_the_other_loopback_too(self):
        server = Server(None, "--http", "[::1]:0")
        c = http.client.HTTPConnection("::1", server.http_port, timeout=PATIENCE)
        c.request("GET", "/livez")
        self.assertEqual(c.getresponse().read(), b"ok\n")
        c.close()
        server.remove()

    def test_it_can_be_off(self):
        server = Server(None, "--http", "off")
        self.assertIsNone(server.http_port)
        self.assertTrue(server.client().ping())
        server.remove()


if __name__ == "__main__":
    unittest.main(verbosity=1)
