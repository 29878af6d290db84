"""A client for Tenure, the lease server: one file, nothing but the standard library.

    import tenure

    client = tenure.Client("127.0.0.1:7411")
    client.pool_create("ports", range=(30000, 30009), lease=60)
    with client.hold("ports", "job/42") as held:
        serve(port=int(held.value), fence=held.token)

`Client` is safe to share between threads. Its methods are the server's commands, one each: `POOL
CREATE` is `pool_create`. A write has one of three outcomes, each with its class of exceptions:

    a return value, or `Refused`   committed: it is in the log, and this is its answer
    `Rejected`                     it did not happen
    `Unknown`                      it may have happened: repeat it with the same `opid` to find out

Every write carries an operation id. When a connection is lost before the answer, the client repeats
the write with the same id, so that it happens once, and gives up after `retry_seconds`.

Times in answers are milliseconds since 1970 by the server's clock; durations in requests are
seconds.
"""
from __future__ import annotations

import collections
import functools
import hashlib
import json
import logging
import os
import random
import re
import socket
import ssl
import threading
import time as _time
import urllib.parse
import uuid
import warnings
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import (Any, Callable, ClassVar, Deque, Dict, Iterator, List, Mapping, Optional,
                    Sequence, Set, Tuple, Type, TypeVar, Union, cast)

__version__ = "0.1.0"

Value = Union[str, int]
"""A value of a pool: a number, or text as the pool writes it."""
Amount = Union[int, Sequence[Value]]
"""How much of a pool: any n, or these values."""
Claims = Union[Mapping[str, Amount], Sequence[Tuple[str, Amount]]]
"""What a bundle is made of: `{"ports": 2, "gpus": ["gpu-7"]}`."""
Meta = Union[str, Mapping[str, Any]]
"""A JSON object, or its text."""
Option = Union[str, int, float, bool, Sequence[Tuple[Value, Value]]]
"""The value of a pool's option; pairs are spans, for `exclude`."""
Range = Union[str, Tuple[Value, Value], Sequence[Tuple[Value, Value]]]
"""The values of a range: `(1, 9)`, `[(1, 9), (20, 29)]`, or text, `"1-9,20-29"` or `"10.0.0.0/24"`."""
Duration = Union[int, str]
"""Seconds, or a whole number with a unit: "90s", "15m", "12h", "30d"."""
Word = Union[str, int, bytes]
Reply = Any
"""What the server says, as it is: int, float, bool, str, None, list, dict."""

_log = logging.getLogger("tenure")
_T = TypeVar("_T")

DEFAULT_PORT = 7411
OP_WINDOW_SECONDS = 600.0  # how long the server remembers operation ids, by default
_HOPS_MAX = 3  # from node to node without a pause, while looking for the owner of the log
_CHUNK_BYTES = 32768  # of a pipeline, sent before its replies are read: the sockets can hold it
_REPLY_MAX = 1 << 26  # bytes of one reply
_LINE_MAX = 1 << 16
_DEPTH_MAX = 32  # of arrays in arrays


def _clock() -> float:
    """Seconds, including suspend, that never jump."""
    if hasattr(_time, "CLOCK_BOOTTIME"):
        return _time.clock_gettime(_time.CLOCK_BOOTTIME)
    return _time.monotonic()


# ---- Outcomes ------------------------------------------------------------------------------------


class TenureError(Exception):
    """The base class of all exceptions about the server."""


class ResultError(TenureError):
    """The server said no. `result` is the name of the reason, `facts` what it added: `retry_at`,
    `cap`, `index`, `lease`, `epoch`, `state`, `holder`, `until`, `opid_lsn`, `lsn`."""

    by_result: ClassVar[Dict[str, Type[ResultError]]] = {}

    def __init_subclass__(cls, result: Optional[str] = None, **rest: Any) -> None:
        super().__init_subclass__(**rest)
        if result is not None:
            ResultError.by_result[result] = cls

    def __init__(self, text: str, *, write: bool = False, opid: Optional[str] = None) -> None:
        super().__init__(text)
        self.text = text
        self.write = write
        self.opid = opid
        self.result = text.partition(" ")[0]
        self.facts = _facts_of(text)

    def __reduce__(self) -> Tuple[Callable[..., ResultError], Tuple[Any, ...]]:
        return error_of, (self.text, self.write, self.opid)

    def _number(self, name: str) -> Optional[int]:
        return int(self.facts[name]) if name in self.facts else None

    @property
    def lsn(self) -> Optional[int]:
        """The log position of the refusal; None: it is not in the log."""
        return self._number("lsn")

    @property
    def retry_at(self) -> Optional[int]:
        """When a value becomes free by itself, in milliseconds since 1970, if known."""
        return self._number("retry_at")


class Refused(ResultError):
    """Committed: the final answer to a write, or the answer to a read."""


class Rejected(ResultError):
    """It did not happen."""


class Unknown(ResultError):
    """The write may have happened. A repeat with the same `opid` shows it and has no second effect."""


class Unreachable(Rejected):
    """No connection, or the request was a read: nothing has happened."""


class OutcomeUnknown(Unknown):
    """The connection was lost after a write was sent, and the client could not reconnect in time."""


class LeaseLost(TenureError):
    """A held lease was lost, or its state is unknown."""


class MoveInFirst(TenureError, RuntimeError):
    """A file contains allocations that the server does not have."""


# One class for each result, to be caught by name; what is raised is also Refused, Rejected or
# Unknown. The names and texts are those of the server's one table; a test compares them.


class AlreadyExists(ResultError, result="EXISTS"):
    """it already exists"""


class NotFound(ResultError, result="NOTFOUND"):
    """no such lease, resource, rule, sensor or user"""


class Retired(ResultError, result="RETIRED"):
    """the lease has ended and is no longer in history"""


class Busy(ResultError, result="BUSY"):
    """held or cooling, or its holder is being disowned"""


class Exhausted(ResultError, result="EXHAUSTED"):
    """no free value in the pool"""


class OverQuota(ResultError, result="QUOTA"):
    """the quota of the holder in this pool, or of the user, is used up"""


class WrongState(ResultError, result="STATE"):
    """not allowed in this state of the lease"""


class WrongHolder(ResultError, result="HOLDER"):
    """another holder has this lease"""


class Stale(ResultError, result="STALE"):
    """the epoch is not current, or a newer revision is known"""


class TooLarge(ResultError, result="TOO_LARGE"):
    """it exceeds a limit"""


class BadTtl(ResultError, result="BAD_TTL"):
    """the ttl is zero or above the pool's cap"""


class BadValue(ResultError, result="BAD_VALUE"):
    """not a value of this pool, or named twice"""


class BadName(ResultError, result="BAD_NAME"):
    """a name is empty, too long or has invalid characters"""


class BadPolicy(ResultError, result="BAD_POLICY"):
    """the pool's options contradict each other"""


class BadRequest(ResultError, result="BAD_REQUEST"):
    """the request breaks a rule that no state could satisfy"""


class Conflict(ResultError, result="CONFLICT"):
    """it conflicts with the holder's lease or with an earlier use of the operation id"""


class Denied(ResultError, result="DENIED"):
    """needs the lease's own user or operator rights"""


class NotYet(ResultError, result="NOT_YET"):
    """the log has not reached the requested position"""


class PoolNotFound(ResultError, result="POOL_NOTFOUND"):
    """no such pool"""


class PoolInUse(ResultError, result="POOL_IN_USE"):
    """the pool has live or cooling values"""


class LeasesFull(ResultError, result="LEASES_FULL"):
    """the table of live leases is full"""


class MembersFull(ResultError, result="MEMBERS_FULL"):
    """the table of held values is full"""


class OpsFull(ResultError, result="OPS_FULL"):
    """the table of remembered operations is full"""


class NamesFull(ResultError, result="NAMES_FULL"):
    """the memory for names and metadata is full"""


class PoolsFull(ResultError, result="POOLS_FULL"):
    """the table of pools is full"""


class ResourcesFull(ResultError, result="RESOURCES_FULL"):
    """the table of named resources is full"""


class DemandFull(ResultError, result="DEMAND_FULL"):
    """the table of rules or sensors is full"""


class Malformed(ResultError, result="MALFORMED"):
    """the request is malformed"""


class Overloaded(ResultError, result="OVERLOADED"):
    """too many requests are in flight; try again"""


class NoSpace(ResultError, result="NOSPACE"):
    """the disk is full; nothing was written"""


class Closed(ResultError, result="CLOSED"):
    """closing or closed"""


class Halted(ResultError, result="HALTED"):
    """storage failed; the outcome is unknown until recovery"""


class LogLost(ResultError, result="LOST"):
    """this node has lost the log; the outcome is unknown"""


class NoAuth(ResultError, result="NOAUTH"):
    """not logged in"""


class NoPerm(ResultError, result="NOPERM"):
    """the user's role, pools or holders do not allow it"""


class BadToken(ResultError, result="BAD_TOKEN"):
    """the token is missing or invalid, or its lease has ended"""


class Overdue(ResultError, result="OVERDUE"):
    """the lease's deadline has passed, and the log has not recorded it"""


class ReadOnly(ResultError, result="READONLY"):
    """another node owns the log; ask it"""


class MasterDown(ResultError, result="MASTERDOWN"):
    """no node owns the log now; try again"""


class Waiting(ResultError, result="WAITING"):
    """the lease is in line; its values are not granted yet"""


class WaitersFull(ResultError, result="WAITERS_FULL"):
    """the lines of waiting leases are full"""


class UsersFull(ResultError, result="USERS_FULL"):
    """the table of users is full"""


_REJECTED = frozenset(("NOT_YET", "OPS_FULL", "MALFORMED", "OVERLOADED", "NOSPACE", "CLOSED",
                       "NOAUTH", "NOPERM", "BAD_TOKEN", "OVERDUE", "READONLY", "MASTERDOWN"))
_UNKNOWN = frozenset(("HALTED", "LOST"))
_ELSEWHERE = frozenset(("READONLY", "MASTERDOWN"))  # this node does not own the log
_TRY_AGAIN = frozenset(("OVERLOADED", "CLOSED", "HALTED", "LOST")) | _ELSEWHERE
_TURNED_AWAY = frozenset(("OVERLOADED", "CLOSED", "NOSPACE")) | _ELSEWHERE


def outcome_of(result: str) -> str:
    """The outcome of a write with this result: committed, rejected or unknown."""
    if result in _UNKNOWN:
        return "unknown"
    known = result in ResultError.by_result or result in ("OK", "NOOP")
    return "committed" if known and result not in _REJECTED else "rejected"


def _facts_of(text: str) -> Dict[str, str]:
    """The `key=value` words at the end of a refusal."""
    facts: Dict[str, str] = {}
    for word in reversed(text.split(" ")[1:]):
        key, equals, value = word.partition("=")
        if not equals or not key.replace("_", "").isalpha() or not value:
            break
        facts[key] = urllib.parse.unquote(value) if key == "holder" else value
    return facts


_raised: Dict[Tuple[str, Type[ResultError]], Type[ResultError]] = {}


def _error_class(result: str, outcome: Type[ResultError]) -> Type[ResultError]:
    named = ResultError.by_result.get(result)
    if named is None:
        return outcome
    if (result, outcome) not in _raised:
        _raised[result, outcome] = type(named.__name__, (named, outcome), {})
    return _raised[result, outcome]


def error_of(text: str, write: bool = False, opid: Optional[str] = None) -> ResultError:
    """The exception for an error reply. A refused write without a log position was rejected before the
log, whatever its result."""
    result = text.partition(" ")[0]
    outcome: Type[ResultError] = Rejected
    if outcome_of(result) == "unknown":
        outcome = Unknown
    elif outcome_of(result) == "committed" and (not write or "lsn" in _facts_of(text)):
        outcome = Refused
    return _error_class(result, outcome)(text, write=write, opid=opid)


# ---- What is answered ----------------------------------------------------------------------------


@functools.total_ordering
@dataclass(frozen=True)
class Token:
    """A fencing token. For one value it only grows: remember the largest one and reject smaller
    ones.

    >>> Token("0-9", 2) < Token("0-10", 1) < Token("0-10", 2)
    True
    """

    lease: str
    epoch: int

    def _order(self) -> Tuple[int, int, int]:
        shard, _, lsn = self.lease.partition("-")
        return int(shard), int(lsn), self.epoch

    def __lt__(self, other: Token) -> bool:
        return self._order() < other._order()


@dataclass(frozen=True)
class Done:
    """A successful write. `result` is OK, or NOOP if there was nothing to do."""

    result: str
    lsn: int
    replayed: bool


@dataclass(frozen=True)
class Counted(Done):
    """`count`: the number of freed, released, added or removed items."""

    count: int


@dataclass(frozen=True)
class Emitted(Done):
    """An event that a sensor has emitted, by its id."""

    id: str


@dataclass(frozen=True)
class Moved(Done):
    """A lease after a write on it."""

    lease: str
    epoch: int
    state: str
    deadline: Optional[int]

    @property
    def token(self) -> Token:
        return Token(self.lease, self.epoch)


@dataclass(frozen=True)
class Grant(Moved):
    """A new lease with its values, in the order of the request, and how long it waited for them."""

    values: Tuple[str, ...]
    waited_ms: int = 0

    @property
    def value(self) -> str:
        """The only one."""
        (value,) = self.values
        return value


@dataclass(frozen=True)
class Verified:
    """A fencing token that is the live authority, at log position `lsn`."""

    lease: str
    epoch: int
    deadline: Optional[int]
    lsn: int


@dataclass(frozen=True)
class SignedToken:
    """A signed token for a lease; `id` is lease and epoch, times are seconds since 1970."""

    token: str = field(repr=False)
    id: str
    subject: str
    scope: str
    expires_in: int
    expires_at: int
    trigger_types: Tuple[str, ...]
    lsn: int


@dataclass(frozen=True)
class TokenState:
    """The state of a signed token. The claims are present if the server signed it, live or not;
    `reason` says why it is not live."""

    active: bool
    reason: Optional[str]
    id: Optional[str]
    issuer: Optional[str]
    subject: Optional[str]
    scope: Optional[str]
    issued_at: Optional[int]
    expires_at: Optional[int]
    trigger_types: Tuple[str, ...]
    lsn: Optional[int]


@dataclass(frozen=True)
class Lease:
    """A lease, as LEASE and LEASES show it; `meta` and `lsn` only the former."""

    lease: str
    epoch: int
    state: str
    reason: str
    holder: str
    user: Optional[str]
    deadline: Optional[int]
    ttl: int
    created: int
    last_seen: int
    offline_since: Optional[int]
    ended: Optional[int]
    values: Tuple[str, ...]
    pools: Tuple[str, ...]
    value_count: int
    meta: Optional[Dict[str, Any]] = None
    lsn: Optional[int] = None
    ended_lsn: Optional[int] = None
    retires: Optional[int] = None
    seconds_left: Optional[int] = None
    waiting_for: Optional[str] = None  # in line: EXHAUSTED or BUSY
    waiting_pool: Optional[str] = None
    waiting_before: Optional[int] = None  # the number of leases before it in line
    attended: Optional[bool] = None  # in line: its client is connected

    @property
    def token(self) -> Token:
        return Token(self.lease, self.epoch)


@dataclass(frozen=True)
class Pool:
    """A pool: counts, and `options` as text."""

    name: str
    size: int
    free: int
    reserved: int
    active: int
    offline: int
    revoking: int
    cooling: int
    scopes: int
    allocated_total: int
    returned_total: int
    released_total: int
    expired_total: int
    revoked_total: int
    rate_per_hour: float
    effective_lease: int
    next_free: Optional[int]
    options: Dict[str, str]
    overdue_since: Optional[int] = None
    excluded: int = 0
    waiting: int = 0
    waiting_since: Optional[int] = None


@dataclass(frozen=True)
class PoolMetrics:
    """The eleven metrics of a sticky pool; times are seconds since 1970."""

    base_lease_seconds: int
    effective_lease_seconds: int
    new_device_rate_per_hour: float
    ultra_rate_active: bool
    force_zero_lease_active: bool
    last_reclaim_count: int
    last_reclaim_at: int
    total_reclaimed: int
    allocated_count: int
    released_count: int
    updated_at: int


@dataclass(frozen=True)
class PoolHistory:
    """Samples of a pool, oldest first: for each figure one list, all of the same length. `time` is in
    milliseconds since 1970. `kept` is False if the server keeps no history of the pool."""

    step: str
    kept: bool
    figures: Dict[str, List[float]]


@dataclass(frozen=True)
class Event:
    """An event. Absent fields are None or empty. An event of the kind `lost` means that events
    before `id`, the oldest retained event, were missed."""

    id: str
    kind: str
    time: Optional[int] = None
    lease: Optional[str] = None
    epoch: Optional[int] = None
    reason: Optional[str] = None
    deadline: Optional[int] = None
    holder: Optional[str] = None
    previous_holder: Optional[str] = None
    user: Optional[str] = None
    pool: Optional[str] = None
    name: Optional[str] = None
    values: Tuple[str, ...] = ()
    pools: Tuple[str, ...] = ()
    number: Optional[int] = None
    trigger: Optional[str] = None
    payload: Optional[Dict[str, Any]] = None
    actor: Optional[str] = None
    reason_text: Optional[str] = None


@dataclass(frozen=True)
class EventPage:
    """A page of events; continue after `next` while `more` is true."""

    events: Tuple[Event, ...]
    next: str
    oldest: Optional[str]
    newest: Optional[str]
    more: bool
    lost: bool
    lsn: int


@dataclass(frozen=True)
class LeasePage:
    leases: Tuple[Lease, ...]
    cursor: str  # "0": that was the last page
    lsn: int


@dataclass(frozen=True)
class ValueRow:
    """A value of a pool; or a span of a range, `value` to `last`, whose values are all available or
    all excluded. The lease is None also for a user who may not see it."""

    value: str
    last: Optional[str]  # None in a set
    count: int
    state: str
    lease: Optional[str]
    epoch: Optional[int]
    holder: Optional[str]
    until: Optional[int]


@dataclass(frozen=True)
class ValuePage:
    values: Tuple[ValueRow, ...]
    cursor: str  # "0": that was the last page
    lsn: int


@dataclass(frozen=True)
class PoolValue:
    """One value of a pool. The last lease is that of a value that no lease holds."""

    pool: str
    value: str
    state: str
    lease: Optional[str]
    epoch: Optional[int]
    holder: Optional[str]
    until: Optional[int]
    last_lease: Optional[str]
    last_holder: Optional[str]
    last_ended: Optional[int]
    lsn: int


@dataclass(frozen=True)
class PoolPage:
    pools: Tuple[Pool, ...]
    cursor: str
    lsn: int


@dataclass(frozen=True)
class Rule:
    id: str
    trigger: str
    enabled: bool
    meta: Optional[Dict[str, Any]] = None


@dataclass(frozen=True)
class RulePage:
    rules: Tuple[Rule, ...]
    cursor: str


@dataclass(frozen=True)
class Sensor:
    """A sensor; `spec` is shown by SENSOR INFO only."""

    ref: str
    trigger: str
    enabled: bool
    wanted: bool
    active_rules: int
    spec: Optional[Dict[str, Any]] = None


@dataclass(frozen=True)
class SensorStatus:
    """A sensor and its process. Fields that do not apply are None; times are in milliseconds,
    except `token_expires_at`, in seconds."""

    ref: str
    trigger: str
    enabled: bool
    wanted: bool
    active_rules: int
    supervised: bool
    state: str
    pid: Optional[int]
    lease: Optional[str]
    epoch: Optional[int]
    starts: int
    stops: int
    crashes: int
    restarts: int
    failures: int
    emitted: int
    started: Optional[int]
    uptime_ms: int
    token_expires_at: Optional[int]
    next_in_ms: Optional[int]
    last_exit_code: Optional[int]
    last_exit_signal: Optional[int]
    last_reason: Optional[str]
    last_error: Optional[str]


@dataclass(frozen=True)
class SensorOutput:
    """The output of a sensor; `next` is the position to continue from."""

    output: str
    next: str
    more: bool
    lost: bool


@dataclass(frozen=True)
class SensorPage:
    sensors: Tuple[Sensor, ...]
    cursor: str


@dataclass(frozen=True)
class User:
    """A user; `source` is file, logged, certificate, socket or anonymous. `max_values` 0: no quota."""

    name: Optional[str]
    role: str
    source: str
    pools: Optional[str]
    holders: Optional[str]
    max_values: int
    values: int


@dataclass(frozen=True)
class UserPage:
    users: Tuple[User, ...]
    cursor: str


@dataclass(frozen=True)
class Message:
    """A message of a channel; `pattern` is set for a pattern subscription."""

    channel: str
    payload: str
    pattern: Optional[str] = None


def _maybe_int(value: Reply) -> Optional[int]:
    return None if value is None else int(value)


def _texts(values: Reply) -> Tuple[str, ...]:
    return tuple(str(v) for v in values or ())


def _object(text: Reply) -> Optional[Dict[str, Any]]:
    """Text in RESP, part of a larger object in a message."""
    if not text:
        return None
    if isinstance(text, dict):
        return text
    parsed: Dict[str, Any] = json.loads(text)
    return parsed


def _done(r: Reply) -> Done:
    return Done(r["result"], int(r["lsn"]), bool(r["replayed"]))


def _counted(name: str) -> Callable[[Reply], Counted]:
    return lambda r: Counted(r["result"], int(r["lsn"]), bool(r["replayed"]), int(r[name]))


def _emitted(r: Reply) -> Emitted:
    return Emitted(r["result"], int(r["lsn"]), bool(r["replayed"]), r["id"])


def _moved(r: Reply) -> Moved:
    return Moved(r["result"], int(r["lsn"]), bool(r["replayed"]), r["lease"], int(r["epoch"]),
                 r["state"], _maybe_int(r["deadline"]))


def _wait_seconds(words: Sequence[Word]) -> float:
    """How long the server may let the request wait in line."""
    units = {"s": 1, "m": 60, "h": 3600, "d": 86400}
    for at in range(len(words) - 1):
        if str(words[0]).upper() in ("ALLOC", "RESERVE") and str(words[at]).upper() == "WAIT":
            text = str(words[at + 1])
            number = text[:-1] if text[-1:] in units else text
            if number.isdigit():
                return float(int(number) * units.get(text[-1:], 1))
    return 0.0


def _grant(r: Reply) -> Grant:
    return Grant(r["result"], int(r["lsn"]), bool(r["replayed"]), r["lease"], int(r["epoch"]),
                 r["state"], _maybe_int(r["deadline"]), _texts(r["values"]),
                 int(r.get("waited_ms", 0)))


def _verified(r: Reply) -> Verified:
    return Verified(r["lease"], int(r["epoch"]), _maybe_int(r["deadline"]), int(r["lsn"]))


def _token(r: Reply) -> SignedToken:
    return SignedToken(r["token"], r["token_id"], r["sub"], r["scope"], int(r["expires_in"]),
                       int(r["expires_at"]), _texts(r.get("trigger_types", [])), int(r["lsn"]))


def _token_state(r: Reply) -> TokenState:
    return TokenState(bool(r["active"]), r.get("reason"), r.get("jti"), r.get("iss"), r.get("sub"),
                      r.get("scope"), _maybe_int(r.get("iat")), _maybe_int(r.get("exp")),
                      _texts(r.get("trigger_types", [])), _maybe_int(r.get("lsn")))


def _lease(r: Reply) -> Lease:
    values = _texts(r["values"])
    return Lease(r["lease"], int(r["epoch"]), r["state"], r["reason"], r["holder"],
                 r["user"] or None, _maybe_int(r["deadline"]), int(r["ttl"]), int(r["created"]),
                 int(r["last_seen"]), _maybe_int(r["offline_since"]), _maybe_int(r["ended"]),
                 values, _texts(r["pools"]), int(r.get("value_count", len(values))),
                 _object(r.get("meta")), _maybe_int(r.get("lsn")), _maybe_int(r.get("ended_lsn")),
                 _maybe_int(r.get("retires")), _maybe_int(r.get("seconds_left")),
                 r.get("waiting_for"), r.get("waiting_pool"), _maybe_int(r.get("waiting_before")),
                 r.get("attended"))


def _lease_page(r: Reply) -> LeasePage:
    return LeasePage(tuple(map(_lease, r["leases"])), str(r["cursor"]), int(r["lsn"]))


def _pool(r: Reply) -> Pool:
    options = {str(k): str(v) for k, v in r["options"].items()}
    return Pool(r["pool"], int(r["size"]), int(r["free"]), int(r["reserved"]), int(r["active"]),
                int(r["offline"]), int(r["revoking"]), int(r["cooling"]), int(r["scopes"]),
                int(r["allocated_total"]), int(r["returned_total"]), int(r["released_total"]),
                int(r["expired_total"]), int(r["revoked_total"]), float(r["rate_per_hour"]),
                int(r["effective_lease"]), _maybe_int(r["next_free"]), options,
                _maybe_int(r.get("overdue_since")), int(r.get("excluded", 0)),
                int(r.get("waiting", 0)), _maybe_int(r.get("waiting_since")))


def _value_row(r: Reply) -> ValueRow:
    return ValueRow(r["value"], r["last"], int(r["count"]), r["state"], r["lease"],
                    _maybe_int(r["epoch"]), r["holder"], _maybe_int(r["until"]))


def _value_page(r: Reply) -> ValuePage:
    return ValuePage(tuple(map(_value_row, r["values"])), str(r["cursor"]), int(r["lsn"]))


def _value(r: Reply) -> PoolValue:
    return PoolValue(r["pool"], r["value"], r["state"], r["lease"], _maybe_int(r["epoch"]),
                     r["holder"], _maybe_int(r["until"]), r["last_lease"], r["last_holder"],
                     _maybe_int(r["last_ended"]), int(r["lsn"]))


def _pool_page(r: Reply) -> PoolPage:
    return PoolPage(tuple(map(_pool, r["pools"])), str(r["cursor"]), int(r["lsn"]))


def _metrics(r: Reply) -> PoolMetrics:
    return PoolMetrics(
        int(r["base_lease_seconds"]), int(r["effective_lease_seconds"]),
        float(r["new_device_rate_per_hour"]), bool(r["ultra_rate_active"]),
        bool(r["force_zero_lease_active"]), int(r["last_reclaim_count"]),
        int(r["last_reclaim_at"]), int(r["total_reclaimed"]), int(r["allocated_count"]),
        int(r["released_count"]), int(r["updated_at"]))


def _history(r: Reply) -> PoolHistory:
    return PoolHistory(str(r["step"]), bool(r["kept"]),
                       {name: [float(value) for value in values] for name, values in r.items()
                        if isinstance(values, list)})


def _event(r: Reply) -> Event:
    if r["kind"] == "lost":
        return Event(id=r["oldest"], kind="lost")
    return Event(r["id"], r["kind"], _maybe_int(r["time"]), r.get("lease"),
                 _maybe_int(r.get("epoch")), r.get("reason"), _maybe_int(r.get("deadline")),
                 r.get("holder"), r.get("previous_holder"), r.get("user"), r.get("pool"),
                 r.get("name"), _texts(r.get("values")), _texts(r.get("pools")),
                 _maybe_int(r.get("number")), r.get("trigger"), _object(r.get("payload")),
                 r.get("actor"), r.get("reason_text"))


def _event_page(r: Reply) -> EventPage:
    return EventPage(tuple(map(_event, r["events"])), r["next"], r["oldest"], r["newest"],
                     bool(r["more"]), bool(r["lost"]), int(r["lsn"]))


def _rule(r: Reply) -> Rule:
    return Rule(r["id"], r["trigger"], bool(r["enabled"]), _object(r.get("meta")))


def _rule_page(r: Reply) -> RulePage:
    return RulePage(tuple(map(_rule, r["rules"])), str(r["cursor"]))


def _sensor(r: Reply) -> Sensor:
    return Sensor(r["ref"], r["trigger"], bool(r["enabled"]), bool(r["wanted"]),
                  int(r["active_rules"]), _object(r.get("spec")))


def _sensor_status(r: Reply) -> SensorStatus:
    return SensorStatus(
        r["ref"], r["trigger"], bool(r["enabled"]), bool(r["wanted"]), int(r["active_rules"]),
        bool(r["supervised"]), r["state"], _maybe_int(r["pid"]), r["lease"], _maybe_int(r["epoch"]),
        int(r["starts"]), int(r["stops"]), int(r["crashes"]), int(r["restarts"]),
        int(r["failures"]), int(r["emitted"]), _maybe_int(r["started"]), int(r["uptime_ms"]),
        _maybe_int(r["token_expires_at"]), _maybe_int(r["next_in_ms"]),
        _maybe_int(r["last_exit_code"]), _maybe_int(r["last_exit_signal"]), r["last_reason"],
        r["last_error"])


def _sensor_output(r: Reply) -> SensorOutput:
    return SensorOutput(r["output"], r["next"], bool(r["more"]), bool(r["lost"]))


def _user(r: Reply) -> User:
    return User(r["name"], r["role"], r["source"], r["pools"], r["holders"], r["max_values"], r["values"])


def _user_page(r: Reply) -> UserPage:
    return UserPage(tuple(map(_user, r["users"])), str(r["cursor"]))


def _sensor_page(r: Reply) -> SensorPage:
    return SensorPage(tuple(map(_sensor, r["sensors"])), str(r["cursor"]))


def _same(r: Reply) -> Reply:
    return r


def _none(r: Reply) -> None:
    return None


# ---- The commands --------------------------------------------------------------------------------

# What a lost connection means for each: a write is repeated with its operation id, a read and what
# concerns the connection are simply repeated. What is not here is not repeated.
COMMANDS: Dict[str, str] = {
    name: kind
    for kind, names in {
        "write": "ACK,ACTIVATE,ALLOC,DISOWN,EMIT,IMPORT,POOL ADD,POOL ALTER,POOL CREATE,POOL DROP,"
                 "POOL REMOVE,POOL SEED,RECLAIM,REKEY,RELEASE,RESERVE,REVOKE,RULE DELETE,"
                 "RULE DISABLE,RULE ENABLE,RULE SET,SENSOR DELETE,SENSOR DISABLE,SENSOR ENABLE,"
                 "SENSOR SET,SWEEP,TICK,TOKEN REVOKE,TOUCH,USER ADD,USER DELETE,USER SET",
        "read": "EVENTS,LEASE,LEASES,NODE LIST,POOL HISTORY,POOL INFO,POOL LIST,POOL METRICS,POOL VALUES,RULE INFO,"
                "RULE LIST,"
                "SENSOR HEARTBEAT,SENSOR INFO,SENSOR LIST,SENSOR LOGS,SENSOR RULES,SENSOR STATUS,"
                "TOKEN INTROSPECT,TOKEN ISSUE,TOKEN KEYS,TOKEN REFRESH,TOKEN SENSOR,USER LIST,"
                "VALUE,VERIFY,WHOAMI",
        "connection": "AUTH,BACKUP BEGIN,BACKUP END,BACKUP READ,CLIENT GETNAME,CLIENT ID,CLIENT KILL,CLIENT LIST,CLIENT SETINFO,"
                      "CLIENT SETNAME,COMMAND,COMMAND COUNT,COMMAND DOCS,COMMAND INFO,"
                      "COMMAND LIST,CONFIG GET,ECHO,HELLO,INFO,NODE CLOSE,NODE FORGET,NODE STEP-DOWN,PING,PSUBSCRIBE,PUNSUBSCRIBE,QUIT,"
                      "READONLY,READWRITE,RESET,ROLE,SELECT,SENSOR RESET,SENSOR RESTART,"
                      "SENTINEL CKQUORUM,SENTINEL GET-MASTER-ADDR-BY-NAME,SENTINEL MASTER,"
                      "SENTINEL MASTERS,SENTINEL REPLICAS,SENTINEL SENTINELS,SENTINEL SLAVES,SNAPSHOT,"
                      "SUBSCRIBE,TIME,TOKEN ROTATE,UNSUBSCRIBE",
    }.items()
    for name in names.split(",")
}


def _kind_of(words: Sequence[Word]) -> str:
    first = [w.upper() if isinstance(w, str) else "" for w in words[:2]]
    return COMMANDS.get(" ".join(first), COMMANDS.get(first[0], "")) if first else ""


@dataclass
class _Request:
    """The words of a request. A write has its operation id at the end."""

    words: List[Word]
    kind: str = field(init=False)
    opid: Optional[str] = None

    def __post_init__(self) -> None:
        self.kind = _kind_of(self.words)
        if self.kind != "write":
            return
        if self.opid is None and len(self.words) >= 3 and self.words[-2] in ("OPID", "opid"):
            self.opid = str(self.words[-1])
            return
        self.opid = self.opid or uuid.uuid4().hex
        self.words = self.words + ["OPID", self.opid]

    def error(self, text: str) -> ResultError:
        return error_of(text, self.kind == "write", self.opid)


def _amount_words(amount: Amount) -> List[Word]:
    if isinstance(amount, int):
        return ["COUNT", amount]
    if isinstance(amount, str):
        raise TypeError("a list of values, not the text %r" % amount)
    return ["VALUES", len(amount), *amount]


def _claim_words(claims: Claims) -> List[Word]:
    words: List[Word] = []
    for pool, amount in claims.items() if isinstance(claims, Mapping) else claims:
        words += ["FROM", pool, *_amount_words(amount)]
    return words


def _json_text(value: Meta) -> str:
    if isinstance(value, str):
        return value
    return json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))


def _optional(**named: Optional[Word]) -> List[Word]:
    words: List[Word] = []
    for name, value in named.items():
        if value is not None:
            words += [name.upper(), value]
    return words


def _option_text(value: Option) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, (str, int)):
        return str(value)
    if isinstance(value, float):
        return repr(value)
    return ",".join("%s-%s" % (lo, hi) for lo, hi in value)


def _range_words(span: Range) -> List[Word]:
    if isinstance(span, str):
        return ["RANGE", span]
    if len(span) == 2 and isinstance(span[0], (str, int)):
        return ["RANGE", *cast(Tuple[Value, Value], span)]
    words: List[Word] = []
    for pair in cast(Sequence[Tuple[Value, Value]], span):
        words += ["RANGE", *pair]
    return words


def _policy_words(span: Optional[Range], named: bool,
                  options: Mapping[str, Option]) -> List[Word]:
    words: List[Word] = _range_words(span) if span is not None else []
    words += ["SET"] if named else []
    for name, value in options.items():
        words += [name.upper(), _option_text(value)]
    return words


class Commands:
    """The server's commands. Writes take `opid`, reads `fence`: the minimum log position of the
    answer."""

    def execute(self, *words: Word, opid: Optional[str] = None) -> Reply:
        """Sends any command as words; returns the raw reply. A write gets an operation id."""
        raise NotImplementedError

    def _write(self, parse: Callable[[Reply], _T], opid: Optional[str], *words: Word) -> _T:
        request = _Request(list(words), opid=opid)
        return _parsed(parse, request, self.execute(*words, opid=request.opid))

    def _read(self, parse: Callable[[Reply], _T], fence: Optional[int], *words: Word) -> _T:
        request = _Request([*words, *_optional(fence=fence)])
        return _parsed(parse, request, self.execute(*request.words))

    # Pools

    def pool_create(self, pool: str, *, range: Optional[Range] = None,
                    set: bool = False, reason: Optional[str] = None,
                    opid: Optional[str] = None, **options: Option) -> Done:
        """Creates a range of numbers or, with `set`, a set of names; options by name: `lease=60`."""
        return self._write(_done, opid, "POOL", "CREATE", pool,
                           *_policy_words(range, set, options), *_optional(reason=reason))

    def pool_alter(self, pool: str, *, range: Optional[Range] = None,
                   reason: Optional[str] = None, opid: Optional[str] = None,
                   **options: Option) -> Done:
        return self._write(_done, opid, "POOL", "ALTER", pool,
                           *_policy_words(range, False, options), *_optional(reason=reason))

    def pool_drop(self, pool: str, *, reason: Optional[str] = None,
                  opid: Optional[str] = None) -> Done:
        return self._write(_done, opid, "POOL", "DROP", pool, *_optional(reason=reason))

    def pool_add(self, pool: str, *names: str, reason: Optional[str] = None,
                 opid: Optional[str] = None) -> Counted:
        return self._write(_counted("added"), opid, "POOL", "ADD", pool, *names,
                           *_optional(reason=reason))

    def pool_remove(self, pool: str, *names: str, reason: Optional[str] = None,
                    opid: Optional[str] = None) -> Counted:
        return self._write(_counted("removed"), opid, "POOL", "REMOVE", pool, *names,
                           *_optional(reason=reason))

    def pool_seed(self, pool: str, *, given: Optional[int] = None,
                  reclaimed: Optional[int] = None, opid: Optional[str] = None) -> Done:
        """Sets the counters of a pool from another system."""
        return self._write(_done, opid, "POOL", "SEED", pool,
                           *_optional(given=given, reclaimed=reclaimed))

    def pool_history(self, pool: str, *, step: Optional[str] = None, count: Optional[int] = None,
                     fence: Optional[int] = None) -> PoolHistory:
        """A day of minutes, or with `step="hour"` 30 days of hours."""
        return self._read(_history, fence, "POOL", "HISTORY", pool, *_optional(step=step, count=count))

    def pool_info(self, pool: str, *, fence: Optional[int] = None) -> Pool:
        return self._read(_pool, fence, "POOL", "INFO", pool)

    def pool_list(self, *, cursor: Optional[str] = None, count: Optional[int] = None,
                  fence: Optional[int] = None) -> PoolPage:
        return self._read(_pool_page, fence, "POOL", "LIST",
                          *_optional(cursor=cursor, count=count))

    def pool_metrics(self, pool: str, *, fence: Optional[int] = None) -> PoolMetrics:
        return self._read(_metrics, fence, "POOL", "METRICS", pool)

    def pool_values(self, pool: str, *, state: Optional[str] = None, cursor: Optional[str] = None,
                    count: Optional[int] = None, fence: Optional[int] = None) -> ValuePage:
        """A page of its values with their states; see `values`."""
        return self._read(_value_page, fence, "POOL", "VALUES", pool,
                          *_optional(state=state, cursor=cursor, count=count))

    def values(self, pool: str, *, state: Optional[str] = None) -> Iterator[ValueRow]:
        """All values of a pool, page after page; those of a range that are free as spans."""
        cursor: Optional[str] = None
        while cursor != "0":
            page = self.pool_values(pool, state=state, cursor=cursor)
            yield from page.values
            cursor = page.cursor

    def value(self, value: str, *, fence: Optional[int] = None) -> PoolValue:
        """One value, held or free: `ports/30000`."""
        return self._read(_value, fence, "VALUE", value)

    def pools(self) -> Iterator[Pool]:
        """All pools, page after page."""
        cursor: Optional[str] = None
        while cursor != "0":
            page = self.pool_list(cursor=cursor)
            yield from page.pools
            cursor = page.cursor

    # Leases

    def alloc(self, pool: str, holder: Optional[str] = None, *, count: Optional[int] = None,
              values: Optional[Sequence[Value]] = None, ttl: Optional[Duration] = None,
              wait: Optional[Duration] = None, meta: Optional[Meta] = None,
              opid: Optional[str] = None) -> Grant:
        """Allocates values of one pool. Without a holder, the server derives it from `meta`. `wait`:
        how long to wait in line if no value is free."""
        if count is not None and values is not None:
            raise TypeError("either count or values")
        amount = values if values is not None else count
        if holder is not None and holder.upper() == "FROM":  # would be read as the other form
            return self.alloc_bundle(holder, {pool: 1 if amount is None else amount}, ttl=ttl,
                                     wait=wait, meta=meta, opid=opid)
        text = None if meta is None else _json_text(meta)
        return self._write(_grant, opid, "ALLOC", pool, "*" if holder is None else holder,
                           *([] if amount is None else _amount_words(amount)),
                           *_optional(ttl=ttl, wait=wait, meta=text))

    def alloc_bundle(self, holder: str, claims: Claims, *, ttl: Optional[Duration] = None,
                     wait: Optional[Duration] = None, meta: Optional[Meta] = None,
                     opid: Optional[str] = None) -> Grant:
        """Allocates values of several pools, all or none: `{"ports": 2, "gpus": ["gpu-7"]}`."""
        text = None if meta is None else _json_text(meta)
        return self._write(_grant, opid, "ALLOC", holder, *_claim_words(claims),
                           *_optional(ttl=ttl, wait=wait, meta=text))

    def reserve(self, holder: str, claims: Claims, *, ttl: Duration,
                wait: Optional[Duration] = None, meta: Optional[Meta] = None,
                opid: Optional[str] = None) -> Grant:
        text = None if meta is None else _json_text(meta)
        return self._write(_grant, opid, "RESERVE", holder, "TTL", ttl, *_claim_words(claims),
                           *_optional(wait=wait, meta=text))

    def activate(self, lease: str, holder: str, epoch: int, *,
                 opid: Optional[str] = None) -> Moved:
        return self._write(_moved, opid, "ACTIVATE", lease, holder, epoch)

    def touch(self, lease: str, epoch: int, *, ttl: Optional[Duration] = None,
              meta: Optional[Meta] = None, opid: Optional[str] = None) -> Moved:
        text = None if meta is None else _json_text(meta)
        return self._write(_moved, opid, "TOUCH", lease, epoch, *_optional(ttl=ttl, meta=text))

    def release(self, lease: str, holder: str, epoch: int, *, now: bool = False,
                reason: Optional[str] = None, opid: Optional[str] = None) -> Moved:
        """`now`: end the lease even in a sticky pool, which would otherwise keep it for the holder."""
        return self._write(_moved, opid, "RELEASE", lease, holder, epoch,
                           *(["NOW"] if now else []), *_optional(reason=reason))

    def revoke(self, lease: str, *, after: Optional[Duration] = None,
               reason: Optional[str] = None, opid: Optional[str] = None) -> Moved:
        return self._write(_moved, opid, "REVOKE", lease, *_optional(after=after, reason=reason))

    def ack(self, lease: str, holder: str, epoch: int, *, opid: Optional[str] = None) -> Moved:
        """Confirms that the holder of a revoked lease has stopped; `epoch` is the one before the
        revoke."""
        return self._write(_moved, opid, "ACK", lease, holder, epoch)

    def reclaim(self, lease: str, *, reason: Optional[str] = None,
                opid: Optional[str] = None) -> Moved:
        return self._write(_moved, opid, "RECLAIM", lease, *_optional(reason=reason))

    def rekey(self, lease: str, epoch: int, holder: str, *, reason: Optional[str] = None,
              opid: Optional[str] = None) -> Moved:
        return self._write(_moved, opid, "REKEY", lease, epoch, holder, *_optional(reason=reason))

    def import_(self, pool: str, holder: str, values: Sequence[Value], *,
                deadline: Optional[int] = None, created: Optional[int] = None,
                seen: Optional[int] = None, offline: Optional[int] = None,
                meta: Optional[Meta] = None, opid: Optional[str] = None) -> Moved:
        """Imports a lease that another system granted; times in milliseconds since 1970."""
        text = None if meta is None else _json_text(meta)
        return self._write(_moved, opid, "IMPORT", pool, holder, *_amount_words(values),
                           *_optional(deadline=deadline, created=created, seen=seen,
                                      offline=offline, meta=text))

    def disown(self, holder: str, *, pool: Optional[str] = None,
               reason: Optional[str] = None, opid: Optional[str] = None) -> Counted:
        return self._write(_counted("released"), opid, "DISOWN", holder,
                           *_optional(pool=pool, reason=reason))

    def sweep(self, *, pool: Optional[str] = None, opid: Optional[str] = None) -> Counted:
        return self._write(_counted("freed"), opid, "SWEEP", *_optional(pool=pool))

    def tick(self, *, opid: Optional[str] = None) -> Done:
        return self._write(_done, opid, "TICK")

    def verify(self, lease: str, epoch: int, *, fence: Optional[int] = None) -> Verified:
        """Returns if the fencing token is the live authority, else raises the refusal."""
        return self._read(_verified, fence, "VERIFY", lease, epoch)

    def lease(self, lease: str, *, fence: Optional[int] = None) -> Lease:
        """Reads a lease by its id or by one of its values: `ports/30000`."""
        return self._read(_lease, fence, "LEASE", lease)

    def leases(self, *, pool: Optional[str] = None, holder: Optional[str] = None,
               state: Optional[str] = None, cursor: Optional[str] = None,
               count: Optional[int] = None, fence: Optional[int] = None) -> LeasePage:
        """A page of them; see `all_leases`."""
        return self._read(_lease_page, fence, "LEASES",
                          *_optional(pool=pool, holder=holder, state=state, cursor=cursor,
                                     count=count))

    def all_leases(self, *, pool: Optional[str] = None, holder: Optional[str] = None,
                   state: Optional[str] = None) -> Iterator[Lease]:
        """All leases, page after page, not at one moment: concurrent changes may be seen or not."""
        cursor: Optional[str] = None
        while cursor != "0":
            page = self.leases(pool=pool, holder=holder, state=state, cursor=cursor)
            yield from page.leases
            cursor = page.cursor

    def events(self, *, after: Optional[str] = None, count: Optional[int] = None,
               pool: Optional[str] = None, holder: Optional[str] = None, kind: Optional[str] = None,
               lease: Optional[str] = None, value: Optional[str] = None, actor: Optional[str] = None,
               text: Optional[str] = None, fence: Optional[int] = None) -> EventPage:
        """A page of retained events, oldest first; to follow new events: `Client.follow`."""
        return self._read(_event_page, fence, "EVENTS",
                          *_optional(after=after, count=count, pool=pool, holder=holder, kind=kind,
                                     lease=lease, value=value, actor=actor, text=text))

    # Rules and sensors

    def rule_set(self, id: str, trigger: str, *, disabled: bool = False,
                 meta: Optional[Meta] = None, reason: Optional[str] = None,
                 opid: Optional[str] = None) -> Done:
        """Without `meta`, a rule that is there keeps its own."""
        text = None if meta is None else _json_text(meta)
        return self._write(_done, opid, "RULE", "SET", id, trigger,
                           *(["DISABLED"] if disabled else []),
                           *_optional(meta=text, reason=reason))

    def rule_info(self, id: str, *, fence: Optional[int] = None) -> Rule:
        """A rule with its metadata, which lists do not show."""
        return self._read(_rule, fence, "RULE", "INFO", id)

    def rule_delete(self, id: str, *, reason: Optional[str] = None,
                    opid: Optional[str] = None) -> Done:
        return self._write(_done, opid, "RULE", "DELETE", id, *_optional(reason=reason))

    def rule_enable(self, id: str, *, reason: Optional[str] = None,
                    opid: Optional[str] = None) -> Done:
        return self._write(_done, opid, "RULE", "ENABLE", id, *_optional(reason=reason))

    def rule_disable(self, id: str, *, reason: Optional[str] = None,
                     opid: Optional[str] = None) -> Done:
        return self._write(_done, opid, "RULE", "DISABLE", id, *_optional(reason=reason))

    def rule_list(self, *, cursor: Optional[str] = None, count: Optional[int] = None,
                  fence: Optional[int] = None) -> RulePage:
        return self._read(_rule_page, fence, "RULE", "LIST",
                          *_optional(cursor=cursor, count=count))

    def sensor_set(self, ref: str, trigger: str, spec: Meta, *, disabled: bool = False,
                   reason: Optional[str] = None, opid: Optional[str] = None) -> Done:
        return self._write(_done, opid, "SENSOR", "SET", ref, trigger, _json_text(spec),
                           *(["DISABLED"] if disabled else []), *_optional(reason=reason))

    def sensor_delete(self, ref: str, *, reason: Optional[str] = None,
                      opid: Optional[str] = None) -> Done:
        return self._write(_done, opid, "SENSOR", "DELETE", ref, *_optional(reason=reason))

    def sensor_enable(self, ref: str, *, reason: Optional[str] = None,
                      opid: Optional[str] = None) -> Done:
        return self._write(_done, opid, "SENSOR", "ENABLE", ref, *_optional(reason=reason))

    def sensor_disable(self, ref: str, *, reason: Optional[str] = None,
                       opid: Optional[str] = None) -> Done:
        return self._write(_done, opid, "SENSOR", "DISABLE", ref, *_optional(reason=reason))

    def sensor_info(self, ref: str, *, fence: Optional[int] = None) -> Sensor:
        return self._read(_sensor, fence, "SENSOR", "INFO", ref)

    def sensor_list(self, *, cursor: Optional[str] = None, count: Optional[int] = None,
                    fence: Optional[int] = None) -> SensorPage:
        return self._read(_sensor_page, fence, "SENSOR", "LIST",
                          *_optional(cursor=cursor, count=count))

    def sensor_status(self, ref: str, *, fence: Optional[int] = None) -> SensorStatus:
        return self._read(_sensor_status, fence, "SENSOR", "STATUS", ref)

    def sensor_logs(self, ref: str, *, after: Optional[str] = None, count: Optional[int] = None,
                    fence: Optional[int] = None) -> SensorOutput:
        """The last `count` bytes of its output, or the bytes after a position."""
        return self._read(_sensor_output, fence, "SENSOR", "LOGS", ref,
                          *_optional(after=after, count=count))

    def sensor_reset(self, ref: str) -> str:
        """Clears its failures; returns its state."""
        return self._read(lambda r: str(r["state"]), None, "SENSOR", "RESET", ref)

    def sensor_restart(self, ref: str) -> str:
        return self._read(lambda r: str(r["state"]), None, "SENSOR", "RESTART", ref)

    def sensor_rules(self, ref: str, token: str, *, cursor: Optional[str] = None,
                     count: Optional[int] = None, fence: Optional[int] = None) -> RulePage:
        """The enabled rules of its trigger, with their metadata, for a running sensor by its
        token."""
        return self._read(_rule_page, fence, "SENSOR", "RULES", ref, token,
                          *_optional(cursor=cursor, count=count))

    def sensor_heartbeat(self, token: str, *, fence: Optional[int] = None) -> int:
        """Reports that the sensor of the token is healthy; returns when the token expires, in
        seconds."""
        return self._read(lambda r: int(r["expires_at"]), fence, "SENSOR", "HEARTBEAT", token)

    def emit(self, token: str, trigger_type: str, payload: Optional[Meta] = None, *,
             opid: Optional[str] = None) -> Emitted:
        """Emits an event of the running sensor of the token, which must include the trigger type."""
        text = None if payload is None else _json_text(payload)
        return self._write(_emitted, opid, "EMIT", token, trigger_type, *_optional(payload=text))

    # Tokens

    def token_issue(self, lease: str, epoch: int, *, ttl: Optional[Duration] = None,
                    refresh: Optional[Duration] = None, scope: Optional[str] = None,
                    fence: Optional[int] = None) -> SignedToken:
        """Issues a token for a live lease; it becomes invalid when the lease ends. A token with a ttl
        can be extended only for `refresh` seconds in total."""
        return self._read(_token, fence, "TOKEN", "ISSUE", lease, epoch,
                          *_optional(ttl=ttl, refresh=refresh, scope=scope))

    def token_sensor(self, ref: str, *, ttl: Optional[Duration] = None,
                     refresh: Optional[Duration] = None, scope: Optional[str] = None,
                     fence: Optional[int] = None) -> SignedToken:
        """Issues a token for the lease of a running sensor."""
        return self._read(_token, fence, "TOKEN", "SENSOR", ref,
                          *_optional(ttl=ttl, refresh=refresh, scope=scope))

    def token_refresh(self, token: str, *, ttl: Optional[Duration] = None,
                      fence: Optional[int] = None) -> SignedToken:
        """Exchanges a live token for one with a later expiry, within the limits of its issuer and its
        lease; the old one stays valid."""
        return self._read(_token, fence, "TOKEN", "REFRESH", token, *_optional(ttl=ttl))

    def token_introspect(self, token: str, *, fence: Optional[int] = None) -> TokenState:
        return self._read(_token_state, fence, "TOKEN", "INTROSPECT", token)

    def token_revoke(self, id: str, *, after: Optional[Duration] = None,
                     reason: Optional[str] = None, opid: Optional[str] = None) -> Moved:
        """Revokes the lease if it still has the token's epoch."""
        return self._write(_moved, opid, "TOKEN", "REVOKE", id,
                           *_optional(after=after, reason=reason))

    def token_keys(self, *, fence: Optional[int] = None) -> List[Dict[str, str]]:
        """The public keys of a JSON Web Key Set."""
        return self._read(lambda r: list(r["keys"]), fence, "TOKEN", "KEYS")

    def token_rotate(self, *, now: bool = False) -> str:
        """Creates a new signing key; returns its id. `now`: tokens of older keys are invalid."""
        return self._read(lambda r: str(r["kid"]), None, "TOKEN", "ROTATE",
                          *(["NOW"] if now else []))

    # The server

    def snapshot(self) -> None:
        self._read(_none, None, "SNAPSHOT")

    def backup_begin(self) -> Dict[str, Any]:
        """Begins a backup: its number, its log position and its files; `tenure backup` does it all."""
        return self._read(dict, None, "BACKUP", "BEGIN")

    def backup_read(self, backup: int, file: str, offset: int, count: int = 65536) -> bytes:
        """Bytes of a file of a backup from the offset on; none at its end."""
        return self._read(lambda r: str(r).encode("utf-8", "surrogateescape"), None, "BACKUP", "READ",
                          str(backup), file, str(offset), "COUNT", str(count))

    def backup_end(self, backup: int) -> None:
        self._read(_none, None, "BACKUP", "END", str(backup))

    def ping(self, message: Optional[str] = None) -> str:
        return self._read(str, None, "PING", *([] if message is None else [message]))

    def echo(self, message: str) -> str:
        return self._read(str, None, "ECHO", message)

    def time(self) -> float:
        """The server's clock, in seconds since 1970."""
        return self._read(lambda r: int(r[0]) + int(r[1]) / 1e6, None, "TIME")

    def info(self, *sections: str) -> Dict[str, str]:
        def parse(text: Reply) -> Dict[str, str]:
            lines = (line.partition(":") for line in text.splitlines() if ":" in line)
            return {name: value for name, _, value in lines}
        return self._read(parse, None, "INFO", *sections)

    def role(self) -> List[Any]:
        """Whether this node owns the log: ["master", lsn, others] or ["slave", host, port, state, lsn]."""
        return self._read(list, None, "ROLE")

    def sentinel_get_master_addr_by_name(self, name: str = "tenure") -> Optional[Tuple[str, int]]:
        """Host and port of the node that owns the log; None if no node does."""
        return self._read(lambda r: None if r is None else (r[0], int(r[1])), None,
                          "SENTINEL", "GET-MASTER-ADDR-BY-NAME", name)

    def sentinel_masters(self) -> List[Dict[str, str]]:
        return self._read(list, None, "SENTINEL", "MASTERS")

    def sentinel_master(self, name: str = "tenure") -> Dict[str, str]:
        """The node that owns the log, as Redis Sentinel shows it; so do the methods below."""
        return self._read(dict, None, "SENTINEL", "MASTER", name)

    def sentinel_replicas(self, name: str = "tenure") -> List[Dict[str, str]]:
        return self._read(list, None, "SENTINEL", "REPLICAS", name)

    def sentinel_slaves(self, name: str = "tenure") -> List[Dict[str, str]]:
        return self._read(list, None, "SENTINEL", "SLAVES", name)

    def sentinel_sentinels(self, name: str = "tenure") -> List[Dict[str, str]]:
        return self._read(list, None, "SENTINEL", "SENTINELS", name)

    def sentinel_ckquorum(self, name: str = "tenure") -> str:
        return self._read(str, None, "SENTINEL", "CKQUORUM", name)

    # Users

    def whoami(self, *, fence: Optional[int] = None) -> User:
        """The user of this client."""
        return self._read(_user, fence, "WHOAMI")

    def user_add(self, name: str, role: str, secret: str, *, pools: Optional[str] = None,
                 holders: Optional[str] = None, max_values: Optional[int] = None,
                 reason: Optional[str] = None, opid: Optional[str] = None) -> Done:
        """Adds a user; `pools` and `holders` are patterns with blanks between them."""
        return self._write(_done, opid, "USER", "ADD", name, "ROLE", role, "SECRET", secret,
                           *_optional(pools=pools, holders=holders, max_values=max_values,
                                      reason=reason))

    def user_set(self, name: str, *, role: Optional[str] = None, secret: Optional[str] = None,
                 pools: Optional[str] = None, holders: Optional[str] = None,
                 max_values: Optional[int] = None, reason: Optional[str] = None,
                 opid: Optional[str] = None) -> Done:
        """Changes what is given; "*" removes a limit, 0 the quota."""
        return self._write(_done, opid, "USER", "SET", name,
                           *_optional(role=role, secret=secret, pools=pools, holders=holders,
                                      max_values=max_values, reason=reason))

    def user_delete(self, name: str, *, reason: Optional[str] = None,
                    opid: Optional[str] = None) -> Done:
        return self._write(_done, opid, "USER", "DELETE", name, *_optional(reason=reason))

    def user_list(self, *, cursor: Optional[str] = None, count: Optional[int] = None,
                  fence: Optional[int] = None) -> UserPage:
        return self._read(_user_page, fence, "USER", "LIST", *_optional(cursor=cursor, count=count))

    # Nodes

    def node_list(self) -> List[Dict[str, Any]]:
        """The nodes of the cluster; a server without one is its only node."""
        return self._read(lambda r: list(r["nodes"]), None, "NODE", "LIST")

    def node_step_down(self) -> None:
        """The owner hands the log over to another node."""
        self._read(_none, None, "NODE", "STEP-DOWN")

    def node_close(self) -> None:
        """Ends the cluster for good."""
        self._read(_none, None, "NODE", "CLOSE")

    def node_forget(self, name: str) -> None:
        """Removes a node that is gone."""
        self._read(_none, None, "NODE", "FORGET", name)

    def config_get(self, *patterns: str) -> Dict[str, str]:
        return self._read(dict, None, "CONFIG", "GET", *patterns)

    def client_list(self) -> List[Dict[str, str]]:
        def parse(text: Reply) -> List[Dict[str, str]]:
            return [{k: v for k, _, v in (word.partition("=") for word in line.split(" "))}
                    for line in text.splitlines()]
        return self._read(parse, None, "CLIENT", "LIST")

    def client_kill(self, id: int) -> int:
        """How many connections were closed."""
        return self._read(int, None, "CLIENT", "KILL", "ID", id)

    def command(self) -> List[Any]:
        return self._read(list, None, "COMMAND")

    def command_count(self) -> int:
        return self._read(int, None, "COMMAND", "COUNT")

    def command_docs(self, *names: str) -> Dict[str, Any]:
        return self._read(dict, None, "COMMAND", "DOCS", *names)

    def command_info(self, *names: str) -> List[Any]:
        return self._read(list, None, "COMMAND", "INFO", *names)

    def command_list(self) -> List[str]:
        return self._read(list, None, "COMMAND", "LIST")


# ---- The connection ------------------------------------------------------------------------------


class _Push(List[Any]):
    """A message that is no reply."""


class _ErrorReply(str):
    """The text of an error, as a value."""


def _encode(words: Sequence[Word]) -> bytes:
    parts = [b"*%d\r\n" % len(words)]
    for word in words:
        data = word if isinstance(word, bytes) else str(word).encode("utf-8", "surrogateescape")
        parts.append(b"$%d\r\n%b\r\n" % (len(data), data))
    return b"".join(parts)


class _Wire:
    """A socket that speaks RESP3. After an OSError it is unusable, except after the one that
    `wait` turns into False."""

    def __init__(self, sock: socket.socket) -> None:
        self.sock = sock
        self.buffer = bytearray()
        self.deadline = _clock()
        self.left = _REPLY_MAX  # for the rest of the reply

    def _fill(self) -> None:
        self.sock.settimeout(max(self.deadline - _clock(), 0.001))
        data = self.sock.recv(65536)
        if not data:
            raise ConnectionError("the server closed the connection")
        self.buffer += data

    def wait(self, seconds: float) -> bool:
        """Whether something has come."""
        if not self.buffer:
            self.deadline = _clock() + seconds
            try:
                self._fill()
            except socket.timeout:
                return False
        return True

    def send(self, data: bytes, seconds: float) -> None:
        self.deadline = _clock() + seconds
        self.sock.settimeout(seconds)
        self.sock.sendall(data)

    def _line(self) -> bytes:
        start = 0
        while True:
            end = self.buffer.find(b"\r\n", start)
            if (end if end >= 0 else len(self.buffer)) > _LINE_MAX:
                raise ValueError("a long line")
            if end >= 0:
                return self._take(end)
            start = max(len(self.buffer) - 1, 0)
            self._fill()

    def _take(self, count: int) -> bytes:
        """These bytes, without the end of the line after them."""
        self._spend(count + 2)
        while len(self.buffer) < count + 2:
            self._fill()
        data = bytes(self.buffer[:count])
        del self.buffer[:count + 2]
        return data

    def _spend(self, count: int) -> None:
        self.left -= count
        if self.left < 0:
            raise ValueError("a reply of more than %d bytes" % _REPLY_MAX)

    def _bulk(self, count: int) -> str:
        return self._take(count).decode("utf-8", "surrogateescape")

    def _items(self, count: int, depth: int) -> List[Any]:
        if depth >= _DEPTH_MAX:
            raise ValueError("a deep reply")
        return [self._read(depth + 1) for _ in range(count)]

    def read(self) -> Reply:
        """One reply or push."""
        self.left = _REPLY_MAX
        try:
            return self._read(0)
        except ValueError as error:
            raise ConnectionError("not RESP3: %s" % error) from error

    def _read(self, depth: int) -> Reply:
        line = self._line()
        kind, rest = line[:1], line[1:].decode("utf-8", "surrogateescape")
        if kind == b"+":
            return rest
        if kind == b"-":
            return _ErrorReply(rest)
        if kind in b":(":
            return int(rest)
        if kind == b",":
            return float(rest)
        if kind == b"#":
            return rest == "t"
        if kind == b"_":
            return None
        return self._read_sized(kind, int(rest), depth)

    def _read_sized(self, kind: bytes, count: int, depth: int) -> Reply:
        if kind in b"$=!*~" and count < 0:
            return None
        if count < 0:
            raise ValueError("a length of %d" % count)
        if kind == b"$":
            return self._bulk(count)
        if kind == b"=":
            return self._bulk(count)[4:]
        if kind == b"!":
            return _ErrorReply(self._bulk(count))
        if kind in b"*~":
            return self._items(count, depth)
        if kind == b">":
            return _Push(self._items(count, depth))
        if kind == b"%":
            flat = self._items(2 * count, depth)
            return dict(zip(map(str, flat[::2]), flat[1::2]))
        if kind == b"|":
            self._items(2 * count, depth)
            return self._read(depth + 1)
        raise ValueError("a reply that begins with %r" % kind)


_TLS_SCHEMES = ("tenures", "rediss")
_SCHEMES = ("tenure", "redis", "unix", *_TLS_SCHEMES)


def _address_error(text: str) -> ValueError:
    """The message has the address unless it may contain a password."""
    return ValueError("%s is not tenure://HOST:PORT, tenures://HOST:PORT or unix://PATH"
                      % ("the address" if "@" in text else repr(text)))


def _scheme(text: str) -> str:
    """In lower case; "": the address has none. An unknown one must not mean plain text."""
    scheme, mark, _ = text.partition("://")
    if mark and scheme.lower() not in _SCHEMES:
        raise _address_error(text)
    return scheme.lower() if mark else ""


def _secured(sock: socket.socket, context: ssl.SSLContext, host: str) -> ssl.SSLSocket:
    try:
        return context.wrap_socket(sock, server_hostname=host)
    except BaseException:
        sock.close()
        raise


def _tls_wanted(address: Optional[str], tls: Optional[bool]) -> bool:
    """By the argument, by the scheme of the address, or by the environment."""
    said = os.environ.get("TENURE_TLS") or "no"
    if said not in ("yes", "no"):
        raise ValueError("TENURE_TLS: %r is not yes or no" % said)
    text = address if address is not None else os.environ.get("TENURE_URL") or ""
    by_scheme = _scheme(text) in _TLS_SCHEMES
    if tls is False and by_scheme:
        raise ValueError("tls=False contradicts the address, which begins with %s://"
                         % _scheme(text))
    return tls if tls is not None else by_scheme or said == "yes"


def _no_passphrase() -> str:
    """Without this OpenSSL would ask at the terminal."""
    raise ValueError("key_file: the key is encrypted; use one without a passphrase")


def _tls_context(ca_file: Optional[str], cert_file: Optional[str], key_file: Optional[str],
                 insecure: bool) -> ssl.SSLContext:
    """TLS 1.2 or newer; the server is verified unless `insecure`."""
    context = ssl.create_default_context(cafile=ca_file or os.environ.get("TENURE_CA_FILE") or None)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    if cert_file is None and os.environ.get("TENURE_CERT_FILE"):
        cert_file = os.environ["TENURE_CERT_FILE"]
        key_file = key_file or os.environ.get("TENURE_KEY_FILE") or None
    if cert_file is not None:
        context.load_cert_chain(cert_file, key_file, password=_no_passphrase)
    if insecure:
        warnings.warn("insecure=True: the server's certificate is not verified; anyone on the "
                      "network can read and change the connections", RuntimeWarning, stacklevel=3)
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    return context


@dataclass(frozen=True)
class _Address:
    """The address of the server and the user."""

    host: str  # or the path of a Unix-domain socket, if the port is 0
    port: int
    username: Optional[str]
    password: Optional[str]
    name: Optional[str]
    timeout: float
    tls: Optional[ssl.SSLContext] = None  # None: without TLS

    @staticmethod
    def login(username: Optional[str], password: Optional[str]) -> Tuple[Optional[str], Optional[str]]:
        """These, or those of the environment if there is no password."""
        if password is not None:
            return username, password
        path = os.environ.get("TENURE_SECRET_FILE")
        secret = os.environ.get("TENURE_SECRET")
        if not secret and path:
            with open(path, encoding="utf-8", errors="surrogateescape") as file:
                secret = file.readline().rstrip("\r\n")
        if not secret:
            return username, None
        return username or os.environ.get("TENURE_USER") or None, secret

    @staticmethod
    def parse_all(text: Optional[str]) -> List[Tuple[str, int, Optional[str], Optional[str]]]:
        """The nodes of a cluster: tenure://user:password@a:7411,b:7411,c:7411."""
        if text is None and not os.environ.get("TENURE_SOCKET"):
            text = os.environ.get("TENURE_URL")
        if text is None or _scheme(text) == "unix" or "," not in text:
            return [_Address.parse(text)]
        scheme, mark, rest = text.rpartition("://")
        login, at, hosts = rest.rpartition("@")
        return [_Address.parse(scheme + mark + login + at + host.strip())
                for host in hosts.rstrip("/").split(",") if host.strip()]

    @staticmethod
    def parse(text: Optional[str]) -> Tuple[str, int, Optional[str], Optional[str]]:
        if text is None and os.environ.get("TENURE_SOCKET"):
            text = "unix://" + os.environ["TENURE_SOCKET"]
        if text is None:
            text = os.environ.get("TENURE_URL")
        if text is not None and _scheme(text) == "unix":
            return text[len("unix://"):], 0, None, None
        if text is None:
            host = os.environ.get("TENURE_HOST", "127.0.0.1")
            text = "%s:%s" % ("[%s]" % host if ":" in host else host,
                              os.environ.get("TENURE_PORT", DEFAULT_PORT))
        parts = urllib.parse.urlsplit(text if _scheme(text) else "tenure://" + text)
        if not parts.hostname or parts.path.strip("/"):
            raise _address_error(text)
        unquoted = [None if p is None else urllib.parse.unquote(p)
                    for p in (parts.username, parts.password)]
        return parts.hostname, parts.port or DEFAULT_PORT, unquoted[0], unquoted[1]

    def connect(self) -> socket.socket:
        if self.port != 0:
            sock = socket.create_connection((self.host, self.port), self.timeout)
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            return sock if self.tls is None else _secured(sock, self.tls, self.host)
        sock = socket.socket(socket.AF_UNIX)
        try:
            sock.settimeout(self.timeout)
            sock.connect(self.host)
        except BaseException:
            sock.close()
            raise
        return sock

    def hello(self) -> List[Word]:
        words: List[Word] = ["HELLO", 3]
        if self.password is not None:
            words += ["AUTH", self.username or "default", self.password]
        return words + (["SETNAME", self.name] if self.name is not None else [])


class Connection(Commands):
    """One connection, for one thread at a time, with the commands about the connection
    itself. It does not reconnect: a lost connection raises `Unreachable` or `OutcomeUnknown`.
    Created by `Client.connection`."""

    def __init__(self, address: _Address) -> None:
        self._address = address
        self._timeout = address.timeout
        self.pushes: Deque[_Push] = collections.deque()
        self.broken = False
        sock = address.connect()
        try:
            self._wire = _Wire(sock)
            answer = self.exchange([_Request(address.hello())])[0]
        except BaseException:
            sock.close()
            raise
        if isinstance(answer, ResultError):
            self.close()
            raise answer

    def exchange(self, requests: Sequence[_Request], timeout: Optional[float] = None,
                 answers: Optional[List[Any]] = None) -> List[Any]:
        """Sends the requests together and reads their replies, errors as values, into `answers`.
        After an OSError, the requests without an answer may have happened."""
        answers = [] if answers is None else answers
        at = 0
        try:
            while at < len(requests):
                data = _encode(requests[at].words)
                end = at + 1
                while end < len(requests) and len(data) < _CHUNK_BYTES:
                    data += _encode(requests[end].words)
                    end += 1
                patience = max(_wait_seconds(request.words) for request in requests[at:end])
                self._wire.send(data, (timeout or self._timeout) + patience)
                for request in requests[at:end]:
                    reply = self._reply()
                    answers.append(request.error(reply) if isinstance(reply, _ErrorReply)
                                   else reply)
                at = end
        except BaseException:
            self.broken = True  # also by an interrupt: replies may be on their way
            raise
        return answers

    def _reply(self) -> Reply:
        while True:
            frame = self._wire.read()
            if not isinstance(frame, _Push):
                return frame
            self.pushes.append(frame)

    def execute(self, *words: Word, opid: Optional[str] = None) -> Reply:
        request = _Request(list(words), opid=opid)
        try:
            answer = self.exchange([request])[0]
        except OSError as error:
            raise _given_up(request, True, error)
        if isinstance(answer, ResultError):
            raise answer
        return answer

    def shutdown(self) -> None:
        """Wakes a thread that waits on this connection."""
        try:
            self._wire.sock.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass

    def close(self) -> None:
        self.broken = True
        self._wire.sock.close()

    def __enter__(self) -> Connection:
        return self

    def __exit__(self, *exception: Any) -> None:
        self.close()

    def hello(self, protocol: Optional[int] = None) -> Dict[str, Any]:
        """Identifies the server. This module needs protocol 3."""
        if protocol not in (None, 3):
            raise ValueError("this client speaks RESP3 only")
        return self._read(dict, None, "HELLO", *([] if protocol is None else [protocol]))

    def auth(self, password: str, username: Optional[str] = None) -> None:
        self._read(_none, None, "AUTH", *([] if username is None else [username]), password)

    def select(self, index: int = 0) -> None:
        self._read(_none, None, "SELECT", index)

    def readonly(self) -> None:
        """From now on reads may be answered by a node that follows the owner of the log."""
        self._read(_none, None, "READONLY")

    def readwrite(self) -> None:
        """Ends `readonly`."""
        self._read(_none, None, "READWRITE")

    def reset(self) -> None:
        """As new; and then RESP3 again."""
        self._read(_none, None, "RESET")
        self._read(_none, None, *self._address.hello())

    def quit(self) -> None:
        self._read(_none, None, "QUIT")
        self.close()

    def client_id(self) -> int:
        return self._read(int, None, "CLIENT", "ID")

    def client_getname(self) -> Optional[str]:
        name: Optional[str] = self._read(_same, None, "CLIENT", "GETNAME")
        return name

    def client_setname(self, name: str) -> None:
        self._read(_none, None, "CLIENT", "SETNAME", name)

    def client_setinfo(self, attribute: str, value: str) -> None:
        self._read(_none, None, "CLIENT", "SETINFO", attribute, value)


def _given_up(request: _Request, sent: bool, error: BaseException) -> ResultError:
    given_up: ResultError = Unreachable("UNREACHABLE %s" % error, opid=request.opid)
    if sent and request.kind not in ("read", "connection"):
        given_up = OutcomeUnknown("LOST no answer: %s" % error, write=True, opid=request.opid)
    given_up.__cause__ = error
    return given_up


def _parsed(parse: Callable[[Reply], _T], request: _Request, reply: Reply) -> _T:
    """A reply of another form does not tell the outcome."""
    try:
        return parse(reply)
    except (AttributeError, LookupError, TypeError, ValueError) as error:
        why = ValueError("a reply of another form (%s: %s)" % (type(error).__name__, error))
        raise _given_up(request, True, why) from error


class Subscription:
    """Subscribed channels on a separate connection: `events`, `pool:NAME`, `holder:NAME`,
    `metrics:POOL`. For one thread at a time, except `close`. Iterating returns `Message`s until it
    is closed; it does not reconnect: see `Client.follow`."""

    SILENCE = 15.0  # seconds after which the server is asked whether it is there

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self.channels: Set[str] = set()
        self.patterns: Set[str] = set()
        self.closed = False

    def subscribe(self, *channels: str) -> None:
        self._confirm("SUBSCRIBE", channels, len(channels))
        self.channels.update(channels)

    def psubscribe(self, *patterns: str) -> None:
        self._confirm("PSUBSCRIBE", patterns, len(patterns))
        self.patterns.update(patterns)

    def unsubscribe(self, *channels: str) -> None:
        """From these, or from all."""
        self._confirm("UNSUBSCRIBE", channels, len(channels) or max(len(self.channels), 1))
        self.channels.difference_update(channels or list(self.channels))

    def punsubscribe(self, *patterns: str) -> None:
        self._confirm("PUNSUBSCRIBE", patterns, len(patterns) or max(len(self.patterns), 1))
        self.patterns.difference_update(patterns or list(self.patterns))

    def _confirm(self, verb: str, names: Sequence[str], count: int) -> None:
        """Confirmations are pushes, one for each name; a refusal is one reply for all of them."""
        wire = self.connection._wire
        try:
            wire.send(_encode([verb, *names]), self.connection._timeout)
            while count > 0:
                frame = wire.read()
                if isinstance(frame, _ErrorReply):
                    raise error_of(frame)
                if isinstance(frame, _Push) and frame[0] == verb.lower():
                    count -= 1
                elif isinstance(frame, _Push):
                    self.connection.pushes.append(frame)
        except OSError as error:
            raise Unreachable("UNREACHABLE %s" % error) from error

    def get(self, timeout: Optional[float] = None) -> Optional[Message]:
        """The next message; None after the timeout or if closed."""
        end = None if timeout is None else _clock() + timeout
        asked = False
        wire = self.connection._wire
        try:
            while not self.closed:
                while self.connection.pushes:
                    push = self.connection.pushes.popleft()
                    if push[0] == "message":
                        return Message(push[1], push[2])
                    if push[0] == "pmessage":
                        return Message(push[2], push[3], push[1])
                patience = self.connection._timeout if asked else self.SILENCE
                left = patience if end is None else min(patience, end - _clock())
                if wire.wait(max(left, 0.0)):
                    wire.deadline = _clock() + self.connection._timeout
                    frame = wire.read()
                    asked = False
                    if isinstance(frame, _Push):
                        self.connection.pushes.append(frame)
                elif end is not None and _clock() >= end:
                    return None
                elif asked:
                    raise ConnectionError("the server does not answer")
                else:
                    wire.send(_encode(["PING"]), self.connection._timeout)
                    asked = True
        except OSError as error:
            if not self.closed:
                self.connection.broken = True
                raise Unreachable("UNREACHABLE %s" % error) from error
        return None

    def __iter__(self) -> Iterator[Message]:
        while True:
            message = self.get()
            if message is None:
                return
            yield message

    def close(self) -> None:
        self.closed = True
        self.connection.shutdown()
        self.connection.close()

    def __enter__(self) -> Subscription:
        return self

    def __exit__(self, *exception: Any) -> None:
        self.close()


# ---- The client ----------------------------------------------------------------------------------


class _Pause:
    """Growing delays with jitter, so that not all clients reconnect at once."""

    def __init__(self, longest: float = 1.0) -> None:
        self.next = 0.01
        self.longest = longest

    def seconds(self) -> float:
        now = self.next * random.uniform(0.5, 1.0)
        self.next = min(self.next * 2, self.longest)
        return now


class Client(Commands):
    """A client with up to `connections` connections, opened on demand; threads may share it.

    `address`: `host:port`, `tenure://user:password@host:port` or `unix:///path/of/tenure.sock`;
    by default TENURE_SOCKET (a path), TENURE_URL, TENURE_HOST and TENURE_PORT, else
    127.0.0.1:7411. The nodes of a cluster are separated by commas,
    `tenure://a:7411,b:7411,c:7411`: the client finds the one that owns the log, and goes over to the
    next owner. Without a password, it logs in as TENURE_USER with TENURE_SECRET, or with the first
    line of the file TENURE_SECRET_FILE, if that is set. `timeout`: seconds for one answer.
    `retry_seconds`: how long a request is repeated after a lost connection, while the server is
    stopping or overloaded, or while no node owns the log; 0: never.

    TLS: `tenures://` or `rediss://` in the address, `tls=True`, or TENURE_TLS=yes (also if an
    address is passed; `tls=False` overrides it). The server's
    certificate is verified against `ca_file` (TENURE_CA_FILE; else the system's authorities) and the
    host; `cert_file` and `key_file` are the client's own. `insecure=True` verifies nothing, and
    warns."""

    def __init__(self, address: Optional[str] = None, *, timeout: float = 10.0,
                 retry_seconds: float = 30.0, connections: int = 16,
                 username: Optional[str] = None, password: Optional[str] = None,
                 name: Optional[str] = None, tls: Optional[bool] = None,
                 ca_file: Optional[str] = None, cert_file: Optional[str] = None,
                 key_file: Optional[str] = None, insecure: bool = False) -> None:
        if timeout <= 0 or retry_seconds < 0 or connections < 1:
            raise ValueError("timeout and connections must be above 0, retry_seconds not below")
        # The last attempt may still wait for a connection, connect, and say hello.
        if retry_seconds + 3 * timeout >= OP_WINDOW_SECONDS:
            raise ValueError("retry_seconds + 3 * timeout must stay below the %d seconds in which "
                             "the server remembers operation ids" % OP_WINDOW_SECONDS)
        context = (_tls_context(ca_file, cert_file, key_file, insecure)
                   if _tls_wanted(address, tls) else None)
        if context is None and (ca_file or cert_file or insecure):
            raise ValueError("ca_file, cert_file and insecure need tls=True or tenures://")
        self._addresses = [
            _Address(host, port, *_Address.login(
                username or url_user, password if password is not None else url_password),
                name, timeout, context)
            for host, port, url_user, url_password in _Address.parse_all(address)]
        self._address = self._addresses[0]  # where new connections go
        self.timeout = timeout
        self.retry_seconds = retry_seconds
        self._limit = connections
        self._change = threading.Condition()
        self._idle: List[Connection] = []
        self._open = 0
        self._process = os.getpid()
        self._closed = False

    # The pool of connections

    def connection(self) -> Connection:
        """One for yourself, outside the pool."""
        for left in range(len(self._addresses), 0, -1):
            address = self._address
            try:
                return Connection(address)
            except OSError as error:
                self._leave(address)
                if left == 1:
                    raise Unreachable("UNREACHABLE %s" % error) from error
        raise AssertionError("a client has an address")

    def _leave(self, address: _Address) -> None:
        """New connections go to the next address after this one."""
        if self._address is address and len(self._addresses) > 1:
            at = self._addresses.index(address) if address in self._addresses else -1
            self._address = self._addresses[(at + 1) % len(self._addresses)]

    def _go_elsewhere(self, refusal: ResultError, address: _Address) -> bool:
        """After READONLY or MASTERDOWN from that address; whether the owner is known."""
        leader = refusal.facts.get("leader")
        if leader is None:
            self._leave(address)
            return False
        host, _, port = leader.rpartition(":")
        if self._address is address:
            self._address = replace(address, host=host.strip("[]"), port=int(port))
        return True

    def _borrow(self, until: float) -> Connection:
        with self._change:
            if self._process != os.getpid():  # a child must not speak on its parent's connections
                for connection in self._idle:
                    connection.close()
                self._idle, self._open, self._process = [], 0, os.getpid()
            while not self._closed and not self._idle and self._open >= self._limit:
                if not self._change.wait(max(until - _clock(), 0.0)):
                    raise socket.timeout("all %d connections are in use" % self._limit)
            if self._closed:
                raise Unreachable("CLOSED this client was closed")
            if self._idle:
                return self._idle.pop()
            self._open += 1
        address = self._address
        try:
            return Connection(address)
        except BaseException as error:
            with self._change:
                self._open -= 1
                self._change.notify()
            if isinstance(error, OSError):
                self._leave(address)
            raise

    def _give_back(self, connection: Connection) -> None:
        with self._change:
            if connection.broken or self._closed:
                connection.close()
                self._open -= 1
            else:
                self._idle.append(connection)
            self._change.notify()

    def _forget_idle(self) -> None:
        """Called after a lost connection: the others are probably lost, too."""
        with self._change:
            idle, self._idle = self._idle, []
            self._open -= len(idle)
            self._change.notify_all()
        for connection in idle:
            connection.close()

    def close(self) -> None:
        with self._change:
            self._closed = True
            self._change.notify_all()
        self._forget_idle()

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *exception: Any) -> None:
        self.close()

    # Requests

    def execute(self, *words: Word, opid: Optional[str] = None) -> Reply:
        answer = self._run([_Request(list(words), opid=opid)])[0]
        if isinstance(answer, ResultError):
            raise answer
        return answer

    def pipeline(self, requests: Sequence[Sequence[Word]]) -> List[Union[Reply, ResultError]]:
        """Sends many requests at once; returns the answers in order, exceptions as values. Writes are
        committed in order. After a lost connection, requests without an answer are repeated with
        their operation ids."""
        return self._run([_Request(list(words)) for words in requests])

    def _run(self, requests: Sequence[_Request]) -> List[Any]:
        end = _clock() + self.retry_seconds
        answers: List[Any] = []
        pause = _Pause()
        sent = False  # once, without an answer: it may have happened
        hops = 0  # to a node that another one named
        while True:
            answered = len(answers)
            try:
                connection = self._borrow(max(end, _clock() + self.timeout))
                try:
                    connection.exchange(requests[answered:], None, answers)
                except OSError:
                    sent = True
                    raise
                finally:
                    self._give_back(connection)
                again = self._repeats_from(requests, answers)
                if again == len(answers) or _clock() >= end:
                    return self._judged(requests, answers, answered if sent else len(answers))
                refusal = answers[again]
                sent = sent or isinstance(refusal, Unknown)
                del answers[again:]
                if refusal.result in _ELSEWHERE:
                    self._forget_idle()
                    if self._go_elsewhere(refusal, connection._address) and hops < _HOPS_MAX:
                        hops += 1
                        continue
            except ResultError as refusal:  # of the log-in: this time nothing was sent
                if refusal.result not in _TRY_AGAIN or self._closed or _clock() >= end:
                    if not sent:
                        raise
                    # That of a write does not show the outcome of the first attempt.
                    return answers + [refusal if request.kind in ("read", "connection")
                                      else _given_up(request, sent, refusal)
                                      for request in requests[len(answers):]]
            except OSError as error:
                self._forget_idle()
                safe = not sent or all(r.kind for r in requests[len(answers):])
                if not safe or _clock() >= end:
                    return answers + [_given_up(request, sent, error)
                                      for request in requests[len(answers):]]
            _time.sleep(min(pause.seconds(), max(end - _clock(), 0.0)))

    @staticmethod
    def _judged(requests: Sequence[_Request], answers: List[Any], repeated: int) -> List[Any]:
        """A rejected repeat does not show the outcome of the first attempt."""
        for i in range(repeated, len(answers)):
            if (requests[i].kind == "write" and isinstance(answers[i], Rejected)
                    and answers[i].result in _TURNED_AWAY):
                answers[i] = OutcomeUnknown("LOST " + answers[i].text, write=True,
                                            opid=requests[i].opid)
        return answers

    @staticmethod
    def _repeats_from(requests: Sequence[_Request], answers: Sequence[Any]) -> int:
        """The first request to repeat; their number: none. Of a pipeline only the end that a node
        refused because it does not own the log: any other repeat would change the order."""
        at = len(answers)
        results = _TRY_AGAIN if at == 1 else _ELSEWHERE
        while (at > 0 and requests[at - 1].kind and isinstance(answers[at - 1], ResultError)
               and answers[at - 1].result in results):
            at -= 1
        if any(isinstance(a, ResultError) and a.result in _TRY_AGAIN for a in answers[:at]):
            return len(answers)
        return at

    # Longer things

    def subscription(self) -> Subscription:
        """Raw channels; see `follow` for events without gaps."""
        return Subscription(self.connection())

    def follow(self, *, after: Optional[str] = None, pool: Optional[str] = None,
               holder: Optional[str] = None) -> Follower:
        """Events as they happen, from now or after an id ("0": from the oldest retained event)."""
        if pool is not None and holder is not None:
            raise TypeError("either pool or holder")
        channel = ("pool:" + pool if pool is not None
                   else "holder:" + holder if holder is not None else "events")
        return Follower(self, channel, after)

    def hold(self, pool: str, holder: str, *, count: Optional[int] = None,
             values: Optional[Sequence[Value]] = None, ttl: Optional[Duration] = None,
             wait: Optional[Duration] = None, meta: Optional[Meta] = None,
             on_lost: Optional[Callable[[Held], None]] = None) -> Held:
        """Leases values and keeps the lease alive until the `with` block ends; see `Held`. `wait`:
        how long to wait in line if no value is free."""
        amount: Amount = values if values is not None else 1 if count is None else count
        return self.hold_bundle(holder, {pool: amount}, ttl=ttl, wait=wait, meta=meta,
                                on_lost=on_lost)

    def hold_bundle(self, holder: str, claims: Claims, *, ttl: Optional[Duration] = None,
                    wait: Optional[Duration] = None, meta: Optional[Meta] = None,
                    on_lost: Optional[Callable[[Held], None]] = None) -> Held:
        asked = _clock()
        grant = self.alloc_bundle(holder, claims, ttl=ttl, wait=wait, meta=meta)
        if wait is not None and grant.deadline is not None:
            # The ttl began at the grant, at an unknown time between the request and its answer.
            asked = _clock()
            self.touch(grant.lease, grant.epoch, ttl=ttl)
        return Held(self, grant, holder, ttl, asked, on_lost)


class Follower(Iterator[Event]):
    """Events without gaps or duplicates, across lost connections and restarts of the server. For one
    thread, except `close`, which ends the iteration. After `Unreachable` (the server was away for
    `retry_seconds`), iteration can continue and resumes at the same position."""

    def __init__(self, client: Client, channel: str, after: Optional[str]) -> None:
        self._client = client
        self._channel = channel
        self._subscription: Optional[Subscription] = None
        self._closed = threading.Event()
        self.position = after if after is not None else self._newest()
        self._connect()

    def _newest(self) -> str:
        return self._client.events(count=1).newest or "0"

    def _connect(self) -> Subscription:
        subscription = self._client.subscription()
        self._subscription = subscription
        try:
            subscription.subscribe("%s?after=%s" % (self._channel, self.position))
        except BaseException:
            subscription.close()
            self._subscription = None
            raise
        return subscription

    def get(self, timeout: Optional[float] = None) -> Optional[Event]:
        """The next event; None after the timeout or if closed."""
        end = None if timeout is None else _clock() + timeout
        patience: Optional[float] = None  # how long to try, from the first failure on
        pause = _Pause()
        while not self._closed.is_set():
            try:
                subscription = self._subscription or self._connect()
                if self._closed.is_set():
                    break
                left = None if end is None else max(end - _clock(), 0.0)
                message = subscription.get(left)
                if message is None:
                    return None
                event = _event(json.loads(message.payload))
                if event.kind != "lost":
                    self.position = event.id
                return event
            except ResultError as error:
                self._drop()
                if self._closed.is_set():
                    return None
                if not isinstance(error, Unreachable) and error.result not in _TRY_AGAIN:
                    raise
                if patience is None:
                    patience = _clock() + self._client.retry_seconds
                if _clock() >= patience:
                    raise
                if end is not None and _clock() >= end:
                    return None
                self._closed.wait(pause.seconds())
        self._drop()
        return None

    def _drop(self) -> None:
        subscription, self._subscription = self._subscription, None
        if subscription is not None:
            subscription.close()

    def __iter__(self) -> Follower:
        return self

    def __next__(self) -> Event:
        event = self.get()
        if event is None:
            raise StopIteration
        return event

    def close(self) -> None:
        self._closed.set()
        self._drop()

    def __enter__(self) -> Follower:
        return self

    def __exit__(self, *exception: Any) -> None:
        self.close()


class Held:
    """A lease that a thread keeps alive.

    It is lost when the server ends it (revoked, expired, rekeyed to another holder), which the
    client learns at once, or when it could not be renewed in time. The client counts the time from
    before it sent the renewal, on a clock that cannot be set, and gives up a tenth of the ttl (at
    most 5 seconds) early: so `on_lost` runs before another holder can have the values. Then `lost`
    is true, `check` raises `LeaseLost`, and `on_lost` is called once, by a thread of its own.

    At the end of the `with` block the lease is released or, if it was revoked meanwhile,
    acknowledged; if it was lost, `LeaseLost` is raised."""

    CHECK = 10.0  # seconds between looks at a lease without a deadline
    MARGIN = 5.0  # the most seconds by which it gives up before the deadline
    LOOK = 1.0  # seconds between looks at the clock, which waits do not follow through a suspend

    def __init__(self, client: Client, grant: Grant, holder: str, ttl: Optional[Duration],
                 asked: float, on_lost: Optional[Callable[[Held], None]]) -> None:
        self.grant = grant
        self.holder = holder
        self.reason: Optional[str] = None  # why it was lost
        self._client = client
        self._at = client._address  # of its own connection
        self._ttl = ttl
        self._lock = threading.Lock()
        self._stop = threading.Event()
        self._ends = threading.Event()  # it is lost or stopped
        self._connection: Optional[Connection] = None
        self._deadline: Optional[float] = None
        self._renew_at: Optional[float] = None
        if grant.deadline is not None:
            self._seen(client.lease(grant.lease), asked)
        self._thread = threading.Thread(target=self._keep, daemon=True,
                                        name="tenure-hold-%s" % grant.lease)
        self._thread.start()
        # Another one: looking for the server, a thread can hang longer than the lease lives.
        self._watcher: Optional[threading.Thread] = None
        if on_lost is not None:
            self._watcher = threading.Thread(target=self._watch, args=(on_lost,), daemon=True,
                                             name="tenure-watch-%s" % grant.lease)
            self._watcher.start()

    @property
    def values(self) -> Tuple[str, ...]:
        return self.grant.values

    @property
    def value(self) -> str:
        return self.grant.value

    @property
    def token(self) -> Token:
        return self.grant.token

    @property
    def lost(self) -> bool:
        with self._lock:
            return self._is_lost()

    def _is_lost(self) -> bool:
        if self.reason is None and self._deadline is not None and _clock() >= self._deadline:
            self.reason = "it was not renewed in time"
        return self.reason is not None

    def check(self) -> None:
        """Raises `LeaseLost` if the lease is lost; call it before actions that only the holder may
        do."""
        if self.lost:
            raise LeaseLost("lease %s: %s" % (self.grant.lease, self.reason))

    def remaining(self) -> Optional[float]:
        """Seconds for which the lease is certainly held; None: it has no deadline."""
        with self._lock:
            if self._is_lost():
                return 0.0
            return None if self._deadline is None else self._deadline - _clock()

    def _seen(self, lease: Lease, renewed: Optional[float]) -> None:
        """Records the lease from the server; `renewed`: when the renewal was sent."""
        if lease.epoch != self.grant.epoch or lease.state != "active":
            self._lose("it is %s, with epoch %d" % (lease.state, lease.epoch))
        elif lease.deadline is not None and renewed is not None:
            # The server counted from last_seen, which was after `renewed`.
            with self._lock:
                life = (lease.deadline - lease.last_seen) / 1000.0
                self._deadline = renewed + life - min(life / 10, self.MARGIN)
                self._renew_at = renewed + life / 3

    def _lose(self, reason: str) -> None:
        with self._lock:
            self.reason = self.reason or reason
        self._ends.set()

    # The threads

    def _watch(self, on_lost: Callable[[Held], None]) -> None:
        while not self._stop.is_set() and not self.lost:
            self._ends.wait(self._at_most(self.LOOK))
        if self._stop.is_set():
            return
        try:
            on_lost(self)
        except Exception:
            _log.exception("event=on-lost-failed lease=%s", self.grant.lease)

    def _keep(self) -> None:
        pause = _Pause()
        while not self._stop.is_set() and not self.lost:
            try:
                self._keep_connected(pause)
            except Refused as refusal:
                self._lose(refusal.text)
            except (ResultError, OSError) as error:
                if isinstance(error, ResultError) and error.result in _ELSEWHERE:
                    self._client._go_elsewhere(error, self._at)
                else:
                    self._client._leave(self._at)
                _log.info("event=lease-not-renewed lease=%s reason=%s", self.grant.lease, error)
                self._stop.wait(self._at_most(pause.seconds()))
            except Exception as error:  # a lease that nobody looks after is as good as lost
                _log.exception("event=lease-not-kept lease=%s", self.grant.lease)
                self._lose("%s: %s" % (type(error).__name__, error))

    def _at_most(self, seconds: float) -> float:
        left = self.remaining()
        return max(seconds if left is None else min(seconds, left), 0.001)

    def _patience(self, seconds: float) -> float:
        """For an answer: a connection that has silently died must leave time for another one."""
        left = self.remaining()
        return seconds if left is None else max(min(seconds, left / 2), 0.001)

    def _keep_connected(self, pause: _Pause) -> None:
        self._at = address = self._client._address
        connection = Connection(replace(address, timeout=self._patience(address.timeout)))
        with connection:
            self._connection = connection
            news = Subscription(connection)
            # First the subscription, then a renewal: no moment is left that neither would see.
            try:
                news.subscribe("holder:" + self.holder)
            except Rejected as refusal:  # a holder that ends like "?after=7": renewals will tell
                if isinstance(refusal, Unreachable):
                    raise
            while not self._stop.is_set() and not self.lost:
                self._look(connection)
                pause.next = 0.01
                self._listen(news, _clock() + self.CHECK if self._renew_at is None
                             else self._renew_at)

    def _look(self, connection: Connection) -> None:
        """Renews the lease if needed, and checks that it is still held."""
        asked = _clock()
        token = self.grant.token
        requests = [_Request(["LEASE", token.lease])]
        renews = self._renew_at is not None and asked >= self._renew_at
        if renews:
            requests.insert(0, _Request(["TOUCH", token.lease, token.epoch,
                                         *_optional(ttl=self._ttl)]))
        answers = connection.exchange(requests, self._patience(self._client.timeout))
        for answer in answers:
            if isinstance(answer, ResultError):
                raise answer
        self._seen(_parsed(_lease, requests[-1], answers[-1]), asked if renews else None)

    def _listen(self, news: Subscription, until: float) -> None:
        while not self._stop.is_set() and not self.lost:
            left = until - _clock()
            message = news.get(self._at_most(left)) if left > 0 else None
            if message is None:
                return
            event = _event(json.loads(message.payload))
            if event.lease == self.grant.lease and (event.epoch or 0) > self.grant.epoch:
                self._lose("%s, %s" % (event.kind, event.reason))

    # The end

    def __enter__(self) -> Held:
        return self

    def __exit__(self, kind: Optional[Type[BaseException]], *rest: Any) -> None:
        try:
            self.release()
        except TenureError:
            if kind is None:
                raise

    def stop(self) -> None:
        """Stops the renewals, but does not end the lease."""
        self._stop.set()
        self._ends.set()
        connection = self._connection
        if connection is not None:
            connection.shutdown()
        for thread in (self._thread, self._watcher):
            if thread is not None and thread is not threading.current_thread():
                thread.join()

    def release(self, *, now: bool = False) -> None:
        """Stops the renewals and releases the lease; raises `LeaseLost` if it was lost before."""
        self.stop()
        lost = self.lost
        try:
            self._end(now)
        except ResultError:
            if not lost:
                raise
        if lost or self.reason is not None:
            raise LeaseLost("lease %s: %s" % (self.grant.lease, self.reason))

    def _end(self, now: bool) -> None:
        """Releases or acknowledges the lease, according to its state."""
        token = self.grant.token
        try:
            self._client.release(token.lease, self.holder, token.epoch, now=now)
            return
        except Refused as refusal:
            self._lose(refusal.text)
        try:
            self._client.ack(token.lease, self.holder, token.epoch)
        except Refused:
            pass  # it was not revoked, but has ended in another way


# ---- Devices and their ids -----------------------------------------------------------------------

_HOLDER_BYTES = 128
_KEY_FIELDS = ("device_key", "device_id", "serial", "mac", "uuid")


def _key_value(value: Any) -> str:
    """The text of a value that identifies a device, or nothing."""
    if isinstance(value, str) or (isinstance(value, int) and not isinstance(value, bool)):
        return str(value) if value else ""
    return ""


def _hashed(prefix: str, value: str) -> str:
    data = value.encode("utf-8", "surrogateescape")
    return prefix + hashlib.blake2b(data, digest_size=32).hexdigest()


def _fits(holder: str) -> bool:
    return len(holder.encode("utf-8", "surrogateescape")) <= _HOLDER_BYTES


def _key_text(prefix: str, shown: str, value: str) -> str:
    return shown + value if _fits(shown + value) else _hashed(prefix, value)


def _normal_mac(text: Any) -> Optional[str]:
    """An address of 48 or 64 bits as `52:54:00:00:00:01`, None if it is none."""
    if not isinstance(text, str):
        return None
    digits = re.sub("[-:.]", "", text)
    if len(digits) not in (12, 16) or re.search("[^0-9a-fA-F]", digits):
        return None
    return ":".join(re.findall("..", digits.lower()))


def _derived(meta: Mapping[str, Any], fallback: bool, fields: Sequence[str]) -> Tuple[str, str]:
    """The key, and the key with an address as it is written; both empty if there is none."""
    whole: Dict[str, Any] = json.loads(json.dumps(meta, allow_nan=False))
    inner = whole.get("device_meta")
    inner = inner if isinstance(inner, dict) else {}
    for name in fields:
        if name == "device_key":
            key = _key_value(whole.get(name)).strip("".join(map(chr, range(33))))
            if key:
                return (_key_text("device_key:", "", key),) * 2
            continue
        for place in (whole, inner):
            value = _key_value(place.get(name))
            if value:
                mac = _normal_mac(place.get(name)) if name == "mac" else None
                raw = _key_text(name + ":", name + ":", value)
                return (raw if mac is None else "mac:" + mac), raw
    if not fallback or not whole:
        return "", ""
    prefix, content = ("meta:", inner) if inner else ("request:", whole)
    key = _key_text(prefix, prefix, json.dumps(content, sort_keys=True, ensure_ascii=True))
    return key, key


def derive_holder(meta: Mapping[str, Any], *, fallback: bool = False,
                  fields: Union[str, Sequence[str]] = _KEY_FIELDS) -> str:
    """The holder that the server derives from metadata; empty if none. `fallback`: as in a
    pool with `identity_fallback json`; `fields`: those of the pool's `identity_fields`.

    >>> derive_holder({"mac": "52-54-00-00-00-0A", "device_meta": {"serial": 7}})
    'serial:7'
    >>> derive_holder({"mac": "52-54-00-00-00-0A", "device_meta": {"serial": 7}}, fields="mac")
    'mac:52:54:00:00:00:0a'
    """
    return _derived(meta, fallback, fields.split(",") if isinstance(fields, str) else fields)[0]


def _holder_of_several(key: str, count: int) -> str:
    """The holder of the `count` ids of a device: `key#xCOUNT`, with the key's hash if it leaves no
    room."""
    suffix = "#x%d" % count
    return (key if _fits(key + suffix) else _hashed("device_key:", key)) + suffix


_RELEASED = "_released"  # in the metadata of a lease of several ids: those that were released


_POLICY_KEYS = ("base_lease_seconds", "min_lease_seconds", "rate_window_seconds",
                "high_rate_threshold_per_hour", "ultra_rate_threshold_per_hour",
                "ultra_rate_sustain_seconds", "high_rate_min_factor", "adaptive_enabled",
                "ultra_force_release", "metrics_emit_interval_seconds")


def _policy_options(policy: Optional[Mapping[str, Any]]) -> Dict[str, Option]:
    """`security_settings.id_lease` as pool options: used unchanged, or refused."""
    options: Dict[str, Option] = dict(policy or {})
    for name, value in options.items():
        if name != "offline_hold_days" and name not in _POLICY_KEYS:
            raise ValueError("lease_policy: there is no %r" % name)
        if not isinstance(value, (bool, int, float, str)):
            raise ValueError("lease_policy: %s: %r is not a value for it" % (name, value))
    if "offline_hold_days" in options and "base_lease_seconds" in options:
        days, seconds = options.pop("offline_hold_days"), options["base_lease_seconds"]
        if not isinstance(days, (int, float)) or days * 86400 != seconds:
            raise ValueError("lease_policy: offline_hold_days %r and base_lease_seconds %r "
                             "contradict each other" % (days, seconds))
    return options


def _option_value(text: str) -> Union[bool, int, float]:
    if text in ("yes", "no"):
        return text == "yes"
    return float(text) if "." in text else int(text)


class IDAllocator:
    """OpenSynaptic's allocator of device ids, on a running server: the same constructor and
    methods, so that a program changes one import.

    The ids are the values of the sticky pool `pool`, which is created if missing. `start_id` and
    `end_id` (1..4294967294 for a new pool) and every key of `lease_policy` are sent to the server
    unchanged; a refusal is a ValueError. Options that are not given keep the pool's values.
    `base_dir` and `persist_file` are only read: if the pool is new and that file has allocations,
    this raises `MoveInFirst`, because their ids would be given a second time. `max_released` has no
    effect. A separate thread calls `metrics_sink` with the eleven metrics when one has changed, at
    most every `metrics_emit_interval_seconds`.

    `server` is a `Client`, an address, or None for the environment's. Thread-safe."""

    def __init__(self, base_dir: Optional[str] = None, start_id: Optional[int] = None,
                 end_id: Optional[int] = None, persist_file: str = "data/id_allocation.json",
                 max_released: int = 10000, lease_policy: Optional[Mapping[str, Any]] = None,
                 metrics_sink: Optional[Callable[[Dict[str, Any]], Any]] = None, *,
                 server: Union[Client, str, None] = None, pool: str = "devices") -> None:
        self.pool = pool
        self._own_client = not isinstance(server, Client)
        self.client = server if isinstance(server, Client) else Client(server)
        self._closed = threading.Event()
        self._subscription: Optional[Subscription] = None
        self._thread: Optional[threading.Thread] = None
        self._fields: Sequence[str] = _KEY_FIELDS
        try:
            self.start_id, self.end_id = self._settle(
                start_id, end_id, _policy_options(lease_policy),
                None if base_dir is None else Path(base_dir) / persist_file)
        except BaseException:
            self.close()
            raise
        if metrics_sink is not None:
            self._thread = threading.Thread(target=self._listen, args=(metrics_sink,),
                                            name="tenure-metrics-" + pool, daemon=True)
            self._thread.start()

    # The pool

    def _settle(self, start_id: Optional[int], end_id: Optional[int],
                options: Dict[str, Option], past: Optional[Path]) -> Tuple[int, int]:
        try:
            lo, hi = self._range(start_id, end_id)
        except PoolNotFound:
            lo = 1 if start_id is None else start_id
            hi = 4294967294 if end_id is None else end_id
            self._refuse_a_second_life(past)
            try:
                self._set("CREATE", (lo, hi),
                          {"sticky": True, "identity_fallback": "json", **options})
            except AlreadyExists:  # somebody was faster
                return self._settle(start_id, end_id, options, past)
            return lo, hi
        given = start_id is not None or end_id is not None
        if given or options:
            self._set("ALTER", (lo, hi) if given else None, options)
        return lo, hi

    def _range(self, start_id: Optional[int], end_id: Optional[int]) -> Tuple[int, int]:
        has = self.client.pool_info(self.pool).options
        if has["kind"] != "range" or has["sticky"] != "yes" or has["format"] != "dec":
            raise ValueError("pool %s is not a sticky range of numbers" % self.pool)
        self._fields = has.get("identity_fields", ",".join(_KEY_FIELDS)).split(",")
        return (int(has["lo"]) if start_id is None else start_id,
                int(has["hi"]) if end_id is None else end_id)

    def _set(self, verb: str, span: Optional[Tuple[Value, Value]],
             options: Mapping[str, Option]) -> None:
        try:
            self.client.execute("POOL", verb, self.pool, *_policy_words(span, False, options))
        except (BadPolicy, BadValue, BadRequest, Malformed) as refusal:
            raise ValueError(refusal.text) from refusal

    def _refuse_a_second_life(self, past: Optional[Path]) -> None:
        if past is None or not past.is_file():
            return
        with open(past, encoding="utf-8") as file:
            state = json.load(file)
        allocated = state.get("allocated") if isinstance(state, dict) else None
        if allocated:
            raise MoveInFirst("%s has %d allocations that pool %s does not know of: import them "
                              "first" % (past, len(allocated), self.pool))

    # Ids

    def allocate_id(self, meta: Optional[Mapping[str, Any]] = None) -> int:
        """The id of the device that the metadata identifies: its own id again, or a new one. Without
        metadata, always a new id."""
        try:
            return int(self.client.alloc(self.pool, self._holder(meta), meta=meta or None).value)
        except Exhausted as refusal:
            raise self._exhausted() from refusal

    def _holder(self, meta: Optional[Mapping[str, Any]], count: Optional[int] = None) -> str:
        """A lease that was granted under an address as it is written is found as long as it
        lives."""
        key, raw = _derived(meta or {}, True, self._fields)
        key = key or "nameless:" + uuid.uuid4().hex
        if count is not None:
            key, raw = _holder_of_several(key, count), raw and _holder_of_several(raw, count)
        if raw and raw != key:
            if self.client.leases(pool=self.pool, holder=raw, count=1).leases:
                return raw
        return key

    def _exhausted(self) -> RuntimeError:
        return RuntimeError("[IDAllocator] ID pool exhausted (%d-%d)"
                            % (self.start_id, self.end_id))

    def allocate_pool(self, count: int, meta: Optional[Mapping[str, Any]] = None) -> List[int]:
        """`count` distinct ids in one lease, or none. A repeat for the same device and count
        returns the same ids. An id that is released separately is no longer allocated; it becomes
        free when the last of them is released."""
        number = int(count)
        if number <= 0:
            return []
        try:
            grant = self.client.alloc(self.pool, self._holder(meta, number), count=number,
                                      meta=meta or None)
        except Exhausted as refusal:
            raise self._exhausted() from refusal
        except TooLarge as refusal:
            if number > self.end_id - self.start_id + 1:
                raise self._exhausted() from refusal
            raise ValueError(refusal.text) from refusal
        return [int(value) for value in grant.values]

    def _find(self, id_val: int) -> Optional[Lease]:
        """The lease of the id; None if it is free or was released separately."""
        try:
            lease = self.client.lease("%s/%d" % (self.pool, int(id_val)))
        except (NotFound, BadValue):
            return None
        return None if str(int(id_val)) in self._released(lease) else lease

    @staticmethod
    def _released(lease: Lease) -> Set[str]:
        return set((lease.meta or {}).get(_RELEASED, ())) if len(lease.values) > 1 else set()

    def _with_lease(self, id_val: int, act: Callable[[Lease], Any]) -> bool:
        """Acts on the lease of an id, and retries if it changes meanwhile; False if there is none."""
        while True:
            lease = self._find(id_val)
            if lease is None:
                return False
            try:
                act(lease)
                return True
            except (Stale, WrongHolder, NotFound, Retired):
                continue
            except WrongState:
                if lease.state not in ("active", "offline"):
                    raise

    def release_id(self, id_val: int, immediate: bool = False) -> bool:
        """The device goes offline: the policy determines how long its id is kept."""
        def act(lease: Lease) -> None:
            released = self._released(lease) | {str(int(id_val))}
            if released >= set(lease.values):
                self.client.release(lease.lease, lease.holder, lease.epoch, now=immediate)
            else:
                meta = {**(lease.meta or {}), _RELEASED: sorted(released, key=int)}
                self.client.touch(lease.lease, lease.epoch, meta=meta)
        return self._with_lease(id_val, act)

    def release_pool(self, ids: Sequence[int], immediate: bool = False) -> int:
        return sum(self.release_id(i, immediate) for i in ids)

    def touch(self, aid: int, meta: Optional[Mapping[str, Any]] = None) -> bool:
        """The device is active: renews its lease and optionally replaces the metadata. The device of
        the id does not change."""
        def act(lease: Lease) -> None:
            released = sorted(self._released(lease), key=int)
            kept = {_RELEASED: released} if released else {}
            self.client.touch(lease.lease, lease.epoch,
                              meta={**meta, **kept} if meta else None)
        return self._with_lease(aid, act)

    def is_allocated(self, id_val: int) -> bool:
        return self._find(id_val) is not None

    def get_meta(self, id_val: int) -> Dict[str, Any]:
        lease = self._find(id_val)
        meta = (lease.meta if lease is not None else None) or {}
        return {name: value for name, value in meta.items() if name != _RELEASED}

    def reclaim_expired(self) -> int:
        """The number of leases that this call reclaimed; the server also reclaims by itself."""
        total = 0
        while True:
            freed = self.client.sweep(pool=self.pool).count
            total += freed
            if freed == 0:
                return total

    def stats(self) -> Dict[str, Any]:
        options = self.client.pool_info(self.pool).options
        metrics = asdict(self.client.pool_metrics(self.pool))
        allocated, released = metrics.pop("allocated_count"), metrics.pop("released_count")
        options["base_lease_seconds"] = options["lease"]
        return {
            "total_allocated": allocated,
            "total_released": released,
            "next_candidate": self.start_id + allocated + released,
            "range": [self.start_id, self.end_id],
            "lease_policy": {name: _option_value(options[name]) for name in _POLICY_KEYS},
            "lease_metrics": metrics,
        }

    # Metrics

    def _listen(self, sink: Callable[[Dict[str, Any]], Any]) -> None:
        pause = _Pause()
        while not self._closed.is_set():
            try:
                with self.client.subscription() as subscription:
                    self._subscription = subscription
                    subscription.subscribe("metrics:" + self.pool)
                    pause.next = 0.01
                    for message in subscription:
                        self._tell(sink, asdict(_metrics(json.loads(message.payload))))
                        if self._closed.is_set():
                            return
            except ResultError as error:
                if not self._closed.is_set():
                    _log.info("event=metrics-not-heard pool=%s reason=%s", self.pool, error)
            self._closed.wait(pause.seconds())

    @staticmethod
    def _tell(sink: Callable[[Dict[str, Any]], Any], metrics: Dict[str, Any]) -> None:
        try:
            sink(metrics)
        except Exception:
            _log.exception("event=metrics-sink-failed")

    def close(self) -> None:
        """Ends the sink's thread and, if this object opened them, the connections."""
        self._closed.set()
        subscription = self._subscription
        if subscription is not None:
            subscription.close()
        if self._thread is not None and threading.current_thread() is not self._thread:
            self._thread.join()
        if self._own_client:
            self.client.close()

    def __enter__(self) -> IDAllocator:
        return self

    def __exit__(self, *exception: Any) -> None:
        self.close()
