/* The plan of a sensor whose token lives until its process has ended: stop_order exit_first. */
#include "unit/plan_desk.h"

static void desk_run_exit_first(struct desk *d) {
    struct plan_terms terms = usual;
    terms.exit_first = true;
    desk_run(d);
    (void)give(d, (struct plan_fact){.kind = PLAN_FACT_SPEC, .terms = terms, .digest = DIGEST});
    assert_string_equal(want(d, false), "");
    assert_string_equal(due(d), "term");
    assert_int_equal(d->plan.lease_is, PLAN_LEASE_ACTIVE);
}

static void with_exit_first_the_token_is_revoked_when_the_process_has_ended(void **state) {
    struct desk d;
    (void)state;
    desk_run_exit_first(&d);
    assert_string_equal(later(&d, STOP - 1), "");
    assert_string_equal(tell(&d, PLAN_FACT_EXITED), "term revoke");
    assert_string_equal(tell(&d, PLAN_FACT_GONE), "");
    assert_string_equal(answer(&d, PLAN_FACT_REVOKE_ANSWER, TN_R_OK),
                        "sensor_stopped:no_rules reclaim");
    assert_string_equal(answer(&d, PLAN_FACT_RECLAIM_ANSWER, TN_R_OK), "");
    assert_int_equal(plan_state_of(&d.plan), PLAN_STATE_STOPPED);
}

static void with_exit_first_the_token_is_dead_before_sigkill(void **state) {
    struct desk d;
    (void)state;
    desk_run_exit_first(&d);
    assert_int_equal(d.effects.wake_ms, d.now + STOP);
    assert_string_equal(due(&d), "revoke");
    assert_string_equal(answer(&d, PLAN_FACT_REVOKE_ANSWER, TN_R_OK), "kill");
    assert_string_equal(tell(&d, PLAN_FACT_GONE), "sensor_stopped:no_rules reclaim");
    desk_run_exit_first(&d); /* a revoke that cannot be committed delays SIGKILL for a while only */
    assert_string_equal(due(&d), "revoke");
    assert_int_equal(d.effects.wake_ms, d.now + PLAN_PATIENCE_MS);
    assert_string_equal(due(&d), "kill");
}

static void with_exit_first_a_crash_and_an_operators_revoke_are_as_always(void **state) {
    struct desk d;
    struct plan_terms terms = usual;
    (void)state;
    terms.exit_first = true;
    desk_run(&d);
    (void)give(&d, (struct plan_fact){.kind = PLAN_FACT_SPEC, .terms = terms, .digest = DIGEST});
    assert_string_equal(tell(&d, PLAN_FACT_EXITED), "sensor_crashed:crashed revoke");
    desk_run_exit_first(&d);
    assert_string_equal(
        give(&d, (struct plan_fact){.kind = PLAN_FACT_LEASE_REVOKED, .lease = {.lsn = 42}}), "");
    assert_string_equal(due(&d), "kill");
    desk_run_exit_first(&d);
    assert_string_equal(tell(&d, PLAN_FACT_HALT), "");
    assert_string_equal(due(&d), "kill");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(with_exit_first_the_token_is_revoked_when_the_process_has_ended),
        cmocka_unit_test(with_exit_first_the_token_is_dead_before_sigkill),
        cmocka_unit_test(with_exit_first_a_crash_and_an_operators_revoke_are_as_always),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
