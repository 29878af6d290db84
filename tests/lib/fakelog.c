#include "lib/fakelog.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define BATCHES_MAX 65536u
#define SECTIONS_MAX 65536u

struct stored {
    struct log_batch batch;
    pthread_t thread;
};

struct snapshot {
    struct log_position at;
    struct log_section *sections;
    unsigned count;
};

struct hook {
    void (*call)(void *ctx);
    void *ctx;
};

struct fakelog {
    struct log log;
    struct log_store store;
    struct log_verbs verbs;
    pthread_mutex_t lock;
    pthread_cond_t changed;

    bool threaded, shut, snapshot_shut;
    bool snapshot_waits; /* a section stands at the gate */
    bool busy;           /* an append has not been answered */
    bool dead;           /* no appends any more */
    bool open;           /* between load and close */
    bool led;
    bool owned; /* atomic for the engine's threads: under the lock */
    _Atomic bool lapsed;
    const struct log_follower *follower; /* NULL: not started */

    struct log_succession succession;
    struct hook on_lead, on_append, on_confirm;
    unsigned expires_at; /* the question that is answered with no; 0: none */
    uint64_t lead_at;    /* 0: the truth */
    enum tn_status failure;
    unsigned failures, snapshot_failure;
    bool failure_stored;
    uint64_t shard;
    uint64_t skips; /* LSNs that each load passes over */
    uint64_t lsn_least;

    struct stored *batches;
    unsigned batch_count;
    struct snapshot snapshot, writing; /* the newest one; the next one */
    unsigned appends, idles, snapshots;
    enum tn_status idle_status;
    unsigned answering; /* threads that are not done with this log */
    struct log_node nodes[LOG_NODES_MAX];
    uint32_t node_count;
    uint64_t stale_ms;

    /* The append that waits for its answer. */
    struct log_batch pending;
    pthread_t pending_thread;
    log_committed *done;
    void *done_ctx;
};

/* A hook is called once. */
static struct hook hook_take(struct hook *at) {
    struct hook hook = *at;
    *at = (struct hook){0};
    return hook;
}

static struct fakelog *of(struct log *log) {
    return (struct fakelog *)log;
}

static struct fakelog *of_store(struct log_store *store) {
    return (struct fakelog *)(void *)((char *)store - offsetof(struct fakelog, store));
}

static uint64_t last_lsn(const struct fakelog *log) {
    uint64_t lsn = log->snapshot.at.lsn;
    if (log->batch_count > 0) {
        const struct log_batch *last = &log->batches[log->batch_count - 1].batch;
        lsn = last->first_lsn + last->count - 1;
    }
    return lsn;
}

static uint64_t next_lsn(const struct fakelog *log) {
    uint64_t next = last_lsn(log) + 1;
    return next > log->lsn_least ? next : log->lsn_least;
}

static uint64_t last_now(const struct fakelog *log) {
    return log->batch_count > 0 ? log->batches[log->batch_count - 1].batch.now_ms
                                : log->snapshot.at.now_ms;
}

/* ---- Append ---- */

static void store(struct fakelog *log) {
    struct stored *stored = &log->batches[log->batch_count];
    assert_true(log->batch_count < BATCHES_MAX);
    uint8_t *payload = malloc(log->pending.len);
    assert_non_null(payload);
    memcpy(payload, log->pending.payload, log->pending.len);
    stored->batch = log->pending;
    stored->batch.payload = payload;
    stored->thread = log->pending_thread;
    log->batch_count++;
}

/* Decides the pending append and answers it. Called with the lock held, which is released during
 * the answer. */
static void answer(struct fakelog *log) {
    enum tn_status status = TN_OK;
    while (log->shut) {
        pthread_cond_wait(&log->changed, &log->lock);
    }
    if (log->failures > 0) {
        log->failures--;
        status = log->failure;
    }
    if (status == TN_OK || (status != TN_NOSPACE && status != TN_LOST && log->failure_stored)) {
        store(log);
    }
    bool lost = status == TN_LOST || status == TN_DOUBT;
    log->dead = status != TN_OK && status != TN_NOSPACE && !lost;
    log->owned = log->owned && !lost;
    log->busy = false;
    log_committed *done = log->done;
    void *ctx = log->done_ctx;
    pthread_cond_broadcast(&log->changed);
    pthread_mutex_unlock(&log->lock);
    done(ctx, status);
    pthread_mutex_lock(&log->lock);
}

static void *answer_thread(void *arg) {
    struct fakelog *log = arg;
    pthread_mutex_lock(&log->lock);
    answer(log);
    log->answering--;
    pthread_cond_broadcast(&log->changed);
    pthread_mutex_unlock(&log->lock);
    return NULL;
}

static void fake_append(struct log *base, const struct log_batch *batch, log_committed *done,
                        void *ctx) {
    struct fakelog *log = of(base);
    pthread_mutex_lock(&log->lock);
    assert_true(log->open && log->led);
    assert_false(log->busy);
    assert_false(log->dead);
    log->appends++;
    struct hook hook = hook_take(&log->on_append);
    if (hook.call != NULL) {
        pthread_mutex_unlock(&log->lock);
        hook.call(hook.ctx);
        pthread_mutex_lock(&log->lock);
    }
    if (!log->owned) {
        pthread_mutex_unlock(&log->lock);
        done(ctx, TN_LOST);
        return;
    }
    assert_int_equal(batch->first_lsn, next_lsn(log));
    assert_true(batch->now_ms >= last_now(log));
    assert_true(batch->count > 0);
    log->pending = *batch;
    log->pending_thread = pthread_self();
    log->done = done;
    log->done_ctx = ctx;
    log->busy = true;
    pthread_cond_broadcast(&log->changed);
    if (log->threaded) {
        pthread_t thread;
        log->answering++;
        assert_int_equal(pthread_create(&thread, NULL, answer_thread, log), 0);
        assert_int_equal(pthread_detach(thread), 0);
    } else {
        answer(log);
    }
    pthread_mutex_unlock(&log->lock);
}

static enum tn_status fake_idle(struct log *base) {
    struct fakelog *log = of(base);
    pthread_mutex_lock(&log->lock);
    assert_false(log->busy);
    log->idles++;
    enum tn_status status = log->idle_status;
    pthread_cond_broadcast(&log->changed);
    pthread_mutex_unlock(&log->lock);
    return status;
}

/* ---- Load ---- */

static enum tn_status fake_store_load(struct log_store *store, const struct log_loader *loader,
                                      struct log_position *ret_at, struct log_error *error) {
    struct fakelog *log = of_store(store);
    enum tn_status status = TN_OK;
    (void)error;
    assert_false(log->open);
    if (log->snapshot.count > 0) {
        status = loader->snapshot_begin(loader->ctx, &log->snapshot.at);
        for (unsigned i = 0; i < log->snapshot.count && status == TN_OK; i++) {
            status = loader->snapshot_section(loader->ctx, &log->snapshot.sections[i]);
        }
        status = status == TN_OK ? loader->snapshot_end(loader->ctx) : status;
    }
    *ret_at = log->snapshot.at;
    return status;
}

static struct log_position position(const struct fakelog *log) {
    return (struct log_position){.lsn = last_lsn(log),
                                 .next_lsn = next_lsn(log),
                                 .now_ms = last_now(log),
                                 .shard = log->shard};
}

static enum tn_status fake_load(struct log *base, const struct log_position *from,
                                const struct log_loader *loader, struct log_position *ret_position,
                                struct log_error *error) {
    struct fakelog *log = of(base);
    enum tn_status status = TN_OK;
    (void)error;
    assert_false(log->open);
    assert_int_equal(from->lsn, log->snapshot.at.lsn);
    log->open = true;
    log->dead = false;
    log->led = false;
    for (unsigned i = 0; i < log->batch_count && status == TN_OK; i++) {
        if (log->batches[i].batch.first_lsn > log->snapshot.at.lsn) {
            status = loader->batch(loader->ctx, &log->batches[i].batch);
        }
    }
    *ret_position = position(log);
    return status;
}

static enum tn_status fake_lead(struct log *base, struct log_position *ret_position,
                                struct log_error *error) {
    struct fakelog *log = of(base);
    (void)error;
    assert_true(log->open);
    if (!log->owned) {
        return TN_LOST;
    }
    log->led = true;
    log->lsn_least = last_lsn(log) + 1 + log->skips;
    *ret_position = position(log);
    if (log->lead_at != 0) {
        ret_position->lsn = log->lead_at;
    }
    struct hook hook = hook_take(&log->on_lead);
    if (hook.call != NULL) {
        hook.call(hook.ctx);
    }
    return TN_OK;
}

static void fake_succession(struct log *base, struct log_succession *ret_succession) {
    *ret_succession = of(base)->succession;
}

static enum tn_status fake_start(struct log *base, const struct log_follower *follower) {
    struct fakelog *log = of(base);
    assert_true(log->open);
    log->follower = follower;
    follower->owner(follower->ctx, log->owned, "");
    return TN_OK;
}

static bool fake_owned(const struct log *base) {
    struct fakelog *log = of((struct log *)(uintptr_t)base);
    pthread_mutex_lock(&log->lock);
    bool owned = log->owned && log->expires_at != 1;
    log->expires_at -= log->expires_at > 0;
    pthread_mutex_unlock(&log->lock);
    return owned;
}

static uint64_t fake_owned_until(const struct log *base) {
    return atomic_load(&((const struct fakelog *)base)->lapsed) ? 0 : UINT64_MAX;
}

static enum tn_status fake_resign(struct log *base) {
    fakelog_owner(of(base), false, "");
    return TN_OK;
}

static uint64_t fake_batch_max(const struct log *base) {
    (void)base;
    return UINT32_MAX;
}

/* ---- Snapshots ---- */

static void snapshot_drop(struct snapshot *snapshot) {
    for (unsigned i = 0; i < snapshot->count; i++) {
        free((void *)(uintptr_t)snapshot->sections[i].bytes.at);
    }
    free(snapshot->sections);
    *snapshot = (struct snapshot){.count = 0};
}

static enum tn_status fake_snapshot_begin(struct log_store *store, const struct log_position *at,
                                          struct log_error *error) {
    struct fakelog *log = of_store(store);
    (void)error;
    assert_null(log->writing.sections);
    log->writing.at = *at;
    log->writing.sections = calloc(SECTIONS_MAX, sizeof *log->writing.sections);
    assert_non_null(log->writing.sections);
    return TN_OK;
}

static enum tn_status fake_snapshot_section(struct log_store *store,
                                            const struct log_section *section) {
    struct fakelog *log = of_store(store);
    struct snapshot *writing = &log->writing;
    assert_non_null(writing->sections);
    assert_true(writing->count < SECTIONS_MAX);
    assert_true(section->bytes.len <= LOG_SECTION_MAX);
    pthread_mutex_lock(&log->lock);
    while (log->snapshot_shut) {
        log->snapshot_waits = true;
        pthread_cond_broadcast(&log->changed);
        pthread_cond_wait(&log->changed, &log->lock);
    }
    log->snapshot_waits = false;
    pthread_mutex_unlock(&log->lock);
    if (log->snapshot_failure == writing->count + 1) {
        return TN_NOSPACE;
    }
    uint8_t *bytes = malloc(section->bytes.len);
    assert_non_null(bytes);
    memcpy(bytes, section->bytes.at, section->bytes.len);
    writing->sections[writing->count] = *section;
    writing->sections[writing->count].bytes.at = bytes;
    writing->count++;
    return TN_OK;
}

static enum tn_status fake_snapshot_end(struct log_store *store, struct log_error *error) {
    struct fakelog *log = of_store(store);
    if (log->snapshot_failure > 0) {
        (void)strcpy(error->text, "the test says so");
        return TN_IO;
    }
    pthread_mutex_lock(&log->lock);
    snapshot_drop(&log->snapshot);
    log->snapshot = log->writing;
    log->writing = (struct snapshot){.count = 0};
    log->snapshots++;
    pthread_cond_broadcast(&log->changed);
    pthread_mutex_unlock(&log->lock);
    return TN_OK;
}

static void fake_snapshot_abandon(struct log_store *store) {
    snapshot_drop(&of_store(store)->writing);
}

static void fake_stats(struct log *base, struct log_stats *ret_stats) {
    struct fakelog *log = of(base);
    pthread_mutex_lock(&log->lock);
    ret_stats->appends = log->appends;
    ret_stats->stale_ms = log->stale_ms;
    pthread_mutex_unlock(&log->lock);
}

static void fake_store_stats(struct log_store *store, struct log_stats *ret_stats) {
    struct fakelog *log = of_store(store);
    pthread_mutex_lock(&log->lock);
    ret_stats->snapshots = log->snapshot.count > 0;
    ret_stats->snapshot_lsn = log->snapshot.at.lsn;
    pthread_mutex_unlock(&log->lock);
}

static uint64_t fake_store_newest(struct log_store *store) {
    return of_store(store)->snapshot.at.lsn;
}

static bool fake_close(struct log *base) {
    struct fakelog *log = of(base);
    pthread_mutex_lock(&log->lock);
    assert_false(log->busy);
    while (log->answering > 0) {
        pthread_cond_wait(&log->changed, &log->lock);
    }
    log->open = false;
    log->follower = NULL;
    pthread_mutex_unlock(&log->lock);
    return true;
}

static uint32_t fake_nodes(const struct log *base, struct log_node *ret_nodes, uint32_t room) {
    struct fakelog *log = of((struct log *)(uintptr_t)base);
    pthread_mutex_lock(&log->lock);
    uint32_t count = log->node_count < room ? log->node_count : room;
    memcpy(ret_nodes, log->nodes, count * sizeof *ret_nodes);
    pthread_mutex_unlock(&log->lock);
    return count;
}

static const struct log_verbs fake_verbs = {
    .batch_max = fake_batch_max,
    .load = fake_load,
    .start = fake_start,
    .lead = fake_lead,
    .succession = fake_succession,
    .owned = fake_owned,
    .owned_until = fake_owned_until,
    .nodes = fake_nodes,
    .resign = fake_resign,
    .append = fake_append,
    .idle = fake_idle,
    .stats = fake_stats,
    .close = fake_close,
};

static const struct log_store_verbs fake_store_verbs = {
    .newest = fake_store_newest,
    .load = fake_store_load,
    .begin = fake_snapshot_begin,
    .section = fake_snapshot_section,
    .end = fake_snapshot_end,
    .abandon = fake_snapshot_abandon,
    .stats = fake_store_stats,
    .close = fake_snapshot_abandon,
};

/* ---- The test's side ---- */

struct fakelog *fakelog_new(void) {
    struct fakelog *log = calloc(1, sizeof *log);
    assert_non_null(log);
    log->verbs = fake_verbs;
    log->log.verbs = &log->verbs;
    log->store.verbs = &fake_store_verbs;
    log->owned = true;
    log->batches = calloc(BATCHES_MAX, sizeof *log->batches);
    assert_non_null(log->batches);
    pthread_mutex_init(&log->lock, NULL);
    pthread_cond_init(&log->changed, NULL);
    return log;
}

void fakelog_set_alone(struct fakelog *log) {
    assert_false(log->open);
    log->verbs.owned = NULL;
    log->verbs.nodes = NULL;
    log->verbs.resign = NULL;
}

void fakelog_free(struct fakelog *log) {
    assert_false(log->open);
    for (unsigned i = 0; i < log->batch_count; i++) {
        free((void *)(uintptr_t)log->batches[i].batch.payload);
    }
    free(log->batches);
    snapshot_drop(&log->snapshot);
    snapshot_drop(&log->writing);
    pthread_cond_destroy(&log->changed);
    pthread_mutex_destroy(&log->lock);
    free(log);
}

struct log *fakelog_base(struct fakelog *log) {
    return &log->log;
}

struct log_store *fakelog_store(struct fakelog *log) {
    return &log->store;
}

void fakelog_set_succession(struct fakelog *log, const struct log_succession *succession) {
    log->succession = *succession;
}

void fakelog_on_lead(struct fakelog *log, void (*call)(void *ctx), void *ctx) {
    log->on_lead = (struct hook){call, ctx};
}

void fakelog_on_append(struct fakelog *log, void (*call)(void *ctx), void *ctx) {
    log->on_append = (struct hook){call, ctx};
}

static bool fake_confirm(struct log *base) {
    struct fakelog *log = of(base);
    log->on_confirm.call(log->on_confirm.ctx);
    return true;
}

void fakelog_on_confirm(struct fakelog *log, void (*call)(void *ctx), void *ctx) {
    log->on_confirm = (struct hook){call, ctx};
    log->verbs.confirm = fake_confirm;
}

void fakelog_lead_at(struct fakelog *log, uint64_t lsn) {
    log->lead_at = lsn;
}

void fakelog_set_nodes(struct fakelog *log, const struct log_node *nodes, uint32_t count) {
    assert_true(count <= LOG_NODES_MAX);
    pthread_mutex_lock(&log->lock);
    memcpy(log->nodes, nodes, count * sizeof *nodes);
    log->node_count = count;
    pthread_mutex_unlock(&log->lock);
}

void fakelog_set_stale(struct fakelog *log, uint64_t stale_ms) {
    pthread_mutex_lock(&log->lock);
    log->stale_ms = stale_ms;
    pthread_mutex_unlock(&log->lock);
}

void fakelog_set_threaded(struct fakelog *log, bool threaded) {
    log->threaded = threaded;
}

void fakelog_set_later(struct fakelog *log) {
    log->threaded = log->verbs.answers_later = true;
}

static void flag_set(struct fakelog *log, bool *flag, bool value) {
    pthread_mutex_lock(&log->lock);
    *flag = value;
    pthread_cond_broadcast(&log->changed);
    pthread_mutex_unlock(&log->lock);
}

void fakelog_time_goes_on(struct fakelog *log, bool owned, bool lapsed) {
    flag_set(log, &log->owned, owned);
    atomic_store(&log->lapsed, lapsed);
}

void fakelog_owner_soon(struct fakelog *log, bool owned, const char *leader) {
    pthread_mutex_lock(&log->lock);
    while (log->busy) {
        pthread_cond_wait(&log->changed, &log->lock);
    }
    log->owned = owned;
    const struct log_follower *follower = log->follower;
    pthread_mutex_unlock(&log->lock);
    if (follower != NULL) {
        follower->owner(follower->ctx, owned, leader);
    }
}

void fakelog_owner(struct fakelog *log, bool owned, const char *leader) {
    pthread_mutex_lock(&log->lock);
    assert_false(log->busy);
    pthread_mutex_unlock(&log->lock);
    fakelog_owner_soon(log, owned, leader);
}

void fakelog_tell(struct fakelog *log, bool owned, const char *leader) {
    log->follower->owner(log->follower->ctx, owned, leader);
}

void fakelog_time(struct fakelog *log, uint64_t now_ms) {
    log->follower->time(log->follower->ctx, now_ms);
}

void fakelog_expire_at(struct fakelog *log, unsigned question) {
    pthread_mutex_lock(&log->lock);
    log->expires_at = question;
    pthread_mutex_unlock(&log->lock);
}

enum tn_status fakelog_feed(struct fakelog *log, const struct log_batch *batch) {
    assert_false(log->owned);
    log->pending = *batch;
    log->pending_thread = pthread_self();
    store(log);
    return fakelog_hand(log, log->batch_count - 1);
}

enum tn_status fakelog_hand(struct fakelog *log, unsigned n) {
    struct log_batch batch = fakelog_batch(log, n);
    assert_non_null(log->follower);
    return log->follower->batch(log->follower->ctx, &batch);
}

void fakelog_gate_set(struct fakelog *log, bool shut) {
    flag_set(log, &log->shut, shut);
}

/* Waits with the lock until the flag is set, and keeps the lock. */
static void flag_await(struct fakelog *log, const bool *flag) {
    pthread_mutex_lock(&log->lock);
    while (!*flag) {
        pthread_cond_wait(&log->changed, &log->lock);
    }
}

struct log_batch fakelog_gate_wait(struct fakelog *log) {
    flag_await(log, &log->busy);
    struct log_batch batch = log->pending;
    pthread_mutex_unlock(&log->lock);
    return batch;
}

void fakelog_snapshot_gate_set(struct fakelog *log, bool shut) {
    flag_set(log, &log->snapshot_shut, shut);
}

void fakelog_snapshot_gate_wait(struct fakelog *log) {
    flag_await(log, &log->snapshot_waits);
    pthread_mutex_unlock(&log->lock);
}

void fakelog_fail(struct fakelog *log, enum tn_status status, unsigned count, bool stored) {
    pthread_mutex_lock(&log->lock);
    log->failure = status;
    log->failures = count;
    log->failure_stored = stored;
    pthread_mutex_unlock(&log->lock);
}

void fakelog_batch_set_now(struct fakelog *log, unsigned n, uint64_t now_ms) {
    assert_true(n < log->batch_count);
    log->batches[n].batch.now_ms = now_ms;
}

void fakelog_set_shard(struct fakelog *log, uint64_t shard) {
    log->shard = shard;
}

void fakelog_set_skips(struct fakelog *log, uint64_t count) {
    log->skips = count;
}

void fakelog_fail_snapshot(struct fakelog *log, unsigned section) {
    log->snapshot_failure = section;
}

static unsigned look(struct fakelog *log, const unsigned *what) {
    pthread_mutex_lock(&log->lock);
    unsigned seen = *what;
    pthread_mutex_unlock(&log->lock);
    return seen;
}

unsigned fakelog_appends(struct fakelog *log) {
    return look(log, &log->appends);
}

unsigned fakelog_batches(struct fakelog *log) {
    return look(log, &log->batch_count);
}

void fakelog_idle_status(struct fakelog *log, enum tn_status status) {
    pthread_mutex_lock(&log->lock);
    log->idle_status = status;
    pthread_mutex_unlock(&log->lock);
}

unsigned fakelog_idles(struct fakelog *log) {
    return look(log, &log->idles);
}

unsigned fakelog_snapshots(struct fakelog *log) {
    return look(log, &log->snapshots);
}

static struct stored stored_at(struct fakelog *log, unsigned n) {
    pthread_mutex_lock(&log->lock);
    assert_true(n < log->batch_count);
    struct stored stored = log->batches[n];
    pthread_mutex_unlock(&log->lock);
    return stored;
}

struct log_batch fakelog_batch(struct fakelog *log, unsigned n) {
    return stored_at(log, n).batch;
}

pthread_t fakelog_batch_thread(struct fakelog *log, unsigned n) {
    return stored_at(log, n).thread;
}
