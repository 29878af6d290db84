/* Results: every named outcome of a request in one table (name, class, HTTP status, CLI exit code,
 * text), the answer to a command, and the views that reads fill.
 *
 * The class says whether a write happened:
 *   COMMITTED  it is in the log, once, or the committed state refused it; the result does not change;
 *   REJECTED   it did not happen: nothing was logged;
 *   UNKNOWN    it may have happened: repeat it with the same operation id to find out. */
#ifndef TN_KERNEL_RESULT_H
#define TN_KERNEL_RESULT_H

#include "kernel/types.h"

enum tn_outcome { TN_COMMITTED, TN_REJECTED, TN_UNKNOWN };

/* clang-format off */
#define TN_RESULT_TABLE(X) \
    X(OK,             COMMITTED, 200,  0, "done") \
    X(NOOP,           COMMITTED, 200,  0, "nothing to do") \
    X(EXISTS,         COMMITTED, 409, 10, "it already exists") \
    X(NOTFOUND,       COMMITTED, 404, 11, "no such lease, resource, rule, sensor or user") \
    X(RETIRED,        COMMITTED, 410, 12, "the lease has ended and is no longer in history") \
    X(BUSY,           COMMITTED, 409, 13, "held or cooling, or its holder is being disowned") \
    X(EXHAUSTED,      COMMITTED, 409, 14, "no free value in the pool") \
    X(QUOTA,          COMMITTED, 409, 15, "the quota of the holder in this pool, or of the user, is used up") \
    X(STATE,          COMMITTED, 409, 16, "not allowed in this state of the lease") \
    X(HOLDER,         COMMITTED, 403, 17, "another holder has this lease") \
    X(STALE,          COMMITTED, 409, 18, "the epoch is not current, or a newer revision is known") \
    X(TOO_LARGE,      COMMITTED, 413, 19, "it exceeds a limit") \
    X(BAD_TTL,        COMMITTED, 422, 20, "the ttl is zero or above the pool's cap") \
    X(BAD_VALUE,      COMMITTED, 422, 21, "not a value of this pool, or named twice") \
    X(BAD_NAME,       COMMITTED, 422, 22, "a name is empty, too long or has invalid characters") \
    X(BAD_POLICY,     COMMITTED, 422, 23, "the pool's options contradict each other") \
    X(BAD_REQUEST,    COMMITTED, 422, 24, "the request breaks a rule that no state could satisfy") \
    X(CONFLICT,       COMMITTED, 409, 25, "it conflicts with the holder's lease or with an earlier use of the operation id") \
    X(DENIED,         COMMITTED, 403, 26, "needs the lease's own user or operator rights") \
    X(NOT_YET,        REJECTED,  503, 30, "the log has not reached the requested position") \
    X(POOL_NOTFOUND,  COMMITTED, 404, 31, "no such pool") \
    X(POOL_IN_USE,    COMMITTED, 409, 32, "the pool has live or cooling values") \
    X(LEASES_FULL,    COMMITTED, 507, 33, "the table of live leases is full") \
    X(MEMBERS_FULL,   COMMITTED, 507, 34, "the table of held values is full") \
    X(OPS_FULL,       REJECTED,  507, 35, "the table of remembered operations is full") \
    X(NAMES_FULL,     COMMITTED, 507, 36, "the memory for names and metadata is full") \
    X(POOLS_FULL,     COMMITTED, 507, 37, "the table of pools is full") \
    X(RESOURCES_FULL, COMMITTED, 507, 38, "the table of named resources is full") \
    X(DEMAND_FULL,    COMMITTED, 507, 39, "the table of rules or sensors is full") \
    X(MALFORMED,      REJECTED,  400, 40, "the request is malformed") \
    X(OVERLOADED,     REJECTED,  503, 41, "too many requests are in flight; try again") \
    X(NOSPACE,        REJECTED,  507, 42, "the disk is full; nothing was written") \
    X(CLOSED,         REJECTED,  503, 43, "closing or closed") \
    X(NOAUTH,         REJECTED,  401, 44, "not logged in") \
    X(NOPERM,         REJECTED,  403, 45, "the user's role, pools or holders do not allow it") \
    X(HALTED,         UNKNOWN,   503, 50, "storage failed; the outcome is unknown until recovery") \
    X(LOST,           UNKNOWN,   503, 51, "this node has lost the log; the outcome is unknown") \
    X(BAD_TOKEN,      REJECTED,  401, 46, "the token is missing or invalid, or its lease has ended") \
    X(OVERDUE,        REJECTED,  409, 47, "the lease's deadline has passed, and the log has not recorded it") \
    X(READONLY,       REJECTED,  503, 48, "another node owns the log; ask it") \
    X(MASTERDOWN,     REJECTED,  503, 49, "no node owns the log now; try again") \
    X(WAITING,        COMMITTED, 202, 27, "the lease is in line; its values are not granted yet") \
    X(WAITERS_FULL,   COMMITTED, 507, 28, "the lines of waiting leases are full") \
    X(USERS_FULL,     COMMITTED, 507, 29, "the table of users is full")
/* clang-format on */

enum tn_result {
#define TN_RESULT_ENUM(name, outcome, http, exit_code, text) TN_R_##name,
    TN_RESULT_TABLE(TN_RESULT_ENUM)
#undef TN_RESULT_ENUM
        TN_R_COUNT
};

const char *tn_result_name(enum tn_result result);
const char *tn_result_text(enum tn_result result);
enum tn_outcome tn_result_outcome(enum tn_result result);
int tn_result_http(enum tn_result result);
int tn_result_exit(enum tn_result result);

/* The answer to a command. `values` is the caller's buffer; value_count may not exceed
 * value_capacity, which must be at least the bundle limit. */
struct kernel_result {
    enum tn_result code;
    bool replayed; /* answered from the operation table */
    bool
        /* Lease, epoch, state and deadline_ms are set; for BUSY, those of the lease on the
         * value. */
        has_lease;
    uint64_t lsn;    /* the position at which this answer was decided */
    uint64_t now_ms; /* at that point */
    struct kernel_lease_id lease;
    uint64_t epoch;
    enum kernel_state state;
    uint64_t deadline_ms; /* 0: none */
    uint64_t
        retry_at_ms;  /* EXHAUSTED: when a value comes free by itself; now_ms: at once; 0: unknown;
                        BUSY: when the value has cooled; 0: it is not cooling */
    uint64_t number;  /* sweep: freed; disown: released so far; BAD_TTL, QUOTA, TOO_LARGE: the cap;
                        pool add/remove: the count; BAD_VALUE, BUSY: index of the value, from 0;
                        BAD_POLICY: see kernel_policy_patch_fault; EXISTS: the option of the
                        pool that differs, from 1;
                        CONFLICT: the LSN of another command with the operation id; 0: not that conflict */
    uint64_t waiting; /* WAITING, EXHAUSTED, BUSY: waiting leases before this one; at
                           KERNEL_PLACE_LOOKED: or more */
    uint64_t waited_ms; /* in line, before it was granted or refused; 0: not at all */
    uint32_t value_count;
    uint32_t value_capacity;
    struct kernel_value *values;
};

/* ---- Views ---- */

#define KERNEL_BEFORE_UNKNOWN UINT64_MAX

struct kernel_lease_view {
    struct kernel_lease_id id;
    uint64_t epoch;
    enum kernel_state state;
    enum kernel_reason reason; /* reason of the last transition */
    uint64_t deadline_ms;      /* 0: none */
    uint64_t created_ms, last_seen_ms, offline_since_ms, ended_ms;
    uint64_t ended_lsn;  /* the command that ended it; 0: none, or not known */
    uint64_t retires_ms; /* ended: when it leaves history, or earlier if history is full; else 0 */
    uint64_t now_ms;     /* the time of this view; the remaining time of the lease counts from it */
    uint32_t ttl_s;      /* requested; 0: the pool's */
    uint32_t value_count;
    uint32_t holder_len, user_len, meta_len;
    char holder[KERNEL_HOLDER_MAX + 1];
    char user[KERNEL_USER_MAX + 1];
    /* Waiting only; else 0. */
    uint64_t
        waiting_before; /* leases that are served earlier, as in struct kernel_result; in a list:
                                KERNEL_BEFORE_UNKNOWN */
    enum tn_result waiting_for; /* EXHAUSTED or BUSY: why its values were not granted so far */
    bool attended;              /* its client is connected */
    /* The pool in which it is not the first, or its first pool. */
    char waiting_pool[KERNEL_POOL_MAX + 1];
    uint32_t slot; /* for the calls below, within the same locked read */
};

/* A value of a pool; or a span of values of a range that are all available, or all excluded. */
struct kernel_value_view {
    enum kernel_value_state state;
    struct kernel_value value; /* the first of the span */
    uint64_t last; /* in a range, the last value of the span; equal to value.number for one value */
    uint64_t until_ms; /* the lease's deadline or the end of the cooldown; 0: none */
    bool has_lease;
    /* The lease on the value; for a value without one, the last lease, if known. */
    struct kernel_lease_view lease;
};

/* How long holders of a sticky pool were offline before they came back: upper bounds in seconds, and
 * one bucket beyond the last. */
#define KERNEL_AWAY_BOUNDS \
    { 60, 600, 3600, 21600, 86400, 259200, 604800, 1209600, 2592000 }
#define KERNEL_AWAY_BUCKETS 10u

struct kernel_pool_counters {
    uint64_t allocated; /* new leases' values */
    uint64_t returned;  /* sticky returns */
    uint64_t released, expired, revoked;
    uint64_t reclaimed; /* leases ended by expiry or force; in a sticky pool also by release */
    uint64_t last_reclaim_count, last_reclaim_ms; /* the count: within one metrics interval */
    uint64_t away_ms;                             /* the sum behind the buckets */
    uint64_t away[KERNEL_AWAY_BUCKETS];
};

struct kernel_pool_view {
    uint32_t name_len;
    char name[KERNEL_POOL_MAX + 1];
    struct kernel_policy policy; /* for a scope, its template's with its own options */
    bool is_scope;
    bool kept;       /* a scope that stays when it is empty */
    uint64_t own;    /* its own options, a bit each as in kernel_policy_patch_options */
    uint32_t scopes; /* of a template */
    /* Values that can be given, and excluded ones in use; of a template: of its scopes together.
     * UINT64_MAX stands for 2^64 and more. */
    uint64_t size;
    uint64_t excluded; /* excluded values that are not in use; UINT64_MAX as above */
    uint64_t free;     /* values of `size` that are not in use */
    uint64_t reserved, active, offline, revoking, cooling; /* values, by state */
    uint64_t
        ever_used_free; /* values given before and free now: exact for `lowest`, else a lower bound */
    struct kernel_pool_counters counters;
    uint64_t rate_micro; /* new leases per hour, millionths */
    uint64_t effective_lease_s;
    bool ultra_active, force_zero;
    uint64_t next_free_ms; /* when a value becomes free without a command; 0: unknown */
    uint64_t waiting;      /* leases in line; of a template: places in the lines of its scopes */
    /* Since when the first in line waits; 0: the line is empty, or the pool is a template. */
    uint64_t waiting_since_ms;
    /* The earliest passed deadline that the log may not have recorded; the counts are older. 0:
     * none. */
    uint64_t overdue_since_ms;
};

struct kernel_sensor_view {
    uint32_t ref_len, trigger_len, spec_len;
    char ref[KERNEL_RESOURCE_MAX + 1];
    char trigger[KERNEL_RULE_MAX + 1];
    bool enabled, wanted;
    uint64_t active_rules;
    uint32_t slot;
};

/* A user that was added at run time. */
struct kernel_user_view {
    uint32_t name_len;
    uint32_t role;       /* from 1 to KERNEL_ROLES */
    uint32_t max_values; /* 0: no quota */
    uint64_t lsn;        /* LSN of the last change */
    char name[KERNEL_USER_MAX + 1];
    char secret[KERNEL_SECRET_MAX + 1];    /* hashed */
    char pools[KERNEL_PATTERNS_MAX + 1];   /* empty: all */
    char holders[KERNEL_PATTERNS_MAX + 1]; /* empty: all */
};

struct kernel_rule_view {
    uint32_t id_len, trigger_len;
    char id[KERNEL_RULE_MAX + 1];
    char trigger[KERNEL_RULE_MAX + 1];
    bool enabled;
    uint32_t meta_len; /* 0: none */
    uint32_t slot;     /* for kernel_rule_meta within the same call */
};

#endif
