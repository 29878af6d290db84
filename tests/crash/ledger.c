/* The ledger and the spy that keeps it; see ledger.h. */
#include "crash/ledger.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "base/hash.h"

static void *must(void *memory) {
    TN_ASSERT(memory != NULL);
    return memory;
}

void ledger_free(struct ledger *ledger) {
    for (size_t i = 0; i < ledger->made_count; i++) {
        free(ledger->made[i]);
    }
    free(ledger->made);
    free(ledger->batches);
    free(ledger->snapshots);
    memset(ledger, 0, sizeof *ledger);
}

static void batches_reserve(struct ledger *ledger, size_t count) {
    if (count > ledger->capacity) {
        ledger->capacity = count * 2 + 16;
        ledger->batches =
            must(realloc(ledger->batches, ledger->capacity * sizeof(struct ledger_batch *)));
    }
}

void ledger_fork(struct ledger *to, const struct ledger *from, const struct ledger_batch *tip,
                 size_t acked) {
    memset(to, 0, sizeof *to);
    to->tried = tip == NULL ? 0 : tip->number;
    to->acked = acked;
    to->lsn_high = tip == NULL ? 0 : tip->lsn_high;
    TN_ASSERT(to->acked <= to->tried);
    batches_reserve(to, to->tried);
    for (const struct ledger_batch *at = tip; at != NULL; at = at->before) {
        to->batches[at->number - 1] = at;
    }
    to->snapshot_capacity = from->snapshot_count + 8;
    to->snapshots = must(calloc(to->snapshot_capacity, sizeof *to->snapshots));
    if (from->snapshot_count > 0) {
        memcpy(to->snapshots, from->snapshots, from->snapshot_count * sizeof *to->snapshots);
    }
    to->snapshot_count = from->snapshot_count;
}

const struct ledger_batch *ledger_tip(const struct ledger *ledger) {
    return ledger->tried == 0 ? NULL : ledger->batches[ledger->tried - 1];
}

uint64_t ledger_lsn(const struct ledger *ledger, size_t count) {
    if (count == 0) {
        return 0;
    }
    const struct log_batch *last = &ledger->batches[count - 1]->batch;
    return last->first_lsn + last->count - 1;
}

uint64_t ledger_hash(const struct ledger *ledger, size_t count) {
    return count == 0 ? 0 : ledger->batches[count - 1]->hash;
}

uint64_t ledger_next(const struct ledger *ledger) {
    uint64_t next = ledger_lsn(ledger, ledger->acked) + 1;
    return next > ledger->next_lsn ? next : ledger->next_lsn;
}

void ledger_try(struct ledger *ledger, const struct log_batch *batch) {
    TN_ASSERT(ledger->tried == ledger->acked);
    if (ledger->made_count == ledger->made_capacity) {
        ledger->made_capacity = ledger->made_capacity * 2 + 16;
        ledger->made =
            must(realloc(ledger->made, ledger->made_capacity * sizeof(struct ledger_batch *)));
    }
    struct ledger_batch *made = must(malloc(sizeof *made + batch->len));
    *made = (struct ledger_batch){
        .before = ledger_tip(ledger), .number = ledger->tried + 1, .batch = *batch};
    made->lsn_high = batch->first_lsn + batch->count - 1;
    made->lsn_high_before = ledger->lsn_high;
    ledger->lsn_high = made->lsn_high;
    memcpy(made->payload, batch->payload, batch->len);
    made->batch.payload = made->payload;
    uint64_t fields[5] = {batch->first_lsn, batch->now_ms, batch->count, batch->len,
                          ledger_hash(ledger, ledger->tried)};
    made->hash = tn_hash64(batch->payload, batch->len, tn_hash64(fields, sizeof fields, 1));
    ledger->made[ledger->made_count++] = made;
    batches_reserve(ledger, ledger->tried + 1);
    ledger->batches[ledger->tried++] = made;
}

void ledger_cut(struct ledger *ledger, size_t count) {
    TN_ASSERT(count <= ledger->tried);
    ledger->tried = count;
    ledger->acked = count;
}

void ledger_settle(struct ledger *ledger, enum tn_status status) {
    if (status == TN_OK) {
        ledger->acked = ledger->tried;
    } else if (status == TN_NOSPACE) {
        ledger->lsn_high = ledger_tip(ledger)->lsn_high_before;
        ledger_cut(ledger, ledger->acked);
    }
}

static void snapshot_add(struct ledger *ledger, uint64_t lsn, uint64_t digest) {
    if (ledger->snapshot_count == ledger->snapshot_capacity) {
        ledger->snapshot_capacity = ledger->snapshot_capacity * 2 + 16;
        ledger->snapshots =
            must(realloc(ledger->snapshots, ledger->snapshot_capacity * sizeof *ledger->snapshots));
    }
    ledger->snapshots[ledger->snapshot_count] =
        (struct ledger_snapshot){.lsn = lsn, .digest = digest};
    ledger->snapshot_count += 1;
}

static uint64_t section_digest(uint64_t digest, const struct log_section *section) {
    return tn_hash64(section->bytes.at, section->bytes.len, digest + section->kind);
}

/* ---- Loading ---- */

struct loading {
    const struct ledger *ledger;
    const struct log_loader *to;
    struct ledger_result *result;
    struct log_position snapshot;
    uint64_t digest;
};

static enum tn_status load_wrong(struct loading *loading, const char *what) {
    struct ledger_result *result = loading->result;
    if (result->text[0] == '\0') {
        snprintf(result->text, sizeof result->text, "after %zu batches: %s", result->loaded, what);
    }
    return TN_CORRUPT;
}

static enum tn_status load_snapshot_begin(void *ctx, const struct log_position *at) {
    struct loading *loading = ctx;
    loading->snapshot = *at;
    loading->digest = at->lsn;
    return loading->to == NULL ? TN_OK : loading->to->snapshot_begin(loading->to->ctx, at);
}

static enum tn_status load_snapshot_section(void *ctx, const struct log_section *section) {
    struct loading *loading = ctx;
    loading->digest = section_digest(loading->digest, section);
    return loading->to == NULL ? TN_OK : loading->to->snapshot_section(loading->to->ctx, section);
}

static enum tn_status load_snapshot_end(void *ctx) {
    struct loading *loading = ctx;
    const struct ledger *ledger = loading->ledger;
    bool known = false;
    for (size_t i = 0; i < ledger->snapshot_count && !known; i++) {
        known = ledger->snapshots[i].lsn == loading->snapshot.lsn &&
                ledger->snapshots[i].digest == loading->digest;
    }
    size_t count = 0;
    while (count < ledger->tried && ledger_lsn(ledger, count) < loading->snapshot.lsn) {
        count += 1;
    }
    if (!known || ledger_lsn(ledger, count) != loading->snapshot.lsn) {
        return load_wrong(loading, "a snapshot that was never written");
    }
    loading->result->loaded = count;
    return loading->to == NULL ? TN_OK : loading->to->snapshot_end(loading->to->ctx);
}

static enum tn_status load_batch(void *ctx, const struct log_batch *batch) {
    struct loading *loading = ctx;
    const struct ledger *ledger = loading->ledger;
    if (loading->result->loaded == ledger->tried) {
        return load_wrong(loading, "a batch that was never tried");
    }
    const struct log_batch *want = &ledger->batches[loading->result->loaded]->batch;
    if (batch->first_lsn != want->first_lsn || batch->now_ms != want->now_ms ||
        batch->count != want->count || batch->len != want->len ||
        memcmp(batch->payload, want->payload, want->len) != 0) {
        return load_wrong(loading, "a batch that is another than the one that was tried");
    }
    loading->result->loaded += 1;
    return loading->to == NULL ? TN_OK : loading->to->batch(loading->to->ctx, batch);
}

static struct log_loader loader_checking(struct loading *loading) {
    return (struct log_loader){
        .ctx = loading,
        .snapshot_begin = load_snapshot_begin,
        .snapshot_section = load_snapshot_section,
        .snapshot_end = load_snapshot_end,
        .batch = load_batch,
    };
}

/* After the batches, or where it failed. */
static void loading_end(struct loading *loading, enum tn_status status,
                        const struct log_error *error) {
    struct ledger_result *result = loading->result;
    const struct ledger *ledger = loading->ledger;
    result->status = status;
    if (status != TN_OK) {
        size_t used = strlen(result->text);
        snprintf(result->text + used, sizeof result->text - used, "%s%s", used > 0 ? ": " : "",
                 error->text);
        return;
    }
    result->hash = ledger_hash(ledger, result->loaded);
    if (result->position.lsn != ledger_lsn(ledger, result->loaded)) {
        result->status = TN_CORRUPT;
        snprintf(result->text, sizeof result->text,
                 "the log says it stands at LSN %" PRIu64 ", its batches end at %" PRIu64,
                 result->position.lsn, ledger_lsn(ledger, result->loaded));
    }
}

void ledger_load(const struct ledger *ledger, struct log *log, struct ledger_result *ret_result) {
    *ret_result = (struct ledger_result){.status = TN_OK};
    struct loading loading = {.ledger = ledger, .result = ret_result};
    struct log_loader checking = loader_checking(&loading);
    struct log_error error = {{0}};
    enum tn_status status =
        log_load(log_local_store(log), log, &checking, &ret_result->position, &error);
    loading_end(&loading, status, &error);
}

/* ---- The spy ---- */

struct spy {
    struct log log; /* first */
    struct log_store store;
    struct log *inner;
    struct log_store *inner_store;
    struct ledger *ledger;
    struct tape *tape;
    struct log_position at; /* position of the snapshot being written */
    uint64_t digest;
    log_committed *done;
    void *done_ctx;
    struct loading loading;
    struct ledger_result result;
};

static struct spy *spy_of(struct log *log) {
    return (struct spy *)log;
}

static struct spy *spy_of_store(struct log_store *store) {
    return (struct spy *)(void *)((char *)store - offsetof(struct spy, store));
}

static void spy_note(struct spy *spy) {
    (void)tape_note(spy->tape, spy->ledger->acked, ledger_tip(spy->ledger));
}

static enum tn_status spy_loaded(struct spy *spy, enum tn_status status, struct log_error *error) {
    loading_end(&spy->loading, status, error);
    if (spy->result.status != TN_OK) {
        snprintf(error->text, sizeof error->text, "%.500s", spy->result.text);
    }
    return spy->result.status;
}

static enum tn_status spy_store_load(struct log_store *store, const struct log_loader *loader,
                                     struct log_position *ret_at, struct log_error *error) {
    struct spy *spy = spy_of_store(store);
    spy->result = (struct ledger_result){.status = TN_OK};
    spy->loading = (struct loading){.ledger = spy->ledger, .to = loader, .result = &spy->result};
    struct log_loader checking = loader_checking(&spy->loading);
    enum tn_status status =
        spy->inner_store->verbs->load(spy->inner_store, &checking, ret_at, error);
    return status == TN_OK ? TN_OK : spy_loaded(spy, status, error);
}

static enum tn_status spy_load(struct log *log, const struct log_position *from,
                               const struct log_loader *loader, struct log_position *ret_position,
                               struct log_error *error) {
    struct spy *spy = spy_of(log);
    spy->loading.to = loader;
    struct log_loader checking = loader_checking(&spy->loading);
    enum tn_status status =
        spy->inner->verbs->load(spy->inner, from, &checking, &spy->result.position, error);
    status = spy_loaded(spy, status, error);
    if (status != TN_OK) {
        return status;
    }
    if (spy->result.loaded < spy->ledger->acked) {
        snprintf(error->text, sizeof error->text, "only %zu of %zu acknowledged batches",
                 spy->result.loaded, spy->ledger->acked);
        return TN_CORRUPT;
    }
    *ret_position = spy->result.position;
    return TN_OK;
}

static enum tn_status spy_lead(struct log *log, struct log_position *ret_position,
                               struct log_error *error) {
    struct spy *spy = spy_of(log);
    enum tn_status status = spy->inner->verbs->lead(spy->inner, ret_position, error);
    if (status != TN_OK) {
        return status;
    }
    if (ret_position->next_lsn <= spy->ledger->lsn_high) {
        snprintf(error->text, sizeof error->text,
                 "LSN %" PRIu64 " would be given again: up to %" PRIu64 " may have been",
                 ret_position->next_lsn, spy->ledger->lsn_high);
        return TN_CORRUPT;
    }
    spy->ledger->next_lsn = ret_position->next_lsn;
    ledger_cut(spy->ledger, spy->result.loaded);
    spy_note(spy);
    return TN_OK;
}

static enum tn_status spy_start(struct log *log, const struct log_follower *follower) {
    struct spy *spy = spy_of(log);
    return spy->inner->verbs->start(spy->inner, follower);
}

static uint64_t spy_batch_max(const struct log *log) {
    const struct log *inner = ((const struct spy *)log)->inner;
    return inner->verbs->batch_max(inner);
}

static void spy_done(void *ctx, enum tn_status status) {
    struct spy *spy = ctx;
    ledger_settle(spy->ledger, status);
    spy_note(spy);
    spy->done(spy->done_ctx, status);
}

static void spy_append(struct log *log, const struct log_batch *batch, log_committed *done,
                       void *ctx) {
    struct spy *spy = spy_of(log);
    if (spy->ledger->tried == spy->ledger->acked) {
        /* Else the LSN would be assigned again. */
        TN_ASSERT(batch->first_lsn > spy->ledger->lsn_high);
        ledger_try(spy->ledger, batch);
    }
    spy_note(spy);
    spy->done = done;
    spy->done_ctx = ctx;
    spy->inner->verbs->append(spy->inner, batch, spy_done, spy);
}

static enum tn_status spy_idle(struct log *log) {
    struct spy *spy = spy_of(log);
    return spy->inner->verbs->idle(spy->inner);
}

static enum tn_status spy_snapshot_begin(struct log_store *store, const struct log_position *at,
                                         struct log_error *error) {
    struct spy *spy = spy_of_store(store);
    spy->at = *at;
    spy->digest = at->lsn;
    return spy->inner_store->verbs->begin(spy->inner_store, at, error);
}

static enum tn_status spy_snapshot_section(struct log_store *store,
                                           const struct log_section *section) {
    struct spy *spy = spy_of_store(store);
    spy->digest = section_digest(spy->digest, section);
    return spy->inner_store->verbs->section(spy->inner_store, section);
}

static enum tn_status spy_snapshot_end(struct log_store *store, struct log_error *error) {
    struct spy *spy = spy_of_store(store);
    snapshot_add(spy->ledger, spy->at.lsn, spy->digest); /* from now on it may appear */
    return spy->inner_store->verbs->end(spy->inner_store, error);
}

static void spy_snapshot_abandon(struct log_store *store) {
    struct spy *spy = spy_of_store(store);
    spy->inner_store->verbs->abandon(spy->inner_store);
}

static uint64_t spy_newest(struct log_store *store) {
    struct spy *spy = spy_of_store(store);
    return spy->inner_store->verbs->newest(spy->inner_store);
}

static void spy_store_stats(struct log_store *store, struct log_stats *ret_stats) {
    struct spy *spy = spy_of_store(store);
    spy->inner_store->verbs->stats(spy->inner_store, ret_stats);
}

static void spy_store_close(struct log_store *store) {
    struct spy *spy = spy_of_store(store);
    spy->inner_store->verbs->close(spy->inner_store);
}

static void spy_stats(struct log *log, struct log_stats *ret_stats) {
    struct spy *spy = spy_of(log);
    spy->inner->verbs->stats(spy->inner, ret_stats);
}

static bool spy_close(struct log *log) {
    struct spy *spy = spy_of(log);
    bool marked = spy->inner->verbs->close(spy->inner);
    free(spy);
    return marked;
}

static const struct log_verbs spy_verbs = {
    .batch_max = spy_batch_max,
    .load = spy_load,
    .start = spy_start,
    .lead = spy_lead,
    .append = spy_append,
    .idle = spy_idle,
    .stats = spy_stats,
    .close = spy_close,
};

static const struct log_store_verbs spy_store_verbs = {
    .newest = spy_newest,
    .load = spy_store_load,
    .begin = spy_snapshot_begin,
    .section = spy_snapshot_section,
    .end = spy_snapshot_end,
    .abandon = spy_snapshot_abandon,
    .stats = spy_store_stats,
    .close = spy_store_close,
};

struct log *ledger_spy_on(struct ledger *ledger, struct tape *tape, struct log *log) {
    struct spy *spy = must(calloc(1, sizeof *spy));
    spy->log.verbs = &spy_verbs;
    spy->store.verbs = &spy_store_verbs;
    spy->inner = log;
    spy->inner_store = log_local_store(log);
    spy->ledger = ledger;
    spy->tape = tape;
    return &spy->log;
}

struct log_store *ledger_spy_store(struct log *spy) {
    return &spy_of(spy)->store;
}

enum tn_status ledger_spy(struct ledger *ledger, struct tape *tape,
                          const struct log_local_options *options, struct log **ret_log,
                          struct log_error *error) {
    struct log *inner = NULL;
    enum tn_status status = log_local_open(options, NULL, NULL, &inner, error);
    if (status == TN_OK) {
        *ret_log = ledger_spy_on(ledger, tape, inner);
    }
    return status;
}
