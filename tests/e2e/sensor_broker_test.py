#!/usr/bin/env python3
"""Rules that a real RabbitMQ toggles while it is restarted twice: the sensors keep running meanwhile, in
the end those run that the last message wanted, and none was started more than once in a settle window.
The numbers are small here; the campaign makes them large."""
import os
import random
import re
import time
import unittest

from broker import Broker, Client
from harness import until
from sensors import SensorCase, metrics

SENSORS = int(os.environ.get("SENSOR_TEST_SENSORS", "10"))
TOGGLES = int(os.environ.get("SENSOR_TEST_TOGGLES", "200"))
SEED = int(os.environ.get("SENSOR_TEST_SEED", random.randrange(1 << 30)))
SETTLE = 0.1


class Toggled(SensorCase):
    def setUp(self):
        self.broker = Broker()
        self.addCleanup(self.broker.remove)
        self.broker.start()
        self.flags = ("--amqp-url", "amqp://127.0.0.1:%d" % self.broker.port, "--amqp-retry-ms", "20",
                      "--amqp-retry-max-ms", "100")
        super().setUp()
        self.sent = 0

    def consuming(self):
        until(lambda: 'tenure_amqp_connected{connection="consume"} 1' in metrics(self.server),
              "the server listens to the broker")

    def say(self, client, ref, wanted):
        """With a unique id, so that a second delivery is recognized."""
        self.sent += 1
        client.publish("rule.enabled" if wanted else "rule.disabled",
                       {"rule_ref": "rule." + ref, "trigger_ref": ref + ".trigger",
                        "enabled": wanted}, "m%d" % self.sent)

    def all_heard(self):
        """Each has had its effect; a redelivery when the broker is back has none."""
        counts = re.findall(r'^tenure_amqp_messages_total\{outcome="(\w+)"\} (\d+)$',
                            metrics(self.server), re.M)
        return sum(int(count) for outcome, count in counts if outcome != "duplicate") == self.sent

    def test_toggles_while_the_broker_restarts_twice(self):
        order = random.Random(SEED)
        refs = [self.sensor("s%d" % i, settle_seconds=SETTLE) for i in range(SENSORS)]
        wanted = dict.fromkeys(refs, False)
        self.consuming()
        began = time.monotonic()
        for part in range(3):
            client = Client(self.broker)
            for _ in range(TOGGLES // 3):
                ref = order.choice(refs)
                wanted[ref] = not wanted[ref]
                self.say(client, ref, wanted[ref])
            client.close()
            if part < 2:
                until(self.all_heard, "nothing is left for later")
                self.broker.stop()
                before = self.settled(refs)
                self.broker.start()
                self.consuming()
                self.assertEqual(self.settled(refs), before, "they keep running without it")
        client = Client(self.broker)  # whatever the random ones left: the last word for each
        for ref in refs:
            self.say(client, ref, wanted[ref])
        client.close()
        until(self.all_heard, "nothing is left for later")
        for ref in refs:
            self.reaches(ref, "running" if wanted[ref] else "stopped")
        until(lambda: sorted(self.ours()) == sorted(filter(None, self.settled(refs).values())),
              "one process each, seed %d" % SEED)
        self.assertEqual({ref: bool(pid) for ref, pid in self.settled(refs).items()}, wanted, SEED)
        starts = [self.status(ref)["starts"] for ref in refs]
        self.assertLessEqual(max(starts), (time.monotonic() - began) / SETTLE + 1)

    def settled(self, refs):
        """The pids of the running sensors, once nothing is in flight."""
        def still():
            status = [self.status(ref) for ref in refs]
            return all(one["state"] in ("stopped", "running") and
                       (one["state"] == "running") == bool(one["wanted"]) for one in status)
        until(still, "nothing is under way")
        return {ref: self.status(ref).get("pid") for ref in refs}


if __name__ == "__main__":
    unittest.main()
