/* Serving the lines: the first waiter of a pool gets its values, or stays, or ends. See waiting.h. */
#include "kernel/waiting.h"

static bool first_everywhere(const struct kernel *k, uint32_t waiter, uint32_t *cost) {
    for (uint32_t i = waiter_at(k, waiter)->first_want; i != TN_NONE; i = want_at(k, i)->next) {
        *cost += 1;
        if (kernel_line_first(k, want_at(k, i)->pool) != waiter) {
            return false;
        }
    }
    return true;
}

/* The request of the waiter, as it was made; the claims are in k->wait_claims. */
static void command_again(struct kernel *k, uint32_t waiter, struct kernel_command *ret_command,
                          uint8_t holder[KERNEL_HOLDER_MAX]) {
    const struct waiter *w = waiter_at(k, waiter);
    const struct lease *l = lease_at(k, w->lease);
    const struct tn_table *text = &k->tables[TABLE_TEXT];
    uint32_t claims = tn_text_get(text, w->claims, k->wait_claims, KERNEL_WAIT_CLAIMS_MAX);
    uint32_t len = tn_text_get(text, name_at(k, l->holder)->text, holder, KERNEL_HOLDER_MAX);
    TN_ASSERT(claims <= KERNEL_WAIT_CLAIMS_MAX && len <= KERNEL_HOLDER_MAX);
    *ret_command = (struct kernel_command){
        .verb = w->reserve ? KERNEL_VERB_RESERVE : KERNEL_VERB_ALLOC,
        .rights = w->rights,
        .fields = KERNEL_F_HOLDER | KERNEL_F_CLAIMS | (l->ttl_s != 0 ? KERNEL_F_TTL : 0) |
                  (w->quota != 0 ? KERNEL_F_QUOTA : 0),
        .quota = w->quota,
        .holder = tn_bytes_of(holder, len),
        .ttl_s = l->ttl_s,
        .claims = tn_bytes_of(k->wait_claims, claims),
        .claim_count = w->claim_count,
    };
}

/* The lease has its members: it lives from now on. The event is the work of the lease's user. */
static void grant(struct kernel *k, struct request *q) {
    struct lease *l = lease_mut(k, q->lease);
    bool reserve = q->reserve;
    TN_ASSERT(l->state == KERNEL_WAITING && l->first_member == TN_NONE);
    kernel_request_keep(k, q);
    l->member_count = (uint16_t)q->total;
    l->created_ms = l->last_seen_ms = root_at(k)->now_ms;
    l->ttl_s = reserve ? 0 : l->ttl_s;
    uint64_t deadline = kernel_request_deadline(k, q);
    kernel_user_count(k, q->lease, +1);
    kernel_lease_grants_add(k, q->lease);
    kernel_lists_begin(k, q->lease);
    if (kernel_pool_option(k, k->plan_claims[0].pool, KERNEL_OPTION_STICKY)) {
        kernel_meter_count(k, k->plan_claims[0].pool);
    }
    uint8_t user[KERNEL_HOLDER_MAX];
    struct kernel_author author = k->author;
    uint32_t len = l->user == TN_NONE ? 0
                                      : tn_text_get(&k->tables[TABLE_TEXT],
                                                    name_at(k, l->user)->text, user, sizeof user);
    k->author = (struct kernel_author){.actor = tn_bytes_of(user, len)};
    kernel_lease_move(k, q->lease, reserve ? CAUSE_GRANT_RESERVED : CAUSE_GRANT, deadline);
    lease_mut(k, q->lease)->grace_s = (uint32_t)q->terms.grace_s;
    k->author = author;
}

/* OK: granted. EXHAUSTED or BUSY: not yet. Otherwise the wait has ended. */
static enum tn_result grant_try(struct kernel *k, uint32_t waiter, struct kernel_result *result) {
    struct kernel_command c;
    uint8_t holder[KERNEL_HOLDER_MAX];
    command_again(k, waiter, &c, holder);
    struct request q = {.c = &c, .result = result, .reserve = waiter_at(k, waiter)->reserve != 0};
    q.lease = waiter_at(k, waiter)->lease;
    TN_ASSERT(lease_at(k, q.lease)->waiter == waiter);
    q.user = lease_at(k, q.lease)->user;
    q.holder = lease_at(k, q.lease)->holder;
    enum tn_result code = kernel_request_plan(k, &q);
    if (code == TN_R_OK) {
        code = kernel_request_claim(k, &q);
    }
    if (code == TN_R_OK) {
        grant(k, &q);
    }
    return code;
}

/* Serves the first waiter of the pool, or takes the pool from the list. Returns the effort. */
static uint32_t serve_first(struct kernel *k, uint32_t pool) {
    uint32_t waiter = kernel_line_first(k, pool), cost = 1;
    if (waiter == TN_NONE) {
        kernel_line_unlist(k, pool);
        return cost;
    }
    uint32_t lease = waiter_at(k, waiter)->lease;
    TN_ASSERT(lease_at(k, lease)->state == KERNEL_WAITING && lease_at(k, lease)->deadline_ms > 0);
    if (lease_at(k, lease)->deadline_ms <= root_at(k)->now_ms) {
        kernel_line_unlist(k, pool); /* its end is due, after which the line can move */
        return cost;
    }
    if (!first_everywhere(k, waiter, &cost)) {
        kernel_line_unlist(k, pool);
        return cost;
    }
    cost += waiter_at(k, waiter)->total;
    struct kernel_result refusal = {.values = NULL};
    enum tn_result code = grant_try(k, waiter, &refusal);
    if (code == TN_R_OK) {
        return cost;
    }
    struct waiter *w = waiter_mut(k, waiter);
    w->code = (uint16_t)code;
    w->number = refusal.number;
    if (kernel_wait_helps(code)) {
        kernel_line_unlist(k, pool);
    } else {
        kernel_lease_move(k, lease, CAUSE_REFUSE, 0);
    }
    return cost;
}

void kernel_wait_serve(struct kernel *k, uint32_t budget) {
    while (budget > 0 && root_at(k)->serve_head1 != 0) {
        uint32_t cost = serve_first(k, root_at(k)->serve_head1 - 1);
        budget -= cost < budget ? cost : budget;
    }
}
