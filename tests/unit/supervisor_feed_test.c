/* The feed of the supervisor: the news that it collects until they are taken. */
#include "unit/unit.h"

#include "supervisor/supervisor_parts.h"

/* A supervisor that can be woken, and nothing more. */
struct desk {
    uv_loop_t loop;
    struct supervisor *supervisor;
    struct supervisor_feed feed;
};

static void on_news(uv_async_t *async) {
    (void)async;
}

static int desk_make(void **state) {
    struct desk *d = calloc(1, sizeof *d);
    d->supervisor = calloc(1, sizeof *d->supervisor);
    assert_int_equal(uv_loop_init(&d->loop), 0);
    assert_int_equal(uv_async_init(&d->loop, &d->supervisor->news, on_news), 0);
    supervisor_feed_init(&d->feed);
    supervisor_feed_connect(&d->feed, d->supervisor);
    *state = d;
    return 0;
}

static int desk_drop(void **state) {
    struct desk *d = *state;
    supervisor_feed_free(&d->feed);
    uv_close((uv_handle_t *)&d->supervisor->news, NULL);
    assert_int_equal(uv_run(&d->loop, UV_RUN_DEFAULT), 0);
    assert_int_equal(uv_loop_close(&d->loop), 0);
    free(d->supervisor);
    free(d);
    return 0;
}

static void happens(struct desk *d, enum kernel_event_kind kind, const char *name) {
    struct kernel_event fact = {.kind = kind, .name = tn_bytes_of(name, strlen(name)), .number = 1};
    supervisor_feed_watch(&d->feed, &fact);
}

static void revoked(struct desk *d, const char *holder, uint64_t lsn) {
    struct kernel_event fact = {.kind = KERNEL_EVENT_LEASE_REVOKING,
                                .user = tn_bytes_of(SUPERVISOR_USER, strlen(SUPERVISOR_USER)),
                                .holder = tn_bytes_of(holder, strlen(holder)),
                                .lease = {.lsn = lsn}};
    supervisor_feed_watch(&d->feed, &fact);
}

static void assert_next(struct desk *d, enum supervisor_notice_kind kind, const char *name) {
    struct supervisor_notice notice;
    assert_true(supervisor_feed_take(&d->feed, &notice));
    assert_int_equal(notice.kind, kind);
    assert_int_equal(notice.len, strlen(name));
    assert_memory_equal(notice.name, name, notice.len);
}

static void assert_empty(struct desk *d) {
    struct supervisor_notice notice;
    assert_false(supervisor_feed_take(&d->feed, &notice));
    assert_int_equal(supervisor_feed_overflowed(&d->feed), SUPERVISOR_MISSED_NONE);
}

static void what_changes_often_is_looked_at_once(void **state) {
    struct desk *d = *state;
    for (unsigned i = 0; i < 100000; i++) {
        happens(d, KERNEL_EVENT_DEMAND_CHANGED, "core.timer");
        happens(d, KERNEL_EVENT_RULE_SET, "mine");
        happens(d, KERNEL_EVENT_DEMAND_CHANGED, "core.webhook");
    }
    assert_next(d, SUPERVISOR_DEMAND_CHANGED, "core.timer");
    assert_next(d, SUPERVISOR_RULE_SET, "mine");
    assert_next(d, SUPERVISOR_DEMAND_CHANGED, "core.webhook");
    assert_empty(d);
}

static void what_changes_after_it_was_taken_is_told_again(void **state) {
    struct desk *d = *state;
    for (unsigned i = 0; i < 10000; i++) {
        happens(d, KERNEL_EVENT_SENSOR_SET, "core.timer");
        assert_next(d, SUPERVISOR_SENSOR_CHANGED, "core.timer");
    }
    assert_empty(d);
}

static void the_same_name_of_another_kind_is_something_else(void **state) {
    struct desk *d = *state;
    happens(d, KERNEL_EVENT_SENSOR_SET, "x");
    happens(d, KERNEL_EVENT_DEMAND_CHANGED, "x");
    happens(d, KERNEL_EVENT_RULE_SET, "x");
    happens(d, KERNEL_EVENT_SENSOR_DELETED, "x");
    assert_next(d, SUPERVISOR_SENSOR_CHANGED, "x");
    assert_next(d, SUPERVISOR_DEMAND_CHANGED, "x");
    assert_next(d, SUPERVISOR_RULE_SET, "x");
    assert_empty(d);
}

static void each_revoked_lease_is_told(void **state) {
    struct desk *d = *state;
    struct supervisor_notice notice;
    revoked(d, "sensor/a", 7);
    revoked(d, "sensor/a", 7);
    revoked(d, "sensor/a", 8);
    revoked(d, "sensor/", 9);
    assert_true(supervisor_feed_take(&d->feed, &notice));
    assert_int_equal(notice.lease.lsn, 7);
    assert_true(supervisor_feed_take(&d->feed, &notice));
    assert_int_equal(notice.lease.lsn, 8);
    assert_empty(d);
}

/* Each of many different news items arrives, or the notice that there were too many. */
static void none_of_many_is_missed(void **state) {
    struct desk *d = *state;
    char name[32];
    struct supervisor_notice notice;
    for (unsigned i = 0; i < 4096; i++) {
        (void)snprintf(name, sizeof name, "trigger.%u", i);
        happens(d, KERNEL_EVENT_DEMAND_CHANGED, name);
    }
    assert_int_equal(supervisor_feed_overflowed(&d->feed), SUPERVISOR_MISSED_NONE);
    happens(d, KERNEL_EVENT_DEMAND_CHANGED, "one more");
    assert_int_equal(supervisor_feed_overflowed(&d->feed), SUPERVISOR_MISSED_SOME);
    happens(d, KERNEL_EVENT_RULE_SET, "one more");
    happens(d, KERNEL_EVENT_DEMAND_CHANGED, "and another");
    assert_int_equal(supervisor_feed_overflowed(&d->feed), SUPERVISOR_MISSED_RULES);
    for (unsigned i = 0; i < 4096; i++) {
        (void)snprintf(name, sizeof name, "trigger.%u", i);
        assert_next(d, SUPERVISOR_DEMAND_CHANGED, name);
    }
    assert_false(supervisor_feed_take(&d->feed, &notice));
    assert_empty(d);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, desk_make, desk_drop)

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(what_changes_often_is_looked_at_once),
        TEST(what_changes_after_it_was_taken_is_told_again),
        TEST(the_same_name_of_another_kind_is_something_else),
        TEST(each_revoked_lease_is_told),
        TEST(none_of_many_is_missed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
