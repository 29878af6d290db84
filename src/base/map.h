/* A bounded hash index: hash -> 32-bit reference to a record that lives elsewhere.
 *
 * Open addressing, linear probing, deletion by shifting back (no tombstones), at most 2/3 full at
 * its limit. An entry is the upper 32 bits of the hash, its tag, and the reference + 1; the home
 * position follows from the tag alone. Keys are compared by the owner, in its own records. The order
 * of entries depends on the seed and must never show. Memory is given zero-filled and never moves.
 *
 * Homes spread over the first `spread` places only, so that a map with few entries touches little of
 * the memory for its limit. When these are 2/3 full, the spread doubles and the entries move in small
 * steps, one with each insertion (map.c): no insertion pays for all of them.
 *
 * The frequent operations are inline, so that a constant comparison function is inlined into the
 * probe. */
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
    uint32_t capacity; /* places in memory: where positions wrap around */
    uint32_t limit;
    uint32_t count;
    uint32_t spread;
    uint32_t spread_before; /* for the tags below `moved` */
    uint32_t moved;         /* tags from here on have the new home; 0: all of them */
    uint32_t step;          /* tags that one insertion moves */
    uint32_t grow_at;       /* the count at which an insertion has more to do */
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

/* `memory` is zero-filled and tn_map_bytes() long. */
void tn_map_init(struct tn_map *map, void *memory, uint32_t limit);

/* Spreads the homes of an empty map so that `count` entries fit without growth. */
void tn_map_reserve(struct tn_map *map, uint32_t count);

/* Begins to grow, or moves the next few entries. */
void tn_map_grow(struct tn_map *map);

static inline uint32_t tn_map_home(const struct tn_map *map, uint32_t tag) {
    uint32_t spread = tag < map->moved ? map->spread_before : map->spread;
    return (uint32_t)(((uint64_t)tag * spread) >> 32);
}

static inline void tn_map_prefetch(const struct tn_map *map, uint64_t hash) {
    const struct tn_map_entry *home = &map->entries[tn_map_home(map, (uint32_t)(hash >> 32))];
    __builtin_prefetch(home);
    __builtin_prefetch(home + 8);       /* a search often ends in the next line */
    __asm__ volatile("" : : "r"(home)); /* otherwise gcc finds no effect here and drops the call */
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

/* Writes the entry to the first empty place from its home on. */
static inline void tn_map_put(struct tn_map *map, struct tn_map_entry entry) {
    uint32_t at = tn_map_home(map, entry.tag);
    while (map->entries[at].ref1 != 0) {
        at = tn_map_next(map, at);
    }
    map->entries[at] = entry;
}

/* Empties the place and moves back those behind it that it had pushed on. */
static inline void tn_map_take(struct tn_map *map, uint32_t hole) {
    uint32_t at = hole;
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
}

/* The key is not in the map and count < limit. */
static inline void tn_map_insert(struct tn_map *map, uint64_t hash, uint32_t ref) {
    TN_ASSERT(map->count < map->limit);
    TN_ASSERT(ref != TN_NONE);
    if (TN_UNLIKELY(map->count >= map->grow_at)) {
        tn_map_grow(map);
    }
    tn_map_put(map, (struct tn_map_entry){.tag = (uint32_t)(hash >> 32), .ref1 = ref + 1});
    map->count++;
}

/* Removes the entry for this very reference, which must be there. */
static inline void tn_map_remove(struct tn_map *map, uint64_t hash, uint32_t ref) {
    uint32_t at = tn_map_home(map, (uint32_t)(hash >> 32));
    while (map->entries[at].ref1 != ref + 1) {
        TN_ASSERT(map->entries[at].ref1 != 0);
        at = tn_map_next(map, at);
    }
    tn_map_take(map, at);
    map->count--;
}

#endif
