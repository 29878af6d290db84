/* The invariants, checked by counting everything again. Off the hot path: for tests, the simulator
 * and `tenure check`. It takes scratch memory of its own and changes nothing. */
#include "kernel/prefetch.h"
#include "kernel/state.h"
#include "kernel/used.h"
#include "kernel/waiting.h"

struct pool_count {
    uint64_t held[KERNEL_REVOKING + 1];
    uint64_t used, mixed, refs, cold, resources, scopes, kept;
};

struct check {
    const struct kernel *k;
    char *why;
    size_t capacity;
    bool good;
    struct pool_count *pools;
    uint32_t *names;       /* references */
    uint32_t *user_values; /* by name */
    uint32_t *resources;   /* references */
    uint32_t *trigger_refs;
    uint32_t *trigger_rules;
    uint32_t *grants;   /* values, by grant */
    uint64_t *wants;    /* by pool */
    uint64_t *owned[2]; /* chunks of text that have an owner, a bit each: of names, of operations */
    uint64_t chunks, op_chunks;
    uint64_t timers; /* entries that there must be */
    uint64_t leases, members, cooling, history, history_members, cold, pools_live;
};

/* Notes the first failure: what, and at which record. */
static bool expect(struct check *c, bool condition, const char *what, uint64_t where) {
    if (condition || !c->good) {
        return condition;
    }
    c->good = false;
    char number[KERNEL_VALUE_TEXT_MAX];
    uint32_t digits = kernel_value_format(KERNEL_DEC, where, number);
    size_t len = strlen(what);
    if (c->capacity < len + digits + 4) {
        return false;
    }
    memcpy(c->why, what, len);
    memcpy(c->why + len, " [", 2);
    memcpy(c->why + len + 2, number, digits);
    memcpy(c->why + len + 2 + digits, "]", 2);
    return false;
}

/* Counts a text's chunks, each of which has it as its only owner. */
static void own_text(struct check *c, bool op, uint32_t text, uint64_t *chunks) {
    const struct tn_table *table = &c->k->tables[op ? TABLE_OP_TEXT : TABLE_TEXT];
    for (uint32_t at = text; at != TN_NONE; at = tn_text_next(table, at)) {
        uint64_t *word = &c->owned[op][at / 64], bit = UINT64_C(1) << at % 64;
        if (!expect(c, (*word & bit) == 0, "a chunk of text has two owners", at)) {
            return;
        }
        *word |= bit;
        *chunks += 1;
    }
}

static void count_text(struct check *c, uint32_t text) {
    own_text(c, false, text, &c->chunks);
}

/* ---- leases and members ---- */

static void check_member(struct check *c, uint32_t lease, uint32_t slot) {
    const struct kernel *k = c->k;
    const struct lease *l = lease_at(k, lease);
    const struct member *m = member_at(k, slot);
    struct pool_count *p = &c->pools[m->pool];
    bool live = !kernel_state_terminal((enum kernel_state)l->state);
    expect(c, m->lease == lease, "a member points to another lease", slot);
    expect(c, l->pool == TN_NONE || l->pool == m->pool, "a member is of another pool", slot);
    expect(c, live == (m->state == MEMBER_HELD), "a member's state is not its lease's", slot);
    if (!live) {
        return;
    }
    expect(c, kernel_value_owner(k, m->pool, m->value) == slot, "a held value is not owned", slot);
    expect(c, pool_at(k, m->pool)->state == POOL_LIVE, "a held value's pool is dropped", slot);
    p->held[l->state]++;
    p->used++;
    p->mixed += l->pool == TN_NONE;
    if (pool_at(k, m->pool)->tracked) {
        uint32_t grant = kernel_index_grant(k, m->pool, l->holder);
        if (expect(c, grant != TN_NONE, "a tracked value has no grant", slot)) {
            c->grants[grant]++;
            expect(c,
                   !kernel_pool_option(k, m->pool, KERNEL_OPTION_STICKY) ||
                       grant_at(k, grant)->lease == lease,
                   "a sticky holder has two leases", slot);
        }
    }
}

static void check_lease_timer(struct check *c, uint32_t slot) {
    const struct kernel *k = c->k;
    const struct lease *l = lease_at(k, slot);
    uint32_t clock = l->pool == TN_NONE ? kernel_clock_mixed(k) : l->pool;
    bool offline = (l->bits & LEASE_TIMER_OFFLINE) != 0;
    bool live = !kernel_state_terminal((enum kernel_state)l->state);
    if (!live) {
        expect(c, l->ended_lsn <= root_at(k)->lsn, "a lease ended in the future", slot);
        return;
    }
    expect(c, (l->timer_ms != 0) == (l->deadline_ms != 0), "a timed lease has no timer", slot);
    if (l->timer_ms == 0) {
        return;
    }
    c->timers++;
    expect(c, l->timer_ms <= l->deadline_ms, "a timer is later than its deadline", slot);
    expect(c, offline == (l->state == KERNEL_OFFLINE), "a timer is in the wrong tree", slot);
    expect(c,
           tn_timer_has(&k->timers, &k->clocks[2 * (size_t)clock + (offline ? 1 : 0)], l->timer_ms,
                        slot),
           "a timer is not in the index", slot);
}

static void check_lease(struct check *c, uint32_t slot) {
    const struct kernel *k = c->k;
    const struct lease *l = lease_at(k, slot);
    uint32_t count = 0;
    for (uint32_t m = l->first_member; m != TN_NONE && count <= l->member_count;
         m = member_at(k, m)->next) {
        check_member(c, slot, m);
        count++;
    }
    bool empty = l->state == KERNEL_WAITING ||
                 /* It may have been a waiting lease. */
                 kernel_state_terminal((enum kernel_state)l->state);
    expect(c, count == l->member_count && (count > 0 || empty), "a lease is incomplete", slot);
    expect(c, kernel_index_lease(k, l->lsn) == slot, "a lease is not found by its id", slot);
    expect(c, l->lsn <= root_at(k)->lsn && l->epoch > 0, "a lease is from the future", slot);
    expect(c, l->created_ms <= l->last_seen_ms && l->last_seen_ms <= root_at(k)->now_ms,
           "a lease was last seen before its creation or in the future", slot);
    expect(c, !(l->bits & LEASE_LAG) || l->state == KERNEL_OFFLINE, "a lag without a hold", slot);
    c->names[l->holder]++;
    if (l->user != TN_NONE) {
        c->names[l->user]++;
    }
    if (l->meta != TN_NONE) {
        count_text(c, l->meta);
    }
    check_lease_timer(c, slot);
    if (kernel_state_terminal((enum kernel_state)l->state)) {
        c->history++;
        c->history_members += l->member_count;
    } else {
        c->leases++;
    }
}

static void check_leases(struct check *c) {
    const struct kernel *k = c->k;
    const struct root *root = root_at(k);
    for (uint32_t i = 0; i < k->tables[TABLE_LEASE].used; i++) {
        kernel_prefetch_pass_lease(k, i);
        kernel_prefetch_pass_member(k, lease_at(k, i)->first_member);
        if (lease_at(k, i)->state != KERNEL_NO_STATE) {
            check_lease(c, i);
        }
    }
    expect(c, root->retired_lsn <= root->lsn, "history ends in the future", root->retired_lsn);
    expect(c, c->leases == root->leases_live, "live leases are miscounted", c->leases);
    expect(c, c->history == root->history_count, "ended leases are miscounted", c->history);
    expect(c, c->history_members == root->history_members, "members of ended leases are miscounted",
           0);
    expect(c, k->leases.count == c->leases + c->history, "the lease map has extra entries", 0);
    uint64_t queued = 0, last = 0;
    for (uint32_t i = root->history_head; i != TN_NONE && queued <= c->history;
         i = lease_at(k, i)->holder_next) {
        expect(c, lease_at(k, i)->ended_ms >= last, "history is out of order", i);
        last = lease_at(k, i)->ended_ms;
        queued++;
    }
    expect(c, queued == c->history, "history is not a queue of all ended leases", queued);
}

static void check_cold(struct check *c, uint32_t slot) {
    const struct member *m = member_at(c->k, slot);
    c->pools[m->pool].cold++;
    c->cold++;
    expect(c, m->lease == TN_NONE, "a cold value is claimed", slot);
}

static void check_cooling(struct check *c, uint32_t slot) {
    const struct member *m = member_at(c->k, slot);
    c->pools[m->pool].held[HELD_COOLING]++;
    c->pools[m->pool].used++;
    c->cooling++;
    c->timers++;
    expect(c,
           tn_timer_has(&c->k->timers, &c->k->clocks[2 * (size_t)m->pool], m->cool_ms,
                        slot | CLOCK_MEMBER),
           "a cooling value has no timer", slot);
}

static void check_members(struct check *c) {
    const struct kernel *k = c->k;
    uint64_t owners = 0;
    for (uint32_t i = 0; i < k->tables[TABLE_MEMBER].used; i++) {
        const struct member *m = member_at(k, i);
        kernel_prefetch_pass_member(k, i);
        if (m->state == MEMBER_FREE) {
            continue;
        }
        bool set = kernel_pool_option(k, m->pool, KERNEL_OPTION_KIND) == KERNEL_SET;
        bool owns = m->state != MEMBER_ENDED;
        c->pools[m->pool].refs++;
        if (set) {
            c->resources[m->value]++;
        }
        if (owns) {
            expect(c, kernel_value_owner(k, m->pool, m->value) == i, "a value has two owners", i);
            expect(c, set || tn_bitmap_test(&k->taken, m->pool, m->value), "an owned value is free",
                   i);
            owners += !set;
        }
        if (m->state == MEMBER_COLD) {
            check_cold(c, i);
        } else if (m->state == MEMBER_COOLING) {
            check_cooling(c, i);
        }
        c->members += m->state == MEMBER_HELD || m->state == MEMBER_COOLING;
    }
    expect(c, c->members == root_at(k)->members_live, "held values are miscounted", c->members);
    expect(c, c->cooling == root_at(k)->members_cooling, "cooling values are miscounted", 0);
    expect(c, c->cold == root_at(k)->cold_count, "cold values are miscounted", c->cold);
    expect(c, k->values.count == owners, "the value map has extra entries", owners);
    expect(c, kernel_lists_check(k), "an index of leases is not that of the table", 0);
    expect(c, kernel_used_check(k), "the order of used values is not that of the bitmap", 0);
}

/* ---- pools and resources ---- */

/* What is counted as cold or as part of a set is also found by walking. */
static void check_pool_lists(struct check *c, uint32_t slot) {
    const struct kernel *k = c->k;
    const struct pool *p = pool_at(k, slot);
    uint64_t cold = 0, resources = 0;
    for (uint32_t m = p->cold_head; m != TN_NONE && cold <= p->cold_count;
         m = member_at(k, m)->cold.next) {
        cold++;
    }
    for (uint32_t r = p->first_resource; r != TN_NONE && resources <= p->resources;
         r = resource_at(k, r)->next) {
        resources++;
    }
    expect(c, cold == p->cold_count, "cold values are missing in their pool's queue", slot);
    expect(c, resources == p->resources, "resources are missing in their set's list", slot);
}

static void check_pool(struct check *c, uint32_t slot) {
    const struct kernel *k = c->k;
    const struct pool *p = pool_at(k, slot);
    struct pool_count *n = &c->pools[slot];
    n->refs += kernel_pool_is_template(k, slot) ? 0 : c->wants[slot];
    count_text(c, p->name);
    if (p->template != TN_NONE) {
        struct pool_count *t = &c->pools[p->template];
        t->refs++;
        t->scopes += p->state == POOL_LIVE;
        t->used += n->used;
        for (unsigned s = 0; s <= KERNEL_REVOKING && kernel_edition_has(k, 1); s++) {
            t->held[s] += n->held[s];
        }
        expect(c, p->state != POOL_LIVE || p->used > 0 || p->waiting > 0 || p->kept,
               "an empty scope was not deleted", slot);
        c->wants[p->template] += c->wants[slot];
        t->kept += p->state == POOL_LIVE && p->kept;
    }
    c->pools_live += p->state == POOL_LIVE;
    expect(c, p->mixed == n->mixed, "a pool's values in spanning leases are miscounted", slot);
    expect(c, p->cold_count == n->cold, "a pool's cold values are miscounted", slot);
    expect(c, p->resources == n->resources, "a set's resources are miscounted", slot);
    check_pool_lists(c, slot);
    expect(c, p->meter == TN_NONE || tn_rate_check(&meter_at(k, p->meter)->rate),
           "a pool's rate is miscounted", slot);
    expect(c, p->empty_listed == 0, "a pool is still listed as empty", slot);
    uint64_t min = kernel_clock_min(k, slot), when = UINT64_MAX;
    uint32_t ref;
    kernel_clock_first(k, slot, &when, &ref);
    expect(c, min == when, "a pool's earliest timer is wrong", slot);
}

static void check_pools(struct check *c) {
    const struct kernel *k = c->k;
    for (uint32_t i = 0; i < k->tables[TABLE_POOL].used; i++) {
        if (pool_at(k, i)->state != POOL_FREE) {
            check_pool(c, i);
        }
    }
    expect(c, c->pools_live == root_at(k)->pools_live, "live pools are miscounted", 0);
    for (uint32_t i = 0; i < k->tables[TABLE_JOB].used; i++) {
        const struct job *j = job_at(k, i);
        if (j->lsn > 0) {
            c->names[j->holder]++;
            expect(c, name_at(k, j->holder)->job == i, "a disown is not its holder's", i);
            if (j->pool != TN_NONE) {
                c->pools[j->pool].refs++;
            }
        }
    }
    for (uint32_t i = 0; i < k->tables[TABLE_POOL].used; i++) {
        const struct pool *p = pool_at(k, i);
        if (p->state != POOL_FREE) {
            expect(c, p->refs == c->pools[i].refs, "a pool's references are miscounted", i);
            expect(c, p->scopes == c->pools[i].scopes, "a template's scopes are miscounted", i);
            expect(c, p->kept_scopes == c->pools[i].kept, "a template's kept scopes are miscounted",
                   i);
            expect(c, p->used == c->pools[i].used, "a pool's used values are miscounted", i);
            expect(c, p->waiting == c->wants[i], "a pool's line is miscounted", i);
            for (unsigned s = 0; s <= KERNEL_REVOKING; s++) {
                expect(c, p->held[s] == c->pools[i].held[s],
                       "a pool's values by state are miscounted", i);
            }
        }
    }
}

static void check_waiting(struct check *c) {
    const struct kernel *k = c->k;
    uint64_t where;
    const char *broken = kernel_wait_broken(k, c->wants, &where);
    for (uint32_t i = 0; i < k->tables[TABLE_WAITER].used; i++) {
        if (waiter_at(k, i)->until_ms != 0) {
            count_text(c, waiter_at(k, i)->claims);
        }
    }
    expect(c, broken == NULL, broken == NULL ? "" : broken, where);
}

static void count_resources(struct check *c) {
    const struct kernel *k = c->k;
    for (uint32_t i = 0; i < k->tables[TABLE_RESOURCE].used; i++) {
        const struct resource *r = resource_at(k, i);
        if (!r->in_use) {
            continue;
        }
        count_text(c, r->name);
        expect(c, r->refs == c->resources[i], "a resource's references are miscounted", i);
        if (r->removed) {
            continue;
        }
        c->pools[r->pool].resources++;
        expect(c, tn_bitmap_test(&k->available, r->pool, r->ordinal) == (r->member == TN_NONE),
               "a resource is available and owned, or neither", i);
        expect(c, kernel_index_ordinal(k, r->pool, r->ordinal) == i, "a resource is not found", i);
    }
}

/* ---- names, grants, operations, demand ---- */

static void check_op(struct check *c, uint32_t op) {
    const struct op *o = op_at(c->k, op);
    expect(c, o->lsn <= root_at(c->k)->lsn, "an operation is from the future", op);
    own_text(c, true, o->opid, &c->op_chunks);
    own_text(c, true, o->result, &c->op_chunks);
    if (o->user != TN_NONE) {
        c->names[o->user]++;
    }
}

static void check_ops(struct check *c) {
    const struct kernel *k = c->k;
    uint64_t queued = 0;
    for (uint32_t i = root_at(k)->op_head; i != TN_NONE && queued <= k->tables[TABLE_OP].live;
         i = op_at(k, i)->next) {
        expect(c, (op_at(k, i)->bits & OP_ASIDE) == 0, "an operation in the queue is set aside", i);
        check_op(c, i);
        queued++;
    }
    for (uint32_t i = 0; i < k->tables[TABLE_OP].used; i++) {
        if (op_at(k, i)->lsn > 0 && (op_at(k, i)->bits & OP_ASIDE) != 0) {
            expect(c, op_at(k, i)->waiter1 != 0, "an operation is set aside for no lease", i);
            check_op(c, i);
            queued++;
        }
    }
    expect(c, queued == k->tables[TABLE_OP].live, "operations are not one queue", queued);
    expect(c, c->op_chunks == k->tables[TABLE_OP_TEXT].live, "the operations' text is miscounted",
           c->op_chunks);
}

static void check_names(struct check *c) {
    const struct kernel *k = c->k;
    uint64_t linked = 0;
    for (uint32_t i = 0; i < k->tables[TABLE_NAME].used; i++) {
        const struct name *n = name_at(k, i);
        expect(c, n->refs == c->names[i], "a name's references are miscounted", i);
        if (n->refs == 0) {
            continue;
        }
        count_text(c, n->text);
        uint32_t prev = TN_NONE;
        for (uint32_t l = n->first_lease; l != TN_NONE && linked <= c->leases;
             l = lease_at(k, l)->holder_next) {
            expect(c, lease_at(k, l)->holder == i, "a lease is in another holder's list", l);
            expect(c, lease_at(k, l)->holder_prev == prev, "a holder's list is broken", l);
            prev = l;
            linked++;
        }
    }
    expect(c, linked == c->leases, "live leases are missing in their holders' lists", linked);
    for (uint32_t i = 0; i < k->tables[TABLE_GRANT].used; i++) {
        expect(c, grant_at(k, i)->values == c->grants[i], "a grant is miscounted", i);
    }
    expect(c, k->grants.count == k->tables[TABLE_GRANT].live, "the grant map has extra entries", 0);
}

static void check_demand(struct check *c) {
    const struct kernel *k = c->k;
    for (uint32_t i = 0; i < k->tables[TABLE_RULE].used; i++) {
        const struct rule *r = rule_at(k, i);
        if (r->in_use) {
            count_text(c, r->id);
            if (r->meta1 != 0) {
                count_text(c, r->meta1 - 1);
            }
            c->trigger_refs[r->trigger]++;
            c->trigger_rules[r->trigger] += r->enabled;
            expect(c, r->placed <= r->revision, "a rule's trigger is newer than the rule", i);
        }
    }
    const struct tn_table *tombstones = &k->tables[TABLE_TOMBSTONE];
    expect(c, tombstones->live == tombstones->used, "a tombstone was freed", tombstones->used);
    for (uint32_t i = 0; i < tombstones->used; i++) {
        const struct tombstone *g = tombstone_at(k, i);
        expect(c, g->revision > 0 || g->said > 0, "a tombstone has no revision", i);
        expect(c, g->said == 0 || g->said >= g->revision,
               "a tombstone has an early change older than the deletion", i);
        expect(c, g->enabled == 0 || g->said > 0, "a tombstone is enabled without an early change",
               i);
        expect(c, g->lsn > 0 && g->lsn <= root_at(k)->lsn, "a tombstone is from the future", i);
    }
    for (uint32_t i = 0; i < k->tables[TABLE_SENSOR].used; i++) {
        const struct sensor *s = sensor_at(k, i);
        if (s->in_use) {
            count_text(c, s->ref);
            count_text(c, s->spec);
            c->trigger_refs[s->trigger]++;
        }
    }
    uint64_t sensors = k->tables[TABLE_SENSOR].live;
    for (uint32_t i = 0; i < k->tables[TABLE_TRIGGER].used; i++) {
        const struct trigger *t = trigger_at(k, i);
        expect(c, t->refs == c->trigger_refs[i], "a trigger's references are miscounted", i);
        if (t->refs > 0) {
            for (uint32_t s = t->first_sensor; s != TN_NONE && sensors > 0;
                 s = sensor_at(k, s)->next) {
                sensors--;
            }
            count_text(c, t->text);
            expect(c, t->enabled_rules == c->trigger_rules[i], "enabled rules are miscounted", i);
        }
    }
    expect(c, sensors == 0, "sensors are missing in their triggers' lists", sensors);
}

/* ---- users ---- */

static void check_users(struct check *c) {
    const struct kernel *k = c->k;
    for (uint32_t i = 0; i < k->tables[TABLE_USER].used; i++) {
        const struct user *u = user_at(k, i);
        if (u->role == 0) {
            continue;
        }
        count_text(c, u->name);
        count_text(c, u->secret);
        if (u->pools != TN_NONE) {
            count_text(c, u->pools);
        }
        if (u->holders != TN_NONE) {
            count_text(c, u->holders);
        }
        expect(c, u->role <= KERNEL_ROLES, "a user has an unknown role", i);
        expect(c, u->lsn <= root_at(k)->users_lsn, "the last change of a user is missing", i);
    }
    expect(c, k->users.count == k->tables[TABLE_USER].live, "the map of users has extra entries",
           0);
    for (uint32_t i = 0; i < k->tables[TABLE_LEASE].used; i++) {
        const struct lease *l = lease_at(k, i);
        if (l->state >= KERNEL_RESERVED && l->state <= KERNEL_REVOKING && l->user != TN_NONE) {
            c->user_values[l->user] += l->member_count;
        }
    }
    for (uint32_t i = 0; i < k->tables[TABLE_NAME].used; i++) {
        expect(c, k->user_values[i] == c->user_values[i], "the values of a user are miscounted", i);
    }
}

/* ---- timers and tables ---- */

static void check_timers(struct check *c) {
    const struct kernel *k = c->k;
    uint64_t entries = 0, clocks = 0;
    uint32_t pools = k->tables[TABLE_POOL].capacity;
    for (uint32_t i = 0; i <= pools; i++) {
        entries += k->clocks[2 * (size_t)i].count;
        entries += i < pools ? k->clocks[2 * (size_t)i + 1].count : 0;
        clocks += kernel_clock_min(k, i) != UINT64_MAX;
    }
    expect(c, entries == c->timers, "the timer index has extra entries", entries);
    expect(c, k->due.count == clocks, "the order of clocks has extra entries", clocks);
    expect(c, tn_timer_check(&k->timers, &k->due), "the order of clocks is broken", 0);
}

/* The last free chunk looks like an empty text: a record might still refer to it. */
static void check_free_chunks(struct check *c, bool op) {
    const struct tn_table *table = &c->k->tables[op ? TABLE_OP_TEXT : TABLE_TEXT];
    uint32_t left = table->used - table->live;
    uint32_t at = table->free_head == 0 ? TN_NONE : table->free_head - 1;
    for (; left > 0 && at != TN_NONE; left--) {
        expect(c, (c->owned[op][at / 64] >> at % 64 & 1) == 0, "a free chunk of text is used", at);
        at = tn_text_next(table, at);
    }
}

static void check_limits(struct check *c) {
    const struct kernel *k = c->k;
    for (unsigned i = 0; i < TABLE_COUNT; i++) {
        expect(c, tn_table_check(&k->tables[i]), "a table's free records are broken", i);
    }
    check_free_chunks(c, false);
    check_free_chunks(c, true);
    expect(c, c->leases <= kernel_limit(k, KERNEL_LIMIT_LEASES), "too many leases", c->leases);
    expect(c, c->members + root_at(k)->members_waiting <= kernel_limit(k, KERNEL_LIMIT_MEMBERS),
           "too many values", c->members);
    expect(c, c->history <= kernel_limit(k, KERNEL_LIMIT_HISTORY), "history is too long",
           c->history);
    expect(c, c->chunks == k->tables[TABLE_TEXT].live, "text is miscounted", c->chunks);
}

/* ---- scratch ---- */

struct scratch {
    uint8_t *at;
    size_t used;
};

static void *scratch_take(struct scratch *s, size_t bytes) {
    void *piece = s->at == NULL ? NULL : s->at + s->used;
    s->used += (bytes + 63) & ~(size_t)63;
    return piece;
}

static void scratch_lay(struct check *c, struct scratch *s) {
    const struct tn_table *t = c->k->tables;
    c->pools = scratch_take(s, t[TABLE_POOL].used * sizeof *c->pools);
    c->wants = scratch_take(s, t[TABLE_POOL].used * sizeof *c->wants);
    c->names = scratch_take(s, t[TABLE_NAME].used * sizeof *c->names);
    c->user_values = scratch_take(s, t[TABLE_NAME].used * sizeof *c->user_values);
    c->resources = scratch_take(s, t[TABLE_RESOURCE].used * sizeof *c->resources);
    c->trigger_refs = scratch_take(s, t[TABLE_TRIGGER].used * sizeof *c->trigger_refs);
    c->trigger_rules = scratch_take(s, t[TABLE_TRIGGER].used * sizeof *c->trigger_rules);
    c->grants = scratch_take(s, t[TABLE_GRANT].used * sizeof *c->grants);
    c->owned[0] = scratch_take(s, t[TABLE_TEXT].used / 8 + sizeof **c->owned);
    c->owned[1] = scratch_take(s, t[TABLE_OP_TEXT].used / 8 + sizeof **c->owned);
}

enum tn_status kernel_check_status(const struct kernel *k, char *why, size_t capacity) {
    struct check c = {.k = k, .capacity = capacity, .good = true};
    c.why = why;
    struct scratch measure = {0};
    scratch_lay(&c, &measure);
    void *memory;
    size_t bytes = measure.used + 64;
    enum tn_status status = k->env.mem_reserve(k->env.ctx, bytes, false, &memory);
    if (status != TN_OK) {
        (void)expect(&c, false, "no memory to check with", 0);
        return status;
    }
    struct scratch s = {.at = memory};
    scratch_lay(&c, &s);
    check_leases(&c);
    check_members(&c);
    count_resources(&c);
    check_waiting(&c);
    check_pools(&c);
    check_ops(&c);
    check_names(&c);
    check_demand(&c);
    check_users(&c);
    check_timers(&c);
    check_limits(&c);
    k->env.mem_release(k->env.ctx, memory, bytes);
    return c.good ? TN_OK : TN_CORRUPT;
}

bool kernel_check(const struct kernel *k, char *why, size_t capacity) {
    return kernel_check_status(k, why, capacity) == TN_OK;
}
