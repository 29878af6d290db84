"""Three real servers in one process, over made-up logs, whose roles a test switches: see
tests/lib/fakecluster.c for the commands."""
import os
import shutil
import socket
import subprocess
import tempfile

import redis

from harness import BUILD, COMPLAINT, PATIENCE, text_of

PROGRAM = os.path.join(BUILD, "tests", "fakecluster")


class Node:
    def __init__(self, port, http_port, udp_port):
        self.port = port
        self.http_port = http_port
        self.udp_port = udp_port
        self.address = "127.0.0.1:%d" % port

    def client(self, **options):
        return redis.Redis(port=self.port, decode_responses=True, **options)

    def role(self):
        """"master" or "slave"; None: the node has just closed the connection, as one does that loses the log."""
        try:
            with self.client() as c:
                return c.execute_command("ROLE")[0]
        except redis.ConnectionError:
            return None

    def connect(self):
        s = socket.create_connection(("127.0.0.1", self.port), timeout=PATIENCE)
        s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return s


class FakeCluster:
    def __init__(self, count=3, *guardian):
        self.data = tempfile.mkdtemp(prefix="tenure-cluster-")
        self.log = open(os.path.join(self.data, "stderr"), "ab")
        self.process = subprocess.Popen([PROGRAM, str(count), self.data, *guardian], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, stderr=self.log, text=True)
        self.nodes = []
        for line in self.process.stdout:
            if line == "ok\n":
                break
            self.nodes.append(Node(*map(int, line.split()[2:])))
        assert len(self.nodes) == count, text_of(self.log.name)

    def do(self, *words):
        self.process.stdin.write(" ".join(map(str, words)) + "\n")
        self.process.stdin.flush()
        answer = self.process.stdout.readline()
        assert answer == "ok\n", (words, answer, text_of(self.log.name))

    def said(self):
        return text_of(self.log.name)

    def remove(self):
        self.process.stdin.close()
        code = self.process.wait(PATIENCE)
        self.process.stdout.close()
        self.log.close()
        said = text_of(self.log.name)
        assert code == 0 and not COMPLAINT.search(said), (code, said)
        shutil.rmtree(self.data)
