/* A bounded hash index: hash -> 32-bit reference to a record that lives elsewhere.
 *
 * Open addressing, linear probing, deletion by shifting back (no tombstones), at most 2/3 full at
 * its limit. An entry is the upper 32 bits of the hash and the reference + 1; the home position
 * follows from those 32 bits alone. Keys are compared by the owner, in its own records. The order
 * of entries depends on the seed and must never show. Memory is given zero-filled and never moves.
 *
 * Everything is inline, so that a constant comparison function is inlined into the probe. */
#ifndef TN_BASE_MAP_H
#define TN_BASE_MAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/assert.h"
#include "base/record_table.h"

struct tn_map_entry {
    uint32_t tag;
    uint32_t ref1; /* reference + 1; 0 = empty */
};

struct tn_map {
    struct tn_map_entry *entries;
    uint32_t capacity;
    uint32_t limit;
    uint32_t count;
};

/* True if record `ref` has the key. */
typedef bool tn_map_equal(const void *ctx, uint32_t ref, const void *key);

static inline uint32_t tn_map_capacity(uint32_t limit) {
    uint64_t capacity = (uint64_t)limit + limit / 2 + 8;
    return capacity > UINT32_MAX ? UINT32_MAX : (uint32_t)capacity;
}

static inline size_t tn_map_bytes(uint32_t limit) {
    return (size_t)tn_map_capacity(limit) * sizeof(struct tn_map_entry);
}

static inline void tn_map_init(struct tn_map *map, void *memory, uint32_t limit) {
    *map = (struct tn_map){.entries = memory, .capacity = tn_map_capacity(limit), .limit = limit};
}

static inline uint32_t tn_map_home(const struct tn_map *map, uint32_t tag) {
    return (uint32_t)(((uint64_t)tag * map->capacity) >> 32);
}

static inline void tn_map_prefetch(const struct tn_map *map, uint64_t hash) {
    __builtin_prefetch(&map->entries[tn_map_home(map, (uint32_t)(hash >> 32))]);
}

static inline uint32_t tn_map_next(const struct tn_map *map, uint32_t at) {
    return at + 1 == map->capacity ? 0 : at + 1;
}

/* The reference whose record has the key, or TN_NONE. */
static inline uint32_t tn_map_find(const struct tn_map *map, uint64_t hash, tn_map_equal *equal,
                                   const void *ctx, const void *key) {
    uint32_t tag = (uint32_t)(hash >> 32);
    for (uint32_t at = tn_map_home(map, tag); map->entries[at].ref1 != 0;
         at = tn_map_next(map, at)) {
        if (map->entries[at].tag == tag && equal(ctx, map->entries[at].ref1 - 1, key)) {
            return map->entries[at].ref1 - 1;
        }
    }
    return TN_NONE;
}

/* The key is not in the map and count < limit. */
static inline void tn_map_insert(struct tn_map *map, uint64_t hash, uint32_t ref) {
    TN_ASSERT(map->count < map->limit);
    TN_ASSERT(ref != TN_NONE);
    uint32_t tag = (uint32_t)(hash >> 32);
    uint32_t at = tn_map_home(map, tag);
    while (map->entries[at].ref1 != 0) {
        at = tn_map_next(map, at);
    }
    map->entries[at] = (struct tn_map_entry){.tag = tag, .ref1 = ref + 1};
    map->count++;
}

/* Removes the entry for this very reference, which must be there. */
static inline void tn_map_remove(struct tn_map *map, uint64_t hash, uint32_t ref) {
    uint32_t at = tn_map_home(map, (uint32_t)(hash >> 32));
    while (map->entries[at].ref1 != ref + 1) {
        TN_ASSERT(map->entries[at].ref1 != 0);
        at = tn_map_next(map, at);
    }
    uint32_t hole = at;
    for (;;) {
        at = tn_map_next(map, at);
        if (map->entries[at].ref1 == 0) {
            break;
        }
        uint32_t home = tn_map_home(map, map->entries[at].tag);
        /* The entry may move into the hole unless its home lies cyclically in (hole, at]. */
        bool stays = hole <= at ? (home > hole && home <= at) : (home > hole || home <= at);
        if (!stays) {
            map->entries[hole] = map->entries[at];
            hole = at;
        }
    }
    map->entries[hole] = (struct tn_map_entry){0};
    map->count--;
}

#endif
