"""The Unix-domain socket: its file, the users of its clients, and who may define programs that run."""
import os
import signal
import socket
import stat
import subprocess
import tempfile
import threading
import unittest

import redis

from harness import BUILD, PATIENCE, TENURED, Case, Server, pairs, receive_until, text_of, until
from resp import Resp

SPEC = '{"command":["/bin/true"]}'
SECRET = "correct horse battery"
# Whoever may run Python: sends words over a socket and prints the first line of the answer.
ASK = r"""
import socket, sys
s = socket.socket(socket.AF_UNIX)
s.connect(sys.argv[1])
for line in sys.argv[2:]:
    words = line.split(" ")
    s.sendall(b"*%d\r\n" % len(words) + b"".join(b"$%d\r\n%s\r\n" % (len(w), w.encode()) for w in words))
    print(s.recv(65536).split(b"\r\n")[0].decode())
"""


def refusal(client, *words):
    try:
        return client.execute_command(*words)
    except redis.exceptions.NoPermissionError as error:
        return "NOPERM " + str(error)
    except redis.ResponseError as error:
        return str(error)


def hashed():
    return subprocess.run([TENURED, "--hash-secret"], input=SECRET.encode() + b"\n", check=True,
                          stdout=subprocess.PIPE, timeout=PATIENCE).stdout.decode().strip()


class Socket(Case):
    def test_its_file_is_for_its_owner_only(self):
        mode = os.stat(self.server.socket).st_mode
        self.assertTrue(stat.S_ISSOCK(mode))
        self.assertEqual(stat.S_IMODE(mode), 0o600)
        said = "unix=%s " % self.server.socket
        until(lambda: said in text_of(self.server.log.name), "the line that names it")

    def test_it_is_the_same_server(self):
        self.local.execute_command("POOL", "CREATE", "same", "RANGE", 1, 9)
        lease = pairs(self.do("ALLOC", "same", "h"))["lease"]
        seen = pairs(self.local.execute_command("LEASE", lease))
        self.assertEqual((seen["holder"], seen["values"]), ("h", ["1"]))
        mine = pairs(self.local.execute_command("ALLOC", "same", "h"))["lease"]
        self.assertEqual(pairs(self.do("LEASE", mine))["user"], "unix:%d" % os.getuid())
        self.assertRegex(self.server.cli("CLIENT", "LIST"), r"unix:%d:%d" % (os.getuid(), os.getpid()))

    def test_a_pipeline_larger_than_all_buffers(self):
        one = b"*2\r\n$4\r\nECHO\r\n$1000\r\n" + b"x" * 1000 + b"\r\n"
        with socket.socket(socket.AF_UNIX) as s:
            s.settimeout(PATIENCE)
            s.connect(self.server.socket)
            threading.Thread(target=s.sendall, args=(one * 3000 + b"PING\r\n",), daemon=True).start()
            self.assertEqual(receive_until(s, b"+PONG\r\n").count(b"x" * 1000), 3000)

    def test_redis_cli_and_ours(self):
        for program in (["redis-cli", "-s"], [os.path.join(BUILD, "tenure"), "--socket"]):
            out = subprocess.run([*program, self.server.socket, "ping" if "cli" not in program[0] else "PING"],
                                 stdout=subprocess.PIPE, check=True, timeout=PATIENCE).stdout
            self.assertIn(b"PONG", out)
        environment = {**os.environ, "TENURE_SOCKET": self.server.socket, "TENURE_PORT": "1"}
        for arguments, code in ((["ping"], 0), (["-p", "1", "ping"], 3)):
            done = subprocess.run([os.path.join(BUILD, "tenure"), *arguments], env=environment,
                                  stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=False)
            self.assertEqual(done.returncode, code, (arguments, done))
        environment = {**os.environ, "TENURE_URL": "unix://" + self.server.socket}
        subprocess.run([os.path.join(BUILD, "tenure"), "ping"], env=environment, check=True,
                       stdout=subprocess.PIPE)

    def test_other_protocols_are_hung_up_on_here_too(self):
        with socket.socket(socket.AF_UNIX) as s:
            s.connect(self.server.socket)
            s.sendall(b"POST / HTTP/1.1\r\n\r\n")
            try:
                self.assertEqual(s.recv(100), b"")
            except ConnectionResetError:
                pass


class Definers(Case):
    def test_an_anonymous_client_may_not_define_programs(self):
        said = refusal(self.r, "SENSOR", "SET", "s", "t", SPEC)
        self.assertTrue(said.startswith("NOPERM "), said)
        for way in ("Unix socket " + self.server.socket, "tenure --socket", "redis-cli -s", "role admin",
                    "configuration file"):
            self.assertIn(way, said)
        self.assertEqual(pairs(self.do("SENSOR", "LIST"))["sensors"], [])
        done = subprocess.run([os.path.join(BUILD, "tenure"), "-p", str(self.server.port), "sensor", "set",
                               "s", "t", SPEC], stderr=subprocess.PIPE, check=False)
        self.assertIn(self.server.socket.encode(), done.stderr)
        self.do("RULE", "SET", "r", "t")  # that is not defining one

    def test_the_servers_own_user_may(self):
        self.local.execute_command("SENSOR", "SET", "mine", "t", SPEC, "DISABLED")
        self.do("SENSOR", "ENABLE", "mine")
        self.do("SENSOR", "DELETE", "mine")

    def test_a_reset_does_not_change_who_it_is(self):
        r = Resp(self.server)
        r.socket.close()
        r.socket = socket.socket(socket.AF_UNIX)
        r.socket.connect(self.server.socket)
        for words in (("RESET",), ("AUTH", "default", "x"), ("HELLO", "3", "AUTH", "default", "y")):
            r.do(*words)
            self.assertIn("OK", str(r.do("SENSOR", "SET", "again", "t", SPEC, "DISABLED")))
        r.close()
        self.do("SENSOR", "DELETE", "again")


class ByFile(Case):
    flags = ("--sensor-commands", "file")

    def test_then_no_client_may(self):
        for client in (self.r, self.local):
            self.assertIn("sensor_commands = file", refusal(client, "SENSOR", "SET", "s", "t", SPEC))
        self.do("RULE", "SET", "r", "t")


class Users(unittest.TestCase):
    def setUp(self):
        self.directory = tempfile.mkdtemp(prefix="tenure-e2e-")
        config = os.path.join(self.directory, "conf")
        with open(config, "w", encoding="ascii") as file:
            for role in "admin", "operator":
                file.write("[user %s]\nrole = %s\nsecret = %s\n" % (role, role, hashed()))
        self.server = Server(self.directory, "--config", config)
        self.server.own = True
        self.addCleanup(self.server.remove)

    def client(self, maker, **options):
        client = maker(**options)
        self.addCleanup(client.close)
        return client

    def test_a_named_administrator_may_and_an_operator_not(self):
        for role, start in ("admin", "['result', 'OK'"), ("operator", "NOPERM"):
            for maker in self.server.client, self.server.local:
                client = self.client(maker, username=role, password=SECRET)
                self.assertTrue(str(refusal(client, "SENSOR", "SET", "s", "t", SPEC)).startswith(start), role)
        out = subprocess.run(["curl", "-s", "-u", "admin:" + SECRET, "-X", "PUT", "--json",
                              '{"trigger":"t","spec":%s}' % SPEC,
                              "http://127.0.0.1:%d/v1/sensors/s" % self.server.http_port],
                             stdout=subprocess.PIPE, check=True).stdout
        self.assertIn(b'"result":"OK"', out)

    def test_the_socket_lets_its_owner_in_without_a_name(self):
        local = self.client(self.server.local)
        self.assertIn("OK", str(local.execute_command("SENSOR", "SET", "s", "t", SPEC)))
        self.assertIn("user=unix:%d" % os.getuid(), self.server_cli("CLIENT", "LIST"))

    def server_cli(self, *words):
        return subprocess.run(["redis-cli", "-s", self.server.socket, *words], stdout=subprocess.PIPE,
                              check=True, timeout=PATIENCE).stdout.decode()

    @unittest.skipUnless(os.getuid() == 0, "another user is needed")
    def test_others_must_log_in(self):
        """An operator who opens the file to other users only lets them connect."""
        for path in self.directory, os.path.join(self.directory, "data"):
            os.chmod(path, 0o755)
        os.chmod(self.server.socket, 0o666)
        out = subprocess.run(["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups",
                              "/usr/bin/python3", "-c", ASK, self.server.socket, "PING",
                              "AUTH operator wrong", "POOL LIST", "HELLO 3", "RESET", "PING"],
                             stdout=subprocess.PIPE, check=True, timeout=PATIENCE).stdout.decode().splitlines()
        self.assertEqual([line.split()[0] for line in out],
                         ["-NOAUTH", "-WRONGPASS", "-NOAUTH", "-NOAUTH", "+RESET", "-NOAUTH"])


class Strangers(Case):
    @unittest.skipUnless(os.getuid() == 0, "another user is needed")
    def test_without_users_they_get_nowhere(self):
        for path in self.server.data, os.path.join(self.server.data, "data"):
            os.chmod(path, 0o755)
        os.chmod(self.server.socket, 0o666)
        out = subprocess.run(["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups",
                              "/usr/bin/python3", "-c", ASK, self.server.socket, "PING", "AUTH default x",
                              "POOL LIST"], stdout=subprocess.PIPE, check=True, timeout=PATIENCE).stdout
        self.assertEqual([line.split()[0] for line in out.decode().splitlines()],
                         ["-NOAUTH", "+OK", "-NOAUTH"])


class File(unittest.TestCase):
    def setUp(self):
        self.directory = tempfile.mkdtemp(prefix="tenure-e2e-")
        self.path = os.path.join(self.directory, "sock")

    def serve(self, *flags):
        server = Server(self.directory, *flags)
        server.own = True
        self.addCleanup(server.remove)
        return server

    def fails(self, *flags):
        done = subprocess.run([TENURED, "--data", os.path.join(self.directory, "data"), "--listen",
                               "127.0.0.1:0", "--http", "off", *flags], stderr=subprocess.PIPE,
                              timeout=PATIENCE, check=False)
        self.assertEqual(done.returncode, 2)
        return done.stderr.decode()

    def test_it_goes_with_the_server_and_a_stale_one_is_replaced(self):
        server = self.serve("--unix", self.path)
        server.stop(signal.SIGKILL)
        self.assertTrue(os.path.exists(self.path))
        server.start()
        with redis.Redis(unix_socket_path=self.path) as r:
            self.assertTrue(r.ping())
        self.assertEqual(server.stop(), 0)
        self.assertFalse(os.path.exists(self.path))
        self.assertFalse(os.path.exists(server.socket))
        server.start()

    def test_a_live_one_is_refused(self):
        with socket.socket(socket.AF_UNIX) as s:
            s.bind(self.path)
            s.listen()
            self.assertIn("another process listens on it", self.fails("--unix", self.path))
            self.assertTrue(os.path.exists(self.path))
            os.makedirs(os.path.join(self.directory, "data"), exist_ok=True)
            os.rename(self.path, os.path.join(self.directory, "data", "tenure.sock"))
            self.assertIn("another process listens on it", self.fails())

    def test_another_file_is_left_alone(self):
        with open(self.path, "w", encoding="ascii") as file:
            file.write("precious")
        self.assertIn("not a socket", self.fails("--unix", self.path))
        self.assertEqual(text_of(self.path), "precious")
        os.unlink(self.path)
        os.symlink("/nowhere", self.path)
        self.assertIn("not a socket", self.fails("--unix", self.path))

    def test_a_path_that_cannot_be(self):
        self.assertIn("at most 107 bytes", self.fails("--unix", "/" + "x" * 107))
        self.assertIn("No such file", self.fails("--unix", "/no/such/directory/x"))

    def test_a_deep_data_directory_is_no_reason_not_to_start(self):
        deep = os.path.join(self.directory, "d" * 100)
        os.mkdir(deep)
        server = Server(deep)
        self.addCleanup(server.remove)
        self.assertIn("event=unix_off", text_of(server.log.name))
        with server.client() as r:
            self.assertIn("Unix socket off", refusal(r, "SENSOR", "SET", "s", "t", SPEC))

    def test_it_can_be_off(self):
        server = self.serve("--unix", "off")
        self.assertFalse(os.path.exists(server.socket))
        until(lambda: " unix=off " in text_of(server.log.name), "the line that says so")

    def test_one_that_was_replaced_is_not_removed(self):
        server = self.serve("--unix", self.path)
        os.unlink(self.path)
        with open(self.path, "w", encoding="ascii"):
            pass
        self.assertEqual(server.stop(), 0)
        self.assertTrue(os.path.exists(self.path))
        os.unlink(self.path)
        server.start()


if __name__ == "__main__":
    unittest.main()
