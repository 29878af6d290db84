/* The byte stream of one RESP connection: a TCP socket or a Unix-domain socket. The connection and its
 * output use these calls and none of libuv's, so that another kind of stream is one more case here.
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

enum transport_kind { TRANSPORT_TCP, TRANSPORT_UNIX };

/* What the owner is called for. */
struct transport_calls {
    /* Where the next bytes are read to. */
    uv_buf_t (*buffer)(void *owner);
    /* Bytes have come, or `count` is UV_EOF or another code of libuv's. */
    void (*read)(void *owner, const uint8_t *bytes, ssize_t count);
    /* The bytes of transport_write have left, or `status` is a code of libuv's. */
    void (*written)(void *owner, int status);
    void (*closed)(void *owner);
};

union transport_handle {
    uv_handle_t any;
    uv_stream_t stream;
    uv_tcp_t tcp;
    uv_pipe_t pipe;
};

struct transport {
    union transport_handle handle;
    uv_write_t write;
    const struct transport_calls *calls;
    void *owner;
    enum transport_kind kind;
};

/* The process at the other end of a Unix-domain socket, as the kernel knows it. */
struct transport_peer {
    uint32_t uid;
    int32_t pid;
};

/* Must be called first; then close it, whatever accept returns. */
void transport_init(struct transport *transport, uv_loop_t *loop, enum transport_kind kind,
                    const struct transport_calls *calls, void *owner);
/* Takes the client that waits at a listener of the same kind. 0, or a code of libuv's. */
int transport_accept(struct transport *transport, uv_stream_t *listener);

void transport_start(struct transport *transport);
void transport_stop(struct transport *transport);

/* Sends what can be sent at once: how many bytes (perhaps 0), or a code of libuv's. Not while a
 * transport_write is under way. */
int transport_try_write(struct transport *transport, const void *bytes, size_t len);
/* Sends all of it; the bytes stay the owner's and must stay until `written`. One at a time. 0, or a
 * code of libuv's, and then `written` is not called. */
int transport_write(struct transport *transport, void *bytes, size_t len);

/* Bytes of transport_write that have not left. */
size_t transport_queued(const struct transport *transport);
/* Whether the operating system keeps some that it could not send yet: who closes then may lose them. */
bool transport_unsent(const struct transport *transport);

bool transport_is_closing(const struct transport *transport);
void transport_close(struct transport *transport);

/* HOST:PORT, or unix:UID:PID. */
void transport_name(const struct transport *transport, char out[TRANSPORT_PEER_MAX]);
/* False: it is no Unix-domain socket, or the kernel does not say. */
bool transport_peer(const struct transport *transport, struct transport_peer *ret_peer);

#endif
