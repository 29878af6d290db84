"""A cluster on this machine: etcd from Debian's package, and nodes of ours, each with a directory and ports
of its own."""
import os
import shutil
import signal
import socket
import subprocess
import tempfile

import redis

from harness import PATIENCE, Server, port_of, reserve, text_of, until


class Etcd:
    """One member, which keeps its port in all of its lives."""
    more = ()

    def __init__(self):
        self.dir = tempfile.mkdtemp(prefix="tenure-etcd-")
        self.held = [reserve(), reserve()]
        self.client, self.peer = ("http://127.0.0.1:%d" % port_of(s) for s in self.held)
        self.start()

    def start(self):
        with open(os.path.join(self.dir, "log"), "ab") as log:
            self.process = subprocess.Popen(
                ["etcd", "--name", "e", "--data-dir", os.path.join(self.dir, "data"),
                 "--listen-client-urls", self.client, "--advertise-client-urls", self.client,
                 "--listen-peer-urls", self.peer, "--initial-advertise-peer-urls", self.peer,
                 "--initial-cluster", "e=" + self.peer, *self.more], stdout=log, stderr=log)

        def listens():
            assert self.process.poll() is None, text_of(os.path.join(self.dir, "log"))
            with socket.socket() as s:
                return s.connect_ex(("127.0.0.1", port_of(self.held[0]))) == 0
        until(listens, "etcd")

    def stop(self, number=signal.SIGTERM):
        self.process.send_signal(number)
        self.process.wait(PATIENCE)

    def remove(self):
        if self.process.poll() is None:
            self.stop(signal.SIGKILL)
        for s in self.held:
            s.close()
        shutil.rmtree(self.dir)


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
    def __init__(self, names, *flags):
        self.etcd = Etcd()
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
        """The node that serves, after it has done everything that an owner must do first."""
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
