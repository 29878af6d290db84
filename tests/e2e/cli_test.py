#!/usr/bin/env python3
"""The command line `tenure` against the real server process, and against listeners that misbehave."""
import fcntl
import json
import os
import pty
import re
import shlex
import shutil
import signal
import socket
import struct
import subprocess
import tempfile
import termios
import threading
import unittest

from harness import BUILD, PATIENCE, Case, Server, port_of, reserve, until

TENURE = os.path.abspath(os.path.join(BUILD, "tenure"))


def run(port, *arguments, **options):
    """Exit code, standard output, standard error."""
    environment = {**os.environ, "TENURE_PORT": str(port), "TZ": "UTC", **options.pop("env", {})}
    done = subprocess.run([TENURE, *arguments], timeout=PATIENCE, check=False, env=environment,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, **options)
    return done.returncode, done.stdout.decode(), done.stderr.decode()


def on_terminal(port, *arguments, width=80, height=24, steps=(), env=None):
    """Runs it on its own terminal; returns the exit code and everything that the terminal showed. Each step is
    a text to wait for and the next action: keys, a signal, or a call."""
    main, side = pty.openpty()
    fcntl.ioctl(side, termios.TIOCSWINSZ, struct.pack("HHHH", height, width, 0, 0))
    environment = {**os.environ, "TENURE_PORT": str(port), "TERM": "xterm", **(env or {})}
    process = subprocess.Popen([TENURE, *arguments], stdin=side, stdout=side, stderr=side,
                               env=environment, start_new_session=True)
    os.close(side)
    steps = list(steps)
    seen, looked = b"", 0
    while True:
        if steps and steps[0][0] in seen[looked:]:
            looked = len(seen)
            action = steps.pop(0)[1]
            if isinstance(action, bytes):
                os.write(main, action)
            elif callable(action):
                action()
            else:
                process.send_signal(action)
        try:
            more = os.read(main, 65536)
        except OSError:
            break
        if not more:
            break
        seen += more
    os.close(main)
    return process.wait(PATIENCE), seen.decode()


class Cli(Case):
    def tenure(self, *arguments, code=0, **options):
        got = run(self.server.port, *arguments, **options)
        self.assertEqual(got[0], code, got)
        return got[1]

    def json(self, *arguments, code=0):
        out = self.tenure("--json", *arguments, code=code)
        self.assertEqual(out.count("\n"), 1, out)
        return json.loads(out)


class Commands(Cli):
    def example(self, *words):
        """The example that help shows, as the shell splits it."""
        text = self.tenure("help", *words)
        return shlex.split(re.search(r"^Example: tenure (.*)$", text, re.M).group(1))

    def test_every_subcommand_works_as_its_help_says(self):
        """In an order in which each command finds the objects that it needs; lease ids are filled in as they are created."""
        lease, token = ["0-1042"], [""]
        script = """
            pool create | +pool create gpus --set | +pool create devices --sticky | pool add
            pool alter | pool seed | import | pool info | pool list | pool metrics | pool history | pool remove | alloc | lease
            pool values | value
            verify | leases | touch | revoke | ack | reserve | activate | rekey | revoke | reclaim
            +alloc ports job/42 | release | disown 
            +disown job/7 | sweep | tick | pool drop | snapshot
            rule set | rule info | rule disable | rule enable | rule list | sensor set | sensor info
            sensor disable | sensor enable | sensor list
            +sensor set s1 core.timer '{"command":["/bin/ls","/none"],"backoff_seconds":60}'
            ?s1 backoff | sensor status | sensor logs | sensor reset | sensor restart
            sensor delete | rule delete
            +sensor set core.timer core.tick '{"command":["/bin/sleep","999"],"settle_seconds":0}'
            +rule set r2 core.tick | ?core.timer running | token sensor | sensor rules | emit | sensor heartbeat
            +alloc devices job/42 | token issue | token refresh | token rotate | token keys | token introspect | token revoke
            ping | echo | info | time | client list | config get | role | node list
            user list | whoami
        """
        done = set()
        for line in script.replace("|", "\n").splitlines():
            words = line.strip()
            if not words:
                continue
            if words.startswith("?"):
                ref, state = words[1:].split()
                until(lambda: self.json("sensor", "status", ref)["state"] == state, words)
                continue
            if words.startswith("+"):
                arguments = shlex.split(words[1:])
            else:
                arguments = self.example(*words.split())
                done.add(words)
            arguments = [re.sub("^0-1042", lease[0], w) for w in arguments]
            arguments = [token[0] if w == "eyJ.eyJ.sig" else w for w in arguments]
            if arguments[0] == "-s":  # as the example has it
                arguments = arguments[2:]
            if arguments[:2] == ["sensor", "set"]:
                arguments = ["--socket", self.server.socket] + arguments
            reply = self.json(*arguments)
            if arguments[0] in ("alloc", "reserve"):
                lease[0] = reply["lease"]
            if arguments[0] == "token":
                token[0] = reply.get("token", token[0])
        for words in ("node step-down", "node close", "node forget"):  # of a cluster, which this is not
            refused = self.json(*self.example(*words.split()), code=24)
            self.assertEqual(refused["detail"], "this server is not a node of a cluster")
            done.add(words)
        server = Server()  # of their own: with the first user, anonymous clients stay out
        self.addCleanup(server.remove)
        for words in ("user add", "user set", "user delete"):
            got = run(server.port, "--socket", server.socket, *self.example(*words.split()))
            self.assertEqual(got[0], 0, got)
            done.add(words)
        done.add("client kill")
        self.tenure("client", "kill", "ID", "999999")
        listed = re.search(r"Commands of the server:\n\n(.*?)\n\n", self.tenure("help"), re.S)
        offered = {line[2:18].strip() for line in listed.group(1).splitlines()}
        self.assertEqual(offered | {"import"}, done)

    def test_a_lease_from_birth_to_end(self):
        self.tenure("pool", "create", "life", "--range", "1", "3", "--lease", "60")
        card = self.tenure("alloc", "life", "job/1", "--values", "2", "--meta", '{"a": 1}')
        self.assertRegex(card, r"(?m)^state +active$")
        self.assertRegex(card, r"(?m)^values +2$")
        self.assertRegex(card, r"(?m)^deadline +\d{4}-\d\d-\d\d \d\d:\d\d:\d\d \(in \d+ s\)$")
        lease = re.search(r"(?m)^lease +(\S+)$", card).group(1)
        seen = self.json("lease", "life/2")
        self.assertEqual((seen["lease"], seen["meta"], seen["epoch"]), (lease, {"a": 1}, "1"))
        self.assertEqual(self.json("release", lease, "job/1", "1")["state"], "released")
        self.assertEqual(self.json("pool", "info", "life")["options"]["lease"], "60")

    def test_both_spellings_are_one(self):
        self.tenure("POOL", "CREATE", "both", "RANGE", "1", "9")
        self.assertEqual(self.json("alloc", "both", "h", "COUNT", "2")["values"], ["1", "2"])
        self.assertEqual(self.json("alloc", "both", "h", "--count=2")["values"], ["3", "4"])
        bundle = self.json("alloc", "h", "--from", "both", "--values", "9", "--from", "both")
        self.assertEqual(bundle["values"], ["9", "5"])

    def test_help_names_the_whole_range_of_exit_codes(self):
        codes = self.tenure("help", "exit-codes")
        numbers = [int(n) for n in re.findall(r"^ +(\d+)  (?!tenure run: )", codes, re.M)]
        self.assertIn("10 to %d refused, 50 to %d outcome unknown" %
                      (max(n for n in numbers if n < 50), max(numbers)), self.tenure("help"))

    def test_token_keys_is_a_table(self):
        lines = self.tenure("token", "keys").splitlines()
        self.assertEqual(lines[0].split(), ["KEY", "TYPE", "CURVE", "ALGORITHM", "PUBLIC"])
        kid = json.loads(self.tenure("token", "keys", "--json"))["keys"][0]["kid"]
        self.assertEqual(lines[1].split()[:4], [kid, "OKP", "Ed25519", "EdDSA"])

    def test_durations_may_have_units(self):
        self.tenure("pool", "create", "units", "--range", "1", "9", "--lease", "1h", "--max-lease=30d")
        options = self.json("pool", "info", "units", "--timeout", "1m")["options"]
        self.assertEqual((options["lease"], options["max_lease"]), ("3600", "2592000"))
        lease = self.json("alloc", "units", "h", "--ttl", "15m")["lease"]
        self.assertEqual(self.json("lease", lease)["ttl"], "900")
        for text in ("1.5h", "h", "-1", "", "1h30m"):
            code, _, err = run(self.server.port, "alloc", "units", "h", "--ttl=" + text)
            self.assertEqual(code, 40, text)
            self.assertIn("a whole number of seconds, or one with a unit: 90s, 15m, 12h, 30d", err)

    def test_each_refusal_has_its_exit_code(self):
        self.tenure("pool", "create", "codes", "--range", "1", "2", "--max-per-holder", "1")
        lease = self.json("alloc", "codes", "h")["lease"]
        for code, name, words in [
                (10, "EXISTS", "pool create codes"), (11, "NOTFOUND", "lease 0-99999999"),
                (13, "BUSY", "alloc codes x --values 1"), (15, "QUOTA", "alloc codes h --count 1"),
                (17, "HOLDER", "release %s x 1" % lease), (18, "STALE", "release %s h 7" % lease),
                (19, "TOO_LARGE", "alloc codes x --count 100000"),
                (20, "BAD_TTL", "alloc codes x --ttl 0"),
                (21, "BAD_VALUE", "alloc codes x --values 77"),
                (22, "BAD_NAME", "pool create ''"), (23, "BAD_POLICY", "pool create q --range 9 1"),
                (30, "NOT_YET", "pool info codes --fence 99999999"),
                (31, "POOL_NOTFOUND", "alloc nowhere h"), (32, "POOL_IN_USE", "pool drop codes"),
                (40, "MALFORMED", "alloc codes x --count many"), (1, "ERR", "client kill nobody")]:
            got = run(self.server.port, *shlex.split(words))
            self.assertEqual((got[0], got[1]), (code, ""), words)
            self.assertTrue(got[2].startswith("tenure: %s: " % name), got[2])
            problem = self.json(*shlex.split(words), code=code)
            self.assertEqual(problem["result"], name)
            self.assertIn(problem["outcome"], ("committed", "rejected"))
        self.tenure("alloc", "codes", "x")
        self.assertEqual(run(self.server.port, "alloc", "codes", "y")[0], 14)
        table = self.tenure("help", "exit-codes")
        self.assertRegex(table, r"(?m)^ +14  EXHAUSTED ")
        self.assertRegex(table, r"(?m)^ +52  ")

    def test_an_operation_id_is_answered_once(self):
        self.tenure("pool", "create", "once", "--range", "1", "9")
        first = self.json("alloc", "once", "h", "--opid", "op-1")
        again = self.json("--opid", "op-1", "alloc", "once", "h")
        plain = self.json("alloc", "once", "h", "OPID", "op-1")
        self.assertEqual((first["replayed"], again["replayed"], plain["replayed"]),
                         (False, True, True))
        self.assertEqual({first["lease"]}, {again["lease"], plain["lease"]})
        self.assertEqual(run(self.server.port, "alloc", "once", "x", "--opid", "op-1")[0], 25)
        other = self.json("alloc", "once", "h")
        self.assertNotEqual(first["lease"], other["lease"])
        self.assertEqual(run(self.server.port, "leases", "--opid", "x")[0], 2)

    def test_lists_go_on_by_themselves_up_to_a_limit(self):
        self.tenure("pool", "create", "many", "--range", "1", "5000")
        pipe = self.r.pipeline(transaction=False)
        for i in range(1500):
            pipe.execute_command("ALLOC", "many", "h%d" % i)
        pipe.execute()
        code, out, err = run(self.server.port, "leases", "--pool", "many")
        self.assertEqual((code, out.count("\n")), (0, 1001))
        self.assertIn("there is more", err)
        code, out, err = run(self.server.port, "leases", "--pool", "many", "--limit", "0")
        self.assertEqual((code, out.count("\n"), err), (0, 1501, ""))
        self.assertEqual(len({line.split()[3] for line in out.splitlines()[1:]}), 1500)
        everything = self.json("leases", "--pool", "many", "--limit", "0")
        self.assertEqual(len(everything["leases"]), 1500)
        self.assertEqual(everything["cursor"], "0")
        page = self.json("leases", "--pool", "many", "--count", "7")
        self.assertEqual(len(page["leases"]), 7)
        after = self.json("leases", "--pool", "many", "--count", "7", "--cursor", page["cursor"])
        self.assertNotEqual(page["leases"][6], after["leases"][0])
        self.assertEqual(self.json("leases", "--holder", "nobody")["leases"], [])
        self.assertEqual(run(self.server.port, "leases", "--holder", "nobody"),
                         (0, "", "no leases\n"))

    def test_a_reader_that_leaves_early_is_no_error_message(self):
        self.tenure("pool", "create", "pipe", "--range", "1", "5000")
        pipe = self.r.pipeline(transaction=False)
        for i in range(2000):
            pipe.execute_command("ALLOC", "pipe", "h%d" % i, "META", '{"a":"%s"}' % ("x" * 50))
        pipe.execute()
        done = subprocess.run(["bash", "-c", "\"$0\" -p \"$1\" leases --limit 0 --json | head -c 1",
                               TENURE, str(self.server.port)], timeout=PATIENCE, check=False,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self.assertEqual((done.stdout, done.stderr), (b"{", b""))

    def test_output_that_cannot_be_written_is_an_error(self):
        with open("/dev/full", "w") as full:
            done = subprocess.run([TENURE, "-p", str(self.server.port), "ping"], timeout=PATIENCE,
                                  check=False, stdout=full, stderr=subprocess.PIPE)
        self.assertEqual(done.returncode, 1)
        self.assertIn(b"cannot write", done.stderr)

    def test_the_server_is_found_by_flags_and_environment(self):
        port = str(self.server.port)
        for flags, env in [(["-p", port], {}), (["--port", port, "-h", "localhost"], {}),
                           (["--port=" + port, "--host=127.0.0.1"], {}), ([], {"TENURE_PORT": port}),
                           ([], {"TENURE_URL": "tenure://127.0.0.1:" + port}),
                           ([], {"TENURE_URL": "redis://nowhere.invalid:" + port,
                                 "TENURE_HOST": "127.0.0.1"}),
                           (["-p", port], {"TENURE_PORT": "1"})]:
            environment = {k: v for k, v in os.environ.items() if not k.startswith("TENURE_")}
            done = subprocess.run([TENURE, *flags, "ping"], env={**environment, **env}, check=False,
                                  timeout=PATIENCE, stdout=subprocess.PIPE)
            self.assertEqual((done.returncode, done.stdout), (0, b"PONG\n"), (flags, env))
        for env in [{"TENURE_PORT": "0"}, {"TENURE_URL": "tenure://x:y"}, {"TENURE_URL": "x:99999"}]:
            self.assertEqual(run(port, "ping", env=env)[0], 2)


class Usage(Cli):
    def test_mistakes_are_explained_with_suggestions(self):
        for words, why in [("aloc ports h", "did you mean 'alloc'"),
                           ("pool creat p", "did you mean 'create'"), ("pool", "there are: add"),
                           ("alloc p h --tll 5", "did you mean --ttl"),
                           ("pool create p --stiky", "did you mean --sticky"),
                           ("alloc p", "an argument is missing"), ("time now", "unexpected arguments"),
                           ("--colour ping", "unknown option --colour"), ("levitate", "levitate"),
                           ("hello 3", "unknown subcommand 'hello'"), ("--timeout soon ping", "soon"),
                           ("--port 99999 ping", "99999"), ("ping --timeout", "needs a value"),
                           ("", "usage: tenure"), ("completion fish", "bash|zsh")]:
            code, out, err = run(self.server.port, *words.split())
            self.assertEqual((code, out), (2, ""), words)
            self.assertIn(why, err)

    def test_help_is_where_one_looks_for_it(self):
        self.assertEqual(self.tenure("help"), self.tenure("--help"))
        self.assertEqual(self.tenure("-h"), self.tenure("help"))
        self.assertEqual(self.tenure("help", "alloc"), self.tenure("alloc", "--help"))
        self.assertIn("pool create", self.tenure("help", "pool"))
        self.assertEqual(run(self.server.port, "help", "aloc")[0], 2)
        self.assertRegex(self.tenure("--version"), r"^tenure \d+\.\d+\.\d+\n$")

    def test_settings_may_stand_before_every_subcommand(self):
        data = os.path.join(tempfile.mkdtemp(dir=self.server.data), "empty")
        os.mkdir(data)
        for words in (("dump", data), ("check", data)):
            want = run(self.server.port, *words)
            for before in (("--json",), ("--port", "1")):
                self.assertEqual(run(self.server.port, *before, *words), want)
        data = os.path.join(self.server.data, "data")
        self.do("POOL", "CREATE", "settled", "RANGE", "1", "9")
        self.assertIn("{", self.tenure("--json", "dump", data))
        self.assertNotIn("{", self.tenure("--port", "1", "dump", data))


class Terminal(Cli):
    def setUp(self):
        self.long = "somebody-with-a-name-that-is-much-longer-than-any-column-should-be/" + "x" * 50
        self.do("POOL", "CREATE", self.id()[-40:], "RANGE", "1", "1000000")
        self.do("ALLOC", self.id()[-40:], self.long, "COUNT", "20")

    def lines(self, out):
        return [re.sub(r"\x1b\[[0-9;]*m", "", line) for line in out.splitlines()]

    def test_tables_fit_the_terminal(self):
        for width in (80, 120, 40):
            for words in (["leases"], ["pool", "list"], ["client", "list"]):
                code, out = on_terminal(self.server.port, *words, width=width)
                self.assertEqual(code, 0)
                for line in self.lines(out):
                    self.assertLessEqual(len(line), width, line)
                if words == ["leases"] and width == 80:
                    self.assertIn("…", out)
        self.assertIn(self.long, self.tenure("leases"))
        self.assertNotIn("…", self.tenure("leases"))

    def test_80_columns_show_what_matters(self):
        """The values, the holder, the time and the reason of the end; not necessarily the lease's id."""
        pool, holder = "console-ports", "instance/8c1f2a77"
        self.tenure("pool", "create", pool, "--range", "30000", "30009", "--lease", "3600")
        lease = self.json("alloc", pool, holder)["lease"]
        self.tenure("revoke", lease, "--after", "3600")
        self.tenure("ack", lease, holder, "1")
        self.tenure("alloc", pool, holder, "--values", "30000")
        value = pool + "/30000"
        ends = [(holder, value, "acknowledged"), (holder, value, "has it")]
        for words, rows in (
                (["history", pool, "30000"], ends),
                (["history", "--holder", holder], ends),
                (["events", "--pool", pool],
                 [("pool.created", pool), ("lease.active", holder, value),
                  ("lease.revoking", holder, value), ("lease.revoked", holder, value),
                  ("lease.active", holder, value)])):
            code, out = on_terminal(self.server.port, *words)
            lines = [line for line in self.lines(out) if re.match(r"\d\d:\d\d:\d\d", line)]
            self.assertEqual((code, len(lines)), (0, len(rows)), out)
            for line, row in zip(lines, rows):
                self.assertLessEqual(len(line), 80, line)
                for text in row:
                    self.assertIn(text, re.split(" {2,}", line))
        wide = on_terminal(self.server.port, "events", "--pool", pool, width=120)[1]
        for text in ("ID", "LEASE", lease, "requested"):
            self.assertIn(text, wide)

    def test_help_wraps_at_80_columns(self):
        for words in ([], ["exit-codes"], ["alloc"], ["events"], ["history"], ["import"], ["pool"],
                      ["opensynaptic"]):
            code, out = on_terminal(self.server.port, "help", *words)
            self.assertEqual(code, 0)
            for line in out.splitlines():
                self.assertLessEqual(len(line), 80, line)
            self.assertEqual(out.split(), self.tenure("help", *words).split())

    def test_colour_is_for_terminals_that_want_it(self):
        self.assertIn("\x1b[1m", on_terminal(self.server.port, "leases")[1])
        for env in ({"NO_COLOR": "1"}, {"TERM": "dumb"}):
            self.assertNotIn("\x1b", on_terminal(self.server.port, "leases", env=env)[1])
        self.assertNotIn("\x1b", self.tenure("leases"))

    def test_a_name_cannot_move_the_cursor(self):
        self.do("POOL", "CREATE", "hostile", "RANGE", "1", "9")
        name = "\u009b2J\u202eevil"
        self.do("ALLOC", "hostile", name, "META", json.dumps({"of": name}, ensure_ascii=False))
        data = os.path.join(self.server.data, "data")
        for out in (on_terminal(self.server.port, "leases", "--pool", "hostile")[1],
                    self.tenure("lease", "hostile/1"), self.tenure("--json", "leases"),
                    self.tenure("--json", "lease", "hostile/1"),
                    self.tenure("--json", "events", "--pool", "hostile"),
                    self.tenure("dump", data), self.tenure("dump", data, "--json")):
            self.assertNotIn("\u009b", out)
            self.assertNotIn("\u202e", out)
            self.assertIn("evil", out)
        # In JSON it is the same as before.
        lease = self.json("lease", "hostile/1")
        self.assertEqual((lease["holder"], lease["meta"]["of"]), (name, name))
        self.assertEqual(self.json("events", "--holder", name)["holder"], name)


class Shells(Cli):
    def complete(self, *words):
        """The completions that bash offers for the last of these words."""
        script = ("source <(tenure completion bash | sed 's/--deadline 500/--deadline 60000/'); "
                  "COMP_WORDS=(\"$@\"); COMP_CWORD=$(($# - 1)); "
                  "_tenure; [ ${#COMPREPLY[@]} = 0 ] || printf '%s\\n' \"${COMPREPLY[@]}\"")
        path = os.path.dirname(TENURE) + ":" + os.environ["PATH"]
        done = subprocess.run(["bash", "-c", script, "bash", "tenure", *words], timeout=PATIENCE,
                              check=True, env={**os.environ, "PATH": path},
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self.assertEqual(done.stderr, b"")
        return done.stdout.decode().split()

    def test_bash_completes_words_options_and_names(self):
        port = str(self.server.port)
        for pool in ("apples", "apricots", "plums"):
            self.do("POOL", "CREATE", pool, "RANGE", "1", "9")
        lease = self.json("alloc", "apples", "somebody")["lease"]
        self.tenure("rule", "set", "r1", "t")
        for words, want in [
                (["al"], ["alloc"]), (["pool", "cr"], ["create"]), (["rule", "d"], ["delete", "disable"]),
                (["alloc", "p", "h", "--t"], ["--ttl", "--timeout", "--tls"]), (["--ver"], ["--version"]),
                (["pool", "create", "p", "--stra"], ["--strategy"]),
                (["leases", "--state", "re"], ["reserved", "revoking", "released", "revoked"]),
                (["-p", port, "alloc", "ap"], ["apples", "apricots"]),
                (["-p", port, "pool", "info", "pl"], ["plums"]),
                (["-p", port, "alloc", "h", "--from", "pl"], ["plums"]),
                (["-p", port, "release", ""], [lease]),
                (["-p", port, "leases", "--holder", "some"], ["somebody"]),
                (["-p", port, "rule", "enable", ""], ["r1"]), (["completion", ""], ["bash", "zsh"]),
                (["help", "sens"], ["sensor"]), (["-p", "1", "alloc", "ap"], []),
                (["nonsense", ""], [])]:
            self.assertEqual(sorted(self.complete(*words)), sorted(want), words)

    def test_zsh_reads_its_script(self):
        zsh = shutil.which("zsh")
        stubs = ("compdef() { : }; compadd() { print -l -- ${(P)2} }; source <(tenure completion zsh); "
                 "words=(tenure \"$@\"); CURRENT=${#words}; _tenure")
        path = os.path.dirname(TENURE) + ":" + os.environ["PATH"]
        for words, want in [(["pool", ""], "create"), (["release", "--n"], "--now"),
                            (["leases", "--state", ""], "active"), (["completion", ""], "zsh")]:
            out = subprocess.run([zsh, "-f", "-c", stubs, "zsh", *words], check=True,
                                 timeout=PATIENCE, env={**os.environ, "PATH": path},
                                 stdout=subprocess.PIPE, stderr=subprocess.PIPE).stdout
            self.assertIn(want, out.decode().split(), words)

    def test_the_manual_can_be_set_without_warnings(self):
        groff = shutil.which("groff")
        if groff is None:
            self.skipTest("there is no groff here")
        for page in ("tenure.1", "tenured.8"):
            path = os.path.join(os.environ.get("TENURE_SOURCE_DIR", "."), "docs/man", page)
            done = subprocess.run([groff, "-ww", "-mandoc", "-Tascii", path], timeout=PATIENCE,
                                  check=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
            self.assertEqual(done.stderr, b"")
            self.assertTrue(re.sub(b".\x08", b"", done.stdout).find(b"\nSEE ALSO\n") > 0)


class Following(Cli):
    def follower(self, *arguments):
        """Follows from now on; yields the lines that it prints."""
        process = subprocess.Popen([TENURE, "-p", str(self.server.port), "--json", "events",
                                    "--follow", *arguments], stdout=subprocess.PIPE,
                                   stderr=subprocess.PIPE)
        self.addCleanup(process.stderr.close)
        self.addCleanup(process.stdout.close)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        return process

    def subscribed(self, count):
        until(lambda: self.tenure("client", "list").count(" subscribe ") >= count, "a subscriber")


class Events(Following):
    def test_pages(self):
        self.do("POOL", "CREATE", "paged", "RANGE", "1", "100")
        for i in range(30):
            self.do("ALLOC", "paged", "paged/%d" % (i % 2))
        out = self.tenure("--json", "events", "--pool", "paged")
        events = [json.loads(line) for line in out.splitlines()]
        self.assertEqual(len(events), 31)
        self.assertEqual([e["values"] for e in events[1:]], [[str(i + 1)] for i in range(30)])
        code, out, err = run(self.server.port, "events", "--pool", "paged", "--count", "10")
        self.assertEqual((code, out.count("\n")), (0, 11))
        after = re.search(r"--after (\S+) continues", err).group(1)
        rest = self.tenure("--json", "events", "--pool", "paged", "--after", after)
        self.assertEqual([json.loads(line) for line in rest.splitlines()], events[10:])
        for last in (1, 7, 31):
            got = self.tenure("--json", "events", "--pool", "paged", "--last", str(last))
            self.assertEqual([json.loads(line) for line in got.splitlines()], events[-last:])
        everything = self.tenure("--json", "events", "--limit", "0")
        self.assertEqual(self.tenure("--json", "events", "--last", "1000000000"), everything)
        mine = self.tenure("--json", "events", "--holder", "paged/1").splitlines()
        self.assertEqual(len(mine), 15)
        table = self.tenure("events", "--holder", "paged/1")
        self.assertRegex(table.splitlines()[1], r"^\S+ +\d+\.\d+ +lease\.active +0-\d+ +paged/1 +paged/2 ")
        for words in (["--after", "x"], ["--count", "0"], ["--folow"], ["--pool"],
                      ["--after", "1", "--last", "1"]):
            self.assertEqual(run(self.server.port, "events", *words)[0], 2)

    def test_following_begins_now_and_ends_with_the_count(self):
        self.do("POOL", "CREATE", "live", "RANGE", "1", "100")
        everything = self.follower("--count", "3")
        pool = self.follower("--pool", "live", "--count", "2")
        holder = self.follower("--holder", "live/b", "--count", "1")
        both = self.follower("--pool", "live", "--holder", "live/b", "--count", "1")
        from_start = self.follower("--pool", "live", "--last", "1000", "--count", "3")
        self.subscribed(5)
        self.do("POOL", "CREATE", "other", "RANGE", "1", "100")
        made = [json.loads(self.tenure("--json", "alloc", "live", h))["lease"]
                for h in ("live/a", "live/b")]
        for process, want in [(everything, [None, *made]), (pool, made), (holder, made[1:]),
                              (both, made[1:]), (from_start, [None, *made])]:
            out, err = process.communicate(timeout=PATIENCE)
            self.assertEqual((process.returncode, err), (0, b""))
            got = [json.loads(line).get("lease") for line in out.splitlines()]
            self.assertEqual(got, want)


class EventsAcross(Following):
    """With a server of its own, which is killed and comes back."""
    keep = True

    def test_following_goes_on_across_a_restart_without_gap_or_duplicate(self):
        self.do("POOL", "CREATE", "p", "RANGE", "1", "1000")
        follower = self.follower("--after", "0", "--count", "61")
        self.subscribed(1)  # a first connection that is refused ends it, by design
        for i in range(20):
            self.do("ALLOC", "p", "h%d" % i)
        for _ in range(2):
            self.server.stop(signal.SIGKILL)
            self.server.start()
            for i in range(20):
                self.do("ALLOC", "p", "h%d" % i)
        out, err = follower.communicate(timeout=PATIENCE)
        self.assertEqual(follower.returncode, 0, err)
        followed = [json.loads(line) for line in out.splitlines()]
        listed = self.tenure("--json", "events", "--count", str(len(followed))).splitlines()
        self.assertEqual(followed, [json.loads(line) for line in listed])
        self.assertEqual(len({e["id"] for e in followed}), len(followed))
        self.assertIn(b"retrying", err)


class Trouble(unittest.TestCase):
    """The message and the exit code without a server, or when the server disconnects."""

    def listener(self, serve):
        """Serves one connection after the other with this function until the function returns false."""
        place = reserve()  # also when it listens no more
        self.addCleanup(place.close)
        s = socket.create_server(place.getsockname())
        thread = threading.Thread(target=lambda: self.serve(s, serve), daemon=True)
        thread.start()
        self.addCleanup(thread.join, PATIENCE)
        self.addCleanup(s.close)
        return port_of(place)

    def serve(self, s, serve):
        more = True
        while more:
            c, _ = s.accept()
            with c:
                c.settimeout(PATIENCE)
                more = serve(c)
                if not more:
                    s.close()  # before the client hears: whoever comes back finds nobody

    @staticmethod
    def hello(c):
        """Answers the greeting as the server does, and reads the request that follows."""
        got = b""
        while not got.endswith(b"tenure-cli\r\n"):
            got += c.recv(65536)
        c.sendall(b"%1\r\n+server\r\n+tenure\r\n")
        return c.recv(65536)

    def test_no_server(self):
        with reserve() as nobody:
            port = port_of(nobody)
            for words in (["ping"], ["alloc", "p", "h"], ["leases", "--json"]):
                code, out, err = run(port, *words)
                self.assertEqual((code, out), (3, ""))
                self.assertIn("cannot connect to 127.0.0.1:%d" % port, err)

    def test_no_such_host(self):
        # Where no resolver answers, it is given up soon.
        code, _, err = run(1, "-h", "no.such.host.invalid", "ping",
                           env={"RES_OPTIONS": "timeout:1 attempts:1"})
        self.assertEqual(code, 3)
        self.assertIn("no.such.host.invalid", err)

    def test_another_kind_of_server(self):
        for answer, why in [(b"-ERR unknown command 'HELLO'\r\n", "refuses"),
                            (b"%1\r\n+server\r\n+redis\r\n", "not a Tenure server"),
                            (b"HTTP/1.1 400 Bad Request\r\n\r\n", "cannot read"),
                            (b"*2147483648\r\n", "cannot read")]:
            def serve(c, answer=answer):
                c.recv(65536)
                c.sendall(answer)
                return False
            code, _, err = run(self.listener(serve), "alloc", "p", "h")
            self.assertEqual(code, 3)
            self.assertIn(why, err)

    def test_a_lost_answer_is_an_unknown_outcome(self):
        def serve(c):
            self.hello(c)
            return False
        code, out, err = run(self.listener(serve), "alloc", "p", "it's me")
        self.assertEqual((code, out), (52, ""))
        self.assertIn("The outcome is unknown", err)
        again = re.search(r"(?m)^  tenure (.*)$", err).group(1)
        self.assertRegex(again, r"^-p \d+ --opid tenure-[0-9a-f]{24} alloc p 'it'\\''s me'$")
        code, out, err = run(self.listener(serve), "--json", "alloc", "p", "h", "--opid", "mine")
        self.assertEqual(code, 52)
        self.assertEqual(json.loads(out),
                         {"result": "UNKNOWN", "outcome": "unknown", "opid": "mine"})

    def test_the_line_to_repeat_has_no_secret(self):
        def serve(c):
            self.hello(c)
            return False
        for words, again in ((["--role", "reader", "--secret=hidden"], "--role reader --ask-secret"),
                             (["--secret", "-hidden", "--role", "reader"], "--ask-secret --role reader"),
                             (["ROLE", "reader", "secret", "hidden"], "ROLE reader --ask-secret"),
                             (["--SECRET", "hidden", "--pools", "secret"], "--ask-secret --pools secret"),
                             (["--role", "reader", "--ask-secret"], "--role reader --ask-secret"),
                             (["--secret-file", "-", "--role", "reader"], "--role reader --secret-file -")):
            code, _, err = run(self.listener(serve), "user", "set", "secret", *words, input=b"hidden\n")
            self.assertEqual(code, 52, err)
            self.assertRegex(err, r"(?m)^  tenure -p \d+ --opid \S+ user set secret %s$" % again)
            self.assertNotIn("hidden", err)

    def test_a_new_secret_is_kept_while_the_outcome_is_unknown(self):
        with tempfile.TemporaryDirectory(prefix="tenure-cli-") as home:
            for answer, want in ((b"", 52), (b"-HALTED x\r\n", 50), (b"-LOST x\r\n", 51), (b"-EXISTS x\r\n", 10)):
                def serve(c, answer=answer):
                    self.hello(c)
                    c.sendall(answer)
                    return False
                path = os.path.join(home, "secret-%d" % want)
                code, _, err = run(self.listener(serve), "user", "add", "u", "--role", "reader",
                                   "--new-secret-file", path)
                self.assertEqual(code, want, err)
                self.assertEqual(os.path.exists(path), want != 10)
                if want != 10:
                    with open(path, encoding="ascii") as file:
                        self.assertNotIn(file.read().strip(), err)
                    self.assertRegex(err, "(?m) user add u --role reader --secret-file %s$" % re.escape(path))
                    self.assertIn(path + " was kept", err)

    def test_a_lost_read_is_not_an_unknown_outcome(self):
        def serve(c):
            self.hello(c)
            return False
        code, _, err = run(self.listener(serve), "leases")
        self.assertEqual(code, 3)
        self.assertNotIn("unknown", err)

    def test_silence_ends_with_the_timeout(self):
        over = threading.Event()
        self.addCleanup(over.set)

        def serve(c):
            self.hello(c)
            over.wait(PATIENCE)
            return False
        port = self.listener(serve)
        code, _, err = run(port, "--timeout", "5", "alloc", "p", "h")  # enough for the greeting
        over.set()
        self.assertEqual(code, 52)
        self.assertIn("no answer within 5000 ms", err)

    def test_retry_repeats_with_the_same_operation_id(self):
        seen = []

        def serve(c):
            seen.append(self.hello(c))
            if len(seen) < 3:
                return True
            c.sendall(b"%1\r\n+result\r\n+OK\r\n")
            return False
        code, out, err = run(self.listener(serve), "--retry", "2", "alloc", "p", "h")
        self.assertEqual((code, out, err), (0, "result  OK\n", ""))
        self.assertEqual((len(seen), len(set(seen))), (3, 1))

    def test_a_repeat_that_is_refused_leaves_the_outcome_unknown(self):
        """Only the repeat certainly did not happen; the first attempt may have."""
        for first, second in ((b"", b"-OVERLOADED full\r\n"), (b"-HALTED x\r\n", b"-CLOSED x\r\n"),
                              (b"-HALTED x\r\n", None), (b"", None)):
            answers = [first] if second is None else [first, second]

            def serve(c):
                self.hello(c)
                c.sendall(answers.pop(0))
                return len(answers) > 0
            code, out, err = run(self.listener(serve), "--json", "--retry", "1", "alloc", "p", "h")
            self.assertEqual((code, json.loads(out)["outcome"]), (52, "unknown"), err)
            self.assertIn("The outcome is unknown", err)

    def test_a_repeat_that_is_answered_settles_it(self):
        answers = [b"", b"-EXHAUSTED none lsn=4\r\n"]

        def serve(c):
            self.hello(c)
            c.sendall(answers.pop(0))
            return len(answers) > 0
        code, out, _ = run(self.listener(serve), "--json", "--retry", "1", "alloc", "p", "h")
        self.assertEqual((code, json.loads(out)["outcome"]), (14, "committed"))

    def test_quoted_words_are_no_facts(self):
        def serve(c):
            self.hello(c)
            c.sendall(b"-BAD_POLICY unknown option 'x lsn=1'\r\n")
            return False
        code, out, _ = run(self.listener(serve), "--json", "pool", "create", "p", "x lsn=1", "3")
        self.assertEqual((code, json.loads(out)["outcome"]), (23, "rejected"))

    def test_a_write_across_a_halted_server_is_resolved_by_its_id(self):
        server = Server()
        self.addCleanup(server.remove)
        self.assertEqual(run(server.port, "pool", "create", "p", "--range", "1", "9")[0], 0)

        def write():
            code, _, err = run(server.port, "alloc", "p", "h")
            self.assertIn(code, (50, 3, 52))  # halted, nobody there, or gone without a word
            return err if code == 50 else None
        opid = re.search(r"--opid (\S+)", server.fail(write)).group(1)
        for replayed in (False, True):
            code, out, _ = run(server.port, "--json", "--opid", opid, "alloc", "p", "h")
            self.assertEqual((code, json.loads(out)["replayed"]), (0, replayed))
        self.assertEqual(len(json.loads(run(server.port, "--json", "leases")[1])["leases"]), 1)


if __name__ == "__main__":
    unittest.main(verbosity=1)
