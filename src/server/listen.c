/* What listen.h promises. */
#include "server/listen.h"

#include "server/https.h"
#include "server/listen_address.h"
#include "server/log_line.h"
#include "server/memory.h"
#include "server/parts.h"

/* Accepts a few clients in one turn. The listener reports no other client while one waits. */
static void arrives(struct server_listener *listener) {
    struct server *server = listener->server;
    listener->waiting = server->listeners.accepts == SERVER_ACCEPTS_MAX;
    if (listener->waiting) {
        schedule_soon(&server->schedule);
        return;
    }
    server->listeners.accepts++;
    listener->accept(server, listener);
}

static void on_waiting(void *owner) {
    arrives(owner);
}

static struct server_listener *listener_make(struct server *server, enum server_listen which) {
    static const enum transport_kind kinds[SERVER_LISTEN_COUNT] = {
        [SERVER_LISTEN_TCP] = TRANSPORT_TCP,
        [SERVER_LISTEN_UNIX] = TRANSPORT_UNIX,
        [SERVER_LISTEN_TLS] = TRANSPORT_TLS,
        [SERVER_LISTEN_HTTPS] = TRANSPORT_TLS};
    struct server_listener *listener = &server->listeners.of[which];
    enum transport_kind kind = kinds[which];
    listener->server = server;
    listener->accept =
        which == SERVER_LISTEN_HTTPS ? server_https_accept : server_connection_accept;
    transport_listener_init(&listener->socket, &server->loop, kind, on_waiting, listener);
    listener->is_open = true;
    return listener;
}

static void listener_close(struct server_listener *listener) {
    struct server *server = listener->server;
    if (listener->is_open) {
        transport_listener_close(&listener->socket);
        if (listener->socket.kind == TRANSPORT_UNIX) {
            unix_remove(server->options.os, server->options.unix_path,
                        &server->listeners.unix_socket);
        }
    }
    listener->is_open = listener->waiting = false;
}

int server_listen_tcp(struct server *server, enum server_listen which, const char *host,
                      uint16_t port) {
    struct server_listener *listener = listener_make(server, which);
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
static bool unix_failed(const struct server *server, enum unix_result result, const char *reason) {
    bool must = server->options.unix_chosen || result == UNIX_LIVE;
    server_log(must ? "refused" : "unix_off", "reason=\"--unix %s: %s\"", server->options.unix_path,
               reason);
    return !must;
}

bool server_listen_unix(struct server *server) {
    const char *path = server->options.unix_path;
    struct unix_socket *socket = &server->listeners.unix_socket;
    char reason[256];
    enum unix_result result = unix_bind(server->options.os, path, socket, reason, sizeof reason);
    if (result != UNIX_OK) {
        return unix_failed(server, result, reason);
    }
    struct server_listener *listener = listener_make(server, SERVER_LISTEN_UNIX);
    int code = transport_listen_unix(&listener->socket, socket->fd);
    if (code != 0) {
        listener_close(listener);
        return unix_failed(server, UNIX_FAILED, uv_strerror(code));
    }
    return true;
}

const char *server_unix_path(const struct server *server) {
    return server->listeners.of[SERVER_LISTEN_UNIX].is_open ? server->options.unix_path : "off";
}

uint16_t server_listen_port(const struct server *server, enum server_listen which) {
    return server->listeners.of[which].port;
}

void server_listen_stop(struct server *server) {
    for (unsigned i = 0; i < SERVER_LISTEN_COUNT; i++) {
        listener_close(&server->listeners.of[i]);
    }
}

void server_listen_resume(struct server *server) {
    for (unsigned i = 0; i < SERVER_LISTEN_COUNT; i++) {
        if (server->listeners.of[i].waiting) {
            server->listeners.accepts = 0;
            arrives(&server->listeners.of[i]);
        }
    }
}
