/* Lists of leases: of a holder or a template by its list, of a pool by its values, else by the table.
 *
 * The order of a list is one that no lease changes while it lives, so that a cursor stays good whatever
 * happens between two pages: the lease's place in the table, or its lowest value in the pool. */
#include "kernel/state.h"
#include "kernel/used.h"

/* A filter with its names looked up; `none`: it names what does not exist. */
struct filter {
    enum kernel_state state;
    uint32_t pool, holder;
    struct tn_bytes prefix; /* of the holder */
    bool none;
};

static struct filter filter_of(const struct kernel *k, const struct kernel_lease_filter *f) {
    struct filter out = {
        .state = f->state, .pool = TN_NONE, .holder = TN_NONE, .prefix = f->prefix};
    if (f->pool.len > 0) {
        out.pool = kernel_pool_find(k, f->pool);
        out.none = out.pool == TN_NONE;
    }
    if (f->holder.len > 0) {
        out.holder = kernel_index_text(k, TEXT_NAME, f->holder);
        out.none = out.none || out.holder == TN_NONE;
    }
    return out;
}

static bool holder_begins(const struct kernel *k, const struct lease *l, struct tn_bytes prefix) {
    char text[KERNEL_HOLDER_MAX];
    if (prefix.len > sizeof text) {
        return false;
    }
    uint32_t len =
        tn_text_get(&k->tables[TABLE_TEXT], name_at(k, l->holder)->text, text, prefix.len);
    return len >= prefix.len && memcmp(text, prefix.at, prefix.len) == 0;
}

static bool filter_matches(const struct kernel *k, const struct filter *f, uint32_t slot) {
    const struct lease *l = lease_at(k, slot);
    bool ended = kernel_state_terminal((enum kernel_state)l->state);
    if (l->state == KERNEL_NO_STATE || (ended && kernel_history_over(k, l))) {
        return false;
    }
    if (l->state == KERNEL_WAITING && f->pool != TN_NONE && f->state != KERNEL_WAITING) {
        return false; /* the lease has no value of the pool */
    }
    bool state_ok = f->state == KERNEL_NO_STATE ? !ended : l->state == f->state;
    return state_ok && (f->holder == TN_NONE || l->holder == f->holder) &&
           (f->prefix.len == 0 || holder_begins(k, l, f->prefix)) &&
           (f->pool == TN_NONE || kernel_lease_in_pool(k, slot, f->pool));
}

/* ---- a holder's or a template's leases by their list ---- */

static void sort_slots(uint32_t *slots, uint32_t count) {
    static const uint32_t gaps[] = {701, 301, 132, 57, 23, 10, 4, 1};
    for (unsigned g = 0; g < sizeof gaps / sizeof gaps[0]; g++) {
        for (uint32_t i = gaps[g]; i < count; i++) {
            uint32_t slot = slots[i], j = i;
            for (; j >= gaps[g] && slots[j - gaps[g]] > slot; j -= gaps[g]) {
                slots[j] = slots[j - gaps[g]];
            }
            slots[j] = slot;
        }
    }
}

/* A page of leases that is being made. */
struct page {
    struct kernel_lease_view *out;
    uint32_t capacity, count;
};

/* The leases of a holder that has few, from slot `cursor` on, in table order. Returns the next cursor. */
static uint64_t chain_leases(const struct kernel *k, const struct filter *f, uint64_t cursor,
                             struct page *page) {
    uint32_t slots[LISTS_MIN];
    uint32_t count = 0;
    for (uint32_t slot = name_at(k, f->holder)->first_lease; slot != TN_NONE;
         slot = lease_at(k, slot)->holder_next) {
        if (slot >= cursor && filter_matches(k, f, slot)) {
            TN_ASSERT(count < LISTS_MIN);
            slots[count++] = slot;
        }
    }
    sort_slots(slots, count);
    for (; page->count < count && page->count < page->capacity; page->count++) {
        kernel_lease_show(k, slots[page->count], &page->out[page->count]);
    }
    return page->count < count ? slots[page->count] : 0;
}

/* The same for an index: at most `effort` entries from `cursor` on. */
static uint64_t tree_leases(const struct kernel *k, const struct filter *f,
                            const struct tn_timer_root *root, uint64_t cursor, uint32_t effort,
                            struct page *page) {
    uint32_t slot;
    for (;; effort--) {
        if (!kernel_lists_next(k, root, cursor, &slot)) {
            return 0;
        }
        if (effort == 0 || page->count == page->capacity) {
            return slot;
        }
        if (filter_matches(k, f, slot)) {
            kernel_lease_show(k, slot, &page->out[page->count++]);
        }
        cursor = (uint64_t)slot + 1;
    }
}

/* The index that has all leases which match, or NULL. Leases that have ended are in none, and waiting
 * ones in those of holders only. */
static const struct tn_timer_root *tree_of(const struct kernel *k, const struct filter *f) {
    if (kernel_state_terminal(f->state) || (f->state == KERNEL_WAITING && f->holder == TN_NONE)) {
        return NULL;
    }
    const struct tn_timer_root *root = f->holder != TN_NONE ? &k->lists.holder_roots[f->holder]
                                       : f->pool != TN_NONE ? &k->lists.template_roots[f->pool]
                                                            : NULL;
    return root != NULL && root->count > 0 ? root : NULL;
}

/* ---- a pool's leases by its values ---- */

struct walk {
    const struct kernel *k;
    uint32_t pool;
    bool set;
    uint64_t at; /* the next number, or the next ordinal of a set */
    bool over;   /* there is no such place any more */
    uint32_t effort;
};

static void walk_past(struct walk *walk, uint64_t place) {
    walk->over = place == UINT64_MAX;
    walk->at = place + 1;
}

/* The next member that owns a number, from `at` on. TN_NONE: there is none, and the walk has
 * ended. */
static uint32_t walk_range(struct walk *walk) {
    uint64_t value;
    if (walk->over || !kernel_used_next(walk->k, walk->pool, walk->at, UINT64_MAX, &value)) {
        walk->over = true;
        return TN_NONE;
    }
    walk_past(walk, value);
    return kernel_index_value(walk->k, walk->pool, value);
}

/* The same of a set. Free resources are passed over 64 at a time. */
static uint32_t walk_set(struct walk *walk) {
    uint64_t end = pool_at(walk->k, walk->pool)->next_ordinal;
    if (walk->at >= end) {
        walk->over = true;
        return TN_NONE;
    }
    uint64_t not_free = ~tn_bitmap_word(&walk->k->available, walk->pool, walk->at) &
                        (UINT64_MAX << (walk->at & 63));
    if (not_free == 0) {
        walk->at = (walk->at | 63) + 1;
        return TN_NONE;
    }
    uint64_t ordinal = (walk->at & ~UINT64_C(63)) | (uint64_t)__builtin_ctzll(not_free);
    uint32_t resource = kernel_index_ordinal(walk->k, walk->pool, ordinal);
    walk_past(walk, ordinal);
    return resource == TN_NONE ? TN_NONE : resource_at(walk->k, resource)->member;
}

/* A member's place among the values of its pool. */
static uint64_t place_of(const struct walk *walk, const struct member *m) {
    return walk->set ? resource_at(walk->k, (uint32_t)m->value)->ordinal : m->value;
}

/* Whether the lease has no lower value in the pool than this one. */
static bool is_lowest(struct walk *walk, const struct member *m) {
    const struct lease *l = lease_at(walk->k, m->lease);
    for (uint32_t i = l->member_count > 1 ? l->first_member : TN_NONE; i != TN_NONE;
         i = member_at(walk->k, i)->next) {
        const struct member *other = member_at(walk->k, i);
        walk->effort -= walk->effort > 0;
        if (other->pool == m->pool && place_of(walk, other) < place_of(walk, m)) {
            return false;
        }
    }
    return true;
}

/* Whether the pool's values lead to all that match: not to leases that have ended, nor to those of a
 * template's scopes. Those of a holder are found by its list. */
static bool has_values(const struct kernel *k, const struct filter *f) {
    if (f->pool == TN_NONE || f->holder != TN_NONE || kernel_state_terminal(f->state)) {
        return false;
    }
    if (f->state == KERNEL_WAITING) {
        return false; /* they have none */
    }
    const struct pool *p = pool_at(k, f->pool);
    return p->template != TN_NONE || p->policy.of[KERNEL_OPTION_SCOPED] == 0;
}

static uint64_t pool_leases(const struct kernel *k, const struct filter *f, uint64_t cursor,
                            uint32_t effort, struct kernel_lease_view *out, uint32_t capacity,
                            uint32_t *ret_count) {
    struct filter rest = *f;
    struct walk walk = {.k = k, .pool = f->pool, .at = cursor, .effort = effort};
    uint32_t found = 0;
    rest.pool = TN_NONE; /* the leases are in these pools */
    walk.set = kernel_pool_option(k, f->pool, KERNEL_OPTION_KIND) == KERNEL_SET;
    while (!walk.over && walk.effort > 0 && found < capacity) {
        walk.effort--;
        uint32_t m = walk.set ? walk_set(&walk) : walk_range(&walk);
        if (m != TN_NONE && member_at(k, m)->state == MEMBER_HELD &&
            filter_matches(k, &rest, member_at(k, m)->lease) && is_lowest(&walk, member_at(k, m))) {
            kernel_lease_show(k, member_at(k, m)->lease, &out[found++]);
        }
    }
    *ret_count = found;
    return walk.over ? 0 : walk.at;
}

/* ---- waiting leases ---- */

static uint64_t waiting_leases(const struct kernel *k, const struct filter *f, uint64_t cursor,
                               uint32_t effort, struct kernel_lease_view *out, uint32_t capacity,
                               uint32_t *ret_count) {
    uint64_t end = k->tables[TABLE_WAITER].used;
    uint32_t found = 0;
    for (; cursor < end && effort > 0 && found < capacity; cursor++, effort--) {
        const struct waiter *w = waiter_at(k, (uint32_t)cursor);
        if (w->until_ms != 0 && filter_matches(k, f, w->lease)) {
            kernel_lease_show(k, w->lease, &out[found++]);
        }
    }
    *ret_count = found;
    return cursor < end ? cursor : 0;
}

uint64_t kernel_leases_scan(const struct kernel *k, const struct kernel_lease_filter *filter,
                            uint64_t cursor, uint32_t effort, struct kernel_lease_view *out,
                            uint32_t capacity, uint32_t *ret_count) {
    struct filter f = filter_of(k, filter);
    uint64_t end = k->tables[TABLE_LEASE].used;
    uint32_t found = 0;
    *ret_count = 0;
    if (f.none) {
        return 0;
    }
    const struct tn_timer_root *root = tree_of(k, &f);
    struct page page = {.out = out, .capacity = capacity};
    if (root != NULL) {
        cursor = tree_leases(k, &f, root, cursor, effort, &page);
        *ret_count = page.count;
        return cursor;
    }
    if (f.holder != TN_NONE && !kernel_state_terminal(f.state)) {
        cursor = chain_leases(k, &f, cursor, &page);
        *ret_count = page.count;
        return cursor;
    }
    if (f.state == KERNEL_WAITING) {
        return waiting_leases(k, &f, cursor, effort, out, capacity, ret_count);
    }
    if (has_values(k, &f)) {
        return pool_leases(k, &f, cursor, effort, out, capacity, ret_count);
    }
    for (; cursor < end && effort > 0 && found < capacity; cursor++, effort--) {
        if (filter_matches(k, &f, (uint32_t)cursor)) {
            kernel_lease_show(k, (uint32_t)cursor, &out[found++]);
        }
    }
    *ret_count = found;
    return cursor < end ? cursor : 0;
}
