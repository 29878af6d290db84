/* Byte strings as chains of 32-byte chunks.
 *
 * Invariants: the four length bytes are the first of the first chunk's payload, so that chunk holds
 * up to 24 bytes of text and every other one 28; a chain has exactly tn_text_chunks(len) chunks,
 * and the bytes after the text are zero (equal texts have equal chunks, but for the links). */
#include "base/chunks.h"

#define PAYLOAD 28u
#define LENGTH_BYTES 4u
#define FIRST_BYTES (PAYLOAD - LENGTH_BYTES) /* bytes of text in the first chunk */

struct chunk {
    uint32_t next; /* index + 1; 0 = last */
    uint8_t payload[PAYLOAD];
};

_Static_assert(sizeof(struct chunk) == TN_TEXT_CHUNK_BYTES, "chunks have no padding");

/* Where a walk along a chain stands: the part of the chunk that holds text. */
struct walk {
    const struct tn_table *chunks;
    const struct chunk *chunk;
    uint32_t len;  /* length of the whole text */
    uint32_t done; /* bytes before this part */
    struct tn_bytes part;
};

static void walk_part(struct walk *walk, uint32_t skip) {
    uint32_t left = walk->len - walk->done;
    uint32_t room = PAYLOAD - skip;
    walk->part = tn_bytes_of(walk->chunk->payload + skip, left < room ? left : room);
}

static struct walk walk_begin(const struct tn_table *chunks, uint32_t ref) {
    TN_ASSERT(chunks->record_bytes == sizeof(struct chunk));
    const struct chunk *chunk = tn_table_at(chunks, ref);
    struct walk walk = {.chunks = chunks, .chunk = chunk, .len = tn_load32(chunk->payload)};
    walk_part(&walk, LENGTH_BYTES);
    return walk;
}

/* False at the end of the text. A chain that ends early fails the index check in tn_table_at. */
static bool walk_next(struct walk *walk) {
    walk->done += walk->part.len;
    if (walk->done == walk->len) {
        return false;
    }
    walk->chunk = tn_table_at(walk->chunks, walk->chunk->next - 1);
    walk_part(walk, 0);
    return true;
}

uint32_t tn_text_put(struct tn_table *chunks, struct tn_bytes text) {
    TN_ASSERT(chunks->record_bytes == sizeof(struct chunk));
    TN_ASSERT(text.len <= TN_TEXT_MAX);
    TN_ASSERT(tn_table_room(chunks) >= tn_text_chunks(text.len));
    uint32_t ref = tn_table_take(chunks);
    struct chunk *chunk = tn_table_mut(chunks, ref);
    tn_store32(chunk->payload, text.len);
    uint32_t skip = LENGTH_BYTES;
    uint32_t done = 0;
    for (;;) {
        uint32_t left = text.len - done;
        uint32_t part = left < PAYLOAD - skip ? left : PAYLOAD - skip;
        if (part > 0) {
            memcpy(chunk->payload + skip, text.at + done, part);
        }
        done += part;
        if (done == text.len) {
            return ref;
        }
        uint32_t next = tn_table_take(chunks);
        TN_ASSERT(next != TN_NONE);
        chunk->next = next + 1;
        chunk = tn_table_mut(chunks, next);
        skip = 0;
    }
}

void tn_text_drop(struct tn_table *chunks, uint32_t ref) {
    uint32_t left = tn_text_chunks(tn_text_len(chunks, ref));
    for (;;) {
        const struct chunk *chunk = tn_table_at(chunks, ref);
        uint32_t next = chunk->next;
        tn_table_give(chunks, ref);
        left--;
        TN_ASSERT((next == 0) == (left == 0));
        if (next == 0) {
            return;
        }
        ref = next - 1;
    }
}

bool tn_text_check(const struct tn_table *chunks, uint32_t ref, uint32_t len_max) {
    TN_ASSERT(chunks->record_bytes == sizeof(struct chunk) && len_max <= TN_TEXT_MAX);
    if (ref >= chunks->used || tn_text_len(chunks, ref) > len_max) {
        return false;
    }
    for (uint32_t left = tn_text_chunks(tn_text_len(chunks, ref));; left--) {
        const struct chunk *chunk = tn_table_at(chunks, ref);
        if (chunk->next == 0 || left == 1) {
            return chunk->next == 0 && left == 1;
        }
        if (chunk->next > chunks->used) {
            return false;
        }
        ref = chunk->next - 1;
    }
}

uint32_t tn_text_len(const struct tn_table *chunks, uint32_t ref) {
    return walk_begin(chunks, ref).len;
}

uint32_t tn_text_next(const struct tn_table *chunks, uint32_t chunk) {
    const struct chunk *at = tn_table_at(chunks, chunk);
    return at->next == 0 ? TN_NONE : at->next - 1;
}

uint32_t tn_text_get(const struct tn_table *chunks, uint32_t ref, void *out, size_t capacity) {
    uint8_t *to = out;
    const struct chunk *first = tn_table_at(chunks, ref);
    if (tn_load32(first->payload) <= FIRST_BYTES && capacity >= FIRST_BYTES) {
        memcpy(to, first->payload + LENGTH_BYTES, FIRST_BYTES); /* most names: a fixed size */
        return tn_load32(first->payload);
    }
    struct walk walk = walk_begin(chunks, ref);
    do {
        size_t room = capacity - walk.done;
        size_t n = walk.part.len < room ? walk.part.len : room;
        if (n > 0) {
            memcpy(to + walk.done, walk.part.at, n);
        }
        if (n < walk.part.len) {
            break;
        }
    } while (walk_next(&walk));
    return walk.len;
}

/* Texts of 8 to 24 bytes, in three words that may overlap. */
static inline bool equal_short(const uint8_t *a, const uint8_t *b, uint32_t len) {
    uint32_t middle = len < 16 ? 0 : 8;
    return ((tn_load64(a) ^ tn_load64(b)) | (tn_load64(a + middle) ^ tn_load64(b + middle)) |
            (tn_load64(a + len - 8) ^ tn_load64(b + len - 8))) == 0;
}

bool tn_text_equal(const struct tn_table *chunks, uint32_t ref, struct tn_bytes text) {
    const struct chunk *first = tn_table_at(chunks, ref);
    if (tn_load32(first->payload) != text.len) {
        return false;
    }
    if (text.len <= FIRST_BYTES) { /* most names: one chunk, one comparison */
        if (TN_LIKELY(text.len >= 8)) {
            return equal_short(first->payload + LENGTH_BYTES, text.at, text.len);
        }
        return text.len == 0 || memcmp(first->payload + LENGTH_BYTES, text.at, text.len) == 0;
    }
    struct walk walk = walk_begin(chunks, ref);
    do {
        if (walk.part.len > 0 && memcmp(text.at + walk.done, walk.part.at, walk.part.len) != 0) {
            return false;
        }
    } while (walk_next(&walk));
    return true;
}
