/* TLS of the command line tool, by OpenSSL: 1.2 or newer. The server's certificate is verified against the
 * authorities and the host's name or address, unless the user says --insecure. */
#ifndef TN_CLI_TLS_CLIENT_H
#define TN_CLI_TLS_CLIENT_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

/* Part of the settings. Strings are the caller's. */
struct cli_tls_settings {
    bool on;
    bool insecure;           /* the server's certificate is not verified */
    const char *ca;          /* PEM; NULL: the system's authorities */
    const char *certificate; /* of this client; NULL: none */
    const char *key;         /* of that certificate; NULL: it is in the same file */
};

struct cli_tls;

enum cli_tls_step { CLI_TLS_DONE, CLI_TLS_READ, CLI_TLS_WRITE, CLI_TLS_FAILED };

/* On a connected, non-blocking socket, which stays the caller's. NULL: `error` says why. */
struct cli_tls *cli_tls_new(const struct cli_tls_settings *settings, const char *host, int socket,
                            char *error, size_t room);
void cli_tls_free(struct cli_tls *tls);
/* The handshake, until DONE. READ, WRITE: go on when the socket is ready for that. */
enum cli_tls_step cli_tls_handshake(struct cli_tls *tls, char *error, size_t room);
/* As send(2) and recv(2) on the socket. After -1 with EAGAIN, cli_tls_events says what to wait for
 * in addition. */
ssize_t cli_tls_send(struct cli_tls *tls, const void *bytes, size_t len);
ssize_t cli_tls_recv(struct cli_tls *tls, void *out, size_t len);
short cli_tls_events(const struct cli_tls *tls);

#endif
