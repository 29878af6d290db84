"""Where publishing to RabbitMQ continues: no event is skipped without an error, whatever happened to the
broker, the server and its data directory since the first start."""
import json
import os
import shutil
import signal
import subprocess
import tempfile
import unittest

from broker import Broker, Client
from harness import PATIENCE, TENURED, Server, pairs, text_of, until

OUT = "tenure.events"


class PositionTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.broker = Broker()
        cls.addClassCleanup(cls.broker.remove)
        cls.broker.start()

    def setUp(self):
        self.client = Client(self.broker)
        self.client.channel.exchange_declare(OUT, "topic", durable=True)
        self.client.channel.queue_declare(OUT, durable=True)
        self.client.channel.queue_bind(OUT, OUT, "tenure.#")
        self.server = None
        self.seen = []

    def tearDown(self):
        if self.server is not None:
            self.server.remove()
        self.client.channel.queue_delete(OUT)
        self.client.close()

    def flags(self, host="/", *more):
        return ("--amqp-url", "amqp://127.0.0.1:%d%s" % (self.broker.port, host), "--amqp-queue", "",
                "--amqp-retry-ms", "20", "--amqp-retry-max-ms", "100",
                "--amqp-publish-exchange", OUT, *more)

    def again(self, *flags, number=signal.SIGTERM, meanwhile=None):
        self.server.stop(number)
        if meanwhile is not None:
            meanwhile()
        self.server.flags = flags
        self.server.start()

    def happen(self, count):
        with self.server.client() as redis:
            with redis.pipeline(transaction=False) as pipeline:
                for i in range(count):
                    pipeline.execute_command("ALLOC", "p", "holder-%d" % i)
                pipeline.execute()

    def pool(self):
        with self.server.client() as redis:
            redis.execute_command("POOL", "CREATE", "p", "lo", "1", "hi", "100000")

    def kept(self, *after):
        """Ids of the events that the server retains."""
        with self.server.client() as redis:
            events = pairs(redis.execute_command("EVENTS", *after, "COUNT", "1000"))["events"]
        return [pairs(event)["id"] for event in events]

    def published(self, last):
        """All messages up to the one about this event: (routing key, id, body)."""
        got = []

        def is_there():
            method, properties, body = self.client.get(OUT)
            if method is not None:
                got.append((method.routing_key, properties.message_id, json.loads(body)))
            return bool(got) and got[-1][1] == last
        until(is_there, "event %s is published" % last)
        return got

    def settled(self, last):
        """The broker's confirmation of this event has been stored."""
        position = os.path.join(self.server.data, "data", "amqp.position")
        lsn, index = map(int, last.split("."))
        wanted = lsn.to_bytes(8, "little") + index.to_bytes(4, "little")

        def is_kept():
            with open(position, "rb") as file:
                return wanted in file.read()
        until(is_kept, "event %s is known to be published" % last)

    def test_what_was_dropped_since_the_first_start_is_told(self):
        """The first start has no events, and the broker starts too late for the first ones."""
        self.server = Server(None, *self.flags("/elsewhere", "--events-max", "10"))
        self.pool()
        self.happen(500)
        self.again(*self.flags("/", "--events-max", "10"), number=signal.SIGKILL)
        kept = self.kept("AFTER", "0")
        got = self.published(kept[-1])
        self.assertEqual(got[0][0], "tenure.lost")
        ids = [event for _, event, _ in got[1:]]
        self.assertEqual(got[0][2]["oldest"], ids[0])
        both = min(len(ids), len(kept))  # more may be dropped before the one or the other has read
        self.assertGreaterEqual(both, 10)
        self.assertEqual(ids[-both:], kept[-both:])

    def test_what_happened_since_the_first_start_is_published(self):
        self.server = Server(None, *self.flags("/elsewhere"))
        self.pool()
        self.happen(5)
        self.again(*self.flags("/elsewhere"), number=signal.SIGKILL)
        self.again()  # for a while without the broker
        self.happen(5)
        self.again(*self.flags(), number=signal.SIGKILL)
        kept = self.kept("AFTER", "0")
        self.assertEqual(len(kept), 11)
        self.assertEqual([event for _, event, _ in self.published(kept[-1])], kept)

    def put_back(self, *more):
        """Restores an earlier state beside the newer position; then other events happen. Returns the
        ids of all events."""
        def back():
            data = os.path.join(self.server.data, "data")
            shutil.copy(os.path.join(data, "amqp.position"), backup)
            shutil.rmtree(data)
            shutil.copytree(os.path.join(backup, "data"), data)
            shutil.copy(os.path.join(backup, "amqp.position"), data)

        backup = tempfile.mkdtemp(prefix="tenure-backup-")
        self.addCleanup(shutil.rmtree, backup)
        self.server = Server(None, *self.flags())
        self.pool()
        self.happen(5)
        self.published(self.kept("AFTER", "0")[-1])
        self.again(*self.flags(), meanwhile=lambda: shutil.copytree(
            os.path.join(self.server.data, "data"), os.path.join(backup, "data")))
        self.happen(5)
        last = self.kept("AFTER", "0")[-1]
        self.published(last)
        self.settled(last)
        self.again(*more, meanwhile=back)

    def all_once_more(self):
        kept = self.kept("AFTER", "0")
        got = [event for _, event, _ in self.published(kept[-1])]
        self.assertIn("event=amqp_position_foreign", text_of(self.server.log.name))
        self.assertEqual(got, kept)
        # It is told once, and goes on from there.
        self.settled(kept[-1])
        told = text_of(self.server.log.name).count("amqp_position_foreign")
        self.again(*self.flags())
        self.happen(1)
        more = self.kept("AFTER", kept[-1])
        self.assertEqual([event for _, event, _ in self.published(more[-1])], more)
        self.assertEqual(text_of(self.server.log.name).count("amqp_position_foreign"), told)

    def test_a_position_after_the_end_of_the_log_is_noticed(self):
        self.put_back(*self.flags())
        self.all_once_more()

    def test_a_position_of_what_happened_otherwise_is_noticed(self):
        """The log has grown beyond it meanwhile, with other events."""
        self.put_back()
        self.happen(50)
        self.again(*self.flags())
        self.all_once_more()

    def test_without_a_position_it_does_not_start(self):
        """Otherwise the next start could not know of this one."""
        directory = tempfile.mkdtemp(prefix="tenure-e2e-")
        self.addCleanup(shutil.rmtree, directory)
        os.makedirs(os.path.join(directory, "data", "amqp.position.new"))
        done = subprocess.run([TENURED, "--data", os.path.join(directory, "data"), "--listen",
                               "127.0.0.1:0", "--http", "127.0.0.1:0", *self.flags()],
                              timeout=PATIENCE, stderr=subprocess.PIPE, check=False)
        self.assertEqual(done.returncode, 2)
        self.assertIn(b"event=amqp_position_failed", done.stderr)


if __name__ == "__main__":
    unittest.main()
