"""Waiting in line: order, ends, clients that disconnect and return, over RESP, HTTP and the tools."""
import http.client
import json
import os
import signal
import socket
import subprocess
import unittest

from harness import BUILD, Server, until
from pyclient import tenure
from resp import Asking, Error, Resp



TENURE = os.path.join(BUILD, "tenure")


class Waiting(Asking):
    def setUp(self):
        super().setUp()
        self.name = "w%d" % id(self)
        self.mine = "of/" + self.name  # a holder that no other test has
        self.do("POOL", "CREATE", self.name, "RANGE", 1, 1)
        self.held = self.do("ALLOC", self.name, "first")

    def waiting(self):
        return [lease["holder"] for lease in
                self.do("LEASES", "POOL", self.name, "STATE", "waiting")["leases"]]

    def in_line(self, *holders):
        until(lambda: self.waiting() == list(holders), "the line %s" % (holders,))

    def release(self, lease, holder):
        self.do("RELEASE", lease["lease"], holder, lease["epoch"])

    def connect(self):
        client = Resp(self.server, 3)
        self.addCleanup(client.close)
        return client

    def wait(self, holder, *more):
        client = self.connect()
        client.send("ALLOC", self.name, holder, "WAIT", 30, *more)
        return client

    def test_each_is_granted_in_the_order_of_the_line(self):
        clients = {}
        for holder in ("a", "b", "c"):
            clients[holder] = self.wait(holder)
            until(lambda name=holder: name in self.waiting(), "in line")
        lease, of = self.held, "first"
        for holder in ("a", "b", "c"):
            self.release(lease, of)
            lease, of = clients[holder].read(), holder
            self.assertEqual((lease["state"], lease["values"]), ("active", ["1"]))
            self.assertGreater(lease["waited_ms"], -1)

    def test_a_request_that_can_never_be_granted_keeps_no_one_waiting(self):
        name = self.name + "-three"
        self.do("POOL", "CREATE", name, "RANGE", 1, 4, "EXCLUDE", "4-4")
        for beside in (("VALUES", 1, 2), ("VALUES", 2, 2, 4)):  # 4 does not count: "any" never gives it
            reply = self.ask.do("ALLOC", self.mine, "FROM", name, *beside, "FROM", name, "COUNT", 3, "WAIT", "1d")
            self.assertIsInstance(reply, Error)
            self.assertTrue(reply.startswith("TOO_LARGE ") and " cap=3 " in reply, reply)
        self.assertEqual(self.do("ALLOC", self.mine, "FROM", name, "COUNT", 3, "FROM", name, "VALUES", 1, 4)["values"],
                         ["1", "2", "3", "4"])

    def test_a_granted_waiter_gets_all_its_values_whatever_they_are(self):
        names = [self.name + "-set", self.name + "-range"]
        self.do("POOL", "CREATE", names[0], "SET")
        self.do("POOL", "ADD", names[0], "gpu-a", "gpu-b")
        self.do("POOL", "CREATE", names[1], "RANGE", 7, 9)
        held = self.do("ALLOC", "h", "FROM", names[0], "COUNT", 2, "FROM", names[1], "COUNT", 3)
        waiter = self.connect()
        waiter.send("ALLOC", "w", "FROM", names[0], "COUNT", 2, "FROM", names[1], "COUNT", 3, "WAIT", 30)
        self.name = names[0]
        self.in_line("w")
        connection = http.client.HTTPConnection("127.0.0.1", self.server.http_port, timeout=60)
        self.addCleanup(connection.close)
        connection.request("POST", "/v1/pools/%s/leases" % names[0],
                           json.dumps({"holder": "x", "wait": 30, "count": 2}),
                           {"Content-Type": "application/json"})
        until(lambda: sorted(self.waiting()) == ["w", "x"], "both in line")
        self.release(held, "h")
        granted = waiter.read()
        self.assertEqual(granted["values"], ["gpu-a", "gpu-b", "7", "8", "9"])
        self.release(granted, "w")
        reply = connection.getresponse()
        self.assertEqual((reply.status, json.loads(reply.read())["values"]), (200, ["gpu-a", "gpu-b"]))

    def test_a_repeat_that_goes_away_leaves_the_place_to_the_first_client(self):
        first = self.wait("a", "OPID", "the-same")
        self.in_line("a")
        for _ in range(3):
            again = self.wait("a", "OPID", "the-same")
            again.close()
        lease = self.do("LEASES", "HOLDER", "a", "STATE", "waiting")["leases"][0]["lease"]
        for _ in range(20):  # each a command behind the others
            self.assertTrue(self.do("LEASE", lease)["attended"])
        self.release(self.held, "first")
        self.assertEqual(first.read()["values"], ["1"])

    def test_nobody_overtakes_and_the_line_is_shown(self):
        self.wait("a")
        self.in_line("a")
        reply = self.ask.do("ALLOC", self.name, "b")
        self.assertIsInstance(reply, Error)
        self.assertRegex(reply, r"^EXHAUSTED others wait .*waiting=1")
        info = self.do("POOL", "INFO", self.name)
        self.assertEqual(info["waiting"], 1)
        self.assertIsNotNone(info["waiting_since"])
        lease = self.do("LEASES", "HOLDER", "a", "STATE", "waiting")["leases"][0]["lease"]
        shown = self.do("LEASE", lease)
        self.assertEqual((shown["waiting_before"], shown["waiting_for"], shown["waiting_pool"]),
                         (0, "EXHAUSTED", self.name))

    def test_later_requests_wait_behind_it_as_behind_blpop(self):
        client = self.wait("a")
        client.send("PING")
        self.in_line("a")
        self.release(self.held, "first")
        self.assertEqual(client.read()["state"], "active")
        self.assertEqual(client.read(), "PONG")

    def test_a_closed_connection_leaves_the_line(self):
        gone, stays = self.wait("gone"), None
        self.in_line("gone")
        stays = self.wait("stays")
        self.in_line("gone", "stays")
        gone.close()
        self.in_line("stays")
        self.release(self.held, "first")
        self.assertEqual(stays.read()["state"], "active")

    def test_a_closed_connection_leaves_the_line_whatever_it_has_sent_before(self):
        gone = self.connect()
        gone.send("ALLOC", self.name, "gone", "WAIT", 86400)
        self.in_line("gone")
        gone.socket.sendall(b"*1\r\n$4\r\nPING\r\n" * 3000)  # more than is read while it waits
        gone.close()
        self.in_line()

    def test_requests_behind_a_long_poll_do_not_hide_its_end(self):
        body = b'{"holder":"gone","wait":86400}'
        with socket.create_connection(("127.0.0.1", self.server.http_port)) as gone:
            gone.sendall(b"POST /v1/pools/%s/leases HTTP/1.1\r\nHost: localhost\r\n" % self.name.encode() +
                         b"Content-Length: %d\r\n\r\n%s" % (len(body), body) +
                         b"GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n" * 1000)
            self.in_line("gone")
        self.in_line()

    def test_a_client_that_closed_its_side_gets_what_is_granted_at_once(self):
        lease, holder = self.held, "first"
        for _ in range(20):
            self.release(lease, holder)
            client = self.wait(self.mine)
            client.socket.shutdown(socket.SHUT_WR)
            lease, holder = client.read(), self.mine
            self.assertEqual((lease["state"], lease["values"]), ("active", ["1"]))
            self.assertRaises(EOFError, client.read)

    def test_a_client_that_closes_its_side_leaves_the_line_and_is_told(self):
        client = self.wait(self.mine)
        client.send("PING")
        self.in_line(self.mine)
        client.socket.shutdown(socket.SHUT_WR)
        self.assertRegex(client.read(), "^EXHAUSTED ")
        self.assertEqual(client.read(), "PONG")
        self.assertRaises(EOFError, client.read)
        self.assertEqual(self.waiting(), [])

    def test_a_client_with_an_operation_id_that_closes_its_side_may_come_back(self):
        client = self.wait(self.mine, "OPID", self.name)
        self.in_line(self.mine)
        lease = self.do("LEASES", "HOLDER", self.mine, "STATE", "waiting")["leases"][0]["lease"]
        client.socket.shutdown(socket.SHUT_WR)
        self.assertRegex(client.read(), "^LOST .*repeat the operation")
        self.assertFalse(self.do("LEASE", lease)["attended"])
        again = self.wait(self.mine, "OPID", self.name)
        until(lambda: self.do("LEASE", lease)["attended"], "attended")
        self.release(self.held, "first")
        self.assertEqual(again.read()["lease"], lease)

    def test_a_grant_is_told_or_taken_back_when_the_client_closes_its_side(self):
        lease, holder = self.held, "first"
        for turn in range(40):
            op = ("OPID", "%s-%d" % (self.name, turn)) if turn % 2 else ()
            client = self.wait(self.mine, *op)
            self.in_line(self.mine)
            self.ask.send("RELEASE", lease["lease"], holder, lease["epoch"])
            client.socket.shutdown(socket.SHUT_WR)
            self.ask.read()
            reply = client.read()
            if isinstance(reply, Error):
                until(lambda: not self.do("LEASES", "POOL", self.name, "HOLDER", self.mine,
                                          "STATE", "active")["leases"], "no lease is left")
                if op:  # unattended, or ended; its holder does not want it any more
                    self.do("DISOWN", self.mine)
                lease, holder = self.do("ALLOC", self.name, "first"), "first"
            else:
                lease, holder = reply, self.mine
            self.assertEqual(lease["state"], "active")

    def test_a_repeat_is_not_thrown_out_by_the_end_of_the_first_connection(self):
        for turn in range(30):
            op = "%s-%d" % (self.name, turn)
            first = self.wait(self.mine, "OPID", op)
            self.in_line(self.mine)
            lease = self.do("LEASES", "HOLDER", self.mine, "STATE", "waiting")["leases"][0]["lease"]
            again = self.connect()
            again.send("ALLOC", self.name, self.mine, "WAIT", 30, "OPID", op)
            first.close()
            for _ in range(4):  # each a command behind the others
                self.do("TOUCH", self.held["lease"], self.held["epoch"])
            self.assertTrue(self.do("LEASE", lease)["attended"], "turn %d" % turn)
            self.release({"lease": lease, "epoch": 1}, self.mine)
            self.assertIsInstance(again.read(), Error)

    def test_a_waiter_is_killed_by_a_client_that_has_unsent_replies(self):
        killer = self.connect()
        for turn in range(20):
            op = "%s-%d" % (self.name, turn)
            clients = [self.connect() for _ in range(3)]
            number = clients[0].do("CLIENT", "ID")
            for client in clients:
                client.send("ALLOC", self.name, self.mine, "WAIT", 30, "OPID", op)
            self.in_line(self.mine)
            lease = self.do("LEASES", "HOLDER", self.mine, "STATE", "waiting")["leases"][0]["lease"]
            other = self.wait("other")  # no client leaves before this is answered
            clients[1].socket.shutdown(socket.SHUT_WR)
            killer.send("TOUCH", self.held["lease"], self.held["epoch"])
            killer.send("CLIENT", "KILL", "ID", number)
            self.assertEqual((killer.read()["state"], killer.read()), ("active", 1))
            other.close()
            self.assertTrue(clients[1].read().startswith("LOST"))
            until(lambda l=lease: self.do("LEASE", l)["attended"], "attended by the third")
            self.release({"lease": lease, "epoch": 1}, self.mine)
            self.assertIsInstance(clients[2].read(), Error)

    def test_many_clients_leave_at_once_and_others_are_served(self):
        clients = [self.wait("w/%d" % i, *(("OPID", "%s-%d" % (self.name, i)) if i % 2 else ()))
                   for i in range(600)]
        until(lambda: self.do("POOL", "INFO", self.name)["waiting"] == 600, "all in line")
        for client in clients:
            client.close()
        until(lambda: self.do("POOL", "INFO", self.name)["waiting"] == 300, "half of them left")
        until(lambda: not any(lease["attended"] for lease in self.do(
            "LEASES", "POOL", self.name, "STATE", "waiting", "COUNT", 1000)["leases"]), "unattended")
        self.release(self.held, "first")
        self.assertEqual(self.do("ALLOC", self.name, "b")["state"], "active")

    def test_the_same_operation_id_takes_its_place_again(self):
        first = self.wait("a", "OPID", self.name)
        self.in_line("a")
        self.wait("b")
        until(lambda: len(self.waiting()) == 2, "two in line")
        first.close()
        lease = self.do("LEASES", "HOLDER", "a", "STATE", "waiting")["leases"][0]["lease"]
        until(lambda: not self.do("LEASE", lease)["attended"], "unattended")
        again = self.wait("a", "OPID", self.name)
        until(lambda: self.do("LEASE", lease)["attended"], "attended")
        self.release(self.held, "first")
        self.assertEqual(again.read()["lease"], lease)

    def test_the_end_of_the_wait_is_the_refusal(self):
        reply = self.ask.do("ALLOC", self.name, "a", "WAIT", "1s")
        self.assertIsInstance(reply, Error)
        self.assertRegex(reply, r"^EXHAUSTED the wait is over .*waiting=0 waited_ms=\d+")
        self.assertIn("86400", self.ask.do("ALLOC", self.name, "a", "WAIT", "2d"))
        self.assertTrue(self.ask.do("ALLOC", self.name, "a", "WAIT", 0).startswith("EXHAUSTED no"))

    def test_a_release_by_another_client_ends_the_wait(self):
        client = self.wait("a")
        self.in_line("a")
        lease = self.do("LEASES", "HOLDER", "a", "STATE", "waiting")["leases"][0]
        self.release(lease, "a")
        self.assertIsInstance(client.read(), Error)

    def test_over_http_it_is_a_long_poll_and_a_dropped_request_leaves(self):
        def post(holder):
            web = http.client.HTTPConnection("127.0.0.1", self.server.http_port)
            self.addCleanup(web.close)
            web.request("POST", "/v1/pools/%s/leases" % self.name,
                        json.dumps({"holder": holder, "wait": 30}),
                        {"Content-Type": "application/json"})
            return web
        gone = post("gone")
        self.in_line("gone")
        stays = post("stays")
        until(lambda: len(self.waiting()) == 2, "two in line")
        gone.sock.close()
        self.in_line("stays")
        self.release(self.held, "first")
        answer = stays.getresponse()
        body = json.loads(answer.read())
        self.assertEqual((answer.status, body["state"]), (200, "active"))
        self.assertIn("waited_ms", body)

    def test_over_http_a_client_that_closes_its_side_is_told(self):
        web = http.client.HTTPConnection("127.0.0.1", self.server.http_port)
        self.addCleanup(web.close)
        web.request("POST", "/v1/pools/%s/leases" % self.name,
                    json.dumps({"holder": "a", "wait": 30}), {"Content-Type": "application/json"})
        self.in_line("a")
        web.sock.shutdown(socket.SHUT_WR)
        self.in_line()
        answer = web.getresponse()
        self.assertEqual((answer.status, json.loads(answer.read())["result"]), (409, "EXHAUSTED"))

    def test_an_export_has_no_rows_of_leases_that_wait(self):
        self.wait("waits/b")
        self.in_line("waits/b")
        tool = [TENURE, "-p", str(self.server.port), "export", self.name]
        for form in ("csv", "tsv", "sql"):
            out = subprocess.run([*tool, "--format", form], capture_output=True, check=True).stdout
            self.assertIn(b"first", out)
            self.assertNotIn(b"waits", out)
        refused = subprocess.run([*tool, "--state", "waiting"], capture_output=True, check=False)
        self.assertEqual((refused.returncode, refused.stdout), (2, b""))

    def test_the_command_line_and_the_python_client_wait(self):
        tool = subprocess.Popen([TENURE, "-p", str(self.server.port), "--json", "alloc",
                                 self.name, "cli", "--wait", "30s"], stdout=subprocess.PIPE)
        self.in_line("cli")
        self.release(self.held, "first")
        lease = json.loads(tool.communicate()[0])
        self.assertEqual((tool.returncode, lease["state"]), (0, "active"))
        with tenure.Client("127.0.0.1:%d" % self.server.port, timeout=0.5) as client:
            with self.assertRaises(tenure.Exhausted):
                client.alloc(self.name, "py", wait=1)
            self.release(lease, "cli")
            self.assertEqual(client.alloc(self.name, "py", wait="1m").waited_ms, 0)


class Restart(unittest.TestCase):
    def connect(self, server):
        client = Resp(server, 3)
        self.addCleanup(client.close)
        return client

    def test_a_server_that_stops_does_not_say_that_nothing_happened(self):
        server = Server()
        self.addCleanup(server.remove)
        with server.client() as client:
            client.execute_command("POOL", "CREATE", "p", "RANGE", 1, 1)
            client.execute_command("ALLOC", "p", "first")
        waiter = Resp(server, 3)
        self.addCleanup(waiter.close)
        waiter.send("ALLOC", "p", "second", "WAIT", 30)
        with server.client() as client:
            until(lambda: b"second" in repr(client.execute_command(
                "LEASES", "STATE", "waiting")).encode(), "in line")
        server.stop()
        self.assertTrue(str(waiter.read()).startswith("LOST"))

    def test_lines_have_an_end(self):
        server = Server(None, "--waiters-max", "2")
        self.addCleanup(server.remove)
        ask = self.connect(server)
        ask.do("POOL", "CREATE", "p", "RANGE", 1, 1)
        ask.do("ALLOC", "p", "first")
        clients = [self.connect(server) for _ in range(3)]
        for number, client in enumerate(clients[:2]):
            client.send("ALLOC", "p", "w%d" % number, "WAIT", 60)
        until(lambda: ask.do("POOL", "INFO", "p")["waiting"] == 2, "two in line")
        self.assertRegex(clients[2].do("ALLOC", "p", "w2", "WAIT", 60), "^WAITERS_FULL ")
        http_client = http.client.HTTPConnection("127.0.0.1", server.http_port, timeout=30)
        self.addCleanup(http_client.close)
        http_client.request("POST", "/v1/pools/p/leases", json.dumps({"holder": "w3", "wait": "60"}),
                            {"Content-Type": "application/json"})
        answer = http_client.getresponse()
        self.assertEqual(json.load(answer)["result"], "WAITERS_FULL")
        done = subprocess.run([TENURE, "-p", str(server.port), "alloc", "p", "w4", "--wait", "60"], check=False,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("WAITERS_FULL", done.stderr)
        # A place that becomes free is the next one's.
        clients[0].close()
        until(lambda: ask.do("POOL", "INFO", "p")["waiting"] == 1, "one in line")
        clients[2].send("ALLOC", "p", "w2", "WAIT", 60)
        until(lambda: ask.do("POOL", "INFO", "p")["waiting"] == 2, "two in line")

    def test_after_a_restart_a_waiter_is_unattended_until_its_client_is_back(self):
        server = Server()
        self.addCleanup(server.remove)
        ask = self.connect(server)
        ask.do("POOL", "CREATE", "p", "RANGE", 1, 1)
        held = ask.do("ALLOC", "p", "a")
        for holder, more in (("kept", ("OPID", "x")), ("lost", ())):
            waits = self.connect(server)
            waits.send("ALLOC", "p", holder, "WAIT", 60, *more)
            until(lambda name=holder: name in [lease["holder"] for lease in ask.do(
                "LEASES", "STATE", "waiting")["leases"]], "in line")
        server.stop(signal.SIGKILL)
        server.start()
        ask = self.connect(server)
        waiting = ask.do("LEASES", "STATE", "waiting")["leases"]
        self.assertEqual([(lease["holder"], lease["attended"]) for lease in waiting],
                         [("kept", False)])
        again = self.connect(server)
        again.send("ALLOC", "p", "kept", "WAIT", 60, "OPID", "x")
        until(lambda: ask.do("LEASE", waiting[0]["lease"])["attended"], "attended")
        ask.do("RELEASE", held["lease"], "a", held["epoch"])
        self.assertEqual(again.read()["lease"], waiting[0]["lease"])


if __name__ == "__main__":
    unittest.main(verbosity=2)
