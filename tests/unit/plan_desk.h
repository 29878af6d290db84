/* A desk with the plan of one sensor on it: facts are given, effects come back as text. */
#ifndef TESTS_UNIT_PLAN_DESK_H
#define TESTS_UNIT_PLAN_DESK_H

#include "unit/unit.h"

#include "supervisor/plan.h"

#define SETTLE 5000u
#define STOP 30000u
#define DIGEST 7u

struct desk {
    struct plan plan;
    struct plan_effects effects;
    uint64_t now;
    char text[512]; /* text of the effects, separated by blanks */
};

static const struct plan_terms usual = {.valid = true,
                                        .settle_ms = SETTLE,
                                        .stop_ms = STOP,
                                        .backoff_ms = 1000,
                                        .backoff_max_ms = 8000,
                                        .stable_ms = 60000,
                                        .max_restarts = 3};

static inline void say(struct desk *d, const char *word) {
    size_t len = strlen(d->text);
    (void)snprintf(d->text + len, sizeof d->text - len, "%s%s", len > 0 ? " " : "", word);
}

static inline const char *give(struct desk *d, struct plan_fact fact) {
    plan_step(&d->plan, d->now, &fact, &d->effects);
    d->text[0] = '\0';
    for (uint32_t i = 0; i < d->effects.count; i++) {
        const struct plan_effect *effect = &d->effects.of[i];
        if (effect->kind != PLAN_EFFECT_REPORT) {
            say(d, plan_effect_name(effect->kind));
            continue;
        }
        char report[128];
        (void)snprintf(report, sizeof report, "%s%s%s", plan_report_name(effect->report),
                       effect->reason != PLAN_REASON_NONE ? ":" : "",
                       effect->reason != PLAN_REASON_NONE ? plan_reason_name(effect->reason) : "");
        say(d, report);
    }
    return d->text;
}

static inline const char *tell(struct desk *d, enum plan_fact_kind kind) {
    return give(d, (struct plan_fact){.kind = kind});
}

static inline const char *want(struct desk *d, bool wanted) {
    return give(d, (struct plan_fact){.kind = PLAN_FACT_WANTED, .wanted = wanted, .enabled = true});
}

static inline const char *answer(struct desk *d, enum plan_fact_kind kind, enum tn_result code) {
    return give(d, (struct plan_fact){.kind = kind,
                                      .code = code,
                                      .lease = {.lsn = 42},
                                      .epoch = 1,
                                      .issued_ms = d->now,
                                      .expires_ms = d->now + 1000000});
}

static inline const char *later(struct desk *d, uint64_t ms) {
    d->now += ms;
    return tell(d, PLAN_FACT_TICK);
}

/* To the moment that it asked to be called at. */
static inline const char *due(struct desk *d) {
    assert_true(d->effects.wake_ms != PLAN_NEVER && d->effects.wake_ms > d->now);
    return later(d, d->effects.wake_ms - d->now);
}

static inline void desk_make(struct desk *d) {
    *d = (struct desk){.now = 1000};
    plan_init(&d->plan, &usual, DIGEST, 1);
}

static inline void launch(struct desk *d) {
    assert_string_equal(answer(d, PLAN_FACT_ALLOC_ANSWER, TN_R_OK), "issue");
    assert_string_equal(answer(d, PLAN_FACT_TOKEN_ANSWER, TN_R_OK), "start");
    assert_string_equal(give(d, (struct plan_fact){.kind = PLAN_FACT_STARTED, .pid = 99}),
                        "sensor_started");
    assert_int_equal(plan_state_of(&d->plan), PLAN_STATE_RUNNING);
}

static inline void desk_run(struct desk *d) {
    desk_make(d);
    assert_string_equal(want(d, true), "");
    assert_int_equal(d->effects.wake_ms, d->now + SETTLE);
    assert_string_equal(due(d), "alloc");
    launch(d);
}

#endif
