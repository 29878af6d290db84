/* The adaptive lease of sticky pools: the rate of new leases, and the lifetime of offline leases.
 *
 * Rate = new leases in the last window, times 3600 / window. The rate can only fall between two
 * commands, second by second, as counters leave the window; tn_rate_advance walks those seconds, so
 * a break in "at or above ultra" is seen exactly, however far apart the commands are.
 *
 * Effective lease (whole seconds, fractions in millionths, 128-bit products, rounded down):
 *   adaptive off                              base
 *   rate >= ultra for at least `sustain`      0
 *   rate <= high                              base
 *   else   max(min_lease, base * max(min_factor, high / rate)) */
#include "kernel/state.h"

#define MICRO 1000000u
__extension__ typedef unsigned __int128 u128;

static uint64_t rate_micro_of(uint64_t sum, uint64_t window) {
    TN_ASSERT(window > 0);
    return (uint64_t)((u128)sum * 3600 * MICRO / window);
}

/* The smallest number of new leases in the window whose rate is at or above the ultra threshold. */
static uint64_t ultra_floor(const struct kernel_policy *policy) {
    u128 need = (u128)policy->of[KERNEL_OPTION_ULTRA_RATE] * policy->of[KERNEL_OPTION_RATE_WINDOW];
    u128 unit = (u128)3600 * MICRO;
    return (uint64_t)((need + unit - 1) / unit);
}

void kernel_meter_take(struct kernel *k, uint32_t pool) {
    uint32_t slot = tn_table_take(&k->tables[TABLE_METER]);
    TN_ASSERT(slot != TN_NONE);
    TN_ASSERT(pool_at(k, pool)->meter == TN_NONE);
    struct meter *meter = meter_mut(k, slot);
    meter->pool1 = pool + 1;
    tn_rate_init(&meter->rate, (uint32_t)kernel_limit(k, KERNEL_LIMIT_RATE_WINDOW),
                 (uint32_t)kernel_pool_option(k, pool, KERNEL_OPTION_RATE_WINDOW),
                 root_at(k)->now_ms / 1000);
    meter->floor = ultra_floor(kernel_pool_policy(k, pool));
    pool_mut(k, pool)->meter = slot;
}

void kernel_meter_drop(struct kernel *k, uint32_t pool) {
    struct pool *p = pool_mut(k, pool);
    if (p->meter != TN_NONE) {
        TN_ASSERT(meter_at(k, p->meter)->pool1 == pool + 1);
        tn_table_give(&k->tables[TABLE_METER], p->meter);
        p->meter = TN_NONE;
    }
}

void kernel_meter_advance(struct kernel *k, uint32_t pool) {
    const struct pool *p = pool_at(k, pool);
    if (p->meter == TN_NONE) {
        return;
    }
    const struct kernel_policy *policy = kernel_pool_policy(k, pool);
    struct meter *meter = meter_mut(k, p->meter);
    uint64_t window = policy->of[KERNEL_OPTION_RATE_WINDOW];
    /* First by the terms it was judged by so far, then by those of now: a change of policy is no
     * break by itself. */
    bool fell = tn_rate_advance(&meter->rate, root_at(k)->now_ms / 1000, meter->floor);
    if (meter->rate.window != window) {
        tn_rate_window_set(&meter->rate, (uint32_t)window);
    }
    meter->floor = ultra_floor(policy);
    if (meter->rate.sum < meter->floor) {
        meter->ultra_since_ms = 0;
    } else if (fell || meter->ultra_since_ms == 0) {
        meter->ultra_since_ms = root_at(k)->now_ms;
    }
}

void kernel_meter_count(struct kernel *k, uint32_t pool) {
    const struct pool *p = pool_at(k, pool);
    if (p->meter == TN_NONE) {
        return;
    }
    struct meter *meter = meter_mut(k, p->meter);
    tn_rate_add(&meter->rate, 1);
    if (meter->ultra_since_ms == 0 && meter->rate.sum >= ultra_floor(kernel_pool_policy(k, pool))) {
        meter->ultra_since_ms = root_at(k)->now_ms;
    }
}

/* base * max(min_factor, high / rate), rounded once, at the end. */
static uint64_t shortened(const struct kernel_policy *policy, uint64_t rate_micro) {
    TN_ASSERT(rate_micro > 0);
    uint64_t base = policy->of[KERNEL_OPTION_LEASE];
    uint64_t by_floor = (uint64_t)((u128)base * policy->of[KERNEL_OPTION_MIN_FACTOR] / MICRO);
    uint64_t by_rate = (uint64_t)((u128)base * policy->of[KERNEL_OPTION_HIGH_RATE] / rate_micro);
    uint64_t lease = by_rate > by_floor ? by_rate : by_floor;
    uint64_t least = policy->of[KERNEL_OPTION_MIN_LEASE];
    return lease < least ? least : lease;
}

struct kernel_meter_view kernel_meter_read(const struct kernel *k, uint32_t pool,
                                           uint64_t clock_ms) {
    const struct kernel_policy *policy = kernel_pool_policy(k, pool);
    struct kernel_meter_view view = {.effective_s = policy->of[KERNEL_OPTION_LEASE]};
    const struct pool *p = pool_at(k, pool);
    if (p->meter == TN_NONE) {
        return view;
    }
    const struct meter *meter = meter_at(k, p->meter);
    uint64_t second = clock_ms / 1000 < meter->rate.second ? meter->rate.second : clock_ms / 1000;
    uint32_t window = (uint32_t)policy->of[KERNEL_OPTION_RATE_WINDOW];
    uint64_t sum = tn_rate_sum_at(&meter->rate, window, second);
    view.rate_micro = rate_micro_of(sum, window);
    view.ultra_active = meter->ultra_since_ms != 0 && sum >= ultra_floor(policy);
    view.force_zero = policy->of[KERNEL_OPTION_ADAPTIVE] && view.ultra_active &&
                      clock_ms >= meter->ultra_since_ms &&
                      clock_ms - meter->ultra_since_ms >=
                          kernel_seconds_ms(policy->of[KERNEL_OPTION_ULTRA_SUSTAIN]);
    if (view.force_zero) {
        view.effective_s = 0;
    } else if (policy->of[KERNEL_OPTION_ADAPTIVE] &&
               view.rate_micro > policy->of[KERNEL_OPTION_HIGH_RATE]) {
        view.effective_s = shortened(policy, view.rate_micro);
    }
    return view;
}

bool kernel_meter_forces(const struct kernel *k, uint32_t pool) {
    return pool_at(k, pool)->meter != TN_NONE &&
           kernel_pool_option(k, pool, KERNEL_OPTION_FORCE_RELEASE) != 0 &&
           kernel_meter_read(k, pool, root_at(k)->now_ms).force_zero;
}

uint64_t kernel_meter_forces_at(const struct kernel *k, uint32_t pool) {
    const struct pool *p = pool_at(k, pool);
    const struct kernel_policy *policy = kernel_pool_policy(k, pool);
    if (p->meter == TN_NONE || meter_at(k, p->meter)->ultra_since_ms == 0 ||
        policy->of[KERNEL_OPTION_FORCE_RELEASE] == 0 || policy->of[KERNEL_OPTION_ADAPTIVE] == 0) {
        return UINT64_MAX;
    }
    return meter_at(k, p->meter)->ultra_since_ms +
           kernel_seconds_ms(policy->of[KERNEL_OPTION_ULTRA_SUSTAIN]);
}
