/* Scopes with a policy of their own. See pool.c. */
#include "kernel/scope.h"

static uint64_t add_up(uint64_t a, uint64_t b) {
    return b > UINT64_MAX - a ? UINT64_MAX : a + b;
}

/* Updates a template's figures of its kept scopes after one of them has changed. */
void kernel_scope_sum(struct kernel *k, uint32_t template) {
    TN_ASSERT(pool_at(k, template)->template == TN_NONE); /* templates do not nest */
    struct pool *t = pool_mut(k, template);
    t->kept_scopes = t->kept_capacity = t->kept_excluded = 0;
    for (uint32_t i = 0; i < k->tables[TABLE_POOL].used; i++) {
        const struct pool *p = pool_at(k, i);
        if (p->state == POOL_LIVE && p->template == template && p->kept) {
            t->kept_scopes++;
            t->kept_capacity = add_up(t->kept_capacity, kernel_pool_capacity(k, i));
            uint64_t excluded, used;
            kernel_pool_excluded(k, i, &excluded, &used);
            t->kept_excluded = add_up(t->kept_excluded, excluded);
        }
    }
}

/* The template's policy with the scope's own options in place. */
struct kernel_policy kernel_scope_policy(const struct kernel_policy *template,
                                         const struct pool *scope) {
    TN_ASSERT(scope->template != TN_NONE);
    struct kernel_policy policy = *template;
    for (unsigned i = 0; i < KERNEL_OPTION_COUNT; i++) {
        policy.of[i] = scope->own & KERNEL_OWN(i) ? scope->policy.of[i] : policy.of[i];
    }
    if (scope->own & KERNEL_OWN(KERNEL_OPTION_EXCLUDE)) {
        memcpy(policy.exclude, scope->policy.exclude, sizeof policy.exclude);
        policy.exclude_count = scope->policy.exclude_count;
    }
    if (scope->own & KERNEL_OWN(KERNEL_OPTION_SPANS)) {
        memcpy(policy.spans, scope->policy.spans, sizeof policy.spans);
        policy.span_count = scope->policy.span_count;
    }
    return policy;
}

/* What all scopes of a template have in common. */
bool kernel_scope_may_have(const struct kernel_policy *template,
                           const struct kernel_policy *scope) {
    static const enum kernel_option common[] = {KERNEL_OPTION_KIND, KERNEL_OPTION_STICKY,
                                                KERNEL_OPTION_SCOPED, KERNEL_OPTION_INTERNAL};
    for (unsigned i = 0; i < sizeof common / sizeof common[0]; i++) {
        if (template->of[common[i]] != scope->of[common[i]]) {
            return false;
        }
    }
    return true;
}

void kernel_scope_keep(struct kernel *k, uint32_t pool, const struct kernel_policy *policy,
                       uint64_t own) {
    struct pool *p = pool_mut(k, pool);
    TN_ASSERT(p->state == POOL_LIVE && p->template != TN_NONE);
    p->policy = *policy;
    p->own |= own;
    p->kept = 1;
    if (p->used == 0) {
        p->tracked = kernel_pool_tracks(policy) || pool_at(k, p->template)->tracked;
    }
    kernel_scope_sum(k, p->template);
}

/* Creating a scope by its name, before or after its first use. */
void kernel_scope_create(struct kernel *k, const struct kernel_command *c,
                         struct kernel_result *result) {
    bool scoped;
    struct kernel_policy_patch patch = kernel_policy_read(c->policy_bytes);
    uint32_t pool = kernel_pool_find(k, c->pool);
    uint32_t template = kernel_pool_find(k, kernel_name_pool_base(c->pool, &scoped));
    if (!kernel_name_pool_valid(c->pool, true)) {
        result->code = TN_R_BAD_NAME;
        return;
    }
    if (template == TN_NONE || !kernel_pool_is_template(k, template)) {
        result->code = TN_R_POOL_NOTFOUND;
        return;
    }
    const struct kernel_policy *common = &pool_at(k, template)->policy;
    struct kernel_policy policy = *common;
    kernel_policy_apply(&policy, &patch);
    uint64_t fault = kernel_pool_fault(k, &patch, &policy);
    if (common->of[KERNEL_OPTION_INTERNAL] && !(c->rights & KERNEL_RIGHT_SUPERVISOR)) {
        result->code = TN_R_DENIED;
    } else if (fault != KERNEL_FAULT_NONE) {
        kernel_pool_refuse(k, fault, result);
    } else if (!kernel_scope_may_have(common, &policy)) {
        result->code = TN_R_BAD_REQUEST;
    } else if (pool != TN_NONE) {
        unsigned differs = kernel_policy_differs(&policy, kernel_pool_policy(k, pool));
        bool kept = pool_at(k, pool)->kept &&
                    (kernel_policy_patch_options(&patch) & ~pool_at(k, pool)->own) == 0;
        result->code = differs < KERNEL_OPTION_ALL ? TN_R_EXISTS : kept ? TN_R_NOOP : TN_R_OK;
        result->number = differs < KERNEL_OPTION_ALL ? differs + 1 : 0;
        if (result->code == TN_R_OK) {
            kernel_scope_keep(k, pool, &policy, kernel_policy_patch_options(&patch));
        }
    } else {
        result->code = kernel_pool_scope(k, template, c->pool, &pool);
        if (result->code == TN_R_OK) {
            kernel_scope_keep(k, pool, &policy, kernel_policy_patch_options(&patch));
            kernel_event_pool(k, KERNEL_EVENT_POOL_CREATED, pool, 0);
        }
    }
}
