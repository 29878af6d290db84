/* The far ends of what may be asked: the largest numbers, the longest commands, names that are almost
 * names, questions about what is not there; and limits that change at an unlucky moment. */
#include "unit.h"

#include "kernel/state.h"
#include "lib/kit.h"

#define T0 1700000000000ull

static struct kernel_pool_view pool_view(const struct kit *kit, const char *name) {
    struct kernel_pool_view view;
    assert_int_equal(kernel_pool_read(kit->kernel, kit_text(name), kit->now_ms, &view), TN_R_OK);
    return view;
}

/* ---- commands as bytes ---- */

static uint8_t encoded[2 * KERNEL_COMMAND_MAX];

static void a_command_is_no_longer_than_it_may_be(void **state) {
    (void)state;
    static uint8_t values[KERNEL_COMMAND_MAX];
    struct kernel_command c = kit_command(KERNEL_VERB_POOL_ADD), decoded;
    c.pool = kit_text("p");
    uint32_t others = kernel_command_encode(&c, encoded, sizeof encoded);
    assert_true(others > 0);
    c.values = tn_bytes_of(values, KERNEL_COMMAND_MAX - others);
    assert_int_equal(kernel_command_encode(&c, encoded, sizeof encoded), KERNEL_COMMAND_MAX);
    c.values.len += 1;
    assert_int_equal(kernel_command_encode(&c, encoded, sizeof encoded), 0);
    assert_false(kernel_command_decode(tn_bytes_of(encoded, KERNEL_COMMAND_MAX + 1), &decoded));
    c = kit_command(KERNEL_VERB_ALLOC);
    c.claim_count = UINT16_MAX + 1;
    assert_int_equal(kernel_command_encode(&c, encoded, sizeof encoded), 0);
}

static void more_of_something_than_there_can_be_is_no_command(void **state) {
    (void)state;
    struct kernel_policy_patch policy = {.has_exclude = true};
    struct kernel_command c = kit_command(KERNEL_VERB_POOL_CREATE), decoded;
    c.pool = kit_text("p");
    c.policy = &policy;
    policy.values.exclude_count = 1;
    uint32_t len = kernel_command_encode(&c, encoded, sizeof encoded);
    assert_true(kernel_command_decode(tn_bytes_of(encoded, len), &decoded));
    uint8_t *count = encoded + len - 17; /* before the one span there is */
    assert_int_equal(*count, 1);
    *count = KERNEL_EXCLUDES_MAX + 1;
    memset(count + 1, 0, 16 * (KERNEL_EXCLUDES_MAX + 1));
    assert_false(
        kernel_command_decode(tn_bytes_of(encoded, len + 16 * KERNEL_EXCLUDES_MAX), &decoded));

    c = kit_command(KERNEL_VERB_LIMITS);
    c.limits = kit_limits();
    len = kernel_command_encode(&c, encoded, sizeof encoded);
    assert_true(kernel_command_decode(tn_bytes_of(encoded, len), &decoded));
    count = encoded + len - 8 * KERNEL_LIMIT_COUNT - 2;
    assert_int_equal(*count, KERNEL_LIMIT_COUNT);
    *count += 1; /* as a version with one more would write it */
    memset(encoded + len, 0, 8);
    assert_false(kernel_command_decode(tn_bytes_of(encoded, len + 8), &decoded));
}

/* ---- names and values ---- */

static void names_that_are_almost_names_are_refused(void **state) {
    (void)state;
    struct kit kit;
    kit_open(&kit, NULL);
    assert_int_equal(kit_pool(&kit, "zone", "lo=1 hi=9 scoped=1"), TN_R_OK);
    static const char *const wrong[] = {"zone@", "zone@a@b", "zone@\x01"};
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        uint8_t claims[64];
        struct tn_writer w = tn_writer_of(claims, sizeof claims);
        kernel_claim_write(&w, kit_text(wrong[i]), true, 1);
        struct kernel_command c = kit_command(KERNEL_VERB_ALLOC);
        c.holder = kit_text("h");
        c.claims = tn_bytes_of(claims, w.len);
        c.claim_count = 1;
        assert_int_equal(kit_run(&kit, &c), TN_R_BAD_NAME);
    }
    assert_int_equal(pool_view(&kit, "zone").scopes, 0);
    assert_int_equal(kit_alloc(&kit, "h", "zone@a:1", 0), TN_R_OK);
    kit_close(&kit);
}

static void values_that_are_almost_values_are_none(void **state) {
    (void)state;
    uint64_t number = 0;
    assert_false(kernel_value_parse(KERNEL_MAC, kit_text("52:54:00:ab:cd:eg"), &number));
    assert_true(kernel_value_parse(KERNEL_HEX, kit_text("0123"), &number) && number == 0x123);
    assert_false(kernel_value_parse(KERNEL_HEX, kit_text("0x"), &number));
    assert_false(kernel_value_parse(KERNEL_HEX, kit_text("0y12"), &number));
    assert_string_equal(kernel_reason_name(KERNEL_REASON_COUNT), "?");
    assert_string_equal(kernel_state_name(KERNEL_SHOWN_COUNT), "?");
}

static void what_is_asked_about_nobody_is_nothing(void **state) {
    (void)state;
    struct kit kit;
    kit_open(&kit, NULL);
    assert_int_equal(kit_pool(&kit, "p", "lo=1 hi=9"), TN_R_OK);
    assert_int_equal(kit_alloc(&kit, "h", "p:1", 0), TN_R_OK);
    static const struct {
        const char *pool, *holder;
        uint32_t count;
    } asked[] = {{"p", "h", 1},    {"p", "", 1},    {"", "h", 1},       {"", "", 1},
                 {"none", "h", 0}, {"none", "", 0}, {"p", "nobody", 0}, {"none", "nobody", 0}};
    for (size_t i = 0; i < sizeof asked / sizeof asked[0]; i++) {
        struct kernel_lease_view views[4];
        struct kernel_lease_filter filter = {.pool = kit_text(asked[i].pool),
                                             .holder = kit_text(asked[i].holder)};
        uint32_t count = 9;
        assert_int_equal(kernel_leases_scan(kit.kernel, &filter, 0, 100, views, 4, &count), 0);
        assert_int_equal(count, asked[i].count);
    }
    kit_close(&kit);
}

/* ---- policies ---- */

static void a_policy_that_cannot_be_is_refused_and_the_old_one_stays(void **state) {
    (void)state;
    struct kit kit;
    kit_open(&kit, NULL);
    assert_int_equal(kit_pool(&kit, "p", "lo=1 hi=9 exclude=5-4"), TN_R_BAD_POLICY);
    assert_int_equal(kit_pool(&kit, "p", "lo=1 hi=9 exclude=4-5"), TN_R_OK);
    assert_int_equal(kit_alter(&kit, "p", "exclude=7-6"), TN_R_BAD_POLICY);
    assert_int_equal(kit_alter(&kit, "p", "scoped=1"), TN_R_BAD_REQUEST);
    assert_int_equal(kit_alloc(&kit, "h", "p:7", 0), TN_R_OK); /* all but 4 and 5 */
    assert_int_equal(kit_alloc(&kit, "h", "p:1", 0), TN_R_EXHAUSTED);
    kit_close(&kit);
}

/* The rate fell below what was ultra by the old terms. By the new ones it is ultra, from now on: what
 * was before the change does not count towards how long. */
static void a_lower_threshold_begins_to_count_when_it_is_set(void **state) {
    (void)state;
    struct kit kit;
    kit_open(&kit, NULL);
    assert_int_equal(kit_pool(&kit, "ids",
                              "lo=1 hi=999 sticky=1 rate_window_seconds=60"
                              " high_rate_threshold_per_hour=60000000"
                              " ultra_rate_threshold_per_hour=600000000"
                              " ultra_rate_sustain_seconds=100"),
                     TN_R_OK);
    for (unsigned i = 0; i < 10; i++) { /* ten in a minute are 600 an hour */
        char holder[16];
        snprintf(holder, sizeof holder, "h%u", i);
        kit.now_ms += i == 5 ? 30000 : 0;
        assert_int_equal(kit_alloc(&kit, holder, "ids", 0), TN_R_OK);
    }
    assert_true(pool_view(&kit, "ids").ultra_active);
    kit.now_ms += 40000; /* five are left */
    assert_int_equal(kit_alter(&kit, "ids", "ultra_rate_threshold_per_hour=300000000"), TN_R_OK);
    assert_true(pool_view(&kit, "ids").ultra_active);
    assert_false(pool_view(&kit, "ids").force_zero);
    for (unsigned i = 0; i < 10; i++) { /* and stay so */
        char holder[16];
        snprintf(holder, sizeof holder, "i%u", i);
        assert_int_equal(kit_alloc(&kit, holder, "ids", 0), TN_R_OK);
        snprintf(holder, sizeof holder, "j%u", i);
        assert_int_equal(kit_alloc(&kit, holder, "ids", 0), TN_R_OK);
        kit.now_ms += 9999;
        assert_false(pool_view(&kit, "ids").force_zero);
    }
    kit.now_ms += 10;
    assert_int_equal(kit_tick(&kit), TN_R_OK);
    assert_true(pool_view(&kit, "ids").force_zero);
    kit_close(&kit);
}

/* ---- imports ---- */

static enum tn_result import(struct kit *kit, const char *pool, uint64_t deadline_ms,
                             uint64_t seen_ms, uint64_t offline_ms) {
    uint8_t claims[64];
    struct tn_writer w = tn_writer_of(claims, sizeof claims);
    kernel_claim_write(&w, kit_text(pool), false, 1);
    kernel_requested_write_number(&w, 1);
    struct kernel_command c = kit_command(KERNEL_VERB_IMPORT);
    c.fields |= deadline_ms != 0 ? KERNEL_F_DEADLINE : 0u;
    c.fields |= (seen_ms | offline_ms) != 0 ? KERNEL_F_TIMES : 0u;
    c.holder = kit_text("h");
    c.claims = tn_bytes_of(claims, w.len);
    c.claim_count = 1;
    c.deadline_ms = deadline_ms;
    c.created_ms = seen_ms;
    c.seen_ms = seen_ms;
    c.offline_ms = offline_ms;
    return kit_run(kit, &c);
}

static void an_import_with_times_that_cannot_be_is_refused(void **state) {
    (void)state;
    struct kit kit;
    kit_open(&kit, NULL);
    kit.now_ms = KERNEL_TIME_MAX / 2;
    assert_int_equal(kit_pool(&kit, "ids", "lo=1 hi=9 sticky=1"), TN_R_OK);
    const uint64_t seen = 5000, far = (uint64_t)UINT32_MAX * 1000;
    assert_int_equal(import(&kit, "ids", 0, seen, kit.now_ms + 1), TN_R_BAD_REQUEST);
    assert_int_equal(import(&kit, "ids", 0, seen, seen - 1), TN_R_BAD_REQUEST);
    assert_int_equal(import(&kit, "ids", 0, seen, seen + far + 1000), TN_R_BAD_REQUEST);
    assert_int_equal(pool_view(&kit, "ids").active + pool_view(&kit, "ids").offline, 0);
    assert_int_equal(import(&kit, "ids", 0, seen, seen + far), TN_R_OK);
    struct kernel_lease_view view;
    assert_int_equal(kernel_lease_read(kit.kernel, kit.result.lease, &view), TN_R_OK);
    assert_int_equal(view.last_seen_ms, seen);
    assert_int_equal(view.offline_since_ms, seen + far);
    kit_close(&kit);
}

/* A lease that is renewed by its remaining time is renewed by no more than the largest ttl. */
static void an_import_for_a_thousand_years_is_renewed_for_a_hundred(void **state) {
    (void)state;
    struct kit kit;
    kit_open(&kit, NULL);
    kit.now_ms = T0;
    assert_int_equal(kit_pool(&kit, "p", "lo=1 hi=9"), TN_R_OK);
    uint64_t end = T0 + 2 * (uint64_t)UINT32_MAX * 1000;
    assert_int_equal(import(&kit, "p", end, 0, 0), TN_R_OK);
    assert_int_equal(kit.result.deadline_ms, end);
    struct kit_token t = kit_token(&kit);
    kit.now_ms = end - 1;
    assert_int_equal(kit_touch(&kit, t, 0), TN_R_OK);
    assert_int_equal(kit.result.deadline_ms, kit.now_ms + (uint64_t)UINT32_MAX * 1000);
    kit_close(&kit);
}

/* ---- limits ---- */

static void without_memory_for_new_limits_the_old_ones_stay(void **state) {
    (void)state;
    struct kit kit;
    kit_open(&kit, NULL);
    assert_int_equal(kit_pool(&kit, "p", "lo=1 hi=9"), TN_R_OK);
    uint64_t hash = kernel_hash(kit.kernel);
    struct kernel_limits limits = kit_limits();
    limits.of[KERNEL_LIMIT_LEASES] = 5000;
    struct kernel_env env = kit.kernel->env;
    kit.kernel->env.mem_reserve = kit_memory_none;
    assert_int_equal(kernel_limits_prepare(kit.kernel, &limits), TN_NOMEM);
    kit.kernel->env = env;
    assert_int_equal(kernel_hash(kit.kernel), hash);
    assert_int_equal(kit_alloc(&kit, "h", "p:1", 0), TN_R_OK);
    kit_close(&kit);
}

struct moment {
    struct tn_table_header headers[KERNEL_TABLES_MAX];
    struct root root; /* the root in the image */
};

static void root_keep(void *ctx, const struct tn_table_chunk *chunk) {
    struct moment *moment = ctx;
    if (chunk->table_id == TABLE_ROOT) {
        memcpy(&moment->root, chunk->bytes, sizeof moment->root);
    }
}

/* The command is the first that changes anything while an image is being taken. */
static void an_image_has_the_limits_and_the_generator_of_its_moment(void **state) {
    (void)state;
    struct kit kit;
    struct moment moment = {.root = {.lsn = 0}};
    uint32_t count;
    kit_open(&kit, NULL);
    kit_tick(&kit);
    const struct root before = *root_at(kit.kernel);
    kernel_image_begin(kit.kernel, root_keep, &moment, moment.headers, &count);
    struct kernel_command c = kit_command(KERNEL_VERB_LIMITS);
    c.limits = kit_limits();
    c.limits.of[KERNEL_LIMIT_OP_SECONDS] = 77;
    c.fields |= KERNEL_F_EPOCH;
    c.epoch = 4242;
    assert_int_equal(kit_run(&kit, &c), TN_R_OK);
    while (kernel_image_step(kit.kernel, 1 << 20)) {
    }
    assert_memory_equal(&moment.root, &before, sizeof before);
    assert_int_equal(root_at(kit.kernel)->limits.of[KERNEL_LIMIT_OP_SECONDS], 77);
    kit_close(&kit);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_command_is_no_longer_than_it_may_be),
        cmocka_unit_test(more_of_something_than_there_can_be_is_no_command),
        cmocka_unit_test(names_that_are_almost_names_are_refused),
        cmocka_unit_test(values_that_are_almost_values_are_none),
        cmocka_unit_test(what_is_asked_about_nobody_is_nothing),
        cmocka_unit_test(a_policy_that_cannot_be_is_refused_and_the_old_one_stays),
        cmocka_unit_test(a_lower_threshold_begins_to_count_when_it_is_set),
        cmocka_unit_test(an_import_with_times_that_cannot_be_is_refused),
        cmocka_unit_test(an_import_for_a_thousand_years_is_renewed_for_a_hundred),
        cmocka_unit_test(without_memory_for_new_limits_the_old_ones_stay),
        cmocka_unit_test(an_image_has_the_limits_and_the_generator_of_its_moment),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
