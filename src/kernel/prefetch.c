/* Cache prefetching. It changes no state; a wrong guess costs a few instructions.
 *
 * A command on a lease follows: id -> map entry -> lease -> member and neighbors in the holder's
 * list (and then the value's place in map and bitmap, which lease.c prefetches itself). Each arrow
 * is a cache miss when there are millions of leases. The walks of different commands are
 * independent, so the misses of the next commands overlap. Every read below is of memory that an
 * earlier stage has fetched, or is bounded by its table.
 *
 * Measured with bench/kernel.c, nanoseconds a command with all three stages, without the last one, with the
 * first alone, and without any:
 *                       2,000 leases            64,000 leases           1 million leases
 *     touch             94   91   95  113       116  113  236  348      189  178  302  465
 *     alloc + release  486  543  509  562       764  849  878 1005     2004 2183 2263 2316
 * Only commands that free values have a last stage. */
#include "kernel/prefetch.h"
#include "kernel/state.h"

static const void *record_of(const struct tn_table *table, uint32_t index) {
    return index < table->used ? table->base + (size_t)index * table->record_bytes : NULL;
}

static void fetch_record(const struct tn_table *table, uint32_t index) {
    const uint8_t *record = record_of(table, index);
    if (record != NULL) {
        __builtin_prefetch(record);
        __builtin_prefetch(record + table->record_bytes - 1);
        /* gcc takes a function that only prefetches for one without effect, and drops its calls. */
        __asm__ volatile("" : : "r"(record));
    }
}

/* The lease that the command names, if the map's home entry says so. */
static uint32_t guess_lease(const struct kernel *k, uint64_t lsn) {
    uint32_t tag = (uint32_t)(kernel_index_lease_hash(k, lsn) >> 32);
    uint32_t at = tn_map_home(&k->leases, tag);
    for (unsigned i = 0; i < 4; i++, at = tn_map_next(&k->leases, at)) {
        if (k->leases.entries[at].tag == tag) {
            return k->leases.entries[at].ref1 - 1;
        }
    }
    return TN_NONE;
}

static void fetch_neighbours(const struct kernel *k, uint32_t lease) {
    const struct lease *l = record_of(&k->tables[TABLE_LEASE], lease);
    if (l != NULL) {
        fetch_record(&k->tables[TABLE_MEMBER], l->first_member);
        fetch_record(&k->tables[TABLE_LEASE], l->holder_prev);
        fetch_record(&k->tables[TABLE_LEASE], l->holder_next);
        kernel_clock_lease_prefetch(k, lease);
        kernel_lists_prefetch(k, lease);
    }
}

/* ---- passes over whole tables ---- */

#define PASS_AHEAD 24u

void kernel_prefetch_pass_lease(const struct kernel *k, uint32_t lease) {
    const struct lease *l = record_of(&k->tables[TABLE_LEASE], lease + PASS_AHEAD);
    if (l != NULL) {
        tn_map_prefetch(&k->leases, kernel_index_lease_hash(k, l->lsn));
    }
}

void kernel_prefetch_pass_member(const struct kernel *k, uint32_t member) {
    const struct member *m = record_of(&k->tables[TABLE_MEMBER], member + PASS_AHEAD);
    if (m != NULL) {
        tn_map_prefetch(&k->values, kernel_index_value_hash(k, m->pool, m->value));
        tn_bitmap_prefetch(&k->taken, m->pool, m->value);
    }
}

/* ---- commands ---- */

/* What a verb will touch. */
enum touches { TOUCHES_NOTHING, TOUCHES_HOLDER, TOUCHES_LEASE, TOUCHES_VALUES };

static const uint8_t touches[KERNEL_VERB_COUNT] = {
    [KERNEL_VERB_ALLOC] = TOUCHES_HOLDER,   [KERNEL_VERB_RESERVE] = TOUCHES_HOLDER,
    [KERNEL_VERB_ACTIVATE] = TOUCHES_LEASE, [KERNEL_VERB_TOUCH] = TOUCHES_LEASE,
    [KERNEL_VERB_REVOKE] = TOUCHES_LEASE,   [KERNEL_VERB_RELEASE] = TOUCHES_VALUES,
    [KERNEL_VERB_ACK] = TOUCHES_VALUES,     [KERNEL_VERB_RECLAIM] = TOUCHES_VALUES,
    [KERNEL_VERB_IMPORT] = TOUCHES_HOLDER,
};

void kernel_prefetch(const struct kernel *k, const struct kernel_command *command, uint64_t lsn,
                     unsigned stage) {
    TN_ASSERT((unsigned)command->verb < KERNEL_VERB_COUNT && stage < KERNEL_PREFETCH_STAGES);
    uint8_t what = touches[command->verb];
    if (what == TOUCHES_NOTHING || (stage > 1 && what != TOUCHES_VALUES)) {
        return;
    }
    if (what == TOUCHES_HOLDER) {
        if (stage == 0) { /* a new lease: its place in the map, and its holder's */
            tn_map_prefetch(&k->leases, kernel_index_lease_hash(k, lsn));
            tn_map_prefetch(&k->names, kernel_index_text_hash(k, command->holder));
        }
        return;
    }
    if (stage == 0) {
        tn_map_prefetch(&k->leases, kernel_index_lease_hash(k, command->lease.lsn));
        return;
    }
    uint32_t lease = guess_lease(k, command->lease.lsn);
    if (stage == 1) {
        fetch_record(&k->tables[TABLE_LEASE], lease);
    } else {
        fetch_neighbours(k, lease);
    }
}
