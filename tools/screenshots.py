#!/usr/bin/env python3
"""The pictures of the web page in docs/pictures: make screenshots.

Starts a server with data that resembles a small installation, lets it work until its history has a shape, and takes four
pictures with Chromium: the pools and one pool, each wide and as on a phone, in light and in dark. pngquant makes them small.
The history has one sample a minute, so this takes some minutes (MINUTES=12)."""
from __future__ import annotations

import json
import os
import random
import socket
import subprocess
import sys
import threading
import time
from typing import Any

SOURCE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, os.path.join(SOURCE, "tests", "e2e"))

from browser import Browser  # noqa: E402  pylint: disable=wrong-import-position
from harness import Server, pairs, until  # noqa: E402  pylint: disable=wrong-import-position

TOTAL_MOST = 400 * 1000  # bytes of the four together
Picture = tuple[str, str, int, int, bool]  # name, view, width, height, whether dark
PICTURES: tuple[Picture, ...] = (
    ("pools-light", "#/", 1440, 1000, False), ("pool-dark", "#/pool/gpus", 1440, 1000, True),
    ("pools-dark-phone", "#/", 390, 844, True), ("pool-light-phone", "#/pool/console-ports", 390, 844, False))


def furnish(client: Any) -> None:
    do = client.execute_command
    do("POOL", "CREATE", "console-ports", "RANGE", 40000, 40199, "LEASE", "2m", "EXCLUDE", "40100-40109")
    do("POOL", "CREATE", "gpus", "SET", "COOLDOWN", 20)
    do("POOL", "ADD", "gpus", *("gpu-%02d" % i for i in range(32)))
    do("POOL", "CREATE", "addresses", "FORMAT", "ipv4", "RANGE", "10.4.0.2", "10.4.3.254", "LEASE", "12h")
    do("POOL", "CREATE", "devices", "RANGE", 1, 5000, "STICKY", "yes", "LEASE", "30d")
    do("POOL", "CREATE", "vlans", "RANGE", 100, 499, "SCOPED", "yes")
    do("POOL", "CREATE", "build-slots", "RANGE", 1, 12, "LEASE", "10m")
    for scope in ("berlin", "lyon", "oslo"):
        for i in range({"berlin": 210, "lyon": 90, "oslo": 30}[scope]):
            do("ALLOC", "vlans@" + scope, "switch-%d" % i)
    for i in range(700):
        do("ALLOC", "addresses", "vm/%04d" % i)
    for i in range(1900):
        do("ALLOC", "devices", "sensor-board-%04d" % i)
    do("SENSOR", "SET", "core.interval_timer", "core.tick", json.dumps({"command": ["/bin/sleep", "100000"], "settle_seconds": 0}))
    do("RULE", "SET", "every-minute", "core.tick")


class Work:
    """Holders that allocate and release values."""

    def __init__(self, client: Any) -> None:
        self.client = client
        self.random = random.Random(7)
        self.held: dict[str, list[tuple[str, str, str]]] = {"gpus": [], "console-ports": [], "build-slots": []}
        self.number = 0

    def take(self, pool: str, holder: str) -> None:
        try:
            got = pairs(self.client.execute_command("ALLOC", pool, holder))
            self.held[pool].append((got["lease"], holder, got["epoch"]))
        except Exception:  # it is full: a refusal for the chart
            return

    def end(self, pool: str) -> None:
        if self.held[pool]:
            lease, holder, epoch = self.held[pool].pop(self.random.randrange(len(self.held[pool])))
            try:
                self.client.execute_command("RELEASE", lease, holder, epoch)
            except Exception:  # it has expired
                return

    def step(self, share: float) -> None:
        """`share`: of the whole time; the pools fill up."""
        wanted = {"gpus": 10 + int(20 * share), "console-ports": 60 + int(115 * share), "build-slots": 12}
        for pool, count in wanted.items():
            for _ in range(self.random.randrange(4)):
                self.number += 1
                if len(self.held[pool]) < count or self.random.random() < 0.2:
                    self.take(pool, "job/%d" % self.number)
                else:
                    self.end(pool)
            if self.random.random() < 0.3:
                self.end(pool)


def wait_in_line(server: Any) -> list[socket.socket]:
    """Two clients that wait for GPUs, as long as this runs."""
    ask = []
    for holder in ("training/llm-7", "training/vision-2"):
        s = server.connect()
        words = ("ALLOC", "gpus", holder, "COUNT", "8", "WAIT", "3600")
        s.sendall(("*%d\r\n" % len(words) + "".join("$%d\r\n%s\r\n" % (len(word), word) for word in words)).encode())
        ask.append(s)
    return ask


def take(browser: Any, server: Any, picture: Picture, out: str) -> int:
    name, view, width, height, dark = picture
    browser.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=width < 600)
    browser.call("Emulation.setScrollbarsHidden", hidden=True)
    browser.go("about:blank")
    browser.go("http://127.0.0.1:%d/%s" % (server.http_port, view))
    until(lambda: int(browser.value("Number((document.body || {dataset: {}}).dataset.refreshed || 0)")) >= 6, "refreshed")
    path = os.path.join(out, name + ".png")
    browser.picture(path, width, height, dark)
    subprocess.run(["pngquant", "--force", "--speed", "1", "--strip", "--output", path, "256", path], check=True)
    return os.path.getsize(path)


def main() -> None:
    minutes = float(os.environ.get("MINUTES", "12"))
    out = os.path.join(SOURCE, "docs", "pictures")
    os.makedirs(out, exist_ok=True)
    server = Server()
    browser = Browser()
    try:
        with server.local() as client:
            furnish(client)
            work = Work(client)
            over = threading.Event()

            def run() -> None:
                begun = time.monotonic()
                while not over.wait(0.25):
                    work.step(min((time.monotonic() - begun) / (60 * minutes), 1))
            thread = threading.Thread(target=run)
            thread.start()
            try:
                time.sleep(60 * minutes)
                waiting = wait_in_line(server)
                total = sum(take(browser, server, picture, out) for picture in PICTURES)
                for s in waiting:
                    s.close()
            finally:
                over.set()
                thread.join()
            print("%d bytes in docs/pictures" % total)
            assert total < TOTAL_MOST, "the pictures are too large"
            assert not browser.complaints, browser.complaints
    finally:
        browser.close()
        server.remove()


if __name__ == "__main__":
    main()
