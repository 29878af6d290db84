/* What facts mean to the plan of a sensor. Whatever a fact does not concern it leaves alone: late and
 * repeated answers are harmless. */
#include "base/assert.h"
#include "supervisor/plan_parts.h"

#define REFRESH_AGAIN_LEAST_MS 100u
#define REFRESH_AGAIN_MOST_MS 60000u

/* ---- Facts: what was asked for ---- */

/* Resets the counts of crashes and refusals. What waits because of them no longer waits. */
static void forgive(struct plan *plan) {
    plan->failures = plan->refusals = 0;
    if (plan->phase == PLAN_WAITING || plan->phase == PLAN_FAILED) {
        plan_move(plan, PLAN_IDLE);
    } else if (plan->phase == PLAN_ENDING) {
        plan->after = PLAN_IDLE;
    }
}

static void absorb_wanted(struct plan *plan, const struct plan_fact *fact) {
    bool rises = fact->wanted && !plan->wanted;
    plan->wanted = fact->wanted;
    plan->enabled = fact->enabled;
    if (rises && plan->phase == PLAN_FAILED) {
        forgive(plan);
    }
    plan_settle(plan, fact->at_once);
}

static void absorb_spec(struct plan *plan, const struct plan_fact *fact) {
    bool differs = fact->digest != plan->digest || plan->deleted;
    plan->terms = fact->terms;
    plan->digest = fact->digest;
    plan->deleted = false;
    if (differs) {
        forgive(plan);
        plan_settle(plan, false);
    }
}

static void absorb_restart(struct plan *plan) {
    forgive(plan);
    plan->settle_at_ms = PLAN_NEVER;
    if (plan_has_token(plan)) {
        plan_end(plan, PLAN_REASON_RESTART, true, PLAN_IDLE);
    } else if (plan->phase == PLAN_ENDING) {
        plan->resume = plan_should_run(plan);
    }
}

static void absorb_found(struct plan *plan, const struct plan_fact *fact) {
    TN_ASSERT(plan->phase == PLAN_IDLE && plan->lease_is == PLAN_LEASE_NONE &&
              plan->run_is == PLAN_RUN_NONE && !plan_should_run(plan));
    plan->lease = fact->lease;
    plan->epoch = fact->epoch;
    plan->lease_is = fact->revoked ? PLAN_LEASE_REVOKED : PLAN_LEASE_ACTIVE;
    plan->run_is = fact->abroad ? PLAN_RUN_ABROAD : PLAN_RUN_ORPHAN;
    plan->launched = true;
    plan_end(plan, PLAN_REASON_ORPHANED, false, PLAN_IDLE);
}

/* ---- Facts: answers of the engine ---- */

/* The engine has refused the request, and may accept it later. */
static void refuse(struct plan *plan) {
    plan->refusals++;
    plan->delay_ms = plan_backoff(plan, plan->refusals);
}

static bool is_lease(const struct plan *plan, const struct plan_fact *fact) {
    return plan->lease_is > PLAN_LEASE_ASKED &&
           kernel_lease_id_compare(plan->lease, fact->lease) == 0;
}

static void absorb_alloc(struct plan *plan, const struct plan_fact *fact,
                         struct plan_effects *out) {
    if (plan->phase != PLAN_ALLOCATING) {
        return;
    }
    if (fact->code != TN_R_OK) {
        plan->lease_is = PLAN_LEASE_NONE;
        refuse(plan);
        plan->next_at_ms = plan->now_ms + plan->delay_ms;
        plan_move(plan, PLAN_WAITING);
        return;
    }
    plan->lease = fact->lease;
    plan->epoch = fact->epoch;
    plan->lease_is = PLAN_LEASE_ACTIVE;
    if (plan_is_settled(plan) && !plan_should_run(plan)) {
        plan_end(plan, plan_stop_reason(plan), true, PLAN_IDLE);
        return;
    }
    plan_move(plan, PLAN_ISSUING);
    plan->run_digest = plan->digest;
    plan->token_asked = true;
    (void)plan_emit(out, PLAN_EFFECT_ISSUE);
}

static void token_times(struct plan *plan, const struct plan_fact *fact) {
    uint64_t life = fact->expires_ms > fact->issued_ms ? fact->expires_ms - fact->issued_ms : 0;
    plan->token_expires_ms = fact->expires_ms;
    plan->refresh_at_ms = fact->issued_ms + life / 10 * 8;
}

static void absorb_token(struct plan *plan, const struct plan_fact *fact,
                         struct plan_effects *out) {
    if (!plan->token_asked || !is_lease(plan, fact)) {
        return;
    }
    plan->token_asked = false;
    if (plan->phase == PLAN_ISSUING) {
        if (fact->code != TN_R_OK) {
            refuse(plan);
            plan_end(plan, PLAN_REASON_TOKEN_REFUSED, true, PLAN_WAITING);
            return;
        }
        TN_ASSERT(plan->lease_is == PLAN_LEASE_ACTIVE && plan->run_is == PLAN_RUN_NONE);
        token_times(plan, fact);
        plan->refusals = 0;
        plan_move(plan, PLAN_LAUNCHING);
        plan->run_is = PLAN_RUN_ALIVE;
        plan->launched = true;
        plan->last_status = PLAN_NO_STATUS;
        (void)plan_emit(out, PLAN_EFFECT_START);
    } else if (plan->phase == PLAN_LAUNCHING || plan->phase == PLAN_RUNNING) {
        if (fact->code == TN_R_OK) {
            token_times(plan, fact);
            return;
        }
        uint64_t left =
            plan->token_expires_ms > plan->now_ms ? (plan->token_expires_ms - plan->now_ms) / 4 : 0;
        left = left < REFRESH_AGAIN_LEAST_MS ? REFRESH_AGAIN_LEAST_MS : left;
        left = left > REFRESH_AGAIN_MOST_MS ? REFRESH_AGAIN_MOST_MS : left;
        plan->refresh_at_ms = plan->now_ms + left;
    }
}

/* The outcome of the revoke or the reclaim: done; unnecessary, because the lease has ended; or to
 * be submitted again. */
static void absorb_commit(struct plan *plan, enum plan_lease asked, enum tn_result code) {
    bool revoke = asked == PLAN_LEASE_REVOKE;
    if (plan->lease_is != asked) {
        return;
    }
    switch (code) {
    case TN_R_OK:
    case TN_R_NOOP:
        plan->lease_is = revoke ? PLAN_LEASE_REVOKED : PLAN_LEASE_NONE;
        plan->again_at_ms = PLAN_NEVER;
        plan->again_in_ms = PLAN_AGAIN_FIRST_MS;
        return;
    case TN_R_STATE:
    case TN_R_NOTFOUND:
    case TN_R_RETIRED:
        plan->lease_is = PLAN_LEASE_NONE;
        return;
    default:
        plan->lease_is = revoke ? PLAN_LEASE_REVOKE_REFUSED : PLAN_LEASE_RECLAIM_REFUSED;
        plan->again_at_ms = plan->now_ms + plan->again_in_ms;
        plan->again_in_ms *= 2;
        plan->again_in_ms =
            plan->again_in_ms > PLAN_AGAIN_MOST_MS ? PLAN_AGAIN_MOST_MS : plan->again_in_ms;
    }
}

static void absorb_revoked(struct plan *plan, const struct plan_fact *fact) {
    if (!is_lease(plan, fact)) {
        return;
    }
    if (plan->lease_is == PLAN_LEASE_ACTIVE && plan_has_token(plan)) {
        plan->lease_is = PLAN_LEASE_REVOKED;
        plan_end(plan, PLAN_REASON_TOKEN_REVOKED, true, PLAN_IDLE);
    } else if (plan->lease_is == PLAN_LEASE_REVOKE_REFUSED ||
               (plan->lease_is == PLAN_LEASE_ACTIVE && plan->phase == PLAN_ENDING)) {
        plan->lease_is = PLAN_LEASE_REVOKED;
    }
}

/* ---- Facts: the run ---- */

static bool is_up(const struct plan *plan) {
    return plan->phase == PLAN_LAUNCHING || plan->phase == PLAN_RUNNING;
}

static bool is_of_earlier_life(const struct plan *plan) {
    return plan->run_is == PLAN_RUN_ORPHAN || plan->run_is == PLAN_RUN_UNPROVEN ||
           plan->run_is == PLAN_RUN_ABROAD;
}

static void absorb_started(struct plan *plan, const struct plan_fact *fact,
                           struct plan_effects *out) {
    if (plan->run_is == PLAN_RUN_NONE || is_of_earlier_life(plan)) {
        return;
    }
    plan->pid = fact->pid;
    plan->started_ms = plan->now_ms;
    (void)plan_report_emit(out, PLAN_REPORT_STARTED, PLAN_REASON_NONE);
    if (plan->phase == PLAN_LAUNCHING) {
        plan_move(plan, PLAN_RUNNING);
    }
}

static void absorb_exited(struct plan *plan, const struct plan_fact *fact,
                          struct plan_effects *out) {
    if (plan->run_is == PLAN_RUN_NONE || is_of_earlier_life(plan)) {
        return;
    }
    plan->last_status = fact->status;
    plan->last_uptime_ms = plan_uptime(plan);
    plan->keeps_token = false;
    if (is_up(plan)) {
        plan_crash(plan, PLAN_REPORT_CRASHED, PLAN_REASON_CRASHED, false, out);
    } else if (plan->run_is == PLAN_RUN_TERMED) {
        /* To the processes that the main process has left behind. */
        (void)plan_emit(out, PLAN_EFFECT_TERM);
    }
}

static void absorb_gone(struct plan *plan, struct plan_effects *out) {
    if (plan->run_is == PLAN_RUN_NONE) {
        return;
    }
    if (plan->last_status == PLAN_NO_STATUS) {
        plan->last_uptime_ms = plan_uptime(plan);
    }
    if (is_up(plan)) { /* its end was not seen, but the run is dead */
        plan_crash(plan, PLAN_REPORT_CRASHED, PLAN_REASON_CRASHED, false, out);
    }
    plan->run_is = PLAN_RUN_NONE;
    plan->pid = 0;
    plan->keeps_token = false;
    plan->kill_at_ms = PLAN_NEVER;
    plan->ended_ms = plan->now_ms;
}

/* If the lease is gone, too, only the run's record is left, and the run ends like any other. */
static void absorb_unproven(struct plan *plan, struct plan_effects *out) {
    if (plan->phase == PLAN_IDLE && plan->run_is == PLAN_RUN_NONE &&
        plan->lease_is == PLAN_LEASE_NONE) {
        plan_end(plan, PLAN_REASON_ORPHANED, false, PLAN_IDLE);
        plan->run_is = PLAN_RUN_ORPHAN;
    }
    if (plan->run_is == PLAN_RUN_ORPHAN || plan->run_is == PLAN_RUN_ABROAD) {
        plan->run_is = PLAN_RUN_UNPROVEN;
        (void)plan_report_emit(out, PLAN_REPORT_ERROR, PLAN_REASON_UNPROVEN);
    }
}

static void absorb_reset(struct plan *plan) {
    forgive(plan);
    if (plan->run_is == PLAN_RUN_UNPROVEN || plan->run_is == PLAN_RUN_ABROAD) {
        plan->run_is = PLAN_RUN_NONE;
        plan->ended_ms = plan->now_ms;
    }
}

/* ---- All of them ---- */

static void absorb_asked(struct plan *plan, const struct plan_fact *fact) {
    switch (fact->kind) {
    case PLAN_FACT_WANTED:
        absorb_wanted(plan, fact);
        break;
    case PLAN_FACT_SPEC:
        absorb_spec(plan, fact);
        break;
    case PLAN_FACT_DELETED:
        plan->deleted = true;
        plan_settle(plan, false);
        break;
    case PLAN_FACT_NEW_RULE:
        if (plan->phase == PLAN_FAILED) {
            forgive(plan);
            plan_settle(plan, false);
        }
        break;
    case PLAN_FACT_RESET:
        absorb_reset(plan);
        break;
    case PLAN_FACT_RESTART:
        absorb_restart(plan);
        break;
    case PLAN_FACT_FOUND:
        absorb_found(plan, fact);
        break;
    case PLAN_FACT_SHUTDOWN:
        plan->shutdown = true;
        break;
    default:
        break;
    }
}

void plan_absorb(struct plan *plan, const struct plan_fact *fact, struct plan_effects *out) {
    switch (fact->kind) {
    case PLAN_FACT_ALLOC_ANSWER:
        absorb_alloc(plan, fact, out);
        break;
    case PLAN_FACT_TOKEN_ANSWER:
        absorb_token(plan, fact, out);
        break;
    case PLAN_FACT_TOKEN_VOID:
        if (is_up(plan)) { /* when the run has started */
            plan->refresh_at_ms = plan->now_ms;
        }
        break;
    case PLAN_FACT_REVOKE_ANSWER:
        absorb_commit(plan, PLAN_LEASE_REVOKE, fact->code);
        break;
    case PLAN_FACT_RECLAIM_ANSWER:
        absorb_commit(plan, PLAN_LEASE_RECLAIM, fact->code);
        break;
    case PLAN_FACT_LEASE_REVOKED:
        absorb_revoked(plan, fact);
        break;
    case PLAN_FACT_STARTED:
        absorb_started(plan, fact, out);
        break;
    case PLAN_FACT_START_FAILED:
        if (is_up(plan)) {
            plan_crash(plan, PLAN_REPORT_START_FAILED, PLAN_REASON_START_FAILED, false, out);
        }
        break;
    case PLAN_FACT_EXITED:
        absorb_exited(plan, fact, out);
        break;
    case PLAN_FACT_GONE:
        absorb_gone(plan, out);
        break;
    case PLAN_FACT_UNPROVEN:
        absorb_unproven(plan, out);
        break;
    case PLAN_FACT_UNHEALTHY:
        if (plan->phase == PLAN_RUNNING) {
            plan_crash(plan, PLAN_REPORT_CRASHED, PLAN_REASON_UNHEALTHY, true, out);
        }
        break;
    default:
        absorb_asked(plan, fact);
    }
}
