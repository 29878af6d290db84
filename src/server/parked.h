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
#define PARKED_CALLS 512u /* maximum commands in flight by which clients leave the line */

struct parked_answer;

/* A lease whose client leaves the line. */
struct parked_leave {
    struct parked_leave *next;
    struct kernel_lease_id lease;
    uint64_t after; /* submitted when this many requests with WAIT have been answered */
    bool has_op, revokes;
};

/* The command by which a client leaves. */
struct parked_call {
    struct engine_request request;
    struct parked_call *next; /* free, or done */
    struct parked_leave *leave;
};

struct parked_leaves {
    /* One for each place; entries from `touched` on have never been used. */
    struct parked_leave *of;
    uint32_t touched;
    struct parked_leave *free;
    struct parked_leave *first, *last; /* to be submitted, in order of `after` */
    struct parked_call *calls;
    struct parked_call *calls_free;
    uint32_t in_flight;
    bool paused; /* the engine has no room: stop submitting until the next server_parked_check */
    struct parked_call *done; /* under the lock: completed, but not seen by the loop */
};

struct server_parked {
    struct engine *engine;
    struct server_owners *owners;
    struct server_slot *of[PARKED_BUCKETS]; /* parked slots by lease, linked by next_parked */
    uint32_t count;
    uint32_t places;         /* taken */
    uint32_t lead;           /* the lead of the engine at the last check */
    uint32_t refusing;       /* the next bucket whose slots are refused; PARKED_BUCKETS: none */
    uint64_t sent, answered; /* requests with WAIT submitted, and answered once by the engine */
    struct parked_leaves leaves;
    pthread_mutex_t lock;
    struct parked_answer *first, *last; /* under the lock: answers that the loop has not seen */
};

bool server_parked_init(struct server_parked *parked, struct server_owners *owners,
                        struct engine *engine);
void server_parked_free(struct server_parked *parked);

/* The engine_waited_sink, called on an engine's thread. `ctx` is the server. */
void server_parked_answer(void *ctx, const struct kernel_result *result);

/* ---- On the loop ---- */

/* Takes a place for a request with WAIT. False: no place is free. The caller then submits the
 * request, or gives the place back with `cancel`. */
bool server_parked_begin(struct server_parked *parked, struct server_slot *slot);
void server_parked_cancel(struct server_parked *parked, struct server_slot *slot);

/* Answers are handled in this order: take the pending answers; look at the slots of the ring; give
 * the answers. So a slot is parked before its answer is given. */
struct parked_answer *server_parked_take(struct server_parked *parked);
/* The engine has answered a slot whose request has WAIT. True: the request waits, and its slot is
 * parked or leaves. */
bool server_parked_add(struct server_parked *parked, struct server_slot *slot);
/* The next slot that is meant by this answer or a later one of the list, with its result in place.
 * NULL: there are no more, and the list is freed. */
struct server_slot *server_parked_next(struct server_parked *parked,
                                       struct parked_answer **answers);
/* The client disconnects. Called before its slots are released. */
void server_parked_leave(struct server_parked *parked, struct server_client *client);
/* The client has ended its input, but may still read. It is answered soon. */
void server_parked_end(struct server_parked *parked, struct server_client *client);
/* Called once a second: submits again what the engine had no room for. Has server_parked_step
 * refuse the clients that wait for an earlier lead of the engine, or all of them if the engine does
 * not lead or the server stops. */
void server_parked_check(struct server_parked *parked);
/* Called between the turns of the loop: submits the commands of clients that left, and does a
 * bounded part of the above. True: there is more to do. */
bool server_parked_step(struct server_parked *parked);

/* ---- parked_leave.c ---- */

bool parked_leaves_init(struct parked_leaves *leaves);
void parked_leaves_free(struct parked_leaves *leaves);
/* The client of this slot, which was answered with WAITING, leaves. The slot may be freed: its
 * place belongs to the leave from now on. */
void parked_leave_begin(struct server_parked *parked, struct server_slot *slot);
/* Submits the commands that are due. This may run clients, so it must not be called while one is
 * being served or closed. */
void parked_leaves_submit(struct server_parked *parked);
/* Processes the commands that have completed. */
void parked_leaves_collect(struct server_parked *parked);

/* A parked slot of this lease whose client has (`ended`), or has not, ended its input. NULL: there
 * is none. */
struct server_slot *parked_slot_of(struct server_parked *parked, uint64_t lsn, bool ended);
/* Gives back the place of a slot, or of a command by which a client has left. */
void parked_place_give(struct server_parked *parked);
/* Refuses a parked slot and runs its client. */
void parked_refuse(struct server_parked *parked, struct server_slot *slot, enum tn_result code,
                   const char *why);

#endif
