/* Tables that are full: whatever needs room that is not there is refused by the name of what is full and
 * leaves nothing behind, and is done as soon as there is room. */
#include "unit.h"

#include "lib/kit.h"

/* ---- texts ---- */

struct world {
    struct kit kit;
    struct kit_token plain, device;
    struct kit_token *large; /* leases with metadata that fills the table */
    unsigned large_count;
};

static struct tn_bytes letters(uint32_t len) {
    static char text[KERNEL_META_MAX];
    memset(text, 'm', sizeof text);
    return tn_bytes_of(text, len);
}

static enum tn_result alloc_meta(struct kit *kit, const char *holder, const char *pool,
                                 uint32_t meta) {
    uint8_t claims[128];
    struct tn_writer w = tn_writer_of(claims, sizeof claims);
    struct kernel_command c = kit_command(KERNEL_VERB_ALLOC);
    kernel_claim_write(&w, kit_text(pool), true, 1);
    c.claims = tn_bytes_of(claims, w.len);
    c.claim_count = 1;
    c.holder = kit_text(holder);
    c.fields |= KERNEL_F_META;
    c.meta = letters(meta);
    return kit_run(kit, &c);
}

static enum tn_result touch_meta(struct kit *kit, struct kit_token t, uint32_t meta) {
    struct kernel_command c = kit_command(KERNEL_VERB_TOUCH);
    c.lease = t.lease;
    c.epoch = t.epoch;
    c.fields |= KERNEL_F_META;
    c.meta = letters(meta);
    return kit_run(kit, &c);
}

/* Every chunk of text is taken. */
static void world_open(struct world *w) {
    struct kernel_limits limits = kit_limits();
    limits.of[KERNEL_LIMIT_TEXT_BYTES] = 65536;
    kit_open(&w->kit, &limits);
    w->large = calloc(limits.of[KERNEL_LIMIT_LEASES], sizeof *w->large);
    w->large_count = 0;
    assert_int_equal(kit_pool(&w->kit, "p", "lo=1 hi=9999"), TN_R_OK);
    assert_int_equal(kit_pool(&w->kit, "ids", "lo=1 hi=99 sticky=1"), TN_R_OK);
    assert_int_equal(kit_pool(&w->kit, "zone", "lo=1 hi=99 scoped=1"), TN_R_OK);
    assert_int_equal(kit_pool(&w->kit, "set", "kind=1"), TN_R_OK);
    assert_int_equal(kit_alloc(&w->kit, "plain", "p:1", 0), TN_R_OK);
    w->plain = kit_token(&w->kit);
    assert_int_equal(kit_alloc(&w->kit, "device", "ids:1", 0), TN_R_OK);
    w->device = kit_token(&w->kit);
    for (uint32_t meta = KERNEL_META_MAX; meta > 0; meta /= 4) {
        while (alloc_meta(&w->kit, "plain", "p", meta) == TN_R_OK) {
            w->large[w->large_count++] = kit_token(&w->kit);
        }
        assert_int_equal(w->kit.result.code, TN_R_NAMES_FULL);
    }
    struct kernel_usage usage;
    kernel_usage_read(w->kit.kernel, &usage);
    assert_int_equal(usage.text_chunks, usage.text_chunks_max);
}

static void world_close(struct world *w) {
    free(w->large);
    kit_close(&w->kit);
}

static enum tn_result newcomer(struct world *w) {
    return kit_alloc(&w->kit, "newcomer", "p:1", 0);
}

static enum tn_result reserver(struct world *w) {
    return kit_reserve(&w->kit, "reserver", "p:1", 10);
}

static enum tn_result more_metadata(struct world *w) {
    return touch_meta(&w->kit, w->plain, 20);
}

static enum tn_result returner_with_metadata(struct world *w) {
    enum tn_result code = alloc_meta(&w->kit, "device", "ids", 20);
    if (code == TN_R_OK) {
        w->device = kit_token(&w->kit);
    }
    return code;
}

static enum tn_result another_holder(struct world *w) {
    struct kernel_lease_view view;
    assert_int_equal(kernel_lease_read(w->kit.kernel, w->device.lease, &view), TN_R_OK);
    w->device.epoch = view.epoch;
    return kit_rekey(&w->kit, w->device, "another");
}

static enum tn_result new_user(struct world *w) {
    struct kernel_command c = kit_command(KERNEL_VERB_TOUCH);
    c.lease = w->plain.lease;
    c.epoch = w->plain.epoch;
    c.user = kit_text("new-user");
    c.opid = kit_text("op-1");
    return kit_run(&w->kit, &c);
}

static enum tn_result scope(struct world *w) {
    return kit_alloc(&w->kit, "plain", "zone@north:1", 0);
}

static enum tn_result pool(struct world *w) {
    return kit_pool(&w->kit, "q", "lo=1 hi=9");
}

static enum tn_result resource(struct world *w) {
    return kit_add(&w->kit, "set", "a");
}

static enum tn_result rule(struct world *w) {
    struct kernel_command c = kit_command(KERNEL_VERB_RULE_SET);
    c.name = kit_text("rule");
    c.trigger = kit_text("trigger");
    return kit_run(&w->kit, &c);
}

static enum tn_result sensor(struct world *w) {
    struct kernel_command c = kit_command(KERNEL_VERB_SENSOR_SET);
    c.name = kit_text("sensor");
    c.trigger = kit_text("trigger");
    c.spec = kit_text("{}");
    c.enabled = true;
    return kit_run(&w->kit, &c);
}

static void without_room_for_texts_everything_that_needs_some_is_refused(void **state) {
    (void)state;
    static enum tn_result (*const needs[])(struct world *) = {
        newcomer,       reserver, more_metadata, returner_with_metadata,
        another_holder, new_user, scope,         pool,
        resource,       rule,     sensor,
    };
    struct world w;
    world_open(&w);
    struct kernel_usage before, after;
    kernel_usage_read(w.kit.kernel, &before);
    for (size_t i = 0; i < sizeof needs / sizeof needs[0]; i++) {
        assert_int_equal(needs[i](&w), TN_R_NAMES_FULL);
        kernel_usage_read(w.kit.kernel, &after);
        assert_memory_equal(&before, &after, sizeof before);
        assert_int_equal(kit_state(&w.kit, w.plain), KERNEL_ACTIVE);
        assert_int_equal(kit_state(&w.kit, w.device), KERNEL_ACTIVE);
    }
    /* What needs none is done. */
    assert_int_equal(kit_alloc(&w.kit, "plain", "p:1", 0), TN_R_OK);
    assert_int_equal(kit_touch(&w.kit, w.plain, 0), TN_R_OK);
    assert_int_equal(kit_alloc(&w.kit, "device", "ids:1", 0), TN_R_OK);
    /* And with the room of one metadata all the rest is. */
    assert_int_equal(touch_meta(&w.kit, w.large[0], 0), TN_R_OK);
    for (size_t i = 0; i < sizeof needs / sizeof needs[0]; i++) {
        assert_int_equal(needs[i](&w), TN_R_OK);
    }
    world_close(&w);
}

/* The room of the old metadata counts: metadata can always be replaced by metadata that is no
 * longer. */
static void metadata_is_replaced_also_without_room(void **state) {
    (void)state;
    struct world w;
    world_open(&w);
    assert_int_equal(touch_meta(&w.kit, w.large[0], KERNEL_META_MAX), TN_R_OK);
    assert_int_equal(touch_meta(&w.kit, w.large[w.large_count - 1], KERNEL_META_MAX),
                     TN_R_NAMES_FULL);
    assert_int_equal(touch_meta(&w.kit, w.large[0], 0), TN_R_OK);
    assert_int_equal(touch_meta(&w.kit, w.large[w.large_count - 1], KERNEL_META_MAX), TN_R_OK);
    world_close(&w);
}

/* ---- pools and rates ---- */

/* A dropped set counts until all its resources are removed: its record still exists. */
static void sets_that_are_being_let_go_count_until_they_are_gone(void **state) {
    (void)state;
    struct kit kit;
    struct kernel_limits limits = kit_limits();
    limits.of[KERNEL_LIMIT_POOLS] = 1;
    limits.of[KERNEL_LIMIT_HISTORY] = 1;
    limits.of[KERNEL_LIMIT_TICK_STEP] = 1;
    kit_open(&kit, &limits);
    assert_int_equal(kit_pool(&kit, "a", "kind=1"), TN_R_OK);
    assert_int_equal(kit_pool(&kit, "b", "kind=1"), TN_R_POOLS_FULL);
    for (const char *name = "ab"; *name != '\0'; name++) {
        char pool[] = {*name, '\0'};
        assert_true(*name == 'a' || kit_pool(&kit, pool, "kind=1") == TN_R_OK);
        assert_int_equal(kit_add(&kit, pool, "1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17"), TN_R_OK);
        assert_int_equal(kit_drop(&kit, pool), TN_R_OK);
    }
    struct kernel_usage usage;
    kernel_usage_read(kit.kernel, &usage);
    assert_int_equal(usage.pools, 0);
    assert_int_equal(kit_pool(&kit, "c", "kind=1"), TN_R_POOLS_FULL);
    unsigned ticks = 0;
    while (kit_pool(&kit, "c", "kind=1") != TN_R_OK) {
        assert_int_equal(kit.result.code, TN_R_POOLS_FULL);
        assert_int_equal(kit_tick(&kit), TN_R_OK);
        assert_true(ticks++ < 34);
    }
    kit_close(&kit);
}

static void a_pool_becomes_sticky_only_if_there_is_a_rate_for_it(void **state) {
    (void)state;
    struct kit kit;
    struct kernel_limits limits = kit_limits();
    limits.of[KERNEL_LIMIT_RATES] = 1;
    kit_open(&kit, &limits);
    assert_int_equal(kit_pool(&kit, "one", "lo=1 hi=9 sticky=1"), TN_R_OK);
    assert_int_equal(kit_pool(&kit, "two", "lo=1 hi=9 lease=60"), TN_R_OK);
    assert_int_equal(kit_alter(&kit, "two", "sticky=1"), TN_R_POOLS_FULL);
    assert_int_equal(kit_alloc(&kit, "h", "two:1", 0), TN_R_OK);
    struct kit_token t = kit_token(&kit);
    assert_int_equal(kit_alloc(&kit, "h", "two:1", 0), TN_R_OK); /* another: it is not sticky */
    assert_int_not_equal(kit_token(&kit).lease.lsn, t.lease.lsn);
    assert_int_equal(kit_disown(&kit, "h", NULL), TN_R_OK);
    assert_int_equal(kit_drop(&kit, "one"), TN_R_OK);
    assert_int_equal(kit_alter(&kit, "two", "sticky=1"), TN_R_OK);
    kit_close(&kit);
}

/* ---- parts of a request ---- */

static void a_request_has_no_more_parts_than_there_may_be(void **state) {
    (void)state;
    struct kit kit;
    struct kernel_limits limits = kit_limits();
    limits.of[KERNEL_LIMIT_BUNDLE] = KERNEL_BUNDLE_MAX;
    kit_open(&kit, &limits);
    assert_int_equal(kit_pool(&kit, "p", "lo=1 hi=9999"), TN_R_OK);
    static uint8_t claims[(KERNEL_CLAIMS_MAX + 1) * 16];
    struct tn_writer w = tn_writer_of(claims, sizeof claims);
    for (unsigned i = 0; i <= KERNEL_CLAIMS_MAX; i++) {
        kernel_claim_write(&w, kit_text("p"), true, 1);
    }
    struct kernel_command c = kit_command(KERNEL_VERB_ALLOC);
    c.holder = kit_text("h");
    c.claims = tn_bytes_of(claims, w.len);
    c.claim_count = KERNEL_CLAIMS_MAX + 1;
    assert_int_equal(kit_run(&kit, &c), TN_R_TOO_LARGE);
    assert_int_equal(kit.result.number, KERNEL_CLAIMS_MAX);
    c.claims.len -= c.claims.len / (KERNEL_CLAIMS_MAX + 1);
    c.claim_count = KERNEL_CLAIMS_MAX;
    assert_int_equal(kit_run(&kit, &c), TN_R_OK);
    assert_int_equal(kit.result.value_count, KERNEL_CLAIMS_MAX);
    kit_close(&kit);
}

static void no_more_resources_are_added_at_once_than_there_may_be(void **state) {
    (void)state;
    struct kit kit;
    struct kernel_limits limits = kit_limits();
    limits.of[KERNEL_LIMIT_RESOURCES] = 2 * KERNEL_BUNDLE_MAX;
    kit_open(&kit, &limits);
    assert_int_equal(kit_pool(&kit, "s", "kind=1"), TN_R_OK);
    static uint8_t values[(KERNEL_BUNDLE_MAX + 1) * 16];
    struct tn_writer w = tn_writer_of(values, sizeof values);
    struct kernel_command c = kit_command(KERNEL_VERB_POOL_ADD);
    c.pool = kit_text("s");
    for (unsigned i = 0; i <= KERNEL_BUNDLE_MAX; i++) {
        char name[8];
        snprintf(name, sizeof name, "r%u", i);
        kernel_requested_write_text(&w, tn_bytes_of(name, strlen(name)));
        if (i + 1 == KERNEL_BUNDLE_MAX) {
            c.values = tn_bytes_of(values, w.len);
        }
    }
    struct kernel_command more = c;
    more.values = tn_bytes_of(values, w.len);
    more.value_count = KERNEL_BUNDLE_MAX + 1;
    assert_int_equal(kit_run(&kit, &more), TN_R_TOO_LARGE);
    c.value_count = KERNEL_BUNDLE_MAX;
    assert_int_equal(kit_run(&kit, &c), TN_R_OK);
    struct kernel_usage usage;
    kernel_usage_read(kit.kernel, &usage);
    assert_int_equal(usage.resources, KERNEL_BUNDLE_MAX);
    kit_close(&kit);
}

static void a_sensors_description_has_a_length(void **state) {
    (void)state;
    struct kit kit;
    kit_open(&kit, NULL);
    static char spec[KERNEL_SENSOR_SPEC_MAX + 1];
    memset(spec, ' ', sizeof spec);
    struct kernel_command c = kit_command(KERNEL_VERB_SENSOR_SET);
    c.name = kit_text("sensor");
    c.trigger = kit_text("trigger");
    c.enabled = true;
    c.spec = tn_bytes_of(spec, sizeof spec);
    assert_int_equal(kit_run(&kit, &c), TN_R_TOO_LARGE);
    assert_int_equal(kit.result.number, KERNEL_SENSOR_SPEC_MAX);
    c.spec.len -= 1;
    assert_int_equal(kit_run(&kit, &c), TN_R_OK);
    kit_close(&kit);
}

/* ---- limits ---- */

static void limits_that_cannot_be_are_refused_and_change_nothing(void **state) {
    (void)state;
    struct kit kit;
    kit_open(&kit, NULL);
    assert_int_equal(kit_pool(&kit, "cold", "lo=1 hi=9 strategy=3"), TN_R_OK);
    assert_int_equal(kit_pool(&kit, "ids", "lo=1 hi=9 sticky=1 rate_window_seconds=60"), TN_R_OK);
    for (unsigned i = 0; i < 3; i++) {
        assert_int_equal(kit_alloc(&kit, "h", "cold:1", 0), TN_R_OK);
        assert_int_equal(kit_release(&kit, kit_token(&kit), "h", true), TN_R_OK);
    }
    uint64_t hash = kernel_hash(kit.kernel);
    struct kernel_limits limits = kit_limits();
    static const struct {
        enum kernel_limit limit;
        uint64_t value;
    } wrong[] = {
        {KERNEL_LIMIT_LEASES, 0},         /* below the least there is */
        {KERNEL_LIMIT_BUNDLE, 1u << 20},  /* above the most */
        {KERNEL_LIMIT_COLD, 2},           /* three are remembered */
        {KERNEL_LIMIT_POOLS, 1},          /* there are two */
        {KERNEL_LIMIT_RATE_WINDOW, 3000}, /* rates have their size by now */
        {KERNEL_LIMIT_RATE_WINDOW, 30},   /* and one needs more */
        {KERNEL_LIMIT_BUNDLE, 31},        /* leases may be as large as they might be */
    };
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        limits = kit_limits();
        limits.of[wrong[i].limit] = wrong[i].value;
        assert_int_equal(kernel_limits_prepare(kit.kernel, &limits), TN_INVALID);
        assert_int_equal(kernel_hash(kit.kernel), hash);
    }
    struct kernel_env env = {.mem_reserve = kit_memory_none};
    struct kernel *none = NULL;
    assert_int_equal(kernel_create(&env, &limits, 0, &none), TN_NOMEM);
    limits.of[KERNEL_LIMIT_LEASES] = 0;
    assert_int_equal(kernel_create(&env, &limits, 0, &none), TN_INVALID);
    assert_null(none);
    kit_check(&kit);
    kit_close(&kit);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(without_room_for_texts_everything_that_needs_some_is_refused),
        cmocka_unit_test(metadata_is_replaced_also_without_room),
        cmocka_unit_test(sets_that_are_being_let_go_count_until_they_are_gone),
        cmocka_unit_test(a_pool_becomes_sticky_only_if_there_is_a_rate_for_it),
        cmocka_unit_test(a_request_has_no_more_parts_than_there_may_be),
        cmocka_unit_test(no_more_resources_are_added_at_once_than_there_may_be),
        cmocka_unit_test(a_sensors_description_has_a_length),
        cmocka_unit_test(limits_that_cannot_be_are_refused_and_change_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
