/* The model of a log; see logmodel.h. */
#include "lib/logmodel.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/hash.h"

enum { SECTION_HEAD = 1, SECTION_FILLER = 2 };

/* One load in progress. */
struct loading {
    struct logmodel *model;
    size_t count;
    uint64_t lsn;
    bool in_snapshot;
    bool headed;
};

void logmodel_init(struct logmodel *model, uint64_t seed) {
    memset(model, 0, sizeof *model);
    tn_prng_seed(&model->prng, seed);
}

void logmodel_copy(struct logmodel *to, const struct logmodel *from) {
    *to = *from;
    to->capacity = from->count + 1;
    to->batches = calloc(to->capacity, sizeof *to->batches);
    assert_non_null(to->batches);
    for (size_t i = 0; i < from->count; i++) {
        const struct logmodel_batch *batch = &from->batches[i];
        to->batches[i] = *batch;
        to->batches[i].payload = malloc((size_t)batch->batch.len + 1);
        assert_non_null(to->batches[i].payload);
        memcpy(to->batches[i].payload, batch->payload, batch->batch.len);
        to->batches[i].batch.payload = to->batches[i].payload;
    }
}

void logmodel_free(struct logmodel *model) {
    for (size_t i = 0; i < model->count; i++) {
        free(model->batches[i].payload);
    }
    free(model->batches);
}

static uint32_t batch_hash(const struct log_batch *batch, uint32_t before) {
    uint64_t fields[4] = {batch->first_lsn, batch->now_ms, batch->count, batch->len};
    return tn_crc32c(tn_crc32c(before, fields, sizeof fields), batch->payload, batch->len);
}

static uint64_t model_lsn(const struct logmodel *model, size_t count) {
    if (count == 0) {
        return 0;
    }
    const struct log_batch *last = &model->batches[count - 1].batch;
    return last->first_lsn + last->count - 1;
}

static uint64_t model_next(const struct logmodel *model) {
    uint64_t next = model_lsn(model, model->count) + 1;
    return next > model->next_lsn ? next : model->next_lsn;
}

const struct log_batch *logmodel_try(struct logmodel *model, uint32_t len) {
    assert_true(model->count == model->acked);
    if (model->count == model->capacity) {
        model->capacity = model->capacity * 2 + 64;
        model->batches = realloc(model->batches, model->capacity * sizeof *model->batches);
        assert_non_null(model->batches);
    }
    uint64_t now_ms = model->count == 0 ? 0 : model->batches[model->count - 1].batch.now_ms;
    uint32_t hash = model->count == 0 ? 0 : model->batches[model->count - 1].hash;
    struct logmodel_batch *made = &model->batches[model->count];
    made->payload = malloc((size_t)len + 1);
    assert_non_null(made->payload);
    for (uint32_t i = 0; i < len; i += 8) {
        uint8_t bytes[8];
        tn_store64(bytes, tn_prng_next(&model->prng));
        memcpy(made->payload + i, bytes, len - i < 8 ? len - i : 8);
    }
    made->batch = (struct log_batch){
        .first_lsn = model_next(model),
        .now_ms = now_ms + tn_prng_below(&model->prng, 3),
        .payload = made->payload,
        .len = len,
        .count = 1 + (uint32_t)tn_prng_below(&model->prng, 5),
    };
    made->hash = batch_hash(&made->batch, hash);
    model->count += 1;
    return &made->batch;
}

void logmodel_rehash(struct logmodel *model) {
    struct logmodel_batch *last = &model->batches[model->count - 1];
    last->hash = batch_hash(&last->batch, model->count == 1 ? 0 : last[-1].hash);
}

static void model_drop(struct logmodel *model, size_t count) {
    while (model->count > count) {
        model->count -= 1;
        free(model->batches[model->count].payload);
    }
}

static void append_done(void *ctx, enum tn_status status) {
    struct logmodel *model = ctx;
    model->done_status = status;
    model->done_calls += 1;
}

enum tn_status logmodel_append(struct logmodel *model, struct log *log, uint32_t len) {
    const struct log_batch *batch = logmodel_try(model, len);
    unsigned calls = model->done_calls;
    log->verbs->append(log, batch, append_done, model);
    assert_int_equal(model->done_calls, calls + 1);
    if (model->done_status == TN_OK) {
        model->acked = model->count;
    } else if (model->done_status == TN_NOSPACE) {
        model_drop(model, model->acked);
    }
    if (model->done_status != TN_NOSPACE) {
        model->lsn_high = model_lsn(model, model->count);
    }
    return model->done_status;
}

enum tn_status logmodel_append_many(struct logmodel *model, struct log *log, unsigned n,
                                    uint32_t len_max) {
    enum tn_status status = TN_OK;
    for (unsigned i = 0; i < n && status == TN_OK; i++) {
        uint32_t len = (uint32_t)tn_prng_below(&model->prng, (uint64_t)len_max + 1);
        status = logmodel_append(model, log, len);
    }
    return status;
}

static enum tn_status snapshot_sections(struct logmodel *model, struct log *log) {
    uint8_t head[16];
    tn_store64(head, model->acked);
    tn_store32(head + 8, model->acked == 0 ? 0 : model->batches[model->acked - 1].hash);
    tn_store32(head + 12, 0x5eed);
    struct log_section section = {.kind = SECTION_HEAD, .bytes = tn_bytes_of(head, sizeof head)};
    enum tn_status status = log_local_store(log)->verbs->section(log_local_store(log), &section);
    for (uint32_t i = 0; i < 4 && status == TN_OK; i++) {
        uint8_t filler[700];
        memset(filler, (int)i, sizeof filler);
        section = (struct log_section){.kind = SECTION_FILLER,
                                       .bytes = tn_bytes_of(filler, (size_t)i * 200)};
        status = log_local_store(log)->verbs->section(log_local_store(log), &section);
    }
    return status;
}

enum tn_status logmodel_snapshot(struct logmodel *model, struct log *log) {
    struct log_error error = {{0}};
    struct log_position at = {.lsn = model_lsn(model, model->acked), .shard = model->shard};
    at.now_ms = model->acked == 0 ? 0 : model->batches[model->acked - 1].batch.now_ms;
    enum tn_status status = log_local_store(log)->verbs->begin(log_local_store(log), &at, &error);
    if (status != TN_OK) {
        assert_true(error.text[0] != '\0');
        return status;
    }
    status = snapshot_sections(model, log);
    if (status != TN_OK) {
        log_local_store(log)->verbs->abandon(log_local_store(log));
        return status;
    }
    return log_local_store(log)->verbs->end(log_local_store(log), &error);
}

void logmodel_stats(struct log *log, struct log_stats *ret_stats) {
    log->verbs->stats(log, ret_stats);
    log_local_store(log)->verbs->stats(log_local_store(log), ret_stats);
}

static enum tn_status load_snapshot_begin(void *ctx, const struct log_position *at) {
    struct loading *loading = ctx;
    assert_true(loading->count == 0 && !loading->in_snapshot);
    loading->in_snapshot = true;
    loading->lsn = at->lsn;
    return TN_OK;
}

static enum tn_status load_snapshot_section(void *ctx, const struct log_section *section) {
    struct loading *loading = ctx;
    const struct logmodel *model = loading->model;
    assert_true(loading->in_snapshot);
    if (section->kind == SECTION_HEAD) {
        size_t count = (size_t)tn_load64(section->bytes.at);
        assert_true(count <= model->count);
        assert_true(model_lsn(model, count) == loading->lsn);
        assert_int_equal(tn_load32(section->bytes.at + 8),
                         count == 0 ? 0 : model->batches[count - 1].hash);
        loading->count = count;
        loading->headed = true;
    } else {
        assert_int_equal(section->kind, SECTION_FILLER);
    }
    return TN_OK;
}

static enum tn_status load_snapshot_end(void *ctx) {
    struct loading *loading = ctx;
    assert_true(loading->in_snapshot && loading->headed);
    loading->in_snapshot = false;
    return TN_OK;
}

static enum tn_status load_batch(void *ctx, const struct log_batch *batch) {
    struct loading *loading = ctx;
    assert_false(loading->in_snapshot);
    assert_true(loading->count < loading->model->count); /* otherwise the batch was invented */
    const struct log_batch *want = &loading->model->batches[loading->count].batch;
    assert_true(batch->first_lsn == want->first_lsn && batch->now_ms == want->now_ms);
    assert_true(batch->count == want->count && batch->len == want->len);
    assert_true(want->len == 0 || memcmp(batch->payload, want->payload, want->len) == 0);
    loading->count += 1;
    return TN_OK;
}

static void notice_keep(void *ctx, const char *line) {
    struct logmodel *model = ctx;
    model->notices += 1;
    snprintf(model->notice_last, sizeof model->notice_last, "%s", line);
}

static enum tn_status model_load(struct logmodel *model, const struct log_local_options *options,
                                 struct log **ret_log, size_t *ret_loaded, uint64_t *ret_next_lsn,
                                 struct log_error *error) {
    struct log *log = NULL;
    error->text[0] = '\0';
    enum tn_status status = log_local_open(options, notice_keep, model, &log, error);
    if (status != TN_OK) {
        assert_true(error->text[0] != '\0');
        return status;
    }
    struct loading loading = {.model = model};
    struct log_loader loader = {
        .ctx = &loading,
        .snapshot_begin = load_snapshot_begin,
        .snapshot_section = load_snapshot_section,
        .snapshot_end = load_snapshot_end,
        .batch = load_batch,
    };
    struct log_position position = {0};
    status = log_load(log_local_store(log), log, &loader, &position, error);
    if (status == TN_OK && !options->read_only) {
        status = log->verbs->lead(log, &position, error);
    }
    if (status != TN_OK) {
        assert_true(error->text[0] != '\0');
        log->verbs->close(log);
        return status;
    }
    assert_true(position.lsn == model_lsn(model, loading.count));
    assert_true(loading.count == 0 ||
                position.now_ms == model->batches[loading.count - 1].batch.now_ms);
    model->shard = position.shard;
    *ret_log = log;
    *ret_loaded = loading.count;
    *ret_next_lsn = position.next_lsn;
    return TN_OK;
}

enum tn_status logmodel_open(struct logmodel *model, const struct log_local_options *options,
                             struct log **ret_log, struct log_error *error) {
    size_t loaded = 0;
    uint64_t next_lsn = 0;
    enum tn_status status = model_load(model, options, ret_log, &loaded, &next_lsn, error);
    if (status == TN_OK) {
        assert_true(loaded >= model->acked);
        assert_true(options->read_only || next_lsn > model->lsn_high);
        model->next_lsn = next_lsn;
        model_drop(model, loaded);
        model->acked = loaded;
    }
    return status;
}

enum tn_status logmodel_check(struct logmodel *model, const struct log_local_options *options,
                              size_t *ret_loaded, struct log_error *error) {
    struct log *log = NULL;
    uint64_t next_lsn = 0;
    enum tn_status status = model_load(model, options, &log, ret_loaded, &next_lsn, error);
    if (status == TN_OK) {
        log->verbs->close(log);
    }
    return status;
}

struct log *logmodel_must_open(struct logmodel *model, const struct log_local_options *options) {
    struct log *log = NULL;
    struct log_error error;
    enum tn_status status = logmodel_open(model, options, &log, &error);
    if (status != TN_OK) {
        fail_msg("cannot open: %s: %s", tn_status_name(status), error.text);
    }
    return log;
}
