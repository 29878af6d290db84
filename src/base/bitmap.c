/* The sparse tree of 64-way bitmaps.
 *
 * The tree has no pointers: the word of level n above a value is the table entry whose key is made
 * from (space, n, value >> 6 * (n + 1)), so going up or down one level is one probe. Level 10 has
 * one word a space, of which 16 bits are used, one for each value of the top four bits.
 *
 * Invariants, for every word that is not zero (and only those have an entry):
 *   FULL  bit i of level n + 1 is set if and only if its child, word i of level n, is all ones.
 *         Hence a clear bit leads to a child with a clear bit, and an absent word to any child.
 *   ANY   bit i of level n + 1 is set if and only if its child has an entry.
 *         Hence a set bit leads to a child with a set bit.
 * So a search that goes up until it sees a candidate to the right, then down taking the lowest
 * candidate each time, never turns back.
 *
 * The table: linear probing with deletion by shifting back, so there are no tombstones and a probe
 * costs the same after any history; at most 5/6 full. Positions follow from the key alone and never
 * show: nothing walks the table in its own order. The table grows in place; map.c has the reasons why
 * that is right. */
#include "base/bitmap.h"

#include "base/assert.h"
#include "base/hash.h"

#define LEVEL_TOP 10u
#define LEVEL_SHIFT 58u
#define ALL_ONES (~UINT64_C(0))
#define SPREAD_FIRST 512u
#define STEP_HOMES 32u /* at least this many for each new word */

__extension__ typedef unsigned __int128 uint128;

_Static_assert(sizeof(struct tn_bitmap_node) == 20, "nodes have no padding");

/* The maximum number of words for `limit` set bits. FULL: a word of level n has a bit set only if
 * 64^n values below it are set, so there are at most limit / 64^n of them, and limit * 64/63
 * together. ANY: one for each level and value. */
static uint64_t words_max(enum tn_bitmap_kind kind, uint64_t limit) {
    TN_ASSERT(limit <= UINT64_MAX / 512);
    return kind == TN_BITMAP_FULL ? limit + limit / 63 : limit * (LEVEL_TOP + 1);
}

static uint64_t capacity_for(enum tn_bitmap_kind kind, uint64_t limit) {
    /* Full only if every value is in a word of its own; dense use leaves most of it empty. */
    uint64_t words = words_max(kind, limit);
    return words + words / 5 + 8;
}

size_t tn_bitmap_bytes(enum tn_bitmap_kind kind, uint64_t limit) {
    return (size_t)capacity_for(kind, limit) * sizeof(struct tn_bitmap_node);
}

static uint64_t grow_at(const struct tn_bitmap *bitmap) {
    return bitmap->spread == bitmap->capacity ? UINT64_MAX : bitmap->spread / 3 * 2;
}

void tn_bitmap_init(struct tn_bitmap *bitmap, enum tn_bitmap_kind kind, void *memory,
                    uint64_t limit, uint64_t seed) {
    *bitmap = (struct tn_bitmap){
        .nodes = memory,
        .capacity = capacity_for(kind, limit),
        .limit = limit,
        .seed = seed,
        .kind = kind,
    };
    bitmap->spread = bitmap->capacity;
    while (bitmap->spread / 2 >= SPREAD_FIRST) {
        bitmap->spread /= 2;
    }
    bitmap->grow_at = grow_at(bitmap);
}

static inline uint64_t node_key(const struct tn_bitmap_node *node) {
    return (uint64_t)node->key_high << 32 | node->key_low;
}

static inline uint64_t node_word(const struct tn_bitmap_node *node) {
    return (uint64_t)node->word_high << 32 | node->word_low;
}

static inline void node_word_set(struct tn_bitmap_node *node, uint64_t word) {
    node->word_low = (uint32_t)word;
    node->word_high = (uint32_t)(word >> 32);
}

static inline uint64_t key_of(uint32_t level, uint64_t prefix) {
    return (uint64_t)level << LEVEL_SHIFT | prefix;
}

static inline uint64_t mixed_of(const struct tn_bitmap *bitmap, uint32_t space1, uint64_t key) {
    return tn_mix64(key ^ tn_mix64(bitmap->seed ^ space1));
}

static inline uint64_t home_in(uint64_t mixed, uint64_t spread) {
    return (uint64_t)((uint128)mixed * spread >> 64);
}

static inline uint64_t home_of(const struct tn_bitmap *bitmap, uint32_t space1, uint64_t key) {
    uint64_t mixed = mixed_of(bitmap, space1, key);
    return home_in(mixed, mixed < bitmap->moved ? bitmap->spread_before : bitmap->spread);
}

static inline uint64_t next_position(const struct tn_bitmap *bitmap, uint64_t at) {
    return at + 1 == bitmap->capacity ? 0 : at + 1;
}

/* The position of the entry, or of the empty one where it belongs. */
static inline uint64_t probe(const struct tn_bitmap *bitmap, uint32_t space1, uint64_t key) {
    uint64_t at = home_of(bitmap, space1, key);
    for (;;) {
        const struct tn_bitmap_node *node = &bitmap->nodes[at];
        if (node->space1 == 0 || (node_key(node) == key && node->space1 == space1)) {
            return at;
        }
        at = next_position(bitmap, at);
    }
}

/* Zero if there is no such word: empty entries have a zero word, too. */
static inline uint64_t word_at(const struct tn_bitmap *bitmap, uint32_t space1, uint64_t key) {
    return node_word(&bitmap->nodes[probe(bitmap, space1, key)]);
}

/* Empties an entry and moves back those behind it that its place had pushed on. */
static void empty_at(struct tn_bitmap *bitmap, uint64_t hole) {
    for (uint64_t at = next_position(bitmap, hole); bitmap->nodes[at].space1 != 0;
         at = next_position(bitmap, at)) {
        const struct tn_bitmap_node *node = &bitmap->nodes[at];
        uint64_t home = home_of(bitmap, node->space1, node_key(node));
        /* The entry may move into the hole unless its home lies cyclically in (hole, at]. */
        bool stays = hole <= at ? (home > hole && home <= at) : (home > hole || home <= at);
        if (!stays) {
            bitmap->nodes[hole] = *node;
            hole = at;
        }
    }
    bitmap->nodes[hole] = (struct tn_bitmap_node){0};
}

/* --- Growth ----------------------------------------------------------------------------------- */

/* Gives the words whose mixed key is from..to their new homes. */
static void move_words(struct tn_bitmap *bitmap, uint64_t from, uint64_t to) {
    uint64_t at = home_in(from, bitmap->spread_before);
    uint64_t homes = home_in(to, bitmap->spread_before) - at + 1; /* still to be passed */
    for (; homes > 0 || bitmap->nodes[at].space1 != 0; at = next_position(bitmap, at)) {
        struct tn_bitmap_node node = bitmap->nodes[at];
        homes -= homes > 0;
        if (node.space1 != 0) {
            bitmap->nodes[at] = (struct tn_bitmap_node){0};
            bitmap->nodes[probe(bitmap, node.space1, node_key(&node))] = node;
        }
    }
}

static void grow(struct tn_bitmap *bitmap) {
    if (bitmap->moved == 0) {
        TN_ASSERT(bitmap->spread < bitmap->capacity);
        uint64_t spread = bitmap->capacity;
        while (spread / 2 >= 2 * bitmap->spread) {
            spread /= 2;
        }
        bitmap->spread_before = bitmap->spread;
        bitmap->spread = spread;
        bitmap->step = UINT64_MAX / bitmap->spread_before * STEP_HOMES;
        bitmap->moved = UINT64_MAX; /* the largest key is part of the first step */
        bitmap->grow_at = 0;
    }
    TN_ASSERT(bitmap->count < bitmap->spread_before);
    uint64_t to = bitmap->moved == UINT64_MAX ? UINT64_MAX : bitmap->moved - 1;
    uint64_t from = to > bitmap->step ? to - bitmap->step : 0;
    bitmap->moved = from;
    move_words(bitmap, from, to);
    if (from == 0) {
        bitmap->grow_at = grow_at(bitmap);
    }
}

bool tn_bitmap_test(const struct tn_bitmap *bitmap, uint32_t space, uint64_t value) {
    return (tn_bitmap_word(bitmap, space, value) >> (value & 63) & 1) != 0;
}

uint64_t tn_bitmap_word(const struct tn_bitmap *bitmap, uint32_t space, uint64_t value) {
    return word_at(bitmap, space + 1, value >> 6);
}

bool tn_bitmap_set(struct tn_bitmap *bitmap, uint32_t space, uint64_t value) {
    TN_ASSERT(space != UINT32_MAX);
    uint32_t space1 = space + 1;
    bool first = false;
    for (uint32_t level = 0; level <= LEVEL_TOP; level++) {
        if (TN_UNLIKELY(bitmap->count >= bitmap->grow_at)) {
            grow(bitmap);
        }
        uint64_t bit = UINT64_C(1) << (value & 63);
        value >>= 6;
        uint64_t key = key_of(level, value);
        struct tn_bitmap_node *node = &bitmap->nodes[probe(bitmap, space1, key)];
        uint64_t old = node_word(node);
        TN_ASSERT((old & bit) == 0);
        if (old == 0) {
            TN_ASSERT(bitmap->count < words_max(bitmap->kind, bitmap->limit));
            bitmap->count++;
            node->space1 = space1;
            node->key_low = (uint32_t)key;
            node->key_high = (uint32_t)(key >> 32);
        }
        node_word_set(node, old | bit);
        first = first || (level == 0 && old == 0);
        bool parent_changes = bitmap->kind == TN_BITMAP_FULL ? (old | bit) == ALL_ONES : old == 0;
        if (!parent_changes) {
            break;
        }
    }
    return first;
}

bool tn_bitmap_clear(struct tn_bitmap *bitmap, uint32_t space, uint64_t value) {
    uint32_t space1 = space + 1;
    bool last = false;
    for (uint32_t level = 0; level <= LEVEL_TOP; level++) {
        uint64_t bit = UINT64_C(1) << (value & 63);
        value >>= 6;
        uint64_t at = probe(bitmap, space1, key_of(level, value));
        uint64_t old = node_word(&bitmap->nodes[at]);
        TN_ASSERT((old & bit) != 0);
        if (old == bit) {
            empty_at(bitmap, at);
            bitmap->count--;
        } else {
            node_word_set(&bitmap->nodes[at], old ^ bit);
        }
        last = last || (level == 0 && old == bit);
        bool parent_changes = bitmap->kind == TN_BITMAP_FULL ? old == ALL_ONES : old == bit;
        if (!parent_changes) {
            break;
        }
    }
    return last;
}

/* The children of a word that lead to a findable value. */
static inline uint64_t candidates(const struct tn_bitmap *bitmap, uint32_t space1, uint32_t level,
                                  uint64_t prefix) {
    uint64_t word = word_at(bitmap, space1, key_of(level, prefix));
    return bitmap->kind == TN_BITMAP_FULL ? ~word : word;
}

/* From child number `index` of the given level (counted over the whole space), which has a
 * candidate, down to its lowest value. */
static uint64_t descend(const struct tn_bitmap *bitmap, uint32_t space1, uint32_t level,
                        uint64_t index) {
    while (level > 0) {
        level--;
        uint64_t found = candidates(bitmap, space1, level, index);
        TN_ASSERT(found != 0);
        index = index << 6 | (uint64_t)__builtin_ctzll(found);
    }
    return index;
}

bool tn_bitmap_next(const struct tn_bitmap *bitmap, uint32_t space, uint64_t from, uint64_t to,
                    uint64_t *ret_value) {
    uint32_t space1 = space + 1;
    uint64_t index = from;
    uint64_t mask = ALL_ONES << (from & 63);
    for (uint32_t level = 0; level <= LEVEL_TOP; level++) {
        uint64_t found = candidates(bitmap, space1, level, index >> 6) & mask;
        if (found != 0) {
            index = (index & ~UINT64_C(63)) | (uint64_t)__builtin_ctzll(found);
            if (index << (6 * level) > to) {
                return false;
            }
            uint64_t value = descend(bitmap, space1, level, index);
            if (value > to) {
                return false;
            }
            *ret_value = value;
            return true;
        }
        index >>= 6;
        if (level < LEVEL_TOP && index >= to >> (6 * (level + 1))) {
            /* `to` lies in the word just seen to be without candidates. At level 10 this leaves
             * index < 15, so the 48 bits that stand for no value are never the lowest candidate:
             * FULL has index + 1 (no 2^60 values are set), ANY never sets them. */
            return false;
        }
        /* From here on only siblings to the right, whole, so never partly before `from`. */
        mask = ~UINT64_C(1) << (index & 63);
    }
    return false;
}

void tn_bitmap_prefetch(const struct tn_bitmap *bitmap, uint32_t space, uint64_t value) {
    const struct tn_bitmap_node *node =
        &bitmap->nodes[home_of(bitmap, space + 1, key_of(0, value >> 6))];
    __builtin_prefetch(node);
    __asm__ volatile("" : : "r"(node)); /* otherwise gcc finds no effect here and drops the call */
}
