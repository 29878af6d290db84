#!/usr/bin/env python3
"""The OpenAPI document: a validator accepts it, it has every route, and what the server answers has the
shapes that it promises."""
import http.client
import json
import os
import re
import shlex
import subprocess
import unittest

from harness import BUILD, PATIENCE, Case, Server

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

    def test_every_route_of_the_reference_is_there(self):
        api = document()
        with open(os.path.join(SOURCE, "docs/commands.md"), encoding="utf-8") as file:
            routes = re.findall(r"^    (GET|PUT|POST|PATCH|DELETE) (/v1/\S+)$", file.read(), re.M)
        self.assertGreater(len(routes), 30)
        for method, path in routes:
            self.assertIn(method.lower(), api["paths"][path])


class Reference(Case):
    """The curl lines of docs/commands.md, run literally but for the port: each is understood."""

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


class Answers(Case):
    """Real answers, validated by a schema library against the document."""

    def ask(self, method, path, body=None):
        connection = http.client.HTTPConnection("127.0.0.1", self.server.http_port,
                                                timeout=PATIENCE)
        data = None if body is None else json.dumps(body)
        connection.request(method, path, data, {"Content-Type": "application/json",
                                                 "Accept": "application/json"})
        response = connection.getresponse()
        answer = json.loads(response.read())
        connection.close()
        return response.status, answer

    def sample(self, samples, schema, method, path, body=None):
        status, value = self.ask(method, path, body)
        self.assertEqual(status < 400, schema != "Problem", "%s %s: %s" % (method, path, value))
        samples.append({"what": "%s %s" % (method, path), "schema": schema, "value": value})
        return value

    def test_what_the_server_answers_is_what_the_document_says(self):
        samples = []

        def ask(schema, *request):
            return self.sample(samples, schema, *request)
        ask("Result", "PUT", "/v1/pools/ports", {"range": [30000, 30009], "lease": 60})
        ask("Result", "PUT", "/v1/pools/gpus", {"set": True})
        ask("Result", "POST", "/v1/pools/gpus/resources", {"names": ["gpu-1", "gpu-2"]})
        ask("Result", "PUT", "/v1/pools/devices",
            {"range": {"lo": 1, "hi": 100}, "sticky": True, "lease": 60})
        lease = ask("Result", "POST", "/v1/pools/ports/leases",
                    {"holder": "job/42", "count": 2, "meta": {"k": [1.5, None]}})
        ask("Result", "POST", "/v1/leases", {
            "holder": "job/43", "ttl": 30,
            "from": [{"pool": "ports", "count": 1}, {"pool": "gpus", "values": ["gpu-1"]}]})
        ask("Result", "PUT", "/v1/rules/r1", {"trigger": "t"})
        ask("Problem", "PUT", "/v1/sensors/s1", {"trigger": "t", "spec": {"command": ["true"]}})
        self.do("SENSOR", "SET", "s1", "t", '{"command": ["true"]}')
        ask("Result", "POST", "/v1/sweep")
        name = lease["lease"]
        seen = ask("Lease", "GET", "/v1/leases/" + name)
        self.assertEqual(seen["meta"], {"k": [1.5, None]})
        ask("Lease", "GET", "/v1/pools/gpus/values/gpu-1/lease")
        ask("Authority", "GET", "/v1/leases/%s/verify?epoch=%s" % (name, lease["epoch"]))
        ask("LeasePage", "GET", "/v1/leases?pool=ports&count=1")
        ask("Pool", "GET", "/v1/pools/ports")
        ask("PoolPage", "GET", "/v1/pools")
        ask("PoolMetrics", "GET", "/v1/pools/devices/metrics")
        ask("RulePage", "GET", "/v1/rules")
        ask("Sensor", "GET", "/v1/sensors/s1")
        ask("SensorStatus", "GET", "/v1/sensors/s1/status")
        ask("SensorPage", "GET", "/v1/sensors")
        page = ask("EventPage", "GET", "/v1/events?count=1000")
        self.assertGreater(len(page["events"]), 8)
        token = ask("Token", "POST", "/v1/leases/%s/token" % name, {"epoch": lease["epoch"]})
        ask("Token", "POST", "/auth/refresh", {"token": token["token"]})
        ask("TokenState", "POST", "/auth/introspect", {"token": token["token"]})
        ask("TokenState", "POST", "/auth/introspect", {"token": "x"})
        ask("KeySet", "GET", "/.well-known/jwks.json")
        ask("Problem", "POST", "/auth/refresh", {"token": "x"})
        ask("Problem", "GET", "/v1/leases/0-999999")
        ask("Problem", "POST", "/v1/leases/%s/touch" % name, {"epoch": 99})
        ask("Problem", "POST", "/v1/pools/ports/leases", {"holder": "h", "ttl": -1})
        ask("Problem", "GET", "/v1/nothing")
        ask("Result", "DELETE", "/v1/leases/%s?holder=job%%2F42&epoch=%s" % (name, lease["epoch"]))

        status, served = self.ask("GET", "/openapi.json")
        self.assertEqual(status, 200)
        self.assertEqual({**served, "info": None}, {**document(), "info": None})

        modules = subprocess.run([os.path.join(SOURCE, "tools/npm.sh")], check=True,
                                 stdout=subprocess.PIPE, text=True).stdout.strip()
        here = os.path.dirname(os.path.abspath(__file__))
        checked = subprocess.run(
            ["node", os.path.join(here, "openapi_check.mjs"), modules],
            input=json.dumps({"document": served, "samples": samples}), text=True,
            capture_output=True)
        self.assertEqual((checked.returncode, checked.stdout.strip()), (0, ""), checked.stderr)


if __name__ == "__main__":
    unittest.main()
