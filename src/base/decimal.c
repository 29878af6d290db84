#include "base/decimal.h"

#include <string.h>

static const char pairs[] = "00010203040506070809101112131415161718192021222324252627282930313233"
                            "34353637383940414243444546474849505152535455565758596061626364656667"
                            "6869707172737475767778798081828384858687888990919293949596979899";

static uint32_t count(uint64_t number) {
    uint32_t digits = 1;
    for (; number >= 10000; number /= 10000) {
        digits += 4;
    }
    return digits + (number >= 10) + (number >= 100) + (number >= 1000);
}

uint32_t tn_decimal(uint64_t number, char out[TN_DECIMAL_MAX]) {
    uint32_t digits = count(number);
    uint32_t at = digits;
    for (; number >= 100; number /= 100) {
        at -= 2;
        memcpy(out + at, pairs + 2 * (number % 100), 2);
    }
    if (number >= 10) {
        memcpy(out, pairs + 2 * number, 2);
    } else {
        out[0] = (char)('0' + number);
    }
    return digits;
}
