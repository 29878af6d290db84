"""Clients that speak another protocol to the RESP port. A browser sends HTTP to any port that a web
page names, and the page chooses the body: nothing in it may be executed. Raw bytes first, then a real
browser that shows a hostile page."""
import base64
import http.client
import http.server
import json
import os
import re
import subprocess
import threading
import unittest
import urllib.request

from browser import CHROMIUM, Browser
from harness import Case, pairs, receive_until, text_of, until

METHODS = "GET POST PUT HEAD OPTIONS DELETE PATCH CONNECT TRACE".split()


def array(*words):
    out = b"*%d\r\n" % len(words)
    for word in words:
        out += b"$%d\r\n%s\r\n" % (len(word), word.encode())
    return out


# What would be seen if any of it were executed.
ATTACK = (b"POOL CREATE stolen RANGE 1 9\r\n" + array("POOL", "CREATE", "stolen", "RANGE", "1", "9") +
          b"RULE SET stolen t\r\n" + array("RULE", "SET", "stolen", "t"))


class Foreign(Case):
    def counted(self):
        return int(re.search(r"foreign_clients_dropped:(\d+)", self.server.cli("INFO"))[1])

    def nothing_was_done(self):
        self.assertEqual(pairs(self.do("RULE", "LIST"))["rules"], [])
        self.assertNotIn("stolen", str(self.do("POOL", "LIST")))

    def ends(self, *parts):
        """All replies until the server closes; what it does not read may reset the connection."""
        got = b""
        with self.server.connect() as s:
            try:
                for part in parts:
                    s.sendall(part)
                got = receive_until(s, b"nothing")
            except (ConnectionResetError, BrokenPipeError):
                pass
        self.nothing_was_done()
        return got

    def hung_up(self, *parts):
        before = self.counted()
        self.assertEqual(self.ends(*parts), b"", parts)
        self.assertEqual(self.counted(), before + 1, parts)

    def test_every_method_of_http(self):
        for method in METHODS + [m.lower() for m in METHODS] + ["Get"]:
            head = method.encode() + b" / HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\n"
            self.hung_up(head + ATTACK)
            self.hung_up(b"\r\n\n  \r\n" + head + ATTACK)  # what stands before it does not help
            self.hung_up(head[:len(method) + 1])           # and the line need not end

    def test_a_request_in_pieces(self):
        for cut in range(1, 8):
            data = b"POST / HTTP/1.1\r\nHost: x\r\n\r\n" + ATTACK
            self.hung_up(data[:cut], data[cut:])
        self.hung_up(b"Host:", b" x\r\n" + ATTACK)

    def test_headers_and_other_protocols(self):
        for start in (b"Host: x\r\n", b"host:\r\n", b"X-Header: PING\r\n", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
                      b"HTTP/1.1 200 OK\r\n", b"\x16\x03\x01\x02\x00\x01\x00", b"\x80\x2e\x01", b"\x00\n",
                      b"SSH-2.0-OpenSSH_9\r\n", b"{\"jsonrpc\":1}\r\n", b"$4\r\nPING\r\n", b"+OK\r\n",
                      b"------WebKitFormBoundary\r\n", b"PING \x1b[2J\r\n", b"a=1&b=2\r\n"):
            self.hung_up(start + ATTACK)

    def test_after_good_commands_too(self):
        before = self.counted()
        got = self.ends(array("PING") + b"POST / HTTP/1.1\r\n" + ATTACK)
        self.assertIn(got, (b"", b"+PONG\r\n"))
        self.assertEqual(self.counted(), before + 1)

    def test_a_line_that_is_no_command_ends_the_connection(self):
        for start in (b"EHLO x", b"USER root", b"BREW /pot HTCPCP/1.0", b"POOL", b"POOL NONE",
                      b"LEASE"):
            got = self.ends(start + b"\r\n" + ATTACK)
            self.assertTrue(got == b"" or got.startswith(b"-ERR"), got)
            self.assertLessEqual(got.count(b"\r\n"), 1, got)

    def test_lines_of_text_only_read(self):
        for line in ("POOL CREATE stolen RANGE 1 9", "ALLOC p h", "RULE SET stolen t", "SNAPSHOT", "TICK",
                     "SENSOR RESTART s", "CLIENT KILL ID 1", "EMIT a.b.c {}"):
            got = self.ends(line.encode() + b"\r\n" + ATTACK)
            self.assertIn(got[:5], (b"", b"-ERR "))
        with self.server.connect() as s:
            s.sendall(b"PING\r\nCLIENT ID\nPOOL LIST\r\nPOOL INFO none\r\nINFO server\r\nPING end\r\n")
            got = receive_until(s, b"$3\r\nend\r\n")
            self.assertTrue(got.startswith(b"+PONG\r\n:") and b"-POOL_NOTFOUND" in got, got)

    def test_redis_benchmark_pings_by_line(self):
        out = subprocess.run(["redis-benchmark", "-p", str(self.server.port), "-t", "ping_inline,ping_mbulk",
                              "-n", "100", "-q"], stdout=subprocess.PIPE, check=True).stdout.decode()
        self.assertIn("PING_INLINE: ", out)
        self.assertIn("PING_MBULK: ", out)


class Told(Case):
    def test_the_log_names_the_client(self):
        with self.server.connect() as s:
            port = s.getsockname()[1]
            s.sendall(b"GET / HTTP/1.1\r\n\r\n")
            self.assertEqual(receive_until(s, b"nothing"), b"")
        log = text_of(self.server.log.name)
        self.assertRegex(log, r"event=client_dropped id=\d+ reason=foreign addr=127\.0\.0\.1:%d\n" % port)
        url = "http://127.0.0.1:%d/metrics" % self.server.http_port
        with urllib.request.urlopen(url) as page:
            self.assertRegex(page.read().decode(),
                             r'tenure_server_clients_dropped_total\{reason="foreign"\} [1-9]')


class HttpPort(Case):
    """Over HTTP, a page from elsewhere is recognized by the headers of its browser."""

    def ask(self, headers, body='{"trigger": "t"}', path="/v1/rules/stolen", method="PUT"):
        connection = http.client.HTTPConnection("127.0.0.1", self.server.http_port)
        connection.request(method, path, body, headers)
        status = connection.getresponse().status
        connection.close()
        self.assertEqual(pairs(self.do("RULE", "LIST"))["rules"], [])
        return status

    def test_pages_from_elsewhere(self):
        json_type = {"Content-Type": "application/json"}
        host = "127.0.0.1:%d" % self.server.http_port
        for said in ({"Origin": "http://evil.example"}, {"Origin": "null"}, {"Origin": "http://localhost:1"},
                     {"Sec-Fetch-Site": "cross-site"}, {"Sec-Fetch-Site": "same-site"},
                     {"Origin": "http://" + host, "Sec-Fetch-Site": "cross-site"}):
            self.assertEqual(self.ask({**json_type, **said}), 403, said)
        self.assertEqual(self.ask({"Host": "evil.example", **json_type}), 421)
        self.assertEqual(self.ask({"Content-Type": "text/plain"}), 415)
        upgrade = {"Upgrade": "websocket", "Connection": "Upgrade", "Origin": "http://evil.example",
                   "Sec-WebSocket-Key": base64.b64encode(b"x" * 16).decode(), "Sec-WebSocket-Version": "13"}
        self.assertEqual(self.ask(upgrade, None, "/v1/rules/stolen", "GET"), 404)


PAGE = """<!doctype html><title>working</title><body><script>
const body = %(body)s;
const frame = document.createElement("iframe");
frame.name = "sink";
document.body.append(frame);
function post(at, enctype) {
  const form = document.createElement("form"), field = document.createElement("textarea");
  Object.assign(form, {method: "post", action: at, enctype, target: "sink"});
  field.name = "a";
  field.value = body;
  form.append(field);
  document.body.append(form);
  const loaded = new Promise((done) => { frame.onload = done; });  // an error page fires it, too
  form.submit();
  return loaded;
}
const image = (url) => new Promise((done) => {
  const i = new Image();
  i.onload = i.onerror = done;
  i.src = url;
});
const socket = (at) => new Promise((done) => {
  const s = new WebSocket(at.replace("http", "ws"));
  s.onopen = () => s.send(body);
  s.onclose = done;
});
async function attack(at) {
  for (const mode of ["no-cors", "cors"]) {
    const how = {method: "POST", mode, headers: {"Content-Type": "text/plain"}, body};
    await fetch(at, how).catch(() => 0);
  }
  await fetch(at, {method: "POST", mode: "no-cors", body: new Blob([body])}).catch(() => 0);
  navigator.sendBeacon(at, body);
  await image(at + "?" + encodeURIComponent(body));
  await image(at.replace("http", "https"));
  await socket(at);
  await post(at, "text/plain");
  await post(at, "multipart/form-data");
  await post(at, "application/x-www-form-urlencoded");
}
(async () => {
  for (const host of ["127.0.0.1", "localhost", "evil.example"]) {
    await attack("http://" + host + ":%(port)d/");
  }
  document.title = "over";
})();
</script>"""


@unittest.skipUnless(CHROMIUM, "Chromium is not installed")
class HostilePage(Case):
    def attack(self):
        """A page of another origin that tries to have the server start a program."""
        self.mark = os.path.join(self.server.data, "hacked")
        spec = json.dumps({"command": ["/usr/bin/touch", self.mark], "settle_seconds": 0})
        words = ("SENSOR", "SET", "stolen", "t", spec), ("RULE", "SET", "stolen", "t")
        lines = "SENSOR SET stolen t '%s'\r\nRULE SET stolen t\r\n" % spec
        body = "\r\n" + lines + "".join(array(*w).decode() for w in words)
        page = (PAGE % {"port": self.server.port, "body": json.dumps(body)}).encode()

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self):
                self.send_response(200)
                self.send_header("Content-Type", "text/html")
                self.end_headers()
                self.wfile.write(page)

            def log_message(self, *_):
                pass
        elsewhere = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.addCleanup(elsewhere.server_close)
        threading.Thread(target=elsewhere.serve_forever, daemon=True).start()
        self.addCleanup(elsewhere.shutdown)
        # A name of the attacker's that resolves to us: Chromium sends other headers to it.
        browser = Browser("--host-resolver-rules=MAP *.example 127.0.0.1")
        self.addCleanup(browser.close)
        browser.go("http://localhost:%d/" % elsewhere.server_address[1])
        until(lambda: browser.value("document.title") == "over", "the page to do its worst")

    def test_a_web_page_cannot_have_anything_executed(self):
        self.attack()
        self.assertEqual(pairs(self.do("SENSOR", "LIST"))["sensors"], [])
        self.assertEqual(pairs(self.do("RULE", "LIST"))["rules"], [])
        self.assertFalse(os.path.exists(self.mark))
        info = self.server.cli("INFO")
        # Each request of the page came here, and each was hung up on; ours is the only command.
        self.assertGreaterEqual(int(re.search(r"foreign_clients_dropped:(\d+)", info)[1]), 8)
        self.assertNotIn("SENSOR|SET", info.upper())
        self.assertNotIn("cmdstat_rule|set", info)


if __name__ == "__main__":
    unittest.main()
