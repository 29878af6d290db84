/* Checks of a run's health: when they are made, and what they are found to say.
 *
 *     waiting --interval--> checking --judged, all of the check has ended--> waiting
 *
 * A check is judged once: by its answer or by its timeout. It is over when nothing of it is left: the
 * program and all that came of it dead, the socket closed. */
#include "process/run_health.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#include "base/assert.h"
#include "process/run_health_http.h"

#define HEALTH_VARIABLES_MAX 8u
#define HEALTH_VARIABLE_MAX 256u

struct run_health {
    struct run_health_hooks hooks;
    void *ctx;
    enum sensor_health kind;
    uint64_t interval_ms, timeout_ms;
    uint32_t threshold, failures;
    bool beaten, said, stopping;
    bool checking, judged;
    char why[RUN_HEALTH_WHY_MAX]; /* the last failure */
    uv_timer_t timer;             /* to the next check, or to the end of this one's time */
    struct run_options options;
    const struct run *run;
    struct run *check;
    struct run_health_http http;
    const char *variables[HEALTH_VARIABLES_MAX];
    char variable_texts[HEALTH_VARIABLES_MAX][HEALTH_VARIABLE_MAX];
};

static void check_begin(struct run_health *health);

/* ---- Verdicts ---- */

static void on_timer(uv_timer_t *timer);

static void timer_set(struct run_health *health, uint64_t ms) {
    (void)uv_timer_start(&health->timer, on_timer, ms, 0);
}

static void judge(struct run_health *health, bool good, const char *why) {
    if (health->judged) {
        return;
    }
    health->judged = true;
    health->failures = good ? 0 : health->failures + 1;
    if (!good) {
        (void)snprintf(health->why, sizeof health->why, "%s", why);
    }
}

static void timer_closed(uv_handle_t *handle) {
    struct run_health *health = handle->data;
    struct run_health_hooks hooks = health->hooks;
    void *ctx = health->ctx;
    free(health);
    hooks.stopped(ctx);
}

/* Nothing of the check is left. */
static void check_over(struct run_health *health) {
    health->checking = false;
    if (health->stopping) {
        uv_close((uv_handle_t *)&health->timer, timer_closed);
    } else if (health->failures >= health->threshold && !health->said) {
        health->said = true;
        (void)uv_timer_stop(&health->timer);
        health->hooks.unhealthy(health->ctx, health->why); /* may stop us */
    } else {
        timer_set(health, health->interval_ms);
    }
}

/* ---- By a program ---- */

static void command_started(void *ctx, int64_t pid) {
    (void)ctx;
    (void)pid;
}

static void command_failed(void *ctx, int error, const char *step) {
    char why[RUN_HEALTH_WHY_MAX];
    (void)snprintf(why, sizeof why, "cannot start the check: %s: %s", step, strerror(error));
    judge(ctx, false, why);
}

static void command_exited(void *ctx, int status) {
    struct run_health *health = ctx;
    char why[RUN_HEALTH_WHY_MAX] = "";
    bool good = WIFEXITED(status) && WEXITSTATUS(status) == 0;
    if (WIFSIGNALED(status)) {
        (void)snprintf(why, sizeof why, "signal %d ended the check", WTERMSIG(status));
    } else {
        (void)snprintf(why, sizeof why, "the check exited with code %d", WEXITSTATUS(status));
    }
    judge(health, good, why);
    run_kill(health->check); /* whatever it left behind */
}

static void command_gone(void *ctx) {
    struct run_health *health = ctx;
    run_free(health->check);
    health->check = NULL;
    judge(health, false, "the result of the check was lost");
    check_over(health);
}

static void command_begin(struct run_health *health) {
    health->options.check_of = health->run;
    health->options.ctx = health;
    health->options.hooks = (struct run_hooks){.started = command_started,
                                               .failed = command_failed,
                                               .exited = command_exited,
                                               .gone = command_gone};
    enum tn_status status = run_start(&health->options, &health->check);
    if (status != TN_OK) {
        judge(health, false, tn_status_text(status));
        check_over(health);
    }
}

/* ---- By HTTP ---- */

static void http_answered(void *ctx, bool good, const char *why) {
    judge(ctx, good, why);
}

static void http_over(void *ctx) {
    check_over(ctx);
}

/* ---- Checks ---- */

static void check_begin(struct run_health *health) {
    health->checking = true;
    health->judged = false;
    if (health->kind == SENSOR_HEALTH_HEARTBEAT) {
        judge(health, health->beaten, "no heartbeat in time");
        health->beaten = false;
        check_over(health);
        return;
    }
    timer_set(health, health->timeout_ms);
    if (health->kind == SENSOR_HEALTH_COMMAND) {
        command_begin(health);
    } else {
        struct run_health_http_hooks hooks = {.answered = http_answered, .over = http_over};
        run_health_http_begin(&health->http, health->options.loop, health->options.spec->health_url,
                              hooks, health);
    }
}

/* Its end is on its way then. */
static void check_abandon(struct run_health *health) {
    if (health->check != NULL) {
        run_kill(health->check);
    } else {
        run_health_http_end(&health->http);
    }
}

static void on_timer(uv_timer_t *timer) {
    struct run_health *health = timer->data;
    if (!health->checking) {
        check_begin(health);
        return;
    }
    judge(health, false, "the check took too long");
    check_abandon(health);
}

/* ---- Starting and stopping ---- */

static void options_copy(struct run_health *health, const struct run_options *options) {
    TN_ASSERT(options->env_count <= HEALTH_VARIABLES_MAX);
    health->options = *options;
    for (uint32_t i = 0; i < options->env_count; i++) {
        size_t len = strlen(options->env[i]);
        TN_ASSERT(len < HEALTH_VARIABLE_MAX);
        memcpy(health->variable_texts[i], options->env[i], len + 1);
        health->variables[i] = health->variable_texts[i];
    }
    health->options.env = health->variables;
}

struct run_health *run_health_start(const struct run_options *run_options, const struct run *run,
                                    struct run_health_hooks hooks, void *ctx) {
    const struct sensor_spec *spec = run_options->spec;
    struct run_health *health = calloc(1, sizeof *health);
    TN_ASSERT(spec->health != SENSOR_HEALTH_NONE && spec->health_threshold > 0);
    if (health == NULL) {
        return NULL;
    }
    health->hooks = hooks;
    health->ctx = ctx;
    health->kind = spec->health;
    health->interval_ms = spec->health_interval_ms;
    health->timeout_ms = spec->health_timeout_ms;
    health->threshold = spec->health_threshold;
    health->run = run;
    options_copy(health, run_options);
    int code = uv_timer_init(run_options->loop, &health->timer);
    TN_ASSERT(code == 0);
    health->timer.data = health;
    uint64_t first_ms = spec->health_start_ms;
    timer_set(health,
              health->kind == SENSOR_HEALTH_HEARTBEAT ? first_ms + health->interval_ms : first_ms);
    return health;
}

void run_health_beat(struct run_health *health) {
    health->beaten = true;
}

void run_health_stop(struct run_health *health) {
    TN_ASSERT(!health->stopping);
    health->stopping = true;
    (void)uv_timer_stop(&health->timer);
    if (!health->checking) {
        uv_close((uv_handle_t *)&health->timer, timer_closed);
        return;
    }
    health->judged = true;
    check_abandon(health);
}
