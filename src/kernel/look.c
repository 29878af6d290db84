/* Looking at the values of a pool, used or not.
 *
 * Those of a range come in order: each used value by itself, and between them spans of values that are
 * all available or all excluded. So a range with nothing in use is one span, however large. Cold values
 * (value.c) are available. Those of a set come one by one, in the order in which they were added. */
#include "kernel/state.h"
#include "kernel/used.h"

struct look {
    const struct kernel *k;
    uint32_t pool; /* TN_NONE: a scope that has not been used */
    const struct kernel_policy *policy;
    enum kernel_value_state state; /* that are wanted */
    uint64_t at;                   /* the next number, or the next ordinal of a set */
    bool over;                     /* there is none */
    uint32_t effort;
    struct kernel_value_view *out;
    uint32_t capacity, count;
};

static enum tn_result look_open(struct look *look, struct tn_bytes name) {
    const struct kernel *k = look->k;
    bool scoped;
    struct tn_bytes base = kernel_name_pool_base(name, &scoped);
    uint32_t pool = kernel_pool_find(k, name);
    uint32_t template = pool == TN_NONE && scoped && kernel_name_pool_valid(name, true)
                            ? kernel_pool_find(k, base)
                            : TN_NONE;
    if (pool == TN_NONE && template == TN_NONE) {
        return TN_R_POOL_NOTFOUND;
    }
    look->pool = pool;
    look->policy = pool != TN_NONE ? kernel_pool_policy(k, pool) : &pool_at(k, template)->policy;
    bool is_scope = pool == TN_NONE || pool_at(k, pool)->template != TN_NONE;
    if (is_scope == (look->policy->of[KERNEL_OPTION_SCOPED] != 0)) {
        return TN_R_OK;
    }
    return is_scope ? TN_R_POOL_NOTFOUND : TN_R_BAD_REQUEST; /* a template has no values */
}

static bool is_set(const struct look *look) {
    return look->policy->of[KERNEL_OPTION_KIND] == KERNEL_SET;
}

/* ---- one value ---- */

static void number_show(const struct look *look, uint64_t number, struct kernel_value_view *view) {
    *view = (struct kernel_value_view){.last = number};
    view->value.pool = look->pool;
    view->value.format = (uint8_t)look->policy->of[KERNEL_OPTION_FORMAT];
    view->value.number = number;
}

static void resource_show(const struct look *look, uint32_t resource,
                          struct kernel_value_view *view) {
    struct member m = {.value = resource, .pool = look->pool};
    *view = (struct kernel_value_view){.state = KERNEL_VALUE_AVAILABLE};
    kernel_value_show(look->k, &m, &view->value);
}

static enum kernel_value_state state_of(const struct kernel *k, uint32_t member) {
    static const enum kernel_value_state states[] = {
        [KERNEL_RESERVED] = KERNEL_VALUE_RESERVED,
        [KERNEL_ACTIVE] = KERNEL_VALUE_ACTIVE,
        [KERNEL_OFFLINE] = KERNEL_VALUE_OFFLINE,
        [KERNEL_REVOKING] = KERNEL_VALUE_REVOKING,
    };
    if (member == TN_NONE || member_at(k, member)->state == MEMBER_COLD) {
        return KERNEL_VALUE_AVAILABLE;
    }
    const struct member *m = member_at(k, member);
    return m->state == MEMBER_COOLING ? KERNEL_VALUE_COOLING : states[lease_at(k, m->lease)->state];
}

static void owner_show(const struct kernel *k, uint32_t member, struct kernel_value_view *view) {
    const struct member *m = member_at(k, member);
    view->state = state_of(k, member);
    bool cooling = m->state == MEMBER_COOLING; /* then its lease has ended, and may be retired */
    view->has_lease =
        m->lease != TN_NONE && !(cooling && kernel_history_over(k, lease_at(k, m->lease)));
    if (view->has_lease) {
        kernel_lease_show(k, m->lease, &view->lease);
    }
    view->until_ms = cooling ? m->cool_ms : view->lease.deadline_ms;
}

static bool wanted(const struct look *look, enum kernel_value_state state) {
    return look->state == KERNEL_VALUE_ANY || look->state == state;
}

/* ---- a range ---- */

/* The next used number in at..to and its owner. TN_NONE: there is none up to *ret_number, which is
 * `to`, or less if the effort was used up. */
static uint32_t owner_next(struct look *look, uint64_t to, uint64_t *ret_number) {
    uint64_t from = look->at;
    uint64_t number;
    *ret_number = to;
    while (look->pool != TN_NONE && kernel_used_next(look->k, look->pool, from, to, &number)) {
        uint32_t owner = kernel_index_value(look->k, look->pool, number);
        look->effort -= look->effort > 0;
        if (member_at(look->k, owner)->state != MEMBER_COLD) {
            *ret_number = number;
            return owner;
        }
        if (number == to || look->effort == 0) {
            *ret_number = number;
            break;
        }
        from = number + 1;
    }
    return TN_NONE;
}

/* How far what holds for `from` holds: that it is excluded, or that it is not. */
static uint64_t alike(const struct kernel_policy *policy, uint64_t from, uint64_t to,
                      bool *ret_excluded) {
    *ret_excluded = false;
    for (uint64_t i = 0; i < policy->exclude_count; i++) {
        struct kernel_span span = policy->exclude[i];
        if (span.hi >= from) {
            *ret_excluded = span.lo <= from;
            uint64_t last = *ret_excluded ? span.hi : span.lo - 1;
            return last < to ? last : to;
        }
    }
    return to;
}

static void advance(struct look *look, uint64_t past) {
    look->over = past == UINT64_MAX;
    look->at = past + 1;
}

/* Numbers at..to, none of which is used. They may be too many for the page: then `at` is before `to`. */
static void span_show(struct look *look, uint64_t to) {
    while (!look->over && look->at <= to && look->count < look->capacity) {
        bool excluded;
        uint64_t last = alike(look->policy, look->at, to, &excluded);
        enum kernel_value_state state = excluded ? KERNEL_VALUE_EXCLUDED : KERNEL_VALUE_AVAILABLE;
        if (wanted(look, state)) {
            struct kernel_value_view *view = &look->out[look->count++];
            number_show(look, look->at, view);
            view->state = state;
            view->last = last;
        }
        advance(look, last);
    }
}

static void range_show(struct look *look) {
    struct kernel_span span;
    while (!look->over && look->effort > 0 && look->count < look->capacity) {
        if (!kernel_policy_span(look->policy, look->at, &span)) {
            look->over = true;
            return;
        }
        look->at = look->at < span.lo ? span.lo : look->at;
        uint64_t number;
        uint32_t owner = owner_next(look, span.hi, &number);
        if (owner == TN_NONE || number > look->at) {
            span_show(look, owner == TN_NONE ? number : number - 1);
        }
        if (owner == TN_NONE || look->at != number || look->count == look->capacity) {
            continue;
        }
        if (wanted(look, state_of(look->k, owner))) {
            struct kernel_value_view *view = &look->out[look->count++];
            number_show(look, number, view);
            owner_show(look->k, owner, view);
        }
        advance(look, number);
    }
}

/* ---- a set ---- */

static void set_show(struct look *look) {
    uint64_t end = pool_at(look->k, look->pool)->next_ordinal;
    for (; look->at < end && look->effort > 0 && look->count < look->capacity; look->at++) {
        uint32_t resource = kernel_index_ordinal(look->k, look->pool, look->at);
        look->effort--;
        if (resource == TN_NONE) {
            continue; /* it was removed */
        }
        uint32_t owner = resource_at(look->k, resource)->member;
        enum kernel_value_state state = state_of(look->k, owner);
        if (wanted(look, state)) {
            struct kernel_value_view *view = &look->out[look->count++];
            resource_show(look, resource, view);
            if (state != KERNEL_VALUE_AVAILABLE) {
                owner_show(look->k, owner, view);
            }
        }
    }
    look->over = look->at >= end;
}

enum tn_result kernel_values_scan(const struct kernel *k, struct tn_bytes pool,
                                  enum kernel_value_state state, uint64_t *cursor, uint32_t effort,
                                  struct kernel_value_view *out, uint32_t capacity,
                                  uint32_t *ret_count) {
    struct look look = {
        .k = k, .state = state, .at = *cursor, .effort = effort, .out = out, .capacity = capacity};
    enum tn_result code = look_open(&look, pool);
    *ret_count = 0;
    if (code != TN_R_OK) {
        return code;
    }
    if (is_set(&look)) {
        set_show(&look);
    } else {
        range_show(&look);
    }
    *cursor = look.over ? 0 : look.at;
    *ret_count = look.count;
    return TN_R_OK;
}

/* ---- one of them ---- */

/* The lease that had the value last, if history still has it; else TN_NONE. */
static uint32_t last_lease(const struct look *look, uint64_t value) {
    const struct kernel *k = look->k;
    uint32_t left = KERNEL_LAST_LOOKED;
    for (uint32_t i = root_at(k)->history_tail; i != TN_NONE && left > 0; i = k->ended_before[i]) {
        if (kernel_history_over(k, lease_at(k, i))) {
            break;
        }
        for (uint32_t m = lease_at(k, i)->first_member; m != TN_NONE && left > 0; left--) {
            if (member_at(k, m)->pool == look->pool && member_at(k, m)->value == value) {
                return i;
            }
            m = member_at(k, m)->next;
        }
    }
    return TN_NONE;
}

/* For an existing pool: kernel_value_resolve finds the requested value. */
static enum tn_result number_find(const struct look *look, const struct kernel_requested *requested,
                                  uint64_t *ret_number) {
    enum kernel_format format = (enum kernel_format)look->policy->of[KERNEL_OPTION_FORMAT];
    if (look->pool != TN_NONE) {
        return kernel_value_resolve(look->k, look->pool, requested, ret_number);
    }
    *ret_number = requested->number;
    if ((requested->is_text && !kernel_value_parse(format, requested->text, ret_number)) ||
        !kernel_policy_contains(look->policy, *ret_number)) {
        return TN_R_BAD_VALUE;
    }
    return TN_R_OK;
}

static void free_show(const struct look *look, uint64_t value, struct kernel_value_view *view) {
    bool excluded = !is_set(look) && kernel_value_excluded(look->policy, value);
    uint32_t last = look->pool == TN_NONE ? TN_NONE : last_lease(look, value);
    view->state = excluded ? KERNEL_VALUE_EXCLUDED : KERNEL_VALUE_AVAILABLE;
    view->has_lease = last != TN_NONE;
    if (view->has_lease) {
        kernel_lease_show(look->k, last, &view->lease);
    }
}

enum tn_result kernel_value_read(const struct kernel *k, struct tn_bytes pool,
                                 const struct kernel_requested *requested,
                                 struct kernel_value_view *ret_view) {
    struct look look = {.k = k};
    uint64_t value;
    enum tn_result code = look_open(&look, pool);
    if (code == TN_R_OK) {
        code = number_find(&look, requested, &value);
    }
    if (code != TN_R_OK) {
        return code;
    }
    if (is_set(&look)) {
        resource_show(&look, (uint32_t)value, ret_view);
    } else {
        number_show(&look, value, ret_view);
    }
    uint32_t owner = look.pool == TN_NONE ? TN_NONE : kernel_value_owner(k, look.pool, value);
    if (state_of(k, owner) == KERNEL_VALUE_AVAILABLE) {
        free_show(&look, value, ret_view);
    } else {
        owner_show(k, owner, ret_view);
    }
    return TN_R_OK;
}
