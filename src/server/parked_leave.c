/* How clients leave the line; parked.h says when.
 *
 *     parked_leave_begin --> waits for its turn --> UNATTEND in flight --> done
 *                                                          |
 *                                                          '--> REVOKE in flight --> done
 *
 * The commands have requests of their own: the slot of a client that has gone is free at once, and the
 * slot of a client that has only ended its input stays parked. A bounded number is in flight, so
 * thousands of clients that go at once neither fill the engine's batches nor stall the loop. */
#include "server/parked.h"

#include <stdlib.h>

#include "base/assert.h"
#include "engine/engine.h"
#include "server/answer.h"
#include "server/owners.h"
#include "server/slots.h"

bool parked_leaves_init(struct parked_leaves *leaves) {
    leaves->of = malloc(SERVER_SLOTS_PARKED * sizeof *leaves->of);
    leaves->calls = calloc(PARKED_CALLS, sizeof *leaves->calls);
    for (uint32_t i = 0; leaves->calls != NULL && i < PARKED_CALLS; i++) {
        leaves->calls[i].next = leaves->calls_free;
        leaves->calls_free = &leaves->calls[i];
    }
    return leaves->of != NULL && leaves->calls != NULL;
}

void parked_leaves_free(struct parked_leaves *leaves) {
    free(leaves->of);
    free(leaves->calls);
}

/* ---- A leave ---- */

void parked_leave_begin(struct server_parked *parked, struct server_slot *slot) {
    struct parked_leaves *leaves = &parked->leaves;
    struct parked_leave *leave = leaves->free;
    TN_ASSERT(slot->has_place);
    slot->has_place = false;
    if (leave != NULL) {
        leaves->free = leave->next;
    } else {
        TN_ASSERT(leaves->touched < SERVER_SLOTS_PARKED); /* each leave has taken a place before */
        leave = &leaves->of[leaves->touched++];
    }
    *leave = (struct parked_leave){
        .lease = slot->request.result.lease, .after = parked->sent, .has_op = slot->has_op};
    if (leaves->last != NULL) {
        leaves->last->next = leave;
    } else {
        leaves->first = leave;
    }
    leaves->last = leave;
}

static struct parked_leave *leave_pop(struct parked_leaves *leaves) {
    struct parked_leave *leave = leaves->first;
    leaves->first = leave->next;
    if (leaves->first == NULL) {
        leaves->last = NULL;
    }
    return leave;
}

static void leave_push(struct parked_leaves *leaves, struct parked_leave *leave) {
    leave->next = leaves->first;
    leaves->first = leave;
    if (leaves->last == NULL) {
        leaves->last = leave;
    }
}

static void leave_end(struct server_parked *parked, struct parked_leave *leave) {
    leave->next = parked->leaves.free;
    parked->leaves.free = leave;
    parked_place_give(parked);
}

/* Refuses clients that have ended their input and sent an operation id. The lease keeps its place
 * for them. */
static void ended_refuse(struct server_parked *parked, uint64_t lsn) {
    struct server_slot *slot;
    while ((slot = parked_slot_of(parked, lsn, true)) != NULL) {
        parked_refuse(parked, slot, TN_R_LOST,
                      "the client closed its side of the connection while the lease waits; repeat "
                      "the operation");
    }
}

/* ---- Its command ---- */

/* On an engine's thread. The loop must not see the call before it is woken, since the server may
 * end after this call. */
static void call_done(struct engine_request *request, struct tn_bytes command) {
    struct parked_call *call = (struct parked_call *)request;
    struct server_owners *owners = request->ctx;
    bool last = !request->more;
    (void)command;
    pthread_mutex_lock(&owners->parked->lock);
    call->next = owners->parked->leaves.done;
    owners->parked->leaves.done = call;
    if (last) {
        server_answers_wake(owners->answers);
    }
    pthread_mutex_unlock(&owners->parked->lock);
}

static enum tn_result call_submit(struct server_parked *parked, struct parked_leave *leave) {
    struct parked_leaves *leaves = &parked->leaves;
    struct parked_call *call = leaves->calls_free;
    struct kernel_command command = {.verb = KERNEL_VERB_UNATTEND,
                                     .rights = KERNEL_RIGHT_OPERATOR,
                                     .fields = KERNEL_F_LEASE,
                                     .lease = leave->lease};
    if (leave->revokes) {
        command.verb = KERNEL_VERB_REVOKE;
        command.fields |= KERNEL_F_EPOCH | KERNEL_F_AFTER;
        command.epoch = 1;
    }
    leaves->calls_free = call->next;
    call->leave = leave;
    call->request = (struct engine_request){.done = call_done, .ctx = parked->owners};
    leaves->in_flight++;
    enum tn_result code = engine_submit_later(parked->engine, &call->request, &command);
    if (code != TN_R_OK) {
        leaves->in_flight--;
        call->next = leaves->calls_free;
        leaves->calls_free = call;
    }
    return code;
}

/* The engine may take the command later: there is no room, or the ownership has not been renewed in time and
 * may still be. */
static bool may_be_taken_later(const struct server_parked *parked, enum tn_result code) {
    struct engine_standing standing = {.lapsed = false};
    if (code == TN_R_MASTERDOWN) {
        engine_standing_read(parked->engine, &standing);
    }
    return code == TN_R_OVERLOADED || code == TN_R_NOSPACE || standing.lapsed;
}

static void submit_first(struct server_parked *parked) {
    struct parked_leaves *leaves = &parked->leaves;
    struct parked_leave *leave = leave_pop(leaves);
    uint64_t lsn = leave->lease.lsn;
    if (!leave->revokes && parked_slot_of(parked, lsn, false) != NULL) {
        leave_end(parked, leave); /* another client that sent the same operation is waiting */
        ended_refuse(parked, lsn);
        return;
    }
    enum tn_result code = call_submit(parked, leave);
    if (may_be_taken_later(parked, code)) {
        leaves->paused = true;
        leave_push(leaves, leave);
    } else if (code != TN_R_OK) {
        leave_end(parked, leave); /* the next owner of the log does it */
    }
}

void parked_leaves_submit(struct server_parked *parked) {
    struct parked_leaves *leaves = &parked->leaves;
    bool submitted = false;
    while (leaves->first != NULL && !leaves->paused && leaves->calls_free != NULL &&
           leaves->first->after <= parked->answered) {
        submit_first(parked);
        submitted = true;
    }
    if (submitted) {
        engine_submit_now(parked->engine);
    }
}

static void call_collect(struct server_parked *parked, struct parked_leave *leave,
                         enum tn_result code) {
    struct parked_leaves *leaves = &parked->leaves;
    uint64_t lsn = leave->lease.lsn;
    if (may_be_taken_later(parked, code)) {
        leaves->paused = true;
        leave_push(leaves, leave);
    } else if (!leave->revokes && code == TN_R_STATE && !leave->has_op) {
        leave->revokes = true; /* the lease was granted to a client that has left */
        leave_push(leaves, leave);
    } else {
        bool waits = !leave->revokes && leave->has_op && code <= TN_R_NOOP;
        leave_end(parked, leave);
        if (waits) {
            ended_refuse(parked, lsn);
        }
    }
}

void parked_leaves_collect(struct server_parked *parked) {
    struct parked_leaves *leaves = &parked->leaves;
    pthread_mutex_lock(&parked->lock);
    struct parked_call *call = leaves->done;
    leaves->done = NULL;
    pthread_mutex_unlock(&parked->lock);
    while (call != NULL) {
        struct parked_call *next = call->next;
        call->next = leaves->calls_free;
        leaves->calls_free = call;
        leaves->in_flight--;
        call_collect(parked, call->leave, call->request.result.code);
        call = next;
    }
}
