/* The commands that name a lease or a holder, and those that only let time act. */
#include "sim/model.h"

#include <stdio.h>
#include <string.h>

#include "base/assert.h"
#include "base/chunks.h"

static bool operator_rights(const struct model *m) {
    return (m->c.rights & KERNEL_RIGHT_OPERATOR) != 0;
}

static bool supervisor_rights(const struct model *m) {
    return (m->c.rights & KERNEL_RIGHT_SUPERVISOR) != 0;
}

/* Whether what the command does to this lease is for the supervisor alone. */
static bool supervisors_own(const struct model *m, const struct model_lease *l) {
    bool plain_revoke = m->c.verb == KERNEL_VERB_REVOKE && (m->c.fields & KERNEL_F_AFTER) == 0;
    return !plain_revoke && !kernel_state_terminal(l->state) && model_lease_internal(m, l);
}

/* The lease that the command names, up to date and allowed to be acted on; else the refusal. */
static struct model_lease *named_lease(struct model *m) {
    struct kernel_result *r = &m->want.head;
    struct model_lease *l = model_lease_find(m, m->c.lease);
    if (l != NULL) {
        l = model_lease_settle(m, l);
    }
    if (l == NULL) {
        r->code = model_ended(m, m->c.lease, &l);
        if (r->code != TN_R_OK) {
            return NULL;
        }
    }
    model_lease_result(m, l, false);
    bool user_may = strcmp(l->user, m->want_user) == 0 || operator_rights(m);
    if (!user_may || (!supervisor_rights(m) && supervisors_own(m, l))) {
        r->code = TN_R_DENIED;
        return NULL;
    }
    bool names_holder = m->c.verb != KERNEL_VERB_REKEY && (m->c.fields & KERNEL_F_HOLDER) != 0;
    if (names_holder && !tn_bytes_equal(m->c.holder, tn_bytes_of(l->holder, strlen(l->holder)))) {
        r->code = TN_R_HOLDER;
        return NULL;
    }
    /* An acknowledgement carries the epoch that was the holder's own. */
    uint64_t epoch = m->c.verb == KERNEL_VERB_ACK ? l->epoch - 1 : l->epoch;
    if ((m->c.fields & KERNEL_F_EPOCH) != 0 && m->c.epoch != epoch) {
        r->code = TN_R_STALE;
        return NULL;
    }
    return l;
}

static bool state_is(struct model *m, const struct model_lease *l, uint32_t states) {
    if ((states & 1u << l->state) == 0) {
        m->want.head.code = TN_R_STATE;
        return false;
    }
    return true;
}

#define IN(state) (1u << KERNEL_##state)

static void activate(struct model *m, struct model_lease *l) {
    if (!state_is(m, l, IN(RESERVED))) {
        return;
    }
    l->renewed = true;
    l->state = KERNEL_ACTIVE;
    l->reason = KERNEL_REASON_REQUESTED;
    l->last_seen_ms = m->now_ms;
    struct model_terms terms = model_terms(m, l->values, l->value_count);
    l->grace_s = terms.grace_s;
    l->deadline_ms = model_deadline(m, l, terms.lease_s, 0);
    model_lease_result(m, l, true);
    model_expect(m, KERNEL_EVENT_LEASE_ACTIVE, KERNEL_REASON_REQUESTED, l);
}

static void touch(struct model *m, struct model_lease *l) {
    if (!state_is(m, l, IN(ACTIVE) | IN(OFFLINE))) {
        return;
    }
    struct model_terms terms = model_terms(m, l->values, l->value_count);
    bool asked = (m->c.fields & KERNEL_F_TTL) != 0;
    if (asked && (m->c.ttl_s == 0 || (terms.max_lease_s != 0 && m->c.ttl_s > terms.max_lease_s))) {
        m->want.head.code = TN_R_BAD_TTL;
        m->want.head.number = terms.max_lease_s;
        return;
    }
    uint64_t old = l->meta_len > 0 ? tn_text_chunks(l->meta_len) : 0;
    uint64_t new = m->c.meta.len > 0 ? tn_text_chunks(m->c.meta.len) : 0;
    if (m->c.meta.len > KERNEL_META_MAX) {
        m->want.head.code = TN_R_TOO_LARGE;
        m->want.head.number = KERNEL_META_MAX;
        return;
    }
    if (new > old && !model_text_fits(m, new - old)) {
        m->want.head.code = TN_R_NAMES_FULL;
        return;
    }
    bool was_offline = l->state == KERNEL_OFFLINE;
    model_lease_away(m, l);
    l->renewed = true;
    l->ttl_s = asked ? m->c.ttl_s : l->ttl_s;
    l->grace_s = terms.grace_s;
    l->deadline_ms = model_deadline(m, l, model_period(&terms, l->ttl_s), l->deadline_ms);
    l->state = KERNEL_ACTIVE;
    l->last_seen_ms = m->now_ms;
    l->offline_since_ms = 0;
    model_lease_meta(m, l);
    model_lease_result(m, l, false);
    if (was_offline) {
        l->reason = KERNEL_REASON_RETURNED;
        model_expect(m, KERNEL_EVENT_LEASE_RETURNED, KERNEL_REASON_RETURNED, l);
    }
}

/* Ends a lease by the command itself and shows it. */
static void end_named(struct model *m, struct model_lease *l, enum kernel_state state,
                      enum kernel_reason reason) {
    struct model_lease copy = *l;
    copy.state = state;
    copy.deadline_ms = 0;
    model_lease_end(m, l, state, reason);
    model_lease_result(m, &copy, false);
}

static void release(struct model *m, struct model_lease *l) {
    if (!state_is(m, l, IN(RESERVED) | IN(ACTIVE) | IN(OFFLINE) | IN(WAITING))) {
        return;
    }
    bool keep =
        model_terms(m, l->values, l->value_count).sticky && (m->c.fields & KERNEL_F_IMMEDIATE) == 0;
    uint64_t effective_s = 0;
    if (keep) {
        model_rate_evaluate(m, l->values[0].pool);
        effective_s = model_rate(m, l->values[0].pool, m->now_ms).effective_s;
    }
    l->epoch++;
    l->last_seen_ms = m->now_ms;
    if (effective_s == 0) {
        end_named(m, l, KERNEL_RELEASED, KERNEL_REASON_RELEASED);
        return;
    }
    l->renewed = true;
    l->state = KERNEL_OFFLINE;
    l->reason = KERNEL_REASON_RELEASED;
    l->deadline_ms = model_deadline(m, l, effective_s, 0);
    l->offline_since_ms = m->now_ms;
    model_lease_result(m, l, false);
    model_expect(m, KERNEL_EVENT_LEASE_OFFLINE, KERNEL_REASON_RELEASED, l);
}

static uint64_t later(uint64_t a, uint64_t b) {
    /* 0 is never, the latest of all. */
    return a == 0 || b == 0 ? 0 : a > b ? a : b;
}

static void revoke(struct model *m, struct model_lease *l) {
    bool has_after = (m->c.fields & KERNEL_F_AFTER) != 0;
    uint64_t deadline = has_after ? m->now_ms + (uint64_t)m->c.after_s * 1000 : 0;
    if (l->state == KERNEL_RESERVED || l->state == KERNEL_WAITING) {
        l->epoch++;
        end_named(m, l, KERNEL_REVOKED, KERNEL_REASON_REVOKED);
        return;
    }
    if (!state_is(m, l, IN(ACTIVE) | IN(OFFLINE) | IN(REVOKING))) {
        return;
    }
    if (l->state == KERNEL_REVOKING && !l->in_grace) {
        m->want.head.code = TN_R_NOOP;
        return;
    }
    l->offline_since_ms = 0;
    l->renewed = true;
    if (l->state == KERNEL_REVOKING) {
        l->deadline_ms = later(l->deadline_ms, deadline);
    } else {
        l->epoch++;
        l->deadline_ms = deadline;
    }
    l->in_grace = false;
    l->state = KERNEL_REVOKING;
    l->reason = KERNEL_REASON_REVOKED;
    model_lease_result(m, l, false);
    model_expect(m, KERNEL_EVENT_LEASE_REVOKING, KERNEL_REASON_REVOKED, l);
}

static void finish(struct model *m, struct model_lease *l, enum kernel_reason reason) {
    if (!state_is(m, l, IN(REVOKING))) {
        return;
    }
    end_named(m, l, l->in_grace ? KERNEL_EXPIRED : KERNEL_REVOKED, reason);
}

static bool has_sticky_lease(struct model *m, const char *holder, uint32_t pool) {
    for (uint32_t i = 0; i < m->lease_count; i++) {
        if (m->leases[i].state != KERNEL_WAITING && strcmp(m->leases[i].holder, holder) == 0 &&
            m->leases[i].values[0].pool == pool) {
            return true;
        }
    }
    return false;
}

static void settle_sticky(struct model *m, const char *holder, uint32_t pool) {
    for (uint32_t i = 0; i < m->lease_count; i++) {
        if (m->leases[i].state != KERNEL_WAITING && strcmp(m->leases[i].holder, holder) == 0 &&
            m->leases[i].values[0].pool == pool) {
            model_lease_settle(m, &m->leases[i]);
            return;
        }
    }
}

static bool over_quota(const struct model *m, const struct model_lease *l, const char *holder) {
    for (uint32_t i = 0; i < l->value_count; i++) {
        uint32_t pool = l->values[i].pool;
        uint64_t quota = model_policy(m, pool)->of[KERNEL_OPTION_MAX_PER_HOLDER];
        uint64_t own = 0;
        for (uint32_t j = 0; j < l->value_count && strcmp(l->holder, holder) != 0; j++) {
            own += l->values[j].pool == pool;
        }
        if (quota != 0 && model_pool_held(m, pool, KERNEL_NO_STATE, holder) + own > quota) {
            return true;
        }
    }
    return false;
}

/* Whether the lease may go to this holder; the same one gets a new token. */
static enum tn_result rekey_judged(struct model *m, const struct model_lease *l,
                                   const char *holder) {
    bool same = strcmp(l->holder, holder) == 0;
    for (uint32_t i = 0; i < l->value_count; i++) {
        if (model_disowned(m, holder, l->values[i].pool) != NULL) {
            return TN_R_BUSY;
        }
    }
    bool sticky = model_terms(m, l->values, l->value_count).sticky;
    if (sticky && !same && has_sticky_lease(m, holder, l->values[0].pool)) {
        return TN_R_CONFLICT;
    }
    uint32_t missing = model_names_missing(m, holder, "");
    if (model_names(m) + missing > m->limits.of[KERNEL_LIMIT_NAMES] ||
        !model_text_fits(m, missing > 0 ? tn_text_chunks(strlen(holder)) : 0)) {
        return TN_R_NAMES_FULL;
    }
    return over_quota(m, l, holder) ? TN_R_QUOTA : TN_R_OK;
}

static void rekey(struct model *m, struct model_lease *l) {
    struct kernel_result *r = &m->want.head;
    struct kernel_lease_id id = l->id;
    if (!state_is(m, l, IN(ACTIVE) | IN(OFFLINE))) {
        return;
    }
    if (m->c.holder.len == 0 || m->c.holder.len > KERNEL_HOLDER_MAX) {
        r->code = TN_R_BAD_NAME;
        return;
    }
    char holder[KERNEL_HOLDER_MAX + 1];
    model_text(holder, sizeof holder, m->c.holder);
    if (model_terms(m, l->values, l->value_count).sticky) {
        settle_sticky(m, holder, l->values[0].pool);
        l = model_lease_find(m, id);
    }
    r->code = rekey_judged(m, l, holder);
    if (r->code != TN_R_OK) {
        return;
    }
    memcpy(m->rekeyed_from, l->holder, sizeof m->rekeyed_from);
    memcpy(l->holder, holder, sizeof l->holder);
    l->epoch++;
    l->reason = KERNEL_REASON_REKEYED;
    model_lease_result(m, l, false);
    model_expect(m, KERNEL_EVENT_LEASE_REKEYED, KERNEL_REASON_REKEYED, l);
}

/* ---- disown ---- */

static bool disown_covers(const struct model *m, const struct model_disown *d, uint32_t pool) {
    return d->pool == MODEL_NONE || d->pool == pool ||
           (m->pools[pool].is_scope && m->pools[pool].parent == d->pool);
}

struct model_disown *model_disowned(struct model *m, const char *holder, uint32_t pool) {
    for (uint32_t i = 0; i < m->disown_count; i++) {
        struct model_disown *d = &m->disowns[i];
        if (strcmp(d->holder, holder) == 0 && disown_covers(m, d, pool)) {
            return d;
        }
    }
    return NULL;
}

bool model_disown_spares(const struct model *m, const struct model_disown *d,
                         const struct model_lease *l) {
    bool named = d->pool != MODEL_NONE && model_policy(m, d->pool)->of[KERNEL_OPTION_INTERNAL] != 0;
    return !named && model_lease_internal(m, l);
}

void model_disown_pass(struct model *m) {
    for (uint32_t i = 0; i < m->disown_count; i++) {
        for (uint32_t n = 0; n < m->lease_count; n++) {
            struct model_lease *l = &m->leases[n];
            l->passed = l->passed || (strcmp(l->holder, m->disowns[i].holder) == 0 &&
                                      model_disown_spares(m, &m->disowns[i], l));
        }
    }
}

static bool disown_has_work(const struct model *m, const struct model_disown *d) {
    for (uint32_t i = 0; i < m->lease_count; i++) {
        const struct model_lease *l = &m->leases[i];
        bool covered = false;
        for (uint32_t v = 0; v < l->value_count; v++) {
            covered = covered || disown_covers(m, d, l->values[v].pool);
        }
        for (uint32_t v = 0; l->state == KERNEL_WAITING && v < l->wait.pool_count; v++) {
            covered = covered || disown_covers(m, d, l->wait.pools[v]);
        }
        if (covered && strcmp(l->holder, d->holder) == 0 && l->state != KERNEL_REVOKING &&
            !l->passed && !model_disown_spares(m, d, l)) {
            return true;
        }
    }
    return false;
}

/* The kernel says that the first mark is done: nothing may be left of what it had to release. */
void model_disown_done(struct model *m) {
    if (m->disown_count == 0 || disown_has_work(m, &m->disowns[0])) {
        return;
    }
    struct model_disown d = m->disowns[0];
    for (uint32_t i = 0; i < m->lease_count; i++) {
        m->leases[i].passed = m->leases[i].passed && strcmp(m->leases[i].holder, d.holder) != 0;
    }
    m->disown_count--;
    memmove(&m->disowns[0], &m->disowns[1], m->disown_count * sizeof m->disowns[0]);
    if (m->c.verb == KERNEL_VERB_DISOWN) {
        m->want.head.number = d.released;
    }
    model_expect_disowned(m, &d);
}

static bool has_leases(const struct model *m, const char *holder) {
    for (uint32_t i = 0; i < m->lease_count; i++) {
        if (strcmp(m->leases[i].holder, holder) == 0) {
            return true;
        }
    }
    return false;
}

static void disown(struct model *m) {
    struct kernel_result *r = &m->want.head;
    struct model_disown d = {.author = m->author, .pool = MODEL_NONE};
    if (m->c.holder.len == 0 || m->c.holder.len > KERNEL_HOLDER_MAX) {
        r->code = TN_R_BAD_NAME;
        return;
    }
    model_text(d.holder, sizeof d.holder, m->c.holder);
    if ((m->c.fields & KERNEL_F_POOL) != 0) {
        char name[MODEL_TEXT];
        model_text(name, sizeof name, m->c.pool);
        d.pool = model_pool_find(m, name);
        if (d.pool == MODEL_NONE) {
            r->code = TN_R_POOL_NOTFOUND;
            return;
        }
        if (model_policy(m, d.pool)->of[KERNEL_OPTION_INTERNAL] != 0 && !supervisor_rights(m)) {
            r->code = TN_R_DENIED;
            return;
        }
    }
    if (!has_leases(m, d.holder)) {
        r->code = TN_R_NOOP;
        return;
    }
    for (uint32_t i = 0; i < m->disown_count; i++) {
        if (strcmp(m->disowns[i].holder, d.holder) == 0) {
            r->code = TN_R_BUSY;
            return;
        }
    }
    if (m->disown_count >= m->limits.of[KERNEL_LIMIT_DISOWNS]) {
        r->code = TN_R_BUSY;
        return;
    }
    m->disowns[m->disown_count++] = d;
    model_follow(m);
    if (m->disown_count > 0 && strcmp(m->disowns[0].holder, d.holder) == 0) {
        r->number = m->disowns[0].released;
    }
}

static void evaluate_all(struct model *m) {
    for (uint32_t i = 0; i < MODEL_POOLS; i++) {
        if (m->pools[i].state == MODEL_POOL_LIVE) {
            model_rate_evaluate(m, i);
        }
    }
}

static void sweep(struct model *m) {
    if ((m->c.fields & KERNEL_F_POOL) != 0) {
        char name[MODEL_TEXT];
        model_text(name, sizeof name, m->c.pool);
        uint32_t pool = model_pool_find(m, name);
        if (pool == MODEL_NONE) {
            m->want.head.code = TN_R_POOL_NOTFOUND;
            return;
        }
        if (!m->pools[pool].is_scope && m->pools[pool].own.of[KERNEL_OPTION_SCOPED] != 0) {
            evaluate_all(m);
        } else {
            model_rate_evaluate(m, pool);
        }
    } else {
        evaluate_all(m);
    }
    model_follow(m);
    m->want.head.number = m->freed;
}

static void tick(struct model *m) {
    uint32_t step = (uint32_t)m->limits.of[KERNEL_LIMIT_TICK_STEP];
    evaluate_all(m);
    model_follow(m);
    m->want.head.number = m->freed;
    model_ops_purge(m, step);
    model_history_retire(m, step);
}

#define RESTORES_MAX 32u

static void restored(struct model *m) {
    if (m->restores == RESTORES_MAX) {
        m->want.head.code = TN_R_TOO_LARGE;
        m->want.head.number = RESTORES_MAX;
        return;
    }
    m->restores++;
    m->shard += (uint64_t)1 << 32;
    m->want.head.number = m->shard >> 32;
}

static void emit(struct model *m, const struct model_lease *l) {
    if (!state_is(m, l, IN(ACTIVE))) {
        return;
    }
    bool runs = false;
    for (uint32_t i = 0; i < l->value_count; i++) {
        const struct model_value *v = &l->values[i];
        runs = runs || (model_policy(m, v->pool)->of[KERNEL_OPTION_INTERNAL] != 0 &&
                        tn_bytes_equal(m->c.name, tn_bytes_of(v->name, strlen(v->name))));
    }
    if (!runs) {
        m->want.head.code = TN_R_BAD_VALUE;
    } else if (m->c.trigger.len == 0 || m->c.trigger.len > KERNEL_RULE_MAX) {
        m->want.head.code = TN_R_BAD_NAME;
    } else if (m->c.meta.len > KERNEL_META_MAX) {
        m->want.head.code = TN_R_TOO_LARGE;
        m->want.head.number = KERNEL_META_MAX;
    } else {
        model_expect_sensor(m, KERNEL_EVENT_SENSOR_EMITTED, true);
    }
}

static void lease_verb(struct model *m) {
    struct model_lease *l = named_lease(m);
    if (l == NULL) {
        return;
    }
    switch (m->c.verb) {
    case KERNEL_VERB_ACTIVATE:
        activate(m, l);
        break;
    case KERNEL_VERB_TOUCH:
        touch(m, l);
        break;
    case KERNEL_VERB_RELEASE:
        release(m, l);
        break;
    case KERNEL_VERB_REVOKE:
        revoke(m, l);
        break;
    case KERNEL_VERB_ACK:
        finish(m, l, KERNEL_REASON_ACKNOWLEDGED);
        break;
    case KERNEL_VERB_RECLAIM:
        finish(m, l, KERNEL_REASON_RECLAIMED);
        break;
    case KERNEL_VERB_EMIT:
        emit(m, l);
        break;
    default:
        rekey(m, l);
        break;
    }
}

static void limits(struct model *m) {
    m->limits = m->c.limits;
    model_history_shrink(m);
}

static void emit_verb(struct model *m) {
    if (supervisor_rights(m)) {
        lease_verb(m);
    } else {
        m->want.head.code = TN_R_DENIED;
    }
}

/* Every verb has its row. */
static void (*const verbs[KERNEL_VERB_COUNT])(struct model *m) = {
    [KERNEL_VERB_TICK] = tick,
    [KERNEL_VERB_LIMITS] = limits,
    [KERNEL_VERB_RESTORED] = restored,
    [KERNEL_VERB_POOL_CREATE] = model_pool_create,
    [KERNEL_VERB_POOL_ALTER] = model_pool_alter,
    [KERNEL_VERB_POOL_DROP] = model_pool_drop,
    [KERNEL_VERB_POOL_ADD] = model_pool_add,
    [KERNEL_VERB_POOL_REMOVE] = model_pool_remove,
    [KERNEL_VERB_ALLOC] = model_alloc,
    [KERNEL_VERB_RESERVE] = model_alloc,
    [KERNEL_VERB_ACTIVATE] = lease_verb,
    [KERNEL_VERB_TOUCH] = lease_verb,
    [KERNEL_VERB_RELEASE] = lease_verb,
    [KERNEL_VERB_REVOKE] = lease_verb,
    [KERNEL_VERB_ACK] = lease_verb,
    [KERNEL_VERB_RECLAIM] = lease_verb,
    [KERNEL_VERB_REKEY] = lease_verb,
    [KERNEL_VERB_DISOWN] = disown,
    [KERNEL_VERB_SWEEP] = sweep,
    [KERNEL_VERB_RULE_SET] = model_demand,
    [KERNEL_VERB_RULE_ENABLE] = model_demand,
    [KERNEL_VERB_RULE_DELETE] = model_demand,
    [KERNEL_VERB_SENSOR_SET] = model_demand,
    [KERNEL_VERB_SENSOR_ENABLE] = model_demand,
    [KERNEL_VERB_SENSOR_DELETE] = model_demand,
    [KERNEL_VERB_IMPORT] = model_alloc,
    [KERNEL_VERB_POOL_SEED] = model_pool_seed,
    [KERNEL_VERB_EMIT] = emit_verb,
    [KERNEL_VERB_SENSOR_REPORT] = model_sensor_report,
    [KERNEL_VERB_UNATTEND] = model_unattend,
    [KERNEL_VERB_USER_ADD] = model_user,
    [KERNEL_VERB_USER_SET] = model_user,
    [KERNEL_VERB_USER_DELETE] = model_user,
};

void model_verb(struct model *m) {
    TN_ASSERT(verbs[m->c.verb] != NULL);
    verbs[m->c.verb](m);
}
