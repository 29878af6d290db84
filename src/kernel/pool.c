/* Pools: their policies, their scopes, their resources.
 *
 * A scope (`ports@node7`) is a pool without a policy of its own: it follows its template, so an
 * alter of the template reaches all scopes at once. The first request that names a scope creates
 * it; it is deleted when no value is held or cooling. Its record stays, hidden, while history
 * refers to it, and is reused if the scope returns.
 *
 * A scope that was created or altered by its name is kept: it has a policy of its own, and stays when
 * it is empty. The options that it was given are its own; the others it has from its template, and an
 * alter of the template changes them.
 *
 * A dropped set lets its resources go in bounded steps. Records are freed when nothing refers to
 * them: members of any state, and scopes, count. */
#include "kernel/scope.h"
#include "kernel/waiting.h"

#define SHRINK_WORDS_MAX 65536u /* 64 values each: what one alter may have to look at */

uint32_t kernel_pool_find(const struct kernel *k, struct tn_bytes name) {
    uint32_t pool = kernel_index_text(k, TEXT_POOL, name);
    return pool != TN_NONE && pool_at(k, pool)->state == POOL_LIVE ? pool : TN_NONE;
}

/* Most requests name the pool of the one before them: a look at its name saves the search by hash. No other
 * live pool has that name. */
uint32_t kernel_pool_find_again(struct kernel *k, struct tn_bytes name) {
    uint32_t last = k->pool_found;
    if (TN_LIKELY(last < k->tables[TABLE_POOL].used) && pool_at(k, last)->state == POOL_LIVE &&
        tn_text_equal(&k->tables[TABLE_TEXT], pool_at(k, last)->name, name)) {
        return last;
    }
    uint32_t pool = kernel_pool_find(k, name);
    k->pool_found = pool == TN_NONE ? last : pool;
    return pool;
}

uint64_t kernel_pool_size(const struct kernel *k, uint32_t pool) {
    const struct kernel_policy *policy = kernel_pool_policy(k, pool);
    if (policy->of[KERNEL_OPTION_KIND] == KERNEL_SET) {
        return pool_at(k, pool)->resources;
    }
    return kernel_policy_size(policy);
}

/* The next excluded part of the range; both lists are sorted. *exclude and *span are positions in
 * them, from 0. False: there is none left. */
static bool excluded_part(const struct kernel_policy *policy, uint64_t *exclude, uint64_t *span,
                          struct kernel_span *ret_part) {
    struct kernel_span in;
    while (*exclude < policy->exclude_count && kernel_policy_span_at(policy, *span, &in)) {
        struct kernel_span out = policy->exclude[*exclude];
        ret_part->lo = out.lo > in.lo ? out.lo : in.lo;
        ret_part->hi = out.hi < in.hi ? out.hi : in.hi;
        *(out.hi < in.hi ? exclude : span) += 1;
        if (ret_part->lo <= ret_part->hi) {
            return true;
        }
    }
    return false;
}

/* The number of excluded values in the range: up to 2^64. */
static unsigned __int128 excluded_count(const struct kernel_policy *policy) {
    unsigned __int128 count = 0;
    uint64_t exclude = 0, span = 0;
    struct kernel_span part;
    while (excluded_part(policy, &exclude, &span, &part)) {
        count += (unsigned __int128)(part.hi - part.lo) + 1;
    }
    return count;
}

uint64_t kernel_pool_capacity(const struct kernel *k, uint32_t pool) {
    const struct kernel_policy *policy = kernel_pool_policy(k, pool);
    if (policy->of[KERNEL_OPTION_KIND] == KERNEL_SET) {
        return pool_at(k, pool)->resources;
    }
    uint64_t size = kernel_policy_size(policy);
    unsigned __int128 excluded = excluded_count(policy);
    if (excluded == 0) {
        return size;
    }
    bool one = policy->span_count == 0; /* several have less than 2^64 values */
    uint64_t last = one ? policy->of[KERNEL_OPTION_HI] - policy->of[KERNEL_OPTION_LO] : size - 1;
    return excluded > last ? 0 : (uint64_t)(last - excluded + 1);
}

/* In use by a lease or cooling, in the spans of `policy`. Cold values are free. */
static uint64_t span_in_use(const struct kernel *k, uint32_t pool, struct kernel_span span) {
    uint64_t count = 0;
    for (uint64_t word = span.lo >> 6; word <= span.hi >> 6; word++) {
        uint64_t bits = tn_bitmap_word(&k->taken, pool, word << 6);
        for (; bits != 0; bits &= bits - 1) {
            uint64_t value = word << 6 | (uint64_t)__builtin_ctzll(bits);
            count += value >= span.lo && value <= span.hi &&
                     member_at(k, kernel_index_value(k, pool, value))->state != MEMBER_COLD;
        }
    }
    return count;
}

void kernel_pool_excluded(const struct kernel *k, uint32_t pool, uint64_t *ret_count,
                          uint64_t *ret_used) {
    const struct kernel_policy *policy = kernel_pool_policy(k, pool);
    uint64_t exclude = 0, span = 0;
    struct kernel_span part;
    unsigned __int128 count = excluded_count(policy);
    *ret_count = count > UINT64_MAX ? UINT64_MAX : (uint64_t)count;
    *ret_used = 0;
    if (*ret_count > EXCLUDED_COUNTED_MAX || pool_at(k, pool)->used == 0) {
        return;
    }
    while (excluded_part(policy, &exclude, &span, &part)) {
        *ret_used += span_in_use(k, pool, part);
    }
}

/* ---- policies ---- */

uint64_t kernel_pool_fault(const struct kernel *k, const struct kernel_policy_patch *patch,
                           struct kernel_policy *policy) {
    return kernel_policy_patch_fault(patch, policy, kernel_limit(k, KERNEL_LIMIT_RATE_WINDOW));
}

bool kernel_pool_tracks(const struct kernel_policy *policy) {
    return policy->of[KERNEL_OPTION_STICKY] || policy->of[KERNEL_OPTION_MAX_PER_HOLDER] != 0;
}

void kernel_pool_sum_scopes(struct kernel *k) {
    for (uint32_t i = 0; i < k->tables[TABLE_POOL].used; i++) {
        const struct pool *p = pool_at(k, i);
        for (unsigned s = 0;
             p->state == POOL_LIVE && p->template != TN_NONE && s <= KERNEL_REVOKING; s++) {
            pool_mut(k, p->template)->held[s] += p->held[s];
        }
    }
}

/* ---- making and dropping ---- */

/* Everything but name, template, policy, refs and mapped. */
static void pool_reset(struct pool *p) {
    uint32_t name = p->name, template = p->template, refs = p->refs;
    uint8_t mapped = p->mapped;
    struct kernel_policy policy = p->policy;
    memset(p, 0, sizeof *p);
    p->name = name;
    p->template = template;
    p->refs = refs;
    p->mapped = mapped;
    p->policy = policy;
    p->state = POOL_LIVE;
    p->meter = TN_NONE;
    p->cold_head = p->cold_tail = TN_NONE;
    p->first_resource = TN_NONE;
    p->drain_next = TN_NONE;
}

static uint32_t pool_new(struct kernel *k, struct tn_bytes name, uint32_t template,
                         const struct kernel_policy *policy) {
    uint32_t slot = tn_table_take(&k->tables[TABLE_POOL]);
    TN_ASSERT(slot != TN_NONE);
    TN_ASSERT((template == TN_NONE) == (policy != NULL)); /* a scope follows its template */
    struct pool *p = pool_mut(k, slot);
    p->name = tn_text_put(&k->tables[TABLE_TEXT], name);
    p->template = template;
    if (policy != NULL) {
        p->policy = *policy;
    } else {
        pool_mut(k, template)->refs++;
    }
    pool_reset(p);
    p->mapped = 1;
    kernel_index_text_add(k, TEXT_POOL, slot);
    return slot;
}

static void ref_drop(struct kernel *k, uint32_t pool) {
    struct pool *p = pool_mut(k, pool);
    TN_ASSERT(p->refs > 0);
    p->refs--;
}

/* Frees the record when nothing can refer to it any more. A scope then releases its template, which
 * may be freed, too. */
static void pool_free_if_unused(struct kernel *k, uint32_t pool) {
    while (pool != TN_NONE) {
        const struct pool *p = pool_at(k, pool);
        if (p->state != POOL_DROPPED || p->refs > 0 || p->resources > 0) {
            return;
        }
        uint32_t template = p->template;
        if (p->mapped) {
            kernel_index_text_remove(k, TEXT_POOL, pool);
        }
        tn_text_drop(&k->tables[TABLE_TEXT], p->name);
        tn_table_give(&k->tables[TABLE_POOL], pool);
        if (template != TN_NONE) {
            ref_drop(k, template);
        }
        pool = template;
    }
}

void kernel_pool_unref(struct kernel *k, uint32_t pool) {
    ref_drop(k, pool);
    pool_free_if_unused(k, pool);
}

static void pool_unmap(struct kernel *k, uint32_t pool) {
    TN_ASSERT(pool_at(k, pool)->mapped);
    kernel_index_text_remove(k, TEXT_POOL, pool);
    pool_mut(k, pool)->mapped = 0;
}

static void pool_drop(struct kernel *k, uint32_t pool) {
    /* Scopes come and go with their leases, whose events name them; a kept one does not. */
    uint32_t template = pool_at(k, pool)->template;
    bool kept = pool_at(k, pool)->kept != 0;
    if (template == TN_NONE || kept) {
        kernel_event_pool(k, KERNEL_EVENT_POOL_DROPPED, pool, 0);
    }
    kernel_value_cold_forget(k, pool);
    kernel_meter_drop(k, pool);
    kernel_line_unlist(k, pool);
    struct pool *p = pool_mut(k, pool);
    TN_ASSERT(p->state == POOL_LIVE && p->used == 0 && p->scopes == 0 && p->waiting == 0);
    TN_ASSERT(root_at(k)->pools_live > 0);
    p->state = POOL_DROPPED;
    root_mut(k)->pools_live--;
    if (template != TN_NONE) {
        TN_ASSERT(pool_at(k, template)->scopes > 0);
        pool_mut(k, template)->scopes--;
    } else {
        pool_unmap(k, pool);
    }
    if (kept) {
        kernel_scope_sum(k, template);
    }
    if (p->resources > 0) {
        p->drain_next = root_at(k)->drain_head;
        root_mut(k)->drain_head = pool;
        return;
    }
    pool_free_if_unused(k, pool);
}

void kernel_pool_maybe_empty(struct kernel *k, uint32_t pool) {
    struct pool *p = pool_mut(k, pool);
    if (p->used == 0 && p->waiting == 0 && p->state == POOL_LIVE && !p->empty_listed) {
        TN_ASSERT(k->empty_count < k->tables[TABLE_POOL].capacity);
        p->empty_listed = 1;
        k->empty_scopes[k->empty_count++] = pool;
    }
}

void kernel_pool_drop_empty(struct kernel *k) {
    for (uint32_t i = 0; i < k->empty_count; i++) {
        struct pool *p = pool_mut(k, k->empty_scopes[i]);
        if (p->state == POOL_FREE) {
            continue; /* POOL DROP of a scope that became empty by it: the record has been freed */
        }
        TN_ASSERT(p->empty_listed);
        p->empty_listed = 0;
        if (p->used == 0 && p->waiting == 0 && p->state == POOL_LIVE && !p->kept) {
            pool_drop(k, k->empty_scopes[i]);
        }
    }
    k->empty_count = 0;
}

/* Live pools are bounded by pools_max; the table has room for dropped ones besides. */
static bool pools_full(const struct kernel *k) {
    return root_at(k)->pools_live >= kernel_limit(k, KERNEL_LIMIT_POOLS) ||
           tn_table_room(&k->tables[TABLE_POOL]) == 0;
}

/* A record for the scope: its own old one if it is still there, else a new one. */
static enum tn_result scope_record(struct kernel *k, uint32_t template, struct tn_bytes name,
                                   uint32_t *ret_pool) {
    uint32_t old = kernel_index_text(k, TEXT_POOL, name);
    if (pools_full(k)) {
        return TN_R_POOLS_FULL;
    }
    if (old != TN_NONE && pool_at(k, old)->template == template) {
        TN_ASSERT(pool_at(k, old)->state == POOL_DROPPED);
        /* Its own policy ended when the scope was dropped. */
        memset(&pool_mut(k, old)->policy, 0, sizeof(struct kernel_policy));
        pool_reset(pool_mut(k, old));
        *ret_pool = old;
        return TN_R_OK;
    }
    if (tn_table_room(&k->tables[TABLE_TEXT]) < tn_text_chunks(name.len)) {
        return TN_R_NAMES_FULL;
    }
    if (old != TN_NONE) {
        pool_unmap(k, old); /* a scope of an earlier template of that name */
    }
    *ret_pool = pool_new(k, name, template, NULL);
    return TN_R_OK;
}

enum tn_result kernel_pool_scope(struct kernel *k, uint32_t template, struct tn_bytes name,
                                 uint32_t *ret_pool) {
    const struct kernel_policy *policy = &pool_at(k, template)->policy;
    bool sticky = policy->of[KERNEL_OPTION_STICKY] != 0;
    if (sticky && tn_table_room(&k->tables[TABLE_METER]) == 0) {
        return TN_R_POOLS_FULL;
    }
    uint32_t pool;
    enum tn_result code = scope_record(k, template, name, &pool);
    if (code != TN_R_OK) {
        return code;
    }
    if (sticky) {
        kernel_meter_take(k, pool);
    }
    /* As the template: a quota that is off may come back while the scope is in use. */
    pool_mut(k, pool)->tracked = kernel_pool_tracks(policy) || pool_at(k, template)->tracked;
    root_mut(k)->pools_live++;
    pool_mut(k, template)->scopes++;
    kernel_pool_maybe_empty(k, pool); /* goes again at the end of the command if it stays empty */
    *ret_pool = pool;
    return TN_R_OK;
}

/* ---- the verbs ---- */

/* Creating an existing pool: declarations may be repeated. If options differ, the result says
 * which one, counted from 1. */
static void create_again(const struct kernel *k, uint32_t pool, const struct kernel_policy *policy,
                         uint64_t fault, struct kernel_result *result) {
    unsigned differs = kernel_policy_differs(policy, &pool_at(k, pool)->policy);
    bool same = fault == KERNEL_FAULT_NONE && differs == KERNEL_OPTION_ALL;
    result->code = same && kernel_edition_has(k, 1) ? TN_R_NOOP : TN_R_EXISTS;
    result->number = differs < KERNEL_OPTION_ALL && kernel_edition_has(k, 1) ? differs + 1 : 0;
}

void kernel_pool_refuse(const struct kernel *k, uint64_t fault, struct kernel_result *result) {
    result->code = TN_R_BAD_POLICY;
    result->number = kernel_edition_has(k, 1) ? fault : 0;
}

void kernel_run_pool_create(struct kernel *k, const struct kernel_command *c,
                            struct kernel_result *result) {
    bool scoped;
    (void)kernel_name_pool_base(c->pool, &scoped);
    if (scoped && kernel_edition_has(k, 1)) {
        kernel_scope_create(k, c, result);
        return;
    }
    struct kernel_policy_patch patch = kernel_policy_read(c->policy_bytes);
    struct kernel_policy policy = kernel_policy_new(&patch);
    bool metered = policy.of[KERNEL_OPTION_STICKY] && !policy.of[KERNEL_OPTION_SCOPED];
    uint64_t fault = kernel_pool_fault(k, &patch, &policy);
    uint32_t there = kernel_pool_find(k, c->pool);
    if (!kernel_name_pool_valid(c->pool, false)) {
        result->code = TN_R_BAD_NAME;
    } else if (policy.of[KERNEL_OPTION_INTERNAL] && !(c->rights & KERNEL_RIGHT_SUPERVISOR)) {
        result->code = TN_R_DENIED;
    } else if (there != TN_NONE) {
        create_again(k, there, &policy, fault, result);
    } else if (fault != KERNEL_FAULT_NONE) {
        kernel_pool_refuse(k, fault, result);
    } else if (pools_full(k) || (metered && tn_table_room(&k->tables[TABLE_METER]) == 0)) {
        result->code = TN_R_POOLS_FULL;
    } else if (tn_table_room(&k->tables[TABLE_TEXT]) < tn_text_chunks(c->pool.len)) {
        result->code = TN_R_NAMES_FULL;
    } else {
        uint32_t pool = pool_new(k, c->pool, TN_NONE, &policy);
        root_mut(k)->pools_live++;
        pool_mut(k, pool)->tracked = kernel_pool_tracks(&policy);
        if (metered) {
            kernel_meter_take(k, pool);
        }
        kernel_event_pool(k, KERNEL_EVENT_POOL_CREATED, pool, 0);
    }
}

/* OK if no value in from..to is held or cooling; a cold one does not count. *words is how many
 * words of the bitmap may still be looked at. */
static enum tn_result span_unused(const struct kernel *k, uint32_t pool, uint64_t from, uint64_t to,
                                  uint64_t *words) {
    if ((to >> 6) - (from >> 6) >= *words) {
        return TN_R_TOO_LARGE;
    }
    *words -= (to >> 6) - (from >> 6) + 1;
    for (uint64_t word = from >> 6; word <= to >> 6; word++) {
        uint64_t bits = tn_bitmap_word(&k->taken, pool, word << 6);
        for (; bits != 0; bits &= bits - 1) {
            uint64_t value = word << 6 | (uint64_t)__builtin_ctzll(bits);
            uint32_t owner = kernel_index_value(k, pool, value);
            if (value >= from && value <= to && member_at(k, owner)->state != MEMBER_COLD) {
                return TN_R_POOL_IN_USE;
            }
        }
    }
    return TN_R_OK;
}

/* The first part of `span` from *from on that the policy does not have. False: there is none
 * left. */
static bool part_removed(const struct kernel_policy *next, struct kernel_span span, uint64_t *from,
                         struct kernel_span *ret_part) {
    struct kernel_span kept;
    while (*from <= span.hi && kernel_policy_span(next, *from, &kept) && kept.lo <= *from) {
        if (kept.hi >= span.hi) {
            return false;
        }
        *from = kept.hi + 1;
    }
    if (*from > span.hi) {
        return false;
    }
    bool above = kernel_policy_span(next, *from, &kept) && kept.lo <= span.hi;
    *ret_part = (struct kernel_span){.lo = *from, .hi = above ? kept.lo - 1 : span.hi};
    return true;
}

static bool ranges_meet(const struct kernel_policy *a, const struct kernel_policy *b) {
    struct kernel_span span;
    struct kernel_span other;
    for (uint64_t i = 0; kernel_policy_span_at(a, i, &span); i++) {
        if (kernel_policy_span(b, span.lo, &other) && other.lo <= span.hi) {
            return true;
        }
    }
    return false;
}

/* Values used in the range of the pool's policy; of a template: in its scopes but for those that have
 * a range of their own. */
static uint64_t range_used(const struct kernel *k, uint32_t pool) {
    uint64_t used = pool_at(k, pool)->used;
    for (uint32_t i = 0; pool_at(k, pool)->kept_scopes > 0 && i < k->tables[TABLE_POOL].used; i++) {
        const struct pool *p = pool_at(k, i);
        if (p->state == POOL_LIVE && p->template == pool &&
            p->own & KERNEL_OWN(KERNEL_OPTION_SPANS)) {
            used -= p->used;
        }
    }
    return used;
}

/* Whether the values that the new range leaves out may go. */
static enum tn_result range_may_change(const struct kernel *k, uint32_t pool,
                                       const struct kernel_policy *next) {
    const struct kernel_policy *old = kernel_pool_policy(k, pool);
    bool disjoint = !ranges_meet(old, next);
    bool single = old->span_count == 0 && next->span_count == 0;
    uint64_t words = SHRINK_WORDS_MAX;
    struct kernel_span span;
    struct kernel_span part;
    if (old->of[KERNEL_OPTION_KIND] == KERNEL_SET || range_used(k, pool) == 0) {
        return TN_R_OK;
    }
    for (uint64_t i = 0; kernel_policy_span_at(old, i, &span); i++) {
        uint64_t from = span.lo;
        for (bool more = true; more && part_removed(next, span, &from, &part);) {
            if (kernel_pool_is_template(k, pool) || disjoint) {
                return TN_R_POOL_IN_USE;
            }
            /* In a single span, each end has its own limit. */
            words = single ? SHRINK_WORDS_MAX : words;
            enum tn_result code = span_unused(k, pool, part.lo, part.hi, &words);
            if (code != TN_R_OK) {
                return code;
            }
            more = part.hi < span.hi; /* hi may be the largest number */
            from = part.hi + 1;
        }
    }
    return TN_R_OK;
}

static enum tn_result alter_allowed(const struct kernel *k, uint32_t pool,
                                    const struct kernel_policy *next, uint8_t rights) {
    const struct pool *p = pool_at(k, pool);
    const struct kernel_policy *policy = kernel_pool_policy(k, pool);
    const uint64_t *old = policy->of, *of = next->of;
    bool scope = p->template != TN_NONE;
    if (old[KERNEL_OPTION_KIND] != of[KERNEL_OPTION_KIND] ||
        old[KERNEL_OPTION_SCOPED] != of[KERNEL_OPTION_SCOPED] ||
        (scope && (!kernel_edition_has(k, 1) || !kernel_scope_may_have(policy, next)))) {
        return TN_R_BAD_REQUEST;
    }
    if ((old[KERNEL_OPTION_INTERNAL] || of[KERNEL_OPTION_INTERNAL]) &&
        !(rights & KERNEL_RIGHT_SUPERVISOR)) {
        return TN_R_DENIED;
    }
    bool sticky_changes = old[KERNEL_OPTION_STICKY] != of[KERNEL_OPTION_STICKY];
    bool must_count = kernel_pool_tracks(next) && !kernel_pool_tracks(policy) && !p->tracked;
    if ((p->used > 0 && (sticky_changes || must_count)) || (p->scopes > 0 && sticky_changes) ||
        (p->waiting > 0 && sticky_changes)) {
        return TN_R_POOL_IN_USE;
    }
    bool metered = sticky_changes && of[KERNEL_OPTION_STICKY] && !of[KERNEL_OPTION_SCOPED];
    if (metered && tn_table_room(&k->tables[TABLE_METER]) == 0) {
        return TN_R_POOLS_FULL;
    }
    return range_may_change(k, pool, next);
}

/* The meters of a pool, or of all its scopes, follow a new policy at once. */
static void meters_follow(struct kernel *k, uint32_t pool) {
    for (uint32_t i = 0; i < k->tables[TABLE_METER].used; i++) {
        uint32_t pool1 = meter_at(k, i)->pool1;
        if (pool1 != 0 && (pool1 - 1 == pool || pool_at(k, pool1 - 1)->template == pool)) {
            kernel_meter_advance(k, pool1 - 1);
        }
    }
}

/* Whether what an alter makes of a template goes with what its kept scopes have of their own. */
static uint64_t scopes_fault(const struct kernel *k, uint32_t template,
                             const struct kernel_policy *next) {
    for (uint32_t i = 0; pool_at(k, template)->kept_scopes > 0 && i < k->tables[TABLE_POOL].used;
         i++) {
        const struct pool *p = pool_at(k, i);
        if (p->state == POOL_LIVE && p->template == template && p->kept) {
            struct kernel_policy policy = kernel_scope_policy(next, p);
            uint64_t fault =
                kernel_policy_fault(&policy, kernel_limit(k, KERNEL_LIMIT_RATE_WINDOW));
            if (fault != KERNEL_FAULT_NONE) {
                return fault;
            }
        }
    }
    return KERNEL_FAULT_NONE;
}

static void alter_apply(struct kernel *k, uint32_t pool, const struct kernel_policy *next) {
    struct pool *p = pool_mut(k, pool);
    bool scope = p->template != TN_NONE;
    bool was_sticky = p->policy.of[KERNEL_OPTION_STICKY] != 0;
    bool range_changes = p->policy.of[KERNEL_OPTION_LO] != next->of[KERNEL_OPTION_LO] ||
                         p->policy.of[KERNEL_OPTION_HI] != next->of[KERNEL_OPTION_HI] ||
                         memcmp(p->policy.spans, next->spans, sizeof next->spans) != 0;
    bool exclude_changes = p->policy.exclude_count != next->exclude_count ||
                           memcmp(p->policy.exclude, next->exclude, sizeof next->exclude) != 0;
    if (range_changes || exclude_changes || next->of[KERNEL_OPTION_STRATEGY] != KERNEL_COLDEST) {
        kernel_value_cold_forget(k, pool);
    }
    meters_follow(k, pool); /* by the old policy, up to now */
    p->policy = *next;
    if (p->used == 0) {
        p->tracked = kernel_pool_tracks(next) || (scope && pool_at(k, p->template)->tracked);
    }
    bool sticky = next->of[KERNEL_OPTION_STICKY] && !next->of[KERNEL_OPTION_SCOPED];
    if (!scope && was_sticky && !sticky) {
        kernel_meter_drop(k, pool);
    } else if (!scope && !was_sticky && sticky) {
        kernel_meter_take(k, pool);
    }
    meters_follow(k, pool);
}

/* The kept scopes of a template take over its options, except those of their own. */
static void scopes_follow(struct kernel *k, uint32_t template) {
    for (uint32_t i = 0; pool_at(k, template)->kept_scopes > 0 && i < k->tables[TABLE_POOL].used;
         i++) {
        const struct pool *p = pool_at(k, i);
        if (p->state == POOL_LIVE && p->template == template && p->kept) {
            struct kernel_policy next = kernel_scope_policy(&pool_at(k, template)->policy, p);
            alter_apply(k, i, &next);
        }
    }
    kernel_scope_sum(k, template);
}

/* An alter of a scope: what it names is the scope's own from now on. */
static void scope_alter(struct kernel *k, uint32_t pool, const struct kernel_policy *next,
                        uint64_t own) {
    kernel_scope_keep(k, pool, kernel_pool_policy(k, pool), own);
    alter_apply(k, pool, next);
    kernel_scope_sum(k, pool_at(k, pool)->template);
}

/* What is due in the pool happens first, in a bounded step. */
static void pool_apply_due(struct kernel *k, uint32_t pool) {
    uint32_t budget = (uint32_t)kernel_limit(k, KERNEL_LIMIT_TICK_STEP);
    uint64_t freed = 0;
    kernel_due_clock(k, pool, &budget, &freed);
    if (pool_at(k, pool)->mixed > 0) {
        kernel_due_clock(k, kernel_clock_mixed(k), &budget, &freed);
    }
}

void kernel_run_pool_alter(struct kernel *k, const struct kernel_command *c,
                           struct kernel_result *result) {
    uint32_t pool = kernel_pool_find(k, c->pool);
    if (pool == TN_NONE) {
        result->code = TN_R_POOL_NOTFOUND;
        return;
    }
    pool_apply_due(k, pool);
    struct kernel_policy_patch patch = kernel_policy_read(c->policy_bytes);
    bool scope = pool_at(k, pool)->template != TN_NONE;
    struct kernel_policy next =
        kernel_edition_has(k, 1) ? *kernel_pool_policy(k, pool) : pool_at(k, pool)->policy;
    kernel_policy_apply(&next, &patch);
    uint64_t fault = kernel_pool_fault(k, &patch, &next);
    fault = fault != KERNEL_FAULT_NONE ? fault : scopes_fault(k, pool, &next);
    if (fault != KERNEL_FAULT_NONE) {
        kernel_pool_refuse(k, fault, result);
        return;
    }
    result->code = alter_allowed(k, pool, &next, c->rights);
    if (result->code == TN_R_TOO_LARGE) {
        result->number = (uint64_t)SHRINK_WORDS_MAX * 64;
    }
    if (result->code != TN_R_OK) {
        return;
    }
    bool known = !scope || (kernel_policy_patch_options(&patch) & ~pool_at(k, pool)->own) == 0;
    if (known && memcmp(&next, kernel_pool_policy(k, pool), sizeof next) == 0) {
        result->code = TN_R_NOOP;
        return;
    }
    if (scope) {
        scope_alter(k, pool, &next, kernel_policy_patch_options(&patch));
    } else {
        alter_apply(k, pool, &next);
        scopes_follow(k, pool);
    }
    kernel_line_stir_policy(k, pool);
    kernel_event_pool(k, KERNEL_EVENT_POOL_ALTERED, pool, 0);
}

void kernel_run_pool_drop(struct kernel *k, const struct kernel_command *c,
                          struct kernel_result *result) {
    uint32_t pool = kernel_pool_find(k, c->pool);
    if (pool == TN_NONE) {
        result->code = TN_R_POOL_NOTFOUND;
    } else if (kernel_pool_option(k, pool, KERNEL_OPTION_INTERNAL) &&
               !(c->rights & KERNEL_RIGHT_SUPERVISOR)) {
        result->code = TN_R_DENIED;
    } else {
        pool_apply_due(k, pool);
        const struct pool *p = pool_at(k, pool);
        bool used = p->used > 0 || p->scopes > 0 || p->waiting > 0;
        result->code = used ? TN_R_POOL_IN_USE : TN_R_OK;
        if (result->code == TN_R_OK) {
            pool_drop(k, pool);
        }
    }
}
