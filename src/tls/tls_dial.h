/* The client side of TLS on a non-blocking socket, by OpenSSL: versions 1.2 and newer. The clients of
 * this room decide how to verify the server, drive the handshake and report errors in their own words.
 *
 * Sending never raises SIGPIPE, and no key file makes OpenSSL ask for a passphrase at the terminal. */
#ifndef TN_TLS_TLS_DIAL_H
#define TN_TLS_TLS_DIAL_H

#include <openssl/ssl.h>
#include <stdbool.h>

struct tls_files {
    const char *ca;          /* PEM; NULL: the system's authorities */
    const char *certificate; /* of this client, PEM with its chain; NULL: none */
    const char *key;         /* of that certificate, PEM; NULL: none */
};

struct tls_dial {
    SSL_CTX *context;
    SSL *ssl;
    BIO_METHOD *method;
    int socket; /* the caller's; -1: the files are only tried */
};

/* Loads the files and prepares a session that waits for the handshake. Returns NULL, or the name of the
 * file or step that failed; OpenSSL's error queue has the reason, unless *ret_encrypted says that the
 * key needs a passphrase. After either, call tls_dial_close. */
const char *tls_dial_open(struct tls_dial *dial, const struct tls_files *files, int socket,
                          bool *ret_encrypted);
/* Makes the handshake verify that the server's certificate is for this host name or IP address. */
bool tls_dial_expect(struct tls_dial *dial, const char *host);
void tls_dial_close(struct tls_dial *dial);

/* An error of OpenSSL's queue, or of the operating system in it, in words. */
const char *tls_error_text(unsigned long code);

/* OpenSSL's callback for passphrases: refuses. If `ctx` is not NULL, it points to a bool, which becomes
 * true: a file needs a passphrase. */
int tls_no_passphrase(char *out, int max, int writing, void *ctx);

#endif
