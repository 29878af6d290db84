/* tenure.h: durable leases on values of finite pools, embedded in your program.
 *
 * Open a directory, execute commands, get leases. A lease records the holder of a value, its
 * fencing token and its deadline. Every acknowledged call is on disk and survives kill -9.
 *
 *     struct tenure_options options;
 *     tenure_options_init(&options, "./data");
 *     if (tenure_open(&options, &t, &error) != TENURE_STATUS_OK) { puts(error.text); ... }
 *
 * Rules for all calls
 *
 * - Thread-safe: any thread may call any function between tenure_open and tenure_close.
 * - The library never exits, forks or prints, and installs no signal handler. It starts three
 *   threads (with all signals blocked), and a fourth if events are retained.
 * - pthread_cancel has no effect on a thread inside a call that may block; it takes effect after
 *   it.
 * - Strings are NUL-terminated and are copied before a call returns. NULL is allowed only where
 *   stated. Zero all bytes of an input structure, then set the members you need. Members named
 *   `reserved` stay zero.
 * - Times are milliseconds since 1970 as the log counts them (`_ms`), durations are seconds (`_s`).
 *
 * Outcomes of a write (tenure_reply.outcome)
 *
 *   COMMITTED  the command is in the log at `lsn`; the result may be a refusal such as TENURE_BUSY.
 *              A refusal may also come from the committed state at `lsn`, without being logged
 *   REJECTED   the command did not happen
 *   UNKNOWN    storage failed; the command may have happened. Open the directory again and repeat
 *              the call with the same operation id: it returns the first answer or executes.
 *
 * Callbacks run without locks, one at a time for each kind, on a thread of the library or on a
 * thread of your program that is inside a blocking call. A callback may read and call
 * tenure_submit. A blocking write or a snapshot inside a callback is refused with
 * TENURE_OVERLOADED, because it would deadlock. A read inside a callback shows the state at its LSN
 * and does not commit a tick. A callback must not call tenure_close. */
#ifndef TENURE_H
#define TENURE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#ifdef __cplusplus
extern "C" {
#endif

#define TENURE_VERSION_MAJOR 0
#define TENURE_VERSION_MINOR 1
#define TENURE_VERSION_PATCH 0
#define TENURE_VERSION "0.1.0"

#if defined(__GNUC__)
#define TENURE_API __attribute__((visibility("default")))
#else
#define TENURE_API
#endif

/* Sizes, without a terminating NUL. */
#define TENURE_HOLDER_MAX 128
#define TENURE_USER_MAX 64
#define TENURE_OPID_MAX 64
#define TENURE_POOL_MAX 129 /* name@scope */
#define TENURE_VALUE_MAX 64
#define TENURE_RULE_MAX 128
#define TENURE_SENSOR_MAX 64
#define TENURE_META_MAX 4096
#define TENURE_REASON_MAX 256
#define TENURE_SPEC_MAX 16384

/* The version of the linked library, which may differ from the header's. */
TENURE_API const char *tenure_version(void);

struct tenure; /* an open directory */

/* ---- Results ------------------------------------------------------------------------------- */

/* The numbers never change. */
enum tenure_result {
    TENURE_OK = 0,
    TENURE_NOOP,
    TENURE_EXISTS,
    TENURE_NOTFOUND,
    TENURE_RETIRED,
    TENURE_BUSY,
    TENURE_EXHAUSTED,
    TENURE_QUOTA,
    TENURE_STATE,
    TENURE_HOLDER,
    TENURE_STALE,
    TENURE_TOO_LARGE,
    TENURE_BAD_TTL,
    TENURE_BAD_VALUE,
    TENURE_BAD_NAME,
    TENURE_BAD_POLICY,
    TENURE_BAD_REQUEST,
    TENURE_CONFLICT,
    TENURE_DENIED,
    TENURE_NOT_YET,
    TENURE_POOL_NOTFOUND,
    TENURE_POOL_IN_USE,
    TENURE_LEASES_FULL,
    TENURE_MEMBERS_FULL,
    TENURE_OPS_FULL,
    TENURE_NAMES_FULL,
    TENURE_POOLS_FULL,
    TENURE_RESOURCES_FULL,
    TENURE_DEMAND_FULL,
    TENURE_MALFORMED,
    TENURE_OVERLOADED,
    TENURE_NOSPACE,
    TENURE_CLOSED,
    TENURE_NOAUTH,
    TENURE_NOPERM,
    TENURE_HALTED,
    TENURE_LOST,
    TENURE_BAD_TOKEN,
    TENURE_OVERDUE,
    TENURE_READONLY,
    TENURE_MASTERDOWN,
    TENURE_WAITING,
    TENURE_WAITERS_FULL,
    TENURE_USERS_FULL
};

enum tenure_outcome { TENURE_COMMITTED, TENURE_REJECTED, TENURE_UNKNOWN };

/* The name of an unknown number is "?". */
TENURE_API const char *tenure_result_name(enum tenure_result result); /* "EXHAUSTED" */
TENURE_API const char *tenure_result_text(enum tenure_result result); /* a sentence */

/* Why opening, closing or a snapshot failed. */
enum tenure_status {
    TENURE_STATUS_OK = 0,
    TENURE_STATUS_NOMEM,
    TENURE_STATUS_IO,
    TENURE_STATUS_NOSPACE,
    TENURE_STATUS_CORRUPT,
    TENURE_STATUS_VERSION,
    TENURE_STATUS_LOCKED,
    TENURE_STATUS_NOTFOUND,
    TENURE_STATUS_INVALID,
    TENURE_STATUS_TIME_JUMP,
    TENURE_STATUS_HALTED,
    TENURE_STATUS_CLOSED,
    TENURE_STATUS_LOST,
    TENURE_STATUS_OVERLOAD,
    TENURE_STATUS_DENIED,
    TENURE_STATUS_INTERRUPTED,
    TENURE_STATUS_DOUBT
};

TENURE_API const char *tenure_status_name(enum tenure_status status);

struct tenure_error {
    enum tenure_status status;
    char text[512]; /* one line for people: file, offset, remedy */
};

/* ---- Leases and values --------------------------------------------------------------------- */

/* Written shard-lsn. Ordered by shard, then lsn. */
struct tenure_lease_id {
    uint64_t shard;
    uint64_t lsn;
};

#define TENURE_LEASE_ID_TEXT 42
TENURE_API void tenure_lease_id_format(struct tenure_lease_id id, char out[TENURE_LEASE_ID_TEXT]);
TENURE_API bool tenure_lease_id_parse(const char *text, struct tenure_lease_id *ret_id);

enum tenure_state {
    TENURE_LEASE_NONE = 0,
    TENURE_LEASE_RESERVED,
    TENURE_LEASE_ACTIVE,
    TENURE_LEASE_OFFLINE,
    TENURE_LEASE_REVOKING,
    TENURE_LEASE_RELEASED,
    TENURE_LEASE_EXPIRED,
    TENURE_LEASE_REVOKED,
    TENURE_LEASE_WAITING, /* in line for its values */
    TENURE_LEASE_OVERDUE /* in reads only: the deadline has passed and the log has not recorded it */
};

TENURE_API const char *tenure_state_name(enum tenure_state state);

/* One value of one pool. */
struct tenure_value {
    char pool[TENURE_POOL_MAX + 1];
    char text[TENURE_VALUE_MAX + 1]; /* as the pool writes it; for a set, the resource's name */
    bool named;                      /* a named resource of a set, without a number */
    uint32_t claim;                  /* the claim that it answers, from 0 */
    uint64_t number;
};

/* ---- Opening and closing ------------------------------------------------------------------- */

/* A limit by name: leases_max, members_max, ... (docs/embedding.md). */
struct tenure_limit {
    const char *name;
    uint64_t value;
};

/* A clock for tests. boot_ms never goes back; wall_ms is read at opening. */
struct tenure_clock {
    void *ctx;
    uint64_t (*boot_ms)(void *ctx);
    uint64_t (*wall_ms)(void *ctx);
};

struct tenure_event;
struct tenure_metrics;
typedef void tenure_event_fn(void *ctx, const struct tenure_event *event);
typedef void tenure_metrics_fn(void *ctx, const struct tenure_metrics *metrics);
typedef void tenure_notice_fn(void *ctx, const char *line);

struct tenure_options {
    size_t size;     /* set by tenure_options_init, for later versions */
    const char *dir; /* created if missing; one process at a time */

    /* NULL, 0: the current limits, or the defaults for a new directory. Otherwise the named limits
     * change, if the stored data fits. */
    const struct tenure_limit *limits;
    size_t limit_count;

    uint64_t max_downtime_s;   /* 30 days. A clock further ahead of the log than this is refused */
    bool confirm_time_jump;    /* unless confirmed here: leases will expire */
    bool use_older_snapshot;   /* recover from the snapshot before the newest */
    bool manual_ticks;         /* deadlines take effect only at tenure_tick, reads and closing */
    bool no_snapshot_on_close; /* closes faster, opens slower */
    uint64_t segment_bytes;    /* size of a log file, 16 MiB */
    uint64_t snapshot_bytes;   /* a snapshot after that much log, 64 MiB; UINT64_MAX: never */
    uint64_t space_reserve_bytes; /* writes are rejected when the disk has less free space */
    struct tenure_clock clock;    /* all zero: the system's */

    tenure_event_fn *on_event; /* NULL: none. In order; a call returns after its events */
    void *event_ctx;
    bool replay_events;            /* also events of commands replayed at opening */
    tenure_metrics_fn *on_metrics; /* NULL: none. Sticky pools, each at its interval, if changed */
    void *metrics_ctx;
    tenure_notice_fn *on_notice; /* NULL: none. `event=... key=value` lines for a log */
    void *notice_ctx;

    bool restored; /* the directory was restored from a backup: its generation increases, so that
                       no lease id granted after the backup is ever granted again. Set it once,
                       not at every opening: at most 32 times for a directory */
    uint64_t events_max; /* the minimum number of retained events (tenure_events_read), in files
                            next to the log and a few megabytes of memory; 0: none */
};

/* Inline, so that `size` is that of the header you compile with. */
static inline void tenure_options_init(struct tenure_options *options, const char *dir) {
    memset(options, 0, sizeof *options);
    options->size = sizeof *options;
    options->dir = dir;
}

/* Recovers the directory and is ready for calls on return. On failure *error has the reason and
 * *ret_tenure is untouched. `error` may be NULL. */
TENURE_API enum tenure_status tenure_open(const struct tenure_options *options,
                                          struct tenure **ret_tenure, struct tenure_error *error);

/* Waits for submitted commands, logs the time if nothing was logged for a minute, writes a
 * snapshot, frees everything. No other thread may be inside a call. TENURE_STATUS_IO: the snapshot
 * or the closing mark could not be written; no acknowledged write is lost. NULL is allowed. */
TENURE_API enum tenure_status tenure_close(struct tenure *tenure);

/* ---- Commands ------------------------------------------------------------------------------ */

/* The caller of a write. NULL instead of a caller: the embedding program itself, which is the
 * anonymous user with operator rights and no operation id. */
struct tenure_caller {
    const char *user; /* NULL: anonymous. A lease belongs to the user that created it */
    const char *opid; /* NULL: none. The idempotency key, scoped to the user */
    unsigned rights;  /* enum tenure_right */
    /* NULL: none. Why, in at most TENURE_REASON_MAX bytes of text, for the event: pool_*, release,
     * revoke, reclaim, rekey, disown, rule_*, sensor_set, sensor_enable, sensor_delete. The other
     * verbs refuse it. */
    const char *reason;
    uint64_t reserved[1];
};

enum tenure_right {
    TENURE_RIGHT_OPERATOR = 1,  /* pools, revoke, reclaim, rekey, disown, sweep, rules, sensors */
    TENURE_RIGHT_SUPERVISOR = 2 /* use of internal pools; emit, sensor_report */
};

#define TENURE_REPLY_VALUES 4

/* The answer to a write. It refers to itself: do not copy it by assignment. */
struct tenure_reply {
    enum tenure_result code;
    enum tenure_outcome outcome;
    bool replayed;                /* this is the earlier answer to the same operation id */
    bool has_lease;               /* lease, epoch, state, deadline_ms are valid */
    uint64_t lsn;                 /* where it was decided; 0 unless committed */
    uint64_t now_ms;              /* at that point */
    struct tenure_lease_id lease; /* with epoch: the fencing token */
    uint64_t epoch;
    enum tenure_state state;
    uint64_t deadline_ms; /* 0: none */
    uint64_t retry_at_ms; /* EXHAUSTED: when a value becomes free; now_ms: at once; 0: unknown */
    uint64_t number;      /* sweep: freed; disown: released so far; pool add, remove: the count;
                              BAD_TTL, QUOTA, TOO_LARGE: the cap; BAD_VALUE, BUSY: the index of the
                              value; CONFLICT: the LSN of the first use of the operation id, or 0 */
    uint32_t value_count;
    struct tenure_value *values; /* value_count of them, in the order of the request */
    struct tenure_value first[TENURE_REPLY_VALUES]; /* where `values` points if they fit */
    char detail[192];                               /* a rejection by the library, in words */
    uint64_t reserved[4];
};

/* Frees the values of a reply that did not fit `first`. Safe for any reply that a call has filled
 * in, and for a zeroed one. */
TENURE_API void tenure_reply_free(struct tenure_reply *reply);

/* Every typed call below is one of these; the position is the number in the log. */
enum tenure_verb {
    TENURE_VERB_TICK = 0,
    TENURE_VERB_POOL_CREATE = 3,
    TENURE_VERB_POOL_ALTER,
    TENURE_VERB_POOL_DROP,
    TENURE_VERB_POOL_ADD,
    TENURE_VERB_POOL_REMOVE,
    TENURE_VERB_ALLOC,
    TENURE_VERB_RESERVE,
    TENURE_VERB_ACTIVATE,
    TENURE_VERB_TOUCH,
    TENURE_VERB_RELEASE,
    TENURE_VERB_REVOKE,
    TENURE_VERB_ACK,
    TENURE_VERB_RECLAIM,
    TENURE_VERB_REKEY,
    TENURE_VERB_DISOWN,
    TENURE_VERB_SWEEP,
    TENURE_VERB_RULE_SET,
    TENURE_VERB_RULE_ENABLE,
    TENURE_VERB_RULE_DELETE,
    TENURE_VERB_SENSOR_SET,
    TENURE_VERB_SENSOR_ENABLE,
    TENURE_VERB_SENSOR_DELETE,
    TENURE_VERB_IMPORT,
    TENURE_VERB_POOL_SEED,
    TENURE_VERB_EMIT,          /* an event of a sensor's run; has no other effect */
    TENURE_VERB_SENSOR_REPORT, /* an event about a sensor; has no other effect */
    TENURE_VERB_UNATTEND       /* the client of a waiting lease is gone */
};

/* A requested value: text in the pool's format, or the name of a resource, or a number if text is
 * NULL. */
struct tenure_requested {
    const char *text;
    uint64_t number;
};

/* A claim: the `count` values in `values`, or any `count` values if that is NULL. Any 0, as the
 * only claim: one value, or all values of a returning holder of a sticky pool. */
struct tenure_claim {
    const char *pool;
    uint32_t count;
    const struct tenure_requested *values;
};

/* A pool option, as text: {"lo", "30000"}, {"strategy", "random"}, {"sticky", "yes"},
 * {"high_rate_min_factor", "0.2"}, {"exclude", "31000-31099,32000"}. docs/embedding.md lists them.
 * */
struct tenure_option {
    const char *name;
    const char *value;
};

struct tenure_command {
    enum tenure_verb verb;
    struct tenure_caller caller;
    struct tenure_lease_id lease; /* activate touch release revoke ack reclaim rekey emit;
                                     sensor_report: optional */
    uint64_t epoch;               /* activate touch release ack rekey emit; revoke: 0 is any;
                                     sensor_report: optional */
    const char *holder; /* alloc reserve activate release ack rekey (the new one) disown */
    const char *pool;   /* pool_*; disown, sweep: optional */
    const struct tenure_claim *claims; /* alloc reserve */
    uint32_t claim_count;
    const struct tenure_requested *values; /* pool_add pool_remove */
    uint32_t value_count;
    const struct tenure_option *options; /* pool_create pool_alter */
    uint32_t option_count;
    bool has_ttl; /* ttl_s counts: reserve must, alloc and touch may */
    uint32_t ttl_s;
    bool has_after; /* after_s counts: revoke may */
    uint32_t after_s;
    bool immediate;   /* release: free at once, even in a sticky pool */
    const void *meta; /* alloc reserve touch: optional, meta_len bytes; NULL: none;
                         emit sensor_report: the payload, JSON, optional */
    size_t meta_len;
    uint64_t deadline_ms; /* import, or alloc by an operator: the deadline; 0: the pool's */
    uint64_t created_ms, seen_ms, offline_ms; /* import: its times; 0: not given */
    uint64_t given_values, reclaimed;         /* pool_seed: values ever given, leases reclaimed */
    const char *name;                         /* rule id or sensor ref */
    const char *trigger; /* rule_set sensor_set emit; sensor_report: what happened, one of
                            started stopped crashed error start_failed */
    bool enabled;        /* rule_* sensor_* but delete */
    const void *spec;    /* sensor_set: its description, spec_len bytes */
    size_t spec_len;
    uint64_t reserved[4];
};

/* Durable on return. `reply` may be NULL. */
TENURE_API enum tenure_result tenure_execute(struct tenure *tenure,
                                             const struct tenure_command *command,
                                             struct tenure_reply *reply);

/* The reply is valid during the call only, and needs no tenure_reply_free. */
typedef void tenure_done_fn(void *ctx, const struct tenure_reply *reply);

/* Returns at once. TENURE_OK: accepted, `done` will be called once, perhaps before this returns.
 * Any other result is a rejection and `done` will not be called: OVERLOADED when thousands are in
 * flight (wait until some complete), or the error of the command. `done` may be NULL. */
TENURE_API enum tenure_result tenure_submit(struct tenure *tenure,
                                            const struct tenure_command *command,
                                            tenure_done_fn *done, void *ctx);

/* ---- Pools --------------------------------------------------------------------------------- */

TENURE_API enum tenure_result tenure_pool_create(struct tenure *tenure, const char *pool,
                                                 const struct tenure_option *options,
                                                 uint32_t option_count,
                                                 const struct tenure_caller *caller,
                                                 struct tenure_reply *reply);
/* Changes the named options; existing leases keep their terms. */
TENURE_API enum tenure_result tenure_pool_alter(struct tenure *tenure, const char *pool,
                                                const struct tenure_option *options,
                                                uint32_t option_count,
                                                const struct tenure_caller *caller,
                                                struct tenure_reply *reply);
TENURE_API enum tenure_result tenure_pool_drop(struct tenure *tenure, const char *pool,
                                               const struct tenure_caller *caller,
                                               struct tenure_reply *reply);
/* Named resources of a set. All or none. */
TENURE_API enum tenure_result tenure_pool_add(struct tenure *tenure, const char *pool,
                                              const char *const *names, uint32_t count,
                                              const struct tenure_caller *caller,
                                              struct tenure_reply *reply);
TENURE_API enum tenure_result tenure_pool_remove(struct tenure *tenure, const char *pool,
                                                 const char *const *names, uint32_t count,
                                                 const struct tenure_caller *caller,
                                                 struct tenure_reply *reply);

struct tenure_pool {
    char name[TENURE_POOL_MAX + 1];
    bool is_set;   /* of named resources; else a range */
    bool is_scope; /* created from a template */
    bool is_template;
    bool sticky;
    uint64_t lo, hi;  /* the first and the last value of a range, which may have gaps */
    uint64_t lease_s; /* 0: permanent */
    uint32_t scopes;  /* of a template */
    uint64_t size;    /* values that can be given; UINT64_MAX stands for 2^64 */
    uint64_t reserved_count, active_count, offline_count, revoking_count, cooling_count;
    uint64_t free_count;
    uint64_t allocated_total, returned_total, released_total, expired_total, revoked_total,
        reclaimed_total;
    uint64_t rate_micro; /* new leases per hour, millionths; of a sticky pool */
    uint64_t effective_lease_s;
    bool ultra_rate, force_zero;
    uint64_t next_free_ms; /* when a value becomes free by itself; 0: unknown */
    uint64_t lsn;          /* where this was read */
    /* The earliest passed deadline that the log may not have recorded; the counts are older. 0:
     * none. */
    uint64_t overdue_since_ms;
    uint64_t excluded_count; /* values that "any" does not give; see EXCLUDE */
    uint64_t reserved[2];
};

TENURE_API enum tenure_result tenure_pool_info(struct tenure *tenure, const char *pool,
                                               uint64_t fence_lsn, struct tenure_pool *ret_pool);
/* A pool option in the form of tenure_option. BAD_REQUEST: unknown option. */
TENURE_API enum tenure_result tenure_pool_option(struct tenure *tenure, const char *pool,
                                                 const char *name, char *out, size_t capacity);
/* *cursor starts at 0 and is 0 again after the last page. */
TENURE_API enum tenure_result tenure_pool_list(struct tenure *tenure, uint64_t *cursor,
                                               struct tenure_pool *out, uint32_t capacity,
                                               uint32_t *ret_count);

/* The metrics of a sticky pool. Times are in seconds. */
struct tenure_metrics {
    char pool[TENURE_POOL_MAX + 1];
    uint64_t base_lease_seconds;
    uint64_t effective_lease_seconds;
    uint64_t new_device_rate_per_hour_micro; /* millionths */
    bool ultra_rate_active;
    bool force_zero_lease_active;
    uint64_t last_reclaim_count;
    uint64_t last_reclaim_at;
    uint64_t total_reclaimed;
    uint64_t allocated_count;
    uint64_t released_count;
    uint64_t updated_at;
    uint64_t reserved[4];
};

/* BAD_REQUEST: the pool is not sticky. */
TENURE_API enum tenure_result tenure_pool_metrics(struct tenure *tenure, const char *pool,
                                                  uint64_t fence_lsn,
                                                  struct tenure_metrics *ret_metrics);

/* ---- Leases: writes ------------------------------------------------------------------------ */

/* A request of alloc or reserve: all claims or none. */
struct tenure_ask {
    const char *holder;
    const struct tenure_claim *claims;
    uint32_t claim_count;
    bool has_ttl; /* else the pools' lease */
    uint32_t ttl_s;
    const void *meta; /* NULL: none */
    size_t meta_len;
    uint64_t deadline_ms; /* alloc by an operator; 0: none */
    uint64_t reserved[2];
};

/* One lease, active. */
TENURE_API enum tenure_result tenure_alloc(struct tenure *tenure, const struct tenure_ask *ask,
                                           const struct tenure_caller *caller,
                                           struct tenure_reply *reply);
/* The simple case: any `count` values of one pool, on the pool's terms. */
TENURE_API enum tenure_result tenure_alloc_any(struct tenure *tenure, const char *pool,
                                               const char *holder, uint32_t count,
                                               const struct tenure_caller *caller,
                                               struct tenure_reply *reply);
/* One lease, reserved for ask->ttl_s; activate it within that time. */
TENURE_API enum tenure_result tenure_reserve(struct tenure *tenure, const struct tenure_ask *ask,
                                             const struct tenure_caller *caller,
                                             struct tenure_reply *reply);
TENURE_API enum tenure_result tenure_activate(struct tenure *tenure, struct tenure_lease_id lease,
                                              const char *holder, uint64_t epoch,
                                              const struct tenure_caller *caller,
                                              struct tenure_reply *reply);

struct tenure_renewal {
    bool has_ttl; /* else the ttl of the grant */
    uint32_t ttl_s;
    const void *meta; /* replaces the metadata; NULL: keep it */
    size_t meta_len;
    uint64_t reserved[2];
};

/* Renews the deadline. `renewal` may be NULL. */
TENURE_API enum tenure_result tenure_touch(struct tenure *tenure, struct tenure_lease_id lease,
                                           uint64_t epoch, const struct tenure_renewal *renewal,
                                           const struct tenure_caller *caller,
                                           struct tenure_reply *reply);
/* In a sticky pool the lease goes offline and is kept for its holder, unless `immediate`. */
TENURE_API enum tenure_result tenure_release(struct tenure *tenure, struct tenure_lease_id lease,
                                             const char *holder, uint64_t epoch, bool immediate,
                                             const struct tenure_caller *caller,
                                             struct tenure_reply *reply);
/* Ends the holder's authority; the values stay unavailable until reclaim, ack, or *after_s seconds
 * (NULL: no time limit). */
TENURE_API enum tenure_result tenure_revoke(struct tenure *tenure, struct tenure_lease_id lease,
                                            const uint32_t *after_s,
                                            const struct tenure_caller *caller,
                                            struct tenure_reply *reply);
/* Confirms that the holder has stopped. `epoch` is the one before the revoke. */
TENURE_API enum tenure_result tenure_ack(struct tenure *tenure, struct tenure_lease_id lease,
                                         const char *holder, uint64_t epoch,
                                         const struct tenure_caller *caller,
                                         struct tenure_reply *reply);
/* The caller has evidence that the holder has stopped. */
TENURE_API enum tenure_result tenure_reclaim(struct tenure *tenure, struct tenure_lease_id lease,
                                             const struct tenure_caller *caller,
                                             struct tenure_reply *reply);
TENURE_API enum tenure_result tenure_rekey(struct tenure *tenure, struct tenure_lease_id lease,
                                           uint64_t epoch, const char *new_holder,
                                           const struct tenure_caller *caller,
                                           struct tenure_reply *reply);
/* Releases all leases of a holder (in `pool`, or in all pools if NULL), in bounded steps. */
TENURE_API enum tenure_result tenure_disown(struct tenure *tenure, const char *holder,
                                            const char *pool, const struct tenure_caller *caller,
                                            struct tenure_reply *reply);
/* One expiry step (in `pool`, or in all pools if NULL); reply->number is the count of freed values.
 * */
TENURE_API enum tenure_result tenure_sweep(struct tenure *tenure, const char *pool,
                                           const struct tenure_caller *caller,
                                           struct tenure_reply *reply);
/* Commits the time; due deadlines take effect. */
TENURE_API enum tenure_result tenure_tick(struct tenure *tenure);

/* ---- Leases: reads ------------------------------------------------------------------------- */

/* A read waits up to a second for the log to reach fence_lsn (0: does not wait), else NOT_YET. If
 * its answer depends on a passed deadline, it commits a tick first. Inside a callback and on a full
 * disk it cannot: then it shows the state at its LSN, but never reports a lease with a passed
 * deadline as live. Such a lease is TENURE_LEASE_OVERDUE, and tenure_verify answers TENURE_OVERDUE.
 * */

struct tenure_lease {
    struct tenure_lease_id id;
    uint64_t epoch;
    enum tenure_state state;
    char reason[16];      /* of the last transition: requested released expired ... */
    uint64_t deadline_ms; /* 0: none */
    uint64_t created_ms, last_seen_ms, offline_since_ms, ended_ms; /* 0: not */
    uint32_t ttl_s;                                                /* requested; 0: the pool's */
    uint32_t holder_len, meta_len;
    char holder[TENURE_HOLDER_MAX + 1];
    char user[TENURE_USER_MAX + 1]; /* empty: anonymous */
    uint32_t value_count; /* the total; the first ones are here, tenure_lease_values returns all */
    struct tenure_value values[TENURE_REPLY_VALUES];
    uint64_t lsn;        /* where this was read */
    uint64_t ended_lsn;  /* the command that ended it; 0: none, or not known */
    uint64_t retires_ms; /* ended: when it leaves history, or earlier if history is full */
    uint64_t now_ms;     /* the time of this view: deadline_ms - now_ms remain */
    uint64_t reserved[1];
};

/* OK, NOTFOUND, or RETIRED if it has left history. */
TENURE_API enum tenure_result tenure_lease_read(struct tenure *tenure, struct tenure_lease_id id,
                                                uint64_t fence_lsn, struct tenure_lease *ret_lease);
/* The live lease on pool/value. */
TENURE_API enum tenure_result tenure_lease_by_value(struct tenure *tenure, const char *pool,
                                                    const struct tenure_requested *value,
                                                    uint64_t fence_lsn,
                                                    struct tenure_lease *ret_lease);
/* Is (id, epoch) the live authority? OK, or STALE STATE OVERDUE NOTFOUND RETIRED; ret_lease may be
 * NULL. Any other answer than OK means no. */
TENURE_API enum tenure_result tenure_verify(struct tenure *tenure, struct tenure_lease_id id,
                                            uint64_t epoch, uint64_t fence_lsn,
                                            struct tenure_lease *ret_lease);
TENURE_API enum tenure_result tenure_lease_values(struct tenure *tenure, struct tenure_lease_id id,
                                                  uint32_t first, struct tenure_value *out,
                                                  uint32_t capacity, uint32_t *ret_count);
/* At most capacity bytes, not terminated; *ret_len is the whole length. */
TENURE_API enum tenure_result tenure_lease_meta(struct tenure *tenure, struct tenure_lease_id id,
                                                void *out, size_t capacity, size_t *ret_len);

struct tenure_filter {
    const char *pool;        /* NULL: any */
    const char *holder;      /* NULL: any */
    enum tenure_state state; /* 0: any live one */
    uint64_t reserved[2];
};

/* A page of leases. *cursor starts at 0 and is 0 again after the last page; a page may be empty
 * before that. A lease that lives all the while is found once. `filter` may be NULL; POOL_NOTFOUND: it
 * names a pool that does not exist. */
TENURE_API enum tenure_result tenure_leases(struct tenure *tenure,
                                            const struct tenure_filter *filter, uint64_t *cursor,
                                            struct tenure_lease *out, uint32_t capacity,
                                            uint32_t *ret_count);

/* ---- Rules and sensors: demand and supply -------------------------------------------------- */

TENURE_API enum tenure_result tenure_rule_set(struct tenure *tenure, const char *id,
                                              const char *trigger, bool enabled,
                                              const struct tenure_caller *caller,
                                              struct tenure_reply *reply);
TENURE_API enum tenure_result tenure_rule_enable(struct tenure *tenure, const char *id,
                                                 bool enabled, const struct tenure_caller *caller,
                                                 struct tenure_reply *reply);
TENURE_API enum tenure_result tenure_rule_delete(struct tenure *tenure, const char *id,
                                                 const struct tenure_caller *caller,
                                                 struct tenure_reply *reply);
TENURE_API enum tenure_result tenure_sensor_set(struct tenure *tenure, const char *ref,
                                                const char *trigger, bool enabled, const void *spec,
                                                size_t spec_len, const struct tenure_caller *caller,
                                                struct tenure_reply *reply);
TENURE_API enum tenure_result tenure_sensor_enable(struct tenure *tenure, const char *ref,
                                                   bool enabled, const struct tenure_caller *caller,
                                                   struct tenure_reply *reply);
TENURE_API enum tenure_result tenure_sensor_delete(struct tenure *tenure, const char *ref,
                                                   const struct tenure_caller *caller,
                                                   struct tenure_reply *reply);

struct tenure_rule {
    char id[TENURE_RULE_MAX + 1];
    char trigger[TENURE_RULE_MAX + 1];
    bool enabled;
    uint64_t reserved[2];
};

struct tenure_sensor {
    char ref[TENURE_SENSOR_MAX + 1];
    char trigger[TENURE_RULE_MAX + 1];
    bool enabled;
    bool wanted; /* enabled, and some enabled rule has its trigger */
    uint64_t active_rules;
    uint32_t spec_len;
    uint64_t reserved[2];
};

TENURE_API enum tenure_result tenure_rule_read(struct tenure *tenure, const char *id,
                                               struct tenure_rule *ret_rule);
TENURE_API enum tenure_result tenure_rule_list(struct tenure *tenure, uint64_t *cursor,
                                               struct tenure_rule *out, uint32_t capacity,
                                               uint32_t *ret_count);
/* Up to spec_capacity bytes of the specification go to `spec` (may be NULL if that is 0). */
TENURE_API enum tenure_result tenure_sensor_read(struct tenure *tenure, const char *ref,
                                                 struct tenure_sensor *ret_sensor, void *spec,
                                                 size_t spec_capacity);
TENURE_API enum tenure_result tenure_sensor_list(struct tenure *tenure, uint64_t *cursor,
                                                 struct tenure_sensor *out, uint32_t capacity,
                                                 uint32_t *ret_count);

/* ---- Events -------------------------------------------------------------------------------- */

/* Valid during the callback only. */
struct tenure_event {
    uint64_t lsn;
    uint32_t index;     /* its id is lsn.index */
    bool replayed;      /* replayed at opening */
    const char *kind;   /* "lease.active", "lease.expired", "pool.created", ... */
    const char *reason; /* "requested", "released", "expired", "revoked", "forced", ... or "" */
    uint64_t now_ms;
    struct tenure_lease_id lease; /* lsn 0: not about a lease */
    uint64_t epoch;
    uint64_t deadline_ms;
    const char *holder; /* "" if it has none */
    const char *user;
    const char *name; /* of the pool, rule, sensor or trigger it is about, or "" */
    uint32_t value_count;
    const struct tenure_value *values;
    uint64_t number;             /* demand: enabled rules now; disowned: leases released */
    const char *previous_holder; /* of a rekeyed lease: the previous holder; else "" */
    const char *trigger;         /* of an event emitted by a sensor; else "" */
    const char *payload;         /* of a sensor's event: JSON, payload_len bytes; else "" */
    size_t payload_len;
    const char *actor; /* the user whose command did it; "": time did, or the anonymous user */
    const char *reason_text; /* the reason that the actor gave; else "" */
    uint64_t reserved[2];
};

struct tenure_event_id {
    uint64_t lsn;
    uint32_t index;
};

struct tenure_events_span {
    struct tenure_event_id
        oldest; /* retained when the first event was found, else now; lsn 0: none */
    struct tenure_event_id newest; /* retained now; lsn 0: none */
    struct tenure_event_id next;   /* the last event visited, else `after`: continue after it */
    bool lost; /* events between `after` and the first one visited are missing */
    bool more; /* there are events after `next` */
};

/* False: stop; this event is not consumed. The callback must not block. */
typedef bool tenure_event_visit_fn(void *ctx, const struct tenure_event *event);

/* Events after `after`, oldest first, at most `max`. `after` all zero: from the oldest retained
 * event; lsn UINT64_MAX: none, but `next` is the newest. A crash loses no event: the next opening
 * recreates those that were not on disk from the log. Events that were dropped for their age, or
 * that the disk did not accept, are missing, and `lost` is set. TENURE_NOTFOUND: events_max is 0;
 * OVERLOADED: no memory, and `next` is the last event visited. */
TENURE_API enum tenure_result tenure_events_read(struct tenure *tenure,
                                                 struct tenure_event_id after, uint32_t max,
                                                 tenure_event_visit_fn *visit, void *ctx,
                                                 struct tenure_events_span *ret_span);

/* ---- Snapshots and statistics -------------------------------------------------------------- */

/* Writes a snapshot and waits until it is complete. Other calls continue. `error` may be NULL. */
TENURE_API enum tenure_status tenure_snapshot(struct tenure *tenure, struct tenure_error *error);

struct tenure_stats {
    uint64_t lsn;
    uint64_t now_ms;
    uint64_t batches, commands, batch_commands_max;
    uint64_t queue_commands;   /* in flight */
    enum tenure_result halted; /* TENURE_OK, or HALTED */
    uint64_t recovery_commands, recovery_ns;
    uint64_t snapshots, snapshots_failed;
    uint64_t snapshot_hold_ns_max; /* the longest wait caused by a snapshot */
    uint64_t log_bytes, log_segments, snapshot_bytes, snapshot_lsn;
    uint64_t leases, members, pools, names, ops; /* in use */
    uint64_t log_ahead_ms; /* the lead of now_ms over the wall clock; 0: none */
    uint64_t overdue_ms;   /* since the earliest deadline that the log has not recorded; 0: none */
    uint64_t reserved[6];
};

TENURE_API enum tenure_result tenure_stats_read(struct tenure *tenure,
                                                struct tenure_stats *ret_stats);

/* A hash of the whole state: the same history gives the same hash on every machine. Slow: it reads
 * the whole state. */
TENURE_API enum tenure_result tenure_state_hash(struct tenure *tenure, uint64_t *ret_hash);

#ifdef __cplusplus
}
#endif

#endif
