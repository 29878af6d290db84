/* The timer index of the kernel.
 *
 * Every pool has a clock: a tree of its timed leases and cooling members, and one of its offline
 * leases (which a high rate can make due all at once). Leases that span pools share one more clock.
 * `clock_min` holds each clock's earliest time and `due` orders the clocks by it, both exactly.
 *
 * Invariant: a live lease with a deadline has one entry, at lease.timer_ms <= deadline_ms, in the
 * tree that LEASE_TIMER_OFFLINE names; a cooling member has one at cool_ms. Nothing else has any. A
 * renewal leaves the entry in place; the code that finds it due moves it to the true time. */
#include "kernel/state.h"

#define NEVER UINT64_MAX

static struct tn_timer_root *tree_of(const struct kernel *k, uint32_t clock, bool offline) {
    TN_ASSERT(clock <= kernel_clock_mixed(k)); /* the last one */
    return &k->clocks[2 * (size_t)clock + (offline ? 1 : 0)];
}

bool kernel_clock_first(const struct kernel *k, uint32_t clock, uint64_t *ret_when,
                        uint32_t *ret_ref) {
    uint64_t when, offline_when;
    uint32_t ref, offline_ref;
    bool some = tn_timer_first(&k->timers, tree_of(k, clock, false), &when, &ref);
    if (tn_timer_first(&k->timers, tree_of(k, clock, true), &offline_when, &offline_ref) &&
        (!some || offline_when < when)) {
        when = offline_when;
        ref = offline_ref;
        some = true;
    }
    if (some) {
        *ret_when = when;
        *ret_ref = ref;
    }
    return some;
}

bool kernel_clock_first_offline(const struct kernel *k, uint32_t pool, uint32_t *ret_lease) {
    uint64_t when;
    return tn_timer_first(&k->timers, tree_of(k, pool, true), &when, ret_lease);
}

static void clock_min_set(struct kernel *k, uint32_t clock, uint64_t when) {
    uint64_t old = kernel_clock_min(k, clock);
    TN_ASSERT(when > 0);
    if (old == when) {
        return;
    }
    if (old != NEVER) {
        tn_timer_remove(&k->timers, &k->due, old, clock);
    }
    if (when != NEVER) {
        tn_timer_insert(&k->timers, &k->due, when, clock);
    }
    k->clock_before[clock] = ~when;
}

static void entry_add(struct kernel *k, uint32_t clock, bool offline, uint64_t when, uint32_t ref) {
    tn_timer_insert(&k->timers, tree_of(k, clock, offline), when, ref);
    if (when < kernel_clock_min(k, clock)) {
        clock_min_set(k, clock, when);
    }
    TN_ASSERT(kernel_clock_min(k, clock) <= when);
}

static void entry_remove(struct kernel *k, uint32_t clock, bool offline, uint64_t when,
                         uint32_t ref) {
    TN_ASSERT(kernel_clock_min(k, clock) <= when);
    tn_timer_remove(&k->timers, tree_of(k, clock, offline), when, ref);
    if (when == kernel_clock_min(k, clock)) {
        uint64_t first = NEVER;
        uint32_t unused;
        kernel_clock_first(k, clock, &first, &unused);
        clock_min_set(k, clock, first);
    }
}

static uint32_t clock_of(const struct kernel *k, const struct lease *l) {
    return l->pool == TN_NONE ? kernel_clock_mixed(k) : l->pool;
}

void kernel_clock_lease_prefetch(const struct kernel *k, uint32_t lease) {
    const struct lease *l = lease_at(k, lease);
    uint32_t clock = clock_of(k, l);
    if (l->timer_ms != 0 && clock <= kernel_clock_mixed(k)) {
        bool offline = (l->bits & LEASE_TIMER_OFFLINE) != 0;
        tn_timer_prefetch(&k->timers, tree_of(k, clock, offline), l->timer_ms, lease);
    }
}

void kernel_clock_lease_remove(struct kernel *k, uint32_t lease) {
    const struct lease *l = lease_at(k, lease);
    if (l->timer_ms == 0) {
        return;
    }
    entry_remove(k, clock_of(k, l), (l->bits & LEASE_TIMER_OFFLINE) != 0, l->timer_ms, lease);
    struct lease *w = lease_mut(k, lease);
    w->timer_ms = 0;
    w->bits &= (uint8_t)~LEASE_TIMER_OFFLINE;
}

void kernel_clock_lease(struct kernel *k, uint32_t lease) {
    const struct lease *l = lease_at(k, lease);
    bool offline = l->state == KERNEL_OFFLINE;
    bool same_tree = offline == ((l->bits & LEASE_TIMER_OFFLINE) != 0);
    if (l->timer_ms != 0 && same_tree && l->timer_ms <= l->deadline_ms) {
        return;
    }
    kernel_clock_lease_remove(k, lease);
    if (l->deadline_ms == 0) {
        return;
    }
    entry_add(k, clock_of(k, l), offline, l->deadline_ms, lease);
    struct lease *w = lease_mut(k, lease);
    w->timer_ms = w->deadline_ms;
    w->bits |= (uint8_t)(offline ? LEASE_TIMER_OFFLINE : 0);
}

void kernel_clock_lease_restore(struct kernel *k, uint32_t lease) {
    const struct lease *l = lease_at(k, lease);
    if (l->timer_ms != 0 && !kernel_state_terminal((enum kernel_state)l->state)) {
        entry_add(k, clock_of(k, l), (l->bits & LEASE_TIMER_OFFLINE) != 0, l->timer_ms, lease);
    }
}

void kernel_clock_cooling_add(struct kernel *k, uint32_t member) {
    const struct member *m = member_at(k, member);
    TN_ASSERT(m->state == MEMBER_COOLING && m->cool_ms > 0);
    entry_add(k, m->pool, false, m->cool_ms, member | CLOCK_MEMBER);
}

void kernel_clock_cooling_remove(struct kernel *k, uint32_t member) {
    const struct member *m = member_at(k, member);
    TN_ASSERT(m->state == MEMBER_COOLING);
    entry_remove(k, m->pool, false, m->cool_ms, member | CLOCK_MEMBER);
}
