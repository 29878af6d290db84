/* The references of waiting leases in a loaded image, for links.c, which has checked those in its
 * table: they lead to records in use. */
#include "kernel/waiting.h"

static bool waiter_used(const struct kernel *k, uint32_t slot) {
    return slot < k->tables[TABLE_WAITER].used && waiter_at(k, slot)->until_ms != 0;
}

/* Whether its wants are its own and for different live pools. *left bounds the number of all wants
 * together. */
static bool wants_agree(const struct kernel *k, uint32_t slot, uint64_t *left) {
    uint32_t first = waiter_at(k, slot)->first_want;
    for (uint32_t i = first; i != TN_NONE; i = want_at(k, i)->next) {
        const struct want *w = want_at(k, i);
        if (*left == 0 || w->waiter1 != slot + 1 || pool_at(k, w->pool)->state != POOL_LIVE) {
            return false;
        }
        *left -= 1;
        for (uint32_t j = first; j != i; j = want_at(k, j)->next) {
            if (want_at(k, j)->pool == w->pool) {
                return false;
            }
        }
    }
    return true;
}

static bool waiter_agrees(const struct kernel *k, uint32_t slot, uint64_t *left) {
    const struct waiter *w = waiter_at(k, slot);
    const struct lease *l = lease_at(k, w->lease);
    uint32_t len =
        tn_text_get(&k->tables[TABLE_TEXT], w->claims, k->wait_claims, KERNEL_WAIT_CLAIMS_MAX);
    return l->state == KERNEL_WAITING && l->waiter == slot && l->first_member == TN_NONE &&
           w->attended <= 1 && w->code < TN_R_COUNT && w->total > 0 &&
           w->total <= kernel_limit(k, KERNEL_LIMIT_BUNDLE) && w->until_ms <= KERNEL_TIME_MAX * 2 &&
           kernel_claims_valid(tn_bytes_of(k->wait_claims, len), w->claim_count) &&
           (w->op == TN_NONE || op_at(k, w->op)->waiter1 == slot + 1) && wants_agree(k, slot, left);
}

static bool list_agrees(const struct kernel *k) {
    uint64_t left = k->tables[TABLE_POOL].live;
    uint32_t before = 0;
    for (uint32_t at = root_at(k)->serve_head1; at != 0; left--) {
        if (left == 0 || at > k->tables[TABLE_POOL].used ||
            pool_at(k, at - 1)->state != POOL_LIVE || !pool_at(k, at - 1)->serve_listed ||
            pool_at(k, at - 1)->serve_prev1 != before) {
            return false;
        }
        before = at;
        at = pool_at(k, at - 1)->serve_next1;
    }
    for (uint32_t i = 0; i < k->tables[TABLE_POOL].used; i++) {
        left -= pool_at(k, i)->state == POOL_LIVE && !pool_at(k, i)->serve_listed;
        left -= pool_at(k, i)->state == POOL_DROPPED && !pool_at(k, i)->serve_listed;
    }
    return left == 0 && before == root_at(k)->serve_tail1;
}

bool kernel_wait_links_good(const struct kernel *k) {
    uint64_t left = k->tables[TABLE_WANT].live;
    for (uint32_t i = 0; i < k->tables[TABLE_WAITER].used; i++) {
        if (waiter_used(k, i) && !waiter_agrees(k, i, &left)) {
            return false;
        }
    }
    for (uint32_t i = 0; i < k->tables[TABLE_LEASE].used; i++) {
        const struct lease *l = lease_at(k, i);
        if (l->state == KERNEL_WAITING &&
            (!waiter_used(k, l->waiter) || waiter_at(k, l->waiter)->lease != i)) {
            return false;
        }
    }
    for (uint32_t i = 0; i < k->tables[TABLE_OP].used; i++) {
        const struct op *o = op_at(k, i);
        if (o->lsn != 0 && o->waiter1 != 0 &&
            (!waiter_used(k, o->waiter1 - 1) || waiter_at(k, o->waiter1 - 1)->op != i)) {
            return false;
        }
    }
    return left == 0 && list_agrees(k) &&
           root_at(k)->op_chunks_waiting <= tn_table_room(&k->tables[TABLE_OP_TEXT]);
}
