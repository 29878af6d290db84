/* Users by client certificates. */
#ifndef TN_SERVER_TLS_LOGIN_H
#define TN_SERVER_TLS_LOGIN_H

#include "server/access.h"
#include "server/transport_tls.h"

/* The user whose name is the first name in the client's verified certificate that is a user's; the
 * login's user is NULL if there is none: the client is nameless. */
struct access_login server_tls_login(const struct transport *transport,
                                     const struct access *access);

/* Whether the client would get in again now, as the user that it arrived as: its certificate, or that it
 * has none, is judged by the settings and authorities of new connections. True without TLS. */
bool server_tls_admits(const struct server_tls *tls, const struct transport *transport,
                       const struct access *access, const struct access_login *arrived);
/* The same when the handshake ends: the settings may have changed since it began. */
bool server_tls_admits_new(const struct server_tls *tls, const struct transport *transport,
                           const struct access *access, const struct access_login *arrived);

#endif
