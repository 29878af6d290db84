/* How many leases a pool began in its window, second by second, and the lease that follows from it. */
#include "sim/model.h"

#include <string.h>

__extension__ typedef unsigned __int128 wide;

bool model_metered(const struct model *m, uint32_t pool) {
    const uint64_t *of = model_policy(m, pool)->of;
    return of[KERNEL_OPTION_STICKY] != 0 &&
           (of[KERNEL_OPTION_SCOPED] == 0 || m->pools[pool].is_scope);
}

/* New leases in the window that ends at `second`, which is not before the latest. */
static uint64_t sum_at(const struct model_pool *p, uint64_t second) {
    uint64_t sum = 0;
    for (uint64_t ago = 0; ago < MODEL_WINDOW && ago <= p->rate_second; ago++) {
        sum += p->rate_second - ago + p->rate_window >= second ? p->rates[ago] : 0;
    }
    return sum;
}

/* The smallest number of leases in the window that makes the rate ultra. */
static uint64_t floor_of(const uint64_t *of) {
    wide need = (wide)of[KERNEL_OPTION_ULTRA_RATE] * of[KERNEL_OPTION_RATE_WINDOW];
    uint64_t sum = (uint64_t)(need / ((wide)3600 * 1000000));
    return (wide)sum * 3600 * 1000000 < need ? sum + 1 : sum;
}

void model_rate_begin(struct model *m, uint32_t pool) {
    struct model_pool *p = &m->pools[pool];
    memset(p->rates, 0, sizeof p->rates);
    p->rate_second = m->now_ms / 1000;
    p->rate_window = model_policy(m, pool)->of[KERNEL_OPTION_RATE_WINDOW];
    p->rate_floor = floor_of(model_policy(m, pool)->of);
    p->ultra_since_ms = 0;
}

/* Second by second, so that a break of one second is seen; by the terms of then, then by those of
 * now, for a change of policy is no break by itself. */
void model_rate_evaluate(struct model *m, uint32_t pool) {
    if (!model_metered(m, pool)) {
        return;
    }
    struct model_pool *p = &m->pools[pool];
    const uint64_t *of = model_policy(m, pool)->of;
    uint64_t second = m->now_ms / 1000;
    bool fell = sum_at(p, p->rate_second) < p->rate_floor;
    while (p->rate_second < second) {
        if (second - p->rate_second > MODEL_WINDOW) {
            memset(p->rates, 0, sizeof p->rates); /* all leases have left the window */
            p->rate_second = second;
        } else {
            memmove(&p->rates[1], &p->rates[0], sizeof p->rates - sizeof p->rates[0]);
            p->rates[0] = 0;
            p->rate_second++;
        }
        fell = fell || sum_at(p, p->rate_second) < p->rate_floor;
    }
    p->rate_window = of[KERNEL_OPTION_RATE_WINDOW];
    p->rate_floor = floor_of(of);
    if (sum_at(p, second) < p->rate_floor) {
        p->ultra_since_ms = 0;
    } else if (fell || p->ultra_since_ms == 0) {
        p->ultra_since_ms = m->now_ms;
    }
}

void model_rate_count(struct model *m, uint32_t pool) {
    struct model_pool *p = &m->pools[pool];
    p->rates[0]++;
    if (p->ultra_since_ms == 0 && sum_at(p, p->rate_second) >= p->rate_floor) {
        p->ultra_since_ms = m->now_ms;
    }
}

static uint64_t shortened(const uint64_t *of, uint64_t sum) {
    wide base = of[KERNEL_OPTION_LEASE];
    wide rate = (wide)sum * 3600 * 1000000 / of[KERNEL_OPTION_RATE_WINDOW];
    uint64_t by_factor = (uint64_t)(base * of[KERNEL_OPTION_MIN_FACTOR] / 1000000);
    uint64_t by_rate = (uint64_t)(base * of[KERNEL_OPTION_HIGH_RATE] / rate);
    uint64_t lease = by_factor > by_rate ? by_factor : by_rate;
    return lease > of[KERNEL_OPTION_MIN_LEASE] ? lease : of[KERNEL_OPTION_MIN_LEASE];
}

struct model_rate model_rate(const struct model *m, uint32_t pool, uint64_t now_ms) {
    const struct model_pool *p = &m->pools[pool];
    const uint64_t *of = model_policy(m, pool)->of;
    struct model_rate r = {.effective_s = of[KERNEL_OPTION_LEASE]};
    if (!model_metered(m, pool)) {
        return r;
    }
    r.sum = sum_at(p, now_ms / 1000);
    r.rate_micro = (uint64_t)((wide)r.sum * 3600 * 1000000 / p->rate_window);
    /* Without new leases the sum only falls: if it was at or above the floor then and is now, it
     * was all the time in between. */
    r.ultra = p->ultra_since_ms != 0 && r.sum >= p->rate_floor;
    if (of[KERNEL_OPTION_ADAPTIVE] == 0) {
        return r;
    }
    r.force_zero = r.ultra && now_ms - p->ultra_since_ms >= of[KERNEL_OPTION_ULTRA_SUSTAIN] * 1000;
    if (r.force_zero) {
        r.effective_s = 0;
    } else if (r.rate_micro > of[KERNEL_OPTION_HIGH_RATE]) {
        r.effective_s = shortened(of, r.sum);
    }
    return r;
}
