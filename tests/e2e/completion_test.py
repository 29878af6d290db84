"""Shell completion with names from the live server: which names are offered, that hostile ones cannot
execute anything, and what `tenure complete` answers. bash and zsh are driven as a user drives them, through a
terminal."""
import os
import pty
import select
import shlex
import shutil
import subprocess
import tempfile
import time
import unittest

from harness import BUILD, PATIENCE, Case

TENURE = os.path.abspath(os.path.join(BUILD, "tenure"))
READY = b"ready> "


class Bash:
    """An interactive bash on a terminal, with the completion loaded."""

    def __init__(self, directory):
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            os.chdir(directory)
            os.environ.update(PATH=os.path.dirname(TENURE) + ":" + os.environ["PATH"], PS1="", TERM="dumb",
                              INPUTRC="/dev/null", HISTFILE="/dev/null", LC_ALL="C.UTF-8", COLUMNS="500")
            self.begin(directory)
        self.said = b""
        self.prepare()
        # The prompt is assembled so that typing it is not taken for it.
        self.type("PS1='rea''dy> '\n")
        self.wait(READY)

    def begin(self, _directory):
        os.execlp("bash", "bash", "--norc", "--noprofile", "-i")

    def prepare(self):
        self.type("bind 'set enable-bracketed-paste off'; bind 'set bell-style none'; "
                  "bind 'set completion-query-items 0'; bind 'set page-completions off'\n")
        self.type("source <(tenure completion bash | sed 's/--deadline 500/--deadline 60000/')\n")

    def type(self, text):
        os.write(self.fd, text.encode())

    def wait(self, end):
        """Everything up to the end of this text."""
        until = time.monotonic() + PATIENCE
        while end not in self.said:
            if not select.select([self.fd], [], [], max(0, until - time.monotonic()))[0]:
                raise AssertionError("no %r in %r" % (end, self.said))
            self.said += os.read(self.fd, 65536)
        got, self.said = self.said.split(end, 1)
        return got + end

    def complete(self, line, close=""):
        """The words of the line after a Tab and `close`: the line is edited into one that prints them."""
        self.type(line + "\t" + close)
        # To the beginning of the line: print the words of the rest, one in brackets each.
        self.type("\x01printf '[%s]' \x05; echo 'do''ne'\n")
        got = self.wait(b"done\r\n")
        self.wait(READY)
        return got.decode().rsplit("\n", 2)[-2].rstrip("\r").removesuffix("done")

    def close(self):
        os.close(self.fd)
        os.waitpid(self.pid, 0)


class Zsh(Bash):
    def begin(self, directory):
        os.environ["ZDOTDIR"] = directory
        os.execlp("zsh", "zsh", "-f", "-i")

    def prepare(self):
        self.type("unsetopt zle_bracketed_paste prompt_cr prompt_sp beep list_beep; bindkey -e; setopt no_banghist; "
                  "autoload -Uz compinit && compinit -u -D\n")
        self.type("source <(tenure completion zsh | sed 's/--deadline 500/--deadline 60000/')\n")


HOSTILE = ["$(touch hit)", "`touch hit`", "a b", "it's", 'say "hi"', ";touch hit;", "x|touch hit", "$HOME",
           "*?", "~", "back\\slash", "!!", "&touch hit&", "x>hit", "ünïcode",
           "{a,b}", "#no", "'$(touch hit)'", '"$(touch hit)"', "mac:52:54:00:00:00:01", "--now"]


class Completion(Case):
    def setUp(self):
        self.dir = tempfile.mkdtemp(prefix="tenure-completion-")
        self.addCleanup(shutil.rmtree, self.dir)

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.r.execute_command("POOL", "CREATE", "ports", "RANGE", "1", "999")
        cls.r.execute_command("POOL", "CREATE", "poplars", "RANGE", "1", "9")
        for holder in HOSTILE + ["plain-1", "plain-2"]:
            cls.r.execute_command("ALLOC", "ports", holder)

    def ask(self, *words, port=None, code=0):
        done = subprocess.run([TENURE, "-p", str(port or self.server.port), "complete", "--deadline", "60000",
                               *words], timeout=PATIENCE, check=False, stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE)
        self.assertEqual(done.returncode, code, done)
        return done.stdout.decode().splitlines(), done.stderr

    def asked(self, *words):
        """The completions that the function offers for the last word."""
        script = ("source <(tenure completion bash | sed 's/--deadline 500/--deadline 60000/'); "
                  "COMP_WORDS=(\"$@\"); COMP_CWORD=$(($# - 1)); _tenure; "
                  "[ ${#COMPREPLY[@]} = 0 ] || printf '%s\\n' \"${COMPREPLY[@]}\"")
        path = os.path.dirname(TENURE) + ":" + os.environ["PATH"]
        done = subprocess.run(["bash", "-c", script, "bash", "tenure", "-p", str(self.server.port), *words],
                              timeout=PATIENCE, check=True, env={**os.environ, "PATH": path}, cwd=self.dir,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self.assertEqual(done.stderr, b"")
        return done.stdout.decode().splitlines()

    def function(self, *words):
        """The same, and no file `hit` may be made."""
        offered = self.asked(*words)
        self.assertEqual(os.listdir(self.dir), [], "a name was executed")
        return offered

    def test_names_are_not_executed(self):
        """The list of candidates is data: bash must not expand it."""
        offered = [word for word in self.function("leases", "--holder", "") if not word.startswith("many-")]
        self.assertIn("plain-1", offered)
        # Each offer is one word of a shell that means the name itself.
        for word in offered:
            meant = subprocess.run(["bash", "-c", "printf '%s\\n' " + word], cwd=self.dir, timeout=PATIENCE,
                                   check=True, stdout=subprocess.PIPE).stdout.decode().rstrip("\n")
            self.assertIn(meant, HOSTILE + ["plain-1", "plain-2"])
        self.assertEqual(os.listdir(self.dir), [])
        self.assertEqual(len(offered), len(HOSTILE) + 2)

    def test_terminal(self):
        self.r.execute_command("POOL", "CREATE", "solo", "RANGE", "7", "7")
        self.addCleanup(self.r.execute_command, "POOL", "DROP", "solo")
        for kind in (Bash, Zsh):
            with self.subTest(shell=kind.__name__):
                self.terminal(kind)

    def terminal(self, kind):
        bash = kind(self.dir)
        self.addCleanup(bash.close)
        command = "tenure -p %d leases --holder " % self.server.port
        for typed, want in [("plain-", "plain-"), ("it", "it's"), ("a", "a b"), ("mac", "mac:52:54:00:00:00:01"),
                            ("mac:52:5", "mac:52:54:00:00:00:01"), ("\\$\\(", "$(touch hit)"),
                            ("\\;", ";touch hit;"), ("\\`", "`touch hit`"), ("'pla", "plain-"), ('"pla', "plain-")]:
            got = bash.complete(command + typed, typed[0] if typed[0] in "\"'" else "")
            self.assertTrue(got.endswith("[%s]" % want), (typed, want, got))
        for typed, want in (("run --from so", "solo"), ("run --from solo/", "solo/7"),
                            ("run --from ports -- /bin/mkfif", "/bin/mkfifo")):
            got = bash.complete("tenure -p %d %s" % (self.server.port, typed))
            self.assertTrue(got.endswith("[%s]" % want), (typed, want, got))
        got = bash.complete("tenure --socket '%s' leases --holder=it" % self.server.socket)
        self.assertTrue(got.endswith("[--holder=it's]"), got)
        self.assertEqual(os.listdir(self.dir), [])

    def test_names_of_files_are_not_executed(self):
        """A directory may come from an archive; its name is only a name."""
        hostile = [name for name in HOSTILE if name != "~"] + ["~root", "-n"]
        for name in hostile:
            os.makedirs(os.path.join(self.dir, "all", name))
        before = sorted(os.listdir(self.dir))
        for shell in (Bash, Zsh):
            terminal = shell(self.dir)
            self.addCleanup(terminal.close)
            for name in hostile:
                # A directory of its own for each, so that there is one candidate only.
                place = os.path.join(self.dir, "all", "in %s" % name, name)
                os.makedirs(place, exist_ok=True)
                terminal.type("cd -- %s\n" % shlex.quote(os.path.dirname(place)))
                terminal.wait(READY)
                with self.subTest(shell=shell.__name__, name=name):
                    got = terminal.complete("tenure check ")
                    self.assertIn(got.removeprefix("[tenure][check]"), ("[%s]" % name, "[%s/]" % name))  # zsh removes the slash
            terminal.type("HOME=%s\n" % shlex.quote(os.path.join(self.dir, "all", "in a b")))
            terminal.wait(READY)
            self.assertIn(terminal.complete("tenure check ~/a").rstrip("/]"), "[tenure][check][%s/all/in a b/a b" % self.dir)
        self.assertEqual(sorted(os.listdir(self.dir)), before)
        self.assertFalse([at for at, _, files in os.walk(self.dir) if "hit" in files])

    def test_kinds(self):
        lease = self.r.execute_command("LEASE", "ports/1")
        lease = dict(zip(lease[::2], lease[1::2]))["lease"]
        self.assertEqual(sorted(self.ask("pool", "po")[0]), ["poplars", "ports"])
        self.assertEqual(sorted(self.ask("pool")[0]), ["poplars", "ports"])
        self.assertEqual(self.ask("pool", "x")[0], [])
        self.assertIn(lease, self.ask("lease")[0])
        self.assertEqual(sorted(self.ask("value", "po")[0]), ["poplars/", "ports/"])
        self.assertIn("ports/1", self.ask("value", "ports/1")[0])
        self.assertEqual([n for n in self.ask("lease-or-value", "ports/")[0] if not n.startswith("ports/")], [])
        self.assertEqual(self.ask("holder", "plain")[0], ["plain-1", "plain-2"])
        self.assertEqual(self.ask("holder", "--", "--n")[0], ["--now"])
        self.local.execute_command("RULE", "SET", "r1", "t")
        self.assertEqual(self.ask("rule")[0], ["r1"])
        for wrong in ([], ["nonsense"], ["pool", "a", "b"], ["--deadline", "0", "pool"]):
            self.assertIn(b"usage: tenure complete", self.ask(*wrong, code=2)[1])

    def test_bounded_and_silent(self):
        for i in range(250):
            self.r.execute_command("ALLOC", "ports", "many-%03d" % i)
        self.assertEqual(len(self.ask("holder", "many-")[0]), 200)
        for i in range(3):
            self.assertEqual(self.ask("holder", "many-24%d" % i)[0], ["many-24%d" % i])
        self.assertEqual(self.ask("holder", "many", port=1), ([], b""))

    def test_subcommands_that_are_no_commands_of_the_server(self):
        self.assertLessEqual({"--keep", "--no-keys"}, set(self.function("backup", "--")))
        self.assertLessEqual({"--sensors", "--no-keys"}, set(self.function("restore", "--")))
        self.assertEqual(self.function("restore", "--no-keys", "--sensors", ""), ["on", "off"])
        self.assertEqual(self.function("cluster", "s"), ["status", "step-down"])
        os.mkdir(os.path.join(self.dir, "backups"))
        self.addCleanup(os.rmdir, os.path.join(self.dir, "backups"))
        self.assertEqual(self.asked("backup", "--keep", "2", "ba"), ["backups/"])
        self.assertEqual(self.asked("restore", "--no-keys", "backups", "ba"), ["backups/"])

    def test_options_without_a_value_do_not_swallow_the_next_word(self):
        for option in ("--json", "--ask-secret", "--derive", "--keep-keys", "--help", "--watch"):
            self.assertEqual(self.function("pool", option, "info", "por"), ["ports"], option)
        self.assertEqual(self.function("user", "set", "x", "--role", ""), ["reader", "holder", "operator", "admin"])

    def test_values_of_a_pool_that_run_can_lease(self):
        self.r.execute_command("POOL", "CREATE", "gpus", "SET")
        self.addCleanup(self.r.execute_command, "POOL", "DROP", "gpus")
        self.r.execute_command("POOL", "ADD", "gpus", "free-1", "free-2", "held")
        self.r.execute_command("ALLOC", "gpus", "plain-1", "VALUES", "1", "held")
        self.addCleanup(self.r.execute_command, "DISOWN", "plain-1", "POOL", "gpus")
        self.assertEqual(self.function("run", "--from", "gp"), ["gpus"])
        self.assertEqual(self.function("run", "--from", "gpus/"), ["gpus/free-1", "gpus/free-2"])
        self.assertEqual(self.function("run", "--from", "poplars/"), ["poplars/1", "poplars/9"])  # a span's ends

    def test_files_and_commands(self):
        for name in ("rules.jsonl", "rules.old", ".rules.hidden"):
            with open(os.path.join(self.dir, name), "w", encoding="ascii"):
                pass
        os.mkdir(os.path.join(self.dir, "rules.d"))
        files = ["rules.d/", "rules.jsonl", "rules.old"]
        for words in (["rule", "import", "ru"], ["sensor", "import", "--dry-run", "ru"], ["import", "ports", "ru"],
                      ["opensynaptic", "import", "ru"], ["--ca", "ru"], ["doctor", "--config", "ru"],
                      ["user", "add", "x", "--secret-file", "ru"], ["run", "--from", "ports", "--", "cat", "ru"]):
            self.assertEqual(self.asked(*words), files, words)
        self.assertEqual(self.asked("import", "ports", "--report=ru"), ["--report=" + name for name in files])
        self.assertEqual(self.asked("rule", "import", ".ru"), [".rules.hidden"])
        self.assertEqual(self.asked("doctor", "--data", ""), ["rules.d/"])
        self.assertIn("mkfifo", self.asked("run", "--from", "ports", "--", "mkfi"))
        self.assertEqual(self.asked("run", "--from", "ports", "--", "./ru"), ["./" + name for name in files])

    def test_option_with_its_value_in_one_word(self):
        self.assertEqual(self.function("leases", "--holder=plain-"), ["--holder=plain-1", "--holder=plain-2"])
        self.assertEqual(sorted(self.function("--host=127.0.0.1", "pool", "info", "po")), ["poplars", "ports"])


if __name__ == "__main__":
    unittest.main()
