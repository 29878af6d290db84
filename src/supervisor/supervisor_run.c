/* Tokens and processes of runs. The token is in memory here from its issue to the start, and nowhere
 * else: the process and its file have it. */
#include <sodium.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "process/cgroup.h"
#include "protocol/render.h"
#include "supervisor/supervisor_parts.h"

/* ---- Tokens ---- */

static enum tn_result token_make(struct supervisor_sensor *sensor) {
    struct supervisor *supervisor = sensor->supervisor;
    struct token_issuer *tokens = supervisor->options.tokens;
    const struct sensor_spec *spec = sensor->run != NULL ? sensor->run_spec : sensor->spec;
    char detail[PROTOCOL_DETAIL] = "";
    if (spec == NULL) {
        return TN_R_BAD_REQUEST; /* it has just become unreadable */
    }
    struct token_order terms = {.ttl_s = spec->token_ttl_s < tokens->ttl_max_s ? spec->token_ttl_s
                                                                               : tokens->ttl_max_s,
                                .has_ttl = true,
                                .refresh_s = TOKEN_OPEN_END, /* as long as the run is alive */
                                .has_refresh = true,
                                .scope = tn_bytes_of(spec->scope, strlen(spec->scope))};
    enum tn_result code =
        token_issue_sensor(tokens, SUPERVISOR_READ, tn_bytes_of(sensor->ref, strlen(sensor->ref)),
                           &terms, &supervisor->token, detail);
    if (code == TN_R_OK &&
        kernel_lease_id_compare(supervisor->token.claims.lease, sensor->plan.lease) != 0) {
        code = TN_R_STALE; /* the sensor has another lease, so the token is not for this run */
    }
    if (code != TN_R_OK) {
        supervisor_error(sensor, "no token: %s%s%s", tn_result_text(code),
                         detail[0] != '\0' ? ": " : "", detail);
        return code;
    }
    supervisor->totals.tokens_issued++;
    sensor->token_expires_s = supervisor->token.claims.expires_s;
    return TN_R_OK;
}

static void token_wipe(struct supervisor *supervisor) {
    sodium_memzero(supervisor->token.text, sizeof supervisor->token.text);
}

static struct tn_bytes token_text(const struct supervisor *supervisor) {
    return tn_bytes_of(supervisor->token.text, supervisor->token.len);
}

void supervisor_run_issue(struct supervisor_sensor *sensor, bool refresh) {
    struct supervisor *supervisor = sensor->supervisor;
    const struct token_claims *claims = &supervisor->token.claims;
    struct plan_fact fact = {.kind = PLAN_FACT_TOKEN_ANSWER, .lease = sensor->plan.lease};
    fact.code = token_make(sensor);
    fact.issued_ms = sensor->plan.now_ms;
    if (fact.code == TN_R_OK) {
        fact.expires_ms = fact.issued_ms + (claims->expires_s - claims->issued_s) * 1000;
    }
    if (fact.code == TN_R_OK && refresh) {
        enum tn_status status = run_token_write(sensor->run, token_text(supervisor));
        if (status != TN_OK) {
            supervisor_error(sensor, "cannot write the new token: %s", tn_status_text(status));
            fact.code = TN_R_NOSPACE;
        }
    }
    if (refresh || fact.code != TN_R_OK) {
        token_wipe(supervisor);
        supervisor_log(supervisor, "event=%s sensor=%s result=%s",
                       fact.code == TN_R_OK ? "sensor_token_refreshed" : "sensor_token_refused",
                       sensor->ref, tn_result_name(fact.code));
    }
    supervisor_tell(sensor, &fact);
}

/* ---- What the run says ---- */

static void on_started(void *ctx, int64_t pid) {
    struct supervisor_sensor *sensor = ctx;
    sensor->started_wall_ms = engine_now(sensor->supervisor->options.engine);
    supervisor_tell(sensor, &(struct plan_fact){.kind = PLAN_FACT_STARTED, .pid = pid});
    supervisor_rules_mark(sensor); /* changes since its file was written */
}

static void start_failed(struct supervisor_sensor *sensor, const char *step, const char *why) {
    (void)snprintf(sensor->failed_step, sizeof sensor->failed_step, "%s", step);
    supervisor_error(sensor, "cannot start it: %s: %s", step, why);
    supervisor_tell(sensor, &(struct plan_fact){.kind = PLAN_FACT_START_FAILED});
}

static void on_failed(void *ctx, int error, const char *step) {
    start_failed(ctx, step, strerror(error));
}

static void on_exited(void *ctx, int wait_status) {
    supervisor_tell(ctx, &(struct plan_fact){.kind = PLAN_FACT_EXITED, .status = wait_status});
}

static void on_gone(void *ctx) {
    struct supervisor_sensor *sensor = ctx;
    supervisor_run_drop(sensor);
    supervisor_tell(sensor, &(struct plan_fact){.kind = PLAN_FACT_GONE});
    supervisor_ended(sensor);
}

void supervisor_run_drop(struct supervisor_sensor *sensor) {
    supervisor_rules_drop(sensor);
    run_free(sensor->run);
    sensor->run = NULL;
    if (sensor->run_spec != sensor->spec) {
        sensor_spec_free(sensor->run_spec);
    }
    sensor->run_spec = NULL;
    sensor->token_expires_s = 0;
    sensor->started_wall_ms = 0;
}

/* ---- Starting ---- */

/* The variables that describe the run to its program. */
struct run_variables {
    char text[6][256];
    const char *list[6];
    uint32_t count;
};

__attribute__((format(printf, 2, 3))) static void variable(struct run_variables *variables,
                                                           const char *format, ...) {
    va_list arguments;
    char *text = variables->text[variables->count];
    TN_ASSERT(variables->count < 6);
    va_start(arguments, format);
    int len = vsnprintf(text, sizeof variables->text[0], format, arguments);
    va_end(arguments);
    TN_ASSERT(len >= 0 && (size_t)len < sizeof variables->text[0]);
    variables->list[variables->count++] = text;
}

static void variables_make(const struct supervisor_sensor *sensor,
                           struct run_variables *variables) {
    const struct plan *plan = &sensor->plan;
    const char *url = sensor->supervisor->options.url;
    char lease[PROTOCOL_LEASE_TEXT];
    (void)protocol_lease_format(plan->lease, lease);
    variables->count = 0;
    variable(variables, "TENURE_SENSOR=%s", sensor->ref);
    variable(variables, "TENURE_TRIGGER=%s", sensor->trigger);
    variable(variables, "TENURE_LEASE=%s", lease);
    variable(variables, "TENURE_EPOCH=%llu", (unsigned long long)plan->epoch);
    variable(variables, "TENURE_RUN=%s.%llu", lease, (unsigned long long)plan->epoch);
    if (url != NULL) {
        variable(variables, "TENURE_API_URL=%s", url);
    }
}

void supervisor_run_judge(struct supervisor *supervisor) {
    const char *given = supervisor->options.cgroup;
    if (given != NULL && *given != '\0') {
        (void)snprintf(supervisor->cgroup, sizeof supervisor->cgroup, "%s", given);
    } else if (!process_cgroup_delegated(supervisor->cgroup, sizeof supervisor->cgroup)) {
        supervisor->cgroup[0] = '\0';
    }
    supervisor->can_pidns = run_can_pidns(supervisor->guardian);
    supervisor_log(supervisor, "event=supervisor_containment pidns=%s cgroup=\"%s\"",
                   supervisor->can_pidns ? "yes" : "no", supervisor->cgroup);
}

/* The requested kind. Whether it is possible shows when the run is started. */
static enum run_record_proof proof_of(const struct supervisor *supervisor,
                                      enum sensor_containment containment) {
    switch (containment) {
    case SENSOR_CONTAINMENT_PIDNS:
        return RUN_RECORD_PIDNS;
    case SENSOR_CONTAINMENT_CGROUP:
        return RUN_RECORD_CGROUP;
    case SENSOR_CONTAINMENT_NONE:
        return RUN_RECORD_REAPED;
    default: /* a cgroup changes nothing for the sensor */
        return supervisor->cgroup[0] != '\0' ? RUN_RECORD_CGROUP
               : supervisor->can_pidns       ? RUN_RECORD_PIDNS
                                             : RUN_RECORD_REAPED;
    }
}

static struct run_options options_of(struct supervisor_sensor *sensor,
                                     const struct run_variables *variables) {
    struct supervisor *supervisor = sensor->supervisor;
    return (struct run_options){
        .loop = supervisor->options.loop,
        .os = supervisor->options.os,
        .dir = supervisor->options.dir,
        .guardian = supervisor->guardian,
        .proof = sensor->run != NULL ? run_proof(sensor->run)
                                     : proof_of(supervisor, sensor->run_spec->containment),
        .cgroup = supervisor->cgroup[0] != '\0' ? supervisor->cgroup : NULL,
        .ref = sensor->ref,
        .lease = sensor->plan.lease,
        .epoch = sensor->plan.epoch,
        .spec = sensor->run_spec,
        .env = variables->list,
        .env_count = variables->count,
        .live = supervisor_abroad_live(supervisor),
        .hooks = {.started = on_started, .failed = on_failed, .exited = on_exited, .gone = on_gone},
        .ctx = sensor};
}

void supervisor_run_start(struct supervisor_sensor *sensor) {
    struct supervisor *supervisor = sensor->supervisor;
    struct run_variables variables;
    TN_ASSERT(sensor->run == NULL && sensor->run_spec == NULL && sensor->spec != NULL);
    sensor->run_spec = sensor->spec;
    sensor->revoked_lsn = 0;
    variables_make(sensor, &variables);
    struct run_options options = options_of(sensor, &variables);
    options.token = token_text(supervisor);
    struct supervisor_rules_build *rules = supervisor_rules_first(sensor, &options.rules);
    enum tn_status status = rules != NULL ? run_start(&options, &sensor->run) : TN_NOMEM;
    free(rules);
    token_wipe(supervisor);
    if (status != TN_OK) {
        supervisor_run_drop(sensor);
        start_failed(sensor, "start", tn_status_text(status));
        supervisor_tell(sensor, &(struct plan_fact){.kind = PLAN_FACT_GONE});
    }
}

/* ---- Health ---- */

static void on_unhealthy(void *ctx, const char *why) {
    struct supervisor_sensor *sensor = ctx;
    supervisor_error(sensor, "unhealthy: %s", why);
    supervisor_tell(sensor, &(struct plan_fact){.kind = PLAN_FACT_UNHEALTHY});
}

static void on_health_stopped(void *ctx) {
    struct supervisor_sensor *sensor = ctx;
    sensor->health = NULL;
    sensor->health_stopping = false;
    sensor->supervisor->healths--;
    supervisor_run_health(sensor); /* another run may wait for this */
    supervisor_ended(sensor);
}

static void health_begin(struct supervisor_sensor *sensor) {
    struct run_variables variables;
    struct run_health_hooks hooks = {.unhealthy = on_unhealthy, .stopped = on_health_stopped};
    variables_make(sensor, &variables);
    struct run_options options = options_of(sensor, &variables);
    sensor->health = run_health_start(&options, sensor->run, hooks, sensor);
    if (sensor->health == NULL) {
        supervisor_log(sensor->supervisor,
                       "event=sensor_unchecked sensor=%s reason=\"no memory for its checks\"",
                       sensor->ref);
        return;
    }
    sensor->supervisor->healths++;
}

void supervisor_run_health(struct supervisor_sensor *sensor) {
    bool runs = sensor->plan.phase == PLAN_RUNNING;
    if (runs && sensor->health == NULL && sensor->run != NULL &&
        sensor->run_spec->health != SENSOR_HEALTH_NONE) {
        health_begin(sensor);
    } else if (!runs && sensor->health != NULL && !sensor->health_stopping) {
        sensor->health_stopping = true;
        run_health_stop(sensor->health);
    }
}
