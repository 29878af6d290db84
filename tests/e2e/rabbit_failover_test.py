"""Events published to a real RabbitMQ by a cluster: the position moves with the log, so that the next owner continues
where the last one stopped. Some events may come twice, under the same ids; none is left out."""
import json
import os
import signal
import subprocess
import unittest

from broker import Broker, Client
from cluster import Cluster
from harness import PATIENCE, until

OUT = "tenure.events"
EVENTS = 40


class PublishingTest(unittest.TestCase):
    def setUp(self):
        self.broker = Broker()
        self.addCleanup(self.broker.remove)
        self.broker.start()
        self.client = Client(self.broker)
        self.addCleanup(self.client.close)
        self.client.channel.exchange_declare(OUT, "topic", durable=True)
        self.client.channel.queue_declare(OUT, durable=True)
        self.client.channel.queue_bind(OUT, OUT, "tenure.#")
        self.cluster = Cluster("ab", "--amqp-url", "amqp://127.0.0.1:%d/" % self.broker.port, "--amqp-queue", "",
                               "--amqp-retry-ms", "20", "--amqp-retry-max-ms", "100", "--amqp-publish-exchange", OUT)
        self.addCleanup(self.cluster.remove)
        self.ids = []

    def happen(self, node, name):
        """The id of the last event."""
        with node.client() as client:
            for i in range(EVENTS):
                client.execute_command("ALLOC", "p", "%s-%d" % (name, i))
            events = client.execute_command("EVENTS", "COUNT", "1000")
        return dict(zip(events[::2], events[1::2]))["events"][-1][1]

    def published(self, last):
        """Messages up to that event."""
        def is_there():
            method, properties, body = self.client.get(OUT)
            if method is not None:
                self.assertNotEqual(method.routing_key, "tenure.lost", body)
                self.ids.append(properties.message_id)
                json.loads(body)
            return last in self.ids
        until(is_there, "event %s is published" % last)

    def kept(self, last):
        """The position after this event is in etcd."""
        lsn, index = map(int, last.split("."))
        wanted = lsn.to_bytes(8, "little") + index.to_bytes(4, "little")

        def is_there():
            done = subprocess.run(["etcdctl", "get", "--prefix", "/tenure/default/note/", "--print-value-only"],
                                  env=dict(os.environ, ETCDCTL_API="3", ETCDCTL_ENDPOINTS=self.cluster.etcd.client),
                                  timeout=PATIENCE, stdout=subprocess.PIPE, check=True)
            return wanted in done.stdout
        until(is_there, "the position in etcd")

    def test_the_next_owner_goes_on_where_the_last_one_stopped(self):
        first = self.cluster.owner()
        with first.client() as client:
            client.execute_command("POOL", "CREATE", "p", "RANGE", "1", "100000")
        last = self.happen(first, "first")
        self.published(last)
        self.kept(last)
        known = set(self.ids)
        self.assertEqual(len(known), len(self.ids))
        first.stop(signal.SIGKILL)
        second = self.cluster.owner()
        self.assertIsNot(second, first)
        before = len(self.ids)
        self.published(self.happen(second, "second"))
        self.assertEqual(known & set(self.ids[before:]), set())  # it knows the position
        with second.client() as client:
            events = client.execute_command("EVENTS", "AFTER", "0", "COUNT", "1000")
        kept = [event[1] for event in dict(zip(events[::2], events[1::2]))["events"]]
        self.assertEqual([event for event in kept if event not in set(self.ids)], [])  # none is left out
        self.assertEqual(set(self.ids) - set(kept), set())  # under the same ids
        first.start()


if __name__ == "__main__":
    unittest.main()
