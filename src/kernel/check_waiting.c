/* The invariants of waiting leases, for check.c. See waiting.h. */
#include "kernel/waiting.h"

struct tally {
    const struct kernel *k;
    uint64_t *wants; /* of each pool */
    uint64_t attended, attended_wants, total, chunks;
    const char *broken;
    uint64_t where;
};

static void expect(struct tally *t, bool condition, const char *what, uint64_t where) {
    if (!condition && t->broken == NULL) {
        t->broken = what;
        t->where = where;
    }
}

static void check_wants(struct tally *t, uint32_t slot) {
    const struct kernel *k = t->k;
    const struct waiter *w = waiter_at(k, slot);
    uint64_t lsn = lease_at(k, w->lease)->lsn;
    for (uint32_t i = w->first_want; i != TN_NONE; i = want_at(k, i)->next) {
        uint32_t pool = want_at(k, i)->pool;
        bool in_line = tn_timer_has(&k->lines, &k->line_roots[pool], lsn, slot);
        expect(t, want_at(k, i)->waiter1 == slot + 1, "a want is another waiter's", i);
        expect(t, pool_at(k, pool)->state == POOL_LIVE, "a wanted pool is dropped", i);
        expect(t, in_line == (w->attended != 0), "a line has an unattended waiter, or lacks one",
               slot);
        t->wants[pool]++;
        t->attended_wants += w->attended;
    }
}

static void check_waiter(struct tally *t, uint32_t slot) {
    const struct kernel *k = t->k;
    const struct waiter *w = waiter_at(k, slot);
    const struct lease *l = lease_at(k, w->lease);
    expect(t, l->state == KERNEL_WAITING && l->waiter == slot, "a waiter has no waiting lease",
           slot);
    expect(t, l->member_count == 0 && l->first_member == TN_NONE, "a waiting lease has values",
           slot);
    expect(t, l->deadline_ms != 0 && l->deadline_ms <= w->until_ms, "a waiter has too much time",
           slot);
    expect(t, w->op == TN_NONE || op_at(k, w->op)->waiter1 == slot + 1,
           "a waiter's operation is another's", slot);
    t->attended += w->attended;
    t->total += w->total;
    check_wants(t, slot);
}

static void check_list(struct tally *t) {
    const struct kernel *k = t->k;
    uint64_t listed = 0;
    uint32_t before = 0;
    for (uint32_t i = 0; i < k->tables[TABLE_POOL].used; i++) {
        listed += pool_at(k, i)->state != POOL_FREE && pool_at(k, i)->serve_listed;
    }
    for (uint32_t i1 = root_at(k)->serve_head1; i1 != 0 && t->broken == NULL;
         i1 = pool_at(k, i1 - 1)->serve_next1) {
        const struct pool *p = pool_at(k, i1 - 1);
        expect(t,
               p->state == POOL_LIVE && p->serve_listed && p->serve_prev1 == before && listed > 0,
               "the list of pools to serve is broken", i1 - 1);
        before = i1;
        listed--;
    }
    expect(t, listed == 0 && root_at(k)->serve_tail1 == before,
           "a pool to serve is not in the list", listed);
}

const char *kernel_wait_broken(const struct kernel *k, uint64_t *wants, uint64_t *ret_where) {
    struct tally t = {.k = k};
    t.wants = wants;
    uint64_t in_lines = 0, waiting = 0;
    for (uint32_t i = 0; i < k->tables[TABLE_WAITER].used; i++) {
        if (waiter_at(k, i)->until_ms != 0) {
            check_waiter(&t, i);
        }
    }
    for (uint32_t i = 0; i < k->tables[TABLE_POOL].capacity; i++) {
        in_lines += k->line_roots[i].count;
    }
    for (uint32_t i = 0; i < k->tables[TABLE_LEASE].used; i++) {
        waiting += lease_at(k, i)->state == KERNEL_WAITING;
    }
    expect(&t, waiting == k->tables[TABLE_WAITER].live, "a waiting lease has no waiter", waiting);
    expect(&t, in_lines == t.attended_wants, "the lines have extra entries", in_lines);
    expect(&t, kernel_attended(k) == t.attended, "the line of all waiters is wrong", t.attended);
    expect(&t, root_at(k)->members_waiting == t.total, "wanted values are miscounted", t.total);
    check_list(&t);
    *ret_where = t.where;
    return t.broken;
}
