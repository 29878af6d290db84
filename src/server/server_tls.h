/* TLS of the listeners, by OpenSSL: one certificate, one policy, for RESP and HTTP.
 *
 * Policy: TLS 1.2 or newer; in 1.2 only ciphers with forward secrecy and authenticated encryption; no
 * renegotiation, no compression, no early data.
 *
 * Reload. The files are read at the start and at every reload. A connection keeps the server certificate
 * that it began with; new connections get the new one. If the new files cannot be used, the old ones stay.
 * After a reload every client is judged by the new settings (tls_login.h): a client that would not get in
 * again, or not as the same user, is disconnected. SERVER_TLS_JUDGED clients of each protocol in a turn.
 *
 * Handshakes are the most expensive thing that a client can ask for without a name. In one turn of the
 * loop they get SERVER_TLS_TURN_NS; connections beyond that wait in a queue, in order of arrival, and
 * are not read meanwhile. All on the loop's thread. */
#ifndef TN_SERVER_SERVER_TLS_H
#define TN_SERVER_SERVER_TLS_H

#include <openssl/ssl.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>
#include <uv.h>

#include "server/count.h"
#include "server/tls_files.h"

/* Nanoseconds of a turn of the loop after which no more handshake steps begin. */
#define SERVER_TLS_TURN_NS 1000000u
#define SERVER_TLS_RESUMED 2u /* connections that leave the queue in one turn */
/* If the certificate expires within this time, the log warns once a day. */
#define SERVER_TLS_EXPIRY_DAYS 14u
#define SERVER_TLS_JUDGED 8u           /* clients judged again in one turn after a reload */
#define SERVER_TLS_BATCH (64u * 1024u) /* bytes encrypted together */

struct tls_stream;

struct server_tls {
    uv_loop_t *loop;
    struct server_counters *counters;
    bool (*tell)(void *ctx); /* whether to log one more line about a client */
    void *ctx;
    SSL_CTX *context; /* of new connections */
    BIO_METHOD *method;
    enum server_tls_clients clients; /* of `context` */
    uint64_t expires_s; /* the end of the certificate's validity, in seconds since 1970 */
    uint64_t warned_s;  /* the time of the last warning about it */
    uint8_t *plain;     /* the loop's buffer for decrypted bytes */
    uint8_t *sealed;    /* the loop's buffer for encrypted bytes */
    size_t sealed_len, sealed_capacity;
    uint64_t spent_ns; /* time spent on handshakes in this turn */
    TAILQ_HEAD(tls_streams, tls_stream) queue;
    uv_idle_t soon; /* runs while the queue is not empty or `spent_ns` is not 0 */
};

/* The caller has set loop, counters, tell and ctx, and the rest of `tls` is zero. False: `reason`
 * says why. Call server_tls_free in either case. */
bool server_tls_init(struct server_tls *tls, const struct server_tls_files *files,
                     char reason[SERVER_TLS_REASON_MAX]);
/* Reads the files again. False: `reason` says why, and the old certificate stays in use. */
bool server_tls_load(struct server_tls *tls, const struct server_tls_files *files,
                     char reason[SERVER_TLS_REASON_MAX]);
void server_tls_free(struct server_tls *tls);
/* Whether to warn now: the certificate has expired or expires soon, and the last warning is a day
 * old. */
bool server_tls_must_warn(struct server_tls *tls, uint64_t now_s);

/* The first error in OpenSSL's queue as text. Empties the queue. */
void server_tls_error(char *out, size_t room);

#endif
