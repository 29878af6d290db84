#!/usr/bin/env python3
"""The OpenAPI document: a validator accepts it, it has every route, and the server's answers match
its schemas."""
import base64
import http.client
import json
import os
import re
import shlex
import socket
import subprocess
import tempfile
import unittest

from harness import BUILD, PATIENCE, Case, until

SOURCE = os.environ.get("TENURE_SOURCE_DIR", ".")


def document():
    return json.loads(subprocess.run([os.path.join(BUILD, "gen-openapi")], check=True,
                                     capture_output=True).stdout)


def refs(node):
    if isinstance(node, dict):
        if "$ref" in node:
            yield node["$ref"]
        for value in node.values():
            yield from refs(value)
    elif isinstance(node, list):
        for value in node:
            yield from refs(value)


class Document(unittest.TestCase):
    def test_names_are_unique_references_lead_somewhere_and_parameters_are_in_their_paths(self):
        api = document()
        ids = [operation["operationId"] for path in api["paths"].values()
               for operation in path.values()]
        self.assertEqual(len(ids), len(set(ids)))
        for ref in refs(api):
            node = api
            for step in ref.removeprefix("#/").split("/"):
                node = node[step]
        for path, methods in api["paths"].items():
            wanted = re.findall(r"{(\w+)}", path)
            for operation in methods.values():
                given = [p["name"] for p in operation.get("parameters", [])
                         if p.get("in") == "path"]
                self.assertEqual(given, wanted, path)
                self.assertEqual("requestBody" in operation and operation is methods.get("get"),
                                 False)

    def test_the_recommended_rules_of_redocly_find_nothing(self):
        modules = subprocess.run([os.path.join(SOURCE, "tools/npm.sh")], check=True,
                                 stdout=subprocess.PIPE, text=True).stdout.strip()
        with tempfile.TemporaryDirectory(prefix="tenure-openapi-") as top:
            for name, value in (("api.json", document()), ("redocly.yaml", {"extends": ["recommended"]})):
                with open(os.path.join(top, name), "w", encoding="utf-8") as file:
                    json.dump(value, file)
            out = subprocess.run([os.path.join(modules, ".bin", "redocly"), "lint", "--config",
                                  "redocly.yaml", "api.json"], cwd=top,
                                 env={**os.environ, "REDOCLY_TELEMETRY": "off",
                                      "REDOCLY_SUPPRESS_UPDATE_NOTICE": "true"},
                                 stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, check=False)
        said = out.stdout + out.stderr
        self.assertEqual((out.returncode, "description is valid" in said), (0, True), said)
        self.assertNotIn("You have", said)  # warnings

    def test_every_command_answers_with_a_schema_of_its_own(self):
        api = document()
        named = {}
        for path in api["paths"].values():
            for operation in path.values():
                for status, response in operation["responses"].items():
                    schema = response.get("content", {}).get("application/json", {}).get("schema")
                    if status[0] == "2" and schema is not None and operation["operationId"] != "openapi":
                        named.setdefault(schema.get("$ref"), set()).add(operation["summary"])
        self.assertGreater(len(named), 50)
        self.assertEqual([(ref, said) for ref, said in named.items() if ref is None or len(said) > 1], [])

    def test_every_route_of_the_reference_is_there(self):
        api = document()
        with open(os.path.join(SOURCE, "docs/commands.md"), encoding="utf-8") as file:
            routes = re.findall(r"^    (GET|PUT|POST|PATCH|DELETE) (/v1/\S+)$", file.read(), re.M)
        self.assertGreater(len(routes), 30)
        for method, path in routes:
            self.assertIn(method.lower(), api["paths"][path])


class Reference(Case):
    """The curl lines of docs/commands.md, run literally except for the port: each is understood."""

    def test_every_curl_line_is_understood(self):
        with open(os.path.join(SOURCE, "docs/commands.md"), encoding="utf-8") as file:
            lines = re.findall(r"^    (curl .*)$", file.read(), re.M)
        self.assertGreater(len(lines), 30)
        for line in lines:
            words = shlex.split(line.replace("localhost:7412",
                                             "127.0.0.1:%d" % self.server.http_port))
            out = subprocess.run([words[0], "-sS", *words[1:]], timeout=PATIENCE,
                                 capture_output=True, text=True, check=True).stdout
            answer = json.loads(out)
            # Most find nothing here; that is an answer too. What is not understood has no result.
            self.assertNotEqual(answer.get("type"), "about:blank", line + "\n" + out)
            self.assertNotEqual(answer.get("result"), "MALFORMED", line + "\n" + out)


class Local(http.client.HTTPConnection):
    """Over the Unix-domain socket, on which the server's own user is an administrator."""

    def __init__(self, path):
        super().__init__("localhost", timeout=PATIENCE)
        self.path = path

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(PATIENCE)
        self.sock.connect(self.path)


class Answers(Case):
    """Real answers, validated by a schema library against the document."""
    flags = ("--http-unix", "http.sock")

    def connection(self, local):
        if local:
            return Local(os.path.join(os.path.dirname(self.server.socket), "http.sock"))
        return http.client.HTTPConnection("127.0.0.1", self.server.http_port, timeout=PATIENCE)

    def ask(self, method, path, body=None, headers=(), local=False):
        connection = self.connection(local)
        data = None if body is None else json.dumps(body)
        connection.request(method, path, data, {"Content-Type": "application/json",
                                                 "Accept": "application/json", **dict(headers)})
        response = connection.getresponse()
        answer = json.loads(response.read())
        connection.close()
        return response.status, answer

    def operation(self, method, path):
        """The operation of a request: the path with the fewest parameters that fits."""
        plain = path.partition("?")[0]
        fits = [p for p in self.document["paths"] if method.lower() in self.document["paths"][p]
                and re.fullmatch(re.sub(r"{\w+}", "[^/]+", p), plain)]
        self.assertTrue(fits, path)
        return self.document["paths"][min(fits, key=lambda p: p.count("{"))][method.lower()]

    def sample(self, method, path, body=None, refused=False, **how):
        """Sends a request, and stores the answer with its schema from the document."""
        status, value = self.ask(method, path, body, **how)
        self.assertEqual(status < 400, not refused, "%s %s: %s" % (method, path, value))
        schema = "Problem"
        if not refused:
            operation = self.operation(method, path)
            self.assertIn(str(status), operation["responses"], path)
            content = operation["responses"][str(status)]["content"]
            schema = content["application/json"]["schema"]["$ref"].rpartition("/")[2]
            self.sampled.add(operation["operationId"])
        self.samples.append({"what": "%s %s" % (method, path), "schema": schema, "value": value})
        return value

    def pools(self):
        ask = self.sample
        ask("PUT", "/v1/pools/ports", {"range": [30000, 30009], "lease": 60})
        ask("PUT", "/v1/pools/ports", {"range": [30000, 30009], "lease": 60})
        ask("PUT", "/v1/pools/gpus", {"set": True})
        ask("PUT", "/v1/pools/gone", {"set": True})
        ask("DELETE", "/v1/pools/gone")
        ask("POST", "/v1/pools/gpus/resources", {"names": ["gpu-1", "gpu-2", "gpu-3"]})
        ask("DELETE", "/v1/pools/gpus/resources?names=gpu-3")
        ask("PUT", "/v1/pools/devices", {"range": {"lo": 1, "hi": 100}, "sticky": True, "lease": 60})
        ask("PATCH", "/v1/pools/ports", {"lease": 90})
        ask("POST", "/v1/pools/devices/seed", {"given": 2})
        ask("GET", "/v1/pools/ports")
        ask("GET", "/v1/pools")
        ask("GET", "/v1/pools/devices/metrics")
        ask("GET", "/v1/pools/devices/history")
        ask("POST", "/v1/pools/devices/imports", {"holder": "old", "values": [7]})

    def leases(self):
        ask = self.sample
        lease = ask("POST", "/v1/pools/ports/leases",
                    {"holder": "job/42", "count": 2, "meta": {"k": [1.5, None]}})
        ask("POST", "/v1/pools/ports/leases", {"holder": "h", "ttl": -1}, refused=True)
        ask("POST", "/v1/pools/gpus/leases", {"holder": "a", "values": ["gpu-1"]})
        ask("POST", "/v1/pools/gpus/leases", {"holder": "b", "values": ["gpu-1"]}, refused=True)
        bundle = ask("POST", "/v1/leases", {
            "holder": "job/43", "ttl": 30,
            "from": [{"pool": "ports", "count": 1}, {"pool": "gpus", "values": ["gpu-2"]}]})
        ask("POST", "/v1/pools/gpus/leases", {"holder": "b"}, refused=True)
        reserved = ask("POST", "/v1/reservations",
                       {"holder": "r", "ttl": 30, "from": [{"pool": "ports", "count": 1}]})
        name = "/v1/leases/" + lease["lease"]
        ask("POST", "/v1/leases/%s/activate" % reserved["lease"], {"holder": "r", "epoch": 1})
        self.assertEqual(ask("GET", name)["meta"], {"k": [1.5, None]})
        ask("GET", "/v1/pools/gpus/values/gpu-1/lease")
        ask("GET", "/v1/pools/gpus/values/gpu-1")
        ask("GET", "/v1/pools/ports/values/30009")
        ask("GET", "/v1/pools/ports/values")
        ask("GET", "/v1/pools/gpus/values")
        ask("GET", name + "/verify?epoch=1")
        ask("GET", "/v1/leases?pool=ports&count=1")
        with self.server.connect() as in_line:
            in_line.sendall(b"*5\r\n$5\r\nALLOC\r\n$4\r\ngpus\r\n$1\r\nw\r\n$4\r\nWAIT\r\n$3\r\n600\r\n")
            until(lambda: ask("GET", "/v1/leases?state=waiting")["leases"], "a lease in line")
            ask("GET", "/v1/pools/gpus")
            ask("GET", "/v1/leases/" + self.samples[-2]["value"]["leases"][0]["lease"])
        ask("POST", name + "/touch", {"epoch": 1, "ttl": 30})
        ask("POST", name + "/touch", {"epoch": 99}, refused=True)
        ask("POST", "/v1/leases/%s/revoke" % bundle["lease"], {"after": 30})
        ask("POST", "/v1/leases/%s/ack" % bundle["lease"], {"holder": "job/43", "epoch": 1})
        ask("POST", "/v1/leases/%s/revoke" % reserved["lease"])
        ask("POST", "/v1/leases/%s/reclaim" % reserved["lease"])
        ask("POST", "/v1/holders/a/disown")
        ask("POST", "/v1/sweep")
        ask("POST", "/v1/tick")
        ask("GET", "/v1/leases/0-999999", refused=True)
        ask("GET", "/v1/nothing", refused=True)
        return lease

    def tokens(self, lease):
        ask = self.sample
        token = ask("POST", "/v1/leases/%s/token" % lease["lease"], {"epoch": 1})
        ask("POST", "/auth/refresh", {"token": token["token"]})
        ask("POST", "/api/v1/auth/refresh", {"token": token["token"]})
        ask("POST", "/auth/introspect", {"token": token["token"]})
        ask("POST", "/auth/introspect", {"token": "x"})
        ask("POST", "/auth/refresh", {"token": "x"}, refused=True)
        ask("GET", "/.well-known/jwks.json")
        ask("POST", "/auth/revoke/%s" % token["token_id"])
        other = ask("POST", "/v1/pools/ports/leases", {"holder": "t"})
        ask("DELETE", "/auth/token/%s.1" % other["lease"])
        other = ask("POST", "/v1/pools/ports/leases", {"holder": "t"})
        ask("POST", "/v1/leases/%s/rekey" % other["lease"], {"epoch": 1, "holder": "u"})
        ask("POST", "/v1/leases/%s/release" % other["lease"], {"holder": "u", "epoch": 2})
        other = ask("POST", "/v1/pools/ports/leases", {"holder": "t"})
        ask("DELETE", "/v1/leases/%s?holder=t&epoch=1" % other["lease"])
        ask("POST", "/auth/rotate")

    def sensors(self):
        ask = self.sample
        ask("PUT", "/v1/rules/r1", {"trigger": "t", "meta": {"n": 1}})
        ask("GET", "/v1/rules/r1")
        ask("POST", "/v1/rules/r1/disable")
        ask("POST", "/v1/rules/r1/enable")
        ask("PUT", "/v1/sensors/s1", {"trigger": "t", "spec": {"command": ["true"]}}, refused=True)
        ask("PUT", "/v1/sensors/s1", {"trigger": "t", "spec": {"command": ["/bin/sleep", "999"], "settle_seconds": 0}}, local=True)
        ask("GET", "/v1/sensors/s1")
        ask("GET", "/v1/rules")
        ask("GET", "/v1/sensors")
        until(lambda: ask("GET", "/v1/sensors/s1/status")["state"] == "running", "the sensor runs")
        ask("GET", "/api/v1/sensors/s1/status")
        ask("GET", "/v1/sensors/s1/logs")
        token = ask("POST", "/auth/sensor-token", {"ref": "s1"})["token"]
        bearer = {"Authorization": "Bearer " + token}
        ask("POST", "/v1/sensors/heartbeat", headers=bearer)
        ask("GET", "/v1/sensors/s1/rules", headers=bearer)
        ask("POST", "/v1/events/emit", {"trigger_type": "t", "payload": {}}, headers=bearer)
        ask("POST", "/api/v1/events", {"trigger_ref": "t", "payload": {}}, headers=bearer)
        ask("POST", "/v1/sensors/s1/restart")
        ask("POST", "/v1/sensors/s1/reset", refused=True)
        ask("POST", "/v1/sensors/s1/disable")
        ask("POST", "/v1/sensors/s1/enable")
        ask("DELETE", "/v1/sensors/s1")
        ask("PUT", "/v1/sensors/s2", {"trigger": "t", "spec": {"command": ["/bin/false"], "settle_seconds": 0, "max_restarts": 0}},
            local=True)
        until(lambda: ask("GET", "/v1/sensors/s2/status")["state"] == "error", "the sensor has failed")
        ask("POST", "/v1/sensors/s2/reset")
        ask("DELETE", "/v1/sensors/s2")
        ask("DELETE", "/v1/rules/r1")

    def users(self):
        """From the first user on, nobody is served without a secret, except on the socket."""
        ask = self.sample
        ask("PUT", "/v1/users/ci", {"role": "holder", "secret": "s3cret", "pools": "ports", "max_values": 100}, refused=True)
        ask("PUT", "/v1/users/ci", {"role": "holder", "secret": "s3cret", "pools": "ports", "holders": "job/*", "max_values": 100},
            local=True)
        ask("PATCH", "/v1/users/ci", {"role": "operator"}, local=True)
        ask("PATCH", "/v1/users/nobody", {"role": "operator"}, local=True, refused=True)
        ask("GET", "/v1/users", local=True)
        ask("GET", "/v1/whoami", local=True)
        ask("GET", "/v1/whoami", headers={"Authorization": "Basic " + base64.b64encode(b"ci:s3cret").decode()})
        ask("GET", "/v1/pools", refused=True)
        ask("DELETE", "/v1/users/ci", local=True)
        ask("DELETE", "/v1/users/ci", local=True, refused=True)

    def test_what_the_server_answers_is_what_the_document_says(self):
        self.samples, self.sampled, self.document = [], set(), document()
        self.pools()
        lease = self.leases()
        self.sensors()
        self.tokens(lease)
        self.sample("POST", "/v1/snapshot")
        self.sample("GET", "/v1/cluster/nodes")
        self.sample("GET", "/v1/users")
        self.sample("GET", "/v1/whoami")
        self.sample("POST", "/v1/cluster/step-down", refused=True)
        self.assertGreater(len(self.sample("GET", "/v1/events?count=1000")["events"]), 8)
        self.users()
        routes = {operation["operationId"]: operation for path in self.document["paths"].values()
                  for operation in path.values()}
        apart = {"node_close", "node_forget", "node_step-down"}  # those need a cluster
        self.assertEqual({name for name, operation in routes.items()
                          if "application/json" in str(operation["responses"])} - self.sampled,
                         apart | {"openapi"})

        status, served = self.ask("GET", "/openapi.json", local=True)
        self.assertEqual(status, 200)
        self.assertEqual({**served, "info": None}, {**document(), "info": None})

        modules = subprocess.run([os.path.join(SOURCE, "tools/npm.sh")], check=True,
                                 stdout=subprocess.PIPE, text=True).stdout.strip()
        here = os.path.dirname(os.path.abspath(__file__))
        checked = subprocess.run(
            ["node", os.path.join(here, "openapi_check.mjs"), modules],
            input=json.dumps({"document": served, "samples": self.samples}), text=True,
            capture_output=True)
        self.assertEqual(checked.returncode, 0, checked.stdout + checked.stderr)


if __name__ == "__main__":
    unittest.main()
