"""The files for containers and Kubernetes: valid by their schemas, with a configuration that the server
accepts and listeners where the probes look."""
import json
import os
import pathlib
import re
import shutil
import stat
import subprocess
import tempfile
import unittest

import yaml

from harness import PATIENCE, TENURED, nobody_may_run, text_of, until

ROOT = pathlib.Path(__file__).resolve().parents[2]
MANIFESTS = ROOT / "packaging/kubernetes/tenure.yaml"
COMPOSE = ROOT / "packaging/container/compose.yaml"
CONFIG = ROOT / "packaging/container/tenured.conf"
REPAIR = ROOT / "packaging/kubernetes/repair.yaml"
CLUSTER = ROOT / "packaging/cluster"
NODES = "abc"
MOUNTED = "/var/lib/tenure"


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
        done = check([*kubernetes(), yaml.safe_load(text_of(REPAIR))], compose())
        self.assertEqual(done.returncode, 0, done.stdout)

    def test_they_name_the_image_of_this_version(self):
        version = re.search(r"(?m)^project\(tenure VERSION ([0-9.]+)", text_of(ROOT / "CMakeLists.txt")).group(1)
        for path in (MANIFESTS, COMPOSE, CONFIG, CLUSTER / "compose.yaml"):
            self.assertEqual(set(re.findall(r"\btenure:([0-9][^\s`,;]*)", text_of(path))), {version}, path)

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


def mounts(volume, context):
    """What the kubelet does to a volume before a pod with this security context starts."""
    group, policy = context["fsGroup"], context.get("fsGroupChangePolicy", "Always")
    top = os.stat(volume)
    if policy == "OnRootMismatch" and top.st_gid == group and top.st_mode & 0o2770 == 0o2770:
        return
    paths = [volume, *(os.path.join(at, name) for at, dirs, files in os.walk(volume) for name in dirs + files)]
    for path in paths:
        mode = stat.S_IMODE(os.stat(path).st_mode)
        os.chown(path, -1, group)
        os.chmod(path, mode | (0o2770 if os.path.isdir(path) else 0o660))


@unittest.skipUnless(os.geteuid() == 0, "needs root, as the kubelet does")
class Volume(unittest.TestCase):
    """The volume of the StatefulSet under the server's own user, from pod to pod."""

    def setUp(self):
        if not nobody_may_run(TENURED):
            self.skipTest("needs a build that others may run")
        self.top = tempfile.mkdtemp(prefix="tenure-volume-")
        self.addCleanup(shutil.rmtree, self.top)
        os.chmod(self.top, 0o755)
        self.volume = os.path.join(self.top, "data")
        os.makedirs(self.volume + "/lost+found", 0o700)  # a file system of its own
        self.context = of_kind("StatefulSet")["spec"]["template"]["spec"]["securityContext"]
        self.lives = 0

    def start(self, *flags):
        """The volume is mounted and the server starts: returns its process and a function that reads its log."""
        mounts(self.volume, self.context)
        self.lives += 1
        log = open(os.path.join(self.top, "log-%d" % self.lives), "w+", encoding="utf-8")
        self.addCleanup(log.close)
        process = subprocess.Popen([TENURED, "--data", self.volume, "--listen", "127.0.0.1:0", "--http", "off", *flags],
                                   stderr=log, user=self.context["runAsUser"], group=self.context["runAsGroup"],
                                   extra_groups=[self.context["fsGroup"]])
        return process, lambda: text_of(log.name)

    def serves(self, *flags):
        """One pod, from its start to its end."""
        process, said = self.start(*flags)
        try:
            until(lambda: process.poll() is not None or "event=ready" in said(), "the server is ready")
            self.assertIsNone(process.poll(), said())
        finally:
            process.terminate()
            code = process.wait(PATIENCE)
        self.assertEqual(code, 0, said())

    def test_each_pod_finds_what_the_one_before_it_left(self):
        for _ in range(3):
            self.serves()
        self.assertEqual(stat.S_IMODE(os.stat(self.volume).st_mode) & 0o2770, 0o2770)
        self.assertEqual(stat.S_IMODE(os.stat(self.volume + "/token.keys").st_mode), 0o600)

    def test_a_secret_that_root_gives_to_the_group_is_read(self):
        """As the kubelet mounts a Secret. What others may read, or the group may write, is refused."""
        path = os.path.join(self.top, "password")
        with open(path, "w", encoding="ascii") as file:
            file.write("a secret of the broker\n")
        os.chown(path, 0, self.context["fsGroup"])
        flags = ("--amqp-url", "amqp://127.0.0.1:1", "--amqp-password-file", path)
        os.chmod(path, 0o440)
        self.serves(*flags)
        for owner, mode in ((0, 0o444), (0, 0o460), (self.context["runAsUser"], 0o440), (10002, 0o440)):
            os.chown(path, owner, -1)
            os.chmod(path, mode)
            process, said = self.start(*flags)
            self.assertEqual(process.wait(PATIENCE), 2, said())
            self.assertIn("or to root, with mode 0640", said())

    def test_a_volume_that_was_filled_elsewhere_is_repaired_once(self):
        """As root's copy of another volume, which the kubelet then opens for the group."""
        self.serves()
        for at, dirs, files in os.walk(self.volume):
            for path in (at, *(os.path.join(at, name) for name in dirs + files)):
                os.chown(path, 0, 0)
        os.chmod(self.volume, 0o755)
        process, said = self.start()
        self.assertEqual(process.wait(PATIENCE), 2, said())
        self.assertIn("chmod 600", said())

        pod = yaml.safe_load(text_of(REPAIR))["spec"]
        for name in ("fsGroup", "fsGroupChangePolicy"):
            self.assertEqual(pod["securityContext"][name], self.context[name])
        (container,) = pod["containers"]
        self.assertEqual(container["volumeMounts"][0]["mountPath"], MOUNTED)
        mounts(self.volume, pod["securityContext"])
        subprocess.run([word.replace(MOUNTED, self.volume) for word in container["command"]], check=True, timeout=PATIENCE)
        for _ in range(2):
            self.serves()


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
