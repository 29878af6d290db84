/* The local log: batches that were appended are loaded, a full disk is reported, and two processes
 * never write at once.
 *
 * Everything runs on a fake disk but for the last test, which uses threads and a real one. */
/* tsan */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "lib/logbench.h"

static struct log_stats stats_of(struct logbench *b) {
    struct log_stats stats;
    logmodel_stats(b->log, &stats);
    return stats;
}

static void a_new_directory_is_an_empty_log(void **state) {
    struct logbench *b = *state;
    logbench_start(b);
    assert_true(b->model.shard == LOGBENCH_SHARD);
    struct log_stats stats = stats_of(b);
    assert_int_equal(stats.segments, 1);
    assert_int_equal(stats.log_bytes, LOGBENCH_SEGMENT_BYTES);
    assert_int_equal(stats.snapshots, 0);
    logbench_stop(b);
    b->options.shard_number = 99; /* counts for a new directory only */
    logbench_start(b);
    assert_true(b->model.shard == LOGBENCH_SHARD);
    logbench_stop(b);
    assert_int_equal(fakeos_file_count(b->fake, "/data", ".log"), 1);
}

static void batches_come_back_in_order(void **state) {
    struct logbench *b = *state;
    logbench_start(b);
    logbench_append(b, 3, 0);
    logbench_append(b, 3, 1);
    logbench_append(b, 2, 448); /* one sector with its header */
    logbench_append(b, 2, 449);
    logbench_append(b, 1, (uint32_t)b->log->verbs->batch_max(b->log));
    logbench_append(b, 2, 700);
    logbench_stop(b);
    logbench_start(b);
    assert_int_equal(b->model.acked, 13);
    logbench_append(b, 1, 10);
    logbench_stop(b);
    logbench_start(b);
    assert_int_equal(b->model.acked, 14);
}

static void a_process_that_died_left_everything_it_promised(void **state) {
    struct logbench *b = *state;
    logbench_start(b);
    logbench_append(b, 5, 1000);
    logbench_die(b);
    logbench_start(b);
    assert_int_equal(b->model.acked, 5);
    assert_non_null(strstr(b->model.notice_last, "event=log_tail_rewritten"));
}

static void a_clean_close_needs_nothing_written_again(void **state) {
    struct logbench *b = *state;
    logbench_start(b);
    logbench_append(b, 5, 1000);
    logbench_stop(b);
    for (uint64_t seed = 0; seed < 16; seed++) {
        struct logbench copy = logbench_copy(b, seed);
        fakeos_reboot(copy.fake);
        logbench_start(&copy);
        assert_true(copy.model.notices == 0);
        assert_int_equal(fakeos_file_count(copy.fake, "/data", ".log"), 1);
        logbench_scrap(&copy);
    }
}

/* The writer's buffer is used again and again: nothing of an earlier batch gets behind a later. */
static void nothing_is_written_behind_the_last_batch(void **state) {
    struct logbench *b = *state;
    logbench_start(b);
    logbench_append(b, 1, 9000);
    logbench_append(b, 5, 100);
    logbench_die(b);
    b->options.read_only = true;
    logbench_start(b);
    assert_true(b->model.notices == 0);
    assert_int_equal(stats_of(b).torn_tail_bytes, 0);
}

static void spares_of_an_earlier_life_keep_their_names(void **state) {
    struct logbench *b = *state;
    const struct os *os = b->options.os;
    static const uint8_t zeros[LOGBENCH_SEGMENT_BYTES];
    int file;
    logbench_start(b);
    logbench_append(b, 2, 40000);
    logbench_snapshot(b);
    logbench_stop(b);
    assert_int_equal(os->open(os->ctx, "/data/spare-1.log", OS_WRITE | OS_CREATE, &file), TN_OK);
    assert_int_equal(os->write_at(os->ctx, file, zeros, sizeof zeros, 0), TN_OK);
    assert_int_equal(os->close(os->ctx, file), TN_OK);
    logbench_start(b);
    logbench_snapshot(b);
    logbench_append(b, 1, 100);
    logbench_snapshot(b); /* the first segment becomes a second spare */
    assert_int_equal(fakeos_file_count(b->fake, "/data", "spare-"), 2);
    logbench_append(b, 4, 40000);
    logbench_stop(b);
    logbench_start(b);
}

static void segments_rotate_and_old_ones_are_recycled(void **state) {
    struct logbench *b = *state;
    uint64_t used = 0;
    logbench_start(b);
    for (unsigned round = 0; round < 30; round++) {
        logbench_append(b, 5, 30000);
        logbench_snapshot(b);
        assert_true(fakeos_file_count(b->fake, "/data", "spare-") <= 2);
        assert_true(fakeos_file_count(b->fake, "/data", "snapshot-") <= 2);
        if (round == 4) {
            used = fakeos_space_used(b->fake);
        }
        assert_true(round <= 4 || fakeos_space_used(b->fake) <= used + 2 * LOGBENCH_SEGMENT_BYTES);
    }
    struct log_stats stats = stats_of(b);
    assert_int_equal(stats.appends, 150);
    assert_int_equal(stats.snapshots, 2);
    assert_int_equal(stats.bytes_since_snapshot, 0);
    assert_true(stats.segments <= 8);
    logbench_append(b, 1, 400);
    assert_int_equal(stats_of(b).bytes_since_snapshot, 512);
    logbench_stop(b);
    logbench_start(b);
    assert_int_equal(b->model.acked, 151);
    assert_int_equal(stats_of(b).bytes_since_snapshot, 512);
}

static void opening_again_and_again_takes_no_more_room(void **state) {
    struct logbench *b = *state;
    logbench_start(b);
    logbench_append(b, 4, 2000);
    logbench_die(b);
    logbench_start(b);
    logbench_die(b);
    uint64_t used = fakeos_space_used(b->fake);
    unsigned files = fakeos_file_count(b->fake, "/data", NULL);
    for (unsigned i = 0; i < 20; i++) {
        logbench_start(b);
        if (i % 2 == 0) {
            logbench_die(b);
        } else {
            logbench_stop(b);
        }
        /* The disk may not have forgotten the segment that was replaced last. */
        assert_true(fakeos_space_used(b->fake) <= used + LOGBENCH_SEGMENT_BYTES);
        assert_int_equal(fakeos_file_count(b->fake, "/data", NULL), files);
    }
}

static void another_segment_size_is_used_from_the_next_segment_on(void **state) {
    struct logbench *b = *state;
    const uint64_t small = LOGBENCH_SEGMENT_BYTES;
    b->options.segment_bytes = 4 * small;
    logbench_start(b);
    logbench_append(b, 1, 100);
    logbench_append(b, 1, (uint32_t)b->log->verbs->batch_max(b->log));
    logbench_die(b);
    /* The batch that has to be written again is larger than a segment is now. */
    b->options.segment_bytes = small;
    logbench_start(b);
    logbench_append(b, 4, (uint32_t)b->log->verbs->batch_max(b->log));
    logbench_stop(b);
    b->options.segment_bytes = 2 * small;
    logbench_start(b);
    logbench_append(b, 4, (uint32_t)b->log->verbs->batch_max(b->log));
    logbench_stop(b);
    logbench_start(b);
    assert_int_equal(b->model.acked, 10);
}

static void two_opens_of_one_directory_are_refused(void **state) {
    struct logbench *b = *state;
    logbench_start(b);
    logbench_append(b, 1, 10);
    logbench_assert_refused(b, TN_LOCKED, "/data/lock", "in use");
    size_t loaded;
    struct log_error error;
    b->options.read_only = true;
    assert_int_equal(logmodel_check(&b->model, &b->options, &loaded, &error), TN_OK);
    b->options.read_only = false;
    logbench_stop(b);
    logbench_start(b);
}

static void reading_only_changes_nothing(void **state) {
    struct logbench *b = *state;
    uint8_t garbage[100];
    memset(garbage, 0xee, sizeof garbage);
    logbench_start(b);
    logbench_append(b, 3, 1000);
    logbench_die(b);
    fakeos_file_write(b->fake, LOGBENCH_FIRST, 4096 + 3 * 1536, garbage, sizeof garbage);
    uint64_t used = fakeos_space_used(b->fake);
    b->options.read_only = true;
    for (unsigned i = 0; i < 3; i++) {
        logbench_start(b);
        assert_non_null(strstr(b->model.notice_last, "event=log_torn_tail"));
        assert_non_null(strstr(b->model.notice_last, "offset=8704 bytes=100"));
        assert_int_equal(stats_of(b).torn_tail_bytes, 100);
        logbench_stop(b);
        assert_true(fakeos_space_used(b->fake) == used);
    }
    b->options.dir = "/nowhere";
    logbench_assert_refused(b, TN_NOTFOUND, "/nowhere", "listed");
    assert_false(fakeos_file_exists(b->fake, "/nowhere"));
}

/* -- space -------------------------------------------------------------------------------------- */

static void a_full_disk_refuses_and_recovers_by_itself(void **state) {
    struct logbench *b = *state;
    logbench_start(b);
    logbench_append(b, 1, 1000);
    fakeos_space_set(b->fake, fakeos_space_used(b->fake) + 1000);
    enum tn_status status = TN_OK;
    unsigned more = 0;
    while ((status = logmodel_append(&b->model, b->log, 10000)) == TN_OK) {
        more += 1;
    }
    assert_int_equal(status, TN_NOSPACE);
    assert_int_equal(more, 5); /* the existing segment is used to its end */
    for (unsigned i = 0; i < 3; i++) {
        assert_int_equal(logmodel_append(&b->model, b->log, 10000), TN_NOSPACE);
    }
    logbench_append(b, 1, 10); /* there still is room for this one */
    assert_int_equal(fakeos_file_count(b->fake, "/data", "spare-"), 0);
    fakeos_space_set(b->fake, UINT64_MAX);
    logbench_append(b, 2, 10000);
    logbench_stop(b);
    logbench_start(b);
    assert_int_equal(b->model.acked, 9);
}

static void the_reserve_is_left_free(void **state) {
    struct logbench *b = *state;
    b->options.space_reserve_bytes = 100000;
    logbench_start(b);
    fakeos_space_set(b->fake, fakeos_space_used(b->fake) + LOGBENCH_SEGMENT_BYTES + 99999);
    logbench_append(b, 1, 40000);
    assert_int_equal(logmodel_append(&b->model, b->log, 40000), TN_NOSPACE);
    fakeos_space_set(b->fake, fakeos_space_used(b->fake) + LOGBENCH_SEGMENT_BYTES + 100000);
    logbench_append(b, 1, 40000);
    /* Coming back after a crash may use it: the log must be able to start. */
    logbench_append(b, 1, 100);
    logbench_die(b);
    logbench_start(b);
    assert_int_equal(b->model.acked, 3);
}

static void a_full_disk_fails_a_snapshot_and_nothing_else(void **state) {
    struct logbench *b = *state;
    logbench_start(b);
    logbench_append(b, 3, 100);
    fakeos_space_set(b->fake, fakeos_space_used(b->fake) + 500);
    assert_int_equal(logmodel_snapshot(&b->model, b->log), TN_NOSPACE);
    assert_false(fakeos_file_exists(b->fake, "/data/snapshot.tmp"));
    logbench_append(b, 3, 100);
    fakeos_space_set(b->fake, UINT64_MAX);
    logbench_snapshot(b);
    logbench_stop(b);
    logbench_start(b);
    assert_int_equal(stats_of(b).snapshots, 1);
}

/* -- snapshots ---------------------------------------------------------------------------------- */

static void the_older_snapshot_loses_nothing(void **state) {
    struct logbench *b = *state;
    const char *newest = NULL;
    logbench_start(b);
    for (unsigned i = 0; i < 5; i++) {
        logbench_append(b, 4, 30000);
        newest = logbench_snapshot(b);
    }
    logbench_append(b, 4, 30000);
    logbench_stop(b);
    fakeos_file_flip(b->fake, newest, 500, 0);
    logbench_assert_refused(b, TN_CORRUPT, newest, "--use-older-snapshot");
    b->options.use_older_snapshot = true;
    logbench_start(b);
    assert_int_equal(b->model.acked, 24);
    assert_non_null(strstr(b->model.notice_last, "event=log_snapshot_set_aside"));
    logbench_append(b, 1, 100);
    logbench_stop(b);
    /* From now on without the option, as if the bad one had never been. */
    b->options.use_older_snapshot = false;
    fakeos_reboot(b->fake);
    assert_int_equal(fakeos_file_count(b->fake, "/data", "set-aside-snapshot-"), 1);
    logbench_start(b);
    logbench_snapshot(b);
    logbench_stop(b);
    logbench_start(b);
    assert_int_equal(b->model.acked, 25);
}

static void before_the_first_snapshot_comes_the_whole_log(void **state) {
    struct logbench *b = *state;
    logbench_start(b);
    logbench_append(b, 9, 30000);
    logbench_snapshot(b);
    logbench_append(b, 9, 30000);
    logbench_stop(b);
    b->options.use_older_snapshot = true;
    logbench_start(b);
    assert_int_equal(b->model.acked, 18);
}

static void a_snapshot_of_the_same_position_replaces_the_first(void **state) {
    struct logbench *b = *state;
    logbench_start(b);
    logbench_append(b, 2, 100);
    logbench_snapshot(b);
    logbench_snapshot(b);
    assert_int_equal(stats_of(b).snapshots, 1);
    logbench_stop(b);
    logbench_start(b);
    assert_int_equal(stats_of(b).snapshots, 1);
}

static void an_abandoned_snapshot_leaves_no_trace(void **state) {
    struct logbench *b = *state;
    struct log_error error;
    struct log_position at = {.shard = LOGBENCH_SHARD};
    logbench_start(b);
    logbench_append(b, 2, 100);
    assert_int_equal(log_local_store(b->log)->verbs->begin(log_local_store(b->log), &at, &error),
                     TN_OK);
    log_local_store(b->log)->verbs->abandon(log_local_store(b->log));
    assert_int_equal(fakeos_file_count(b->fake, "/data", "snap"), 0);
    logbench_snapshot(b);
}

static void sections_larger_than_the_buffer_come_back(void **state) {
    struct logbench *b = *state;
    struct log_error error;
    logbench_start(b);
    logbench_append(b, 2, 100);
    uint8_t *large = calloc(1, LOG_SECTION_MAX);
    assert_non_null(large);
    struct log_position at = {.shard = LOGBENCH_SHARD};
    assert_int_equal(log_local_store(b->log)->verbs->begin(log_local_store(b->log), &at, &error),
                     TN_OK);
    uint8_t head[16] = {0};
    struct log_section section = {.kind = 1, .bytes = tn_bytes_of(head, sizeof head)};
    assert_int_equal(log_local_store(b->log)->verbs->section(log_local_store(b->log), &section),
                     TN_OK);
    for (unsigned i = 0; i < 12; i++) {
        section =
            (struct log_section){.kind = 2, .bytes = tn_bytes_of(large, LOG_SECTION_MAX - i * 31)};
        assert_int_equal(log_local_store(b->log)->verbs->section(log_local_store(b->log), &section),
                         TN_OK);
    }
    assert_int_equal(log_local_store(b->log)->verbs->end(log_local_store(b->log), &error), TN_OK);
    assert_true(stats_of(b).snapshot_bytes > 11 * LOG_SECTION_MAX);
    free(large);
    logbench_stop(b);
    logbench_start(b);
    assert_int_equal(b->model.acked, 2);
}

static void a_restored_backup_gets_the_next_generation(void **state) {
    struct logbench *b = *state;
    const uint64_t generation = (uint64_t)1 << 32;
    logbench_start(b);
    logbench_append(b, 3, 100);
    logbench_snapshot(b);
    logbench_append(b, 2, 100);
    logbench_die(b);
    /* With its segments: nothing is lost, and later batches can be told from earlier ones. */
    b->options.restored = true;
    logbench_start(b);
    assert_true(b->model.shard == generation + LOGBENCH_SHARD);
    logbench_append(b, 2, 100);
    logbench_stop(b);
    b->options.restored = false;
    logbench_start(b);
    assert_true(b->model.shard == generation + LOGBENCH_SHARD);
    logbench_snapshot(b);
    logbench_stop(b);
    /* The snapshot alone: only if the option says that this is intended. */
    for (unsigned seq = 1; seq < 9; seq++) {
        char path[64];
        snprintf(path, sizeof path, "/data/%016x.log", seq);
        fakeos_file_remove(b->fake, path);
    }
    logbench_assert_refused(b, TN_CORRUPT, "/data", "--restored");
    b->options.restored = true;
    logbench_start(b);
    assert_int_equal(b->model.acked, 7);
    logbench_append(b, 1, 100);
    logbench_stop(b);
    b->options.restored = false;
    logbench_start(b);
    assert_int_equal(b->model.acked, 8);
}

/* -- threads, on a real disk -------------------------------------------------------------------- */

struct race {
    struct log *log;
    struct logmodel model;
    pthread_mutex_t mutex; /* guards the model, as the engine guards its state */
    atomic_bool over;
};

static void *race_snapshots(void *ctx) {
    struct race *race = ctx;
    while (!atomic_load(&race->over)) {
        struct logmodel copy;
        pthread_mutex_lock(&race->mutex);
        logmodel_copy(&copy, &race->model);
        pthread_mutex_unlock(&race->mutex);
        copy.count = copy.acked;
        if (copy.acked > 0) {
            assert_int_equal(logmodel_snapshot(&copy, race->log), TN_OK);
        }
        struct log_stats stats;
        logmodel_stats(race->log, &stats);
        logmodel_free(&copy);
    }
    return NULL;
}

static void remove_tree(const char *dir) {
    char command[256];
    snprintf(command, sizeof command, "rm -rf '%s'", dir);
    assert_int_equal(system(command), 0);
}

static void snapshots_and_appends_run_side_by_side(void **state) {
    (void)state;
    char dir[] = "/tmp/tenure-log-XXXXXX";
    assert_non_null(mkdtemp(dir));
    struct race race = {.mutex = PTHREAD_MUTEX_INITIALIZER};
    struct log_local_options options = {
        .os = os_posix(), .dir = dir, .segment_bytes = LOGBENCH_SEGMENT_BYTES};
    logmodel_init(&race.model, 1);
    race.log = logmodel_must_open(&race.model, &options);
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, race_snapshots, &race), 0);
    for (unsigned i = 0; i < 400; i++) {
        pthread_mutex_lock(&race.mutex);
        assert_int_equal(logmodel_append(&race.model, race.log, i * 97 % 20000), TN_OK);
        pthread_mutex_unlock(&race.mutex);
        race.log->verbs->idle(race.log);
    }
    atomic_store(&race.over, true);
    pthread_join(thread, NULL);
    assert_true(race.log->verbs->close(race.log));
    race.log = logmodel_must_open(&race.model, &options);
    assert_int_equal(race.model.acked, 400);
    assert_true(race.log->verbs->close(race.log));
    logmodel_free(&race.model);
    remove_tree(dir);
}

#define BENCH_TEST(test) cmocka_unit_test_setup_teardown(test, logbench_setup, logbench_teardown)

int main(void) {
    const struct CMUnitTest tests[] = {
        BENCH_TEST(a_new_directory_is_an_empty_log),
        BENCH_TEST(batches_come_back_in_order),
        BENCH_TEST(a_process_that_died_left_everything_it_promised),
        BENCH_TEST(a_clean_close_needs_nothing_written_again),
        BENCH_TEST(nothing_is_written_behind_the_last_batch),
        BENCH_TEST(spares_of_an_earlier_life_keep_their_names),
        BENCH_TEST(segments_rotate_and_old_ones_are_recycled),
        BENCH_TEST(opening_again_and_again_takes_no_more_room),
        BENCH_TEST(another_segment_size_is_used_from_the_next_segment_on),
        BENCH_TEST(two_opens_of_one_directory_are_refused),
        BENCH_TEST(reading_only_changes_nothing),
        BENCH_TEST(a_full_disk_refuses_and_recovers_by_itself),
        BENCH_TEST(the_reserve_is_left_free),
        BENCH_TEST(a_full_disk_fails_a_snapshot_and_nothing_else),
        BENCH_TEST(the_older_snapshot_loses_nothing),
        BENCH_TEST(before_the_first_snapshot_comes_the_whole_log),
        BENCH_TEST(a_snapshot_of_the_same_position_replaces_the_first),
        BENCH_TEST(an_abandoned_snapshot_leaves_no_trace),
        BENCH_TEST(sections_larger_than_the_buffer_come_back),
        BENCH_TEST(a_restored_backup_gets_the_next_generation),
        cmocka_unit_test(snapshots_and_appends_run_side_by_side),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
