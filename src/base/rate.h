/* How many events fell into the last `window` seconds: one counter a second, and their sum.
 *
 * The window is the seconds now - window .. now, both included. The counters are stored by the
 * owner as plain bytes (they are part of its durable state), `slots` >= window + 1 of them, so that
 * the window can be changed without losing what is still inside it. */
#ifndef TN_BASE_RATE_H
#define TN_BASE_RATE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct tn_rate {
    uint64_t second; /* the latest second seen */
    uint64_t sum;    /* over the window that ends there */
    uint32_t window;
    uint32_t slots;
    uint32_t counters[];
};

static inline size_t tn_rate_bytes(uint32_t window_max) {
    return (sizeof(struct tn_rate) + ((size_t)window_max + 1) * sizeof(uint32_t) + 7) & ~(size_t)7;
}

void tn_rate_init(struct tn_rate *rate, uint32_t window_max, uint32_t window, uint64_t second);

/* Moves on to `second`, which is not before the latest. True if the sum was below `floor` at any
 * second in between, including the last one. At most `slots` steps of work. */
bool tn_rate_advance(struct tn_rate *rate, uint64_t second, uint64_t floor);

/* What the sum over `window` (perhaps another than the rate's own) would be at `second` (not before
 * the latest) if nothing more is counted. */
uint64_t tn_rate_sum_at(const struct tn_rate *rate, uint32_t window, uint64_t second);

/* Counts n events in the latest second; a counter that is full stays full, and sum with it. */
void tn_rate_add(struct tn_rate *rate, uint32_t n);

/* True if the sum is that of the counters in the window; the window must be below slots. */
bool tn_rate_check(const struct tn_rate *rate);

/* Another window, at most slots - 1; the sum is recounted. */
void tn_rate_window_set(struct tn_rate *rate, uint32_t window);

#endif
