/* Copies of a log that is being written: what a hold names is a log of its own, of exactly the batches
 * that were acknowledged, and stays as it is until it is released. */
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

#define COPY "/copy"

static struct log_held hold(struct logbench *b) {
    struct log_held held;
    assert_int_equal(b->log->verbs->hold(b->log, &held), TN_OK);
    return held;
}

static void release(struct logbench *b, struct log_held *held) {
    b->log->verbs->release(b->log);
    free(held->files);
}

/* Makes /copy of the first bytes of the held files; the rest of each file is zeros. */
static void copy(struct logbench *b, const struct log_held *held) {
    const struct os *os = b->options.os;
    assert_int_equal(os->make_dir(os->ctx, COPY), TN_OK);
    for (uint32_t i = 0; i < held->count; i++) {
        char from[256], to[256];
        int file;
        snprintf(from, sizeof from, "/data/%s", held->files[i].name);
        snprintf(to, sizeof to, COPY "/%s", held->files[i].name);
        size_t len = (size_t)held->files[i].bytes;
        uint8_t *bytes = malloc(len);
        assert_non_null(bytes);
        fakeos_file_read(b->fake, from, 0, bytes, len);
        assert_int_equal(os->open(os->ctx, to, OS_WRITE | OS_CREATE | OS_TRUNCATE, &file), TN_OK);
        assert_int_equal(os->write_at(os->ctx, file, bytes, len, 0), TN_OK);
        assert_int_equal(os->truncate(os->ctx, file, held->files[i].size), TN_OK);
        assert_int_equal(os->close(os->ctx, file), TN_OK);
        free(bytes);
    }
}

static void copy_remove(struct logbench *b, const struct log_held *held) {
    for (uint32_t i = 0; i < held->count; i++) {
        char path[256];
        snprintf(path, sizeof path, COPY "/%s", held->files[i].name);
        fakeos_file_remove(b->fake, path);
    }
}

/* The copy opens as a log of its own, and has exactly the batches of `model`. */
static void copy_check(struct logbench *b, struct logmodel *model, const struct log_held *held) {
    struct log_local_options options = b->options;
    struct log *log;
    struct log_error error;
    options.dir = COPY;
    options.read_only = true;
    enum tn_status status = logmodel_open(model, &options, &log, &error);
    if (status != TN_OK) {
        fail_msg("%s", error.text);
    }
    assert_int_equal(held->position.lsn + 1, model->next_lsn);
    (void)log_close(log_local_store(log), log);
}

static void every_moment_has_a_copy_that_holds_what_was_acknowledged(void **state) {
    struct logbench *b = *state;
    logbench_start(b);
    for (unsigned i = 0; i < 120; i++) {
        logbench_append(b, 1, 100 + i * 37 % 3000);
        if (i % 25 == 24) {
            (void)logbench_snapshot(b);
        }
        struct log_held held = hold(b);
        struct logmodel then;
        logmodel_copy(&then, &b->model);
        logbench_append(b, 2, 2000); /* after the hold: no part of the copy */
        copy(b, &held);
        copy_check(b, &then, &held);
        copy_remove(b, &held);
        logmodel_free(&then);
        release(b, &held);
    }
    assert_true(fakeos_file_count(b->fake, "/data", ".log") > 2);
}

static void nothing_held_is_let_go_before_the_last_release(void **state) {
    struct logbench *b = *state;
    logbench_start(b);
    logbench_append(b, 40, 2000);
    (void)logbench_snapshot(b);
    struct log_held first = hold(b);
    struct log_held second = hold(b);
    struct logmodel then;
    logmodel_copy(&then, &b->model);
    for (unsigned i = 0; i < 5; i++) {
        logbench_append(b, 40, 2000);
        (void)logbench_snapshot(b);
    }
    release(b, &first);
    logbench_append(b, 40, 2000);
    (void)logbench_snapshot(b);
    copy(b, &second);
    copy_check(b, &then, &second);
    copy_remove(b, &second);
    unsigned before = fakeos_file_count(b->fake, "/data", ".snap");
    assert_int_equal(before, 7);
    release(b, &second);
    logbench_append(b, 1, 100);
    (void)logbench_snapshot(b);
    assert_int_equal(fakeos_file_count(b->fake, "/data", ".snap"), 2);
    logmodel_free(&then);
}

static void a_log_that_is_not_led_has_no_copy(void **state) {
    struct logbench *b = *state;
    struct log_local_options options = b->options;
    struct log *log;
    struct log_error error;
    struct log_held held;
    logbench_start(b);
    logbench_append(b, 3, 100);
    logbench_stop(b);
    options.read_only = true;
    assert_int_equal(logmodel_open(&b->model, &options, &log, &error), TN_OK);
    assert_int_equal(log->verbs->hold(log, &held), TN_DENIED);
    (void)log_close(log_local_store(log), log);
}

int main(void) {
#define HOLD_TEST(name) cmocka_unit_test_setup_teardown(name, logbench_setup, logbench_teardown)
    const struct CMUnitTest tests[] = {
        HOLD_TEST(every_moment_has_a_copy_that_holds_what_was_acknowledged),
        HOLD_TEST(nothing_held_is_let_go_before_the_last_release),
        HOLD_TEST(a_log_that_is_not_led_has_no_copy),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
