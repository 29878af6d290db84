/* tn_hash64: a multiply-and-fold hash over 8-byte words.
 *
 * One 64 x 64 -> 128 bit multiplication spreads each input bit over the whole product; folding the
 * halves brings it back to 64 bits. The operands are folded in as well, so that an operand that
 * happens to be zero cannot wipe out the other one.
 *
 * Inputs above 48 bytes run in three independent lanes: a multiplication takes three or four cycles
 * but one can start every cycle, and state hashes run over gigabytes.
 *
 * The result is stored (state hashes) and compared between machines: nothing here may ever change
 * without a new format version. The golden vectors in the test hold it still. */
#include "base/hash.h"

#include "base/bytes.h"

__extension__ typedef unsigned __int128 uint128;

/* Arbitrary but for being odd and having about half of their bits set. */
static const uint64_t K0 = 0x9a6b3c5d17e2f48bu;
static const uint64_t K1 = 0xc3d2a59e6b1c4e87u;
static const uint64_t K2 = 0x5ce4b8936a3d72c5u;
static const uint64_t K3 = 0xe14d5a6793ac2bd1u;

static inline uint64_t fold(uint64_t a, uint64_t b) {
    uint128 product = (uint128)a * b;
    return a ^ b ^ (uint64_t)product ^ (uint64_t)(product >> 64);
}

/* The last 0..16 bytes as two words. The loads overlap rather than loop; the length, which is mixed
 * in at the end, tells apart the inputs that would otherwise look alike. */
static inline void load_short(const uint8_t *at, size_t len, uint64_t *ret_a, uint64_t *ret_b) {
    if (len >= 8) {
        *ret_a = tn_load64(at);
        *ret_b = tn_load64(at + len - 8);
    } else if (len >= 4) {
        *ret_a = tn_load32(at);
        *ret_b = tn_load32(at + len - 4);
    } else if (len > 0) {
        *ret_a = (uint64_t)at[0] << 16 | (uint64_t)at[len / 2] << 8 | at[len - 1];
        *ret_b = 0;
    } else {
        *ret_a = 0;
        *ret_b = 0;
    }
}

uint64_t tn_hash64(const void *bytes, size_t len, uint64_t seed) {
    const uint8_t *at = bytes;
    size_t left = len;
    uint64_t state = fold(seed ^ K0, K1);
    if (left > 48) {
        uint64_t lane1 = state ^ K2;
        uint64_t lane2 = state ^ K3;
        do {
            state = fold(tn_load64(at) ^ K1, tn_load64(at + 8) ^ state);
            lane1 = fold(tn_load64(at + 16) ^ K2, tn_load64(at + 24) ^ lane1);
            lane2 = fold(tn_load64(at + 32) ^ K3, tn_load64(at + 40) ^ lane2);
            at += 48;
            left -= 48;
        } while (left > 48);
        state = fold(state ^ K0, lane1) ^ lane2;
    }
    while (left > 16) {
        state = fold(tn_load64(at) ^ K1, tn_load64(at + 8) ^ state);
        at += 16;
        left -= 16;
    }
    uint64_t a, b;
    load_short(at, left, &a, &b);
    return fold(fold(a ^ K2, b ^ state) ^ len, K3);
}
