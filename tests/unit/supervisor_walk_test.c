/* Walks through very many sensors: a few in each turn of the loop, and in the end all of them. No
 * process is started here. */
#include "unit/supervisor_desk.h"

#define SENSORS 1500u
/* Items of a notice, and of a walk. */
#define TURN_MOST (SUPERVISOR_DEMAND_MAX + SUPERVISOR_WALK_MAX)
#define NEVER_MS 3600000u

static void sensor_set(struct desk *d, unsigned i) {
    char ref[16];
    (void)snprintf(ref, sizeof ref, "s%u", i);
    run(d, (struct kernel_command){.verb = KERNEL_VERB_SENSOR_SET,
                                   .fields = KERNEL_F_NAME | KERNEL_F_TRIGGER | KERNEL_F_SPEC |
                                             KERNEL_F_ENABLED,
                                   .name = bytes_of(ref),
                                   .trigger = bytes_of("t"),
                                   .spec = bytes_of("{\"command\":[\"/bin/true\"]}"),
                                   .enabled = true});
}

static void sensor_delete(struct desk *d, unsigned i) {
    char ref[16];
    (void)snprintf(ref, sizeof ref, "s%u", i);
    run(d, (struct kernel_command){
               .verb = KERNEL_VERB_SENSOR_DELETE, .fields = KERNEL_F_NAME, .name = bytes_of(ref)});
}

static void rule_set(struct desk *d, bool enabled) {
    run(d, (struct kernel_command){.verb = KERNEL_VERB_RULE_SET,
                                   .fields = KERNEL_F_NAME | KERNEL_F_TRIGGER | KERNEL_F_ENABLED,
                                   .name = bytes_of("r"),
                                   .trigger = bytes_of("t"),
                                   .enabled = enabled});
}

static int desk_make(void **state) {
    struct desk *d = desk_new(2 * SENSORS);
    for (unsigned i = 0; i < SENSORS; i++) {
        sensor_set(d, i);
    }
    d->defaults.settle_ms = NEVER_MS;
    desk_open(d, (struct supervisor_cluster){0});
    *state = d;
    return 0;
}

typedef bool is_done(const struct desk *d, const struct supervisor_sensor *sensor);

static unsigned count(const struct desk *d, is_done *done) {
    unsigned found = 0;
    for (const struct supervisor_sensor *s = d->supervisor->sensors; s != NULL; s = s->next) {
        found += done(d, s);
    }
    return found;
}

/* One turn, in which at most `most` sensors may be done. Returns how many are done. */
static unsigned turn(struct desk *d, is_done *done, unsigned most) {
    unsigned before = count(d, done);
    (void)uv_run(&d->loop, UV_RUN_NOWAIT);
    unsigned after = count(d, done);
    assert_true(after <= before + most);
    return after;
}

static bool is_as_set(const struct desk *d, const struct supervisor_sensor *sensor) {
    return sensor->plan.terms.stop_ms == d->defaults.stop_ms;
}

static void defaults_change(struct desk *d, uint64_t stop_ms) {
    d->defaults.stop_ms = stop_ms;
    supervisor_defaults_set(d->supervisor, &d->defaults);
}

static void other_defaults_are_taken_a_few_at_a_time(void **state) {
    struct desk *d = *state;
    assert_int_equal(count(d, is_as_set), SENSORS);
    defaults_change(d, 1234);
    assert_int_equal(count(d, is_as_set), 0);
    while (turn(d, is_as_set, SUPERVISOR_WALK_MAX) < SENSORS) {
    }
    while (d->supervisor->walk.what != 0) { /* and ends */
        (void)uv_run(&d->loop, UV_RUN_NOWAIT);
    }
}

static void defaults_that_change_again_meanwhile_are_taken_too(void **state) {
    struct desk *d = *state;
    for (unsigned i = 0; i < 20; i++) { /* the sensors at the end get their turn, too */
        defaults_change(d, 1234 + i);
        (void)turn(d, is_as_set, SUPERVISOR_WALK_MAX);
    }
    while (turn(d, is_as_set, SUPERVISOR_WALK_MAX) < SENSORS) {
    }
}

static void whoever_goes_or_comes_meanwhile_is_no_harm(void **state) {
    struct desk *d = *state;
    d->defaults.settle_ms = 0; /* deleted sensors are ended at once */
    defaults_change(d, 1234);
    unsigned gone = 0;
    while (turn(d, is_as_set, TURN_MOST) < SENSORS) {
        const struct supervisor_sensor *next = d->supervisor->walk.at;
        if (next != NULL && gone < 50) {
            sensor_delete(d, (unsigned)strtoul(next->ref + 1, NULL, 10));
            sensor_set(d, SENSORS + gone++);
        }
    }
    while (d->supervisor->sensor_count != SENSORS || count(d, is_as_set) < SENSORS) {
        (void)uv_run(&d->loop, UV_RUN_NOWAIT);
    }
    assert_true(gone > 0);
}

static bool is_wanted(const struct desk *d, const struct supervisor_sensor *sensor) {
    (void)d;
    return sensor->plan.wanted;
}

static bool is_unwanted(const struct desk *d, const struct supervisor_sensor *sensor) {
    return !is_wanted(d, sensor);
}

static void a_rule_that_wants_very_many_is_heard_a_few_at_a_time(void **state) {
    struct desk *d = *state;
    rule_set(d, true);
    while (turn(d, is_wanted, TURN_MOST) < SENSORS) {
    }
    rule_set(d, false);
    while (turn(d, is_unwanted, TURN_MOST) < SENSORS) {
    }
}

/* Without the log for good, the server ends the supervisor. */
static void news_that_comes_while_the_log_is_renewed_late_is_taken(void **state) {
    struct desk *d = *state;
    rule_set(d, true);
    fakelog_expire(d->log);
    while (turn(d, is_wanted, TURN_MOST) < SENSORS) {
        assert_false(d->supervisor->halted);
    }
    fakelog_renew(d->log);
}

/* A token says what was committed, so a start does not end because the log is renewed late. Whichever of the
 * first questions whether it is owned is answered with no. (/bin/true is not a guardian: nothing runs.) */
static void a_late_renewal_refuses_no_token(void **state) {
    (void)state;
    for (unsigned late = 1; late <= 8; late++) {
        struct desk *d = desk_new(1);
        const struct os *os = fakeos_table(d->machine);
        char reason[TOKEN_REASON_MAX];
        d->tokens = (struct token_issuer){.engine = d->engine, .name = "t", .ttl_max_s = 100};
        assert_int_equal(os->make_dir(os->ctx, "/d"), TN_OK);
        assert_int_equal(
            token_keys_open(&d->tokens.keys, os, "/d", 100, token_now(&d->tokens), reason), TN_OK);
        sensor_set(d, 0);
        rule_set(d, true);
        d->defaults.settle_ms = 0;
        desk_open(d, (struct supervisor_cluster){0});
        fakelog_expire_at(d->log, late);
        while (d->supervisor->totals.tokens_issued == 0) {
            assert_null(strstr(d->supervisor->sensors->last_error, "no token"));
            (void)uv_run(&d->loop, UV_RUN_ONCE);
        }
        fakelog_expire_at(d->log, 0);
        struct token_keys keys = d->tokens.keys;
        (void)desk_drop((void **)&d);
        token_keys_close(&keys);
    }
}

static bool is_known(const struct desk *d, const struct supervisor_sensor *sensor) {
    (void)d;
    return sensor->known;
}

/* More news than fit: all is read again, the engine's own list as well. */
static void what_was_missed_is_found_a_few_at_a_time(void **state) {
    struct desk *d = *state;
    d->feed.missed = SUPERVISOR_MISSED_SOME;
    supervisor_feed_connect(&d->feed, NULL); /* nobody hears of what follows */
    for (unsigned i = 0; i < 200; i++) {
        sensor_set(d, SENSORS + i);
    }
    supervisor_feed_connect(&d->feed, d->supervisor);
    (void)uv_async_send(&d->supervisor->news);
    while (turn(d, is_known, SUPERVISOR_WALK_MAX) < SENSORS + 200) {
    }
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, desk_make, desk_drop)

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(other_defaults_are_taken_a_few_at_a_time),
        TEST(defaults_that_change_again_meanwhile_are_taken_too),
        TEST(whoever_goes_or_comes_meanwhile_is_no_harm),
        TEST(news_that_comes_while_the_log_is_renewed_late_is_taken),
        cmocka_unit_test(a_late_renewal_refuses_no_token),
        TEST(a_rule_that_wants_very_many_is_heard_a_few_at_a_time),
        TEST(what_was_missed_is_found_a_few_at_a_time),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
