/* Hashing for tables, state hashes and checksums that need not resist forgery.
 *
 * tn_hash64 is ours, fixed forever for a given seed: the state hash and the operation table depend
 * on it. tn_crc32c is the Castagnoli CRC (hardware where there is any, same answer without). */
#ifndef TN_BASE_HASH_H
#define TN_BASE_HASH_H

#include <stddef.h>
#include <stdint.h>

uint64_t tn_hash64(const void *bytes, size_t len, uint64_t seed);

/* A full-avalanche bijection of 64 bits. */
static inline uint64_t tn_mix64(uint64_t x) {
    x ^= x >> 32;
    x *= 0xd6e8feb86659fd93u;
    x ^= x >> 32;
    x *= 0xd6e8feb86659fd93u;
    x ^= x >> 32;
    return x;
}

/* Start with crc = 0; feed the previous value to continue. */
uint32_t tn_crc32c(uint32_t crc, const void *bytes, size_t len);

/* The table-driven version, for machines without the instruction and for the test that compares. */
uint32_t tn_crc32c_portable(uint32_t crc, const void *bytes, size_t len);

#endif
