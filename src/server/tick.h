/* Ticks for reads. A read whose answer depends on a deadline that has passed waits until the log's time
 * is beyond it: the server commits a tick, and one tick serves all reads that wait. */
#ifndef TN_SERVER_TICK_H
#define TN_SERVER_TICK_H

#include "server/client.h"

struct ticks {
    /* Must be first; the server itself as the client that asks for ticks, one at a time. */
    struct server_client client;
    struct server_queue waiting;
    struct engine *engine;
};

void ticks_init(struct ticks *ticks, struct server_owners *owners, struct engine *engine);
/* Runs the client again after the next committed tick. */
void ticks_wait(struct ticks *ticks, struct server_client *client);

#endif
