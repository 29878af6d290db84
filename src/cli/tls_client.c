/* What tls_client.h promises. OpenSSL writes to sockets with write(2), which raises SIGPIPE; so its I/O goes
 * through a BIO of our own, with send(2) and MSG_NOSIGNAL. */
#include "cli/tls_client.h"

#include <arpa/inet.h>
#include <errno.h>
#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>

struct cli_tls {
    SSL_CTX *context;
    SSL *ssl;
    BIO_METHOD *method;
    int socket;
    short events;
};

/* ---- The socket ---- */

static int socket_write(BIO *bio, const char *bytes, int len) {
    const struct cli_tls *tls = BIO_get_data(bio);
    BIO_clear_retry_flags(bio);
    ssize_t sent = send(tls->socket, bytes, (size_t)len, MSG_NOSIGNAL);
    if (sent < 0 && (errno == EAGAIN || errno == EINTR)) {
        BIO_set_retry_write(bio);
    }
    return (int)sent;
}

static int socket_read(BIO *bio, char *out, int max) {
    const struct cli_tls *tls = BIO_get_data(bio);
    BIO_clear_retry_flags(bio);
    ssize_t got = recv(tls->socket, out, (size_t)max, 0);
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

static bool socket_attach(struct cli_tls *tls) {
    tls->method = BIO_meth_new(BIO_get_new_index() | BIO_TYPE_SOURCE_SINK, "tenure");
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

/* ---- Beginning ---- */

static void error_set(char *error, size_t room, const char *what) {
    unsigned long code = ERR_get_error();
    const char *text = code != 0 ? ERR_reason_error_string(code) : NULL;
    (void)snprintf(error, room, "%s: %s", what, text != NULL ? text : "unknown error");
    ERR_clear_error();
}

/* Without this OpenSSL would ask for a passphrase at the terminal. *ctx: a file needs one. */
// NOLINTNEXTLINE(readability-non-const-parameter): OpenSSL declares the type
static int no_passphrase(char *out, int max, int writing, void *ctx) {
    (void)out;
    (void)max;
    (void)writing;
    *(bool *)ctx = true;
    return -1;
}

/* NULL, or the name of what cannot be used. */
static const char *files_load(SSL_CTX *context, const struct cli_tls_settings *settings) {
    const char *key = settings->key != NULL ? settings->key : settings->certificate;
    if (settings->ca != NULL ? SSL_CTX_load_verify_file(context, settings->ca) != 1
                             : SSL_CTX_set_default_verify_paths(context) != 1) {
        return settings->ca != NULL ? settings->ca : "the system's authorities";
    }
    if (settings->certificate != NULL &&
        SSL_CTX_use_certificate_chain_file(context, settings->certificate) != 1) {
        return settings->certificate;
    }
    if (key != NULL && (SSL_CTX_use_PrivateKey_file(context, key, SSL_FILETYPE_PEM) != 1 ||
                        SSL_CTX_check_private_key(context) != 1)) {
        return key;
    }
    return NULL;
}

static bool name_expect(SSL *ssl, const char *host) {
    unsigned char address[sizeof(struct in6_addr)];
    if (inet_pton(AF_INET, host, address) == 1 || inet_pton(AF_INET6, host, address) == 1) {
        return X509_VERIFY_PARAM_set1_ip_asc(SSL_get0_param(ssl), host) == 1;
    }
    return SSL_set1_host(ssl, host) == 1 && SSL_set_tlsext_host_name(ssl, host) == 1;
}

static bool session_set_up(struct cli_tls *tls, const struct cli_tls_settings *settings,
                           const char *host) {
    tls->ssl = SSL_new(tls->context);
    if (tls->ssl == NULL || !socket_attach(tls)) {
        return false;
    }
    SSL_set_connect_state(tls->ssl);
    SSL_set_verify(tls->ssl, settings->insecure ? SSL_VERIFY_NONE : SSL_VERIFY_PEER, NULL);
    return settings->insecure || name_expect(tls->ssl, host);
}

struct cli_tls *cli_tls_new(const struct cli_tls_settings *settings, const char *host, int socket,
                            char *error, size_t room) {
    struct cli_tls *tls = calloc(1, sizeof *tls);
    if (tls == NULL) {
        (void)snprintf(error, room, "out of memory");
        return NULL;
    }
    tls->socket = socket;
    ERR_clear_error();
    tls->context = SSL_CTX_new(TLS_client_method());
    const char *bad = "TLS";
    bool encrypted = false;
    if (tls->context != NULL && SSL_CTX_set_min_proto_version(tls->context, TLS1_2_VERSION) == 1) {
        (void)SSL_CTX_set_mode(tls->context,
                               SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
        SSL_CTX_set_default_passwd_cb(tls->context, no_passphrase);
        SSL_CTX_set_default_passwd_cb_userdata(tls->context, &encrypted);
        bad = files_load(tls->context, settings);
        SSL_CTX_set_default_passwd_cb_userdata(tls->context, NULL);
    }
    if (bad != NULL || !session_set_up(tls, settings, host)) {
        error_set(error, room, bad != NULL ? bad : "TLS");
        if (encrypted) {
            (void)snprintf(error, room, "%s: the key is encrypted; use one without a passphrase",
                           bad);
        }
        cli_tls_free(tls);
        return NULL;
    }
    return tls;
}

void cli_tls_free(struct cli_tls *tls) {
    if (tls != NULL) {
        SSL_free(tls->ssl);
        SSL_CTX_free(tls->context);
        BIO_meth_free(tls->method);
        free(tls);
    }
}

/* ---- Bytes ---- */

enum cli_tls_step cli_tls_handshake(struct cli_tls *tls, char *error, size_t room) {
    ERR_clear_error();
    errno = 0;
    int result = SSL_do_handshake(tls->ssl);
    if (result == 1) {
        return CLI_TLS_DONE;
    }
    int what = SSL_get_error(tls->ssl, result);
    if (what == SSL_ERROR_WANT_READ || what == SSL_ERROR_WANT_WRITE) {
        return what == SSL_ERROR_WANT_READ ? CLI_TLS_READ : CLI_TLS_WRITE;
    }
    long verified = SSL_get_verify_result(tls->ssl);
    if (verified != X509_V_OK) {
        (void)snprintf(error, room,
                       "the server's certificate is not trusted: %s; name its authority with --ca",
                       X509_verify_cert_error_string(verified));
        ERR_clear_error();
    } else if (what == SSL_ERROR_SYSCALL || ERR_peek_error() == 0) {
        (void)snprintf(error, room,
                       "the server hung up during the TLS handshake; is it a TLS port?");
    } else {
        error_set(error, room, "TLS handshake");
    }
    return CLI_TLS_FAILED;
}

/* errno as for a plain socket. */
static ssize_t outcome(struct cli_tls *tls, int result, short own) {
    tls->events = 0;
    if (result > 0) {
        return result;
    }
    switch (SSL_get_error(tls->ssl, result)) {
    case SSL_ERROR_WANT_READ:
    case SSL_ERROR_WANT_WRITE: {
        short wanted = SSL_want_read(tls->ssl) != 0 ? POLLIN : POLLOUT;
        tls->events = wanted != own ? wanted : 0;
        errno = EAGAIN;
        return -1;
    }
    case SSL_ERROR_ZERO_RETURN:
        return own == POLLIN ? 0 : (errno = EPIPE, -1);
    case SSL_ERROR_SYSCALL:
        errno = errno != 0 && errno != EAGAIN ? errno : ECONNRESET;
        return -1;
    default:
        ERR_clear_error();
        errno = EPROTO;
        return -1;
    }
}

static int bounded(size_t len) {
    return len > 1 << 20 ? 1 << 20 : (int)len;
}

ssize_t cli_tls_send(struct cli_tls *tls, const void *bytes, size_t len) {
    ERR_clear_error();
    errno = 0;
    return outcome(tls, SSL_write(tls->ssl, bytes, bounded(len)), POLLOUT);
}

ssize_t cli_tls_recv(struct cli_tls *tls, void *out, size_t len) {
    ERR_clear_error();
    errno = 0;
    return outcome(tls, SSL_read(tls->ssl, out, bounded(len)), POLLIN);
}

short cli_tls_events(const struct cli_tls *tls) {
    return tls->events;
}
