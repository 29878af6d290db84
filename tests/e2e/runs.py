"""Helpers of the tests of `tenure run`: the command under test as a process, its guardian, and a witness
that knows whether any process of the command lives.

The witness is tests/lib/sensor_dummy.c with a lock on a file: every process of the command has the lock
as long as it lives, and a process that finds the lock taken writes FILE.twice. So a free lock shows that
no process of the command lives, and FILE.twice that two holders of one value lived at the same time."""
import fcntl
import os
import signal
import subprocess
import tempfile

from harness import BUILD, PATIENCE, Case, until

TENURE = os.path.abspath(os.path.join(BUILD, "tenure"))
DUMMY = os.path.abspath(os.environ.get("SENSOR_TEST_DUMMY", os.path.join(BUILD, "tests", "sensor_dummy")))


def children_of(pid):
    found = []
    try:
        for task in os.listdir("/proc/%d/task" % pid):
            with open("/proc/%d/task/%s/children" % (pid, task), encoding="ascii") as file:
                found += [int(word) for word in file.read().split()]
    except OSError:
        pass
    return found


def state_of(pid):
    try:
        with open("/proc/%d/stat" % pid, "rb") as file:
            return file.read().rsplit(b")", 1)[1].split()[0].decode()
    except OSError:
        return ""


class Witness:
    def __init__(self):
        self.dir = tempfile.TemporaryDirectory(prefix="tenure-run-")
        self.file = os.path.join(self.dir.name, "lock")

    def command(self, mode="lock"):
        return [DUMMY, mode, self.file]

    def is_free(self):
        with open(self.file, "a", encoding="ascii") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                return True
            except OSError:
                return False

    def is_held(self):
        """Whether a holder has written to the file. Trying the lock would take it for a moment."""
        return os.path.exists(self.file) and os.path.getsize(self.file) > 0

    def forget(self):
        with open(self.file, "w", encoding="ascii"):
            pass

    def twice(self):
        return os.path.exists(self.file + ".twice")

    def remove(self):
        self.dir.cleanup()


class Run:
    """`tenure run` as a process."""

    def __init__(self, port, *arguments, env=None, before=(), **options):
        environment = {**os.environ, "TENURE_PORT": str(port), **(env or {})}
        self.process = subprocess.Popen([*before, TENURE, "run", *arguments], env=environment,
                                        stdout=subprocess.PIPE, stderr=subprocess.PIPE, **options)
        self.pid = self.process.pid

    def guardian(self):
        return until(lambda: children_of(self.pid), "a guardian")[0]

    def signal(self, number):
        self.process.send_signal(number)

    def end(self):
        """Waits for the end; returns exit code, output and errors."""
        out, err = self.process.communicate(timeout=PATIENCE)
        return self.process.returncode, out.decode(), err.decode()

    def remove(self):
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGKILL)
        for stream in (self.process.stdout, self.process.stderr):
            stream.close()
        self.process.wait(PATIENCE)


class RunCase(Case):
    keep = True

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.r.execute_command("POOL", "CREATE", "gpus", "SET")
        cls.r.execute_command("POOL", "ADD", "gpus", "gpu-0", "gpu-1")
        cls.r.execute_command("POOL", "CREATE", "ports", "RANGE", "8000", "8099")
        cls.r.execute_command("POOL", "CREATE", "one", "SET")
        cls.r.execute_command("POOL", "ADD", "one", "it")

    def setUp(self):
        self.witness = Witness()
        self.addCleanup(self.witness.remove)

    def start(self, *arguments, **options):
        run = Run(self.server.port, *arguments, **options)
        self.addCleanup(run.remove)
        return run

    def run_to_end(self, *arguments, code=0, **options):
        got = self.start(*arguments, **options).end()
        self.assertEqual(got[0], code, got)
        return got

    def leases(self, pool="one"):
        reply = self.do("LEASES", "POOL", pool)
        found = dict(zip(reply[::2], reply[1::2]))["leases"]
        return [dict(zip(lease[::2], lease[1::2])) for lease in found]

    def held(self, *options, mode="lock", ttl="3"):
        """A run of the witness that holds `one/it`."""
        run = self.start("--from", "one", "--ttl", ttl, *options, "--", *self.witness.command(mode))
        until(self.witness.is_held, "the witness")
        return run
