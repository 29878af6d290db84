/* Tenure's side: the server as a process, with its defaults but for room for more than a million leases. */
#include "peer.h"

#include <stdlib.h>

#include "process.h"
#include "script_tenure.h"

static struct process server;

void peer_tenure_start(void) {
    (void)setenv("TENURE_LEASES_MAX", "2097152", 1);
    (void)setenv("TENURE_MEMBERS_MAX", "2097152", 1);
    server = process_tenure("tenure");
    tenure_pool_make(server.port, "sticky", 65536, "STICKY yes");
}

void peer_tenure_stop(void) {
    process_stop(&server);
}

void peer_tenure_fill(enum peer_pool pool) {
    const struct work_pool *p = &peer_pools[pool];
    tenure_pool_make(server.port, p->name, p->values, "");
    tenure_pool_fill(server.port, p->name, work_pool_held_count(p));
}

struct side peer_tenure_open(const struct peer_case *c, uint64_t *grants) {
    static struct tenure_job job; /* one session at a time */
    static struct load_script script;
    job = (struct tenure_job){.work = c->work,
                              .pool = c->work == WORK_STICKY   ? "sticky"
                                      : c->work == WORK_BUNDLE ? "part"
                                                               : peer_pools[c->pool].name};
    job.grants = grants;
    script = tenure_script(&job);
    struct side side = side_of(load_open(server.port, c->clients, c->depth, &script));
    side.grants = grants;
    return side;
}
