"""A scripted broker, for frames that a real one sends only rarely."""
import http.client
import json
import re
import socket
import unittest

from pika import frame, spec

from harness import PATIENCE, Server, pairs, until

OUT = "tenure.events"


# What a broker says to each request of a server that begins.
ANSWERS = {spec.Channel.Open: spec.Channel.OpenOk, spec.Exchange.Declare: spec.Exchange.DeclareOk,
           spec.Queue.Declare: lambda: spec.Queue.DeclareOk("q", 0, 0),
           spec.Queue.Bind: spec.Queue.BindOk, spec.Basic.Qos: spec.Basic.QosOk,
           spec.Confirm.Select: spec.Confirm.SelectOk,
           spec.Basic.Consume: lambda: spec.Basic.ConsumeOk("c")}


class Wire:
    """One connection of a server, from its first byte to its last request before messages."""

    def __init__(self, listener, last):
        self.socket, _ = listener.accept()
        self.socket.settimeout(PATIENCE)
        self.buffer = b""
        self.published = 0
        self.keys = []
        assert self.take(8) == b"AMQP\x00\x00\x09\x01"
        self.say(0, spec.Connection.Start(server_properties={}, mechanisms="PLAIN", locales="en_US"))
        self.hear(spec.Connection.StartOk)
        self.say(0, spec.Connection.Tune(channel_max=10, frame_max=131072, heartbeat=0))
        self.hear(spec.Connection.TuneOk)
        self.hear(spec.Connection.Open)
        self.say(0, spec.Connection.OpenOk())
        asked = None
        while asked != last:
            asked = type(self.next().method)
            self.say(1, ANSWERS[asked]())

    def take(self, count):
        while len(self.buffer) < count:
            self.more()
        taken, self.buffer = self.buffer[:count], self.buffer[count:]
        return taken

    def more(self):
        got = self.socket.recv(1 << 16)
        assert got, "the server has hung up"
        self.buffer += got

    def next(self):
        while True:
            used, got = frame.decode_frame(self.buffer)
            if got is not None:
                self.buffer = self.buffer[used:]
                return got
            self.more()

    def hear(self, method):
        got = self.next()
        assert isinstance(got, frame.Method) and isinstance(got.method, method), got
        return got.method

    def deliver(self, key, body, message_id=None, pieces=1, again=False):
        """Sends a message with its body in this number of frames, and heartbeats between them."""
        size = len(body) // pieces + 1
        frames = [frame.Method(1, spec.Basic.Deliver("c", 1, again, "attune.events", key)),
                  frame.Header(1, len(body), spec.BasicProperties(message_id=message_id))]
        frames += [frame.Body(1, body[at:at + size]) for at in range(0, len(body), size)]
        for one in frames:
            self.socket.sendall(one.marshal() + frame.Heartbeat().marshal())

    def say(self, channel, *methods):
        """In one piece."""
        self.socket.sendall(b"".join(frame.Method(channel, method).marshal() for method in methods))

    def messages(self, count):
        """Waits until this number of messages has arrived in total."""
        while self.published < count:
            got = self.next()
            if isinstance(got, frame.Method) and isinstance(got.method, spec.Basic.Publish):
                self.published += 1
                self.keys.append(got.method.routing_key)

    def close(self):
        self.socket.close()


class Case(unittest.TestCase):
    flags = ()
    last = None  # what a server asks for before messages

    def setUp(self):
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.listener.settimeout(PATIENCE)
        self.addCleanup(self.listener.close)
        self.server = Server(None, "--amqp-url",
                             "amqp://127.0.0.1:%d" % self.listener.getsockname()[1],
                             "--amqp-heartbeat-seconds", "3600", "--amqp-retry-ms", "10", *self.flags)
        self.addCleanup(self.server.remove)
        self.wire = self.connection()

    def connection(self):
        """The next connection that the server opens."""
        wire = Wire(self.listener, self.last)
        self.addCleanup(wire.close)
        return wire

    def metric(self, name):
        connection = http.client.HTTPConnection("127.0.0.1", self.server.http_port, timeout=PATIENCE)
        connection.request("GET", "/metrics")
        text = connection.getresponse().read().decode()
        connection.close()
        return int(re.search("^%s (.*)$" % re.escape(name), text, re.M).group(1))


class Publish(Case):
    flags = ("--amqp-queue", "", "--amqp-publish-exchange", OUT)
    last = spec.Confirm.Select

    def published(self):
        return self.metric("tenure_amqp_published_total")

    def happen(self, count):
        with self.server.client() as redis:
            with redis.pipeline(transaction=False) as pipeline:
                for i in range(count):
                    pipeline.execute_command("POOL", "CREATE", "p%d" % i, "RANGE", 1, 9)
                pipeline.execute()

    def test_all_confirmations_that_came_at_once_are_taken(self):
        """One by one, and more than are handled in a turn: the server must not wait at the socket for those that
        are already in memory."""
        self.happen(200)
        self.wire.messages(200)
        self.wire.say(1, *(spec.Basic.Ack(delivery_tag=tag) for tag in range(1, 201)))
        until(lambda: self.published() == 200, "all are known to be published")

    def test_a_full_window_goes_on_when_the_first_is_confirmed_last(self):
        self.happen(300)
        self.wire.messages(255)
        tags = [*range(2, 256), 1]
        self.wire.say(1, *(spec.Basic.Ack(delivery_tag=tag) for tag in tags))
        self.wire.messages(300)
        self.wire.say(1, spec.Basic.Ack(delivery_tag=300, multiple=True))
        until(lambda: self.published() == 300, "all are known to be published")

    def test_what_was_refused_is_sent_again(self):
        self.happen(3)
        self.wire.messages(3)
        self.wire.say(1, spec.Basic.Ack(delivery_tag=1), spec.Basic.Nack(delivery_tag=2))
        again = self.connection()
        again.messages(2)
        again.say(1, spec.Basic.Ack(delivery_tag=2, multiple=True))
        until(lambda: self.published() == 3, "all are known to be published")


    def test_events_about_users_are_not_published(self):
        with self.server.local() as local:
            local.execute_command("POOL", "CREATE", "a", "RANGE", 1, 9)
            local.execute_command("USER", "ADD", "u", "ROLE", "reader", "SECRET", "s")
            local.execute_command("POOL", "CREATE", "b", "RANGE", 1, 9)
            local.execute_command("USER", "DELETE", "u")
            self.wire.messages(2)
            self.wire.say(1, spec.Basic.Ack(delivery_tag=1), spec.Basic.Nack(delivery_tag=2))
            again = self.connection()
            local.execute_command("POOL", "DROP", "a")
            again.messages(2)
        self.assertEqual(self.wire.keys, ["tenure.pool.created", "tenure.pool.created"])
        self.assertEqual(again.keys, ["tenure.pool.created", "tenure.pool.dropped"])


class Consume(Case):
    last = spec.Basic.Consume

    def outcomes(self):
        return [self.metric('tenure_amqp_messages_total{outcome="%s"}' % outcome)
                for outcome in ("applied", "duplicate", "missing", "malformed")]

    def rules(self):
        with self.server.client() as redis:
            found = map(pairs, pairs(redis.execute_command("RULE", "LIST"))["rules"])
            return {rule["id"]: bool(rule["enabled"]) for rule in found}

    def test_a_broker_that_goes_in_the_middle_of_an_acknowledgement(self):
        """It was committed, so its repetition is recognized: by its id, or because it changes nothing."""
        created = json.dumps({"rule_id": 1, "trigger_ref": "t"}).encode()
        deleted = json.dumps({"rule_id": 1}).encode()
        self.wire.deliver("rule.created", created, "m1")
        self.assertEqual(self.wire.hear(spec.Basic.Ack).delivery_tag, 1)
        self.wire.close()
        wire = self.connection()
        with self.server.client() as redis:
            redis.execute_command("RULE", "DISABLE", "1")
        wire.deliver("rule.created", created, "m1", again=True)
        wire.hear(spec.Basic.Ack)
        self.assertEqual((self.outcomes(), self.rules()), ([1, 1, 0, 0], {"1": False}))
        wire.deliver("rule.deleted", deleted)
        wire.hear(spec.Basic.Ack)
        wire.close()
        wire = self.connection()
        wire.deliver("rule.deleted", deleted, again=True)
        wire.hear(spec.Basic.Ack)
        self.assertEqual((self.outcomes(), self.rules()), ([2, 1, 1, 0], {}))

    def test_a_message_in_many_pieces(self):
        body = json.dumps({"rule_id": 1, "trigger_ref": "t", "trigger_params": {"k": "x" * 4000}, "more": "x" * 1000}).encode()
        self.wire.deliver("rule.created", body, pieces=100)
        self.wire.hear(spec.Basic.Ack)
        self.wire.deliver("rule.created", b"")
        self.assertFalse(self.wire.hear(spec.Basic.Reject).requeue)
        self.wire.deliver("rule.created", b"[" * 100000, pieces=3)
        self.assertFalse(self.wire.hear(spec.Basic.Reject).requeue)
        self.assertEqual((self.outcomes(), self.rules()), ([1, 0, 0, 2], {"1": True}))

    def test_a_message_that_breaks_off_is_none(self):
        body = json.dumps({"rule_id": 1, "trigger_ref": "t"}).encode()
        whole = frame.Header(1, len(body), spec.BasicProperties()).marshal()
        deliver = frame.Method(1, spec.Basic.Deliver("c", 1, False, "x", "rule.created")).marshal()
        wire = self.wire
        for broken in (deliver + whole + frame.Body(1, body[:5]).marshal() + deliver, whole,
                       frame.Body(1, body).marshal()):
            wire.socket.sendall(broken)
            wire = self.connection()
        wire.deliver("rule.created", body)
        wire.hear(spec.Basic.Ack)
        self.assertEqual((self.outcomes(), self.rules()), ([1, 0, 0, 0], {"1": True}))


if __name__ == "__main__":
    unittest.main()
