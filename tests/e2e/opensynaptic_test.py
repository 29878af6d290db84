# tsan
"""For OpenSynaptic's users: the UDP listener, id_allocation.json, and the policy in Config.json."""
import json
import os
import random
import signal
import socket
import struct
import subprocess
import tempfile
import unittest

from harness import BUILD, PATIENCE, Case, Server, pairs, text_of, until
from metrics_test import samples, scrape
from resp import Resp

NO_ID = 4294967295


class Node:
    """A socket of a node. Datagrams on loopback are lost only if the server drops them, so after a
    request that must have an answer the node waits, and one that must have none is followed by one
    that has."""

    def __init__(self, server, address="127.0.0.1", host="127.0.0.1"):
        self.host = host
        self.socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.socket.bind((address, 0))
        self.socket.settimeout(PATIENCE)
        self.to(server)

    def to(self, server):
        ports = text_of(os.path.join(server.data, "port")).split()
        self.server = (self.host, int(ports[2]))
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
        self.assertEqual(lease["holder"], "mac:aa:bb:cc:dd:ee:01")
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

    def test_many_ids_are_one_lease_as_in_python(self):
        sequence, numbers = given_many(self.node.ask(many(3, 256, {"device_id": "gateway"})))
        self.assertEqual((sequence, numbers), (3, list(range(1, 257))))
        lease = pairs(self.do("LEASE", "devices/11"))
        self.assertEqual((lease["holder"], len(lease["values"])), ("device_id:gateway#x256", 256))
        self.assertEqual(len(self.leases()), 1)
        # The same again, and the same as another request: what is held is returned.
        for again in (3, 4):
            self.assertEqual(given_many(self.node.ask(many(again, 256, {"device_id": "gateway"})))[1],
                             numbers)
        self.assertEqual(given_many(self.node.ask(many(5, 1, {"device_id": "gateway"})))[1], [257])
        self.assertEqual(given(self.node.ask(one(6, {"device_id": "gateway"})))[1], 258)
        rate = pairs(self.do("POOL", "METRICS", "devices"))["new_device_rate_per_hour"]
        self.assertEqual(float(rate), 3)  # one device for each lease
        self.assertEqual(given_many(self.node.ask(many(7, 2, {"device_key": "k" * 127}, 300)))[1],
                         [259, 260])
        self.assertRegex(pairs(self.do("LEASE", "devices/259"))["holder"],
                         "^device_key:[0-9a-f]{64}#x2$")

    def test_exhaustion_is_told_and_many_ids_come_whole_or_not_at_all(self):
        self.do("POOL", "ALTER", "devices", "RANGE", 1, 3)
        self.assertEqual(given(self.node.ask(one(1, {"serial": "S-000001"})))[1], 1)
        self.assertEqual(failed(self.node.ask(many(2, 3, {"serial": "S-000002"}))),
                         (2, "ID_POOL_EXHAUSTED"))
        self.assertEqual([lease["values"] for lease in self.leases()], [["1"]])
        # Nor does it count as new devices, however often it is repeated.
        rate = pairs(self.do("POOL", "METRICS", "devices"))["new_device_rate_per_hour"]
        for sequence in range(10, 15):
            failed(self.node.ask(many(sequence, 3, {"serial": "S-000002"})))
        self.assertEqual(pairs(self.do("POOL", "METRICS", "devices"))["new_device_rate_per_hour"], rate)
        # A refusal is not kept: the same datagram is served as soon as it can be.
        data = many(2, 3, {"serial": "S-000002"})
        self.assertEqual(failed(self.node.ask(data))[1], "ID_POOL_EXHAUSTED")
        lease = self.leases()[0]
        self.do("RELEASE", lease["lease"], lease["holder"], lease["epoch"], "NOW")
        self.assertEqual(sorted(given_many(self.node.ask(data))[1]), [1, 2, 3])
        self.assertEqual(failed(self.node.ask(one(9, {"serial": "S-000009"}))),
                         (9, "ID_POOL_EXHAUSTED"))

    def test_bad_requests_are_explained_as_far_as_they_are_long(self):
        for data, reason in (
                (one(5, b"{broken" + b" " * 90), "BAD_REQUEST: "),
                (one(5, b"[1, 2]" + b" " * 90), "BAD_REQUEST: "),
                (one(5, {"ip_address": "192.168.1.100" + "0" * 200}), "BAD_REQUEST: "),
                (one(5, {"serial": "S", "more": "x" * 5000}), "BAD_REQUEST: metadata"),
                (many(5, 0, {"serial": "S"}, 100), "BAD_REQUEST: the count"),
                (many(5, 257, {"serial": "S"}, 2000), "BAD_REQUEST: the count"),
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
        self.assertEqual(len(self.leases()), 1)

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
    """Listeners with other settings."""

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

    def test_beyond_loopback_only_listed_sources_are_served(self):
        server = self.serve("--udp-listen", "0.0.0.0:0", *DOOR[2:], "--udp-allow", "127.0.0.1")
        listed, other = Node(server, "127.0.0.1"), Node(server, "127.0.0.2")
        self.addCleanup(listed.close)
        self.addCleanup(other.close)

        def unlisted():
            return samples(scrape(server))[
                ("tenure_server_udp_datagrams_total", (("outcome", "unlisted"),))]
        other.send(one(1, {"serial": "T-000001"}))
        other.send(b"\x09")  # also what is no request
        until(lambda: unlisted() == 2, "both are dropped and counted")
        self.assertEqual(given(listed.ask(one(2, {"serial": "S-000001"})))[:2], (2, 1))
        self.assertEqual(unlisted(), 2)
        with server.client() as client:
            info = pairs(client.execute_command("POOL", "INFO", "devices"))
        self.assertEqual(int(info["active"]), 1)

    def test_a_list_on_loopback_keeps_nobody_out(self):
        server = self.serve("--udp-listen", "127.0.0.2:0", *DOOR[2:], "--udp-allow", "10.0.0.0/8")
        node = Node(server, "127.0.0.3", "127.0.0.2")
        self.addCleanup(node.close)
        self.assertEqual(given(node.ask(one(3, {"serial": "S-000001"})))[:2], (3, 1))

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

    def test_more_than_can_be_under_way_is_answered_when_sent_again(self):
        """More ids at once than the server has writes under way; lost datagrams are sent again."""
        server = self.serve(*DOOR, "--udp-allow", "127.0.0.0/8")
        with server.client() as client:
            client.execute_command("POOL", "ALTER", "devices", "RANGE", 1, 100000)
        node = Node(server)
        self.addCleanup(node.close)
        missing = {i: many(i, 256, {"serial": "gateway-%d" % i}, 0) for i in range(100)}
        found = {}
        node.socket.settimeout(1)

        def all_answered():
            for data in missing.values():
                node.send(data)
            try:
                while missing:
                    reply = node.receive()
                    if reply[0] == 6:
                        self.assertEqual(failed(reply)[1], "OVERLOADED")
                        continue
                    sequence, numbers = given_many(reply)
                    self.assertEqual(found.setdefault(sequence, numbers), numbers)
                    missing.pop(sequence, None)
            except socket.timeout:
                pass
            return not missing
        until(all_answered, "all answers")
        self.assertEqual(len({number for numbers in found.values() for number in numbers}), 25600)
        with server.client() as client:
            info = pairs(client.execute_command("POOL", "INFO", "devices"))
        self.assertEqual((int(info["active"]), int(info["offline"])), (25600, 0))

    def test_a_server_that_stops_answers_what_it_has_taken_or_nothing(self):
        server = self.serve(*DOOR)
        node = Node(server)
        self.addCleanup(node.close)
        self.assertEqual(given(node.ask(one(0, {"serial": "S-000000"})))[1], 1)
        for i in range(1, 200):
            node.send(one(i, {"serial": "S-%06d" % i}))
        self.assertEqual(server.stop(), 0)
        node.socket.settimeout(0.2)
        answered = {0: 1}
        try:
            while True:
                sequence, number, _ = given(node.receive())
                answered[sequence] = number
        except (socket.timeout, ConnectionRefusedError):
            pass
        server.start()
        with server.client() as client:
            for sequence, number in answered.items():
                lease = pairs(client.execute_command("LEASE", "devices/%d" % number))
                self.assertEqual(lease["holder"], "serial:S-%06d" % sequence)

    def test_its_pool_may_be_a_scope(self):
        server = Server()
        self.addCleanup(server.remove)
        with server.client() as client:
            client.execute_command("POOL", "CREATE", "sites", "RANGE", 1, 9, "STICKY", "yes", "SCOPED",
                                   "yes")
            client.execute_command("ALLOC", "sites@hw1", "serial:S-000001")
        server.stop()
        server.flags = (*server.flags, *DOOR[:2], "--udp-pool", "sites@hw1")
        server.start()
        node = Node(server)
        self.addCleanup(node.close)
        self.assertEqual(given(node.ask(one(7, {"serial": "S-000001"})))[:2], (7, 1))
        self.assertEqual(given(node.ask(one(8, {"serial": "S-000002"})))[:2], (8, 2))

    def test_it_listens_on_the_other_loopback_address(self):
        try:
            with socket.socket(socket.AF_INET6, socket.SOCK_DGRAM) as probe:
                probe.bind(("::1", 0))
        except OSError:
            self.skipTest("there is no IPv6 here")
        server = self.serve("--udp-listen", "[::1]:0", *DOOR[2:])
        port = int(text_of(os.path.join(server.data, "port")).split()[2])
        with socket.socket(socket.AF_INET6, socket.SOCK_DGRAM) as node:
            node.settimeout(PATIENCE)
            node.sendto(one(9, {"serial": "S-000001"}), ("::1", port))
            self.assertEqual(given(node.recv(100))[:2], (9, 1))

    def test_settings_that_make_no_sense_are_refused_at_the_start(self):
        directory = tempfile.mkdtemp(prefix="tenure-e2e-")
        self.addCleanup(lambda: subprocess.run(["rm", "-r", directory], check=True))
        for flags, reason in (
                (("--udp-listen", "127.0.0.1:0"), "udp_pool must name the pool"),
                (("--udp-listen", "0.0.0.0:0", "--udp-pool", "p"), "beyond loopback, the UDP listener needs udp_allow"),
                (("--udp-listen", "[::]:0", "--udp-pool", "p", "--udp-allow", " , "),
                 "beyond loopback, the UDP listener needs udp_allow"),
                (("--udp-allow", "10.0.0.0/33"), "is not an address"),
                (("--udp-allow", "example"), "is not an address"),
                (("--udp-burst", "0"), "is not a number from 1")):
            done = subprocess.run(
                [os.path.join(BUILD, "tenured"), "--data", os.path.join(directory, "data"),
                 "--listen", "127.0.0.1:0", "--http", "off", *flags],
                stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, timeout=PATIENCE, check=False)
            self.assertEqual(done.returncode, 2, done.stderr)
            self.assertIn(reason, done.stderr.decode())


TENURE = os.path.abspath(os.path.join(BUILD, "tenure"))
GUIDE = os.path.join(os.path.dirname(__file__), "..", "..", "docs", "migration", "opensynaptic.md")

POLICY = {
    "offline_hold_days": 30, "base_lease_seconds": 2592000, "min_lease_seconds": 0,
    "rate_window_seconds": 3600, "high_rate_threshold_per_hour": 60.0,
    "ultra_rate_threshold_per_hour": 180.0, "ultra_rate_sustain_seconds": 600,
    "high_rate_min_factor": 0.2, "adaptive_enabled": True, "ultra_force_release": True,
    "metrics_emit_interval_seconds": 5}

METRICS = {
    "base_lease_seconds": int, "effective_lease_seconds": int, "new_device_rate_per_hour": float,
    "ultra_rate_active": bool, "force_zero_lease_active": bool, "last_reclaim_count": int,
    "last_reclaim_at": int, "total_reclaimed": int, "allocated_count": int, "released_count": int,
    "updated_at": int}


def effective(policy, rate, sustained):
    """The original's formula, as it is documented."""
    base = policy["base_lease_seconds"]
    if not policy["adaptive_enabled"]:
        return base
    if rate >= policy["ultra_rate_threshold_per_hour"] and sustained:
        return 0
    if rate <= policy["high_rate_threshold_per_hour"]:
        return base
    factor = policy["high_rate_threshold_per_hour"] / rate
    factor = max(policy["high_rate_min_factor"], min(1.0, factor))
    return max(policy["min_lease_seconds"], int(base * factor))


class Files(Case):
    def setUp(self):
        self.directory = tempfile.TemporaryDirectory(prefix="tenure-e2e-")
        self.addCleanup(self.directory.cleanup)
        self.now = int(self.do("TIME")[0])
        self.pool = "p%d" % random.randrange(1 << 60)

    def tenure(self, *words, code=0):
        done = subprocess.run(
            [TENURE, *words], cwd=self.directory.name, timeout=PATIENCE, check=False,
            env={**os.environ, "TENURE_PORT": str(self.server.port)},
            stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self.assertEqual(done.returncode, code, (words, done.stdout, done.stderr))
        return done.stdout.decode(), done.stderr.decode()

    def file(self, name, content):
        path = os.path.join(self.directory.name, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w", encoding="utf-8") as file:
            json.dump(content, file, indent=2)
        return path

    def policy(self, lease, *words, code=0):
        path = self.file("Config.json", {"name": "node", "security_settings": {"id_lease": lease}})
        return self.tenure("opensynaptic", "policy", path, "--pool", self.pool, *words, code=code)

    def options(self):
        return pairs(pairs(self.do("POOL", "INFO", self.pool))["options"])

    def entry(self, number, **fields):
        entry = {"meta": {"device_id": "DEV%d" % number, "tags": ["a b", {"\u00e4": "\\\"q\" "}]},
                 "ts": self.now - 1000, "last_seen": self.now - 500,
                 "lease_expires_at": self.now + 86400, "device_key": "device_id:DEV%d" % number,
                 "state": "active", "offline_since": 0}
        entry.update(fields)
        return {key: value for key, value in entry.items() if value is not KeyError}

    def allocation(self, allocated, released=(), following=1, **more):
        return {"allocated": allocated, "released": list(released), "next_candidate": following,
                "lease_metrics": {"total_reclaimed": 0}, **more}

    def take(self, content, *words, code=0):
        path = self.file("data/id_allocation.json", content)
        return self.tenure("opensynaptic", "import", path, "--pool", self.pool, *words, code=code)

    def export(self):
        return json.loads(self.tenure("opensynaptic", "export", "--pool", self.pool)[0])

    def test_a_file_comes_back_as_it_was(self):
        self.policy(POLICY)
        allocated = {}
        for number in range(1, 1500, 2):
            entry = self.entry(number, ts=self.now - 5000 + number)
            entry["last_seen"] = entry["ts"] + number % 7
            entry["lease_expires_at"] = self.now + 1000 + number
            if number % 3 == 0:
                entry.update(state="offline", offline_since=entry["last_seen"] + number % 5)
            allocated[str(number)] = entry
        content = self.allocation(allocated, range(2, 1500, 2), 1500)
        content["lease_metrics"]["total_reclaimed"] = 847
        out, notes = self.take(content)
        self.assertEqual(out, "750 rows: 750 imported, 0 already present\n")
        self.assertEqual(notes, "")
        back = self.export()
        self.assertEqual(back["allocated"], allocated)
        self.assertEqual(list(back["allocated"]), sorted(allocated, key=int))
        self.assertEqual(back["released"], content["released"])
        self.assertEqual(back["next_candidate"], 1500)
        self.assertEqual(back["lease_metrics"]["total_reclaimed"], 847)
        # It can be repeated, and moved on to another pool.
        self.assertEqual(self.take(content)[0], "750 rows: 0 imported, 750 already present\n")
        first, self.pool = self.pool, self.pool + "-b"
        self.policy(POLICY)
        self.take(back)
        again = self.export()
        for one in (back, again):
            one["lease_metrics"].pop("updated_at")
        self.assertEqual(again, back)
        self.assertNotEqual(first, self.pool)
        # Imports are not newcomers, and what is free is given lowest first.
        metrics = pairs(self.do("POOL", "METRICS", self.pool))
        self.assertEqual(float(metrics["new_device_rate_per_hour"]), 0)
        self.assertEqual(int(metrics["released_count"]), 749)
        self.assertEqual(pairs(self.do("ALLOC", self.pool, "new"))["values"], ["2"])
        self.assertEqual(pairs(self.do("ALLOC", self.pool, "device_id:DEV7"))["values"], ["7"])

    def test_an_empty_pool_is_a_file_too(self):
        self.policy(POLICY)
        back = self.export()
        self.assertEqual((back["allocated"], back["released"], back["next_candidate"]), ({}, [], 1))
        self.take(back)

    def test_every_bad_entry_is_explained_and_changes_nothing(self):
        self.policy(POLICY, "--range", "1-100")
        future = self.now + 5000
        bad = {
            "2": (self.entry(2, lease_expires_at=self.now - 60), "BAD_TTL: its lease ended 6"),
            "3": (self.entry(1), "CONFLICT: the device already has id 1; this one stays free"),
            "0": (self.entry(4), "BAD_VALUE: the id is outside the pool, 1 to 100"),
            "101": (self.entry(5), "BAD_VALUE: the id is outside the pool"),
            "4294967295": (self.entry(5), "BAD_VALUE: the id is outside the pool"),
            "x": (self.entry(6), "BAD_VALUE: the id is not a whole number"),
            "-7": (self.entry(6), "BAD_VALUE: the id is not a whole number"),
            "8": (self.entry(8, state="released"), "MALFORMED: state is \"released\""),
            "9": (self.entry(9, state=1), "MALFORMED: state is 1"),
            "10": (self.entry(10, ts=future, last_seen=future), "BAD_REQUEST: ts is in the future"),
            "11": (self.entry(11, last_seen=future), "BAD_REQUEST: last_seen is in the future"),
            "12": (self.entry(12, last_seen=1), "BAD_REQUEST: last_seen is before ts"),
            "13": (self.entry(13, state="offline"), "BAD_REQUEST: state is offline"),
            "14": (self.entry(14, offline_since=self.now), "BAD_REQUEST: state is active"),
            "15": (self.entry(15, state="offline", offline_since=self.now - 600),
                   "BAD_REQUEST: offline_since is before last_seen"),
            "16": (self.entry(16, ts="yesterday"), "MALFORMED: ts is \"yesterday\""),
            "17": (self.entry(17, ts=-1), "MALFORMED: ts is -1"),
            "18": (self.entry(18, ts=1.5), "MALFORMED: ts is 1.5"),
            "19": (self.entry(19, lease_expires_at=10 ** 19), "MALFORMED: lease_expires_at is 1"),
            "20": (self.entry(20, meta=[1]), "MALFORMED: meta is not an object"),
            "23": (self.entry(23, device_key=5), "MALFORMED: device_key is not a string"),
            "24": (self.entry(24, device_key="a\nb"), "BAD_NAME: "),
            "25": (self.entry(25, meta={"device_id": "x" * 5000}), "TOO_LARGE: meta has 5016 bytes"),
            "26": (["not", "an", "object"], "MALFORMED: the entry is not an object"),
            "27": (self.entry(27), "BUSY: held by somebody"),
        }
        self.do("ALLOC", self.pool, "somebody", "VALUES", 1, 27)
        content = self.allocation({"1": self.entry(1), **{key: row[0] for key, row in bad.items()}})
        out, _ = self.take(content, "--report", "report.csv", code=1)
        for key, (_, reason) in bad.items():
            line = [text for text in out.splitlines() if "/%s" % key in text.split(":")[1].split()[0]
                    and text.split(":")[1].split()[0].endswith("/" + key)]
            self.assertEqual(len(line), 1, (key, out))
            self.assertIn(": " + reason, line[0])
        self.assertIn("26 rows: 1 imported, 0 already present, ", out)
        self.assertEqual(set(self.export()["allocated"]), {"1", "27"})
        report = text_of(os.path.join(self.directory.name, "report.csv"))
        self.assertEqual(len(report.splitlines()), 1 + len(bad))
        # As JSON, and without doing anything.
        self.do("POOL", "SEED", self.pool, "GIVEN", 0, "RECLAIMED", 0)
        out, _ = self.take(content, "--dry-run", "--json", code=1)
        rows = [json.loads(line) for line in out.splitlines()]
        self.assertEqual(rows[-1]["there"], "1")
        self.assertEqual(rows[-1]["refused"]["CONFLICT"], "1")

    def test_a_dry_run_changes_nothing(self):
        self.policy(POLICY)
        before = self.do("POOL", "INFO", self.pool)
        out, _ = self.take(self.allocation({"5": self.entry(5)}, following=9), "--dry-run")
        self.assertIn("/5 for device_id:DEV5: would be imported", out)
        self.assertEqual(pairs(self.do("POOL", "INFO", self.pool))["active"],
                         pairs(before)["active"])
        self.assertEqual(self.export()["next_candidate"], 1)

    def test_what_is_not_given_has_the_servers_time_and_the_pools_lease(self):
        self.policy(POLICY)
        self.take(self.allocation({"5": {"meta": {"mac": "AA:BB"}}, "6": {"device_key": " k "}}))
        lease = pairs(self.do("LEASE", self.pool + "/5"))
        self.assertEqual((lease["holder"], lease["state"]), ("mac:AA:BB", "active"))
        self.assertGreaterEqual(int(lease["created"]), self.now * 1000)
        self.assertGreater(int(lease["deadline"]), (self.now + 2500000) * 1000)
        self.assertEqual(pairs(self.do("LEASE", self.pool + "/6"))["holder"], "k")

    def test_keys_that_metadata_contradicts_are_the_operators_choice(self):
        self.policy(POLICY)
        entry = self.entry(1, meta={"device_id": "DEV001", "mac": "AA:BB:CC:DD:EE:01"},
                           device_key="mac:AA:BB:CC:DD:EE:01")
        content = self.allocation({"1": entry, "2": self.entry(2)}, following=3)
        for more in ((), ("--dry-run",)):
            _, error = self.take(content, *more, code=1)
            self.assertIn("1 device has a device_key that does not follow", error)
            self.assertIn("nothing was imported", error)
            self.assertIn("--derive", error)
            self.assertIn("--keep-keys", error)
        self.assertEqual(self.export()["allocated"], {})
        self.take(content, "--derive", "--keep-keys", code=2)
        self.assertEqual(self.take(content, "--keep-keys")[1], "")
        self.assertEqual(pairs(self.do("LEASE", self.pool + "/1"))["holder"],
                         "mac:AA:BB:CC:DD:EE:01")
        self.pool += "-b"
        self.policy(POLICY)
        self.assertEqual(self.take(content, "--derive")[1], "")
        self.assertEqual(pairs(self.do("LEASE", self.pool + "/1"))["holder"], "device_id:DEV001")

    def test_an_address_as_key_is_the_device_however_it_is_written(self):
        self.policy(POLICY)
        entry = self.entry(1, meta={"mac": "AA-BB-CC-DD-EE-01"}, device_key="mac:AA-BB-CC-DD-EE-01")
        self.assertEqual(self.take(self.allocation({"1": entry}, following=2))[1], "")
        self.assertEqual(pairs(self.do("ALLOC", self.pool, "*", "META",
                                       '{"mac":"AA-BB-CC-DD-EE-01"}'))["values"], ["1"])
        self.assertEqual(pairs(self.do("LEASE", self.pool + "/1"))["holder"],
                         "mac:AA-BB-CC-DD-EE-01")

    def test_keys_are_derived_by_the_fields_of_the_pool(self):
        self.policy(POLICY)
        self.do("POOL", "ALTER", self.pool, "IDENTITY_FIELDS", "mac,device_id")
        entry = self.entry(1, meta={"device_id": "DEV001", "mac": "AA:BB:CC:DD:EE:01"},
                           device_key="mac:aa:bb:cc:dd:ee:01")
        other = self.entry(2, meta={"device_id": "DEV002", "mac": "AA:BB:CC:DD:EE:02"},
                           device_key="device_id:DEV002")
        self.assertEqual(self.take(self.allocation({"1": entry}, following=2))[1], "")
        content = self.allocation({"1": entry, "2": other}, following=3)
        self.assertIn("1 device has a device_key that does not follow",
                      self.take(content, code=1)[1])
        self.take(content, "--derive")
        self.assertEqual(pairs(self.do("LEASE", self.pool + "/2"))["holder"],
                         "mac:aa:bb:cc:dd:ee:02")

    def test_ids_of_devices_without_a_name_stay_taken(self):
        self.policy(POLICY)
        content = self.allocation(
            {"1": self.entry(1, device_key="", meta={}), "2": self.entry(2, device_key="", meta=None),
             "3": self.entry(3, device_key=KeyError, meta={"ip": "10.0.0.1"})}, following=4)
        out, notes = self.take(content)
        self.assertIn("3 rows: 3 imported", out)
        self.assertIn("3 devices have neither a device_key nor metadata that names them", notes)
        self.assertEqual(pairs(self.do("LEASE", self.pool + "/1"))["holder"], "nameless:1")
        self.assertEqual(pairs(self.do("ALLOC", self.pool, "new"))["values"], ["4"])
        self.assertIn("3 already present", self.take(content)[0])
        back = self.export()["allocated"]
        self.assertEqual([back[key]["device_key"] for key in "123"], ["", "", ""])

    def test_empty_metadata_is_not_blamed_on_the_pool(self):
        self.do("POOL", "CREATE", self.pool, "STICKY", "yes", "IDENTITY_FALLBACK", "json")
        with self.assertRaisesRegex(Exception, "META is empty"):
            self.do("ALLOC", self.pool, "*", "META", "{}")

    def test_lists_that_contradict_are_noted(self):
        self.policy(POLICY)
        _, notes = self.take(self.allocation({"1": self.entry(1)}, [101, 202, 303, "x"], 5))
        self.assertIn("3 ids are not below next_candidate (5)", notes)
        self.assertIn("1 items are not ids", notes)
        self.assertIn("3 ids below next_candidate are neither allocated nor released", notes)
        self.assertEqual(self.export()["released"], [2, 3, 4])

    def test_files_that_are_none_are_refused(self):
        self.policy(POLICY)
        path = os.path.join(self.directory.name, "bad.json")
        for text, reason in (("", "it is not a JSON object"), ("{", "it is not valid JSON"),
                             ("[]", "it is not a JSON object"), ("{}", "the object \"allocated\" is missing"),
                             ('{"allocated": []}', "the object \"allocated\" is missing"),
                             ('{"allocated": {}, "next_candidate": 0}', "next_candidate 0"),
                             ('{"allocated": {}, "next_candidate": "5"}', "next_candidate \"5\""),
                             ('{"allocated": {}, "next_candidate": 4294967296}', "next_candidate 4")):
            with open(path, "w", encoding="utf-8") as file:
                file.write(text)
            _, error = self.tenure("opensynaptic", "import", path, "--pool", self.pool, code=1)
            self.assertIn(reason, error)
        _, error = self.tenure("opensynaptic", "import", path, "--pool", "none", code=31)
        self.assertIn("the pool none does not exist", error)
        self.do("POOL", "CREATE", self.pool + "-plain", "RANGE", 1, 9)
        _, error = self.tenure("opensynaptic", "export", "--pool", self.pool + "-plain", code=1)
        self.assertIn("is not a sticky range", error)
        self.tenure("opensynaptic", "import", "--pool", self.pool, code=2)
        self.tenure("opensynaptic", "import", path, code=2)
        self.tenure("opensynaptic", "export", code=2)
        self.tenure("opensynaptic", "export", "missing/file", "--pool", self.pool, code=1)
        self.tenure("opensynaptic", code=2)
        self.tenure("opensynaptic", "import", "/nonexistent", "--pool", self.pool, code=1)

    def test_a_lease_that_the_file_cannot_say_is_in_neither_list(self):
        self.policy(POLICY)
        self.do("ALLOC", self.pool, "a")
        lease = pairs(self.do("ALLOC", self.pool, "b"))
        self.do("ALLOC", self.pool, "c", "COUNT", 2)
        self.do("REVOKE", lease["lease"])
        out, notes = self.tenure("opensynaptic", "export", "--pool", self.pool)
        content = json.loads(out)
        self.assertEqual((set(content["allocated"]), content["released"]), ({"1", "3", "4"}, []))
        self.assertIn("1 leases have several ids", notes)
        self.assertIn("1 leases are reserved or revoking", notes)

    def test_every_key_of_the_policy_is_taken(self):
        self.policy({"base_lease_seconds": 86401, "min_lease_seconds": 7, "rate_window_seconds": 61,
                     "high_rate_threshold_per_hour": 60.25, "ultra_rate_threshold_per_hour": 99,
                     "ultra_rate_sustain_seconds": 0, "high_rate_min_factor": 0.125,
                     "adaptive_enabled": False, "ultra_force_release": False,
                     "metrics_emit_interval_seconds": 0})
        options = self.options()
        self.assertEqual(
            [options[key] for key in ("lease", "min_lease_seconds", "rate_window_seconds",
                                      "ultra_rate_sustain_seconds", "adaptive_enabled",
                                      "ultra_force_release", "metrics_emit_interval_seconds",
                                      "lo", "hi", "sticky")],
            ["86401", "7", "61", "0", "no", "no", "0", "1", "4294967294", "yes"])
        self.assertEqual([float(options[key]) for key in (
            "high_rate_threshold_per_hour", "ultra_rate_threshold_per_hour",
            "high_rate_min_factor")], [60.25, 99, 0.125])
        # Again: it is changed, and what the file does not have stays.
        out, _ = self.policy({"offline_hold_days": 0.5})
        self.assertEqual(out, "POOL ALTER %s base_lease_seconds 43200\n" % self.pool)
        self.assertEqual((self.options()["lease"], self.options()["min_lease_seconds"]),
                         ("43200", "7"))

    def test_values_that_make_no_sense_are_refused_never_replaced(self):
        for lease, reason in (
                ({"offline_hold_days": 0}, "lease"),
                ({"base_lease_seconds": 0}, "lease"),
                ({"offline_hold_days": -1}, "id_lease.offline_hold_days is negative"),
                ({"offline_hold_days": 0.00001}, "is not a whole number of seconds"),
                ({"offline_hold_days": 30, "base_lease_seconds": 60}, "remove one of them"),
                ({"base_lease_seconds": 1.5}, "is not a whole number of seconds"),
                ({"min_lease_seconds": -1}, "id_lease.min_lease_seconds is negative"),
                ({"min_lease_seconds": 99, "base_lease_seconds": 98}, "min_lease"),
                ({"rate_window_seconds": 0}, "rate_window"),
                ({"rate_window_seconds": 10 ** 9}, "rate_window"),
                ({"high_rate_threshold_per_hour": 10, "ultra_rate_threshold_per_hour": 9}, "ultra"),
                ({"high_rate_min_factor": 1.01}, "high_rate_min_factor"),
                ({"high_rate_min_factor": "0.2"}, "is not a number"),
                ({"adaptive_enabled": 1}, "must be true or false"),
                ({"ultra_force_release": None}, "must be true or false"),
                ({"metrics_emit_interval_seconds": None}, "is not a number"),
                ({"base_lease_second": 5}, "is an unknown key")):
            with self.subTest(lease=lease):
                done = subprocess.run(
                    [TENURE, "opensynaptic", "policy", self.file(
                        "Config.json", {"security_settings": {"id_lease": lease}}),
                     "--pool", self.pool], timeout=PATIENCE, check=False,
                    env={**os.environ, "TENURE_PORT": str(self.server.port)},
                    stdout=subprocess.PIPE, stderr=subprocess.PIPE)
                self.assertNotEqual(done.returncode, 0)
                self.assertIn(reason, done.stderr.decode())
                self.assertEqual(done.stdout, b"")
        self.refused("POOL_NOTFOUND", "POOL", "INFO", self.pool)
        self.policy({"rate_window_seconds": 299, "min_lease_seconds": 0})
        self.assertEqual(self.options()["rate_window_seconds"], "299")
        _, error = self.tenure("opensynaptic", "policy", self.file("Config.json", {}), "--pool",
                               self.pool, code=1)
        self.assertIn("the object security_settings.id_lease is missing", error)

    def test_the_lease_shortens_as_the_original_says(self):
        policy = {**POLICY, "base_lease_seconds": 1000003, "high_rate_threshold_per_hour": 10,
                  "ultra_rate_threshold_per_hour": 40, "ultra_rate_sustain_seconds": 3600,
                  "high_rate_min_factor": 0.3, "min_lease_seconds": 310000}
        del policy["offline_hold_days"]
        self.policy(policy)
        for rate in range(1, 60):
            self.do("ALLOC", self.pool, "device-%d" % rate)
            metrics = pairs(self.do("POOL", "METRICS", self.pool))
            self.assertEqual(float(metrics["new_device_rate_per_hour"]), rate)
            self.assertEqual(int(metrics["effective_lease_seconds"]),
                             effective(policy, rate, False), rate)
            self.assertEqual(bool(metrics["ultra_rate_active"]), rate >= 40)
        policy["ultra_rate_sustain_seconds"] = 0
        self.policy(policy)
        self.do("ALLOC", self.pool, "one-more")
        metrics = pairs(self.do("POOL", "METRICS", self.pool))
        self.assertEqual(int(metrics["effective_lease_seconds"]), effective(policy, 60, True))
        policy["adaptive_enabled"] = False
        self.policy(policy)
        metrics = pairs(self.do("POOL", "METRICS", self.pool))
        self.assertEqual(int(metrics["effective_lease_seconds"]), effective(policy, 60, True))

    def test_the_eleven_metrics_have_their_names_and_types(self):
        self.policy(POLICY)
        connection = Resp(self.server, 3)
        metrics = connection.do("POOL", "METRICS", self.pool)
        connection.close()
        for ours in ("pool", "lsn"):
            metrics.pop(ours)
        self.assertEqual({key: type(value) for key, value in metrics.items()}, METRICS)

    def test_the_guide_works_as_it_stands(self):
        self.pool = "devices"
        path = self.file("Config.json", {"security_settings": {"id_lease": POLICY}})
        self.assertEqual(os.path.dirname(path), self.directory.name)
        content = self.allocation({"1": self.entry(1)}, [2, 3], 4)
        self.file("data/id_allocation.json", content)
        lines = [line.strip() for line in text_of(GUIDE).splitlines()
                 if line.startswith("    tenure ")]
        self.assertGreaterEqual(len(lines), 9)
        for line in lines:
            done = subprocess.run(
                ["sh", "-c", line], cwd=self.directory.name, timeout=PATIENCE, check=False,
                env={**os.environ, "TENURE_PORT": str(self.server.port),
                     "PATH": os.path.dirname(TENURE) + ":" + os.environ["PATH"]},
                stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
            self.assertEqual(done.returncode, 0, (line, done.stdout))
        with open(os.path.join(self.directory.name, "data", "id_allocation.json"),
                  encoding="utf-8") as file:
            back = json.load(file)
        self.assertEqual(set(back["allocated"]), {"1", "2"})
        self.assertEqual(back["next_candidate"], 4)


if __name__ == "__main__":
    unittest.main()
