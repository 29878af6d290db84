#!/usr/bin/env python3
"""The blocks of shell commands in docs/http.md and docs/sticky-pools.md, pasted unchanged, in the order of
the page and in a random order, into a shell beside one server."""
import os
import random
import re
import unittest

from harness import text_of
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
        for name in ("http.md", "sticky-pools.md"):
            text = page(name)
            self.assertEqual(re.findall(r"(?m)^```(?!sh$|text$|$).*", text), [])
            outside = re.sub(r"(?ms)^```.*?^```$", "", text)
            self.assertEqual(re.findall(r"(?m)^(?:    |\t)\S.*", outside), [])


if __name__ == "__main__":
    unittest.main()
