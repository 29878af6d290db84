/* Waiting in line for values: order, ends, clients that go and come back. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
/* cmocka wants the headers above first */
#include <cmocka.h>
#include <stdio.h>

#include "lib/kit.h"

static struct kit_token wait_for(struct kit *kit, const char *holder, const char *claims,
                                 const char *opid) {
    assert_int_equal(kit_wait(kit, holder, claims, 60, opid), TN_R_WAITING);
    assert_int_equal(kit->result.state, KERNEL_WAITING);
    return kit_token(kit);
}

static struct kit_token taken(struct kit *kit, const char *holder, const char *claims) {
    assert_int_equal(kit_alloc(kit, holder, claims, 0), TN_R_OK);
    return kit_token(kit);
}

static const struct kernel_result *told(const struct kit *kit) {
    assert_true(kit->waited_count > 0);
    return &kit->waited[(kit->waited_count - 1) % KIT_WAITED];
}

static struct kernel_lease_view lease_view(const struct kit *kit, struct kit_token t) {
    struct kernel_lease_view view;
    assert_int_equal(kernel_lease_read(kit->kernel, t.lease, &view), TN_R_OK);
    return view;
}

static void a_release_serves_the_first_in_line(void **state) {
    (void)state;
    struct kit kit;
    kit_open(&kit, NULL);
    kit_pool(&kit, "p", "lo=1 hi=1 lease=30");
    struct kit_token t = taken(&kit, "a", "p:1");
    struct kit_token first = wait_for(&kit, "b", "p:1", NULL);
    assert_int_equal(kit.result.waiting, 0);
    assert_int_equal(kit.events[KERNEL_EVENT_LEASE_WAITING], 1);
    struct kit_token second = wait_for(&kit, "c", "p=1", NULL);
    assert_int_equal(kit.result.waiting, 1);
    kit.now_ms += 5000;
    assert_int_equal(kit_release(&kit, t, "a", true), TN_R_OK);
    assert_int_equal(kit_state(&kit, first), KERNEL_ACTIVE);
    assert_int_equal(kit_state(&kit, second), KERNEL_WAITING);
    assert_int_equal(told(&kit)->code, TN_R_OK);
    assert_int_equal(told(&kit)->waited_ms, 5000);
    assert_int_equal(told(&kit)->deadline_ms, kit.now_ms + 30000);
    assert_int_equal(told(&kit)->lease.lsn, first.lease.lsn);
    assert_int_equal(kit_release(&kit, first, "b", true), TN_R_OK);
    assert_int_equal(kit_state(&kit, second), KERNEL_ACTIVE);
    kit_close(&kit);
}

static void nobody_overtakes_a_line(void **state) {
    (void)state;
    struct kit kit;
    kit_open(&kit, NULL);
    kit_pool(&kit, "p", "lo=1 hi=3");
    taken(&kit, "a", "p:2");
    wait_for(&kit, "b", "p:2", NULL);
    assert_int_equal(kit_alloc(&kit, "c", "p:1", 0), TN_R_EXHAUSTED);
    assert_int_equal(kit.result.waiting, 1);
    assert_int_equal(kit_alloc(&kit, "c", "p=3", 0), TN_R_BUSY);
    assert_int_equal(kit.result.waiting, 1);
    kit_close(&kit);
}

static void the_return_of_a_sticky_holder_is_exempt_from_the_line(void **state) {
    (void)state;
    struct kit kit;
    kit_open(&kit, NULL);
    kit_pool(&kit, "p", "lo=1 hi=1 sticky=1 lease=30");
    struct kit_token t = taken(&kit, "a", "p:1");
    wait_for(&kit, "b", "p:1", NULL);
    assert_int_equal(kit_alloc(&kit, "a", "p:1", 0), TN_R_OK);
    assert_int_equal(kit.result.lease.lsn, t.lease.lsn);
    kit_close(&kit);
}

static void a_wait_that_is_over_ends_with_the_refusal_and_the_place(void **state) {
    (void)state;
    struct kit kit;
    kit_open(&kit, NULL);
    kit_pool(&kit, "p", "lo=1 hi=1");
    taken(&kit, "a", "p:1");
    assert_int_equal(kit_wait(&kit, "b", "p:1", 100, NULL), TN_R_WAITING);
    struct kit_token t = wait_for(&kit, "c", "p:1", NULL);
    kit.now_ms += 60000;
    assert_true(kernel_next_due(kit.kernel) <= kit.now_ms);
    assert_int_equal(kit_tick(&kit), TN_R_OK);
    struct kernel_lease_view view = lease_view(&kit, t);
    assert_int_equal(view.state, KERNEL_EXPIRED);
    assert_int_equal(view.reason, KERNEL_REASON_WAITED);
    assert_int_equal(told(&kit)->code, TN_R_EXHAUSTED);
    assert_int_equal(told(&kit)->waiting, 1);
    assert_int_equal(told(&kit)->waited_ms, 60000);
    kit_close(&kit);
}

/* "b" wants both pools and came first: "c" gets the free value of q only after it. */
static void a_bundle_at_the_head_holds_the_lines_of_all_its_pools(void **state) {
    (void)state;
    struct kit kit;
    kit_open(&kit, NULL);
    kit_pool(&kit, "p", "lo=1 hi=1");
    kit_pool(&kit, "q", "lo=1 hi=2");
    struct kit_token t = taken(&kit, "a", "p:1");
    struct kit_token bundle = wait_for(&kit, "b", "p:1 q:2", NULL);
    struct kit_token small = wait_for(&kit, "c", "q:1", NULL);
    assert_int_equal(lease_view(&kit, small).waiting_before, 1);
    kit_tick(&kit);
    assert_int_equal(kit_state(&kit, small), KERNEL_WAITING);
    kit_release(&kit, t, "a", true);
    assert_int_equal(kit_state(&kit, bundle), KERNEL_ACTIVE);
    assert_int_equal(kit_state(&kit, small), KERNEL_WAITING);
    kit_release(&kit, bundle, "b", true);
    assert_int_equal(kit_state(&kit, small), KERNEL_ACTIVE);
    kit_close(&kit);
}

static void the_end_of_a_cooldown_serves_the_line(void **state) {
    (void)state;
    struct kit kit;
    kit_open(&kit, NULL);
    kit_pool(&kit, "p", "lo=1 hi=1 cooldown=5");
    struct kit_token t = taken(&kit, "a", "p:1");
    struct kit_token w = wait_for(&kit, "b", "p:1", NULL);
    kit_release(&kit, t, "a", true);
    assert_int_equal(kit_state(&kit, w), KERNEL_WAITING);
    kit.now_ms += 5000;
    kit_tick(&kit);
    assert_int_equal(kit_state(&kit, w), KERNEL_ACTIVE);
    kit_close(&kit);
}

static void a_pool_that_grows_serves_its_line(void **state) {
    (void)state;
    struct kit kit;
    kit_open(&kit, NULL);
    kit_pool(&kit, "p", "lo=1 hi=1");
    kit_pool(&kit, "s", "kind=1");
    kit_add(&kit, "s", "x");
    taken(&kit, "a", "p:1");
    taken(&kit, "a", "s:1");
    struct kit_token in_range = wait_for(&kit, "b", "p:1", NULL);
    struct kit_token in_set = wait_for(&kit, "b", "s:1", NULL);
    assert_int_equal(kit_alter(&kit, "p", "hi=2"), TN_R_OK);
    assert_int_equal(kit_state(&kit, in_range), KERNEL_ACTIVE);
    assert_int_equal(kit_add(&kit, "s", "y"), TN_R_OK);
    assert_int_equal(kit_state(&kit, in_set), KERNEL_ACTIVE);
    kit_close(&kit);
}

static void a_client_without_an_operation_id_leaves_at_once(void **state) {
    (void)state;
    struct kit kit;
    kit_open(&kit, NULL);
    kit_pool(&kit, "p", "lo=1 hi=1");
    taken(&kit, "a", "p:1");
    struct kit_token w = wait_for(&kit, "b", "p:1", NULL);
    assert_int_equal(kit_unattend(&kit, w), TN_R_OK);
    assert_int_equal(lease_view(&kit, w).state, KERNEL_RELEASED);
    assert_int_equal(lease_view(&kit, w).reason, KERNEL_REASON_ABANDONED);
    assert_int_equal(kit_unattend(&kit, w), TN_R_STATE);
    kit_close(&kit);
}

static void an_unattended_waiter_is_passed_over_and_keeps_its_place(void **state) {
    (void)state;
    struct kit kit;
    kit_open(&kit, NULL);
    kit_pool(&kit, "p", "lo=1 hi=1");
    struct kit_token t = taken(&kit, "a", "p:1");
    struct kit_token first = wait_for(&kit, "b", "p:1", "op");
    struct kit_token second = wait_for(&kit, "c", "p:1", NULL);
    struct kit_token third = wait_for(&kit, "d", "p:1", NULL);
    assert_int_equal(kit_unattend(&kit, first), TN_R_OK);
    assert_int_equal(kit_unattend(&kit, first), TN_R_NOOP);
    kit_release(&kit, t, "a", true);
    assert_int_equal(kit_state(&kit, second), KERNEL_ACTIVE);
    kit.now_ms += 9000;
    assert_int_equal(kit_wait(&kit, "b", "p:1", 60, "op"), TN_R_WAITING);
    assert_true(kit.result.replayed);
    assert_int_equal(lease_view(&kit, first).waiting_before, 0);
    assert_int_equal(lease_view(&kit, third).waiting_before, 1);
    kit_release(&kit, second, "c", true);
    assert_int_equal(kit_state(&kit, first), KERNEL_ACTIVE);
    assert_int_equal(kit_wait(&kit, "b", "p:1", 60, "op"), TN_R_OK); /* the answer it waited for */
    assert_true(kit.result.replayed);
    assert_int_equal(kit.result.value_count, 1);
    assert_int_equal(kit.result.waited_ms, 9000);
    kit_close(&kit);
}

static void an_unattended_waiter_ends_after_ten_seconds(void **state) {
    (void)state;
    struct kit kit;
    kit_open(&kit, NULL);
    kit_pool(&kit, "p", "lo=1 hi=1");
    taken(&kit, "a", "p:1");
    struct kit_token w = wait_for(&kit, "b", "p:1", "op");
    kit_unattend(&kit, w);
    kit.now_ms += KERNEL_UNATTENDED_MS - 1;
    kit_tick(&kit);
    assert_int_equal(kit_state(&kit, w), KERNEL_WAITING);
    kit.now_ms += 1;
    kit_tick(&kit);
    assert_int_equal(lease_view(&kit, w).reason, KERNEL_REASON_ABANDONED);
    assert_int_equal(kit_wait(&kit, "b", "p:1", 60, "op"), TN_R_EXHAUSTED);
    kit_close(&kit);
}

/* As after a restart: in steps, and no waiter is served meanwhile. */
static void all_waiters_become_unattended_in_steps(void **state) {
    (void)state;
    struct kernel_limits limits = kit_limits();
    limits.of[KERNEL_LIMIT_TICK_STEP] = 2;
    struct kit kit;
    kit_open(&kit, &limits);
    kit_pool(&kit, "p", "lo=1 hi=1");
    taken(&kit, "a", "p:1");
    for (unsigned i = 0; i < 5; i++) {
        char opid[8];
        snprintf(opid, sizeof opid, "op%u", i);
        wait_for(&kit, "b", "p:1", i == 1 ? NULL : opid);
    }
    struct kernel_command c = kit_command(KERNEL_VERB_UNATTEND);
    for (unsigned left = 3; left > 0; left -= left == 3 ? 2 : 1) {
        assert_int_equal(kit_run(&kit, &c), TN_R_OK);
        assert_int_equal(kit.result.number, left);
    }
    assert_int_equal(kit_run(&kit, &c), TN_R_OK);
    assert_int_equal(kernel_attended(kit.kernel), 0);
    assert_int_equal(kit.waited_count, 1); /* the one without an operation id */
    assert_int_equal(kit_alloc(&kit, "c", "p:1", 0), TN_R_EXHAUSTED);
    assert_int_equal(kit.result.waiting, 0); /* unattended waiters are skipped */
    kit_close(&kit);
}

static void a_release_of_a_waiting_lease_leaves_the_line(void **state) {
    (void)state;
    struct kit kit;
    kit_open(&kit, NULL);
    kit_pool(&kit, "p", "lo=1 hi=1");
    taken(&kit, "a", "p:1");
    struct kit_token w = wait_for(&kit, "b", "p:1", NULL);
    assert_int_equal(kit_activate(&kit, w, "b"), TN_R_STATE);
    assert_int_equal(kit_touch(&kit, w, 0), TN_R_STATE);
    assert_int_equal(kit_release(&kit, w, "b", false), TN_R_OK);
    assert_int_equal(kit.result.state, KERNEL_RELEASED);
    assert_int_equal(told(&kit)->code, TN_R_EXHAUSTED);
    assert_int_equal(told(&kit)->state, KERNEL_RELEASED);
    w = wait_for(&kit, "b", "p:1", NULL);
    assert_int_equal(kit_revoke(&kit, w, -1), TN_R_OK);
    assert_int_equal(kit_state(&kit, w), KERNEL_REVOKED);
    w = wait_for(&kit, "b", "p:1", NULL);
    assert_int_equal(kit_disown(&kit, "b", NULL), TN_R_OK);
    assert_int_equal(kit_state(&kit, w), KERNEL_RELEASED);
    kit_close(&kit);
}

/* A waiting lease has no value of the pool, so its client may still give up its place. */
static void a_waiter_of_a_pool_that_became_internal_may_leave(void **state) {
    (void)state;
    struct kit kit;
    kit_open(&kit, NULL);
    kit_pool(&kit, "p", "lo=1 hi=1");
    struct kit_token t = taken(&kit, "a", "p:1");
    struct kit_token w = wait_for(&kit, "b", "p:1", "op-b");
    assert_int_equal(kit_unattend(&kit, w), TN_R_OK); /* else its turn comes, and ends it */
    assert_int_equal(kit_alter(&kit, "p", "internal=1"), TN_R_OK);
    assert_int_equal(kit_state(&kit, w), KERNEL_WAITING);
    assert_int_equal(kit_release(&kit, w, "b", false), TN_R_OK);
    assert_int_equal(kit_state(&kit, w), KERNEL_RELEASED);
    assert_int_equal(kit_release(&kit, t, "a", false), TN_R_DENIED);
    kit_close(&kit);
}

static void a_pool_with_a_line_is_in_use(void **state) {
    (void)state;
    struct kit kit;
    kit_open(&kit, NULL);
    kit_pool(&kit, "s", "kind=1");
    struct kit_token w = wait_for(&kit, "b", "s:1", NULL); /* an empty set may get one */
    assert_int_equal(kit_drop(&kit, "s"), TN_R_POOL_IN_USE);
    kit_pool(&kit, "t", "lo=1 hi=1 scoped=1");
    struct kit_token t = taken(&kit, "a", "t@x:1");
    struct kit_token in_scope = wait_for(&kit, "b", "t@x:1", NULL);
    kit_unattend(&kit, w);
    assert_int_equal(kit_drop(&kit, "s"), TN_R_OK);
    kit_release(&kit, t, "a", true);
    assert_int_equal(kit_state(&kit, in_scope), KERNEL_ACTIVE);
    kit_close(&kit);
}

static void lines_are_bounded_by_their_places(void **state) {
    (void)state;
    struct kernel_limits limits = kit_limits();
    limits.of[KERNEL_LIMIT_WAITERS] = 3;
    struct kit kit;
    kit_open(&kit, &limits);
    kit_pool(&kit, "p", "lo=1 hi=1");
    kit_pool(&kit, "q", "lo=1 hi=1");
    taken(&kit, "a", "p:1 q:1");
    wait_for(&kit, "b", "p:1 q:1", NULL);
    assert_int_equal(kit_wait(&kit, "c", "p:1 q:1", 60, NULL), TN_R_WAITERS_FULL);
    wait_for(&kit, "c", "p:1", NULL);
    assert_int_equal(kit_wait(&kit, "d", "p:1", 60, NULL), TN_R_WAITERS_FULL);
    kit_close(&kit);
}

static void waiters_want_at_most_half_of_all_values(void **state) {
    (void)state;
    struct kernel_limits limits = kit_limits();
    limits.of[KERNEL_LIMIT_MEMBERS] = 9;
    struct kit kit;
    kit_open(&kit, &limits);
    kit_pool(&kit, "p", "lo=1 hi=3");
    kit_pool(&kit, "q", "lo=1 hi=4");
    taken(&kit, "a", "p:1");
    wait_for(&kit, "b", "p:3", NULL);
    assert_int_equal(kit_wait(&kit, "b", "p:3", 60, NULL), TN_R_WAITERS_FULL);
    wait_for(&kit, "b", "p:2", NULL);
    assert_int_equal(kit_wait(&kit, "b", "p:1", 60, NULL), TN_R_WAITERS_FULL);
    taken(&kit, "c", "q:3"); /* others have the rest */
    kit_close(&kit);
}

/* The kit remembers operations for OP_SECONDS; the lease waits for several times that. */
static void an_operation_is_remembered_as_long_as_its_lease_waits(void **state) {
    (void)state;
    struct kernel_limits limits = kit_limits();
    limits.of[KERNEL_LIMIT_OP_SECONDS] = 10;
    struct kit kit;
    kit_open(&kit, &limits);
    kit_pool(&kit, "p", "lo=1 hi=1");
    struct kit_token t = taken(&kit, "a", "p:1");
    struct kit_token w = wait_for(&kit, "b", "p:1", "op");
    for (unsigned i = 0; i < 5; i++) {
        kit.now_ms += 9000;
        if (i % 2 == 0) {
            kit_tick(&kit);
        }
        assert_int_equal(kit_wait(&kit, "b", "p:1", 60, "op"), TN_R_WAITING);
        assert_int_equal(kit.result.lease.lsn, w.lease.lsn);
        assert_true(kit.result.replayed);
    }
    kit_unattend(&kit, w); /* and the client may return */
    assert_int_equal(kit_state(&kit, w), KERNEL_WAITING);
    assert_int_equal(kit_wait(&kit, "b", "p:1", 60, "op"), TN_R_WAITING);
    kit_release(&kit, t, "a", true);
    assert_int_equal(kit_state(&kit, w), KERNEL_ACTIVE);
    kit.now_ms += 9999; /* the answer is not a window old */
    kit_tick(&kit);
    assert_int_equal(kit_wait(&kit, "b", "p:1", 60, "op"), TN_R_OK);
    assert_int_equal(kit.result.lease.lsn, w.lease.lsn);
    kit.now_ms += 1;
    kit_tick(&kit);
    assert_int_equal(kit_wait(&kit, "b", "p:1", 60, "op"), TN_R_WAITING);
    assert_false(kit.result.replayed);
    kit_close(&kit);
}

/* The last waiters end first: each end looks through the line before it. */
static void the_end_of_a_waiter_counts_with_its_place_in_line(void **state) {
    (void)state;
    struct kernel_limits limits = kit_limits();
    limits.of[KERNEL_LIMIT_TICK_STEP] = 64;
    limits.of[KERNEL_LIMIT_WAITERS] = 1000;
    limits.of[KERNEL_LIMIT_LEASES] = limits.of[KERNEL_LIMIT_MEMBERS] = 2000;
    struct kit kit;
    kit_open(&kit, &limits);
    kit_pool(&kit, "p", "lo=1 hi=1");
    taken(&kit, "a", "p:1");
    for (unsigned i = 0; i < 640; i++) {
        assert_int_equal(kit_wait(&kit, "b", "p:1", 600, NULL), TN_R_WAITING);
    }
    for (unsigned i = 0; i < 64; i++) {
        assert_int_equal(kit_wait(&kit, "c", "p:1", 60, NULL), TN_R_WAITING);
    }
    unsigned before = kit.waited_count;
    kit.now_ms += 60000;
    kit_tick(&kit);
    assert_in_range(kit.waited_count - before, 5, 8);
    for (unsigned i = 0; i < 64; i++) {
        kit_tick(&kit);
    }
    assert_int_equal(kit.waited_count - before, 64);
    kit_close(&kit);
}

/* A backup may have been made when a line was to be served. */
static void a_restored_state_serves_nobody_before_all_are_unattended(void **state) {
    (void)state;
    struct kernel_limits limits = kit_limits();
    limits.of[KERNEL_LIMIT_SWEEP_STEP] = 1;
    struct kit kit;
    kit_open(&kit, &limits);
    kit_pool(&kit, "p", "lo=1 hi=3");
    struct kit_token t = taken(&kit, "a", "p:3");
    struct kit_token w[3];
    for (unsigned i = 0; i < 3; i++) {
        w[i] = wait_for(&kit, "b", "p:1", NULL);
    }
    kit_release(&kit, t, "a", true);
    assert_int_equal(kit_state(&kit, w[2]), KERNEL_WAITING);
    struct kernel_command c = kit_command(KERNEL_VERB_RESTORED);
    for (unsigned i = 0; i < 2; i++) {
        assert_int_equal(kit_run(&kit, &c), TN_R_OK);
        assert_int_equal(kit_state(&kit, w[2]), KERNEL_WAITING);
    }
    kit_close(&kit);
}

static void a_wait_is_at_most_a_day_and_never_nothing(void **state) {
    (void)state;
    struct kit kit;
    kit_open(&kit, NULL);
    kit_pool(&kit, "p", "lo=1 hi=1");
    assert_int_equal(kit_wait(&kit, "a", "p:1", KERNEL_WAIT_MAX_S + 1, NULL), TN_R_BAD_TTL);
    assert_int_equal(kit.result.number, KERNEL_WAIT_MAX_S);
    assert_int_equal(kit_wait(&kit, "a", "p:1", KERNEL_WAIT_MAX_S, NULL), TN_R_OK);
    assert_int_equal(kit.result.waited_ms, 0);
    kit_close(&kit);
}

/* Two of one holder, whose quota is one: for the second one waiting is no help. */
static void a_waiter_that_can_never_be_served_is_refused_at_its_turn(void **state) {
    (void)state;
    struct kit kit;
    kit_open(&kit, NULL);
    kit_pool(&kit, "p", "lo=1 hi=2 max_per_holder=1");
    struct kit_token t = taken(&kit, "a", "p:1");
    taken(&kit, "x", "p:1");
    struct kit_token first = wait_for(&kit, "b", "p:1", NULL);
    struct kit_token second = wait_for(&kit, "b", "p:1", NULL);
    kit_release(&kit, t, "a", true);
    assert_int_equal(kit_state(&kit, first), KERNEL_ACTIVE);
    assert_int_equal(lease_view(&kit, second).reason, KERNEL_REASON_REFUSED);
    assert_int_equal(told(&kit)->code, TN_R_QUOTA);
    kit_close(&kit);
}

static void a_long_line_is_served_in_bounded_steps_and_ticks(void **state) {
    (void)state;
    struct kernel_limits limits = kit_limits();
    limits.of[KERNEL_LIMIT_SWEEP_STEP] = 4;
    limits.of[KERNEL_LIMIT_TICK_STEP] = 4;
    struct kit kit;
    kit_open(&kit, &limits);
    kit_pool(&kit, "p", "lo=1 hi=16");
    struct kit_token t = taken(&kit, "a", "p:8");
    taken(&kit, "x", "p:8");
    struct kit_token w[8];
    for (unsigned i = 0; i < 8; i++) {
        w[i] = wait_for(&kit, "b", "p:1", NULL);
    }
    kit_release(&kit, t, "a", true);
    assert_int_equal(kit_state(&kit, w[0]), KERNEL_ACTIVE);
    assert_int_equal(kit_state(&kit, w[7]), KERNEL_WAITING);
    for (unsigned i = 0; i < 8 && kernel_next_due(kit.kernel) <= kit.now_ms; i++) {
        kit_tick(&kit);
    }
    assert_int_equal(kit_state(&kit, w[7]), KERNEL_ACTIVE);
    assert_int_equal(kit.waited_count, 8);
    for (unsigned i = 0; i < 8; i++) {
        assert_int_equal(kit.waited[i].lease.lsn, w[i].lease.lsn);
    }
    kit_close(&kit);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_release_serves_the_first_in_line),
        cmocka_unit_test(nobody_overtakes_a_line),
        cmocka_unit_test(the_return_of_a_sticky_holder_is_exempt_from_the_line),
        cmocka_unit_test(a_wait_that_is_over_ends_with_the_refusal_and_the_place),
        cmocka_unit_test(a_bundle_at_the_head_holds_the_lines_of_all_its_pools),
        cmocka_unit_test(the_end_of_a_cooldown_serves_the_line),
        cmocka_unit_test(a_pool_that_grows_serves_its_line),
        cmocka_unit_test(a_client_without_an_operation_id_leaves_at_once),
        cmocka_unit_test(an_unattended_waiter_is_passed_over_and_keeps_its_place),
        cmocka_unit_test(an_unattended_waiter_ends_after_ten_seconds),
        cmocka_unit_test(all_waiters_become_unattended_in_steps),
        cmocka_unit_test(waiters_want_at_most_half_of_all_values),
        cmocka_unit_test(an_operation_is_remembered_as_long_as_its_lease_waits),
        cmocka_unit_test(the_end_of_a_waiter_counts_with_its_place_in_line),
        cmocka_unit_test(a_restored_state_serves_nobody_before_all_are_unattended),
        cmocka_unit_test(a_release_of_a_waiting_lease_leaves_the_line),
        cmocka_unit_test(a_waiter_of_a_pool_that_became_internal_may_leave),
        cmocka_unit_test(a_pool_with_a_line_is_in_use),
        cmocka_unit_test(lines_are_bounded_by_their_places),
        cmocka_unit_test(a_wait_is_at_most_a_day_and_never_nothing),
        cmocka_unit_test(a_waiter_that_can_never_be_served_is_refused_at_its_turn),
        cmocka_unit_test(a_long_line_is_served_in_bounded_steps_and_ticks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
