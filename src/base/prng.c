/* xoshiro256**, seeded by splitmix64.
 *
 * Invariant: the state is never all zero (xoshiro would stay there). splitmix64 is a bijection of a
 * counter that moves between draws, so of its four outputs at most one is zero. */
#include "base/prng.h"

__extension__ typedef unsigned __int128 uint128;

static inline uint64_t rotate_left(uint64_t x, unsigned n) {
    return x << n | x >> (64 - n);
}

void tn_prng_seed(struct tn_prng *prng, uint64_t seed) {
    for (int i = 0; i < 4; i++) {
        seed += 0x9e3779b97f4a7c15u;
        uint64_t z = seed;
        z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
        z = (z ^ z >> 27) * 0x94d049bb133111ebu;
        prng->s[i] = z ^ z >> 31;
    }
}

uint64_t tn_prng_next(struct tn_prng *prng) {
    uint64_t *s = prng->s;
    uint64_t result = rotate_left(s[1] * 5, 7) * 9;
    uint64_t t = s[1] << 17;
    s[2] ^= s[0];
    s[3] ^= s[1];
    s[1] ^= s[2];
    s[0] ^= s[3];
    s[2] ^= t;
    s[3] = rotate_left(s[3], 45);
    return result;
}

uint64_t tn_prng_below(struct tn_prng *prng, uint64_t n) {
    uint64_t draw = tn_prng_next(prng);
    return n == 0 ? draw : (uint64_t)((uint128)draw * n >> 64);
}
