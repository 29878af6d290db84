"""A RESP connection without a client library in between: requests and replies, in both
versions of the protocol. A push is a list in a Push, a map a dict, an error an Error."""
import socket

from harness import Case


class Push(list):
    pass


class Error(str):
    pass


class Resp:
    def __init__(self, server, version=2):
        self.socket = server.connect()
        self.buffer = b""
        self.pushed = []  # pushes that came before a reply
        if version == 3:
            assert self.do("HELLO", "3")["proto"] == 3

    def close(self):
        self.socket.close()

    def send(self, *words):
        out = b"*%d\r\n" % len(words)
        for word in words:
            data = word if isinstance(word, bytes) else str(word).encode()
            out += b"$%d\r\n%s\r\n" % (len(data), data)
        self.socket.sendall(out)

    def do(self, *words):
        """Sends one command; returns the reply, and stores the pushes that come before it."""
        self.send(*words)
        reply = self.read()
        while isinstance(reply, Push):
            self.pushed.append(reply)
            reply = self.read()
        return reply

    def next_push(self):
        return self.pushed.pop(0) if self.pushed else self.read()

    def more(self):
        data = self.socket.recv(1 << 18)
        if not data:
            raise EOFError
        self.buffer += data

    def line(self):
        while b"\r\n" not in self.buffer:
            self.more()
        line, self.buffer = self.buffer.split(b"\r\n", 1)
        return line

    def exactly(self, count):
        while len(self.buffer) < count + 2:
            self.more()
        data, self.buffer = self.buffer[:count], self.buffer[count + 2:]
        return data

    def read(self):
        line = self.line()
        kind, rest = line[:1], line[1:]
        if kind == b"+":
            return rest.decode()
        if kind == b"-":
            return Error(rest.decode(errors="replace"))
        if kind == b":":
            return int(rest)
        if kind == b"$":
            return None if rest == b"-1" else self.exactly(int(rest)).decode()
        if kind in (b"*", b"~"):
            return [self.read() for _ in range(int(rest))]
        if kind == b">":
            return Push(self.read() for _ in range(int(rest)))
        if kind == b"%":
            return {self.read(): self.read() for _ in range(int(rest))}
        if kind == b"_":
            return None
        if kind == b"#":
            return rest == b"t"
        if kind == b",":
            return float(rest)
        if kind == b"=":
            return self.exactly(int(rest)).decode()[4:]
        raise AssertionError("what is %r?" % line)

    def raw(self, count):
        """Reads this many bytes, unchanged."""
        while len(self.buffer) < count:
            self.more()
        data, self.buffer = self.buffer[:count], self.buffer[count:]
        return data

    def silent(self):
        """Whether there is no unread data; a PING makes sure that it would have arrived."""
        self.send("PING")
        reply = self.read()
        return not self.pushed and reply in ("PONG", ["pong", ""])

    def ended(self):
        self.socket.shutdown(socket.SHUT_WR)
        try:
            return self.buffer == b"" and self.socket.recv(1) == b""
        except ConnectionResetError:
            return True


class Asking(Case):
    """A test case with one RESP3 connection."""

    def setUp(self):
        super().setUp()
        self.ask = Resp(self.server, 3)
        self.addCleanup(self.ask.close)

    def do(self, *words):
        """Returns the reply, which must not be an error."""
        reply = self.ask.do(*words)
        self.assertNotIsInstance(reply, Error, (words, reply))
        return reply
