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
    /* Where the next bytes are read to. */
    uv_buf_t (*buffer)(void *owner);
    /* Bytes have come, or `count` is UV_EOF or another code of libuv's. */
    void (*read)(void *owner, const uint8_t *bytes, ssize_t count);
    /* The bytes of transport_write have left, or `status` is a code of libuv's. */
    void (*written)(void *owner, int status);
    /* With TLS only: the handshake is over. */
    void (*established)(void *owner);
    void (*closed)(void *owner);
};

/* The operations of a kind of stream; the functions of the same names below state their contracts. */
struct transport_ops {
    void (*start)(struct transport *transport);
    void (*stop)(struct transport *transport);
    int (*try_write)(struct transport *transport, const void *bytes, size_t len);
    int (*write)(struct transport *transport, void *bytes, size_t len);
    size_t (*queued)(const struct transport *transport);
    bool (*unsent)(const struct transport *transport);
    void (*close)(struct transport *transport);
};

/* The bytes as they are. */
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
    struct tls_stream *tls; /* of transport_tls.c; NULL: plain */
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

/* Must be called first; then close it, whatever the next two return. `waiting` is called when a client
 * waits to be accepted, and not for the next one before that client has been. */
void transport_listener_init(struct transport_listener *listener, uv_loop_t *loop,
                             enum transport_kind kind, void (*waiting)(void *owner), void *owner);
/* 0, or a code of libuv's. *address becomes the one that it has. Of what a client does not read, the
 * operating system keeps about `unsent` bytes. */
int transport_listen_tcp(struct transport_listener *listener, struct sockaddr_storage *address,
                         int unsent);
/* On a socket that is bound; it is the listener's from now on. */
int transport_listen_unix(struct transport_listener *listener, int socket);
void transport_listener_close(struct transport_listener *listener);
/* The bound on unsent bytes, for a listener: accepted sockets inherit it. It does not count bytes on
 * their way, so a client that reads is served as fast as without it. */
void transport_unsent_bound(int socket, int unsent);

/* ---- Streams ---- */

/* Must be called first; then close it, whatever accept returns. */
void transport_init(struct transport *transport, uv_loop_t *loop, enum transport_kind kind,
                    const struct transport_calls *calls, void *owner);
/* Takes the client that waits at a listener of the same kind. 0, or a code of libuv's. */
int transport_accept(struct transport *transport, struct transport_listener *listener);

/* An existing stream: a connected socket of the Unix domain, which is the transport's from now
 * on. 0, or a code of libuv's. */
int transport_open(struct transport *transport, int socket);

static inline void transport_start(struct transport *transport) {
    transport->ops->start(transport);
}

static inline void transport_stop(struct transport *transport) {
    transport->ops->stop(transport);
}

/* Sends what can be sent at once: how many bytes (perhaps 0), or a code of libuv's. Not while a
 * transport_write is under way. If it is fewer than `len`, the rest must be the start of a
 * transport_write, before anything else is sent. */
static inline int transport_try_write(struct transport *transport, const void *bytes, size_t len) {
    return transport->ops->try_write(transport, bytes, len);
}

/* Sends all of it; the bytes stay the owner's and must stay until `written`. One at a time. 0, or a
 * code of libuv's, and then `written` is not called. */
static inline int transport_write(struct transport *transport, void *bytes, size_t len) {
    return transport->ops->write(transport, bytes, len);
}

/* Bytes of transport_write that have not left. */
static inline size_t transport_queued(const struct transport *transport) {
    return transport->ops->queued(transport);
}

/* Whether the operating system keeps some that it could not send yet: closing then may lose them. */
static inline bool transport_unsent(const struct transport *transport) {
    return transport->ops->unsent(transport);
}

static inline void transport_close(struct transport *transport) {
    transport->ops->close(transport);
}

bool transport_is_closing(const struct transport *transport);

/* ---- The other end ---- */

/* -1: it has none. */
int transport_socket(const struct transport *transport);
/* Whether the other end of a socket sends no more, even if what it has sent is not read yet. */
bool transport_ended(int socket);
/* HOST:PORT, or unix:UID:PID. */
void transport_name(const struct transport *transport, char out[TRANSPORT_PEER_MAX]);
/* False: it is no Unix-domain socket, or the operating system does not say. */
bool transport_peer(const struct transport *transport, struct transport_peer *ret_peer);

#endif
