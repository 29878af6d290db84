/* The engine as a whole: opening, closing, figures.
 *
 * Threads
 *   callers        submit, read; a blocking caller may be the leader of a batch (commit.c)
 *   commit thread  leads for asynchronous requests, ticks, tells the log to be idle (ticker.c)
 *   snapshot       takes snapshots when enough has been written or on request (snapshot_take.c)
 *   the log's own  may call back when an append is done (append.c), says who owns the log and hands
 *                  in the batches of other owners (role.c)
 *
 * Locks, in the order in which they may be taken
 *   lead_lock       between taking the lead and giving it up; never taken by a thread of the log
 *   role_lock       between taking the lead and applying the batches of another owner
 *   submit_lock     the filling batch, who leads, and the role; held for the copy of a command
 *   state_lock      the kernel: apply, reads, steps of a snapshot
 *   snapshots.lock  requests to the snapshot thread, and its figures
 *   drain_lock      the log's snapshot verbs, between the snapshot thread and a leader that finds
 *                   the ring full
 *   queue.lock      the ring between the state and the log during a snapshot
 *   notice_lock     held by a thread during the callback of a notice
 * submit_lock is never held together with state_lock. No lock is held during an append, and none
 * but notice_lock during a callback to the embedding program. The log's snapshot verbs are called without state_lock,
 * but by a leader that finds the ring full: that is the back-pressure.
 *
 * To commit is a lock of its own kind: at most one thread has it (`leading`), and it owns the
 * taken batch, the append, the stamp, the application to the kernel and the delivery of events,
 * one batch after the other. Batch n + 1 is not appended before batch n is durable; with a log that
 * answers later it may be appended before batch n has been applied. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "engine/internal.h"

#define ENGINE_BATCH_BYTES ((uint32_t)1 << 20)
#define ENGINE_BATCH_COMMANDS 8192u
#define ENGINE_EARLY_COMMANDS 256u
#define ENGINE_CLOSE_TICK_MS 60000u /* closing logs the time if the log is this far behind */

/* Signals are left to the threads of the host. */
enum tn_status engine_thread_start(pthread_t *thread, void *(*run)(void *), void *arg) {
    sigset_t all;
    sigset_t before;
    (void)sigfillset(&all);
    (void)pthread_sigmask(SIG_SETMASK, &all, &before);
    int failure = pthread_create(thread, NULL, run, arg);
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    return failure == 0 ? TN_OK : TN_NOMEM;
}

/* ---- Opening ---- */

static size_t engine_values_bytes(void) {
    return (ENGINE_RUN_MAX + KERNEL_BUNDLE_MAX) * sizeof(struct kernel_value);
}

static void engine_batch_sizes(struct engine *engine) {
    const struct engine_options *options = &engine->options;
    uint64_t bytes = options->batch_bytes_max != 0 ? options->batch_bytes_max : ENGINE_BATCH_BYTES;
    uint64_t fits = engine->log->verbs->batch_max(engine->log);
    engine->batch_bytes_max = (uint32_t)(bytes < fits ? bytes : fits);
    engine->batch_commands_max =
        options->batch_commands_max != 0 ? options->batch_commands_max : ENGINE_BATCH_COMMANDS;
    engine->early_commands_min =
        options->early_commands_min != 0 ? options->early_commands_min : ENGINE_EARLY_COMMANDS;
}

static size_t engine_payload_bytes(const struct engine *engine) {
    return (size_t)engine->batch_bytes_max * ENGINE_BATCHES;
}

static enum tn_status engine_memory(struct engine *engine, struct log_error *error) {
    const struct os *os = engine->os;
    void *payloads = NULL;
    void *values = NULL;
    enum tn_status status =
        os->mem_reserve(os->ctx, engine_payload_bytes(engine), false, &payloads);
    if (status == TN_OK) {
        engine->payload_memory = payloads;
        for (unsigned i = 0; i < ENGINE_BATCHES; i++) {
            engine->batches[i].payload =
                engine->payload_memory + (size_t)i * engine->batch_bytes_max;
        }
        status = os->mem_reserve(os->ctx, engine_values_bytes(), false, &values);
    }
    if (status == TN_OK) {
        engine->values = values;
        status = engine_events_init(engine);
    }
    if (status != TN_OK) {
        (void)snprintf(error->text, sizeof error->text, "no memory for the engine's buffers");
    }
    return status;
}

static void engine_init(struct engine *engine, const struct engine_options *options) {
    engine->options = *options;
    engine->os = options->os != NULL ? options->os : os_posix();
    engine->log = options->log;
    engine->store = options->store;
    engine->asks_owner = engine->log->verbs->owned != NULL;
    if (options->notice != NULL) {
        engine->log->notice = engine_notice_line;
        engine->log->notice_ctx = engine;
    }
    engine->options.manual_ticks = options->manual_ticks || options->no_threads;
    engine->filling = &engine->batches[0];
    atomic_store(&engine->next_due, UINT64_MAX);
    engine_batch_sizes(engine);
    engine_waited_init(engine);
    pthread_mutex_init(&engine->submit_lock, NULL);
    pthread_mutex_init(&engine->state_lock, NULL);
    pthread_cond_init(&engine->room, NULL);
    pthread_cond_init(&engine->drained, NULL);
    pthread_cond_init(&engine->boundary, NULL);
    pthread_mutex_init(&engine->lead_lock, NULL);
    pthread_mutex_init(&engine->role_lock, NULL);
    engine_notice_init(engine);
    atomic_store(&engine->refusal, TN_R_CLOSED);
    engine_snapshot_init(engine);
}

/* Frees everything except the threads. The log is closed first, so that it makes no more calls. */
static bool engine_free(struct engine *engine) {
    const struct os *os = engine->os;
    engine_events_free(engine); /* while the directory is still locked */
    bool closed = log_close(engine->store, engine->log);
    if (engine->kernel != NULL) {
        kernel_destroy(engine->kernel);
    }
    engine_metrics_free(engine);
    engine_snapshot_free(engine);
    if (engine->values != NULL) {
        os->mem_release(os->ctx, engine->values, engine_values_bytes());
    }
    if (engine->payload_memory != NULL) {
        os->mem_release(os->ctx, engine->payload_memory, engine_payload_bytes(engine));
    }
    pthread_mutex_destroy(&engine->notice_lock);
    pthread_mutex_destroy(&engine->role_lock);
    pthread_mutex_destroy(&engine->lead_lock);
    pthread_cond_destroy(&engine->boundary);
    pthread_cond_destroy(&engine->drained);
    pthread_cond_destroy(&engine->room);
    pthread_mutex_destroy(&engine->state_lock);
    pthread_mutex_destroy(&engine->submit_lock);
    engine_waited_free(engine);
    free(engine);
    return closed;
}

static enum tn_status engine_start_from_log(struct engine *engine, struct log_error *error) {
    struct log_position at = {0};
    struct log_stats log = {0};
    enum tn_status status = engine_recover(engine, &at, error);
    if (status != TN_OK) {
        return status;
    }
    status = engine_position_check(engine, &at, error);
    if (status != TN_OK) {
        return status;
    }
    engine_clock_open(engine, &at);
    engine_events_replayed(engine, at.lsn);
    engine->store->verbs->stats(engine->store, &log);
    atomic_store(&engine->snapshots.bytes_since, log.bytes_since_snapshot);
    engine_notice(engine, "event=recovered lsn=%llu commands=%llu ms=%llu",
                  (unsigned long long)at.lsn, (unsigned long long)engine->recovery_commands,
                  (unsigned long long)(engine->recovery_ns / 1000000u));
    return TN_OK;
}

static enum tn_status engine_threads(struct engine *engine, struct log_error *error) {
    enum tn_status status = engine_events_start(engine);
    if (status == TN_OK && !engine->options.no_threads) {
        status = engine_ticker_start(engine);
        if (status == TN_OK) {
            status = engine_snapshot_thread_start(engine);
            if (status != TN_OK) {
                engine_ticker_stop(engine);
            }
        }
    }
    if (status != TN_OK) {
        (void)snprintf(error->text, sizeof error->text, "cannot start the engine's threads");
    }
    return status;
}

/* NULL: out of memory; log and store are closed. */
static struct engine *engine_new(const struct engine_options *options, struct log_error *error) {
    struct engine *engine = aligned_alloc(ENGINE_LINE, sizeof *engine);
    error->text[0] = '\0';
    if (engine == NULL) {
        (void)log_close(options->store, options->log);
        (void)snprintf(error->text, sizeof error->text, "no memory for the engine");
        return NULL;
    }
    memset(engine, 0, sizeof *engine);
    engine_init(engine, options);
    return engine;
}

/* Closes an engine that no other thread uses. */
static bool engine_shut(struct engine *engine) {
    pthread_mutex_lock(&engine->submit_lock);
    engine->closing = true;
    pthread_mutex_unlock(&engine->submit_lock);
    engine_submit_now(engine);
    pthread_mutex_lock(&engine->submit_lock);
    while (engine->leading || engine->filling->count > 0) {
        pthread_cond_wait(&engine->drained, &engine->submit_lock);
    }
    pthread_mutex_unlock(&engine->submit_lock);
    if (!engine->options.no_threads) {
        engine_ticker_stop(engine);
        engine_snapshot_thread_stop(engine);
    }
    engine_role_close(engine);
    bool saved = engine_snapshot_at_close(engine);
    if (atomic_load(&engine->keeps)) {
        engine_events_flush(engine, atomic_load(&engine->lsn));
    }
    return engine_free(engine) && saved;
}

static enum tn_status engine_start(const struct engine_options *options, struct engine **ret_engine,
                                   struct log_error *error) {
    struct engine *engine = engine_new(options, error);
    if (engine == NULL) {
        return TN_NOMEM;
    }
    enum tn_status status = engine_memory(engine, error);
    if (status == TN_OK) {
        status = engine_events_open(engine);
        if (status != TN_OK) {
            (void)snprintf(error->text, sizeof error->text, "cannot open the event store: %s",
                           tn_status_text(status));
        }
    }
    if (status == TN_OK) {
        status = engine_start_from_log(engine, error);
    }
    if (status == TN_OK) {
        status = engine_threads(engine, error);
    }
    if (status != TN_OK) {
        (void)engine_free(engine);
        return status;
    }
    status = engine_role_follow(engine);
    if (status != TN_OK) {
        (void)snprintf(error->text, sizeof error->text, "the log cannot be followed: %s",
                       tn_status_text(status));
        (void)engine_shut(engine);
        return status;
    }
    *ret_engine = engine;
    return TN_OK;
}

enum tn_status engine_open(const struct engine_options *options, struct engine **ret_engine,
                           struct log_error *error) {
    int cancel = engine_cancel_hold();
    enum tn_status status = engine_start(options, ret_engine, error);
    engine_cancel_allow(cancel);
    return status;
}

enum tn_status engine_replay(const struct os *os, struct log_store *store, struct log *log,
                             struct engine_report *ret_report, struct log_error *error) {
    const struct engine_options options = {
        .os = os, .log = log, .store = store, .no_threads = true};
    struct engine *engine = engine_new(&options, error);
    if (engine == NULL) {
        return TN_NOMEM;
    }
    struct engine_report report = {.empty = true};
    enum tn_status status = engine_memory(engine, error);
    if (status == TN_OK) {
        status = engine_recover(engine, &report.position, error);
    }
    if (status == TN_OK && engine->kernel != NULL) {
        report.empty = false;
        report.snapshot_lsn = engine->recovery_snapshot_lsn;
        report.commands = engine->recovery_commands;
        report.ns = engine->recovery_ns;
        report.sound = kernel_check(engine->kernel, report.why, sizeof report.why);
        report.hash = kernel_hash(engine->kernel);
        report.limits = *kernel_limits_of(engine->kernel);
        kernel_usage_read(engine->kernel, &report.usage);
    }
    if (status == TN_OK) {
        log->verbs->stats(log, &report.log);
        store->verbs->stats(store, &report.log);
        *ret_report = report;
    }
    (void)engine_free(engine);
    return status;
}

/* The next start compares its clock with the logged time, so idle time must be logged, or it would
 * look like downtime. If that fails, nothing is lost. */
static void engine_close_time(struct engine *engine) {
    struct kernel_result unread = {0};
    if (engine_now(engine) - atomic_load(&engine->logged_ms) >= ENGINE_CLOSE_TICK_MS) {
        engine_execute(engine, engine_tick_command(), &unread);
    }
}

bool engine_close(struct engine *engine) {
    TN_ASSERT(!engine_delivering(engine));
    int cancel = engine_cancel_hold();
    engine_close_time(engine);
    bool closed = engine_shut(engine);
    engine_cancel_allow(cancel);
    return closed;
}

/* ---- Figures ---- */

static uint64_t engine_counter(const _Atomic uint64_t *counter) {
    return atomic_load_explicit(counter, memory_order_relaxed);
}

uint64_t engine_lsn(const struct engine *engine) {
    return atomic_load_explicit(&engine->lsn, memory_order_acquire);
}

void engine_stats_read(struct engine *engine, struct engine_stats *ret_stats) {
    struct engine_snapshots *snapshots = &engine->snapshots;
    struct engine_stats stats = {
        .lsn = engine_counter(&engine->lsn),
        .now_ms = engine_now(engine),
        .batches = engine_counter(&engine->batches_done),
        .commands = engine_counter(&engine->commands_done),
        .batch_commands_max = engine_counter(&engine->batch_largest),
        .syncs = engine_counter(&engine->appends),
        .append_ns_last = engine_counter(&engine->append_ns_last),
        .append_ns_sum = engine_counter(&engine->append_ns_sum),
        .refusals = engine_counter(&engine->refusals),
        .stopped = engine_authority_sound(engine) ? TN_R_OK : TN_R_HALTED,
        .stopped_by = (enum tn_status)atomic_load(&engine->stopped_by),
        .recovery_commands = engine->recovery_commands,
        .recovery_ns = engine->recovery_ns,
    };
    stats.log_full = atomic_load_explicit(&engine->log_full, memory_order_relaxed);
    uint64_t asked_ns = engine_counter(&engine->log_asked_ns);
    if (asked_ns > 0) {
        stats.append_ns_waiting = engine->os->clock_boot_ns(engine->os->ctx) - asked_ns;
    }
    uint64_t wall_ms = engine->os->clock_wall_ms(engine->os->ctx);
    stats.log_ahead_ms = stats.now_ms > wall_ms ? stats.now_ms - wall_ms : 0;
    uint64_t due_ms = engine_counter(&engine->next_due);
    stats.overdue_ms = due_ms < stats.now_ms ? stats.now_ms - due_ms : 0;
    pthread_mutex_lock(&engine->submit_lock);
    stats.queue_commands = engine->filling->count + engine->committing;
    stats.overloads = engine->overloads;
    stats.role = engine->role;
    if (stats.stopped == TN_R_OK && engine->closing) {
        stats.stopped = TN_R_CLOSED;
    }
    pthread_mutex_unlock(&engine->submit_lock);
    pthread_mutex_lock(&snapshots->lock);
    stats.snapshots = snapshots->taken;
    stats.snapshots_failed = snapshots->failed;
    stats.snapshot_ns_last = snapshots->ns_last;
    stats.snapshot_hold_ns_max = snapshots->hold_ns_max;
    pthread_mutex_unlock(&snapshots->lock);
    pthread_mutex_lock(&snapshots->queue.lock);
    stats.snapshot_overflows = snapshots->queue.overflows;
    pthread_mutex_unlock(&snapshots->queue.lock);
    for (unsigned i = 0; i <= ENGINE_APPEND_BUCKETS; i++) {
        stats.append_histogram[i] = engine_counter(&engine->append_histogram[i]);
    }
    for (unsigned i = 0; i <= ENGINE_BATCH_BUCKETS; i++) {
        stats.batch_histogram[i] = engine_counter(&engine->batch_histogram[i]);
    }
    engine_events_stats(engine, &stats);
    engine->log->verbs->stats(engine->log, &stats.log);
    engine->store->verbs->stats(engine->store, &stats.log);
    *ret_stats = stats;
}
