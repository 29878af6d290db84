/* The older snapshot and what may be found below a gap once the newest has been set aside.
 *
 * Letting go of a segment is a change of the directory, and a crash, or a sync of the directory that
 * failed long ago, may bring any selection of the ones that were let go back. They are leftovers as
 * long as nothing that is left can need what is missing between them and the log. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "lib/logbench.h"

/* Segments 1 to 7, one batch each; snapshots after the batches 4 and 7. So 1 to 3 are removed, and
 * the older snapshot needs 5 and up. *ret_old is the disk when there were three segments. */
static void two_snapshots(struct logbench *b, struct logbench *ret_old) {
    logbench_start(b);
    logbench_append(b, 3, 40000);
    *ret_old = logbench_copy(b, 1);
    logbench_append(b, 1, 40000);
    logbench_snapshot(b);
    logbench_append(b, 3, 40000);
    logbench_snapshot(b);
    logbench_stop(b);
    assert_false(fakeos_file_exists(b->fake, LOGBENCH_FIRST));
}

/* The first segment is back, as after a removal that never reached the disk. */
static void first_comes_back(struct logbench *b, struct logbench *old) {
    static uint8_t bytes[LOGBENCH_SEGMENT_BYTES];
    const struct os *os = fakeos_table(b->fake);
    int file;
    fakeos_file_read(old->fake, LOGBENCH_FIRST, 0, bytes, sizeof bytes);
    assert_int_equal(os->open(os->ctx, LOGBENCH_FIRST, OS_WRITE | OS_CREATE, &file), TN_OK);
    assert_int_equal(os->write_at(os->ctx, file, bytes, sizeof bytes, 0), TN_OK);
    assert_int_equal(os->sync(os->ctx, file), TN_OK);
    assert_int_equal(os->close(os->ctx, file), TN_OK);
    assert_int_equal(os->sync_dir(os->ctx, "/data"), TN_OK);
}

static void a_leftover_after_the_newest_was_set_aside_is_cleared_away(void **state) {
    struct logbench *b = *state;
    struct logbench old;
    two_snapshots(b, &old);
    b->options.use_older_snapshot = true;
    logbench_start(b);
    logbench_stop(b);
    first_comes_back(b, &old);
    logbench_scrap(&old);
    b->options.use_older_snapshot = false;
    logbench_start(b);
    assert_int_equal(b->model.acked, 7);
    assert_false(fakeos_file_exists(b->fake, LOGBENCH_FIRST));
}

/* The same without any failure: the power goes between setting aside and clearing away. */
static void power_cuts_while_setting_aside_are_survived(void **state) {
    struct logbench *b = *state;
    struct logbench old;
    two_snapshots(b, &old);
    first_comes_back(b, &old);
    logbench_scrap(&old);
    bool whole = false;
    for (uint64_t call = 1; !whole; call++) {
        struct logbench copy = logbench_copy(b, call);
        struct log_error error;
        copy.options.use_older_snapshot = true;
        fakeos_cut_call(copy.fake, call);
        whole = logmodel_open(&copy.model, &copy.options, &copy.log, &error) == TN_OK &&
                !fakeos_is_cut(copy.fake);
        if (copy.log != NULL) {
            fakeos_cut_call(copy.fake, fakeos_calls(copy.fake) + 1);
            copy.log->verbs->close(copy.log);
            copy.log = NULL;
        }
        fakeos_reboot(copy.fake);
        copy.options.use_older_snapshot = false;
        logbench_start(&copy);
        assert_int_equal(copy.model.acked, 7);
        logbench_scrap(&copy);
    }
}

static void a_segment_that_the_older_one_needs_is_missed_all_the_same(void **state) {
    struct logbench *b = *state;
    struct logbench old;
    two_snapshots(b, &old);
    b->options.use_older_snapshot = true;
    logbench_start(b);
    logbench_stop(b);
    b->options.use_older_snapshot = false;
    logbench_scrap(&old);
    fakeos_file_remove(b->fake, "/data/0000000000000006.log");
    logbench_assert_refused(b, TN_CORRUPT, "0006.log", "missing");
}

/* The third snapshot removes the first one and some segments, and the call that removes the file of
 * the first snapshot fails. */
static struct logbench with_a_snapshot_left_over(struct logbench *b) {
    logbench_start(b);
    for (unsigned i = 0; i < 2; i++) {
        logbench_append(b, 3, 40000);
        logbench_snapshot(b);
    }
    logbench_append(b, 3, 40000);
    logbench_stop(b);
    for (uint64_t call = 1;; call++) {
        struct logbench copy = logbench_copy(b, call);
        logbench_start(&copy);
        logbench_append(&copy, 1, 40000);
        logbench_snapshot(&copy);
        logbench_append(&copy, 1, 40000);
        fakeos_fail_call(copy.fake, fakeos_calls(copy.fake) + call, TN_IO);
        enum tn_status status = logmodel_snapshot(&copy.model, copy.log);
        assert_non_null(fakeos_fault_name(copy.fake));
        if (status == TN_OK && strcmp(fakeos_fault_name(copy.fake), "remove") == 0) {
            logbench_stop(&copy);
            return copy;
        }
        logbench_die(&copy);
        logbench_scrap(&copy);
    }
}

/* Otherwise, after the next snapshot is set aside, the one left would be of no use for a start. */
static void a_snapshot_that_is_left_over_goes_when_the_newest_is_set_aside(void **state) {
    struct logbench b = with_a_snapshot_left_over(*state);
    assert_int_equal(fakeos_file_count(b.fake, "/data", "snapshot-"), 3);
    b.options.use_older_snapshot = true;
    logbench_start(&b);
    logbench_die(&b);
    fakeos_reboot(b.fake);
    assert_int_equal(fakeos_file_count(b.fake, "/data", "set-aside-"), 1);
    /* And the name of the snapshot that was set aside. */
    assert_int_equal(fakeos_file_count(b.fake, "/data", "snapshot-"), 2);
    b.options.use_older_snapshot = false;
    logbench_start(&b);
    assert_int_equal(b.model.acked, 11);
    logbench_append(&b, 1, 40000);
    logbench_snapshot(&b);
    logbench_stop(&b);
    b.options.use_older_snapshot = true;
    logbench_start(&b);
    assert_int_equal(b.model.acked, 12);
    logbench_scrap(&b);
}

/* With one snapshot and none set aside the log from its beginning is what there is to fall back to. */
static void below_the_only_snapshot_nothing_may_be_missing(void **state) {
    struct logbench *b = *state;
    logbench_start(b);
    logbench_append(b, 4, 40000);
    logbench_snapshot(b);
    logbench_stop(b);
    fakeos_file_remove(b->fake, LOGBENCH_SECOND);
    logbench_assert_refused(b, TN_CORRUPT, LOGBENCH_SECOND, "missing");
}

/* A snapshot whose name may never have reached the disk is not one that others may rely on. */
static void a_snapshot_whose_name_was_not_synced_counts_for_nothing(void **state) {
    struct logbench *b = *state;
    for (uint64_t seed = 0; seed < 40; seed++) {
        struct logbench copy = logbench_copy(b, seed);
        logbench_start(&copy);
        logbench_append(&copy, 3, 40000);
        logbench_snapshot(&copy);
        logbench_append(&copy, 3, 40000);
        /* The last call of a snapshot is the sync of the directory; then older files are
         * removed. */
        uint64_t before = fakeos_calls(copy.fake);
        fakeos_fail_call(copy.fake, before + 6, TN_IO);
        assert_int_equal(logmodel_snapshot(&copy.model, copy.log), TN_IO);
        assert_string_equal(fakeos_fault_name(copy.fake), "sync_dir");
        logbench_die(&copy);
        logbench_start(&copy);
        logbench_append(&copy, 3, 40000);
        logbench_snapshot(&copy);
        logbench_die(&copy);
        fakeos_reboot(copy.fake);
        struct log_error error;
        copy.options.use_older_snapshot = true;
        assert_int_equal(logmodel_open(&copy.model, &copy.options, &copy.log, &error), TN_OK);
        assert_int_equal(copy.model.acked, 9);
        logbench_scrap(&copy);
    }
}

/* The same with a process that dies between the naming and the sync, and a next one whose sync fails. */
static void nor_does_one_whose_process_died_before_the_sync(void **state) {
    struct logbench *b = *state;
    logbench_start(b);
    logbench_append(b, 3, 40000);
    logbench_snapshot(b);
    logbench_append(b, 3, 40000);
    fakeos_cut_call(b->fake, fakeos_calls(b->fake) + 6);
    assert_int_equal(logmodel_snapshot(&b->model, b->log), TN_IO);
    assert_string_equal(fakeos_fault_name(b->fake), "sync_dir");
    b->log->verbs->close(b->log);
    b->log = NULL;
    fakeos_restart(b->fake);
    for (uint64_t call = 1; call < 60; call++) {
        struct logbench copy = logbench_copy(b, call);
        struct log_error error;
        fakeos_fail_call(copy.fake, call, TN_IO);
        if (logmodel_open(&copy.model, &copy.options, &copy.log, &error) == TN_OK) {
            logbench_die(&copy);
        }
        fakeos_restart(copy.fake);
        logbench_start(&copy);
        logbench_append(&copy, 3, 40000);
        logbench_snapshot(&copy);
        logbench_die(&copy);
        fakeos_reboot(copy.fake);
        copy.options.use_older_snapshot = true;
        logbench_start(&copy);
        assert_int_equal(copy.model.acked, 9);
        logbench_scrap(&copy);
    }
}

#define BENCH_TEST(test) cmocka_unit_test_setup_teardown(test, logbench_setup, logbench_teardown)

int main(void) {
    const struct CMUnitTest tests[] = {
        BENCH_TEST(a_leftover_after_the_newest_was_set_aside_is_cleared_away),
        BENCH_TEST(power_cuts_while_setting_aside_are_survived),
        BENCH_TEST(a_segment_that_the_older_one_needs_is_missed_all_the_same),
        BENCH_TEST(a_snapshot_that_is_left_over_goes_when_the_newest_is_set_aside),
        BENCH_TEST(below_the_only_snapshot_nothing_may_be_missing),
        BENCH_TEST(a_snapshot_whose_name_was_not_synced_counts_for_nothing),
        BENCH_TEST(nor_does_one_whose_process_died_before_the_sync),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
