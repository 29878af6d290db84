/* The history of pools: one sample a minute, sums of hours, bounds, pools that come and go. */
#include "unit/unit.h"

#include <stdlib.h>

#include "server/pool_history.h"

#define MINUTE UINT64_C(60000)

struct kit {
    struct server_history history;
    struct server_refusals refusals;
    struct metrics_pools pools;
};

static int setup(void **state) {
    struct kit *kit = calloc(1, sizeof *kit);
    assert_non_null(kit);
    assert_true(server_history_init(&kit->history));
    assert_true(server_refusals_init(&kit->refusals));
    *state = kit;
    return 0;
}

static int teardown(void **state) {
    struct kit *kit = *state;
    server_history_free(&kit->history);
    server_refusals_free(&kit->refusals);
    metrics_pools_clear(&kit->pools);
    free(kit->pools.growths.of);
    free(kit);
    return 0;
}

static void add(struct kit *kit, const char *name, uint64_t active, uint64_t allocated) {
    struct kernel_pool_view view = {.size = 100, .free = 100 - active, .active = active};
    view.name_len = (uint32_t)strlen(name);
    memcpy(view.name, name, view.name_len + 1);
    view.counters.allocated = allocated;
    view.counters.released = allocated - active;
    assert_true(metrics_pools_add(&kit->pools, &view));
}

static void sample(struct kit *kit, uint64_t now_ms) {
    assert_true(metrics_pools_estimate(&kit->pools, now_ms));
    server_history_sample(&kit->history, &kit->pools, &kit->refusals, now_ms);
    metrics_pools_clear(&kit->pools);
}

static const struct history_pool *find(const struct kit *kit, const char *name) {
    for (uint32_t i = 0; i < kit->history.count; i++) {
        if (strcmp(kit->history.of[i]->name, name) == 0) {
            return kit->history.of[i];
        }
    }
    return NULL;
}

static const struct history_sample *nth(const struct history_ring *ring, uint32_t i) {
    return &ring->of[(ring->first + i) % ring->capacity];
}

static void one_sample_a_minute_with_what_happened_since(void **state) {
    struct kit *kit = *state;
    add(kit, "ports", 3, 10);
    sample(kit, 10 * MINUTE + 5);
    add(kit, "ports", 4, 11); /* still the same minute */
    sample(kit, 10 * MINUTE + 15000);
    add(kit, "ports", 5, 14);
    sample(kit, 11 * MINUTE);
    add(kit, "ports", 1, 1); /* dropped and created again */
    sample(kit, 12 * MINUTE);
    const struct history_ring *ring = &find(kit, "ports")->minutes;
    assert_int_equal(ring->count, 3);
    assert_int_equal(nth(ring, 0)->given, 0); /* the time before is unknown */
    assert_int_equal(nth(ring, 0)->states[1], 3);
    assert_int_equal(nth(ring, 1)->given, 4);
    assert_int_equal(nth(ring, 1)->ended, 2);
    assert_int_equal(nth(ring, 1)->peak, 5);
    assert_int_equal(nth(ring, 2)->given, 1);
    assert_int_equal(nth(ring, 2)->time_ms, 12 * MINUTE);
}

static void a_clock_that_goes_back_adds_nothing(void **state) {
    struct kit *kit = *state;
    for (uint64_t minute = 20; minute > 17; minute--) {
        add(kit, "ports", 1, 1);
        sample(kit, minute * MINUTE);
    }
    assert_int_equal(find(kit, "ports")->minutes.count, 1);
}

/* The server has refused for a while when the pool gets its first sample. */
static void refusals_before_the_first_sample_are_no_spike(void **state) {
    struct kit *kit = *state;
    kit->refusals.used = 1;
    kit->refusals.of[0] =
        (struct server_refusal){.name_hash = server_refusal_name_hash("ports", 5), .count = 5000};
    add(kit, "ports", 1, 1);
    sample(kit, MINUTE);
    kit->refusals.of[0].count = 5007;
    add(kit, "ports", 1, 1);
    sample(kit, 2 * MINUTE);
    const struct history_ring *ring = &find(kit, "ports")->minutes;
    assert_int_equal(nth(ring, 0)->refused, 0);
    assert_int_equal(nth(ring, 1)->refused, 7);
}

static void hours_are_sums_and_rings_are_bounded(void **state) {
    struct kit *kit = *state;
    const uint64_t minutes = 60 * (HISTORY_HOURS + 30);
    for (uint64_t i = 0; i < minutes; i++) {
        add(kit, "ports", i % 60 == 30 ? 50 : 7, 100 + 2 * i);
        sample(kit, i * MINUTE + MINUTE * 60 * 24);
    }
    const struct history_pool *pool = find(kit, "ports");
    assert_int_equal(pool->minutes.count, HISTORY_MINUTES);
    assert_int_equal(pool->hours.count, HISTORY_HOURS);
    const struct history_sample *hour = nth(&pool->hours, HISTORY_HOURS - 1);
    assert_int_equal(hour->given, 120);
    assert_int_equal(hour->peak, 50);
    assert_int_equal(hour->states[1], 7);
    assert_int_equal(nth(&pool->minutes, HISTORY_MINUTES - 1)->time_ms,
                     (minutes - 1) * MINUTE + MINUTE * 60 * 24);
    for (uint32_t i = 1; i < HISTORY_HOURS; i++) {
        assert_int_equal(nth(&pool->hours, i)->time_ms - nth(&pool->hours, i - 1)->time_ms,
                         60 * MINUTE);
    }
}

static void pools_come_before_scopes_and_dropped_ones_make_room(void **state) {
    struct kit *kit = *state;
    char name[32];
    for (uint32_t i = 0; i < 2 * HISTORY_POOLS; i++) {
        (void)snprintf(name, sizeof name, "net@scope-%u", i);
        add(kit, name, 1, 1);
    }
    add(kit, "net", 1, 1);
    sample(kit, MINUTE);
    assert_int_equal(kit->history.count, HISTORY_POOLS);
    assert_non_null(find(kit, "net"));
    assert_null(find(kit, "net@scope-2047"));
    add(kit, "net", 2, 3);
    add(kit, "net@scope-2047", 1, 1);
    sample(kit, 2 * MINUTE);
    assert_int_equal(kit->history.count, 2);
    assert_int_equal(find(kit, "net")->minutes.count, 2);
    assert_int_equal(nth(&find(kit, "net")->minutes, 1)->given, 2);
    assert_int_equal(find(kit, "net@scope-2047")->minutes.count, 1);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(one_sample_a_minute_with_what_happened_since, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(refusals_before_the_first_sample_are_no_spike, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(a_clock_that_goes_back_adds_nothing, setup, teardown),
        cmocka_unit_test_setup_teardown(hours_are_sums_and_rings_are_bounded, setup, teardown),
        cmocka_unit_test_setup_teardown(pools_come_before_scopes_and_dropped_ones_make_room, setup,
                                        teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
