/* Chunks of at least 64 KiB, each used from its beginning. */
#include "etcd/arena.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define ARENA_CHUNK ((size_t)64 << 10)
#define ARENA_ALIGN ((size_t)16)

struct etcd_arena_chunk {
    struct etcd_arena_chunk *older;
    size_t capacity;
    size_t used;
    size_t unused_word; /* keeps `bytes` at a multiple of ARENA_ALIGN */
    uint8_t bytes[];
};

_Static_assert(offsetof(struct etcd_arena_chunk, bytes) % 16 == 0, "chunks are aligned");

void etcd_arena_init(struct etcd_arena *arena, size_t max) {
    *arena = (struct etcd_arena){.max = max};
}

static struct etcd_arena_chunk *arena_grow(struct etcd_arena *arena, size_t bytes) {
    size_t capacity = bytes > ARENA_CHUNK ? bytes : ARENA_CHUNK;
    if (capacity > arena->max - arena->taken) {
        return NULL;
    }
    struct etcd_arena_chunk *chunk = malloc(sizeof *chunk + capacity);
    if (chunk == NULL) {
        return NULL;
    }
    *chunk = (struct etcd_arena_chunk){.older = arena->chunks, .capacity = capacity};
    arena->chunks = chunk;
    arena->taken += capacity;
    return chunk;
}

void *etcd_arena_take(struct etcd_arena *arena, size_t bytes) {
    if (bytes > arena->max) {
        return NULL;
    }
    bytes = (bytes + ARENA_ALIGN - 1) & ~(ARENA_ALIGN - 1);
    struct etcd_arena_chunk *chunk = arena->chunks;
    if (chunk == NULL || bytes > chunk->capacity - chunk->used) {
        chunk = arena_grow(arena, bytes);
        if (chunk == NULL) {
            return NULL;
        }
    }
    void *at = chunk->bytes + chunk->used;
    chunk->used += bytes;
    return at;
}

void *etcd_arena_array(struct etcd_arena *arena, size_t count, size_t bytes) {
    if (bytes > 0 && count > arena->max / bytes) {
        return NULL;
    }
    void *at = etcd_arena_take(arena, count * bytes);
    if (at != NULL) {
        memset(at, 0, count * bytes);
    }
    return at;
}

void etcd_arena_reset(struct etcd_arena *arena) {
    struct etcd_arena_chunk *chunk = arena->chunks;
    while (chunk != NULL && (chunk->older != NULL || chunk->capacity > ARENA_CHUNK)) {
        struct etcd_arena_chunk *older = chunk->older;
        arena->taken -= chunk->capacity;
        free(chunk);
        chunk = older;
    }
    arena->chunks = chunk;
    if (chunk != NULL) {
        chunk->used = 0;
    }
}

void etcd_arena_free(struct etcd_arena *arena) {
    etcd_arena_reset(arena);
    free(arena->chunks);
    *arena = (struct etcd_arena){.max = arena->max};
}
