/* Which values of a range are not free, in order.
 *
 * The bitmap `taken` finds free values whatever the occupancy, but not taken ones: a sparse range of
 * 2^48 values has no summary that leads from one to the next. So the words of the bitmap that are not
 * zero are also kept in an ordered index, a tree a pool: (word, 0). A dense pool changes it once in 64
 * values, a scattered one with each.
 *
 * A pool that gives and takes back the only value of a word would insert and remove it each time. So
 * the word that became zero last stays in the tree; the one before it goes.
 *
 * Invariant: a pool's tree has exactly its words that are not zero, and its idle word. */
#include "kernel/used.h"
#include "kernel/state.h"

void kernel_used_set(struct kernel *k, uint32_t pool, uint64_t value) {
    TN_ASSERT(pool < k->tables[TABLE_POOL].used);
    if (!tn_bitmap_set(&k->taken, pool, value)) {
        return;
    }
    uint64_t word = value >> 6;
    if (k->word_idle[pool] == word + 1) {
        k->word_idle[pool] = 0;
    } else {
        tn_timer_insert(&k->words, &k->word_roots[pool], word, 0);
    }
}

void kernel_used_clear(struct kernel *k, uint32_t pool, uint64_t value) {
    if (!tn_bitmap_clear(&k->taken, pool, value)) {
        return;
    }
    uint64_t idle = k->word_idle[pool];
    if (idle != 0) {
        tn_timer_remove(&k->words, &k->word_roots[pool], idle - 1, 0);
    }
    k->word_idle[pool] = (value >> 6) + 1;
}

bool kernel_used_next(const struct kernel *k, uint32_t pool, uint64_t from, uint64_t to,
                      uint64_t *ret_value) {
    uint64_t word = from >> 6;
    uint32_t ref;
    uint64_t bits = tn_bitmap_word(&k->taken, pool, from) & (UINT64_MAX << (from & 63));
    while (bits == 0) {
        if (!tn_timer_after(&k->words, &k->word_roots[pool], word, 0, &word, &ref) ||
            word > to >> 6) {
            return false;
        }
        bits = tn_bitmap_word(&k->taken, pool, word << 6);
    }
    *ret_value = word << 6 | (uint64_t)__builtin_ctzll(bits);
    TN_ASSERT(*ret_value >= from);
    return *ret_value <= to;
}

static bool pool_check(const struct kernel *k, uint32_t pool, uint64_t *entries) {
    const struct tn_timer_root *root = &k->word_roots[pool];
    uint64_t idle = k->word_idle[pool];
    uint64_t word;
    uint32_t ref;
    if (!tn_timer_check(&k->words, root) ||
        (idle != 0 && !tn_timer_has(&k->words, root, idle - 1, 0))) {
        return false;
    }
    for (bool more = tn_timer_first(&k->words, root, &word, &ref); more;
         more = tn_timer_after(&k->words, root, word, ref, &word, &ref)) {
        bool empty = tn_bitmap_word(&k->taken, pool, word << 6) == 0;
        if (empty != (idle == word + 1)) {
            return false;
        }
        *entries += !empty;
    }
    return true;
}

/* Words of the bitmap that no tree has are found by their number: its nodes of the lowest level. */
bool kernel_used_check(const struct kernel *k) {
    uint64_t entries = 0, words = 0;
    for (uint32_t i = 0; i < k->tables[TABLE_POOL].used; i++) {
        if (!pool_check(k, i, &entries)) {
            return false;
        }
    }
    for (uint32_t i = 0; i < k->tables[TABLE_MEMBER].used; i++) {
        const struct member *m = member_at(k, i);
        bool owns = m->state != MEMBER_FREE && m->state != MEMBER_ENDED;
        if (owns && kernel_pool_option(k, m->pool, KERNEL_OPTION_KIND) == KERNEL_RANGE) {
            uint64_t bits = tn_bitmap_word(&k->taken, m->pool, m->value);
            words += (uint64_t)__builtin_ctzll(bits) == (m->value & 63);
        }
    }
    return entries == words;
}
