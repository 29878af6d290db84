"""`tenure doctor`: its findings on good and bad machines, its advice, and that it changes nothing."""
import json
import os
import shutil
import socket
import subprocess
import tempfile
import unittest

from harness import BUILD, PATIENCE, TENURED, Server, nobody_may_run
from tls_kit import Certificates

TENURE = os.path.join(BUILD, "tenure")


def tree(path):
    """Names, sizes and modification times of the directory and all entries below it."""
    return {os.path.relpath(os.path.join(at, name), path):
            (lambda st: (st.st_size, st.st_mtime_ns, st.st_mode))(os.lstat(os.path.join(at, name)))
            for at, _, names in os.walk(path) for name in names}


class DoctorTest(unittest.TestCase):
    def setUp(self):
        self.dir = tempfile.mkdtemp(prefix="tenure-doctor-")
        self.addCleanup(shutil.rmtree, self.dir)
        self.data = os.path.join(self.dir, "data")
        self.units = os.path.join(self.dir, "units")  # instead of this machine's
        self.environment = {**{k: v for k, v in os.environ.items() if not k.startswith("TENURE_")},
                            "SYSTEMD_UNIT_PATH": self.units}

    def doctor(self, *flags, before=(), code=0):
        """Its findings, as (level, area): [texts]. Ports are free ones unless flags say otherwise."""
        out = subprocess.run([*before, TENURE, "doctor", "--json", "--data", self.data, "--listen",
                              "127.0.0.1:0", "--http", "off", *flags], timeout=PATIENCE, check=False,
                             stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=self.environment)
        self.assertEqual(out.returncode, code, out)
        said = json.loads(out.stdout)
        found = {}
        for one in said["findings"]:
            found.setdefault((one["level"], one["area"]), []).append(
                one["what"] + "; " + one.get("advice", ""))
        for level, key in (("ok", "ok"), ("unknown", "unknown"), ("warning", "warnings"),
                           ("problem", "problems")):
            self.assertEqual(said[key], sum(len(v) for k, v in found.items() if k[0] == level))
        return found

    def expect(self, found, level, area, *texts):
        said = found.get((level, area), [])
        for text in texts:
            self.assertTrue(any(text in line for line in said), (level, area, text, found))

    def write(self, name, text, mode=0o600):
        path = os.path.join(self.dir, name)
        with open(path, "w", encoding="ascii") as file:
            file.write(text)
        os.chmod(path, mode)
        return path

    def test_without_server_and_directory(self):
        os.mkdir(self.data + ".d")
        before = tree(self.dir)
        found = self.doctor()
        self.expect(found, "ok", "data", "tenured makes it")
        self.expect(found, "ok", "config", "no file")
        self.expect(found, "ok", "ports", "any free port")
        self.assertEqual(tree(self.dir), before)
        self.data = os.path.join(self.dir, "no", "data")
        self.expect(self.doctor(code=1), "problem", "data", "mkdir -p '%s'" % os.path.dirname(self.data))

    def test_words_for_people_and_usage(self):
        out = subprocess.run([TENURE, "doctor", "--data", self.data], timeout=PATIENCE, text=True,
                             stdout=subprocess.PIPE, env=self.environment, check=False)
        lines = out.stdout.splitlines()
        self.assertRegex(lines[0], r"^ok +config +no file: ")
        self.assertRegex(lines[-1], r"^\d+ ok, \d+ unknown, \d+ warnings, \d+ problems$")
        for wrong in (["--frob"], ["--data"], ["--hash-secret"], ["DIR"]):
            out = subprocess.run([TENURE, "doctor", *wrong], timeout=PATIENCE, text=True, check=False,
                                 stderr=subprocess.PIPE, stdout=subprocess.PIPE, env=self.environment)
            self.assertEqual(out.returncode, 2, (wrong, out))
            self.assertIn("usage: tenure doctor", out.stderr)

    def test_running_server(self):
        server = Server(None)
        self.addCleanup(server.remove)
        self.data = os.path.join(server.data, "data")
        server.client().execute_command("POOL", "CREATE", "p", "RANGE", "1", "9")

        def names():  # but for what the server itself makes
            return sorted(name for name in os.listdir(self.data) if not name.startswith(("spare-", "events-")))
        before = names()
        found = self.doctor("--listen", "127.0.0.1:%d" % server.port, "--http",
                            "localhost:%d" % server.http_port)
        self.assertEqual(names(), before)
        self.expect(found, "ok", "data", "a server runs", "the log is sound: 0 leases, 1 pools")
        self.expect(found, "ok", "clock", "the last batch of the log is")
        self.expect(found, "ok", "ports", "listen 127.0.0.1:%d: Tenure answers" % server.port,
                    "http localhost:%d: Tenure answers" % server.http_port)
        self.expect(found, "ok", "server", "version ", "it is ready")
        self.expect(found, "ok", "limits", "the running server may open")
        # Another directory on the same port is a mistake.
        self.data = os.path.join(self.dir, "data")
        os.mkdir(self.data, 0o700)
        found = self.doctor("--listen", "127.0.0.1:%d" % server.port, code=1)
        self.expect(found, "problem", "ports", "is taken, but no server runs in " + self.data)

    def test_server_with_users(self):
        config = self.write("conf", "[user u]\nrole = admin\nsecret = %s\n" % self.hash("x"))
        server = Server(None, "--config", config)
        self.addCleanup(server.remove)
        self.data = os.path.join(server.data, "data")
        found = self.doctor("--config", config, "--listen", "127.0.0.1:%d" % server.port)
        self.expect(found, "ok", "ports", "wants a log-in")
        self.expect(found, "ok", "secrets", "is not open to others")

    def hash(self, secret):
        return subprocess.run([TENURED, "--hash-secret"], input=secret + "\n", text=True, check=True,
                              stdout=subprocess.PIPE, timeout=PATIENCE).stdout.strip()

    def test_files_with_secrets(self):
        config = self.write("conf", "[user u]\nrole = admin\nsecret = %s\n" % self.hash("x"), 0o644)
        found = self.doctor("--config", config)
        self.expect(found, "warning", "secrets", "can be read by every user of this machine",
                    "chmod o-rwx '%s'" % config)
        self.doctor("--config", config, "--strict", code=1)
        os.chmod(config, 0o646)
        self.expect(self.doctor("--config", config, code=1), "problem", "secrets", "can be written")
        os.chmod(config, 0o600)
        password = self.write("password", "x\n", 0o644)
        self.expect(self.doctor("--config", config, "--amqp-password-file", password), "warning",
                    "secrets", "amqp_password_file " + password)
        self.expect(self.doctor("--amqp-password-file", self.dir + "/none", code=1), "problem",
                    "secrets", "No such file")

    @unittest.skipUnless(os.geteuid() == 0, "needs root, which reads what the server's user cannot")
    def test_files_that_the_user_of_the_server_cannot_read(self):
        os.chmod(self.dir, 0o755)
        os.mkdir(self.data, 0o700)
        os.chown(self.data, 65534, -1)
        config = self.write("conf", "[server]\nslow_seconds = 30\n")
        key = self.write("key", "x\n")
        found = self.doctor("--config", config, "--amqp-password-file", key, code=1)
        for what in ("config " + config, "amqp_password_file " + key):
            self.expect(found, "problem", "secrets", what + " cannot be read by nobody, the user of the server; chgrp ")
        for path in (config, key):
            os.chown(path, 65534, -1)
        self.doctor("--config", config, "--amqp-password-file", key)
        os.chmod(self.dir, 0o700)  # the way there counts, too
        self.expect(self.doctor("--config", config, code=1), "problem", "secrets", "cannot be read by nobody")

    def unit(self, text, drop_ins=()):
        """Installs a unit that runs a server in the data directory."""
        shutil.rmtree(self.units, ignore_errors=True)
        os.makedirs(os.path.join(self.units, "tenured.service.d"))
        self.write("units/tenured.service", "[Service]\nExecStart=/usr/bin/tenured \\\n  --data %s\n%s\n" % (self.data, text))
        for name, line in drop_ins:
            self.write("units/tenured.service.d/" + name, "[Service]\n# a change\n%s\n" % line)

    @unittest.skipUnless(os.geteuid() == 0, "needs root, which reads what the server's user cannot")
    def test_user_and_groups_of_the_unit(self):
        os.chmod(self.dir, 0o755)
        key = self.write("key", "x\n", 0o640)
        shutil.chown(key, "root", "daemon")
        refused = "amqp_password_file %s cannot be read by nobody, the user of the server" % key
        # There is no data directory before the first start; the unit says who the server is.
        self.unit("User=nobody")
        self.expect(self.doctor("--amqp-password-file", key, code=1), "problem", "secrets", refused)
        for text, drop_ins, readable in (
                ("User=nobody\nSupplementaryGroups=games daemon", (), True),
                ("User = nobody", [("groups.conf", "SupplementaryGroups=daemon")], True),
                ("User=nobody\nGroup=daemon", (), True),
                ("# who: \\\nUser=nobody", (), False),
                ("User=nobody\nSupplementaryGroups=\\\n  ; as systemd reads it\n  daemon", (), True),
                ("User=root", [("user.conf", "User=nobody")], False),
                ("User=nobody\nSupplementaryGroups=daemon", [("10.conf", "SupplementaryGroups="),
                                                             ("20.conf", "SupplementaryGroups=games")], False),
                ("User=root", (), True)):
            with self.subTest(unit=text, drop_ins=drop_ins):
                self.unit(text, drop_ins)
                found = self.doctor("--amqp-password-file", key, code=0 if readable else 1)
                self.assertEqual(refused in str(found), not readable, found)
        self.unit("User=nobody\nSupplementaryGroups=there-is-none")
        self.expect(self.doctor("--amqp-password-file", key), "unknown", "secrets", "only with another group")
        self.unit("User=there-is-none")
        self.expect(self.doctor("--amqp-password-file", key, code=1), "problem", "unit",
                    "User=there-is-none: there is no such user; adduser --system --group there-is-none")
        # Another directory than that of the unit: its owner is the server's user, with groups that nobody knows.
        self.unit("User=root")
        self.data += "-2"
        os.mkdir(self.data, 0o700)
        os.chown(self.data, 65534, -1)
        self.expect(self.doctor("--amqp-password-file", key), "unknown", "secrets", "only with another group")
        os.chmod(key, 0o600)
        self.expect(self.doctor("--amqp-password-file", key, code=1), "problem", "secrets", refused)

    def test_flags_of_the_unit(self):
        """What it says is examined if the user names nothing; the last ExecStart counts."""
        for drop_ins, want in (((), self.data), ([("data.conf", "ExecStart=\nExecStart=/usr/bin/tenured --data %s-2" % self.data)],
                                                 self.data + "-2")):
            self.unit("LimitNOFILE=512:768", drop_ins)
            out = subprocess.run([TENURE, "doctor", "--listen", "127.0.0.1:0", "--http", "off"], timeout=PATIENCE,
                                 text=True, stdout=subprocess.PIPE, env=self.environment, check=False)
            self.assertIn("%s does not exist: tenured makes it" % want, out.stdout)
            self.assertIn(os.path.join(self.units, "tenured.service"), out.stdout)
            self.assertIn("the unit may open 768 files", out.stdout)

    def test_mistakes_in_the_configuration(self):
        config = self.write("conf", "[server]\nlisten = nowhere\nfrob = 1\n")
        found = self.doctor("--config", config, code=1)
        self.expect(found, "problem", "config", config + ":2", "unknown setting 'frob'")
        found = self.doctor("--config", self.dir + "/none", code=1)
        self.expect(found, "problem", "config", self.dir + "/none")

    def test_directory_that_others_may_read_or_that_is_none(self):
        os.mkdir(self.data)
        os.chmod(self.data, 0o755)
        self.expect(self.doctor(), "warning", "data", "chmod 700 '%s'" % self.data)
        os.rmdir(self.data)
        self.write("data", "")
        self.expect(self.doctor(code=1), "problem", "data", "is not a directory")
        os.unlink(self.data)
        os.symlink("data", self.data)
        self.expect(self.doctor(code=1), "problem", "data", "Too many levels of symbolic links; choose another path")
        os.unlink(self.data)
        os.mkdir(self.data, 0o700)
        self.write("data/README", "")
        self.expect(self.doctor(), "warning", "data", "has no data of Tenure, but README")

    def test_pipes_are_not_waited_for(self):
        pipe = os.path.join(self.dir, "pipe")
        os.mkfifo(pipe, 0o600)
        self.expect(self.doctor("--config", pipe, code=1), "problem", "config", "not a readable file")
        self.expect(self.doctor("--amqp-password-file", pipe, code=1), "problem", "secrets", "pipe is not a regular file")
        self.expect(self.doctor("--tls-listen", "127.0.0.1:0", "--tls-cert-file", pipe, "--tls-key-file", pipe, code=1),
                    "problem", "tls", "pipe is not a regular file")

    def test_damaged_log_and_file_of_another_user(self):
        server = Server(None)
        self.data = os.path.join(server.data, "data")
        server.client().execute_command("POOL", "CREATE", "p", "RANGE", "1", "9")
        server.stop()
        self.addCleanup(server.remove)
        if os.geteuid() == 0:
            os.chown(os.path.join(self.data, "lock"), 65534, -1)
            self.expect(self.doctor(code=1), "problem", "data", "lock in", "chown -R root: ")
            os.chown(os.path.join(self.data, "lock"), 0, -1)
        self.expect(self.doctor(), "ok", "data", "no server runs", "the log is sound")
        for name in os.listdir(self.data):
            if name.endswith(".snap"):
                with open(os.path.join(self.data, name), "r+b") as file:
                    file.seek(100)
                    file.write(b"\xff" * 64)
        self.expect(self.doctor(code=1), "problem", "data", "tenure check '%s'" % self.data)

    def test_a_restore_that_was_interrupted(self):
        """No server starts there, sound as the log may be."""
        server = Server(None)
        self.addCleanup(server.remove)
        self.data = os.path.join(server.data, "data")
        server.client().execute_command("POOL", "CREATE", "p", "RANGE", "1", "9")
        server.stop()
        mark = os.path.join(self.data, "restored")
        for text, said in (("generation=incomplete\nsensors=off\n",
                            "`tenure restore` was interrupted here: no server starts with it; remove the directory and restore again"),
                           ("x\n", "its file `restored` is not of `tenure restore`")):
            with open(mark, "w", encoding="ascii") as file:
                file.write(text)
            self.expect(self.doctor(code=1), "problem", "data", said)
        with open(mark, "w", encoding="ascii") as file:
            file.write("generation=done\nsensors=off\n")
        self.expect(self.doctor(), "ok", "data", "the log is sound")
        os.unlink(mark)
        os.mkfifo(mark)  # which is not waited for
        self.expect(self.doctor(code=1), "problem", "data", "is not of `tenure restore`")

    @unittest.skipUnless(os.geteuid() == 0, "needs root, to whom lost+found belongs")
    def test_lost_found_belongs_to_root_and_not_to_the_server(self):
        os.chmod(self.dir, 0o755)
        os.makedirs(os.path.join(self.data, "lost+found"), 0o700)
        os.chmod(self.data, 0o700)
        os.chown(self.data, 65534, -1)
        self.expect(self.doctor(), "ok", "data", "belongs to nobody")

    def test_how_long_a_sync_takes(self):
        os.mkdir(self.data, 0o700)
        found = self.doctor()
        said = [text for (_, area), texts in found.items() if area == "disk" for text in texts if "a sync takes" in text]
        self.assertEqual(len(said), 1, found)  # ok or a warning, as the disk is
        self.assertRegex(said[0], r"a sync takes \d+\.\d+ ms \(median of [1-9]\d*")

    def test_memory_is_no_disk(self):
        if not os.path.isdir("/dev/shm") or not os.access("/dev/shm", os.W_OK):
            self.skipTest("no /dev/shm")
        self.data = tempfile.mkdtemp(prefix="tenure-doctor-", dir="/dev/shm")
        self.addCleanup(shutil.rmtree, self.data)
        self.expect(self.doctor(code=1), "problem", "disk", "tmpfs, which is memory")
        self.assertEqual(os.listdir(self.data), [])

    def test_space(self):
        os.mkdir(self.data, 0o700)
        has = shutil.disk_usage(self.data).free
        self.expect(self.doctor("--space-reserve-bytes", str(min(2 * has, 1 << 40)), code=1), "problem",
                    "disk", "not more than space_reserve_bytes")
        self.assertEqual(os.listdir(self.data), [])

    def test_descriptors(self):
        found = self.doctor("--max-connections", "1000000", before=("prlimit", "--nofile=512:512"))
        self.expect(found, "warning", "limits", "this shell may open 512 files", "LimitNOFILE=1000100")

    def test_port_of_another_program_and_address_of_another_machine(self):
        with socket.socket() as other:
            other.bind(("127.0.0.1", 0))
            other.listen(8)
            text = "127.0.0.1:%d" % other.getsockname()[1]
            for setting in ("--http", "--listen"):
                self.expect(self.doctor(setting, text, code=1), "problem", "ports", "is taken, but no server runs")
            server = Server(None)
            self.addCleanup(server.remove)
            without, self.data = self.data, os.path.join(server.data, "data")
            # It accepts and says nothing.
            self.expect(self.doctor("--http", text, code=1), "problem", "ports", "another program than Tenure")
            self.environment.update({"TENURE_USER": "u", "TENURE_SECRET": "hidden"})
            self.expect(self.doctor("--listen", text, code=1), "problem", "ports",
                        "does not answer as Tenure")
            other.setblocking(False)
            self.assertIn(b"HELLO", self.sent(other))
            self.data = without
        self.expect(self.doctor("--listen", text), "ok", "ports", "listen %s is free" % text)
        config = self.write("conf", "[server]\nallow_plaintext = yes\n[user u]\nrole = admin\n"
                            "secret = %s\n" % self.hash("x"))
        found = self.doctor("--config", config, "--listen", "192.0.2.1:7411", code=1)
        self.expect(found, "problem", "ports", "no interface of this machine has that address")

    def sent(self, listener):
        """Everything that the disconnected clients of the listener have sent; it has no secret."""
        data = b""
        while True:
            try:
                client, _ = listener.accept()
            except BlockingIOError:
                self.assertNotIn(b"hidden", data)
                return data
            with client:
                client.settimeout(PATIENCE)
                while (some := client.recv(65536)):
                    data += some

    def test_certificates(self):
        kit = Certificates()
        self.addCleanup(kit.remove)

        def tls(name, key=None, code=0):
            return self.doctor("--tls-listen", "127.0.0.1:0", "--tls-cert-file", kit[name + ".pem"],
                               "--tls-key-file", kit[(key or name) + "-key.pem"], code=code)
        found = tls("server")
        self.expect(found, "ok", "tls", "belongs to the certificate", "DNS:localhost", "is valid for")
        self.expect(found, "ok", "secrets", "tls_key_file")
        kit.server("soon", days="10")
        self.expect(tls("soon"), "warning", "tls", "expires in", "systemctl reload tenured")
        kit.server("late", days="-1")
        self.expect(tls("late", code=1), "problem", "tls", "expired ")
        self.expect(tls("server", "soon", code=1), "problem", "tls", "correct tls_cert_file")
        self.expect(tls("none", "server", code=1), "problem", "tls", "none.pem: No such file or directory",
                    "--make-certificate")
        kit.sign("nameless", "/CN=nobody", usage="serverAuth")
        self.expect(tls("nameless"), "warning", "tls", "has no names")

    def test_without_privileges(self):
        if os.geteuid() != 0 or not nobody_may_run(TENURE):
            self.skipTest("needs root, and a build that others may run")
        os.chmod(self.dir, 0o755)
        config = self.write("conf", "[server]\n", 0o600)
        os.mkdir(self.data, 0o700)
        self.environment["ASAN_OPTIONS"] = "detect_leaks=0"  # which needs ptrace
        found = self.doctor("--config", config, before=("setpriv", "--reuid=65534", "--regid=65534",
                                                        "--clear-groups"))
        self.expect(found, "unknown", "config", "cannot look: " + config, "sudo tenure doctor")
        self.expect(found, "unknown", "data", "cannot look into " + self.data)
        self.expect(found, "unknown", "disk", "cannot measure syncs")


if __name__ == "__main__":
    unittest.main()
