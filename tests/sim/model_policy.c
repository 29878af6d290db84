/* Creating, altering and dropping pools. */
#include "sim/model.h"

#include <stdio.h>
#include <string.h>

#include "base/chunks.h"

static bool excludes_sound(struct kernel_policy *p) {
    /* Sorted by a plain exchange; there are few. */
    for (uint64_t i = 0; i < p->exclude_count; i++) {
        for (uint64_t j = i + 1; j < p->exclude_count; j++) {
            if (p->exclude[j].lo < p->exclude[i].lo) {
                struct kernel_span span = p->exclude[i];
                p->exclude[i] = p->exclude[j];
                p->exclude[j] = span;
            }
        }
    }
    for (uint64_t i = 0; i < p->exclude_count; i++) {
        if (p->exclude[i].lo > p->exclude[i].hi) {
            return false;
        }
        for (uint64_t j = 0; j < i; j++) {
            if (p->exclude[j].hi >= p->exclude[i].lo) {
                return false;
            }
        }
    }
    return true;
}

/* Spans in order; those that touch are one; lo and hi are their ends. */
static bool spans_sound(struct kernel_policy *p) {
    struct kernel_span *s = p->spans;
    for (uint64_t i = 0; i < p->span_count; i++) {
        if (s[i].lo > s[i].hi) {
            return false;
        }
        for (uint64_t j = 0; j < i; j++) {
            if (s[i].lo <= s[j].hi && s[j].lo <= s[i].hi) {
                return false;
            }
        }
    }
    for (uint64_t i = 0; i < p->span_count;) {
        uint64_t j = 0;
        while (j < p->span_count && (s[i].hi == UINT64_MAX || s[j].lo != s[i].hi + 1)) {
            j++;
        }
        if (j == p->span_count) {
            i++;
            continue;
        }
        s[i].hi = s[j].hi;
        s[j] = s[--p->span_count];
        i = 0;
    }
    for (uint64_t i = 0; i < p->span_count; i++) {
        for (uint64_t j = i + 1; j < p->span_count; j++) {
            if (s[j].lo < s[i].lo) {
                struct kernel_span span = s[i];
                s[i] = s[j];
                s[j] = span;
            }
        }
    }
    if (p->span_count > 0) {
        p->of[KERNEL_OPTION_LO] = s[0].lo;
        p->of[KERNEL_OPTION_HI] = s[p->span_count - 1].hi;
    }
    p->span_count = p->span_count == 1 ? 0 : p->span_count;
    memset(s + p->span_count, 0, (KERNEL_SPANS_MAX - p->span_count) * sizeof s[0]);
    return true;
}

static bool policy_sound(const struct model *m, struct kernel_policy *p) {
    const uint64_t *of = p->of;
    bool sound =
        excludes_sound(p) && spans_sound(p) && of[KERNEL_OPTION_LO] <= of[KERNEL_OPTION_HI];
    for (uint32_t i = 0; i < KERNEL_OPTION_COUNT; i++) {
        sound = sound && of[i] <= kernel_option_rows[i].high;
    }
    if (of[KERNEL_OPTION_KIND] == KERNEL_SET) {
        sound =
            sound && p->exclude_count == 0 && p->span_count == 0 && of[KERNEL_OPTION_SCOPED] == 0;
    }
    if (of[KERNEL_OPTION_FORMAT] == KERNEL_MAC) {
        sound = sound && of[KERNEL_OPTION_HI] <= 0xffffffffffff;
    }
    if (of[KERNEL_OPTION_FORMAT] == KERNEL_IPV4) {
        sound = sound && of[KERNEL_OPTION_HI] <= 0xffffffff;
    }
    if (of[KERNEL_OPTION_MAX_LEASE] != 0) {
        sound = sound && of[KERNEL_OPTION_LEASE] <= of[KERNEL_OPTION_MAX_LEASE];
    }
    if (of[KERNEL_OPTION_STICKY] != 0) {
        sound = sound && of[KERNEL_OPTION_LEASE] > 0 &&
                of[KERNEL_OPTION_LEASE] >= of[KERNEL_OPTION_MIN_LEASE] &&
                of[KERNEL_OPTION_RATE_WINDOW] > 0 &&
                of[KERNEL_OPTION_RATE_WINDOW] <= m->limits.of[KERNEL_LIMIT_RATE_WINDOW] &&
                of[KERNEL_OPTION_ULTRA_RATE] >= of[KERNEL_OPTION_HIGH_RATE];
    }
    return sound;
}

/* Which fault is reported; that there is one was decided here. */
static uint64_t fault_told(const struct model *m, const struct kernel_policy_patch *patch,
                           struct kernel_policy *p) {
    return kernel_policy_patch_fault(patch, p, m->limits.of[KERNEL_LIMIT_RATE_WINDOW]);
}

static bool patch_sound(const struct model *m, const struct kernel_policy_patch *patch,
                        struct kernel_policy *p) {
    static const uint32_t adaptive =
        1u << KERNEL_OPTION_ADAPTIVE | 1u << KERNEL_OPTION_MIN_LEASE |
        1u << KERNEL_OPTION_RATE_WINDOW | 1u << KERNEL_OPTION_HIGH_RATE |
        1u << KERNEL_OPTION_ULTRA_RATE | 1u << KERNEL_OPTION_ULTRA_SUSTAIN |
        1u << KERNEL_OPTION_MIN_FACTOR | 1u << KERNEL_OPTION_FORCE_RELEASE |
        1u << KERNEL_OPTION_METRICS_SECONDS;
    bool sticky = p->of[KERNEL_OPTION_STICKY] != 0;
    bool sound = policy_sound(m, p);
    for (unsigned o = KERNEL_OPTION_LO; o <= KERNEL_OPTION_HI; o++) {
        bool named = (patch->mask >> o & 1) != 0;
        bool same = patch->values.of[o] == p->of[o];
        sound = sound && (!named || (patch->has_spans ? same : p->span_count == 0));
    }
    return sound && (sticky || !patch->strict || (patch->mask & adaptive) == 0);
}

/* An existing pool is created again: nothing changes if every option that counts is the same. */
static void created_again(const struct model *m, uint32_t pool, struct kernel_policy *policy,
                          bool sound, struct kernel_result *r) {
    const struct kernel_policy *own = &m->pools[pool].own;
    bool set = policy->of[KERNEL_OPTION_KIND] == KERNEL_SET;
    bool sticky = policy->of[KERNEL_OPTION_STICKY] != 0;
    r->number = 0;
    for (uint32_t i = KERNEL_OPTION_COUNT; i > 0; i--) {
        uint32_t o = i - 1;
        bool bound = o == KERNEL_OPTION_LO || o == KERNEL_OPTION_HI;
        bool adaptive = o >= KERNEL_OPTION_ADAPTIVE && o <= KERNEL_OPTION_METRICS_SECONDS;
        if (own->of[o] != policy->of[o] && !(set && bound) && (sticky || !adaptive)) {
            r->number = o + 1;
        }
    }
    bool excludes = own->exclude_count == policy->exclude_count &&
                    memcmp(own->exclude, policy->exclude,
                           policy->exclude_count * sizeof policy->exclude[0]) == 0;
    bool spans = own->span_count == policy->span_count &&
                 memcmp(own->spans, policy->spans, sizeof own->spans) == 0;
    if (r->number == 0 && !(excludes && spans)) {
        r->number = excludes ? KERNEL_OPTION_SPANS + 1 : KERNEL_OPTION_EXCLUDE + 1;
    }
    r->code = sound && r->number == 0 ? TN_R_NOOP : TN_R_EXISTS;
}

static void patched(struct kernel_policy *p, const struct kernel_policy_patch *patch) {
    for (uint32_t i = 0; i < KERNEL_OPTION_COUNT; i++) {
        if ((patch->mask & 1u << i) != 0) {
            p->of[i] = patch->values.of[i];
        }
    }
    if (patch->has_exclude) {
        memcpy(p->exclude, patch->values.exclude, sizeof p->exclude);
        p->exclude_count = patch->values.exclude_count;
    }
    if (patch->has_spans) {
        memcpy(p->spans, patch->values.spans, sizeof p->spans);
        p->span_count = patch->values.span_count;
    }
}

/* A range has its spans, or the one from lo to hi. */
uint64_t model_span_count(const struct kernel_policy *p) {
    return p->span_count == 0 ? 1 : p->span_count;
}

struct kernel_span model_span(const struct kernel_policy *p, uint64_t i) {
    return p->span_count > 0
               ? p->spans[i]
               : (struct kernel_span){.lo = p->of[KERNEL_OPTION_LO], .hi = p->of[KERNEL_OPTION_HI]};
}

bool model_in_range(const struct kernel_policy *p, uint64_t number) {
    bool in = false;
    for (uint64_t i = 0; i < model_span_count(p); i++) {
        in = in || (number >= model_span(p, i).lo && number <= model_span(p, i).hi);
    }
    return in;
}

bool model_counts_holders(const struct kernel_policy *p) {
    return p->of[KERNEL_OPTION_STICKY] != 0 || p->of[KERNEL_OPTION_MAX_PER_HOLDER] != 0;
}

static bool metered(const struct kernel_policy *p) {
    return p->of[KERNEL_OPTION_STICKY] != 0 && p->of[KERNEL_OPTION_SCOPED] == 0;
}

uint32_t model_pool_records(const struct model *m) {
    uint32_t count = 0;
    for (uint32_t i = 0; i < MODEL_POOLS; i++) {
        count += m->pools[i].state != MODEL_POOL_FREE;
    }
    return count;
}

uint32_t model_meters(const struct model *m) {
    uint32_t count = 0;
    for (uint32_t i = 0; i < MODEL_POOLS; i++) {
        count += m->pools[i].state == MODEL_POOL_LIVE && model_metered(m, i);
    }
    return count;
}

uint32_t model_pools_live(const struct model *m) {
    uint32_t count = 0;
    for (uint32_t i = 0; i < MODEL_POOLS; i++) {
        count += m->pools[i].state == MODEL_POOL_LIVE;
    }
    return count;
}

/* Live pools are bounded, and so are the records of dropped ones that history still names. */
bool model_pools_full(const struct model *m) {
    uint64_t most = m->limits.of[KERNEL_LIMIT_POOLS];
    return model_pools_live(m) >= most ||
           model_pool_records(m) >= most + m->limits.of[KERNEL_LIMIT_HISTORY];
}

/* ---- scopes with a policy of their own ---- */

#define OWN(option) ((uint64_t)1 << (option))
#define OWN_RANGE (OWN(KERNEL_OPTION_LO) | OWN(KERNEL_OPTION_HI) | OWN(KERNEL_OPTION_SPANS))

static uint64_t own_options(const struct kernel_policy_patch *patch) {
    uint64_t own = patch->mask & ~(OWN(KERNEL_OPTION_KIND) | OWN(KERNEL_OPTION_STICKY) |
                                   OWN(KERNEL_OPTION_SCOPED) | OWN(KERNEL_OPTION_INTERNAL));
    own |= patch->has_spans || (own & OWN_RANGE) != 0 ? OWN_RANGE : 0;
    return own | (patch->has_exclude ? OWN(KERNEL_OPTION_EXCLUDE) : 0);
}

/* What the scope has when its template has this. */
static struct kernel_policy overlaid(const struct kernel_policy *template,
                                     const struct model_pool *scope) {
    struct kernel_policy policy = *template;
    for (uint32_t i = 0; i < KERNEL_OPTION_COUNT; i++) {
        policy.of[i] = (scope->own_options >> i & 1) != 0 ? scope->own.of[i] : template->of[i];
    }
    if ((scope->own_options & OWN(KERNEL_OPTION_EXCLUDE)) != 0) {
        memcpy(policy.exclude, scope->own.exclude, sizeof policy.exclude);
        policy.exclude_count = scope->own.exclude_count;
    }
    if ((scope->own_options & OWN(KERNEL_OPTION_SPANS)) != 0) {
        memcpy(policy.spans, scope->own.spans, sizeof policy.spans);
        policy.span_count = scope->own.span_count;
    }
    return policy;
}

/* Kind, sticky, scoped and internal are those of the template. */
static bool scope_like(const struct kernel_policy *a, const struct kernel_policy *b) {
    return a->of[KERNEL_OPTION_KIND] == b->of[KERNEL_OPTION_KIND] &&
           a->of[KERNEL_OPTION_STICKY] == b->of[KERNEL_OPTION_STICKY] &&
           a->of[KERNEL_OPTION_SCOPED] == b->of[KERNEL_OPTION_SCOPED] &&
           a->of[KERNEL_OPTION_INTERNAL] == b->of[KERNEL_OPTION_INTERNAL];
}

static void scope_keep(struct model *m, uint32_t pool, const struct kernel_policy *policy,
                       uint64_t own) {
    struct model_pool *p = &m->pools[pool];
    p->own = *policy;
    p->own_options |= own;
    p->kept = true;
    if (!model_pool_used(m, pool)) {
        p->tracked = model_counts_holders(policy) || m->pools[p->parent].tracked;
    }
}

static void scope_create(struct model *m, const char *name) {
    struct kernel_result *r = &m->want.head;
    struct kernel_policy_patch patch = kernel_policy_read(m->c.policy_bytes);
    char base[MODEL_TEXT];
    snprintf(base, sizeof base, "%s", name);
    base[strcspn(base, "@")] = '\0';
    uint32_t parent = model_pool_find(m, base);
    uint32_t pool = model_pool_find(m, name);
    if (!kernel_name_pool_valid(m->c.pool, true)) {
        r->code = TN_R_BAD_NAME;
        return;
    }
    if (parent == MODEL_NONE || m->pools[parent].own.of[KERNEL_OPTION_SCOPED] == 0) {
        r->code = TN_R_POOL_NOTFOUND;
        return;
    }
    struct kernel_policy policy = m->pools[parent].own;
    patched(&policy, &patch);
    bool sound = patch_sound(m, &patch, &policy);
    if (m->pools[parent].own.of[KERNEL_OPTION_INTERNAL] != 0 &&
        !(m->c.rights & KERNEL_RIGHT_SUPERVISOR)) {
        r->code = TN_R_DENIED;
    } else if (!sound) {
        r->code = TN_R_BAD_POLICY;
        r->number = fault_told(m, &patch, &policy);
    } else if (!scope_like(&policy, &m->pools[parent].own)) {
        r->code = TN_R_BAD_REQUEST;
    } else if (pool != MODEL_NONE) {
        unsigned differs = kernel_policy_differs(&policy, model_policy(m, pool));
        bool known =
            m->pools[pool].kept && (own_options(&patch) & ~m->pools[pool].own_options) == 0;
        r->code = differs < KERNEL_OPTION_ALL ? TN_R_EXISTS : known ? TN_R_NOOP : TN_R_OK;
        r->number = differs < KERNEL_OPTION_ALL ? differs + 1 : 0;
        if (r->code == TN_R_OK) {
            scope_keep(m, pool, &policy, own_options(&patch));
        }
    } else {
        r->code = model_scope_made(m, name, &pool);
        if (r->code == TN_R_OK) {
            scope_keep(m, pool, &policy, own_options(&patch));
            model_expect_name(m, KERNEL_EVENT_POOL_CREATED, name, 0);
        }
    }
}

void model_pool_create(struct model *m) {
    struct kernel_result *r = &m->want.head;
    char name[MODEL_TEXT];
    model_text(name, sizeof name, m->c.pool);
    if (strchr(name, '@') != NULL) {
        scope_create(m, name);
        return;
    }
    struct kernel_policy_patch patch = kernel_policy_read(m->c.policy_bytes);
    struct kernel_policy policy = kernel_policy_default();
    patched(&policy, &patch);
    bool names_lease = (patch.mask & 1u << KERNEL_OPTION_LEASE) != 0;
    if (policy.of[KERNEL_OPTION_STICKY] != 0 && !names_lease) {
        policy.of[KERNEL_OPTION_LEASE] = KERNEL_STICKY_LEASE_S;
    }
    bool sound = patch_sound(m, &patch, &policy);
    uint32_t there = model_pool_find(m, name);
    if (!kernel_name_pool_valid(m->c.pool, false)) {
        r->code = TN_R_BAD_NAME;
    } else if (policy.of[KERNEL_OPTION_INTERNAL] && !(m->c.rights & KERNEL_RIGHT_SUPERVISOR)) {
        r->code = TN_R_DENIED;
    } else if (there != MODEL_NONE) {
        created_again(m, there, &policy, sound, r);
    } else if (!sound) {
        r->code = TN_R_BAD_POLICY;
        r->number = fault_told(m, &patch, &policy);
    } else if (model_pools_full(m) ||
               (metered(&policy) && model_meters(m) >= m->limits.of[KERNEL_LIMIT_RATES])) {
        r->code = TN_R_POOLS_FULL;
    } else if (!model_text_fits(m, tn_text_chunks(m->c.pool.len))) {
        r->code = TN_R_NAMES_FULL;
    } else {
        uint32_t pool = model_pool_new(m, name, false, MODEL_NONE);
        m->pools[pool].own = policy;
        model_rate_begin(m, pool);
        m->pools[pool].tracked = model_counts_holders(&policy);
        model_expect_name(m, KERNEL_EVENT_POOL_CREATED, name, 0);
    }
}

#define SHRINK_MAX 4194304u /* values that one alter may cut off a pool in use */

static bool used_between(const struct model *m, uint32_t pool, uint64_t from, uint64_t to) {
    for (uint32_t i = 0; i < m->lease_count; i++) {
        for (uint32_t v = 0; v < m->leases[i].value_count; v++) {
            const struct model_value *value = &m->leases[i].values[v];
            if (value->pool == pool && value->number >= from && value->number <= to) {
                return true;
            }
        }
    }
    for (uint32_t i = 0; i < m->cooling_count; i++) {
        const struct model_value *value = &m->cooling[i].value;
        if (value->pool == pool && value->number >= from && value->number <= to) {
            return true;
        }
    }
    return false;
}

/* From `from` on, the first number that is in the one policy and not in the other, and the last one
 * behind it of which that is true. Steps from end to end: spans begin and end nowhere else. */
static bool part_cut(const struct kernel_policy *old, const struct kernel_policy *next,
                     uint64_t from, struct kernel_span *ret) {
    for (uint64_t i = 0; i < model_span_count(old); i++) {
        struct kernel_span part = model_span(old, i);
        part.lo = part.lo > from ? part.lo : from;
        for (uint64_t j = 0; part.lo <= part.hi && j < model_span_count(next); j++) {
            struct kernel_span kept = model_span(next, j);
            if (kept.lo <= part.lo && kept.hi >= part.lo) {
                if (kept.hi >= part.hi) {
                    part.lo = 1;
                    part.hi = 0;
                } else {
                    part.lo = kept.hi + 1;
                }
            } else if (kept.lo > part.lo && kept.lo <= part.hi) {
                part.hi = kept.lo - 1;
            }
        }
        if (part.lo <= part.hi) {
            *ret = part;
            return true;
        }
    }
    return false;
}

/* Of a template: in those scopes that have its range. */
static bool range_used(const struct model *m, uint32_t pool) {
    bool used = !m->pools[pool].is_scope && m->pools[pool].own.of[KERNEL_OPTION_SCOPED] != 0
                    ? false
                    : model_pool_used(m, pool);
    for (uint32_t i = 0; i < MODEL_POOLS; i++) {
        const struct model_pool *p = &m->pools[i];
        used = used || (p->state == MODEL_POOL_LIVE && p->is_scope && p->parent == pool &&
                        (p->own_options & OWN_RANGE) == 0 && model_pool_used(m, i));
    }
    return used;
}

/* The kernel looks at a bounded number of values only: of one span at each end, of several in all. */
static enum tn_result range_judged(const struct model *m, uint32_t pool,
                                   const struct kernel_policy *next) {
    const struct kernel_policy *old = model_policy(m, pool);
    bool template = !m->pools[pool].is_scope && old->of[KERNEL_OPTION_SCOPED] != 0;
    bool single = old->span_count == 0 && next->span_count == 0;
    uint64_t left = SHRINK_MAX / 64;
    bool meet = false;
    struct kernel_span part;
    for (uint64_t i = 0; i < model_span_count(old); i++) {
        for (uint64_t j = 0; j < model_span_count(next); j++) {
            meet = meet || (model_span(old, i).lo <= model_span(next, j).hi &&
                            model_span(next, j).lo <= model_span(old, i).hi);
        }
    }
    if (old->of[KERNEL_OPTION_KIND] == KERNEL_SET || !range_used(m, pool) ||
        !part_cut(old, next, 0, &part)) {
        return TN_R_OK;
    }
    if (template || !meet) {
        return TN_R_POOL_IN_USE;
    }
    do {
        uint64_t words = (part.hi >> 6) - (part.lo >> 6) + 1;
        if (words > (single ? SHRINK_MAX / 64 : left)) {
            return TN_R_TOO_LARGE;
        }
        left -= single ? 0 : words;
        if (used_between(m, pool, part.lo, part.hi)) {
            return TN_R_POOL_IN_USE;
        }
    } while (part.hi < UINT64_MAX && part_cut(old, next, part.hi + 1, &part));
    return TN_R_OK;
}

static enum tn_result alter_judged(struct model *m, uint32_t pool,
                                   const struct kernel_policy *next) {
    const struct model_pool *p = &m->pools[pool];
    const struct kernel_policy *policy = model_policy(m, pool);
    const uint64_t *old = policy->of;
    const uint64_t *of = next->of;
    if ((p->is_scope && !scope_like(policy, next)) ||
        old[KERNEL_OPTION_KIND] != of[KERNEL_OPTION_KIND] ||
        old[KERNEL_OPTION_SCOPED] != of[KERNEL_OPTION_SCOPED]) {
        return TN_R_BAD_REQUEST;
    }
    if ((old[KERNEL_OPTION_INTERNAL] || of[KERNEL_OPTION_INTERNAL]) &&
        !(m->c.rights & KERNEL_RIGHT_SUPERVISOR)) {
        return TN_R_DENIED;
    }
    bool sticky_changes = old[KERNEL_OPTION_STICKY] != of[KERNEL_OPTION_STICKY];
    bool must_count = model_counts_holders(next) && !model_counts_holders(policy) && !p->tracked;
    if ((model_pool_in_use(m, pool) && sticky_changes) ||
        (model_pool_used(m, pool) && must_count)) {
        return TN_R_POOL_IN_USE;
    }
    if (sticky_changes && metered(next) && model_meters(m) >= m->limits.of[KERNEL_LIMIT_RATES]) {
        return TN_R_POOLS_FULL;
    }
    return range_judged(m, pool, next);
}

/* The pool, or all its scopes. */
static void evaluate_scopes(struct model *m, uint32_t pool) {
    for (uint32_t i = 0; i < MODEL_POOLS; i++) {
        const struct model_pool *q = &m->pools[i];
        if (q->state == MODEL_POOL_LIVE && (i == pool || (q->is_scope && q->parent == pool))) {
            model_rate_evaluate(m, i);
        }
    }
}

static void alter_applied(struct model *m, uint32_t pool, const struct kernel_policy *next) {
    struct model_pool *p = &m->pools[pool];
    bool moved = p->own.of[KERNEL_OPTION_LO] != next->of[KERNEL_OPTION_LO] ||
                 p->own.of[KERNEL_OPTION_HI] != next->of[KERNEL_OPTION_HI] ||
                 memcmp(p->own.spans, next->spans, sizeof next->spans) != 0;
    bool starts = !p->is_scope && metered(next) && !metered(&p->own);
    bool excludes = p->own.exclude_count != next->exclude_count ||
                    memcmp(p->own.exclude, next->exclude, sizeof next->exclude) != 0;
    if (moved || excludes || next->of[KERNEL_OPTION_STRATEGY] != KERNEL_COLDEST) {
        p->cold_count = 0;
    }
    for (uint32_t i = 0; i < MODEL_POOLS; i++) {
        bool scope = m->pools[i].is_scope && !m->pools[i].kept && m->pools[i].parent == pool;
        bool reached = (i == pool || scope) && (moved || excludes);
        m->pools[i].not_lowest = m->pools[i].not_lowest || reached;
    }
    evaluate_scopes(m, pool); /* by the old terms, until now */
    model_disown_pass(m);
    p->own = *next;
    if (!model_pool_used(m, pool)) {
        p->tracked = model_counts_holders(next) || (p->is_scope && m->pools[p->parent].tracked);
    }
    p->by_value = p->by_value || moved;
    if (starts) {
        model_rate_begin(m, pool);
    }
    evaluate_scopes(m, pool);
}

/* A fault that an alter causes in a kept scope of a template, or KERNEL_FAULT_NONE. Of several scopes the kernel
 * names the first in its table, whose order the model does not have: so what it names is one of theirs. */
static uint64_t scopes_fault(const struct model *m, uint32_t pool,
                             const struct kernel_policy *next) {
    uint64_t found = KERNEL_FAULT_NONE;
    for (uint32_t i = 0; i < MODEL_POOLS; i++) {
        const struct model_pool *p = &m->pools[i];
        if (p->state == MODEL_POOL_LIVE && p->is_scope && p->kept && p->parent == pool) {
            struct kernel_policy policy = overlaid(next, p);
            uint64_t fault = kernel_policy_fault(&policy, m->limits.of[KERNEL_LIMIT_RATE_WINDOW]);
            if (fault != KERNEL_FAULT_NONE && fault == m->got->head.number) {
                return fault;
            }
            found = found == KERNEL_FAULT_NONE ? fault : found;
        }
    }
    return found;
}

static void alter_all(struct model *m, uint32_t pool, const struct kernel_policy *next,
                      uint64_t own) {
    if (m->pools[pool].is_scope) {
        struct kernel_policy before = *model_policy(m, pool);
        scope_keep(m, pool, &before, own);
    }
    alter_applied(m, pool, next);
    for (uint32_t i = 0; i < MODEL_POOLS; i++) {
        struct model_pool *p = &m->pools[i];
        if (p->state == MODEL_POOL_LIVE && p->is_scope && p->kept && p->parent == pool) {
            struct kernel_policy policy = overlaid(next, p);
            alter_applied(m, i, &policy);
        }
    }
}

void model_pool_alter(struct model *m) {
    struct kernel_result *r = &m->want.head;
    char name[MODEL_TEXT];
    model_text(name, sizeof name, m->c.pool);
    uint32_t pool = model_pool_find(m, name);
    if (pool == MODEL_NONE) {
        r->code = TN_R_POOL_NOTFOUND;
        return;
    }
    model_follow(m);
    struct kernel_policy_patch patch = kernel_policy_read(m->c.policy_bytes);
    struct kernel_policy next = *model_policy(m, pool);
    patched(&next, &patch);
    bool sound = patch_sound(m, &patch, &next);
    uint64_t fault = sound ? scopes_fault(m, pool, &next) : fault_told(m, &patch, &next);
    r->code = fault == KERNEL_FAULT_NONE ? alter_judged(m, pool, &next) : TN_R_BAD_POLICY;
    r->number = r->code == TN_R_TOO_LARGE ? SHRINK_MAX : r->code == TN_R_BAD_POLICY ? fault : 0;
    if (r->code != TN_R_OK) {
        return;
    }
    const struct model_pool *p = &m->pools[pool];
    bool known = !p->is_scope || (own_options(&patch) & ~p->own_options) == 0;
    if (known && memcmp(&next, model_policy(m, pool), sizeof next) == 0) {
        r->code = TN_R_NOOP;
        return;
    }
    alter_all(m, pool, &next, own_options(&patch));
    model_wait_altered(m, pool);
    model_expect_name(m, KERNEL_EVENT_POOL_ALTERED, name, 0);
}

static void drop_if_empty(struct model *m, uint32_t pool) {
    struct model_pool *p = &m->pools[pool];
    if (model_pool_in_use(m, pool)) {
        m->want.head.code = TN_R_POOL_IN_USE;
        return;
    }
    p->state = MODEL_POOL_DROPPED;
    p->draining = p->resource_count;
    p->resource_count = 0;
    if (!p->is_scope ||
        p->kept) { /* other scopes come and go with their leases, whose events name them */
        model_expect_name(m, KERNEL_EVENT_POOL_DROPPED, p->name, 0);
    }
}

void model_pool_drop(struct model *m) {
    struct kernel_result *r = &m->want.head;
    char name[MODEL_TEXT];
    model_text(name, sizeof name, m->c.pool);
    uint32_t pool = model_pool_find(m, name);
    if (pool == MODEL_NONE) {
        r->code = TN_R_POOL_NOTFOUND;
    } else if (model_policy(m, pool)->of[KERNEL_OPTION_INTERNAL] &&
               !(m->c.rights & KERNEL_RIGHT_SUPERVISOR)) {
        r->code = TN_R_DENIED;
    } else {
        model_follow(m);
        drop_if_empty(m, pool);
    }
}

static bool record_needed(const struct model *m, uint32_t pool) {
    if (m->pools[pool].draining > 0) {
        return true;
    }
    for (uint32_t j = 0; j < m->history_count; j++) {
        for (uint32_t v = 0; v < m->history[j].value_count; v++) {
            if (m->history[j].values[v].pool == pool) {
                return true;
            }
        }
    }
    for (uint32_t j = 0; j < m->disown_count; j++) {
        if (m->disowns[j].pool == pool) {
            return true;
        }
    }
    for (uint32_t j = 0; j < MODEL_POOLS; j++) {
        const struct model_pool *p = &m->pools[j];
        if (p->state != MODEL_POOL_FREE && p->is_scope && p->parent == pool) {
            return true;
        }
    }
    return false;
}

/* A dropped pool's record is kept while history, a disown or a scope names it. Scopes first: one may
 * be the last to need its template. */
void model_pools_free(struct model *m) {
    for (uint32_t i = 0; i < 2 * MODEL_POOLS; i++) {
        uint32_t pool = i % MODEL_POOLS;
        struct model_pool *p = &m->pools[pool];
        bool turn = p->is_scope == (i < MODEL_POOLS);
        if (turn && p->state == MODEL_POOL_DROPPED && !record_needed(m, pool)) {
            p->state = MODEL_POOL_FREE;
        }
    }
}
