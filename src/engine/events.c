/* Events on their way from the kernel, which tells them under the state lock, to the store and to the
 * callback, with no lock held.
 *
 * During a run the sink encodes each event into a buffer (record.h); after the run the leader gives
 * them to the store, delivers them in order and empties it. A run ends when the buffer is well
 * filled, so what it must hold is bounded by what one command can cause, which the kernel bounds. It
 * grows for such a command and shrinks again. If there is no memory to grow, the event is dropped,
 * counted, and its place marked, for the store to tell of: the effect has happened and cannot wait
 * for its report. */
#include <string.h>

#include "base/assert.h"
#include "engine/events.h"
#include "engine/internal.h"
#include "engine/record.h"
#include "engine/store.h"

#define EVENTS_BYTES ((size_t)1 << 20)
#define EVENTS_BYTES_KEPT ((size_t)4 << 20)

_Static_assert(KERNEL_EVENT_COUNT <= 64, "a kind is a bit of a watcher's kinds");

static bool events_wanted(const struct engine *engine) {
    return engine->options.event != NULL || engine->options.events_max > 0;
}

static size_t events_values_bytes(void) {
    return KERNEL_BUNDLE_MAX * sizeof(struct engine_event_value);
}

enum tn_status engine_events_init(struct engine *engine) {
    struct engine_events *events = &engine->events;
    const struct os *os = engine->os;
    void *memory;
    if (!events_wanted(engine)) {
        return TN_OK;
    }
    enum tn_status status = os->mem_reserve(os->ctx, 2 * EVENTS_BYTES, false, &memory);
    if (status == TN_OK) {
        events->at = memory;
        events->capacity = 2 * EVENTS_BYTES;
    }
    if (status == TN_OK && engine->options.event != NULL) {
        status = os->mem_reserve(os->ctx, events_values_bytes(), false, &memory);
        if (status == TN_OK) {
            events->values = memory;
        }
    }
    return status;
}

/* Called after the log was opened, when its directory is locked. The newest snapshot made a flush,
 * even if the operator passes the snapshot over. */
enum tn_status engine_events_open(struct engine *engine) {
    const struct engine_options *options = &engine->options;
    if (options->events_max == 0) {
        return TN_OK;
    }
    struct engine_store_options store = {
        .os = engine->os,
        .dir = options->events_dir,
        .events_max = options->events_max,
        .space_reserve_bytes = options->events_reserve_bytes,
        .flushed_lsn = engine->store->verbs->newest(engine->store),
        .no_thread = options->no_threads,
        .notice = engine_notice_line,
        .notice_ctx = engine,
    };
    return engine_store_open(&store, &engine->events.store);
}

void engine_events_replay(struct engine *engine, uint64_t snapshot_lsn) {
    if (engine->events.store != NULL) {
        engine_store_replay(engine->events.store, snapshot_lsn);
    }
}

void engine_events_replayed(struct engine *engine, uint64_t end_lsn) {
    if (engine->events.store != NULL) {
        engine_store_replayed(engine->events.store, end_lsn);
    }
}

enum tn_status engine_events_start(struct engine *engine) {
    return engine->events.store != NULL ? engine_store_start(engine->events.store) : TN_OK;
}

/* A snapshot is valid without its events, so a failure here does not matter to it. */
void engine_events_flush(struct engine *engine, uint64_t lsn) {
    if (engine->events.store != NULL) {
        (void)engine_store_flush(engine->events.store, lsn);
    }
}

void engine_events_free(struct engine *engine) {
    struct engine_events *events = &engine->events;
    const struct os *os = engine->os;
    if (events->store != NULL) {
        engine_store_close(events->store);
        events->store = NULL;
    }
    if (events->at != NULL) {
        os->mem_release(os->ctx, events->at, events->capacity);
        events->at = NULL;
    }
    if (events->values != NULL) {
        os->mem_release(os->ctx, events->values, events_values_bytes());
        events->values = NULL;
    }
}

kernel_sink *engine_events_sink_of(const struct engine *engine) {
    return events_wanted(engine) || engine->watch_kinds != 0 ? engine_events_sink : NULL;
}

bool engine_events_full(const struct engine_events *events) {
    return events->used > EVENTS_BYTES;
}

/* Allocates a buffer of at least `capacity` bytes and copies the used part. */
static bool events_resize(struct engine *engine, size_t capacity) {
    struct engine_events *events = &engine->events;
    void *memory;
    if (engine->os->mem_reserve(engine->os->ctx, capacity, false, &memory) != TN_OK) {
        return false;
    }
    memcpy(memory, events->at, events->used);
    engine->os->mem_release(engine->os->ctx, events->at, events->capacity);
    events->at = memory;
    events->capacity = capacity;
    return true;
}

/* There is always room for this record. The last one of several in a row stands for all of them. */
static void events_lose(struct engine_events *events, const struct kernel_event *fact) {
    struct engine_event_id id = {.lsn = fact->lsn, .index = fact->index};
    atomic_fetch_add_explicit(&events->lost, 1, memory_order_relaxed);
    if (events->lost_end == 0 || events->lost_end != events->used) {
        TN_ASSERT(events->capacity - events->used >= RECORD_HEAD);
        events->used += RECORD_HEAD;
        events->lost_end = events->used;
    }
    engine_record_write_lost(events->at + events->lost_end - RECORD_HEAD, id);
}

static void events_watch(const struct engine *engine, const struct kernel_event *fact) {
    for (const struct engine_watcher *w = engine->watchers; w != NULL; w = w->next) {
        if ((w->kinds >> fact->kind & 1) != 0) {
            w->call(w->ctx, fact);
        }
    }
}

void engine_events_sink(void *ctx, const struct kernel *kernel, const struct kernel_event *fact) {
    struct engine *engine = ctx;
    struct engine_events *events = &engine->events;
    if (TN_UNLIKELY((engine->watch_kinds >> fact->kind & 1) != 0)) {
        events_watch(engine, fact);
    }
    if (events->at == NULL ||
        (events->store == NULL && events->replaying && !engine->options.replay_events)) {
        return;
    }
    size_t size = engine_record_size_max(fact);
    if (size + RECORD_HEAD > events->capacity - events->used &&
        !events_resize(engine, 2 * (events->capacity + size))) {
        events_lose(events, fact);
        return;
    }
    events->used += engine_record_write(events->at + events->used, kernel, fact);
}

/* Called with the state lock held after the list has changed. */
static void watchers_changed(struct engine *engine) {
    engine->watch_kinds = 0;
    for (const struct engine_watcher *w = engine->watchers; w != NULL; w = w->next) {
        engine->watch_kinds |= w->kinds;
    }
    if (engine->kernel != NULL) {
        kernel_sink_set(engine->kernel, engine_events_sink_of(engine));
    }
}

void engine_watch_add(struct engine *engine, struct engine_watcher *watcher) {
    TN_ASSERT(watcher->call != NULL);
    pthread_mutex_lock(&engine->state_lock);
    struct engine_watcher **link = &engine->watchers;
    while (*link != NULL) {
        TN_ASSERT(*link != watcher);
        link = &(*link)->next;
    }
    watcher->next = NULL;
    *link = watcher;
    watchers_changed(engine);
    pthread_mutex_unlock(&engine->state_lock);
}

void engine_watch_remove(struct engine *engine, struct engine_watcher *watcher) {
    pthread_mutex_lock(&engine->state_lock);
    struct engine_watcher **link = &engine->watchers;
    while (*link != watcher) {
        TN_ASSERT(*link != NULL);
        link = &(*link)->next;
    }
    *link = watcher->next;
    watchers_changed(engine);
    pthread_mutex_unlock(&engine->state_lock);
}

static void events_tell(struct engine *engine) {
    struct engine_events *events = &engine->events;
    struct tn_bytes rest = tn_bytes_of(events->at, events->used);
    while (rest.len > 0) {
        struct tn_bytes record = engine_record_first(rest);
        struct engine_event event;
        TN_ASSERT(record.len > 0);
        if (!engine_record_is_lost(record.at)) {
            bool whole = engine_record_read(record, events->values, &event);
            TN_ASSERT(whole);
            event.replayed = events->replaying;
            engine->options.event(engine->options.event_ctx, &event);
        }
        rest = tn_bytes_of(rest.at + record.len, rest.len - record.len);
    }
}

void engine_events_deliver(struct engine *engine) {
    struct engine_events *events = &engine->events;
    const struct engine_options *options = &engine->options;
    struct engine_delivery delivery;
    bool ready = false;
    if (events->at == NULL) {
        return;
    }
    if (events->store != NULL) {
        ready = engine_store_append(events->store, tn_bytes_of(events->at, events->used),
                                    atomic_load_explicit(&engine->lsn, memory_order_relaxed));
    }
    engine_deliver_begin(engine, &delivery);
    if (ready && options->events_ready != NULL) {
        options->events_ready(options->events_ready_ctx);
    }
    if (events->used > 0 && options->event != NULL &&
        (!events->replaying || options->replay_events)) {
        events_tell(engine);
    }
    engine_deliver_end(&delivery);
    events->used = events->lost_end = 0;
    if (events->capacity > EVENTS_BYTES_KEPT) {
        (void)events_resize(engine, 2 * EVENTS_BYTES);
    }
}

enum tn_result engine_events_read(struct engine *engine, struct engine_event_id after, uint32_t max,
                                  engine_event_visit *visit, void *ctx,
                                  struct engine_events_span *ret_span) {
    struct engine_store *store = engine->events.store;
    if (store == NULL) {
        return TN_R_NOTFOUND;
    }
    return engine_store_read(store, after, max, visit, ctx, ret_span);
}

bool engine_events_arm(struct engine *engine, struct engine_event_id after) {
    return engine->events.store == NULL || engine_store_arm(engine->events.store, after);
}

void engine_events_stats(struct engine *engine, struct engine_stats *stats) {
    struct engine_store_stats store = {0};
    if (engine->events.store != NULL) {
        engine_store_stats(engine->events.store, &store);
    }
    stats->events_kept = store.events;
    stats->events_oldest = store.oldest;
    stats->events_newest = store.newest;
    stats->events_bytes = store.file_bytes;
    stats->events_failing = store.failing;
    stats->events_ns_waiting =
        store.asked_ns > 0 ? engine->os->clock_boot_ns(engine->os->ctx) - store.asked_ns : 0;
    stats->events_lost =
        atomic_load_explicit(&engine->events.lost, memory_order_relaxed) + store.lost;
}
