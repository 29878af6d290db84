/* Sticky identities, and the lease that gets shorter when many newcomers arrive. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
/* cmocka wants the headers above first */
#include <cmocka.h>
#include <stdio.h>

#include "lib/kit.h"

#define DAY_S 86400u
#define BASE_S (30 * DAY_S)

static struct kernel_pool_view pool_view(const struct kit *kit) {
    struct kernel_pool_view view;
    assert_int_equal(kernel_pool_read(kit->kernel, kit_text("ids"), kit->now_ms, &view), TN_R_OK);
    return view;
}

static void world_open(struct kit *kit, const char *options) {
    kit_open(kit, NULL);
    kit->now_ms = 1700000000000;
    assert_int_equal(kit_pool(kit, "ids", options), TN_R_OK);
}

/* `count` devices that were never seen before, over `seconds`. */
static void newcomers(struct kit *kit, unsigned count, unsigned seconds) {
    static unsigned serial;
    for (unsigned i = 0; i < count; i++) {
        char holder[32];
        snprintf(holder, sizeof holder, "serial:%u", serial++);
        assert_int_equal(kit_alloc(kit, holder, "ids", 0), TN_R_OK);
        kit->now_ms += seconds * 1000u / count;
    }
}

/* A sweep takes several steps, at several times; the metrics are of one interval. */
static void the_last_reclaim_counts_a_whole_interval(void **state) {
    (void)state;
    struct kit kit;
    world_open(&kit, "sticky=1 adaptive_enabled=0 lease=60");
    newcomers(&kit, 30, 3);
    kit.now_ms = 1700000060000;
    for (unsigned i = 0; i < 30; i++) {
        assert_int_equal(kit_tick(&kit), TN_R_OK);
        kit.now_ms += 100;
    }
    struct kernel_pool_view view = pool_view(&kit);
    assert_int_equal(view.counters.reclaimed, 30);
    assert_int_equal(view.counters.last_reclaim_count, 30);
    newcomers(&kit, 1, 1);
    kit.now_ms += 61000;
    assert_int_equal(kit_tick(&kit), TN_R_OK);
    assert_int_equal(pool_view(&kit).counters.last_reclaim_count, 1);
    kit_close(&kit);
}

static void returns_are_counted_by_how_long_they_took(void **state) {
    (void)state;
    struct kit kit;
    world_open(&kit, "sticky=1");
    assert_int_equal(kit_alloc(&kit, "mac:AA", "ids", 0), TN_R_OK);
    kit.now_ms += 5000;
    assert_int_equal(kit_alloc(&kit, "mac:AA", "ids", 0), TN_R_OK); /* the holder was not away */
    assert_int_equal(pool_view(&kit).counters.away_ms, 0);
    const uint64_t away_s[] = {60, 61, 86400, 86401};
    for (unsigned i = 0; i < 4; i++) {
        assert_int_equal(kit_release(&kit, kit_token(&kit), "mac:AA", false), TN_R_OK);
        kit.now_ms += away_s[i] * 1000;
        assert_int_equal(kit_alloc(&kit, "mac:AA", "ids", 0), TN_R_OK);
    }
    struct kernel_pool_counters counters = pool_view(&kit).counters;
    assert_int_equal(counters.away[0], 1);
    assert_int_equal(counters.away[1], 1);
    assert_int_equal(counters.away[4], 1);
    assert_int_equal(counters.away[5], 1);
    assert_int_equal(counters.away_ms, (60 + 61 + 86400 + 86401) * 1000);
    kit_close(&kit);
}

static void a_release_that_keeps_nothing_is_a_reclaim(void **state) {
    (void)state;
    struct kit kit;
    world_open(&kit, "sticky=1");
    assert_int_equal(kit_alloc(&kit, "mac:AA", "ids", 0), TN_R_OK);
    struct kit_token t = kit_token(&kit);
    assert_int_equal(kit_release(&kit, t, "mac:AA", true), TN_R_OK);
    assert_int_equal(pool_view(&kit).counters.reclaimed, 1);
    kit_close(&kit);
}

static void the_lease_zero_was_never_there(void **state) {
    (void)state;
    struct kit kit;
    struct kernel_lease_view view;
    world_open(&kit, "sticky=1");
    struct kernel_lease_id zero = {.lsn = 0};
    assert_int_equal(kernel_lease_read(kit.kernel, zero, &view), TN_R_NOTFOUND);
    kit_close(&kit);
}

static void a_returning_holder_gets_its_value_back(void **state) {
    (void)state;
    struct kit kit;
    world_open(&kit, "sticky=1");
    assert_int_equal(kit_alloc(&kit, "mac:AA", "ids", 0), TN_R_OK);
    struct kit_token t = kit_token(&kit);
    uint64_t value = kit.result.values[0].number;
    assert_int_equal(value, 1);
    assert_int_equal(kit.result.deadline_ms, kit.now_ms + BASE_S * 1000ull);
    assert_int_equal(kit_release(&kit, t, "mac:AA", false), TN_R_OK);
    assert_int_equal(kit.result.state, KERNEL_OFFLINE);
    assert_int_equal(kit_alloc(&kit, "mac:BB", "ids", 0), TN_R_OK);
    assert_int_equal(kit.result.values[0].number, 2);
    kit.now_ms += 1000;
    assert_int_equal(kit_alloc(&kit, "mac:AA", "ids", 0), TN_R_OK);
    assert_int_equal(kit.result.values[0].number, value);
    assert_int_equal(kit.result.lease.lsn, t.lease.lsn);
    assert_int_equal(kit.result.epoch, 3);
    assert_int_equal(kit.result.deadline_ms, kit.now_ms + BASE_S * 1000ull);
    struct kernel_pool_view view = pool_view(&kit);
    assert_int_equal(view.counters.returned, 1);
    assert_int_equal(view.rate_micro, 2000000); /* two newcomers in the hour; a return is none */
    kit_close(&kit);
}

static void asking_for_other_than_it_has_is_a_conflict(void **state) {
    (void)state;
    struct kit kit;
    world_open(&kit, "sticky=1");
    assert_int_equal(kit_alloc(&kit, "d", "ids:3", 0), TN_R_OK);
    struct kit_token t = kit_token(&kit);
    assert_int_equal(kit_alloc(&kit, "d", "ids:2", 0), TN_R_CONFLICT);
    assert_int_equal(kit.result.number, 0);
    assert_int_equal(kit_alloc(&kit, "d", "ids=9", 0), TN_R_CONFLICT);
    assert_int_equal(kit_alloc(&kit, "d", "ids=1,2", 0), TN_R_CONFLICT);
    assert_int_equal(kit_alloc(&kit, "d", "ids=3,2,1", 0), TN_R_OK);
    assert_int_equal(kit_alloc(&kit, "d", "ids:3", 0), TN_R_OK);
    assert_int_equal(kit_alloc(&kit, "d", "ids", 0), TN_R_OK);
    assert_int_equal(kit.result.value_count, 3);
    assert_int_equal(kit_touch(&kit, t, 0), TN_R_STALE); /* each return gave a new epoch */
    assert_int_equal(kit_reserve(&kit, "e", "ids:1", 9), TN_R_BAD_REQUEST);
    kit_pool(&kit, "other", "lo=1 hi=9");
    assert_int_equal(kit_alloc(&kit, "e", "ids:1 other:1", 0), TN_R_BAD_REQUEST);
    kit_close(&kit);
}

static void the_effective_lease_follows_the_rate(void **state) {
    (void)state;
    struct kit kit;
    world_open(&kit, "sticky=1");
    newcomers(&kit, 60, 0);
    assert_int_equal(pool_view(&kit).effective_lease_s, BASE_S); /* at the threshold: full */
    newcomers(&kit, 60, 0);
    assert_int_equal(pool_view(&kit).rate_micro, 120000000);
    assert_int_equal(pool_view(&kit).effective_lease_s, 15 * DAY_S);
    newcomers(&kit, 59, 0);
    assert_int_equal(pool_view(&kit).effective_lease_s, 868826); /* 2592000 * 60 / 179, down */
    newcomers(&kit, 121, 0);
    assert_int_equal(pool_view(&kit).effective_lease_s, BASE_S / 5); /* the floor of the factor */
    assert_true(pool_view(&kit).ultra_active);
    assert_false(pool_view(&kit).force_zero);
    kit_close(&kit);
}

static void a_release_under_a_high_rate_holds_shorter(void **state) {
    (void)state;
    struct kit kit;
    world_open(&kit, "sticky=1");
    newcomers(&kit, 119, 0);
    assert_int_equal(kit_alloc(&kit, "d", "ids", 0), TN_R_OK);
    assert_int_equal(kit_release(&kit, kit_token(&kit), "d", false), TN_R_OK);
    assert_int_equal(kit.result.deadline_ms, kit.now_ms + 15ull * DAY_S * 1000);
    kit_close(&kit);
}

static void the_rate_forgets_after_its_window(void **state) {
    (void)state;
    struct kit kit;
    world_open(&kit, "sticky=1");
    newcomers(&kit, 120, 0);
    kit.now_ms += 3600 * 1000; /* the second now - window still counts */
    kit_tick(&kit);
    assert_int_equal(pool_view(&kit).rate_micro, 120000000);
    kit.now_ms += 1000;
    kit_tick(&kit);
    assert_int_equal(pool_view(&kit).rate_micro, 0);
    assert_int_equal(pool_view(&kit).effective_lease_s, BASE_S);
    kit_close(&kit);
}

static void a_sustained_ultra_rate_frees_offline_leases_at_once(void **state) {
    (void)state;
    struct kit kit;
    world_open(&kit, "sticky=1");
    assert_int_equal(kit_alloc(&kit, "old", "ids", 0), TN_R_OK);
    struct kit_token old = kit_token(&kit);
    kit_release(&kit, old, "old", false);
    assert_int_equal(kit_alloc(&kit, "on", "ids", 0), TN_R_OK);
    struct kit_token on = kit_token(&kit);
    newcomers(&kit, 180, 0);
    assert_int_equal(kernel_next_due(kit.kernel), kit.now_ms + 600000);
    kit.now_ms += 599999;
    kit_tick(&kit);
    assert_int_equal(kit_state(&kit, old), KERNEL_OFFLINE);
    kit.now_ms += 1;
    kit_tick(&kit);
    assert_int_equal(kit_state(&kit, old), KERNEL_EXPIRED);
    assert_int_equal(kit.events[KERNEL_EVENT_LEASE_EXPIRED], 1);
    assert_int_equal(kit_state(&kit, on), KERNEL_ACTIVE);
    assert_int_equal(pool_view(&kit).effective_lease_s, 0);
    assert_true(pool_view(&kit).force_zero);
    assert_int_equal(kit_release(&kit, on, "on", false), TN_R_OK);
    assert_int_equal(kit.result.state, KERNEL_RELEASED); /* effective lease 0: free at once */
    kit_close(&kit);
}

static void a_break_in_the_ultra_rate_starts_the_count_again(void **state) {
    (void)state;
    struct kit kit;
    world_open(&kit, "sticky=1 rate_window_seconds=60 ultra_rate_sustain_seconds=100"
                     " high_rate_threshold_per_hour=60000000");
    newcomers(&kit, 3, 0); /* 3 in 60 s are 180 an hour */
    assert_true(pool_view(&kit).ultra_active);
    kit.now_ms += 61000; /* no command sees the rate fall, yet it fell */
    newcomers(&kit, 3, 0);
    kit.now_ms += 45000;
    kit_tick(&kit);
    assert_true(pool_view(&kit).ultra_active);
    assert_false(pool_view(&kit).force_zero);
    newcomers(&kit, 3, 0);
    kit.now_ms += 54999;
    kit_tick(&kit);
    assert_false(pool_view(&kit).force_zero);
    kit.now_ms += 1;
    kit_tick(&kit);
    assert_true(pool_view(&kit).force_zero); /* 100 s after the second burst */
    kit_close(&kit);
}

static void a_returner_loses_its_offline_lease_under_force(void **state) {
    (void)state;
    struct kit kit;
    world_open(&kit, "sticky=1 ultra_rate_sustain_seconds=0 rate_window_seconds=60");
    assert_int_equal(kit_alloc(&kit, "d", "ids", 0), TN_R_OK);
    struct kit_token t = kit_token(&kit);
    kit_release(&kit, t, "d", false);
    newcomers(&kit, 2, 0); /* with its own lease, three in the window */
    assert_int_equal(kit_alloc(&kit, "d", "ids", 0), TN_R_OK);
    assert_int_not_equal(kit.result.lease.lsn, t.lease.lsn);
    assert_int_equal(kit.result.values[0].number, 1); /* freed, and the lowest again */
    kit_close(&kit);
}

static void the_rate_survives_a_snapshot(void **state) {
    (void)state;
    struct kit kit, clone;
    world_open(&kit, "sticky=1");
    newcomers(&kit, 150, 600);
    kit_clone(&kit, &clone);
    assert_int_equal(kernel_hash(kit.kernel), kernel_hash(clone.kernel));
    assert_int_equal(pool_view(&clone).rate_micro, pool_view(&kit).rate_micro);
    assert_int_equal(pool_view(&clone).effective_lease_s, pool_view(&kit).effective_lease_s);
    kit_close(&kit);
    kit_close(&clone);
}

static void refusals_do_not_count_as_newcomers(void **state) {
    (void)state;
    struct kit kit;
    world_open(&kit, "sticky=1 lo=1 hi=2");
    newcomers(&kit, 2, 0);
    for (int i = 0; i < 10; i++) {
        assert_int_equal(kit_alloc(&kit, "late", "ids", 0), TN_R_EXHAUSTED);
    }
    assert_int_equal(pool_view(&kit).rate_micro, 2000000);
    kit_close(&kit);
}

static void rekey_gives_the_identity_to_one_who_has_none(void **state) {
    (void)state;
    struct kit kit;
    world_open(&kit, "sticky=1");
    assert_int_equal(kit_alloc(&kit, "a", "ids", 0), TN_R_OK);
    struct kit_token a = kit_token(&kit);
    assert_int_equal(kit_alloc(&kit, "b", "ids", 0), TN_R_OK);
    assert_int_equal(kit_rekey(&kit, a, "b"), TN_R_CONFLICT);
    assert_int_equal(kit_rekey(&kit, a, "c"), TN_R_OK);
    assert_int_equal(kit_touch(&kit, a, 0), TN_R_STALE);
    assert_int_equal(kit_alloc(&kit, "c", "ids", 0), TN_R_OK);
    assert_int_equal(kit.result.values[0].number, 1);
    assert_int_equal(kit_alloc(&kit, "a", "ids", 0), TN_R_OK);
    assert_int_equal(kit.result.values[0].number, 3);
    kit_close(&kit);
}

static void metadata_is_kept_replaced_and_bounded(void **state) {
    (void)state;
    struct kit kit;
    world_open(&kit, "sticky=1");
    uint8_t claim[32];
    static char big[5000];
    struct tn_writer w = tn_writer_of(claim, sizeof claim);
    kernel_claim_write(&w, kit_text("ids"), true, 0);
    struct kernel_command c = kit_command(KERNEL_VERB_ALLOC);
    c.fields |= KERNEL_F_META;
    c.holder = kit_text("d");
    c.claims = tn_bytes_of(claim, w.len);
    c.claim_count = 1;
    c.meta = tn_bytes_of(big, 4097);
    assert_int_equal(kit_run(&kit, &c), TN_R_TOO_LARGE);
    c.meta = kit_text("{\"device_id\":\"d\"}");
    assert_int_equal(kit_run(&kit, &c), TN_R_OK);
    struct kit_token t = kit_token(&kit);
    struct kernel_command touch = kit_command(KERNEL_VERB_TOUCH);
    touch.lease = t.lease;
    touch.epoch = t.epoch;
    touch.fields |= KERNEL_F_META;
    touch.meta = kit_text("{\"battery\":75}");
    assert_int_equal(kit_run(&kit, &touch), TN_R_OK);
    struct kernel_lease_view view;
    char meta[64];
    kernel_lease_read(kit.kernel, t.lease, &view);
    assert_int_equal(kernel_lease_meta(kit.kernel, &view, meta, sizeof meta), 14);
    assert_memory_equal(meta, "{\"battery\":75}", 14);
    kit_close(&kit);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_last_reclaim_counts_a_whole_interval),
        cmocka_unit_test(returns_are_counted_by_how_long_they_took),
        cmocka_unit_test(a_release_that_keeps_nothing_is_a_reclaim),
        cmocka_unit_test(the_lease_zero_was_never_there),
        cmocka_unit_test(a_returning_holder_gets_its_value_back),
        cmocka_unit_test(asking_for_other_than_it_has_is_a_conflict),
        cmocka_unit_test(the_effective_lease_follows_the_rate),
        cmocka_unit_test(a_release_under_a_high_rate_holds_shorter),
        cmocka_unit_test(the_rate_forgets_after_its_window),
        cmocka_unit_test(a_sustained_ultra_rate_frees_offline_leases_at_once),
        cmocka_unit_test(a_break_in_the_ultra_rate_starts_the_count_again),
        cmocka_unit_test(a_returner_loses_its_offline_lease_under_force),
        cmocka_unit_test(the_rate_survives_a_snapshot),
        cmocka_unit_test(refusals_do_not_count_as_newcomers),
        cmocka_unit_test(rekey_gives_the_identity_to_one_who_has_none),
        cmocka_unit_test(metadata_is_kept_replaced_and_bounded),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
