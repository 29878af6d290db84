/* Sliding counts, against a plain list of what happened in every second. */
#include "unit/unit.h"

#include "base/rate.h"

#define SECONDS 6000u

/* The twin remembers every second from zero on. */
struct twin {
    uint64_t events[SECONDS];
    uint64_t now;
    uint64_t window;
};

static uint64_t twin_sum(const struct twin *twin, uint64_t now) {
    uint64_t sum = 0;
    for (uint64_t t = now > twin->window ? now - twin->window : 0; t <= now; t++) {
        sum += twin->events[t];
    }
    return sum;
}

static bool twin_advance(struct twin *twin, uint64_t second, uint64_t floor) {
    bool below = twin_sum(twin, twin->now) < floor;
    for (; twin->now < second; twin->now++) {
        below = below || twin_sum(twin, twin->now + 1) < floor;
    }
    return below;
}

static struct tn_rate *rate_new(uint32_t window_max, uint32_t window, uint64_t second) {
    struct tn_rate *rate = malloc(tn_rate_bytes(window_max));
    assert_non_null(rate);
    memset(rate, 0xee, tn_rate_bytes(window_max));
    tn_rate_init(rate, window_max, window, second);
    return rate;
}

static void random_life(struct tn_prng *random, uint32_t window_max) {
    static struct twin twin;
    twin = (struct twin){.window = unit_below(random, window_max + 1)};
    twin.now = unit_below(random, 3);
    struct tn_rate *rate = rate_new(window_max, (uint32_t)twin.window, twin.now);
    while (twin.now + 400 < SECONDS) {
        uint32_t dice = unit_below(random, 100);
        if (dice < 50) {
            uint32_t n = unit_below(random, 10);
            tn_rate_add(rate, n);
            twin.events[twin.now] += n;
        } else if (dice < 95) {
            /* Mostly small steps; sometimes past the window, past the slots, or not at all. */
            uint64_t second = twin.now + unit_below(random, dice < 90 ? 4 : window_max * 2 + 3);
            uint64_t floor = unit_below(random, 40);
            assert_int_equal(tn_rate_advance(rate, second, floor),
                             twin_advance(&twin, second, floor));
        } else {
            uint32_t window = unit_below(random, window_max + 1);
            /* Counts that have left the slots do not return, even if the window grows later. */
            tn_rate_window_set(rate, window);
            twin.window = window;
        }
        assert_int_equal(rate->second, twin.now);
        assert_int_equal(rate->sum, twin_sum(&twin, twin.now));
        uint64_t later = twin.now + unit_below(random, window_max * 2 + 3);
        assert_int_equal(tn_rate_sum_at(rate, rate->window, later), twin_sum(&twin, later));
    }
    free(rate);
}

static void sums_match_the_twin_whatever_the_window(void **state) {
    (void)state;
    struct tn_prng random = unit_random();
    const uint32_t window_max[] = {0, 1, 2, 7, 60, 90};
    for (size_t i = 0; i < sizeof window_max / sizeof window_max[0]; i++) {
        random_life(&random, window_max[i]);
    }
}

static void the_window_includes_both_its_ends(void **state) {
    (void)state;
    struct tn_rate *rate = rate_new(10, 10, 100);
    tn_rate_add(rate, 5);
    assert_false(tn_rate_advance(rate, 110, 5));
    assert_int_equal(rate->sum, 5);
    assert_true(tn_rate_advance(rate, 111, 5));
    assert_int_equal(rate->sum, 0);
    free(rate);
}

static void a_wider_window_finds_what_is_still_stored(void **state) {
    (void)state;
    struct tn_rate *rate = rate_new(10, 2, 100);
    tn_rate_add(rate, 5);
    tn_rate_advance(rate, 108, 0);
    assert_int_equal(rate->sum, 0);
    tn_rate_window_set(rate, 8);
    assert_int_equal(rate->sum, 5);
    tn_rate_window_set(rate, 7);
    assert_int_equal(rate->sum, 0);
    free(rate);
}

static void a_leap_over_everything_empties_it(void **state) {
    (void)state;
    struct tn_rate *rate = rate_new(3600, 3600, 1);
    tn_rate_add(rate, 7);
    assert_int_equal(tn_rate_sum_at(rate, rate->window, UINT64_MAX), 0);
    assert_true(tn_rate_advance(rate, UINT64_MAX, 1));
    assert_int_equal(rate->sum, 0);
    tn_rate_add(rate, 3);
    assert_false(tn_rate_advance(rate, UINT64_MAX, 3));
    assert_true(tn_rate_advance(rate, UINT64_MAX, 4));
    free(rate);
}

static void a_full_counter_stays_full_and_the_sum_with_it(void **state) {
    (void)state;
    struct tn_rate *rate = rate_new(1, 1, 9);
    tn_rate_add(rate, UINT32_MAX - 1);
    tn_rate_add(rate, 3);
    tn_rate_add(rate, UINT32_MAX);
    assert_int_equal(rate->sum, UINT32_MAX);
    tn_rate_advance(rate, 10, 0);
    tn_rate_add(rate, 1);
    assert_int_equal(rate->sum, UINT64_C(1) + UINT32_MAX);
    tn_rate_advance(rate, 11, 0);
    assert_int_equal(rate->sum, 1);
    free(rate);
}

static void a_floor_of_zero_is_never_missed(void **state) {
    (void)state;
    struct tn_rate *rate = rate_new(5, 5, 0);
    assert_false(tn_rate_advance(rate, 0, 0));
    assert_false(tn_rate_advance(rate, 1000, 0));
    assert_true(tn_rate_advance(rate, 1000, 1));
    free(rate);
}

static void step_back(void *rate) {
    tn_rate_advance(rate, 99, 0);
}

static void going_back_in_time_is_a_bug(void **state) {
    (void)state;
    struct tn_rate *rate = rate_new(5, 5, 100);
    assert_true(unit_aborts(step_back, rate));
    free(rate);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sums_match_the_twin_whatever_the_window),
        cmocka_unit_test(the_window_includes_both_its_ends),
        cmocka_unit_test(a_wider_window_finds_what_is_still_stored),
        cmocka_unit_test(a_leap_over_everything_empties_it),
        cmocka_unit_test(a_full_counter_stays_full_and_the_sum_with_it),
        cmocka_unit_test(a_floor_of_zero_is_never_missed),
        cmocka_unit_test(going_back_in_time_is_a_bug),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
