/* The history of pools: one sample a minute for a day and one an hour for 30 days, in memory.
 *
 * The job that samples pools for the metrics writes it on its own thread, with the lock held for one pool at a
 * time; POOL HISTORY reads it on the loop's thread. A restart begins with an empty history.
 *
 * Memory is bounded: at most HISTORY_POOLS pools, pools before scopes, and of each at most
 * HISTORY_MINUTES + HISTORY_HOURS samples; HISTORY_BYTES in all. A dropped pool loses its history at the next
 * sample. */
#ifndef TN_SERVER_POOL_HISTORY_H
#define TN_SERVER_POOL_HISTORY_H

#include <uv.h>

#include "kernel/types.h"
#include "server/metrics.h"

#define HISTORY_MINUTES 1440u
#define HISTORY_HOURS 720u
#define HISTORY_POOLS 1024u

/* One sample of a pool. Counts are capped at UINT32_MAX. */
struct history_sample {
    uint64_t time_ms;
    uint64_t size;
    uint32_t states[5]; /* reserved, active, offline, revoking, cooling */
    uint32_t waiting;
    uint32_t peak; /* the most used values within the hour; for a minute, the used values */
    uint32_t given, ended, refused; /* since the sample before */
    uint32_t lease_s;               /* the lease that a new holder gets */
    uint32_t rate_milli;            /* new leases an hour in thousandths, for sticky pools */
    bool ultra, force_zero;
};

#define HISTORY_BYTES \
    ((size_t)HISTORY_POOLS * (HISTORY_MINUTES + HISTORY_HOURS) * sizeof(struct history_sample))
_Static_assert(HISTORY_BYTES <= 160u * 1000u * 1000u, "docs/security.md says 160 MB");

struct history_ring {
    struct history_sample *of;
    uint32_t capacity, first, count;
};

struct history_pool {
    uint64_t name_hash;
    char name[KERNEL_POOL_MAX + 1];
    struct history_ring minutes, hours;
    struct history_sample hour; /* the hour being accumulated */
    bool hour_begun;
    uint64_t given, ended, refused; /* totals at the last sample */
    uint64_t refused_now;
};

struct server_history {
    uv_mutex_t lock;
    uint64_t minute; /* minute of the last samples, since 1970 */
    uint32_t count;
    struct history_pool *of[HISTORY_POOLS]; /* in no order */
    uint16_t slots[2 * HISTORY_POOLS]; /* index of the pool + 1 by the hash of its name; 0: empty */
};

bool server_history_init(struct server_history *history);
void server_history_free(struct server_history *history);

/* Takes a sample of each pool if a new minute has begun since the last samples. */
void server_history_sample(struct server_history *history, const struct metrics_pools *pools,
                           const struct server_refusals *refusals, uint64_t now_ms);

#endif
