/* Blocks in memory: how events come in, where they wait, and the row of all blocks.
 *
 * The ring is bytes. A block is contiguous in it, header first; the space for the largest ordinary
 * block is taken when it is opened and what it did not need is given back when it is sealed. Blocks
 * stand in the ring in the order of their numbers, so what is in the way of a new one is always the
 * oldest. It goes if it is in a file as well (or if there are no files: then that is the bound). */
#include "engine/record.h"
#include "engine/store_state.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "engine/internal.h"

/* ---- The row of blocks ---- */

bool store_block_push(struct engine_store *store, const struct store_block *block) {
    if (store->skip + store->block_count == store->block_capacity) {
        if (store->skip > store->block_capacity / 2) {
            memmove(store->blocks, store->blocks + store->skip,
                    store->block_count * sizeof *store->blocks);
            store->skip = 0;
        } else {
            size_t capacity = store->block_capacity == 0 ? 256 : store->block_capacity * 2;
            struct store_block *blocks = realloc(store->blocks, capacity * sizeof *blocks);
            if (blocks == NULL) {
                return false;
            }
            store->blocks = blocks;
            store->block_capacity = capacity;
        }
    }
    store->blocks[store->skip + store->block_count] = *block;
    store->block_count++;
    store->events += block->count;
    return true;
}

void store_block_lose(struct engine_store *store, struct store_block *block) {
    TN_ASSERT(!block->gone);
    block->gone = true;
    store->events -= block->count;
    store->lost += block->count;
}

void store_block_pop(struct engine_store *store, size_t count) {
    while (store->block_count > 0 && (count > 0 || store->blocks[store->skip].gone)) {
        const struct store_block *block = &store->blocks[store->skip];
        store->events -= block->gone ? 0 : block->count;
        store->skip++;
        store->block_count--;
        store->first++;
        count -= count > 0;
    }
    TN_ASSERT(count == 0);
    store->ring_first = store->ring_first > store->first ? store->ring_first : store->first;
    store->write_next = store->write_next > store->first ? store->write_next : store->first;
}

void store_block_cut(struct engine_store *store, uint64_t number) {
    TN_ASSERT(store->ring_first == store_block_end(store) && !store->open);
    while (store_block_end(store) > number) {
        const struct store_block *block = store_block_at(store, store_block_end(store) - 1);
        store->events -= block->gone ? 0 : block->count;
        store->block_count--;
    }
    store->ring_first = store->write_next = store_block_end(store);
}

/* ---- The ring ---- */

static bool store_on_disk(const struct engine_store *store) {
    return store->options.dir != NULL;
}

/* Whether the oldest block in the ring occupies the place for `need` bytes. */
static bool ring_in_the_way(struct engine_store *store, size_t need) {
    if (store->ring_first == store_block_end(store)) {
        return false;
    }
    size_t at = store_block_at(store, store->ring_first)->at;
    if (STORE_RING_BYTES - store->tail < need) { /* the block goes to the front of the ring */
        return at >= store->tail || at < need;
    }
    return at >= store->tail && at < store->tail + need;
}

/* Finds a place for `need` bytes. False: a block must be written first. */
static bool ring_reserve(struct engine_store *store, size_t need, size_t *ret_at) {
    TN_ASSERT(!store->open && need <= STORE_RING_BYTES);
    while (ring_in_the_way(store, need)) {
        if (store->ring_first == store->write_next) {
            return false;
        }
        store->ring_first++;
        if (!store_on_disk(store)) {
            store_block_pop(store, 1);
        }
    }
    *ret_at = STORE_RING_BYTES - store->tail < need ? 0 : store->tail;
    return true;
}

void store_seal(struct engine_store *store) {
    if (!store->open) {
        return;
    }
    const struct store_block *block = store_block_at(store, store_block_end(store) - 1);
    TN_ASSERT(block->count > 0);
    store->tail = block->at + STORE_BLOCK_HEADER + block->len;
    store->open = false;
    if (!store_on_disk(store)) {
        store->write_next = store_block_end(store);
        while (store->events - store->blocks[store->skip].count >= store->options.events_max) {
            store_block_pop(store, 1);
        }
    } else if (store->has_thread) {
        pthread_cond_signal(&store->work);
    }
}

/* ---- Appending ---- */

/* The ring is full: one block is written to its file, or lost. With `lock` held, which is released
 * meanwhile. */
static void store_make_room(struct engine_store *store) {
    pthread_mutex_unlock(&store->lock);
    pthread_mutex_lock(&store->writer);
    bool failed = store_write_one(store, false) == STORE_FAILED;
    pthread_mutex_lock(&store->lock);
    if (failed && store->ring_first == store->write_next) {
        store_block_lose(store, store_block_at(store, store->ring_first));
        store->ring_first++;
        store->write_next++;
        store_block_pop(store, 0);
    }
    pthread_mutex_unlock(&store->lock);
    store_unlock(store);
    pthread_mutex_lock(&store->lock);
}

enum begun { BEGUN, BEGUN_NO_ROOM, BEGUN_NO_MEMORY };

static enum begun block_begin(struct engine_store *store, size_t size) {
    size_t room = size > STORE_BLOCK_BYTES ? size : STORE_BLOCK_BYTES;
    struct store_block block = {.prev = store->newest};
    if (!ring_reserve(store, STORE_BLOCK_HEADER + room, &block.at)) {
        return BEGUN_NO_ROOM;
    }
    if (!store_block_push(store, &block)) {
        return BEGUN_NO_MEMORY;
    }
    store->open = true;
    store->room = room;
    return BEGUN;
}

/* Adds as many records as the open block can take, in one copy. Returns their bytes; 0: the block
 * is full. */
static size_t block_fill(struct engine_store *store, struct tn_bytes records) {
    struct store_block *block = store_block_at(store, store_block_end(store) - 1);
    uint32_t taken = 0;
    struct engine_event_id last = block->last;
    while (taken < records.len && block->count < store->part_events) {
        const uint8_t *record = records.at + taken;
        uint32_t size = engine_record_size(record);
        if (engine_record_is_lost(record) || block->len + taken + size > store->room) {
            break;
        }
        last = engine_record_id(record);
        if (block->count == 0) {
            block->first = last;
        }
        block->count++;
        store->events++;
        taken += size;
    }
    memcpy(store->ring + block->at + STORE_BLOCK_HEADER + block->len, records.at, taken);
    block->len += taken;
    block->last = last;
    block->covers = last.lsn - 1; /* unless it turns out to be the last event of its command */
    store->newest = last;
    return taken;
}

/* One step of an append: copies records, seals a block, or notes a hole. Returns the bytes
 * processed. */
static size_t append_step(struct engine_store *store, struct tn_bytes records, bool *ret_no_room) {
    uint32_t size = engine_record_size(records.at);
    if (engine_record_is_lost(records.at)) { /* already counted; the next block's `prev` shows it */
        store_seal(store);
        store->newest = engine_record_id(records.at);
        return size;
    }
    if (!store->open) {
        enum begun begun = block_begin(store, size);
        *ret_no_room = begun == BEGUN_NO_ROOM;
        if (begun == BEGUN_NO_MEMORY) {
            store->newest = engine_record_id(records.at);
            store->lost++;
            return size;
        }
        if (begun != BEGUN) {
            return 0;
        }
    }
    size_t taken = block_fill(store, records);
    if (taken == 0) {
        store_seal(store);
    }
    return taken;
}

bool engine_store_append(struct engine_store *store, struct tn_bytes records, uint64_t lsn) {
    size_t done = 0;
    pthread_mutex_lock(&store->lock);
    while (done < records.len &&
           engine_event_id_compare(engine_record_id(records.at + done), store->newest) <= 0) {
        done += engine_record_size(records.at + done);
    }
    bool fresh = done < records.len;
    while (done < records.len) {
        bool no_room = false;
        done += append_step(store, tn_bytes_of(records.at + done, records.len - done), &no_room);
        if (no_room) {
            store_make_room(store);
        }
    }
    store->covered = lsn;
    if (store->open) {
        store_block_at(store, store_block_end(store) - 1)->covers = lsn;
    }
    if (store->waiting > 0) {
        pthread_cond_broadcast(&store->came);
    }
    bool fire = fresh && store->armed;
    store->armed = store->armed && !fire;
    bool write = store->options.no_thread && store->write_next < store_sealed_end(store);
    pthread_mutex_unlock(&store->lock);
    if (write) {
        pthread_mutex_lock(&store->writer);
        while (store_write_one(store, false) == STORE_WROTE) {
        }
        store_unlock(store);
    }
    return fire;
}

bool engine_store_flush(struct engine_store *store, uint64_t lsn) {
    pthread_mutex_lock(&store->lock);
    store->waiting++;
    while (store->covered < lsn) {
        pthread_cond_wait(&store->came, &store->lock);
    }
    store->waiting--;
    pthread_mutex_unlock(&store->lock);
    if (!store_on_disk(store)) {
        return true;
    }
    pthread_mutex_lock(&store->writer);
    bool flushed = store_flush(store);
    store_unlock(store);
    return flushed;
}

bool engine_store_arm(struct engine_store *store, struct engine_event_id after) {
    pthread_mutex_lock(&store->lock);
    bool nothing = engine_event_id_compare(after, store_newest(store)) >= 0;
    store->armed = store->armed || nothing;
    pthread_mutex_unlock(&store->lock);
    return nothing;
}

/* ---- The thread ---- */

/* After a failure, the disk is tried again when there is more to write, or by a flush. */
static void *store_main(void *arg) {
    struct engine_store *store = arg;
    bool failed = false;
    pthread_mutex_lock(&store->lock);
    while (!store->stop) {
        if (failed || store->write_next == store_sealed_end(store)) {
            pthread_cond_wait(&store->work, &store->lock);
        }
        pthread_mutex_unlock(&store->lock);
        pthread_mutex_lock(&store->writer);
        failed = store_write_one(store, false) == STORE_FAILED;
        store_unlock(store);
        pthread_mutex_lock(&store->lock);
    }
    pthread_mutex_unlock(&store->lock);
    return NULL;
}

enum tn_status engine_store_start(struct engine_store *store) {
    if (!store_on_disk(store) || store->options.no_thread) {
        return TN_OK;
    }
    enum tn_status status = engine_thread_start(&store->thread, store_main, store);
    store->has_thread = status == TN_OK;
    return status;
}

/* ---- Opening, closing, figures ---- */

static struct engine_store *store_new(const struct engine_store_options *options, void *ring) {
    struct engine_store *store = calloc(1, sizeof *store);
    if (store == NULL) {
        return NULL;
    }
    store->options = *options;
    store->ring = ring;
    uint64_t part = options->events_max / STORE_PARTS;
    store->part_events = part > STORE_PART_EVENTS ? part : STORE_PART_EVENTS;
    store->first = store->ring_first = store->write_next = store->file_next = 1;
    pthread_mutex_init(&store->writer, NULL);
    pthread_mutex_init(&store->lock, NULL);
    pthread_cond_init(&store->work, NULL);
    pthread_cond_init(&store->came, NULL);
    return store;
}

enum tn_status engine_store_open(const struct engine_store_options *options,
                                 struct engine_store **ret_store) {
    const struct os *os = options->os;
    void *ring;
    enum tn_status status = os->mem_reserve(os->ctx, STORE_RING_BYTES, false, &ring);
    if (status != TN_OK) {
        return status;
    }
    struct engine_store *store = store_new(options, ring);
    if (store == NULL) {
        os->mem_release(os->ctx, ring, STORE_RING_BYTES);
        return TN_NOMEM;
    }
    if (store_on_disk(store)) {
        size_t len = strlen(options->dir);
        status = len < STORE_DIR_MAX ? TN_OK : TN_INVALID;
        if (status == TN_OK) {
            memcpy(store->dir, options->dir, len + 1);
            status = store_load(store);
        }
    }
    if (status != TN_OK) {
        engine_store_close(store);
        return status;
    }
    *ret_store = store;
    return TN_OK;
}

static void store_thread_stop(struct engine_store *store) {
    pthread_mutex_lock(&store->lock);
    store->stop = true;
    pthread_cond_signal(&store->work);
    pthread_mutex_unlock(&store->lock);
    pthread_join(store->thread, NULL);
}

void engine_store_close(struct engine_store *store) {
    const struct os *os = store->options.os;
    if (store->has_thread) {
        store_thread_stop(store);
    }
    store_pages_free(store);
    for (size_t i = 0; i < store->file_count; i++) {
        (void)os->close(os->ctx, store->files[i]->file);
        free(store->files[i]);
    }
    os->mem_release(os->ctx, store->ring, STORE_RING_BYTES);
    free(store->files);
    free(store->blocks);
    pthread_cond_destroy(&store->came);
    pthread_cond_destroy(&store->work);
    pthread_mutex_destroy(&store->lock);
    pthread_mutex_destroy(&store->writer);
    free(store);
}

struct engine_event_id store_oldest(struct engine_store *store) {
    for (uint64_t n = store->first; n < store_block_end(store); n++) {
        if (!store_block_at(store, n)->gone) {
            return store_block_at(store, n)->first;
        }
    }
    return (struct engine_event_id){0, 0};
}

struct engine_event_id store_newest(struct engine_store *store) {
    for (uint64_t n = store_block_end(store); n > store->first; n--) {
        if (!store_block_at(store, n - 1)->gone) {
            return store_block_at(store, n - 1)->last;
        }
    }
    return (struct engine_event_id){0, 0};
}

/* The last block of a file does not extend to where the next one would begin. */
static uint64_t file_bytes(const struct engine_store *store, const struct store_file *file) {
    const struct os *os = store->options.os;
    uint64_t size = 0;
    return os->size(os->ctx, file->file, &size) == TN_OK && size < file->bytes ? size : file->bytes;
}

bool engine_store_files(struct engine_store *store, struct log_file **ret_files,
                        uint32_t *ret_count) {
    pthread_mutex_lock(&store->lock);
    struct log_file *files = calloc(store->file_count + 1, sizeof *files);
    for (size_t i = 0; files != NULL && i < store->file_count; i++) {
        (void)snprintf(files[i].name, sizeof files[i].name, STORE_NAME_FORMAT,
                       store->files[i]->number);
        files[i].bytes = files[i].size = file_bytes(store, store->files[i]);
    }
    uint32_t count = (uint32_t)store->file_count;
    pthread_mutex_unlock(&store->lock);
    if (files == NULL) {
        return false;
    }
    *ret_files = files;
    *ret_count = count;
    return true;
}

void engine_store_stats(struct engine_store *store, struct engine_store_stats *ret_stats) {
    struct engine_store_stats stats = {0};
    pthread_mutex_lock(&store->lock);
    stats.oldest = store_oldest(store);
    stats.newest = store_newest(store);
    stats.events = store->events;
    stats.lost = store->lost;
    stats.failing = store->failing;
    stats.asked_ns = atomic_load_explicit(&store->asked_ns, memory_order_relaxed);
    for (size_t i = 0; i < store->file_count; i++) {
        stats.file_bytes += store->files[i]->bytes;
    }
    pthread_mutex_unlock(&store->lock);
    *ret_stats = stats;
}
