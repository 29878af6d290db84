/* What is around the log: names in its directory, the directory's own place, files that change or cannot
 * be read while they are, snapshots that take many writes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "lib/logbench.h"
#include "log/dir.h"
#include "log/segment.h"

/* -- the directory ------------------------------------------------------------------------------- */

static char synced[LOG_DIR_PATH_MAX];

static enum tn_status sync_dir_keep(void *ctx, const char *path) {
    (void)ctx;
    snprintf(synced, sizeof synced, "%s", path);
    return TN_OK;
}

static void the_directory_is_synced_into_the_one_above_it(void **state) {
    (void)state;
    static const char *const above[][2] = {
        {"data", "."},     {"data/", "."},       {"/data", "/"},      {"//data", "/"},
        {"/a/data", "/a"}, {"/a//data//", "/a"}, {"a/b/data", "a/b"}, {"./data", "."},
    };
    const struct os os = {.sync_dir = sync_dir_keep};
    for (size_t i = 0; i < sizeof above / sizeof above[0]; i++) {
        struct log_dir dir = {.os = &os};
        snprintf(dir.path, sizeof dir.path, "%s", above[i][0]);
        assert_int_equal(log_dir_sync_parent(&dir), TN_OK);
        assert_string_equal(synced, above[i][1]);
    }
}

static void a_path_that_is_none_is_refused(void **state) {
    struct logbench *b = *state;
    static char path[LOG_DIR_PATH_MAX + 1];
    b->options.dir = "";
    logbench_assert_refused(b, TN_INVALID, "data directory", "empty or too long");
    memset(path, 'd', LOG_DIR_PATH_MAX);
    b->options.dir = path;
    logbench_assert_refused(b, TN_INVALID, "data directory", "empty or too long");
}

static enum tn_status sync_dir_denied(void *ctx, const char *path) {
    (void)ctx;
    (void)path;
    return TN_DENIED;
}

/* The parent directory may belong to another user, who has made the directory for us. Our own
 * directory must be synced. */
static void a_directory_in_a_place_that_may_not_be_read_is_its_makers_matter(void **state) {
    struct logbench *b = *state;
    struct os denied = *b->options.os;
    denied.sync_dir = sync_dir_denied;
    struct logbench own = {.options = b->options};
    own.options.os = &denied;
    logmodel_init(&own.model, 1);
    logbench_assert_refused(&own, TN_DENIED, "/data", "cannot make it durable");
    assert_true(fakeos_file_exists(b->fake, "/data")); /* the directory exists, whoever made it */
    own.log = logmodel_must_open(&own.model, &own.options);
    logbench_append(&own, 1, 100);
    logbench_stop(&own);
    logmodel_free(&own.model);
}

static void file_make(struct logbench *b, const char *path) {
    const struct os *os = b->options.os;
    int file;
    assert_int_equal(os->open(os->ctx, path, OS_WRITE | OS_CREATE, &file), TN_OK);
    assert_int_equal(os->write_at(os->ctx, file, "not ours", 8, 0), TN_OK);
    assert_int_equal(os->close(os->ctx, file), TN_OK);
}

static void names_that_are_almost_ours_are_left_alone(void **state) {
    struct logbench *b = *state;
    static const char *const names[] = {
        "/data/1.log",
        "/data/000000000000001F.log",
        "/data/0000000000000000.log",
        "/data/0000000000000002.log.bak",
        "/data/snapshot-1.snap",
        "/data/snapshot-0000000000000001.sna",
        "/data/spare-01.log",
        "/data/spare-0x1.tmp",
        "/data/+000000000000002.log",
    };
    logbench_start(b);
    logbench_append(b, 1, 100);
    logbench_stop(b);
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        file_make(b, names[i]);
    }
    logbench_start(b);
    assert_int_equal(b->model.acked, 1);
    logbench_append(b, 4, 40000);
    logbench_snapshot(b);
    logbench_stop(b);
    char bytes[8];
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        fakeos_file_read(b->fake, names[i], 0, bytes, sizeof bytes);
        assert_memory_equal(bytes, "not ours", sizeof bytes);
    }
}

/* No number follows it, so the log does not count from it; it is not one of our spares, and is
 * removed. */
static void a_spare_with_the_largest_number_is_cleared_away(void **state) {
    struct logbench *b = *state;
    logbench_start(b);
    logbench_stop(b);
    file_make(b, "/data/spare-18446744073709551615.log");
    logbench_start(b);
    assert_false(fakeos_file_exists(b->fake, "/data/spare-18446744073709551615.log"));
    logbench_append(b, 3, 40000);
    logbench_stop(b);
    logbench_start(b);
    assert_int_equal(b->model.acked, 3);
}

/* -- reading only -------------------------------------------------------------------------------- */

static void a_reader_needs_no_lock_file(void **state) {
    struct logbench *b = *state;
    const struct os *os = b->options.os;
    assert_int_equal(os->make_dir(os->ctx, "/data"), TN_OK);
    b->options.read_only = true;
    size_t loaded = 9;
    struct log_error error;
    assert_int_equal(logmodel_check(&b->model, &b->options, &loaded, &error), TN_OK);
    assert_int_equal(loaded, 0);
    /* But one that it may not read could say that there was a log. */
    uint64_t calls = fakeos_calls(b->fake);
    assert_int_equal(logmodel_check(&b->model, &b->options, &loaded, &error), TN_OK);
    uint64_t each = fakeos_calls(b->fake) - calls;
    unsigned refused = 0;
    for (uint64_t call = 1; call <= each; call++) {
        fakeos_fail_call(b->fake, fakeos_calls(b->fake) + call, TN_DENIED);
        enum tn_status status = logmodel_check(&b->model, &b->options, &loaded, &error);
        assert_int_equal(status, TN_DENIED);
        refused += strstr(error.text, "/data/lock: cannot be read") != NULL;
    }
    assert_int_equal(refused, 1);
}

static void a_reader_writes_no_mark(void **state) {
    struct logbench *b = *state;
    logbench_start(b);
    logbench_append(b, 2, 100);
    logbench_die(b);
    b->options.read_only = true;
    logbench_start(b);
    uint64_t calls = fakeos_calls(b->fake);
    assert_int_equal(b->log->verbs->idle(b->log), TN_OK);
    assert_int_equal(fakeos_calls(b->fake), calls);
    logbench_stop(b);
    b->options.read_only = false;
    logbench_start(b);
    assert_non_null(strstr(b->model.notice_last, "event=log_tail_rewritten"));
}

/* -- files that change while they are read ------------------------------------------------------- */

/* Reads beyond this offset of a file find its end, as if it had been cut meanwhile. */
static const struct os *short_from;
static uint64_t short_at;

static enum tn_status short_read(void *ctx, int file, void *out, size_t len, uint64_t offset,
                                 size_t *ret_got) {
    if (offset + len > short_at) {
        len = offset < short_at ? (size_t)(short_at - offset) : 0;
    }
    return short_from->read_at(ctx, file, out, len, offset, ret_got);
}

static void a_file_that_becomes_shorter_while_it_is_read_is_refused(void **state) {
    struct logbench *b = *state;
    logbench_start(b);
    logbench_append(b, 2, 100);
    logbench_stop(b);
    short_from = b->options.os;
    struct os shorter = *short_from;
    shorter.read_at = short_read;
    struct logbench reader = {.options = b->options, .model = b->model};
    reader.options.os = &shorter;
    short_at = LOG_SEGMENT_HEADER + 100;
    logbench_assert_refused(&reader, TN_CORRUPT, LOGBENCH_FIRST, "the file became shorter");
    short_at = 100;
    logbench_assert_refused(&reader, TN_CORRUPT, LOGBENCH_FIRST, "header at offset 0 is damaged");
}

/* -- snapshots that take many writes and reads --------------------------------------------------- */

struct sections {
    unsigned count;
    uint64_t bytes;
    bool ended;
};

static enum tn_status section_begin(void *ctx, const struct log_position *at) {
    (void)at;
    *(struct sections *)ctx = (struct sections){0};
    return TN_OK;
}

static enum tn_status section_count(void *ctx, const struct log_section *section) {
    struct sections *sections = ctx;
    for (uint32_t i = 0; i < section->bytes.len; i++) {
        assert_int_equal(section->bytes.at[i], section->kind);
    }
    sections->count += 1;
    sections->bytes += section->bytes.len;
    return TN_OK;
}

static enum tn_status section_end(void *ctx) {
    ((struct sections *)ctx)->ended = true;
    return TN_OK;
}

static enum tn_status batch_ignore(void *ctx, const struct log_batch *batch) {
    (void)ctx;
    (void)batch;
    return TN_OK;
}

/* Opens and loads; b->log is the log if that succeeds. */
static enum tn_status sections_start(struct logbench *b, struct sections *ret_sections,
                                     struct log_error *error) {
    struct log_loader loader = {.ctx = ret_sections,
                                .snapshot_begin = section_begin,
                                .snapshot_section = section_count,
                                .snapshot_end = section_end,
                                .batch = batch_ignore};
    struct log *log = NULL;
    struct log_position position;
    *ret_sections = (struct sections){0};
    enum tn_status status = log_local_open(&b->options, NULL, NULL, &log, error);
    if (status != TN_OK) {
        return status;
    }
    status = log_load(log_local_store(log), log, &loader, &position, error);
    if (status == TN_OK && !b->options.read_only) {
        status = log->verbs->lead(log, &position, error);
    }
    if (status == TN_OK) {
        b->log = log;
    } else {
        log->verbs->close(log);
    }
    return status;
}

static enum tn_status sections_load(struct logbench *b, struct sections *ret_sections,
                                    struct log_error *error) {
    enum tn_status status = sections_start(b, ret_sections, error);
    if (status == TN_OK) {
        b->log->verbs->close(b->log);
        b->log = NULL;
    }
    return status;
}

/* Sections of these sizes, each filled with its number. */
static enum tn_status sections_write(struct logbench *b, uint64_t lsn, const uint32_t *lens,
                                     unsigned count) {
    static uint8_t bytes[LOG_SECTION_MAX];
    struct log_error error;
    struct log_position at = {.lsn = lsn, .shard = b->model.shard};
    enum tn_status status =
        log_local_store(b->log)->verbs->begin(log_local_store(b->log), &at, &error);
    for (unsigned i = 0; i < count && status == TN_OK; i++) {
        memset(bytes, (int)i + 1, lens[i]);
        struct log_section section = {.kind = i + 1, .bytes = tn_bytes_of(bytes, lens[i])};
        status = log_local_store(b->log)->verbs->section(log_local_store(b->log), &section);
    }
    if (status == TN_OK) {
        return log_local_store(b->log)->verbs->end(log_local_store(b->log), &error);
    }
    log_local_store(b->log)->verbs->abandon(log_local_store(b->log));
    return status;
}

static uint64_t model_lsn(const struct logbench *b) {
    const struct log_batch *last = &b->model.batches[b->model.count - 1].batch;
    return last->first_lsn + last->count - 1;
}

static void a_snapshot_that_ends_within_a_batch_is_refused(void **state) {
    struct logbench *b = *state;
    logbench_start(b);
    while (b->model.count == 0 || b->model.batches[b->model.count - 1].batch.count < 2) {
        logbench_append(b, 1, 100);
    }
    uint32_t len = 10;
    assert_int_equal(sections_write(b, model_lsn(b) - 1, &len, 1), TN_OK);
    logbench_stop(b);
    struct sections sections;
    struct log_error error;
    assert_int_equal(sections_load(b, &sections, &error), TN_CORRUPT);
    assert_non_null(strstr(error.text, LOGBENCH_FIRST));
    assert_non_null(strstr(error.text, "only partly in the snapshot"));
}

static void a_snapshot_that_becomes_shorter_while_it_is_read_is_refused(void **state) {
    struct logbench *b = *state;
    logbench_start(b);
    logbench_append(b, 1, 100);
    uint32_t len = 2 * LOGBENCH_SEGMENT_BYTES;
    assert_int_equal(sections_write(b, model_lsn(b), &len, 1), TN_OK);
    logbench_stop(b);
    short_from = b->options.os;
    struct os shorter = *short_from;
    shorter.read_at = short_read;
    short_at = LOGBENCH_SEGMENT_BYTES; /* no segment is longer */
    struct logbench reader = {.options = b->options};
    reader.options.os = &shorter;
    struct sections sections;
    struct log_error error;
    assert_int_equal(sections_load(&reader, &sections, &error), TN_CORRUPT);
    assert_non_null(strstr(error.text, "/data/snapshot-"));
    assert_non_null(strstr(error.text, "the file ends early"));
    assert_int_equal(sections_load(b, &sections, &error), TN_OK);
}

/* Header, section header and footer are 64, 12 and 32 bytes: the footer may be a write, and a read,
 * of its own, or the last write may be full. */
static void snapshots_of_every_awkward_size_come_back(void **state) {
    struct logbench *b = *state;
    const uint32_t half = 512u << 10, most = LOG_SECTION_MAX;
    const uint32_t lens[][2] = {
        {half - 64 - 24 - 32, 0}, /* exactly one buffer */
        {half - 64 - 24, 0},      /* and the footer */
        {half - 64 - 24 - 16, 0}, /* the footer in two parts */
        /* The amount that the reader reads at once, and the footer. */
        {most, 2 * most - 64 - 24 - most},
        {most, most},
    };
    logbench_start(b);
    for (unsigned i = 0; i < sizeof lens / sizeof lens[0]; i++) {
        logbench_append(b, 1, 100);
        assert_int_equal(sections_write(b, model_lsn(b), lens[i], 2), TN_OK);
        logbench_stop(b);
        struct sections sections;
        struct log_error error;
        assert_int_equal(sections_start(b, &sections, &error), TN_OK);
        assert_true(sections.ended && sections.count == 2);
        assert_int_equal(sections.bytes, lens[i][0] + lens[i][1]);
    }
}

/* Every call fails once during a snapshot; the log continues. */
static void a_large_snapshot_that_cannot_be_written_is_refused(void **state) {
    struct logbench *b = *state;
    const uint32_t lens[] = {LOG_SECTION_MAX, LOG_SECTION_MAX, LOG_SECTION_MAX};
    logbench_start(b);
    logbench_append(b, 1, 100);
    enum tn_status status = TN_IO;
    unsigned refused = 0;
    for (uint64_t call = 1; status != TN_OK; call++) {
        fakeos_fail_call(b->fake, fakeos_calls(b->fake) + call, TN_IO);
        status = sections_write(b, model_lsn(b), lens, 3);
        fakeos_fail_call(b->fake, 0, TN_OK);
        struct log_stats stats;
        logmodel_stats(b->log, &stats);
        assert_int_equal(stats.snapshots, status == TN_OK ? 1 : 0);
        assert_true(status == TN_OK || status == TN_IO);
        refused += status != TN_OK;
        logbench_append(b, 1, 100);
    }
    assert_true(refused >= 10); /* open, seven writes, sync, close, name, directory */
}

/* Every call of a start. In the second one only the footer is left for the last read. */
static void a_large_snapshot_that_cannot_be_read_is_refused_by_name(void **state) {
    struct logbench *b = *state;
    const uint32_t lens[] = {LOG_SECTION_MAX, LOG_SECTION_MAX - 88, LOG_SECTION_MAX};
    logbench_start(b);
    for (unsigned count = 3; count >= 2; count--) {
        logbench_append(b, 1, 100);
        assert_int_equal(sections_write(b, model_lsn(b), lens, count), TN_OK);
        logbench_stop(b);
        struct sections sections;
        struct log_error error;
        unsigned named = 0;
        bool more = true;
        for (uint64_t call = 1; more; call++) {
            struct logbench copy = logbench_copy(b, call);
            fakeos_fail_call(copy.fake, call, TN_IO);
            enum tn_status status = sections_load(&copy, &sections, &error);
            more = fakeos_fault_name(copy.fake)[0] != '\0';
            assert_true(status == TN_OK || status == TN_IO);
            assert_true(status != TN_OK || (sections.ended && sections.count == count));
            named += status == TN_IO && strstr(error.text, ".snap: cannot be read") != NULL;
            logbench_scrap(&copy);
        }
        assert_true(named >= 7); /* twice open, size and header; once more for the rest */
        assert_int_equal(sections_start(b, &sections, &error), TN_OK);
    }
}

/* -- starts that fail ---------------------------------------------------------------------------- */

/* A snapshot restored alone: the traces of the log before it are taken out first. */
static void a_restore_that_fails_anywhere_can_be_tried_again(void **state) {
    struct logbench *b = *state;
    logbench_start(b);
    logbench_append(b, 2, 100);
    logbench_snapshot(b);
    logbench_stop(b);
    fakeos_file_remove(b->fake, LOGBENCH_FIRST);
    b->options.restored = true;
    bool more = true;
    for (uint64_t call = 1; more; call++) {
        struct logbench copy = logbench_copy(b, call);
        size_t loaded = 0;
        struct log_error error;
        fakeos_fail_call(copy.fake, call, TN_IO);
        enum tn_status status = logmodel_check(&copy.model, &copy.options, &loaded, &error);
        more = fakeos_fault_name(copy.fake)[0] != '\0';
        assert_true(status == TN_OK || strstr(error.text, "/data") != NULL);
        fakeos_restart(copy.fake);
        copy.options.restored = !fakeos_file_exists(copy.fake, LOGBENCH_FIRST);
        logbench_start(&copy);
        assert_int_equal(copy.model.acked, 2);
        logbench_append(&copy, 1, 100);
        logbench_scrap(&copy);
    }
}

/* A retired file that could not be opened at once is opened when it is needed; if that is not possible
 * either, the append is refused, and the next one takes another. */
static void a_spare_that_cannot_be_opened_refuses_and_is_replaced(void **state) {
    struct logbench *b = *state;
    unsigned refused = 0;
    for (uint64_t call = 1; call < 40; call++) {
        struct logbench copy = logbench_copy(b, call);
        logbench_start(&copy);
        for (unsigned i = 0; i < 2; i++) {
            logbench_append(&copy, 2, 40000);
            logbench_snapshot(&copy);
        }
        logbench_append(&copy, 1, 40000);
        fakeos_fail_call(copy.fake, fakeos_calls(copy.fake) + call, TN_NOMEM);
        if (logmodel_snapshot(&copy.model, copy.log) == TN_OK &&
            strcmp(fakeos_fault_name(copy.fake), "open") == 0) {
            fakeos_fail_call(copy.fake, fakeos_calls(copy.fake) + 2, TN_NOMEM);
            enum tn_status status = logmodel_append(&copy.model, copy.log, 40000);
            refused += status == TN_NOSPACE;
            logbench_append(&copy, 3, 40000);
            logbench_stop(&copy);
            logbench_start(&copy);
        }
        logbench_scrap(&copy);
    }
    assert_true(refused > 0);
}

#define BENCH_TEST(test) cmocka_unit_test_setup_teardown(test, logbench_setup, logbench_teardown)

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_directory_is_synced_into_the_one_above_it),
        BENCH_TEST(a_path_that_is_none_is_refused),
        BENCH_TEST(a_directory_in_a_place_that_may_not_be_read_is_its_makers_matter),
        BENCH_TEST(names_that_are_almost_ours_are_left_alone),
        BENCH_TEST(a_spare_with_the_largest_number_is_cleared_away),
        BENCH_TEST(a_reader_needs_no_lock_file),
        BENCH_TEST(a_reader_writes_no_mark),
        BENCH_TEST(a_file_that_becomes_shorter_while_it_is_read_is_refused),
        BENCH_TEST(a_snapshot_that_ends_within_a_batch_is_refused),
        BENCH_TEST(a_snapshot_that_becomes_shorter_while_it_is_read_is_refused),
        BENCH_TEST(snapshots_of_every_awkward_size_come_back),
        BENCH_TEST(a_large_snapshot_that_cannot_be_written_is_refused),
        BENCH_TEST(a_large_snapshot_that_cannot_be_read_is_refused_by_name),
        BENCH_TEST(a_restore_that_fails_anywhere_can_be_tried_again),
        BENCH_TEST(a_spare_that_cannot_be_opened_refuses_and_is_replaced),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
