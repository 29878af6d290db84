/* Snapshots without stopping: the state as it was at one batch boundary, taken while the engine
 * goes on changing it, without a fork and without a second copy of it.
 *
 * At the boundary the kernel begins an image. From then on the first write to a chunk of records
 * saves that chunk as it was; the snapshot's thread saves the others in steps, each a short hold of
 * the state lock. Both go through the queue (queue.c) to the log. So the extra memory is the queue.
 * Whoever finds it full writes some of it out instead of waiting for somebody who might be waiting
 * for the state lock: applying slows down to the speed of the disk, memory does not grow.
 *
 * Sections of a snapshot
 *   SECTION_META, first: u32 oldest version that can read it, u32 version of the writer (not in
 *     version 4), u32 n, n u64 limits, u32 m, m table headers of five u32
 *   SECTION_CHUNK, in any order: u32 table, u32 first record, u32 count, the records
 *
 * A snapshot that fails harms nothing: it is abandoned, said so, and tried again when as much log
 * has been written once more. */
#include <stdio.h>

#include "base/assert.h"
#include "engine/internal.h"

#define SNAPSHOT_STEP_BYTES ((size_t)256 << 10)
#define SNAPSHOT_BYTES_DEFAULT ((uint64_t)64 << 20)
#define SNAPSHOT_QUEUE_DEFAULT ((uint64_t)64 << 20)
#define SNAPSHOT_META_MAX 2048u
/* Bytes that a batch takes in the log besides its payload, about. */
#define SNAPSHOT_BATCH_BYTES 256u

_Static_assert(4 + 4 + 4 + 8 * KERNEL_LIMIT_COUNT + 4 + 20 * KERNEL_TABLES_MAX <= SNAPSHOT_META_MAX,
               "the meta section fits its buffer");

/* One snapshot being taken. */
struct taking {
    struct engine *engine;
    struct log_position at;
    uint64_t bytes_since; /* bytes logged that this snapshot will cover */
    uint8_t meta[SNAPSHOT_META_MAX];
    uint32_t meta_len;
    bool imaging; /* the kernel's image has begun and has not ended */
    bool opened;  /* the store's snapshot has begun */
};

static uint64_t snapshot_threshold(const struct engine *engine) {
    uint64_t bytes = engine->options.snapshot_bytes;
    return bytes != 0 ? bytes : SNAPSHOT_BYTES_DEFAULT;
}

static uint64_t snapshot_clock_ns(const struct engine *engine) {
    return engine->os->clock_boot_ns(engine->os->ctx);
}

static void snapshot_held(struct engine *engine, uint64_t since_ns) {
    struct engine_snapshots *snapshots = &engine->snapshots;
    uint64_t held_ns = snapshot_clock_ns(engine) - since_ns;
    pthread_mutex_lock(&snapshots->lock);
    if (held_ns > snapshots->hold_ns_max) {
        snapshots->hold_ns_max = held_ns;
    }
    pthread_mutex_unlock(&snapshots->lock);
}

static void snapshot_meta(struct taking *taking, const struct tn_table_header *headers,
                          uint32_t count) {
    struct tn_writer w = tn_writer_of(taking->meta, sizeof taking->meta);
    const struct kernel_limits *limits = kernel_limits_of(taking->engine->kernel);
    tn_write32(&w, KERNEL_STATE_READER);
    tn_write32(&w, KERNEL_STATE_VERSION);
    tn_write32(&w, KERNEL_LIMIT_COUNT);
    for (uint32_t i = 0; i < KERNEL_LIMIT_COUNT; i++) {
        tn_write64(&w, limits->of[i]);
    }
    tn_write32(&w, count);
    for (uint32_t i = 0; i < count; i++) {
        TN_ASSERT(headers[i].id < KERNEL_TABLES_MAX);
        taking->engine->snapshots.queue.record_bytes[headers[i].id] = headers[i].record_bytes;
        tn_write32(&w, headers[i].id);
        tn_write32(&w, headers[i].record_bytes);
        tn_write32(&w, headers[i].used);
        tn_write32(&w, headers[i].live);
        tn_write32(&w, headers[i].free_head);
    }
    TN_ASSERT(!w.overflow);
    taking->meta_len = (uint32_t)w.len;
}

/* Writes the oldest section. False if there is none. After a failure the other sections are
 * dropped. */
static bool snapshot_drain_one(struct engine *engine) {
    struct engine_snapshots *snapshots = &engine->snapshots;
    struct log_section section = {.kind = SECTION_CHUNK};
    pthread_mutex_lock(&snapshots->drain_lock);
    bool found = engine_queue_peek(&snapshots->queue, &section.bytes);
    if (found) {
        if (snapshots->write_status == TN_OK) {
            snapshots->write_status = engine->store->verbs->section(engine->store, &section);
        }
        engine_queue_pop(&snapshots->queue, section.bytes);
    }
    pthread_mutex_unlock(&snapshots->drain_lock);
    return found;
}

/* The kernel's image is about to lose this chunk. With the state lock held. */
static void snapshot_save(void *ctx, const struct tn_table_chunk *chunk) {
    struct engine *engine = ctx;
    while (!engine_queue_push(&engine->snapshots.queue, chunk)) {
        (void)snapshot_drain_one(engine); /* if no section is left, another thread has made room */
    }
}

/* With state_lock held. */
static void taking_imaging(struct taking *taking, bool imaging) {
    taking->imaging = taking->engine->imaging = imaging;
    if (!imaging) {
        pthread_cond_broadcast(&taking->engine->boundary);
    }
}

/* Keeps the drain lock: nothing may be written before the first section is. False, without it: there is
 * no state, or it is not one that the log has: before its first batch there is nothing to begin from. */
static bool taking_begin(struct taking *taking) {
    struct engine *engine = taking->engine;
    struct tn_table_header headers[KERNEL_TABLES_MAX];
    uint32_t count = 0;
    pthread_mutex_lock(&engine->state_lock);
    while (engine->mid_batch && engine_authority_sound(engine)) {
        pthread_cond_wait(&engine->boundary, &engine->state_lock);
    }
    if (engine->mid_batch || engine->kernel == NULL || kernel_lsn(engine->kernel) == 0) {
        pthread_mutex_unlock(&engine->state_lock);
        return false;
    }
    pthread_mutex_lock(&engine->snapshots.drain_lock);
    uint64_t since_ns = snapshot_clock_ns(engine);
    taking->at = (struct log_position){.lsn = kernel_lsn(engine->kernel),
                                       .now_ms = kernel_now(engine->kernel),
                                       .shard = kernel_shard(engine->kernel)};
    taking->bytes_since = atomic_load(&engine->snapshots.bytes_since);
    kernel_image_begin(engine->kernel, snapshot_save, engine, headers, &count);
    taking_imaging(taking, true);
    snapshot_meta(taking, headers, count);
    pthread_mutex_unlock(&engine->state_lock);
    snapshot_held(engine, since_ns);
    return true;
}

/* Opens the store's snapshot, then releases the drain lock, which taking_begin took. */
static enum tn_status taking_open(struct taking *taking, struct log_error *error) {
    struct engine *engine = taking->engine;
    struct log_section meta = {.kind = SECTION_META,
                               .bytes = tn_bytes_of(taking->meta, taking->meta_len)};
    enum tn_status status = engine->store->verbs->begin(engine->store, &taking->at, error);
    taking->opened = status == TN_OK;
    if (status == TN_OK) {
        status = engine->store->verbs->section(engine->store, &meta);
    }
    engine->snapshots.write_status = status;
    pthread_mutex_unlock(&engine->snapshots.drain_lock);
    return status;
}

/* Skips a step while others have filled the queue, because it must not wait for their writing while
 * it holds the state lock. */
static void taking_step(struct taking *taking) {
    struct engine *engine = taking->engine;
    pthread_mutex_lock(&engine->state_lock);
    uint64_t since_ns = snapshot_clock_ns(engine);
    if (engine_queue_has_room(&engine->snapshots.queue)) {
        taking_imaging(taking, kernel_image_step(engine->kernel, SNAPSHOT_STEP_BYTES));
    }
    pthread_mutex_unlock(&engine->state_lock);
    snapshot_held(engine, since_ns);
}

static enum tn_status taking_drain(struct taking *taking) {
    struct engine *engine = taking->engine;
    while (snapshot_drain_one(engine)) {
    }
    pthread_mutex_lock(&engine->snapshots.drain_lock);
    enum tn_status status = engine->snapshots.write_status;
    pthread_mutex_unlock(&engine->snapshots.drain_lock);
    if (status == TN_OK && !engine_authority_sound(engine)) {
        status = TN_HALTED;
    }
    return status;
}

static enum tn_status taking_write(struct taking *taking, struct log_error *error) {
    struct engine *engine = taking->engine;
    enum tn_status status = taking_open(taking, error);
    while (status == TN_OK && taking->imaging) {
        taking_step(taking);
        status = taking_drain(taking);
    }
    if (status == TN_OK) { /* after the snapshot is valid, earlier events are never replayed */
        engine_events_flush(engine, taking->at.lsn);
        return engine->store->verbs->end(engine->store, error);
    }
    if (taking->opened) {
        (void)snprintf(error->text, sizeof error->text, "%s", tn_status_text(status));
    }
    return status;
}

static void taking_give_up(struct taking *taking) {
    struct engine *engine = taking->engine;
    pthread_mutex_lock(&engine->state_lock);
    if (taking->imaging) {
        kernel_image_abandon(engine->kernel);
        taking_imaging(taking, false);
    }
    pthread_mutex_unlock(&engine->state_lock);
    if (taking->opened) {
        engine->store->verbs->abandon(engine->store);
    }
}

static enum tn_status snapshot_take(struct engine *engine, struct log_error *error) {
    struct taking taking = {.engine = engine};
    struct engine_queue *queue = &engine->snapshots.queue;
    uint64_t bytes = engine->options.snapshot_queue_bytes;
    enum tn_status status =
        engine_queue_open(queue, engine->os, (size_t)(bytes != 0 ? bytes : SNAPSHOT_QUEUE_DEFAULT));
    if (status != TN_OK) {
        (void)snprintf(error->text, sizeof error->text, "no memory for the snapshot's queue");
        return status;
    }
    if (!taking_begin(&taking)) {
        (void)snprintf(error->text, sizeof error->text, "there is no state to take one of");
        engine_queue_close(queue, engine->os);
        return TN_HALTED;
    }
    status = taking_write(&taking, error);
    if (status != TN_OK) {
        taking_give_up(&taking);
    } else {
        atomic_fetch_sub(&engine->snapshots.bytes_since, taking.bytes_since);
        engine_notice(engine, "event=snapshot lsn=%llu", (unsigned long long)taking.at.lsn);
    }
    engine_queue_close(queue, engine->os);
    return status;
}

/* Takes a snapshot and records its outcome. With snapshots.lock held, which is released
 * meanwhile. */
static void snapshot_run(struct engine *engine) {
    struct engine_snapshots *snapshots = &engine->snapshots;
    struct log_error error = {.text = ""};
    uint64_t serving = snapshots->wanted;
    TN_ASSERT(!snapshots->running);
    snapshots->running = true;
    pthread_mutex_unlock(&snapshots->lock);
    uint64_t started_ns = snapshot_clock_ns(engine);
    enum tn_status status = TN_HALTED;
    if (engine_authority_sound(engine)) {
        status = snapshot_take(engine, &error);
    } else {
        (void)snprintf(error.text, sizeof error.text, "%s", tn_status_text(TN_HALTED));
    }
    uint64_t ns = snapshot_clock_ns(engine) - started_ns;
    if (status != TN_OK && status != TN_HALTED) {
        engine_notice(engine, "event=snapshot_failed reason=\"%s\"", error.text);
    }
    pthread_mutex_lock(&snapshots->lock);
    uint64_t since = status == TN_OK ? 0 : atomic_load(&snapshots->bytes_since);
    uint64_t threshold = snapshot_threshold(engine);
    atomic_store(&snapshots->trigger,
                 threshold > UINT64_MAX - since ? UINT64_MAX : since + threshold);
    snapshots->taken += status == TN_OK;
    snapshots->failed += status != TN_OK;
    snapshots->ns_last = ns;
    snapshots->finished = serving;
    snapshots->running = false;
    snapshots->status = status;
    snapshots->error = error;
    pthread_cond_broadcast(&snapshots->changed);
}

static void *snapshot_main(void *arg) {
    struct engine *engine = arg;
    struct engine_snapshots *snapshots = &engine->snapshots;
    pthread_mutex_lock(&snapshots->lock);
    while (!snapshots->stop) {
        if (snapshots->finished < snapshots->wanted) {
            snapshot_run(engine);
        } else {
            pthread_cond_wait(&snapshots->changed, &snapshots->lock);
        }
    }
    pthread_mutex_unlock(&snapshots->lock);
    return NULL;
}

void engine_snapshot_appended(struct engine *engine, uint64_t payload) {
    struct engine_snapshots *snapshots = &engine->snapshots;
    uint64_t bytes = payload + SNAPSHOT_BATCH_BYTES;
    uint64_t since = atomic_fetch_add(&snapshots->bytes_since, bytes) + bytes;
    uint64_t trigger = atomic_load(&snapshots->trigger);
    if (TN_LIKELY(since < trigger) ||
        !atomic_compare_exchange_strong(&snapshots->trigger, &trigger, UINT64_MAX)) {
        return;
    }
    pthread_mutex_lock(&snapshots->lock);
    if (!engine->options.no_threads) {
        snapshots->wanted++;
        pthread_cond_broadcast(&snapshots->changed);
    } else if (!snapshots->running) { /* the thread that takes a snapshot sets the trigger again */
        snapshots->wanted++;
        snapshot_run(engine);
    }
    pthread_mutex_unlock(&snapshots->lock);
}

enum tn_status engine_snapshot(struct engine *engine, struct log_error *error) {
    struct engine_snapshots *snapshots = &engine->snapshots;
    if (engine_delivering(engine)) {
        (void)snprintf(error->text, sizeof error->text, "not from a callback");
        return TN_OVERLOAD;
    }
    int cancel = engine_cancel_hold();
    pthread_mutex_lock(&snapshots->lock);
    uint64_t mine = ++snapshots->wanted;
    pthread_cond_broadcast(&snapshots->changed);
    while (snapshots->finished < mine) {
        if (engine->options.no_threads && !snapshots->running) {
            snapshot_run(engine);
        } else {
            pthread_cond_wait(&snapshots->changed, &snapshots->lock);
        }
    }
    enum tn_status status = snapshots->status;
    *error = snapshots->error;
    pthread_mutex_unlock(&snapshots->lock);
    engine_cancel_allow(cancel);
    return status;
}

/* Called when the engine's threads have ended. */
bool engine_snapshot_at_close(struct engine *engine) {
    struct engine_snapshots *snapshots = &engine->snapshots;
    if (engine->options.no_snapshot_at_close || !engine_authority_sound(engine) ||
        !atomic_load(&engine->keeps) || atomic_load(&snapshots->bytes_since) == 0) {
        return true;
    }
    pthread_mutex_lock(&snapshots->lock);
    snapshots->wanted++;
    snapshot_run(engine);
    enum tn_status status = snapshots->status;
    pthread_mutex_unlock(&snapshots->lock);
    return status == TN_OK;
}

void engine_snapshot_init(struct engine *engine) {
    struct engine_snapshots *snapshots = &engine->snapshots;
    pthread_mutex_init(&snapshots->lock, NULL);
    pthread_mutex_init(&snapshots->drain_lock, NULL);
    pthread_cond_init(&snapshots->changed, NULL);
    engine_queue_init(&snapshots->queue);
    atomic_store(&snapshots->trigger, snapshot_threshold(engine));
}

void engine_snapshot_free(struct engine *engine) {
    struct engine_snapshots *snapshots = &engine->snapshots;
    engine_queue_free(&snapshots->queue);
    pthread_cond_destroy(&snapshots->changed);
    pthread_mutex_destroy(&snapshots->drain_lock);
    pthread_mutex_destroy(&snapshots->lock);
}

enum tn_status engine_snapshot_thread_start(struct engine *engine) {
    return engine_thread_start(&engine->snapshots.thread, snapshot_main, engine);
}

void engine_snapshot_thread_stop(struct engine *engine) {
    struct engine_snapshots *snapshots = &engine->snapshots;
    pthread_mutex_lock(&snapshots->lock);
    snapshots->stop = true;
    pthread_cond_broadcast(&snapshots->changed);
    pthread_mutex_unlock(&snapshots->lock);
    pthread_join(snapshots->thread, NULL);
}
