/* The store of events by itself, on a machine in memory, and functions to fill and to read it: the
 * base of the store's tests. */
#ifndef TESTS_UNIT_STORE_SHOP_H
#define TESTS_UNIT_STORE_SHOP_H

#include "unit/unit.h"

#include "engine/record.h"
#include "engine/store.h"
#include "lib/fakeos.h"

struct shop {
    struct fakeos *machine;
    struct engine_store_options options;
    struct engine_store *store;
    struct tn_prng random;
    struct engine_event_id next; /* id of the next event */
    uint32_t padding;            /* length of the holder of each event */
    uint8_t records[1 << 16];
    uint32_t used;
    unsigned notices;
    /* What a reader has seen. */
    struct engine_event_id first, last;
    uint64_t seen;
    uint64_t enough;
};

static inline void take_notice(void *ctx, const char *line) {
    struct shop *shop = ctx;
    assert_true(strncmp(line, "event=events_", 13) == 0);
    shop->notices++;
}

static inline int shop_make(void **state) {
    struct shop *shop = calloc(1, sizeof *shop);
    assert_non_null(shop);
    shop->machine = fakeos_new(1);
    shop->random = unit_random();
    shop->options = (struct engine_store_options){.os = fakeos_table(shop->machine),
                                                  .dir = "data",
                                                  .events_max = 100000,
                                                  .no_thread = true,
                                                  .notice = take_notice,
                                                  .notice_ctx = shop};
    shop->next = (struct engine_event_id){1, 0};
    shop->padding = 20;
    *state = shop;
    return 0;
}

static inline void shop_open(struct shop *shop, uint64_t snapshot_lsn) {
    assert_int_equal(engine_store_open(&shop->options, &shop->store), TN_OK);
    engine_store_replay(shop->store, snapshot_lsn);
}

static inline void shop_close(struct shop *shop) {
    engine_store_close(shop->store);
    shop->store = NULL;
}

static inline int shop_free(void **state) {
    struct shop *shop = *state;
    if (shop->store != NULL) {
        shop_close(shop);
    }
    fakeos_free(shop->machine);
    free(shop);
    return 0;
}

/* ---- Writing ---- */

static inline void put_event(struct shop *shop) {
    static const uint8_t holder[KERNEL_HOLDER_MAX] = "somebody";
    struct kernel_event fact = {.lsn = shop->next.lsn,
                                .index = shop->next.index,
                                .now_ms = shop->next.lsn * 10 + shop->next.index,
                                .kind = KERNEL_EVENT_HOLDER_DISOWNED,
                                .holder = tn_bytes_of(holder, shop->padding)};
    shop->used += (uint32_t)engine_record_write(shop->records + shop->used, NULL, &fact);
}

static inline void hand_over(struct shop *shop) {
    (void)engine_store_append(shop->store, tn_bytes_of(shop->records, shop->used),
                              shop->next.lsn - 1);
    shop->used = 0;
}

/* Commands of up to three events, the last one of none, until there are `count` more events. */
static inline void put_events(struct shop *shop, uint64_t count) {
    while (count > 0) {
        uint32_t of_this = 1 + unit_below(&shop->random, 3);
        for (uint32_t i = 0; i < of_this && count > 0; i++, count--) {
            shop->next.index = i;
            put_event(shop);
        }
        shop->next = (struct engine_event_id){shop->next.lsn + 1, 0};
        if (shop->used > sizeof shop->records / 2) {
            hand_over(shop);
        }
    }
    shop->next.lsn++;
    hand_over(shop);
}

/* ---- Reading ---- */

static inline bool see(void *ctx, const struct engine_event *event) {
    struct shop *shop = ctx;
    struct engine_event_id id = {event->fact.lsn, event->fact.index};
    assert_int_equal(event->fact.now_ms, id.lsn * 10 + id.index);
    if (shop->seen == shop->enough) {
        return false;
    }
    if (shop->seen > 0) { /* the next index, or the first of the next command that had any */
        bool follows = (id.lsn == shop->last.lsn && id.index == shop->last.index + 1) ||
                       (id.lsn > shop->last.lsn && id.lsn <= shop->last.lsn + 2 && id.index == 0);
        assert_true(follows);
    } else {
        shop->first = id;
    }
    shop->last = id;
    shop->seen++;
    return true;
}

static inline struct engine_events_span read_some(struct shop *shop, struct engine_event_id after,
                                                  uint32_t max) {
    struct engine_events_span span;
    shop->seen = 0;
    shop->enough = UINT64_MAX;
    assert_int_equal(engine_store_read(shop->store, after, max, see, shop, &span), TN_R_OK);
    return span;
}

static inline void assert_id(struct engine_event_id a, struct engine_event_id b) {
    assert_int_equal(a.lsn, b.lsn);
    assert_int_equal(a.index, b.index);
}

static inline struct engine_store_stats stats_of(struct shop *shop) {
    struct engine_store_stats stats;
    engine_store_stats(shop->store, &stats);
    return stats;
}

/* Reads in steps to the end; returns how many there were and how often something was lost. */
static inline uint64_t read_through(struct shop *shop, struct engine_event_id after,
                                    unsigned *ret_losses) {
    uint64_t total = 0;
    struct engine_events_span span;
    *ret_losses = 0;
    do {
        span = read_some(shop, after, 1 + unit_below(&shop->random, 2000));
        total += shop->seen;
        *ret_losses += span.lost;
        after = span.next;
    } while (span.more);
    return total;
}

static inline void assert_whole(struct shop *shop, uint64_t count) {
    unsigned losses;
    assert_int_equal(read_through(shop, ENGINE_EVENTS_OLDEST, &losses), count);
    assert_int_equal(losses, 0);
    assert_int_equal(stats_of(shop).events, count);
}

#define SHOP_TEST(name) cmocka_unit_test_setup_teardown(name, shop_make, shop_free)

#endif
