"""The files for containers and Kubernetes: valid by their schemas, with a configuration that the server
accepts and listeners where the probes look."""
import json
import os
import pathlib
import subprocess
import tempfile
import unittest

import yaml

from harness import PATIENCE, TENURED, text_of

ROOT = pathlib.Path(__file__).resolve().parents[2]
MANIFESTS = ROOT / "packaging/kubernetes/tenure.yaml"
COMPOSE = ROOT / "packaging/container/compose.yaml"
CONFIG = ROOT / "packaging/container/tenured.conf"
CLUSTER = ROOT / "packaging/cluster"
NODES = "abc"


def kubernetes():
    return list(yaml.safe_load_all(text_of(MANIFESTS)))


def compose():
    return yaml.safe_load(text_of(COMPOSE))


def of_kind(kind):
    (found,) = [document for document in kubernetes() if document["kind"] == kind]
    return found


def check(documents, services):
    modules = subprocess.run(["tools/npm.sh"], cwd=ROOT, check=True, timeout=600,
                             stdout=subprocess.PIPE, text=True).stdout.strip()
    return subprocess.run(["node", str(ROOT / "tests/e2e/deploy_check.mjs"), modules],
                          input=json.dumps({"kubernetes": documents, "compose": services}),
                          timeout=PATIENCE, check=False, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True)


class Deploy(unittest.TestCase):
    def test_the_files_are_valid_by_their_schemas(self):
        done = check(kubernetes(), compose())
        self.assertEqual(done.returncode, 0, done.stdout)

    def test_the_check_finds_mistakes(self):
        documents, services = kubernetes(), compose()
        documents[-1]["spec"]["replicas"] = "many"
        services["services"]["tenure"]["ports"] = "7413"
        done = check(documents, services)
        self.assertEqual(done.returncode, 1)
        self.assertIn("replicas must be integer", done.stdout)
        self.assertIn("/services/tenure/ports must be array", done.stdout)

    def test_the_server_accepts_both_configurations(self):
        with tempfile.TemporaryDirectory() as scratch:
            made = subprocess.run([TENURED, "--make-certificate", scratch + "/tls"], timeout=PATIENCE,
                                  check=False, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
            self.assertEqual(made.returncode, 0, made.stdout)
            os.rename(scratch + "/tls/server.pem", scratch + "/tls/tls.crt")
            os.rename(scratch + "/tls/server-key.pem", scratch + "/tls/tls.key")
            for text in (text_of(CONFIG), of_kind("ConfigMap")["data"]["tenured.conf"]):
                path = scratch + "/tenured.conf"
                with open(path, "w", encoding="utf-8") as file:
                    file.write(text.replace("/etc/tenure/tls", scratch + "/tls"))
                done = subprocess.run([TENURED, "--config", path, "--check-config"], check=False,
                                      timeout=PATIENCE, stdout=subprocess.PIPE,
                                      stderr=subprocess.STDOUT, text=True)
                self.assertEqual(done.returncode, 0, done.stdout)

    def test_ports_and_probes_are_where_the_server_listens(self):
        config = of_kind("ConfigMap")["data"]["tenured.conf"]
        (container,) = of_kind("StatefulSet")["spec"]["template"]["spec"]["containers"]
        ports = {port["name"]: port["containerPort"] for port in container["ports"]}
        self.assertIn("tls_listen = 0.0.0.0:%d" % ports["resp"], config)
        self.assertIn("https = 0.0.0.0:%d" % ports["https"], config)
        for probe in ("startupProbe", "livenessProbe", "readinessProbe"):
            self.assertEqual(container[probe]["httpGet"]["port"], "https")
        self.assertEqual({port["targetPort"] for port in of_kind("Service")["spec"]["ports"]},
                         set(ports))

    def test_metrics_are_for_a_user_because_there_are_users(self):
        """Annotations for a scrape carry no secret, and the server would refuse the scrape."""
        config = of_kind("ConfigMap")["data"]["tenured.conf"]
        self.assertRegex(config, r"(?m)^\[user prometheus\]\nrole = reader$")
        self.assertNotIn("annotations", of_kind("StatefulSet")["spec"]["template"]["metadata"])


class Cluster(unittest.TestCase):
    """The files for three machines, which runbook_test.py runs, and those for containers."""

    @classmethod
    def setUpClass(cls):
        cls.compose = yaml.safe_load(text_of(CLUSTER / "compose.yaml"))

    def checked(self, environment):
        """The settings in force with the shared file and these variables, or what is wrong."""
        with tempfile.TemporaryDirectory() as scratch:
            path = scratch + "/tenured.conf"
            with open(path, "w", encoding="utf-8") as file:
                file.write(text_of(CLUSTER / "tenured.conf").replace("/etc/tenure", scratch))
            with open(scratch + "/cluster-secret", "w", encoding="utf-8") as file:
                os.fchmod(file.fileno(), 0o600)
                file.write("a secret that all nodes share\n")
            done = subprocess.run([TENURED, "--config", path, "--check-config"], env=environment, check=False,
                                  timeout=PATIENCE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        self.assertEqual(done.returncode, 0, done.stdout)
        return done.stdout

    def test_the_compose_file_is_valid_by_its_schema(self):
        done = check([], self.compose)
        self.assertEqual(done.returncode, 0, done.stdout)

    def test_the_server_accepts_the_settings_of_each_node(self):
        for node in NODES:
            lines = text_of(CLUSTER / node / "node.conf").splitlines()
            unit = dict(line.split("=", 2)[1:] for line in lines if line.startswith("Environment="))
            container = self.compose["services"]["tenure-" + node]["environment"]
            for environment in (unit, container):
                self.assertEqual(environment["TENURE_NODE"], node)
                self.assertRegex(self.checked(environment), r"(?m)^node += +%s\b" % node)

    def test_the_members_of_etcd_and_the_nodes_know_each_other(self):
        members = set()
        for node in NODES:
            unit = dict(line.split("=", 1) for line in text_of(CLUSTER / node / "etcd").splitlines()
                        if line[0] != "#")
            members.add("%s=%s" % (unit["ETCD_NAME"], unit["ETCD_INITIAL_ADVERTISE_PEER_URLS"]))
            self.assertIn(unit["ETCD_ADVERTISE_CLIENT_URLS"], text_of(CLUSTER / "tenured.conf"))
        self.assertEqual(set(unit["ETCD_INITIAL_CLUSTER"].split(",")), members)
        services = self.compose["services"]
        for node in NODES:
            etcd = services["etcd-" + node]["environment"]
            self.assertIn("%s=%s" % (node, etcd["ETCD_INITIAL_ADVERTISE_PEER_URLS"]),
                          etcd["ETCD_INITIAL_CLUSTER"].split(","))
            self.assertIn(etcd["ETCD_ADVERTISE_CLIENT_URLS"],
                          services["tenure-" + node]["environment"]["TENURE_ETCD_ENDPOINTS"].split())
            for kind in ("etcd-", "tenure-"):
                named = services[kind + node]["volumes"][0].split(":")[0]
                self.assertIn(named, self.compose["volumes"])


if __name__ == "__main__":
    unittest.main()
