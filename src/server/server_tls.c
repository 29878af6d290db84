/* What server_tls.h promises. */
#include "server/server_tls.h"

#include <openssl/err.h>
#include <openssl/x509v3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "server/buffers.h"
#include "server/transport_tls.h"
#include "tls/tls_dial.h"

#define DAY_S 86400u
#define CIPHERS_1_2 "ECDHE+AESGCM:ECDHE+CHACHA20"

/* The maximum that one read can decrypt to: its bytes, and a record whose beginning was read
 * before. */
#define PLAIN_BYTES (SERVER_READ_BYTES + 2 * SSL3_RT_MAX_PLAIN_LENGTH)

void server_tls_error(char *out, size_t room) {
    (void)snprintf(out, room, "%s", tls_error_text(ERR_get_error()));
    ERR_clear_error();
}

static bool fail(char reason[SERVER_TLS_REASON_MAX], const char *what, const char *file) {
    char text[128];
    server_tls_error(text, sizeof text);
    (void)snprintf(reason, SERVER_TLS_REASON_MAX, "%s %.100s: %s", what, file, text);
    return false;
}

static bool key_set(SSL_CTX *context, const char *key, char reason[SERVER_TLS_REASON_MAX]) {
    bool encrypted = false;
    SSL_CTX_set_default_passwd_cb_userdata(context, &encrypted);
    bool good = SSL_CTX_use_PrivateKey_file(context, key, SSL_FILETYPE_PEM) == 1 &&
                SSL_CTX_check_private_key(context) == 1;
    SSL_CTX_set_default_passwd_cb_userdata(context, NULL);
    if (encrypted) {
        ERR_clear_error();
        (void)snprintf(reason, SERVER_TLS_REASON_MAX,
                       "tls_key_file %.100s: the key is encrypted; use one without a passphrase",
                       key);
        return false;
    }
    return good || fail(reason, "tls_key_file", key);
}

static bool policy_set(SSL_CTX *context) {
    static const unsigned char sessions[] = "tenure";
    (void)SSL_CTX_set_options(context, SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION |
                                           SSL_OP_CIPHER_SERVER_PREFERENCE |
                                           SSL_OP_PRIORITIZE_CHACHA);
    (void)SSL_CTX_set_mode(context, SSL_MODE_RELEASE_BUFFERS);
    (void)SSL_CTX_set_session_cache_mode(context, SSL_SESS_CACHE_OFF); /* tickets instead */
    SSL_CTX_set_default_passwd_cb(context, tls_no_passphrase);
    return SSL_CTX_set_min_proto_version(context, TLS1_2_VERSION) == 1 &&
           SSL_CTX_set_cipher_list(context, CIPHERS_1_2) == 1 &&
           SSL_CTX_set_session_id_context(context, sessions, sizeof sessions - 1) == 1;
}

static bool clients_set(SSL_CTX *context, const struct server_tls_files *files,
                        char reason[SERVER_TLS_REASON_MAX]) {
    int mode = SSL_VERIFY_PEER;
    if (files->clients == SERVER_TLS_CLIENTS_NO) {
        return true;
    }
    STACK_OF(X509_NAME) *names = SSL_load_client_CA_file(files->ca);
    if (names == NULL || SSL_CTX_load_verify_file(context, files->ca) != 1) {
        sk_X509_NAME_pop_free(names, X509_NAME_free);
        return fail(reason, "tls_ca_file", files->ca);
    }
    SSL_CTX_set_client_CA_list(context, names);
    if (files->clients == SERVER_TLS_CLIENTS_REQUIRED) {
        mode |= SSL_VERIFY_FAIL_IF_NO_PEER_CERT;
    }
    SSL_CTX_set_verify(context, mode, NULL);
    /* No resumption: a resumed session does not verify the certificate again, which may have
     * expired. */
    (void)SSL_CTX_set_options(context, SSL_OP_NO_TICKET);
    return SSL_CTX_set_num_tickets(context, 0) == 1 || fail(reason, "TLS", "");
}

static bool expiry_read(SSL_CTX *context, uint64_t *ret_expires_s) {
    struct tm parts;
    const X509 *certificate = SSL_CTX_get0_certificate(context);
    if (certificate == NULL || ASN1_TIME_to_tm(X509_get0_notAfter(certificate), &parts) != 1) {
        return false;
    }
    time_t end = timegm(&parts);
    *ret_expires_s = end > 0 ? (uint64_t)end : 0;
    return true;
}

static bool context_fill(SSL_CTX *context, const struct server_tls_files *files,
                         uint64_t *ret_expires_s, char reason[SERVER_TLS_REASON_MAX]) {
    if (!policy_set(context)) {
        return fail(reason, "TLS", "");
    }
    if (SSL_CTX_use_certificate_chain_file(context, files->certificate) != 1) {
        return fail(reason, "tls_cert_file", files->certificate);
    }
    if (!key_set(context, files->key, reason)) {
        return false;
    }
    if (!expiry_read(context, ret_expires_s)) {
        return fail(reason, "tls_cert_file", files->certificate);
    }
    return clients_set(context, files, reason);
}

/* NULL: `reason` says why. */
static SSL_CTX *context_make(const struct server_tls_files *files, uint64_t *ret_expires_s,
                             char reason[SERVER_TLS_REASON_MAX]) {
    ERR_clear_error();
    SSL_CTX *context = SSL_CTX_new(TLS_server_method());
    if (context == NULL) {
        (void)fail(reason, "TLS", "");
    } else if (!context_fill(context, files, ret_expires_s, reason)) {
        SSL_CTX_free(context);
        context = NULL;
    }
    return context;
}

bool server_tls_check(const struct server_tls_files *files, char reason[SERVER_TLS_REASON_MAX]) {
    uint64_t expires_s;
    SSL_CTX *context = context_make(files, &expires_s, reason);
    SSL_CTX_free(context);
    return context != NULL;
}

bool server_tls_load(struct server_tls *tls, const struct server_tls_files *files,
                     char reason[SERVER_TLS_REASON_MAX]) {
    uint64_t expires_s = 0;
    SSL_CTX *context = context_make(files, &expires_s, reason);
    if (context == NULL) {
        return false;
    }
    SSL_CTX_free(tls->context); /* connections that use it have their own references */
    tls->context = context;
    tls->clients = files->clients;
    tls->expires_s = expires_s;
    tls->warned_s = 0;
    return true;
}

bool server_tls_init(struct server_tls *tls, const struct server_tls_files *files,
                     char reason[SERVER_TLS_REASON_MAX]) {
    TAILQ_INIT(&tls->queue);
    (void)uv_idle_init(tls->loop, &tls->soon);
    tls->soon.data = tls;
    tls->method = transport_tls_method();
    tls->plain = malloc(PLAIN_BYTES);
    tls->sealed_capacity = SERVER_TLS_BATCH + SERVER_TLS_BATCH / 16;
    tls->sealed = malloc(tls->sealed_capacity);
    if (tls->method == NULL || tls->plain == NULL || tls->sealed == NULL) {
        (void)snprintf(reason, SERVER_TLS_REASON_MAX, "no memory");
        return false;
    }
    return server_tls_load(tls, files, reason);
}

void server_tls_free(struct server_tls *tls) {
    SSL_CTX_free(tls->context);
    BIO_meth_free(tls->method);
    free(tls->plain);
    free(tls->sealed);
    tls->context = NULL;
    tls->method = NULL;
    tls->plain = tls->sealed = NULL;
}

bool server_tls_must_warn(struct server_tls *tls, uint64_t now_s) {
    bool soon = now_s + (uint64_t)SERVER_TLS_EXPIRY_DAYS * DAY_S > tls->expires_s;
    if (!soon || (tls->warned_s != 0 && now_s - tls->warned_s < DAY_S)) {
        return false;
    }
    tls->warned_s = now_s;
    return true;
}
