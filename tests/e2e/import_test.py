#!/usr/bin/env python3
"""`tenure import`, `export` and `history` against the real server: files of every kind of bad row, lost
connections, and real databases on both sides."""
import csv
import json
import os
import socket
import subprocess
import tempfile
import threading
import time
import unittest

from harness import BUILD, PATIENCE, Case, Server, until

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
        """The rows that are told of, by line, and the counts."""
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
        (b"15,a\x00b", "BAD_NAME: the holder: it has control characters"),
        (b"16,h,soon", "BAD_TTL: expires_at is neither"),
        (b"17,h,2026-02-30", "BAD_TTL: expires_at is neither"),
        (b"18,h,2001-01-01 00:00:00", "BAD_TTL: its end has passed"),
        (b"19,h,0", "BAD_TTL: its end has passed"),
        (b"20,\"h\"x", "MALFORMED: something stands between"),
        (b"21,\"h", "MALFORMED: a quote is not closed"),
        (b"\x00\x01\x02\xff\xfe,\x80,\x81", "BAD_VALUE: the value is not a number"),
        (b"22," + b"x" * 10000000, "MALFORMED: the line has more than 64 KiB"),
        (b"23,\"" + b"x" * 10000000 + b"\"", "MALFORMED: a quote is not closed within 64 KiB"),
        (b"," * 70, "MALFORMED: it has more than 64 columns"),
        (b"10,other", "BUSY: held by good (line 2 has it too)"),
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
                    why = "BUSY: the file gives it to two, first taken by good (line 2 has it too)"
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


class Lost(Import):
    def proxy(self, cut_after):
        """A way to the server that breaks each time so many bytes have come back."""
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
        server = Server()
        server.client().execute_command("POOL", "CREATE", "p", "RANGE", 1, 100000)
        process = subprocess.Popen([TENURE, "-p", str(server.port), "import", "p", "--batch", "1"],
                                   stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                   stderr=subprocess.PIPE)
        rows = "".join("%d,h/%d\n" % (i, i) for i in range(1, 5001)).encode()
        process.stdin.write(rows)
        process.stdin.close()
        process.stdin = None
        until(lambda: server.client().execute_command("LEASES", "POOL", "p", "COUNT", 1)[3], "some")
        server.process.kill()
        server.process.wait()
        out, err = process.communicate(timeout=PATIENCE)
        self.assertEqual(process.returncode, 3, (out, err))
        self.assertRegex(err.decode(), r"stopped after line \d+\. Repeat the same import")
        server.log.close()
        server.start()
        code, out, err = run(server.port, "--json", "import", "p", rows=rows)
        self.assertEqual(code, 0, err)
        counts = json.loads(out)
        self.assertEqual(int(counts["taken"]) + int(counts["there"]), 5000)
        self.assertGreater(int(counts["there"]), 0)
        server.remove()


if __name__ == "__main__":
    unittest.main()
