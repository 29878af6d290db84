/* How a map grows in place: the spread of its homes doubles, and its entries move from the last to the
 * first, a few with each insertion.
 *
 * The home of a tag is tag * spread / 2^32, so it rises with the tag, and a larger spread moves every
 * home up. While the map grows, tags from `moved` on have the new home and those below it the old one.
 * A step lowers `moved`. Then it takes out and puts back, one after another, all entries from the old
 * home of the first tag in between to the first empty place behind the old home of the last one. Every
 * other operation works in between as ever: it asks for the home of a tag and needs to know nothing else.
 *
 * That is right as long as no place between the home of an entry and its own is empty. Before the step
 * none was, so no entry has its home in that stretch and its place behind it, and the entries in front of
 * the stretch need none of its places. An entry that is put back finds a place no farther than its
 * own, and the step empties no place behind which it has passed, unless its home has moved up past
 * its place. Then it may take the empty place at the end. So it belongs to the stretch, is
 * taken out once more, and by then its home is behind it.
 *
 * A map starts to grow when 2/3 of `spread_before` is in use and is done spread_before / STEP_HOMES
 * insertions later, so all the while count < spread_before. If growth took longer, the part that has not
 * moved yet would get so full that each search in it takes long: with 4 homes for each insertion, a
 * million insertions took 1.7 times as long as with 32. */
#include "base/map.h"

#define SPREAD_FIRST 512u /* places: one page */
#define STEP_HOMES 32u

static uint32_t grow_at(const struct tn_map *map) {
    return map->spread == map->capacity ? UINT32_MAX : (uint32_t)((uint64_t)map->spread * 2 / 3);
}

/* The spreads are the capacity, its half, its quarter and so on. */
static void spread_for(struct tn_map *map, uint32_t count) {
    uint32_t spread = map->capacity;
    while (spread / 2 >= SPREAD_FIRST && (uint64_t)(spread / 2) * 2 / 3 > count) {
        spread /= 2;
    }
    map->spread = map->spread_before = spread;
    map->grow_at = grow_at(map);
}

void tn_map_init(struct tn_map *map, void *memory, uint32_t limit) {
    *map = (struct tn_map){.entries = memory, .capacity = tn_map_capacity(limit), .limit = limit};
    spread_for(map, 0);
}

void tn_map_reserve(struct tn_map *map, uint32_t count) {
    TN_ASSERT(map->count == 0);
    map->moved = 0;
    spread_for(map, count);
}

static void grow_begin(struct tn_map *map) {
    map->spread_before = map->spread;
    uint32_t spread = map->capacity;
    while (spread / 2 >= 2 * (uint64_t)map->spread_before) {
        spread /= 2;
    }
    TN_ASSERT(spread >= 2 * (uint64_t)map->spread_before);
    map->spread = spread;
    map->step = (uint32_t)(((uint64_t)STEP_HOMES << 32) / map->spread_before) + 1;
    map->moved = UINT32_MAX; /* the last tag has the new home at once; see grow_step */
    map->grow_at = 0;
}

/* Gives the tags from..to their new homes. */
static void move_entries(struct tn_map *map, uint32_t from, uint32_t to) {
    uint32_t at = (uint32_t)(((uint64_t)from * map->spread_before) >> 32);
    uint32_t last = (uint32_t)(((uint64_t)to * map->spread_before) >> 32);
    uint32_t homes = last - at + 1; /* still to be passed */
    for (; homes > 0 || map->entries[at].ref1 != 0; at = tn_map_next(map, at)) {
        struct tn_map_entry entry = map->entries[at];
        homes -= homes > 0;
        if (entry.ref1 != 0) {
            map->entries[at] = (struct tn_map_entry){0};
            tn_map_put(map, entry);
        }
    }
}

static void grow_step(struct tn_map *map) {
    TN_ASSERT(map->count < map->spread_before);
    /* In the first step all of the largest tags, of which `moved` can leave out none, count. */
    uint32_t to = map->moved == UINT32_MAX ? UINT32_MAX : map->moved - 1;
    uint32_t from = to > map->step ? to - map->step : 0;
    map->moved = from;
    move_entries(map, from, to);
    if (from == 0) {
        map->spread_before = map->spread;
        map->grow_at = grow_at(map);
    }
}

void tn_map_grow(struct tn_map *map) {
    if (map->moved == 0) {
        TN_ASSERT(map->spread < map->capacity);
        grow_begin(map);
    }
    grow_step(map);
}
