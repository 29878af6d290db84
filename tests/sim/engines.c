/* See engines.h. */
#include "sim/engines.h"

#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
/* cmocka wants the headers above first */
#include <cmocka.h>

#include "base/hash.h"
#include "kernel/kernel.h"

static struct engines *current; /* the verbs of a log have no context of their own */

static struct engines_node *node_of(const struct log *log) {
    for (unsigned i = 0; i < GROUP_NODES; i++) {
        if (current->group.nodes[i].log == log) {
            return &current->nodes[i];
        }
    }
    fail_msg("an unknown log");
    return NULL;
}

/* ---- The history ---- */

static uint64_t batch_digest(const struct log_batch *batch) {
    return tn_hash64(batch->payload, batch->len, batch->count);
}

static void history_check(struct engines_node *n, const struct engines_batch *known,
                          const struct log_batch *batch) {
    if (known->first_lsn != batch->first_lsn || known->now_ms != batch->now_ms ||
        known->count != batch->count || known->len != batch->len ||
        memcmp(known->payload, batch->payload, batch->len) != 0) {
        world_fail(&n->all->world,
                   "node %u has another batch than others: lsn %" PRIu64 " of %" PRIu64
                   ", others %" PRIu64 " of %" PRIu64,
                   n->node->n, batch->first_lsn, batch->now_ms, known->first_lsn, known->now_ms);
    }
}

static void history_add(struct engines *e, const struct log_batch *batch) {
    assert_true(e->batch_count < ENGINES_BATCHES);
    for (uint32_t i = 0; i < e->refusal_count; i++) {
        const struct engines_refusal *refusal = &e->refusals[i];
        if (refusal->first_lsn == batch->first_lsn && refusal->now_ms == batch->now_ms &&
            refusal->digest == batch_digest(batch)) {
            world_fail(&e->world, "lsn %" PRIu64 " was refused, and is there", batch->first_lsn);
        }
    }
    /* 500 ppm of the whole run, and rounding. */
    uint64_t true_ms = e->group.now_ms + GROUP_WALL_MS;
    if (batch->now_ms > true_ms + e->group.now_ms / 1000 + 10) {
        world_fail(&e->world, "the log's time at lsn %" PRIu64 " is ahead by %" PRIu64 " ms",
                   batch->first_lsn, batch->now_ms - true_ms);
    }
    struct engines_batch *last = &e->batches[e->batch_count++];
    *last = (struct engines_batch){.first_lsn = batch->first_lsn,
                                   .last_lsn = batch->first_lsn + batch->count - 1,
                                   .now_ms = batch->now_ms,
                                   .count = batch->count,
                                   .len = batch->len,
                                   .payload = malloc(batch->len)};
    assert_non_null(last->payload);
    memcpy(last->payload, batch->payload, batch->len);
}

/* An engine has got this batch from its log. */
static void history_see(struct engines_node *n, const struct log_batch *batch) {
    struct engines *e = n->all;
    uint64_t last_lsn = e->batch_count > 0 ? e->batches[e->batch_count - 1].last_lsn : 0;
    if (batch->first_lsn == last_lsn + 1) {
        history_add(e, batch);
        return;
    }
    if (batch->first_lsn > last_lsn) {
        world_fail(&e->world,
                   "node %u has lsn %" PRIu64 ", and nobody had those from %" PRIu64 " on",
                   n->node->n, batch->first_lsn, last_lsn + 1);
    }
    uint32_t low = 0;
    uint32_t high = e->batch_count - 1;
    while (low < high) {
        uint32_t middle = (low + high) / 2;
        if (e->batches[middle].last_lsn < batch->first_lsn) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    history_check(n, &e->batches[low], batch);
}

static void history_refuse(struct engines_node *n, const struct log_batch *batch) {
    struct engines *e = n->all;
    assert_true(e->refusal_count < ENGINES_BATCHES);
    for (uint32_t i = 0; i < e->batch_count; i++) {
        const struct engines_batch *known = &e->batches[i];
        if (known->first_lsn == batch->first_lsn && known->now_ms == batch->now_ms &&
            known->len == batch->len && memcmp(known->payload, batch->payload, batch->len) == 0) {
            world_fail(&e->world, "lsn %" PRIu64 " is there, and refused", batch->first_lsn);
        }
    }
    e->refusals[e->refusal_count++] = (struct engines_refusal){
        .first_lsn = batch->first_lsn, .now_ms = batch->now_ms, .digest = batch_digest(batch)};
}

/* Everything up to this position into the ledger. */
static void ledger_advance(struct engines *e, uint64_t lsn) {
    while (e->world.ledger.lsn < lsn) {
        assert_true(e->batch_applied < e->batch_count);
        struct engines_batch *batch = &e->batches[e->batch_applied];
        struct tn_reader r = tn_reader_of(batch->payload, batch->len);
        uint64_t done = e->world.ledger.lsn >= batch->first_lsn
                            ? e->world.ledger.lsn - batch->first_lsn + 1
                            : 0;
        for (uint64_t i = 0; e->world.ledger.lsn < lsn && i < batch->count; i++) {
            uint32_t len = tn_read32(&r);
            assert_true(!r.bad && len <= tn_reader_left(&r));
            if (i >= done) {
                world_ledger_commit(&e->world, batch->now_ms, tn_bytes_of(r.at + r.pos, len));
            }
            r.pos += len;
        }
        if (e->world.ledger.lsn == batch->last_lsn) {
            batch->hash = kernel_hash(e->world.ledger.kernel);
            e->batch_applied++;
        }
    }
}

/* ---- Turns ---- */

/* The engine's thread works until it has finished, or waits for its log. */
static void turn_give(struct engines_node *n) {
    assert_int_equal(sem_post(&n->go), 0);
    assert_int_equal(sem_wait(&n->back), 0);
}

static void turn_return(struct engines_node *n) {
    (void)sem_post(&n->back);
    (void)sem_wait(&n->go);
}

/* The log has answered, and the thread has not gone on yet. */
static bool turn_is_due(const struct engines_node *n) {
    return n->working && n->appending && n->answered;
}

static void turns_take(struct engines_node *n) {
    while (turn_is_due(n)) {
        turn_give(n);
    }
}

void engines_work(struct engines_node *n, enum engines_work work) {
    assert_false(n->working);
    n->work = work;
    n->working = true;
    turn_give(n);
}

/* ---- The log, as the engine sees it ---- */

static void append_answer(struct engines_node *n, enum tn_status status) {
    n->answered = true;
    if (status == TN_OK) {
        history_see(n, &n->batch);
        n->answer_lsn = n->batch.first_lsn;
    } else if (status == TN_LOST || status == TN_NOSPACE) {
        history_refuse(n, &n->batch);
    } else {
        n->all->counts.doubts++;
    }
    n->done(n->done_ctx, status);
}

static void append_done(void *ctx, enum tn_status status) {
    struct engines_node *n = ctx;
    if (n->appending && !n->answered) {
        append_answer(n, status);
    }
}

/* The engine has nothing to do before its append is answered. */
static void sim_await(struct log *log) {
    struct engines_node *n = node_of(log);
    while (!n->answered && !n->dying) {
        turn_return(n);
    }
    if (!n->answered) {
        append_answer(n, TN_DOUBT);
    }
    n->appending = false;
}

static void sim_append(struct log *log, const struct log_batch *batch, log_committed *done,
                       void *ctx) {
    struct engines_node *n = node_of(log);
    n->appending = true;
    n->answered = false;
    n->batch = *batch;
    n->done = done;
    n->done_ctx = ctx;
    if (!n->dying) {
        n->inner->append(log, batch, append_done, n);
    }
    if (!n->verbs.answers_later) {
        sim_await(log);
    }
}

/* By the clock, also of a node that has just woken up and has not looked at its log. */
static bool sim_owned(const struct log *log) {
    const struct engines_node *n = node_of(log);
    return group_boot_ms(n->node) < n->inner->owned_until(log);
}

static enum tn_status follower_batch(void *ctx, const struct log_batch *batch) {
    struct engines_node *n = ctx;
    turns_take(n); /* batches in flight are answered first */
    history_see(n, batch);
    n->fresh = true;
    return n->inner_follower->batch(n->inner_follower->ctx, batch);
}

static void follower_owner(void *ctx, bool owned, const char *leader) {
    struct engines_node *n = ctx;
    n->node->owned = owned;
    n->inner_follower->owner(n->inner_follower->ctx, owned, leader);
}

static uint64_t follower_now(void *ctx) {
    const struct engines_node *n = ctx;
    return n->inner_follower->now(n->inner_follower->ctx);
}

static enum tn_status sim_start(struct log *log, const struct log_follower *follower) {
    struct engines_node *n = node_of(log);
    n->inner_follower = follower;
    n->follower = (struct log_follower){
        .ctx = n, .owner = follower_owner, .batch = follower_batch, .now = follower_now};
    return n->inner->start(log, &n->follower);
}

static enum tn_status loader_batch(void *ctx, const struct log_batch *batch) {
    struct engines_node *n = ctx;
    history_see(n, batch);
    return n->inner_loader->batch(n->inner_loader->ctx, batch);
}

static enum tn_status sim_load(struct log *log, const struct log_position *from,
                               const struct log_loader *loader, struct log_position *ret_position,
                               struct log_error *error) {
    struct engines_node *n = node_of(log);
    struct log_loader seen = {.ctx = n, .batch = loader_batch};
    n->inner_loader = loader;
    return n->inner->load(log, from, &seen, ret_position, error);
}

/* ---- The group's part ---- */

static void on_notice(void *ctx, const char *line) {
    struct engines_node *n = ctx;
    char before[sizeof n->node->notice];
    memcpy(before, n->node->notice, sizeof before);
    (void)snprintf(n->node->notice, sizeof n->node->notice, "%.400s\n%.600s", line, before);
    world_trace(&n->all->world, "%" PRIu64 " node %u: %s", n->all->group.now_ms, n->node->n, line);
}

static bool part_open(struct group_node *node) {
    struct engines_node *n = &current->nodes[node->n];
    struct log_error error = {.text = ""};
    n->inner = node->log->verbs;
    n->verbs = *n->inner;
    n->verbs.append = sim_append;
    n->verbs.await = sim_await;
    n->verbs.answers_later = tn_prng_below(&current->world.random, 3) > 0;
    n->verbs.owned = sim_owned;
    n->verbs.start = sim_start;
    n->verbs.load = sim_load;
    node->log->verbs = &n->verbs;
    n->dying = n->fresh = n->appending = n->answered = false;
    n->joined = 0;
    node->owned = false;
    struct engine_options options = {.os = &node->os,
                                     .log = node->log,
                                     .store = node->store,
                                     .limits = current->world.limits,
                                     .limits_mask = (1u << KERNEL_LIMIT_COUNT) - 1,
                                     .no_threads = true,
                                     .early_commands_min = 1,
                                     .snapshot_bytes = current->world.snapshot_bytes,
                                     .notice = on_notice,
                                     .notice_ctx = n};
    if (engine_open(&options, &n->engine, &error) != TN_OK) {
        n->engine = NULL;
        (void)snprintf(node->notice, sizeof node->notice, "%s", error.text);
        return false;
    }
    return true;
}

/* Appends in flight get no answer any more. */
static void part_close(struct group_node *node) {
    struct engines_node *n = &current->nodes[node->n];
    n->dying = true;
    if (n->working) {
        turn_give(n);
        assert_false(n->working);
    }
    (void)engine_close(n->engine);
    n->engine = NULL;
}

bool engines_leads(const struct engines_node *n) {
    struct engine_standing standing;
    if (n->engine == NULL) {
        return false;
    }
    engine_standing_read(n->engine, &standing);
    return standing.role == ENGINE_LEADING;
}

static void part_before(struct group_node *node) {
    struct engines_node *n = &current->nodes[node->n];
    if (!n->working && tn_prng_below(&current->group.prng, 10) == 0) {
        engines_read(n);
    }
    if (!n->working && engines_leads(n) && tn_prng_below(&current->group.prng, 50) == 0) {
        engines_serve(n);
    }
    if (n->working && n->appending && engines_leads(n) &&
        tn_prng_below(&current->group.prng, 4) == 0) {
        engines_join(n);
    }
}

static void part_after(struct group_node *node) {
    struct engines_node *n = &current->nodes[node->n];
    struct engine_standing standing;
    turns_take(n);
    engine_standing_read(n->engine, &standing);
    if (standing.role == ENGINE_HALTED) {
        world_fail(&current->world, "the engine of node %u has halted:\n%s", node->n, node->notice);
    }
    if (!n->working && standing.owned && standing.role == ENGINE_FOLLOWING) {
        engines_work(n, ENGINES_LEAD);
    }
}

static const struct group_part part = {
    .open = part_open, .close = part_close, .before = part_before, .after = part_after};

/* ---- Work ---- */

/* Whether it will be answered. */
static bool serve_one(struct engines_node *n, struct world_request *q) {
    struct kernel_command command;
    q->request.ctx = q;
    enum tn_result verdict = kernel_command_decode(tn_bytes_of(q->bytes, q->len), &command)
                                 ? engine_submit(n->engine, &q->request, &command)
                                 : TN_R_MALFORMED;
    n->all->counts.refused += verdict != TN_R_OK;
    return verdict == TN_R_OK;
}

static void serve_done(struct engine_request *request, struct tn_bytes command) {
    struct world_request *q = request->ctx;
    struct engines_node *n = &current->nodes[q->client];
    struct engines *e = n->all;
    enum tn_outcome outcome = engine_outcome(&request->result);
    if (outcome == TN_COMMITTED) {
        uint64_t lsn = n->answer_lsn++; /* a repeat is answered with the first one's */
        ledger_advance(e, lsn);
        if (e->world.ledger.lsn == lsn) {
            world_ledger_answer(&e->world, &request->result);
            generate_learn(&e->world.generate, command, &e->world.ledger.shown);
        }
        e->acknowledged_lsn = lsn;
        e->counts.commands++;
    }
    e->counts.unknown += outcome == TN_UNKNOWN;
    e->counts.refused += outcome == TN_REJECTED;
    while (n->group_next < n->group_count) {
        (void)serve_one(n, &n->group[n->group_next++]); /* together: the batch after this one */
    }
}

static void serve(struct engines_node *n) {
    n->group_next = 0;
    while (n->group_next < n->group_count) {
        (void)serve_one(n, &n->group[n->group_next++]);
    }
    n->group_count = 0;
}

static uint32_t requests_make(struct engines_node *n, struct world_request group[WORLD_GROUP],
                              void (*done)(struct engine_request *, struct tn_bytes)) {
    struct engines *e = n->all;
    uint32_t most = 1 + (uint32_t)tn_prng_below(&e->group.prng, WORLD_GROUP - 1);
    for (uint32_t count = 0; count < most;) {
        struct world_request *q = &group[count];
        e->world.generate.now_ms = engine_now(n->engine);
        struct tn_bytes bytes = generate_next(&e->world.generate, &e->world.ledger.model);
        if (bytes.len == 0) {
            continue;
        }
        *q = (struct world_request){.client = n->node->n, .len = bytes.len};
        q->request.done = done;
        memcpy(q->bytes, bytes.at, bytes.len);
        count++;
    }
    return most;
}

void engines_serve(struct engines_node *n) {
    n->group_count = requests_make(n, n->group, serve_done);
    engines_work(n, ENGINES_SERVE);
}

static void join_done(struct engine_request *request, struct tn_bytes command) {
    struct world_request *q = request->ctx;
    current->nodes[q->client].joined--;
    serve_done(request, command);
}

void engines_join(struct engines_node *n) {
    if (n->joined > 0) {
        return;
    }
    uint32_t count = requests_make(n, n->more, join_done);
    for (uint32_t i = 0; i < count; i++) {
        n->joined += serve_one(n, &n->more[i]);
    }
}

static void work_do(struct engines_node *n) {
    struct log_error error;
    switch (n->work) {
    case ENGINES_LEAD:
        n->all->counts.leads += engine_lead(n->engine, &error) == TN_OK;
        break;
    case ENGINES_SERVE:
        serve(n);
        break;
    case ENGINES_TICK:
        (void)engine_tick(n->engine);
        break;
    default:
        (void)engine_follow(n->engine);
    }
}

static void *thread_run(void *arg) {
    struct engines_node *n = arg;
    (void)sem_wait(&n->go);
    while (n->work != ENGINES_QUIT) {
        work_do(n);
        n->working = false;
        turn_return(n);
    }
    return NULL;
}

/* ---- Looking ---- */

struct look {
    uint64_t lsn, hash;
    bool wants_hash;
};

static bool looks(void *ctx, const struct kernel *kernel, uint64_t clock_ms) {
    struct look *look = ctx;
    (void)clock_ms;
    look->lsn = kernel_lsn(kernel);
    if (look->wants_hash) {
        look->hash = kernel_hash(kernel);
    }
    return false;
}

void engines_read(struct engines_node *n) {
    struct look look = {0};
    struct engines *e = n->all;
    if (engine_read(n->engine, ENGINE_READ_NOWAIT, looks, &look) != TN_R_OK) {
        e->counts.reads_refused++;
        return;
    }
    e->counts.reads++;
    if (look.lsn < e->acknowledged_lsn) {
        world_fail(&e->world,
                   "node %u reads as the owner at lsn %" PRIu64 ", and %" PRIu64
                   " was acknowledged before",
                   n->node->n, look.lsn, e->acknowledged_lsn);
    }
}

void engines_compare(struct engines_node *n) {
    struct look look = {.wants_hash = true};
    struct engines *e = n->all;
    if (n->engine == NULL || n->working ||
        engine_read(n->engine, ENGINE_READ_STALE, looks, &look) != TN_R_OK || look.lsn == 0) {
        return;
    }
    ledger_advance(e, look.lsn);
    for (uint32_t i = e->batch_applied; i > 0; i--) {
        const struct engines_batch *batch = &e->batches[i - 1];
        if (batch->last_lsn <= look.lsn) {
            e->counts.states++;
            if (batch->last_lsn != look.lsn || batch->hash != look.hash) {
                world_fail(&e->world,
                           "the state of node %u at lsn %" PRIu64 " is not that of the log",
                           n->node->n, look.lsn);
            }
            return;
        }
    }
}

bool engines_are_equal(struct engines *e) {
    uint64_t lsn = e->batch_count > 0 ? e->batches[e->batch_count - 1].last_lsn : 0;
    bool equal = true;
    for (unsigned i = 0; i < GROUP_NODES; i++) {
        const struct engines_node *n = &e->nodes[i];
        equal = equal && n->engine != NULL && !n->working && engine_lsn(n->engine) == lsn;
    }
    return equal && e->acknowledged_lsn <= lsn;
}

/* ---- Opening and closing ---- */

void engines_open(struct engines *e, uint64_t seed) {
    memset(e, 0, sizeof *e);
    current = e;
    e->world.seed = seed;
    tn_prng_seed(&e->world.random, seed);
    generate_open(&e->world.generate, seed);
    e->world.generate.calm = true;
    e->world.generate.slow_drain = true;
    e->world.limits = e->world.generate.limits;
    e->world.limits.of[KERNEL_LIMIT_HISTORY] = 40;
    e->world.generate.limits = e->world.limits;
    e->world.snapshot_bytes = 1000u * (10 + tn_prng_below(&e->world.random, 100));
    world_ledger_open(&e->world);
    e->batches = calloc(ENGINES_BATCHES, sizeof *e->batches);
    e->refusals = calloc(ENGINES_BATCHES, sizeof *e->refusals);
    assert_true(e->batches != NULL && e->refusals != NULL);
    group_open(&e->group, seed);
    e->group.part = &part;
    for (unsigned i = 0; i < GROUP_NODES; i++) {
        struct engines_node *n = &e->nodes[i];
        n->all = e;
        n->node = &e->group.nodes[i];
        assert_int_equal(sem_init(&n->go, 0, 0), 0);
        assert_int_equal(sem_init(&n->back, 0, 0), 0);
        assert_int_equal(pthread_create(&n->thread, NULL, thread_run, n), 0);
    }
}

void engines_close(struct engines *e) {
    group_close(&e->group);
    for (unsigned i = 0; i < GROUP_NODES; i++) {
        struct engines_node *n = &e->nodes[i];
        n->work = ENGINES_QUIT;
        (void)sem_post(&n->go);
        (void)pthread_join(n->thread, NULL);
        (void)sem_destroy(&n->go);
        (void)sem_destroy(&n->back);
    }
    for (uint32_t i = 0; i < e->batch_count; i++) {
        free(e->batches[i].payload);
    }
    free(e->batches);
    free(e->refusals);
    world_ledger_close(&e->world);
}
