/* Reads: everything the kernel shows, against the model's arrays. */
#include "sim/model.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/hash.h"

#define SCAN_MAX 256u

#define CHECK(what, field, want, got)                                               \
    do {                                                                            \
        if ((uint64_t)(want) != (uint64_t)(got)) {                                  \
            model_fail(m, "%s: %s is %" PRIu64 ", should be %" PRIu64, what, field, \
                       (uint64_t)(got), (uint64_t)(want));                          \
        }                                                                           \
    } while (0)

static struct tn_bytes text(const char *s) {
    return tn_bytes_of(s, strlen(s));
}

/* ---- leases ---- */

static void check_values(struct model *m, const struct kernel *k, const struct model_lease *l,
                         const struct kernel_lease_view *v, const char *what) {
    struct kernel_value values[MODEL_BUNDLE];
    CHECK(what, "value count", l->value_count, v->value_count);
    uint32_t got = kernel_lease_values(k, v, 0, values, MODEL_BUNDLE);
    CHECK(what, "values read", l->value_count, got);
    for (uint32_t i = 0; !m->failed && i < got; i++) {
        struct model_shown want;
        model_show(m, &l->values[i], &want);
        char pool[KERNEL_POOL_MAX + 1];
        kernel_pool_name(k, values[i].pool, pool);
        bool name = values[i].name_len == strlen(want.name) &&
                    memcmp(values[i].name, want.name, values[i].name_len) == 0;
        if (strcmp(pool, want.pool) != 0 || !name) {
            model_fail(m, "%s: value %u is of %s", what, i, pool);
        }
        if (want.name[0] == '\0') {
            CHECK(what, "value", want.number, values[i].number);
        }
    }
    uint8_t meta[KERNEL_META_MAX];
    uint32_t len = kernel_lease_meta(k, v, meta, sizeof meta);
    CHECK(what, "metadata length", l->meta_len, len);
    if (!m->failed && len > 0 && tn_hash64(meta, len, 0) != l->meta_hash) {
        model_fail(m, "%s: other metadata", what);
    }
}

static void check_lease_view(struct model *m, const struct kernel *k, const struct model_lease *l,
                             const struct kernel_lease_view *v) {
    char what[64];
    snprintf(what, sizeof what, "lease %" PRIu64 " (%s)", l->id.lsn, kernel_state_name(l->state));
    CHECK(what, "id", l->id.lsn, v->id.lsn);
    CHECK(what, "shard", l->id.shard, v->id.shard);
    CHECK(what, "epoch", l->epoch, v->epoch);
    CHECK(what, "state", l->state, v->state);
    CHECK(what, "reason", l->reason, v->reason);
    CHECK(what, "deadline", l->deadline_ms, v->deadline_ms);
    CHECK(what, "created", l->created_ms, v->created_ms);
    CHECK(what, "last seen", l->last_seen_ms, v->last_seen_ms);
    CHECK(what, "offline since", l->offline_since_ms, v->offline_since_ms);
    CHECK(what, "ended", l->ended_ms, v->ended_ms);
    CHECK(what, "ended by", l->ended_lsn, v->ended_lsn);
    uint64_t kept_ms = m->limits.of[KERNEL_LIMIT_HISTORY_SECONDS] * 1000;
    CHECK(what, "retires", l->ended_ms == 0 ? 0 : l->ended_ms + kept_ms, v->retires_ms);
    CHECK(what, "ttl", l->ttl_s, v->ttl_s);
    bool waiting = l->state == KERNEL_WAITING;
    CHECK(what, "waiting before", waiting ? model_wait_before(m, l) : 0, v->waiting_before);
    CHECK(what, "attended", waiting && l->wait.attended, v->attended);
    if (strcmp(l->holder, v->holder) != 0 || strcmp(l->user, v->user) != 0 ||
        v->holder_len != strlen(l->holder) || v->user_len != strlen(l->user)) {
        model_fail(m, "%s: holder '%s' user '%s', should be '%s' '%s'", what, v->holder, v->user,
                   l->holder, l->user);
    }
    check_values(m, k, l, v, what);
}

static void check_lease(struct model *m, const struct kernel *k, const struct model_lease *l) {
    struct kernel_lease_view v;
    bool over = kernel_state_terminal(l->state) && model_history_over(m, l);
    enum tn_result code = kernel_lease_read(k, l->id, &v);
    if (code != (over ? TN_R_RETIRED : TN_R_OK)) {
        model_fail(m, "lease %" PRIu64 " (%s) reads %s", l->id.lsn, kernel_state_name(l->state),
                   tn_result_name(code));
    }
    if (code != TN_R_OK || m->failed) {
        return;
    }
    check_lease_view(m, k, l, &v);
    enum tn_result live = l->state == KERNEL_ACTIVE ? TN_R_OK : TN_R_STATE;
    CHECK("verify", "answer", live, kernel_verify(k, l->id, l->epoch, &v));
    CHECK("verify", "of the epoch before", TN_R_STALE, kernel_verify(k, l->id, l->epoch - 1, &v));
    CHECK("verify", "of the epoch after", TN_R_STALE, kernel_verify(k, l->id, l->epoch + 1, &v));
}

/* Every recent position in the log that is not a lease, of this generation and the one before. */
static void check_gone(struct model *m, const struct kernel *k) {
    struct kernel_lease_view v;
    uint64_t first = m->lsn > 40 ? m->lsn - 40 : 1;
    for (uint64_t lsn = first; lsn <= m->lsn + 1 && !m->failed; lsn++) {
        uint64_t before = lsn % 2 == 0 && m->shard >> 32 != 0 ? (uint64_t)1 << 32 : 0;
        struct kernel_lease_id id = {.shard = m->shard - before, .lsn = lsn};
        struct model_lease *l;
        if (model_lease_find(m, id) != NULL || model_lease_history(m, id) != NULL) {
            continue;
        }
        enum tn_result want = model_ended(m, id, &l);
        CHECK("a lease that is not there", "read", want, kernel_lease_read(k, id, &v));
        CHECK("a lease that is not there", "verify", want, kernel_verify(k, id, 1, &v));
    }
}

static bool filter_matches(const struct model *m, const struct model_lease *l,
                           const struct kernel_lease_filter *f) {
    bool pool = f->pool.len == 0;
    for (uint32_t i = 0; i < l->value_count; i++) {
        const struct model_pool *p = &m->pools[l->values[i].pool];
        bool scope = p->is_scope && tn_bytes_equal(f->pool, text(m->pools[p->parent].name));
        pool = pool || scope || tn_bytes_equal(f->pool, text(p->name));
    }
    for (uint32_t i = 0; l->state == KERNEL_WAITING && f->state == KERNEL_WAITING && !pool &&
                         i < l->wait.pool_count;
         i++) {
        const struct model_pool *p = &m->pools[l->wait.pools[i]];
        bool scope = p->is_scope && tn_bytes_equal(f->pool, text(m->pools[p->parent].name));
        pool = scope || tn_bytes_equal(f->pool, text(p->name));
    }
    bool over = kernel_state_terminal(l->state) && model_history_over(m, l);
    return pool && !over && (f->holder.len == 0 || tn_bytes_equal(f->holder, text(l->holder))) &&
           (f->state == KERNEL_NO_STATE ? !kernel_state_terminal(l->state) : l->state == f->state);
}

static void check_scan(struct model *m, const struct kernel *k,
                       const struct kernel_lease_filter *f) {
    static struct kernel_lease_view views[SCAN_MAX];
    uint32_t total = 0;
    uint64_t cursor = 0;
    do {
        uint32_t count = 0;
        cursor = kernel_leases_scan(k, f, cursor, 7, &views[total], SCAN_MAX - total, &count);
        total += count;
    } while (cursor != 0 && total < SCAN_MAX);
    uint32_t want = 0;
    for (uint32_t i = 0; i < m->lease_count + m->history_count; i++) {
        bool live = i < m->lease_count;
        const struct model_lease *l = live ? &m->leases[i] : &m->history[i - m->lease_count];
        if (!filter_matches(m, l, f)) {
            continue;
        }
        want++;
        uint32_t found = 0;
        for (uint32_t j = 0; j < total; j++) {
            found += kernel_lease_id_compare(views[j].id, l->id) == 0;
        }
        CHECK("a scan of leases", "times a lease was found", 1, found);
    }
    CHECK("a scan of leases", "count", want, total);
}

static void check_scans(struct model *m, const struct kernel *k) {
    struct kernel_lease_filter all = {0};
    check_scan(m, k, &all);
    struct kernel_lease_filter one = {.state = (enum kernel_state)(1 + m->lsn % 8)};
    check_scan(m, k, &one);
    if (m->lease_count > 0) {
        const struct model_lease *l = &m->leases[m->lsn % m->lease_count];
        struct kernel_lease_filter holder = {.holder = text(l->holder)};
        check_scan(m, k, &holder);
        uint32_t of = l->state == KERNEL_WAITING ? l->wait.pools[0] : l->values[0].pool;
        struct kernel_lease_filter pool = {.pool = text(m->pools[of].name)};
        check_scan(m, k, &pool);
        pool.holder = holder.holder;
        pool.state = l->state;
        check_scan(m, k, &pool);
    }
}

/* ---- pools ---- */

static uint64_t used_and_free(struct model *m, uint32_t pool) {
    const struct model_pool *p = &m->pools[pool];
    uint64_t count = 0;
    for (uint32_t i = 0; i < p->used_count; i++) {
        count += model_pool_has(m, pool, p->used[i]) && model_value_free(m, pool, p->used[i]);
    }
    return count;
}

static uint64_t cooling_in(const struct model *m, uint32_t pool) {
    uint64_t count = 0;
    for (uint32_t i = 0; i < m->cooling_count; i++) {
        count += m->cooling[i].value.pool == pool;
    }
    return count;
}

/* Whether pool i is the pool itself or one of its scopes. */
static bool belongs(const struct model *m, uint32_t i, uint32_t pool) {
    const struct model_pool *p = &m->pools[i];
    return p->state == MODEL_POOL_LIVE && (i == pool || (p->is_scope && p->parent == pool));
}

static bool is_template(const struct model *m, uint32_t pool) {
    return !m->pools[pool].is_scope && m->pools[pool].own.of[KERNEL_OPTION_SCOPED] != 0;
}

static uint64_t held_in(const struct model *m, uint32_t pool, enum kernel_state state) {
    uint64_t count = 0;
    for (uint32_t i = 0; i < MODEL_POOLS; i++) {
        count += belongs(m, i, pool) ? model_pool_held(m, i, state, NULL) : 0;
    }
    return count;
}

/* Excluded values of the pool itself that a lease has or that rest. */
static uint64_t excluded_in_use(const struct model *m, uint32_t pool) {
    const struct kernel_policy *policy = model_policy(m, pool);
    uint64_t count = 0;
    for (uint32_t i = 0; i < m->lease_count; i++) {
        for (uint32_t v = 0; v < m->leases[i].value_count; v++) {
            const struct model_value *value = &m->leases[i].values[v];
            count += value->pool == pool && model_excluded(policy, value->number);
        }
    }
    for (uint32_t i = 0; i < m->cooling_count; i++) {
        const struct model_value *value = &m->cooling[i].value;
        count += value->pool == pool && model_excluded(policy, value->number);
    }
    return count;
}

static uint64_t plus(uint64_t a, uint64_t b) {
    return b > UINT64_MAX - a ? UINT64_MAX : a + b;
}

static void check_size(struct model *m, uint32_t pool, const struct kernel_pool_view *v) {
    const char *what = m->pools[pool].name;
    uint64_t excluded = model_pool_excluded(m, pool);
    uint64_t size = model_pool_capacity(m, pool);
    uint64_t in_use = excluded > MODEL_EXCLUDED_COUNTED ? 0 : excluded_in_use(m, pool);
    uint64_t used = held_in(m, pool, KERNEL_NO_STATE);
    for (uint32_t i = 0; i < MODEL_POOLS; i++) {
        used += belongs(m, i, pool) ? cooling_in(m, i) : 0;
    }
    if (is_template(m, pool)) {
        size = excluded = in_use = 0;
        for (uint32_t i = 0; i < MODEL_POOLS; i++) {
            size = i != pool && belongs(m, i, pool) ? plus(size, model_pool_capacity(m, i)) : size;
            excluded = i != pool && belongs(m, i, pool) ? plus(excluded, model_pool_excluded(m, i))
                                                        : excluded;
        }
    }
    size = size > UINT64_MAX - in_use ? UINT64_MAX : size + in_use;
    CHECK(what, "size", size, v->size);
    CHECK(what, "excluded", excluded - in_use, v->excluded);
    CHECK(what, "free", size > used ? size - used : 0, v->free);
}

static void check_counts(struct model *m, uint32_t pool, const struct kernel_pool_view *v) {
    const char *what = m->pools[pool].name;
    uint64_t cooling = 0;
    for (uint32_t i = 0; i < MODEL_POOLS; i++) {
        cooling += belongs(m, i, pool) ? cooling_in(m, i) : 0;
    }
    check_size(m, pool, v);
    CHECK(what, "reserved", held_in(m, pool, KERNEL_RESERVED), v->reserved);
    CHECK(what, "active", held_in(m, pool, KERNEL_ACTIVE), v->active);
    CHECK(what, "offline", held_in(m, pool, KERNEL_OFFLINE), v->offline);
    CHECK(what, "revoking", held_in(m, pool, KERNEL_REVOKING), v->revoking);
    CHECK(what, "cooling", cooling, v->cooling);
    uint64_t waiting = 0;
    for (uint32_t i = 0; i < MODEL_POOLS; i++) {
        waiting += belongs(m, i, pool) ? model_waiting_in(m, i) : 0;
    }
    CHECK(what, "waiting", waiting, v->waiting);
    CHECK(what, "waiting since", model_waiting_since(m, pool), v->waiting_since_ms);
    const struct kernel_pool_counters *c = &m->pools[pool].counters;
    CHECK(what, "allocated", c->allocated, v->counters.allocated);
    CHECK(what, "returned", c->returned, v->counters.returned);
    CHECK(what, "released", c->released, v->counters.released);
    CHECK(what, "expired", c->expired, v->counters.expired);
    CHECK(what, "revoked", c->revoked, v->counters.revoked);
    CHECK(what, "reclaimed", c->reclaimed, v->counters.reclaimed);
    CHECK(what, "last reclaimed", c->last_reclaim_count, v->counters.last_reclaim_count);
    CHECK(what, "time away", c->away_ms, v->counters.away_ms);
    for (unsigned i = 0; i < KERNEL_AWAY_BUCKETS; i++) {
        CHECK(what, "away", c->away[i], v->counters.away[i]);
    }
}

/* A lower bound; exact while `lowest` chose every value. */
static void check_used_free(struct model *m, uint32_t pool, const struct kernel_pool_view *v) {
    const struct model_pool *p = &m->pools[pool];
    uint64_t held = model_pool_held(m, pool, KERNEL_NO_STATE, NULL) + cooling_in(m, pool);
    if (v->ever_used_free > model_pool_size(m, pool) - held) {
        model_fail(m, "%s: more values were used and are free than there are", p->name);
    }
    bool set = model_policy(m, pool)->of[KERNEL_OPTION_KIND] == KERNEL_SET;
    uint64_t want = used_and_free(m, pool);
    if (!p->by_value && !set && v->ever_used_free > want) {
        model_fail(m, "%s: %" PRIu64 " values were used and are free", p->name, v->ever_used_free);
    }
    if (!p->by_value && !set && !p->not_lowest) {
        CHECK(p->name, "used and free", want, v->ever_used_free);
    }
}

static void check_pool(struct model *m, const struct kernel *k, uint32_t pool,
                       const struct kernel_pool_view *v, uint64_t clock_ms) {
    const char *what = m->pools[pool].name;
    const struct kernel_policy *policy = model_policy(m, pool);
    check_counts(m, pool, v);
    CHECK(what, "is a scope", m->pools[pool].is_scope, v->is_scope);
    if (memcmp(policy->of, v->policy.of, sizeof policy->of) != 0 ||
        policy->exclude_count != v->policy.exclude_count ||
        memcmp(policy->exclude, v->policy.exclude,
               policy->exclude_count * sizeof policy->exclude[0]) != 0 ||
        policy->span_count != v->policy.span_count ||
        memcmp(policy->spans, v->policy.spans, sizeof policy->spans) != 0) {
        model_fail(m, "%s: another policy", what);
    }
    uint32_t scopes = 0;
    for (uint32_t i = 0; i < MODEL_POOLS; i++) {
        const struct model_pool *p = &m->pools[i];
        scopes += p->state == MODEL_POOL_LIVE && p->is_scope && p->parent == pool;
    }
    CHECK(what, "scopes", scopes, v->scopes);
    check_used_free(m, pool, v);
    struct model_next next = model_next_free(m, pool);
    if (!model_next_agrees(&next, v->next_free_ms)) {
        CHECK(what, "next free", next.first_ms, v->next_free_ms);
    }
    if (model_metered(m, pool)) {
        struct model_rate rate = model_rate(m, pool, clock_ms);
        CHECK(what, "rate", rate.rate_micro, v->rate_micro);
        CHECK(what, "effective lease", rate.effective_s, v->effective_lease_s);
        CHECK(what, "ultra", rate.ultra, v->ultra_active);
        CHECK(what, "force zero", rate.force_zero, v->force_zero);
    }
    if (is_template(m, pool)) {
        uint64_t sum = 0;
        for (uint32_t i = 0; i < MODEL_POOLS; i++) {
            bool counts = i != pool && belongs(m, i, pool) && model_metered(m, i);
            sum += counts ? model_rate(m, i, clock_ms).rate_micro : 0;
        }
        CHECK(what, "rate of the scopes", sum, v->rate_micro);
    } else {
        model_values_check(m, k, pool);
    }
}

static void check_pools(struct model *m, const struct kernel *k) {
    uint32_t want = 0;
    uint64_t clock_ms = m->now_ms + (m->lsn % 3) * 700;
    struct kernel_pool_view v;
    for (uint32_t i = 0; i < MODEL_POOLS && !m->failed; i++) {
        if (m->pools[i].state != MODEL_POOL_LIVE) {
            continue;
        }
        want++;
        CHECK(m->pools[i].name, "read", TN_R_OK,
              kernel_pool_read(k, text(m->pools[i].name), clock_ms, &v));
        if (!m->failed) {
            check_pool(m, k, i, &v, clock_ms);
        }
    }
    uint64_t cursor = 0;
    uint32_t found_count = 0;
    do {
        bool found = false;
        cursor = kernel_pools_scan(k, cursor, clock_ms, &v, &found);
        found_count += found;
        if (found && model_pool_find(m, v.name) == MODEL_NONE) {
            model_fail(m, "a pool %s that should not be", v.name);
        }
    } while (cursor != 0);
    CHECK("pools", "count", want, found_count);
    CHECK("a pool that is not there", "read", TN_R_POOL_NOTFOUND,
          kernel_pool_read(k, text("nowhere"), clock_ms, &v));
}

static void check_by_value(struct model *m, const struct kernel *k) {
    for (uint32_t i = 0; i < MODEL_POOLS && !m->failed; i++) {
        const struct model_pool *p = &m->pools[i];
        if (p->state != MODEL_POOL_LIVE) {
            continue;
        }
        for (uint32_t u = 0; u < p->used_count && u < 12; u++) {
            if (!model_pool_has(m, i, p->used[u])) {
                continue;
            }
            struct model_value value = {.pool = i, .number = p->used[u]};
            model_value_name(m, &value);
            struct kernel_requested requested = {.number = value.number};
            if (value.name[0] != '\0') {
                requested.is_text = true;
                requested.text = text(value.name);
            }
            struct kernel_lease_view v;
            const struct model_lease *l = model_value_lease(m, i, p->used[u]);
            enum tn_result code = kernel_lease_by_value(k, text(p->name), &requested, &v);
            CHECK(p->name, "lease by value", l == NULL ? TN_R_NOTFOUND : TN_R_OK, code);
            if (l != NULL && code == TN_R_OK) {
                CHECK(p->name, "lease by value", l->id.lsn, v.id.lsn);
            }
        }
    }
}

/* ---- demand ---- */

/* The enabled rules of a trigger, found in steps of two records. */
static void check_trigger(struct model *m, const struct kernel *k, const char *trigger) {
    uint64_t cursor = 0, count = 0;
    do {
        struct kernel_rule_view v;
        bool found = false;
        cursor = kernel_trigger_rules_scan(k, text(trigger), cursor, 2, &v, &found);
        count += found && v.enabled && strcmp(v.trigger, trigger) == 0;
    } while (cursor != 0);
    CHECK(trigger, "scan", model_trigger_rules(m, trigger), count);
}

static void check_rules(struct model *m, const struct kernel *k) {
    uint32_t want = 0;
    for (uint32_t i = 0; i < MODEL_RULES && !m->failed; i++) {
        const struct model_demand *r = &m->rules[i];
        struct kernel_rule_view v;
        if (!r->exists) {
            continue;
        }
        want++;
        CHECK(r->name, "read", TN_R_OK, kernel_rule_read(k, text(r->name), &v));
        if (!m->failed && (v.enabled != r->enabled || strcmp(v.trigger, r->trigger) != 0)) {
            model_fail(m, "rule %s differs", r->name);
        }
        uint8_t meta[MODEL_SPEC];
        CHECK(r->name, "metadata", r->spec_len, v.meta_len);
        CHECK(r->name, "metadata", r->spec_len, kernel_rule_meta(k, &v, meta, sizeof meta));
        if (!m->failed && memcmp(meta, r->spec, r->spec_len) != 0) {
            model_fail(m, "rule %s has other metadata", r->name);
        }
        check_trigger(m, k, r->trigger);
        CHECK(r->trigger, "rules", model_trigger_rules(m, r->trigger),
              kernel_trigger_rules(k, text(r->trigger)));
    }
    uint32_t count = 0;
    uint64_t cursor = 0;
    do {
        struct kernel_rule_view v;
        bool found = false;
        cursor = kernel_rules_scan(k, cursor, &v, &found);
        count += found;
    } while (cursor != 0);
    CHECK("rules", "count", want, count);
}

static void check_sensors(struct model *m, const struct kernel *k) {
    uint32_t want = 0;
    for (uint32_t i = 0; i < MODEL_RULES && !m->failed; i++) {
        const struct model_demand *s = &m->sensors[i];
        struct kernel_sensor_view v;
        if (!s->exists) {
            continue;
        }
        want++;
        CHECK(s->name, "read", TN_R_OK, kernel_sensor_read(k, text(s->name), &v));
        if (m->failed) {
            return;
        }
        uint64_t rules = model_trigger_rules(m, s->trigger);
        uint8_t spec[MODEL_SPEC];
        CHECK(s->name, "enabled", s->enabled, v.enabled);
        CHECK(s->name, "wanted", s->enabled && rules > 0, v.wanted);
        CHECK(s->name, "rules", rules, v.active_rules);
        CHECK(s->name, "spec", s->spec_len, kernel_sensor_spec(k, &v, spec, sizeof spec));
        if (strcmp(v.trigger, s->trigger) != 0 || memcmp(spec, s->spec, s->spec_len) != 0) {
            model_fail(m, "sensor %s differs", s->name);
        }
    }
    uint32_t count = 0;
    uint64_t cursor = 0;
    do {
        struct kernel_sensor_view v;
        bool found = false;
        cursor = kernel_sensors_scan(k, cursor, &v, &found);
        count += found;
    } while (cursor != 0);
    CHECK("sensors", "count", want, count);
}

/* ---- usage ---- */

static void check_usage(struct model *m, const struct kernel *k) {
    struct kernel_usage u;
    kernel_usage_read(k, &u);
    uint64_t history_values = 0;
    for (uint32_t i = 0; i < m->history_count; i++) {
        history_values += m->history[i].value_count;
    }
    CHECK("usage", "leases", m->lease_count, u.leases);
    CHECK("usage", "members", model_members(m), u.members);
    CHECK("usage", "cooling", m->cooling_count, u.cooling);
    uint64_t unused;
    uint64_t places;
    model_wait_count(m, &unused, &places);
    CHECK("usage", "places in lines", places, u.waiters);
    CHECK("usage", "history", m->history_count, u.history);
    CHECK("usage", "history members", history_values, u.history_members);
    CHECK("usage", "pools", model_pools_live(m), u.pools);
    CHECK("usage", "names", model_names(m), u.names);
    CHECK("usage", "ops", m->op_count, u.ops);
    CHECK("usage", "disowns", m->disown_count, u.disowns);
    CHECK("usage", "rates", model_meters(m), u.rates);
    CHECK("usage", "cold", model_cold(m), u.cold);
    CHECK("usage", "users", model_users(m), u.users);
    if (model_draining(m) == 0) {
        CHECK("usage", "resources", model_resources(m), u.resources);
        CHECK("usage", "text chunks", model_chunks(m), u.text_chunks);
    }
}

bool model_watch(struct model *m, const struct kernel *kernel) {
    uint32_t draining = model_draining(m);
    if (draining == 0) {
        return true;
    }
    struct kernel_usage u;
    kernel_usage_read(kernel, &u);
    uint64_t kept = model_resources(m);
    if (u.resources < kept || u.resources > kept + draining) {
        model_fail(m, "usage: %" PRIu64 " resources, should be %" PRIu64 " and %u at most draining",
                   u.resources, kept, draining);
    }
    /* With work left it would not sleep. */
    bool done = kernel_next_due(kernel) > m->now_ms;
    if (done && u.resources != kept) {
        model_fail(m, "resources of a dropped set are left, but the kernel would sleep");
    }
    for (uint32_t i = 0; i < MODEL_POOLS && done; i++) {
        m->pools[i].draining = 0;
    }
    model_pools_free(m);
    return !m->failed;
}

/* A tick must not sleep through a deadline. */
static void check_next_due(struct model *m, const struct kernel *k) {
    uint64_t first = m->disown_count > 0 ? m->now_ms : UINT64_MAX;
    for (uint32_t i = 0; i < m->lease_count; i++) {
        uint64_t at = m->leases[i].deadline_ms;
        first = at != 0 && at < first ? at : first;
    }
    for (uint32_t i = 0; i < m->cooling_count; i++) {
        first = m->cooling[i].until_ms < first ? m->cooling[i].until_ms : first;
    }
    first = first < m->now_ms ? m->now_ms : first;
    if (kernel_next_due(k) > first) {
        model_fail(m, "next due %" PRIu64 " is after %" PRIu64, kernel_next_due(k), first);
    }
}

bool model_compare(struct model *m, const struct kernel *kernel) {
    CHECK("kernel", "lsn", m->lsn, kernel_lsn(kernel));
    CHECK("kernel", "now", m->now_ms, kernel_now(kernel));
    CHECK("kernel", "shard", m->shard, kernel_shard(kernel));
    for (uint32_t i = 0; i < m->lease_count; i++) {
        check_lease(m, kernel, &m->leases[i]);
    }
    for (uint32_t i = 0; i < m->history_count; i++) {
        check_lease(m, kernel, &m->history[i]);
    }
    check_gone(m, kernel);
    check_scans(m, kernel);
    check_pools(m, kernel);
    check_by_value(m, kernel);
    check_rules(m, kernel);
    check_sensors(m, kernel);
    model_users_check(m, kernel);
    check_usage(m, kernel);
    check_next_due(m, kernel);
    return !m->failed;
}
