/* Internal: the engine's own structure. Threads, locks and their order are explained in engine.c. */
#ifndef TN_ENGINE_INTERNAL_H
#define TN_ENGINE_INTERNAL_H

#include <pthread.h>
#include <stdatomic.h>

#include "base/assert.h"
#include "engine/engine.h"
#include "engine/park.h"
#include "kernel/kernel.h"
#include "log/snapshot_store.h"

#define ENGINE_LINE 64 /* bytes of a cache line: what different threads write stands apart */

/* Commands applied under one hold of the state lock; then others may look, and results are handed
 * over while they are still in the cache. */
#define ENGINE_RUN_MAX 1024u

/* ---- commit.c ---- */

/* Where a blocking caller stands. */
enum waiter_state { WAITER_WAITING, WAITER_DONE };

/* A blocking caller, on its own stack. */
struct engine_waiter {
    engine_park_word word; /* enum waiter_state */
    struct kernel_value *values;
    uint32_t value_capacity;
    struct engine_waiter *wakes[2]; /* whom it wakes when it is done itself */
};

/* Commands that will be one log batch. */
struct engine_batch {
    uint8_t *payload; /* each command: uint32 length, bytes */
    uint32_t len;
    uint32_t count;
    uint32_t op_count; /* of them, those with an operation id */
    uint32_t waiters;  /* and the blocking ones */
    struct engine_request *first, *last;
};

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

/* The leader's own; changed, and looked at by others, under submit_lock: expected, waits. */
struct engine_delay {
    uint32_t expected; /* commands in the next batch; 0: it does not wait for them */
    bool waits;
    uint64_t until_ns;
    uint32_t skip, backoff;
};

/* ---- clock.c ---- */

/* Set when the engine opens and whenever it takes the lead. */
struct engine_clock {
    _Atomic uint32_t turn;    /* odd: being set */
    _Atomic uint64_t base_ms; /* the time that boot_ms stands for */
    _Atomic uint64_t boot_ms;
    _Atomic uint64_t lead_ms; /* of the log before the wall clock then */
};

/* ---- deliver.c ---- */

/* A running callback, on the stack of the thread that runs it. */
struct engine_delivery {
    const struct engine *engine;
    struct engine_delivery *outer;
};

/* ---- events.c ---- */

struct engine_events {
    struct engine_store *store; /* NULL: none are kept */
    bool replaying;
    uint8_t *at; /* NULL: no events are wanted */
    size_t used;
    size_t capacity;
    size_t lost_end;                   /* where the last mark of lost ones ends; 0: there is none */
    struct engine_event_value *values; /* of the one being delivered */
    _Atomic uint64_t lost;             /* for want of memory */
};

/* ---- waited.c ---- */

/* Answers to waiting leases, from their command to the end of its run. */
struct engine_waited;
struct engine_waited_list {
    struct engine_waited *first, *last; /* the leader's own */
    pthread_mutex_t lock;               /* held while the sink is called */
    engine_waited_sink *call;
    void *ctx;
};

/* ---- snapshot_take.c ---- */

/* Sections on their way from the state to the log, in a ring of bytes. */
struct engine_queue {
    pthread_mutex_t lock;
    uint8_t *ring; /* NULL: no snapshot under way */
    size_t capacity;
    size_t head, tail;                        /* where the oldest starts, where the next goes */
    size_t used;                              /* bytes from head to tail, skipped ends included */
    uint64_t overflows;                       /* times that a producer found no room */
    uint32_t record_bytes[KERNEL_TABLES_MAX]; /* by table id */
};

struct engine_snapshots {
    pthread_mutex_t lock; /* everything below, but for the queue */
    pthread_cond_t changed;
    pthread_t thread;
    bool stop;
    bool running;              /* a thread is taking one */
    uint64_t wanted, finished; /* requests are numbered; one snapshot serves all before its start */
    enum tn_status status;     /* of the last one */
    struct log_error error;
    uint64_t hold_ns_max, ns_last, taken, failed;
    struct engine_queue queue;
    pthread_mutex_t drain_lock;   /* held by the thread that writes sections to the log */
    enum tn_status write_status;  /* under drain_lock: the first failure; what follows is dropped */
    _Atomic uint64_t bytes_since; /* log written since the last snapshot's moment */
    _Atomic uint64_t trigger;     /* the next one starts when bytes_since gets here */
};

/* ---- pool_metrics.c ---- */

/* What was last told about one pool. */
struct engine_meter {
    uint64_t name_hash; /* 0: a free place */
    uint64_t digest;
    uint64_t next_ms;
};

struct engine_meters {
    _Atomic bool busy; /* one look at a time */
    struct engine_meter *of;
    uint32_t count, capacity; /* a power of two */
    uint64_t lsn_seen;        /* at the last look */
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
    uint8_t *payload_memory;
    struct kernel_value *values; /* results of one run: ENGINE_RUN_MAX + KERNEL_BUNDLE_MAX */

    struct log_follower follower;
    bool asks_owner; /* the log can be lost: every read asks it */

    struct engine_clock clock;
    _Atomic uint64_t last_ms; /* of the last batch */
    bool clock_approved;      /* under role_lock: it was started by engine_clock_start */

    /* Waiting to be committed: under submit_lock. */
    _Alignas(ENGINE_LINE) pthread_mutex_t submit_lock;
    pthread_cond_t room;    /* the filling batch was taken, or there is no more use in waiting */
    pthread_cond_t drained; /* no thread leads and no request waits */
    struct engine_batch batches[2];
    struct engine_batch *filling;
    uint32_t committing; /* commands in the batch that the leader has */
    bool leading;        /* a thread commits, or has been told to */
    bool thread_leads;   /* that thread is the commit thread */
    bool gathering;      /* more is to come: the filling batch is not taken */
    bool rouse;          /* engine_commit_unlock wakes the commit thread */
    bool closing;
    enum engine_role role;            /* moved by engine_role_move only */
    bool owned;                       /* the log is ours */
    uint32_t leads;                   /* how often it has begun to lead */
    uint64_t owner_turn;              /* how often the log has said who owns it */
    char leader[LOG_LEADER_MAX + 1];  /* its owner otherwise; empty: none is known */
    struct log_succession succession; /* of the last lead */
    bool tick_pending;
    uint64_t overloads;
    /* Changed under submit_lock; looked at by any thread. */
    _Atomic bool busy;        /* a request waits or is being committed */
    _Atomic uint32_t freeing; /* releases in the filling batch, less the requests after them */

    /* The leader's own. */
    _Alignas(ENGINE_LINE) engine_park_word appended; /* enum append_state */
    enum tn_status append_status;
    uint64_t lsn_least;   /* of a new command: the log may have passed over LSNs at this start */
    bool limits_prepared; /* for the LIMITS command that comes next */
    struct engine_delay delay;
    struct engine_events events;
    struct engine_waited_list waited;

    /* The state: under state_lock. */
    _Alignas(ENGINE_LINE) pthread_mutex_t state_lock;
    pthread_cond_t boundary; /* mid_batch or imaging has become false */
    struct kernel *kernel;
    struct engine_watcher *watchers; /* in the order in which they were added */
    uint64_t watch_kinds;            /* of all of them */
    bool mid_batch;                  /* a batch is applied in part: no moment for a snapshot */
    bool imaging;                    /* an image is being taken: no moment for other limits */

    /* For everyone to see. */
    _Alignas(ENGINE_LINE) _Atomic uint64_t lsn;
    _Atomic uint64_t next_due;
    _Atomic uint64_t users_lsn;  /* the last change of a user */
    _Atomic uint64_t logged_ms;  /* the state's time: of the last batch that was applied */
    _Atomic uint32_t refusal;    /* enum tn_result: OK while it leads, else the answer to writes */
    _Atomic uint32_t stopped_by; /* enum tn_status: why it halted */
    _Atomic bool keeps;          /* it has led or applied something: closing takes a snapshot */
    _Atomic uint32_t fence_waiters;
    engine_park_word applied; /* a counter, moved when there are fence_waiters */
    _Atomic uint64_t batches_done, commands_done, batch_largest, appends, append_ns_last,
        append_ns_sum, append_histogram[ENGINE_APPEND_BUCKETS + 1];
    _Atomic bool log_full;     /* the last append was refused for want of room */
    _Atomic uint64_t refusals; /* without the log */
    _Atomic bool refuses_some; /* one of the following is not 0 */
    _Atomic uint8_t
        refused[ENGINE_REFUSED];   /* pools and leases that have refused something lately */
    _Atomic uint64_t log_asked_ns; /* since when the log owes an answer; 0: it does not */

    /* The commit thread (ticker.c). */
    _Alignas(ENGINE_LINE) pthread_t thread;
    engine_park_word thread_word; /* a counter, moved to make it look around */
    _Atomic bool thread_stop;
    _Atomic uint64_t armed_ms; /* when it will look by itself */
    _Atomic uint64_t tick_not_before_ms;
    struct engine_request tick;
    uint64_t idle_appends;  /* appends when the log was last told to be idle */
    uint64_t awake_appends; /* appends when the thread last looked */
    uint64_t metrics_next_ms;

    pthread_mutex_t lead_lock;   /* between engine_lead and engine_follow */
    pthread_mutex_t role_lock;   /* one thread at a time leads, follows, or applies as a follower */
    pthread_mutex_t notice_lock; /* held by the thread that tells a notice; recursive */
    uint64_t recovery_commands, recovery_ns;
    uint64_t recovery_snapshot_lsn; /* 0: there was none */
    struct engine_snapshots snapshots;
    struct engine_meters meters;
};

/* authority.c */
/* OK, or why this engine may neither write nor say anything about leases. */
enum tn_result engine_authority(const struct engine *engine);
/* The same for a read of this mode, asked before and after it has looked. */
enum tn_result engine_authority_read(const struct engine *engine, enum engine_read_mode mode);
/* False if the engine has halted: its state and its files must no longer be used. */
bool engine_authority_sound(const struct engine *engine);
/* Shows a lease as OVERDUE if `clock_ms` has reached its deadline; true: it did. */
bool engine_authority_mark(struct kernel_lease_view *view, uint64_t clock_ms);

/* role.c */
/* With submit_lock held. */
void engine_role_move(struct engine *engine, enum engine_role to);
/* With submit_lock held: waits until all that was accepted is answered. */
void engine_role_drain(struct engine *engine);
/* This engine does not own the log any more, for this reason: follows, if it led. */
void engine_role_lost(struct engine *engine, const char *reason);
/* By the committing thread: an append or a mark has failed. The engine follows if the log has another
 * owner, and halts otherwise. Returns the answer to the requests of the batch. */
enum tn_result engine_role_failed(struct engine *engine, enum tn_status status);
enum tn_status engine_role_follow(struct engine *engine);
void engine_role_close(struct engine *engine);

/* lead.c */
/* What must be done before the engine leads a log that it owns. With role_lock held. */
enum tn_status engine_lead_prepare(struct engine *engine, struct log_error *error);

/* clock.c */
void engine_clock_open(struct engine *engine, const struct log_position *at);
/* By a follower: a batch of this time was applied. */
void engine_clock_follow(struct engine *engine, uint64_t now_ms);
/* What the log's time is now. While the engine follows, with role_lock held. */
void engine_clock_told(struct engine *engine, uint64_t now_ms);
/* With role_lock held. */
enum tn_status engine_clock_start(struct engine *engine, const struct log_position *at,
                                  const struct log_succession *succession, struct log_error *error);
uint64_t engine_clock_stamp(struct engine *engine);

/* commit.c */
/* Commits one batch. `self` is the blocking caller that does it, NULL the commit thread. */
void engine_commit_lead(struct engine *engine, struct engine_waiter *self);
/* With submit_lock held: the commit thread must look. engine_commit_unlock lets go of the lock, then wakes it. */
void engine_commit_rouse(struct engine *engine);
void engine_commit_unlock(struct engine *engine);
/* With submit_lock held, by the leader: it is one no more, unless it is the commit thread and there
 * is more to do. */
void engine_commit_pass(struct engine *engine, bool is_thread);
/* The commit thread's own tick, for which every batch has room once. With submit_lock held. */
void engine_commit_tick(struct engine *engine, struct engine_request *request);

/* refuse.c */
/* The command was logged and refused: others like it may be. */
void engine_refuse_expect(struct engine *engine, const struct kernel_command *command);

/* commit_delay.c */
void engine_delay_expect(struct engine *engine, uint32_t count);
/* By the commit thread, before it takes a batch. */
void engine_delay_wait(struct engine *engine);
void engine_delay_look(struct engine *engine);

/* append.c */
enum tn_result engine_append_batch(struct engine *engine, const struct engine_batch *batch,
                                   struct log_batch *ret_logged);
/* The log is asked for something that may take long, at `now_ns`; 0: it has answered. */
void engine_log_asked(struct engine *engine, uint64_t now_ns);

/* apply.c */
enum tn_status engine_apply_batch(struct engine *engine, const struct log_batch *batch,
                                  struct engine_request *requests, struct engine_list *sleepers);
void engine_refuse(struct engine *engine, struct engine_request *requests, enum tn_result code,
                   struct engine_list *sleepers);

/* deliver.c */
bool engine_delivering(const struct engine *engine); /* is this thread in one of its callbacks? */
void engine_deliver_begin(const struct engine *engine, struct engine_delivery *delivery);
void engine_deliver_end(const struct engine_delivery *delivery);
void engine_notice_init(struct engine *engine);
log_notice engine_notice_line; /* ctx is the engine */
__attribute__((format(printf, 2, 3))) void engine_notice(struct engine *engine, const char *format,
                                                         ...);
/* Around every call that may block: no cancellation point in between is one. */
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
/* Makes those of all commands up to `lsn` durable, which the leader has applied, if not more. */
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
/* Whether the batch may follow the state; the first batch of all makes the kernel. */
enum tn_status engine_batch_check(struct engine *engine, const struct log_batch *batch,
                                  struct log_error *error);
enum tn_status engine_batch_apply(struct engine *engine, const struct log_batch *batch,
                                  struct log_error *error);
/* Whether the log stands where the state does. */
enum tn_status engine_position_check(const struct engine *engine, const struct log_position *at,
                                     struct log_error *error);
enum tn_status engine_recover(struct engine *engine, struct log_position *ret_position,
                              struct log_error *error);
enum tn_status engine_kernel_create(struct engine *engine, const struct kernel_limits *limits,
                                    uint64_t shard);
/* Gets the memory for other limits than those in force; waits until no image is being taken. With
 * state_lock held, which it lets go while it waits. */
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
/* Room for a step of a snapshot? */
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

/* pool_metrics.c */
enum tn_status engine_metrics_init(struct engine *engine);
void engine_metrics_free(struct engine *engine);
void engine_metrics_run(struct engine *engine);
void engine_metrics_of_view(const struct kernel_pool_view *view, uint64_t clock_ms,
                            struct engine_metrics *out);

/* engine.c */
enum tn_status engine_thread_start(pthread_t *thread, void *(*run)(void *), void *arg);

#endif
