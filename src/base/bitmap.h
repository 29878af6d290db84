/* A sparse tree of 64-way bitmaps over 64-bit values, for many separate spaces in one memory.
 *
 * Level 0 has one bit a value; a word of level n+1 has one bit for each word of level n. Only words
 * that are not zero exist, as entries of one open-addressing table keyed by (space, level, prefix),
 * so an empty space costs nothing and a scattered one costs about one word a value.
 *
 *   TN_BITMAP_FULL  a parent's bit says that the child word is full (all ones). Finds clear bits:
 *                   for ranges, where bits mark what is taken and most of 2^64 is free.
 *                   Words needed: at most values + values/64 + ... (a parent bit needs 64
 *                   values).
 *   TN_BITMAP_ANY   a parent's bit says that the child word is not empty. Finds set bits: for sets,
 *                   where bits mark what is available and most ordinals do not exist.
 *                   Words needed: at most 11 a value.
 *
 * Each operation costs at most 11 levels up and 11 down, whatever the occupancy: no scan, no retry.
 * No allocation; memory is given zero-filled; the table is sized so that it cannot overflow while
 * the caller keeps to its limit of set bits. */
#ifndef TN_BASE_BITMAP_H
#define TN_BASE_BITMAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum tn_bitmap_kind { TN_BITMAP_FULL, TN_BITMAP_ANY };

/* 20 bytes, so that a scattered value costs no more than it must; halves are 32 bits. */
struct tn_bitmap_node {
    uint32_t space1;            /* space + 1; 0 = empty entry */
    uint32_t key_low, key_high; /* level << 58 | value >> 6 * (level + 1) */
    uint32_t word_low, word_high;
};

struct tn_bitmap {
    struct tn_bitmap_node *nodes;
    uint64_t capacity; /* entries */
    uint64_t count;
    /* Words are spread only over the first entries, and over more of them as their number grows, in
     * small steps, as in a map (map.c). Mixed keys from `moved` on have the new home. */
    uint64_t spread, spread_before, moved, step, grow_at;
    uint64_t limit; /* set bits that the memory was sized for */
    uint64_t seed;  /* against crafted values that would share a place; never shows */
    enum tn_bitmap_kind kind;
};

/* Memory for at most `limit` set bits over all spaces together. */
size_t tn_bitmap_bytes(enum tn_bitmap_kind kind, uint64_t limit);
void tn_bitmap_init(struct tn_bitmap *bitmap, enum tn_bitmap_kind kind, void *memory,
                    uint64_t limit, uint64_t seed);

bool tn_bitmap_test(const struct tn_bitmap *bitmap, uint32_t space, uint64_t value);

/* The bit changes: set asserts that it was clear, clear that it was set. True: no other bit of its word
 * (tn_bitmap_word) was, or is, set. */
bool tn_bitmap_set(struct tn_bitmap *bitmap, uint32_t space, uint64_t value);
bool tn_bitmap_clear(struct tn_bitmap *bitmap, uint32_t space, uint64_t value);

/* The lowest findable value (FULL: clear bit, ANY: set bit) in from..to, both included. */
bool tn_bitmap_next(const struct tn_bitmap *bitmap, uint32_t space, uint64_t from, uint64_t to,
                    uint64_t *ret_value);

/* Hints the caches that the value's word will be looked at. */
void tn_bitmap_prefetch(const struct tn_bitmap *bitmap, uint32_t space, uint64_t value);

/* The 64 bits of values (value & ~63) .. (value | 63), zero where nothing is set. */
uint64_t tn_bitmap_word(const struct tn_bitmap *bitmap, uint32_t space, uint64_t value);

#endif
