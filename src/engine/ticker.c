/* The commit thread: leads for asynchronous requests and, between, keeps time.
 *
 * - When the kernel has something due, it commits a tick, at least tick_interval_ms after the one
 *   before, unless that one had to leave work behind (ticks are bounded steps).
 * - When nothing was logged for a day, it still commits a tick: a start after a crash takes
 *   the time since the last logged one for downtime.
 * - When nothing was appended for a while it lets the log know, once: a moment for its mark.
 * - Once a second it looks whether a pool's metrics are due.
 *
 * It sleeps on thread_word until one of these times and says in armed_ms when that is; a thread that makes
 * something due earlier nudges it. Time here is the engine's: with an injected clock that stands
 * still it wakes up at intervals and does nothing. */
#include "base/assert.h"
#include "engine/internal.h"

#define TICKER_INTERVAL_MS 50u
#define TICKER_IDLE_MS 50u
#define TICKER_LOOK_MS \
    1000u /* sleeping does not count the time of a suspended machine; the log's time does */
#define TICKER_RETRY_MS 1000u /* after a tick that was refused */
#define TICKER_QUIET_MS (24u * 3600u * 1000u)

const struct kernel_command *engine_tick_command(void) {
    static const struct kernel_command tick = {.verb = KERNEL_VERB_TICK};
    return &tick;
}

enum tn_result engine_tick(struct engine *engine) {
    struct kernel_result result = {0};
    engine_execute(engine, engine_tick_command(), &result);
    if (result.code == TN_R_OK && engine->options.metrics != NULL) {
        engine_metrics_run(engine);
    }
    return result.code;
}

/* The next tick may follow at once if this one left work behind, otherwise after the interval. */
static void tick_done(struct engine_request *request, struct tn_bytes command) {
    struct engine *engine = request->ctx;
    (void)command;
    uint64_t now_ms = engine_now(engine);
    uint64_t wait_ms = engine->options.tick_interval_ms;
    if (wait_ms == 0) {
        wait_ms = TICKER_INTERVAL_MS;
    }
    if (tn_result_outcome(request->result.code) != TN_COMMITTED) {
        wait_ms = TICKER_RETRY_MS;
    } else if (atomic_load(&engine->next_due) <= request->result.now_ms) {
        wait_ms = 0;
    }
    atomic_store(&engine->tick_not_before_ms, now_ms + wait_ms);
    pthread_mutex_lock(&engine->submit_lock);
    TN_ASSERT(engine->tick_pending && request == &engine->tick);
    engine->tick_pending = false;
    pthread_mutex_unlock(&engine->submit_lock);
    engine_park_bump(&engine->thread_word);
}

static uint64_t tick_due_ms(const struct engine *engine) {
    if (engine->options.manual_ticks || engine_authority(engine) != TN_R_OK) {
        return UINT64_MAX;
    }
    uint64_t due_ms = atomic_load(&engine->next_due);
    uint64_t quiet_ms = atomic_load(&engine->logged_ms) + TICKER_QUIET_MS;
    due_ms = due_ms < quiet_ms ? due_ms : quiet_ms;
    uint64_t not_before_ms = atomic_load(&engine->tick_not_before_ms);
    return due_ms > not_before_ms ? due_ms : not_before_ms;
}

bool engine_ticker_is_due(const struct engine *engine) {
    uint64_t now_ms = engine_now(engine);
    bool metrics = engine->options.metrics != NULL && now_ms >= engine->metrics_next_ms;
    bool tick = !engine->tick_pending && tick_due_ms(engine) <= now_ms;
    return !engine->options.manual_ticks && (metrics || tick);
}

/* With submit_lock held. */
static void ticker_tick(struct engine *engine, uint64_t now_ms) {
    if (engine->tick_pending || engine->closing || tick_due_ms(engine) > now_ms) {
        return;
    }
    engine->tick = (struct engine_request){.done = tick_done, .ctx = engine};
    engine_commit_tick(engine, &engine->tick);
    engine->tick_pending = true;
    if (!engine->leading) {
        engine->leading = true;
        engine->thread_leads = true;
    }
}

/* Tells the log that it is idle. With submit_lock held, which is released meanwhile; leading during
 * that time prevents appends. */
static void ticker_idle(struct engine *engine) {
    uint64_t appends = atomic_load_explicit(&engine->appends, memory_order_relaxed);
    bool quiet = appends == engine->awake_appends;
    engine->awake_appends = appends;
    if (!quiet || appends == engine->idle_appends || engine->leading ||
        engine_authority(engine) != TN_R_OK) {
        return;
    }
    engine->idle_appends = appends;
    engine->leading = true;
    engine->thread_leads = true;
    pthread_mutex_unlock(&engine->submit_lock);
    engine_log_asked(engine, engine->os->clock_boot_ns(engine->os->ctx));
    enum tn_status status = engine->log->verbs->idle(engine->log);
    engine_log_asked(engine, 0);
    if (status != TN_OK) {
        (void)engine_role_failed(engine, status);
    }
    pthread_mutex_lock(&engine->submit_lock);
    engine_commit_pass(engine, true);
}

static uint64_t ticker_metrics(struct engine *engine, uint64_t now_ms) {
    if (engine->options.metrics == NULL || engine->options.manual_ticks) {
        return UINT64_MAX;
    }
    if (now_ms >= engine->metrics_next_ms) {
        engine->metrics_next_ms = now_ms + TICKER_LOOK_MS;
        pthread_mutex_unlock(&engine->submit_lock);
        engine_metrics_run(engine);
        pthread_mutex_lock(&engine->submit_lock);
    }
    return engine->metrics_next_ms;
}

/* How long to sleep; also stored in armed_ms. Another thread changes next_due first and reads
 * armed_ms afterwards. This one stores armed_ms first and reads next_due afterwards. So at least
 * one of the two sees the other's change. */
static uint64_t ticker_arm(struct engine *engine, uint64_t now_ms, uint64_t metrics_ms) {
    uint64_t wake_ms = metrics_ms;
    uint64_t appends = atomic_load_explicit(&engine->appends, memory_order_relaxed);
    if (appends != engine->idle_appends && now_ms + TICKER_IDLE_MS < wake_ms &&
        engine_authority(engine) == TN_R_OK) {
        wake_ms = now_ms + TICKER_IDLE_MS;
    }
    uint64_t due_ms;
    do {
        due_ms = tick_due_ms(engine);
        if (due_ms < wake_ms && !engine->tick_pending) {
            wake_ms = due_ms;
        }
        atomic_store(&engine->armed_ms, wake_ms);
    } while (tick_due_ms(engine) < due_ms);
    if (wake_ms == UINT64_MAX) {
        return UINT64_MAX;
    }
    uint64_t sleep_ms = wake_ms > now_ms ? wake_ms - now_ms : 1;
    return sleep_ms < TICKER_LOOK_MS ? sleep_ms : TICKER_LOOK_MS;
}

static void ticker_sleep(struct engine *engine, uint32_t seen, uint64_t sleep_ms) {
    if (sleep_ms == UINT64_MAX) {
        engine_park_wait(&engine->thread_word, seen);
    } else {
        (void)engine_park_wait_ms(&engine->thread_word, seen, sleep_ms);
    }
    /* Until it has looked again, it needs no wake-up. */
    atomic_store(&engine->armed_ms, 0);
}

static void *ticker_main(void *arg) {
    struct engine *engine = arg;
    engine_park_wakes_early(); /* all who wait for a commit wait for this thread */
    pthread_mutex_lock(&engine->submit_lock);
    while (!atomic_load(&engine->thread_stop)) {
        uint32_t seen = atomic_load(&engine->thread_word);
        uint64_t now_ms = engine_now(engine);
        uint64_t metrics_ms = ticker_metrics(engine, now_ms);
        ticker_tick(engine, now_ms);
        if (!engine->thread_leads) {
            ticker_idle(engine);
        }
        bool lead = engine->thread_leads;
        uint64_t sleep_ms = lead ? 0 : ticker_arm(engine, now_ms, metrics_ms);
        pthread_mutex_unlock(&engine->submit_lock);
        if (lead) {
            engine_commit_lead(engine, NULL);
        } else if (!atomic_load(&engine->thread_stop)) {
            ticker_sleep(engine, seen, sleep_ms);
        }
        pthread_mutex_lock(&engine->submit_lock);
    }
    pthread_mutex_unlock(&engine->submit_lock);
    return NULL;
}

/* Called after a batch: makes the thread look again if it would sleep beyond the next deadline. */
void engine_ticker_nudge(struct engine *engine) {
    uint64_t armed_ms = atomic_load(&engine->armed_ms);
    if (armed_ms == 0 || engine->options.no_threads) {
        return;
    }
    uint64_t last_ms = atomic_load_explicit(&engine->last_ms, memory_order_relaxed);
    if (tick_due_ms(engine) < armed_ms || armed_ms > last_ms + 2 * TICKER_IDLE_MS) {
        engine_park_bump(&engine->thread_word);
    }
}

enum tn_status engine_ticker_start(struct engine *engine) {
    return engine_thread_start(&engine->thread, ticker_main, engine);
}

void engine_ticker_stop(struct engine *engine) {
    atomic_store(&engine->thread_stop, true);
    engine_park_bump(&engine->thread_word);
    pthread_join(engine->thread, NULL);
}
