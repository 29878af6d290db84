/* Servers that are killed, and what the next server finds: every process of a run is dead, or is
 * ended by the new server, and no other process is touched. */
#include <fcntl.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/bytes.h"
#include "base/hash.h"
#include "lib/runkit.h"
#include "process/cgroup.h"
#include "process/run_orphan.h"
#include "process/run_record.h"

struct told {
    struct run_orphans *orphans;
    unsigned gone, unproven, all_gone;
    char ref[KERNEL_RULE_MAX + 1]; /* of the last */
    struct kernel_lease_id lease;
    uint64_t epoch;
};

/* ---- The next server ---- */

static void told_gone(void *ctx, const char *ref, struct kernel_lease_id lease, uint64_t epoch) {
    struct told *told = ctx;
    told->gone++;
    snprintf(told->ref, sizeof told->ref, "%s", ref);
    told->lease = lease;
    told->epoch = epoch;
    assert_false(run_orphans_has(told->orphans, ref));
}

static void told_unproven(void *ctx, const char *ref, struct kernel_lease_id lease,
                          uint64_t epoch) {
    struct told *told = ctx;
    told->unproven++;
    snprintf(told->ref, sizeof told->ref, "%s", ref);
    told->lease = lease;
    told->epoch = epoch;
    assert_true(run_orphans_has(told->orphans, ref));
}

static void told_all_gone(void *ctx) {
    struct told *told = ctx;
    told->all_gone++;
    run_orphans_free(told->orphans);
}

static const struct run_orphans_hooks hooks = {
    .gone = told_gone, .unproven = told_unproven, .all_gone = told_all_gone};

static void orphans_end(struct runkit *kit, struct told *told) {
    *told = (struct told){.gone = 0};
    assert_int_equal(
        run_orphans_begin(&kit->loop, os_posix(), kit->sensors, hooks, told, &told->orphans),
        TN_OK);
    assert_int_equal(told->gone + told->all_gone, 0);
    runkit_wait_count(kit, &told->all_gone);
}

/* ---- A server that will be killed ---- */

static enum run_record_proof proof; /* proof of the runs of the next servers */

static void serve(struct runkit *kit, const char *const *words, unsigned count) {
    struct runkit_run *runs = calloc(count, sizeof *runs);
    char ref[16];
    runkit_reopen(kit);
    for (unsigned i = 0; i < count && runs != NULL; i++) {
        struct run_options options = runkit_options(kit, &runs[i], words[i], "");
        snprintf(ref, sizeof ref, "s%u", i);
        options.ref = ref;
        options.token = tn_bytes_of("secret", 6);
        options.proof = proof;
        runkit_begin(&runs[i], &options);
    }
    for (;;) {
        uv_run(&kit->loop, UV_RUN_ONCE);
    }
}

/* Its pid, once all the processes of its sensors have come. */
static pid_t server_start(struct runkit *kit, const char *const *words, unsigned count,
                          unsigned processes, pid_t pids[RUNKIT_PIDS]) {
    pid_t server = fork();
    assert_true(server >= 0);
    if (server == 0) {
        serve(kit, words, count);
    }
    runkit_wait_pids(kit, processes, pids);
    return server;
}

static void server_kill(pid_t server) {
    int status;
    assert_int_equal(kill(server, SIGKILL), 0);
    assert_int_equal(waitpid(server, &status, 0), server);
}

static void path_of(const struct runkit *kit, const char *ref, const char *name, char out[400]) {
    snprintf(out, 400, "%s/%s%s%s", kit->sensors, ref, name[0] != '\0' ? "/" : "", name);
}

static void record_of(const struct runkit *kit, const char *ref, struct run_record *ret_record) {
    char path[400];
    path_of(kit, ref, "", path);
    assert_int_equal(run_record_read(os_posix(), path, ret_record), TN_OK);
}

static void nothing_is_left(const struct runkit *kit, const char *ref) {
    char path[400];
    path_of(kit, ref, "run", path);
    assert_int_not_equal(access(path, F_OK), 0);
    path_of(kit, ref, "token", path);
    assert_int_not_equal(access(path, F_OK), 0);
}

/* ---- Tests ---- */

static void where_nothing_was_nothing_is_waited_for(void **state) {
    struct told told;
    orphans_end(*state, &told);
    assert_int_equal(told.gone, 0);
}

static void a_killed_server_leaves_nothing(void **state) {
    struct runkit *kit = *state;
    static const char *const words[] = {"obey", "ignore-term", "fork-ignore 3", "daemonise",
                                        "leave 2"};
    struct told told;
    pid_t pids[RUNKIT_PIDS];
    pid_t server = server_start(kit, words, 5, 9, pids);
    server_kill(server);
    orphans_end(kit, &told);
    assert_true(told.gone <=
                5); /* some guardians have removed their records before we have looked */
    assert_int_equal(told.unproven, 0);
    for (unsigned i = 0; i < 9; i++) {
        assert_true(runkit_is_dead(pids[i]));
    }
    for (unsigned i = 0; i < 5; i++) {
        char ref[16];
        snprintf(ref, sizeof ref, "s%u", i);
        nothing_is_left(kit, ref);
    }
    orphans_end(kit, &told);
    assert_int_equal(told.gone, 0);
}

static bool is_ended(pid_t pid) {
    /* The process that reaps for us may not have done so yet: a zombie counts as ended. */
    struct process_stat stat;
    return process_stat_read(pid, &stat) == PROCESS_NO || stat.state == 'Z' || stat.state == 'X';
}

/* The server cannot help: it is stopped before its guardian is killed. */
static void server_and_guardian_kill(struct runkit *kit, pid_t server) {
    struct run_record record;
    record_of(kit, "s0", &record);
    assert_int_equal(kill(server, SIGSTOP), 0);
    assert_int_equal(kill(record.guardian, SIGKILL), 0);
    server_kill(server);
}

/* It is ended as far as it can be recognized; but that proves nothing. */
static void what_both_leave_is_ended_and_unproven(void **state) {
    struct runkit *kit = *state;
    static const char *const cases[] = {"fork-ignore 3", "daemonise", "storm 12"};
    static const unsigned counts[] = {4, 1, 12};
    struct told told;
    struct run_record record;
    pid_t pids[RUNKIT_PIDS];
    unsigned seen = 0;
    for (unsigned i = 0; i < 3; i++) {
        pid_t server = server_start(kit, &cases[i], 1, seen + counts[i], pids);
        server_and_guardian_kill(kit, server);
        for (unsigned life = 0; life < 2; life++) { /* the run is not forgotten */
            orphans_end(kit, &told);
            assert_int_equal(told.gone, 0);
            assert_int_equal(told.unproven, 1);
            assert_string_equal(told.ref, "s0");
            assert_int_equal(told.lease.lsn, 7);
            assert_int_equal(told.epoch, 3);
            record_of(kit, "s0", &record);
        }
        for (unsigned j = seen; j < seen + counts[i]; j++) {
            assert_true(is_ended(pids[j]));
        }
        run_orphans_vouch(os_posix(), kit->sensors, "s0");
        nothing_is_left(kit, "s0");
        seen += counts[i];
    }
}

/* Stops it and waits until it is stopped: a signal is delivered when its process runs next. */
static void guardian_stop(pid_t guardian) {
    struct process_stat stat = {.state = 'R'};
    assert_int_equal(kill(guardian, SIGSTOP), 0);
    while (stat.state != 'T') {
        assert_int_equal(process_stat_read(guardian, &stat), PROCESS_YES);
        (void)sched_yield();
    }
}

static void a_stopped_guardian_goes_on_and_ends_its_run(void **state) {
    struct runkit *kit = *state;
    static const char *const words[] = {"ignore-term"};
    struct told told;
    struct run_record record;
    pid_t pids[RUNKIT_PIDS];
    pid_t server = server_start(kit, words, 1, 1, pids);
    record_of(kit, "s0", &record);
    guardian_stop(record.guardian);
    server_kill(server);
    orphans_end(kit, &told);
    assert_int_equal(told.gone, 1);
    assert_true(is_ended(pids[0]));
    assert_true(is_ended(record.guardian));
}

/* Stops the guardian now, and again and again until it has ended. */
static pid_t stopper_start(pid_t guardian) {
    struct timespec moment = {.tv_nsec = 100000};
    guardian_stop(guardian);
    pid_t stopper = fork();
    assert_true(stopper >= 0);
    while (stopper == 0) {
        if (kill(guardian, SIGSTOP) != 0) {
            _exit(0);
        }
        (void)nanosleep(&moment, NULL);
    }
    return stopper;
}

static bool is_free(const char *path) {
    int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    assert_true(fd >= 0);
    bool free = flock(fd, LOCK_EX | LOCK_NB) == 0;
    (void)close(fd);
    return free;
}

/* The kernel has ended all of the namespace with its first process, the guardian. */
static void what_both_leave_of_a_namespace_is_proven_dead(void **state) {
    struct runkit *kit = *state;
    static const char *const modes[] = {"lock-forget", "lock-chain"};
    struct told told;
    pid_t pids[RUNKIT_PIDS];
    char lock[300];
    char words[400];
    const char *list[] = {words};
    if (!run_can_pidns(kit->guardian)) {
        skip();
    }
    snprintf(lock, sizeof lock, "%s/lock", kit->dir);
    proof = RUN_RECORD_PIDNS;
    for (unsigned i = 0; i < 2; i++) {
        snprintf(words, sizeof words, "%s %s", modes[i], lock);
        pid_t server = server_start(kit, list, 1, 2 * (i + 1), pids);
        assert_false(is_free(lock));
        server_and_guardian_kill(kit, server);
        orphans_end(kit, &told);
        assert_true(is_free(lock));
        assert_int_equal(told.gone, 1);
        nothing_is_left(kit, "s0");
    }
    proof = RUN_RECORD_REAPED;
}

/* The process that holds the lock has a session of its own and an empty environment; another one
 * forks each millisecond and exits. Only the guardian, which never runs, can find them. */
static void all_below_a_guardian_that_hangs_is_ended_before_it(void **state) {
    struct runkit *kit = *state;
    static const char *const modes[] = {"lock-forget", "lock-chain"};
    struct told told;
    struct run_record record;
    pid_t pids[RUNKIT_PIDS];
    char lock[300];
    char words[400];
    const char *list[] = {words};
    int status;
    snprintf(lock, sizeof lock, "%s/lock", kit->dir);
    for (unsigned i = 0; i < 2; i++) {
        snprintf(words, sizeof words, "%s %s", modes[i], lock);
        pid_t server = server_start(kit, list, 1, 2 * (i + 1), pids);
        assert_false(is_free(lock));
        record_of(kit, "s0", &record);
        pid_t stopper = stopper_start(record.guardian);
        server_kill(server);
        told = (struct told){.gone = 0};
        assert_int_equal(
            run_orphans_begin(&kit->loop, os_posix(), kit->sensors, hooks, &told, &told.orphans),
            TN_OK);
        run_orphans_patience(told.orphans, 1);
        runkit_wait_count(kit, &told.all_gone);
        assert_true(is_free(lock)); /* free from the moment at which the end is reported */
        assert_int_equal(told.gone, 1);
        nothing_is_left(kit, "s0");
        (void)kill(stopper, SIGKILL);
        assert_int_equal(waitpid(stopper, &status, 0), stopper);
    }
}

/* ---- Those who are not ours ---- */

struct innocent {
    pid_t pid;
    uint64_t start;
};

static struct innocent innocent_make(void) {
    struct innocent innocent = {.pid = fork()};
    struct process_stat stat;
    assert_true(innocent.pid >= 0);
    if (innocent.pid == 0) {
        (void)setsid();
        for (;;) {
            pause();
        }
    }
    do { /* it has a session of its own, as a run would */
        assert_int_equal(process_stat_read(innocent.pid, &stat), PROCESS_YES);
    } while (stat.session != innocent.pid);
    innocent.start = stat.start;
    return innocent;
}

static void innocent_end(struct innocent innocent) {
    int status;
    assert_int_equal(waitpid(innocent.pid, &status, WNOHANG), 0); /* it lives */
    assert_int_equal(kill(innocent.pid, SIGTERM), 0);
    assert_int_equal(waitpid(innocent.pid, &status, 0), innocent.pid);
    assert_true(WIFSIGNALED(status));
    assert_int_equal(WTERMSIG(status), SIGTERM);
}

static void record_put(const struct runkit *kit, const struct run_record *record) {
    char path[400];
    (void)mkdir(kit->sensors, 0700);
    path_of(kit, record->ref, "", path);
    (void)mkdir(path, 0700);
    assert_int_equal(run_record_write(os_posix(), path, record), TN_OK);
}

static void whoever_got_the_pid_is_not_touched(void **state) {
    struct runkit *kit = *state;
    struct innocent innocent = innocent_make();
    struct told told;
    struct run_record record = {.lease = {.lsn = 9},
                                .epoch = 2,
                                .guardian = innocent.pid,
                                .guardian_start = innocent.start + 1,
                                .main = innocent.pid,
                                .main_start = innocent.start - 1,
                                .id = "00112233445566778899aabbccddeeff",
                                .ref = "s0"};
    assert_true(process_boot_id(record.boot));
    record_put(kit, &record);
    orphans_end(kit, &told);
    assert_int_equal(told.unproven, 1);
    assert_int_equal(told.lease.lsn, 9);
    innocent_end(innocent);
}

static void a_record_of_another_boot_is_only_removed(void **state) {
    struct runkit *kit = *state;
    struct innocent innocent = innocent_make();
    struct told told;
    struct run_record record = {.epoch = 2,
                                .guardian = innocent.pid,
                                .guardian_start = innocent.start,
                                .main = innocent.pid,
                                .main_start = innocent.start,
                                .boot = "00000000-0000-0000-0000-000000000000",
                                .id = "00112233445566778899aabbccddeeff",
                                .ref = "s0"};
    record_put(kit, &record);
    orphans_end(kit, &told);
    assert_int_equal(told.gone, 1);
    nothing_is_left(kit, "s0");
    innocent_end(innocent);
}

/* As in a container whose first process the server is. */
static void what_a_server_that_was_the_first_process_left_died_with_it(void **state) {
    struct runkit *kit = *state;
    struct told told;
    struct run_record record = {.ref = "s0", .id = "x", .server = 1, .server_namespace = 3};
    assert_true(process_boot_id(record.boot));
    record_put(kit, &record);
    orphans_end(kit, &told);
    assert_int_equal(told.gone, 1);
    nothing_is_left(kit, "s0");
}

static void what_another_namespace_holds_is_unproven(void **state) {
    struct runkit *kit = *state;
    struct told told;
    struct run_record record = {
        .ref = "s0", .id = "x", .server = 2, .server_namespace = 3, .proof = RUN_RECORD_PIDNS};
    assert_true(process_boot_id(record.boot));
    record_put(kit, &record);
    orphans_end(kit, &told);
    assert_int_equal(told.gone, 0);
    assert_int_equal(told.unproven, 1);
}

static void a_record_of_the_first_version_is_read(void **state) {
    struct runkit *kit = *state;
    struct run_record record = {.ref = "s0", .id = "x", .boot = "b", .server = 9, .epoch = 4};
    struct run_record got;
    uint8_t bytes[4096];
    char path[400];
    record_put(kit, &record);
    path_of(kit, "s0", "run", path);
    FILE *file = fopen(path, "r+b");
    assert_non_null(file);
    size_t len = fread(bytes, 1, sizeof bytes, file);
    assert_true(len > 73);
    memmove(bytes + 60, bytes + 73, len - 73);
    bytes[6] = '1';
    len -= 13;
    tn_store32(bytes + 8, tn_crc32c(0, bytes + 12, len - 12));
    rewind(file);
    assert_int_equal(fwrite(bytes, 1, len, file), len);
    assert_int_equal(fclose(file), 0);
    assert_int_equal(truncate(path, (off_t)len), 0);
    record_of(kit, "s0", &got);
    assert_int_equal(got.epoch, 4);
    assert_int_equal(got.server, 0);
    assert_int_equal(got.proof, RUN_RECORD_REAPED);
    assert_string_equal(got.ref, "s0");
}

static void a_torn_record_is_as_good_as_none(void **state) {
    struct runkit *kit = *state;
    struct told told;
    struct run_record record = {.ref = "s0", .id = "x"};
    char path[400];
    assert_true(process_boot_id(record.boot));
    record_put(kit, &record);
    path_of(kit, "s0", "run", path);
    assert_int_equal(truncate(path, 40), 0);
    orphans_end(kit, &told);
    assert_int_equal(told.gone, 0);
    nothing_is_left(kit, "s0");
}

static void what_cannot_be_read_is_not_taken_for_nothing(void **state) {
    struct runkit *kit = *state;
    struct told told = {.gone = 0};
    assert_int_equal(run_orphans_begin(&kit->loop, os_posix(), kit->dummy /* a file */, hooks,
                                       &told, &told.orphans),
                     TN_INVALID);
    uv_run(&kit->loop, UV_RUN_ONCE);
    assert_int_equal(told.all_gone, 0);
}

/* A process that a check left has lost its environment: only its cgroup shows whose it is. */
static void what_a_check_left_in_its_cgroup_is_ended(void **state) {
    struct runkit *kit = *state;
    struct run_record record = {
        .ref = "s", .guardian = 1, .guardian_start = 1, .proof = RUN_RECORD_CGROUP};
    struct told told;
    char path[400];
    char check[RUN_RECORD_PATH_MAX + sizeof RUN_RECORD_CHECK];
    int status;
    if (geteuid() != 0 || !process_cgroup_find(record.cgroup, sizeof record.cgroup - 64)) {
        skip();
    }
    snprintf(record.cgroup + strlen(record.cgroup), 64, "/tenure-test-%d", (int)getpid());
    snprintf(check, sizeof check, "%s" RUN_RECORD_CHECK, record.cgroup);
    assert_int_equal(process_cgroup_make(check), 0);
    assert_true(process_boot_id(record.boot));
    (void)mkdir(kit->sensors, 0700);
    path_of(kit, "s", "", path);
    assert_int_equal(mkdir(path, 0700), 0);
    assert_int_equal(run_record_write(os_posix(), path, &record), TN_OK);
    pid_t left = fork();
    assert_true(left >= 0);
    if (left == 0) {
        _exit(process_cgroup_enter(check) == 0 && pause() != 0);
    }
    while (process_cgroup_empty(check)) {
        assert_int_equal(waitpid(left, &status, WNOHANG), 0); /* it could not enter the cgroup */
        (void)sched_yield();
    }
    orphans_end(kit, &told);
    assert_int_equal(told.gone, 1);
    /* The cgroup cannot be removed while a process is in it. */
    bool removed = access(check, F_OK) != 0;
    (void)kill(left, SIGKILL);
    assert_int_equal(waitpid(left, &status, 0), left);
    process_cgroup_remove(check);
    assert_true(removed);
    nothing_is_left(kit, "s");
}

static void waiting_can_be_given_up(void **state) {
    struct runkit *kit = *state;
    struct told told = {.gone = 0};
    assert_int_equal(
        run_orphans_begin(&kit->loop, os_posix(), kit->sensors, hooks, &told, &told.orphans),
        TN_OK);
    run_orphans_free(told.orphans);
    uv_run(&kit->loop, UV_RUN_ONCE);
    assert_int_equal(told.all_gone, 0);
}

int main(void) {
#define CASE(name) cmocka_unit_test_setup_teardown(name, runkit_setup, runkit_teardown)
    const struct CMUnitTest tests[] = {
        CASE(where_nothing_was_nothing_is_waited_for),
        CASE(a_killed_server_leaves_nothing),
        CASE(what_both_leave_is_ended_and_unproven),
        CASE(a_stopped_guardian_goes_on_and_ends_its_run),
        CASE(all_below_a_guardian_that_hangs_is_ended_before_it),
        CASE(what_both_leave_of_a_namespace_is_proven_dead),
        CASE(what_a_server_that_was_the_first_process_left_died_with_it),
        CASE(what_another_namespace_holds_is_unproven),
        CASE(a_record_of_the_first_version_is_read),
        CASE(whoever_got_the_pid_is_not_touched),
        CASE(a_record_of_another_boot_is_only_removed),
        CASE(a_torn_record_is_as_good_as_none),
        CASE(what_cannot_be_read_is_not_taken_for_nothing),
        CASE(what_a_check_left_in_its_cgroup_is_ended),
        CASE(waiting_can_be_given_up),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
