#!/usr/bin/env python3
"""The client libraries in clients/, each against real servers, by one table: tests/clients/cases.json.

A client is driven by a small program (in tests/clients) that reads a call in each line and
answers each in a line, in any order:

    {"id": 1, "client": "main", "call": "alloc", "args": {"pool": "ports", "holder": "job/42"}}
    {"id": 1, "ok": {"result": "OK", "lease": "0-17", ...}}      or "error": {"result", "outcome", ...}

A step of a case is a call with its expected answer (`expect`, a part of it; `error`), repeated until it matches
(`until`), or begun in the background and finished later; or an action on the servers
(`do`). "$name.field" is a field of an earlier answer that was saved."""
import json
import os
import queue
import re
import signal
import subprocess
import threading
import time
import unittest

import redis

from fakecluster import FakeCluster
from harness import BUILD, PATIENCE, Server, port_of, reserve, text_of, until
from pyclient import ROOT, Proxy, Scripted
from tls_kit import Certificates, TlsServer

HERE = os.path.join(ROOT, "tests", "clients")
SECRET = "correct horse"


def hashed():
    tenured = os.path.join(BUILD, "tenured")
    return subprocess.run([tenured, "--hash-secret"], input=SECRET + "\n", text=True, check=True,
                          stdout=subprocess.PIPE, timeout=PATIENCE).stdout.strip()


def python_driver():
    return ["/usr/bin/python3", os.path.join(HERE, "driver.py")]


def node_driver():
    return ["node", os.path.join(HERE, "driver.mjs")]


def go_driver():
    """Built with a cache of its own: the test needs no home directory."""
    program = os.path.abspath(os.path.join(BUILD, "tests", "godriver"))
    subprocess.run(["go", "build", "-o", program, "."], cwd=os.path.join(HERE, "godriver"), check=True,
                   env={**os.environ, "GOCACHE": os.path.join(ROOT, "build", "go"), "GOFLAGS": "-mod=mod",
                        "GOPROXY": "off"}, timeout=PATIENCE)
    return [program]


DRIVERS = {"python": python_driver, "node": node_driver, "go": go_driver}


class Driver:
    """A driver program; calls may be made from several threads."""

    def __init__(self, command, environment=None):
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                                        env=environment)
        self.lock = threading.Lock()
        self.answers = {}
        self.last = 0
        threading.Thread(target=self.read, daemon=True).start()

    def read(self):
        for line in self.process.stdout:
            answer = json.loads(line)
            self.answers.pop(answer["id"]).put(answer)
        for waiting in list(self.answers.values()):
            waiting.put({"error": {"result": "OTHER", "text": "the driver has ended"}})

    def begin(self, step):
        answer = queue.Queue()
        with self.lock:
            self.last += 1
            self.answers[self.last] = answer
            request = {"id": self.last, "client": step.get("client", "main"), "call": step["call"],
                       "args": step.get("args", {})}
            self.process.stdin.write(json.dumps(request) + "\n")
            self.process.stdin.flush()
        return answer

    def call(self, step):
        return self.begin(step).get(timeout=PATIENCE)

    def end(self):
        self.process.stdin.close()
        self.process.wait(PATIENCE)
        self.process.stdout.close()


def fault(got, want, path="answer"):
    """Why `got` does not match `want`; None if it does."""
    if isinstance(want, dict) and "$above" in want:
        return None if got is not None and got > want["$above"] else "%s: %r > %r" % (path, got, want["$above"])
    if isinstance(want, dict) and "$some" in want:
        return None if got not in (None, "", 0) else "%s is missing: %r" % (path, got)
    if isinstance(want, dict) and "$has" in want:
        return None if any(fault(g, want["$has"]) is None for g in got) else \
            "%s has no %r: %r" % (path, want["$has"], got)
    if isinstance(want, dict):
        if not isinstance(got, dict):
            return "%s: %r is no object" % (path, got)
        faults = [fault(got.get(k), v, path + "." + k) for k, v in want.items()]
        return next((f for f in faults if f), None)
    if isinstance(want, list):
        if not isinstance(got, list) or len(got) != len(want):
            return "%s: %r, not %r" % (path, got, want)
        faults = [fault(g, w, "%s[%d]" % (path, i)) for i, (g, w) in enumerate(zip(got, want))]
        return next((f for f in faults if f), None)
    return None if got == want and isinstance(got, bool) == isinstance(want, bool) else \
        "%s: %r, not %r" % (path, got, want)


class Run:
    """The cases of one language, with a server, a proxy and a cluster of its own."""

    def __init__(self, language, secure, certificates):
        self.driver = Driver(DRIVERS[language]())
        self.server = Server(None, keep=True)
        self.proxy = Proxy(self.server)
        self.cluster = FakeCluster()
        self.dead = reserve()
        self.names = {
            "direct": "127.0.0.1:%d" % self.server.port, "proxy": "127.0.0.1:%d" % self.proxy.port,
            "socket": self.server.socket, "dead": "127.0.0.1:%d" % port_of(self.dead),
            "nodes": ",".join(n.address for n in self.cluster.nodes),
            "follower": self.cluster.nodes[2].address, "language": language,
            "secure": "localhost:%d" % secure.tls_port, "secure_socket": secure.socket, "ca": certificates["ca.pem"]}
        self.saved, self.begun = {}, {}
        self.scripted = None

    def end(self):
        self.driver.end()
        self.play()
        self.proxy.close()
        self.cluster.remove()
        self.server.remove()
        self.dead.close()

    def fill(self, value):
        """The value with its variables replaced."""
        if isinstance(value, dict):
            return {k: self.fill(v) for k, v in value.items()}
        if isinstance(value, list):
            return [self.fill(v) for v in value]
        if isinstance(value, str) and value.startswith("$"):
            name, *path = value[1:].split(".")
            found = self.saved[name]
            for field in path:
                found = found[int(field) if isinstance(found, list) else field]
            return found
        if isinstance(value, str):
            return re.sub(r"{(\w+)}", lambda found: self.names[found.group(1)], value)
        return value

    def play(self, answers=None, hellos=()):
        """From now on {script} is a server that gives these answers; None: there is none."""
        if self.scripted:
            self.scripted.close()
        self.scripted = Scripted(*answers, hellos=hellos) if answers is not None else None
        self.names["script"] = self.scripted.address if self.scripted else ""

    def stop_driver(self, lease):
        """Stops the driver, as a debugger or a suspended virtual machine would, until this lease has ended."""
        pid = self.driver.process.pid
        os.kill(pid, signal.SIGSTOP)
        try:
            with self.server.client() as c:
                until(lambda: "expired" in c.execute_command("LEASE", lease), "the end of the lease")
        finally:
            os.kill(pid, signal.SIGCONT)

    def do(self, words, step):
        if words == "script":
            self.play(step["answers"], step.get("hellos", ()))
        elif words == "driver stop":
            self.stop_driver(self.fill(step["lease"]))
        elif words == "server crash":
            self.server.stop(signal.SIGKILL)
            self.server.start()
            self.proxy.swallow = False
            self.proxy.cut()
        elif words in ("proxy swallow", "proxy refuse", "proxy allow"):
            self.proxy.swallow = words == "proxy swallow"
            self.proxy.refuse = words == "proxy refuse"
            if words != "proxy swallow":
                self.proxy.cut()
        elif words == "proxy cut":
            self.proxy.cut()
        elif words == "proxy hush":
            self.proxy.hush()
        elif words.startswith("cluster lead"):
            number = int(words.split()[2])
            self.cluster.do("lead", number)
            until(lambda: self.cluster.nodes[number].role() == "master", "the next owner")
        elif words.startswith("cluster demoted"):
            node = self.cluster.nodes[int(words.split()[2])]
            until(lambda: node.role() == "slave", "the owner has lost the log")
        else:
            self.cluster.do(*words.split()[1:])

    def check(self, step, answer):
        """The fault of the answer; None: it has none."""
        if "error" in step:
            return fault(answer.get("error"), self.fill(step["error"]), "error") if "error" in answer \
                else "no error: %r" % answer["ok"]
        if "error" in answer:
            return "an error: %r" % answer["error"]
        want = step.get("until", step.get("expect"))
        return None if want is None else fault(answer["ok"], self.fill(want))

    def step(self, step):
        if "do" in step:
            self.do(step["do"], step)
            return
        call = self.fill({k: step[k] for k in ("client", "call", "args") if k in step})
        if "begin" in step:
            self.begun[step["begin"]] = self.driver.begin(call)
            return
        answer = self.begun.pop(step["finish"]).get(timeout=PATIENCE) if "finish" in step \
            else self.driver.call(call)
        wrong = self.check(step, answer)
        end = time.monotonic() + PATIENCE
        while wrong and "until" in step and time.monotonic() < end:
            time.sleep(0.02)
            answer = self.driver.call(call)
            wrong = self.check(step, answer)
        if wrong:
            raise AssertionError(wrong)
        if "save" in step:
            self.saved[step["save"]] = answer["ok"]

    def case(self, case):
        """The fault of the case; None: it has none."""
        for step in case["steps"]:
            try:
                self.step(step)
            except (AssertionError, queue.Empty, KeyError) as error:
                self.proxy.swallow = self.proxy.refuse = False
                return "%s:\n  %s %s\n  in the step %s" % (
                    case["name"], type(error).__name__, error, json.dumps(step))
        return None

    def all(self, cases, faults):
        try:
            for name, address in (("main", "proxy"), ("direct", "direct")):
                # `direct` must not find connections of before a crash in its way.
                args = {"address": self.names[address], "timeout": PATIENCE, "retry_seconds": PATIENCE}
                self.driver.call({"call": "connect", "client": name, "args": args})
            faults += [f for f in map(self.case, cases) if f]
        finally:
            self.end()


def table():
    """The cases, and one for the outcome of every result that the server has."""
    cases = json.loads(text_of(os.path.join(HERE, "cases.json")))
    rows = re.findall(r"X\((\w+),\s*(\w+),\s*\d+,\s*\d+,",
                      text_of(os.path.join(ROOT, "src", "kernel", "result.h")))
    assert len(rows) > 30
    steps = [{"call": "outcome_of", "args": {"result": name}, "expect": outcome.lower()}
             for name, outcome in rows]
    return cases + [{"name": "the outcomes of all results are known", "steps": steps}]


class Table(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        """All languages at the same time: most of it is waiting."""
        certificates = Certificates()
        config = certificates["tenure.ini"]
        with open(config, "w", encoding="ascii") as file:
            file.write("[user ci]\nrole = operator\nsecret = %s\n" % hashed())
        secure = TlsServer(None, *certificates.flags("--config", config))
        cases = table()
        cls.faults = {language: [] for language in DRIVERS}
        threads = []
        for language, faults in cls.faults.items():
            faults.append("%s: it has not ended" % language)
            threads.append(threading.Thread(target=cls.run_language, args=(
                language, secure, certificates, cases, faults)))
            threads[-1].start()
        for thread in threads:
            thread.join()
        secure.remove()
        certificates.remove()

    @staticmethod
    def run_language(language, secure, certificates, cases, faults):
        Run(language, secure, certificates).all(cases, faults)
        faults.pop(0)

    def passed(self, language):
        if self.faults[language]:
            self.fail("\n".join(self.faults[language]))

    def test_every_case_in_python(self):
        self.passed("python")

    def test_every_case_in_node(self):
        self.passed("node")

    def test_every_case_in_go(self):
        self.passed("go")

    def test_names_of_cases_are_unique(self):
        names = [case["name"] for case in table()]
        self.assertEqual(len(names), len(set(names)))


class Environment(unittest.TestCase):
    """The log-in of the variables that the command line reads."""

    @classmethod
    def setUpClass(cls):
        cls.server = Server(None)
        with redis.Redis(unix_socket_path=cls.server.socket) as root:
            root.execute_command("USER", "ADD", "ci", "ROLE", "reader", "SECRET", SECRET)
            root.execute_command("USER", "ADD", "default", "ROLE", "reader", "SECRET", SECRET)
        cls.file = os.path.join(cls.server.data, "secret")
        with open(cls.file, "w", encoding="ascii") as file:
            file.write(SECRET + "\nand more\n")

    @classmethod
    def tearDownClass(cls):
        cls.server.remove()

    def whoami(self, language, environment, **options):
        driver = Driver(DRIVERS[language](), {**os.environ, **environment})
        try:
            made = driver.call({"call": "connect", "client": "c", "args": {
                "address": "127.0.0.1:%d" % self.server.port, **options}})
            return made if "error" in made else driver.call({"call": "whoami", "client": "c"})
        finally:
            driver.end()

    def test_the_user_of_the_environment_logs_in_unless_another_one_is_given(self):
        secret, file = {"TENURE_SECRET": SECRET}, {"TENURE_SECRET_FILE": self.file}
        for language in DRIVERS:
            for environment, options, name in (
                    ({"TENURE_USER": "ci", **secret}, {}, "ci"), ({"TENURE_USER": "ci", **file}, {}, "ci"), (file, {}, "default"),
                    ({"TENURE_USER": "nobody", **secret}, {"username": "ci"}, "ci"),
                    ({"TENURE_USER": "nobody", "TENURE_SECRET": "no"}, {"username": "ci", "password": SECRET}, "ci")):
                with self.subTest(language=language, environment=environment, options=options):
                    said = self.whoami(language, environment, **options)
                    self.assertEqual(said.get("ok", said).get("name"), name, said)
            with self.subTest(language=language):
                said = self.whoami(language, {"TENURE_USER": "ci"})
                self.assertEqual(said["error"]["result"], "NOAUTH")
                said = self.whoami(language, {"TENURE_SECRET_FILE": self.file + "-none"})
                self.assertEqual(said["error"]["result"], "OTHER")
                self.assertIn(self.file + "-none", said["error"]["text"])


class Methods(unittest.TestCase):
    # Of the protocol, or of those that run a server, who have the command line.
    APART = {"COMMAND", "BACKUP", "CLIENT", "CONFIG", "SENTINEL", "AUTH", "HELLO", "QUIT", "READONLY", "READWRITE", "RESET", "SELECT",
             "SUBSCRIBE", "PSUBSCRIBE", "UNSUBSCRIBE", "PUNSUBSCRIBE", "ECHO", "INFO", "ROLE", "SNAPSHOT", "NODE CLOSE",
             "NODE FORGET", "NODE STEP-DOWN", "SENSOR RESET", "SENSOR RESTART", "TOKEN ROTATE"}

    def test_every_command_has_a_method_in_every_language(self):
        with open(os.path.join(ROOT, "docs/commands.md"), encoding="utf-8") as file:
            names = [name for name in re.findall(r"(?m)^#+ ([A-Z]+(?: [A-Z-]+)?)$", file.read())
                     if not {name, name.split()[0]} & self.APART]
        self.assertGreater(len(names), 50)
        go = "".join(text_of(os.path.join(ROOT, "clients/go", name)) for name in ("commands.go", "commands_more.go"))
        types = text_of(os.path.join(ROOT, "clients/node/index.d.ts"))
        for name in names:
            pascal = "".join(word.capitalize() for word in name.split()).replace("Whoami", "WhoAmI")
            self.assertRegex(go, r"\nfunc \(c \*Client\) %s\(" % pascal)
            camel = name.lower() if name == "WHOAMI" else pascal[0].lower() + pascal[1:]
            self.assertRegex(types, r"\n  %s\(" % camel)


if __name__ == "__main__":
    unittest.main()
