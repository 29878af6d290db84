/* HTTP/2 by nghttp2, with what gRPC asks of it:
 *
 *   request    :method POST, :path /Service/Method, te: trailers, content-type: application/grpc,
 *              then framed messages
 *   answer     :status 200, content-type: application/grpc, framed messages, and the trailers
 *              grpc-status and grpc-message; or those two at once in the headers
 *
 * Flow control: windows of 16 MiB, because a watch that is read late must not hold up its member. */
#include "etcd/grpc_session.h"

#include <nghttp2/nghttp2.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"

#define SESSION_WINDOW (16 << 20)
#define SESSION_HEADERS 9

struct etcd_session {
    nghttp2_session *http;
    const char *authority;
    bool tls;
    uint32_t answer_bytes_max;
    bool ready;
    bool closing;
    struct etcd_stream *streams;
    unsigned stream_count;
    /* What the library wants to send next and has not fitted in yet. */
    const uint8_t *pending;
    size_t pending_len;
    char error[ETCD_MESSAGE_MAX];
};

/* ---- Streams ---- */

static void stream_link(struct etcd_session *session, struct etcd_stream *stream) {
    stream->session = session;
    stream->next = session->streams;
    stream->link = &session->streams;
    if (stream->next != NULL) {
        stream->next->link = &stream->next;
    }
    session->streams = stream;
    session->stream_count++;
}

static void stream_unlink(struct etcd_stream *stream) {
    *stream->link = stream->next;
    if (stream->next != NULL) {
        stream->next->link = stream->link;
    }
    stream->session->stream_count--;
    stream->session = NULL;
}

static void stream_end(struct etcd_stream *stream, enum etcd_end_kind kind) {
    stream->end.kind = kind;
    (void)nghttp2_session_set_stream_user_data(stream->session->http, stream->id, NULL);
    stream_unlink(stream);
    stream->events->end(stream, &stream->end);
}

/* Gives up the stream: what arrives for it later is ignored. */
static void stream_abort(struct etcd_stream *stream, enum etcd_end_kind kind) {
    (void)nghttp2_submit_rst_stream(stream->session->http, NGHTTP2_FLAG_NONE, stream->id,
                                    NGHTTP2_CANCEL);
    stream_end(stream, kind);
}

static struct etcd_stream *stream_of(nghttp2_session *http, int32_t id) {
    return nghttp2_session_get_stream_user_data(http, id);
}

void etcd_stream_free(struct etcd_stream *stream) {
    TN_ASSERT(stream->session == NULL);
    etcd_buffer_free(&stream->out);
    etcd_frame_free(&stream->frame);
}

/* ---- Callbacks of the library ---- */

static bool name_is(const uint8_t *name, size_t len, const char *wanted) {
    return len == strlen(wanted) && memcmp(name, wanted, len) == 0;
}

static int on_header(nghttp2_session *http, const nghttp2_frame *frame, const uint8_t *name,
                     size_t name_len, const uint8_t *value, size_t value_len, uint8_t flags,
                     void *ctx) {
    struct etcd_stream *stream = stream_of(http, frame->hd.stream_id);
    (void)flags;
    (void)ctx;
    if (stream == NULL || frame->hd.type != NGHTTP2_HEADERS) {
        return 0;
    }
    if (name_is(name, name_len, ":status")) {
        /* The library has seen to it that there are three digits. */
        stream->end.http_status = 0;
        for (size_t i = 0; i < value_len && i < 3; i++) {
            stream->end.http_status = stream->end.http_status * 10 + (value[i] - '0');
        }
    } else if (name_is(name, name_len, "grpc-status")) {
        stream->end.grpc_status = etcd_verdict_status(value, value_len);
    } else if (name_is(name, name_len, "grpc-message")) {
        etcd_verdict_message(stream->end.message, value, value_len);
    }
    return 0;
}

/* Delivers complete messages. False: the stream has ended, or its owner has detached it. */
static bool take_message(struct etcd_stream *stream, nghttp2_session *http, int32_t id) {
    switch (stream->frame.state) {
    case ETCD_FRAME_MORE:
        return true;
    case ETCD_FRAME_WHOLE:
        if (!stream->streaming) {
            return true; /* kept for the end */
        }
        stream->events->message(stream, etcd_frame_message(&stream->frame));
        if (stream_of(http, id) != stream) {
            return false;
        }
        etcd_frame_next(&stream->frame);
        return true;
    case ETCD_FRAME_TOO_LARGE:
        stream_abort(stream, ETCD_END_TOO_LARGE);
        return false;
    case ETCD_FRAME_COMPRESSED:
    case ETCD_FRAME_NOMEM:
        stream_abort(stream, ETCD_END_PROTOCOL);
        return false;
    }
    return false;
}

static int on_data(nghttp2_session *http, uint8_t flags, int32_t id, const uint8_t *bytes,
                   size_t len, void *ctx) {
    struct etcd_stream *stream = stream_of(http, id);
    (void)flags;
    (void)ctx;
    if (stream == NULL || stream->end.http_status != 200) {
        return 0; /* not ours any more; or a page for people */
    }
    while (len > 0) {
        size_t taken = etcd_frame_feed(&stream->frame, bytes, len);
        bytes += taken;
        len -= taken;
        if (taken == 0 && stream->frame.state == ETCD_FRAME_WHOLE) {
            stream_abort(stream, ETCD_END_PROTOCOL); /* a second message in a unary call */
            return 0;
        }
        if (!take_message(stream, http, id)) {
            return 0;
        }
    }
    return 0;
}

static int on_close(nghttp2_session *http, int32_t id, uint32_t error, void *ctx) {
    struct etcd_stream *stream = stream_of(http, id);
    (void)ctx;
    if (stream == NULL) {
        return 0;
    }
    if (error == NGHTTP2_REFUSED_STREAM || !stream->sent) {
        stream_end(stream, ETCD_END_UNSENT);
    } else if (stream->end.grpc_status < 0 && error != NGHTTP2_NO_ERROR) {
        (void)snprintf(stream->end.message, sizeof stream->end.message, "stream reset: %s",
                       nghttp2_http2_strerror(error));
        stream_end(stream, ETCD_END_RESET);
    } else {
        stream_end(stream, ETCD_END_TRAILERS);
    }
    return 0;
}

static int on_frame(nghttp2_session *http, const nghttp2_frame *frame, void *ctx) {
    struct etcd_session *session = ctx;
    if (frame->hd.type == NGHTTP2_SETTINGS && (frame->hd.flags & NGHTTP2_FLAG_ACK) == 0) {
        session->ready = true;
    } else if (frame->hd.type == NGHTTP2_GOAWAY) {
        session->closing = true;
        size_t len = frame->goaway.opaque_data_len;
        char text[ETCD_MESSAGE_MAX];
        etcd_verdict_message(text, frame->goaway.opaque_data, len);
        (void)snprintf(session->error, sizeof session->error, "server is going away: %s %.200s",
                       nghttp2_http2_strerror(frame->goaway.error_code), text);
    }
    (void)http;
    return 0;
}

static int on_sent(nghttp2_session *http, const nghttp2_frame *frame, void *ctx) {
    (void)ctx;
    if (frame->hd.type == NGHTTP2_HEADERS) {
        struct etcd_stream *stream = stream_of(http, frame->hd.stream_id);
        if (stream != NULL) {
            stream->sent = true;
        }
    }
    return 0;
}

static int on_error(nghttp2_session *http, int code, const char *text, size_t len, void *ctx) {
    struct etcd_session *session = ctx;
    (void)http;
    (void)code;
    if (session->error[0] == '\0') {
        etcd_verdict_message(session->error, (const uint8_t *)text, len);
    }
    return 0;
}

/* The next bytes of a request. */
static ssize_t on_read(nghttp2_session *http, int32_t id, uint8_t *out, size_t max, uint32_t *flags,
                       nghttp2_data_source *source, void *ctx) {
    struct etcd_stream *stream = stream_of(http, id);
    (void)ctx;
    if (stream == NULL || stream != source->ptr) {
        /* The owner has detached the stream; the reset is being sent. */
        return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE;
    }
    size_t left = stream->out.len - stream->out_at;
    size_t len = left < max ? left : max;
    if (len > 0) {
        memcpy(out, stream->out.at + stream->out_at, len);
        stream->out_at += len;
    }
    if (stream->out_at == stream->out.len) {
        if (!stream->streaming) {
            *flags |= NGHTTP2_DATA_FLAG_EOF;
        } else if (len == 0) {
            stream->deferred = true;
            return NGHTTP2_ERR_DEFERRED;
        }
    }
    return (ssize_t)len;
}

/* ---- The session ---- */

static bool session_begin(struct etcd_session *session) {
    static const nghttp2_settings_entry settings[] = {
        {NGHTTP2_SETTINGS_ENABLE_PUSH, 0},
        {NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, SESSION_WINDOW},
    };
    nghttp2_session_callbacks *callbacks = NULL;
    if (nghttp2_session_callbacks_new(&callbacks) != 0) {
        return false;
    }
    nghttp2_session_callbacks_set_on_header_callback(callbacks, on_header);
    nghttp2_session_callbacks_set_on_data_chunk_recv_callback(callbacks, on_data);
    nghttp2_session_callbacks_set_on_stream_close_callback(callbacks, on_close);
    nghttp2_session_callbacks_set_on_frame_recv_callback(callbacks, on_frame);
    nghttp2_session_callbacks_set_on_frame_send_callback(callbacks, on_sent);
    nghttp2_session_callbacks_set_error_callback2(callbacks, on_error);
    int result = nghttp2_session_client_new(&session->http, callbacks, session);
    nghttp2_session_callbacks_del(callbacks);
    return result == 0 &&
           nghttp2_submit_settings(session->http, NGHTTP2_FLAG_NONE, settings,
                                   sizeof settings / sizeof settings[0]) == 0 &&
           nghttp2_session_set_local_window_size(session->http, NGHTTP2_FLAG_NONE, 0,
                                                 SESSION_WINDOW) == 0;
}

struct etcd_session *etcd_session_new(const struct etcd_session_options *options) {
    struct etcd_session *session = calloc(1, sizeof *session);
    if (session == NULL) {
        return NULL;
    }
    session->authority = options->authority;
    session->tls = options->tls;
    session->answer_bytes_max = options->answer_bytes_max;
    if (!session_begin(session)) {
        etcd_session_free(session);
        return NULL;
    }
    return session;
}

void etcd_session_free(struct etcd_session *session) {
    TN_ASSERT(session->streams == NULL);
    nghttp2_session_del(session->http);
    free(session);
}

bool etcd_session_input(struct etcd_session *session, const uint8_t *bytes, size_t len) {
    ssize_t taken = nghttp2_session_mem_recv(session->http, bytes, len);
    if (taken < 0) {
        if (session->error[0] == '\0') {
            (void)snprintf(session->error, sizeof session->error, "%s",
                           nghttp2_strerror((int)taken));
        }
        return false;
    }
    return true;
}

bool etcd_session_output(struct etcd_session *session, uint8_t *out, size_t max, size_t *ret_len) {
    size_t len = 0;
    while (len < max) {
        if (session->pending_len == 0) {
            ssize_t more = nghttp2_session_mem_send(session->http, &session->pending);
            if (more < 0) {
                session->pending_len = 0;
                return false;
            }
            session->pending_len = (size_t)more;
            if (more == 0) {
                break;
            }
        }
        size_t piece = session->pending_len < max - len ? session->pending_len : max - len;
        memcpy(out + len, session->pending, piece);
        session->pending += piece;
        session->pending_len -= piece;
        len += piece;
    }
    *ret_len = len;
    return true;
}

bool etcd_session_wants_output(const struct etcd_session *session) {
    return session->pending_len > 0 || nghttp2_session_want_write(session->http) != 0;
}

bool etcd_session_is_ready(const struct etcd_session *session) {
    return session->ready && !session->closing;
}

bool etcd_session_is_closing(const struct etcd_session *session) {
    return session->closing;
}

bool etcd_session_is_over(const struct etcd_session *session) {
    return nghttp2_session_want_read(session->http) == 0 && !etcd_session_wants_output(session);
}

unsigned etcd_session_streams(const struct etcd_session *session) {
    return session->stream_count;
}

const char *etcd_session_error(const struct etcd_session *session) {
    return session->error;
}

/* ---- Requests ---- */

static nghttp2_nv header(const char *name, const char *value) {
    return (nghttp2_nv){
        .name = (uint8_t *)(uintptr_t)name,
        .value = (uint8_t *)(uintptr_t)value,
        .namelen = strlen(name),
        .valuelen = strlen(value),
        .flags = NGHTTP2_NV_FLAG_NO_COPY_NAME,
    };
}

bool etcd_session_start(struct etcd_session *session, struct etcd_stream *stream) {
    TN_ASSERT(stream->session == NULL && stream->out.len > 0);
    nghttp2_nv headers[SESSION_HEADERS];
    size_t count = 0;
    headers[count++] = header(":method", "POST");
    headers[count++] = header(":scheme", session->tls ? "https" : "http");
    headers[count++] = header(":path", stream->path);
    headers[count++] = header(":authority", session->authority);
    headers[count++] = header("content-type", "application/grpc");
    headers[count++] = header("te", "trailers");
    if (stream->needs_leader) {
        headers[count++] = header("hasleader", "true");
    }
    if (stream->token != NULL) { /* a secret: not to be kept in tables of compressed headers */
        headers[count] = header("token", stream->token);
        headers[count++].flags |= NGHTTP2_NV_FLAG_NO_INDEX;
    }
    TN_ASSERT(count <= SESSION_HEADERS);
    stream->out_at = 0;
    stream->deferred = stream->sent = false;
    stream->end = (struct etcd_end){.grpc_status = -1};
    etcd_frame_init(&stream->frame, session->answer_bytes_max);
    nghttp2_data_provider provider = {.source.ptr = stream, .read_callback = on_read};
    int32_t id = nghttp2_submit_request(session->http, NULL, headers, count, &provider, stream);
    if (id < 0) {
        return false;
    }
    stream->id = id;
    stream_link(session, stream);
    return true;
}

void etcd_session_ask_progress(struct etcd_stream *stream) {
    TN_ASSERT(stream->streaming);
    if (stream->session == NULL || stream->out_at != stream->out.len ||
        etcd_message_progress(&stream->out) != TN_OK) {
        return;
    }
    stream->out_at = 0;
    if (stream->deferred) {
        stream->deferred = false;
        (void)nghttp2_session_resume_data(stream->session->http, stream->id);
    }
}

void etcd_session_detach(struct etcd_stream *stream) {
    if (stream->session == NULL) {
        return;
    }
    nghttp2_session *http = stream->session->http;
    (void)nghttp2_submit_rst_stream(http, NGHTTP2_FLAG_NONE, stream->id, NGHTTP2_CANCEL);
    (void)nghttp2_session_set_stream_user_data(http, stream->id, NULL);
    stream_unlink(stream);
}

void etcd_session_end(struct etcd_session *session) {
    while (session->streams != NULL) {
        struct etcd_stream *stream = session->streams;
        bool unsent = !stream->sent;
        if (!unsent) {
            (void)snprintf(stream->end.message, sizeof stream->end.message, "%s", session->error);
        }
        stream_end(stream, unsent ? ETCD_END_UNSENT : ETCD_END_LOST);
    }
}
