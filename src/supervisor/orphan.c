/* Orphans of an earlier server. One timer serves all: it looks at the guardians that are left, and,
 * for runs whose guardian has ended, passes over all processes of the machine.
 *
 *     guardian lives --it ends, or is killed when it takes too long--> sweeping
 *     sweeping --PASSES_EMPTY passes in a row find nothing of it--> gone
 *
 * One pass is not enough: a process that was started while it went on may have a smaller pid. */
#include "supervisor/orphan.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/assert.h"
#include "supervisor/cgroup.h"
#include "supervisor/proc.h"
#include "supervisor/record.h"

#define TICK_MS 10
#define TICK_SLOW_MS 200 /* after a while: what still lives waits for a disk, not for us */
#define TICK_SLOW_AFTER_MS 3000
#define GUARDIAN_MS 5000
#define PASSES_EMPTY 2u

struct orphan {
    struct run_record record;
    char path[RECORD_PATH_MAX]; /* of its directory */
    int guardian;               /* a descriptor of its process; -1: it has ended */
    bool is_other_boot;
    bool is_gone;
    uint32_t found;        /* in this pass */
    uint32_t passes_empty; /* in a row */
};

struct orphans {
    uv_loop_t *loop;
    const struct os *os;
    const char *dir;
    struct orphans_hooks hooks;
    void *ctx;
    struct orphan **of;
    uint32_t count, capacity;
    uint32_t left;
    enum tn_status status; /* while the directory is read */
    uint64_t begun_ms;
    bool pass_whole; /* nothing was left out of it */
    bool is_freed;
    char boot[PROC_BOOT_TEXT];
    uv_timer_t timer;
};

/* ---- Reading the records ---- */

static struct orphan *orphan_add(struct orphans *orphans) {
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

/* UNKNOWN: it cannot even be asked for. */
static enum proc_answer guardian_open(struct orphan *orphan) {
    orphan->guardian = -1;
    return orphan->is_other_boot ? PROC_NO
                                 : proc_open(orphan->record.guardian, orphan->record.guardian_start,
                                             &orphan->guardian);
}

static void entry_seen(void *ctx, const char *name) {
    struct orphans *orphans = ctx;
    struct run_record record;
    char path[RECORD_PATH_MAX];
    if (orphans->status != TN_OK) {
        return;
    }
    if (snprintf(path, sizeof path, "%s/%s", orphans->dir, name) >= (int)sizeof path) {
        orphans->status = TN_INVALID;
        return;
    }
    enum tn_status status = record_read(orphans->os, path, &record);
    if (status == TN_NOTFOUND || status == TN_INVALID) {
        return; /* no run; or no directory of a sensor at all */
    }
    if (status == TN_CORRUPT) {
        record_remove(orphans->os, path); /* torn, so of another boot */
        return;
    }
    struct orphan *orphan = status == TN_OK ? orphan_add(orphans) : NULL;
    if (orphan == NULL) {
        orphans->status = status == TN_OK ? TN_NOMEM : status;
        return;
    }
    orphan->record = record;
    memcpy(orphan->path, path, sizeof path);
    orphan->is_other_boot = strcmp(record.boot, orphans->boot) != 0;
    if (guardian_open(orphan) == PROC_UNKNOWN) {
        orphans->status = TN_NOMEM;
    }
}

/* ---- Passing over all processes ---- */

static bool is_sweeping(const struct orphan *orphan) {
    return !orphan->is_gone && !orphan->is_other_boot && orphan->guardian < 0;
}

/* The run that a process belongs to, as far as can be known for certain. */
static struct orphan *owner_find(struct orphans *orphans, pid_t pid, const struct proc_stat *stat,
                                 enum proc_answer *ret_answer) {
    char id[PROC_VALUE_MAX];
    struct proc_stat leader;
    enum proc_answer has_id = proc_variable(pid, RECORD_VARIABLE, id);
    *ret_answer = has_id == PROC_UNKNOWN ? PROC_UNKNOWN : PROC_NO;
    for (uint32_t i = 0; i < orphans->count; i++) {
        struct orphan *orphan = orphans->of[i];
        const struct run_record *record = &orphan->record;
        if (!is_sweeping(orphan)) {
            continue;
        }
        bool is_main = pid == record->main && stat->start == record->main_start;
        bool is_named = has_id == PROC_YES && strcmp(id, record->id) == 0;
        /* Its session, if who leads it is the recorded process: then its number is nobody else's. */
        bool is_in_session = record->main != 0 && stat->session == record->main &&
                             proc_stat_read(record->main, &leader) == PROC_YES &&
                             leader.start == record->main_start;
        if (is_main || is_named || is_in_session) {
            *ret_answer = PROC_YES;
            return orphan;
        }
    }
    return NULL;
}

static void process_seen(void *ctx, pid_t pid) {
    struct orphans *orphans = ctx;
    struct proc_stat stat;
    int descriptor;
    enum proc_answer answer = pid == getpid() ? PROC_NO : proc_stat_read(pid, &stat);
    struct orphan *owner = NULL;
    if (answer == PROC_YES) {
        owner = owner_find(orphans, pid, &stat, &answer);
    }
    if (owner != NULL) {
        /* Opened with the start time that its owner was found by: nobody else's. */
        answer = proc_open(pid, stat.start, &descriptor);
        if (answer == PROC_YES) {
            owner->found++;
            proc_kill(descriptor);
            (void)close(descriptor);
        }
    }
    if (answer == PROC_UNKNOWN) {
        orphans->pass_whole = false;
    }
}

static void check_cgroup(const struct run_record *record,
                         char out[RECORD_PATH_MAX + sizeof RECORD_CHECK]) {
    (void)snprintf(out, RECORD_PATH_MAX + sizeof RECORD_CHECK, "%s" RECORD_CHECK, record->cgroup);
}

/* How many are not empty: the run's, and that of a check of its health. */
static uint32_t cgroups_sweep(const struct run_record *record) {
    char check[RECORD_PATH_MAX + sizeof RECORD_CHECK];
    const char *const paths[] = {record->cgroup, check};
    uint32_t found = 0;
    check_cgroup(record, check);
    for (size_t i = 0; i < 2; i++) {
        if (!cgroup_empty(paths[i])) {
            (void)cgroup_kill(paths[i]);
            found++;
        }
    }
    return found;
}

static void pass(struct orphans *orphans) {
    bool needed = false;
    for (uint32_t i = 0; i < orphans->count; i++) {
        struct orphan *orphan = orphans->of[i];
        bool sweeping = is_sweeping(orphan);
        needed = needed || sweeping;
        orphan->found =
            sweeping && orphan->record.cgroup[0] != '\0' ? cgroups_sweep(&orphan->record) : 0;
    }
    orphans->pass_whole = true;
    if (needed && !proc_all(process_seen, orphans)) {
        orphans->pass_whole = false;
    }
}

/* ---- The end ---- */

static void timer_closed(uv_handle_t *handle) {
    struct orphans *orphans = handle->data;
    for (uint32_t i = 0; i < orphans->count; i++) {
        if (orphans->of[i]->guardian >= 0) {
            (void)close(orphans->of[i]->guardian);
        }
        free(orphans->of[i]);
    }
    free(orphans->of);
    free(orphans);
}

void orphans_free(struct orphans *orphans) {
    if (orphans != NULL && !orphans->is_freed) {
        orphans->is_freed = true;
        uv_close((uv_handle_t *)&orphans->timer, timer_closed);
    }
}

static void orphan_gone(struct orphans *orphans, struct orphan *orphan) {
    const struct run_record *record = &orphan->record;
    orphan->is_gone = true;
    orphans->left--;
    if (record->cgroup[0] != '\0') {
        char check[RECORD_PATH_MAX + sizeof RECORD_CHECK];
        check_cgroup(record, check);
        cgroup_remove(record->cgroup);
        cgroup_remove(check);
    }
    record_remove(orphans->os, orphan->path);
    orphans->hooks.gone(orphans->ctx, record->ref, record->lease, record->epoch);
}

static void guardian_look(const struct orphans *orphans, struct orphan *orphan) {
    if (orphan->guardian < 0) {
        return;
    }
    if (proc_ended(orphan->guardian)) {
        (void)close(orphan->guardian);
        orphan->guardian = -1;
    } else if (uv_now(orphans->loop) - orphans->begun_ms >= GUARDIAN_MS) {
        proc_kill(orphan->guardian);
    }
}

static void tick(uv_timer_t *timer) {
    struct orphans *orphans = timer->data;
    for (uint32_t i = 0; i < orphans->count; i++) {
        guardian_look(orphans, orphans->of[i]);
    }
    pass(orphans);
    for (uint32_t i = 0; i < orphans->count && !orphans->is_freed; i++) {
        struct orphan *orphan = orphans->of[i];
        if (orphan->is_other_boot && !orphan->is_gone) {
            orphan_gone(orphans, orphan);
        } else if (is_sweeping(orphan)) {
            bool empty = orphans->pass_whole && orphan->found == 0;
            orphan->passes_empty = empty ? orphan->passes_empty + 1 : 0;
            if (orphan->passes_empty == PASSES_EMPTY) {
                orphan_gone(orphans, orphan);
            }
        }
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

enum tn_status orphans_begin(uv_loop_t *loop, const struct os *os, const char *dir,
                             struct orphans_hooks hooks, void *ctx, struct orphans **ret_orphans) {
    struct orphans *orphans = calloc(1, sizeof *orphans);
    if (orphans == NULL) {
        return TN_NOMEM;
    }
    *orphans = (struct orphans){.loop = loop,
                                .os = os,
                                .dir = dir,
                                .hooks = hooks,
                                .ctx = ctx,
                                .status = TN_OK,
                                .begun_ms = uv_now(loop)};
    TN_ASSERT(uv_timer_init(loop, &orphans->timer) == 0);
    orphans->timer.data = orphans;
    enum tn_status status = proc_boot_id(orphans->boot) ? TN_OK : TN_IO;
    if (status == TN_OK) {
        status = os->list(os->ctx, dir, entry_seen, orphans);
        status = status == TN_NOTFOUND ? TN_OK : status;
    }
    if (status == TN_OK) {
        status = orphans->status;
    }
    if (status != TN_OK) {
        orphans_free(orphans);
        return status;
    }
    orphans->left = orphans->count;
    TN_ASSERT(uv_timer_start(&orphans->timer, tick, 0, TICK_MS) == 0);
    *ret_orphans = orphans;
    return TN_OK;
}

bool orphans_has(const struct orphans *orphans, const char *ref) {
    for (uint32_t i = 0; i < orphans->count; i++) {
        if (!orphans->of[i]->is_gone && strcmp(orphans->of[i]->record.ref, ref) == 0) {
            return true;
        }
    }
    return false;
}
