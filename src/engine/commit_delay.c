/* On a slow disk, waits a moment for the next requests of clients that have just been answered.
 *
 * Clients that ask again as soon as they are answered fall into two halves: one is answered while the
 * requests of the other are synced. On a fast disk that is good, both the disk and the processors have
 * something to do. On a slow one every sync carries half of what it could. So if the last sync took
 * long, the commit thread waits before the next one, until about as many requests are there as were
 * answered and were waiting then, and half of that time at most.
 *
 * Rates with it to those without it, cycles at 64 x 1, with simulated syncs of 1.5, 4 and 10 ms: 1.2 to 1.5,
 * 1.0 to 1.7, 1.4 (docs/performance.md). Syncs below DELAY_SLOW_NS are not waited for.
 *
 * Clients that do not come back make that a waste. If it was one, the next times are left out: one, two,
 * four, up to DELAY_SKIP_MAX. */
#include "engine/internal.h"

#define DELAY_SLOW_NS 1000000u /* a sync that takes longer than clients need to send again */
#define DELAY_SKIP_MAX 16u

/* Called by the leader before the answers to `count` commands are handed out. */
void engine_delay_expect(struct engine *engine, uint32_t count) {
    struct engine_delay *delay = &engine->delay;
    uint64_t sync_ns = atomic_load_explicit(&engine->append_ns_last, memory_order_relaxed);
    if (sync_ns < DELAY_SLOW_NS || count < 2) {
        return;
    }
    if (delay->skip > 0) {
        delay->skip--;
        return;
    }
    pthread_mutex_lock(&engine->submit_lock);
    uint32_t all = count + engine->filling->count;
    delay->expected = all - all / 8; /* the last clients are not worth waiting for */
    pthread_mutex_unlock(&engine->submit_lock);
    delay->until_ns = engine->os->clock_boot_ns(engine->os->ctx) + sync_ns / 2;
}

/* Whether to stop waiting. A batch that is half full is worth a sync, and must be taken before it
 * is full, because then requests are refused. With submit_lock held. */
static bool delay_over(const struct engine *engine) {
    const struct engine_batch *batch = engine->filling;
    return engine->closing || batch->waiters > 0 || batch->count >= engine->delay.expected ||
           batch->count >= engine->batch_commands_max / 2 ||
           batch->len >= engine->batch_bytes_max / 2;
}

/* Called after changes that may end the wait. With submit_lock held. */
void engine_delay_look(struct engine *engine) {
    if (engine->delay.waits && delay_over(engine)) {
        engine->delay.waits = false;
        engine_commit_rouse(engine);
    }
}

/* Whether `gained` more commands beside the `waiting` ones were worth the time: twice as many as come
 * by themselves, if those that wait came evenly during the sync. */
static void delay_judge(struct engine_delay *delay, uint64_t waiting, uint64_t gained,
                        uint64_t waited_ns, uint64_t sync_ns) {
    if (gained * (sync_ns / 1000) >= 2 * waiting * (waited_ns / 1000)) {
        delay->backoff = 0;
        return;
    }
    delay->backoff = delay->backoff == 0 ? 1 : 2 * delay->backoff;
    delay->backoff = delay->backoff < DELAY_SKIP_MAX ? delay->backoff : DELAY_SKIP_MAX;
    delay->skip = delay->backoff;
}

void engine_delay_wait(struct engine *engine) {
    struct engine_delay *delay = &engine->delay;
    if (delay->expected == 0) {
        return;
    }
    uint64_t start_ns = engine->os->clock_boot_ns(engine->os->ctx);
    uint64_t now_ns = start_ns;
    bool in_time = now_ns < delay->until_ns;
    pthread_mutex_lock(&engine->submit_lock);
    uint32_t waiting = engine->filling->count;
    while (in_time && !delay_over(engine)) {
        uint32_t seen = atomic_load(&engine->thread_word);
        delay->waits = true;
        pthread_mutex_unlock(&engine->submit_lock);
        in_time = engine_park_wait_ns(&engine->thread_word, seen, delay->until_ns - now_ns);
        /* Less time is left if the thread was woken. */
        now_ns = engine->os->clock_boot_ns(engine->os->ctx);
        in_time = in_time && now_ns < delay->until_ns;
        pthread_mutex_lock(&engine->submit_lock);
    }
    uint32_t gained = engine->filling->count - waiting;
    delay->waits = false;
    delay->expected = 0;
    pthread_mutex_unlock(&engine->submit_lock);
    delay_judge(delay, waiting, gained, engine->os->clock_boot_ns(engine->os->ctx) - start_ns,
                atomic_load_explicit(&engine->append_ns_last, memory_order_relaxed));
}
