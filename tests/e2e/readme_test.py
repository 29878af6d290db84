#!/usr/bin/env python3
"""The README's own blocks, pasted into a shell as a newcomer would: unchanged, in any order, repeatedly. The server is started by the line that ends `make run`; only the ports differ."""
import os
import random
import re
import signal
import subprocess
import tempfile
import unittest

from harness import BUILD, COMPLAINT, PATIENCE, text_of, until

SOURCE = os.path.abspath(os.environ.get("TENURE_SOURCE_DIR", "."))
README = text_of(os.path.join(SOURCE, "README.md"))
MAKEFILE = text_of(os.path.join(SOURCE, "Makefile"))
# The programs do not fail when the server refuses; with these they do.
REDIS_CLI = '#!/bin/sh\nexec /usr/bin/redis-cli -e "$@"\n'
CURLRC = "silent\nshow-error\nfail-with-body\n"
# A library that is instrumented needs a program that is.
CC = '#!/bin/sh\nexec /usr/bin/cc %s "$@"\n'
LIVE = r"`((?:redis-cli|build/tenure|curl) [^`]*(?:SUBSCRIBE|--follow|-N) ?[^`]*)`"


def blocks(language):
    return re.findall(r"^```%s\n(.*?)^```$" % language, README, re.MULTILINE | re.DOTALL)


def recipe_of_run():
    return MAKEFILE.split("\nrun:")[1].split("\n\n")[0]


def instruments():
    cache = text_of(os.path.join(BUILD, "CMakeCache.txt"))
    if "\nTENURE_COVERAGE:BOOL=ON\n" in cache:
        return "--coverage"
    found = re.search(r"^TENURE_SANITIZE:STRING=(.+)$", cache, re.MULTILINE)
    return "-fsanitize=" + found.group(1) if found else ""


class Clone:
    """A directory that looks like a clone after `make`, and the server that `make run` starts there."""

    def __init__(self):
        self.tmp = tempfile.TemporaryDirectory(prefix="tenure-readme-")
        self.top = self.tmp.name
        os.symlink(os.path.abspath(BUILD), self.path("build"))
        for name in ("examples", "include"):
            os.symlink(os.path.join(SOURCE, name), self.path(name))
        os.mkdir(self.path("bin"))
        for name, text in (("redis-cli", REDIS_CLI), ("cc", CC % instruments())):
            with open(self.path("bin", name), "w", encoding="utf-8") as file:
                file.write(text)
            os.chmod(self.path("bin", name), 0o755)
        with open(self.path(".curlrc"), "w", encoding="utf-8") as file:
            file.write(CURLRC)
        self.environment = dict(os.environ, HOME=self.top, PWD=self.top,
                                PATH=self.path("bin") + ":" + os.environ["PATH"])
        self.start()

    def path(self, *names):
        return os.path.join(self.top, *names)

    def start(self):
        line = re.search(r"@exec (build/tenured.*)", recipe_of_run()).group(1)
        self.log = open(self.path("stderr"), "wb")
        self.process = subprocess.Popen(
            line.split(), cwd=self.top, stderr=self.log,
            env=dict(self.environment, TENURE_LISTEN="127.0.0.1:0", TENURE_HTTP="127.0.0.1:0",
                     TENURE_PORT_FILE=self.path("ports")))

        def ready():
            assert self.process.poll() is None, text_of(self.log.name)
            return os.path.exists(self.path("ports"))
        until(ready, "the port file")
        self.resp, self.http = text_of(self.path("ports")).split()[:2]
        self.environment["TENURE_PORT"] = self.resp

    def shell(self, text):
        text = re.sub(r"\b7411\b", self.resp, text)
        text = re.sub(r"\b7412\b", self.http, text)
        return subprocess.Popen(["/bin/sh", "-e"], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                stderr=subprocess.PIPE, text=True, cwd=self.top,
                                env=self.environment, start_new_session=True), text

    def paste(self, text):
        """Runs the block and returns its output. Each command must succeed without a message on standard error."""
        process, text = self.shell(text)
        try:
            out, err = process.communicate(text, timeout=PATIENCE)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            out, err = process.communicate()
            raise AssertionError("it does not end:\n%s\n%s%s" % (text, out, err)) from None
        assert process.returncode == 0, "exit %d\n%s\n%s%s" % (process.returncode, text, out, err)
        assert not re.search("(?i)error|not found|tenure: ", err), (text, err)
        return out

    def remove(self):
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            self.process.wait(PATIENCE)
        self.log.close()
        said = text_of(self.log.name)
        self.tmp.cleanup()
        assert self.process.returncode == 0 and not COMPLAINT.search(said), said


class Readme(unittest.TestCase):
    def setUp(self):
        self.clone = Clone()
        self.addCleanup(self.clone.remove)
        for program in blocks("c"):
            with open(self.clone.path("demo.c"), "w", encoding="utf-8") as file:
                file.write(program)

    def pastes(self):
        """Blocks of shell commands that need the server or the build tree. packages_test.py pastes the one for a
        fresh machine."""
        return [block for block in blocks("sh") if not block.startswith(("make ", "apt "))]

    def test_blocks_in_the_order_of_the_page(self):
        seen = [self.clone.paste(block) for block in self.pastes()]
        self.assertEqual(len(seen), 6)
        redis, command_line, http, running, sensors, embedded = seen
        self.assertIn("vm/42", redis)
        self.assertRegex(command_line, r"(?m)^\S+ +1 +active +train/7 +gpus/gpu-1,gpu-2\b")
        self.assertIn('"holder":"ann"', http.replace(" ", ""))
        self.assertRegex(running, r"(?m)^licenses 1 2, lease 0-\d+$")
        self.assertRegex(sensors, r"(?s)state +stopped.*state +running.*active +yes.*state +stopped.*"
                                  r"no_rules.*active +no.*stale")
        self.assertIn("sensor.", sensors)
        self.assertIn("job/42 has port 30000", embedded)

    def test_blocks_in_any_order_and_again(self):
        order = self.pastes() * 2
        seed = random.randrange(1 << 32)
        random.Random(seed).shuffle(order)
        with self.subTest(seed=seed):
            for block in order:
                self.clone.paste(block)

    def test_the_lines_that_make_run_prints_get_along_with_the_page(self):
        lines = [line.replace('\\"', '"') for line in re.findall(r'@echo "  (.*)"', recipe_of_run())]
        self.assertGreaterEqual(len(lines), 5)
        seen = self.clone.paste("\n".join(lines) + "\n")
        for holder in ("job/42", "job/43", "job/44"):
            self.assertIn(holder, seen)
        for block in self.pastes()[:3]:
            self.clone.paste(block)
        self.clone.paste("\n".join(lines) + "\n")  # the next `make run` prints them again

    def test_live_views_show_what_happens(self):
        """The commands in the text that run until Ctrl-C: they show the next event."""
        found = re.findall(LIVE, README.replace("\n", " "))
        self.assertEqual(len(found), 3, found)
        for at, line in enumerate(found):
            with open(self.clone.path("live"), "w", encoding="utf-8"):
                pass  # there it is, even if the shell is slow
            process, text = self.clone.shell("exec %s >live\n" % line)
            for pipe in (process.stdout, process.stderr):
                self.addCleanup(pipe.close)
            self.addCleanup(process.wait)
            self.addCleanup(os.killpg, process.pid, signal.SIGKILL)
            process.stdin.write(text)
            process.stdin.close()
            names = []

            def shown():
                names.append("live-%d-%d" % (at, len(names)))
                self.clone.paste("build/tenure pool create %s --set\n" % names[-1])
                seen = text_of(self.clone.path("live"))
                return any(name in seen for name in names)
            until(shown, line)

    def test_make_has_the_targets(self):
        named = set(re.findall(r"(?m)(?:^|`)(?:sudo )?make ([a-z]+)", README))
        self.assertLessEqual({"run", "test", "story", "help", "install"}, named)
        for target in named:
            self.assertRegex(MAKEFILE, r"(?m)^%s:" % target)

    def test_the_story_is_told_as_the_page_tells_it(self):
        told = subprocess.run([os.path.join(BUILD, "story")], stdout=subprocess.PIPE, check=True,
                              timeout=PATIENCE, text=True, cwd=self.clone.top).stdout
        quoted = blocks("text")[0].split("...")[0]
        self.assertIn(quoted.strip(), told)

    def test_each_block_says_what_it_is(self):
        """A block that no test runs could be wrong."""
        self.assertEqual(re.findall(r"(?m)^```(?!sh$|c$|text$|$).*", README), [])
        outside = re.sub(r"(?ms)^```.*?^```$", "", README)
        self.assertEqual(re.findall(r"(?m)^(?:    |\t)\S.*", outside), [])


if __name__ == "__main__":
    unittest.main()
