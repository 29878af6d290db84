/* Pools and their values: which pools exist, which values are free, which leases hold them. */
#include "sim/model.h"

#include <stdio.h>
#include <string.h>

uint32_t model_pool_find(const struct model *m, const char *name) {
    for (uint32_t i = 0; i < MODEL_POOLS; i++) {
        if (m->pools[i].state == MODEL_POOL_LIVE && strcmp(m->pools[i].name, name) == 0) {
            return i;
        }
    }
    return MODEL_NONE;
}

const struct kernel_policy *model_policy(const struct model *m, uint32_t pool) {
    const struct model_pool *p = &m->pools[pool];
    return p->is_scope && !p->kept ? &m->pools[p->parent].own : &p->own;
}

static bool is_set(const struct model *m, uint32_t pool) {
    return model_policy(m, pool)->of[KERNEL_OPTION_KIND] == KERNEL_SET;
}

uint64_t model_pool_size(const struct model *m, uint32_t pool) {
    const struct kernel_policy *policy = model_policy(m, pool);
    if (is_set(m, pool)) {
        return m->pools[pool].resource_count;
    }
    uint64_t size = 0;
    for (uint64_t i = 0; i < model_span_count(policy); i++) {
        uint64_t last = model_span(policy, i).hi - model_span(policy, i).lo;
        size += last == UINT64_MAX ? UINT64_MAX : last + 1;
    }
    return size;
}

uint64_t model_pool_excluded(const struct model *m, uint32_t pool) {
    const struct kernel_policy *policy = model_policy(m, pool);
    uint64_t pairs = is_set(m, pool) ? 0 : policy->exclude_count * model_span_count(policy);
    uint64_t count = 0;
    for (uint64_t i = 0; i < pairs; i++) {
        struct kernel_span in = model_span(policy, i / policy->exclude_count);
        uint64_t lo = policy->exclude[i % policy->exclude_count].lo;
        uint64_t hi = policy->exclude[i % policy->exclude_count].hi;
        lo = lo < in.lo ? in.lo : lo;
        hi = hi > in.hi ? in.hi : hi;
        if (lo <= hi && __builtin_add_overflow(count, hi - lo + 1, &count)) {
            return UINT64_MAX;
        }
        if (lo == 0 && hi == UINT64_MAX) {
            return UINT64_MAX;
        }
    }
    return count;
}

uint64_t model_pool_capacity(const struct model *m, uint32_t pool) {
    const struct kernel_policy *policy = model_policy(m, pool);
    uint64_t excluded = model_pool_excluded(m, pool);
    if (excluded == 0) {
        return model_pool_size(m, pool);
    }
    struct kernel_span first = model_span(policy, 0);
    uint64_t last = policy->span_count == 0 ? first.hi - first.lo : model_pool_size(m, pool) - 1;
    return excluded > last ? 0 : last - (excluded - 1);
}

/* A scope that history still names is the same scope when it comes back. */
static bool same_scope(const struct model_pool *p, const char *name, uint32_t parent) {
    return p->state == MODEL_POOL_DROPPED && p->is_scope && p->parent == parent &&
           strcmp(p->name, name) == 0;
}

bool model_scope_remembered(const struct model *m, const char *name, uint32_t parent) {
    for (uint32_t i = 0; i < MODEL_POOLS; i++) {
        if (same_scope(&m->pools[i], name, parent)) {
            return true;
        }
    }
    return false;
}

uint32_t model_pool_new(struct model *m, const char *name, bool is_scope, uint32_t parent) {
    uint32_t slot = MODEL_NONE;
    for (uint32_t i = 0; i < MODEL_POOLS; i++) {
        const struct model_pool *p = &m->pools[i];
        if (is_scope && same_scope(p, name, parent)) {
            slot = i;
            break;
        }
        if (slot == MODEL_NONE && p->state == MODEL_POOL_FREE) {
            slot = i;
        }
    }
    if (slot == MODEL_NONE) {
        model_fail(m, "the model has too few pools");
        return 0;
    }
    struct model_pool *p = &m->pools[slot];
    memset(p, 0, sizeof *p);
    p->state = MODEL_POOL_LIVE;
    p->is_scope = is_scope;
    p->parent = parent;
    snprintf(p->name, sizeof p->name, "%s", name);
    return slot;
}

static bool is_of(const struct model *m, uint32_t value_pool, uint32_t pool) {
    const struct model_pool *p = &m->pools[value_pool];
    return value_pool == pool || (p->is_scope && p->parent == pool);
}

bool model_pool_used(const struct model *m, uint32_t pool) {
    for (uint32_t i = 0; i < m->lease_count; i++) {
        for (uint32_t v = 0; v < m->leases[i].value_count; v++) {
            if (is_of(m, m->leases[i].values[v].pool, pool)) {
                return true;
            }
        }
    }
    for (uint32_t i = 0; i < m->cooling_count; i++) {
        if (is_of(m, m->cooling[i].value.pool, pool)) {
            return true;
        }
    }
    return false;
}

static bool pool_in_use(const struct model *m, uint32_t pool) {
    if (model_waiting_in(m, pool) > 0) {
        return true;
    }
    for (uint32_t i = 0; i < m->lease_count; i++) {
        for (uint32_t v = 0; v < m->leases[i].value_count; v++) {
            if (m->leases[i].values[v].pool == pool) {
                return true;
            }
        }
    }
    for (uint32_t i = 0; i < m->cooling_count; i++) {
        if (m->cooling[i].value.pool == pool) {
            return true;
        }
    }
    for (uint32_t i = 0; i < MODEL_POOLS; i++) {
        if (m->pools[i].state == MODEL_POOL_LIVE && m->pools[i].is_scope &&
            m->pools[i].parent == pool) {
            return true;
        }
    }
    return false;
}

/* Scopes go when they are empty. */
void model_scopes_drop(struct model *m) {
    for (uint32_t i = 0; i < MODEL_POOLS; i++) {
        const struct model_pool *p = &m->pools[i];
        if (p->state == MODEL_POOL_LIVE && p->is_scope && !p->kept && !pool_in_use(m, i)) {
            m->pools[i].state = MODEL_POOL_DROPPED;
        }
    }
}

bool model_excluded(const struct kernel_policy *policy, uint64_t number) {
    for (uint64_t i = 0; i < policy->exclude_count; i++) {
        if (number >= policy->exclude[i].lo && number <= policy->exclude[i].hi) {
            return true;
        }
    }
    return false;
}

static const struct model_resource *resource_at(const struct model_pool *p, uint64_t place) {
    for (uint32_t i = 0; i < p->resource_count; i++) {
        if (p->resources[i].place == place) {
            return &p->resources[i];
        }
    }
    return NULL;
}

static const struct model_resource *resource_named(const struct model_pool *p,
                                                   struct tn_bytes name) {
    for (uint32_t i = 0; i < p->resource_count; i++) {
        const char *have = p->resources[i].name;
        if (tn_bytes_equal(tn_bytes_of(have, strlen(have)), name)) {
            return &p->resources[i];
        }
    }
    return NULL;
}

bool model_pool_has(const struct model *m, uint32_t pool, uint64_t number) {
    if (is_set(m, pool)) {
        return resource_at(&m->pools[pool], number) != NULL;
    }
    return model_in_range(model_policy(m, pool), number);
}

void model_value_name(const struct model *m, struct model_value *v) {
    const struct model_resource *r =
        is_set(m, v->pool) ? resource_at(&m->pools[v->pool], v->number) : NULL;
    snprintf(v->name, sizeof v->name, "%s", r == NULL ? "" : r->name);
}

/* The value that a requested means; false if it is none of this pool's. */
bool model_resolve(const struct model *m, uint32_t pool, const struct kernel_requested *requested,
                   uint64_t *ret_number) {
    if (is_set(m, pool)) {
        const struct model_resource *r =
            requested->is_text ? resource_named(&m->pools[pool], requested->text) : NULL;
        *ret_number = r == NULL ? 0 : r->place;
        return r != NULL;
    }
    enum kernel_format format = (enum kernel_format)model_policy(m, pool)->of[KERNEL_OPTION_FORMAT];
    *ret_number = requested->number;
    if (requested->is_text && !kernel_value_parse(format, requested->text, ret_number)) {
        return false;
    }
    return model_pool_has(m, pool, *ret_number);
}

struct model_lease *model_value_lease(struct model *m, uint32_t pool, uint64_t number) {
    for (uint32_t i = 0; i < m->lease_count; i++) {
        for (uint32_t v = 0; v < m->leases[i].value_count; v++) {
            const struct model_value *value = &m->leases[i].values[v];
            if (value->pool == pool && value->number == number) {
                return &m->leases[i];
            }
        }
    }
    return NULL;
}

uint32_t model_value_cooling(const struct model *m, uint32_t pool, uint64_t number) {
    for (uint32_t i = 0; i < m->cooling_count; i++) {
        if (m->cooling[i].value.pool == pool && m->cooling[i].value.number == number) {
            return i;
        }
    }
    return MODEL_NONE;
}

bool model_value_free(struct model *m, uint32_t pool, uint64_t number) {
    return model_value_lease(m, pool, number) == NULL &&
           model_value_cooling(m, pool, number) == MODEL_NONE;
}

static void cold_forget(struct model_pool *p, uint64_t number) {
    for (uint32_t i = 0; i < p->cold_count; i++) {
        if (p->cold[i] == number) {
            p->cold_count--;
            memmove(&p->cold[i], &p->cold[i + 1], (p->cold_count - i) * sizeof p->cold[0]);
            return;
        }
    }
}

void model_value_given(struct model *m, uint32_t pool, uint64_t number) {
    struct model_pool *p = &m->pools[pool];
    cold_forget(p, number);
    for (uint32_t i = 0; i < p->used_count; i++) {
        if (p->used[i] == number) {
            return;
        }
    }
    if (p->used_count < MODEL_USED) {
        p->used[p->used_count++] = number;
    } else {
        p->by_value = true; /* too many values to know */
    }
}

uint32_t model_cold(const struct model *m) {
    uint32_t count = 0;
    for (uint32_t i = 0; i < MODEL_POOLS; i++) {
        count += m->pools[i].state == MODEL_POOL_LIVE ? m->pools[i].cold_count : 0;
    }
    return count;
}

static void cold_remember(struct model *m, uint32_t pool, uint64_t number) {
    struct model_pool *p = &m->pools[pool];
    if (model_policy(m, pool)->of[KERNEL_OPTION_STRATEGY] != KERNEL_COLDEST ||
        model_excluded(model_policy(m, pool), number)) {
        return;
    }
    /* The memory is bounded per pool and in all; a pool makes room among its own. */
    if (p->cold_count >= m->limits.of[KERNEL_LIMIT_COLD_PER_POOL] ||
        model_cold(m) >= m->limits.of[KERNEL_LIMIT_COLD]) {
        if (p->cold_count == 0) {
            return;
        }
        cold_forget(p, p->cold[0]);
    }
    p->cold[p->cold_count++] = number;
}

void model_value_freed(struct model *m, uint32_t pool, uint64_t number) {
    uint64_t cooldown_s = model_policy(m, pool)->of[KERNEL_OPTION_COOLDOWN];
    if (cooldown_s == 0) {
        cold_remember(m, pool, number);
        return;
    }
    if (m->cooling_count == MODEL_COOLING) {
        model_fail(m, "the model has too little room for cooling values");
        return;
    }
    struct model_resting *r = &m->cooling[m->cooling_count++];
    r->value = (struct model_value){.pool = pool, .number = number};
    model_value_name(m, &r->value);
    r->until_ms = m->now_ms + cooldown_s * 1000;
}

/* A value that a command asks for is brought up to now. */
void model_value_settle(struct model *m, uint32_t pool, uint64_t number) {
    model_follow(m);
    struct model_lease *l = model_value_lease(m, pool, number);
    if (l != NULL) {
        model_lease_settle(m, l);
    }
    uint32_t resting = model_value_cooling(m, pool, number);
    if (resting != MODEL_NONE && m->cooling[resting].until_ms <= m->now_ms) {
        model_value_cool(m, resting);
    }
}

void model_value_cooled(struct model *m, uint32_t pool, uint64_t number) {
    cold_remember(m, pool, number);
}

uint64_t model_pool_held(const struct model *m, uint32_t pool, enum kernel_state state,
                         const char *holder) {
    uint64_t count = 0;
    for (uint32_t i = 0; i < m->lease_count; i++) {
        const struct model_lease *l = &m->leases[i];
        bool counts = (state == KERNEL_NO_STATE || l->state == state) &&
                      (holder == NULL || strcmp(l->holder, holder) == 0);
        for (uint32_t v = 0; counts && v < l->value_count; v++) {
            count += l->values[v].pool == pool;
        }
    }
    return count;
}

uint32_t model_members(const struct model *m) {
    uint32_t count = m->cooling_count;
    for (uint32_t i = 0; i < m->lease_count; i++) {
        count += m->leases[i].value_count;
    }
    return count;
}

/* ---- resources ---- */

static enum tn_result set_checked(struct model *m, uint32_t *ret_pool) {
    char name[MODEL_TEXT];
    model_text(name, sizeof name, m->c.pool);
    uint32_t pool = model_pool_find(m, name);
    if (pool == MODEL_NONE) {
        return TN_R_POOL_NOTFOUND;
    }
    *ret_pool = pool;
    if (model_policy(m, pool)->of[KERNEL_OPTION_INTERNAL] &&
        !(m->c.rights & KERNEL_RIGHT_SUPERVISOR)) {
        return TN_R_DENIED;
    }
    return is_set(m, pool) && m->c.value_count > 0 ? TN_R_OK : TN_R_BAD_REQUEST;
}

void model_pool_add(struct model *m) {
    uint32_t pool = 0;
    struct kernel_result *r = &m->want.head;
    r->code = set_checked(m, &pool);
    if (r->code != TN_R_OK) {
        return;
    }
    struct model_pool *p = &m->pools[pool];
    struct tn_reader reader = tn_reader_of(m->c.values.at, m->c.values.len);
    uint32_t fresh = 0;
    for (uint32_t i = 0; i < m->c.value_count; i++) {
        struct kernel_requested w = kernel_requested_read(&reader);
        if (!w.is_text || !kernel_name_resource_valid(w.text)) {
            r->code = TN_R_BAD_NAME;
            r->number = i;
            return;
        }
        fresh += resource_named(p, w.text) == NULL;
    }
    uint64_t most = m->limits.of[KERNEL_LIMIT_RESOURCES];
    uint64_t wanted = model_resources(m) + fresh;
    bool drains = wanted + model_draining(m) > most && m->got->head.code == TN_R_RESOURCES_FULL;
    if (wanted > most || drains) {
        r->code = TN_R_RESOURCES_FULL;
        return;
    }
    reader = tn_reader_of(m->c.values.at, m->c.values.len);
    for (uint32_t i = 0; i < m->c.value_count; i++) {
        struct kernel_requested w = kernel_requested_read(&reader);
        if (resource_named(p, w.text) == NULL && p->resource_count < MODEL_RESOURCES) {
            struct model_resource *added = &p->resources[p->resource_count++];
            added->place = p->next_place++;
            model_text(added->name, sizeof added->name, w.text);
            r->number++;
        }
    }
    r->code = r->number == 0 ? TN_R_NOOP : TN_R_OK;
    if (r->number > 0) {
        model_expect_name(m, KERNEL_EVENT_POOL_ADDED, p->name, r->number);
    }
}

/* The values that a removal names are brought up to now before it is judged. */
static bool removable(struct model *m, uint32_t pool, struct tn_bytes name) {
    const struct model_resource *have = resource_named(&m->pools[pool], name);
    if (have == NULL) {
        return true;
    }
    uint64_t place = have->place;
    model_value_settle(m, pool, place);
    return model_value_free(m, pool, place);
}

static void remove_one(struct model *m, uint32_t pool, struct tn_bytes name) {
    struct model_pool *p = &m->pools[pool];
    const struct model_resource *have = resource_named(p, name);
    if (have == NULL) {
        return;
    }
    cold_forget(p, have->place);
    uint32_t at = (uint32_t)(have - p->resources);
    p->resource_count--;
    memmove(&p->resources[at], &p->resources[at + 1],
            (p->resource_count - at) * sizeof p->resources[0]);
    m->want.head.number++;
}

void model_pool_remove(struct model *m) {
    uint32_t pool = 0;
    struct kernel_result *r = &m->want.head;
    r->code = set_checked(m, &pool);
    if (r->code != TN_R_OK) {
        return;
    }
    struct tn_reader reader = tn_reader_of(m->c.values.at, m->c.values.len);
    for (uint32_t i = 0; i < m->c.value_count; i++) {
        struct kernel_requested w = kernel_requested_read(&reader);
        if (w.is_text && !removable(m, pool, w.text)) {
            r->code = TN_R_POOL_IN_USE;
            r->number = i;
            return;
        }
    }
    reader = tn_reader_of(m->c.values.at, m->c.values.len);
    for (uint32_t i = 0; i < m->c.value_count; i++) {
        struct kernel_requested w = kernel_requested_read(&reader);
        if (w.is_text) {
            remove_one(m, pool, w.text);
        }
    }
    r->code = r->number == 0 ? TN_R_NOOP : TN_R_OK;
    if (r->number > 0) {
        model_expect_name(m, KERNEL_EVENT_POOL_REMOVED, m->pools[pool].name, r->number);
    }
}

bool model_pool_in_use(const struct model *m, uint32_t pool) {
    return pool_in_use(m, pool);
}
