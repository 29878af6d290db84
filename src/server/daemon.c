/* What daemon.h promises. */
#include "server/daemon.h"

#include "server/log_line.h"
#include "server/parts.h"
#include "server/tls_watch.h"

static void reload_begin(struct server *server);

static void users_take(struct server *server) {
    if (!access_configure(&server->access, server->options.users, server->options.user_count)) {
        server_log("users_failed", "reason=\"no memory; the log-in is refused\"");
    }
    server_users_again(server);
}

static void reload_work(uv_work_t *work) {
    struct server *server = work->data;
    server->options.hooks.reload(server->options.hooks.ctx);
}

static void reload_done(uv_work_t *work, int status) {
    struct server *server = work->data;
    (void)status; /* libuv never cancels it */
    server->daemon.reloading = false;
    server->options.sensors_changed = false;
    server->options.hooks.reloaded(server->options.hooks.ctx, &server->options);
    users_take(server);
    server_tls_reload(server);
    server_tls_judge(server);
    if (server->options.sensors_changed && server->owners.supervisor != NULL) {
        supervisor_defaults_set(server->owners.supervisor, &server->options.sensors->defaults);
    }
    if (server->daemon.reload_again) {
        reload_begin(server);
    }
}

static void reload_begin(struct server *server) {
    server->daemon.reload_again = server->daemon.reloading;
    if (!server->daemon.reloading && !server->stop.draining) {
        server->daemon.reloading = true;
        server->daemon.reload.data = server;
        (void)uv_queue_work(&server->loop, &server->daemon.reload, reload_work, reload_done);
    }
}

static void on_hangup(uv_signal_t *signal, int number) {
    (void)number;
    reload_begin(signal->data);
}

static void on_alive(uv_timer_t *timer) {
    struct server *server = timer->data;
    struct engine_stats stats;
    engine_stats_read(server->engine, &stats);
    if (stats.stopped == TN_R_OK) {
        server->options.hooks.alive(server->options.hooks.ctx);
    }
}

void server_daemon_start(struct server *server) {
    const struct server_hooks *hooks = &server->options.hooks;
    (void)uv_signal_init(&server->loop, &server->daemon.sighup);
    (void)uv_timer_init(&server->loop, &server->daemon.alive);
    server->daemon.sighup.data = server->daemon.alive.data = server;
    if (hooks->reload != NULL) {
        (void)uv_signal_start(&server->daemon.sighup, on_hangup, SIGHUP);
    }
    if (hooks->alive != NULL && hooks->alive_ms > 0) {
        (void)uv_timer_start(&server->daemon.alive, on_alive, hooks->alive_ms, hooks->alive_ms);
    }
}
