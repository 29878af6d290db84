/* Corners that a review found the kernel to be wrong in, each with the sequence that showed it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
/* cmocka wants the headers above first */
#include <cmocka.h>
#include <stdio.h>

#include "lib/kit.h"

static struct kernel_pool_view pool_view(const struct kit *kit, const char *name) {
    struct kernel_pool_view view;
    assert_int_equal(kernel_pool_read(kit->kernel, kit_text(name), kit->now_ms, &view), TN_R_OK);
    return view;
}

static void a_scope_whose_template_is_no_longer_coldest_gives_a_value_once(void **state) {
    (void)state;
    struct kit kit;
    kit_open(&kit, NULL);
    kit_pool(&kit, "t", "lo=1 hi=9 scoped=1 strategy=3");
    kit_alloc(&kit, "a", "t@x=2", 0);
    kit_alloc(&kit, "b", "t@x=5", 0);
    kit_release(&kit, kit_token(&kit), "b", true);
    assert_int_equal(kit_alter(&kit, "t", "strategy=0"), TN_R_OK);
    assert_int_equal(kit_alloc(&kit, "c", "t@x=5 t@x:1", 0), TN_R_OK);
    struct kit_token c = kit_token(&kit);
    assert_int_equal(kit_alloc(&kit, "d", "t@x=5", 0), TN_R_BUSY);
    assert_int_equal(kit_release(&kit, c, "c", true), TN_R_OK);
    kit_close(&kit);
}

static void a_quota_that_was_off_counts_again_in_every_scope(void **state) {
    (void)state;
    struct kit kit;
    kit_open(&kit, NULL);
    kit_pool(&kit, "t", "lo=1 hi=9 scoped=1 max_per_holder=1");
    kit_alloc(&kit, "a", "t@x:1", 0);
    kit_alter(&kit, "t", "max_per_holder=0");
    kit_alloc(&kit, "a", "t@y:1", 0);
    struct kit_token y = kit_token(&kit);
    assert_int_equal(kit_alter(&kit, "t", "max_per_holder=1"), TN_R_OK);
    assert_int_equal(kit_alloc(&kit, "a", "t@y:1", 0), TN_R_QUOTA);
    assert_int_equal(kit_rekey(&kit, y, "b"), TN_R_OK);
    kit_close(&kit);
}

static void a_rate_window_in_a_policy_cannot_outgrow_the_limit(void **state) {
    (void)state;
    struct kit kit;
    kit_open(&kit, NULL);
    kit_pool(&kit, "t", "lo=1 hi=9 scoped=1 sticky=1");
    struct kernel_limits limits = kit_limits();
    limits.of[KERNEL_LIMIT_RATE_WINDOW] = 60;
    assert_int_equal(kernel_limits_prepare(kit.kernel, &limits), TN_INVALID);
    kit_alter(&kit, "t", "rate_window_seconds=60");
    assert_int_equal(kernel_limits_prepare(kit.kernel, &limits), TN_OK);
    struct kernel_command c = kit_command(KERNEL_VERB_LIMITS);
    c.limits = limits;
    assert_int_equal(kit_run(&kit, &c), TN_R_OK);
    assert_int_equal(kit_alloc(&kit, "d", "t@x", 0), TN_R_OK);
    kit_close(&kit);
}

static void newcomers(struct kit *kit, const char *pool, unsigned count) {
    for (unsigned i = 0; i < count; i++) {
        char holder[32];
        snprintf(holder, sizeof holder, "n%u", i);
        assert_int_equal(kit_alloc(kit, holder, pool, 0), TN_R_OK);
    }
}

static void a_templates_alter_reaches_the_meters_of_its_scopes(void **state) {
    (void)state;
    struct kit kit;
    kit_open(&kit, NULL);
    kit_pool(&kit, "t", "lo=1 hi=999 scoped=1 sticky=1 ultra_rate_sustain_seconds=10");
    kit_alloc(&kit, "d", "t@x", 0);
    struct kit_token t = kit_token(&kit);
    newcomers(&kit, "t@x", 200);
    kit_release(&kit, t, "d", false);
    t.epoch++;
    kit_alter(&kit, "t", "rate_window_seconds=60");
    kit.now_ms += 1000000;
    assert_int_equal(pool_view(&kit, "t@x").rate_micro, 0);
    assert_false(pool_view(&kit, "t@x").force_zero);
    assert_int_equal(kit_touch(&kit, t, 0), TN_R_OK);
    kit_close(&kit);
}

static void a_longer_window_is_no_break_of_an_ultra_rate(void **state) {
    (void)state;
    struct kit kit;
    kit_open(&kit, NULL);
    kit_pool(&kit, "ids",
             "lo=1 hi=999 sticky=1 rate_window_seconds=60"
             " ultra_rate_sustain_seconds=10");
    newcomers(&kit, "ids", 200);
    kit.now_ms += 20000;
    kit_tick(&kit);
    assert_true(pool_view(&kit, "ids").force_zero);
    kit_alter(&kit, "ids", "rate_window_seconds=3600");
    assert_true(pool_view(&kit, "ids").force_zero);
    kit_close(&kit);
}

static void a_refused_scope_costs_no_history(void **state) {
    (void)state;
    struct kit kit;
    struct kernel_limits limits = kit_limits();
    limits.of[KERNEL_LIMIT_POOLS] = 2;
    kit_open(&kit, &limits);
    kit_pool(&kit, "p", "lo=1 hi=99");
    kit_pool(&kit, "t", "lo=1 hi=9 scoped=1");
    kit_alloc(&kit, "h", "p:1", 0);
    struct kit_token t = kit_token(&kit);
    kit_release(&kit, t, "h", true);
    assert_int_equal(kit_alloc(&kit, "h", "t@x:1", 0), TN_R_POOLS_FULL);
    assert_int_equal(kit_state(&kit, t), KERNEL_RELEASED);
    kit_close(&kit);
}

static void a_disown_sees_a_lease_that_is_rekeyed_to_its_own_holder(void **state) {
    (void)state;
    struct kit kit;
    kit_open(&kit, NULL);
    kit_pool(&kit, "p", "lo=1 hi=99");
    kit_alloc(&kit, "a", "p:1", 0);
    struct kit_token oldest = kit_token(&kit);
    for (int i = 0; i < 20; i++) {
        kit_alloc(&kit, "a", "p:1", 0);
    }
    kit_disown(&kit, "a", NULL);
    assert_int_equal(kit_rekey(&kit, oldest, "a"), TN_R_BUSY);
    kit_tick(&kit);
    assert_int_equal(kit_state(&kit, oldest), KERNEL_RELEASED);
    kit_close(&kit);
}

static void a_table_full_of_large_results_asks_for_ticks(void **state) {
    (void)state;
    struct kit kit;
    struct kernel_limits limits = kit_limits();
    limits.of[KERNEL_LIMIT_OPS] = 100000;
    limits.of[KERNEL_LIMIT_BUNDLE] = 4096;
    limits.of[KERNEL_LIMIT_MEMBERS] = 10000;
    limits.of[KERNEL_LIMIT_HISTORY] = 5000;
    kit_open(&kit, &limits);
    kit.check_every = 0;
    kit_pool(&kit, "p", "lo=1 hi=99999");
    uint8_t bytes[64];
    struct tn_writer w = tn_writer_of(bytes, sizeof bytes);
    kernel_claim_write(&w, kit_text("p"), true, 4096);
    struct kernel_command c = kit_command(KERNEL_VERB_ALLOC);
    c.holder = kit_text("h");
    c.claims = tn_bytes_of(bytes, w.len);
    c.claim_count = 1;
    char opid[16];
    uint64_t chunks;
    for (int i = 0;; i++) {
        snprintf(opid, sizeof opid, "op%d", i);
        c.opid = kit_text(opid);
        if (kernel_op_admit(kit.kernel, &c, 0, 0, 0, &chunks) == TN_R_OPS_FULL) {
            break;
        }
        assert_int_equal(kit_run(&kit, &c), TN_R_OK);
        kit_release(&kit, kit_token(&kit), "h", true);
    }
    assert_true(kernel_next_due(kit.kernel) <= kit.now_ms + 600000);
    kit.now_ms += 600000;
    kit_tick(&kit);
    assert_int_equal(kernel_op_admit(kit.kernel, &c, 0, 0, 0, &chunks), TN_R_OK);
    kit_close(&kit);
}

static void a_sticky_lease_returns_to_its_own_user_only(void **state) {
    (void)state;
    struct kit kit;
    kit_open(&kit, NULL);
    kit_pool(&kit, "ids", "sticky=1");
    uint8_t bytes[32];
    struct tn_writer w = tn_writer_of(bytes, sizeof bytes);
    kernel_claim_write(&w, kit_text("ids"), true, 0);
    struct kernel_command c = kit_command(KERNEL_VERB_ALLOC);
    c.rights = 0;
    c.holder = kit_text("dev1");
    c.claims = tn_bytes_of(bytes, w.len);
    c.claim_count = 1;
    c.user = kit_text("alice");
    assert_int_equal(kit_run(&kit, &c), TN_R_OK);
    struct kit_token t = kit_token(&kit);
    c.user = kit_text("mallory");
    assert_int_equal(kit_run(&kit, &c), TN_R_DENIED);
    assert_int_equal(kit_touch(&kit, t, 0), TN_R_OK);
    kit_close(&kit);
}

static void coldest_never_queues_what_is_excluded(void **state) {
    (void)state;
    struct kit kit;
    kit_open(&kit, NULL);
    kit_pool(&kit, "p", "lo=1 hi=6 strategy=3");
    for (int i = 0; i < 6; i++) {
        kit_alloc(&kit, "h", "p:1", 0);
    }
    kit_disown(&kit, "h", NULL);
    assert_int_equal(kit_alter(&kit, "p", "exclude=1-4"), TN_R_OK);
    assert_int_equal(kit_alloc(&kit, "h", "p:2", 0), TN_R_OK);
    assert_int_equal(kit.result.values[0].number, 5);
    assert_int_equal(kit.result.values[1].number, 6);
    assert_int_equal(kit_alloc(&kit, "h", "p:1", 0), TN_R_EXHAUSTED);
    assert_int_equal(kit_alloc(&kit, "h", "p=2", 0), TN_R_OK); /* an operator may, by name */
    kit_release(&kit, kit_token(&kit), "h", true);
    assert_int_equal(kit_alloc(&kit, "h", "p:1", 0), TN_R_EXHAUSTED);
    kit_close(&kit);
}

static void the_hint_of_an_exhausted_pool_is_never_late(void **state) {
    (void)state;
    struct kit kit;
    kit_open(&kit, NULL);
    kit_pool(&kit, "p", "lo=1 hi=40 lease=10");
    kit_pool(&kit, "q", "lo=1 hi=40 lease=10");
    for (int i = 0; i < 39; i++) {
        kit_alloc(&kit, "h", "p:1", 0);
        kit_touch(&kit, kit_token(&kit), 1000);
    }
    kit.now_ms += 1;
    kit_alloc(&kit, "h", "p:1", 0);
    assert_int_equal(kit_alloc(&kit, "x", "p:1", 0), TN_R_EXHAUSTED);
    assert_true(kit.result.retry_at_ms != 0);
    assert_true(kit.result.retry_at_ms <= kit.now_ms + 10000);
    assert_int_equal(kit_alloc(&kit, "h", "q:1", 5), TN_R_OK);
    kit_close(&kit);

    kit_open(&kit, NULL);
    kit_pool(&kit, "p", "lo=1 hi=1 lease=10");
    kit_pool(&kit, "q", "lo=1 hi=1 lease=10");
    kit_alloc(&kit, "h", "p:1 q:1", 0);
    assert_int_equal(kit_alloc(&kit, "x", "p:1", 0), TN_R_EXHAUSTED);
    assert_int_equal(kit.result.retry_at_ms, kit.now_ms + 10000);
    kit.now_ms += 10000;
    assert_int_equal(kit_sweep(&kit, "p"), TN_R_OK);
    assert_int_equal(kit.result.number, 2); /* the spanning lease is the pool's, too */
    kit_close(&kit);
}

static void a_value_named_twice_is_not_what_a_returner_has(void **state) {
    (void)state;
    struct kit kit;
    kit_open(&kit, NULL);
    kit_pool(&kit, "ids", "sticky=1");
    kit_alloc(&kit, "d", "ids=5,6", 0);
    assert_int_equal(kit_alloc(&kit, "d", "ids=5,5", 0), TN_R_CONFLICT);
    assert_int_equal(kit_alloc(&kit, "d", "ids=6,5", 0), TN_R_OK);
    kit_close(&kit);
}

static void a_grace_is_kept_as_it_was_granted(void **state) {
    (void)state;
    struct kit kit;
    kit_open(&kit, NULL);
    kit_pool(&kit, "p", "lo=1 hi=1 lease=10 grace=60");
    kit_alloc(&kit, "h", "p:1", 0);
    kit_alter(&kit, "p", "grace=0");
    kit.now_ms += 10000;
    assert_int_equal(kit_alloc(&kit, "n", "p:1", 0), TN_R_EXHAUSTED);
    kit.now_ms += 60000;
    assert_int_equal(kit_alloc(&kit, "n", "p:1", 0), TN_R_OK);
    kit_close(&kit);
}

static void a_stricter_policy_binds_renewals_and_takes_nothing_back(void **state) {
    (void)state;
    struct kit kit;
    kit_open(&kit, NULL);
    kit_pool(&kit, "p", "lo=1 hi=9 lease=100");
    kit_alloc(&kit, "h", "p:1", 1000);
    struct kit_token t = kit_token(&kit);
    uint64_t given = kit.result.deadline_ms;
    kit.now_ms += 50000;
    kit_alter(&kit, "p", "max_hold=10");
    assert_int_equal(kit_touch(&kit, t, 0), TN_R_OK);
    assert_int_equal(kit.result.deadline_ms, given); /* no further, but not back either */
    kit_alter(&kit, "p", "max_hold=0 lease=20 max_lease=20");
    assert_int_equal(kit_touch(&kit, t, 0), TN_R_OK);
    assert_int_equal(kit.result.deadline_ms, kit.now_ms + 20000);
    kit_close(&kit);
}

static void an_imported_end_is_renewed_like_a_ttl_and_capped(void **state) {
    (void)state;
    struct kit kit;
    kit_open(&kit, NULL);
    kit_pool(&kit, "p", "lo=1 hi=9");
    kit_pool(&kit, "capped", "lo=1 hi=9 max_hold=30");
    uint8_t bytes[32];
    struct kernel_command c = kit_command(KERNEL_VERB_ALLOC);
    c.fields |= KERNEL_F_DEADLINE;
    c.holder = kit_text("h");
    c.claim_count = 1;
    c.deadline_ms = kit.now_ms + 60000;
    struct tn_writer w = tn_writer_of(bytes, sizeof bytes);
    kernel_claim_write(&w, kit_text("p"), true, 1);
    c.claims = tn_bytes_of(bytes, w.len);
    assert_int_equal(kit_run(&kit, &c), TN_R_OK);
    struct kit_token t = kit_token(&kit);
    assert_int_equal(kit.result.deadline_ms, c.deadline_ms);
    kit.now_ms += 1000;
    assert_int_equal(kit_touch(&kit, t, 0), TN_R_OK);
    assert_int_equal(kit.result.deadline_ms, kit.now_ms + 60000);
    w = tn_writer_of(bytes, sizeof bytes);
    kernel_claim_write(&w, kit_text("capped"), true, 1);
    c.claims = tn_bytes_of(bytes, w.len);
    assert_int_equal(kit_run(&kit, &c), TN_R_OK);
    assert_int_equal(kit.result.deadline_ms, kit.now_ms + 30000);
    kit_close(&kit);
}

static void history_over_its_limit_by_one_bundle_stops_no_change_of_limits(void **state) {
    (void)state;
    struct kit kit;
    struct kernel_limits limits = kit_limits();
    limits.of[KERNEL_LIMIT_HISTORY] = 1;
    kit_open(&kit, &limits);
    kit_pool(&kit, "p", "lo=1 hi=9");
    kit_alloc(&kit, "h", "p:4", 0);
    kit_release(&kit, kit_token(&kit), "h", true);
    struct kernel_command c = kit_command(KERNEL_VERB_LIMITS);
    c.limits = limits;
    c.limits.of[KERNEL_LIMIT_OPS]++;
    assert_int_equal(kernel_limits_prepare(kit.kernel, &c.limits), TN_OK);
    assert_int_equal(kit_run(&kit, &c), TN_R_OK);
    kit_close(&kit);
}

static void what_is_due_happens_before_a_pool_is_changed(void **state) {
    (void)state;
    struct kit kit;
    kit_open(&kit, NULL);
    kit_pool(&kit, "g", "kind=1 lease=10");
    kit_add(&kit, "g", "x y");
    kit_pool(&kit, "p", "lo=1 hi=9 lease=10");
    kit_alloc(&kit, "h", "g=x", 0);
    kit_alloc(&kit, "h", "p=9", 0);
    kit.now_ms += 10000;
    assert_int_equal(kit_remove(&kit, "g", "x"), TN_R_OK);
    assert_int_equal(kit_alter(&kit, "p", "hi=5"), TN_R_OK);
    kit_alloc(&kit, "h", "p:1", 0);
    kit.now_ms += 10000;
    assert_int_equal(kit_drop(&kit, "p"), TN_R_OK);
    kit_close(&kit);
}

static void a_restored_log_gives_new_ids_and_keeps_the_old_ones(void **state) {
    (void)state;
    struct kit kit;
    kit_open(&kit, NULL);
    kit_pool(&kit, "p", "lo=1 hi=9");
    kit_alloc(&kit, "h", "p:1", 0);
    struct kit_token old = kit_token(&kit);
    struct kernel_command c = kit_command(KERNEL_VERB_RESTORED);
    assert_int_equal(kit_run(&kit, &c), TN_R_OK);
    kit_alloc(&kit, "h", "p:1", 0);
    struct kit_token fresh = kit_token(&kit);
    assert_int_equal(old.lease.shard, 0);
    assert_int_equal(fresh.lease.shard, (uint64_t)1 << 32);
    assert_true(kernel_lease_id_compare(fresh.lease, old.lease) > 0);
    assert_int_equal(kit_touch(&kit, old, 0), TN_R_OK);
    assert_int_equal(kit_touch(&kit, fresh, 0), TN_R_OK);
    kit_close(&kit);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_scope_whose_template_is_no_longer_coldest_gives_a_value_once),
        cmocka_unit_test(a_quota_that_was_off_counts_again_in_every_scope),
        cmocka_unit_test(a_rate_window_in_a_policy_cannot_outgrow_the_limit),
        cmocka_unit_test(a_templates_alter_reaches_the_meters_of_its_scopes),
        cmocka_unit_test(a_longer_window_is_no_break_of_an_ultra_rate),
        cmocka_unit_test(a_refused_scope_costs_no_history),
        cmocka_unit_test(a_disown_sees_a_lease_that_is_rekeyed_to_its_own_holder),
        cmocka_unit_test(a_table_full_of_large_results_asks_for_ticks),
        cmocka_unit_test(a_sticky_lease_returns_to_its_own_user_only),
        cmocka_unit_test(coldest_never_queues_what_is_excluded),
        cmocka_unit_test(the_hint_of_an_exhausted_pool_is_never_late),
        cmocka_unit_test(a_value_named_twice_is_not_what_a_returner_has),
        cmocka_unit_test(a_grace_is_kept_as_it_was_granted),
        cmocka_unit_test(a_stricter_policy_binds_renewals_and_takes_nothing_back),
        cmocka_unit_test(an_imported_end_is_renewed_like_a_ttl_and_capped),
        cmocka_unit_test(history_over_its_limit_by_one_bundle_stops_no_change_of_limits),
        cmocka_unit_test(what_is_due_happens_before_a_pool_is_changed),
        cmocka_unit_test(a_restored_log_gives_new_ids_and_keeps_the_old_ones),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
