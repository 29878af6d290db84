/* A log on a fake disk; see logbench.h. */
#include "lib/logbench.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/bytes.h"
#include "base/hash.h"

int logbench_setup(void **state) {
    struct logbench *bench = calloc(1, sizeof *bench);
    assert_non_null(bench);
    bench->fake = fakeos_new(7);
    logmodel_init(&bench->model, 7);
    bench->options = (struct log_local_options){.os = fakeos_table(bench->fake),
                                                .dir = "/data",
                                                .segment_bytes = LOGBENCH_SEGMENT_BYTES,
                                                .sector_bytes = LOGBENCH_SECTOR,
                                                .shard_number = LOGBENCH_SHARD,
                                                .no_background = true};
    *state = bench;
    return 0;
}

int logbench_teardown(void **state) {
    struct logbench *bench = *state;
    logbench_scrap(bench);
    free(bench);
    return 0;
}

void logbench_start(struct logbench *bench) {
    assert_null(bench->log);
    bench->log = logmodel_must_open(&bench->model, &bench->options);
}

void logbench_stop(struct logbench *bench) {
    assert_true(bench->log->verbs->close(bench->log));
    bench->log = NULL;
}

void logbench_die(struct logbench *bench) {
    const struct os *os = fakeos_table(bench->fake);
    uint64_t space;
    fakeos_cut_call(bench->fake, fakeos_calls(bench->fake) + 1);
    (void)os->space_free(os->ctx, bench->options.dir,
                         &space); /* the process dies here, not while it closes the log */
    bench->log->verbs->close(bench->log);
    bench->log = NULL;
    fakeos_restart(bench->fake);
}

void logbench_append(struct logbench *bench, unsigned n, uint32_t len) {
    for (unsigned i = 0; i < n; i++) {
        assert_int_equal(logmodel_append(&bench->model, bench->log, len), TN_OK);
    }
}

const char *logbench_snapshot(struct logbench *bench) {
    struct log_stats stats;
    assert_int_equal(logmodel_snapshot(&bench->model, bench->log), TN_OK);
    logmodel_stats(bench->log, &stats);
    snprintf(bench->snapshot, sizeof bench->snapshot, "/data/snapshot-%016llx.snap",
             (unsigned long long)stats.snapshot_lsn);
    return bench->snapshot;
}

struct logbench logbench_copy(struct logbench *bench, uint64_t seed) {
    struct logbench copy = {.fake = fakeos_copy(bench->fake, seed), .options = bench->options};
    copy.options.os = fakeos_table(copy.fake);
    logmodel_copy(&copy.model, &bench->model);
    return copy;
}

void logbench_scrap(struct logbench *copy) {
    if (copy->log != NULL) {
        copy->log->verbs->close(copy->log);
    }
    logmodel_free(&copy->model);
    fakeos_free(copy->fake);
}

struct log_segment_header logbench_header(struct logbench *bench, const char *path) {
    uint8_t bytes[LOG_SEGMENT_HEADER];
    struct log_segment_header header;
    fakeos_file_read(bench->fake, path, 0, bytes, sizeof bytes);
    assert_int_equal(log_segment_header_decode(bytes, &header), TN_OK);
    return header;
}

void logbench_header_write(struct logbench *bench, const char *path,
                           const struct log_segment_header *header) {
    uint8_t bytes[LOG_SEGMENT_HEADER];
    log_segment_header_encode(header, bytes);
    fakeos_file_write(bench->fake, path, 0, bytes, sizeof bytes);
}

void logbench_forge(struct logbench *bench, const char *path, size_t header, size_t at,
                    uint64_t number, size_t len) {
    uint8_t bytes[LOG_SEGMENT_HEADER];
    assert_in_range(header, at + len + 4, sizeof bytes);
    fakeos_file_read(bench->fake, path, 0, bytes, header);
    memcpy(bytes + at, &number, len);
    tn_store32(bytes + header - 4, tn_crc32c(0, bytes, header - 4));
    fakeos_file_write(bench->fake, path, 0, bytes, header);
}

struct log_frame logbench_frame_next(struct logbench *bench, uint64_t last_at) {
    struct log_segment_header header = logbench_header(bench, LOGBENCH_FIRST);
    const struct log_batch *last = &bench->model.batches[bench->model.count - 1].batch;
    uint8_t bytes[LOGBENCH_SECTOR];
    fakeos_file_read(bench->fake, LOGBENCH_FIRST, last_at, bytes, sizeof bytes);
    return (struct log_frame){
        .kind = LOG_FRAME_MARK,
        .sector_bytes = header.sector_bytes,
        .seq = header.seq,
        .salt = header.salt,
        .first_lsn = last->first_lsn + last->count,
        .now_ms = last->now_ms,
        .chain = log_frame_chain(bytes),
    };
}

void logbench_assert_refused(struct logbench *bench, enum tn_status status, const char *file,
                             const char *word) {
    size_t loaded;
    struct log_error error = {{0}};
    enum tn_status found = logmodel_check(&bench->model, &bench->options, &loaded, &error);
    if (found != status || strstr(error.text, file) == NULL || strstr(error.text, word) == NULL) {
        fail_msg("wanted %s with \"%s\" and \"%s\", got %s: %s", tn_status_name(status), file, word,
                 tn_status_name(found), error.text);
    }
}
