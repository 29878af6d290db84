/* Bounds: full tables, hostile bytes, operations remembered, replay to the same bytes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
/* cmocka wants the headers above first */
#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/prng.h"
#include "lib/kit.h"

static void a_short_request_for_four_thousand_million_members_is_refused(void **state) {
    (void)state;
    struct kit kit;
    kit_open(&kit, NULL);
    kit_pool(&kit, "p", "lo=1 hi=4294967294");
    uint8_t bytes[64];
    struct tn_writer w = tn_writer_of(bytes, sizeof bytes);
    kernel_claim_write(&w, kit_text("p"), true, UINT32_MAX);
    struct kernel_command c = kit_command(KERNEL_VERB_ALLOC);
    c.holder = kit_text("h");
    c.claims = tn_bytes_of(bytes, w.len);
    c.claim_count = 1;
    assert_int_equal(kit_run(&kit, &c), TN_R_TOO_LARGE);
    assert_int_equal(kit.result.number, 32);
    bytes[3] = 0; /* not "any": that many values, none of which follows */
    uint8_t encoded[128];
    uint32_t len = kernel_command_encode(&c, encoded, sizeof encoded);
    assert_true(len < 40);
    assert_int_equal(kit_run_bytes(&kit, tn_bytes_of(encoded, len)), TN_R_MALFORMED);
    kit_close(&kit);
}

static void any_bytes_at_all_are_a_command_or_malformed(void **state) {
    (void)state;
    struct kit kit;
    kit_open(&kit, NULL);
    kit.check_every = 50;
    kit_pool(&kit, "p", "lo=1 hi=9 lease=5");
    kit_alloc(&kit, "h", "p:1", 0);
    struct tn_prng random;
    tn_prng_seed(&random, 99);
    uint32_t base = kit.entry_count;
    for (unsigned i = 0; i < 60000; i++) {
        uint8_t bytes[256];
        const struct kit_entry *from = &kit.entries[tn_prng_below(&random, base)];
        uint32_t len = from->len < sizeof bytes ? from->len : sizeof bytes;
        memcpy(bytes, from->bytes, len);
        unsigned flips = 1 + (unsigned)tn_prng_below(&random, 4);
        for (unsigned f = 0; f < flips; f++) {
            bytes[tn_prng_below(&random, len)] = (uint8_t)tn_prng_next(&random);
        }
        if (bytes[0] == KERNEL_VERB_LIMITS) {
            continue; /* only the engine logs those */
        }
        kit.record = false;
        kit.now_ms += tn_prng_below(&random, 3) == 0;
        kit_run_bytes(&kit, tn_bytes_of(bytes, (uint32_t)tn_prng_below(&random, len + 1)));
    }
    kit_check(&kit);
    kit_close(&kit);
}

static void every_table_refuses_by_name_when_it_is_full(void **state) {
    (void)state;
    struct kit kit;
    struct kernel_limits limits = kit_limits();
    limits.of[KERNEL_LIMIT_LEASES] = 4;
    limits.of[KERNEL_LIMIT_MEMBERS] = 10;
    limits.of[KERNEL_LIMIT_POOLS] = 3;
    limits.of[KERNEL_LIMIT_RESOURCES] = 2;
    limits.of[KERNEL_LIMIT_NAMES] = 6;
    limits.of[KERNEL_LIMIT_RULES] = 1;
    limits.of[KERNEL_LIMIT_SENSORS] = 1;
    limits.of[KERNEL_LIMIT_HISTORY] = 1;
    kit_open(&kit, &limits);
    kit_pool(&kit, "p", "lo=1 hi=99");
    kit_pool(&kit, "s", "kind=1");
    assert_int_equal(kit_add(&kit, "s", "a b c"), TN_R_RESOURCES_FULL);
    kit_pool(&kit, "q", "lo=1 hi=99 scoped=1");
    assert_int_equal(kit_pool(&kit, "r", "lo=1 hi=99"), TN_R_POOLS_FULL);
    assert_int_equal(kit_alloc(&kit, "a", "q@x:1", 0), TN_R_POOLS_FULL);
    assert_int_equal(kit_alloc(&kit, "a", "p:8", 0), TN_R_OK);
    assert_int_equal(kit_alloc(&kit, "a", "p:3", 0), TN_R_MEMBERS_FULL);
    struct kit_token t = kit_token(&kit);
    (void)t;
    assert_int_equal(kit_alloc(&kit, "b", "p:1", 0), TN_R_OK);
    struct kit_token b = kit_token(&kit);
    assert_int_equal(kit_alloc(&kit, "c", "p:1", 0), TN_R_OK);
    assert_int_equal(kit_alloc(&kit, "d", "p:1", 0), TN_R_MEMBERS_FULL);
    assert_int_equal(kit_release(&kit, b, "b", true), TN_R_OK);
    assert_int_equal(kit_alloc(&kit, "d", "p:1", 0), TN_R_OK);
    struct kernel_command rule = kit_command(KERNEL_VERB_RULE_SET);
    rule.name = kit_text("r1");
    rule.trigger = kit_text("t");
    assert_int_equal(kit_run(&kit, &rule), TN_R_OK);
    rule.name = kit_text("r2");
    assert_int_equal(kit_run(&kit, &rule), TN_R_DEMAND_FULL);
    kit_close(&kit);
}

static void the_lease_table_is_full_at_its_limit_and_not_before(void **state) {
    (void)state;
    struct kit kit;
    struct kernel_limits limits = kit_limits();
    limits.of[KERNEL_LIMIT_LEASES] = 7;
    limits.of[KERNEL_LIMIT_HISTORY] = 2;
    limits.of[KERNEL_LIMIT_HISTORY_SECONDS] = 0;
    kit_open(&kit, &limits);
    kit_pool(&kit, "p", "lo=1 hi=99 lease=10");
    for (int round = 0; round < 5; round++) {
        for (int i = 0; i < 7; i++) {
            assert_int_equal(kit_alloc(&kit, "h", "p:1", 0), TN_R_OK);
        }
        assert_int_equal(kit_alloc(&kit, "h", "p:1", 0), TN_R_LEASES_FULL);
        kit.now_ms += 10000;
        assert_int_equal(kit_tick(&kit), TN_R_OK);
        assert_int_equal(kit.result.number, 7);
    }
    kit_close(&kit);
}

static void names_that_do_not_fit_are_refused(void **state) {
    (void)state;
    struct kit kit;
    struct kernel_limits limits = kit_limits();
    limits.of[KERNEL_LIMIT_NAMES] = 2;
    kit_open(&kit, &limits);
    kit_pool(&kit, "p", "lo=1 hi=99");
    char holder[200];
    memset(holder, 'x', sizeof holder);
    holder[129] = '\0';
    assert_int_equal(kit_alloc(&kit, holder, "p:1", 0), TN_R_BAD_NAME);
    assert_int_equal(kit_alloc(&kit, "", "p:1", 0), TN_R_BAD_NAME);
    holder[128] = '\0';
    assert_int_equal(kit_alloc(&kit, holder, "p:1", 0), TN_R_OK);
    assert_int_equal(kit_alloc(&kit, "b", "p:1", 0), TN_R_OK);
    struct kit_token b = kit_token(&kit);
    assert_int_equal(kit_alloc(&kit, "c", "p:1", 0), TN_R_NAMES_FULL);
    assert_int_equal(kit_rekey(&kit, b, "c"), TN_R_NAMES_FULL);
    assert_int_equal(kit_alloc(&kit, "b", "p:1", 0), TN_R_OK);
    kit_close(&kit);
}

static void large_times_do_not_overflow(void **state) {
    (void)state;
    struct kit kit;
    kit_open(&kit, NULL);
    kit_pool(&kit, "p", "lo=1 hi=9 lease=4294967295 grace=4294967295 cooldown=4294967295");
    kit.now_ms = KERNEL_TIME_MAX - 1;
    assert_int_equal(kit_alloc(&kit, "h", "p:1", 4294967295u), TN_R_OK);
    struct kit_token t = kit_token(&kit);
    assert_int_equal(kit.result.deadline_ms, KERNEL_TIME_MAX - 1 + 4294967295000ull);
    assert_int_equal(kit_revoke(&kit, t, 4294967295), TN_R_OK);
    assert_int_equal(kit_reclaim(&kit, t), TN_R_OK);
    kit.now_ms = KERNEL_TIME_MAX;
    kit_tick(&kit);
    kit_close(&kit);
}

/* ---- operations ---- */

static enum tn_result alloc_with_id(struct kit *kit, const char *user, const char *opid,
                                    const char *holder) {
    uint8_t bytes[64];
    struct tn_writer w = tn_writer_of(bytes, sizeof bytes);
    kernel_claim_write(&w, kit_text("p"), true, 2);
    struct kernel_command c = kit_command(KERNEL_VERB_ALLOC);
    c.user = kit_text(user);
    c.opid = kit_text(opid);
    c.holder = kit_text(holder);
    c.claims = tn_bytes_of(bytes, w.len);
    c.claim_count = 1;
    return kit_run(kit, &c);
}

static void the_same_id_and_command_get_the_first_answer_again(void **state) {
    (void)state;
    struct kit kit;
    kit_open(&kit, NULL);
    kit_pool(&kit, "p", "lo=1 hi=9");
    assert_int_equal(alloc_with_id(&kit, "", "op-1", "h"), TN_R_OK);
    struct kernel_result first = kit.result;
    uint64_t values[] = {kit.values[0].number, kit.values[1].number};
    assert_int_equal(kit_release(&kit, kit_token(&kit), "h", true), TN_R_OK);
    kit.now_ms += 599999;
    assert_int_equal(alloc_with_id(&kit, "", "op-1", "h"), TN_R_OK);
    assert_true(kit.result.replayed);
    assert_int_equal(kit.result.lsn, first.lsn);
    assert_int_equal(kit.result.lease.lsn, first.lease.lsn);
    assert_int_equal(kit.result.epoch, 1);
    assert_int_equal(kit.result.value_count, 2);
    assert_int_equal(kit.values[0].number, values[0]);
    assert_int_equal(kit.values[1].number, values[1]);
    assert_int_equal(alloc_with_id(&kit, "", "op-1", "other"), TN_R_CONFLICT);
    /* Which distinguishes it from other conflicts. */
    assert_int_equal(kit.result.number, first.lsn);
    assert_int_equal(alloc_with_id(&kit, "eve", "op-1", "h"), TN_R_OK); /* another user's id */
    assert_false(kit.result.replayed);
    kit.now_ms += 1;
    /* The window of the operation has ended. */
    assert_int_equal(alloc_with_id(&kit, "", "op-1", "other"), TN_R_OK);
    assert_false(kit.result.replayed);
    kit_close(&kit);
}

static void a_refusal_is_remembered_too(void **state) {
    (void)state;
    struct kit kit;
    kit_open(&kit, NULL);
    kit_pool(&kit, "p", "lo=1 hi=1");
    assert_int_equal(alloc_with_id(&kit, "", "op", "h"), TN_R_TOO_LARGE);
    kit_alter(&kit, "p", "hi=9");
    assert_int_equal(alloc_with_id(&kit, "", "op", "h"), TN_R_TOO_LARGE);
    assert_true(kit.result.replayed);
    kit_close(&kit);
}

static void a_full_table_refuses_new_ids_and_answers_old_ones(void **state) {
    (void)state;
    struct kit kit;
    struct kernel_limits limits = kit_limits();
    limits.of[KERNEL_LIMIT_OPS] = 8;
    kit_open(&kit, &limits);
    kit_pool(&kit, "p", "lo=1 hi=99");
    char opid[16];
    for (int i = 0; i < 8; i++) {
        snprintf(opid, sizeof opid, "op-%d", i);
        assert_int_equal(alloc_with_id(&kit, "", opid, "h"), TN_R_OK);
    }
    struct kernel_command probe = kit_command(KERNEL_VERB_TICK);
    uint64_t chunks;
    probe.opid = kit_text("fresh");
    assert_int_equal(kernel_op_admit(kit.kernel, &probe, 0, 0, 0, &chunks), TN_R_OPS_FULL);
    probe.opid = kit_text("op-3");
    assert_int_equal(kernel_op_admit(kit.kernel, &probe, 0, 0, 0, &chunks), TN_R_OK);
    assert_int_equal(alloc_with_id(&kit, "", "fresh", "h"), TN_R_OPS_FULL);
    assert_int_equal(alloc_with_id(&kit, "", "op-3", "h"), TN_R_OK);
    assert_true(kit.result.replayed);
    assert_true(kernel_next_due(kit.kernel) <= kit.now_ms + 600000);
    kit.now_ms += 600000;
    /* By the clock there is room, though no command has made it yet. */
    probe.opid = kit_text("fresh");
    assert_int_equal(kernel_op_admit(kit.kernel, &probe, kit.now_ms, 0, 0, &chunks), TN_R_OK);
    assert_int_equal(kernel_op_admit(kit.kernel, &probe, kit.now_ms, 7, 0, &chunks), TN_R_OK);
    assert_int_equal(kernel_op_admit(kit.kernel, &probe, kit.now_ms, 8, 0, &chunks), TN_R_OPS_FULL);
    assert_int_equal(alloc_with_id(&kit, "", "fresh", "h"), TN_R_OK);
    kit_close(&kit);
}

/* ---- users ---- */

static void a_lease_obeys_its_own_user_or_an_operator(void **state) {
    (void)state;
    struct kit kit;
    kit_open(&kit, NULL);
    kit_pool(&kit, "p", "lo=1 hi=9");
    assert_int_equal(alloc_with_id(&kit, "alice", "1", "h"), TN_R_OK);
    struct kit_token t = kit_token(&kit);
    struct kernel_command c = kit_command(KERNEL_VERB_TOUCH);
    c.lease = t.lease;
    c.epoch = t.epoch;
    c.rights = 0;
    assert_int_equal(kit_run(&kit, &c), TN_R_DENIED);
    c.user = kit_text("bob");
    assert_int_equal(kit_run(&kit, &c), TN_R_DENIED);
    c.user = kit_text("alice");
    assert_int_equal(kit_run(&kit, &c), TN_R_OK);
    c.user = kit_text("bob");
    c.rights = KERNEL_RIGHT_OPERATOR;
    assert_int_equal(kit_run(&kit, &c), TN_R_OK);
    struct kernel_command revoke = kit_command(KERNEL_VERB_REVOKE);
    revoke.lease = t.lease;
    revoke.rights = 0;
    revoke.user = kit_text("alice");
    assert_int_equal(kit_run(&kit, &revoke), TN_R_DENIED);
    kit_close(&kit);
}

/* ---- bounded work ---- */

static void expiry_is_swept_in_bounded_steps_and_says_so(void **state) {
    (void)state;
    struct kit kit;
    kit_open(&kit, NULL);
    kit_pool(&kit, "p", "lo=1 hi=20 lease=10 grace=0");
    kit_pool(&kit, "busy", "lo=1 hi=20 lease=10 cooldown=100");
    for (int i = 0; i < 20; i++) {
        kit_alloc(&kit, "h", "p:1", 0);
        kit_alloc(&kit, "h", "busy:1", 0);
    }
    kit.now_ms += 10000;
    assert_int_equal(kit_alloc(&kit, "n", "p:1", 0), TN_R_OK); /* a step of 4 frees enough */
    assert_int_equal(kit.events[KERNEL_EVENT_LEASE_EXPIRED], 4);
    assert_int_equal(kit_alloc(&kit, "n", "busy:1", 0), TN_R_EXHAUSTED);
    assert_int_equal(kit.result.retry_at_ms, kit.now_ms); /* more is due: at once */
    assert_int_equal(kit_tick(&kit), TN_R_OK);
    assert_int_equal(kit.result.number, 16);
    assert_int_equal(kernel_next_due(kit.kernel) <= kit.now_ms, true);
    kit_tick(&kit);
    assert_int_equal(kit.result.number, 16);
    kit_tick(&kit);
    assert_int_equal(kit.result.number, 0);
    assert_int_equal(kit_sweep(&kit, "busy"), TN_R_OK);
    kit_close(&kit);
}

static void renewals_move_no_timer_until_it_comes_due(void **state) {
    (void)state;
    struct kit kit;
    kit_open(&kit, NULL);
    kit_pool(&kit, "p", "lo=1 hi=20 lease=10");
    kit_alloc(&kit, "h", "p:1", 0);
    struct kit_token t = kit_token(&kit);
    uint64_t first = kernel_next_due(kit.kernel);
    for (int i = 0; i < 9; i++) {
        kit.now_ms += 1000;
        assert_int_equal(kit_touch(&kit, t, 0), TN_R_OK);
        assert_int_equal(kernel_next_due(kit.kernel), first);
    }
    kit.now_ms = first;
    kit_tick(&kit);
    assert_int_equal(kit_state(&kit, t), KERNEL_ACTIVE);
    assert_int_equal(kernel_next_due(kit.kernel), first + 9000);
    kit.now_ms = first + 9000;
    kit_tick(&kit);
    assert_int_equal(kit_state(&kit, t), KERNEL_EXPIRED);
    kit_close(&kit);
}

static void disown_lets_everything_go_in_steps(void **state) {
    (void)state;
    struct kit kit;
    kit_open(&kit, NULL);
    kit_pool(&kit, "p", "lo=1 hi=99");
    kit_pool(&kit, "ids", "lo=1 hi=99 sticky=1");
    for (int i = 0; i < 40; i++) {
        kit_alloc(&kit, "h", "p:1", 0);
    }
    struct kit_token revoked = kit_token(&kit);
    kit_revoke(&kit, revoked, -1);
    kit_alloc(&kit, "h", "ids", 0);
    struct kit_token sticky = kit_token(&kit);
    assert_int_equal(kit_disown(&kit, "h", "ids"), TN_R_OK);
    assert_int_equal(kit.result.number, 1);
    assert_int_equal(kit_state(&kit, sticky), KERNEL_RELEASED); /* never offline */
    /* The first disown is still examining the other leases. */
    assert_int_equal(kit_disown(&kit, "h", NULL), TN_R_BUSY);
    kit_tick(&kit);
    kit_tick(&kit);
    assert_int_equal(kit_disown(&kit, "h", NULL), TN_R_OK);
    assert_int_equal(kit.result.number, 15); /* a step of 16, one of them revoking */
    assert_int_equal(kit_alloc(&kit, "h", "p:1", 0), TN_R_BUSY);
    assert_int_equal(kit_alloc(&kit, "other", "p:1", 0), TN_R_OK);
    struct kit_token other = kit_token(&kit);
    assert_int_equal(kit_rekey(&kit, other, "h"), TN_R_BUSY);
    assert_int_equal(kit_disown(&kit, "h", NULL), TN_R_BUSY);
    kit_tick(&kit);
    kit_tick(&kit);
    assert_int_equal(kit.events[KERNEL_EVENT_HOLDER_DISOWNED], 1);
    assert_int_equal(kit_state(&kit, revoked), KERNEL_REVOKING);
    assert_int_equal(kit_alloc(&kit, "h", "p:1", 0), TN_R_OK);
    assert_int_equal(kit_disown(&kit, "nobody", NULL), TN_R_NOOP);
    kit_close(&kit);
}

/* ---- demand ---- */

static enum tn_result rule_set(struct kit *kit, const char *id, const char *trigger, bool on) {
    struct kernel_command c = kit_command(KERNEL_VERB_RULE_SET);
    c.name = kit_text(id);
    c.trigger = kit_text(trigger);
    c.enabled = on;
    return kit_run(kit, &c);
}

static bool wanted(const struct kit *kit, const char *ref) {
    struct kernel_sensor_view view;
    assert_int_equal(kernel_sensor_read(kit->kernel, kit_text(ref), &view), TN_R_OK);
    return view.wanted;
}

static void a_sensor_is_wanted_while_an_enabled_rule_needs_it(void **state) {
    (void)state;
    struct kit kit;
    kit_open(&kit, NULL);
    struct kernel_command sensor = kit_command(KERNEL_VERB_SENSOR_SET);
    sensor.name = kit_text("timer");
    sensor.trigger = kit_text("core.timer");
    sensor.enabled = true;
    sensor.spec = kit_text("{\"exec\":[\"/bin/true\"]}");
    assert_int_equal(kit_run(&kit, &sensor), TN_R_OK);
    assert_false(wanted(&kit, "timer"));
    assert_int_equal(rule_set(&kit, "r1", "core.timer", true), TN_R_OK);
    assert_int_equal(kit.events[KERNEL_EVENT_DEMAND_CHANGED], 1);
    assert_true(wanted(&kit, "timer"));
    assert_int_equal(rule_set(&kit, "r2", "core.timer", true), TN_R_OK);
    assert_int_equal(kit.events[KERNEL_EVENT_DEMAND_CHANGED], 0);
    assert_int_equal(rule_set(&kit, "r1", "core.timer", false), TN_R_OK);
    assert_int_equal(rule_set(&kit, "r1", "core.timer", false), TN_R_NOOP);
    assert_true(wanted(&kit, "timer"));
    assert_int_equal(rule_set(&kit, "r2", "core.other", true), TN_R_OK);
    assert_int_equal(kit.events[KERNEL_EVENT_DEMAND_CHANGED], 2);
    assert_false(wanted(&kit, "timer"));
    struct kernel_command gone = kit_command(KERNEL_VERB_RULE_DELETE);
    gone.name = kit_text("r2");
    assert_int_equal(kit_run(&kit, &gone), TN_R_OK);
    assert_int_equal(kit_run(&kit, &gone), TN_R_NOTFOUND);
    assert_int_equal(kernel_trigger_rules(kit.kernel, kit_text("core.other")), 0);
    struct kernel_command drop = kit_command(KERNEL_VERB_SENSOR_DELETE);
    drop.name = kit_text("timer");
    assert_int_equal(kit_run(&kit, &drop), TN_R_OK);
    kit_close(&kit);
}

/* ---- the same again ---- */

/* A busy little world: everything that changes state, in one sequence. */
static void busy_run(struct kit *kit, unsigned steps, uint64_t seed) {
    struct tn_prng random;
    static struct kit_token tokens[64];
    tn_prng_seed(&random, seed);
    kit_pool(kit, "p", "lo=1 hi=40 lease=20 cooldown=3 strategy=1");
    kit_pool(kit, "c", "lo=1 hi=20 strategy=3 grace=5 lease=15");
    kit_pool(kit, "ids", "lo=1 hi=60 sticky=1 lease=100 rate_window_seconds=30");
    kit_pool(kit, "t", "lo=1 hi=9 scoped=1 strategy=2");
    kit_pool(kit, "g", "kind=1 strategy=3");
    kit_add(kit, "g", "a b c d e f");
    for (unsigned i = 0; i < steps; i++) {
        static const char *const claims[] = {"p:1", "c:2 p:1", "ids", "t@a:1", "t@b:2", "g:1"};
        char holder[8];
        unsigned who = (unsigned)tn_prng_below(&random, 12);
        struct kit_token *t = &tokens[tn_prng_below(&random, 64)];
        snprintf(holder, sizeof holder, "h%u", who);
        kit->now_ms += tn_prng_below(&random, 900);
        switch (tn_prng_below(&random, 8)) {
        case 0:
        case 1:
        case 2:
            if (kit_alloc(kit, holder, claims[tn_prng_below(&random, 6)], 0) == TN_R_OK) {
                *t = kit_token(kit);
            }
            break;
        case 3:
            kit_touch(kit, *t, 0);
            break;
        case 4:
            kit_release(kit, *t, holder, tn_prng_below(&random, 2));
            break;
        case 5:
            kit_revoke(kit, *t, (int64_t)tn_prng_below(&random, 20) - 5);
            break;
        case 6:
            kit_reclaim(kit, *t);
            break;
        default:
            if (tn_prng_below(&random, 8) == 0) {
                kit_disown(kit, holder, NULL);
            } else {
                kit_tick(kit);
            }
        }
    }
}

static void replay_gives_the_same_state_at_every_step(void **state) {
    (void)state;
    struct kit kit, again;
    kit_open(&kit, NULL);
    kit.check_every = 10;
    busy_run(&kit, 1500, 5);
    kit_open(&again, NULL);
    again.check_every = 0;
    kit_replay(&kit, &again, 0, kit.entry_count);
    assert_int_equal(kernel_hash(kit.kernel), kernel_hash(again.kernel));
    assert_int_equal(kit.event_hash, again.event_hash);
    kit_close(&again);
    kit_close(&kit);
}

static void a_snapshot_and_the_rest_give_the_same_state_at_every_cut(void **state) {
    (void)state;
    struct kit kit, upto, clone;
    kit_open(&kit, NULL);
    kit.check_every = 0;
    busy_run(&kit, 600, 6);
    for (uint32_t cut = 0; cut <= kit.entry_count; cut += 7) {
        kit_open(&upto, NULL);
        upto.check_every = 0;
        kit_replay(&kit, &upto, 0, cut);
        kit_clone(&upto, &clone);
        clone.check_every = 0;
        kit_check(&clone);
        assert_int_equal(kernel_hash(clone.kernel), kernel_hash(upto.kernel));
        kit_replay(&kit, &clone, cut, kit.entry_count);
        assert_int_equal(kernel_hash(kit.kernel), kernel_hash(clone.kernel));
        assert_int_equal(kit.event_hash, clone.event_hash);
        kit_close(&clone);
        kit_close(&upto);
    }
    kit_close(&kit);
}

/* An image that is taken while commands continue: it shows the moment at which it began. */
struct slow_image {
    struct kit *target;
    struct tn_table_header headers[KERNEL_TABLES_MAX];
};

static void slow_save(void *ctx, const struct tn_table_chunk *chunk) {
    struct slow_image *image = ctx;
    size_t len = (size_t)chunk->count * image->headers[chunk->table_id].record_bytes;
    assert_true(kernel_load_chunk(image->target->kernel, chunk, len));
}

static void an_image_taken_during_writes_shows_its_own_moment(void **state) {
    (void)state;
    for (uint64_t seed = 1; seed <= 20; seed++) {
        struct kit kit, target;
        kit_open(&kit, NULL);
        kit.check_every = 0;
        busy_run(&kit, 300, seed);
        uint64_t before = kernel_hash(kit.kernel);
        kit_open(&target, NULL);
        struct slow_image image = {.target = &target};
        uint32_t count;
        kernel_image_begin(kit.kernel, slow_save, &image, image.headers, &count);
        for (uint32_t i = 0; i < count; i++) {
            assert_true(kernel_load_header(target.kernel, &image.headers[i]));
        }
        struct tn_prng random;
        tn_prng_seed(&random, seed);
        do {
            for (uint64_t n = tn_prng_below(&random, 6); n > 0; n--) {
                kit.now_ms += 500;
                kit_alloc(&kit, "during", n & 1 ? "p:1" : "ids:1", 0);
                kit_tick(&kit);
            }
        } while (kernel_image_step(kit.kernel, 1));
        assert_true(kernel_load_end(target.kernel));
        kit_check(&target);
        assert_int_equal(kernel_hash(target.kernel), before);
        kit_close(&target);
        kit_close(&kit);
    }
}

static void limits_change_without_losing_anything(void **state) {
    (void)state;
    struct kit kit;
    kit_open(&kit, NULL);
    busy_run(&kit, 400, 9);
    struct kernel_usage before, after;
    kernel_usage_read(kit.kernel, &before);
    struct kernel_command c = kit_command(KERNEL_VERB_LIMITS);
    c.limits = kit_limits();
    c.limits.of[KERNEL_LIMIT_LEASES] = 5000;
    c.limits.of[KERNEL_LIMIT_MEMBERS] = 6000;
    assert_int_equal(kernel_limits_prepare(kit.kernel, &c.limits), TN_OK);
    assert_int_equal(kit_run(&kit, &c), TN_R_OK);
    kernel_usage_read(kit.kernel, &after);
    assert_int_equal(before.leases, after.leases);
    assert_int_equal(before.text_chunks, after.text_chunks);
    struct kernel_limits small = c.limits;
    small.of[KERNEL_LIMIT_LEASES] = 1;
    small.of[KERNEL_LIMIT_HISTORY] = 1;
    uint64_t hash = kernel_hash(kit.kernel);
    assert_int_equal(kernel_limits_prepare(kit.kernel, &small), TN_INVALID);
    assert_int_equal(kernel_hash(kit.kernel), hash);
    busy_run(&kit, 200, 10);
    kit_close(&kit);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_short_request_for_four_thousand_million_members_is_refused),
        cmocka_unit_test(any_bytes_at_all_are_a_command_or_malformed),
        cmocka_unit_test(every_table_refuses_by_name_when_it_is_full),
        cmocka_unit_test(the_lease_table_is_full_at_its_limit_and_not_before),
        cmocka_unit_test(names_that_do_not_fit_are_refused),
        cmocka_unit_test(large_times_do_not_overflow),
        cmocka_unit_test(the_same_id_and_command_get_the_first_answer_again),
        cmocka_unit_test(a_refusal_is_remembered_too),
        cmocka_unit_test(a_full_table_refuses_new_ids_and_answers_old_ones),
        cmocka_unit_test(a_lease_obeys_its_own_user_or_an_operator),
        cmocka_unit_test(expiry_is_swept_in_bounded_steps_and_says_so),
        cmocka_unit_test(renewals_move_no_timer_until_it_comes_due),
        cmocka_unit_test(disown_lets_everything_go_in_steps),
        cmocka_unit_test(a_sensor_is_wanted_while_an_enabled_rule_needs_it),
        cmocka_unit_test(replay_gives_the_same_state_at_every_step),
        cmocka_unit_test(a_snapshot_and_the_rest_give_the_same_state_at_every_cut),
        cmocka_unit_test(an_image_taken_during_writes_shows_its_own_moment),
        cmocka_unit_test(limits_change_without_losing_anything),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
