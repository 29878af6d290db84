"""A stand-in for Attune's API: accepts events from sensors with tokens of Tenure. It keeps no list of
tokens: it asks Tenure whether a token is valid, and forwards a refresh. Started by a test, on a free port."""
import http.server
import json
import threading
import urllib.error
import urllib.request

from harness import PATIENCE


class Api(http.server.ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, tenure):
        super().__init__(("127.0.0.1", 0), Handler)
        self.tenure = tenure  # where Tenure's HTTP is
        self.port = self.server_address[1]
        self.events, self.refused = [], 0
        self.thread = threading.Thread(target=self.serve_forever)
        self.thread.start()

    def close(self):
        self.shutdown()
        self.thread.join()
        self.server_close()


class Handler(http.server.BaseHTTPRequestHandler):
    def log_message(self, *_):
        pass

    def answer(self, status, body):
        data = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def ask(self, path, body, **headers):
        request = urllib.request.Request(self.server.tenure + path, json.dumps(body).encode(),
                                         method="POST", headers=headers)
        with urllib.request.urlopen(request, timeout=PATIENCE) as answer:
            return json.load(answer)

    def do_GET(self):
        self.answer(200 if self.path == "/health" else 404, {})

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        bearer = self.headers["Authorization"]
        if self.path == "/api/v1/auth/refresh":
            fresh = self.ask("/auth/refresh", {}, Authorization=bearer)
            self.answer(200, {"token": fresh["token"], "expires_at": str(fresh["expires_at"])})
            return
        claims = self.ask("/auth/introspect", {"token": bearer.split(" ", 1)[1]})
        if not claims["active"]:
            self.server.refused += 1
            self.answer(401, {"error": claims["reason"]})
        elif body["trigger_ref"] not in claims["trigger_types"]:
            self.answer(403, {"error": "not for this trigger"})
        else:
            self.server.events.append((claims["sub"], body["trigger_ref"], body["payload"]))
            self.answer(201, {"data": {"id": len(self.server.events)}})
