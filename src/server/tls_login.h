/* Users by client certificates. */
#ifndef TN_SERVER_TLS_LOGIN_H
#define TN_SERVER_TLS_LOGIN_H

#include "server/access.h"
#include "server/transport_tls.h"

/* The user whose name is the first name in the client's verified certificate that is a user's; the
 * login's user is NULL if there is none: the client is nameless. */
struct access_login server_tls_login(const struct transport *transport,
                                     const struct access *access);

#endif
