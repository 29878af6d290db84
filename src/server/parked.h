/* Parked requests: clients whose leases wait in line.
 *
 * An ALLOC or RESERVE with WAIT is answered by the engine twice: at once with WAITING, and when its
 * lease has been granted or has ended. In between its slot is parked here, under the lease, and stays
 * in its client's queue. The client sends nothing else meanwhile: its later requests wait, as behind
 * BLPOP.
 *
 * A client that goes away leaves the line: its slot is used once more, for the command UNATTEND. A
 * grant that comes before it is taken back by a revoke, unless the request has an operation id: then
 * its client may come back and ask for the answer.
 *
 * Answers come on the engine's threads, in the order in which the engine made them; all else happens
 * on the loop. */
#ifndef TN_SERVER_PARKED_H
#define TN_SERVER_PARKED_H

#include <pthread.h>

#include "server/slots.h"

#define PARKED_BUCKETS 4096u

struct parked_answer;

struct server_parked {
    struct engine *engine;
    struct server *server;
    struct server_slot *of[PARKED_BUCKETS]; /* by lease, linked by next_parked */
    uint32_t count;
    struct server_slot *leaving; /* slots whose UNATTEND found no room in the engine */
    pthread_mutex_t lock;
    struct parked_answer *first, *last; /* under the lock: answers that the loop has not seen */
};

bool server_parked_init(struct server_parked *parked, struct server *server, struct engine *engine);
void server_parked_free(struct server_parked *parked);

/* On an engine's thread: engine_waited_sink, ctx is the server. */
void server_parked_answer(void *ctx, const struct kernel_result *result);

/* On the loop. First the answers that are there are taken, then the slots of the ring are looked at,
 * then the answers are given: so the slot of an answer is parked before. */
struct parked_answer *server_parked_take(struct server_parked *parked);
/* Parks a slot that was answered with WAITING, or lets it leave if its client is gone. */
void server_parked_add(struct server_parked *parked, struct server_slot *slot);
/* The next slot that this answer, or a later one of the list, is for, with its result in place; NULL:
 * no more, and the list is freed. */
struct server_slot *server_parked_next(struct server_parked *parked,
                                       struct parked_answer **answers);
/* The answer to a command by which a slot leaves: true, the slot is free. */
bool server_parked_left(struct server_parked *parked, struct server_slot *slot);
/* The client goes. Before its slots do. */
void server_parked_leave(struct server_parked *parked, struct server_client *client);
/* Every second: submits again the commands that found no room in the engine; refuses all parked requests
 * if the engine no longer leads or the server stops. */
void server_parked_check(struct server_parked *parked);

#endif
