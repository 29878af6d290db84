#!/usr/bin/env python3
"""A sensor to try and to copy from: emits an event every N seconds until it is told to stop.

    interval-sensor.py SECONDS

Everything else it finds in its environment, where Tenure puts it: the server's address (TENURE_API_URL),
the trigger that it serves (TENURE_TRIGGER) and the token that allows it to, in TENURE_TOKEN or in the
variable that the sensor's description names as token_env (TENURE_TOKEN_ENV). A token expires,
so it is exchanged for a fresh one when a fifth of its life is left. One that is refused is dead:
the sensor was stopped and somebody else may run in its place, so there is nothing to do but to leave.
"""
import base64
import json
import os
import signal
import sys
import threading
import time
import urllib.error
import urllib.request

URL = os.environ["TENURE_API_URL"]
TRIGGER = os.environ["TENURE_TRIGGER"]
TOKEN = os.environ[os.environ.get("TENURE_TOKEN_ENV", "TENURE_TOKEN")]

stopping = threading.Event()


def say(text):
    print(time.strftime("%H:%M:%S"), text, flush=True)


def post(path, token, body):
    request = urllib.request.Request(URL + path, json.dumps(body).encode(), method="POST", headers={
        "Content-Type": "application/json", "Authorization": "Bearer " + token})
    with urllib.request.urlopen(request, timeout=10) as answer:
        return json.load(answer)


class Token:
    """The token, and when to ask for the next one."""

    def __init__(self, text):
        claims = text.split(".")[1]
        claims = json.loads(base64.urlsafe_b64decode(claims + "=" * (-len(claims) % 4)))
        self.text, self.name = text, claims["jti"]
        self.refresh_at = time.monotonic() + 0.8 * (claims["exp"] - time.time())

    def fresh(self):
        if time.monotonic() < self.refresh_at:
            return self
        token = Token(post("/auth/refresh", self.text, {})["token"])
        say("token refreshed")
        return token


def main():
    every = float(sys.argv[1]) if len(sys.argv) > 1 else 5.0
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stopping.set())
    token = Token(TOKEN)
    say("started; an event of %s every %g s; token %s" % (TRIGGER, every, token.name))
    count = 0
    while not stopping.is_set():
        count += 1
        try:
            token = token.fresh()
            event = post("/v1/events/emit", token.text,
                         {"trigger_type": TRIGGER, "payload": {"count": count}})
            say("event %d emitted: %s" % (count, event["id"]))
        except urllib.error.HTTPError as refusal:
            if refusal.code in (401, 403):
                say("refused: %s" % refusal.read().decode(errors="replace"))
                return 1
            say("not emitted: %s" % refusal)
        except OSError as failure:  # the server restarts: it will be back, or will have ended us
            say("not emitted: %s" % failure)
        stopping.wait(every)
    say("stopped after %d events" % count)
    return 0


if __name__ == "__main__":
    sys.exit(main())
