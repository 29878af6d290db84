#!/usr/bin/env python3
"""Machines of a cluster, simulated on this one: each has an address of the loopback network and a directory for its
files, and the commands of the pages for operators run in a shell with simulated `ssh`, `scp`, `systemctl` and
`journalctl`. `systemctl start` reads the real units: their environment, their command, and Type=notify. `sleep` is short.

As a program: `machines.py TOOL ARGUMENT...` is one of these tools."""
import os
import random
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time

from patience import BUILD, COMPLAINT, PATIENCE, until

SOURCE = os.path.abspath(os.environ.get("TENURE_SOURCE_DIR", "."))
UNITS = {"tenured": os.path.join(SOURCE, "packaging/tenured.service"),
         "etcd": "/lib/systemd/system/etcd.service"}
PROGRAMS = {"/usr/bin/tenured": os.path.join(os.path.abspath(BUILD), "tenured"), "/usr/bin/etcd": "/usr/bin/etcd"}
# Files of a machine, as opposed to the operator's files.
PLACES = re.compile(r"(?<![\w.])/(etc/(tenure|default|systemd)|var/lib/(tenure|etcd)|run/tenured|backup|root)\b")
TOOLS = ("ssh", "scp", "systemctl", "journalctl", "runuser")
# What has nothing to do here; and pauses between two looks, which are too long for a test.
STAND_INS = {"apt-get": 'for word; do :; done; exec test -f "$word"',  # the package was copied there
             "chown": "exit 0", "sleep": "exec /bin/sleep 0.05"}
DOCUMENTED = "10.0.0."


def alive(pid):
    try:
        with open("/proc/%d/stat" % pid, encoding="utf-8") as file:
            return file.read().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


class Machine:
    """`real`: its files are in their real places; only those of the simulation are in its directory."""

    def __init__(self, top, address, real=os.environ.get("MACHINE_IS_REAL") == "yes"):
        self.address = address
        self.dir = os.path.join(top, address)
        self.real = real

    def at(self, path):
        return path if self.real and PLACES.match(path) else self.dir + path

    def here(self, text):
        return text if self.real else PLACES.sub(lambda found: self.dir + found.group(0), text)

    def log(self, unit):
        return self.at("/log-" + unit)

    def pid(self, unit):
        """0: the server does not run."""
        try:
            with open(self.at("/pid-" + unit), encoding="utf-8") as file:
                pid = int(file.read())
        except FileNotFoundError:
            return 0
        return pid if alive(pid) else 0

    def lines(self, name):
        """The assignments of a unit and its drop-ins."""
        paths = [UNITS[name]]
        parts = self.at("/etc/systemd/system/%s.service.d" % name)
        if os.path.isdir(parts):
            paths += [os.path.join(parts, part) for part in sorted(os.listdir(parts))]
        for path in paths:
            with open(path, encoding="utf-8") as file:
                for line in file.read().splitlines():
                    key, _, value = line.partition("=")
                    yield key, value.replace("%p", name).replace("%H", "here")

    def unit(self, name):
        """Environment and command. Environment files override the unit's own variables."""
        lines = list(self.lines(name))
        assignments = [value for key, value in lines if key == "Environment"]
        for path in (self.here(value.lstrip("-")) for key, value in lines if key == "EnvironmentFile"):
            if os.path.exists(path):
                with open(path, encoding="utf-8") as file:
                    assignments += [line for line in file.read().splitlines() if line and line[0] != "#"]
        environment = {key: self.here(value) for key, _, value in (text.partition("=") for text in assignments)}
        program, *arguments = [value for key, value in lines if key == "ExecStart"][-1].split()
        words = [PROGRAMS[program]]
        for word in arguments:
            words += environment.get(word[1:], "").split() if word[0] == "$" else [self.here(word)]
        return environment, words

    def begin(self, name):
        """The process of the unit, and the socket to which it reports."""
        environment, words = self.unit(name)
        notify = self.at("/notify-" + name)
        if os.path.exists(notify):
            os.unlink(notify)
        told = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        told.bind(notify)
        with open(self.log(name), "ab") as log:
            process = subprocess.Popen(
                words, env={"PATH": os.environ["PATH"], "NOTIFY_SOCKET": notify, **environment},
                stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True, cwd=self.dir)
        with open(self.at("/pid-" + name), "w", encoding="utf-8") as file:
            file.write(str(process.pid))
        return process, told

    def start(self, name):
        process, told = self.begin(name)
        told.settimeout(0.1)
        end = time.monotonic() + PATIENCE
        with told:
            while time.monotonic() < end:
                if process.poll() is not None:
                    print("Job for %s.service failed, status %d" % (name, process.returncode), file=sys.stderr)
                    return 1
                try:
                    if b"READY=1" in told.recv(4096):
                        return 0
                except socket.timeout:
                    pass
        return 1

    def stop(self, name, number=signal.SIGTERM):
        pid = self.pid(name)
        if pid:
            os.kill(pid, number)
            until(lambda: not alive(pid), "the end of %s on %s" % (name, self.address))
        return 0


# ---- The tools, which run as separate processes ----

def tool_ssh(top, words):
    address = words[0].rpartition("@")[2]
    machine = Machine(top, address)
    return subprocess.run(["/bin/bash", "-ec", machine.here(" ".join(words[1:]))], cwd=machine.dir, check=False,
                          stdin=subprocess.DEVNULL, env=dict(os.environ, MACHINE=address)).returncode


def tool_scp(top, words):
    """Files of settings name other files of the machine."""
    machine = Machine(top, words[-1].partition(":")[0].rpartition("@")[2])

    def local(word):
        return machine.here(word.partition(":")[2]) if ":" in word else word
    *sources, target = map(local, (word for word in words if word[0] != "-"))
    assert not target.endswith("/") or os.path.isdir(target), target
    for source in sources:
        if os.path.isdir(source):
            shutil.copytree(source, os.path.join(target, os.path.basename(source)))
            continue
        path = os.path.join(target, os.path.basename(source)) if os.path.isdir(target) else target
        shutil.copy(source, path)
        if path.endswith(".conf"):
            with open(source, encoding="utf-8") as file:
                text = machine.here(file.read())
            with open(path, "w", encoding="utf-8") as file:
                file.write(text)
    return 0


def tool_systemctl(top, words):
    machine = Machine(top, os.environ["MACHINE"])
    verb, *names = [word for word in words if word[0] != "-"]
    if verb in ("daemon-reload", "enable", "disable"):
        return 0
    code = 0
    for name in names:
        if verb in ("stop", "restart"):
            machine.stop(name)
        if verb == "reload":
            os.kill(machine.pid(name), signal.SIGHUP)
        if verb == "status":
            print("%s.service: %s" % (name, "active (running)" if machine.pid(name) else "failed (Result: exit-code)"))
            code = 0 if machine.pid(name) else 3
        if verb == "kill":
            machine.stop(name, signal.SIGKILL if "--signal=KILL" in words else signal.SIGTERM)
        if verb in ("start", "restart") and not machine.pid(name):
            code = (machine.begin(name) and 0 if "--no-block" in words else machine.start(name)) or code
    return code


def tool_journalctl(top, words):
    if "-u" not in words:
        return 0
    with open(Machine(top, os.environ["MACHINE"]).log(words[words.index("-u") + 1]), encoding="utf-8") as log:
        sys.stdout.write(log.read())
    return 0


def tool_apt(_top, _words):
    """Does what the package does, as packages_test.py shows."""
    if not os.path.exists("/etc/tenure"):
        os.makedirs("/etc/tenure/tls")
        shutil.copy(os.path.join(SOURCE, "packaging/debian/tenured.conf"), "/etc/tenure")
        os.makedirs("/var/lib/tenure", mode=0o700)
        subprocess.run(["tenured", "--make-certificate", "/etc/tenure/tls"], stdout=subprocess.DEVNULL, check=True)
    return subprocess.run(["systemctl", "restart", "tenured"], check=False).returncode


def tool_runuser(_top, words):
    return subprocess.run(words[words.index("--") + 1:], check=False).returncode


# ---- For tests ----

def network():
    """An unused network "127.x.y."."""
    while True:
        net = "127.%d.%d." % (random.randrange(1, 255), random.randrange(1, 255))
        try:
            for host in range(1, 5):
                for port in (2379, 2380, 7411, 7412):
                    with socket.socket() as s:
                        s.bind((net + str(host), port))
            return net
        except OSError:
            continue


class Machines:
    def __init__(self, count=3):
        self.top = tempfile.mkdtemp(prefix="tenure-machines-")
        self.net = network()
        self.all = [Machine(self.top, self.net + str(i + 1)) for i in range(count)]
        os.mkdir(os.path.join(self.top, "bin"))
        for machine in self.all:
            for place in ("/run", "/root", "/etc/tenure", "/etc/default", "/var/lib/tenure", "/var/lib/etcd"):
                os.makedirs(machine.at(place))
        for name in TOOLS:
            self.program(name, 'exec /usr/bin/python3 -S %s %s "$@"' % (os.path.abspath(__file__), name))
        for name, line in STAND_INS.items():
            self.program(name, line)
        for name in ("tenure", "tenured"):
            self.program(name, 'exec %s "$@"' % os.path.join(os.path.abspath(BUILD), name))
        # The operator's own files: the examples, for these addresses.
        self.work = os.path.join(self.top, "work")
        shutil.copytree(os.path.join(SOURCE, "packaging"), os.path.join(self.work, "packaging"))
        for root, _, files in os.walk(os.path.join(self.work, "packaging/cluster")):
            for path in (os.path.join(root, name) for name in files):
                with open(path, encoding="utf-8") as file:
                    text = file.read()
                with open(path, "w", encoding="utf-8") as file:
                    file.write(self.text(text))

    def program(self, name, line):
        path = os.path.join(self.top, "bin", name)
        with open(path, "w", encoding="utf-8") as file:
            file.write("#!/bin/sh\n%s\n" % line)
        os.chmod(path, 0o755)

    def text(self, text):
        return text.replace(DOCUMENTED, self.net)

    def paste(self, text, **environment):
        """The output of the commands. Each command must succeed."""
        inherited = {key: value for key, value in os.environ.items() if not key.startswith("TENURE_")}
        with tempfile.TemporaryFile("w+") as out:
            done = subprocess.run(
                ["timeout", str(PATIENCE), "/bin/bash", "-e", "-o", "pipefail", "-c", self.text(text)],
                cwd=self.work, stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.STDOUT, check=False,
                timeout=2 * PATIENCE, env=dict(inherited, MACHINES=self.top, HOME=self.work, TENURE_BUILD_DIR=os.path.abspath(BUILD),
                         TENURE_SOURCE_DIR=SOURCE, PATH=os.path.join(self.top, "bin") + ":" + os.environ["PATH"],
                         **environment))
            out.seek(0)
            said = out.read()
        assert done.returncode == 0, "exit %d\n%s\n%s\n%s" % (done.returncode, text, said, self.logs())
        return said

    def logs(self):
        """The ends of all logs."""
        found = []
        for root, _, files in os.walk(self.top):
            for path in (os.path.join(root, name) for name in files if name.startswith("log-") or name.endswith(".log")):
                with open(path, encoding="utf-8", errors="replace") as log:
                    found += ["-- " + path, *log.read().splitlines()[-12:]]
        return "\n".join(found)

    def said(self, number, text):
        with open(self.all[number].log("tenured"), encoding="utf-8") as log:
            return text in log.read()

    def remove(self):
        complaints = []
        for machine in self.all:
            machine.stop("tenured")
            if os.path.exists(machine.log("tenured")):
                with open(machine.log("tenured"), encoding="utf-8", errors="replace") as log:
                    text = log.read()
                complaints += [text] if COMPLAINT.search(text) else []
        for machine in self.all:
            machine.stop("etcd", signal.SIGKILL)
        shutil.rmtree(self.top)
        assert not complaints, complaints


if __name__ == "__main__":
    TOOL = {"ssh": tool_ssh, "scp": tool_scp, "systemctl": tool_systemctl, "journalctl": tool_journalctl,
            "runuser": tool_runuser, "apt": tool_apt}[sys.argv[1]]
    sys.exit(TOOL(os.environ["MACHINES"], sys.argv[2:]))
