/* What tls.h promises. */
#include "etcd/tls.h"

#include <errno.h>
#include <limits.h>
#include <openssl/err.h>
#include <openssl/x509.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "tls/tls_dial.h"

struct etcd_tls {
    struct tls_dial dial;
};

/* ---- Errors ---- */

/* Why a certificate was not accepted: our own verification, or an alert of the server about ours. */
static bool error_is_trust(const struct etcd_tls *tls, unsigned long code) {
    enum { ALERT_FIRST = SSL_AD_REASON_OFFSET + SSL_AD_HANDSHAKE_FAILURE };
    int reason = ERR_GET_REASON(code);
    return (tls->dial.ssl != NULL && SSL_get_verify_result(tls->dial.ssl) != X509_V_OK) ||
           (ERR_GET_LIB(code) == ERR_LIB_SSL && reason >= ALERT_FIRST);
}

static void error_set(struct etcd_tls_error *error, const struct etcd_tls *tls, const char *what) {
    unsigned long code = ERR_get_error();
    const char *text = tls_error_text(code);
    long verified = tls->dial.ssl != NULL ? SSL_get_verify_result(tls->dial.ssl) : X509_V_OK;
    error->untrusted = error_is_trust(tls, code);
    if (verified != X509_V_OK) {
        text = X509_verify_cert_error_string(verified);
        what = "server certificate";
    }
    (void)snprintf(error->text, sizeof error->text, "%s: %s", what, text);
    ERR_clear_error();
}

/* ---- Beginning ---- */

static bool server_verify(struct tls_dial *dial, const char *host) {
    static const uint8_t protocols[] = {2, 'h', '2'};
    SSL_set_verify(dial->ssl, SSL_VERIFY_PEER, NULL);
    return SSL_set_alpn_protos(dial->ssl, protocols, sizeof protocols) == 0 &&
           tls_dial_expect(dial, host);
}

struct etcd_tls *etcd_tls_new(const struct etcd_tls_files *files, const char *host, int fd,
                              struct etcd_tls_error *error) {
    struct etcd_tls *tls = calloc(1, sizeof *tls);
    *error = (struct etcd_tls_error){.text = "out of memory"};
    if (tls == NULL) {
        return NULL;
    }
    const struct tls_files own = {
        .ca = files->ca, .certificate = files->certificate, .key = files->key};
    bool encrypted;
    ERR_clear_error();
    const char *bad = tls_dial_open(&tls->dial, &own, fd, &encrypted);
    if (bad == NULL && !server_verify(&tls->dial, host)) {
        bad = "TLS";
    }
    if (bad == NULL) {
        return tls;
    }
    error_set(error, tls, bad);
    if (encrypted) {
        (void)snprintf(error->text, sizeof error->text,
                       "%.200s: the key is encrypted; use one without a passphrase", bad);
    }
    etcd_tls_free(tls);
    return NULL;
}

void etcd_tls_free(struct etcd_tls *tls) {
    tls_dial_close(&tls->dial);
    free(tls);
}

/* ---- Bytes ---- */

static enum etcd_tls_result result_of(struct etcd_tls *tls, int result, const char *what,
                                      struct etcd_tls_error *error) {
    switch (SSL_get_error(tls->dial.ssl, result)) {
    case SSL_ERROR_WANT_READ:
        return ETCD_TLS_READ;
    case SSL_ERROR_WANT_WRITE:
        return ETCD_TLS_WRITE;
    case SSL_ERROR_ZERO_RETURN:
        errno = 0;
        return ETCD_TLS_CLOSED;
    case SSL_ERROR_SYSCALL:
        return ETCD_TLS_CLOSED;
    default:
        error_set(error, tls, what);
        return ETCD_TLS_FAILED;
    }
}

enum etcd_tls_result etcd_tls_handshake(struct etcd_tls *tls, struct etcd_tls_error *error) {
    ERR_clear_error();
    errno = 0;
    int result = SSL_do_handshake(tls->dial.ssl);
    if (result != 1) {
        return result_of(tls, result, "TLS handshake", error);
    }
    const uint8_t *protocol = NULL;
    unsigned len = 0;
    SSL_get0_alpn_selected(tls->dial.ssl, &protocol, &len);
    if (len != 2 || memcmp(protocol, "h2", 2) != 0) {
        *error = (struct etcd_tls_error){.text = "the server does not offer HTTP/2"};
        return ETCD_TLS_FAILED;
    }
    return ETCD_TLS_OK;
}

enum etcd_tls_result etcd_tls_read(struct etcd_tls *tls, uint8_t *out, size_t max, size_t *ret_len,
                                   struct etcd_tls_error *error) {
    ERR_clear_error();
    errno = 0;
    int result = SSL_read(tls->dial.ssl, out, max > INT_MAX ? INT_MAX : (int)max);
    if (result <= 0) {
        return result_of(tls, result, "TLS", error);
    }
    *ret_len = (size_t)result;
    return ETCD_TLS_OK;
}

enum etcd_tls_result etcd_tls_write(struct etcd_tls *tls, const uint8_t *bytes, size_t len,
                                    size_t *ret_len, struct etcd_tls_error *error) {
    TN_ASSERT(len > 0);
    ERR_clear_error();
    errno = 0;
    int result = SSL_write(tls->dial.ssl, bytes, len > INT_MAX ? INT_MAX : (int)len);
    if (result <= 0) {
        return result_of(tls, result, "TLS", error);
    }
    *ret_len = (size_t)result;
    return ETCD_TLS_OK;
}
