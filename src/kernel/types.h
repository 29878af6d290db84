/* The kernel's vocabulary: sizes, states, limits, pool options. Tables here are the only place
 * where a limit or an option is named; parsing, checking, storing and printing all follow them. */
#ifndef TN_KERNEL_TYPES_H
#define TN_KERNEL_TYPES_H

#include <stdbool.h>
#include <stdint.h>

#include "base/bytes.h"

#define KERNEL_HOLDER_MAX 128u
#define KERNEL_USER_MAX 64u
#define KERNEL_OPID_MAX 64u
#define KERNEL_POOL_BASE_MAX 64u
#define KERNEL_POOL_MAX (KERNEL_POOL_BASE_MAX + 1u + 64u) /* name@scope */
#define KERNEL_RESOURCE_MAX 64u
#define KERNEL_RULE_MAX 128u
#define KERNEL_TOMBSTONES_MAX 4096u /* remembered rules that do not exist */
#define KERNEL_SENSOR_SPEC_MAX 16384u
#define KERNEL_ROLES 4u        /* roles of users, from 1; each has the rights of those before it */
#define KERNEL_SECRET_MAX 127u /* bytes of a hashed secret */
#define KERNEL_PATTERNS_MAX 1024u /* bytes of the patterns of a user */
#define KERNEL_META_MAX 4096u
#define KERNEL_NOTE_MAX 256u /* why a command was given, in words */
#define KERNEL_BUNDLE_MAX 4096u
#define KERNEL_CLAIMS_MAX 256u /* claims of one request */
#define KERNEL_EXCLUDES_MAX 16u
#define KERNEL_SPANS_MAX 64u
#define KERNEL_COMMAND_MAX (512u * 1024u) /* encoded bytes */
#define KERNEL_RESTORES_MAX 32u           /* generations of one lineage */
#define KERNEL_TIME_MAX ((uint64_t)1 << 53)
#define KERNEL_WAIT_MAX_S 86400u      /* the longest wait in line */
#define KERNEL_WAIT_CLAIMS_MAX 16384u /* bytes of the claims of a waiting lease */
#define KERNEL_UNATTENDED_MS 10000u   /* how long a waiter keeps its place without its client */
#define KERNEL_PLACE_LOOKED 1024u     /* waiters counted before one; then "at least" */

/* 128 bits, written shard-lsn; ordered by shard, then lsn. */
struct kernel_lease_id {
    uint64_t shard;
    uint64_t lsn;
};

static inline int kernel_lease_id_compare(struct kernel_lease_id a, struct kernel_lease_id b) {
    if (a.shard != b.shard) {
        return a.shard < b.shard ? -1 : 1;
    }
    return a.lsn < b.lsn ? -1 : a.lsn > b.lsn;
}

/* Lease states; the order is stored on disk. RELEASED to REVOKED are terminal.
 *
 * OVERDUE is never stored and no command leads to it. A read shows it in place of `reserved`,
 * `active` or `offline` when the clock has passed the lease's deadline and the log has not recorded
 * that (engine/authority.c). */
#define KERNEL_STATE_TABLE(X) \
    X(RESERVED, "reserved")   \
    X(ACTIVE, "active")       \
    X(OFFLINE, "offline")     \
    X(REVOKING, "revoking")   \
    X(RELEASED, "released")   \
    X(EXPIRED, "expired")     \
    X(REVOKED, "revoked")     \
    X(WAITING, "waiting") /* in line for its values, without authority; see waiting.h */

enum kernel_state {
    KERNEL_NO_STATE, /* a free record */
#define KERNEL_STATE_ENUM(name, text) KERNEL_##name,
    KERNEL_STATE_TABLE(KERNEL_STATE_ENUM)
#undef KERNEL_STATE_ENUM
        KERNEL_STATE_COUNT,
    KERNEL_OVERDUE = KERNEL_STATE_COUNT,
    KERNEL_SHOWN_COUNT /* states that reads show */
};

const char *kernel_state_name(enum kernel_state state);

static inline bool kernel_state_terminal(enum kernel_state state) {
    return state >= KERNEL_RELEASED && state <= KERNEL_REVOKED;
}

/* States of a value, as reads show them. OVERDUE as above; a value of a set is never excluded. */
#define KERNEL_VALUE_STATE_TABLE(X) \
    X(AVAILABLE, "available")       \
    X(RESERVED, "reserved")         \
    X(ACTIVE, "active")             \
    X(OFFLINE, "offline")           \
    X(REVOKING, "revoking")         \
    X(COOLING, "cooling")           \
    X(EXCLUDED, "excluded")         \
    X(OVERDUE, "overdue")

enum kernel_value_state {
    KERNEL_VALUE_ANY, /* in a filter only */
#define KERNEL_VALUE_STATE_ENUM(name, text) KERNEL_VALUE_##name,
    KERNEL_VALUE_STATE_TABLE(KERNEL_VALUE_STATE_ENUM)
#undef KERNEL_VALUE_STATE_ENUM
        KERNEL_VALUE_STATE_COUNT
};

const char *kernel_value_state_name(enum kernel_value_state state);

/* Why a transition happened. */
#define KERNEL_REASON_TABLE(X)      \
    X(NONE, "")                     \
    X(REQUESTED, "requested")       \
    X(RELEASED, "released")         \
    X(EXPIRED, "expired")           \
    X(REVOKED, "revoked")           \
    X(ACKNOWLEDGED, "acknowledged") \
    X(RECLAIMED, "reclaimed")       \
    X(FORCED, "forced")             \
    X(DISOWNED, "disowned")         \
    X(RETURNED, "returned")         \
    X(REKEYED, "rekeyed")           \
    X(IMPORTED, "imported")         \
    X(WAITED, "waited")             \
    X(ABANDONED, "abandoned")       \
    X(REFUSED, "refused")

enum kernel_reason {
#define KERNEL_REASON_ENUM(name, text) KERNEL_REASON_##name,
    KERNEL_REASON_TABLE(KERNEL_REASON_ENUM)
#undef KERNEL_REASON_ENUM
        KERNEL_REASON_COUNT
};

const char *kernel_reason_name(enum kernel_reason reason);

/* Limits: name, default, smallest, largest. The first record of a log carries them; they change
 * only by a logged command at start. Rows are never reordered or removed: position is the format.
 * */
/* clang-format off */
#define KERNEL_LIMIT_TABLE(X) \
    X(LEASES,          "leases_max",          1048576, 1, 268435456) /* live */ \
    X(MEMBERS,         "members_max",         1310720, 1, 536870912) /* held or cooling values */ \
    X(HISTORY,         "history_max",         131072,  1, 67108864)  /* ended leases, and their values */ \
    X(HISTORY_SECONDS, "history_seconds",     3600,    0, 31536000) \
    X(POOLS,           "pools_max",           16384,   1, 1048576) \
    X(RESOURCES,       "resources_max",       65536,   1, 16777216)  /* named, in sets */ \
    X(NAMES,           "names_max",           1310720, 1, 536870912) /* distinct holders and users */ \
    X(TEXT_BYTES,      "text_bytes_max",      536870912, 65536, 68719476736) /* names and metadata */ \
    X(OPS,             "ops_max",             1048576, 1, 134217728) \
    X(OP_SECONDS,      "op_window_seconds",   600,     1, 604800) \
    X(BUNDLE,          "bundle_max",          256,     1, 4096) \
    X(SWEEP_STEP,      "sweep_step",          64,      1, 65536)     /* per allocation */ \
    X(TICK_STEP,       "tick_step",           1024,    1, 65536)     /* per tick or sweep */ \
    X(DISOWNS,         "disowns_max",         1024,    1, 65536)     /* in progress */ \
    X(RATES,           "sticky_pools_max",    256,     1, 65536) \
    X(RATE_WINDOW,     "rate_window_max",     7200,    1, 86400) \
    X(COLD,            "cold_max",            65536,   1, 16777216)  /* freed values remembered */ \
    X(COLD_PER_POOL,   "cold_per_pool_max",   4096,    1, 65536) \
    X(RULES,           "rules_max",           65536,   1, 16777216) \
    X(SENSORS,         "sensors_max",         4096,    1, 1048576) \
    X(WAITERS,         "waiters_max",         65536,   1, 16777216)  /* places in lines: a waiting lease has one in each of its pools */ \
    X(USERS,           "users_max",           4096,    1, 65536)     /* added at run time */
/* clang-format on */

enum kernel_limit {
#define KERNEL_LIMIT_ENUM(id, name, standard, low, high) KERNEL_LIMIT_##id,
    KERNEL_LIMIT_TABLE(KERNEL_LIMIT_ENUM)
#undef KERNEL_LIMIT_ENUM
        KERNEL_LIMIT_COUNT
};

struct kernel_limits {
    uint64_t of[KERNEL_LIMIT_COUNT];
};

struct kernel_limit_row {
    const char *name;
    uint64_t standard, low, high;
};

extern const struct kernel_limit_row kernel_limit_rows[KERNEL_LIMIT_COUNT];

struct kernel_limits kernel_limits_default(void);
/* The first limit that is out of its range, or KERNEL_LIMIT_COUNT. */
enum kernel_limit kernel_limits_bad(const struct kernel_limits *limits);

enum kernel_kind { KERNEL_RANGE, KERNEL_SET };
enum kernel_strategy { KERNEL_LOWEST, KERNEL_RANDOM, KERNEL_NEXT, KERNEL_COLDEST };
enum kernel_format { KERNEL_DEC, KERNEL_HEX, KERNEL_MAC, KERNEL_IPV4, KERNEL_FORMAT_COUNT };
enum kernel_fallback { KERNEL_FALLBACK_NONE, KERNEL_FALLBACK_JSON };

/* The fields of metadata that a device can be known by, in the default order. */
enum kernel_identity_field {
    KERNEL_IDENTITY_DEVICE_KEY = 1,
    KERNEL_IDENTITY_DEVICE_ID,
    KERNEL_IDENTITY_SERIAL,
    KERNEL_IDENTITY_MAC,
    KERNEL_IDENTITY_UUID,
    KERNEL_IDENTITY_LAST = KERNEL_IDENTITY_UUID,
};
#define KERNEL_IDENTITY_BITS 4u
#define KERNEL_IDENTITY_MAX 0xfffffu /* five fields */

/* How a pool derives holders from metadata. */
struct kernel_identity {
    uint64_t fields; /* the option identity_fields */
    bool fallback_json;
};

/* How an option's number is written. */
enum kernel_option_type {
    KERNEL_TYPE_NUMBER,
    KERNEL_TYPE_SECONDS,
    KERNEL_TYPE_FLAG,
    KERNEL_TYPE_MICRO, /* a fraction in millionths */
    KERNEL_TYPE_KIND,
    KERNEL_TYPE_STRATEGY,
    KERNEL_TYPE_FORMAT,
    KERNEL_TYPE_FALLBACK,
    /* Enum kernel_identity_field, four bits each, the first one lowest; 0: all fields in their
     * order. */
    KERNEL_TYPE_FIELDS,
};

/* Pool options: name, type, default, largest. Position is the format. */
/* clang-format off */
#define KERNEL_OPTION_TABLE(X) \
    X(KIND,            "kind",                          KIND,     KERNEL_RANGE,  KERNEL_SET) \
    X(LO,              "lo",                            NUMBER,   1,             UINT64_MAX) \
    X(HI,              "hi",                            NUMBER,   4294967294,    UINT64_MAX) \
    X(STRATEGY,        "strategy",                      STRATEGY, KERNEL_LOWEST, KERNEL_COLDEST) \
    X(LEASE,           "lease",                         SECONDS,  0,             UINT32_MAX) \
    X(MAX_LEASE,       "max_lease",                     SECONDS,  0,             UINT32_MAX) \
    X(MAX_HOLD,        "max_hold",                      SECONDS,  0,             UINT32_MAX) \
    X(RESERVE_TTL_MAX, "reserve_ttl_max",               SECONDS,  3600,          UINT32_MAX) \
    X(GRACE,           "grace",                         SECONDS,  0,             UINT32_MAX) \
    X(COOLDOWN,        "cooldown",                      SECONDS,  0,             UINT32_MAX) \
    X(STICKY,          "sticky",                        FLAG,     0,             1) \
    X(MAX_PER_HOLDER,  "max_per_holder",                NUMBER,   0,             UINT32_MAX) \
    X(FORMAT,          "format",                        FORMAT,   KERNEL_DEC,    KERNEL_IPV4) \
    X(SCOPED,          "scoped",                        FLAG,     0,             1) \
    X(FALLBACK,        "identity_fallback",             FALLBACK, KERNEL_FALLBACK_NONE, KERNEL_FALLBACK_JSON) \
    X(ADAPTIVE,        "adaptive_enabled",              FLAG,     1,             1) \
    X(MIN_LEASE,       "min_lease_seconds",             SECONDS,  0,             UINT32_MAX) \
    X(RATE_WINDOW,     "rate_window_seconds",           SECONDS,  3600,          86400) \
    X(HIGH_RATE,       "high_rate_threshold_per_hour",  MICRO,    60000000,      1000000000000000) \
    X(ULTRA_RATE,      "ultra_rate_threshold_per_hour", MICRO,    180000000,     1000000000000000) \
    X(ULTRA_SUSTAIN,   "ultra_rate_sustain_seconds",    SECONDS,  600,           UINT32_MAX) \
    X(MIN_FACTOR,      "high_rate_min_factor",          MICRO,    200000,        1000000) \
    X(FORCE_RELEASE,   "ultra_force_release",           FLAG,     1,             1) \
    X(METRICS_SECONDS, "metrics_emit_interval_seconds", SECONDS,  5,             UINT32_MAX) \
    X(INTERNAL,        "internal",                      FLAG,     0,             1) \
    X(IDENTITY,        "identity_fields",               FIELDS,   0,             KERNEL_IDENTITY_MAX)
/* clang-format on */

enum kernel_option {
#define KERNEL_OPTION_ENUM(id, name, type, standard, high) KERNEL_OPTION_##id,
    KERNEL_OPTION_TABLE(KERNEL_OPTION_ENUM)
#undef KERNEL_OPTION_ENUM
        KERNEL_OPTION_COUNT
};

/* The default lease of a sticky pool. */
#define KERNEL_STICKY_LEASE_S 2592000u

struct kernel_option_row {
    const char *name;
    enum kernel_option_type type;
    uint64_t standard, high;
};

extern const struct kernel_option_row kernel_option_rows[KERNEL_OPTION_COUNT];

struct kernel_span {
    uint64_t lo, hi; /* both included */
};

/* Pools store this many options, so that a new option does not move the fields behind them. An
 * option that a stored pool lacks reads as 0, which must mean the behavior before the option. */
#define KERNEL_OPTION_SLOTS 32u

struct kernel_policy {
    uint64_t of[KERNEL_OPTION_SLOTS];
    struct kernel_span exclude[KERNEL_EXCLUDES_MAX]; /* sorted, disjoint */
    uint64_t exclude_count;
    /* The spans of a range that has several: sorted, with a gap between any two; lo is the first
     * one's and hi the last one's. span_count 0: there is one, from lo to hi. */
    struct kernel_span spans[KERNEL_SPANS_MAX];
    uint64_t span_count;
};

/* Some options of a policy: bit n of `mask` says that of[n] is set; exclude has its own flag.
 * `strict` refuses options that do not apply to the pool; older logs lack it. */
struct kernel_policy_patch {
    uint32_t mask;
    bool has_exclude;
    bool has_spans; /* the spans are the range, in any order; lo and hi must be its ends */
    bool strict;
    struct kernel_policy values;
};

struct kernel_policy kernel_policy_default(void);
void kernel_policy_apply(struct kernel_policy *policy, const struct kernel_policy_patch *patch);
/* The policy of a new pool: the defaults with the patch. */
struct kernel_policy kernel_policy_new(const struct kernel_policy_patch *patch);

/* Why options contradict each other. A result carries the number, so the order is stored. */
/* clang-format off */
#define KERNEL_FAULT_TABLE(X) \
    X(NONE,        "") \
    X(HIGH,        "an option is above its largest value") \
    X(EXCLUDE,     "exclude: two spans overlap, or one ends before it begins") \
    X(RANGE,       "range: lo is above hi") \
    X(SET,         "a set has no range and no exclude and cannot be scoped") \
    X(FORMAT,      "format mac: hi is above ff:ff:ff:ff:ff:ff") \
    X(MAX_LEASE,   "lease is above max_lease") \
    X(NO_LEASE,    "sticky: lease must be above 0") \
    X(MIN_LEASE,   "lease is below min_lease_seconds") \
    X(RATE_WINDOW, "rate_window_seconds is 0 or above the server's limit rate_window_max") \
    X(ULTRA_RATE,  "ultra_rate_threshold_per_hour is below high_rate_threshold_per_hour") \
    X(NOT_STICKY,  "needs a sticky pool (sticky yes)") \
    X(OVERLAP,     "range: two spans overlap") \
    X(SPANS,       "lo, hi: the pool has several spans; list all of them with RANGE") \
    X(IPV4,        "format ipv4: hi is above 255.255.255.255") \
    X(BOUNDS,      "lo, hi: they differ from the ends of RANGE")
/* clang-format on */

enum kernel_fault {
#define KERNEL_FAULT_ENUM(id, text) KERNEL_FAULT_##id,
    KERNEL_FAULT_TABLE(KERNEL_FAULT_ENUM)
#undef KERNEL_FAULT_ENUM
        KERNEL_FAULT_COUNT
};

/* A sentence; for NOT_STICKY it follows the name of the option. "" for an unknown fault. */
const char *kernel_fault_text(uint64_t fault);
/* NONE: the options agree. Puts exclusions and spans in order; spans that touch become one. */
enum kernel_fault kernel_policy_fault(struct kernel_policy *policy, uint64_t rate_window_max);
/* The same for a patched policy, in the form of a result: the fault in the low eight bits and, for
 * NOT_STICKY, the option above them. */
#define KERNEL_FAULT_BITS 8u
uint64_t kernel_policy_patch_fault(const struct kernel_policy_patch *patch,
                                   struct kernel_policy *policy, uint64_t rate_window_max);

/* The options that a patch names, but for the kind: a bit each, in the numbering of KERNEL_OPTION_ALL.
 * A range is one option: its bounds and its spans go together. */
uint64_t kernel_policy_patch_options(const struct kernel_policy_patch *patch);

/* Whether the option means something for a pool of this policy: bounds mean nothing in a set, and
 * the adaptive lease is for sticky pools. */
bool kernel_option_applies(const struct kernel_policy *policy, unsigned option);

/* The options of a pool in one numbering: those of the table, then the others. */
enum { KERNEL_OPTION_EXCLUDE = KERNEL_OPTION_COUNT, KERNEL_OPTION_SPANS, KERNEL_OPTION_ALL };
const char *kernel_option_name(unsigned option);
/* The first option that differs and applies; KERNEL_OPTION_ALL: none. Both policies are in order.
 * */
unsigned kernel_policy_differs(const struct kernel_policy *a, const struct kernel_policy *b);

/* The span of a range with this number, or the first one above it. False: there is none. The policy
 * must be in order, as for all functions below. */
bool kernel_policy_span(const struct kernel_policy *policy, uint64_t number,
                        struct kernel_span *ret_span);
bool kernel_policy_contains(const struct kernel_policy *policy, uint64_t number);
/* The number of values of a range; 2^64 is returned as 2^64-1. */
uint64_t kernel_policy_size(const struct kernel_policy *policy);
/* The i-th span, from 0; false behind the last. */
bool kernel_policy_span_at(const struct kernel_policy *policy, uint64_t i,
                           struct kernel_span *ret_span);

/* One value of one pool, as results, views and events show it. */
struct kernel_value {
    uint32_t pool;  /* the kernel's number of the pool; for kernel_pool_name within the same call */
    uint16_t claim; /* in a result: the claim it answers, from 0; else 0 */
    uint8_t format; /* enum kernel_format */
    uint8_t name_len; /* > 0: a named resource, without a number */
    uint64_t number;
    char name[KERNEL_RESOURCE_MAX];
};

/* Names and texts. All functions accept any bytes. */
bool kernel_name_pool_valid(struct tn_bytes name, bool scope_allowed);
bool kernel_name_resource_valid(struct tn_bytes name);
/* Printable ASCII without blanks and colons: HTTP has NAME:SECRET. */
bool kernel_name_user_valid(struct tn_bytes name);
/* The part before '@', and whether there was one. */
struct tn_bytes kernel_name_pool_base(struct tn_bytes name, bool *ret_scoped);

/* Reads a number as the format writes it; false if it is not one. */
bool kernel_value_parse(enum kernel_format format, struct tn_bytes text, uint64_t *ret_number);
/* Writes it, NUL-terminated; returns the length. The largest is 20 digits. */
#define KERNEL_VALUE_TEXT_MAX 24u
uint32_t kernel_value_format(enum kernel_format format, uint64_t number,
                             char out[KERNEL_VALUE_TEXT_MAX]);

struct kernel_lease_filter {
    struct tn_bytes pool;    /* empty: any */
    struct tn_bytes holder;  /* empty: any */
    struct tn_bytes prefix;  /* the beginning of the holder; empty: any */
    enum kernel_state state; /* KERNEL_NO_STATE: any live one */
};

/* How full the tables are. */
struct kernel_usage {
    uint64_t leases, members, cooling, history, history_members, pools, resources, names,
        text_chunks, text_chunks_max, ops, disowns, rates, cold, rules, sensors, waiters, users;
};

#endif
