/* The way back: from the engine's thread to the client that asked.
 *
 *     engine's thread                              loop's thread
 *     server_answer_done: the slot is put into
 *     the ring; the last of several wakes the loop
 *                             -- uv_async_send --> server_answers_run: each client with a completed
 *                                                  slot at the head of its queue runs, and writes its
 *                                                  replies in the order of its requests */
#ifndef TN_SERVER_ANSWER_H
#define TN_SERVER_ANSWER_H

#include <uv.h>

#include "server/slots.h"

struct server_answers {
    uv_async_t completed;
    bool running; /* answers are being handed out */
    bool halted;  /* one of them says that the engine has halted */
    /* An engine's thread is about to wake the loop, so the loop's handle must stay open. */
    _Atomic bool waking;
};

void server_answers_init(struct server_answers *answers, uv_loop_t *loop,
                         struct server_owners *owners);
/* On the loop, in the middle of a turn: hands out the answers that are there; their clients run. A turn can
 * be long, and a client with an answer has more to ask. */
void server_answers_look(struct server_owners *owners);
/* On an engine's thread: wakes the loop to collect the answers. */
void server_answers_wake(struct server_answers *answers);
/* Waits until the engine's thread that is waking the loop has finished. */
void server_answers_stop(struct server_answers *answers);

/* The engine calls this when a write has been committed or refused: on one of its threads, or
 * inside a call that commits. */
void server_answer_done(struct engine_request *request, struct tn_bytes command);
/* The answer of a job has been written: runs the client. */
void server_answer_job(struct server_owners *owners, struct server_slot *slot,
                       const struct protocol_writer *w);

#endif
