/* The files of TLS, as the settings name them. */
#ifndef TN_SERVER_TLS_FILES_H
#define TN_SERVER_TLS_FILES_H

#include <stdbool.h>

#define SERVER_TLS_REASON_MAX 256u

/* Whether clients need certificates. */
enum server_tls_clients {
    SERVER_TLS_CLIENTS_NO,
    SERVER_TLS_CLIENTS_OPTIONAL,
    SERVER_TLS_CLIENTS_REQUIRED
};

/* Files in PEM. */
struct server_tls_files {
    const char *certificate; /* with its chain */
    const char *key;         /* without a passphrase */
    const char *ca;          /* the authorities of client certificates; empty or NULL: none */
    enum server_tls_clients clients;
};

/* Whether the files can be used. False: `reason` says why. */
bool server_tls_check(const struct server_tls_files *files, char reason[SERVER_TLS_REASON_MAX]);

#endif
