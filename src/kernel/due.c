/* Transitions by time: due deadlines take effect before a command is evaluated.
 *
 * The leases that a command names, the leases on its requested values, and the holder's own sticky
 * lease are brought up to now one by one; an allocation also sweeps its own pool in a bounded step;
 * ticks and sweeps do the rest. So a value may become free late but never early, and no command
 * does unbounded work. */
#include "kernel/waiting.h"

#define NEXT_FREE_LOOK 16u /* entries of a tree examined to find when a value becomes free */

/* A grace counts from the deadline, not from when it was noticed: authority ended at the deadline.
 * */
static void lapse(struct kernel *k, uint32_t lease) {
    const struct lease *l = lease_at(k, lease);
    TN_ASSERT(l->state == KERNEL_ACTIVE);
    if (l->grace_s == 0) {
        kernel_lease_move(k, lease, CAUSE_EXPIRE, 0);
    } else {
        kernel_lease_move(k, lease, CAUSE_LAPSE, l->deadline_ms + kernel_seconds_ms(l->grace_s));
    }
}

static bool lease_due(const struct kernel *k, const struct lease *l) {
    return l->deadline_ms != 0 && l->deadline_ms <= root_at(k)->now_ms &&
           !kernel_state_terminal((enum kernel_state)l->state);
}

bool kernel_due_lease(struct kernel *k, uint32_t lease) {
    const struct lease *l = lease_at(k, lease);
    bool changed = false;
    if (l->state == KERNEL_OFFLINE && l->pool != TN_NONE) {
        kernel_meter_advance(k, l->pool);
    }
    if (l->state == KERNEL_OFFLINE && l->pool != TN_NONE && kernel_meter_forces(k, l->pool)) {
        kernel_lease_move(k, lease, lease_due(k, l) ? CAUSE_EXPIRE : CAUSE_FORCE, 0);
        return true;
    }
    /* At most two rounds: expiry into a grace that is over, too. */
    for (unsigned round = 0; lease_due(k, l); round++) {
        TN_ASSERT(round < 2);
        changed = true;
        switch ((enum kernel_state)l->state) {
        case KERNEL_ACTIVE:
            lapse(k, lease);
            break;
        case KERNEL_WAITING: /* an unattended waiter has a deadline of its own */
            kernel_lease_move(k, lease,
                              l->deadline_ms < waiter_at(k, l->waiter)->until_ms ? CAUSE_ABANDON
                                                                                 : CAUSE_WAITED,
                              0);
            break;
        case KERNEL_REVOKING:
            kernel_lease_move(k, lease, l->bits & LEASE_GRACE ? CAUSE_GRACE_OVER : CAUSE_AFTER_OVER,
                              0);
            break;
        default:
            kernel_lease_move(k, lease, CAUSE_EXPIRE, 0);
        }
    }
    return changed;
}

void kernel_due_value(struct kernel *k, uint32_t pool, uint64_t value) {
    uint32_t owner = kernel_value_owner(k, pool, value);
    if (owner != TN_NONE && member_at(k, owner)->state == MEMBER_HELD) {
        kernel_due_lease(k, member_at(k, owner)->lease);
        owner = kernel_value_owner(k, pool, value);
    }
    if (owner != TN_NONE && member_at(k, owner)->state == MEMBER_COOLING &&
        member_at(k, owner)->cool_ms <= root_at(k)->now_ms) {
        kernel_member_cooled(k, owner);
    }
}

/* One entry that has come due: the event itself, or a renewal to be followed. */
static void entry_due(struct kernel *k, uint32_t ref, uint64_t *freed) {
    if (ref & CLOCK_MEMBER) {
        kernel_member_cooled(k, ref & ~CLOCK_MEMBER);
        *freed += 1;
        return;
    }
    if (!lease_due(k, lease_at(k, ref))) {
        kernel_clock_lease_remove(k, ref);
        kernel_clock_lease(k, ref);
        return;
    }
    uint32_t members = lease_at(k, ref)->member_count;
    kernel_due_lease(k, ref);
    if (kernel_state_terminal((enum kernel_state)lease_at(k, ref)->state)) {
        *freed += members;
    }
}

static void force_offline(struct kernel *k, uint32_t pool, uint32_t *budget, uint64_t *freed) {
    uint32_t lease;
    if (pool_at(k, pool)->meter == TN_NONE || !kernel_meter_forces(k, pool)) {
        return;
    }
    while (*budget > 0 && kernel_clock_first_offline(k, pool, &lease)) {
        *freed += lease_at(k, lease)->member_count;
        kernel_due_lease(k, lease);
        *budget -= 1;
    }
}

void kernel_due_clock(struct kernel *k, uint32_t clock, uint32_t *budget, uint64_t *freed) {
    uint64_t when;
    uint32_t ref;
    if (clock != kernel_clock_mixed(k)) {
        force_offline(k, clock, budget, freed);
    }
    while (*budget > 0 && kernel_clock_min(k, clock) <= root_at(k)->now_ms) {
        bool some = kernel_clock_first(k, clock, &when, &ref);
        TN_ASSERT(some && when <= root_at(k)->now_ms);
        entry_due(k, ref, freed);
        *budget -= 1;
        kernel_wait_charge(k, budget);
    }
}

void kernel_due_all(struct kernel *k, uint32_t budget, uint64_t *freed) {
    uint64_t when;
    uint32_t clock;
    for (uint32_t i = 0; i < k->tables[TABLE_METER].used; i++) {
        uint32_t pool1 = meter_at(k, i)->pool1;
        if (pool1 != 0) {
            kernel_meter_advance(k, pool1 - 1);
            force_offline(k, pool1 - 1, &budget, freed);
        }
    }
    while (budget > 0 && tn_timer_first(&k->timers, &k->due, &when, &clock) &&
           when <= root_at(k)->now_ms) {
        kernel_due_clock(k, clock, &budget, freed);
    }
    kernel_job_run(k, &budget);
    kernel_pool_drain(k, &budget);
}

bool kernel_due_remains(const struct kernel *k, uint32_t pool) {
    uint32_t lease;
    uint64_t now = root_at(k)->now_ms;
    bool mixed = pool_at(k, pool)->mixed > 0 && kernel_clock_min(k, kernel_clock_mixed(k)) <= now;
    return kernel_clock_min(k, pool) <= now || mixed ||
           (kernel_meter_forces(k, pool) && kernel_clock_first_offline(k, pool, &lease));
}

/* When the values behind one entry come free by themselves; 0: not foreseen. */
static uint64_t entry_frees_at(const struct kernel *k, uint32_t ref, uint64_t cooldown_ms) {
    if (ref & CLOCK_MEMBER) {
        return member_at(k, ref & ~CLOCK_MEMBER)->cool_ms;
    }
    const struct lease *l = lease_at(k, ref);
    if (l->state == KERNEL_WAITING) {
        return 0; /* a waiting lease has no values */
    }
    uint64_t grace_s = l->state == KERNEL_ACTIVE ? l->grace_s : 0;
    return l->deadline_ms + kernel_seconds_ms(grace_s) + cooldown_ms;
}

/* Looks through a tree in order of time. An entry's time is a lower bound of when it frees, so the
 * search may end at one that is not before the best; if it gives up earlier, the bound is the
 * answer:
 * early, perhaps, but never late. */
static uint64_t tree_next_free(const struct kernel *k, const struct tn_timer_root *root,
                               uint64_t cooldown_ms, uint64_t best) {
    uint64_t when;
    uint32_t ref;
    bool some = tn_timer_first(&k->timers, root, &when, &ref);
    for (unsigned i = 0; some && (best == 0 || when < best); i++) {
        if (i == NEXT_FREE_LOOK) {
            return when;
        }
        uint64_t at = entry_frees_at(k, ref, cooldown_ms);
        best = at != 0 && (best == 0 || at < best) ? at : best;
        some = tn_timer_after(&k->timers, root, when, ref, &when, &ref);
    }
    return best;
}

uint64_t kernel_due_next_free(const struct kernel *k, uint32_t pool) {
    uint64_t cooldown_ms = kernel_seconds_ms(kernel_pool_option(k, pool, KERNEL_OPTION_COOLDOWN));
    uint64_t best = 0;
    for (unsigned tree = 0; tree < 2; tree++) {
        best = tree_next_free(k, &k->clocks[2 * (size_t)pool + tree], cooldown_ms, best);
    }
    if (pool_at(k, pool)->mixed > 0) { /* some of the leases that span pools are in this pool */
        best = tree_next_free(k, &k->clocks[2 * (size_t)kernel_clock_mixed(k)], cooldown_ms, best);
    }
    return best;
}

static bool filling(const struct tn_table *table) {
    return table->live > table->capacity / 2;
}

uint64_t kernel_due_pool(const struct kernel *k, uint32_t pool) {
    uint32_t unused;
    uint64_t due = kernel_clock_min(k, pool);
    if (pool_at(k, pool)->mixed > 0) {
        uint64_t at = kernel_clock_min(k, kernel_clock_mixed(k));
        due = at < due ? at : due;
    }
    if (pool_at(k, pool)->meter != TN_NONE && kernel_clock_first_offline(k, pool, &unused)) {
        uint64_t at = kernel_meter_forces_at(k, pool);
        due = at < due ? at : due;
    }
    return due;
}

uint64_t kernel_next_due(const struct kernel *k) {
    const struct root *root = root_at(k);
    uint64_t due = UINT64_MAX;
    uint32_t unused;
    if (root->job_head != TN_NONE || root->drain_head != TN_NONE || root->serve_head1 != 0) {
        return root->now_ms;
    }
    tn_timer_first(&k->timers, &k->due, &due, &unused);
    for (uint32_t i = 0; i < k->tables[TABLE_METER].used; i++) {
        uint32_t pool1 = meter_at(k, i)->pool1;
        if (pool1 != 0 && kernel_clock_first_offline(k, pool1 - 1, &unused)) {
            uint64_t at = kernel_meter_forces_at(k, pool1 - 1);
            due = at < due ? at : due;
        }
    }
    /* Remembered operations go with the traffic; only a filling table asks for ticks. */
    if (root->op_head != TN_NONE &&
        (filling(&k->tables[TABLE_OP]) || filling(&k->tables[TABLE_OP_TEXT]))) {
        uint64_t at = op_at(k, root->op_head)->expires_ms;
        due = at < due ? at : due;
    }
    return due;
}
