/* Jobs: spawning a guardian, what it says, and ending the tree if it does not. */
#include "process/run_job.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/assert.h"
#include "process/cgroup.h"
#include "process/pidns.h"
#include "process/run_news.h"

#define GUARDIAN_NAME "tenure-guardian"

/* All whose guardian was not waited for: a child that is none of the guardians is an orphan. */
static struct run_job *jobs;
static bool orphans_are_ours;

static void count_visit(void *ctx, pid_t pid) {
    (void)pid;
    (*(unsigned *)ctx)++;
}

bool run_job_prepare(void) {
    unsigned children = 0;
    struct sigaction usual = {.sa_handler = SIG_DFL};
    (void)sigaction(SIGCHLD, &usual, NULL); /* an ignored child vanishes before it is waited for */
    orphans_are_ours = process_children(count_visit, &children) && children == 0 &&
                       prctl(PR_SET_CHILD_SUBREAPER, 1) == 0;
    return orphans_are_ours;
}

/* ---- The start ---- */

static int fail(struct run_job *job, enum run_frame_step step, int error) {
    job->step = step;
    job->error = error;
    return error;
}

/* The name, then the command; its streams and directory are ours, its session too, so that a terminal
 * stays theirs. NULL: no memory. */
static char **guardian_argv(const struct run_job_options *options) {
    size_t count = 0;
    while (options->argv[count] != NULL) {
        count++;
    }
    char **argv = calloc(count + 3, sizeof *argv);
    if (argv != NULL) {
        argv[0] = (char *)(uintptr_t)GUARDIAN_NAME;
        argv[1] = (char *)(uintptr_t)options->name;
        memcpy(argv + 2, options->argv, count * sizeof *argv);
    }
    return argv;
}

static int spawn(struct run_job *job, const struct run_job_options *options, int theirs) {
    posix_spawn_file_actions_t files;
    posix_spawnattr_t attributes;
    sigset_t all;
    sigset_t none;
    char **argv = guardian_argv(options);
    int error = argv == NULL ? ENOMEM : posix_spawn_file_actions_init(&files);
    if (error != 0) {
        free(argv);
        return error;
    }
    (void)sigfillset(&all);
    (void)sigemptyset(&none);
    (void)posix_spawnattr_init(&attributes);
    (void)posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGDEF |
                                                    POSIX_SPAWN_SETSIGMASK);
    (void)posix_spawnattr_setpgroup(&attributes, 0);
    (void)posix_spawnattr_setsigdefault(&attributes, &all);
    (void)posix_spawnattr_setsigmask(&attributes, &none);
    error = posix_spawn_file_actions_adddup2(&files, theirs, RUN_FRAME_SOCKET);
    if (error == 0 && options->no_input) {
        error = posix_spawn_file_actions_addopen(&files, 0, "/dev/null", O_RDONLY, 0);
    }
    if (error == 0) {
        error = posix_spawn_file_actions_addclosefrom_np(&files, RUN_FRAME_SOCKET + 1);
    }
    if (error == 0) {
        error = posix_spawn(&job->guardian, options->guardian, &files, &attributes, argv,
                            (char **)(uintptr_t)options->env);
    }
    (void)posix_spawn_file_actions_destroy(&files);
    (void)posix_spawnattr_destroy(&attributes);
    free(argv);
    return error;
}

static int spawn_contained(struct run_job *job, const struct run_job_options *options, int theirs) {
    bool in_namespace = options->proof == RUN_RECORD_PIDNS;
    int error = in_namespace ? process_pidns_enter(0) : 0;
    if (error != 0) {
        return fail(job, RUN_FRAME_STEP_CONTAINMENT, error);
    }
    error = spawn(job, options, theirs);
    bool left = process_pidns_leave();
    if (error == 0 && !left) { /* the next child would be born in there */
        (void)kill(job->guardian, SIGKILL);
        (void)waitpid(job->guardian, NULL, 0);
        error = EAGAIN;
    }
    return error == 0 ? 0 : fail(job, RUN_FRAME_STEP_GUARDIAN, error);
}

static int start_send(struct run_job *job, const struct run_job_options *options) {
    static uint8_t bytes[RUN_FRAME_MAX];
    struct run_frame_start start = {.own_proc = options->proof == RUN_RECORD_PIDNS,
                                    .is_job = true,
                                    .foreground = options->foreground,
                                    .ignored = options->ignored,
                                    .live = options->live,
                                    .cwd = "",
                                    .log_dir = "",
                                    .cgroup = job->cgroup,
                                    .user = "",
                                    .group = "",
                                    .token_file = "",
                                    .rules_file = ""};
    for (unsigned i = 0; i < SENSOR_LIMITS; i++) {
        start.limits[i] = SENSOR_UNLIMITED;
    }
    size_t len = run_frame_start_encode(&start, bytes, sizeof bytes);
    TN_ASSERT(len > 0);
    return send(job->socket, bytes, len, MSG_NOSIGNAL) == (ssize_t)len ? 0 : errno;
}

/* The guardian has no orders, so it has started nothing. */
static void guardian_undo(struct run_job *job) {
    (void)kill(job->guardian, SIGKILL);
    (void)waitpid(job->guardian, NULL, 0);
    job->guardian = 0;
    (void)close(job->socket);
    if (job->descriptor >= 0) {
        (void)close(job->descriptor);
    }
    job->socket = job->descriptor = -1;
}

static int cgroup_take(struct run_job *job, const struct run_job_options *options) {
    if (options->proof != RUN_RECORD_CGROUP) {
        return 0;
    }
    if (strlen(options->cgroup) >= sizeof job->cgroup) {
        return fail(job, RUN_FRAME_STEP_CGROUP, ENAMETOOLONG);
    }
    int error = process_cgroup_make(options->cgroup);
    if (error != 0) {
        return fail(job, RUN_FRAME_STEP_CGROUP, error);
    }
    memcpy(job->cgroup, options->cgroup, strlen(options->cgroup) + 1);
    return 0;
}

static void cgroup_drop(struct run_job *job) {
    if (job->cgroup[0] != '\0') {
        process_cgroup_remove(job->cgroup);
        job->cgroup[0] = '\0';
    }
}

static int guardian_take(struct run_job *job, const struct run_job_options *options) {
    int ends[2];
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends) != 0) {
        return fail(job, RUN_FRAME_STEP_GUARDIAN, errno);
    }
    job->socket = ends[0];
    /* Passes credentials, for the pid of a main process in another pid namespace. */
    (void)setsockopt(ends[0], SOL_SOCKET, SO_PASSCRED, &(int){1}, sizeof(int));
    int error = spawn_contained(job, options, ends[1]);
    (void)close(ends[1]);
    if (error != 0) {
        (void)close(job->socket);
        job->socket = -1;
        return error;
    }
    job->descriptor = (int)syscall(SYS_pidfd_open, job->guardian, 0);
    error = job->descriptor < 0 ? errno : start_send(job, options);
    if (error != 0) {
        guardian_undo(job);
        return fail(job, RUN_FRAME_STEP_GUARDIAN, error);
    }
    return 0;
}

int run_job_start(struct run_job *job, const struct run_job_options *options) {
    *job = (struct run_job){.socket = -1, .descriptor = -1, .proof = options->proof};
    int error = cgroup_take(job, options);
    if (error == 0) {
        error = guardian_take(job, options);
    }
    if (error != 0) {
        cgroup_drop(job);
        return error;
    }
    job->next = jobs;
    jobs = job;
    return 0;
}

/* ---- Events ---- */

static enum run_job_event news_take(struct run_job *job, const struct run_frame_news *news,
                                    pid_t pid) {
    switch (news->kind) {
    case RUN_FRAME_STARTED:
        job->main = job->proof == RUN_RECORD_PIDNS ? pid : (pid_t)news->pid;
        return RUN_JOB_STARTED;
    case RUN_FRAME_FAILED:
        (void)fail(job, (enum run_frame_step)news->step, (int)news->error);
        return RUN_JOB_FAILED;
    case RUN_FRAME_STOPPED:
        job->status = news->status;
        return RUN_JOB_STOPPED;
    case RUN_FRAME_EXITED:
        job->status = news->status;
        return RUN_JOB_EXITED;
    default:
        job->gone_said = true;
        return RUN_JOB_NOTHING; /* the end of the guardian follows */
    }
}

static enum run_job_event socket_next(struct run_job *job) {
    uint8_t bytes[RUN_FRAME_SMALL_MAX];
    struct run_frame_news news;
    pid_t pid = 0;
    while (job->socket >= 0) {
        ssize_t n = run_news_receive(job->socket, bytes, &pid);
        if (n < 0) {
            return RUN_JOB_NOTHING;
        }
        if (n == 0) { /* the guardian has ended, which its descriptor shows */
            (void)close(job->socket);
            job->socket = -1;
        } else if (!run_frame_news_decode(bytes, (size_t)n, &news)) {
            run_job_force(job); /* another process answers in its place */
        } else {
            enum run_job_event event = news_take(job, &news, pid);
            if (event != RUN_JOB_NOTHING) {
                return event;
            }
        }
    }
    return RUN_JOB_NOTHING;
}

static void orphan_visit(void *ctx, pid_t pid) {
    unsigned *seen = ctx;
    for (const struct run_job *job = jobs; job != NULL; job = job->next) {
        if (job->guardian == pid) {
            return;
        }
    }
    (*seen)++;
    if (waitpid(pid, NULL, WNOHANG | __WALL) != pid) {
        /* The child was not waited for, so no other process has its pid. */
        (void)kill(pid, SIGKILL);
    }
}

static enum run_job_event finish(struct run_job *job, enum run_job_event how) {
    struct run_job **at = &jobs;
    while (*at != NULL && *at != job) {
        at = &(*at)->next;
    }
    if (*at != NULL) {
        *at = job->next;
    }
    if (job->socket >= 0) {
        (void)close(job->socket);
    }
    job->socket = -1;
    job->forcing = false;
    job->finished = true;
    cgroup_drop(job);
    return how;
}

/* True: the cgroup has no processes, or there is no cgroup. A process may have moved to another
 * cgroup, which needs no root if the parent of ours was delegated to its user. So this alone proves
 * nothing. */
static bool cgroup_end(const struct run_job *job) {
    if (job->cgroup[0] == '\0') {
        return true;
    }
    (void)process_cgroup_kill(job->cgroup);
    return process_cgroup_empty(job->cgroup);
}

/* Ends what a killed guardian has left. */
static enum run_job_event orphans_end(struct run_job *job) {
    unsigned seen = 0;
    job->forcing = true;
    if (!cgroup_end(job)) {
        return RUN_JOB_NOTHING;
    }
    if (!orphans_are_ours) {
        return finish(job, RUN_JOB_UNPROVEN);
    }
    /* Only a pass that meets no orphan proves that there is none: the list of children only grows
     * while this process waits for no child. */
    return process_children(orphan_visit, &seen) && seen == 0 ? finish(job, RUN_JOB_GONE)
                                                              : RUN_JOB_NOTHING;
}

static bool guardian_has_ended(struct run_job *job) {
    if (job->guardian != 0 && waitpid(job->guardian, NULL, WNOHANG) != 0) {
        job->guardian = 0;
        (void)close(job->descriptor);
        job->descriptor = -1;
    }
    return job->guardian == 0;
}

/* Ends the tree below a guardian that is alive and does not do its work. */
static void tree_end(struct run_job *job) {
    if (cgroup_end(job) && run_tree_end(&job->tree)) {
        job->gone_said = true; /* as if the guardian had reported it */
        (void)kill(job->guardian, SIGKILL);
    }
}

enum run_job_event run_job_next(struct run_job *job) {
    if (job->finished) {
        return RUN_JOB_NOTHING;
    }
    bool ended =
        guardian_has_ended(job); /* before its last messages are read, so that they are complete */
    enum run_job_event event = socket_next(job);
    if (event != RUN_JOB_NOTHING) {
        return event;
    }
    if (!ended) {
        if (job->forcing) {
            tree_end(job);
        }
        return RUN_JOB_NOTHING;
    }
    return job->gone_said || job->proof == RUN_RECORD_PIDNS ? finish(job, RUN_JOB_GONE)
                                                            : orphans_end(job);
}

/* ---- Orders ---- */

static bool order_send(struct run_job *job, const struct run_frame_order *order) {
    uint8_t bytes[RUN_FRAME_SMALL_MAX];
    size_t len = run_frame_order_encode(order, bytes);
    return job->socket >= 0 &&
           send(job->socket, bytes, len, MSG_NOSIGNAL | MSG_DONTWAIT) == (ssize_t)len;
}

bool run_job_live(struct run_job *job, const struct run_frame_times *live) {
    return order_send(job, &(struct run_frame_order){.kind = RUN_FRAME_LIVE, .live = *live});
}

void run_job_signal(struct run_job *job, int signal) {
    (void)order_send(job, &(struct run_frame_order){.kind = RUN_FRAME_PASS, .signal = signal});
}

void run_job_term(struct run_job *job) {
    (void)order_send(job, &(struct run_frame_order){.kind = RUN_FRAME_TERM});
}

void run_job_kill(struct run_job *job) {
    if (job->guardian != 0) {
        (void)kill(job->guardian, SIGCONT); /* it may have been stopped */
    }
    if (!order_send(job, &(struct run_frame_order){.kind = RUN_FRAME_KILL})) {
        run_job_force(job);
    }
}

void run_job_force(struct run_job *job) {
    if (job->forcing || job->guardian == 0) {
        return;
    }
    job->forcing = true;
    if (job->proof == RUN_RECORD_PIDNS) {
        (void)kill(job->guardian, SIGKILL); /* and thereby its whole namespace */
    } else {
        run_tree_init(&job->tree, job->guardian, job->descriptor);
    }
}
