/* What transport.h promises, over libuv. */
#define _GNU_SOURCE 1 /* struct ucred, POLLRDHUP */
#include "server/transport.h"

#include <linux/sockios.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include "base/assert.h"

#define BACKLOG 1024

static void handle_init(union transport_handle *handle, uv_loop_t *loop, enum transport_kind kind,
                        void *data) {
    if (kind == TRANSPORT_UNIX) {
        (void)uv_pipe_init(loop, &handle->pipe, 0);
    } else {
        (void)uv_tcp_init(loop, &handle->tcp);
    }
    handle->any.data = data;
}

/* ---- Listeners ---- */

void transport_listener_init(struct transport_listener *listener, uv_loop_t *loop,
                             enum transport_kind kind, void (*waiting)(void *owner), void *owner) {
    handle_init(&listener->handle, loop, kind, listener);
    listener->kind = kind;
    listener->waiting = waiting;
    listener->owner = owner;
}

static void on_connection(uv_stream_t *stream, int status) {
    struct transport_listener *listener = stream->data;
    if (status == 0) {
        listener->waiting(listener->owner);
    }
}

void transport_unsent_bound(int socket, int unsent) {
    (void)setsockopt(socket, IPPROTO_TCP, TCP_NOTSENT_LOWAT, &unsent, sizeof unsent);
}

int transport_listen_tcp(struct transport_listener *listener, struct sockaddr_storage *address,
                         int unsent) {
    int len = sizeof *address;
    int socket = -1;
    int code = uv_tcp_bind(&listener->handle.tcp, (const struct sockaddr *)address, 0);
    if (code == 0) {
        (void)uv_fileno(&listener->handle.any, &socket);
        transport_unsent_bound(socket, unsent);
        code = uv_listen(&listener->handle.stream, BACKLOG, on_connection);
    }
    if (code == 0) {
        code = uv_tcp_getsockname(&listener->handle.tcp, (struct sockaddr *)address, &len);
    }
    return code;
}

int transport_listen_unix(struct transport_listener *listener, int socket) {
    int code = uv_pipe_open(&listener->handle.pipe, socket);
    return code == 0 ? uv_listen(&listener->handle.stream, BACKLOG, on_connection) : code;
}

void transport_listener_close(struct transport_listener *listener) {
    uv_close(&listener->handle.any, NULL);
}

/* ---- Streams ---- */

void transport_init(struct transport *transport, uv_loop_t *loop, enum transport_kind kind,
                    const struct transport_calls *calls, void *owner) {
    transport->ops = &transport_plain;
    transport->calls = calls;
    transport->owner = owner;
    transport->kind = kind;
    transport->tls = NULL;
    handle_init(&transport->handle, loop, kind, transport);
}

int transport_accept(struct transport *transport, struct transport_listener *listener) {
    int code = uv_accept(&listener->handle.stream, &transport->handle.stream);
    if (code == 0 && transport->kind != TRANSPORT_UNIX) {
        (void)uv_tcp_nodelay(&transport->handle.tcp, 1);
        (void)uv_tcp_keepalive(&transport->handle.tcp, 1, 300);
    }
    return code;
}

int transport_open(struct transport *transport, int socket) {
    TN_ASSERT(transport->kind == TRANSPORT_UNIX);
    return uv_pipe_open(&transport->handle.pipe, socket);
}

/* ---- Reading ---- */

static void on_alloc(uv_handle_t *handle, size_t suggested, uv_buf_t *ret_buffer) {
    struct transport *transport = handle->data;
    (void)suggested;
    *ret_buffer = transport->calls->buffer(transport->owner);
}

static void on_read(uv_stream_t *stream, ssize_t count, const uv_buf_t *buffer) {
    struct transport *transport = stream->data;
    transport->calls->read(transport->owner, (const uint8_t *)buffer->base, count);
}

static void plain_start(struct transport *transport) {
    (void)uv_read_start(&transport->handle.stream, on_alloc, on_read);
}

static void plain_stop(struct transport *transport) {
    (void)uv_read_stop(&transport->handle.stream);
}

/* ---- Writing ---- */

static void on_written(uv_write_t *request, int status) {
    struct transport *transport = request->data;
    transport->calls->written(transport->owner, status);
}

static int plain_try_write(struct transport *transport, const void *bytes, size_t len) {
    /* libuv wants a pointer that is not const, but only reads. */
    union {
        const void *in;
        char *out;
    } from = {.in = bytes};
    uv_buf_t buffer = uv_buf_init(from.out, (unsigned)len);
    int took = uv_try_write(&transport->handle.stream, &buffer, 1);
    return took == UV_EAGAIN ? 0 : took;
}

static int plain_write(struct transport *transport, void *bytes, size_t len) {
    uv_buf_t buffer = uv_buf_init(bytes, (unsigned)len);
    transport->request.data = transport;
    return uv_write(&transport->request, &transport->handle.stream, &buffer, 1, on_written);
}

static size_t plain_queued(const struct transport *transport) {
    return uv_stream_get_write_queue_size(&transport->handle.stream);
}

/* Bytes that a Unix-domain socket has accepted are already the peer's. */
static bool plain_unsent(const struct transport *transport) {
    int socket = -1;
    int bytes = 0;
    return transport->kind != TRANSPORT_UNIX && uv_fileno(&transport->handle.any, &socket) == 0 &&
           ioctl(socket, SIOCOUTQNSD, &bytes) == 0 && bytes > 0;
}

/* ---- Closing ---- */

static void on_closed(uv_handle_t *handle) {
    struct transport *transport = handle->data;
    transport->calls->closed(transport->owner);
}

bool transport_is_closing(const struct transport *transport) {
    return uv_is_closing(&transport->handle.any) != 0;
}

static void plain_close(struct transport *transport) {
    TN_ASSERT(!transport_is_closing(transport));
    uv_close(&transport->handle.any, on_closed);
}

const struct transport_ops transport_plain = {.start = plain_start,
                                              .stop = plain_stop,
                                              .try_write = plain_try_write,
                                              .write = plain_write,
                                              .queued = plain_queued,
                                              .unsent = plain_unsent,
                                              .close = plain_close};

/* ---- The other end ---- */

int transport_socket(const struct transport *transport) {
    int socket = -1;
    return uv_fileno(&transport->handle.any, &socket) == 0 ? socket : -1;
}

bool transport_ended(int socket) {
    struct pollfd one = {.fd = socket, .events = POLLRDHUP};
    return poll(&one, 1, 0) == 1;
}

bool transport_peer(const struct transport *transport, struct transport_peer *ret_peer) {
    struct ucred peer;
    socklen_t len = sizeof peer;
    int socket = -1;
    if (transport->kind != TRANSPORT_UNIX || uv_fileno(&transport->handle.any, &socket) != 0 ||
        getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &peer, &len) != 0 || len != sizeof peer) {
        return false;
    }
    *ret_peer = (struct transport_peer){.uid = peer.uid, .pid = peer.pid};
    return true;
}

static void tcp_name(const struct transport *transport, char out[TRANSPORT_PEER_MAX]) {
    struct sockaddr_storage peer;
    int len = sizeof peer;
    char host[48] = "?";
    unsigned port = 0;
    if (uv_tcp_getpeername(&transport->handle.tcp, (struct sockaddr *)&peer, &len) == 0) {
        if (peer.ss_family == AF_INET6) {
            const struct sockaddr_in6 *six = (const struct sockaddr_in6 *)&peer;
            (void)uv_ip6_name(six, host, sizeof host);
            port = ntohs(six->sin6_port);
        } else {
            const struct sockaddr_in *four = (const struct sockaddr_in *)&peer;
            (void)uv_ip4_name(four, host, sizeof host);
            port = ntohs(four->sin_port);
        }
    }
    bool six = strchr(host, ':') != NULL;
    (void)snprintf(out, TRANSPORT_PEER_MAX, "%s%s%s:%u", six ? "[" : "", host, six ? "]" : "",
                   port);
}

void transport_name(const struct transport *transport, char out[TRANSPORT_PEER_MAX]) {
    struct transport_peer peer;
    if (transport->kind != TRANSPORT_UNIX) {
        tcp_name(transport, out);
    } else if (transport_peer(transport, &peer)) {
        (void)snprintf(out, TRANSPORT_PEER_MAX, "unix:%u:%d", peer.uid, peer.pid);
    } else {
        (void)snprintf(out, TRANSPORT_PEER_MAX, "unix");
    }
}
