/* Three nodes that own and follow a log in a fake etcd, with the real decisions
 * (replica/replica_owner.h) and the real bytes (replica/replica_head.h), while calls are lost, late
 * and doubled, members and nodes hang, and clocks run differently. What must hold: never two
 * owners, no acknowledged batch is missing, no refused batch is in the log, and when all faults
 * have ended a node owns the log. */
#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/prng.h"
#include "lib/fakeetcd.h"
#include "replica/replica_owner.h"
#include "seeds.h"

#define NODES 3u
#define TTL_MS 2000u
#define CALL_MS 500u
#define HEAD_KEY "/r/head"
#define LOG_KEY "/r/log/"
#define KEY_LEN (sizeof LOG_KEY - 1 + REPLICA_KEY_DIGITS)
#define PAYLOAD 16u
#define BATCHES 20000u

enum fate { FATE_NONE, FATE_OK, FATE_NEVER, FATE_UNKNOWN };

struct rnode {
    struct rworld *world;
    unsigned n;
    struct etcd *writer, *watcher;
    struct replica_owner owner;
    uint64_t log_offset; /* from its clock to the log's time */
    uint64_t hangs_until_ms;
    bool watching, ranging;
    uint64_t applied, chain;
    bool appending;
    uint64_t append_id;
    struct log_batch batch;
    uint8_t payload[PAYLOAD], value[REPLICA_BATCH_BYTES + PAYLOAD];
    char key[KEY_LEN];
};

struct rworld {
    struct fakeetcd *fake;
    struct tn_prng prng;
    uint64_t now_ms;
    struct rnode nodes[NODES];
    uint64_t nonces, append_ids;
    uint8_t *fates; /* by append id */
    unsigned done, never, unknown, leads;
};

static uint64_t local_ms(const struct rnode *node) {
    static const int64_t ppm[NODES] = {-500, 0, 500};
    int64_t now_ms = (int64_t)node->world->now_ms;
    return (uint64_t)(now_ms + now_ms * ppm[node->n] / 1000000) + 1000000 * (node->n + 1);
}

static void tell(struct rnode *node, const struct replica_fact *fact);

static struct tn_bytes text(const char *s) {
    return tn_bytes_of(s, strlen(s));
}

static void key_write(char out[KEY_LEN], uint64_t lsn) {
    memcpy(out, LOG_KEY, sizeof LOG_KEY - 1);
    replica_key_write(lsn, out + sizeof LOG_KEY - 1);
}

/* ---- Calls ---- */

struct rcall {
    struct rnode *node;
    uint64_t number;
    bool is_read;
};

/* Head and batch, from the two gets of a transaction. */
static void facts_read(const struct rnode *node, const struct etcd_answer *answer,
                       struct replica_fact *fact) {
    struct log_batch batch;
    struct replica_stamp stamp;
    const struct etcd_found *head = &answer->ops[0].found;
    if (head->count > 0) {
        assert_int_equal(replica_head_decode(head->kvs[0].value, &fact->head), TN_OK);
        fact->has_head = true;
    }
    if (answer->op_count > 1 && answer->ops[1].found.count > 0 && node->appending) {
        assert_int_equal(replica_batch_decode(answer->ops[1].found.kvs[0].value,
                                              node->batch.first_lsn, &batch, &stamp),
                         TN_OK);
        fact->has_batch = true;
        fact->batch_is_mine = replica_nonce_equal(&stamp.nonce, &node->owner.swap.to.nonce);
    }
}

static void on_done(void *ctx, const struct etcd_answer *answer) {
    struct rcall call = *(struct rcall *)ctx;
    struct replica_fact fact = {.number = call.number};
    free(ctx);
    bool good = answer->outcome == ETCD_DONE || answer->outcome == ETCD_COMPARE_FAILED;
    if (call.is_read) {
        fact.kind = good ? REPLICA_FACT_READ : REPLICA_FACT_UNREAD;
    } else if (answer->outcome == ETCD_DONE) {
        fact.kind = REPLICA_FACT_DONE;
    } else if (answer->outcome == ETCD_COMPARE_FAILED) {
        fact.kind = REPLICA_FACT_FAILED;
    } else if (answer->outcome == ETCD_SURELY_NOT) {
        fact.kind = REPLICA_FACT_LATER;
    } else {
        fact.kind = answer->reason == ETCD_NOSPACE ? REPLICA_FACT_NOSPACE : REPLICA_FACT_DOUBT;
    }
    if (good && fact.kind != REPLICA_FACT_DONE) {
        facts_read(call.node, answer, &fact);
    }
    tell(call.node, &fact);
}

static void submit(struct rnode *node, const struct etcd_txn *given, uint64_t number) {
    struct etcd_txn txn = *given;
    bool is_read = given->then_count == 0;
    struct rcall *call = malloc(sizeof *call);
    struct etcd_op gets[2] = {
        {.kind = ETCD_GET, .keys = {.key = text(HEAD_KEY)}},
        {.kind = ETCD_GET, .keys = {.key = tn_bytes_of(node->key, sizeof node->key)}},
    };
    assert_non_null(call);
    *call = (struct rcall){.node = node, .number = number, .is_read = is_read};
    txn.otherwise = gets;
    txn.otherwise_count = node->appending ? 2 : 1;
    if (is_read) {
        txn.then = gets;
        txn.then_count = txn.otherwise_count;
    }
    struct etcd_request request = {.verb = ETCD_TXN, .txn = txn};
    assert_int_equal(etcd_submit(node->writer, &request, local_ms(node) + CALL_MS, on_done, call),
                     TN_OK);
}

static void swap_send(struct rnode *node, const struct replica_effect *effect) {
    uint8_t from[REPLICA_HEAD_BYTES], to[REPLICA_HEAD_BYTES];
    replica_head_encode(&effect->from, from);
    replica_head_encode(&effect->to, to);
    struct etcd_compare compare = {
        .kind = ETCD_VALUE_IS, .key = text(HEAD_KEY), .value = tn_bytes_of(from, sizeof from)};
    struct etcd_op puts[2] = {
        {.kind = ETCD_PUT, .keys = {.key = text(HEAD_KEY)}, .value = tn_bytes_of(to, sizeof to)},
        {.kind = ETCD_PUT,
         .keys = {.key = tn_bytes_of(node->key, sizeof node->key)},
         .value = tn_bytes_of(node->value, sizeof node->value)},
    };
    struct etcd_txn txn = {
        .compares = &compare,
        .compare_count = 1,
        .then = puts,
        .then_count = effect->swap_kind == REPLICA_SWAP_APPEND ? 2 : 1,
    };
    submit(node, &txn, effect->number);
}

/* ---- The owner's decisions ---- */

static void append_ends(struct rnode *node, enum tn_status status) {
    struct rworld *w = node->world;
    assert_true(node->appending);
    node->appending = false;
    w->fates[node->append_id] = status == TN_OK      ? FATE_OK
                                : status == TN_DOUBT ? FATE_UNKNOWN
                                                     : FATE_NEVER;
    w->done += status == TN_OK;
    w->unknown += status == TN_DOUBT;
    w->never += status != TN_OK && status != TN_DOUBT;
    if (status == TN_OK) { /* apply it */
        node->applied = node->batch.first_lsn;
        node->chain = replica_chain(node->chain, &node->batch);
    }
}

static void tell(struct rnode *node, const struct replica_fact *fact) {
    struct replica_effects effects;
    struct replica_nonce nonce = {{++node->world->nonces, node->n}};
    uint64_t now_ms = local_ms(node);
    replica_owner_step(&node->owner, fact, now_ms, now_ms + node->log_offset, &nonce, &effects);
    for (unsigned i = 0; i < effects.count; i++) {
        const struct replica_effect *effect = &effects.at[i];
        switch (effect->kind) {
        case REPLICA_DO_SWAP:
            swap_send(node, effect);
            break;
        case REPLICA_DO_READ: {
            struct etcd_txn txn = {0};
            submit(node, &txn, effect->number);
            break;
        }
        case REPLICA_DO_LEAD:
            node->log_offset = effect->to.now_ms - effect->to.stamp_ms;
            node->world->leads++;
            break;
        case REPLICA_DO_FOLLOW:
            break;
        case REPLICA_DO_APPENDED:
            append_ends(node, effect->status);
            break;
        case REPLICA_DO_REFUSE:
            fail_msg("node %u refuses, reason %d", node->n, (int)effect->refusal);
        }
    }
}

static void append(struct rnode *node) {
    struct rworld *w = node->world;
    struct replica_head head = node->owner.head;
    if (node->appending || w->append_ids + 1 >= BATCHES || node->applied != head.lsn) {
        return;
    }
    node->append_id = ++w->append_ids;
    memset(node->payload, 0, sizeof node->payload);
    tn_store64(node->payload, node->append_id);
    node->batch = (struct log_batch){.first_lsn = head.lsn + 1,
                                     .now_ms = local_ms(node) + node->log_offset,
                                     .payload = node->payload,
                                     .len = PAYLOAD,
                                     .count = 1};
    node->batch.now_ms = node->batch.now_ms > head.now_ms ? node->batch.now_ms : head.now_ms;
    struct replica_stamp stamp = {.epoch = head.epoch, .nonce = head.nonce, .chain = head.chain};
    replica_batch_encode(&node->batch, &stamp, node->value);
    key_write(node->key, node->batch.first_lsn);
    node->appending = true;
    struct replica_fact fact = {
        .kind = REPLICA_FACT_APPEND,
        .append = {.first_lsn = node->batch.first_lsn,
                   .last_lsn = node->batch.first_lsn,
                   .now_ms = node->batch.now_ms,
                   .chain = replica_chain(head.chain, &node->batch)},
    };
    tell(node, &fact);
}

/* ---- Following ---- */

static void apply(struct rnode *node, const struct etcd_kv *kv) {
    struct log_batch batch;
    struct replica_stamp stamp;
    if (node->owner.role != REPLICA_FOLLOWING ||
        replica_batch_decode(kv->value, node->applied + 1, &batch, &stamp) != TN_OK) {
        return;
    }
    assert_int_equal(stamp.chain, node->chain);
    node->chain = replica_chain(node->chain, &batch);
    node->applied++;
}

static void head_seen(struct rnode *node, struct tn_bytes value) {
    struct replica_fact fact = {.kind = REPLICA_FACT_SEEN, .has_head = true};
    assert_int_equal(replica_head_decode(value, &fact.head), TN_OK);
    tell(node, &fact);
}

static void watched(void *ctx, const struct etcd_news *news) {
    struct rnode *node = ctx;
    for (uint32_t i = 0; i < news->change_count; i++) {
        if (tn_bytes_equal(news->changes[i].kv.key, text(HEAD_KEY))) {
            head_seen(node, news->changes[i].kv.value);
        }
    }
    node->watching = news->kind != ETCD_WATCH_ENDED;
}

/* All of the log from where this node is, and the head; then a watch of the head from there. */
static void ranged(void *ctx, const struct etcd_answer *answer) {
    struct rnode *node = ctx;
    node->ranging = false;
    if (answer->outcome != ETCD_DONE) {
        return;
    }
    for (uint32_t i = 0; i < answer->ops[1].found.count; i++) {
        apply(node, &answer->ops[1].found.kvs[i]);
    }
    if (answer->ops[0].found.count > 0) {
        head_seen(node, answer->ops[0].found.kvs[0].value);
    }
    struct replica_fact fact = {
        .kind = REPLICA_FACT_APPLIED, .lsn = node->applied, .chain = node->chain};
    tell(node, &fact);
    if (!node->watching) {
        uint64_t id;
        struct etcd_watch_options options = {
            .keys = {.key = text(HEAD_KEY)},
            .start_revision = answer->header.revision + 1,
            .connection = answer->connection,
            .deadline_ms = local_ms(node) + CALL_MS,
        };
        node->watching = etcd_watch(node->watcher, &options, watched, node, &id) == TN_OK;
    }
}

static void follow(struct rnode *node) {
    bool behind = node->owner.has_head && node->applied < node->owner.head.lsn;
    if (node->ranging || (node->watching && !behind)) {
        return;
    }
    char key[KEY_LEN];
    key_write(key, node->applied + 1);
    struct etcd_op gets[] = {
        {.kind = ETCD_GET, .keys = {.key = text(HEAD_KEY)}},
        {.kind = ETCD_GET, .keys = {tn_bytes_of(key, sizeof key), text("/r/log0")}, .limit = 32},
    };
    struct etcd_request request = {.verb = ETCD_TXN, .txn = {.then = gets, .then_count = 2}};
    node->ranging =
        etcd_submit(node->watcher, &request, local_ms(node) + CALL_MS, ranged, node) == TN_OK;
}

/* ---- The world ---- */

static void node_step(struct rnode *node) {
    struct rworld *w = node->world;
    uint64_t now_ms = local_ms(node);
    if (w->now_ms < node->hangs_until_ms) {
        return;
    }
    if (etcd_next_ms(node->writer) <= now_ms) {
        etcd_step(node->writer, now_ms);
    }
    if (etcd_next_ms(node->watcher) <= now_ms) {
        etcd_step(node->watcher, now_ms);
    }
    if (node->owner.role == REPLICA_FOLLOWING) {
        follow(node);
    }
    if (replica_owner_next_ms(&node->owner) <= now_ms) {
        struct replica_fact fact = {.kind = REPLICA_FACT_TICK};
        tell(node, &fact);
    }
    if (replica_owner_owns(&node->owner, now_ms) && tn_prng_below(&w->prng, 10) == 0) {
        append(node);
    }
}

static void owners_check(const struct rworld *w) {
    unsigned owners = 0;
    for (unsigned n = 0; n < NODES; n++) {
        owners += replica_owner_owns(&w->nodes[n].owner, local_ms(&w->nodes[n]));
    }
    assert_true(owners <= 1);
}

static void heal(struct rworld *w) {
    fakeetcd_set_full(w->fake, false, 0);
    for (unsigned i = 0; i < NODES; i++) {
        fakeetcd_start(w->fake, i);
        fakeetcd_resume(w->fake, i);
        w->nodes[i].hangs_until_ms = 0;
        for (unsigned k = 0; k < NODES; k++) {
            fakeetcd_cut(w->nodes[k].writer, i, false);
            fakeetcd_cut(w->nodes[k].watcher, i, false);
        }
    }
}

static void mishap(struct rworld *w) {
    unsigned n = (unsigned)tn_prng_below(&w->prng, NODES);
    struct rnode *node = &w->nodes[tn_prng_below(&w->prng, NODES)];
    switch (tn_prng_below(&w->prng, 9)) {
    case 0:
        fakeetcd_stop(w->fake, n);
        break;
    case 1:
        fakeetcd_pause(w->fake, n);
        break;
    case 2:
        fakeetcd_cut(node->writer, n, true);
        break;
    case 3:
        fakeetcd_set_full(w->fake, true, (unsigned)tn_prng_below(&w->prng, 3));
        break;
    case 4:
    case 5:
        node->hangs_until_ms = w->now_ms + tn_prng_below(&w->prng, 5000);
        break;
    default:
        heal(w);
    }
}

static void run(struct rworld *w, uint64_t ms, bool mishaps) {
    uint64_t end_ms = w->now_ms + ms;
    uint64_t next_ms = w->now_ms + 1000;
    while (w->now_ms < end_ms) {
        fakeetcd_advance(w->fake, ++w->now_ms);
        if (mishaps && w->now_ms >= next_ms) {
            next_ms += 300 + tn_prng_below(&w->prng, 3000);
            mishap(w);
        }
        for (unsigned n = 0; n < NODES; n++) {
            node_step(&w->nodes[n]);
        }
        owners_check(w);
    }
}

/* Puts a head that any node may take over, written by no node in particular. */
static void head_put(struct rworld *w) {
    struct replica_head head;
    uint8_t bytes[REPLICA_HEAD_BYTES];
    memset(&head, 0, sizeof head);
    head.flags = REPLICA_RESIGNED;
    replica_head_encode(&head, bytes);
    struct etcd_op put = {.kind = ETCD_PUT,
                          .keys = {.key = text(HEAD_KEY)},
                          .value = tn_bytes_of(bytes, sizeof bytes)};
    fakeetcd_put(w->fake, &put);
}

static void world_open(struct rworld *w, uint64_t seed) {
    memset(w, 0, sizeof *w);
    w->fake = fakeetcd_new(seed, 3);
    w->fates = calloc(BATCHES, 1);
    assert_non_null(w->fates);
    tn_prng_seed(&w->prng, seed);
    head_put(w);
    for (unsigned n = 0; n < NODES; n++) {
        struct rnode *node = &w->nodes[n];
        struct replica_owner_options options = {.ttl_ms = TTL_MS, .doubt_ms = 10000};
        options.node[0] = (uint8_t)('a' + n);
        node->world = w;
        node->n = n;
        node->writer = fakeetcd_client(w->fake, n);
        node->watcher = fakeetcd_client(w->fake, n);
        replica_owner_begin(&node->owner, &options, local_ms(node));
    }
}

/* Reads the log from the store, and compares it with the answers that the nodes got. */
static void log_check(struct rworld *w) {
    uint8_t *found = calloc(BATCHES, 1);
    uint64_t lsn = 1;
    uint64_t chain = 0;
    uint64_t now_ms = 0;
    struct tn_bytes value;
    char key[KEY_LEN];
    assert_non_null(found);
    for (key_write(key, lsn); fakeetcd_value(w->fake, tn_bytes_of(key, sizeof key), &value);
         key_write(key, ++lsn)) {
        struct log_batch batch;
        struct replica_stamp stamp;
        assert_int_equal(replica_batch_decode(value, lsn, &batch, &stamp), TN_OK);
        assert_int_equal(stamp.chain, chain);
        assert_true(batch.now_ms >= now_ms);
        now_ms = batch.now_ms;
        chain = replica_chain(chain, &batch);
        uint64_t id = tn_load64(batch.payload);
        assert_int_equal(found[id], 0);
        found[id] = 1;
    }
    struct replica_head head;
    assert_true(fakeetcd_value(w->fake, text(HEAD_KEY), &value));
    assert_int_equal(replica_head_decode(value, &head), TN_OK);
    assert_int_equal(head.lsn, lsn - 1);
    assert_int_equal(head.chain, chain);
    for (uint64_t id = 1; id <= w->append_ids; id++) {
        assert_true(w->fates[id] != FATE_OK || found[id] == 1);
        assert_true(w->fates[id] != FATE_NEVER || found[id] == 0);
    }
    free(found);
}

static void world_close(struct rworld *w) {
    /* Calls still in flight report to no one, but their memory must be freed. */
    for (unsigned n = 0; n < NODES; n++) {
        w->nodes[n].hangs_until_ms = UINT64_MAX;
    }
    for (unsigned n = 0; n < NODES; n++) {
        struct rnode *node = &w->nodes[n];
        node->owner.role = REPLICA_HALTED;
        etcd_step(node->writer, UINT64_MAX - 1);
        etcd_close(node->writer);
        etcd_close(node->watcher);
    }
    fakeetcd_free(w->fake);
    free(w->fates);
}

static void play(uint64_t seed, unsigned totals[4]) {
    struct rworld w;
    struct fakeetcd_faults none = {.delay_ms_max = 2};
    world_open(&w, seed);
    fakeetcd_set_faults(w.fake, &fakeetcd_every_fault);
    run(&w, 60000, true);
    heal(&w);
    fakeetcd_set_faults(w.fake, &none);
    run(&w, 25000, false);
    unsigned before = w.done;
    run(&w, 1000, false);
    if (w.done == before) {
        fail_msg("seed %" PRIu64 ": all is well, and nobody owns the log", seed);
    }
    log_check(&w);
    totals[0] += w.done;
    totals[1] += w.never;
    totals[2] += w.unknown;
    totals[3] += w.leads;
    world_close(&w);
}

static void one_owner_and_true_answers_whatever_goes_wrong(void **state) {
    unsigned totals[4] = {0};
    struct seeds seeds = seeds_given(1);
    uint64_t last = seeds_last(&seeds, 10);
    (void)state;
    for (uint64_t seed = seeds.first; seed <= last && !seeds_time_is_up(&seeds); seed++) {
        printf("seed %" PRIu64 "\n", seed);
        play(seed, totals);
    }
    printf("%u acknowledged, %u refused, %u unknown, %u owners\n", totals[0], totals[1], totals[2],
           totals[3]);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_owner_and_true_answers_whatever_goes_wrong),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
