/* Physical sectors: what the loss of one costs, and that no LSN is given again after such a loss. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "lib/logbench.h"

#define SECTOR 4096u
#define PASSED_OVER \
    (LOGBENCH_SEGMENT_BYTES / 4) /* skipped by a start: more commands do not fit in a segment */

static const uint8_t zeros[SECTOR];

/* A bench with the sectors that a log has outside of tests. */
static int setup(void **state) {
    int rc = logbench_setup(state);
    struct logbench *b = *state;
    b->options.sector_bytes = 0;
    fakeos_physical_set(b->fake, SECTOR);
    return rc;
}

static uint64_t last_lsn(const struct logbench *b) {
    const struct log_batch *last = &b->model.batches[b->model.count - 1].batch;
    return last->first_lsn + last->count - 1;
}

static void newest(struct logbench *b, char path[64]) {
    unsigned seq = 1;
    do {
        snprintf(path, 64, "/data/%016x.log", ++seq);
    } while (fakeos_file_exists(b->fake, path));
    snprintf(path, 64, "/data/%016x.log", seq - 1);
}

static void a_frame_has_its_sectors_to_itself(void **state) {
    struct logbench *b = *state;
    uint8_t before[SECTOR];
    uint8_t after[SECTOR];
    logbench_start(b);
    for (unsigned i = 0; i < 6; i++) {
        uint64_t at = LOG_SEGMENT_HEADER + (uint64_t)i * SECTOR;
        logbench_append(b, 1, 10);
        fakeos_file_read(b->fake, LOGBENCH_FIRST, at, before, SECTOR);
        assert_memory_equal(before + 60, "BTCH", 4);
        if (i % 2 == 0) {
            assert_int_equal(b->log->verbs->idle(b->log), TN_OK);
        }
        uint8_t next[SECTOR];
        fakeos_file_read(b->fake, LOGBENCH_FIRST, at + SECTOR, next, SECTOR);
        assert_memory_equal(next + 60, i % 2 == 0 ? "MARK" : "\0\0\0\0", 4);
        fakeos_file_read(b->fake, LOGBENCH_FIRST, at, after, SECTOR);
        assert_memory_equal(before, after, SECTOR);
    }
}

/* The traffic has paused, so that there is a mark; then the process is killed, and the disk loses any
 * one page of the newest segment. */
static void a_lost_page_after_a_pause_is_noticed_or_costs_nothing(void **state) {
    struct logbench *b = *state;
    unsigned noticed = 0;
    logbench_start(b);
    logbench_append(b, 9, 100);
    assert_int_equal(b->log->verbs->idle(b->log), TN_OK);
    logbench_die(b);
    for (uint64_t page = 0; page < LOGBENCH_SEGMENT_BYTES; page += SECTOR) {
        struct logbench copy = logbench_copy(b, page);
        struct log_error error = {{0}};
        size_t loaded = 0;
        fakeos_file_write(copy.fake, LOGBENCH_FIRST, page, zeros, SECTOR);
        enum tn_status status = logmodel_check(&copy.model, &copy.options, &loaded, &error);
        assert_true(status == TN_CORRUPT || (status == TN_OK && loaded == b->model.acked));
        noticed += status == TN_CORRUPT;
        logbench_scrap(&copy);
    }
    assert_int_equal(noticed, 1 + 9); /* the header and every batch */
}

/* Under load there is no mark yet: one batch can be lost unnoticed, but not its LSNs. The model
 * checks that at every start. */
static void lsns_of_a_batch_that_was_lost_are_not_given_again(void **state) {
    struct logbench *b = *state;
    logbench_start(b);
    logbench_append(b, 3, 100);
    uint64_t before = last_lsn(b);
    for (unsigned i = 0; i < 8; i++) {
        logbench_append(b, 1, 100);
        char path[64];
        newest(b, path);
        logbench_die(b);
        uint64_t at = LOG_SEGMENT_HEADER;
        uint8_t found[SECTOR];
        for (uint64_t page = at; page < LOGBENCH_SEGMENT_BYTES; page += SECTOR) {
            fakeos_file_read(b->fake, path, page, found, SECTOR);
            at = memcmp(found + 60, "BTCH", 4) == 0 ? page : at;
        }
        fakeos_file_write(b->fake, path, at, zeros, SECTOR);
        b->model.acked -= 1;
        logbench_start(b);
        assert_int_equal(b->model.count, b->model.acked);
    }
    logbench_append(b, 1, 100);
    assert_true(last_lsn(b) > before + 8 * 1);
    assert_true(last_lsn(b) < before + 9 * (PASSED_OVER + 100)); /* one reserve for each start */
    logbench_stop(b);
    logbench_start(b);
}

static void only_a_clean_close_passes_over_nothing(void **state) {
    struct logbench *b = *state;
    logbench_start(b);
    assert_int_equal(b->model.next_lsn, 1);
    logbench_append(b, 2, 100);
    logbench_stop(b);
    logbench_start(b);
    assert_true(b->model.next_lsn == last_lsn(b) + 1);
    logbench_die(b); /* nothing was appended, but the next start cannot know that */
    logbench_start(b);
    assert_true(b->model.next_lsn == 1 + PASSED_OVER);
    assert_non_null(strstr(b->model.notice_last, "event=log_positions_skipped"));
    logbench_append(b, 1, 100);
    assert_true(last_lsn(b) > PASSED_OVER);
    logbench_stop(b);
    logbench_start(b);
    assert_true(b->model.next_lsn == last_lsn(b) + 1);
    logbench_append(b, 20, 3000); /* into other segments */
    logbench_snapshot(b);
    logbench_stop(b);
    logbench_start(b);
    assert_true(b->model.next_lsn == last_lsn(b) + 1);
}

/* Each start passes over a segment's worth, also if the one before it died without a write. */
static void crashes_in_a_row_take_one_segment_and_a_reserve_each(void **state) {
    struct logbench *b = *state;
    logbench_start(b);
    logbench_append(b, 2, 100);
    logbench_die(b);
    logbench_start(b);
    logbench_die(b);
    unsigned files = fakeos_file_count(b->fake, "/data", NULL);
    uint64_t next_lsn = b->model.next_lsn;
    for (unsigned i = 0; i < 10; i++) {
        logbench_start(b);
        assert_true(b->model.next_lsn == next_lsn + PASSED_OVER);
        next_lsn = b->model.next_lsn;
        logbench_die(b);
        assert_int_equal(fakeos_file_count(b->fake, "/data", NULL), files);
    }
}

static void larger_sectors_of_the_device_are_used(void **state) {
    struct logbench *b = *state;
    const uint32_t large = 16384;
    fakeos_physical_set(b->fake, large);
    logbench_start(b); /* too small a segment for them */
    assert_int_equal(logbench_header(b, LOGBENCH_FIRST).sector_bytes, SECTOR);
    logbench_append(b, 2, 100);
    logbench_stop(b);
    b->options.segment_bytes = 2u << 20;
    logbench_start(b);
    assert_int_equal(logbench_header(b, LOGBENCH_SECOND).sector_bytes, large);
    assert_true(b->model.next_lsn == last_lsn(b) + 1);
    logbench_append(b, 3, 100);
    logbench_append(b, 1, (uint32_t)b->log->verbs->batch_max(b->log));
    logbench_append(b, 3, 20000);
    logbench_die(b);
    logbench_start(b);
    assert_int_equal(b->model.acked, 9);
    logbench_append(b, 3, 100);
    logbench_stop(b);
    logbench_start(b);
    assert_int_equal(b->model.acked, 12);
}

static void a_skip_that_makes_no_sense_is_damage(void **state) {
    struct logbench *b = *state;
    static const uint64_t skips[][2] = {{1, 0}, {0, 1}, {5, 5},
                                        {5, 4}, {1, 9}, {5, LOG_LSN_MAX + 1}};
    logbench_start(b);
    logbench_append(b, 18, 3000); /* a second segment begins within */
    logbench_stop(b);
    const struct log_segment_header good = logbench_header(b, LOGBENCH_SECOND);
    for (size_t i = 0; i < sizeof skips / sizeof skips[0]; i++) {
        struct log_segment_header bad = good;
        bad.skip_from = skips[i][0] == 5 ? good.first_lsn : skips[i][0];
        bad.skip_to = skips[i][0] == 5 ? good.first_lsn + skips[i][1] - 5 : skips[i][1];
        logbench_header_write(b, LOGBENCH_SECOND, &bad);
        logbench_assert_refused(b, TN_CORRUPT, LOGBENCH_SECOND, "header");
    }
    struct log_segment_header bad = good; /* sound, but no frame follows it */
    bad.skip_from = good.first_lsn;
    bad.skip_to = good.first_lsn + 1;
    logbench_header_write(b, LOGBENCH_SECOND, &bad);
    logbench_assert_refused(b, TN_CORRUPT, LOGBENCH_SECOND, "LSN");
}

/* ---- format 1 ---- */

/* Makes the segments what version 0.1 wrote: 512-byte sectors, and zeros where there are fields now. */
static void become_format_1(struct logbench *b) {
    for (unsigned seq = 1; seq <= 9; seq++) {
        char path[64];
        snprintf(path, sizeof path, "/data/%016x.log", seq);
        if (fakeos_file_exists(b->fake, path)) {
            assert_int_equal(logbench_header(b, path).sector_bytes, 512);
            logbench_forge(b, path, LOG_SEGMENT_HEADER, 80, 0, 4);
            logbench_forge(b, path, LOG_SEGMENT_HEADER, 8, 1, 4);
        }
    }
}

static void a_log_of_format_1_is_read_and_continued(void **state) {
    struct logbench *made = *state;
    made->options.sector_bytes = 512;
    for (unsigned segments = 1; segments <= 3; segments++) {
        for (unsigned marked = 0; marked < 2; marked++) {
            struct logbench copy = logbench_copy(made, segments);
            struct logbench *b = &copy;
            logbench_start(b);
            logbench_append(b, segments == 1 ? 5 : segments * 40, 700);
            if (marked == 1) {
                assert_int_equal(b->log->verbs->idle(b->log), TN_OK);
            }
            logbench_die(b);
            become_format_1(b);
            uint64_t end = last_lsn(b);
            b->options.sector_bytes = 0;
            b->options.read_only = true;
            logbench_start(b);
            b->log->verbs->close(b->log);
            b->log = NULL;
            b->options.read_only = false;
            logbench_start(b);
            assert_true(b->model.next_lsn > end + 1); /* its marks do not show a clean close */
            logbench_append(b, 20, 700);
            logbench_snapshot(b);
            logbench_append(b, 20, 700);
            logbench_stop(b);
            logbench_start(b);
            assert_true(b->model.next_lsn == last_lsn(b) + 1);
            logbench_scrap(b);
        }
    }
}

/* A program that supports only format 1 refuses by the version, which is at the same place. */
static void new_segments_are_of_version_2(void **state) {
    struct logbench *b = *state;
    uint8_t bytes[12];
    logbench_start(b);
    fakeos_file_read(b->fake, LOGBENCH_FIRST, 0, bytes, sizeof bytes);
    assert_memory_equal(bytes, "TENURLOG\2\0\0\0", 12);
}

#define SECTOR_TEST(test) cmocka_unit_test_setup_teardown(test, setup, logbench_teardown)

int main(void) {
    const struct CMUnitTest tests[] = {
        SECTOR_TEST(a_frame_has_its_sectors_to_itself),
        SECTOR_TEST(a_lost_page_after_a_pause_is_noticed_or_costs_nothing),
        SECTOR_TEST(lsns_of_a_batch_that_was_lost_are_not_given_again),
        SECTOR_TEST(only_a_clean_close_passes_over_nothing),
        SECTOR_TEST(crashes_in_a_row_take_one_segment_and_a_reserve_each),
        SECTOR_TEST(larger_sectors_of_the_device_are_used),
        SECTOR_TEST(a_skip_that_makes_no_sense_is_damage),
        SECTOR_TEST(a_log_of_format_1_is_read_and_continued),
        SECTOR_TEST(new_segments_are_of_version_2),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
