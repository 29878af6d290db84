/* Starting the main process. It begins as a copy of the guardian and gets, step by step, the environment
 * that its program may expect: a session and process group of its own, no open descriptors but an empty
 * input and the log, no signal ignored or blocked, its limits, its user. A pipe, which the exec closes,
 * reports a step that fails.
 *
 * The user's name is looked up here and not in the server: the lookup may take long and load libraries
 * that ask a directory service. The exec removes them. */
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <poll.h>
#include <pwd.h>
#include <signal.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "guardian/guardian.h"
#include "process/cgroup.h"

#define NAMES_BYTES 16384u
#define GROUPS_MAX 64
#define VARIABLE_BYTES 4096u
#define VARIABLES 3u /* HOME, USER, LOGNAME */

/* The user and groups of the main process. */
struct identity {
    bool changes;
    uid_t uid;
    gid_t gid;
    gid_t groups[GROUPS_MAX];
    int group_count;
    char variables[VARIABLES][VARIABLE_BYTES]; /* empty: unknown */
};

struct complaint {
    uint32_t error;
    uint32_t step;
};

static _Noreturn void complain(int to, enum run_frame_step step, int error) {
    struct complaint complaint = {.error = (uint32_t)error, .step = step};
    ssize_t n;
    do {
        n = write(to, &complaint, sizeof complaint);
    } while (n < 0 && errno == EINTR);
    _exit(127);
}

static int stdio_set(int sink) {
    int nothing = open("/dev/null", O_RDONLY | O_CLOEXEC);
    if (nothing < 0 || dup2(nothing, 0) < 0 || dup2(sink, 1) < 0 || dup2(sink, 2) < 0) {
        return errno;
    }
    /* Other open files are closed by the exec. The pipe for failures must last until then. */
    return close_range(3, ~0u, CLOSE_RANGE_CLOEXEC) == 0 ? 0 : errno;
}

static int limits_set(const struct run_frame_start *start) {
    static const int kinds[SENSOR_LIMITS] = {
        [SENSOR_LIMIT_NOFILE] = RLIMIT_NOFILE, [SENSOR_LIMIT_MEMORY] = RLIMIT_AS,
        [SENSOR_LIMIT_CPU] = RLIMIT_CPU,       [SENSOR_LIMIT_PROCESSES] = RLIMIT_NPROC,
        [SENSOR_LIMIT_FILE] = RLIMIT_FSIZE,    [SENSOR_LIMIT_CORE] = RLIMIT_CORE,
    };
    for (int i = 0; i < SENSOR_LIMITS; i++) {
        struct rlimit limit = {.rlim_cur = start->limits[i], .rlim_max = start->limits[i]};
        if (start->limits[i] != SENSOR_UNLIMITED &&
            setrlimit((__rlimit_resource_t)kinds[i], &limit) != 0) {
            return errno;
        }
    }
    return 0;
}

/* ---- The user ---- */

/* An empty name means the guardian's own user. */
static int user_find(const char *name, struct identity *identity) {
    static const char *const texts[VARIABLES] = {"HOME=%s", "USER=%s", "LOGNAME=%s"};
    struct passwd entry;
    struct passwd *found = NULL;
    char names[NAMES_BYTES];
    int error = name[0] != '\0' ? getpwnam_r(name, &entry, names, sizeof names, &found)
                                : getpwuid_r(geteuid(), &entry, names, sizeof names, &found);
    if (found == NULL) {
        return error != 0 ? error : ENOENT;
    }
    identity->uid = found->pw_uid;
    identity->gid = name[0] != '\0' ? found->pw_gid : getegid();
    for (unsigned i = 0; i < VARIABLES; i++) {
        (void)snprintf(identity->variables[i], VARIABLE_BYTES, texts[i],
                       i == 0 ? found->pw_dir : found->pw_name);
    }
    return 0;
}

static int group_find(const char *name, struct identity *identity) {
    struct group entry;
    struct group *found = NULL;
    char names[NAMES_BYTES];
    int error = getgrnam_r(name, &entry, names, sizeof names, &found);
    if (found == NULL) {
        return error != 0 ? error : ENOENT;
    }
    identity->gid = found->gr_gid;
    return 0;
}

static void identity_find(const struct run_frame_start *start, int to, struct identity *identity) {
    int error;
    bool has_user = start->user[0] != '\0';
    *identity = (struct identity){.uid = geteuid(), .gid = getegid(), .group_count = GROUPS_MAX};
    identity->changes = has_user || start->group[0] != '\0';
    error = user_find(start->user, identity); /* a user without a name may still run programs */
    if (has_user && error != 0) {
        complain(to, RUN_FRAME_STEP_USER, error);
    }
    if (start->group[0] != '\0' && (error = group_find(start->group, identity)) != 0) {
        complain(to, RUN_FRAME_STEP_GROUP, error);
    }
    if (!has_user) {
        identity->groups[0] = identity->gid;
        identity->group_count = 1;
    } else if (getgrouplist(start->user, identity->gid, identity->groups, &identity->group_count) <
               0) {
        complain(to, RUN_FRAME_STEP_GROUP, E2BIG);
    }
    if (identity->changes && start->token_file[0] != '\0' &&
        lchown(start->token_file, identity->uid, identity->gid) != 0) {
        complain(to, RUN_FRAME_STEP_TOKEN, errno);
    }
    if (identity->changes && start->rules_file[0] != '\0' &&
        lchown(start->rules_file, identity->uid, identity->gid) != 0) {
        complain(to, RUN_FRAME_STEP_RULES, errno);
    }
}

static int identity_take(const struct identity *identity) {
    /* A guardian without root could not kill a program that gains rights. */
    if (geteuid() != 0 && prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) {
        return errno;
    }
    if (!identity->changes) {
        return 0;
    }
    if (setgroups((size_t)identity->group_count, identity->groups) != 0 ||
        setresgid(identity->gid, identity->gid, identity->gid) != 0 ||
        setresuid(identity->uid, identity->uid, identity->uid) != 0) {
        return errno;
    }
    return 0;
}

static bool variable_is_set(const struct run_frame_start *start, const char *variable) {
    size_t len = strcspn(variable, "=") + 1;
    for (uint32_t i = 0; i < start->envc; i++) {
        if (strncmp(start->env[i], variable, len) == 0) {
            return true;
        }
    }
    return false;
}

/* Sets the variables of the user, unless the description or the server sets them. */
static void variables_set(const struct run_frame_start *start, const struct identity *identity) {
    static const char *all[RUN_FRAME_VARIABLES_MAX + VARIABLES + 1];
    uint32_t count = start->envc;
    memcpy(all, start->env, count * sizeof all[0]);
    for (unsigned i = 0; i < VARIABLES; i++) {
        const char *variable = identity->variables[i];
        if (variable[0] != '\0' && !variable_is_set(start, variable)) {
            all[count++] = variable;
        }
    }
    environ = (char **)(uintptr_t)all; /* execvp does not change it, and searches the PATH in it */
}

/* ---- The child ---- */

/* Sets default actions for all signals, except those that a job ignores, as under nohup. */
static void signals_reset(uint64_t ignored) {
    struct sigaction usual = {.sa_handler = SIG_DFL};
    struct sigaction ignore = {.sa_handler = SIG_IGN};
    sigset_t none;
    for (int number = 1; number <= SIGRTMAX; number++) {
        bool is_ignored = (ignored >> (number - 1) & 1) != 0;
        /* Some cannot be changed, and need not be. */
        (void)sigaction(number, is_ignored ? &ignore : &usual, NULL);
    }
    (void)sigemptyset(&none);
    (void)sigprocmask(SIG_SETMASK, &none, NULL);
}

static _Noreturn void child_become(const struct run_frame_start *start, int sink, int to,
                                   pid_t guardian) {
    int error;
    struct identity identity;
    if (setsid() < 0 || prctl(PR_SET_PDEATHSIG, SIGKILL) != 0) {
        complain(to, RUN_FRAME_STEP_SESSION, errno);
    }
    if ((error = stdio_set(sink)) != 0) {
        complain(to, RUN_FRAME_STEP_STDIO, error);
    }
    identity_find(start, to, &identity); /* before the limits, which are not meant for the lookup */
    if (start->cgroup[0] != '\0' && (error = process_cgroup_enter(start->cgroup)) != 0) {
        complain(to, RUN_FRAME_STEP_CGROUP, error);
    }
    if ((error = limits_set(start)) != 0) {
        complain(to, RUN_FRAME_STEP_LIMITS, error);
    }
    if ((error = identity_take(&identity)) != 0) {
        complain(to, RUN_FRAME_STEP_USER, error);
    }
    /* After the user is set, because its permissions decide. */
    if (chdir(start->cwd) != 0) {
        complain(to, RUN_FRAME_STEP_CWD, errno);
    }
    /* After the user is set, because a change of the user clears it. If the guardian has died
     * before, the parent is another process. */
    if (prctl(PR_SET_PDEATHSIG, SIGKILL) != 0 || getppid() != guardian) {
        complain(to, RUN_FRAME_STEP_SESSION, ECHILD);
    }
    signals_reset(0);
    variables_set(start, &identity);
    (void)execvp(start->argv[0], (char *const *)(uintptr_t)start->argv);
    complain(to, RUN_FRAME_STEP_EXEC, errno);
}

/* A job stays where its guardian is, but gets a process group of its own. The guardian ignores
 * SIGTTOU, and so does this process until it has the terminal. */
static _Noreturn void job_become(const struct run_frame_start *start, char **command, int to,
                                 pid_t guardian) {
    int error;
    if (setpgid(0, 0) != 0 || close_range(3, ~0u, CLOSE_RANGE_CLOEXEC) != 0) {
        complain(to, RUN_FRAME_STEP_SESSION, errno);
    }
    if (start->foreground) {
        (void)tcsetpgrp(STDIN_FILENO, getpid()); /* if the terminal is gone, the job will notice */
    }
    if (start->cgroup[0] != '\0' && (error = process_cgroup_enter(start->cgroup)) != 0) {
        complain(to, RUN_FRAME_STEP_CGROUP, error);
    }
    if (geteuid() != 0 && prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) {
        complain(to, RUN_FRAME_STEP_USER, errno); /* see identity_take */
    }
    if (prctl(PR_SET_PDEATHSIG, SIGKILL) != 0 || getppid() != guardian) {
        complain(to, RUN_FRAME_STEP_SESSION, ECHILD);
    }
    signals_reset(start->ignored);
    (void)execvp(command[0], command);
    complain(to, RUN_FRAME_STEP_EXEC, errno);
}

/* Waits until the program begins, which closes the pipe, or the child reports a failure. The lookup
 * of the user may take long, so any order except LIVE, the deadline, and the end of the server end
 * the child. */
static ssize_t child_wait(pid_t child, int from, struct complaint *ret_complaint) {
    struct pollfd on[3] = {{.fd = from, .events = POLLIN},
                           {.fd = RUN_FRAME_SOCKET, .events = POLLIN},
                           {.fd = guardian_deadline_kill(), .events = POLLIN}};
    ssize_t n;
    while (on[0].revents == 0) {
        if (poll(on, 3, -1) > 0 && on[0].revents == 0 &&
            (on[2].revents != 0 || guardian_order_early())) {
            (void)kill(child, SIGKILL);
            on[1].fd = on[2].fd = -1;
        }
    }
    do {
        n = read(from, ret_complaint, sizeof *ret_complaint);
    } while (n < 0 && errno == EINTR);
    return n;
}

pid_t guardian_start(const struct run_frame_start *start, char **command, int sink,
                     uint32_t *ret_error, uint32_t *ret_step) {
    struct complaint complaint;
    int ends[2];
    pid_t guardian = getpid();
    pid_t child = pipe2(ends, O_CLOEXEC) == 0 ? fork() : -1;
    if (child < 0) {
        *ret_error = (uint32_t)errno;
        *ret_step = RUN_FRAME_STEP_FORK;
        return 0;
    }
    if (child == 0 && start->is_job) {
        job_become(start, command, ends[1], guardian);
    } else if (child == 0) {
        child_become(start, sink, ends[1], guardian);
    }
    (void)close(ends[1]);
    ssize_t n = child_wait(child, ends[0], &complaint);
    (void)close(ends[0]);
    if (n == 0) { /* closed by the exec, so the program runs, or the child was killed before */
        return child;
    }
    (void)waitpid(child, NULL, 0);
    *ret_error = n == (ssize_t)sizeof complaint ? complaint.error : EIO;
    *ret_step = n == (ssize_t)sizeof complaint ? complaint.step : RUN_FRAME_STEP_EXEC;
    return 0;
}
