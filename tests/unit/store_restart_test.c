/* What a restart finds in the store of events: files from before a power cut, a replay that makes
 * some events again, and holes. */
#include "unit/store_shop.h"

static void what_was_flushed_is_there_after_a_power_cut(void **state) {
    struct shop *shop = *state;
    shop_open(shop, 0);
    put_events(shop, 5000);
    uint64_t lsn = shop->next.lsn - 1;
    assert_true(engine_store_flush(shop->store, lsn));
    put_events(shop, 5000);
    shop_close(shop);
    fakeos_reboot(shop->machine);
    shop_open(shop, lsn);
    assert_whole(shop, 5000);
    /* Replay makes the remaining events, and some that are stored already. */
    shop->next.lsn = lsn + 1;
    put_events(shop, 70);
    assert_whole(shop, 5070);
    assert_int_equal(shop->notices, 0);
}

static void what_replay_tells_twice_is_kept_once(void **state) {
    struct shop *shop = *state;
    shop_open(shop, 0);
    put_events(shop, 300);
    uint64_t lsn = shop->next.lsn - 1;
    assert_true(engine_store_flush(shop->store, lsn));
    shop_close(shop);
    shop->options.flushed_lsn = lsn;
    shop_open(shop, 10); /* an older snapshot */
    assert_whole(shop, 300);
    shop->next = (struct engine_event_id){11, 0};
    while (shop->next.lsn < lsn) { /* the last one had none */
        put_event(shop);
        shop->next.lsn++;
        hand_over(shop);
    }
    assert_whole(shop, 300);
    engine_store_replayed(shop->store, lsn);
    assert_whole(shop, 300);
}

static void a_snapshot_without_its_events_leaves_a_hole(void **state) {
    struct shop *shop = *state;
    unsigned losses;
    shop_open(shop, 0);
    put_events(shop, 100);
    uint64_t lsn = shop->next.lsn - 1;
    assert_true(engine_store_flush(shop->store, lsn));
    shop_close(shop);
    shop_open(shop, lsn + 50); /* the snapshot was taken without a store */
    assert_int_equal(shop->notices, 1);
    shop->next = (struct engine_event_id){lsn + 51, 0};
    put_events(shop, 100);
    assert_int_equal(read_through(shop, (struct engine_event_id){lsn, 0}, &losses), 100);
    assert_int_equal(losses, 1);
    assert_int_equal(stats_of(shop).events, 200);
}

static void time_without_events_is_no_hole(void **state) {
    struct shop *shop = *state;
    unsigned losses;
    shop_open(shop, 0);
    (void)engine_store_append(shop->store, tn_bytes_of(NULL, 0), 7);
    assert_true(engine_store_flush(shop->store, 7));
    shop_close(shop);
    fakeos_reboot(shop->machine);
    shop_open(shop, 7);
    shop->next = (struct engine_event_id){8, 0};
    put_events(shop, 10);
    assert_int_equal(read_through(shop, (struct engine_event_id){5, 0}, &losses), 10);
    assert_int_equal(losses, 0);
    assert_int_equal(shop->notices, 0);
}

/* A snapshot of a command without events, flushed when later commands had some: only the events
 * that are cut, and made again by replay, showed that. */
static void a_snapshot_before_later_events_is_no_hole(void **state) {
    struct shop *shop = *state;
    unsigned losses;
    shop_open(shop, 0);
    put_events(shop, 100);
    uint64_t lsn = shop->next.lsn;
    struct engine_event_id before = {lsn - 2, 9};
    assert_true(engine_store_flush(shop->store, lsn - 1));
    (void)engine_store_append(shop->store, tn_bytes_of(NULL, 0), lsn);
    for (unsigned i = 0; i < 3; i++) { /* after the first time by replay, and lost again */
        shop->next = (struct engine_event_id){lsn + 1, 0};
        put_events(shop, 10);
        assert_int_equal(read_through(shop, before, &losses), 10);
        assert_int_equal(losses, 0);
        if (i != 1) {
            assert_true(engine_store_flush(shop->store, shop->next.lsn - 1));
        }
        shop_close(shop);
        fakeos_reboot(shop->machine);
        shop_open(shop, lsn);
    }
    assert_int_equal(shop->notices, 0);
}

static void events_beyond_the_end_of_the_log_never_happened(void **state) {
    struct shop *shop = *state;
    shop_open(shop, 0);
    put_events(shop, 1000);
    uint64_t end = shop->next.lsn / 2;
    assert_true(engine_store_flush(shop->store, shop->next.lsn - 1));
    shop_close(shop);
    shop_open(shop, end);
    engine_store_replayed(shop->store, end);
    struct engine_store_stats stats = stats_of(shop);
    assert_true(stats.newest.lsn <= end && stats.newest.lsn + 2 > end);
    assert_true(stats.events > 300 && stats.events < 700);
    shop_close(shop);
    fakeos_reboot(shop->machine);
    shop_open(shop, end);
    assert_whole(shop, stats.events);
}

/* A known hole remains known when the blocks after it are cut and made again by replay. */
static void a_hole_before_what_is_told_again_stays(void **state) {
    struct shop *shop = *state;
    unsigned losses;
    shop_open(shop, 0);
    put_events(shop, 10);
    struct engine_event_id before = {shop->next.lsn - 2, 9};
    uint64_t lsn = shop->next.lsn;
    engine_record_write_lost(shop->records, (struct engine_event_id){lsn, 0});
    shop->used = RECORD_HEAD;
    shop->next.lsn++;
    hand_over(shop);
    assert_true(engine_store_flush(shop->store, lsn));
    for (unsigned i = 0; i < 2; i++) { /* the second time replay makes it */
        shop->next = (struct engine_event_id){lsn + 1, 0};
        put_events(shop, 10);
        assert_int_equal(read_through(shop, before, &losses), 10);
        assert_int_equal(losses, 1);
        (void)engine_store_flush(shop->store, shop->next.lsn - 1);
        shop_close(shop);
        shop_open(shop, lsn);
        engine_store_replayed(shop->store, lsn);
    }
}

/* A log that has no snapshot, and files that have the last events of a longer one. */
static void a_log_that_ends_before_all_that_is_kept_tells_its_own(void **state) {
    struct shop *shop = *state;
    shop->options.events_max = 100;
    shop_open(shop, 0);
    put_events(shop, 3000);
    assert_true(engine_store_flush(shop->store, shop->next.lsn - 1));
    shop_close(shop);
    shop_open(shop, 0);
    shop->next = (struct engine_event_id){1, 0};
    put_events(shop, 20); /* by replay */
    engine_store_replayed(shop->store, shop->next.lsn - 1);
    assert_whole(shop, 20);
    put_events(shop, 20);
    assert_whole(shop, 40);
}

/* The newest event that the files mention is not in them. */
static void a_hole_beyond_the_end_of_the_log_never_was(void **state) {
    struct shop *shop = *state;
    unsigned losses;
    shop_open(shop, 0);
    put_events(shop, 10);
    uint64_t end = shop->next.lsn - 1;
    engine_record_write_lost(shop->records, (struct engine_event_id){end + 500, 0});
    shop->used = RECORD_HEAD;
    shop->next.lsn = end + 501;
    hand_over(shop);
    assert_true(engine_store_flush(shop->store, end + 500));
    shop_close(shop);
    shop_open(shop, end);
    engine_store_replayed(shop->store, end);
    shop->next = (struct engine_event_id){end + 1, 0};
    put_events(shop, 30);
    assert_int_equal(read_through(shop, (struct engine_event_id){end, 0}, &losses), 30);
    shop_close(shop); /* and a snapshot without its events leaves a hole, as before */
    shop_open(shop, end + 100);
    shop->next = (struct engine_event_id){end + 101, 0};
    put_events(shop, 10);
    assert_int_equal(read_through(shop, (struct engine_event_id){end + 50, 0}, &losses), 10);
    assert_int_equal(losses, 1);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        SHOP_TEST(what_was_flushed_is_there_after_a_power_cut),
        SHOP_TEST(what_replay_tells_twice_is_kept_once),
        SHOP_TEST(a_snapshot_without_its_events_leaves_a_hole),
        SHOP_TEST(time_without_events_is_no_hole),
        SHOP_TEST(a_snapshot_before_later_events_is_no_hole),
        SHOP_TEST(events_beyond_the_end_of_the_log_never_happened),
        SHOP_TEST(a_hole_before_what_is_told_again_stays),
        SHOP_TEST(a_log_that_ends_before_all_that_is_kept_tells_its_own),
        SHOP_TEST(a_hole_beyond_the_end_of_the_log_never_was),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
