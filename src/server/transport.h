/* The byte stream of one RESP connection, and the sockets that accept such streams. The rest of the
 * server uses these calls and none of libuv's for streams. A stream is behind a table of functions:
 * transport_plain, or the one of transport_tls.c.
 *
 * The owner embeds the struct and passes its calls once, when the stream is accepted. After
 * transport_close the struct is in use until `closed` has been called. All on the loop's thread. */
#ifndef TN_SERVER_TRANSPORT_H
#define TN_SERVER_TRANSPORT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <uv.h>

#define TRANSPORT_PEER_MAX 64u

enum transport_kind { TRANSPORT_TCP, TRANSPORT_UNIX, TRANSPORT_TLS };

struct tls_stream;
struct transport;

/* The callbacks of the owner. */
struct transport_calls {
    /* The buffer for the next bytes. */
    uv_buf_t (*buffer)(void *owner);
    /* Bytes were read, or `count` is UV_EOF or another error code of libuv. */
    void (*read)(void *owner, const uint8_t *bytes, ssize_t count);
    /* The bytes of transport_write were sent, or `status` is an error code of libuv. */
    void (*written)(void *owner, int status);
    /* With TLS only: the handshake has been completed. */
    void (*established)(void *owner);
    void (*closed)(void *owner);
};

/* The operations of a kind of stream. The functions of the same names below state their
 * contracts. */
struct transport_ops {
    void (*start)(struct transport *transport);
    void (*stop)(struct transport *transport);
    int (*try_write)(struct transport *transport, const void *bytes, size_t len);
    int (*write)(struct transport *transport, void *bytes, size_t len);
    size_t (*queued)(const struct transport *transport);
    bool (*unsent)(const struct transport *transport);
    void (*close)(struct transport *transport);
};

/* Bytes as they are, without TLS. */
extern const struct transport_ops transport_plain;

union transport_handle {
    uv_handle_t any;
    uv_stream_t stream;
    uv_tcp_t tcp;
    uv_pipe_t pipe;
};

struct transport {
    const struct transport_ops *ops;
    union transport_handle handle;
    uv_write_t request;
    const struct transport_calls *calls;
    void *owner;
    enum transport_kind kind;
    struct tls_stream *tls; /* see transport_tls.c; NULL: without TLS */
};

/* A socket that accepts streams. */
struct transport_listener {
    union transport_handle handle;
    enum transport_kind kind;
    void (*waiting)(void *owner);
    void *owner;
};

/* The process at the other end of a Unix-domain socket, as the operating system knows it. */
struct transport_peer {
    uint32_t uid;
    int32_t pid;
};

/* ---- Listeners ---- */

/* Must be called first. After it, the listener must be closed, whatever the next two functions
 * return. `waiting` is called when a client can be accepted, and not again before that client has
 * been accepted. */
void transport_listener_init(struct transport_listener *listener, uv_loop_t *loop,
                             enum transport_kind kind, void (*waiting)(void *owner), void *owner);
/* 0, or an error code of libuv. *address becomes the actual address. The operating system keeps
 * about `unsent` bytes that a client does not read. */
int transport_listen_tcp(struct transport_listener *listener, struct sockaddr_storage *address,
                         int unsent);
/* Listens on a bound socket, which the listener owns from now on. */
int transport_listen_unix(struct transport_listener *listener, int socket);
void transport_listener_close(struct transport_listener *listener);
/* Limits the unsent bytes of the sockets that the listener accepts. Bytes on their way do not
 * count, so the limit does not slow down a client that reads. */
void transport_unsent_bound(int socket, int unsent);

/* ---- Streams ---- */

/* Must be called first. After it, the transport must be closed, whatever `accept` returns. */
void transport_init(struct transport *transport, uv_loop_t *loop, enum transport_kind kind,
                    const struct transport_calls *calls, void *owner);
/* Accepts the client that waits at a listener of the same kind. 0, or an error code of libuv. */
int transport_accept(struct transport *transport, struct transport_listener *listener);

/* Takes over a connected Unix-domain socket. 0, or an error code of libuv. */
int transport_open(struct transport *transport, int socket);

static inline void transport_start(struct transport *transport) {
    transport->ops->start(transport);
}

static inline void transport_stop(struct transport *transport) {
    transport->ops->stop(transport);
}

/* Sends what can be sent at once. Returns the number of bytes, perhaps 0, or an error code of
 * libuv. Must not be called during a transport_write. If it returns less than `len`, the rest must
 * be the beginning of the next transport_write, before anything else is sent. */
static inline int transport_try_write(struct transport *transport, const void *bytes, size_t len) {
    return transport->ops->try_write(transport, bytes, len);
}

/* Sends all bytes. They stay the caller's and must not change until `written` is called. One call
 * at a time. 0, or an error code of libuv; then `written` is not called. */
static inline int transport_write(struct transport *transport, void *bytes, size_t len) {
    return transport->ops->write(transport, bytes, len);
}

/* Bytes of transport_write that have not been sent. */
static inline size_t transport_queued(const struct transport *transport) {
    return transport->ops->queued(transport);
}

/* Whether the operating system keeps bytes that it could not send yet. Closing the stream may lose
 * them. */
static inline bool transport_unsent(const struct transport *transport) {
    return transport->ops->unsent(transport);
}

static inline void transport_close(struct transport *transport) {
    transport->ops->close(transport);
}

bool transport_is_closing(const struct transport *transport);

/* ---- The other end ---- */

/* The descriptor; -1: there is none. */
int transport_socket(const struct transport *transport);
/* Whether the other end has closed its side, even if what it has sent has not been read yet. */
bool transport_ended(int socket);
/* HOST:PORT, or unix:UID:PID. */
void transport_name(const struct transport *transport, char out[TRANSPORT_PEER_MAX]);
/* False: not a Unix-domain socket, or the operating system does not know the process. */
bool transport_peer(const struct transport *transport, struct transport_peer *ret_peer);

#endif
