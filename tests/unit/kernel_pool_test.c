/* Pools: which value is given, which is not, and what may change about a pool in use. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
/* cmocka wants the headers above first */
#include <cmocka.h>
#include <stdio.h>
#include <string.h>

#include "lib/kit.h"

static uint64_t given(struct kit *kit, const char *holder, const char *claims) {
    assert_int_equal(kit_alloc(kit, holder, claims, 0), TN_R_OK);
    return kit->result.values[0].number;
}

static struct kernel_pool_view pool_view(const struct kit *kit, const char *name) {
    struct kernel_pool_view view;
    assert_int_equal(kernel_pool_read(kit->kernel, kit_text(name), kit->now_ms, &view), TN_R_OK);
    return view;
}

static void lowest_gives_the_lowest_free_value(void **state) {
    (void)state;
    struct kit kit;
    kit_open(&kit, NULL);
    kit_pool(&kit, "p", "lo=10 hi=20");
    assert_int_equal(given(&kit, "a", "p:1"), 10);
    struct kit_token first = kit_token(&kit);
    assert_int_equal(given(&kit, "b", "p:1"), 11);
    kit_release(&kit, first, "a", true);
    assert_int_equal(given(&kit, "c", "p:1"), 10);
    assert_int_equal(given(&kit, "d", "p:1"), 12);
    kit_close(&kit);
}

static void next_goes_round(void **state) {
    (void)state;
    struct kit kit;
    kit_open(&kit, NULL);
    kit_pool(&kit, "p", "lo=1 hi=3 strategy=2");
    for (uint64_t round = 0; round < 9; round++) {
        assert_int_equal(given(&kit, "a", "p:1"), 1 + round % 3);
        kit_release(&kit, kit_token(&kit), "a", true);
    }
    assert_int_equal(kit_alloc(&kit, "a", "p:4", 0), TN_R_TOO_LARGE);
    assert_int_equal(kit.result.number, 3);
    assert_int_equal(kit_alloc(&kit, "b", "p=3", 0), TN_R_OK);
    assert_int_equal(kit_alloc(&kit, "a", "p:3", 0), TN_R_EXHAUSTED);
    assert_int_equal(kit_alloc(&kit, "a", "p:1 p=2 p:2", 0), TN_R_TOO_LARGE);
    assert_int_equal(kit.result.number, 3);
    assert_int_equal(kit_alloc(&kit, "a", "p:1 p=2 p:1", 0), TN_R_EXHAUSTED);
    assert_int_equal(kit_alloc(&kit, "a", "p=9 p:3", 0),
                     TN_R_BAD_VALUE);             /* the value is not in the pool */
    assert_int_equal(given(&kit, "a", "p:1"), 1); /* a refusal turns no rotor */
    kit_close(&kit);
}

static void coldest_gives_fresh_values_first_then_the_one_freed_longest_ago(void **state) {
    (void)state;
    struct kit kit;
    kit_open(&kit, NULL);
    kit_pool(&kit, "p", "lo=1 hi=4 strategy=3");
    struct kit_token t[5];
    for (uint64_t i = 1; i <= 3; i++) {
        assert_int_equal(given(&kit, "a", "p:1"), i);
        t[i] = kit_token(&kit);
    }
    kit_release(&kit, t[2], "a", true);
    kit_release(&kit, t[1], "a", true);
    kit_release(&kit, t[3], "a", true);
    assert_int_equal(given(&kit, "a", "p:1"), 4);
    assert_int_equal(given(&kit, "a", "p:1"), 2);
    assert_int_equal(given(&kit, "a", "p=3"), 3); /* by name, out of the middle of the memory */
    assert_int_equal(kit_alloc(&kit, "a", "p:2", 0), TN_R_EXHAUSTED);
    assert_int_equal(given(&kit, "a", "p:1"), 1);
    assert_int_equal(kit_alloc(&kit, "a", "p:1", 0), TN_R_EXHAUSTED);
    kit_close(&kit);
}

static void coldest_in_a_set_remembers_and_forgets_when_altered(void **state) {
    (void)state;
    struct kit kit;
    kit_open(&kit, NULL);
    kit_pool(&kit, "gpu", "kind=1 strategy=3");
    kit_add(&kit, "gpu", "a b c");
    assert_int_equal(kit_alloc(&kit, "h", "gpu:1", 0), TN_R_OK);
    assert_memory_equal(kit.result.values[0].name, "a", 1);
    kit_release(&kit, kit_token(&kit), "h", true);
    assert_int_equal(kit_alloc(&kit, "h", "gpu:1", 0), TN_R_OK);
    assert_memory_equal(kit.result.values[0].name, "b", 1);
    assert_int_equal(kit_alter(&kit, "gpu", "strategy=0"), TN_R_OK);
    assert_int_equal(kit_alloc(&kit, "h", "gpu:1", 0), TN_R_OK);
    assert_memory_equal(kit.result.values[0].name, "a", 1);
    kit_close(&kit);
}

static void random_gives_every_value_once_and_all_of_them(void **state) {
    (void)state;
    struct kit kit;
    kit_open(&kit, NULL);
    kit_pool(&kit, "p", "lo=100 hi=355 strategy=1");
    bool seen[256] = {0};
    unsigned in_order = 0;
    for (unsigned i = 0; i < 256; i++) {
        uint64_t value = given(&kit, "a", "p:1") - 100;
        assert_true(value < 256 && !seen[value]);
        seen[value] = true;
        in_order += value == i;
    }
    assert_true(in_order < 64);
    assert_int_equal(kit_alloc(&kit, "a", "p:1", 0), TN_R_EXHAUSTED);
    kit_close(&kit);
}

static void the_whole_of_64_bits_is_a_range(void **state) {
    (void)state;
    struct kit kit;
    kit_open(&kit, NULL);
    kit_pool(&kit, "all", "lo=0 hi=18446744073709551615");
    assert_int_equal(given(&kit, "a", "all=18446744073709551615"), UINT64_MAX);
    assert_int_equal(given(&kit, "a", "all:1"), 0);
    kit_pool(&kit, "top", "lo=18446744073709551614 hi=18446744073709551615 strategy=2");
    assert_int_equal(given(&kit, "a", "top:1"), UINT64_MAX - 1);
    assert_int_equal(given(&kit, "a", "top:1"), UINT64_MAX);
    assert_int_equal(kit_alloc(&kit, "a", "top:1", 0), TN_R_EXHAUSTED);
    assert_int_equal(pool_view(&kit, "all").size, UINT64_MAX);
    kit_close(&kit);
}

static void excluded_values_are_never_any_and_need_rights_by_name(void **state) {
    (void)state;
    struct kit kit;
    kit_open(&kit, NULL);
    kit_pool(&kit, "p", "lo=1 hi=10 exclude=4-9 exclude=1-2");
    assert_int_equal(given(&kit, "a", "p:1"), 3);
    assert_int_equal(given(&kit, "a", "p:1"), 10);
    assert_int_equal(kit_alloc(&kit, "a", "p:1", 0), TN_R_EXHAUSTED);
    uint8_t bytes[64];
    struct tn_writer w = tn_writer_of(bytes, sizeof bytes);
    kernel_claim_write(&w, kit_text("p"), false, 1);
    kernel_requested_write_number(&w, 5);
    struct kernel_command c = kit_command(KERNEL_VERB_ALLOC);
    c.rights = 0;
    c.holder = kit_text("a");
    c.claims = tn_bytes_of(bytes, w.len);
    c.claim_count = 1;
    assert_int_equal(kit_run(&kit, &c), TN_R_DENIED);
    c.rights = KERNEL_RIGHT_OPERATOR;
    assert_int_equal(kit_run(&kit, &c), TN_R_OK);
    assert_int_equal(kit_pool(&kit, "bad", "lo=1 hi=10 exclude=1-5 exclude=5-6"), TN_R_BAD_POLICY);
    kit_close(&kit);
}

static void a_range_may_have_gaps(void **state) {
    (void)state;
    static const struct {
        const char *strategy;
        uint64_t want[6];
    } rows[] = {
        {"0", {1, 2, 10, 11, 20, 0}}, /* lowest */
        {"2", {1, 2, 10, 11, 20, 0}}, /* next */
        {"3", {1, 2, 10, 11, 20, 0}}, /* coldest */
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct kit kit;
        char options[96];
        (void)snprintf(options, sizeof options,
                       "range=20-20 range=1-2 range=10-14 exclude=12-16 strategy=%s",
                       rows[i].strategy);
        kit_open(&kit, NULL);
        assert_int_equal(kit_pool(&kit, "p", options), TN_R_OK);
        struct kernel_pool_view view = pool_view(&kit, "p");
        assert_true(view.size == 5 && view.free == 5 && view.excluded == 3);
        for (size_t v = 0; rows[i].want[v] != 0; v++) {
            assert_int_equal(given(&kit, "a", "p:1"), rows[i].want[v]);
        }
        assert_int_equal(kit_alloc(&kit, "a", "p:1", 0), TN_R_EXHAUSTED);
        assert_int_equal(kit_alloc(&kit, "a", "p:6", 0), TN_R_TOO_LARGE);
        assert_int_equal(kit_alloc(&kit, "a", "p=5", 0), TN_R_BAD_VALUE);
        assert_int_equal(pool_view(&kit, "p").free, 0);
        kit_close(&kit);
    }
}

static void random_gives_no_value_in_a_gap(void **state) {
    (void)state;
    struct kit kit;
    kit_open(&kit, NULL);
    kit_pool(&kit, "p", "range=1-20 range=1000000-1000019 range=99-99 strategy=1");
    unsigned seen = 0;
    for (; seen < 41; seen++) {
        uint64_t value = given(&kit, "a", "p:1");
        assert_true((value >= 1 && value <= 20) || value == 99 ||
                    (value >= 1000000 && value <= 1000019));
    }
    assert_int_equal(kit_alloc(&kit, "a", "p:1", 0), TN_R_EXHAUSTED);
    kit_close(&kit);
}

static void spans_that_touch_are_one_and_spans_in_use_stay(void **state) {
    (void)state;
    struct kit kit;
    kit_open(&kit, NULL);
    kit_pool(&kit, "p", "range=5-9 range=1-4");
    assert_int_equal(kit_pool(&kit, "p", "lo=1 hi=9"), TN_R_NOOP);
    assert_int_equal(kit_alter(&kit, "p", "lo=2"), TN_R_OK);
    assert_int_equal(kit_alter(&kit, "p", "range=2-4 range=8-9"), TN_R_OK);
    assert_int_equal(kit_alter(&kit, "p", "hi=10"), TN_R_BAD_POLICY); /* of which span? */
    given(&kit, "a", "p=8");
    assert_int_equal(kit_alter(&kit, "p", "range=2-4"), TN_R_POOL_IN_USE);
    assert_int_equal(kit_alter(&kit, "p", "range=2-4 range=9-9"), TN_R_POOL_IN_USE);
    assert_int_equal(kit_alter(&kit, "p", "range=8-8 range=100-100"), TN_R_OK);
    assert_int_equal(given(&kit, "a", "p:1"), 100);
    assert_int_equal(kit_alter(&kit, "p", "range=8-8 range=100-100000000"), TN_R_OK);
    assert_int_equal(kit_alter(&kit, "p", "range=8-8 range=100-100"), TN_R_TOO_LARGE);
    kit_close(&kit);
}

static void a_bundle_is_whole_or_not_at_all(void **state) {
    (void)state;
    struct kit kit;
    kit_open(&kit, NULL);
    kit_pool(&kit, "ports", "lo=1 hi=3");
    kit_pool(&kit, "mac", "lo=90520691736576 hi=90525003415551 format=2 strategy=1");
    kit_pool(&kit, "gpu", "kind=1");
    kit_add(&kit, "gpu", "gpu-7 gpu-8");
    assert_int_equal(kit_alloc(&kit, "a", "ports:2 mac:1 gpu=gpu-7", 0), TN_R_OK);
    assert_int_equal(kit.result.value_count, 4);
    assert_int_equal(kit.result.values[3].claim, 2);
    struct kit_token t = kit_token(&kit);
    assert_int_equal(kit_alloc(&kit, "b", "ports:1 gpu=gpu-7", 0), TN_R_BUSY);
    assert_int_equal(kit_alloc(&kit, "b", "ports:2 gpu=gpu-8", 0), TN_R_EXHAUSTED);
    assert_int_equal(kit_alloc(&kit, "b", "gpu=gpu-8,gpu-8", 0), TN_R_BAD_VALUE);
    assert_int_equal(kit_alloc(&kit, "b", "ports=3 ports=3", 0), TN_R_BAD_VALUE);
    assert_int_equal(pool_view(&kit, "ports").active, 2);
    assert_int_equal(pool_view(&kit, "gpu").active, 1);
    assert_int_equal(kit_alloc(&kit, "b", "ports:1 gpu=gpu-8", 0), TN_R_OK);
    assert_int_equal(kit_release(&kit, t, "a", true), TN_R_OK);
    assert_int_equal(pool_view(&kit, "ports").active, 1);
    assert_int_equal(pool_view(&kit, "mac").active, 0);
    kit_close(&kit);
}

/* An allocation does what time has done to its pools, in at most sweep_step steps. Bundles come after
 * the pools' own leases, and get the last step too. */
static void the_last_step_of_an_allocation_may_free_a_bundle(void **state) {
    (void)state;
    for (uint64_t steps = 1; steps <= 4; steps++) {
        struct kit kit;
        struct kernel_limits limits = kit_limits();
        char claim[16];
        limits.of[KERNEL_LIMIT_SWEEP_STEP] = steps;
        kit_open(&kit, &limits);
        kit_pool(&kit, "p", "lo=1 hi=4");
        kit_pool(&kit, "other", "lo=1 hi=4");
        for (uint64_t i = 1; i < steps; i++) {
            assert_int_equal(kit_alloc(&kit, "single", "p:1", 10), TN_R_OK);
        }
        assert_int_equal(kit_alloc(&kit, "bundle", "p:1 other:1", 10), TN_R_OK);
        while (kit_alloc(&kit, "stays", "p:1", 0) == TN_R_OK) {
        }
        kit.now_ms += 10000;
        snprintf(claim, sizeof claim, "p:%llu", (unsigned long long)steps);
        assert_int_equal(kit_alloc(&kit, "next", claim, 0), TN_R_OK);
        kit_close(&kit);
    }
}

static void values_asked_for_are_never_taken_by_any_of_the_same_request(void **state) {
    (void)state;
    struct kit kit;
    kit_open(&kit, NULL);
    kit_pool(&kit, "p", "lo=1 hi=3");
    assert_int_equal(kit_alloc(&kit, "a", "p:2 p=1", 0), TN_R_OK);
    assert_int_equal(kit.result.values[0].number, 2);
    assert_int_equal(kit.result.values[1].number, 3);
    assert_int_equal(kit.result.values[2].number, 1);
    kit_close(&kit);
}

static void the_strictest_policy_of_a_bundle_counts(void **state) {
    (void)state;
    struct kit kit;
    kit_open(&kit, NULL);
    kit_pool(&kit, "a", "lo=1 hi=9 lease=100 max_lease=500 grace=5 reserve_ttl_max=50");
    kit_pool(&kit, "b", "lo=1 hi=9 lease=60 grace=20");
    kit_pool(&kit, "c", "lo=1 hi=9");
    assert_int_equal(kit_alloc(&kit, "h", "a:1 b:1 c:1", 0), TN_R_OK);
    struct kit_token t = kit_token(&kit);
    assert_int_equal(kit.result.deadline_ms, kit.now_ms + 60000);
    assert_int_equal(kit_alloc(&kit, "h", "a:1 b:1 c:1", 501), TN_R_BAD_TTL);
    assert_int_equal(kit_reserve(&kit, "h", "a:1 c:1", 51), TN_R_BAD_TTL);
    kit.now_ms += 60000;
    kit_tick(&kit);
    assert_int_equal(kit_state(&kit, t), KERNEL_REVOKING);
    kit.now_ms += 19999;
    kit_tick(&kit);
    assert_int_equal(kit_state(&kit, t), KERNEL_REVOKING);
    kit.now_ms += 1;
    kit_tick(&kit);
    assert_int_equal(kit_state(&kit, t), KERNEL_EXPIRED);
    kit_close(&kit);
}

static void a_cooling_value_rests_and_the_refusal_says_how_long(void **state) {
    (void)state;
    struct kit kit;
    kit_open(&kit, NULL);
    kit_pool(&kit, "p", "lo=1 hi=1 cooldown=30");
    given(&kit, "a", "p:1");
    kit_release(&kit, kit_token(&kit), "a", true);
    assert_int_equal(pool_view(&kit, "p").cooling, 1);
    assert_int_equal(kit_alloc(&kit, "b", "p:1", 0), TN_R_EXHAUSTED);
    assert_int_equal(kit.result.retry_at_ms, kit.now_ms + 30000);
    assert_int_equal(kit_alloc(&kit, "b", "p=1", 0), TN_R_BUSY);
    kit.now_ms += 29999;
    assert_int_equal(kit_alloc(&kit, "b", "p=1", 0), TN_R_BUSY);
    kit.now_ms += 1;
    assert_int_equal(kit_alloc(&kit, "b", "p=1", 0), TN_R_OK);
    kit_close(&kit);
}

static void a_quota_counts_every_live_state_of_one_holder(void **state) {
    (void)state;
    struct kit kit;
    kit_open(&kit, NULL);
    kit_pool(&kit, "p", "lo=1 hi=9 max_per_holder=3");
    assert_int_equal(kit_reserve(&kit, "h", "p:1", 60), TN_R_OK);
    assert_int_equal(kit_alloc(&kit, "h", "p:1 p:1", 0), TN_R_OK);
    struct kit_token t = kit_token(&kit);
    assert_int_equal(kit_alloc(&kit, "h", "p:1", 0), TN_R_QUOTA);
    assert_int_equal(kit.result.number, 3);
    kit_revoke(&kit, t, -1);
    assert_int_equal(kit_alloc(&kit, "h", "p:1", 0), TN_R_QUOTA);
    kit_reclaim(&kit, t);
    assert_int_equal(kit_alloc(&kit, "h", "p:2", 0), TN_R_OK);
    assert_int_equal(kit_alloc(&kit, "other", "p:3", 0), TN_R_OK);
    struct kit_token u = kit_token(&kit);
    assert_int_equal(kit_rekey(&kit, u, "h"), TN_R_QUOTA);
    assert_int_equal(kit_rekey(&kit, u, "third"), TN_R_OK);
    assert_int_equal(kit_alter(&kit, "p", "max_per_holder=0"), TN_R_OK);
    assert_int_equal(kit_alter(&kit, "p", "max_per_holder=5"), TN_R_OK);
    assert_int_equal(kit_alloc(&kit, "third", "p:3", 0), TN_R_QUOTA);
    kit_close(&kit);
}

static void scopes_are_made_by_use_and_go_when_empty(void **state) {
    (void)state;
    struct kit kit;
    kit_open(&kit, NULL);
    kit_pool(&kit, "console", "lo=30000 hi=30001 scoped=1");
    assert_int_equal(kit_alloc(&kit, "a", "console:1", 0), TN_R_BAD_REQUEST);
    assert_int_equal(given(&kit, "a", "console@node7:1"), 30000);
    struct kit_token t = kit_token(&kit);
    assert_int_equal(given(&kit, "a", "console@node8:1"), 30000);
    assert_int_equal(pool_view(&kit, "console").scopes, 2);
    assert_int_equal(kit_alter(&kit, "console", "hi=30000"), TN_R_POOL_IN_USE);
    assert_int_equal(kit_alter(&kit, "console", "hi=30005 cooldown=10"), TN_R_OK);
    assert_int_equal(kit_alloc(&kit, "a", "console@node7:5", 0), TN_R_OK);
    struct kit_token u = kit_token(&kit);
    assert_int_equal(kit_drop(&kit, "console"), TN_R_POOL_IN_USE);
    kit_release(&kit, t, "a", true);
    kit_release(&kit, u, "a", true);
    assert_int_equal(pool_view(&kit, "console@node7").cooling, 6);
    kit.now_ms += 10000;
    kit_tick(&kit);
    struct kernel_pool_view gone;
    assert_int_equal(kernel_pool_read(kit.kernel, kit_text("console@node7"), 0, &gone),
                     TN_R_POOL_NOTFOUND);
    assert_int_equal(pool_view(&kit, "console").scopes, 1);
    assert_int_equal(kit_alloc(&kit, "a", "console@x:7", 0), TN_R_TOO_LARGE);
    assert_int_equal(pool_view(&kit, "console").scopes, 1); /* a refusal leaves no scope behind */
    assert_int_equal(kit_alloc(&kit, "a", "nothing@x:1", 0), TN_R_POOL_NOTFOUND);
    kit_close(&kit);
}

static void many_scopes_come_and_go_through_a_small_table(void **state) {
    (void)state;
    struct kit kit;
    kit_open(&kit, NULL);
    kit_pool(&kit, "t", "lo=1 hi=9 scoped=1");
    for (int i = 0; i < 500; i++) {
        char claim[64];
        snprintf(claim, sizeof claim, "t@n%d:1", i);
        assert_int_equal(kit_alloc(&kit, "a", claim, 0), TN_R_OK);
        assert_int_equal(kit_release(&kit, kit_token(&kit), "a", true), TN_R_OK);
    }
    assert_int_equal(kit_drop(&kit, "t"), TN_R_OK);
    kit.now_ms += 4000000;
    for (int i = 0; i < 40; i++) {
        kit_tick(&kit);
    }
    struct kernel_usage usage;
    kernel_usage_read(kit.kernel, &usage);
    assert_int_equal(usage.pools, 0);
    assert_int_equal(usage.text_chunks, 0);
    kit_close(&kit);
}

static void a_range_in_use_shrinks_only_over_free_values(void **state) {
    (void)state;
    struct kit kit;
    kit_open(&kit, NULL);
    kit_pool(&kit, "p", "lo=1 hi=1000");
    given(&kit, "a", "p=500");
    assert_int_equal(kit_alter(&kit, "p", "hi=499"), TN_R_POOL_IN_USE);
    assert_int_equal(kit_alter(&kit, "p", "lo=501"), TN_R_POOL_IN_USE);
    assert_int_equal(kit_alter(&kit, "p", "lo=500 hi=500"), TN_R_OK);
    assert_int_equal(kit_alloc(&kit, "a", "p:1", 0), TN_R_EXHAUSTED);
    assert_int_equal(kit_alter(&kit, "p", "lo=499 hi=18446744073709551615"), TN_R_OK);
    assert_int_equal(given(&kit, "a", "p:1"), 499);
    assert_int_equal(kit_alter(&kit, "p", "hi=1000"), TN_R_TOO_LARGE);
    assert_int_equal(kit_alter(&kit, "p", "lo=499"), TN_R_NOOP);
    assert_int_equal(kit_drop(&kit, "p"), TN_R_POOL_IN_USE);
    kit_close(&kit);
}

static void a_set_gains_and_loses_resources(void **state) {
    (void)state;
    struct kit kit;
    kit_open(&kit, NULL);
    kit_pool(&kit, "gpu", "kind=1");
    assert_int_equal(kit_add(&kit, "gpu", "a b a"), TN_R_OK);
    assert_int_equal(kit.result.number, 2);
    assert_int_equal(kit_add(&kit, "gpu", "a b"), TN_R_NOOP);
    assert_int_equal(kit_add(&kit, "gpu", "x/y"), TN_R_BAD_NAME);
    assert_int_equal(kit_alloc(&kit, "h", "gpu=a", 0), TN_R_OK);
    struct kit_token t = kit_token(&kit);
    assert_int_equal(kit_alloc(&kit, "h", "gpu=z", 0), TN_R_BAD_VALUE);
    assert_int_equal(kit_remove(&kit, "gpu", "b a"), TN_R_POOL_IN_USE);
    assert_int_equal(pool_view(&kit, "gpu").size, 2);
    kit_release(&kit, t, "h", true);
    assert_int_equal(kit_remove(&kit, "gpu", "a nothing"), TN_R_OK);
    assert_int_equal(kit.result.number, 1);
    struct kernel_lease_view view;
    struct kernel_value value;
    assert_int_equal(kernel_lease_read(kit.kernel, t.lease, &view), TN_R_OK);
    assert_int_equal(kernel_lease_values(kit.kernel, &view, 0, &value, 1), 1);
    assert_int_equal(value.name_len, 1); /* history still has its name */
    assert_int_equal(kit_add(&kit, "gpu", "a"), TN_R_OK);
    assert_int_equal(kit_alloc(&kit, "h", "gpu:2", 0), TN_R_OK);
    assert_memory_equal(kit.result.values[0].name, "b", 1); /* in order of adding */
    kit_close(&kit);
}

static void a_dropped_set_lets_its_resources_go_in_steps(void **state) {
    (void)state;
    struct kit kit;
    kit_open(&kit, NULL);
    kit_pool(&kit, "gpu", "kind=1");
    for (int i = 0; i < 100; i++) {
        char name[16];
        snprintf(name, sizeof name, "g%d", i);
        kit_add(&kit, "gpu", name);
    }
    assert_int_equal(kit_drop(&kit, "gpu"), TN_R_OK);
    assert_int_equal(kit_pool(&kit, "gpu", "kind=1"), TN_R_OK);
    assert_int_equal(kit_add(&kit, "gpu", "g1"), TN_R_OK);
    assert_int_equal(kernel_next_due(kit.kernel), kit.now_ms);
    for (int i = 0; i < 10; i++) {
        kit_tick(&kit);
    }
    assert_true(kernel_next_due(kit.kernel) == UINT64_MAX);
    struct kernel_usage usage;
    kernel_usage_read(kit.kernel, &usage);
    assert_int_equal(usage.resources, 1);
    kit_close(&kit);
}

static void policies_that_make_no_sense_are_refused(void **state) {
    (void)state;
    struct kit kit;
    kit_open(&kit, NULL);
    static const char *const bad[] = {
        "lo=5 hi=4",
        "range=1-5 range=5-6",
        "range=1-5 range=9-8",
        "kind=1 range=1-2 range=5-6",
        "lo=0 hi=4294967296 format=3",
        "lo=0 hi=281474976710656 format=2",
        "lo=1 hi=9 sticky=1 lease=0",
        "lo=1 hi=9 sticky=1 lease=10 min_lease_seconds=11",
        "lo=1 hi=9 sticky=1 high_rate_threshold_per_hour=200000000",
        "lo=1 hi=9 sticky=1 rate_window_seconds=0",
        "lo=1 hi=9 sticky=1 rate_window_seconds=9000",
        "lo=1 hi=9 sticky=1 high_rate_min_factor=1000001",
        "lo=1 hi=9 lease=10 max_lease=9",
        "kind=1 scoped=1",
        "kind=1 exclude=1-2",
        "lo=1 hi=9 strategy=4",
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        if (kit_pool(&kit, "p", bad[i]) != TN_R_BAD_POLICY) {
            fail_msg("'%s' was not refused", bad[i]);
        }
    }
    assert_int_equal(kit_pool(&kit, "", "lo=1 hi=9"), TN_R_BAD_NAME);
    assert_int_equal(kit_pool(&kit, "a b", "lo=1 hi=9"), TN_R_BAD_NAME);
    assert_int_equal(kit_pool(&kit, "a@b@c", "lo=1 hi=9"), TN_R_BAD_NAME);
    assert_int_equal(kit_pool(&kit, "a@b", "lo=1 hi=9"), TN_R_POOL_NOTFOUND);
    assert_int_equal(kit_pool(&kit, "p", "lo=1 hi=9"), TN_R_OK);
    assert_int_equal(kit_pool(&kit, "p", "lo=1 hi=9"), TN_R_NOOP);
    assert_int_equal(kit_pool(&kit, "p", "lo=1 hi=8"), TN_R_EXISTS);
    kit_close(&kit);
}

static void values_read_and_write_in_their_format(void **state) {
    (void)state;
    char text[KERNEL_VALUE_TEXT_MAX];
    uint64_t number;
    kernel_value_format(KERNEL_MAC, 0x525400abcdef, text);
    assert_string_equal(text, "52:54:00:ab:cd:ef");
    assert_true(kernel_value_parse(KERNEL_MAC, kit_text("52:54:00:AB:cd:ef"), &number));
    assert_int_equal(number, 0x525400abcdef);
    kernel_value_format(KERNEL_DEC, UINT64_MAX, text);
    assert_string_equal(text, "18446744073709551615");
    assert_true(kernel_value_parse(KERNEL_DEC, kit_text(text), &number) && number == UINT64_MAX);
    assert_true(kernel_value_parse(KERNEL_HEX, kit_text("0xFF"), &number) && number == 255);
    kernel_value_format(KERNEL_IPV4, 0x0a0000ff, text);
    assert_string_equal(text, "10.0.0.255");
    assert_true(kernel_value_parse(KERNEL_IPV4, kit_text("255.255.255.255"), &number));
    assert_int_equal(number, UINT32_MAX);
    static const char *const addresses[] = {"",          "10.0.0",   "10.0.0.256", "10.0.0.01",
                                            "10.0.0.1.", "10..0.1",  "10.0.0.1/8", "10",
                                            "1.2.3.4.5", "1.2.3.-4", "a.b.c.d",    "1.2.3.0004"};
    for (size_t i = 0; i < sizeof addresses / sizeof addresses[0]; i++) {
        assert_false(kernel_value_parse(KERNEL_IPV4, kit_text(addresses[i]), &number));
    }
    static const char *const wrong[] = {"", "-1", "+1", " 1", "1 ", "18446744073709551616", "0x1"};
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        assert_false(kernel_value_parse(KERNEL_DEC, kit_text(wrong[i]), &number));
    }
    assert_false(kernel_value_parse(KERNEL_MAC, kit_text("52:54:00:ab:cd:e"), &number));
    assert_false(kernel_value_parse(KERNEL_MAC, kit_text("52-54-00-ab-cd-ef"), &number));
}

static void freed_values_are_never_lost(void **state) {
    (void)state;
    struct kit kit;
    struct kernel_limits limits = kit_limits();
    limits.of[KERNEL_LIMIT_LEASES] = 2000;
    limits.of[KERNEL_LIMIT_MEMBERS] = 2000;
    kit_open(&kit, &limits);
    kit.check_every = 200;
    kit_pool(&kit, "ids", "lo=1 hi=1000");
    static struct kit_token t[1001];
    for (int round = 0; round < 2; round++) {
        for (uint64_t i = 1; i <= 1000; i++) {
            assert_int_equal(given(&kit, "d", "ids:1"), i);
            t[i] = kit_token(&kit);
        }
        assert_int_equal(kit_alloc(&kit, "d", "ids:1", 0), TN_R_EXHAUSTED);
        for (uint64_t i = 1; i <= 1000; i++) {
            assert_int_equal(kit_release(&kit, t[i], "d", true), TN_R_OK);
        }
    }
    assert_int_equal(pool_view(&kit, "ids").ever_used_free, 1000);
    kit_close(&kit);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lowest_gives_the_lowest_free_value),
        cmocka_unit_test(next_goes_round),
        cmocka_unit_test(coldest_gives_fresh_values_first_then_the_one_freed_longest_ago),
        cmocka_unit_test(coldest_in_a_set_remembers_and_forgets_when_altered),
        cmocka_unit_test(random_gives_every_value_once_and_all_of_them),
        cmocka_unit_test(the_whole_of_64_bits_is_a_range),
        cmocka_unit_test(excluded_values_are_never_any_and_need_rights_by_name),
        cmocka_unit_test(a_range_may_have_gaps),
        cmocka_unit_test(random_gives_no_value_in_a_gap),
        cmocka_unit_test(spans_that_touch_are_one_and_spans_in_use_stay),
        cmocka_unit_test(a_bundle_is_whole_or_not_at_all),
        cmocka_unit_test(the_last_step_of_an_allocation_may_free_a_bundle),
        cmocka_unit_test(values_asked_for_are_never_taken_by_any_of_the_same_request),
        cmocka_unit_test(the_strictest_policy_of_a_bundle_counts),
        cmocka_unit_test(a_cooling_value_rests_and_the_refusal_says_how_long),
        cmocka_unit_test(a_quota_counts_every_live_state_of_one_holder),
        cmocka_unit_test(scopes_are_made_by_use_and_go_when_empty),
        cmocka_unit_test(many_scopes_come_and_go_through_a_small_table),
        cmocka_unit_test(a_range_in_use_shrinks_only_over_free_values),
        cmocka_unit_test(a_set_gains_and_loses_resources),
        cmocka_unit_test(a_dropped_set_lets_its_resources_go_in_steps),
        cmocka_unit_test(policies_that_make_no_sense_are_refused),
        cmocka_unit_test(values_read_and_write_in_their_format),
        cmocka_unit_test(freed_values_are_never_lost),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
