/* Reads: copies from the tables, without changes. */
#include "kernel/waiting.h"

static uint32_t text_out(const struct kernel *k, uint32_t text, char *out, size_t capacity) {
    uint32_t len = tn_text_get(&k->tables[TABLE_TEXT], text, out, capacity - 1);
    TN_ASSERT(len < capacity);
    out[len] = '\0';
    return len;
}

uint32_t kernel_pool_name(const struct kernel *k, uint32_t pool, char out[KERNEL_POOL_MAX + 1]) {
    return text_out(k, pool_at(k, pool)->name, out, KERNEL_POOL_MAX + 1);
}

/* ---- leases ---- */

void kernel_lease_show(const struct kernel *k, uint32_t lease, struct kernel_lease_view *v) {
    const struct lease *l = lease_at(k, lease);
    bool ended = kernel_state_terminal((enum kernel_state)l->state);
    v->id = kernel_lease_id_of(k, l);
    v->epoch = l->epoch;
    v->state = (enum kernel_state)l->state;
    v->reason = (enum kernel_reason)(l->bits & LEASE_REASON_MASK);
    v->deadline_ms = kernel_lease_deadline(l);
    v->created_ms = l->created_ms;
    v->last_seen_ms = l->last_seen_ms;
    v->offline_since_ms = kernel_lease_offline_since(l);
    v->ended_ms = ended ? l->ended_ms : 0;
    v->ended_lsn = ended ? l->ended_lsn : 0;
    v->retires_ms =
        ended ? l->ended_ms + kernel_seconds_ms(kernel_limit(k, KERNEL_LIMIT_HISTORY_SECONDS)) : 0;
    v->now_ms = root_at(k)->now_ms;
    v->ttl_s = l->ttl_s;
    v->value_count = l->member_count;
    v->holder_len = text_out(k, name_at(k, l->holder)->text, v->holder, sizeof v->holder);
    v->user[0] = '\0';
    v->user_len =
        l->user == TN_NONE ? 0 : text_out(k, name_at(k, l->user)->text, v->user, sizeof v->user);
    v->meta_len = l->meta == TN_NONE ? 0 : tn_text_len(&k->tables[TABLE_TEXT], l->meta);
    v->slot = lease;
    v->waiting_before = 0;
    v->waiting_for = TN_R_OK;
    v->attended = false;
    v->waiting_pool[0] = '\0';
    if (l->state == KERNEL_WAITING) {
        const struct waiter *w = waiter_at(k, l->waiter);
        v->waiting_before = KERNEL_BEFORE_UNKNOWN;
        (void)kernel_pool_name(k, want_at(k, w->first_want)->pool, v->waiting_pool);
        v->waiting_for = (enum tn_result)w->code;
        v->attended = w->attended != 0;
    }
}

enum tn_result kernel_lease_read(const struct kernel *k, struct kernel_lease_id id,
                                 struct kernel_lease_view *ret_view) {
    uint32_t slot;
    enum tn_result code = kernel_lease_find(k, id, &slot);
    if (code == TN_R_OK) {
        kernel_lease_show(k, slot, ret_view);
    }
    if (code == TN_R_OK && ret_view->state == KERNEL_WAITING) {
        uint32_t pool;
        ret_view->waiting_before = kernel_line_before(k, lease_at(k, slot)->waiter, &pool);
        (void)kernel_pool_name(k, pool, ret_view->waiting_pool);
    }
    return code;
}

enum tn_result kernel_lease_by_value(const struct kernel *k, struct tn_bytes pool,
                                     const struct kernel_requested *requested,
                                     struct kernel_lease_view *ret_view) {
    uint32_t slot = kernel_pool_find(k, pool);
    uint64_t value;
    if (slot == TN_NONE) {
        return TN_R_POOL_NOTFOUND;
    }
    if (kernel_value_resolve(k, slot, requested, &value) != TN_R_OK) {
        return TN_R_BAD_VALUE;
    }
    uint32_t owner = kernel_value_owner(k, slot, value);
    if (owner == TN_NONE || member_at(k, owner)->state != MEMBER_HELD) {
        return TN_R_NOTFOUND;
    }
    kernel_lease_show(k, member_at(k, owner)->lease, ret_view);
    return TN_R_OK;
}

uint32_t kernel_lease_values(const struct kernel *k, const struct kernel_lease_view *view,
                             uint32_t first, struct kernel_value *out, uint32_t capacity) {
    uint32_t at = 0, written = 0;
    for (uint32_t m = lease_at(k, view->slot)->first_member; m != TN_NONE && written < capacity;
         m = member_at(k, m)->next) {
        if (at++ >= first) {
            kernel_value_show(k, member_at(k, m), &out[written++]);
        }
    }
    return written;
}

uint32_t kernel_lease_wants(const struct kernel *k, const struct kernel_lease_view *view,
                            uint32_t first, uint32_t *out, uint32_t capacity) {
    const struct lease *l = lease_at(k, view->slot);
    uint32_t at = 0, written = 0;
    if (l->state != KERNEL_WAITING) {
        return 0;
    }
    for (uint32_t w = waiter_at(k, l->waiter)->first_want; w != TN_NONE && written < capacity;
         w = want_at(k, w)->next) {
        if (at++ >= first) {
            out[written++] = want_at(k, w)->pool;
        }
    }
    return written;
}

uint32_t kernel_lease_meta(const struct kernel *k, const struct kernel_lease_view *view, void *out,
                           uint32_t capacity) {
    uint32_t meta = lease_at(k, view->slot)->meta;
    return meta == TN_NONE ? 0 : tn_text_get(&k->tables[TABLE_TEXT], meta, out, capacity);
}

enum tn_result kernel_verify(const struct kernel *k, struct kernel_lease_id id, uint64_t epoch,
                             struct kernel_lease_view *ret_view) {
    enum tn_result code = kernel_lease_read(k, id, ret_view);
    if (code != TN_R_OK) {
        return code;
    }
    if (ret_view->epoch != epoch) {
        return TN_R_STALE;
    }
    return ret_view->state == KERNEL_ACTIVE ? TN_R_OK : TN_R_STATE;
}

bool kernel_pool_known(const struct kernel *k, struct tn_bytes name) {
    bool scoped;
    struct tn_bytes base = kernel_name_pool_base(name, &scoped);
    uint32_t template = scoped ? kernel_pool_find(k, base) : TN_NONE;
    return kernel_pool_find(k, name) != TN_NONE ||
           (template != TN_NONE && pool_at(k, template)->policy.of[KERNEL_OPTION_SCOPED] != 0);
}

enum tn_result kernel_identity_read(const struct kernel *k, struct tn_bytes name,
                                    struct kernel_identity *ret_identity) {
    bool scoped;
    struct tn_bytes base = kernel_name_pool_base(name, &scoped);
    uint32_t pool = kernel_pool_find(k, name);
    if (pool == TN_NONE && scoped) {
        pool = kernel_pool_find(k, base);
    }
    if (pool == TN_NONE) {
        return TN_R_POOL_NOTFOUND;
    }
    const struct kernel_policy *policy = kernel_pool_policy(k, pool);
    *ret_identity = (struct kernel_identity){.fields = policy->of[KERNEL_OPTION_IDENTITY],
                                             .fallback_json = policy->of[KERNEL_OPTION_FALLBACK] ==
                                                              KERNEL_FALLBACK_JSON};
    return TN_R_OK;
}

bool kernel_holder_has(const struct kernel *k, struct tn_bytes pool, struct tn_bytes holder) {
    uint32_t of = kernel_pool_find(k, pool);
    uint32_t name = kernel_index_text(k, TEXT_NAME, holder);
    return of != TN_NONE && name != TN_NONE && kernel_index_grant(k, of, name) != TN_NONE;
}

/* ---- pools ---- */

/* Of a template's scopes together: those that have what it has, and those that have their own. */
static uint64_t scopes_sum(const struct pool *template, uint64_t each, uint64_t kept) {
    uint64_t sum;
    bool large = __builtin_mul_overflow(each, template->scopes - template->kept_scopes, &sum) ||
                 __builtin_add_overflow(sum, kept, &sum);
    return large ? UINT64_MAX : sum;
}

/* A template's figures are the sums over its scopes. Excluded values in use belong to the size
 * while they are in use. If they are too many to count, and in a template, `free` is too low by
 * their number, but never too high. */
static void pool_show_size(const struct kernel *k, uint32_t pool, struct kernel_pool_view *v) {
    const struct pool *p = pool_at(k, pool);
    uint64_t excluded = 0, in_use = 0;
    v->size = kernel_pool_capacity(k, pool);
    if (v->policy.of[KERNEL_OPTION_KIND] == KERNEL_RANGE) {
        kernel_pool_excluded(k, pool, &excluded, &in_use);
    }
    if (kernel_pool_is_template(k, pool)) {
        v->size = scopes_sum(p, v->size, p->kept_capacity);
        excluded = scopes_sum(p, excluded, p->kept_excluded);
        in_use = 0;
    }
    v->size += v->size > UINT64_MAX - in_use ? UINT64_MAX - v->size : in_use;
    v->excluded = excluded - in_use;
    v->free = v->size > p->used ? v->size - p->used : 0;
}

/* Rates of the scopes of a template; only so many pools can have one. */
static void pool_show_rate(const struct kernel *k, uint32_t pool, uint64_t clock_ms,
                           struct kernel_pool_view *v) {
    struct kernel_meter_view meter = kernel_meter_read(k, pool, clock_ms);
    v->rate_micro = meter.rate_micro;
    v->effective_lease_s = meter.effective_s;
    v->ultra_active = meter.ultra_active;
    v->force_zero = meter.force_zero;
    for (uint32_t i = 0; kernel_pool_is_template(k, pool) && i < k->tables[TABLE_METER].used; i++) {
        uint32_t pool1 = meter_at(k, i)->pool1;
        if (pool1 != 0 && pool_at(k, pool1 - 1)->template == pool) {
            v->rate_micro += kernel_meter_read(k, pool1 - 1, clock_ms).rate_micro;
        }
    }
}

static void pool_show(const struct kernel *k, uint32_t pool, uint64_t clock_ms,
                      struct kernel_pool_view *v) {
    const struct pool *p = pool_at(k, pool);
    uint64_t size = kernel_pool_size(k, pool);
    uint64_t given = p->peak < size ? p->peak : size; /* the pool may have shrunk since */
    *v = (struct kernel_pool_view){
        .policy = *kernel_pool_policy(k, pool),
        .is_scope = p->template != TN_NONE,
        .kept = p->kept != 0,
        .own = p->own,
        .scopes = p->scopes,
        .reserved = p->held[KERNEL_RESERVED],
        .active = p->held[KERNEL_ACTIVE],
        .offline = p->held[KERNEL_OFFLINE],
        .revoking = p->held[KERNEL_REVOKING],
        .cooling = p->held[HELD_COOLING],
        .ever_used_free = given > p->used ? given - p->used : 0,
        .counters = p->counters,
        .next_free_ms = kernel_due_next_free(k, pool),
    };
    uint64_t due_ms = kernel_due_pool(k, pool);
    uint32_t first = kernel_line_first(k, pool);
    v->waiting = p->waiting;
    v->waiting_since_ms = first == TN_NONE ? 0 : waiter_at(k, first)->since_ms;
    v->overdue_since_ms = due_ms <= clock_ms ? due_ms : 0;
    v->name_len = kernel_pool_name(k, pool, v->name);
    pool_show_size(k, pool, v);
    pool_show_rate(k, pool, clock_ms, v);
}

enum tn_result kernel_pool_read(const struct kernel *k, struct tn_bytes name, uint64_t clock_ms,
                                struct kernel_pool_view *ret_view) {
    uint32_t pool = kernel_pool_find(k, name);
    if (pool == TN_NONE) {
        return TN_R_POOL_NOTFOUND;
    }
    pool_show(k, pool, clock_ms, ret_view);
    return TN_R_OK;
}

uint64_t kernel_pools_scan(const struct kernel *k, uint64_t cursor, uint64_t clock_ms,
                           struct kernel_pool_view *ret_view, bool *ret_found) {
    uint64_t end = k->tables[TABLE_POOL].used;
    *ret_found = false;
    for (; cursor < end && !*ret_found; cursor++) {
        if (pool_at(k, (uint32_t)cursor)->state == POOL_LIVE) {
            pool_show(k, (uint32_t)cursor, clock_ms, ret_view);
            *ret_found = true;
        }
    }
    return cursor < end ? cursor : 0;
}

/* ---- demand ---- */

static void sensor_show(const struct kernel *k, uint32_t slot, struct kernel_sensor_view *v) {
    const struct sensor *s = sensor_at(k, slot);
    const struct trigger *t = trigger_at(k, s->trigger);
    v->ref_len = text_out(k, s->ref, v->ref, sizeof v->ref);
    v->trigger_len = text_out(k, t->text, v->trigger, sizeof v->trigger);
    v->spec_len = tn_text_len(&k->tables[TABLE_TEXT], s->spec);
    v->enabled = s->enabled != 0;
    v->active_rules = t->enabled_rules;
    v->wanted = v->enabled && v->active_rules > 0;
    v->slot = slot;
}

static void rule_show(const struct kernel *k, uint32_t slot, struct kernel_rule_view *v) {
    const struct rule *r = rule_at(k, slot);
    v->id_len = text_out(k, r->id, v->id, sizeof v->id);
    v->trigger_len = text_out(k, trigger_at(k, r->trigger)->text, v->trigger, sizeof v->trigger);
    v->enabled = r->enabled != 0;
    v->meta_len = r->meta1 != 0 ? tn_text_len(&k->tables[TABLE_TEXT], r->meta1 - 1) : 0;
    v->slot = slot;
}

enum tn_result kernel_sensor_read(const struct kernel *k, struct tn_bytes ref,
                                  struct kernel_sensor_view *ret_view) {
    uint32_t slot = kernel_index_text(k, TEXT_SENSOR, ref);
    if (slot == TN_NONE) {
        return TN_R_NOTFOUND;
    }
    sensor_show(k, slot, ret_view);
    return TN_R_OK;
}

uint32_t kernel_sensor_spec(const struct kernel *k, const struct kernel_sensor_view *view,
                            void *out, uint32_t capacity) {
    return tn_text_get(&k->tables[TABLE_TEXT], sensor_at(k, view->slot)->spec, out, capacity);
}

enum tn_result kernel_rule_read(const struct kernel *k, struct tn_bytes id,
                                struct kernel_rule_view *ret_view) {
    uint32_t slot = kernel_index_text(k, TEXT_RULE, id);
    if (slot == TN_NONE) {
        return TN_R_NOTFOUND;
    }
    rule_show(k, slot, ret_view);
    return TN_R_OK;
}

uint64_t kernel_sensors_scan(const struct kernel *k, uint64_t cursor,
                             struct kernel_sensor_view *ret_view, bool *ret_found) {
    uint64_t end = k->tables[TABLE_SENSOR].used;
    *ret_found = false;
    for (; cursor < end && !*ret_found; cursor++) {
        if (sensor_at(k, (uint32_t)cursor)->in_use) {
            sensor_show(k, (uint32_t)cursor, ret_view);
            *ret_found = true;
        }
    }
    return cursor < end ? cursor : 0;
}

uint64_t kernel_rules_scan(const struct kernel *k, uint64_t cursor,
                           struct kernel_rule_view *ret_view, bool *ret_found) {
    uint64_t end = k->tables[TABLE_RULE].used;
    *ret_found = false;
    for (; cursor < end && !*ret_found; cursor++) {
        if (rule_at(k, (uint32_t)cursor)->in_use) {
            rule_show(k, (uint32_t)cursor, ret_view);
            *ret_found = true;
        }
    }
    return cursor < end ? cursor : 0;
}

uint32_t kernel_rule_meta(const struct kernel *k, const struct kernel_rule_view *view, void *out,
                          uint32_t capacity) {
    uint32_t meta1 = rule_at(k, view->slot)->meta1;
    return meta1 != 0 ? tn_text_get(&k->tables[TABLE_TEXT], meta1 - 1, out, capacity) : 0;
}

uint64_t kernel_trigger_rules_scan(const struct kernel *k, struct tn_bytes trigger, uint64_t cursor,
                                   uint32_t effort, struct kernel_rule_view *ret_view,
                                   bool *ret_found) {
    uint64_t end = k->tables[TABLE_RULE].used;
    uint32_t wanted = kernel_index_text(k, TEXT_TRIGGER, trigger);
    *ret_found = false;
    if (wanted == TN_NONE || trigger_at(k, wanted)->enabled_rules == 0) {
        return 0;
    }
    for (uint32_t i = 0; cursor < end && i < effort && !*ret_found; cursor++, i++) {
        const struct rule *r = rule_at(k, (uint32_t)cursor);
        if (r->in_use && r->enabled && r->trigger == wanted) {
            rule_show(k, (uint32_t)cursor, ret_view);
            *ret_found = true;
        }
    }
    return cursor < end ? cursor : 0;
}

uint64_t kernel_trigger_rules(const struct kernel *k, struct tn_bytes trigger) {
    uint32_t slot = kernel_index_text(k, TEXT_TRIGGER, trigger);
    return slot == TN_NONE ? 0 : trigger_at(k, slot)->enabled_rules;
}

void kernel_usage_read(const struct kernel *k, struct kernel_usage *ret_usage) {
    const struct root *root = root_at(k);
    *ret_usage = (struct kernel_usage){
        .leases = root->leases_live,
        .members = root->members_live,
        .cooling = root->members_cooling,
        .history = root->history_count,
        .history_members = root->history_members,
        .pools = root->pools_live,
        .resources = k->tables[TABLE_RESOURCE].live,
        .names = k->tables[TABLE_NAME].live,
        .text_chunks = k->tables[TABLE_TEXT].live,
        .text_chunks_max = k->tables[TABLE_TEXT].capacity,
        .ops = k->tables[TABLE_OP].live,
        .disowns = k->tables[TABLE_JOB].live,
        .rates = k->tables[TABLE_METER].live,
        .cold = root->cold_count,
        .rules = k->tables[TABLE_RULE].live,
        .sensors = k->tables[TABLE_SENSOR].live,
        .waiters = k->tables[TABLE_WANT].live,
        .users = k->tables[TABLE_USER].live,
    };
}
