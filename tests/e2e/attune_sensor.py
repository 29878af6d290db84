#!/usr/bin/env python3
"""A sensor like those of Attune, which does not depend on Tenure: its token, the address of Attune's API and
its own name come from the environment. It ticks, posts events, and asks for a fresh token regularly."""
import json
import os
import signal
import sys
import threading
import urllib.request

API = os.environ["ATTUNE_API_URL"].rstrip("/")
REF = os.environ["ATTUNE_SENSOR_REF"]
TRIGGER = "core.intervaltimer"
REFRESH_EVERY = 5  # ticks


def post(path, token, body):
    request = urllib.request.Request(API + path, json.dumps(body).encode(), method="POST", headers={
        "Content-Type": "application/json", "Authorization": "Bearer " + token})
    with urllib.request.urlopen(request, timeout=30) as answer:
        return json.load(answer)


def main():
    stop = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stop.set())
    token = os.environ["ATTUNE_API_TOKEN"]
    urllib.request.urlopen(API + "/health", timeout=30).close()
    print("%s: started" % REF, flush=True)
    tick = 0
    while not stop.wait(0.05):
        tick += 1
        if tick % REFRESH_EVERY == 0:
            token = post("/api/v1/auth/refresh", token, {})["token"]
            print("%s: token refreshed" % REF, flush=True)
        event = post("/api/v1/events", token, {"trigger_ref": TRIGGER, "payload": {"tick": tick}})
        print("%s: tick %d is event %d" % (REF, tick, event["data"]["id"]), flush=True)
    print("%s: stopped" % REF, flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
