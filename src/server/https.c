/* HTTP with TLS: a relay for each connection.
 *
 *     client == TLS ==> transport == plain bytes ==> socket pair ==> libmicrohttpd
 *
 * libmicrohttpd never sees TLS: it gets one end of a pair of sockets when the handshake is over, and the
 * relay copies what was decrypted to the other end, and back. So the guards of http_wire.c and
 * http_guard.c judge the same bytes as without TLS, and RESP and HTTP share one certificate, one policy
 * and one reload.
 *
 * Back-pressure. Each direction has at most one buffer under way; while it is, its source is not read. The
 * sockets of the pair keep little, so libmicrohttpd notices a client that does not read.
 *
 * The end. The client ends: the pair is shut down for writing, as if the client's own socket were.
 * libmicrohttpd ends: what it wrote is sent, then the connection is closed. */
#define _GNU_SOURCE 1
#include "server/https.h"

#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "server/buffers.h"
#include "server/connection.h"
#include "server/count.h"
#include "server/http_listen.h"
#include "server/http_parts.h"
#include "server/listen.h"
#include "server/log_line.h"
#include "server/owners.h"
#include "server/schedule.h"
#include "server/server.h"
#include "server/server_tls.h"
#include "server/stop.h"
#include "server/tls_login.h"
#include "server/transport.h"
#include "server/transport_tls.h"
#include "server/users.h"

#define PAIR_BYTES (32 * 1024) /* bytes that each socket of the pair buffers, about */

struct https_relay {
    struct transport transport; /* the client, with TLS */
    struct transport inner;     /* our end of the pair */
    struct http *http;
    LIST_ENTRY(https_relay) place;
    TAILQ_ENTRY(https_relay) turn_place; /* if `paused` */
    uint64_t read_turn; /* the turn of the loop in which the client was last read */
    uint8_t *up;        /* bytes on their way to libmicrohttpd; NULL: none */
    uint8_t *down;      /* bytes on their way to the client */
    int given;          /* libmicrohttpd's end; -1: not created */
    struct http_connection *connection;
    struct access_login arrived;
    uint64_t created_ms;
    uint64_t progress_ms; /* when the client last took bytes, or the connection ended */
    size_t unsent;        /* unsent bytes at the last check */
    size_t discarded;
    uint32_t handles; /* that are open */
    bool established; /* the handshake is complete */
    bool ended;       /* the client has closed its side */
    bool finished;    /* libmicrohttpd has closed its side */
    bool paused;      /* the client is not read before the next turn of the loop */
    bool closing;
};

/* ---- Turns ---- */

static void pause_end(struct https_relay *relay) {
    if (relay->paused) {
        TAILQ_REMOVE(&relay->http->paused, relay, turn_place);
        relay->paused = false;
    }
}

/* The client was read in this turn, and has sent more. */
static void pause_until_next_turn(struct https_relay *relay) {
    transport_stop(&relay->transport);
    if (!relay->paused) {
        relay->paused = true;
        TAILQ_INSERT_TAIL(&relay->http->paused, relay, turn_place);
    }
    http_soon(relay->http);
}

void https_relays_turn(struct http *http) {
    struct https_relay *relay;
    while ((relay = TAILQ_FIRST(&http->paused)) != NULL) {
        pause_end(relay);
        if (relay->up == NULL && !relay->ended) {
            transport_start(&relay->transport);
        }
    }
}

/* ---- Closing ---- */

static void handle_closed(struct https_relay *relay) {
    struct http *http = relay->http;
    if (--relay->handles > 0) {
        return;
    }
    free(relay->up);
    free(relay->down);
    if (http->relay_looking == relay) {
        http->relay_looking = LIST_NEXT(relay, place);
    }
    if (http->relay_judging == relay) {
        http->relay_judging = LIST_NEXT(relay, place);
    }
    LIST_REMOVE(relay, place);
    http->relay_count--;
    free(relay);
    server_stop_check(http->owners);
}

static void one_closed(void *owner) {
    handle_closed(owner);
}

static void relay_close(struct https_relay *relay) {
    if (relay->closing) {
        return;
    }
    relay->closing = true;
    pause_end(relay);
    if (relay->connection == NULL) {
        relay->http->alone_count--;
    } else {
        relay->connection->client_socket = -1;
        if (relay->connection->exchange != NULL) {
            relay->connection->exchange->client.socket = -1;
        }
        https_relay_leave(relay->connection);
    }
    if (relay->handles > 1) {
        transport_close(&relay->inner);
    }
    transport_close(&relay->transport);
}

/* Whether libmicrohttpd has closed its end, not only its sending side. */
static bool inner_is_gone(const struct https_relay *relay) {
    struct pollfd one = {.fd = transport_socket(&relay->inner)};
    return poll(&one, 1, 0) == 1 && (one.revents & (POLLHUP | POLLERR)) != 0;
}

/* All that libmicrohttpd wrote has been sent. If it still reads, so does the relay: closing a
 * socket with unread input would destroy the answer on its way. */
static void relay_finish(struct https_relay *relay) {
    if (relay->ended || inner_is_gone(relay)) {
        relay_close(relay);
    } else {
        transport_tls_finish(&relay->transport);
    }
}

/* ---- From the client to libmicrohttpd ---- */

static void inner_shutdown(struct https_relay *relay) {
    (void)shutdown(transport_socket(&relay->inner), SHUT_WR);
}

static void inner_written(void *owner, int status) {
    struct https_relay *relay = owner;
    free(relay->up);
    relay->up = NULL;
    if (relay->closing) {
        return;
    }
    if (status < 0 && !relay->finished) {
        relay_close(relay);
    } else if (relay->ended) {
        inner_shutdown(relay);
    } else {
        transport_start(&relay->transport);
    }
}

/* libmicrohttpd has answered and does not read the rest. */
static void discard(struct https_relay *relay, size_t len) {
    relay->discarded += len;
    if (relay->discarded > HTTP_DISCARD_MAX) {
        relay_close(relay);
    }
}

static void up_send(struct https_relay *relay, const uint8_t *bytes, size_t len) {
    int took = transport_try_write(&relay->inner, bytes, len);
    if (took < 0 && relay->finished) {
        discard(relay, len);
    }
    if (took < 0 || (size_t)took == len) {
        return; /* after a failure, the end of the answer follows */
    }
    size_t rest = len - (size_t)took;
    relay->up = malloc(rest);
    if (relay->up == NULL) {
        relay_close(relay);
        return;
    }
    memcpy(relay->up, bytes + took, rest);
    transport_stop(&relay->transport);
    if (transport_write(&relay->inner, relay->up, rest) != 0) {
        relay_close(relay);
    }
}

/* One buffer in a turn, like read_buffer in connection.c. */
static uv_buf_t transport_buffer(void *owner) {
    struct https_relay *relay = owner;
    struct server_owners *owners = relay->http->owners;
    unsigned share = relay->established ? SERVER_SHARE_BYTES : SERVER_STRANGER_BYTES;
    if (relay->read_turn == owners->schedule->turn) {
        share = 0;
    }
    relay->read_turn = owners->schedule->turn;
    return uv_buf_init((char *)owners->buffers->read, share);
}

static void transport_read(void *owner, const uint8_t *bytes, ssize_t count) {
    struct https_relay *relay = owner;
    if (relay->closing || count == 0) {
        return;
    }
    if (count > 0) {
        up_send(relay, bytes, (size_t)count);
    } else if (count == UV_ENOBUFS) {
        pause_until_next_turn(relay);
    } else if (count != UV_EOF || !relay->established || (relay->finished && relay->down == NULL)) {
        relay_close(relay);
    } else {
        relay->ended = true;
        transport_stop(&relay->transport);
        if (relay->up == NULL) {
            inner_shutdown(relay);
        }
    }
}

/* ---- From libmicrohttpd to the client ---- */

static uv_buf_t inner_buffer(void *owner) {
    struct https_relay *relay = owner;
    return uv_buf_init((char *)relay->http->owners->buffers->read, SERVER_SHARE_BYTES);
}

static void transport_written(void *owner, int status) {
    struct https_relay *relay = owner;
    free(relay->down);
    relay->down = NULL;
    relay->progress_ms = uv_now(relay->http->owners->loop);
    if (relay->closing) {
        return;
    }
    if (status < 0) {
        relay_close(relay);
    } else if (relay->finished) {
        relay_finish(relay);
    } else {
        transport_start(&relay->inner);
    }
}

static void down_send(struct https_relay *relay, const uint8_t *bytes, size_t len) {
    int took = transport_try_write(&relay->transport, bytes, len);
    if (took == (int)len) {
        return;
    }
    size_t sent = took > 0 ? (size_t)took : 0;
    relay->down = took >= 0 ? malloc(len - sent) : NULL;
    if (relay->down == NULL) {
        relay_close(relay);
        return;
    }
    memcpy(relay->down, bytes + sent, len - sent);
    transport_stop(&relay->inner);
    if (transport_write(&relay->transport, relay->down, len - sent) != 0) {
        relay_close(relay);
    }
}

static void inner_read(void *owner, const uint8_t *bytes, ssize_t count) {
    struct https_relay *relay = owner;
    if (count > 0) {
        down_send(relay, bytes, (size_t)count);
    } else if (count == UV_EOF) {
        transport_stop(&relay->inner);
        relay->finished = true;
        if (relay->down == NULL) {
            relay_finish(relay);
        }
    } else if (count < 0) {
        relay_close(relay);
    }
}

/* ---- Beginning ---- */

static const struct transport_calls inner_calls = {
    .buffer = inner_buffer, .read = inner_read, .written = inner_written, .closed = one_closed};

static bool pair_make(struct https_relay *relay) {
    int pair[2];
    int bytes = PAIR_BYTES;
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, pair) != 0) {
        return false;
    }
    for (unsigned i = 0; i < 2; i++) {
        (void)setsockopt(pair[i], SOL_SOCKET, SO_SNDBUF, &bytes, sizeof bytes);
    }
    transport_init(&relay->inner, relay->http->owners->loop, TRANSPORT_UNIX, &inner_calls, relay);
    relay->handles++;
    if (transport_open(&relay->inner, pair[0]) != 0) {
        (void)close(pair[0]);
        (void)close(pair[1]);
        return false;
    }
    relay->given = pair[1];
    return true;
}

static bool admits_new(const struct https_relay *relay) {
    const struct server_owners *owners = relay->http->owners;
    return server_tls_admits_new(owners->tls, &relay->transport, owners->access, &relay->arrived);
}

/* The handshake is complete: passes one end of the pair to libmicrohttpd. */
static void transport_established(void *owner) {
    struct https_relay *relay = owner;
    struct http *http = relay->http;
    struct sockaddr_storage from;
    socklen_t len = sizeof from;
    relay->established = true;
    server_users_look(http->owners);
    relay->arrived = server_tls_login(&relay->transport, http->owners->access);
    if (http->daemon == NULL || http->draining || !admits_new(relay) || !pair_make(relay) ||
        getpeername(transport_socket(&relay->transport), (struct sockaddr *)&from, &len) != 0) {
        if (relay->given >= 0) {
            (void)close(relay->given);
        }
        relay_close(relay);
        return;
    }
    /* libmicrohttpd owns the socket from now on, even if this fails. */
    http->arriving = relay;
    (void)MHD_add_connection(http->daemon, relay->given, (struct sockaddr *)&from, len);
    http->arriving = NULL;
    if (relay->connection == NULL) {
        relay_close(relay);
        return;
    }
    transport_start(&relay->inner);
    http_soon(http);
}

static const struct transport_calls calls = {.buffer = transport_buffer,
                                             .read = transport_read,
                                             .written = transport_written,
                                             .established = transport_established,
                                             .closed = one_closed};

void server_https_accept(struct server_owners *owners, struct server_listener *listener) {
    struct http *http = owners->http;
    struct https_relay *relay = calloc(1, sizeof *relay);
    if (relay == NULL) {
        /* Libuv reports the next client only after this one has been accepted. */
        listener->waiting = true;
        return;
    }
    bool full = server_clients(owners) >= owners->options->connections_max;
    relay->http = http;
    relay->given = -1;
    relay->handles = 1;
    relay->created_ms = uv_now(owners->loop);
    http->relay_count++;
    http->alone_count++;
    LIST_INSERT_HEAD(&http->relays, relay, place);
    transport_init(&relay->transport, owners->loop, TRANSPORT_TLS, &calls, relay);
    owners->counters->rejected[SERVER_REJECT_CONNECTIONS] += full;
    if (transport_accept(&relay->transport, &listener->socket) != 0 || full ||
        !transport_tls_begin(&relay->transport, owners->tls)) {
        relay_close(relay);
        return;
    }
    transport_start(&relay->transport);
}

/* ---- What the rest of HTTP asks ---- */

void https_relay_find(struct http_connection *connection) {
    struct https_relay *relay = connection->http->arriving;
    if (relay != NULL && relay->given == connection->socket) {
        relay->connection = connection;
        connection->http->alone_count--;
        connection->relay = relay;
        connection->secure = true;
        connection->arrived = relay->arrived;
        connection->client_socket = transport_socket(&relay->transport);
    }
}

void https_relay_leave(struct http_connection *connection) {
    struct https_relay *relay = connection->relay;
    if (relay != NULL) {
        relay->connection = NULL;
        relay->progress_ms = uv_now(connection->http->owners->loop);
        connection->http->alone_count += !relay->closing;
        connection->relay = NULL;
    }
}

static void drop(struct https_relay *relay, enum server_drop reason) {
    struct http *http = relay->http;
    char address[TRANSPORT_PEER_MAX];
    http->counters->dropped[reason]++;
    if (server_connections_tell(http->owners->connections)) {
        transport_name(&relay->transport, address);
        server_log("client_dropped", "reason=%s addr=%s", server_drop_name(reason), address);
    }
    relay_close(relay);
}

/* Disconnects a client that the changed settings of TLS do not admit. */
static void turn_out(struct https_relay *relay) {
    char address[TRANSPORT_PEER_MAX];
    if (server_connections_tell(relay->http->owners->connections)) {
        transport_name(&relay->transport, address);
        server_log("client_dropped", "reason=certificate addr=%s", address);
    }
    relay_close(relay);
}

/* While libmicrohttpd has the connection, it disconnects a client that does not read. After it has
 * closed its end, the relay may still have bytes for the client. False: the client stays. */
static bool look(struct https_relay *relay) {
    const struct server_owners *owners = relay->http->owners;
    uint64_t now = uv_now(owners->loop);
    uint64_t patience = (uint64_t)owners->options->slow_seconds * 1000;
    if (relay->closing) {
        return false;
    }
    size_t unsent = transport_queued(&relay->transport);
    if (unsent != relay->unsent) {
        relay->unsent = unsent;
        relay->progress_ms = now;
    }
    if (!relay->established && now - relay->created_ms >= patience) {
        drop(relay, SERVER_DROP_HANDSHAKE);
    } else if (relay->finished && relay->down == NULL && inner_is_gone(relay)) {
        relay_close(relay);
    } else if (relay->established && relay->connection == NULL &&
               now - relay->progress_ms >= patience) {
        drop(relay, SERVER_DROP_SLOW);
    }
    return relay->closing;
}

void https_relays_look(struct http *http) {
    uint32_t drops = 0;
    for (uint32_t i = 0; i < SERVER_LOOKS_MAX && drops < SERVER_DROPS_MAX; i++) {
        struct https_relay *relay = http->relay_looking;
        if (relay == NULL) {
            return;
        }
        http->relay_looking = LIST_NEXT(relay, place);
        drops += look(relay);
    }
}

void server_https_judge(struct server_owners *owners) {
    if (owners->http != NULL && owners->http->daemon != NULL) {
        owners->http->relay_judging = LIST_FIRST(&owners->http->relays);
        http_soon(owners->http);
    }
}

void https_relays_judge(struct http *http) {
    const struct server_owners *owners = http->owners;
    for (uint32_t i = 0; i < SERVER_TLS_JUDGED && http->relay_judging != NULL; i++) {
        struct https_relay *relay = http->relay_judging;
        http->relay_judging = LIST_NEXT(relay, place);
        if (!relay->closing && relay->established &&
            !server_tls_admits(owners->tls, &relay->transport, owners->access, &relay->arrived)) {
            turn_out(relay);
        }
    }
}

void https_relays_close(struct http *http, bool all) {
    struct https_relay *next;
    for (struct https_relay *relay = LIST_FIRST(&http->relays); relay != NULL; relay = next) {
        next = LIST_NEXT(relay, place);
        if (all || !relay->established) {
            relay_close(relay);
        }
    }
}
