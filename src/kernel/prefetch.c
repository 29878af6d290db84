/* Cache prefetching. It changes no state; a wrong guess costs a few instructions.
 *
 * A command on a lease follows: id -> map entry -> lease -> member and neighbors in the holder's
 * list (and then the value's place in map and bitmap, which lease.c prefetches itself). Each arrow
 * is a cache miss when there are millions of leases. The walks of different commands are
 * independent, so the misses of the next commands overlap. Every read below is of memory that an
 * earlier stage has fetched, or is bounded by its table. */
#include "kernel/state.h"

#define HEAD_BYTES 8u /* verb, rights, fields, length of the user's name */

/* Where the fields of an encoded command begin; 0 if it is too short to have `need` bytes of them.
 * */
static uint32_t fields_at(struct tn_bytes command, uint32_t need) {
    if (command.len < HEAD_BYTES + 2) {
        return 0;
    }
    uint32_t at = HEAD_BYTES + tn_load16(command.at + HEAD_BYTES - 2);
    if (command.len < at + 2) {
        return 0;
    }
    at += 2 + (uint32_t)tn_load16(command.at + at);
    return command.len < at + need ? 0 : at;
}

/* The lsn of the lease that the command names; 0 if it names none. */
static uint64_t lease_named(struct tn_bytes command) {
    uint32_t at = fields_at(command, 16);
    return at == 0 ? 0 : tn_load64(command.at + at + 8);
}

/* The holder in a command whose fields begin with one. */
static struct tn_bytes holder_named(struct tn_bytes command) {
    uint32_t at = fields_at(command, 2);
    uint32_t len = at == 0 ? 0 : tn_load16(command.at + at);
    if (command.len < at + 2 + len) {
        return (struct tn_bytes){0};
    }
    return tn_bytes_of(command.at + at + 2, len);
}

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
    }
}

/* What a verb will touch. */
enum touches { TOUCHES_NOTHING, TOUCHES_HOLDER, TOUCHES_LEASE, TOUCHES_VALUES };

static const uint8_t touches[KERNEL_VERB_COUNT] = {
    [KERNEL_VERB_ALLOC] = TOUCHES_HOLDER,   [KERNEL_VERB_RESERVE] = TOUCHES_HOLDER,
    [KERNEL_VERB_ACTIVATE] = TOUCHES_LEASE, [KERNEL_VERB_TOUCH] = TOUCHES_LEASE,
    [KERNEL_VERB_REVOKE] = TOUCHES_LEASE,   [KERNEL_VERB_RELEASE] = TOUCHES_VALUES,
    [KERNEL_VERB_ACK] = TOUCHES_VALUES,     [KERNEL_VERB_RECLAIM] = TOUCHES_VALUES,
    [KERNEL_VERB_IMPORT] = TOUCHES_HOLDER,
};

void kernel_prefetch(const struct kernel *k, struct tn_bytes command, uint64_t lsn,
                     unsigned stage) {
    uint8_t verb = command.len > 0 ? command.at[0] : 0;
    uint8_t what = verb < KERNEL_VERB_COUNT ? touches[verb] : TOUCHES_NOTHING;
    if (what == TOUCHES_NOTHING || (stage > 1 && what != TOUCHES_VALUES)) {
        return;
    }
    if (what == TOUCHES_HOLDER) {
        if (stage == 0) { /* a new lease: its place in the map, and its holder's */
            tn_map_prefetch(&k->leases, kernel_index_lease_hash(k, lsn));
            tn_map_prefetch(&k->names, kernel_index_text_hash(k, holder_named(command)));
        }
        return;
    }
    uint64_t named = lease_named(command);
    if (stage == 0) {
        tn_map_prefetch(&k->leases, kernel_index_lease_hash(k, named));
        return;
    }
    uint32_t lease = guess_lease(k, named);
    if (stage == 1) {
        fetch_record(&k->tables[TABLE_LEASE], lease);
    } else {
        fetch_neighbours(k, lease);
    }
}
