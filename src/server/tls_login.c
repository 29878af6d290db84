/* What tls_login.h promises. */
#include "server/tls_login.h"

#include <openssl/err.h>
#include <openssl/x509_vfy.h>

struct search {
    const struct access *access;
    struct access_login login;
};

static bool name_is_user(void *ctx, struct tn_bytes name) {
    struct search *search = ctx;
    search->login = access_login_of(search->access, name);
    search->login.by_certificate = search->login.user != NULL;
    return search->login.user != NULL;
}

struct access_login server_tls_login(const struct transport *transport,
                                     const struct access *access) {
    struct search search = {.access = access};
    (void)transport_tls_names(transport, name_is_user, &search);
    return search.login;
}

/* Verifies the certificate as OpenSSL does in a handshake. */
static bool verifies(SSL_CTX *context, const SSL *ssl, X509 *certificate) {
    X509_STORE_CTX *check = X509_STORE_CTX_new();
    bool good = check != NULL &&
                X509_STORE_CTX_init(check, SSL_CTX_get_cert_store(context), certificate,
                                    SSL_get_peer_cert_chain(ssl)) == 1 &&
                X509_STORE_CTX_set_default(check, "ssl_client") == 1;
    if (good) {
        X509_VERIFY_PARAM_set_auth_level(X509_STORE_CTX_get0_param(check),
                                         SSL_CTX_get_security_level(context));
        good = X509_verify_cert(check) == 1;
    }
    X509_STORE_CTX_free(check);
    ERR_clear_error();
    return good;
}

bool server_tls_admits(const struct server_tls *tls, const struct transport *transport,
                       const struct access *access, const struct access_login *arrived) {
    const SSL *ssl = transport_tls_ssl(transport);
    if (ssl == NULL || tls->context == NULL) {
        return true;
    }
    if (tls->clients == SERVER_TLS_CLIENTS_NO) {
        return arrived->user == NULL;
    }
    X509 *certificate = SSL_get0_peer_certificate(ssl);
    if (certificate == NULL) {
        return tls->clients != SERVER_TLS_CLIENTS_REQUIRED;
    }
    return verifies(tls->context, ssl, certificate) &&
           (arrived->user == NULL || server_tls_login(transport, access).user == arrived->user);
}

bool server_tls_admits_new(const struct server_tls *tls, const struct transport *transport,
                           const struct access *access, const struct access_login *arrived) {
    const SSL *ssl = transport_tls_ssl(transport);
    return ssl == NULL || SSL_get_SSL_CTX(ssl) == tls->context ||
           server_tls_admits(tls, transport, access, arrived);
}
