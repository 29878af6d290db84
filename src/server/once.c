/* What once.h promises. */
#include "server/once.h"

#include <string.h>

#include "engine/engine.h"
#include "process/run_orphan.h"
#include "server/jobs.h"
#include "server/log_line.h"
#include "server/owners.h"
#include "server/server.h"
#include "server/stop.h"

static bool owns(struct server_owners *owners) {
    const struct server_hooks *hooks = &owners->options->hooks;
    owners->once->options->keys_in_use = owners->jobs->rotation.slot != NULL;
    return hooks->owns == NULL || hooks->owns(hooks->ctx, owners->once->options);
}

/* ---- The supervisor ---- */

static bool supervisor_begin(struct server_owners *owners) {
    struct supervisor_options options = *owners->options->sensors;
    options.loop = owners->loop;
    options.engine = owners->engine;
    options.tokens = owners->options->tokens;
    options.os = owners->options->os;
    options.url = owners->once->url[0] != '\0' ? owners->once->url : NULL;
    options.log = server_log_line;
    owners->once->epoch = options.cluster.epoch;
    owners->supervisor = supervisor_open(&options);
    return owners->supervisor != NULL;
}

static void on_left(void *ctx) {
    struct server_owners *owners = ctx;
    owners->once->left = true;
    server_stop_check(owners);
}

/* From now on, reads find no supervisor. */
static void supervisor_leave(struct server_owners *owners) {
    owners->once->leaving = owners->supervisor;
    owners->once->left = false;
    owners->supervisor = NULL;
    supervisor_close(owners->once->leaving, on_left, owners);
}

/* The last ownership of which nothing is alive on this node. If the supervisor was halted in an ownership that
 * goes on, a new one starts sensors in the same, so it is the one before. */
static uint64_t clean_epoch(const struct server_owners *owners) {
    const struct server_once *once = owners->once;
    bool goes_on = once->owns && !owners->stop->draining &&
                   owners->options->sensors->cluster.epoch == once->epoch;
    return goes_on && once->epoch > 0 ? once->epoch - 1 : once->epoch;
}

/* True: there is no supervisor, or it has ended. `clean` is set only if it has proven that nothing
 * of this node is alive. A supervisor that was off, or ended before its orphans did, has proven
 * nothing. */
static bool supervisor_is_gone(struct server_owners *owners) {
    struct server_once *once = owners->once;
    if (once->leaving == NULL) {
        return true;
    }
    if (!once->left || !supervisor_is_done(once->leaving)) {
        return false;
    }
    struct supervisor_totals totals;
    supervisor_totals(once->leaving, &totals);
    supervisor_free(once->leaving);
    once->leaving = NULL;
    once->clean = totals.orphans_gone && totals.unproven == 0;
    uint64_t epoch = once->clean ? clean_epoch(owners) : 0;
    if (epoch > 0) {
        server_log("sensors_clean", "owner_epoch=%llu", (unsigned long long)epoch);
        engine_clean(owners->engine, epoch);
    }
    return true;
}

/* ---- What an earlier life of this node left ---- */

static void on_orphan_gone(void *ctx, const char *ref, struct kernel_lease_id lease,
                           uint64_t epoch) {
    (void)ctx;
    (void)lease;
    server_log("sensor_orphan_gone", "sensor=%s epoch=%llu", ref, (unsigned long long)epoch);
}

static void on_orphan_unproven(void *ctx, const char *ref, struct kernel_lease_id lease,
                               uint64_t epoch) {
    struct server_owners *owners = ctx;
    (void)lease;
    owners->once->unproven = true;
    server_log("sensor_unproven", "sensor=%s epoch=%llu", ref, (unsigned long long)epoch);
}

static void orphans_drop(struct server_owners *owners) {
    run_orphans_free(owners->once->orphans);
    owners->once->orphans = NULL;
}

static void on_orphans_gone(void *ctx) {
    struct server_owners *owners = ctx;
    orphans_drop(owners);
    owners->once->clean = !owners->once->unproven;
}

static void orphans_begin(struct server_owners *owners) {
    const struct supervisor_options *sensors = owners->options->sensors;
    struct run_orphans_hooks hooks = {
        .gone = on_orphan_gone, .unproven = on_orphan_unproven, .all_gone = on_orphans_gone};
    enum tn_status status = run_orphans_begin(owners->loop, owners->options->os, sensors->dir,
                                              hooks, owners, &owners->once->orphans);
    if (status != TN_OK) {
        owners->once->orphans = NULL;
        server_log("sensors_unknown", "dir=%s reason=\"%s\"", sensors->dir, tn_status_text(status));
    }
}

/* ---- From off to on and back ---- */

bool server_once_start(struct server_owners *owners, struct server_options *options) {
    owners->once->options = options;
    owners->once->owns = owns(owners);
    if (owners->options->sensors == NULL) {
        return true;
    }
    if (!owners->once->owns) {
        orphans_begin(owners);
        return true;
    }
    if (!supervisor_begin(owners)) {
        server_log("refused", "reason=\"no memory for the supervisor of sensors\"");
        return false;
    }
    return true;
}

/* The supervisor is of this ownership, and nothing has stopped it. The log may have been lost and taken again
 * between two looks, so ownerships are compared by their epochs; and a write that was refused while the
 * ownership was not renewed in time has halted the supervisor. */
static bool supervisor_serves(const struct server_owners *owners) {
    bool halted = owners->options->hooks.owns != NULL && supervisor_is_halted(owners->supervisor);
    return owners->once->owns && !halted &&
           owners->once->epoch == owners->options->sensors->cluster.epoch;
}

void server_once_look(struct server_owners *owners) {
    struct server_once *once = owners->once;
    if (owners->stop->draining) {
        return;
    }
    once->owns = owns(owners);
    bool gone = supervisor_is_gone(owners);
    if (once->owns && gone && owners->supervisor == NULL && owners->options->sensors != NULL) {
        if (once->orphans != NULL) {
            orphans_drop(owners); /* the supervisor looks for orphans itself */
        }
        if (!supervisor_begin(owners)) {
            server_log("supervisor_off", "reason=\"no memory; it is tried again\"");
        }
    } else if (owners->supervisor != NULL && !supervisor_serves(owners)) {
        supervisor_halt(owners->supervisor);
        supervisor_leave(owners);
    } else if (!once->owns && gone && once->clean) {
        engine_clean(owners->engine, 0);
    }
}

void server_once_stop(struct server_owners *owners) {
    if (owners->once->orphans != NULL) {
        orphans_drop(owners);
    }
    if (owners->supervisor != NULL) {
        supervisor_leave(owners);
    }
}

bool server_once_stopped(const struct server_owners *owners) {
    return owners->supervisor == NULL && (owners->once->leaving == NULL || owners->once->left);
}

void server_once_free(struct server_owners *owners) {
    if (!supervisor_is_gone(owners)) {
        supervisor_free(owners->once->leaving);
        owners->once->leaving = NULL;
    }
}
