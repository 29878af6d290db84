/* Creation of the kernel, and kernel_apply, the one function that changes the state. */
#include "kernel/ops.h"
#include "kernel/state.h"
#include "kernel/waiting.h"

#define HOUSEKEEPING 4u /* old operations and ended leases removed with each command */

static kernel_verb_run *const verbs[KERNEL_VERB_COUNT] = {
    [KERNEL_VERB_TICK] = kernel_run_tick,
    [KERNEL_VERB_LIMITS] = kernel_run_limits,
    [KERNEL_VERB_RESTORED] = kernel_run_restored,
    [KERNEL_VERB_POOL_CREATE] = kernel_run_pool_create,
    [KERNEL_VERB_POOL_ALTER] = kernel_run_pool_alter,
    [KERNEL_VERB_POOL_DROP] = kernel_run_pool_drop,
    [KERNEL_VERB_POOL_ADD] = kernel_run_pool_add,
    [KERNEL_VERB_POOL_REMOVE] = kernel_run_pool_remove,
    [KERNEL_VERB_ALLOC] = kernel_run_alloc,
    [KERNEL_VERB_RESERVE] = kernel_run_reserve,
    [KERNEL_VERB_ACTIVATE] = kernel_run_activate,
    [KERNEL_VERB_TOUCH] = kernel_run_touch,
    [KERNEL_VERB_RELEASE] = kernel_run_release,
    [KERNEL_VERB_REVOKE] = kernel_run_revoke,
    [KERNEL_VERB_ACK] = kernel_run_ack,
    [KERNEL_VERB_RECLAIM] = kernel_run_reclaim,
    [KERNEL_VERB_REKEY] = kernel_run_rekey,
    [KERNEL_VERB_DISOWN] = kernel_run_disown,
    [KERNEL_VERB_SWEEP] = kernel_run_sweep,
    [KERNEL_VERB_RULE_SET] = kernel_run_rule_set,
    [KERNEL_VERB_RULE_ENABLE] = kernel_run_rule_enable,
    [KERNEL_VERB_RULE_DELETE] = kernel_run_rule_delete,
    [KERNEL_VERB_SENSOR_SET] = kernel_run_sensor_set,
    [KERNEL_VERB_SENSOR_ENABLE] = kernel_run_sensor_enable,
    [KERNEL_VERB_SENSOR_DELETE] = kernel_run_sensor_delete,
    [KERNEL_VERB_IMPORT] = kernel_run_import,
    [KERNEL_VERB_POOL_SEED] = kernel_run_pool_seed,
    [KERNEL_VERB_EMIT] = kernel_run_emit,
    [KERNEL_VERB_SENSOR_REPORT] = kernel_run_sensor_report,
    [KERNEL_VERB_UNATTEND] = kernel_run_unattend,
    [KERNEL_VERB_USER_ADD] = kernel_run_user_add,
    [KERNEL_VERB_USER_SET] = kernel_run_user_set,
    [KERNEL_VERB_USER_DELETE] = kernel_run_user_delete,
};

/* ---- creation ---- */

static void root_init(struct kernel *k, const struct kernel_limits *limits, uint64_t shard) {
    uint32_t slot = tn_table_take(&k->tables[TABLE_ROOT]);
    TN_ASSERT(slot == 0);
    struct root *root = root_mut(k);
    root->version = KERNEL_STATE_VERSION;
    root->edition = KERNEL_EDITION;
    root->shard = shard;
    tn_prng_seed(&root->prng, shard);
    root->history_head = root->history_tail = TN_NONE;
    root->op_head = root->op_tail = TN_NONE;
    root->job_head = root->job_tail = TN_NONE;
    root->drain_head = TN_NONE;
    root->limits = *limits;
}

enum tn_status kernel_create(const struct kernel_env *env, const struct kernel_limits *limits,
                             uint64_t shard, struct kernel **ret_kernel) {
    void *memory;
    if (kernel_limits_bad(limits) != KERNEL_LIMIT_COUNT) {
        return TN_INVALID;
    }
    enum tn_status status = env->mem_reserve(env->ctx, sizeof(struct kernel), false, &memory);
    if (status != TN_OK) {
        return status;
    }
    struct kernel *k = memory;
    k->env = *env;
    status = kernel_memory_take(k, limits);
    if (status != TN_OK) {
        env->mem_release(env->ctx, k, sizeof *k);
        return status;
    }
    root_init(k, limits, shard);
    *ret_kernel = k;
    return TN_OK;
}

void kernel_destroy(struct kernel *k) {
    struct kernel_env env = k->env;
    kernel_memory_drop(k);
    env.mem_release(env.ctx, k, sizeof *k);
}

/* ---- limits ---- */

/* What has been used must fit; records do not move. */
static bool limits_fit(const struct kernel *k, const struct kernel *fresh,
                       const struct kernel_limits *limits) {
    const struct root *root = root_at(k);
    const uint64_t *of = limits->of, *old = root->limits.of;
    bool window = of[KERNEL_LIMIT_RATE_WINDOW] == old[KERNEL_LIMIT_RATE_WINDOW] ||
                  k->tables[TABLE_METER].live == 0;
    for (uint32_t i = 0; i < k->tables[TABLE_POOL].used; i++) {
        const struct pool *p = pool_at(k, i);
        if (p->state == POOL_LIVE && p->policy.of[KERNEL_OPTION_STICKY] &&
            p->policy.of[KERNEL_OPTION_RATE_WINDOW] > of[KERNEL_LIMIT_RATE_WINDOW]) {
            return false;
        }
    }
    for (unsigned i = 0; i < TABLE_COUNT; i++) {
        if (k->tables[i].used > fresh->tables[i].capacity) {
            return false;
        }
    }
    return window && root->leases_live <= of[KERNEL_LIMIT_LEASES] &&
           root->members_live + root->members_waiting <= of[KERNEL_LIMIT_MEMBERS] &&
           root->pools_live <= of[KERNEL_LIMIT_POOLS] &&
           root->cold_count <= of[KERNEL_LIMIT_COLD] &&
           of[KERNEL_LIMIT_BUNDLE] >= old[KERNEL_LIMIT_BUNDLE];
}

static void tables_copy(const struct kernel *from, struct kernel *to) {
    for (unsigned i = 0; i < TABLE_COUNT; i++) {
        const struct tn_table *old = &from->tables[i];
        struct tn_table *t = &to->tables[i];
        if (old->live == 0) {
            continue; /* also if the size of a record changes */
        }
        memcpy(t->base, old->base, (size_t)old->used * old->record_bytes);
        t->used = old->used;
        t->live = old->live;
        t->free_head = old->free_head;
    }
}

enum tn_status kernel_limits_prepare(struct kernel *k, const struct kernel_limits *limits) {
    TN_ASSERT(!k->image_active);
    if (kernel_limits_bad(limits) != KERNEL_LIMIT_COUNT) {
        return TN_INVALID;
    }
    struct kernel fresh = {.env = k->env};
    enum tn_status status = kernel_memory_take(&fresh, limits);
    if (status != TN_OK) {
        return status;
    }
    if (!limits_fit(k, &fresh, limits)) {
        kernel_memory_drop(&fresh);
        return TN_INVALID;
    }
    tables_copy(k, &fresh);
    kernel_memory_drop(k);
    *k = fresh;
    bool rebuilt = kernel_rebuild(k);
    TN_ASSERT(rebuilt);
    return TN_OK;
}

void kernel_run_limits(struct kernel *k, const struct kernel_command *c,
                       struct kernel_result *result) {
    (void)result;
    TN_ASSERT(k->tables[TABLE_LEASE].capacity ==
              c->limits.of[KERNEL_LIMIT_LEASES] + c->limits.of[KERNEL_LIMIT_HISTORY]);
    struct root *root = root_mut(k);
    root->limits = c->limits;
    if ((c->fields & KERNEL_F_EDITION) || root->lsn == 1) { /* 0.1.0 began its logs without one */
        if (root->edition < 1 && c->edition >= 1) {
            kernel_pool_sum_scopes(k);
        }
        root->edition = c->edition;
    }
    kernel_history_trim(k);
    if (c->fields & KERNEL_F_EPOCH) {
        tn_prng_seed(&root_mut(k)->prng, c->epoch);
    }
}

void kernel_run_restored(struct kernel *k, const struct kernel_command *c,
                         struct kernel_result *result) {
    (void)c;
    struct root *root = root_mut(k);
    if (root->restored_count == KERNEL_RESTORES_MAX) {
        result->code = TN_R_TOO_LARGE;
        result->number = KERNEL_RESTORES_MAX;
        return;
    }
    root->restored_lsn[root->restored_count++] = root->lsn;
    root->shard += (uint64_t)1 << 32;
    result->number = root->shard >> 32;
}

/* ---- time ---- */

void kernel_run_tick(struct kernel *k, const struct kernel_command *c,
                     struct kernel_result *result) {
    (void)c;
    uint32_t step = (uint32_t)kernel_limit(k, KERNEL_LIMIT_TICK_STEP);
    kernel_due_all(k, step, &result->number);
    kernel_op_purge(k, step);
    kernel_history_retire(k, step);
}

void kernel_run_sweep(struct kernel *k, const struct kernel_command *c,
                      struct kernel_result *result) {
    uint32_t step = (uint32_t)kernel_limit(k, KERNEL_LIMIT_TICK_STEP);
    if (!(c->fields & KERNEL_F_POOL)) {
        kernel_due_all(k, step, &result->number);
        return;
    }
    uint32_t pool = kernel_pool_find(k, c->pool);
    if (pool == TN_NONE) {
        result->code = TN_R_POOL_NOTFOUND;
        return;
    }
    if (kernel_pool_is_template(k, pool)) {
        kernel_due_all(k, step, &result->number); /* a template has no clock of its own */
        return;
    }
    kernel_meter_advance(k, pool);
    kernel_due_clock(k, pool, &step, &result->number);
    if (pool_at(k, pool)->mixed > 0) {
        kernel_due_clock(k, kernel_clock_mixed(k), &step, &result->number);
    }
}

/* ---- results ---- */

void kernel_result_lease(struct kernel *k, uint32_t lease, struct kernel_result *result) {
    const struct lease *l = lease_at(k, lease);
    TN_ASSERT(l->state != KERNEL_NO_STATE && l->epoch > 0);
    result->has_lease = true;
    result->lease = kernel_lease_id_of(k, l);
    result->epoch = l->epoch;
    result->state = (enum kernel_state)l->state;
    result->deadline_ms = kernel_lease_deadline(l);
}

void kernel_result_values(struct kernel *k, uint32_t lease, uint32_t claim_count,
                          struct kernel_result *result) {
    const struct lease *l = lease_at(k, lease);
    TN_ASSERT(l->member_count <= result->value_capacity);
    uint32_t claim = 0;
    for (uint32_t m = l->first_member; m != TN_NONE; m = member_at(k, m)->next) {
        TN_ASSERT(result->value_count < l->member_count);
        uint32_t i = result->value_count++;
        const struct claim_plan *plan = &k->plan_claims[claim];
        if (claim + 1 < claim_count && i >= plan->offset + plan->count) {
            claim++;
        }
        kernel_value_show(k, member_at(k, m), &result->values[i]);
        result->values[i].claim = (uint16_t)claim;
    }
}

/* ---- apply ---- */

static void result_begin(const struct kernel *k, struct kernel_result *result) {
    struct kernel_value *values = result->values;
    uint32_t capacity = result->value_capacity;
    TN_ASSERT(capacity >= kernel_limit(k, KERNEL_LIMIT_BUNDLE));
    *result = (struct kernel_result){.code = TN_R_OK,
                                     .lsn = root_at(k)->lsn,
                                     .now_ms = root_at(k)->now_ms,
                                     .values = values,
                                     .value_capacity = capacity};
}

enum tn_result kernel_verb_check(const struct kernel_command *c, struct kernel_result *result) {
    if (c->user.len > KERNEL_USER_MAX) {
        return TN_R_BAD_NAME;
    }
    if (c->note.len > KERNEL_NOTE_MAX) {
        result->number = KERNEL_NOTE_MAX;
        return TN_R_TOO_LARGE;
    }
    bool barred = kernel_verb_rows[c->verb].operator_only && !(c->rights & KERNEL_RIGHT_OPERATOR);
    return barred ? TN_R_DENIED : TN_R_OK;
}

static void verb_run(struct kernel *k, const struct kernel_command *c,
                     struct kernel_result *result) {
    TN_ASSERT((unsigned)c->verb < KERNEL_VERB_COUNT && verbs[c->verb] != NULL);
    result->code = kernel_verb_check(c, result);
    if (result->code == TN_R_OK) {
        verbs[c->verb](k, c, result);
    }
}

/* With an operation id: from the table, or run and remembered. */
static void operation_run(struct kernel *k, const struct kernel_command *c, struct tn_bytes encoded,
                          struct kernel_result *result) {
    uint32_t user;
    if (c->opid.len > KERNEL_OPID_MAX || c->user.len > KERNEL_USER_MAX) {
        result->code = TN_R_BAD_NAME;
        return;
    }
    if (kernel_op_replay(k, c, encoded, result)) {
        return;
    }
    result->code = kernel_op_begin(k, c, &user);
    if (result->code != TN_R_OK) {
        return;
    }
    verb_run(k, c, result);
    kernel_op_end(k, c, encoded, user, result);
}

/* Serves the lines after a command that freed values, in a bounded step. Not before all waiters of
 * a log that was taken over or restored are marked as unattended, because none of their clients is
 * connected. */
static void lines_serve(struct kernel *k, const struct kernel_command *c) {
    bool time = c->verb == KERNEL_VERB_TICK || c->verb == KERNEL_VERB_SWEEP;
    bool unattends = c->verb == KERNEL_VERB_UNATTEND && (c->fields & KERNEL_F_LEASE) == 0;
    bool restored = c->verb == KERNEL_VERB_RESTORED && kernel_edition_has(k, 2);
    if (!unattends && !restored) {
        kernel_wait_serve(
            k, (uint32_t)kernel_limit(k, time ? KERNEL_LIMIT_TICK_STEP : KERNEL_LIMIT_SWEEP_STEP));
    }
}

void kernel_apply(struct kernel *k, const struct kernel_entry *entry,
                  struct kernel_result *result) {
    struct root *root = root_mut(k);
    TN_ASSERT(entry->lsn > root->lsn);
    TN_ASSERT(entry->now_ms >= root->now_ms && entry->now_ms <= KERNEL_TIME_MAX);
    TN_ASSERT(entry->now_ms > 0); /* 0 stands for "never" in records */
    root->lsn = entry->lsn;
    root->now_ms = entry->now_ms;
    TN_ASSERT(k->empty_count == 0);
    k->event_index = 0;
    k->event_previous = TN_NONE;
    k->wait_looked = 0;
    result_begin(k, result);
    k->answer = result;

    const struct kernel_command *c = entry->command;
    k->author = (struct kernel_author){.actor = c->user, .note = c->note};
    if (root->op_head != TN_NONE) {
        kernel_op_purge(k, HOUSEKEEPING);
    }
    if (root->history_head != TN_NONE) {
        kernel_history_retire(k, HOUSEKEEPING);
    }
    if (c->opid.len > 0) {
        operation_run(k, c, entry->encoded, result);
    } else {
        verb_run(k, c, result);
    }
    if (root->serve_head1 != 0) {
        lines_serve(k, c);
    }
    if (k->empty_count > 0) {
        kernel_pool_drop_empty(k);
    }
}

uint64_t kernel_lsn(const struct kernel *k) {
    return root_at(k)->lsn;
}

uint64_t kernel_now(const struct kernel *k) {
    return root_at(k)->now_ms;
}

uint64_t kernel_shard(const struct kernel *k) {
    return root_at(k)->shard;
}

const struct kernel_limits *kernel_limits_of(const struct kernel *k) {
    return &root_at(k)->limits;
}

uint64_t kernel_edition(const struct kernel *k) {
    return root_at(k)->edition;
}
