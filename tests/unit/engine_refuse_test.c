/* Refusals without the log: what the committed state refuses, and only that. */
/* tsan */
#include "unit/engine_world.h"

/* A pool with one value. */
static void one_open(struct world *world) {
    world->engine = ekit_open(&world->options);
    ekit_run_ok(world->engine, ekit_pool(&world->command, "p", 1, 1, 60), &world->answer);
}

/* As one_open, on the log of a single machine. */
static void one_open_alone(struct world *world) {
    fakelog_set_alone(world->log);
    one_open(world);
}

static bool refuses(struct world *world, const struct ekit_command *command) {
    world->answer.result = (struct kernel_result){.code = TN_R_OK};
    return engine_refuses(world->engine, &command->decoded, &world->answer.result);
}

static bool refuses_alloc(struct world *world) {
    struct ekit_command command;
    return refuses(world, ekit_alloc(&command, "p", "other", 1, NULL));
}

/* The state refuses an allocation at this position, and nothing is appended. */
static void refused_at(struct world *world, uint64_t lsn) {
    unsigned appends = fakelog_appends(world->log);
    assert_true(refuses_alloc(world));
    assert_int_equal(world->answer.result.code, TN_R_EXHAUSTED);
    assert_int_equal(world->answer.result.lsn, lsn);
    assert_int_equal(engine_outcome(&world->answer.result), TN_COMMITTED);
    assert_int_equal(fakelog_appends(world->log), appends);
    assert_int_equal(world_lsn(world), lsn);
}

/* Refused once in the log: from then on the pool is judged also while something is committed. */
static void expect_refusals(struct world *world) {
    assert_int_equal(world_alloc(world, "logged"), TN_R_EXHAUSTED);
}

/* The lease of the only value. */
static void hold(struct world *world, struct kernel_result *ret_lease) {
    assert_int_equal(world_alloc(world, "holder"), TN_R_OK);
    *ret_lease = world->answer.result;
}

static void a_refusal_appends_nothing(void **state) {
    struct world *world = *state;
    struct kernel_result lease;
    struct engine_stats stats;
    one_open(world);
    assert_false(refuses_alloc(world));
    hold(world, &lease);
    uint64_t hash = ekit_hash(world->engine);
    refused_at(world, lease.lsn);
    assert_int_equal(world->answer.result.retry_at_ms, lease.deadline_ms);
    engine_stats_read(world->engine, &stats);
    assert_int_equal(stats.refusals, 1);
    assert_int_equal(ekit_hash(world->engine), hash);
    lease.epoch++;
    assert_true(refuses(world, ekit_touch(&world->command, &lease, NULL)));
    assert_int_equal(world->answer.result.code, TN_R_STALE);
    lease.lease.lsn = 1; /* a position that is not a lease's */
    assert_true(refuses(world, ekit_release(&world->command, &lease, "holder")));
    assert_int_equal(world->answer.result.code, TN_R_NOTFOUND);
    lease.lease.lsn = world_lsn(world) + 1;
    assert_false(refuses(world, ekit_release(&world->command, &lease, "holder")));
    assert_int_equal(ekit_hash(world->engine), hash);
}

static void an_operation_is_logged(void **state) {
    struct world *world = *state;
    struct kernel_result lease;
    struct ekit_command command;
    one_open(world);
    hold(world, &lease);
    assert_false(refuses(world, ekit_alloc(&command, "p", "other", 1, "op")));
    assert_int_equal(ekit_run(world->engine, &command, &world->answer), TN_R_EXHAUSTED);
    assert_int_equal(world->answer.result.lsn, lease.lsn + 1);
    ekit_run_ok(world->engine, ekit_release(&world->command, &lease, "holder"), &world->answer);
    assert_int_equal(ekit_run(world->engine, &command, &world->answer), TN_R_EXHAUSTED);
    assert_true(world->answer.result.replayed);
}

/* A command in flight is neither committed nor applied. */
static void a_grant_under_way_refuses_nobody(void **state) {
    struct world *world = *state;
    struct asyncs *asyncs = asyncs_new();
    struct kernel_result lease;
    one_open_alone(world);
    hold(world, &lease);
    expect_refusals(world);
    ekit_run_ok(world->engine, ekit_release(&world->command, &lease, "holder"), &world->answer);
    fakelog_set_threaded(world->log, true);
    fakelog_gate_shut(world->log);
    assert_int_equal(async_alloc(world, asyncs, 0), TN_R_OK);
    fakelog_gate_wait(world->log);
    assert_false(refuses_alloc(world));
    fakelog_gate_open(world->log);
    asyncs_wait(asyncs, 1);
    assert_int_equal(asyncs->of[0].code, TN_R_OK);
    world_close(world);
    asyncs_free(asyncs);
}

static void a_release_under_way_frees_nothing(void **state) {
    struct world *world = *state;
    struct asyncs *asyncs = asyncs_new();
    struct kernel_result lease;
    one_open_alone(world);
    hold(world, &lease);
    expect_refusals(world);
    uint64_t lsn = world_lsn(world);
    fakelog_set_threaded(world->log, true);
    fakelog_gate_shut(world->log);
    ekit_release(&world->command, &lease, "holder");
    assert_int_equal(engine_submit(world->engine, &asyncs->of[0].request, &world->command.decoded),
                     TN_R_OK);
    fakelog_gate_wait(world->log);
    refused_at(world, lsn);
    fakelog_gate_open(world->log);
    asyncs_wait(asyncs, 1);
    assert_false(refuses_alloc(world));
    world_close(world);
    asyncs_free(asyncs);
}

/* Standbys may show the release before the owner knows that the release is committed. */
static void a_release_under_way_in_a_cluster_is_waited_for(void **state) {
    struct world *world = *state;
    struct asyncs *asyncs = asyncs_new();
    struct kernel_result lease;
    one_open(world);
    hold(world, &lease);
    expect_refusals(world);
    fakelog_set_threaded(world->log, true);
    fakelog_gate_shut(world->log);
    ekit_release(&world->command, &lease, "holder");
    assert_int_equal(engine_submit(world->engine, &asyncs->of[0].request, &world->command.decoded),
                     TN_R_OK);
    fakelog_gate_wait(world->log);
    assert_false(refuses_alloc(world));
    fakelog_gate_open(world->log);
    asyncs_wait(asyncs, 1);
    world_close(world);
    asyncs_free(asyncs);
}

/* After a release that waits to be committed, one attempt is worth logging, and no more. Both are committed at
 * once, although the caller may have more to submit. */
static void one_attempt_follows_each_release(void **state) {
    struct world *world = *state;
    struct asyncs *asyncs = asyncs_new();
    struct kernel_result lease;
    one_open_alone(world);
    hold(world, &lease);
    expect_refusals(world);
    uint64_t lsn = world_lsn(world);
    unsigned batches = fakelog_batches(world->log);
    refused_at(world, lsn);
    fakelog_set_threaded(world->log, true);
    fakelog_gate_shut(world->log);
    ekit_release(&world->command, &lease, "holder");
    assert_int_equal(
        engine_submit_later(world->engine, &asyncs->of[0].request, &world->command.decoded),
        TN_R_OK);
    assert_false(refuses_alloc(world));
    ekit_alloc(&world->command, "p", "next", 1, NULL);
    assert_int_equal(
        engine_submit_later(world->engine, &asyncs->of[1].request, &world->command.decoded),
        TN_R_OK);
    fakelog_gate_wait(world->log);
    refused_at(world, lsn);
    fakelog_gate_open(world->log);
    asyncs_wait(asyncs, 2);
    assert_int_equal(asyncs->of[1].code, TN_R_OK);
    assert_int_equal(fakelog_batches(world->log), batches + 1);
    refused_at(world, lsn + 2);
    world_close(world);
    asyncs_free(asyncs);
}

/* The state still has the lease, but a command that is stamped now comes after its end. */
static void a_passed_deadline_refuses_nobody(void **state) {
    struct world *world = *state;
    struct kernel_result lease;
    one_open(world);
    hold(world, &lease);
    fakeos_clock_advance(world->machine, 59999);
    refused_at(world, lease.lsn);
    fakeos_clock_advance(world->machine, 1);
    assert_false(refuses_alloc(world));
    struct kernel_result stale = lease;
    stale.epoch++; /* the epoch of the ended lease */
    assert_false(refuses(world, ekit_touch(&world->command, &stale, NULL)));
    assert_int_equal(world_alloc(world, "other"), TN_R_OK);
}

static void only_the_owner_refuses(void **state) {
    struct world *world = *state;
    struct kernel_result lease;
    one_open(world);
    hold(world, &lease);
    fakelog_expire(world->log);
    assert_false(refuses_alloc(world));
    fakelog_renew(world->log);
    refused_at(world, lease.lsn);
    fakelog_owner(world->log, false, "elsewhere:1");
    assert_false(refuses_alloc(world));
    assert_int_equal(world_alloc(world, "other"), TN_R_READONLY);
}

/* The log may be lost between the first question and the look. */
static void the_log_is_asked_after_the_look(void **state) {
    struct world *world = *state;
    struct kernel_result lease;
    one_open(world);
    hold(world, &lease);
    fakelog_expire_at(world->log, 2);
    assert_false(refuses_alloc(world));
    refused_at(world, lease.lsn);
}

static void a_halted_engine_refuses_nothing(void **state) {
    struct world *world = *state;
    struct kernel_result lease;
    one_open(world);
    hold(world, &lease);
    fakelog_fail(world->log, TN_IO, 1, false);
    assert_int_equal(world_alloc(world, "other"), TN_R_HALTED);
    assert_false(refuses_alloc(world));
}

static void a_full_disk_still_refuses(void **state) {
    struct world *world = *state;
    struct kernel_result lease;
    one_open(world);
    hold(world, &lease);
    fakelog_fail(world->log, TN_NOSPACE, 1000, false);
    assert_int_equal(world_alloc(world, "other"), TN_R_NOSPACE);
    refused_at(world, lease.lsn);
    fakeos_clock_advance(world->machine, 60000);
    assert_false(refuses_alloc(world));
    assert_int_equal(world_alloc(world, "other"), TN_R_NOSPACE);
    fakelog_fail(world->log, TN_OK, 0, false);
}

/* A blocking write there would be OVERLOADED; so it is not refused in another way. */
struct inside {
    struct engine_request request;
    struct world *world;
    _Atomic int answer; /* 0: none yet; 1: refused; 2: not */
};

static void inside_done(struct engine_request *request, struct tn_bytes command) {
    struct inside *inside = request->ctx;
    (void)command;
    inside->answer = refuses_alloc(inside->world) ? 1 : 2;
}

static bool inside_answered(void *ctx) {
    const struct inside *inside = ctx;
    return inside->answer != 0;
}

static void nothing_is_refused_inside_a_callback(void **state) {
    struct world *world = *state;
    struct kernel_result lease;
    struct inside inside = {.world = world};
    one_open(world);
    hold(world, &lease);
    inside.request = (struct engine_request){.done = inside_done, .ctx = &inside};
    ekit_touch(&world->command, &lease, NULL);
    assert_int_equal(engine_submit(world->engine, &inside.request, &world->command.decoded),
                     TN_R_OK);
    ekit_wait(inside_answered, &inside);
    assert_int_equal(inside.answer, 2);
    world_close(world);
}

/* While commands are committed, a pool that grants is not judged: that would be useless. */
static void a_pool_that_grants_is_not_judged_for_long(void **state) {
    struct world *world = *state;
    struct asyncs *asyncs = asyncs_new();
    struct kernel_result lease;
    struct ekit_command command;
    one_open_alone(world);
    hold(world, &lease);
    fakelog_set_threaded(world->log, true);
    fakelog_gate_shut(world->log);
    ekit_touch(&world->command, &lease, NULL);
    assert_int_equal(engine_submit(world->engine, &asyncs->of[0].request, &world->command.decoded),
                     TN_R_OK);
    fakelog_gate_wait(world->log);
    assert_false(refuses(world, ekit_alloc(&command, "p", "other", 1, NULL)));
    fakelog_gate_open(world->log);
    asyncs_wait(asyncs, 1);
    expect_refusals(world);
    fakelog_gate_shut(world->log);
    assert_int_equal(engine_submit(world->engine, &asyncs->of[1].request, &world->command.decoded),
                     TN_R_OK);
    fakelog_gate_wait(world->log);
    assert_true(refuses_alloc(world));
    fakelog_gate_open(world->log);
    asyncs_wait(asyncs, 2);
    world_close(world);
    asyncs_free(asyncs);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        WORLD_TEST(a_refusal_appends_nothing),
        WORLD_TEST(an_operation_is_logged),
        WORLD_TEST(a_grant_under_way_refuses_nobody),
        WORLD_TEST(a_release_under_way_frees_nothing),
        WORLD_TEST(a_release_under_way_in_a_cluster_is_waited_for),
        WORLD_TEST(one_attempt_follows_each_release),
        WORLD_TEST(a_passed_deadline_refuses_nobody),
        WORLD_TEST(only_the_owner_refuses),
        WORLD_TEST(the_log_is_asked_after_the_look),
        WORLD_TEST(a_halted_engine_refuses_nothing),
        WORLD_TEST(a_full_disk_still_refuses),
        WORLD_TEST(nothing_is_refused_inside_a_callback),
        WORLD_TEST(a_pool_that_grants_is_not_judged_for_long),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
