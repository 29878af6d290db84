/* Judging: whether a command would surely be refused, without a change.
 *
 * kernel_judge runs the checks of the command, the same functions in the same order as kernel_apply,
 * as if the command were applied next, at `now_ms`. Whatever would change something first is not
 * judged: a deadline that `now_ms` has reached, an ended lease that leaves history, a scope that would
 * be created. So a verdict is exactly the result that kernel_apply would give. All that the log loses is
 * the housekeeping that goes with every command (history, operations, lines to serve), and the next
 * command or tick does it. The simulation compares both functions for every command.
 *
 * Not judged at all: commands with an operation id, whose refusals are remembered, and commands
 * other than those of clients about leases. */
#include "kernel/claim.h"

/* Whether an ended lease, or the oldest one in history, leaves history at `now_ms`. */
static bool history_ends(const struct kernel *k, uint32_t lease, uint64_t now_ms) {
    uint64_t keep_ms = kernel_seconds_ms(kernel_limit(k, KERNEL_LIMIT_HISTORY_SECONDS));
    return now_ms - lease_at(k, lease)->ended_ms >= keep_ms;
}

/* Whether it stays unknown: a lease that leaves history at `now_ms` makes those before it RETIRED. A lease of
 * a later position may be known to others already. */
static bool is_unknown(const struct kernel *k, struct kernel_lease_id id, uint64_t now_ms) {
    uint32_t oldest = root_at(k)->history_head;
    return id.lsn <= root_at(k)->lsn && (oldest == TN_NONE || !history_ends(k, oldest, now_ms));
}

/* Whether the lease will be the same at `now_ms`. */
static bool is_settled(const struct kernel *k, uint32_t lease, uint64_t now_ms) {
    const struct lease *l = lease_at(k, lease);
    if (kernel_state_terminal((enum kernel_state)l->state)) {
        return !history_ends(k, lease, now_ms);
    }
    bool forced =
        l->state == KERNEL_OFFLINE && l->pool != TN_NONE && pool_at(k, l->pool)->meter != TN_NONE;
    return !forced && (l->deadline_ms == 0 || l->deadline_ms > now_ms);
}

/* The refusal of a command about a lease; OK: it is not surely refused. */
static enum tn_result lease_judge(const struct kernel *k, const struct kernel_command *c,
                                  uint64_t now_ms) {
    uint32_t lease = kernel_index_lease(k, c->lease.lsn);
    if (lease != TN_NONE && !is_settled(k, lease, now_ms)) {
        return TN_R_OK;
    }
    enum tn_result code = kernel_lease_find(k, c->lease, &lease);
    if (code == TN_R_NOTFOUND && !is_unknown(k, c->lease, now_ms)) {
        return TN_R_OK;
    }
    return code == TN_R_OK ? kernel_lease_check(k, c, lease) : code;
}

static enum tn_result verb_judge(struct kernel *k, const struct kernel_command *c, uint64_t now_ms,
                                 struct kernel_result *result) {
    struct request q = {.c = c, .result = result, .reserve = c->verb == KERNEL_VERB_RESERVE};
    enum tn_result code = kernel_verb_check(c, result);
    if (code != TN_R_OK) {
        return code;
    }
    switch (c->verb) {
    case KERNEL_VERB_ALLOC:
    case KERNEL_VERB_RESERVE:
        return kernel_request_judge(k, &q, now_ms);
    case KERNEL_VERB_EMIT:
        return c->rights & KERNEL_RIGHT_SUPERVISOR ? lease_judge(k, c, now_ms) : TN_R_DENIED;
    default:
        return lease_judge(k, c, now_ms);
    }
}

bool kernel_judged(const struct kernel_command *command) {
    switch (command->verb) {
    case KERNEL_VERB_ALLOC:
    case KERNEL_VERB_RESERVE:
    case KERNEL_VERB_ACTIVATE:
    case KERNEL_VERB_TOUCH:
    case KERNEL_VERB_RELEASE:
    case KERNEL_VERB_ACK:
    case KERNEL_VERB_REVOKE:
    case KERNEL_VERB_RECLAIM:
    case KERNEL_VERB_REKEY:
    case KERNEL_VERB_EMIT:
        return command->opid.len == 0;
    default:
        return false;
    }
}

bool kernel_judge(struct kernel *k, const struct kernel_command *command, uint64_t now_ms,
                  struct kernel_result *ret_result) {
    TN_ASSERT(now_ms >= root_at(k)->now_ms);
    if (!kernel_judged(command)) {
        return false;
    }
    struct kernel_result result = {.lsn = root_at(k)->lsn,
                                   .now_ms = now_ms,
                                   .values = ret_result->values,
                                   .value_capacity = ret_result->value_capacity};
    result.code = verb_judge(k, command, now_ms, &result);
    *ret_result = result;
    return result.code != TN_R_OK;
}
