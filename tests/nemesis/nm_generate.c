/* See nm_generate.h. */
#include "nemesis/nm_generate.h"

#include <string.h>

#include "base/assert.h"

static uint32_t below(struct nm_generator *g, uint32_t n) {
    return (uint32_t)tn_prng_below(&g->random, n);
}

static bool chance(struct nm_generator *g, uint32_t percent) {
    return below(g, 100) < percent;
}

/* ---- Tokens ---- */

static bool live(const struct nm_token *t) {
    return t->lease != 0 && !kernel_state_terminal((enum kernel_state)t->state);
}

static void tokens_forget(struct nm_token *tokens, uint64_t lease) {
    for (uint32_t i = 0; i < NM_TOKENS; i++) {
        if (tokens[i].lease == lease) {
            tokens[i].lease = 0;
        }
    }
}

/* Half of the leases that time can end are left to expire: their holders never send anything about
 * them. */
static bool abandoned(struct nm_generator *g, const struct nm_op *op) {
    bool grant = op->verb == NM_ALLOC || op->verb == NM_RESERVE;
    return !nm_group_is_cell(op->group) && (op->verb == NM_VALUE || (grant && chance(g, 50)));
}

void nm_generate_learn(struct nm_generator *g, const struct nm_op *op) {
    struct nm_token *tokens = g->tokens[op->group];
    struct nm_token *at = NULL;
    if (op->code == TN_R_RETIRED) {
        tokens_forget(tokens, op->lease);
        return;
    }
    if (op->outcome != NM_COMMITTED || !op->has_lease || op->state == KERNEL_NO_STATE ||
        abandoned(g, op)) {
        return;
    }
    for (uint32_t i = 0; i < NM_TOKENS; i++) {
        if (tokens[i].lease == op->got_lease) {
            at = &tokens[i];
        }
    }
    bool known = at != NULL;
    for (uint32_t i = 0; i < NM_TOKENS && at == NULL; i++) {
        at = live(&tokens[i]) ? NULL : &tokens[i];
    }
    at = at != NULL ? at : &tokens[below(g, NM_TOKENS)];
    if (known && op->lsn < at->lsn) {
        return;
    }
    bool names = op->verb == NM_ALLOC || op->verb == NM_RESERVE || op->verb == NM_REKEY;
    uint8_t holder = names                                          ? op->holder
                     : op->verb == NM_LEASE || op->verb == NM_VALUE ? op->got_holder
                                                                    : at->holder;
    *at = (struct nm_token){.lease = op->got_lease,
                            .epoch = op->got_epoch,
                            .lsn = op->lsn,
                            .holder = holder,
                            .state = op->state};
}

/* One that lives, mostly; NULL: none is known. */
static const struct nm_token *pick_token(struct nm_generator *g, uint32_t group) {
    const struct nm_token *tokens = g->tokens[group];
    bool any = chance(g, 15);
    uint32_t start = below(g, NM_TOKENS);
    for (uint32_t i = 0; i < NM_TOKENS; i++) {
        const struct nm_token *t = &tokens[(start + i) % NM_TOKENS];
        if (live(t) || (any && t->lease != 0)) {
            return t;
        }
    }
    return NULL;
}

/* ---- Claims ---- */

static void claim_any(struct nm_claim *claim, uint32_t pool, uint32_t count) {
    *claim = (struct nm_claim){.pool = (uint8_t)pool, .any = true, .count = (uint8_t)count};
}

static void claim_listed(struct nm_generator *g, struct nm_claim *claim, uint32_t group,
                         uint32_t pool, uint32_t count) {
    uint32_t size = nm_pool_of(group, pool)->size;
    uint32_t first = below(g, size);
    count = count <= size ? count : size;
    *claim = (struct nm_claim){.pool = (uint8_t)pool, .count = (uint8_t)count};
    for (uint32_t i = 0; i < count; i++) {
        claim->numbers[i] = (uint8_t)(1 + (first + i) % size);
    }
    if (!nm_group_is_cell(group) && chance(g, 3)) {
        claim->numbers[0] = (uint8_t)(size + 1); /* there is no such value */
    }
}

static void generate_claims(struct nm_generator *g, struct nm_op *op) {
    uint32_t group = op->group;
    bool bundle = nm_group_pools(group) > 1 && chance(g, 25);
    uint32_t pool = below(g, nm_group_pools(group));
    op->claim_count = bundle ? 2 : 1;
    for (uint32_t i = 0; i < op->claim_count; i++, pool = 1 - pool) {
        if (chance(g, 55)) {
            claim_listed(g, &op->claims[i], group, pool, 1 + below(g, 2));
        } else {
            bool alone = !bundle && op->verb == NM_ALLOC;
            claim_any(&op->claims[i], pool, alone && chance(g, 50) ? 0 : 1 + below(g, 2));
        }
    }
}

static void generate_grant(struct nm_generator *g, struct nm_op *op, bool reserve) {
    op->verb = reserve ? NM_RESERVE : NM_ALLOC;
    generate_claims(g, op);
    if (reserve) {
        op->ttl_s = (uint8_t)(nm_group_is_cell(op->group) ? 0 : 1 + below(g, 2));
    } else if (!nm_group_is_cell(op->group) && chance(g, 30)) {
        op->ttl_s = (uint8_t)(1 + below(g, 4));
    }
}

/* ---- Operations ---- */

/* What makes sense in this state, mostly. */
static uint8_t pick_verb(struct nm_generator *g, uint8_t state) {
    static const uint8_t reserved[] = {NM_ACTIVATE, NM_ACTIVATE, NM_RELEASE, NM_REVOKE};
    static const uint8_t active[] = {NM_TOUCH,   NM_TOUCH,  NM_RELEASE, NM_RELEASE,
                                     NM_RELEASE, NM_REVOKE, NM_REKEY,   NM_VERIFY};
    static const uint8_t revoking[] = {NM_ACK, NM_RECLAIM, NM_RECLAIM, NM_REVOKE};
    static const uint8_t all[] = {NM_ACTIVATE, NM_TOUCH, NM_RELEASE, NM_REVOKE, NM_ACK,
                                  NM_RECLAIM,  NM_REKEY, NM_VERIFY,  NM_LEASE};
    if (chance(g, 12)) {
        return all[below(g, sizeof all)];
    }
    switch (state) {
    case KERNEL_RESERVED:
        return reserved[below(g, sizeof reserved)];
    case KERNEL_ACTIVE:
    case KERNEL_OFFLINE:
        return active[below(g, sizeof active)];
    case KERNEL_REVOKING:
        return revoking[below(g, sizeof revoking)];
    default:
        return all[below(g, sizeof all)];
    }
}

static void generate_on_lease(struct nm_generator *g, struct nm_op *op, const struct nm_token *t) {
    bool cell = nm_group_is_cell(op->group);
    op->verb = pick_verb(g, t->state);
    op->lease = t->lease;
    op->epoch = t->epoch;
    op->holder = t->holder;
    if (op->verb == NM_ACK) {
        op->epoch = t->epoch - (t->epoch > 0);
    }
    if (chance(g, 6)) {
        op->epoch += chance(g, 50) ? 1 : UINT64_MAX;
        op->epoch = op->epoch == UINT64_MAX ? 0 : op->epoch;
    }
    if (op->verb == NM_REKEY || chance(g, 6)) {
        op->holder = (uint8_t)below(g, NM_HOLDERS);
    }
    if (op->verb == NM_RELEASE) {
        op->now = chance(g, 30);
    } else if (op->verb == NM_REVOKE && !cell) {
        op->after_s = (uint8_t)below(g, 3);
    } else if (op->verb == NM_TOUCH && !cell && chance(g, 40)) {
        op->ttl_s = (uint8_t)(1 + below(g, 4));
    }
}

static void generate_value_read(struct nm_generator *g, struct nm_op *op) {
    uint32_t pool = below(g, nm_group_pools(op->group));
    op->verb = NM_VALUE;
    op->claims[0].pool = (uint8_t)pool;
    op->claims[0].numbers[0] = (uint8_t)(1 + below(g, nm_pool_of(op->group, pool)->size));
}

#define HOT_OPS 400u /* operations for which one group is hot */

static uint8_t pick_group(struct nm_generator *g, uint32_t index) {
    if (chance(g, 40)) {
        return (uint8_t)(index / HOT_OPS % (g->cells_only ? NM_CELLS : NM_GROUPS));
    }
    return (uint8_t)(g->cells_only || chance(g, 55) ? below(g, NM_CELLS)
                                                    : NM_CELLS + below(g, NM_GROUPS - NM_CELLS));
}

static void generate_fresh(struct nm_generator *g, struct nm_op *op, uint32_t index) {
    op->group = pick_group(g, index);
    bool cell = nm_group_is_cell(op->group);
    op->holder = (uint8_t)below(g, NM_HOLDERS);
    const struct nm_token *token = pick_token(g, op->group);
    uint32_t dice = below(g, 100);
    if (dice < 10) {
        generate_value_read(g, op);
    } else if (dice < 13 && !cell) {
        op->verb = chance(g, 60) ? NM_SWEEP : NM_DISOWN;
        op->claims[0].pool = (uint8_t)below(g, nm_group_pools(op->group));
    } else if (dice < 40 || token == NULL) {
        generate_grant(g, op, chance(g, 25) && !nm_group_is_sticky(op->group));
    } else {
        generate_on_lease(g, op, token);
    }
}

/* Picks an operation answered not long ago, with an operation id of its own; NULL: none found. */
static const struct nm_op *pick_answered(struct nm_generator *g, const struct nm_history *h) {
    uint32_t back = 2 + below(g, 300);
    const struct nm_op *op = back <= h->op_count ? &h->ops[h->op_count - back] : NULL;
    bool good = op != NULL && op->outcome == NM_COMMITTED && op->opid > 0 && !op->clash &&
                op->repeats == NM_NONE;
    return good ? op : NULL;
}

/* Picks a position that was reported to a client, or one a little later; 0: none found. */
static uint64_t pick_fence(struct nm_generator *g, const struct nm_history *h, uint32_t index) {
    uint32_t back = 1 + below(g, 40);
    uint64_t lsn = back <= index ? h->ops[index - back].lsn : 0;
    return lsn > 0 ? lsn + below(g, 3) : 0;
}

void nm_generate_repeat(struct nm_history *h, uint32_t index, uint32_t answered) {
    const struct nm_op *first = &h->ops[answered];
    struct nm_op *op = &h->ops[index];
    TN_ASSERT(first->opid == answered + 1);
    op->repeats = answered;
    op->opid = first->opid;
    op->lease = first->lease;
    op->epoch = first->epoch;
    op->verb = first->verb;
    op->group = first->group;
    op->holder = first->holder;
    op->ttl_s = first->ttl_s;
    op->after_s = first->after_s;
    op->now = first->now;
    op->claim_count = first->claim_count;
    memcpy(op->claims, first->claims, sizeof op->claims);
}

void nm_generate(struct nm_generator *g, struct nm_history *h, uint32_t index) {
    struct nm_op *op = &h->ops[index];
    const struct nm_op *answered = chance(g, 5) ? pick_answered(g, h) : NULL;
    if (answered != NULL && chance(g, 70)) {
        nm_generate_repeat(h, index, answered->opid - 1);
        return;
    }
    generate_fresh(g, op, index);
    if (nm_is_read(op)) {
        op->fence = chance(g, 20) ? pick_fence(g, h, index) : 0;
        return;
    }
    if (answered != NULL && answered->verb != op->verb) {
        op->opid = answered->opid;
        op->clash = true;
    } else if (g->opids_always || chance(g, 85)) {
        op->opid = index + 1;
    }
}
