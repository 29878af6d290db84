/* Shared by the two halves of the plan: plan.c decides on effects, plan_fact.c takes in facts. */
#ifndef TN_SUPERVISOR_PLAN_PARTS_H
#define TN_SUPERVISOR_PLAN_PARTS_H

#include "supervisor/plan.h"

/* A request that the engine refused is submitted again after the first delay, then twice that, and
 * so on up to the maximum. */
#define PLAN_AGAIN_FIRST_MS 50u
#define PLAN_AGAIN_MOST_MS 2000u

/* plan.c */
void plan_move(struct plan *plan, enum plan_phase next);
struct plan_effect *plan_emit(struct plan_effects *out, enum plan_effect_kind kind);
struct plan_effect *plan_report_emit(struct plan_effects *out, enum plan_report kind,
                                     enum plan_reason reason);
bool plan_should_run(const struct plan *plan);
/* Whether no settle window is open. */
bool plan_is_settled(const struct plan *plan);
/* Whether the sensor has a lease and a token, or has requested one: there is a run to change or
 * end. */
bool plan_has_token(const struct plan *plan);
/* Opens the settle window if the wanted state differs from what the plan is doing. */
void plan_settle(struct plan *plan, bool at_once);
enum plan_reason plan_stop_reason(const struct plan *plan);
uint64_t plan_uptime(const struct plan *plan);
/* The delay after the n-th failure. */
uint64_t plan_backoff(struct plan *plan, uint32_t n);
void plan_end(struct plan *plan, enum plan_reason reason, bool gentle, enum plan_phase after);
/* Ends the run after a failure: counts and reports it, and plans a retry or gives up. */
void plan_crash(struct plan *plan, enum plan_report kind, enum plan_reason reason, bool gentle,
                struct plan_effects *out);

/* plan_fact.c */
void plan_absorb(struct plan *plan, const struct plan_fact *fact, struct plan_effects *out);

#endif
