/* See model.h. The frame around a command: operation ids, rights, results. */
#include "sim/model.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/assert.h"
#include "base/chunks.h"
#include "base/hash.h"

#define HOUSEKEEPING 4u /* ended leases and operations that leave with each command */

void model_open(struct model *m, const struct kernel_limits *limits, uint64_t shard) {
    memset(m, 0, sizeof *m);
    m->limits = *limits;
    m->shard = shard;
}

void model_fail(struct model *m, const char *format, ...) {
    if (m->failed) {
        return;
    }
    m->failed = true;
    va_list args;
    va_start(args, format);
    vsnprintf(m->why, sizeof m->why, format, args);
    va_end(args);
}

void model_text(char *out, size_t capacity, struct tn_bytes text) {
    size_t len = text.len < capacity ? text.len : capacity - 1;
    if (len > 0) {
        memcpy(out, text.at, len);
    }
    out[len] = '\0';
}

/* ---- operations ---- */

/* From now on, and not before the last one. After a longer window the order of expiry is kept: nothing
 * is dropped early. */
static uint64_t op_until(const struct model *m) {
    uint64_t until_ms = m->now_ms + m->limits.of[KERNEL_LIMIT_OP_SECONDS] * 1000;
    for (uint32_t i = 0; i < m->op_count; i++) {
        bool later = !m->ops[i].waits && m->ops[i].until_ms > until_ms;
        until_ms = later ? m->ops[i].until_ms : until_ms;
    }
    return until_ms;
}

void model_op_answered(struct model *m, struct model_op *op) {
    struct model_op kept = *op;
    size_t behind = (size_t)(&m->ops[m->op_count - 1] - op);
    memmove(op, op + 1, behind * sizeof *op);
    m->op_count--;
    kept.until_ms = op_until(m);
    kept.waits = false;
    m->ops[m->op_count++] = kept;
}

static bool op_is_over(const struct model *m, const struct model_op *op) {
    return !op->waits && op->until_ms <= m->now_ms;
}

/* The first operation whose window has ended, or op_count. */
static uint32_t op_first_over(const struct model *m) {
    uint32_t i = 0;
    while (i < m->op_count && !op_is_over(m, &m->ops[i])) {
        i++;
    }
    return i;
}

/* Old ones leave in steps; until then they only count as room. */
void model_ops_purge(struct model *m, uint32_t most) {
    uint32_t over = op_first_over(m);
    for (uint32_t i = 0; i < most && over < m->op_count; i++) {
        m->op_count--;
        memmove(&m->ops[over], &m->ops[over + 1], (m->op_count - over) * sizeof m->ops[0]);
        over = op_first_over(m);
    }
}

static const struct model_op *op_find(const struct model *m, struct tn_bytes user,
                                      struct tn_bytes id) {
    for (uint32_t i = 0; i < m->op_count; i++) {
        const struct model_op *op = &m->ops[i];
        if (!op_is_over(m, op) && tn_bytes_equal(tn_bytes_of(op->user, strlen(op->user)), user) &&
            tn_bytes_equal(tn_bytes_of(op->id, strlen(op->id)), id)) {
            return op;
        }
    }
    return NULL;
}

/* Expired entries make room: they are removed before the command is applied. */
bool model_admits(const struct model *m, const struct kernel_command *c) {
    bool over = op_first_over(m) < m->op_count;
    return c->opid.len == 0 || op_find(m, c->user, c->opid) != NULL || over ||
           m->op_count < m->limits.of[KERNEL_LIMIT_OPS];
}

/* True if the command is answered from memory. */
static bool op_answers(struct model *m, struct tn_bytes bytes) {
    const struct model_op *op = m->c.opid.len == 0 ? NULL : op_find(m, m->c.user, m->c.opid);
    if (op == NULL) {
        return false;
    }
    if (op->len == bytes.len && op->hash == tn_hash64(bytes.at, bytes.len, 0)) {
        if (op->waits) {
            model_wait_take_up(m, op->result.head.lease);
            op = op_find(m, m->c.user, m->c.opid); /* if the wait has ended, the entry has moved */
        }
        m->want = op->result;
        m->want.head.replayed = true;
        m->retry_low = m->retry_high = op->result.head.retry_at_ms;
    } else {
        m->want.head.code = TN_R_CONFLICT;
        m->want.head.number = op->result.head.lsn;
    }
    return true;
}

static void op_keep(struct model *m, struct tn_bytes bytes) {
    if (m->c.opid.len == 0) {
        return;
    }
    if (m->op_count == MODEL_OPS) {
        model_fail(m, "the model has too little room for operations");
        return;
    }
    uint64_t until_ms = op_until(m);
    struct model_op *op = &m->ops[m->op_count++];
    op->until_ms = until_ms;
    op->len = bytes.len;
    op->hash = tn_hash64(bytes.at, bytes.len, 0);
    model_text(op->user, sizeof op->user, m->c.user);
    model_text(op->id, sizeof op->id, m->c.opid);
    op->result = m->want; /* except for what the contract leaves open: */
    op->result.head.retry_at_ms = m->got->head.retry_at_ms;
    op->waits = m->want.head.code == TN_R_WAITING;
}

/* ---- results ---- */

static void result_text(const struct model_result *r, char *out, size_t capacity) {
    const struct kernel_result *h = &r->head;
    int n = snprintf(out, capacity,
                     "%s%s lsn %" PRIu64 " lease %" PRIu64 "%s epoch %" PRIu64
                     " %s deadline %" PRIu64 " number %" PRIu64 " retry %" PRIu64 " values",
                     tn_result_name(h->code), h->replayed ? " (replay)" : "", h->lsn, h->lease.lsn,
                     h->has_lease ? "" : "(none)", h->epoch, kernel_state_name(h->state),
                     h->deadline_ms, h->number, h->retry_at_ms);
    for (uint32_t i = 0; i < h->value_count && n > 0 && (size_t)n < capacity; i++) {
        n += snprintf(out + n, capacity - (size_t)n, " %s/%" PRIu64 "%s", r->values[i].pool,
                      r->values[i].number, r->values[i].name);
    }
}

bool model_values_equal(const struct model_result *a, const struct model_result *b) {
    bool same = a->head.value_count == b->head.value_count;
    for (uint32_t i = 0; same && i < a->head.value_count; i++) {
        const struct model_shown *x = &a->values[i];
        const struct model_shown *y = &b->values[i];
        same = (x->name[0] != '\0' || x->number == y->number) && strcmp(x->name, y->name) == 0 &&
               (strcmp(x->pool, y->pool) == 0 || y->pool[0] == '\0') && x->claim == y->claim &&
               x->format == y->format;
    }
    return same;
}

static bool good(enum tn_result code) {
    return code == TN_R_OK || code == TN_R_NOOP;
}

static void compare_result(struct model *m) {
    const struct kernel_result *w = &m->want.head;
    const struct kernel_result *g = &m->got->head;
    bool grant = m->c.verb == KERNEL_VERB_ALLOC || m->c.verb == KERNEL_VERB_RESERVE ||
                 m->c.verb == KERNEL_VERB_IMPORT;
    bool told = good(w->code) || w->code == TN_R_WAITING ||
                (w->code == TN_R_BUSY && grant); /* BUSY names the lease that holds the value */
    bool lease = w->has_lease == g->has_lease || !told;
    if (w->has_lease && g->has_lease) {
        lease = kernel_lease_id_compare(w->lease, g->lease) == 0 && w->epoch == g->epoch &&
                w->state == g->state && w->deadline_ms == g->deadline_ms;
    }
    bool same = w->code == g->code && w->replayed == g->replayed && w->lsn == g->lsn &&
                w->now_ms == g->now_ms && lease && w->number == g->number &&
                w->waiting == g->waiting && w->waited_ms == g->waited_ms &&
                (g->value_count == 0 || model_values_equal(&m->want, m->got)) &&
                g->retry_at_ms >= m->retry_low && g->retry_at_ms <= m->retry_high;
    if (!same) {
        char want[400];
        char got[400];
        result_text(&m->want, want, sizeof want);
        result_text(m->got, got, sizeof got);
        model_fail(m, "expected %s (retry %" PRIu64 "..%" PRIu64 ")\n  but the kernel said %s",
                   want, m->retry_low, m->retry_high, got);
    }
}

/* False if there is no room to remember the operation's user. */
static bool op_begins(struct model *m) {
    if (m->c.opid.len == 0) {
        return true;
    }
    uint32_t missing = model_names_missing(m, "", m->want_user);
    uint64_t chunks = missing > 0 ? tn_text_chunks(m->c.user.len) : 0;
    m->op_user =
        model_names(m) + missing <= m->limits.of[KERNEL_LIMIT_NAMES] && model_text_fits(m, chunks);
    return m->op_user;
}

/* Gives the values that the command has freed to waiters. */
static void serve(struct model *m) {
    m->serving = m->c.verb != KERNEL_VERB_UNATTEND || (m->c.fields & KERNEL_F_LEASE) != 0;
    model_follow(m);
    m->serving = false;
}

static void judge(struct model *m, struct tn_bytes bytes) {
    model_text(m->want_user, sizeof m->want_user, m->c.user);
    memset(&m->author, 0, sizeof m->author);
    model_text(m->author.actor, sizeof m->author.actor, m->c.user);
    if (m->c.note.len <= KERNEL_NOTE_MAX) {
        model_text(m->author.note, sizeof m->author.note, m->c.note);
    }
    if (op_answers(m, bytes)) {
        serve(m);
        compare_result(m);
        return;
    }
    bool begins = op_begins(m);
    if (!begins) {
        m->want.head.code = TN_R_NAMES_FULL;
    } else if (m->c.note.len > KERNEL_NOTE_MAX) {
        m->want.head.code = TN_R_TOO_LARGE;
        m->want.head.number = KERNEL_NOTE_MAX;
    } else if (kernel_verb_rows[m->c.verb].operator_only &&
               !(m->c.rights & KERNEL_RIGHT_OPERATOR)) {
        m->want.head.code = TN_R_DENIED;
    } else {
        model_verb(m);
    }
    model_follow(m);
    if (begins) {
        op_keep(m, bytes);
    }
    serve(m);
    compare_result(m);
}

/* The work of a command is bounded: each entry of a step is one lease or value, and a lease whose
 * grace has ended, too, makes two transitions. Transitions that the command names come on top. */
static void check_bounds(struct model *m) {
    uint64_t most = 4;
    switch (m->c.verb) {
    case KERNEL_VERB_ALLOC:
    case KERNEL_VERB_RESERVE:
    case KERNEL_VERB_IMPORT:
        most = 2 * (m->limits.of[KERNEL_LIMIT_SWEEP_STEP] + m->limits.of[KERNEL_LIMIT_BUNDLE]) + 2;
        break;
    case KERNEL_VERB_TICK:
    case KERNEL_VERB_SWEEP:
    case KERNEL_VERB_DISOWN:
    case KERNEL_VERB_POOL_ALTER:
    case KERNEL_VERB_POOL_DROP:
        most = 2 * m->limits.of[KERNEL_LIMIT_TICK_STEP];
        break;
    case KERNEL_VERB_POOL_REMOVE:
        most = 3 * (uint64_t)m->c.value_count;
        break;
    default:
        break;
    }
    bool time = m->c.verb == KERNEL_VERB_TICK || m->c.verb == KERNEL_VERB_SWEEP;
    uint64_t step = m->limits.of[time ? KERNEL_LIMIT_TICK_STEP : KERNEL_LIMIT_SWEEP_STEP];
    if (m->served > step + m->limits.of[KERNEL_LIMIT_BUNDLE] + 1) {
        model_fail(m, "%u values and waiters were served in one command", m->served);
    }
    if (m->steps > most) {
        model_fail(m, "%u transitions that were due in one command, %" PRIu64 " may be", m->steps,
                   most);
    }
}

void model_waited(struct model *m, const struct model_result *results, uint32_t count) {
    m->waited = results;
    m->waited_count = count;
}

void model_skip(struct model *m, uint64_t lsn) {
    TN_ASSERT(lsn > m->lsn);
    m->lsn = lsn - 1;
}

bool model_run(struct model *m, uint64_t now_ms, struct tn_bytes bytes,
               const struct model_event *events, uint32_t event_count,
               const struct model_result *got) {
    m->lsn++;
    m->now_ms = now_ms;
    m->events = events;
    m->event_count = event_count;
    m->event_next = 0;
    m->got = got;
    m->steps = m->freed = m->served = 0;
    m->waited_next = 0;
    m->retry_low = m->retry_high = 0;
    m->op_user = false;
    memset(&m->want, 0, sizeof m->want);
    m->want.head.lsn = m->lsn;
    m->want.head.now_ms = now_ms;
    bool whole = kernel_command_decode(bytes, &m->c);
    TN_ASSERT(whole);
    model_ops_purge(m, HOUSEKEEPING);
    model_history_retire(m, HOUSEKEEPING);
    judge(m, bytes);
    if (!m->failed && m->waited_next != m->waited_count) {
        model_fail(m, "a waiting client was told something that did not happen");
    }
    m->waited_count = 0;
    if (!m->failed && m->event_next != m->event_count) {
        const struct model_event *e = &m->events[m->event_next];
        model_fail(m, "unexpected event %s/%s of lease %" PRIu64 " '%s'",
                   kernel_event_name(e->kind), kernel_reason_name(e->reason), e->lease.lsn,
                   e->name);
    }
    check_bounds(m);
    model_scopes_drop(m);
    model_pools_free(m);
    m->op_user = false;
    return !m->failed;
}

bool model_quiet(const struct model *m) {
    for (uint32_t i = 0; i < m->lease_count; i++) {
        if (model_lease_due(m, &m->leases[i])) {
            return false;
        }
    }
    for (uint32_t i = 0; i < m->cooling_count; i++) {
        if (m->cooling[i].until_ms <= m->now_ms) {
            return false;
        }
    }
    return m->disown_count == 0 && model_wait_quiet(m);
}
