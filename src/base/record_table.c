/* Tables of fixed-size records and the images taken of them while they change.
 *
 * Memory: the records, rounded up to 64 bytes, then the saved-bitmap. A chunk is a power of two of
 * records, the most that fit TN_TABLE_CHUNK_BYTES (one record if none does), so that the barrier
 * finds a record's chunk with a shift.
 *
 * Invariants:
 *   - live <= used <= capacity; used never falls; records from used on are untouched, hence zero.
 *   - A free record is zero but for its link, so that take() hands out a zeroed one by clearing
 *     four bytes.
 *   - While an image is being taken, records below the image's `used` whose chunk is not marked in
 *     `saved` still have the bytes they had when the image began. */
#include "base/record_table.h"

#include <string.h>

#include "base/bytes.h"
#include "base/hash.h"

#define LINK_BYTES 4u

static uint32_t chunk_shift_of(uint32_t record_bytes) {
    uint32_t shift = 0;
    while ((uint64_t)record_bytes << (shift + 1) <= TN_TABLE_CHUNK_BYTES) {
        shift++;
    }
    return shift;
}

static uint64_t chunks_of(uint32_t records, uint32_t chunk_shift) {
    return ((uint64_t)records + (UINT64_C(1) << chunk_shift) - 1) >> chunk_shift;
}

static size_t saved_words(uint32_t records, uint32_t chunk_shift) {
    return (size_t)((chunks_of(records, chunk_shift) + 63) / 64);
}

static size_t round_up64(size_t n) {
    return (n + 63) & ~(size_t)63;
}

size_t tn_table_bytes(uint32_t record_bytes, uint32_t capacity) {
    size_t records = round_up64((size_t)capacity * record_bytes);
    size_t saved = saved_words(capacity, chunk_shift_of(record_bytes)) * sizeof(uint64_t);
    return records + round_up64(saved);
}

void tn_table_init(struct tn_table *table, uint32_t id, void *memory, uint32_t record_bytes,
                   uint32_t capacity) {
    TN_ASSERT(record_bytes >= LINK_BYTES);
    TN_ASSERT((uintptr_t)memory % 64 == 0);
    uint8_t *base = memory;
    *table = (struct tn_table){
        .base = base,
        .saved = (uint64_t *)(void *)(base + round_up64((size_t)capacity * record_bytes)),
        .record_bytes = record_bytes,
        .capacity = capacity,
        .chunk_shift = chunk_shift_of(record_bytes),
        .id = id,
    };
}

uint32_t tn_table_take(struct tn_table *table) {
    TN_ASSERT((table->free_head == 0) == (table->live == table->used));
    uint32_t index;
    if (table->free_head != 0) {
        index = table->free_head - 1;
        uint8_t *record = tn_table_mut(table, index);
        table->free_head = tn_load32(record);
        TN_ASSERT(table->free_head <= table->used);
        tn_store32(record, 0);
        if (table->free_head != 0) { /* it may have been freed long ago, so prefetch it */
            __builtin_prefetch(table->base + (size_t)(table->free_head - 1) * table->record_bytes,
                               1);
        }
    } else if (table->used < table->capacity) {
        /* No barrier: the record is not part of an image that has begun. */
        index = table->used++;
    } else {
        return TN_NONE;
    }
    table->live++;
    return index;
}

void tn_table_give(struct tn_table *table, uint32_t index) {
    TN_ASSERT(table->live > 0);
    TN_ASSERT(table->free_head != index + 1);
    uint8_t *record = tn_table_mut(table, index);
    memset(record, 0, table->record_bytes);
    tn_store32(record, table->free_head);
    table->free_head = index + 1;
    table->live--;
}

static const struct tn_table_header *image_header(const struct tn_table *table) {
    const struct tn_table_image *image = table->image;
    TN_ASSERT(table >= image->tables && table < image->tables + image->table_count);
    return &image->headers[table - image->tables];
}

/* Marks and emits one unsaved chunk, cut off at the image's end; returns its bytes. */
static size_t save_chunk(struct tn_table *table, uint32_t used_then, uint32_t number) {
    uint64_t mark = UINT64_C(1) << (number % 64);
    TN_ASSERT((table->saved[number / 64] & mark) == 0);
    table->saved[number / 64] |= mark;
    uint32_t first = number << table->chunk_shift;
    TN_ASSERT(first < used_then && used_then <= table->used);
    uint32_t count = UINT32_C(1) << table->chunk_shift;
    if (count > used_then - first) {
        count = used_then - first;
    }
    struct tn_table_chunk chunk = {
        .table_id = table->id,
        .first = first,
        .count = count,
        .bytes = table->base + (size_t)first * table->record_bytes,
    };
    table->image->save(table->image->save_ctx, &chunk);
    return (size_t)count * table->record_bytes;
}

void tn_table_before_write(struct tn_table *table, uint32_t index) {
    if (table->image == NULL) {
        return;
    }
    uint32_t used_then = image_header(table)->used;
    if (index >= used_then) {
        return; /* younger than the image, though it may share a chunk with older records */
    }
    uint32_t number = index >> table->chunk_shift;
    if ((table->saved[number / 64] >> (number % 64) & 1) == 0) {
        save_chunk(table, used_then, number);
    }
}

void tn_image_begin(struct tn_table_image *image, struct tn_table *tables, uint32_t table_count,
                    struct tn_table_header *headers, tn_table_save *save, void *save_ctx) {
    *image = (struct tn_table_image){
        .tables = tables,
        .table_count = table_count,
        .save = save,
        .save_ctx = save_ctx,
        .headers = headers,
    };
    for (uint32_t i = 0; i < table_count; i++) {
        struct tn_table *table = &tables[i];
        TN_ASSERT(table->image == NULL);
        headers[i] = (struct tn_table_header){
            .id = table->id,
            .record_bytes = table->record_bytes,
            .used = table->used,
            .live = table->live,
            .free_head = table->free_head,
        };
        /* Marks of earlier images lie below their `used`, hence below ours. */
        size_t words = saved_words(table->used, table->chunk_shift);
        memset(table->saved, 0, words * sizeof(uint64_t));
        table->image = image;
    }
}

/* Moves the cursor to the next unsaved chunk, if there is one, 64 marks at a glance. */
static bool image_seek(struct tn_table_image *image) {
    for (; image->cursor_table < image->table_count; image->cursor_table++) {
        const struct tn_table *table = &image->tables[image->cursor_table];
        uint32_t used_then = image->headers[image->cursor_table].used;
        uint64_t chunks = chunks_of(used_then, table->chunk_shift);
        uint64_t at = image->cursor_chunk;
        while (at < chunks) {
            uint64_t unsaved = ~table->saved[at / 64] & ~UINT64_C(0) << (at % 64);
            if (unsaved != 0) {
                at = (at & ~UINT64_C(63)) | (uint64_t)__builtin_ctzll(unsaved);
                break;
            }
            at = (at | 63) + 1;
        }
        if (at < chunks) {
            image->cursor_chunk = (uint32_t)at;
            return true;
        }
        image->cursor_chunk = 0;
    }
    return false;
}

bool tn_image_step(struct tn_table_image *image, size_t max_bytes) {
    size_t done = 0;
    while (image_seek(image)) {
        if (done > 0 && done >= max_bytes) {
            return true;
        }
        uint32_t used_then = image->headers[image->cursor_table].used;
        done += save_chunk(&image->tables[image->cursor_table], used_then, image->cursor_chunk);
    }
    tn_image_abandon(image);
    return false;
}

void tn_image_abandon(struct tn_table_image *image) {
    for (uint32_t i = 0; i < image->table_count; i++) {
        TN_ASSERT(image->tables[i].image == image);
        image->tables[i].image = NULL;
    }
}

bool tn_table_load_header(struct tn_table *table, const struct tn_table_header *header) {
    TN_ASSERT(table->used == 0 && table->image == NULL);
    if (header->id != table->id || header->record_bytes != table->record_bytes) {
        return false;
    }
    if (header->used > table->capacity || header->live > header->used) {
        return false;
    }
    if (header->free_head > header->used ||
        (header->free_head == 0) != (header->live == header->used)) {
        return false;
    }
    table->used = header->used;
    table->live = header->live;
    table->free_head = header->free_head;
    return true;
}

bool tn_table_load_chunk(struct tn_table *table, const struct tn_table_chunk *chunk, size_t len) {
    TN_ASSERT(table->image == NULL);
    if (chunk->table_id != table->id || (uint64_t)chunk->first + chunk->count > table->used) {
        return false;
    }
    if ((uint64_t)chunk->count * table->record_bytes != len) {
        return false;
    }
    if (len > 0) {
        memcpy(table->base + (size_t)chunk->first * table->record_bytes, chunk->bytes, len);
    }
    return true;
}

static bool is_zero(const uint8_t *at, size_t len) {
    return len == 0 || (at[0] == 0 && memcmp(at, at + 1, len - 1) == 0);
}

bool tn_table_check(const struct tn_table *table) {
    if (table->used > table->capacity || table->live > table->used) {
        return false;
    }
    /* A chain that ends after so many links cannot have a cycle: it would never end. */
    uint32_t link = table->free_head;
    for (uint32_t left = table->used - table->live; left > 0; left--) {
        if (link == 0 || link > table->used) {
            return false;
        }
        const uint8_t *record = tn_table_at(table, link - 1);
        if (!is_zero(record + LINK_BYTES, table->record_bytes - LINK_BYTES)) {
            return false;
        }
        link = tn_load32(record);
    }
    return link == 0;
}

uint64_t tn_table_hash(const struct tn_table *table, uint64_t seed) {
    uint8_t header[20];
    tn_store32(header, table->id);
    tn_store32(header + 4, table->record_bytes);
    tn_store32(header + 8, table->used);
    tn_store32(header + 12, table->live);
    tn_store32(header + 16, table->free_head);
    uint64_t hash = tn_hash64(header, sizeof header, seed);
    return tn_hash64(table->base, (size_t)table->used * table->record_bytes, hash);
}
