/* HTTP's sockets in the loop: listening, running libmicrohttpd, and stopping it.
 *
 * Connections are accepted by http_socket.c and https.c and not by libmicrohttpd, since they share one
 * limit with those of RESP, and a client above it gets an answer. */
#define _GNU_SOURCE 1 /* struct ucred */
#include "server/access.h"
#include "server/count.h"
#include "server/http_listen.h"
#include "server/http_parts.h"
#include "server/owners.h"
#include "server/schedule.h"
#include "server/server.h"
#include "server/stop.h"

#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "base/assert.h"
#include "protocol/openapi.h"

/* ---- Running ---- */

/* Disconnects a client that does not complete its request in time. libmicrohttpd has a limit for
 * silent clients only, which one byte at a time evades. True: the client was disconnected. */
static bool look(struct http_connection *c) {
    const struct server_owners *owners = c->http->owners;
    uint64_t patience = (uint64_t)owners->options->slow_seconds * 1000;
    bool receiving = c->exchange == NULL || c->exchange->state == HTTP_RECEIVING;
    if (!receiving && c->exchange->stream != NULL) {
        http_stream_second(c->exchange);
        return false;
    }
    if (!receiving && c->exchange->client.waits) {
        http_exchange_look(c->exchange);
        return false;
    }
    bool over = receiving && uv_now(owners->loop) - c->since_ms >= patience;
    if (over) {
        (void)shutdown(c->socket, SHUT_RDWR);
    }
    return over;
}

/* Like server_connections_look: called once in a turn. */
static void connections_look(struct http *http) {
    uint32_t drops = 0;
    for (uint32_t i = 0; i < SERVER_LOOKS_MAX && drops < SERVER_DROPS_MAX; i++) {
        struct http_connection *c = http->looking;
        if (c == NULL) {
            return;
        }
        http->looking = LIST_NEXT(c, place);
        drops += look(c);
    }
}

static void on_timer(uv_timer_t *timer) {
    http_run(timer->data);
}

static void on_soon(uv_idle_t *soon) {
    https_relays_turn(soon->data);
    connections_look(soon->data);
    https_relays_look(soon->data);
    https_relays_judge(soon->data);
    http_run(soon->data);
}

static void on_epoll(uv_poll_t *poll, int status, int events) {
    (void)status;
    (void)events;
    http_run(poll->data);
}

static void handle_end(uv_handle_t *handle) {
    if (!uv_is_closing(handle)) {
        uv_close(handle, NULL);
    }
}

/* Closes everything that is still open. No connection of libmicrohttpd may be suspended. */
static void stop(struct http *http) {
    http_listeners_stop(http);
    for (struct http_connection *c = LIST_FIRST(&http->connections); c != NULL;
         c = LIST_NEXT(c, place)) {
        if (c->exchange != NULL && c->exchange->state == HTTP_WORKING) {
            c->exchange->broken = true;
            http_exchange_wake(c->exchange);
        } else if (c->exchange != NULL) {
            http_stream_end(c->exchange);
            http_seed_end(c->exchange);
        }
    }
    handle_end((uv_handle_t *)&http->epoll);
    handle_end((uv_handle_t *)&http->timer);
    handle_end((uv_handle_t *)&http->soon);
    MHD_stop_daemon(http->daemon);
    http->daemon = NULL;
    TN_ASSERT(http->connection_count == 0);
}

/* Whether every complete request has been answered and its answer sent. */
static bool quiet(const struct http *http) {
    for (const struct http_connection *c = LIST_FIRST(&http->connections); c != NULL;
         c = LIST_NEXT(c, place)) {
        if (c->exchange != NULL && c->exchange->state != HTTP_RECEIVING) {
            return false;
        }
    }
    return true;
}

/* Work for the next turn of the loop uses an idle handle. A timer of zero milliseconds would run
 * again in the same turn, so the sockets would never be polled. */
static void rearm(struct http *http) {
    MHD_UNSIGNED_LONG_LONG ms = 0;
    bool limited = MHD_get_timeout(http->daemon, &ms) == MHD_YES;
    if (http->resumed || !TAILQ_EMPTY(&http->queue) || http->looking != NULL ||
        http->relay_looking != NULL || http->relay_judging != NULL || !TAILQ_EMPTY(&http->paused) ||
        (limited && ms == 0)) {
        (void)uv_idle_start(&http->soon, on_soon);
        return;
    }
    (void)uv_idle_stop(&http->soon);
    if (limited) {
        (void)uv_timer_start(&http->timer, on_timer, ms, 0);
    } else {
        (void)uv_timer_stop(&http->timer);
    }
}

void http_run(struct http *http) {
    if (http->daemon == NULL) {
        return;
    }
    http->gzip_turn = 0;
    http_streams_turn(http);
    http->resumed = false;
    http_wire_run(http);
    if (http->draining && quiet(http)) {
        stop(http);
        server_stop_check(http->owners);
    } else {
        rearm(http);
    }
}

void http_soon(struct http *http) {
    if (!http->resumed) {
        http->resumed = true;
        (void)uv_idle_start(&http->soon, on_soon);
    }
}

/* libmicrohttpd does not make its epoll descriptor readable for a resumed connection. */
void http_resume(struct http *http, struct MHD_Connection *mhd) {
    MHD_resume_connection(mhd);
    http_soon(http);
}

/* ---- Connections ---- */

/* Identifies a client of the Unix-domain socket by its process. A socket accepted by our listener
 * has a name; a socket pair has none and proves nothing. */
static void peer_find(struct http_connection *connection) {
    struct sockaddr_un own = {.sun_family = AF_UNSPEC};
    struct ucred peer;
    socklen_t own_len = sizeof own, len = sizeof peer;
    if (connection->secure ||
        getsockname(connection->socket, (struct sockaddr *)&own, &own_len) != 0 ||
        own.sun_family != AF_UNIX) {
        return;
    }
    bool known = own_len > offsetof(struct sockaddr_un, sun_path) &&
                 getsockopt(connection->socket, SOL_SOCKET, SO_PEERCRED, &peer, &len) == 0 &&
                 len == sizeof peer;
    connection->arrived.user =
        known ? access_peer(connection->http->owners->access, peer.uid) : &access_stranger;
}

/* A connection begins or ends; its struct is libmicrohttpd's socket context. */
static void on_connection(void *ctx, struct MHD_Connection *mhd, void **socket_ctx,
                          enum MHD_ConnectionNotificationCode what) {
    struct http *http = ctx;
    struct http_connection *connection = *socket_ctx;
    if (what == MHD_CONNECTION_NOTIFY_STARTED) {
        const union MHD_ConnectionInfo *info =
            MHD_get_connection_info(mhd, MHD_CONNECTION_INFO_CONNECTION_FD);
        connection = calloc(1, sizeof *connection);
        if (connection == NULL) {
            return; /* its first request is refused */
        }
        connection->http = http;
        connection->since_ms = uv_now(http->owners->loop);
        connection->socket = connection->client_socket = info->connect_fd;
        https_relay_find(connection);
        peer_find(connection);
        if (!http_wire_add(http, connection)) {
            https_relay_leave(connection);
            free(connection);
            return;
        }
        LIST_INSERT_HEAD(&http->connections, connection, place);
        http->connection_count++;
        http->owners->counters->http_connections++;
        *socket_ctx = connection;
    } else if (connection != NULL) {
        if (http->looking == connection) {
            http->looking = LIST_NEXT(connection, place);
        }
        https_relay_leave(connection);
        http_wire_remove(http, connection);
        LIST_REMOVE(connection, place);
        http->connection_count--;
        free(connection);
    }
}

void server_http_check(struct server_owners *owners) {
    struct http *http = owners->http;
    if (http == NULL || http->daemon == NULL) {
        return;
    }
    http_listeners_retry(http);
    if (http->looking == NULL) {
        http->looking = LIST_FIRST(&http->connections);
    }
    if (http->relay_looking == NULL) {
        http->relay_looking = LIST_FIRST(&http->relays);
    }
    http_run(http);
}

void server_http_review(struct server_owners *owners) {
    struct http *http = owners->http;
    if (http == NULL || http->daemon == NULL) {
        return;
    }
    for (struct http_connection *c = LIST_FIRST(&http->connections); c != NULL;
         c = LIST_NEXT(c, place)) {
        struct http_exchange *exchange = c->exchange;
        if (exchange == NULL && http_arrived_is_void(c)) {
            (void)shutdown(c->socket, SHUT_RDWR);
        }
        if (exchange == NULL ||
            access_user_of(owners->access, &exchange->client.login)->role != PROTOCOL_NOBODY) {
            continue; /* without a log-in, only clients that neither wait nor listen stay */
        }
        if (exchange->state == HTTP_WORKING && exchange->client.waits) {
            exchange->broken = true;
            http_exchange_wake(exchange);
        } else {
            http_stream_end(exchange);
        }
    }
    http_run(http);
}

/* ---- Starting and stopping ---- */

static struct MHD_Daemon *daemon_start(struct http *http) {
    return MHD_start_daemon(
        MHD_USE_EPOLL | MHD_ALLOW_SUSPEND_RESUME | MHD_USE_NO_LISTEN_SOCKET |
            MHD_USE_PEDANTIC_CHECKS,
        0, NULL, NULL, http_exchange_request, http, MHD_OPTION_CONNECTION_LIMIT,
        HTTP_CONNECTIONS_MAX, MHD_OPTION_CONNECTION_MEMORY_LIMIT, (size_t)HTTP_CONNECTION_BYTES,
        MHD_OPTION_CONNECTION_TIMEOUT, http->owners->options->slow_seconds,
        MHD_OPTION_URI_LOG_CALLBACK, http_exchange_new, http, MHD_OPTION_NOTIFY_COMPLETED,
        http_exchange_end, http, MHD_OPTION_NOTIFY_CONNECTION, on_connection, http, MHD_OPTION_END);
}

int server_http_start(struct server_owners *owners) {
    struct http *http = calloc(1, sizeof *http);
    if (http == NULL) {
        return UV_ENOMEM;
    }
    http->owners = owners;
    http->counters = owners->counters;
    http->listeners[HTTP_LISTEN_TCP].socket = http->listeners[HTTP_LISTEN_UNIX].socket = -1;
    TAILQ_INIT(&http->queue);
    TAILQ_INIT(&http->paused);
    http->scratch = malloc(HTTP_SCRATCH_BYTES);
    http->openapi = protocol_openapi_make(owners->options->version, &http->openapi_len);
    if (http->openapi != NULL) {
        http->openapi[http->openapi_len++] = '\n'; /* in place of its NUL: the length counts */
    }
    http->daemon = http->scratch != NULL && http->openapi != NULL && http_gzip_start(http)
                       ? daemon_start(http)
                       : NULL;
    if (http->daemon == NULL) {
        http_gzip_stop(http);
        free(http->scratch);
        free(http->openapi);
        free(http);
        return UV_ENOMEM;
    }
    owners->http = http;
    const union MHD_DaemonInfo *info = MHD_get_daemon_info(http->daemon, MHD_DAEMON_INFO_EPOLL_FD);
    (void)uv_poll_init(owners->loop, &http->epoll, info->epoll_fd);
    (void)uv_timer_init(owners->loop, &http->timer);
    (void)uv_idle_init(owners->loop, &http->soon);
    http->epoll.data = http->timer.data = http->soon.data = http;
    (void)uv_poll_start(&http->epoll, UV_READABLE, on_epoll);
    return 0;
}

uint32_t server_http_connections(const struct server_owners *owners) {
    const struct http *http = owners->http;
    return http != NULL ? http->connection_count + http->alone_count : 0;
}

uint32_t server_http_streams(const struct server_owners *owners) {
    return owners->http != NULL ? owners->http->stream_count : 0;
}

bool server_http_stopped(const struct server_owners *owners) {
    const struct http *http = owners->http;
    return http == NULL || (http->daemon == NULL && http->relay_count == 0);
}

void server_http_wake(struct server_owners *owners) {
    if (owners->http != NULL && owners->http->resumed) {
        http_run(owners->http);
    }
}

void server_http_drain(struct server_owners *owners) {
    struct http *http = owners->http;
    if (http != NULL && http->daemon != NULL) {
        http->draining = true;
        http_listeners_stop(http);
        https_relays_close(http, false);
        for (struct http_connection *c = LIST_FIRST(&http->connections); c != NULL;
             c = LIST_NEXT(c, place)) {
            if (c->exchange != NULL) {
                http_stream_end(c->exchange);
                http_seed_end(c->exchange);
            }
        }
        http_run(http);
    }
}

void server_http_stop(struct server_owners *owners) {
    struct http *http = owners->http;
    if (http != NULL && http->daemon != NULL) {
        stop(http);
    }
    if (http != NULL) {
        https_relays_close(http, true);
    }
}

void server_http_free(struct server_owners *owners) {
    if (owners->http != NULL) {
        free(owners->http->sockets);
        free(owners->http->scratch);
        http_gzip_stop(owners->http);
        free(owners->http->openapi);
        free(owners->http);
    }
}
