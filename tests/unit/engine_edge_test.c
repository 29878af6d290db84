/* The engine where its callers or its log do what is rarely done: callbacks that call back, clocks at
 * their ends, quiet logs, full batches, cancelled threads. */
/* tsan */
#include "unit/engine_world.h"

#include <sched.h>
#include <stdatomic.h>
#include <sys/resource.h>

#include "engine/internal.h"
#include "engine/park.h"
#include "engine/payload.h"

#define DAY_MS ((uint64_t)86400 * 1000)

static enum tn_result execute(struct engine *engine, const struct ekit_command *command) {
    struct kernel_result result = {0};
    engine_execute(engine, &command->decoded, &result);
    return result.code;
}

/* ---- Time ---- */

static void a_clock_at_zero_starts_at_one(void **state) {
    struct world *world = *state;
    fakeos_clock_wall_set(world->machine, 0);
    world_open(world);
    assert_true(fakelog_batch_now(world->log, 0) >= 1);
    world_reopen(world);
    assert_int_equal(world_alloc(world, "a"), TN_R_OK);
}

static void a_logged_time_that_cannot_be_is_damage(void **state) {
    static const uint64_t bad[] = {0, KERNEL_TIME_MAX + 1, UINT64_MAX};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        struct world *world;
        struct log_error error;
        assert_int_equal(world_make((void **)&world), 0);
        world->options.no_snapshot_at_close = true;
        world_open(world);
        world_close(world);
        fakelog_batch_set_now(world->log, 0, bad[i]);
        assert_int_equal(ekit_try(&world->options, &world->engine, &error), TN_CORRUPT);
        assert_non_null(strstr(error.text, "time"));
        world->engine = NULL;
        assert_int_equal(world_free((void **)&world), 0);
    }
    (void)state;
}

static void a_command_of_a_newer_version_is_not_skipped(void **state) {
    struct world *world = *state;
    struct log_error error;
    world->options.no_snapshot_at_close = true;
    world_open(world);
    world_close(world);
    struct log_batch last = fakelog_batch(world->log, fakelog_batches(world->log) - 1);
    struct engine_payload payload = engine_payload_of(last.payload, last.len);
    *(uint8_t *)(uintptr_t)engine_payload_next(&payload).at =
        250; /* the verb of its first command */
    assert_int_equal(ekit_try(&world->options, &world->engine, &error), TN_VERSION);
    assert_non_null(strstr(error.text, "a newer version logged it"));
    world->engine = NULL;
}

static void an_idle_month_is_no_downtime(void **state) {
    struct world *world = *state;
    world_open(world);
    fakeos_clock_advance(world->machine, 31 * DAY_MS);
    uint64_t now = engine_now(world->engine);
    world_reopen(world);
    assert_int_equal(fakelog_batch_now(world->log, fakelog_batches(world->log) - 1), now);

    /* Closing again at once has nothing to say. */
    unsigned batches = fakelog_batches(world->log);
    world_reopen(world);
    assert_int_equal(fakelog_batches(world->log), batches);
}

static uint64_t hash_of(struct engine *engine, uint64_t *ret_lsn) {
    uint64_t hash = 0;
    assert_int_equal(engine_hash(engine, &hash, ret_lsn), TN_R_OK);
    return hash;
}

/* The log skips LSNs at a start: the next command has the LSN that the log assigns, reads show the
 * last LSN in use, and replay leads to the same state. */
static void lsns_that_the_log_passes_over_are_given_to_nobody(void **state) {
    struct world *world = *state;
    uint64_t lsn;
    uint64_t again;
    world->options.no_snapshot_at_close = true;
    world_open(world);
    assert_int_equal(world_alloc(world, "a"), TN_R_OK);
    uint64_t hash = hash_of(world->engine, &lsn);
    fakelog_set_skips(world->log, 1000);
    for (unsigned i = 0; i < 3; i++) {
        world_reopen(world);
        assert_true(hash_of(world->engine, &again) == hash);
        assert_true(again == lsn);
        assert_int_equal(world_alloc(world, "a"), TN_R_OK);
        hash = hash_of(world->engine, &again);
        assert_true(again == lsn + 1001);
        lsn = again;
    }
    assert_int_equal(world_alloc(world, "a"), TN_R_OK);
    hash = hash_of(world->engine, &again);
    assert_true(again == lsn + 1);
    world_reopen(world);
    assert_true(hash_of(world->engine, &lsn) == hash);
}

struct batches_wait {
    struct fakelog *log;
    unsigned count;
};

static bool batches_are(void *ctx) {
    struct batches_wait *wait = ctx;
    return fakelog_batches(wait->log) >= wait->count;
}

static void a_quiet_day_is_logged(void **state) {
    struct world *world = *state;
    world->options.manual_ticks = false;
    world_open(world);
    struct batches_wait wait = {.log = world->log, .count = fakelog_batches(world->log) + 1};
    fakeos_clock_advance(world->machine, DAY_MS);
    ekit_wait(batches_are, &wait);
    assert_int_equal(fakelog_batch_now(world->log, wait.count - 1), engine_now(world->engine));
}

static void more_restores_than_can_be_followed_are_refused(void **state) {
    struct world *world = *state;
    struct log_error error;
    world_open(world);
    world_close(world);
    fakelog_set_shard(world->log, (uint64_t)1000 << 32);
    assert_int_equal(ekit_try(&world->options, &world->engine, &error), TN_INVALID);
    assert_non_null(strstr(error.text, "restored"));
    world->engine = NULL;
}

/* ---- Callbacks ---- */

/* Two engines whose listeners write to both. */
struct pair {
    struct world *a, *b;
    struct ekit_command command;
    bool armed;
    enum tn_result in_a[3]; /* to a, to b, to a again: in a's callback */
    enum tn_result in_b[2]; /* to a, to b: in b's callback, which a's callback has caused */
};

static void hear_b(void *ctx, const struct engine_event *event) {
    struct pair *pair = ctx;
    (void)event;
    if (pair->armed) {
        pair->in_b[0] = execute(pair->a->engine, &pair->command);
        pair->in_b[1] = execute(pair->b->engine, &pair->command);
    }
}

static void hear_a(void *ctx, const struct engine_event *event) {
    struct pair *pair = ctx;
    (void)event;
    if (pair->armed) {
        pair->in_a[0] = execute(pair->a->engine, &pair->command);
        pair->in_a[1] = execute(pair->b->engine, &pair->command);
        pair->in_a[2] = execute(pair->a->engine, &pair->command);
    }
}

static void callbacks_nest_across_engines(void **state) {
    struct pair pair = {.a = *state};
    assert_int_equal(world_make((void **)&pair.b), 0);
    pair.a->options.event = hear_a;
    pair.a->options.event_ctx = &pair;
    pair.b->options.event = hear_b;
    pair.b->options.event_ctx = &pair;
    world_open(pair.a);
    world_open(pair.b);
    ekit_alloc(&pair.command, "p", "h", 1, NULL);
    pair.armed = true;
    assert_int_equal(world_alloc(pair.a, "first"), TN_R_OK);
    pair.armed = false;
    assert_int_equal(pair.in_a[0], TN_R_OVERLOADED);
    assert_int_equal(pair.in_a[1], TN_R_OK);
    assert_int_equal(pair.in_a[2], TN_R_OVERLOADED);
    assert_int_equal(pair.in_b[0], TN_R_OVERLOADED);
    assert_int_equal(pair.in_b[1], TN_R_OVERLOADED);
    assert_int_equal(world_alloc(pair.a, "second"), TN_R_OK);
    assert_int_equal(world_free((void **)&pair.b), 0);
}

/* A listener to notices that tries what it must not. */
struct listener {
    struct world *world;
    struct ekit_command command;
    _Atomic unsigned inside, overlaps, count;
    enum tn_result write_code;
    enum tn_status snapshot_status;
    bool submits;
    struct async *async;
};

static void listen(void *ctx, const char *line) {
    struct listener *listener = ctx;
    struct log_error error;
    if (atomic_fetch_add(&listener->inside, 1) > 0 && !listener->submits) {
        atomic_fetch_add(&listener->overlaps, 1);
    }
    atomic_fetch_add(&listener->count, 1);
    if (listener->world->engine != NULL && strstr(line, "event=snapshot ") != NULL) {
        listener->write_code = execute(listener->world->engine, &listener->command);
        listener->snapshot_status = engine_snapshot(listener->world->engine, &error);
        if (listener->submits) {
            listener->submits = false;
            assert_int_equal(engine_submit(listener->world->engine, &listener->async->request,
                                           &listener->command.decoded),
                             TN_R_OK);
        }
    }
    sched_yield();
    atomic_fetch_sub(&listener->inside, 1);
}

static void a_notice_is_a_callback_like_others(void **state) {
    struct world *world = *state;
    struct log_error error;
    struct listener listener = {.world = world};
    world->options.notice = listen;
    world->options.notice_ctx = &listener;
    world_open(world);
    ekit_alloc(&listener.command, "p", "h", 1, NULL);
    assert_int_equal(engine_snapshot(world->engine, &error), TN_OK);
    assert_int_equal(listener.write_code, TN_R_OVERLOADED);
    assert_int_equal(listener.snapshot_status, TN_OVERLOAD);
    world_close(world);
}

static void *notices_main(void *arg) {
    struct listener *listener = arg;
    for (unsigned i = 0; i < 200; i++) {
        engine_notice(listener->world->engine, "event=test n=%u", i);
    }
    return NULL;
}

static void notices_come_one_at_a_time(void **state) {
    struct world *world = *state;
    pthread_t threads[4];
    struct listener listener = {.world = world};
    world->options.notice = listen;
    world->options.notice_ctx = &listener;
    world_open(world);
    atomic_store(&listener.count, 0);
    for (unsigned i = 0; i < 4; i++) {
        assert_int_equal(pthread_create(&threads[i], NULL, notices_main, &listener), 0);
    }
    for (unsigned i = 0; i < 4; i++) {
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    }
    assert_int_equal(atomic_load(&listener.count), 4 * 200);
    assert_int_equal(atomic_load(&listener.overlaps), 0);
    world_close(world);
}

/* Without threads, what the listener submits is committed inside the notice, and may be worth a
 * snapshot itself. */
static void a_notice_may_submit_without_threads(void **state) {
    struct world *world = *state;
    struct asyncs *asyncs = asyncs_new();
    struct log_error error;
    struct listener listener = {.world = world, .submits = true, .async = &asyncs->of[0]};
    world->options.no_threads = true;
    world->options.snapshot_bytes = 1;
    world->options.notice = listen;
    world->options.notice_ctx = &listener;
    ekit_alloc(&listener.command, "p", "h", 1, NULL);
    world_open(world);
    assert_int_equal(engine_snapshot(world->engine, &error), TN_OK);
    assert_int_equal(asyncs->done_count, 1);
    world_close(world);
    asyncs_free(asyncs);
}

/* ---- Snapshots ---- */

static void *snapshots_main(void *arg) {
    struct world *world = arg;
    struct log_error error;
    for (unsigned i = 0; i < 50; i++) {
        assert_int_equal(engine_snapshot(world->engine, &error), TN_OK);
    }
    return NULL;
}

static void snapshots_at_once_take_turns_without_threads(void **state) {
    struct world *world = *state;
    pthread_t threads[3];
    world->options.no_threads = true;
    world_open(world);
    for (unsigned i = 0; i < 3; i++) {
        assert_int_equal(pthread_create(&threads[i], NULL, snapshots_main, world), 0);
    }
    for (unsigned i = 0; i < 3; i++) {
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    }
    uint64_t hash = ekit_hash(world->engine);
    world_reopen(world);
    assert_int_equal(ekit_hash(world->engine), hash);
}

/* ---- Cancelled callers ---- */

/* The thread is canceled inside the call, and the call still returns; then the thread
 * disables cancellation, which the address sanitizer does not survive. */
static void *cancelled_main(void *arg) {
    struct world *world = arg;
    struct ekit_command command;
    int before = PTHREAD_CANCEL_DISABLE;
    ekit_alloc(&command, "p", "cancelled", 1, NULL);
    enum tn_result code = execute(world->engine, &command);
    assert_int_equal(pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &before), 0);
    assert_int_equal(before, PTHREAD_CANCEL_ENABLE);
    assert_int_equal(code, TN_R_OK);
    return NULL;
}

static void a_cancelled_caller_leaves_nothing_behind(void **state) {
    struct world *world = *state;
    pthread_t threads[3];
    world_open(world);
    uint64_t lsn = world_lsn(world);
    fakelog_gate_shut(world->log);
    for (unsigned i = 0; i < 3; i++) { /* one that leads, two that wait */
        assert_int_equal(pthread_create(&threads[i], NULL, cancelled_main, world), 0);
        wait_for_queue(world, i + 1);
    }
    for (unsigned i = 0; i < 3; i++) {
        assert_int_equal(pthread_cancel(threads[i]), 0);
    }
    fakelog_gate_open(world->log);
    for (unsigned i = 0; i < 3; i++) {
        void *result;
        assert_int_equal(pthread_join(threads[i], &result), 0);
        assert_null(result);
    }
    assert_int_equal(world_alloc(world, "next"), TN_R_OK);
    assert_int_equal(world_lsn(world), lsn + 4);
}

/* ---- Reads ---- */

static void an_ended_lease_is_forgotten_in_time(void **state) {
    struct world *world = *state;
    struct engine_lease lease;
    struct ekit_answer released;
    world_open(world);
    assert_int_equal(world_alloc(world, "h"), TN_R_OK);
    struct kernel_lease_id id = world->answer.result.lease;
    ekit_run_ok(world->engine, ekit_release(&world->command, &world->answer.result, "h"),
                &released);
    uint64_t lsn = world_lsn(world);
    assert_int_equal(engine_lease_read(world->engine, ENGINE_READ_CURRENT, id, &lease), TN_R_OK);
    assert_int_equal(world_lsn(world), lsn);
    uint64_t kept_s = kernel_limits_default().of[KERNEL_LIMIT_HISTORY_SECONDS];
    fakeos_clock_advance(world->machine, kept_s * 1000);
    assert_int_equal(engine_lease_read(world->engine, ENGINE_READ_CURRENT, id, &lease),
                     TN_R_RETIRED);
    assert_int_equal(world_lsn(world), lsn + 1);
    assert_int_equal(engine_lease_read(world->engine, ENGINE_READ_CURRENT, id, &lease),
                     TN_R_RETIRED);
    assert_int_equal(world_lsn(world), lsn + 1);
}

static void a_list_by_state_sees_what_has_just_ended(void **state) {
    struct world *world = *state;
    struct kernel_lease_filter filter = {.state = KERNEL_EXPIRED};
    struct engine_lease leases[4];
    uint64_t cursor = 0;
    uint32_t count = 0;
    uint64_t lsn = 0;
    world_open(world);
    assert_int_equal(world_alloc(world, "h"), TN_R_OK);
    fakeos_clock_advance(world->machine, 60000);
    assert_int_equal(engine_leases_list(world->engine, ENGINE_READ_CURRENT, &filter, &cursor,
                                        leases, 4, &count, &lsn),
                     TN_R_OK);
    assert_int_equal(count, 1);
}

/* What is due need not be on the page yet: time puts it there. So the second page wants a tick too. */
static void later_pages_of_a_list_see_what_has_just_ended(void **state) {
    struct world *world = *state;
    struct kernel_lease_filter filter = {.state = KERNEL_EXPIRED};
    struct engine_lease leases[4];
    uint64_t cursor = 0;
    uint32_t count = 0;
    uint64_t lsn = 0;
    world_open(world);
    assert_int_equal(world_alloc(world, "first"), TN_R_OK);
    assert_int_equal(world_alloc(world, "first"), TN_R_OK);
    fakeos_clock_advance(world->machine, 30000);
    assert_int_equal(world_alloc(world, "later"), TN_R_OK);
    fakeos_clock_advance(world->machine, 30000);
    assert_int_equal(engine_leases_list(world->engine, ENGINE_READ_CURRENT, &filter, &cursor,
                                        leases, 1, &count, &lsn),
                     TN_R_OK);
    assert_int_equal(count, 1);
    assert_true(cursor != 0);
    fakeos_clock_advance(world->machine, 30000);
    assert_int_equal(engine_leases_list(world->engine, ENGINE_READ_CURRENT, &filter, &cursor,
                                        leases, 4, &count, &lsn),
                     TN_R_OK);
    assert_int_equal(count, 2);
    assert_string_equal(leases[1].view.holder, "later");
}

static void parts_of_a_lease_are_as_fresh_as_the_lease(void **state) {
    struct world *world = *state;
    struct engine_value value;
    char meta[8];
    uint32_t len = 0;
    uint32_t count = 0;
    world_open(world);
    assert_int_equal(world_alloc(world, "h"), TN_R_OK);
    struct kernel_lease_id id = world->answer.result.lease;
    uint64_t kept_ms = kernel_limits_default().of[KERNEL_LIMIT_HISTORY_SECONDS] * 1000;
    fakeos_clock_advance(world->machine, 60000);
    uint64_t lsn = world_lsn(world);
    assert_int_equal(
        engine_lease_meta(world->engine, ENGINE_READ_CURRENT, id, meta, sizeof meta, &len),
        TN_R_OK);
    assert_int_equal(world_lsn(world), lsn + 1);
    fakeos_clock_advance(world->machine, kept_ms);
    assert_int_equal(
        engine_lease_values(world->engine, ENGINE_READ_CURRENT, id, 0, &value, 1, &count),
        TN_R_RETIRED);
    assert_int_equal(count, 0);
}

/* Reads in a callback, of a pool with something due and of another one. */
struct look {
    struct world *world;
    struct kernel_lease_id id;
    bool armed;
    enum tn_result lease_code, pool_code;
    struct engine_lease lease;
};

static void hear_and_look(void *ctx, const struct engine_event *event) {
    struct look *look = ctx;
    struct kernel_pool_view pool;
    uint64_t lsn;
    (void)event;
    if (look->armed) {
        look->armed = false;
        look->lease_code =
            engine_lease_read(look->world->engine, ENGINE_READ_CURRENT, look->id, &look->lease);
        look->pool_code = engine_pool_read(look->world->engine, ENGINE_READ_CURRENT,
                                           tn_bytes_of("p", 1), &pool, &lsn);
    }
}

static void a_read_in_a_callback_shows_no_lease_as_live_past_its_deadline(void **state) {
    struct world *world = *state;
    struct look look = {.world = world};
    world->options.limits.of[KERNEL_LIMIT_TICK_STEP] = 1;
    world->options.limits_mask |= 1u << KERNEL_LIMIT_TICK_STEP;
    world->options.event = hear_and_look;
    world->options.event_ctx = &look;
    world_open(world);
    for (unsigned i = 0; i < 40; i++) {
        assert_int_equal(world_alloc(world, "h"), TN_R_OK);
        look.id = world->answer.result.lease;
    }
    fakeos_clock_advance(world->machine, 60000);
    look.armed = true;
    assert_int_equal(engine_tick(world->engine), TN_R_OK); /* a step: most are still due */
    assert_int_equal(look.lease_code, TN_R_OK);
    assert_int_equal(look.pool_code, TN_R_OK);
    assert_int_equal(look.lease.view.state, KERNEL_OVERDUE);
    world_close(world);
}

static void a_read_on_a_full_disk_shows_what_the_log_could_not_record(void **state) {
    struct world *world = *state;
    struct engine_lease lease;
    struct kernel_pool_view pool;
    uint64_t lsn = 0;
    world_open(world);
    assert_int_equal(world_alloc(world, "h"), TN_R_OK);
    struct kernel_lease_id id = world->answer.result.lease;
    fakeos_clock_advance(world->machine, 60000);
    fakelog_fail(world->log, TN_NOSPACE, 2, false);
    assert_int_equal(engine_lease_read(world->engine, ENGINE_READ_CURRENT, id, &lease), TN_R_OK);
    assert_int_equal(lease.view.state, KERNEL_OVERDUE);
    assert_int_equal(
        engine_pool_read(world->engine, ENGINE_READ_CURRENT, tn_bytes_of("p", 1), &pool, &lsn),
        TN_R_OK);
    assert_int_equal(pool.active, 1);
    assert_int_equal(pool.overdue_since_ms, lease.view.deadline_ms);
    assert_int_equal(engine_lease_read(world->engine, ENGINE_READ_CURRENT, id, &lease), TN_R_OK);
    assert_int_equal(lease.view.state, KERNEL_EXPIRED);
}

static void tick_done(struct engine_request *request, struct tn_bytes command) {
    (void)command;
    *(bool *)request->ctx = true;
}

static void a_read_that_may_not_wait_asks_for_a_tick(void **state) {
    struct world *world = *state;
    struct engine_lease lease;
    bool done = false;
    struct engine_request tick = {.done = tick_done, .ctx = &done};
    world->options.no_threads = true;
    world_open(world);
    assert_int_equal(world_alloc(world, "h"), TN_R_OK);
    struct kernel_lease_id id = world->answer.result.lease;
    assert_int_equal(engine_lease_read(world->engine, ENGINE_READ_NOWAIT, id, &lease), TN_R_OK);
    fakeos_clock_advance(world->machine, 60000);
    uint64_t lsn = world_lsn(world);
    assert_int_equal(engine_lease_read(world->engine, ENGINE_READ_NOWAIT, id, &lease),
                     TN_R_NOT_YET);
    assert_int_equal(engine_lease_read(world->engine, ENGINE_READ_AS_IS, id, &lease), TN_R_OK);
    assert_int_equal(lease.view.state, KERNEL_OVERDUE);
    assert_int_equal(world_lsn(world), lsn);
    uint64_t asked_ms = engine_now(world->engine);
    assert_false(engine_is_current(world->engine, asked_ms));
    assert_int_equal(engine_submit(world->engine, &tick, engine_tick_command()), TN_R_OK);
    assert_true(done);
    assert_true(engine_is_current(world->engine, asked_ms));
    assert_false(engine_is_current(world->engine, asked_ms + 1));
    assert_int_equal(engine_lease_read(world->engine, ENGINE_READ_NOWAIT, id, &lease), TN_R_OK);
    assert_int_equal(lease.view.state, KERNEL_EXPIRED);
    assert_int_equal(world_lsn(world), lsn + 1);
}

/* ---- Idle moments ---- */

static bool has_stopped(void *ctx) {
    struct world *world = ctx;
    struct engine_stats stats;
    engine_stats_read(world->engine, &stats);
    return stats.stopped != TN_R_OK;
}

static void a_mark_that_fails_halts_like_an_append(void **state) {
    static const struct {
        enum tn_status status;
        enum tn_result verdict;
    } cases[] = {{TN_IO, TN_R_HALTED}, {TN_NOSPACE, TN_R_HALTED}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct world *world;
        uint64_t hash = 0;
        uint64_t lsn = 0;
        struct engine_stats stats;
        assert_int_equal(world_make((void **)&world), 0);
        world_open(world);
        fakelog_idle_status(world->log, cases[i].status);
        (void)world_alloc(world, "h"); /* something to mark */
        ekit_wait(has_stopped, world);
        unsigned appends = fakelog_appends(world->log);
        assert_int_equal(world_alloc(world, "h"), cases[i].verdict);
        assert_int_equal(engine_hash(world->engine, &hash, &lsn), cases[i].verdict);
        assert_int_equal(fakelog_appends(world->log), appends);
        engine_stats_read(world->engine, &stats);
        assert_int_equal(stats.stopped, cases[i].verdict);
        assert_int_equal(stats.stopped_by, cases[i].status);
        fakelog_idle_status(world->log, TN_OK);
        world_reopen(world);
        assert_int_equal(world_alloc(world, "h"), TN_R_OK);
        assert_int_equal(world_free((void **)&world), 0);
    }
    (void)state;
}

/* ---- Full batches ---- */

static void a_full_batch_has_room_for_a_tick(void **state) {
    struct world *world = *state;
    struct asyncs *asyncs = asyncs_new();
    world->options.manual_ticks = false;
    world->options.batch_commands_max = 4;
    world_open(world);
    assert_int_equal(world_alloc(world, "timed"), TN_R_OK);
    unsigned before = fakelog_batches(world->log);
    fakelog_gate_shut(world->log);
    struct caller caller = {0};
    callers_start(&caller, 1, world->engine); /* leads, so that the commit thread is free */
    fakelog_gate_wait(world->log);
    for (unsigned i = 0; i < 4; i++) {
        assert_int_equal(async_alloc(world, asyncs, i), TN_R_OK);
    }
    assert_int_equal(async_alloc(world, asyncs, 4), TN_R_OVERLOADED);
    fakeos_clock_advance(world->machine, 60000);
    wait_for_queue(world, 1 + 4 + 1);
    fakelog_gate_open(world->log);
    asyncs_wait(asyncs, 4);
    callers_join(&caller, 1);
    assert_int_equal(fakelog_batch_count(world->log, before + 1), 5);
    world_close(world);
    asyncs_free(asyncs);
}

/* ---- Scheduling ---- */

/* A host may have given its threads another policy, or a nice value: short slices change neither. */
static void a_thread_that_wakes_early_keeps_its_policy_and_nice_value(void **state) {
    static const int policies[] = {SCHED_BATCH, SCHED_OTHER};
    struct sched_param none = {0};
    (void)state;
    int nice_before = getpriority(PRIO_PROCESS, 0);
    assert_int_equal(setpriority(PRIO_PROCESS, 0, nice_before + 1), 0);
    for (unsigned i = 0; i < 2; i++) {
        assert_int_equal(sched_setscheduler(0, policies[i], &none), 0);
        engine_park_wakes_early();
        assert_int_equal(sched_getscheduler(0), policies[i]);
        assert_int_equal(getpriority(PRIO_PROCESS, 0), nice_before + 1);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        WORLD_TEST(a_clock_at_zero_starts_at_one),
        cmocka_unit_test(a_logged_time_that_cannot_be_is_damage),
        cmocka_unit_test_setup_teardown(a_command_of_a_newer_version_is_not_skipped, world_make,
                                        world_free),
        WORLD_TEST(an_idle_month_is_no_downtime),
        WORLD_TEST(lsns_that_the_log_passes_over_are_given_to_nobody),
        WORLD_TEST(a_quiet_day_is_logged),
        WORLD_TEST(more_restores_than_can_be_followed_are_refused),
        WORLD_TEST(callbacks_nest_across_engines),
        WORLD_TEST(a_notice_is_a_callback_like_others),
        WORLD_TEST(notices_come_one_at_a_time),
        WORLD_TEST(a_notice_may_submit_without_threads),
        WORLD_TEST(snapshots_at_once_take_turns_without_threads),
        WORLD_TEST(a_cancelled_caller_leaves_nothing_behind),
        WORLD_TEST(an_ended_lease_is_forgotten_in_time),
        WORLD_TEST(a_list_by_state_sees_what_has_just_ended),
        WORLD_TEST(later_pages_of_a_list_see_what_has_just_ended),
        WORLD_TEST(parts_of_a_lease_are_as_fresh_as_the_lease),
        WORLD_TEST(a_read_in_a_callback_shows_no_lease_as_live_past_its_deadline),
        WORLD_TEST(a_read_on_a_full_disk_shows_what_the_log_could_not_record),
        WORLD_TEST(a_read_that_may_not_wait_asks_for_a_tick),
        cmocka_unit_test(a_mark_that_fails_halts_like_an_append),
        WORLD_TEST(a_full_batch_has_room_for_a_tick),
        cmocka_unit_test(a_thread_that_wakes_early_keeps_its_policy_and_nice_value),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
