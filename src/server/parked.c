/* What parked.h promises. */
#include "server/parked.h"

#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "server/answer.h"
#include "server/parts.h"

struct parked_answer {
    struct parked_answer *next;
    struct kernel_result result;
    struct kernel_value values[];
};

bool server_parked_init(struct server_parked *parked, struct server *server,
                        struct engine *engine) {
    parked->server = server;
    parked->engine = engine;
    return pthread_mutex_init(&parked->lock, NULL) == 0;
}

static void answers_free(struct parked_answer *answer) {
    while (answer != NULL) {
        struct parked_answer *next = answer->next;
        free(answer);
        answer = next;
    }
}

void server_parked_free(struct server_parked *parked) {
    answers_free(parked->first);
    pthread_mutex_destroy(&parked->lock);
}

/* ---- On the engine's threads ---- */

void server_parked_answer(void *ctx, const struct kernel_result *result) {
    struct server *server = ctx;
    struct server_parked *parked = &server->parked;
    uint32_t count = result->value_count;
    struct parked_answer *answer = malloc(sizeof *answer + count * sizeof *answer->values);
    if (answer == NULL) {
        return; /* the client waits until it gives up, and may ask by its operation id */
    }
    answer->next = NULL;
    answer->result = *result;
    if (count > 0) {
        memcpy(answer->values, result->values, count * sizeof *answer->values);
    }
    pthread_mutex_lock(&parked->lock);
    if (parked->last != NULL) {
        parked->last->next = answer;
    } else {
        parked->first = answer;
    }
    parked->last = answer;
    pthread_mutex_unlock(&parked->lock);
    server_answers_wake(&server->answers);
}

/* ---- On the loop ---- */

struct parked_answer *server_parked_take(struct server_parked *parked) {
    pthread_mutex_lock(&parked->lock);
    struct parked_answer *first = parked->first;
    parked->first = parked->last = NULL;
    pthread_mutex_unlock(&parked->lock);
    return first;
}

static struct server_slot **bucket_of(struct server_parked *parked, uint64_t lsn) {
    return &parked->of[lsn % PARKED_BUCKETS];
}

static struct server_slot *slot_of(struct server_parked *parked, uint64_t lsn) {
    struct server_slot *slot = *bucket_of(parked, lsn);
    while (slot != NULL && slot->request.result.lease.lsn != lsn) {
        slot = slot->next_parked;
    }
    return slot;
}

static void unpark(struct server_parked *parked, struct server_slot *slot) {
    struct server_slot **link = bucket_of(parked, slot->request.result.lease.lsn);
    while (*link != slot) {
        link = &(*link)->next_parked;
    }
    *link = slot->next_parked;
    TN_ASSERT(slot->parked && slot->slots->waiting > 0 && parked->count > 0);
    slot->next_parked = NULL;
    slot->parked = false;
    slot->slots->waiting--;
    parked->count--;
}

/* ---- Leaving ---- */

static void leave_later(struct server_parked *parked, struct server_slot *slot) {
    slot->next_parked = parked->leaving;
    parked->leaving = slot;
}

/* Submits one more command with the slot's request. The lease stays in the request's result. */
static void leave_submit(struct server_parked *parked, struct server_slot *slot) {
    struct kernel_command command = {
        .rights = KERNEL_RIGHT_OPERATOR, .fields = KERNEL_F_LEASE, .lease = slot->leaving_lease};
    command.verb = KERNEL_VERB_UNATTEND;
    if (slot->leaving == SLOT_REVOKES) { /* what was granted to a client that is gone */
        command.verb = KERNEL_VERB_REVOKE;
        command.fields |= KERNEL_F_EPOCH | KERNEL_F_AFTER;
        command.epoch = 1;
    }
    enum tn_result code = engine_submit(parked->engine, &slot->request, &command);
    if (code == TN_R_OVERLOADED || code == TN_R_NOSPACE) {
        leave_later(parked, slot);
    } else if (code != TN_R_OK) {
        server_slot_free(slot); /* the next to lead the log does it */
    }
}

static void leave(struct server_parked *parked, struct server_slot *slot) {
    TN_ASSERT(slot->client == NULL && slot->leaving == SLOT_STAYS);
    slot->leaving = SLOT_UNATTENDS;
    slot->leaving_lease = slot->request.result.lease;
    leave_submit(parked, slot);
}

void server_parked_add(struct server_parked *parked, struct server_slot *slot) {
    if (slot->client == NULL) {
        if (slot_of(parked, slot->request.result.lease.lsn) == NULL) {
            leave(parked, slot);
        } else {
            server_slot_free(slot); /* another client, which sent the same operation, is there */
        }
        return;
    }
    struct server_slot **bucket = bucket_of(parked, slot->request.result.lease.lsn);
    slot->next_parked = *bucket;
    *bucket = slot;
    slot->parked = true;
    slot->slots->waiting++;
    parked->count++;
}

/* A lease with a second client, which repeated the operation, stays attended. */
void server_parked_leave(struct server_parked *parked, struct server_client *client) {
    struct server_slot *slot = parked->count > 0 ? client->first : NULL;
    for (struct server_slot *before = NULL; slot != NULL;) {
        struct server_slot *next = slot->next;
        if (slot->parked) {
            unpark(parked, slot);
            if (before == NULL) {
                client->first = next;
            } else {
                before->next = next;
            }
            client->last = client->last == slot ? before : client->last;
            client->inflight--;
            slot->client = NULL;
            if (slot_of(parked, slot->request.result.lease.lsn) == NULL) {
                leave(parked, slot);
            } else {
                server_slot_free(slot);
            }
        } else {
            before = slot;
        }
        slot = next;
    }
}

bool server_parked_left(struct server_parked *parked, struct server_slot *slot) {
    bool granted = slot->leaving == SLOT_UNATTENDS && slot->request.result.code == TN_R_STATE;
    if (!granted || slot->has_op) {
        return true;
    }
    slot->leaving = SLOT_REVOKES;
    leave_submit(parked, slot);
    return false;
}

/* ---- Answers ---- */

static void answer_put(struct server_slot *slot, struct kernel_result *result) {
    slot->request.result = *result;
    server_slot_keep(slot, result);
}

struct server_slot *server_parked_next(struct server_parked *parked,
                                       struct parked_answer **answers) {
    while (*answers != NULL) {
        struct parked_answer *answer = *answers;
        struct server_slot *slot = slot_of(parked, answer->result.lease.lsn);
        if (slot != NULL) {
            unpark(parked, slot);
            answer->result.values = answer->values;
            answer_put(slot, &answer->result);
            return slot;
        }
        *answers = answer->next;
        free(answer);
    }
    return NULL;
}

static void refuse_all(struct server_parked *parked, enum tn_result code, const char *why) {
    for (uint32_t i = 0; i < PARKED_BUCKETS && parked->count > 0; i++) {
        while (parked->of[i] != NULL) {
            struct server_slot *slot = parked->of[i];
            struct server_client *client = slot->client;
            unpark(parked, slot);
            server_slot_refuse(slot, code, why);
            client->run(client);
        }
    }
}

void server_parked_check(struct server_parked *parked) {
    struct server_slot *slot = parked->leaving;
    parked->leaving = NULL;
    while (slot != NULL) {
        struct server_slot *next = slot->next_parked;
        leave_submit(parked, slot);
        slot = next;
    }
    if (parked->count == 0) {
        return;
    }
    struct engine_standing standing;
    engine_standing_read(parked->engine, &standing);
    if (parked->server->stop.draining) {
        refuse_all(parked, TN_R_LOST,
                   "the server stops while the lease waits; repeat the operation");
    } else if (standing.role != ENGINE_LEADING) {
        refuse_all(parked, TN_R_LOST, "another node may own the log now; repeat the request");
    }
}
