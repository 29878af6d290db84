"""Helpers of the tests of clients/python: the client itself, a proxy that loses replies, a server
with scripted replies, and a test case with a real server."""
import os
import socket
import sys
import threading
import unittest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
CLIENT = os.path.join(ROOT, "clients", "python")
sys.path.insert(0, CLIENT)

import tenure  # noqa: E402
from harness import Server  # noqa: E402


class Proxy:
    """A proxy in front of the server: the address stays the same when the server is started again, and
    replies can be lost."""

    def __init__(self, server):
        self.server = server
        self.swallow = False  # requests pass, replies are dropped
        self.swallowed = 0
        self.silent = set()  # ends at the server of connections that stay open and bring no more replies
        self.refuse = False  # connections are closed at once
        self.pairs = []
        self.lock = threading.Lock()
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while True:
            try:
                inner, _ = self.listener.accept()
            except OSError:
                return
            try:
                if self.refuse:
                    raise ConnectionError
                outer = socket.create_connection(("127.0.0.1", self.server.port))
            except OSError:
                inner.close()
                continue
            with self.lock:
                refused = self.refuse  # the code that sets it cuts the connections in the list after that
                if not refused:
                    self.pairs.append((inner, outer))
            if refused:
                inner.close()
                outer.close()
                continue
            for pair, back in (((inner, outer), False), ((outer, inner), True)):
                threading.Thread(target=self.copy, args=(*pair, back), daemon=True).start()

    def copy(self, source, target, back):
        try:
            while True:
                data = source.recv(65536)
                if not data:
                    break
                if back and (self.swallow or source in self.silent):
                    self.swallowed += 1
                else:
                    target.sendall(data)
        except OSError:
            pass
        self.end(source, target)
        source.close()

    @staticmethod
    def end(*sockets):
        for s in sockets:
            try:
                s.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass

    def hush(self):
        """All existing connections become silent, as if a machine on the way had lost its power; later ones work."""
        with self.lock:
            self.silent |= {outer for _, outer in self.pairs}

    def cut(self):
        with self.lock:
            pairs, self.pairs = self.pairs, []
        for pair in pairs:
            self.end(*pair)

    def close(self):
        self.end(self.listener)
        self.listener.close()
        self.cut()


class Scripted:
    """A server that answers HELLO and then each request in turn with the next given answer; None: it disconnects; an
    object: these exact bytes (`say`, repeated `times`), after which it may `hang_up`. Stores the requests."""

    def __init__(self, *answers, hellos=()):
        self.answers = list(answers)
        self.hellos = list(hellos)
        self.requests = []
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.address = "127.0.0.1:%d" % self.listener.getsockname()[1]
        threading.Thread(target=self.serve, daemon=True).start()

    def serve(self):
        while True:
            try:
                s, _ = self.listener.accept()
            except OSError:
                return
            threading.Thread(target=self.meet, args=(s,), daemon=True).start()

    def meet(self, s):
        try:
            with s, s.makefile("rwb") as file:
                self.talk(file)
        except OSError:  # the client has closed the connection early
            pass

    def talk(self, file):
        while True:
            head = file.readline()
            if not head:
                return
            words = []
            for _ in range(int(head[1:])):
                words.append(file.read(int(file.readline()[1:]) + 2)[:-2].decode())
            answer = "+OK"
            if words[0] == "HELLO" and self.hellos:
                answer = self.hellos.pop(0)
            elif words[0] != "HELLO":
                self.requests.append(words)
                answer = self.answers.pop(0) if self.answers else None
            if answer is None:
                return
            told = answer if isinstance(answer, dict) else {"say": answer + "\r\n"}
            file.write(told["say"].encode() * told.get("times", 1))
            file.flush()
            if told.get("hang_up"):
                return

    def close(self):
        Proxy.end(self.listener)
        self.listener.close()


class Case(unittest.TestCase):
    flags = ()

    @classmethod
    def setUpClass(cls):
        cls.server = Server(None, *cls.flags)
        cls.address = "127.0.0.1:%d" % cls.server.port
        cls.client = tenure.Client(cls.address)

    @classmethod
    def tearDownClass(cls):
        cls.client.close()
        cls.server.remove()
