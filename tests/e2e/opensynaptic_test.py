"""For OpenSynaptic's users: the UDP door, id_allocation.json, and the policy in Config.json."""
import json
import os
import random
import signal
import socket
import struct
import subprocess
import tempfile
import unittest

import redis

from harness import BUILD, PATIENCE, Case, Server, pairs, text_of, until
from metrics_test import samples, scrape

NO_ID = 4294967295


class Node:
    """A socket of a node. Datagrams on loopback are lost only if the server drops them, so after a
    request that must have an answer the node waits, and one that must have none is followed by one
    that has."""

    def __init__(self, server, address="127.0.0.1"):
        self.socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.socket.bind((address, 0))
        self.socket.settimeout(PATIENCE)
        self.to(server)

    def to(self, server):
        ports = text_of(os.path.join(server.data, "port")).split()
        self.server = ("127.0.0.1", int(ports[2]))
        self.socket.connect(self.server)

    def close(self):
        self.socket.close()

    def send(self, data):
        self.socket.send(data)

    def receive(self):
        return self.socket.recv(65536)

    def ask(self, data):
        self.send(data)
        return self.receive()


def one(sequence, meta, pad=0):
    text = meta if isinstance(meta, bytes) else json.dumps(meta).encode()
    return struct.pack(">BH", 1, sequence) + text.ljust(pad)


def many(sequence, count, meta, pad=None):
    text = meta if isinstance(meta, bytes) else json.dumps(meta).encode()
    return struct.pack(">BHH", 3, sequence, count) + text.ljust(4 * count if pad is None else pad)


def given(reply):
    """sequence, id, seconds of an answer to one."""
    kind, sequence, number, seconds = struct.unpack(">BHIQ", reply)
    assert kind == 2, reply
    return sequence, number, seconds


def given_many(reply):
    kind, sequence, count = struct.unpack(">BHH", reply[:5])
    assert kind == 4 and len(reply) == 5 + 4 * count, reply
    return sequence, list(struct.unpack(">%dI" % count, reply[5:]))


def failed(reply):
    kind, sequence = struct.unpack(">BH", reply[:3])
    assert kind == 6, reply
    return sequence, reply[3:].decode()


DOOR = ("--udp-listen", "127.0.0.1:0", "--udp-pool", "devices", "--udp-rate", "0")


class Door(Case):
    flags = DOOR

    def setUp(self):
        self.do("POOL", "CREATE", "devices", "RANGE", 1, 1000, "STICKY", "yes")
        self.node = Node(self.server)

    def tearDown(self):
        self.node.close()
        for lease in self.leases():
            self.do("RELEASE", lease["lease"], lease["holder"], lease["epoch"], "NOW")
        self.do("POOL", "DROP", "devices")

    def leases(self):
        found, cursor = [], None
        while cursor != "0":
            page = pairs(self.do("LEASES", "POOL", "devices", "CURSOR", cursor or 0))
            found += [pairs(lease) for lease in page["leases"]]
            cursor = str(page["cursor"])
        return found

    def counted(self, outcome):
        return samples(scrape(self.server))[
            ("tenure_server_udp_datagrams_total", (("outcome", outcome),))]

    def test_a_node_gets_an_id_and_the_time(self):
        sequence, number, seconds = given(self.node.ask(one(7, {"mac": "AA:BB:CC:DD:EE:01"})))
        self.assertEqual((sequence, number), (7, 1))
        self.assertLess(abs(seconds - int(self.do("TIME")[0])), PATIENCE)
        lease = pairs(self.do("LEASE", "devices/1"))
        self.assertEqual(lease["holder"], "mac:AA:BB:CC:DD:EE:01")
        self.assertEqual(json.loads(lease["meta"]), {"mac": "AA:BB:CC:DD:EE:01"})
        self.assertEqual(given(self.node.ask(one(8, {"mac": "AA:BB:CC:DD:EE:02"})))[1], 2)

    def test_a_resent_request_has_no_second_effect(self):
        first = given(self.node.ask(one(1, {"serial": "S-000001"})))
        lease = pairs(self.do("LEASE", "devices/%d" % first[1]))
        for _ in range(5):
            self.assertEqual(given(self.node.ask(one(1, {"serial": "S-000001"})))[:2], first[:2])
        again = pairs(self.do("LEASE", "devices/%d" % first[1]))
        self.assertEqual((again["epoch"], again["deadline"]), (lease["epoch"], lease["deadline"]))
        # Another sequence is another request: a return, with a new epoch.
        self.assertEqual(given(self.node.ask(one(2, {"serial": "S-000001"})))[1], first[1])
        self.assertEqual(int(pairs(self.do("LEASE", "devices/%d" % first[1]))["epoch"]), 2)

    def test_requests_sent_at_once_and_twice_all_have_their_answers(self):
        asked = [one(i, {"serial": "S-%06d" % i}) for i in range(50)]
        for data in asked + asked:
            self.node.send(data)
        answers = [given(self.node.receive())[:2] for _ in range(100)]
        self.assertEqual(len(set(answers)), 50)
        self.assertEqual({number for _, number in answers}, set(range(1, 51)))

    def test_an_answer_that_is_out_of_date_is_not_repeated(self):
        data = one(1, {"serial": "S-000001"})
        number = given(self.node.ask(data))[1]
        lease = pairs(self.do("LEASE", "devices/%d" % number))
        self.do("RELEASE", lease["lease"], lease["holder"], lease["epoch"], "NOW")
        other = pairs(self.do("ALLOC", "devices", "somebody-else"))
        self.assertEqual(other["values"], [str(number)])
        self.assertEqual(given(self.node.ask(data))[1], number + 1)

    def test_a_node_that_was_released_is_active_again_by_the_same_datagram(self):
        data = one(1, {"serial": "S-000001"})
        number = given(self.node.ask(data))[1]
        lease = pairs(self.do("LEASE", "devices/%d" % number))
        self.do("RELEASE", lease["lease"], lease["holder"], lease["epoch"])
        self.assertEqual(given(self.node.ask(data))[1], number)
        self.assertEqual(pairs(self.do("LEASE", "devices/%d" % number))["state"], "active")

    def test_many_ids_can_be_released_one_by_one(self):
        sequence, numbers = given_many(self.node.ask(many(3, 256, {"device_id": "gateway"})))
        self.assertEqual((sequence, numbers), (3, list(range(1, 257))))
        lease = pairs(self.do("LEASE", "devices/11"))
        self.assertEqual(lease["holder"], "device_id:gateway#10")
        self.do("RELEASE", lease["lease"], lease["holder"], lease["epoch"], "NOW")
        self.refused("NOTFOUND", "LEASE", "devices/11")
        self.assertEqual(len(self.leases()), 255)
        # The same again, and the same as another request: what is held is returned.
        self.assertEqual(given_many(self.node.ask(many(3, 256, {"device_id": "gateway"})))[1],
                         numbers)
        self.assertEqual(given_many(self.node.ask(many(4, 256, {"device_id": "gateway"})))[1],
                         numbers)

    def test_exhaustion_is_told_and_many_ids_come_whole_or_not_at_all(self):
        self.do("POOL", "ALTER", "devices", "RANGE", 1, 3)
        self.assertEqual(given(self.node.ask(one(1, {"serial": "S-000001"})))[1], 1)
        self.assertEqual(failed(self.node.ask(many(2, 3, {"serial": "S-000002"}))),
                         (2, "ID_POOL_EXHAUSTED"))
        self.assertEqual([lease["values"] for lease in self.leases()], [["1"]])
        # A refusal is not kept: the same datagram is served as soon as it can be.
        data = many(2, 3, {"serial": "S-000002"})
        self.assertEqual(failed(self.node.ask(data))[1], "ID_POOL_EXHAUSTED")
        lease = self.leases()[0]
        self.do("RELEASE", lease["lease"], lease["holder"], lease["epoch"], "NOW")
        self.assertEqual(sorted(given_many(self.node.ask(data))[1]), [1, 2, 3])
        self.assertEqual(failed(self.node.ask(one(9, {"serial": "S-000009"}))),
                         (9, "ID_POOL_EXHAUSTED"))

    def test_ids_given_before_are_not_taken_away_by_a_failure(self):
        self.do("POOL", "ALTER", "devices", "RANGE", 1, 3)
        data = many(1, 3, {"serial": "S-000001"})
        self.assertEqual(given_many(self.node.ask(data))[1], [1, 2, 3])
        lease = pairs(self.do("LEASE", "devices/2"))
        self.do("RELEASE", lease["lease"], lease["holder"], lease["epoch"], "NOW")
        self.do("ALLOC", "devices", "somebody-else")
        self.assertEqual(failed(self.node.ask(data))[1], "ID_POOL_EXHAUSTED")
        self.assertEqual(sorted(lease["values"][0] for lease in self.leases()), ["1", "2", "3"])

    def test_bad_requests_are_explained_as_far_as_they_are_long(self):
        for data, reason in (
                (one(5, b"{broken" + b" " * 90), "BAD_REQUEST: "),
                (one(5, b"[1, 2]" + b" " * 90), "BAD_REQUEST: "),
                (one(5, {"ip_address": "192.168.1.100" + "0" * 200}), "BAD_REQUEST: "),
                (one(5, {"serial": "S", "more": "x" * 5000}), "BAD_REQUEST: metadata"),
                (many(5, 0, {"serial": "S"}, 100), "BAD_REQUEST: the count"),
                (many(5, 257, {"serial": "S"}, 2000), "BAD_REQUEST: the count"),
                (many(5, 2, {"device_key": "k" * 127}, 300), "BAD_REQUEST: the key"),
                (struct.pack(">BHB", 3, 5, 0) + b"", None),
                (one(5, b"{broken}       "), "BAD_REQUEST")):
            with self.subTest(data=data[:40]):
                if reason is None:
                    before = self.counted("short")
                    self.node.send(data)
                    until(lambda: self.counted("short") == before + 1, "it is dropped")
                else:
                    sequence, text = failed(self.node.ask(data))
                    self.assertEqual(sequence, 5)
                    self.assertTrue(text.startswith(reason), text)
                    self.assertLessEqual(3 + len(text), len(data))
        self.assertEqual(self.leases(), [])

    def test_what_is_no_request_gets_no_answer(self):
        before = self.counted("malformed")
        for data in (b"\x01", b"\x01\x00", b"\x02\x00\x01" + b"x" * 20, b"\x04\x00\x01\x00\x00",
                     b"\x06\x00\x01ID_POOL_EXHAUSTED", b"\xff" * 100, b"\x00\x00\x01{}"):
            self.node.send(data)
        self.assertEqual(given(self.node.ask(one(1, {"serial": "S-000001"})))[:2], (1, 1))
        until(lambda: self.counted("malformed") == before + 7, "they are counted")

    def test_a_request_shorter_than_its_reply_is_dropped(self):
        before = self.counted("short")
        self.node.send(one(1, {"mac": 1}))                      # 3 + 10 < 15
        self.node.send(many(2, 20, {"serial": "S-000001"}, 0))  # 5 + 22 < 85
        self.assertEqual(given_many(self.node.ask(many(3, 5, {"serial": "S-000001"})))[0], 3)
        until(lambda: self.counted("short") == before + 2, "they are counted")
        self.assertEqual(len(self.leases()), 5)

    def test_a_pool_that_does_not_serve_is_refused(self):
        self.do("POOL", "DROP", "devices")
        self.assertEqual(failed(self.node.ask(one(1, {"serial": "S-000001"}, 99))),
                         (1, "POOL_NOTFOUND"))
        for options in (("RANGE", 1, 10), ("RANGE", 1, NO_ID, "STICKY", "yes"), ("SET",)):
            self.do("POOL", "CREATE", "devices", *options)
            text = failed(self.node.ask(one(1, {"serial": "S-000001"}, 99)))[1]
            self.assertTrue(text.startswith("BAD_POOL: the pool"), text)
            self.do("POOL", "DROP", "devices")
        self.do("POOL", "CREATE", "devices", "RANGE", 1, 10, "STICKY", "yes")

    def test_any_bytes_leave_it_standing(self):
        generator = random.Random(1)
        for _ in range(2000):
            data = bytearray(one(1, {"serial": "S-000001", "n": generator.randrange(99)}))
            for _ in range(generator.randrange(1, 6)):
                data[generator.randrange(len(data))] = generator.randrange(256)
            self.node.send(bytes(data[:generator.randrange(len(data) + 1)]))
            self.node.send(generator.randbytes(generator.randrange(80)))
        asked = one(0xfffe, {"serial": "S-after", "pad": "x" * 50})
        self.node.socket.settimeout(0.2)

        def answered():
            self.node.send(asked)
            try:
                while True:
                    if self.node.receive()[:3] == b"\x02\xff\xfe":
                        return True
            except socket.timeout:
                return False
        until(answered, "an answer")


class Strict(unittest.TestCase):
    """Doors with other settings."""

    def serve(self, *flags):
        server = Server(None, *flags)
        self.addCleanup(server.remove)
        client = server.client()
        self.addCleanup(client.close)
        client.execute_command("POOL", "CREATE", "devices", "RANGE", 1, 1000, "STICKY", "yes")
        return server

    def test_each_source_has_its_own_rate(self):
        server = self.serve(*DOOR[:4], "--udp-rate", "1", "--udp-burst", "3")
        eager, calm = Node(server), Node(server, "127.0.0.9")
        self.addCleanup(eager.close)
        self.addCleanup(calm.close)

        def limited():
            return samples(scrape(server))[
                ("tenure_server_udp_datagrams_total", (("outcome", "limited"),))]
        for i in range(100):
            eager.send(one(i, {"serial": "S-%06d" % i}))
        until(lambda: limited() >= 50, "most of them are dropped")
        self.assertEqual(given(calm.ask(one(1, {"serial": "T-000001"})))[0], 1)
        self.assertEqual(given(eager.receive())[:2], (0, 1))

    def test_a_listed_source_may_get_more_than_it_sent(self):
        server = self.serve(*DOOR, "--udp-allow", "10.0.0.0/8, 127.0.0.8/31")
        listed, other = Node(server, "127.0.0.9"), Node(server, "127.0.0.10")
        self.addCleanup(listed.close)
        self.addCleanup(other.close)
        short = many(1, 100, {"serial": "S-000001"}, 0)
        self.assertEqual(len(given_many(listed.ask(short))[1]), 100)
        other.send(short)
        self.assertEqual(given(other.ask(one(2, {"serial": "T-000001"})))[0], 2)
        self.assertTrue(failed(listed.ask(one(3, b"{")))[1].startswith("BAD_REQUEST: "))

    def test_a_resend_after_a_crash_gets_the_same_ids(self):
        server = self.serve(*DOOR)
        node = Node(server)
        self.addCleanup(node.close)
        asked = [one(i, {"serial": "S-%06d" % i}) for i in range(20)]
        asked.append(many(99, 10, {"serial": "gateway"}))
        answers = [node.ask(data) for data in asked]
        epochs = {}
        with server.client() as client:
            for value in range(1, 31):
                epochs[value] = pairs(client.execute_command("LEASE", "devices/%d" % value))["epoch"]
        server.stop(signal.SIGKILL)
        server.start()
        node.to(server)
        for data, answer in zip(asked, answers):
            self.assertEqual(node.ask(data)[:7], answer[:7])
        with server.client() as client:
            for value, epoch in epochs.items():
                self.assertEqual(
                    pairs(client.execute_command("LEASE", "devices/%d" % value))["epoch"], epoch)

    def test_requests_killed_on_their_way_end_with_one_id_each(self):
        server = self.serve(*DOOR)
        node = Node(server)
        self.addCleanup(node.close)
        asked = [one(i, {"serial": "S-%06d" % i}) for i in range(40)]
        asked.append(many(99, 50, {"serial": "gateway"}))
        for data in asked:
            node.send(data)
        server.stop(signal.SIGKILL)
        server.start()
        late = Node(server)  # what was sent before has another socket to come to
        self.addCleanup(late.close)
        numbers = [given(late.ask(data))[1] for data in asked[:-1]]
        numbers += given_many(late.ask(asked[-1]))[1]
        self.assertEqual(len(set(numbers)), 90)
        with server.client() as client:
            info = pairs(client.execute_command("POOL", "INFO", "devices"))
        self.assertEqual(int(info["active"]), 90)

    def test_settings_that_make_no_sense_are_refused_at_the_start(self):
        directory = tempfile.mkdtemp(prefix="tenure-e2e-")
        self.addCleanup(lambda: subprocess.run(["rm", "-r", directory], check=True))
        for flags, reason in (
                (("--udp-listen", "127.0.0.1:0"), "udp_pool must name the pool"),
                (("--udp-listen", "0.0.0.0:0", "--udp-pool", "p"), "only loopback addresses"),
                (("--udp-allow", "10.0.0.0/33"), "is not an address"),
                (("--udp-allow", "example"), "is not an address"),
                (("--udp-burst", "0"), "is not a number from 1")):
            done = subprocess.run(
                [os.path.join(BUILD, "tenured"), "--data", os.path.join(directory, "data"),
                 "--listen", "127.0.0.1:0", "--http", "off", *flags],
                stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, timeout=PATIENCE, check=False)
            self.assertEqual(done.returncode, 2, done.stderr)
            self.assertIn(reason, done.stderr.decode())


if __name__ == "__main__":
    unittest.main()
