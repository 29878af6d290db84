#!/usr/bin/env python3
"""Drives clients/python/tenure.py for tests/e2e/clients_table_test.py, which describes the lines."""
import dataclasses
import json
import os
import sys
import threading
import time

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(ROOT, "clients", "python"))

import tenure  # noqa: E402

CLIENTS, HOLDS, FOLLOWERS = {}, {}, {}
OUTPUT = threading.Lock()


class Hold:
    def __init__(self, client, args):
        self.lost = threading.Event()
        self.lost_at = None
        self.held = client.hold_bundle(args.pop("holder"), args.pop("claims"), **args,
                                       on_lost=self.on_lost)

    def on_lost(self, _):
        self.lost_at = int(time.time() * 1000)
        self.lost.set()

    def state(self):
        left = self.held.remaining()
        return {"values": list(self.held.values), "lease": self.held.token.lease,
                "epoch": self.held.token.epoch, "lost": self.held.lost, "lost_at": self.lost_at,
                "held": left is None or left > 0}

    def wait(self):
        self.lost.wait()
        return self.state()


def plain(value):
    if dataclasses.is_dataclass(value):
        return {k: plain(v) for k, v in dataclasses.asdict(value).items()}
    if isinstance(value, (list, tuple)):
        return [plain(v) for v in value]
    return value


def connect(name, args):
    CLIENTS[name] = tenure.Client(args.pop("address"), **args)


def special(request, args):
    """The calls that are not methods of a client; KeyError: it is a method."""
    client = CLIENTS.get(request.get("client"))
    calls = {
        "connect": lambda: connect(request["client"], args),
        "close": lambda: CLIENTS.pop(request["client"]).close(),
        "outcome_of": lambda: tenure.outcome_of(args["result"]),
        "execute": lambda: client.execute(*args["words"]),
        "hold": lambda: HOLDS.setdefault(args.pop("name"), Hold(client, args)).state(),
        "held": lambda: HOLDS[args["name"]].state(),
        "wait_lost": lambda: HOLDS[args["name"]].wait(),
        "end_hold": lambda: HOLDS[args["name"]].held.release(),
        "follow": lambda: FOLLOWERS.update({args.pop("name"): client.follow(**args)}),
        "next_event": lambda: next(FOLLOWERS[args["name"]]),
        "end_follow": lambda: FOLLOWERS[args["name"]].close(),
        "all_leases": lambda: list(client.all_leases(**args)),
        "pools": lambda: list(client.pools()),
        "values": lambda: list(client.values(**args)),
    }
    return calls[request["call"]]()


def run(request):
    args = request.get("args", {})
    try:
        return special(request, args)
    except KeyError as missing:
        if missing.args != (request["call"],):
            raise
    method = {"import": "import_"}.get(request["call"], request["call"])
    more = args.pop("options", {})
    names = args.pop("names", [])
    if names:
        return getattr(CLIENTS[request["client"]], method)(args.pop("pool"), *names, **args)
    return getattr(CLIENTS[request["client"]], method)(**args, **more)


def outcome(error):
    for kind, name in ((tenure.Unknown, "unknown"), (tenure.Refused, "committed")):
        if isinstance(error, kind):
            return name
    return "rejected"


def answer(request):
    try:
        said = {"ok": plain(run(request))}
    except tenure.ResultError as error:
        said = {"error": {"result": error.result, "outcome": outcome(error), "facts": error.facts,
                          "logged": error.lsn is not None, "opid": error.opid}}
    except tenure.LeaseLost:
        said = {"error": {"result": "LEASE_LOST"}}
    except Exception as error:  # pylint: disable=broad-except
        said = {"error": {"result": "OTHER", "text": "%s: %s" % (type(error).__name__, error)}}
    with OUTPUT:
        print(json.dumps({"id": request["id"], **said}), flush=True)


for line in sys.stdin:
    threading.Thread(target=answer, args=(json.loads(line),), daemon=True).start()
os._exit(0)
