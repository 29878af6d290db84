/* The parts of the HTTP interface that are not in the command table: the schemas of answers, and the
 * paths that are not commands. JSON, copied into the document. */
#ifndef TN_PROTOCOL_OPENAPI_PARTS_H
#define TN_PROTOCOL_OPENAPI_PARTS_H

#define OPENAPI_TEXT(...) #__VA_ARGS__

/* clang-format off */

#define OPENAPI_ABOUT "Leases on values of finite pools. Each value has one holder at a time, with a " \
    "fencing token (lease and epoch). Integers in answers are strings, because they have 64 bits; in " \
    "requests they may be either. Times are milliseconds since 1970. A write may carry an Idempotency-Key: " \
    "repeating it with the same request gives the same answer and has no second effect."

/* ---- Schemas ---- */

static const char openapi_schemas[] = OPENAPI_TEXT({
"U64": {"type": "string", "pattern": "^[0-9]+$", "description": "An integer from 0 to 2^64-1"},
"Number": {"description": "An integer from 0 to 2^64-1; use a string for large numbers",
    "oneOf": [{"type": "integer", "minimum": 0}, {"type": "string", "pattern": "^[0-9]+$"}]},
"Duration": {"description": "Seconds as a whole number, or a string with a unit: 90s, 15m, 12h, 30d",
    "oneOf": [{"type": "integer", "minimum": 0}, {"type": "string", "pattern": "^[0-9]+[smhdSMHD]?$"}]},
"Time": {"type": ["string", "null"], "pattern": "^[0-9]+$",
    "description": "Milliseconds since 1970; null: never or unknown"},
"LeaseId": {"type": "string", "pattern": "^[0-9]+-[0-9]+$", "examples": ["0-1042"]},
"State": {"type": "string"},
"Json": {"description": "A JSON object, or a string that contains one",
    "oneOf": [{"type": "object"}, {"type": "string"}]},
"Value": {"description": "A value in the pool's format, or the name of a resource",
    "oneOf": [{"type": "string"}, {"type": "integer", "minimum": 0}]},
"Claim": {"type": "object", "additionalProperties": false, "required": ["pool"],
    "description": "Either a number of values of a pool or specific values",
    "properties": {"pool": {"type": "string"}, "count": {"$ref": "#/components/schemas/Number"},
        "values": {"type": "array", "items": {"$ref": "#/components/schemas/Value"}}},
    "oneOf": [{"required": ["count"]}, {"required": ["values"]}]},
"Span": {"description": "From the first to the last value",
    "oneOf": [{"type": "array", "minItems": 2, "maxItems": 2, "items": {"$ref": "#/components/schemas/Value"}},
        {"type": "object", "required": ["lo", "hi"], "properties": {
            "lo": {"$ref": "#/components/schemas/Value"}, "hi": {"$ref": "#/components/schemas/Value"}}}]},
"Success": {"type": "string", "enum": ["OK", "NOOP"], "description": "NOOP: there was nothing to do"},
"Replayed": {"type": "boolean", "description": "The answer of an earlier request with this operation id"},
"Done": {"type": "object", "required": ["result", "lsn", "replayed"],
    "description": "A write", "properties": {
    "result": {"$ref": "#/components/schemas/Success"},
    "lsn": {"$ref": "#/components/schemas/U64"}, "replayed": {"$ref": "#/components/schemas/Replayed"}}},
"Added": {"type": "object", "required": ["result", "added", "lsn", "replayed"],
    "description": "A write, and the number of new names", "properties": {
    "result": {"$ref": "#/components/schemas/Success"},
    "added": {"$ref": "#/components/schemas/U64"},
    "lsn": {"$ref": "#/components/schemas/U64"}, "replayed": {"$ref": "#/components/schemas/Replayed"}}},
"Removed": {"type": "object", "required": ["result", "removed", "lsn", "replayed"],
    "description": "A write, and the number of removed names", "properties": {
    "result": {"$ref": "#/components/schemas/Success"},
    "removed": {"$ref": "#/components/schemas/U64"},
    "lsn": {"$ref": "#/components/schemas/U64"}, "replayed": {"$ref": "#/components/schemas/Replayed"}}},
"Released": {"type": "object", "required": ["result", "released", "lsn", "replayed"],
    "description": "A write, and the number of released leases", "properties": {
    "result": {"$ref": "#/components/schemas/Success"},
    "released": {"$ref": "#/components/schemas/U64"},
    "lsn": {"$ref": "#/components/schemas/U64"}, "replayed": {"$ref": "#/components/schemas/Replayed"}}},
"Freed": {"type": "object", "required": ["result", "freed", "lsn", "replayed"],
    "description": "A write, and the number of freed values", "properties": {
    "result": {"$ref": "#/components/schemas/Success"},
    "freed": {"$ref": "#/components/schemas/U64"},
    "lsn": {"$ref": "#/components/schemas/U64"}, "replayed": {"$ref": "#/components/schemas/Replayed"}}},
"Emitted": {"type": "object", "required": ["result", "id", "lsn", "replayed"],
    "description": "A write, and its event", "properties": {
    "result": {"$ref": "#/components/schemas/Success"},
    "id": {"$ref": "#/components/schemas/EventId"},
    "lsn": {"$ref": "#/components/schemas/U64"}, "replayed": {"$ref": "#/components/schemas/Replayed"}}},
"EventEnvelope": {"type": "object", "required": ["data", "result", "id", "lsn", "replayed"],
    "description": "The same, as the sensors of Attune read it", "properties": {
    "data": {"type": "object", "required": ["id"], "properties": {"id": {"type": "integer"}}},
    "result": {"$ref": "#/components/schemas/Success"}, "id": {"$ref": "#/components/schemas/EventId"},
    "lsn": {"$ref": "#/components/schemas/U64"}, "replayed": {"$ref": "#/components/schemas/Replayed"}}},
"Moved": {"type": "object", "required": ["result", "lease", "epoch", "state", "deadline", "lsn", "replayed"],
    "description": "A lease after a write on it", "properties": {
    "result": {"$ref": "#/components/schemas/Success"},
    "lease": {"$ref": "#/components/schemas/LeaseId"}, "epoch": {"$ref": "#/components/schemas/U64"},
    "state": {"$ref": "#/components/schemas/State"}, "deadline": {"$ref": "#/components/schemas/Time"},
    "lsn": {"$ref": "#/components/schemas/U64"}, "replayed": {"$ref": "#/components/schemas/Replayed"}}},
"Grant": {"type": "object", "required": ["result", "lease", "epoch", "state", "deadline", "values", "lsn", "replayed"],
    "description": "A new lease with its values, in the order of the request", "properties": {
    "result": {"$ref": "#/components/schemas/Success"},
    "lease": {"$ref": "#/components/schemas/LeaseId"}, "epoch": {"$ref": "#/components/schemas/U64"},
    "state": {"$ref": "#/components/schemas/State"}, "deadline": {"$ref": "#/components/schemas/Time"},
    "values": {"type": "array", "items": {"type": "string"}},
    "waited_ms": {"$ref": "#/components/schemas/U64", "description": "If it waited in line"},
    "lsn": {"$ref": "#/components/schemas/U64"}, "replayed": {"$ref": "#/components/schemas/Replayed"}}},
"Accepted": {"type": "object", "required": ["result"], "description": "It was done", "properties": {
    "result": {"type": "string", "enum": ["OK"]}}},
"KeyRotation": {"type": "object", "required": ["result", "kid", "keys"], "properties": {
    "result": {"type": "string", "enum": ["OK"]}, "kid": {"type": "string", "description": "The new key"},
    "keys": {"$ref": "#/components/schemas/U64", "description": "Their number"}}},
"Heartbeat": {"type": "object", "required": ["result", "expires_at", "lsn"], "properties": {
    "result": {"type": "string", "enum": ["OK"]},
    "expires_at": {"type": "integer", "description": "When the token expires, in seconds since 1970"},
    "lsn": {"$ref": "#/components/schemas/U64"}}},
"SensorState": {"type": "object", "required": ["result", "ref", "state"], "properties": {
    "result": {"type": "string", "enum": ["OK"]}, "ref": {"type": "string"},
    "state": {"type": "string", "enum": ["stopped", "starting", "running", "stopping", "backoff", "error"]}}},
"Node": {"type": "object", "required": ["name", "role", "address", "http", "lsn", "age_ms", "self"], "properties": {
    "name": {"type": "string"}, "role": {"type": "string", "enum": ["owner", "follower", "down"]},
    "address": {"type": "string"}, "http": {"type": "string"}, "lsn": {"$ref": "#/components/schemas/U64"},
    "age_ms": {"$ref": "#/components/schemas/U64"}, "self": {"type": "boolean", "description": "It gave this answer"}}},
"NodeList": {"type": "object", "required": ["nodes", "stale_ms", "lsn"], "properties": {
    "nodes": {"type": "array", "items": {"$ref": "#/components/schemas/Node"}},
    "stale_ms": {"$ref": "#/components/schemas/U64"}, "lsn": {"$ref": "#/components/schemas/U64"}}},
"Lease": {"type": "object", "required": ["lease", "epoch", "state", "reason", "holder", "user", "deadline", "seconds_left",
    "ttl", "created", "last_seen", "offline_since", "ended", "ended_lsn", "retires", "values", "pools"], "properties": {
    "lease": {"$ref": "#/components/schemas/LeaseId"}, "epoch": {"$ref": "#/components/schemas/U64"},
    "state": {"$ref": "#/components/schemas/State"},
    "reason": {"type": "string", "description": "Of the last transition"},
    "holder": {"type": "string"}, "user": {"type": "string"},
    "deadline": {"$ref": "#/components/schemas/Time"},
    "ttl": {"$ref": "#/components/schemas/U64"},
    "created": {"$ref": "#/components/schemas/Time"}, "last_seen": {"$ref": "#/components/schemas/Time"},
    "offline_since": {"$ref": "#/components/schemas/Time"}, "ended": {"$ref": "#/components/schemas/Time"},
    "ended_lsn": {"$ref": "#/components/schemas/Time"}, "retires": {"$ref": "#/components/schemas/Time"},
    "seconds_left": {"$ref": "#/components/schemas/Time"},
    "values": {"type": "array", "items": {"type": "string"}},
    "pools": {"type": "array", "items": {"type": "string"}, "description": "The pool of each value"},
    "value_count": {"$ref": "#/components/schemas/U64"},
    "waiting_for": {"type": "string", "enum": ["EXHAUSTED", "BUSY"], "description": "In line: why"},
    "waiting_pool": {"type": "string"},
    "attended": {"type": "boolean", "description": "In line: its client is connected"},
    "waiting_before": {"$ref": "#/components/schemas/U64", "description": "The number of leases before it in line"},
    "meta": {"type": ["object", "string", "null"]},
    "lsn": {"$ref": "#/components/schemas/U64"}}},
"LeasePage": {"type": "object", "required": ["cursor", "leases"], "properties": {
    "cursor": {"$ref": "#/components/schemas/U64"},
    "leases": {"type": "array", "items": {"$ref": "#/components/schemas/Lease"}},
    "lsn": {"$ref": "#/components/schemas/U64"}}},
"Authority": {"type": "object", "required": ["result", "lease", "epoch", "lsn"],
    "description": "The token is the live authority, as of this log position", "properties": {
    "result": {"type": "string", "enum": ["OK"]}, "lease": {"$ref": "#/components/schemas/LeaseId"},
    "epoch": {"$ref": "#/components/schemas/U64"}, "deadline": {"$ref": "#/components/schemas/Time"},
    "lsn": {"$ref": "#/components/schemas/U64"}}},
"Pool": {"type": "object", "required": ["pool", "size", "free", "excluded", "reserved", "active", "offline", "revoking",
    "cooling", "waiting", "waiting_since", "scopes", "allocated_total", "returned_total", "released_total", "expired_total",
    "revoked_total", "rate_per_hour", "effective_lease", "next_free", "overdue_since", "options"], "properties": {
    "pool": {"type": "string"}, "size": {"$ref": "#/components/schemas/U64"},
    "free": {"$ref": "#/components/schemas/U64"}, "excluded": {"$ref": "#/components/schemas/U64"},
    "reserved": {"$ref": "#/components/schemas/U64"},
    "active": {"$ref": "#/components/schemas/U64"}, "offline": {"$ref": "#/components/schemas/U64"},
    "revoking": {"$ref": "#/components/schemas/U64"}, "cooling": {"$ref": "#/components/schemas/U64"},
    "waiting": {"$ref": "#/components/schemas/U64", "description": "The length of the line"},
    "waiting_since": {"$ref": "#/components/schemas/Time", "description": "Of the first in line"},
    "scopes": {"$ref": "#/components/schemas/U64"},
    "allocated_total": {"$ref": "#/components/schemas/U64"},
    "returned_total": {"$ref": "#/components/schemas/U64"},
    "released_total": {"$ref": "#/components/schemas/U64"},
    "expired_total": {"$ref": "#/components/schemas/U64"},
    "revoked_total": {"$ref": "#/components/schemas/U64"},
    "rate_per_hour": {"type": "number"}, "effective_lease": {"$ref": "#/components/schemas/U64"},
    "next_free": {"$ref": "#/components/schemas/Time"},
    "overdue_since": {"$ref": "#/components/schemas/Time"},
    "options": {"type": "object", "additionalProperties": {"type": "string"},
        "description": "Each option as text"},
    "lsn": {"$ref": "#/components/schemas/U64"}}},
"PoolPage": {"type": "object", "required": ["cursor", "pools"], "properties": {
    "cursor": {"$ref": "#/components/schemas/U64"},
    "pools": {"type": "array", "items": {"$ref": "#/components/schemas/Pool"}},
    "matched": {"$ref": "#/components/schemas/U64"},
    "lsn": {"$ref": "#/components/schemas/U64"}}},
"ValueRow": {"type": "object", "required": ["value", "count", "state"],
    "description": "A value, or a span of a range whose values are all available, or all excluded", "properties": {
    "value": {"type": "string", "description": "The first one of a span"},
    "last": {"type": ["string", "null"], "description": "The last one; null in a set"},
    "count": {"$ref": "#/components/schemas/U64"},
    "state": {"$ref": "#/components/schemas/ValueState"},
    "lease": {"type": ["string", "null"], "description": "Null also if the user may not see it"},
    "epoch": {"$ref": "#/components/schemas/Time"}, "holder": {"type": ["string", "null"]},
    "until": {"$ref": "#/components/schemas/Time"}}},
"ValuePage": {"type": "object", "required": ["cursor", "values"], "properties": {
    "cursor": {"$ref": "#/components/schemas/U64"},
    "values": {"type": "array", "items": {"$ref": "#/components/schemas/ValueRow"}},
    "lsn": {"$ref": "#/components/schemas/U64"}}},
"ValueCard": {"type": "object", "required": ["pool", "value", "state"], "properties": {
    "pool": {"type": "string"}, "value": {"type": "string"},
    "state": {"$ref": "#/components/schemas/ValueState"},
    "lease": {"type": ["string", "null"], "description": "Null also if the user may not see it"},
    "epoch": {"$ref": "#/components/schemas/Time"}, "holder": {"type": ["string", "null"]},
    "until": {"$ref": "#/components/schemas/Time"},
    "last_lease": {"type": ["string", "null"], "description": "Of a value that no lease holds: the last one that did, if history knows it"},
    "last_holder": {"type": ["string", "null"]}, "last_ended": {"$ref": "#/components/schemas/Time"},
    "lsn": {"$ref": "#/components/schemas/U64"}}},
"PoolMetrics": {"type": "object", "required": ["pool"], "properties": {
    "pool": {"type": "string"}, "base_lease_seconds": {"$ref": "#/components/schemas/U64"},
    "effective_lease_seconds": {"$ref": "#/components/schemas/U64"},
    "new_device_rate_per_hour": {"type": "number"},
    "ultra_rate_active": {"type": "boolean"}, "force_zero_lease_active": {"type": "boolean"},
    "last_reclaim_count": {"$ref": "#/components/schemas/U64"},
    "last_reclaim_at": {"$ref": "#/components/schemas/U64"},
    "total_reclaimed": {"$ref": "#/components/schemas/U64"},
    "allocated_count": {"$ref": "#/components/schemas/U64"},
    "released_count": {"$ref": "#/components/schemas/U64"},
    "updated_at": {"$ref": "#/components/schemas/U64"},
    "lsn": {"$ref": "#/components/schemas/U64"}}},
"Figures": {"type": "array", "items": {"type": "integer"}},
"PoolHistory": {"type": "object", "description": "One array for each figure, a sample each, oldest first",
    "required": ["pool", "step", "kept", "time"], "properties": {
    "pool": {"type": "string"}, "step": {"type": "string", "enum": ["minute", "hour"]},
    "kept": {"type": "boolean", "description": "False: the server keeps no history of this pool"},
    "time": {"type": "array", "items": {"$ref": "#/components/schemas/U64"}},
    "size": {"type": "array", "items": {"$ref": "#/components/schemas/U64"}},
    "reserved": {"$ref": "#/components/schemas/Figures"}, "active": {"$ref": "#/components/schemas/Figures"},
    "offline": {"$ref": "#/components/schemas/Figures"}, "revoking": {"$ref": "#/components/schemas/Figures"},
    "cooling": {"$ref": "#/components/schemas/Figures"}, "waiting": {"$ref": "#/components/schemas/Figures"},
    "peak": {"$ref": "#/components/schemas/Figures"}, "given": {"$ref": "#/components/schemas/Figures"},
    "ended": {"$ref": "#/components/schemas/Figures"}, "refused": {"$ref": "#/components/schemas/Figures"},
    "lease": {"$ref": "#/components/schemas/Figures"},
    "rate_per_hour": {"type": "array", "items": {"type": "number"}},
    "ultra": {"$ref": "#/components/schemas/Figures"}, "force_zero": {"$ref": "#/components/schemas/Figures"}}},
"User": {"type": "object", "required": ["name", "role", "source"], "properties": {
    "name": {"type": ["string", "null"], "description": "Null: an anonymous client"},
    "role": {"type": "string", "enum": ["none", "reader", "holder", "operator", "admin"]},
    "source": {"type": "string", "description": "Where the user is defined, or how the client came in"},
    "pools": {"type": ["string", "null"], "description": "Patterns; null: all"},
    "holders": {"type": ["string", "null"], "description": "Patterns; null: all"},
    "max_values": {"$ref": "#/components/schemas/U64"},
    "values": {"$ref": "#/components/schemas/U64"}}},
"UserPage": {"type": "object", "required": ["cursor", "users"], "properties": {
    "cursor": {"$ref": "#/components/schemas/U64"},
    "users": {"type": "array", "items": {"$ref": "#/components/schemas/User"}}}},
"Rule": {"type": "object", "required": ["id", "trigger", "enabled"], "properties": {
    "id": {"type": "string"}, "trigger": {"type": "string"}, "enabled": {"type": "boolean"},
    "meta": {"type": ["object", "string"], "description": "Opaque; not in lists"},
    "meta_bytes": {"$ref": "#/components/schemas/U64", "description": "In lists, if there is metadata"},
    "lsn": {"$ref": "#/components/schemas/U64", "description": "Not in lists"}}},
"SensorRules": {"type": "object", "required": ["ref", "cursor", "rules"], "properties": {
    "ref": {"type": "string"}, "cursor": {"$ref": "#/components/schemas/U64"},
    "rules": {"type": "array", "items": {"$ref": "#/components/schemas/Rule"}},
    "lsn": {"$ref": "#/components/schemas/U64"}}},
"RulePage": {"type": "object", "required": ["cursor", "rules"], "properties": {
    "cursor": {"$ref": "#/components/schemas/U64"},
    "rules": {"type": "array", "items": {"$ref": "#/components/schemas/Rule"}},
    "lsn": {"$ref": "#/components/schemas/U64"}}},
"Sensor": {"type": "object", "required": ["ref", "trigger", "enabled", "wanted"], "properties": {
    "ref": {"type": "string"}, "trigger": {"type": "string"}, "enabled": {"type": "boolean"},
    "wanted": {"type": "boolean"}, "active_rules": {"$ref": "#/components/schemas/U64"},
    "state": {"type": "string", "enum": ["stopped", "starting", "running", "stopping", "backoff", "error"]},
    "spec": {"type": ["object", "string"]},
    "lsn": {"$ref": "#/components/schemas/U64"}}},
"SensorPage": {"type": "object", "required": ["cursor", "sensors"], "properties": {
    "cursor": {"$ref": "#/components/schemas/U64"},
    "sensors": {"type": "array", "items": {"$ref": "#/components/schemas/SensorStatus"}},
    "lsn": {"$ref": "#/components/schemas/U64"}}},
"SensorStatus": {"type": "object", "required": ["ref", "trigger", "enabled", "wanted", "supervised", "state"],
    "description": "A sensor and its process", "properties": {
    "ref": {"type": "string"}, "trigger": {"type": "string"}, "enabled": {"type": "boolean"},
    "wanted": {"type": "boolean"}, "active_rules": {"$ref": "#/components/schemas/U64"},
    "supervised": {"type": "boolean", "description": "This server supervises the sensor"},
    "state": {"type": "string", "enum": ["stopped", "starting", "running", "stopping", "backoff", "error"]},
    "pid": {"type": ["integer", "null"]},
    "proof": {"type": ["string", "null"], "enum": ["pidns", "cgroup", "reaped", "none", null], "description": "The evidence that will prove the run dead; none: there is none, and SENSOR RESET is needed"},
    "lease": {"type": ["string", "null"]}, "epoch": {"type": ["string", "null"]},
    "starts": {"$ref": "#/components/schemas/U64"}, "stops": {"$ref": "#/components/schemas/U64"},
    "crashes": {"$ref": "#/components/schemas/U64"}, "restarts": {"$ref": "#/components/schemas/U64"},
    "failures": {"$ref": "#/components/schemas/U64"}, "emitted": {"$ref": "#/components/schemas/U64"},
    "started": {"$ref": "#/components/schemas/Time"}, "uptime_ms": {"$ref": "#/components/schemas/U64"},
    "token_expires_at": {"type": ["integer", "null"], "description": "Seconds since 1970"},
    "next_in_ms": {"type": ["integer", "null"], "description": "In backoff: the time until the next start"},
    "last_exit_code": {"type": ["integer", "null"]}, "last_exit_signal": {"type": ["integer", "null"]},
    "last_reason": {"type": ["string", "null"], "description": "Why the last run ended"},
    "last_error": {"type": ["string", "null"]},
    "lsn": {"$ref": "#/components/schemas/U64", "description": "Not in lists"}}},
"SensorOutput": {"type": "object", "required": ["output", "next", "more", "lost"], "properties": {
    "output": {"type": "string"}, "next": {"type": "string", "description": "Continue after this position", "examples": ["3.4096"]},
    "more": {"type": "boolean"}, "lost": {"type": "boolean", "description": "Output after the position is no longer retained"}}},
"Token": {"type": "object", "required": ["token", "token_type", "token_id", "sub", "scope", "expires_in", "expires_at", "max_exp", "lsn"],
    "description": "A signed token (JWT, EdDSA) for a live lease", "properties": {
    "token": {"type": "string"}, "token_type": {"type": "string", "enum": ["Bearer"]},
    "token_id": {"type": "string", "description": "Its jti: lease and epoch", "examples": ["0-1042.3"]},
    "sub": {"type": "string"}, "scope": {"type": "string"},
    "expires_in": {"type": "integer"}, "expires_at": {"type": "integer", "description": "Seconds since 1970"},
    "max_exp": {"type": "integer", "description": "The latest expiry that a refresh can give, in seconds since 1970"},
    "trigger_types": {"type": "array", "items": {"type": "string"}},
    "lsn": {"$ref": "#/components/schemas/U64"}}},
"TokenState": {"type": "object", "required": ["active"],
    "description": "As in RFC 7662. Claims with a valid signature are shown whether or not the token is live", "properties": {
    "active": {"type": "boolean"},
    "reason": {"type": "string", "description": "Why it is not active", "enum": ["malformed", "bad_header", "unknown_key",
        "bad_signature", "bad_claims", "expired", "stale", "inactive", "gone"]},
    "token_type": {"type": "string"}, "iss": {"type": "string"}, "sub": {"type": "string"},
    "jti": {"type": "string"}, "scope": {"type": "string"},
    "iat": {"type": "integer"}, "exp": {"type": "integer"},
    "max_ttl": {"type": "integer", "description": "The most seconds that one refresh can give"},
    "max_exp": {"type": "integer", "description": "The latest expiry that a refresh can give, in seconds since 1970"},
    "trigger_types": {"type": "array", "items": {"type": "string"}},
    "lsn": {"$ref": "#/components/schemas/U64"}}},
"KeySet": {"type": "object", "required": ["keys"], "description": "RFC 7517, RFC 8037", "properties": {
    "keys": {"type": "array", "items": {"type": "object", "required": ["kty", "crv", "x", "kid"], "properties": {
        "kty": {"type": "string"}, "crv": {"type": "string"}, "x": {"type": "string"}, "kid": {"type": "string"},
        "use": {"type": "string"}, "alg": {"type": "string"}}}}}},
"EventId": {"type": "string", "pattern": "^[0-9]+\\.[0-9]+$", "examples": ["1042.0"]},
"Event": {"type": "object", "required": ["id", "time", "kind"],
    "description": "A transition. An event about a lease has lease, epoch, reason and deadline", "properties": {
    "id": {"$ref": "#/components/schemas/EventId"}, "time": {"$ref": "#/components/schemas/Time"},
    "kind": {"type": "string"}, "lease": {"$ref": "#/components/schemas/LeaseId"},
    "epoch": {"$ref": "#/components/schemas/U64"}, "reason": {"type": "string"},
    "deadline": {"$ref": "#/components/schemas/Time"}, "holder": {"type": "string"},
    "previous_holder": {"type": "string"}, "user": {"type": "string"},
    "pool": {"type": "string"}, "name": {"type": "string", "description": "Of a rule, a sensor or a trigger"},
    "trigger": {"type": "string", "description": "Of an event emitted by a sensor"}, "payload": {"type": "object"},
    "values": {"type": "array", "items": {"type": "string"}},
    "pools": {"type": "array", "items": {"type": "string"}},
    "number": {"$ref": "#/components/schemas/U64"},
    "actor": {"type": "string", "description": "The user whose command did it; absent if time did, or the anonymous user"},
    "reason_text": {"type": "string", "description": "The REASON that the actor gave"}}},
"EventPage": {"type": "object", "required": ["events", "next", "oldest", "newest", "more", "lost", "lsn"], "properties": {
    "events": {"type": "array", "items": {"$ref": "#/components/schemas/Event"}},
    "next": {"$ref": "#/components/schemas/EventId"},
    "oldest": {"type": ["string", "null"], "description": "The oldest retained event"},
    "newest": {"type": ["string", "null"]},
    "more": {"type": "boolean", "description": "There are events after next"},
    "lost": {"type": "boolean", "description": "Events after the requested one are no longer retained"},
    "lsn": {"$ref": "#/components/schemas/U64"}}},
"Problem": {"type": "object", "required": ["type", "title", "status", "outcome"],
    "description": "A refusal (RFC 9457)", "properties": {
    "type": {"type": "string", "examples": ["urn:tenure:result:BUSY"]},
    "title": {"type": "string"}, "status": {"type": "integer"}, "detail": {"type": "string"},
    "result": {"type": "string"},
    "outcome": {"type": "string", "enum": ["committed", "rejected", "unknown"],
        "description": "committed: it is in the log; rejected: it did not happen; unknown: it may have happened, repeat it with the same Idempotency-Key"},
    "retry_at": {"$ref": "#/components/schemas/U64"}, "cap": {"$ref": "#/components/schemas/U64"},
    "index": {"$ref": "#/components/schemas/U64"}, "opid_lsn": {"$ref": "#/components/schemas/U64"},
    "lease": {"$ref": "#/components/schemas/LeaseId"}, "epoch": {"$ref": "#/components/schemas/U64"},
    "state": {"$ref": "#/components/schemas/State"}, "replayed": {"type": "boolean"},
    "holder": {"type": "string", "description": "Of the lease in the way"},
    "until": {"$ref": "#/components/schemas/U64", "description": "Its deadline"},
    "option": {"type": "string", "description": "The option of the pool that differs"},
    "waiting": {"$ref": "#/components/schemas/U64", "description": "The number of leases in line"},
    "waited_ms": {"$ref": "#/components/schemas/U64"},
    "lsn": {"$ref": "#/components/schemas/U64"}}}
});

/* ---- The rest of the components ---- */

static const char openapi_parameters[] = OPENAPI_TEXT({
"IdempotencyKey": {"name": "Idempotency-Key", "in": "header", "required": false,
    "description": "A repeat of the same request with the same key gets the first answer; another request with the key is refused with 422, and a repeat while the first is in progress with 409",
    "schema": {"type": "string", "minLength": 1, "maxLength": 64}},
"LastEventId": {"name": "Last-Event-ID", "in": "header", "required": false,
    "description": "The stream continues after this event",
    "schema": {"$ref": "#/components/schemas/EventId"}},
"EventFormat": {"name": "format", "in": "query", "required": false,
    "description": "json: a page of events, as with Accept: application/json; else a stream",
    "schema": {"type": "string", "enum": ["json"]}},
"EventChannel": {"name": "channel", "in": "query", "required": false,
    "description": "A stream of this channel only: events, pool:NAME or holder:HOLDER",
    "schema": {"type": "string"}}
});

static const char openapi_responses[] = OPENAPI_TEXT({
"Problem": {"description": "The request was refused",
    "content": {"application/problem+json": {"schema": {"$ref": "#/components/schemas/Problem"}}}}
});

/* Each request brings its credentials. Without users, all requests are the anonymous user's: {}. */
static const char openapi_security[] = OPENAPI_TEXT(
[{"basic": []}, {"bearer": []}, {"clientCertificate": []}, {}]
);

static const char openapi_security_schemes[] = OPENAPI_TEXT({
"basic": {"type": "http", "scheme": "basic", "description": "The name and the secret of a user"},
"bearer": {"type": "http", "scheme": "bearer", "description": "The same: Bearer USER:SECRET"},
"clientCertificate": {"type": "mutualTLS",
    "description": "A client certificate that names a user, if tls_client_certificates is not no"},
"leaseToken": {"type": "http", "scheme": "bearer", "bearerFormat": "JWT",
    "description": "The signed token of a live lease, as a running sensor has it; or in the field token"}
});

/* ---- Paths that are not commands ---- */

static const char openapi_paths[] = OPENAPI_TEXT({
"/livez": {"get": {"operationId": "livez", "security": [], "tags": ["server"], "summary": "The server runs",
    "responses": {"4XX": {"$ref": "#/components/responses/Problem"}, "200": {"description": "Yes", "content": {"text/plain": {"schema": {"type": "string"}}}}}}},
"/readyz": {"get": {"operationId": "readyz", "security": [], "tags": ["server"], "summary": "The server accepts requests",
    "parameters": [{"name": "verbose", "in": "query", "required": false, "allowEmptyValue": true,
        "description": "Lists the checks", "schema": {"type": "string"}}],
    "responses": {"4XX": {"$ref": "#/components/responses/Problem"}, "200": {"description": "Yes", "content": {"text/plain": {"schema": {"type": "string"}}}},
        "503": {"description": "No", "content": {"text/plain": {"schema": {"type": "string"}}}}}}},
"/leaderz": {"get": {"operationId": "leaderz", "security": [], "tags": ["server"], "summary": "This node owns the log",
    "responses": {"4XX": {"$ref": "#/components/responses/Problem"}, "200": {"description": "Yes", "content": {"text/plain": {"schema": {"type": "string"}}}},
        "503": {"$ref": "#/components/responses/Problem"}}}},
"/healthz": {"get": {"operationId": "healthz", "security": [], "tags": ["server"], "summary": "The same as /readyz",
    "responses": {"4XX": {"$ref": "#/components/responses/Problem"}, "200": {"description": "Yes", "content": {"text/plain": {"schema": {"type": "string"}}}},
        "503": {"description": "No", "content": {"text/plain": {"schema": {"type": "string"}}}}}}},
"/health": {"get": {"operationId": "health", "security": [], "tags": ["server"], "summary": "The same as /readyz",
    "responses": {"4XX": {"$ref": "#/components/responses/Problem"}, "200": {"description": "Yes", "content": {"text/plain": {"schema": {"type": "string"}}}},
        "503": {"description": "No", "content": {"text/plain": {"schema": {"type": "string"}}}}}}},
"/metrics": {"get": {"operationId": "metrics", "tags": ["server"], "summary": "Metrics for Prometheus",
    "parameters": [{"name": "pools", "in": "query", "required": false,
        "description": "no: omit the pools", "schema": {"type": "string", "enum": ["no", "yes"]}}],
    "responses": {"4XX": {"$ref": "#/components/responses/Problem"}, "200": {"description": "The text format", "content": {"text/plain": {"schema": {"type": "string"}}}}}}},
"/openapi.json": {"get": {"operationId": "openapi", "security": [], "tags": ["server"], "summary": "This document",
    "responses": {"4XX": {"$ref": "#/components/responses/Problem"}, "200": {"description": "The OpenAPI document", "content": {"application/json": {"schema": {"type": "object"}}}}}}}
});

/* clang-format on */

#endif
