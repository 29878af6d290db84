/* Events: what the model expects next, and what the kernel may do in between because it was due. */
#include "sim/model.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/hash.h"

void model_show(const struct model *m, const struct model_value *v, struct model_shown *ret) {
    memset(ret, 0, sizeof *ret);
    ret->claim = v->claim;
    ret->format = (uint8_t)model_policy(m, v->pool)->of[KERNEL_OPTION_FORMAT];
    snprintf(ret->name, sizeof ret->name, "%s", v->name);
    snprintf(ret->pool, sizeof ret->pool, "%s", m->pools[v->pool].name);
    ret->number = v->name[0] == '\0' ? v->number : 0;
}

static bool shown_equal(const struct model_shown *a, const struct model_shown *b) {
    bool same_number = a->name[0] != '\0' || a->number == b->number;
    return same_number && a->claim == b->claim && a->format == b->format &&
           strcmp(a->name, b->name) == 0 && strcmp(a->pool, b->pool) == 0;
}

static void event_text(const struct model_event *e, char *out, size_t capacity) {
    snprintf(out, capacity,
             "%s/%s lease %" PRIu64 " epoch %" PRIu64 " deadline %" PRIu64
             " holder '%s' previous '%s' user '%s' name '%s' trigger '%s' payload(%u)"
             " values %u first %" PRIu64 "%s number %" PRIu64 " actor '%s' note '%s'",
             kernel_event_name(e->kind), kernel_reason_name(e->reason), e->lease.lsn, e->epoch,
             e->deadline_ms, e->holder, e->previous, e->user, e->name, e->trigger, e->payload_len,
             e->value_count, e->value_count > 0 ? e->values[0].number : 0,
             e->value_count > 0 ? e->values[0].name : "", e->number, e->actor, e->note);
}

static void disagree(struct model *m, const struct model_event *want,
                     const struct model_event *got) {
    char a[1664];
    char b[1664] = "nothing";
    event_text(want, a, sizeof a);
    if (got != NULL) {
        event_text(got, b, sizeof b);
    }
    model_fail(m, "event %u: expected %s\n  but the kernel said %s", m->event_next, a, b);
}

static bool event_equal(const struct model_event *a, const struct model_event *b) {
    bool same = a->kind == b->kind && a->reason == b->reason && a->lsn == b->lsn &&
                a->now_ms == b->now_ms && kernel_lease_id_compare(a->lease, b->lease) == 0 &&
                a->epoch == b->epoch && a->deadline_ms == b->deadline_ms &&
                a->number == b->number && strcmp(a->holder, b->holder) == 0 &&
                strcmp(a->previous, b->previous) == 0 && strcmp(a->user, b->user) == 0 &&
                strcmp(a->actor, b->actor) == 0 && strcmp(a->note, b->note) == 0 &&
                strcmp(a->name, b->name) == 0 && strcmp(a->trigger, b->trigger) == 0 &&
                a->payload_len == b->payload_len && a->payload_hash == b->payload_hash &&
                a->value_count == b->value_count;
    for (uint32_t i = 0; same && i < a->value_count; i++) {
        same = shown_equal(&a->values[i], &b->values[i]);
    }
    return same;
}

static const struct model_event *next_event(const struct model *m) {
    return m->event_next < m->event_count ? &m->events[m->event_next] : NULL;
}

static uint32_t cooling_shown(const struct model *m, const struct model_shown *shown) {
    uint32_t pool = model_pool_find(m, shown->pool);
    for (uint32_t i = 0; i < m->cooling_count; i++) {
        const struct model_value *v = &m->cooling[i].value;
        bool same = shown->name[0] != '\0' ? strcmp(v->name, shown->name) == 0
                                           : v->number == shown->number && v->name[0] == '\0';
        if (v->pool == pool && same) {
            return i;
        }
    }
    return MODEL_NONE;
}

static bool follow_lease(struct model *m, const struct model_event *e) {
    struct model_lease *l = model_lease_find(m, e->lease);
    if (l == NULL) {
        return false;
    }
    if (e->kind == KERNEL_EVENT_LEASE_RELEASED && e->reason == KERNEL_REASON_DISOWNED) {
        struct model_disown *d = NULL;
        for (uint32_t i = 0; d == NULL && i < l->value_count; i++) {
            d = model_disowned(m, l->holder, l->values[i].pool);
        }
        for (uint32_t i = 0; l->state == KERNEL_WAITING && d == NULL && i < l->wait.pool_count;
             i++) {
            d = model_disowned(m, l->holder, l->wait.pools[i]);
        }
        /* What is due comes first: a grace, for one, is not cut short. */
        if (d == NULL || l->state == KERNEL_REVOKING || model_lease_due(m, l) ||
            model_disown_spares(m, d, l)) {
            return false;
        }
        d->released++;
        m->steps++;
        l->epoch++;
        struct model_author author = m->author;
        m->author = d->author;
        model_lease_end(m, l, KERNEL_RELEASED, KERNEL_REASON_DISOWNED);
        m->author = author;
        return true;
    }
    if (e->kind == KERNEL_EVENT_LEASE_EXPIRED && e->reason == KERNEL_REASON_REFUSED) {
        return model_wait_refused(m, e);
    }
    bool by_time = e->kind == KERNEL_EVENT_LEASE_EXPIRED || e->reason == KERNEL_REASON_ABANDONED ||
                   e->kind == KERNEL_EVENT_LEASE_REVOKING || e->kind == KERNEL_EVENT_LEASE_REVOKED;
    if (!by_time) {
        return false;
    }
    if (l->state == KERNEL_OFFLINE) {
        model_rate_evaluate(m, l->values[0].pool);
    }
    if (!model_lease_due(m, l)) {
        return false;
    }
    uint32_t values = l->value_count;
    model_lease_step(m, l);
    m->steps++;
    m->freed += model_lease_find(m, e->lease) == NULL ? values : 0;
    return true;
}

static bool follow_one(struct model *m) {
    const struct model_event *e = next_event(m);
    if (e == NULL || m->failed) {
        return false;
    }
    switch (e->kind) {
    case KERNEL_EVENT_LEASE_EXPIRED:
    case KERNEL_EVENT_LEASE_REVOKING:
    case KERNEL_EVENT_LEASE_REVOKED:
    case KERNEL_EVENT_LEASE_RELEASED:
        return follow_lease(m, e);
    case KERNEL_EVENT_LEASE_ACTIVE:
    case KERNEL_EVENT_LEASE_RESERVED:
        return model_wait_granted(m, e);
    case KERNEL_EVENT_VALUE_COOLED: {
        uint32_t i = cooling_shown(m, &e->values[0]);
        if (i == MODEL_NONE || m->cooling[i].until_ms > m->now_ms) {
            return false;
        }
        m->steps++;
        m->freed++;
        model_value_cool(m, i);
        return true;
    }
    case KERNEL_EVENT_HOLDER_DISOWNED: {
        uint32_t before = m->event_next;
        model_disown_done(m);
        return m->event_next != before;
    }
    default:
        return false;
    }
}

void model_follow(struct model *m) {
    while (follow_one(m)) {
    }
}

static void expect(struct model *m, struct model_event *want) {
    want->lsn = m->lsn;
    want->now_ms = m->now_ms;
    memcpy(want->actor, m->author.actor, sizeof want->actor);
    memcpy(want->note, m->author.note, sizeof want->note);
    if (m->failed) {
        return;
    }
    const struct model_event *got = next_event(m);
    if (got == NULL || !event_equal(want, got)) {
        disagree(m, want, got);
        return;
    }
    m->event_next++;
}

/* Lets the kernel finish what was due before the event that is wanted. */
static void let_pass(struct model *m, enum kernel_event_kind kind, struct kernel_lease_id lease) {
    const struct model_event *e = next_event(m);
    while (e != NULL && !m->failed &&
           (e->kind != kind || kernel_lease_id_compare(e->lease, lease) != 0)) {
        if (!follow_one(m)) {
            return;
        }
        e = next_event(m);
    }
}

void model_expect(struct model *m, enum kernel_event_kind kind, enum kernel_reason reason,
                  const struct model_lease *l) {
    struct model_event want = {.kind = kind, .reason = reason};
    want.lease = l->id;
    want.epoch = l->epoch;
    want.deadline_ms = l->deadline_ms;
    snprintf(want.holder, sizeof want.holder, "%s", l->holder);
    snprintf(want.user, sizeof want.user, "%s", l->user);
    if (kind == KERNEL_EVENT_LEASE_REKEYED) {
        memcpy(want.previous, m->rekeyed_from, sizeof want.previous);
    }
    bool mixed = false;
    for (uint32_t i = 0; i < l->value_count; i++) {
        mixed = mixed || l->values[i].pool != l->values[0].pool;
    }
    if (l->value_count == 0) { /* the lease waits, or has waited */
        if (l->wait.pool_count == 1) {
            snprintf(want.name, sizeof want.name, "%s", m->pools[l->wait.pools[0]].name);
        }
    } else if (!mixed) {
        snprintf(want.name, sizeof want.name, "%s", m->pools[l->values[0].pool].name);
    }
    want.value_count = l->value_count;
    for (uint32_t i = 0; i < l->value_count; i++) {
        model_show(m, &l->values[i], &want.values[i]);
        want.values[i].claim = 0; /* events do not contain the claim */
    }
    let_pass(m, kind, l->id);
    expect(m, &want);
}

void model_expect_name(struct model *m, enum kernel_event_kind kind, const char *name,
                       uint64_t number) {
    struct model_event want = {.kind = kind, .number = number};
    snprintf(want.name, sizeof want.name, "%s", name);
    let_pass(m, kind, want.lease);
    expect(m, &want);
}

void model_expect_values(struct model *m, enum kernel_event_kind kind, const char *pool,
                         const struct model_value *values, uint32_t count) {
    struct model_event want = {.kind = kind, .value_count = count};
    snprintf(want.name, sizeof want.name, "%s", pool);
    for (uint32_t i = 0; i < count; i++) {
        model_show(m, &values[i], &want.values[i]);
    }
    expect(m, &want);
}

void model_expect_disowned(struct model *m, const struct model_disown *d) {
    struct model_event want = {.kind = KERNEL_EVENT_HOLDER_DISOWNED, .number = d->released};
    snprintf(want.holder, sizeof want.holder, "%s", d->holder);
    struct model_author author = m->author;
    m->author = d->author;
    expect(m, &want);
    m->author = author;
}

void model_expect_sensor(struct model *m, enum kernel_event_kind kind, bool trigger) {
    struct model_event want = {.kind = kind, .lease = m->c.lease, .epoch = m->c.epoch};
    model_text(want.name, sizeof want.name, m->c.name);
    if (trigger) {
        model_text(want.trigger, sizeof want.trigger, m->c.trigger);
    }
    want.payload_len = m->c.meta.len;
    want.payload_hash = m->c.meta.len > 0 ? tn_hash64(m->c.meta.at, m->c.meta.len, 0) : 0;
    expect(m, &want);
}
