"""Nodes of a cluster with a real etcd: the owner is killed, stopped or told to stop, another one goes on from
where it was, and nothing that was acknowledged is lost."""
import signal
import unittest

import redis

from cluster import Cluster
from harness import until

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


if __name__ == "__main__":
    unittest.main()
