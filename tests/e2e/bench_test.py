"""The benchmark programs, each for a fraction of a second, without other servers: their rows have the form and the
names of bench/rows.tsv, and nothing is left behind. The figures are not looked at."""
import glob
import os
import re
import subprocess
import sys
import tempfile
import unittest
import xml.etree.ElementTree

from harness import BUILD

TOP = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
FIGURE = re.compile(r"^-?[0-9.]+(e[-+][0-9]+)?$")


def rows_of(program):
    with open(os.path.join(TOP, "bench", "rows.tsv"), encoding="utf-8") as file:
        rows = [line.rstrip("\n").split("\t") for line in file if not line.startswith("#")]
    return {row[1]: row for row in rows[1:] if row[0] == program}


class Bench(unittest.TestCase):
    def smoke(self, program, *more):
        """Its lines, as lists of fields. They are all listed in rows.tsv."""
        before = set(os.listdir(BUILD))
        run = subprocess.run([os.path.join(BUILD, "bench", program), "--smoke", *more], timeout=250,
                             stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=False)
        self.assertEqual(run.returncode, 0, run.stderr.decode())
        lines = [line.split("\t") for line in run.stdout.decode().splitlines()]
        rows = rows_of(program)
        for line in lines:
            self.assertEqual(len(line), 4, line)
            self.assertIn(line[0], rows)
            self.assertRegex(line[1], FIGURE)
            for figure in line[2:]:
                self.assertTrue(figure == "-" or FIGURE.match(figure), line)
        names = [line[0] for line in lines]
        self.assertEqual(len(names), len(set(names)), "a name twice")
        left = [name for name in set(os.listdir(BUILD)) - before if name.startswith("bench-data")]
        self.assertEqual(left, [])
        return names

    def check_quick_rows(self, program):
        names = self.smoke(program)
        for name, row in rows_of(program).items():
            if row[5] == "always":
                self.assertIn(name, names)

    def test_the_table_is_made_of_what_programs_print(self):
        with tempfile.TemporaryDirectory() as directory:
            paths = [os.path.join(directory, name) for name in ("lines", "tsv", "svg")]
            command = [sys.executable, os.path.join(TOP, "tools", "bench-table.py"), *paths]
            with open(paths[0], "w", encoding="utf-8") as file:
                file.write("server\tserver cycles, 64 x 1\t30000\t1.2\t25000\n")
            run = subprocess.run([*command], cwd=TOP, stdout=subprocess.PIPE, check=True)
            self.assertIn("| server cycles, 64 x 1 | 30,000 cycles/s | Redis: 25,000 | 1.20 | ≥ 1.6, **missed** |",
                          run.stdout.decode())
            with open(paths[1], encoding="utf-8") as file:
                self.assertEqual(len(file.readlines()), 2)
            xml.etree.ElementTree.parse(paths[2])
            # A row that no program printed, and a line that is no row, are errors.
            run = subprocess.run([*command, "waiting"], cwd=TOP, stdout=subprocess.PIPE,
                                 stderr=subprocess.PIPE, check=False)
            self.assertEqual(run.returncode, 1)
            self.assertIn("no result: server handovers of a value", run.stderr.decode())
            with open(paths[0], "a", encoding="utf-8") as file:
                file.write("server\tunheard of\t1\t-\t-\n")
            run = subprocess.run([*command], cwd=TOP, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                 check=False)
            self.assertEqual(run.returncode, 1)
            self.assertIn("not a row of bench/rows.tsv: server\tunheard of", run.stderr.decode())

    def test_every_row_belongs_to_a_program(self):
        with open(os.path.join(TOP, "bench", "rows.tsv"), encoding="utf-8") as file:
            programs = {line.split("\t")[0] for line in file if not line.startswith("#")} - {"program"}
        sources = {os.path.basename(path)[:-2] for path in glob.glob(os.path.join(TOP, "bench", "*.c"))}
        self.assertEqual(programs, sources)


def add(program):
    setattr(Bench, "test_smoke_of_" + program, lambda self: self.check_quick_rows(program))


for each in sorted(glob.glob(os.path.join(TOP, "bench", "*.c"))):
    add(os.path.basename(each)[:-2])


if __name__ == "__main__":
    unittest.main()
