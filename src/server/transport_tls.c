/* What transport_tls.h promises. */
#include "server/transport_tls.h"

#include <openssl/err.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "server/buffers.h"
#include "server/log_line.h"

#define BEHIND_MAX (64u * 1024u) /* maximum ciphertext behind the flight that libuv is sending */
/* Maximum output of one call of OpenSSL; a chain of certificates is long. */
#define SEALED_MAX (1024u * 1024u)
#define KEY_UPDATES_MAX 16u /* maximum KeyUpdates of a client in a second */
#define RECORD_HANDSHAKE 22 /* the first byte that a client of TLS sends */

struct tls_stream {
    struct server_tls *tls;
    struct transport *transport;
    /* Of the owner; the callbacks of the transport are set here. */
    const struct transport_calls *calls;
    void *owner;
    SSL *ssl;
    TAILQ_ENTRY(tls_stream) place; /* in the queue for a handshake step */
    const uint8_t *in;             /* ciphertext just read */
    size_t in_len;
    uint8_t *flight; /* ciphertext that libuv is sending; NULL: none */
    uint8_t *behind; /* ciphertext to send after `flight` */
    size_t behind_len;
    const uint8_t *plain; /* the bytes of the transport_write in progress if `writing` is set */
    size_t plain_len, plain_at;
    size_t
        /* Bytes at the beginning of the next transport_write that are already encrypted. */
        committed;
    uint64_t updates_ms;  /* the start of the second in which KeyUpdates are counted */
    uint32_t key_updates; /* KeyUpdates of the client in that second */
    bool writing;
    bool seen;        /* the first bytes were those of TLS */
    bool established; /* the handshake is complete */
    bool failed;
    bool finished; /* goodbye was said */
    bool reading;  /* the owner wants to read */
    bool queued;
    bool resumed; /* it has left the queue and may take its handshake step */
};

/* ---- The BIO ---- */

static int memory_read(BIO *bio, char *out, int max) {
    struct tls_stream *stream = BIO_get_data(bio);
    BIO_clear_retry_flags(bio);
    if (stream->key_updates > KEY_UPDATES_MAX) {
        return -1; /* OpenSSL would process all updates that were read before it returns */
    }
    if (stream->in_len == 0) {
        BIO_set_retry_read(bio);
        return -1;
    }
    size_t len = stream->in_len < (size_t)max ? stream->in_len : (size_t)max;
    memcpy(out, stream->in, len);
    stream->in += len;
    stream->in_len -= len;
    return (int)len;
}

static int memory_write(BIO *bio, const char *bytes, int len) {
    const struct tls_stream *stream = BIO_get_data(bio);
    struct server_tls *tls = stream->tls;
    size_t need = tls->sealed_len + (size_t)len;
    BIO_clear_retry_flags(bio);
    if (need > tls->sealed_capacity) {
        uint8_t *bigger = need <= SEALED_MAX ? realloc(tls->sealed, 2 * need) : NULL;
        if (bigger == NULL) {
            return -1;
        }
        tls->sealed = bigger;
        tls->sealed_capacity = 2 * need;
    }
    memcpy(tls->sealed + tls->sealed_len, bytes, (size_t)len);
    tls->sealed_len += (size_t)len;
    return len;
}

static long memory_control(BIO *bio, int command, long number, void *at) {
    (void)bio;
    (void)number;
    (void)at;
    return command == BIO_CTRL_FLUSH ? 1 : 0;
}

BIO_METHOD *transport_tls_method(void) {
    BIO_METHOD *method = BIO_meth_new(BIO_get_new_index() | BIO_TYPE_SOURCE_SINK, "tenure");
    if (method != NULL && (BIO_meth_set_write(method, memory_write) != 1 ||
                           BIO_meth_set_read(method, memory_read) != 1 ||
                           BIO_meth_set_ctrl(method, memory_control) != 1)) {
        BIO_meth_free(method);
        method = NULL;
    }
    return method;
}

/* ---- Key updates ---- */

/* Called by OpenSSL for each message. TLS 1.3 does not limit how often a client updates its keys,
 * and thousands of updates fit into a few reads. */
static void on_message(int sent, int version, int type, const void *bytes, size_t len, SSL *ssl,
                       void *ctx) {
    struct tls_stream *stream = ctx;
    uint64_t now = uv_now(stream->tls->loop);
    (void)version;
    (void)ssl;
    if (sent || type != SSL3_RT_HANDSHAKE || len == 0 ||
        *(const uint8_t *)bytes != SSL3_MT_KEY_UPDATE) {
        return;
    }
    if (now - stream->updates_ms >= 1000) {
        stream->updates_ms = now;
        stream->key_updates = 0;
    }
    stream->key_updates++;
}

/* ---- Ciphertext out ---- */

/* Takes ownership of the bytes. 0, or an error code of libuv. */
static int flight_send(struct tls_stream *stream, uint8_t *bytes, size_t len) {
    TN_ASSERT(stream->flight == NULL);
    stream->flight = bytes;
    int code = transport_plain.write(stream->transport, bytes, len);
    if (code != 0) {
        free(stream->flight);
        stream->flight = NULL;
    }
    return code;
}

static int keep(struct tls_stream *stream, const uint8_t *bytes, size_t len) {
    bool is_first = stream->flight == NULL;
    size_t before = is_first ? 0 : stream->behind_len;
    TN_ASSERT(len > 0);
    if (!is_first && before + len > BEHIND_MAX) {
        return UV_EPROTO; /* the client makes OpenSSL send, but does not read */
    }
    uint8_t *copy = realloc(is_first ? NULL : stream->behind, before + len);
    if (copy == NULL) {
        return UV_ENOMEM;
    }
    memcpy(copy + before, bytes, len);
    if (is_first) {
        return flight_send(stream, copy, len);
    }
    stream->behind = copy;
    stream->behind_len = before + len;
    return 0;
}

/* Sends what OpenSSL has just produced, or keeps it. *ret_left says whether all of it was sent. 0,
 * or an error code of libuv. */
static int pump(struct tls_stream *stream, bool *ret_left) {
    struct server_tls *tls = stream->tls;
    size_t len = tls->sealed_len;
    size_t sent = 0;
    tls->sealed_len = 0;
    if (len > 0 && stream->flight == NULL) {
        int took = transport_plain.try_write(stream->transport, tls->sealed, len);
        if (took < 0) {
            return took;
        }
        sent = (size_t)took;
    }
    *ret_left = sent == len;
    return sent < len ? keep(stream, tls->sealed + sent, len - sent) : 0;
}

/* Encrypts up to a batch into the loop's buffer. Returns the bytes encrypted, or an error code of
 * libuv. */
static ssize_t seal(struct tls_stream *stream, const uint8_t *bytes, size_t len) {
    size_t take = len < SERVER_TLS_BATCH ? len : SERVER_TLS_BATCH;
    size_t wrote = 0;
    TN_ASSERT(take > 0 && stream->tls->sealed_len == 0);
    ERR_clear_error();
    if (SSL_write_ex(stream->ssl, bytes, take, &wrote) != 1) {
        stream->tls->sealed_len = 0;
        stream->failed = true;
        ERR_clear_error();
        return UV_EPROTO;
    }
    TN_ASSERT(wrote == take);
    return (ssize_t)take;
}

/* Sends the next batch of a transport_write. False: it failed. */
static bool batch_send(struct tls_stream *stream) {
    ssize_t took =
        seal(stream, stream->plain + stream->plain_at, stream->plain_len - stream->plain_at);
    size_t len = stream->tls->sealed_len;
    stream->tls->sealed_len = 0;
    if (took < 0 || keep(stream, stream->tls->sealed, len) != 0) {
        return false;
    }
    stream->plain_at += (size_t)took;
    return true;
}

static void write_end(struct tls_stream *stream, int status) {
    if (stream->writing) {
        stream->writing = false;
        stream->plain = NULL;
        stream->calls->written(stream->owner, status);
    }
}

static void tls_written(void *owner, int status) {
    struct tls_stream *stream = owner;
    struct transport *transport = stream->transport;
    free(stream->flight);
    stream->flight = NULL;
    if (status == 0 && stream->behind != NULL) {
        uint8_t *bytes = stream->behind;
        size_t len = stream->behind_len;
        stream->behind = NULL;
        stream->behind_len = 0;
        status = flight_send(stream, bytes, len);
    } else if (status == 0 && stream->writing && stream->established) {
        if (stream->plain_at == stream->plain_len) {
            write_end(stream, 0);
        } else if (!batch_send(stream)) {
            status = UV_EPROTO;
        }
    }
    if (status != 0 && stream->writing) {
        write_end(stream, status);
    } else if (status != 0 && !transport_is_closing(transport)) {
        stream->calls->read(stream->owner, NULL, status != UV_ENOBUFS ? status : UV_EPROTO);
    }
}

/* ---- Writing ---- */

static int tls_try_write(struct transport *transport, const void *bytes, size_t len) {
    struct tls_stream *stream = transport->tls;
    const uint8_t *at = bytes;
    size_t done = 0;
    TN_ASSERT(!stream->writing && stream->committed == 0);
    if (!stream->established || stream->flight != NULL) {
        return 0;
    }
    while (done < len && !stream->failed) {
        bool left = false;
        ssize_t took = seal(stream, at + done, len - done);
        int code = took < 0 ? (int)took : pump(stream, &left);
        if (code != 0) {
            return code;
        }
        if (!left) {
            stream->committed = (size_t)took;
            break;
        }
        done += (size_t)took;
    }
    return stream->failed ? UV_EPROTO : (int)done;
}

static int tls_write(struct transport *transport, void *bytes, size_t len) {
    struct tls_stream *stream = transport->tls;
    TN_ASSERT(!stream->writing && stream->committed <= len);
    stream->plain = bytes;
    stream->plain_len = len;
    stream->plain_at = stream->committed;
    stream->committed = 0;
    if (stream->established && stream->flight == NULL && (stream->failed || !batch_send(stream))) {
        return UV_EPROTO;
    }
    /* Otherwise the end of the flight or of the handshake continues with it. */
    stream->writing = true;
    return 0;
}

static size_t tls_queued(const struct transport *transport) {
    const struct tls_stream *stream = transport->tls;
    size_t plain = stream->writing ? stream->plain_len - stream->plain_at : 0;
    return plain + stream->behind_len + transport_plain.queued(transport);
}

static bool tls_unsent(const struct transport *transport) {
    return transport->tls->flight != NULL || transport_plain.unsent(transport);
}

/* ---- Turns of handshakes ---- */

static void on_soon(uv_idle_t *soon);

static void queue_leave(struct tls_stream *stream) {
    if (stream->queued) {
        TAILQ_REMOVE(&stream->tls->queue, stream, place);
        stream->queued = false;
    }
}

/* Runs once in a turn of the loop. */
static void on_soon(uv_idle_t *soon) {
    struct server_tls *tls = soon->data;
    tls->spent_ns = 0;
    for (uint32_t i = 0; i < SERVER_TLS_RESUMED && !TAILQ_EMPTY(&tls->queue); i++) {
        struct tls_stream *stream = TAILQ_FIRST(&tls->queue);
        queue_leave(stream);
        stream->resumed = true;
        if (stream->reading) {
            transport_plain.start(stream->transport);
        }
    }
    if (TAILQ_EMPTY(&tls->queue)) {
        (void)uv_idle_stop(soon);
    }
}

static bool may_step(const struct tls_stream *stream) {
    const struct server_tls *tls = stream->tls;
    return stream->established || stream->resumed ||
           (TAILQ_EMPTY(&tls->queue) && tls->spent_ns < SERVER_TLS_TURN_NS);
}

static void queue_join(struct tls_stream *stream) {
    transport_plain.stop(stream->transport);
    if (!stream->queued) {
        TAILQ_INSERT_TAIL(&stream->tls->queue, stream, place);
        stream->queued = true;
    }
    (void)uv_idle_start(&stream->tls->soon, on_soon);
}

/* ---- Reading ---- */

static void log_failure(struct tls_stream *stream, const char *reason, const char *detail) {
    char address[TRANSPORT_PEER_MAX];
    if (stream->tls->tell(stream->tls->ctx)) {
        transport_name(stream->transport, address);
        server_log("client_dropped", "reason=%s addr=%s detail=%s", reason, address, detail);
    }
}

/* Fails the stream; the owner is told `code`. If OpenSSL has produced an alert, it is sent.
 * UV_ENOBUFS would tell the owner that it gave no buffer, so a failure has another code. */
static void fail(struct tls_stream *stream, int code) {
    bool left;
    (void)pump(stream, &left);
    stream->failed = true;
    stream->in_len = 0;
    if (!stream->established) {
        stream->tls->counters->handshakes_failed++;
    }
    stream->calls->read(stream->owner, NULL, code != UV_ENOBUFS ? code : UV_EPROTO);
}

static void fail_tls(struct tls_stream *stream) {
    char text[128];
    long verified = SSL_get_verify_result(stream->ssl);
    server_tls_error(text, sizeof text);
    if (stream->key_updates > KEY_UPDATES_MAX) {
        (void)snprintf(text, sizeof text, "the client updates its keys too often");
    }
    log_failure(stream, stream->established ? "tls" : "handshake",
                verified != X509_V_OK ? X509_verify_cert_error_string(verified) : text);
    fail(stream, UV_EPROTO);
}

static const char *foreign_text(const uint8_t *bytes, size_t len) {
    bool letter = (bytes[0] | 0x20) >= 'a' && (bytes[0] | 0x20) <= 'z';
    if (bytes[0] == '*' || bytes[0] == '$') {
        return "the client speaks RESP without TLS to the TLS port";
    }
    if (letter && len > 3 && (memchr(bytes, '/', len < 16 ? len : 16) != NULL)) {
        return "the client speaks HTTP without TLS to the TLS port";
    }
    return "the client does not speak TLS";
}

/* Takes a handshake step. False: the stream has failed, and may be closing. */
static bool handshake(struct tls_stream *stream) {
    struct transport *transport = stream->transport;
    bool left;
    uint64_t begun_ns = uv_hrtime();
    ERR_clear_error();
    int result = SSL_do_handshake(stream->ssl);
    stream->tls->spent_ns += uv_hrtime() - begun_ns + 1;
    stream->resumed = false;
    (void)uv_idle_start(&stream->tls->soon, on_soon);
    if (result != 1 && SSL_get_error(stream->ssl, result) != SSL_ERROR_WANT_READ) {
        fail_tls(stream);
        return false;
    }
    int code = pump(stream, &left);
    if (code != 0) {
        fail(stream, code);
        return false;
    }
    if (result == 1) {
        stream->established = true;
        stream->tls->counters->handshakes++;
        stream->calls->established(stream->owner);
        if (stream->writing && stream->flight == NULL && !transport_is_closing(transport) &&
            !batch_send(stream)) {
            write_end(stream, UV_EPROTO);
        }
    }
    return !transport_is_closing(transport);
}

/* Decrypts all available bytes and returns their number. *ret_end is 0, or UV_EOF or UV_EPROTO if
 * that follows the bytes. */
static size_t unseal(struct tls_stream *stream, size_t room, int *ret_end) {
    size_t total = 0;
    *ret_end = 0;
    for (;;) {
        size_t got = 0;
        TN_ASSERT(total < room);
        ERR_clear_error();
        if (SSL_read_ex(stream->ssl, stream->tls->plain + total, room - total, &got) == 1) {
            total += got;
            continue;
        }
        int error = SSL_get_error(stream->ssl, 0);
        if (error == SSL_ERROR_ZERO_RETURN) {
            *ret_end = UV_EOF;
        } else if (error != SSL_ERROR_WANT_READ) {
            *ret_end = UV_EPROTO;
        }
        return total;
    }
}

static void feed(struct tls_stream *stream, const uint8_t *bytes, size_t len) {
    struct transport *transport = stream->transport;
    bool left;
    int end;
    if (!stream->seen && bytes[0] != RECORD_HANDSHAKE) {
        log_failure(stream, server_drop_name(SERVER_DROP_FOREIGN), foreign_text(bytes, len));
        stream->tls->counters->dropped[SERVER_DROP_FOREIGN]++;
        fail(stream, UV_EPROTO);
        return;
    }
    stream->seen = true;
    stream->in = bytes;
    stream->in_len = len;
    if (!stream->established && (!handshake(stream) || !stream->established)) {
        return;
    }
    size_t got = unseal(stream, len + 2 * SSL3_RT_MAX_PLAIN_LENGTH, &end);
    int code = pump(stream, &left);
    stream->in_len = 0;
    if (got > 0) {
        stream->calls->read(stream->owner, stream->tls->plain, (ssize_t)got);
    }
    if (transport_is_closing(transport)) {
        return;
    }
    if (end == UV_EPROTO) {
        fail_tls(stream);
    } else if (code != 0) {
        fail(stream, code);
    } else if (end == UV_EOF) {
        stream->calls->read(stream->owner, NULL, UV_EOF);
    }
}

static uv_buf_t tls_buffer(void *owner) {
    struct tls_stream *stream = owner;
    uv_buf_t buffer =
        may_step(stream) ? stream->calls->buffer(stream->owner) : uv_buf_init(NULL, 0);
    TN_ASSERT(buffer.len <= SERVER_READ_BYTES);
    return buffer;
}

static void tls_read(void *owner, const uint8_t *bytes, ssize_t count) {
    struct tls_stream *stream = owner;
    if (count > 0) {
        feed(stream, bytes, (size_t)count);
    } else if (count == UV_ENOBUFS && !may_step(stream)) {
        queue_join(stream);
    } else {
        bool failed = count < 0 && count != UV_ENOBUFS && !stream->established;
        stream->tls->counters->handshakes_failed += failed;
        stream->calls->read(stream->owner, NULL, count);
    }
}

static void tls_start(struct transport *transport) {
    transport->tls->reading = true;
    if (!transport->tls->queued) {
        transport_plain.start(transport);
    }
}

static void tls_stop(struct transport *transport) {
    transport->tls->reading = false;
    transport_plain.stop(transport);
}

/* ---- Opening and closing ---- */

static void stream_free(struct tls_stream *stream) {
    SSL_free(stream->ssl);
    free(stream->flight);
    free(stream->behind);
    free(stream);
}

static void tls_closed(void *owner) {
    struct tls_stream *stream = owner;
    const struct transport_calls *calls = stream->calls;
    void *its_owner = stream->owner;
    stream->transport->tls = NULL;
    stream_free(stream);
    calls->closed(its_owner);
}

static const struct transport_calls tls_calls = {
    .buffer = tls_buffer, .read = tls_read, .written = tls_written, .closed = tls_closed};

void transport_tls_finish(struct transport *transport) {
    struct tls_stream *stream = transport->tls;
    bool left;
    TN_ASSERT(!stream->writing);
    if (stream->established && !stream->failed && !stream->finished) {
        stream->finished = true;
        ERR_clear_error();
        (void)SSL_shutdown(stream->ssl);
        ERR_clear_error();
        (void)pump(stream, &left);
    }
}

/* Sends close_notify if that is possible at once, so that the client knows that it has received
 * everything. */
static void tls_close(struct transport *transport) {
    struct tls_stream *stream = transport->tls;
    TN_ASSERT(!transport_is_closing(transport));
    queue_leave(stream);
    if (stream->established && !stream->failed && !stream->finished && stream->flight == NULL) {
        ERR_clear_error();
        (void)SSL_shutdown(stream->ssl);
        if (stream->tls->sealed_len > 0) {
            (void)transport_plain.try_write(transport, stream->tls->sealed,
                                            stream->tls->sealed_len);
        }
        stream->tls->sealed_len = 0;
        ERR_clear_error();
    }
    transport_plain.close(transport);
}

static const struct transport_ops transport_tls = {.start = tls_start,
                                                   .stop = tls_stop,
                                                   .try_write = tls_try_write,
                                                   .write = tls_write,
                                                   .queued = tls_queued,
                                                   .unsent = tls_unsent,
                                                   .close = tls_close};

bool transport_tls_begin(struct transport *transport, struct server_tls *tls) {
    struct tls_stream *stream = calloc(1, sizeof *stream);
    if (stream == NULL) {
        return false;
    }
    stream->tls = tls;
    stream->transport = transport;
    stream->ssl = SSL_new(tls->context);
    BIO *bio = stream->ssl != NULL ? BIO_new(tls->method) : NULL;
    if (bio == NULL) {
        ERR_clear_error();
        stream_free(stream);
        return false;
    }
    BIO_set_data(bio, stream);
    BIO_set_init(bio, 1);
    SSL_set_bio(stream->ssl, bio, bio);
    SSL_set_accept_state(stream->ssl);
    SSL_set_msg_callback(stream->ssl, on_message);
    SSL_set_msg_callback_arg(stream->ssl, stream);
    stream->calls = transport->calls;
    stream->owner = transport->owner;
    transport->calls = &tls_calls;
    transport->owner = stream;
    transport->tls = stream;
    transport->ops = &transport_tls;
    return true;
}

bool transport_tls_is_established(const struct transport *transport) {
    return transport->tls == NULL || transport->tls->established;
}

const SSL *transport_tls_ssl(const struct transport *transport) {
    return transport->tls != NULL ? transport->tls->ssl : NULL;
}
