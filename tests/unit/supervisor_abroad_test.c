/* A sensor whose run is on another node of the cluster: its lease stays until that run is gone. Nothing is
 * ever started here. */
#include "unit/unit.h"

#include "lib/enginekit.h"
#include "lib/fakelog.h"
#include "lib/fakeos.h"
#include "supervisor/supervisor_parts.h"

#define EPOCH 7u         /* of the ownership in which the run was started */
#define GONE_MS 3600000u /* when it is gone by time */
#define PULSES 6u        /* in which the supervisor looks at runs of other nodes */

struct desk {
    struct fakelog *log;
    struct fakeos *machine;
    struct engine_options options;
    struct engine *engine;
    struct supervisor_feed feed;
    struct token_issuer tokens;
    uv_loop_t loop;
    struct supervisor *supervisor;
    struct log_node other;
    bool closed;
};

static void no_line(const char *line) {
    (void)line;
}

static struct tn_bytes bytes_of(const char *text) {
    return tn_bytes_of(text, strlen(text));
}

static void run(struct desk *d, struct kernel_command command) {
    static struct ekit_command encoded;
    static struct ekit_answer answer;
    command.rights = KERNEL_RIGHT_OPERATOR | KERNEL_RIGHT_SUPERVISOR;
    command.user = bytes_of(SUPERVISOR_USER);
    ekit_command_copy(&encoded, &command);
    assert_int_equal(ekit_run(d->engine, &encoded, &answer), TN_R_OK);
}

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

static int desk_make(void **state) {
    struct desk *d = calloc(1, sizeof *d);
    assert_non_null(d);
    d->log = fakelog_new();
    d->machine = fakeos_new(1);
    ekit_limits_small(&d->options);
    d->options.log = fakelog_base(d->log);
    d->options.store = fakelog_store(d->log);
    d->options.manual_ticks = true;
    supervisor_feed_init(&d->feed);
    d->engine = ekit_open(&d->options);
    supervisor_feed_attach(&d->feed, d->engine);
    pool_make(d);
    lease_make(d);
    (void)snprintf(d->other.name, sizeof d->other.name, "a");
    memset(d->other.boot_id, 1, sizeof d->other.boot_id);
    fakelog_set_nodes(d->log, &d->other, 1);
    assert_int_equal(uv_loop_init(&d->loop), 0);
    const struct os *os = fakeos_table(d->machine);
    struct supervisor_options options = {
        .loop = &d->loop,
        .engine = d->engine,
        .feed = &d->feed,
        .tokens = &d->tokens,
        .os = os,
        .dir = "/sensors",
        .guardian = "/bin/true",
        .defaults = sensor_defaults_make(),
        .cluster = {.node = "b",
                    .epoch = EPOCH + 1,
                    .abroad_gone_at_ms = os->clock_boot_ms(os->ctx) + GONE_MS},
        .seed = 1,
        .log = no_line};
    d->supervisor = supervisor_open(&options);
    assert_non_null(d->supervisor);
    assert_false(d->supervisor->off);
    while (d->supervisor->orphans != NULL) { /* there are none on this machine */
        (void)uv_run(&d->loop, UV_RUN_ONCE);
    }
    *state = d;
    return 0;
}

static void on_closed(void *ctx) {
    ((struct desk *)ctx)->closed = true;
}

static int desk_drop(void **state) {
    struct desk *d = *state;
    supervisor_close(d->supervisor, on_closed, d);
    while (!d->closed) {
        (void)uv_run(&d->loop, UV_RUN_ONCE);
    }
    supervisor_free(d->supervisor);
    assert_int_equal(uv_loop_close(&d->loop), 0);
    (void)engine_close(d->engine);
    supervisor_feed_free(&d->feed);
    fakelog_free(d->log);
    fakeos_free(d->machine);
    free(d);
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

#define TEST(name) cmocka_unit_test_setup_teardown(name, desk_make, desk_drop)

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(a_run_of_another_node_is_not_dead_because_there_is_no_process_here),
        TEST(it_is_gone_when_its_guardian_has_had_time_to_kill_it),
        TEST(it_is_gone_when_its_machine_has_booted_since),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
