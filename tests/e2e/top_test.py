#!/usr/bin/env python3
"""`tenure top` on a real terminal: a pseudo-terminal, and a model of its screen."""
import fcntl
import json
import os
import pty
import re
import select
import signal
import struct
import subprocess
import tempfile
import termios
import time
import unittest

from cli_test import TENURE, on_terminal, run
from harness import BUILD, PATIENCE, Case, Server, until

SEQUENCE = re.compile(rb"\x1b\[([0-9;?]*)([A-Za-z])")


class Screen:
    """The lines that the program has drawn. It knows the sequences that `tenure top` uses and refuses all others."""

    def __init__(self, width, height):
        self.width, self.height = width, height
        self.cells = [[" "] * width for _ in range(height)]
        self.row = self.column = 0
        self.colours = set()  # that were ever used
        self.waiting = b""
        self.frames = 0

    def clear_line(self):
        self.cells[self.row][self.column:] = [" "] * (self.width - self.column)

    def sequence(self, arguments, letter):
        if letter == b"H":
            self.row = self.column = 0
        elif letter == b"K":
            self.clear_line()
        elif letter == b"J":
            self.clear_line()
            for row in range(self.row + 1, self.height):
                self.cells[row] = [" "] * self.width
            self.frames += 1
        elif letter == b"m":
            self.colours.add(arguments.decode())
        else:
            assert (letter in b"hl" and arguments in (b"?1049", b"?25")), (arguments, letter)

    def put(self, character):
        if character == "\n":
            self.row += 1
            assert self.row < self.height, "the screen scrolls"
        elif character == "\r":
            self.column = 0
        else:
            assert ord(character) >= 32 and not 0x7f <= ord(character) < 0xa0 and character != "\u202e", \
                "a control character reached the terminal: %r" % character
            assert self.column < self.width, "a line is too long"
            self.cells[self.row][self.column] = character
            self.column += 1

    def feed(self, data):
        self.waiting += data
        while self.waiting:
            if self.waiting[0] == 0x1b:
                found = SEQUENCE.match(self.waiting)
                if not found:
                    assert len(self.waiting) < 16, "an unknown sequence: %r" % self.waiting[:16]
                    return
                self.sequence(found.group(1), found.group(2))
                self.waiting = self.waiting[found.end():]
                continue
            length = 1 if self.waiting[0] < 0x80 else 2 if self.waiting[0] < 0xe0 else 3 if self.waiting[0] < 0xf0 else 4
            if len(self.waiting) < length:
                return
            self.put(self.waiting[:length].decode())
            self.waiting = self.waiting[length:]

    def text(self):
        return "\n".join("".join(row).rstrip() for row in self.cells)


class Top:
    """The program on a terminal of its own."""

    def __init__(self, port, *options, width=80, height=24, env=None):
        self.screen = Screen(width, height)
        self.main, side = pty.openpty()
        self.size(width, height, side)
        environment = {**os.environ, "TENURE_PORT": str(port), "TERM": "xterm", **(env or {})}
        self.process = subprocess.Popen([TENURE, *options, "top"], stdin=side, stdout=side, stderr=side,
                                        env=environment, start_new_session=True)
        os.close(side)

    @staticmethod
    def size(width, height, to):
        fcntl.ioctl(to, termios.TIOCSWINSZ, struct.pack("HHHH", height, width, 0, 0))

    def resize(self, width, height):
        """Discards the screen of the old size."""
        self.screen = Screen(1000, 1000)
        self.size(width, height, self.main)
        self.process.send_signal(signal.SIGWINCH)

    def see(self, condition, what):
        """Reads until the screen, after a whole frame, meets the condition; returns the screen."""
        end = time.monotonic() + PATIENCE
        while time.monotonic() < end:
            if self.screen.frames > 0 and not self.screen.waiting and condition(self.screen.text()):
                return self.screen.text()
            if select.select([self.main], [], [], 1)[0]:
                self.screen.feed(os.read(self.main, 65536))
        raise AssertionError("%s:\n%s" % (what, self.screen.text()))

    def see_text(self, *texts):
        return self.see(lambda screen: all(text in screen for text in texts), "to see %r" % (texts,))

    def press(self, keys):
        os.write(self.main, keys if isinstance(keys, bytes) else keys.encode())

    def quit(self):
        self.press("q")
        code = self.process.wait(PATIENCE)
        os.close(self.main)
        return code


class Once(Case):
    def test_without_a_terminal_it_is_one_frame_of_text(self):
        def top():
            code, out, error = run(self.server.port, "top")
            self.assertEqual(code, 0, error)
            return out
        self.assertIn("no pools yet", top())
        self.do("POOL", "CREATE", "half", "RANGE", "1", "10")
        self.do("POOL", "CREATE", "idle", "RANGE", "1", "10")
        self.do("ALLOC", "half", "h", "COUNT", "5")
        frame = top()
        self.assertNotIn("\x1b", frame)
        self.assertRegex(frame, r"(?m)^engine +lsn \d+ ")
        self.assertRegex(frame, r"(?m)^leases +1 +values: active 5 ")
        self.assertRegex(frame, r"(?m)^half +█{10}·{10} +50\.0% +10 +5 ")
        self.assertLess(frame.index("half"), frame.index("idle"))
        once = on_terminal(self.server.port, "top", "--once")
        self.assertEqual(once[0], 0)
        self.assertNotIn("\x1b[?1049h", once[1])
        self.assertEqual(run(self.server.port, "top", "--twice")[0], 2)

    def test_on_a_terminal_it_lives_until_q_and_gives_the_screen_back(self):
        for width, height in ((80, 24), (40, 10), (20, 3), (200, 60)):
            code, out = on_terminal(self.server.port, "top", width=width, height=height,
                                    steps=[(b"\x1b[J", b"sjk\x1b[A\x1bOB\r\x1b[C2?x@\x7fq")])
            self.assertEqual(code, 0)
            self.assertIn("\x1b[?1049h", out)
            self.assertTrue(out.endswith("\x1b[?25h\x1b[?1049l"), out[-40:])
            for frame in re.split(r"\x1b\[H", out)[1:]:
                lines = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", frame).split("\r\n")
                self.assertLessEqual(max(len(line) for line in lines), width)
                self.assertLessEqual(len(lines), height)

    def test_a_signal_gives_the_screen_back_too(self):
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            code, out = on_terminal(self.server.port, "top", steps=[(b"\x1b[J", number)])
            self.assertEqual(code, 0)
            self.assertTrue(out.endswith("\x1b[?1049l"), out[-40:])


class Live(Case):
    """One server for all: pools in trouble, scopes, a line, a sensor in error, hostile names."""
    HOSTILE = "evil\u009b2J\u202e"  # 9B begins a sequence, 202E turns the text around

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        with cls.server.local() as client:
            do = client.execute_command
            for name, used in (("empty", 0), ("full", 10), ("nearly", 9), ("tiny", 0)):
                do("POOL", "CREATE", name, "RANGE", 1, 10)
                if used:
                    do("ALLOC", name, "holder-of-" + name, "COUNT", used)
            do("POOL", "CREATE", "nets", "RANGE", 1, 10, "SCOPED", "yes")
            do("ALLOC", "nets@blue", cls.HOSTILE, "COUNT", 4, "META", json.dumps({"a": cls.HOSTILE}))
            do("SENSOR", "SET", "broken", "t", json.dumps(
                {"command": ["/no/such/program"], "settle_seconds": 0, "max_restarts": 0}))
            do("RULE", "SET", "r", "t")
            until(lambda: b"error" in repr(do("SENSOR", "STATUS", "broken")).encode(), "an error")

    def top(self, **options):
        top = Top(self.server.port, **options)
        self.addCleanup(top.process.kill)
        return top

    def order(self, screen):
        return [name for name in re.findall(r"(?m)^[> ] ([a-z@]+) +[█·]", screen) if name != "sensors"]

    def test_the_fullest_first_and_every_order(self):
        top = self.top()
        screen = top.see_text("? keys", "full ", "sensor.error")
        self.assertEqual(self.order(screen)[:4], ["full", "nearly", "nets", "empty"])
        self.assertRegex(screen, r"(?m)^> full +█{8} 100\.0% +0 +0 .* now")
        self.assertIn("1 in trouble: broken", screen)
        self.assertIn("sort (by use)", screen)
        for key, word, first in (("n", "name", "empty"), ("f", "free", "full"), ("w", "waiting", "empty"),
                                 ("r", "rate", "empty"), ("u", "use", "full")):
            top.press(key)
            screen = top.see_text("sort (by %s)" % word)
            top.see(lambda screen, first=first: self.order(screen)[0] == first, first + " is first")
        self.assertEqual(top.quit(), 0)
        self.assertIn("31", top.screen.colours)  # full
        self.assertIn("33", top.screen.colours)  # at 90 %

    def test_no_colours_where_they_are_not_wanted(self):
        for env in ({"NO_COLOR": "1"}, {"TERM": "dumb"}):
            top = self.top(env=env)
            screen = top.see_text("? keys", "full ")
            self.assertRegex(screen, r"(?m)^> full")  # the selection is seen without them
            self.assertEqual(top.quit(), 0)
            self.assertEqual(top.screen.colours, set())

    def test_a_pool_is_opened_and_left(self):
        top = self.top()
        top.see_text("? keys", "full ")
        top.press("j\r")
        screen = top.see_text("[leases]", "holder-of-nearly")
        self.assertIn("nearly  ██████████████████·· 90.0% of 10  9 active", screen)
        self.assertIn("1 free.", screen)
        for key, texts in (("\x1b[C", ("[values]", "available")), ("\t", ("[line]", "none")),
                           ("\x1b[C", ("[scopes]", "none")), ("\x1b[C", ("[policy]", "allocated_total")),
                           ("\x1b[D", ("[scopes]",))):
            top.press(key)
            top.see_text(*texts)
        top.press("\x1b")
        top.see(lambda screen: re.search(r"(?m)^> nearly", screen), "back, at the pool that was open")
        self.assertEqual(top.quit(), 0)

    def test_who_waits_is_seen(self):
        with self.server.connect() as waiting:
            waiting.sendall(b"*5\r\n$5\r\nALLOC\r\n$4\r\nfull\r\n$7\r\npatient\r\n$4\r\nWAIT\r\n$3\r\n600\r\n")
            top = self.top()
            top.see(lambda screen: re.search(r"(?m)^> full .* 0 +1 +0\.0 +now", screen), "one that waits")
            top.press("\r")
            top.see_text("Nothing is free, and 1 waits.")
            top.press("\t\t")
            top.see_text("[line]", "patient")
            self.assertEqual(top.quit(), 0)

    def test_scopes_are_folded_and_shown(self):
        top = self.top()
        screen = top.see_text("? keys", "nets ")
        self.assertNotIn("nets@blue  ", screen)
        self.assertRegex(screen, r"values: active 2[34] ")  # each counted once: 10, 9, 4 and perhaps a sensor
        top.press("@")
        top.see(lambda screen: "nets@blue" in self.order(screen), "a scope")
        top.press("@jj\r\x1b[C\x1b[C\x1b[C")
        top.see_text("[scopes]", "nets@blue")
        self.assertEqual(top.quit(), 0)

    def test_sensors_and_keys(self):
        top = self.top(width=120, height=30)
        top.see_text("? keys")
        top.press("2")
        screen = top.see_text("SENSOR", "broken", "error")
        self.assertIn("No such file or directory", screen)
        top.press("?")
        top.see_text("the next order: use, free, waiting, rate, name")
        top.press("?")
        top.see_text("SENSOR")
        top.press("1")
        top.see_text("POOL")
        self.assertEqual(top.quit(), 0)

    def test_hostile_names_do_not_reach_the_terminal(self):
        """The model of the screen refuses their control sequences."""
        top = self.top(width=160, height=40)
        top.see_text("? keys")
        top.press("@")
        top.see(lambda screen: "nets@blue" in self.order(screen), "the scope")
        top.press("n")
        top.see_text("sort (by name)")
        while not re.search(r"(?m)^> nets@blue", top.see_text("? keys")):
            frames = top.screen.frames
            top.press("j")
            top.see(lambda _, frames=frames: top.screen.frames > frames, "the next frame")
        top.press("\r")
        top.see_text("[leases]", "evil\ufffd2J\ufffd")
        for tab in ("values", "line", "scopes", "policy"):
            top.press("\t")
            top.see_text("[%s]" % tab)
        self.assertEqual(top.quit(), 0)

    def test_another_size_is_drawn_at_once(self):
        top = self.top()
        top.see_text("? keys", "full ")
        top.resize(140, 40)
        screen = top.see_text("NEW LEASES", "full ")
        self.assertRegex(screen, r"(?m)^> full +█{20} 100\.0% +10 +0 ")
        top.resize(60, 12)
        screen = top.see(lambda screen: "NEW LEASES" not in screen and "full " in screen, "a small one")
        self.assertLessEqual(max(map(len, screen.split("\n"))), 60)
        self.assertEqual(top.quit(), 0)


class Across(Case):
    """With a server of its own, which is killed and comes back."""
    keep = True

    def test_a_server_that_goes_and_comes_back_is_seen(self):
        self.do("POOL", "CREATE", "before", "RANGE", "1", "10")
        top = Top(self.server.port)
        self.addCleanup(top.process.kill)
        top.see_text("before ")
        top.press("\r")
        top.see_text("[leases]")
        self.server.stop(signal.SIGKILL)
        top.see_text("disconnected, retrying")
        self.server.start()
        self.do("ALLOC", "before", "survivor")
        top.see(lambda screen: "disconnected" not in screen and "survivor" in screen, "the pool again")
        self.do("POOL", "CREATE", "after", "RANGE", "1", "10")
        top.press("\x7f")
        top.see_text("after ")
        self.assertEqual(top.quit(), 0)


class Flooded(Case):
    def test_the_newest_events_are_shown_whatever_came_before(self):
        self.do("POOL", "CREATE", "flooded", "RANGE", 1, 5000)
        top = Top(self.server.port)
        self.addCleanup(top.process.kill)
        top.see_text("pool.created")
        pipe = self.r.pipeline(transaction=False)
        for i in range(4000):
            pipe.execute_command("ALLOC", "flooded", "holder-%d" % i)
        pipe.execute()
        self.do("ALLOC", "flooded", "the-newest")
        before = top.screen.frames
        top.see_text("the-newest")
        self.assertLess(top.screen.frames - before, 15)  # not one frame for each 100 events
        self.assertEqual(top.quit(), 0)


class Hung(Case):
    def test_keys_and_signals_work_while_the_server_hangs(self):
        tops = [Top(self.server.port, "--timeout", "1h") for _ in range(2)]
        for top in tops:
            self.addCleanup(top.process.kill)
            top.see_text("? keys")
        with self.server.standstill():
            for top in tops:
                top.see_text("disconnected, retrying")
            tops[0].process.send_signal(signal.SIGTERM)
            self.assertEqual(tops[0].process.wait(PATIENCE), 0)
            self.assertEqual(tops[1].quit(), 0)


class Reader(unittest.TestCase):
    """A user that may only read, and only one scope."""

    def test_what_it_may_see_is_shown(self):
        with tempfile.TemporaryDirectory(prefix="tenure-top-") as home:
            hashed = subprocess.run([os.path.join(BUILD, "tenured"), "--hash-secret"], input=b"right\n", check=True,
                                    stdout=subprocess.PIPE, timeout=PATIENCE).stdout.decode().strip()
            file = os.path.join(home, "tenured.conf")
            with open(file, "w", encoding="ascii") as out:
                out.write("[user boss]\nrole = admin\nsecret = %s\n" % hashed)
                out.write("[user guest]\nrole = reader\nsecret = %s\npools = nets@blue\n" % hashed)
            server = Server(None, "--config", file)
            self.addCleanup(server.remove)
            with server.client(username="boss", password="right") as client:
                for words in (("POOL", "CREATE", "nets", "RANGE", 1, 9, "SCOPED", "yes"),
                              ("POOL", "CREATE", "secret", "RANGE", 1, 9),
                              ("ALLOC", "nets@blue", "h"), ("ALLOC", "secret", "hidden")):
                    client.execute_command(*words)
            top = Top(server.port, env={"TENURE_USER": "guest", "TENURE_SECRET": "right"})
            self.addCleanup(top.process.kill)
            screen = top.see_text("nets@blue", "? keys")
            self.assertNotIn("secret ", screen)
            self.assertNotIn("hidden", screen)
            top.press("\r")
            top.see_text("[leases]", "active")
            self.assertEqual(top.quit(), 0)


if __name__ == "__main__":
    unittest.main()
