/* What client.h promises. */
#include "server/client.h"

#include "server/parts.h"

void server_client_init(struct server_client *client, struct server *server,
                        void (*run)(struct server_client *client)) {
    *client = (struct server_client){
        .server = server, .schedule = &server->schedule, .writes = &server->writes, .run = run};
}

bool server_client_is_stranger(const struct server_client *client) {
    return client->login.user == &access_stranger ||
           (client->server->access.on && client->login.user == NULL);
}

void server_client_leave(struct server_client *client) {
    schedule_leave(client);
    server_page_end(&client->server->pages, client);
    server_login_leave(&client->server->logins, client);
    server_slots_leave(client);
}
