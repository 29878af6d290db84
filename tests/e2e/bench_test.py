"""The benchmarks of the server and of a cluster, their smoke: the generator drives the real server through every
case, short and without Redis. What it says about speed is not looked at."""
import os
import subprocess
import unittest

from harness import BUILD

CASES = [
    "server cycles, 64 x 1", "server cycles, 64 x 32", "server cycles, 1 x 1",
    "server renewals, 64 x 1", "server renewals, 64 x 32", "server renewals with TLS, 64 x 32", "server cycles at 99 %, 64 x 1",
    "server PING, 64 x 32", "server memory of an idle connection",
    "server handovers of a value, 100 in line",
    "cluster durable commands, 64 x 32", "cluster, a lone commit, p50", "cluster cycles, 64 x 32",
    "cluster, lag of a standby at half load, p99", "cluster fail-over, p50",
]


class Bench(unittest.TestCase):
    def test_the_smoke_run_reports_every_case_and_leaves_nothing_behind(self):
        before = set(os.listdir(BUILD))
        rows = []
        for program in ("server", "waiting", "cluster"):
            run = subprocess.run([os.path.join(BUILD, "bench", program), "--quick"], timeout=250,
                                 stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=False)
            self.assertEqual(run.returncode, 0, run.stderr.decode())
            rows += [line.split("\t") for line in run.stdout.decode().splitlines()]
        for row in rows:
            self.assertEqual(len(row), 5, row)
            self.assertGreater(float(row[1]), 0, row)
        names = [row[0] for row in rows]
        for case in CASES:
            self.assertIn(case, names)
        left = [name for name in set(os.listdir(BUILD)) - before if name.startswith("bench-data")]
        self.assertEqual(left, [])


if __name__ == "__main__":
    unittest.main()
