/* What answer.h promises. */
#include "server/answer.h"

#include <sched.h>

#include "base/assert.h"
#include "engine/engine.h"
#include "server/count.h"
#include "server/handler.h"
#include "server/http_listen.h"
#include "server/owners.h"
#include "server/parked.h"
#include "server/refusal.h"
#include "server/schedule.h"
#include "server/slots.h"
#include "server/stop.h"
#include "server/users.h"

/* ---- On the engine's thread ---- */

void server_answer_done(struct engine_request *request, struct tn_bytes command) {
    struct server_slot *slot = (struct server_slot *)request;
    struct server_owners *owners = request->ctx;
    bool last = !request->more;
    server_slot_keep(slot, &request->result);
    if (request->result.code > TN_R_NOOP) {
        server_refusals_note(owners->refusals, command, request->result.code);
    }
    if (last) {
        atomic_store(&owners->answers->waking,
                     true); /* set before the loop can see the last slot */
    }
    server_slots_put(owners->slots, slot, last);
    if (last) {
        (void)uv_async_send(&owners->answers->completed);
        atomic_store(&owners->answers->waking, false);
    }
}

/* ---- On the loop ---- */

static void count(struct server_owners *owners, const struct server_slot *slot, uint64_t now_ns) {
    struct server_counters *counters = owners->counters;
    server_histogram_add(&counters->latency[slot->row->id], now_ns - slot->begun_ns, 1);
    server_committed *committed = server_handlers[slot->row->id].committed;
    if (committed != NULL && slot->answer.code == TN_R_OK) {
        committed(owners, slot);
    }
    server_count_refusal(counters, slot->row->id, slot->answer.code);
}

/* The clients whose answers have arrived, each once, in the order of their first completed
 * slots. */
struct ready {
    struct server_client *first, **end;
};

static void ready_add(struct ready *ready, struct server_client *client) {
    if (!client->ready) {
        client->ready = true;
        client->next_ready = NULL;
        *ready->end = client;
        ready->end = &client->next_ready;
    }
}

static void ready_run(struct ready *ready) {
    while (ready->first != NULL) {
        struct server_client *client = ready->first;
        ready->first = client->next_ready;
        client->ready = false;
        client->run(client);
    }
}

static void answered(struct server_owners *owners, struct server_slot *slot, struct ready *ready,
                     uint64_t now_ns) {
    TN_ASSERT(!slot->done && !slot->parked);
    slot->answer.code = slot->request.result.code;
    slot->done = true;
    count(owners, slot, now_ns);
    if (slot->client == NULL) {
        server_slot_free(slot);
    } else {
        ready_add(ready, slot->client);
    }
}

static void answers_run(struct server_owners *owners) {
    struct ready ready = {.end = &ready.first};
    uint64_t now_ns = uv_hrtime();
    owners->answers->running = true;
    server_users_look(owners); /* before any client is told of a change */
    struct parked_answer *parked = server_parked_take(owners->parked);
    uint32_t tail = server_slots_tail(owners->slots);
    struct server_slot *slot;
    while ((slot = server_slots_next(owners->slots, tail)) != NULL) {
        owners->answers->halted |= slot->request.result.code == TN_R_HALTED;
        if (!slot->may_wait || !server_parked_add(owners->parked, slot)) {
            answered(owners, slot, &ready, now_ns);
        }
    }
    while ((slot = server_parked_next(owners->parked, &parked)) != NULL) {
        answered(owners, slot, &ready, now_ns);
    }
    ready_run(&ready);
    parked_leaves_collect(owners->parked);
    parked_leaves_submit(owners->parked);
    owners->answers->running = false;
}

/* The loop has been woken for them, too: on_completed follows, and ends the server if it must. */
void server_answers_look(struct server_owners *owners) {
    if (!owners->answers->running && server_slots_tail(owners->slots) != owners->slots->done_head) {
        answers_run(owners);
    }
}

static void on_completed(uv_async_t *async) {
    struct server_owners *owners = async->data;
    answers_run(owners);
    schedule_run_waiting(owners->schedule);
    server_http_wake(owners);
    if (owners->answers->halted) {
        server_stop(owners, 1);
    } else {
        server_stop_check(owners);
    }
}

void server_answer_job(struct server_owners *owners, struct server_slot *slot,
                       const struct protocol_writer *w) {
    struct server_client *client = slot->client;
    TN_ASSERT(!slot->done);
    slot->len = w->out.overflow ? 0 : (uint32_t)w->out.len;
    slot->done = true;
    count(owners, slot, uv_hrtime());
    if (client == NULL) {
        server_slot_free(slot);
    } else {
        client->run(client);
    }
    server_stop_check(owners);
}

void server_answers_init(struct server_answers *answers, uv_loop_t *loop,
                         struct server_owners *owners) {
    (void)uv_async_init(loop, &answers->completed, on_completed);
    answers->completed.data = owners;
}

void server_answers_wake(struct server_answers *answers) {
    atomic_store(&answers->waking, true);
    (void)uv_async_send(&answers->completed);
    atomic_store(&answers->waking, false);
}

void server_answers_stop(struct server_answers *answers) {
    while (atomic_load(&answers->waking)) {
        (void)sched_yield();
    }
}
