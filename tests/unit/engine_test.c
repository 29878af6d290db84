/* The engine over a log that commits late, on another thread, not at all, or in doubt: which thread
 * commits, which commands share a batch, what a caller may conclude. */
/* tsan */
#include "unit/engine_world.h"

/* ---- Who commits what ---- */

static void a_lone_caller_commits_on_its_own_thread(void **state) {
    struct world *world = *state;
    world_open(world);
    assert_int_equal(world_alloc(world, "a"), TN_R_OK);
    unsigned last = fakelog_batches(world->log) - 1;
    assert_int_equal(fakelog_batch_count(world->log, last), 1);
    assert_true(pthread_equal(fakelog_batch_thread(world->log, last), pthread_self()));
}

static void the_first_record_of_a_log_is_its_limits(void **state) {
    struct world *world = *state;
    world->engine = ekit_open(&world->options);
    assert_int_equal(fakelog_batches(world->log), 1);
    assert_int_equal(world_lsn(world), 1);
    struct kernel_usage usage;
    struct kernel_limits limits;
    assert_int_equal(engine_usage(world->engine, &usage, &limits), TN_R_OK);
    assert_int_equal(limits.of[KERNEL_LIMIT_LEASES], 8192);
    assert_int_equal(limits.of[KERNEL_LIMIT_BUNDLE],
                     kernel_limits_default().of[KERNEL_LIMIT_BUNDLE]);
}

static void what_arrives_during_a_sync_shares_the_next_batch(void **state) {
    struct world *world = *state;
    struct caller callers[33] = {0};
    world_open(world);
    unsigned before = fakelog_batches(world->log);
    fakelog_gate_shut(world->log);
    callers_start(callers, 1, world->engine);
    fakelog_gate_wait(world->log);
    callers_start(callers + 1, 32, world->engine);
    wait_for_queue(world, 33);
    fakelog_gate_open(world->log);
    callers_join(callers, 33);
    assert_int_equal(fakelog_batches(world->log), before + 2);
    assert_int_equal(fakelog_batch_count(world->log, before), 1);
    assert_int_equal(fakelog_batch_count(world->log, before + 1), 32);
    for (unsigned i = 0; i < 33; i++) {
        assert_int_equal(callers[i].answer.result.code, TN_R_OK);
        for (unsigned j = 0; j < i; j++) {
            assert_int_not_equal(callers[i].answer.values[0].number,
                                 callers[j].answer.values[0].number);
        }
    }
}

static void a_commit_may_be_reported_by_another_thread(void **state) {
    struct world *world = *state;
    struct caller callers[16] = {0};
    fakelog_set_threaded(world->log, true);
    world_open(world);
    callers_start(callers, 16, world->engine);
    callers_join(callers, 16);
    for (unsigned i = 0; i < 16; i++) {
        assert_int_equal(callers[i].answer.result.code, TN_R_OK);
    }
    assert_int_equal(world_lsn(world), 2 + 16);
}

static void asynchronous_requests_are_done_in_order(void **state) {
    struct world *world = *state;
    struct asyncs *asyncs = asyncs_new();
    fakelog_set_threaded(world->log, true);
    world_open(world);
    for (unsigned i = 0; i < 500; i++) {
        assert_int_equal(async_alloc(world, asyncs, i), TN_R_OK);
    }
    asyncs_wait(asyncs, 500);
    for (unsigned i = 0; i < 500; i++) {
        assert_int_equal(asyncs->of[i].code, TN_R_OK);
        assert_int_equal(asyncs->of[i].order, i + 1);
        assert_int_equal(asyncs->of[i].lsn, 3 + i);
    }
    asyncs_free(asyncs);
}

static void closing_answers_what_is_in_flight(void **state) {
    struct world *world = *state;
    struct asyncs *asyncs = asyncs_new();
    world_open(world);
    for (unsigned i = 0; i < 100; i++) {
        assert_int_equal(async_alloc(world, asyncs, i), TN_R_OK);
    }
    world_close(world);
    assert_int_equal(asyncs->done_count, 100);
    assert_int_equal(asyncs->of[99].code, TN_R_OK);
    asyncs_free(asyncs);
}

/* ---- Rejections: nothing happened ---- */

static void a_full_queue_refuses_asynchronous_requests(void **state) {
    struct world *world = *state;
    struct asyncs *asyncs = asyncs_new();
    world->options.batch_commands_max = 8;
    world_open(world);
    fakelog_gate_shut(world->log);
    assert_int_equal(async_alloc(world, asyncs, 0), TN_R_OK);
    fakelog_gate_wait(world->log);
    for (unsigned i = 1; i <= 8; i++) {
        assert_int_equal(async_alloc(world, asyncs, i), TN_R_OK);
    }
    assert_int_equal(async_alloc(world, asyncs, 9), TN_R_OVERLOADED);
    fakelog_gate_open(world->log);
    asyncs_wait(asyncs, 9);
    assert_int_equal(async_alloc(world, asyncs, 9), TN_R_OK);
    asyncs_wait(asyncs, 10);
    assert_int_equal(world_lsn(world), 2 + 10);
    asyncs_free(asyncs);
}

static void blocking_callers_wait_for_room(void **state) {
    struct world *world = *state;
    struct caller callers[24] = {0};
    world->options.batch_commands_max = 4;
    world_open(world);
    fakelog_gate_shut(world->log);
    callers_start(callers, 24, world->engine);
    wait_for_queue(world, 5);
    fakelog_gate_open(world->log);
    callers_join(callers, 24);
    for (unsigned i = 0; i < 24; i++) {
        assert_int_equal(callers[i].answer.result.code, TN_R_OK);
    }
}

static void what_cannot_be_understood_is_not_logged(void **state) {
    struct world *world = *state;
    world_open(world);
    unsigned appends = fakelog_appends(world->log);
    struct kernel_result result = {0};

    struct kernel_command command = {.verb = KERNEL_VERB_COUNT};
    engine_execute(world->engine, &command, &result);
    assert_int_equal(result.code, TN_R_MALFORMED);
    assert_int_equal(engine_outcome(&result), TN_REJECTED);

    command = (struct kernel_command){.verb = KERNEL_VERB_TOUCH, .fields = KERNEL_F_LEASE};
    engine_execute(world->engine, &command, &result); /* without its epoch */
    assert_int_equal(result.code, TN_R_MALFORMED);

    static const uint8_t claims[] = {1, 0, 'p', 7, 0, 0, 0, 0}; /* neither any nor a list */
    command = (struct kernel_command){.verb = KERNEL_VERB_ALLOC,
                                      .fields = KERNEL_F_HOLDER | KERNEL_F_CLAIMS,
                                      .holder = tn_bytes_of("h", 1),
                                      .claims = tn_bytes_of(claims, sizeof claims),
                                      .claim_count = 1};
    engine_execute(world->engine, &command, &result);
    assert_int_equal(result.code, TN_R_MALFORMED);

    uint8_t *large = calloc(1, UINT16_MAX + 1);
    assert_non_null(large);
    command = (struct kernel_command){.verb = KERNEL_VERB_TOUCH,
                                      .fields = KERNEL_F_LEASE | KERNEL_F_EPOCH | KERNEL_F_META,
                                      .meta = tn_bytes_of(large, UINT16_MAX + 1)};
    engine_execute(world->engine, &command, &result);
    assert_int_equal(result.code, TN_R_TOO_LARGE);
    assert_int_equal(engine_outcome(&result), TN_REJECTED);
    free(large);

    assert_int_equal(fakelog_appends(world->log), appends);
}

static void limits_change_only_when_opening(void **state) {
    struct world *world = *state;
    world_open(world);
    struct kernel_command limits = {.verb = KERNEL_VERB_LIMITS,
                                    .rights = KERNEL_RIGHT_OPERATOR,
                                    .fields = KERNEL_F_LIMITS,
                                    .limits = kernel_limits_default()};
    struct kernel_result result = {0};
    engine_execute(world->engine, &limits, &result);
    assert_int_equal(result.code, TN_R_MALFORMED);
}

static void a_full_operation_table_refuses_before_logging(void **state) {
    struct world *world = *state;
    struct ekit_answer *answer = &world->answer;
    world->options.limits.of[KERNEL_LIMIT_OPS] = 2;
    world_open(world);
    ekit_run_ok(world->engine, ekit_alloc(&world->command, "p", "h", 1, "op-1"), answer);
    uint64_t first = answer->result.lsn;
    ekit_run_ok(world->engine, ekit_alloc(&world->command, "p", "h", 1, "op-2"), answer);
    unsigned appends = fakelog_appends(world->log);
    uint64_t lsn = world_lsn(world);
    assert_int_equal(
        ekit_run(world->engine, ekit_alloc(&world->command, "p", "h", 1, "op-3"), answer),
        TN_R_OPS_FULL);
    assert_int_equal(engine_outcome(&answer->result), TN_REJECTED);
    assert_int_equal(fakelog_appends(world->log), appends);
    assert_int_equal(world_lsn(world), lsn);

    /* remembered operations are still answered, and commands without an id continue */
    ekit_run_ok(world->engine, ekit_alloc(&world->command, "p", "h", 1, "op-1"), answer);
    assert_true(answer->result.replayed);
    assert_int_equal(answer->result.lsn, first);
    ekit_run_ok(world->engine, ekit_alloc(&world->command, "p", "h", 1, NULL), answer);
}

/* A batch of operations that do not all fit is logged without those that do not. */
static void a_batch_keeps_the_operations_that_fit(void **state) {
    struct world *world = *state;
    struct asyncs *asyncs = asyncs_new();
    world->options.limits.of[KERNEL_LIMIT_OPS] = 3;
    world_open(world);
    fakelog_gate_shut(world->log);
    assert_int_equal(async_alloc(world, asyncs, 0), TN_R_OK);
    fakelog_gate_wait(world->log);
    for (unsigned i = 1; i <= 8; i++) {
        char opid[16];
        (void)snprintf(opid, sizeof opid, "op-%u", i);
        ekit_alloc(&world->command, "p", "h", 1, i % 4 == 0 ? NULL : opid);
        assert_int_equal(
            engine_submit(world->engine, &asyncs->of[i].request, &world->command.decoded), TN_R_OK);
    }
    fakelog_gate_open(world->log);
    asyncs_wait(asyncs, 9);
    for (unsigned i = 1; i <= 8; i++) {
        bool fits = i <= 3 || i % 4 == 0;
        assert_int_equal(asyncs->of[i].code, fits ? TN_R_OK : TN_R_OPS_FULL);
    }
    assert_int_equal(fakelog_batch_count(world->log, fakelog_batches(world->log) - 1), 5);
    ekit_check(world->engine);
    asyncs_free(asyncs);
}

/* ---- Failures of the log ---- */

static void a_full_disk_rejects_and_the_next_write_tries_again(void **state) {
    struct world *world = *state;
    struct engine_lease lease;
    world_open(world);
    assert_int_equal(world_alloc(world, "a"), TN_R_OK);
    struct kernel_lease_id id = world->answer.result.lease;
    uint64_t lsn = world_lsn(world);
    fakelog_fail(world->log, TN_NOSPACE, 2, false);
    assert_int_equal(world_alloc(world, "b"), TN_R_NOSPACE);
    assert_int_equal(engine_outcome(&world->answer.result), TN_REJECTED);
    assert_int_equal(world_alloc(world, "b"), TN_R_NOSPACE);
    assert_int_equal(engine_lease_read(world->engine, ENGINE_READ_CURRENT, id, &lease), TN_R_OK);
    assert_int_equal(world_alloc(world, "b"), TN_R_OK);
    assert_int_equal(world->answer.result.lsn, lsn + 1);
}

static void halted_answers(struct world *world, enum tn_result expected) {
    struct engine_lease lease;
    unsigned appends = fakelog_appends(world->log);
    assert_int_equal(world_alloc(world, "later"), expected);
    assert_int_equal(engine_outcome(&world->answer.result), TN_UNKNOWN);
    assert_int_equal(engine_lease_read(world->engine, ENGINE_READ_CURRENT,
                                       (struct kernel_lease_id){0, 3}, &lease),
                     expected);
    assert_int_equal(engine_tick(world->engine), expected);
    struct log_error error;
    assert_int_equal(engine_snapshot(world->engine, &error), TN_HALTED);
    assert_int_equal(fakelog_appends(world->log), appends);
    struct engine_stats stats;
    engine_stats_read(world->engine, &stats);
    assert_int_equal(stats.stopped, expected);
}

static void a_failed_sync_halts_everything(void **state) {
    struct world *world = *state;
    struct caller callers[9] = {0};
    world_open(world);
    fakelog_gate_shut(world->log);
    callers_start(callers, 1, world->engine);
    fakelog_gate_wait(world->log);
    callers_start(callers + 1, 8, world->engine);
    wait_for_queue(world, 9);
    unsigned appends = fakelog_appends(world->log);
    fakelog_fail(world->log, TN_IO, 1, false);
    fakelog_gate_open(world->log);
    callers_join(callers, 9);
    for (unsigned i = 0; i < 9; i++) {
        assert_int_equal(callers[i].answer.result.code, TN_R_HALTED);
        assert_int_equal(engine_outcome(&callers[i].answer.result), TN_UNKNOWN);
    }
    assert_int_equal(fakelog_appends(world->log), appends);
    halted_answers(world, TN_R_HALTED);
}

static void halting_wakes_those_who_wait_for_room(void **state) {
    struct world *world = *state;
    struct caller callers[12] = {0};
    world->options.batch_commands_max = 2;
    world_open(world);
    fakelog_gate_shut(world->log);
    callers_start(callers, 12, world->engine);
    wait_for_queue(world, 3);
    fakelog_fail(world->log, TN_IO, 1, false);
    fakelog_gate_open(world->log);
    callers_join(callers, 12);
    for (unsigned i = 0; i < 12; i++) {
        assert_int_equal(callers[i].answer.result.code, TN_R_HALTED);
    }
}

/* What ended in doubt is decided by the log: the operation id finds out. */
static void an_unknown_outcome_is_resolved_by_its_operation_id(void **state) {
    for (unsigned stored = 0; stored < 2; stored++) {
        struct world *world;
        assert_int_equal(world_make((void **)&world), 0);
        world_open(world);
        fakelog_fail(world->log, TN_IO, 1, stored == 1);
        ekit_alloc(&world->command, "p", "h", 1, "op");
        assert_int_equal(ekit_run(world->engine, &world->command, &world->answer), TN_R_HALTED);
        world_reopen(world);
        ekit_run_ok(world->engine, &world->command, &world->answer);
        assert_int_equal(world->answer.result.replayed, stored == 1);
        assert_int_equal(world->answer.values[0].number, 1);
        struct kernel_usage usage;
        struct kernel_limits limits;
        assert_int_equal(engine_usage(world->engine, &usage, &limits), TN_R_OK);
        assert_int_equal(usage.leases, 1);
        assert_int_equal(world_free((void **)&world), 0);
    }
    (void)state;
}

/* ---- Without threads ---- */

static void without_threads_the_submitter_commits(void **state) {
    struct world *world = *state;
    struct asyncs *asyncs = asyncs_new();
    struct log_error error;
    world->options.no_threads = true;
    world->options.snapshot_bytes = 2000;
    world_open(world);
    for (unsigned i = 0; i < 100; i++) {
        assert_int_equal(async_alloc(world, asyncs, i), TN_R_OK);
        assert_int_equal(asyncs->done_count, i + 1);
    }
    assert_true(fakelog_snapshots(world->log) > 0);
    assert_int_equal(engine_snapshot(world->engine, &error), TN_OK);
    uint64_t hash = ekit_hash(world->engine);
    world_reopen(world);
    assert_int_equal(ekit_hash(world->engine), hash);
    asyncs_free(asyncs);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        WORLD_TEST(a_lone_caller_commits_on_its_own_thread),
        WORLD_TEST(the_first_record_of_a_log_is_its_limits),
        WORLD_TEST(what_arrives_during_a_sync_shares_the_next_batch),
        WORLD_TEST(a_commit_may_be_reported_by_another_thread),
        WORLD_TEST(asynchronous_requests_are_done_in_order),
        WORLD_TEST(closing_answers_what_is_in_flight),
        WORLD_TEST(a_full_queue_refuses_asynchronous_requests),
        WORLD_TEST(blocking_callers_wait_for_room),
        WORLD_TEST(what_cannot_be_understood_is_not_logged),
        WORLD_TEST(limits_change_only_when_opening),
        WORLD_TEST(a_full_operation_table_refuses_before_logging),
        WORLD_TEST(a_batch_keeps_the_operations_that_fit),
        WORLD_TEST(a_full_disk_rejects_and_the_next_write_tries_again),
        WORLD_TEST(a_failed_sync_halts_everything),
        WORLD_TEST(halting_wakes_those_who_wait_for_room),
        cmocka_unit_test(an_unknown_outcome_is_resolved_by_its_operation_id),
        WORLD_TEST(without_threads_the_submitter_commits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
