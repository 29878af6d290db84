/* TLS over the life of the server: start, reload, the date at which the certificate expires. */
#ifndef TN_SERVER_TLS_WATCH_H
#define TN_SERVER_TLS_WATCH_H

#include <stdbool.h>

struct server_owners;

/* Reads the files. False: the reason has been logged. */
bool server_tls_start(struct server_owners *owners);
/* After a reload of the settings: reads the files again, if TLS is on. */
void server_tls_reload(struct server_owners *owners);
/* Called after server_tls_reload: disconnects, in the next turns of the loop, the clients that the
 * new settings do not admit. */
void server_tls_judge(struct server_owners *owners);
/* Called every second: warns if the certificate expires soon. */
void server_tls_second(struct server_owners *owners);

#endif
