/* The sliding count of events.
 *
 * Second t is counted in counters[t % slots], which thus hold the latest `slots` seconds, at least
 * as many as the window has. Invariants: window < slots; sum is the total of the counters of
 * second - window .. second; counters of seconds that never were (before the first) are zero. */
#include "base/rate.h"

#include <string.h>

#include "base/assert.h"

static inline uint32_t slot_of(const struct tn_rate *rate, uint64_t second) {
    TN_ASSERT(rate->slots > 0);
    return (uint32_t)(second % rate->slots);
}

/* The slot `back` places before another, around the ring; works for seconds before zero, too. */
static inline uint32_t slot_before(const struct tn_rate *rate, uint32_t slot, uint32_t back) {
    TN_ASSERT(slot < rate->slots && back <= rate->slots);
    return slot >= back ? slot - back : slot + (rate->slots - back);
}

void tn_rate_init(struct tn_rate *rate, uint32_t window_max, uint32_t window, uint64_t second) {
    TN_ASSERT(window_max < UINT32_MAX);
    TN_ASSERT(window <= window_max);
    rate->second = second;
    rate->sum = 0;
    rate->window = window;
    rate->slots = window_max + 1;
    memset(rate->counters, 0, (size_t)rate->slots * sizeof rate->counters[0]);
}

bool tn_rate_advance(struct tn_rate *rate, uint64_t second, uint64_t floor) {
    TN_ASSERT(second >= rate->second);
    if (second - rate->second >= rate->slots) {
        memset(rate->counters, 0, (size_t)rate->slots * sizeof rate->counters[0]);
        rate->sum = 0;
    } else {
        uint32_t slot = slot_of(rate, rate->second);
        for (uint64_t t = rate->second; t < second; t++) {
            slot = slot + 1 == rate->slots ? 0 : slot + 1;
            /* With the widest window, the slot that leaves the window is the one that is reused. */
            uint32_t leaves = slot_before(rate, slot, rate->window + 1);
            TN_ASSERT(rate->sum >= rate->counters[leaves]);
            rate->sum -= rate->counters[leaves];
            rate->counters[slot] = 0;
        }
    }
    rate->second = second;
    /* Nothing is added in between, so the sum only falls, and the last second has the lowest. */
    return rate->sum < floor;
}

uint64_t tn_rate_sum_at(const struct tn_rate *rate, uint32_t window, uint64_t second) {
    TN_ASSERT(second >= rate->second && window < rate->slots);
    if (second == rate->second && window == rate->window) {
        return rate->sum;
    }
    uint64_t gone = second - rate->second;
    uint32_t now = slot_of(rate, rate->second);
    uint64_t sum = 0;
    for (uint32_t back = 0; gone <= window && back <= window - (uint32_t)gone; back++) {
        sum += rate->counters[slot_before(rate, now, back)];
    }
    return sum;
}

void tn_rate_add(struct tn_rate *rate, uint32_t n) {
    uint32_t *counter = &rate->counters[slot_of(rate, rate->second)];
    uint32_t room = UINT32_MAX - *counter;
    uint32_t counted = n < room ? n : room;
    *counter += counted;
    rate->sum += counted;
}

/* Of the latest second and the `window` before it. */
static uint64_t sum_of(const struct tn_rate *rate, uint32_t window) {
    uint32_t now = slot_of(rate, rate->second);
    uint64_t sum = 0;
    for (uint32_t back = 0; back <= window; back++) {
        sum += rate->counters[slot_before(rate, now, back)];
    }
    return sum;
}

bool tn_rate_check(const struct tn_rate *rate) {
    TN_ASSERT(rate->window < rate->slots);
    return rate->sum == sum_of(rate, rate->window);
}

void tn_rate_window_set(struct tn_rate *rate, uint32_t window) {
    TN_ASSERT(window < rate->slots);
    rate->sum = sum_of(rate, window);
    rate->window = window;
}
