/* Clients that know what they want: they lease, renew and release, with an operation id each time,
 * repeat requests without an answer, crash and return, and believe that they have the values
 * granted to them until the reported deadline, by the time of the log. */
#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
/* cmocka wants the headers above first */
#include <cmocka.h>

#include "base/hash.h"
#include "sim/world.h"

static const struct pool {
    const char *name;
    uint64_t hi, lease_s, grace_s, cooldown_s;
    bool sticky;
} pools[] = {
    {"b0", 5, 5, 0, 0, false},
    {"b1", 6, 4, 2, 3, false},
    {"b2", 5, 6, 0, 0, true},
};

#define POOLS (sizeof pools / sizeof pools[0])

static struct tn_bytes text(const char *s) {
    return tn_bytes_of(s, strlen(s));
}

/* ---- the pools ---- */

void world_clients_pools(struct world *w) {
    for (size_t i = 0; i < POOLS; i++) {
        if (model_pool_find(&w->ledger.model, pools[i].name) != MODEL_NONE) {
            continue;
        }
        static const uint32_t mask = 1u << KERNEL_OPTION_LO | 1u << KERNEL_OPTION_HI |
                                     1u << KERNEL_OPTION_LEASE | 1u << KERNEL_OPTION_GRACE |
                                     1u << KERNEL_OPTION_COOLDOWN | 1u << KERNEL_OPTION_STICKY |
                                     1u << KERNEL_OPTION_ADAPTIVE | 1u << KERNEL_OPTION_RATE_WINDOW;
        struct kernel_policy_patch patch = {.mask = mask};
        uint64_t *of = patch.values.of;
        of[KERNEL_OPTION_LO] = 1;
        of[KERNEL_OPTION_HI] = pools[i].hi;
        of[KERNEL_OPTION_LEASE] = pools[i].lease_s;
        of[KERNEL_OPTION_GRACE] = pools[i].grace_s;
        of[KERNEL_OPTION_COOLDOWN] = pools[i].cooldown_s;
        of[KERNEL_OPTION_STICKY] = pools[i].sticky;
        of[KERNEL_OPTION_RATE_WINDOW] = 30;
        struct kernel_command c = {.verb = KERNEL_VERB_POOL_CREATE,
                                   .rights = KERNEL_RIGHT_OPERATOR,
                                   .fields = KERNEL_F_POOL | KERNEL_F_POLICY,
                                   .pool = text(pools[i].name),
                                   .policy = &patch};
        uint8_t bytes[1024];
        uint32_t len = kernel_command_encode(&c, bytes, sizeof bytes);
        (void)world_group_add(w, WORLD_CLIENTS, 0, tn_bytes_of(bytes, len));
    }
}

static bool own_name(struct tn_bytes name) {
    /* Pools of the clients and of the sensors. */
    return name.len > 0 && (name.at[0] == 'b' || name.at[0] == 's');
}

static bool own_lease(const struct model *m, struct kernel_lease_id id) {
    const struct model_lease *lists[] = {m->leases, m->history};
    uint32_t counts[] = {m->lease_count, m->history_count};
    for (unsigned list = 0; list < 2; list++) {
        for (uint32_t i = 0; i < counts[list]; i++) {
            const struct model_lease *l = &lists[list][i];
            if (l->id.lsn == id.lsn) {
                uint32_t pool = l->value_count > 0 ? l->values[0].pool : l->wait.pools[0];
                return own_name(text(m->pools[pool].name));
            }
        }
    }
    /* A lease that does not exist yet may be one of theirs when the command is applied. */
    return id.lsn > m->lsn;
}

bool world_clients_own(const struct world *w, struct tn_bytes bytes) {
    struct kernel_command c;
    if (!kernel_command_decode(bytes, &c)) {
        return false;
    }
    struct tn_reader r = tn_reader_of(c.claims.at, c.claims.len);
    for (uint32_t i = 0; i < c.claim_count; i++) {
        if (own_name(kernel_claim_read(&r).pool)) {
            return true;
        }
    }
    return ((c.fields & KERNEL_F_POOL) != 0 && own_name(c.pool)) ||
           ((c.fields & KERNEL_F_LEASE) != 0 && own_lease(&w->ledger.model, c.lease));
}

/* ---- beliefs ---- */

static bool share_a_value(const struct world_belief *a, const struct world_belief *b) {
    for (uint32_t i = 0; i < a->count * b->count; i++) {
        if (a->values[i / b->count] == b->values[i % b->count]) {
            return a->pool == b->pool;
        }
    }
    return false;
}

/* The earlier one has not given it back, so the later one was granted after its time was over. */
static void belief_check(struct world *w, unsigned client) {
    const struct world_belief *mine = &w->clients[client].belief;
    for (unsigned i = 0; i < WORLD_CLIENTS; i++) {
        const struct world_belief *theirs = &w->clients[i].belief;
        if (i == client || !theirs->held || !share_a_value(mine, theirs)) {
            continue;
        }
        bool first = mine->lease.lsn < theirs->lease.lsn;
        const struct world_belief *early = first ? mine : theirs;
        const struct world_belief *late = first ? theirs : mine;
        const struct pool *pool = &pools[mine->pool];
        uint64_t rest_ms = (pool->cooldown_s + (early->reserved ? 0 : pool->grace_s)) * 1000;
        if (early->deadline_ms == 0 || late->granted_ms < early->deadline_ms + rest_ms) {
            world_fail(w,
                       "a value of %s was granted at %" PRIu64 " to lease %" PRIu64
                       ", but lease %" PRIu64 " had it until %" PRIu64,
                       pool->name, late->granted_ms, late->lease.lsn, early->lease.lsn,
                       early->deadline_ms);
        }
    }
}

static void belief_take(struct world *w, unsigned client, const struct world_op *op,
                        const struct model_result *result) {
    struct world_belief *belief = &w->clients[client].belief;
    const struct kernel_result *head = &result->head;
    *belief = (struct world_belief){.held = true,
                                    .pool = op->pool,
                                    .count = head->value_count,
                                    .lease = head->lease,
                                    .epoch = head->epoch,
                                    .granted_ms = head->now_ms,
                                    .deadline_ms = head->deadline_ms,
                                    .reserved = op->verb == KERNEL_VERB_RESERVE};
    assert_true(head->value_count <= WORLD_VALUES);
    for (uint32_t i = 0; i < head->value_count; i++) {
        belief->values[i] = result->values[i].number;
    }
    w->counts.beliefs++;
    world_witness_take(w, pools[op->pool].name, head);
    belief_check(w, client);
}

/* A renewal or an activation: it may be refused only when it is too late. */
static void belief_renew(struct world *w, unsigned client, const struct kernel_result *head) {
    struct world_belief *belief = &w->clients[client].belief;
    if (head->code == TN_R_OK) {
        belief->deadline_ms = head->deadline_ms;
        belief->epoch = head->epoch;
        belief->reserved = false;
        world_witness_take(w, pools[belief->pool].name, head);
        belief_check(w, client);
        return;
    }
    if (head->now_ms < belief->deadline_ms && !pools[belief->pool].sticky) {
        world_fail(w,
                   "at %" PRIu64 " client %u may not renew lease %" PRIu64
                   ", which it has until %" PRIu64 ": %s",
                   head->now_ms, client, belief->lease.lsn, belief->deadline_ms,
                   tn_result_name(head->code));
    }
    belief->held = false;
}

/* A token is valid at least until the deadline that its holder was given, and a read knows when it
 * has ended. */
void world_clients_verify(struct world *w) {
    for (unsigned i = 0; i < WORLD_CLIENTS; i++) {
        const struct world_belief *belief = &w->clients[i].belief;
        if (!belief->held || belief->reserved || pools[belief->pool].sticky) {
            continue;
        }
        struct engine_lease lease;
        bool as_is = world_chance(w, 50);
        enum tn_result code =
            engine_verify(w->engine, as_is ? ENGINE_READ_AS_IS : ENGINE_READ_CURRENT, belief->lease,
                          belief->epoch, &lease);
        world_server_settle(w);
        if (w->halted || code == TN_R_NOSPACE) {
            return;
        }
        struct kernel_lease_view view;
        enum tn_result want = kernel_verify(w->ledger.kernel, belief->lease, belief->epoch, &view);
        uint64_t now_ms = world_now(w);
        if (want == TN_R_OK && view.deadline_ms != 0 && view.deadline_ms <= now_ms) {
            want = TN_R_OVERDUE;
        }
        if (code != want || (now_ms < belief->deadline_ms && code != TN_R_OK)) {
            world_fail(w,
                       "at %" PRIu64 " lease %" PRIu64 " epoch %" PRIu64
                       " of client %u, good until %" PRIu64
                       ", is %s to the engine and %s by the ledger",
                       now_ms, belief->lease.lsn, belief->epoch, i, belief->deadline_ms,
                       tn_result_name(code), tn_result_name(want));
        }
    }
}

/* ---- operations ---- */

static void op_send(struct world *w, unsigned client) {
    struct world_op *op = &w->clients[client].op;
    op->retry_ms = w->true_ms + 300 + world_below(w, 1500);
    world_network_send(w, client, op->number, tn_bytes_of(op->bytes, op->len));
}

static void op_begin(struct world *w, unsigned client, unsigned pool, struct kernel_command *c) {
    struct world_client *self = &w->clients[client];
    struct world_op *op = &self->op;
    char holder[32];
    char user[16];
    char opid[32];
    self->last = *op;
    *op = (struct world_op){.open = true,
                            .number = ++self->ops,
                            .verb = c->verb,
                            .pool = pool,
                            .first_log_ms = world_now(w)};
    snprintf(holder, sizeof holder, "client/%u", client);
    snprintf(user, sizeof user, "c%u", client);
    snprintf(opid, sizeof opid, "%u", op->number);
    c->fields |= kernel_verb_rows[c->verb].required;
    c->holder = text(holder);
    c->user = text(user);
    c->opid = text(opid);
    op->len = kernel_command_encode(c, op->bytes, sizeof op->bytes);
    assert_true(op->len > 0);
    op_send(w, client);
}

static void op_grant(struct world *w, unsigned client) {
    unsigned pool = world_below(w, POOLS);
    uint8_t claims[256];
    struct tn_writer writer = tn_writer_of(claims, sizeof claims);
    bool reserve = world_chance(w, 25) && !pools[pool].sticky;
    bool any = world_chance(w, 75);
    kernel_claim_write(&writer, text(pools[pool].name), any,
                       any && !pools[pool].sticky ? 1 + world_below(w, 2) : 1);
    if (!any) {
        kernel_requested_write_number(&writer, 1 + world_below(w, (uint32_t)pools[pool].hi));
    }
    struct kernel_command c = {.verb = reserve ? KERNEL_VERB_RESERVE : KERNEL_VERB_ALLOC,
                               .ttl_s = 1 + world_below(w, 5),
                               .claims = tn_bytes_of(claims, writer.len),
                               .claim_count = 1};
    op_begin(w, client, pool, &c);
}

static void op_on_lease(struct world *w, unsigned client) {
    struct world_belief *belief = &w->clients[client].belief;
    struct kernel_command c = {.lease = belief->lease, .epoch = belief->epoch};
    bool release = world_chance(w, 35);
    c.verb = release            ? KERNEL_VERB_RELEASE
             : belief->reserved ? KERNEL_VERB_ACTIVATE
                                : KERNEL_VERB_TOUCH;
    if (release) {
        belief->held = false; /* whatever the answer will be */
    }
    if (c.verb == KERNEL_VERB_ACTIVATE) { /* may leave it less time than it had reserved */
        uint64_t until_ms = world_now(w) + pools[belief->pool].lease_s * 1000;
        belief->deadline_ms = belief->deadline_ms < until_ms ? belief->deadline_ms : until_ms;
    }
    op_begin(w, client, belief->pool, &c);
}

/* The operation's window has ended: from now on a repetition could have a second effect. */
static bool op_too_old(struct world *w, const struct world_op *op) {
    uint64_t window_ms = w->limits.of[KERNEL_LIMIT_OP_SECONDS] * 1000;
    return world_now(w) - op->first_log_ms + 1000 >= window_ms;
}

static void client_crash(struct world *w, unsigned client) {
    struct world_client *self = &w->clients[client];
    self->down_until_ms = w->true_ms + world_below(w, 5000);
    if (world_chance(w, 50)) { /* the client kept no journal */
        self->belief.held = false;
        self->op.open = false;
    }
}

static void client_act(struct world *w, unsigned client) {
    struct world_client *self = &w->clients[client];
    if (self->belief.held && self->belief.deadline_ms <= world_now(w)) {
        self->belief.held = false;
    }
    if (world_trouble(w, WORLD_NETWORK, 4)) {
        client_crash(w, client);
    } else if (self->op.open && op_too_old(w, &self->op)) {
        self->op.open = false;
        self->belief.held = self->belief.held && self->op.verb == KERNEL_VERB_TOUCH;
    } else if (self->op.open && w->true_ms >= self->op.retry_ms) {
        op_send(w, client);
    } else if (!self->op.open && world_chance(w, 25)) {
        if (self->belief.held) {
            op_on_lease(w, client);
        } else {
            op_grant(w, client);
        }
    }
}

void world_clients_act(struct world *w) {
    for (unsigned i = 0; i < WORLD_CLIENTS; i++) {
        if (w->true_ms >= w->clients[i].down_until_ms && (w->without >> WORLD_PLANS & 1) == 0) {
            client_act(w, i);
        }
    }
}

/* ---- answers ---- */

void world_clients_answer(struct world *w, const struct world_request *request,
                          const struct model_result *result) {
    if (request->client < WORLD_CLIENTS) {
        world_network_reply(w, request->client, request->number, result);
    } else if (request->client >= WORLD_SENSOR_BASE) {
        world_sensors_answer(w, request->client - WORLD_SENSOR_BASE, result);
    }
}

static uint64_t answer_digest(const struct model_result *result) {
    const struct kernel_result *h = &result->head;
    uint64_t numbers[] = {h->code,  h->lsn,         h->now_ms, h->lease.lsn,
                          h->epoch, h->deadline_ms, h->number, h->value_count};
    uint64_t digest = tn_hash64(numbers, sizeof numbers, 1);
    for (uint32_t i = 0; i < h->value_count; i++) {
        digest = tn_hash64(&result->values[i].number, sizeof(uint64_t), digest);
    }
    return digest;
}

/* One operation, one answer; but for a request that came when its window was over. */
static void answer_check(struct world *w, unsigned client, struct world_op *op,
                         const struct model_result *result) {
    uint64_t digest = answer_digest(result);
    uint64_t window_ms = w->limits.of[KERNEL_LIMIT_OP_SECONDS] * 1000;
    uint64_t now_ms = result->head.now_ms;
    uint64_t apart_ms = now_ms > op->answer_ms ? now_ms - op->answer_ms : op->answer_ms - now_ms;
    if (op->answered && op->answer != digest && apart_ms < window_ms) {
        world_fail(w, "operation %u of client %u was answered twice, and not the same: %s",
                   op->number, client, tn_result_name(result->head.code));
    }
    op->answered = true;
    op->answer = digest;
    op->answer_ms = now_ms;
}

static void answer_use(struct world *w, unsigned client, const struct world_op *op,
                       const struct model_result *result) {
    switch (op->verb) {
    case KERNEL_VERB_ALLOC:
    case KERNEL_VERB_RESERVE:
        if (result->head.code == TN_R_OK) {
            belief_take(w, client, op, result);
        }
        break;
    case KERNEL_VERB_ACTIVATE:
    case KERNEL_VERB_TOUCH:
        if (w->clients[client].belief.held) {
            belief_renew(w, client, &result->head);
        }
        break;
    default:
        break;
    }
}

void world_client_hear(struct world *w, unsigned client, uint32_t number,
                       const struct model_result *result) {
    struct world_client *self = &w->clients[client];
    bool committed = engine_outcome(&result->head) == TN_COMMITTED;
    world_note(w, answer_digest(result) + number);
    if (w->true_ms < self->down_until_ms || !committed) {
        return; /* the client is down, or will repeat the request in time */
    }
    if (number == self->op.number) {
        answer_check(w, client, &self->op, result);
        if (self->op.open) {
            self->op.open = false;
            w->counts.resolved++;
            answer_use(w, client, &self->op, result);
        }
    } else if (number == self->last.number) {
        answer_check(w, client, &self->last, result);
    }
}
