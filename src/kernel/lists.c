/* Indices of leases by holder and by template. */
#include "kernel/lists.h"
#include "kernel/state.h"

/* ---- holders ---- */

void kernel_lists_link(struct kernel *k, uint32_t lease) {
    uint32_t holder = lease_at(k, lease)->holder;
    struct tn_timer_root *root = &k->lists.holder_roots[holder];
    TN_ASSERT(holder != TN_NONE && name_at(k, holder)->refs > 0);
    uint32_t live = ++k->lists.holder_live[holder];
    if (TN_LIKELY(live < LISTS_MIN && root->count == 0)) {
        return;
    }
    if (root->count > 0) {
        tn_timer_insert(&k->lists.trees, root, lease, 0);
        return;
    }
    for (uint32_t i = name_at(k, holder)->first_lease; i != TN_NONE;
         i = lease_at(k, i)->holder_next) {
        tn_timer_insert(&k->lists.trees, root, i, 0);
    }
}

void kernel_lists_unlink(struct kernel *k, uint32_t lease) {
    uint32_t holder = lease_at(k, lease)->holder;
    struct tn_timer_root *root = &k->lists.holder_roots[holder];
    TN_ASSERT(k->lists.holder_live[holder] > 0);
    k->lists.holder_live[holder]--;
    if (TN_LIKELY(root->count == 0)) {
        return;
    }
    tn_timer_remove(&k->lists.trees, root, lease, 0);
    uint64_t slot;
    uint32_t ref;
    while (root->count < LISTS_MIN / 2 && tn_timer_first(&k->lists.trees, root, &slot, &ref)) {
        tn_timer_remove(&k->lists.trees, root, slot, ref);
    }
}

void kernel_lists_prefetch(const struct kernel *k, uint32_t lease) {
    uint32_t holder = lease_at(k, lease)->holder;
    if (holder < k->tables[TABLE_NAME].used) { /* the record may be free */
        tn_timer_prefetch(&k->lists.trees, &k->lists.holder_roots[holder], lease, 0);
    }
}

/* ---- templates ---- */

static struct tn_timer_root *template_of(const struct kernel *k, uint32_t member) {
    uint32_t template = pool_at(k, member_at(k, member)->pool)->template;
    return template == TN_NONE ? NULL : &k->lists.template_roots[template];
}

/* True if all values of the lease are of one pool that is no scope: it is in no template's list. */
static bool outside_templates(const struct kernel *k, const struct lease *l) {
    return l->pool != TN_NONE && pool_at(k, l->pool)->template == TN_NONE;
}

/* A template's list has a lease once, even if the lease has values of several of its scopes. */
void kernel_lists_begin(struct kernel *k, uint32_t lease) {
    if (outside_templates(k, lease_at(k, lease))) {
        return;
    }
    for (uint32_t m = lease_at(k, lease)->first_member; m != TN_NONE; m = member_at(k, m)->next) {
        struct tn_timer_root *root = template_of(k, m);
        if (root != NULL && !tn_timer_has(&k->lists.trees, root, lease, 0)) {
            tn_timer_insert(&k->lists.trees, root, lease, 0);
        }
    }
}

void kernel_lists_end(struct kernel *k, uint32_t lease) {
    if (outside_templates(k, lease_at(k, lease))) {
        return;
    }
    for (uint32_t m = lease_at(k, lease)->first_member; m != TN_NONE; m = member_at(k, m)->next) {
        struct tn_timer_root *root = template_of(k, m);
        if (root != NULL && tn_timer_has(&k->lists.trees, root, lease, 0)) {
            tn_timer_remove(&k->lists.trees, root, lease, 0);
        }
    }
}

/* ---- both ---- */

static bool lease_is_live(const struct kernel *k, uint32_t lease) {
    enum kernel_state state = (enum kernel_state)lease_at(k, lease)->state;
    return state != KERNEL_NO_STATE && !kernel_state_terminal(state);
}

void kernel_lists_rebuild(struct kernel *k) {
    for (uint32_t i = 0; i < k->tables[TABLE_LEASE].used; i++) {
        if (lease_is_live(k, i)) {
            k->lists.holder_live[lease_at(k, i)->holder]++;
            kernel_lists_begin(k, i);
        }
    }
    for (uint32_t i = 0; i < k->tables[TABLE_LEASE].used; i++) {
        uint32_t holder = lease_is_live(k, i) ? lease_at(k, i)->holder : TN_NONE;
        if (holder != TN_NONE && k->lists.holder_live[holder] >= LISTS_MIN) {
            tn_timer_insert(&k->lists.trees, &k->lists.holder_roots[holder], i, 0);
        }
    }
}

bool kernel_lists_next(const struct kernel *k, const struct tn_timer_root *root, uint64_t from,
                       uint32_t *ret_lease) {
    uint64_t slot;
    uint32_t ref;
    bool found = from == 0
                     ? tn_timer_first(&k->lists.trees, root, &slot, &ref)
                     : tn_timer_after(&k->lists.trees, root, from - 1, UINT32_MAX, &slot, &ref);
    TN_ASSERT(!found || (slot >= from && slot < k->tables[TABLE_LEASE].used));
    *ret_lease = found ? (uint32_t)slot : TN_NONE;
    return found;
}

static bool lease_check(const struct kernel *k, uint32_t lease, uint64_t *by_template) {
    const struct lease *l = lease_at(k, lease);
    const struct tn_timer_root *root = &k->lists.holder_roots[l->holder];
    if (root->count > 0 && !tn_timer_has(&k->lists.trees, root, lease, 0)) {
        return false;
    }
    for (uint32_t m = l->first_member; m != TN_NONE; m = member_at(k, m)->next) {
        const struct tn_timer_root *of = template_of(k, m);
        bool first = of != NULL;
        for (uint32_t n = l->first_member; first && n != m; n = member_at(k, n)->next) {
            first = template_of(k, n) != of;
        }
        if (of != NULL && !tn_timer_has(&k->lists.trees, of, lease, 0)) {
            return false;
        }
        *by_template += first;
    }
    return true;
}

/* Every live lease is in its lists, and the lists have as many entries as that makes. */
bool kernel_lists_check(const struct kernel *k) {
    uint64_t live = 0, counted = 0, by_template = 0, entries = 0;
    for (uint32_t i = 0; i < k->tables[TABLE_LEASE].used; i++) {
        if (lease_is_live(k, i)) {
            live++;
            if (!lease_check(k, i, &by_template)) {
                return false;
            }
        }
    }
    for (uint32_t i = 0; i < k->tables[TABLE_NAME].used; i++) {
        const struct tn_timer_root *root = &k->lists.holder_roots[i];
        uint32_t has = k->lists.holder_live[i];
        counted += has;
        if ((root->count != 0 && root->count != has) || (root->count == 0 && has >= LISTS_MIN) ||
            !tn_timer_check(&k->lists.trees, root)) {
            return false;
        }
    }
    for (uint32_t i = 0; i < k->tables[TABLE_POOL].used; i++) {
        entries += k->lists.template_roots[i].count;
        if (!tn_timer_check(&k->lists.trees, &k->lists.template_roots[i])) {
            return false;
        }
    }
    return counted == live && entries == by_template;
}
