/* What once.h promises. */
#include "server/once.h"

#include <string.h>

#include "process/run_orphan.h"
#include "server/log_line.h"
#include "server/parts.h"

static bool owns(struct server *server) {
    const struct server_hooks *hooks = &server->options.hooks;
    server->options.keys_in_use = server->jobs.rotation.slot != NULL;
    return hooks->owns == NULL || hooks->owns(hooks->ctx, &server->options);
}

/* ---- The supervisor ---- */

static bool supervisor_begin(struct server *server) {
    struct supervisor_options options = *server->options.sensors;
    options.loop = &server->loop;
    options.engine = server->engine;
    options.tokens = server->options.tokens;
    options.os = server->options.os;
    options.url = server->once.url[0] != '\0' ? server->once.url : NULL;
    options.log = server_log_line;
    server->once.epoch = options.cluster.epoch;
    server->owners.supervisor = supervisor_open(&options);
    return server->owners.supervisor != NULL;
}

static void on_left(void *ctx) {
    struct server *server = ctx;
    server->once.left = true;
    server_stop_check(server);
}

/* From now on, reads find no supervisor. */
static void supervisor_leave(struct server *server) {
    server->once.leaving = server->owners.supervisor;
    server->once.left = false;
    server->owners.supervisor = NULL;
    supervisor_close(server->once.leaving, on_left, server);
}

/* True: there is no supervisor, or it has ended. `clean` is set only if it has proven that nothing
 * of this node is alive. A supervisor that was off, or ended before its orphans did, has proven
 * nothing. */
static bool supervisor_is_gone(struct server *server) {
    struct server_once *once = &server->once;
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
    if (once->clean && once->epoch > 0) {
        engine_clean(server->engine, once->epoch);
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
    struct server *server = ctx;
    (void)lease;
    server->once.unproven = true;
    server_log("sensor_unproven", "sensor=%s epoch=%llu", ref, (unsigned long long)epoch);
}

static void orphans_drop(struct server *server) {
    run_orphans_free(server->once.orphans);
    server->once.orphans = NULL;
}

static void on_orphans_gone(void *ctx) {
    struct server *server = ctx;
    orphans_drop(server);
    server->once.clean = !server->once.unproven;
}

static void orphans_begin(struct server *server) {
    const struct supervisor_options *sensors = server->options.sensors;
    struct run_orphans_hooks hooks = {
        .gone = on_orphan_gone, .unproven = on_orphan_unproven, .all_gone = on_orphans_gone};
    enum tn_status status = run_orphans_begin(&server->loop, server->options.os, sensors->dir,
                                              hooks, server, &server->once.orphans);
    if (status != TN_OK) {
        server->once.orphans = NULL;
        server_log("sensors_unknown", "dir=%s reason=\"%s\"", sensors->dir, tn_status_text(status));
    }
}

/* ---- From off to on and back ---- */

bool server_once_start(struct server *server) {
    server->once.owns = owns(server);
    if (server->options.sensors == NULL) {
        return true;
    }
    if (!server->once.owns) {
        orphans_begin(server);
        return true;
    }
    if (!supervisor_begin(server)) {
        server_log("refused", "reason=\"no memory for the supervisor of sensors\"");
        return false;
    }
    return true;
}

void server_once_look(struct server *server) {
    struct server_once *once = &server->once;
    if (server->stop.draining) {
        return;
    }
    once->owns = owns(server);
    bool gone = supervisor_is_gone(server);
    if (once->owns && gone && server->owners.supervisor == NULL &&
        server->options.sensors != NULL) {
        if (once->orphans != NULL) {
            orphans_drop(server); /* the supervisor looks for orphans itself */
        }
        if (!supervisor_begin(server)) {
            server_log("supervisor_off", "reason=\"no memory; it is tried again\"");
        }
    } else if (!once->owns && server->owners.supervisor != NULL) {
        supervisor_halt(server->owners.supervisor);
        supervisor_leave(server);
    } else if (!once->owns && gone && once->clean) {
        engine_clean(server->engine, 0);
    }
}

void server_once_stop(struct server *server) {
    if (server->once.orphans != NULL) {
        orphans_drop(server);
    }
    if (server->owners.supervisor != NULL) {
        supervisor_leave(server);
    }
}

bool server_once_stopped(const struct server *server) {
    return server->owners.supervisor == NULL && (server->once.leaving == NULL || server->once.left);
}

void server_once_free(struct server *server) {
    if (!supervisor_is_gone(server)) {
        supervisor_free(server->once.leaving);
        server->once.leaving = NULL;
    }
}
