"""Rules from a real RabbitMQ, events to it; and what happens while it is down."""
# tsan
import http.client
import itertools
import json
import os
import re
import shutil
import signal
import socket
import struct
import subprocess
import tempfile
import threading
import time
import unittest

import pika

from broker import Broker, Client
from harness import PATIENCE, TENURED, Server, pairs, port_of, reserve, text_of, until

QUEUE, DEAD, OUT, EARLY = "tenure.rules", "tenure.rules.dead", "tenure.events", "early.rules"

SETTLE = 0.5
# Says that it has started, and runs until it is asked to stop.
SENSOR = 'echo $$ >> "$OUT"; trap "exit 0" TERM; while :; do sleep 0.05; done'


def certificates(directory):
    """A CA, and the certificates that it signed for the broker (localhost) and for the server."""
    def openssl(*words):
        subprocess.run(["openssl", *words], cwd=directory, check=True, timeout=PATIENCE,
                       stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    new = ("req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2")
    openssl(*new, "-x509", "-keyout", "ca.key", "-out", "ca.pem", "-subj", "/CN=tenure test CA")
    openssl(*new, "-x509", "-keyout", "other.key", "-out", "other.pem", "-subj", "/CN=another CA")
    for name, alternative in (("server", "DNS:localhost"), ("client", "DNS:tenured")):
        with open(os.path.join(directory, name + ".ext"), "w", encoding="utf-8") as file:
            file.write("subjectAltName=%s\n" % alternative)
        openssl("req", *new[1:-2], "-keyout", name + ".key", "-out", name + ".csr", "-subj",
                "/CN=localhost")
        openssl("x509", "-req", "-in", name + ".csr", "-CA", "ca.pem", "-CAkey", "ca.key",
                "-set_serial", "1" if name == "server" else "2", "-days", "2", "-extfile",
                name + ".ext", "-out", name + ".pem")


def envelope(kind, payload, **more):
    return {"message_type": kind, "version": "1.0", "headers": {"retry_count": 0},
            "payload": payload, **more}


class RabbitTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.tls = tempfile.mkdtemp(prefix="tenure-tls-")
        certificates(cls.tls)
        cls.broker = Broker(cls.tls)
        cls.addClassCleanup(shutil.rmtree, cls.tls)
        cls.addClassCleanup(cls.broker.remove)
        # One that is there before the broker, and is ready anyway.
        cls.early = cls.server("--amqp-publish-exchange", OUT, "--amqp-exchange", EARLY,
                               "--amqp-queue", EARLY, "--events-max", "100",
                               "--sensor-settle-seconds", str(SETTLE))
        cls.addClassCleanup(cls.early.remove)
        assert cls.metric(cls.early, 'tenure_amqp_connected{connection="consume"}') == 0
        cls.broker.start()

    def setUp(self):
        self.servers = []

    def tearDown(self):
        for server in self.servers:
            server.remove()
        client = Client(self.broker)
        for queue in (QUEUE, DEAD, OUT):
            client.channel.queue_delete(queue)
        client.close()

    @classmethod
    def server(cls, *flags, url=None):
        return Server(None, "--amqp-url", url or "amqp://127.0.0.1:%d" % cls.broker.port,
                      "--amqp-retry-ms", "20", "--amqp-retry-max-ms", "100", *flags)

    def serve(self, *flags, **options):
        self.servers.append(self.server(*flags, **options))
        return self.servers[-1]

    def connected(self, *flags, connection="consume", **options):
        server = self.serve(*flags, **options)
        self.await_metric(server, 'tenure_amqp_connected{connection="%s"}' % connection, 1)
        return server

    @staticmethod
    def metric(server, name):
        connection = http.client.HTTPConnection("127.0.0.1", server.http_port, timeout=PATIENCE)
        connection.request("GET", "/metrics")
        text = connection.getresponse().read().decode()
        connection.close()
        return int(re.search("^%s (.*)$" % re.escape(name), text, re.M).group(1))

    def await_metric(self, server, name, value):
        until(lambda: self.metric(server, name) == value, "%s %s" % (name, value))

    def both_connected(self, server):
        for connection in ("publish", "consume"):
            self.await_metric(server, 'tenure_amqp_connected{connection="%s"}' % connection, 1)

    def await_outcome(self, server, outcome, value):
        self.await_metric(server, 'tenure_amqp_messages_total{outcome="%s"}' % outcome, value)

    @staticmethod
    def rules(server):
        client = server.client()
        found = map(pairs, pairs(client.execute_command("RULE", "LIST"))["rules"])
        result = {rule["id"]: (rule["trigger"], bool(rule["enabled"])) for rule in found}
        client.close()
        return result

    @staticmethod
    def drained(client, queue=QUEUE):
        until(lambda: client.count(queue) == 0, "the queue is empty")

    # ---- Messages ----

    def test_the_four_events_bare_in_an_envelope_and_by_routing_key(self):
        server = self.connected()
        client = Client(self.broker)
        client.publish("rule.created", {"event_type": "RuleCreated", "rule_id": 7, "rule_ref": "a.b",
                                        "trigger_ref": "core.timer", "trigger_type": "x",
                                        "enabled": False, "trigger_params": {"deep": [{"x": 1}]}})
        client.publish("rule.created", envelope("RuleCreated", {
            "rule_id": 8, "rule_ref": "a.c", "trigger_id": 3, "trigger_ref": "core.webhook",
            "action_ref": "x.y", "enabled": True}))
        client.publish("rule.created", {"rule_ref": "named", "trigger_type": "core.mail"})
        client.publish("rule.created", {"rule_id": "9", "trigger_id": 12})
        self.await_outcome(server, "applied", 4)
        self.assertEqual(json.loads(pairs(server.client().execute_command("RULE", "INFO", "7"))["meta"]),
                         {"deep": [{"x": 1}]})
        self.assertEqual(self.rules(server), {
            "7": ("core.timer", False), "8": ("core.webhook", True), "named": ("core.mail", True),
            "9": ("12", True)})
        client.publish("rule.enabled", {"rule_id": 7})
        client.publish("rule.disabled", envelope("RuleDisabled", {"rule_id": 8}))
        client.publish("rule.disabled", {"rule_ref": "new", "trigger_ref": "core.timer"})
        client.publish("rule.deleted", {"rule_ref": "named"})
        client.publish("rule.created", {"event_type": "RuleDeleted", "rule_id": 9})
        self.await_outcome(server, "applied", 9)
        self.assertEqual(self.rules(server), {
            "7": ("core.timer", True), "8": ("core.webhook", False), "new": ("core.timer", False)})
        client.publish("rule.enabled", {"rule_id": 404})
        client.publish("rule.deleted", {"rule_id": 404, "trigger_ref": "core.timer"})
        self.await_outcome(server, "missing", 2)
        self.drained(client)
        self.assertEqual(client.count(DEAD), 0)
        client.close()

    def test_a_message_that_comes_again_has_no_second_effect(self):
        server = self.connected()
        client = Client(self.broker)
        client.publish("rule.created", {"rule_id": 1, "trigger_ref": "t"}, "m1")
        client.publish("rule.disabled", {"rule_id": 1}, "m2")
        client.publish("rule.created", {"rule_id": 1, "trigger_ref": "t"}, "m1")
        self.await_outcome(server, "duplicate", 1)
        self.assertEqual(self.rules(server), {"1": ("t", False)})
        # The id may be the envelope's.
        event = envelope("RuleEnabled", {"rule_id": 1}, message_id="m3" * 60)
        client.publish("rule.enabled", event)
        client.publish("rule.disabled", {"rule_id": 1}, "m4")
        client.publish("rule.enabled", event)
        self.await_outcome(server, "duplicate", 2)
        self.assertEqual(self.rules(server), {"1": ("t", False)})
        # An id that has said something else is somebody's mistake.
        client.publish("rule.enabled", {"rule_id": 1}, "m4")
        self.await_outcome(server, "refused", 1)
        until(lambda: client.count(DEAD) == 1, "it is kept")
        self.assertEqual(client.get(DEAD)[2], b'{"rule_id": 1}')
        self.assertEqual(self.rules(server), {"1": ("t", False)})
        client.close()

    def test_equal_messages_without_ids_are_all_meant(self):
        server = self.connected()
        client = Client(self.broker)
        client.publish("rule.created", {"rule_id": 1, "trigger_ref": "t"})
        for key in ("rule.disabled", "rule.enabled", "rule.disabled", "rule.enabled"):
            client.publish(key, {"rule_id": 1})
        self.await_outcome(server, "applied", 5)
        self.assertEqual(self.rules(server), {"1": ("t", True)})
        client.close()

    def test_a_message_that_comes_late_undoes_nothing(self):
        server = self.connected()
        client = Client(self.broker)

        def say(kind, second, rule):
            client.publish("rule.%s" % kind[4:].lower(), envelope(
                kind, {"rule_id": rule, "trigger_ref": "t"},
                timestamp="2020-03-01T00:00:%02d.5Z" % second))
        say("RuleDisabled", 20, 1)
        say("RuleCreated", 10, 1)
        say("RuleDeleted", 30, 2)  # before its beginning
        self.await_outcome(server, "missing", 1)
        self.await_outcome(server, "stale", 1)
        self.assertEqual(server.stop(9), -9)  # that is remembered
        server.start()
        say("RuleEnabled", 15, 1)
        say("RuleCreated", 29, 2)
        client.publish("rule.enabled", {"rule_id": 1}, timestamp=1000000000)  # the property's
        self.await_outcome(server, "stale", 3)
        self.assertEqual(self.rules(server), {"1": ("t", False)})
        say("RuleEnabled", 40, 1)
        say("RuleCreated", 41, 2)
        self.await_outcome(server, "applied", 2)
        self.assertEqual(self.rules(server), {"1": ("t", True), "2": ("t", True)})
        client.close()

    def test_the_order_of_messages_does_not_matter(self):
        server = self.connected()
        client = Client(self.broker)
        tale = [("RuleCreated", {"trigger_ref": "t", "enabled": False}), ("RuleEnabled", {}),
                ("RuleDisabled", {}), ("RuleEnabled", {})]
        orders = list(itertools.permutations(range(len(tale))))
        for half in (orders[:len(orders) // 2], orders[len(orders) // 2:]):
            for n, order in enumerate(half):
                for i in order:
                    kind, more = tale[i]
                    client.publish("rule.%s" % kind[4:].lower(), envelope(
                        kind, {"rule_id": "%d-%d" % (n, half[0][0]), **more},
                        timestamp="2020-03-01T00:00:%02dZ" % i))
                    if n == 0 and i == order[0]:  # what came early is remembered
                        self.drained(client)
                        server.stop(9)
                        server.start()
                        self.await_metric(server, 'tenure_amqp_connected{connection="consume"}', 1)
        until(lambda: len(self.rules(server)) == len(orders), "all rules")
        self.drained(client)
        until(lambda: set(self.rules(server).values()) == {("t", True)}, "all are enabled")
        client.close()

    def test_a_time_that_cannot_be_yet_outdates_nothing(self):
        server = self.connected()
        client = Client(self.broker)
        client.publish("rule.created", envelope(
            "RuleCreated", {"rule_id": 1, "trigger_ref": "t"}, timestamp="2999-01-01T00:00:00Z"))
        client.publish("rule.disabled", envelope(
            "RuleDisabled", {"rule_id": 1, "trigger_ref": "t"}, timestamp="2020-01-01T00:00:00Z"))
        client.publish("rule.deleted", {"rule_id": 2}, timestamp=4000000000)
        client.publish("rule.created", {"rule_id": 2, "trigger_ref": "t"}, timestamp=1500000000)
        self.await_outcome(server, "applied", 3)
        self.assertEqual(self.rules(server), {"1": ("t", False), "2": ("t", True)})
        client.close()

    def test_what_cannot_be_committed_now_is_tried_again(self):
        server = self.connected("--ops-max", "1", "--op-window-seconds", "3")
        self.assertEqual(server.stop(), 0)  # so that they come all at once, within the window
        client = Client(self.broker)
        for i in range(3):
            client.publish("rule.created", {"rule_id": i, "trigger_ref": "t"}, "m%d" % i)
            for _ in range(20):  # which are on their way to us, and wait
                client.publish("rule.enabled", {"rule_id": i})
        server.start()
        self.await_outcome(server, "applied", 63)
        retries = self.metric(server, "tenure_amqp_retries_total")
        self.assertTrue(0 < retries < 200, retries)  # by those who wait it would be a thousand
        self.assertIn("event=amqp_message_waits", text_of(server.log.name))
        self.assertEqual(self.rules(server), {str(i): ("t", True) for i in range(3)})
        self.drained(client)
        client.close()

    def test_what_cannot_be_understood_is_dead_lettered(self):
        server = self.connected()
        client = Client(self.broker)
        bad = [b"", b"\xff\xfe", b"[]", b"{", b'{"rule_id": 1}', b'{"trigger_ref": "t"}',
               b'{"rule_id": 1.5, "trigger_ref": "t"}', b'{"rule_id": {}, "trigger_ref": "t"}',
               b'{"event_type": "RuleEaten", "rule_id": 1, "trigger_ref": "t"}',
               b'{"rule_id": 1, "rule_id": 2, "trigger_ref": "t"}',
               b'{"rule_id": 1, "trigger_ref": "t", "enabled": "yes"}',
               json.dumps({"rule_id": "x" * 129, "trigger_ref": "t"}).encode(),
               json.dumps({"rule_id": 1, "trigger_ref": "t", "more": "secret" * 20000}).encode()]
        for body in bad:
            client.publish("rule.created", body)
        client.publish("rule.created", {"rule_id": 2, "trigger_ref": "t"})
        self.await_outcome(server, "applied", 1)
        self.await_outcome(server, "malformed", len(bad))
        until(lambda: client.count(DEAD) == len(bad), "all are there")
        self.assertEqual([client.get(DEAD)[2] for _ in bad], bad)
        self.assertEqual(self.rules(server), {"2": ("t", True)})
        log = text_of(server.log.name)
        self.assertEqual(log.count("event=amqp_message_rejected"), len(bad))
        self.assertNotIn("secret", log)
        client.close()

    @staticmethod
    def peak_kib(server):
        status = text_of("/proc/%d/status" % server.process.pid)
        return int(re.search(r"^VmHWM:\s+(\d+) kB$", status, re.M).group(1))

    def test_a_huge_message_is_not_kept_in_memory(self):
        server = self.connected()
        client = Client(self.broker)
        before = self.peak_kib(server)
        client.publish("rule.created", b" " * (32 << 20))
        client.publish("rule.created", {"rule_id": 2, "trigger_ref": "t"})
        self.await_outcome(server, "applied", 1)
        self.await_outcome(server, "malformed", 1)
        self.assertIn("it is too long", text_of(server.log.name))
        self.assertLess(self.peak_kib(server) - before, 16 << 10)
        client.close()

    def test_a_flood_of_garbage_fills_neither_the_log_nor_the_server(self):
        server = self.connected()
        client = Client(self.broker)
        count = 1000
        for i in range(count):
            client.publish("rule.created", b"{" * (i % 100 + 1))
        client.publish("rule.created", {"rule_id": 2, "trigger_ref": "t"})
        with server.client() as r:
            self.assertTrue(r.ping())
        self.await_outcome(server, "applied", 1)
        self.await_outcome(server, "malformed", count)
        self.assertEqual(self.rules(server), {"2": ("t", True)})

        def all_told():
            client.publish("rule.created", b"{")  # the next message that is told about has the rest
            log = text_of(server.log.name)
            told = log.count("event=amqp_message_rejected")
            return told, sum(map(int, re.findall(r"event=amqp_messages_untold more=(\d+)", log)))
        told, untold = until(lambda: all_told() if sum(all_told()) >= count else None, "all are counted")
        self.assertLess(told, untold)
        client.close()

    def test_a_rule_too_many_is_dead_lettered(self):
        server = self.connected("--rules-max", "1")
        client = Client(self.broker)
        client.publish("rule.created", {"rule_id": 1, "trigger_ref": "t"})
        client.publish("rule.created", {"rule_id": 2, "trigger_ref": "t"})
        self.await_outcome(server, "refused", 1)
        until(lambda: client.count(DEAD) == 1, "it is kept")
        client.close()

    def test_a_server_killed_before_it_answers_gets_the_message_again(self):
        server = self.connected()
        client = Client(self.broker)
        for i in range(300):
            client.publish("rule.disabled" if i % 2 else "rule.enabled",
                           {"rule_id": i % 5, "trigger_ref": "t"}, "toggle-%d" % i)
            if i in (80, 160, 240):
                server.stop(9)
                server.start()
        client.publish("rule.enabled", {"rule_id": "last", "trigger_ref": "t"})
        until(lambda: "last" in self.rules(server), "all have come, in order")
        expected = {str(i % 5): ("t", i % 2 == 0) for i in range(300)}
        self.assertEqual(self.rules(server), {**expected, "last": ("t", True)})
        self.drained(client)
        client.close()
        self.assertEqual(server.stop(), 0)
        client = Client(self.broker)
        self.assertEqual((client.count(QUEUE), client.count(DEAD)), (0, 0))
        client.close()

    # ---- Events out ----

    def test_events_are_published(self):
        client = Client(self.broker)
        client.channel.exchange_declare(OUT, "topic", durable=True)
        client.channel.queue_declare(OUT, durable=True)
        client.channel.queue_bind(OUT, OUT, "tenure.#")
        server = self.connected("--amqp-publish-exchange", OUT, connection="publish")
        redis = server.client()
        redis.execute_command("POOL", "CREATE", "p", "lo", "1", "hi", "100000")
        for i in range(1000):
            redis.execute_command("ALLOC", "p", "holder-%d" % i)
        redis.close()
        self.await_metric(server, "tenure_amqp_published_total", 1001)
        until(lambda: client.count(OUT) == 1001, "all are there")
        method, properties, body = client.get(OUT)
        self.assertEqual(method.routing_key, "tenure.pool.created")
        event = json.loads(body)
        self.assertEqual((event["kind"], event["pool"]), ("pool.created", "p"))
        self.assertEqual(properties.message_id, event["id"])
        self.assertEqual(properties.delivery_mode, 2)
        holders = []
        for _ in range(1000):
            method, _, body = client.get(OUT)
            self.assertEqual(method.routing_key, "tenure.lease.active")
            holders.append(json.loads(body)["holder"])
        self.assertEqual(holders, ["holder-%d" % i for i in range(1000)])
        client.close()

    @staticmethod
    def position(server):
        """The id of the event up to which all are known to be published."""
        with open(os.path.join(server.data, "data", "amqp.position"), "rb") as file:
            text = file.read()
        slots = [struct.unpack("<8sQQI", text[at:at + 28]) for at in (0, 512, 1024) if text[at:at + 28]]
        return "%d.%d" % max(slots, key=lambda slot: slot[1])[2:]

    def test_what_was_not_published_is_after_a_restart(self):
        client = Client(self.broker)
        client.channel.exchange_declare(OUT, "topic", durable=True)
        client.channel.queue_declare(OUT, durable=True)
        client.channel.queue_bind(OUT, OUT, "tenure.#")
        server = self.connected("--amqp-publish-exchange", OUT, connection="publish")
        with_broker = server.flags
        away = ("--amqp-url", with_broker[1] + "/elsewhere", *with_broker[2:])

        def happen(name, count):
            with server.client() as redis:
                with redis.pipeline(transaction=False) as pipeline:
                    pipeline.execute_command("POOL", "CREATE", name, "lo", "1", "hi", "100000")
                    for i in range(count):
                        pipeline.execute_command("ALLOC", name, "holder-%d" % i)
                    pipeline.execute()

        def again(signal_number, flags):
            server.stop(signal_number)
            server.flags = flags
            server.start()

        happen("before", 50)
        again(signal.SIGKILL, away)  # perhaps before they are published
        happen("away", 50)
        again(signal.SIGTERM, with_broker)
        happen("back", 500)
        again(signal.SIGKILL, with_broker)
        happen("after", 50)
        with server.client() as redis:
            kept = pairs(redis.execute_command("EVENTS", "COUNT", "1000"))["events"]
        ids = [pairs(event)["id"] for event in kept]
        self.assertEqual(len(ids), 654)
        got = []

        def all_there():
            method, properties, _ = client.get(OUT)
            if method is not None:
                got.append(properties.message_id)
            return method is None and len(set(got)) >= len(ids)
        until(all_there, "all are published")
        self.assertEqual(list(dict.fromkeys(got)), ids)  # in order, but for repetitions
        # What was confirmed is not repeated.
        until(lambda: self.position(server) == ids[-1], "the last one is confirmed")
        again(signal.SIGKILL, with_broker)
        happen("last", 1)
        with server.client() as redis:
            kept = pairs(redis.execute_command("EVENTS", "AFTER", ids[-1]))["events"]
        ids = [pairs(event)["id"] for event in kept]
        got.clear()
        until(all_there, "the last ones")
        self.assertEqual(got, ids)
        client.close()

    def test_a_damaged_position_loses_nothing(self):
        client = Client(self.broker)
        client.channel.exchange_declare(OUT, "topic", durable=True)
        client.channel.queue_declare(OUT, durable=True)
        client.channel.queue_bind(OUT, OUT, "tenure.#")
        server = self.connected("--amqp-publish-exchange", OUT, connection="publish")
        with server.client() as redis:
            redis.execute_command("POOL", "CREATE", "p", "lo", "1", "hi", "9")
        self.await_metric(server, "tenure_amqp_published_total", 1)
        server.stop()
        with open(os.path.join(server.data, "data", "amqp.position"), "wb") as file:
            file.write(b"what?")
        server.start()
        self.assertIn("event=amqp_position_damaged", text_of(server.log.name))
        self.await_metric(server, "tenure_amqp_published_total", 1)
        until(lambda: client.count(OUT) == 2, "it is there once more")
        (_, first, _), (_, second, _) = client.get(OUT), client.get(OUT)
        self.assertEqual(first.message_id, second.message_id)
        client.close()

    # ---- Connections ----

    def test_a_wrong_password_is_logged_and_tried_again(self):
        secret = os.path.join(self.tls, "password")
        with open(secret, "w", encoding="utf-8", opener=lambda p, f: os.open(p, f, 0o600)) as file:
            file.write("not-the-password\n")
        server = self.serve("--amqp-password-file", secret)
        until(lambda: self.metric(server, "tenure_amqp_failures_total") >= 2, "it is refused")
        log = text_of(server.log.name)
        self.assertIn("ACCESS_REFUSED", log)
        self.assertNotIn("not-the-password", log)
        with open("/proc/%d/cmdline" % server.process.pid, "rb") as file:
            self.assertNotIn(b"not-the-password", file.read())
        client = server.client()
        info = client.info()
        client.close()
        self.assertEqual(info["amqp_consume_connected"], 0)
        self.assertIn("ACCESS_REFUSED", info["amqp_last_error"])

    def test_a_queue_of_another_kind_is_logged_until_it_is_gone(self):
        client = Client(self.broker)
        client.channel.queue_declare(QUEUE, durable=True)
        server = self.serve()
        until(lambda: "PRECONDITION_FAILED" in text_of(server.log.name), "it is refused")
        client.channel.queue_delete(QUEUE)
        self.await_metric(server, 'tenure_amqp_connected{connection="consume"}', 1)
        # A second server waits until the first is gone: two would mix up the order.
        second = self.serve()
        until(lambda: "in exclusive use" in text_of(second.log.name), "it is refused")
        self.assertEqual(server.stop(), 0)
        self.await_metric(second, 'tenure_amqp_connected{connection="consume"}', 1)
        # And if the queue is deleted, it is made again.
        client.channel.queue_delete(QUEUE)
        until(lambda: self.metric(second, "tenure_amqp_connects_total") >= 2, "it is back")
        client.publish("rule.created", {"rule_id": 1, "trigger_ref": "t"})
        self.await_outcome(second, "applied", 1)
        client.close()

    def test_a_broker_that_says_nothing_does_not_hold_up_the_end(self):
        with socket.create_server(("127.0.0.1", 0)) as silent:
            server = self.serve("--amqp-publish-exchange", OUT,
                                url="amqp://127.0.0.1:%d" % silent.getsockname()[1])
            held = [silent.accept()[0] for _ in range(2)]
            self.assertEqual(server.stop(), 0)
            for s in held:
                s.close()

    def test_a_server_stops_while_it_looks_for_its_broker(self):
        with reserve() as nobody:
            server = self.serve("--amqp-publish-exchange", OUT, "--amqp-retry-max-ms", "20",
                                url="amqp://127.0.0.1:%d" % port_of(nobody))
            until(lambda: self.metric(server, "tenure_amqp_failures_total") >= 4, "it tries")
            self.assertEqual(server.stop(), 0, text_of(server.log.name))

    def test_a_broker_that_falls_silent_is_taken_for_gone(self):
        server = self.connected("--amqp-heartbeat-seconds", "1", "--amqp-publish-exchange", OUT)
        self.both_connected(server)
        self.broker.process.send_signal(signal.SIGSTOP)
        try:
            until(lambda: text_of(server.log.name).count("heartbeat") >= 2, "both are given up")
        finally:
            self.broker.process.send_signal(signal.SIGCONT)
        self.both_connected(server)

    def test_tls_with_certificates_of_both_sides(self):
        def file(name):
            return os.path.join(self.tls, name)
        url = "amqps://localhost:%d" % self.broker.tls_port
        ours = ("--amqp-cert-file", file("client.pem"), "--amqp-key-file", file("client.key"))
        server = self.connected("--amqp-ca-file", file("ca.pem"), *ours, url=url)
        client = Client(self.broker)
        client.publish("rule.created", {"rule_id": 1, "trigger_ref": "t"})
        self.await_outcome(server, "applied", 1)
        client.close()
        # Neither a broker that somebody else vouches for, nor one under another name.
        for flags, address in ((("--amqp-ca-file", file("other.pem"), *ours), url),
                               (("--amqp-ca-file", file("ca.pem"), *ours),
                                url.replace("localhost", "127.0.0.1")),
                               (("--amqp-ca-file", file("ca.pem")), url)):
            wrong = self.serve(*flags, url=address)
            until(lambda: self.metric(wrong, "tenure_amqp_failures_total") >= 1, "it is refused")
            self.assertEqual(self.metric(wrong, "tenure_amqp_connects_total"), 0)

    def test_mistakes_are_told_at_the_start(self):
        for flags, words in ((("--amqp-url", "amqp://u:p@host"), "password"),
                             (("--amqp-url", "http://host"), "amqp[s]://"),
                             (("--amqp-url", "amqps://host"), "amqp_ca_file"),
                             (("--amqp-url", "amqp://h", "--amqp-cert-file", "x"), "set together"),
                             (("--amqp-url", "amqp://h", "--amqp-password-file", "/nowhere"),
                              "amqp_password_file")):
            with tempfile.TemporaryDirectory(prefix="tenure-e2e-") as directory:
                done = subprocess.run(
                    [TENURED, "--data", directory, "--listen", "127.0.0.1:0", "--http", "off", *flags],
                    check=False, timeout=PATIENCE, stderr=subprocess.PIPE)
            self.assertEqual(done.returncode, 2)
            self.assertIn(words, done.stderr.decode())

    def test_a_broker_that_goes_and_comes_back_is_survived(self):
        server = self.early
        self.both_connected(server)
        connects = self.metric(server, "tenure_amqp_connects_total")
        client = Client(self.broker)
        client.channel.queue_declare(OUT, durable=True)
        client.channel.queue_bind(OUT, OUT, "tenure.#")
        steady, toggled = self.sensor(server, "steady"), self.sensor(server, "t")
        client.publish("rule.created", {"rule_id": "steady", "trigger_ref": "steady"}, "s", EARLY)
        until(steady, "the sensor runs")
        client.close()
        begun = time.monotonic()
        sent = self.toggle_while(lambda: (self.broker.stop(), self.broker.start()), 0)
        self.both_connected(server)
        self.toggle_while(lambda: (self.broker.stop(), self.make_events(server),
                                   self.broker.start()), sent)
        self.both_connected(server)
        client = Client(self.broker)
        for i in range(3):  # off first: who is on already has no event to show for it
            for word in ("disabled", "enabled"):
                client.publish("rule." + word, {"rule_id": i, "trigger_ref": "t"},
                               "last-%s-%d" % (word, i), EARLY)
        self.drained(client, EARLY)
        until(lambda: self.rules(server) == {
            **{str(i): ("t", True) for i in range(3)}, "steady": ("steady", True)}, "all are on")
        self.assertGreaterEqual(self.metric(server, "tenure_amqp_connects_total"), connects + 4)
        self.state_is(server, "t", "running")
        self.assertLessEqual(len(toggled()), (time.monotonic() - begun) / SETTLE + 1)
        # Nothing happened to the one that nobody talked about.
        self.state_is(server, "steady", "running")
        self.assertEqual(len(steady()), 1)

        def last_published():
            """The last message of the broker about each rule has the rule's final state. Too many events
            happened meanwhile to be kept, and the server reports that."""
            got = client.get(OUT)
            while got[0] is not None:
                event = json.loads(got[2])
                self.assertEqual(got[0].routing_key, "tenure." + event["kind"])
                kinds.append(event["kind"])
                if event["kind"] == "rule.set":
                    state[event["name"]] = event["number"]
                got = client.get(OUT)
            return "lost" in kinds and all(state.get(str(i)) == "1" for i in range(3))
        state, kinds = {}, []
        until(last_published, "the events are there")
        for i in range(3):
            client.publish("rule.deleted", {"rule_id": i}, "end-%d" % i, EARLY)
        self.state_is(server, "t", "stopped")
        self.assertGreaterEqual(self.metric(server, "tenure_amqp_publish_gaps_total"), 1)
        client.close()

    def toggle_while(self, restart, begin):
        """Publishes messages until the broker is down, which it soon is; returns how many there were."""
        thread = threading.Thread(target=restart)
        client = Client(self.broker)
        sent = begin
        try:
            for sent in itertools.count(begin):
                client.publish("rule.disabled" if sent % 2 else "rule.enabled",
                               {"rule_id": sent % 3, "trigger_ref": "t"}, "toggle-%d" % sent, EARLY)
                if sent == begin + 50:
                    thread.start()
        except pika.exceptions.AMQPError:
            pass  # gone; the last one may have arrived
        thread.join()
        return sent + 1

    @staticmethod
    def sensor(server, trigger):
        """Defines a sensor by the name of its trigger; returns a function for the pids of its runs so far."""
        out = os.path.join(server.data, trigger)
        client = server.local()
        client.execute_command("SENSOR", "SET", trigger, trigger, json.dumps(
            {"command": ["/bin/sh", "-c", SENSOR], "env": {"OUT": out}}))
        client.close()
        return lambda: text_of(out).split() if os.path.exists(out) else []

    @staticmethod
    def state_is(server, sensor, state):
        client = server.client()
        until(lambda: pairs(client.execute_command("SENSOR", "STATUS", sensor))["state"] == state,
              "%s is %s" % (sensor, state))
        client.close()

    @staticmethod
    def make_events(server):
        client = server.client()
        client.execute_command("POOL", "CREATE", "p", "lo", "1", "hi", "100000")
        for i in range(1000):
            client.execute_command("ALLOC", "p", "holder-%d" % i)
        client.close()


if __name__ == "__main__":
    unittest.main()
