/* A local log that is a copy of another one: LSNs and generations are given, not chosen. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "lib/fakeos.h"
#include "log/local.h"

#define DIR "/data"

struct bench {
    struct fakeos *disk;
    struct log *log;
    struct log_store *store;
    struct log_position at;
    uint64_t loaded, shard; /* the last batch that was loaded */
};

static enum tn_status load_batch(void *ctx, const struct log_batch *batch) {
    struct bench *b = ctx;
    b->loaded = batch->first_lsn + batch->count - 1;
    b->shard = batch->shard;
    return TN_OK;
}

static enum tn_status load_begin(void *ctx, const struct log_position *at) {
    struct bench *b = ctx;
    b->loaded = at->lsn;
    b->shard = at->shard;
    return TN_OK;
}

static enum tn_status load_section(void *ctx, const struct log_section *section) {
    (void)ctx;
    (void)section;
    return TN_OK;
}

static enum tn_status load_end(void *ctx) {
    (void)ctx;
    return TN_OK;
}

static enum tn_status bench_try(struct bench *b, bool begins, struct log_error *error) {
    struct log_loader loader = {.ctx = b,
                                .snapshot_begin = load_begin,
                                .snapshot_section = load_section,
                                .snapshot_end = load_end,
                                .batch = load_batch};
    struct log_local_options options = {.os = fakeos_table(b->disk),
                                        .dir = DIR,
                                        .segment_bytes = 1 << 16,
                                        .no_background = true,
                                        .copy = true,
                                        .copy_begins = begins};
    enum tn_status status = log_local_open(&options, NULL, NULL, &b->log, error);
    assert_int_equal(status, TN_OK);
    b->store = log_local_store(b->log);
    b->loaded = 0;
    status = log_load(b->store, b->log, &loader, &b->at, error);
    if (status == TN_OK) {
        status = b->log->verbs->lead(b->log, &b->at, error);
    }
    return status;
}

static void bench_open(struct bench *b, bool begins) {
    struct log_error error = {.text = ""};
    if (bench_try(b, begins, &error) != TN_OK) {
        fail_msg("%s", error.text);
    }
}

static void on_done(void *ctx, enum tn_status status) {
    *(enum tn_status *)ctx = status;
}

static void append(struct bench *b, uint64_t shard) {
    static const uint8_t payload[8] = {4};
    enum tn_status status = TN_IO;
    struct log_batch batch = {.shard = shard,
                              .first_lsn = b->at.next_lsn,
                              .now_ms = 1000 + b->at.next_lsn,
                              .payload = payload,
                              .len = sizeof payload,
                              .count = 1};
    b->log->verbs->append(b->log, &batch, on_done, &status);
    assert_int_equal(status, TN_OK);
    b->at.next_lsn++;
}

static void bench_crash(struct bench *b) {
    fakeos_cut_call(b->disk, fakeos_calls(b->disk) + 1);
    (void)log_close(b->store, b->log);
    fakeos_reboot(b->disk);
}

static void after_a_crash_a_copy_passes_over_nothing(void **state) {
    struct bench b = {.disk = fakeos_new(1)};
    (void)state;
    bench_open(&b, false);
    append(&b, 0);
    append(&b, 0);
    for (unsigned i = 0; i < 3; i++) {
        bench_crash(&b);
        bench_open(&b, false);
        assert_int_equal(b.loaded, 2 + i);
        assert_int_equal(b.at.next_lsn, 3 + i);
        append(&b, 0);
    }
    bench_crash(&b); /* the other log continues from here: it assigns its own LSNs */
    bench_open(&b, true);
    assert_true(b.at.next_lsn > 6);
    assert_true(log_close(b.store, b.log));
    fakeos_free(b.disk);
}

static void a_batch_may_begin_a_generation(void **state) {
    struct bench b = {.disk = fakeos_new(1)};
    uint64_t generation = (uint64_t)1 << 32;
    struct log_error error;
    (void)state;
    bench_open(&b, false);
    append(&b, 0);
    struct log_position before = {.lsn = 1, .now_ms = 1001};
    append(&b, generation);
    append(&b, generation);
    /* A snapshot may be of the state before. */
    assert_int_equal(b.store->verbs->begin(b.store, &before, &error), TN_OK);
    assert_int_equal(b.store->verbs->end(b.store, &error), TN_OK);
    bench_crash(&b);
    bench_open(&b, false);
    assert_int_equal(b.loaded, 3);
    assert_int_equal(b.shard, generation);
    assert_int_equal(b.at.shard, generation);
    append(&b, generation);
    assert_true(log_close(b.store, b.log));
    fakeos_free(b.disk);
}

/* As it is when a copy begins with the snapshot of another one. */
static void a_snapshot_without_a_log_is_a_beginning(void **state) {
    struct bench b = {.disk = fakeos_new(1)};
    struct log_error error = {.text = ""};
    char name[64];
    (void)state;
    bench_open(&b, false);
    append(&b, 0);
    append(&b, 0);
    struct log_position at = {.lsn = 2, .now_ms = 1002};
    assert_int_equal(b.store->verbs->begin(b.store, &at, &error), TN_OK);
    assert_int_equal(b.store->verbs->end(b.store, &error), TN_OK);
    assert_true(log_close(b.store, b.log));
    for (unsigned seq = 0; seq < 4; seq++) {
        (void)snprintf(name, sizeof name, DIR "/%016x.log", seq);
        if (fakeos_file_exists(b.disk, name)) {
            fakeos_file_remove(b.disk, name);
        }
    }
    assert_int_equal(bench_try(&b, true, &error), TN_CORRUPT); /* not of a log that stands alone */
    (void)log_close(b.store, b.log);
    bench_open(&b, false);
    assert_int_equal(b.loaded, 2);
    assert_int_equal(b.at.next_lsn, 3);
    append(&b, 0);
    bench_crash(&b);
    bench_open(&b, false);
    assert_int_equal(b.loaded, 3);
    assert_true(log_close(b.store, b.log));
    fakeos_free(b.disk);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(after_a_crash_a_copy_passes_over_nothing),
        cmocka_unit_test(a_batch_may_begin_a_generation),
        cmocka_unit_test(a_snapshot_without_a_log_is_a_beginning),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
