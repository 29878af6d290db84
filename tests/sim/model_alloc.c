/* Reserving and allocating: one lease for any mix of pools, whole or not at all. */
#include "sim/model_request.h"

#include <stdio.h>
#include <string.h>

#include "base/chunks.h"

enum tn_result model_refuse(struct model *m, enum tn_result code, uint64_t number) {
    m->want.head.code = code;
    m->want.head.number = number;
    return code;
}

/* The answer names the lease that holds the value, or the end of the value's cooldown. */
static enum tn_result busy(struct model *m, uint32_t pool, uint64_t number, uint64_t at) {
    const struct model_lease *l = model_value_lease(m, pool, number);
    uint32_t cooling = model_value_cooling(m, pool, number);
    if (l != NULL) {
        model_lease_result(m, l, false);
    } else if (cooling != MODEL_NONE) {
        m->retry_low = m->retry_high = m->cooling[cooling].until_ms;
    }
    return model_refuse(m, TN_R_BUSY, at);
}

/* ---- form ---- */

static enum tn_result check_form(struct model *m, struct model_request *q) {
    const struct kernel_command *c = &m->c;
    uint64_t most = m->limits.of[KERNEL_LIMIT_BUNDLE];
    if (c->holder.len == 0 || c->holder.len > KERNEL_HOLDER_MAX) {
        return model_refuse(m, TN_R_BAD_NAME, 0);
    }
    model_text(q->holder, sizeof q->holder, c->holder);
    if (c->meta.len > KERNEL_META_MAX) {
        return model_refuse(m, TN_R_TOO_LARGE, KERNEL_META_MAX);
    }
    if (c->claim_count == 0) {
        return model_refuse(m, TN_R_BAD_REQUEST, 0);
    }
    uint64_t total = 0;
    bool empty = false;
    struct tn_reader r = tn_reader_of(c->claims.at, c->claims.len);
    for (uint32_t i = 0; i < c->claim_count; i++) {
        struct kernel_claim claim = kernel_claim_read(&r);
        empty = empty || (claim.count == 0 && !(claim.any && c->claim_count == 1));
        total += claim.count;
    }
    bool large = total > most || c->claim_count > most;
    /* Of two faults of form either may be named. */
    if (large && (!empty || m->got->head.code == TN_R_TOO_LARGE)) {
        return model_refuse(m, TN_R_TOO_LARGE, most);
    }
    return empty ? model_refuse(m, TN_R_BAD_REQUEST, 0) : TN_R_OK;
}

/* The first request that names a scope makes it; it goes again if it stays empty. */
enum tn_result model_scope_made(struct model *m, const char *name, uint32_t *ret_pool) {
    char base[MODEL_TEXT];
    snprintf(base, sizeof base, "%s", name);
    char *at = strchr(base, '@');
    if (at == NULL) {
        return TN_R_POOL_NOTFOUND;
    }
    *at = '\0';
    uint32_t parent = model_pool_find(m, base);
    if (parent == MODEL_NONE || m->pools[parent].own.of[KERNEL_OPTION_SCOPED] == 0) {
        return TN_R_POOL_NOTFOUND;
    }
    bool sticky = m->pools[parent].own.of[KERNEL_OPTION_STICKY] != 0;
    if (sticky && model_meters(m) >= m->limits.of[KERNEL_LIMIT_RATES]) {
        return TN_R_POOLS_FULL;
    }
    if (model_pools_full(m)) {
        return TN_R_POOLS_FULL;
    }
    if (!model_scope_remembered(m, name, parent) &&
        !model_text_fits(m, tn_text_chunks(strlen(name)))) {
        return TN_R_NAMES_FULL;
    }
    *ret_pool = model_pool_new(m, name, true, parent);
    m->pools[*ret_pool].tracked =
        m->pools[parent].tracked || model_counts_holders(&m->pools[parent].own);
    model_rate_begin(m, *ret_pool);
    return TN_R_OK;
}

static enum tn_result find_pool(struct model *m, const struct model_request *q,
                                struct tn_bytes text, uint32_t *ret_pool) {
    char name[MODEL_TEXT];
    model_text(name, sizeof name, text);
    if (!kernel_name_pool_valid(text, true)) {
        return TN_R_BAD_NAME;
    }
    *ret_pool = model_pool_find(m, name);
    if (*ret_pool == MODEL_NONE) {
        enum tn_result code = model_scope_made(m, name, ret_pool);
        if (code != TN_R_OK) {
            return code;
        }
    }
    const uint64_t *of = model_policy(m, *ret_pool)->of;
    if (of[KERNEL_OPTION_SCOPED] && !m->pools[*ret_pool].is_scope) {
        return TN_R_BAD_REQUEST;
    }
    if (of[KERNEL_OPTION_INTERNAL] && !(m->c.rights & KERNEL_RIGHT_SUPERVISOR)) {
        return TN_R_DENIED;
    }
    if (of[KERNEL_OPTION_STICKY] && (m->c.claim_count > 1 || q->reserve)) {
        return TN_R_BAD_REQUEST;
    }
    return TN_R_OK;
}

static enum tn_result find_pools(struct model *m, struct model_request *q) {
    struct tn_reader r = tn_reader_of(m->c.claims.at, m->c.claims.len);
    for (uint32_t i = 0; i < m->c.claim_count; i++) {
        struct kernel_claim claim = kernel_claim_read(&r);
        struct model_part *p = &q->parts[q->part_count++];
        enum tn_result code = find_pool(m, q, claim.pool, &p->pool);
        if (code != TN_R_OK) {
            return model_refuse(m, code, i);
        }
        p->any = claim.any;
        p->count = claim.any && claim.count == 0 ? 1 : claim.count;
        p->values = claim.values;
        for (uint32_t n = 0; n < p->count; n++) {
            struct model_value *v = &q->values[q->value_count++];
            v->pool = p->pool;
            v->claim = (uint16_t)i;
        }
    }
    q->terms = model_terms(m, q->values, q->value_count);
    return TN_R_OK;
}

static enum tn_result check_ttl(struct model *m, const struct model_request *q) {
    const struct kernel_command *c = &m->c;
    uint64_t cap = q->reserve ? q->terms.reserve_ttl_max_s : q->terms.max_lease_s;
    bool asked = (c->fields & KERNEL_F_TTL) != 0;
    if (asked && (c->ttl_s == 0 || (cap != 0 && c->ttl_s > cap))) {
        return model_refuse(m, TN_R_BAD_TTL, cap);
    }
    if ((c->fields & KERNEL_F_DEADLINE) == 0) {
        return TN_R_OK;
    }
    if (!(c->rights & KERNEL_RIGHT_OPERATOR)) {
        return model_refuse(m, TN_R_DENIED, 0);
    }
    bool bad = asked || c->deadline_ms <= m->now_ms || c->deadline_ms > KERNEL_TIME_MAX;
    return bad ? model_refuse(m, TN_R_BAD_TTL, cap) : TN_R_OK;
}

/* ---- values ---- */

/* The listed values must be values, allowed, named once and free. */
static enum tn_result choose_listed(struct model *m, struct model_request *q) {
    uint32_t at = 0;
    for (uint32_t i = 0; i < q->part_count; i++) {
        const struct model_part *p = &q->parts[i];
        struct tn_reader r = tn_reader_of(p->values.at, p->values.len);
        if (p->any) {
            at += p->count;
            continue;
        }
        for (uint32_t n = 0; n < p->count; n++, at++) {
            struct kernel_requested w = kernel_requested_read(&r);
            uint64_t number;
            if (!model_resolve(m, p->pool, &w, &number)) {
                return model_refuse(m, TN_R_BAD_VALUE, at);
            }
            if (model_excluded(model_policy(m, p->pool), number) &&
                !(m->c.rights & KERNEL_RIGHT_OPERATOR)) {
                return model_refuse(m, TN_R_DENIED, at);
            }
            if (model_taken_here(q, p->pool, number)) {
                return model_refuse(m, TN_R_BAD_VALUE, at);
            }
            if (!model_value_free(m, p->pool, number)) {
                return busy(m, p->pool, number, at);
            }
            q->values[at].number = number;
            q->chosen[at] = true;
        }
    }
    return TN_R_OK;
}

/* ---- what must be up to date ---- */

static void settle_values(struct model *m, const struct model_request *q) {
    for (uint32_t i = 0; i < q->part_count; i++) {
        const struct model_part *p = &q->parts[i];
        struct tn_reader r = tn_reader_of(p->values.at, p->values.len);
        for (uint32_t n = 0; !p->any && n < p->count; n++) {
            struct kernel_requested w = kernel_requested_read(&r);
            uint64_t number;
            if (model_resolve(m, p->pool, &w, &number)) {
                model_value_settle(m, p->pool, number);
            }
        }
    }
}

/* ---- a holder that comes back ---- */

static struct model_lease *sticky_lease(struct model *m, const struct model_request *q) {
    for (uint32_t i = 0; i < m->lease_count; i++) {
        struct model_lease *l = &m->leases[i];
        if (l->state != KERNEL_WAITING && strcmp(l->holder, q->holder) == 0 &&
            l->values[0].pool == q->parts[0].pool) {
            return l;
        }
    }
    return NULL;
}

static bool has_value(const struct model_lease *l, uint64_t number) {
    for (uint32_t i = 0; i < l->value_count; i++) {
        if (l->values[i].number == number) {
            return true;
        }
    }
    return false;
}

/* What is asked for, to be renewed with: an import's own end counts as the ttl to it. */
static uint32_t ttl_given(const struct model *m) {
    if ((m->c.fields & KERNEL_F_DEADLINE) != 0) {
        uint64_t ttl_s = (m->c.deadline_ms - m->now_ms + 999) / 1000;
        return ttl_s > UINT32_MAX ? UINT32_MAX : (uint32_t)ttl_s;
    }
    return (m->c.fields & KERNEL_F_TTL) != 0 ? m->c.ttl_s : 0;
}

static uint64_t deadline_given(const struct model *m, const struct model_request *q,
                               const struct model_lease *l, uint64_t given_ms) {
    uint32_t ttl_s = ttl_given(m);
    uint64_t seconds = q->reserve ? ttl_s : model_period(&q->terms, ttl_s);
    uint64_t deadline = model_deadline(m, l, seconds, given_ms);
    bool own_end = (m->c.fields & KERNEL_F_DEADLINE) != 0;
    return own_end && m->c.deadline_ms < deadline ? m->c.deadline_ms : deadline;
}

bool model_asks_for_same(const struct model *m, const struct model_request *q,
                         const struct model_lease *l) {
    const struct model_part *p = &q->parts[0];
    struct tn_reader claims = tn_reader_of(m->c.claims.at, m->c.claims.len);
    if (p->any) {
        uint32_t asked = kernel_claim_read(&claims).count;
        return asked == 0 || asked == l->value_count;
    }
    uint64_t named[MODEL_BUNDLE];
    struct tn_reader r = tn_reader_of(p->values.at, p->values.len);
    for (uint32_t i = 0; i < p->count; i++) {
        struct kernel_requested w = kernel_requested_read(&r);
        uint64_t number;
        if (!model_resolve(m, p->pool, &w, &number) || !has_value(l, number)) {
            return false;
        }
        for (uint32_t j = 0; j < i && j < MODEL_BUNDLE; j++) {
            if (named[j] == number) {
                return false;
            }
        }
        named[i % MODEL_BUNDLE] = number;
    }
    return p->count == l->value_count;
}

static void come_back(struct model *m, const struct model_request *q, struct model_lease *l) {
    uint64_t old = l->meta_len > 0 ? tn_text_chunks(l->meta_len) : 0;
    uint64_t new = m->c.meta.len > 0 ? tn_text_chunks(m->c.meta.len) : 0;
    if (strcmp(l->user, m->want_user) != 0 && !(m->c.rights & KERNEL_RIGHT_OPERATOR)) {
        model_refuse(m, TN_R_DENIED, 0);
    } else if (l->state == KERNEL_REVOKING) {
        model_lease_result(m, l, false);
        model_refuse(m, TN_R_BUSY, 0);
    } else if (!model_asks_for_same(m, q, l)) {
        model_refuse(m, TN_R_CONFLICT, 0);
    } else if (new > old && !model_text_fits(m, new - old)) {
        model_refuse(m, TN_R_NAMES_FULL, 0);
    }
    if (m->want.head.code != TN_R_OK) {
        return;
    }
    model_lease_away(m, l);
    l->epoch++;
    l->renewed = true;
    l->state = KERNEL_ACTIVE;
    l->reason = KERNEL_REASON_RETURNED;
    l->deadline_ms = deadline_given(m, q, l, l->deadline_ms);
    l->ttl_s = ttl_given(m);
    l->grace_s = q->terms.grace_s;
    l->last_seen_ms = m->now_ms;
    l->offline_since_ms = 0;
    model_lease_meta(m, l);
    const struct model_pool *returned_to = &m->pools[l->values[0].pool];
    m->pools[l->values[0].pool].counters.returned++;
    if (returned_to->is_scope) {
        m->pools[returned_to->parent].counters.returned++;
    }
    model_lease_result(m, l, true);
    for (uint32_t i = 0; i < l->value_count; i++) {
        m->want.values[i].claim = 0;
    }
    model_expect(m, KERNEL_EVENT_LEASE_RETURNED, KERNEL_REASON_RETURNED, l);
}

/* ---- judging ---- */

static enum tn_result check_quota(struct model *m, const struct model_request *q) {
    for (uint32_t i = 0; i < q->part_count; i++) {
        uint32_t pool = q->parts[i].pool;
        uint64_t quota = model_policy(m, pool)->of[KERNEL_OPTION_MAX_PER_HOLDER];
        uint64_t values = model_pool_held(m, pool, KERNEL_NO_STATE, q->holder);
        bool last = true; /* several parts for one pool are judged at the last of them */
        for (uint32_t j = i + 1; j < q->part_count; j++) {
            last = last && q->parts[j].pool != pool;
        }
        for (uint32_t v = 0; last && v < q->value_count; v++) {
            values += q->values[v].pool == pool;
        }
        if (quota != 0 && values > quota) {
            return model_refuse(m, TN_R_QUOTA, quota);
        }
    }
    uint64_t held = model_user_values(m, m->c.user);
    if (m->c.quota != 0 && held + q->value_count > m->c.quota) {
        return model_refuse(m, TN_R_QUOTA, m->c.quota);
    }
    return TN_R_OK;
}

/* The values that a part names and that count in the capacity of their pool. */
static uint64_t count_named(const struct model *m, const struct model_part *p) {
    struct tn_reader r = tn_reader_of(p->values.at, p->values.len);
    uint64_t count = 0;
    for (uint32_t n = 0; !p->any && n < p->count; n++) {
        struct kernel_requested w = kernel_requested_read(&r);
        uint64_t number;
        count += model_resolve(m, p->pool, &w, &number) &&
                 !model_excluded(model_policy(m, p->pool), number);
    }
    return count;
}

/* More of "any" than the pool has beside the named values is refused for good; one of an empty pool may
 * come. */
static enum tn_result check_capacity(struct model *m, const struct model_request *q) {
    for (uint32_t i = 0; i < q->part_count; i++) {
        uint32_t pool = q->parts[i].pool;
        uint64_t wanted = 0;
        for (uint32_t v = 0; v < q->value_count; v++) {
            wanted += q->values[v].pool == pool && q->parts[q->values[v].claim].any;
        }
        for (uint32_t p = 0; wanted > 0 && p < q->part_count; p++) {
            wanted += q->parts[p].pool == pool ? count_named(m, &q->parts[p]) : 0;
        }
        if (wanted > 1 && wanted > model_pool_capacity(m, pool)) {
            return model_refuse(m, TN_R_TOO_LARGE, model_pool_capacity(m, pool));
        }
    }
    return TN_R_OK;
}

static enum tn_result check_room(struct model *m, const struct model_request *q) {
    if (m->lease_count >= m->limits.of[KERNEL_LIMIT_LEASES]) {
        return model_refuse(m, TN_R_LEASES_FULL, 0);
    }
    uint64_t waiting;
    uint64_t unused;
    model_wait_count(m, &waiting, &unused);
    if (model_members(m) + waiting + q->value_count > m->limits.of[KERNEL_LIMIT_MEMBERS]) {
        return model_refuse(m, TN_R_MEMBERS_FULL, 0);
    }
    uint32_t missing = model_names_missing(m, q->holder, m->want_user);
    uint64_t chunks = 0;
    chunks += model_names_missing(m, q->holder, "") > 0 ? tn_text_chunks(strlen(q->holder)) : 0;
    chunks += model_names_missing(m, "", m->want_user) > 0 ? tn_text_chunks(m->c.user.len) : 0;
    chunks += (m->c.fields & KERNEL_F_META) != 0 ? tn_text_chunks(m->c.meta.len) : 0;
    chunks += (m->c.fields & KERNEL_F_WAIT) != 0 ? tn_text_chunks(m->c.claims.len) : 0;
    if (model_names(m) + missing > m->limits.of[KERNEL_LIMIT_NAMES] ||
        !model_text_fits(m, chunks)) {
        return model_refuse(m, TN_R_NAMES_FULL, 0);
    }
    return TN_R_OK;
}

static enum tn_result choose(struct model *m, struct model_request *q) {
    for (uint32_t i = 0; i < q->part_count; i++) {
        uint32_t pool = q->parts[i].pool;
        if (model_policy(m, pool)->of[KERNEL_OPTION_STRATEGY] != KERNEL_COLDEST) {
            m->pools[pool].cold_count = 0; /* left from a time when it was */
        }
    }
    if (choose_listed(m, q) != TN_R_OK) {
        return m->want.head.code;
    }
    for (uint32_t i = 0; i < q->value_count; i++) {
        if (q->chosen[i]) {
            continue;
        }
        q->chosen[i] = model_pick(m, q, i);
        if (!q->chosen[i]) {
            model_exhausted(m, q->values[i].pool);
            return model_refuse(m, TN_R_EXHAUSTED, q->values[i].claim);
        }
    }
    return TN_R_OK;
}

static void count_given(struct model *m, const struct model_request *q) {
    for (uint32_t i = 0; i < q->value_count; i++) {
        uint32_t pool = q->values[i].pool;
        struct model_pool *p = &m->pools[pool];
        bool any = q->parts[q->values[i].claim].any;
        p->counters.allocated++;
        if (p->is_scope) {
            m->pools[p->parent].counters.allocated++;
        }
        p->by_value = p->by_value || !any;
        p->not_lowest = p->not_lowest || !any ||
                        model_policy(m, pool)->of[KERNEL_OPTION_STRATEGY] != KERNEL_LOWEST;
        model_value_given(m, pool, q->values[i].number);
        if (any && model_policy(m, pool)->of[KERNEL_OPTION_STRATEGY] == KERNEL_NEXT) {
            p->rotor_set = true;
            p->rotor = q->values[i].number;
        }
    }
}

void model_request_grant(struct model *m, const struct model_request *q, struct model_lease *l) {
    l->state = q->reserve ? KERNEL_RESERVED : KERNEL_ACTIVE;
    l->reason = KERNEL_REASON_REQUESTED;
    l->created_ms = l->last_seen_ms = m->now_ms;
    l->ttl_s = q->reserve ? 0 : ttl_given(m);
    l->grace_s = q->terms.grace_s;
    l->value_count = q->value_count;
    for (uint32_t i = 0; i < q->value_count; i++) {
        l->values[i] = q->values[i];
        model_value_name(m, &l->values[i]);
    }
    if (q->import) {
        model_import_fill(m, q, l);
    } else {
        l->deadline_ms = deadline_given(m, q, l, 0);
    }
    count_given(m, q);
    if (q->terms.sticky && !q->import) {
        model_rate_count(m, l->values[0].pool);
    }
    model_expect(m,
                 q->reserve                   ? KERNEL_EVENT_LEASE_RESERVED
                 : l->state == KERNEL_OFFLINE ? KERNEL_EVENT_LEASE_OFFLINE
                                              : KERNEL_EVENT_LEASE_ACTIVE,
                 l->reason, l);
}

static void grant(struct model *m, const struct model_request *q) {
    if (m->lease_count == MODEL_LEASES) {
        model_fail(m, "the model has too few leases");
        return;
    }
    struct model_lease *l = &m->leases[m->lease_count++];
    memset(l, 0, sizeof *l);
    l->id = (struct kernel_lease_id){.shard = m->shard, .lsn = m->lsn};
    l->epoch = 1;
    memcpy(l->holder, q->holder, sizeof l->holder);
    memcpy(l->user, m->want_user, sizeof l->user);
    model_lease_meta(m, l);
    model_request_grant(m, q, l);
    model_lease_result(m, l, true);
}

enum tn_result model_request_try(struct model *m, struct model_request *q) {
    if (find_pools(m, q) != TN_R_OK) {
        return m->want.head.code;
    }
    for (uint32_t i = 0; i < q->part_count; i++) {
        if (model_disowned(m, q->holder, q->parts[i].pool) != NULL) {
            return model_refuse(m, TN_R_BUSY, 0);
        }
    }
    if (q->terms.sticky) {
        model_rate_evaluate(m, q->parts[0].pool);
        const struct model_lease *own = sticky_lease(m, q);
        if (own != NULL) {
            bool ends = own->state == KERNEL_REVOKING || model_lease_due(m, own);
            return model_refuse(m, ends ? TN_R_BUSY : TN_R_CONFLICT, 0);
        }
    }
    if (check_quota(m, q) == TN_R_OK && check_capacity(m, q) == TN_R_OK) {
        choose(m, q);
    }
    return m->want.head.code;
}

static bool waits(const struct model *m) {
    enum tn_result code = m->want.head.code;
    return (m->c.fields & KERNEL_F_WAIT) != 0 && (code == TN_R_EXHAUSTED || code == TN_R_BUSY);
}

void model_alloc(struct model *m) {
    struct model_request request = {.reserve = m->c.verb == KERNEL_VERB_RESERVE,
                                    .import = m->c.verb == KERNEL_VERB_IMPORT};
    struct model_request *q = &request;
    if (m->got->head.code == TN_R_OK) {
        q->picks = m->got->values;
        q->pick_count = m->got->head.value_count;
    }
    if (check_form(m, q) != TN_R_OK || find_pools(m, q) != TN_R_OK ||
        (q->import ? model_import_check(m, q) : check_ttl(m, q)) != TN_R_OK ||
        model_wait_check(m, q) != TN_R_OK) {
        return;
    }
    for (uint32_t i = 0; i < q->part_count; i++) {
        if (model_disowned(m, q->holder, q->parts[i].pool) != NULL) {
            model_refuse(m, TN_R_BUSY, 0);
            return;
        }
    }
    if (q->terms.sticky) {
        model_rate_evaluate(m, q->parts[0].pool);
        struct model_lease *old = sticky_lease(m, q);
        if (old != NULL) {
            old = model_lease_settle(m, old);
        }
        if (old != NULL && q->import) {
            model_import_known(m, q, old);
            return;
        }
        if (old != NULL) {
            come_back(m, q, old);
            if (waits(m)) {
                m->want.head.code = TN_R_OK;
                m->want.head.has_lease = false;
                if (check_room(m, q) == TN_R_OK) {
                    model_wait_join(m, q);
                }
            }
            return;
        }
    }
    settle_values(m, q);
    model_follow(m);
    if (q->import && model_import_known(m, q, NULL)) {
        return;
    }
    if (check_room(m, q) != TN_R_OK || check_quota(m, q) != TN_R_OK ||
        check_capacity(m, q) != TN_R_OK) {
        return;
    }
    if ((q->import || model_wait_turn(m, q) == TN_R_OK) && choose(m, q) == TN_R_OK) {
        grant(m, q);
    } else if (waits(m)) {
        m->want.head.has_lease = false;
        model_wait_join(m, q);
    }
}
