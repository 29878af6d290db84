/* What the engine does around commits: time and ticks, reads, events, snapshots, limits, metrics. */
/* tsan */
#include "unit/engine_world.h"

/* ---- Time ---- */

static void time_goes_on_by_the_boot_clock_only(void **state) {
    struct world *world = *state;
    world_open(world);
    uint64_t before = engine_now(world->engine);
    fakeos_clock_wall_set(world->machine, before + 3600000);
    assert_int_equal(engine_now(world->engine), before);
    fakeos_clock_wall_set(world->machine, 5);
    fakeos_clock_advance(world->machine, 250);
    assert_int_equal(engine_now(world->engine), before + 250);
    assert_int_equal(world_alloc(world, "a"), TN_R_OK);
    assert_int_equal(world->answer.result.now_ms, before + 250);
}

static void time_never_goes_back_across_a_restart(void **state) {
    struct world *world = *state;
    world_open(world);
    fakeos_clock_advance(world->machine, 10000);
    assert_int_equal(world_alloc(world, "a"), TN_R_OK);
    uint64_t last = world->answer.result.now_ms;
    fakeos_clock_wall_set(world->machine, last - 8000000);
    world_reopen(world);
    assert_int_equal(engine_now(world->engine), last);
    fakeos_clock_advance(world->machine, 7);
    assert_int_equal(world_alloc(world, "b"), TN_R_OK);
    assert_int_equal(world->answer.result.now_ms, last + 7);
}

static void a_jump_of_the_clock_must_be_confirmed(void **state) {
    struct world *world = *state;
    struct log_error error;
    world_open(world);
    uint64_t last = engine_now(world->engine);
    world_close(world);
    const uint64_t month_ms = 30ull * 86400 * 1000;
    fakeos_clock_wall_set(world->machine, last + month_ms + 1);
    assert_int_equal(ekit_try(&world->options, &world->engine, &error), TN_TIME_JUMP);
    assert_non_null(strstr(error.text, "max_downtime"));
    world->engine = NULL;
    world->options.max_downtime_ms = month_ms * 2;
    world_reopen(world);
    world_close(world);
    world->options.max_downtime_ms = 0;
    world->options.confirm_time_jump = true;
    world_reopen(world);
    assert_int_equal(engine_now(world->engine), last + month_ms + 1);
}

static bool has_expired(void *ctx) {
    struct world *world = ctx;
    struct kernel_usage usage;
    struct kernel_limits limits;
    assert_int_equal(engine_usage(world->engine, &usage, &limits), TN_R_OK);
    return usage.leases == 0;
}

static void what_is_due_happens_without_being_asked(void **state) {
    struct world *world = *state;
    world->options.manual_ticks = false;
    world->engine = ekit_open(&world->options);
    ekit_run_ok(world->engine, ekit_pool(&world->command, "p", 1, 10, 1), &world->answer);
    assert_int_equal(world_alloc(world, "a"), TN_R_OK);
    fakeos_clock_advance(world->machine, 1000);
    ekit_wait(has_expired, world);
}

static void ticks_go_on_until_nothing_is_due(void **state) {
    struct world *world = *state;
    struct asyncs *asyncs = asyncs_new();
    world->options.manual_ticks = false;
    world->options.limits.of[KERNEL_LIMIT_TICK_STEP] = 8;
    world->options.limits_mask |= 1u << KERNEL_LIMIT_TICK_STEP;
    world->engine = ekit_open(&world->options);
    ekit_run_ok(world->engine, ekit_pool(&world->command, "p", 1, 1000, 1), &world->answer);
    for (unsigned i = 0; i < 300; i++) {
        assert_int_equal(async_alloc(world, asyncs, i), TN_R_OK);
    }
    asyncs_wait(asyncs, 300);
    fakeos_clock_advance(world->machine, 5000);
    ekit_wait(has_expired, world);
    asyncs_free(asyncs);
}

/* Keeps the commit thread busy with commands that change nothing, until it is stopped. */
struct noise {
    struct engine *engine;
    struct engine_request request;
    struct ekit_command command;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool stop, stopped;
};

static void noise_done(struct engine_request *request, struct tn_bytes command) {
    struct noise *noise = request->ctx;
    (void)command;
    pthread_mutex_lock(&noise->lock);
    noise->stopped = noise->stop;
    bool go_on = !noise->stop;
    pthread_cond_broadcast(&noise->changed);
    pthread_mutex_unlock(&noise->lock);
    if (go_on) {
        (void)engine_submit(noise->engine, request, &noise->command.decoded);
    }
}

static void what_is_due_happens_under_constant_load(void **state) {
    struct world *world = *state;
    struct noise noise = {.stop = false};
    world->options.manual_ticks = false;
    world->engine = ekit_open(&world->options);
    ekit_run_ok(world->engine, ekit_pool(&world->command, "p", 1, 10, 1), &world->answer);
    assert_int_equal(world_alloc(world, "a"), TN_R_OK);
    noise.engine = world->engine;
    noise.request = (struct engine_request){.done = noise_done, .ctx = &noise};
    ekit_pool(&noise.command, "p", 1, 10, 1); /* it exists */
    pthread_mutex_init(&noise.lock, NULL);
    pthread_cond_init(&noise.changed, NULL);
    assert_int_equal(engine_submit(world->engine, &noise.request, &noise.command.decoded), TN_R_OK);
    fakeos_clock_advance(world->machine, 1000);
    ekit_wait(has_expired, world);
    pthread_mutex_lock(&noise.lock);
    noise.stop = true;
    while (!noise.stopped) {
        pthread_cond_wait(&noise.changed, &noise.lock);
    }
    pthread_mutex_unlock(&noise.lock);
    world_close(world);
    pthread_cond_destroy(&noise.changed);
    pthread_mutex_destroy(&noise.lock);
}

static bool idle_once(void *ctx) {
    struct world *world = ctx;
    return fakelog_idles(world->log) > 0;
}

static void the_log_is_told_when_nothing_happens(void **state) {
    struct world *world = *state;
    world_open(world);
    ekit_wait(idle_once, world);
    assert_int_equal(world_alloc(world, "a"), TN_R_OK);
}

/* ---- Reads ---- */

static void a_read_that_hangs_on_a_passed_deadline_ticks_first(void **state) {
    struct world *world = *state;
    struct engine_lease lease;
    struct kernel_pool_view pool;
    uint64_t lsn;
    world_open(world);
    assert_int_equal(world_alloc(world, "a"), TN_R_OK);
    struct kernel_lease_id id = world->answer.result.lease;
    uint64_t before = world_lsn(world);
    assert_int_equal(engine_verify(world->engine, ENGINE_READ_CURRENT, id, 1, &lease), TN_R_OK);
    assert_int_equal(world_lsn(world), before);
    fakeos_clock_advance(world->machine, 60000);
    assert_int_not_equal(engine_verify(world->engine, ENGINE_READ_CURRENT, id, 1, &lease), TN_R_OK);
    assert_int_equal(lease.view.state, KERNEL_EXPIRED);
    assert_int_equal(world_lsn(world), before + 1);

    assert_int_equal(world_alloc(world, "b"), TN_R_OK);
    fakeos_clock_advance(world->machine, 60000);
    assert_int_equal(
        engine_pool_read(world->engine, ENGINE_READ_CURRENT, tn_bytes_of("p", 1), &pool, &lsn),
        TN_R_OK);
    assert_int_equal(pool.active, 0);
    assert_int_equal(lsn, world_lsn(world));
}

static void a_read_waits_for_the_position_asked_for(void **state) {
    struct world *world = *state;
    struct caller caller = {0};
    struct engine_lease lease;
    world_open(world);
    uint64_t lsn = world_lsn(world);
    fakelog_gate_shut(world->log);
    callers_start(&caller, 1, world->engine);
    fakelog_gate_wait(world->log);
    struct kernel_lease_id id = {.shard = 0, .lsn = lsn + 1};
    assert_int_equal(engine_lease_read(world->engine, ENGINE_READ_CURRENT, id, &lease),
                     TN_R_NOTFOUND);
    assert_int_equal(engine_wait_lsn(world->engine, lsn + 1), TN_R_NOT_YET);
    fakelog_gate_open(world->log);
    assert_int_equal(engine_wait_lsn(world->engine, lsn + 1), TN_R_OK);
    assert_int_equal(engine_lease_read(world->engine, ENGINE_READ_CURRENT, id, &lease), TN_R_OK);
    assert_int_equal(lease.view.state, KERNEL_ACTIVE);
    assert_int_equal(lease.value_count, 1);
    assert_string_equal(lease.values[0].pool, "p");
    callers_join(&caller, 1);
}

/* ---- Events ---- */

struct heard {
    struct world *world;
    struct ekit_command command; /* the command that it tries to execute, if `tries` */
    bool tries;
    unsigned count;
    uint64_t lsn;
    uint32_t index;
    unsigned replayed;
    char last_kind[32];
    char last_pool[32];
    enum tn_result read_code;
    enum tn_result write_code;
};

static void hear(void *ctx, const struct engine_event *event) {
    struct heard *heard = ctx;
    assert_true(event->fact.lsn > heard->lsn ||
                (event->fact.lsn == heard->lsn && event->fact.index > heard->index));
    heard->count++;
    heard->lsn = event->fact.lsn;
    heard->index = event->fact.index;
    heard->replayed += event->replayed;
    (void)snprintf(heard->last_kind, sizeof heard->last_kind, "%s",
                   kernel_event_name(event->fact.kind));
    if (event->fact.value_count > 0) {
        assert_int_equal(event->values[0].pool.at[event->values[0].pool.len], 0);
        (void)snprintf(heard->last_pool, sizeof heard->last_pool, "%s",
                       (const char *)event->values[0].pool.at);
    }
    if (heard->tries) {
        struct engine_lease lease;
        struct kernel_result result = {0};
        heard->read_code =
            engine_lease_read(heard->world->engine, ENGINE_READ_CURRENT, event->fact.lease, &lease);
        engine_execute(heard->world->engine, &heard->command.decoded, &result);
        heard->write_code = result.code;
    }
}

static void events_are_heard_in_order_before_the_call_returns(void **state) {
    struct world *world = *state;
    struct heard heard = {.world = world};
    world->options.event = hear;
    world->options.event_ctx = &heard;
    world_open(world);
    unsigned before = heard.count;
    ekit_alloc(&heard.command, "p", "inside", 1, NULL);
    heard.tries = true;
    assert_int_equal(world_alloc(world, "a"), TN_R_OK);
    assert_int_equal(heard.count, before + 1);
    assert_string_equal(heard.last_kind, "lease.active");
    assert_string_equal(heard.last_pool, "p");
    assert_int_equal(heard.lsn, world->answer.result.lsn);
    /* Inside, it could read; a blocking write was refused, not deadlocked. */
    assert_int_equal(heard.read_code, TN_R_OK);
    assert_int_equal(heard.write_code, TN_R_OVERLOADED);
}

static void events_of_recovery_are_heard_only_if_wanted(void **state) {
    struct world *world = *state;
    struct heard heard = {.world = world};
    world->options.no_snapshot_at_close = true;
    world_open(world);
    assert_int_equal(world_alloc(world, "a"), TN_R_OK);
    world->options.event = hear;
    world->options.event_ctx = &heard;
    world_reopen(world);
    assert_int_equal(heard.count, 0);
    world->options.replay_events = true;
    world_reopen(world);
    assert_int_equal(heard.count, 2);
    assert_int_equal(heard.replayed, 2);
    assert_int_equal(world_alloc(world, "b"), TN_R_OK);
    assert_int_equal(heard.count, 3);
    assert_int_equal(heard.replayed, 2);
}

static void replayed_events_are_the_same_ones(void **state) {
    struct world *world = *state;
    struct heard live = {.world = world};
    world->options.no_snapshot_at_close = true;
    world->options.event = hear;
    world->options.event_ctx = &live;
    world_open(world);
    for (unsigned i = 0; i < 20; i++) {
        assert_int_equal(world_alloc(world, "a"), TN_R_OK);
    }
    world_close(world);
    struct heard again = {.world = world};
    world->options.event_ctx = &again;
    world->options.replay_events = true;
    world_reopen(world);
    assert_int_equal(again.count, live.count);
    assert_int_equal(again.replayed, live.count);
    assert_int_equal(again.lsn, live.lsn);
    assert_int_equal(again.index, live.index);
}

/* One command can cause more events than the buffer holds at first. */
static void a_flood_of_events_loses_none(void **state) {
    struct world *world = *state;
    struct heard heard = {.world = world};
    struct asyncs *asyncs = asyncs_new();
    world->options.limits.of[KERNEL_LIMIT_TICK_STEP] = 65536;
    world->options.limits_mask |= 1u << KERNEL_LIMIT_TICK_STEP;
    world->options.event = hear;
    world->options.event_ctx = &heard;
    world->engine = ekit_open(&world->options);
    ekit_run_ok(world->engine, ekit_pool(&world->command, "p", 1, 100000, 1), &world->answer);
    for (unsigned i = 0; i < 500; i++) {
        ekit_alloc(&world->command, "p", "h", 32, NULL);
        assert_int_equal(
            engine_submit(world->engine, &asyncs->of[i].request, &world->command.decoded), TN_R_OK);
    }
    asyncs_wait(asyncs, 500);
    unsigned before = heard.count;
    assert_int_equal(before, 501);
    fakeos_clock_advance(world->machine, 2000);
    assert_int_equal(engine_tick(world->engine), TN_R_OK);
    assert_int_equal(heard.count, before + 500);
    struct engine_stats stats;
    engine_stats_read(world->engine, &stats);
    assert_int_equal(stats.events_lost, 0);
    asyncs_free(asyncs);
}

/* A callback that submits the next request keeps the engine busy without any other thread. */
struct chain {
    struct engine *engine;
    struct engine_request request;
    struct ekit_command command;
    unsigned left;
    pthread_mutex_t lock;
    pthread_cond_t over;
};

static void chain_done(struct engine_request *request, struct tn_bytes command) {
    struct chain *chain = request->ctx;
    (void)command;
    pthread_mutex_lock(&chain->lock);
    unsigned left = --chain->left;
    pthread_cond_broadcast(&chain->over);
    pthread_mutex_unlock(&chain->lock);
    if (left > 0) {
        (void)engine_submit(chain->engine, request, &chain->command.decoded);
    }
}

static void a_callback_may_submit(void **state) {
    struct world *world = *state;
    struct chain chain = {.left = 50};
    world_open(world);
    chain.engine = world->engine;
    chain.request = (struct engine_request){.done = chain_done, .ctx = &chain};
    pthread_mutex_init(&chain.lock, NULL);
    pthread_cond_init(&chain.over, NULL);
    ekit_alloc(&chain.command, "p", "h", 1, NULL);
    assert_int_equal(engine_submit(world->engine, &chain.request, &chain.command.decoded), TN_R_OK);
    pthread_mutex_lock(&chain.lock);
    while (chain.left > 0) {
        pthread_cond_wait(&chain.over, &chain.lock);
    }
    pthread_mutex_unlock(&chain.lock);
    world_close(world);
    pthread_cond_destroy(&chain.over);
    pthread_mutex_destroy(&chain.lock);
}

/* ---- Snapshots ---- */

static void a_snapshot_and_what_follows_give_the_same_state(void **state) {
    struct world *world = *state;
    struct log_error error;
    world->options.no_snapshot_at_close = true;
    world_open(world);
    for (unsigned i = 0; i < 50; i++) {
        assert_int_equal(world_alloc(world, "before"), TN_R_OK);
    }
    assert_int_equal(engine_snapshot(world->engine, &error), TN_OK);
    assert_int_equal(fakelog_snapshots(world->log), 1);
    for (unsigned i = 0; i < 50; i++) {
        assert_int_equal(world_alloc(world, "after"), TN_R_OK);
    }
    uint64_t hash = ekit_hash(world->engine);
    world_reopen(world);
    struct engine_stats stats;
    engine_stats_read(world->engine, &stats);
    assert_int_equal(stats.recovery_commands, 50);
    assert_int_equal(ekit_hash(world->engine), hash);
    ekit_check(world->engine);
}

static void a_snapshot_that_fails_harms_nothing(void **state) {
    struct world *world = *state;
    struct log_error error;
    world_open(world);
    assert_int_equal(world_alloc(world, "a"), TN_R_OK);
    for (unsigned section = 1; section < 8; section++) {
        fakelog_fail_snapshot(world->log, section);
        assert_int_not_equal(engine_snapshot(world->engine, &error), TN_OK);
        assert_true(strlen(error.text) > 0);
        assert_int_equal(world_alloc(world, "b"), TN_R_OK);
    }
    fakelog_fail_snapshot(world->log, 0);
    assert_int_equal(engine_snapshot(world->engine, &error), TN_OK);
    uint64_t hash = ekit_hash(world->engine);
    world_reopen(world);
    assert_int_equal(ekit_hash(world->engine), hash);
}

static void *snapshot_main(void *arg) {
    struct world *world = arg;
    struct log_error error;
    enum tn_status status = engine_snapshot(world->engine, &error);
    return status == TN_OK ? world : NULL;
}

static bool queue_overflows(void *ctx) {
    struct world *world = ctx;
    struct engine_stats stats;
    engine_stats_read(world->engine, &stats);
    return stats.snapshot_overflows > 0;
}

/* One batch changes more than the queue holds while the snapshot's own thread is stuck: the thread
 * that applies writes the snapshot itself, and neither waits for the other. */
static void a_snapshot_slower_than_the_writers_slows_them_down(void **state) {
    struct world *world = *state;
    struct asyncs *asyncs = asyncs_new();
    const unsigned leases = 2000, touched = 250;
    struct kernel_result *granted = calloc(leases, sizeof *granted);
    char meta[4001];
    pthread_t thread;
    void *taken = NULL;
    assert_non_null(granted);
    memset(meta, 'x', sizeof meta - 1);
    meta[sizeof meta - 1] = '\0';
    world->options.limits.of[KERNEL_LIMIT_TEXT_BYTES] = 64 << 20;
    world->options.snapshot_queue_bytes = 1; /* the smallest possible value */
    world->options.no_snapshot_at_close = true;
    world->engine = ekit_open(&world->options);
    ekit_run_ok(world->engine, ekit_pool(&world->command, "p", 1, 5000, 3600), &world->answer);
    for (unsigned i = 0; i < leases; i++) {
        ekit_run_ok(world->engine, ekit_alloc_large(&world->command, "p", "h", 1, NULL, 4000),
                    &world->answer);
        granted[i] = world->answer.result;
    }
    fakelog_snapshot_gate_shut(world->log);
    assert_int_equal(pthread_create(&thread, NULL, snapshot_main, world), 0);
    fakelog_snapshot_gate_wait(world->log);
    for (unsigned i = 0; i < touched; i++) {
        ekit_touch(&world->command, &granted[i * (leases / touched)], meta);
        assert_int_equal(
            engine_submit(world->engine, &asyncs->of[i].request, &world->command.decoded), TN_R_OK);
    }
    ekit_wait(queue_overflows, world);
    fakelog_snapshot_gate_open(world->log);
    asyncs_wait(asyncs, touched);
    assert_int_equal(pthread_join(thread, &taken), 0);
    assert_non_null(taken);
    assert_int_equal(fakelog_snapshots(world->log), 1);
    uint64_t hash = ekit_hash(world->engine);
    world_reopen(world);
    assert_true(ekit_hash(world->engine) == hash);
    ekit_check(world->engine);
    free(granted);
    asyncs_free(asyncs);
}

static bool snapshot_taken(void *ctx) {
    struct world *world = ctx;
    return fakelog_snapshots(world->log) > 0;
}

static void enough_log_makes_a_snapshot_by_itself(void **state) {
    struct world *world = *state;
    world->options.snapshot_bytes = 1000;
    world_open(world);
    for (unsigned i = 0; i < 30; i++) {
        assert_int_equal(world_alloc(world, "a"), TN_R_OK);
    }
    ekit_wait(snapshot_taken, world);
}

static void closing_takes_a_snapshot_only_after_a_write(void **state) {
    struct world *world = *state;
    world_open(world);
    world_close(world);
    assert_int_equal(fakelog_snapshots(world->log), 1);
    world_reopen(world);
    world_close(world);
    assert_int_equal(fakelog_snapshots(world->log), 1);
}

/* ---- Limits ---- */

static void limits_can_be_changed_at_a_start(void **state) {
    struct world *world = *state;
    struct kernel_usage usage;
    struct kernel_limits limits;
    struct log_error error;
    world_open(world);
    for (unsigned i = 0; i < 20; i++) {
        assert_int_equal(world_alloc(world, "a"), TN_R_OK);
    }
    uint64_t lsn = world_lsn(world);
    world->options.limits.of[KERNEL_LIMIT_LEASES] = 20000;
    world_reopen(world);
    assert_int_equal(world_lsn(world), lsn + 1);
    assert_int_equal(engine_usage(world->engine, &usage, &limits), TN_R_OK);
    assert_int_equal(limits.of[KERNEL_LIMIT_LEASES], 20000);
    assert_int_equal(usage.leases, 20);
    ekit_check(world->engine);
    uint64_t hash = ekit_hash(world->engine);

    /* A caller that requests no limits gets those in force. */
    world->options.limits_mask = 0;
    world_reopen(world);
    assert_int_equal(ekit_hash(world->engine), hash);
    world_close(world);

    world->options.limits_mask = 1u << KERNEL_LIMIT_LEASES;
    world->options.limits.of[KERNEL_LIMIT_LEASES] = 10;
    assert_int_equal(ekit_try(&world->options, &world->engine, &error), TN_INVALID);
    assert_true(strlen(error.text) > 0);
    world->options.limits.of[KERNEL_LIMIT_LEASES] = 0;
    assert_int_equal(ekit_try(&world->options, &world->engine, &error), TN_INVALID);
    assert_non_null(strstr(error.text, "leases_max"));
    world->engine = NULL;
    world->options.limits_mask = 0;
    world_reopen(world);
    assert_int_equal(ekit_hash(world->engine), hash);
}

/* ---- Metrics ---- */

struct told {
    unsigned count;
    struct engine_metrics last;
};

static void tell(void *ctx, const struct engine_metrics *metrics) {
    struct told *told = ctx;
    told->count++;
    told->last = *metrics;
}

static void metrics_are_told_when_they_change_at_their_interval(void **state) {
    struct world *world = *state;
    struct told told = {0};
    world->options.metrics = tell;
    world->options.metrics_ctx = &told;
    world->engine = ekit_open(&world->options);
    ekit_run_ok(world->engine, ekit_pool_sticky(&world->command, "ids", 1, 100, 3600),
                &world->answer);
    ekit_run_ok(world->engine, ekit_alloc(&world->command, "ids", "device/1", 1, NULL),
                &world->answer);
    assert_int_equal(engine_tick(world->engine), TN_R_OK);
    assert_int_equal(told.count, 1);
    assert_string_equal(told.last.pool, "ids");
    assert_int_equal(told.last.allocated_count, 1);
    assert_int_equal(told.last.base_lease_seconds, 3600);
    assert_int_equal(told.last.new_device_rate_per_hour_micro, 1000000);

    ekit_run_ok(world->engine, ekit_alloc(&world->command, "ids", "device/2", 1, NULL),
                &world->answer);
    assert_int_equal(engine_tick(world->engine), TN_R_OK);
    assert_int_equal(told.count, 1); /* too soon */
    fakeos_clock_advance(world->machine, 5000);
    assert_int_equal(engine_tick(world->engine), TN_R_OK);
    assert_int_equal(told.count, 2);
    assert_int_equal(told.last.allocated_count, 2);
    fakeos_clock_advance(world->machine, 5000);
    assert_int_equal(engine_tick(world->engine), TN_R_OK);
    assert_int_equal(told.count, 2); /* nothing changed */
}

int main(void) {
    const struct CMUnitTest tests[] = {
        WORLD_TEST(time_goes_on_by_the_boot_clock_only),
        WORLD_TEST(time_never_goes_back_across_a_restart),
        WORLD_TEST(a_jump_of_the_clock_must_be_confirmed),
        WORLD_TEST(what_is_due_happens_without_being_asked),
        WORLD_TEST(ticks_go_on_until_nothing_is_due),
        WORLD_TEST(what_is_due_happens_under_constant_load),
        WORLD_TEST(the_log_is_told_when_nothing_happens),
        WORLD_TEST(a_read_that_hangs_on_a_passed_deadline_ticks_first),
        WORLD_TEST(a_read_waits_for_the_position_asked_for),
        WORLD_TEST(events_are_heard_in_order_before_the_call_returns),
        WORLD_TEST(events_of_recovery_are_heard_only_if_wanted),
        WORLD_TEST(replayed_events_are_the_same_ones),
        WORLD_TEST(a_flood_of_events_loses_none),
        WORLD_TEST(a_callback_may_submit),
        WORLD_TEST(a_snapshot_and_what_follows_give_the_same_state),
        WORLD_TEST(a_snapshot_that_fails_harms_nothing),
        WORLD_TEST(a_snapshot_slower_than_the_writers_slows_them_down),
        WORLD_TEST(enough_log_makes_a_snapshot_by_itself),
        WORLD_TEST(closing_takes_a_snapshot_only_after_a_write),
        WORLD_TEST(limits_can_be_changed_at_a_start),
        WORLD_TEST(metrics_are_told_when_they_change_at_their_interval),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
