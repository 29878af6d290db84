/* What a sensor finds around it: descriptors, variables, limits, signals, user, directory, token, cgroup;
 * and what becomes of its output. */
#include <errno.h>
#include <fcntl.h>
#include <pwd.h>
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
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "lib/runkit.h"
#include "process/cgroup.h"
#include "process/proc.h"
#include "process/run_output.h"

static void path_of(const struct runkit *kit, const char *name, char out[400]) {
    snprintf(out, 400, "%s/sensor/%s", kit->sensors, name);
}

static void stop(struct runkit_run *run) {
    run_term(run->run);
    runkit_end(run);
}

/* Runs "show" to its end; its output is the caller's to free. */
static char *show(struct runkit *kit, const char *more) {
    struct runkit_run run;
    pid_t pids[RUNKIT_PIDS];
    unsigned before = runkit_pids(kit, pids);
    runkit_start(kit, &run, "show", more);
    runkit_wait_pids(kit, before + 1, pids);
    stop(&run);
    return runkit_output(kit, "sensor");
}

static void has_line(const char *text, const char *line) {
    char whole[600];
    snprintf(whole, sizeof whole, "\n%s\n", line);
    size_t len = strlen(line);
    bool first = strncmp(text, line, len) == 0 && text[len] == '\n';
    if (!first && strstr(text, whole) == NULL) {
        fail_msg("no line \"%s\" in:\n%s", line, text);
    }
}

static unsigned lines_with(const char *text, const char *start) {
    unsigned count = 0;
    for (const char *line = text; *line != '\0'; line = strchrnul(line, '\n') + 1) {
        count += strncmp(line, start, strlen(start)) == 0;
        if (strchr(line, '\n') == NULL) {
            break;
        }
    }
    return count;
}

/* ---- Surroundings ---- */

static void nothing_of_the_server_is_inherited(void **state) {
    struct runkit *kit = *state;
    int left_open = open("/etc/passwd", O_RDONLY); /* without close-on-exec, on purpose */
    assert_true(left_open > 2);
    (void)signal(SIGUSR1, SIG_IGN);
    sigset_t blocked;
    sigset_t before;
    (void)sigemptyset(&blocked);
    (void)sigaddset(&blocked, SIGUSR2);
    (void)sigprocmask(SIG_BLOCK, &blocked, &before);
    assert_int_equal(setenv("SENSOR_TEST_SECRET", "x", 1), 0);
    char *shown = show(kit, "");
    has_line(shown, "fd 0 /dev/null");
    has_line(shown, "fd 1 pipe");
    has_line(shown, "fd 2 pipe");
    assert_int_equal(lines_with(shown, "fd "), 3);
    assert_int_equal(lines_with(shown, "ignored "), 0);
    assert_int_equal(lines_with(shown, "blocked "), 0);
    assert_null(strstr(shown, "SENSOR_TEST_SECRET"));
    has_line(shown, "leads 1");
    has_line(shown, "cwd /");
    free(shown);
    (void)unsetenv("SENSOR_TEST_SECRET");
    (void)sigprocmask(SIG_SETMASK, &before, NULL);
    (void)signal(SIGUSR1, SIG_DFL);
    (void)close(left_open);
}

static void the_environment_is_exactly_what_it_should_be(void **state) {
    struct runkit *kit = *state;
    static const char *const more[] = {"TENURE_EPOCH=3", "OVERRIDDEN=by options"};
    static const char *const inherited[] = {"PATH", "HOME", "LANG", "TZ"};
    struct runkit_run run;
    pid_t pids[RUNKIT_PIDS];
    char line[600];
    char path[400];
    unsigned expected = 10; /* those below */
    const struct passwd *user = getpwuid(geteuid());
    struct run_options options =
        runkit_options(kit, &run, "show", ",\"token_env\":\"ATTUNE_TOKEN\"");
    const char *env[] = {run.spec->env[0], "OVERRIDDEN=by the description", "LANG=C.UTF-8"};
    run.spec->env = env;
    run.spec->envc = 3;
    options.env = more;
    options.env_count = 2;
    options.token = tn_bytes_of("the-token", 9);
    runkit_begin(&run, &options);
    runkit_wait_pids(kit, 1, pids);
    stop(&run);
    char *shown = runkit_output(kit, "sensor");
    for (size_t i = 0; i < 4; i++) {
        const char *value = getenv(inherited[i]);
        if (value != NULL && i != 2) {
            snprintf(line, sizeof line, "env %s=%s", inherited[i], value);
            has_line(shown, line);
            expected++;
        }
    }
    has_line(shown, "env LANG=C.UTF-8");
    has_line(shown, "env OVERRIDDEN=by options");
    has_line(shown, "env TENURE_EPOCH=3");
    has_line(shown, "env ATTUNE_TOKEN=the-token");
    has_line(shown, "env TENURE_TOKEN_ENV=ATTUNE_TOKEN");
    assert_non_null(user);
    snprintf(line, sizeof line, "env USER=%s", user->pw_name);
    has_line(shown, line);
    snprintf(line, sizeof line, "env LOGNAME=%s", user->pw_name);
    has_line(shown, line);
    if (getenv("HOME") == NULL) {
        snprintf(line, sizeof line, "env HOME=%s", user->pw_dir);
        has_line(shown, line);
        expected++;
    }
    snprintf(line, sizeof line, "env SENSOR_DUMMY_PIDS=%s", kit->pids);
    has_line(shown, line);
    path_of(kit, "token", path);
    snprintf(line, sizeof line, "env TENURE_TOKEN_FILE=%s", path);
    has_line(shown, line);
    assert_int_equal(lines_with(shown, "env TENURE_RUN_ID="), 1);
    assert_int_equal(lines_with(shown, "env "), expected);
    free(shown);
}

static void limits_are_set(void **state) {
    char *shown = show(*state, ",\"cwd\":\"/tmp\",\"limits\":{\"nofile\":77,\"cpu_seconds\":1000,"
                               "\"processes\":5000,\"file_bytes\":1000000,\"core_bytes\":0}");
    has_line(shown, "limit nofile 77 77");
    has_line(shown, "limit cpu 1000 1000");
    has_line(shown, "limit processes 5000 5000");
    has_line(shown, "limit file 1000000 1000000");
    has_line(shown, "limit core 0 0");
    has_line(shown, "cwd /tmp");
    free(shown);
}

/* By a shell: a program with sanitizers wants more than any limit. */
static void memory_is_limited(void **state) {
    struct runkit *kit = *state;
    struct runkit_run run;
    struct run_options options =
        runkit_options(kit, &run, "obey", ",\"limits\":{\"memory_bytes\":1073741824}");
    const char *argv[] = {"sh", "-c", "ulimit -v", NULL}; /* found by PATH */
    run.spec->argv = argv;
    run.spec->argc = 3;
    runkit_begin(&run, &options);
    runkit_end(&run);
    char *shown = runkit_output(kit, "sensor");
    assert_string_equal(shown, "1048576\n");
    free(shown);
}

static void a_group_alone_can_be_asked_for(void **state) {
    struct runkit *kit = *state;
    if (geteuid() != 0) {
        skip();
    }
    char *shown = show(kit, ",\"group\":\"daemon\"");
    has_line(shown, "user 0 0");
    has_line(shown, "group 1 1");
    assert_int_equal(lines_with(shown, "groups "), 1);
    free(shown);
}

static void another_user_is_the_root_users_to_ask_for(void **state) {
    struct runkit *kit = *state;
    struct runkit_run run;
    const struct passwd *nobody = getpwnam("nobody");
    assert_non_null(nobody);
    uid_t uid = nobody->pw_uid;
    gid_t gid = nobody->pw_gid;
    char home[400];
    snprintf(home, sizeof home, "env HOME=%s", nobody->pw_dir);
    pid_t pids[RUNKIT_PIDS];
    char path[400];
    char line[100];
    struct stat st;
    struct run_options options = runkit_options(kit, &run, "show", ",\"user\":\"nobody\"");
    options.token = tn_bytes_of("the-token", 9);
    if (geteuid() != 0) {
        runkit_begin(&run, &options);
        assert_string_equal(run.step, "user");
        runkit_end(&run);
        return;
    }
    /* The run's user must be able to reach the dummy and its files. */
    assert_int_equal(chmod(kit->dir, 0777), 0);
    runkit_begin(&run, &options);
    if (run.failed > 0) { /* the build may be in a directory that this user cannot enter */
        assert_string_equal(run.step, "exec");
        runkit_end(&run);
        skip();
    }
    runkit_wait_pids(kit, 1, pids);
    path_of(kit, "token", path);
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_uid, uid);
    assert_int_equal(st.st_mode & 0777, 0600);
    assert_int_equal(run_token_write(run.run, tn_bytes_of("another", 7)), TN_OK);
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_uid, uid);
    assert_int_equal(st.st_gid, gid);
    assert_int_equal(st.st_size, 7);
    stop(&run);
    char *shown = runkit_output(kit, "sensor");
    snprintf(line, sizeof line, "user %d %d", (int)uid, (int)uid);
    has_line(shown, line);
    snprintf(line, sizeof line, "group %d %d", (int)gid, (int)gid);
    has_line(shown, line);
    assert_int_equal(lines_with(shown, "groups 0"), 0);
    has_line(shown, "env USER=nobody");
    has_line(shown, home);
    free(shown);
}

static void the_token_file_is_private_and_rewritten(void **state) {
    struct runkit *kit = *state;
    struct runkit_run run;
    char path[400];
    char text[32] = {0};
    struct stat st;
    struct run_options options = runkit_options(kit, &run, "obey", "");
    options.token = tn_bytes_of("first", 5);
    runkit_begin(&run, &options);
    path_of(kit, "token", path);
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0600);
    int held = open(path, O_RDONLY);
    assert_true(held >= 0);
    assert_int_equal(run_token_write(run.run, tn_bytes_of("second", 6)), TN_OK);
    assert_int_equal(read(held, text, sizeof text),
                     5); /* a reader gets the old or the new content, never a part */
    assert_string_equal(text, "first");
    (void)close(held);
    held = open(path, O_RDONLY);
    assert_int_equal(read(held, text, sizeof text), 6);
    assert_string_equal(text, "second");
    (void)close(held);
    run_kill(run.run);
    runkit_end(&run);
    assert_int_not_equal(access(path, F_OK), 0);
}

static void secrets_are_on_no_command_line(void **state) {
    struct runkit *kit = *state;
    struct runkit_run run;
    struct process_stat stat;
    char path[64];
    char text[512] = {0};
    struct run_options options = runkit_options(kit, &run, "obey", "");
    options.token = tn_bytes_of("the-token", 9);
    runkit_begin(&run, &options);
    assert_int_equal(process_stat_read((pid_t)run.pid, &stat), PROCESS_YES);
    snprintf(path, sizeof path, "/proc/%d/cmdline", (int)stat.parent);
    int file = open(path, O_RDONLY);
    ssize_t len = read(file, text, sizeof text);
    (void)close(file);
    assert_int_equal(len, sizeof "tenure-guardian\0sensor");
    assert_memory_equal(text, "tenure-guardian\0sensor", (size_t)len);
    snprintf(path, sizeof path, "/proc/%d/environ", (int)stat.parent);
    file = open(path, O_RDONLY);
    assert_int_equal(read(file, text, sizeof text), 0);
    (void)close(file);
    run_kill(run.run);
    runkit_end(&run);
}

static void a_check_runs_next_to_its_run(void **state) {
    struct runkit *kit = *state;
    struct runkit_run run;
    struct runkit_run check;
    char more[600];
    char path[400];
    pid_t pids[RUNKIT_PIDS];
    snprintf(more, sizeof more, ",\"health\":{\"command\":[\"%s\",\"exit\",\"3\"]}", kit->dummy);
    runkit_start(kit, &run, "obey", more);
    runkit_wait_pids(kit, 1, pids);
    for (int i = 0; i < 2; i++) {
        struct run_options options = runkit_options(kit, &check, "obey", more);
        options.check_of = run.run;
        runkit_begin(&check, &options);
        runkit_end(&check);
        assert_int_equal(WEXITSTATUS(check.status), 3);
    }
    path_of(kit, "run", path);
    assert_int_equal(access(path, F_OK), 0); /* the record is the run's */
    assert_int_equal(run.exited, 0);
    stop(&run);
}

/* ---- A pid namespace of its own ---- */

static bool can_pidns(const struct runkit *kit) {
    return run_can_pidns(kit->guardian);
}

/* By a shell: its pid there, how many processes it sees, its parent. */
static void it_sees_its_namespace_and_we_see_it(void **state) {
    struct runkit *kit = *state;
    struct runkit_run run;
    struct process_stat stat;
    if (!can_pidns(kit)) {
        skip();
    }
    struct run_options options = runkit_options(kit, &run, "obey", "");
    const char *argv[] = {"sh", "-c", "set -- /proc/[0-9]*; echo $$ $# $PPID; exec sleep 1000",
                          NULL};
    run.spec->argv = argv;
    run.spec->argc = 3;
    options.proof = RUN_RECORD_PIDNS;
    runkit_begin(&run, &options);
    assert_int_equal(run.failed, 0);
    runkit_wait_output(kit, "sensor", "2 2 1\n");
    assert_int_equal(process_stat_read((pid_t)run.pid, &stat), PROCESS_YES);
    assert_int_equal(stat.session, run.pid); /* the reported pid is the one seen from here */
    assert_int_equal(process_stat_read(stat.parent, &stat), PROCESS_YES);
    assert_int_equal(stat.parent, getpid());
    assert_int_equal(run_proof(run.run), RUN_RECORD_PIDNS);
    stop(&run);
    assert_true(WIFSIGNALED(run.status));
    assert_int_equal(WTERMSIG(run.status), SIGTERM);
    /* What we start otherwise is where we are. */
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        _exit(getppid() == 0);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
}

static void a_check_sees_the_namespace_of_its_run(void **state) {
    struct runkit *kit = *state;
    struct runkit_run run;
    struct runkit_run check;
    static const char more[] =
        ",\"health\":{\"command\":[\"/bin/sh\",\"-c\",\"kill -0 2 && test -d /proc/2\"]}";
    pid_t pids[RUNKIT_PIDS];
    if (!can_pidns(kit)) {
        skip();
    }
    struct run_options options = runkit_options(kit, &run, "obey", more);
    options.proof = RUN_RECORD_PIDNS;
    runkit_begin(&run, &options);
    runkit_wait_pids(kit, 1, pids);
    assert_int_equal(pids[0], 2);
    options = runkit_options(kit, &check, "obey", more);
    options.proof = RUN_RECORD_PIDNS;
    options.check_of = run.run;
    runkit_begin(&check, &options);
    runkit_end(&check);
    assert_int_equal(check.status, 0);
    stop(&run);
}

static void a_namespace_ends_with_its_guardian(void **state) {
    struct runkit *kit = *state;
    static const char *const modes[] = {"lock-forget", "lock-chain"};
    struct runkit_run run;
    struct process_stat stat;
    pid_t pids[RUNKIT_PIDS];
    char lock[200];
    char words[300];
    if (!can_pidns(kit)) {
        skip();
    }
    snprintf(lock, sizeof lock, "%s/lock", kit->dir);
    for (unsigned i = 0; i < 4; i++) {
        snprintf(words, sizeof words, "%s %s", modes[i % 2], lock);
        struct run_options options = runkit_options(kit, &run, words, "");
        options.proof = RUN_RECORD_PIDNS;
        options.guardian_late_ms = 1;
        runkit_begin(&run, &options);
        runkit_wait_pids(kit, 2 * (i + 1), pids);
        assert_int_equal(process_stat_read((pid_t)run.pid, &stat), PROCESS_YES);
        if (i < 2) { /* killed by somebody */
            assert_int_equal(kill(stat.parent, SIGKILL), 0);
        } else { /* stopped, and given up */
            assert_int_equal(kill(stat.parent, SIGSTOP), 0);
            run_kill(run.run);
        }
        runkit_end(&run);
        int fd = open(lock, O_RDWR | O_CLOEXEC);
        assert_true(fd >= 0);
        assert_int_equal(flock(fd, LOCK_EX | LOCK_NB), 0);
        (void)close(fd);
    }
}

/* ---- A cgroup of its own ---- */

static void a_cgroup_is_killed_in_one_stroke_and_removed(void **state) {
    struct runkit *kit = *state;
    struct runkit_run run;
    char base[4096];
    char own[64];
    pid_t pids[RUNKIT_PIDS];
    if (geteuid() != 0 || !process_cgroup_find(base, sizeof base)) {
        skip();
    }
    snprintf(own, sizeof own, "/tenure-test-%d", (int)getpid());
    strncat(base, own, sizeof base - strlen(base) - 1);
    assert_int_equal(process_cgroup_make(base), 0);
    struct run_options options = runkit_options(kit, &run, "storm 100", "");
    options.proof = RUN_RECORD_CGROUP;
    options.cgroup = base;
    runkit_begin(&run, &options);
    runkit_wait_pids(kit, 10, pids);
    assert_false(process_cgroup_empty(base));
    run_kill(run.run);
    runkit_end(&run);
    assert_true(process_cgroup_empty(base));
    unsigned count = runkit_pids(kit, pids);
    for (unsigned i = 0; i < count; i++) {
        assert_true(runkit_is_dead(pids[i]));
    }
    assert_int_equal(rmdir(base), 0); /* so the run's own, inside, is removed */
    /* And where none can be made, nothing is started. */
    options = runkit_options(kit, &run, "obey", "");
    options.proof = RUN_RECORD_CGROUP;
    options.cgroup = base;
    runkit_begin(&run, &options);
    assert_string_equal(run.step, "cgroup");
    assert_int_equal(run.error, ENOENT);
    runkit_end(&run);
}

/* ---- Output ---- */

static void output_is_rotated_and_read_back(void **state) {
    struct runkit *kit = *state;
    struct runkit_run run;
    struct run_output_position position = {.file = 0};
    static char bytes[20000];
    size_t len;
    bool lost;
    runkit_start(kit, &run, "print 64000", ",\"log_bytes\":10000,\"log_files\":3");
    runkit_wait_output(kit, "sensor", "\n999 ");
    stop(&run);
    /* 64000 bytes are seven files, of which three are kept. */
    size_t total = 0;
    char last[65] = {0};
    do {
        assert_int_equal(run_output_read(os_posix(), kit->sensors, "sensor", &position, bytes,
                                         999 /* over ends of files */, &len, &lost),
                         TN_OK);
        assert_false(lost);
        total += len;
        if (len >= 64) {
            memcpy(last, bytes + len - 64, 64);
        }
    } while (len > 0);
    assert_int_equal(total, 64000 - 4 * 10000);
    assert_int_equal(position.file, 7);
    assert_int_equal(position.offset, 4000);
    /* A position in a file that was rotated away is reported as lost, and reading continues with
     * the oldest output. */
    position = (struct run_output_position){.file = 2, .offset = 17};
    assert_int_equal(
        run_output_read(os_posix(), kit->sensors, "sensor", &position, bytes, 64, &len, &lost),
        TN_OK);
    assert_true(lost);
    assert_int_equal(position.file, 5);
    /* The last bytes. */
    assert_int_equal(run_output_tail(os_posix(), kit->sensors, "sensor", 6400, &position), TN_OK);
    assert_int_equal(run_output_read(os_posix(), kit->sensors, "sensor", &position, bytes,
                                     sizeof bytes, &len, &lost),
                     TN_OK);
    assert_int_equal(len, 6400);
    assert_int_equal(strtol(bytes, NULL, 10), 900);
    /* The next run continues in the file where this one ended. */
    runkit_start(kit, &run, "print 64", ",\"log_bytes\":10000,\"log_files\":3");
    runkit_wait_output(kit, "sensor", "\n0 ");
    stop(&run);
    assert_int_equal(run_output_read(os_posix(), kit->sensors, "sensor", &position, bytes,
                                     sizeof bytes, &len, &lost),
                     TN_OK);
    assert_int_equal(len, 64);
}

/* A directory lies where the file should be. */
static void log_obstruct(const struct runkit *kit, char path[400]) {
    assert_int_equal(mkdir(kit->sensors, 0700), 0);
    path_of(kit, "", path);
    assert_int_equal(mkdir(path, 0700), 0);
    path_of(kit, "log.1", path);
    assert_int_equal(mkdir(path, 0700), 0);
}

static void output_that_cannot_be_written_blocks_nobody(void **state) {
    struct runkit *kit = *state;
    struct runkit_run run;
    pid_t pids[RUNKIT_PIDS];
    char path[400];
    log_obstruct(kit, path);
    runkit_start(kit, &run, "print 4194304", "");
    runkit_wait_pids(kit, 1, pids); /* the process has printed everything */
    stop(&run);
    assert_int_equal(rmdir(path), 0);
    runkit_start(kit, &run, "print 640", "");
    runkit_wait_output(kit, "sensor", "\n9 ");
    stop(&run);
}

/* In a mount namespace of its own, with a disk of 64 KiB. Returns the exit code of the child: 0
 * success, 77 the test cannot run here. */
static int on_a_small_disk(struct runkit *kit) {
    struct runkit_run run;
    pid_t pids[RUNKIT_PIDS];
    runkit_reopen(kit);
    if (mkdir(kit->sensors, 0700) != 0 || unshare(CLONE_NEWNS) != 0 ||
        mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0 ||
        mount("none", kit->sensors, "tmpfs", 0, "size=64k") != 0) {
        return 77;
    }
    /* More than there is room for, and it prints it all. */
    runkit_start(kit, &run, "print 1000000", ",\"log_bytes\":1000000");
    runkit_wait_pids(kit, 1, pids);
    stop(&run);
    /* No room for a record: nothing may run. The last one's is free by now, and is filled. */
    char filler[4096] = {0};
    char path[400];
    path_of(kit, "filler", path);
    int file = open(path, O_WRONLY | O_CREAT, 0600);
    while (write(file, filler, sizeof filler) > 0) {
    }
    (void)close(file);
    struct run_options options = runkit_options(kit, &run, "obey", "");
    runkit_begin(&run, &options);
    if (run.failed == 0 || strcmp(run.step, "record") != 0 || run.error != ENOSPC) {
        return 1;
    }
    runkit_end(&run);
    return 0;
}

static void a_full_disk_blocks_nobody_and_starts_nothing(void **state) {
    struct runkit *kit = *state;
    int status;
    if (geteuid() != 0) {
        skip();
    }
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        _exit(on_a_small_disk(kit));
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    if (WEXITSTATUS(status) == 77) {
        skip();
    }
    assert_int_equal(WEXITSTATUS(status), 0);
}

static void what_was_lost_is_said(void **state) {
    struct runkit *kit = *state;
    struct runkit_run run;
    pid_t pids[RUNKIT_PIDS];
    char path[400];
    char go[160];
    char words[1200];
    log_obstruct(kit, path);
    snprintf(go, sizeof go, "%s/go", kit->dir);
    /* More than a pipe can hold; then, when there is a file again, a little. */
    struct run_options options = runkit_options(kit, &run, "obey", "");
    snprintf(words, sizeof words,
             "head -c 300000 /dev/zero | tr '\\0' x; echo $$ >>%s; until [ -e %s ]; do sleep 0.01; "
             "done; echo second",
             kit->pids, go);
    const char *argv[] = {"/bin/sh", "-c", words, NULL};
    run.spec->argv = argv;
    run.spec->argc = 3;
    runkit_begin(&run, &options);
    runkit_wait_pids(kit, 1, pids);
    assert_int_equal(rmdir(path), 0);
    int file = open(go, O_WRONLY | O_CREAT, 0600);
    assert_true(file >= 0);
    (void)close(file);
    runkit_end(&run);
    char *output = runkit_output(kit, "sensor");
    const char *said = strstr(output, "\n[tenure: ");
    assert_non_null(said);
    long lost = strtol(said + strlen("\n[tenure: "), NULL, 10);
    /* What was in the pipe, or on its way from there, was written. */
    assert_true(lost >= 300000 - 65536 - 16384 && lost <= 300000);
    const char *rest = strstr(said + 1, "]\n") + 2;
    assert_int_equal(strlen(rest), 300000 - lost + (long)strlen("second\n"));
    assert_string_equal(rest + strlen(rest) - strlen("second\n"), "second\n");
    free(output);
}

static void output_of_a_deleted_sensor_is_removed(void **state) {
    struct runkit *kit = *state;
    struct runkit_run run;
    char path[400];
    runkit_start(kit, &run, "print 20000", ",\"log_bytes\":4096,\"log_files\":3");
    runkit_wait_output(kit, "sensor", "\n312 ");
    stop(&run);
    path_of(kit, "log.5", path);
    assert_int_equal(access(path, F_OK), 0);
    run_output_remove(os_posix(), kit->sensors, "sensor");
    path_of(kit, "", path);
    assert_int_not_equal(access(path, F_OK), 0);
    /* Nothing but output is removed. */
    assert_int_equal(mkdir(path, 0700), 0);
    path_of(kit, "log.notes", path);
    (void)close(open(path, O_WRONLY | O_CREAT, 0600));
    run_output_remove(os_posix(), kit->sensors, "sensor");
    assert_int_equal(access(path, F_OK), 0);
    run_output_remove(os_posix(), kit->sensors, "never-was");
}

static void there_may_be_no_output_at_all(void **state) {
    struct runkit *kit = *state;
    struct run_output_position position = {.file = 0};
    char byte;
    size_t len;
    bool lost;
    assert_int_equal(
        run_output_read(os_posix(), kit->sensors, "none", &position, &byte, 1, &len, &lost),
        TN_NOTFOUND);
    assert_int_equal(run_output_tail(os_posix(), kit->sensors, "none", 1, &position), TN_NOTFOUND);
}

int main(void) {
#define CASE(name) cmocka_unit_test_setup_teardown(name, runkit_setup, runkit_teardown)
    const struct CMUnitTest tests[] = {
        CASE(nothing_of_the_server_is_inherited),
        CASE(the_environment_is_exactly_what_it_should_be),
        CASE(limits_are_set),
        CASE(memory_is_limited),
        CASE(a_group_alone_can_be_asked_for),
        CASE(another_user_is_the_root_users_to_ask_for),
        CASE(the_token_file_is_private_and_rewritten),
        CASE(secrets_are_on_no_command_line),
        CASE(a_check_runs_next_to_its_run),
        CASE(it_sees_its_namespace_and_we_see_it),
        CASE(a_check_sees_the_namespace_of_its_run),
        CASE(a_namespace_ends_with_its_guardian),
        CASE(a_cgroup_is_killed_in_one_stroke_and_removed),
        CASE(output_is_rotated_and_read_back),
        CASE(output_that_cannot_be_written_blocks_nobody),
        CASE(a_full_disk_blocks_nobody_and_starts_nothing),
        CASE(what_was_lost_is_said),
        CASE(output_of_a_deleted_sensor_is_removed),
        CASE(there_may_be_no_output_at_all),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
