/* Byte strings of any length up to 1 MiB in a table of 32-byte chunks.
 *
 * No fragmentation: a string of n bytes takes ceil((n + 4) / 28) chunks (its length, four bytes,
 * comes first; an empty string takes one), so room can be counted exactly before anything changes.
 * A chunk is { uint32 next (index + 1, 0 = last); uint8 payload[28] }. */
#ifndef TN_BASE_CHUNKS_H
#define TN_BASE_CHUNKS_H

#include "base/bytes.h"
#include "base/record_table.h"

#define TN_TEXT_CHUNK_BYTES 32u
#define TN_TEXT_MAX (1u << 20)

static inline uint32_t tn_text_chunks(size_t len) {
    return (uint32_t)((len + 4 + 27) / 28);
}

/* The caller has checked tn_table_room(chunks) >= tn_text_chunks(len). */
uint32_t tn_text_put(struct tn_table *chunks, struct tn_bytes text);
void tn_text_drop(struct tn_table *chunks, uint32_t ref);

/* True if there is a text of at most `len_max` bytes here, in as many chunks as it takes: of chunks
 * that come from outside. The other calls want one. */
bool tn_text_check(const struct tn_table *chunks, uint32_t ref, uint32_t len_max);

uint32_t tn_text_len(const struct tn_table *chunks, uint32_t ref);

/* The chunk that follows `chunk` in a text, or TN_NONE. */
uint32_t tn_text_next(const struct tn_table *chunks, uint32_t chunk);

/* Copies at most `capacity` bytes and returns the full length. Bytes of `out` after the text are undefined. */
uint32_t tn_text_get(const struct tn_table *chunks, uint32_t ref, void *out, size_t capacity);

bool tn_text_equal(const struct tn_table *chunks, uint32_t ref, struct tn_bytes text);

#endif
