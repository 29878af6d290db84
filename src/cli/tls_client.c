/* What tls_client.h promises. */
#include "cli/tls_client.h"

#include <errno.h>
#include <openssl/err.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>

#include "tls/tls_dial.h"

struct cli_tls {
    struct tls_dial dial;
    short events;
};

/* ---- Beginning ---- */

static void error_set(char *error, size_t room, const char *what) {
    (void)snprintf(error, room, "%s: %s", what, tls_error_text(ERR_get_error()));
    ERR_clear_error();
}

static bool server_verify(struct tls_dial *dial, bool insecure, const char *host) {
    SSL_set_verify(dial->ssl, insecure ? SSL_VERIFY_NONE : SSL_VERIFY_PEER, NULL);
    return insecure || tls_dial_expect(dial, host);
}

struct cli_tls *cli_tls_new(const struct cli_tls_settings *settings, const char *host, int socket,
                            char *error, size_t room) {
    struct cli_tls *tls = calloc(1, sizeof *tls);
    if (tls == NULL) {
        (void)snprintf(error, room, "out of memory");
        return NULL;
    }
    const struct tls_files files = {.ca = settings->ca,
                                    .certificate = settings->certificate,
                                    .key = settings->key != NULL ? settings->key
                                                                 : settings->certificate};
    bool encrypted;
    ERR_clear_error();
    const char *bad = tls_dial_open(&tls->dial, &files, socket, &encrypted);
    if (bad == NULL && !server_verify(&tls->dial, settings->insecure, host)) {
        bad = "TLS";
    }
    if (bad == NULL) {
        return tls;
    }
    error_set(error, room, bad);
    if (encrypted) {
        (void)snprintf(error, room, "%s: the key is encrypted; use one without a passphrase", bad);
    }
    cli_tls_free(tls);
    return NULL;
}

void cli_tls_free(struct cli_tls *tls) {
    if (tls != NULL) {
        tls_dial_close(&tls->dial);
        free(tls);
    }
}

/* ---- Bytes ---- */

enum cli_tls_step cli_tls_handshake(struct cli_tls *tls, char *error, size_t room) {
    ERR_clear_error();
    errno = 0;
    int result = SSL_do_handshake(tls->dial.ssl);
    if (result == 1) {
        return CLI_TLS_DONE;
    }
    int what = SSL_get_error(tls->dial.ssl, result);
    if (what == SSL_ERROR_WANT_READ || what == SSL_ERROR_WANT_WRITE) {
        return what == SSL_ERROR_WANT_READ ? CLI_TLS_READ : CLI_TLS_WRITE;
    }
    long verified = SSL_get_verify_result(tls->dial.ssl);
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
    switch (SSL_get_error(tls->dial.ssl, result)) {
    case SSL_ERROR_WANT_READ:
    case SSL_ERROR_WANT_WRITE: {
        short wanted = SSL_want_read(tls->dial.ssl) != 0 ? POLLIN : POLLOUT;
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
    return outcome(tls, SSL_write(tls->dial.ssl, bytes, bounded(len)), POLLOUT);
}

ssize_t cli_tls_recv(struct cli_tls *tls, void *out, size_t len) {
    ERR_clear_error();
    errno = 0;
    return outcome(tls, SSL_read(tls->dial.ssl, out, bounded(len)), POLLIN);
}

short cli_tls_events(const struct cli_tls *tls) {
    return tls->events;
}
