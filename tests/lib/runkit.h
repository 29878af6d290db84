/* Helpers for tests of real processes: a loop, a directory, runs of sensor_dummy and their reports.
 *
 * Conditions are waited for with the loop running; the test's own time limit ends a wait whose
 * condition never becomes true. */
#ifndef TESTS_LIB_RUNKIT_H
#define TESTS_LIB_RUNKIT_H

#include <stdbool.h>
#include <sys/types.h>

#include "process/run.h"

#define RUNKIT_PIDS 512

struct runkit {
    uv_loop_t loop;
    uv_timer_t awake;
    char dir[128];      /* directory of this test; removed with it */
    char sensors[160];  /* where runs are */
    char pids[160];     /* the file that dummies write their pids to */
    char guardian[256]; /* the programs of this build */
    char dummy[256];
};

/* A run and everything that it reported. */
struct runkit_run {
    struct runkit *kit;
    struct run *run;
    struct sensor_spec *spec;
    int64_t pid;
    int error;
    const char *step;
    int status; /* exit status of the main process; -1: not reported yet */
    unsigned started, failed, exited, gone;
};

void runkit_open(struct runkit *kit);
/* No handle may remain in the loop. */
void runkit_close(struct runkit *kit);

/* For cmocka_unit_test_setup_teardown; the kit is *state. */
int runkit_setup(void **state);
int runkit_teardown(void **state);

/* For a forked process: a loop of its own in the same directory. */
void runkit_reopen(struct runkit *kit);

/* Options for a run of sensor_dummy with these words, such as "fork-ignore 3"; `more` is further
 * members of the description, such as ", \"cwd\": \"/tmp\"", or "". The hooks fill `run`. */
struct run_options runkit_options(struct runkit *kit, struct runkit_run *run, const char *words,
                                  const char *more);
/* Starts a run, and waits until it has started or failed. */
void runkit_begin(struct runkit_run *run, const struct run_options *options);
void runkit_start(struct runkit *kit, struct runkit_run *run, const char *words, const char *more);
/* Waits until the run has ended, and frees it. */
void runkit_end(struct runkit_run *run);

void runkit_wait(struct runkit *kit, bool (*met)(void *ctx), void *ctx);
void runkit_wait_count(struct runkit *kit, const unsigned *count);
/* Waits until `count` processes have written their pids. */
void runkit_wait_pids(struct runkit *kit, unsigned count, pid_t out[RUNKIT_PIDS]);
unsigned runkit_pids(const struct runkit *kit, pid_t out[RUNKIT_PIDS]);
/* Whether the process is dead and reaped. */
bool runkit_is_dead(pid_t pid);
/* Waits until the process is in this state, as /proc names it: 'T' stopped, 'Z' dead, 'S' asleep. */
void runkit_wait_state(struct runkit *kit, pid_t pid, char state);
/* The guardian of the run, found in the run's record. */
pid_t runkit_guardian(const struct runkit *kit);

/* All retained output, NUL-terminated, on the heap. */
char *runkit_output(struct runkit *kit, const char *ref);
/* Waits until the output contains this text. */
void runkit_wait_output(struct runkit *kit, const char *ref, const char *text);

#endif
