/* A stream with TLS: transport_ops over those of transport_plain, with OpenSSL in between, which sees memory
 * only. See server_tls.h for the policy.
 *
 *     socket -> plain transport -> OpenSSL (BIO) -> the loop's buffer -> owner->read
 *     transport_write -> OpenSSL -> the loop's buffer -> socket, and what it does not take: a copy
 *
 * Invariants
 *   1. Everything that OpenSSL has decrypted is handed to the owner before the read returns, so nothing
 *      is pending inside of it while the owner waits for the socket.
 *   2. At most one flight of ciphertext is with libuv. Behind it is at most what OpenSSL sends by itself
 *      (tickets, alerts), which is bounded.
 *   3. Bytes that were encrypted and have not left are reported as not sent: transport_try_write counts
 *      whole flights that left; the rest must be the start of the next transport_write, which then does
 *      not encrypt it again. */
#ifndef TN_SERVER_TRANSPORT_TLS_H
#define TN_SERVER_TRANSPORT_TLS_H

#include "base/bytes.h"
#include "server/server_tls.h"
#include "server/transport.h"

/* The BIO that OpenSSL reads and writes. NULL: out of memory. */
BIO_METHOD *transport_tls_method(void);

/* Called after transport_accept: from now on the stream uses TLS. The owner's `established` is
 * called when the handshake has been completed. False: out of memory. */
bool transport_tls_begin(struct transport *transport, struct server_tls *tls);
/* Ends the sending side of TLS; the client may still send. Not during a transport_write. */
void transport_tls_finish(struct transport *transport);
/* Whether the handshake has been completed. */
bool transport_tls_is_established(const struct transport *transport);

/* OpenSSL's object; NULL: a stream without TLS. */
const SSL *transport_tls_ssl(const struct transport *transport);

/* Calls `name` for the names in the client's verified certificate until it returns true: the common
 * name, then the DNS names, e-mail addresses and URIs of subjectAltName. False: there is no
 * certificate, or `name` never returned true. */
bool transport_tls_names(const struct transport *transport,
                         bool (*name)(void *ctx, struct tn_bytes name), void *ctx);

#endif
