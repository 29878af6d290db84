/* The values of a pool: which are free, which one to give, and their owners.
 *
 * A range marks what is not free in the `taken` bitmap and finds owners in the value map; a set
 * marks what is free in the `available` bitmap, by ordinal, and its resources know their owner.
 *
 * A `coldest` pool remembers freed values in a queue of cold members, oldest first, which own their
 * values: so a cold value is neither "never used" for a pick nor busy for a request that names it.
 *
 * Cost of a pick: one or two searches of the bitmap, and one more for each excluded span and each
 * gap between the spans of the range on the way, at most 81, whatever the occupancy. Bias of
 * `random`: a uniformly random value, then the next free one upwards; a free value behind a run of
 * n taken ones is n + 1 times as likely as one behind a free one. Every free value can come up at
 * every pick, so none is starved. */
#include "kernel/state.h"
#include "kernel/used.h"

static bool is_set(const struct kernel *k, uint32_t pool) {
    return kernel_pool_option(k, pool, KERNEL_OPTION_KIND) == KERNEL_SET;
}

enum tn_result kernel_value_resolve(const struct kernel *k, uint32_t pool,
                                    const struct kernel_requested *requested, uint64_t *ret_value) {
    const struct kernel_policy *policy = kernel_pool_policy(k, pool);
    if (policy->of[KERNEL_OPTION_KIND] == KERNEL_SET) {
        uint32_t r = requested->is_text ? kernel_index_resource(k, pool, requested->text) : TN_NONE;
        *ret_value = r;
        return r == TN_NONE ? TN_R_BAD_VALUE : TN_R_OK;
    }
    uint64_t number = requested->number;
    if (requested->is_text &&
        !kernel_value_parse((enum kernel_format)policy->of[KERNEL_OPTION_FORMAT], requested->text,
                            &number)) {
        return TN_R_BAD_VALUE;
    }
    if (!kernel_policy_contains(policy, number)) {
        return TN_R_BAD_VALUE;
    }
    *ret_value = number;
    return TN_R_OK;
}

uint32_t kernel_value_owner(const struct kernel *k, uint32_t pool, uint64_t value) {
    return is_set(k, pool) ? resource_at(k, (uint32_t)value)->member
                           : kernel_index_value(k, pool, value);
}

static const struct kernel_span *excluded_by(const struct kernel_policy *policy, uint64_t value) {
    for (uint64_t i = 0; i < policy->exclude_count; i++) {
        if (value >= policy->exclude[i].lo && value <= policy->exclude[i].hi) {
            return &policy->exclude[i];
        }
    }
    return NULL;
}

bool kernel_value_excluded(const struct kernel_policy *policy, uint64_t value) {
    return excluded_by(policy, value) != NULL;
}

/* Whether the value is not to be given: *ret_last is then the last one for which that holds too. */
static bool skipped(const struct kernel_policy *policy, uint64_t value, uint64_t *ret_last) {
    const struct kernel_span *excluded = excluded_by(policy, value);
    struct kernel_span span;
    if (excluded != NULL) {
        *ret_last = excluded->hi;
        return true;
    }
    if (policy->span_count == 0) {
        return false;
    }
    bool above = kernel_policy_span(policy, value, &span);
    *ret_last = above ? span.lo - 1 : UINT64_MAX; /* not used if the span has the value */
    return !above || value < span.lo;
}

/* The lowest free value in from..to that may be given. What is skipped is skipped at most once. */
static bool search(const struct kernel *k, uint32_t pool, const struct kernel_policy *policy,
                   uint64_t from, uint64_t to, uint64_t *ret_value) {
    uint64_t value;
    while (from <= to && tn_bitmap_next(&k->taken, pool, from, to, &value)) {
        uint64_t last;
        if (!skipped(policy, value, &last)) {
            *ret_value = value;
            return true;
        }
        TN_ASSERT(last >= value); /* the search continues */
        if (last >= to) {
            return false;
        }
        from = last + 1;
    }
    return false;
}

/* Searches upwards from `start` and around. */
static bool search_around(const struct kernel *k, uint32_t pool, uint64_t start,
                          uint64_t *ret_value) {
    const struct kernel_policy *policy = kernel_pool_policy(k, pool);
    uint64_t lo = policy->of[KERNEL_OPTION_LO], hi = policy->of[KERNEL_OPTION_HI];
    if (start < lo || start > hi) {
        start = lo;
    }
    return search(k, pool, policy, start, hi, ret_value) ||
           (start > lo && search(k, pool, policy, lo, start - 1, ret_value));
}

/* The lowest of all, from where it can be. A search that skips nothing moves that place up. */
static bool search_lowest(struct kernel *k, uint32_t pool, uint64_t *ret_value) {
    const struct kernel_policy *policy = kernel_pool_policy(k, pool);
    uint64_t lo = policy->of[KERNEL_OPTION_LO];
    struct low_mark *low = &k->lows[pool];
    if (lo < low->from || lo > low->next) {
        *low = (struct low_mark){.from = lo, .next = lo};
    }
    if (!search(k, pool, policy, low->next, policy->of[KERNEL_OPTION_HI], ret_value)) {
        return false;
    }
    if (policy->exclude_count == 0 && policy->span_count == 0) {
        low->next = *ret_value;
    }
    return true;
}

static bool search_set(const struct kernel *k, uint32_t pool, uint64_t start, uint64_t *ret_value) {
    uint64_t end = pool_at(k, pool)->next_ordinal;
    uint64_t ordinal;
    if (end == 0) {
        return false;
    }
    if (start >= end) {
        start = 0;
    }
    if (!tn_bitmap_next(&k->available, pool, start, end - 1, &ordinal) &&
        !(start > 0 && tn_bitmap_next(&k->available, pool, 0, start - 1, &ordinal))) {
        return false;
    }
    uint32_t resource = kernel_index_ordinal(k, pool, ordinal);
    TN_ASSERT(resource != TN_NONE);
    *ret_value = resource;
    return true;
}

/* Where `random` starts: one draw, no retry. */
static uint64_t random_start(struct kernel *k, uint32_t pool) {
    struct tn_prng *prng = &root_mut(k)->prng;
    if (is_set(k, pool)) {
        uint64_t end = pool_at(k, pool)->next_ordinal;
        return end == 0 ? 0 : tn_prng_below(prng, end);
    }
    const struct kernel_policy *policy = kernel_pool_policy(k, pool);
    uint64_t lo = policy->of[KERNEL_OPTION_LO];
    if (policy->span_count == 0) {
        return lo + tn_prng_below(prng, policy->of[KERNEL_OPTION_HI] - lo + 1);
    }
    uint64_t place = tn_prng_below(prng, kernel_policy_size(policy));
    struct kernel_span span;
    for (uint64_t i = 0; kernel_policy_span_at(policy, i, &span); i++) {
        if (place <= span.hi - span.lo) {
            return span.lo + place;
        }
        place -= span.hi - span.lo + 1;
    }
    TN_ASSERT(false); /* the place is below the size */
    return lo;
}

/* The value freed longest ago that this request has not claimed yet. `cursor` is where the last
 * search of the same claim ended: nothing before it is left. */
static bool pick_cold(const struct kernel *k, uint32_t pool, uint32_t *cursor,
                      uint64_t *ret_value) {
    const struct kernel_policy *policy = kernel_pool_policy(k, pool);
    uint32_t m =
        *cursor == TN_NONE ? pool_at(k, pool)->cold_head : member_at(k, *cursor)->cold.next;
    /* A scope's may have been excluded since: an alter of its template does not reach them. */
    while (m != TN_NONE && (member_at(k, m)->lease != TN_NONE ||
                            kernel_value_excluded(policy, member_at(k, m)->value))) {
        m = member_at(k, m)->cold.next;
    }
    if (m == TN_NONE) {
        return false;
    }
    *cursor = m;
    *ret_value = member_at(k, m)->value;
    return true;
}

void kernel_value_prepare(struct kernel *k, uint32_t pool) {
    if (pool_at(k, pool)->cold_count > 0 &&
        kernel_pool_option(k, pool, KERNEL_OPTION_STRATEGY) != KERNEL_COLDEST) {
        kernel_value_cold_forget(k, pool);
    }
}

bool kernel_value_pick(struct kernel *k, uint32_t pool, uint32_t *cursor, uint64_t *ret_value) {
    const struct pool *p = pool_at(k, pool);
    enum kernel_strategy strategy =
        (enum kernel_strategy)kernel_pool_option(k, pool, KERNEL_OPTION_STRATEGY);
    uint64_t start = 0;
    if (strategy == KERNEL_RANDOM) {
        start = random_start(k, pool);
    } else if (strategy == KERNEL_NEXT && p->rotor_set) {
        start = p->rotor + 1; /* past the end, or 2^64: search starts over */
    }
    bool found;
    if (is_set(k, pool)) {
        found = search_set(k, pool, start, ret_value);
    } else if (strategy == KERNEL_LOWEST || strategy == KERNEL_COLDEST) {
        found = search_lowest(k, pool, ret_value);
    } else {
        found = search_around(k, pool, start, ret_value);
    }
    return found || (strategy == KERNEL_COLDEST && pick_cold(k, pool, cursor, ret_value));
}

bool kernel_value_any(const struct kernel *k, uint32_t pool) {
    uint64_t unused;
    uint32_t cursor = TN_NONE;
    bool found =
        is_set(k, pool)
            ? search_set(k, pool, 0, &unused)
            : search_around(k, pool, kernel_pool_option(k, pool, KERNEL_OPTION_LO), &unused);
    return found || (kernel_pool_option(k, pool, KERNEL_OPTION_STRATEGY) == KERNEL_COLDEST &&
                     pick_cold(k, pool, &cursor, &unused));
}

uint32_t kernel_member_new(struct kernel *k, uint32_t pool, uint64_t value) {
    uint32_t slot = tn_table_take(&k->tables[TABLE_MEMBER]);
    TN_ASSERT(slot != TN_NONE);
    struct member *m = member_mut(k, slot);
    TN_ASSERT(m->state == MEMBER_FREE);
    m->value = value;
    m->pool = pool;
    m->lease = TN_NONE;
    m->next = TN_NONE;
    pool_mut(k, pool)->refs++;
    if (is_set(k, pool)) {
        resource_mut(k, (uint32_t)value)->refs++;
    }
    return slot;
}

void kernel_member_delete(struct kernel *k, uint32_t member) {
    struct member m = *member_at(k, member);
    tn_table_give(&k->tables[TABLE_MEMBER], member);
    if (is_set(k, m.pool)) {
        kernel_resource_unref(k, (uint32_t)m.value);
    }
    kernel_pool_unref(k, m.pool);
}

/* The value becomes findable for picks, or no longer. */
static void mark_free(struct kernel *k, uint32_t pool, uint64_t value, bool is_free) {
    if (is_set(k, pool)) {
        uint64_t ordinal = resource_at(k, (uint32_t)value)->ordinal;
        if (is_free) {
            tn_bitmap_set(&k->available, pool, ordinal);
        } else {
            tn_bitmap_clear(&k->available, pool, ordinal);
        }
    } else if (is_free) {
        struct low_mark *low = &k->lows[pool];
        if (value >= low->from && value < low->next) {
            low->next = value;
        }
        kernel_used_clear(k, pool, value);
    } else {
        kernel_used_set(k, pool, value);
    }
}

static void owner_set(struct kernel *k, uint32_t member) {
    const struct member *m = member_at(k, member);
    if (is_set(k, m->pool)) {
        resource_mut(k, (uint32_t)m->value)->member = member;
    } else {
        kernel_index_value_add(k, member);
    }
}

static void owner_clear(struct kernel *k, uint32_t member) {
    const struct member *m = member_at(k, member);
    if (is_set(k, m->pool)) {
        TN_ASSERT(resource_at(k, (uint32_t)m->value)->member == member);
        resource_mut(k, (uint32_t)m->value)->member = TN_NONE;
    } else {
        kernel_index_value_remove(k, member); /* asserts that the member owned it */
    }
}

/* Removes a cold member from its queue. Its value then has no owner, but cannot be found yet. */
static void cold_remove(struct kernel *k, uint32_t member) {
    const struct member *m = member_at(k, member);
    struct pool *p = pool_mut(k, m->pool);
    uint32_t prev = m->cold.prev, next = m->cold.next;
    TN_ASSERT(m->state == MEMBER_COLD);
    TN_ASSERT(p->cold_count > 0 && root_at(k)->cold_count > 0);
    if (prev == TN_NONE) {
        TN_ASSERT(p->cold_head == member);
        p->cold_head = next;
    } else {
        member_mut(k, prev)->cold.next = next;
    }
    if (next == TN_NONE) {
        TN_ASSERT(p->cold_tail == member);
        p->cold_tail = prev;
    } else {
        member_mut(k, next)->cold.prev = prev;
    }
    p->cold_count--;
    root_mut(k)->cold_count--;
    owner_clear(k, member);
    kernel_member_delete(k, member);
}

void kernel_value_cold_release(struct kernel *k, uint32_t member) {
    struct member m = *member_at(k, member);
    /* The record of its pool or resource must outlive the member's reference to it. */
    mark_free(k, m.pool, m.value, true);
    cold_remove(k, member);
}

void kernel_value_cold_forget(struct kernel *k, uint32_t pool) {
    while (pool_at(k, pool)->cold_count > 0) {
        kernel_value_cold_release(k, pool_at(k, pool)->cold_head);
    }
}

/* Remembers a value that has just lost its owner. */
static void cold_add(struct kernel *k, uint32_t pool, uint64_t value) {
    const struct kernel_policy *policy = kernel_pool_policy(k, pool);
    if (policy->of[KERNEL_OPTION_KIND] == KERNEL_RANGE && kernel_value_excluded(policy, value)) {
        mark_free(k, pool, value, true); /* never picked, so not worth remembering */
        return;
    }
    uint64_t per_pool = kernel_limit(k, KERNEL_LIMIT_COLD_PER_POOL);
    bool full = root_at(k)->cold_count >= kernel_limit(k, KERNEL_LIMIT_COLD);
    if (pool_at(k, pool)->cold_count >= per_pool || full) {
        if (pool_at(k, pool)->cold_count == 0) {
            mark_free(k, pool, value, true); /* no room at all: it counts as never used */
            return;
        }
        kernel_value_cold_release(k, pool_at(k, pool)->cold_head);
    }
    uint32_t slot = kernel_member_new(k, pool, value);
    struct pool *p = pool_mut(k, pool);
    struct member *m = member_mut(k, slot);
    m->state = MEMBER_COLD;
    m->cold.prev = p->cold_tail;
    m->cold.next = TN_NONE;
    if (p->cold_tail == TN_NONE) {
        p->cold_head = slot;
    } else {
        member_mut(k, p->cold_tail)->cold.next = slot;
    }
    p->cold_tail = slot;
    p->cold_count++;
    root_mut(k)->cold_count++;
    owner_set(k, slot);
}

/* Only a cold value can have an owner at this point; most pools have none. */
static uint32_t cold_owner(const struct kernel *k, const struct member *m) {
    return pool_at(k, m->pool)->cold_count == 0 ? TN_NONE
                                                : kernel_value_owner(k, m->pool, m->value);
}

void kernel_value_claim(struct kernel *k, uint32_t member) {
    const struct member *m = member_at(k, member);
    TN_ASSERT(m->state == MEMBER_HELD && m->lease != TN_NONE);
    uint32_t owner = cold_owner(k, m);
    if (owner != TN_NONE) {
        TN_ASSERT(member_at(k, owner)->state == MEMBER_COLD);
        member_mut(k, owner)->lease = m->lease; /* the mark of a claim */
        return;
    }
    mark_free(k, m->pool, m->value, false);
    owner_set(k, member);
}

void kernel_value_unclaim(struct kernel *k, uint32_t member) {
    const struct member *m = member_at(k, member);
    uint32_t owner = kernel_value_owner(k, m->pool, m->value);
    if (owner != member) {
        TN_ASSERT(member_at(k, owner)->state == MEMBER_COLD);
        member_mut(k, owner)->lease = TN_NONE;
        return;
    }
    owner_clear(k, member);
    mark_free(k, m->pool, m->value, true);
}

void kernel_value_keep(struct kernel *k, uint32_t member) {
    const struct member *m = member_at(k, member);
    TN_ASSERT(m->state == MEMBER_HELD);
    uint32_t owner = cold_owner(k, m);
    if (owner != TN_NONE && owner != member) {
        TN_ASSERT(member_at(k, owner)->state == MEMBER_COLD);
        cold_remove(k, owner);
        owner_set(k, member);
    }
}

void kernel_value_free(struct kernel *k, uint32_t member) {
    const struct member *m = member_at(k, member);
    uint32_t pool = m->pool;
    uint64_t value = m->value;
    TN_ASSERT(m->state == MEMBER_HELD || m->state == MEMBER_COOLING);
    owner_clear(k, member);
    if (kernel_pool_option(k, pool, KERNEL_OPTION_STRATEGY) == KERNEL_COLDEST) {
        cold_add(k, pool, value);
    } else {
        mark_free(k, pool, value, true);
    }
    struct pool *p = pool_mut(k, pool);
    TN_ASSERT(p->used > 0);
    p->used--;
    if (p->template != TN_NONE) {
        struct pool *t = pool_mut(k, p->template);
        TN_ASSERT(t->used > 0);
        t->used--;
        kernel_pool_maybe_empty(k, pool);
    }
    TN_ASSERT(root_at(k)->members_live > 0);
    root_mut(k)->members_live--;
}

void kernel_value_show(const struct kernel *k, const struct member *m, struct kernel_value *out) {
    const struct kernel_policy *policy = kernel_pool_policy(k, m->pool);
    out->pool = m->pool;
    out->claim = 0;
    out->format = (uint8_t)policy->of[KERNEL_OPTION_FORMAT];
    out->number = m->value;
    out->name_len = 0;
    if (policy->of[KERNEL_OPTION_KIND] == KERNEL_SET) {
        const struct resource *r = resource_at(k, (uint32_t)m->value);
        out->number = 0;
        out->name_len =
            (uint8_t)tn_text_get(&k->tables[TABLE_TEXT], r->name, out->name, sizeof out->name);
    }
}
