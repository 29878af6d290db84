/* The log without memory: each allocation in turn is refused, and the caller hears of it by name.
 *
 * Nothing that was acknowledged is lost by it, nothing is half done, and as soon as there is memory the
 * same is tried again with success. On a real directory: there the log is the only one that allocates.
 *
 * wrap: malloc calloc realloc */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "lib/logmodel.h"
#include "log/segment.h"
#include "os/os.h"

#define BATCH_BYTES 40000u /* one to a segment */

/* -- memory that runs out ------------------------------------------------------------------------ */

/* The names are those that the linker gives. NOLINTBEGIN(bugprone-reserved-identifier,cert-dcl37-c) */
void *__real_malloc(size_t len);
void *__real_calloc(size_t n, size_t len);
void *__real_realloc(void *at, size_t len);
void *__wrap_malloc(size_t len);
void *__wrap_calloc(size_t n, size_t len);
void *__wrap_realloc(void *at, size_t len);

static unsigned refuse_in; /* allocations from now; 0: none */

static bool refused(void) {
    if (refuse_in == 0) {
        return false;
    }
    refuse_in -= 1;
    return refuse_in == 0;
}

void *__wrap_malloc(size_t len) {
    return refused() ? NULL : __real_malloc(len);
}

void *__wrap_calloc(size_t n, size_t len) {
    return refused() ? NULL : __real_calloc(n, len);
}

void *__wrap_realloc(void *at, size_t len) {
    return refused() ? NULL : __real_realloc(at, len);
}
/* NOLINTEND(bugprone-reserved-identifier,cert-dcl37-c) */

/* -- a log --------------------------------------------------------------------------------------- */

struct world {
    char dir[64];
    struct log_local_options options;
    struct logmodel model;
    struct log *log;
};

static int world_open(void **state) {
    static struct world w;
    w = (struct world){.dir = "/tmp/tenure-memory-XXXXXX"};
    assert_non_null(mkdtemp(w.dir));
    w.options = (struct log_local_options){.os = os_posix(),
                                           .dir = w.dir,
                                           .segment_bytes = LOG_SEGMENT_BYTES_MIN,
                                           .no_background = true};
    logmodel_init(&w.model, 5);
    w.log = logmodel_must_open(&w.model, &w.options);
    *state = &w;
    return 0;
}

static int world_close(void **state) {
    struct world *w = *state;
    if (w->log != NULL) {
        w->log->verbs->close(w->log);
    }
    char command[128];
    snprintf(command, sizeof command, "rm -rf '%s'", w->dir);
    assert_int_equal(system(command), 0);
    logmodel_free(&w->model);
    return 0;
}

static void append(struct world *w, unsigned n) {
    for (unsigned i = 0; i < n; i++) {
        assert_int_equal(logmodel_append(&w->model, w->log, BATCH_BYTES), TN_OK);
    }
}

static void stop(struct world *w) {
    assert_true(w->log->verbs->close(w->log));
    w->log = NULL;
}

static void start(struct world *w) {
    w->log = logmodel_must_open(&w->model, &w->options);
}

static struct log_stats stats_of(struct world *w) {
    struct log_stats stats;
    logmodel_stats(w->log, &stats);
    return stats;
}

/* -- starts -------------------------------------------------------------------------------------- */

/* Each allocation of a start is refused once; returns how many there are. */
static unsigned starts_without_memory(struct world *w) {
    size_t acked = w->model.acked;
    for (unsigned n = 1;; n++) {
        size_t loaded = 0;
        struct log_error error = {{0}};
        refuse_in = n;
        enum tn_status status = logmodel_check(&w->model, &w->options, &loaded, &error);
        bool reached = refuse_in == 0;
        refuse_in = 0;
        if (!reached) {
            assert_int_equal(status, TN_OK);
            assert_int_equal(loaded, acked);
            return n - 1;
        }
        /* What is only cleared away is cleared away another time. */
        if (status == TN_OK) {
            assert_int_equal(loaded, acked);
        } else {
            assert_int_equal(status, TN_NOMEM);
            assert_true(strstr(error.text, "memory") != NULL);
        }
        assert_int_equal(logmodel_check(&w->model, &w->options, &loaded, &error), TN_OK);
        assert_int_equal(loaded, acked);
    }
}

static void a_start_without_memory_is_refused_and_loses_nothing(void **state) {
    struct world *w = *state;
    append(w, 3);
    assert_int_equal(logmodel_snapshot(&w->model, w->log), TN_OK);
    append(w, 18); /* more segments than the first list of segments has room for */
    assert_int_equal(logmodel_snapshot(&w->model, w->log), TN_OK);
    append(w, 1);
    stop(w);
    assert_true(starts_without_memory(w) >= 8);
    w->options.read_only = true;
    assert_true(starts_without_memory(w) >= 8);
    w->options.read_only = false;
    start(w);
    append(w, 1);
}

/* -- a log in use -------------------------------------------------------------------------------- */

static void an_append_without_memory_is_refused_and_may_be_tried_again(void **state) {
    struct world *w = *state;
    append(w, 16);
    assert_int_equal(stats_of(w).segments, 16);
    refuse_in = 2; /* the model's own comes first */
    assert_int_equal(logmodel_append(&w->model, w->log, BATCH_BYTES), TN_NOSPACE);
    assert_int_equal(refuse_in, 0);
    assert_non_null(strstr(w->model.notice_last, "event=log_append_refused status=NOMEM"));
    assert_int_equal(stats_of(w).segments, 16);
    append(w, 2);
    assert_int_equal(stats_of(w).segments, 18);
    stop(w);
    start(w);
    assert_int_equal(w->model.acked, 18);
}

static void a_snapshot_without_memory_is_refused_and_the_log_goes_on(void **state) {
    struct world *w = *state;
    append(w, 2);
    refuse_in = 1; /* its buffer */
    assert_int_equal(logmodel_snapshot(&w->model, w->log), TN_NOMEM);
    assert_int_equal(stats_of(w).snapshots, 0);
    refuse_in = 2; /* the list of snapshots: the file exists, but no older file is removed for it */
    assert_int_equal(logmodel_snapshot(&w->model, w->log), TN_NOMEM);
    assert_int_equal(refuse_in, 0);
    assert_int_equal(stats_of(w).snapshots, 0);
    append(w, 1);
    stop(w);
    start(w);
    assert_int_equal(w->model.acked, 3);
    assert_int_equal(stats_of(w).snapshots, 1);
}

/* Letting go is no part of the snapshot: it happens with the next one. */
static void what_cannot_be_let_go_for_want_of_memory_goes_later(void **state) {
    struct world *w = *state;
    for (unsigned list = 0; list < 2; list++) {
        append(w, 2);
        assert_int_equal(logmodel_snapshot(&w->model, w->log), TN_OK);
    }
    uint64_t segments = stats_of(w).segments;
    for (unsigned list = 0; list < 2; list++) {
        append(w, 2);
        refuse_in = 2 + list; /* after the snapshot's buffer */
        assert_int_equal(logmodel_snapshot(&w->model, w->log), TN_OK);
        assert_int_equal(refuse_in, 0);
        segments += 2;
        assert_int_equal(stats_of(w).segments, segments);
        assert_int_equal(stats_of(w).snapshots, 3 + list);
    }
    append(w, 2);
    assert_int_equal(logmodel_snapshot(&w->model, w->log), TN_OK);
    assert_int_equal(stats_of(w).snapshots, 2);
    assert_true(stats_of(w).segments < segments);
    stop(w);
    start(w);
    assert_int_equal(w->model.acked, 10);
}

#define WORLD_TEST(test) cmocka_unit_test_setup_teardown(test, world_open, world_close)

int main(void) {
    const struct CMUnitTest tests[] = {
        WORLD_TEST(a_start_without_memory_is_refused_and_loses_nothing),
        WORLD_TEST(an_append_without_memory_is_refused_and_may_be_tried_again),
        WORLD_TEST(a_snapshot_without_memory_is_refused_and_the_log_goes_on),
        WORLD_TEST(what_cannot_be_let_go_for_want_of_memory_goes_later),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
