/* What the supervisor of one sensor does next: plan.h has the diagram and the invariants.
 *
 * A step takes in the fact (plan_fact.c), then does all that can be done now (advance), phase by
 * phase, until nothing changes, then says when it has to be called again (wake). */
#include "supervisor/plan_parts.h"

#include "base/assert.h"

#define PLAN_TO(phase) (1u << PLAN_##phase)

struct phase_row {
    const char *name;
    enum plan_state state;
    unsigned next;
};

static const struct phase_row phases[PLAN_PHASES] = {
#define PLAN_PHASE_ROW(id, text, shows, to) \
    [PLAN_##id] = {.name = (text), .state = PLAN_STATE_##shows, .next = (to)},
    PLAN_PHASE_TABLE(PLAN_PHASE_ROW)
#undef PLAN_PHASE_ROW
};

/* ---- Moving ---- */

void plan_move(struct plan *plan, enum plan_phase next) {
    TN_ASSERT(phases[plan->phase].next & 1u << next);
    plan->phase = next;
}

struct plan_effect *plan_emit(struct plan_effects *out, enum plan_effect_kind kind) {
    TN_ASSERT(out->count < PLAN_EFFECTS_MAX);
    struct plan_effect *effect = &out->of[out->count++];
    *effect = (struct plan_effect){.kind = kind};
    return effect;
}

struct plan_effect *plan_report_emit(struct plan_effects *out, enum plan_report kind,
                                     enum plan_reason reason) {
    struct plan_effect *effect = plan_emit(out, PLAN_EFFECT_REPORT);
    effect->report = kind;
    effect->reason = reason;
    return effect;
}

/* ---- What is asked for, and what is being done ---- */

bool plan_should_run(const struct plan *plan) {
    return plan->wanted && !plan->deleted && !plan->shutdown && !plan->halted;
}

bool plan_is_settled(const struct plan *plan) {
    return plan->settle_at_ms == PLAN_NEVER || plan->shutdown || plan->halted;
}

/* Whether the current activity leads to a running sensor if nothing changes. */
static bool does_run(const struct plan *plan) {
    switch (plan->phase) {
    case PLAN_IDLE:
    case PLAN_FAILED:
        return false;
    case PLAN_ENDING:
        return plan->resume;
    default:
        return true;
    }
}

bool plan_has_token(const struct plan *plan) {
    return plan->phase == PLAN_ISSUING || plan->phase == PLAN_LAUNCHING ||
           plan->phase == PLAN_RUNNING;
}

static bool is_changed(const struct plan *plan) {
    return plan_has_token(plan) && plan->digest != plan->run_digest;
}

/* Called when the wanted state may have changed: opens the window if it differs from what the plan
 * is doing. */
void plan_settle(struct plan *plan, bool at_once) {
    if (at_once) {
        plan->settle_at_ms = PLAN_NEVER;
        plan->resume = plan_should_run(plan);
    } else if (plan->settle_at_ms == PLAN_NEVER &&
               (plan_should_run(plan) != does_run(plan) || is_changed(plan))) {
        plan->settle_at_ms = plan->now_ms + plan->terms.settle_ms;
    }
}

enum plan_reason plan_stop_reason(const struct plan *plan) {
    if (plan->halted) {
        return PLAN_REASON_HALTED;
    }
    if (plan->shutdown) {
        return PLAN_REASON_SHUTDOWN;
    }
    if (plan->deleted) {
        return PLAN_REASON_DELETED;
    }
    return plan->enabled ? PLAN_REASON_NO_RULES : PLAN_REASON_DISABLED;
}

/* ---- Ending ---- */

uint64_t plan_uptime(const struct plan *plan) {
    return plan->started_ms != 0 ? plan->now_ms - plan->started_ms : 0;
}

void plan_end(struct plan *plan, enum plan_reason reason, bool gentle, enum plan_phase after) {
    plan_move(plan, PLAN_ENDING);
    plan->reason = reason;
    plan->gentle = gentle;
    plan->after = after;
    plan->resume = plan_should_run(plan);
    plan->patience_at_ms = plan->now_ms + PLAN_PATIENCE_MS;
    plan->kill_at_ms = PLAN_NEVER;
    plan->again_at_ms = PLAN_NEVER;
    plan->again_in_ms = PLAN_AGAIN_FIRST_MS;
    plan->refresh_at_ms = PLAN_NEVER;
    plan->exit_first = plan->terms.exit_first && gentle && plan->run_is == PLAN_RUN_ALIVE;
    plan->keeps_token = plan->exit_first;
}

/* backoff_ms * 2^(n-1), at most backoff_max_ms, and varied by up to a fifth. */
uint64_t plan_backoff(struct plan *plan, uint32_t n) {
    uint64_t delay = plan->terms.backoff_ms;
    for (uint32_t i = 1; i < n && i < 64 && delay < plan->terms.backoff_max_ms; i++) {
        delay *= 2;
    }
    if (delay > plan->terms.backoff_max_ms) {
        delay = plan->terms.backoff_max_ms;
    }
    return delay - delay / 5 + tn_prng_below(&plan->random, delay / 5 * 2 + 1);
}

/* Counts the failure and returns the next phase. */
static enum plan_phase fail(struct plan *plan) {
    if (plan->started_ms != 0 && plan_uptime(plan) >= plan->terms.stable_ms) {
        plan->failures = 0;
    }
    plan->failures++;
    if (plan->failures > plan->terms.max_restarts) {
        plan->delay_ms = 0;
        return PLAN_FAILED;
    }
    plan->delay_ms = plan_backoff(plan, plan->failures);
    return PLAN_WAITING;
}

void plan_crash(struct plan *plan, enum plan_report kind, enum plan_reason reason, bool gentle,
                struct plan_effects *out) {
    enum plan_phase after = fail(plan);
    struct plan_effect *effect = plan_report_emit(out, kind, reason);
    effect->attempt = plan->failures;
    effect->again = after == PLAN_WAITING;
    effect->next_in_ms = plan->delay_ms;
    effect->uptime_ms = plan_uptime(plan);
    plan_end(plan, reason, gentle, after);
}

static void report_stopped(struct plan *plan, struct plan_effects *out) {
    if (!plan->launched) {
        return;
    }
    struct plan_effect *effect = plan_report_emit(out, PLAN_REPORT_STOPPED, plan->reason);
    effect->uptime_ms = plan->last_uptime_ms;
    effect->token_revoked =
        plan->lease_is == PLAN_LEASE_REVOKED || plan->lease_is == PLAN_LEASE_NONE;
    plan->launched = false;
    plan->last_reason = plan->reason;
}

static void drive_lease(struct plan *plan, struct plan_effects *out) {
    bool again = plan->now_ms >= plan->again_at_ms;
    if (plan->halted) {
        return;
    }
    if (plan->keeps_token && plan->now_ms >= plan->kill_at_ms) {
        plan->keeps_token = false; /* SIGKILL waits for the revoke */
        plan->patience_at_ms = plan->now_ms + PLAN_PATIENCE_MS;
    }
    if ((plan->lease_is == PLAN_LEASE_ACTIVE && !plan->keeps_token) ||
        (plan->lease_is == PLAN_LEASE_REVOKE_REFUSED && again)) {
        plan->lease_is = PLAN_LEASE_REVOKE;
        (void)plan_emit(out, PLAN_EFFECT_REVOKE);
    }
    if (plan->run_is == PLAN_RUN_NONE &&
        (plan->lease_is == PLAN_LEASE_REVOKED ||
         (plan->lease_is == PLAN_LEASE_RECLAIM_REFUSED && again))) {
        report_stopped(plan, out);
        plan->lease_is = PLAN_LEASE_RECLAIM;
        (void)plan_emit(out, PLAN_EFFECT_RECLAIM);
    }
}

/* Whether a signal waits for the answer to the revoke: SIGTERM, or with exit_first SIGKILL. */
static bool revoke_waited_for(const struct plan *plan) {
    return plan->lease_is == PLAN_LEASE_REVOKE && plan->now_ms < plan->patience_at_ms &&
           !plan->halted;
}

static bool kill_is_due(const struct plan *plan) {
    return plan->now_ms >= plan->kill_at_ms && !(plan->exit_first && revoke_waited_for(plan));
}

static void drive_run(struct plan *plan, struct plan_effects *out) {
    if (plan->run_is == PLAN_RUN_ALIVE && !revoke_waited_for(plan)) {
        plan->run_is = plan->gentle ? PLAN_RUN_TERMED : PLAN_RUN_KILLED;
        plan->kill_at_ms = plan->now_ms + plan->terms.stop_ms;
        (void)plan_emit(out, plan->gentle ? PLAN_EFFECT_TERM : PLAN_EFFECT_KILL);
    }
    if (plan->run_is == PLAN_RUN_TERMED && kill_is_due(plan)) {
        TN_ASSERT(plan->lease_is != PLAN_LEASE_ACTIVE || plan->halted);
        plan->run_is = PLAN_RUN_KILLED;
        (void)plan_emit(out, PLAN_EFFECT_KILL);
    }
}

/* Whether the lease has ended and nothing of the run is alive, or the engine has halted. */
static bool is_ended(const struct plan *plan) {
    return plan->run_is == PLAN_RUN_NONE && (plan->lease_is == PLAN_LEASE_NONE || plan->halted);
}

static void finish(struct plan *plan, struct plan_effects *out) {
    enum plan_phase after = plan->shutdown || plan->halted ? PLAN_IDLE : plan->after;
    report_stopped(plan, out);
    plan->started_ms = 0;
    if (after == PLAN_WAITING) {
        plan->next_at_ms = plan->now_ms + plan->delay_ms;
    } else if (after == PLAN_FAILED) {
        plan_report_emit(out, PLAN_REPORT_ERROR, plan->reason)->attempt = plan->failures;
    }
    plan_move(plan, after);
}

/* ---- What can be done now, phase by phase; true: something was ---- */

static bool advance_idle(struct plan *plan, struct plan_effects *out) {
    if (plan->halted || !plan_is_settled(plan)) {
        return false;
    }
    if (plan->deleted) {
        TN_ASSERT(plan->lease_is == PLAN_LEASE_NONE && plan->run_is == PLAN_RUN_NONE);
        plan->deleted = false; /* reported once; a SPEC would bring the sensor back */
        plan->wanted = false;
        (void)plan_emit(out, PLAN_EFFECT_FORGET);
        return false;
    }
    if (!plan_should_run(plan)) {
        return false;
    }
    if (!plan->terms.valid) {
        plan_move(plan, PLAN_FAILED);
        (void)plan_report_emit(out, PLAN_REPORT_ERROR, PLAN_REASON_BAD_DESCRIPTION);
        return true;
    }
    TN_ASSERT(plan->lease_is == PLAN_LEASE_NONE && plan->run_is == PLAN_RUN_NONE);
    plan_move(plan, PLAN_ALLOCATING);
    plan->lease_is = PLAN_LEASE_ASKED;
    (void)plan_emit(out, PLAN_EFFECT_ALLOC);
    return true;
}

static bool advance_waiting(struct plan *plan) {
    bool over = plan_should_run(plan) ? plan->now_ms >= plan->next_at_ms : true;
    if (!plan_is_settled(plan) || !over) {
        return false;
    }
    plan_move(plan, PLAN_IDLE);
    return true;
}

/* In all phases with a lease: whether the sensor is still wanted. */
static bool advance_held(struct plan *plan, struct plan_effects *out) {
    if (plan_is_settled(plan) && !plan_should_run(plan)) {
        plan_end(plan, plan_stop_reason(plan), true, PLAN_IDLE);
        return true;
    }
    if (plan_is_settled(plan) && is_changed(plan)) {
        plan_end(plan, PLAN_REASON_CHANGED, true, PLAN_IDLE);
        return true;
    }
    if (plan->phase == PLAN_RUNNING) {
        if (plan_uptime(plan) >= plan->terms.stable_ms) {
            plan->failures = plan->refusals = 0;
        }
        if (plan->now_ms >= plan->refresh_at_ms && !plan->token_asked) {
            plan->token_asked = true;
            (void)plan_emit(out, PLAN_EFFECT_REFRESH_TOKEN);
        }
    }
    return false;
}

static bool advance_ending(struct plan *plan, struct plan_effects *out) {
    drive_lease(plan, out);
    drive_run(plan, out);
    if (!is_ended(plan)) {
        return false;
    }
    finish(plan, out);
    return true;
}

static bool advance(struct plan *plan, struct plan_effects *out) {
    switch (plan->phase) {
    case PLAN_IDLE:
        return advance_idle(plan, out);
    case PLAN_ALLOCATING:
        if (plan->halted) {
            plan_end(plan, PLAN_REASON_HALTED, true, PLAN_IDLE);
        }
        return plan->halted;
    case PLAN_ISSUING:
    case PLAN_LAUNCHING:
    case PLAN_RUNNING:
        return advance_held(plan, out);
    case PLAN_ENDING:
        return advance_ending(plan, out);
    case PLAN_WAITING:
        return advance_waiting(plan);
    case PLAN_FAILED:
        if (plan->deleted || plan->shutdown) {
            plan_move(plan, PLAN_IDLE);
            return true;
        }
        return false;
    default:
        TN_ASSERT(false);
        return false;
    }
}

/* ---- The step ---- */

static uint64_t sooner(uint64_t a, uint64_t b) {
    return a < b ? a : b;
}

static uint64_t wake(const struct plan *plan) {
    uint64_t at = plan->halted || plan->shutdown ? PLAN_NEVER : plan->settle_at_ms;
    switch (plan->phase) {
    case PLAN_ENDING:
        if (plan->run_is == PLAN_RUN_ALIVE) {
            at = sooner(at, plan->patience_at_ms);
        } else if (plan->run_is == PLAN_RUN_TERMED) {
            at = sooner(at,
                        plan->now_ms < plan->kill_at_ms ? plan->kill_at_ms : plan->patience_at_ms);
        }
        if (!plan->halted && (plan->lease_is == PLAN_LEASE_REVOKE_REFUSED ||
                              plan->lease_is == PLAN_LEASE_RECLAIM_REFUSED)) {
            at = sooner(at, plan->again_at_ms);
        }
        return at;
    case PLAN_WAITING:
        return plan->next_at_ms > plan->now_ms ? sooner(at, plan->next_at_ms) : at;
    case PLAN_RUNNING:
        if (plan->failures > 0) {
            at = sooner(at, plan->started_ms + plan->terms.stable_ms);
        }
        return plan->token_asked ? at : sooner(at, plan->refresh_at_ms);
    default:
        return at;
    }
}

void plan_step(struct plan *plan, uint64_t now_ms, const struct plan_fact *fact,
               struct plan_effects *ret_effects) {
    TN_ASSERT(now_ms >= plan->now_ms);
    plan->now_ms = now_ms;
    ret_effects->count = 0;
    if (fact->kind == PLAN_FACT_HALT) {
        plan->halted = true;
    } else if (!plan->halted || fact->kind == PLAN_FACT_EXITED || fact->kind == PLAN_FACT_GONE ||
               fact->kind == PLAN_FACT_STARTED || fact->kind == PLAN_FACT_UNPROVEN) {
        plan_absorb(plan, fact, ret_effects);
    }
    if (now_ms >= plan->settle_at_ms) {
        plan->settle_at_ms = PLAN_NEVER;
        if (plan->phase == PLAN_ENDING) {
            plan->resume = plan_should_run(plan);
        }
    }
    for (unsigned turns = 0; advance(plan, ret_effects); turns++) {
        TN_ASSERT(turns < PLAN_PHASES);
    }
    ret_effects->wake_ms = wake(plan);
}

void plan_init(struct plan *plan, const struct plan_terms *terms, uint64_t digest, uint64_t seed) {
    *plan = (struct plan){.phase = PLAN_IDLE,
                          .terms = *terms,
                          .digest = digest,
                          .settle_at_ms = PLAN_NEVER,
                          .refresh_at_ms = PLAN_NEVER,
                          .kill_at_ms = PLAN_NEVER,
                          .again_at_ms = PLAN_NEVER,
                          .last_status = PLAN_NO_STATUS};
    tn_prng_seed(&plan->random, seed);
}

enum plan_state plan_state_of(const struct plan *plan) {
    return phases[plan->phase].state;
}

bool plan_is_over(const struct plan *plan) {
    bool unproven = plan->run_is == PLAN_RUN_UNPROVEN || plan->run_is == PLAN_RUN_ABROAD;
    if ((plan->run_is != PLAN_RUN_NONE && !unproven) || !(plan->shutdown || plan->halted)) {
        return false;
    }
    return plan->halted || (unproven && plan->lease_is == PLAN_LEASE_REVOKED) ||
           plan->lease_is == PLAN_LEASE_NONE || plan->lease_is == PLAN_LEASE_REVOKE_REFUSED ||
           plan->lease_is == PLAN_LEASE_RECLAIM_REFUSED;
}

/* ---- Names ---- */

const char *plan_phase_name(enum plan_phase phase) {
    TN_ASSERT(phase < PLAN_PHASES);
    return phases[phase].name;
}

#define PLAN_NAME(id, name) (name),
/* `what` is also the name of the argument in plan.h. */
#define PLAN_NAMES(what, type, TABLE, count)                   \
    const char *plan_##what##_name(enum type what) {           \
        static const char *const names[] = {TABLE(PLAN_NAME)}; \
        TN_ASSERT(what < (count));                             \
        return names[what];                                    \
    }

PLAN_NAMES(state, plan_state, PLAN_STATE_TABLE, PLAN_STATES)
PLAN_NAMES(reason, plan_reason, PLAN_REASON_TABLE, PLAN_REASONS)
PLAN_NAMES(fact, plan_fact_kind, PLAN_FACT_TABLE, PLAN_FACTS)
PLAN_NAMES(effect, plan_effect_kind, PLAN_EFFECT_TABLE, PLAN_EFFECT_KINDS)
PLAN_NAMES(report, plan_report, PLAN_REPORT_TABLE, PLAN_REPORTS)
