/* A run ends at the last deadline that its guardian received, whatever happened to the server. */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "lib/runkit.h"
#include "process/run_frame.h"

static uint64_t now_ms(void) {
    return os_posix()->clock_boot_ms(os_posix()->ctx);
}

static void ends_by_signal(struct runkit_run *run, int signal) {
    runkit_end(run);
    assert_int_equal(run->exited, 1);
    assert_true(WIFSIGNALED(run->status));
    assert_int_equal(WTERMSIG(run->status), signal);
}

static void a_run_is_killed_at_its_deadline(void **state) {
    struct runkit *kit = *state;
    struct runkit_run run;
    pid_t pids[RUNKIT_PIDS];
    struct run_options options = runkit_options(kit, &run, "daemonise", "");
    options.live.kill_at_ms = now_ms() + 300;
    uint64_t kill_at_ms = options.live.kill_at_ms;
    runkit_begin(&run, &options);
    runkit_end(&run);
    assert_true(now_ms() >= kill_at_ms);
    for (unsigned i = 0; i < runkit_pids(kit, pids); i++) {
        assert_true(runkit_is_dead(pids[i]));
    }
}

static void a_run_is_asked_before_it_is_killed(void **state) {
    struct runkit *kit = *state;
    struct runkit_run run;
    pid_t pids[RUNKIT_PIDS];
    runkit_start(kit, &run, "obey", "");
    runkit_wait_pids(kit, 1, pids);
    assert_true(run_live(run.run, &(struct run_frame_times){.term_at_ms = 1}));
    runkit_end(&run);
    assert_int_equal(run.exited, 1);
    assert_true(WIFEXITED(run.status));
    assert_int_equal(WEXITSTATUS(run.status), 0);
}

static void one_that_ignores_the_request_is_killed_in_time(void **state) {
    struct runkit *kit = *state;
    struct runkit_run run;
    pid_t pids[RUNKIT_PIDS];
    runkit_start(kit, &run, "ignore-term", "");
    runkit_wait_pids(kit, 1, pids);
    assert_true(run_live(run.run,
                         &(struct run_frame_times){.term_at_ms = 1, .kill_at_ms = now_ms() + 100}));
    ends_by_signal(&run, SIGKILL);
}

/* The guardian reads both at once: only the last one may count, however late it is. */
static void a_deadline_that_was_moved_does_not_count(void **state) {
    struct runkit *kit = *state;
    struct runkit_run run;
    pid_t pids[RUNKIT_PIDS];
    runkit_start(kit, &run, "ignore-term", "");
    runkit_wait_pids(kit, 1, pids);
    pid_t guardian = runkit_guardian(kit);
    assert_int_equal(kill(guardian, SIGSTOP), 0);
    runkit_wait_state(kit, guardian, 'T');
    assert_true(run_live(run.run, &(struct run_frame_times){.term_at_ms = 1, .kill_at_ms = 1}));
    assert_true(run_live(run.run, &(struct run_frame_times){.kill_at_ms = now_ms() + 3600000}));
    assert_int_equal(kill(guardian, SIGCONT), 0);
    runkit_wait_state(kit, guardian, 'S');
    assert_false(runkit_is_dead(pids[0]));
    assert_true(run_live(run.run, &(struct run_frame_times){.kill_at_ms = 0})); /* never */
    run_term(run.run);
    assert_int_equal(run.exited, 0);
    assert_true(run_live(run.run, &(struct run_frame_times){.kill_at_ms = 1}));
    ends_by_signal(&run, SIGKILL);
}

static bool is_dead(void *ctx) {
    return runkit_is_dead(*(pid_t *)ctx);
}

static void the_deadline_is_kept_although_the_server_is_stopped(void **state) {
    struct runkit *kit = *state;
    pid_t pids[RUNKIT_PIDS];
    pid_t server = fork();
    assert_true(server >= 0);
    if (server == 0) {
        struct runkit_run run;
        runkit_reopen(kit);
        struct run_options options = runkit_options(kit, &run, "ignore-term", "");
        runkit_begin(&run, &options);
        runkit_wait_pids(kit, 1, pids);
        (void)run_live(run.run, &(struct run_frame_times){.kill_at_ms = now_ms() + 100});
        (void)raise(SIGSTOP);
        _exit(0);
    }
    runkit_wait_pids(kit, 1, pids);
    runkit_wait(kit, is_dead, &pids[0]);
    runkit_wait_state(kit, server, 'T');
    assert_int_equal(kill(server, SIGKILL), 0);
    assert_int_equal(waitpid(server, NULL, 0), server);
}

int main(void) {
#define CASE(name) cmocka_unit_test_setup_teardown(name, runkit_setup, runkit_teardown)
    const struct CMUnitTest tests[] = {
        CASE(a_run_is_killed_at_its_deadline),
        CASE(a_run_is_asked_before_it_is_killed),
        CASE(one_that_ignores_the_request_is_killed_in_time),
        CASE(a_deadline_that_was_moved_does_not_count),
        CASE(the_deadline_is_kept_although_the_server_is_stopped),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
