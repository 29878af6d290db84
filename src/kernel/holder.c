/* The commands of a holder on its lease: activate, touch, release, acknowledge, emit.
 *
 * The checks always run in this order: exists, user, holder, epoch, state. Due deadlines of the
 * lease take effect first. A refusal changes nothing.
 *
 * A lease on a value of an internal pool represents a process of the supervisor. The value may be
 * reused when that process is proven dead, which only the supervisor can know. So only the
 * supervisor may end or change such a lease; an operator may revoke it, and the supervisor reacts.
 * */
#include "kernel/state.h"

/* Finds the lease and brings it up to now. */
static enum tn_result lease_enter(struct kernel *k, const struct kernel_command *c,
                                  uint32_t *ret_lease) {
    enum tn_result code = kernel_lease_find(k, c->lease, ret_lease);
    if (code != TN_R_OK || !kernel_due_lease(k, *ret_lease)) {
        return code;
    }
    return kernel_lease_find(k, c->lease, ret_lease); /* history may keep nothing at all */
}

bool kernel_lease_user_may(const struct kernel *k, const struct kernel_command *c,
                           const struct lease *l) {
    if (c->rights & KERNEL_RIGHT_OPERATOR) {
        return true;
    }
    return c->user.len == 0
               ? l->user == TN_NONE
               : l->user != TN_NONE &&
                     tn_text_equal(&k->tables[TABLE_TEXT], name_at(k, l->user)->text, c->user);
}

/* The holder that a rekey names is the new one. */
static bool holder_is(const struct kernel *k, const struct kernel_command *c,
                      const struct lease *l) {
    return !(c->fields & KERNEL_F_HOLDER) || c->verb == KERNEL_VERB_REKEY ||
           tn_text_equal(&k->tables[TABLE_TEXT], name_at(k, l->holder)->text, c->holder);
}

/* Whether only the supervisor may change the lease, and this is not the supervisor. An ended lease
 * needs no protection, and its pool may not exist any more. */
static bool lease_barred(const struct kernel *k, const struct kernel_command *c, uint32_t lease) {
    return !(c->rights & KERNEL_RIGHT_SUPERVISOR) &&
           !kernel_state_terminal((enum kernel_state)lease_at(k, lease)->state) &&
           kernel_lease_internal(k, lease);
}

#define IN(state) (1u << KERNEL_##state)

/* The states in which a holder's command is allowed, and how far its epoch is behind the lease's (an
 * ack carries the one before). */
static const struct holder_rule {
    uint32_t states;
    uint32_t behind;
} holder_rules[KERNEL_VERB_COUNT] = {
    [KERNEL_VERB_ACTIVATE] = {.states = IN(RESERVED)},
    [KERNEL_VERB_TOUCH] = {.states = IN(ACTIVE) | IN(OFFLINE)},
    [KERNEL_VERB_RELEASE] = {.states = IN(RESERVED) | IN(ACTIVE) | IN(OFFLINE) | IN(WAITING)},
    [KERNEL_VERB_ACK] = {.states = IN(REVOKING), .behind = 1},
    [KERNEL_VERB_REKEY] = {.states = IN(ACTIVE) | IN(OFFLINE)},
    [KERNEL_VERB_EMIT] = {.states = IN(ACTIVE)},
};

static enum tn_result holder_check(const struct kernel *k, const struct kernel_command *c,
                                   uint32_t lease) {
    const struct holder_rule *rule = &holder_rules[c->verb];
    const struct lease *l = lease_at(k, lease);
    TN_ASSERT(rule->states != 0);
    if (!kernel_lease_user_may(k, c, l) || lease_barred(k, c, lease)) {
        return TN_R_DENIED;
    }
    if (!holder_is(k, c, l)) {
        return TN_R_HOLDER;
    }
    if (c->epoch + rule->behind != l->epoch) {
        return TN_R_STALE;
    }
    return rule->states >> l->state & 1 ? TN_R_OK : TN_R_STATE;
}

static enum tn_result holder_enter(struct kernel *k, const struct kernel_command *c,
                                   uint32_t *ret_lease) {
    enum tn_result code = lease_enter(k, c, ret_lease);
    return code == TN_R_OK ? holder_check(k, c, *ret_lease) : code;
}

void kernel_run_activate(struct kernel *k, const struct kernel_command *c,
                         struct kernel_result *result) {
    uint32_t lease;
    result->code = holder_enter(k, c, &lease);
    if (result->code != TN_R_OK) {
        return;
    }
    struct kernel_terms terms = kernel_lease_terms(k, lease);
    uint64_t deadline = kernel_terms_deadline(k, &terms, 0, lease_at(k, lease)->created_ms, 0);
    lease_mut(k, lease)->grace_s = (uint32_t)terms.grace_s;
    lease_mut(k, lease)->last_seen_ms = root_at(k)->now_ms;
    kernel_lease_move(k, lease, CAUSE_ACTIVATE, deadline);
    kernel_result_lease(k, lease, result);
}

static enum tn_result touch_allowed(const struct kernel *k, const struct kernel_command *c,
                                    const struct kernel_terms *terms, uint32_t lease,
                                    struct kernel_result *result) {
    uint64_t cap = terms->max_lease_s;
    if ((c->fields & KERNEL_F_TTL) && (c->ttl_s == 0 || (cap != 0 && c->ttl_s > cap))) {
        result->number = cap;
        return TN_R_BAD_TTL;
    }
    if (c->meta.len > KERNEL_META_MAX) {
        result->number = KERNEL_META_MAX;
        return TN_R_TOO_LARGE;
    }
    return kernel_lease_meta_fits(k, c, lease) ? TN_R_OK : TN_R_NAMES_FULL;
}

void kernel_run_touch(struct kernel *k, const struct kernel_command *c,
                      struct kernel_result *result) {
    uint32_t lease;
    result->code = holder_enter(k, c, &lease);
    if (result->code != TN_R_OK) {
        return;
    }
    struct kernel_terms terms = kernel_lease_terms(k, lease);
    result->code = touch_allowed(k, c, &terms, lease, result);
    if (result->code != TN_R_OK) {
        return;
    }
    if (c->fields & KERNEL_F_META) {
        kernel_lease_meta_set(k, lease, c->meta);
    }
    kernel_lease_seen(k, lease);
    struct lease *l = lease_mut(k, lease);
    l->ttl_s = c->fields & KERNEL_F_TTL ? c->ttl_s : l->ttl_s;
    l->grace_s = (uint32_t)terms.grace_s;
    uint64_t deadline = kernel_terms_deadline(k, &terms, l->ttl_s, l->created_ms, l->deadline_ms);
    if (l->state == KERNEL_ACTIVE) {
        l->deadline_ms = deadline; /* not a transition; most renewals end here */
        kernel_clock_lease(k, lease);
    } else {
        kernel_lease_move(k, lease, CAUSE_TOUCH, deadline);
    }
    kernel_result_lease(k, lease, result);
}

/* How long a sticky pool keeps the lease for its holder; 0: not at all. */
static uint64_t hold_deadline(struct kernel *k, uint32_t lease) {
    const struct lease *l = lease_at(k, lease);
    if (l->state == KERNEL_WAITING || l->pool == TN_NONE ||
        !kernel_pool_option(k, l->pool, KERNEL_OPTION_STICKY)) {
        return 0;
    }
    kernel_meter_advance(k, l->pool);
    uint64_t hold_s = kernel_meter_read(k, l->pool, root_at(k)->now_ms).effective_s;
    if (hold_s == 0) {
        return 0;
    }
    struct kernel_terms terms = kernel_lease_terms(k, lease);
    terms.lease_s = hold_s;
    return kernel_terms_deadline(k, &terms, 0, l->created_ms, 0);
}

void kernel_run_release(struct kernel *k, const struct kernel_command *c,
                        struct kernel_result *result) {
    uint32_t lease;
    result->code = holder_enter(k, c, &lease);
    if (result->code != TN_R_OK) {
        return;
    }
    lease_mut(k, lease)->last_seen_ms = root_at(k)->now_ms;
    uint64_t hold = c->fields & KERNEL_F_IMMEDIATE ? 0 : hold_deadline(k, lease);
    kernel_lease_move(k, lease, hold == 0 ? CAUSE_RELEASE : CAUSE_HOLD, hold);
    kernel_result_lease(k, lease, result);
}

void kernel_run_ack(struct kernel *k, const struct kernel_command *c,
                    struct kernel_result *result) {
    uint32_t lease;
    result->code = holder_enter(k, c, &lease);
    if (result->code != TN_R_OK) {
        return;
    }
    kernel_lease_move(k, lease, CAUSE_ACK, 0);
    kernel_result_lease(k, lease, result);
}

/* ---- what a sensor has to say ---- */

/* Whether the lease is that of a run of this sensor: it has the sensor's place in an internal pool.
 * */
static bool lease_runs(const struct kernel *k, uint32_t lease, struct tn_bytes ref) {
    for (uint32_t m = lease_at(k, lease)->first_member; m != TN_NONE; m = member_at(k, m)->next) {
        struct kernel_value value;
        if (kernel_pool_option(k, member_at(k, m)->pool, KERNEL_OPTION_INTERNAL) != 0) {
            kernel_value_show(k, member_at(k, m), &value);
            if (tn_bytes_equal(tn_bytes_of(value.name, value.name_len), ref)) {
                return true;
            }
        }
    }
    return false;
}

/* Changes nothing: there is only the event, and only while the run has its authority. The server
 * has judged the token, which the supervisor's right shows. */
void kernel_run_emit(struct kernel *k, const struct kernel_command *c,
                     struct kernel_result *result) {
    uint32_t lease;
    if (!(c->rights & KERNEL_RIGHT_SUPERVISOR)) {
        result->code = TN_R_DENIED;
        return;
    }
    result->code = holder_enter(k, c, &lease);
    if (result->code != TN_R_OK) {
        return;
    }
    if (!lease_runs(k, lease, c->name)) {
        result->code = TN_R_BAD_VALUE;
    } else if (c->trigger.len == 0 || c->trigger.len > KERNEL_RULE_MAX) {
        result->code = TN_R_BAD_NAME;
    } else if (c->meta.len > KERNEL_META_MAX) {
        result->code = TN_R_TOO_LARGE;
        result->number = KERNEL_META_MAX;
    } else {
        TN_ASSERT(k->event_index == 0); /* the client finds its event by the LSN alone */
        kernel_event_sensor(k, KERNEL_EVENT_SENSOR_EMITTED, c, c->trigger);
        kernel_result_lease(k, lease, result);
    }
}

/* ---- the operator's commands on one lease ---- */

static enum tn_result revoke_check(const struct kernel *k, const struct kernel_command *c,
                                   uint32_t lease) {
    const struct lease *l = lease_at(k, lease);
    if ((c->fields & KERNEL_F_AFTER) != 0 && lease_barred(k, c, lease)) {
        return TN_R_DENIED; /* its end would come by the clock, whether the run is dead or not */
    }
    if ((c->fields & KERNEL_F_EPOCH) != 0 && c->epoch != l->epoch) {
        return TN_R_STALE; /* meant for an authority that has ended */
    }
    return kernel_state_terminal((enum kernel_state)l->state) ? TN_R_STATE : TN_R_OK;
}

void kernel_run_revoke(struct kernel *k, const struct kernel_command *c,
                       struct kernel_result *result) {
    uint32_t lease;
    result->code = lease_enter(k, c, &lease);
    if (result->code == TN_R_OK) {
        result->code = revoke_check(k, c, lease);
    }
    if (result->code != TN_R_OK) {
        return;
    }
    const struct lease *l = lease_at(k, lease);
    bool has_after = (c->fields & KERNEL_F_AFTER) != 0;
    uint64_t deadline = has_after ? root_at(k)->now_ms + kernel_seconds_ms(c->after_s) : 0;
    if (l->state == KERNEL_RESERVED || l->state == KERNEL_WAITING) {
        kernel_lease_move(k, lease, CAUSE_REVOKE_RESERVED, 0);
    } else if (l->state == KERNEL_ACTIVE || l->state == KERNEL_OFFLINE) {
        kernel_lease_move(k, lease, CAUSE_REVOKE, deadline);
    } else if ((l->bits & LEASE_GRACE) != 0) {
        bool keep = has_after && l->deadline_ms > deadline;
        kernel_lease_move(k, lease, CAUSE_CONVERT, keep ? l->deadline_ms : deadline);
    } else {
        result->code = TN_R_NOOP;
    }
    kernel_result_lease(k, lease, result);
}

static enum tn_result reclaim_check(const struct kernel *k, const struct kernel_command *c,
                                    uint32_t lease) {
    if (lease_barred(k, c, lease)) {
        return TN_R_DENIED;
    }
    return lease_at(k, lease)->state == KERNEL_REVOKING ? TN_R_OK : TN_R_STATE;
}

void kernel_run_reclaim(struct kernel *k, const struct kernel_command *c,
                        struct kernel_result *result) {
    uint32_t lease;
    result->code = lease_enter(k, c, &lease);
    if (result->code == TN_R_OK) {
        result->code = reclaim_check(k, c, lease);
    }
    if (result->code == TN_R_OK) {
        kernel_lease_move(k, lease, CAUSE_RECLAIM, 0);
        kernel_result_lease(k, lease, result);
    }
}

/* For kernel_judge: the checks of a command about a lease that is up to date. */
enum tn_result kernel_lease_check(const struct kernel *k, const struct kernel_command *c,
                                  uint32_t lease) {
    switch (c->verb) {
    case KERNEL_VERB_REVOKE:
        return revoke_check(k, c, lease);
    case KERNEL_VERB_RECLAIM:
        return reclaim_check(k, c, lease);
    default:
        return holder_check(k, c, lease);
    }
}

/* Whether the lease may go to this holder: not during a disown, nor if the holder has a lease in
 * the sticky pool. The holder itself may get a new token, but not while it is being disowned,
 * because the lease would move behind the job's position in the list and be left over. */
static enum tn_result rekey_allowed(struct kernel *k, uint32_t lease, uint32_t holder) {
    const struct lease *l = lease_at(k, lease);
    for (uint32_t m = l->first_member; m != TN_NONE; m = member_at(k, m)->next) {
        uint32_t pool = member_at(k, m)->pool;
        if (kernel_job_blocks(k, holder, pool)) {
            return TN_R_BUSY;
        }
        if (holder != l->holder && kernel_pool_option(k, pool, KERNEL_OPTION_STICKY) &&
            kernel_index_grant(k, pool, holder) != TN_NONE) {
            return TN_R_CONFLICT;
        }
    }
    return TN_R_OK;
}

/* The new holder's own sticky lease is brought up to now before it can be in the way. */
static void rekey_apply_due(struct kernel *k, uint32_t lease, struct tn_bytes holder) {
    uint32_t name = kernel_index_text(k, TEXT_NAME, holder);
    uint32_t pool = lease_at(k, lease)->pool;
    if (name == TN_NONE || pool == TN_NONE || !kernel_pool_option(k, pool, KERNEL_OPTION_STICKY)) {
        return;
    }
    uint32_t grant = kernel_index_grant(k, pool, name);
    if (grant != TN_NONE) {
        kernel_due_lease(k, grant_at(k, grant)->lease);
    }
}

static void grants_move(struct kernel *k, uint32_t lease, uint32_t holder) {
    kernel_lease_grants_remove(k, lease);
    lease_mut(k, lease)->holder = holder;
    kernel_lease_grants_add(k, lease);
}

static bool quota_exceeded(const struct kernel *k, uint32_t lease) {
    const struct lease *l = lease_at(k, lease);
    for (uint32_t m = l->first_member; m != TN_NONE; m = member_at(k, m)->next) {
        uint32_t pool = member_at(k, m)->pool;
        uint64_t most = kernel_pool_option(k, pool, KERNEL_OPTION_MAX_PER_HOLDER);
        if (most != 0 && grant_at(k, kernel_index_grant(k, pool, l->holder))->values > most) {
            return true;
        }
    }
    return false;
}

static enum tn_result rekey_apply(struct kernel *k, uint32_t lease, struct tn_bytes holder) {
    uint32_t fresh = kernel_name_hold(k, holder);
    uint32_t old = lease_at(k, lease)->holder;
    grants_move(k, lease, fresh);
    if (quota_exceeded(k, lease)) {
        grants_move(k, lease, old);
        kernel_name_drop(k, fresh);
        return TN_R_QUOTA;
    }
    lease_mut(k, lease)->holder = old;
    kernel_lease_unlink(k, lease);
    lease_mut(k, lease)->holder = fresh;
    kernel_lease_link(k, lease);
    k->event_previous = old;
    kernel_lease_move(k, lease, CAUSE_REKEY, lease_at(k, lease)->deadline_ms);
    k->event_previous = TN_NONE;
    kernel_name_drop(k, old);
    return TN_R_OK;
}

void kernel_run_rekey(struct kernel *k, const struct kernel_command *c,
                      struct kernel_result *result) {
    uint32_t lease;
    result->code = holder_enter(k, c, &lease);
    if (result->code != TN_R_OK) {
        return;
    }
    if (c->holder.len == 0 || c->holder.len > KERNEL_HOLDER_MAX) {
        result->code = TN_R_BAD_NAME;
        return;
    }
    rekey_apply_due(k, lease, c->holder);
    uint32_t names = 0;
    uint32_t chunks = kernel_name_cost(k, c->holder, &names);
    uint32_t holder = kernel_index_text(k, TEXT_NAME, c->holder);
    if (holder != TN_NONE) {
        result->code = rekey_allowed(k, lease, holder);
    } else if (tn_table_room(&k->tables[TABLE_NAME]) < names ||
               tn_table_room(&k->tables[TABLE_TEXT]) < chunks) {
        result->code = TN_R_NAMES_FULL;
    }
    if (result->code == TN_R_OK) {
        result->code = rekey_apply(k, lease, c->holder);
    }
    if (result->code == TN_R_OK) {
        kernel_result_lease(k, lease, result);
    }
}
