#!/usr/bin/env python3
# tsan
"""The real server process, with real clients: redis-cli, redis-benchmark, redis-py and raw sockets.

Each test class starts its own tenured on a free port with a directory of its own, waits until the
port file is there, and stops it by its own process id."""
import bisect
import json
import os
import signal
import socket
import subprocess
import tempfile
import threading
import time
import unittest
import urllib.request

import redis

from harness import PATIENCE, TENURED, Case, Server, pairs, receive_until, until
from resp import Resp


class Clients(Case):
    def test_redis_cli_speaks_both_protocols(self):
        self.assertEqual(self.server.cli("PING"), "PONG")
        self.assertEqual(self.server.cli("-3", "ECHO", "hi"), "hi")
        self.assertIn("proto 3", self.server.cli("-3", "HELLO", "3"))
        self.assertIn("ALLOC", self.server.cli("COMMAND", "DOCS", "alloc").upper())

    def test_redis_benchmark_pings(self):
        out = subprocess.run(["redis-benchmark", "-p", str(self.server.port), "-t", "ping", "-n",
                              "5000", "-P", "16", "--csv"], timeout=PATIENCE, check=True,
                             stdout=subprocess.PIPE, stderr=subprocess.STDOUT).stdout.decode()
        self.assertIn("PING_MBULK", out)
        self.assertNotIn("Could not fetch", out)

    def test_what_clients_send_at_connect_works(self):
        r = self.server.client(client_name="me", protocol=3) if int(
            redis.__version__.split(".")[0]) >= 5 else self.server.client(client_name="me")
        self.assertTrue(r.ping())
        self.assertEqual(r.client_getname(), "me")
        self.assertGreater(r.client_id(), 0)
        info = r.info()
        self.assertEqual(info["redis_version"], "7.4.0")
        self.assertEqual(info["loading"], 0)
        self.assertEqual(info["role"], "master")
        self.assertIn("tenure_version", info)
        self.assertEqual(r.config_get("save"), {"save": ""})
        self.assertIn("alloc", r.command())
        self.assertEqual(len(r.time()), 2)
        self.assertTrue(any(c["name"] == "me" for c in r.client_list()))
        r.close()
        self.assertEqual(self.do("SELECT", 0), True)
        self.refused("DB index", "SELECT", 1)
        self.do("READONLY")
        self.do("CLIENT", "SETINFO", "LIB-NAME", "x")
        self.refused("AUTH <password> called without any password", "AUTH", "secret")
        self.refused("NOPROTO", "HELLO", "4")
        self.refused("Syntax error in HELLO", "HELLO", "2", "SETNAME", "half", "WHAT")
        self.assertNotEqual(self.r.client_getname(), "half")
        self.assertEqual(self.do("COMMAND COUNT"), len(self.do("COMMAND LIST")))

    def test_a_client_can_be_killed(self):
        victim = self.server.connect()
        victim.sendall(b"CLIENT ID\r\n")
        number = int(receive_until(victim, b"\r\n")[1:])
        self.assertEqual(self.do("CLIENT", "KILL", "ID", number), 1)
        self.assertEqual(victim.recv(1), b"")
        victim.close()

    def test_quit_and_reset(self):
        s = self.server.connect()
        s.sendall(b"*2\r\n$5\r\nHELLO\r\n$1\r\n3\r\n*1\r\n$5\r\nRESET\r\n*1\r\n$4\r\nQUIT\r\nPING\r\n")
        got = receive_until(s, b"nothing ends like this")
        self.assertTrue(got.startswith(b"%7\r\n"))
        self.assertTrue(got.endswith(b"+RESET\r\n+OK\r\n"))
        s.close()

    def test_a_thousand_connections(self):
        many = [self.server.connect() for _ in range(1000)]
        for s in many:
            s.sendall(b"*1\r\n$4\r\nPING\r\n")
        for s in many:
            self.assertEqual(receive_until(s, b"\r\n"), b"+PONG\r\n")
        for s in many:
            s.close()
        until(lambda: int(self.r.info()["connected_clients"]) < 100, "clients gone")


class Commands(Case):
    def alloc(self, *words):
        return pairs(self.do("ALLOC", *words))

    def test_every_example_of_the_table_works(self):
        """In an order in which each finds the objects that it needs; lease ids are filled in as they are created."""
        lease = ["0-1042"]
        script = """
            POOL CREATE ports RANGE 30000 30009 LEASE 60 | POOL CREATE gpus SET
            POOL CREATE devices STICKY yes | POOL ADD gpus gpu-1 gpu-2 | POOL ALTER ports LEASE 120
            POOL INFO ports | POOL LIST SORT occupancy COUNT 100 | POOL METRICS devices | POOL REMOVE gpus gpu-2
            POOL VALUES ports STATE available COUNT 10 | VALUE ports/30000
            ALLOC ports job/42 COUNT 2 TTL 60 | LEASE ports/30000 | VERIFY 0-1042 1
            LEASES POOL ports STATE active COUNT 10 | TOUCH 0-1042 1 TTL 60
            REVOKE 0-1042 AFTER 30 | ACK 0-1042 job/42 1
            RESERVE job/42 TTL 30 FROM ports COUNT 2 FROM gpus VALUES 1 gpu-1
            ACTIVATE 0-1042 job/42 1 | REKEY 0-1042 1 job/43 | REVOKE 0-1042 AFTER 30
            RECLAIM 0-1042 | ALLOC ports job/42 | RELEASE 0-1042 job/42 1
            IMPORT ports job/7 VALUES 1 30007 CREATED 1700000000000
            POOL SEED ports GIVEN 8 RECLAIMED 3 | DISOWN job/7
            DISOWN job/42 POOL ports | SWEEP POOL ports | TICK | POOL DROP ports | SNAPSHOT
            RULE SET r1 core.timer | RULE DISABLE r1 | RULE ENABLE r1 | RULE LIST
            SENSOR SET s1 core.timer {"command":["/usr/bin/timer"]} | SENSOR INFO s1
            SENSOR STATUS s1 | SENSOR RESTART s1
            EVENTS AFTER 1042.0 COUNT 10 POOL ports
            SENSOR DISABLE s1 | SENSOR ENABLE s1 | SENSOR LIST | SENSOR DELETE s1 | RULE DELETE r1
        """
        for line in script.replace("|", "\n").splitlines():
            words = line.split()
            if not words:
                continue
            reply = self.do(*[lease[0] if w == "0-1042" else w for w in words])
            if words[0] in ("ALLOC", "RESERVE"):
                lease[0] = pairs(reply)["lease"]

    def test_a_lease_from_birth_to_end(self):
        self.do("POOL", "CREATE", "life", "RANGE", 1, 3, "LEASE", 60)
        got = self.alloc("life", "job/1", "VALUES", 1, "2", "META", '{"a": 1}')
        self.assertEqual((got["state"], got["values"], got["epoch"]), ("active", ["2"], 1))
        seen = pairs(self.do("LEASE", got["lease"]))
        self.assertEqual((seen["holder"], seen["meta"]), ("job/1", '{"a": 1}'))
        self.assertEqual(seen["pools"], ["life"])
        self.refused("STALE", "RELEASE", got["lease"], "job/1", 2)
        self.refused("HOLDER", "RELEASE", got["lease"], "job/2", 1)
        done = pairs(self.do("RELEASE", got["lease"], "job/1", 1))
        self.assertEqual(done["state"], "released")
        self.assertIn("lsn=", self.refused("STATE", "TOUCH", got["lease"], 2))
        self.alloc("life", "job/1", "COUNT", 3)
        self.assertIn("retry_at=", self.refused("EXHAUSTED", "ALLOC", "life", "job/2"))

    def test_an_operation_id_is_answered_once(self):
        self.do("POOL", "CREATE", "once", "RANGE", 1, 3)
        first = self.alloc("once", "h", "OPID", "op-1")
        again = self.alloc("once", "h", "OPID", "op-1")
        self.assertEqual((first["lease"], first["lsn"]), (again["lease"], again["lsn"]))
        self.assertEqual((first["replayed"], again["replayed"]), (0, 1))
        self.refused("CONFLICT", "ALLOC", "once", "other", "OPID", "op-1")

    def test_devices_come_back_by_their_metadata(self):
        self.do("POOL", "CREATE", "ids", "STICKY", "yes", "RANGE", 1, 9)
        first = self.alloc("ids", "*", "META", '{"serial": "S1"}')
        self.assertEqual(pairs(self.do("LEASE", first["lease"]))["holder"], "serial:S1")
        again = self.alloc("ids", "*", "META", '{"serial": "S1", "other": true}')
        self.assertEqual(first["values"], again["values"])
        self.refused("BAD_REQUEST", "ALLOC", "ids", "*", "META", '{"model": "x"}')
        self.refused("MALFORMED", "ALLOC", "ids", "*")
        self.do("POOL", "ALTER", "ids", "IDENTITY_FALLBACK", "json")
        self.assertEqual(pairs(self.do("LEASE", self.alloc(
            "ids", "*", "META", '{"model": "x"}')["lease"]))["holder"], 'request:{"model": "x"}')

    def test_fences(self):
        self.do("POOL", "CREATE", "fence", "RANGE", 1, 3)
        lsn = self.alloc("fence", "h")["lsn"]
        self.assertGreaterEqual(pairs(self.do("POOL", "INFO", "fence", "FENCE", lsn))["lsn"], lsn)
        begun = time.monotonic()
        self.refused("NOT_YET", "POOL", "INFO", "fence", "FENCE", lsn + 1000000)
        self.assertGreater(time.monotonic() - begun, 0.9)

    def test_a_read_never_shows_a_lease_as_live_after_its_deadline(self):
        """Reads that find a deadline passed wait for a tick, many of them for the same one."""
        self.do("POOL", "CREATE", "brief", "RANGE", 1, 1000)
        made = [self.alloc("brief", "h%d" % i, "TTL", 1) for i in range(20)]
        clients = [self.server.connect() for _ in range(20)]
        live = set(range(20))

        def look():
            seconds, micros = self.do("TIME")
            now = seconds * 1000 + micros // 1000
            for i in live:
                words = ["LEASE", made[i]["lease"]]
                clients[i].sendall(("*2\r\n" + "".join(
                    "$%d\r\n%s\r\n" % (len(w), w) for w in words)).encode())
            for i in list(live):
                seen = receive_until(clients[i], b"\r\n")
                while b"$3\r\nlsn\r\n:" not in seen or not seen.endswith(b"\r\n"):
                    seen += clients[i].recv(4096)
                if b"expired" in seen:
                    live.remove(i)
                else:
                    self.assertGreater(made[i]["deadline"], now)
            return not live
        until(look, "all expired")
        for s in clients:
            s.close()
        info = pairs(self.do("POOL", "INFO", "brief"))
        self.assertEqual((info["active"], info["expired_total"]), (0, 20))

    def test_pages(self):
        self.do("POOL", "CREATE", "pages", "RANGE", 1, 100)
        made = {self.alloc("pages", "h%d" % i)["lease"] for i in range(25)}
        seen, cursor = [], 0
        while True:
            page = pairs(self.do("LEASES", "POOL", "pages", "COUNT", 10, "CURSOR", cursor))
            seen += [pairs(l)["lease"] for l in page["leases"]]
            cursor = page["cursor"]
            if cursor == 0:
                break
        self.assertEqual((len(seen), set(seen)), (25, made))

    def test_a_lease_is_shown_as_it_was_at_one_position(self):
        """While its metadata is changed again and again."""
        self.do("POOL", "CREATE", "position", "RANGE", 1, 9)
        lease = self.alloc("position", "h", "META", '{"n": 0}')
        reader, seen, lsns, over = Resp(self.server, 3), [], [lease["lsn"]], threading.Event()

        def read():
            while not over.is_set():
                for _ in range(50):
                    reader.send("LEASE", lease["lease"])
                seen.extend(reader.read() for _ in range(50))
        thread = threading.Thread(target=read)
        thread.start()
        for n in range(1, 500):
            lsns.append(pairs(self.do("TOUCH", lease["lease"], lease["epoch"], "META",
                                      '{"n": %d}' % n))["lsn"])
        over.set()
        thread.join()
        reader.close()
        self.assertEqual([json.loads(one["meta"])["n"] for one in seen],
                         [bisect.bisect_right(lsns, one["lsn"]) - 1 for one in seen])

    def test_large_bundles_come_back_whole(self):
        self.do("POOL", "CREATE", "large", "RANGE", 1, 10000)
        got = self.alloc("large", "h", "COUNT", 256)
        self.assertEqual(len(got["values"]), 256)
        self.assertEqual(pairs(self.do("LEASE", got["lease"]))["values"], got["values"])


class Transactions(Case):
    def test_a_transaction_is_refused_as_a_whole_and_says_what_to_do(self):
        self.do("POOL", "CREATE", "tx", "RANGE", 1, 9)
        with self.assertRaisesRegex(redis.ResponseError, r"pipeline\(transaction=False\)"):
            with self.r.pipeline() as pipe:
                pipe.execute_command("ALLOC", "tx", "a")
                pipe.execute_command("ALLOC", "tx", "b")
                pipe.execute()
        self.assertEqual(pairs(self.do("POOL", "INFO", "tx"))["active"], 0)
        with self.r.pipeline(transaction=False) as pipe:
            pipe.execute_command("ALLOC", "tx", "a")
            pipe.execute_command("ALLOC", "tx", "b")
            self.assertEqual([pairs(one)["result"] for one in pipe.execute()], ["OK", "OK"])
        with self.assertRaisesRegex(redis.ResponseError, "has no transactions"):
            with self.r.pipeline() as pipe:
                pipe.watch("tx")

    def test_each_word_of_it(self):
        connection = Resp(self.server, 3)

        def ask(*words):
            connection.send(*words)
            return str(connection.read())
        for word in ("WATCH", "UNWATCH", "EXEC", "DISCARD", "multi"):
            self.assertRegex(ask(word, *(["x"] if word == "WATCH" else [])),
                             "^ERR Tenure has no transactions")
        self.assertRegex(ask("PING"), "^ERR not executed")
        self.assertRegex(ask("NONSENSE"), "^ERR not executed")
        self.assertRegex(ask("EXEC"), "^EXECABORT Tenure has no transactions")
        self.assertEqual(ask("PING"), "PONG")
        for end in ("DISCARD", "RESET"):
            ask("MULTI")
            self.assertRegex(ask("PING"), "^ERR not executed")
            ask(end)
            self.assertEqual(ask("PING"), "PONG")
        connection.close()


class Order(Case):
    def test_replies_leave_in_the_order_of_the_requests(self):
        self.do("POOL", "CREATE", "order", "RANGE", 1, 100000)
        pipe = self.r.pipeline(transaction=False)
        for i in range(500):
            pipe.execute_command("ALLOC", "order", "h%d" % i)
            pipe.execute_command("ECHO", str(i))
            pipe.execute_command("LEASE", "order/%d" % (i + 1))
            pipe.execute_command("ALLOC", "nowhere", "h", "TTL", "x")
        replies = pipe.execute(raise_on_error=False)
        for i in range(500):
            made, echo, seen, bad = replies[4 * i:4 * i + 4]
            self.assertEqual(pairs(made)["values"], [str(i + 1)])
            self.assertEqual(echo, str(i))
            self.assertEqual(pairs(seen)["holder"], "h%d" % i)
            self.assertIsInstance(bad, redis.ResponseError)

    def test_a_pipeline_longer_than_any_buffer(self):
        self.do("POOL", "CREATE", "deep", "RANGE", 1, 1000000)
        s = self.server.connect()
        count = 20000
        s.sendall(b"*3\r\n$5\r\nALLOC\r\n$4\r\ndeep\r\n$1\r\nh\r\n" * count + b"PING\r\n")
        got = receive_until(s, b"+PONG\r\n")
        self.assertEqual(got.count(b"$6\r\nvalues\r\n"), count)
        s.close()

    def test_a_client_that_closes_its_side_still_gets_its_answers(self):
        self.do("POOL", "CREATE", "half", "RANGE", 1, 10)
        s = self.server.connect()
        s.sendall(b"*3\r\n$5\r\nALLOC\r\n$4\r\nhalf\r\n$1\r\nh\r\nPING\r\n")
        s.shutdown(socket.SHUT_WR)
        self.assertTrue(receive_until(s, b"nothing").endswith(b"+PONG\r\n"))
        s.close()


class BadInput(Case):
    def test_mistakes_are_explained_and_the_connection_stays(self):
        self.do("POOL", "CREATE", "p", "RANGE", 1, 9)
        for start, words in [
                ("unknown command 'NONSENSE', with args beginning with: 'a' ", ["NONSENSE", "a"]),
                ("unknown subcommand 'FLOOD'", ["POOL", "FLOOD"]),
                ("wrong number of arguments for 'echo' command", ["ECHO"]),
                ("wrong number of arguments for 'pool|create' command", ["POOL", "CREATE"]),
                ("MALFORMED COUNT", ["ALLOC", "p", "h", "COUNT", "x"]),
                ("MALFORMED COUNT", ["ALLOC", "p", "h", "COUNT", "-1"]),
                ("MALFORMED COUNT", ["ALLOC", "p", "h", "COUNT", "99999999999999999999"]),
                ("TOO_LARGE", ["ALLOC", "p", "h", "COUNT", "4294967295"]),
                ("BAD_TTL", ["ALLOC", "p", "h", "TTL", "0"]),
                ("BAD_NAME", ["ALLOC", "p", "h" * 129]),
                ("BAD_NAME", ["ALLOC", "p", b"\xff\xfe"]),
                ("BAD_NAME", ["ALLOC", "p", "h", "OPID", b"\xc3\x28"]),
                ("BAD_NAME", ["POOL", "CREATE", "a b"]),
                ("BAD_NAME", ["POOL", "CREATE", "p" * 65]),
                ("BAD_VALUE", ["ALLOC", "p", "h", "VALUES", 1, "10"]),
                ("BAD_VALUE", ["ALLOC", "p", "h", "VALUES", 1, "one"]),
                ("POOL_NOTFOUND", ["ALLOC", "q", "h"]),
                ("BAD_POLICY", ["POOL", "CREATE", "q", "STRATEGY", "best"]),
                ("BAD_POLICY", ["POOL", "CREATE", "q", "RANGE", 9, 1]),
                ("EXISTS", ["POOL", "CREATE", "p"]),
                ("NOTFOUND", ["LEASE", "0-999999"]),
                ("MALFORMED", ["LEASE", "lease"]),
                ("MALFORMED META", ["ALLOC", "p", "h", "META", "[" * 40]),
                ("MALFORMED META", ["ALLOC", "p", "h", "META", '{"a":' * 40 + "1" + "}" * 40]),
                ("TOO_LARGE META", ["ALLOC", "p", "h", "META", '{"a":"%s"}' % ("x" * 5000)]),
        ]:
            self.refused(start, *words)
        self.assertEqual(pairs(self.do("POOL", "INFO", "p"))["active"], 0)

    def raw(self, data, want):
        s = self.server.connect()
        s.sendall(data)
        self.assertEqual(receive_until(s, b"nothing"), want)
        s.close()

    def test_frames_that_lie_end_the_connection(self):
        error = b"-ERR Protocol error: %s\r\n"
        self.raw(b"*2147483648\r\n", error % b"invalid multibulk length")
        self.raw(b"*1\r\n$2147483648\r\n", error % b"invalid bulk length")
        self.raw(b"*1\r\n$524289\r\n", error % b"invalid bulk length")
        self.raw(b"*1\r\n:1\r\n", error % b"expected '$', got ':'")
        self.raw(b"PING 'open\r\n", error % b"unbalanced quotes in request")
        self.raw(b"x" * 65536, error % b"too big inline request")
        self.raw(b"PING\r\n*x\r\n", b"+PONG\r\n" + error % b"invalid multibulk length")

    def test_half_a_frame_harms_nobody(self):
        halves = [self.server.connect() for _ in range(20)]
        for i, s in enumerate(halves):
            s.sendall(b"*3\r\n$5\r\nALLOC\r\n$1\r\np\r\n$100000\r\n"[:i + 10])
        self.assertTrue(self.r.ping())
        for s in halves:
            s.close()

    def test_more_arguments_than_anyone_needs(self):
        s = self.server.connect()
        s.sendall(b"*20000\r\n$4\r\nPING\r\n" + b"$1\r\na\r\n" * 19999 + b"PING\r\n")
        self.assertEqual(receive_until(s, b"+PONG\r\n"),
                         b"-ERR more than 16384 arguments\r\n+PONG\r\n")
        s.close()


class SlowReaders(Case):
    flags = ("--slow-seconds", "1")

    def test_who_takes_no_replies_is_dropped_and_others_are_served(self):
        slow = self.server.connect()
        slow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        # A client that was served before counts as slow, not as one that never completes a request.
        slow.sendall(b"PING\r\n")
        self.assertEqual(receive_until(slow, b"\r\n"), b"+PONG\r\n")
        slow.settimeout(0.05)
        request = b"*2\r\n$4\r\nECHO\r\n$100000\r\n" + b"x" * 100000 + b"\r\n"
        dropped, at = False, 0
        end = time.monotonic() + PATIENCE
        while not dropped and time.monotonic() < end:
            try:
                at = (at + slow.send(request[at:])) % len(request)
            except socket.timeout:
                self.assertTrue(self.r.ping())
            except OSError:
                dropped = True
        self.assertTrue(dropped)
        self.assertEqual(self.r.info()["slow_clients_dropped"], 1)
        slow.close()


class ManyClients(Case):
    flags = ("--max-connections", "8")

    def test_too_many_clients_are_told(self):
        held = [self.server.connect() for _ in range(8)]
        last = self.server.connect()
        self.assertEqual(receive_until(last, b"\r\n"), b"-ERR max number of clients reached\r\n")
        for s in held + [last]:
            s.close()


class IdleClients(Case):
    flags = ("--idle-seconds", "1")

    def test_who_asks_for_nothing_is_dropped(self):
        idle = self.server.connect()
        self.assertEqual(idle.recv(1), b"")
        idle.close()


class Lives(unittest.TestCase):
    def test_what_was_answered_survives_kill_9(self):
        server = Server()
        r = server.client()
        r.execute_command("POOL", "CREATE", "p", "RANGE", 1, 1000, "LEASE", 3600)
        made = [pairs(r.execute_command("ALLOC", "p", "h%d" % i)) for i in range(50)]
        server.stop(signal.SIGKILL)
        server.start()
        r = server.client()
        for i, lease in enumerate(made):
            seen = pairs(r.execute_command("LEASE", lease["lease"]))
            self.assertEqual((seen["values"], seen["holder"]), (lease["values"], "h%d" % i))
        got = pairs(r.execute_command("ALLOC", "p", "next"))["values"]
        self.assertNotIn(got, [lease["values"] for lease in made])
        r.close()
        self.assertEqual(server.stop(), 0)
        server.remove()

    def test_a_failed_write_is_an_unknown_outcome_and_a_failed_server(self):
        server = Server()
        r = server.client()
        r.execute_command("POOL", "CREATE", "p", "RANGE", 1, 1000)
        made = pairs(r.execute_command("ALLOC", "p", "before"))

        def write():
            try:
                with server.client() as client:
                    return str(client.execute_command("ALLOC", "p", "after", "OPID", "op"))
            except redis.ResponseError as error:
                return str(error)
            except redis.ConnectionError:
                return None
        refusal = server.fail(write)
        self.assertTrue(refusal.startswith("HALTED"), refusal)
        r = server.client()
        self.assertEqual(pairs(r.execute_command("LEASE", made["lease"]))["holder"], "before")
        again = pairs(r.execute_command("ALLOC", "p", "after", "OPID", "op"))
        self.assertNotEqual(again["values"], made["values"])
        r.close()
        server.remove()

    def test_on_a_full_disk_a_read_answers_and_shows_no_lease_as_live_past_its_deadline(self):
        """A deadline has passed, but the tick that would record it cannot be written."""
        server = Server(None, "--segment-bytes", "65536")
        r = server.client()
        r.execute_command("POOL", "CREATE", "p", "RANGE", 1, 100000)
        made = pairs(r.execute_command("ALLOC", "p", "h", "TTL", 2))
        server.stop(signal.SIGKILL)
        server.flags += ("--space-reserve-bytes", "1099511627776")
        server.start()
        r = server.client()

        def full():
            try:
                r.execute_command("ALLOC", "p", "more")
            except redis.ResponseError as error:
                return str(error).startswith("NOSPACE")
            return False
        until(full, "the disk is full")
        until(lambda: r.time()[0] * 1000 > made["deadline"], "the deadline has passed")
        seen = pairs(r.execute_command("LEASE", made["lease"]))
        self.assertIn((seen["state"], seen["deadline"]),
                      [("overdue", made["deadline"]), ("expired", None)])
        self.assertGreater(pairs(r.execute_command("POOL", "INFO", "p"))["active"], 0)
        for path, what in (("/metrics", 'tenure_pool_size{pool="p"}'), ("/livez", "ok")):
            url = "http://127.0.0.1:%d%s" % (server.http_port, path)
            with urllib.request.urlopen(url, timeout=PATIENCE) as answer:
                self.assertIn(what, answer.read().decode())
        r.close()
        server.remove()

    def test_sigterm_and_sigint_exit_0_with_clients_connected(self):
        for number in (signal.SIGTERM, signal.SIGINT):
            server = Server()
            s = server.connect()
            s.sendall(b"PING\r\n")
            self.assertEqual(receive_until(s, b"\r\n"), b"+PONG\r\n")
            self.assertEqual(server.stop(number), 0)
            self.assertEqual(s.recv(1), b"")
            s.close()
            server.remove()

    def test_what_cannot_start_says_why(self):
        for flags, why in [(["--listen", "0.0.0.0:0"], "loopback"),
                           (["--listen", "[::]:0"], "loopback"),
                           (["--listen", "nonsense"], "HOST:PORT"), (["--what"], "unknown flag"),
                           (["--listen", "127.0.0.1:0", "--http", "0.0.0.0:0"], "loopback"),
                           (["--listen", "127.0.0.1:0", "--http", "9"], "HOST:PORT")]:
            with tempfile.TemporaryDirectory() as data:
                out = subprocess.run([TENURED, "--data", data, *flags], stderr=subprocess.PIPE,
                                     timeout=PATIENCE, check=False)
                self.assertEqual(out.returncode, 2)
                self.assertIn(why, out.stderr.decode())

    def test_a_directory_has_one_server(self):
        server = Server()
        out = subprocess.run([TENURED, "--data", os.path.join(server.data, "data"), "--listen",
                              "127.0.0.1:0", "--http", "off"], stderr=subprocess.PIPE, timeout=PATIENCE, check=False)
        self.assertEqual(out.returncode, 2)
        server.remove()


if __name__ == "__main__":
    unittest.main(verbosity=1)
