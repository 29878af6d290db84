/* What stop.h promises. */
#include "server/stop.h"

#include "base/assert.h"
#include "server/answer.h"
#include "server/connection.h"
#include "server/http_listen.h"
#include "server/listen.h"
#include "server/log_line.h"
#include "server/login.h"
#include "server/once.h"
#include "server/owners.h"
#include "server/parked.h"
#include "server/schedule.h"
#include "server/server.h"
#include "server/server_role.h"
#include "server/slots.h"
#include "server/stream.h"
#include "server/udp_listen.h"

static void handle_close(uv_handle_t *handle, void *ctx) {
    (void)ctx;
    if (!uv_is_closing(handle)) {
        uv_close(handle, NULL);
    }
}

void server_stop_now(struct server_owners *owners) {
    uv_walk(owners->loop, handle_close, NULL);
}

void server_stop_check(struct server_owners *owners) {
    if (owners->stop->draining && owners->connections->count == 0 && owners->slots->used == 0 &&
        owners->parked->leaves.in_flight == 0 && owners->logins->count == 0 &&
        server_http_stopped(owners) && server_once_stopped(owners)) {
        TN_ASSERT(owners->parked->count == 0); /* a parked request has a slot */
        engine_waited_set(owners->engine, NULL, NULL);
        server_answers_stop(owners->answers);
        server_role_stop(owners);
        server_streams_stop(owners->streams);
        server_stop_now(owners);
    }
}

static void drain_over(uv_timer_t *timer) {
    struct server_owners *owners = timer->data;
    if (server_clients(owners) > 0) {
        server_log("drain_over", "connections=%u", server_clients(owners));
    }
    for (struct server_connection *c = LIST_FIRST(&owners->connections->live); c != NULL;
         c = LIST_NEXT(c, place)) {
        server_connection_close(c);
    }
    server_http_stop(owners);
    server_stop_check(owners);
}

/* Runs from the loop, because the caller of server_stop may be serving a connection. */
static void drain_begin(uv_timer_t *timer) {
    struct server_owners *owners = timer->data;
    for (struct server_connection *c = LIST_FIRST(&owners->connections->live); c != NULL;
         c = LIST_NEXT(c, place)) {
        c->ended = true; /* requests that were read are answered, also those that wait for a turn */
        server_connection_run(c);
    }
    server_parked_check(owners->parked); /* refuses the requests that wait in line */
    server_http_drain(owners);
    server_udp_drain(owners);
    (void)uv_timer_start(&owners->stop->timer, drain_over, SERVER_DRAIN_MS, 0);
    server_once_stop(owners);
    server_stop_check(owners);
}

void server_stop(struct server_owners *owners, int exit_code) {
    owners->stop->exit_code =
        exit_code > owners->stop->exit_code ? exit_code : owners->stop->exit_code;
    if (owners->stop->draining) {
        return;
    }
    owners->stop->draining = owners->schedule->hurry = true;
    server_log("stopping", "connections=%u writes_in_flight=%u reason=%s", server_clients(owners),
               owners->slots->used, exit_code == 0 ? "signal" : "engine_halted");
    if (owners->options->hooks.stopping != NULL) {
        owners->options->hooks.stopping(owners->options->hooks.ctx);
    }
    server_listen_stop(owners);
    owners->stop->timer.data = owners;
    (void)uv_timer_start(&owners->stop->timer, drain_begin, 0, 0);
}
