/* Picking a value for "any": what each strategy gives. */
#include "sim/model_request.h"

#include <string.h>

bool model_taken_here(const struct model_request *q, uint32_t pool, uint64_t number) {
    for (uint32_t j = 0; j < q->value_count; j++) {
        if (q->chosen[j] && q->values[j].pool == pool && q->values[j].number == number) {
            return true;
        }
    }
    return false;
}

/* Whether "any" may give it. */
static bool givable(struct model *m, const struct model_request *q, uint32_t at, uint64_t number) {
    uint32_t pool = q->values[at].pool;
    return model_pool_has(m, pool, number) && !model_excluded(model_policy(m, pool), number) &&
           !model_taken_here(q, pool, number) && model_value_free(m, pool, number);
}

/* The next value of the pool, starting at `number`, that is not excluded. */
static bool next_value(const struct model *m, uint32_t pool, uint64_t number, uint64_t *ret) {
    const struct kernel_policy *policy = model_policy(m, pool);
    const struct model_pool *p = &m->pools[pool];
    if (policy->of[KERNEL_OPTION_KIND] == KERNEL_SET) {
        bool found = false;
        for (uint32_t i = 0; i < p->resource_count; i++) {
            uint64_t place = p->resources[i].place;
            if (place >= number && (!found || place < *ret)) {
                *ret = place;
                found = true;
            }
        }
        return found;
    }
    bool found = false;
    for (uint64_t s = 0; s < model_span_count(policy); s++) {
        struct kernel_span span = model_span(policy, s);
        uint64_t at = number > span.lo ? number : span.lo;
        bool in = at <= span.hi;
        for (uint64_t i = 0; in && i < policy->exclude_count; i++) {
            if (at >= policy->exclude[i].lo && at <= policy->exclude[i].hi) {
                in = policy->exclude[i].hi < span.hi;
                at = in ? policy->exclude[i].hi + 1 : at;
            }
        }
        if (in && (!found || at < *ret)) {
            *ret = at;
            found = true;
        }
    }
    return found;
}

static bool lowest_from(struct model *m, const struct model_request *q, uint32_t at, uint64_t from,
                        uint64_t to, uint64_t *ret) {
    uint64_t number = from;
    while (next_value(m, q->values[at].pool, number, &number) && number <= to) {
        if (givable(m, q, at, number)) {
            *ret = number;
            return true;
        }
        if (number == UINT64_MAX) {
            return false;
        }
        number++;
    }
    return false;
}

static void bounds(const struct model *m, uint32_t pool, uint64_t *ret_lo, uint64_t *ret_hi) {
    const uint64_t *of = model_policy(m, pool)->of;
    bool set = of[KERNEL_OPTION_KIND] == KERNEL_SET;
    *ret_lo = set ? 0 : of[KERNEL_OPTION_LO];
    *ret_hi = set ? UINT64_MAX : of[KERNEL_OPTION_HI];
}

static bool pick_lowest(struct model *m, const struct model_request *q, uint32_t at,
                        uint64_t *ret) {
    uint64_t lo;
    uint64_t hi;
    bounds(m, q->values[at].pool, &lo, &hi);
    return lowest_from(m, q, at, lo, hi, ret);
}

/* Above the last one given, then from the bottom. */
static bool pick_next(struct model *m, const struct model_request *q, uint32_t at, uint64_t *ret) {
    uint32_t pool = q->values[at].pool;
    const struct model_pool *p = &m->pools[pool];
    uint64_t lo;
    uint64_t hi;
    bounds(m, pool, &lo, &hi);
    bool above = p->rotor_set && p->rotor < hi;
    uint64_t from = above && p->rotor + 1 > lo ? p->rotor + 1 : lo;
    return (above && lowest_from(m, q, at, from, hi, ret)) || pick_lowest(m, q, at, ret);
}

static bool is_cold(const struct model_pool *p, uint64_t number) {
    for (uint32_t i = 0; i < p->cold_count; i++) {
        if (p->cold[i] == number) {
            return true;
        }
    }
    return false;
}

/* Values never used (or forgotten) first, the lowest of them; then the value freed longest ago. */
static bool pick_coldest(struct model *m, const struct model_request *q, uint32_t at,
                         uint64_t *ret) {
    uint32_t pool = q->values[at].pool;
    const struct model_pool *p = &m->pools[pool];
    uint64_t from;
    uint64_t hi;
    bounds(m, pool, &from, &hi);
    while (lowest_from(m, q, at, from, hi, ret)) {
        if (!is_cold(p, *ret)) {
            return true;
        }
        if (*ret == hi) {
            break;
        }
        from = *ret + 1;
    }
    for (uint32_t i = 0; i < p->cold_count; i++) {
        if (givable(m, q, at, p->cold[i])) {
            *ret = p->cold[i];
            return true;
        }
    }
    return false;
}

/* The kernel's choice, if it is one that was allowed. */
static bool adopt(struct model *m, const struct model_request *q, uint32_t at, uint64_t *ret) {
    if (at >= q->pick_count) {
        return pick_lowest(m, q, at, ret);
    }
    const struct model_shown *shown = &q->picks[at];
    struct kernel_requested requested = {.number = shown->number};
    if (shown->name[0] != '\0') {
        requested.is_text = true;
        requested.text = tn_bytes_of(shown->name, strlen(shown->name));
    }
    if (!model_resolve(m, q->values[at].pool, &requested, ret) || !givable(m, q, at, *ret)) {
        model_fail(m, "the random choice %u was not free", at);
        return false;
    }
    return true;
}

bool model_pick(struct model *m, struct model_request *q, uint32_t at) {
    uint32_t pool = q->values[at].pool;
    uint64_t strategy = model_policy(m, pool)->of[KERNEL_OPTION_STRATEGY];
    uint64_t *ret = &q->values[at].number;
    if (strategy == KERNEL_COLDEST) {
        return pick_coldest(m, q, at, ret);
    }
    if (strategy == KERNEL_RANDOM) {
        return adopt(m, q, at, ret);
    }
    return strategy == KERNEL_NEXT ? pick_next(m, q, at, ret) : pick_lowest(m, q, at, ret);
}
