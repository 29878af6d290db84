/* The table of sensors, and the loop from facts to effects and back. */
#include "supervisor/supervisor.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "base/hash.h"
#include "engine/read.h"
#include "process/proc.h"
#include "process/run_output.h"
#include "supervisor/supervisor_parts.h"

#define TURN_NS 2000000u /* time in a turn of the loop for answers, and for notices */

/* ---- The table ---- */

static unsigned name_bucket(struct tn_bytes name) {
    return (unsigned)(tn_hash64(name.at, name.len, 0) % SUPERVISOR_HASH);
}

static unsigned lease_bucket(struct kernel_lease_id lease) {
    return (unsigned)(tn_mix64(lease.lsn ^ lease.shard) % SUPERVISOR_HASH);
}

struct supervisor_sensor *supervisor_find(const struct supervisor *supervisor,
                                          struct tn_bytes ref) {
    struct supervisor_sensor *s = supervisor->by_ref[name_bucket(ref)];
    while (s != NULL && !tn_bytes_equal(ref, tn_bytes_of(s->ref, strlen(s->ref)))) {
        s = s->next_of_ref;
    }
    return s;
}

struct supervisor_sensor *supervisor_find_lease(const struct supervisor *supervisor,
                                                struct kernel_lease_id lease) {
    struct supervisor_sensor *s = supervisor->by_lease[lease_bucket(lease)];
    while (s != NULL && kernel_lease_id_compare(s->plan.lease, lease) != 0) {
        s = s->next_of_lease;
    }
    return s;
}

void supervisor_index_lease(struct supervisor_sensor *sensor, bool indexed) {
    struct supervisor_sensor **at = &sensor->supervisor->by_lease[lease_bucket(sensor->plan.lease)];
    if (sensor->indexed == indexed) {
        return;
    }
    sensor->indexed = indexed;
    if (indexed) {
        sensor->next_of_lease = *at;
        *at = sensor;
        return;
    }
    while (*at != sensor) {
        at = &(*at)->next_of_lease;
    }
    *at = sensor->next_of_lease;
}

struct supervisor_sensor *supervisor_find_trigger(const struct supervisor *supervisor,
                                                  struct tn_bytes trigger) {
    return supervisor->by_trigger[name_bucket(trigger)];
}

void supervisor_index_trigger(struct supervisor_sensor *sensor, struct tn_bytes trigger) {
    struct supervisor_sensor **table = sensor->supervisor->by_trigger;
    if (sensor->trigger_len > 0) {
        struct supervisor_sensor **at =
            &table[name_bucket(tn_bytes_of(sensor->trigger, sensor->trigger_len))];
        while (*at != sensor) {
            at = &(*at)->next_of_trigger;
        }
        *at = sensor->next_of_trigger;
    }
    TN_ASSERT(trigger.len <= KERNEL_RULE_MAX);
    sensor->trigger_len = trigger.len;
    if (trigger.len > 0) {
        struct supervisor_sensor **at = &table[name_bucket(trigger)];
        memcpy(sensor->trigger, trigger.at, trigger.len);
        sensor->next_of_trigger = *at;
        *at = sensor;
    }
    sensor->trigger[trigger.len] = '\0';
}

static void on_timer(uv_timer_t *timer) {
    supervisor_tell(timer->data, &(struct plan_fact){.kind = PLAN_FACT_TICK});
}

struct supervisor_sensor *supervisor_add(struct supervisor *supervisor, struct tn_bytes ref,
                                         const struct plan_terms *terms, uint64_t digest) {
    struct supervisor_sensor *sensor = calloc(1, sizeof *sensor);
    struct supervisor_sensor **bucket = &supervisor->by_ref[name_bucket(ref)];
    TN_ASSERT(ref.len <= KERNEL_RESOURCE_MAX);
    if (sensor == NULL) {
        supervisor_log(supervisor, "event=sensor_refused sensor=%.*s reason=\"no memory\"",
                       (int)ref.len, (const char *)ref.at);
        return NULL;
    }
    sensor->supervisor = supervisor;
    memcpy(sensor->ref, ref.at, ref.len);
    plan_init(&sensor->plan, terms, digest, tn_mix64(supervisor->options.seed + supervisor->seeds));
    supervisor->seeds++;
    sensor->held = supervisor->orphans != NULL && run_orphans_has(supervisor->orphans, sensor->ref);
    (void)uv_timer_init(supervisor->options.loop, &sensor->timer);
    sensor->timer.data = sensor;
    supervisor->handles++;
    sensor->next_of_ref = *bucket;
    *bucket = sensor;
    sensor->next = supervisor->sensors;
    if (sensor->next != NULL) {
        sensor->next->previous = sensor;
    }
    supervisor->sensors = sensor;
    supervisor->sensor_count++;
    sensor->counted = plan_state_of(&sensor->plan);
    supervisor->totals.by_state[sensor->counted]++;
    return sensor;
}

static void sensor_free(struct supervisor_sensor *sensor) {
    if (sensor->run_spec != sensor->spec) {
        sensor_spec_free(sensor->run_spec);
    }
    sensor_spec_free(sensor->spec);
    free(sensor);
}

static void handle_closed(struct supervisor *supervisor) {
    TN_ASSERT(supervisor->handles > 0);
    supervisor->handles--;
    if (supervisor->closed && supervisor->handles == 0) {
        supervisor->on_closed(supervisor->closed_ctx);
    }
}

/* The timer of a removed sensor is closed. */
static void timer_closed(uv_handle_t *handle) {
    struct supervisor_sensor *sensor = handle->data;
    struct supervisor *supervisor = sensor->supervisor;
    sensor_free(sensor);
    handle_closed(supervisor);
}

static void sensor_remove(struct supervisor_sensor *sensor) {
    struct supervisor *supervisor = sensor->supervisor;
    struct supervisor_sensor **at =
        &supervisor->by_ref[name_bucket(tn_bytes_of(sensor->ref, strlen(sensor->ref)))];
    while (*at != sensor) {
        at = &(*at)->next_of_ref;
    }
    *at = sensor->next_of_ref;
    supervisor_index_lease(sensor, false);
    supervisor_index_trigger(sensor, tn_bytes_of("", 0));
    if (sensor->previous != NULL) {
        sensor->previous->next = sensor->next;
    } else {
        supervisor->sensors = sensor->next;
    }
    if (sensor->next != NULL) {
        sensor->next->previous = sensor->previous;
    }
    if (supervisor->walk.at == sensor) {
        supervisor->walk.at = sensor->next;
    }
    supervisor->sensor_count--;
    supervisor->totals.by_state[sensor->counted]--;
    uv_close((uv_handle_t *)&sensor->timer, timer_closed);
}

/* ---- Facts and effects ---- */

static void effect_do(struct supervisor_sensor *sensor, const struct plan_effect *effect) {
    switch (effect->kind) {
    case PLAN_EFFECT_ALLOC:
        supervisor_ask_alloc(sensor);
        break;
    case PLAN_EFFECT_REVOKE:
        supervisor_ask_end(sensor, false);
        break;
    case PLAN_EFFECT_RECLAIM:
        supervisor_ask_end(sensor, true);
        break;
    case PLAN_EFFECT_ISSUE:
        supervisor_run_issue(sensor, false);
        break;
    case PLAN_EFFECT_REFRESH_TOKEN:
        supervisor_run_issue(sensor, true);
        break;
    case PLAN_EFFECT_START:
        supervisor_run_start(sensor);
        break;
    case PLAN_EFFECT_TERM:
        if (sensor->run != NULL) {
            run_term(sensor->run);
        }
        break;
    case PLAN_EFFECT_KILL:
        if (sensor->plan.gentle) {
            supervisor_error(sensor, "it did not exit after SIGTERM and is being killed");
        }
        if (sensor->run != NULL) {
            run_kill(sensor->run);
        }
        break;
    case PLAN_EFFECT_REPORT:
        supervisor_report(sensor, effect);
        break;
    default:
        TN_ASSERT(effect->kind == PLAN_EFFECT_FORGET);
        sensor->forgotten = true;
        run_output_remove(sensor->supervisor->options.os, sensor->supervisor->options.dir,
                          sensor->ref);
        supervisor_ask_remove(sensor);
        break;
    }
}

static void count_state(struct supervisor_sensor *sensor) {
    enum plan_state state = plan_state_of(&sensor->plan);
    uint64_t *by_state = sensor->supervisor->totals.by_state;
    by_state[sensor->counted]--;
    by_state[state]++;
    sensor->counted = state;
    bool unproven = sensor->plan.run_is == PLAN_RUN_UNPROVEN;
    sensor->supervisor->totals.unproven += unproven;
    sensor->supervisor->totals.unproven -= sensor->counted_unproven;
    sensor->counted_unproven = unproven;
}

static uint64_t step(struct supervisor_sensor *sensor, const struct plan_fact *fact) {
    const struct os *os = sensor->supervisor->options.os;
    uint64_t now = os->clock_boot_ms(os->ctx);
    struct plan_effects effects;
    supervisor_index_lease(sensor, false); /* the step may change the lease */
    plan_step(&sensor->plan, now > sensor->plan.now_ms ? now : sensor->plan.now_ms, fact, &effects);
    supervisor_index_lease(sensor, sensor->plan.lease_is > PLAN_LEASE_ASKED);
    count_state(sensor);
    for (uint32_t i = 0; i < effects.count; i++) {
        effect_do(sensor, &effects.of[i]);
    }
    return effects.wake_ms;
}

static void closed_check(struct supervisor *supervisor);

/* Frees the sensor in the loop's next turn, so that callers that use it can finish. */
static void forgotten_check(struct supervisor_sensor *sensor) {
    if (sensor->forgotten && sensor->asks == 0 && sensor->run == NULL && sensor->health == NULL &&
        !sensor->supervisor->closing && !uv_is_closing((uv_handle_t *)&sensor->timer)) {
        sensor_remove(sensor);
    }
}

void supervisor_tell(struct supervisor_sensor *sensor, const struct plan_fact *fact) {
    uint64_t wake_ms = PLAN_NEVER;
    TN_ASSERT(sensor->fact_count < SUPERVISOR_FACTS_MAX);
    sensor->facts[sensor->fact_count++] = *fact;
    if (sensor->telling) {
        return;
    }
    sensor->telling = true;
    while (sensor->fact_count > 0) {
        struct plan_fact first = sensor->facts[0];
        sensor->fact_count--;
        memmove(sensor->facts, sensor->facts + 1, sensor->fact_count * sizeof sensor->facts[0]);
        wake_ms = step(sensor, &first);
    }
    sensor->telling = false;
    supervisor_run_health(sensor);
    if (wake_ms == PLAN_NEVER) {
        (void)uv_timer_stop(&sensor->timer);
    } else {
        uint64_t now = sensor->plan.now_ms;
        (void)uv_timer_start(&sensor->timer, on_timer, wake_ms > now ? wake_ms - now : 0, 0);
    }
    supervisor_ended(sensor);
}

void supervisor_ended(struct supervisor_sensor *sensor) {
    forgotten_check(sensor);
    closed_check(sensor->supervisor);
}

/* ---- News ---- */

/* Processing an answer may start a process, which takes time, so others on the loop are served in
 * between. */
static void answers_take(struct supervisor *supervisor) {
    struct supervisor_ask **end = &supervisor->answers;
    while (*end != NULL) {
        end = &(*end)->next;
    }
    *end = supervisor_feed_answers(supervisor->options.feed);
    for (uint64_t end_ns = uv_hrtime() + TURN_NS; supervisor->answers != NULL;) {
        struct supervisor_ask *ask = supervisor->answers;
        supervisor->answers = ask->next;
        supervisor_answered(supervisor, ask);
        if (uv_hrtime() >= end_ns) {
            break;
        }
    }
    if (supervisor->answers != NULL) {
        (void)uv_async_send(&supervisor->news);
    }
}

/* A notice may concern every sensor, so others on the loop are served in between. */
static void notices_take(struct supervisor *supervisor) {
    struct supervisor_notice notice;
    uint64_t end_ns = uv_hrtime() + TURN_NS;
    while (supervisor_feed_take(supervisor->options.feed, &notice)) {
        supervisor_read_notice(supervisor, &notice);
        if (uv_hrtime() >= end_ns) {
            (void)uv_async_send(&supervisor->news);
            return;
        }
    }
    enum supervisor_missed missed = supervisor_feed_overflowed(supervisor->options.feed);
    if (missed != SUPERVISOR_MISSED_NONE) {
        supervisor_walk(supervisor,
                        SUPERVISOR_WALK_MISSED |
                            (missed == SUPERVISOR_MISSED_RULES ? SUPERVISOR_WALK_RULES : 0));
    }
}

static void on_news(uv_async_t *async) {
    struct supervisor *supervisor = async->data;
    answers_take(supervisor);
    if (!supervisor->off) {
        notices_take(supervisor);
        supervisor_walk_on(supervisor, uv_hrtime() + TURN_NS);
    }
}

/* ---- What an earlier life left ---- */

static void release(struct supervisor_sensor *sensor) {
    sensor->held = false;
    if (sensor->plan.run_is == PLAN_RUN_ORPHAN) {
        supervisor_tell(sensor, &(struct plan_fact){.kind = PLAN_FACT_GONE});
    }
    supervisor_read_sensor(sensor->supervisor, tn_bytes_of(sensor->ref, strlen(sensor->ref)), true);
}

static void on_orphan_gone(void *ctx, const char *ref, struct kernel_lease_id lease,
                           uint64_t epoch) {
    struct supervisor *supervisor = ctx;
    struct tn_bytes name = tn_bytes_of(ref, strlen(ref));
    struct supervisor_sensor *sensor = supervisor_find(supervisor, name);
    struct kernel_sensor_view view;
    char text[TOKEN_ID_TEXT];
    (void)token_id_format(lease, epoch, text);
    supervisor_log(supervisor, "event=sensor_orphan_gone sensor=%s run=%s", ref, text);
    if (sensor != NULL) {
        release(sensor);
    } else if (engine_sensor_read(supervisor->options.engine, SUPERVISOR_READ, name, &view, NULL, 0,
                                  NULL) == TN_R_NOTFOUND) {
        /* The sensor was deleted, and its directory could not be removed before the record was
         * gone. */
        run_output_remove(supervisor->options.os, supervisor->options.dir, ref);
    }
}

static void on_orphan_unproven(void *ctx, const char *ref, struct kernel_lease_id lease,
                               uint64_t epoch) {
    supervisor_read_unproven(ctx, tn_bytes_of(ref, strlen(ref)), lease, epoch);
}

static void on_orphans_gone(void *ctx) {
    struct supervisor *supervisor = ctx;
    run_orphans_free(supervisor->orphans);
    supervisor->orphans = NULL;
    supervisor->totals.orphans_gone = true;
    bool clean = true;
    for (struct supervisor_sensor *s = supervisor->sensors; s != NULL; s = s->next) {
        clean = clean && s->plan.run_is != PLAN_RUN_UNPROVEN;
        if (s->plan.run_is != PLAN_RUN_UNPROVEN && s->plan.run_is != PLAN_RUN_ABROAD &&
            (s->held || s->plan.run_is == PLAN_RUN_ORPHAN)) {
            release(s);
        }
    }
    if (clean && supervisor->options.cluster.epoch > 1) {
        engine_clean(supervisor->options.engine, supervisor->options.cluster.epoch - 1);
    }
    closed_check(supervisor);
}

/* ---- Opening ---- */

static bool guardian_find(struct supervisor *supervisor) {
    const char *given = supervisor->options.guardian;
    if (given != NULL && *given != '\0') {
        return snprintf(supervisor->guardian, sizeof supervisor->guardian, "%s", given) <
               (int)sizeof supervisor->guardian;
    }
    return run_guardian_find(supervisor->guardian, sizeof supervisor->guardian);
}

/* Why no sensor can be started; NULL: they can. Every guardian needs its list of children, in a pid namespace
 * too; without it a run would end and never be known to. */
static const char *judge_idle(struct supervisor *supervisor) {
    if (!guardian_find(supervisor)) {
        return "tenure-guardian was not found";
    }
    return process_children_known() ? NULL : "there is no /proc/thread-self/children";
}

static bool begin(struct supervisor *supervisor) {
    const struct supervisor_options *options = &supervisor->options;
    struct run_orphans_hooks hooks = {
        .gone = on_orphan_gone, .unproven = on_orphan_unproven, .all_gone = on_orphans_gone};
    supervisor->idle = options->idle;
    supervisor->off_reason = supervisor->idle ? "sensors = off" : NULL;
    const char *why = supervisor->idle ? NULL : judge_idle(supervisor);
    if (why != NULL) {
        supervisor->off_reason = why;
        supervisor_log(supervisor, "event=supervisor_off reason=\"%s\"", supervisor->off_reason);
        supervisor->idle = true;
    }
    if (!supervisor->idle) {
        supervisor_run_judge(supervisor);
    }
    enum tn_status status = run_orphans_begin(options->loop, options->os, options->dir, hooks,
                                              supervisor, &supervisor->orphans);
    if (status != TN_OK) {
        supervisor->orphans = NULL;
        why = "cannot read the directory of runs";
        supervisor->off_reason = supervisor->idle ? supervisor->off_reason : why;
        supervisor_log(supervisor, "event=supervisor_off dir=%s reason=\"%s\"", options->dir,
                       tn_status_text(status));
        (void)supervisor_read_leases(supervisor);
        return false;
    }
    if (!supervisor_read_first(supervisor)) {
        supervisor->off_reason = "cannot read sensors";
        supervisor_log(supervisor, "event=supervisor_off reason=\"%s\"", supervisor->off_reason);
        return false;
    }
    return true;
}

struct supervisor *supervisor_open(const struct supervisor_options *options) {
    struct supervisor *supervisor = calloc(1, sizeof *supervisor);
    if (supervisor == NULL) {
        return NULL;
    }
    supervisor->options = *options;
    if (uv_async_init(options->loop, &supervisor->news, on_news) != 0) {
        free(supervisor);
        return NULL;
    }
    (void)uv_timer_init(options->loop, &supervisor->deadline);
    supervisor_rules_open(supervisor);
    supervisor->handles = 3;
    supervisor->news.data = supervisor->deadline.data = supervisor;
    supervisor_feed_connect(options->feed, supervisor);
    supervisor_abroad_begin(supervisor);
    supervisor->off = !begin(supervisor);
    supervisor_report_not_started(supervisor);
    return supervisor;
}

/* ---- Halting and closing ---- */

static void tell_all(struct supervisor *supervisor, enum plan_fact_kind kind) {
    for (struct supervisor_sensor *s = supervisor->sensors; s != NULL; s = s->next) {
        supervisor_tell(s, &(struct plan_fact){.kind = kind});
    }
}

void supervisor_halt(struct supervisor *supervisor) {
    if (supervisor != NULL && !supervisor->halted) {
        supervisor->halted = true;
        supervisor_log(supervisor, "event=supervisor_halted sensors=%u reason=\"%s\"",
                       supervisor->sensor_count, "the engine accepts no more commands");
        tell_all(supervisor, PLAN_FACT_HALT);
    }
}

bool supervisor_is_halted(const struct supervisor *supervisor) {
    return supervisor->halted;
}

static void sensor_closed(uv_handle_t *handle) {
    const struct supervisor_sensor *sensor = handle->data;
    handle_closed(sensor->supervisor);
}

static void own_closed(uv_handle_t *handle) {
    handle_closed(handle->data);
}

/* The sensors are not freed: runs that could not be stopped in time still refer to them. */
static void close_now(struct supervisor *supervisor) {
    supervisor->closed = true;
    supervisor_feed_connect(supervisor->options.feed, NULL);
    run_orphans_free(supervisor->orphans);
    supervisor->orphans = NULL;
    for (struct supervisor_sensor *s = supervisor->sensors; s != NULL; s = s->next) {
        uv_close((uv_handle_t *)&s->timer, sensor_closed);
    }
    if (supervisor->options.cluster.node != NULL) {
        uv_close((uv_handle_t *)&supervisor->pulse, own_closed);
    }
    uv_close((uv_handle_t *)&supervisor->deadline, own_closed);
    uv_close((uv_handle_t *)&supervisor->rules.timer, own_closed);
    uv_close((uv_handle_t *)&supervisor->news, own_closed);
}

/* Closes the supervisor if everything in progress has ended. */
static void closed_check(struct supervisor *supervisor) {
    if (!supervisor->closing || supervisor->closed || supervisor->asks > 0 ||
        supervisor->healths > 0 || supervisor->orphans != NULL) {
        return;
    }
    for (struct supervisor_sensor *s = supervisor->sensors; s != NULL; s = s->next) {
        if ((!plan_is_over(&s->plan) && !supervisor->off) || s->run != NULL || s->telling) {
            return;
        }
    }
    close_now(supervisor);
}

static void on_deadline(uv_timer_t *timer) {
    struct supervisor *supervisor = timer->data;
    supervisor_log(supervisor, "event=supervisor_late reason=\"%s\"",
                   "some sensors did not stop in time; their guardians kill them");
    close_now(supervisor);
}

void supervisor_close(struct supervisor *supervisor, void (*closed)(void *ctx), void *ctx) {
    struct engine_stats stats;
    uint64_t longest_ms = 0;
    TN_ASSERT(!supervisor->closing);
    supervisor->on_closed = closed;
    supervisor->closed_ctx = ctx;
    for (struct supervisor_sensor *s = supervisor->sensors; s != NULL; s = s->next) {
        longest_ms = s->plan.terms.stop_ms > longest_ms ? s->plan.terms.stop_ms : longest_ms;
    }
    (void)uv_timer_start(&supervisor->deadline, on_deadline, longest_ms + SUPERVISOR_CLOSE_MS, 0);
    engine_stats_read(supervisor->options.engine, &stats);
    if (stats.stopped != TN_R_OK) {
        supervisor_halt(supervisor);
    }
    tell_all(supervisor, PLAN_FACT_SHUTDOWN);
    supervisor->closing = true;
    closed_check(supervisor);
}

bool supervisor_is_done(const struct supervisor *supervisor) {
    for (const struct supervisor_sensor *s = supervisor->sensors; s != NULL; s = s->next) {
        if (s->run != NULL || s->health != NULL || s->asks > 0) {
            return false;
        }
    }
    return true;
}

void supervisor_free(struct supervisor *supervisor) {
    if (supervisor == NULL) {
        return;
    }
    while (supervisor->answers != NULL) {
        struct supervisor_ask *ask = supervisor->answers;
        supervisor->answers = ask->next;
        free(ask);
    }
    free(supervisor->rules.build);
    while (supervisor->sensors != NULL) {
        struct supervisor_sensor *sensor = supervisor->sensors;
        supervisor->sensors = sensor->next;
        sensor_free(sensor);
    }
    free(supervisor);
}

/* ---- What the server asks for ---- */

/* The operator confirms that nothing of the unproven run is alive. The record is removed first: if
 * the server is killed before the rest, the next one finds only the lease, and does not wait for a
 * run. */
static void vouch(struct supervisor_sensor *sensor) {
    struct supervisor *supervisor = sensor->supervisor;
    run_orphans_vouch(supervisor->options.os, supervisor->options.dir, sensor->ref);
    supervisor_log(supervisor, "event=sensor_vouched sensor=%s reason=\"%s\"", sensor->ref,
                   "an operator confirmed that its run is dead");
    sensor->held = false;
    sensor->last_error[0] = '\0';
    supervisor_tell(sensor, &(struct plan_fact){.kind = PLAN_FACT_RESET});
    supervisor_read_sensor(supervisor, tn_bytes_of(sensor->ref, strlen(sensor->ref)), true);
}

enum tn_result supervisor_reset(struct supervisor *supervisor, struct tn_bytes ref) {
    struct supervisor_sensor *sensor = supervisor != NULL ? supervisor_find(supervisor, ref) : NULL;
    if (sensor != NULL &&
        (sensor->plan.run_is == PLAN_RUN_UNPROVEN || sensor->plan.run_is == PLAN_RUN_ABROAD)) {
        vouch(sensor);
        return TN_R_OK;
    }
    if (sensor == NULL || !sensor->known) {
        return TN_R_NOTFOUND;
    }
    enum plan_state state = plan_state_of(&sensor->plan);
    if (state != PLAN_STATE_ERROR && state != PLAN_STATE_BACKOFF) {
        return TN_R_STATE;
    }
    supervisor_tell(sensor, &(struct plan_fact){.kind = PLAN_FACT_RESET});
    return TN_R_OK;
}

enum tn_result supervisor_restart(struct supervisor *supervisor, struct tn_bytes ref) {
    struct supervisor_sensor *sensor = supervisor != NULL ? supervisor_find(supervisor, ref) : NULL;
    if (sensor == NULL || !sensor->known) {
        return TN_R_NOTFOUND;
    }
    if (!sensor->plan.wanted) {
        return TN_R_STATE;
    }
    supervisor_tell(sensor, &(struct plan_fact){.kind = PLAN_FACT_RESTART});
    return TN_R_OK;
}

static struct supervisor_sensor *run_find(struct supervisor *supervisor,
                                          struct kernel_lease_id lease, uint64_t epoch) {
    struct supervisor_sensor *sensor =
        supervisor != NULL ? supervisor_find_lease(supervisor, lease) : NULL;
    return sensor != NULL && sensor->plan.epoch == epoch ? sensor : NULL;
}

bool supervisor_heartbeat(struct supervisor *supervisor, struct kernel_lease_id lease,
                          uint64_t epoch) {
    struct supervisor_sensor *sensor = run_find(supervisor, lease, epoch);
    if (sensor != NULL && sensor->health != NULL) {
        run_health_beat(sensor->health);
    }
    return sensor != NULL;
}

void supervisor_emitted(struct supervisor *supervisor, struct kernel_lease_id lease,
                        uint64_t epoch) {
    struct supervisor_sensor *sensor = run_find(supervisor, lease, epoch);
    if (sensor != NULL) {
        sensor->emitted++;
        supervisor->totals.emitted++;
    }
}

const char *supervisor_dir(const struct supervisor *supervisor) {
    return supervisor->options.dir;
}

const struct sensor_defaults *supervisor_defaults(const struct supervisor *supervisor) {
    return &supervisor->options.defaults;
}
