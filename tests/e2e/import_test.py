#!/usr/bin/env python3
"""`tenure import`, `export` and `history` against the real server: files with every kind of invalid row, lost
connections, and real databases on both sides."""
import csv
import json
import os
import pty
import re
import socket
import subprocess
import tempfile
import threading
import time
import unittest

from databases import MariaDB, PostgreSQL
from harness import BUILD, PATIENCE, Case, Server, pairs, until

TENURE = os.path.abspath(os.path.join(BUILD, "tenure"))
NOW = int(time.time())


def run(port, *arguments, rows=b"", env=None):
    """Exit code, standard output, standard error."""
    if isinstance(rows, str):
        rows = rows.encode()
    done = subprocess.run([TENURE, *arguments], timeout=PATIENCE, check=False, input=rows,
                          env={**os.environ, "TENURE_PORT": str(port), "TZ": "UTC", **(env or {})},
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    return done.returncode, done.stdout.decode(), done.stderr.decode()


class Import(Case):
    pools = 0

    def setUp(self):
        Import.pools += 1
        self.pool = "p%d" % Import.pools
        self.do("POOL", "CREATE", self.pool, "RANGE", 1, 1000000)

    def tenure(self, *arguments, rows=b"", code=0):
        got = run(self.server.port, *arguments, rows=rows)
        self.assertEqual(got[0], code, got)
        return got[1]

    def take(self, *arguments, rows, code=0):
        """The rows with messages, by line, and the counts."""
        out = self.tenure("--json", "import", *arguments, rows=rows, code=code)
        told = [json.loads(line) for line in out.splitlines()]
        return {int(row["line"]): row for row in told[:-1]}, told[-1]

    def held(self, pool=None):
        pool = pool or self.pool
        found = {}
        for line in self.tenure("--json", "--limit", "0", "leases", "--pool", pool).splitlines():
            for lease in json.loads(line)["leases"]:
                for value in lease["values"]:
                    found[value] = lease["holder"]
        return found


class Rows(Import):
    def test_both_formats_with_and_without_names(self):
        for rows in ("1,job/a\n2,job/b\n", "1\tjob/a\n2\tjob/b\n", "1,job/a\r\n2,job/b\r\n",
                     "value,holder\n1,job/a\n2,job/b", "holder\tvalue\njob/a\t1\njob/b\t2\n",
                     "\ufeffvalue,holder\n1,job/a\n\n2,\"job/b\"\n",
                     "vxid,owner_type,owner_uuid\n1,job,a\n2,job,b\n",
                     "id,port,owner\n7,1,job/a\n8,2,job/b\n"):
            with self.subTest(rows=rows):
                self.setUp()
                told, counts = self.take(self.pool, rows=rows)
                self.assertEqual(told, {})
                self.assertEqual((counts["taken"], counts["there"]), ("2", "0"))
                self.assertEqual(self.held(), {"1": "job/a", "2": "job/b"})

    def test_columns_are_mapped_by_name_and_by_number(self):
        rows = "uuid,vxid,state\nabc,5,created\n"
        self.take(self.pool, "--map", "value=vxid,holder=uuid", "--holder-type", "network", rows=rows)
        self.take(self.pool, "--map", "holder=1,value=2", "--no-header", rows="x/1,6\n")
        self.assertEqual(self.held(), {"5": "network/abc", "6": "x/1"})
        for wrong in ("value", "what=1", "value=none", "value=1,value=2", "value=0"):
            self.tenure("import", self.pool, "--map", wrong, rows=rows, code=2)

    def test_an_expiry_is_found_under_its_usual_names(self):
        for value, name in enumerate(("expires_at", "expiry", "expires", "valid_until", "expires_on"), 1):
            with self.subTest(name=name):
                code, out, err = run(self.server.port, "import", self.pool, rows="value,holder,%s\n%d,h,2001-01-01\n" % (name, value))
                self.assertEqual((code, err), (1, ""), out)
                self.assertIn("BAD_TTL: the expiry has passed", out)

    def test_columns_that_are_not_used_are_named(self):
        rows = "id,value,holder,ends,note\x1b[2J\n1,9,a,2001-01-01,x\n"
        code, _, err = run(self.server.port, "import", self.pool, "--dry-run", rows=rows)
        self.assertEqual((code, err.count("\n")), (0, 1))
        self.assertTrue(err.startswith("tenure import: columns not used: id, ends, note"), err)
        self.assertNotIn("\x1b", err)
        self.assertEqual(run(self.server.port, "import", self.pool, "--map", "expires_at=ends", "--dry-run", rows=rows)[0], 1)
        self.assertEqual(run(self.server.port, "import", self.pool, rows="9,a,,5\n")[2], "", "there are no names")

    def test_quotes_and_escapes(self):
        self.take(self.pool, "--no-header", rows='1,"a,""b"""\n2, c \n')
        self.take(self.pool, "--format", "tsv", rows="3\td\\\\e\n4\tf\\N\n")
        self.assertEqual(self.held(), {"1": 'a,"b"', "2": " c ", "3": "d\\e", "4": "fN"})

    def test_times_are_kept(self):
        later = NOW + 86400
        spelled = time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime(later))
        shifted = time.strftime("%Y-%m-%dT%H:%M:%S.250+02:00", time.gmtime(later + 7200))
        rows = ("value,holder,expires_at,created_at\n"
                "1,a,%d,1700000000\n2,a,%d000,1700000000500\n3,a,%s,2023-11-14 22:13:20\n"
                "4,a,%s,2023-11-14\n5,a,,\n6,a,NULL,NULL\n7,a,%sZ,\n8,a,infinity,\n"
                % (later, later, spelled, shifted, spelled))
        told, _ = self.take(self.pool, rows=rows)
        self.assertEqual(told, {})
        times = {}
        for lease in json.loads(self.tenure("--json", "leases", "--pool", self.pool))["leases"]:
            times[lease["values"][0]] = (lease["deadline"], lease["created"])
        self.assertEqual(times["1"], ("%d000" % later, "1700000000000"))
        self.assertEqual(times["2"], ("%d000" % later, "1700000000500"))
        self.assertEqual(times["3"], ("%d000" % later, "1700000000000"))
        self.assertEqual(times["4"], ("%d250" % later, "1699920000000"))
        self.assertEqual(times["7"][0], "%d000" % later)
        for value in "568":
            self.assertIsNone(times[value][0])

    BAD = [
        (b"", None),
        (b"10,good", None),
        (b"11", "MALFORMED: too few columns"),
        (b",h", "BAD_VALUE: the value is empty"),
        (b"NULL,h", "BAD_VALUE: the value is empty"),
        (b"twelve,h", "BAD_VALUE: the value is not a number"),
        (b"-1,h", "BAD_VALUE: the value is not a number"),
        (b"1.5,h", "BAD_VALUE: the value is not a number"),
        (b"0,h", "BAD_VALUE: the value is outside 1..1000000"),
        (b"1000001,h", "BAD_VALUE: the value is outside"),
        (b"99999999999999999999999,h", "BAD_VALUE: the value is not a number"),
        (b"12,", "BAD_NAME: the holder is empty"),
        (b"13," + b"h" * 129, "BAD_NAME: the holder"),
        (b"14,\xff\xfe", "BAD_NAME: the holder"),
        (b"15,a\x00b", "BAD_NAME: the holder: it contains control characters"),
        (b"16,h,soon", "BAD_TTL: expires_at is neither"),
        (b"17,h,2026-02-30", "BAD_TTL: expires_at is neither"),
        (b"18,h,2001-01-01 00:00:00", "BAD_TTL: the expiry has passed"),
        (b"19,h,0", "BAD_TTL: the expiry has passed"),
        (b"20,\"h\"x", "MALFORMED: unexpected text between"),
        (b"21,\"h", "MALFORMED: a quote is not closed"),
        (b"\x00\x01\x02\xff\xfe,\x80,\x81", "BAD_VALUE: the value is not a number"),
        (b"22," + b"x" * 10000000, "MALFORMED: the line has more than 64 KiB"),
        (b"23,\"" + b"x" * 10000000 + b"\"", "MALFORMED: a quote is not closed within 64 KiB"),
        (b"," * 70, "MALFORMED: it has more than 64 columns"),
        (b"10,other", "BUSY: held by good (also in line 2)"),
        (b"24,last", None),
    ]

    def test_every_bad_row_is_explained_and_changes_nothing(self):
        rows = b"value,holder,expires_at" + b"\n".join(row + (b",,"[row.count(b","):] if
               row.count(b",") in (1,) else b"") for row, _ in self.BAD) + b"\n"
        expected = {line: why for line, (_, why) in enumerate(self.BAD, 1) if why}
        for dry in (True, False):
            out = self.tenure("import", self.pool, *(["--dry-run"] if dry else []), rows=rows, code=1)
            told = dict(line[5:].split(": ", 1) for line in out.splitlines() if line[:5] == "line ")
            for line, why in expected.items():
                if dry and why.startswith("BUSY"):
                    why = "BUSY: assigned twice in the file, first by good (also in line 2)"
                self.assertIn(why, told[str(line)])
            self.assertEqual(len(told), len(self.BAD) - 1 if dry else len(expected))
            self.assertEqual(self.held(), {} if dry else {"10": "good", "24": "last"})

    def test_a_quote_that_is_never_closed_costs_its_own_line(self):
        told, counts = self.take(self.pool, "--no-header", rows='1,a\n2,"b\n3,"c"\n4,d\n', code=1)
        self.assertEqual(list(told), [2])
        self.assertEqual(self.held(), {"1": "a", "3": "c", "4": "d"})
        self.assertEqual(counts["refused"], {"MALFORMED": "1"})

    def test_it_may_be_repeated(self):
        rows = "".join("%d,h/%d\n" % (i, i) for i in range(1, 5001))
        self.assertEqual(self.take(self.pool, "--batch", "100", rows=rows)[1]["taken"], "5000")
        self.assertEqual(self.take(self.pool, rows=rows)[1]["there"], "5000")

    def test_the_report_names_both_owners_and_both_lines(self):
        with tempfile.TemporaryDirectory() as directory:
            path = os.path.join(directory, "report.csv")
            self.tenure("import", self.pool, "--report", path, rows='7,a\n8,"b,c"\n7,"d""e"\n', code=1)
            with open(path, newline="", encoding="utf-8") as file:
                rows = list(csv.DictReader(file))
        self.assertEqual(len(rows), 1)
        self.assertEqual((rows[0]["line"], rows[0]["value"], rows[0]["holder"], rows[0]["result"],
                          rows[0]["held_by"], rows[0]["other_line"]),
                         ("3", "7", 'd"e', "BUSY", "a", "1"))

    def test_scopes_come_from_a_column(self):
        self.do("POOL", "CREATE", "cons" + self.pool, "RANGE", 30000, 30009, "SCOPED", "yes")
        name = "cons" + self.pool
        rows = "node,port,owner\nn1,30000,i/1\nn2,30000,i/2\nn 3,30000,i/3\n,30001,i/4\n"
        for arguments, code in (((name,), 2), ((self.pool, "--scope-column", "node"), 2),
                                (("nix",), 31), ((self.pool + "@x",), 2)):
            self.tenure("import", *arguments, rows=rows, code=code)
        for dry in (["--dry-run"], []):
            told, counts = self.take(name, "--scope-column", "node", *dry, rows=rows, code=1)
            self.assertEqual(counts["would_take" if dry else "taken"], "2")
            self.assertEqual([told[4]["result"], told[5]["result"]], ["BAD_NAME", "BAD_NAME"])
        self.take(name + "@n7", rows="30005,i/9\n")
        self.assertEqual(self.held(name + "@n1"), {"30000": "i/1"})
        self.assertEqual(self.held(name + "@n2"), {"30000": "i/2"})
        self.assertEqual(self.held(name + "@n7"), {"30005": "i/9"})

    def test_a_scope_is_judged_by_its_own_range(self):
        name = "own" + self.pool
        self.do("POOL", "CREATE", name, "RANGE", 30000, 30009, "SCOPED", "yes")
        self.do("POOL", "CREATE", name + "@far", "RANGE", 40000, 40009)
        told, _ = self.take(name + "@far", rows="40005,i/1\n30005,i/2\n", code=1)
        self.assertEqual({line: row["result"] for line, row in told.items()}, {2: "BAD_VALUE"})
        rows = "node,port,owner\nfar,40006,i/3\nnear,30006,i/4\nnear,40007,i/5\n"
        told, _ = self.take(name, "--scope-column", "node", rows=rows, code=1)
        self.assertEqual({line: row["result"] for line, row in told.items()}, {4: "BAD_VALUE"})
        self.assertEqual(self.held(name + "@far"), {"40005": "i/1", "40006": "i/3"})

    def test_a_dry_run_says_what_would_happen_to_each_row(self):
        self.do("ALLOC", self.pool, "here", "VALUES", 1, 5)
        before = self.do("POOL", "INFO", self.pool)
        rows = "5,here\n5,other\n6,a\n6,a\n6,b\n7,a\n"
        told, counts = self.take(self.pool, "--dry-run", rows=rows, code=1)
        self.assertEqual([told[i]["result"] for i in range(1, 7)],
                         ["NOOP", "BUSY", "OK", "NOOP", "BUSY", "OK"])
        self.assertEqual((told[2]["held_by"], told[5]["held_by"], told[5]["other_line"]),
                         ("here", "a", "3"))
        self.assertEqual(counts["would_take"], "2")
        self.assertEqual(self.do("POOL", "INFO", self.pool), before)

    def test_pools_that_each_holder_has_one_lease_in(self):
        self.do("POOL", "CREATE", "dev" + self.pool, "STICKY", "yes")
        rows = "1,d/1\n2,d/2\n3,d/1\n"
        for dry in (["--dry-run"], []):
            told, _ = self.take("dev" + self.pool, *dry, rows=rows, code=1)
            self.assertEqual(told[3]["result"], "CONFLICT")


    def test_values_that_are_never_given_out_can_be_imported(self):
        self.do("POOL", "ALTER", self.pool, "EXCLUDE", "5-9")
        self.take(self.pool, rows="7,a\n")
        self.assertEqual(self.held(), {"7": "a"})

    def test_mistakes_on_the_command_line(self):
        for arguments in ((), (self.pool, "--format", "xml"), (self.pool, "--batch", "0"),
                          (self.pool, "--header", "--no-header"), (self.pool, "a", "b"),
                          (self.pool, "--drry-run"), (self.pool, "--opid", "x"),
                          (self.pool, "--map")):
            self.tenure("import", *arguments, code=2)
        self.tenure("import", self.pool, "/no/such/file", code=1)
        self.tenure("import", self.pool, "/dev/null")
        self.tenure("import", self.pool, "--report", "/no/such/file", rows="1,a\n", code=1)

    def test_a_bar_shows_how_far_it_is(self):
        with tempfile.NamedTemporaryFile("w", suffix=".csv") as file:
            for i in range(1, 60001):
                file.write("%d,h/%d\n" % (i, i))
            file.flush()
            main, side = pty.openpty()
            process = subprocess.Popen([TENURE, "-p", str(self.server.port), "import", self.pool,
                                        file.name, "--batch", "64"], stderr=side,
                                       stdout=subprocess.PIPE)
            os.close(side)
            seen = b""
            while True:
                try:
                    more = os.read(main, 65536)
                except OSError:
                    break
                seen += more
            out = process.stdout.read()
            process.stdout.close()
            os.close(main)
            self.assertEqual(process.wait(PATIENCE), 0)
        self.assertEqual(out, b"60000 rows: 60000 imported, 0 already present\n")
        self.assertRegex(seen.decode(), r"\r\x1b\[K\d+ rows  \d+ rows/s  \[#*-*\] \d+ %  eta \d+ s")
        self.assertTrue(seen.endswith(b"\r\x1b[K"))


class Full(Import):
    flags = ("--leases-max", "1024")

    def test_a_full_server_stops_it_and_a_repeat_finishes_it(self):
        rows = "".join("%d,h/%d\n" % (i, i) for i in range(1, 3001))
        code, out, err = run(self.server.port, "--json", "import", self.pool, rows=rows)
        self.assertEqual(code, 33, (out, err))
        counts = json.loads(out)
        self.assertFalse(counts["complete"])
        self.assertEqual(counts["taken"], "1024")
        self.assertRegex(err, r"LEASES_FULL.*\n.*after line 1024\. Repeat")
        self.assertEqual(self.server.stop(), 0)
        self.server.flags = ("--leases-max", "4096")
        self.server.start()
        counts = self.take(self.pool, rows=rows)[1]
        self.assertEqual((counts["taken"], counts["there"]), ("1976", "1024"))


class Lost(Import):
    def proxy(self, cut_after):
        """A proxy to the server that cuts the connection after this number of bytes has come back."""
        listener = socket.create_server(("127.0.0.1", 0))
        self.addCleanup(listener.close)

        def pump(source, target, budget):
            try:
                while budget is None or budget > 0:
                    data = source.recv(4096 if budget is None else min(budget, 4096))
                    if not data:
                        break
                    target.sendall(data)
                    budget = None if budget is None else budget - len(data)
            except OSError:
                pass
            for s in (source, target):
                try:
                    s.shutdown(socket.SHUT_RDWR)
                except OSError:
                    pass

        def both(near, far):
            back = threading.Thread(target=pump, args=(far, near, cut_after))
            back.start()
            pump(near, far, None)
            back.join()
            near.close()
            far.close()

        def serve():
            while True:
                try:
                    near, _ = listener.accept()
                except OSError:
                    return
                far = self.server.connect()
                threading.Thread(target=both, args=(near, far), daemon=True).start()
        threading.Thread(target=serve, daemon=True).start()
        return listener.getsockname()[1]

    def test_a_lost_connection_goes_on_with_the_next(self):
        rows = "".join("%d,h/%d\n" % (i, i) for i in range(1, 3001))
        code, out, err = run(self.proxy(200000), "--json", "import", self.pool, "--batch", "50", rows=rows)
        self.assertEqual(code, 0, (out, err))
        counts = json.loads(out)
        self.assertEqual((counts["taken"], counts["there"]), ("3000", "0"))
        self.assertEqual(len(self.held()), 3000)

    def test_a_server_that_stays_away_ends_it_with_how_far_it_got(self):
        server = Server(keep=True)  # nobody else is there, either, when it is away
        server.client().execute_command("POOL", "CREATE", "p", "RANGE", 1, 100000)
        process = subprocess.Popen([TENURE, "-p", str(server.port), "import", "p", "--batch", "1"],
                                   stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                   stderr=subprocess.PIPE)
        rows = "".join("%d,%0120d\n" % (i, i) for i in range(1, 10001)).encode()
        # As much as it reads at once; it cannot come to the end before it has the rest.
        process.stdin.write(rows[:1 << 20])
        process.stdin.flush()
        until(lambda: server.client().execute_command("LEASES", "POOL", "p", "COUNT", 1)[3], "some")
        server.process.kill()
        server.process.wait()
        out, err = process.communicate(rows[1 << 20:], timeout=PATIENCE)
        self.assertEqual(process.returncode, 3, (out, err))
        self.assertRegex(err.decode(), r"stopped after line \d+\. Repeat the import")
        server.log.close()
        server.start()
        code, out, err = run(server.port, "--json", "import", "p", rows=rows)
        self.assertEqual(code, 0, err)
        counts = json.loads(out)
        self.assertEqual(int(counts["taken"]) + int(counts["there"]), 10000)
        self.assertGreater(int(counts["there"]), 0)
        server.remove()


class Export(Import):
    def export(self, pool, *arguments):
        code, out, err = run(self.server.port, "export", pool, *arguments)
        self.assertEqual(code, 0, err)
        return out, int(err.split("LSN")[1])

    def rows(self, pool, *arguments):
        return list(csv.DictReader(self.export(pool, *arguments)[0].splitlines()))

    def test_what_is_exported_can_be_imported(self):
        other = Server()
        try:
            holders = ["job/1", 'q"u/o,te', "plain", "/slash", "back\\slash", "NULL", "ü/ñ", "a/b/c"]
            for value, holder in enumerate(holders, 1):
                self.do("IMPORT", self.pool, holder, "VALUES", 1, value, "CREATED", 1700000000123,
                        *(["DEADLINE", (NOW + 9999) * 1000 + 7] if value % 2 else []))
            self.do("ALLOC", self.pool, "bundle", "VALUES", 7, *range(100, 107))
            self.do("RESERVE", "later", "TTL", 3600, "FROM", self.pool, "VALUES", 1, 200)
            for form in ("csv", "tsv"):
                out, lsn = self.export(self.pool, "--format", form)
                self.assertEqual(lsn, self.do("POOL", "INFO", self.pool)[-1])
                other.client().execute_command("POOL", "CREATE", self.pool, "RANGE", 1, 1000000)
                code, told, err = run(other.port, "--json", "import", self.pool, rows=out)
                self.assertEqual(code, 1, (told, err))  # what is only reserved is no allocation
                self.assertNotIn("not used", err)
                told = [json.loads(line) for line in told.splitlines()]
                self.assertEqual([(row["holder"], row["result"]) for row in told[:-1]],
                                 [("later", "STATE")])
                self.assertEqual(told[-1]["taken"], "15")
                again = run(other.port, "export", self.pool, "--format", form)[1]
                strip = lambda text: [[c for i, c in enumerate(row) if i not in (8,)] for row in
                                      csv.reader(text.splitlines(),
                                                 delimiter="\t" if form == "tsv" else ",")
                                      if "later" not in row]
                self.assertEqual(strip(again), strip(out))
                self.assertEqual(run(other.port, "import", self.pool, rows=again)[0], 0)
                for holder in [*holders, "bundle"]:
                    other.client().execute_command("DISOWN", holder)
                other.client().execute_command("POOL", "DROP", self.pool)
            self.assertEqual([row["value"] for row in self.rows(self.pool, "--state", "reserved")],
                             ["200"])
        finally:
            other.remove()

    def test_a_pool_of_devices_keeps_its_offline_leases_and_those_with_several_values(self):
        pool = "dev" + self.pool
        create = ("POOL", "CREATE", pool, "RANGE", 1, 99, "STICKY", "yes")
        self.do(*create)
        lease = self.do("ALLOC", pool, "d/1", "COUNT", 3)
        self.do("RELEASE", lease[3], "d/1", lease[5])
        self.do("ALLOC", pool, "d/2", "COUNT", 6)
        out, _ = self.export(pool)
        other = Server()
        try:
            other.client().execute_command(*create)
            code, told, err = run(other.port, "import", pool, rows=out)
            self.assertEqual((code, told), (0, "9 rows: 9 imported, 0 already present\n"), err)
            self.assertEqual(run(other.port, "import", pool, rows=out)[0], 0)
            self.assertEqual(run(other.port, "import", pool, "--dry-run", rows=out)[0], 0)
            again = run(other.port, "export", pool)[1]
            keep = ("value", "holder", "state", "created_at", "expires_at", "seen_at")
            pick = lambda text: [[row[k] for k in keep] for row in csv.DictReader(text.splitlines())]
            self.assertEqual(pick(again), pick(out))
            self.assertEqual({row[2] for row in pick(out)}, {"active", "offline"})
        finally:
            other.remove()

    def test_scopes_are_exported_with_their_template(self):
        name = "cons" + self.pool
        self.do("POOL", "CREATE", name, "RANGE", 30000, 30009, "SCOPED", "yes")
        self.do("ALLOC", name + "@n1", "i/1")
        self.do("ALLOC", name + "@n2", "i/2")
        out, _ = self.export(name)
        rows = list(csv.DictReader(out.splitlines()))
        self.assertEqual([(row["pool"], row["value"]) for row in rows],
                         [(name + "@n1", "30000"), (name + "@n2", "30000")])
        self.assertEqual([row["pool"] for row in self.rows(name + "@n2")], [name + "@n2"])
        self.assertEqual(self.tenure("import", name, rows=out),
                         "2 rows: 0 imported, 2 already present\n")

    def test_an_export_under_load_is_of_one_moment(self):
        """Values move in pairs, with one command for each pair: at any moment a holder has two."""
        count = 600
        for i in range(count):
            self.do("ALLOC", self.pool, "h/%d" % i, "COUNT", 2)
        ended = threading.Event()

        def churn():
            client = self.server.client()
            i = 0
            while not ended.is_set():
                leases = client.execute_command("LEASES", "POOL", self.pool, "HOLDER", "h/%d" % i,
                                                "COUNT", 1000)
                for lease in leases[3]:
                    client.execute_command("REKEY", lease[1], lease[3], "n/%d" % i)
                    client.execute_command("RELEASE", lease[1], "n/%d" % i, lease[3] + 1)
                client.execute_command("ALLOC", self.pool, "h/%d" % i, "COUNT", 2)
                i = (i + 1) % count
        thread = threading.Thread(target=churn)
        thread.start()
        try:
            last = 0
            for _ in range(5):
                out, lsn = self.export(self.pool)
                self.assertGreaterEqual(lsn, last)
                last = lsn
                held, values = {}, set()
                for row in csv.DictReader(out.splitlines()):
                    self.assertNotIn(row["value"], values)
                    values.add(row["value"])
                    held.setdefault(row["holder"], []).append(row["lease"])
                numbers = {holder.split("/")[1] for holder in held}
                self.assertGreaterEqual(len(numbers), count - 1)
                for holder, leases in held.items():
                    self.assertEqual(len(leases), 2, holder)
                    self.assertEqual(len(set(leases)), 1, holder)
        finally:
            ended.set()
            thread.join()

    def test_usage(self):
        for arguments in ((), ("a", "b"), (self.pool, "--format", "xml"), (self.pool, "--state", "x"),
                          (self.pool, "--what")):
            self.tenure("export", *arguments, code=2)
        self.tenure("export", "nix", code=31)


class History(Import):
    def history(self, *arguments):
        return json.loads(self.tenure("--json", "history", *arguments))

    def test_who_had_a_value_and_how_it_ended(self):
        first = self.do("ALLOC", self.pool, "a", "VALUES", 1, 7)
        self.do("REKEY", first[3], 1, "b")
        self.do("RELEASE", first[3], "b", 2)
        second = self.do("ALLOC", self.pool, "c", "VALUES", 2, 7, 8)
        self.do("REVOKE", second[3])
        self.do("RECLAIM", second[3])
        self.do("ALLOC", self.pool, "d", "VALUES", 1, 8)
        self.do("ALLOC", self.pool, "e", "VALUES", 1, 7)
        got = self.history(self.pool, "7")["history"]
        self.assertEqual([(row["holder"], row.get("end"), row["current"]) for row in got],
                         [("a", "rekeyed", False), ("b", "released", False),
                          ("c", "reclaimed", False), ("e", None, True)])
        self.assertEqual(got[0]["to"], got[1]["from"])
        self.assertEqual(got[0]["lease"], got[1]["lease"])
        self.assertLessEqual(int(got[1]["to"]), int(got[2]["from"]))
        text = self.tenure("history", self.pool, "7")
        self.assertEqual([line.split()[-3] for line in text.splitlines()[1:]],
                         ["rekeyed", "released", "reclaimed", "it"])

    def test_what_a_holder_had(self):
        holder = "h/" + self.pool
        first = self.do("ALLOC", self.pool, holder, "VALUES", 1, 7)
        self.do("REKEY", first[3], 1, "other")
        self.do("ALLOC", self.pool, holder, "VALUES", 2, 8, 9)
        self.do("DISOWN", holder)
        self.do("POOL", "CREATE", "x" + self.pool, "RANGE", 1, 5)
        until(lambda: not json.loads(self.tenure("--json", "leases", "--holder", holder))["leases"],
              "the disown is done")
        self.do("ALLOC", "x" + self.pool, holder)
        got = self.history("--holder", holder)["history"]
        self.assertEqual([(row["what"], row.get("end")) for row in got],
                         [(self.pool + "/7", "rekeyed"), (self.pool + "/8,9", "disowned"),
                          ("x" + self.pool + "/1", None)])
        got = self.history("--holder", holder, "--pool", "x" + self.pool)["history"]
        self.assertEqual(len(got), 1)

    def test_values_are_known_however_they_are_written(self):
        pool = "mac" + self.pool
        self.do("POOL", "CREATE", pool, "RANGE", "52:54:00:00:00:00", "52:54:00:00:00:ff",
                "FORMAT", "mac")
        self.do("ALLOC", pool, "nic/1", "VALUES", 1, "52:54:00:00:00:aa")
        self.assertEqual(len(self.history(pool, "52:54:00:00:00:AA")["history"]), 1)
        self.tenure("history", pool, "twelve", code=21)
        self.tenure("history", "nix", "1", code=31)
        for arguments in ((), (pool,), (pool, "1", "2"), ("--pool", pool), (pool, "--holder", "x")):
            self.tenure("history", *arguments, code=2)


class Forgotten(Import):
    flags = ("--events-max", "1000")

    def test_what_began_before_the_oldest_event_is_told_by_the_lease(self):
        self.do("ALLOC", self.pool, "early", "VALUES", 1, 7)
        gone = self.do("ALLOC", self.pool, "gone", "VALUES", 1, 8)
        created = self.do("LEASE", self.pool + "/7")
        rows = "".join("%d,x/%d\n" % (i, i) for i in range(1000, 6000))
        self.tenure("import", self.pool, rows=rows)
        self.do("RELEASE", gone[3], "gone", 1)
        until(lambda: int(pairs(self.do("EVENTS", "COUNT", 1))["oldest"].split(".")[0]) >
              pairs(gone)["lsn"], "a thread lets the oldest go")
        got = json.loads(self.tenure("--json", "history", self.pool, "7"))
        self.assertNotEqual(got["oldest_event"].split(".")[0], "2")
        self.assertEqual([(row["holder"], row["current"]) for row in got["history"]],
                         [("early", True)])
        self.assertEqual(int(got["history"][0]["from"]), created[created.index("created") + 1])
        got = json.loads(self.tenure("--json", "history", self.pool, "8"))["history"]
        self.assertEqual([(row["holder"], row["from"], row["end"]) for row in got],
                         [("gone", None, "released")])


TABLES = """
CREATE DATABASE shakenfist;
%(use)s
CREATE TABLE networks (uuid VARCHAR(36) PRIMARY KEY, vxid INTEGER UNIQUE, name VARCHAR(50),
    state VARCHAR(16), created_at TIMESTAMP NULL);
CREATE TABLE instance_ports (instance_uuid VARCHAR(36) PRIMARY KEY, node VARCHAR(50),
    console_port INTEGER, vdi_port INTEGER);
CREATE TABLE instance_vsock (instance_uuid VARCHAR(36) PRIMARY KEY, cid BIGINT, expires_at TIMESTAMP NULL);
CREATE TABLE network_interfaces (uuid VARCHAR(36) PRIMARY KEY, macaddr VARCHAR(17),
    instance_uuid VARCHAR(36));
INSERT INTO networks VALUES ('n-1', 11, 'with, comma', 'created', '2026-01-02 03:04:05'),
    ('n-2', 16777215, 'tab\there', 'created', NULL), ('n-3', NULL, 'never got one', 'error', NULL);
INSERT INTO instance_ports VALUES ('i-1', 'sf-1', 30000, 30001), ('i-2', 'sf-2', 30000, 30001),
    ('i-3', 'sf-2', 40000, 29999);
INSERT INTO instance_vsock VALUES ('i-1', 3, NULL), ('i-2', 4294967295, '2036-01-01 00:00:00'),
    ('i-3', 2, NULL);
INSERT INTO network_interfaces VALUES ('m-1', '52:54:00:12:34:56', 'i-1'),
    ('m-2', '52:54:00:AB:CD:EF', 'i-2'), ('m-3', '52:54:00:12:34:56', 'i-3'), ('m-4', 'none', 'i-3');
"""


class Databases:
    """From a real database with its own client, through a pipe, as operators do it."""
    flags = ("--config", os.path.join(os.environ.get("TENURE_SOURCE_DIR", "."),
                                      "packaging/tenured.conf.example"))

    def pipe(self, database, line, code):
        environment = {**os.environ, **database.environment, "TENURE_PORT": str(self.server.port),
                       "PATH": os.path.dirname(TENURE) + ":" + os.environ["PATH"], "TZ": "UTC"}
        done = subprocess.run(["bash", "-o", "pipefail", "-c", line], env=environment, check=False,
                              timeout=PATIENCE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self.assertEqual(done.returncode, code, (line, done.stdout, done.stderr))
        return done.stdout.decode()

    def move_in(self, database, ask):
        """`ask` has a %s for the query."""
        def take(pool, query, options, code=0):
            return self.pipe(database, (ask % query) + " | tenure import " + pool + " " + options, code)
        self.assertIn("2 would be imported", take(
            "vxlan", "SELECT uuid, vxid, name, created_at FROM networks",
            "--map value=vxid,holder=uuid --holder-type network --dry-run", 1))
        told = take("vxlan", "SELECT uuid, vxid, name, created_at FROM networks",
                    "--map value=vxid,holder=uuid --holder-type network", 1)
        self.assertIn("BAD_VALUE: the value is empty", told)
        self.assertEqual(self.held("vxlan"), {"11": "network/n-1", "16777215": "network/n-2"})
        lease = self.do("LEASE", "vxlan/11")
        self.assertEqual(lease[lease.index("created") + 1], 1767323045000)
        told = take("console-ports",
                    "SELECT node, console_port AS port, instance_uuid FROM instance_ports UNION ALL "
                    "SELECT node, vdi_port, instance_uuid FROM instance_ports",
                    "--map holder=instance_uuid --holder-type instance --scope-column node", 1)
        self.assertIn("console-ports@sf-2/29999 for instance/i-3: BAD_VALUE", told)
        self.assertEqual(self.held("console-ports@sf-1"), {"30000": "instance/i-1", "30001": "instance/i-1"})
        self.assertEqual(self.held("console-ports@sf-2"),
                         {"30000": "instance/i-2", "30001": "instance/i-2", "40000": "instance/i-3"})
        told = take("vsock-cid", "SELECT cid, instance_uuid, expires_at FROM instance_vsock",
                    "--map holder=instance_uuid --holder-type instance", 1)
        self.assertIn("outside 3..4294967295", told)
        lease = self.do("LEASE", "vsock-cid/4294967295")
        self.assertEqual(lease[lease.index("deadline") + 1], 2082758400000)
        told = take("mac", "SELECT macaddr, uuid FROM network_interfaces ORDER BY uuid",
                    "--map holder=uuid --holder-type interface", 1)
        self.assertIn("line 4: mac/52:54:00:12:34:56 for interface/m-3: BUSY: held by interface/m-1 "
                      "(also in line 2)", told)
        self.assertIn("line 5: mac/none for interface/m-4: BAD_VALUE: the value is not a MAC", told)

    def move_out(self, database, client, zone):
        for pool in ("vxlan", "console-ports", "vsock-cid", "mac"):
            self.pipe(database, "tenure export %s --format sql | %s" % (pool, client), 0)
        self.do("ALLOC", "vxlan", "quote'/back\\slash", "VALUES", 1, 77)
        self.pipe(database, "(%s; tenure export vxlan --format sql) | %s" % (
            "echo \"%s DELETE FROM resource_pool_allocations WHERE pool_name = 'vxlan';\"" % zone,
            client), 0)
        rows = self.pipe(database, "echo \"SELECT * FROM resource_pool_allocations\" | " + client, 0)
        rows = rows.replace("\t", ",").replace("\\\\", "\\").replace(",NULL", ",").splitlines()
        self.assertIn("vxlan,11,network,n-1,2026-01-02 03:04:05,",
                      [row.replace("05.000", "05") for row in rows])
        self.assertTrue([row for row in rows if row.startswith("vxlan,77,quote',back\\slash,")], rows)
        self.assertTrue([row for row in rows if row.startswith("console-ports@sf-2,40000,instance,")])
        self.assertTrue([row for row in rows if row.startswith("mac,52:54:00:ab:cd:ef,interface,m-2")])
        self.assertTrue([row for row in rows if row.startswith("vsock-cid,4294967295,instance,i-2") and
                         "2036-01-01 00:00:00" in row], rows)
        for pool in ("vxlan", "mac"):
            self.assertRegex(self.pipe(
                database, "echo \"SELECT * FROM resource_pool_allocations WHERE pool_name = '%s'\" | %s "
                "| tenure import %s" % (pool, client, pool), 0), r"0 imported, \d already present")


class FromMariaDB(Databases, Import):
    def test_moving_in_and_out(self):
        database = MariaDB()
        self.addCleanup(database.remove)
        database.run(TABLES % {"use": "USE shakenfist;"})
        self.move_in(database, "mariadb --batch -e '%s' shakenfist")
        self.move_out(database, "mariadb --batch shakenfist", "SET time_zone = '+05:00';")


class FromPostgreSQL(Databases, Import):
    def test_moving_in_and_out(self):
        database = PostgreSQL()
        self.addCleanup(database.remove)
        database.run(TABLES % {"use": "\\c shakenfist"})
        database.environment["PGDATABASE"] = "shakenfist"
        self.move_in(database, "psql --csv -c '%s'")
        self.move_out(database, "psql -q --csv -v ON_ERROR_STOP=1", "SET TIME ZONE -5;")


class Guide(Databases, Import):
    def test_the_guide_works_as_it_is_written(self):
        """All its blocks in one shell, in a separate directory; only the ports differ."""
        source = os.environ.get("TENURE_SOURCE_DIR", ".")
        with open(os.path.join(source, "docs/migration/sql-table.md"), encoding="utf-8") as file:
            blocks = re.findall(r"(?ms)^```sh\n(.*?)^```$", file.read())
        self.assertGreater(len(blocks), 10)
        mariadb, postgresql = MariaDB(), PostgreSQL()
        self.addCleanup(mariadb.remove)
        self.addCleanup(postgresql.remove)
        mariadb.run(GUIDE_TABLES % {"use": "USE shakenfist;"})
        postgresql.run(GUIDE_TABLES % {"use": "\\c shakenfist"})
        script = "".join("echo '--' >&2\n" + block for block in blocks)
        script = script.replace("-p 7411", "-p %d" % self.server.port)
        script = script.replace(":7412/", ":%d/" % self.server.http_port)
        environment = {**os.environ, **mariadb.environment, **postgresql.environment, "TZ": "UTC",
                       "PGDATABASE": "shakenfist", "TENURE_PORT": str(self.server.port),
                       "PATH": os.path.dirname(TENURE) + ":" + os.environ["PATH"]}
        with tempfile.TemporaryDirectory() as directory:
            done = subprocess.run(["bash", "-ex", "-o", "pipefail", "-c", script], env=environment,
                                  cwd=directory, check=False, timeout=3 * PATIENCE,
                                  stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        out, err = done.stdout.decode(), done.stderr.decode()
        self.assertEqual(done.returncode, 0, (out, err))
        for refusal in ("BUSY", "EXHAUSTED", "MALFORMED", "NOTFOUND", "HOLDER", "STALE", "ERR "):
            self.assertNotRegex(out, r"(?m)^(\(error\) )?%s" % refusal)
        self.assertRegex(out, r'3,"mac","52:54:00:12:34:56","interface/m-2",BUSY,.*,"interface/m-1",2'
                              r'|"interface/m-1",BUSY')
        self.assertIn("3 rows: 3 would be imported", out)
        self.assertIn("6 rows: 6 imported", out)
        self.assertIn("6 rows: 0 imported, 6 already present", out)
        self.assertRegex(out, r"console-ports@sf-2\t30001\tinstance\ti-2")
        self.assertRegex(out, r"vxlan +\| +3")
        self.assertRegex(out, r"network/a1 +vxlan/4711 .* released")


GUIDE_TABLES = TABLES.split("INSERT INTO networks")[0] + """
INSERT INTO networks VALUES ('n-1', 11, 'a', 'created', '2026-01-02 03:04:05'),
    ('n-2', 16777215, 'b', 'created', NULL), ('n-3', 12, 'c', 'error', NULL),
    ('n-4', NULL, 'd', 'initial', NULL);
INSERT INTO instance_ports VALUES ('i-1', 'sf-1', 30000, 30001), ('i-2', 'sf-2', 30000, 30001),
    ('i-3', 'sf-2', 40000, 50000);
INSERT INTO instance_vsock VALUES ('i-1', 3, NULL), ('i-2', 4, '2036-01-01 00:00:00');
INSERT INTO network_interfaces VALUES ('m-1', '52:54:00:12:34:56', 'i-1'),
    ('m-2', '52:54:00:12:34:56', 'i-2'), ('m-3', '52:54:00:AB:CD:EF', 'i-3');
"""


if __name__ == "__main__":
    unittest.main()
