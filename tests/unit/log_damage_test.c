/* Damage to a log: every bit that turns is noticed, or was never part of anything.
 *
 * The one place where a turned bit may cost a batch is the last batch, as long as nothing behind it
 * proves that it was synced; these tests pin that place down to the byte. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/bytes.h"
#include "base/hash.h"
#include "lib/logbench.h"
#include "log/frame.h"
#include "log/segment.h"

#define HEADER LOG_SEGMENT_HEADER

/* Offset behind the last batch of the first segment, whose payloads have these sizes. */
static uint64_t end_of(const struct logbench *b) {
    uint64_t end = HEADER;
    for (size_t i = 0; i < b->model.count; i++) {
        end += log_frame_size(b->model.batches[i].batch.len, LOGBENCH_SECTOR);
    }
    return end;
}

/* -- the end of the log ------------------------------------------------------------------------- */

/* Zeros from each byte on, as if the rest of the write had not happened. */
static void a_torn_last_frame_is_cut_at_every_byte(void **state) {
    struct logbench *b = *state;
    static const uint8_t zeros[2048];
    logbench_start(b);
    logbench_append(b, 2, 300);
    logbench_append(b, 1, 1200);
    logbench_die(b);
    for (uint64_t at = HEADER + 1024; at < end_of(b); at++) {
        struct logbench copy = logbench_copy(b, at);
        copy.model.acked = 2;
        fakeos_file_write(copy.fake, LOGBENCH_FIRST, at, zeros, sizeof zeros);
        logbench_start(&copy);
        /* From the padding on nothing is lost. */
        assert_int_equal(copy.model.acked, at < HEADER + 1024 + 64 + 1200 ? 2 : 3);
        logbench_append(&copy, 1, 10);
        logbench_stop(&copy);
        logbench_start(&copy);
        logbench_scrap(&copy);
    }
}

static void a_file_that_became_shorter_is_refused(void **state) {
    struct logbench *b = *state;
    logbench_start(b);
    logbench_append(b, 3, 300);
    logbench_die(b);
    for (uint64_t size = LOGBENCH_SEGMENT_BYTES - 1; size > 0; size -= size > 6000 ? 499 : 1) {
        fakeos_file_resize(b->fake, LOGBENCH_FIRST, size);
        logbench_assert_refused(b, TN_CORRUPT, LOGBENCH_FIRST, "backup");
    }
}

static void a_mark_makes_damage_to_the_last_batch_known(void **state) {
    struct logbench *b = *state;
    logbench_start(b);
    logbench_append(b, 3, 300);
    b->log->verbs->idle(b->log);
    logbench_die(b);
    fakeos_file_flip(b->fake, LOGBENCH_FIRST, HEADER + 1024 + 100, 3);
    logbench_assert_refused(b, TN_CORRUPT, LOGBENCH_FIRST, "offset 5120");
    fakeos_file_flip(b->fake, LOGBENCH_FIRST, HEADER + 1024 + 100, 3);
    logbench_start(b);
    logbench_stop(b);
    fakeos_file_flip(b->fake, LOGBENCH_FIRST, HEADER + 512 + 100, 3);
    logbench_assert_refused(b, TN_CORRUPT, LOGBENCH_FIRST, "offset 4608");
}

static void a_damaged_mark_costs_nothing(void **state) {
    struct logbench *b = *state;
    logbench_start(b);
    logbench_append(b, 3, 300);
    logbench_stop(b);
    fakeos_file_flip(b->fake, LOGBENCH_FIRST, end_of(b) + 8, 0);
    logbench_start(b);
    assert_int_equal(b->model.acked, 3);
    assert_non_null(strstr(b->model.notice_last, "event=log_tail_rewritten"));
}

static void a_new_segment_proves_the_end_of_the_old_one(void **state) {
    struct logbench *b = *state;
    logbench_start(b);
    logbench_append(b, 3, 30000);
    assert_true(fakeos_file_exists(b->fake, LOGBENCH_SECOND));
    logbench_die(b);
    fakeos_file_flip(b->fake, LOGBENCH_FIRST, 50000, 1); /* the last batch of the first segment */
    logbench_assert_refused(b, TN_CORRUPT, LOGBENCH_FIRST, "was synced");
    fakeos_file_flip(b->fake, LOGBENCH_FIRST, 50000, 1);
    fakeos_file_flip(b->fake, LOGBENCH_SECOND, 5000, 1); /* synced before the file had a name */
    logbench_assert_refused(b, TN_CORRUPT, LOGBENCH_SECOND, "first frame");
    fakeos_file_flip(b->fake, LOGBENCH_SECOND, 5000, 1);
    logbench_start(b);
}

/* Old and new frames are all of one sector, so an old one stands exactly where the next would. */
static void frames_of_an_earlier_life_never_revive(void **state) {
    struct logbench *b = *state;
    logbench_start(b);
    for (unsigned round = 0; round < 8; round++) {
        logbench_append(b, 120, 100);
        logbench_snapshot(b);
    }
    for (unsigned i = 0; i < 130; i++) {
        logbench_append(b, 1, 100);
        if (i % 3 == 0) {
            b->log->verbs->idle(b->log);
        }
        struct logbench copy = logbench_copy(b, i);
        fakeos_reboot(copy.fake);
        logbench_start(&copy);
        assert_int_equal(copy.model.acked, b->model.acked);
        logbench_append(&copy, 1, 100);
        logbench_scrap(&copy);
    }
}

/* A client may put anything into a payload, but it cannot know the segment's salt. */
static void a_frame_inside_a_torn_payload_is_not_a_frame(void **state) {
    struct logbench *b = *state;
    static const uint8_t zeros[64];
    logbench_start(b);
    logbench_append(b, 1, 100);
    logbench_append(b, 1, 2000);
    logbench_die(b);
    struct log_frame forged = {.kind = LOG_FRAME_MARK,
                               .sector_bytes = LOGBENCH_SECTOR,
                               .seq = 1,
                               .salt = 0x1234,
                               .first_lsn = 50,
                               .now_ms = 99};
    uint64_t inside = HEADER + 512 + 1024;
    uint8_t bytes[LOGBENCH_SECTOR];
    b->model.acked = 1;

    log_frame_encode(&forged, bytes);
    fakeos_file_write(b->fake, LOGBENCH_FIRST, inside, bytes, sizeof bytes);
    fakeos_file_write(b->fake, LOGBENCH_FIRST, HEADER + 512, zeros, sizeof zeros);
    struct logbench copy = logbench_copy(b, 1);
    logbench_start(&copy);
    assert_int_equal(copy.model.acked, 1);
    logbench_scrap(&copy);

    forged.salt = logbench_header(b, LOGBENCH_FIRST).salt;
    log_frame_encode(&forged, bytes);
    fakeos_file_write(b->fake, LOGBENCH_FIRST, inside, bytes, sizeof bytes);
    logbench_assert_refused(b, TN_CORRUPT, LOGBENCH_FIRST, "good one after it at offset 5632");
}

/* -- every bit ---------------------------------------------------------------------------------- */

/* Turns each bit of a range and looks at what a reader finds. `lossy` is the range of the one batch
 * that may be lost. Returns how many turned bits did lose it. */
static unsigned flip_every_bit(struct logbench *b, const char *path, uint64_t from, uint64_t to,
                               uint64_t lossy_from, uint64_t lossy_to) {
    unsigned lost = 0;
    b->options.read_only = true;
    for (uint64_t bit = from * 8; bit < to * 8; bit++) {
        fakeos_file_flip(b->fake, path, bit / 8, (unsigned)(bit % 8));
        size_t loaded = 0;
        struct log_error error;
        enum tn_status status = logmodel_check(&b->model, &b->options, &loaded, &error);
        if (status == TN_OK && loaded != b->model.count) {
            if (loaded + 1 != b->model.count || bit / 8 < lossy_from || bit / 8 >= lossy_to) {
                fail_msg("bit %u of byte %llu of %s changes the log unnoticed", (unsigned)(bit % 8),
                         (unsigned long long)(bit / 8), path);
            }
            lost += 1;
        }
        if (status != TN_OK) {
            assert_int_equal(status, TN_CORRUPT);
            assert_non_null(strstr(error.text, path));
        }
        fakeos_file_flip(b->fake, path, bit / 8, (unsigned)(bit % 8));
    }
    b->options.read_only = false;
    return lost;
}

static void every_bit_of_a_closed_log_is_watched(void **state) {
    struct logbench *b = *state;
    logbench_start(b);
    logbench_append(b, 2, 200);
    logbench_append(b, 1, 600);
    logbench_stop(b);
    uint64_t end = end_of(b) + LOGBENCH_SECTOR;
    assert_int_equal(flip_every_bit(b, LOGBENCH_FIRST, 0, end + 1024, 0, 0), 0);
    assert_int_equal(flip_every_bit(b, LOGBENCH_FIRST, LOGBENCH_SEGMENT_BYTES - 512,
                                    LOGBENCH_SEGMENT_BYTES, 0, 0),
                     0);
}

static void only_the_last_batch_without_a_mark_can_pass_for_torn(void **state) {
    struct logbench *b = *state;
    logbench_start(b);
    logbench_append(b, 2, 200);
    logbench_append(b, 1, 600);
    logbench_die(b);
    uint64_t end = end_of(b);
    uint64_t last = end - log_frame_size(600, LOGBENCH_SECTOR);
    unsigned lost = flip_every_bit(b, LOGBENCH_FIRST, HEADER, end + 1024, last, end);
    assert_int_equal(lost, log_frame_size(600, LOGBENCH_SECTOR) * 8);
}

static void every_bit_of_a_rewritten_tail_is_watched(void **state) {
    struct logbench *b = *state;
    logbench_start(b);
    logbench_append(b, 2, 200);
    logbench_die(b);
    logbench_start(b);
    logbench_die(b);
    /* The second segment has one batch, no mark, and was synced before it got its name. */
    assert_int_equal(flip_every_bit(b, LOGBENCH_FIRST, HEADER - 8,
                                    fakeos_file_size(b->fake, LOGBENCH_FIRST), 0, 0),
                     0);
    assert_int_equal(flip_every_bit(b, LOGBENCH_SECOND, HEADER - 8, HEADER + 2048, 0, 0), 0);
}

static void every_bit_of_a_snapshot_is_watched(void **state) {
    struct logbench *b = *state;
    logbench_start(b);
    logbench_append(b, 2, 200);
    const char *path = logbench_snapshot(b);
    logbench_append(b, 1, 600);
    logbench_stop(b);
    uint64_t size = fakeos_file_size(b->fake, path);
    size_t loaded;
    struct log_error error;
    for (uint64_t bit = 0; bit < size * 8; bit++) {
        fakeos_file_flip(b->fake, path, bit / 8, (unsigned)(bit % 8));
        b->options.read_only = true;
        assert_int_equal(logmodel_check(&b->model, &b->options, &loaded, &error), TN_CORRUPT);
        assert_non_null(strstr(error.text, path));
        fakeos_file_flip(b->fake, path, bit / 8, (unsigned)(bit % 8));
    }
    for (uint64_t cut = 0; cut < size; cut++) {
        struct logbench copy = logbench_copy(b, cut);
        fakeos_file_resize(copy.fake, path, cut);
        logbench_assert_refused(&copy, TN_CORRUPT, path, "--use-older-snapshot");
        logbench_scrap(&copy);
    }
}

/* A start that goes wrong must not make things worse: it changes nothing on disk. */
static void a_refused_start_leaves_the_damage_as_it_was(void **state) {
    struct logbench *b = *state;
    logbench_start(b);
    logbench_append(b, 3, 300);
    logbench_stop(b);
    for (uint64_t at = 0; at < end_of(b); at += 61) {
        struct logbench copy = logbench_copy(b, at);
        fakeos_file_flip(copy.fake, LOGBENCH_FIRST, at, at % 8);
        logbench_assert_refused(&copy, TN_CORRUPT, LOGBENCH_FIRST, "offset");
        fakeos_file_flip(copy.fake, LOGBENCH_FIRST, at, at % 8);
        logbench_start(&copy);
        assert_int_equal(copy.model.acked, 3);
        logbench_scrap(&copy);
    }
}

/* -- frames and files that are whole but do not belong ------------------------------------------ */

struct misfit {
    const char *word;
    uint64_t lsn_more;
    uint64_t now_less;
    uint64_t chain_xor;
};

static void a_good_frame_in_the_wrong_place_is_refused(void **state) {
    struct logbench *b = *state;
    static const struct misfit misfits[] = {
        {.word = "unexpected LSN", .lsn_more = 1},
        {.word = "time goes back", .now_less = 1},
        {.word = "broken chain", .chain_xor = 1},
    };
    logbench_start(b);
    logbench_append(b, 9, 100); /* enough for the time to have moved */
    logbench_die(b);
    const struct log_frame good = logbench_frame_next(b, end_of(b) - LOGBENCH_SECTOR);
    assert_true(good.now_ms > 0);
    for (size_t i = 0; i < sizeof misfits / sizeof misfits[0]; i++) {
        struct log_frame next = good;
        next.first_lsn += misfits[i].lsn_more;
        next.now_ms -= misfits[i].now_less;
        next.chain ^= misfits[i].chain_xor;
        next.kind = LOG_FRAME_BATCH;
        next.count = 1;
        struct logbench copy = logbench_copy(b, i);
        uint8_t made[LOGBENCH_SECTOR];
        log_frame_encode(&next, made);
        fakeos_file_write(copy.fake, LOGBENCH_FIRST, end_of(b), made, sizeof made);
        logbench_assert_refused(&copy, TN_CORRUPT, LOGBENCH_FIRST, misfits[i].word);
        logbench_scrap(&copy);
    }
}

/* A write that the disk claimed and never did: the mark is still there, and what came after too. */
static void a_mark_older_than_what_follows_it_is_refused(void **state) {
    struct logbench *b = *state;
    uint8_t mark[LOGBENCH_SECTOR];
    logbench_start(b);
    logbench_append(b, 2, 100);
    b->log->verbs->idle(b->log);
    uint64_t at = end_of(b);
    fakeos_file_read(b->fake, LOGBENCH_FIRST, at, mark, sizeof mark);
    logbench_append(b, 2, 100);
    logbench_die(b);
    fakeos_file_write(b->fake, LOGBENCH_FIRST, at, mark, sizeof mark);
    b->options.read_only = true; /* as `tenure check` does */
    logbench_assert_refused(b, TN_CORRUPT, LOGBENCH_FIRST, "a mark that is older");
    b->options.read_only = false;
    logbench_assert_refused(b, TN_CORRUPT, LOGBENCH_FIRST, "a mark that is older");
}

static void a_header_of_another_history_is_refused(void **state) {
    struct logbench *b = *state;
    logbench_start(b);
    logbench_append(b, 3, 30000);
    logbench_stop(b);
    const struct log_segment_header header = logbench_header(b, LOGBENCH_SECOND);
    struct log_segment_header other[5] = {header, header, header, header, header};
    other[0].chain ^= 1;
    other[1].now_ms += 1;
    other[2].first_lsn -= 1; /* in the middle of a batch, or one that it does not have */
    other[3].shard += 1;
    other[4].seq += 1;
    for (size_t i = 0; i < 5; i++) {
        logbench_header_write(b, LOGBENCH_SECOND, &other[i]);
        logbench_assert_refused(b, TN_CORRUPT, "/data/000000000000000", "offset");
    }
    logbench_header_write(b, LOGBENCH_SECOND, &header);
    logbench_start(b);
}

static void files_of_a_newer_version_are_refused_as_such(void **state) {
    struct logbench *b = *state;
    logbench_start(b);
    logbench_append(b, 1, 100);
    const char *path = logbench_snapshot(b);
    logbench_stop(b);
    logbench_forge(b, LOGBENCH_FIRST, HEADER, 8, 3, 4);
    logbench_assert_refused(b, TN_VERSION, LOGBENCH_FIRST, "newer");
    logbench_forge(b, LOGBENCH_FIRST, HEADER, 8, 2, 4);
    logbench_forge(b, path, LOGBENCH_SNAPSHOT_HEADER, 8, 2, 4);
    logbench_assert_refused(b, TN_VERSION, path, "newer");
    logbench_forge(b, path, LOGBENCH_SNAPSHOT_HEADER, 8, 1, 4);
    logbench_start(b);
}

static void a_missing_segment_is_refused(void **state) {
    struct logbench *b = *state;
    logbench_start(b);
    logbench_append(b, 6, 40000); /* one segment each */
    logbench_stop(b);
    for (unsigned seq = 1; seq <= 6; seq++) {
        struct logbench copy = logbench_copy(b, seq);
        char path[64];
        snprintf(path, sizeof path, "/data/%016x.log", seq);
        fakeos_file_remove(copy.fake, path);
        if (seq == 1) {
            logbench_assert_refused(&copy, TN_CORRUPT, "0002.log", "the log starts at LSN");
        } else {
            logbench_assert_refused(&copy, TN_CORRUPT, path, "missing");
        }
        logbench_scrap(&copy);
    }
}

static void a_log_that_ends_before_its_snapshot_is_refused(void **state) {
    struct logbench *b = *state;
    static uint8_t bytes[LOGBENCH_SEGMENT_BYTES];
    logbench_start(b);
    logbench_append(b, 1, 100);
    fakeos_file_read(b->fake, LOGBENCH_FIRST, 0, bytes, sizeof bytes);
    logbench_append(b, 1, 100);
    logbench_snapshot(b);
    logbench_stop(b);
    fakeos_file_write(b->fake, LOGBENCH_FIRST, 0, bytes, sizeof bytes);
    logbench_assert_refused(b, TN_CORRUPT, LOGBENCH_FIRST, "before the snapshot");
}

/* Segments that no snapshot needs may be left behind in any selection by a crash. */
static void leftovers_below_the_older_snapshot_are_cleared_away(void **state) {
    struct logbench *b = *state;
    logbench_start(b);
    logbench_append(b, 3, 40000);
    struct logbench old = logbench_copy(b, 1);
    logbench_append(b, 1, 40000);
    logbench_snapshot(b);
    logbench_append(b, 3, 40000);
    logbench_snapshot(b);
    logbench_stop(b);
    assert_false(fakeos_file_exists(b->fake, LOGBENCH_FIRST));
    /* The first one is back; the second is not. */
    static uint8_t bytes[LOGBENCH_SEGMENT_BYTES];
    const struct os *os = fakeos_table(b->fake);
    int file;
    fakeos_file_read(old.fake, LOGBENCH_FIRST, 0, bytes, sizeof bytes);
    assert_int_equal(os->open(os->ctx, LOGBENCH_FIRST, OS_WRITE | OS_CREATE, &file), TN_OK);
    assert_int_equal(os->write_at(os->ctx, file, bytes, sizeof bytes, 0), TN_OK);
    assert_int_equal(os->close(os->ctx, file), TN_OK);
    logbench_scrap(&old);
    logbench_start(b);
    assert_false(fakeos_file_exists(b->fake, LOGBENCH_FIRST));
}

static void damage_below_the_newest_snapshot_can_be_moved_away(void **state) {
    struct logbench *b = *state;
    logbench_start(b);
    logbench_append(b, 3, 40000);
    logbench_snapshot(b);
    logbench_append(b, 1, 40000);
    logbench_stop(b);
    fakeos_file_flip(b->fake, LOGBENCH_FIRST, 9000, 1);
    b->options.read_only = true;
    logbench_assert_refused(b, TN_CORRUPT, LOGBENCH_FIRST, "does not need this file");
    fakeos_file_remove(b->fake, LOGBENCH_FIRST);
    b->options.read_only = false;
    logbench_start(b);
    assert_int_equal(b->model.acked, 4);
    logbench_stop(b);
    b->options.use_older_snapshot = true;
    logbench_assert_refused(b, TN_CORRUPT, LOGBENCH_SECOND, "without --use-older-snapshot");
}

/* The bytes themselves: a change here needs a new format version. */
static void the_format_is_pinned(void **state) {
    (void)state;
    struct log_frame frame = {.seq = 2,
                              .salt = 3,
                              .first_lsn = 4,
                              .now_ms = 5,
                              .chain = 6,
                              .count = 7,
                              .kind = LOG_FRAME_BATCH,
                              .sector_bytes = LOGBENCH_SECTOR,
                              .len = 3,
                              .payload = (const uint8_t *)"abc"};
    uint8_t bytes[LOGBENCH_SECTOR];
    assert_int_equal(log_frame_encode(&frame, bytes), sizeof bytes);
    static const uint64_t words[] = {2, 3, 4, 5, 3, 6};
    assert_int_equal(tn_load32(bytes), tn_crc32c_portable(0, bytes + 4, sizeof bytes - 4));
    assert_int_equal(tn_load32(bytes + 4), 3);
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
        assert_true(tn_load64(bytes + 8 + 8 * i) == words[i]);
    }
    assert_int_equal(tn_load32(bytes + 56), 7);
    assert_memory_equal(bytes + 60, "BTCHabc\0\0", 9);
    assert_true(log_frame_chain(bytes) ==
                ((uint64_t)tn_crc32c_portable(0, bytes, 64) << 32 | tn_load32(bytes)));
    assert_int_equal(tn_load32(bytes), 0x8ed61a07);

    struct log_segment_header header = {.seq = 1,
                                        .bytes = LOGBENCH_SEGMENT_BYTES,
                                        .shard = 2,
                                        .first_lsn = 3,
                                        .now_ms = 4,
                                        .chain = 5,
                                        .salt = 6,
                                        .sector_bytes = 4096,
                                        .flags = LOG_SEGMENT_STARTED};
    uint8_t segment[HEADER];
    log_segment_header_encode(&header, segment);
    assert_memory_equal(segment, "TENURLOG\2\0\0\0\1\0\0\0\1\0\0\0\0\0\0\0", 24);
    assert_int_equal(tn_load32(segment + 4092), 0xb8a99381);
    header.before_salt = 7;
    header.skip_from = 8;
    header.skip_to = 9;
    log_segment_header_encode(&header, segment);
    assert_memory_equal(segment + 64, "\6\0\0\0\0\0\0\0\7\0\0\0\0\0\0\0", 16);
    assert_memory_equal(segment + 80, "\0\x10\0\0\0\0\0\0\x08\0\0\0\0\0\0\0\x09\0\0\0\0\0\0\0\0",
                        25);
}

#define BENCH_TEST(test) cmocka_unit_test_setup_teardown(test, logbench_setup, logbench_teardown)

int main(void) {
    const struct CMUnitTest tests[] = {
        BENCH_TEST(a_torn_last_frame_is_cut_at_every_byte),
        BENCH_TEST(a_file_that_became_shorter_is_refused),
        BENCH_TEST(a_mark_makes_damage_to_the_last_batch_known),
        BENCH_TEST(a_damaged_mark_costs_nothing),
        BENCH_TEST(a_new_segment_proves_the_end_of_the_old_one),
        BENCH_TEST(frames_of_an_earlier_life_never_revive),
        BENCH_TEST(a_frame_inside_a_torn_payload_is_not_a_frame),
        BENCH_TEST(every_bit_of_a_closed_log_is_watched),
        BENCH_TEST(only_the_last_batch_without_a_mark_can_pass_for_torn),
        BENCH_TEST(every_bit_of_a_rewritten_tail_is_watched),
        BENCH_TEST(every_bit_of_a_snapshot_is_watched),
        BENCH_TEST(a_refused_start_leaves_the_damage_as_it_was),
        BENCH_TEST(a_good_frame_in_the_wrong_place_is_refused),
        BENCH_TEST(a_mark_older_than_what_follows_it_is_refused),
        BENCH_TEST(a_header_of_another_history_is_refused),
        BENCH_TEST(files_of_a_newer_version_are_refused_as_such),
        BENCH_TEST(a_missing_segment_is_refused),
        BENCH_TEST(a_log_that_ends_before_its_snapshot_is_refused),
        BENCH_TEST(leftovers_below_the_older_snapshot_are_cleared_away),
        BENCH_TEST(damage_below_the_newest_snapshot_can_be_moved_away),
        cmocka_unit_test(the_format_is_pinned),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
