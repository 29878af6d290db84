/* Internal: the engine's own structure. Threads, locks and their order are explained in engine.c. */
#ifndef TN_ENGINE_INTERNAL_H
#define TN_ENGINE_INTERNAL_H

#include <pthread.h>
#include <stdatomic.h>

#include "engine/engine.h"
#include "engine/park.h"
#include "kernel/kernel.h"
#include "log/snapshot_store.h"

/* Bytes of a cache line; fields written by different threads are on different lines. */
#define ENGINE_LINE 64

/* Commands applied under one hold of the state lock. Afterwards readers get the lock, and results
 * are handed over while they are still in the cache. */
#define ENGINE_RUN_MAX 1024u

/* ---- commit.c ---- */

/* Where a blocking caller stands. */
enum waiter_state { WAITER_WAITING, WAITER_DONE };

/* A blocking caller, on its own stack. */
struct engine_waiter {
    engine_park_word word; /* enum waiter_state */
    struct kernel_value *values;
    uint32_t value_capacity;
    /* The callers that it wakes after it has been answered itself. */
    struct engine_waiter *wakes[2];
};

/* Commands that will be one batch of the log. */
struct engine_batch {
    uint8_t *payload; /* each command: uint32 length, bytes */
    uint32_t len;
    uint32_t count;
    uint32_t op_count; /* commands with an operation id */
    uint32_t waiters;  /* commands of blocking callers */
    bool taken;        /* the leader has it */
    struct engine_request *first, *last;
};

/* One that fills, one that the log has, one that is applied. */
#define ENGINE_BATCHES 3u

/* A queue of requests, by `next`. */
struct engine_list {
    struct engine_request *first, *last;
};

static inline void engine_list_push(struct engine_list *list, struct engine_request *request) {
    request->next = NULL;
    if (list->last != NULL) {
        list->last->next = request;
    } else {
        list->first = request;
    }
    list->last = request;
}

/* ---- refuse.c ---- */

#define ENGINE_REFUSED 1024u /* pools and leases that are told apart, by their hashes */

/* ---- commit_delay.c ---- */

/* Only the leader changes these fields. It changes `expected` and `waits` under submit_lock, where
 * other threads read them. */
struct engine_delay {
    /* Commands expected in the next batch; 0: the leader does not wait for them. */
    uint32_t expected;
    bool waits;
    uint64_t until_ns;
    uint32_t skip, backoff;
};

/* ---- clock.c ---- */

/* Set when the engine opens and whenever it takes the lead. */
struct engine_clock {
    _Atomic uint32_t turn;    /* odd: being set */
    _Atomic uint64_t base_ms; /* the log's time at boot_ms */
    _Atomic uint64_t boot_ms;
    _Atomic uint64_t lead_ms; /* how far the log was ahead of the wall clock then */
};

/* ---- deliver.c ---- */

/* A running callback, on the stack of the thread that runs it. */
struct engine_delivery {
    const struct engine *engine;
    struct engine_delivery *outer;
};

/* ---- events.c ---- */

struct engine_events {
    struct engine_store *store; /* NULL: no events are retained */
    bool replaying;
    uint8_t *at; /* NULL: no events are wanted */
    size_t used;
    size_t capacity;
    size_t lost_end; /* where the last record of lost events ends; 0: there is none */
    struct engine_event_value *values; /* values of the event being delivered */
    _Atomic uint64_t lost;             /* events lost because memory was short */
};

/* ---- waited.c ---- */

/* Answers to waiting leases, kept until the run with their command has ended. */
struct engine_waited;
struct engine_waited_list {
    struct engine_waited *first, *last; /* the leader's own */
    pthread_mutex_t lock;               /* held while the sink is called */
    engine_waited_sink *call;
    void *ctx;
};

/* ---- snapshot_take.c ---- */

/* Sections on their way from the state to the snapshot store, in a ring of bytes. */
struct engine_queue {
    pthread_mutex_t lock;
    uint8_t *ring; /* NULL: no snapshot is being taken */
    size_t capacity;
    size_t head, tail;  /* where the oldest section begins, and where the next one goes */
    size_t used;        /* bytes from head to tail, with the skipped end of the ring */
    uint64_t overflows; /* how often a producer found no room */
    uint32_t record_bytes[KERNEL_TABLES_MAX]; /* by table id */
};

struct engine_snapshots {
    pthread_mutex_t lock; /* protects everything below, except the queue */
    pthread_cond_t changed;
    pthread_t thread;
    bool stop;
    bool running; /* a thread is taking a snapshot */
    /* Requests are numbered; a snapshot serves all requests made before its start. */
    uint64_t wanted, finished;
    enum tn_status status; /* outcome of the last snapshot */
    struct log_error error;
    uint64_t hold_ns_max, ns_last, taken, failed;
    struct engine_queue queue;
    pthread_mutex_t drain_lock; /* held by the thread that writes sections to the store */
    /* Under drain_lock: the first failure; later sections are dropped. */
    enum tn_status write_status;
    _Atomic uint64_t bytes_since; /* bytes logged since the moment of the last snapshot */
    _Atomic uint64_t trigger;     /* the next snapshot starts when bytes_since reaches this */
};

/* ---- pool_metrics.c ---- */

/* The metrics that were last delivered for one pool. */
struct engine_meter {
    uint64_t name_hash; /* 0: a free place */
    uint64_t digest;
    uint64_t next_ms;
};

struct engine_meters {
    _Atomic bool busy; /* set while a thread looks for changed metrics */
    struct engine_meter *of;
    uint32_t count, capacity; /* a power of two */
    uint64_t lsn_seen;        /* position at the last look */
    uint32_t sticky_seen;
};

struct engine {
    /* Constant after engine_open. */
    const struct os *os;
    struct log *log;
    struct log_store *store;
    struct engine_options options;
    uint32_t batch_bytes_max;
    uint32_t batch_commands_max;
    uint32_t early_commands_min; /* that are worth an append before the last batch is applied */
    uint8_t *payload_memory;
    struct kernel_value *values; /* results of one run: ENGINE_RUN_MAX + KERNEL_BUNDLE_MAX */

    struct log_follower follower;
    bool asks_owner; /* the log can be lost, so every read checks the ownership */

    struct engine_clock clock;
    _Atomic uint64_t last_ms; /* time of the last batch */
    bool clock_approved;      /* under role_lock: it was started by engine_clock_start */

    /* Waiting to be committed: under submit_lock. */
    _Alignas(ENGINE_LINE) pthread_mutex_t submit_lock;
    pthread_cond_t room; /* the filling batch was taken, or waiting for room has become pointless */
    pthread_cond_t drained; /* no thread leads, and no request waits */
    struct engine_batch batches[ENGINE_BATCHES];
    struct engine_batch *filling;
    uint32_t committing; /* commands in the batches that the leader has taken */
    bool leading;        /* a thread commits, or has been told to */
    bool thread_leads;   /* that thread is the commit thread */
    bool gathering; /* more requests are about to be added: the filling batch is not taken yet */
    bool rouse;     /* engine_commit_unlock must wake the commit thread */
    bool closing;
    enum engine_role role;            /* only engine_role_move changes it */
    bool owned;                       /* this node owns the log */
    _Atomic uint32_t leads;           /* how often the engine has begun to lead */
    uint64_t owner_turn;              /* how often the log has reported an owner */
    char leader[LOG_LEADER_MAX + 1];  /* address of another owner; empty: not known */
    struct log_succession succession; /* of the last lead */
    bool tick_pending;
    uint64_t overloads;
    /* Changed under submit_lock, read by any thread. */
    _Atomic bool busy; /* a request waits or is being committed */
    /* Releases in the filling batch, less the requests for values after them. */
    _Atomic uint32_t freeing;
    /* A refused command comes next that a release before it makes worth a sync at once (refuse.c). */
    _Atomic bool hurry;

    /* The leader's own. */
    _Alignas(ENGINE_LINE) engine_park_word appended; /* enum append_state */
    enum tn_status append_status;
    uint64_t append_began_ns, append_ended_ns;
    uint64_t durable_lsn; /* of the last batch that the log has taken from this engine */
    uint64_t lsn_least;   /* the lowest LSN of a new command; the log may skip LSNs at a start */
    bool limits_prepared; /* for the LIMITS command that follows */
    struct engine_delay delay;
    struct engine_events events;
    struct engine_waited_list waited;

    /* The state, under state_lock. */
    _Alignas(ENGINE_LINE) pthread_mutex_t state_lock;
    pthread_cond_t boundary; /* mid_batch or imaging has become false */
    struct kernel *kernel;
    struct engine_watcher *watchers; /* in the order in which they were added */
    uint64_t watch_kinds;            /* the kinds of all watchers together */
    bool mid_batch;                  /* a batch has been applied in part: no snapshot may begin */
    bool imaging;                    /* an image is being taken: limits may not change */

    /* Read by all threads. */
    _Alignas(ENGINE_LINE) _Atomic uint64_t lsn;
    _Atomic uint64_t next_due;
    _Atomic uint64_t users_lsn; /* position of the last change of a user */
    _Atomic uint64_t logged_ms; /* the state's time: that of the last applied batch */
    /* Enum tn_result: OK while the engine leads, otherwise the answer to writes. */
    _Atomic uint32_t refusal;
    _Atomic uint32_t stopped_by; /* enum tn_status: why the engine has halted */
    _Atomic bool keeps; /* the engine has led or applied something, so closing takes a snapshot */
    _Atomic uint32_t fence_waiters;
    engine_park_word applied; /* a counter, incremented if there are fence_waiters */
    _Atomic uint64_t batches_done, commands_done, batch_largest, appends, append_ns_last,
        append_ns_sum, append_histogram[ENGINE_APPEND_BUCKETS + 1],
        batch_histogram[ENGINE_BATCH_BUCKETS + 1];
    _Atomic bool log_full;     /* the disk had no room for the last append */
    _Atomic uint64_t refusals; /* without the log */
    _Atomic bool refuses_some; /* an entry of the following array is not 0 */
    _Atomic uint8_t
        refused[ENGINE_REFUSED]; /* pools and leases that have refused commands recently */
    /* Since when a call of the log has not returned; 0: none is pending. */
    _Atomic uint64_t log_asked_ns;

    /* The commit thread (ticker.c). */
    _Alignas(ENGINE_LINE) pthread_t thread;
    engine_park_word thread_word; /* a counter, incremented to make the thread look for work */
    _Atomic bool thread_stop;
    _Atomic uint64_t armed_ms; /* the time at which the thread wakes by itself */
    _Atomic uint64_t tick_not_before_ms;
    struct engine_request tick;
    uint64_t idle_appends;  /* appends when the log was last told to be idle */
    uint64_t awake_appends; /* appends when the thread last looked */
    uint64_t metrics_next_ms;

    pthread_mutex_t lead_lock; /* held during engine_lead and engine_follow */
    /* Held by the one thread that leads, follows, or applies as a follower. */
    pthread_mutex_t role_lock;
    pthread_mutex_t notice_lock; /* held by the thread that delivers a notice; recursive */
    uint64_t recovery_commands, recovery_ns;
    uint64_t recovery_snapshot_lsn; /* 0: recovery began without a snapshot */
    struct engine_snapshots snapshots;
    struct engine_meters meters;
};

/* authority.c */
/* OK, or why this engine may neither write nor report on leases. */
enum tn_result engine_authority(const struct engine *engine);
/* True on an engine that leads and whose log has not been surely its own for a while: its ownership is not
 * renewed, and other nodes may own the log by now. */
bool engine_authority_lapsed(const struct engine *engine);
/* OK, or why a new write is refused. */
enum tn_result engine_authority_write(const struct engine *engine);
/* The same for a read in this mode. Called before and after the read. */
enum tn_result engine_authority_read(const struct engine *engine, enum engine_read_mode mode);
/* Which lead of this engine the next look belongs to. */
uint32_t engine_authority_lead(const struct engine *engine);
/* After a look that engine_authority_read allows: whether the log confirms that it is ours, if it is asked for
 * that, and whether the lead is still the one before the look. Inside a callback nothing is asked: it must
 * not wait. */
bool engine_authority_confirms(const struct engine *engine, uint32_t lead);
/* False if the engine has halted: its state and its files must no longer be used. */
bool engine_authority_sound(const struct engine *engine);
/* Shows a lease as OVERDUE if `clock_ms` has reached its deadline. True: it has. */
bool engine_authority_mark(struct kernel_lease_view *view, uint64_t clock_ms);

/* role.c */
/* With submit_lock held. */
void engine_role_move(struct engine *engine, enum engine_role to);
/* With submit_lock held: waits until all that was accepted is answered. */
void engine_role_drain(struct engine *engine);
/* This engine no longer owns the log, for this reason. If it led, it follows now. */
void engine_role_lost(struct engine *engine, const char *reason);
/* Called by the committing thread after a failed append or mark. The engine follows if another node
 * owns the log, and halts otherwise. Returns the answer to the requests of the batch. */
enum tn_result engine_role_failed(struct engine *engine, enum tn_status status);
enum tn_status engine_role_follow(struct engine *engine);
void engine_role_close(struct engine *engine);

/* lead.c */
/* Does what is required before the engine leads a log that it owns. With role_lock held. */
enum tn_status engine_lead_prepare(struct engine *engine, struct log_error *error);

/* clock.c */
void engine_clock_open(struct engine *engine, const struct log_position *at);
/* A follower has applied a batch with this time. */
void engine_clock_follow(struct engine *engine, uint64_t now_ms);
/* Sets the log's time while the engine follows. With role_lock held. */
void engine_clock_told(struct engine *engine, uint64_t now_ms);
/* With role_lock held. */
enum tn_status engine_clock_start(struct engine *engine, const struct log_position *at,
                                  const struct log_succession *succession, struct log_error *error);
uint64_t engine_clock_stamp(struct engine *engine);

/* commit.c */
/* Commits one batch. `self` is the blocking caller that leads; NULL: the commit thread leads. */
void engine_commit_lead(struct engine *engine, struct engine_waiter *self);
/* Makes the commit thread look for work. With submit_lock held; engine_commit_unlock releases the
 * lock and then wakes the thread. */
void engine_commit_rouse(struct engine *engine);
void engine_commit_unlock(struct engine *engine);
/* Ends the lead of the calling thread, unless it is the commit thread and has more to do. With
 * submit_lock held. */
void engine_commit_pass(struct engine *engine, bool is_thread);
/* Submits the commit thread's own tick, for which every batch reserves room. With submit_lock
 * held. */
void engine_commit_tick(struct engine *engine, struct engine_request *request);

/* refuse.c */
/* Notes that the command was logged and refused, so similar commands may be refused, too. */
void engine_refuse_expect(struct engine *engine, const struct kernel_command *command);

/* commit_delay.c */
void engine_delay_expect(struct engine *engine, uint32_t count);
/* Called by the commit thread before it takes a batch. */
void engine_delay_wait(struct engine *engine);
void engine_delay_look(struct engine *engine);

/* append.c */
/* The log has the batch, and perhaps its answer, when this returns; one at a time. The batch's bytes
 * stay as they are until the end. */
void engine_append_begin(struct engine *engine, const struct engine_batch *batch,
                         struct log_batch *ret_logged);
/* Waits for the answer. */
enum tn_result engine_append_end(struct engine *engine, const struct log_batch *logged);
/* Both. */
enum tn_result engine_append_batch(struct engine *engine, const struct engine_batch *batch,
                                   struct log_batch *ret_logged);
/* A call of the log that may take long begins at `now_ns`. 0: it has returned. */
void engine_log_asked(struct engine *engine, uint64_t now_ns);

/* apply.c */
enum tn_status engine_apply_batch(struct engine *engine, const struct log_batch *batch,
                                  struct engine_request *requests, struct engine_list *sleepers);
void engine_refuse(struct engine *engine, struct engine_request *requests, enum tn_result code,
                   struct engine_list *sleepers);

/* deliver.c */
/* Whether this thread is in a callback of this engine. */
bool engine_delivering(const struct engine *engine);
void engine_deliver_begin(const struct engine *engine, struct engine_delivery *delivery);
void engine_deliver_end(const struct engine_delivery *delivery);
void engine_notice_init(struct engine *engine);
log_notice engine_notice_line; /* ctx is the engine */
__attribute__((format(printf, 2, 3))) void engine_notice(struct engine *engine, const char *format,
                                                         ...);
/* Called around everything that may block, so that no cancellation point in between has an
 * effect. */
int engine_cancel_hold(void);
void engine_cancel_allow(int before);

/* events.c */
kernel_sink engine_events_sink;
/* NULL: no events are wanted. With the state lock held, or before other threads know the engine. */
kernel_sink *engine_events_sink_of(const struct engine *engine);
enum tn_status engine_events_init(struct engine *engine);
enum tn_status engine_events_open(struct engine *engine);
void engine_events_replay(struct engine *engine, uint64_t snapshot_lsn);
void engine_events_replayed(struct engine *engine, uint64_t end_lsn);
enum tn_status engine_events_start(struct engine *engine);
void engine_events_stats(struct engine *engine, struct engine_stats *stats);
/* Makes the events of all commands up to `lsn` durable. The leader must have applied these
 * commands. */
void engine_events_flush(struct engine *engine, uint64_t lsn);
void engine_events_free(struct engine *engine);
bool engine_events_full(const struct engine_events *events);
void engine_events_deliver(struct engine *engine);

/* waited.c */
kernel_waited engine_waited_keep; /* ctx is the engine */
void engine_waited_init(struct engine *engine);
void engine_waited_deliver(struct engine *engine);
void engine_waited_free(struct engine *engine);

/* replay.c */
/* Whether the batch may follow the state. The first batch of a log creates the kernel. */
enum tn_status engine_batch_check(struct engine *engine, const struct log_batch *batch,
                                  struct log_error *error);
enum tn_status engine_batch_apply(struct engine *engine, const struct log_batch *batch,
                                  struct log_error *error);
/* Whether the log's position is the state's. */
enum tn_status engine_position_check(const struct engine *engine, const struct log_position *at,
                                     struct log_error *error);
enum tn_status engine_recover(struct engine *engine, struct log_position *ret_position,
                              struct log_error *error);
enum tn_status engine_kernel_create(struct engine *engine, const struct kernel_limits *limits,
                                    uint64_t shard);
/* Gets the memory for changed limits, after waiting until no image is being taken. Called with
 * state_lock held; releases it while waiting. */
enum tn_status engine_limits_prepare(struct engine *engine, const struct kernel_limits *limits);

/* snapshot_take.c */
#define SECTION_META 1u
#define SECTION_CHUNK 2u
#define SECTION_CHUNK_HEADER 12u
void engine_snapshot_init(struct engine *engine);
void engine_snapshot_free(struct engine *engine);
enum tn_status engine_snapshot_thread_start(struct engine *engine);
void engine_snapshot_thread_stop(struct engine *engine);
void engine_snapshot_appended(struct engine *engine, uint64_t payload);
bool engine_snapshot_at_close(struct engine *engine);

/* queue.c */
void engine_queue_init(struct engine_queue *queue);
void engine_queue_free(struct engine_queue *queue);
enum tn_status engine_queue_open(struct engine_queue *queue, const struct os *os, size_t bytes);
void engine_queue_close(struct engine_queue *queue, const struct os *os);
/* Whether there is room for a step of a snapshot. */
bool engine_queue_has_room(struct engine_queue *queue);
/* False if there is no room. */
bool engine_queue_push(struct engine_queue *queue, const struct tn_table_chunk *chunk);
/* The oldest section; false if there is none. It stays until engine_queue_pop. */
bool engine_queue_peek(struct engine_queue *queue, struct tn_bytes *ret_section);
void engine_queue_pop(struct engine_queue *queue, struct tn_bytes section);

/* ticker.c */
enum tn_status engine_ticker_start(struct engine *engine);
void engine_ticker_stop(struct engine *engine);
void engine_ticker_nudge(struct engine *engine);
/* Whether the commit thread has something else to do than to commit requests. */
bool engine_ticker_is_due(const struct engine *engine);

/* pool_metrics.c */
enum tn_status engine_metrics_init(struct engine *engine);
void engine_metrics_free(struct engine *engine);
void engine_metrics_run(struct engine *engine);
void engine_metrics_of_view(const struct kernel_pool_view *view, uint64_t clock_ms,
                            struct engine_metrics *out);

/* engine.c */
enum tn_status engine_thread_start(pthread_t *thread, void *(*run)(void *), void *arg);

#endif
