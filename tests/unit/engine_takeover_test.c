/* A log that goes from owner to owner: what a new leader inherits, and what one that loses the log on the
 * way leaves behind. */
#include "unit/engine_world.h"

#include "engine/payload.h"
#include "kernel/kernel.h"

#define DAY_MS 86400000u
#define LEASE_MS 60000u /* lease time of the pool of a world */

static void follower_open(struct world *world) {
    struct log_error error;
    if (engine_open(&world->options, &world->engine, &error) != TN_OK) {
        fail_msg("%s", error.text);
    }
}

static void lead(struct world *world) {
    struct log_error error;
    enum tn_status status = engine_lead(world->engine, &error);
    if (status != TN_OK) {
        fail_msg("%s: %s", tn_status_name(status), error.text);
    }
}

static struct engine_standing standing(struct world *world) {
    struct engine_standing standing;
    engine_standing_read(world->engine, &standing);
    return standing;
}

static struct world *other_make(void) {
    void *state = NULL;
    assert_int_equal(world_make(&state), 0);
    return state;
}

static void other_free(struct world *other) {
    void *state = other;
    assert_int_equal(world_free(&state), 0);
}

static void feed_from(struct world *world, struct world *other) {
    for (unsigned i = fakelog_batches(world->log); i < fakelog_batches(other->log); i++) {
        struct log_batch batch = fakelog_batch(other->log, i);
        assert_int_equal(fakelog_feed(world->log, &batch), TN_OK);
    }
}

static bool hash_read(void *ctx, const struct kernel *kernel, uint64_t clock_ms) {
    (void)clock_ms;
    *(uint64_t *)ctx = kernel_hash(kernel);
    return false;
}

static void same_state(struct world *world, struct world *other) {
    uint64_t hash = 0;
    assert_int_equal(engine_read(world->engine, ENGINE_READ_STALE, hash_read, &hash), TN_R_OK);
    assert_int_equal(hash, ekit_hash(other->engine));
}

/* A follower of another owner's log, which has a pool. */
static struct world *owner_and_follower(struct world *world) {
    struct world *other = other_make();
    fakelog_owner(world->log, false, "");
    follower_open(world);
    fakelog_owner(world->log, false, "other:1");
    world_open(other);
    feed_from(world, other);
    return other;
}

/* ---- Limits ---- */

static void alloc_some(struct world *world, unsigned count) {
    for (unsigned n = 0; n < count; n++) {
        assert_int_equal(world_alloc(world, "h"), TN_R_OK);
    }
}

/* Fewer leases than before: the tables are too small for the limits in force if they stay so. */
static void limits_whose_append_is_lost_are_undone(void **state) {
    struct world *world = *state;
    static const enum tn_status ends[] = {TN_LOST, TN_DOUBT, TN_NOSPACE};
    struct world *other = owner_and_follower(world);
    uint64_t before = world->options.limits.of[KERNEL_LIMIT_LEASES];
    world_close(world);
    world->options.limits.of[KERNEL_LIMIT_LEASES] = 128;
    world->options.limits_mask |= 1u << KERNEL_LIMIT_LEASES;
    follower_open(world);
    for (unsigned i = 0; i < 3; i++) {
        struct log_error error;
        fakelog_owner(world->log, true, "");
        fakelog_fail(world->log, ends[i], 1, false);
        enum tn_status status = engine_lead(world->engine, &error);
        assert_int_equal(status, ends[i] == TN_NOSPACE ? TN_NOSPACE : TN_LOST);
        fakelog_owner(world->log, false, "other:1");
        alloc_some(other, 30);
        feed_from(world, other);
        same_state(world, other);
    }
    alloc_some(other, 100); /* more than the smaller tables have room for */
    feed_from(world, other);
    same_state(world, other);
    /* Another node's limits, the same as those in force, find their tables. */
    other->options.limits.of[KERNEL_LIMIT_LEASES] = before + 10;
    world_reopen(other);
    other->options.limits.of[KERNEL_LIMIT_LEASES] = before;
    world_reopen(other);
    feed_from(world, other);
    same_state(world, other);
    other_free(other);
}

static void limits_that_do_not_fit_refuse_the_lead_unless_they_may_stay(void **state) {
    struct world *world = *state;
    struct log_error error;
    world_open(world);
    alloc_some(world, 100);
    world_close(world);
    world->options.limits.of[KERNEL_LIMIT_LEASES] = 64;
    world->options.limits_mask |= 1u << KERNEL_LIMIT_LEASES;
    follower_open(world);
    assert_int_equal(engine_lead(world->engine, &error), TN_INVALID);
    assert_non_null(strstr(error.text, "too small"));
    world_close(world);
    world->options.limits_may_stay = true;
    follower_open(world);
    lead(world);
    assert_int_equal(world_alloc(world, "h"), TN_R_OK);
    ekit_check(world->engine);
}

/* ---- Time ---- */

static void a_new_owner_goes_on_from_the_time_of_the_one_that_it_heard(void **state) {
    struct world *world = *state;
    struct world *other = owner_and_follower(world);
    uint64_t now_ms = engine_now(other->engine);
    /* The node's own wall clock is years ahead, and no operator has approved that. */
    fakeos_clock_wall_set(world->machine, now_ms + 400ull * DAY_MS);
    fakelog_set_succession(world->log,
                           &(struct log_succession){.epoch = 7, .heard_ms = now_ms + 2300});
    fakelog_owner(world->log, true, "");
    lead(world);
    assert_int_equal(engine_now(world->engine), now_ms + 2300);
    fakeos_clock_advance(world->machine, 1000);
    assert_int_equal(engine_now(world->engine), now_ms + 3300);
    assert_int_equal(world_alloc(world, "a"), TN_R_OK);
    assert_int_equal(world->answer.result.now_ms, now_ms + 3300);
    struct log_succession succession;
    engine_succession(world->engine, &succession);
    assert_int_equal(succession.epoch, 7);
    other_free(other);
}

/* Nobody was heard: the wall clock counts, and is judged; what the follower thought it was does not. */
static void a_follower_that_heard_nobody_is_refused_a_clock_far_ahead(void **state) {
    struct world *world = *state;
    struct world *other = owner_and_follower(world);
    struct log_error error;
    uint64_t now_ms = engine_now(other->engine);
    world_close(world);
    fakeos_clock_wall_set(world->machine, now_ms + 31ull * DAY_MS);
    follower_open(world); /* the clock for its stale reads begins there */
    fakelog_owner(world->log, false, "other:1");
    assert_int_equal(world_alloc(other, "a"), TN_R_OK);
    feed_from(world, other);
    fakeos_clock_wall_set(world->machine, now_ms);
    fakelog_owner(world->log, true, "");
    lead(world);
    assert_int_equal(engine_now(world->engine), now_ms);
    world_close(world);
    fakeos_clock_wall_set(world->machine, now_ms + 31ull * DAY_MS);
    follower_open(world);
    assert_int_equal(engine_lead(world->engine, &error), TN_TIME_JUMP);
    other_free(other);
}

/* An idle owner shows the time of the log and logs nothing. */
static void a_follower_that_heard_nobody_begins_no_earlier_than_the_last_shown_time(void **state) {
    struct world *world = *state;
    struct world *other = owner_and_follower(world);
    uint64_t now_ms = engine_now(other->engine);
    struct log_succession succession = {.epoch = 7, .least_ms = now_ms + 20ull * DAY_MS};
    world_close(world);
    fakelog_set_succession(world->log, &succession);
    fakeos_clock_wall_set(world->machine, now_ms + 10ull * DAY_MS); /* behind the owner's */
    follower_open(world);
    fakelog_owner(world->log, true, "");
    lead(world);
    assert_int_equal(engine_now(world->engine), succession.least_ms);
    world_close(world);
    fakeos_clock_wall_set(world->machine, now_ms + 45ull * DAY_MS); /* 25 days after it */
    follower_open(world);
    lead(world);
    assert_int_equal(engine_now(world->engine), now_ms + 45ull * DAY_MS);
    other_free(other);
}

static enum kernel_state lease_state(struct world *world, struct kernel_lease_id id) {
    struct engine_lease lease;
    assert_int_equal(engine_lease_read(world->engine, ENGINE_READ_STALE, id, &lease), TN_R_OK);
    return lease.view.state;
}

/* A follower whose wall clock is years ahead does not call a lease overdue. */
static void a_follower_judges_deadlines_by_the_time_of_the_owner(void **state) {
    struct world *world = *state;
    struct world *other = owner_and_follower(world);
    assert_int_equal(world_alloc(other, "h"), TN_R_OK);
    struct kernel_lease_id id = other->answer.result.lease;
    uint64_t now_ms = engine_now(other->engine);
    world_close(world);
    fakeos_clock_wall_set(world->machine, now_ms + 400ull * DAY_MS);
    follower_open(world);
    feed_from(world, other);
    assert_int_equal(lease_state(world, id), KERNEL_ACTIVE);
    fakelog_time(world->log, now_ms + LEASE_MS - 1);
    assert_int_equal(lease_state(world, id), KERNEL_ACTIVE);
    fakeos_clock_advance(world->machine, 1); /* the time advances with the boot clock */
    assert_int_equal(lease_state(world, id), KERNEL_OVERDUE);
    fakelog_time(world->log, now_ms); /* another owner, whose time is behind */
    assert_int_equal(lease_state(world, id), KERNEL_ACTIVE);
    other_free(other);
}

static void an_engine_that_has_led_goes_on_by_its_own_time(void **state) {
    struct world *world = *state;
    world_open(world);
    uint64_t now_ms = engine_now(world->engine);
    fakelog_owner(world->log, false, "");
    fakeos_clock_advance(world->machine, 5000);
    fakeos_clock_wall_set(world->machine, now_ms + 31ull * DAY_MS);
    fakelog_owner(world->log, true, "");
    lead(world);
    assert_int_equal(engine_now(world->engine), now_ms + 5000);
}

/* Its clock may have run ahead of the other owners' since it led. */
static void an_engine_that_has_led_takes_the_time_that_it_heard(void **state) {
    struct world *world = *state;
    world_open(world);
    uint64_t now_ms = engine_now(world->engine);
    fakelog_owner(world->log, false, "");
    fakeos_clock_advance(world->machine, 5000);
    fakelog_set_succession(world->log,
                           &(struct log_succession){.epoch = 7, .heard_ms = now_ms + 4000});
    fakelog_owner(world->log, true, "");
    lead(world);
    assert_int_equal(engine_now(world->engine), now_ms + 4000);
}

static bool lease_is_due(void *ctx) {
    struct world *world = ctx;
    struct kernel_pool_view view;
    uint64_t lsn;
    enum tn_result code =
        engine_pool_read(world->engine, ENGINE_READ_STALE, tn_bytes_of("p", 1), &view, &lsn);
    return code == TN_R_OK && view.active == 0;
}

/* The last tick set the time of the next one, in a time that was ahead of the next owner's. */
static void ticks_go_on_in_the_time_of_the_new_lead(void **state) {
    struct world *world = *state;
    world->options.manual_ticks = false;
    world->options.tick_interval_ms = 1000000;
    world_open(world);
    assert_int_equal(world_alloc(world, "a"), TN_R_OK);
    fakeos_clock_advance(world->machine, 61000);
    ekit_wait(lease_is_due, world);
    assert_int_equal(world_alloc(world, "b"), TN_R_OK);
    fakelog_owner(world->log, false, "");
    fakelog_owner(world->log, true, "");
    lead(world);
    fakeos_clock_advance(world->machine, 61000);
    ekit_wait(lease_is_due, world);
}

/* ---- Lost on the way ---- */

static void lose_and_own(void *ctx) {
    struct world *world = ctx;
    fakelog_owner(world->log, false, "");
    fakelog_owner(world->log, true, "");
}

static void a_log_that_was_lost_and_is_owned_again_is_led_anew(void **state) {
    struct world *world = *state;
    struct log_error error;
    world_open(world);
    world_close(world);
    follower_open(world);
    fakelog_on_lead(world->log, lose_and_own, world);
    assert_int_equal(engine_lead(world->engine, &error), TN_LOST);
    assert_int_equal(standing(world).role, ENGINE_FOLLOWING);
    assert_true(standing(world).owned);
    lead(world);
    assert_int_equal(world_alloc(world, "a"), TN_R_OK);
}

static uint8_t verb_of(struct world *world, unsigned n) {
    struct log_batch batch = fakelog_batch(world->log, n);
    struct engine_payload payload = engine_payload_of(batch.payload, batch.len);
    return engine_payload_next(&payload).at[0]; /* its first byte: kernel/command.h */
}

/* The limits could let a line be served, to clients that are not there. */
static void waiting_leases_are_unattended_before_the_limits_change(void **state) {
    struct world *world = *state;
    world_open(world);
    ekit_run_ok(world->engine, ekit_pool(&world->command, "one", 1, 1, 60), &world->answer);
    ekit_run_ok(world->engine, ekit_alloc(&world->command, "one", "a", 1, NULL), &world->answer);
    (void)ekit_alloc(&world->command, "one", "b", 1, "op");
    world->command.decoded.fields |= KERNEL_F_WAIT;
    world->command.decoded.wait_s = 600;
    assert_int_equal(ekit_run(world->engine, &world->command, &world->answer), TN_R_WAITING);
    uint32_t led = standing(world).lead;
    world_close(world);
    unsigned first = fakelog_batches(world->log);
    world->options.limits.of[KERNEL_LIMIT_LEASES] += 100;
    follower_open(world);
    lead(world);
    assert_int_equal(fakelog_batches(world->log), first + 2);
    assert_int_equal(verb_of(world, first), KERNEL_VERB_UNATTEND);
    assert_int_equal(verb_of(world, first + 1), KERNEL_VERB_LIMITS);
    assert_int_equal(led, 1); /* an engine counts its own leads */
    assert_int_equal(standing(world).lead, 1);
    lose_and_own(world);
    lead(world);
    assert_int_equal(standing(world).lead, 2);
}

static void a_log_that_stands_elsewhere_than_the_state_is_refused(void **state) {
    struct world *world = *state;
    struct log_error error;
    world_open(world);
    world_close(world);
    follower_open(world);
    fakelog_lead_at(world->log, 77);
    assert_int_equal(engine_lead(world->engine, &error), TN_CORRUPT);
    assert_non_null(strstr(error.text, "77"));
}

struct leading {
    pthread_t thread;
    struct world *world;
    enum tn_status status;
};

static void *lead_main(void *arg) {
    struct leading *leading = arg;
    struct log_error error;
    leading->status = engine_lead(leading->world->engine, &error);
    return NULL;
}

/* The answer to the last batch is still in flight when the next owner is reported, and then no
 * longer. */
static void whether_it_may_lead_is_judged_after_the_last_answers(void **state) {
    struct world *world = *state;
    struct leading leading = {.world = world};
    struct asyncs *asyncs = asyncs_new();
    world_open(world);
    fakelog_set_threaded(world->log, true);
    fakelog_gate_shut(world->log);
    assert_int_equal(async_alloc(world, asyncs, 0), TN_R_OK);
    fakelog_gate_wait(world->log);
    fakelog_tell(world->log, false, "");
    fakelog_tell(world->log, true, "");
    assert_int_equal(pthread_create(&leading.thread, NULL, lead_main, &leading), 0);
    fakelog_tell(world->log, false, "b:1");
    fakelog_gate_open(world->log);
    assert_int_equal(pthread_join(leading.thread, NULL), 0);
    asyncs_wait(asyncs, 1);
    assert_int_equal(leading.status, TN_LOST);
    assert_int_equal(standing(world).role, ENGINE_FOLLOWING);
    world_close(world);
    asyncs_free(asyncs);
}

/* ---- Snapshots ---- */

struct taking {
    pthread_t thread;
    struct engine *engine;
    enum tn_status status;
};

static void *take_main(void *arg) {
    struct taking *taking = arg;
    struct log_error error;
    taking->status = engine_snapshot(taking->engine, &error);
    return NULL;
}

struct feeding {
    pthread_t thread;
    struct world *world, *other;
};

static void *feed_main(void *arg) {
    struct feeding *feeding = arg;
    feed_from(feeding->world, feeding->other);
    return NULL;
}

static void a_followers_snapshot_and_a_batch_of_limits_wait_for_each_other(void **state) {
    struct world *world = *state;
    world->options.snapshot_queue_bytes = 1;
    struct world *other = owner_and_follower(world);
    struct taking taking = {.engine = world->engine};
    struct feeding feeding = {.world = world, .other = other};
    fakelog_snapshot_gate_shut(world->log);
    assert_int_equal(pthread_create(&taking.thread, NULL, take_main, &taking), 0);
    fakelog_snapshot_gate_wait(world->log);
    other->options.limits.of[KERNEL_LIMIT_LEASES] += 10;
    other->options.limits_mask |= 1u << KERNEL_LIMIT_LEASES;
    world_reopen(other);
    assert_int_equal(pthread_create(&feeding.thread, NULL, feed_main, &feeding), 0);
    fakelog_snapshot_gate_open(world->log);
    assert_int_equal(pthread_join(feeding.thread, NULL), 0);
    assert_int_equal(pthread_join(taking.thread, NULL), 0);
    assert_int_equal(taking.status, TN_OK);
    same_state(world, other);
    other_free(other);
}

static void take_meanwhile(void *ctx) {
    struct taking *taking = ctx;
    (void)take_main(taking);
}

/* Without the first batch, there is nothing that a snapshot could begin with. */
static void there_is_no_snapshot_before_the_first_batch(void **state) {
    struct world *world = *state;
    struct taking taking = {.status = TN_OK};
    struct log_error error;
    follower_open(world);
    taking.engine = world->engine;
    fakelog_on_append(world->log, take_meanwhile, &taking);
    fakelog_fail(world->log, TN_LOST, 1, false);
    assert_int_equal(engine_lead(world->engine, &error), TN_LOST);
    assert_int_equal(taking.status, TN_HALTED);
    assert_int_equal(fakelog_snapshots(world->log), 0);
}

/* ---- Being told, and reading ---- */

struct told {
    unsigned count;
    enum engine_role role;
};

static void tell(void *ctx, struct engine *engine) {
    struct told *told = ctx;
    struct engine_standing at;
    engine_standing_read(engine, &at);
    told->count++;
    told->role = at.role;
}

static void giving_the_lead_up_is_told(void **state) {
    struct world *world = *state;
    struct told told = {.count = 0};
    world->options.role = tell;
    world->options.role_ctx = &told;
    world_open(world);
    unsigned before = told.count;
    assert_int_equal(told.role, ENGINE_LEADING);
    assert_int_equal(engine_follow(world->engine), TN_OK);
    assert_int_equal(told.role, ENGINE_FOLLOWING);
    assert_true(told.count >= before + 2); /* once by the engine, then by the log */
}

struct looks {
    struct world *world;
    unsigned count;
};

/* At the first look the log is lost, and comes back by a renewal. */
static bool look_and_expire(void *ctx, const struct kernel *kernel, uint64_t clock_ms) {
    struct looks *looks = ctx;
    (void)kernel;
    (void)clock_ms;
    if (looks->count++ == 0) {
        fakelog_expire_once(looks->world->log);
    }
    return false;
}

static void a_read_waits_for_a_log_that_is_ours_again_and_looks_again(void **state) {
    struct world *world = *state;
    struct looks looks = {.world = world};
    world_open(world);
    assert_int_equal(engine_read(world->engine, ENGINE_READ_CURRENT, look_and_expire, &looks),
                     TN_R_OK);
    assert_int_equal(looks.count, 2);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        WORLD_TEST(limits_whose_append_is_lost_are_undone),
        WORLD_TEST(limits_that_do_not_fit_refuse_the_lead_unless_they_may_stay),
        WORLD_TEST(a_new_owner_goes_on_from_the_time_of_the_one_that_it_heard),
        WORLD_TEST(a_follower_that_heard_nobody_is_refused_a_clock_far_ahead),
        WORLD_TEST(a_follower_that_heard_nobody_begins_no_earlier_than_the_last_shown_time),
        WORLD_TEST(a_follower_judges_deadlines_by_the_time_of_the_owner),
        WORLD_TEST(an_engine_that_has_led_goes_on_by_its_own_time),
        WORLD_TEST(an_engine_that_has_led_takes_the_time_that_it_heard),
        WORLD_TEST(ticks_go_on_in_the_time_of_the_new_lead),
        WORLD_TEST(a_log_that_was_lost_and_is_owned_again_is_led_anew),
        WORLD_TEST(waiting_leases_are_unattended_before_the_limits_change),
        WORLD_TEST(a_log_that_stands_elsewhere_than_the_state_is_refused),
        WORLD_TEST(whether_it_may_lead_is_judged_after_the_last_answers),
        WORLD_TEST(a_followers_snapshot_and_a_batch_of_limits_wait_for_each_other),
        WORLD_TEST(there_is_no_snapshot_before_the_first_batch),
        WORLD_TEST(giving_the_lead_up_is_told),
        WORLD_TEST(a_read_waits_for_a_log_that_is_ours_again_and_looks_again),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
