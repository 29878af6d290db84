/* Errors of the kernel that the model of tests/sim has found, each as short as possible. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
/* cmocka wants the headers above first */
#include <cmocka.h>

#include "lib/kit.h"

static struct kernel_pool_view pool_view(const struct kit *kit, const char *name) {
    struct kernel_pool_view view;
    assert_int_equal(kernel_pool_read(kit->kernel, kit_text(name), kit->now_ms, &view), TN_R_OK);
    return view;
}

static void a_reservation_lasts_as_asked_whatever_the_largest_ttl_of_leases(void **state) {
    (void)state;
    struct kit kit;
    kit_open(&kit, NULL);
    kit_pool(&kit, "p", "lo=1 hi=9 lease=5 max_lease=8 reserve_ttl_max=60");
    assert_int_equal(kit_reserve(&kit, "h", "p:1", 60), TN_R_OK);
    assert_int_equal(kit.result.deadline_ms, kit.now_ms + 60000);
    kit_close(&kit);
}

static void a_scope_gives_no_cold_value_that_its_template_excludes_now(void **state) {
    (void)state;
    struct kit kit;
    kit_open(&kit, NULL);
    kit_pool(&kit, "t", "lo=1 hi=2 scoped=1 strategy=3");
    kit_alloc(&kit, "a", "t@x=2", 0);
    kit_alloc(&kit, "b", "t@x=1", 0);
    kit_release(&kit, kit_token(&kit), "b", true);
    assert_int_equal(kit_alter(&kit, "t", "exclude=1-1"), TN_R_OK);
    assert_int_equal(kit_alloc(&kit, "c", "t@x:1", 0), TN_R_EXHAUSTED);
    kit_close(&kit);
}

static void a_scope_of_an_internal_pool_is_the_supervisors_too(void **state) {
    (void)state;
    struct kit kit;
    kit_open(&kit, NULL);
    kit_pool(&kit, "t", "lo=1 hi=2 scoped=1 internal=1");
    uint8_t bytes[64];
    struct tn_writer w = tn_writer_of(bytes, sizeof bytes);
    kernel_claim_write(&w, kit_text("t@x"), true, 1);
    struct kernel_command c = kit_command(KERNEL_VERB_ALLOC);
    c.rights |= KERNEL_RIGHT_SUPERVISOR;
    c.holder = kit_text("h");
    c.claims = tn_bytes_of(bytes, w.len);
    c.claim_count = 1;
    assert_int_equal(kit_run(&kit, &c), TN_R_OK);
    assert_int_equal(kit_drop(&kit, "t@x"), TN_R_DENIED);
    kit_close(&kit);
}

static void a_resource_whose_lease_is_over_can_be_removed(void **state) {
    (void)state;
    struct kit kit;
    kit_open(&kit, NULL);
    kit_pool(&kit, "s", "kind=1 lease=5 cooldown=5");
    kit_add(&kit, "s", "a b");
    kit_alloc(&kit, "h", "s=a", 0);
    kit.now_ms += 5000;
    assert_int_equal(kit_remove(&kit, "s", "a"), TN_R_POOL_IN_USE); /* cooling */
    kit.now_ms += 5000;
    assert_int_equal(kit_remove(&kit, "s", "a"), TN_R_OK);
    kit_close(&kit);
}

static void adding_what_is_there_needs_no_room(void **state) {
    (void)state;
    struct kernel_limits limits = kit_limits();
    limits.of[KERNEL_LIMIT_RESOURCES] = 2;
    struct kit kit;
    kit_open(&kit, &limits);
    kit_pool(&kit, "s", "kind=1");
    assert_int_equal(kit_add(&kit, "s", "a b"), TN_R_OK);
    assert_int_equal(kit_add(&kit, "s", "a b"), TN_R_NOOP);
    assert_int_equal(kit_add(&kit, "s", "b c"), TN_R_RESOURCES_FULL);
    kit_close(&kit);
}

static void an_internal_pool_is_altered_by_the_supervisor_only(void **state) {
    (void)state;
    struct kit kit;
    kit_open(&kit, NULL);
    kit_pool(&kit, "p", "lo=1 hi=9 internal=1");
    struct kernel_policy_patch patch = {.mask = 1u << KERNEL_OPTION_LEASE};
    patch.values.of[KERNEL_OPTION_LEASE] = 5;
    struct kernel_command c = kit_command(KERNEL_VERB_POOL_ALTER);
    c.pool = kit_text("p");
    c.policy = &patch;
    assert_int_equal(kit_run(&kit, &c), TN_R_DENIED);
    assert_int_equal(kit_alter(&kit, "p", "lease=5"), TN_R_OK);
    kit_close(&kit);
}

static void a_set_in_use_takes_any_bounds_for_they_mean_nothing(void **state) {
    (void)state;
    struct kit kit;
    kit_open(&kit, NULL);
    kit_pool(&kit, "s", "kind=1 lo=1 hi=2");
    kit_add(&kit, "s", "a");
    kit_alloc(&kit, "h", "s=a", 0);
    assert_int_equal(kit_alter(&kit, "s", "lo=7 hi=9"), TN_R_OK);
    kit_close(&kit);
}

static void a_pool_that_shrank_has_no_more_used_values_than_it_has_values(void **state) {
    (void)state;
    struct kit kit;
    kit_open(&kit, NULL);
    kit_pool(&kit, "p", "lo=1 hi=9");
    kit_alloc(&kit, "h", "p:9", 0);
    kit_release(&kit, kit_token(&kit), "h", true);
    assert_int_equal(pool_view(&kit, "p").ever_used_free, 9);
    assert_int_equal(kit_alter(&kit, "p", "hi=3"), TN_R_OK);
    assert_int_equal(pool_view(&kit, "p").ever_used_free, 3);
    kit_close(&kit);
}

static void rule_set(struct kit *kit, enum kernel_verb verb, const char *name, const char *trigger,
                     enum tn_result want) {
    struct kernel_command c = kit_command(verb);
    c.name = kit_text(name);
    c.trigger = kit_text(trigger);
    c.enabled = true;
    assert_int_equal(kit_run(kit, &c), want);
}

static void a_rule_changes_its_trigger_also_when_every_table_is_full(void **state) {
    (void)state;
    struct kernel_limits limits = kit_limits();
    limits.of[KERNEL_LIMIT_RULES] = 1;
    limits.of[KERNEL_LIMIT_SENSORS] = 1;
    struct kit kit;
    kit_open(&kit, &limits);
    rule_set(&kit, KERNEL_VERB_RULE_SET, "r", "one", TN_R_OK);
    rule_set(&kit, KERNEL_VERB_SENSOR_SET, "s", "two", TN_R_OK);
    rule_set(&kit, KERNEL_VERB_RULE_SET, "r", "three", TN_R_OK);
    rule_set(&kit, KERNEL_VERB_RULE_SET, "r2", "three", TN_R_DEMAND_FULL);
    kit_close(&kit);
}

static void a_list_of_ended_leases_ends_where_reading_them_ends(void **state) {
    (void)state;
    struct kernel_limits limits = kit_limits();
    limits.of[KERNEL_LIMIT_HISTORY_SECONDS] = 10;
    struct kit kit;
    kit_open(&kit, &limits);
    kit_pool(&kit, "p", "lo=1 hi=9");
    /* More than leave with one command. */
    for (uint32_t i = 0; i < 6; i++) {
        kit_alloc(&kit, "h", "p:1", 0);
        kit_release(&kit, kit_token(&kit), "h", true);
    }
    kit.now_ms += 10000;
    kit_alloc(&kit, "h", "p:1", 0);
    struct kernel_lease_filter filter = {.state = KERNEL_RELEASED};
    struct kernel_lease_view views[8];
    uint32_t count = 0;
    kernel_leases_scan(kit.kernel, &filter, 0, 100, views, 8, &count);
    assert_int_equal(count, 0);
    kit_close(&kit);
}

static enum tn_result tick_as(struct kit *kit, const char *opid) {
    struct kernel_command c = kit_command(KERNEL_VERB_TICK);
    c.opid = kit_text(opid);
    uint64_t chunks;
    assert_int_equal(kernel_op_admit(kit->kernel, &c, 0, 0, 0, &chunks), TN_R_OK);
    return kit_run(kit, &c);
}

static void an_admitted_operation_finds_room_also_after_the_window_became_shorter(void **state) {
    (void)state;
    struct kernel_limits limits = kit_limits();
    limits.of[KERNEL_LIMIT_OPS] = 2;
    limits.of[KERNEL_LIMIT_OP_SECONDS] = 100;
    struct kit kit;
    kit_open(&kit, &limits);
    assert_int_equal(tick_as(&kit, "first"), TN_R_OK);
    struct kernel_command c = kit_command(KERNEL_VERB_LIMITS);
    limits.of[KERNEL_LIMIT_OP_SECONDS] = 1;
    c.limits = limits;
    assert_int_equal(kernel_limits_prepare(kit.kernel, &limits), TN_OK);
    assert_int_equal(kit_run(&kit, &c), TN_R_OK);
    assert_int_equal(tick_as(&kit, "second"), TN_R_OK);
    kit.now_ms += 2000;
    assert_int_equal(tick_as(&kit, "second"), TN_R_OK);
    assert_true(kit.result.replayed);
    kit_close(&kit);
}

/* Its last value cools down within the drop itself, when history has let its lease go before. */
static void a_scope_that_the_drop_itself_empties_is_dropped_once(void **state) {
    (void)state;
    struct kernel_limits limits = kit_limits();
    limits.of[KERNEL_LIMIT_HISTORY_SECONDS] = 1;
    struct kit kit;
    kit_open(&kit, &limits);
    kit_pool(&kit, "t", "lo=1 hi=9 scoped=1 cooldown=60");
    kit_alloc(&kit, "h", "t@a:1", 0);
    kit_release(&kit, kit_token(&kit), "h", true);
    kit.now_ms += 30000;
    struct kernel_command tick = kit_command(KERNEL_VERB_TICK);
    assert_int_equal(kit_run(&kit, &tick), TN_R_OK);
    kit.now_ms += 40000;
    assert_int_equal(kit_drop(&kit, "t@a"), TN_R_OK);
    assert_int_equal(kit_alloc(&kit, "h", "t@a:1", 0), TN_R_OK);
    kit_close(&kit);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_reservation_lasts_as_asked_whatever_the_largest_ttl_of_leases),
        cmocka_unit_test(a_scope_gives_no_cold_value_that_its_template_excludes_now),
        cmocka_unit_test(a_scope_of_an_internal_pool_is_the_supervisors_too),
        cmocka_unit_test(a_scope_that_the_drop_itself_empties_is_dropped_once),
        cmocka_unit_test(a_resource_whose_lease_is_over_can_be_removed),
        cmocka_unit_test(adding_what_is_there_needs_no_room),
        cmocka_unit_test(an_internal_pool_is_altered_by_the_supervisor_only),
        cmocka_unit_test(a_set_in_use_takes_any_bounds_for_they_mean_nothing),
        cmocka_unit_test(a_pool_that_shrank_has_no_more_used_values_than_it_has_values),
        cmocka_unit_test(a_rule_changes_its_trigger_also_when_every_table_is_full),
        cmocka_unit_test(an_admitted_operation_finds_room_also_after_the_window_became_shorter),
        cmocka_unit_test(a_list_of_ended_leases_ends_where_reading_them_ends),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
