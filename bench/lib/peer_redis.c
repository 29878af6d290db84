/* Redis, on the workloads that bench/server.c does not have; its scripts are in script_redis.c. */
#include "peer.h"

#include "process.h"
#include "script_redis.h"

static struct process server;

static bool start(void) {
    if (!process_redis("redis", true, &server)) {
        return false;
    }
    redis_prepare(server.port);
    return true;
}

static void stop(void) {
    process_stop(&server);
}

static void fill(enum peer_pool pool) {
    if (pool == PEER_PART) {
        redis_bundle_make(server.port, pool, peer_pools[pool].values);
    } else if (pool < PEER_PART) {
        redis_pool_make(server.port, pool, peer_pools[pool].values,
                        work_pool_held_count(&peer_pools[pool]));
    }
}

static struct side open_clients(const struct peer_case *c, uint64_t *grants) {
    static struct redis_job job; /* one session at a time */
    static struct load_script script;
    job = (struct redis_job){.work = c->work, .pool = c->pool};
    job.grants = grants;
    script = redis_script(&job);
    struct side side = side_of(load_open(server.port, c->clients, c->depth, &script));
    side.grants = grants;
    return side;
}

static const struct peer_case cases[] = {
    {"cycles at 99 %, 64 x 1", WORK_CYCLE, PEER_FULL, 64, 1, false},
    {"bundles, 64 x 1", WORK_BUNDLE, PEER_PART, 64, 1, false},
    {"bundles, 64 x 32", WORK_BUNDLE, PEER_PART, 64, 32, false},
    {"sticky returns, 64 x 1", WORK_STICKY, PEER_EMPTY, 64, 1, false},
    {"sticky returns, 64 x 32", WORK_STICKY, PEER_EMPTY, 64, 32, false},
    {"cycles among 10 thousand leases, 64 x 1", WORK_CYCLE, PEER_SMALL, 64, 1, false},
    {"cycles among 1 million leases, 64 x 1", WORK_CYCLE, PEER_LARGE, 64, 1, false},
    {"cycles among 1 million leases, 64 x 32", WORK_CYCLE, PEER_LARGE, 64, 32, false},
    {.name = NULL},
};

const struct peer peer_redis = {.name = "Redis",
                                .package = "redis-server",
                                .start = start,
                                .stop = stop,
                                .fill = fill,
                                .open = open_clients,
                                .cases = cases};
