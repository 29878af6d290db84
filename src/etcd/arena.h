/* Memory for one message at a time: taken piece by piece, given back all at once, and bounded.
 *
 * A hostile message can ask for far more memory than its own size (an empty record costs two bytes
 * on the wire and a hundred here), so decoding takes all of its memory from an arena with a limit. */
#ifndef TN_ETCD_ARENA_H
#define TN_ETCD_ARENA_H

#include <stddef.h>

struct etcd_arena_chunk;

struct etcd_arena {
    struct etcd_arena_chunk *chunks; /* the newest first */
    size_t taken;                    /* bytes of all chunks */
    size_t max;
};

void etcd_arena_init(struct etcd_arena *arena, size_t max);

/* Aligned for any type, not cleared. NULL: the limit or the machine's memory is exhausted. */
void *etcd_arena_take(struct etcd_arena *arena, size_t bytes);

/* count * bytes, cleared. */
void *etcd_arena_array(struct etcd_arena *arena, size_t count, size_t bytes);

/* Gives everything back but the first chunk, which the next message will want. */
void etcd_arena_reset(struct etcd_arena *arena);

void etcd_arena_free(struct etcd_arena *arena);

#endif
