/* The engine over a log that commits late, elsewhere, not at all, or in doubt.
 * Who commits, what shares a batch, what a caller may conclude, time, events, reads. */
/* tsan */
#include "unit/unit.h"

#include <pthread.h>

#include "lib/enginekit.h"
#include "lib/fakelog.h"
#include "lib/fakeos.h"

/* One engine over a fake log, on a machine whose clocks stand still. */
struct world {
    struct fakelog *log;
    struct fakeos *machine;
    struct engine_options options;
    struct engine *engine;
    struct kit_command command;
    struct kit_answer answer;
};

static int world_make(void **state) {
    struct world *world = calloc(1, sizeof *world);
    assert_non_null(world);
    world->log = fakelog_new();
    world->machine = fakeos_new(1);
    world->options = (struct engine_options){
        .os = fakeos_table(world->machine), .log = fakelog_base(world->log), .manual_ticks = true};
    kit_limits_small(&world->options);
    *state = world;
    return 0;
}

static void world_close(struct world *world) {
    if (world->engine != NULL) {
        (void)engine_close(world->engine);
        world->engine = NULL;
    }
}

static int world_free(void **state) {
    struct world *world = *state;
    fakelog_gate_open(world->log);
    world_close(world);
    fakelog_free(world->log);
    fakeos_free(world->machine);
    free(world);
    return 0;
}

/* Opens with a pool of 1000 values, whose leases last a minute. */
static void world_open(struct world *world) {
    world->engine = kit_open(&world->options);
    kit_run_ok(world->engine, kit_pool(&world->command, "p", 1, 1000, 60), &world->answer);
}

static void world_reopen(struct world *world) {
    world_close(world);
    world->engine = kit_open(&world->options);
}

static enum tn_result world_alloc(struct world *world, const char *holder) {
    return kit_run(world->engine, kit_alloc(&world->command, "p", holder, 1, NULL), &world->answer);
}

static uint64_t world_lsn(struct world *world) {
    struct engine_stats stats;
    engine_stats_read(world->engine, &stats);
    return stats.lsn;
}

/* ---- A caller of its own thread ---- */

struct caller {
    pthread_t thread;
    struct engine *engine;
    char holder[32];
    struct kit_answer answer;
};

static void *caller_main(void *arg) {
    struct caller *caller = arg;
    struct kit_command command;
    (void)kit_run(caller->engine, kit_alloc(&command, "p", caller->holder, 1, NULL),
                  &caller->answer);
    return NULL;
}

static void callers_start(struct caller *callers, unsigned count, struct engine *engine) {
    for (unsigned i = 0; i < count; i++) {
        callers[i].engine = engine;
        (void)snprintf(callers[i].holder, sizeof callers[i].holder, "caller/%u", i);
        assert_int_equal(pthread_create(&callers[i].thread, NULL, caller_main, &callers[i]), 0);
    }
}

static void callers_join(struct caller *callers, unsigned count) {
    for (unsigned i = 0; i < count; i++) {
        assert_int_equal(pthread_join(callers[i].thread, NULL), 0);
    }
}

struct queue_wait {
    struct engine *engine;
    uint64_t commands;
};

static bool queue_has(void *ctx) {
    struct queue_wait *wait = ctx;
    struct engine_stats stats;
    engine_stats_read(wait->engine, &stats);
    return stats.queue_commands >= wait->commands;
}

static void wait_for_queue(struct world *world, uint64_t commands) {
    struct queue_wait wait = {.engine = world->engine, .commands = commands};
    kit_wait(queue_has, &wait);
}

/* ---- Asynchronous requests ---- */

struct async {
    struct engine_request request;
    pthread_mutex_t *lock;
    pthread_cond_t *changed;
    unsigned *done_count;
    enum tn_result code;
    uint64_t lsn;
    uint64_t order; /* the how-many-th to be done */
};

struct asyncs {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    unsigned done_count;
    struct async of[512];
};

static void async_done(struct engine_request *request, struct tn_bytes command) {
    struct async *async = request->ctx;
    (void)command;
    pthread_mutex_lock(async->lock);
    async->code = request->result.code;
    async->lsn = request->result.lsn;
    async->order = ++*async->done_count;
    pthread_cond_broadcast(async->changed);
    pthread_mutex_unlock(async->lock);
}

static struct asyncs *asyncs_new(void) {
    struct asyncs *asyncs = calloc(1, sizeof *asyncs);
    assert_non_null(asyncs);
    pthread_mutex_init(&asyncs->lock, NULL);
    pthread_cond_init(&asyncs->changed, NULL);
    for (unsigned i = 0; i < 512; i++) {
        struct async *async = &asyncs->of[i];
        async->lock = &asyncs->lock;
        async->changed = &asyncs->changed;
        async->done_count = &asyncs->done_count;
        async->request = (struct engine_request){.done = async_done, .ctx = async};
    }
    return asyncs;
}

static enum tn_result async_alloc(struct world *world, struct asyncs *asyncs, unsigned i) {
    char holder[32];
    (void)snprintf(holder, sizeof holder, "async/%u", i);
    kit_alloc(&world->command, "p", holder, 1, NULL);
    return engine_submit(world->engine, &asyncs->of[i].request, world->command.bytes);
}

static void asyncs_wait(struct asyncs *asyncs, unsigned count) {
    pthread_mutex_lock(&asyncs->lock);
    while (asyncs->done_count < count) {
        pthread_cond_wait(&asyncs->changed, &asyncs->lock);
    }
    pthread_mutex_unlock(&asyncs->lock);
}

static void asyncs_free(struct asyncs *asyncs) {
    pthread_cond_destroy(&asyncs->changed);
    pthread_mutex_destroy(&asyncs->lock);
    free(asyncs);
}

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
    world->engine = kit_open(&world->options);
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

    static const uint8_t garbage[] = {255, 1, 2, 3};
    engine_execute(world->engine, tn_bytes_of(garbage, sizeof garbage), &result);
    assert_int_equal(result.code, TN_R_MALFORMED);
    assert_int_equal(engine_outcome(&result), TN_REJECTED);

    engine_execute(world->engine, tn_bytes_of(garbage, 0), &result);
    assert_int_equal(result.code, TN_R_MALFORMED);

    uint8_t *large = calloc(1, KERNEL_COMMAND_MAX + 1);
    assert_non_null(large);
    engine_execute(world->engine, tn_bytes_of(large, KERNEL_COMMAND_MAX + 1), &result);
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
    uint8_t bytes[512];
    uint32_t len = kernel_command_encode(&limits, bytes, sizeof bytes);
    assert_true(len > 0);
    struct kernel_result result = {0};
    engine_execute(world->engine, tn_bytes_of(bytes, len), &result);
    assert_int_equal(result.code, TN_R_MALFORMED);
}

static void a_full_operation_table_refuses_before_logging(void **state) {
    struct world *world = *state;
    struct kit_answer *answer = &world->answer;
    world->options.limits.of[KERNEL_LIMIT_OPS] = 2;
    world_open(world);
    kit_run_ok(world->engine, kit_alloc(&world->command, "p", "h", 1, "op-1"), answer);
    uint64_t first = answer->result.lsn;
    kit_run_ok(world->engine, kit_alloc(&world->command, "p", "h", 1, "op-2"), answer);
    unsigned appends = fakelog_appends(world->log);
    uint64_t lsn = world_lsn(world);
    assert_int_equal(
        kit_run(world->engine, kit_alloc(&world->command, "p", "h", 1, "op-3"), answer),
        TN_R_OPS_FULL);
    assert_int_equal(engine_outcome(&answer->result), TN_REJECTED);
    assert_int_equal(fakelog_appends(world->log), appends);
    assert_int_equal(world_lsn(world), lsn);

    /* What is remembered is answered all the same, and commands without an id go on. */
    kit_run_ok(world->engine, kit_alloc(&world->command, "p", "h", 1, "op-1"), answer);
    assert_true(answer->result.replayed);
    assert_int_equal(answer->result.lsn, first);
    kit_run_ok(world->engine, kit_alloc(&world->command, "p", "h", 1, NULL), answer);
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
        kit_alloc(&world->command, "p", "h", 1, i % 4 == 0 ? NULL : opid);
        assert_int_equal(engine_submit(world->engine, &asyncs->of[i].request, world->command.bytes),
                         TN_R_OK);
    }
    fakelog_gate_open(world->log);
    asyncs_wait(asyncs, 9);
    for (unsigned i = 1; i <= 8; i++) {
        bool fits = i <= 3 || i % 4 == 0;
        assert_int_equal(asyncs->of[i].code, fits ? TN_R_OK : TN_R_OPS_FULL);
    }
    assert_int_equal(fakelog_batch_count(world->log, fakelog_batches(world->log) - 1), 5);
    kit_check(world->engine);
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
    assert_int_equal(engine_lease_read(world->engine, 0, id, &lease), TN_R_OK);
    assert_int_equal(world_alloc(world, "b"), TN_R_OK);
    assert_int_equal(world->answer.result.lsn, lsn + 1);
}

static void halted_answers(struct world *world, enum tn_result expected) {
    struct engine_lease lease;
    unsigned appends = fakelog_appends(world->log);
    assert_int_equal(world_alloc(world, "later"), expected);
    assert_int_equal(engine_outcome(&world->answer.result), TN_UNKNOWN);
    assert_int_equal(engine_lease_read(world->engine, 0, (struct kernel_lease_id){0, 3}, &lease),
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

static void a_lost_log_is_told_apart(void **state) {
    struct world *world = *state;
    world_open(world);
    fakelog_fail(world->log, TN_LOST, 1, false);
    assert_int_equal(world_alloc(world, "a"), TN_R_LOST);
    halted_answers(world, TN_R_LOST);
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
        kit_alloc(&world->command, "p", "h", 1, "op");
        assert_int_equal(kit_run(world->engine, &world->command, &world->answer), TN_R_HALTED);
        world_reopen(world);
        kit_run_ok(world->engine, &world->command, &world->answer);
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
    assert_int_equal(engine_open(&world->options, &world->engine, &error), TN_TIME_JUMP);
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
    world->engine = kit_open(&world->options);
    kit_run_ok(world->engine, kit_pool(&world->command, "p", 1, 10, 1), &world->answer);
    assert_int_equal(world_alloc(world, "a"), TN_R_OK);
    fakeos_clock_advance(world->machine, 1000);
    kit_wait(has_expired, world);
}

static void ticks_go_on_until_nothing_is_due(void **state) {
    struct world *world = *state;
    struct asyncs *asyncs = asyncs_new();
    world->options.manual_ticks = false;
    world->options.limits.of[KERNEL_LIMIT_TICK_STEP] = 8;
    world->options.limits_mask |= 1u << KERNEL_LIMIT_TICK_STEP;
    world->engine = kit_open(&world->options);
    kit_run_ok(world->engine, kit_pool(&world->command, "p", 1, 1000, 1), &world->answer);
    for (unsigned i = 0; i < 300; i++) {
        assert_int_equal(async_alloc(world, asyncs, i), TN_R_OK);
    }
    asyncs_wait(asyncs, 300);
    fakeos_clock_advance(world->machine, 5000);
    kit_wait(has_expired, world);
    asyncs_free(asyncs);
}

static bool idle_once(void *ctx) {
    struct world *world = ctx;
    return fakelog_idles(world->log) > 0;
}

static void the_log_is_told_when_nothing_happens(void **state) {
    struct world *world = *state;
    world_open(world);
    kit_wait(idle_once, world);
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
    assert_int_equal(engine_verify(world->engine, 0, id, 1, &lease), TN_R_OK);
    assert_int_equal(world_lsn(world), before);
    fakeos_clock_advance(world->machine, 60000);
    assert_int_not_equal(engine_verify(world->engine, 0, id, 1, &lease), TN_R_OK);
    assert_int_equal(lease.view.state, KERNEL_EXPIRED);
    assert_int_equal(world_lsn(world), before + 1);

    assert_int_equal(world_alloc(world, "b"), TN_R_OK);
    fakeos_clock_advance(world->machine, 60000);
    assert_int_equal(engine_pool_read(world->engine, 0, tn_bytes_of("p", 1), &pool, &lsn), TN_R_OK);
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
    assert_int_equal(engine_lease_read(world->engine, 0, id, &lease), TN_R_NOTFOUND);
    assert_int_equal(engine_lease_read(world->engine, lsn + 1, id, &lease), TN_R_NOT_YET);
    fakelog_gate_open(world->log);
    assert_int_equal(engine_lease_read(world->engine, lsn + 1, id, &lease), TN_R_OK);
    assert_int_equal(lease.view.state, KERNEL_ACTIVE);
    assert_int_equal(lease.value_count, 1);
    assert_string_equal(lease.values[0].pool, "p");
    callers_join(&caller, 1);
}

/* ---- Events ---- */

struct heard {
    struct world *world;
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
    if (heard->world->engine != NULL) {
        struct engine_lease lease;
        struct kernel_result result = {0};
        heard->read_code = engine_lease_read(heard->world->engine, 0, event->fact.lease, &lease);
        engine_execute(heard->world->engine, heard->world->command.bytes, &result);
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
    assert_int_equal(world_alloc(world, "a"), TN_R_OK);
    assert_int_equal(heard.count, before + 1);
    assert_string_equal(heard.last_kind, "lease.active");
    assert_string_equal(heard.last_pool, "p");
    assert_int_equal(heard.lsn, world->answer.result.lsn);
    /* Inside, it could read; a blocking write was refused, not deadlocked. */
    assert_int_equal(heard.read_code, TN_R_OK);
    assert_int_equal(heard.write_code, TN_R_OVERLOADED);
}

static void events_of_recovery_are_marked(void **state) {
    struct world *world = *state;
    struct heard heard = {.world = world};
    world_open(world);
    assert_int_equal(world_alloc(world, "a"), TN_R_OK);
    world->options.no_snapshot_at_close = true;
    world_close(world);
    world->options.no_snapshot_at_close = false;

    world->options.event = hear;
    world->options.event_ctx = &heard;
    world_reopen(world);
    assert_int_equal(heard.count, 0);
    world_close(world);
    world->options.replay_events = true;
    world_reopen(world);
    assert_int_equal(heard.count, 0); /* the last close took a snapshot: nothing was replayed */
    world_close(world);
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
    world->engine = kit_open(&world->options);
    kit_run_ok(world->engine, kit_pool(&world->command, "p", 1, 100000, 1), &world->answer);
    for (unsigned i = 0; i < 500; i++) {
        kit_alloc(&world->command, "p", "h", 32, NULL);
        assert_int_equal(engine_submit(world->engine, &asyncs->of[i].request, world->command.bytes),
                         TN_R_OK);
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
    struct kit_command command;
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
        (void)engine_submit(chain->engine, request, chain->command.bytes);
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
    kit_alloc(&chain.command, "p", "h", 1, NULL);
    assert_int_equal(engine_submit(world->engine, &chain.request, chain.command.bytes), TN_R_OK);
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
    uint64_t hash = kit_hash(world->engine);
    world_reopen(world);
    struct engine_stats stats;
    engine_stats_read(world->engine, &stats);
    assert_int_equal(stats.recovery_commands, 50);
    assert_int_equal(kit_hash(world->engine), hash);
    kit_check(world->engine);
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
    uint64_t hash = kit_hash(world->engine);
    world_reopen(world);
    assert_int_equal(kit_hash(world->engine), hash);
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
    kit_wait(snapshot_taken, world);
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
    kit_check(world->engine);
    uint64_t hash = kit_hash(world->engine);

    /* Whoever does not ask gets those in force. */
    world->options.limits_mask = 0;
    world_reopen(world);
    assert_int_equal(kit_hash(world->engine), hash);
    world_close(world);

    world->options.limits_mask = 1u << KERNEL_LIMIT_LEASES;
    world->options.limits.of[KERNEL_LIMIT_LEASES] = 10;
    assert_int_equal(engine_open(&world->options, &world->engine, &error), TN_INVALID);
    assert_true(strlen(error.text) > 0);
    world->options.limits.of[KERNEL_LIMIT_LEASES] = 0;
    assert_int_equal(engine_open(&world->options, &world->engine, &error), TN_INVALID);
    assert_non_null(strstr(error.text, "leases_max"));
    world->engine = NULL;
    world->options.limits_mask = 0;
    world_reopen(world);
    assert_int_equal(kit_hash(world->engine), hash);
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
    world->engine = kit_open(&world->options);
    kit_run_ok(world->engine, kit_pool_sticky(&world->command, "ids", 1, 100, 3600),
               &world->answer);
    kit_run_ok(world->engine, kit_alloc(&world->command, "ids", "device/1", 1, NULL),
               &world->answer);
    assert_int_equal(engine_tick(world->engine), TN_R_OK);
    assert_int_equal(told.count, 1);
    assert_string_equal(told.last.pool, "ids");
    assert_int_equal(told.last.allocated_count, 1);
    assert_int_equal(told.last.base_lease_seconds, 3600);
    assert_int_equal(told.last.new_device_rate_per_hour_micro, 1000000);

    kit_run_ok(world->engine, kit_alloc(&world->command, "ids", "device/2", 1, NULL),
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
    uint64_t hash = kit_hash(world->engine);
    world_reopen(world);
    assert_int_equal(kit_hash(world->engine), hash);
    asyncs_free(asyncs);
}

#define WORLD_TEST(name) cmocka_unit_test_setup_teardown(name, world_make, world_free)

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
        WORLD_TEST(a_lost_log_is_told_apart),
        WORLD_TEST(halting_wakes_those_who_wait_for_room),
        cmocka_unit_test(an_unknown_outcome_is_resolved_by_its_operation_id),
        WORLD_TEST(time_goes_on_by_the_boot_clock_only),
        WORLD_TEST(time_never_goes_back_across_a_restart),
        WORLD_TEST(a_jump_of_the_clock_must_be_confirmed),
        WORLD_TEST(what_is_due_happens_without_being_asked),
        WORLD_TEST(ticks_go_on_until_nothing_is_due),
        WORLD_TEST(the_log_is_told_when_nothing_happens),
        WORLD_TEST(a_read_that_hangs_on_a_passed_deadline_ticks_first),
        WORLD_TEST(a_read_waits_for_the_position_asked_for),
        WORLD_TEST(events_are_heard_in_order_before_the_call_returns),
        WORLD_TEST(events_of_recovery_are_marked),
        WORLD_TEST(replayed_events_are_the_same_ones),
        WORLD_TEST(a_flood_of_events_loses_none),
        WORLD_TEST(a_callback_may_submit),
        WORLD_TEST(a_snapshot_and_what_follows_give_the_same_state),
        WORLD_TEST(a_snapshot_that_fails_harms_nothing),
        WORLD_TEST(enough_log_makes_a_snapshot_by_itself),
        WORLD_TEST(closing_takes_a_snapshot_only_after_a_write),
        WORLD_TEST(limits_can_be_changed_at_a_start),
        WORLD_TEST(metrics_are_told_when_they_change_at_their_interval),
        WORLD_TEST(without_threads_the_submitter_commits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
