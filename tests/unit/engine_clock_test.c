/* A log that is ahead of the wall clock: that is reported, and the log's time runs slower until the
 * wall clock has caught up, never back. */
#include "unit/engine_world.h"

#define HOUR_MS 3600000u
#define MELT_MS (8u * HOUR_MS) /* how long it takes to lose an hour */

struct told {
    unsigned count;
    char last[256];
};

static void on_notice(void *ctx, const char *line) {
    struct told *told = ctx;
    if (strncmp(line, "event=clock_ahead ", 18) == 0) {
        told->count++;
        (void)snprintf(told->last, sizeof told->last, "%s", line);
    }
}

static uint64_t wall_of(struct world *world) {
    const struct os *os = fakeos_table(world->machine);
    return os->clock_wall_ms(os->ctx);
}

static uint64_t ahead_of(struct world *world) {
    struct engine_stats stats;
    engine_stats_read(world->engine, &stats);
    return stats.log_ahead_ms;
}

/* An engine over a log whose last batch is an hour ahead of the wall clock. */
static uint64_t open_ahead(struct world *world, struct told *told) {
    world->options.notice = on_notice;
    world->options.notice_ctx = told;
    world_open(world);
    assert_int_equal(told->count, 0);
    assert_int_equal(ahead_of(world), 0);
    uint64_t last_ms = engine_now(world->engine);
    world_close(world);
    fakeos_clock_wall_set(world->machine, last_ms - HOUR_MS);
    world->engine = ekit_open(&world->options);
    return last_ms;
}

static void a_start_tells_that_the_log_is_ahead(void **state) {
    struct world *world = *state;
    struct told told = {.count = 0};
    uint64_t last_ms = open_ahead(world, &told);
    assert_int_equal(told.count, 1);
    assert_non_null(strstr(told.last, "seconds=3600"));
    assert_int_equal(engine_now(world->engine), last_ms);
    assert_int_equal(ahead_of(world), HOUR_MS);
    world_close(world);
}

static void a_lead_melts_by_an_eighth_of_the_time_and_time_never_goes_back(void **state) {
    struct world *world = *state;
    struct told told = {.count = 0};
    uint64_t now_ms = open_ahead(world, &told);
    uint64_t base_ms = now_ms;
    fakeos_clock_advance(world->machine, 8000);
    assert_int_equal(engine_now(world->engine), base_ms + 7000);
    assert_int_equal(ahead_of(world), HOUR_MS - 1000);
    for (unsigned i = 0; i < 100; i++) {
        uint64_t before_ms = engine_now(world->engine);
        fakeos_clock_advance(world->machine, 1);
        uint64_t after_ms = engine_now(world->engine);
        assert_true(after_ms == before_ms || after_ms == before_ms + 1);
    }
    fakeos_clock_advance(world->machine, MELT_MS - 8100);
    assert_int_equal(engine_now(world->engine), wall_of(world));
    assert_int_equal(ahead_of(world), 0);
    fakeos_clock_advance(world->machine, HOUR_MS);
    assert_int_equal(engine_now(world->engine), wall_of(world));
    world_close(world);
}

static void a_restart_goes_on_melting(void **state) {
    struct world *world = *state;
    struct told told = {.count = 0};
    (void)open_ahead(world, &told);
    fakeos_clock_advance(world->machine, MELT_MS / 2);
    uint64_t before_ms = engine_now(world->engine);
    assert_int_equal(engine_tick(world->engine), TN_R_OK);
    world_reopen(world);
    assert_int_equal(told.count, 2);
    assert_non_null(strstr(told.last, "seconds=1800"));
    assert_int_equal(engine_now(world->engine), before_ms);
    fakeos_clock_advance(world->machine, MELT_MS / 2);
    assert_int_equal(engine_now(world->engine), wall_of(world));
    world_reopen(world);
    assert_int_equal(told.count, 2);
    world_close(world);
}

static void a_lease_lasts_longer_while_the_lead_melts_never_shorter(void **state) {
    struct world *world = *state;
    struct told told = {.count = 0};
    struct engine_lease lease;
    (void)open_ahead(world, &told);
    assert_int_equal(world_alloc(world, "h"), TN_R_OK);
    struct kernel_lease_id id = world->answer.result.lease;
    fakeos_clock_advance(world->machine, 60000);
    assert_int_equal(engine_verify(world->engine, ENGINE_READ_CURRENT, id, 1, &lease), TN_R_OK);
    fakeos_clock_advance(world->machine, 60000 / 7 + 1);
    assert_int_equal(engine_verify(world->engine, ENGINE_READ_CURRENT, id, 1, &lease), TN_R_STALE);
    world_close(world);
}

/* The lead that shrinks is the one at the start; the reported lead is the current one. */
static void a_wall_clock_set_back_while_running_is_told_and_changes_nothing(void **state) {
    struct world *world = *state;
    world_open(world);
    uint64_t base_ms = engine_now(world->engine);
    fakeos_clock_wall_set(world->machine, base_ms - HOUR_MS);
    assert_int_equal(ahead_of(world), HOUR_MS);
    fakeos_clock_advance(world->machine, 8000);
    assert_int_equal(engine_now(world->engine), base_ms + 8000);
    assert_int_equal(ahead_of(world), HOUR_MS);
    fakeos_clock_wall_set(world->machine, base_ms + HOUR_MS);
    assert_int_equal(ahead_of(world), 0);
    assert_int_equal(engine_now(world->engine), base_ms + 8000);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        WORLD_TEST(a_start_tells_that_the_log_is_ahead),
        WORLD_TEST(a_lead_melts_by_an_eighth_of_the_time_and_time_never_goes_back),
        WORLD_TEST(a_restart_goes_on_melting),
        WORLD_TEST(a_lease_lasts_longer_while_the_lead_melts_never_shorter),
        WORLD_TEST(a_wall_clock_set_back_while_running_is_told_and_changes_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
