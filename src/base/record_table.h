/* Tables of fixed-size records in memory that never moves, with copy-before-write images.
 *
 * All durable state of the kernel lives in such tables, so a snapshot is their bytes and the state
 * hash is a hash of those bytes. A table is given its memory by its owner (zero-filled, untouched
 * pages); records 0..used-1 have been handed out at least once, freed ones are zeroed but for a
 * link and are handed out again last-freed-first.
 *
 * Reads go through tn_table_at (const), writes through tn_table_mut. While an image is being taken
 * (tn_image_*), the first write to a chunk of records after the image began saves that chunk's old
 * bytes first, so that the image shows every table as it was at one moment although the owner goes
 * on writing. The compiler enforces the barrier: at() gives a const pointer.
 *
 * Invariants: free records are chained from free_head and number used - live; a record's first four
 * bytes are the chain link (index + 1) while it is free. Indices are 32 bits; TN_NONE is none. */
#ifndef TN_BASE_RECORD_TABLE_H
#define TN_BASE_RECORD_TABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/assert.h"

#define TN_NONE UINT32_MAX
#define TN_TABLE_CHUNK_BYTES 65536u

struct tn_table_image;

struct tn_table {
    uint8_t *base;
    uint64_t *saved; /* one bit a chunk: already in the image being taken */
    uint32_t record_bytes;
    uint32_t capacity;
    uint32_t used;
    uint32_t live;
    uint32_t free_head;   /* index + 1; 0 = none */
    uint32_t chunk_shift; /* log2 of records per chunk */
    uint32_t id;
    struct tn_table_image *image; /* NULL unless an image is being taken */
};

/* The numbers of a table that are not in its records; stored with an image. */
struct tn_table_header {
    uint32_t id;
    uint32_t record_bytes;
    uint32_t used;
    uint32_t live;
    uint32_t free_head;
};

/* One run of records of one table, as handed to the saver and as given back at load. */
struct tn_table_chunk {
    uint32_t table_id;
    uint32_t first; /* index of the first record */
    uint32_t count;
    const void *bytes; /* count * record_bytes, valid during the call */
};

typedef void tn_table_save(void *ctx, const struct tn_table_chunk *chunk);

struct tn_table_image {
    struct tn_table *tables;
    uint32_t table_count;
    uint32_t cursor_table;
    uint32_t cursor_chunk;
    tn_table_save *save;
    void *save_ctx;
    struct tn_table_header *headers; /* as of the image's moment; table_count entries */
};

/* Bytes of memory that a table of this shape needs, the saved-bitmap included. */
size_t tn_table_bytes(uint32_t record_bytes, uint32_t capacity);

/* `memory` is zero-filled, tn_table_bytes() long, aligned to 64 and outlives the table. */
void tn_table_init(struct tn_table *table, uint32_t id, void *memory, uint32_t record_bytes,
                   uint32_t capacity);

/* A zeroed record, or TN_NONE when full. */
uint32_t tn_table_take(struct tn_table *table);

/* Zeroes the record and puts it first in the chain. */
void tn_table_give(struct tn_table *table, uint32_t index);

/* How many more records can be taken. */
static inline uint32_t tn_table_room(const struct tn_table *table) {
    return table->capacity - table->live;
}

static inline const void *tn_table_at(const struct tn_table *table, uint32_t index) {
    TN_ASSERT(index < table->used);
    return table->base + (size_t)index * table->record_bytes;
}

void tn_table_before_write(struct tn_table *table, uint32_t index);

static inline void *tn_table_mut(struct tn_table *table, uint32_t index) {
    TN_ASSERT(index < table->used);
    if (TN_UNLIKELY(table->image != NULL)) {
        tn_table_before_write(table, index);
    }
    return table->base + (size_t)index * table->record_bytes;
}

/* Begins an image of all `tables` as they are now. `headers` has room for table_count entries and
 * is filled in. The caller owns both, and they must outlive the image. */
void tn_image_begin(struct tn_table_image *image, struct tn_table *tables, uint32_t table_count,
                    struct tn_table_header *headers, tn_table_save *save, void *save_ctx);

/* Saves the next unsaved chunks, at least one and up to about max_bytes. False: all are saved; the
 * image has ended and no longer uses the tables. */
bool tn_image_step(struct tn_table_image *image, size_t max_bytes);

/* Ends an image that is not complete. */
void tn_image_abandon(struct tn_table_image *image);

/* Loading: set the header of an empty table, then put its chunks in any order. Both return false
 * when the numbers do not fit the table (the file is damaged or the limits are too small). */
bool tn_table_load_header(struct tn_table *table, const struct tn_table_header *header);
bool tn_table_load_chunk(struct tn_table *table, const struct tn_table_chunk *chunk, size_t len);

/* True if the free chain is well formed: in range, acyclic, used - live long, its records zero but
 * for their links. */
bool tn_table_check(const struct tn_table *table);

/* Hash over header and records 0..used-1, chained from `seed`. */
uint64_t tn_table_hash(const struct tn_table *table, uint64_t seed);

#endif
