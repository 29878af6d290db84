/* The supervisor with real processes, on an engine whose log the test controls: full disks, failing
 * disks, and more news than fit. */
/* tsan */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "lib/enginekit.h"
#include "lib/fakelog.h"
#include "lib/runkit.h"
#include "process/run_record.h"
#include "supervisor/supervisor.h"

struct world {
    struct runkit kit;
    struct fakelog *log;
    struct engine_options options;
    struct engine *engine;
    struct supervisor_feed feed;
    struct token_issuer tokens;
    struct supervisor *supervisor;
    bool closed;
};

/* The supervisor's lines, as they came; there is one world at a time. */
static char lines[1 << 20];

static void log_line(const char *line) {
    size_t len = strlen(lines);
    (void)snprintf(lines + len, sizeof lines - len, "%s\n", line);
}

static unsigned said(const char *text) {
    unsigned count = 0;
    for (const char *at = lines; (at = strstr(at, text)) != NULL; at++) {
        count++;
    }
    return count;
}

/* ---- The world ---- */

static void supervise_idle(struct world *w, bool idle) {
    struct supervisor_options options = {.loop = &w->kit.loop,
                                         .engine = w->engine,
                                         .feed = &w->feed,
                                         .tokens = &w->tokens,
                                         .os = os_posix(),
                                         .dir = w->kit.sensors,
                                         .guardian = w->kit.guardian,
                                         .defaults = sensor_defaults_make(),
                                         .seed = 1,
                                         .idle = idle,
                                         .log = log_line};
    options.defaults.containment = SENSOR_CONTAINMENT_NONE; /* dummies write the pids that we see */
    options.defaults.settle_ms = 20;
    options.defaults.stop_ms = 2000;
    options.defaults.backoff_ms = 20;
    options.defaults.backoff_max_ms = 40;
    options.defaults.max_restarts = 2;
    w->closed = false;
    w->supervisor = supervisor_open(&options);
    assert_non_null(w->supervisor);
}

static void supervise(struct world *w) {
    supervise_idle(w, false);
}

static void on_closed(void *ctx) {
    struct world *w = ctx;
    assert_false(w->closed);
    w->closed = true;
}

static bool is_closed(void *ctx) {
    const struct world *w = ctx;
    return w->closed;
}

static void unsupervise(struct world *w) {
    supervisor_close(w->supervisor, on_closed, w);
    runkit_wait(&w->kit, is_closed, w);
    supervisor_free(w->supervisor);
    w->supervisor = NULL;
}

static int world_open(void **state) {
    static struct world w;
    char reason[TOKEN_REASON_MAX];
    w = (struct world){.log = fakelog_new()};
    lines[0] = '\0';
    (void)prctl(PR_SET_CHILD_SUBREAPER, 1);
    runkit_open(&w.kit);
    supervisor_feed_init(&w.feed);
    ekit_limits_small(&w.options);
    w.options.log = fakelog_base(w.log);
    w.options.store = fakelog_store(w.log);
    w.options.manual_ticks = true;
    w.options.events_max = 1000;
    w.engine = ekit_open(&w.options);
    supervisor_feed_attach(&w.feed, w.engine);
    w.tokens = (struct token_issuer){.engine = w.engine, .name = "t", .ttl_max_s = 100};
    assert_int_equal(
        token_keys_open(&w.tokens.keys, os_posix(), w.kit.dir, 100, token_now(&w.tokens), reason),
        TN_OK);
    supervise(&w);
    *state = &w;
    return 0;
}

static int world_close(void **state) {
    struct world *w = *state;
    if (w->supervisor != NULL) {
        unsupervise(w);
    }
    token_keys_close(&w->tokens.keys);
    (void)engine_close(w->engine);
    supervisor_feed_free(&w->feed);
    fakelog_free(w->log);
    runkit_close(&w->kit);
    return 0;
}

/* ---- What users do ---- */

static struct tn_bytes bytes_of(const char *text) {
    return tn_bytes_of(text, strlen(text));
}

static enum tn_result demand(struct world *w, enum kernel_verb verb, const char *name,
                             const char *trigger, const char *spec, bool enabled) {
    struct kernel_command command = {.verb = verb,
                                     .rights = KERNEL_RIGHT_OPERATOR,
                                     .fields = KERNEL_F_NAME,
                                     .name = bytes_of(name),
                                     .enabled = enabled};
    struct ekit_command encoded;
    struct ekit_answer answer;
    if (verb != KERNEL_VERB_SENSOR_DELETE) {
        command.fields |= KERNEL_F_ENABLED;
    }
    if (trigger != NULL) {
        command.fields |= KERNEL_F_TRIGGER;
        command.trigger = bytes_of(trigger);
    }
    if (spec != NULL) {
        command.fields |= KERNEL_F_SPEC;
        command.spec = bytes_of(spec);
    }
    ekit_command_copy(&encoded, &command);
    return ekit_run(w->engine, &encoded, &answer);
}

static void sensor_set(struct world *w, const char *ref, const char *words, const char *more) {
    char spec[2048];
    char *at = spec + snprintf(spec, sizeof spec, "{\"command\":[\"%s\"", w->kit.dummy);
    char copy[256];
    snprintf(copy, sizeof copy, "%s", words);
    for (char *word = strtok(copy, " "); word != NULL; word = strtok(NULL, " ")) {
        at += snprintf(at, (size_t)(spec + sizeof spec - at), ",\"%s\"", word);
    }
    snprintf(at, (size_t)(spec + sizeof spec - at), "],\"env\":{\"SENSOR_DUMMY_PIDS\":\"%s\"}%s}",
             w->kit.pids, more);
    assert_int_equal(demand(w, KERNEL_VERB_SENSOR_SET, ref, "t", spec, true), TN_R_OK);
}

static void rule(struct world *w, bool enabled) {
    assert_int_equal(demand(w, KERNEL_VERB_RULE_SET, "r", "t", NULL, enabled), TN_R_OK);
}

/* By an operator, plainly. */
static void lease_revoke(struct world *w, const char *ref) {
    struct engine_lease lease;
    struct kernel_requested requested = {.is_text = true, .text = bytes_of(ref)};
    assert_int_equal(engine_lease_by_value(w->engine, ENGINE_READ_CURRENT, bytes_of("sensors"),
                                           &requested, &lease),
                     TN_R_OK);
    struct kernel_command command = {.verb = KERNEL_VERB_REVOKE,
                                     .rights = KERNEL_RIGHT_OPERATOR,
                                     .fields = KERNEL_F_LEASE,
                                     .lease = lease.view.id};
    struct ekit_command encoded;
    struct ekit_answer answer;
    ekit_command_copy(&encoded, &command);
    assert_int_equal(ekit_run(w->engine, &encoded, &answer), TN_R_OK);
}

/* ---- What can be seen ---- */

static struct supervisor_status status_of(struct world *w, const char *ref) {
    struct supervisor_status status = {.state = PLAN_STATES};
    (void)supervisor_status(w->supervisor, bytes_of(ref), &status);
    return status;
}

struct state_wait {
    struct world *w;
    const char *ref;
    enum plan_state state;
};

static bool state_is(void *ctx) {
    const struct state_wait *wait = ctx;
    return status_of(wait->w, wait->ref).state == wait->state;
}

/* PLAN_STATES: it is forgotten. */
static void wait_state(struct world *w, const char *ref, enum plan_state state) {
    struct state_wait wait = {.w = w, .ref = ref, .state = state};
    runkit_wait(&w->kit, state_is, &wait);
}

static pid_t running(struct world *w, const char *ref) {
    wait_state(w, ref, PLAN_STATE_RUNNING);
    return (pid_t)status_of(w, ref).pid;
}

static bool lease_is(struct world *w, const char *ref, enum kernel_state state) {
    struct engine_lease lease;
    struct kernel_requested requested = {.is_text = true, .text = bytes_of(ref)};
    return engine_lease_by_value(w->engine, ENGINE_READ_CURRENT, bytes_of("sensors"), &requested,
                                 &lease) == TN_R_OK &&
           lease.view.state == state;
}

static bool is_dead(void *ctx) {
    const pid_t *pid = ctx;
    return runkit_is_dead(*pid);
}

/* ---- Tests ---- */

static void a_full_disk_keeps_the_resource_taken_and_not_the_process_alive(void **state) {
    struct world *w = *state;
    sensor_set(w, "s", "obey", "");
    rule(w, true);
    pid_t pid = running(w, "s");
    rule(w, false);
    fakelog_fail(w->log, TN_NOSPACE, UINT32_MAX, false);
    runkit_wait(&w->kit, is_dead, &pid);
    assert_int_equal(status_of(w, "s").state, PLAN_STATE_STOPPING);
    assert_true(lease_is(w, "s", KERNEL_ACTIVE));
    assert_true(said("event=sensor_waits sensor=s command=\"revoke\" result=NOSPACE") >= 1);
    assert_int_equal(said("event=sensor_stopped"), 0);
    fakelog_fail(w->log, TN_NOSPACE, 0, false);
    wait_state(w, "s", PLAN_STATE_STOPPED);
    assert_int_equal(said("event=sensor_stopped"), 1);
    assert_false(lease_is(w, "s", KERNEL_REVOKING));
    struct supervisor_status status = status_of(w, "s");
    assert_int_equal(status.starts, 1);
    assert_int_equal(status.stops, 1);
    assert_int_equal(status.crashes, 0);
    assert_int_equal(status.last_reason, PLAN_REASON_NO_RULES);
    assert_false(status.has_lease);
}

static void a_full_disk_delays_a_start_and_is_no_crash(void **state) {
    struct world *w = *state;
    sensor_set(w, "s", "obey", "");
    rule(w, true);
    fakelog_fail(w->log, TN_NOSPACE, UINT32_MAX, false);
    wait_state(w, "s", PLAN_STATE_BACKOFF);
    assert_true(status_of(w, "s").has_next);
    fakelog_fail(w->log, TN_NOSPACE, 0, false);
    (void)running(w, "s");
    assert_int_equal(status_of(w, "s").crashes, 0);
}

static void a_halted_engine_stops_what_runs(void **state) {
    struct world *w = *state;
    sensor_set(w, "s", "obey", "");
    sensor_set(w, "stubborn", "ignore-term", ",\"stop_seconds\":0.1");
    rule(w, true);
    pid_t obeys = running(w, "s");
    pid_t ignores = running(w, "stubborn");
    /* The last reports may be in flight: this is committed after them. */
    assert_int_equal(demand(w, KERNEL_VERB_RULE_SET, "last", "nobodys", NULL, true), TN_R_OK);
    unsigned stored = fakelog_batches(w->log);
    fakelog_fail(w->log, TN_IO, 1, false);
    assert_int_equal(demand(w, KERNEL_VERB_RULE_SET, "x", "t", NULL, true), TN_R_HALTED);
    supervisor_halt(w->supervisor);
    runkit_wait(&w->kit, is_dead, &obeys);
    runkit_wait(&w->kit, is_dead, &ignores);
    unsupervise(w);
    /* No other command was committed in between. */
    assert_int_equal(fakelog_batches(w->log), stored);
    assert_int_equal(said("reason=\"halted\""), 2);
    assert_int_equal(said("token_revoked=no"), 2);
}

static void an_engine_that_halts_is_noticed_by_the_next_request(void **state) {
    struct world *w = *state;
    sensor_set(w, "s", "obey", "");
    sensor_set(w, "u", "obey", "");
    rule(w, true);
    pid_t s = running(w, "s");
    pid_t u = running(w, "u");
    fakelog_fail(w->log, TN_IO, 1, false);
    assert_int_equal(supervisor_restart(w->supervisor, bytes_of("s")), TN_R_OK);
    runkit_wait(&w->kit, is_dead, &s);
    runkit_wait(&w->kit, is_dead, &u);
    assert_int_equal(said("event=supervisor_halted"), 1);
}

static void a_lease_that_could_not_be_ended_at_shutdown_is_ended_by_the_next_life(void **state) {
    struct world *w = *state;
    sensor_set(w, "s", "obey", "");
    rule(w, true);
    pid_t pid = running(w, "s");
    struct kernel_lease_id lease = status_of(w, "s").lease;
    fakelog_fail(w->log, TN_NOSPACE, UINT32_MAX, false);
    unsupervise(w);
    assert_true(runkit_is_dead(pid));
    assert_true(lease_is(w, "s", KERNEL_ACTIVE));
    fakelog_fail(w->log, TN_NOSPACE, 0, false);
    supervise(w);
    (void)running(w, "s");
    assert_true(kernel_lease_id_compare(status_of(w, "s").lease, lease) > 0);
    assert_int_equal(said("reason=\"orphaned\""), 1);
}

static void a_lease_of_a_deleted_sensor_is_ended_too(void **state) {
    struct world *w = *state;
    sensor_set(w, "s", "obey", "");
    rule(w, true);
    (void)running(w, "s");
    fakelog_fail(w->log, TN_NOSPACE, UINT32_MAX, false);
    unsupervise(w);
    fakelog_fail(w->log, TN_NOSPACE, 0, false);
    assert_int_equal(demand(w, KERNEL_VERB_SENSOR_DELETE, "s", NULL, NULL, false), TN_R_OK);
    supervise(w);
    wait_state(w, "s", PLAN_STATES);
    assert_false(lease_is(w, "s", KERNEL_ACTIVE));
    assert_false(lease_is(w, "s", KERNEL_REVOKING));
}

static bool is_removed(void *ctx) {
    return access(ctx, F_OK) != 0;
}

/* Its run is found out to be dead after the sensor was forgotten. */
static void nothing_is_left_of_a_deleted_sensor_that_had_run(void **state) {
    struct world *w = *state;
    struct run_record record = {.ref = "s", .boot = "another", .guardian = 1, .lease = {.lsn = 7}};
    char dir[256];
    char path[300];
    unsupervise(w);
    snprintf(dir, sizeof dir, "%s/s", w->kit.sensors);
    snprintf(path, sizeof path, "%s/log.1", dir);
    (void)mkdir(w->kit.sensors, 0700);
    assert_int_equal(mkdir(dir, 0700), 0);
    assert_int_equal(run_record_write(os_posix(), dir, &record), TN_OK);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fclose(file);
    supervise(w);
    runkit_wait(&w->kit, is_removed, dir);
}

/* Fills the feed with news about rules that no sensor has: news after that is not delivered one by
 * one. */
static void news_fill(struct world *w) {
    char id[32];
    for (unsigned i = 0; i < 4096; i++) {
        snprintf(id, sizeof id, "nobodys-%u", i);
        struct kernel_event fact = {
            .kind = KERNEL_EVENT_RULE_SET, .name = bytes_of(id), .number = 1};
        supervisor_feed_watch(&w->feed, &fact);
    }
}

static void news_that_are_all_missed_are_found_out(void **state) {
    struct world *w = *state;
    sensor_set(w, "s", "obey", "");
    sensor_set(w, "deleted", "obey", "");
    sensor_set(w, "revoked", "obey", "");
    rule(w, true);
    (void)running(w, "s");
    (void)running(w, "deleted");
    pid_t pid = running(w, "revoked");
    news_fill(w);
    sensor_set(w, "late", "obey", "");
    assert_int_equal(demand(w, KERNEL_VERB_SENSOR_DELETE, "deleted", NULL, NULL, false), TN_R_OK);
    assert_int_equal(demand(w, KERNEL_VERB_SENSOR_ENABLE, "s", NULL, NULL, false), TN_R_OK);
    lease_revoke(w, "revoked");
    (void)running(w, "late");
    wait_state(w, "s", PLAN_STATE_STOPPED);
    wait_state(w, "deleted", PLAN_STATES);
    runkit_wait(&w->kit, is_dead, &pid);
    assert_true(running(w, "revoked") != pid);
}

static bool has_crashed_six_times(void *ctx) {
    struct supervisor_status status = status_of(ctx, "s");
    return status.crashes == 6 && status.state == PLAN_STATE_ERROR;
}

static void a_rule_that_was_missed_clears_an_error(void **state) {
    struct world *w = *state;
    sensor_set(w, "s", "exit 7", "");
    rule(w, true);
    wait_state(w, "s", PLAN_STATE_ERROR);
    news_fill(w);
    assert_int_equal(demand(w, KERNEL_VERB_RULE_SET, "another", "t", NULL, true), TN_R_OK);
    runkit_wait(&w->kit, has_crashed_six_times, w);
    /* What is not about rules does not. */
    news_fill(w);
    sensor_set(w, "late", "obey", "");
    (void)running(w, "late");
    assert_int_equal(status_of(w, "s").state, PLAN_STATE_ERROR);
    assert_int_equal(status_of(w, "s").crashes, 6);
}

static void more_news_than_fit_are_no_news_lost(void **state) {
    struct world *w = *state;
    sensor_set(w, "s", "obey", "");
    sensor_set(w, "deleted", "obey", "");
    rule(w, true);
    (void)running(w, "s");
    (void)running(w, "deleted");
    for (unsigned i = 0; i < 2500; i++) { /* meanwhile the loop does not run */
        rule(w, false);
        rule(w, true);
    }
    sensor_set(w, "late", "obey", "");
    assert_int_equal(demand(w, KERNEL_VERB_SENSOR_DELETE, "deleted", NULL, NULL, false), TN_R_OK);
    assert_int_equal(demand(w, KERNEL_VERB_SENSOR_ENABLE, "s", NULL, NULL, false), TN_R_OK);
    (void)running(w, "late");
    wait_state(w, "s", PLAN_STATE_STOPPED);
    wait_state(w, "deleted", PLAN_STATES);
}

static void crashes_become_an_error_which_a_reset_clears(void **state) {
    struct world *w = *state;
    struct supervisor_totals totals;
    sensor_set(w, "s", "exit 7", "");
    rule(w, true);
    assert_int_equal(supervisor_reset(w->supervisor, bytes_of("nobody")), TN_R_NOTFOUND);
    wait_state(w, "s", PLAN_STATE_ERROR);
    struct supervisor_status status = status_of(w, "s");
    assert_int_equal(status.crashes, 3);
    assert_int_equal(status.restarts, 2);
    assert_true(status.has_exit);
    assert_int_equal(status.exit_code, 7);
    assert_string_equal(status.last_error, "it exited unexpectedly with code 7");
    supervisor_totals(w->supervisor, &totals);
    assert_true(totals.on);
    assert_int_equal(totals.crashes, 3);
    assert_int_equal(totals.attempts[0], 1);
    assert_int_equal(totals.attempts[1], 1);
    assert_int_equal(totals.attempts_sum, 3);
    assert_int_equal(totals.by_state[PLAN_STATE_ERROR], 1);
    assert_int_equal(totals.tokens_issued, 3);
    assert_int_equal(totals.tokens_revoked, 3);
    assert_int_equal(supervisor_reset(w->supervisor, bytes_of("s")), TN_R_OK);
    wait_state(w, "s", PLAN_STATE_ERROR);
    assert_int_equal(status_of(w, "s").crashes, 6);
}

static void a_run_is_known_by_its_token_while_it_lives(void **state) {
    struct world *w = *state;
    sensor_set(w, "s", "obey", "");
    rule(w, true);
    pid_t first = running(w, "s");
    struct supervisor_status status = status_of(w, "s");
    assert_true(supervisor_heartbeat(w->supervisor, status.lease, status.epoch));
    assert_false(supervisor_heartbeat(w->supervisor, status.lease, status.epoch + 1));
    supervisor_emitted(w->supervisor, status.lease, status.epoch);
    assert_int_equal(status_of(w, "s").emitted, 1);
    assert_int_equal(supervisor_reset(w->supervisor, bytes_of("s")), TN_R_STATE);
    assert_int_equal(supervisor_restart(w->supervisor, bytes_of("s")), TN_R_OK);
    runkit_wait(&w->kit, is_dead, &first);
    (void)running(w, "s");
    assert_false(supervisor_heartbeat(w->supervisor, status.lease, status.epoch));
    supervisor_emitted(w->supervisor, status.lease, status.epoch);
    assert_int_equal(status_of(w, "s").emitted, 1);
}

/* Between two checks the loop turns, and at each turn it is asked. */
static bool has_beaten_for_long(void *ctx) {
    struct world *w = ctx;
    struct supervisor_status status = status_of(w, "s");
    (void)supervisor_heartbeat(w->supervisor, status.lease, status.epoch);
    return status.uptime_ms >= 300 || status.crashes > 0;
}

static bool has_crashed(void *ctx) {
    return status_of(ctx, "s").crashes > 0;
}

static void a_heart_that_beats_is_left_alone_and_one_that_does_not_is_not(void **state) {
    struct world *w = *state;
    sensor_set(w, "s", "obey",
               ",\"health\":{\"heartbeat\":true,\"interval_seconds\":0.02,\"threshold\":2}");
    rule(w, true);
    (void)running(w, "s");
    runkit_wait(&w->kit, has_beaten_for_long, w);
    assert_int_equal(status_of(w, "s").crashes, 0);
    runkit_wait(&w->kit, has_crashed, w);
    assert_string_equal(status_of(w, "s").last_error, "unhealthy: no heartbeat in time");
}

static void a_directory_that_cannot_be_read_switches_it_off(void **state) {
    struct world *w = *state;
    struct supervisor_totals totals;
    unsupervise(w);
    snprintf(w->kit.sensors, sizeof w->kit.sensors, "%s/file", w->kit.dir);
    FILE *file = fopen(w->kit.sensors, "w"); /* a file in place of a directory */
    assert_non_null(file);
    fclose(file);
    supervise(w);
    supervisor_totals(w->supervisor, &totals);
    assert_false(totals.on);
    assert_int_equal(said("event=supervisor_off"), 1);
    sensor_set(w, "s", "obey", "");
    rule(w, true);
    assert_int_equal(status_of(w, "s").state, PLAN_STATES);
    unsupervise(w);
}

static void sensors_that_are_not_started_with_the_server_are_logged_with_the_reason(void **state) {
    struct world *w = *state;
    unsupervise(w);
    sensor_set(w, "wanted", "obey", "");
    for (unsigned i = 0; i < 20; i++) {
        char ref[16];
        snprintf(ref, sizeof ref, "idle-%02u", i);
        assert_int_equal(
            demand(w, KERNEL_VERB_SENSOR_SET, ref, "u", "{\"command\":[\"/bin/true\"]}", true),
            TN_R_OK);
    }
    assert_int_equal(
        demand(w, KERNEL_VERB_SENSOR_SET, "dark", "t", "{\"command\":[\"/bin/true\"]}", false),
        TN_R_OK);
    assert_int_equal(demand(w, KERNEL_VERB_SENSOR_SET, "torn", "t", "{}", true), TN_R_OK);
    rule(w, true);
    lines[0] = '\0';
    supervise_idle(w, true);
    assert_int_equal(said("event=sensor_not_started sensor=wanted reason=\"sensors = off\""), 1);
    assert_int_equal(said("event=sensors_not_started count=2 reason=\"sensors = off\""), 1);
    assert_int_equal(said("sensor=dark reason=\"the sensor is disabled\""), 1);
    assert_int_equal(said("event=sensor_not_started sensor=idle-"), 16);
    assert_int_equal(said("count=20 reason=\"no enabled rule has its trigger\""), 1);
    unsupervise(w);
    lines[0] = '\0';
    supervise(w);
    (void)running(w, "wanted");
    assert_int_equal(said("sensor_not_started sensor=wanted"), 0);
    assert_int_equal(said("sensor=torn reason=\"its description is invalid\""), 1);
    unsupervise(w);
}

static bool all_run(void *ctx) {
    struct world *w = ctx;
    struct supervisor_totals totals;
    supervisor_totals(w->supervisor, &totals);
    return totals.by_state[PLAN_STATE_RUNNING] == 40;
}

static void what_ignores_sigterm_is_killed_and_that_is_told(void **state) {
    struct world *w = *state;
    sensor_set(w, "s", "fork-ignore 3", ",\"stop_seconds\":0.1");
    rule(w, true);
    pid_t pids[RUNKIT_PIDS];
    runkit_wait_pids(&w->kit, 4, pids);
    (void)running(w, "s");
    rule(w, false);
    wait_state(w, "s", PLAN_STATE_STOPPED);
    for (unsigned i = 0; i < 4; i++) {
        assert_true(runkit_is_dead(pids[i]));
    }
    assert_string_equal(status_of(w, "s").last_error,
                        "it did not exit after SIGTERM and is being killed");
    assert_int_equal(status_of(w, "s").crashes, 0);
}

static void many_start_and_stop_together(void **state) {
    struct world *w = *state;
    char ref[16];
    for (unsigned i = 0; i < 40; i++) {
        snprintf(ref, sizeof ref, "s%u", i);
        sensor_set(w, ref, "obey", "");
    }
    rule(w, true);
    runkit_wait(&w->kit, all_run, w);
    unsupervise(w);
    assert_int_equal(said("event=sensor_started"), 40);
    assert_int_equal(said("event=sensor_stopped"), 40);
    assert_int_equal(said("reason=\"shutdown\""), 40);
    assert_int_equal(said("token_revoked=yes"), 40);
    ekit_check(w->engine);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, world_open, world_close)

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(a_full_disk_keeps_the_resource_taken_and_not_the_process_alive),
        TEST(a_full_disk_delays_a_start_and_is_no_crash),
        TEST(a_halted_engine_stops_what_runs),
        TEST(an_engine_that_halts_is_noticed_by_the_next_request),
        TEST(a_lease_that_could_not_be_ended_at_shutdown_is_ended_by_the_next_life),
        TEST(a_lease_of_a_deleted_sensor_is_ended_too),
        TEST(nothing_is_left_of_a_deleted_sensor_that_had_run),
        TEST(more_news_than_fit_are_no_news_lost),
        TEST(news_that_are_all_missed_are_found_out),
        TEST(a_rule_that_was_missed_clears_an_error),
        TEST(crashes_become_an_error_which_a_reset_clears),
        TEST(a_run_is_known_by_its_token_while_it_lives),
        TEST(a_heart_that_beats_is_left_alone_and_one_that_does_not_is_not),
        TEST(a_directory_that_cannot_be_read_switches_it_off),
        TEST(sensors_that_are_not_started_with_the_server_are_logged_with_the_reason),
        TEST(what_ignores_sigterm_is_killed_and_that_is_told),
        TEST(many_start_and_stop_together),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
