/* Snapshots of other versions: what is shorter is filled up, what is newer is dropped if the writer
 * allows it, and anything else is refused. That those of the releases open is tested by e2e/upgrade. */
#include "unit.h"

#include "kernel/state.h"
#include "lib/image.h"

#define NEWER (KERNEL_STATE_VERSION + 1)

static int setup(void **state) {
    static struct kit kit;
    kit_open(&kit, NULL);
    image_state_make(&kit);
    *state = &kit;
    return 0;
}

static int teardown(void **state) {
    kit_close(*state);
    return 0;
}

/* All records of a table, each `bytes` long: cut off, or with more behind them. */
static void resize(struct image *image, uint32_t table, uint32_t bytes) {
    uint32_t before = image->headers[table].record_bytes;
    uint32_t used = image->headers[table].used;
    uint8_t *resized = calloc(used + 1, bytes);
    assert_non_null(resized);
    for (uint32_t i = 0; i < used; i++) {
        memcpy(resized + (size_t)i * bytes, image->bytes[table] + (size_t)i * before,
               before < bytes ? before : bytes);
        if (before < bytes) {
            memset(resized + (size_t)i * bytes + before, 0xee, bytes - before);
        }
    }
    free(image->bytes[table]);
    image->bytes[table] = resized;
    image->headers[table].record_bytes = bytes;
}

static bool loads(const struct image *image, uint32_t version, uint64_t *ret_hash) {
    struct kit kit;
    char why[200];
    ((struct root *)image_record(image, TABLE_ROOT, 0))->version = version;
    kit_open(&kit, NULL);
    kernel_load_version(kit.kernel, version);
    bool good = image_load(image, kit.kernel) && kernel_check(kit.kernel, why, sizeof why);
    *ret_hash = kernel_hash(kit.kernel);
    kit_close(&kit);
    return good;
}

static bool table_is_fixed(uint32_t table) {
    return table == TABLE_TEXT || table == TABLE_OP_TEXT || table == TABLE_METER;
}

static void fields_of_a_newer_version_are_dropped_and_ours_are_kept(void **state) {
    struct kit *kit = *state;
    for (uint32_t table = 0; table < TABLE_COUNT; table++) {
        struct image image;
        uint64_t hash;
        image_take(kit->kernel, &image);
        resize(&image, table, image.headers[table].record_bytes + 8);
        assert_int_equal(loads(&image, NEWER, &hash), !table_is_fixed(table));
        if (!table_is_fixed(table)) {
            assert_true(hash == kernel_hash(kit->kernel));
        }
        assert_false(loads(&image, KERNEL_STATE_VERSION, &hash)); /* not of a writer like us */
        image_free(&image);
    }
}

static void a_table_of_a_newer_version_is_dropped(void **state) {
    struct kit *kit = *state;
    struct image image;
    uint8_t record[24] = {1};
    uint64_t hash;
    image_take(kit->kernel, &image);
    image.headers[image.count] = (struct tn_table_header){
        .id = image.count, .record_bytes = sizeof record, .used = 1, .live = 1};
    image.bytes[image.count++] = record;
    assert_true(loads(&image, NEWER, &hash));
    assert_true(hash == kernel_hash(kit->kernel));
    assert_false(loads(&image, KERNEL_STATE_VERSION, &hash));
    image.count--;
    image_free(&image);
}

static void a_record_shorter_than_in_the_first_release_is_refused(void **state) {
    struct kit *kit = *state;
    static const uint32_t least[TABLE_COUNT] = {
        [TABLE_ROOT] = 576,     [TABLE_LEASE] = 88,  [TABLE_MEMBER] = 32, [TABLE_POOL] = 664,
        [TABLE_RESOURCE] = 40,  [TABLE_NAME] = 16,   [TABLE_GRANT] = 16,  [TABLE_OP] = 56,
        [TABLE_JOB] = 32,       [TABLE_RULE] = 32,   [TABLE_SENSOR] = 32, [TABLE_TRIGGER] = 16,
        [TABLE_TOMBSTONE] = 48, [TABLE_WAITER] = 56,
    };
    for (uint32_t table = 0; table < TABLE_COUNT; table++) {
        struct image image;
        uint64_t hash;
        image_take(kit->kernel, &image);
        /* A table that came later is as it was in the version that brought it. */
        uint32_t bytes = least[table] != 0 && !table_is_fixed(table)
                             ? least[table]
                             : image.headers[table].record_bytes;
        resize(&image, table, bytes - 8);
        assert_false(loads(&image, KERNEL_STATE_OLDEST, &hash));
        image_free(&image);
    }
}

static void a_log_of_the_first_release_is_replayed_by_its_own_rules(void **state) {
    (void)state;
    struct kit kit;
    kit_open(&kit, NULL);
    assert_int_equal(kernel_edition(kit.kernel), KERNEL_EDITION);
    struct kernel_command limits = kit_command(KERNEL_VERB_LIMITS);
    limits.fields = KERNEL_F_LIMITS;
    limits.limits = kit.limits;
    assert_int_equal(kit_run(&kit, &limits), TN_R_OK);
    assert_int_equal(kernel_edition(kit.kernel), 0);
    assert_int_equal(kit_run(&kit, &limits), TN_R_OK); /* a change of limits alone, by 0.1.0 */
    assert_int_equal(kernel_edition(kit.kernel), 0);
    limits.fields |= KERNEL_F_EDITION;
    limits.edition = KERNEL_EDITION;
    assert_int_equal(kit_run(&kit, &limits), TN_R_OK);
    assert_int_equal(kernel_edition(kit.kernel), KERNEL_EDITION);
    limits.edition = KERNEL_EDITION + 1;
    assert_int_equal(kit_run(&kit, &limits), TN_R_MALFORMED);
    kit_close(&kit);
}

/* Otherwise an older node of a cluster follows the newer owner up to the command that raises the edition, and halts. */
static void an_edition_has_a_state_version_that_older_programs_do_not_read(void **state) {
    static const uint32_t versions[] = {4, 5, 9, 10};
    (void)state;
    assert_int_equal(sizeof versions / sizeof versions[0], KERNEL_EDITION + 1);
    for (unsigned edition = 1; edition <= KERNEL_EDITION; edition++) {
        assert_true(versions[edition] > versions[edition - 1]);
    }
    assert_true(KERNEL_STATE_VERSION >= versions[KERNEL_EDITION]);
    assert_true(KERNEL_STATE_READER >= versions[KERNEL_EDITION]);
}

static void edition_set(struct kit *kit, uint32_t fields, uint32_t edition) {
    struct kernel_command limits = kit_command(KERNEL_VERB_LIMITS);
    limits.fields = KERNEL_F_LIMITS | fields;
    limits.limits = kit->limits;
    limits.edition = edition;
    assert_int_equal(kit_run(kit, &limits), TN_R_OK);
}

static struct kernel_pool_view view_of(const struct kit *kit, const char *pool) {
    struct kernel_pool_view view;
    assert_int_equal(kernel_pool_read(kit->kernel, kit_text(pool), 0, &view), TN_R_OK);
    return view;
}

static void new_rules_hold_from_the_edition_that_brings_them(void **state) {
    (void)state;
    struct kit kit;
    struct kernel_lease_view lease;
    kit_open(&kit, NULL);
    edition_set(&kit, 0, 0);
    kit_pool(&kit, "p", "lo=1 hi=3");
    kit_pool(&kit, "t", "lo=1 hi=3 scoped=1 cooldown=60");
    assert_int_equal(kit_alloc(&kit, "a", "p:4", 0), TN_R_EXHAUSTED);
    assert_int_equal(kit_alloc(&kit, "a", "p=1 p:3", 0), TN_R_EXHAUSTED);
    assert_int_equal(kit_alloc(&kit, "a", "t@x:2", 0), TN_R_OK);
    struct kit_token token = kit_token(&kit);
    assert_int_equal(kit_alloc(&kit, "a", "t@x:1", 0), TN_R_OK);
    assert_int_equal(kit_release(&kit, kit_token(&kit), "a", true), TN_R_OK);
    assert_int_equal(kernel_lease_read(kit.kernel, kit_token(&kit).lease, &lease), TN_R_OK);
    assert_int_equal(lease.ended_lsn, 0);
    assert_int_equal(view_of(&kit, "t").active, 0);
    kit_check(&kit);
    edition_set(&kit, KERNEL_F_EDITION, 2);
    assert_int_equal(kit_alloc(&kit, "a", "p=1 p:3", 0), TN_R_EXHAUSTED);
    edition_set(&kit, KERNEL_F_EDITION, KERNEL_EDITION);
    assert_int_equal(kit_alloc(&kit, "a", "p=1 p:3", 0), TN_R_TOO_LARGE);
    assert_int_equal(view_of(&kit, "t").active, 2);
    assert_int_equal(view_of(&kit, "t").cooling, 1);
    kit_check(&kit);
    assert_int_equal(kit_alloc(&kit, "a", "p:4", 0), TN_R_TOO_LARGE);
    assert_int_equal(kit_release(&kit, token, "a", true), TN_R_OK);
    assert_int_equal(kernel_lease_read(kit.kernel, token.lease, &lease), TN_R_OK);
    assert_int_equal(lease.ended_lsn, kernel_lsn(kit.kernel));
    kit_check(&kit);
    kit_close(&kit);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(fields_of_a_newer_version_are_dropped_and_ours_are_kept),
        cmocka_unit_test(a_table_of_a_newer_version_is_dropped),
        cmocka_unit_test(a_record_shorter_than_in_the_first_release_is_refused),
        cmocka_unit_test(a_log_of_the_first_release_is_replayed_by_its_own_rules),
        cmocka_unit_test(an_edition_has_a_state_version_that_older_programs_do_not_read),
        cmocka_unit_test(new_rules_hold_from_the_edition_that_brings_them),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
