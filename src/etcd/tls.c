/* OpenSSL writes to sockets with write(2), which raises SIGPIPE in the whole process. So its I/O goes
 * through a BIO of our own, with send(2) and MSG_NOSIGNAL. */
#include "etcd/tls.h"

#include <arpa/inet.h>
#include <errno.h>
#include <limits.h>
#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "base/assert.h"

struct etcd_tls {
    SSL_CTX *context;
    SSL *ssl;
    BIO_METHOD *method;
    int fd;
};

/* ---- The socket ---- */

static int socket_write(BIO *bio, const char *bytes, int len) {
    const struct etcd_tls *tls = BIO_get_data(bio);
    BIO_clear_retry_flags(bio);
    ssize_t sent = send(tls->fd, bytes, (size_t)len, MSG_NOSIGNAL);
    if (sent < 0 && (errno == EAGAIN || errno == EINTR)) {
        BIO_set_retry_write(bio);
    }
    return (int)sent;
}

static int socket_read(BIO *bio, char *out, int max) {
    const struct etcd_tls *tls = BIO_get_data(bio);
    BIO_clear_retry_flags(bio);
    ssize_t got = recv(tls->fd, out, (size_t)max, 0);
    if (got < 0 && (errno == EAGAIN || errno == EINTR)) {
        BIO_set_retry_read(bio);
    }
    return (int)got;
}

static long socket_control(BIO *bio, int command, long number, void *at) {
    (void)bio;
    (void)number;
    (void)at;
    return command == BIO_CTRL_FLUSH ? 1 : 0;
}

static bool socket_attach(struct etcd_tls *tls) {
    tls->method = BIO_meth_new(BIO_get_new_index() | BIO_TYPE_SOURCE_SINK, "etcd");
    if (tls->method == NULL || BIO_meth_set_write(tls->method, socket_write) != 1 ||
        BIO_meth_set_read(tls->method, socket_read) != 1 ||
        BIO_meth_set_ctrl(tls->method, socket_control) != 1) {
        return false;
    }
    BIO *bio = BIO_new(tls->method);
    if (bio == NULL) {
        return false;
    }
    BIO_set_data(bio, tls);
    BIO_set_init(bio, 1);
    SSL_set_bio(tls->ssl, bio, bio);
    return true;
}

/* ---- Errors ---- */

/* Why a certificate was not accepted: our own verification, or an alert of the server about ours. */
static bool error_is_trust(const struct etcd_tls *tls, unsigned long code) {
    enum { ALERT_FIRST = SSL_AD_REASON_OFFSET + SSL_AD_HANDSHAKE_FAILURE };
    int reason = ERR_GET_REASON(code);
    return (tls->ssl != NULL && SSL_get_verify_result(tls->ssl) != X509_V_OK) ||
           (ERR_GET_LIB(code) == ERR_LIB_SSL && reason >= ALERT_FIRST);
}

static void error_set(struct etcd_tls_error *error, const struct etcd_tls *tls, const char *what) {
    unsigned long code = ERR_get_error();
    const char *text = code != 0 ? ERR_reason_error_string(code) : NULL;
    long verified = tls->ssl != NULL ? SSL_get_verify_result(tls->ssl) : X509_V_OK;
    error->untrusted = error_is_trust(tls, code);
    if (verified != X509_V_OK) {
        text = X509_verify_cert_error_string(verified);
        what = "server certificate";
    }
    (void)snprintf(error->text, sizeof error->text, "%s: %s", what,
                   text != NULL ? text : "unknown error");
    ERR_clear_error();
}

/* ---- Files ---- */

/* Without this OpenSSL would ask for a passphrase at the terminal. */
// NOLINTNEXTLINE(readability-non-const-parameter): OpenSSL says what it looks like
static int no_passphrase(char *out, int max, int writing, void *ctx) {
    (void)out;
    (void)max;
    (void)writing;
    (void)ctx;
    return 0;
}

static const char *context_load(SSL_CTX *context, const struct etcd_tls_files *files) {
    SSL_CTX_set_default_passwd_cb(context, no_passphrase);
    if (files->ca != NULL ? SSL_CTX_load_verify_file(context, files->ca) != 1
                          : SSL_CTX_set_default_verify_paths(context) != 1) {
        return files->ca != NULL ? files->ca : "authorities of the system";
    }
    if (files->certificate != NULL &&
        SSL_CTX_use_certificate_chain_file(context, files->certificate) != 1) {
        return files->certificate;
    }
    if (files->key != NULL &&
        (SSL_CTX_use_PrivateKey_file(context, files->key, SSL_FILETYPE_PEM) != 1 ||
         SSL_CTX_check_private_key(context) != 1)) {
        return files->key;
    }
    return NULL;
}

static bool name_expect(SSL *ssl, const char *host) {
    uint8_t address[sizeof(struct in6_addr)];
    if (inet_pton(AF_INET, host, address) == 1 || inet_pton(AF_INET6, host, address) == 1) {
        return X509_VERIFY_PARAM_set1_ip_asc(SSL_get0_param(ssl), host) == 1;
    }
    return SSL_set1_host(ssl, host) == 1 && SSL_set_tlsext_host_name(ssl, host) == 1;
}

static bool session_set_up(struct etcd_tls *tls, const char *host) {
    static const uint8_t protocols[] = {2, 'h', '2'};
    tls->ssl = SSL_new(tls->context);
    if (tls->ssl == NULL) {
        return false;
    }
    SSL_set_connect_state(tls->ssl);
    SSL_set_verify(tls->ssl, SSL_VERIFY_PEER, NULL);
    return SSL_set_alpn_protos(tls->ssl, protocols, sizeof protocols) == 0 &&
           name_expect(tls->ssl, host) && socket_attach(tls);
}

struct etcd_tls *etcd_tls_new(const struct etcd_tls_files *files, const char *host, int fd,
                              struct etcd_tls_error *error) {
    struct etcd_tls *tls = calloc(1, sizeof *tls);
    *error = (struct etcd_tls_error){.text = "out of memory"};
    if (tls == NULL) {
        return NULL;
    }
    tls->fd = fd;
    ERR_clear_error();
    tls->context = SSL_CTX_new(TLS_client_method());
    if (tls->context == NULL || SSL_CTX_set_min_proto_version(tls->context, TLS1_2_VERSION) != 1) {
        error_set(error, tls, "TLS");
        goto failed;
    }
    (void)SSL_CTX_set_mode(tls->context,
                           SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
    const char *bad = context_load(tls->context, files);
    if (bad != NULL) {
        error_set(error, tls, bad);
        goto failed;
    }
    if (!session_set_up(tls, host)) {
        error_set(error, tls, "TLS");
        goto failed;
    }
    return tls;
failed:
    etcd_tls_free(tls);
    return NULL;
}

void etcd_tls_free(struct etcd_tls *tls) {
    SSL_free(tls->ssl);
    SSL_CTX_free(tls->context);
    BIO_meth_free(tls->method);
    free(tls);
}

/* ---- Bytes ---- */

static enum etcd_tls_result result_of(struct etcd_tls *tls, int result, const char *what,
                                      struct etcd_tls_error *error) {
    switch (SSL_get_error(tls->ssl, result)) {
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
    int result = SSL_do_handshake(tls->ssl);
    if (result != 1) {
        return result_of(tls, result, "TLS handshake", error);
    }
    const uint8_t *protocol = NULL;
    unsigned len = 0;
    SSL_get0_alpn_selected(tls->ssl, &protocol, &len);
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
    int result = SSL_read(tls->ssl, out, max > INT_MAX ? INT_MAX : (int)max);
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
    int result = SSL_write(tls->ssl, bytes, len > INT_MAX ? INT_MAX : (int)len);
    if (result <= 0) {
        return result_of(tls, result, "TLS", error);
    }
    *ret_len = (size_t)result;
    return ETCD_TLS_OK;
}
