/* What client.h promises. */
#include "server/client.h"

#include "base/assert.h"
#include "server/parts.h"

void server_client_init(struct server_client *client, struct server *server,
                        void (*run)(struct server_client *client)) {
    *client = (struct server_client){.server = server,
                                     .owners = &server->owners,
                                     .schedule = &server->schedule,
                                     .writes = &server->writes,
                                     .run = run};
}

bool server_client_sees(const struct server_client *client, struct kernel_lease_id id,
                        uint64_t epoch, struct engine_lease *ret_lease) {
    struct server *server = client->server;
    const struct access_user *user = access_user_of(&server->access, &client->login);
    return user->role != PROTOCOL_NOBODY && /* the user has been removed meanwhile */
           engine_lease_read(server->engine, ENGINE_READ_STALE, id, ret_lease) == TN_R_OK &&
           ret_lease->view.epoch == epoch && access_sees_lease(user, server->engine, ret_lease);
}

bool server_client_is_stranger(const struct server_client *client) {
    return client->login.user == &access_stranger ||
           (client->server->access.on && client->login.user == NULL);
}

void server_client_leave(struct server_client *client) {
    schedule_leave(client);
    server_page_end(&client->server->pages, client);
    server_scan_end(client);
    server_login_leave(&client->server->logins, client);
    server_parked_leave(&client->server->parked, client);
    server_slots_leave(client);
    TN_ASSERT(client->queue == NULL && client->first == NULL && client->inflight == 0);
}
