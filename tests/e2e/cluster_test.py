"""Nodes of a cluster with a real etcd: the owner is killed, stopped or told to stop, another one continues, and
nothing that was acknowledged is lost."""
import contextlib
import json
import os
import signal
import socket
import tempfile
import unittest
import urllib.request

import redis

from cluster import Cluster
from harness import PATIENCE, text_of, until
from opensynaptic_test import DOOR, Node as Device, given, one

POOL = ("POOL", "CREATE", "p", "RANGE", "1", "1000", "LEASE", "3600")


def lease(client, holder):
    reply = client.execute_command("ALLOC", "p", holder)
    return dict(zip(reply[::2], reply[1::2])) if isinstance(reply, list) else reply


def verified(client, got):
    reply = client.execute_command("VERIFY", got["lease"], got["epoch"])
    reply = dict(zip(reply[::2], reply[1::2])) if isinstance(reply, list) else reply
    return reply


def rotate(client):
    """False: the owner does not have its keys yet."""
    try:
        return client.execute_command("TOKEN", "ROTATE")
    except redis.ResponseError as error:
        assert str(error).startswith("MASTERDOWN"), error
        return False


def issue(client, got):
    try:
        return client.execute_command("TOKEN", "ISSUE", got["lease"], got["epoch"])
    except redis.ResponseError as error:
        assert str(error).startswith("MASTERDOWN"), error
        return False


class Failover(unittest.TestCase):
    def setUp(self):
        self.cluster = Cluster("ab")
        self.addCleanup(self.cluster.remove)
        self.node = self.cluster.owner()
        self.node.client().execute_command(*POOL)

    def moved(self, node):
        """The owner, which is another one by now."""
        owner = self.cluster.owner()
        self.assertIsNot(owner, node)
        return owner

    def test_an_owner_that_is_killed_is_followed_by_another_with_all_its_leases(self):
        granted = [lease(self.node.client(), "h/%d" % i) for i in range(20)]
        for _ in range(2):
            node = self.cluster.owner()
            node.stop(signal.SIGKILL)
            owner = self.moved(node)
            client = owner.client()
            for got in granted:
                self.assertEqual(verified(client, got)["epoch"], got["epoch"])
            more = lease(client, "more")
            self.assertGreater(int(more["lease"].split("-")[1]),
                               int(granted[-1]["lease"].split("-")[1]))
            granted.append(more)
            node.start()  # as a standby, with the directory of its earlier life
            until(lambda node=node: node.role() == "slave", "the standby")

    def test_a_standby_refuses_and_names_the_owner(self):
        other = self.cluster.others(self.node)[0]

        def refusal():
            try:
                lease(other.client(), "x")
            except redis.ResponseError as error:
                return str(error)
            return None
        until(lambda: "127.0.0.1:%d" % self.node.port in (refusal() or ""), "the owner's address")

    def test_an_owner_that_is_stopped_for_a_while_follows_when_it_goes_on(self):
        got = lease(self.node.client(), "a")
        self.node.process.send_signal(signal.SIGSTOP)
        owner = self.cluster.others(self.node)[0]
        until(lambda: owner.role() == "master", "another owner")
        second = lease(owner.client(), "b")
        self.node.process.send_signal(signal.SIGCONT)
        until(lambda: self.node.role() == "slave", "the first owner to follow")
        until(lambda: self.node.said("owner_ended"), "what runs once to end")
        self.assertIsNone(self.node.process.poll())
        for each in (got, second):
            self.assertEqual(verified(owner.client(), each)["epoch"], each["epoch"])
        # And back again, in the same process.
        owner.stop(signal.SIGKILL)
        self.assertIs(self.cluster.owner(), self.node)
        self.assertEqual(verified(self.node.client(), second)["epoch"], second["epoch"])
        owner.start()

    def test_an_owner_that_was_stopped_answers_nothing_that_waited_for_it(self):
        """Writes and reads that were sent meanwhile: the log has another owner and other leases by now."""
        with socket.create_connection(("127.0.0.1", self.node.port), PATIENCE) as client:
            client.sendall(b"PING\r\n")
            self.assertEqual(client.recv(7), b"+PONG\r\n")
            self.node.process.send_signal(signal.SIGSTOP)
            client.sendall(b"".join(b"ALLOC p waited/%d\r\nPOOL INFO p\r\n" % i for i in range(200)))
            owner = self.cluster.others(self.node)[0]
            until(lambda: owner.role() == "master", "another owner")
            got = lease(owner.client(), "b")
            self.node.process.send_signal(signal.SIGCONT)
            replies, more = b"", True
            with contextlib.suppress(ConnectionResetError):  # it may close the connection first
                while more and replies.count(b"\r\n") < 400:
                    more = client.recv(65536)
                    replies += more
        self.assertEqual({line[:1] for line in replies.split(b"\r\n") if line} - {b"-"}, set(), replies[:500])
        until(lambda: self.node.role() == "slave", "the first owner to follow")
        self.assertEqual(verified(owner.client(), got)["epoch"], got["epoch"])
        rows = owner.client().execute_command("LEASES")
        self.assertEqual(len(dict(zip(rows[::2], rows[1::2]))["leases"]), 1)

    def test_an_owner_that_is_told_to_stop_gives_the_log_up(self):
        got = lease(self.node.client(), "a")
        self.assertEqual(self.node.stop(), 0)
        self.assertEqual(verified(self.moved(self.node).client(), got)["epoch"], got["epoch"])
        self.node.start()

    def test_tokens_of_one_owner_are_verified_and_issued_by_the_next(self):
        got = lease(self.node.client(), "a")
        kids = str(self.node.client().execute_command("TOKEN", "KEYS"))
        until(lambda: rotate(self.node.client()), "a rotation")
        self.assertTrue(issue(self.node.client(), got))
        rotated = str(self.node.client().execute_command("TOKEN", "KEYS"))
        self.assertNotEqual(kids, rotated)
        self.node.stop(signal.SIGKILL)
        owner = self.moved(self.node)
        until(lambda: str(owner.client().execute_command("TOKEN", "KEYS")) == rotated, "the keys")
        until(lambda: issue(owner.client(), got), "a token by the next owner")
        self.node.start()

    def test_a_directory_of_a_node_is_not_served_alone(self):
        self.node.stop()
        flags = self.node.flags
        self.node.flags = ()
        with self.assertRaises(AssertionError) as refused:
            self.node.start()
        self.assertIn("belongs to a node of a cluster", str(refused.exception))
        self.node.log.close()
        self.node.flags = flags
        self.node.start()


class Declared(unittest.TestCase):
    def test_a_new_owner_applies_the_file_as_it_is_now(self):
        with tempfile.NamedTemporaryFile("w", suffix=".conf") as file:
            file.write("[pool q]\nrange = 1 10\nlease = 60\n")
            file.flush()
            cluster = Cluster("ab", "--config", file.name)
            self.addCleanup(cluster.remove)
            node = cluster.owner()
            file.write("[pool r]\nrange = 1 10\n")  # while the standby runs
            file.flush()
            node.stop(signal.SIGKILL)
            pools = str(cluster.owner().client().execute_command("POOL", "LIST"))
            for name in ("'q'", "'r'"):
                self.assertIn(name, pools)
            node.start()


class Reads(unittest.TestCase):
    """The owner cannot ask etcd, but its ownership has not expired."""

    def answer(self, *flags):
        cluster = Cluster("a", "--leader-ttl", "60", *flags)
        self.addCleanup(cluster.remove)
        client = cluster.owner().client()
        client.execute_command(*POOL)
        self.assertIn("p", str(client.execute_command("POOL", "INFO", "p")))
        cluster.etcd.pause()
        try:
            return str(client.execute_command("POOL", "INFO", "p"))
        except redis.ResponseError as error:
            return str(error)
        finally:
            cluster.etcd.process.send_signal(signal.SIGCONT)

    def test_by_default_the_owner_reads_by_its_clock(self):
        self.assertNotIn("MASTERDOWN", self.answer())

    def test_with_quorum_the_owner_asks_etcd_each_time(self):
        self.assertIn("MASTERDOWN", self.answer("--reads", "quorum"))

    def questions(self, requests, prefix):
        """How often etcd was asked while these requests, which are sent together, were answered."""
        cluster = Cluster("a", "--reads", "quorum")
        self.addCleanup(cluster.remove)
        node = cluster.owner()
        node.client().execute_command("POOL", "CREATE", "p", "RANGE", "1", "1", "LEASE", "3600")
        lease(node.client(), "a")

        def ranges():
            with urllib.request.urlopen(cluster.etcd.client + "/metrics", timeout=PATIENCE) as reply:
                return sum(int(line.rsplit(" ", 1)[1]) for line in reply.read().decode().splitlines()
                           if line.startswith("grpc_server_started_total{") and 'grpc_method="Range"' in line)
        before = ranges()
        with socket.create_connection(("127.0.0.1", node.port), PATIENCE) as client, \
                client.makefile("rb") as replies:
            client.sendall(b"".join(requests))
            for line in replies:
                if line.startswith(prefix):
                    requests = requests[1:]
                if not requests:
                    break
        self.assertFalse(requests)
        return ranges() - before

    def test_with_quorum_reads_that_came_together_share_a_question(self):
        self.assertIn(self.questions([b"POOL INFO q\r\n"] * 200, b"-POOL_NOTFOUND"), range(1, 100))

    def test_with_quorum_a_refusal_needs_no_question(self):
        alloc = b"*3\r\n$5\r\nALLOC\r\n$1\r\np\r\n$1\r\nb\r\n"
        self.assertLess(self.questions([alloc] * 200, b"-EXHAUSTED"), 100)


class Datagrams(unittest.TestCase):
    """The UDP listener answers on the owner only."""

    def asked(self, device, sequence, mac):
        """The answer to this request, which is sent again until there is one."""
        device.socket.settimeout(0.2)

        def answer():
            try:
                return given(device.ask(one(sequence, {"mac": mac})))
            except TimeoutError:
                return None
        return until(answer, "an answer")

    def test_a_standby_says_nothing_and_answers_when_it_owns_the_log(self):
        cluster = Cluster("ab", *DOOR)
        self.addCleanup(cluster.remove)
        owner = cluster.owner()
        standby = cluster.others(owner)[0]
        owner.client().execute_command("POOL", "CREATE", "devices", "RANGE", "1", "1000", "STICKY", "yes")
        devices = [Device(node) for node in (owner, standby)]
        for device in devices:
            self.addCleanup(device.close)
        self.assertEqual(self.asked(devices[0], 1, "AA:BB:CC:DD:EE:01")[:2], (1, 1))
        devices[1].send(one(1, {"mac": "AA:BB:CC:DD:EE:02"}))
        standby.client().ping()  # it has read the datagram by now
        owner.stop(signal.SIGKILL)
        self.assertIs(cluster.owner(), standby)
        self.assertEqual(self.asked(devices[1], 2, "AA:BB:CC:DD:EE:03")[:2], (2, 2))
        self.assertEqual(self.asked(devices[1], 3, "AA:BB:CC:DD:EE:01")[:2], (3, 1))
        owner.start()


# Says who runs; a second one beside it would say so.
SENSOR = """
import os, socket, sys, time
alone = socket.socket(socket.AF_UNIX)
try:
    alone.bind("\\0" + sys.argv[1])
except OSError:
    open(sys.argv[2], "a").write("TWICE\\n")
    sys.exit(1)
open(sys.argv[2], "a").write("run %s %d\\n" % (os.environ["TENURE_LEASE"], os.getpid()))
while True:
    time.sleep(60)
"""


class Sensors(unittest.TestCase):
    """One run of a sensor in the whole cluster, whatever happens to its node."""

    def setUp(self):
        self.cluster = Cluster("ab", "--sensor-settle-seconds", "0", "--sensor-fence-seconds", "1",
                               "--sensor-stop-seconds", "1", "--sensor-containment", "none")
        self.addCleanup(self.cluster.remove)
        self.node = self.cluster.owner()
        self.runs = os.path.join(self.cluster.etcd.dir, "runs")
        command = ["/usr/bin/python3", "-c", SENSOR, self.cluster.etcd.dir, self.runs]
        local = self.node.local()
        local.execute_command("SENSOR", "SET", "s", "t",
                              json.dumps({"command": command}))
        local.execute_command("RULE", "SET", "r", "t")
        self.wait_runs(1)

    def lines(self):
        return text_of(self.runs).splitlines() if os.path.exists(self.runs) else []

    def wait_runs(self, count):
        until(lambda: len(self.lines()) >= count, "run %d of the sensor" % count)
        self.assertNotIn("TWICE", self.lines())

    def pid(self):
        return int(self.lines()[-1].split()[2])

    def test_a_sensor_follows_the_owner_when_that_is_killed(self):
        self.node.stop(signal.SIGKILL)
        self.wait_runs(2)
        owner = self.cluster.owner()
        self.assertEqual(len(owner.said("sensor_abroad_gone")), 1)
        self.node.start()

    def test_a_stopped_owner_loses_its_run_before_another_begins_it(self):
        first = self.pid()
        self.node.process.send_signal(signal.SIGSTOP)
        self.wait_runs(2)  # the guardian has killed the first one by itself
        self.assertFalse(os.path.exists("/proc/%d" % first))
        self.node.process.send_signal(signal.SIGCONT)
        until(lambda: self.node.said("owner_ended"), "the first owner to follow")
        self.assertEqual(len(self.lines()), 2)

    def test_a_sensor_moves_at_once_when_its_owner_is_told_to_stop(self):
        self.assertEqual(self.node.stop(), 0)
        self.wait_runs(2)
        self.assertEqual(self.cluster.owner().said("sensor_abroad_gone"), [])
        self.node.start()


if __name__ == "__main__":
    unittest.main()
