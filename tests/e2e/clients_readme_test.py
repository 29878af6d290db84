#!/usr/bin/env python3
"""The examples in the READMEs of clients/, unchanged: all blocks of a page are one program, and each
line that prints has a comment that says what."""
import os
import re
import subprocess
import tempfile
import unittest

from harness import PATIENCE, Case, text_of
from pyclient import ROOT


GO = """package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"tenure"
)

func check(err error) {
	if err != nil {
		panic(err)
	}
}

func main() {
%s}
"""
GO_MODULE = "module readme\n\ngo 1.19\n\nrequire tenure v0.0.0\n\nreplace tenure => %s\n"


def write(path, text):
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)


def blocks(client, language):
    text = text_of(os.path.join(ROOT, "clients", client, "README.md"))
    return re.findall(r"^```%s\n(.*?)^```$" % language, text, re.MULTILINE | re.DOTALL)


def said(program, call):
    """The output that the program's comments announce."""
    return re.findall(r"%s\(.*\)(?:;| })? +// (.*)$" % re.escape(call), program, re.MULTILINE)


class Programs(Case):
    def run_program(self, *words, cwd):
        out = subprocess.run(words, cwd=cwd, text=True, timeout=PATIENCE, stdout=subprocess.PIPE, check=False,
                             stderr=subprocess.PIPE,
                             env={**os.environ, "GOCACHE": os.path.join(ROOT, "build", "go"), "GOPROXY": "off",
                                  "TENURE_URL": "tenure://127.0.0.1:%d" % self.server.port})
        self.assertEqual(out.returncode, 0, out.stderr)
        return out.stdout.splitlines()


class Node(Programs):
    def test_its_examples_work(self):
        program = "\n".join(blocks("node", "js"))
        with tempfile.TemporaryDirectory(prefix="tenure-readme-") as top:
            os.mkdir(os.path.join(top, "node_modules"))
            os.symlink(os.path.join(ROOT, "clients", "node"),
                       os.path.join(top, "node_modules", "tenure-client"))
            write(os.path.join(top, "readme.mjs"), program)
            printed = self.run_program("node", "readme.mjs", cwd=top)
        self.assertGreater(len(printed), 5)
        self.assertEqual(printed, said(program, "console.log"))


class Go(Programs):
    def test_its_examples_work(self):
        program = "\n".join(blocks("go", "go"))
        with tempfile.TemporaryDirectory(prefix="tenure-readme-") as top:
            write(os.path.join(top, "go.mod"), GO_MODULE % os.path.join(ROOT, "clients", "go"))
            write(os.path.join(top, "main.go"), GO % program)
            printed = self.run_program("go", "run", ".", cwd=top)
        self.assertGreater(len(printed), 5)
        self.assertEqual(printed, said(program, "fmt.Println"))


if __name__ == "__main__":
    unittest.main()
