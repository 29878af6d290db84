/* Users by client certificates. */
#ifndef TN_SERVER_TLS_LOGIN_H
#define TN_SERVER_TLS_LOGIN_H

#include "server/access.h"
#include "server/transport_tls.h"

/* The user named by the client's verified certificate: the first of its names that is a user's. The
 * login's user is NULL if no name is. */
struct access_login server_tls_login(const struct transport *transport,
                                     const struct access *access);

/* Whether the server would admit the client now, as the user that it logged in as. Its certificate,
 * or that it has none, is judged by the settings and authorities for new connections. True without
 * TLS. */
bool server_tls_admits(const struct server_tls *tls, const struct transport *transport,
                       const struct access *access, const struct access_login *arrived);
/* The same at the end of the handshake: the settings may have changed since its beginning. */
bool server_tls_admits_new(const struct server_tls *tls, const struct transport *transport,
                           const struct access *access, const struct access_login *arrived);

#endif
