/* The lifecycle of a lease.
 *
 *     reserved --activate--> active <--touch/alloc-- offline
 *        |                    |  \----release---------^ |  (sticky pools)
 *        +--release/expire    +--release/expire         +--release now/expire
 *        v                    v                         v
 *     released|expired     released|expired          released|expired
 *     active|offline --revoke--> revoking --reclaim|ack|deadline--> revoked
 *     active --lapse with grace--> revoking --> expired
 *     waiting --grant--> active|reserved, or an end (waiting.h)
 *
 * The table below is the lifecycle; kernel_lease_move is the only function that changes a state. */
#include "kernel/waiting.h"

#define IN(state) (1u << KERNEL_##state)

struct lifecycle_row {
    uint16_t from; /* states, a bit each */
    uint8_t to;    /* KERNEL_REVOKED means KERNEL_EXPIRED for a lease that is in its grace */
    uint8_t epoch_up;
    uint8_t reason;
    uint8_t event;
    uint8_t by_time; /* no command asks for it */
};

/* clang-format off */
static const struct lifecycle_row lifecycle[CAUSE_COUNT] = {
    /* cause                     from                                       to               epoch  reason                        event, by time */
    [CAUSE_ACTIVATE]         = { IN(RESERVED),                              KERNEL_ACTIVE,   0, KERNEL_REASON_REQUESTED,    KERNEL_EVENT_LEASE_ACTIVE, 0 },
    [CAUSE_TOUCH]            = { IN(ACTIVE) | IN(OFFLINE),                  KERNEL_ACTIVE,   0, KERNEL_REASON_RETURNED,     KERNEL_EVENT_LEASE_RETURNED, 0 },
    [CAUSE_RETURN]           = { IN(ACTIVE) | IN(OFFLINE),                  KERNEL_ACTIVE,   1, KERNEL_REASON_RETURNED,     KERNEL_EVENT_LEASE_RETURNED, 0 },
    [CAUSE_REKEY]            = { IN(ACTIVE) | IN(OFFLINE),                  KERNEL_NO_STATE, 1, KERNEL_REASON_REKEYED,      KERNEL_EVENT_LEASE_REKEYED, 0 },
    [CAUSE_HOLD]             = { IN(ACTIVE) | IN(OFFLINE),                  KERNEL_OFFLINE,  1, KERNEL_REASON_RELEASED,     KERNEL_EVENT_LEASE_OFFLINE, 0 },
    [CAUSE_RELEASE]          = { IN(RESERVED) | IN(ACTIVE) | IN(OFFLINE) | IN(WAITING), KERNEL_RELEASED, 1, KERNEL_REASON_RELEASED, KERNEL_EVENT_LEASE_RELEASED, 0 },
    [CAUSE_DISOWN]           = { IN(RESERVED) | IN(ACTIVE) | IN(OFFLINE) | IN(WAITING), KERNEL_RELEASED, 1, KERNEL_REASON_DISOWNED,     KERNEL_EVENT_LEASE_RELEASED, 0 },
    [CAUSE_REVOKE]           = { IN(ACTIVE) | IN(OFFLINE),                  KERNEL_REVOKING, 1, KERNEL_REASON_REVOKED,      KERNEL_EVENT_LEASE_REVOKING, 0 },
    [CAUSE_REVOKE_RESERVED]  = { IN(RESERVED) | IN(WAITING),                KERNEL_REVOKED,  1, KERNEL_REASON_REVOKED,      KERNEL_EVENT_LEASE_REVOKED, 0 },
    [CAUSE_CONVERT]          = { IN(REVOKING),                              KERNEL_REVOKING, 0, KERNEL_REASON_REVOKED,      KERNEL_EVENT_LEASE_REVOKING, 0 },
    [CAUSE_ACK]              = { IN(REVOKING),                              KERNEL_REVOKED,  0, KERNEL_REASON_ACKNOWLEDGED, KERNEL_EVENT_LEASE_REVOKED, 0 },
    [CAUSE_RECLAIM]          = { IN(REVOKING),                              KERNEL_REVOKED,  0, KERNEL_REASON_RECLAIMED,    KERNEL_EVENT_LEASE_REVOKED, 0 },
    [CAUSE_EXPIRE]           = { IN(RESERVED) | IN(ACTIVE) | IN(OFFLINE),   KERNEL_EXPIRED,  1, KERNEL_REASON_EXPIRED,      KERNEL_EVENT_LEASE_EXPIRED, 1 },
    [CAUSE_FORCE]            = { IN(OFFLINE),                               KERNEL_EXPIRED,  1, KERNEL_REASON_FORCED,       KERNEL_EVENT_LEASE_EXPIRED, 1 },
    [CAUSE_LAPSE]            = { IN(ACTIVE),                                KERNEL_REVOKING, 1, KERNEL_REASON_EXPIRED,      KERNEL_EVENT_LEASE_REVOKING, 1 },
    [CAUSE_GRACE_OVER]       = { IN(REVOKING),                              KERNEL_EXPIRED,  0, KERNEL_REASON_EXPIRED,      KERNEL_EVENT_LEASE_EXPIRED, 1 },
    [CAUSE_AFTER_OVER]       = { IN(REVOKING),                              KERNEL_REVOKED,  0, KERNEL_REASON_REVOKED,      KERNEL_EVENT_LEASE_REVOKED, 1 },
    [CAUSE_GRANT]            = { IN(WAITING),                               KERNEL_ACTIVE,   0, KERNEL_REASON_REQUESTED,    KERNEL_EVENT_LEASE_ACTIVE, 0 },
    [CAUSE_GRANT_RESERVED]   = { IN(WAITING),                               KERNEL_RESERVED, 0, KERNEL_REASON_REQUESTED,    KERNEL_EVENT_LEASE_RESERVED, 0 },
    [CAUSE_WAITED]           = { IN(WAITING),                               KERNEL_EXPIRED,  1, KERNEL_REASON_WAITED,       KERNEL_EVENT_LEASE_EXPIRED, 1 },
    [CAUSE_ABANDON]          = { IN(WAITING),                               KERNEL_RELEASED, 1, KERNEL_REASON_ABANDONED,    KERNEL_EVENT_LEASE_RELEASED, 1 },
    [CAUSE_REFUSE]           = { IN(WAITING),                               KERNEL_EXPIRED,  1, KERNEL_REASON_REFUSED,      KERNEL_EVENT_LEASE_EXPIRED, 1 },
};
/* clang-format on */

/* The shard in whose generation a log position was written. */
static uint64_t shard_at(const struct root *root, uint64_t lsn) {
    uint64_t shard = root->shard;
    TN_ASSERT(root->restored_count <= KERNEL_RESTORES_MAX);
    for (uint32_t i = root->restored_count; i-- > 0 && lsn < root->restored_lsn[i];) {
        shard -= (uint64_t)1 << 32;
    }
    return shard;
}

struct kernel_lease_id kernel_lease_id_of(const struct kernel *k, const struct lease *l) {
    TN_ASSERT(l->lsn > 0); /* the record is in use */
    return (struct kernel_lease_id){.shard = shard_at(root_at(k), l->lsn), .lsn = l->lsn};
}

/* Whether an ended lease has left history, even if it has not been removed yet. */
bool kernel_history_over(const struct kernel *k, const struct lease *l) {
    uint64_t keep_ms = kernel_seconds_ms(kernel_limit(k, KERNEL_LIMIT_HISTORY_SECONDS));
    return root_at(k)->now_ms - l->ended_ms >= keep_ms;
}

enum tn_result kernel_lease_find(const struct kernel *k, struct kernel_lease_id id,
                                 uint32_t *ret_lease) {
    uint32_t slot = kernel_index_lease(k, id.lsn);
    if (slot == TN_NONE) {
        bool retired =
            id.lsn > 0 && id.lsn <= root_at(k)->retired_lsn && id.shard <= root_at(k)->shard;
        return retired ? TN_R_RETIRED : TN_R_NOTFOUND;
    }
    const struct lease *l = lease_at(k, slot);
    if (kernel_lease_id_of(k, l).shard != id.shard) {
        return TN_R_NOTFOUND;
    }
    if (kernel_state_terminal((enum kernel_state)l->state) && kernel_history_over(k, l)) {
        return TN_R_RETIRED;
    }
    *ret_lease = slot;
    return TN_R_OK;
}

/* ---- being here and being away ---- */

uint64_t kernel_lease_offline_since(const struct lease *l) {
    uint64_t lag_s = l->bits & LEASE_LAG ? l->lag_s : 0;
    return l->state == KERNEL_OFFLINE ? l->last_seen_ms + kernel_seconds_ms(lag_s) : 0;
}

void kernel_lease_seen(struct kernel *k, uint32_t lease) {
    static const uint64_t bounds_s[KERNEL_AWAY_BUCKETS - 1] = KERNEL_AWAY_BOUNDS;
    struct lease *l = lease_mut(k, lease);
    uint64_t now = root_at(k)->now_ms;
    if (l->state == KERNEL_OFFLINE && kernel_edition_has(k, 1)) {
        struct kernel_pool_counters *c = &pool_mut(k, l->pool)->counters;
        uint64_t away_ms = now - kernel_lease_offline_since(l);
        unsigned bucket = 0;
        while (bucket < KERNEL_AWAY_BUCKETS - 1 && away_ms > kernel_seconds_ms(bounds_s[bucket])) {
            bucket++;
        }
        c->away[bucket]++;
        c->away_ms += away_ms;
    }
    l->last_seen_ms = now;
}

/* ---- the holder's list ---- */

void kernel_lease_link(struct kernel *k, uint32_t lease) {
    struct lease *l = lease_mut(k, lease);
    struct name *n = name_mut(k, l->holder);
    TN_ASSERT(n->refs > 0);
    l->holder_prev = TN_NONE;
    l->holder_next = n->first_lease;
    if (n->first_lease != TN_NONE) {
        lease_mut(k, n->first_lease)->holder_prev = lease;
    }
    n->first_lease = lease;
    kernel_lists_link(k, lease);
}

void kernel_lease_unlink(struct kernel *k, uint32_t lease) {
    kernel_job_skip(k, lease);
    kernel_lists_unlink(k, lease);
    struct lease *l = lease_mut(k, lease);
    if (l->holder_prev == TN_NONE) {
        struct name *n = name_mut(k, l->holder);
        TN_ASSERT(n->first_lease == lease);
        n->first_lease = l->holder_next;
    } else {
        struct lease *prev = lease_mut(k, l->holder_prev);
        TN_ASSERT(prev->holder_next == lease);
        prev->holder_next = l->holder_next;
    }
    if (l->holder_next != TN_NONE) {
        struct lease *next = lease_mut(k, l->holder_next);
        TN_ASSERT(next->holder_prev == lease);
        next->holder_prev = l->holder_prev;
    }
    l->holder_prev = TN_NONE;
    l->holder_next = TN_NONE;
}

/* ---- counters ---- */

static void held_add(struct kernel *k, uint32_t pool, unsigned state, uint32_t n, int sign) {
    uint64_t change = sign > 0 ? n : (uint64_t)0 - n;
    struct pool *p = pool_mut(k, pool);
    TN_ASSERT(state <= KERNEL_REVOKING && (sign > 0 || p->held[state] >= n));
    p->held[state] += change;
    if (TN_UNLIKELY(p->template != TN_NONE) && kernel_edition_has(k, 1)) {
        p = pool_mut(k, p->template);
        TN_ASSERT(sign > 0 || p->held[state] >= n);
        p->held[state] += change;
    }
}

void kernel_lease_count(struct kernel *k, uint32_t lease, int sign) {
    const struct lease *l = lease_at(k, lease);
    if (l->state == KERNEL_WAITING) {
        return;
    }
    TN_ASSERT(l->member_count > 0);
    if (l->pool != TN_NONE) {
        held_add(k, l->pool, l->state, l->member_count, sign);
        return;
    }
    for (uint32_t m = l->first_member; m != TN_NONE; m = member_at(k, m)->next) {
        held_add(k, member_at(k, m)->pool, l->state, 1, sign);
    }
}

static void grant_add(struct kernel *k, uint32_t pool, uint32_t holder, uint32_t lease) {
    if (!pool_at(k, pool)->tracked) {
        return;
    }
    uint32_t slot = kernel_index_grant(k, pool, holder);
    if (slot == TN_NONE) {
        slot = tn_table_take(&k->tables[TABLE_GRANT]);
        TN_ASSERT(slot != TN_NONE); /* one a held value at most */
        struct grant *fresh = grant_mut(k, slot);
        fresh->pool = pool;
        fresh->holder = holder;
        kernel_index_grant_add(k, slot);
    }
    struct grant *g = grant_mut(k, slot);
    g->values++;
    g->lease = lease;
}

static void grant_remove(struct kernel *k, uint32_t pool, uint32_t holder) {
    if (!pool_at(k, pool)->tracked) {
        return;
    }
    uint32_t slot = kernel_index_grant(k, pool, holder);
    struct grant *g = grant_mut(k, slot);
    TN_ASSERT(g->values > 0);
    if (--g->values == 0) {
        kernel_index_grant_remove(k, slot);
        tn_table_give(&k->tables[TABLE_GRANT], slot);
    }
}

/* True if none of its values is counted per holder, as far as one check can tell. */
static bool untracked(const struct kernel *k, const struct lease *l) {
    return l->pool != TN_NONE && !pool_at(k, l->pool)->tracked;
}

void kernel_lease_grants_add(struct kernel *k, uint32_t lease) {
    const struct lease *l = lease_at(k, lease);
    if (untracked(k, l)) {
        return;
    }
    for (uint32_t m = l->first_member; m != TN_NONE; m = member_at(k, m)->next) {
        grant_add(k, member_at(k, m)->pool, l->holder, lease);
    }
}

void kernel_lease_grants_remove(struct kernel *k, uint32_t lease) {
    const struct lease *l = lease_at(k, lease);
    if (untracked(k, l)) {
        return;
    }
    for (uint32_t m = l->first_member; m != TN_NONE; m = member_at(k, m)->next) {
        grant_remove(k, member_at(k, m)->pool, l->holder);
    }
}

/* ---- history ---- */

/* What the next retirement will touch is old and far: it is fetched while there is time. */
static void history_fetch_oldest(const struct kernel *k) {
    uint32_t oldest = root_at(k)->history_head;
    if (oldest == TN_NONE) {
        return;
    }
    const struct lease *l = lease_at(k, oldest);
    tn_map_prefetch(&k->leases, kernel_index_lease_hash(k, l->lsn));
    if (l->first_member != TN_NONE) {
        __builtin_prefetch(member_at(k, l->first_member), 1);
    }
    if (l->holder_next != TN_NONE) {
        __builtin_prefetch(lease_at(k, l->holder_next), 1);
    }
}

static void history_retire_oldest(struct kernel *k) {
    struct root *root = root_mut(k);
    uint32_t slot = root->history_head;
    struct lease l = *lease_at(k, slot);
    TN_ASSERT(l.state == KERNEL_RELEASED || l.state == KERNEL_EXPIRED || l.state == KERNEL_REVOKED);
    TN_ASSERT(root->history_count > 0 && root->history_members >= l.member_count);
    root->history_head = l.holder_next;
    if (root->history_head == TN_NONE) {
        TN_ASSERT(root->history_tail == slot);
        root->history_tail = TN_NONE;
    } else {
        k->ended_before[root->history_head] = TN_NONE;
    }
    root->history_count--;
    root->history_members -= l.member_count;
    if (l.lsn > root->retired_lsn) {
        root->retired_lsn = l.lsn;
    }
    for (uint32_t m = l.first_member; m != TN_NONE;) {
        uint32_t next = member_at(k, m)->next;
        if (member_at(k, m)->state == MEMBER_COOLING) {
            struct member *w = member_mut(k, m); /* lives on until it has cooled */
            w->lease = TN_NONE;
            w->next = TN_NONE;
        } else {
            kernel_member_delete(k, m);
        }
        m = next;
    }
    if (l.meta != TN_NONE) {
        tn_text_drop(&k->tables[TABLE_TEXT], l.meta);
    }
    kernel_index_lease_remove(k, slot);
    tn_table_give(&k->tables[TABLE_LEASE], slot);
    kernel_name_drop(k, l.holder);
    if (l.user != TN_NONE) {
        kernel_name_drop(k, l.user);
    }
    history_fetch_oldest(k);
}

void kernel_history_trim(struct kernel *k) {
    uint64_t most = kernel_limit(k, KERNEL_LIMIT_HISTORY);
    while (root_at(k)->history_members > most || root_at(k)->history_count > most) {
        history_retire_oldest(k);
    }
}

void kernel_history_retire(struct kernel *k, uint32_t budget) {
    for (uint32_t i = 0; i < budget; i++) {
        uint32_t oldest = root_at(k)->history_head;
        if (oldest == TN_NONE || !kernel_history_over(k, lease_at(k, oldest))) {
            return;
        }
        history_retire_oldest(k);
    }
}

/* Room for `members` more members of one more ended lease. Leases that ended while they waited have
 * none, so leases are counted, too. */
static void history_make_room(struct kernel *k, uint32_t members) {
    uint64_t most = kernel_limit(k, KERNEL_LIMIT_HISTORY);
    while (root_at(k)->history_head != TN_NONE &&
           (root_at(k)->history_members + members > most || root_at(k)->history_count >= most)) {
        history_retire_oldest(k);
    }
}

static void history_push(struct kernel *k, uint32_t lease) {
    struct root *root = root_mut(k);
    struct lease *l = lease_mut(k, lease);
    TN_ASSERT(l->holder_prev == TN_NONE && l->holder_next == TN_NONE); /* in no other list */
    k->ended_before[lease] = root->history_tail;
    if (root->history_tail == TN_NONE) {
        TN_ASSERT(root->history_head == TN_NONE);
        root->history_head = lease;
    } else {
        lease_mut(k, root->history_tail)->holder_next = lease;
    }
    root->history_tail = lease;
    root->history_count++;
    root->history_members += l->member_count;
}

/* ---- the end of a lease ---- */

/* A value of a sticky pool counts as reclaimed whenever it is free again: by time, by force or by a
 * release that keeps nothing. last_reclaim_count is of one interval of the pool's metrics, because
 * a sweep takes several steps. */
static void counters_reclaim(struct kernel *k, uint32_t pool) {
    struct kernel_pool_counters *c = &pool_mut(k, pool)->counters;
    uint64_t now = root_at(k)->now_ms;
    uint64_t seconds = kernel_pool_option(k, pool, KERNEL_OPTION_METRICS_SECONDS);
    uint64_t interval_ms = kernel_edition_has(k, 1) ? kernel_seconds_ms(seconds > 0 ? seconds : 1)
                                                    : 1; /* edition 0: of one moment */
    bool same = c->last_reclaim_ms / interval_ms == now / interval_ms;
    c->last_reclaim_count = same ? c->last_reclaim_count + 1 : 1;
    c->last_reclaim_ms = now;
    c->reclaimed++;
}

static void counters_end_one(struct kernel *k, uint32_t pool, const struct lease *l) {
    struct kernel_pool_counters *c = &pool_mut(k, pool)->counters;
    enum kernel_reason reason = (enum kernel_reason)(l->bits & LEASE_REASON_MASK);
    c->released += l->state == KERNEL_RELEASED;
    c->expired += l->state == KERNEL_EXPIRED;
    c->revoked += l->state == KERNEL_REVOKED;
    if (l->state == KERNEL_EXPIRED || reason == KERNEL_REASON_FORCED ||
        (l->state == KERNEL_RELEASED && kernel_edition_has(k, 1) &&
         kernel_pool_option(k, pool, KERNEL_OPTION_STICKY) != 0)) {
        counters_reclaim(k, pool);
    }
}

static void counters_end(struct kernel *k, uint32_t pool, const struct lease *l) {
    uint32_t template = kernel_pool_summed(k, pool);
    counters_end_one(k, pool, l);
    if (template != TN_NONE) {
        counters_end_one(k, template, l);
    }
}

/* Waiters for a value of the pool may be granted one. */
static void line_moves(struct kernel *k, uint32_t pool) {
    if (k->tables[TABLE_WAITER].live > 0) {
        kernel_line_stir(k, pool);
    }
}

/* The member's lease has ended: its value rests or is free at once. */
static void member_end(struct kernel *k, uint32_t member) {
    struct member *m = member_mut(k, member);
    TN_ASSERT(m->state == MEMBER_HELD);
    uint32_t pool = m->pool;
    /* In a sticky pool also if the value rests, because the holder may get another one. */
    line_moves(k, pool);
    uint64_t cooldown_s = kernel_pool_option(k, pool, KERNEL_OPTION_COOLDOWN);
    if (cooldown_s == 0) {
        kernel_value_free(k, member);
        m->state = MEMBER_ENDED;
        return;
    }
    m->state = MEMBER_COOLING;
    m->cool_ms = root_at(k)->now_ms + kernel_seconds_ms(cooldown_s);
    held_add(k, pool, HELD_COOLING, 1, +1);
    root_mut(k)->members_cooling++;
    kernel_clock_cooling_add(k, member);
}

void kernel_member_cooled(struct kernel *k, uint32_t member) {
    TN_ASSERT(member_at(k, member)->state == MEMBER_COOLING);
    TN_ASSERT(root_at(k)->members_cooling > 0);
    kernel_clock_cooling_remove(k, member);
    held_add(k, member_at(k, member)->pool, HELD_COOLING, 1, -1);
    root_mut(k)->members_cooling--;
    kernel_event_value(k, KERNEL_EVENT_VALUE_COOLED, member);
    line_moves(k, member_at(k, member)->pool);
    kernel_value_free(k, member);
    struct member *m = member_mut(k, member);
    m->state = MEMBER_ENDED;
    m->cool_ms = 0;
    if (m->lease == TN_NONE) {
        kernel_member_delete(k, member);
    }
}

/* The first value's places, which are needed some hundred instructions later. */
static void values_fetch(const struct kernel *k, const struct lease *l) {
    if (l->first_member == TN_NONE) {
        return;
    }
    const struct member *m = member_at(k, l->first_member);
    tn_map_prefetch(&k->values, kernel_index_value_hash(k, m->pool, m->value));
    tn_bitmap_prefetch(&k->taken, m->pool, m->value);
}

static void lease_end(struct kernel *k, uint32_t lease) {
    const struct lease *l = lease_at(k, lease);
    kernel_user_count(k, lease, -1); /* a waiting lease has no values */
    kernel_lease_grants_remove(k, lease);
    kernel_lists_end(k, lease);
    kernel_lease_unlink(k, lease);
    for (uint32_t m = l->first_member; m != TN_NONE; m = member_at(k, m)->next) {
        uint32_t pool = member_at(k, m)->pool;
        counters_end(k, pool, l);
        if (l->pool == TN_NONE) {
            struct pool *p = pool_mut(k, pool);
            TN_ASSERT(p->mixed > 0);
            p->mixed--;
        }
        member_end(k, m);
    }
    struct root *root = root_mut(k);
    TN_ASSERT(root->leases_live > 0);
    root->leases_live--;
    history_make_room(k, l->member_count);
    history_push(k, lease);
}

void kernel_lease_move(struct kernel *k, uint32_t lease, enum kernel_cause cause,
                       uint64_t deadline_ms) {
    TN_ASSERT((unsigned)cause < CAUSE_COUNT);
    const struct lifecycle_row *row = &lifecycle[cause];
    struct lease *l = lease_mut(k, lease);
    TN_ASSERT(row->from >> l->state & 1);
    TN_ASSERT(l->epoch > 0 && (l->member_count > 0 || l->state == KERNEL_WAITING));
    uint8_t from = l->state;
    uint8_t to = row->to == KERNEL_NO_STATE ? from : row->to;
    if (to == KERNEL_REVOKED && (l->bits & LEASE_GRACE) != 0) {
        to = KERNEL_EXPIRED;
    }
    bool ends = kernel_state_terminal((enum kernel_state)to);
    if (ends) {
        values_fetch(k, l);
    }
    uint64_t now = root_at(k)->now_ms;
    struct kernel_wait_end wait;

    kernel_lease_count(k, lease, -1);
    if (from == KERNEL_WAITING) {
        kernel_wait_leave(k, lease, &wait);
    }
    l->state = to;
    l->epoch += row->epoch_up;
    l->bits = (uint8_t)((l->bits & ~LEASE_REASON_MASK) | row->reason);
    if (cause != CAUSE_REKEY) {
        l->bits &= (uint8_t)~LEASE_LAG; /* it is no longer offline, or begins to be */
    }
    if (cause == CAUSE_LAPSE) {
        l->bits |= LEASE_GRACE;
    } else if (cause == CAUSE_CONVERT) {
        l->bits &= (uint8_t)~LEASE_GRACE;
    }
    l->deadline_ms = ends ? 0 : deadline_ms;
    kernel_clock_lease(k, lease);
    if (ends) {
        l->bits &= (uint8_t)~LEASE_GRACE;
        l->ended_ms = now;
        l->ended_lsn = kernel_edition_has(k, 1) ? root_at(k)->lsn : 0;
        lease_end(k, lease);
    } else {
        kernel_lease_count(k, lease, +1);
    }
    if (cause != CAUSE_TOUCH || from != to) {
        kernel_event_lease(k,
                           to == KERNEL_EXPIRED ? KERNEL_EVENT_LEASE_EXPIRED
                                                : (enum kernel_event_kind)row->event,
                           lease, row->by_time);
    }
    if (from == KERNEL_WAITING) {
        l->pool = ends ? TN_NONE : l->pool; /* without members nothing keeps the pool's record */
        kernel_wait_answer(k, lease, &wait);
    }
}

/* ---- terms ---- */

static uint64_t smaller_nonzero(uint64_t a, uint64_t b) {
    return a == 0 || (b != 0 && b < a) ? b : a;
}

void kernel_terms_add(struct kernel_terms *terms, const struct kernel_policy *policy) {
    const uint64_t *of = policy->of;
    terms->lease_s = smaller_nonzero(terms->lease_s, of[KERNEL_OPTION_LEASE]);
    terms->max_lease_s = smaller_nonzero(terms->max_lease_s, of[KERNEL_OPTION_MAX_LEASE]);
    terms->max_hold_s = smaller_nonzero(terms->max_hold_s, of[KERNEL_OPTION_MAX_HOLD]);
    terms->reserve_ttl_max_s =
        smaller_nonzero(terms->reserve_ttl_max_s, of[KERNEL_OPTION_RESERVE_TTL_MAX]);
    if (of[KERNEL_OPTION_GRACE] > terms->grace_s) {
        terms->grace_s = of[KERNEL_OPTION_GRACE];
    }
}

struct kernel_terms kernel_lease_terms(const struct kernel *k, uint32_t lease) {
    const struct lease *l = lease_at(k, lease);
    struct kernel_terms terms = {0};
    if (l->pool != TN_NONE) {
        kernel_terms_add(&terms, kernel_pool_policy(k, l->pool));
        return terms;
    }
    for (uint32_t m = l->first_member; m != TN_NONE; m = member_at(k, m)->next) {
        kernel_terms_add(&terms, kernel_pool_policy(k, member_at(k, m)->pool));
    }
    return terms;
}

/* A waiting lease has no value of its pool yet. */
bool kernel_lease_internal(const struct kernel *k, uint32_t lease) {
    const struct lease *l = lease_at(k, lease);
    bool waits = l->state == KERNEL_WAITING && kernel_edition_has(k, 2);
    if (l->pool != TN_NONE && !waits) {
        return kernel_pool_option(k, l->pool, KERNEL_OPTION_INTERNAL) != 0;
    }
    for (uint32_t m = l->first_member; m != TN_NONE; m = member_at(k, m)->next) {
        if (kernel_pool_option(k, member_at(k, m)->pool, KERNEL_OPTION_INTERNAL) != 0) {
            return true;
        }
    }
    return false;
}

uint64_t kernel_terms_deadline(const struct kernel *k, const struct kernel_terms *terms,
                               uint32_t ttl_s, uint64_t created_ms, uint64_t given_ms) {
    uint64_t period_s = ttl_s != 0 ? smaller_nonzero(ttl_s, terms->max_lease_s) : terms->lease_s;
    uint64_t deadline = period_s == 0 ? 0 : root_at(k)->now_ms + kernel_seconds_ms(period_s);
    if (terms->max_hold_s == 0) {
        return deadline;
    }
    uint64_t last = created_ms + kernel_seconds_ms(terms->max_hold_s);
    return smaller_nonzero(deadline, last < given_ms ? given_ms : last);
}
