/* Events kept by the engine and read back: from the newest, from the oldest, from an id on, and when
 * some are no longer there. */
#include "unit/engine_world.h"

#include "engine/events.h"

/* Ids that a reader has seen, in order. */
struct seen {
    struct engine_event_id ids[4096];
    uint32_t count;
    uint32_t enough; /* stop before the one after so many; 0: never */
};

static bool see(void *ctx, const struct engine_event *event) {
    struct seen *seen = ctx;
    if (seen->enough > 0 && seen->count == seen->enough) {
        return false;
    }
    assert_true(seen->count < 4096);
    seen->ids[seen->count++] = (struct engine_event_id){event->fact.lsn, event->fact.index};
    return true;
}

static struct engine_events_span read_on(struct world *world, struct engine_event_id after,
                                         uint32_t max, struct seen *seen) {
    struct engine_events_span span;
    assert_int_equal(engine_events_read(world->engine, after, max, see, seen, &span), TN_R_OK);
    return span;
}

static void assert_id(struct engine_event_id id, uint64_t lsn, uint32_t index) {
    assert_int_equal(id.lsn, lsn);
    assert_int_equal(id.index, index);
}

static void an_engine_that_keeps_none_says_so(void **state) {
    struct world *world = *state;
    struct engine_events_span span;
    world_open(world);
    assert_int_equal(engine_events_read(world->engine, ENGINE_EVENTS_OLDEST, 1, see, NULL, &span),
                     TN_R_NOTFOUND);
}

static void events_are_read_back_in_order(void **state) {
    struct world *world = *state;
    static struct seen seen;
    world->options.events_max = 1000;
    world_open(world);
    struct engine_events_span span = read_on(world, ENGINE_EVENTS_NEWEST, 10, &seen);
    uint64_t lsn = world_lsn(world);
    assert_id(span.newest, lsn, 0); /* the pool's */
    assert_id(span.next, lsn, 0);
    assert_int_equal(seen.count, 0);
    for (unsigned i = 0; i < 5; i++) {
        assert_int_equal(world_alloc(world, "h"), TN_R_OK);
    }
    span = read_on(world, span.next, 3, &seen);
    assert_int_equal(seen.count, 3);
    assert_id(seen.ids[0], lsn + 1, 0);
    assert_id(span.next, lsn + 3, 0);
    assert_true(span.more);
    assert_false(span.lost);
    seen = (struct seen){.enough = 1};
    span = read_on(world, span.next, 100, &seen);
    assert_id(span.next, lsn + 4, 0);
    assert_true(span.more);
    seen = (struct seen){0};
    span = read_on(world, span.next, 100, &seen);
    assert_int_equal(seen.count, 1);
    assert_id(span.next, lsn + 5, 0);
    assert_false(span.more);
    seen = (struct seen){0};
    span = read_on(world, ENGINE_EVENTS_OLDEST, 100, &seen);
    assert_int_equal(seen.count, 6);
    assert_false(span.lost);
}

/* Where the last reader stopped is remembered. A reader in the middle of the same command's events
 * stands elsewhere. */
static void readers_within_one_command_go_on_where_each_of_them_stopped(void **state) {
    struct world *world = *state;
    static struct seen seen;
    struct engine_lease lease;
    world->options.events_max = 1000;
    world_open(world);
    for (unsigned i = 0; i < 6; i++) {
        assert_int_equal(world_alloc(world, "h"), TN_R_OK);
    }
    struct engine_events_span span = read_on(world, ENGINE_EVENTS_NEWEST, 10, &seen);
    fakeos_clock_advance(world->machine, 60000); /* one tick ends them all */
    (void)engine_lease_read(world->engine, ENGINE_READ_CURRENT, world->answer.result.lease, &lease);
    uint64_t lsn = world_lsn(world);
    for (uint32_t stop = 1; stop < 6; stop++) {
        for (uint32_t from = 0; from < 6; from++) {
            seen = (struct seen){0};
            struct engine_events_span one = read_on(world, span.next, stop, &seen);
            assert_id(one.next, lsn, stop - 1);
            seen = (struct seen){0};
            (void)read_on(world, (struct engine_event_id){lsn, from}, 100, &seen);
            assert_int_equal(seen.count, 5 - from);
            for (uint32_t i = 0; i < seen.count; i++) {
                assert_id(seen.ids[i], lsn, from + 1 + i);
            }
        }
    }
}

static void those_beyond_the_bound_are_lost_and_said_to_be(void **state) {
    struct world *world = *state;
    static struct seen seen;
    seen = (struct seen){0};
    world->options.events_max = 10;
    world_open(world);
    uint64_t lsn = world_lsn(world);
    for (unsigned i = 0; i < 500; i++) {
        assert_int_equal(world_alloc(world, "h"), TN_R_OK);
    }
    struct engine_events_span span =
        read_on(world, (struct engine_event_id){lsn, 0}, UINT32_MAX, &seen);
    assert_true(span.lost);
    assert_true(seen.count >= 10);
    assert_true(seen.count <= 10 + 128);
    assert_id(seen.ids[seen.count - 1], lsn + 500, 0);
    assert_id(span.oldest, seen.ids[0].lsn, 0);
    struct seen again = {0};
    struct engine_event_id before = {span.oldest.lsn - 1, 0};
    assert_false(read_on(world, before, UINT32_MAX, &again).lost);
    before.lsn--;
    assert_true(read_on(world, before, UINT32_MAX, &again).lost);
    assert_false(read_on(world, ENGINE_EVENTS_OLDEST, UINT32_MAX, &again).lost);
}

static void count_call(void *ctx) {
    (*(unsigned *)ctx)++;
}

static void whoever_arms_is_called_once(void **state) {
    struct world *world = *state;
    unsigned calls = 0;
    world->options.events_max = 1000;
    world->options.events_ready = count_call;
    world->options.events_ready_ctx = &calls;
    world_open(world);
    struct engine_event_id newest = {world_lsn(world), 0};
    assert_int_equal(world_alloc(world, "h"), TN_R_OK);
    assert_int_equal(calls, 0);
    assert_false(engine_events_arm(world->engine, newest));
    assert_int_equal(world_alloc(world, "h"), TN_R_OK);
    assert_int_equal(calls, 0);
    newest.lsn = world_lsn(world);
    assert_true(engine_events_arm(world->engine, newest));
    assert_int_equal(engine_tick(world->engine), TN_R_OK); /* tells nothing */
    assert_int_equal(calls, 0);
    assert_int_equal(world_alloc(world, "h"), TN_R_OK);
    assert_int_equal(calls, 1);
    assert_int_equal(world_alloc(world, "h"), TN_R_OK);
    assert_int_equal(calls, 1);
}

/* The same engine again, over the same log. */
static void world_again(struct world *world) {
    assert_true(engine_close(world->engine));
    world->engine = ekit_open(&world->options);
}

static void another_log_has_a_directory_for_them(void **state) {
    struct world *world = *state;
    static struct seen before;
    static struct seen after;
    before = after = (struct seen){0};
    world->options.events_max = 1000;
    world->options.events_dir = "events";
    world_open(world);
    for (unsigned i = 0; i < 200; i++) {
        assert_int_equal(world_alloc(world, "h"), TN_R_OK);
    }
    read_on(world, ENGINE_EVENTS_OLDEST, UINT32_MAX, &before);
    assert_int_equal(before.count, 201);
    world_again(world); /* with a snapshot: replay makes no events */
    read_on(world, ENGINE_EVENTS_OLDEST, UINT32_MAX, &after);
    assert_int_equal(after.count, before.count);
    assert_memory_equal(after.ids, before.ids, sizeof after.ids);
    assert_true(fakeos_file_count(world->machine, "events", "events-") >= 2);
}

static void without_a_directory_a_snapshot_ends_what_is_known(void **state) {
    struct world *world = *state;
    static struct seen seen;
    seen = (struct seen){0};
    world->options.events_max = 1000;
    world_open(world);
    assert_int_equal(world_alloc(world, "h"), TN_R_OK);
    struct engine_event_id last = {world_lsn(world), 0};
    world_again(world);
    struct engine_events_span span = read_on(world, last, 10, &seen);
    assert_int_equal(seen.count, 0);
    assert_int_equal(span.newest.lsn, 0);
    assert_int_equal(world_alloc(world, "h"), TN_R_OK);
    assert_true(read_on(world, last, 10, &seen).lost);
    assert_int_equal(seen.count, 1);
}

static void without_a_snapshot_replay_tells_all_again(void **state) {
    struct world *world = *state;
    static struct seen seen;
    seen = (struct seen){0};
    world->options.events_max = 1000;
    world->options.no_snapshot_at_close = true;
    world_open(world);
    for (unsigned i = 0; i < 100; i++) {
        assert_int_equal(world_alloc(world, "h"), TN_R_OK);
    }
    world_again(world);
    struct engine_events_span span = read_on(world, (struct engine_event_id){1, 0}, 1000, &seen);
    assert_int_equal(seen.count, 101);
    assert_false(span.lost);
}

/* Memory that can be switched off. */
struct poor {
    struct os os;
    const struct os *rich;
    bool broke;
};

static enum tn_status poor_reserve(void *ctx, size_t bytes, bool big, void **ret_memory) {
    struct poor *poor = ctx;
    return poor->broke ? TN_NOMEM
                       : poor->rich->mem_reserve(poor->rich->ctx, bytes, big, ret_memory);
}

static void poor_release(void *ctx, void *memory, size_t bytes) {
    struct poor *poor = ctx;
    poor->rich->mem_release(poor->rich->ctx, memory, bytes);
}

static uint64_t poor_ms(void *ctx) {
    struct poor *poor = ctx;
    return poor->rich->clock_boot_ms(poor->rich->ctx);
}

static uint64_t poor_ns(void *ctx) {
    struct poor *poor = ctx;
    return poor->rich->clock_boot_ns(poor->rich->ctx);
}

static uint64_t poor_wall_ms(void *ctx) {
    struct poor *poor = ctx;
    return poor->rich->clock_wall_ms(poor->rich->ctx);
}

static enum tn_status poor_random(void *ctx, void *out, size_t len) {
    struct poor *poor = ctx;
    return poor->rich->random(poor->rich->ctx, out, len);
}

#define LEASES 12000u

/* A tick that ends thousands of leases needs a larger buffer than there is. */
static void events_without_memory_are_counted_and_missed(void **state) {
    struct world *world = *state;
    static struct poor poor;
    static struct seen seen;
    seen = (struct seen){0};
    poor = (struct poor){.rich = world->options.os};
    poor.os = (struct os){.ctx = &poor,
                          .mem_reserve = poor_reserve,
                          .mem_release = poor_release,
                          .clock_boot_ms = poor_ms,
                          .clock_boot_ns = poor_ns,
                          .clock_wall_ms = poor_wall_ms,
                          .random = poor_random};
    world->options.os = &poor.os;
    world->options.events_max = 1 << 20;
    world->options.no_threads = true;
    world->options.limits.of[KERNEL_LIMIT_TICK_STEP] = 65536;
    world->options.limits.of[KERNEL_LIMIT_LEASES] = 16384;
    world->options.limits_mask |= 1u << KERNEL_LIMIT_TICK_STEP | 1u << KERNEL_LIMIT_LEASES;
    world_open(world);
    char holder[KERNEL_HOLDER_MAX];
    char pool[KERNEL_POOL_BASE_MAX];
    memset(holder, 'h', sizeof holder);
    memset(pool, 'q', sizeof pool);
    holder[sizeof holder - 1] = pool[sizeof pool - 1] = '\0';
    ekit_run_ok(world->engine, ekit_pool(&world->command, pool, 1, 20000, 60), &world->answer);
    for (unsigned i = 0; i < LEASES; i++) {
        ekit_run_ok(world->engine, ekit_alloc(&world->command, pool, holder, 1, NULL),
                    &world->answer);
    }
    struct engine_event_id last = {world_lsn(world), 0};
    fakeos_clock_advance(world->machine, 60000);
    poor.broke = true;
    assert_int_equal(engine_tick(world->engine), TN_R_OK);
    poor.broke = false;
    struct engine_stats stats;
    engine_stats_read(world->engine, &stats);
    assert_true(stats.events_lost > 0 && stats.events_lost < LEASES);
    struct engine_events_span span = read_on(world, last, 1, &seen);
    assert_false(span.lost); /* the first ones had room */
    ekit_run_ok(world->engine, ekit_alloc(&world->command, pool, "after", 1, NULL), &world->answer);
    uint64_t total = 0;
    bool lost = false;
    for (struct engine_event_id at = last; total == 0 || span.more; at = span.next) {
        seen.count = 0;
        span = read_on(world, at, 4096, &seen);
        total += seen.count;
        lost = lost || span.lost;
    }
    assert_true(lost);
    assert_int_equal(total, LEASES - stats.events_lost + 1);
}

/* ---- Watching some kinds ---- */

struct watched {
    uint32_t kinds[KERNEL_EVENT_COUNT];
    uint64_t lsn;
    char name[KERNEL_POOL_MAX + 1];
};

static void watch(void *ctx, const struct kernel_event *fact) {
    struct watched *watched = ctx;
    watched->kinds[fact->kind]++;
    watched->lsn = fact->lsn;
    (void)snprintf(watched->name, sizeof watched->name, "%.*s", (int)fact->name.len,
                   (const char *)fact->name.at);
}

/* Whether or not events are kept; events of an earlier life are not reported again. */
static void some_kinds_are_watched_as_they_happen(void **state) {
    struct world *world = *state;
    struct watched watched = {.lsn = 0};
    struct engine_watcher watcher = {
        .call = watch, .ctx = &watched, .kinds = 1u << KERNEL_EVENT_POOL_CREATED};
    world->engine = ekit_open(&world->options);
    engine_watch_add(world->engine, &watcher);
    ekit_run_ok(world->engine, ekit_pool(&world->command, "p", 1, 1000, 60), &world->answer);
    assert_int_equal(watched.kinds[KERNEL_EVENT_POOL_CREATED], 1);
    assert_int_equal(watched.lsn, world_lsn(world));
    assert_string_equal(watched.name, "p");
    assert_int_equal(world_alloc(world, "h"), TN_R_OK);
    assert_int_equal(watched.kinds[KERNEL_EVENT_LEASE_ACTIVE], 0);
    world->options.events_max = 1000;
    world_reopen(world);
    engine_watch_add(world->engine, &watcher);
    assert_int_equal(watched.kinds[KERNEL_EVENT_POOL_CREATED], 1);
    ekit_run_ok(world->engine, ekit_pool(&world->command, "q", 1, 10, 0), &world->answer);
    assert_int_equal(watched.kinds[KERNEL_EVENT_POOL_CREATED], 2);
    assert_string_equal(watched.name, "q");
}

static void each_watcher_hears_of_its_own_kinds_until_it_is_removed(void **state) {
    struct world *world = *state;
    struct watched seen[3] = {{.lsn = 0}};
    struct engine_watcher watchers[3] = {
        {.call = watch, .ctx = &seen[0], .kinds = 1u << KERNEL_EVENT_POOL_CREATED},
        {.call = watch, .ctx = &seen[1], .kinds = 1u << KERNEL_EVENT_LEASE_ACTIVE},
        {.call = watch, .ctx = &seen[2], .kinds = 1u << KERNEL_EVENT_LEASE_ACTIVE}};
    world_open(world);
    for (unsigned i = 0; i < 3; i++) {
        engine_watch_add(world->engine, &watchers[i]);
    }
    assert_int_equal(world_alloc(world, "a"), TN_R_OK);
    assert_int_equal(seen[0].kinds[KERNEL_EVENT_LEASE_ACTIVE], 0);
    assert_int_equal(seen[1].kinds[KERNEL_EVENT_LEASE_ACTIVE], 1);
    assert_int_equal(seen[2].kinds[KERNEL_EVENT_LEASE_ACTIVE], 1);
    engine_watch_remove(world->engine, &watchers[1]);
    assert_int_equal(world_alloc(world, "b"), TN_R_OK);
    ekit_run_ok(world->engine, ekit_pool(&world->command, "q", 1, 10, 0), &world->answer);
    assert_int_equal(seen[0].kinds[KERNEL_EVENT_POOL_CREATED], 1);
    assert_int_equal(seen[1].kinds[KERNEL_EVENT_LEASE_ACTIVE], 1);
    assert_int_equal(seen[2].kinds[KERNEL_EVENT_LEASE_ACTIVE], 2);
    engine_watch_remove(world->engine, &watchers[2]);
    engine_watch_remove(world->engine, &watchers[0]);
    assert_int_equal(world_alloc(world, "c"), TN_R_OK);
    assert_int_equal(seen[2].kinds[KERNEL_EVENT_LEASE_ACTIVE], 2);
    engine_watch_add(world->engine, &watchers[2]);
    assert_int_equal(world_alloc(world, "d"), TN_R_OK);
    assert_int_equal(seen[2].kinds[KERNEL_EVENT_LEASE_ACTIVE], 3);
}

static void appends_are_counted_by_how_long_they_took(void **state) {
    struct world *world = *state;
    struct engine_stats stats;
    world_open(world);
    engine_stats_read(world->engine, &stats);
    uint64_t before = stats.syncs;
    for (unsigned i = 0; i < 10; i++) {
        assert_int_equal(world_alloc(world, "h"), TN_R_OK);
    }
    fakelog_fail(world->log, TN_NOSPACE, 1, false);
    assert_int_equal(world_alloc(world, "h"), TN_R_NOSPACE);
    engine_stats_read(world->engine, &stats);
    assert_int_equal(stats.syncs, before + 11);
    uint64_t counted = 0;
    for (unsigned i = 0; i <= ENGINE_APPEND_BUCKETS; i++) {
        counted += stats.append_histogram[i];
    }
    assert_int_equal(counted, before + 10);
    assert_int_equal(stats.append_histogram[0], counted); /* the clock stands still */
}

int main(void) {
    const struct CMUnitTest tests[] = {
        WORLD_TEST(an_engine_that_keeps_none_says_so),
        WORLD_TEST(events_are_read_back_in_order),
        WORLD_TEST(readers_within_one_command_go_on_where_each_of_them_stopped),
        WORLD_TEST(those_beyond_the_bound_are_lost_and_said_to_be),
        WORLD_TEST(whoever_arms_is_called_once),
        WORLD_TEST(another_log_has_a_directory_for_them),
        WORLD_TEST(without_a_directory_a_snapshot_ends_what_is_known),
        WORLD_TEST(without_a_snapshot_replay_tells_all_again),
        WORLD_TEST(events_without_memory_are_counted_and_missed),
        WORLD_TEST(some_kinds_are_watched_as_they_happen),
        WORLD_TEST(each_watcher_hears_of_its_own_kinds_until_it_is_removed),
        WORLD_TEST(appends_are_counted_by_how_long_they_took),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
