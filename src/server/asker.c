/* Those who ask, as the pipeline sees them: waiting for something that is not their own (a log
 * position, a free slot), and leaving. */
#include "server/internal.h"

static void waiting_retry(uv_timer_t *timer) {
    server_waiting_run(timer->data);
}

void server_asker_wait(struct server_asker *asker) {
    struct server *server = asker->server;
    if (asker->waiting) {
        return;
    }
    asker->waiting = true;
    asker->next_waiting = server->waiting;
    server->waiting = asker;
    if (uv_is_active((const uv_handle_t *)&server->retry) == 0) {
        server->retry.data = server;
        (void)uv_timer_start(&server->retry, waiting_retry, SERVER_RETRY_MS, SERVER_RETRY_MS);
    }
}

void server_waiting_run(struct server *server) {
    struct server_asker *list = server->waiting;
    server->waiting = NULL;
    while (list != NULL) {
        struct server_asker *asker = list;
        list = asker->next_waiting;
        asker->waiting = false;
        asker->run(asker);
    }
    if (server->waiting == NULL) {
        (void)uv_timer_stop(&server->retry);
    }
}

static void wait_end(struct server_asker *asker) {
    struct server_asker **at = &asker->server->waiting;
    while (asker->waiting && *at != NULL) {
        if (*at == asker) {
            *at = asker->next_waiting;
            break;
        }
        at = &(*at)->next_waiting;
    }
    asker->waiting = false;
}

void server_asker_leave(struct server_asker *asker) {
    struct server_slot *slot = asker->first;
    wait_end(asker);
    asker->first = asker->last = NULL;
    asker->inflight = 0;
    while (slot != NULL) {
        struct server_slot *next = slot->next;
        slot->asker = NULL;
        if (slot->done) {
            server_slot_free(slot);
        }
        slot = next;
    }
}
