"""A cluster on this machine: etcd from Debian's package, and nodes of Tenure, each with its own directory and
ports."""
import os
import shutil
import signal
import socket
import subprocess
import tempfile

import redis

from harness import PATIENCE, Server, port_of, reserve, text_of, until


class Etcd:
    """One member, which keeps its port across restarts."""
    more = ()

    def __init__(self, name="e"):
        self.prepare(name)
        self.start()

    def prepare(self, name):
        self.name = name
        self.dir = tempfile.mkdtemp(prefix="tenure-etcd-")
        self.held = [reserve(), reserve()]
        self.client, self.peer = ("http://127.0.0.1:%d" % port_of(s) for s in self.held)
        self.members = "%s=%s" % (name, self.peer)

    def start(self):
        with open(os.path.join(self.dir, "log"), "ab") as log:
            self.process = subprocess.Popen(
                ["etcd", "--name", self.name, "--data-dir", os.path.join(self.dir, "data"),
                 "--listen-client-urls", self.client, "--advertise-client-urls", self.client,
                 "--listen-peer-urls", self.peer, "--initial-advertise-peer-urls", self.peer,
                 "--initial-cluster", self.members, *self.more], stdout=log, stderr=log)

        def listens():
            assert self.process.poll() is None, text_of(os.path.join(self.dir, "log"))
            with socket.socket() as s:
                return s.connect_ex(("127.0.0.1", port_of(self.held[0]))) == 0
        until(listens, "etcd")

    def stop(self, number=signal.SIGTERM):
        self.process.send_signal(number)
        self.process.wait(PATIENCE)

    def pause(self):
        """Waits until no thread runs any more: on a busy machine that is later than the signal."""
        self.process.send_signal(signal.SIGSTOP)
        tasks = "/proc/%d/task" % self.process.pid

        def stopped():
            return all(text_of(os.path.join(tasks, task, "stat")).rpartition(")")[2].split()[0] == "T"
                       for task in os.listdir(tasks))
        until(stopped, "etcd stands still")

    def remove(self):
        if self.process.poll() is None:
            self.stop(signal.SIGKILL)
        for s in self.held:
            s.close()
        shutil.rmtree(self.dir)


class Member(Etcd):
    """One of several: it does not start before all of them are known."""

    def __init__(self, name):
        self.prepare(name)


class Etcds:
    """Three members."""

    def __init__(self):
        self.members = [Member("e%d" % i) for i in range(3)]
        self.dir = self.members[0].dir
        self.client = ",".join(member.client for member in self.members)
        together = ",".join(member.members for member in self.members)
        for member in self.members:
            member.members = together
            member.start()

    def remove(self):
        for member in self.members:
            member.remove()


class Node(Server):
    def __init__(self, cluster, name, *flags, data=None):
        self.name = name
        super().__init__(data, "--node", name, "--etcd-endpoints", cluster.etcd.client,
                         "--cluster-secret-file", cluster.secret, *cluster.flags, *flags, keep=True)

    def said(self, event):
        return [line for line in text_of(self.log.name).splitlines() if "event=%s " % event in line]

    def role(self):
        """"master" or "slave"; None: the node does not answer."""
        try:
            with self.client(socket_timeout=PATIENCE) as client:
                return client.execute_command("ROLE")[0]
        except redis.ConnectionError:
            return None


class Cluster:
    def __init__(self, names, *flags, etcd=None):
        self.etcd = etcd or Etcd()
        self.flags = flags
        self.secret = os.path.join(self.etcd.dir, "secret")
        with open(self.secret, "w", encoding="utf-8") as file:
            os.fchmod(file.fileno(), 0o600)
            file.write("a secret that all nodes share\n")
        self.nodes = [Node(self, names[0], "--cluster-init")]
        self.owner()
        # The flag that begins a cluster is used once.
        self.nodes[0].flags = tuple(f for f in self.nodes[0].flags if f != "--cluster-init")
        self.nodes += [Node(self, name) for name in names[1:]]

    def owner(self):
        """The node that serves, after all that an owner must do first."""
        def found():
            for node in self.nodes:
                if node.process.poll() is None and node.role() == "master" and \
                        len(node.said("owner_ready")) > len(node.said("owner_ended")):
                    return node
            return None
        return until(found, "an owner")

    def others(self, node):
        return [n for n in self.nodes if n is not node]

    def remove(self):
        for node in self.nodes:
            node.remove()
        self.etcd.remove()
