/* What daemon.h promises. */
#include "server/daemon.h"

#include "server/access.h"
#include "server/log_line.h"
#include "server/owners.h"
#include "server/server.h"
#include "server/stop.h"
#include "server/tls_watch.h"
#include "server/users.h"

static void reload_begin(struct server_owners *owners);

static void users_take(struct server_owners *owners) {
    if (!access_configure(owners->access, owners->options->users, owners->options->user_count)) {
        server_log("users_failed", "reason=\"no memory; the log-in is refused\"");
    }
    server_users_again(owners);
}

static void reload_work(uv_work_t *work) {
    struct server_owners *owners = work->data;
    owners->options->hooks.reload(owners->options->hooks.ctx);
}

static void reload_done(uv_work_t *work, int status) {
    struct server_owners *owners = work->data;
    (void)status; /* libuv never cancels it */
    owners->daemon->reloading = false;
    owners->daemon->options->sensors_changed = false;
    owners->options->hooks.reloaded(owners->options->hooks.ctx, owners->daemon->options);
    users_take(owners);
    server_tls_reload(owners);
    server_tls_judge(owners);
    if (owners->options->sensors_changed && owners->supervisor != NULL) {
        supervisor_defaults_set(owners->supervisor, &owners->options->sensors->defaults);
    }
    if (owners->daemon->reload_again) {
        reload_begin(owners);
    }
}

static void reload_begin(struct server_owners *owners) {
    owners->daemon->reload_again = owners->daemon->reloading;
    if (!owners->daemon->reloading && !owners->stop->draining) {
        owners->daemon->reloading = true;
        owners->daemon->reload.data = owners;
        (void)uv_queue_work(owners->loop, &owners->daemon->reload, reload_work, reload_done);
    }
}

static void on_hangup(uv_signal_t *signal, int number) {
    (void)number;
    reload_begin(signal->data);
}

static void on_alive(uv_timer_t *timer) {
    struct server_owners *owners = timer->data;
    struct engine_stats stats;
    engine_stats_read(owners->engine, &stats);
    if (stats.stopped == TN_R_OK) {
        owners->options->hooks.alive(owners->options->hooks.ctx);
    }
}

void server_daemon_start(struct server_owners *owners, struct server_options *options) {
    owners->daemon->options = options;
    const struct server_hooks *hooks = &owners->options->hooks;
    (void)uv_signal_init(owners->loop, &owners->daemon->sighup);
    (void)uv_timer_init(owners->loop, &owners->daemon->alive);
    owners->daemon->sighup.data = owners->daemon->alive.data = owners;
    if (hooks->reload != NULL) {
        (void)uv_signal_start(&owners->daemon->sighup, on_hangup, SIGHUP);
    }
    if (hooks->alive != NULL && hooks->alive_ms > 0) {
        (void)uv_timer_start(&owners->daemon->alive, on_alive, hooks->alive_ms, hooks->alive_ms);
    }
}
