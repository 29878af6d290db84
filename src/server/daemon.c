/* What whoever runs the server asks of it and hears from it: reload, sign of life.
 *
 *     SIGHUP --> reload, on a worker thread --> reloaded, on the loop
 *
 * One reload at a time; a signal that comes meanwhile is one more after it, however many came. */
#include "server/internal.h"

static void reload_begin(struct server *server);

static void reload_work(uv_work_t *work) {
    struct server *server = work->data;
    server->options.hooks.reload(server->options.hooks.ctx);
}

static void reload_done(uv_work_t *work, int status) {
    struct server *server = work->data;
    (void)status; /* nobody cancels it */
    server->reloading = false;
    server->options.sensors_changed = false;
    server->options.hooks.reloaded(server->options.hooks.ctx, &server->options);
    server_users_take(server);
    if (server->options.sensors_changed && server->supervisor != NULL) {
        supervisor_defaults_set(server->supervisor, &server->options.sensors->defaults);
    }
    if (server->reload_again) {
        reload_begin(server);
    }
}

static void reload_begin(struct server *server) {
    server->reload_again = server->reloading;
    if (!server->reloading && !server->draining) {
        server->reloading = true;
        server->reload.data = server;
        (void)uv_queue_work(&server->loop, &server->reload, reload_work, reload_done);
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
    (void)uv_signal_init(&server->loop, &server->sighup);
    (void)uv_timer_init(&server->loop, &server->alive);
    server->sighup.data = server->alive.data = server;
    if (hooks->reload != NULL) {
        (void)uv_signal_start(&server->sighup, on_hangup, SIGHUP);
    }
    if (hooks->alive != NULL && hooks->alive_ms > 0) {
        (void)uv_timer_start(&server->alive, on_alive, hooks->alive_ms, hooks->alive_ms);
    }
}
