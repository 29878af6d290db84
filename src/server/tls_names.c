/* The names in a client's certificate, which OpenSSL verified in the handshake. A client without a
 * certificate has no names. */
#include <openssl/x509v3.h>
#include <string.h>

#include "server/transport_tls.h"

/* A name that contains NUL could be two different names to two programs, so it is ignored. */
static bool text_is(const ASN1_STRING *text, bool (*name)(void *ctx, struct tn_bytes name),
                    void *ctx) {
    const unsigned char *at = ASN1_STRING_get0_data(text);
    int len = ASN1_STRING_length(text);
    return len > 0 && memchr(at, '\0', (size_t)len) == NULL &&
           name(ctx, tn_bytes_of(at, (size_t)len));
}

/* A subject with several common names is ambiguous, so all of them are ignored. */
static bool common_name_is(const X509 *certificate, bool (*name)(void *ctx, struct tn_bytes name),
                           void *ctx) {
    const X509_NAME *subject = X509_get_subject_name(certificate);
    int at = X509_NAME_get_index_by_NID(subject, NID_commonName, -1);
    if (at < 0 || X509_NAME_get_index_by_NID(subject, NID_commonName, at) >= 0) {
        return false;
    }
    unsigned char *utf8 = NULL;
    const ASN1_STRING *text = X509_NAME_ENTRY_get_data(X509_NAME_get_entry(subject, at));
    int len = ASN1_STRING_to_UTF8(&utf8, text);
    bool is = len > 0 && memchr(utf8, '\0', (size_t)len) == NULL &&
              name(ctx, tn_bytes_of(utf8, (size_t)len));
    if (len >= 0) {
        OPENSSL_free(utf8);
    }
    return is;
}

static bool alternative_is(const X509 *certificate, bool (*name)(void *ctx, struct tn_bytes name),
                           void *ctx) {
    bool is = false;
    GENERAL_NAMES *names = X509_get_ext_d2i(certificate, NID_subject_alt_name, NULL, NULL);
    for (int i = 0; i < sk_GENERAL_NAME_num(names) && !is; i++) {
        int type;
        const ASN1_STRING *text = GENERAL_NAME_get0_value(sk_GENERAL_NAME_value(names, i), &type);
        is = (type == GEN_DNS || type == GEN_EMAIL || type == GEN_URI) && text_is(text, name, ctx);
    }
    GENERAL_NAMES_free(names);
    return is;
}

bool transport_tls_names(const struct transport *transport,
                         bool (*name)(void *ctx, struct tn_bytes name), void *ctx) {
    const SSL *ssl = transport_tls_ssl(transport);
    const X509 *certificate = ssl != NULL ? SSL_get0_peer_certificate(ssl) : NULL;
    return certificate != NULL && SSL_get_verify_result(ssl) == X509_V_OK &&
           (common_name_is(certificate, name, ctx) || alternative_is(certificate, name, ctx));
}
