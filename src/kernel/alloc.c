/* alloc and reserve: new leases, all or nothing, and the return of a sticky holder.
 *
 * Order of checks: form of the request, pools, rights, ttl, a disown in progress, the holder's own
 * sticky lease, room in the tables, quotas, the lines of waiting leases, then the values: requested
 * ones first, so that "any" never takes one of them. A refusal undoes all claims and the state of
 * the generator, so it changes nothing except that due deadlines take effect. */
#include "kernel/claim.h"
#include "kernel/waiting.h"

/* ---- form and pools ---- */

static enum tn_result pool_resolve(struct kernel *k, const struct request *q, struct tn_bytes name,
                                   uint32_t *ret_pool) {
    uint32_t pool = kernel_pool_find_again(k, name);
    if (pool == TN_NONE) {
        if (!kernel_name_pool_valid(name, true)) {
            return TN_R_BAD_NAME;
        }
        bool scoped;
        struct tn_bytes base = kernel_name_pool_base(name, &scoped);
        uint32_t template = scoped ? kernel_pool_find(k, base) : TN_NONE;
        if (template == TN_NONE || !pool_at(k, template)->policy.of[KERNEL_OPTION_SCOPED]) {
            return TN_R_POOL_NOTFOUND;
        }
        if (q->judged) {
            return TN_R_NOT_YET; /* the command would create the scope */
        }
        enum tn_result code = kernel_pool_scope(k, template, name, &pool);
        if (code != TN_R_OK) {
            return code;
        }
    } else if (pool_at(k, pool)->template == TN_NONE &&
               kernel_pool_option(k, pool, KERNEL_OPTION_SCOPED)) {
        return TN_R_BAD_REQUEST; /* a template holds nothing itself */
    }
    const struct kernel_policy *policy = kernel_pool_policy(k, pool);
    if (policy->of[KERNEL_OPTION_INTERNAL] && !(q->c->rights & KERNEL_RIGHT_SUPERVISOR)) {
        return TN_R_DENIED;
    }
    /* A sticky pool stands alone, and gives only active leases. */
    if (policy->of[KERNEL_OPTION_STICKY] && (q->claim_count > 1 || q->reserve)) {
        return TN_R_BAD_REQUEST;
    }
    *ret_pool = pool;
    return TN_R_OK;
}

static enum tn_result claims_resolve(struct kernel *k, struct request *q) {
    for (uint32_t i = 0; i < q->claim_count; i++) {
        struct claim_plan *plan = &k->plan_claims[i];
        enum tn_result code = pool_resolve(k, q, plan->name, &plan->pool);
        if (code != TN_R_OK) {
            return refuse(q->result, code, i);
        }
        kernel_terms_add(&q->terms, kernel_pool_policy(k, plan->pool));
    }
    return TN_R_OK;
}

/* Reads the claims into the plan. Counts before pools: no scope is made for a request that cannot
 * be. */
static enum tn_result claims_read(struct kernel *k, struct request *q) {
    const struct kernel_command *c = q->c;
    uint64_t most = kernel_limit(k, KERNEL_LIMIT_BUNDLE);
    if (c->claim_count == 0) {
        return TN_R_BAD_REQUEST;
    }
    if (c->claim_count > most || c->claim_count > KERNEL_CLAIMS_MAX) {
        return refuse(q->result, TN_R_TOO_LARGE,
                      most < KERNEL_CLAIMS_MAX ? most : KERNEL_CLAIMS_MAX);
    }
    uint64_t total = 0;
    struct tn_reader r = tn_reader_of(c->claims.at, c->claims.len);
    for (uint32_t i = 0; i < c->claim_count; i++) {
        struct kernel_claim claim;
        kernel_claim_next(&r, &claim);
        if (claim.count == 0 && !(claim.any && c->claim_count == 1)) {
            return TN_R_BAD_REQUEST;
        }
        struct claim_plan *plan = &k->plan_claims[i];
        plan->name = claim.pool;
        plan->asked = claim.count;
        plan->count = claim.count == 0 ? 1 : claim.count;
        plan->offset = (uint32_t)total;
        plan->any = claim.any;
        plan->values = claim.values;
        total += plan->count;
        if (total > most) {
            return refuse(q->result, TN_R_TOO_LARGE, most);
        }
    }
    TN_ASSERT(r.pos == r.len && total >= c->claim_count); /* the decoder has seen all claims */
    q->claim_count = c->claim_count;
    q->total = (uint32_t)total;
    return TN_R_OK;
}

static enum tn_result form_check(struct kernel *k, struct request *q) {
    const struct kernel_command *c = q->c;
    if (c->holder.len == 0 || c->holder.len > KERNEL_HOLDER_MAX) {
        return TN_R_BAD_NAME;
    }
    if (c->meta.len > KERNEL_META_MAX) {
        return refuse(q->result, TN_R_TOO_LARGE, KERNEL_META_MAX);
    }
    return claims_read(k, q);
}

static enum tn_result ttl_check(const struct kernel *k, const struct request *q) {
    const struct kernel_command *c = q->c;
    uint64_t cap = q->reserve ? q->terms.reserve_ttl_max_s : q->terms.max_lease_s;
    if ((c->fields & KERNEL_F_TTL) && (c->ttl_s == 0 || (cap != 0 && c->ttl_s > cap))) {
        return refuse(q->result, TN_R_BAD_TTL, cap);
    }
    if (c->fields & KERNEL_F_DEADLINE) {
        if (!(c->rights & KERNEL_RIGHT_OPERATOR)) {
            return TN_R_DENIED;
        }
        if (c->deadline_ms <= root_at(k)->now_ms || c->deadline_ms > KERNEL_TIME_MAX ||
            (c->fields & KERNEL_F_TTL)) {
            return refuse(q->result, TN_R_BAD_TTL, cap);
        }
    }
    return TN_R_OK;
}

static enum tn_result disown_check(const struct kernel *k, const struct request *q) {
    for (uint32_t i = 0; i < q->claim_count && q->holder != TN_NONE; i++) {
        if (kernel_job_blocks(k, q->holder, k->plan_claims[i].pool)) {
            return TN_R_BUSY;
        }
    }
    return TN_R_OK;
}

static enum tn_result room_check(const struct kernel *k, const struct request *q) {
    const struct kernel_command *c = q->c;
    const struct root *root = root_at(k);
    uint32_t names = q->holder == TN_NONE ? 1 : 0;
    uint64_t chunks = q->holder == TN_NONE ? tn_text_chunks(c->holder.len) : 0;
    if (c->user.len > 0) {
        chunks += kernel_name_cost(k, c->user, &names);
    }
    if (c->fields & KERNEL_F_META) {
        chunks += tn_text_chunks(c->meta.len);
    }
    if (c->fields & KERNEL_F_WAIT) {
        chunks += tn_text_chunks(c->claims.len);
    }
    if (root->leases_live >= kernel_limit(k, KERNEL_LIMIT_LEASES)) {
        return TN_R_LEASES_FULL;
    }
    if (root->members_live + root->members_waiting + q->total >
        kernel_limit(k, KERNEL_LIMIT_MEMBERS)) {
        return TN_R_MEMBERS_FULL;
    }
    if (tn_table_room(&k->tables[TABLE_NAME]) < names ||
        tn_table_room(&k->tables[TABLE_TEXT]) < chunks) {
        return TN_R_NAMES_FULL;
    }
    return TN_R_OK;
}

/* Values asked of pool i in claims 0..i, if i is the pool's last claim; else 0. */
static uint64_t pool_demand(const struct kernel *k, const struct request *q, uint32_t i) {
    uint64_t demand = 0;
    TN_ASSERT(i < q->claim_count);
    for (uint32_t j = 0; j < q->claim_count; j++) {
        if (k->plan_claims[j].pool == k->plan_claims[i].pool) {
            if (j > i) {
                return 0;
            }
            demand += k->plan_claims[j].count;
        }
    }
    return demand;
}

static enum tn_result user_quota_check(const struct kernel *k, const struct request *q) {
    uint64_t has = q->user == TN_NONE ? 0 : k->user_values[q->user];
    return has + q->total > q->c->quota ? refuse(q->result, TN_R_QUOTA, q->c->quota) : TN_R_OK;
}

static enum tn_result quota_check(const struct kernel *k, const struct request *q) {
    for (uint32_t i = 0; i < q->claim_count; i++) {
        uint32_t pool = k->plan_claims[i].pool;
        uint64_t most = kernel_pool_option(k, pool, KERNEL_OPTION_MAX_PER_HOLDER);
        if (most == 0) {
            continue;
        }
        uint32_t grant = q->holder == TN_NONE ? TN_NONE : kernel_index_grant(k, pool, q->holder);
        uint64_t has = grant == TN_NONE ? 0 : grant_at(k, grant)->values;
        if (has + pool_demand(k, q, i) > most) {
            return refuse(q->result, TN_R_QUOTA, most);
        }
    }
    return q->c->quota == 0 ? TN_R_OK : user_quota_check(k, q);
}

/* Values that the request names and that count among those of the pool. */
static uint64_t listed_demand(const struct kernel *k, const struct claim_plan *plan) {
    const struct kernel_policy *policy = kernel_pool_policy(k, plan->pool);
    bool range = policy->of[KERNEL_OPTION_KIND] == KERNEL_RANGE;
    struct tn_reader r = tn_reader_of(plan->values.at, plan->values.len);
    uint64_t demand = 0;
    for (uint32_t i = 0; i < plan->count; i++) {
        struct kernel_requested requested = kernel_requested_read(&r);
        uint64_t value;
        demand += kernel_value_resolve(k, plan->pool, &requested, &value) == TN_R_OK &&
                  !(range && kernel_value_excluded(policy, value));
    }
    return demand;
}

/* Values that claim `first` and the later claims of its pool demand together. Named values alone do not
 * matter: each of them is judged by itself. Before edition 3 they did not count at all. */
static uint64_t claims_demand(const struct kernel *k, const struct request *q, uint32_t first) {
    uint32_t pool = k->plan_claims[first].pool;
    uint64_t demand = 0;
    for (uint32_t j = first; j < q->claim_count; j++) {
        const struct claim_plan *plan = &k->plan_claims[j];
        demand += plan->any && plan->pool == pool ? plan->count : 0;
    }
    bool named = demand > 0 && kernel_edition_has(k, 3);
    for (uint32_t j = first; j < q->claim_count && named; j++) {
        const struct claim_plan *plan = &k->plan_claims[j];
        demand += !plan->any && plan->pool == pool ? listed_demand(k, plan) : 0;
    }
    return demand;
}

static bool is_first_of_pool(const struct kernel *k, uint32_t index) {
    for (uint32_t j = 0; j < index; j++) {
        if (k->plan_claims[j].pool == k->plan_claims[index].pool) {
            return false;
        }
    }
    return true;
}

/* Refuses a request for more values than a pool has, which no release can satisfy: in line it would keep
 * all others waiting for nothing. A request for a single value of an empty pool passes: a change of the
 * pool may add one. */
static enum tn_result capacity_check(const struct kernel *k, const struct request *q) {
    if (q->total < 2 || !kernel_edition_has(k, 1)) {
        return TN_R_OK;
    }
    for (uint32_t i = 0; i < q->claim_count; i++) {
        uint64_t capacity = kernel_pool_capacity(k, k->plan_claims[i].pool);
        uint64_t demand = is_first_of_pool(k, i) ? claims_demand(k, q, i) : 0;
        if (demand > 1 && demand > capacity) {
            return refuse(q->result, TN_R_TOO_LARGE, capacity);
        }
    }
    return TN_R_OK;
}

/* ---- the effects of time on what the request touches ---- */

static void due_apply_values(struct kernel *k, const struct claim_plan *plan) {
    struct tn_reader r = tn_reader_of(plan->values.at, plan->values.len);
    for (uint32_t i = 0; !plan->any && i < plan->count; i++) {
        struct kernel_requested requested = kernel_requested_read(&r);
        uint64_t value;
        if (kernel_value_resolve(k, plan->pool, &requested, &value) == TN_R_OK) {
            kernel_due_value(k, plan->pool, value);
        }
    }
}

static void due_apply(struct kernel *k, const struct request *q) {
    uint32_t budget = (uint32_t)kernel_limit(k, KERNEL_LIMIT_SWEEP_STEP);
    uint64_t freed = 0;
    bool mixed = false;
    for (uint32_t i = 0; i < q->claim_count; i++) {
        const struct claim_plan *plan = &k->plan_claims[i];
        due_apply_values(k, plan);
        kernel_due_clock(k, plan->pool, &budget, &freed);
        mixed = mixed || pool_at(k, plan->pool)->mixed > 0;
    }
    if (mixed) {
        kernel_due_clock(k, kernel_clock_mixed(k), &budget, &freed);
    }
}

/* ---- the new lease ---- */

/* What the client asked for, to be renewed with: an import's own end counts as the ttl to it. */
static uint32_t ttl_given(const struct kernel *k, const struct kernel_command *c) {
    if (!(c->fields & KERNEL_F_DEADLINE)) {
        return c->ttl_s;
    }
    uint64_t ttl_s = (c->deadline_ms - root_at(k)->now_ms + 999) / 1000;
    return ttl_s > UINT32_MAX ? UINT32_MAX : (uint32_t)ttl_s;
}

/* The deadline of a grant or a return; an import's own end, if it gives one, within max_hold. */
static uint64_t deadline_given(const struct kernel *k, const struct request *q, uint64_t created_ms,
                               uint64_t given_ms) {
    struct kernel_terms terms = q->terms;
    terms.max_lease_s = q->reserve ? 0 : terms.max_lease_s; /* a reservation has its own cap */
    uint64_t deadline = kernel_terms_deadline(k, &terms, ttl_given(k, q->c), created_ms, given_ms);
    return (q->c->fields & KERNEL_F_DEADLINE) && q->c->deadline_ms < deadline ? q->c->deadline_ms
                                                                              : deadline;
}

void kernel_request_fill(struct kernel *k, const struct request *q) {
    const struct kernel_command *c = q->c;
    struct lease *l = lease_mut(k, q->lease);
    const struct root *root = root_at(k);
    bool has_meta = (c->fields & KERNEL_F_META) != 0 && c->meta.len > 0;
    TN_ASSERT(q->total > 0 && q->total <= UINT16_MAX);
    TN_ASSERT(q->terms.grace_s <= UINT32_MAX);
    l->lsn = root->lsn;
    l->epoch = 1;
    l->created_ms = root->now_ms;
    l->last_seen_ms = root->now_ms;
    l->grace_s = (uint32_t)q->terms.grace_s;
    l->holder = q->holder;
    if (q->holder == TN_NONE) {
        l->holder = kernel_name_hold(k, c->holder);
    } else {
        name_mut(k, q->holder)->refs++;
    }
    l->user = c->user.len > 0 ? kernel_name_hold(k, c->user) : TN_NONE;
    l->meta = has_meta ? tn_text_put(&k->tables[TABLE_TEXT], c->meta) : TN_NONE;
    l->ttl_s = q->reserve ? 0 : ttl_given(k, c);
    l->member_count = (uint16_t)q->total;
    l->state = q->reserve ? KERNEL_RESERVED : KERNEL_ACTIVE;
    l->bits = KERNEL_REASON_REQUESTED;
    l->deadline_ms = deadline_given(k, q, root->now_ms, 0);
    if (q->import) {
        kernel_import_fill(k, q);
    }
}

/* `next` continues above the last value that was picked for "any". */
static void rotors_turn(struct kernel *k, const struct request *q) {
    for (uint32_t i = 0; i < q->claim_count; i++) {
        const struct claim_plan *plan = &k->plan_claims[i];
        const struct kernel_policy *policy = kernel_pool_policy(k, plan->pool);
        if (!plan->any || policy->of[KERNEL_OPTION_STRATEGY] != KERNEL_NEXT) {
            continue;
        }
        uint64_t last = member_at(k, k->plan_members[plan->offset + plan->count - 1])->value;
        struct pool *p = pool_mut(k, plan->pool);
        p->rotor_set = 1;
        p->rotor = policy->of[KERNEL_OPTION_KIND] == KERNEL_SET
                       ? resource_at(k, (uint32_t)last)->ordinal
                       : last;
    }
}

uint32_t kernel_request_pool(const struct kernel *k, const struct request *q) {
    uint32_t pool = k->plan_claims[0].pool;
    TN_ASSERT(q->claim_count > 0 && q->total >= q->claim_count);
    for (uint32_t i = 1; i < q->claim_count; i++) {
        pool = k->plan_claims[i].pool == pool ? pool : TN_NONE;
    }
    return pool;
}

/* A pool that grows gives one value after the other, as a rule, and the next one's place in the map was
 * never used. Values that are given again need no hint; it would cost them instructions. */
static void value_fetch_next(const struct kernel *k, uint32_t member) {
    const struct member *m = member_at(k, member);
    tn_map_prefetch(&k->values, kernel_index_value_hash(k, m->pool, m->value + 1));
}

/* Members in the order of the request; their values are theirs for good. */
void kernel_request_keep(struct kernel *k, const struct request *q) {
    uint32_t pool = kernel_request_pool(k, q);
    lease_mut(k, q->lease)->pool = pool;
    lease_mut(k, q->lease)->first_member = k->plan_members[0];
    for (uint32_t i = 0; i < q->total; i++) {
        uint32_t member = k->plan_members[i];
        TN_ASSERT(member_at(k, member)->lease == q->lease);
        member_mut(k, member)->next = i + 1 < q->total ? k->plan_members[i + 1] : TN_NONE;
        kernel_value_keep(k, member);
        struct pool *p = pool_mut(k, member_at(k, member)->pool);
        p->used++;
        if (p->used > p->peak) {
            p->peak = p->used;
            value_fetch_next(k, member);
        }
        p->mixed += pool == TN_NONE;
        p->counters.allocated++;
        if (p->template != TN_NONE) {
            struct pool *t = pool_mut(k, p->template);
            t->used++;
            t->counters.allocated += kernel_edition_has(k, 1);
        }
    }
    root_mut(k)->members_live += q->total;
    rotors_turn(k, q);
}

static enum kernel_event_kind birth_event(const struct kernel *k, const struct request *q) {
    switch (lease_at(k, q->lease)->state) {
    case KERNEL_RESERVED:
        return KERNEL_EVENT_LEASE_RESERVED;
    case KERNEL_OFFLINE:
        return KERNEL_EVENT_LEASE_OFFLINE;
    default:
        return KERNEL_EVENT_LEASE_ACTIVE;
    }
}

static void lease_begin(struct kernel *k, const struct request *q) {
    kernel_request_fill(k, q);
    kernel_request_keep(k, q);
    root_mut(k)->leases_live++;
    TN_ASSERT(root_at(k)->leases_live <= kernel_limit(k, KERNEL_LIMIT_LEASES));
    kernel_index_lease_add(k, q->lease);
    kernel_lease_link(k, q->lease);
    kernel_lease_count(k, q->lease, +1);
    kernel_user_count(k, q->lease, +1);
    kernel_lease_grants_add(k, q->lease);
    kernel_lists_begin(k, q->lease);
    kernel_clock_lease(k, q->lease);
    if (!q->import && kernel_pool_option(k, k->plan_claims[0].pool, KERNEL_OPTION_STICKY)) {
        kernel_meter_count(k, k->plan_claims[0].pool);
    }
    kernel_event_lease(k, birth_event(k, q), q->lease, false);
}

/* ---- the return of a sticky holder ---- */

bool kernel_lease_meta_fits(const struct kernel *k, const struct kernel_command *c,
                            uint32_t lease) {
    uint32_t old = lease_at(k, lease)->meta;
    uint32_t back = old == TN_NONE ? 0 : tn_text_chunks(tn_text_len(&k->tables[TABLE_TEXT], old));
    return !(c->fields & KERNEL_F_META) || c->meta.len == 0 ||
           tn_table_room(&k->tables[TABLE_TEXT]) + back >= tn_text_chunks(c->meta.len);
}

void kernel_lease_meta_set(struct kernel *k, uint32_t lease, struct tn_bytes meta) {
    struct lease *l = lease_mut(k, lease);
    TN_ASSERT(meta.len <= KERNEL_META_MAX);
    if (l->meta != TN_NONE) {
        tn_text_drop(&k->tables[TABLE_TEXT], l->meta);
        l->meta = TN_NONE;
    }
    if (meta.len > 0) {
        l->meta = tn_text_put(&k->tables[TABLE_TEXT], meta);
    }
}

static enum tn_result lease_return(struct kernel *k, struct request *q, uint32_t lease) {
    const struct kernel_command *c = q->c;
    struct lease *l = lease_mut(k, lease);
    TN_ASSERT(l->pool != TN_NONE); /* a sticky pool stands alone */
    if (!kernel_lease_user_may(k, c, l)) {
        return TN_R_DENIED; /* the token would be another user's */
    }
    if (l->state == KERNEL_REVOKING) {
        kernel_result_holder(k, lease, q->result);
        return TN_R_BUSY;
    }
    if (!kernel_request_matches(k, lease)) {
        return TN_R_CONFLICT;
    }
    if (!kernel_lease_meta_fits(k, c, lease)) {
        return TN_R_NAMES_FULL;
    }
    if (c->fields & KERNEL_F_META) {
        kernel_lease_meta_set(k, lease, c->meta);
    }
    kernel_lease_seen(k, lease);
    l->ttl_s = ttl_given(k, c);
    l->grace_s = (uint32_t)q->terms.grace_s;
    uint64_t deadline = deadline_given(k, q, l->created_ms, l->deadline_ms);
    kernel_lease_move(k, lease, CAUSE_RETURN, deadline);
    uint32_t template = kernel_pool_summed(k, l->pool);
    pool_mut(k, l->pool)->counters.returned++;
    if (template != TN_NONE) {
        pool_mut(k, template)->counters.returned++;
    }
    kernel_result_lease(k, lease, q->result);
    kernel_result_values(k, lease, 1, q->result);
    return TN_R_OK;
}

/* The holder's live lease in the sticky pool, brought up to now, or TN_NONE. */
static uint32_t sticky_lease(struct kernel *k, const struct request *q) {
    uint32_t pool = k->plan_claims[0].pool;
    if (!kernel_pool_option(k, pool, KERNEL_OPTION_STICKY)) {
        return TN_NONE;
    }
    kernel_meter_advance(k, pool);
    uint32_t grant = q->holder == TN_NONE ? TN_NONE : kernel_index_grant(k, pool, q->holder);
    if (grant == TN_NONE) {
        return TN_NONE;
    }
    kernel_due_lease(k, grant_at(k, grant)->lease);
    grant = kernel_index_grant(k, pool, q->holder);
    return grant == TN_NONE ? TN_NONE : grant_at(k, grant)->lease;
}

/* ---- a waiting lease whose turn has come ---- */

uint64_t kernel_request_deadline(const struct kernel *k, const struct request *q) {
    return deadline_given(k, q, root_at(k)->now_ms, 0);
}

/* A holder has one lease in a sticky pool. BUSY: that lease is about to end. */
static enum tn_result sticky_check(struct kernel *k, const struct request *q) {
    uint32_t pool = k->plan_claims[0].pool;
    if (!kernel_pool_option(k, pool, KERNEL_OPTION_STICKY)) {
        return TN_R_OK;
    }
    uint32_t found = kernel_index_grant(k, pool, q->holder);
    kernel_meter_advance(k, pool);
    if (found == TN_NONE) {
        return TN_R_OK;
    }
    const struct lease *own = lease_at(k, grant_at(k, found)->lease);
    bool due = own->deadline_ms != 0 && own->deadline_ms <= root_at(k)->now_ms;
    bool forced = own->state == KERNEL_OFFLINE && kernel_meter_forces(k, pool);
    return own->state == KERNEL_REVOKING || due || forced ? TN_R_BUSY : TN_R_CONFLICT;
}

enum tn_result kernel_request_plan(struct kernel *k, struct request *q) {
    enum tn_result code = claims_read(k, q);
    if (code == TN_R_OK) {
        code = claims_resolve(k, q);
    }
    if (code == TN_R_OK) {
        code = disown_check(k, q);
    }
    if (code == TN_R_OK) {
        code = sticky_check(k, q);
    }
    if (code == TN_R_OK) {
        code = quota_check(k, q);
    }
    return code == TN_R_OK ? capacity_check(k, q) : code;
}

/* ---- the verbs ---- */

/* Claims the values of a new lease, unless others wait for values of the same pools. */
static enum tn_result claim_new(struct kernel *k, struct request *q) {
    enum tn_result code = kernel_attended(k) > 0 && !q->import ? kernel_wait_turn(k, q) : TN_R_OK;
    if (code != TN_R_OK) {
        return code;
    }
    q->lease = tn_table_take(&k->tables[TABLE_LEASE]);
    TN_ASSERT(q->lease != TN_NONE);
    code = kernel_request_claim(k, q);
    if (code != TN_R_OK) {
        tn_table_give(&k->tables[TABLE_LEASE], q->lease);
    }
    return code;
}

static bool waits(const struct request *q, enum tn_result code) {
    return (q->c->fields & KERNEL_F_WAIT) != 0 && kernel_wait_helps(code);
}

/* Whether there is room for the lease, and its holder and user may have so many values. */
static enum tn_result grant_check(const struct kernel *k, struct request *q) {
    enum tn_result code = room_check(k, q);
    q->user = q->c->quota == 0 ? TN_NONE : kernel_index_text(k, TEXT_NAME, q->c->user);
    if (code == TN_R_OK) {
        code = quota_check(k, q);
    }
    return code == TN_R_OK ? capacity_check(k, q) : code;
}

static enum tn_result grant_new(struct kernel *k, struct request *q) {
    due_apply(k, q);
    if (k->names_freed != q->names_freed) { /* expiring leases may have freed the name */
        q->holder = kernel_index_text(k, TEXT_NAME, q->c->holder);
    }
    enum tn_result code = q->import ? kernel_import_known(k, q, TN_NONE) : TN_R_OK;
    if (code == TN_R_OK) {
        code = grant_check(k, q);
    }
    if (code != TN_R_OK) {
        return code;
    }
    code = claim_new(k, q);
    if (code != TN_R_OK) {
        return waits(q, code) ? kernel_wait_join(k, q, code) : code;
    }
    lease_begin(k, q);
    kernel_result_lease(k, q->lease, q->result);
    kernel_result_values(k, q->lease, q->claim_count, q->result);
    return TN_R_OK;
}

/* Form, pools and times. */
static enum tn_result request_check(struct kernel *k, struct request *q) {
    enum tn_result code = form_check(k, q);
    if (code == TN_R_OK) {
        code = claims_resolve(k, q);
    }
    if (code == TN_R_OK) {
        code = q->import ? kernel_import_check(k, q) : ttl_check(k, q);
    }
    return code == TN_R_OK ? kernel_wait_check(k, q) : code;
}

static enum tn_result request_run(struct kernel *k, struct request *q) {
    enum tn_result code = request_check(k, q);
    if (code != TN_R_OK) {
        return code;
    }
    q->names_freed = k->names_freed;
    q->holder = kernel_index_text(k, TEXT_NAME, q->c->holder);
    code = disown_check(k, q);
    if (code != TN_R_OK) {
        return code;
    }
    uint32_t own = sticky_lease(k, q);
    if (own == TN_NONE) {
        return grant_new(k, q);
    }
    code = q->import ? kernel_import_known(k, q, own) : lease_return(k, q, own);
    if (waits(q, code)) { /* for the end of its revoke */
        code = room_check(k, q);
        return code == TN_R_OK ? kernel_wait_join(k, q, TN_R_BUSY) : code;
    }
    return code;
}

/* ---- judging ---- */

/* Whether a command at `now_ms` that claims values finds the pool as it is: nothing is due, and
 * no cold value must be forgotten. The rate of a sticky pool can make its offline leases due at
 * once. */
static bool pool_is_settled(const struct kernel *k, uint32_t pool, uint64_t now_ms) {
    const struct pool *p = pool_at(k, pool);
    uint32_t unused;
    bool forced = p->meter != TN_NONE && kernel_clock_first_offline(k, pool, &unused);
    bool forgets =
        p->cold_count > 0 && kernel_pool_option(k, pool, KERNEL_OPTION_STRATEGY) != KERNEL_COLDEST;
    return !forced && !forgets && kernel_due_pool(k, pool) > now_ms;
}

static bool request_is_settled(const struct kernel *k, const struct request *q, uint64_t now_ms) {
    for (uint32_t i = 0; i < q->claim_count; i++) {
        if (!pool_is_settled(k, k->plan_claims[i].pool, now_ms)) {
            return false;
        }
    }
    uint32_t pool = k->plan_claims[0].pool;
    return !kernel_pool_option(k, pool, KERNEL_OPTION_STICKY) || q->holder == TN_NONE ||
           kernel_index_grant(k, pool, q->holder) == TN_NONE;
}

/* The checks of request_run in their order. What time or a refused command could change on the way is not
 * judged: names in history are dropped with each command. */
enum tn_result kernel_request_judge(struct kernel *k, struct request *q, uint64_t now_ms) {
    q->judged = true;
    if ((q->c->fields & KERNEL_F_DEADLINE) != 0 || q->c->claim_count > JUDGED_VALUES) {
        return TN_R_OK;
    }
    enum tn_result code = request_check(k, q);
    if (code != TN_R_OK) {
        return code == TN_R_NOT_YET ? TN_R_OK : code;
    }
    q->holder = kernel_index_text(k, TEXT_NAME, q->c->holder);
    if (q->total > JUDGED_VALUES || !request_is_settled(k, q, now_ms)) {
        return TN_R_OK;
    }
    code = disown_check(k, q);
    if (code != TN_R_OK) {
        return code;
    }
    code = grant_check(k, q);
    if (code == TN_R_OK && kernel_attended(k) > 0) {
        code = kernel_wait_turn(k, q);
    }
    if (code == TN_R_OK) {
        code = kernel_request_claim_judge(k, q);
    }
    return code == TN_R_NAMES_FULL || waits(q, code) ? TN_R_OK : code;
}

/* ---- commands ---- */

void kernel_run_alloc(struct kernel *k, const struct kernel_command *c,
                      struct kernel_result *result) {
    struct request q = {.c = c, .result = result};
    result->code = request_run(k, &q);
}

void kernel_run_reserve(struct kernel *k, const struct kernel_command *c,
                        struct kernel_result *result) {
    struct request q = {.c = c, .result = result, .reserve = true};
    result->code = request_run(k, &q);
}

void kernel_run_import(struct kernel *k, const struct kernel_command *c,
                       struct kernel_result *result) {
    struct request q = {.c = c, .result = result, .import = true};
    result->code = request_run(k, &q);
}
