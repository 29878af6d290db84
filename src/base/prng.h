/* A deterministic generator (xoshiro256**) whose whole state is four words, stored by the owner. */
#ifndef TN_BASE_PRNG_H
#define TN_BASE_PRNG_H

#include <stdint.h>

struct tn_prng {
    uint64_t s[4];
};

/* Any seed will do; the state is expanded with splitmix64 and is never all zero. */
void tn_prng_seed(struct tn_prng *prng, uint64_t seed);

uint64_t tn_prng_next(struct tn_prng *prng);

/* A number in 0..n-1 by multiply-and-shift, one draw, no retry: the bias is at most n / 2^64.
 * n = 0 stands for 2^64. */
uint64_t tn_prng_below(struct tn_prng *prng, uint64_t n);

#endif
