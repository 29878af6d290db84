"""Trouble in a cluster: each mistake of the operator and each failure of etcd gets a clear answer."""
import json
import os
import select
import signal
import subprocess
import tempfile
import unittest
import urllib.error
import urllib.request

import redis

from cluster import Cluster, Etcd, Etcds, Node
from cluster_test import SENSOR
from harness import BUILD, PATIENCE, pairs, port_of, reserve, text_of, until
from resp import Resp
from tls_kit import Certificates


class SecureEtcd(Etcd):
    """A member that speaks TLS only, asks for client certificates and has users."""

    def __init__(self, certificates, own="server"):
        self.prepare("e")
        self.client = self.client.replace("http://", "https://")
        self.certificates = certificates
        self.more = ("--cert-file", certificates[own + ".pem"], "--key-file", certificates[own + "-key.pem"],
                     "--trusted-ca-file", certificates["ca.pem"], "--client-cert-auth")
        self.start()

    def restart(self):
        """Certificates are verified when a connection begins, so all connections begin again."""
        self.stop(signal.SIGKILL)
        self.start()

    def control(self, *words, said=""):
        c = self.certificates
        subprocess.run(["etcdctl", "--endpoints", self.client, "--cacert", c["ca.pem"], "--cert", c["client.pem"],
                        "--key", c["client-key.pem"], *words], check=True, timeout=PATIENCE, input=said, text=True,
                       env=dict(os.environ, ETCDCTL_API="3"), stdout=subprocess.DEVNULL)

    def password_set(self, password):
        """Sets the password of the nodes' user; earlier log-ins become invalid."""
        self.control("--user", "root:secret", "user", "passwd", "tenure", "--interactive=false", said=password + "\n")


class Trouble(unittest.TestCase):
    """Nodes that cannot take part, next to a cluster of one node that keeps running."""

    @classmethod
    def setUpClass(cls):
        cls.cluster = Cluster("a")
        cls.addClassCleanup(cls.cluster.remove)

    def node(self, name, *flags, data=None):
        node = Node(self.cluster, name, *flags, data=data)
        self.addCleanup(node.remove)
        return node

    def troubled(self, node, reason):
        until(lambda: [s for s in node.said("replica_trouble") if "reason=%s " % reason in s], reason)
        self.assertNotEqual(status_of(node, "/readyz"), 200)
        self.assertEqual(status_of(node, "/livez"), 200)

    def test_a_prefix_without_a_cluster(self):
        self.troubled(self.node("x", "--etcd-prefix", "/tenure/other/"), "UNINITIALIZED")

    def test_a_second_beginning(self):
        self.troubled(self.node("x", "--cluster-init"), "NOT_EMPTY")

    def test_a_directory_of_another_cluster(self):
        other = self.node("x", "--cluster-init", "--etcd-prefix", "/tenure/third/")
        until(lambda: other.said("owner_ready"), "the other cluster")
        other.stop()
        other.flags = tuple(f for f in other.flags if f not in ("--cluster-init", "--etcd-prefix",
                                                                 "/tenure/third/"))
        other.start()
        self.troubled(other, "OTHER_CLUSTER")

    def test_a_name_used_twice(self):
        owner = self.cluster.owner()
        node = self.node("a")
        self.assertEqual(node.process.wait(PATIENCE), 1)
        node.log.close()
        self.assertEqual(len(node.said("name_taken")), 1, text_of(node.log.name))
        self.assertIn("node a is at 127.0.0.1:%d" % owner.port, node.said("name_taken")[0])
        self.assertIs(self.cluster.owner(), owner)
        self.assertEqual(node.said("owner_ready"), [])

    def test_a_different_configuration_is_told(self):
        with tempfile.NamedTemporaryFile("w", suffix=".conf") as file:
            file.write("[pool q]\nrange = 1 10\n")
            file.flush()
            node = self.node("y", "--config", file.name)
            until(lambda: [s for s in node.said("replica_config_differs") if "node=a" in s], "a word")
            owner = self.cluster.owner()
            until(lambda: [s for s in owner.said("replica_config_differs") if "node=y" in s], "a word")
            file.seek(0)
            file.truncate()
            node.process.send_signal(signal.SIGHUP)
            until(lambda: node.said("reloaded"), "the reload")

    def test_no_etcd_at_the_start(self):
        with reserve() as nowhere:
            node = self.node("z", "--etcd-endpoints", "http://127.0.0.1:%d" % port_of(nowhere))
            self.assertEqual(len(node.said("etcd_awaited")), 1, text_of(node.log.name))
            self.troubled(node, "UNREACHABLE")
        with node.client() as client:
            self.assertEqual(client.execute_command("PING"), True)


def page_of(node, path):
    """Status and text."""
    try:
        with urllib.request.urlopen("http://127.0.0.1:%d%s" % (node.http_port, path), timeout=PATIENCE) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read().decode()


def status_of(node, path):
    return page_of(node, path)[0]


def refusal_of(node, *words):
    """"": the command was done."""
    with node.client() as client:
        try:
            client.execute_command(*words)
        except redis.ResponseError as error:
            return str(error)
    return ""


class Copy(unittest.TestCase):
    def test_a_node_that_cannot_write_its_copy_ends(self):
        cluster = Cluster("ab")
        self.addCleanup(cluster.remove)
        owner = cluster.owner()
        node = cluster.others(owner)[0]
        until(lambda: status_of(node, "/readyz") == 200, "the standby")
        owner.client().execute_command("POOL", "CREATE", "p", "RANGE", "1", "1000", "LEASE", "3600")
        file = os.path.join(node.data, "data", "replica")
        os.rename(file, file + ".away")
        os.mkdir(file)

        def ended():
            with owner.client() as client:
                client.execute_command("ALLOC", "p", "h")
            return node.process.poll() is not None
        until(ended, "its end")
        self.assertEqual(node.process.poll(), 1)
        self.assertIn("the local copy of the log cannot be written", node.said("copy_failed")[-1])
        os.rmdir(file)
        os.rename(file + ".away", file)
        node.log.close()
        node.start()
        until(lambda: status_of(node, "/readyz") == 200, "the standby again")


class Small(unittest.TestCase):
    """etcd keeps little of the log."""

    def write(self, owner, mebibytes):
        """Values that take so much of the log, in small steps: what is refused now is trimmed soon, or never."""
        with owner.client() as client:
            for _ in range(mebibytes * 256):
                until(lambda: self.allocated(client), "room in etcd")

    @staticmethod
    def allocated(client):
        try:
            return client.execute_command("ALLOC", "p", "h", "META", json.dumps({"m": "m" * 4000}))
        except redis.ResponseError as error:
            if not str(error).startswith("NOSPACE"):
                raise
            return None

    def test_snapshots_keep_up_and_a_node_that_is_gone_is_named(self):
        cluster = Cluster("ab", "--etcd-log-bytes", "1048576")
        self.addCleanup(cluster.remove)
        owner = cluster.owner()
        owner.client().execute_command("POOL", "CREATE", "p", "RANGE", "1", "100000", "LEASE", "3600")
        self.write(owner, 3)
        gone = cluster.others(owner)[0]
        gone.stop(signal.SIGKILL)
        named = "is that of %s: start that node, or remove it with tenure cluster forget" % gone.name
        with owner.client() as client:

            def is_named():  # until its own snapshot is the newer one, that one may be the reason
                self.allocated(client)
                return any("reason=LOG_FULL " in s and named in s for s in owner.said("replica_trouble"))
            until(is_named, "the end of the room, and why")
        owner.client().execute_command("NODE", "FORGET", gone.name)
        self.write(owner, 1)
        until(lambda: any("reason=LOG_FULL" in s for s in owner.said("replica_trouble_over")), "its end")


class Quorum(unittest.TestCase):
    """Three members of etcd, of which two are down when a node of the cluster starts."""

    def setUp(self):
        self.cluster = Cluster("ab", etcd=Etcds())
        self.addCleanup(self.cluster.remove)
        self.members = self.cluster.etcd.members
        self.owner = self.cluster.owner()
        self.node = self.cluster.others(self.owner)[0]
        until(lambda: status_of(self.node, "/readyz") == 200, "the standby")
        self.owner.client().execute_command("POOL", "CREATE", "p", "RANGE", "1", "1000", "LEASE", "3600")
        self.granted = [self.lease(self.owner, "before/%d" % i) for i in range(10)]
        self.assertEqual(self.node.stop(), 0)
        self.granted += [self.lease(self.owner, "after/%d" % i) for i in range(10)]

    def lease(self, node, holder):
        with node.client() as client:
            return pairs(client.execute_command("ALLOC", "p", holder))

    def tool(self, node, *words):
        done = subprocess.run([os.path.join(BUILD, "tenure"), "-p", str(node.port), *words], check=False,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=PATIENCE)
        return done.returncode, done.stdout

    def all_are_at(self, node):
        with node.client() as client:
            for got in self.granted:
                self.assertEqual(pairs(client.execute_command("VERIFY", got["lease"], got["epoch"]))["epoch"], got["epoch"])
            rows = pairs(client.execute_command("LEASES"))["leases"]
        self.assertEqual(len(rows), len(self.granted))
        self.granted.append(self.lease(node, "more"))
        self.assertNotIn(self.granted[-1]["lease"], [got["lease"] for got in self.granted[:-1]])

    def waits(self, node):
        """The node has started, reports why it does not take part, and refuses everything except a greeting."""
        self.assertEqual(len(node.said("etcd_awaited")), 1, text_of(node.log.name))
        until(lambda: [s for s in node.said("replica_trouble") if "reason=UNREACHABLE " in s], "a word")
        status, text = page_of(node, "/readyz")
        self.assertEqual(status, 503)
        self.assertIn("[-]log failed: no node owns it", text)
        self.assertEqual(status_of(node, "/livez"), 200)
        for words in (("ALLOC", "p", "h"), ("POOL", "INFO", "p"), ("LEASES",)):
            self.assertRegex(refusal_of(node, *words), "^MASTERDOWN", words)
        # The list of nodes is for the operator on such a day: every node answers, with what it knows.
        code, said = self.tool(node, "--json", "cluster", "status")
        self.assertEqual(code, 0, said)
        self.assertEqual([(each["name"], each["address"], each["role"]) for each in json.loads(said)["nodes"]],
                         [(node.name, "127.0.0.1:%d" % node.port, "follower")])
        for words in (("alloc", "p", "h"), ("cluster", "step-down")):
            code, said = self.tool(node, *words)
            self.assertNotEqual(code, 0, said)
            self.assertRegex(said, "no node owns the log|MASTERDOWN")
        self.assertEqual(node.said("replica_trouble_over"), [])

    def test_a_node_alone_waits_for_the_majority_and_owns_the_log_then(self):
        self.owner.stop(signal.SIGKILL)
        for member in self.members[1:]:
            member.stop(signal.SIGKILL)
        self.node.start()
        self.waits(self.node)
        for member in self.members[1:]:
            member.start()
        until(lambda: status_of(self.node, "/readyz") == 200, "the node is ready")
        self.assertIs(self.cluster.owner(), self.node)
        self.assertEqual(len(self.node.said("replica_trouble_over")), 1)
        self.all_are_at(self.node)
        self.owner.start()

    def test_a_node_waits_beside_one_that_has_lost_the_majority_and_both_go_on(self):
        for member in self.members[:2]:  # they accept connections and say nothing
            member.process.send_signal(signal.SIGSTOP)
        until(lambda: self.owner.said("owner_ended"), "the owner to give up")
        self.node.start()
        self.waits(self.node)
        self.assertRegex(refusal_of(self.owner, "ALLOC", "p", "h"), "^MASTERDOWN")
        for member in self.members[:2]:
            member.process.send_signal(signal.SIGCONT)
        for node in self.cluster.nodes:
            until(lambda n=node: status_of(n, "/readyz") == 200, "both nodes are ready")
        owner = self.cluster.owner()
        self.all_are_at(owner)
        owner.stop(signal.SIGKILL)
        self.all_are_at(self.cluster.owner())  # the other one has them, too
        owner.start()


    def test_an_owner_that_is_cut_off_says_so_before_it_gives_up_a_write_in_doubt(self):
        client = Resp(self.owner)
        self.addCleanup(client.close)
        for member in self.members[:2]:
            member.pause()
        client.send("ALLOC", "p", "doubt", "OPID", "d")
        until(lambda: self.owner.role() == "slave", "the owner to see that its time is over")
        self.assertRegex(refusal_of(self.owner, "ALLOC", "p", "h"), "^MASTERDOWN")
        if select.select([client.socket], [], [], 0)[0]:  # a renewal was on its way, and the write behind it
            with self.assertRaises(EOFError):  # it was refused: the connection ends
                client.read()
        for member in self.members[:2]:
            member.process.send_signal(signal.SIGCONT)
        until(lambda: status_of(self.owner, "/readyz") == 200, "the owner is ready")
        self.assertIs(self.cluster.owner(), self.owner)
        with self.owner.client() as local:
            self.granted.append(pairs(local.execute_command("ALLOC", "p", "doubt", "OPID", "d")))
        self.all_are_at(self.owner)


class Secure(unittest.TestCase):
    """etcd over TLS, with client certificates and a password, through the settings of tenured."""

    def test_who_may_use_etcd(self):
        certificates = Certificates()
        self.addCleanup(certificates.remove)
        certificates.sign("old", "/CN=old", days="-1")
        etcd = SecureEtcd(certificates)
        etcd.control("user", "add", "root:secret")
        etcd.control("user", "grant-role", "root", "root")
        etcd.control("user", "add", "tenure:good")
        etcd.control("role", "add", "tenure")
        etcd.control("role", "grant-permission", "tenure", "readwrite", "--prefix=true", "/tenure/default/")
        etcd.control("user", "grant-role", "tenure", "tenure")
        etcd.control("auth", "enable")
        cluster = Secured(etcd)
        self.addCleanup(cluster.remove)
        for password in ("good", "bad"):
            cluster.file(password, password + "\n")

        def flags(certificate="client", password="good", ca="ca.pem"):
            return ("--etcd-ca-file", certificates[ca], "--etcd-cert-file", certificates[certificate + ".pem"],
                    "--etcd-key-file", certificates[certificate + "-key.pem"], "--etcd-user", "tenure",
                    "--etcd-password-file", os.path.join(etcd.dir, password))
        owner = cluster.add("a", "--cluster-init", *flags())
        until(lambda: owner.said("owner_ready"), "an owner over TLS")
        follower = cluster.add("b", *flags())
        until(lambda: follower.role() == "slave" and status_of(follower, "/readyz") == 200, "a standby over TLS")
        for name, said, wrong in (("c", "invalid user ID or password", flags(password="bad")),
                                  ("d", "bad certificate", flags(certificate="old")),
                                  ("e", "server certificate", flags(ca="client.pem")),
                                  ("f", "permission denied",
                                   flags() + ("--etcd-prefix", "/tenure/other/")),
                                  ("g", "bad certificate",
                                   flags(certificate="old") + ("--etcd-prefix", "/tenure/default/new/", "--cluster-init"))):
            node = cluster.add(name, *wrong)
            until(lambda n=node: [s for s in n.said("replica_trouble") if "reason=DENIED" in s], name)
            self.assertIn(said, node.said("replica_trouble")[0])
        owner.stop(signal.SIGKILL)
        until(lambda: follower.said("owner_ready"), "a fail-over over TLS")
        owner.start()
        until(lambda: status_of(owner, "/readyz") == 200, "the former owner as a standby")
        self.the_password_expires(etcd, cluster.nodes[:2])

    def the_password_expires(self, etcd, nodes):
        """While the nodes run: no node owns the log any more, all report why, and they recover by themselves."""
        readiness = [len(node.said("owner_ready")) for node in nodes]
        etcd.password_set("another")
        until(lambda: all("invalid user ID or password" in "".join(node.said("replica_trouble")) for node in nodes),
              "both nodes to say that etcd refuses them")
        until(lambda: nodes[1].said("owner_ended"), "the owner to give up")
        for node in nodes:
            self.assertIsNone(node.process.poll())
            self.assertEqual(status_of(node, "/readyz"), 503)
            with node.client() as client, self.assertRaisesRegex(redis.ResponseError, "MASTERDOWN"):
                client.execute_command("ALLOC", "p", "h")
        etcd.password_set("good")
        until(lambda: [len(node.said("owner_ready")) for node in nodes] != readiness, "an owner again")


class Expiry(unittest.TestCase):
    """Certificates that expire while the nodes run."""

    def setUp(self):
        self.certificates = Certificates()
        self.addCleanup(self.certificates.remove)
        for name in ("a", "b"):
            self.certificates.sign(name, "/CN=" + name)
        self.certificates.server("etcd")
        self.etcd = SecureEtcd(self.certificates, "etcd")
        self.cluster = Secured(self.etcd, "--sensor-settle-seconds", "0", "--sensor-fence-seconds", "1", "--sensor-stop-seconds",
                               "1", "--sensor-containment", "none")
        self.addCleanup(self.cluster.remove)
        self.a = self.cluster.add("a", "--cluster-init", *self.flags("a"))
        until(lambda: self.a.said("owner_ready"), "an owner")
        self.b = self.cluster.add("b", *self.flags("b"))
        until(lambda: status_of(self.b, "/readyz") == 200, "a standby")
        self.a.client().execute_command("POOL", "CREATE", "p", "RANGE", "1", "1000", "LEASE", "3600")
        self.got = pairs(self.a.client().execute_command("ALLOC", "p", "h"))
        self.runs = os.path.join(self.etcd.dir, "runs")
        command = ["/usr/bin/python3", "-c", SENSOR, self.etcd.dir, self.runs]
        self.a.local().execute_command("SENSOR", "SET", "s", "t", json.dumps({"command": command}))
        self.a.local().execute_command("RULE", "SET", "r", "t")
        self.pids = []
        self.next_run()

    def flags(self, name):
        c = self.certificates
        return ("--etcd-ca-file", c["ca.pem"], "--etcd-cert-file", c[name + ".pem"], "--etcd-key-file", c[name + "-key.pem"])

    def lines(self):
        return text_of(self.runs).splitlines() if os.path.exists(self.runs) else []

    def next_run(self):
        until(lambda: len(self.lines()) > len(self.pids), "a run of the sensor")
        self.assertNotIn("TWICE", self.lines())
        self.assertEqual(len(self.lines()), len(self.pids) + 1)
        self.pids.append(int(self.lines()[-1].split()[2]))

    def ended(self, node, times=1):
        """The node no longer owns the log, refuses reads, and its sensor is gone."""
        until(lambda: len(node.said("owner_ended")) == times, "the owner to give up")
        for words in (("POOL", "INFO", "p"), ("VERIFY", self.got["lease"], self.got["epoch"]), ("ALLOC", "p", "x")):
            self.assertRegex(refusal_of(node, *words), "^(MASTERDOWN|READONLY)", words)
        until(lambda: not os.path.exists("/proc/%d" % self.pids[-1]), "the end of the sensor")

    def denied(self, node, what, times=1):
        lines = until(lambda: [s for s in node.said("replica_trouble") if "reason=DENIED " in s][times - 1:], "a word")
        self.assertIn(what, lines[0])
        until(lambda: status_of(node, "/readyz") == 503, "the node is not ready")
        self.assertIsNone(node.process.poll())

    def has_all(self, node):
        with node.client() as client:
            reply = pairs(client.execute_command("VERIFY", self.got["lease"], self.got["epoch"]))
            self.assertEqual(reply["epoch"], self.got["epoch"])
            client.execute_command("ALLOC", "p", "more")

    def test_of_the_owner(self):
        self.certificates.renew("a", "-1")
        self.has_all(self.a)  # the connections go on
        self.etcd.restart()
        self.denied(self.a, "bad certificate")
        self.ended(self.a)
        until(lambda: self.b.said("owner_ready"), "another owner")
        self.next_run()
        self.has_all(self.b)
        self.assertEqual([s for s in self.b.said("replica_trouble") if "reason=DENIED " in s], [])
        # The node needs no restart and no reload.
        self.certificates.renew("a", "30")
        until(lambda: self.a.said("replica_trouble_over"), "the node gets in again")
        until(lambda: status_of(self.a, "/readyz") == 200, "the node is ready")
        self.assertEqual(self.a.role(), "slave")
        self.b.stop(signal.SIGKILL)
        until(lambda: len(self.a.said("owner_ready")) == 2, "the node owns the log again")
        self.has_all(self.a)
        self.next_run()
        self.b.start()

    def test_of_etcd(self):
        self.certificates.renew("etcd", "-1")
        self.etcd.restart()
        for node in (self.a, self.b):
            self.denied(node, "server certificate: certificate has expired")
        self.ended(self.a)
        self.assertRegex(refusal_of(self.b, "ALLOC", "p", "x"), "^MASTERDOWN")
        self.certificates.renew("etcd", "30")  # etcd reads it for each connection
        for node in (self.a, self.b):
            until(lambda n=node: status_of(n, "/readyz") == 200, "both nodes are ready")
        self.has_all(self.cluster.owner())
        self.next_run()


class Secured(Cluster):
    def __init__(self, etcd, *flags):
        self.etcd = etcd
        self.flags = flags
        self.nodes = []
        self.secret = os.path.join(etcd.dir, "secret")
        self.file("secret", "a secret that all nodes share\n")

    def file(self, name, text):
        with open(os.path.join(self.etcd.dir, name), "w", encoding="utf-8") as file:
            os.fchmod(file.fileno(), 0o600)
            file.write(text)

    def add(self, name, *flags):
        self.nodes.append(Node(self, name, *flags))
        return self.nodes[-1]


if __name__ == "__main__":
    unittest.main()
