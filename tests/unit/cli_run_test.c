/* Until when a lease is surely held: server deadlines in local time, never later than the truth; and when it
 * is renewed. */
#include "unit/unit.h"

#include "base/prng.h"
#include "cli/run_lease.h"
#include "cli/run_times.h"

#define TTL_MS 30000u

static struct cli_run_lease lease_make(uint64_t max_hold_ms) {
    return (struct cli_run_lease){.ttl_ms = TTL_MS, .max_hold_ms = max_hold_ms};
}

static void the_ttl_counts_from_before_the_request(void **state) {
    struct cli_run_lease lease = lease_make(0);
    (void)state;
    cli_run_lease_granted(&lease, 1000, 1900, 500000 + TTL_MS);
    assert_int_equal(lease.deadline_ms, 1000 + TTL_MS);
    assert_int_equal(cli_run_lease_local(&lease, 500000), 1000);
    assert_int_equal(cli_run_lease_local(&lease, 500700), 1700);
    assert_int_equal(cli_run_lease_local(&lease, 499500), 500);
    assert_int_equal(cli_run_lease_local(&lease, 1), 0);
    /* A slow answer does not shorten the next renewal. */
    cli_run_lease_granted(&lease, 11000, 11001, 509100 + TTL_MS);
    assert_int_equal(lease.deadline_ms, 11000 + TTL_MS);
}

static void a_ttl_that_is_cut_short_ends_when_the_server_says(void **state) {
    struct cli_run_lease lease = lease_make(45000);
    (void)state;
    cli_run_lease_granted(&lease, 1000, 1002, 500000 + TTL_MS);
    cli_run_lease_granted(&lease, 11000, 11002, 510000 + TTL_MS);
    assert_int_equal(lease.deadline_ms, 11000 + TTL_MS);
    for (uint64_t at = 21000; at < 46000; at += 5000) { /* max_hold: until 545000 */
        cli_run_lease_granted(&lease, at, at + 2, 545000);
        assert_int_equal(lease.deadline_ms, 46000);
    }
    /* The same if the pool has got its max_hold only now. */
    lease = lease_make(0);
    cli_run_lease_granted(&lease, 1000, 1002, 500000 + TTL_MS);
    cli_run_lease_granted(&lease, 11000, 11002, 520000);
    assert_int_equal(lease.deadline_ms, 21000);
}

/* The server's clock is `offset` ahead; every request takes some time there and some time back. */
static void no_deadline_is_later_than_the_truth(void **state) {
    struct tn_prng prng;
    (void)state;
    tn_prng_seed(&prng, 14);
    for (int round = 0; round < 2000; round++) {
        uint64_t offset = 1 + tn_prng_below(&prng, 1000000);
        uint64_t end =
            tn_prng_below(&prng, 2) == 0 ? UINT64_MAX : 40000 + tn_prng_below(&prng, 90000);
        uint64_t now = 1000;
        uint64_t first =
            now + tn_prng_below(&prng, 3000); /* when the server receives the first request */
        struct cli_run_lease lease = lease_make(end != UINT64_MAX ? end - first : 0);
        for (int renewal = 0; renewal < 12 && now < end; renewal++) {
            uint64_t sent = now;
            uint64_t there = renewal == 0 ? first : sent + tn_prng_below(&prng, 3000);
            uint64_t back = there + tn_prng_below(&prng, 3000);
            uint64_t full = there + TTL_MS;
            uint64_t truth = full < end || renewal == 0 ? full : end;
            cli_run_lease_granted(&lease, sent, back, truth + offset);
            assert_true(lease.deadline_ms <= truth);
            assert_true(cli_run_lease_local(&lease, there + 5000 + offset) <= there + 5000);
            now = back + tn_prng_below(&prng, 10000);
        }
    }
}

/* After a wait, which may be any length, the pool may have another max_hold than before it. The clocks of
 * before the wait would hide that it cuts the ttl short. */
static void no_deadline_after_a_wait_is_later_than_the_truth(void **state) {
    struct tn_prng prng;
    (void)state;
    tn_prng_seed(&prng, 15);
    for (int round = 0; round < 2000; round++) {
        uint64_t offset = 1 + tn_prng_below(&prng, 1000000);
        uint64_t granted = 1000 + tn_prng_below(&prng, 200000);
        bool limited = tn_prng_below(&prng, 2) == 0;
        uint64_t end = limited ? granted + 10000 + tn_prng_below(&prng, 60000) : UINT64_MAX / 2;
        uint64_t now = granted + tn_prng_below(&prng, 3000);
        struct cli_run_lease lease = lease_make(tn_prng_below(&prng, 2) * 90000);
        uint64_t truth = granted + TTL_MS < end ? granted + TTL_MS : end;
        cli_run_lease_granted(&lease, 1000, now, truth + offset); /* asked for at 1000 */
        lease.max_hold_ms = limited ? end - granted : 0;
        for (int renewal = 0; renewal < 12 && now < end; renewal++) {
            uint64_t sent = now;
            uint64_t there = sent + tn_prng_below(&prng, 3000);
            uint64_t back = there + tn_prng_below(&prng, 3000);
            truth = there + TTL_MS < end ? there + TTL_MS : end;
            if (renewal == 0) {
                struct cli_run_lease_times times = {.created_ms = granted + offset,
                                                    .seen_ms = there + offset,
                                                    .deadline_ms = truth + offset};
                cli_run_lease_confirmed(&lease, sent, back, &times);
                assert_true(lease.deadline_ms + 3000 > truth);
            } else {
                cli_run_lease_granted(&lease, sent, back, truth + offset);
            }
            assert_true(lease.deadline_ms <= truth);
            now = back + tn_prng_below(&prng, 10000);
        }
    }
}

static void times_check(uint64_t ttl_ms, uint64_t kill_after_ms) {
    struct cli_run_times times = cli_run_times_of(ttl_ms, kill_after_ms);
    uint64_t second = times.renew_ms + times.attempt_ms + CLI_RUN_PAUSE_MS;
    assert_int_equal(times.term_ms + times.kill_after_ms + times.margin_ms, ttl_ms);
    assert_true(times.margin_ms >= (ttl_ms < 2000 ? ttl_ms / 4 : 500));
    assert_true(second + times.attempt_ms <= times.term_ms);
    assert_true(times.attempt_ms >= ttl_ms / 12 || times.attempt_ms >= 500);
    assert_true(times.renew_ms >= ttl_ms / 10 && times.renew_ms <= ttl_ms / 3);
    if (kill_after_ms != CLI_RUN_KILL_AFTER_DEFAULT) {
        assert_int_equal(times.kill_after_ms, kill_after_ms);
    }
}

/* All that --ttl and --kill-after can be, and a ttl of a second, which a pool can demand. */
static void a_renewal_without_an_answer_leaves_time_for_another(void **state) {
    (void)state;
    for (uint64_t ttl_ms = 1000; ttl_ms <= 1000000000000;
         ttl_ms += ttl_ms < 90000 ? 1000 : ttl_ms) {
        uint64_t most = cli_run_kill_after_most(ttl_ms);
        times_check(ttl_ms, CLI_RUN_KILL_AFTER_DEFAULT);
        for (uint64_t part = 0; part <= 1000; part++) {
            times_check(ttl_ms, most * part / 1000);
        }
        assert_int_equal(cli_run_times_of(ttl_ms, most + 1).kill_after_ms, most);
    }
}

static void with_time_to_spare_a_lease_is_renewed_at_a_third(void **state) {
    (void)state;
    for (uint64_t ttl_ms = 60000; ttl_ms <= 3600000; ttl_ms += 1000) {
        struct cli_run_times times = cli_run_times_of(ttl_ms, CLI_RUN_KILL_AFTER_DEFAULT);
        assert_int_equal(times.renew_ms, ttl_ms / 3);
        assert_int_equal(times.attempt_ms, ttl_ms / 6);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_ttl_counts_from_before_the_request),
        cmocka_unit_test(a_ttl_that_is_cut_short_ends_when_the_server_says),
        cmocka_unit_test(no_deadline_is_later_than_the_truth),
        cmocka_unit_test(no_deadline_after_a_wait_is_later_than_the_truth),
        cmocka_unit_test(a_renewal_without_an_answer_leaves_time_for_another),
        cmocka_unit_test(with_time_to_spare_a_lease_is_renewed_at_a_third),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
