#!/usr/bin/env python3
"""The blocks of shell commands in docs/http.md, docs/sticky-pools.md and docs/tls.md, pasted unchanged. Those
of the first two go into a shell beside one server, in the order of the page and in a random order. Those of
the third start servers of their own."""
import os
import random
import re
import signal
import ssl
import subprocess
import tempfile
import unittest

from harness import BUILD, COMPLAINT, PATIENCE, text_of, until
from readme_test import SOURCE, Clone

TENURE = '#!/bin/sh\nexec build/tenure "$@"\n'
INLINE = r"`(tenure [^`]+)`"


def page(name):
    return text_of(os.path.join(SOURCE, "docs", name))


def blocks(text):
    return re.findall(r"^```sh\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)


class Pages(unittest.TestCase):
    def setUp(self):
        self.clone = Clone()
        self.addCleanup(self.clone.remove)
        with open(self.clone.path("bin", "tenure"), "w", encoding="utf-8") as file:
            file.write(TENURE)
        os.chmod(self.clone.path("bin", "tenure"), 0o755)

    def test_http_again_and_again(self):
        for _ in range(3):  # ids grow: none may be written down
            for block in blocks(page("http.md")):
                seen = self.clone.paste(block).replace(" ", "")
                self.assertIn('"holder":"job/42"', seen)

    def test_sticky_pools_in_any_order(self):
        """The first block makes the pool that the others use."""
        make, *others = blocks(page("sticky-pools.md"))
        self.assertEqual(len(others), 2)
        order = others * 2
        seed = random.randrange(1 << 32)
        random.Random(seed).shuffle(order)
        with self.subTest(seed=seed):
            for block in others + order:
                self.clone.paste(make)
                self.clone.paste("tenure alloc devices dev/1\n")
                self.assertTrue(self.clone.paste(block))
                self.clone.paste("tenure disown dev/1\ntenure pool drop devices\n")

    def test_commands_inside_the_text_of_sticky_pools(self):
        """The commands without placeholders."""
        found = [line for line in re.findall(INLINE, page("sticky-pools.md").replace("\n", " "))
                 if not re.search("[A-Z]", line)]
        self.assertGreaterEqual(len(found), 3)
        self.clone.paste(blocks(page("sticky-pools.md"))[0])
        for line in found:
            self.clone.paste(re.sub(" +", " ", line) + "\n")

    def test_each_block_says_what_it_is(self):
        """A block that no test runs could be wrong."""
        for name in ("http.md", "sticky-pools.md", "tls.md"):
            text = page(name)
            self.assertEqual(re.findall(r"(?m)^```(?!sh$|text$|$).*", text), [])
            outside = re.sub(r"(?ms)^```.*?^```$", "", text)
            self.assertEqual(re.findall(r"(?m)^(?:    |\t)\S.*", outside), [])


# What the unit does at a reload.
SYSTEMCTL = '#!/bin/sh\n[ "$*" = "reload tenured" ] && kill -HUP "$(cat server)"\n'


class Tls(unittest.TestCase):
    """The page starts its servers itself. Only ports differ, and the directory that the package makes."""

    def setUp(self):
        tmp = tempfile.TemporaryDirectory(prefix="tenure-docs-")
        self.addCleanup(tmp.cleanup)
        self.top = tmp.name
        self.ports = {}
        os.mkdir(self.path("bin"))
        for name in ("tenured", "tenure"):
            os.symlink(os.path.abspath(os.path.join(BUILD, name)), self.path("bin", name))
        with open(self.path("bin", "systemctl"), "w", encoding="ascii") as file:
            file.write(SYSTEMCTL)
        os.chmod(file.name, 0o755)
        self.environment = dict(os.environ, HOME=self.top, PATH=self.path("bin") + ":" + os.environ["PATH"],
                                TENURE_LISTEN="127.0.0.1:0", TENURE_HTTP="127.0.0.1:0", TENURE_PORT_FILE="ports")

    def path(self, *names):
        return os.path.join(self.top, *names)

    def paste(self, text):
        """What the block prints, a server in the background included. Each of its commands must succeed."""
        text = re.sub(r"\b741[34]\b", lambda port: self.ports.get(port.group(), "0"), text)
        text = text.replace("/etc/tenure/tls", self.path("tls"))
        with open(self.path("said"), "w", encoding="utf-8") as said:
            done = subprocess.run(["/bin/sh", "-e"], input=text, stdout=said, stderr=subprocess.STDOUT, text=True,
                                  cwd=self.top, env=self.environment, timeout=PATIENCE, check=False)
        self.assertEqual(done.returncode, 0, text_of(said.name))
        return text_of(said.name)

    def start(self, text):
        """Pastes a block that ends with a server in the background."""
        self.assertTrue(text.endswith(" &\n"))
        self.paste(text[:-3] + " 2> log & echo $! > server\n")
        number = int(text_of(self.path("server")))
        until(lambda: "event=ready" in text_of(self.path("log")), "the server is ready")
        _, _, *more = text_of(self.path("ports")).split()
        self.ports = dict(zip(("7413", "7414"), more[1:]))
        return number

    def end(self, number):
        os.kill(number, signal.SIGTERM)
        until(lambda: "event=stopped" in text_of(self.path("log")), "the server has stopped")
        self.assertIsNone(COMPLAINT.search(text_of(self.path("log"))))

    def test_the_page_from_above(self):
        begin, ask, renew, begin_unix, ask_unix = blocks(page("tls.md"))
        number = self.start(begin)
        try:
            self.assertEqual(self.paste(ask).count("PONG"), 2)
            old = text_of(self.path("tls", "server.pem"))
            self.paste(renew)
            new = text_of(self.path("tls", "server.pem"))
            self.assertNotEqual(new, old)
            until(lambda: ssl.get_server_certificate(("127.0.0.1", int(self.ports["7413"]))) == new, "the new certificate")
            self.assertEqual(self.paste(ask).count("PONG"), 2)
        finally:
            self.end(number)
        number = self.start(begin_unix)
        try:
            self.assertIn('"pools":[]', self.paste(ask_unix).replace(" ", ""))
        finally:
            self.end(number)


if __name__ == "__main__":
    unittest.main()
