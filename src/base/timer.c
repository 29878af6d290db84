/* B+ trees of (when, ref) in 512-byte nodes.
 *
 * A leaf holds up to 42 entries, an inner node up to 31 children. Both keep their keys in sorted
 * arrays, times apart from references so that nothing is padded. An inner node has a key for every
 * child, the first included; this costs half a child of fan-out and makes all moves between nodes
 * the same for leaves and inner nodes.
 *
 * Invariants:
 *   - The key of a child is a lower bound of its entries and above all entries of the child before.
 *     An inner node's own first key equals its key in its parent; on the left edge it is (0, 0).
 *   - All nodes but roots have at least LEAF_MIN entries or INNER_MIN children, a third of what
 *     they could have. A root that is a leaf has at least 1 entry, another at least 2 children.
 *   - All leaves of a tree have the same depth.
 *
 * Memory bound. Let n entries be spread over r roots. Non-root leaves have at least LEAF_MIN
 * entries: there are at most n / LEAF_MIN. Non-root nodes of the next level have at least INNER_MIN
 * non-root children: at most that / INNER_MIN, and so on upwards. Root nodes: one for each tree
 * that is not empty, at most min(r, n). Inserting only takes nodes and removing only frees them, so
 * the bound, which holds between operations, holds within them as well.
 *
 * Depth bound. A tree of depth d >= 1 has at least 2 * LEAF_MIN * INNER_MIN^(d-1) entries, which
 * passes 2^32 at d = 9; so d <= 8.
 *
 * Time. An operation walks one path and changes at most one pair of neighbours a level. */
#include "base/timer.h"

#include <string.h>

#include "base/assert.h"

#define LEAF_MAX 42u
#define LEAF_MIN 14u
#define INNER_MAX 31u
#define INNER_MIN 11u
#define DEPTH_MAX 8u

__extension__ typedef unsigned __int128 uint128;

struct tn_timer_node {
    uint32_t next_free; /* index + 1 while the node is free */
    uint16_t level;     /* 0 = leaf */
    uint16_t count;     /* entries or children */
    union {
        struct {
            uint64_t when[LEAF_MAX];
            uint32_t ref[LEAF_MAX];
        } leaf;
        struct {
            uint64_t when[INNER_MAX];
            uint32_t ref[INNER_MAX];
            uint32_t child[INNER_MAX];
        } inner;
    };
};

_Static_assert(sizeof(struct tn_timer_node) == 512, "a node is eight cache lines");
/* What is left of an overflowing node when the least is split off must be enough as well, and two
 * neighbours too many to merge must have enough for both. */
_Static_assert(LEAF_MAX + 1 >= 2 * LEAF_MIN && INNER_MAX + 1 >= 2 * INNER_MIN, "splits are legal");

/* One element of a node: an entry, or a child and its key. */
struct item {
    uint64_t when;
    uint32_t ref;
    uint32_t child; /* node index; not used in leaves */
};

/* The nodes from the root (at [depth]) to a leaf (at [0]). */
struct path {
    struct {
        uint32_t node;
        uint32_t slot;   /* the child on the path; in the leaf, the number of items <= the key */
        bool right_edge; /* no node of this level lies to the right */
    } at[DEPTH_MAX + 1];
};

static uint64_t nodes_max(uint32_t entries, uint32_t roots) {
    uint64_t total = entries < roots ? entries : roots;
    for (uint64_t level = entries / LEAF_MIN; level > 0; level /= INNER_MIN) {
        total += level;
    }
    return total;
}

size_t tn_timer_bytes(uint32_t entries, uint32_t roots) {
    return (size_t)nodes_max(entries, roots) * sizeof(struct tn_timer_node);
}

void tn_timer_init(struct tn_timer_index *index, void *memory, uint32_t entries, uint32_t roots) {
    uint64_t capacity = nodes_max(entries, roots);
    TN_ASSERT(capacity < UINT32_MAX);
    *index = (struct tn_timer_index){.nodes = memory, .capacity = (uint32_t)capacity};
}

/* --- Nodes ------------------------------------------------------------------------------------ */

static inline struct tn_timer_node *node_at(const struct tn_timer_index *index, uint32_t number) {
    TN_ASSERT(number < index->used);
    return &index->nodes[number];
}

static uint32_t node_take(struct tn_timer_index *index, uint32_t level) {
    uint32_t number;
    if (index->free_head != 0) {
        number = index->free_head - 1;
        index->free_head = node_at(index, number)->next_free;
    } else {
        TN_ASSERT(index->used < index->capacity);
        number = index->used++;
    }
    index->live++;
    struct tn_timer_node *node = node_at(index, number);
    node->next_free = 0;
    node->level = (uint16_t)level;
    node->count = 0;
    return number;
}

static void node_give(struct tn_timer_index *index, uint32_t number) {
    node_at(index, number)->next_free = index->free_head;
    index->free_head = number + 1;
    index->live--;
}

static inline uint32_t node_max(const struct tn_timer_node *node) {
    return node->level == 0 ? LEAF_MAX : INNER_MAX;
}

static inline uint32_t node_min(const struct tn_timer_node *node) {
    return node->level == 0 ? LEAF_MIN : INNER_MIN;
}

static inline uint64_t *whens(struct tn_timer_node *node) {
    return node->level == 0 ? node->leaf.when : node->inner.when;
}

static inline uint32_t *refs(struct tn_timer_node *node) {
    return node->level == 0 ? node->leaf.ref : node->inner.ref;
}

static inline uint128 key_of(uint64_t when, uint32_t ref) {
    return (uint128)when << 32 | ref;
}

/* How many keys of the node are not above the given one. The halving is a branch on purpose: most
 * entries go to the end or come from the front, which is predicted and lets the loads of the next
 * node start early; where it is mispredicted, memory is what one waits for anyway. */
static inline uint32_t rank_in(const uint64_t *when, const uint32_t *ref, uint32_t count,
                               uint64_t key_when, uint32_t key_ref) {
    uint32_t low = 0, high = count;
    while (low < high) {
        uint32_t middle = (low + high) / 2;
        if (TN_LIKELY(when[middle] < key_when ||
                      (when[middle] == key_when && ref[middle] <= key_ref))) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

/* Ends first: deadlines mostly come last and go first. */
static inline uint32_t rank_ends(const uint64_t *when_of, const uint32_t *ref_of, uint32_t count,
                                 uint64_t when, uint32_t ref) {
    if (count == 0 || when < when_of[0] || (when == when_of[0] && ref < ref_of[0])) {
        return 0;
    }
    if (when > when_of[count - 1] || (when == when_of[count - 1] && ref >= ref_of[count - 1])) {
        return count;
    }
    return rank_in(when_of, ref_of, count, when, ref);
}

static inline uint32_t leaf_rank(const struct tn_timer_node *node, uint64_t when, uint32_t ref) {
    return rank_ends(node->leaf.when, node->leaf.ref, node->count, when, ref);
}

/* The child that has the key if any does. There always is one: the first key is a lower bound of
 * all. */
static inline uint32_t inner_slot(const struct tn_timer_node *node, uint64_t when, uint32_t ref) {
    uint32_t rank = rank_ends(node->inner.when, node->inner.ref, node->count, when, ref);
    TN_ASSERT(rank > 0);
    return rank - 1;
}

/* Copies n items within a node or between nodes of the same level; ranges may overlap. */
static void items_move(struct tn_timer_node *to, uint32_t at, struct tn_timer_node *from,
                       uint32_t first, uint32_t n) {
    TN_ASSERT(to->level == from->level);
    TN_ASSERT(at + n <= node_max(to) && first + n <= node_max(from));
    memmove(whens(to) + at, whens(from) + first, n * sizeof(uint64_t));
    memmove(refs(to) + at, refs(from) + first, n * sizeof(uint32_t));
    if (to->level > 0) {
        memmove(to->inner.child + at, from->inner.child + first, n * sizeof(uint32_t));
    }
}

static void item_insert(struct tn_timer_node *node, uint32_t at, struct item item) {
    TN_ASSERT(node->count < node_max(node) && at <= node->count);
    items_move(node, at + 1, node, at, node->count - at);
    whens(node)[at] = item.when;
    refs(node)[at] = item.ref;
    if (node->level > 0) {
        node->inner.child[at] = item.child;
    }
    node->count++;
}

static void item_remove(struct tn_timer_node *node, uint32_t at) {
    TN_ASSERT(at < node->count);
    items_move(node, at, node, at + 1, node->count - at - 1);
    node->count--;
}

/* Moves the first n items of the right one of two neighbours to the left one's end. */
static void shift_left(struct tn_timer_node *left, struct tn_timer_node *right, uint32_t n) {
    items_move(left, left->count, right, 0, n);
    items_move(right, 0, right, n, right->count - n);
    left->count = (uint16_t)(left->count + n);
    right->count = (uint16_t)(right->count - n);
}

/* Moves the last n items of the left one of two neighbours to the right one's front. */
static void shift_right(struct tn_timer_node *left, struct tn_timer_node *right, uint32_t n) {
    items_move(right, n, right, 0, right->count);
    items_move(right, 0, left, left->count - n, n);
    left->count = (uint16_t)(left->count - n);
    right->count = (uint16_t)(right->count + n);
}

/* After items went across the border between two children, the right one begins elsewhere. */
static void border_renew(struct tn_timer_node *parent, uint32_t slot, struct tn_timer_node *right) {
    TN_ASSERT(slot > 0 && slot < parent->count && right->count > 0);
    parent->inner.when[slot] = whens(right)[0];
    parent->inner.ref[slot] = refs(right)[0];
}

/* --- Changing trees --------------------------------------------------------------------------- */

static void path_find(const struct tn_timer_index *index, const struct tn_timer_root *root,
                      uint64_t when, uint32_t ref, struct path *path) {
    TN_ASSERT(root->node1 != 0 && root->depth <= DEPTH_MAX);
    uint32_t number = root->node1 - 1;
    bool right_edge = true;
    for (uint32_t level = root->depth; level > 0; level--) {
        const struct tn_timer_node *node = node_at(index, number);
        TN_ASSERT(node->level == level);
        uint32_t slot = inner_slot(node, when, ref);
        path->at[level].node = number;
        path->at[level].slot = slot;
        path->at[level].right_edge = right_edge;
        right_edge = right_edge && slot + 1 == node->count;
        number = node->inner.child[slot];
    }
    path->at[0].node = number;
    path->at[0].slot = leaf_rank(node_at(index, number), when, ref);
    path->at[0].right_edge = right_edge;
}

/* Splits a full node into two and puts the item in its place in one of them; returns the new right
 * neighbour for the parent. When the tree grows at its right end the left node keeps all that the
 * right one does not need, because nothing more may come to it; otherwise both get half. */
static struct item split_insert(struct tn_timer_index *index, uint32_t number, uint32_t at,
                                struct item item, bool appending) {
    struct tn_timer_node *left = node_at(index, number);
    uint32_t fresh = node_take(index, left->level);
    struct tn_timer_node *right = node_at(index, fresh);
    uint32_t max = node_max(left);
    uint32_t keep = appending ? max + 1 - node_min(left) : (max + 1) / 2;
    if (at < keep) {
        shift_right(left, right, max - (keep - 1));
        item_insert(left, at, item);
    } else {
        shift_right(left, right, max - keep);
        item_insert(right, at - keep, item);
    }
    TN_ASSERT(left->count >= node_min(left) && right->count >= node_min(right));
    return (struct item){.when = whens(right)[0], .ref = refs(right)[0], .child = fresh};
}

/* Makes room in a full node at the right edge by filling up its left neighbour. Thus a tree built
 * in order has full nodes, although no split may leave the right one with less than a third.
 * False if there is no such neighbour or it is full, too. */
static bool spill_left(struct tn_timer_index *index, const struct path *path, uint32_t level,
                       uint32_t *at) {
    uint32_t slot = path->at[level + 1].slot;
    if (slot == 0) {
        return false;
    }
    struct tn_timer_node *parent = node_at(index, path->at[level + 1].node);
    struct tn_timer_node *left = node_at(index, parent->inner.child[slot - 1]);
    struct tn_timer_node *node = node_at(index, path->at[level].node);
    uint32_t n = node_max(left) - left->count;
    if (n == 0) {
        return false;
    }
    shift_left(left, node, n);
    border_renew(parent, slot, node);
    *at -= n;
    return true;
}

static void root_grow(struct tn_timer_index *index, struct tn_timer_root *root, struct item right) {
    TN_ASSERT(root->depth < DEPTH_MAX);
    uint32_t number = node_take(index, root->depth + 1);
    struct tn_timer_node *node = node_at(index, number);
    item_insert(node, 0, (struct item){.child = root->node1 - 1});
    item_insert(node, 1, right);
    root->node1 = number + 1;
    root->depth++;
}

void tn_timer_prefetch(const struct tn_timer_index *index, const struct tn_timer_root *root,
                       uint64_t when, uint32_t ref) {
    if (root->node1 == 0) {
        return;
    }
    uint32_t number = root->node1 - 1;
    for (uint32_t level = root->depth; level > 0; level--) {
        const struct tn_timer_node *node = node_at(index, number);
        uint32_t rank = rank_ends(node->inner.when, node->inner.ref, node->count, when, ref);
        number = node->inner.child[rank == 0 ? 0 : rank - 1];
    }
    /* All of it: the entry may be anywhere in the leaf, and the entries behind it are moved. */
    const uint8_t *leaf = (const uint8_t *)node_at(index, number);
    for (unsigned line = 0; line < sizeof(struct tn_timer_node); line += 64) {
        __builtin_prefetch(leaf + line, 1);
    }
    __asm__ volatile("" : : "r"(leaf)); /* otherwise gcc finds no effect here and drops the call */
}

void tn_timer_insert(struct tn_timer_index *index, struct tn_timer_root *root, uint64_t when,
                     uint32_t ref) {
    if (root->node1 == 0) {
        TN_ASSERT(root->count == 0 && root->depth == 0);
        root->node1 = node_take(index, 0) + 1;
    }
    struct path path;
    path_find(index, root, when, ref, &path);
    struct item item = {.when = when, .ref = ref};
    uint32_t at = path.at[0].slot;
    const struct tn_timer_node *leaf = node_at(index, path.at[0].node);
    TN_ASSERT(at == 0 || leaf->leaf.when[at - 1] != when || leaf->leaf.ref[at - 1] != ref);
    root->count++;
    for (uint32_t level = 0;; level++) {
        struct tn_timer_node *node = node_at(index, path.at[level].node);
        bool full = node->count == node_max(node);
        bool appending = path.at[level].right_edge && at == node->count;
        if (!full || (appending && level < root->depth && spill_left(index, &path, level, &at))) {
            item_insert(node, at, item);
            return;
        }
        item = split_insert(index, path.at[level].node, at, item, appending);
        if (level == root->depth) {
            root_grow(index, root, item);
            return;
        }
        at = path.at[level + 1].slot + 1;
    }
}

/* Mends a node that has become too small, with the neighbour on its left or else its right. True if
 * they became one, so that the parent has lost a child. */
static bool refill(struct tn_timer_index *index, const struct path *path, uint32_t level) {
    struct tn_timer_node *parent = node_at(index, path->at[level + 1].node);
    uint32_t slot = path->at[level + 1].slot;
    uint32_t right_slot = slot > 0 ? slot : 1;
    TN_ASSERT(right_slot < parent->count);
    uint32_t right_number = parent->inner.child[right_slot];
    struct tn_timer_node *left = node_at(index, parent->inner.child[right_slot - 1]);
    struct tn_timer_node *right = node_at(index, right_number);
    uint32_t total = (uint32_t)left->count + right->count;
    if (total <= node_max(left)) {
        shift_left(left, right, right->count);
        node_give(index, right_number);
        item_remove(parent, right_slot);
        return true;
    }
    uint32_t half = total / 2;
    if (left->count > half) {
        shift_right(left, right, left->count - half);
    } else {
        shift_left(left, right, half - left->count);
    }
    border_renew(parent, right_slot, right);
    return false;
}

/* A root may be as small as it likes, but an inner one with a single child is not needed. */
static void root_shrink(struct tn_timer_index *index, struct tn_timer_root *root) {
    struct tn_timer_node *node = node_at(index, root->node1 - 1);
    uint32_t number = root->node1 - 1;
    if (node->level == 0 && node->count == 0) {
        root->node1 = 0;
        node_give(index, number);
    } else if (node->level > 0 && node->count == 1) {
        root->node1 = node->inner.child[0] + 1;
        root->depth--;
        node_give(index, number);
    }
}

void tn_timer_remove(struct tn_timer_index *index, struct tn_timer_root *root, uint64_t when,
                     uint32_t ref) {
    struct path path;
    path_find(index, root, when, ref, &path);
    struct tn_timer_node *leaf = node_at(index, path.at[0].node);
    uint32_t rank = path.at[0].slot;
    TN_ASSERT(rank > 0 && leaf->leaf.when[rank - 1] == when && leaf->leaf.ref[rank - 1] == ref);
    item_remove(leaf, rank - 1);
    root->count--;
    uint32_t level = 0;
    while (level < root->depth) {
        const struct tn_timer_node *node = node_at(index, path.at[level].node);
        if (node->count >= node_min(node) || !refill(index, &path, level)) {
            return;
        }
        level++;
    }
    root_shrink(index, root);
}

/* --- Looking ---------------------------------------------------------------------------------- */

bool tn_timer_has(const struct tn_timer_index *index, const struct tn_timer_root *root,
                  uint64_t when, uint32_t ref) {
    if (root->node1 == 0) {
        return false;
    }
    struct path path;
    path_find(index, root, when, ref, &path);
    const struct tn_timer_node *leaf = node_at(index, path.at[0].node);
    uint32_t rank = path.at[0].slot;
    return rank > 0 && leaf->leaf.when[rank - 1] == when && leaf->leaf.ref[rank - 1] == ref;
}

static void first_below(const struct tn_timer_index *index, uint32_t number, uint64_t *ret_when,
                        uint32_t *ret_ref) {
    const struct tn_timer_node *node = node_at(index, number);
    while (node->level > 0) {
        node = node_at(index, node->inner.child[0]);
    }
    TN_ASSERT(node->count > 0);
    *ret_when = node->leaf.when[0];
    *ret_ref = node->leaf.ref[0];
}

bool tn_timer_first(const struct tn_timer_index *index, const struct tn_timer_root *root,
                    uint64_t *ret_when, uint32_t *ret_ref) {
    if (root->node1 == 0) {
        return false;
    }
    first_below(index, root->node1 - 1, ret_when, ret_ref);
    return true;
}

bool tn_timer_after(const struct tn_timer_index *index, const struct tn_timer_root *root,
                    uint64_t when, uint32_t ref, uint64_t *ret_when, uint32_t *ret_ref) {
    if (root->node1 == 0) {
        return false;
    }
    struct path path;
    path_find(index, root, when, ref, &path);
    const struct tn_timer_node *leaf = node_at(index, path.at[0].node);
    uint32_t rank = path.at[0].slot;
    if (rank < leaf->count) {
        *ret_when = leaf->leaf.when[rank];
        *ret_ref = leaf->leaf.ref[rank];
        return true;
    }
    /* All of this leaf is before: the next entry is the first under the nearest right sibling. */
    for (uint32_t level = 1; level <= root->depth; level++) {
        const struct tn_timer_node *node = node_at(index, path.at[level].node);
        uint32_t next = path.at[level].slot + 1;
        if (next < node->count) {
            first_below(index, node->inner.child[next], ret_when, ret_ref);
            return true;
        }
    }
    return false;
}

/* --- Checking --------------------------------------------------------------------------------- */

/* Checks one node whose keys must lie in low <= key < high, without looking at its children. */
static bool node_check(struct tn_timer_node *node, uint32_t level, bool is_root, uint128 low,
                       uint128 high) {
    uint32_t min = !is_root ? node_min(node) : level > 0 ? 2 : 1;
    if (node->level != level || node->count < min || node->count > node_max(node)) {
        return false;
    }
    if (level > 0 && key_of(node->inner.when[0], node->inner.ref[0]) != low) {
        return false;
    }
    for (uint32_t i = 0; i < node->count; i++) {
        uint128 key = key_of(whens(node)[i], refs(node)[i]);
        if (key < low || key >= high) {
            return false;
        }
        low = key + 1;
    }
    return true;
}

/* A node on the path of a walk through a whole tree. */
struct frame {
    const struct tn_timer_node *node;
    uint32_t slot; /* the next child to visit */
    uint128 high;  /* all keys of the node are below */
};

/* Puts the next child of the frame at `level` into the frame below, checked. */
static bool frame_descend(const struct tn_timer_index *index, struct frame *frames,
                          uint32_t level) {
    struct frame *frame = &frames[level];
    const struct tn_timer_node *node = frame->node;
    uint32_t slot = frame->slot++;
    uint128 low = key_of(node->inner.when[slot], node->inner.ref[slot]);
    uint128 high = frame->high;
    if (frame->slot < node->count) {
        high = key_of(node->inner.when[frame->slot], node->inner.ref[frame->slot]);
    }
    if (node->inner.child[slot] >= index->used) {
        return false;
    }
    struct tn_timer_node *child = node_at(index, node->inner.child[slot]);
    frames[level - 1] = (struct frame){.node = child, .high = high};
    return node_check(child, level - 1, false, low, high);
}

bool tn_timer_check(const struct tn_timer_index *index, const struct tn_timer_root *root) {
    if (root->node1 == 0) {
        return root->depth == 0 && root->count == 0;
    }
    if (root->depth > DEPTH_MAX || root->node1 > index->used) {
        return false;
    }
    struct frame frames[DEPTH_MAX + 1];
    struct tn_timer_node *top = node_at(index, root->node1 - 1);
    uint32_t level = root->depth;
    frames[level] = (struct frame){.node = top, .high = (uint128)1 << 96};
    if (!node_check(top, level, true, 0, frames[level].high)) {
        return false;
    }
    uint64_t entries = 0;
    while (level <= root->depth) {
        if (level == 0) {
            entries += frames[0].node->count;
            level++;
        } else if (frames[level].slot == frames[level].node->count) {
            level++;
        } else if (frame_descend(index, frames, level)) {
            level--;
        } else {
            return false;
        }
    }
    return entries == root->count;
}
