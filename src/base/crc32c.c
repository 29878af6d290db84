/* CRC-32C (Castagnoli, reflected, initial value and final inversion of all ones).
 *
 * Both versions keep the running value inverted inside and un-inverted at the interface, so that
 * feeding a result back continues the sum: crc(crc(0, a), b) == crc(0, ab). */
#include "base/bytes.h"
#include "base/hash.h"

/* The table is linear over xor: entry i is the xor of the entries of i's bits. So the eight entries
 * for single bits define it, and the compiler works out the other 248. */
#define ENTRY(i)                                                           \
    ((((i)&0x01u) ? 0xf26b8303u : 0u) ^ (((i)&0x02u) ? 0xe13b70f7u : 0u) ^ \
     (((i)&0x04u) ? 0xc79a971fu : 0u) ^ (((i)&0x08u) ? 0x8ad958cfu : 0u) ^ \
     (((i)&0x10u) ? 0x105ec76fu : 0u) ^ (((i)&0x20u) ? 0x20bd8edeu : 0u) ^ \
     (((i)&0x40u) ? 0x417b1dbcu : 0u) ^ (((i)&0x80u) ? 0x82f63b78u : 0u))
#define ENTRIES4(i) ENTRY(i), ENTRY((i) + 1u), ENTRY((i) + 2u), ENTRY((i) + 3u)
#define ENTRIES16(i) ENTRIES4(i), ENTRIES4((i) + 4u), ENTRIES4((i) + 8u), ENTRIES4((i) + 12u)
#define ENTRIES64(i) ENTRIES16(i), ENTRIES16((i) + 16u), ENTRIES16((i) + 32u), ENTRIES16((i) + 48u)

static const uint32_t table[256] = {
    ENTRIES64(0u),
    ENTRIES64(64u),
    ENTRIES64(128u),
    ENTRIES64(192u),
};

uint32_t tn_crc32c_portable(uint32_t crc, const void *bytes, size_t len) {
    const uint8_t *at = bytes;
    uint32_t c = ~crc;
    for (size_t i = 0; i < len; i++) {
        c = c >> 8 ^ table[(c ^ at[i]) & 0xffu];
    }
    return ~c;
}

#if defined(__x86_64__)

__attribute__((target("sse4.2"))) static uint32_t crc32c_sse42(uint32_t crc, const void *bytes,
                                                               size_t len) {
    const uint8_t *at = bytes;
    uint64_t c = (uint32_t)~crc;
    for (; len >= 8; len -= 8, at += 8) {
        c = __builtin_ia32_crc32di(c, tn_load64(at));
    }
    uint32_t tail = (uint32_t)c;
    for (; len > 0; len--, at++) {
        tail = __builtin_ia32_crc32qi(tail, *at);
    }
    return ~tail;
}

uint32_t tn_crc32c(uint32_t crc, const void *bytes, size_t len) {
    if (__builtin_cpu_supports("sse4.2")) {
        return crc32c_sse42(crc, bytes, len);
    }
    return tn_crc32c_portable(crc, bytes, len);
}

#else

uint32_t tn_crc32c(uint32_t crc, const void *bytes, size_t len) {
    return tn_crc32c_portable(crc, bytes, len);
}

#endif
