/* What client.h promises. */
#include "server/client.h"

#include "server/internal.h"

void server_client_init(struct server_client *client, struct server *server,
                        void (*run)(struct server_client *client)) {
    *client = (struct server_client){.server = server, .schedule = &server->schedule, .run = run};
}

bool server_client_is_stranger(const struct server_client *client) {
    return client->login.user == &access_stranger ||
           (client->server->access.on && client->login.user == NULL);
}

void server_client_leave(struct server_client *client) {
    struct server_slot *slot = client->first;
    schedule_leave(client);
    server_page_end(client);
    server_login_leave(client);
    client->first = client->last = NULL;
    client->inflight = 0;
    while (slot != NULL) {
        struct server_slot *next = slot->next;
        slot->client = NULL;
        if (slot->done) {
            server_slot_free(slot);
        }
        slot = next;
    }
}
