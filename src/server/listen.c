/* What listen.h promises. */
#include "server/listen.h"

#include "server/connection.h"
#include "server/http_listen.h"
#include "server/https.h"
#include "server/listen_address.h"
#include "server/log_line.h"
#include "server/memory.h"
#include "server/owners.h"
#include "server/schedule.h"
#include "server/server.h"
#include "server/transport.h"
#include "server/unix.h"

/* Accepts a few clients in one turn. The listener reports no other client while one waits. */
static void arrives(struct server_listener *listener) {
    struct server_owners *owners = listener->owners;
    listener->waiting = owners->listeners->accepts == SERVER_ACCEPTS_MAX;
    if (listener->waiting) {
        schedule_soon(owners->schedule);
        return;
    }
    owners->listeners->accepts++;
    listener->accept(owners, listener);
}

static void on_waiting(void *owner) {
    arrives(owner);
}

static struct server_listener *listener_make(struct server_owners *owners,
                                             enum server_listen which) {
    static const enum transport_kind kinds[SERVER_LISTEN_COUNT] = {
        [SERVER_LISTEN_TCP] = TRANSPORT_TCP,
        [SERVER_LISTEN_UNIX] = TRANSPORT_UNIX,
        [SERVER_LISTEN_TLS] = TRANSPORT_TLS,
        [SERVER_LISTEN_HTTPS] = TRANSPORT_TLS};
    struct server_listener *listener = &owners->listeners->of[which];
    enum transport_kind kind = kinds[which];
    listener->owners = owners;
    listener->accept =
        which == SERVER_LISTEN_HTTPS ? server_https_accept : server_connection_accept;
    transport_listener_init(&listener->socket, owners->loop, kind, on_waiting, listener);
    listener->is_open = true;
    return listener;
}

static void listener_close(struct server_listener *listener) {
    struct server_owners *owners = listener->owners;
    if (listener->is_open) {
        transport_listener_close(&listener->socket);
        if (listener->socket.kind == TRANSPORT_UNIX) {
            unix_remove(owners->options->os, owners->options->unix_path,
                        &owners->listeners->unix_socket);
        }
    }
    listener->is_open = listener->waiting = false;
}

int server_listen_tcp(struct server_owners *owners, enum server_listen which, const char *host,
                      uint16_t port) {
    struct server_listener *listener = listener_make(owners, which);
    struct sockaddr_storage address;
    int code = server_address_make(host, port, &address);
    if (code == 0) {
        code = transport_listen_tcp(&listener->socket, &address, SERVER_UNSENT_BYTES);
    }
    listener->port = code == 0 ? server_address_port(&address) : 0;
    return code;
}

/* Whether the server must not start without the socket. The default path may fail: the directory
 * may be too deep, or on a file system without sockets. */
static bool unix_failed(const struct server_owners *owners, enum unix_result result,
                        const char *reason) {
    bool must = owners->options->unix_chosen || result == UNIX_LIVE;
    server_log(must ? "refused" : "unix_off", "reason=\"--unix %s: %s\"",
               owners->options->unix_path, reason);
    return !must;
}

bool server_listen_unix(struct server_owners *owners) {
    const char *path = owners->options->unix_path;
    struct unix_socket *socket = &owners->listeners->unix_socket;
    char reason[256];
    enum unix_result result = unix_bind(owners->options->os, path, socket, reason, sizeof reason);
    if (result != UNIX_OK) {
        return unix_failed(owners, result, reason);
    }
    struct server_listener *listener = listener_make(owners, SERVER_LISTEN_UNIX);
    int code = transport_listen_unix(&listener->socket, socket->fd);
    if (code != 0) {
        listener_close(listener);
        return unix_failed(owners, UNIX_FAILED, uv_strerror(code));
    }
    return true;
}

const char *server_unix_path(const struct server_owners *owners) {
    return owners->listeners->of[SERVER_LISTEN_UNIX].is_open ? owners->options->unix_path : "off";
}

uint16_t server_listen_port(const struct server_owners *owners, enum server_listen which) {
    return owners->listeners->of[which].port;
}

uint32_t server_clients(const struct server_owners *owners) {
    return owners->connections->count + server_http_connections(owners);
}

void server_listen_stop(struct server_owners *owners) {
    for (unsigned i = 0; i < SERVER_LISTEN_COUNT; i++) {
        listener_close(&owners->listeners->of[i]);
    }
}

void server_listen_resume(struct server_owners *owners) {
    for (unsigned i = 0; i < SERVER_LISTEN_COUNT; i++) {
        if (owners->listeners->of[i].waiting) {
            owners->listeners->accepts = 0;
            arrives(&owners->listeners->of[i]);
        }
    }
}
