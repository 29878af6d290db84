/* A timer index: a forest of B+ trees of (when, ref) in one bounded memory.
 *
 * Each root orders its entries by time, ties by reference, so the order is a property of the
 * entries, not of history: a rebuilt index behaves the same. Every operation is O(log n) in the
 * worst case, with no cascade that could hold up one command. References are the owner's.
 *
 * Renewals are the owner's trick: a renewed object keeps its entry, whose time is then a lower
 * bound; when the entry comes due, the owner re-inserts it at the true time. So a touch costs
 * nothing here.
 *
 * Nodes are 512 bytes; all but roots are at least one third full, which bounds their number. */
#ifndef TN_BASE_TIMER_H
#define TN_BASE_TIMER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct tn_timer_node;

struct tn_timer_index {
    struct tn_timer_node *nodes;
    uint32_t capacity;
    uint32_t used;
    uint32_t free_head; /* index + 1 */
    uint32_t live;
};

/* One tree; zeroed = empty. Owned by the caller. */
struct tn_timer_root {
    uint32_t node1; /* root node + 1; 0 = empty */
    uint32_t depth; /* levels above the leaves */
    uint32_t count; /* entries */
};

/* Memory for at most `entries` entries spread over at most `roots` roots. */
size_t tn_timer_bytes(uint32_t entries, uint32_t roots);
void tn_timer_init(struct tn_timer_index *index, void *memory, uint32_t entries, uint32_t roots);

/* (when, ref) is not in the tree. */
void tn_timer_insert(struct tn_timer_index *index, struct tn_timer_root *root, uint64_t when,
                     uint32_t ref);
/* (when, ref) is in the tree. */
void tn_timer_remove(struct tn_timer_index *index, struct tn_timer_root *root, uint64_t when,
                     uint32_t ref);

/* Hints the caches that this entry will be looked for. Follows the inner nodes, which are few. */
void tn_timer_prefetch(const struct tn_timer_index *index, const struct tn_timer_root *root,
                       uint64_t when, uint32_t ref);

bool tn_timer_has(const struct tn_timer_index *index, const struct tn_timer_root *root,
                  uint64_t when, uint32_t ref);

/* The first entry, if there is one. */
bool tn_timer_first(const struct tn_timer_index *index, const struct tn_timer_root *root,
                    uint64_t *ret_when, uint32_t *ret_ref);

/* The first entry that sorts after (when, ref), if there is one. */
bool tn_timer_after(const struct tn_timer_index *index, const struct tn_timer_root *root,
                    uint64_t when, uint32_t ref, uint64_t *ret_when, uint32_t *ret_ref);

/* Whether the tree is well-formed: order, fill, depth and count. Reads all of it; for tests. */
bool tn_timer_check(const struct tn_timer_index *index, const struct tn_timer_root *root);

#endif
