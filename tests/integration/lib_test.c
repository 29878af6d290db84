/* libtenure as a program sees it: the public header and nothing else. */
/* tsan */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <pthread.h>

#include <tenure.h>

#include "lib/enginekit.h"

/* A library in a directory of its own, with a clock that the test moves. */
struct world {
    char dir[128];
    struct tenure_options options;
    struct tenure *t;
    pthread_mutex_t lock;
    uint64_t wall_ms;
    unsigned events;
    char last_kind[32];
    char last_value[TENURE_POOL_MAX + TENURE_VALUE_MAX + 2];
    unsigned metrics;
    struct tenure_metrics last_metrics;
    unsigned notices;
};

static uint64_t clock_read(void *ctx) {
    struct world *world = ctx;
    pthread_mutex_lock(&world->lock);
    uint64_t ms = world->wall_ms;
    pthread_mutex_unlock(&world->lock);
    return ms;
}

static void clock_advance(struct world *world, uint64_t ms) {
    pthread_mutex_lock(&world->lock);
    world->wall_ms += ms;
    pthread_mutex_unlock(&world->lock);
}

static void on_event(void *ctx, const struct tenure_event *event) {
    struct world *world = ctx;
    pthread_mutex_lock(&world->lock);
    world->events++;
    (void)snprintf(world->last_kind, sizeof world->last_kind, "%s", event->kind);
    if (event->value_count > 0) {
        (void)snprintf(world->last_value, sizeof world->last_value, "%s/%s", event->values[0].pool,
                       event->values[0].text);
    }
    pthread_mutex_unlock(&world->lock);
}

static void on_metrics(void *ctx, const struct tenure_metrics *metrics) {
    struct world *world = ctx;
    world->metrics++;
    world->last_metrics = *metrics;
}

static void on_notice(void *ctx, const char *line) {
    struct world *world = ctx;
    assert_non_null(strstr(line, "="));
    pthread_mutex_lock(&world->lock);
    world->notices++;
    pthread_mutex_unlock(&world->lock);
}

static const struct tenure_limit small[] = {
    {"leases_max", 20000},   {"members_max", 40000}, {"history_max", 4096},
    {"names_max", 40000},    {"ops_max", 4096},      {"text_bytes_max", 8388608},
    {"sticky_pools_max", 8}, {"pools_max", 128},
};

static void world_open(struct world *world) {
    struct tenure_error error;
    enum tenure_status status = tenure_open(&world->options, &world->t, &error);
    if (status != TENURE_STATUS_OK) {
        fail_msg("%s: %s", tenure_status_name(status), error.text);
    }
}

static int world_make(void **state) {
    struct world *world = calloc(1, sizeof *world);
    assert_non_null(world);
    ekit_dir_make(world->dir);
    pthread_mutex_init(&world->lock, NULL);
    world->wall_ms = 1700000000000;
    tenure_options_init(&world->options, world->dir);
    world->options.limits = small;
    world->options.limit_count = sizeof small / sizeof small[0];
    world->options.segment_bytes = 1 << 20;
    world->options.manual_ticks = true;
    world->options.clock = (struct tenure_clock){world, clock_read, clock_read};
    world->options.on_event = on_event;
    world->options.event_ctx = world;
    world->options.on_metrics = on_metrics;
    world->options.metrics_ctx = world;
    world->options.on_notice = on_notice;
    world->options.notice_ctx = world;
    world_open(world);
    *state = world;
    return 0;
}

static int world_free(void **state) {
    struct world *world = *state;
    assert_int_equal(tenure_close(world->t), TENURE_STATUS_OK);
    ekit_dir_remove(world->dir);
    pthread_mutex_destroy(&world->lock);
    free(world);
    return 0;
}

static void world_reopen(struct world *world) {
    assert_int_equal(tenure_close(world->t), TENURE_STATUS_OK);
    world_open(world);
}

static void make_ports(struct world *world) {
    const struct tenure_option options[] = {{"lo", "30000"}, {"hi", "30099"}, {"lease", "60"}};
    assert_int_equal(tenure_pool_create(world->t, "ports", options, 3, NULL, NULL), TENURE_OK);
}

static void make_gpus(struct world *world) {
    const struct tenure_option options[] = {{"kind", "set"}};
    const char *const names[] = {"gpu-0", "gpu-1", "gpu-2", "gpu-3"};
    assert_int_equal(tenure_pool_create(world->t, "gpu", options, 1, NULL, NULL), TENURE_OK);
    struct tenure_reply reply;
    assert_int_equal(tenure_pool_add(world->t, "gpu", names, 4, NULL, &reply), TENURE_OK);
    assert_int_equal(reply.number, 4);
}

/* ---- ---- */

static void a_lease_survives_closing(void **state) {
    struct world *world = *state;
    struct tenure_reply reply;
    struct tenure_lease lease;
    make_ports(world);
    assert_int_equal(tenure_alloc_any(world->t, "ports", "job/1", 1, NULL, &reply), TENURE_OK);
    assert_int_equal(reply.outcome, TENURE_COMMITTED);
    assert_true(reply.has_lease);
    assert_int_equal(reply.value_count, 1);
    assert_string_equal(reply.values[0].text, "30000");
    assert_string_equal(reply.values[0].pool, "ports");
    assert_int_equal(reply.deadline_ms, reply.now_ms + 60000);
    uint64_t before;
    uint64_t after;
    assert_int_equal(tenure_state_hash(world->t, &before), TENURE_OK);
    world_reopen(world);
    assert_int_equal(tenure_state_hash(world->t, &after), TENURE_OK);
    assert_true(before == after);
    assert_int_equal(tenure_lease_read(world->t, reply.lease, 0, &lease), TENURE_OK);
    assert_int_equal(lease.state, TENURE_LEASE_ACTIVE);
    assert_string_equal(lease.holder, "job/1");
    assert_string_equal(lease.values[0].text, "30000");
    assert_string_equal(lease.values[0].pool, "ports");
    assert_true(world->notices > 0);
}

static void a_bundle_is_all_or_nothing(void **state) {
    struct world *world = *state;
    struct tenure_reply reply;
    make_ports(world);
    make_gpus(world);
    const struct tenure_requested wanted[] = {{.text = "gpu-2"}, {.text = "gpu-0"}};
    const struct tenure_claim claims[] = {{.pool = "ports", .count = 6},
                                          {.pool = "gpu", .count = 2, .values = wanted}};
    const struct tenure_ask ask = {
        .holder = "job/1", .claims = claims, .claim_count = 2, .meta = "{\"n\":1}", .meta_len = 7};
    assert_int_equal(tenure_alloc(world->t, &ask, NULL, &reply), TENURE_OK);
    assert_int_equal(reply.value_count, 8);
    assert_ptr_not_equal(reply.values, reply.first);
    assert_string_equal(reply.values[5].pool, "ports");
    assert_string_equal(reply.values[6].pool, "gpu");
    assert_string_equal(reply.values[6].text, "gpu-2");
    assert_int_equal(reply.values[6].claim, 1);
    assert_true(reply.values[6].named);
    struct tenure_lease_id id = reply.lease;
    uint64_t epoch = reply.epoch;
    tenure_reply_free(&reply);

    struct tenure_value values[16];
    uint32_t count = 0;
    assert_int_equal(tenure_lease_values(world->t, id, 3, values, 16, &count), TENURE_OK);
    assert_int_equal(count, 5);
    assert_string_equal(values[4].text, "gpu-0");
    char meta[16];
    size_t len = 0;
    assert_int_equal(tenure_lease_meta(world->t, id, meta, sizeof meta, &len), TENURE_OK);
    assert_int_equal(len, 7);
    assert_memory_equal(meta, "{\"n\":1}", 7);

    /* gpu-0 is taken, so the port is not given either. */
    assert_int_equal(tenure_alloc(world->t, &ask, NULL, &reply), TENURE_BUSY);
    assert_int_equal(reply.outcome, TENURE_COMMITTED);
    struct tenure_pool pool;
    assert_int_equal(tenure_pool_info(world->t, "ports", 0, &pool), TENURE_OK);
    assert_int_equal(pool.active_count, 6);
    assert_int_equal(pool.free_count, 94);
    assert_int_equal(tenure_release(world->t, id, "job/1", epoch, false, NULL, &reply), TENURE_OK);
    assert_int_equal(tenure_pool_info(world->t, "gpu", 0, &pool), TENURE_OK);
    assert_int_equal(pool.active_count, 0);
    assert_true(pool.is_set);
}

static void every_step_of_a_lease_has_its_call(void **state) {
    struct world *world = *state;
    struct tenure *t = world->t;
    struct tenure_reply reply;
    make_ports(world);
    const struct tenure_claim claim = {.pool = "ports", .count = 1};
    const struct tenure_ask ask = {
        .holder = "a", .claims = &claim, .claim_count = 1, .has_ttl = true, .ttl_s = 10};
    assert_int_equal(tenure_reserve(t, &ask, NULL, &reply), TENURE_OK);
    assert_int_equal(reply.state, TENURE_LEASE_RESERVED);
    struct tenure_lease_id id = reply.lease;
    assert_int_equal(tenure_activate(t, id, "b", 1, NULL, NULL), TENURE_HOLDER);
    assert_int_equal(tenure_activate(t, id, "a", 1, NULL, &reply), TENURE_OK);
    assert_int_equal(reply.state, TENURE_LEASE_ACTIVE);
    const struct tenure_renewal renewal = {.meta = "x", .meta_len = 1};
    assert_int_equal(tenure_touch(t, id, 1, &renewal, NULL, &reply), TENURE_OK);
    assert_int_equal(tenure_rekey(t, id, 1, "b", NULL, &reply), TENURE_OK);
    assert_int_equal(reply.epoch, 2);
    assert_int_equal(tenure_verify(t, id, 1, 0, NULL), TENURE_STALE);
    assert_int_equal(tenure_verify(t, id, 2, 0, NULL), TENURE_OK);
    assert_int_equal(tenure_verify(t, id, 2, reply.lsn, NULL), TENURE_OK);
    assert_int_equal(tenure_verify(t, id, 2, UINT64_MAX, NULL), TENURE_NOT_YET);
    const uint32_t after_s = 30;
    assert_int_equal(tenure_revoke(t, id, &after_s, NULL, &reply), TENURE_OK);
    assert_int_equal(reply.state, TENURE_LEASE_REVOKING);
    assert_int_equal(tenure_ack(t, id, "b", 2, NULL, &reply), TENURE_OK);
    assert_int_equal(reply.state, TENURE_LEASE_REVOKED);

    assert_int_equal(tenure_alloc_any(t, "ports", "c", 1, NULL, &reply), TENURE_OK);
    id = reply.lease;
    assert_int_equal(tenure_revoke(t, id, NULL, NULL, NULL), TENURE_OK);
    assert_int_equal(tenure_reclaim(t, id, NULL, NULL), TENURE_OK);
    assert_int_equal(tenure_alloc_any(t, "ports", "d", 2, NULL, NULL), TENURE_OK);
    assert_int_equal(tenure_alloc_any(t, "ports", "d", 2, NULL, NULL), TENURE_OK);
    assert_int_equal(tenure_disown(t, "d", NULL, NULL, &reply), TENURE_OK);
    assert_int_equal(tenure_tick(t), TENURE_OK);
    struct tenure_pool pool;
    assert_int_equal(tenure_pool_info(t, "ports", 0, &pool), TENURE_OK);
    assert_int_equal(pool.active_count, 0);
}

static void time_is_the_clock_that_was_given(void **state) {
    struct world *world = *state;
    struct tenure_reply reply;
    struct tenure_lease lease;
    make_ports(world);
    assert_int_equal(tenure_alloc_any(world->t, "ports", "a", 1, NULL, &reply), TENURE_OK);
    assert_int_equal(reply.now_ms, 1700000000000);
    clock_advance(world, 59999);
    assert_int_equal(tenure_verify(world->t, reply.lease, 1, 0, NULL), TENURE_OK);
    clock_advance(world, 1);
    assert_int_not_equal(tenure_verify(world->t, reply.lease, 1, 0, &lease), TENURE_OK);
    assert_int_equal(lease.state, TENURE_LEASE_EXPIRED);
    assert_string_equal(lease.reason, "expired");

    assert_int_equal(tenure_alloc_any(world->t, "ports", "b", 1, NULL, NULL), TENURE_OK);
    clock_advance(world, 60000);
    assert_int_equal(tenure_sweep(world->t, "ports", NULL, &reply), TENURE_OK);
    assert_int_equal(reply.number, 1);
}

static void the_longest_range_fits(void **state) {
    struct world *world = *state;
    char spans[2048], text[4096];
    for (unsigned i = 0, len = 0; i < 64; i++) {
        len += (unsigned)snprintf(spans + len, sizeof spans - len, "%s%u-%u", i > 0 ? "," : "",
                                  1000 + 10 * i, 1004 + 10 * i);
    }
    const struct tenure_option options[] = {{"range", spans},
                                            {"exclude", "1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16"}};
    assert_int_equal(tenure_pool_create(world->t, "long", options, 2, NULL, NULL), TENURE_OK);
    assert_int_equal(tenure_pool_option(world->t, "long", "range", text, sizeof text), TENURE_OK);
    assert_string_equal(text, spans);
}

static void pools_are_declared_altered_listed_dropped(void **state) {
    struct world *world = *state;
    struct tenure *t = world->t;
    struct tenure_reply reply;
    char text[128];
    make_ports(world);
    make_gpus(world);
    const struct tenure_option mac[] = {{"lo", "52:54:00:00:00:00"},
                                        {"hi", "52:54:00:ff:ff:ff"},
                                        {"format", "mac"},
                                        {"strategy", "random"},
                                        {"exclude", "52:54:00:00:00:00-52:54:00:00:00:ff"}};
    assert_int_equal(tenure_pool_create(t, "mac", mac, 5, NULL, &reply), TENURE_OK);
    assert_int_equal(tenure_alloc_any(t, "mac", "vm/1", 1, NULL, &reply), TENURE_OK);
    assert_memory_equal(reply.values[0].text, "52:54:00:", 9);
    assert_int_equal(tenure_pool_option(t, "mac", "strategy", text, sizeof text), TENURE_OK);
    assert_string_equal(text, "random");
    assert_int_equal(tenure_pool_option(t, "mac", "hi", text, sizeof text), TENURE_OK);
    assert_string_equal(text, "52:54:00:ff:ff:ff");
    assert_int_equal(tenure_pool_option(t, "mac", "exclude", text, sizeof text), TENURE_OK);
    assert_string_equal(text, "52:54:00:00:00:00-52:54:00:00:00:ff");
    assert_int_equal(tenure_pool_option(t, "mac", "colour", text, sizeof text), TENURE_BAD_REQUEST);

    const struct tenure_option change[] = {{"lease", "5"}, {"cooldown", "7"}};
    assert_int_equal(tenure_pool_alter(t, "ports", change, 2, NULL, NULL), TENURE_OK);
    assert_int_equal(tenure_pool_option(t, "ports", "cooldown", text, sizeof text), TENURE_OK);
    assert_string_equal(text, "7");
    assert_int_equal(tenure_pool_drop(t, "mac", NULL, NULL), TENURE_POOL_IN_USE);
    const char *const gone[] = {"gpu-3"};
    assert_int_equal(tenure_pool_remove(t, "gpu", gone, 1, NULL, NULL), TENURE_OK);

    struct tenure_pool page[2];
    uint64_t cursor = 0;
    uint32_t count = 0;
    unsigned seen = 0;
    do {
        assert_int_equal(tenure_pool_list(t, &cursor, page, 2, &count), TENURE_OK);
        seen += count;
    } while (cursor != 0);
    assert_int_equal(seen, 3);
    assert_int_equal(tenure_pool_drop(t, "ports", NULL, NULL), TENURE_OK);
    assert_int_equal(tenure_pool_info(t, "ports", 0, page), TENURE_POOL_NOTFOUND);
}

static void what_makes_no_sense_is_rejected_with_a_reason(void **state) {
    struct world *world = *state;
    struct tenure_reply reply;
    static const struct tenure_option wrong[][1] = {
        {{"colour", "red"}},     {{"lo", "many"}},
        {{"sticky", "perhaps"}}, {{"high_rate_min_factor", "0.1234567"}},
        {{"exclude", "5-"}},     {{"lease", "99999999999"}},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        assert_int_equal(tenure_pool_create(world->t, "x", wrong[i], 1, NULL, &reply),
                         TENURE_BAD_POLICY);
        assert_int_equal(reply.outcome, TENURE_REJECTED);
        assert_true(strlen(reply.detail) > 0);
    }
    struct tenure_command command = {.verb = TENURE_VERB_RELEASE};
    assert_int_equal(tenure_execute(world->t, &command, &reply), TENURE_MALFORMED);
    assert_non_null(strstr(reply.detail, "holder"));
    command = (struct tenure_command){.verb = TENURE_VERB_TICK, .has_ttl = true};
    assert_int_equal(tenure_execute(world->t, &command, &reply), TENURE_MALFORMED);
    assert_non_null(strstr(reply.detail, "ttl_s"));
    command = (struct tenure_command){.verb = (enum tenure_verb)200};
    assert_int_equal(tenure_execute(world->t, &command, &reply), TENURE_MALFORMED);
    char *large = calloc(1, 70000);
    assert_non_null(large);
    memset(large, 'x', 69999);
    assert_int_equal(tenure_pool_drop(world->t, large, NULL, &reply), TENURE_TOO_LARGE);
    assert_int_equal(reply.outcome, TENURE_REJECTED);
    free(large);
}

static void an_operation_id_makes_a_write_repeatable(void **state) {
    struct world *world = *state;
    struct tenure_reply first;
    struct tenure_reply again;
    make_ports(world);
    const struct tenure_caller caller = {.opid = "request-1"};
    assert_int_equal(tenure_alloc_any(world->t, "ports", "a", 6, &caller, &first), TENURE_OK);
    world_reopen(world);
    assert_int_equal(tenure_alloc_any(world->t, "ports", "a", 6, &caller, &again), TENURE_OK);
    assert_true(again.replayed);
    assert_int_equal(again.lsn, first.lsn);
    assert_int_equal(again.value_count, 6);
    assert_string_equal(again.values[5].text, first.values[5].text);
    assert_string_equal(again.values[5].pool, "ports");
    tenure_reply_free(&first);
    tenure_reply_free(&again);
    assert_int_equal(tenure_alloc_any(world->t, "ports", "b", 1, &caller, NULL), TENURE_CONFLICT);
}

static void rights_come_with_the_caller(void **state) {
    struct world *world = *state;
    const struct tenure_caller guest = {.user = "guest"};
    const struct tenure_caller other = {.user = "other"};
    struct tenure_reply reply;
    make_ports(world);
    assert_int_equal(tenure_pool_drop(world->t, "ports", &guest, NULL), TENURE_DENIED);
    assert_int_equal(tenure_alloc_any(world->t, "ports", "a", 1, &guest, &reply), TENURE_OK);
    assert_int_equal(tenure_release(world->t, reply.lease, "a", 1, false, &other, NULL),
                     TENURE_DENIED);
    struct tenure_lease lease;
    assert_int_equal(tenure_lease_read(world->t, reply.lease, 0, &lease), TENURE_OK);
    assert_string_equal(lease.user, "guest");
    assert_int_equal(tenure_release(world->t, reply.lease, "a", 1, false, &guest, NULL), TENURE_OK);
}

static void leases_are_found_by_value_and_by_filter(void **state) {
    struct world *world = *state;
    struct tenure *t = world->t;
    struct tenure_lease page[8];
    make_ports(world);
    make_gpus(world);
    for (unsigned i = 0; i < 60; i++) {
        char holder[16];
        (void)snprintf(holder, sizeof holder, "job/%u", i % 3);
        assert_int_equal(tenure_alloc_any(t, i < 57 ? "ports" : "gpu", holder, 1, NULL, NULL),
                         TENURE_OK);
    }
    const struct tenure_filter filter = {.pool = "ports", .holder = "job/1"};
    const struct tenure_filter nowhere = {.pool = "nosuch"};
    uint64_t cursor = 0;
    uint32_t count = 0;
    unsigned seen = 0;
    assert_int_equal(tenure_leases(t, &nowhere, &cursor, page, 8, &count), TENURE_POOL_NOTFOUND);
    do {
        assert_int_equal(tenure_leases(t, &filter, &cursor, page, 8, &count), TENURE_OK);
        for (uint32_t i = 0; i < count; i++) {
            assert_string_equal(page[i].holder, "job/1");
            assert_string_equal(page[i].values[0].pool, "ports");
        }
        seen += count;
    } while (cursor != 0);
    assert_int_equal(seen, 19);

    const struct tenure_requested text = {.text = "30007"};
    const struct tenure_requested number = {.number = 30007};
    assert_int_equal(tenure_lease_by_value(t, "ports", &text, 0, &page[0]), TENURE_OK);
    assert_int_equal(tenure_lease_by_value(t, "ports", &number, 0, &page[1]), TENURE_OK);
    assert_true(page[0].id.lsn == page[1].id.lsn);
    const struct tenure_requested absent = {.number = 30099};
    assert_int_equal(tenure_lease_by_value(t, "ports", &absent, 0, &page[0]), TENURE_NOTFOUND);
    assert_int_equal(tenure_lease_by_value(t, "nowhere", &text, 0, &page[0]), TENURE_POOL_NOTFOUND);
}

/* The disk refuses new segments, and the rest of the old segment fills up. */
static void disk_fill(struct world *world) {
    assert_int_equal(tenure_close(world->t), TENURE_STATUS_OK);
    world->options.segment_bytes = 65536;
    world->options.space_reserve_bytes = UINT64_C(1) << 60;
    world_open(world);
    enum tenure_result code;
    do {
        code = tenure_tick(world->t);
    } while (code == TENURE_OK);
    assert_int_equal(code, TENURE_NOSPACE);
}

static void on_a_full_disk_no_lease_lives_past_its_deadline(void **state) {
    struct world *world = *state;
    struct tenure_reply made;
    struct tenure_lease lease;
    struct tenure_pool pool;
    const struct tenure_filter active = {.state = TENURE_LEASE_ACTIVE};
    uint64_t cursor = 0;
    uint32_t count = 0;
    make_ports(world);
    assert_int_equal(tenure_alloc_any(world->t, "ports", "a", 1, NULL, &made), TENURE_OK);
    assert_true(made.deadline_ms > 0);
    disk_fill(world);
    struct tenure *t = world->t;
    assert_int_equal(tenure_verify(t, made.lease, made.epoch, 0, NULL), TENURE_OK);
    clock_advance(world, made.deadline_ms - world->wall_ms);
    assert_int_equal(tenure_verify(t, made.lease, made.epoch, 0, &lease), TENURE_OVERDUE);
    assert_int_equal(lease.state, TENURE_LEASE_OVERDUE);
    assert_string_equal(tenure_state_name(lease.state), "overdue");
    assert_int_equal(tenure_lease_read(t, made.lease, 0, &lease), TENURE_OK);
    assert_int_equal(lease.state, TENURE_LEASE_OVERDUE);
    const struct tenure_requested value = {.text = made.values[0].text};
    assert_int_equal(tenure_lease_by_value(t, "ports", &value, 0, &lease), TENURE_OK);
    assert_int_equal(lease.state, TENURE_LEASE_OVERDUE);
    assert_int_equal(tenure_leases(t, &active, &cursor, &lease, 1, &count), TENURE_OK);
    assert_int_equal(count, 0);
    assert_int_equal(tenure_pool_info(t, "ports", 0, &pool), TENURE_OK);
    assert_int_equal(pool.overdue_since_ms, made.deadline_ms);
}

static void rules_and_sensors_meet_at_their_trigger(void **state) {
    struct world *world = *state;
    struct tenure *t = world->t;
    struct tenure_sensor sensor;
    struct tenure_rule rule;
    char spec[64] = "";
    assert_int_equal(tenure_sensor_set(t, "timer", "core.timer", true, "run me", 6, NULL, NULL),
                     TENURE_OK);
    assert_int_equal(tenure_sensor_read(t, "timer", &sensor, spec, sizeof spec), TENURE_OK);
    assert_false(sensor.wanted);
    assert_int_equal(sensor.spec_len, 6);
    assert_memory_equal(spec, "run me", 6);
    assert_int_equal(tenure_rule_set(t, "r1", "core.timer", true, NULL, NULL), TENURE_OK);
    assert_int_equal(tenure_sensor_read(t, "timer", &sensor, NULL, 0), TENURE_OK);
    assert_true(sensor.wanted);
    assert_int_equal(sensor.active_rules, 1);
    assert_int_equal(tenure_rule_enable(t, "r1", false, NULL, NULL), TENURE_OK);
    assert_int_equal(tenure_rule_read(t, "r1", &rule), TENURE_OK);
    assert_false(rule.enabled);
    assert_string_equal(rule.trigger, "core.timer");
    uint64_t cursor = 0;
    uint32_t count = 0;
    assert_int_equal(tenure_rule_list(t, &cursor, &rule, 1, &count), TENURE_OK);
    assert_int_equal(count, 1);
    cursor = 0;
    assert_int_equal(tenure_sensor_list(t, &cursor, &sensor, 1, &count), TENURE_OK);
    assert_int_equal(count, 1);
    assert_int_equal(tenure_sensor_enable(t, "timer", false, NULL, NULL), TENURE_OK);
    assert_int_equal(tenure_rule_delete(t, "r1", NULL, NULL), TENURE_OK);
    assert_int_equal(tenure_sensor_delete(t, "timer", NULL, NULL), TENURE_OK);
    assert_int_equal(tenure_sensor_read(t, "timer", &sensor, NULL, 0), TENURE_NOTFOUND);
}

/* ---- Callbacks ---- */

struct later {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    unsigned done;
    unsigned ok;
    uint32_t values;
    char pool[TENURE_POOL_MAX + 1];
};

static void later_done(void *ctx, const struct tenure_reply *reply) {
    struct later *later = ctx;
    pthread_mutex_lock(&later->lock);
    later->done++;
    later->ok += reply->code == TENURE_OK;
    later->values += reply->value_count;
    if (reply->value_count > 0) {
        strcpy(later->pool, reply->values[reply->value_count - 1].pool);
    }
    pthread_cond_broadcast(&later->changed);
    pthread_mutex_unlock(&later->lock);
}

static void submitted_commands_call_back(void **state) {
    struct world *world = *state;
    struct later later = {.done = 0};
    pthread_mutex_init(&later.lock, NULL);
    pthread_cond_init(&later.changed, NULL);
    make_ports(world);
    make_gpus(world);
    const struct tenure_claim bundle[] = {{.pool = "ports", .count = 7},
                                          {.pool = "gpu", .count = 1}};
    struct tenure_command command = {
        .verb = TENURE_VERB_ALLOC, .holder = "a", .claims = bundle, .claim_count = 2};
    unsigned accepted = 0;
    for (unsigned i = 0; i < 6; i++) {
        accepted += tenure_submit(world->t, &command, later_done, &later) == TENURE_OK;
    }
    command.holder = NULL;
    assert_int_equal(tenure_submit(world->t, &command, later_done, &later), TENURE_MALFORMED);
    pthread_mutex_lock(&later.lock);
    while (later.done < accepted) {
        pthread_cond_wait(&later.changed, &later.lock);
    }
    pthread_mutex_unlock(&later.lock);
    assert_int_equal(later.done, 6);
    assert_int_equal(later.ok, 4); /* there are four gpus */
    assert_int_equal(later.values, 4 * 8);
    assert_string_equal(later.pool, "gpu");
    pthread_cond_destroy(&later.changed);
    pthread_mutex_destroy(&later.lock);
}

static void events_arrive_before_the_call_returns(void **state) {
    struct world *world = *state;
    make_ports(world);
    assert_string_equal(world->last_kind, "pool.created");
    unsigned before = world->events;
    assert_int_equal(tenure_alloc_any(world->t, "ports", "a", 1, NULL, NULL), TENURE_OK);
    assert_int_equal(world->events, before + 1);
    assert_string_equal(world->last_kind, "lease.active");
    assert_string_equal(world->last_value, "ports/30000");
}

static void sticky_pools_report_their_metrics(void **state) {
    struct world *world = *state;
    struct tenure_reply reply;
    const struct tenure_option sticky[] = {
        {"sticky", "yes"}, {"base_lease_seconds", "3600"}, {"high_rate_min_factor", "0.5"}};
    assert_int_equal(tenure_pool_create(world->t, "ids", sticky, 3, NULL, NULL), TENURE_OK);
    assert_int_equal(tenure_alloc_any(world->t, "ids", "dev/1", 0, NULL, &reply), TENURE_OK);
    assert_string_equal(reply.values[0].text, "1");
    assert_int_equal(tenure_tick(world->t), TENURE_OK);
    assert_int_equal(world->metrics, 1);
    assert_string_equal(world->last_metrics.pool, "ids");
    assert_int_equal(world->last_metrics.allocated_count, 1);
    struct tenure_metrics metrics;
    assert_int_equal(tenure_pool_metrics(world->t, "ids", 0, &metrics), TENURE_OK);
    assert_int_equal(metrics.base_lease_seconds, 3600);
    make_ports(world);
    assert_int_equal(tenure_pool_metrics(world->t, "ports", 0, &metrics), TENURE_BAD_REQUEST);
    /* The same device gets the same id, after being away, too. */
    assert_int_equal(tenure_release(world->t, reply.lease, "dev/1", 1, false, NULL, NULL),
                     TENURE_OK);
    assert_int_equal(tenure_alloc_any(world->t, "ids", "dev/1", 0, NULL, &reply), TENURE_OK);
    assert_string_equal(reply.values[0].text, "1");
    assert_int_equal(reply.epoch, 3);
}

/* ---- The directory ---- */

static void opening_says_what_is_wrong(void **state) {
    struct world *world = *state;
    struct tenure *second = NULL;
    struct tenure_error error;
    assert_int_equal(tenure_open(&world->options, &second, &error), TENURE_STATUS_LOCKED);
    assert_non_null(strstr(error.text, world->dir));
    assert_int_equal(tenure_open(&world->options, &second, NULL), TENURE_STATUS_LOCKED);
    struct tenure_options options = world->options;
    const struct tenure_limit unknown = {"dragons_max", 1};
    options.limits = &unknown;
    options.limit_count = 1;
    assert_int_equal(tenure_open(&options, &second, &error), TENURE_STATUS_INVALID);
    assert_non_null(strstr(error.text, "dragons_max"));
    options.size = 3;
    assert_int_equal(tenure_open(&options, &second, &error), TENURE_STATUS_INVALID);
    assert_null(second);
}

static void figures_add_up(void **state) {
    struct world *world = *state;
    struct tenure_stats stats;
    struct tenure_error error;
    make_ports(world);
    for (unsigned i = 0; i < 10; i++) {
        assert_int_equal(tenure_alloc_any(world->t, "ports", "a", 2, NULL, NULL), TENURE_OK);
    }
    assert_int_equal(tenure_snapshot(world->t, &error), TENURE_STATUS_OK);
    assert_int_equal(tenure_stats_read(world->t, &stats), TENURE_OK);
    assert_int_equal(stats.lsn, 12);
    assert_int_equal(stats.leases, 10);
    assert_int_equal(stats.members, 20);
    assert_int_equal(stats.pools, 1);
    assert_int_equal(stats.snapshots, 1);
    assert_int_equal(stats.snapshot_lsn, 12);
    assert_int_equal(stats.halted, TENURE_OK);
}

static void a_restored_directory_gives_out_other_ids(void **state) {
    struct world *world = *state;
    struct tenure_reply before;
    struct tenure_reply after;
    make_ports(world);
    assert_int_equal(tenure_alloc_any(world->t, "ports", "a", 1, NULL, &before), TENURE_OK);
    world->options.restored = true;
    world_reopen(world);
    world->options.restored = false;
    assert_int_equal(tenure_alloc_any(world->t, "ports", "a", 1, NULL, &after), TENURE_OK);
    assert_int_equal(after.lease.shard, before.lease.shard + ((uint64_t)1 << 32));
}

static void ids_and_names_have_texts(void **state) {
    struct tenure_lease_id id = {.shard = (uint64_t)7 << 32 | 3, .lsn = UINT64_MAX};
    struct tenure_lease_id read;
    char text[TENURE_LEASE_ID_TEXT];
    (void)state;
    tenure_lease_id_format(id, text);
    assert_true(tenure_lease_id_parse(text, &read));
    assert_true(read.shard == id.shard && read.lsn == id.lsn);
    static const char *const bad[] = {"",  "-",    "1-",   "-1",
                                      "1", "1-2x", "01-2", "1-18446744073709551616"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        assert_false(tenure_lease_id_parse(bad[i], &read));
    }
    assert_string_equal(tenure_result_name(TENURE_EXHAUSTED), "EXHAUSTED");
    assert_string_equal(tenure_state_name(TENURE_LEASE_OFFLINE), "offline");
    assert_string_equal(tenure_version(), TENURE_VERSION);
    for (int number = 100; number < 1000000; number *= 10) {
        assert_string_equal(tenure_result_name((enum tenure_result)number), "?");
        assert_string_equal(tenure_result_text((enum tenure_result)number), "?");
        assert_string_equal(tenure_status_name((enum tenure_status)number), "?");
        assert_string_equal(tenure_state_name((enum tenure_state)number), "?");
    }
}

#define WORLD_TEST(name) cmocka_unit_test_setup_teardown(name, world_make, world_free)

int main(void) {
    const struct CMUnitTest tests[] = {
        WORLD_TEST(a_lease_survives_closing),
        WORLD_TEST(a_bundle_is_all_or_nothing),
        WORLD_TEST(every_step_of_a_lease_has_its_call),
        WORLD_TEST(time_is_the_clock_that_was_given),
        WORLD_TEST(pools_are_declared_altered_listed_dropped),
        WORLD_TEST(the_longest_range_fits),
        WORLD_TEST(what_makes_no_sense_is_rejected_with_a_reason),
        WORLD_TEST(an_operation_id_makes_a_write_repeatable),
        WORLD_TEST(rights_come_with_the_caller),
        WORLD_TEST(leases_are_found_by_value_and_by_filter),
        WORLD_TEST(on_a_full_disk_no_lease_lives_past_its_deadline),
        WORLD_TEST(rules_and_sensors_meet_at_their_trigger),
        WORLD_TEST(submitted_commands_call_back),
        WORLD_TEST(events_arrive_before_the_call_returns),
        WORLD_TEST(sticky_pools_report_their_metrics),
        WORLD_TEST(opening_says_what_is_wrong),
        WORLD_TEST(figures_add_up),
        WORLD_TEST(a_restored_directory_gives_out_other_ids),
        cmocka_unit_test(ids_and_names_have_texts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
