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

/* Cold values are remembered, and free. */
static bool is_taken(const struct kernel *k, uint32_t owner) {
    return owner != TN_NONE && member_at(k, owner)->state != MEMBER_COLD;
}

/* The next listed value of the claim, which is the request's value `at`. */
static enum tn_result listed_read(const struct kernel *k, const struct request *q,
                                  const struct claim_plan *plan, struct tn_reader *r, uint32_t at,
                                  uint64_t *ret_value) {
    const struct kernel_policy *policy = kernel_pool_policy(k, plan->pool);
    struct kernel_requested requested = kernel_requested_read(r);
    if (kernel_value_resolve(k, plan->pool, &requested, ret_value) != TN_R_OK) {
        return refuse(q->result, TN_R_BAD_VALUE, at);
    }
    if (policy->of[KERNEL_OPTION_KIND] == KERNEL_RANGE &&
        kernel_value_excluded(policy, *ret_value) && !(q->c->rights & KERNEL_RIGHT_OPERATOR)) {
        return refuse(q->result, TN_R_DENIED, at);
    }
    return TN_R_OK;
}

static enum tn_result exhausted(const struct kernel *k, const struct request *q, uint32_t index) {
    uint32_t pool = k->plan_claims[index].pool;
    q->result->retry_at_ms =
        kernel_due_remains(k, pool) ? root_at(k)->now_ms : kernel_due_next_free(k, pool);
    return refuse(q->result, TN_R_EXHAUSTED, index);
}

static enum tn_result claim_listed(struct kernel *k, struct request *q, uint32_t index) {
    const struct claim_plan *plan = &k->plan_claims[index];
    struct tn_reader r = tn_reader_of(plan->values.at, plan->values.len);
    TN_ASSERT(!plan->any && plan->offset + plan->count <= q->total);
    for (uint32_t i = 0; i < plan->count; i++) {
        uint64_t value;
        enum tn_result code = listed_read(k, q, plan, &r, plan->offset + i, &value);
        if (code != TN_R_OK) {
            return code;
        }
        uint32_t owner = kernel_value_owner(k, plan->pool, value);
        if (owner != TN_NONE && member_at(k, owner)->lease == q->lease) {
            return refuse(q->result, TN_R_BAD_VALUE, plan->offset + i); /* named twice */
        }
        if (is_taken(k, owner)) {
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
            return exhausted(k, q, index);
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

/* ---- judging ---- */

/* Whether another claim of the request takes values of the same pool. */
static bool shares_pool(const struct kernel *k, const struct request *q, uint32_t index) {
    for (uint32_t i = 0; i < q->claim_count; i++) {
        if (i != index && k->plan_claims[i].pool == k->plan_claims[index].pool) {
            return true;
        }
    }
    return false;
}

static bool has(const uint64_t *values, uint32_t count, uint64_t value) {
    for (uint32_t i = 0; i < count; i++) {
        if (values[i] == value) {
            return true;
        }
    }
    return false;
}

static enum tn_result judge_listed(struct kernel *k, struct request *q, uint32_t index) {
    const struct claim_plan *plan = &k->plan_claims[index];
    uint64_t values[JUDGED_VALUES];
    struct tn_reader r = tn_reader_of(plan->values.at, plan->values.len);
    for (uint32_t i = 0; i < plan->count; i++) {
        enum tn_result code = listed_read(k, q, plan, &r, plan->offset + i, &values[i]);
        if (code != TN_R_OK) {
            return code;
        }
        if (has(values, i, values[i])) {
            return refuse(q->result, TN_R_BAD_VALUE, plan->offset + i);
        }
        uint32_t owner = kernel_value_owner(k, plan->pool, values[i]);
        if (is_taken(k, owner)) {
            return busy(k, q, owner, plan->offset + i);
        }
    }
    return TN_R_OK;
}

/* NOT_YET: it is not known without claiming the values. */
static enum tn_result judge_any(const struct kernel *k, const struct request *q, uint32_t index) {
    const struct claim_plan *plan = &k->plan_claims[index];
    if (!kernel_value_any(k, plan->pool)) {
        return exhausted(k, q, index);
    }
    if (plan->count == 1) {
        return TN_R_OK;
    }
    const struct pool *p = pool_at(k, plan->pool);
    if (p->template != TN_NONE || kernel_pool_policy(k, plan->pool)->exclude_count > 0) {
        return TN_R_NOT_YET; /* values in use need not be among those that can be given */
    }
    uint64_t capacity = kernel_pool_capacity(k, plan->pool);
    bool enough = capacity > p->used && capacity - p->used >= plan->count;
    return enough ? TN_R_OK : exhausted(k, q, index);
}

enum tn_result kernel_request_claim_judge(struct kernel *k, struct request *q) {
    enum tn_result code = TN_R_OK;
    TN_ASSERT(q->total <= JUDGED_VALUES);
    for (uint32_t i = 0; i < q->claim_count; i++) {
        if (shares_pool(k, q, i)) {
            return TN_R_OK;
        }
    }
    for (uint32_t i = 0; i < q->claim_count && code == TN_R_OK; i++) {
        code = k->plan_claims[i].any ? TN_R_OK : judge_listed(k, q, i);
    }
    for (uint32_t i = 0; i < q->claim_count && code == TN_R_OK; i++) {
        code = k->plan_claims[i].any ? judge_any(k, q, i) : TN_R_OK;
    }
    return code == TN_R_NOT_YET ? TN_R_OK : code;
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
