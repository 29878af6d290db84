/* What parked.h promises. */
#include "server/parked.h"

#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "server/answer.h"
#include "server/owners.h"
#include "server/schedule.h"
#include "server/slots.h"
#include "server/stop.h"

#define REFUSED_MAX 256u /* clients refused in one step */

struct parked_answer {
    struct parked_answer *next;
    struct kernel_result result;
    struct kernel_value values[];
};

bool server_parked_init(struct server_parked *parked, struct server_owners *owners,
                        struct engine *engine) {
    parked->owners = owners;
    parked->engine = engine;
    parked->refusing = PARKED_BUCKETS;
    return pthread_mutex_init(&parked->lock, NULL) == 0 && parked_leaves_init(&parked->leaves);
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
    parked_leaves_free(&parked->leaves);
    pthread_mutex_destroy(&parked->lock);
}

/* ---- On the engine's threads ---- */

void server_parked_answer(void *ctx, const struct kernel_result *result) {
    struct server_parked *parked = ctx;
    uint32_t count = result->value_count;
    struct parked_answer *answer = malloc(sizeof *answer + count * sizeof *answer->values);
    if (answer == NULL) {
        return; /* the client waits until it times out, and may repeat its operation id */
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
    server_answers_wake(parked->owners->answers);
}

/* ---- Places ---- */

bool server_parked_begin(struct server_parked *parked, struct server_slot *slot) {
    if (parked->places == SERVER_SLOTS_PARKED) {
        return false;
    }
    parked->places++;
    parked->sent++;
    slot->has_place = slot->may_wait = true;
    return true;
}

void server_parked_cancel(struct server_parked *parked, struct server_slot *slot) {
    TN_ASSERT(slot->may_wait && slot->has_place);
    parked->sent--;
    slot->has_place = slot->may_wait = false;
    parked_place_give(parked);
}

void parked_place_give(struct server_parked *parked) {
    TN_ASSERT(parked->places > 0);
    parked->places--;
}

static void place_give(struct server_parked *parked, struct server_slot *slot) {
    if (slot->has_place) {
        slot->has_place = false;
        parked_place_give(parked);
    }
}

/* ---- Parking ---- */

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

static struct server_slot *any_slot_of(struct server_parked *parked, uint64_t lsn) {
    struct server_slot *slot = *bucket_of(parked, lsn);
    while (slot != NULL && slot->request.result.lease.lsn != lsn) {
        slot = slot->next_parked;
    }
    return slot;
}

struct server_slot *parked_slot_of(struct server_parked *parked, uint64_t lsn, bool ended) {
    struct server_slot *slot = *bucket_of(parked, lsn);
    while (slot != NULL &&
           (slot->request.result.lease.lsn != lsn || slot->client->ended != ended)) {
        slot = slot->next_parked;
    }
    return slot;
}

static void park(struct server_parked *parked, struct server_slot *slot) {
    struct server_slot **bucket = bucket_of(parked, slot->request.result.lease.lsn);
    slot->next_parked = *bucket;
    *bucket = slot;
    slot->parked = true;
    slot->slots->waiting++;
    parked->count++;
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

static const char lost_lead[] = "another node may own the log now; repeat the request";

/* Refuses the client's last request. Earlier slots of the client may be answered already. */
static void refuse_now(struct server_slot *slot, enum tn_result code, const char *why) {
    struct server_client *client = slot->client;
    server_slot_refuse(slot, code, why);
    client->run(client);
}

bool server_parked_add(struct server_parked *parked, struct server_slot *slot) {
    slot->may_wait = false;
    parked->answered++;
    if (slot->request.result.code != TN_R_WAITING) {
        place_give(parked, slot);
        return false;
    }
    if (slot->client == NULL) {
        parked_leave_begin(parked, slot);
        server_slot_free(slot);
    } else if (slot->request.lead < parked->lead) {
        place_give(parked, slot);
        refuse_now(slot, TN_R_LOST, lost_lead);
    } else {
        park(parked, slot);
        if (slot->client->ended) {
            parked_leave_begin(parked, slot);
        }
    }
    return true;
}

/* ---- Leaving ---- */

/* The client's last request, if it waits in line. No earlier request can. */
static struct server_slot *parked_last(const struct server_client *client) {
    return client->last != NULL && client->last->parked ? client->last : NULL;
}

static void queue_remove(struct server_client *client, struct server_slot *slot) {
    struct server_slot **link = &client->first, *before = NULL;
    while (*link != slot) {
        before = *link;
        link = &before->next;
    }
    *link = slot->next;
    client->last = client->last == slot ? before : client->last;
    client->inflight--;
}

void server_parked_leave(struct server_parked *parked, struct server_client *client) {
    struct server_slot *slot = parked_last(client);
    if (slot == NULL) {
        return;
    }
    unpark(parked, slot);
    queue_remove(client, slot);
    slot->client = NULL;
    if (slot->has_place) { /* otherwise the client had ended its input and is leaving already */
        parked_leave_begin(parked, slot);
        schedule_soon(parked->owners->schedule);
    }
    server_slot_free(slot);
}

void server_parked_end(struct server_parked *parked, struct server_client *client) {
    struct server_slot *slot = parked_last(client);
    if (client->ended) {
        return;
    }
    client->ended = true;
    if (slot != NULL) {
        parked_leave_begin(parked, slot);
        schedule_soon(parked->owners->schedule);
    }
}

/* ---- Answers ---- */

void parked_refuse(struct server_parked *parked, struct server_slot *slot, enum tn_result code,
                   const char *why) {
    unpark(parked, slot);
    place_give(parked, slot);
    refuse_now(slot, code, why);
}

static void answer_put(struct server_slot *slot, struct kernel_result *result) {
    slot->request.result = *result;
    server_slot_keep(slot, result);
}

struct server_slot *server_parked_next(struct server_parked *parked,
                                       struct parked_answer **answers) {
    while (*answers != NULL) {
        struct parked_answer *answer = *answers;
        struct server_slot *slot = any_slot_of(parked, answer->result.lease.lsn);
        if (slot == NULL) {
            *answers = answer->next;
            free(answer);
        } else if (slot->client->ended && !slot->has_op && answer->result.code == TN_R_OK) {
            /* The command by which the client leaves comes too late, and takes the lease back. */
            parked_refuse(parked, slot, TN_R_LOST,
                          "the client closed its side of the connection; the lease is revoked");
        } else {
            unpark(parked, slot);
            place_give(parked, slot);
            answer->result.values = answer->values;
            answer_put(slot, &answer->result);
            return slot;
        }
    }
    return NULL;
}

/* ---- The lead is over, or the server stops ---- */

/* A slot in this bucket that no answer can reach any more. */
static struct server_slot *stale_in(const struct server_parked *parked, uint32_t bucket,
                                    const struct engine_standing *standing) {
    bool all = parked->owners->stop->draining || standing->role != ENGINE_LEADING;
    struct server_slot *slot = parked->of[bucket];
    while (slot != NULL && !all && slot->request.lead == standing->lead) {
        slot = slot->next_parked;
    }
    return slot;
}

bool server_parked_step(struct server_parked *parked) {
    struct engine_standing standing;
    parked_leaves_submit(parked);
    if (parked->refusing == PARKED_BUCKETS) {
        return false;
    }
    engine_standing_read(parked->engine, &standing);
    for (uint32_t i = 0; i < REFUSED_MAX && parked->refusing < PARKED_BUCKETS;) {
        struct server_slot *slot = stale_in(parked, parked->refusing, &standing);
        if (parked->count == 0) {
            parked->refusing = PARKED_BUCKETS;
        } else if (slot == NULL) {
            parked->refusing++;
        } else {
            parked_refuse(parked, slot, TN_R_LOST,
                          parked->owners->stop->draining
                              ? "the server stops while the lease waits; repeat the operation"
                              : lost_lead);
            i++;
        }
    }
    return parked->refusing < PARKED_BUCKETS;
}

/* The engine may have lost the lead and taken it again between two checks, so leads are
 * numbered. */
void server_parked_check(struct server_parked *parked) {
    struct engine_standing standing;
    parked->leaves.paused = false;
    parked_leaves_submit(parked);
    engine_standing_read(parked->engine, &standing);
    bool over = parked->owners->stop->draining || standing.role != ENGINE_LEADING ||
                standing.lead != parked->lead;
    parked->lead = standing.lead;
    if (over && parked->count > 0) {
        parked->refusing = 0;
        schedule_soon(parked->owners->schedule);
    }
}
