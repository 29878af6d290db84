/* Orphans of an earlier server. One timer serves all: it looks at the guardians that are left, and,
 * for runs whose guardian has ended, passes over all processes of the machine.
 *
 *     guardian lives --takes too long--> its run is ended from here --> it is killed
 *          |                                                               |
 *          +--ends-----------------> sweeping <----------------------------+
 *     sweeping --proven, and a pass finds nothing of it--> gone
 *     sweeping --a pass finds nothing of it, or SWEEPS_MAX have been made--> unproven
 *
 * What a pass finds of a run that is proven dead are checks of its health, which have guardians of their
 * own. */
#include "process/run_orphan.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/assert.h"
#include "process/cgroup.h"
#include "process/proc.h"
#include "process/run.h"
#include "process/run_record.h"
#include "process/run_tree.h"

#define TICK_MS 10
#define TICK_SLOW_MS 200 /* later: what is still alive then waits for a disk, not for us */
#define TICK_SLOW_AFTER_MS 3000
#define GUARDIAN_MS 5000
/* For runs that nothing proves dead: a process that forks faster than this evades them. */
#define SWEEPS_MAX 100u

struct orphan {
    struct run_record record;
    char path[RUN_RECORD_PATH_MAX]; /* of its directory */
    int guardian;                   /* a descriptor for its process; -1: it has ended */
    struct run_tree tree;           /* below it */
    bool is_dead_with_server; /* nothing of it can be alive, so there is nothing to search for */
    bool is_elsewhere;        /* it runs in a pid namespace that this process cannot see */
    bool is_ended;            /* nothing was alive below the guardian before it was killed */
    bool is_gone, is_unproven;
    uint32_t found;  /* in this pass */
    uint32_t sweeps; /* passes so far */
};

struct run_orphans {
    uv_loop_t *loop;
    const struct os *os;
    const char *dir;
    struct run_orphans_hooks hooks;
    void *ctx;
    struct orphan **of;
    uint32_t count, capacity;
    uint32_t left;
    enum tn_status status; /* while the directory is being read */
    uint64_t begun_ms, patience_ms;
    uint64_t namespace;
    bool pass_whole; /* the pass is complete */
    bool is_freed;
    char boot[PROCESS_BOOT_TEXT];
    uv_timer_t timer;
};

/* ---- Reading the records ---- */

static struct orphan *orphan_add(struct run_orphans *orphans) {
    if (orphans->count == orphans->capacity) {
        uint32_t capacity = orphans->capacity == 0 ? 16 : orphans->capacity * 2;
        struct orphan **of = realloc(orphans->of, capacity * sizeof(struct orphan *));
        if (of == NULL) {
            return NULL;
        }
        orphans->of = of;
        orphans->capacity = capacity;
    }
    struct orphan *orphan = calloc(1, sizeof *orphan);
    if (orphan != NULL) {
        orphans->of[orphans->count++] = orphan;
    }
    return orphan;
}

/* UNKNOWN: even that could not be found out. */
static enum process_answer guardian_open(struct orphan *orphan) {
    const struct run_record *record = &orphan->record;
    orphan->guardian = -1;
    if (orphan->is_dead_with_server || orphan->is_elsewhere) {
        return PROCESS_NO;
    }
    enum process_answer answer =
        process_open(record->guardian, record->guardian_start, &orphan->guardian);
    if (answer == PROCESS_YES) {
        run_tree_init(&orphan->tree, record->guardian, orphan->guardian);
        process_signal(orphan->guardian, SIGCONT); /* it may have been stopped */
    }
    return answer;
}

static void place_judge(const struct run_orphans *orphans, struct orphan *orphan) {
    const struct run_record *record = &orphan->record;
    orphan->is_dead_with_server = strcmp(record->boot, orphans->boot) != 0 || record->server == 1;
    orphan->is_elsewhere = !orphan->is_dead_with_server && record->server_namespace != 0 &&
                           record->server_namespace != orphans->namespace;
}

static void entry_seen(void *ctx, const char *name) {
    struct run_orphans *orphans = ctx;
    struct run_record record;
    char path[RUN_RECORD_PATH_MAX];
    if (orphans->status != TN_OK) {
        return;
    }
    if (snprintf(path, sizeof path, "%s/%s", orphans->dir, name) >= (int)sizeof path) {
        orphans->status = TN_INVALID;
        return;
    }
    enum tn_status status = run_record_read(orphans->os, path, &record);
    if (status == TN_NOTFOUND || status == TN_INVALID) {
        return; /* not a run, or not the directory of a sensor */
    }
    if (status == TN_CORRUPT) {
        run_record_remove(orphans->os, path); /* a torn record, so it is of an earlier boot */
        return;
    }
    struct orphan *orphan = status == TN_OK ? orphan_add(orphans) : NULL;
    if (orphan == NULL) {
        orphans->status = status == TN_OK ? TN_NOMEM : status;
        return;
    }
    orphan->record = record;
    memcpy(orphan->path, path, sizeof path);
    place_judge(orphans, orphan);
    if (guardian_open(orphan) == PROCESS_UNKNOWN) {
        orphans->status = TN_NOMEM;
    }
}

/* ---- Passing over all processes ---- */

static bool is_sweeping(const struct orphan *orphan) {
    return !orphan->is_gone && !orphan->is_unproven && !orphan->is_dead_with_server &&
           !orphan->is_elsewhere && orphan->guardian < 0;
}

/* The run to which a process surely belongs. */
static struct orphan *owner_find(struct run_orphans *orphans, pid_t pid,
                                 const struct process_stat *stat, enum process_answer *ret_answer) {
    char id[PROCESS_VALUE_MAX];
    struct process_stat leader;
    enum process_answer has_id = process_variable(pid, RUN_RECORD_VARIABLE, id);
    *ret_answer = has_id == PROCESS_UNKNOWN ? PROCESS_UNKNOWN : PROCESS_NO;
    for (uint32_t i = 0; i < orphans->count; i++) {
        struct orphan *orphan = orphans->of[i];
        const struct run_record *record = &orphan->record;
        if (!is_sweeping(orphan)) {
            continue;
        }
        bool is_main = pid == record->main && stat->start == record->main_start;
        bool is_named = has_id == PROCESS_YES && strcmp(id, record->id) == 0;
        /* By its session, if the recorded process leads it: then no other session has the
         * number. */
        bool is_in_session = record->main != 0 && stat->session == record->main &&
                             process_stat_read(record->main, &leader) == PROCESS_YES &&
                             leader.start == record->main_start;
        if (is_main || is_named || is_in_session) {
            *ret_answer = PROCESS_YES;
            return orphan;
        }
    }
    return NULL;
}

static void process_seen(void *ctx, pid_t pid) {
    struct run_orphans *orphans = ctx;
    struct process_stat stat;
    int descriptor;
    enum process_answer answer = pid == getpid() ? PROCESS_NO : process_stat_read(pid, &stat);
    struct orphan *owner = NULL;
    if (answer == PROCESS_YES) {
        owner = owner_find(orphans, pid, &stat, &answer);
    }
    if (owner != NULL) {
        /* Opened with the recorded start time, so it is no other process. */
        answer = process_open(pid, stat.start, &descriptor);
        if (answer == PROCESS_YES) {
            owner->found++;
            process_signal(descriptor, SIGKILL);
            (void)close(descriptor);
        }
    }
    if (answer == PROCESS_UNKNOWN) {
        orphans->pass_whole = false;
    }
}

static void check_cgroup(const struct run_record *record,
                         char out[RUN_RECORD_PATH_MAX + sizeof RUN_RECORD_CHECK]) {
    (void)snprintf(out, RUN_RECORD_PATH_MAX + sizeof RUN_RECORD_CHECK, "%s" RUN_RECORD_CHECK,
                   record->cgroup);
}

/* How many cgroups have processes: the run's, and that of its health check. */
static uint32_t cgroups_sweep(const struct run_record *record) {
    char check[RUN_RECORD_PATH_MAX + sizeof RUN_RECORD_CHECK];
    const char *const paths[] = {record->cgroup, check};
    uint32_t found = 0;
    check_cgroup(record, check);
    for (size_t i = 0; i < 2; i++) {
        if (!process_cgroup_empty(paths[i])) {
            (void)process_cgroup_kill(paths[i]);
            found++;
        }
    }
    return found;
}

static void pass(struct run_orphans *orphans) {
    bool needed = false;
    for (uint32_t i = 0; i < orphans->count; i++) {
        struct orphan *orphan = orphans->of[i];
        bool sweeping = is_sweeping(orphan);
        needed = needed || sweeping;
        orphan->found =
            sweeping && orphan->record.cgroup[0] != '\0' ? cgroups_sweep(&orphan->record) : 0;
    }
    orphans->pass_whole = true;
    if (needed && !process_all(process_seen, orphans)) {
        orphans->pass_whole = false;
    }
}

/* ---- The end ---- */

static void timer_closed(uv_handle_t *handle) {
    struct run_orphans *orphans = handle->data;
    for (uint32_t i = 0; i < orphans->count; i++) {
        if (orphans->of[i]->guardian >= 0) {
            (void)close(orphans->of[i]->guardian);
        }
        free(orphans->of[i]);
    }
    free(orphans->of);
    free(orphans);
}

void run_orphans_free(struct run_orphans *orphans) {
    if (orphans != NULL && !orphans->is_freed) {
        orphans->is_freed = true;
        uv_close((uv_handle_t *)&orphans->timer, timer_closed);
    }
}

static void orphan_gone(struct run_orphans *orphans, struct orphan *orphan) {
    const struct run_record *record = &orphan->record;
    orphan->is_gone = true;
    orphans->left--;
    if (record->cgroup[0] != '\0') {
        char check[RUN_RECORD_PATH_MAX + sizeof RUN_RECORD_CHECK];
        check_cgroup(record, check);
        process_cgroup_remove(record->cgroup);
        process_cgroup_remove(check);
    }
    run_record_remove(orphans->os, orphan->path);
    orphans->hooks.gone(orphans->ctx, record->ref, record->lease, record->epoch);
}

static void orphan_unproven(struct run_orphans *orphans, struct orphan *orphan) {
    const struct run_record *record = &orphan->record;
    orphan->is_unproven = true;
    orphans->left--;
    orphans->hooks.unproven(orphans->ctx, record->ref, record->lease, record->epoch);
}

/* ---- Looking ---- */

/* Ends what is below a guardian that does not do so in time. True: nothing is alive there. */
static bool guardian_ends(struct orphan *orphan) {
    switch (orphan->record.proof) {
    case RUN_RECORD_PIDNS:
        return true; /* all processes in it die in one step */
    case RUN_RECORD_CGROUP:
        return cgroups_sweep(&orphan->record) == 0;
    default:
        return run_tree_end(&orphan->tree);
    }
}

static void guardian_look(const struct run_orphans *orphans, struct orphan *orphan) {
    if (orphan->guardian < 0) {
        return;
    }
    if (process_ended(orphan->guardian)) {
        (void)close(orphan->guardian);
        orphan->guardian = -1;
    } else if (orphan->is_ended) {
        process_signal(orphan->guardian, SIGKILL);
    } else if (uv_now(orphans->loop) - orphans->begun_ms >= orphans->patience_ms &&
               guardian_ends(orphan)) {
        orphan->is_ended = true;
        process_signal(orphan->guardian, SIGKILL);
    }
}

/* Whether a run whose guardian has ended is proven dead. */
static bool is_proven(const struct run_orphans *orphans, const struct orphan *orphan) {
    const struct run_record *record = &orphan->record;
    struct run_record now;
    if (orphan->is_ended || record->proof == RUN_RECORD_PIDNS) {
        return true;
    }
    if (record->proof == RUN_RECORD_CGROUP) {
        return orphan->found == 0; /* with its cgroups */
    }
    return run_record_read(orphans->os, orphan->path, &now) == TN_NOTFOUND;
}

static void orphan_look(struct run_orphans *orphans, struct orphan *orphan) {
    if (orphan->is_gone || orphan->is_unproven) {
        return;
    }
    if (orphan->is_dead_with_server) {
        orphan_gone(orphans, orphan);
    } else if (orphan->is_elsewhere) {
        orphan_unproven(orphans, orphan);
    } else if (is_sweeping(orphan)) {
        bool empty = orphans->pass_whole && orphan->found == 0;
        bool proven = is_proven(orphans, orphan);
        orphan->sweeps++;
        if (proven && empty) {
            orphan_gone(orphans, orphan);
        } else if (!proven && orphan->record.proof == RUN_RECORD_REAPED &&
                   (empty || orphan->sweeps >= SWEEPS_MAX)) {
            orphan_unproven(orphans, orphan);
        }
    }
}

static void tick(uv_timer_t *timer) {
    struct run_orphans *orphans = timer->data;
    for (uint32_t i = 0; i < orphans->count; i++) {
        guardian_look(orphans, orphans->of[i]);
    }
    pass(orphans);
    for (uint32_t i = 0; i < orphans->count && !orphans->is_freed; i++) {
        orphan_look(orphans, orphans->of[i]);
    }
    if (uv_now(orphans->loop) - orphans->begun_ms >= TICK_SLOW_AFTER_MS) {
        uv_timer_set_repeat(timer, TICK_SLOW_MS);
    }
    if (orphans->left == 0 && !orphans->is_freed) {
        (void)uv_timer_stop(timer);
        orphans->hooks.all_gone(orphans->ctx);
    }
}

/* ---- The beginning ---- */

enum tn_status run_orphans_begin(uv_loop_t *loop, const struct os *os, const char *dir,
                                 struct run_orphans_hooks hooks, void *ctx,
                                 struct run_orphans **ret_orphans) {
    struct run_orphans *orphans = calloc(1, sizeof *orphans);
    if (orphans == NULL) {
        return TN_NOMEM;
    }
    *orphans = (struct run_orphans){.loop = loop,
                                    .os = os,
                                    .dir = dir,
                                    .hooks = hooks,
                                    .ctx = ctx,
                                    .status = TN_OK,
                                    .begun_ms = uv_now(loop),
                                    .patience_ms = GUARDIAN_MS,
                                    .namespace = process_namespace()};
    int code = uv_timer_init(loop, &orphans->timer);
    TN_ASSERT(code == 0);
    orphans->timer.data = orphans;
    enum tn_status status = process_boot_id(orphans->boot) ? TN_OK : TN_IO;
    if (status == TN_OK) {
        status = os->list(os->ctx, dir, entry_seen, orphans);
        status = status == TN_NOTFOUND ? TN_OK : status;
    }
    if (status == TN_OK) {
        status = orphans->status;
    }
    if (status != TN_OK) {
        run_orphans_free(orphans);
        return status;
    }
    orphans->left = orphans->count;
    code = uv_timer_start(&orphans->timer, tick, 0, TICK_MS);
    TN_ASSERT(code == 0);
    *ret_orphans = orphans;
    return TN_OK;
}

bool run_orphans_has(const struct run_orphans *orphans, const char *ref) {
    for (uint32_t i = 0; i < orphans->count; i++) {
        if (!orphans->of[i]->is_gone && strcmp(orphans->of[i]->record.ref, ref) == 0) {
            return true;
        }
    }
    return false;
}

void run_orphans_patience(struct run_orphans *orphans, uint64_t ms) {
    orphans->patience_ms = ms;
}

void run_orphans_vouch(const struct os *os, const char *dir, const char *ref) {
    char name[RUN_RECORD_PATH_MAX];
    char path[RUN_RECORD_PATH_MAX];
    if (run_dir_name(ref, name, sizeof name) &&
        snprintf(path, sizeof path, "%s/%s", dir, name) < (int)sizeof path) {
        run_record_remove(os, path);
    }
}
