/* The values of a request: claims them one by one, all or nothing, and compares them with the
 * values of an existing lease. */
#include "kernel/claim.h"

static void claim_value(struct kernel *k, struct request *q, uint32_t at, uint32_t pool,
                        uint64_t value) {
    TN_ASSERT(at < q->total && k->plan_members[at] == TN_NONE);
    uint32_t member = kernel_member_new(k, pool, value);
    struct member *m = member_mut(k, member);
    m->state = MEMBER_HELD;
    m->lease = q->lease;
    kernel_value_claim(k, member);
    k->plan_members[at] = member;
}

/* The value has an owner: the result has its lease, or says when it has cooled. */
static enum tn_result busy(struct kernel *k, struct request *q, uint32_t owner, uint32_t index) {
    const struct member *m = member_at(k, owner);
    if (m->state == MEMBER_COOLING) {
        q->result->retry_at_ms = kernel_edition_has(k, 1) ? m->cool_ms : 0;
    } else {
        kernel_result_holder(k, m->lease, q->result);
    }
    return refuse(q->result, TN_R_BUSY, index);
}

static enum tn_result claim_listed(struct kernel *k, struct request *q, uint32_t index) {
    const struct claim_plan *plan = &k->plan_claims[index];
    const struct kernel_policy *policy = kernel_pool_policy(k, plan->pool);
    struct tn_reader r = tn_reader_of(plan->values.at, plan->values.len);
    TN_ASSERT(!plan->any && plan->offset + plan->count <= q->total);
    for (uint32_t i = 0; i < plan->count; i++) {
        struct kernel_requested requested = kernel_requested_read(&r);
        uint64_t value;
        if (kernel_value_resolve(k, plan->pool, &requested, &value) != TN_R_OK) {
            return refuse(q->result, TN_R_BAD_VALUE, plan->offset + i);
        }
        if (policy->of[KERNEL_OPTION_KIND] == KERNEL_RANGE &&
            kernel_value_excluded(policy, value) && !(q->c->rights & KERNEL_RIGHT_OPERATOR)) {
            return refuse(q->result, TN_R_DENIED, plan->offset + i);
        }
        uint32_t owner = kernel_value_owner(k, plan->pool, value);
        if (owner != TN_NONE && member_at(k, owner)->lease == q->lease) {
            return refuse(q->result, TN_R_BAD_VALUE, plan->offset + i); /* named twice */
        }
        if (owner != TN_NONE && member_at(k, owner)->state != MEMBER_COLD) {
            return busy(k, q, owner, plan->offset + i);
        }
        claim_value(k, q, plan->offset + i, plan->pool, value);
    }
    return TN_R_OK;
}

static enum tn_result claim_any(struct kernel *k, struct request *q, uint32_t index) {
    const struct claim_plan *plan = &k->plan_claims[index];
    TN_ASSERT(plan->any && plan->offset + plan->count <= q->total);
    uint32_t cursor = TN_NONE;
    for (uint32_t i = 0; i < plan->count; i++) {
        uint64_t value;
        if (!kernel_value_pick(k, plan->pool, &cursor, &value)) {
            q->result->retry_at_ms = kernel_due_remains(k, plan->pool)
                                         ? root_at(k)->now_ms
                                         : kernel_due_next_free(k, plan->pool);
            return refuse(q->result, TN_R_EXHAUSTED, index);
        }
        tn_map_prefetch(&k->values, kernel_index_value_hash(k, plan->pool, value));
        claim_value(k, q, plan->offset + i, plan->pool, value);
    }
    return TN_R_OK;
}

static void unclaim_all(struct kernel *k, const struct request *q) {
    for (uint32_t i = q->total; i-- > 0;) {
        if (k->plan_members[i] != TN_NONE) {
            kernel_value_unclaim(k, k->plan_members[i]);
            kernel_member_delete(k, k->plan_members[i]);
        }
    }
}

enum tn_result kernel_request_claim(struct kernel *k, struct request *q) {
    struct tn_prng prng = root_at(k)->prng;
    TN_ASSERT(q->total <= kernel_limit(k, KERNEL_LIMIT_BUNDLE)); /* the plan's room */
    memset(k->plan_members, 0xff, q->total * sizeof *k->plan_members);
    enum tn_result code = TN_R_OK;
    for (uint32_t i = 0; i < q->claim_count; i++) {
        kernel_value_prepare(k, k->plan_claims[i].pool);
    }
    for (uint32_t i = 0; i < q->claim_count && code == TN_R_OK; i++) {
        code = k->plan_claims[i].any ? TN_R_OK : claim_listed(k, q, i);
    }
    for (uint32_t i = 0; i < q->claim_count && code == TN_R_OK; i++) {
        code = k->plan_claims[i].any ? claim_any(k, q, i) : TN_R_OK;
    }
    if (code != TN_R_OK) {
        unclaim_all(k, q);
        root_mut(k)->prng = prng;
    }
    return code;
}

/* ---- what a lease has ---- */

/* Marks the lease's members that the listed values name; false if a value is another's or is named
 * twice. */
static bool mark_named(struct kernel *k, const struct claim_plan *plan, uint32_t lease) {
    struct tn_reader r = tn_reader_of(plan->values.at, plan->values.len);
    for (uint32_t i = 0; i < plan->count; i++) {
        struct kernel_requested requested = kernel_requested_read(&r);
        uint64_t value;
        if (kernel_value_resolve(k, plan->pool, &requested, &value) != TN_R_OK) {
            return false;
        }
        uint32_t owner = kernel_value_owner(k, plan->pool, value);
        if (owner == TN_NONE || member_at(k, owner)->lease != lease ||
            member_at(k, owner)->state != MEMBER_HELD || member_at(k, owner)->marked) {
            return false;
        }
        member_mut(k, owner)->marked = 1;
    }
    return true;
}

bool kernel_request_matches(struct kernel *k, uint32_t lease) {
    const struct claim_plan *plan = &k->plan_claims[0];
    const struct lease *l = lease_at(k, lease);
    if (plan->any) {
        return plan->asked == 0 || plan->asked == l->member_count; /* 0: whatever it has */
    }
    bool matches = plan->count == l->member_count && mark_named(k, plan, lease);
    for (uint32_t m = l->first_member; m != TN_NONE; m = member_at(k, m)->next) {
        member_mut(k, m)->marked = 0;
    }
    return matches;
}
