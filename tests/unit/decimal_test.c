/* Decimal digits, against the C library's. */
#include "unit/unit.h"

#include <inttypes.h>

#include "base/decimal.h"

static void check(uint64_t number) {
    char expected[32], got[TN_DECIMAL_MAX + 1];
    int len = snprintf(expected, sizeof expected, "%" PRIu64, number);
    memset(got, 'x', sizeof got);
    assert_int_equal(tn_decimal(number, got), len);
    assert_memory_equal(got, expected, (size_t)len);
    assert_int_equal(got[len], 'x');
}

static void digits_are_those_of_the_c_library(void **state) {
    (void)state;
    for (uint64_t i = 0; i <= 10100; i++) {
        check(i);
    }
    for (uint64_t power = 1, i = 0; i < 20; i++, power *= 10) {
        check(power - 1);
        check(power);
        check(power + 1);
    }
    check(UINT64_MAX);
    struct tn_prng random = unit_random();
    for (unsigned i = 0; i < 10000; i++) {
        check(tn_prng_next(&random) >> (i % 64));
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(digits_are_those_of_the_c_library)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
