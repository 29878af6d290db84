/* What client.h promises. */
#include "server/client.h"

#include "base/assert.h"
#include "server/access.h"
#include "server/login.h"
#include "server/owners.h"
#include "server/parked.h"
#include "server/reads.h"
#include "server/schedule.h"
#include "server/slots.h"

void server_client_init(struct server_client *client, struct server_owners *owners,
                        void (*run)(struct server_client *client)) {
    *client = (struct server_client){
        .owners = owners, .schedule = owners->schedule, .writes = owners->writes, .run = run};
}

bool server_client_sees(const struct server_client *client, struct kernel_lease_id id,
                        uint64_t epoch, struct engine_lease *ret_lease) {
    struct server_owners *owners = client->owners;
    const struct access_user *user = access_user_of(owners->access, &client->login);
    return user->role != PROTOCOL_NOBODY && /* the user has been removed meanwhile */
           engine_lease_read(owners->engine, ENGINE_READ_STALE, id, ret_lease) == TN_R_OK &&
           ret_lease->view.epoch == epoch && access_sees_lease(user, owners->engine, ret_lease);
}

bool server_client_is_stranger(const struct server_client *client) {
    return client->login.user == &access_stranger ||
           (client->owners->access->on && client->login.user == NULL);
}

void server_client_leave(struct server_client *client) {
    schedule_leave(client);
    server_page_end(client->owners->pages, client);
    server_scan_end(client);
    server_login_leave(client->owners->logins, client);
    server_parked_leave(client->owners->parked, client);
    server_slots_leave(client);
    TN_ASSERT(client->queue == NULL && client->first == NULL && client->inflight == 0);
}
