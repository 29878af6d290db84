#!/usr/bin/env python3
"""The examples in the READMEs of clients/, as they stand: all blocks of a page are one program, and each
line that prints has a comment that says what."""
import os
import re
import subprocess
import tempfile
import unittest

from harness import PATIENCE, Case, text_of
from pyclient import ROOT


def blocks(client, language):
    text = text_of(os.path.join(ROOT, "clients", client, "README.md"))
    return re.findall(r"^```%s\n(.*?)^```$" % language, text, re.MULTILINE | re.DOTALL)


def said(program, call):
    """What the program says that it prints."""
    return re.findall(r"%s\(.*\);? +// (.*)$" % re.escape(call), program, re.MULTILINE)


class Readme(Case):
    def run_program(self, *words, cwd):
        out = subprocess.run(words, cwd=cwd, text=True, timeout=PATIENCE, stdout=subprocess.PIPE, check=False,
                             stderr=subprocess.PIPE,
                             env={**os.environ, "TENURE_URL": "tenure://127.0.0.1:%d" % self.server.port})
        self.assertEqual(out.returncode, 0, out.stderr)
        return out.stdout.splitlines()

    def test_the_examples_for_node(self):
        program = "\n".join(blocks("node", "js"))
        with tempfile.TemporaryDirectory(prefix="tenure-readme-") as top:
            os.mkdir(os.path.join(top, "node_modules"))
            os.symlink(os.path.join(ROOT, "clients", "node"),
                       os.path.join(top, "node_modules", "tenure-client"))
            with open(os.path.join(top, "readme.mjs"), "w", encoding="utf-8") as file:
                file.write(program)
            printed = self.run_program("node", "readme.mjs", cwd=top)
        self.assertGreater(len(printed), 5)
        self.assertEqual(printed, said(program, "console.log"))


if __name__ == "__main__":
    unittest.main()
