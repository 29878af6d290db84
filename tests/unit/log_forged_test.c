/* Files that verify and yet are not what the log wrote: each is refused with the name of its file and
 * what is wrong, or costs nothing. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/bytes.h"
#include "base/hash.h"
#include "lib/logbench.h"
#include "log/frame.h"
#include "log/segment.h"

#define HEADER LOG_SEGMENT_HEADER
#define SNAPSHOT_FOOTER 32u

/* -- headers ------------------------------------------------------------------------------------- */

static void a_header_with_impossible_numbers_is_refused(void **state) {
    struct logbench *b = *state;
    logbench_start(b);
    logbench_append(b, 1, 100);
    logbench_stop(b);
    static const struct {
        size_t at, len;
        uint64_t number;
    } forged[] = {
        {8, 4, 0},                          /* a version before the first */
        {16, 8, 0},                         /* no number */
        {24, 8, LOG_SEGMENT_BYTES_MIN - 1}, /* sizes */
        {24, 8, LOG_SEGMENT_BYTES_MIN + 512},
        {24, 8, (uint64_t)LOG_SEGMENT_BYTES_MAX + HEADER},
        {40, 8, 0}, /* LSNs begin at 1 */
    };
    for (size_t i = 0; i < sizeof forged / sizeof forged[0]; i++) {
        struct logbench copy = logbench_copy(b, i);
        logbench_forge(&copy, LOGBENCH_FIRST, HEADER, forged[i].at, forged[i].number,
                       forged[i].len);
        logbench_assert_refused(&copy, TN_CORRUPT, LOGBENCH_FIRST, "header at offset 0 is damaged");
        logbench_scrap(&copy);
    }
}

static void a_header_whose_time_or_generation_goes_back_is_refused(void **state) {
    struct logbench *b = *state;
    b->options.restored = true;
    logbench_start(b);
    logbench_append(b, 1, 100);
    logbench_stop(b);
    logbench_start(b); /* of the next generation, with a segment of its own */
    b->options.restored = false;
    logbench_append(b, 9, 100);
    logbench_append(b, 2, 40000);
    logbench_stop(b);
    const char *last = "/data/0000000000000003.log";
    const struct log_segment_header header = logbench_header(b, last);
    struct log_segment_header back = header;
    assert_true(header.now_ms > 0 && header.shard >> 32 == 1);
    back.now_ms = 0;
    logbench_header_write(b, last, &back);
    logbench_assert_refused(b, TN_CORRUPT, last, "goes back in LSN or time");
    back = header;
    back.shard = LOGBENCH_SHARD;
    logbench_header_write(b, last, &back);
    logbench_assert_refused(b, TN_CORRUPT, last, "another shard");
    logbench_header_write(b, last, &header);
    logbench_start(b);
}

static void sizes_of_segments_have_bounds(void **state) {
    (void)state;
    assert_int_equal(log_segment_bytes(0), LOG_SEGMENT_BYTES_DEFAULT);
    assert_int_equal(log_segment_bytes(1), LOG_SEGMENT_BYTES_MIN);
    assert_int_equal(log_segment_bytes(LOG_SEGMENT_BYTES_MIN + 1), LOG_SEGMENT_BYTES_MIN + HEADER);
    assert_int_equal(log_segment_bytes(UINT64_MAX), LOG_SEGMENT_BYTES_MAX);
}

/* -- frames -------------------------------------------------------------------------------------- */

static void frame_put(struct logbench *b, const struct log_frame *frame, uint64_t at) {
    static uint8_t bytes[LOGBENCH_SEGMENT_BYTES];
    size_t size = log_frame_encode(frame, bytes);
    fakeos_file_write(b->fake, LOGBENCH_FIRST, at, bytes, size);
}

/* A frame with LSNs beyond the largest number is not valid: the log ends before it. */
static void a_frame_whose_lsns_overflow_is_none(void **state) {
    struct logbench *b = *state;
    logbench_start(b);
    logbench_append(b, 2, 100);
    logbench_die(b);
    struct log_frame frame = logbench_frame_next(b, HEADER + 512);
    frame.first_lsn = UINT64_MAX;
    frame.kind = LOG_FRAME_BATCH;
    frame.count = 2;
    frame_put(b, &frame, HEADER + 1024);
    logbench_start(b);
    assert_int_equal(b->model.acked, 2);
}

/* Batches are missing where the next segment says that they were: a mark does not excuse that. */
static void a_mark_in_a_segment_that_goes_on_is_refused(void **state) {
    struct logbench *b = *state;
    logbench_start(b);
    logbench_append(b, 2, 100);
    struct log_frame mark = logbench_frame_next(b, HEADER + 512);
    logbench_append(b, 1, 40000);
    logbench_append(b, 1, 40000);
    logbench_stop(b);
    assert_true(fakeos_file_exists(b->fake, LOGBENCH_SECOND));
    frame_put(b, &mark, HEADER + 1024);
    logbench_assert_refused(b, TN_CORRUPT, LOGBENCH_FIRST, "a mark where the next segment expects");
}

/* Nobody leaves a segment without room for a mark, but a batch that does so is whole and counts. */
static void a_batch_up_to_the_last_byte_of_its_segment_is_read_and_written_again(void **state) {
    struct logbench *b = *state;
    logbench_start(b);
    logbench_append(b, 2, 100);
    logbench_die(b);
    struct log_frame frame = logbench_frame_next(b, HEADER + 512);
    uint32_t room = LOGBENCH_SEGMENT_BYTES - HEADER - 1024;
    const struct log_batch *batch = logmodel_try(&b->model, room - LOG_FRAME_HEADER);
    frame.now_ms = batch->now_ms;
    frame.kind = LOG_FRAME_BATCH;
    frame.count = batch->count;
    frame.len = batch->len;
    frame.payload = batch->payload;
    frame_put(b, &frame, HEADER + 1024);
    logbench_start(b);
    assert_int_equal(b->model.acked, 3);
    assert_non_null(strstr(b->model.notice_last, "event=log_tail_rewritten"));
    logbench_append(b, 1, 100);
    logbench_stop(b);
    logbench_start(b);
    assert_int_equal(b->model.acked, 4);
}

/* In an older segment the end may be cut off, but not in the middle of what the next one builds on. */
static void a_segment_that_ends_within_a_sector_is_refused(void **state) {
    struct logbench *b = *state;
    logbench_start(b);
    logbench_append(b, 3, 100);
    logbench_append(b, 2, 40000);
    logbench_stop(b);
    assert_true(fakeos_file_exists(b->fake, LOGBENCH_SECOND));
    fakeos_file_resize(b->fake, LOGBENCH_FIRST, HEADER + 1024 + 100);
    logbench_assert_refused(b, TN_CORRUPT, LOGBENCH_FIRST, "which was synced, at offset 5120");
}

/* A log whose newest segment was recycled, with three batches in it; returns its path. */
static const char *recycled(struct logbench *b) {
    static char path[64];
    logbench_start(b);
    for (unsigned i = 0; i < 4; i++) {
        logbench_append(b, 2, 40000);
        logbench_snapshot(b);
    }
    logbench_append(b, 1, 40000);
    logbench_append(b, 2, 100);
    snprintf(path, sizeof path, "/data/%016x.log", 9);
    logbench_die(b);
    assert_true(logbench_header(b, path).flags & LOG_SEGMENT_RECYCLED);
    return path;
}

/* Among the bytes of an earlier life a torn batch is recognized by any remaining part of its
 * header. */
static void a_torn_batch_in_a_recycled_segment_is_told_by_any_of_its_marks(void **state) {
    struct logbench *b = *state;
    const char *path = recycled(b);
    uint64_t last = HEADER + log_frame_size(40000, LOGBENCH_SECTOR) + 512;
    static const uint8_t garbage[16] = {1, 2, 3};
    for (unsigned left = 0; left < 4; left++) {
        struct logbench copy = logbench_copy(b, left);
        copy.model.acked = b->model.acked - 1;
        if (left > 0) {
            fakeos_file_write(copy.fake, path, last + 8, garbage, left > 1 ? 16 : 8);
        }
        if (left > 2) {
            fakeos_file_write(copy.fake, path, last + 24, garbage, 8);
        }
        fakeos_file_flip(copy.fake, path, last + 100, 0);
        logbench_start(&copy);
        assert_int_equal(copy.model.acked, b->model.acked - 1);
        struct log_stats stats;
        logmodel_stats(copy.log, &stats);
        assert_int_equal(stats.torn_tail_bytes, left < 3 ? LOGBENCH_SECTOR : 0);
        logbench_scrap(&copy);
    }
}

/* -- headers in the wrong place ------------------------------------------------------------------ */

/* The disk writes the beginning of a new segment over the end of the one in use, and the power goes
 * before the new one has its name. */
static void a_new_segment_over_the_end_of_the_old_one_is_refused(void **state) {
    struct logbench *b = *state;
    static uint8_t bytes[HEADER + 54272];
    logbench_start(b);
    logbench_append(b, 6, 100);
    logbench_append(b, 4, 1200);
    logbench_append(b, 2, 100);
    const uint64_t end = HEADER + 6 * 512 + 4 * 1536 + 2 * 512;
    struct logbench before = logbench_copy(b, 1);
    logbench_append(b, 1, 54000); /* for which there is no room */
    fakeos_file_read(b->fake, LOGBENCH_SECOND, 0, bytes, sizeof bytes);
    for (uint64_t at = HEADER; at <= end + 1024; at += LOGBENCH_SECTOR) {
        struct logbench copy = logbench_copy(&before, at);
        size_t room = (size_t)(LOGBENCH_SEGMENT_BYTES - at);
        fakeos_file_write(copy.fake, LOGBENCH_FIRST, at, bytes,
                          sizeof bytes < room ? sizeof bytes : room);
        if (at < end) {
            logbench_assert_refused(&copy, TN_CORRUPT, LOGBENCH_FIRST,
                                    "the header of the next segment over it");
        } else { /* nothing was there yet */
            logbench_start(&copy);
            assert_int_equal(copy.model.acked, before.model.acked);
        }
        logbench_scrap(&copy);
    }
    logbench_scrap(&before);
}

/* The least that such a header can prove: one command is missing. */
static void a_stray_header_over_one_lost_command_is_seen(void **state) {
    struct logbench *b = *state;
    logbench_start(b);
    logbench_append(b, 1, 100);
    while (b->model.batches[b->model.count - 1].batch.count != 1) {
        logbench_append(b, 1, 100);
    }
    logbench_die(b);
    struct log_segment_header stray = logbench_header(b, LOGBENCH_FIRST);
    stray.before_salt = stray.salt;
    stray.salt ^= 1;
    stray.seq = 2;
    stray.first_lsn = b->model.batches[b->model.count - 1].batch.first_lsn + 1;
    uint8_t bytes[HEADER];
    log_segment_header_encode(&stray, bytes);
    fakeos_file_write(b->fake, LOGBENCH_FIRST, HEADER + (b->model.count - 1) * 512, bytes,
                      sizeof bytes);
    for (unsigned check = 0; check < 2; check++) {
        b->options.read_only = check == 0;
        logbench_assert_refused(b, TN_CORRUPT, LOGBENCH_FIRST,
                                "the header of the next segment over it");
    }
}

/* A client may send bytes that look like a header, but it does not know the salt to put into
 * them. */
static void a_header_inside_a_torn_payload_is_not_a_header(void **state) {
    struct logbench *b = *state;
    static const uint8_t zeros[LOGBENCH_SECTOR];
    logbench_start(b);
    logbench_append(b, 1, 100);
    logbench_append(b, 1, 8000);
    logbench_die(b);
    struct log_segment_header forged = logbench_header(b, LOGBENCH_FIRST);
    forged.seq = 2;
    forged.first_lsn = 1000;
    forged.before_salt = 0x1234;
    uint8_t bytes[HEADER];
    log_segment_header_encode(&forged, bytes);
    b->model.acked = 1;
    fakeos_file_write(b->fake, LOGBENCH_FIRST, HEADER + 1024, bytes, sizeof bytes);
    fakeos_file_write(b->fake, LOGBENCH_FIRST, HEADER + 512, zeros, sizeof zeros);
    struct logbench copy = logbench_copy(b, 1);
    logbench_start(&copy);
    assert_int_equal(copy.model.acked, 1);
    logbench_scrap(&copy);
    forged.before_salt = logbench_header(b, LOGBENCH_FIRST).salt;
    log_segment_header_encode(&forged, bytes);
    fakeos_file_write(b->fake, LOGBENCH_FIRST, HEADER + 1024, bytes, sizeof bytes);
    logbench_assert_refused(b, TN_CORRUPT, LOGBENCH_FIRST, "over it at offset 5120");
}

/* -- snapshots ----------------------------------------------------------------------------------- */

static void a_footer_that_does_not_fit_its_sections_is_refused(void **state) {
    struct logbench *b = *state;
    logbench_start(b);
    logbench_append(b, 2, 100);
    const char *path = logbench_snapshot(b);
    logbench_stop(b);
    uint64_t at = fakeos_file_size(b->fake, path) - SNAPSHOT_FOOTER;
    uint8_t footer[SNAPSHOT_FOOTER];
    static const size_t fields[] = {8, 16, 24}; /* sections, size, checksum of the checksums */
    for (size_t i = 0; i < sizeof fields / sizeof fields[0]; i++) {
        struct logbench copy = logbench_copy(b, i);
        fakeos_file_read(copy.fake, path, at, footer, sizeof footer);
        footer[fields[i]] ^= 1;
        tn_store32(footer + 28, tn_crc32c(0, footer, 28));
        fakeos_file_write(copy.fake, path, at, footer, sizeof footer);
        logbench_assert_refused(&copy, TN_CORRUPT, path, "the footer is damaged");
        logbench_scrap(&copy);
    }
}

static void a_snapshot_of_another_place_is_refused(void **state) {
    struct logbench *b = *state;
    logbench_start(b);
    logbench_append(b, 2, 100);
    const char *path = logbench_snapshot(b);
    logbench_stop(b);
    struct logbench copy = logbench_copy(b, 1);
    logbench_forge(&copy, path, LOGBENCH_SNAPSHOT_HEADER, 16, 1, 8);
    logbench_assert_refused(&copy, TN_CORRUPT, path, "LSN is not that of the file's name");
    logbench_scrap(&copy);
    logbench_forge(b, path, LOGBENCH_SNAPSHOT_HEADER, 32, LOGBENCH_SHARD + 1, 8);
    logbench_assert_refused(b, TN_CORRUPT, path, "belong to different shards");
}

#define BENCH_TEST(test) cmocka_unit_test_setup_teardown(test, logbench_setup, logbench_teardown)

int main(void) {
    const struct CMUnitTest tests[] = {
        BENCH_TEST(a_header_with_impossible_numbers_is_refused),
        BENCH_TEST(a_header_whose_time_or_generation_goes_back_is_refused),
        cmocka_unit_test(sizes_of_segments_have_bounds),
        BENCH_TEST(a_frame_whose_lsns_overflow_is_none),
        BENCH_TEST(a_mark_in_a_segment_that_goes_on_is_refused),
        BENCH_TEST(a_batch_up_to_the_last_byte_of_its_segment_is_read_and_written_again),
        BENCH_TEST(a_segment_that_ends_within_a_sector_is_refused),
        BENCH_TEST(a_torn_batch_in_a_recycled_segment_is_told_by_any_of_its_marks),
        BENCH_TEST(a_new_segment_over_the_end_of_the_old_one_is_refused),
        BENCH_TEST(a_stray_header_over_one_lost_command_is_seen),
        BENCH_TEST(a_header_inside_a_torn_payload_is_not_a_header),
        BENCH_TEST(a_footer_that_does_not_fit_its_sections_is_refused),
        BENCH_TEST(a_snapshot_of_another_place_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
