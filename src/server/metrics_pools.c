/* The pools' metrics: rows gathered from the engine, how fast each fills, and their families.
 *
 * Time to exhaustion is what is free divided by how fast the used values (held or cooling) grow. The
 * growth is an average over the last minutes in which what was weighs less the longer it is ago: at
 * each look, `dt` after the one before, the growth since then gets the weight dt / (dt + T) with
 * T = 3 minutes. The average knows how much of its weight stands for a past that it has not seen, so
 * it is right from the second look on. */
#include <stdlib.h>
#include <string.h>

#include "server/metrics.h"

#define GROWTH_SECONDS 180.0
#define GROWTH_LEAST_MS 1000u /* samples closer together show nothing new */
#define POOLS_FIRST 64u

/* Maximum samples of one pool without refusals, the bytes of a sample without its name, and the
 * bytes that the other families may need together. */
#define POOL_SAMPLES 22u
#define POOL_AWAY_SAMPLES (KERNEL_AWAY_BUCKETS + 2u) /* of a sticky pool */
#define POOL_SAMPLE_BYTES 96u
#define POOL_REFUSAL_SAMPLES 6u
#define OTHER_BYTES (4u << 20)

/* ---- Rows ---- */

static size_t pool_text_bytes(const struct kernel_pool_view *view) {
    bool sticky = view->policy.of[KERNEL_OPTION_STICKY] != 0;
    size_t samples = POOL_SAMPLES + POOL_REFUSAL_SAMPLES + (sticky ? POOL_AWAY_SAMPLES : 0);
    return samples * (POOL_SAMPLE_BYTES + view->name_len);
}

bool metrics_pools_add(struct metrics_pools *pools, const struct kernel_pool_view *view) {
    size_t bytes = pool_text_bytes(view);
    if (pools->text_bytes + bytes > SERVER_METRICS_BYTES - OTHER_BYTES) {
        pools->omitted++;
        return true;
    }
    if (pools->count == pools->capacity) {
        uint32_t capacity = pools->capacity == 0 ? POOLS_FIRST : 2 * pools->capacity;
        struct metrics_pool *bigger = realloc(pools->of, capacity * sizeof *bigger);
        if (bigger == NULL) {
            return false;
        }
        pools->of = bigger;
        pools->capacity = capacity;
    }
    pools->text_bytes += bytes;
    struct metrics_pool *pool = &pools->of[pools->count++];
    *pool = (struct metrics_pool){
        .name_len = (uint8_t)view->name_len,
        .sticky = view->policy.of[KERNEL_OPTION_STICKY] != 0,
        .ultra = view->ultra_active,
        .force_zero = view->force_zero,
        .name_hash = server_refusal_name_hash(view->name, view->name_len),
        .size = view->size,
        .free = view->free,
        .used = view->reserved + view->active + view->offline + view->revoking + view->cooling,
        .next_free_ms = view->next_free_ms,
        .rate_nano = view->rate_micro * 1000 / 3600,
        .lease_s = view->effective_lease_s,
        .states = {view->reserved, view->active, view->offline, view->revoking, view->cooling},
        .scopes = view->scopes,
        .waiting = view->waiting,
        .waiting_since_ms = view->waiting_since_ms,
        .counters = view->counters,
        .exhaustion_ms = UINT64_MAX,
    };
    _Static_assert(KERNEL_POOL_MAX <= UINT8_MAX, "a name's length fits");
    memcpy(pool->name, view->name, view->name_len + 1);
    return true;
}

void metrics_pools_clear(struct metrics_pools *pools) {
    free(pools->of);
    *pools = (struct metrics_pools){.growths = pools->growths};
}

/* ---- Growth ---- */

static struct metrics_growth *growth_at(const struct metrics_growths *growths, uint64_t name_hash) {
    uint32_t mask = growths->capacity - 1;
    uint32_t i = (uint32_t)(name_hash >> 32) & mask;
    while (growths->of[i].name_hash != 0 && growths->of[i].name_hash != name_hash) {
        i = (i + 1) & mask;
    }
    return &growths->of[i];
}

static void growth_learn(struct metrics_growth *growth, uint64_t used, uint64_t now_ms) {
    if (now_ms < growth->at_ms + GROWTH_LEAST_MS) {
        return;
    }
    double dt = (double)(now_ms - growth->at_ms) / 1000.0;
    double share = dt / (dt + GROWTH_SECONDS);
    double grown = (double)used - (double)growth->used;
    growth->rate += share * (grown / dt - growth->rate);
    growth->weight += share * (1.0 - growth->weight);
    growth->used = used;
    growth->at_ms = now_ms;
}

static uint64_t growth_exhaustion_ms(const struct metrics_growth *growth, uint64_t free_values) {
    double rate = growth->weight > 0 ? growth->rate / growth->weight : 0;
    if (free_values == 0) {
        return 0;
    }
    /* A slower growth would take longer than any machine lives. */
    double ms = rate > 0 ? (double)free_values / rate * 1000.0 : 1e15;
    return ms < 1e15 ? (uint64_t)ms : UINT64_MAX;
}

static uint64_t pool_free_values(const struct metrics_pool *pool) {
    return pool->free;
}

bool metrics_pools_estimate(struct metrics_pools *pools, uint64_t now_ms) {
    struct metrics_growths old = pools->growths;
    struct metrics_growths fresh = {.capacity = 16};
    while (fresh.capacity < 2 * pools->count) {
        fresh.capacity *= 2;
    }
    fresh.of = calloc(fresh.capacity, sizeof *fresh.of);
    if (fresh.of == NULL) {
        return false;
    }
    for (uint32_t i = 0; i < pools->count; i++) {
        struct metrics_pool *pool = &pools->of[i];
        struct metrics_growth *known = old.capacity > 0 ? growth_at(&old, pool->name_hash) : NULL;
        struct metrics_growth *growth = growth_at(&fresh, pool->name_hash);
        if (known != NULL && known->name_hash != 0) {
            *growth = *known;
            growth_learn(growth, pool->used, now_ms);
        } else {
            *growth = (struct metrics_growth){
                .name_hash = pool->name_hash, .used = pool->used, .at_ms = now_ms};
        }
        growth->pool = i;
        pool->exhaustion_ms = growth_exhaustion_ms(growth, pool_free_values(pool));
    }
    free(old.of);
    pools->growths = fresh;
    return true;
}

const struct metrics_pool *metrics_pools_find(const struct metrics_pools *pools,
                                              uint64_t name_hash) {
    const struct metrics_growth *growth =
        pools->growths.capacity > 0 ? growth_at(&pools->growths, name_hash) : NULL;
    return growth != NULL && growth->name_hash != 0 ? &pools->of[growth->pool] : NULL;
}

/* ---- Families ---- */

/* Numbers that are shown as they are: where the number is, which pools have it, its digits. */
enum pool_kind { ALL_POOLS, STICKY_POOLS, NOT_ZERO };

struct pool_family {
    enum server_metric family;
    size_t offset;
    enum pool_kind kind;
    unsigned digits;
};

#define POOL_NUMBER(id, field, kind, digits) \
    { SERVER_METRIC_POOL_##id, offsetof(struct metrics_pool, field), kind, digits }

static void number_family(struct metrics_text *text, const struct metrics_pools *pools,
                          const struct pool_family *family) {
    metrics_family(text, family->family);
    for (uint32_t i = 0; i < pools->count; i++) {
        const struct metrics_pool *pool = &pools->of[i];
        uint64_t value;
        memcpy(&value, (const char *)pool + family->offset, sizeof value);
        if ((family->kind == STICKY_POOLS && !pool->sticky) ||
            (family->kind == NOT_ZERO && value == 0)) {
            continue;
        }
        metrics_sample(text, "", "pool", tn_bytes_of(pool->name, pool->name_len), NULL, NULL);
        metrics_number(text, value, family->digits);
    }
}

/* In millionths. The size of a range of 2^64 values is too large to be multiplied. */
static uint64_t occupancy_micro(const struct metrics_pool *pool) {
    if (pool->size == 0) {
        return 0;
    }
    double ratio = (double)(pool->size - pool->free) / (double)pool->size;
    return ratio < 1 ? (uint64_t)(ratio * 1e6) : 1000000;
}

static void state_family(struct metrics_text *text, const struct metrics_pools *pools) {
    static const char *const states[5] = {"reserved", "active", "offline", "revoking", "cooling"};
    metrics_family(text, SERVER_METRIC_POOL_VALUES);
    for (uint32_t i = 0; i < pools->count; i++) {
        const struct metrics_pool *pool = &pools->of[i];
        for (unsigned s = 0; s < 5; s++) {
            metrics_sample(text, "", "pool", tn_bytes_of(pool->name, pool->name_len), "state",
                           states[s]);
            metrics_number(text, pool->states[s], 0);
        }
    }
}

/* A family whose numbers are computed from others. UINT64_MAX stands for infinity. */
static void derived_family(struct metrics_text *text, const struct metrics_pools *pools,
                           enum server_metric family,
                           uint64_t (*derive)(const struct metrics_pool *), unsigned digits) {
    metrics_family(text, family);
    for (uint32_t i = 0; i < pools->count; i++) {
        const struct metrics_pool *pool = &pools->of[i];
        uint64_t value = derive(pool);
        metrics_sample(text, "", "pool", tn_bytes_of(pool->name, pool->name_len), NULL, NULL);
        if (digits > 0 && value == UINT64_MAX) {
            metrics_infinity(text);
        } else {
            metrics_number(text, value, digits);
        }
    }
}

static uint64_t exhaustion_ms(const struct metrics_pool *pool) {
    return pool->exhaustion_ms;
}

static void flag_family(struct metrics_text *text, const struct metrics_pools *pools,
                        enum server_metric family) {
    metrics_family(text, family);
    for (uint32_t i = 0; i < pools->count; i++) {
        const struct metrics_pool *pool = &pools->of[i];
        bool flag = family == SERVER_METRIC_POOL_ULTRA ? pool->ultra : pool->force_zero;
        if (pool->sticky) {
            metrics_sample(text, "", "pool", tn_bytes_of(pool->name, pool->name_len), NULL, NULL);
            metrics_number(text, flag, 0);
        }
    }
}

static void away_family(struct metrics_text *text, const struct metrics_pools *pools) {
    static const uint64_t bounds_s[KERNEL_AWAY_BUCKETS - 1] = KERNEL_AWAY_BOUNDS;
    uint64_t bounds_ns[KERNEL_AWAY_BUCKETS - 1];
    for (unsigned i = 0; i < KERNEL_AWAY_BUCKETS - 1; i++) {
        bounds_ns[i] = bounds_s[i] * UINT64_C(1000000000);
    }
    metrics_family(text, SERVER_METRIC_POOL_AWAY);
    for (uint32_t i = 0; i < pools->count; i++) {
        const struct metrics_pool *pool = &pools->of[i];
        if (pool->sticky) {
            metrics_histogram(text, "pool", pool->name,
                              &(struct metrics_buckets){.bounds_ns = bounds_ns,
                                                        .counts = pool->counters.away,
                                                        .count = KERNEL_AWAY_BUCKETS - 1,
                                                        .sum = pool->counters.away_ms,
                                                        .sum_digits = 3});
        }
    }
}

static void refusal_family(struct metrics_text *text, const struct metrics_pools *pools,
                           const struct server_refusals *refusals) {
    metrics_family(text, SERVER_METRIC_POOL_REFUSALS);
    for (uint32_t i = 0; refusals->used > 0 && i < SERVER_REFUSALS; i++) {
        const struct server_refusal *refusal = &refusals->of[i];
        const struct metrics_pool *pool =
            refusal->count > 0 ? metrics_pools_find(pools, refusal->name_hash) : NULL;
        if (pool != NULL) {
            metrics_sample(text, "", "pool", tn_bytes_of(pool->name, pool->name_len), "result",
                           tn_result_name(refusal->code));
            metrics_number(text, refusal->count, 0);
        }
    }
}

void metrics_pools_render(struct metrics_text *text, const struct metrics_pools *pools,
                          const struct server_refusals *refusals) {
    static const struct pool_family before[] = {
        POOL_NUMBER(NEXT_FREE, next_free_ms, NOT_ZERO, 3),
        POOL_NUMBER(SCOPES, scopes, NOT_ZERO, 0),
        POOL_NUMBER(WAITING, waiting, ALL_POOLS, 0),
        POOL_NUMBER(WAITING_SINCE, waiting_since_ms, NOT_ZERO, 3),
        POOL_NUMBER(ALLOCATIONS, counters.allocated, ALL_POOLS, 0),
        POOL_NUMBER(RETURNS, counters.returned, ALL_POOLS, 0),
        POOL_NUMBER(RELEASES, counters.released, ALL_POOLS, 0),
        POOL_NUMBER(EXPIRIES, counters.expired, ALL_POOLS, 0),
        POOL_NUMBER(REVOCATIONS, counters.revoked, ALL_POOLS, 0),
        POOL_NUMBER(RECLAIMS, counters.reclaimed, ALL_POOLS, 0),
    };
    static const struct pool_family size = POOL_NUMBER(SIZE, size, ALL_POOLS, 0);
    static const struct pool_family lease = POOL_NUMBER(LEASE, lease_s, STICKY_POOLS, 0);
    static const struct pool_family rate = POOL_NUMBER(RATE, rate_nano, STICKY_POOLS, 9);
    number_family(text, pools, &size);
    state_family(text, pools);
    derived_family(text, pools, SERVER_METRIC_POOL_FREE, pool_free_values, 0);
    derived_family(text, pools, SERVER_METRIC_POOL_OCCUPANCY, occupancy_micro, 6);
    derived_family(text, pools, SERVER_METRIC_POOL_EXHAUSTION, exhaustion_ms, 3);
    for (unsigned i = 0; i < sizeof before / sizeof before[0]; i++) {
        number_family(text, pools, &before[i]);
    }
    refusal_family(text, pools, refusals);
    away_family(text, pools);
    number_family(text, pools, &rate);
    number_family(text, pools, &lease);
    flag_family(text, pools, SERVER_METRIC_POOL_ULTRA);
    flag_family(text, pools, SERVER_METRIC_POOL_FORCE_ZERO);
}
