#!/usr/bin/env python3
"""`tenure run` with a real server: the command's environment, its end, and that none of its processes is alive when
another client could hold its values."""
import fcntl
import os
import pty
import signal
import socket
import subprocess
import sys
import termios
import threading
import unittest

from harness import PATIENCE, WITHOUT_PROC, runs_without_proc, text_of, until
from pyclient import Proxy
from runs import TENURE, Run, RunCase, children_of, state_of

NOT_ACQUIRED, LOST, UNPROVEN = 121, 122, 123
CONTAINMENTS = ("auto", "none")


class Ordinary(RunCase):
    def test_the_command_knows_its_lease_and_its_values(self):
        _, out, _ = self.run_to_end(
            "--from", "gpus:2", "--from", "ports/8007", "--from=ports", "--holder", "job/7", "--", "sh", "-c",
            "echo $TENURE_LEASE $TENURE_EPOCH; echo $TENURE_VALUES; echo $TENURE_GPUS; echo $TENURE_PORTS; "
            "echo $TENURE_TOKEN")
        lease, values, gpus, ports, token = out.splitlines()
        self.assertRegex(lease, r"^0-\d+ 1$")
        self.assertEqual(values, "gpus/gpu-0 gpus/gpu-1 ports/8007 ports/8000")
        self.assertEqual(gpus, "gpu-0 gpu-1")
        self.assertEqual(ports, "8007 8000")
        self.assertEqual(token.count("."), 2)
        self.assertEqual(self.leases("gpus"), [])
        events = self.server.cli("EVENTS", "HOLDER", "job/7")
        self.assertIn("lease.released", events)

    def test_settings_on_the_command_line_are_no_arguments_of_the_command(self):
        _, out, _ = self.run_to_end("--port", str(self.server.port), "--from", "gpus", "--timeout", "60",
                                    "--", "echo", "a", "b")
        self.assertEqual(out, "a b\n")

    def test_a_pool_does_not_shadow_a_variable_of_tenure(self):
        self.do("POOL", "CREATE", "port", "SET")
        self.do("POOL", "ADD", "port", "a")
        self.do("POOL", "CREATE", "tcp-ports", "RANGE", "5", "9", "SCOPED", "yes")
        _, out, _ = self.run_to_end("--from", "port", "--from", "tcp-ports@eu.1", "--", "sh", "-c",
                                    "echo $TENURE_PORT $TENURE_TCP_PORTS_EU_1 $TENURE_VALUES")
        self.assertEqual(out, "%d 5 port/a tcp-ports@eu.1/5\n" % self.server.port)

    def test_a_pool_shadows_no_setting_of_the_server_and_its_clients(self):
        pools = ("tls", "ca-file", "cert_file", "key-file", "url", "host", "listen", "http", "config", "data",
                 "node", "slow-seconds", "leases-max", "amqp-password")
        for pool in pools:
            self.do("POOL", "CREATE", pool, "SET")
            self.do("POOL", "ADD", pool, "a")
        wanted = [word for pool in pools for word in ("--from", pool)]
        _, out, _ = self.run_to_end(*wanted, "--", "env")
        names = {line.split("=")[0] for line in out.splitlines() if line.startswith("TENURE_")}
        self.assertEqual(names, {"TENURE_PORT", "TENURE_LEASE", "TENURE_EPOCH", "TENURE_VALUES", "TENURE_TOKEN"} |
                         {name for name in os.environ if name.startswith("TENURE_")})

    def test_the_exit_code_is_the_commands(self):
        for containment in CONTAINMENTS:
            run = ("--from", "gpus", "--containment", containment, "--")
            self.run_to_end(*run, "sh", "-c", "exit 7", code=7)
            self.run_to_end(*run, "sh", "-c", "kill -KILL $$", code=137)
            self.run_to_end(*run, "sh", "-c", "kill -ABRT $$", code=134)
            self.run_to_end(*run, "/does/not/exist", code=127)
            self.run_to_end(*run, "/etc/passwd", code=126)
        self.assertEqual(self.leases("gpus"), [])

    def test_without_a_lease_the_command_does_not_run(self):
        held = self.held()
        for options in (("--from", "one"), ("--from", "nosuch"), ("--from", "one", "--retry", "2", "--port", "1")):
            _, out, err = self.run_to_end(*options, "--", "echo", "ran", code=NOT_ACQUIRED)
            self.assertEqual(out, "")
            self.assertIn("tenure run: ", err)
        held.signal(signal.SIGTERM)
        self.assertEqual(held.end()[0], 0)

    def test_nothing_is_started_that_could_not_be_proven_dead(self):
        """Without /proc the guardian would look for children forever, and the value would stay with a dead command."""
        if not runs_without_proc(TENURE):
            self.skipTest("needs the right to unmount /proc, and no sanitizer")
        guardian = os.path.join(os.path.dirname(TENURE), "tenure-guardian")
        run = self.start("--from", "one", "--guardian", guardian, "--", "echo", "ran", before=WITHOUT_PROC)
        code, out, err = run.end()
        self.assertEqual((code, out), (125, ""), err)
        self.assertIn("is /proc mounted?", err)
        self.assertEqual(self.leases(), [])

    def test_a_guardian_that_ends_before_the_command_has_begun_is_told(self):
        _, out, err = self.run_to_end("--from", "one", "--containment", "none", "--guardian", "/bin/false", "--", "echo", "ran",
                                      code=125)
        self.assertEqual(out, "")
        self.assertIn("tenure-guardian", err)
        self.assertEqual(self.leases(), [])

    def test_wrong_options_are_named(self):
        for options, word in (((), "--from"), (("--from", "one"), "command"), (("--from", "one", "ls"), "--"),
                              (("--from", "one:0", "--", "ls"), "one:0"),
                              (("--from", "one", "--ttl", "1", "--", "ls"), "ttl"),
                              (("--from", "one", "--ttl", "5", "--kill-after", "5", "--", "ls"), "kill-after"),
                              (("--form", "one", "--", "ls"), "--from"),
                              (("--from", "one", "--containment", "x", "--", "ls"), "containment")):
            self.assertIn(word, self.run_to_end(*options, code=2)[2])

    def test_a_sticky_pool_is_refused(self):
        self.do("POOL", "CREATE", "devices", "RANGE", "1", "9", "STICKY", "yes", "LEASE", "60")
        _, _, err = self.run_to_end("--from", "devices", "--", "true", code=NOT_ACQUIRED)
        self.assertIn("sticky", err)

    def test_a_pool_limits_the_ttl(self):
        self.do("POOL", "CREATE", "short", "RANGE", "1", "9", "MAX_LEASE", "5")
        self.do("POOL", "CREATE", "brief", "RANGE", "1", "9", "MAX_HOLD", "5")
        self.run_to_end("--from", "short", "--", "true")
        self.run_to_end("--from", "short", "--ttl", "6", "--", "true", code=NOT_ACQUIRED)
        # It cannot be held any longer, however often it is renewed.
        self.run_to_end("--from", "brief", "--", "sleep", "1000", code=LOST)

    def test_a_ttl_that_a_pool_limits_also_limits_kill_after(self):
        self.do("POOL", "CREATE", "curt", "RANGE", "1", "9", "MAX_LEASE", "3")
        run = self.start("--from", "curt", "--kill-after", "10", "--", *self.witness.command())
        until(self.witness.is_held, "the witness")
        first = self.leases("curt")[0]["deadline"]
        until(lambda: self.leases("curt")[0]["deadline"] > first, "a renewal")
        run.signal(signal.SIGTERM)
        code, _, err = run.end()
        self.assertEqual(code, 0, err)
        self.assertIn("--kill-after to 1.2s", err)

    def test_the_limits_of_a_scope_hold_before_the_scope_is_live(self):
        self.do("POOL", "CREATE", "halls", "RANGE", "1", "1", "SCOPED", "yes", "MAX_HOLD", "3")
        # The scope does not exist until the allocation creates it.
        run = self.start("--from", "halls@eu", "--", *self.witness.command())
        until(lambda: self.leases("halls@eu"), "the lease")
        lease = self.leases("halls@eu")[0]
        code, _, err = run.end()
        self.assertEqual(code, LOST, err)
        self.assertTrue(self.witness.is_free())
        self.assertIn("released", self.server.cli("LEASE", lease["lease"]))  # by us, before it could expire
        self.do("POOL", "CREATE", "fixed", "RANGE", "1", "9", "SCOPED", "yes", "STICKY", "yes", "LEASE", "60")
        _, _, err = self.run_to_end("--from", "fixed@eu", "--", "true", code=NOT_ACQUIRED)
        self.assertIn("sticky", err)

    def test_input_and_output_are_the_commands(self):
        run = self.start("--from", "gpus", "--", "tr", "a-z", "A-Z", stdin=subprocess.PIPE)
        out, _ = run.process.communicate(b"hello", timeout=PATIENCE)
        self.assertEqual((run.process.returncode, out), (0, b"HELLO"))

    def test_directory_and_ignored_signals_are_inherited(self):
        _, out, _ = self.run_to_end("--from", "gpus", "--", "sh", "-c", "pwd; kill -HUP $$; echo lives",
                                    cwd="/usr", preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_IGN))
        self.assertEqual(out, "/usr\nlives\n")

    def test_the_secret_of_tenure_is_not_the_commands(self):
        secret = os.path.join(self.witness.dir.name, "secret")
        with open(secret, "w", encoding="ascii") as file:
            file.write("hidden\n")
        show = "echo ${TENURE_SECRET-none} ${TENURE_SECRET_FILE-none} $TENURE_SECRETS"
        for name, value in (("TENURE_SECRET", "hidden"), ("TENURE_SECRET_FILE", secret)):
            _, out, _ = self.run_to_end("--from", "gpus", "--", "sh", "-c", show,
                                        env={name: value, "TENURE_SECRETS": "other"})
            self.assertEqual(out, "none none other\n")

    def test_many_arguments_and_variables_are_passed(self):
        words = [str(n) for n in range(3000)]
        env = {"VARIABLE_%d" % n: "x" * 50 for n in range(500)}
        _, out, _ = self.run_to_end("--from", "gpus", "--", "sh", "-c", "echo $# $VARIABLE_499", "sh", *words,
                                    env=env)
        self.assertEqual(out, "3000 %s\n" % ("x" * 50))

    def test_the_lease_is_renewed_as_long_as_the_command_runs(self):
        run = self.held(ttl="2")
        first = self.leases()[0]
        # Several times: the first deadline is long over when the third has come.
        seen = set()
        until(lambda: seen.add(self.leases()[0]["deadline"]) or len(seen) >= 5, "renewals")
        self.assertEqual(self.leases()[0]["epoch"], first["epoch"])
        self.assertIsNone(run.process.poll())
        run.signal(signal.SIGTERM)
        self.assertEqual(run.end()[0], 0)

    def test_a_command_runs_after_each_renewal(self):
        out = os.path.join(self.witness.dir.name, "renewals")
        run = self.held("--renew-command", "echo $TENURE_LEASE $TENURE_ONE $TENURE_TOKEN >>%s" % out, ttl="2")
        lines = lambda: [line.split() for line in text_of(out).splitlines()] if os.path.exists(out) else []
        until(lambda: len({tuple(line) for line in lines() if len(line) == 3}) > 1, "a fresh token")
        self.assertEqual({line[1] for line in lines()}, {"it"})
        run.signal(signal.SIGTERM)
        self.assertEqual(run.end()[0], 0)

    def test_a_token_that_does_not_come_does_not_delay_the_renewal(self):
        port = self.without_tokens()
        run = Run(port, "--from", "one", "--ttl", "2", "--renew-command", "true", "--", *self.witness.command())
        self.addCleanup(run.remove)
        until(self.witness.is_held, "the witness")
        seen = set()
        until(lambda: run.process.poll() is not None or
              seen.update(lease["deadline"] for lease in self.leases()) or len(seen) >= 8, "renewals")
        run.signal(signal.SIGTERM)
        self.assertEqual(run.end()[0], 0)

    def without_tokens(self):
        """A port that leads to the server, but requests for a token get no reply after the first."""
        listener = socket.create_server(("127.0.0.1", 0))
        self.addCleanup(listener.close)
        self.addCleanup(listener.shutdown, socket.SHUT_RDWR)
        asked = []

        def carry(source, sink):
            try:
                while data := source.recv(65536):
                    if b"TOKEN" in data:
                        asked.append(data)
                    if b"TOKEN" not in data or len(asked) == 1:
                        sink.sendall(data)
                sink.shutdown(socket.SHUT_WR)
            except OSError:
                pass

        def accept():
            try:
                while True:
                    client, _ = listener.accept()
                    server = socket.create_connection(("127.0.0.1", self.server.port))
                    self.addCleanup(client.close)
                    self.addCleanup(server.close)
                    for pair in ((client, server), (server, client)):
                        threading.Thread(target=carry, args=pair, daemon=True).start()
            except OSError:
                pass
        threading.Thread(target=accept, daemon=True).start()
        return listener.getsockname()[1]

    def test_a_renew_command_that_stays_does_not_outlive_the_run(self):
        run = self.start("--from", "one", "--ttl", "2", "--renew-command",
                         "exec %s" % " ".join(self.witness.command("lock-child")), "--", "sleep", "1000")
        until(self.witness.is_held, "the renew command")
        run.signal(signal.SIGTERM)
        self.assertEqual(run.end()[0], 143)
        self.assertTrue(self.witness.is_free())
        self.assertEqual(self.leases(), [])


class Denied(RunCase):
    def test_a_user_that_may_not_use_the_pool_is_told(self):
        local = self.server.local()
        self.addCleanup(local.close)
        local.execute_command("USER", "ADD", "small", "ROLE", "holder", "SECRET", "staple", "POOLS", "one")
        for more in ((), ("--wait", "60")):
            _, _, err = self.run_to_end("--from", "gpus", *more, "--", "true", code=NOT_ACQUIRED,
                                        env={"TENURE_USER": "small", "TENURE_SECRET": "staple"})
            self.assertIn("NOPERM", err)
            self.assertIn("'gpus'", err)


class Signals(RunCase):
    def test_signals_are_passed_on(self):
        script = ("trap 'echo usr1' USR1; trap 'echo usr2' USR2; trap 'echo hup' HUP; trap 'echo int' INT; "
                  "trap 'echo quit' QUIT; trap 'echo winch' WINCH; trap 'echo term; exit 5' TERM; echo ready; "
                  "while :; do sleep 0.05; done")
        run = self.start("--from", "gpus", "--", "bash", "-c", script, bufsize=0)
        line = run.process.stdout.readline
        self.assertEqual(line(), b"ready\n")
        for name in ("USR1", "USR2", "HUP", "INT", "QUIT", "WINCH"):
            run.signal(getattr(signal, "SIG" + name))
            self.assertEqual(line(), name.lower().encode() + b"\n")
        run.signal(signal.SIGTERM)
        self.assertEqual(run.end()[0], 5)

    def test_a_main_process_that_leaves_its_group_is_reached(self):
        leave = "import os, sys; os.setpgid(0, os.getpgid(os.getppid())); os.execv(sys.argv[1], sys.argv[1:])"
        for mode, code in (("lock", 0), ("lock-child", LOST)):
            self.witness.forget()
            run = self.start("--from", "one", "--ttl", "3", "--kill-after", "0.2", "--containment", "none", "--",
                             sys.executable, "-c", leave, *self.witness.command(mode))
            until(self.witness.is_held, "the witness")
            if mode == "lock":
                run.signal(signal.SIGTERM)
            else:  # it ignores SIGTERM, so it has to be killed
                self.do("REVOKE", self.leases()[0]["lease"])
            self.assertEqual(run.end()[0], code)
            self.assertTrue(self.witness.is_free())
            self.assertEqual(self.leases(), [])


class Terminal(RunCase):
    # Without another process: a child that Ctrl-Z stops between vfork and exec keeps its parent from stopping.
    CAT = 'while read -r line; do echo "$line"; done'

    def setUp(self):
        super().setUp()
        self.unread = {}

    def on_terminal(self, *arguments, program=None):
        """The run, or another program, as the leader of a terminal's session; the terminal's other end."""
        main, side = pty.openpty()

        def take():
            os.setsid()
            fcntl.ioctl(0, termios.TIOCSCTTY, 0)
        process = subprocess.Popen(program or [TENURE, "run", *arguments], stdin=side, stdout=side, stderr=side,
                                   preexec_fn=take, env={**os.environ, "TENURE_PORT": str(self.server.port)})
        os.close(side)
        self.addCleanup(os.close, main)
        self.addCleanup(lambda: process.poll() is None and process.kill())
        return process, main

    def read_until(self, main, text):
        """Reads up to the text; what follows it is for the next call."""
        seen = self.unread.pop(main, b"")
        while text not in seen:
            seen += os.read(main, 4096)
        self.unread[main] = seen.split(text, 1)[1]

    def test_ctrl_c_reaches_the_command(self):
        for containment in CONTAINMENTS:
            process, main = self.on_terminal("--from", "gpus", "--containment", containment, "--", "sh", "-c",
                                             "echo begun; cat")
            self.read_until(main, b"begun")
            os.write(main, b"hello\n")
            self.read_until(main, b"hello\r\nhello\r\n")  # echoed, and read by the command
            os.write(main, b"\x03")
            self.assertEqual(process.wait(PATIENCE), 130)
            self.assertEqual(self.leases("gpus"), [])

    def in_shell(self, line):
        """A shell with job control that runs the line; the terminal's other end."""
        shell, main = self.on_terminal(program=["bash", "--norc", "--noprofile", "-i"])
        self.type(main, "PS1=")
        self.type(main, line)
        return shell, main

    def type(self, main, line):
        os.write(main, line.encode() + b"\n")

    def test_ctrl_z_stops_the_job_and_it_goes_on(self):
        for containment in CONTAINMENTS:
            shell, main = self.in_shell("%s run --from gpus --containment %s -- sh -c 'echo be\"\"gun; %s; "
                                        "echo en\"\"ded'; echo co\"\"de $?" % (TENURE, containment, self.CAT))
            self.read_until(main, b"begun")
            os.write(main, b"hello\n")
            # cat runs: a shell that is starting it with vfork cannot be stopped.
            self.read_until(main, b"hello\r\nhello\r\n")
            os.write(main, b"\x1a")
            self.read_until(main, b"Stopped")
            self.read_until(main, b"code 14")  # 128 and the signal
            self.type(main, "fg; echo co\"\"de $?")
            self.read_until(main, b"-- sh -c")
            self.type(main, "again")
            self.read_until(main, b"again\r\nagain\r\n")
            os.write(main, b"\x04")
            self.read_until(main, b"ended")
            self.read_until(main, b"code 0")
            self.type(main, "exit 7")
            self.assertEqual(shell.wait(PATIENCE), 7)

    def test_a_job_in_the_background_leaves_the_terminal_to_the_shell(self):
        fifo = os.path.join(self.witness.dir.name, "fifo")
        os.mkfifo(fifo)
        shell, main = self.in_shell("%s run --from gpus -- sh -c 'echo be\"\"gun; read -r line <%s; "
                                    "echo en\"\"ded'" % (TENURE, fifo))
        self.read_until(main, b"begun")
        os.write(main, b"\x1a")
        self.read_until(main, b"Stopped")
        self.type(main, "bg; echo on $?")
        self.read_until(main, b"on 0")
        with open(fifo, "w", encoding="ascii") as file:
            file.write("go\n")
        self.read_until(main, b"ended")
        until(lambda: self.leases("gpus") == [], "the end of the run")
        self.type(main, "wait; echo al\"\"ive")
        self.read_until(main, b"alive")
        self.type(main, "exit 7")
        self.assertEqual(shell.wait(PATIENCE), 7)

    def test_a_job_that_is_put_into_the_foreground_while_it_runs_gets_the_terminal(self):
        fifo = os.path.join(self.witness.dir.name, "fifo")
        os.mkfifo(fifo)
        shell, main = self.in_shell("%s run --from gpus -- sh -c 'read -r line <%s; read -r line; "
                                    "echo \"<$line>\"; exit 3' &" % (TENURE, fifo))
        until(lambda: self.leases("gpus") != [], "the lease")
        self.type(main, "fg; echo co\"\"de $?")
        # The shell has changed the owner of the terminal before it prints the job.
        self.read_until(main, b"-- sh -c")
        self.read_until(main, b"exit 3'\r\n")
        with open(fifo, "w", encoding="ascii") as file:
            file.write("go\n")
        self.type(main, "for the command")
        self.read_until(main, b"<for the command>")
        self.read_until(main, b"code 3")
        self.type(main, "exit 7")
        self.assertEqual(shell.wait(PATIENCE), 7)

    def test_ctrl_z_without_a_shell_does_not_stop_the_command(self):
        process, main = self.on_terminal("--from", "gpus", "--", "sh", "-c",
                                         "echo begun; %s; echo ended" % self.CAT)
        self.read_until(main, b"begun")
        os.write(main, b"\x1a")
        os.write(main, b"again\n")
        self.read_until(main, b"again\r\nagain\r\n")
        os.write(main, b"\x04")
        self.read_until(main, b"ended")
        self.assertEqual(process.wait(PATIENCE), 0)


class Revoked(RunCase):
    def test_a_notice_is_passed_on_and_acknowledged(self):
        run = self.held()
        lease = self.leases()[0]["lease"]
        self.do("REVOKE", lease, "AFTER", "3600")
        code, _, err = run.end()
        self.assertEqual(code, LOST)
        self.assertIn("was revoked", err)
        self.assertIn("acknowledged", self.server.cli("LEASE", lease))
        self.assertTrue(self.witness.is_free())
        self.assertEqual(self.leases(), [])

    def test_a_command_that_ignores_the_notice_is_killed_then_acknowledged(self):
        for containment in CONTAINMENTS:
            self.witness.forget()
            run = self.held("--kill-after", "0.2", "--containment", containment, mode="lock-child")
            lease = self.leases()[0]["lease"]
            self.do("REVOKE", lease)
            self.assertEqual(run.end()[0], LOST)
            self.assertTrue(self.witness.is_free())
            self.assertIn("acknowledged", self.server.cli("LEASE", lease))

    def test_the_values_are_not_acknowledged_before_the_command_is_dead(self):
        run = self.held("--kill-after", "12", ttl="30", mode="lock-child")
        os.kill(run.guardian(), signal.SIGSTOP)  # so that nothing can die
        lease = self.leases()[0]["lease"]
        self.do("REVOKE", lease)
        until(lambda: "revoking" in self.server.cli("LEASE", lease), "the revocation")
        self.assertFalse(self.witness.is_free())
        os.kill(run.guardian(), signal.SIGCONT)
        self.assertEqual(run.end()[0], LOST)
        self.assertTrue(self.witness.is_free())

    def test_a_revocation_that_comes_with_the_end_of_the_command_is_acknowledged(self):
        for _ in range(3):  # RELEASE or the news of the revocation is first
            self.witness.forget()
            run = self.held(ttl="600")
            lease = self.leases()[0]["lease"]
            guardian = run.guardian()
            run.signal(signal.SIGSTOP)
            for pid in children_of(guardian):
                os.kill(pid, signal.SIGKILL)
            until(lambda pid=guardian: state_of(pid) in "ZX", "the guardian's end")
            self.do("REVOKE", lease)
            run.signal(signal.SIGCONT)
            self.assertIn(run.end()[0], (LOST, 137))
            self.assertIn("acknowledged", self.server.cli("LEASE", lease))

    def test_a_lease_that_is_taken_away_ends_the_command(self):
        run = self.held(ttl="600")
        lease = self.leases()[0]
        self.do("REKEY", lease["lease"], lease["epoch"], "another")
        code, _, err = run.end()
        self.assertEqual(code, LOST)
        self.assertNotIn("guardian", err)
        self.assertTrue(self.witness.is_free())
        self.assertEqual(self.leases()[0]["holder"], "another")
        self.do("RELEASE", lease["lease"], "another", int(lease["epoch"]) + 1)

    def test_a_lease_that_is_reclaimed_ends_the_command_at_once(self):
        run = self.held("--kill-after", "200", ttl="600", mode="lock-child")
        lease = self.leases()[0]["lease"]
        self.do("REVOKE", lease)
        self.do("RECLAIM", lease)
        self.assertEqual(run.end()[0], LOST)
        self.assertTrue(self.witness.is_free())


class Interrupted(RunCase):
    def next_holder(self):
        """Another run gets the value as soon as the server grants it, and finds the witness's lock free."""
        def acquired():
            run = self.start("--from", "one", "--ttl", "2", "--", *self.witness.command())
            self.witness.forget()
            got = until(lambda: run.process.poll() is not None or self.witness.is_held(), "an outcome")
            if got and run.process.poll() is None:
                return run
            self.assertEqual(run.end()[0], NOT_ACQUIRED)
            return None
        run = until(acquired, "the next holder")
        run.signal(signal.SIGTERM)
        self.assertEqual(run.end()[0], 0)
        self.assertFalse(self.witness.twice())

    def test_tenure_is_killed(self):
        for containment in CONTAINMENTS:
            for mode in ("lock", "lock-child", "lock-forget", "lock-chain"):
                self.witness.forget()
                run = self.held("--containment", containment, mode=mode, ttl="2")
                run.signal(signal.SIGKILL)
                run.end()
                until(self.witness.is_free, "the end of the command")
                self.next_holder()

    def test_tenure_is_stopped(self):
        for containment in CONTAINMENTS:
            self.witness.forget()
            run = self.held("--containment", containment, mode="lock-child", ttl="2")
            run.signal(signal.SIGSTOP)
            until(self.witness.is_free, "the end of the command")
            self.assertEqual(state_of(run.pid), "T")
            self.next_holder()
            run.signal(signal.SIGCONT)
            code, _, err = run.end()
            self.assertEqual(code, LOST)
            # It sees first that the command has ended, or that the server has ended the lease.
            self.assertRegex(err, "could not be renewed in time|was lost: expired")

    def test_the_deadline_is_kept_with_closed_standard_streams(self):
        for closed in ("<&-", ">&-", "2>&-", "<&- >&- 2>&-"):
            self.witness.forget()
            run = self.start_closed(closed, "--from", "one", "--ttl", "2", "--containment", "none", "--",
                                    *self.witness.command("lock-child"))
            until(self.witness.is_held, "the witness")
            run.send_signal(signal.SIGSTOP)
            until(self.witness.is_free, "the end of the command")
            run.send_signal(signal.SIGCONT)
            self.assertEqual(run.wait(PATIENCE), LOST, closed)
            self.assertFalse(self.witness.twice())

    def start_closed(self, closed, *arguments):
        run = subprocess.Popen(["sh", "-c", 'exec "$@" ' + closed, "sh", TENURE, "run", *arguments],
                               env={**os.environ, "TENURE_PORT": str(self.server.port)})
        self.addCleanup(lambda: run.poll() is None and run.kill())
        return run

    def test_the_guardian_is_killed(self):
        for containment in CONTAINMENTS:
            for mode in ("lock-child", "lock-forget", "lock-chain"):
                self.witness.forget()
                run = self.held("--containment", containment, mode=mode)
                os.kill(run.guardian(), signal.SIGKILL)
                code, _, err = run.end()
                self.assertEqual((code, "guardian was killed" in err), (137, True), err)
                self.assertTrue(self.witness.is_free())
                self.assertEqual(self.leases(), [])  # released: this was proven

    def test_what_a_killed_guardian_leaves_is_not_proven_dead_beside_other_children(self):
        script = "sleep 1000 & exec \"$@\""
        run = subprocess.Popen(["sh", "-c", script, "sh", TENURE, "run", "--from", "one", "--ttl", "2",
                                "--containment", "none", "--", *self.witness.command()],
                               env={**os.environ, "TENURE_PORT": str(self.server.port)},
                               stderr=subprocess.PIPE)
        until(self.witness.is_held, "the witness")
        found = [pid for pid in children_of(run.pid) if "guardian" in text_of("/proc/%d/comm" % pid)]
        other = [pid for pid in children_of(run.pid) if pid not in found]
        os.kill(found[0], signal.SIGKILL)
        self.assertEqual(run.wait(PATIENCE), UNPROVEN)
        self.assertEqual(len(self.leases()), 1)
        for pid in other:
            os.kill(pid, signal.SIGKILL)
        _, err = run.communicate(timeout=PATIENCE)
        self.assertIn(b"left to expire", err)
        until(lambda: self.leases() == [], "the lease's expiry")

    def test_what_the_command_leaves_ends_with_it(self):
        for containment in CONTAINMENTS:
            for mode in ("lock-forget", "lock-chain"):
                self.witness.forget()
                run = self.start("--from", "one", "--ttl", "3", "--kill-after", "0.2", "--containment", containment,
                                 "--", "sh", "-c", "%s & while [ ! -s %s ]; do sleep 0.01; done; exit 3"
                                 % (" ".join(self.witness.command(mode)), self.witness.file))
                self.assertEqual(run.end()[0], 3)
                self.assertTrue(self.witness.is_free())
                self.assertEqual(self.leases(), [])


UNIFIED = "/sys/fs/cgroup/unified" if os.path.isdir("/sys/fs/cgroup/unified") else "/sys/fs/cgroup"


class Escaped(RunCase):
    """In a cgroup, of which a process of the command has moved out."""

    def setUp(self):
        super().setUp()
        self.cgroup = os.path.join(UNIFIED, "tenure-test-%d" % os.getpid())
        try:
            os.mkdir(self.cgroup)
            self.addCleanup(os.rmdir, self.cgroup)
            os.setxattr(self.cgroup, "trusted.delegate", b"1")
            with open(os.path.join(self.cgroup, "cgroup.kill"), "w", encoding="ascii"):
                pass
        except OSError as error:
            self.skipTest("no cgroups of version 2 are available here: %s" % error)

    def escaped(self, mode):
        self.witness.forget()
        enter = 'echo $$ > %s/cgroup.procs; exec "$@"'
        inner = ["sh", "-c", enter % UNIFIED, "sh", *self.witness.command(mode)]
        run = self.start_with(["sh", "-c", enter % self.cgroup, "sh"], "--from", "one", "--ttl", "3",
                              "--containment", "cgroup", "--", *inner)
        until(self.witness.is_held, "the witness")
        return run

    def start_with(self, before, *arguments):
        run = Run(self.server.port, *arguments, before=before)
        self.addCleanup(run.remove)
        return run

    def test_it_ends_with_the_run(self):
        run = self.escaped("lock-forget")
        run.signal(signal.SIGTERM)
        run.end()
        self.assertTrue(self.witness.is_free())
        self.assertEqual(self.leases(), [])

    def test_it_ends_if_the_guardian_is_killed(self):
        for mode in ("lock-child", "lock-forget", "lock-chain"):
            run = self.escaped(mode)
            os.kill(run.guardian(), signal.SIGKILL)
            self.assertEqual(run.end()[0], 137)
            self.assertTrue(self.witness.is_free(), mode)
            self.assertEqual(self.leases(), [])

    def test_it_ends_if_the_guardian_is_stopped(self):
        run = self.escaped("lock-forget")
        os.kill(run.guardian(), signal.SIGSTOP)
        self.do("REVOKE", self.leases()[0]["lease"])
        self.assertEqual(run.end()[0], LOST)
        self.assertTrue(self.witness.is_free())
        self.assertEqual(self.leases(), [])


class WithoutServer(RunCase):
    def test_the_server_is_killed(self):
        for containment in CONTAINMENTS:
            self.witness.forget()
            run = self.held("--containment", containment, mode="lock-child", ttl="2")
            self.server.stop(signal.SIGKILL)
            code, _, err = run.end()
            self.assertEqual(code, LOST)
            self.assertIn("could not be renewed in time", err)
            self.assertTrue(self.witness.is_free())
            self.server.start()

    def test_a_revocation_that_cannot_be_acknowledged_is_told(self):
        """If the notice has no end, only an operator can free the values."""
        self.witness.forget()
        run = self.held("--kill-after", "100", ttl="600", mode="lock-child")
        lease = self.leases()[0]["lease"]
        self.do("REVOKE", lease)
        self.assertIn("was revoked", run.process.stderr.readline().decode())
        self.server.stop(signal.SIGKILL)
        for child in children_of(run.guardian()):
            os.kill(child, signal.SIGKILL)
        code, _, err = run.end()
        self.assertEqual(code, LOST)
        self.assertIn("could not be acknowledged; an operator has to RECLAIM it", err)
        self.server.start()
        self.do("RECLAIM", lease)

    def test_the_server_comes_back_in_time(self):
        self.witness.forget()
        run = self.held(ttl="60")
        self.server.stop(signal.SIGKILL)
        self.server.start()
        before = self.leases()[0]["last_seen"]
        until(lambda: self.leases()[0]["last_seen"] != before, "a renewal")
        run.signal(signal.SIGTERM)
        self.assertEqual(run.end()[0], 0)
        self.assertEqual(self.leases(), [])

    def test_a_connection_that_falls_silent_is_replaced_in_time(self):
        """Meanwhile the server serves others: a machine between was switched off. The command has to end in the
        middle of its ttl, which is the least time for a second renewal."""
        proxy = Proxy(self.server)
        self.addCleanup(proxy.close)
        self.witness.forget()
        run = Run(proxy.port, "--from", "one", "--ttl", "20", "--kill-after", "8", "--", *self.witness.command())
        self.addCleanup(run.remove)
        until(self.witness.is_held, "the witness")
        until(lambda: self.leases()[0]["last_seen"] != self.leases()[0]["created"], "the renewal at the start")
        proxy.hush()
        until(lambda: proxy.swallowed > 0, "a renewal without an answer")
        before = self.leases()[0]["last_seen"]

        def renewed():
            self.assertIsNone(run.process.poll(), "the command was ended")
            return self.leases()[0]["last_seen"] != before
        until(renewed, "a renewal on another connection")
        run.signal(signal.SIGTERM)
        self.assertEqual(run.end()[0], 0)
        self.assertEqual(self.leases(), [])

    def test_the_guardian_is_stopped_and_the_server_gone(self):
        for containment in CONTAINMENTS:
            self.witness.forget()
            run = self.held("--containment", containment, mode="lock-chain", ttl="2")
            os.kill(run.guardian(), signal.SIGSTOP)
            self.server.stop(signal.SIGKILL)
            self.assertEqual(run.end()[0], LOST)
            self.assertTrue(self.witness.is_free())
            self.server.start()


if __name__ == "__main__":
    unittest.main(verbosity=2)
