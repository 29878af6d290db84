/* A sensor whose run is on another node of the cluster: its lease stays until that run has ended.
 * No process is started here. */
#include "unit/supervisor_desk.h"

#define EPOCH 7u         /* epoch of the ownership in which the run was started */
#define GONE_MS 3600000u /* when the run counts as ended by time */
#define PULSES 6u        /* in which the supervisor looks at runs of other nodes */

static void pool_make(struct desk *d) {
    struct kernel_policy_patch patch = {.mask = (uint32_t)1 << KERNEL_OPTION_KIND |
                                                (uint32_t)1 << KERNEL_OPTION_INTERNAL};
    uint8_t bytes[64];
    struct tn_writer w = tn_writer_of(bytes, sizeof bytes);
    patch.values.of[KERNEL_OPTION_KIND] = KERNEL_SET;
    patch.values.of[KERNEL_OPTION_INTERNAL] = 1;
    run(d, (struct kernel_command){.verb = KERNEL_VERB_POOL_CREATE,
                                   .fields = KERNEL_F_POOL | KERNEL_F_POLICY,
                                   .pool = bytes_of(TOKEN_SENSOR_POOL),
                                   .policy = &patch});
    kernel_requested_write_text(&w, bytes_of("s"));
    run(d, (struct kernel_command){.verb = KERNEL_VERB_POOL_ADD,
                                   .fields = KERNEL_F_POOL | KERNEL_F_VALUES,
                                   .pool = bytes_of(TOKEN_SENSOR_POOL),
                                   .values = tn_bytes_of(bytes, w.len),
                                   .value_count = 1});
}

/* As node "a" has left it. */
static void lease_make(struct desk *d) {
    uint8_t bytes[64];
    struct tn_writer w = tn_writer_of(bytes, sizeof bytes);
    kernel_claim_write(&w, bytes_of(TOKEN_SENSOR_POOL), false, 1);
    kernel_requested_write_text(&w, bytes_of("s"));
    run(d, (struct kernel_command){
               .verb = KERNEL_VERB_ALLOC,
               .fields = KERNEL_F_HOLDER | KERNEL_F_CLAIMS | KERNEL_F_META,
               .holder = bytes_of(SUPERVISOR_HOLDER "s"),
               .claims = tn_bytes_of(bytes, w.len),
               .claim_count = 1,
               .meta = bytes_of("{\"node\":\"a\",\"boot\":\"01010101010101010101010101010101\","
                                "\"epoch\":\"7\"}")});
}

/* Node "b" begins to own the log. The `late`-th question after that whether it owns it is answered with no. */
static struct desk *desk_begin(unsigned late) {
    struct desk *d = desk_new(16);
    const struct os *os = fakeos_table(d->machine);
    pool_make(d);
    lease_make(d);
    (void)snprintf(d->other.name, sizeof d->other.name, "a");
    memset(d->other.boot_id, 1, sizeof d->other.boot_id);
    fakelog_set_nodes(d->log, &d->other, 1);
    fakelog_expire_at(d->log, late);
    desk_open(
        d, (struct supervisor_cluster){.node = "b",
                                       .epoch = EPOCH + 1,
                                       .abroad_gone_at_ms = os->clock_boot_ms(os->ctx) + GONE_MS});
    fakelog_expire_at(d->log, 0);
    return d;
}

static int desk_make(void **state) {
    *state = desk_begin(0);
    return 0;
}

static uint64_t free_values(struct desk *d) {
    struct kernel_pool_view pool;
    uint64_t lsn;
    assert_int_equal(
        engine_pool_read(d->engine, ENGINE_READ_AS_IS, bytes_of(TOKEN_SENSOR_POOL), &pool, &lsn),
        TN_R_OK);
    return pool.active + pool.revoking == 0 ? 1 : 0;
}

static const struct supervisor_sensor *sensor_of(const struct desk *d) {
    assert_non_null(d->supervisor->sensors);
    return d->supervisor->sensors;
}

static void pulses_pass(struct desk *d) {
    for (unsigned end = d->supervisor->pulses + PULSES; d->supervisor->pulses < end;) {
        (void)uv_run(&d->loop, UV_RUN_ONCE);
    }
}

static void stays(struct desk *d) {
    assert_int_equal(sensor_of(d)->plan.run_is, PLAN_RUN_ABROAD);
    pulses_pass(d);
    assert_int_equal(sensor_of(d)->plan.run_is, PLAN_RUN_ABROAD);
    assert_int_equal(free_values(d), 0);
}

static void is_reclaimed(struct desk *d) {
    while (free_values(d) == 0) {
        (void)uv_run(&d->loop, UV_RUN_ONCE);
    }
}

static void a_run_of_another_node_is_not_dead_because_there_is_no_process_here(void **state) {
    struct desk *d = *state;
    stays(d);
    d->other.clean_epoch = EPOCH - 1; /* of earlier runs */
    fakelog_set_nodes(d->log, &d->other, 1);
    stays(d);
    d->other.clean_epoch = EPOCH;
    fakelog_set_nodes(d->log, &d->other, 1);
    is_reclaimed(d);
}

static void it_is_gone_when_its_guardian_has_had_time_to_kill_it(void **state) {
    struct desk *d = *state;
    fakeos_clock_advance(d->machine, GONE_MS - 1);
    stays(d);
    fakeos_clock_advance(d->machine, 1);
    is_reclaimed(d);
}

static void it_is_gone_when_its_machine_has_booted_since(void **state) {
    struct desk *d = *state;
    memset(d->other.boot_id, 2, sizeof d->other.boot_id);
    fakelog_set_nodes(d->log, &d->other, 1);
    is_reclaimed(d);
}

/* What the supervisor cannot read at that moment must not count as absent. */
static void it_stays_if_the_log_is_renewed_late_while_the_supervisor_begins(void **state) {
    (void)state;
    for (unsigned late = 1; late <= 16; late++) {
        struct desk *d = desk_begin(late);
        assert_int_equal(sensor_of(d)->plan.run_is, PLAN_RUN_ABROAD);
        assert_int_equal(free_values(d), 0);
        (void)desk_drop((void **)&d);
    }
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, desk_make, desk_drop)

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(a_run_of_another_node_is_not_dead_because_there_is_no_process_here),
        TEST(it_is_gone_when_its_guardian_has_had_time_to_kill_it),
        TEST(it_is_gone_when_its_machine_has_booted_since),
        cmocka_unit_test(it_stays_if_the_log_is_renewed_late_while_the_supervisor_begins),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
