/* Runs: the server's side. Messages of the guardian come over its socket; a descriptor for its process
 * reports its end. Nothing here waits.
 *
 *     begin --spawned, recorded, START sent--> on --GONE, then the guardian ends--> closing --> gone
 *       |                                       |
 *       | cannot: failed                        | the guardian ends without GONE
 *       v                                       v
 *     closing                                sweeping --no orphan of a guardian left--> closing
 *
 * If a guardian does not end its run in time, the processes below it are ended from here before it is
 * killed: see run_tree.h. The orphans of a guardian that was killed become children of the server, which is
 * a subreaper too. */
#include "process/run.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/assert.h"
#include "base/bytes.h"
#include "process/cgroup.h"
#include "process/proc.h"
#include "process/run_begin.h"
#include "process/run_files.h"
#include "process/run_frame.h"
#include "process/run_news.h"
#include "process/run_record.h"

#define SWEEP_MS 10
/* A guardian kills in far less. One that does not is stopped, or waits for a disk that hangs. */
#define GUARDIAN_MS 10000

/* All from their guardian's start to their end: a child that is none of the guardians is an orphan. */
static struct run *runs;

/* ---- The end ---- */

static void handle_closed(uv_handle_t *handle) {
    struct run *run = handle->data;
    TN_ASSERT(run->handles > 0);
    if (--run->handles > 0) {
        return;
    }
    if (run->socket >= 0) {
        (void)close(run->socket);
    }
    if (run->descriptor >= 0) {
        (void)close(run->descriptor);
    }
    run->is_gone = true;
    run->hooks.gone(run->ctx);
}

static void handle_close(struct run *run, uv_handle_t *handle) {
    handle->data = run;
    run->handles++;
    uv_close(handle, handle_closed);
}

/* Nothing of it lives. */
static void finish(struct run *run) {
    struct run **at = &runs;
    while (*at != NULL && *at != run) { /* one that has failed early is not among them */
        at = &(*at)->next;
    }
    if (*at != NULL) {
        *at = run->next;
    }
    if (run->record.cgroup[0] != '\0') {
        process_cgroup_remove(run->record.cgroup);
    }
    if (!run->is_check && run->path[0] != '\0') { /* it may have failed before it had a directory */
        run_record_remove(run->os, run->path);
    }
    handle_close(run, (uv_handle_t *)&run->timer);
    if (run->polls > 0) {
        handle_close(run, (uv_handle_t *)&run->socket_poll);
    }
    if (run->polls > 1) {
        handle_close(run, (uv_handle_t *)&run->descriptor_poll);
    }
}

static void fail(struct run *run, int error, enum run_frame_step step) {
    TN_ASSERT(!run->told);
    run->told = true;
    run->hooks.failed(run->ctx, error, run_frame_step_name(step));
}

static void failed_early(uv_timer_t *timer) {
    struct run *run = timer->data;
    fail(run, run->early_error, run->early_step);
    finish(run);
}

/* ---- Orphans of a guardian that died ---- */

static void exited(struct run *run, int status) {
    if (!run->has_exited && run->told) {
        run->has_exited = true;
        run->hooks.exited(run->ctx, status);
    }
}

static void orphan_visit(void *ctx, pid_t pid) {
    uint32_t *seen = ctx;
    struct run *owner = NULL; /* whose main process it was, if it was one */
    int status = 0;
    for (struct run *run = runs; run != NULL; run = run->next) {
        if (run->is_guarded && run->guardian == pid) {
            return;
        }
        if (!run->is_guarded && run->record.main == pid) {
            owner = run;
        }
    }
    (*seen)++;
    if (waitpid(pid, &status, WNOHANG | __WALL) != pid) {
        (void)kill(pid, SIGKILL); /* a child that was not waited for: its pid is its own */
    } else if (owner != NULL) {
        exited(owner, status);
    }
}

/* Only a pass that meets no orphan at all is a proof. One that has ended may have left others, which
 * came into the list of children behind what was read of it; but as long as we wait for no child that list
 * only grows, and an orphan that was in it at the beginning of the pass is met. */
static void sweep_pass(uv_timer_t *timer) {
    struct run *run = timer->data;
    uint32_t seen = 0;
    if (run->record.cgroup[0] != '\0') {
        (void)process_cgroup_kill(run->record.cgroup);
    }
    if (process_children(orphan_visit, &seen) && seen == 0 &&
        (run->record.cgroup[0] == '\0' || process_cgroup_empty(run->record.cgroup))) {
        (void)uv_timer_stop(timer);
        finish(run);
    }
}

/* ---- Guardians that do not do their work ---- */

/* First what is below it, then itself. That a stopped one goes on is worth a try, before. */
static void guardian_end(uv_timer_t *timer) {
    struct run *run = timer->data;
    TN_ASSERT(run->is_guarded); /* not waited for: its pid is its own */
    if (run_tree_end(&run->tree)) {
        (void)uv_timer_stop(timer);
        if (!run->is_check) {
            run_record_remove(run->os,
                              run->path); /* proven: no later server needs to look for it */
        }
        (void)kill(run->guardian, SIGKILL);
    }
}

static void guardian_give_up(struct run *run) {
    if (run->is_guarded && run->is_first) {
        (void)kill(run->guardian, SIGKILL); /* and with it all of its namespace */
    } else if (run->is_guarded) {
        run_tree_init(&run->tree, run->guardian, run->descriptor);
        (void)uv_timer_start(&run->timer, guardian_end, 0, SWEEP_MS);
    }
}

/* ---- News ---- */

/* In the order in which a guardian says them, each once. */
static bool news_fits(const struct run *run, const struct run_frame_news *news) {
    bool is_first = news->kind == RUN_FRAME_STARTED || news->kind == RUN_FRAME_FAILED;
    return !run->gone_said && run->start_sent && run->told != is_first &&
           news->kind != RUN_FRAME_STOPPED && (news->kind != RUN_FRAME_EXITED || !run->has_exited);
}

static void news_take(struct run *run, const struct run_frame_news *news) {
    switch (news->kind) {
    case RUN_FRAME_STARTED:
        run->record.main = (pid_t)news->pid;
        run->record.main_start = news->start;
        if (!run->is_check) {
            /* If this fails, the guardian's part is there. If it has proven the run dead meanwhile, there
             * is no record, and none is made. */
            (void)run_record_update(run->os, run->path, &run->record);
        }
        run->told = true;
        run->hooks.started(run->ctx, (int64_t)news->pid);
        break;
    case RUN_FRAME_FAILED:
        fail(run, (int)news->error, (enum run_frame_step)news->step);
        break;
    case RUN_FRAME_EXITED:
        exited(run, news->status);
        break;
    default:
        run->gone_said = true;
        break;
    }
}

/* Everything that has come. The end of the socket is no news: the guardian's end is. */
static void socket_read(struct run *run) {
    uint8_t bytes[RUN_FRAME_SMALL_MAX];
    struct run_frame_news news;
    pid_t pid = 0;
    for (;;) {
        ssize_t n = run_news_receive(run->socket, bytes, &pid);
        if (n <= 0) {
            if (n == 0) {
                (void)uv_poll_stop(&run->socket_poll);
            }
            return;
        }
        bool good = run_frame_news_decode(bytes, (size_t)n, &news) && news_fits(run, &news);
        if (good && news.kind == RUN_FRAME_STARTED && run->record.proof == RUN_RECORD_PIDNS) {
            news.pid = (uint32_t)pid; /* it says the one of its namespace */
        }
        if (!good) {
            /* Another process answers in its place, or it is another program. */
            (void)uv_poll_stop(&run->socket_poll);
            guardian_give_up(run);
            return;
        }
        news_take(run, &news);
    }
}

static void socket_ready(uv_poll_t *poll, int status, int events) {
    (void)events;
    if (status < 0) {
        (void)uv_poll_stop(poll);
        return;
    }
    socket_read(poll->data);
}

static void guardian_ended(uv_poll_t *poll, int status, int events) {
    struct run *run = poll->data;
    (void)events;
    (void)status;
    if (waitpid(run->guardian, NULL, WNOHANG) == 0) {
        return;
    }
    run->is_guarded = false;
    socket_read(run); /* its last words */
    (void)uv_poll_stop(&run->socket_poll);
    (void)uv_poll_stop(&run->descriptor_poll);
    (void)uv_timer_stop(&run->timer);
    if (!run->told && run->early_error != 0) {
        fail(run, run->early_error, run->early_step);
    } else if (!run->told) {
        fail(run, EPIPE, RUN_FRAME_STEP_GUARDIAN);
    }
    if (run->gone_said || run->is_first || !run->start_sent) {
        finish(run);
        return;
    }
    /* By now its children are ours. */
    (void)uv_timer_start(&run->timer, sweep_pass, 0, SWEEP_MS);
}

/* ---- Orders ---- */

static bool order_send(struct run *run, const struct run_frame_order *order) {
    uint8_t bytes[RUN_FRAME_SMALL_MAX];
    size_t len = run_frame_order_encode(order, bytes);
    return send(run->socket, bytes, len, MSG_NOSIGNAL | MSG_DONTWAIT) == (ssize_t)len;
}

bool run_live(struct run *run, const struct run_frame_times *live) {
    return run->is_guarded && !run->killing &&
           order_send(run, &(struct run_frame_order){.kind = RUN_FRAME_LIVE, .live = *live});
}

static void guardian_late(uv_timer_t *timer) {
    struct run *run = timer->data;
    guardian_give_up(run);
}

void run_term(struct run *run) {
    if (run->is_guarded && !run->killing) {
        (void)order_send(run, &(struct run_frame_order){.kind = RUN_FRAME_TERM});
    }
}

void run_kill(struct run *run) {
    if (!run->is_guarded || run->killing) {
        return;
    }
    run->killing = true;
    (void)kill(run->guardian, SIGCONT); /* it may have been stopped */
    if (order_send(run, &(struct run_frame_order){.kind = RUN_FRAME_KILL})) {
        (void)uv_timer_start(&run->timer, guardian_late, run->late_ms, 0);
    } else {
        guardian_give_up(run);
    }
}

enum run_record_proof run_proof(const struct run *run) {
    return run->record.proof;
}

void run_free(struct run *run) {
    if (run != NULL) {
        TN_ASSERT(run->is_gone);
        free(run);
    }
}

/* A file for the sensor. The guardian gave the first one to the sensor's user; only root can. */
static enum tn_status file_write(struct run *run, const char *name, struct tn_bytes content) {
    struct stat is;
    uid_t uid = (uid_t)-1;
    gid_t gid = (gid_t)-1;
    char path[RUN_RECORD_PATH_MAX + 16];
    (void)snprintf(path, sizeof path, "%s/%s", run->path, name);
    if (run->has_user && run->told && lstat(path, &is) == 0) {
        uid = is.st_uid;
        gid = is.st_gid;
    }
    return run_record_file_replace(run->os, run->path, name, content.at, content.len, uid, gid);
}

enum tn_status run_token_write(struct run *run, struct tn_bytes token) {
    return file_write(run, RUN_FILES_TOKEN, token);
}

enum tn_status run_rules_write(struct run *run, struct tn_bytes rules) {
    return file_write(run, RUN_FILES_RULES, rules);
}

void run_signal(struct run *run, int number) {
    TN_ASSERT(number > 0 && number <= 64);
    if (run->is_guarded && run->told && !run->killing) {
        (void)order_send(run,
                         &(struct run_frame_order){.kind = RUN_FRAME_SIGNAL, .signal = number});
    }
}

/* ---- The start ---- */

/* False: there is no room in the loop. */
static bool guardian_watch(struct run *run) {
    if (uv_poll_init(run->loop, &run->socket_poll, run->socket) != 0) {
        return false;
    }
    run->polls = 1;
    if (uv_poll_init(run->loop, &run->descriptor_poll, run->descriptor) != 0) {
        return false;
    }
    run->polls = 2;
    run->socket_poll.data = run;
    run->descriptor_poll.data = run;
    return uv_poll_start(&run->socket_poll, UV_READABLE, socket_ready) == 0 &&
           uv_poll_start(&run->descriptor_poll, UV_READABLE, guardian_ended) == 0;
}

enum tn_status run_start(const struct run_options *options, struct run **ret_run) {
    struct run *run = calloc(1, sizeof *run);
    if (run == NULL) {
        return TN_NOMEM;
    }
    run->loop = options->loop;
    run->os = options->os;
    run->hooks = options->hooks;
    run->ctx = options->ctx;
    run->socket = run->descriptor = -1;
    run->is_check = options->check_of != NULL;
    run->late_ms = options->guardian_late_ms != 0 ? options->guardian_late_ms : GUARDIAN_MS;
    enum tn_status status = run_begin(run, options);
    if (status != TN_OK) {
        free(run);
        return status;
    }
    int code = uv_timer_init(run->loop, &run->timer);
    TN_ASSERT(code == 0);
    run->timer.data = run;
    if (run->guardian != 0 && guardian_watch(run)) {
        run->is_guarded = true;
        run->next = runs;
        runs = run;
        run_begin_send(run);
    } else {
        run_begin_undo(run);
        TN_ASSERT(run->early_error != 0);
        code = uv_timer_start(&run->timer, failed_early, 0, 0);
        TN_ASSERT(code == 0);
    }
    *ret_run = run;
    return TN_OK;
}
