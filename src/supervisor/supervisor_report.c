/* What is said of a sensor: a log line and an event for each step of its life, and status on demand.
 * Tokens are never among it. */
#include <jansson.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#include "base/assert.h"
#include "engine/read.h"
#include "protocol/render.h"
#include "supervisor/supervisor_parts.h"

#define NOT_STARTED_PAGE 64u

void supervisor_log(struct supervisor *supervisor, const char *format, ...) {
    char line[SUPERVISOR_LINE_MAX];
    va_list arguments;
    va_start(arguments, format);
    (void)vsnprintf(line, sizeof line, format, arguments);
    va_end(arguments);
    supervisor->options.log(line);
}

void supervisor_error(struct supervisor_sensor *sensor, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    (void)vsnprintf(sensor->last_error, sizeof sensor->last_error, format, arguments);
    va_end(arguments);
}

/* ---- Reports: each pair goes into the line and into the payload ---- */

struct report {
    char line[SUPERVISOR_LINE_MAX];
    size_t len;
    json_t *payload; /* NULL: out of memory; only the log line is written */
};

__attribute__((format(printf, 2, 3))) static void line_add(struct report *report,
                                                           const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    int len =
        vsnprintf(report->line + report->len, sizeof report->line - report->len, format, arguments);
    va_end(arguments);
    report->len += len > 0 ? (size_t)len : 0;
    report->len = report->len < sizeof report->line ? report->len : sizeof report->line - 1;
}

static void put_number(struct report *report, const char *key, uint64_t number) {
    line_add(report, " %s=%llu", key, (unsigned long long)number);
    (void)json_object_set_new(report->payload, key, json_integer((json_int_t)number));
}

static void put_text(struct report *report, const char *key, const char *text) {
    line_add(report, " %s=\"%s\"", key, text);
    (void)json_object_set_new(report->payload, key, json_string(text));
}

static void put_exit(struct report *report, int status) {
    if (status == PLAN_NO_STATUS) {
        return;
    }
    if (WIFSIGNALED(status)) {
        put_number(report, "signal", (uint64_t)WTERMSIG(status));
    } else {
        put_number(report, "exit_code", (uint64_t)WEXITSTATUS(status));
    }
}

static void put_attempt(struct report *report, const struct plan_effect *effect) {
    put_number(report, "attempt", effect->attempt);
    if (effect->again) {
        put_number(report, "next_in_ms", effect->next_in_ms);
    }
}

static void put_effect(struct report *report, const struct supervisor_sensor *sensor,
                       const struct plan_effect *effect) {
    if (effect->reason != PLAN_REASON_NONE) {
        put_text(report, "reason", plan_reason_name(effect->reason));
    }
    switch (effect->report) {
    case PLAN_REPORT_STARTED:
        put_number(report, "pid", (uint64_t)sensor->plan.pid);
        put_number(report, "rules", sensor->rules);
        break;
    case PLAN_REPORT_STOPPED:
        put_number(report, "uptime_ms", effect->uptime_ms);
        put_exit(report, sensor->plan.last_status);
        line_add(report, " token_revoked=%s", effect->token_revoked ? "yes" : "no");
        (void)json_object_set_new(report->payload, "token_revoked",
                                  json_boolean(effect->token_revoked));
        if (sensor->revoked_lsn != 0) {
            put_number(report, "revoked_lsn", sensor->revoked_lsn);
        }
        break;
    case PLAN_REPORT_CRASHED:
        put_exit(report, sensor->plan.last_status);
        put_number(report, "uptime_ms", effect->uptime_ms);
        put_attempt(report, effect);
        break;
    case PLAN_REPORT_START_FAILED:
        put_text(report, "step", sensor->failed_step);
        put_text(report, "error", sensor->last_error);
        put_attempt(report, effect);
        break;
    default:
        put_text(report, "error", sensor->last_error);
        put_attempt(report, effect);
        break;
    }
}

/* ---- Counting ---- */

static const uint32_t buckets[SUPERVISOR_BUCKETS] = {1, 2, 3, 5, 8, 13, 21};

uint32_t supervisor_bucket(unsigned bucket) {
    TN_ASSERT(bucket < SUPERVISOR_BUCKETS);
    return buckets[bucket];
}

static void count_attempt(struct supervisor *supervisor, uint32_t attempt) {
    unsigned i = 0;
    while (i < SUPERVISOR_BUCKETS && attempt > buckets[i]) {
        i++;
    }
    supervisor->totals.attempts[i]++;
    supervisor->totals.attempts_sum += attempt;
}

static void error_of_exit(struct supervisor_sensor *sensor) {
    int status = sensor->plan.last_status;
    if (status == PLAN_NO_STATUS) {
        supervisor_error(sensor, "it disappeared; its exit status is unknown");
    } else if (WIFSIGNALED(status)) {
        supervisor_error(sensor, "signal %d ended it", WTERMSIG(status));
    } else {
        supervisor_error(sensor, "it exited unexpectedly with code %d", WEXITSTATUS(status));
    }
}

static void count(struct supervisor_sensor *sensor, const struct plan_effect *effect) {
    struct supervisor_totals *totals = &sensor->supervisor->totals;
    switch (effect->report) {
    case PLAN_REPORT_STARTED:
        sensor->starts++;
        totals->starts++;
        if (sensor->plan.failures > 0) {
            sensor->restarts++;
            totals->restarts++;
            count_attempt(sensor->supervisor, sensor->plan.failures);
        }
        break;
    case PLAN_REPORT_STOPPED:
        sensor->stops++;
        sensor->exit_status = sensor->plan.last_status;
        totals->stops++;
        totals->tokens_revoked += effect->token_revoked;
        break;
    case PLAN_REPORT_CRASHED:
    case PLAN_REPORT_START_FAILED:
        sensor->crashes++;
        totals->crashes++;
        if (effect->reason == PLAN_REASON_CRASHED) {
            error_of_exit(sensor);
        }
        break;
    default:
        break;
    }
}

void supervisor_report(struct supervisor_sensor *sensor, const struct plan_effect *effect) {
    struct report report = {.payload = json_object()};
    const char *name = plan_report_name(effect->report);
    char lease[PROTOCOL_LEASE_TEXT];
    count(sensor, effect);
    (void)protocol_lease_format(sensor->plan.lease, lease);
    line_add(&report, "event=%s sensor=%s lease=%s epoch=%llu", name, sensor->ref, lease,
             (unsigned long long)sensor->plan.epoch);
    put_effect(&report, sensor, effect);
    sensor->supervisor->options.log(report.line);
    char *payload = report.payload != NULL
                        ? json_dumps(report.payload, JSON_COMPACT | JSON_ENSURE_ASCII)
                        : NULL;
    if (payload != NULL) {
        supervisor_ask_report(sensor, name + strlen("sensor_"), payload);
        free(payload);
    }
    json_decref(report.payload);
}

/* ---- Sensors that are not started with the server ---- */

/* The reasons and their texts. The text of OFF depends on why the supervisor is off. */
#define NOT_STARTED_TABLE(X)                      \
    X(DISABLED, "the sensor is disabled")         \
    X(NO_RULE, "no enabled rule has its trigger") \
    X(OFF, NULL)                                  \
    X(UNREADABLE, "its description is invalid")   \
    X(LEFT, "a run of an earlier server has not ended yet")

enum not_started {
#define NOT_STARTED_ENUM(id, text) NOT_STARTED_##id,
    NOT_STARTED_TABLE(NOT_STARTED_ENUM)
#undef NOT_STARTED_ENUM
        NOT_STARTED_COUNT /* it is started */
};

static const char *not_started_text(const struct supervisor *supervisor, enum not_started why) {
    static const char *const texts[NOT_STARTED_COUNT] = {
#define NOT_STARTED_TEXT(id, text) text,
        NOT_STARTED_TABLE(NOT_STARTED_TEXT)
#undef NOT_STARTED_TEXT
    };
    return why == NOT_STARTED_OFF ? supervisor->off_reason : texts[why];
}

static enum not_started not_started_why(const struct supervisor *supervisor,
                                        const struct kernel_sensor_view *view) {
    const struct supervisor_sensor *sensor =
        supervisor_find(supervisor, tn_bytes_of(view->ref, view->ref_len));
    if (!view->enabled) {
        return NOT_STARTED_DISABLED;
    }
    if (!view->wanted) {
        return NOT_STARTED_NO_RULE;
    }
    if (supervisor->off_reason != NULL) {
        return NOT_STARTED_OFF;
    }
    if (sensor != NULL && sensor->spec == NULL) {
        return NOT_STARTED_UNREADABLE;
    }
    return sensor != NULL && sensor->held ? NOT_STARTED_LEFT : NOT_STARTED_COUNT;
}

static void not_started_page(struct supervisor *supervisor, const struct kernel_sensor_view *page,
                             uint32_t count, uint64_t counts[NOT_STARTED_COUNT]) {
    for (uint32_t i = 0; i < count; i++) {
        enum not_started why = not_started_why(supervisor, &page[i]);
        if (why == NOT_STARTED_COUNT || counts[why]++ >= SUPERVISOR_NOT_STARTED_NAMED) {
            continue;
        }
        supervisor_log(supervisor, "event=sensor_not_started sensor=%s reason=\"%s\"", page[i].ref,
                       not_started_text(supervisor, why));
    }
}

void supervisor_report_not_started(struct supervisor *supervisor) {
    struct kernel_sensor_view *page = calloc(NOT_STARTED_PAGE, sizeof *page);
    uint64_t counts[NOT_STARTED_COUNT] = {0};
    uint64_t cursor = 0;
    uint32_t count;
    do {
        if (page == NULL ||
            engine_sensors_list(supervisor->options.engine, SUPERVISOR_READ, &cursor, page,
                                NOT_STARTED_PAGE, &count, NULL) != TN_R_OK) {
            break; /* the engine has halted, which is logged elsewhere */
        }
        not_started_page(supervisor, page, count, counts);
    } while (cursor != 0);
    free(page);
    for (unsigned why = 0; why < NOT_STARTED_COUNT; why++) {
        if (counts[why] > 0) {
            supervisor_log(supervisor, "event=sensors_not_started count=%llu reason=\"%s\"",
                           (unsigned long long)counts[why],
                           not_started_text(supervisor, (enum not_started)why));
        }
    }
}

/* ---- Status ---- */

/* The exit of the last run that has ended. The plan knows only the current run. */
static void status_exit(const struct supervisor_sensor *sensor, struct supervisor_status *status) {
    status->has_exit = sensor->stops > 0 && sensor->exit_status != PLAN_NO_STATUS;
    status->exit_code = -1;
    if (status->has_exit && WIFSIGNALED(sensor->exit_status)) {
        status->exit_signal = WTERMSIG(sensor->exit_status);
    } else if (status->has_exit) {
        status->exit_code = WEXITSTATUS(sensor->exit_status);
    }
}

bool supervisor_status(struct supervisor *supervisor, struct tn_bytes ref,
                       struct supervisor_status *ret_status) {
    const struct supervisor_sensor *sensor =
        supervisor != NULL ? supervisor_find(supervisor, ref) : NULL;
    if (sensor == NULL) {
        return false;
    }
    const struct plan *plan = &sensor->plan;
    const struct os *os = supervisor->options.os;
    uint64_t now = os->clock_boot_ms(os->ctx);
    *ret_status = (struct supervisor_status){.state = plan_state_of(plan),
                                             .pid = plan->pid,
                                             .has_lease = plan->lease_is > PLAN_LEASE_ASKED,
                                             .lease = plan->lease,
                                             .epoch = plan->epoch,
                                             .starts = sensor->starts,
                                             .stops = sensor->stops,
                                             .crashes = sensor->crashes,
                                             .restarts = sensor->restarts,
                                             .emitted = sensor->emitted,
                                             .started_ms = sensor->started_wall_ms,
                                             .token_expires_s = sensor->token_expires_s,
                                             .last_reason = plan->last_reason,
                                             .failures = plan->failures};
    if (plan->started_ms != 0 && plan->pid != 0 && now > plan->started_ms) {
        ret_status->uptime_ms = now - plan->started_ms;
    }
    if (plan->phase == PLAN_WAITING) {
        ret_status->has_next = true;
        ret_status->next_in_ms = plan->next_at_ms > now ? plan->next_at_ms - now : 0;
    }
    if (sensor->run != NULL) {
        ret_status->proof = run_record_proof_name(run_proof(sensor->run));
    } else if (plan->run_is == PLAN_RUN_UNPROVEN) {
        ret_status->proof = "none";
    } else if (plan->run_is == PLAN_RUN_ABROAD) {
        ret_status->proof = "abroad";
    }
    status_exit(sensor, ret_status);
    memcpy(ret_status->last_error, sensor->last_error, sizeof ret_status->last_error);
    return !supervisor->idle && !supervisor->off;
}

void supervisor_totals(const struct supervisor *supervisor, struct supervisor_totals *ret_totals) {
    *ret_totals = (struct supervisor_totals){.on = false};
    if (supervisor != NULL) {
        *ret_totals = supervisor->totals;
        ret_totals->on = !supervisor->idle && !supervisor->off;
        ret_totals->orphans_gone = supervisor->totals.orphans_gone && !supervisor->off;
    }
}
