/* Events read back through the public header, across an opening. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include <tenure.h>

#include "lib/enginekit.h"

/* What a reader has been shown, as lines. */
struct story {
    char text[4096];
    unsigned count;
};

static bool tell(void *ctx, const struct tenure_event *event) {
    struct story *story = ctx;
    size_t used = strlen(story->text);
    (void)snprintf(story->text + used, sizeof story->text - used, "%llu.%u %s %s %s [%u]%s\n",
                   (unsigned long long)event->lsn, event->index, event->kind, event->name,
                   event->holder, event->value_count,
                   event->value_count > 0 ? event->values[event->value_count - 1].text : "");
    story->count++;
    return true;
}

static struct tenure *open_dir(const char *dir, uint64_t events_max) {
    struct tenure_options options;
    struct tenure_error error;
    struct tenure *t;
    const struct tenure_limit small[] = {{"leases_max", 1000}, {"members_max", 1000}};
    tenure_options_init(&options, dir);
    options.limits = small;
    options.limit_count = 2;
    options.events_max = events_max;
    if (tenure_open(&options, &t, &error) != TENURE_STATUS_OK) {
        fail_msg("%s", error.text);
    }
    return t;
}

static void take(struct tenure *t, const char *holder, uint32_t count) {
    const struct tenure_claim claim = {.pool = "ports", .count = count};
    const struct tenure_ask ask = {.holder = holder, .claims = &claim, .claim_count = 1};
    assert_int_equal(tenure_alloc(t, &ask, NULL, NULL), TENURE_OK);
}

static void events_are_read_back_after_an_opening(void **state) {
    static struct story before;
    static struct story after;
    struct tenure_events_span span;
    const struct tenure_option options[] = {{"lo", "1"}, {"hi", "500"}};
    char dir[128];
    (void)state;
    ekit_dir_make(dir);
    struct tenure *t = open_dir(dir, 100);
    assert_int_equal(tenure_pool_create(t, "ports", options, 2, NULL, NULL), TENURE_OK);
    take(t, "one", 1);
    take(t, "many", 40);
    struct tenure_event_id start = {0};
    assert_int_equal(tenure_events_read(t, start, 10, tell, &before, &span), TENURE_OK);
    assert_string_equal(before.text, "2.0 pool.created ports  [0]\n"
                                     "3.0 lease.active ports one [1]1\n"
                                     "4.0 lease.active ports many [40]41\n");
    assert_false(span.lost || span.more);
    struct tenure_event_id middle = {.lsn = 3};
    assert_int_equal(tenure_close(t), TENURE_STATUS_OK);

    t = open_dir(dir, 100);
    assert_int_equal(tenure_events_read(t, start, 10, tell, &after, &span), TENURE_OK);
    assert_string_equal(after.text, before.text);
    after = (struct story){0};
    take(t, "later", 2);
    assert_int_equal(tenure_events_read(t, middle, 1, tell, &after, &span), TENURE_OK);
    assert_int_equal(after.count, 1);
    assert_int_equal(span.next.lsn, 4);
    assert_true(span.more);
    struct tenure_event_id none = {.lsn = UINT64_MAX};
    assert_int_equal(tenure_events_read(t, none, 10, tell, &after, &span), TENURE_OK);
    assert_int_equal(after.count, 1);
    assert_int_equal(span.next.lsn, span.newest.lsn);
    assert_int_equal(tenure_close(t), TENURE_STATUS_OK);

    t = open_dir(dir, 0);
    assert_int_equal(tenure_events_read(t, start, 10, tell, &after, &span), TENURE_NOTFOUND);
    take(t, "unseen", 1);
    assert_int_equal(tenure_close(t), TENURE_STATUS_OK);
    t = open_dir(dir, 100); /* events without a store are missing, and reported as missing */
    take(t, "seen", 1);
    after = (struct story){0};
    assert_int_equal(tenure_events_read(t, middle, 100, tell, &after, &span), TENURE_OK);
    assert_int_equal(after.count, 2);
    assert_true(span.more);
    assert_int_equal(tenure_events_read(t, span.next, 100, tell, &after, &span), TENURE_OK);
    assert_true(span.lost);
    assert_non_null(strstr(after.text, " seen "));
    assert_null(strstr(after.text, " unseen "));
    assert_int_equal(tenure_close(t), TENURE_STATUS_OK);
    ekit_dir_remove(dir);
}

static bool tell_payload(void *ctx, const struct tenure_event *event) {
    struct story *story = ctx;
    (void)snprintf(story->text, sizeof story->text, "%s %s %s %.*s", event->kind, event->name,
                   event->trigger, (int)event->payload_len, event->payload);
    story->count++;
    return true;
}

static void what_a_sensor_emits_is_read_back_with_its_payload(void **state) {
    static struct story story;
    struct tenure_events_span span;
    struct tenure_reply reply;
    const struct tenure_caller supervisor = {.rights =
                                                 TENURE_RIGHT_OPERATOR | TENURE_RIGHT_SUPERVISOR};
    const struct tenure_option options[] = {{"kind", "set"}, {"internal", "yes"}};
    const char *const names[] = {"core.timer"};
    char dir[128];
    (void)state;
    ekit_dir_make(dir);
    struct tenure *t = open_dir(dir, 100);
    assert_int_equal(tenure_pool_create(t, "sensors", options, 2, &supervisor, NULL), TENURE_OK);
    assert_int_equal(tenure_pool_add(t, "sensors", names, 1, &supervisor, NULL), TENURE_OK);
    assert_int_equal(tenure_alloc_any(t, "sensors", "run", 1, &supervisor, &reply), TENURE_OK);
    struct tenure_command emit = {.verb = TENURE_VERB_EMIT,
                                  .caller = supervisor,
                                  .lease = reply.lease,
                                  .epoch = reply.epoch,
                                  .name = "core.timer",
                                  .trigger = "timer",
                                  .meta = "{\"n\":1}",
                                  .meta_len = 7};
    assert_int_equal(tenure_execute(t, &emit, &reply), TENURE_OK);
    struct tenure_event_id before = {.lsn = reply.lsn - 1, .index = UINT32_MAX};
    assert_int_equal(tenure_close(t), TENURE_STATUS_OK);
    t = open_dir(dir, 100);
    assert_int_equal(tenure_events_read(t, before, 1, tell_payload, &story, &span), TENURE_OK);
    assert_string_equal(story.text, "sensor.emitted core.timer timer {\"n\":1}");
    assert_int_equal(tenure_close(t), TENURE_STATUS_OK);
    ekit_dir_remove(dir);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(events_are_read_back_after_an_opening),
        cmocka_unit_test(what_a_sensor_emits_is_read_back_with_its_payload),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
