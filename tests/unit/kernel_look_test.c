/* Lists of a pool's leases and values: what they cost, and that their cursors stay good. */
#include "unit.h"

#include "lib/kit.h"

#define SPARSE 40u

static void open_sparse(struct kit *kit, struct kit_token tokens[SPARSE]) {
    struct kernel_limits limits = kit_limits();
    limits.of[KERNEL_LIMIT_LEASES] = 4096;
    limits.of[KERNEL_LIMIT_MEMBERS] = 4096;
    limits.of[KERNEL_LIMIT_HISTORY] = 64;
    kit_open(kit, &limits);
    kit->check_every = 0;
    assert_int_equal(kit_pool(kit, "filler", "lo=1 hi=4000"), TN_R_OK);
    assert_int_equal(kit_pool(kit, "sparse", "lo=0 hi=18446744073709551615 strategy=1"), TN_R_OK);
    for (uint32_t i = 0; i < 3000; i++) {
        assert_int_equal(kit_alloc(kit, "other", "filler:1", 0), TN_R_OK);
        if (i % (3000 / SPARSE) == 0) {
            assert_int_equal(kit_alloc(kit, "h", "sparse:2", 0), TN_R_OK);
            tokens[i / (3000 / SPARSE)] = kit_token(kit);
        }
    }
}

static void the_leases_of_a_pool_cost_what_they_are(void **state) {
    (void)state;
    struct kit kit;
    struct kit_token tokens[SPARSE];
    struct kernel_lease_view views[64];
    struct kernel_lease_filter filter = {.pool = kit_text("sparse")};
    uint32_t count;
    open_sparse(&kit, tokens);
    /* Three thousand others are not looked at; each lease is found at the lower of its two values. */
    assert_int_equal(kernel_leases_scan(kit.kernel, &filter, 0, 6 * SPARSE, views, 64, &count), 0);
    assert_int_equal(count, SPARSE);
    kit_check(&kit);
    kit_close(&kit);
}

static void a_cursor_stays_good_whatever_ends_or_begins(void **state) {
    (void)state;
    struct kit kit;
    struct kit_token tokens[SPARSE];
    struct kernel_lease_view view;
    struct kernel_lease_filter filter = {.pool = kit_text("sparse")};
    uint32_t found[SPARSE] = {0}, count, step = 0;
    uint64_t cursor = 0;
    open_sparse(&kit, tokens);
    do {
        cursor = kernel_leases_scan(kit.kernel, &filter, cursor, 1000, &view, 1, &count);
        for (uint32_t i = 0; count > 0 && i < SPARSE; i++) {
            found[i] += kernel_lease_id_compare(view.id, tokens[i].lease) == 0;
        }
        /* The lease before the cursor is released, a new one is allocated. */
        if (count > 0 && step++ % 2 == 0) {
            struct kit_token last = {.lease = view.id, .epoch = view.epoch};
            assert_int_equal(kit_release(&kit, last, view.holder, true), TN_R_OK);
            assert_int_equal(kit_alloc(&kit, "new", "sparse:1", 0), TN_R_OK);
        }
    } while (cursor != 0);
    for (uint32_t i = 0; i < SPARSE; i++) {
        assert_int_equal(found[i], 1);
    }
    kit_check(&kit);
    kit_close(&kit);
}

static void a_bundle_is_listed_once_in_each_of_its_pools(void **state) {
    (void)state;
    struct kit kit;
    struct kernel_lease_view views[4];
    uint32_t count;
    kit_open(&kit, NULL);
    assert_int_equal(kit_pool(&kit, "a", "lo=1 hi=9"), TN_R_OK);
    assert_int_equal(kit_pool(&kit, "b", "kind=1"), TN_R_OK);
    assert_int_equal(kit_add(&kit, "b", "x y z"), TN_R_OK);
    assert_int_equal(kit_alloc(&kit, "h", "a=7,3,5 b=z,x", 0), TN_R_OK);
    static const char *const pools[] = {"a", "b"};
    for (unsigned i = 0; i < 2; i++) {
        struct kernel_lease_filter filter = {.pool = kit_text(pools[i])};
        assert_int_equal(kernel_leases_scan(kit.kernel, &filter, 0, 100, views, 4, &count), 0);
        assert_int_equal(count, 1);
    }
    kit_close(&kit);
}

#define LONG 4500u

/* All leases that the filter finds, page by page; each page must be full, but for the last. */
static uint32_t walk(const struct kit *kit, const struct kernel_lease_filter *filter) {
    struct kernel_lease_view views[64];
    uint64_t cursor = 0, last = 0;
    uint32_t count, total = 0;
    do {
        cursor = kernel_leases_scan(kit->kernel, filter, cursor, 65, views, 64, &count);
        assert_true(cursor == 0 || count == 64);
        for (uint32_t i = 0; i < count; i++) {
            assert_true(views[i].id.lsn > last); /* slots were not used twice here */
            last = views[i].id.lsn;
        }
        total += count;
    } while (cursor != 0);
    return total;
}

static void open_long(struct kit *kit, struct kit_token tokens[LONG]) {
    struct kernel_limits limits = kit_limits();
    limits.of[KERNEL_LIMIT_LEASES] = 8192;
    limits.of[KERNEL_LIMIT_MEMBERS] = 16384;
    limits.of[KERNEL_LIMIT_HISTORY] = 8192;
    kit_open(kit, &limits);
    kit->check_every = 0;
    assert_int_equal(kit_pool(kit, "p", "lo=1 hi=100000"), TN_R_OK);
    assert_int_equal(kit_pool(kit, "t", "lo=1 hi=100000 scoped=1"), TN_R_OK);
    for (uint32_t i = 0; i < 3000; i++) { /* whatever is looked for comes after these */
        char holder[16];
        (void)snprintf(holder, sizeof holder, "other%u", i % 30);
        assert_int_equal(kit_alloc(kit, holder, "p:1", 0), TN_R_OK);
    }
    for (uint32_t i = 0; i < LONG; i++) {
        static const char *const claims[] = {"p:1", "t@a:2", "t@a:1 t@b:1"};
        assert_int_equal(kit_alloc(kit, "big", claims[i % 3], 0), TN_R_OK);
        tokens[i] = kit_token(kit);
    }
}

/* A page costs what it returns, however long the list and however many leases of others there are. */
static void a_long_list_of_a_holder_is_paged_by_index(void **state) {
    (void)state;
    struct kit kit, again;
    static struct kit_token tokens[LONG];
    struct kernel_lease_filter big = {.holder = kit_text("big")};
    struct kernel_lease_filter template = {.pool = kit_text("t")};
    open_long(&kit, tokens);
    assert_int_equal(walk(&kit, &big), LONG);
    assert_int_equal(walk(&kit, &template), LONG / 3 * 2);
    kit_check(&kit);
    kit_clone(&kit, &again);
    assert_int_equal(walk(&again, &big), LONG);
    assert_int_equal(walk(&again, &template), LONG / 3 * 2);
    kit_check(&again);
    kit_close(&again);
    for (uint32_t i = 0; i < LONG; i++) { /* down to none, through all forms of the list */
        if (i % 100 == 0) {
            assert_int_equal(walk(&kit, &big), LONG - i);
            kit_check(&kit);
        }
        if (i % 7 == 0) {
            assert_int_equal(kit_rekey(&kit, tokens[i], "new"), TN_R_OK);
        } else {
            assert_int_equal(kit_release(&kit, tokens[i], "big", true), TN_R_OK);
        }
    }
    struct kernel_lease_filter fresh = {.holder = kit_text("new")};
    assert_int_equal(walk(&kit, &big), 0);
    assert_int_equal(walk(&kit, &fresh), (LONG + 6) / 7);
    kit_check(&kit);
    kit_close(&kit);
}

/* Leases that live all the time are found once, whatever ends or begins between two pages. */
static void a_cursor_of_a_long_list_stays_good(void **state) {
    (void)state;
    struct kit kit;
    static struct kit_token tokens[LONG];
    static uint32_t found[LONG], ended[LONG];
    struct kernel_lease_view views[8];
    struct kernel_lease_filter big = {.holder = kit_text("big")};
    uint64_t cursor = 0;
    uint32_t count, step = 0;
    open_long(&kit, tokens);
    do {
        cursor = kernel_leases_scan(kit.kernel, &big, cursor, 100, views, 8, &count);
        for (uint32_t i = 0; i < count; i++) {
            for (uint32_t t = 0; t < LONG; t++) {
                found[t] += kernel_lease_id_compare(views[i].id, tokens[t].lease) == 0;
            }
        }
        for (uint32_t i = 0; i < 12; i++, step++) { /* before the cursor, at it and behind it */
            uint32_t t = step * 389 % LONG;
            if (!ended[t]) {
                ended[t] = 1;
                assert_int_equal(kit_release(&kit, tokens[t], "big", true), TN_R_OK);
            }
        }
        assert_int_equal(kit_alloc(&kit, "big", "p:1", 0), TN_R_OK);
    } while (cursor != 0);
    for (uint32_t t = 0; t < LONG; t++) {
        assert_true(found[t] <= 1 && (found[t] == 1 || ended[t]));
    }
    kit_check(&kit);
    kit_close(&kit);
}

static uint32_t values(const struct kit *kit, const char *pool, struct kernel_value_view *out,
                       uint32_t capacity) {
    uint64_t cursor = 0;
    uint32_t count;
    assert_int_equal(kernel_values_scan(kit->kernel, kit_text(pool), KERNEL_VALUE_ANY, &cursor, 100,
                                        out, capacity, &count),
                     TN_R_OK);
    assert_int_equal(cursor, 0);
    return count;
}

static void free_values_are_spans(void **state) {
    (void)state;
    struct kit kit;
    struct kernel_value_view rows[8];
    kit_open(&kit, NULL);
    assert_int_equal(kit_pool(&kit, "all", "lo=0 hi=18446744073709551615"), TN_R_OK);
    assert_int_equal(values(&kit, "all", rows, 8), 1);
    assert_true(rows[0].value.number == 0 && rows[0].last == UINT64_MAX);
    assert_int_equal(rows[0].state, KERNEL_VALUE_AVAILABLE);
    assert_int_equal(kit_alloc(&kit, "h", "all=0,18446744073709551615", 30), TN_R_OK);
    assert_int_equal(values(&kit, "all", rows, 8), 3);
    assert_true(rows[1].value.number == 1 && rows[1].last == UINT64_MAX - 1);
    assert_true(rows[2].state == KERNEL_VALUE_ACTIVE && rows[2].has_lease);
    assert_int_equal(rows[2].until_ms, kit.now_ms + 30000);
    assert_int_equal(kit_pool(&kit, "cut", "lo=1 hi=9 exclude=2-3 exclude=5-20"), TN_R_OK);
    assert_int_equal(kit_alloc(&kit, "h", "cut=6", 0), TN_R_OK);
    assert_int_equal(values(&kit, "cut", rows, 8), 6); /* 1  2-3  4  5  6  7-9 */
    assert_true(rows[3].state == KERNEL_VALUE_EXCLUDED && rows[3].last == 5);
    assert_int_equal(rows[4].state, KERNEL_VALUE_ACTIVE);
    assert_true(rows[5].state == KERNEL_VALUE_EXCLUDED && rows[5].last == 9);
    kit_close(&kit);
}

static void a_free_value_knows_its_last_holder(void **state) {
    (void)state;
    struct kit kit;
    struct kernel_value_view view;
    struct kernel_requested requested = {.number = 1};
    kit_open(&kit, NULL);
    assert_int_equal(kit_pool(&kit, "p", "lo=1 hi=9 cooldown=5"), TN_R_OK);
    static const char *const holders[] = {"first", "second"};
    for (unsigned i = 0; i < 2; i++) {
        assert_int_equal(kit_alloc(&kit, holders[i], "p=1", 0), TN_R_OK);
        assert_int_equal(kit_release(&kit, kit_token(&kit), holders[i], true), TN_R_OK);
        assert_int_equal(kernel_value_read(kit.kernel, kit_text("p"), &requested, &view), TN_R_OK);
        assert_int_equal(view.state, KERNEL_VALUE_COOLING);
        assert_int_equal(view.until_ms, kit.now_ms + 5000);
        kit.now_ms += 5000;
        assert_int_equal(kit_tick(&kit), TN_R_OK);
        assert_int_equal(kernel_value_read(kit.kernel, kit_text("p"), &requested, &view), TN_R_OK);
        assert_int_equal(view.state, KERNEL_VALUE_AVAILABLE);
        assert_true(view.has_lease);
        assert_string_equal(view.lease.holder, holders[i]);
    }
    struct kit clone;
    kit_clone(&kit, &clone); /* the order of ends is rebuilt */
    assert_int_equal(kernel_value_read(clone.kernel, kit_text("p"), &requested, &view), TN_R_OK);
    assert_string_equal(view.lease.holder, "second");
    kit_close(&clone);
    kit.now_ms += kit.limits.of[KERNEL_LIMIT_HISTORY_SECONDS] * 1000;
    assert_int_equal(kit_tick(&kit), TN_R_OK);
    assert_int_equal(kernel_value_read(kit.kernel, kit_text("p"), &requested, &view), TN_R_OK);
    assert_false(view.has_lease);
    kit_close(&kit);
}

static void a_template_has_no_values_and_a_scope_has_before_its_first_use(void **state) {
    (void)state;
    struct kit kit;
    struct kernel_value_view rows[4];
    uint64_t cursor = 0;
    uint32_t count;
    kit_open(&kit, NULL);
    assert_int_equal(kit_pool(&kit, "t", "lo=1 hi=9 scoped=1"), TN_R_OK);
    assert_int_equal(kit_pool(&kit, "plain", "lo=1 hi=9"), TN_R_OK);
    static const struct {
        const char *pool;
        enum tn_result code;
    } asked[] = {{"t", TN_R_BAD_REQUEST},
                 {"t@x", TN_R_OK},
                 {"plain@x", TN_R_POOL_NOTFOUND},
                 {"t@", TN_R_POOL_NOTFOUND},
                 {"none", TN_R_POOL_NOTFOUND}};
    for (size_t i = 0; i < sizeof asked / sizeof asked[0]; i++) {
        assert_int_equal(kernel_values_scan(kit.kernel, kit_text(asked[i].pool), KERNEL_VALUE_ANY,
                                            &cursor, 9, rows, 4, &count),
                         asked[i].code);
    }
    assert_int_equal(values(&kit, "t@x", rows, 4), 1);
    assert_int_equal(kit_alloc(&kit, "h", "t@x:1", 0), TN_R_OK);
    assert_int_equal(values(&kit, "t@x", rows, 4), 2);
    assert_int_equal(values(&kit, "t@y", rows, 4), 1);
    kit_close(&kit);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_leases_of_a_pool_cost_what_they_are),
        cmocka_unit_test(a_cursor_stays_good_whatever_ends_or_begins),
        cmocka_unit_test(a_long_list_of_a_holder_is_paged_by_index),
        cmocka_unit_test(a_cursor_of_a_long_list_stays_good),
        cmocka_unit_test(a_bundle_is_listed_once_in_each_of_its_pools),
        cmocka_unit_test(free_values_are_spans),
        cmocka_unit_test(a_free_value_knows_its_last_holder),
        cmocka_unit_test(a_template_has_no_values_and_a_scope_has_before_its_first_use),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
