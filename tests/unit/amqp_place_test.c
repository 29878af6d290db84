/* Places in the row of events: none is stepped over without a word, whatever is kept and whichever log
 * it is. */
#include "unit/engine_world.h"

#include "broker/broker_place.h"

static struct broker_place newest(struct world *world) {
    struct broker_place place;
    assert_int_equal(broker_place_newest(world->engine, &place), TN_OK);
    return place;
}

static struct broker_place oldest(struct world *world) {
    struct broker_place place;
    assert_int_equal(broker_place_oldest(world->engine, &place), TN_OK);
    return place;
}

static bool known(struct world *world, struct broker_place place) {
    bool is_known;
    assert_int_equal(broker_place_known(world->engine, place, &is_known), TN_OK);
    return is_known;
}

static void happen(struct world *world, unsigned count) {
    for (unsigned i = 0; i < count; i++) {
        fakeos_clock_advance(world->machine, 1);
        assert_int_equal(world_alloc(world, "h"), TN_R_OK);
    }
}

static bool count_visit(void *ctx, const struct engine_event *event) {
    (void)event;
    (*(unsigned *)ctx)++;
    return true;
}

/* How many there are after it, and whether some were missed. */
static unsigned after(struct world *world, struct broker_place place, bool *ret_lost) {
    struct engine_events_span span;
    unsigned count = 0;
    assert_int_equal(
        engine_events_read(world->engine, place.id, UINT32_MAX, count_visit, &count, &span),
        TN_R_OK);
    *ret_lost = span.lost;
    return count;
}

static void follows(struct world *world, struct broker_place place, unsigned count) {
    bool lost;
    assert_int_equal(after(world, place, &lost), count);
    assert_false(lost);
}

static void misses(struct world *world, struct broker_place place) {
    bool lost;
    (void)after(world, place, &lost);
    assert_true(lost);
}

static void an_engine_that_keeps_none_has_no_places(void **state) {
    struct world *world = *state;
    struct broker_place place;
    world_open(world);
    assert_int_equal(broker_place_newest(world->engine, &place), TN_NOTFOUND);
    assert_int_equal(broker_place_oldest(world->engine, &place), TN_NOTFOUND);
}

/* A reader that begins before the first event gets all events, or learns that some are missing. */
static void before_the_first_event_there_is_a_place(void **state) {
    struct world *world = *state;
    world->options.events_max = 10;
    world->engine = ekit_open(&world->options);
    struct broker_place first = newest(world);
    struct broker_place same = oldest(world);
    assert_int_equal(engine_event_id_compare(first.id, same.id), 0);
    assert_true(known(world, first));
    follows(world, first, 0);
    ekit_run_ok(world->engine, ekit_pool(&world->command, "p", 1, 1000, 60), &world->answer);
    happen(world, 4);
    assert_true(known(world, first));
    follows(world, first, 5);
    happen(world, 500);
    assert_true(known(world, first));
    misses(world, first);
}

static void the_newest_and_the_oldest_are_where_they_say(void **state) {
    struct world *world = *state;
    world->options.events_max = 10;
    world_open(world);
    happen(world, 9);
    struct broker_place end = newest(world);
    struct broker_place begin = oldest(world);
    assert_int_equal(end.id.lsn, world_lsn(world));
    assert_true(end.time_ms > 0);
    follows(world, begin, 10);
    follows(world, end, 0);
    happen(world, 3);
    follows(world, begin, 13);
    follows(world, end, 3);
    happen(world, 500);
    misses(world, begin);
    misses(world, end);
    struct broker_place now = oldest(world);
    bool lost;
    assert_true(after(world, now, &lost) >= 10);
    assert_false(lost);
    assert_true(known(world, begin) && known(world, end) && known(world, now));
}

/* An earlier state of the log, or another one: its events at those places are others. */
static void a_place_of_another_log_is_not_known(void **state) {
    struct world *world = *state;
    world->options.events_max = 1000;
    world_open(world);
    happen(world, 10);
    struct broker_place place = newest(world);
    assert_true(known(world, place));
    struct broker_place later = place;
    later.id.lsn++;
    assert_false(known(world, later)); /* after the end */
    happen(world, 10);
    assert_true(known(world, place));
    assert_false(known(world, later)); /* of another time */
    later.time_ms++;
    assert_true(known(world, later));
    later.id.index++;
    assert_false(known(world, later)); /* the event does not exist, but a later one does */
    later.time_ms = 0;
    assert_true(known(world, later)); /* the place is not that of an event */
}

/* The log has grown beyond the place, but only by what makes no events. */
static void a_place_after_all_events_of_another_log_is_not_known(void **state) {
    struct world *world = *state;
    world->options.events_max = 1000;
    world_open(world);
    happen(world, 10);
    struct broker_place place = newest(world);
    struct kernel_result lease = world->answer.result;
    ekit_run_ok(world->engine, ekit_touch(&world->command, &lease, NULL), &world->answer);
    assert_int_equal(world_lsn(world), place.id.lsn + 1);
    assert_true(known(world, place));
    place.id.lsn++;
    assert_false(known(world, place));
}

/* All retained events are gone: whether the place is of this log is unknown, but readers learn that
 * events are missing. */
static void a_place_whose_event_is_gone_misses_something(void **state) {
    struct world *world = *state;
    world->options.events_max = 1000; /* in memory only */
    world_open(world);
    happen(world, 10);
    struct broker_place place = newest(world);
    happen(world, 10);
    assert_true(engine_close(world->engine)); /* with a snapshot, so that replay makes no events */
    world->engine = ekit_open(&world->options);
    assert_true(known(world, place));
    struct broker_place begin = oldest(world);
    struct broker_place end = newest(world);
    assert_int_equal(begin.time_ms, 0);
    assert_int_equal(engine_event_id_compare(begin.id, end.id), 0);
    assert_int_equal(end.id.lsn, world_lsn(world));
    happen(world, 1);
    misses(world, place);
    follows(world, begin, 1);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        WORLD_TEST(an_engine_that_keeps_none_has_no_places),
        WORLD_TEST(before_the_first_event_there_is_a_place),
        WORLD_TEST(the_newest_and_the_oldest_are_where_they_say),
        WORLD_TEST(a_place_of_another_log_is_not_known),
        WORLD_TEST(a_place_after_all_events_of_another_log_is_not_known),
        WORLD_TEST(a_place_whose_event_is_gone_misses_something),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
