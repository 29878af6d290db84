#!/usr/bin/env python3
# tsan
"""The server's settings, and its behavior as a daemon: the configuration file, the environment,
flags, declared pools, reload, logs, systemd's notifications, and starts that are refused."""
import fcntl
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import tempfile
import threading
import unittest

import redis

from harness import PATIENCE, TENURED, Server, nobody_may_run, pairs, text_of, until

SOURCE = os.environ.get("TENURE_SOURCE_DIR", ".")
EXAMPLE = os.path.join(SOURCE, "packaging", "tenured.conf.example")


def tenured(*flags, env=None, text=None):
    """Runs it to its end, with a configuration file of that text if there is one."""
    with tempfile.TemporaryDirectory() as directory:
        if text is not None:
            path = os.path.join(directory, "conf")
            with open(path, "w", encoding="utf-8", newline="") as file:
                file.write(text)
            flags = ("--config", path, *flags)
        out = subprocess.run([TENURED, *flags], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                             timeout=PATIENCE, check=False, cwd=directory,
                             env=dict(os.environ, **(env or {})))
        place = directory + "/"
        return (out.returncode, out.stdout.decode().replace(place, ""),
                out.stderr.decode().replace(place, ""))


def check(text, *flags, env=None):
    return tenured("--check-config", *flags, env=env, text=text)


class Configured(Server):
    """A server with a configuration file that can be changed and read again."""
    patience = ()  # a flag would go before the file

    def __init__(self, text, *flags):
        self.directory = tempfile.mkdtemp(prefix="tenure-e2e-")
        self.config = os.path.join(self.directory, "conf")
        self.write(text)
        super().__init__(self.directory, "--config", self.config, *flags)

    def write(self, text):
        with open(self.config, "w", encoding="utf-8") as file:
            file.write(text)

    def lines(self, event):
        """The complete lines about the event: a line that is being written may be seen in parts."""
        return [line for line in text_of(self.log.name).split("\n")[:-1]
                if "event=%s " % event in line + " " or '"event":"%s"' % event in line]

    def reload(self, text=None, event="reloaded"):
        if text is not None:
            self.write(text)
        before = len(self.lines(event))
        self.process.send_signal(signal.SIGHUP)
        return until(lambda: self.lines(event)[before:], event)[0]

    def clean(self):
        """Also cleans up after a test that failed."""
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait(PATIENCE)
        self.log.close()
        shutil.rmtree(self.directory)

    def option(self, pool, name):
        r = self.client()
        try:
            return pairs(pairs(r.execute_command("POOL", "INFO", pool))["options"])[name]
        finally:
            r.close()

    def lsn(self):
        r = self.client()
        try:
            return int(r.info()["lsn"])
        finally:
            r.close()


class Daemon(unittest.TestCase):
    def configured(self, text, *flags):
        server = Configured(text, *flags)
        self.addCleanup(server.clean)
        return server


class Check(unittest.TestCase):
    def test_every_mistake_is_told_with_its_line(self):
        text = ("x = 1\n"                           # 1
                "[server]\n"
                "listen = 0.0.0.0:1\n"              # 3
                "slow_seconds = 0\n"
                "idle_seconds = 99999999999999999999999\n"
                "what = 3\n"                        # 6
                "data = x\n"
                "nonsense\n"                        # 8
                "log_format = xml\n"
                "[nope]\n"                          # 10
                "ignored = because of its section\n"
                "[limits]\n"
                "leases_max = 0\n"                  # 13
                "ops_max = 10\n"
                "ops_max = 11\n"                    # 15
                "[pool a]\n"
                "range = 5\n"                       # 17
                "strategy = best\n"
                "lease = 5\n"
                "base_lease_seconds = 6\n"          # 20
                "nosuch = 1\n"
                "[pool a]\n"                        # 22
                "[pool b\n"
                "[pool b/c]\n"                      # 24
                "[pool c]\n"                        # 25
                "range = 9 3\n"
                "[pool d]\n"
                "set = yes\n"
                "names = a b/c\n"                   # 29
                "exclude = 3-\n"
                "internal = yes\n"                  # 31
                "[engine]\n"
                "snapshot_bytes = 20000000000G\n"   # 33
                "data = \n"
                "[server]\n"
                "http = " + "x" * 300 + "\n"        # 36
                "confirm_time_jump = yes\n")
        code, out, err = check(text, "--slow-seconds", "x", "--wat",
                               env={"TENURE_IDLE_SECONDS": "-1"})
        self.assertEqual(code, 2)
        self.assertEqual(out, "")
        lines = [int(line.split(":")[1]) for line in err.splitlines() if line.startswith("conf:")]
        self.assertEqual(sorted(lines), [1, 3, 4, 5, 6, 7, 8, 9, 10, 13, 15, 17, 18, 20, 21, 22, 23,
                                         24, 25, 29, 30, 31, 33, 34, 36, 37], err)
        for word in ("loopback", "from 1 to 1000000", "unknown setting 'what'", "belongs in section [engine]",
                     "neither a [section] nor key = value", "logfmt or json", "set twice",
                     "is already in line 14", "is already in line 16", "lo is above hi",
                     "TENURE_IDLE_SECONDS: '-1'", "--slow-seconds: 'x'",
                     "--wat: unknown flag"):
            self.assertIn(word, err)

    def test_odd_files(self):
        self.assertEqual(check("")[0], 0)
        self.assertEqual(check("\ufeff[server]\r\n  slow_seconds : 7 ; comment\r\n# c\n\n")[0], 0)
        self.assertIn("slow_seconds = 7 ; conf:2", check("[server]\n\tslow_seconds=7")[1])
        self.assertIn("NUL", check("[server]\nslow_seconds = 7\0\n")[2])
        self.assertEqual(check("[pool e]\n")[0], 0)
        self.assertEqual(check("[pool %s]\nlease = 1\n" % ("p" * 64))[0], 0)
        self.assertIn("1 to 64", check("[pool %s]\n" % ("p" * 65))[2])

    def test_the_manual_has_every_option_that_the_help_has(self):
        flags = set(re.findall(r"(?:^  |, )(--?[a-z][a-z-]*)", tenured("--help")[1], re.M))
        self.assertGreater(len(flags), 50)
        path = os.path.join(os.environ.get("TENURE_SOURCE_DIR", "."), "docs/man/tenured.8")
        manual = text_of(path).replace("\\-", "-")
        tags = set(re.findall(r"^\.TP\n\.B (.*)$", manual, re.M))
        named = {flag for tag in tags for flag in re.findall(r"(?:^|, )(--?[a-z][a-z-]*)", tag)}
        self.assertEqual(flags - named, set())
        self.assertEqual(tenured("-h")[1], tenured("--help")[1])

    def test_a_cluster_is_judged_as_a_whole(self):
        good = ("[cluster]\nnode = a\netcd_endpoints = http://127.0.0.1:2379, https://b:2379\n"
                "cluster_secret_file = secret\n")
        self.assertEqual(check(good), (0, check(good)[1], ""))
        for more, reason in (
                ("etcd_user = tenure\n", "etcd_user and etcd_password_file must be set together"),
                ("etcd_key_file = k\n", "etcd_cert_file and etcd_key_file must be set together"),
                ("etcd_prefix = tenure/\n", "it must begin and end with a slash"),
                ("advertise = here\n", "advertise: it must be HOST:PORT"),
                ("advertise = 0.0.0.0:7411\n", "others can connect to"),
                ("sensor_fencing = never\n", "'never' is not timed or proven"),
                ("leader_ttl = 100ms\n", "'100ms' is not"),
                ("[server]\nlisten = 127.0.0.1:0\n", "has no fixed port")):
            code, _, err = check(good + more)
            self.assertEqual(code, 2, more)
            self.assertIn(reason, err)
        for text, reason in (
                ("[cluster]\nadvertise = a:1\n", "a cluster needs node"),
                ("[cluster]\nnode = a\n", "a cluster needs the members of etcd"),
                ("[cluster]\nnode = a/b\n", "only letters, digits"),
                (good.replace("https://b:2379", "ftp://b"), "'ftp://b' is not http://HOST:PORT"),
                (good.replace("cluster_secret_file = secret\n", ""), "a cluster needs the secret")):
            code, _, err = check(text)
            self.assertEqual(code, 2, text)
            self.assertIn(reason, err)
        for address in "https://tenure:hidden@b", "https://tenure:hid,den@b", "ftp://tenure:hid den@b":
            err = check(good.replace("https://b", address))[2]
            self.assertIn("use etcd_user and etcd_password_file", err)
            self.assertNotIn("hid", err)
        self.assertIn("a cluster needs node", check("", "--cluster-init")[2])

    def test_a_variable_that_the_server_needs_cannot_have_the_token(self):
        for name in ("PATH", "TENURE_RUN_ID", "LD_PRELOAD", "1A"):
            code, _, err = check("[sensors]\nsensor_token_env = %s\n" % name)
            self.assertNotEqual(code, 0)
            self.assertIn("'%s' must " % name, err)
        self.assertEqual(check("[sensors]\nsensor_token_env = ATTUNE_API_TOKEN\n")[0], 0)

    def test_durations_may_have_units(self):
        code, out, err = check("[server]\nslow_seconds = 2m\n[tokens]\ntoken_ttl_seconds = 30d\n"
                               "[sensors]\nsensor_stop_seconds = 1m\nsensor_settle_seconds = 0.25\n"
                               "[limits]\nhistory_seconds = 1h\nop_window_seconds = 15m\n"
                               "[pool p]\nlease = 12h\ngrace = 90s\nmax_lease = 30d\n"
                               "[sensor s]\ntrigger = t\ncommand = /bin/true\nstop_seconds = 2m\n"
                               "limits.cpu_seconds = 1h\n")
        self.assertEqual((code, err), (0, ""))
        for line in ("slow_seconds = 2m ; conf:2", "lease = 43200", "grace = 90", "max_lease = 2592000"):
            self.assertIn(line + "\n", out)
        self.assertEqual(check(out)[0], 0)
        for text in ("1.5h", "-1", "h", "1w", "1h30m", "99999999999d"):
            for section in ("[server]\nslow_seconds = ", "[limits]\nhistory_seconds = ",
                            "[sensors]\nsensor_stop_seconds = ", "[pool p]\nmax_hold = "):
                code, _, err = check(section + text + "\n")
                self.assertEqual(code, 2, section + text)
                self.assertRegex(err, "90s, 15m, 12h, 30d|from . to [0-9]+ seconds|at most [0-9]+ sec")

    def test_a_line_may_be_as_long_as_the_file(self):
        names = ["name-%d" % i for i in range(50000)]
        for text in ("[server]\nport_file = /%s\n" % ("x" * 100000),
                     "[pool p]\nset = yes\nnames = %s\n" % " ".join(names),
                     "[engine]\n%s data = d\n" % (" " * 500000),
                     "# %s\n[server]\nslow_seconds = 7\n" % ("x" * 1000000)):
            code, out, err = check(text)
            self.assertEqual((code, err), (0, ""))
            self.assertEqual(check(out)[0], 0)
        self.assertIn("x" * 100000 + " ; conf:2", check("[server]\nport_file = %s" % ("x" * 100000))[1])
        code, _, err = check("[server]\nlisten = %s\n%s = 1\n[%s]\n%s\n" % (("x" * 200000,) * 4))
        self.assertEqual(code, 2)
        self.assertEqual([line[:7] for line in err.splitlines()],
                         ["conf:2:", "conf:3:", "conf:4:", "conf:5:"])
        self.assertIn("longer than 4095 bytes", check(
            "[pool p]\nrange = 1 9999\nexclude = %s\n" % ",".join(map(str, range(1, 2000))))[2])
        self.assertIn("larger than", check("# %s\n" % ("x" * (1 << 20)))[2])
        self.assertIn("larger than", check("#\n" * 600000)[2])
        code, _, err = tenured("--config", "missing", "--check-config")
        self.assertEqual((code, err), (2, "missing: no such file or directory\n"))
        code, _, err = tenured("--config", ".", "--check-config")
        self.assertEqual(code, 2)
        self.assertIn("not a readable file", err)
        self.assertEqual(check("".join("[pool p%d]\n" % i for i in range(4096)))[0], 0)
        self.assertIn("more than 4096 pools",
                      check("".join("[pool p%d]\n" % i for i in range(4097)))[2])

    def test_policies_that_make_no_sense(self):
        for body, why in [("range = 1 2\nsticky = yes\nlease = 0", "above 0"),
                          ("high_rate_min_factor = 0.5", "high_rate_min_factor needs a sticky pool"),
                          ("sticky = yes\nlease = 5\nmin_lease_seconds = 6", "min_lease_seconds"),
                          ("sticky = yes\nultra_rate_threshold_per_hour = 1", "ultra"),
                          ("set = yes\nscoped = yes", "cannot be scoped"),
                          ("lease = 9\nmax_lease = 8", "max_lease"),
                          ("range = 0 0xffffffffffffffff\nformat = mac", "format mac"),
                          ("exclude = 1-5 4-9", "overlap"),
                          ("names = a", "names are for a set"),
                          ("set = no", "set = yes"),
                          ("offline_hold_days = 60000", "at most"),
                          ("high_rate_min_factor = 1.1", "from 0 to 1,"),
                          ("lease = 1.5h", "90s, 15m, 12h, 30d")]:
            code, _, err = check("[pool p]\n" + body + "\n")
            self.assertEqual(code, 2, body)
            self.assertIn(why, err)
            self.assertRegex(err, r"^conf:\d+: ")

    def test_flags_go_before_the_environment_before_the_file_before_defaults(self):
        text = "[server]\nslow_seconds = 1\nidle_seconds = 1\nmax_connections = 1\n"
        _, out, _ = check(text, "--slow-seconds=3",
                          env={"TENURE_SLOW_SECONDS": "2", "TENURE_IDLE_SECONDS": "2",
                               "TENURE_LOG_FORMAT": "", "TENURE_LEASES_MAX": "5"})
        self.assertIn("slow_seconds = 3 ; --slow-seconds", out)
        self.assertIn("idle_seconds = 2 ; TENURE_IDLE_SECONDS", out)
        self.assertIn("max_connections = 1 ; conf:4", out)
        self.assertIn("log_format = logfmt ; default", out)
        self.assertIn("leases_max = 5 ; TENURE_LEASES_MAX", out)

    def test_the_environment_can_name_the_file(self):
        with tempfile.NamedTemporaryFile("w", suffix=".conf") as file:
            file.write("[server]\nslow_seconds = 77\n")
            file.flush()
            _, out, _ = tenured("--check-config", env={"TENURE_CONFIG": file.name})
            self.assertIn("slow_seconds = 77 ; %s:2" % file.name, out)

    def test_the_printout_is_a_file_with_the_same_meaning(self):
        text = text_of(EXAMPLE) + "[pool gpus]\nset = yes\nnames = a b\nnames = c\nlease = 5\n" \
            "[pool ids]\nsticky = yes\noffline_hold_days = 2\nhigh_rate_min_factor = 0.25\n" \
            "exclude = 7 9-11\nexclude = 20\n[limits]\nbundle_max = 12\n" \
            "[pool odd]\nset = yes\nnames =;a b\nnames =;c d\n"
        code, once, err = check(text)
        self.assertEqual((code, err), (0, ""))
        code, twice, err = check(once)
        self.assertEqual((code, err), (0, ""))

        def strip(out):
            return re.sub(r" ; .*", "", out)
        self.assertEqual(strip(once), strip(twice))
        self.assertIn("lease = 172800", once)
        self.assertIn("names =;a b\nnames =;c d\n", twice)
        self.assertIn("exclude = 7-7,9-11,20-20\n", once)

    def test_help_and_version(self):
        code, out, _ = tenured("--help")
        self.assertEqual(code, 0)
        self.assertIn("--slow-seconds DURATION", out)
        code, out, _ = tenured("--version")
        self.assertEqual(code, 0)
        self.assertRegex(out, r"^tenured \d+\.\d+\.\d+")


class Start(unittest.TestCase):
    def test_a_broken_configuration_does_not_start(self):
        code, _, err = tenured(text="[server]\nslow_seconds = x\nidle_seconds = y\n")
        self.assertEqual(code, 2)
        self.assertEqual(err.count("event=config_error"), 2)
        self.assertIn('event=refused reason="the configuration has mistakes: 2"', err)

    def test_a_port_in_use_is_said(self):
        server = Server()
        with tempfile.TemporaryDirectory() as data:
            code, _, err = tenured("--data", data, "--listen", "127.0.0.1:%d" % server.port)
        self.assertEqual(code, 2)
        self.assertIn("address already in use", err)
        server.remove()

    def test_a_directory_that_another_has_is_refused(self):
        server = Server()
        code, _, err = tenured("--data", os.path.join(server.data, "data"),
                               "--listen", "127.0.0.1:0")
        self.assertEqual(code, 2)
        self.assertIn("the data directory is in use", err)
        server.remove()

    def test_a_lock_that_is_left_for_a_moment_is_waited_for(self):
        """As a child of a killed server holds it until it calls exec."""
        server = Server()
        self.assertEqual(server.stop(), 0)
        with open(os.path.join(server.data, "data", "lock"), "rb") as lock:
            lines = lambda: text_of(server.log.name).count("event=locked")

            def waited():
                """False: this test released it too late."""
                before = lines()

                def release():
                    until(lambda: lines() > before, "it waits")
                    fcntl.flock(lock, fcntl.LOCK_UN)
                fcntl.flock(lock, fcntl.LOCK_EX)
                thread = threading.Thread(target=release)
                thread.start()
                try:
                    server.start()
                except AssertionError:
                    server.log.close()
                    return False
                finally:
                    thread.join()
                return True
            until(waited, "a server that waits")
        server.remove()

    def test_a_directory_that_may_not_be_written_is_said(self):
        with tempfile.TemporaryDirectory() as place:
            os.chmod(place, 0o755)
            flags = [TENURED, "--data", os.path.join(place, "data"), "--listen", "127.0.0.1:0"]
            if os.geteuid() == 0:
                if not nobody_may_run(TENURED):
                    self.skipTest("nobody else may run it")
                flags = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", *flags]
            else:
                os.chmod(place, 0o555)
            out = subprocess.run(flags, stderr=subprocess.PIPE, timeout=PATIENCE, check=False)
            self.assertEqual(out.returncode, 2, out.stderr)
            self.assertIn(b"permission denied", out.stderr.lower())
            self.assertEqual(out.stderr.count(b"\n"), 1)
            os.chmod(place, 0o755)

    def test_a_port_file_that_cannot_be_written_is_said(self):
        with tempfile.TemporaryDirectory() as data:
            code, _, err = tenured("--data", data, "--listen", "127.0.0.1:0", "--http", "off",
                                   "--port-file", os.path.join(data, "no", "port"))
        self.assertEqual(code, 2)
        self.assertIn("--port-file", err)

    def test_limits_are_logged_and_stay(self):
        server = Server(None, "--bundle-max", "2")
        r = server.client()
        r.execute_command("POOL", "CREATE", "p", "RANGE", "1", "9")
        with self.assertRaisesRegex(redis.ResponseError, "TOO_LARGE"):
            r.execute_command("ALLOC", "p", "h", "COUNT", "3")
        server.stop()
        server.flags = ()
        server.start()
        r = server.client()
        with self.assertRaisesRegex(redis.ResponseError, "TOO_LARGE"):
            r.execute_command("ALLOC", "p", "h", "COUNT", "3")
        server.stop()
        server.flags = ("--bundle-max", "3")
        server.start()
        r = server.client()
        r.execute_command("ALLOC", "p", "h", "COUNT", "3")
        r.close()
        server.remove()


class Pools(Daemon):
    def test_the_example_gives_from_each_of_its_pools(self):
        server = self.configured(text_of(EXAMPLE))
        r = server.client()

        def value(pool):
            return pairs(r.execute_command("ALLOC", pool, "vm/1"))["values"][0]
        self.assertTrue(1 <= int(value("vxlan")) <= 16777215)
        self.assertEqual(value("console-ports@node7"), "30000")
        self.assertEqual(value("console-ports@node8"), "30000")
        self.assertEqual(value("console-ports@node7"), "30001")
        self.assertTrue(3 <= int(value("vsock-cid")) <= 4294967294)
        self.assertRegex(value("mac"), r"^52:54(:[0-9a-f]{2}){4}$")
        r.close()
        server.remove()

    def test_declared_pools_are_made_altered_and_left_alone(self):
        base = "[pool ports]\nrange = 10 19\nlease = %d\n"
        server = self.configured(base % 60 + "[pool gpus]\nset = yes\nnames = a b\n")
        r = server.client()
        self.assertEqual(len(server.lines("pool_created")), 2)
        lease = pairs(r.execute_command("ALLOC", "ports", "h", "VALUES", "1", "15"))
        self.assertEqual(pairs(r.execute_command("ALLOC", "gpus", "h", "COUNT", "2"))["values"],
                         ["a", "b"])
        r.execute_command("POOL", "CREATE", "mine", "RANGE", "1", "2")

        # Nothing differs: nothing is logged, at a start and at a reload.
        before = server.lsn()
        self.assertIn("changed=none needs_restart=none pools_created=0 pools_altered=0 "
                      "pools_refused=0", server.reload())
        self.assertEqual(server.lsn(), before)

        # A line that is gone is a default again; names that are new are added.
        line = server.reload("[pool ports]\nrange = 10 29\nexclude = 12 14-15\n"
                             "[pool gpus]\nset = yes\nnames = b c\n")
        self.assertIn("pools_altered=1", line)
        self.assertIn("name=ports options=hi,lease,exclude", server.lines("pool_altered")[0])
        self.assertIn("name=gpus count=1", server.lines("pool_names_added")[-1])
        for name, value in (("hi", "29"), ("lease", "0"), ("exclude", "12-12,14-15")):
            self.assertEqual(server.option("ports", name), value)
        self.assertEqual(pairs(r.execute_command("ALLOC", "gpus", "h"))["values"], ["c"])

        # What is in use cannot be taken away; the others are still served.
        line = server.reload("[pool ports]\nrange = 10 14\n[pool new]\n")
        self.assertIn("pools_created=1 pools_altered=0 pools_refused=1", line)
        self.assertRegex(server.lines("pool_refused")[0],
                         'name=ports command="pool alter" result=POOL_IN_USE reason=".*cooling')
        r.execute_command("RELEASE", lease["lease"], "h", lease["epoch"])
        self.assertIn("pools_altered=1", server.reload())
        self.assertEqual(server.option("mine", "hi"), "2")
        r.close()

        # The same at a start.
        server.write("[pool ports]\nrange = 10 14\ngrace = 9\n[pool gpus]\nrange = 1 2\n")
        server.stop()
        server.start()
        self.assertIn("options=grace", server.lines("pool_altered")[-1])
        self.assertIn("name=gpus", server.lines("pool_refused")[-1])
        before = server.lsn()
        server.stop()
        server.start()
        self.assertLessEqual(server.lsn() - before, 2)  # the refused alter, and time
        server.remove()


    def test_a_scope_is_declared_with_its_own_range(self):
        text = "[pool con@hw1]\nrange = 100 109\n[pool con]\nrange = 1 9\nscoped = yes\nlease = %d\n"
        server = self.configured(text % 60)
        r = server.client()
        self.assertEqual(pairs(r.execute_command("ALLOC", "con@hw1", "h"))["values"], ["100"])
        self.assertEqual(pairs(r.execute_command("ALLOC", "con@hw2", "h"))["values"], ["1"])
        before = server.lsn()
        self.assertIn("pools_created=0 pools_altered=0 pools_refused=0", server.reload())
        self.assertEqual(server.lsn(), before)
        self.assertIn("pools_altered=1", server.reload(text % 30))
        self.assertEqual((server.option("con@hw1", "lease"), server.option("con@hw1", "hi")), ("30", "109"))
        line = server.reload((text % 30).replace("109", "119\nlease = 5"))
        self.assertIn("pools_altered=1", line)
        self.assertEqual((server.option("con@hw1", "lease"), server.option("con", "lease")), ("5", "30"))
        r.close()
        server.remove()
        self.assertIn("1 to 64", check("[pool a@]\n")[2])


class Backup(Daemon):
    def test_a_snapshot_alone_restores_and_starts_a_new_generation(self):
        server = self.configured("[pool p]\nrange = 1 9\n")
        r = server.client()
        lease = pairs(r.execute_command("ALLOC", "p", "h"))
        r.execute_command("SNAPSHOT")
        r.close()
        data = os.path.join(server.data, "data")
        newest = max(name for name in os.listdir(data) if name.startswith("snapshot-"))
        restored = self.configured("[pool p]\nrange = 1 9\n")
        restored.stop()
        place = os.path.join(restored.data, "data")
        shutil.rmtree(place)
        os.mkdir(place)
        shutil.copy(os.path.join(data, newest), place)
        flags = restored.flags
        restored.flags = (*flags, "--restored")
        restored.start()
        r = restored.client()
        self.assertEqual(pairs(r.execute_command("LEASE", lease["lease"]))["holder"], "h")
        fresh = pairs(r.execute_command("ALLOC", "p", "h2"))["lease"]
        self.assertNotEqual(fresh.split("-")[0], lease["lease"].split("-")[0])
        r.close()
        restored.stop()
        restored.flags = flags
        restored.start()
        restored.remove()
        server.remove()


class Reload(Daemon):
    def test_settings_change_or_say_that_they_cannot(self):
        server = self.configured("[server]\nidle_seconds = 5\nmax_connections = 10\n")
        r = server.client()
        self.assertIn("changed=slow_seconds,idle_seconds "
                      "needs_restart=max_downtime_days,snapshot_bytes,leases_max ",
                      server.reload("[server]\nslow_seconds = 9\nidle_seconds = 77\n"
                                    "max_connections = 10\n[engine]\nmax_downtime_days = 9\n"
                                    "snapshot_bytes = 2M\n[limits]\nleases_max = 5\n"))
        self.assertEqual(r.config_get("timeout"), {"timeout": "77"})
        # Said again for as long as it is so.
        self.assertIn("changed=none needs_restart=max_downtime_days,snapshot_bytes,leases_max ",
                      server.reload())
        # The line that says so is in the new form already.
        line = json.loads(server.reload("[server]\nmax_connections = 10\nlog_format = json\n"))
        self.assertEqual(line["changed"], "slow_seconds,idle_seconds,log_format")
        self.assertEqual(line["needs_restart"], "none")
        r.close()
        server.remove()

    def test_each_setting_that_needs_a_restart_is_named(self):
        server = self.configured("")
        text, names = "", set()
        for line in check("")[1].splitlines():
            number = re.match(r"(?:; )?(\w+) = (\d+) ; default", line)
            if line.startswith("["):
                text += line + "\n"
            elif number is not None:
                text += "%s = %d\n" % (number[1], int(number[2]) + 1)
                names.add(number[1])
        for name in ("sensor_settle_seconds", "sensor_max_restarts", "leases_max"):
            self.assertIn(name, names)
        line = server.reload(text)
        said = re.search(r"changed=(\S+) needs_restart=(\S+) ", line)
        self.assertEqual(set(said[1].split(",")) | set(said[2].split(",")), names)
        self.assertIn("sensor_settle_seconds", said[1])
        self.assertIn("leases_max", said[2])
        server.remove()

    def test_the_number_of_connections_goes_down_and_up_again(self):
        server = self.configured("[server]\nmax_connections = 3\n")
        held = [server.connect() for _ in range(2)]
        for s in held:
            s.sendall(b"PING\r\n")
            self.assertEqual(s.recv(100), b"+PONG\r\n")
        self.assertIn("changed=max_connections needs_restart=none",
                      server.reload("[server]\nmax_connections = 2\n"))
        s = server.connect()
        self.assertIn(b"max number of clients", s.recv(200))
        s.close()
        self.assertIn("changed=none needs_restart=max_connections",
                      server.reload("[server]\nmax_connections = 4\n"))
        self.assertIn("changed=max_connections",
                      server.reload("[server]\nmax_connections = 3\n"))
        s = server.connect()
        s.sendall(b"PING\r\n")
        self.assertEqual(s.recv(100), b"+PONG\r\n")
        for s in (s, *held):
            s.close()
        server.remove()

    def test_a_broken_file_changes_nothing(self):
        server = self.configured("[server]\nidle_seconds = 5\n[pool p]\nlease = 5\n")
        before = server.lsn()
        line = server.reload("[server]\nidle_seconds = 6\nslow_seconds = x\n[pool p]\nlease = 6\n"
                             "[pool q]\n", "reload_refused")
        self.assertIn("mistakes=1", line)
        self.assertIn("conf:3: slow_seconds", server.lines("config_error")[0])
        self.assertEqual(server.lsn(), before)
        r = server.client()
        self.assertEqual(r.config_get("timeout"), {"timeout": "5"})
        os.unlink(server.config)
        server.reload(None, "reload_refused")
        self.assertTrue(r.ping())
        r.close()
        server.remove()

    def test_a_signal_that_comes_before_it_is_ready_waits(self):
        with tempfile.TemporaryDirectory() as place:
            log = os.path.join(place, "log")
            with open(log, "wb") as out:
                process = subprocess.Popen(
                    [TENURED, "--data", os.path.join(place, "data"), "--listen", "127.0.0.1:0",
                     "--http", "off"], stderr=out,
                    preexec_fn=lambda: signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGHUP]))
            process.send_signal(signal.SIGHUP)
            try:
                until(lambda: "event=reloaded" in text_of(log), "the reload")
            finally:
                process.terminate()
            self.assertEqual(process.wait(PATIENCE), 0)

    def test_many_signals_under_load(self):
        server = self.configured("[pool p]\nrange = 1 100000\n")
        r = server.client()
        for i in range(200):
            if i % 10 == 0:
                server.write("[pool p]\nrange = 1 100000\nlease = %d\n" % (i + 1))
                server.process.send_signal(signal.SIGHUP)
            r.execute_command("ALLOC", "p", "h%d" % i)
        server.reload("[pool p]\nrange = 1 100000\nlease = 7\n")
        until(lambda: server.option("p", "lease") == "7", "the last file is in effect")
        server.process.send_signal(signal.SIGHUP)
        r.close()
        server.remove()  # asserts that it stops with 0 though a reload may be under way


class Logs(Daemon):
    def test_json_lines(self):
        server = self.configured("[pool p]\n", "--log-format", "json")
        server.reload("[pool p]\nlease = -\n", "reload_refused")
        server.stop()
        lines = [json.loads(line) for line in text_of(server.log.name).splitlines()]
        events = [line["event"] for line in lines]
        for event in ("recovered", "pool_created", "ready", "config_error", "reload_refused",
                      "stopping", "stopped"):
            self.assertIn(event, events)
        ready = next(line for line in lines if line["event"] == "ready")
        self.assertEqual(ready["port"], server.port)
        for line in lines:
            self.assertRegex(line["ts"], r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$")
        server.remove()

    def test_logfmt_lines_have_the_time_first(self):
        server = Server()
        server.stop()
        for line in text_of(server.log.name).splitlines():
            self.assertRegex(line, r"^ts=\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z event=[a-z_]+")
        server.remove()

    def test_the_journal_has_its_own_clock(self):
        with tempfile.TemporaryFile() as log, tempfile.TemporaryDirectory() as data:
            stat = os.fstat(log.fileno())
            for inode, start in ((stat.st_ino, b"event="), (stat.st_ino + 1, b"ts=")):
                log.truncate(0)
                log.seek(0)
                subprocess.run([TENURED, "--data", data, "--listen", "[::1]:0", "--slow-seconds",
                                "0"], stderr=log, timeout=PATIENCE, check=False, env=dict(
                                    os.environ, JOURNAL_STREAM="%d:%d" % (stat.st_dev, inode)))
                log.seek(0)
                self.assertTrue(log.read().startswith(start))


class Notify(Daemon):
    def setUp(self):
        place = tempfile.mkdtemp(prefix="tenure-e2e-")
        self.addCleanup(shutil.rmtree, place)
        self.path = os.path.join(place, "notify")
        self.heard = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.addCleanup(self.heard.close)
        self.heard.settimeout(PATIENCE)
        self.heard.bind(self.path)

    def notified(self, **environment):
        """A server that notifies this test."""
        environment["NOTIFY_SOCKET"] = self.path
        os.environ.update(environment)
        try:
            return self.configured("")
        finally:
            for name in environment:
                del os.environ[name]

    def until_heard(self, word):
        """Receives messages up to the one that contains this line."""
        while True:
            lines = self.heard.recv(4096).decode().split("\n")
            if word in lines:
                return lines

    def test_systemd_hears_what_happens(self):
        server = self.notified()
        self.until_heard("STATUS=Recovering.")
        self.assertIn("STATUS=Serving.", self.until_heard("READY=1"))
        server.process.send_signal(signal.SIGHUP)
        lines = self.until_heard("RELOADING=1")
        self.assertTrue(any(re.match(r"MONOTONIC_USEC=\d+$", line) for line in lines))
        self.assertIn("STATUS=Serving.", self.until_heard("READY=1"))
        server.write("x")
        server.process.send_signal(signal.SIGHUP)
        self.until_heard("RELOADING=1")
        self.assertIn("STATUS=Serving; the last reload was refused.", self.until_heard("READY=1"))
        server.process.send_signal(signal.SIGTERM)
        self.until_heard("STOPPING=1")
        self.assertEqual(server.process.wait(PATIENCE), 0)
        server.remove()

    def test_systemd_hears_again_and_again_that_it_lives(self):
        """In a test of its own: these frequent messages fill the socket, and others would find no room."""
        server = self.notified(WATCHDOG_USEC="20000")
        for _ in range(3):
            self.until_heard("WATCHDOG=1")
        self.assertEqual(server.stop(), 0)
        server.remove()


if __name__ == "__main__":
    unittest.main(verbosity=1)
