/* TLS over the life of the server: start, reload, the date at which the certificate expires. */
#ifndef TN_SERVER_TLS_WATCH_H
#define TN_SERVER_TLS_WATCH_H

#include <stdbool.h>

struct server;

/* Reads the files. False: the reason has been logged. */
bool server_tls_start(struct server *server);
/* After a reload of the settings: reads the files again, if TLS is on. */
void server_tls_reload(struct server *server);
/* After that: clients that would not get in again are disconnected, in the next turns of the loop. */
void server_tls_judge(struct server *server);
/* Every second: warns if the certificate expires soon. */
void server_tls_second(struct server *server);

#endif
