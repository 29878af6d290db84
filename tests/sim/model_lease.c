/* Leases: what time does to them, how they end, what is remembered of them. */
#include "sim/model.h"

#include <stdio.h>
#include <string.h>

#include "base/hash.h"

static uint64_t smaller_nonzero(uint64_t a, uint64_t b) {
    if (a == 0 || b == 0) {
        return a + b;
    }
    return a < b ? a : b;
}

struct model_terms model_terms(const struct model *m, const struct model_value *values,
                               uint32_t count) {
    struct model_terms t = {0};
    for (uint32_t i = 0; i < count; i++) {
        const uint64_t *of = model_policy(m, values[i].pool)->of;
        t.sticky = t.sticky || of[KERNEL_OPTION_STICKY] != 0;
        t.lease_s = smaller_nonzero(t.lease_s, of[KERNEL_OPTION_LEASE]);
        t.max_lease_s = smaller_nonzero(t.max_lease_s, of[KERNEL_OPTION_MAX_LEASE]);
        t.max_hold_s = smaller_nonzero(t.max_hold_s, of[KERNEL_OPTION_MAX_HOLD]);
        t.reserve_ttl_max_s =
            smaller_nonzero(t.reserve_ttl_max_s, of[KERNEL_OPTION_RESERVE_TTL_MAX]);
        if (of[KERNEL_OPTION_GRACE] > t.grace_s) {
            t.grace_s = of[KERNEL_OPTION_GRACE];
        }
    }
    return t;
}

/* How long a grant lasts: what was asked for, as far as it may still be, or the pools' lease. */
uint64_t model_period(const struct model_terms *terms, uint64_t ttl_s) {
    return ttl_s != 0 ? smaller_nonzero(ttl_s, terms->max_lease_s) : terms->lease_s;
}

/* Now and some seconds, 0 seconds meaning forever; never past the longest hold, but what was given
 * already (`given_ms`) stays allowed when the policy becomes stricter. */
uint64_t model_deadline(const struct model *m, const struct model_lease *l, uint64_t seconds,
                        uint64_t given_ms) {
    uint64_t hold_s = model_terms(m, l->values, l->value_count).max_hold_s;
    uint64_t deadline = seconds == 0 ? 0 : m->now_ms + seconds * 1000;
    uint64_t end = hold_s == 0 ? 0 : l->created_ms + hold_s * 1000;
    if (end != 0 && end < given_ms) {
        end = given_ms;
    }
    return smaller_nonzero(deadline, end);
}

struct model_lease *model_lease_find(struct model *m, struct kernel_lease_id id) {
    for (uint32_t i = 0; i < m->lease_count; i++) {
        if (kernel_lease_id_compare(m->leases[i].id, id) == 0) {
            return &m->leases[i];
        }
    }
    return NULL;
}

struct model_lease *model_lease_history(struct model *m, struct kernel_lease_id id) {
    for (uint32_t i = 0; i < m->history_count; i++) {
        if (kernel_lease_id_compare(m->history[i].id, id) == 0) {
            return &m->history[i];
        }
    }
    return NULL;
}

/* A lease that is not live: OK if history still shows it, else why not. */
enum tn_result model_ended(struct model *m, struct kernel_lease_id id, struct model_lease **ret) {
    bool known = false;
    for (uint32_t i = 0; i < m->lease_count + m->history_count; i++) {
        bool live = i < m->lease_count;
        struct model_lease *l = live ? &m->leases[i] : &m->history[i - m->lease_count];
        /* The id may be of another generation: then it is another lease. */
        known = known || l->id.lsn == id.lsn;
    }
    struct model_lease *l = model_lease_history(m, id);
    if (l != NULL) {
        *ret = l;
        return model_history_over(m, l) ? TN_R_RETIRED : TN_R_OK;
    }
    bool retired = !known && id.lsn > 0 && id.lsn <= m->retired_lsn && id.shard <= m->shard;
    return retired ? TN_R_RETIRED : TN_R_NOTFOUND;
}

bool model_lease_forced(const struct model *m, const struct model_lease *l) {
    if (l->state != KERNEL_OFFLINE) {
        return false;
    }
    const uint64_t *of = model_policy(m, l->values[0].pool)->of;
    return of[KERNEL_OPTION_STICKY] != 0 && of[KERNEL_OPTION_FORCE_RELEASE] != 0 &&
           model_rate(m, l->values[0].pool, m->now_ms).force_zero;
}

bool model_lease_internal(const struct model *m, const struct model_lease *l) {
    for (uint32_t i = 0; i < l->value_count; i++) {
        if (model_policy(m, l->values[i].pool)->of[KERNEL_OPTION_INTERNAL] != 0) {
            return true;
        }
    }
    return false;
}

bool model_lease_due(const struct model *m, const struct model_lease *l) {
    return (l->deadline_ms != 0 && l->deadline_ms <= m->now_ms) || model_lease_forced(m, l);
}

static void step_take(struct model *m, struct model_lease *l) {
    bool late = l->deadline_ms != 0 && l->deadline_ms <= m->now_ms;
    if (l->state == KERNEL_WAITING) {
        bool waited = l->deadline_ms == l->wait.until_ms;
        l->epoch++;
        model_lease_end(m, l, waited ? KERNEL_EXPIRED : KERNEL_RELEASED,
                        waited ? KERNEL_REASON_WAITED : KERNEL_REASON_ABANDONED);
        return;
    }
    if (l->state == KERNEL_REVOKING) {
        bool grace = l->in_grace;
        model_lease_end(m, l, grace ? KERNEL_EXPIRED : KERNEL_REVOKED,
                        grace ? KERNEL_REASON_EXPIRED : KERNEL_REASON_REVOKED);
        return;
    }
    l->epoch++;
    if (l->state == KERNEL_ACTIVE && l->grace_s > 0) {
        l->state = KERNEL_REVOKING;
        l->reason = KERNEL_REASON_EXPIRED;
        l->in_grace = true;
        l->renewed = true;
        l->deadline_ms += l->grace_s * 1000; /* authority ended at the deadline */
        model_expect(m, KERNEL_EVENT_LEASE_REVOKING, KERNEL_REASON_EXPIRED, l);
        return;
    }
    model_lease_end(m, l, KERNEL_EXPIRED, late ? KERNEL_REASON_EXPIRED : KERNEL_REASON_FORCED);
}

void model_lease_step(struct model *m, struct model_lease *l) {
    struct model_author author = m->author;
    memset(&m->author, 0, sizeof m->author);
    step_take(m, l);
    m->author = author;
}

struct model_lease *model_lease_settle(struct model *m, struct model_lease *l) {
    struct kernel_lease_id id = l->id;
    if (l->state == KERNEL_OFFLINE) {
        model_rate_evaluate(m, l->values[0].pool);
    }
    while (l != NULL && !m->failed && model_lease_due(m, l)) {
        model_lease_step(m, l);
        l = model_lease_find(m, id);
    }
    return l;
}

/* ---- history ---- */

bool model_history_over(const struct model *m, const struct model_lease *l) {
    return l->ended_ms + m->limits.of[KERNEL_LIMIT_HISTORY_SECONDS] * 1000 <= m->now_ms;
}

static void retire_oldest(struct model *m) {
    if (m->history[0].id.lsn > m->retired_lsn) {
        m->retired_lsn = m->history[0].id.lsn;
    }
    m->history_count--;
    memmove(&m->history[0], &m->history[1], m->history_count * sizeof m->history[0]);
    model_pools_free(m);
}

/* Expired history is removed in steps; until then it only reads as gone. */
void model_history_retire(struct model *m, uint32_t most) {
    for (uint32_t i = 0; i < most; i++) {
        if (m->history_count == 0 || !model_history_over(m, &m->history[0])) {
            return;
        }
        retire_oldest(m);
    }
}

static uint64_t history_values(const struct model *m) {
    uint64_t values = 0;
    for (uint32_t i = 0; i < m->history_count; i++) {
        values += m->history[i].value_count;
    }
    return values;
}

void model_history_shrink(struct model *m) {
    uint64_t most = m->limits.of[KERNEL_LIMIT_HISTORY];
    while (history_values(m) > most || m->history_count > most) {
        retire_oldest(m);
    }
}

static void history_add(struct model *m, const struct model_lease *l) {
    /* The last one is kept in any case, be it larger than all history may be. */
    while (m->history_count > 0 &&
           (history_values(m) + l->value_count > m->limits.of[KERNEL_LIMIT_HISTORY] ||
            m->history_count >= m->limits.of[KERNEL_LIMIT_HISTORY])) {
        retire_oldest(m);
    }
    if (m->history_count == MODEL_HISTORY) {
        model_fail(m, "the model's history is too small");
        return;
    }
    m->history[m->history_count++] = *l;
}

/* ---- the end ---- */

void model_lease_away(struct model *m, const struct model_lease *l) {
    static const uint64_t bounds_s[] = KERNEL_AWAY_BOUNDS;
    if (l->state == KERNEL_OFFLINE) {
        struct kernel_pool_counters *c = &m->pools[l->values[0].pool].counters;
        uint64_t away_ms = m->now_ms - l->offline_since_ms;
        unsigned bucket = 0;
        for (unsigned i = 0; i < KERNEL_AWAY_BUCKETS - 1; i++) {
            bucket += away_ms > bounds_s[i] * 1000;
        }
        c->away[bucket]++;
        c->away_ms += away_ms;
    }
}

static void count_reclaim(struct model *m, uint32_t pool) {
    struct kernel_pool_counters *c = &m->pools[pool].counters;
    uint64_t seconds = model_policy(m, pool)->of[KERNEL_OPTION_METRICS_SECONDS];
    uint64_t interval_ms = (seconds > 0 ? seconds : 1) * 1000;
    uint64_t begins_ms = m->now_ms - m->now_ms % interval_ms;
    c->last_reclaim_count = c->last_reclaim_ms >= begins_ms ? c->last_reclaim_count + 1 : 1;
    c->last_reclaim_ms = m->now_ms;
    c->reclaimed++;
}

static void count_end_in(struct model *m, uint32_t pool, const struct model_lease *l) {
    struct kernel_pool_counters *c = &m->pools[pool].counters;
    c->released += l->state == KERNEL_RELEASED;
    c->expired += l->state == KERNEL_EXPIRED;
    c->revoked += l->state == KERNEL_REVOKED;
    if (l->state == KERNEL_EXPIRED ||
        (l->state == KERNEL_RELEASED && model_policy(m, pool)->of[KERNEL_OPTION_STICKY] != 0)) {
        count_reclaim(m, pool);
    }
}

/* A template counts what its scopes count. */
static void count_end(struct model *m, const struct model_lease *l) {
    for (uint32_t i = 0; i < l->value_count; i++) {
        uint32_t pool = l->values[i].pool;
        count_end_in(m, pool, l);
        if (m->pools[pool].is_scope) {
            count_end_in(m, m->pools[pool].parent, l);
        }
    }
}

void model_lease_end(struct model *m, struct model_lease *l, enum kernel_state state,
                     enum kernel_reason reason) {
    bool waited = l->state == KERNEL_WAITING;
    uint64_t before = waited ? model_wait_before(m, l) : 0;
    l->state = state;
    l->reason = reason;
    l->deadline_ms = 0;
    l->offline_since_ms = 0;
    l->ended_ms = m->now_ms;
    l->ended_lsn = m->lsn;
    enum kernel_event_kind kind = state == KERNEL_RELEASED  ? KERNEL_EVENT_LEASE_RELEASED
                                  : state == KERNEL_EXPIRED ? KERNEL_EVENT_LEASE_EXPIRED
                                                            : KERNEL_EVENT_LEASE_REVOKED;
    model_expect(m, kind, reason, l);
    count_end(m, l);
    struct model_lease copy = *l;
    *l = m->leases[--m->lease_count];
    for (uint32_t i = 0; i < copy.value_count; i++) {
        model_value_freed(m, copy.values[i].pool, copy.values[i].number);
    }
    history_add(m, &copy);
    if (waited) {
        bool refused = copy.wait.code != TN_R_OK;
        model_wait_tell(m, &copy, refused ? copy.wait.code : TN_R_EXHAUSTED,
                        refused ? copy.wait.number : UINT64_MAX, before);
    }
}

void model_value_cool(struct model *m, uint32_t index) {
    struct model_value v = m->cooling[index].value;
    m->cooling[index] = m->cooling[--m->cooling_count];
    model_value_cooled(m, v.pool, v.number);
    struct model_author author = m->author;
    memset(&m->author, 0, sizeof m->author);
    model_expect_values(m, KERNEL_EVENT_VALUE_COOLED, m->pools[v.pool].name, &v, 1);
    m->author = author;
}

void model_lease_meta(struct model *m, struct model_lease *l) {
    if ((m->c.fields & KERNEL_F_META) != 0) {
        l->meta_len = m->c.meta.len;
        l->meta_hash = tn_hash64(m->c.meta.at, m->c.meta.len, 0);
    }
}

void model_lease_result(struct model *m, const struct model_lease *l, bool values) {
    struct kernel_result *r = &m->want.head;
    r->has_lease = true;
    r->lease = l->id;
    r->epoch = l->epoch;
    r->state = l->state;
    r->deadline_ms = l->deadline_ms;
    r->value_count = values ? l->value_count : 0;
    for (uint32_t i = 0; i < r->value_count; i++) {
        model_show(m, &l->values[i], &m->want.values[i]);
    }
}

/* When the pool's values come free by themselves. */
struct model_next model_next_free(const struct model *m, uint32_t pool) {
    struct model_next next = {0};
    uint64_t cooldown_ms = model_policy(m, pool)->of[KERNEL_OPTION_COOLDOWN] * 1000;
    for (uint32_t i = 0; i < m->lease_count; i++) {
        const struct model_lease *l = &m->leases[i];
        bool here = false;
        bool mixed = false;
        for (uint32_t v = 0; v < l->value_count; v++) {
            here = here || l->values[v].pool == pool;
            mixed = mixed || l->values[v].pool != l->values[0].pool;
        }
        for (uint32_t i2 = 0; l->state == KERNEL_WAITING && i2 < l->wait.pool_count; i2++) {
            next.entries += l->wait.pools[i2] == pool; /* the waiter's timer is skipped */
        }
        if (!here) {
            continue;
        }
        next.due = next.due || model_lease_due(m, l);
        next.mixed = next.mixed || mixed;
        next.entries++;
        if (l->deadline_ms != 0) {
            uint64_t grace_ms = l->state == KERNEL_ACTIVE ? l->grace_s * 1000 : 0;
            next.first_ms = smaller_nonzero(next.first_ms, l->deadline_ms + grace_ms + cooldown_ms);
        }
    }
    for (uint32_t i = 0; i < m->cooling_count; i++) {
        if (m->cooling[i].value.pool == pool) {
            next.first_ms = smaller_nonzero(next.first_ms, m->cooling[i].until_ms);
            next.due = next.due || m->cooling[i].until_ms <= m->now_ms;
            next.entries++;
        }
    }
    return next;
}

/* The kernel looks at a few entries only, and leases that span pools share one clock: then what it
 * says may be early, never late. */
bool model_next_agrees(const struct model_next *next, uint64_t got) {
    if (next->mixed || next->entries > 16) {
        return next->first_ms == 0 || (got != 0 && got <= next->first_ms);
    }
    return got == next->first_ms;
}

/* A step ends when its budget is used up or nothing is due. The old timer of a renewed lease costs
 * a step and has no effect, so with such a lease the model cannot judge. */
static void check_swept(struct model *m, const struct model_next *next) {
    bool stale = false;
    for (uint32_t i = 0; i < m->lease_count; i++) {
        stale = stale || m->leases[i].renewed;
    }
    if (next->due && !stale && m->steps < m->limits.of[KERNEL_LIMIT_SWEEP_STEP]) {
        model_fail(m, "something is due in the pool, but was not swept");
    }
}

/* EXHAUSTED reports when a value is next free: at once if something is due that the bounded step
 * did not reach. */
void model_exhausted(struct model *m, uint32_t pool) {
    struct model_next next = model_next_free(m, pool);
    uint64_t got = m->got->head.retry_at_ms;
    check_swept(m, &next);
    m->retry_low = m->retry_high = next.first_ms;
    if (next.due || got == m->now_ms) {
        m->retry_low = m->retry_high = m->now_ms;
    } else if (model_next_agrees(&next, got)) {
        m->retry_low = m->retry_high = got;
    }
}
