#include "base/decimal.h"

#include <string.h>

static const char pairs[] = "00010203040506070809101112131415161718192021222324252627282930313233"
                            "34353637383940414243444546474849505152535455565758596061626364656667"
                            "6869707172737475767778798081828384858687888990919293949596979899";

static const uint64_t powers[TN_DECIMAL_MAX] = {
    1u,
    10u,
    100u,
    1000u,
    10000u,
    100000u,
    1000000u,
    10000000u,
    100000000u,
    1000000000u,
    10000000000u,
    100000000000u,
    1000000000000u,
    10000000000000u,
    100000000000000u,
    1000000000000000u,
    10000000000000000u,
    100000000000000000u,
    1000000000000000000u,
    10000000000000000000u,
};

/* 1233 / 4096 is a little more than the logarithm of 2: the product is the number of digits or one less.
 * Every power but the first is even, so the lowest bit makes no difference but for 0. */
uint32_t tn_decimal_count(uint64_t number) {
    uint64_t odd = number | 1;
    uint32_t bits = 64u - (uint32_t)__builtin_clzll(odd);
    uint32_t digits = bits * 1233u >> 12;
    return digits + (odd >= powers[digits]);
}

uint32_t tn_decimal(uint64_t number, char out[TN_DECIMAL_MAX]) {
    uint32_t digits = tn_decimal_count(number);
    char *at = out + digits;
    for (; number >= 10000; number /= 10000) {
        uint32_t four = (uint32_t)(number % 10000);
        at -= 4;
        memcpy(at, pairs + 2 * (size_t)(four / 100), 2);
        memcpy(at + 2, pairs + 2 * (size_t)(four % 100), 2);
    }
    uint32_t rest = (uint32_t)number;
    if (rest >= 100) {
        at -= 2;
        memcpy(at, pairs + 2 * (size_t)(rest % 100), 2);
        rest /= 100;
    }
    if (rest >= 10) {
        memcpy(out, pairs + 2 * (size_t)rest, 2);
    } else {
        out[0] = (char)('0' + rest);
    }
    return digits;
}
