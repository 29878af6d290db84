/* Authority fails closed: once the clock has passed a lease's deadline, no read reports that the
 * lease lives, whether or not the log could record its end; and an engine that has lost its log
 * answers no reads of leases at all. */
#include "unit/engine_world.h"

#include "token/token_issuer.h"

struct subject {
    struct kernel_lease_id id;
    uint64_t epoch;
    uint64_t number;
    uint64_t deadline_ms;
};

static struct subject lease_make(struct world *world) {
    assert_int_equal(world_alloc(world, "h"), TN_R_OK);
    return (struct subject){.id = world->answer.result.lease,
                            .epoch = world->answer.result.epoch,
                            .number = world->answer.values[0].number,
                            .deadline_ms = world->answer.result.deadline_ms};
}

/* One lease of a minute, and the clock at its deadline. */
static struct subject lease_lapse(struct world *world) {
    struct subject subject = lease_make(world);
    fakeos_clock_advance(world->machine, 60000);
    assert_int_equal(engine_now(world->engine), subject.deadline_ms);
    return subject;
}

static uint32_t listed(struct world *world, enum engine_read_mode how, enum kernel_state state,
                       struct engine_lease page[4]) {
    struct kernel_lease_filter filter = {.state = state};
    uint64_t cursor = 0;
    uint64_t lsn = 0;
    uint32_t count = 0;
    assert_int_equal(
        engine_leases_list(world->engine, how, &filter, &cursor, page, 4, &count, &lsn), TN_R_OK);
    return count;
}

/* What every read of a lease says of one whose deadline has passed unrecorded. */
static void reads_say_overdue(struct world *world, const struct subject *subject,
                              enum engine_read_mode how) {
    struct engine_lease lease;
    struct engine_lease page[4];
    struct kernel_pool_view pool;
    struct kernel_requested requested = {.number = subject->number};
    struct engine *engine = world->engine;
    uint64_t lsn = 0;
    assert_int_equal(engine_verify(engine, how, subject->id, subject->epoch, &lease), TN_R_OVERDUE);
    assert_int_equal(lease.view.state, KERNEL_OVERDUE);
    assert_int_equal(engine_verify(engine, how, subject->id, subject->epoch + 1, &lease),
                     TN_R_STALE);
    assert_int_equal(lease.view.state, KERNEL_OVERDUE);
    assert_int_equal(engine_lease_read(engine, how, subject->id, &lease), TN_R_OK);
    assert_int_equal(lease.view.state, KERNEL_OVERDUE);
    assert_int_equal(engine_lease_by_value(engine, how, tn_bytes_of("p", 1), &requested, &lease),
                     TN_R_OK);
    assert_int_equal(lease.view.state, KERNEL_OVERDUE);
    assert_int_equal(listed(world, how, KERNEL_NO_STATE, page), 1);
    assert_int_equal(page[0].view.state, KERNEL_OVERDUE);
    assert_int_equal(listed(world, how, KERNEL_ACTIVE, page), 0);
    assert_int_equal(listed(world, how, KERNEL_OVERDUE, page), 1);
    assert_int_equal(engine_pool_read(engine, how, tn_bytes_of("p", 1), &pool, &lsn), TN_R_OK);
    assert_int_equal(pool.overdue_since_ms, subject->deadline_ms);
}

static void on_a_full_disk_a_passed_deadline_ends_authority(void **state) {
    struct world *world = *state;
    struct engine_lease lease;
    world_open(world);
    struct subject subject = lease_lapse(world);
    fakelog_fail(world->log, TN_NOSPACE, 1000, false);
    reads_say_overdue(world, &subject, 0);
    reads_say_overdue(world, &subject, ENGINE_READ_AS_IS);
    fakelog_fail(world->log, TN_OK, 0, false);
    assert_int_equal(
        engine_verify(world->engine, ENGINE_READ_CURRENT, subject.id, subject.epoch, &lease),
        TN_R_STALE);
    assert_int_equal(lease.view.state, KERNEL_EXPIRED);
}

static void before_the_deadline_a_full_disk_changes_nothing(void **state) {
    struct world *world = *state;
    struct engine_lease lease;
    struct engine_lease page[4];
    world_open(world);
    struct subject subject = lease_make(world);
    fakelog_fail(world->log, TN_NOSPACE, 1000, false);
    fakeos_clock_advance(world->machine, 59999);
    assert_int_equal(
        engine_verify(world->engine, ENGINE_READ_CURRENT, subject.id, subject.epoch, &lease),
        TN_R_OK);
    assert_int_equal(listed(world, 0, KERNEL_ACTIVE, page), 1);
    assert_int_equal(listed(world, 0, KERNEL_OVERDUE, page), 0);
    fakelog_fail(world->log, TN_OK, 0, false);
}

/* Ticks of one step: after one, most leases are still due in the state. */
static void what_a_bounded_tick_left_behind_is_overdue(void **state) {
    struct world *world = *state;
    struct engine_lease lease;
    struct subject last = {.epoch = 0};
    world->options.limits.of[KERNEL_LIMIT_TICK_STEP] = 1;
    world->options.limits_mask |= 1u << KERNEL_LIMIT_TICK_STEP;
    world_open(world);
    for (unsigned i = 0; i < 8; i++) {
        last = lease_make(world);
    }
    fakeos_clock_advance(world->machine, 60000);
    assert_int_equal(engine_tick(world->engine), TN_R_OK);
    assert_int_equal(engine_verify(world->engine, ENGINE_READ_AS_IS, last.id, last.epoch, &lease),
                     TN_R_OVERDUE);
    assert_int_equal(engine_verify(world->engine, ENGINE_READ_CURRENT, last.id, last.epoch, &lease),
                     TN_R_STALE);
}

static void command_run(struct world *world, const struct kernel_command *command) {
    struct ekit_command *out = &world->command;
    ekit_command_copy(out, command);
    ekit_run_ok(world->engine, out, &world->answer);
}

static void a_revoked_lease_stays_revoking_past_its_deadline(void **state) {
    struct world *world = *state;
    struct engine_lease lease;
    struct kernel_command revoke = {.verb = KERNEL_VERB_REVOKE,
                                    .rights = KERNEL_RIGHT_OPERATOR,
                                    .fields = KERNEL_F_LEASE | KERNEL_F_AFTER,
                                    .after_s = 10};
    world_open(world);
    struct subject subject = lease_make(world);
    revoke.lease = subject.id;
    command_run(world, &revoke);
    fakeos_clock_advance(world->machine, 10000);
    fakelog_fail(world->log, TN_NOSPACE, 1000, false);
    assert_int_equal(engine_lease_read(world->engine, ENGINE_READ_CURRENT, subject.id, &lease),
                     TN_R_OK);
    assert_int_equal(lease.view.state, KERNEL_REVOKING);
    fakelog_fail(world->log, TN_OK, 0, false);
}

/* ---- Tokens ---- */

static void on_a_full_disk_tokens_end_with_the_deadline(void **state) {
    struct world *world = *state;
    const struct os *os = fakeos_table(world->machine);
    struct token_issuer issuer = {.name = "t", .ttl_max_s = 1000};
    struct token_issued issued;
    struct token_issued other;
    struct token_state told;
    struct token_order terms = {.has_ttl = false};
    char reason[TOKEN_REASON_MAX];
    char detail[PROTOCOL_DETAIL];
    world_open(world);
    issuer.engine = world->engine;
    assert_int_equal(os->make_dir(os->ctx, "/d"), TN_OK);
    assert_int_equal(token_keys_open(&issuer.keys, os, "/d", 1000, token_now(&issuer), reason),
                     TN_OK);
    struct subject subject = lease_make(world);
    struct token_order order = {
        .lease = subject.id, .epoch = subject.epoch, .has_ttl = true, .ttl_s = 1000};
    assert_int_equal(token_issue(&issuer, 0, &order, &issued, detail), TN_R_OK);
    struct kernel_command touch = {.verb = KERNEL_VERB_TOUCH,
                                   .rights = KERNEL_RIGHT_OPERATOR,
                                   .fields = KERNEL_F_LEASE | KERNEL_F_EPOCH | KERNEL_F_TTL,
                                   .lease = subject.id,
                                   .epoch = subject.epoch,
                                   .ttl_s = 10};
    command_run(world, &touch); /* the token would outlast the lease */
    fakeos_clock_advance(world->machine, 10000);
    fakelog_fail(world->log, TN_NOSPACE, 1000, false);
    struct tn_bytes token = tn_bytes_of(issued.text, issued.len);
    assert_int_equal(token_issue(&issuer, 0, &order, &other, detail), TN_R_OVERDUE);
    assert_int_equal(token_refresh(&issuer, 0, token, &terms, &other, detail), TN_R_BAD_TOKEN);
    assert_int_equal(token_introspect(&issuer, 0, token, &told), TN_R_OK);
    assert_int_equal(told.verdict, TOKEN_OVERDUE);
    fakelog_fail(world->log, TN_OK, 0, false);
    token_keys_close(&issuer.keys);
}

/* ---- A slow disk ---- */

struct stalled {
    struct engine *engine;
    enum tn_result code;
};

static void *stalled_list(void *arg) {
    struct stalled *stalled = arg;
    struct engine_lease page[4];
    struct kernel_lease_filter filter = {.state = KERNEL_ACTIVE};
    uint64_t cursor = 0;
    uint64_t lsn;
    uint32_t count = 4;
    stalled->code = engine_leases_list(stalled->engine, ENGINE_READ_CURRENT, &filter, &cursor, page,
                                       4, &count, &lsn);
    assert_int_equal(count, 0);
    return NULL;
}

/* A read waits for its tick so long that the lease it asks about ends meanwhile. */
static void a_deadline_that_passes_while_a_read_waits_counts(void **state) {
    struct world *world = *state;
    struct stalled stalled = {.code = TN_R_COUNT};
    pthread_t thread;
    world_open(world);
    (void)lease_make(world);
    fakeos_clock_advance(world->machine, 30000);
    (void)lease_make(world);
    stalled.engine = world->engine;
    fakeos_clock_advance(world->machine, 30000); /* the first is due: the list wants a tick */
    fakelog_gate_shut(world->log);
    assert_int_equal(pthread_create(&thread, NULL, stalled_list, &stalled), 0);
    fakelog_gate_wait(world->log);
    fakeos_clock_advance(world->machine, 30000);
    fakelog_gate_open(world->log);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_int_equal(stalled.code, TN_R_OK);
}

/* ---- No log, no answer ---- */

static void without_its_log_an_engine_vouches_for_nothing(void **state) {
    static const struct {
        enum tn_status status;
        enum tn_result verdict;
    } cases[] = {{TN_IO, TN_R_HALTED}, {TN_LOST, TN_R_MASTERDOWN}};
    static const enum engine_read_mode hows[] = {ENGINE_READ_CURRENT, ENGINE_READ_NOWAIT,
                                                 ENGINE_READ_AS_IS};
    (void)state;
    for (unsigned i = 0; i < 6; i++) {
        struct world *world;
        struct engine_lease page[4];
        struct kernel_pool_view pool;
        struct kernel_lease_filter filter = {.state = KERNEL_NO_STATE};
        struct kernel_requested requested = {.number = 1};
        struct engine_value value;
        enum engine_read_mode how = hows[i % 3];
        uint64_t lsn = 0;
        uint64_t cursor = 0;
        uint32_t count = 0;
        enum tn_result verdict = cases[i / 3].verdict;
        assert_int_equal(world_make((void **)&world), 0);
        world_open(world);
        struct subject s = lease_make(world);
        struct engine *engine = world->engine;
        fakelog_fail(world->log, cases[i / 3].status, 1, false);
        assert_int_equal(world_alloc(world, "other"), verdict);
        assert_int_equal(engine_verify(engine, how, s.id, s.epoch, page), verdict);
        assert_int_equal(page->view.state, KERNEL_NO_STATE);
        assert_int_equal(engine_lease_read(engine, how, s.id, page), verdict);
        assert_int_equal(page->view.state, KERNEL_NO_STATE);
        assert_int_equal(engine_lease_by_value(engine, how, tn_bytes_of("p", 1), &requested, page),
                         verdict);
        assert_int_equal(engine_lease_values(engine, how, s.id, 0, &value, 1, &count), verdict);
        assert_int_equal(engine_leases_list(engine, how, &filter, &cursor, page, 4, &count, &lsn),
                         verdict);
        assert_int_equal(count, 0);
        assert_int_equal(engine_pool_read(engine, how, tn_bytes_of("p", 1), &pool, &lsn), verdict);
        assert_int_equal(engine_pools_list(engine, how, &cursor, &pool, 1, &count, &lsn), verdict);
        assert_int_equal(world_free((void **)&world), 0);
    }
}

/* ---- A log that confirms reads ---- */

static void count_one(void *ctx) {
    ++*(unsigned *)ctx;
}

static void tell_none(void *ctx, const struct engine_metrics *metrics) {
    (void)metrics;
    ++*(unsigned *)ctx;
}

/* The commit thread tells metrics. It must not wait for the thread of the log, which may wait for it. */
static void metrics_are_told_without_asking_the_log(void **state) {
    struct world *world = *state;
    unsigned told = 0, asked = 0;
    world->options.metrics = tell_none;
    world->options.metrics_ctx = &told;
    fakelog_on_confirm(world->log, count_one, &asked);
    world->engine = ekit_open(&world->options);
    ekit_run_ok(world->engine, ekit_pool_sticky(&world->command, "ids", 1, 100, 3600),
                &world->answer);
    assert_int_equal(engine_tick(world->engine), TN_R_OK);
    assert_int_equal(told, 1);
    assert_int_equal(asked, 0);
    world_close(world);
}

/* A thread that must not wait asks by itself, once for many reads. */
static void only_a_read_that_may_wait_asks_the_log(void **state) {
    struct world *world = *state;
    struct engine_lease lease;
    unsigned asked = 0;
    fakelog_on_confirm(world->log, count_one, &asked);
    world_open(world);
    struct subject subject = lease_make(world);
    asked = 0;
    for (enum engine_read_mode how = ENGINE_READ_CURRENT; how <= ENGINE_READ_STALE; how++) {
        assert_int_equal(engine_lease_read(world->engine, how, subject.id, &lease), TN_R_OK);
        assert_int_equal(asked, 1);
    }
    assert_true(engine_is_to_confirm(world->engine));
    assert_true(engine_confirm(world->engine));
    assert_int_equal(asked, 2);
    world_close(world);
}

static void lead_again(void *ctx) {
    struct world *world = ctx;
    struct log_error error;
    fakelog_owner(world->log, false, "other:1");
    fakelog_owner(world->log, true, "");
    assert_int_equal(engine_lead(world->engine, &error), TN_OK);
}

static void a_lead_that_is_taken_again_does_not_confirm_an_earlier_look(void **state) {
    struct world *world = *state;
    struct engine_lease lease;
    unsigned asked = 0;
    world_open(world);
    struct subject subject = lease_make(world);
    fakelog_on_confirm(world->log, lead_again, world);
    assert_int_equal(engine_lease_read(world->engine, ENGINE_READ_CURRENT, subject.id, &lease),
                     TN_R_MASTERDOWN);
    fakelog_on_confirm(world->log, count_one, &asked);
    assert_int_equal(engine_lease_read(world->engine, ENGINE_READ_CURRENT, subject.id, &lease),
                     TN_R_OK);
    assert_int_equal(asked, 1);
    world_close(world);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        WORLD_TEST(on_a_full_disk_a_passed_deadline_ends_authority),
        WORLD_TEST(before_the_deadline_a_full_disk_changes_nothing),
        WORLD_TEST(what_a_bounded_tick_left_behind_is_overdue),
        WORLD_TEST(a_revoked_lease_stays_revoking_past_its_deadline),
        WORLD_TEST(on_a_full_disk_tokens_end_with_the_deadline),
        WORLD_TEST(a_deadline_that_passes_while_a_read_waits_counts),
        WORLD_TEST(metrics_are_told_without_asking_the_log),
        WORLD_TEST(only_a_read_that_may_wait_asks_the_log),
        WORLD_TEST(a_lead_that_is_taken_again_does_not_confirm_an_earlier_look),
        cmocka_unit_test(without_its_log_an_engine_vouches_for_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
