/* Tenure against everybody: Redis, PostgreSQL, MariaDB and etcd as servers beside tenured, and SQLite in this
 * process beside libtenure. Each peer is one file, lib/peer_NAME.c, which says how it keeps leases.
 *
 * One peer runs at a time, with a fresh Tenure beside it. The two take turns (lib/turns.h) on the cases of
 * the peer; the case with a million leases is the last, when they have been loaded.
 *
 * --without PEER: leaves that peer out. --smoke: needs none of the servers; SQLite in this process, and
 * Tenure alone on the cases of Redis. */
#include "bench.h"

#include "lib/peer.h"
#include "lib/process.h"

/* ---- One peer ---- */

/* Tenure as what the peer is: a server or a library. */
struct ours {
    void (*start)(void);
    void (*stop)(void);
    void (*fill)(enum peer_pool pool);
    struct side (*open)(const struct peer_case *c, uint64_t *grants);
};
static const struct ours our_server = {peer_tenure_start, peer_tenure_stop, peer_tenure_fill,
                                       peer_tenure_open};
static const struct ours our_library = {peer_library_start, peer_library_stop, peer_library_fill,
                                        peer_library_open};

/* The number of answers that make one of the unit. */
static double unit_of(enum work work) {
    return work == WORK_RENEW ? 1 : 2;
}

static void measure(const struct peer *peer, const struct ours *ours, const struct peer_case *c,
                    bool alone) {
    static struct side side, other;
    uint64_t grants = 0, other_grants = 0;
    char name[128], granted[128];
    side = ours->open(c, &grants);
    other = (struct side){0};
    if (!alone) {
        other = peer->open(c, &other_grants);
    }
    turns_take(&side, &other);
    if (c->work == WORK_CONTEND) {
        snprintf(name, sizeof name, "%s: %s, attempts", peer->name, c->name);
        snprintf(granted, sizeof granted, "%s: %s, grants", peer->name, c->name);
        turns_report_contention(name, granted, &side, &other);
    } else {
        snprintf(name, sizeof name, "%s: %s", peer->name, c->name);
        turns_report(name, unit_of(c->work), &side, &other);
    }
    side_close(&side);
    side_close(&other);
}

static double seconds_since(uint64_t start) {
    return (double)(bench_now_ns() - start) / 1e9;
}

static void fill(const struct peer *peer, const struct ours *ours, enum peer_pool pool,
                 bool alone) {
    uint64_t start = bench_now_ns();
    ours->fill(pool);
    uint64_t middle = bench_now_ns();
    if (!alone) {
        peer->fill(pool);
    }
    fprintf(stderr, "   %s: loading the pool '%s' took %.1f s, Tenure %.1f s\n", peer->name,
            peer_pools[pool].name, seconds_since(middle), (double)(middle - start) / 1e9);
}

static bool peer_run(const struct peer *peer, const struct ours *ours, bool alone) {
    uint64_t begun = bench_now_ns();
    if (!alone && !peer->start()) {
        fprintf(stderr, "bench: %s is not installed: tools/deps.sh bench (or --without %s)\n",
                peer->package, peer->name);
        return false;
    }
    ours->start();
    fprintf(stderr, "   %s: starting took %.1f s\n", peer->name, seconds_since(begun));
    for (unsigned pool = 0; pool < PEER_POOLS; pool++) {
        if (pool != PEER_LARGE) {
            fill(peer, ours, pool, alone);
        }
    }
    for (const struct peer_case *c = peer->cases; c->name != NULL; c++) {
        if (c->pool == PEER_LARGE && (c - 1)->pool != PEER_LARGE) {
            fill(peer, ours, PEER_LARGE, alone);
        }
        measure(peer, ours, c, alone);
    }
    begun = bench_now_ns();
    ours->stop();
    if (!alone) {
        peer->stop();
    }
    fprintf(stderr, "   %s: stopping took %.1f s\n", peer->name, seconds_since(begun));
    return true;
}

int main(int argc, char **argv) {
    static const struct peer *const servers[] = {&peer_redis, &peer_postgresql, &peer_mariadb,
                                                 &peer_etcd};
    bool all = true;
    bool smoke = bench_length_of(argc, argv) == BENCH_SMOKE;
    turns_plan.count = 6;
    if (smoke) {
        turns_plan = (struct turns_plan){.count = 1, .ns = 10000000u};
        peer_pools[PEER_LARGE] = (struct work_pool){"large", 33000, 11};
    }
    process_directory_make();
    for (size_t i = 0; i < (smoke ? 1 : sizeof servers / sizeof servers[0]); i++) {
        if (!bench_without(argc, argv, servers[i]->name)) {
            all = peer_run(servers[i], &our_server, smoke) && all;
            process_directory_remove();
            process_directory_make();
        }
    }
    if (!bench_without(argc, argv, peer_sqlite.name)) {
        all = peer_run(&peer_sqlite, &our_library, false) && all;
    }
    process_directory_remove();
    return all ? 0 : 1;
}
