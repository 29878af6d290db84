/* Parked requests: clients whose leases wait in line.
 *
 * An ALLOC or RESERVE with WAIT is answered by the engine twice: at once with WAITING, and when its
 * lease has been granted or has ended. In between its slot is parked here, under the lease, and stays
 * in its client's queue. The client sends nothing else meanwhile: its later requests wait, as behind
 * BLPOP.
 *
 * A client that goes away leaves the line (parked_leave.c), by the command UNATTEND:
 *   - A client that has closed its connection gets no answer. A grant that comes before UNATTEND is
 *     taken back by a revoke, unless the request has an operation id: then its client may come back and
 *     ask for the answer.
 *   - A client that has only ended its input may still read, and the two look the same. So its slot
 *     stays parked and it gets an answer: a grant with an operation id as it is; else a refusal, and a
 *     grant is taken back as above.
 *   - While a client that has repeated the operation is parked, the lease stays attended. A repeat may
 *     be on its way to the engine when an earlier client leaves. So UNATTEND is not submitted before
 *     the engine has answered all requests with WAIT that were submitted until then.
 *
 * Places. A request with WAIT takes a place before it is submitted. It gives it back when its slot is
 * answered, or when the command by which it leaves is done. There are SERVER_SLOTS_PARKED places, so
 * other writes always find slots, however many clients wait or leave.
 *
 * Answers come on the engine's threads, in the order in which the engine made them; all else happens
 * on the loop. */
#ifndef TN_SERVER_PARKED_H
#define TN_SERVER_PARKED_H

#include <pthread.h>

#include "server/slots.h"

#define PARKED_BUCKETS 4096u
#define PARKED_CALLS 512u /* commands in flight by which clients leave */

struct parked_answer;

/* A lease whose client leaves. */
struct parked_leave {
    struct parked_leave *next;
    struct kernel_lease_id lease;
    uint64_t after; /* that many requests with WAIT must have been answered */
    bool has_op, revokes;
};

/* The command by which it leaves. */
struct parked_call {
    struct engine_request request;
    struct parked_call *next; /* free, or done */
    struct parked_leave *leave;
};

struct parked_leaves {
    struct parked_leave *of; /* a place each; those from `touched` on have never been used */
    uint32_t touched;
    struct parked_leave *free;
    struct parked_leave *first, *last; /* to be submitted, in order of `after` */
    struct parked_call *calls;
    struct parked_call *calls_free;
    uint32_t in_flight;
    bool paused;              /* the engine has no room: until the next server_parked_check */
    struct parked_call *done; /* under the lock: the loop has not seen them */
};

struct server_parked {
    struct engine *engine;
    struct server *server;
    struct server_slot *of[PARKED_BUCKETS]; /* by lease, linked by next_parked */
    uint32_t count;
    uint32_t places;         /* taken */
    uint32_t lead;           /* the last lead of the engine that was looked at */
    uint32_t refusing;       /* the next bucket to refuse; PARKED_BUCKETS: none is to be */
    uint64_t sent, answered; /* requests with WAIT, by the engine for the first time */
    struct parked_leaves leaves;
    pthread_mutex_t lock;
    struct parked_answer *first, *last; /* under the lock: answers that the loop has not seen */
};

bool server_parked_init(struct server_parked *parked, struct server *server, struct engine *engine);
void server_parked_free(struct server_parked *parked);

/* On an engine's thread: engine_waited_sink, ctx is the server. */
void server_parked_answer(void *ctx, const struct kernel_result *result);

/* ---- On the loop ---- */

/* A request with WAIT takes a place; false: there is none. Then it is submitted, or gives it back. */
bool server_parked_begin(struct server_parked *parked, struct server_slot *slot);
void server_parked_cancel(struct server_parked *parked, struct server_slot *slot);

/* First the answers that are there are taken, then the slots of the ring are looked at, then the
 * answers are given: so the slot of an answer is parked before. */
struct parked_answer *server_parked_take(struct server_parked *parked);
/* The engine has answered a slot that may wait. True: it waits, and is parked or leaves. */
bool server_parked_add(struct server_parked *parked, struct server_slot *slot);
/* The next slot that this answer, or a later one of the list, is for, with its result in place; NULL:
 * no more, and the list is freed. */
struct server_slot *server_parked_next(struct server_parked *parked,
                                       struct parked_answer **answers);
/* The client goes. Before its slots do. */
void server_parked_leave(struct server_parked *parked, struct server_client *client);
/* The client sends no more, and may still read. It is answered soon. */
void server_parked_end(struct server_parked *parked, struct server_client *client);
/* Once a second: submits again what the engine had no room for, and lets server_parked_step answer
 * whoever waits for an earlier lead of the engine, or everyone if it does not lead or the server stops. */
void server_parked_check(struct server_parked *parked);
/* Between the turns of the loop: submits what clients that went have left to do, and a bounded part of
 * the above. True: there is more to do. */
bool server_parked_step(struct server_parked *parked);

/* ---- parked_leave.c ---- */

bool parked_leaves_init(struct parked_leaves *leaves);
void parked_leaves_free(struct parked_leaves *leaves);
/* The lease of this slot, which was answered with WAITING, is left. The slot may be freed: its place
 * belongs to the leave from now on. */
void parked_leave_begin(struct server_parked *parked, struct server_slot *slot);
/* Submits what may be submitted. It may run clients, so it is never called while one is served or closed. */
void parked_leaves_submit(struct server_parked *parked);
/* Looks at the commands that are done. */
void parked_leaves_collect(struct server_parked *parked);

/* A parked slot of this lease whose client has, or has not, ended its input. NULL: there is none. */
struct server_slot *parked_slot_of(struct server_parked *parked, uint64_t lsn, bool ended);
/* A slot, or a command by which one has left, needs its place no more. */
void parked_place_give(struct server_parked *parked);
/* Answers a parked slot; its client runs. */
void parked_refuse(struct server_parked *parked, struct server_slot *slot, enum tn_result code,
                   const char *why);

#endif
