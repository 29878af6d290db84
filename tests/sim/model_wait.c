/* Waiting: which leases are in which line, which may be served, and what their clients are
 * answered. */
#include "sim/model_request.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* ---- lines ---- */

static bool wants(const struct model_lease *l, uint32_t pool) {
    for (uint32_t i = 0; l->state == KERNEL_WAITING && i < l->wait.pool_count; i++) {
        if (l->wait.pools[i] == pool) {
            return true;
        }
    }
    return false;
}

/* Attended waiters of the pool with a smaller LSN. */
static uint64_t before_in(const struct model *m, uint32_t pool, uint64_t lsn) {
    uint64_t count = 0;
    for (uint32_t i = 0; i < m->lease_count; i++) {
        const struct model_lease *l = &m->leases[i];
        count += wants(l, pool) && l->wait.attended && l->id.lsn < lsn;
    }
    return count;
}

uint64_t model_wait_before(const struct model *m, const struct model_lease *l) {
    uint64_t most = 0;
    for (uint32_t i = 0; i < l->wait.pool_count; i++) {
        uint64_t here = before_in(m, l->wait.pools[i], l->id.lsn);
        most = here > most ? here : most;
    }
    return most;
}

uint64_t model_waiting_in(const struct model *m, uint32_t pool) {
    uint64_t count = 0;
    for (uint32_t i = 0; i < m->lease_count; i++) {
        count += wants(&m->leases[i], pool);
    }
    return count;
}

uint64_t model_waiting_since(const struct model *m, uint32_t pool) {
    const struct model_lease *first = NULL;
    for (uint32_t i = 0; i < m->lease_count; i++) {
        const struct model_lease *l = &m->leases[i];
        if (wants(l, pool) && l->wait.attended && (first == NULL || l->id.lsn < first->id.lsn)) {
            first = l;
        }
    }
    return first == NULL ? 0 : first->wait.since_ms;
}

void model_wait_count(const struct model *m, uint64_t *ret_values, uint64_t *ret_places) {
    *ret_values = *ret_places = 0;
    for (uint32_t i = 0; i < m->lease_count; i++) {
        if (m->leases[i].state == KERNEL_WAITING) {
            *ret_values += m->leases[i].wait.total;
            *ret_places += m->leases[i].wait.pool_count;
        }
    }
}

/* ---- the request ---- */

enum tn_result model_wait_check(struct model *m, const struct model_request *q) {
    const struct kernel_command *c = &m->c;
    if ((c->fields & KERNEL_F_WAIT) == 0) {
        return TN_R_OK;
    }
    if (c->wait_s == 0 || c->wait_s > KERNEL_WAIT_MAX_S) {
        return model_refuse(m, TN_R_BAD_TTL, KERNEL_WAIT_MAX_S);
    }
    for (uint32_t i = 0; i < q->part_count; i++) {
        if (model_policy(m, q->parts[i].pool)->of[KERNEL_OPTION_INTERNAL] != 0) {
            return model_refuse(m, TN_R_BAD_REQUEST, i);
        }
    }
    return (c->fields & KERNEL_F_DEADLINE) != 0 ? model_refuse(m, TN_R_BAD_REQUEST, 0) : TN_R_OK;
}

/* Nobody overtakes a line. */
enum tn_result model_wait_turn(struct model *m, const struct model_request *q) {
    uint32_t at = 0;
    for (uint32_t i = 0; i < q->part_count; i++) {
        uint64_t line = before_in(m, q->parts[i].pool, UINT64_MAX);
        if (line > 0) {
            m->want.head.waiting = line;
            return q->parts[i].any ? model_refuse(m, TN_R_EXHAUSTED, i)
                                   : model_refuse(m, TN_R_BUSY, at);
        }
        at += q->parts[i].count;
    }
    return TN_R_OK;
}

static void forget_cold(struct model *m, uint32_t pool) {
    if (model_policy(m, pool)->of[KERNEL_OPTION_STRATEGY] != KERNEL_COLDEST) {
        m->pools[pool].cold_count = 0; /* left from a time when it was */
    }
}

void model_wait_altered(struct model *m, uint32_t pool) {
    for (uint32_t i = 0; i < MODEL_POOLS; i++) {
        const struct model_pool *p = &m->pools[i];
        bool follows = i == pool || (p->is_scope && p->parent == pool);
        if (p->state == MODEL_POOL_LIVE && follows && model_waiting_in(m, i) > 0) {
            forget_cold(m, i);
        }
    }
}

static void want_pools(struct model_wait *w, const struct model_request *q) {
    for (uint32_t i = 0; i < q->part_count; i++) {
        bool known = false;
        for (uint32_t j = 0; j < w->pool_count; j++) {
            known = known || w->pools[j] == q->parts[i].pool;
        }
        if (!known) {
            w->pools[w->pool_count++] = q->parts[i].pool;
        }
    }
}

void model_wait_join(struct model *m, const struct model_request *q) {
    uint64_t values;
    uint64_t places;
    struct model_lease l = {.state = KERNEL_WAITING, .epoch = 1};
    model_wait_count(m, &values, &places);
    want_pools(&l.wait, q);
    m->retry_low = m->retry_high = 0;
    bool values_fit = values + q->value_count <= (m->limits.of[KERNEL_LIMIT_MEMBERS] + 1) / 2;
    if (!values_fit || places + l.wait.pool_count > m->limits.of[KERNEL_LIMIT_WAITERS]) {
        memset(&m->want.head.lease, 0, sizeof m->want.head.lease);
        model_refuse(m, TN_R_WAITERS_FULL, m->limits.of[KERNEL_LIMIT_WAITERS]);
        m->retry_high = UINT64_MAX;
        return;
    }
    if (m->lease_count == MODEL_LEASES || m->c.claims.len > sizeof l.wait.claims) {
        model_fail(m, "the model has too little room for waiters");
        return;
    }
    for (uint32_t i = 0; i < l.wait.pool_count; i++) {
        forget_cold(m, l.wait.pools[i]);
    }
    l.id = (struct kernel_lease_id){.shard = m->shard, .lsn = m->lsn};
    l.reason = KERNEL_REASON_REQUESTED;
    l.created_ms = l.last_seen_ms = l.wait.since_ms = m->now_ms;
    l.wait.until_ms = l.deadline_ms = m->now_ms + (uint64_t)m->c.wait_s * 1000;
    l.ttl_s = (m->c.fields & KERNEL_F_TTL) != 0 ? m->c.ttl_s : 0;
    l.wait.attended = true;
    l.wait.reserve = q->reserve;
    l.wait.rights = m->c.rights;
    l.wait.quota = m->c.quota;
    l.wait.total = q->value_count;
    l.wait.claim_count = m->c.claim_count;
    l.wait.claims_len = m->c.claims.len;
    memcpy(l.wait.claims, m->c.claims.at, m->c.claims.len);
    memcpy(l.holder, q->holder, sizeof l.holder);
    memcpy(l.user, m->want_user, sizeof l.user);
    model_lease_meta(m, &l);
    m->leases[m->lease_count++] = l;
    model_expect(m, KERNEL_EVENT_LEASE_WAITING, KERNEL_REASON_REQUESTED, &l);
    model_refuse(m, TN_R_WAITING, 0);
    model_lease_result(m, &l, false);
    m->want.head.waiting = model_wait_before(m, &l);
}

/* ---- attendance ---- */

static struct model_op *op_of(struct model *m, const struct model_lease *l) {
    for (uint32_t i = 0; i < m->op_count; i++) {
        if (m->ops[i].waits && kernel_lease_id_compare(m->ops[i].result.head.lease, l->id) == 0) {
            return &m->ops[i];
        }
    }
    return NULL;
}

static void unattend(struct model *m, struct model_lease *l) {
    if (op_of(m, l) == NULL) {
        l->epoch++;
        struct model_author author = m->author;
        memset(&m->author, 0, sizeof m->author);
        model_lease_end(m, l, KERNEL_RELEASED, KERNEL_REASON_ABANDONED);
        m->author = author;
        return;
    }
    uint64_t back_ms = m->now_ms + KERNEL_UNATTENDED_MS;
    l->wait.attended = false;
    l->deadline_ms = l->wait.until_ms < back_ms ? l->wait.until_ms : back_ms;
}

static struct model_lease *first_attended(struct model *m) {
    struct model_lease *first = NULL;
    for (uint32_t i = 0; i < m->lease_count; i++) {
        struct model_lease *l = &m->leases[i];
        if (l->state == KERNEL_WAITING && l->wait.attended &&
            (first == NULL || l->id.lsn < first->id.lsn)) {
            first = l;
        }
    }
    return first;
}

static uint64_t attended(const struct model *m) {
    uint64_t count = 0;
    for (uint32_t i = 0; i < m->lease_count; i++) {
        count += m->leases[i].state == KERNEL_WAITING && m->leases[i].wait.attended;
    }
    return count;
}

void model_unattend(struct model *m) {
    struct kernel_result *r = &m->want.head;
    if ((m->c.fields & KERNEL_F_LEASE) == 0) {
        struct model_lease *l = first_attended(m);
        for (uint64_t i = 0; l != NULL && i < m->limits.of[KERNEL_LIMIT_TICK_STEP]; i++) {
            unattend(m, l);
            l = first_attended(m);
        }
        r->number = attended(m);
        return;
    }
    struct model_lease *l = model_lease_find(m, m->c.lease);
    l = l == NULL ? NULL : model_lease_settle(m, l);
    if (l == NULL) {
        r->code = model_ended(m, m->c.lease, &l);
        r->code = r->code == TN_R_OK ? TN_R_STATE : r->code;
    } else if (l->state != KERNEL_WAITING) {
        r->code = TN_R_STATE;
    } else if (!l->wait.attended) {
        r->code = TN_R_NOOP;
        model_lease_result(m, l, false);
    } else {
        struct kernel_lease_id id = l->id;
        unattend(m, l);
        l = model_lease_find(m, id);
        model_lease_result(m, l != NULL ? l : model_lease_history(m, id), false);
    }
}

void model_wait_take_up(struct model *m, struct kernel_lease_id id) {
    struct model_lease *l = model_lease_find(m, id);
    l = l == NULL ? NULL : model_lease_settle(m, l);
    if (l != NULL && l->state == KERNEL_WAITING && !l->wait.attended) {
        l->wait.attended = true;
        l->deadline_ms = l->wait.until_ms;
        l->renewed = true;
    }
}

/* ---- what a waiting client is told ---- */

void model_wait_tell(struct model *m, const struct model_lease *l, enum tn_result code,
                     uint64_t number, uint64_t before) {
    const struct model_result *got =
        m->waited_next < m->waited_count ? &m->waited[m->waited_next++] : NULL;
    if (got == NULL) {
        model_fail(m, "the client of lease %" PRIu64 " is not told", l->id.lsn);
        return;
    }
    struct model_result saved = m->want;
    bool granted = code == TN_R_OK;
    memset(&m->want, 0, sizeof m->want);
    m->want.head.code = code;
    m->want.head.lsn = m->lsn;
    m->want.head.now_ms = m->now_ms;
    m->want.head.number = number;
    m->want.head.waiting = before;
    m->want.head.waited_ms = m->now_ms - l->wait.since_ms;
    model_lease_result(m, l, granted);
    m->want.head.has_lease = granted;
    struct model_result want = m->want;
    m->want = saved;
    const struct kernel_result *g = &got->head;
    const struct kernel_result *w = &want.head;
    if (code == TN_R_EXHAUSTED && number == UINT64_MAX) { /* whichever the kernel tried last */
        bool helps = g->code == TN_R_EXHAUSTED || g->code == TN_R_BUSY;
        want.head.code = helps ? g->code : TN_R_EXHAUSTED;
        want.head.number = g->number;
    }
    bool same = w->code == g->code && w->lsn == g->lsn && w->now_ms == g->now_ms &&
                kernel_lease_id_compare(w->lease, g->lease) == 0 && w->epoch == g->epoch &&
                w->state == g->state && w->deadline_ms == g->deadline_ms &&
                w->has_lease == g->has_lease && w->number == g->number &&
                w->waiting == g->waiting && w->waited_ms == g->waited_ms && g->retry_at_ms == 0 &&
                model_values_equal(&want, got);
    if (!same) {
        model_fail(m,
                   "lease %" PRIu64 " was told %s state %s number %" PRIu64 " waiting %" PRIu64
                   " waited %" PRIu64 ", should be %s %s %" PRIu64 " %" PRIu64 " %" PRIu64,
                   l->id.lsn, tn_result_name(g->code), kernel_state_name(g->state), g->number,
                   g->waiting, g->waited_ms, tn_result_name(w->code), kernel_state_name(w->state),
                   w->number, w->waiting, w->waited_ms);
        return;
    }
    struct model_op *op = op_of(m, l);
    if (op != NULL) {
        op->result = *got;
        model_op_answered(m, op);
    }
    if (m->want.head.code == TN_R_WAITING &&
        kernel_lease_id_compare(m->want.head.lease, l->id) == 0) {
        bool replayed = m->want.head.replayed;
        m->want = *got;
        m->want.head.replayed = replayed;
    }
}

/* ---- serving ---- */

/* The waiter's request, tried now: OK and its values, or why not. */
static enum tn_result try(struct model *m, const struct model_lease *l, struct model_request *q,
                          uint64_t *ret_number) {
    struct kernel_command c = m->c;
    struct model_result want = m->want;
    uint64_t low = m->retry_low;
    uint64_t high = m->retry_high;
    m->c = (struct kernel_command){
        .verb = l->wait.reserve ? KERNEL_VERB_RESERVE : KERNEL_VERB_ALLOC,
        .rights = l->wait.rights,
        .fields = KERNEL_F_HOLDER | KERNEL_F_CLAIMS | (l->ttl_s != 0 ? KERNEL_F_TTL : 0),
        .holder = tn_bytes_of(l->holder, strlen(l->holder)),
        .ttl_s = l->ttl_s,
        .user = tn_bytes_of(l->user, strlen(l->user)),
        .quota = l->wait.quota,
        .claims = tn_bytes_of(l->wait.claims, l->wait.claims_len),
        .claim_count = l->wait.claim_count,
    };
    m->want.head.code = TN_R_OK;
    memcpy(q->holder, l->holder, sizeof q->holder);
    enum tn_result code = model_request_try(m, q);
    *ret_number = m->want.head.number;
    m->c = c;
    m->want = want;
    m->retry_low = low;
    m->retry_high = high;
    return code;
}

static bool may_be_served(const struct model *m, const struct model_lease *l) {
    return l->state == KERNEL_WAITING && l->wait.attended && !model_lease_due(m, l) &&
           model_wait_before(m, l) == 0;
}

bool model_wait_quiet(const struct model *m) {
    static struct model copy; /* looking must not leave a trace */
    for (uint32_t i = 0; i < m->lease_count; i++) {
        if (may_be_served(m, &m->leases[i])) {
            struct model_request q = {.reserve = m->leases[i].wait.reserve};
            uint64_t unused;
            copy = *m;
            if (try(&copy, &copy.leases[i], &q, &unused) == TN_R_OK) {
                return false;
            }
        }
    }
    return true;
}

static bool served(struct model *m, const struct model_event *e, struct model_lease **ret) {
    *ret = model_lease_find(m, e->lease);
    return m->serving && *ret != NULL && may_be_served(m, *ret);
}

bool model_wait_granted(struct model *m, const struct model_event *e) {
    struct model_lease *l;
    if (!served(m, e, &l)) {
        return false;
    }
    struct model_request q = {
        .reserve = l->wait.reserve, .picks = e->values, .pick_count = e->value_count};
    uint64_t unused;
    if (try(m, l, &q, &unused) != TN_R_OK) {
        return false;
    }
    uint32_t ttl_s = l->ttl_s;
    struct kernel_command c = m->c;
    struct model_author author = m->author;
    memset(&m->author, 0, sizeof m->author);
    memcpy(m->author.actor, l->user, sizeof m->author.actor);
    m->c.fields = ttl_s != 0 ? KERNEL_F_TTL : 0;
    m->c.ttl_s = ttl_s;
    model_request_grant(m, &q, l);
    l->renewed = true; /* the timer may still have the end of the wait */
    m->c = c;
    m->author = author;
    m->served += 1 + l->value_count;
    model_wait_tell(m, l, TN_R_OK, 0, 0);
    return true;
}

bool model_wait_refused(struct model *m, const struct model_event *e) {
    struct model_lease *l;
    if (!served(m, e, &l)) {
        return false;
    }
    struct model_request q = {.reserve = l->wait.reserve};
    uint64_t number;
    enum tn_result code = try(m, l, &q, &number);
    if (code == TN_R_OK || code == TN_R_EXHAUSTED || code == TN_R_BUSY) {
        return false;
    }
    l->epoch++;
    l->wait.code = code;
    l->wait.number = number;
    struct model_author author = m->author;
    memset(&m->author, 0, sizeof m->author);
    model_lease_end(m, l, KERNEL_EXPIRED, KERNEL_REASON_REFUSED);
    m->author = author;
    m->served++;
    return true;
}
