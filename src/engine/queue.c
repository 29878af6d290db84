/* The way of a snapshot's sections from the state to the log: a ring of bytes of fixed size.
 *
 * Producers hold the state lock: the snapshot's own steps, and the leader when it is about to
 * overwrite records that the snapshot has not seen. So there is one at a time. Consumers hold the
 * drain lock (snapshot_take.c): the snapshot's thread, and a producer that finds no room. The ring's own
 * lock is held for moments only, never while bytes are copied or written.
 *
 * An entry: uint64 size of the section (0: skip to the start of the ring), then the section, padded
 * to 8. Entries are contiguous. */
#include <string.h>

#include "base/assert.h"
#include "engine/internal.h"

#define QUEUE_BYTES_MIN ((size_t)4 << 20)
/* Room for a step, one more chunk, and the end of the ring that a wrap skips. */
#define QUEUE_STEP_ROOM ((size_t)3 << 20)

_Static_assert(QUEUE_BYTES_MIN >= 2 * (LOG_SECTION_MAX + 64), "one section always fits");

static size_t entry_size(size_t section) {
    return sizeof(uint64_t) + ((section + 7) & ~(size_t)7);
}

void engine_queue_init(struct engine_queue *queue) {
    pthread_mutex_init(&queue->lock, NULL);
}

void engine_queue_free(struct engine_queue *queue) {
    TN_ASSERT(queue->ring == NULL);
    pthread_mutex_destroy(&queue->lock);
}

enum tn_status engine_queue_open(struct engine_queue *queue, const struct os *os, size_t bytes) {
    void *memory;
    bytes = bytes < QUEUE_BYTES_MIN ? QUEUE_BYTES_MIN : (bytes + 7) & ~(size_t)7;
    TN_ASSERT(queue->ring == NULL);
    enum tn_status status = os->mem_reserve(os->ctx, bytes, false, &memory);
    if (status != TN_OK) {
        return status;
    }
    queue->ring = memory;
    queue->capacity = bytes;
    queue->head = queue->tail = queue->used = 0;
    return TN_OK;
}

void engine_queue_close(struct engine_queue *queue, const struct os *os) {
    os->mem_release(os->ctx, queue->ring, queue->capacity);
    queue->ring = NULL;
}

bool engine_queue_has_room(struct engine_queue *queue) {
    pthread_mutex_lock(&queue->lock);
    bool room = queue->capacity - queue->used >= QUEUE_STEP_ROOM;
    pthread_mutex_unlock(&queue->lock);
    return room;
}

/* Moves `tail` to the beginning of `size` free bytes. False if there are none. */
static bool queue_fit(struct engine_queue *queue, size_t size) {
    TN_ASSERT(queue->used <= queue->capacity && queue->head <= queue->capacity);
    if (queue->used == 0) {
        queue->head = queue->tail = 0;
    }
    if (queue->used > 0 && queue->tail <= queue->head) {
        return queue->head - queue->tail >= size;
    }
    if (queue->capacity - queue->tail >= size) {
        return true;
    }
    if (queue->head < size) {
        return false;
    }
    if (queue->tail < queue->capacity) {
        tn_store64(queue->ring + queue->tail, 0);
        queue->used += queue->capacity - queue->tail;
    }
    queue->tail = 0;
    return true;
}

/* The bytes at `tail` belong to the producer until it changes `used`, so they are copied without
 * the lock. */
bool engine_queue_push(struct engine_queue *queue, const struct tn_table_chunk *chunk) {
    TN_ASSERT(queue->ring != NULL && chunk->table_id < KERNEL_TABLES_MAX);
    size_t len = (size_t)chunk->count * queue->record_bytes[chunk->table_id];
    size_t section = SECTION_CHUNK_HEADER + len;
    TN_ASSERT(section <= LOG_SECTION_MAX);
    pthread_mutex_lock(&queue->lock);
    bool fits = queue_fit(queue, entry_size(section));
    uint8_t *at = queue->ring + queue->tail;
    queue->overflows += !fits;
    pthread_mutex_unlock(&queue->lock);
    if (!fits) {
        return false;
    }
    tn_store64(at, section);
    tn_store32(at + 8, chunk->table_id);
    tn_store32(at + 12, chunk->first);
    tn_store32(at + 16, chunk->count);
    memcpy(at + 20, chunk->bytes, len);
    pthread_mutex_lock(&queue->lock);
    queue->tail += entry_size(section);
    queue->used += entry_size(section);
    pthread_mutex_unlock(&queue->lock);
    return true;
}

bool engine_queue_peek(struct engine_queue *queue, struct tn_bytes *ret_section) {
    bool found = false;
    pthread_mutex_lock(&queue->lock);
    if (queue->used > 0 &&
        (queue->head == queue->capacity || tn_load64(queue->ring + queue->head) == 0)) {
        queue->used -= queue->capacity - queue->head;
        queue->head = 0;
    }
    if (queue->used > 0) {
        const uint8_t *at = queue->ring + queue->head;
        *ret_section = tn_bytes_of(at + sizeof(uint64_t), tn_load64(at));
        found = true;
    }
    pthread_mutex_unlock(&queue->lock);
    return found;
}

void engine_queue_pop(struct engine_queue *queue, struct tn_bytes section) {
    size_t size = entry_size(section.len);
    pthread_mutex_lock(&queue->lock);
    TN_ASSERT(queue->used >= size && queue->capacity - queue->head >= size);
    queue->head += size;
    queue->used -= size;
    pthread_mutex_unlock(&queue->lock);
}
