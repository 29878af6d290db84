#include "lib/runkit.h"

#include <ftw.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "lib/enginekit.h"
#include "process/proc.h"
#include "process/run_output.h"
#include "process/run_record.h"

#define REF "sensor"
#define OUTPUT_MAX (8u << 20)

/* ---- Opening and closing ---- */

/* Conditions outside of the loop are checked regularly. */
static void wake(uv_timer_t *timer) {
    (void)timer;
}

void runkit_open(struct runkit *kit) {
    const char *build = getenv("TENURE_BUILD_DIR");
    assert_non_null(build);
    ekit_dir_make(kit->dir);
    snprintf(kit->sensors, sizeof kit->sensors, "%s/sensors", kit->dir);
    snprintf(kit->pids, sizeof kit->pids, "%s/pids", kit->dir);
    snprintf(kit->guardian, sizeof kit->guardian, "%s/tenure-guardian", build);
    snprintf(kit->dummy, sizeof kit->dummy, "%s/tests/sensor_dummy", build);
    runkit_reopen(kit);
}

void runkit_reopen(struct runkit *kit) {
    assert_int_equal(uv_loop_init(&kit->loop), 0);
    assert_int_equal(uv_timer_init(&kit->loop, &kit->awake), 0);
    assert_int_equal(uv_timer_start(&kit->awake, wake, 1, 1), 0);
}

static int remove_one(const char *path, const struct stat *st, int kind, struct FTW *at) {
    (void)st;
    (void)kind;
    (void)at;
    return remove(path);
}

void runkit_close(struct runkit *kit) {
    uv_close((uv_handle_t *)&kit->awake, NULL);
    /* Closing takes a turn. Handles that remain after that are of a test that failed: its guardian
     * ends the run when this process has ended. */
    for (int turn = 0; turn < 10 && uv_run(&kit->loop, UV_RUN_NOWAIT) != 0; turn++) {
    }
    assert_int_equal(uv_loop_close(&kit->loop), 0);
    assert_int_equal(nftw(kit->dir, remove_one, 16, FTW_DEPTH | FTW_PHYS), 0);
}

int runkit_setup(void **state) {
    static struct runkit kit;
    runkit_open(&kit);
    *state = &kit;
    return 0;
}

int runkit_teardown(void **state) {
    runkit_close(*state);
    return 0;
}

/* ---- Runs ---- */

static void told_started(void *ctx, int64_t pid) {
    struct runkit_run *run = ctx;
    run->started++;
    run->pid = pid;
}

static void told_failed(void *ctx, int error, const char *step) {
    struct runkit_run *run = ctx;
    run->failed++;
    run->error = error;
    run->step = step;
}

static void told_exited(void *ctx, int status) {
    struct runkit_run *run = ctx;
    run->exited++;
    run->status = status;
}

static void told_gone(void *ctx) {
    struct runkit_run *run = ctx;
    run->gone++;
    assert_int_equal(run->started + run->failed, 1);
}

/* ["/path/sensor_dummy","fork-ignore","3"] */
static void command_make(const struct runkit *kit, const char *words, char *out, size_t capacity) {
    size_t len = (size_t)snprintf(out, capacity, "[\"%s\"", kit->dummy);
    while (*words != '\0') {
        int word = (int)strcspn(words, " ");
        len += (size_t)snprintf(out + len, capacity - len, ",\"%.*s\"", word, words);
        words += word;
        words += strspn(words, " ");
    }
    snprintf(out + len, capacity - len, "]");
}

struct run_options runkit_options(struct runkit *kit, struct runkit_run *run, const char *words,
                                  const char *more) {
    struct sensor_defaults defaults = sensor_defaults_make();
    char command[1024];
    char json[4096];
    char reason[SENSOR_REASON_MAX];
    *run = (struct runkit_run){.kit = kit, .status = -1};
    command_make(kit, words, command, sizeof command);
    int len =
        snprintf(json, sizeof json, "{\"command\":%s,\"env\":{\"SENSOR_DUMMY_PIDS\":\"%s\"}%s}",
                 command, kit->pids, more);
    if (!sensor_spec_parse(tn_bytes_of(json, (size_t)len), &defaults, &run->spec, reason)) {
        fail_msg("%s", reason);
    }
    return (struct run_options){.loop = &kit->loop,
                                .os = os_posix(),
                                .dir = kit->sensors,
                                .guardian = kit->guardian,
                                .ref = REF,
                                .lease = {.shard = 0, .lsn = 7},
                                .epoch = 3,
                                .spec = run->spec,
                                .hooks = {.started = told_started,
                                          .failed = told_failed,
                                          .exited = told_exited,
                                          .gone = told_gone},
                                .ctx = run};
}

void runkit_begin(struct runkit_run *run, const struct run_options *options) {
    assert_int_equal(run_start(options, &run->run), TN_OK);
    assert_int_equal(run->started + run->failed, 0); /* never from inside the call */
    while (run->started + run->failed == 0) {
        uv_run(&run->kit->loop, UV_RUN_ONCE);
    }
}

void runkit_start(struct runkit *kit, struct runkit_run *run, const char *words, const char *more) {
    struct run_options options = runkit_options(kit, run, words, more);
    runkit_begin(run, &options);
    if (run->failed > 0) {
        fail_msg("%s: %s", run->step, strerror(run->error));
    }
}

void runkit_end(struct runkit_run *run) {
    runkit_wait_count(run->kit, &run->gone);
    assert_int_equal(run->gone, 1);
    assert_true(run->exited <= 1);
    run_free(run->run);
    sensor_spec_free(run->spec);
    run->run = NULL;
    run->spec = NULL;
}

/* ---- Waiting ---- */

void runkit_wait(struct runkit *kit, bool (*met)(void *ctx), void *ctx) {
    while (!met(ctx)) {
        uv_run(&kit->loop, UV_RUN_ONCE);
    }
}

static bool count_met(void *ctx) {
    const unsigned *count = ctx;
    return *count > 0;
}

void runkit_wait_count(struct runkit *kit, const unsigned *count) {
    runkit_wait(kit, count_met, (void *)(uintptr_t)count);
}

unsigned runkit_pids(const struct runkit *kit, pid_t out[RUNKIT_PIDS]) {
    char line[64];
    unsigned count = 0;
    FILE *file = fopen(kit->pids, "r");
    while (file != NULL && count < RUNKIT_PIDS && fgets(line, sizeof line, file) != NULL) {
        out[count++] = (pid_t)strtol(line, NULL, 10);
    }
    if (file != NULL) {
        fclose(file);
    }
    return count;
}

void runkit_wait_pids(struct runkit *kit, unsigned count, pid_t out[RUNKIT_PIDS]) {
    while (runkit_pids(kit, out) < count) {
        uv_run(&kit->loop, UV_RUN_ONCE);
    }
}

bool runkit_is_dead(pid_t pid) {
    struct process_stat stat;
    return process_stat_read(pid, &stat) == PROCESS_NO;
}

/* ---- Output ---- */

struct process_state {
    pid_t pid;
    char state;
};

static bool is_in_state(void *ctx) {
    const struct process_state *wanted = ctx;
    struct process_stat stat;
    return process_stat_read(wanted->pid, &stat) == PROCESS_YES && stat.state == wanted->state;
}

void runkit_wait_state(struct runkit *kit, pid_t pid, char state) {
    runkit_wait(kit, is_in_state, &(struct process_state){pid, state});
}

pid_t runkit_guardian(const struct runkit *kit) {
    struct run_record record;
    char path[400];
    snprintf(path, sizeof path, "%s/sensor", kit->sensors);
    assert_int_equal(run_record_read(os_posix(), path, &record), TN_OK);
    return record.guardian;
}

char *runkit_output(struct runkit *kit, const char *ref) {
    struct run_output_position position = {.file = 0};
    char *out = malloc(OUTPUT_MAX);
    size_t len = 0;
    bool lost;
    assert_non_null(out);
    enum tn_status status =
        run_output_read(os_posix(), kit->sensors, ref, &position, out, OUTPUT_MAX - 1, &len, &lost);
    assert_true(status == TN_OK || status == TN_NOTFOUND);
    out[len] = '\0';
    return out;
}

void runkit_wait_output(struct runkit *kit, const char *ref, const char *text) {
    for (bool found = false; !found;) {
        char *output = runkit_output(kit, ref);
        found = strstr(output, text) != NULL;
        free(output);
        if (!found) {
            uv_run(&kit->loop, UV_RUN_ONCE);
        }
    }
}
