/* TLS on a non-blocking socket, by OpenSSL: 1.2 or newer, the server's certificate is always verified
 * against the CA and the name or address in the endpoint, ALPN says h2.
 *
 * The files are read for every connection, so that a renewed certificate is used without a restart. */
#ifndef TN_ETCD_TLS_H
#define TN_ETCD_TLS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "etcd/etcd.h"

struct etcd_tls_files {
    const char *ca;          /* PEM; NULL: the system's authorities */
    const char *certificate; /* this client's, PEM with its chain; NULL: none */
    const char *key;         /* of that certificate, PEM without a passphrase */
};

enum etcd_tls_result {
    ETCD_TLS_OK,
    ETCD_TLS_READ,   /* continue when the socket is readable */
    ETCD_TLS_WRITE,  /* continue when the socket is writable */
    ETCD_TLS_CLOSED, /* closed by the other side, or the connection has failed: see errno */
    ETCD_TLS_FAILED, /* TLS itself: the error has been written */
};

struct etcd_tls_error {
    bool untrusted; /* a certificate was not accepted, by us or by the server */
    char text[ETCD_MESSAGE_MAX];
};

struct etcd_tls;

/* NULL: the error says why. The socket stays the caller's. */
struct etcd_tls *etcd_tls_new(const struct etcd_tls_files *files, const char *host, int fd,
                              struct etcd_tls_error *error);
void etcd_tls_free(struct etcd_tls *tls);

/* The handshake, until ETCD_TLS_OK. */
enum etcd_tls_result etcd_tls_handshake(struct etcd_tls *tls, struct etcd_tls_error *error);
enum etcd_tls_result etcd_tls_read(struct etcd_tls *tls, uint8_t *out, size_t max, size_t *ret_len,
                                   struct etcd_tls_error *error);
enum etcd_tls_result etcd_tls_write(struct etcd_tls *tls, const uint8_t *bytes, size_t len,
                                    size_t *ret_len, struct etcd_tls_error *error);

#endif
