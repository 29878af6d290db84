/* Leases that were granted elsewhere, taken over with their own times or refused; a pool's past. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
/* cmocka wants the headers above first */
#include <cmocka.h>

#include "lib/kit.h"

#define T0 1700000000000ull

struct import {
    const char *pool, *holder;
    uint64_t value;
    uint64_t deadline_ms, created_ms, seen_ms, offline_ms;
};

static enum tn_result import(struct kit *kit, struct import what) {
    uint8_t claims[128];
    struct tn_writer w = tn_writer_of(claims, sizeof claims);
    kernel_claim_write(&w, kit_text(what.pool), false, 1);
    kernel_requested_write_number(&w, what.value);
    struct kernel_command c = kit_command(KERNEL_VERB_IMPORT);
    c.fields |= KERNEL_F_HOLDER | KERNEL_F_CLAIMS;
    c.fields |= what.deadline_ms != 0 ? KERNEL_F_DEADLINE : 0u;
    c.fields |= (what.created_ms | what.seen_ms | what.offline_ms) != 0 ? KERNEL_F_TIMES : 0u;
    c.holder = kit_text(what.holder);
    c.claims = tn_bytes_of(claims, w.len);
    c.claim_count = 1;
    c.deadline_ms = what.deadline_ms;
    c.created_ms = what.created_ms;
    c.seen_ms = what.seen_ms;
    c.offline_ms = what.offline_ms;
    return kit_run(kit, &c);
}

static enum tn_result seed(struct kit *kit, const char *pool, uint64_t given, uint64_t reclaimed) {
    struct kernel_command c = kit_command(KERNEL_VERB_POOL_SEED);
    c.fields |= KERNEL_F_POOL | KERNEL_F_FIGURES;
    c.pool = kit_text(pool);
    c.given_values = given;
    c.reclaimed = reclaimed;
    return kit_run(kit, &c);
}

static struct kernel_lease_view view_of(const struct kit *kit) {
    struct kernel_lease_view view;
    assert_int_equal(kernel_lease_read(kit->kernel, kit->result.lease, &view), TN_R_OK);
    return view;
}

static struct kernel_pool_view pool_of(const struct kit *kit, const char *pool) {
    struct kernel_pool_view view;
    assert_int_equal(kernel_pool_read(kit->kernel, kit_text(pool), kit->now_ms, &view), TN_R_OK);
    return view;
}

static void world_open(struct kit *kit, const char *pool, const char *options) {
    kit_open(kit, NULL);
    kit->now_ms = T0;
    assert_int_equal(kit_pool(kit, pool, options), TN_R_OK);
}

static void what_was_given_elsewhere_keeps_its_times(void **state) {
    (void)state;
    struct kit kit;
    world_open(&kit, "ids", "sticky=1 lease=100");
    assert_int_equal(import(&kit, (struct import){"ids", "mac:AA", 7, T0 + 5000, T0 - 90000,
                                                  T0 - 60000, T0 - 50000}),
                     TN_R_OK);
    struct kernel_lease_view view = view_of(&kit);
    assert_int_equal(view.state, KERNEL_OFFLINE);
    assert_int_equal(view.reason, KERNEL_REASON_IMPORTED);
    assert_int_equal(view.created_ms, T0 - 90000);
    assert_int_equal(view.last_seen_ms, T0 - 60000);
    assert_int_equal(view.offline_since_ms, T0 - 50000);
    assert_int_equal(view.deadline_ms, T0 + 5000);
    assert_int_equal(kit.events[KERNEL_EVENT_LEASE_OFFLINE], 1);
    assert_int_equal(pool_of(&kit, "ids").rate_micro, 0); /* an import is no new device */

    /* Its device comes back and gets it. */
    kit.now_ms += 1000;
    assert_int_equal(kit_alloc(&kit, "mac:AA", "ids", 0), TN_R_OK);
    assert_int_equal(kit.result.values[0].number, 7);
    view = view_of(&kit);
    assert_int_equal(view.offline_since_ms, 0);
    assert_int_equal(view.created_ms, T0 - 90000);
    assert_int_equal(view.deadline_ms, kit.now_ms + 100000);
    kit_close(&kit);
}

static void what_has_no_end_is_imported_at_the_end_of_time(void **state) {
    (void)state;
    struct kit kit;
    world_open(&kit, "vx", "lo=1 hi=100");
    kit.now_ms = KERNEL_TIME_MAX;
    struct import row = {.pool = "vx", .holder = "net/1", .value = 5};
    assert_int_equal(import(&kit, row), TN_R_OK);
    assert_int_equal(kit.result.deadline_ms, 0);
    assert_int_equal(import(&kit, row), TN_R_NOOP);
    kit_close(&kit);
}

static void an_import_that_is_repeated_changes_nothing(void **state) {
    (void)state;
    struct kit kit;
    world_open(&kit, "vx", "lo=1 hi=100");
    struct import row = {.pool = "vx", .holder = "net/1", .value = 5};
    assert_int_equal(import(&kit, row), TN_R_OK);
    uint64_t lsn = kit.result.lease.lsn;
    assert_int_equal(import(&kit, row), TN_R_NOOP);
    assert_int_equal(kit.result.lease.lsn, lsn);
    assert_int_equal(kit.result.values[0].number, 5);
    assert_int_equal(kit.event_count, 0);
    row.holder = "net/2";
    assert_int_equal(import(&kit, row), TN_R_BUSY);
    row.value = 101;
    assert_int_equal(import(&kit, row), TN_R_BAD_VALUE);
    assert_int_equal(pool_of(&kit, "vx").active, 1);
    kit_close(&kit);
}

static void a_sticky_holder_is_imported_once(void **state) {
    (void)state;
    struct kit kit;
    world_open(&kit, "ids", "sticky=1 lease=100");
    struct import row = {.pool = "ids", .holder = "mac:AA", .value = 7};
    assert_int_equal(import(&kit, row), TN_R_OK);
    assert_int_equal(import(&kit, row), TN_R_NOOP);
    row.value = 8;
    assert_int_equal(import(&kit, row), TN_R_CONFLICT);
    kit_close(&kit);
}

static void times_are_taken_as_they_are_or_refused(void **state) {
    (void)state;
    struct kit kit;
    static const struct {
        struct import row;
        enum tn_result want;
        uint64_t cap;
    } cases[] = {
        {{"plain", "a", 1, .deadline_ms = T0}, TN_R_BAD_TTL, 0},
        {{"plain", "a", 1, .deadline_ms = T0 - 1}, TN_R_BAD_TTL, 0},
        {{"plain", "a", 1, .deadline_ms = KERNEL_TIME_MAX + 1ull}, TN_R_BAD_TTL, 0},
        {{"plain", "a", 1, .created_ms = T0 + 1}, TN_R_BAD_REQUEST, 0},
        {{"plain", "a", 1, .created_ms = T0 - 5, .seen_ms = T0 - 6}, TN_R_BAD_REQUEST, 0},
        {{"plain", "a", 1, .offline_ms = T0 - 5}, TN_R_BAD_REQUEST, 0}, /* not a sticky pool */
        {{"held", "a", 1, .deadline_ms = T0 + 50001, .created_ms = T0 - 10000}, TN_R_BAD_TTL, 60},
        {{"held", "a", 1, .deadline_ms = T0 + 50000, .created_ms = T0 - 10000}, TN_R_OK, 0},
        {{"held", "b", 2, .created_ms = T0 - 60000}, TN_R_BAD_TTL, 60},
        {{"held", "c", 3, .deadline_ms = T0 + 40001}, TN_R_OK, 0},
        {{"capped", "a", 1, .deadline_ms = T0 + 30001}, TN_R_BAD_TTL, 30},
        {{"capped", "a", 1, .deadline_ms = T0 + 30000}, TN_R_OK, 0},
        {{"plain", "a", 1, .deadline_ms = T0 + 1}, TN_R_OK, 0},
        {{"plain", "b", 2, .seen_ms = T0 - 5}, TN_R_OK, 0}, /* made then, as far as is known */
    };
    kit_open(&kit, NULL);
    kit.now_ms = T0;
    assert_int_equal(kit_pool(&kit, "plain", "lo=1 hi=9"), TN_R_OK);
    assert_int_equal(kit_pool(&kit, "held", "lo=1 hi=9 max_hold=60"), TN_R_OK);
    assert_int_equal(kit_pool(&kit, "capped", "lo=1 hi=9 max_lease=30"), TN_R_OK);
    for (unsigned i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        assert_int_equal(import(&kit, cases[i].row), cases[i].want);
        if (cases[i].want == TN_R_BAD_TTL) {
            assert_int_equal(kit.result.number, cases[i].cap);
        } else if (cases[i].want == TN_R_OK) {
            assert_int_equal(kit.result.deadline_ms, cases[i].row.deadline_ms);
        }
    }
    kit_close(&kit);
}

static void only_an_operator_imports(void **state) {
    (void)state;
    struct kit kit;
    world_open(&kit, "vx", "lo=1 hi=100 exclude=10-20");
    assert_int_equal(import(&kit, (struct import){.pool = "vx", .holder = "a", .value = 15}),
                     TN_R_OK);
    struct kernel_command c = kit_command(KERNEL_VERB_POOL_SEED);
    c.rights = 0;
    c.fields |= KERNEL_F_POOL | KERNEL_F_FIGURES;
    c.pool = kit_text("vx");
    assert_int_equal(kit_run(&kit, &c), TN_R_DENIED);
    kit_close(&kit);
}

static void a_pools_past_is_what_it_is_told_and_never_less(void **state) {
    (void)state;
    struct kit kit;
    world_open(&kit, "ids", "sticky=1 lease=100 lo=1 hi=50");
    assert_int_equal(import(&kit, (struct import){.pool = "ids", .holder = "a", .value = 3}),
                     TN_R_OK);
    assert_int_equal(seed(&kit, "ids", 11, 4), TN_R_OK);
    struct kernel_pool_view view = pool_of(&kit, "ids");
    assert_int_equal(view.ever_used_free, 10);
    assert_int_equal(view.counters.reclaimed, 4);
    assert_int_equal(seed(&kit, "ids", 10, 4), TN_R_NOOP);
    assert_int_equal(seed(&kit, "ids", 51, 0), TN_R_BAD_VALUE);
    assert_int_equal(kit.result.number, 50);
    assert_int_equal(seed(&kit, "none", 1, 0), TN_R_POOL_NOTFOUND);
    kit_close(&kit);
}

static void imports_are_the_same_after_a_replay(void **state) {
    (void)state;
    struct kit kit, again, clone;
    world_open(&kit, "ids", "sticky=1 lease=100");
    for (uint64_t i = 0; i < 20; i++) {
        char holder[] = {'d', (char)('a' + (int)i), '\0'};
        assert_int_equal(import(&kit, (struct import){"ids", holder, 1 + 3 * i, T0 + 1000 + i,
                                                      T0 - 9000, T0 - 8000, i % 2 ? T0 - 500 : 0}),
                         TN_R_OK);
    }
    kit_clone(&kit, &clone);
    kit_open(&again, NULL);
    kit_replay(&kit, &again, 0, kit.entry_count);
    assert_int_equal(kernel_hash(again.kernel), kernel_hash(kit.kernel));
    assert_int_equal(kernel_hash(clone.kernel), kernel_hash(kit.kernel));
    kit_close(&again);
    kit_close(&clone);
    kit_close(&kit);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_was_given_elsewhere_keeps_its_times),
        cmocka_unit_test(what_has_no_end_is_imported_at_the_end_of_time),
        cmocka_unit_test(an_import_that_is_repeated_changes_nothing),
        cmocka_unit_test(a_sticky_holder_is_imported_once),
        cmocka_unit_test(times_are_taken_as_they_are_or_refused),
        cmocka_unit_test(only_an_operator_imports),
        cmocka_unit_test(a_pools_past_is_what_it_is_told_and_never_less),
        cmocka_unit_test(imports_are_the_same_after_a_replay),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
