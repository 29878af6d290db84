/* import: a lease that another system granted, with its times; and the counters of a pool.
 *
 * Times are stored as given or refused, never adjusted: a passed deadline, one above the pool's
 * caps, contradictory times. A repeated import leaves an existing lease with the same holder and
 * values unchanged (NOOP). An import does not count in the pool's rate of new leases. */
#include "kernel/claim.h"

/* ---- times ---- */

/* Default: the earliest known time of the lease. */
static uint64_t created_of(const struct kernel *k, const struct kernel_command *c) {
    uint64_t first = c->seen_ms != 0 ? c->seen_ms : c->offline_ms;
    uint64_t known = first != 0 ? first : root_at(k)->now_ms;
    return c->created_ms != 0 ? c->created_ms : known;
}

static uint64_t seen_of(const struct kernel *k, const struct kernel_command *c) {
    return c->seen_ms != 0 ? c->seen_ms : created_of(k, c);
}

static bool times_agree(const struct kernel *k, const struct kernel_command *c) {
    uint64_t now = root_at(k)->now_ms;
    uint64_t created = created_of(k, c), seen = seen_of(k, c);
    return created <= seen && seen <= now &&
           (c->offline_ms == 0 || (seen <= c->offline_ms && c->offline_ms <= now &&
                                   (c->offline_ms - seen) / 1000 <= UINT32_MAX));
}

/* The end that was given, or the pool's own lease from now on. */
static uint64_t deadline_of(const struct kernel *k, const struct request *q) {
    return q->c->fields & KERNEL_F_DEADLINE
               ? q->c->deadline_ms
               : kernel_terms_deadline(k, &q->terms, 0, created_of(k, q->c), 0);
}

static enum tn_result deadline_check(const struct kernel *k, const struct request *q) {
    uint64_t now = root_at(k)->now_ms;
    uint64_t deadline = deadline_of(k, q);
    uint64_t hold_ms = kernel_seconds_ms(q->terms.max_hold_s);
    uint64_t lease_ms = kernel_seconds_ms(q->terms.max_lease_s);
    uint64_t last = hold_ms == 0 ? KERNEL_TIME_MAX : created_of(k, q->c) + hold_ms;
    bool given = (q->c->fields & KERNEL_F_DEADLINE) != 0;
    if (deadline > last || (hold_ms != 0 && last <= now)) {
        return refuse(q->result, TN_R_BAD_TTL, q->terms.max_hold_s);
    }
    if (deadline <= now && (given || deadline != 0)) {
        return refuse(q->result, TN_R_BAD_TTL, 0);
    }
    if (lease_ms != 0 && given && deadline - now > lease_ms) {
        return refuse(q->result, TN_R_BAD_TTL, q->terms.max_lease_s);
    }
    return TN_R_OK;
}

enum tn_result kernel_import_check(const struct kernel *k, const struct request *q) {
    TN_ASSERT(q->import && q->claim_count > 0);
    bool sticky = kernel_pool_option(k, k->plan_claims[0].pool, KERNEL_OPTION_STICKY) != 0;
    for (uint32_t i = 0; i < q->claim_count; i++) {
        if (k->plan_claims[i].any) {
            /* The refusal names the value by its index. */
            return refuse(q->result, TN_R_BAD_REQUEST, i);
        }
    }
    if (!times_agree(k, q->c) || (q->c->offline_ms != 0 && !sticky)) {
        return TN_R_BAD_REQUEST;
    }
    return deadline_check(k, q);
}

/* ---- existing leases ---- */

/* The live lease that has the first value, or TN_NONE. */
static uint32_t first_owner(const struct kernel *k) {
    const struct claim_plan *plan = &k->plan_claims[0];
    struct tn_reader r = tn_reader_of(plan->values.at, plan->values.len);
    struct kernel_requested requested = kernel_requested_read(&r);
    uint64_t value;
    if (kernel_value_resolve(k, plan->pool, &requested, &value) != TN_R_OK) {
        return TN_NONE;
    }
    uint32_t owner = kernel_value_owner(k, plan->pool, value);
    return owner != TN_NONE && member_at(k, owner)->state == MEMBER_HELD
               ? member_at(k, owner)->lease
               : TN_NONE;
}

enum tn_result kernel_import_known(struct kernel *k, const struct request *q, uint32_t own) {
    uint32_t lease = own != TN_NONE ? own : first_owner(k);
    if (lease == TN_NONE) {
        return TN_R_OK;
    }
    const struct lease *l = lease_at(k, lease);
    bool whole = q->claim_count == 1 && l->holder == q->holder &&
                 l->pool == k->plan_claims[0].pool && kernel_request_matches(k, lease);
    if (!whole) {
        return own != TN_NONE ? TN_R_CONFLICT : TN_R_OK; /* claiming says which value is taken */
    }
    if (l->state != KERNEL_ACTIVE && l->state != KERNEL_OFFLINE) {
        kernel_result_holder(k, lease, q->result);
        return TN_R_BUSY;
    }
    kernel_result_lease(k, lease, q->result);
    kernel_result_values(k, lease, 1, q->result);
    return TN_R_NOOP;
}

/* ---- the lease ---- */

/* A pool without a lease of its own renews by the time that was left, as for any ttl. */
static uint32_t ttl_left(const struct kernel *k, const struct request *q) {
    if (q->terms.lease_s != 0 || !(q->c->fields & KERNEL_F_DEADLINE)) {
        return 0;
    }
    uint64_t ttl_s = (q->c->deadline_ms - root_at(k)->now_ms + 999) / 1000;
    return ttl_s > UINT32_MAX ? UINT32_MAX : (uint32_t)ttl_s;
}

void kernel_import_fill(struct kernel *k, const struct request *q) {
    const struct kernel_command *c = q->c;
    struct lease *l = lease_mut(k, q->lease);
    l->created_ms = created_of(k, c);
    l->last_seen_ms = seen_of(k, c);
    TN_ASSERT(l->created_ms <= l->last_seen_ms && l->last_seen_ms <= root_at(k)->now_ms);
    l->ttl_s = ttl_left(k, q);
    l->deadline_ms = deadline_of(k, q);
    l->bits = KERNEL_REASON_IMPORTED;
    if (c->offline_ms != 0) {
        l->state = KERNEL_OFFLINE;
        l->bits |= LEASE_LAG;
        l->lag_s = (uint32_t)((c->offline_ms - l->last_seen_ms) / 1000);
    }
}

/* ---- a pool's past ---- */

void kernel_run_pool_seed(struct kernel *k, const struct kernel_command *c,
                          struct kernel_result *result) {
    uint32_t pool = kernel_pool_find(k, c->pool);
    if (pool == TN_NONE) {
        result->code = TN_R_POOL_NOTFOUND;
        return;
    }
    if (kernel_pool_is_template(k, pool)) {
        result->code = TN_R_BAD_REQUEST;
        return;
    }
    uint64_t size = kernel_pool_size(k, pool);
    if (c->given_values > size) {
        result->code = refuse(result, TN_R_BAD_VALUE, size);
        return;
    }
    struct pool *p = pool_mut(k, pool);
    if (c->given_values <= p->peak && c->reclaimed <= p->counters.reclaimed) {
        result->code = TN_R_NOOP;
        return;
    }
    p->peak = c->given_values > p->peak ? c->given_values : p->peak;
    if (c->reclaimed > p->counters.reclaimed) {
        p->counters.reclaimed = c->reclaimed;
    }
    TN_ASSERT(p->peak >= c->given_values && p->counters.reclaimed >= c->reclaimed);
    kernel_event_pool(k, KERNEL_EVENT_POOL_ALTERED, pool, 0);
}
