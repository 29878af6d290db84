#!/usr/bin/env python3
"""The blocks of docs/cookbook.md, pasted unchanged into a shell: in the order of the page, again, and in
another order."""
import os
import random
import re
import subprocess
import tempfile
import unittest

from harness import BUILD, PATIENCE, Case, text_of

SOURCE = os.path.abspath(os.environ.get("TENURE_SOURCE_DIR", "."))


class Cookbook(Case):
    def shell(self, text):
        with tempfile.TemporaryDirectory(prefix="tenure-cookbook-") as home:
            done = subprocess.run(
                ["bash", "-eu", "-o", "pipefail", "-c", text], cwd=home, timeout=PATIENCE, check=False,
                stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                env={**os.environ, "PATH": os.path.abspath(BUILD) + ":" + os.environ["PATH"],
                     "TENURE_PORT": str(self.server.port)})
        self.assertEqual(done.returncode, 0, (text, done.stdout.decode(), done.stderr.decode()))
        return done.stdout.decode()

    def test_every_block_works_in_any_order(self):
        page = text_of(os.path.join(SOURCE, "docs", "cookbook.md"))
        blocks = re.findall(r"^```sh\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
        self.assertGreater(len(blocks), 5)
        out = "".join(self.shell(block) for block in blocks)
        for word in ("the report is made here", "training on GPUs 0,1", "revoking", "against ports 20000 and 20001",
                     "leading with token 0-", "token: eyJ"):
            self.assertIn(word, out)
        random.Random(7).shuffle(blocks)
        for block in blocks:
            self.shell(block)
        self.assertEqual(self.server.cli("LEASES").count("run/"), 0)


if __name__ == "__main__":
    unittest.main(verbosity=2)
