/* What tick.h promises. */
#include "server/tick.h"

#include "base/assert.h"
#include "engine/engine.h"
#include "server/schedule.h"
#include "server/slots.h"
#include "server/write.h"

/* If there is no free slot or the tick is refused, the queue of waiting clients tries again,
 * because the client that needs the tick is being served now. */
static void tick_submit(struct ticks *ticks) {
    static const struct tn_bytes word = {.at = (const uint8_t *)"TICK", .len = 4};
    struct server_client *client = &ticks->client;
    struct server_request request;
    TN_ASSERT(client->inflight == 0); /* one tick at a time */
    client->begun_ns = uv_hrtime();
    server_request_begin(&request, client, &access_system, &protocol_table[PROTOCOL_TICK], &word,
                         1);
    if (server_write(&request) == SERVER_DONE && client->first->done) {
        schedule_wait(client);
    }
}

static void tick_run(struct server_client *client) {
    struct ticks *ticks = (struct ticks *)client;
    struct server_slot *slot = server_slot_collect(client);
    if (slot == NULL) {
        if (client->inflight == 0 && !TAILQ_EMPTY(&ticks->waiting)) {
            tick_submit(ticks);
        }
        return;
    }
    bool full = slot->answer.code == TN_R_NOSPACE;
    server_slot_free(slot);
    schedule_run_queue(client->schedule, &ticks->waiting, full);
}

void ticks_wait(struct ticks *ticks, struct server_client *client) {
    if (client->tick_since_ms == 0) {
        client->tick_since_ms = engine_now(ticks->engine);
    }
    schedule_wait_in(&ticks->waiting, client);
    if (ticks->client.inflight == 0 && ticks->client.queue == NULL) {
        tick_submit(ticks);
    }
}

void ticks_init(struct ticks *ticks, struct server_owners *owners, struct engine *engine) {
    ticks->engine = engine;
    TAILQ_INIT(&ticks->waiting);
    server_client_init(&ticks->client, owners, tick_run);
    ticks->client.login.user = &access_system;
}
