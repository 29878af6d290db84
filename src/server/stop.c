/* What stop.h promises. */
#include "server/stop.h"

#include "base/assert.h"
#include "server/http_listen.h"
#include "server/log_line.h"
#include "server/parts.h"
#include "server/udp_listen.h"

static void handle_close(uv_handle_t *handle, void *ctx) {
    (void)ctx;
    if (!uv_is_closing(handle)) {
        uv_close(handle, NULL);
    }
}

void server_stop_now(struct server *server) {
    uv_walk(&server->loop, handle_close, NULL);
}

void server_stop_check(struct server *server) {
    if (server->stop.draining && server->connections.count == 0 && server->slots.used == 0 &&
        server->parked.leaves.in_flight == 0 && server->logins.count == 0 &&
        server_http_stopped(server) && server_once_stopped(server)) {
        TN_ASSERT(server->parked.count == 0); /* a parked request has a slot */
        engine_waited_set(server->engine, NULL, NULL);
        server_answers_stop(&server->answers);
        server_role_stop(server);
        server_streams_stop(&server->streams);
        server_stop_now(server);
    }
}

static void drain_over(uv_timer_t *timer) {
    struct server *server = timer->data;
    if (server_clients(server) > 0) {
        server_log("drain_over", "connections=%u", server_clients(server));
    }
    for (struct server_connection *c = LIST_FIRST(&server->connections.live); c != NULL;
         c = LIST_NEXT(c, place)) {
        server_connection_close(c);
    }
    server_http_stop(server);
    server_stop_check(server);
}

/* Runs from the loop, because the caller of server_stop may be serving a connection. */
static void drain_begin(uv_timer_t *timer) {
    struct server *server = timer->data;
    for (struct server_connection *c = LIST_FIRST(&server->connections.live); c != NULL;
         c = LIST_NEXT(c, place)) {
        c->ended = true; /* requests that were read are answered, also those that wait for a turn */
        server_connection_run(c);
    }
    server_parked_check(&server->parked); /* refuses the requests that wait in line */
    server_http_drain(server);
    server_udp_drain(server);
    (void)uv_timer_start(&server->stop.timer, drain_over, SERVER_DRAIN_MS, 0);
    server_once_stop(server);
    server_stop_check(server);
}

void server_stop(struct server *server, int exit_code) {
    server->stop.exit_code =
        exit_code > server->stop.exit_code ? exit_code : server->stop.exit_code;
    if (server->stop.draining) {
        return;
    }
    server->stop.draining = server->schedule.hurry = true;
    server_log("stopping", "connections=%u writes_in_flight=%u reason=%s", server_clients(server),
               server->slots.used, exit_code == 0 ? "signal" : "engine_halted");
    if (server->options.hooks.stopping != NULL) {
        server->options.hooks.stopping(server->options.hooks.ctx);
    }
    server_listen_stop(server);
    server->stop.timer.data = server;
    (void)uv_timer_start(&server->stop.timer, drain_begin, 0, 0);
}
