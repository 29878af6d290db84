/* The workloads that servers are compared on. A lane is one client that works through its steps again and
 * again; each step is one request that the server acknowledges after it is on disk. */
#ifndef TN_BENCH_WORK_H
#define TN_BENCH_WORK_H

#include <stdbool.h>
#include <stdint.h>

enum work {
    WORK_CYCLE,   /* allocate a value, release it */
    WORK_RENEW,   /* allocate one value, then renew it */
    WORK_KEEP,    /* allocate values and keep them: fills a pool */
    WORK_CONTEND, /* all lanes want one value; the lane that is granted it releases it */
    WORK_BUNDLE,  /* allocate 8 values of 3 pools in one step, release them in one step */
    WORK_STICKY,  /* return as a known holder, get the same value, release it */
};

#define WORK_BUNDLE_POOLS 3u
#define WORK_BUNDLE_VALUES 8u
static const unsigned work_bundle_counts[WORK_BUNDLE_POOLS] = {3, 3, 2};

/* What a workload draws its values from. The same in all servers. */
struct work_pool {
    const char *name;
    uint32_t values;
    uint32_t stride; /* the values 0, stride, 2 * stride, ... are free, the rest is held */
};

static inline bool work_pool_free(const struct work_pool *pool, uint32_t value) {
    return value % pool->stride == 0;
}

static inline uint32_t work_pool_free_count(const struct work_pool *pool) {
    return (pool->values + pool->stride - 1) / pool->stride;
}

static inline uint32_t work_pool_held_count(const struct work_pool *pool) {
    return pool->values - work_pool_free_count(pool);
}

#endif
