/* Durations: what is read, and that everything else is refused. */
#include "unit/unit.h"

#include "base/duration.h"

static struct tn_bytes of(const char *text) {
    return tn_bytes_of(text, strlen(text));
}

static void check(const char *text, uint64_t expected) {
    uint64_t seconds = 77;
    if (!tn_duration_parse(of(text), &seconds) || seconds != expected) {
        fail_msg("'%s' is %llu", text, (unsigned long long)seconds);
    }
    uint64_t ms = 77;
    assert_true(tn_duration_parse_ms(of(text), &ms));
    assert_int_equal(ms, expected * 1000);
}

static void a_number_is_seconds_and_a_unit_multiplies_it(void **state) {
    (void)state;
    check("0", 0);
    check("90", 90);
    check("0090", 90);
    check("90s", 90);
    check("15m", 900);
    check("12h", 43200);
    check("30d", 2592000);
    check("30D", 2592000);
    check("0d", 0);
    check("4294967296", 4294967296u);
}

static void anything_else_is_refused_and_leaves_the_output_alone(void **state) {
    (void)state;
    static const char *const bad[] = {"",
                                      " ",
                                      "h",
                                      "s",
                                      "1.5h",
                                      "1.5",
                                      "-1",
                                      "+1",
                                      "-1h",
                                      "1 h",
                                      " 1",
                                      "1h ",
                                      "1hh",
                                      "1h30m",
                                      "1w",
                                      "1ms",
                                      "0x10",
                                      "1e3",
                                      "1.",
                                      ".5",
                                      "1_0",
                                      "one",
                                      "\xff",
                                      "1\x80",
                                      "18446744073709551615",
                                      "18446744073709551616",
                                      "18446744073709552",
                                      "213503982334602d",
                                      "99999999999999999999999999999999s"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        uint64_t seconds = 77;
        if (tn_duration_parse(of(bad[i]), &seconds) || seconds != 77) {
            fail_msg("'%s' was read as %llu", bad[i], (unsigned long long)seconds);
        }
    }
    uint64_t seconds = 77;
    assert_false(tn_duration_parse(tn_bytes_of("1\0", 2), &seconds));
    assert_false(tn_duration_parse(tn_bytes_of(NULL, 0), &seconds));
}

static void decimals_are_for_plain_seconds_and_have_three_digits(void **state) {
    (void)state;
    static const struct {
        const char *text;
        uint64_t ms;
    } good[] = {{"0.5", 500}, {"0.25", 250}, {"1.001", 1001}, {"15m", 900000}, {"0.0", 0}};
    static const char *const bad[] = {"1.", ".5", "1.0001", "1.5s", "1.5h", "1.5.5", "1.x", "-0.5"};
    uint64_t ms = 77;
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
        assert_true(tn_duration_parse_ms(of(good[i].text), &ms));
        assert_int_equal(ms, good[i].ms);
    }
    ms = 77;
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        assert_false(tn_duration_parse_ms(of(bad[i]), &ms));
        assert_int_equal(ms, 77);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_number_is_seconds_and_a_unit_multiplies_it),
        cmocka_unit_test(anything_else_is_refused_and_leaves_the_output_alone),
        cmocka_unit_test(decimals_are_for_plain_seconds_and_have_three_digits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
