"""`tenure backup` and `tenure restore` as an operator uses them: on a busy server, repeatedly
into the same directory, interrupted, damaged, and restored."""
import json
import os
import pathlib
import re
import resource
import shutil
import signal
import socket
import subprocess
import tempfile
import threading
import unittest

from harness import BUILD, PATIENCE, Server, pairs, text_of, until

TENURE = os.path.join(BUILD, "tenure")
# Small, so that segments end and snapshots are taken all the time.
BUSY = ("--segment-bytes", "65536", "--snapshot-bytes", "1048576", "--events-max", "2000")


def tenure(*words, code=0, **options):
    done = subprocess.run([TENURE, *map(str, words)], timeout=PATIENCE, check=False,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **options)
    assert done.returncode == code, (words, done.returncode, done.stdout, done.stderr)
    return done.stdout + done.stderr


class Writer(threading.Thread):
    """Allocates until it is stopped; knows the log position of every acknowledged lease."""

    def __init__(self, server):
        super().__init__()
        self.client = server.client()
        self.granted = {}  # holder: lsn
        self.stopping = False
        self.start()

    def run(self):
        number = 0
        while not self.stopping:
            pipe = self.client.pipeline(transaction=False)
            for i in range(200):
                pipe.execute_command("ALLOC", "ids", "h%d" % (number + i))
            for i, reply in enumerate(pipe.execute()):
                self.granted["h%d" % (number + i)] = int(pairs(reply)["lsn"])
            number += 200

    def stop(self):
        self.stopping = True
        self.join()
        self.client.close()
        return self.granted


class Gate(threading.Thread):
    """A Unix-domain socket in front of the server's. It forwards requests and replies until it has seen
    this many requests, or one that begins with `at`; the last one it keeps, in `held`, and the client waits.
    The client can connect again until it has sent BACKUP END."""

    def __init__(self, path, target, requests=1 << 30, at=()):
        super().__init__()
        self.path, self.requests, self.at = path, requests, list(at)
        self.ended = False
        self.held = None
        self.backup = None  # the number of the backup that the server has open
        self.listener = socket.socket(socket.AF_UNIX)
        self.listener.bind(path)
        self.listener.listen(1)
        self.listener.settimeout(PATIENCE)
        self.server = socket.socket(socket.AF_UNIX)
        self.server.connect(target)

    def __enter__(self):
        self.start()
        return self

    def __exit__(self, *_):
        self.join()
        self.listener.close()
        self.server.close()
        os.unlink(self.path)

    def run(self):
        with self.server.makefile("rb") as replies:
            while not self.ended and not self.held:
                client, _ = self.listener.accept()
                self.serve(client, replies)

    def serve(self, client, replies):
        with client, client.makefile("rb") as requests:
            while words := array_read(requests):
                self.requests -= 1
                if self.requests == 0 or words[:len(self.at)] == self.at != []:
                    self.held = words
                    requests.read()  # until the client is gone
                    return
                self.server.sendall(b"*%d\r\n" % len(words))
                self.server.sendall(b"".join(b"$%d\r\n%s\r\n" % (len(w), w) for w in words))
                reply = reply_read(replies)
                if words[:2] == [b"BACKUP", b"BEGIN"]:
                    self.backup = int(re.search(rb"backup\r\n[:$](?:\d+\r\n)??(\d+)\r\n", reply).group(1))
                elif words[:2] == [b"BACKUP", b"END"]:
                    self.backup = None
                    self.ended = True
                client.sendall(reply)


def array_read(file):
    """The words of a request; [] at the end."""
    head = file.readline()
    return [file.read(int(file.readline()[1:]) + 2)[:-2] for _ in range(int(head[1:]))] if head else []


def reply_read(file):
    """One reply of RESP, as it is."""
    line = file.readline()
    count = int(line[1:]) if line[:1] in b"$=*~%>" else 0
    if line[:1] in b"$=":
        return line + (file.read(count + 2) if count >= 0 else b"")
    return line + b"".join(reply_read(file) for _ in range(count * 2 if line[:1] == b"%" else count))


class Backup(unittest.TestCase):
    flags = BUSY

    def setUp(self):
        self.dir = pathlib.Path(tempfile.mkdtemp(prefix="tenure-backup-"))
        self.addCleanup(shutil.rmtree, self.dir)
        self.backups = self.dir / "backups"
        self.server = Server(None, *self.flags)
        self.addCleanup(self.server.remove)
        self.r = self.server.client()
        self.addCleanup(self.r.close)
        self.r.execute_command("POOL", "CREATE", "ids", "RANGE", 1, 10000000)

    def backup(self, *words, code=0):
        return tenure("-s", self.server.socket, "backup", self.backups, *words, code=code)

    def names(self):
        return sorted(path.name for path in self.backups.iterdir() if path.name != ".lock")

    def newest(self):
        return self.backups / max(name for name in self.names() if name.startswith("backup-"))

    def restored(self, backups, *flags):
        data = self.dir / ("data-%d" % len(os.listdir(self.dir)))
        said = tenure("restore", backups, data)
        self.assertIn("sensors     off", said)
        server = Server(None, "--data", str(data), *flags)
        self.addCleanup(server.remove)
        return data, server

    def holders(self, server):
        with server.client() as client:
            cursor, found = 0, {}
            while True:
                page = pairs(client.execute_command("LEASES", "CURSOR", cursor, "COUNT", 1000))
                for lease in page["leases"]:
                    found[pairs(lease)["holder"]] = pairs(lease)["lease"]
                cursor = int(page["cursor"])
                if cursor == 0:
                    return found

    def test_backups_under_load_hold_exactly_what_was_acknowledged_up_to_their_position(self):
        writer = Writer(self.server)
        positions = []
        try:
            for _ in range(4):
                enough = len(writer.granted) + 2000
                until(lambda: len(writer.granted) > enough, "leases")
                acknowledged = len(writer.granted)
                said = self.backup("--keep", 10)
                positions.append(int(self.newest().name[-16:], 16))
                self.assertIn("\nok\n", said)
                self.assertGreater(positions[-1], acknowledged)
        finally:
            granted = writer.stop()
        self.assertEqual(positions, sorted(set(positions)))
        for name in self.names():
            position = int(name[-16:], 16)
            _, server = self.restored(self.backups / name)
            expected = {holder for holder, lsn in granted.items() if lsn <= position}
            self.assertEqual(set(self.holders(server)), expected)

    def test_a_second_backup_copies_only_what_is_new(self):
        # Small segments, and no snapshot due: one taken between the two backups would be new, too.
        self.server = Server(None, "--segment-bytes", "65536", "--events-max", "2000")
        self.addCleanup(self.server.remove)
        with self.server.client() as client:
            client.execute_command("POOL", "CREATE", "ids", "RANGE", 1, 10000000)
            pipe = client.pipeline(transaction=False)
            for i in range(3000):
                pipe.execute_command("ALLOC", "ids", "filled-%d" % i, "META", '{"k":"%s"}' % ("x" * 400))
            pipe.execute()
        self.backup("--keep", 2)
        first = json.loads(text_of(self.newest() / "backup.json"))
        with self.server.client() as client:
            client.execute_command("ALLOC", "ids", "one-more")
        said = self.backup("--keep", 2)
        second = self.newest()
        copied = int(said.split(" copied")[0].split()[-1])
        total = sum(int(file["bytes"]) for file in first["files"])
        self.assertGreater(total, 1500000)
        self.assertLess(copied, total / 10)
        linked = [path for path in second.iterdir() if path.stat().st_nlink > 1]
        self.assertGreater(len(linked), 3)
        # Each is whole without the other.
        shutil.rmtree(self.backups / self.names()[0])
        self.assertIn("\nok\n", tenure("check", self.backups))
        _, server = self.restored(self.backups)
        self.assertEqual(len(self.holders(server)), 3001)

    def test_old_backups_go_and_a_repetition_without_news_stays_one(self):
        for i in range(4):
            self.r.execute_command("ALLOC", "ids", "h%d" % i)
            self.backup("--keep", 2)
        self.assertEqual(len(self.names()), 2)
        before = self.names()
        self.backup("--keep", 2)
        self.assertEqual(self.names(), before)
        self.assertIn("\nok\n", tenure("check", self.newest()))

    def test_a_backup_that_is_interrupted_at_any_request_leaves_the_one_before(self):
        self.r.execute_command("ALLOC", "ids", "a")
        self.backup()
        before = self.names()
        self.r.execute_command("ALLOC", "ids", "b")
        verbs = []
        for requests in range(1, 1000):
            with Gate(str(self.dir / "gate.sock"), self.server.socket, requests) as gate:
                run = subprocess.Popen([TENURE, "-s", gate.path, "backup", str(self.backups)],
                                       stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
                until(lambda: gate.held or run.poll() is not None, "request %d" % requests)
                run.kill()
                self.assertEqual(run.wait(PATIENCE), -signal.SIGKILL if gate.held else 0)
            if not gate.held:
                break
            verbs.append(gate.held[:2])
            self.assertEqual([name for name in self.names() if name != "partial"], before, gate.held)
            self.assertIn("\nok\n", tenure("check", self.backups))
            if gate.backup:  # the server keeps it open for a minute: another connection ends it
                self.assertEqual(self.server_admin("BACKUP", "END", gate.backup), "OK")
        self.assertIn([b"BACKUP", b"BEGIN"], verbs)
        self.assertGreater(verbs.count([b"BACKUP", b"READ"]), 2)
        self.assertIn([b"BACKUP", b"END"], verbs)
        self.assertNotIn("partial", self.names())
        self.assertEqual(len(self.names()), len(before))
        self.assertNotEqual(self.names(), before)
        self.assertIn("\nok\n", tenure("check", self.backups))

    def gated(self, at, act):
        """A backup that is stopped at a request: returns what `act` returns there. The request is not answered."""
        with Gate(str(self.dir / "gate.sock"), self.server.socket, at=at) as gate:
            with open(self.dir / "said", "w+b") as said:
                run = subprocess.Popen([TENURE, "-s", gate.path, "backup", str(self.backups)], stdout=said, stderr=said)
                until(lambda: gate.held or run.poll() is not None, "the request")
                found = act()
                run.kill()
                run.wait(PATIENCE)
        self.assertTrue(gate.held)
        if gate.backup:
            self.server_admin("BACKUP", "END", gate.backup)
        return found

    def test_the_server_has_the_backup_open_only_while_its_files_are_sent(self):
        """It ends a backup after a minute without a read: what takes long on the client's disk comes before or after."""
        self.r.execute_command("ALLOC", "ids", "a")
        self.backup()
        path = next(path for path in self.newest().iterdir() if path.suffix == ".log")
        good = path.read_bytes()
        path.write_bytes(good[:100] + bytes([good[100] ^ 1]) + good[101:])
        # The backup before is verified when BEGIN is sent.
        self.assertIn("%s: damaged: its checksum is wrong" % path,
                      self.gated([b"BACKUP", b"BEGIN"], lambda: text_of(self.dir / "said")))
        path.write_bytes(good)
        # When END is sent, what is in the backup before is not yet copied from there.
        self.r.execute_command("ALLOC", "ids", "b")
        partial = self.backups / "partial" / path.name
        self.assertEqual(self.gated([b"BACKUP", b"END"], lambda: partial.read_bytes()[:4096]), bytes(4096))
        self.backup()
        self.assertEqual((self.newest() / path.name).read_bytes()[:4096], good[:4096])

    def server_admin(self, *words):
        with self.server.local() as client:
            return client.execute_command(*words)

    def test_one_backup_at_a_time_and_only_its_own_files(self):
        begun = pairs(self.server_admin("BACKUP", "BEGIN"))
        number = begun["backup"]
        with self.assertRaisesRegex(Exception, "OVERLOADED.*a backup is being made"):
            self.server_admin("BACKUP", "BEGIN")
        for name in ("../secret", "lock", "/etc/passwd", "tenure.sock", "restored", "x" * 100):
            with self.assertRaisesRegex(Exception, "NOTFOUND"):
                self.server_admin("BACKUP", "READ", number, name, 0)
        with self.assertRaisesRegex(Exception, "CLOSED"):
            self.server_admin("BACKUP", "END", number + 1)
        name = pairs(begun["files"][0])["name"]
        with self.server.local() as client:
            client.connection_pool.connection_kwargs["decode_responses"] = False
            self.assertEqual(client.execute_command("BACKUP", "READ", number, name, 1 << 60), b"")
        self.assertEqual(self.server_admin("BACKUP", "END", number), "OK")

    def test_token_keys_are_not_for_anonymous_clients(self):
        said = tenure("-p", self.server.port, "backup", self.backups)
        self.assertIn("no token keys (connect by --socket", said)
        self.assertFalse((self.newest() / "token.keys").exists())
        self.r.execute_command("ALLOC", "ids", "news")
        self.assertIn("events, token keys", self.backup())
        self.assertTrue((self.newest() / "token.keys").exists())
        self.r.execute_command("ALLOC", "ids", "more news")
        self.assertIn("no token keys (--no-keys)", self.backup("--no-keys"))
        self.assertFalse((self.newest() / "token.keys").exists())

    def test_a_backup_is_read_and_ended_only_by_the_user_that_began_it(self):
        """Its number is easy to guess, and it may have the signing keys."""
        number = pairs(self.server_admin("BACKUP", "BEGIN"))["backup"]
        with self.server.client() as anonymous:
            anonymous.connection_pool.connection_kwargs["decode_responses"] = False
            for words in (("READ", number, "token.keys", 0), ("END", number)):
                with self.assertRaisesRegex(Exception, "CLOSED"):
                    anonymous.execute_command("BACKUP", *words)
        self.assertEqual(self.server_admin("BACKUP", "END", number), "OK")

    def test_damage_is_found_by_check_and_by_restore(self):
        self.r.execute_command("ALLOC", "ids", "a")
        self.backup()
        for path in sorted(self.newest().iterdir()):
            if path.name == "backup.json":
                continue
            good = path.read_bytes()
            path.write_bytes(good[:100] + bytes([good[100] ^ 1]) + good[101:])
            self.assertIn("checksum is wrong", tenure("check", self.backups, code=1))
            data = self.dir / "damaged"
            self.assertIn("checksum is wrong", tenure("restore", self.backups, data, code=1))
            # What is there is marked as incomplete: no server starts on it.
            done = subprocess.run([os.path.join(BUILD, "tenured"), "--data", str(data), "--listen",
                                   "127.0.0.1:0", "--http", "off"], timeout=PATIENCE, check=False,
                                  stderr=subprocess.PIPE, text=True)
            self.assertEqual(done.returncode, 2)
            self.assertIn("was interrupted here", done.stderr)
            self.assertIn("was interrupted here", tenure("check", data, code=1))
            shutil.rmtree(data)
            path.write_bytes(good)
        tenure("check", self.backups)

    def test_a_damaged_list_is_found_by_check_as_by_restore(self):
        self.r.execute_command("ALLOC", "ids", "a")
        self.backup()
        path = self.newest() / "backup.json"
        good = path.read_text()
        first = json.loads(good)["files"][0]["name"]
        for old, new, why in (("{", "", "not the list of files"), ('"format": 1', '"format": 2', "not the list of files"),
                              (first, "../../" + first, "not the list of files"), ('"lsn": "', '"lsn": "x', "not the list"),
                              ('"bytes": "', '"bytes": "9999999999', "not the list"), (first, "another.log", "cannot"),
                              (None, None, "it has no backup.json")):
            if old is None:
                path.unlink()
            else:
                self.assertIn(old, good)
                path.write_text(good.replace(old, new, 1))
            for place in (self.backups, self.newest(), "%s/" % self.newest(), "%s/." % self.newest()):
                self.assertIn(why, tenure("check", place, code=1))
            self.assertIn(why, tenure("restore", self.backups, self.dir / "damaged", code=1))
            shutil.rmtree(self.dir / "damaged", ignore_errors=True)
        path.write_text(good)
        self.assertIn("\nok\n", tenure("check", self.backups))

    def test_a_backup_before_that_is_damaged_does_not_stop_the_next(self):
        """Its files are links to those of the backups before it: one fault of the disk must not stop all later backups."""
        for i in range(2000):
            self.r.execute_command("ALLOC", "ids", "h%d" % i, "META", '{"k":"%s"}' % ("x" * 100))
        self.backup("--keep", 9)
        self.r.execute_command("ALLOC", "ids", "one-more")
        sizes = {path.name: path.stat().st_size for path in self.newest().iterdir() if path.suffix == ".log"}
        name = min(sizes)  # it has ended, so it does not grow any more
        first = self.newest()
        good = (first / name).read_bytes()
        half = len(good) // 2
        (first / name).write_bytes(good[:half] + bytes([good[half] ^ 1]) + good[half + 1:])
        self.assertIn("checksum is wrong", tenure("check", first, code=1))
        said = self.backup("--keep", 9)
        self.assertRegex(said, "%s: damaged: its checksum is wrong\n.*copied again" % (first / name))
        self.assertEqual((self.newest() / name).read_bytes(), good)
        self.assertIn("\nok\n", tenure("check", self.newest()))
        # Its list is unreadable: all is copied, and another server's backup is still refused.
        (self.newest() / "backup.json").write_text("{")
        other = Server()
        self.addCleanup(other.remove)
        self.assertIn("is newer than this server's state", tenure("-s", other.socket, "backup", self.backups, code=1))
        self.r.execute_command("ALLOC", "ids", "and-more")
        said = self.backup("--keep", 1)
        self.assertIn("not the list of files of a backup", said)
        self.assertIn(" 0 as in the backup before", said)
        self.assertEqual(len(self.names()), 1)
        self.assertIn("\nok\n", tenure("check", self.backups))

    def test_a_file_that_cannot_be_written_leaves_no_trace(self):
        def little_room():
            resource.setrlimit(resource.RLIMIT_FSIZE, (2000, 2000))
        limited = {"preexec_fn": little_room, "restore_signals": False}  # Python ignores SIGXFSZ
        for i in range(200):
            self.r.execute_command("ALLOC", "ids", "h%d" % i, "META", '{"k":"%s"}' % ("x" * 400))
        for before in ([], None):
            before = self.names() if before is None else before
            tenure("-s", self.server.socket, "backup", self.backups, code=1, **limited)
            self.assertEqual(self.names(), before)
            self.r.execute_command("ALLOC", "ids", "one-more")
            self.backup()
        data = self.dir / "data"
        tenure("restore", self.backups, data, code=1, **limited)
        self.assertIn("was interrupted here", tenure("check", data, code=1))

    def test_backups_of_another_server_are_never_mixed_or_removed(self):
        self.r.execute_command("ALLOC", "ids", "a")
        self.backup()
        before = self.names()
        other = Server()
        self.addCleanup(other.remove)
        said = tenure("-s", other.socket, "backup", self.backups, code=1)
        self.assertIn("is newer than this server's state", said)
        self.assertEqual(self.names(), before)

    def test_a_link_in_place_of_a_backup_is_not_followed(self):
        self.backups.mkdir()
        victim = self.dir / "victim"
        victim.mkdir()
        (victim / "precious").write_text("x")
        (self.backups / "partial").symlink_to(victim)
        (self.backups / ".lock").touch()
        self.assertIn("not a directory", self.backup(code=1))
        self.assertTrue((victim / "precious").exists())

    def test_a_new_file_system_is_an_empty_directory(self):
        self.r.execute_command("ALLOC", "ids", "a")
        self.backup()
        data = self.dir / "mounted"
        (data / "lost+found").mkdir(parents=True, mode=0o700)
        self.assertIn("restored    %s\n" % data, tenure("restore", self.backups, data))
        self.assertIn("\nok\n", tenure("check", data))
        server = Server(None, "--data", str(data))
        self.addCleanup(server.remove)
        self.assertEqual(set(self.holders(server)), {"a"})
        self.assertEqual(list((data / "lost+found").iterdir()), [])

    def test_a_directory_of_another_program_stays_as_it_is(self):
        """`partial` is a usual name, and what an interrupted backup has left under it is removed."""
        (self.backups / "partial").mkdir(parents=True)
        (self.backups / "partial" / "precious").write_text("x")
        self.assertIn("partial is not of tenure backup; use another directory", self.backup(code=1))
        self.assertEqual(list(self.backups.iterdir()), [self.backups / "partial"])
        self.assertTrue((self.backups / "partial" / "precious").exists())
        data = pathlib.Path(self.server.data) / "data"
        before = sorted(path.name for path in data.iterdir() if not path.name.startswith("spare"))
        self.assertIn("is a data directory; use another one",
                      tenure("-s", self.server.socket, "backup", data, code=1))
        self.assertEqual(sorted(path.name for path in data.iterdir() if not path.name.startswith("spare")), before)

    def test_what_is_no_directory_is_told_by_its_name(self):
        self.backup()
        (self.dir / "file").touch()
        (self.dir / "loop").symlink_to("loop")
        os.mkfifo(self.dir / "pipe")
        for name, why in (("file", "Not a directory"), ("loop", "Too many levels"), ("pipe", "Not a directory")):
            place, said = self.dir / name, "%s: %s" % (self.dir / name, why)
            self.assertIn(said, tenure("-s", self.server.socket, "backup", place, code=1))
            for words in (("check", place), ("dump", place), ("restore", self.backups, place),
                          ("restore", place, self.dir / "new")):
                self.assertIn(said, tenure(*words, code=1))
        self.assertIn("nowhere: No such file", tenure("restore", self.dir / "nowhere", self.dir / "new", code=1))
        self.assertFalse((self.dir / "new").exists())
        # Pipes with the names of files are not waited for.
        for name in ("backup.json", "0000000000000001.log"):
            os.rename(self.newest() / name, self.dir / "aside")
            os.mkfifo(self.newest() / name)
            tenure("check", self.newest(), code=1)
            tenure("restore", self.newest(), self.dir / "new", code=1)
            shutil.rmtree(self.dir / "new", ignore_errors=True)
            os.rename(self.dir / "aside", self.newest() / name)
        self.assertIn("\nok\n", tenure("check", self.backups))

    def test_a_report_that_cannot_be_written_is_a_failure(self):
        self.backup()
        with open("/dev/full", "w", encoding="ascii") as full:
            for words in (("check", self.backups), ("dump", self.newest()), ("restore", self.backups, self.dir / "new"),
                          ("-s", self.server.socket, "backup", self.backups), ("completion", "bash"), ("help",)):
                done = subprocess.run([TENURE, *map(str, words)], timeout=PATIENCE, check=False, text=True,
                                      stdout=full, stderr=subprocess.PIPE)
                self.assertEqual((done.returncode, done.stderr[-len("standard output\n"):]), (1, "standard output\n"), words)
        self.assertIn("\nok\n", tenure("check", self.dir / "new"))

    def test_a_restore_that_failed_says_what_to_do(self):
        self.r.execute_command("ALLOC", "ids", "a")
        self.backup()
        path = next(path for path in self.newest().iterdir() if path.suffix == ".log")
        path.write_bytes(bytes(100) + path.read_bytes()[100:])
        data = self.dir / "data"
        self.assertIn("%s is incomplete; remove the directory and restore again" % data,
                      tenure("restore", self.backups, data, code=1))
        self.assertIn("was interrupted here; remove the directory and restore again",
                      tenure("restore", self.backups, data, code=1))

    def test_wrong_directories_are_refused(self):
        self.backup()
        self.assertIn("no backup", tenure("restore", "/etc", self.dir / "x", code=1))
        self.assertIn("not an empty directory", tenure("restore", self.backups, "/etc", code=1))
        self.assertIn("name the directory above it",
                      tenure("-s", self.server.socket, "backup", self.newest(), code=1))
        tenure("backup", code=2)
        tenure("restore", self.backups, code=2)
        tenure("-s", self.server.socket, "backup", self.backups, "--keep", "0", code=2)

    @unittest.skipUnless(os.geteuid() == 0, "needs root, who restores for others")
    def test_a_restore_names_the_user_that_the_server_must_run_as(self):
        self.backup()
        data = self.dir / "volume"
        data.mkdir()
        os.chown(data, 12345, 12345)
        self.assertIn("tenured --data %s, as the user 12345\n" % data, tenure("restore", self.backups, data))

    def test_a_restored_server_has_a_new_generation_and_its_sensors_stay_off(self):
        mark = self.dir / "runs"
        spec = {"command": ["/bin/sh", "-c", "echo run >> %s; exec sleep 1000" % mark]}
        self.server_admin("SENSOR", "SET", "s1", "core.timer", json.dumps(spec))
        self.r.execute_command("RULE", "SET", "r1", "core.timer")
        until(lambda: mark.exists() and text_of(mark) == "run\n", "the sensor")
        old = pairs(self.r.execute_command("ALLOC", "ids", "before"))["lease"]
        self.backup()
        data, server = self.restored(self.backups)
        with server.client() as client:
            self.assertEqual(pairs(client.execute_command("LEASE", old))["holder"], "before")
            new = pairs(client.execute_command("ALLOC", "ids", "after"))["lease"]
        self.assertGreater(int(new.split("-")[0]), int(old.split("-")[0]))
        self.assertIn("event=sensors_off", text_of(server.log.name))
        self.assertEqual(server.stop(), 0)
        server.start()  # and again: still off, and no further generation
        with server.client() as client:
            again = pairs(client.execute_command("ALLOC", "ids", "later"))["lease"]
        self.assertEqual(again.split("-")[0], new.split("-")[0])
        self.assertEqual(text_of(mark), "run\n")
        self.assertEqual(server.stop(), 0)
        self.server.stop(signal.SIGTERM)
        self.server.start()
        server.flags = (*server.flags, "--sensors", "on")
        runs = text_of(mark).count("run")
        server.start()
        until(lambda: text_of(mark).count("run") > runs, "the restored sensor")
        self.assertFalse((data / "restored").exists())


if __name__ == "__main__":
    unittest.main()
