"""A node that cannot go on from etcd begins with a snapshot of another node: a single-node directory becomes a
cluster, empty nodes join it, and one of them takes over with every lease."""
import hashlib
import http.client
import os
import re
import signal
import subprocess
import unittest

from cluster import Cluster, Etcd, Node
from harness import BUILD, PATIENCE, Server, pairs, text_of, until

POOL = ("POOL", "CREATE", "p", "RANGE", "1", "100000", "LEASE", "3600")
SNAPSHOT = "/v1/cluster/snapshot"
SECRET = "a secret that all nodes share"
# What other nodes send.
TOKEN = hashlib.blake2b(SECRET.encode(), key=b"tenure: snapshots for nodes", digest_size=32).hexdigest()


def asked(client, commands):
    pipe = client.pipeline(transaction=False)
    for words in commands:
        pipe.execute_command(*words)
    return [pairs(reply) if isinstance(reply, list) else reply for reply in pipe.execute()]


def leases_made(client, count, name, size=10):
    return asked(client, [("ALLOC", "p", "%s/%d" % (name, i), "META", '{"m":"%s"}' % ("m" * size))
                          for i in range(count)])


class Begun(Cluster):
    """A cluster whose first node has the directory of a server that ran alone. `early`: the names of nodes that
    are started before it."""

    def __init__(self, data, early=""):
        self.etcd = Etcd()
        self.flags = ()
        self.secret = os.path.join(self.etcd.dir, "secret")
        self.secret_write(SECRET + "\n")
        self.nodes = []
        for name in early:
            self.add(name)
        node = self.add("a", "--cluster-init", data=data)
        self.owner()
        node.flags = tuple(f for f in node.flags if f != "--cluster-init")

    def secret_write(self, text):
        with open(self.secret, "w", encoding="utf-8") as file:
            os.fchmod(file.fileno(), 0o600)
            file.write(text)

    def add(self, name, *flags, data=None):
        node = Node(self, name, *flags, data=data)
        self.nodes.append(node)
        return node


class Case(unittest.TestCase):
    early = ""

    def setUp(self):
        alone = Server()
        try:
            alone.client().execute_command(*POOL)
            self.granted = leases_made(alone.client(), 200, "alone")
        finally:
            alone.stop(signal.SIGKILL)  # no snapshot is taken at the end
        self.cluster = Begun(alone.data, self.early)
        self.addCleanup(self.cluster.remove)
        self.node = self.cluster.nodes[-1]
        self.node.own = True

    def verify_all(self, node):
        replies = asked(node.client(), [("VERIFY", got["lease"], got["epoch"]) for got in self.granted])
        self.assertEqual([r["epoch"] for r in replies], [got["epoch"] for got in self.granted])


class Behind(Case):
    early = "b"

    def test_a_node_that_falls_behind_ends_and_is_seeded_when_it_starts_again(self):
        early = self.cluster.nodes[0]
        self.assertEqual(early.process.wait(PATIENCE), 1)
        early.log.close()
        self.assertEqual(len(early.said("behind")), 1, text_of(early.log.name))
        early.start()  # the cluster is idle, and log positions were passed over after an unclean stop
        self.assertEqual(len(early.said("seeded")), 1, text_of(early.log.name))
        self.node.stop(signal.SIGKILL)
        self.assertIs(self.cluster.owner(), early)
        self.verify_all(early)
        self.node.start()


class Seeding(Case):
    def test_an_empty_node_joins_and_takes_over_with_all_leases(self):
        self.granted += leases_made(self.node.client(), 500, "clustered", 4000)  # several pieces
        other = self.cluster.add("b")
        self.assertEqual(len(other.said("seeded")), 1, text_of(other.log.name))
        until(lambda: other.role() == "slave", "the standby")
        self.granted += leases_made(self.node.client(), 20, "seeded")
        self.node.stop(signal.SIGKILL)
        self.assertIs(self.cluster.owner(), other)
        self.verify_all(other)
        self.granted += leases_made(other.client(), 5, "after")
        # The next node is seeded by the one that was seeded itself.
        third = self.cluster.add("c")
        self.assertEqual(len(third.said("seeded")), 1, text_of(third.log.name))
        other.stop(signal.SIGKILL)
        self.assertIs(self.cluster.owner(), third)
        self.verify_all(third)
        other.start()
        self.assertEqual(len(other.said("seeded")), 1)  # it has what it needs
        self.node.start()

    def get(self, path, token=None):
        connection = http.client.HTTPConnection("127.0.0.1", self.node.http_port, timeout=PATIENCE)
        self.addCleanup(connection.close)
        connection.request("GET", path, headers={"Authorization": "Bearer " + token} if token else {})
        answer = connection.getresponse()
        answer.leave = connection.close
        return answer

    def snapshot(self):
        """The answer's head; its body has not been read."""
        def ready():
            answer = self.get(SNAPSHOT, TOKEN)
            self.assertIn(answer.status, (200, 503), answer.read)
            return answer if answer.status == 200 else None
        return until(ready, "a snapshot")

    def test_a_snapshot_is_sent_whole_and_the_log_lets_go_of_it(self):
        leases_made(self.node.client(), 1000, "large", 4000)
        bodies = []
        for _ in range(4):  # more than are sent at a time
            answer = self.snapshot()
            bodies.append(answer.read())
            self.assertEqual(len(bodies[-1]), int(answer.getheader("Content-Length")))
        self.assertGreater(len(bodies[0]), 4 << 20)
        self.assertEqual(len(set(bodies)), 1)
        until(lambda: len(self.node.said("snapshot_sent")) == 4, "the ends")
        self.assertFalse([line for line in self.node.said("snapshot_sent") if "whole=yes" not in line])
        self.assertEqual(self.get(SNAPSHOT + "?from=x", TOKEN).status, 400)

    def test_nodes_that_do_not_read_hold_up_neither_others_nor_the_end(self):
        for i in range(4):
            leases_made(self.node.client(), 1500, "large%d" % i, 4000)
        readers = [self.snapshot() for _ in range(2)]
        self.assertEqual(self.get(SNAPSHOT, TOKEN).status, 503)  # two at a time
        self.assertEqual(self.get("/livez").status, 200)
        self.assertTrue(leases_made(self.node.client(), 1, "meanwhile"))
        readers.pop().leave()
        until(lambda: len(self.node.said("snapshot_sent")) == 1, "one to be given up")
        self.assertEqual(self.node.stop(), 0)
        with self.assertRaises(http.client.IncompleteRead):
            readers[0].read()
        self.node.start()

    def test_only_nodes_with_the_secret_are_given_a_snapshot(self):
        for token in (None, "x", "0" * 64, SECRET):
            self.assertEqual(self.get(SNAPSHOT, token).status, 401)
        self.cluster.secret_write("another secret of another cluster\n")
        with self.assertRaises(AssertionError) as refused:
            self.cluster.add("b")
        self.assertIn("cluster_secret_file must be the same on all nodes", str(refused.exception))

    def test_a_server_without_a_cluster_has_no_such_page(self):
        alone = Server()
        self.addCleanup(alone.remove)
        connection = http.client.HTTPConnection("127.0.0.1", alone.http_port, timeout=PATIENCE)
        self.addCleanup(connection.close)
        connection.request("GET", SNAPSHOT)
        self.assertEqual(connection.getresponse().status, 404)

    def test_a_node_of_a_cluster_can_be_backed_up(self):
        target = os.path.join(self.cluster.etcd.dir, "backup")
        done = subprocess.run([os.path.join(BUILD, "tenure"), "-p", str(self.node.port), "backup", target],
                              timeout=PATIENCE, capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertRegex(done.stdout, re.compile("lsn [0-9]+"))
        self.assertTrue(os.listdir(target))


if __name__ == "__main__":
    unittest.main()
