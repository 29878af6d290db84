/* Events kept by the engine and read back: from the newest, from the oldest, from an id on, and when
 * some are no longer there. */
#include "unit/engine_world.h"

#include "engine/event.h"

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

int main(void) {
    const struct CMUnitTest tests[] = {
        WORLD_TEST(an_engine_that_keeps_none_says_so),
        WORLD_TEST(events_are_read_back_in_order),
        WORLD_TEST(those_beyond_the_bound_are_lost_and_said_to_be),
        WORLD_TEST(whoever_arms_is_called_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
