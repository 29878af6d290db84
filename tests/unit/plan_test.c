/* The plan of a sensor: facts in, effects out. */
#include "unit/plan_desk.h"

/* From the revoke that was just asked for to the lease's end. */
static void stop(struct desk *d, const char *report, const char *then) {
    char text[256];
    assert_string_equal(answer(d, PLAN_FACT_REVOKE_ANSWER, TN_R_OK), "term");
    assert_string_equal(tell(d, PLAN_FACT_EXITED), "term");
    (void)snprintf(text, sizeof text, "%s reclaim", report);
    assert_string_equal(tell(d, PLAN_FACT_GONE), text);
    assert_string_equal(answer(d, PLAN_FACT_RECLAIM_ANSWER, TN_R_OK), then);
}

/* ---- The four cells ---- */

static void wanted_and_not_running_starts_it_and_running_leaves_it_alone(void **state) {
    struct desk d;
    (void)state;
    desk_run(&d);
    assert_int_equal(d.plan.pid, 99);
    assert_string_equal(want(&d, true), "");
    assert_string_equal(later(&d, 2 * SETTLE), "");
    assert_int_equal(plan_state_of(&d.plan), PLAN_STATE_RUNNING);
}

static void not_wanted_and_running_stops_it_and_revokes_its_token_first(void **state) {
    struct desk d;
    (void)state;
    desk_run(&d);
    assert_string_equal(want(&d, false), "");
    assert_string_equal(due(&d), "revoke");
    assert_int_equal(plan_state_of(&d.plan), PLAN_STATE_STOPPING);
    assert_string_equal(later(&d, 10), "");
    stop(&d, "sensor_stopped:no_rules", "");
    assert_int_equal(plan_state_of(&d.plan), PLAN_STATE_STOPPED);
    assert_int_equal(d.effects.wake_ms, PLAN_NEVER);
}

static void not_wanted_and_not_running_does_nothing(void **state) {
    struct desk d;
    (void)state;
    desk_make(&d);
    assert_string_equal(want(&d, false), "");
    assert_string_equal(later(&d, 2 * SETTLE), "");
    assert_int_equal(plan_state_of(&d.plan), PLAN_STATE_STOPPED);
    assert_int_equal(d.effects.wake_ms, PLAN_NEVER);
}

/* ---- Settling ---- */

static void toggles_are_settled_and_the_last_state_wins(void **state) {
    struct desk d;
    (void)state;
    desk_make(&d);
    for (unsigned i = 0; i < 9; i++) {
        assert_string_equal(want(&d, i % 2 == 0), "");
        assert_string_equal(later(&d, 500), "");
    }
    assert_string_equal(later(&d, SETTLE - 4500), "alloc"); /* not prolonged by the toggles */
    launch(&d);
    for (unsigned i = 0; i < 10; i++) {
        assert_string_equal(want(&d, i % 2 == 1), "");
    }
    assert_string_equal(later(&d, 2 * SETTLE), "");
    assert_int_equal(plan_state_of(&d.plan), PLAN_STATE_RUNNING);
}

static void what_is_so_at_the_start_needs_no_settling(void **state) {
    struct desk d;
    (void)state;
    desk_make(&d);
    assert_string_equal(give(&d, (struct plan_fact){.kind = PLAN_FACT_WANTED,
                                                    .wanted = true,
                                                    .enabled = true,
                                                    .at_once = true}),
                        "alloc");
}

static void wanted_again_while_it_stops_starts_after_its_end_and_the_window(void **state) {
    struct desk d;
    (void)state;
    desk_run(&d);
    want(&d, false);
    assert_string_equal(due(&d), "revoke");
    assert_string_equal(want(&d, true), "");
    stop(&d, "sensor_stopped:no_rules", "");
    assert_string_equal(due(&d), "alloc");
    desk_run(&d);
    want(&d, false);
    assert_string_equal(due(&d), "revoke");
    assert_string_equal(want(&d, true), "");
    assert_string_equal(later(&d, SETTLE), "term"); /* the longest wait for a revoke */
    assert_string_equal(answer(&d, PLAN_FACT_REVOKE_ANSWER, TN_R_OK), "");
    assert_string_equal(tell(&d, PLAN_FACT_GONE), "sensor_stopped:no_rules reclaim");
    assert_string_equal(answer(&d, PLAN_FACT_RECLAIM_ANSWER, TN_R_OK), "alloc");
}

static void unwanted_while_it_starts_ends_what_there_is(void **state) {
    struct desk d;
    (void)state;
    desk_make(&d);
    want(&d, true);
    assert_string_equal(due(&d), "alloc");
    want(&d, false);
    assert_string_equal(due(&d), "");
    assert_string_equal(answer(&d, PLAN_FACT_ALLOC_ANSWER, TN_R_OK), "revoke");
    assert_string_equal(answer(&d, PLAN_FACT_REVOKE_ANSWER, TN_R_OK), "reclaim");
    assert_string_equal(answer(&d, PLAN_FACT_RECLAIM_ANSWER, TN_R_OK), "");
    assert_int_equal(plan_state_of(&d.plan), PLAN_STATE_STOPPED);
}

/* ---- Stopping ---- */

static void what_ignores_sigterm_is_killed_after_stop_seconds(void **state) {
    struct desk d;
    (void)state;
    desk_run(&d);
    want(&d, false);
    due(&d);
    assert_string_equal(answer(&d, PLAN_FACT_REVOKE_ANSWER, TN_R_OK), "term");
    assert_int_equal(d.effects.wake_ms, d.now + STOP);
    assert_string_equal(later(&d, STOP - 1), "");
    assert_string_equal(due(&d), "kill");
    assert_string_equal(tell(&d, PLAN_FACT_EXITED), "");
    assert_string_equal(tell(&d, PLAN_FACT_GONE), "sensor_stopped:no_rules reclaim");
    assert_true(d.effects.of[0].token_revoked);
    assert_int_equal(d.effects.of[0].uptime_ms, SETTLE + STOP);
}

static void a_refused_revoke_stops_the_process_anyway_and_is_asked_for_until_it_is_done(
    void **state) {
    struct desk d;
    (void)state;
    desk_run(&d);
    want(&d, false);
    assert_string_equal(due(&d), "revoke");
    assert_string_equal(answer(&d, PLAN_FACT_REVOKE_ANSWER, TN_R_NOSPACE), "term");
    assert_string_equal(tell(&d, PLAN_FACT_GONE), "");
    for (unsigned i = 0; i < 10; i++) {
        assert_string_equal(due(&d), "revoke");
        assert_string_equal(answer(&d, PLAN_FACT_REVOKE_ANSWER, TN_R_NOSPACE), "");
        assert_int_equal(plan_state_of(&d.plan), PLAN_STATE_STOPPING);
    }
    assert_string_equal(due(&d), "revoke");
    assert_string_equal(answer(&d, PLAN_FACT_REVOKE_ANSWER, TN_R_OK),
                        "sensor_stopped:no_rules reclaim");
    assert_string_equal(answer(&d, PLAN_FACT_RECLAIM_ANSWER, TN_R_OVERLOADED), "");
    assert_string_equal(due(&d), "reclaim");
    assert_string_equal(answer(&d, PLAN_FACT_RECLAIM_ANSWER, TN_R_OK), "");
    assert_int_equal(plan_state_of(&d.plan), PLAN_STATE_STOPPED);
}

static void a_revoke_without_an_answer_is_waited_for_a_while_only(void **state) {
    struct desk d;
    (void)state;
    desk_run(&d);
    want(&d, false);
    assert_string_equal(due(&d), "revoke");
    assert_string_equal(later(&d, PLAN_PATIENCE_MS - 1), "");
    assert_string_equal(due(&d), "term");
    assert_string_equal(tell(&d, PLAN_FACT_GONE), "");
    assert_string_equal(later(&d, 100000), "");
    assert_string_equal(answer(&d, PLAN_FACT_REVOKE_ANSWER, TN_R_OK),
                        "sensor_stopped:no_rules reclaim");
}

static void a_lease_that_somebody_else_revoked_stops_the_run_and_another_begins(void **state) {
    struct desk d;
    (void)state;
    desk_run(&d);
    assert_string_equal(
        give(&d, (struct plan_fact){.kind = PLAN_FACT_LEASE_REVOKED, .lease = {.lsn = 41}}), "");
    assert_string_equal(
        give(&d, (struct plan_fact){.kind = PLAN_FACT_LEASE_REVOKED, .lease = {.lsn = 42}}),
        "term");
    assert_string_equal(tell(&d, PLAN_FACT_GONE), "sensor_stopped:token_revoked reclaim");
    assert_string_equal(answer(&d, PLAN_FACT_RECLAIM_ANSWER, TN_R_OK), "alloc");
    assert_int_equal(d.plan.failures, 0);
}

static void a_lease_that_has_ended_already_needs_no_reclaim(void **state) {
    struct desk d;
    (void)state;
    desk_run(&d);
    want(&d, false);
    due(&d);
    assert_string_equal(answer(&d, PLAN_FACT_REVOKE_ANSWER, TN_R_RETIRED), "term");
    assert_string_equal(tell(&d, PLAN_FACT_GONE), "sensor_stopped:no_rules");
    assert_int_equal(plan_state_of(&d.plan), PLAN_STATE_STOPPED);
}

/* ---- Crashes ---- */

static uint64_t crash_once(struct desk *d, const char *then) {
    char text[256];
    assert_string_equal(give(d, (struct plan_fact){.kind = PLAN_FACT_EXITED, .status = 0x0b}),
                        "sensor_crashed:crashed revoke");
    assert_int_equal(d->plan.last_status, 0x0b);
    uint64_t next = d->effects.of[0].next_in_ms;
    assert_int_equal(d->effects.of[0].attempt, d->plan.failures);
    assert_string_equal(answer(d, PLAN_FACT_REVOKE_ANSWER, TN_R_OK), "kill");
    assert_string_equal(tell(d, PLAN_FACT_GONE), "sensor_stopped:crashed reclaim");
    (void)snprintf(text, sizeof text, "%s", then);
    assert_string_equal(answer(d, PLAN_FACT_RECLAIM_ANSWER, TN_R_OK), text);
    return next;
}

static void crashes_back_off_doubling_up_to_the_most_and_then_are_an_error(void **state) {
    static const uint64_t expected[] = {1000, 2000, 4000};
    struct desk d;
    (void)state;
    desk_run(&d);
    for (unsigned i = 0; i < 3; i++) {
        uint64_t next = crash_once(&d, "");
        assert_in_range(next, expected[i] * 8 / 10, expected[i] * 12 / 10);
        assert_int_equal(plan_state_of(&d.plan), PLAN_STATE_BACKOFF);
        assert_int_equal(d.effects.wake_ms, d.now + next);
        assert_string_equal(due(&d), "alloc");
        launch(&d);
    }
    (void)crash_once(&d, "sensor_error:crashed");
    assert_int_equal(plan_state_of(&d.plan), PLAN_STATE_ERROR);
    assert_string_equal(later(&d, 10000000), "");
    assert_int_equal(d.effects.wake_ms, PLAN_NEVER);
}

static void the_longest_wait_is_bounded(void **state) {
    struct desk d;
    (void)state;
    desk_run(&d);
    d.plan.terms.max_restarts = 100;
    for (unsigned i = 0; i < 50; i++) {
        assert_in_range(crash_once(&d, ""), 800, 9600);
        assert_string_equal(due(&d), "alloc");
        launch(&d);
    }
}

static void a_run_that_lasts_forgives_the_crashes_before_it(void **state) {
    struct desk d;
    (void)state;
    desk_run(&d);
    (void)crash_once(&d, "");
    assert_string_equal(due(&d), "alloc");
    launch(&d);
    assert_int_equal(d.plan.failures, 1);
    assert_string_equal(later(&d, usual.stable_ms), "");
    assert_int_equal(d.plan.failures, 0);
}

static void an_error_is_cleared_by_reset_by_a_rule_and_by_another_description(void **state) {
    struct desk d;
    (void)state;
    for (unsigned how = 0; how < 4; how++) {
        desk_run(&d);
        d.plan.terms.max_restarts = 0;
        (void)crash_once(&d, "sensor_error:crashed");
        if (how == 0) {
            assert_string_equal(tell(&d, PLAN_FACT_RESET), "alloc");
            continue;
        }
        if (how == 1) {
            tell(&d, PLAN_FACT_NEW_RULE);
        } else if (how == 2) {
            assert_string_equal(want(&d, false), "");
            assert_int_equal(plan_state_of(&d.plan), PLAN_STATE_ERROR);
            want(&d, true);
        } else {
            give(&d, (struct plan_fact){.kind = PLAN_FACT_SPEC, .terms = usual, .digest = 8});
        }
        assert_int_equal(plan_state_of(&d.plan), PLAN_STATE_STOPPED);
        assert_string_equal(due(&d), "alloc");
        assert_int_equal(d.plan.failures, 0);
    }
}

static void what_cannot_be_started_is_tried_again_as_a_crash_is(void **state) {
    struct desk d;
    (void)state;
    desk_make(&d);
    want(&d, true);
    due(&d);
    answer(&d, PLAN_FACT_ALLOC_ANSWER, TN_R_OK);
    assert_string_equal(answer(&d, PLAN_FACT_TOKEN_ANSWER, TN_R_OK), "start");
    assert_string_equal(tell(&d, PLAN_FACT_START_FAILED),
                        "sensor_start_failed:start_failed revoke");
    assert_true(d.effects.of[0].again);
    assert_string_equal(tell(&d, PLAN_FACT_GONE), "");
    assert_string_equal(answer(&d, PLAN_FACT_REVOKE_ANSWER, TN_R_OK),
                        "sensor_stopped:start_failed reclaim");
    assert_string_equal(answer(&d, PLAN_FACT_RECLAIM_ANSWER, TN_R_OK), "");
    assert_int_equal(plan_state_of(&d.plan), PLAN_STATE_BACKOFF);
    assert_string_equal(due(&d), "alloc");
}

static void a_run_whose_end_nobody_saw_is_a_crash(void **state) {
    struct desk d;
    (void)state;
    desk_run(&d);
    assert_string_equal(tell(&d, PLAN_FACT_GONE), "sensor_crashed:crashed revoke");
    assert_int_equal(d.plan.last_status, PLAN_NO_STATUS);
    assert_string_equal(answer(&d, PLAN_FACT_REVOKE_ANSWER, TN_R_OK),
                        "sensor_stopped:crashed reclaim");
}

static void what_is_unhealthy_is_asked_to_stop_and_counts_as_a_crash(void **state) {
    struct desk d;
    (void)state;
    desk_run(&d);
    assert_string_equal(tell(&d, PLAN_FACT_UNHEALTHY), "sensor_crashed:unhealthy revoke");
    stop(&d, "sensor_stopped:unhealthy", "");
    assert_int_equal(plan_state_of(&d.plan), PLAN_STATE_BACKOFF);
    assert_int_equal(d.plan.failures, 1);
}

static void a_crash_while_nobody_wants_it_any_more_is_the_end_of_it(void **state) {
    struct desk d;
    (void)state;
    desk_run(&d);
    want(&d, false);
    (void)crash_once(&d, "");
    assert_int_equal(plan_state_of(&d.plan), PLAN_STATE_BACKOFF);
    assert_string_equal(later(&d, 60000), "");
    assert_int_equal(plan_state_of(&d.plan), PLAN_STATE_STOPPED);
}

/* ---- Refusals of the engine ---- */

static void a_refused_allocation_is_tried_again_and_never_an_error(void **state) {
    struct desk d;
    (void)state;
    desk_make(&d);
    want(&d, true);
    assert_string_equal(due(&d), "alloc");
    for (unsigned i = 0; i < 20; i++) {
        assert_string_equal(answer(&d, PLAN_FACT_ALLOC_ANSWER, TN_R_NOSPACE), "");
        assert_int_equal(plan_state_of(&d.plan), PLAN_STATE_BACKOFF);
        assert_string_equal(due(&d), "alloc");
    }
    launch(&d);
    assert_int_equal(d.plan.refusals, 0);
}

static void a_refused_token_gives_the_lease_back(void **state) {
    struct desk d;
    (void)state;
    desk_make(&d);
    want(&d, true);
    due(&d);
    answer(&d, PLAN_FACT_ALLOC_ANSWER, TN_R_OK);
    assert_string_equal(answer(&d, PLAN_FACT_TOKEN_ANSWER, TN_R_STATE), "revoke");
    assert_string_equal(answer(&d, PLAN_FACT_REVOKE_ANSWER, TN_R_NOOP), "reclaim");
    assert_string_equal(answer(&d, PLAN_FACT_RECLAIM_ANSWER, TN_R_OK), "");
    assert_int_equal(plan_state_of(&d.plan), PLAN_STATE_BACKOFF);
}

static void a_token_is_refreshed_at_four_fifths_of_its_life(void **state) {
    struct desk d;
    (void)state;
    desk_run(&d);
    assert_int_equal(d.effects.wake_ms, d.now + 800000);
    assert_string_equal(due(&d), "refresh");
    assert_int_equal(d.effects.wake_ms, PLAN_NEVER);
    assert_string_equal(answer(&d, PLAN_FACT_TOKEN_ANSWER, TN_R_OVERLOADED), "");
    assert_string_equal(due(&d), "refresh"); /* well before its end */
    assert_true(d.now < d.plan.token_expires_ms);
    assert_string_equal(answer(&d, PLAN_FACT_TOKEN_ANSWER, TN_R_OK), "");
    assert_int_equal(d.effects.wake_ms, d.now + 800000);
}

static void a_token_that_is_void_is_replaced_at_once(void **state) {
    struct desk d;
    (void)state;
    desk_run(&d);
    assert_string_equal(tell(&d, PLAN_FACT_TOKEN_VOID), "refresh");
    /* The new token is already requested. */
    assert_string_equal(tell(&d, PLAN_FACT_TOKEN_VOID), "");
    assert_string_equal(answer(&d, PLAN_FACT_TOKEN_ANSWER, TN_R_OK), "");
    assert_int_equal(d.effects.wake_ms, d.now + 800000);
    /* A sensor that does not run has no token; one that is being started asks for a new one when it
     * runs. */
    assert_string_equal(tell(&d, PLAN_FACT_RESTART), "revoke");
    assert_string_equal(tell(&d, PLAN_FACT_TOKEN_VOID), "");
    stop(&d, "sensor_stopped:restart", "alloc");
    assert_string_equal(tell(&d, PLAN_FACT_TOKEN_VOID), "");
    assert_string_equal(answer(&d, PLAN_FACT_ALLOC_ANSWER, TN_R_OK), "issue");
    assert_string_equal(answer(&d, PLAN_FACT_TOKEN_ANSWER, TN_R_OK), "start");
    assert_string_equal(tell(&d, PLAN_FACT_TOKEN_VOID), "");
    assert_string_equal(give(&d, (struct plan_fact){.kind = PLAN_FACT_STARTED, .pid = 99}),
                        "sensor_started refresh");
}

/* ---- Descriptions, operators ---- */

static void another_description_restarts_it_once_settled(void **state) {
    struct desk d;
    (void)state;
    struct plan_fact spec = {.kind = PLAN_FACT_SPEC, .terms = usual, .digest = 8};
    desk_run(&d);
    assert_string_equal(give(&d, spec), "");
    assert_string_equal(due(&d), "revoke");
    stop(&d, "sensor_stopped:changed", "alloc");
    launch(&d);
    spec.digest = 9; /* and back again: nothing happens */
    assert_string_equal(give(&d, spec), "");
    spec.digest = 8;
    assert_string_equal(give(&d, spec), "");
    assert_string_equal(later(&d, 2 * SETTLE), "");
    assert_int_equal(plan_state_of(&d.plan), PLAN_STATE_RUNNING);
}

static void a_description_that_cannot_be_read_is_an_error(void **state) {
    struct desk d;
    struct plan_terms bad = usual;
    (void)state;
    bad.valid = false;
    desk_make(&d);
    plan_init(&d.plan, &bad, DIGEST, 1);
    want(&d, true);
    assert_string_equal(due(&d), "sensor_error:bad_description");
    assert_int_equal(plan_state_of(&d.plan), PLAN_STATE_ERROR);
    give(&d, (struct plan_fact){.kind = PLAN_FACT_SPEC, .terms = usual, .digest = 8});
    assert_string_equal(due(&d), "alloc");
}

static void a_deleted_sensor_is_stopped_then_forgotten(void **state) {
    struct desk d;
    (void)state;
    desk_run(&d);
    assert_string_equal(tell(&d, PLAN_FACT_DELETED), "");
    assert_string_equal(due(&d), "revoke");
    stop(&d, "sensor_stopped:deleted", "forget");
    desk_make(&d);
    assert_string_equal(tell(&d, PLAN_FACT_DELETED), "forget");
    assert_string_equal(later(&d, 1), "");
}

static void a_sensor_set_again_in_time_runs_on(void **state) {
    struct desk d;
    (void)state;
    desk_run(&d);
    assert_string_equal(tell(&d, PLAN_FACT_DELETED), "");
    give(&d, (struct plan_fact){.kind = PLAN_FACT_SPEC, .terms = usual, .digest = DIGEST});
    assert_string_equal(later(&d, 2 * SETTLE), "");
    assert_int_equal(plan_state_of(&d.plan), PLAN_STATE_RUNNING);
}

static void a_restart_needs_no_settling(void **state) {
    struct desk d;
    (void)state;
    desk_run(&d);
    assert_string_equal(tell(&d, PLAN_FACT_RESTART), "revoke");
    assert_string_equal(want(&d, true), ""); /* as before: not a change */
    stop(&d, "sensor_stopped:restart", "alloc");
    launch(&d);
    (void)crash_once(&d, "");
    assert_string_equal(tell(&d, PLAN_FACT_RESTART), "alloc"); /* the delay after the crash ends */
}

/* ---- Earlier lives, the end ---- */

static void what_an_earlier_life_left_is_ended_before_anything_starts(void **state) {
    struct desk d;
    (void)state;
    for (unsigned revoked = 0; revoked < 2; revoked++) {
        desk_make(&d);
        assert_string_equal(give(&d, (struct plan_fact){.kind = PLAN_FACT_FOUND,
                                                        .lease = {.lsn = 42},
                                                        .epoch = 1,
                                                        .revoked = revoked != 0}),
                            revoked ? "" : "revoke");
        assert_string_equal(give(&d, (struct plan_fact){.kind = PLAN_FACT_WANTED,
                                                        .wanted = true,
                                                        .enabled = true,
                                                        .at_once = true}),
                            "");
        assert_string_equal(answer(&d, PLAN_FACT_REVOKE_ANSWER, TN_R_OK), "");
        assert_string_equal(later(&d, 1000000), ""); /* the process is not ours to signal */
        assert_string_equal(tell(&d, PLAN_FACT_GONE), "sensor_stopped:orphaned reclaim");
        assert_string_equal(answer(&d, PLAN_FACT_RECLAIM_ANSWER, TN_R_OK), "alloc");
    }
}

static void a_halt_stops_the_process_and_asks_nothing_of_the_engine(void **state) {
    struct desk d;
    (void)state;
    desk_run(&d);
    assert_string_equal(tell(&d, PLAN_FACT_HALT), "term");
    assert_false(plan_is_over(&d.plan));
    assert_string_equal(due(&d), "kill");
    assert_string_equal(tell(&d, PLAN_FACT_GONE), "sensor_stopped:halted");
    assert_false(d.effects.of[0].token_revoked);
    assert_true(plan_is_over(&d.plan));
    assert_string_equal(want(&d, true), "");
    assert_string_equal(later(&d, 1000000), "");
    desk_make(&d);
    want(&d, true);
    assert_string_equal(due(&d), "alloc");
    assert_string_equal(tell(&d, PLAN_FACT_HALT), "");
    assert_true(plan_is_over(&d.plan));
    assert_string_equal(answer(&d, PLAN_FACT_ALLOC_ANSWER, TN_R_OK), "");
}

static void a_halt_does_not_wait_for_a_revoke_that_is_under_way(void **state) {
    struct desk d;
    (void)state;
    desk_run(&d);
    want(&d, false);
    assert_string_equal(due(&d), "revoke");
    assert_string_equal(tell(&d, PLAN_FACT_HALT), "term");
}

static void a_shutdown_goes_the_whole_way_and_starts_nothing(void **state) {
    struct desk d;
    (void)state;
    desk_run(&d);
    assert_string_equal(tell(&d, PLAN_FACT_SHUTDOWN), "revoke");
    assert_false(plan_is_over(&d.plan));
    stop(&d, "sensor_stopped:shutdown", "");
    assert_true(plan_is_over(&d.plan));
    assert_string_equal(want(&d, false), "");
    assert_string_equal(want(&d, true), "");
    assert_string_equal(later(&d, 1000000), "");
    desk_run(&d);
    (void)crash_once(&d, "");
    assert_string_equal(tell(&d, PLAN_FACT_SHUTDOWN), "");
    assert_true(plan_is_over(&d.plan));
    desk_run(&d); /* a full disk does not hold it up for good: the next life finds the lease */
    assert_string_equal(tell(&d, PLAN_FACT_SHUTDOWN), "revoke");
    assert_string_equal(answer(&d, PLAN_FACT_REVOKE_ANSWER, TN_R_NOSPACE), "term");
    assert_string_equal(tell(&d, PLAN_FACT_GONE), "");
    assert_true(plan_is_over(&d.plan));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(wanted_and_not_running_starts_it_and_running_leaves_it_alone),
        cmocka_unit_test(not_wanted_and_running_stops_it_and_revokes_its_token_first),
        cmocka_unit_test(not_wanted_and_not_running_does_nothing),
        cmocka_unit_test(toggles_are_settled_and_the_last_state_wins),
        cmocka_unit_test(what_is_so_at_the_start_needs_no_settling),
        cmocka_unit_test(wanted_again_while_it_stops_starts_after_its_end_and_the_window),
        cmocka_unit_test(unwanted_while_it_starts_ends_what_there_is),
        cmocka_unit_test(what_ignores_sigterm_is_killed_after_stop_seconds),
        cmocka_unit_test(
            a_refused_revoke_stops_the_process_anyway_and_is_asked_for_until_it_is_done),
        cmocka_unit_test(a_revoke_without_an_answer_is_waited_for_a_while_only),
        cmocka_unit_test(a_lease_that_somebody_else_revoked_stops_the_run_and_another_begins),
        cmocka_unit_test(a_lease_that_has_ended_already_needs_no_reclaim),
        cmocka_unit_test(crashes_back_off_doubling_up_to_the_most_and_then_are_an_error),
        cmocka_unit_test(the_longest_wait_is_bounded),
        cmocka_unit_test(a_run_that_lasts_forgives_the_crashes_before_it),
        cmocka_unit_test(an_error_is_cleared_by_reset_by_a_rule_and_by_another_description),
        cmocka_unit_test(what_cannot_be_started_is_tried_again_as_a_crash_is),
        cmocka_unit_test(a_run_whose_end_nobody_saw_is_a_crash),
        cmocka_unit_test(what_is_unhealthy_is_asked_to_stop_and_counts_as_a_crash),
        cmocka_unit_test(a_crash_while_nobody_wants_it_any_more_is_the_end_of_it),
        cmocka_unit_test(a_refused_allocation_is_tried_again_and_never_an_error),
        cmocka_unit_test(a_refused_token_gives_the_lease_back),
        cmocka_unit_test(a_token_is_refreshed_at_four_fifths_of_its_life),
        cmocka_unit_test(a_token_that_is_void_is_replaced_at_once),
        cmocka_unit_test(another_description_restarts_it_once_settled),
        cmocka_unit_test(a_description_that_cannot_be_read_is_an_error),
        cmocka_unit_test(a_deleted_sensor_is_stopped_then_forgotten),
        cmocka_unit_test(a_sensor_set_again_in_time_runs_on),
        cmocka_unit_test(a_restart_needs_no_settling),
        cmocka_unit_test(what_an_earlier_life_left_is_ended_before_anything_starts),
        cmocka_unit_test(a_halt_stops_the_process_and_asks_nothing_of_the_engine),
        cmocka_unit_test(a_halt_does_not_wait_for_a_revoke_that_is_under_way),
        cmocka_unit_test(a_shutdown_goes_the_whole_way_and_starts_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
