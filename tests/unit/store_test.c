/* The store of events by itself: the ring and its end, files and their bound, finding an id, damage, a
 * full disk. */
#include "unit/store_shop.h"

/* ---- Memory and files ---- */

static void reading_crosses_from_files_to_memory(void **state) {
    struct shop *shop = *state;
    shop->padding = 120; /* more than the ring holds */
    shop->options.events_max = 200000;
    shop_open(shop, 0);
    put_events(shop, 100000);
    assert_true(stats_of(shop).file_bytes > 8 << 20);
    assert_whole(shop, 100000);
    assert_int_equal(stats_of(shop).lost, 0);
    assert_int_equal(shop->notices, 0);
}

static void any_id_is_found(void **state) {
    struct shop *shop = *state;
    struct engine_events_span span;
    shop->padding = 100;
    shop_open(shop, 0);
    put_events(shop, 90000);
    for (unsigned i = 0; i < 500; i++) {
        struct engine_event_id after = {1 + unit_below(&shop->random, (uint32_t)shop->next.lsn - 4),
                                        unit_below(&shop->random, 4)};
        span = read_some(shop, after, 1);
        assert_false(span.lost);
        assert_int_equal(shop->seen, 1);
        assert_true(engine_event_id_compare(shop->first, after) > 0);
        assert_true(shop->first.lsn <= after.lsn + 2);
        if (after.index < 2 && shop->first.lsn == after.lsn) {
            assert_int_equal(shop->first.index, after.index + 1);
        }
    }
    struct engine_event_id beyond = {shop->next.lsn + 10, 0};
    span = read_some(shop, beyond, 10);
    assert_int_equal(shop->seen, 0);
    assert_false(span.more || span.lost);
    assert_id(span.next, beyond);
}

static void the_oldest_files_go(void **state) {
    struct shop *shop = *state;
    unsigned losses;
    shop->options.events_max = 1600;
    shop_open(shop, 0);
    put_events(shop, 20000);
    struct engine_store_stats stats = stats_of(shop);
    assert_true(stats.events >= 1600 && stats.events <= 1600 + 2 * 100);
    assert_true(fakeos_file_count(shop->machine, "data", "events-") <= 18);
    assert_int_equal(read_through(shop, ENGINE_EVENTS_OLDEST, &losses), stats.events);
    assert_int_equal(losses, 0);
    assert_int_equal(read_through(shop, (struct engine_event_id){1, 0}, &losses), stats.events);
    assert_int_equal(losses, 1);
    assert_int_equal(stats.lost, 0); /* dropped for their age */
}

/* Looks at the first event it is shown, and much happens meanwhile. */
static bool see_and_write(void *ctx, const struct engine_event *event) {
    struct shop *shop = ctx;
    bool more = see(ctx, event);
    if (shop->seen == 1) {
        put_events(shop, 20000);
    }
    return more;
}

static void what_goes_while_it_is_read_was_the_oldest(void **state) {
    struct shop *shop = *state;
    struct engine_events_span span;
    shop->options.events_max = 1600;
    shop_open(shop, 0);
    put_events(shop, 5000);
    struct engine_event_id oldest = stats_of(shop).oldest;
    shop->seen = 0;
    shop->enough = UINT64_MAX;
    assert_int_equal(engine_store_read(shop->store, (struct engine_event_id){1, 0}, 10,
                                       see_and_write, shop, &span),
                     TN_R_OK);
    assert_id(shop->first, oldest);
    assert_id(span.oldest, oldest);
    assert_true(span.lost && span.more);
    assert_id(span.newest, stats_of(shop).newest);
    assert_true(engine_event_id_compare(stats_of(shop).oldest, shop->last) > 0);
}

static void a_smaller_bound_drops_at_the_start(void **state) {
    struct shop *shop = *state;
    shop->options.events_max = 3200;
    shop_open(shop, 0);
    put_events(shop, 4000);
    assert_true(engine_store_flush(shop->store, shop->next.lsn - 1));
    shop_close(shop);
    shop->options.events_max = 320;
    shop_open(shop, shop->next.lsn - 1);
    uint64_t events = stats_of(shop).events;
    assert_true(events >= 320 && events <= 320 + 200);
    assert_whole(shop, events);
}

static void a_store_without_files_keeps_what_fits(void **state) {
    struct shop *shop = *state;
    unsigned losses;
    shop->options.dir = NULL;
    shop->padding = 100;
    shop->options.events_max = 1000000;
    shop_open(shop, 0);
    put_events(shop, 100000);
    uint64_t events = stats_of(shop).events;
    assert_true(events > 40000 && events < 80000);
    assert_int_equal(read_through(shop, ENGINE_EVENTS_OLDEST, &losses), events);
    assert_int_equal(losses, 0);
    assert_id(stats_of(shop).newest, shop->last);
    assert_true(engine_store_flush(shop->store, shop->next.lsn - 1));
    assert_int_equal(fakeos_file_count(shop->machine, "data", NULL), 0);
}

/* As many named values as a bundle can have. There is no kernel to ask for the pool's name, so they
 * are put behind a record that was written without. */
static size_t large_event(struct shop *shop, uint8_t *out) {
    struct kernel_event fact = {.lsn = shop->next.lsn,
                                .now_ms = shop->next.lsn * 10,
                                .kind = KERNEL_EVENT_LEASE_ACTIVE,
                                .name = tn_bytes_of("p", 1)};
    size_t len = engine_record_write(out, NULL, &fact);
    for (uint32_t i = 0; i < KERNEL_BUNDLE_MAX; i++) {
        out[len++] = (uint8_t)(RECORD_NAMED | (i == 0 ? RECORD_POOL_NAME : 0));
        out[len++] = KERNEL_RESOURCE_MAX;
        memset(out + len, 'n', KERNEL_RESOURCE_MAX);
        len += KERNEL_RESOURCE_MAX;
        out[len++] = '\0';
    }
    tn_store32(out, (uint32_t)len);
    tn_store32(out + 28, KERNEL_BUNDLE_MAX);
    return len;
}

/* Events larger than an ordinary block, and more of them than the ring holds at once. */
static void events_larger_than_a_block_are_kept(void **state) {
    struct shop *shop = *state;
    uint8_t *record = malloc((size_t)1 << 20);
    assert_non_null(record);
    shop_open(shop, 0);
    for (unsigned i = 0; i < 60; i++) {
        put_events(shop, 5);
        size_t len = large_event(shop, record);
        (void)engine_store_append(shop->store, tn_bytes_of(record, len), shop->next.lsn);
        shop->next.lsn++;
    }
    assert_true(stats_of(shop).file_bytes > 8 << 20);
    assert_whole(shop, 60 * 6);
    free(record);
}

static void those_that_had_no_memory_leave_a_hole(void **state) {
    struct shop *shop = *state;
    unsigned losses;
    shop_open(shop, 0);
    put_events(shop, 10);
    struct engine_event_id before = {shop->next.lsn - 2, 9};
    engine_record_write_lost(shop->records, (struct engine_event_id){shop->next.lsn, 0});
    shop->used = RECORD_HEAD;
    shop->next.lsn++;
    put_events(shop, 10);
    assert_int_equal(read_through(shop, before, &losses), 10);
    assert_int_equal(losses, 1);
    assert_int_equal(read_through(shop, ENGINE_EVENTS_OLDEST, &losses), 20);
    assert_int_equal(losses, 1);
}

/* ---- Damage ---- */

static void flushed_files(struct shop *shop) {
    shop->options.events_max = 1600; /* 16 files of 100 */
    shop_open(shop, 0);
    put_events(shop, 1000);
    assert_true(engine_store_flush(shop->store, shop->next.lsn - 1));
    shop_close(shop);
}

static void assert_hole(struct shop *shop, uint64_t missing) {
    unsigned losses;
    shop_open(shop, shop->next.lsn - 1);
    assert_int_equal(read_through(shop, ENGINE_EVENTS_OLDEST, &losses), 1000 - missing);
    assert_int_equal(losses, 1);
    assert_int_equal(shop->notices, 1);
    assert_int_equal(read_through(shop, ENGINE_EVENTS_OLDEST, &losses), 1000 - missing);
    put_events(shop, 100);
    assert_int_equal(read_through(shop, ENGINE_EVENTS_OLDEST, &losses), 1100 - missing);
    assert_int_equal(losses, 1);
}

static void damaged_records_are_a_hole(void **state) {
    struct shop *shop = *state;
    flushed_files(shop);
    fakeos_file_flip(shop->machine, "data/events-0000000000000003", 1000, 3);
    assert_hole(shop, 100);
    assert_int_equal(stats_of(shop).lost, 100);
}

static void a_damaged_block_header_is_a_hole(void **state) {
    struct shop *shop = *state;
    flushed_files(shop);
    fakeos_file_flip(shop->machine, "data/events-0000000000000004", 512 + 30, 0);
    assert_hole(shop, 100);
}

static void a_damaged_file_header_is_a_hole(void **state) {
    struct shop *shop = *state;
    flushed_files(shop);
    fakeos_file_flip(shop->machine, "data/events-0000000000000005", 9, 0);
    assert_hole(shop, 100);
}

static void a_missing_file_is_a_hole(void **state) {
    struct shop *shop = *state;
    flushed_files(shop);
    fakeos_file_remove(shop->machine, "data/events-0000000000000006");
    unsigned losses;
    shop_open(shop, shop->next.lsn - 1);
    assert_int_equal(read_through(shop, ENGINE_EVENTS_OLDEST, &losses), 900);
    assert_int_equal(losses, 1);
}

static void without_any_file_it_begins_anew(void **state) {
    struct shop *shop = *state;
    unsigned losses;
    flushed_files(shop);
    for (unsigned i = 1; i <= 10; i++) {
        char path[64];
        (void)snprintf(path, sizeof path, "data/events-%016x", i);
        fakeos_file_remove(shop->machine, path);
    }
    assert_int_equal(fakeos_file_count(shop->machine, "data", NULL), 0);
    struct engine_event_id before = {shop->next.lsn - 2, 0};
    shop_open(shop, shop->next.lsn - 1);
    put_events(shop, 10);
    assert_int_equal(read_through(shop, before, &losses), 10);
    assert_int_equal(losses, 1);
    assert_whole(shop, 10);
}

/* ---- A disk that takes nothing ---- */

static void a_full_disk_costs_events_and_nothing_else(void **state) {
    struct shop *shop = *state;
    unsigned losses;
    shop->padding = 120;
    shop->options.events_max = 1000000;
    shop_open(shop, 0);
    put_events(shop, 10000);
    fakeos_space_set(shop->machine, fakeos_space_used(shop->machine));
    put_events(shop, 100000);
    struct engine_store_stats stats = stats_of(shop);
    assert_true(stats.failing);
    assert_int_equal(shop->notices, 1);
    assert_true(stats.lost > 10000);
    assert_int_equal(stats.events + stats.lost, 110000);
    assert_int_equal(read_through(shop, ENGINE_EVENTS_OLDEST, &losses), stats.events);
    assert_int_equal(losses, 1);
    assert_false(engine_store_flush(shop->store, shop->next.lsn - 1));

    fakeos_space_set(shop->machine, UINT64_MAX);
    fakeos_clock_advance(shop->machine, 1000);
    put_events(shop, 10000);
    assert_false(stats_of(shop).failing);
    assert_int_equal(shop->notices, 2);
    assert_true(engine_store_flush(shop->store, shop->next.lsn - 1));
    uint64_t events = stats_of(shop).events;
    shop_close(shop);
    fakeos_reboot(shop->machine);
    shop_open(shop, shop->next.lsn - 1);
    assert_int_equal(read_through(shop, ENGINE_EVENTS_OLDEST, &losses), events);
    assert_int_equal(losses, 1);
}

static void the_logs_reserve_is_not_touched(void **state) {
    struct shop *shop = *state;
    shop->options.space_reserve_bytes = 1 << 20;
    fakeos_space_set(shop->machine, 1 << 19);
    shop_open(shop, 0);
    put_events(shop, 100);
    assert_false(engine_store_flush(shop->store, shop->next.lsn - 1));
    assert_int_equal(fakeos_file_count(shop->machine, "data", "events-"), 0);
    assert_whole(shop, 100);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        SHOP_TEST(reading_crosses_from_files_to_memory),
        SHOP_TEST(any_id_is_found),
        SHOP_TEST(the_oldest_files_go),
        SHOP_TEST(what_goes_while_it_is_read_was_the_oldest),
        SHOP_TEST(a_smaller_bound_drops_at_the_start),
        SHOP_TEST(a_store_without_files_keeps_what_fits),
        SHOP_TEST(events_larger_than_a_block_are_kept),
        SHOP_TEST(those_that_had_no_memory_leave_a_hole),
        SHOP_TEST(damaged_records_are_a_hole),
        SHOP_TEST(a_damaged_block_header_is_a_hole),
        SHOP_TEST(a_damaged_file_header_is_a_hole),
        SHOP_TEST(a_missing_file_is_a_hole),
        SHOP_TEST(without_any_file_it_begins_anew),
        SHOP_TEST(a_full_disk_costs_events_and_nothing_else),
        SHOP_TEST(the_logs_reserve_is_not_touched),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
