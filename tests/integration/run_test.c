/* Real processes through their guardians: how they begin, how they end, that nothing of them is left. */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "lib/runkit.h"
#include "process/proc.h"
#include "process/run_frame.h"

static bool exists(const struct runkit *kit, const char *name) {
    char path[400];
    snprintf(path, sizeof path, "%s/sensor/%s", kit->sensors, name);
    return access(path, F_OK) == 0;
}

static void all_dead(const pid_t *pids, unsigned count) {
    for (unsigned i = 0; i < count; i++) {
        assert_true(runkit_is_dead(pids[i]));
    }
}

/* ---- The ordinary ---- */

static void a_run_starts_and_obeys(void **state) {
    struct runkit *kit = *state;
    struct runkit_run run;
    pid_t pids[RUNKIT_PIDS];
    runkit_start(kit, &run, "obey", "");
    runkit_wait_pids(kit, 1, pids);
    assert_int_equal(pids[0], run.pid);
    assert_true(exists(kit, "run"));
    assert_int_equal(run.exited, 0);
    run_term(run.run);
    runkit_wait_count(kit, &run.exited);
    assert_true(WIFEXITED(run.status));
    assert_int_equal(WEXITSTATUS(run.status), 0);
    runkit_end(&run);
    assert_true(runkit_is_dead(pids[0]));
    assert_false(exists(kit, "run"));
}

static void an_exit_is_told_as_it_was(void **state) {
    struct runkit *kit = *state;
    struct runkit_run run;
    runkit_start(kit, &run, "exit 42", "");
    runkit_end(&run); /* not requested: the run has ended by itself */
    assert_int_equal(run.exited, 1);
    assert_true(WIFEXITED(run.status));
    assert_int_equal(WEXITSTATUS(run.status), 42);
    runkit_start(kit, &run, "crash 6", "");
    runkit_end(&run);
    assert_true(WIFSIGNALED(run.status));
    assert_int_equal(WTERMSIG(run.status), SIGABRT);
}

static void orders_before_the_start_is_told_are_kept(void **state) {
    struct runkit *kit = *state;
    struct runkit_run run;
    struct run_options options = runkit_options(kit, &run, "ignore-term", "");
    assert_int_equal(run_start(&options, &run.run), TN_OK);
    run_term(run.run);
    run_kill(run.run);
    run_kill(run.run);
    runkit_end(&run);
    assert_int_equal(run.started, 1);
    assert_int_equal(run.exited, 1);
}

static void what_cannot_be_started_is_named(void **state) {
    struct runkit *kit = *state;
    static const struct {
        const char *more, *step;
        int error;
    } cases[] = {
        {",\"cwd\":\"/does/not/exist\"", "cwd", ENOENT},
        {",\"user\":\"nobody-of-that-name\"", "user", 0},
        {",\"group\":\"nobody-of-that-name\"", "group", 0},
    };
    struct runkit_run run;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct run_options options = runkit_options(kit, &run, "obey", cases[i].more);
        runkit_begin(&run, &options);
        assert_int_equal(run.failed, 1);
        assert_string_equal(run.step, cases[i].step);
        assert_true(cases[i].error == 0 || run.error == cases[i].error);
        runkit_end(&run);
        assert_false(exists(kit, "run"));
    }
    struct run_options options = runkit_options(kit, &run, "obey", "");
    run.spec->argv[0] = "/does/not/exist";
    runkit_begin(&run, &options);
    assert_string_equal(run.step, "exec");
    assert_int_equal(run.error, ENOENT);
    runkit_end(&run);
    options = runkit_options(kit, &run, "obey", "");
    options.guardian = "/does/not/exist";
    runkit_begin(&run, &options);
    assert_string_equal(run.step, "guardian");
    runkit_end(&run);
    assert_int_equal(run.exited, 0);
}

/* ---- Those who do not go by themselves ---- */

static void one_that_ignores_the_request_is_killed(void **state) {
    struct runkit *kit = *state;
    struct runkit_run run;
    pid_t pids[RUNKIT_PIDS];
    runkit_start(kit, &run, "ignore-term", "");
    runkit_wait_pids(kit, 1, pids);
    run_term(run.run);
    run_kill(run.run);
    runkit_end(&run);
    assert_true(WIFSIGNALED(run.status));
    assert_int_equal(WTERMSIG(run.status), SIGKILL);
    assert_true(runkit_is_dead(pids[0]));
}

static void children_that_ignore_the_request_are_killed(void **state) {
    struct runkit *kit = *state;
    struct runkit_run run;
    pid_t pids[RUNKIT_PIDS];
    runkit_start(kit, &run, "fork-ignore 5", "");
    runkit_wait_pids(kit, 6, pids);
    run_term(run.run);
    runkit_wait_count(kit, &run.exited);
    assert_int_equal(run.gone, 0); /* five are left, and that is known */
    run_kill(run.run);
    runkit_end(&run);
    all_dead(pids, 6);
}

static void children_that_are_left_are_asked_too(void **state) {
    struct runkit *kit = *state;
    struct runkit_run run;
    pid_t pids[RUNKIT_PIDS];
    runkit_start(kit, &run, "leave-obey 3", "");
    runkit_wait_count(kit, &run.exited);
    runkit_wait_pids(kit, 3, pids);
    assert_int_equal(run.gone, 0);
    run_term(run.run);
    runkit_end(&run);
    all_dead(pids, 3);
}

static void a_daemon_does_not_get_away(void **state) {
    struct runkit *kit = *state;
    struct runkit_run run;
    struct process_stat stat;
    pid_t pids[RUNKIT_PIDS];
    runkit_start(kit, &run, "daemonise", "");
    runkit_wait_count(kit, &run.exited);
    runkit_wait_pids(kit, 1, pids);
    assert_int_equal(process_stat_read(pids[0], &stat), PROCESS_YES);
    assert_int_not_equal(stat.session, run.pid);
    assert_int_equal(run.gone, 0);
    run_kill(run.run);
    runkit_end(&run);
    assert_true(runkit_is_dead(pids[0]));
}

static void a_storm_of_forks_ends(void **state) {
    struct runkit *kit = *state;
    struct runkit_run run;
    pid_t pids[RUNKIT_PIDS];
    runkit_start(kit, &run, "storm 200", "");
    runkit_wait_pids(kit, 20, pids); /* the others are being born */
    run_kill(run.run);
    runkit_end(&run);
    all_dead(pids, runkit_pids(kit, pids));
}

/* ---- Guardians that are in trouble ---- */

static void what_a_killed_guardian_leaves_is_ended(void **state) {
    struct runkit *kit = *state;
    static const char *const words[] = {"fork-ignore 3", "daemonise", "storm 20"};
    static const unsigned counts[] = {4, 1, 20};
    struct runkit_run run;
    struct runkit_run other;
    pid_t pids[RUNKIT_PIDS];
    unsigned seen = 0;
    struct run_options options = runkit_options(kit, &other, "obey", "");
    options.ref = "other";
    runkit_begin(&other, &options);
    runkit_wait_pids(kit, ++seen, pids);
    for (size_t i = 0; i < 3; i++) {
        runkit_start(kit, &run, words[i], "");
        runkit_wait_pids(kit, seen + counts[i], pids);
        assert_int_equal(kill(runkit_guardian(kit), SIGKILL), 0);
        runkit_end(&run);
        all_dead(pids + seen, counts[i]);
        assert_int_equal(run.exited, 1);
        seen += counts[i];
    }
    assert_false(runkit_is_dead(pids[0])); /* another's is left alone */
    run_term(other.run);
    runkit_end(&other);
}

static void a_guardian_that_hangs_is_given_up(void **state) {
    struct runkit *kit = *state;
    struct runkit_run run;
    pid_t pids[RUNKIT_PIDS];
    struct run_options options = runkit_options(kit, &run, "ignore-term", "");
    options.guardian_late_ms = 1;
    runkit_begin(&run, &options);
    runkit_wait_pids(kit, 1, pids);
    assert_int_equal(kill(runkit_guardian(kit), SIGSTOP), 0);
    run_kill(run.run);
    runkit_end(&run);
    assert_true(runkit_is_dead(pids[0]));
}

/* The guardian ends with an order that it has not read: the socket then reports an error before the
 * guardian's last words. */
static void last_words_are_heard_whatever_was_asked_meanwhile(void **state) {
    struct runkit *kit = *state;
    struct runkit_run run;
    pid_t pids[RUNKIT_PIDS];
    runkit_start(kit, &run, "ignore-term", "");
    runkit_wait_pids(kit, 1, pids);
    pid_t guardian = runkit_guardian(kit);
    assert_int_equal(kill(guardian, SIGSTOP), 0);
    runkit_wait_state(kit, guardian, 'T');
    assert_int_equal(kill(pids[0], SIGKILL), 0);
    runkit_wait_state(kit, pids[0], 'Z');
    run_term(run.run);
    run_kill(run.run);
    assert_int_equal(kill(guardian, SIGCONT), 0);
    runkit_end(&run);
    assert_int_equal(run.exited, 1);
    assert_true(WIFSIGNALED(run.status));
    assert_int_equal(WTERMSIG(run.status), SIGKILL);
}

/* A guardian whose child is held up before its program begins: by a cgroup whose reader never
 * reads. */
static pid_t guardian_held_up(const struct runkit *kit, int *ret_socket) {
    static uint8_t bytes[RUN_FRAME_MAX];
    char cgroup[300];
    char procs[320];
    char ran[320];
    int ends[2];
    snprintf(cgroup, sizeof cgroup, "%s/cgroup", kit->dir);
    snprintf(procs, sizeof procs, "%s/cgroup.procs", cgroup);
    snprintf(ran, sizeof ran, "%s/ran", kit->dir);
    assert_true(mkdir(cgroup, 0700) == 0 || errno == EEXIST);
    assert_true(mkfifo(procs, 0600) == 0 || errno == EEXIST);
    struct run_frame_start start = {.cwd = "/",
                                    .log_dir = "",
                                    .cgroup = cgroup,
                                    .user = "",
                                    .group = "",
                                    .token_file = "",
                                    .rules_file = "",
                                    .argc = 2,
                                    .argv = {"touch", ran}};
    for (unsigned i = 0; i < SENSOR_LIMITS; i++) {
        start.limits[i] = SENSOR_UNLIMITED;
    }
    size_t len = run_frame_start_encode(&start, bytes, sizeof bytes);
    assert_true(len > 0);
    assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends), 0);
    pid_t guardian = fork();
    assert_true(guardian >= 0);
    if (guardian == 0) {
        if (ends[1] == RUN_FRAME_SOCKET ? fcntl(ends[1], F_SETFD, 0) == 0
                                        : dup2(ends[1], RUN_FRAME_SOCKET) == RUN_FRAME_SOCKET) {
            (void)execl(kit->guardian, kit->guardian, "sensor", (char *)NULL);
        }
        _exit(2);
    }
    (void)close(ends[1]);
    assert_int_equal(send(ends[0], bytes, len, MSG_NOSIGNAL), (ssize_t)len);
    *ret_socket = ends[0];
    return guardian;
}

static void a_guardian_need_not_wait_for_a_child_that_is_held_up(void **state) {
    struct runkit *kit = *state;
    static const uint8_t orders[] = {RUN_FRAME_TERM, RUN_FRAME_KILL, RUN_FRAME_LIVE, 0};
    char ran[320];
    snprintf(ran, sizeof ran, "%s/ran", kit->dir);
    for (size_t i = 0; i < sizeof orders; i++) {
        int server;
        int status;
        pid_t guardian = guardian_held_up(kit, &server);
        if (orders[i] != 0) { /* a deadline, if it is one, that has already passed */
            struct run_frame_order order = {.kind = orders[i], .live = {.kill_at_ms = 1}};
            uint8_t bytes[RUN_FRAME_SMALL_MAX];
            size_t len = run_frame_order_encode(&order, bytes);
            assert_int_equal(send(server, bytes, len, MSG_NOSIGNAL), (ssize_t)len);
        } else { /* the server has ended */
            assert_int_equal(close(server), 0);
        }
        assert_int_equal(waitpid(guardian, &status, 0), guardian);
        assert_int_equal(status, 0);
        assert_int_equal(access(ran, F_OK), -1);
        if (orders[i] != 0) {
            uint8_t said[RUN_FRAME_SMALL_MAX];
            static const uint8_t kinds[] = {RUN_FRAME_STARTED, RUN_FRAME_EXITED, RUN_FRAME_GONE};
            for (size_t k = 0; k < sizeof kinds; k++) {
                ssize_t n = recv(server, said, sizeof said, 0);
                if (n < 0 && errno == ECONNRESET) { /* the guardian did not read the order */
                    n = recv(server, said, sizeof said, 0);
                }
                assert_true(n > 0);
                assert_int_equal(said[0], kinds[k]);
            }
            assert_int_equal(close(server), 0);
        }
    }
}

static void a_guardian_does_not_mind_signals(void **state) {
    struct runkit *kit = *state;
    struct runkit_run run;
    pid_t pids[RUNKIT_PIDS];
    runkit_start(kit, &run, "obey", "");
    runkit_wait_pids(kit, 1, pids);
    pid_t guardian = runkit_guardian(kit);
    static const int signals[] = {SIGTERM, SIGINT, SIGHUP, SIGQUIT, SIGPIPE, SIGUSR1, SIGALRM};
    for (size_t i = 0; i < sizeof signals / sizeof signals[0]; i++) {
        assert_int_equal(kill(guardian, signals[i]), 0);
    }
    assert_int_equal(kill(-guardian, SIGTERM), 0);
    assert_false(runkit_is_dead(pids[0]));
    run_term(run.run);
    runkit_end(&run);
    assert_int_equal(run.status, 0);
}

/* The dummy in a guardian's place gets the sensor's name as its mode. */
static void what_is_no_guardian_starts_nothing(void **state) {
    struct runkit *kit = *state;
    static const char *const refs[] = {"unknown-mode", "babble"};
    struct runkit_run run;
    for (size_t i = 0; i < 2; i++) {
        struct run_options options = runkit_options(kit, &run, "obey", "");
        options.guardian = kit->dummy;
        options.ref = refs[i];
        runkit_begin(&run, &options);
        assert_int_equal(run.failed, 1);
        assert_string_equal(run.step, "guardian");
        runkit_end(&run);
    }
}

static void a_server_that_ignored_its_children_waits_for_them(void **state) {
    struct runkit *kit = *state;
    struct runkit_run run;
    (void)signal(SIGCHLD, SIG_IGN);
    runkit_start(kit, &run, "exit 3", "");
    runkit_end(&run);
    assert_int_equal(WEXITSTATUS(run.status), 3);
}

/* ---- Many ---- */

static void many_runs_live_next_to_each_other(void **state) {
    enum { COUNT = 30 };
    struct runkit *kit = *state;
    static struct runkit_run runs[COUNT];
    pid_t pids[RUNKIT_PIDS];
    char refs[COUNT][16];
    for (unsigned i = 0; i < COUNT; i++) {
        struct run_options options = runkit_options(kit, &runs[i], "fork-ignore 1", "");
        snprintf(refs[i], sizeof refs[i], "s/%u", i);
        options.ref = refs[i];
        assert_int_equal(run_start(&options, &runs[i].run), TN_OK);
    }
    runkit_wait_pids(kit, 2 * COUNT, pids);
    for (unsigned i = 0; i < COUNT; i++) {
        run_term(runs[i].run);
        run_kill(runs[i].run);
    }
    for (unsigned i = 0; i < COUNT; i++) {
        runkit_end(&runs[i]);
    }
    all_dead(pids, 2 * COUNT);
}

/* ---- Files that are not its own ---- */

static char removed[400]; /* the last one that was to be */

static enum tn_status remove_note(void *ctx, const char *path) {
    (void)ctx;
    snprintf(removed, sizeof removed, "%s", path);
    return TN_OK;
}

static enum tn_status make_dir_fail(void *ctx, const char *path) {
    (void)ctx;
    (void)path;
    return TN_NOSPACE;
}

static void one_without_a_directory_removes_nothing(void **state) {
    struct runkit *kit = *state;
    struct runkit_run run;
    struct os os = *os_posix();
    struct run_options options = runkit_options(kit, &run, "obey", "");
    os.make_dir = make_dir_fail;
    os.remove = remove_note;
    options.os = &os;
    runkit_begin(&run, &options);
    assert_int_equal(run.failed, 1);
    assert_int_equal(run.error, ENOSPC);
    runkit_end(&run);
    assert_string_equal(removed, "");
}

int main(void) {
#define CASE(name) cmocka_unit_test_setup_teardown(name, runkit_setup, runkit_teardown)
    const struct CMUnitTest tests[] = {
        CASE(a_run_starts_and_obeys),
        CASE(an_exit_is_told_as_it_was),
        CASE(orders_before_the_start_is_told_are_kept),
        CASE(what_cannot_be_started_is_named),
        CASE(one_that_ignores_the_request_is_killed),
        CASE(children_that_ignore_the_request_are_killed),
        CASE(children_that_are_left_are_asked_too),
        CASE(a_daemon_does_not_get_away),
        CASE(a_storm_of_forks_ends),
        CASE(what_a_killed_guardian_leaves_is_ended),
        CASE(a_guardian_that_hangs_is_given_up),
        CASE(last_words_are_heard_whatever_was_asked_meanwhile),
        CASE(a_guardian_need_not_wait_for_a_child_that_is_held_up),
        CASE(a_guardian_does_not_mind_signals),
        CASE(what_is_no_guardian_starts_nothing),
        CASE(a_server_that_ignored_its_children_waits_for_them),
        CASE(many_runs_live_next_to_each_other),
        CASE(one_without_a_directory_removes_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
