/* Checks the references between records once, after an image is loaded.
 *
 * Checksums show what a disk has lost; they do not prove that the writer was correct. So
 * before anything follows a reference, one pass sees that every one of them leads to a record in
 * use (the table below), and that every list ends: a list with links both ways because each
 * neighbour points back and its head has nobody before it; a queue with links one way because it is
 * walked once and has as many records as there are. After that no walk of the kernel leaves its
 * tables or turns in a circle. Whether the numbers are right, too, is what kernel_check counts. */
#include "kernel/ops.h"
#include "kernel/waiting.h"

#define ORDINAL_MAX (UINT64_MAX / 2)

/* The field that shows that a record is in use. */
#define USE_TABLE(X)              \
    X(LEASE, lease, state)        \
    X(MEMBER, member, state)      \
    X(POOL, pool, state)          \
    X(RESOURCE, resource, in_use) \
    X(NAME, name, refs)           \
    X(GRANT, grant, values)       \
    X(OP, op, lsn)                \
    X(JOB, job, lsn)              \
    X(METER, meter, pool1)        \
    X(RULE, rule, in_use)         \
    X(SENSOR, sensor, in_use)     \
    X(TRIGGER, trigger, refs)     \
    X(WAITER, waiter, until_ms)   \
    X(WANT, want, waiter1)        \
    X(USER, user, role)

/* The references: of which table and field, to which table; whether there may be none; of texts,
 * the longest. A grant's lease means something in a sticky pool only and a member's value in a set
 * only; they are looked at below. */
/* clang-format off */
#define LINK_TABLE(X) \
    X(LEASE,    lease,    holder,         NAME,     false, 0) \
    X(LEASE,    lease,    holder_prev,    LEASE,    true,  0) \
    X(LEASE,    lease,    holder_next,    LEASE,    true,  0) \
    X(LEASE,    lease,    pool,           POOL,     true,  0) \
    X(LEASE,    lease,    first_member,   MEMBER,   true,  0) \
    X(LEASE,    lease,    meta,           TEXT,     true,  KERNEL_META_MAX) \
    X(LEASE,    lease,    user,           NAME,     true,  0) \
    X(MEMBER,   member,   pool,           POOL,     false, 0) \
    X(MEMBER,   member,   lease,          LEASE,    true,  0) \
    X(MEMBER,   member,   next,           MEMBER,   true,  0) \
    X(POOL,     pool,     name,           TEXT,     false, KERNEL_POOL_MAX) \
    X(POOL,     pool,     template,       POOL,     true,  0) \
    X(POOL,     pool,     meter,          METER,    true,  0) \
    X(POOL,     pool,     cold_head,      MEMBER,   true,  0) \
    X(POOL,     pool,     cold_tail,      MEMBER,   true,  0) \
    X(POOL,     pool,     first_resource, RESOURCE, true,  0) \
    X(POOL,     pool,     drain_next,     POOL,     true,  0) \
    X(RESOURCE, resource, name,           TEXT,     false, KERNEL_RESOURCE_MAX) \
    X(RESOURCE, resource, pool,           POOL,     false, 0) \
    X(RESOURCE, resource, member,         MEMBER,   true,  0) \
    X(RESOURCE, resource, prev,           RESOURCE, true,  0) \
    X(RESOURCE, resource, next,           RESOURCE, true,  0) \
    X(NAME,     name,     text,           TEXT,     false, KERNEL_HOLDER_MAX) \
    X(NAME,     name,     first_lease,    LEASE,    true,  0) \
    X(NAME,     name,     job,            JOB,      true,  0) \
    X(GRANT,    grant,    pool,           POOL,     false, 0) \
    X(GRANT,    grant,    holder,         NAME,     false, 0) \
    X(OP,       op,       user,           NAME,     true,  0) \
    X(OP,       op,       opid,           OP_TEXT,  false, KERNEL_OPID_MAX) \
    X(OP,       op,       result,         OP_TEXT,  false, TN_TEXT_MAX) \
    X(OP,       op,       next,           OP,       true,  0) \
    X(JOB,      job,      holder,         NAME,     false, 0) \
    X(JOB,      job,      pool,           POOL,     true,  0) \
    X(JOB,      job,      cursor,         LEASE,    true,  0) \
    X(JOB,      job,      next,           JOB,      true,  0) \
    X(RULE,     rule,     id,             TEXT,     false, KERNEL_RULE_MAX) \
    X(RULE,     rule,     trigger,        TRIGGER,  false, 0) \
    X(SENSOR,   sensor,   ref,            TEXT,     false, KERNEL_RESOURCE_MAX) \
    X(SENSOR,   sensor,   spec,           TEXT,     false, KERNEL_SENSOR_SPEC_MAX) \
    X(SENSOR,   sensor,   trigger,        TRIGGER,  false, 0) \
    X(SENSOR,   sensor,   prev,           SENSOR,   true,  0) \
    X(SENSOR,   sensor,   next,           SENSOR,   true,  0) \
    X(TRIGGER,  trigger,  text,           TEXT,     false, KERNEL_RULE_MAX) \
    X(TRIGGER,  trigger,  first_sensor,   SENSOR,   true,  0) \
    X(WAITER,   waiter,   lease,          LEASE,    false, 0) \
    X(WAITER,   waiter,   claims,         TEXT,     false, KERNEL_WAIT_CLAIMS_MAX) \
    X(WAITER,   waiter,   first_want,     WANT,     false, 0) \
    X(WAITER,   waiter,   op,             OP,       true,  0) \
    X(WANT,     want,     pool,           POOL,     false, 0) \
    X(WANT,     want,     next,           WANT,     true,  0) \
    X(USER,     user,     name,           TEXT,     false, KERNEL_USER_MAX) \
    X(USER,     user,     secret,         TEXT,     false, KERNEL_SECRET_MAX) \
    X(USER,     user,     pools,          TEXT,     true,  KERNEL_PATTERNS_MAX) \
    X(USER,     user,     holders,        TEXT,     true,  KERNEL_PATTERNS_MAX) \
    X(ROOT,     root,     history_head,   LEASE,    true,  0) \
    X(ROOT,     root,     history_tail,   LEASE,    true,  0) \
    X(ROOT,     root,     op_head,        OP,       true,  0) \
    X(ROOT,     root,     op_tail,        OP,       true,  0) \
    X(ROOT,     root,     job_head,       JOB,      true,  0) \
    X(ROOT,     root,     job_tail,       JOB,      true,  0) \
    X(ROOT,     root,     drain_head,     POOL,     true,  0)
/* clang-format on */

struct link_row {
    uint32_t offset, text_max;
    uint8_t table, target;
    bool optional;
};

static const struct link_row links[] = {
#define LINK_ROW(id, type, field, to, none, longest)   \
    {.offset = (uint32_t)offsetof(struct type, field), \
     .text_max = (longest),                            \
     .table = TABLE_##id,                              \
     .target = TABLE_##to,                             \
     .optional = (none)},
    LINK_TABLE(LINK_ROW)
#undef LINK_ROW
};

#define LINK_COUNT (sizeof links / sizeof links[0])

/* Counts made while the records are checked. */
struct census {
    uint64_t used[TABLE_COUNT]; /* records in use; chunks that texts have */
    uint64_t ended, ended_members, lease_members;
    uint64_t members[MEMBER_COLD + 1];
};

static bool in_use(const struct kernel *k, unsigned table, uint32_t index) {
    const struct tn_table *t = &k->tables[table];
    if (index >= t->used) {
        return false;
    }
    switch ((enum kernel_table_id)table) {
#define USE_CASE(id, type, field) \
    case TABLE_##id:              \
        return ((const struct type *)tn_table_at(t, index))->field != 0;
        USE_TABLE(USE_CASE)
#undef USE_CASE
    default:
        return true; /* the root and tombstones, which are never given back */
    }
}

static bool link_leads(const struct kernel *k, const struct link_row *row, const uint8_t *record,
                       struct census *census) {
    uint32_t to = tn_load32(record + row->offset);
    if (to == TN_NONE) {
        return row->optional;
    }
    if (row->target != TABLE_TEXT && row->target != TABLE_OP_TEXT) {
        return in_use(k, row->target, to);
    }
    const struct tn_table *chunks = &k->tables[row->target];
    if (!tn_text_check(chunks, to, row->text_max)) {
        return false;
    }
    census->used[row->target] += tn_text_chunks(tn_text_len(chunks, to));
    return true;
}

/* A rule's metadata: the one link that is stored with 1 added, because 0 has to mean none. */
static bool metas_lead(const struct kernel *k, struct census *census) {
    const struct tn_table *chunks = &k->tables[TABLE_TEXT];
    for (uint32_t i = 0; i < k->tables[TABLE_RULE].used; i++) {
        uint32_t meta1 = in_use(k, TABLE_RULE, i) ? rule_at(k, i)->meta1 : 0;
        if (meta1 == 0) {
            continue;
        }
        if (!tn_text_check(chunks, meta1 - 1, KERNEL_META_MAX)) {
            return false;
        }
        census->used[TABLE_TEXT] += tn_text_chunks(tn_text_len(chunks, meta1 - 1));
    }
    return true;
}

static bool links_lead(const struct kernel *k, unsigned table, struct census *census) {
    unsigned first = 0, end = 0;
    while (first < LINK_COUNT && links[first].table != table) {
        first++;
    }
    for (end = first; end < LINK_COUNT && links[end].table == table; end++) {
    }
    for (uint32_t i = 0; i < k->tables[table].used; i++) {
        if (!in_use(k, table, i)) {
            continue;
        }
        census->used[table]++;
        const uint8_t *record = tn_table_at(&k->tables[table], i);
        for (unsigned row = first; row < end; row++) {
            if (!link_leads(k, &links[row], record, census)) {
                return false;
            }
        }
    }
    return true;
}

/* ---- leases and members ---- */

static bool lease_live(const struct kernel *k, uint32_t lease) {
    return !kernel_state_terminal((enum kernel_state)lease_at(k, lease)->state);
}

/* Both neighbours in the holder's list are the holder's, live, and point back. */
static bool lease_listed(const struct kernel *k, uint32_t slot) {
    const struct lease *l = lease_at(k, slot);
    uint32_t before = l->holder_prev == TN_NONE ? name_at(k, l->holder)->first_lease
                                                : lease_at(k, l->holder_prev)->holder_next;
    if (before != slot) {
        return false;
    }
    if (l->holder_next == TN_NONE) {
        return true;
    }
    const struct lease *next = lease_at(k, l->holder_next);
    return next->holder_prev == slot && next->holder == l->holder && lease_live(k, l->holder_next);
}

/* Its members are its own, as many as it says. */
static bool lease_whole(const struct kernel *k, uint32_t slot) {
    const struct lease *l = lease_at(k, slot);
    uint32_t count = 0;
    for (uint32_t m = l->first_member; m != TN_NONE; m = member_at(k, m)->next) {
        if (member_at(k, m)->lease != slot || count++ == l->member_count) {
            return false;
        }
    }
    return count == l->member_count;
}

static bool leases_agree(const struct kernel *k, struct census *census) {
    for (uint32_t i = 0; i < k->tables[TABLE_LEASE].used; i++) {
        const struct lease *l = lease_at(k, i);
        if (l->state == KERNEL_NO_STATE) {
            continue;
        }
        /* All lists together cannot be longer than the table, whatever each of them claims. */
        census->lease_members += l->member_count;
        if (l->state >= KERNEL_STATE_COUNT ||
            (l->bits & LEASE_REASON_MASK) >= KERNEL_REASON_COUNT || l->timer_ms == UINT64_MAX ||
            l->member_count > kernel_limit(k, KERNEL_LIMIT_BUNDLE) ||
            census->lease_members > k->tables[TABLE_MEMBER].used || !lease_whole(k, i)) {
            return false;
        }
        if (lease_live(k, i)) {
            if (!lease_listed(k, i) || (l->member_count == 0) != (l->state == KERNEL_WAITING)) {
                return false;
            }
            continue;
        }
        census->ended++;
        census->ended_members += l->member_count;
        if (l->ended_lsn > root_at(k)->lsn || l->holder_prev != TN_NONE) {
            return false;
        }
    }
    uint64_t live = census->used[TABLE_LEASE] - census->ended;
    return live == root_at(k)->leases_live && live <= kernel_limit(k, KERNEL_LIMIT_LEASES);
}

static bool cold_listed(const struct kernel *k, uint32_t slot) {
    const struct member *m = member_at(k, slot);
    const struct pool *p = pool_at(k, m->pool);
    uint32_t prev = m->cold.prev, next = m->cold.next;
    bool before = prev == TN_NONE
                      ? p->cold_head == slot
                      : in_use(k, TABLE_MEMBER, prev) && member_at(k, prev)->cold.next == slot;
    if (!before || next == TN_NONE) {
        return before && p->cold_tail == slot;
    }
    return in_use(k, TABLE_MEMBER, next) && member_at(k, next)->state == MEMBER_COLD &&
           member_at(k, next)->pool == m->pool && member_at(k, next)->cold.prev == slot;
}

/* A value of a set is a resource of that set, and its owner is known to it. */
static bool member_named(const struct kernel *k, uint32_t slot) {
    const struct member *m = member_at(k, slot);
    if (kernel_pool_option(k, m->pool, KERNEL_OPTION_KIND) != KERNEL_SET) {
        return true;
    }
    if (m->value >= TN_NONE || !in_use(k, TABLE_RESOURCE, (uint32_t)m->value)) {
        return false;
    }
    const struct resource *r = resource_at(k, (uint32_t)m->value);
    return r->pool == m->pool && (m->state == MEMBER_ENDED || (r->member == slot && !r->removed));
}

static bool members_agree(const struct kernel *k, struct census *census) {
    for (uint32_t i = 0; i < k->tables[TABLE_MEMBER].used; i++) {
        const struct member *m = member_at(k, i);
        if (m->state == MEMBER_FREE) {
            continue;
        }
        if (m->state > MEMBER_COLD || !member_named(k, i)) {
            return false;
        }
        bool live = m->lease != TN_NONE && lease_live(k, m->lease);
        bool fits = m->state == MEMBER_HELD      ? live
                    : m->state == MEMBER_COOLING ? !live && m->cool_ms != UINT64_MAX
                    : m->state == MEMBER_ENDED   ? !live && m->lease != TN_NONE
                                                 : m->lease == TN_NONE && cold_listed(k, i);
        if (!fits) {
            return false;
        }
        census->members[m->state]++;
    }
    const uint64_t *n = census->members;
    const struct root *root = root_at(k);
    return n[MEMBER_HELD] + n[MEMBER_COOLING] == root->members_live &&
           root->members_live + root->members_waiting <= kernel_limit(k, KERNEL_LIMIT_MEMBERS) &&
           n[MEMBER_COLD] == root->cold_count &&
           root->cold_count <= kernel_limit(k, KERNEL_LIMIT_COLD);
}

/* ---- pools and what they have ---- */

static bool meter_agrees(const struct kernel *k, uint32_t slot, uint32_t pool) {
    const struct tn_rate *rate = &meter_at(k, slot)->rate;
    return meter_at(k, slot)->pool1 == pool + 1 &&
           rate->slots == kernel_limit(k, KERNEL_LIMIT_RATE_WINDOW) + 1 &&
           rate->window < rate->slots && rate->second <= root_at(k)->now_ms / 1000 &&
           kernel_pool_option(k, pool, KERNEL_OPTION_RATE_WINDOW) - 1 < rate->slots - 1;
}

static bool pool_policy_agrees(const struct kernel *k, const struct pool *p) {
    struct kernel_policy policy = p->policy;
    bool live = p->state == POOL_LIVE;
    if (p->template != TN_NONE) { /* one that has none itself, and is not gone before its scopes */
        const struct pool *of = pool_at(k, p->template);
        if (of->template != TN_NONE || (live && of->state != POOL_LIVE)) {
            return false;
        }
    }
    if (p->kept_scopes > p->scopes) {
        return false;
    }
    if (p->template != TN_NONE && !p->kept) {
        return true;
    }
    return policy.exclude_count <= KERNEL_EXCLUDES_MAX && policy.span_count <= KERNEL_SPANS_MAX &&
           kernel_policy_fault(&policy, live ? kernel_limit(k, KERNEL_LIMIT_RATE_WINDOW)
                                             : UINT64_MAX) == KERNEL_FAULT_NONE;
}

static bool pools_agree(const struct kernel *k) {
    for (uint32_t i = 0; i < k->tables[TABLE_POOL].used; i++) {
        const struct pool *p = pool_at(k, i);
        if (p->state == POOL_FREE) {
            continue;
        }
        bool mapped = p->mapped != 0;
        if (p->state > POOL_DROPPED || (p->state == POOL_LIVE && !mapped) ||
            (p->state == POOL_DROPPED && mapped && p->template == TN_NONE) ||
            p->next_ordinal > ORDINAL_MAX || !pool_policy_agrees(k, p) ||
            (p->meter != TN_NONE && !meter_agrees(k, p->meter, i))) {
            return false;
        }
        const struct member *head = p->cold_head == TN_NONE ? NULL : member_at(k, p->cold_head);
        const struct member *tail = p->cold_tail == TN_NONE ? NULL : member_at(k, p->cold_tail);
        if ((head == NULL) != (tail == NULL) ||
            (head != NULL &&
             (head->state != MEMBER_COLD || head->pool != i || head->cold.prev != TN_NONE ||
              tail->state != MEMBER_COLD || tail->pool != i || tail->cold.next != TN_NONE))) {
            return false;
        }
        const struct resource *first =
            p->first_resource == TN_NONE ? NULL : resource_at(k, p->first_resource);
        if (first != NULL && (first->pool != i || first->prev != TN_NONE || first->removed)) {
            return false;
        }
    }
    return true;
}

static bool meters_agree(const struct kernel *k) {
    for (uint32_t i = 0; i < k->tables[TABLE_METER].used; i++) {
        uint32_t pool1 = meter_at(k, i)->pool1;
        if (pool1 != 0 &&
            (!in_use(k, TABLE_POOL, pool1 - 1) || pool_at(k, pool1 - 1)->meter != i)) {
            return false;
        }
    }
    return true;
}

static bool resource_listed(const struct kernel *k, uint32_t slot) {
    const struct resource *r = resource_at(k, slot);
    uint32_t before =
        r->prev == TN_NONE ? pool_at(k, r->pool)->first_resource : resource_at(k, r->prev)->next;
    if (before != slot || r->next == TN_NONE) {
        return before == slot;
    }
    const struct resource *next = resource_at(k, r->next);
    return next->prev == slot && next->pool == r->pool && !next->removed;
}

static bool resources_agree(const struct kernel *k) {
    for (uint32_t i = 0; i < k->tables[TABLE_RESOURCE].used; i++) {
        const struct resource *r = resource_at(k, i);
        if (!r->in_use) {
            continue;
        }
        if (kernel_pool_option(k, r->pool, KERNEL_OPTION_KIND) != KERNEL_SET ||
            r->ordinal >= pool_at(k, r->pool)->next_ordinal) {
            return false;
        }
        if (r->member != TN_NONE) {
            const struct member *m = member_at(k, r->member);
            if (m->value != i || m->pool != r->pool || m->state == MEMBER_ENDED) {
                return false;
            }
        }
        if (r->removed ? r->prev != TN_NONE || r->next != TN_NONE || r->member != TN_NONE
                       : !resource_listed(k, i)) {
            return false;
        }
    }
    return true;
}

/* ---- names, grants, demand ---- */

static bool names_agree(const struct kernel *k) {
    for (uint32_t i = 0; i < k->tables[TABLE_NAME].used; i++) {
        const struct name *n = name_at(k, i);
        if (n->refs == 0) {
            continue;
        }
        if (n->first_lease != TN_NONE) {
            const struct lease *l = lease_at(k, n->first_lease);
            if (l->holder != i || l->holder_prev != TN_NONE || !lease_live(k, n->first_lease)) {
                return false;
            }
        }
        if (n->job != TN_NONE && job_at(k, n->job)->holder != i) {
            return false;
        }
    }
    for (uint32_t i = 0; i < k->tables[TABLE_JOB].used; i++) {
        const struct job *j = job_at(k, i);
        if (j->lsn != 0 && (j->actor_len > KERNEL_USER_MAX || j->note_len > KERNEL_NOTE_MAX ||
                            name_at(k, j->holder)->job != i ||
                            (j->cursor != TN_NONE && (lease_at(k, j->cursor)->holder != j->holder ||
                                                      !lease_live(k, j->cursor))))) {
            return false;
        }
    }
    return true;
}

static bool grants_agree(const struct kernel *k) {
    for (uint32_t i = 0; i < k->tables[TABLE_GRANT].used; i++) {
        const struct grant *g = grant_at(k, i);
        if (g->values != 0 && kernel_pool_option(k, g->pool, KERNEL_OPTION_STICKY) &&
            (!in_use(k, TABLE_LEASE, g->lease) || lease_at(k, g->lease)->holder != g->holder ||
             !lease_live(k, g->lease))) {
            return false;
        }
    }
    return true;
}

static bool sensors_agree(const struct kernel *k) {
    for (uint32_t i = 0; i < k->tables[TABLE_SENSOR].used; i++) {
        const struct sensor *s = sensor_at(k, i);
        if (!s->in_use) {
            continue;
        }
        uint32_t before = s->prev == TN_NONE ? trigger_at(k, s->trigger)->first_sensor
                                             : sensor_at(k, s->prev)->next;
        const struct sensor *next = s->next == TN_NONE ? NULL : sensor_at(k, s->next);
        if (before != i || (next != NULL && (next->prev != i || next->trigger != s->trigger))) {
            return false;
        }
    }
    for (uint32_t i = 0; i < k->tables[TABLE_TRIGGER].used; i++) {
        const struct trigger *t = trigger_at(k, i);
        if (t->refs != 0 && t->first_sensor != TN_NONE &&
            (sensor_at(k, t->first_sensor)->trigger != i ||
             sensor_at(k, t->first_sensor)->prev != TN_NONE)) {
            return false;
        }
    }
    return true;
}

static bool user_agrees(const struct kernel *k, const struct user *u) {
    const struct tn_table *texts = &k->tables[TABLE_TEXT];
    char name[KERNEL_USER_MAX];
    uint32_t len = tn_text_get(texts, u->name, name, sizeof name);
    return u->role <= KERNEL_ROLES && kernel_name_user_valid(tn_bytes_of(name, len)) &&
           tn_text_len(texts, u->secret) > 0;
}

static bool users_agree(const struct kernel *k) {
    for (uint32_t i = 0; i < k->tables[TABLE_USER].used; i++) {
        if (in_use(k, TABLE_USER, i) && !user_agrees(k, user_at(k, i))) {
            return false;
        }
    }
    return true;
}

/* ---- queues ---- */

static bool history_ends(const struct kernel *k, const struct census *census) {
    const struct root *root = root_at(k);
    uint64_t left = census->ended;
    uint32_t last = TN_NONE;
    for (uint32_t i = root->history_head; i != TN_NONE; i = lease_at(k, i)->holder_next) {
        if (left-- == 0 || lease_live(k, i)) {
            return false;
        }
        last = i;
    }
    return left == 0 && last == root->history_tail && root->history_count == census->ended &&
           root->history_members == census->ended_members;
}

static bool ops_end(const struct kernel *k) {
    uint64_t left = k->tables[TABLE_OP].live, before_ms = 0;
    uint32_t last = TN_NONE;
    for (uint32_t i = root_at(k)->op_head; i != TN_NONE; i = op_at(k, i)->next) {
        if (left-- == 0 || op_at(k, i)->expires_ms < before_ms || !kernel_op_readable(k, i) ||
            (op_at(k, i)->bits & OP_ASIDE) != 0) {
            return false;
        }
        before_ms = op_at(k, i)->expires_ms;
        last = i;
    }
    for (uint32_t i = 0; i < k->tables[TABLE_OP].used; i++) {
        const struct op *o = op_at(k, i);
        if (o->lsn > 0 && (o->bits & OP_ASIDE) != 0 &&
            (left-- == 0 || o->waiter1 == 0 || !kernel_op_readable(k, i))) {
            return false;
        }
    }
    return left == 0 && last == root_at(k)->op_tail;
}

static bool jobs_end(const struct kernel *k) {
    uint64_t left = k->tables[TABLE_JOB].live;
    uint32_t last = TN_NONE;
    for (uint32_t i = root_at(k)->job_head; i != TN_NONE; i = job_at(k, i)->next) {
        if (left-- == 0) {
            return false;
        }
        last = i;
    }
    return left == 0 && last == root_at(k)->job_tail;
}

static bool drains_end(const struct kernel *k) {
    uint64_t left = k->tables[TABLE_POOL].live;
    for (uint32_t i = root_at(k)->drain_head; i != TN_NONE; i = pool_at(k, i)->drain_next) {
        if (left-- == 0 || pool_at(k, i)->state != POOL_DROPPED || pool_at(k, i)->resources == 0) {
            return false;
        }
    }
    return true;
}

static bool root_agrees(const struct kernel *k) {
    const struct root *root = root_at(k);
    return (root->now_ms > 0) == (root->lsn > 0) && root->now_ms <= KERNEL_TIME_MAX &&
           root->restored_count <= KERNEL_RESTORES_MAX;
}

bool kernel_links_good(const struct kernel *k) {
    struct census census = {0};
    for (unsigned i = 0; i < TABLE_COUNT; i++) {
        if (i != TABLE_TEXT && i != TABLE_OP_TEXT && !links_lead(k, i, &census)) {
            return false;
        }
    }
    if (!metas_lead(k, &census)) {
        return false;
    }
    for (unsigned i = 0; i < TABLE_COUNT; i++) {
        if (census.used[i] != k->tables[i].live) {
            return false; /* a record in use is in the free chain, or a free one is not */
        }
    }
    return root_agrees(k) && pools_agree(k) && meters_agree(k) && leases_agree(k, &census) &&
           members_agree(k, &census) && resources_agree(k) && names_agree(k) && grants_agree(k) &&
           sensors_agree(k) && users_agree(k) && kernel_wait_links_good(k) &&
           history_ends(k, &census) && ops_end(k) && jobs_end(k) && drains_end(k);
}
