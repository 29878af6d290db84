/* The fake etcd of the simulations: its answers against a naive model, and what it promises when
 * everything goes wrong. */
#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "lib/etcdkit.h"
#include "lib/etcdscript.h"
#include "lib/fakeetcd.h"
#include "lib/fakeetcd_state.h"

/* ---- The model: the whole state, kept once for each revision ---- */

#define REVISIONS 4000u

struct model_key {
    bool live;
    char value[8];
    int64_t create, mod, version;
};

struct model {
    int64_t revision, compacted;
    struct model_key (*states)[ETCDSCRIPT_KEYS]; /* by revision */
};

static bool model_holds(const struct etcd_keys *keys, unsigned n) {
    char key[] = "/s/a", first[8], end[8];
    key[3] = (char)('a' + n);
    snprintf(first, sizeof first, "%.*s", (int)keys->key.len, (const char *)keys->key.at);
    snprintf(end, sizeof end, "%.*s", (int)keys->end.len, (const char *)keys->end.at);
    if (keys->end.len == 0) {
        return strcmp(key, first) == 0;
    }
    return strcmp(key, first) >= 0 && (keys->end.at[0] == 0 || strcmp(key, end) < 0);
}

static void model_find(const struct model_key *state, const struct etcd_range *range,
                       struct etcdkit_reply *reply) {
    uint32_t shown = 0;
    uint32_t total = 0;
    for (unsigned n = 0; n < ETCDSCRIPT_KEYS; n++) {
        if (!state[n].live || !model_holds(&range->keys, n)) {
            continue;
        }
        total++;
        if (range->limit > 0 && shown >= range->limit) {
            reply->more = true;
            continue;
        }
        shown++;
        snprintf(reply->kvs[reply->count].key, 8, "/s/%c", 'a' + n);
        snprintf(reply->kvs[reply->count].value, 8, "%s", range->keys_only ? "" : state[n].value);
        reply->kvs[reply->count].len = strlen(reply->kvs[reply->count].value);
        reply->kvs[reply->count].mod_revision = state[n].mod;
        reply->kvs[reply->count++].version = state[n].version;
    }
    reply->total += total;
}

/* A put that clashes with another operation of its branch. */
static bool model_clashes(const struct etcd_op *ops, uint32_t count) {
    for (uint32_t i = 0; i < count; i++) {
        for (uint32_t k = 0; k < count; k++) {
            unsigned n = (unsigned)(ops[i].keys.key.at[3] - 'a');
            struct etcd_keys keys = ops[k].keys;
            bool endless = keys.end.len == 1 && keys.end.at[0] == 0; /* not seen by etcd */
            if (i != k && ops[i].kind == ETCD_PUT && ops[k].kind != ETCD_GET && !endless &&
                model_holds(&keys, n)) {
                return true;
            }
        }
    }
    return false;
}

static void model_op(struct model *model, struct model_key *state, const struct etcd_op *op,
                     struct etcdkit_reply *reply, bool *changed) {
    struct etcd_range range = {.keys = op->keys, .limit = op->limit};
    for (unsigned n = 0; n < ETCDSCRIPT_KEYS; n++) {
        if (op->kind == ETCD_GET || !model_holds(&op->keys, n)) {
            continue;
        }
        struct model_key *key = &state[n];
        if (op->kind == ETCD_DELETE) {
            reply->deleted += key->live;
            *changed |= key->live;
            *key = (struct model_key){0};
            continue;
        }
        key->create = key->live ? key->create : model->revision + 1;
        key->version = key->live ? key->version + 1 : 1;
        key->mod = model->revision + 1;
        key->live = *changed = true;
        snprintf(key->value, sizeof key->value, "%.*s", (int)op->value.len,
                 (const char *)op->value.at);
    }
    if (op->kind == ETCD_GET) {
        model_find(state, &range, reply);
    }
}

static void model_txn(struct model *model, const struct etcd_txn *txn,
                      struct etcdkit_reply *reply) {
    struct model_key state[ETCDSCRIPT_KEYS];
    bool holds = true;
    bool changed = false;
    memcpy(state, model->states[model->revision], sizeof state);
    if (model_clashes(txn->then, txn->then_count) ||
        model_clashes(txn->otherwise, txn->otherwise_count)) {
        reply->outcome = ETCD_SURELY_NOT;
        reply->reason = ETCD_INVALID;
        return;
    }
    for (uint32_t i = 0; i < txn->compare_count; i++) {
        const struct etcd_compare *compare = &txn->compares[i];
        const struct model_key *key = &state[compare->key.at[3] - 'a'];
        bool equal = key->live && strlen(key->value) == compare->value.len &&
                     memcmp(key->value, compare->value.at, compare->value.len) == 0;
        holds &= compare->kind == ETCD_ABSENT ? !key->live : equal;
    }
    reply->outcome = holds ? ETCD_DONE : ETCD_COMPARE_FAILED;
    for (uint32_t i = 0; i < (holds ? txn->then_count : txn->otherwise_count); i++) {
        model_op(model, state, holds ? &txn->then[i] : &txn->otherwise[i], reply, &changed);
    }
    if (changed) {
        model->revision++;
        assert_true(model->revision < REVISIONS);
        memcpy(model->states[model->revision], state, sizeof state);
    }
}

static void model_call(struct model *model, const struct etcd_request *request,
                       struct etcdkit_reply *reply) {
    *reply = (struct etcdkit_reply){.outcome = ETCD_DONE};
    if (request->verb == ETCD_TXN) {
        model_txn(model, &request->txn, reply);
        return;
    }
    bool is_range = request->verb == ETCD_RANGE;
    int64_t revision = is_range ? request->range.revision : request->revision;
    int64_t oldest = is_range ? model->compacted : model->compacted + 1;
    if (revision > model->revision || (revision > 0 && revision < oldest)) {
        reply->outcome = ETCD_SURELY_NOT;
        reply->reason = revision > model->revision ? ETCD_FUTURE : ETCD_COMPACTED;
    } else if (is_range) {
        model_find(model->states[revision > 0 ? revision : model->revision], &request->range,
                   reply);
    } else {
        model->compacted = revision;
    }
}

/* Until nothing is left to do, with the clocks of both clients at 0. */
static void settle_both(struct fakeetcd *fake, struct etcd *one, struct etcd *two) {
    while (etcd_next_ms(one) == 0 || etcd_next_ms(two) == 0 ||
           fakeetcd_next_ms(fake) != ETCD_NEVER) {
        uint64_t next_ms = fakeetcd_next_ms(fake);
        if (next_ms != ETCD_NEVER) {
            fakeetcd_advance(fake, next_ms);
        }
        etcd_step(one, 0);
        etcd_step(two, 0);
    }
}

static void settle(struct fakeetcd *fake, struct etcd *etcd) {
    settle_both(fake, etcd, etcd);
}

static void answers_are_those_of_the_model(void **state) {
    struct model model = {.revision = 1};
    struct etcdkit_reply expected, reply = {0};
    struct etcdscript script;
    (void)state;
    model.states = calloc(REVISIONS, sizeof *model.states);
    assert_non_null(model.states);
    for (uint64_t seed = 1; seed <= 5; seed++) {
        struct fakeetcd *fake = fakeetcd_new(seed, 3);
        struct etcd *etcd = fakeetcd_client(fake, (unsigned)seed);
        model.revision = 1;
        model.compacted = 0;
        memset(model.states[1], 0, sizeof model.states[1]);
        etcdscript_begin(&script, seed);
        for (unsigned i = 0; i < 2000; i++) {
            const struct etcd_request *request = etcdscript_next(&script, model.revision);
            reply.done = false;
            assert_int_equal(etcd_submit(etcd, request, 1, etcdkit_done, &reply), TN_OK);
            settle(fake, etcd);
            assert_true(reply.done);
            model_call(&model, request, &expected);
            assert_int_equal(reply.outcome, expected.outcome);
            assert_int_equal(reply.reason, expected.reason);
            assert_int_equal(fakeetcd_revision(fake), model.revision);
            assert_int_equal(reply.total, expected.total);
            assert_int_equal(reply.more, expected.more);
            assert_int_equal(reply.deleted, expected.deleted);
            assert_memory_equal(reply.kvs, expected.kvs, sizeof reply.kvs);
        }
        etcd_close(etcd);
        fakeetcd_free(fake);
    }
    free(model.states);
}

/* ---- Everything goes wrong: clients count by swapping, and nobody counts twice ---- */

#define CLIENTS 3u
#define KEY "/count"
#define TRIES 4096u

/* A client that raises the number by one again and again: the swap of N to "N+1 by ME.TRY". */
struct counter {
    struct etcd *etcd;
    unsigned me;
    bool busy;
    bool doubt; /* about the last swap */
    uint64_t tries;
    unsigned known;  /* the number it believes in */
    char value[32];  /* its text */
    char wanted[32]; /* the value that the swap in flight writes */
    unsigned done;   /* swaps that were answered done, or found done */
    unsigned unsure; /* swaps whose outcome it never learnt */
    unsigned never;  /* swaps that were surely not carried out, their texts */
    char nevers[TRIES][32];
};

static void counted(void *ctx, const struct etcd_answer *answer) {
    struct counter *counter = ctx;
    counter->busy = false;
    switch (answer->outcome) {
    case ETCD_DONE:
        counter->done++;
        counter->doubt = false;
        snprintf(counter->value, sizeof counter->value, "%s", counter->wanted);
        return;
    case ETCD_COMPARE_FAILED: {
        struct tn_bytes value = answer->ops[0].found.count > 0 ? answer->ops[0].found.kvs[0].value
                                                               : (struct tn_bytes){0};
        snprintf(counter->value, sizeof counter->value, "%.*s", (int)value.len,
                 (const char *)value.at);
        /* Done if this value is there; with another value, the swap may have been done before. */
        if (counter->doubt) {
            bool mine = strcmp(counter->value, counter->wanted) == 0;
            counter->done += mine;
            counter->unsure += !mine;
        }
        counter->doubt = false;
        return;
    }
    case ETCD_SURELY_NOT: /* this try; an earlier one of the same swap may still be in doubt */
        if (!counter->doubt && counter->never < TRIES) {
            snprintf(counter->nevers[counter->never++], 32, "%s", counter->wanted);
        }
        return;
    case ETCD_DOUBT:
        counter->doubt = true;
        return;
    }
}

static void count_up(struct counter *counter, uint64_t now_ms) {
    if (!counter->doubt) { /* a doubtful swap is repeated as it was */
        unsigned n = (unsigned)strtoul(counter->value, NULL, 10);
        snprintf(counter->wanted, sizeof counter->wanted, "%u by %u.%" PRIu64, n + 1, counter->me,
                 ++counter->tries);
    }
    struct etcd_compare compare = {
        .kind = counter->value[0] != '\0' ? ETCD_VALUE_IS : ETCD_ABSENT,
        .key = etcdkit_text(KEY),
        .value = etcdkit_text(counter->value),
    };
    struct etcd_op put = {.kind = ETCD_PUT,
                          .keys = {.key = etcdkit_text(KEY)},
                          .value = etcdkit_text(counter->wanted)};
    struct etcd_op get = {.kind = ETCD_GET, .keys = {.key = etcdkit_text(KEY)}};
    struct etcd_request request = {.verb = ETCD_TXN,
                                   .txn = {.compares = &compare,
                                           .compare_count = 1,
                                           .then = &put,
                                           .then_count = 1,
                                           .otherwise = &get,
                                           .otherwise_count = 1}};
    counter->busy = true;
    assert_int_equal(etcd_submit(counter->etcd, &request, now_ms + 500, counted, counter), TN_OK);
}

static void mishap(struct fakeetcd *fake, struct tn_prng *prng, struct counter *counters) {
    unsigned member = (unsigned)tn_prng_below(prng, 3);
    switch (tn_prng_below(prng, 8)) {
    case 0:
        fakeetcd_stop(fake, member);
        break;
    case 1:
        fakeetcd_pause(fake, member);
        break;
    case 2:
        fakeetcd_cut(counters[tn_prng_below(prng, CLIENTS)].etcd, member, true);
        break;
    case 3:
        fakeetcd_set_full(fake, true, (unsigned)tn_prng_below(prng, 3));
        break;
    default: /* all is well again */
        fakeetcd_set_full(fake, false, 0);
        for (unsigned i = 0; i < 3; i++) {
            fakeetcd_start(fake, i);
            fakeetcd_resume(fake, i);
            for (unsigned k = 0; k < CLIENTS; k++) {
                fakeetcd_cut(counters[k].etcd, i, false);
            }
        }
    }
}

static const struct fakeetcd_faults all_faults = {
    .lost_call = 20,
    .lost_reply = 20,
    .late_call = 50,
    .late_reply = 50,
    .doubled = 30,
    .broken = 10,
    .busy = 10,
    .unavailable = 20,
    .delay_ms_max = 5,
    .late_ms_max = 2000,
    .lag_ms_max = 20,
};

/* No swap that was surely not carried out is in the history. */
static void check_nevers(const struct fakeetcd *fake, const struct counter *counter) {
    for (size_t i = 0; i < fake->store.history_count; i++) {
        struct tn_bytes value = fakestore_value(fake->store.history[i]);
        for (unsigned n = 0; n < counter->never; n++) {
            assert_false(tn_bytes_equal(value, etcdkit_text(counter->nevers[n])));
        }
    }
}

/* Returns the hash of the run. */
static uint64_t count_for_a_while(uint64_t seed, unsigned ret_totals[3]) {
    struct fakeetcd *fake = fakeetcd_new(seed, 3);
    static struct counter counters[CLIENTS];
    struct tn_prng prng;
    uint64_t world_ms = 0;
    uint64_t mishap_ms = 500;
    tn_prng_seed(&prng, seed);
    memset(counters, 0, sizeof counters);
    fakeetcd_set_faults(fake, &all_faults);
    for (unsigned i = 0; i < CLIENTS; i++) {
        counters[i].etcd = fakeetcd_client(fake, i);
        counters[i].me = i;
    }
    while (world_ms < 60000) {
        world_ms++;
        fakeetcd_advance(fake, world_ms);
        if (world_ms >= mishap_ms) {
            mishap_ms += 200 + tn_prng_below(&prng, 2000);
            mishap(fake, &prng, counters);
        }
        for (unsigned i = 0; i < CLIENTS; i++) {
            /* Each node's clock runs differently. */
            uint64_t now_ms = world_ms + world_ms * i / 1000 + i * 12345;
            if (etcd_next_ms(counters[i].etcd) <= now_ms) {
                etcd_step(counters[i].etcd, now_ms);
            }
            if (!counters[i].busy && tn_prng_below(&prng, 20) == 0) {
                count_up(&counters[i], now_ms);
            }
        }
    }
    struct tn_bytes value = {0};
    unsigned reached = 0;
    if (fakeetcd_value(fake, etcdkit_text(KEY), &value)) {
        reached = (unsigned)strtoul((const char *)value.at, NULL, 10);
    }
    unsigned done = 0;
    unsigned unsure = 0;
    for (unsigned i = 0; i < CLIENTS; i++) {
        check_nevers(fake, &counters[i]);
        done += counters[i].done;
        unsure += counters[i].unsure + (counters[i].busy || counters[i].doubt);
        etcd_close(counters[i].etcd);
    }
    /* Every step of the number was the swap of one client, and each is counted at most once. */
    assert_true(reached >= done && reached <= done + unsure);
    ret_totals[0] += done;
    ret_totals[1] += unsure;
    ret_totals[2] += counters[0].never + counters[1].never + counters[2].never;
    uint64_t hash = fakeetcd_hash(fake);
    fakeetcd_free(fake);
    return hash;
}

static void outcomes_are_true_whatever_goes_wrong(void **state) {
    unsigned totals[3] = {0};
    (void)state;
    for (uint64_t seed = 1; seed <= 30; seed++) {
        (void)count_for_a_while(seed, totals);
    }
    /* The run was long enough. */
    assert_true(totals[0] > 1000 && totals[1] > 20 && totals[2] > 100);
}

static void a_run_is_the_same_for_the_same_seed(void **state) {
    unsigned totals[3] = {0};
    (void)state;
    assert_int_equal(count_for_a_while(7, totals), count_for_a_while(7, totals));
    assert_int_not_equal(count_for_a_while(7, totals), count_for_a_while(8, totals));
}

/* ---- Single mishaps ---- */

struct seen {
    char text[1024];
};

static void watched(void *ctx, const struct etcd_news *news) {
    struct seen *seen = ctx;
    static const char *const kinds[] = {"created", "changes", "progress", "ended"};
    size_t len = strlen(seen->text);
    len += (size_t)snprintf(seen->text + len, sizeof seen->text - len, "%s%s", kinds[news->kind],
                            news->partial ? "+" : "");
    for (uint32_t i = 0; i < news->change_count; i++) {
        len += (size_t)snprintf(seen->text + len, sizeof seen->text - len, " %.*s@%" PRId64,
                                (int)news->changes[i].kv.value.len,
                                (const char *)news->changes[i].kv.value.at,
                                news->changes[i].kv.mod_revision);
    }
    snprintf(seen->text + len, sizeof seen->text - len, "%s%s\n",
             news->kind == ETCD_WATCH_ENDED ? " " : "",
             news->kind == ETCD_WATCH_ENDED ? etcd_reason_name(news->reason) : "");
}

static uint64_t watch(struct etcd *etcd, int64_t start, uint64_t connection, struct seen *seen) {
    uint64_t id;
    struct etcd_watch_options options = {.keys = {etcdkit_text("/"), etcdkit_text("0")},
                                         .start_revision = start,
                                         .connection = connection,
                                         .deadline_ms = ETCD_NEVER};
    memset(seen, 0, sizeof *seen);
    assert_int_equal(etcd_watch(etcd, &options, watched, seen, &id), TN_OK);
    return id;
}

/* Puts two keys in one transaction; the client's clock stands at 0. */
static enum etcd_outcome put(struct fakeetcd *fake, struct etcd *etcd, const char *value,
                             struct etcdkit_reply *reply) {
    struct etcd_op ops[] = {
        {.kind = ETCD_PUT, .keys = {.key = etcdkit_text("/a")}, .value = etcdkit_text(value)},
        {.kind = ETCD_PUT, .keys = {.key = etcdkit_text("/b")}, .value = etcdkit_text(value)}};
    struct etcd_request request = {.verb = ETCD_TXN, .txn = {.then = ops, .then_count = 2}};
    reply->done = false;
    assert_int_equal(etcd_submit(etcd, &request, 1, etcdkit_done, reply), TN_OK);
    settle(fake, etcd);
    return reply->outcome;
}

static void a_full_store_leaks_what_was_under_way(void **state) {
    struct fakeetcd *fake = fakeetcd_new(1, 3);
    struct etcd *etcd = fakeetcd_client(fake, 0);
    struct etcdkit_reply reply = {0};
    (void)state;
    fakeetcd_set_full(fake, true, 1);
    assert_int_equal(put(fake, etcd, "x", &reply), ETCD_DOUBT);
    assert_int_equal(reply.reason, ETCD_NOSPACE);
    assert_int_equal(fakeetcd_revision(fake), 2);
    assert_int_equal(put(fake, etcd, "y", &reply), ETCD_DOUBT);
    assert_int_equal(fakeetcd_revision(fake), 2);
    fakeetcd_set_full(fake, false, 0);
    assert_int_equal(put(fake, etcd, "y", &reply), ETCD_DONE);
    etcd_close(etcd);
    fakeetcd_free(fake);
}

static void a_store_that_is_put_back_has_forgotten(void **state) {
    struct fakeetcd *fake = fakeetcd_new(1, 3);
    struct etcd *etcd = fakeetcd_client(fake, 0);
    struct etcdkit_reply reply = {0};
    struct seen seen;
    (void)state;
    assert_int_equal(put(fake, etcd, "old", &reply), ETCD_DONE);
    struct fakeetcd_copy *copy = fakeetcd_save(fake);
    assert_int_equal(put(fake, etcd, "new", &reply), ETCD_DONE);
    (void)watch(etcd, 2, reply.connection, &seen);
    settle(fake, etcd);
    assert_string_equal(seen.text, "created\nchanges old@2 old@2 new@3 new@3\n");
    fakeetcd_put_back(fake, copy);
    settle(fake, etcd);
    assert_non_null(strstr(seen.text, "ended LOST\n"));
    struct tn_bytes value;
    assert_true(fakeetcd_value(fake, etcdkit_text("/a"), &value));
    assert_true(tn_bytes_equal(value, etcdkit_text("old")));
    assert_int_equal(put(fake, etcd, "other", &reply), ETCD_DONE);
    assert_int_equal(reply.header.revision, 3); /* the same number for something else */
    fakeetcd_copy_free(copy);
    etcd_close(etcd);
    fakeetcd_free(fake);
}

static void members_can_number_differently(void **state) {
    struct fakeetcd *fake = fakeetcd_new(1, 3);
    struct etcd *one = fakeetcd_client(fake, 0);
    struct etcd *two = fakeetcd_client(fake, 1);
    struct etcdkit_reply reply = {0};
    struct seen seen;
    (void)state;
    fakeetcd_diverge(fake, 1, 10);
    settle_both(fake, one, two);
    assert_int_equal(put(fake, one, "x", &reply), ETCD_DONE);
    assert_int_equal(reply.header.revision, 2);
    assert_int_equal(put(fake, two, "y", &reply), ETCD_DONE);
    assert_int_equal(reply.header.revision, 13);
    (void)watch(two, 13, reply.connection, &seen); /* in its own numbers all is well */
    settle(fake, two);
    assert_string_equal(seen.text, "created\nchanges y@13 y@13\n");
    (void)watch(one, 13, 0, &seen); /* in the other's it misses everything */
    settle(fake, one);
    assert_string_equal(seen.text, "created\n");
    etcd_close(one);
    etcd_close(two);
    fakeetcd_free(fake);
}

static void a_watch_can_be_stuck_split_or_compacted(void **state) {
    struct fakeetcd *fake = fakeetcd_new(1, 1);
    struct etcd *etcd = fakeetcd_client(fake, 0);
    struct fakeetcd_faults faults = {.split = 1000};
    struct etcdkit_reply reply = {0};
    struct seen seen;
    (void)state;
    fakeetcd_set_faults(fake, &faults);
    assert_int_equal(put(fake, etcd, "x", &reply), ETCD_DONE);
    uint64_t id = watch(etcd, 2, 0, &seen);
    settle(fake, etcd);
    assert_string_equal(seen.text, "created\nchanges+ x@2\nchanges x@2\n");
    etcd_watch_progress(etcd, id);
    settle(fake, etcd);
    assert_non_null(strstr(seen.text, "progress\n"));
    etcd_watch_cancel(etcd, id);
    faults = (struct fakeetcd_faults){.stuck_watch = 1000};
    fakeetcd_set_faults(fake, &faults);
    (void)watch(etcd, 2, 0, &seen);
    settle(fake, etcd);
    assert_int_equal(put(fake, etcd, "y", &reply), ETCD_DONE);
    assert_string_equal(seen.text, "created\n");
    faults = (struct fakeetcd_faults){0};
    fakeetcd_set_faults(fake, &faults);
    fakeetcd_compact(fake, 3);
    struct seen late;
    (void)watch(etcd, 2, 0, &late);
    settle(fake, etcd);
    assert_string_equal(late.text, "created\nended COMPACTED\n");
    etcd_close(etcd);
    fakeetcd_free(fake);
}

static void a_paused_member_answers_too_late_and_is_left(void **state) {
    struct fakeetcd *fake = fakeetcd_new(1, 3);
    struct etcd *etcd = fakeetcd_client(fake, 2);
    struct etcdkit_reply reply = {0};
    (void)state;
    assert_int_equal(put(fake, etcd, "x", &reply), ETCD_DONE);
    fakeetcd_pause(fake, 2);
    struct etcd_op op = {
        .kind = ETCD_PUT, .keys = {.key = etcdkit_text("/late")}, .value = etcdkit_text("z")};
    struct etcd_request request = {.verb = ETCD_TXN, .txn = {.then = &op, .then_count = 1}};
    reply.done = false;
    assert_int_equal(etcd_submit(etcd, &request, 100, etcdkit_done, &reply), TN_OK);
    etcd_step(etcd, 0);
    etcd_step(etcd, 100);
    assert_true(reply.done);
    assert_int_equal(reply.outcome, ETCD_DOUBT);
    assert_int_equal(reply.reason, ETCD_TIMEOUT);
    struct etcd_info info;
    etcd_step(etcd, 101);
    etcd_info(etcd, &info);
    assert_string_equal(info.endpoint, "member0");
    /* And long after that, it is carried out. */
    struct tn_bytes value;
    assert_false(fakeetcd_value(fake, etcdkit_text("/late"), &value));
    fakeetcd_resume(fake, 2);
    fakeetcd_advance(fake, 5000);
    assert_true(fakeetcd_value(fake, etcdkit_text("/late"), &value));
    etcd_close(etcd);
    fakeetcd_free(fake);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(answers_are_those_of_the_model),
        cmocka_unit_test(outcomes_are_true_whatever_goes_wrong),
        cmocka_unit_test(a_run_is_the_same_for_the_same_seed),
        cmocka_unit_test(a_full_store_leaks_what_was_under_way),
        cmocka_unit_test(a_store_that_is_put_back_has_forgotten),
        cmocka_unit_test(members_can_number_differently),
        cmocka_unit_test(a_watch_can_be_stuck_split_or_compacted),
        cmocka_unit_test(a_paused_member_answers_too_late_and_is_left),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
