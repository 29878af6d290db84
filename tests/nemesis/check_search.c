/* The judge that searches (Wing and Gong's search, with Lowe's memory); see check.h.
 *
 * Beginnings and ends of a cell's operations stand in a list, in the order of time. Whatever has begun
 * before the first end may come next. An operation that fits and changes nothing is taken at once:
 * whatever order there is, it can stand first in it. One that fits and changes something is tried, and
 * taken back if it leads nowhere. What is left over and the state it was reached in are remembered, so
 * that no such pair is tried twice. An unknown operation may be dropped when its server is dead.
 *
 * The memory compares hashes of 128 bits: if two different pairs ever had the same, a good history
 * could be refused, never a bad one accepted. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "base/prng.h"
#include "nemesis/cell.h"
#include "nemesis/check.h"
#include "nemesis/order.h"

#define STEPS_MAX 50000000u /* of one cell */

/* ---- The operations of a cell ---- */

struct items {
    struct nm_item *of;
    uint32_t count;
    uint64_t *ids; /* ids of leases, sorted; slot n is ids[n - 1] */
    uint32_t id_count;
    uint32_t holes;
};

static int id_compare(const void *a, const void *b) {
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

static uint32_t slot_of(const struct items *items, uint64_t id) {
    uint64_t *found =
        id == 0 ? NULL : bsearch(&id, items->ids, items->id_count, sizeof id, id_compare);
    return found == NULL ? 0 : (uint32_t)(found - items->ids) + 1;
}

/* Repeats and clashes have no effect of their own; rejections none at all; reads without an answer
 * neither. */
static bool counts(const struct nm_op *op, uint32_t cell) {
    bool unknown = op->outcome == NM_UNKNOWN;
    return op->group == cell && op->repeats == NM_NONE && !op->clash && op->sends > 0 &&
           op->outcome != NM_REJECTED && !(unknown && nm_is_read(op));
}

static void items_ids(const struct nm_history *h, uint32_t cell, struct items *items) {
    uint32_t count = 0;
    for (uint32_t i = 0; i < h->op_count; i++) {
        const struct nm_op *op = &h->ops[i];
        if (!counts(op, cell)) {
            continue;
        }
        items->ids[count] = op->lease;
        count += op->lease != 0;
        items->ids[count] = op->got_lease;
        count += op->outcome == NM_COMMITTED && op->has_lease;
    }
    qsort(items->ids, count, sizeof items->ids[0], id_compare);
    for (uint32_t i = 0; i < count; i++) {
        if (i == 0 || items->ids[i] != items->ids[i - 1]) {
            items->ids[items->id_count++] = items->ids[i];
        }
    }
}

static void items_collect(const struct nm_history *h, uint32_t cell, struct items *items) {
    memset(items, 0, sizeof *items);
    items->of = calloc(h->op_count + 1u, sizeof *items->of);
    items->ids = calloc(2 * h->op_count + 2u, sizeof *items->ids);
    TN_ASSERT(items->of != NULL && items->ids != NULL);
    items_ids(h, cell, items);
    for (uint32_t i = 0; i < h->op_count; i++) {
        const struct nm_op *op = &h->ops[i];
        if (!counts(op, cell)) {
            continue;
        }
        struct nm_item *item = &items->of[items->count++];
        bool unknown = op->outcome == NM_UNKNOWN;
        uint64_t death_ns = h->lives[op->life].end_ns;
        *item = (struct nm_item){.op = op,
                                 .start_ns = op->start_ns,
                                 .end_ns = !unknown       ? op->end_ns
                                           : death_ns > 0 ? death_ns
                                                          : UINT64_MAX,
                                 .slot = slot_of(items, op->lease),
                                 .got = op->has_lease ? slot_of(items, op->got_lease) : 0,
                                 .optional = unknown};
        if (unknown && (op->verb == NM_ALLOC || op->verb == NM_RESERVE)) {
            item->got = items->id_count + ++items->holes;
        }
    }
}

/* ---- The list ---- */

struct node {
    uint64_t ns;
    uint32_t item;
    bool is_end;
    uint32_t before, after; /* in the list */
};

#define HEAD 0u

struct search {
    const struct items *items;
    struct nm_cell cell;
    struct node *nodes;      /* nodes[0] is the head; two for each item */
    uint32_t *begins, *ends; /* by item */
    uint64_t left[2];        /* hash of what has been taken out */
    struct frame *stack;
    uint32_t depth;
    uint64_t *memory; /* pairs of hashes */
    uint64_t memory_count, memory_capacity;
    uint64_t steps;
    uint32_t deepest; /* how far it ever got, and what could not be placed there */
    uint32_t stuck_item;
};

/* What was done: taken with a change, taken without one, or dropped. */
enum frame_kind { FRAME_TRIED, FRAME_FREE, FRAME_DROPPED };

struct frame {
    uint32_t item;
    uint8_t kind;
    struct nm_undo undo;
};

static int node_compare(const void *a, const void *b) {
    const struct node *x = a, *y = b;
    if (x->ns != y->ns) {
        return x->ns < y->ns ? -1 : 1;
    }
    return (int)x->is_end - (int)y->is_end;
}

static void list_make(struct search *s) {
    uint32_t count = 1;
    for (uint32_t i = 0; i < s->items->count; i++) {
        s->nodes[count++] = (struct node){.ns = s->items->of[i].start_ns, .item = i};
        s->nodes[count++] = (struct node){.ns = s->items->of[i].end_ns, .item = i, .is_end = true};
    }
    qsort(s->nodes + 1, count - 1, sizeof s->nodes[0], node_compare);
    for (uint32_t i = 0; i < count; i++) {
        s->nodes[i].before = i > 0 ? i - 1 : count - 1;
        s->nodes[i].after = i + 1 < count ? i + 1 : HEAD;
        if (i > 0) {
            (s->nodes[i].is_end ? s->ends : s->begins)[s->nodes[i].item] = i;
        }
    }
}

static void node_out(struct search *s, uint32_t node) {
    s->nodes[s->nodes[node].before].after = s->nodes[node].after;
    s->nodes[s->nodes[node].after].before = s->nodes[node].before;
}

static void node_in(struct search *s, uint32_t node) {
    s->nodes[s->nodes[node].before].after = node;
    s->nodes[s->nodes[node].after].before = node;
}

static void left_toggle(struct search *s, uint32_t item) {
    struct tn_prng prng;
    tn_prng_seed(&prng, item + 1);
    s->left[0] ^= tn_prng_next(&prng);
    s->left[1] ^= tn_prng_next(&prng);
}

/* ---- Memory ---- */

static bool memory_put(uint64_t *memory, uint64_t capacity, const uint64_t key[2]) {
    uint64_t at = key[0] & (capacity - 1);
    while (memory[2 * at] != 0 || memory[2 * at + 1] != 0) {
        if (memory[2 * at] == key[0] && memory[2 * at + 1] == key[1]) {
            return false;
        }
        at = (at + 1) & (capacity - 1);
    }
    memory[2 * at] = key[0];
    memory[2 * at + 1] = key[1];
    return true;
}

static void memory_grow(struct search *s) {
    uint64_t capacity = s->memory_capacity == 0 ? 4096 : 2 * s->memory_capacity;
    uint64_t *memory = calloc(2 * capacity, sizeof *memory);
    TN_ASSERT(memory != NULL);
    for (uint64_t i = 0; i < s->memory_capacity; i++) {
        if (s->memory[2 * i] != 0 || s->memory[2 * i + 1] != 0) {
            (void)memory_put(memory, capacity, &s->memory[2 * i]);
        }
    }
    free(s->memory);
    s->memory = memory;
    s->memory_capacity = capacity;
}

/* False: it has been here before. */
static bool memory_new(struct search *s) {
    const uint64_t key[2] = {s->left[0] ^ s->cell.hash[0], s->left[1] ^ s->cell.hash[1]};
    if (4 * s->memory_count >= 3 * s->memory_capacity) {
        memory_grow(s);
    }
    bool fresh = memory_put(s->memory, s->memory_capacity, key);
    s->memory_count += fresh;
    return fresh;
}

/* ---- The search ---- */

static void take(struct search *s, uint32_t item, enum frame_kind kind,
                 const struct nm_undo *undo) {
    struct frame *frame = &s->stack[s->depth++];
    frame->item = item;
    frame->kind = (uint8_t)kind;
    if (kind == FRAME_TRIED) {
        frame->undo = *undo;
    }
    node_out(s, s->ends[item]);
    node_out(s, s->begins[item]);
    left_toggle(s, item);
}

static struct frame *take_back(struct search *s) {
    struct frame *frame = &s->stack[--s->depth];
    left_toggle(s, frame->item);
    node_in(s, s->begins[frame->item]);
    node_in(s, s->ends[frame->item]);
    if (frame->kind == FRAME_TRIED) {
        nm_cell_undo(&s->cell, &frame->undo);
    }
    return frame;
}

/* Takes everything that fits now and changes nothing. */
static void take_free(struct search *s) {
    uint32_t at = s->nodes[HEAD].after;
    while (at != HEAD && !s->nodes[at].is_end) {
        struct nm_undo undo;
        uint32_t item = s->nodes[at].item;
        enum nm_fit fit = nm_cell_step(&s->cell, &s->items->of[item], &undo);
        s->steps++;
        if (fit == NM_CHANGED) {
            nm_cell_undo(&s->cell, &undo);
        }
        if (fit == NM_SAME && !s->items->of[item].optional) {
            take(s, item, FRAME_FREE, NULL);
            at = s->nodes[HEAD].after; /* an end that was in the way may be gone */
        } else {
            at = s->nodes[at].after;
        }
    }
}

/* Tries one from `from` on. True: something was taken. False: nothing is left to try here. */
static bool try_next(struct search *s, uint32_t from) {
    for (uint32_t at = from; at != HEAD; at = s->nodes[at].after) {
        struct nm_undo undo;
        uint32_t item = s->nodes[at].item;
        if (s->nodes[at].is_end) {
            if (!s->items->of[item].optional) {
                s->stuck_item = s->depth >= s->deepest ? item : s->stuck_item;
                s->deepest = s->depth >= s->deepest ? s->depth : s->deepest;
                return false;
            }
            take(s, item, FRAME_DROPPED, NULL);
            return true;
        }
        s->steps++;
        if (nm_cell_step(&s->cell, &s->items->of[item], &undo) != NM_CHANGED) {
            continue;
        }
        take(s, item, FRAME_TRIED, &undo);
        if (memory_new(s)) {
            return true;
        }
        (void)take_back(s);
    }
    return false;
}

/* Goes back to the last choice; returns the place from which to continue. HEAD: no choice is
 * left. */
static uint32_t back(struct search *s) {
    while (s->depth > 0) {
        struct frame *frame = take_back(s);
        if (frame->kind == FRAME_TRIED) {
            return s->nodes[s->begins[frame->item]].after;
        }
    }
    return HEAD;
}

/* Whether only operations are left that need not have happened. */
static bool only_optional(const struct search *s) {
    for (uint32_t at = s->nodes[HEAD].after; at != HEAD; at = s->nodes[at].after) {
        if (!s->items->of[s->nodes[at].item].optional) {
            return false;
        }
    }
    return true;
}

static bool search_run(struct search *s) {
    uint32_t from = HEAD;
    for (;;) {
        if (from == HEAD) {
            take_free(s);
            from = s->nodes[HEAD].after;
        }
        if (from == HEAD || only_optional(s)) {
            return true;
        }
        if (s->steps > STEPS_MAX) {
            return false;
        }
        from = try_next(s, from) ? HEAD : back(s);
        if (from == HEAD && s->depth == 0) {
            return false;
        }
    }
}

/* ---- One cell ---- */

static void search_open(struct search *s, const struct items *items) {
    memset(s, 0, sizeof *s);
    s->items = items;
    s->cell.named = items->id_count;
    s->cell.slots = items->id_count + items->holes + 1;
    s->cell.leases = calloc(s->cell.slots, sizeof *s->cell.leases);
    s->nodes = calloc(2 * items->count + 1u, sizeof *s->nodes);
    s->begins = calloc(items->count + 1u, sizeof *s->begins);
    s->ends = calloc(items->count + 1u, sizeof *s->ends);
    s->stack = calloc(items->count + 1u, sizeof *s->stack);
    TN_ASSERT(s->cell.leases != NULL && s->nodes != NULL && s->begins != NULL && s->ends != NULL &&
              s->stack != NULL);
    list_make(s);
}

static void search_close(struct search *s) {
    free(s->cell.leases);
    free(s->nodes);
    free(s->begins);
    free(s->ends);
    free(s->stack);
    free(s->memory);
}

static bool cell_check(const struct nm_history *h, uint32_t cell, struct nm_report *report) {
    struct items items;
    struct search s;
    items_collect(h, cell, &items);
    search_open(&s, &items);
    bool good = search_run(&s);
    if (!good) {
        uint32_t stuck = (uint32_t)(items.of[s.stuck_item].op - h->ops);
        (void)nm_blame(h, report, stuck,
                       "cell %" PRIu32 ": %s after %" PRIu64 " steps; %" PRIu32 " of %" PRIu32
                       " operations could be placed, then not",
                       cell, s.steps > STEPS_MAX ? "given up" : "no order explains the answers",
                       s.steps, s.deepest, items.count);
    }
    report->searched += items.count;
    report->steps += s.steps;
    search_close(&s);
    free(items.of);
    free(items.ids);
    return good;
}

bool nm_check_search(const struct nm_history *h, struct nm_report *report) {
    for (uint32_t cell = 0; cell < NM_CELLS; cell++) {
        if (!cell_check(h, cell, report)) {
            return false;
        }
    }
    return true;
}
