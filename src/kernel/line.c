/* Lines of waiters, and the list of pools to serve. See waiting.h.
 *
 * The lines are an index that is rebuilt from the tables. The list is part of the state, because it
 * decides who is served by which command: a list with links both ways, the oldest entry first. */
#include "kernel/waiting.h"

static struct tn_timer_root *line_of(const struct kernel *k, uint32_t pool) {
    TN_ASSERT(pool <= k->tables[TABLE_POOL].capacity); /* the last line has all waiters */
    return &k->line_roots[pool];
}

uint32_t kernel_line_first(const struct kernel *k, uint32_t pool) {
    uint64_t lsn;
    uint32_t waiter;
    return tn_timer_first(&k->lines, line_of(k, pool), &lsn, &waiter) ? waiter : TN_NONE;
}

uint64_t kernel_line_length(const struct kernel *k, uint32_t pool) {
    return line_of(k, pool)->count;
}

uint64_t kernel_attended(const struct kernel *k) {
    return kernel_line_length(k, k->tables[TABLE_POOL].capacity);
}

void kernel_line_enter(struct kernel *k, uint32_t waiter) {
    const struct waiter *w = waiter_at(k, waiter);
    uint64_t lsn = lease_at(k, w->lease)->lsn;
    TN_ASSERT(w->attended);
    tn_timer_insert(&k->lines, line_of(k, k->tables[TABLE_POOL].capacity), lsn, waiter);
    for (uint32_t i = w->first_want; i != TN_NONE; i = want_at(k, i)->next) {
        tn_timer_insert(&k->lines, line_of(k, want_at(k, i)->pool), lsn, waiter);
    }
}

void kernel_line_exit(struct kernel *k, uint32_t waiter) {
    const struct waiter *w = waiter_at(k, waiter);
    uint64_t lsn = lease_at(k, w->lease)->lsn;
    TN_ASSERT(w->attended);
    tn_timer_remove(&k->lines, line_of(k, k->tables[TABLE_POOL].capacity), lsn, waiter);
    for (uint32_t i = w->first_want; i != TN_NONE; i = want_at(k, i)->next) {
        tn_timer_remove(&k->lines, line_of(k, want_at(k, i)->pool), lsn, waiter);
    }
}

/* The entries of a line before this lsn, at most `most`. */
static uint64_t count_before(const struct kernel *k, uint32_t pool, uint64_t lsn, uint64_t most) {
    uint64_t at, count = 0;
    uint32_t waiter;
    bool some = tn_timer_first(&k->lines, line_of(k, pool), &at, &waiter);
    while (some && at < lsn && count < most) {
        count++;
        some = tn_timer_after(&k->lines, line_of(k, pool), at, waiter, &at, &waiter);
    }
    return count;
}

uint64_t kernel_line_before(const struct kernel *k, uint32_t waiter, uint32_t *ret_pool) {
    const struct waiter *w = waiter_at(k, waiter);
    uint64_t lsn = lease_at(k, w->lease)->lsn, before = 0, left = KERNEL_PLACE_LOOKED;
    *ret_pool = want_at(k, w->first_want)->pool;
    for (uint32_t i = w->first_want; i != TN_NONE && left > 0; i = want_at(k, i)->next) {
        uint64_t here = count_before(k, want_at(k, i)->pool, lsn, left);
        left -= here; /* all lines together are looked at no further */
        if (here > before) {
            before = here;
            *ret_pool = want_at(k, i)->pool;
        }
    }
    return before;
}

/* ---- pools to serve ---- */

void kernel_line_stir(struct kernel *k, uint32_t pool) {
    if (line_of(k, pool)->count == 0 || pool_at(k, pool)->serve_listed) {
        return;
    }
    struct root *root = root_mut(k);
    struct pool *p = pool_mut(k, pool);
    p->serve_listed = 1;
    p->serve_prev1 = root->serve_tail1;
    p->serve_next1 = 0;
    if (root->serve_tail1 == 0) {
        root->serve_head1 = pool + 1;
    } else {
        pool_mut(k, root->serve_tail1 - 1)->serve_next1 = pool + 1;
    }
    root->serve_tail1 = pool + 1;
}

void kernel_line_unlist(struct kernel *k, uint32_t pool) {
    struct pool *p = pool_mut(k, pool);
    if (!p->serve_listed) {
        return;
    }
    struct root *root = root_mut(k);
    if (p->serve_prev1 == 0) {
        root->serve_head1 = p->serve_next1;
    } else {
        pool_mut(k, p->serve_prev1 - 1)->serve_next1 = p->serve_next1;
    }
    if (p->serve_next1 == 0) {
        root->serve_tail1 = p->serve_prev1;
    } else {
        pool_mut(k, p->serve_next1 - 1)->serve_prev1 = p->serve_prev1;
    }
    p->serve_listed = 0;
    p->serve_prev1 = p->serve_next1 = 0;
}

void kernel_line_stir_all(struct kernel *k, uint32_t waiter) {
    for (uint32_t i = waiter_at(k, waiter)->first_want; i != TN_NONE; i = want_at(k, i)->next) {
        kernel_line_stir(k, want_at(k, i)->pool);
    }
}

void kernel_line_stir_policy(struct kernel *k, uint32_t pool) {
    if (pool_at(k, pool)->waiting == 0) {
        return;
    }
    for (uint32_t i = 0; i < k->tables[TABLE_POOL].used; i++) {
        const struct pool *p = pool_at(k, i);
        bool follows = i == pool ? !kernel_pool_is_template(k, pool) : p->template == pool;
        if (p->state == POOL_LIVE && follows && p->waiting > 0) {
            kernel_value_prepare(k, i);
            kernel_line_stir(k, i);
        }
    }
}

void kernel_line_rebuild(struct kernel *k) {
    for (uint32_t i = 0; i < k->tables[TABLE_WAITER].used; i++) {
        if (waiter_at(k, i)->until_ms != 0 && waiter_at(k, i)->attended) {
            kernel_line_enter(k, i);
        }
    }
}
