"""A broker whose every frame the test decides: what a real one does only now and then."""
import http.client
import re
import socket
import unittest

from pika import frame, spec

from harness import PATIENCE, Server, until

OUT = "tenure.events"


class Wire:
    """One connection of a server that publishes, from its first byte to its messages."""

    def __init__(self, listener):
        self.socket, _ = listener.accept()
        self.socket.settimeout(PATIENCE)
        self.buffer = b""
        self.published = 0
        assert self.take(8) == b"AMQP\x00\x00\x09\x01"
        self.say(0, spec.Connection.Start(server_properties={}, mechanisms="PLAIN", locales="en_US"))
        self.hear(spec.Connection.StartOk)
        self.say(0, spec.Connection.Tune(channel_max=10, frame_max=131072, heartbeat=0))
        self.hear(spec.Connection.TuneOk)
        self.hear(spec.Connection.Open)
        self.say(0, spec.Connection.OpenOk())
        self.hear(spec.Channel.Open)
        self.say(1, spec.Channel.OpenOk())
        self.hear(spec.Exchange.Declare)
        self.say(1, spec.Exchange.DeclareOk())
        self.hear(spec.Confirm.Select)
        self.say(1, spec.Confirm.SelectOk())

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

    def say(self, channel, *methods):
        """In one piece."""
        self.socket.sendall(b"".join(frame.Method(channel, method).marshal() for method in methods))

    def messages(self, count):
        """Waits until so many have come in all."""
        while self.published < count:
            got = self.next()
            self.published += isinstance(got, frame.Method) and isinstance(got.method,
                                                                           spec.Basic.Publish)

    def close(self):
        self.socket.close()


class WireTest(unittest.TestCase):
    def setUp(self):
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.addCleanup(self.listener.close)
        self.server = Server(None, "--amqp-url",
                             "amqp://127.0.0.1:%d" % self.listener.getsockname()[1],
                             "--amqp-queue", "", "--amqp-publish-exchange", OUT,
                             "--amqp-heartbeat-seconds", "3600", "--amqp-retry-ms", "10")
        self.addCleanup(self.server.remove)
        self.wire = Wire(self.listener)
        self.addCleanup(self.wire.close)

    def published(self):
        connection = http.client.HTTPConnection("127.0.0.1", self.server.http_port, timeout=PATIENCE)
        connection.request("GET", "/metrics")
        text = connection.getresponse().read().decode()
        connection.close()
        return int(re.search("^tenure_amqp_published_total (.*)$", text, re.M).group(1))

    def happen(self, count):
        with self.server.client() as redis:
            with redis.pipeline(transaction=False) as pipeline:
                for i in range(count):
                    pipeline.execute_command("POOL", "CREATE", "p%d" % i, "RANGE", 1, 9)
                pipeline.execute()

    def test_all_confirmations_that_came_at_once_are_taken(self):
        """One by one, and more than are taken in a turn: what is left of them in memory is not waited for
        at the socket."""
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
        again = Wire(self.listener)
        self.addCleanup(again.close)
        again.messages(2)
        again.say(1, spec.Basic.Ack(delivery_tag=2, multiple=True))
        until(lambda: self.published() == 3, "all are known to be published")


if __name__ == "__main__":
    unittest.main()
