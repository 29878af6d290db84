/* The lifecycle, cell by cell: every state of a lease against every command, legal and illegal. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
/* cmocka wants the headers above first */
#include <cmocka.h>
#include <stdio.h>

#include "lib/kit.h"

/* How a lease comes into the state that a row of the table is about. */
enum start {
    RESERVED,
    ACTIVE,
    STICKY, /* active, in a sticky pool */
    OFFLINE,
    REVOKING,
    REVOKING_SOON, /* ends by itself after 100 s */
    GRACE,         /* revoking because its time ran out */
    RELEASED,
    EXPIRED,
    REVOKED,
    START_COUNT
};

static const char *const start_names[START_COUNT] = {
    "reserved",      "active",   "sticky active", "offline", "revoking",
    "revoking soon", "in grace", "released",      "expired", "revoked"};

enum act {
    ACTIVATE,
    TOUCH,
    RELEASE,
    RELEASE_NOW,
    REVOKE,
    REVOKE_AFTER,
    ACK, /* with the previous epoch */
    RECLAIM,
    REKEY,
    RETURN, /* alloc by the same holder in the sticky pool */
    TIME,   /* a tick long after every deadline */
    ACT_COUNT
};

static const char *const act_names[ACT_COUNT] = {
    "activate", "touch",   "release", "release now", "revoke", "revoke after",
    "ack",      "reclaim", "rekey",   "return",      "time"};

struct cell {
    enum tn_result code;
    enum kernel_state state; /* afterwards */
    int epoch_up;
};

#define OK_(state, up) \
    { TN_R_OK, KERNEL_##state, up }
#define NO(code, state) \
    { TN_R_##code, KERNEL_##state, 0 }
#define ENDED(state)                                                                               \
    {                                                                                              \
        [ACTIVATE] = NO(STATE, state), [TOUCH] = NO(STATE, state), [RELEASE] = NO(STATE, state),   \
        [RELEASE_NOW] = NO(STATE, state), [REVOKE] = NO(STATE, state),                             \
        [REVOKE_AFTER] = NO(STATE, state), [ACK] = NO(STATE, state), [RECLAIM] = NO(STATE, state), \
        [REKEY] = NO(STATE, state), [TIME] = OK_(state, 0)                                         \
    }

static const struct cell table[START_COUNT][ACT_COUNT] = {
    [RESERVED] = {[ACTIVATE] = OK_(ACTIVE, 0),
                  [TOUCH] = NO(STATE, RESERVED),
                  [RELEASE] = OK_(RELEASED, 1),
                  [RELEASE_NOW] = OK_(RELEASED, 1),
                  [REVOKE] = OK_(REVOKED, 1),
                  [REVOKE_AFTER] = OK_(REVOKED, 1),
                  [ACK] = NO(STATE, RESERVED),
                  [RECLAIM] = NO(STATE, RESERVED),
                  [REKEY] = NO(STATE, RESERVED),
                  [TIME] = OK_(EXPIRED, 1)},
    [ACTIVE] = {[ACTIVATE] = NO(STATE, ACTIVE),
                [TOUCH] = OK_(ACTIVE, 0),
                [RELEASE] = OK_(RELEASED, 1),
                [RELEASE_NOW] = OK_(RELEASED, 1),
                [REVOKE] = OK_(REVOKING, 1),
                [REVOKE_AFTER] = OK_(REVOKING, 1),
                [ACK] = NO(STATE, ACTIVE),
                [RECLAIM] = NO(STATE, ACTIVE),
                [REKEY] = OK_(ACTIVE, 1),
                [TIME] = OK_(EXPIRED, 1)},
    [STICKY] = {[ACTIVATE] = NO(STATE, ACTIVE),
                [TOUCH] = OK_(ACTIVE, 0),
                [RELEASE] = OK_(OFFLINE, 1),
                [RELEASE_NOW] = OK_(RELEASED, 1),
                [REVOKE] = OK_(REVOKING, 1),
                [REVOKE_AFTER] = OK_(REVOKING, 1),
                [ACK] = NO(STATE, ACTIVE),
                [RECLAIM] = NO(STATE, ACTIVE),
                [REKEY] = OK_(ACTIVE, 1),
                [RETURN] = OK_(ACTIVE, 1),
                [TIME] = OK_(EXPIRED, 1)},
    [OFFLINE] = {[ACTIVATE] = NO(STATE, OFFLINE),
                 [TOUCH] = OK_(ACTIVE, 0),
                 [RELEASE] = OK_(OFFLINE, 1),
                 [RELEASE_NOW] = OK_(RELEASED, 1),
                 [REVOKE] = OK_(REVOKING, 1),
                 [REVOKE_AFTER] = OK_(REVOKING, 1),
                 [ACK] = NO(STATE, OFFLINE),
                 [RECLAIM] = NO(STATE, OFFLINE),
                 [REKEY] = OK_(OFFLINE, 1),
                 [RETURN] = OK_(ACTIVE, 1),
                 [TIME] = OK_(EXPIRED, 1)},
    [REVOKING] = {[ACTIVATE] = NO(STATE, REVOKING),
                  [TOUCH] = NO(STATE, REVOKING),
                  [RELEASE] = NO(STATE, REVOKING),
                  [RELEASE_NOW] = NO(STATE, REVOKING),
                  [REVOKE] = NO(NOOP, REVOKING),
                  [REVOKE_AFTER] = NO(NOOP, REVOKING),
                  [ACK] = OK_(REVOKED, 0),
                  [RECLAIM] = OK_(REVOKED, 0),
                  [REKEY] = NO(STATE, REVOKING),
                  [RETURN] = NO(BUSY, REVOKING),
                  [TIME] = OK_(REVOKING, 0)},
    [REVOKING_SOON] = {[ACTIVATE] = NO(STATE, REVOKING),
                       [TOUCH] = NO(STATE, REVOKING),
                       [RELEASE] = NO(STATE, REVOKING),
                       [RELEASE_NOW] = NO(STATE, REVOKING),
                       [REVOKE] = NO(NOOP, REVOKING),
                       [REVOKE_AFTER] = NO(NOOP, REVOKING),
                       [ACK] = OK_(REVOKED, 0),
                       [RECLAIM] = OK_(REVOKED, 0),
                       [REKEY] = NO(STATE, REVOKING),
                       [TIME] = OK_(REVOKED, 0)},
    [GRACE] = {[ACTIVATE] = NO(STATE, REVOKING),
               [TOUCH] = NO(STATE, REVOKING),
               [RELEASE] = NO(STATE, REVOKING),
               [RELEASE_NOW] = NO(STATE, REVOKING),
               [REVOKE] = OK_(REVOKING, 0),
               [REVOKE_AFTER] = OK_(REVOKING, 0),
               [ACK] = OK_(EXPIRED, 0),
               [RECLAIM] = OK_(EXPIRED, 0),
               [REKEY] = NO(STATE, REVOKING),
               [TIME] = OK_(EXPIRED, 0)},
    [RELEASED] = ENDED(RELEASED),
    [EXPIRED] = ENDED(EXPIRED),
    [REVOKED] = ENDED(REVOKED),
};

static void world_open(struct kit *kit) {
    kit_open(kit, NULL);
    assert_int_equal(kit_pool(kit, "plain", "lo=1 hi=8 lease=60"), TN_R_OK);
    assert_int_equal(kit_pool(kit, "graceful", "lo=1 hi=8 lease=60 grace=600"), TN_R_OK);
    assert_int_equal(kit_pool(kit, "sticky", "lo=1 hi=8 sticky=1 lease=60 adaptive_enabled=0"),
                     TN_R_OK);
}

static const char *pool_of(enum start start) {
    return start == STICKY || start == OFFLINE || start == REVOKING ? "sticky"
           : start == GRACE                                         ? "graceful"
                                                                    : "plain";
}

/* Makes a lease of holder "h" in the state, and returns its current token. */
static struct kit_token lease_in(struct kit *kit, enum start start) {
    if (start == RESERVED) {
        assert_int_equal(kit_reserve(kit, "h", "plain:1", 60), TN_R_OK);
        return kit_token(kit);
    }
    assert_int_equal(kit_alloc(kit, "h", pool_of(start), 0), TN_R_OK);
    struct kit_token t = kit_token(kit);
    if (start == OFFLINE) {
        kit_release(kit, t, "h", false);
    } else if (start == REVOKING || start == REVOKED) {
        kit_revoke(kit, t, -1);
    } else if (start == REVOKING_SOON) {
        kit_revoke(kit, t, 100);
    } else if (start == RELEASED) {
        kit_release(kit, t, "h", true);
    } else if (start == EXPIRED || start == GRACE) {
        kit->now_ms += 61000;
        kit_tick(kit);
        t.epoch++;
        return t;
    }
    if (start == REVOKED) {
        kit_reclaim(kit, t);
    }
    return kit_token(kit);
}

static enum tn_result act_on(struct kit *kit, enum act act, struct kit_token t) {
    struct kit_token before = {.lease = t.lease, .epoch = t.epoch - 1};
    switch (act) {
    case ACTIVATE:
        return kit_activate(kit, t, "h");
    case TOUCH:
        return kit_touch(kit, t, 0);
    case RELEASE:
        return kit_release(kit, t, "h", false);
    case RELEASE_NOW:
        return kit_release(kit, t, "h", true);
    case REVOKE:
        return kit_revoke(kit, t, -1);
    case REVOKE_AFTER:
        return kit_revoke(kit, t, 50);
    case ACK:
        return kit_ack(kit, before, "h");
    case RECLAIM:
        return kit_reclaim(kit, t);
    case REKEY:
        return kit_rekey(kit, t, "other");
    case RETURN:
        return kit_alloc(kit, "h", "sticky", 0);
    default:
        kit->now_ms += 1000000;
        return kit_tick(kit);
    }
}

static struct kernel_lease_view view_of(const struct kit *kit, struct kit_token t) {
    struct kernel_lease_view view;
    assert_int_equal(kernel_lease_read(kit->kernel, t.lease, &view), TN_R_OK);
    return view;
}

static void every_state_answers_every_command_as_the_table_says(void **state) {
    (void)state;
    for (unsigned s = 0; s < START_COUNT; s++) {
        for (unsigned a = 0; a < ACT_COUNT; a++) {
            const struct cell *cell = &table[s][a];
            if (cell->state == KERNEL_NO_STATE) {
                continue; /* not a pair that can be */
            }
            struct kit kit;
            world_open(&kit);
            struct kit_token t = lease_in(&kit, (enum start)s);
            struct kernel_lease_view before = view_of(&kit, t);
            assert_int_equal(before.epoch, t.epoch);
            enum tn_result code = act_on(&kit, (enum act)a, t);
            struct kernel_lease_view after = view_of(&kit, t);
            if (code != cell->code || after.state != cell->state ||
                after.epoch != before.epoch + (uint64_t)cell->epoch_up) {
                fail_msg("%s, %s: %s, %s, epoch +%d; expected %s, %s, +%d", start_names[s],
                         act_names[a], tn_result_name(code), kernel_state_name(after.state),
                         (int)(after.epoch - before.epoch), tn_result_name(cell->code),
                         kernel_state_name(cell->state), cell->epoch_up);
            }
            kit_close(&kit);
        }
    }
}

static void a_wrong_holder_is_told_before_a_stale_epoch_and_that_before_the_state(void **state) {
    (void)state;
    for (unsigned s = 0; s < START_COUNT; s++) {
        struct kit kit;
        world_open(&kit);
        struct kit_token t = lease_in(&kit, (enum start)s);
        struct kit_token stale = {.lease = t.lease, .epoch = t.epoch + 5};
        struct kernel_lease_view before = view_of(&kit, t);
        assert_int_equal(kit_activate(&kit, stale, "x"), TN_R_HOLDER);
        assert_int_equal(kit_release(&kit, stale, "x", true), TN_R_HOLDER);
        assert_int_equal(kit_ack(&kit, stale, "x"), TN_R_HOLDER);
        assert_int_equal(kit_activate(&kit, stale, "h"), TN_R_STALE);
        assert_int_equal(kit_touch(&kit, stale, 0), TN_R_STALE);
        assert_int_equal(kit_release(&kit, stale, "h", true), TN_R_STALE);
        assert_int_equal(kit_ack(&kit, stale, "h"), TN_R_STALE);
        assert_int_equal(kit_rekey(&kit, stale, "y"), TN_R_STALE);
        struct kernel_lease_view after = view_of(&kit, t);
        assert_int_equal(after.state, before.state);
        assert_int_equal(after.epoch, before.epoch);
        assert_int_equal(after.deadline_ms, before.deadline_ms);
        kit_close(&kit);
    }
}

static void an_unknown_lease_is_not_found_and_an_old_one_is_retired(void **state) {
    (void)state;
    struct kit kit;
    world_open(&kit);
    struct kit_token t = lease_in(&kit, RELEASED);
    struct kit_token future = {.lease = {.lsn = 999}, .epoch = 1};
    struct kit_token other = {.lease = {.shard = 7, .lsn = t.lease.lsn}, .epoch = 1};
    assert_int_equal(kit_touch(&kit, future, 0), TN_R_NOTFOUND);
    assert_int_equal(kit_touch(&kit, other, 0), TN_R_NOTFOUND);
    assert_int_equal(kit_touch(&kit, t, 0), TN_R_STATE);
    kit.now_ms += 3600 * 1000 - 1;
    assert_int_equal(kit_touch(&kit, t, 0), TN_R_STATE);
    kit.now_ms += 1;
    assert_int_equal(kit_touch(&kit, t, 0), TN_R_RETIRED);
    assert_int_equal(kit_revoke(&kit, t, -1), TN_R_RETIRED);
    struct kernel_lease_view view;
    assert_int_equal(kernel_lease_read(kit.kernel, t.lease, &view), TN_R_RETIRED);
    kit_close(&kit);
}

static void a_grace_turned_into_a_revoke_keeps_the_later_deadline(void **state) {
    (void)state;
    struct kit kit;
    world_open(&kit);
    struct kit_token t = lease_in(&kit, GRACE);
    uint64_t grace_end = view_of(&kit, t).deadline_ms;
    assert_int_equal(kit_revoke(&kit, t, 1), TN_R_OK);
    assert_int_equal(view_of(&kit, t).deadline_ms, grace_end);
    kit.now_ms = grace_end;
    kit_tick(&kit);
    assert_int_equal(kit_state(&kit, t), KERNEL_REVOKED);
    struct kit_token u = lease_in(&kit, GRACE);
    assert_int_equal(kit_revoke(&kit, u, -1), TN_R_OK);
    assert_int_equal(view_of(&kit, u).deadline_ms, 0);
    kit.now_ms += 100000000;
    kit_tick(&kit);
    assert_int_equal(kit_state(&kit, u), KERNEL_REVOKING);
    kit_close(&kit);
}

static void a_revoked_value_is_nobodys_until_the_revoke_has_ended(void **state) {
    (void)state;
    struct kit kit;
    world_open(&kit);
    assert_int_equal(kit_alloc(&kit, "h", "plain=3", 0), TN_R_OK);
    struct kit_token t = kit_token(&kit);
    assert_int_equal(kit_revoke(&kit, t, -1), TN_R_OK);
    assert_int_equal(kit_alloc(&kit, "thief", "plain=3", 0), TN_R_BUSY);
    assert_int_equal(kit_touch(&kit, t, 0), TN_R_STALE);
    assert_int_equal(kit_ack(&kit, t, "h"), TN_R_OK);
    assert_int_equal(kit_alloc(&kit, "next", "plain=3", 0), TN_R_OK);
    kit_close(&kit);
}

static void due_transitions_come_before_the_command_is_judged(void **state) {
    (void)state;
    struct kit kit;
    world_open(&kit);
    struct kit_token t = lease_in(&kit, ACTIVE);
    kit.now_ms += 60000; /* the deadline itself counts as passed */
    assert_int_equal(kit_touch(&kit, t, 0), TN_R_STALE);
    assert_int_equal(kit_state(&kit, t), KERNEL_EXPIRED);
    assert_int_equal(kit_alloc(&kit, "n", "plain=1", 0), TN_R_OK);
    kit_close(&kit);
}

static void a_fencing_token_only_grows_for_one_value(void **state) {
    (void)state;
    struct kit kit;
    world_open(&kit);
    struct kit_token last = {0};
    for (int i = 0; i < 20; i++) {
        assert_int_equal(kit_alloc(&kit, "h", "plain=5", 0), TN_R_OK);
        struct kit_token t = kit_token(&kit);
        int order = kernel_lease_id_compare(t.lease, last.lease);
        assert_true(order > 0 || (order == 0 && t.epoch > last.epoch));
        last = t;
        assert_int_equal(kit_release(&kit, t, "h", true), TN_R_OK);
        assert_true(kit_token(&kit).epoch > last.epoch);
    }
    kit_close(&kit);
}

static void touch_never_goes_past_the_longest_hold(void **state) {
    (void)state;
    struct kit kit;
    kit_open(&kit, NULL);
    kit_pool(&kit, "p", "lo=1 hi=4 lease=60 max_hold=100 max_lease=80");
    assert_int_equal(kit_alloc(&kit, "h", "p:1", 0), TN_R_OK);
    struct kit_token t = kit_token(&kit);
    uint64_t created = kit.now_ms;
    assert_int_equal(kit.result.deadline_ms, created + 60000);
    kit.now_ms += 59000;
    assert_int_equal(kit_touch(&kit, t, 0), TN_R_OK);
    assert_int_equal(kit.result.deadline_ms, created + 100000);
    assert_int_equal(kit_touch(&kit, t, 81), TN_R_BAD_TTL);
    assert_int_equal(kit.result.number, 80);
    kit.now_ms = created + 100000;
    assert_int_equal(kit_touch(&kit, t, 0), TN_R_STALE);
    kit_close(&kit);
}

static void a_ttl_that_was_asked_for_is_renewed_with_itself(void **state) {
    (void)state;
    struct kit kit;
    kit_open(&kit, NULL);
    kit_pool(&kit, "forever", "lo=1 hi=4");
    assert_int_equal(kit_alloc(&kit, "h", "forever:1", 30), TN_R_OK);
    struct kit_token t = kit_token(&kit);
    kit.now_ms += 10000;
    assert_int_equal(kit_touch(&kit, t, 0), TN_R_OK);
    assert_int_equal(kit.result.deadline_ms, kit.now_ms + 30000);
    assert_int_equal(kit_touch(&kit, t, 5), TN_R_OK);
    assert_int_equal(kit.result.deadline_ms, kit.now_ms + 5000);
    kit.now_ms += 5000;
    kit_tick(&kit);
    assert_int_equal(kit_state(&kit, t), KERNEL_EXPIRED);
    kit_close(&kit);
}

static void a_reservation_is_bounded_and_expires(void **state) {
    (void)state;
    struct kit kit;
    kit_open(&kit, NULL);
    kit_pool(&kit, "p", "lo=1 hi=1 reserve_ttl_max=100");
    assert_int_equal(kit_reserve(&kit, "h", "p:1", 101), TN_R_BAD_TTL);
    assert_int_equal(kit.result.number, 100);
    assert_int_equal(kit_reserve(&kit, "h", "p:1", 100), TN_R_OK);
    struct kit_token t = kit_token(&kit);
    assert_int_equal(kit_reserve(&kit, "other", "p:1", 100), TN_R_EXHAUSTED);
    assert_int_equal(kit.result.retry_at_ms, kit.now_ms + 100000);
    kit.now_ms += 100000;
    assert_int_equal(kit_activate(&kit, t, "h"), TN_R_STALE);
    assert_int_equal(kit_reserve(&kit, "other", "p:1", 100), TN_R_OK);
    struct kit_token u = kit_token(&kit);
    assert_int_equal(kit_activate(&kit, u, "other"), TN_R_OK);
    assert_int_equal(kit.result.deadline_ms, 0); /* the pool is permanent */
    kit_close(&kit);
}

static void a_revoke_of_one_epoch_leaves_the_next_alone(void **state) {
    (void)state;
    struct kit kit;
    kit_open(&kit, NULL);
    kit_pool(&kit, "p", "lo=1 hi=1");
    assert_int_equal(kit_alloc(&kit, "h", "p", 0), TN_R_OK);
    struct kit_token t = kit_token(&kit);
    assert_int_equal(kit_rekey(&kit, t, "other"), TN_R_OK);
    struct kernel_command c = {.verb = KERNEL_VERB_REVOKE,
                               .fields = KERNEL_F_LEASE | KERNEL_F_EPOCH,
                               .rights = KERNEL_RIGHT_OPERATOR,
                               .lease = t.lease,
                               .epoch = t.epoch};
    assert_int_equal(kit_run(&kit, &c), TN_R_STALE);
    assert_int_equal(kit_state(&kit, t), KERNEL_ACTIVE);
    c.epoch = t.epoch + 1;
    assert_int_equal(kit_run(&kit, &c), TN_R_OK);
    assert_int_equal(kit_state(&kit, t), KERNEL_REVOKING);
    assert_int_equal(kit_run(&kit, &c), TN_R_STALE);
    kit_close(&kit);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_state_answers_every_command_as_the_table_says),
        cmocka_unit_test(a_wrong_holder_is_told_before_a_stale_epoch_and_that_before_the_state),
        cmocka_unit_test(an_unknown_lease_is_not_found_and_an_old_one_is_retired),
        cmocka_unit_test(a_grace_turned_into_a_revoke_keeps_the_later_deadline),
        cmocka_unit_test(a_revoked_value_is_nobodys_until_the_revoke_has_ended),
        cmocka_unit_test(due_transitions_come_before_the_command_is_judged),
        cmocka_unit_test(a_fencing_token_only_grows_for_one_value),
        cmocka_unit_test(touch_never_goes_past_the_longest_hold),
        cmocka_unit_test(a_ttl_that_was_asked_for_is_renewed_with_itself),
        cmocka_unit_test(a_reservation_is_bounded_and_expires),
        cmocka_unit_test(a_revoke_of_one_epoch_leaves_the_next_alone),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
