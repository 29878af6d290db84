/* Reports of sensors and their supervisor, and what no other client may do to the lease of a
 * run. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
/* cmocka wants the headers above first */
#include <cmocka.h>
#include <string.h>

#include "lib/kit.h"

/* A pool of sensors with one run, and an ordinary pool. */
struct world {
    struct kit kit;
    struct kit_token run;
};

static void world_open(struct world *world) {
    struct kit *kit = &world->kit;
    kit_open(kit, NULL);
    kit->rights = KERNEL_RIGHT_SUPERVISOR;
    assert_int_equal(kit_pool(kit, "sensors", "kind=1 internal=1"), TN_R_OK);
    assert_int_equal(kit_add(kit, "sensors", "core.timer core.other"), TN_R_OK);
    assert_int_equal(kit_pool(kit, "ports", "lo=1 hi=9"), TN_R_OK);
    assert_int_equal(kit_alloc(kit, "sup", "sensors=core.timer", 0), TN_R_OK);
    world->run = kit_token(kit);
}

static struct kernel_command emit(const struct world *world) {
    struct kernel_command c = kit_command(KERNEL_VERB_EMIT);
    c.rights = KERNEL_RIGHT_SUPERVISOR;
    c.lease = world->run.lease;
    c.epoch = world->run.epoch;
    c.name = kit_text("core.timer");
    c.trigger = kit_text("timer");
    c.fields |= KERNEL_F_META;
    c.meta = kit_text("{\"n\":1}");
    return c;
}

static void assert_emits(struct world *world, const struct kernel_command *c, enum tn_result code) {
    uint64_t before = kernel_hash(world->kit.kernel);
    assert_int_equal(kit_run(&world->kit, c), code);
    assert_int_equal(world->kit.event_count, code == TN_R_OK ? 1 : 0);
    assert_int_equal(world->kit.events[KERNEL_EVENT_SENSOR_EMITTED], code == TN_R_OK ? 1 : 0);
    assert_int_not_equal(kernel_hash(world->kit.kernel), before); /* the LSN is part of the state */
}

static void a_run_emits_while_it_has_its_lease(void **state) {
    (void)state;
    struct world world;
    world_open(&world);
    struct kernel_command c = emit(&world);
    assert_emits(&world, &c, TN_R_OK);
    assert_int_equal(world.kit.result.epoch, world.run.epoch);
    c.fields &= ~(uint32_t)KERNEL_F_META;
    c.meta = (struct tn_bytes){0};
    assert_emits(&world, &c, TN_R_OK);
    assert_int_equal(kit_revoke(&world.kit, world.run, -1), TN_R_OK);
    assert_emits(&world, &c, TN_R_STALE);
    c.epoch++;
    assert_emits(&world, &c, TN_R_STATE);
    struct kit_token revoked = {.lease = world.run.lease, .epoch = world.run.epoch + 1};
    assert_int_equal(kit_reclaim(&world.kit, revoked), TN_R_OK);
    assert_emits(&world, &c, TN_R_STATE);
    c.lease.lsn += 1000;
    assert_emits(&world, &c, TN_R_NOTFOUND);
    kit_close(&world.kit);
}

static void only_for_itself(void **state) {
    (void)state;
    struct world world;
    world_open(&world);
    struct kernel_command c = emit(&world);
    c.name = kit_text("core.other");
    assert_emits(&world, &c, TN_R_BAD_VALUE);
    assert_int_equal(kit_alloc(&world.kit, "h", "ports=5", 0), TN_R_OK);
    c = emit(&world);
    c.lease = world.kit.result.lease;
    c.epoch = world.kit.result.epoch;
    c.name = kit_text("5");
    assert_emits(&world, &c, TN_R_BAD_VALUE);
    kit_close(&world.kit);
}

static void only_if_the_edge_vouches_for_it(void **state) {
    (void)state;
    struct world world;
    world_open(&world);
    struct kernel_command c = emit(&world);
    world.kit.rights = 0;
    c.rights = KERNEL_RIGHT_OPERATOR;
    assert_emits(&world, &c, TN_R_DENIED);
    kit_close(&world.kit);
}

static void what_is_emitted_has_bounds(void **state) {
    (void)state;
    struct world world;
    static char large[KERNEL_META_MAX + 1];
    world_open(&world);
    struct kernel_command c = emit(&world);
    memset(large, 'x', sizeof large);
    c.meta = tn_bytes_of(large, sizeof large);
    assert_emits(&world, &c, TN_R_TOO_LARGE);
    assert_int_equal(world.kit.result.number, KERNEL_META_MAX);
    c.meta.len--;
    assert_emits(&world, &c, TN_R_OK);
    c.trigger = tn_bytes_of(large, KERNEL_RULE_MAX + 1);
    assert_emits(&world, &c, TN_R_BAD_NAME);
    c.trigger.len--;
    assert_emits(&world, &c, TN_R_OK);
    c.trigger.len = 0;
    assert_emits(&world, &c, TN_R_BAD_NAME);
    kit_close(&world.kit);
}

static void an_operation_id_emits_once(void **state) {
    (void)state;
    struct world world;
    world_open(&world);
    struct kernel_command c = emit(&world);
    c.opid = kit_text("a");
    assert_emits(&world, &c, TN_R_OK);
    uint64_t lsn = world.kit.result.lsn;
    assert_int_equal(kit_run(&world.kit, &c), TN_R_OK);
    assert_true(world.kit.result.replayed);
    assert_int_equal(world.kit.result.lsn, lsn);
    assert_int_equal(world.kit.event_count, 0);
    c.meta = kit_text("2");
    assert_int_equal(kit_run(&world.kit, &c), TN_R_CONFLICT);
    kit_close(&world.kit);
}

static void the_supervisor_reports_what_it_did(void **state) {
    (void)state;
    static const struct {
        const char *word;
        enum kernel_event_kind kind;
    } words[] = {
        {"started", KERNEL_EVENT_SENSOR_STARTED},
        {"stopped", KERNEL_EVENT_SENSOR_STOPPED},
        {"crashed", KERNEL_EVENT_SENSOR_CRASHED},
        {"error", KERNEL_EVENT_SENSOR_ERROR},
        {"start_failed", KERNEL_EVENT_SENSOR_START_FAILED},
    };
    struct world world;
    world_open(&world);
    struct kernel_command c = kit_command(KERNEL_VERB_SENSOR_REPORT);
    c.name = kit_text("gone"); /* a sensor that no longer exists */
    for (unsigned i = 0; i < sizeof words / sizeof words[0]; i++) {
        c.trigger = kit_text(words[i].word);
        assert_int_equal(kit_run(&world.kit, &c), TN_R_OK);
        assert_int_equal(world.kit.event_count, 1);
        assert_int_equal(world.kit.events[words[i].kind], 1);
    }
    c.trigger = kit_text("emitted");
    assert_int_equal(kit_run(&world.kit, &c), TN_R_BAD_REQUEST);
    c.trigger = kit_text("started");
    c.name = kit_text("no name");
    assert_int_equal(kit_run(&world.kit, &c), TN_R_BAD_NAME);
    world.kit.rights = 0;
    assert_int_equal(kit_run(&world.kit, &c), TN_R_DENIED);
    assert_int_equal(world.kit.event_count, 0);
    kit_close(&world.kit);
}

static void a_runs_lease_is_the_supervisors_alone(void **state) {
    (void)state;
    struct world world;
    world_open(&world);
    struct kit *kit = &world.kit;
    kit->rights = 0;
    assert_int_equal(kit_touch(kit, world.run, 0), TN_R_DENIED);
    assert_int_equal(kit_release(kit, world.run, "sup", true), TN_R_DENIED);
    assert_int_equal(kit_rekey(kit, world.run, "thief"), TN_R_DENIED);
    assert_int_equal(kit_revoke(kit, world.run, 0), TN_R_DENIED); /* free by the clock */
    assert_int_equal(kit_disown(kit, "sup", "sensors"), TN_R_DENIED);
    assert_int_equal(kit_state(kit, world.run), KERNEL_ACTIVE);
    assert_int_equal(kit_revoke(kit, world.run, -1), TN_R_OK); /* the process is then stopped */
    assert_int_equal(kit_reclaim(kit, kit_token(kit)), TN_R_DENIED);
    struct kit_token revoking = {.lease = world.run.lease, .epoch = world.run.epoch};
    assert_int_equal(kit_ack(kit, revoking, "sup"), TN_R_DENIED);
    assert_int_equal(kit_state(kit, world.run), KERNEL_REVOKING);
    kit->rights = KERNEL_RIGHT_SUPERVISOR;
    assert_int_equal(kit_reclaim(kit, revoking), TN_R_OK);
    kit->rights = 0;
    assert_int_equal(kit_touch(kit, revoking, 0), TN_R_STALE); /* over: nothing to guard */
    kit_close(&world.kit);
}

static void a_bundle_with_one_value_of_theirs_is_theirs(void **state) {
    (void)state;
    struct world world;
    world_open(&world);
    struct kit *kit = &world.kit;
    assert_int_equal(kit_alloc(kit, "h", "ports:1 sensors=core.other", 0), TN_R_OK);
    struct kit_token bundle = kit_token(kit);
    kit->rights = 0;
    assert_int_equal(kit_touch(kit, bundle, 0), TN_R_DENIED);
    assert_int_equal(kit_disown(kit, "h", "ports"), TN_R_OK);
    assert_int_equal(kit_state(kit, bundle), KERNEL_ACTIVE);
    kit_close(&world.kit);
}

static void a_disown_passes_a_run_over(void **state) {
    (void)state;
    struct world world;
    world_open(&world);
    struct kit *kit = &world.kit;
    kit->rights = 0;
    assert_int_equal(kit_alloc(kit, "sup", "ports:1", 0), TN_R_OK);
    struct kit_token port = kit_token(kit);
    assert_int_equal(kit_disown(kit, "sup", NULL), TN_R_OK);
    assert_int_equal(kit->result.number, 1);
    assert_int_equal(kit_state(kit, port), KERNEL_RELEASED);
    assert_int_equal(kit_state(kit, world.run), KERNEL_ACTIVE);
    kit->rights = KERNEL_RIGHT_SUPERVISOR;
    assert_int_equal(kit_disown(kit, "sup", "sensors"), TN_R_OK);
    assert_int_equal(kit_state(kit, world.run), KERNEL_RELEASED);
    kit_close(&world.kit);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_run_emits_while_it_has_its_lease),
        cmocka_unit_test(only_for_itself),
        cmocka_unit_test(only_if_the_edge_vouches_for_it),
        cmocka_unit_test(what_is_emitted_has_bounds),
        cmocka_unit_test(an_operation_id_emits_once),
        cmocka_unit_test(the_supervisor_reports_what_it_did),
        cmocka_unit_test(a_runs_lease_is_the_supervisors_alone),
        cmocka_unit_test(a_bundle_with_one_value_of_theirs_is_theirs),
        cmocka_unit_test(a_disown_passes_a_run_over),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
