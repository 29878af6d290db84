#!/usr/bin/env python3
"""clients/python/tenure.py against the real server: its source, every method, refusals, and the
three outcomes."""
import ast
import doctest
import os
import pickle
import re
import socket
import subprocess
import sys
import threading
import unittest

import yaml

from harness import Server, port_of, reserve, text_of, until
from pyclient import CLIENT, ROOT, Case, Scripted, tenure

DONE = "%3\r\n+result\r\n+OK\r\n+lsn\r\n:7\r\n+replayed\r\n#f"


class Recording(tenure.Client):
    """Remembers the names of the commands it has sent."""

    def __init__(self, *arguments, **options):
        super().__init__(*arguments, **options)
        self.sent = set()

    def execute(self, *words, opid=None):
        two = " ".join(str(w).upper() for w in words[:2])
        self.sent.add(two if two in tenure.COMMANDS else str(words[0]).upper())
        return super().execute(*words, opid=opid)


class Source(unittest.TestCase):
    def test_the_types_are_checked(self):
        out = subprocess.run([os.path.join(ROOT, "tools", "lint.sh"), "python"],
                             stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
        self.assertEqual(out.returncode, 0, out.stdout.decode())

    def test_it_is_one_file_of_python_3_9_that_needs_nothing_else(self):
        tree = ast.parse(text_of(os.path.join(CLIENT, "tenure.py")), feature_version=(3, 9))
        names = set()
        for node in ast.walk(tree):
            if isinstance(node, ast.Import):
                names.update(alias.name.partition(".")[0] for alias in node.names)
            elif isinstance(node, ast.ImportFrom):
                self.assertEqual(node.level, 0)
                names.add(node.module.partition(".")[0])
        self.assertEqual(names - set(sys.stdlib_module_names), set())

    def test_results_are_those_of_the_server(self):
        rows = re.findall(r'X\((\w+),\s*(\w+),\s*\d+,\s*\d+,\s*"([^"]*)"\)',
                          text_of(os.path.join(ROOT, "src", "kernel", "result.h")))
        self.assertGreater(len(rows), 30)
        for name, outcome, text in rows:
            self.assertEqual(tenure.outcome_of(name), outcome.lower(), name)
            if name not in ("OK", "NOOP"):
                self.assertEqual(tenure.ResultError.by_result[name].__doc__, text)
        self.assertEqual(set(tenure.ResultError.by_result) | {"OK", "NOOP"},
                         {name for name, _, _ in rows})

    def test_the_examples_in_the_docstrings_work(self):
        failed, tried = doctest.testmod(tenure)
        self.assertEqual((failed, tried > 1), (0, True))

    def test_the_version_is_said_in_two_places_alike(self):
        text = text_of(os.path.join(CLIENT, "pyproject.toml"))
        self.assertIn('\nversion = "%s"\n' % tenure.__version__, text)

    def test_the_hooks_before_a_commit_are_linters_of_ours(self):
        config = yaml.safe_load(text_of(os.path.join(ROOT, ".pre-commit-config.yaml")))
        files = subprocess.run(["git", "-C", ROOT, "ls-files"], stdout=subprocess.PIPE,
                               check=False).stdout.decode().splitlines()
        script = text_of(os.path.join(ROOT, "tools", "lint.sh"))
        hooks = [hook for repo in config["repos"] for hook in repo["hooks"]]
        self.assertEqual({repo["repo"] for repo in config["repos"]}, {"local"})
        for hook in hooks:
            self.assertEqual((hook["language"], hook["pass_filenames"]), ("system", False))
            self.assertTrue(not files or any(re.search(hook["files"], f) for f in files), hook)
            self.assertEqual(hook["entry"].split()[0], "tools/lint.sh")
            self.assertIn("\n    %s) step " % hook["entry"].split()[1], script)
        self.assertEqual({hook["entry"].split()[1] for hook in hooks},
                         set(re.findall(r"\n    (\w+)\) step ", script)))

    def test_every_type_of_resp3_is_read_however_it_comes(self):
        data = (b"+ok\r\n:-7\r\n$3\r\n\r\n!\r\n$-1\r\n_\r\n#t\r\n#f\r\n,1.5\r\n,inf\r\n"
                b"(123456789012345678901\r\n*-1\r\n*2\r\n:1\r\n*0\r\n~1\r\n+a\r\n"
                b"%1\r\n+k\r\n%0\r\n=7\r\ntxt:abc\r\n|1\r\n+x\r\n:1\r\n:5\r\n"
                b"-ERR no\r\n!5\r\nE a b\r\n>2\r\n+message\r\n+x\r\n")
        want = ["ok", -7, "\r\n!", None, None, True, False, 1.5, float("inf"),
                123456789012345678901, None, [1, []], ["a"], {"k": {}}, "abc", 5, "ERR no", "E a b",
                ["message", "x"]]
        for step in (1, 2, 7, len(data)):
            ours, theirs = socket.socketpair()
            with ours, theirs:
                def send(step=step, theirs=theirs):
                    for i in range(0, len(data), step):
                        theirs.sendall(data[i:i + step])
                thread = threading.Thread(target=send)
                thread.start()
                wire = tenure._Wire(ours)
                self.assertTrue(wire.wait(60))
                got = [wire.read() for _ in want]
                thread.join()
            self.assertEqual(got, want)
            self.assertEqual([type(x).__name__ for x in got[-3:]],
                             ["_ErrorReply", "_ErrorReply", "_Push"])

    def test_addresses(self):
        for text, want in (("h:1", ("h", 1, None, None)), ("h", ("h", 7411, None, None)),
                           ("tenure://[::1]:5", ("::1", 5, None, None)),
                           ("tenure://u:p%40@h/", ("h", 7411, "u", "p@"))):
            self.assertEqual(tenure._Address.parse(text), want)
        for text in ("http://h", "tenure://", "h:1/path", "h:port"):
            with self.assertRaises(ValueError):
                tenure._Address.parse(text)
        for options in ({"timeout": 0}, {"retry_seconds": -1}, {"retry_seconds": 595},
                        {"connections": 0}):
            with self.assertRaises(ValueError):
                tenure.Client("h", **options)


class Readme(Case):
    def test_its_examples_work(self):
        os.environ["TENURE_URL"] = "tenure://" + self.address
        try:
            failed, tried = doctest.testfile(os.path.join(CLIENT, "README.md"),
                                             module_relative=False,
                                             optionflags=doctest.ELLIPSIS)
        finally:
            del os.environ["TENURE_URL"]
        self.assertEqual((failed, tried > 10), (0, True))


class Methods(Case):
    def test_every_command_has_a_method_and_a_kind(self):
        found = {}
        for name, docs in self.client.command_docs().items():
            for full in docs.get("subcommands") or [name]:
                found[full.replace("|", " ").upper()] = full
        found["COMMAND"] = "command"  # which has subcommands and is one itself
        for name, full in found.items():
            method = {"IMPORT": "import_"}.get(name, name.lower().replace(" ", "_").replace("-", "_"))
            self.assertTrue(any(callable(getattr(c, method, None)) for c in (
                tenure.Client, tenure.Connection, tenure.Subscription)), "no method for " + name)
        self.assertEqual(set(tenure.COMMANDS), set(found))
        for name, kind in tenure.COMMANDS.items():
            flags = self.client.command_info(found[name])[0][2]
            self.assertEqual(kind, "write" if "write" in flags else
                             "read" if "readonly" in flags else "connection", name)

    def test_all_of_them(self):
        with Recording("unix://" + self.server.socket) as c:
            self.pools(c)
            self.leases(c)
            self.revoked(c)
            self.rest(c)
            self.tokens(c)
            self.about_the_server(c)
            alone = {"AUTH", "CLIENT GETNAME", "CLIENT ID", "CLIENT SETINFO", "CLIENT SETNAME",
                     "HELLO", "QUIT", "READONLY", "READWRITE", "RESET", "SELECT", "SUBSCRIBE", "PSUBSCRIBE",
                     "UNSUBSCRIBE", "PUNSUBSCRIBE"}
            self.assertEqual(set(tenure.COMMANDS) - c.sent - self.users(), alone)

    def users(self):
        """On a server of their own: once the first user exists, anonymous clients are refused."""
        server = Server()
        try:
            with Recording("unix://" + server.socket) as c:
                self.assertEqual(c.whoami().source, "socket")
                c.user_add("ci", "reader", "s3cret", pools="a b", max_values=3, reason="new")
                c.user_set("ci", role="holder", pools="*", max_values=0)
                self.assertEqual(c.user_list(count=10).users,
                                 (tenure.User("ci", "holder", "logged", None, None, 0, 0),))
                with tenure.Client("redis://ci:s3cret@127.0.0.1:%d" % server.port) as ci:
                    self.assertEqual((ci.whoami().name, ci.whoami().source), ("ci", "logged"))
                c.user_delete("ci")
                return c.sent
        finally:
            server.remove()

    def pools(self, c):
        done = c.pool_create("ports", range=(30000, 30009), lease=60, exclude=[(30008, 30009)])
        self.assertEqual((done.result, done.replayed), ("OK", False))
        c.pool_create("gpus", set=True)
        c.pool_create("devices", sticky=True, high_rate_min_factor=0.5)
        self.assertEqual(c.pool_add("gpus", "g1", "g2", "g3").count, 3)
        self.assertEqual(c.pool_remove("gpus", "g3").count, 1)
        c.pool_alter("ports", lease=120, range=(30000, 30010))
        c.pool_seed("ports", given=2, reclaimed=1)
        pool = c.pool_info("ports", fence=done.lsn)
        self.assertEqual((pool.name, pool.size, pool.free), ("ports", 9, 9))
        self.assertEqual(pool.excluded, 2)
        self.assertEqual((pool.options["lease"], pool.options["exclude"]), ("120", "30008-30009"))
        self.assertEqual({p.name for p in c.pools()}, {"ports", "gpus", "devices"})
        self.assertEqual(len(c.pool_list(count=1).pools), 1)
        history = c.pool_history("devices", step="hour", count=3)
        self.assertEqual((history.step, len(history.figures["active"])), ("hour", len(history.figures["time"])))
        self.assertEqual(c.pool_metrics("devices").base_lease_seconds, 2592000)
        rows = list(c.values("devices", state="available"))
        self.assertEqual(rows, list(c.pool_values("devices", state="available").values))
        free = c.value("devices/" + rows[-1].value)
        self.assertEqual((free.state, free.lease, free.last_holder), ("available", None, None))
        self.assertEqual(c.pool_info("devices").options["high_rate_min_factor"], "0.500000")

    def leases(self, c):
        grant = c.alloc("ports", "job/1", count=2, ttl=60, meta={"ä": 1})
        self.assertEqual((grant.values, grant.state), (("30000", "30001"), "active"))
        lease = c.lease("ports/30001")
        self.assertEqual((lease.holder, lease.meta, lease.token), ("job/1", {"ä": 1}, grant.token))
        self.assertEqual((lease.ttl, lease.deadline, lease.user),
                         (60, grant.deadline, "unix:%d" % os.getuid()))
        self.assertEqual(c.alloc("ports", "job/1", values=[30005]).value, "30005")
        self.assertEqual(c.alloc("ports", "from", values=[30006]).value, "30006")
        self.assertEqual({x.values for x in c.all_leases(pool="ports", holder="job/1")},
                         {("30000", "30001"), ("30005",)})
        self.assertEqual(len(c.leases(state="active", count=1).leases), 1)
        self.assertEqual(c.verify(*[grant.lease, 1]).deadline, grant.deadline)
        moved = c.touch(grant.lease, 1, ttl=90, meta={})
        self.assertGreater(moved.deadline, grant.deadline)
        self.assertEqual(c.rekey(grant.lease, 1, "job/2").epoch, 2)
        self.assertEqual(c.release(grant.lease, "job/2", 2).state, "released")
        device = c.alloc("devices", meta={"serial": "s-1"})
        self.assertEqual(c.lease(device.lease).holder, "serial:s-1")
        self.assertEqual(c.release(device.lease, "serial:s-1", 1).state, "offline")
        bundle = c.reserve("job/3", {"ports": 2, "gpus": ["g1"]}, ttl=30, meta={"why": "x"})
        self.assertEqual((bundle.state, bundle.values), ("reserved", ("30000", "30001", "g1")))
        self.assertEqual(c.activate(bundle.lease, "job/3", 1).state, "active")
        self.assertEqual(c.import_("ports", "job/7", [30007], created=1700000000000).state,
                         "active")
        self.assertEqual(c.lease("ports/30007").created, 1700000000000)
        self.assertEqual(c.disown("job/7", pool="ports").count, 1)

    def revoked(self, c):
        one = c.alloc_bundle("job/4", [("ports", 1), ("gpus", ["g2"])], ttl=30)
        self.assertEqual(c.revoke(one.lease, after=30).state, "revoking")
        self.assertEqual(c.ack(one.lease, "job/4", one.epoch).state, "revoked")
        two = c.alloc("gpus", "job/5")
        c.revoke(two.lease)
        self.assertEqual(c.reclaim(two.lease).state, "revoked")
        page = c.events(pool="gpus", holder="job/5", count=2)
        self.assertEqual([e.kind for e in page.events], ["lease.active", "lease.revoking"])
        later = c.events(after=page.next, pool="gpus", holder="job/5")
        self.assertEqual([(e.kind, e.reason, e.values) for e in later.events],
                         [("lease.revoked", "reclaimed", ("g2",))])

    def rest(self, c):
        self.assertEqual((c.sweep().count, c.sweep(pool="ports").count), (0, 0))
        self.assertGreater(c.tick().lsn, 0)
        c.rule_set("r1", "core.timer", disabled=True)
        self.assertIsNone(c.rule_info("r1").meta)
        c.rule_enable("r1")
        self.assertEqual(c.rule_list().rules, (tenure.Rule("r1", "core.timer", True),))
        c.sensor_set("s1", "core.timer", {"command": ["/bin/true"]}, disabled=True)
        c.sensor_enable("s1")
        self.assertEqual(c.sensor_info("s1"), tenure.Sensor(
            "s1", "core.timer", True, True, 1, {"command": ["/bin/true"]}))
        status = c.sensor_status("s1")
        self.assertEqual((status.ref, status.supervised, status.active_rules), ("s1", True, 1))
        self.assertIn(c.sensor_restart("s1"), ("stopped", "starting", "running", "stopping",
                                               "backoff"))
        with self.assertRaises(tenure.NotFound):
            c.sensor_reset("nobody")
        with self.assertRaises(tenure.NotFound):
            c.sensor_logs("nobody", after="1.0", count=10)
        with self.assertRaises(tenure.BadToken):
            c.sensor_heartbeat("x")
        c.sensor_disable("s1")
        self.assertFalse(c.sensor_list(count=10).sensors[0].wanted)
        c.rule_disable("r1")
        c.sensor_delete("s1")
        self.assertEqual(c.rule_delete("r1").result, "OK")
        c.pool_create("short", range=(1, 2))
        c.pool_drop("short")
        c.snapshot()

    def tokens(self, c):
        c.sensor_set("s2", "core.tick", {"command": ["/bin/sleep", "999"], "settle_seconds": 0})
        c.rule_set("r2", "core.tick", meta={"seconds": 5})
        until(lambda: c.sensor_status("s2").state == "running", "the sensor to run")
        sensor = c.token_sensor("s2", ttl=60)
        self.assertEqual((sensor.subject, sensor.trigger_types, sensor.expires_in),
                         ("sensor:s2", ("core.tick",), 60))
        self.assertEqual(c.sensor_heartbeat(sensor.token), sensor.expires_at)
        rule = tenure.Rule("r2", "core.tick", True, {"seconds": 5})
        self.assertEqual(c.rule_info("r2"), rule)
        self.assertEqual(c.sensor_rules("s2", sensor.token).rules, (rule,))
        emitted = c.emit(sensor.token, "core.tick", {"n": 1})
        event = c.events(after=str(emitted.lsn - 1)).events[0]
        self.assertEqual((event.id, event.kind, event.name, event.trigger, event.payload),
                         (emitted.id, "sensor.emitted", "s2", "core.tick", {"n": 1}))
        run = c.alloc("devices", "job/9")
        token = c.token_issue(run.lease, run.epoch, scope="x")
        with self.assertRaises(tenure.Denied):
            c.emit(token.token, "core.tick", {"n": 1})
        with self.assertRaises(tenure.BadToken) as refused:
            c.emit("x", "core.timer")
        self.assertIsNone(refused.exception.lsn)
        self.assertNotIn(token.token, repr(token))
        newer = c.token_refresh(token.token, ttl=100)
        self.assertEqual((newer.id, newer.scope), (token.id, "x"))
        kid = c.token_rotate()
        self.assertEqual([k["kid"] for k in c.token_keys()][0], kid)
        state = c.token_introspect(newer.token)
        self.assertEqual((state.active, state.reason, state.subject, state.expires_at),
                         (True, None, "holder:job/9", newer.expires_at))
        moved = c.token_revoke(token.id)
        state = c.token_introspect(newer.token, fence=moved.lsn)
        self.assertEqual((state.active, state.reason, state.id), (False, "stale", token.id))
        self.assertEqual(c.token_introspect("x").reason, "malformed")
        c.token_rotate(now=True)
        self.assertEqual(len(c.token_keys()), 1)

    def about_the_server(self, c):
        self.assertEqual((c.ping(), c.ping("x"), c.echo("ö")), ("PONG", "x", "ö"))
        self.assertGreater(c.time(), 1.7e9)
        self.assertIn("tenure_version", c.info("server"))
        self.assertEqual(c.config_get("save"), {"save": ""})
        self.assertEqual(c.command_count(), len(c.command_list()))
        self.assertGreater(len(c.command()), 10)
        self.assertIn("summary", c.command_docs("alloc")["alloc"])
        self.assertEqual(c.command_info("alloc")[0][0], "alloc")
        self.assertEqual((c.role()[0], c.role()[2]), ("master", []))
        host, port = c.sentinel_get_master_addr_by_name()
        self.assertEqual((host, port), ("127.0.0.1", self.server.port))
        self.assertIsNone(c.sentinel_get_master_addr_by_name("other"))
        self.assertEqual(c.sentinel_master()["flags"], "master")
        self.assertEqual(c.sentinel_masters(), [c.sentinel_master()])
        self.assertEqual(c.sentinel_replicas() + c.sentinel_slaves() + c.sentinel_sentinels(), [])
        self.assertTrue(c.sentinel_ckquorum().startswith("OK "))
        backup = c.backup_begin()
        self.assertEqual(c.backup_read(backup["backup"], "0000000000000001.log", 0, 8), b"TENURLOG")
        c.backup_end(backup["backup"])
        self.assertEqual([(n["role"], n["self"]) for n in c.node_list()], [("owner", True)])
        for call in (c.node_step_down, c.node_close, lambda: c.node_forget("n")):
            self.assertRaises(tenure.BadRequest, call)
        with c.connection() as mine:
            self.assertEqual(mine.hello(3)["server"], "tenure")
            mine.client_setname("k")
            mine.client_setinfo("LIB-NAME", "tenure-py")
            self.assertEqual(mine.client_getname(), "k")
            listed = [x for x in c.client_list() if x["name"] == "k"]
            self.assertEqual([x["id"] for x in listed], [str(mine.client_id())])
            mine.select()
            mine.readonly()
            mine.readwrite()
            mine.auth("secret", "default")
            mine.reset()
            self.assertEqual(mine.alloc("devices", "d").epoch, 1)
            self.assertEqual(c.client_kill(mine.client_id()), 1)
            with self.assertRaises(tenure.Unreachable):
                mine.ping()
        c.connection().quit()

    def test_a_name_and_a_password_are_given_at_once(self):
        with tenure.Client(self.address, name="me", password="any") as c:
            self.assertIn("me", [x["name"] for x in c.client_list()])

    def test_bytes_and_numbers_beyond_63_bits_come_through(self):
        raw = self.client.execute("ECHO", b"\xff\r\n\x00")
        self.assertEqual(raw.encode("utf-8", "surrogateescape"), b"\xff\r\n\x00")
        self.client.pool_create("wide", range=(0, 2 ** 64 - 1))
        self.assertGreater(self.client.pool_info("wide").size, 2 ** 63)
        self.assertEqual(self.client.alloc("wide", "w", values=[2 ** 64 - 1]).value,
                         str(2 ** 64 - 1))


class Outcomes(Case):
    def test_refusals_are_exceptions_with_their_names_and_facts(self):
        c = self.client
        c.pool_create("few", range=(1, 1), lease=60, max_lease=100)
        held = c.alloc("few", "a")
        with self.assertRaises(tenure.Exhausted) as caught:
            c.alloc("few", "b")
        self.assertIsInstance(caught.exception, tenure.Refused)
        self.assertEqual((caught.exception.result, caught.exception.retry_at),
                         ("EXHAUSTED", held.deadline))
        self.assertGreater(caught.exception.lsn, held.lsn)
        again = pickle.loads(pickle.dumps(caught.exception))
        self.assertIsInstance(again, tenure.Exhausted)
        self.assertEqual((again.facts, again.opid), (caught.exception.facts, caught.exception.opid))
        for kind, outcome, call in (
                (tenure.BadTtl, tenure.Refused, lambda: c.alloc("few", "b", ttl=101)),
                (tenure.Stale, tenure.Refused, lambda: c.touch(held.lease, 9)),
                (tenure.WrongHolder, tenure.Refused, lambda: c.release(held.lease, "x", 1)),
                (tenure.NotFound, tenure.Refused, lambda: c.lease("0-999999")),
                (tenure.PoolNotFound, tenure.Refused, lambda: c.pool_info("none")),
                (tenure.AlreadyExists, tenure.Refused, lambda: c.pool_create("few", range=(1, 1))),
                (tenure.NotYet, tenure.Rejected, lambda: c.lease(held.lease, fence=10 ** 9)),
                (tenure.Malformed, tenure.Rejected, lambda: c.execute("TOUCH", "x", "y")),
                (tenure.Rejected, tenure.Rejected, lambda: c.execute("NONSENSE"))):
            with self.assertRaises(kind) as caught:
                call()
            self.assertIsInstance(caught.exception, outcome)

    def test_an_operation_id_makes_a_write_happen_once(self):
        self.client.pool_create("once", range=(1, 9))
        first = self.client.alloc("once", "a", opid="my-own")
        again = self.client.alloc("once", "a", opid="my-own")
        self.assertEqual((again.lease, again.replayed), (first.lease, True))
        raw = self.client.execute("ALLOC", "once", "a", "OPID", "my-own")
        self.assertEqual(raw["lease"], first.lease)
        lsn = self.client.execute("TICK", "OPID", "my-tick")["lsn"]
        self.assertEqual(self.client.tick(opid="my-tick").lsn, lsn)
        self.client.pool_create("OPID", set=True)
        self.assertEqual(self.client.pool_add("OPID", "x").count, 1)
        with self.assertRaises(tenure.Conflict) as caught:
            self.client.alloc("once", "b", opid="my-own")
        self.assertEqual(int(caught.exception.facts["opid_lsn"]), first.lsn)

    def test_a_pipeline_answers_in_order_and_keeps_refusals_apart(self):
        self.client.pool_create("line", range=(1, 300))
        answers = self.client.pipeline([["ALLOC", "line", "h/%d" % i] for i in range(301)] + [
            ["POOL", "INFO", "line"]])
        self.assertEqual([a["values"] for a in answers[:300]], [[str(i)] for i in range(1, 301)])
        self.assertIsInstance(answers[300], tenure.Exhausted)
        self.assertEqual(answers[301]["free"], 0)
        self.assertEqual(self.client.pipeline([]), [])

    def scripted(self, *answers, **options):
        server = Scripted(*answers)
        self.addCleanup(server.close)
        client = tenure.Client(server.address, **options)
        self.addCleanup(client.close)
        return server, client

    def test_what_can_pass_is_tried_again_with_the_same_id(self):
        server, client = self.scripted("-OVERLOADED too much", None, "-HALTED disk", "-CLOSED",
                                       DONE)
        self.assertEqual(client.tick().lsn, 7)
        self.assertEqual(len(server.requests), 5)
        self.assertEqual(len({tuple(r) for r in server.requests}), 1)

    def test_a_write_without_an_answer_is_unknown_and_a_read_is_not(self):
        server, client = self.scripted(retry_seconds=0.05)
        with self.assertRaises(tenure.OutcomeUnknown) as caught:
            client.tick()
        self.assertIsInstance(caught.exception, tenure.Unknown)
        self.assertEqual(server.requests[0][-2:], ["OPID", caught.exception.opid])
        with self.assertRaises(tenure.Unreachable) as caught:
            client.ping()
        self.assertIsInstance(caught.exception.__cause__, OSError)
        _, client = self.scripted(DONE, retry_seconds=0)
        first, second, third = client.pipeline([["TICK"], ["TICK"], ["PING"]])
        self.assertEqual(first["lsn"], 7)
        self.assertIsInstance(second, tenure.OutcomeUnknown)
        self.assertIsInstance(third, tenure.Unreachable)

    def test_a_repetition_that_is_turned_away_leaves_the_first_attempt_unknown(self):
        _, client = self.scripted(None, *["-OVERLOADED too much"] * 10000, retry_seconds=0.05)
        with self.assertRaises(tenure.OutcomeUnknown):
            client.tick()
        _, client = self.scripted("-OVERLOADED too much", retry_seconds=0)
        with self.assertRaises(tenure.Overloaded) as caught:
            client.tick()
        self.assertIsInstance(caught.exception, tenure.Rejected)
        _, client = self.scripted("-HALTED disk", retry_seconds=0)
        with self.assertRaises(tenure.Halted) as caught:
            client.tick()
        self.assertIsInstance(caught.exception, tenure.Unknown)

    def test_a_refused_log_in_leaves_the_first_attempt_unknown(self):
        for refusal in ("-NOAUTH no", "-WRONGPASS no", "-OVERLOADED too much"):
            server = Scripted(None, hellos=["+OK"] + [refusal] * 10000)
            self.addCleanup(server.close)
            with tenure.Client(server.address, retry_seconds=0.05) as client:
                with self.assertRaises(tenure.OutcomeUnknown):
                    client.tick()
                with self.assertRaises(tenure.Rejected):
                    client.ping()
        server = Scripted(None, DONE, hellos=["+OK", "-OVERLOADED too much", "+OK"])
        self.addCleanup(server.close)
        with tenure.Client(server.address) as client:
            self.assertEqual(client.tick().lsn, 7)

    def test_what_is_no_resp_counts_as_a_lost_connection(self):
        for nonsense in ("HTTP/1.1 400", ":seven", "$x", "?"):
            server, client = self.scripted(nonsense, DONE)
            self.assertEqual(client.tick().lsn, 7)
            self.assertEqual(server.requests[0], server.requests[1])

    def test_what_it_does_not_know_is_not_repeated(self):
        server, client = self.scripted()
        with self.assertRaises(tenure.OutcomeUnknown):
            client.execute("BRAND", "NEW")
        self.assertEqual(len(server.requests), 1)

    def test_nobody_there(self):
        with reserve() as nobody:
            with tenure.Client("127.0.0.1:%d" % port_of(nobody), retry_seconds=0.05) as client:
                with self.assertRaises(tenure.Unreachable):
                    client.tick()
        with self.assertRaises(tenure.Unreachable):
            client.ping()  # closed

    def test_a_child_process_has_connections_of_its_own(self):
        self.client.ping()
        child = os.fork()
        if child == 0:
            os._exit(0 if self.client.echo("child") == "child" else 1)
        self.assertEqual(self.client.echo("parent"), "parent")
        self.assertEqual(os.waitpid(child, 0)[1], 0)

    def test_threads_share_a_few_connections(self):
        self.client.pool_create("shared", range=(1, 1000))
        with tenure.Client(self.address, connections=3) as client:
            got, threads = [], []
            for i in range(64):
                threads.append(threading.Thread(target=lambda i=i: got.extend(
                    client.alloc("shared", "t/%d" % i).value for _ in range(5))))
                threads[-1].start()
            for thread in threads:
                thread.join()
            self.assertEqual(len(set(got)), 320)
            self.assertLessEqual(client._open, 3)


if __name__ == "__main__":
    unittest.main()
