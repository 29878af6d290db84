/* The sockets that RESP clients connect to: one of TCP, and one of the Unix domain, whose clients are
 * known by their processes. */
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <string.h>
#include <sys/socket.h>

#include "server/internal.h"

#define BACKLOG 1024

static void on_connection(uv_stream_t *stream, int status) {
    if (status == 0) {
        server_connection_arrives(stream->data);
    }
}

static struct server_listener *listener_make(struct server *server, enum transport_kind kind) {
    struct server_listener *listener = &server->listeners[kind];
    listener->server = server;
    listener->kind = kind;
    if (kind == TRANSPORT_UNIX) {
        (void)uv_pipe_init(&server->loop, &listener->handle.pipe, 0);
    } else {
        (void)uv_tcp_init(&server->loop, &listener->handle.tcp);
    }
    listener->handle.any.data = listener;
    listener->is_open = true;
    return listener;
}

static void listener_close(struct server_listener *listener) {
    struct server *server = listener->server;
    if (listener->is_open) {
        uv_close(&listener->handle.any, NULL);
        if (listener->kind == TRANSPORT_UNIX) {
            unix_remove(server->options.os, server->options.unix_path, &server->unix_socket);
        }
    }
    listener->is_open = listener->waiting = false;
}

/* Sockets that are accepted inherit it. It bounds what the kernel keeps of what could not be sent yet,
 * not what is on its way: a client that reads is served as fast as before. */
void server_unsent_bound(int socket) {
    int bytes = SERVER_UNSENT_BYTES;
    (void)setsockopt(socket, IPPROTO_TCP, TCP_NOTSENT_LOWAT, &bytes, sizeof bytes);
}

int server_listen_tcp(struct server *server, const char *host, uint16_t port) {
    struct server_listener *listener = listener_make(server, TRANSPORT_TCP);
    struct sockaddr_storage address;
    int len = sizeof address;
    int code = server_address_make(host, port, &address);
    if (code == 0) {
        code = uv_tcp_bind(&listener->handle.tcp, (const struct sockaddr *)&address, 0);
    }
    if (code == 0) {
        int socket = -1;
        (void)uv_fileno(&listener->handle.any, &socket);
        server_unsent_bound(socket);
        code = uv_listen(&listener->handle.stream, BACKLOG, on_connection);
    }
    if (code == 0) {
        code = uv_tcp_getsockname(&listener->handle.tcp, (struct sockaddr *)&address, &len);
        server->port = server_address_port(&address);
    }
    return code;
}

/* A path that nobody has chosen must not keep the server from starting: the directory may be too deep,
 * or on a file system without sockets. */
static bool unix_failed(const struct server *server, enum unix_result result, const char *reason) {
    bool must = server->options.unix_chosen || result == UNIX_LIVE;
    server_log(must ? "refused" : "unix_off", "reason=\"--unix %s: %s\"", server->options.unix_path,
               reason);
    return !must;
}

bool server_listen_unix(struct server *server) {
    const char *path = server->options.unix_path;
    char reason[256];
    enum unix_result result =
        unix_bind(server->options.os, path, &server->unix_socket, reason, sizeof reason);
    if (result != UNIX_OK) {
        return unix_failed(server, result, reason);
    }
    struct server_listener *listener = listener_make(server, TRANSPORT_UNIX);
    int code = uv_pipe_open(&listener->handle.pipe, server->unix_socket.fd);
    if (code == 0) {
        code = uv_listen(&listener->handle.stream, BACKLOG, on_connection);
    }
    if (code != 0) {
        listener_close(listener);
        return unix_failed(server, UNIX_FAILED, uv_strerror(code));
    }
    return true;
}

void server_listen_stop(struct server *server) {
    for (unsigned i = 0; i < 2; i++) {
        listener_close(&server->listeners[i]);
    }
}

void server_listen_resume(struct server *server) {
    for (unsigned i = 0; i < 2; i++) {
        if (server->listeners[i].waiting) {
            server->accepts = 0;
            server_connection_arrives(&server->listeners[i]);
        }
    }
}
