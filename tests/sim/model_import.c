/* Imports: leases that were granted elsewhere, taken as they are or refused; and a pool's past. */
#include <string.h>

#include "sim/model_request.h"

static enum tn_result refuse(struct model *m, enum tn_result code, uint64_t number) {
    m->want.head.code = code;
    m->want.head.number = number;
    return code;
}

struct times {
    uint64_t created_ms, seen_ms, offline_ms;
};

static struct times times_given(const struct model *m) {
    struct times t = {m->c.created_ms, m->c.seen_ms, m->c.offline_ms};
    uint64_t known = t.seen_ms != 0 ? t.seen_ms : t.offline_ms != 0 ? t.offline_ms : m->now_ms;
    t.created_ms = t.created_ms == 0 ? known : t.created_ms;
    t.seen_ms = t.seen_ms == 0 ? t.created_ms : t.seen_ms;
    return t;
}

/* An import without an end of its own gets the pool's lease time from now on, but no more than the
 * maximum for its whole life. */
static uint64_t end_given(const struct model *m, const struct model_request *q) {
    if ((m->c.fields & KERNEL_F_DEADLINE) != 0) {
        return m->c.deadline_ms;
    }
    uint64_t end = q->terms.lease_s == 0 ? 0 : m->now_ms + q->terms.lease_s * 1000;
    uint64_t last = times_given(m).created_ms + q->terms.max_hold_s * 1000;
    return q->terms.max_hold_s != 0 && (end == 0 || end > last) ? last : end;
}

enum tn_result model_import_check(struct model *m, const struct model_request *q) {
    struct times t = times_given(m);
    bool given = (m->c.fields & KERNEL_F_DEADLINE) != 0;
    uint64_t end = end_given(m, q);
    uint64_t hold_s = q->terms.max_hold_s, lease_s = q->terms.max_lease_s;
    for (uint32_t i = 0; i < q->part_count; i++) {
        if (q->parts[i].any) {
            return refuse(m, TN_R_BAD_REQUEST, i);
        }
    }
    if (t.created_ms > t.seen_ms || t.seen_ms > m->now_ms || t.offline_ms > m->now_ms ||
        (t.offline_ms != 0 && (t.offline_ms < t.seen_ms || !q->terms.sticky))) {
        return refuse(m, TN_R_BAD_REQUEST, 0);
    }
    if (hold_s == 0
            ? end > KERNEL_TIME_MAX
            : end > t.created_ms + hold_s * 1000 || t.created_ms + hold_s * 1000 <= m->now_ms) {
        return refuse(m, TN_R_BAD_TTL, hold_s);
    }
    if (given && end <= m->now_ms) {
        return refuse(m, TN_R_BAD_TTL, 0);
    }
    if (given && lease_s != 0 && end > m->now_ms + lease_s * 1000) {
        return refuse(m, TN_R_BAD_TTL, lease_s);
    }
    return TN_R_OK;
}

/* True: it is answered, for the holder has a lease that speaks for or against it. */
bool model_import_known(struct model *m, const struct model_request *q, struct model_lease *own) {
    struct tn_reader r = tn_reader_of(q->parts[0].values.at, q->parts[0].values.len);
    struct kernel_requested requested = kernel_requested_read(&r);
    struct model_lease *l = own;
    uint64_t number;
    if (own == NULL && model_resolve(m, q->parts[0].pool, &requested, &number)) {
        l = model_value_lease(m, q->parts[0].pool, number);
    }
    if (l == NULL) {
        return false;
    }
    bool alone = q->part_count == 1 && strcmp(l->holder, q->holder) == 0;
    for (uint32_t i = 0; i < l->value_count; i++) {
        alone = alone && l->values[i].pool == q->parts[0].pool;
    }
    if (!alone || !model_asks_for_same(m, q, l)) {
        if (own != NULL) {
            refuse(m, TN_R_CONFLICT, 0);
        }
        return own != NULL;
    }
    if (l->state != KERNEL_ACTIVE && l->state != KERNEL_OFFLINE) {
        model_lease_result(m, l, false);
        refuse(m, TN_R_BUSY, 0);
        return true;
    }
    m->want.head.code = TN_R_NOOP;
    model_lease_result(m, l, true);
    for (uint32_t i = 0; i < l->value_count; i++) {
        m->want.values[i].claim = 0;
    }
    return true;
}

void model_import_fill(const struct model *m, const struct model_request *q,
                       struct model_lease *l) {
    struct times t = times_given(m);
    bool given = (m->c.fields & KERNEL_F_DEADLINE) != 0;
    uint64_t left_s = given ? (m->c.deadline_ms - m->now_ms + 999) / 1000 : 0;
    l->created_ms = t.created_ms;
    l->last_seen_ms = t.seen_ms;
    l->deadline_ms = end_given(m, q);
    l->ttl_s = q->terms.lease_s != 0 ? 0 : left_s > UINT32_MAX ? UINT32_MAX : (uint32_t)left_s;
    l->reason = KERNEL_REASON_IMPORTED;
    if (t.offline_ms != 0) {
        l->state = KERNEL_OFFLINE;
        l->offline_since_ms = t.seen_ms + (t.offline_ms - t.seen_ms) / 1000 * 1000;
    }
}

/* The model does not know how many values were ever in use at once: it takes the kernel's
 * number. */
void model_pool_seed(struct model *m) {
    char name[MODEL_TEXT];
    model_text(name, sizeof name, m->c.pool);
    uint32_t pool = model_pool_find(m, name);
    if (pool == MODEL_NONE) {
        refuse(m, TN_R_POOL_NOTFOUND, 0);
        return;
    }
    struct model_pool *p = &m->pools[pool];
    if (!p->is_scope && p->own.of[KERNEL_OPTION_SCOPED] != 0) {
        refuse(m, TN_R_BAD_REQUEST, 0);
        return;
    }
    if (m->c.given_values > model_pool_size(m, pool)) {
        refuse(m, TN_R_BAD_VALUE, model_pool_size(m, pool));
        return;
    }
    bool more = m->c.reclaimed > p->counters.reclaimed;
    if (!more && (m->c.given_values == 0 || m->got->head.code == TN_R_NOOP)) {
        m->want.head.code = TN_R_NOOP;
        return;
    }
    p->counters.reclaimed = more ? m->c.reclaimed : p->counters.reclaimed;
    p->by_value = true;
    model_expect_name(m, KERNEL_EVENT_POOL_ALTERED, name, 0);
}
