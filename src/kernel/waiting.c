/* Waiting leases: joining a line and leaving it. See waiting.h. */
#include "kernel/waiting.h"

#include "kernel/ops.h"

/* ---- joining ---- */

enum tn_result kernel_wait_check(const struct kernel *k, struct request *q) {
    const struct kernel_command *c = q->c;
    if (!(c->fields & KERNEL_F_WAIT)) {
        return TN_R_OK;
    }
    if (c->wait_s == 0 || c->wait_s > KERNEL_WAIT_MAX_S) {
        return refuse(q->result, TN_R_BAD_TTL, KERNEL_WAIT_MAX_S);
    }
    if (c->claims.len > KERNEL_WAIT_CLAIMS_MAX) {
        return refuse(q->result, TN_R_TOO_LARGE, KERNEL_WAIT_CLAIMS_MAX);
    }
    for (uint32_t i = 0; i < q->claim_count; i++) {
        if (kernel_pool_option(k, k->plan_claims[i].pool, KERNEL_OPTION_INTERNAL)) {
            return refuse(q->result, TN_R_BAD_REQUEST, i); /* internal pools have no line */
        }
    }
    return c->fields & KERNEL_F_DEADLINE ? TN_R_BAD_REQUEST : TN_R_OK;
}

enum tn_result kernel_wait_turn(const struct kernel *k, struct request *q) {
    for (uint32_t i = 0; i < q->claim_count; i++) {
        const struct claim_plan *plan = &k->plan_claims[i];
        uint64_t length = kernel_line_length(k, plan->pool);
        if (length > 0) {
            q->result->waiting = length < KERNEL_PLACE_LOOKED ? length : KERNEL_PLACE_LOOKED;
            return plan->any ? refuse(q->result, TN_R_EXHAUSTED, i)
                             : refuse(q->result, TN_R_BUSY, plan->offset);
        }
    }
    return TN_R_OK;
}

/* Whether claim i is the first one of its pool. */
static bool first_of_pool(const struct kernel *k, uint32_t i) {
    for (uint32_t j = 0; j < i; j++) {
        if (k->plan_claims[j].pool == k->plan_claims[i].pool) {
            return false;
        }
    }
    return true;
}

static uint32_t pools_wanted(const struct kernel *k, const struct request *q) {
    uint32_t count = 0;
    for (uint32_t i = 0; i < q->claim_count; i++) {
        count += first_of_pool(k, i);
    }
    return count;
}

static void waiting_add(struct kernel *k, uint32_t pool, int sign) {
    uint64_t change = sign > 0 ? 1 : UINT64_MAX;
    uint32_t template = pool_at(k, pool)->template;
    TN_ASSERT(sign > 0 || pool_at(k, pool)->waiting > 0);
    pool_mut(k, pool)->waiting += change;
    if (template != TN_NONE) {
        pool_mut(k, template)->waiting += change;
    }
}

/* A want for each pool, in the order of the claims. */
static uint32_t wants_make(struct kernel *k, const struct request *q, uint32_t waiter) {
    uint32_t first = TN_NONE, last = TN_NONE;
    for (uint32_t i = 0; i < q->claim_count; i++) {
        if (!first_of_pool(k, i)) {
            continue;
        }
        uint32_t slot = tn_table_take(&k->tables[TABLE_WANT]);
        TN_ASSERT(slot != TN_NONE);
        struct want *w = want_mut(k, slot);
        w->pool = k->plan_claims[i].pool;
        w->next = TN_NONE;
        w->waiter1 = waiter + 1;
        waiting_add(k, w->pool, +1);
        pool_mut(k, w->pool)->refs++;
        if (last == TN_NONE) {
            first = slot;
        } else {
            want_mut(k, last)->next = slot;
        }
        last = slot;
    }
    return first;
}

static uint32_t waiter_make(struct kernel *k, const struct request *q, enum tn_result refusal) {
    const struct kernel_command *c = q->c;
    uint32_t slot = tn_table_take(&k->tables[TABLE_WAITER]);
    TN_ASSERT(slot != TN_NONE);
    struct waiter *w = waiter_mut(k, slot);
    w->lease = q->lease;
    w->claims = tn_text_put(&k->tables[TABLE_TEXT], c->claims);
    w->op = TN_NONE; /* if there is one, it will be remembered when the command has run */
    w->since_ms = root_at(k)->now_ms;
    w->until_ms = w->since_ms + kernel_seconds_ms(c->wait_s);
    w->number = q->result->number;
    w->claim_count = c->claim_count;
    w->total = q->total;
    w->code = (uint16_t)refusal;
    w->attended = 1;
    w->reserve = q->reserve;
    w->rights = c->rights;
    w->quota = c->quota;
    w->first_want = wants_make(k, q, slot);
    return slot;
}

/* Room for the values of waiting leases is reserved, but not more than half of it: otherwise
 * waiters would prevent allocations in pools that have values. */
static bool values_fit(const struct kernel *k, const struct request *q) {
    uint64_t most = (kernel_limit(k, KERNEL_LIMIT_MEMBERS) + 1) / 2;
    return !kernel_edition_has(k, 2) || root_at(k)->members_waiting + q->total <= most;
}

enum tn_result kernel_wait_join(struct kernel *k, struct request *q, enum tn_result refusal) {
    TN_ASSERT(refusal == TN_R_EXHAUSTED || refusal == TN_R_BUSY);
    if (!values_fit(k, q)) {
        return refuse(q->result, TN_R_WAITERS_FULL, kernel_limit(k, KERNEL_LIMIT_WAITERS));
    }
    if (tn_table_room(&k->tables[TABLE_WAITER]) == 0 ||
        tn_table_room(&k->tables[TABLE_WANT]) < pools_wanted(k, q)) {
        return refuse(q->result, TN_R_WAITERS_FULL, kernel_limit(k, KERNEL_LIMIT_WAITERS));
    }
    for (uint32_t i = 0; i < q->claim_count; i++) {
        kernel_value_prepare(k, k->plan_claims[i].pool); /* so that no attempt to serve has to */
    }
    q->lease = tn_table_take(&k->tables[TABLE_LEASE]);
    TN_ASSERT(q->lease != TN_NONE);
    kernel_request_fill(k, q);
    uint32_t slot = waiter_make(k, q, refusal);
    struct lease *l = lease_mut(k, q->lease);
    l->state = KERNEL_WAITING;
    l->member_count = 0;
    l->first_member = TN_NONE;
    l->pool = kernel_request_pool(k, q);
    l->ttl_s = q->c->ttl_s;
    l->waiter = slot;
    l->deadline_ms = waiter_at(k, slot)->until_ms;
    root_mut(k)->leases_live++;
    root_mut(k)->members_waiting += q->total;
    kernel_index_lease_add(k, q->lease);
    kernel_lease_link(k, q->lease);
    kernel_clock_lease(k, q->lease);
    kernel_line_enter(k, slot);
    kernel_event_lease(k, KERNEL_EVENT_LEASE_WAITING, q->lease, false);
    uint32_t unused;
    kernel_result_lease(k, q->lease, q->result);
    q->result->number = 0;
    q->result->retry_at_ms = 0;
    q->result->waiting = kernel_line_before(k, slot, &unused);
    return TN_R_WAITING;
}

/* ---- with and without a client ---- */

void kernel_wait_attend(struct kernel *k, uint32_t lease) {
    struct lease *l = lease_mut(k, lease);
    TN_ASSERT(l->state == KERNEL_WAITING);
    if (waiter_at(k, l->waiter)->attended) {
        return;
    }
    waiter_mut(k, l->waiter)->attended = 1;
    l->deadline_ms = waiter_at(k, l->waiter)->until_ms;
    kernel_clock_lease(k, lease);
    kernel_line_enter(k, l->waiter);
    kernel_line_stir_all(k, l->waiter);
}

void kernel_wait_unattend(struct kernel *k, uint32_t lease) {
    struct lease *l = lease_mut(k, lease);
    TN_ASSERT(l->state == KERNEL_WAITING);
    const struct waiter *w = waiter_at(k, l->waiter);
    TN_ASSERT(w->attended);
    if (w->op == TN_NONE) { /* nothing can bring its client back to it */
        kernel_lease_move(k, lease, CAUSE_ABANDON, 0);
        return;
    }
    uint64_t back_ms = root_at(k)->now_ms + KERNEL_UNATTENDED_MS;
    kernel_line_exit(k, l->waiter);
    waiter_mut(k, l->waiter)->attended = 0;
    l->deadline_ms = w->until_ms < back_ms ? w->until_ms : back_ms;
    kernel_clock_lease(k, lease);
    kernel_line_stir_all(k, l->waiter); /* for those behind it */
}

void kernel_run_unattend(struct kernel *k, const struct kernel_command *c,
                         struct kernel_result *result) {
    uint32_t lease;
    if (!(c->fields & KERNEL_F_LEASE)) {
        uint32_t step = (uint32_t)kernel_limit(k, KERNEL_LIMIT_TICK_STEP);
        for (; step > 0 && kernel_attended(k) > 0; step--) {
            uint32_t first = kernel_line_first(k, k->tables[TABLE_POOL].capacity);
            kernel_wait_unattend(k, waiter_at(k, first)->lease);
        }
        result->number = kernel_attended(k);
        return;
    }
    result->code = kernel_lease_find(k, c->lease, &lease);
    if (result->code == TN_R_OK && kernel_due_lease(k, lease)) {
        result->code = kernel_lease_find(k, c->lease, &lease);
    }
    if (result->code != TN_R_OK) {
        return;
    }
    const struct lease *l = lease_at(k, lease);
    if (l->state != KERNEL_WAITING) {
        result->code = TN_R_STATE;
    } else if (!waiter_at(k, l->waiter)->attended) {
        result->code = TN_R_NOOP;
    } else {
        kernel_wait_unattend(k, lease);
    }
    if (result->code != TN_R_STATE) {
        kernel_result_lease(k, lease, result);
    }
}

/* ---- leaving ---- */

#define LOOKED_STEP 64u /* the effort of a transition */

void kernel_wait_charge(struct kernel *k, uint32_t *budget) {
    uint64_t steps = kernel_edition_has(k, 2) ? k->wait_looked / LOOKED_STEP : 0;
    k->wait_looked = 0;
    *budget -= steps < *budget ? (uint32_t)steps : *budget;
}

void kernel_wait_op_set(struct kernel *k, uint32_t waiter, uint32_t op) {
    struct waiter *w = waiter_mut(k, waiter);
    TN_ASSERT((w->op == TN_NONE) != (op == TN_NONE));
    w->op = op;
}

void kernel_wait_leave(struct kernel *k, uint32_t lease, struct kernel_wait_end *ret_end) {
    uint32_t slot = lease_at(k, lease)->waiter;
    uint32_t unused;
    ret_end->waiter = *waiter_at(k, slot);
    ret_end->before = kernel_line_before(k, slot, &unused);
    const struct waiter *w = &ret_end->waiter;
    TN_ASSERT(w->lease == lease && root_at(k)->members_waiting >= w->total);
    if (w->attended) {
        kernel_line_exit(k, slot);
    }
    for (uint32_t i = w->first_want; i != TN_NONE;) {
        struct want want = *want_at(k, i);
        k->wait_looked += ret_end->before;
        waiting_add(k, want.pool, -1);
        kernel_line_stir(k, want.pool);
        if (pool_at(k, want.pool)->template != TN_NONE) {
            kernel_pool_maybe_empty(k, want.pool);
        }
        tn_table_give(&k->tables[TABLE_WANT], i);
        kernel_pool_unref(k, want.pool);
        i = want.next;
    }
    tn_text_drop(&k->tables[TABLE_TEXT], w->claims);
    root_mut(k)->members_waiting -= w->total;
    tn_table_give(&k->tables[TABLE_WAITER], slot);
    lease_mut(k, lease)->grace_s = 0;
}

/* In the caller's own memory. */
static void answer_replace(struct kernel_result *answer, const struct kernel_result *result) {
    struct kernel_result kept = *answer;
    TN_ASSERT(result->value_count <= kept.value_capacity);
    memcpy(kept.values, result->values, result->value_count * sizeof *kept.values);
    *answer = *result;
    answer->values = kept.values;
    answer->value_capacity = kept.value_capacity;
    answer->replayed = kept.replayed;
}

/* Delivers the answer to the operation, to the current command if it is the one that waits, and to
 * the owner of the clients. */
void kernel_wait_answer(struct kernel *k, uint32_t lease, const struct kernel_wait_end *end) {
    const struct lease *l = lease_at(k, lease);
    const struct waiter *w = &end->waiter;
    bool granted = !kernel_state_terminal((enum kernel_state)l->state);
    struct kernel_result result = {
        .code = granted ? TN_R_OK : (enum tn_result)w->code,
        .lsn = root_at(k)->lsn,
        .now_ms = root_at(k)->now_ms,
        .number = granted ? 0 : w->number,
        .waiting = granted ? 0 : end->before,
        .waited_ms = root_at(k)->now_ms - w->since_ms,
        .values = k->wait_values,
        .value_capacity = (uint32_t)kernel_limit(k, KERNEL_LIMIT_BUNDLE),
    };
    kernel_result_lease(k, lease, &result);
    result.has_lease = granted; /* a refusal names a lease that is in the way, not its own */
    if (granted) {
        kernel_result_values(k, lease, w->claim_count, &result);
    }
    if (w->op != TN_NONE) {
        kernel_op_answer(k, w, &result);
    }
    if (k->answer->code == TN_R_WAITING && k->answer->lease.lsn == l->lsn) {
        answer_replace(k->answer, &result);
    }
    if (k->env.waited != NULL) {
        k->env.waited(k->env.waited_ctx, k, &result);
    }
}
