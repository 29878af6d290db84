/* gRPC over one connection of HTTP/2, without the connection: bytes in, bytes out (by nghttp2).
 *
 * A stream is one call: a request of one message, and either one message and a status back (a unary
 * call) or any number of messages in both directions (a watch). The owner embeds `struct etcd_stream`
 * and gets its events; it keeps the stream and the bytes to be sent until `end` has run or it has
 * detached the stream.
 *
 * `message` and `end` run inside etcd_session_input, etcd_session_output and etcd_session_end. They
 * may start, send on and detach streams; they may not call those three or free the session. */
#ifndef TN_ETCD_GRPC_SESSION_H
#define TN_ETCD_GRPC_SESSION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "etcd/grpc_frame.h"
#include "etcd/message.h"
#include "etcd/verdict.h"

struct etcd_session;
struct etcd_stream;

struct etcd_stream_events {
    /* A watch only: one message; borrowed. */
    void (*message)(struct etcd_stream *stream, struct tn_bytes message);
    /* The stream has ended. If a unary call got a message, it is in stream->frame (WHOLE). */
    void (*end)(struct etcd_stream *stream, const struct etcd_end *end);
};

struct etcd_stream {
    /* By the owner, before etcd_session_start. */
    const struct etcd_stream_events *events;
    bool streaming;
    const char *path;
    const char *token; /* or NULL */
    bool needs_leader; /* a member that knows no leader must refuse it at once */
    struct etcd_buffer out;

    /* By the session. */
    struct etcd_session *session; /* NULL: not started */
    struct etcd_stream *next, **link;
    int32_t id;
    size_t out_at; /* sent of `out` */
    bool deferred; /* nothing to send for the moment */
    bool sent;     /* a part of it has been sent */
    struct etcd_frame frame;
    struct etcd_end end;
};

struct etcd_session_options {
    const char *authority; /* host:port, kept by the caller */
    bool tls;
    uint32_t answer_bytes_max;
};

/* NULL without memory. */
struct etcd_session *etcd_session_new(const struct etcd_session_options *options);
/* No stream may be active: call etcd_session_end first. */
void etcd_session_free(struct etcd_session *session);

/* Bytes from the server. False: it broke the rules of HTTP/2; milder faults end the session, once
 * the last words have been sent (etcd_session_is_over). */
bool etcd_session_input(struct etcd_session *session, const uint8_t *bytes, size_t len);
/* Writes up to `max` bytes for the server to `out`; false if the session is broken. */
bool etcd_session_output(struct etcd_session *session, uint8_t *out, size_t max, size_t *ret_len);
bool etcd_session_wants_output(const struct etcd_session *session);

bool etcd_session_is_ready(const struct etcd_session *session);   /* the server's settings came */
bool etcd_session_is_closing(const struct etcd_session *session); /* accepts no more streams */
/* Has nothing more to send or receive. */
bool etcd_session_is_over(const struct etcd_session *session);
unsigned etcd_session_streams(const struct etcd_session *session);
/* The reason for the failure that the server or the library gave; "" if none. */
const char *etcd_session_error(const struct etcd_session *session);

/* Starts a request. False: out of memory, or the session accepts no more. */
bool etcd_session_start(struct etcd_session *session, struct etcd_stream *stream);
/* A watch: asks for its progress; of no effect while the request before it is still being sent. */
void etcd_session_ask_progress(struct etcd_stream *stream);
/* Resets the stream without calling its owner. Does nothing if it is not active. */
void etcd_session_detach(struct etcd_stream *stream);
/* Ends all streams: LOST, or UNSENT for those of which nothing was sent. */
void etcd_session_end(struct etcd_session *session);

void etcd_stream_free(struct etcd_stream *stream);

#endif
