/* How a map grows in place: the spread of its homes doubles, and its entries move from the last to the
 * first, a few with each insertion.
 *
 * The home of a tag is tag * spread / 2^32, so it rises with the tag, and a larger spread moves every
 * home up. While the map grows, tags from `moved` on have the new home and those below it the old one.
 * A step lowers `moved` and then moves the entries in between whose place lies before their new home.
 * Those at or behind their new home can stay: between the old home and their place nothing is empty, so
 * neither is anything between the new home and it. Every other operation works in between as ever: it
 * asks for the home of a tag and needs to know nothing else.
 *
 * Nothing here wraps around. A map starts to grow when 2/3 of `spread_before` is in use and is done
 * after a quarter as many insertions, so all the while count < spread_before. Hence an entry with the
 * old home lies below 2 * spread_before <= capacity. And an entry that a step has put at its new home
 * cannot have wrapped to a place that the step still looks at: all places from that home to the end and
 * from the beginning to that place would be in use, which are at least spread_before. */
#include "base/map.h"

#define SPREAD_FIRST 512u /* places: one page */
#define STEP_HOMES 4u

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

/* Moves the entries whose tag is from..to and whose place is before their new home. */
static void move_entries(struct tn_map *map, uint32_t from, uint32_t to) {
    uint32_t last = (uint32_t)(((uint64_t)to * map->spread_before) >> 32);
    uint32_t at = (uint32_t)(((uint64_t)from * map->spread_before) >> 32);
    while (at < map->capacity && (at <= last || map->entries[at].ref1 != 0)) {
        struct tn_map_entry entry = map->entries[at];
        if (entry.ref1 == 0 || entry.tag < from || entry.tag > to ||
            tn_map_home(map, entry.tag) <= at) {
            at++;
            continue;
        }
        tn_map_take(map, at); /* another entry may have moved here */
        tn_map_put(map, entry);
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
