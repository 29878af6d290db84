/* What tls_dial.h promises. */
#include "tls/tls_dial.h"

#include <arpa/inet.h>
#include <errno.h>
#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/x509v3.h>
#include <string.h>
#include <sys/socket.h>

/* ---- The socket ---- */

static int socket_write(BIO *bio, const char *bytes, int len) {
    const struct tls_dial *dial = BIO_get_data(bio);
    BIO_clear_retry_flags(bio);
    ssize_t sent = send(dial->socket, bytes, (size_t)len, MSG_NOSIGNAL);
    if (sent < 0 && (errno == EAGAIN || errno == EINTR)) {
        BIO_set_retry_write(bio);
    }
    return (int)sent;
}

static int socket_read(BIO *bio, char *out, int max) {
    const struct tls_dial *dial = BIO_get_data(bio);
    BIO_clear_retry_flags(bio);
    ssize_t got = recv(dial->socket, out, (size_t)max, 0);
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

static bool socket_attach(struct tls_dial *dial) {
    dial->method = BIO_meth_new(BIO_get_new_index() | BIO_TYPE_SOURCE_SINK, "tenure");
    if (dial->method == NULL || BIO_meth_set_write(dial->method, socket_write) != 1 ||
        BIO_meth_set_read(dial->method, socket_read) != 1 ||
        BIO_meth_set_ctrl(dial->method, socket_control) != 1) {
        return false;
    }
    BIO *bio = BIO_new(dial->method);
    if (bio == NULL) {
        return false;
    }
    BIO_set_data(bio, dial);
    BIO_set_init(bio, 1);
    SSL_set_bio(dial->ssl, bio, bio);
    return true;
}

/* ---- Beginning ---- */

const char *tls_error_text(unsigned long code) {
    const char *text =
        ERR_SYSTEM_ERROR(code) ? strerror(ERR_GET_REASON(code)) : ERR_reason_error_string(code);
    return code != 0 && text != NULL ? text : "unknown error";
}

// NOLINTNEXTLINE(readability-non-const-parameter): OpenSSL declares the type
int tls_no_passphrase(char *out, int max, int writing, void *ctx) {
    (void)out;
    (void)max;
    (void)writing;
    if (ctx != NULL) {
        *(bool *)ctx = true;
    }
    return -1;
}

/* NULL, or the name of the file that cannot be used. */
static const char *files_load(SSL_CTX *context, const struct tls_files *files) {
    if (files->ca != NULL ? SSL_CTX_load_verify_file(context, files->ca) != 1
                          : SSL_CTX_set_default_verify_paths(context) != 1) {
        return files->ca != NULL ? files->ca : "the system's authorities";
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

const char *tls_dial_open(struct tls_dial *dial, const struct tls_files *files, int socket,
                          bool *ret_encrypted) {
    *dial = (struct tls_dial){.socket = socket, .context = SSL_CTX_new(TLS_client_method())};
    *ret_encrypted = false;
    if (dial->context == NULL ||
        SSL_CTX_set_min_proto_version(dial->context, TLS1_2_VERSION) != 1) {
        return "TLS";
    }
    (void)SSL_CTX_set_mode(dial->context,
                           SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
    SSL_CTX_set_default_passwd_cb(dial->context, tls_no_passphrase);
    SSL_CTX_set_default_passwd_cb_userdata(dial->context, ret_encrypted);
    const char *bad = files_load(dial->context, files);
    SSL_CTX_set_default_passwd_cb_userdata(dial->context, NULL);
    if (bad != NULL) {
        return bad;
    }
    dial->ssl = SSL_new(dial->context);
    if (dial->ssl == NULL || !socket_attach(dial)) {
        return "TLS";
    }
    SSL_set_connect_state(dial->ssl);
    return NULL;
}

bool tls_dial_expect(struct tls_dial *dial, const char *host) {
    unsigned char address[sizeof(struct in6_addr)];
    if (inet_pton(AF_INET, host, address) == 1 || inet_pton(AF_INET6, host, address) == 1) {
        return X509_VERIFY_PARAM_set1_ip_asc(SSL_get0_param(dial->ssl), host) == 1;
    }
    return SSL_set1_host(dial->ssl, host) == 1 && SSL_set_tlsext_host_name(dial->ssl, host) == 1;
}

void tls_dial_close(struct tls_dial *dial) {
    SSL_free(dial->ssl);
    SSL_CTX_free(dial->context);
    BIO_meth_free(dial->method);
    *dial = (struct tls_dial){.socket = -1};
}
