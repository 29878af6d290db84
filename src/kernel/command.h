/* Commands: what may be logged, how it is encoded, and which fields each verb takes.
 *
 * An encoded command is what the log stores and what the operation table compares:
 *
 *   uint8  verb          uint8 rights         uint32 fields (a bit each, in the order below)
 *   uint16 + bytes user  uint16 + bytes operation id
 *   then the fields that are present, in order of their bits.
 *
 * Verbs and field bits are only ever appended, and an appended field is optional for the verbs that
 * existed before it: commands of older versions decode unchanged. A malformed command in a
 * log comes from a newer version, so recovery refuses such a log.
 *
 * The verb table lists the required and optional fields of each verb; other fields are malformed.
 * Decoding checks the structure of claims and values, so the kernel need not check it again. */
#ifndef TN_KERNEL_COMMAND_H
#define TN_KERNEL_COMMAND_H

#include "kernel/types.h"

/* Rights are decided by the server or the embedding program and stored in the command, so that a
 * changed configuration does not change a replay. */
enum kernel_rights {
    KERNEL_RIGHT_OPERATOR = 1,
    KERNEL_RIGHT_SUPERVISOR = 2, /* may use internal pools and report for sensors */
};

enum kernel_field {
    KERNEL_F_LEASE = 1 << 0,     /* u64 shard, u64 lsn */
    KERNEL_F_EPOCH = 1 << 1,     /* u64 */
    KERNEL_F_HOLDER = 1 << 2,    /* bytes16 */
    KERNEL_F_TTL = 1 << 3,       /* u32 seconds */
    KERNEL_F_AFTER = 1 << 4,     /* u32 seconds */
    KERNEL_F_META = 1 << 5,      /* bytes16 */
    KERNEL_F_IMMEDIATE = 1 << 6, /* no bytes: the bit is the flag */
    KERNEL_F_POOL = 1 << 7,      /* bytes16 */
    KERNEL_F_CLAIMS = 1 << 8,    /* u16 n, n claims */
    KERNEL_F_VALUES = 1 << 9,    /* u32 n, n values */
    KERNEL_F_POLICY = 1 << 10,   /* policy patch */
    KERNEL_F_LIMITS = 1 << 11,   /* u16 n, n * u64 */
    KERNEL_F_NAME = 1 << 12,     /* bytes16: rule id or sensor ref */
    KERNEL_F_TRIGGER = 1 << 13,  /* bytes16; of a report: its word */
    KERNEL_F_ENABLED = 1 << 14,  /* u8 */
    KERNEL_F_SPEC = 1 << 15,     /* bytes16 */
    KERNEL_F_DEADLINE = 1 << 16, /* u64 milliseconds: the deadline of an import (operator) */
    KERNEL_F_TIMES = 1 << 17,    /* u64 created, u64 last seen, u64 offline since; 0: not given */
    KERNEL_F_FIGURES = 1 << 18,  /* u64 values ever given, u64 reclaimed */
    KERNEL_F_EDITION = 1 << 19,  /* u32 */
    KERNEL_F_NOTE = 1 << 20,     /* bytes16: the REASON that the user gave */
    KERNEL_F_WAIT = 1 << 21,     /* u32 seconds: how long to wait in line */
    KERNEL_F_ROLE = 1 << 22,     /* u8: of a user */
    KERNEL_F_QUOTA = 1 << 23,    /* u32: the most values that the user may hold; 0: any number */
};

/* The edition of the rules by which commands are applied. A logged command must have the same
 * effect in every later version. So a change in the effect of an existing encoding raises this
 * number, and the kernel follows the old rule while the edition of the state is lower
 * (kernel_edition). New verbs, fields and options need no edition. A server raises the edition of
 * its log at start, by a LIMITS command. Edition 0 is version 0.1.0. Edition 2 remembers the operation
 * of a waiting lease for a window from its answer on, bounds the values that waiting leases want, counts
 * the effort of a waiter's end, and serves no line in RESTORED. Edition 3 counts the values that a request
 * names when it asks a pool for more than it has. */
#define KERNEL_EDITION 3u

/* Verb, text, required fields, optional fields, needs operator rights. The position of a row is
 * part of the format: append rows only. */
/* clang-format off */
#define KERNEL_VERB_TABLE(X) \
    X(TICK,          "tick",          0, 0, 0) \
    X(LIMITS,        "limits",        KERNEL_F_LIMITS, KERNEL_F_EPOCH /* seeds the generator */ | KERNEL_F_EDITION, 1) \
    X(RESTORED,      "restored",      0, 0, 1) \
    X(POOL_CREATE,   "pool create",   KERNEL_F_POOL | KERNEL_F_POLICY, KERNEL_F_NOTE, 1) \
    X(POOL_ALTER,    "pool alter",    KERNEL_F_POOL | KERNEL_F_POLICY, KERNEL_F_NOTE, 1) \
    X(POOL_DROP,     "pool drop",     KERNEL_F_POOL, KERNEL_F_NOTE, 1) \
    X(POOL_ADD,      "pool add",      KERNEL_F_POOL | KERNEL_F_VALUES, KERNEL_F_NOTE, 1) \
    X(POOL_REMOVE,   "pool remove",   KERNEL_F_POOL | KERNEL_F_VALUES, KERNEL_F_NOTE, 1) \
    X(ALLOC,         "alloc",         KERNEL_F_HOLDER | KERNEL_F_CLAIMS, KERNEL_F_TTL | KERNEL_F_META | KERNEL_F_DEADLINE | KERNEL_F_WAIT | KERNEL_F_QUOTA, 0) \
    X(RESERVE,       "reserve",       KERNEL_F_HOLDER | KERNEL_F_CLAIMS | KERNEL_F_TTL, KERNEL_F_META | KERNEL_F_WAIT | KERNEL_F_QUOTA, 0) \
    X(ACTIVATE,      "activate",      KERNEL_F_LEASE | KERNEL_F_EPOCH | KERNEL_F_HOLDER, 0, 0) \
    X(TOUCH,         "touch",         KERNEL_F_LEASE | KERNEL_F_EPOCH, KERNEL_F_TTL | KERNEL_F_META, 0) \
    X(RELEASE,       "release",       KERNEL_F_LEASE | KERNEL_F_EPOCH | KERNEL_F_HOLDER, KERNEL_F_IMMEDIATE | KERNEL_F_NOTE, 0) \
    X(REVOKE,        "revoke",        KERNEL_F_LEASE, KERNEL_F_AFTER | KERNEL_F_EPOCH | KERNEL_F_NOTE, 1) \
    X(ACK,           "ack",           KERNEL_F_LEASE | KERNEL_F_EPOCH | KERNEL_F_HOLDER, 0, 0) \
    X(RECLAIM,       "reclaim",       KERNEL_F_LEASE, KERNEL_F_NOTE, 1) \
    X(REKEY,         "rekey",         KERNEL_F_LEASE | KERNEL_F_EPOCH | KERNEL_F_HOLDER, KERNEL_F_NOTE, 1) \
    X(DISOWN,        "disown",        KERNEL_F_HOLDER, KERNEL_F_POOL | KERNEL_F_NOTE, 1) \
    X(SWEEP,         "sweep",         0, KERNEL_F_POOL, 1) \
    X(RULE_SET,      "rule set",      KERNEL_F_NAME | KERNEL_F_TRIGGER | KERNEL_F_ENABLED, KERNEL_F_EPOCH /* its revision */ | KERNEL_F_META | KERNEL_F_NOTE, 1) \
    X(RULE_ENABLE,   "rule enable",   KERNEL_F_NAME | KERNEL_F_ENABLED, KERNEL_F_EPOCH | KERNEL_F_NOTE, 1) \
    X(RULE_DELETE,   "rule delete",   KERNEL_F_NAME, KERNEL_F_EPOCH | KERNEL_F_NOTE, 1) \
    X(SENSOR_SET,    "sensor set",    KERNEL_F_NAME | KERNEL_F_TRIGGER | KERNEL_F_ENABLED | KERNEL_F_SPEC, KERNEL_F_NOTE, 1) \
    X(SENSOR_ENABLE, "sensor enable", KERNEL_F_NAME | KERNEL_F_ENABLED, KERNEL_F_NOTE, 1) \
    X(SENSOR_DELETE, "sensor delete", KERNEL_F_NAME, KERNEL_F_NOTE, 1) \
    X(IMPORT,        "import",        KERNEL_F_HOLDER | KERNEL_F_CLAIMS, KERNEL_F_META | KERNEL_F_DEADLINE | KERNEL_F_TIMES | KERNEL_F_QUOTA, 1) \
    X(POOL_SEED,     "pool seed",     KERNEL_F_POOL | KERNEL_F_FIGURES, 0, 1) \
    X(EMIT,          "emit",          KERNEL_F_LEASE | KERNEL_F_EPOCH | KERNEL_F_NAME | KERNEL_F_TRIGGER, KERNEL_F_META /* the payload */, 0) \
    X(SENSOR_REPORT, "sensor report", KERNEL_F_NAME | KERNEL_F_TRIGGER /* what happened */, KERNEL_F_LEASE | KERNEL_F_EPOCH | KERNEL_F_META, 1) \
    X(UNATTEND,      "unattend",      0, KERNEL_F_LEASE /* else all */, 1) \
    X(USER_ADD,      "user add",      KERNEL_F_NAME | KERNEL_F_ROLE | KERNEL_F_SPEC /* the hashed secret */, KERNEL_F_POOL | KERNEL_F_HOLDER /* patterns */ | KERNEL_F_QUOTA | KERNEL_F_NOTE, 1) \
    X(USER_SET,      "user set",      KERNEL_F_NAME, KERNEL_F_ROLE | KERNEL_F_SPEC | KERNEL_F_POOL | KERNEL_F_HOLDER | KERNEL_F_QUOTA | KERNEL_F_NOTE, 1) \
    X(USER_DELETE,   "user delete",   KERNEL_F_NAME, KERNEL_F_NOTE, 1)
/* clang-format on */

enum kernel_verb {
#define KERNEL_VERB_ENUM(id, name, required, optional, operator_only) KERNEL_VERB_##id,
    KERNEL_VERB_TABLE(KERNEL_VERB_ENUM)
#undef KERNEL_VERB_ENUM
        KERNEL_VERB_COUNT
};

struct kernel_verb_row {
    const char *name;
    uint32_t required, optional;
    bool operator_only;
};

extern const struct kernel_verb_row kernel_verb_rows[KERNEL_VERB_COUNT];

/* A command with its fields; byte runs are borrowed from the encoded bytes or from the caller. */
struct kernel_command {
    enum kernel_verb verb;
    uint8_t rights;
    uint32_t fields;
    struct tn_bytes user; /* empty: the anonymous user */
    struct tn_bytes opid; /* empty: none */
    struct kernel_lease_id lease;
    uint64_t epoch;
    struct tn_bytes holder;
    uint32_t ttl_s;
    uint32_t after_s;
    uint32_t wait_s;
    uint32_t quota;
    uint8_t role;
    uint64_t deadline_ms;
    uint32_t edition;
    uint64_t created_ms, seen_ms, offline_ms; /* for an import; 0: not given */
    uint64_t given_values, reclaimed;         /* the past of a pool */
    struct tn_bytes meta;
    struct tn_bytes pool;
    struct tn_bytes claims; /* encoded, without the count */
    uint32_t claim_count;
    struct tn_bytes values; /* encoded, without the count */
    uint32_t value_count;
    struct tn_bytes name;
    struct tn_bytes trigger;
    bool enabled;
    struct tn_bytes spec;
    struct tn_bytes note; /* why the user gave the command; goes into its events */
    const struct kernel_policy_patch *policy; /* for encoding; NULL: policy_bytes */
    struct tn_bytes policy_bytes;             /* from decoding: kernel_policy_read */
    struct kernel_limits limits;
};

/* One claim of a request: any `count` values of a pool, or the `count` requested ones. A single
 * claim for any 0 values means one value, or all values of a returning sticky holder. */
struct kernel_claim {
    struct tn_bytes pool;
    uint32_t count;
    bool any;
    struct tn_bytes values; /* encoded; empty if any */
};

/* A requested value: a number, or text in the pool's format, or the name of a resource. */
struct kernel_requested {
    bool is_text;
    uint64_t number;
    struct tn_bytes text;
};

/* Encoding. The caller first writes claims and values into its own buffers:
 *   claim: bytes16 pool, u8 any, u32 count, values     value: u8 0, u64 | u8 1, bytes16 */
void kernel_claim_write(struct tn_writer *w, struct tn_bytes pool, bool any, uint32_t count);
void kernel_requested_write_number(struct tn_writer *w, uint64_t number);
void kernel_requested_write_text(struct tn_writer *w, struct tn_bytes text);

/* Whether the encoded command could be decoded: a known verb with the fields of its row, and claims,
 * values and a policy patch that are well-formed. */
bool kernel_command_whole(const struct kernel_command *command);

/* The encoded length of a whole command; 0 if it exceeds KERNEL_COMMAND_MAX or a field is too long. */
uint32_t kernel_command_size(const struct kernel_command *command);
#define KERNEL_COMMAND_MIN 10u /* without user, operation id and fields */

/* Returns the encoded length, 0 if it does not fit or a field is too long. `command->fields`
 * selects the fields. */
uint32_t kernel_command_encode(const struct kernel_command *command, void *out, size_t capacity);

/* False if malformed: unknown verb, wrong fields, inconsistent lengths, extra bytes. Checks only
 * the form; the kernel refuses invalid names and numbers. */
bool kernel_command_decode(struct tn_bytes bytes, struct kernel_command *ret_command);

/* Iterate over the bytes that decode has checked. */
struct kernel_claim kernel_claim_read(struct tn_reader *r);
void kernel_claim_next(struct tn_reader *r,
                       struct kernel_claim *ret_claim); /* the same, in place */
struct kernel_requested kernel_requested_read(struct tn_reader *r);
struct kernel_policy_patch kernel_policy_read(struct tn_bytes bytes);

/* Whether these bytes are this many claims, as decoding checks it. */
bool kernel_claims_valid(struct tn_bytes claims, uint32_t count);

/* The number of values in all claims; saturates. */
uint64_t kernel_claims_total(const struct kernel_command *command);

#endif
