/* The engine: sequence, log, apply, answer. It owns the log and the kernel. No other code applies
 * commands, live or in replay.
 *
 * A command is encoded (kernel/command.h) into a batch and waits there. The engine stamps the batch with
 * the time and appends it to the log. When the log says that the batch is durable, the engine applies
 * its commands and answers them, in order. The next batch fills meanwhile. A blocking caller commits on its own
 * thread if no other thread is committing; asynchronous requests are committed by the engine's thread.
 *
 * What an answer means
 *   committed  result.lsn > 0: the command has its place in the log, even if its result is a refusal;
 *              or engine_refuses refused it, and lsn is the position of the state that did
 *   rejected   result.lsn = 0: nothing was logged
 *   unknown    HALTED or LOST: the command may or may not have been committed
 *
 * engine_open recovers and appends nothing. The engine then follows its log: it applies the batches
 * that another owner commits, and serves reads that may be stale. engine_lead makes it serve writes and
 * current reads; a log that is lost to another owner takes that away again, while the engine lives
 * (role.c). A local log is owned at once and is never lost.
 *
 * All calls are safe from any thread, and a thread cannot be cancelled inside one. Callbacks (done,
 * event, events_ready, metrics, notice) run with no lock held, one at a time for each kind, on the engine's own
 * threads or on a thread inside a blocking call. A callback may submit and read; a blocking write or
 * a snapshot from inside a callback is refused with OVERLOADED, since it would wait for itself. A
 * read from inside one commits no tick: it shows the state at its LSN, and a lease whose deadline the
 * clock has passed as OVERDUE (authority.c).
 *
 * After a failed append, or a mark that the log could not write, the engine is halted: it answers every
 * call, reads included, with HALTED and appends nothing more. Only a new engine_open, which recovers from
 * the log, ends that. */
#ifndef TN_ENGINE_ENGINE_H
#define TN_ENGINE_ENGINE_H

#include "kernel/command.h"
#include "kernel/event.h"
#include "kernel/result.h"
#include "log/log_types.h"
#include "os/os.h"

struct engine;
struct kernel;
struct log;
struct log_store;

/* ---- Events and metrics ---- */

struct engine_event_value {
    struct tn_bytes pool;
    struct tn_bytes name; /* of a named resource; else empty and number counts */
    uint64_t number;
    enum kernel_format format;
};

/* Valid during the call only. All byte runs are followed by a NUL. `values` of `fact` is NULL: the
 * engine's own are in `values`. */
struct engine_event {
    struct kernel_event fact;
    const struct engine_event_value *values; /* fact.value_count of them */
    bool replayed; /* the event comes from recovery: it happened in an earlier process */
};

typedef void engine_event_sink(void *ctx, const struct engine_event *event);

/* Called while the command is applied, under the engine's lock: short, and no calls back. */
typedef void engine_watch(void *ctx, const struct kernel_event *fact);

/* Watches for a few kinds of events as they happen: bit n of `kinds` stands for kind n. The caller's
 * memory, from engine_watch_add to engine_watch_remove or engine_close. */
struct engine_watcher {
    engine_watch *call;
    void *ctx;
    uint64_t kinds;
    struct engine_watcher *next; /* the engine's */
};

/* Written lsn.index; ordered. */
struct engine_event_id {
    uint64_t lsn;
    uint32_t index;
};

/* The metrics of a sticky pool, under the names that its users know. Times are in seconds. */
struct engine_metrics {
    char pool[KERNEL_POOL_MAX + 1];
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
};

/* Receives the answer to a command that was answered with WAITING: its lease was granted, or its
 * wait has ended. Called for each such lease while the engine leads, after `done`; also if no
 * client wants the answer any more. LOST: there was no memory to keep the answer. The result and
 * its values are valid only during the call. */
typedef void engine_waited_sink(void *ctx, const struct kernel_result *result);

typedef void engine_metrics_sink(void *ctx, const struct engine_metrics *metrics);

/* ---- Opening and closing ---- */

/* The relation of the engine to its log: see role.c. */
enum engine_role {
    ENGINE_LOADING,
    ENGINE_FOLLOWING,
    ENGINE_LEADING,
    ENGINE_HALTED,
    ENGINE_CLOSING,
};

const char *engine_role_name(enum engine_role role);

/* The role, the owner or the leader may have changed: engine_standing_read returns the current
 * ones. Called on any thread, on several at the same time, perhaps before engine_open returns. It
 * must not wait, lead or follow. */
typedef void engine_role_sink(void *ctx, struct engine *engine);

/* All zeros are valid: every 0 or NULL means the default in the comment. */
struct engine_options {
    const struct os *os; /* os_posix() */
    /* Both are required. The engine owns them from now on: engine_close closes them, as does
     * engine_open if it fails. Notices of the log go to `notice` of the engine, if it is set. */
    struct log *log;
    struct log_store *store;

    /* The limits whose bit is set in the mask. For the others, the logged limit counts, or the
     * default. */
    struct kernel_limits limits;
    uint32_t limits_mask;
    /* Limits that the state exceeds, or for which there is no memory, do not prevent leading: a
     * notice says so, and the limits in force stay. */
    bool limits_may_stay;

    uint64_t max_downtime_ms; /* 30 days */
    bool confirm_time_jump;   /* accepts a clock that is further ahead than that */

    uint32_t batch_bytes_max;    /* default: 1 MiB, or less if the log accepts less */
    uint32_t batch_commands_max; /* 8192 */
    /* With a log that answers later: if so many commands wait when a batch is durable, they are appended
     * before that batch is applied. Default: 256. */
    uint32_t early_commands_min;
    uint32_t tick_interval_ms; /* default: 50; the minimum time between ticks by the clock */
    bool manual_ticks;         /* ticks only by engine_tick, reads that need one, and closing */
    bool no_threads;           /* no threads of its own: submitters commit; implies manual_ticks */

    /* Default: 64 MiB of log since the last one; UINT64_MAX: only on request. */
    uint64_t snapshot_bytes;
    uint64_t snapshot_queue_bytes; /* default: 64 MiB; increased if the largest record needs more */
    bool no_snapshot_at_close;

    engine_event_sink *event;
    void *event_ctx;
    bool replay_events; /* also delivers the events of recovery */

    /* Events to be read back (events.h). */
    uint64_t events_max;    /* at least this many are retained, at most a sixteenth more; 0: none */
    const char *events_dir; /* their directory; NULL: in memory only, as many as fit */
    uint64_t events_reserve_bytes;   /* free space that their files must leave on the disk */
    void (*events_ready)(void *ctx); /* called once after engine_events_arm; must not wait */
    void *events_ready_ctx;

    engine_metrics_sink *metrics;
    void *metrics_ctx;
    log_notice *notice;
    void *notice_ctx;
    engine_role_sink *role;
    void *role_ctx;
};

/* Recovers the state, and follows the log when it returns. On failure, *error says why. */
enum tn_status engine_open(const struct engine_options *options, struct engine **ret_engine,
                           struct log_error *error);

/* Takes the lead: appends what must be in the log before anything is served (the limits, a restored
 * generation, that the clients of waiting leases are gone), starts the clock and the ticks. TN_OK also if
 * it leads already; TN_LOST if the log is not ours, or was lost and is ours again; TN_NOSPACE:
 * the call may be repeated; after any other failure engine_close is the only call left. Waits for the log;
 * not from a callback. */
enum tn_status engine_lead(struct engine *engine, struct log_error *error);

/* Answers the requests in flight, then gives up the lead and the log. TN_OK also if the engine does
 * not lead; TN_INVALID if the log cannot be given up. Not from a callback. */
enum tn_status engine_follow(struct engine *engine);

struct engine_standing {
    enum engine_role role;
    uint32_t lead; /* how often the engine has begun to lead */
    bool owned;    /* this node owns the log: engine_lead may succeed */
    /* It leads, but its ownership has ended and was not renewed for a while: to clients, this node is
     * not the owner. */
    bool lapsed;
    char leader[LOG_LEADER_MAX + 1]; /* the address of another owner; empty: not known */
};

void engine_standing_read(struct engine *engine, struct engine_standing *ret_standing);

/* What a replicated log keeps besides its batches; log/log.h has the contracts. A log without
 * other nodes has no notes (TN_INVALID), no nodes (0) and the epoch 0, and is owned forever
 * (UINT64_MAX). */
bool engine_has_notes(const struct engine *engine);
enum tn_status engine_note_get(struct engine *engine, const char *name, uint8_t *out, uint32_t room,
                               uint32_t *ret_len);
enum tn_status engine_note_put(struct engine *engine, const char *name, struct tn_bytes value);
uint32_t engine_nodes(const struct engine *engine, struct log_node *ret_nodes, uint32_t room);
/* In boot time; 0: this node does not own the log. */
uint64_t engine_owned_until(const struct engine *engine);
/* Of the last engine_lead that succeeded. */
void engine_succession(struct engine *engine, struct log_succession *ret_succession);
void engine_clean(struct engine *engine, uint64_t epoch);

/* Answers the requests in flight, takes a last snapshot if there was a write since the last one, closes
 * the log. False if the last snapshot or the mark could not be written (nothing that was answered
 * is lost by that). If nothing was logged for a minute, a tick is, so that the next start knows how
 * long this one lasted. Not from a callback; no other thread may use the engine during the call or after it. */
bool engine_close(struct engine *engine);

/* ---- Writes ---- */

struct engine_request;

/* Called once for each accepted request. The result and its values are valid only during the call.
 * The request belongs to the caller again and may be submitted again. `command` is the encoded
 * command. */
typedef void engine_done(struct engine_request *request, struct tn_bytes command);

/* The caller's memory, which the engine uses from engine_submit until `done`. */
struct engine_request {
    engine_done *done;
    void *ctx;
    struct kernel_result result;
    /* Set in `done`: the function will be called for another request at once, on the same thread. A
     * caller that hands answers to another thread need not wake it yet. */
    bool more;
    bool has_op; /* internal: the command has an operation id */
    /* Set by engine_submit: the lead (engine_standing) in which the request was accepted. The
     * command was committed in that lead or not at all. */
    uint32_t lead;
    /* The engine's. */
    struct engine_request *next;
    struct engine_waiter *waiter; /* of a blocking call */
};

/* OK: accepted; `done` will be called, perhaps before this returns. Otherwise rejected; `done`
 * will not be called. The command is encoded before this returns, and nothing refers to it
 * afterwards. */
enum tn_result engine_submit(struct engine *engine, struct engine_request *request,
                             const struct kernel_command *command);

/* The same, for a caller that submits several requests in a row. They are committed together from
 * engine_submit_now on, which the caller must call before it does anything that takes long. They
 * are committed earlier if there are many, or if another thread needs a commit. */
enum tn_result engine_submit_later(struct engine *engine, struct engine_request *request,
                                   const struct kernel_command *command);
void engine_submit_now(struct engine *engine);

/* Submits and waits. The caller provides ret_result->values and value_capacity; as many values as
 * fit are copied. value_count is their total number. */
void engine_execute(struct engine *engine, const struct kernel_command *command,
                    struct kernel_result *ret_result);

/* Whether the committed state refuses the command. True: that is its answer, in *ret_result, at the
 * position of the state that refused it; the command is done and not logged. False: submit it. Never
 * waits. Only for a caller that has no write under way: the command would overtake that write.
 * Commands with an operation id are never refused here, nor any command inside a callback. The values
 * and value_capacity of *ret_result stay. */
bool engine_refuses(struct engine *engine, const struct kernel_command *command,
                    struct kernel_result *ret_result);

/* Commits a tick and, if metrics are wanted, looks whether some are due. */
enum tn_result engine_tick(struct engine *engine);

/* A tick as a command for engine_submit. It brings the state's time up to date (see
 * ENGINE_READ_NOWAIT). */
const struct kernel_command *engine_tick_command(void);

enum tn_outcome engine_outcome(const struct kernel_result *result);

/* ---- Reads: see also read.h. ---- */

/* Looks at the state; `clock_ms` is what the time would be if something were committed now. True:
 * the answer hangs on a deadline that the clock has passed and the log has not; a tick is committed
 * and the reader called again, more than once only as long as something is due. Inside a callback
 * and on a full disk there is no tick, and the first answer stands: so a reader never calls a lease
 * live whose deadline `clock_ms` has reached. It runs under the engine's lock: short, and no calls
 * back. */
typedef bool engine_reader(void *ctx, const struct kernel *kernel, uint64_t clock_ms);

/* How a read treats deadlines that the clock has passed and the log has not recorded.
 *   CURRENT  commits a tick and looks again, so it may wait for the log. While it is not sure that the log is
 *            ours, it waits for that, at most a second
 *   NOWAIT   for threads that must not wait: never waits and commits nothing. If the answer depends on
 *            such a deadline, NOT_YET: submit engine_tick_command and ask again when it is done; at most a
 *            few times, then AS_IS
 *   AS_IS    never waits: the state at its LSN. Also for after a tick that a full disk refused. A lease
 *            past its deadline is shown as OVERDUE, as everywhere
 *   STALE    like AS_IS, also while the engine follows: others may have changed what it shows. NOT_YET
 *            if nothing has been applied yet
 * Only the owner of the log may answer the first three: otherwise READONLY or MASTERDOWN. If the log is to be
 * asked for that (engine_is_to_confirm), CURRENT does so; callers of NOWAIT and AS_IS do it themselves, for
 * many reads at once: the answer counts for each read that was received before the question was asked. */
enum engine_read_mode {
    ENGINE_READ_CURRENT,
    ENGINE_READ_NOWAIT,
    ENGINE_READ_AS_IS,
    ENGINE_READ_STALE,
};

/* OK, or why the reader was not called or could not get what it asked for: NOT_YET (NOWAIT),
 * HALTED, READONLY, MASTERDOWN, CLOSED, or the result that refused the tick. */
enum tn_result engine_read(struct engine *engine, enum engine_read_mode mode, engine_reader *reader,
                           void *ctx);

/* Whether its owner's clock is not enough for the reads of this log (the log's verb `confirm`). */
bool engine_is_to_confirm(const struct engine *engine);
/* Whether this node owns the log at some moment during this call. May wait for half a second, so not from
 * a callback. A look at the state that begins afterwards is not older than that moment. */
bool engine_confirm(struct engine *engine);

/* Waits up to a second until the command at `lsn` has been applied. OK, NOT_YET or HALTED. Inside a
 * callback it does not wait. */
enum tn_result engine_wait_lsn(struct engine *engine, uint64_t lsn);

uint64_t engine_now(const struct engine *engine);
/* The position of the state, now or a moment ago. */
uint64_t engine_lsn(const struct engine *engine);

/* ---- Looking at a log without serving it ---- */

/* What a log holds. */
struct engine_report {
    struct log_position position;
    uint64_t snapshot_lsn; /* of the snapshot with which the replay began; 0: none */
    uint64_t commands;     /* replayed after it */
    uint64_t ns;
    bool empty; /* the log is empty, and the other fields mean nothing */
    bool sound; /* every invariant holds; if not, `why` names a broken one */
    char why[256];
    uint64_t hash;
    struct kernel_usage usage;
    struct kernel_limits limits;
    struct log_stats log;
};

/* Replays a log that has no leader, checks the state, and closes log and store, also on failure. */
enum tn_status engine_replay(const struct os *os, struct log_store *store, struct log *log,
                             struct engine_report *ret_report, struct log_error *error);

/* ---- Waiting leases ---- */

/* Sets the function that receives the answers to waiting leases. NULL: none. On return, the
 * previous function is not running and will not be called again. Not from inside it. */
void engine_waited_set(struct engine *engine, engine_waited_sink *call, void *ctx);

/* ---- Watchers ---- */

/* Each event is given to the watchers in the order in which they were added. Events that recovery
 * replays are not: engine_open has ended before one can be added. Not from inside a watch. */
void engine_watch_add(struct engine *engine, struct engine_watcher *watcher);
/* On return, the watcher is not being called and will not be called again. */
void engine_watch_remove(struct engine *engine, struct engine_watcher *watcher);

/* ---- Snapshots and figures ---- */

/* Takes a snapshot and waits for it. On failure nothing has changed. */
enum tn_status engine_snapshot(struct engine *engine, struct log_error *error);

/* Durations of appends are counted in powers of two, from 64 microseconds to two seconds. */
#define ENGINE_APPEND_BUCKETS 16u
static inline uint64_t engine_append_bound_ns(unsigned bucket) {
    return (uint64_t)64000 << bucket;
}

/* How many commands a batch had, in powers of two from 1. */
#define ENGINE_BATCH_BUCKETS 14u
static inline uint64_t engine_batch_bound(unsigned bucket) {
    return (uint64_t)1 << bucket;
}

struct engine_stats {
    uint64_t lsn;
    uint64_t now_ms;
    uint64_t log_ahead_ms; /* how far now_ms is ahead of the wall clock; 0: it is not ahead */
    /* Time since the earliest deadline that the log has not recorded; 0: there is none. */
    uint64_t overdue_ms;
    uint64_t batches;
    uint64_t commands;
    uint64_t batch_commands_max; /* the largest batch so far */
    /* The batches of at most engine_batch_bound(i) commands; the last entry: larger. */
    uint64_t batch_histogram[ENGINE_BATCH_BUCKETS + 1];
    uint64_t syncs;          /* appends that reached the log */
    uint64_t append_ns_last; /* duration of the last append, as the engine saw it */
    uint64_t append_ns_sum;  /* sum over all successful appends */
    /* The appends that took at most engine_append_bound_ns(i); the last entry: longer. */
    uint64_t append_histogram[ENGINE_APPEND_BUCKETS + 1];
    uint64_t append_ns_waiting; /* how long a call of the log has been pending; 0: none is */
    uint64_t queue_commands;    /* waiting or being committed */
    uint64_t overloads;         /* requests rejected because of that */
    /* Commands refused by the committed state, without the log (engine_refuses). */
    uint64_t refusals;
    enum engine_role role;
    enum tn_result stopped;    /* OK, or HALTED, CLOSED */
    enum tn_status stopped_by; /* the status that the log returned */
    uint64_t recovery_commands;
    uint64_t recovery_ns;
    uint64_t snapshots;
    uint64_t snapshots_failed;
    uint64_t snapshot_ns_last;
    /* The longest time for which a step of a snapshot held the state lock. */
    uint64_t snapshot_hold_ns_max;
    /* How often applying a command had to write for a snapshot because the queue was full. */
    uint64_t snapshot_overflows;
    uint64_t events_kept; /* retained events; the oldest and the newest of them */
    struct engine_event_id events_oldest, events_newest;
    uint64_t events_bytes; /* in files */
    /* Events not delivered or not retained because memory or disk was short. */
    uint64_t events_lost;
    bool events_failing; /* the disk does not accept events now */
    uint64_t
        /* How long the disk has not answered the events' files; 0: nothing is pending. */
        events_ns_waiting;
    bool log_full; /* the disk had no room for the last append */
    struct log_stats log;
};

void engine_stats_read(struct engine *engine, struct engine_stats *ret_stats);

#endif
