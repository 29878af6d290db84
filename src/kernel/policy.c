/* Policies: applying a patch, and detecting contradictory options. Pure: no pool is needed. */
#include <string.h>

#include "kernel/types.h"

void kernel_policy_apply(struct kernel_policy *policy, const struct kernel_policy_patch *patch) {
    for (unsigned i = 0; i < KERNEL_OPTION_COUNT; i++) {
        if (patch->mask >> i & 1) {
            policy->of[i] = patch->values.of[i];
        }
    }
    if (patch->has_exclude) {
        memcpy(policy->exclude, patch->values.exclude, sizeof policy->exclude);
        policy->exclude_count = patch->values.exclude_count;
    }
    if (patch->has_spans) {
        memcpy(policy->spans, patch->values.spans, sizeof policy->spans);
        policy->span_count = patch->values.span_count;
    }
}

struct kernel_policy kernel_policy_new(const struct kernel_policy_patch *patch) {
    struct kernel_policy policy = kernel_policy_default();
    kernel_policy_apply(&policy, patch);
    if (policy.of[KERNEL_OPTION_STICKY] && !(patch->mask >> KERNEL_OPTION_LEASE & 1)) {
        policy.of[KERNEL_OPTION_LEASE] = KERNEL_STICKY_LEASE_S;
    }
    return policy;
}

static void spans_sort(struct kernel_span *e, uint64_t count) {
    for (uint64_t i = 1; i < count; i++) {
        for (uint64_t j = i; j > 0 && e[j - 1].lo > e[j].lo; j--) {
            struct kernel_span span = e[j];
            e[j] = e[j - 1];
            e[j - 1] = span;
        }
    }
}

static bool excludes_sort(struct kernel_policy *policy) {
    struct kernel_span *e = policy->exclude;
    spans_sort(e, policy->exclude_count);
    for (uint64_t i = 0; i < policy->exclude_count; i++) {
        if (e[i].lo > e[i].hi || (i > 0 && e[i].lo <= e[i - 1].hi)) {
            return false;
        }
    }
    return true;
}

/* Sorts the spans, merges those that touch, and sets lo and hi to the ends of the range. */
static enum kernel_fault range_order(struct kernel_policy *policy) {
    struct kernel_span *s = policy->spans;
    uint64_t count = 0;
    spans_sort(s, policy->span_count);
    for (uint64_t i = 0; i < policy->span_count; i++) {
        if (s[i].lo > s[i].hi) {
            return KERNEL_FAULT_RANGE;
        }
        if (count > 0 && s[i].lo <= s[count - 1].hi) {
            return KERNEL_FAULT_OVERLAP;
        }
        if (count > 0 && s[i].lo == s[count - 1].hi + 1) {
            s[count - 1].hi = s[i].hi;
        } else {
            s[count++] = s[i];
        }
    }
    if (count > 0) {
        policy->of[KERNEL_OPTION_LO] = s[0].lo;
        policy->of[KERNEL_OPTION_HI] = s[count - 1].hi;
    }
    policy->span_count = count > 1 ? count : 0;
    memset(s + policy->span_count, 0,
           (KERNEL_SPANS_MAX - policy->span_count) * sizeof policy->spans[0]);
    return policy->of[KERNEL_OPTION_LO] > policy->of[KERNEL_OPTION_HI] ? KERNEL_FAULT_RANGE
                                                                       : KERNEL_FAULT_NONE;
}

/* Fractions and thresholds of the adaptive lease that would contradict each other. */
static enum kernel_fault sticky_fault(const uint64_t *of, uint64_t rate_window_max) {
    if (of[KERNEL_OPTION_LEASE] == 0) {
        return KERNEL_FAULT_NO_LEASE;
    }
    if (of[KERNEL_OPTION_LEASE] < of[KERNEL_OPTION_MIN_LEASE]) {
        return KERNEL_FAULT_MIN_LEASE;
    }
    if (of[KERNEL_OPTION_RATE_WINDOW] == 0 || of[KERNEL_OPTION_RATE_WINDOW] > rate_window_max) {
        return KERNEL_FAULT_RATE_WINDOW;
    }
    return of[KERNEL_OPTION_ULTRA_RATE] < of[KERNEL_OPTION_HIGH_RATE] ? KERNEL_FAULT_ULTRA_RATE
                                                                      : KERNEL_FAULT_NONE;
}

enum kernel_fault kernel_policy_fault(struct kernel_policy *policy, uint64_t rate_window_max) {
    const uint64_t *of = policy->of;
    for (unsigned i = 0; i < KERNEL_OPTION_COUNT; i++) {
        if (of[i] > kernel_option_rows[i].high) {
            return KERNEL_FAULT_HIGH;
        }
    }
    if (!excludes_sort(policy)) {
        return KERNEL_FAULT_EXCLUDE;
    }
    enum kernel_fault range = range_order(policy);
    if (range != KERNEL_FAULT_NONE) {
        return range;
    }
    bool set = of[KERNEL_OPTION_KIND] == KERNEL_SET;
    if (set && (policy->exclude_count > 0 || policy->span_count > 0 || of[KERNEL_OPTION_SCOPED])) {
        return KERNEL_FAULT_SET;
    }
    if (of[KERNEL_OPTION_FORMAT] == KERNEL_MAC && of[KERNEL_OPTION_HI] >> 48 != 0) {
        return KERNEL_FAULT_FORMAT;
    }
    if (of[KERNEL_OPTION_FORMAT] == KERNEL_IPV4 && of[KERNEL_OPTION_HI] >> 32 != 0) {
        return KERNEL_FAULT_IPV4;
    }
    if (of[KERNEL_OPTION_MAX_LEASE] != 0 && of[KERNEL_OPTION_LEASE] > of[KERNEL_OPTION_MAX_LEASE]) {
        return KERNEL_FAULT_MAX_LEASE;
    }
    return of[KERNEL_OPTION_STICKY] ? sticky_fault(of, rate_window_max) : KERNEL_FAULT_NONE;
}

static bool is_adaptive(unsigned option) {
    return option >= KERNEL_OPTION_ADAPTIVE && option <= KERNEL_OPTION_METRICS_SECONDS;
}

bool kernel_option_applies(const struct kernel_policy *policy, unsigned option) {
    if (policy->of[KERNEL_OPTION_KIND] == KERNEL_SET &&
        (option == KERNEL_OPTION_LO || option == KERNEL_OPTION_HI ||
         option == KERNEL_OPTION_SPANS)) {
        return false;
    }
    return policy->of[KERNEL_OPTION_STICKY] != 0 || !is_adaptive(option);
}

/* Bounds that a patch names although the policy has them from its spans. */
static enum kernel_fault bounds_fault(const struct kernel_policy_patch *patch,
                                      const struct kernel_policy *policy) {
    bool named = false, other = false;
    for (unsigned i = KERNEL_OPTION_LO; i <= KERNEL_OPTION_HI; i++) {
        if (patch->mask >> i & 1) {
            named = true;
            other = other || patch->values.of[i] != policy->of[i];
        }
    }
    if (patch->has_spans) {
        return other ? KERNEL_FAULT_BOUNDS : KERNEL_FAULT_NONE;
    }
    return named && policy->span_count > 0 ? KERNEL_FAULT_SPANS : KERNEL_FAULT_NONE;
}

uint64_t kernel_policy_patch_fault(const struct kernel_policy_patch *patch,
                                   struct kernel_policy *policy, uint64_t rate_window_max) {
    enum kernel_fault fault = kernel_policy_fault(policy, rate_window_max);
    if (fault == KERNEL_FAULT_NONE) {
        fault = bounds_fault(patch, policy);
    }
    if (fault != KERNEL_FAULT_NONE || !patch->strict || policy->of[KERNEL_OPTION_STICKY]) {
        return fault;
    }
    for (uint64_t i = 0; i < KERNEL_OPTION_COUNT; i++) {
        if ((patch->mask >> i & 1) && is_adaptive((unsigned)i)) {
            return KERNEL_FAULT_NOT_STICKY | i << KERNEL_FAULT_BITS;
        }
    }
    return KERNEL_FAULT_NONE;
}

#define OPTION_BIT(option) ((uint64_t)1 << (option))

uint64_t kernel_policy_patch_options(const struct kernel_policy_patch *patch) {
    /* These a scope has in common with its template. */
    uint64_t shared = OPTION_BIT(KERNEL_OPTION_KIND) | OPTION_BIT(KERNEL_OPTION_STICKY) |
                      OPTION_BIT(KERNEL_OPTION_SCOPED) | OPTION_BIT(KERNEL_OPTION_INTERNAL);
    uint64_t own = patch->mask & ~shared;
    uint64_t range = OPTION_BIT(KERNEL_OPTION_LO) | OPTION_BIT(KERNEL_OPTION_HI) |
                     OPTION_BIT(KERNEL_OPTION_SPANS);
    if (patch->has_spans || (own & range) != 0) {
        own |= range;
    }
    return patch->has_exclude ? own | OPTION_BIT(KERNEL_OPTION_EXCLUDE) : own;
}

const char *kernel_option_name(unsigned option) {
    return option < KERNEL_OPTION_COUNT      ? kernel_option_rows[option].name
           : option == KERNEL_OPTION_EXCLUDE ? "exclude"
                                             : "range";
}

const char *kernel_fault_text(uint64_t fault) {
    static const char *const texts[] = {
#define FAULT_TEXT(id, text) text,
        KERNEL_FAULT_TABLE(FAULT_TEXT)
#undef FAULT_TEXT
    };
    fault &= (1u << KERNEL_FAULT_BITS) - 1;
    return fault < KERNEL_FAULT_COUNT ? texts[fault] : "";
}

static bool spans_equal(const struct kernel_span *a, uint64_t a_count, const struct kernel_span *b,
                        uint64_t b_count) {
    bool same = a_count == b_count;
    for (uint64_t i = 0; same && i < a_count; i++) {
        same = a[i].lo == b[i].lo && a[i].hi == b[i].hi;
    }
    return same;
}

unsigned kernel_policy_differs(const struct kernel_policy *a, const struct kernel_policy *b) {
    for (unsigned i = 0; i < KERNEL_OPTION_COUNT; i++) {
        if (a->of[i] != b->of[i] && kernel_option_applies(a, i)) {
            return i;
        }
    }
    if (!spans_equal(a->exclude, a->exclude_count, b->exclude, b->exclude_count)) {
        return KERNEL_OPTION_EXCLUDE;
    }
    return spans_equal(a->spans, a->span_count, b->spans, b->span_count) ? KERNEL_OPTION_ALL
                                                                         : KERNEL_OPTION_SPANS;
}

bool kernel_policy_span_at(const struct kernel_policy *policy, uint64_t i,
                           struct kernel_span *ret_span) {
    if (policy->span_count > 0) {
        *ret_span = policy->spans[i < policy->span_count ? i : 0];
        return i < policy->span_count;
    }
    *ret_span = (struct kernel_span){policy->of[KERNEL_OPTION_LO], policy->of[KERNEL_OPTION_HI]};
    return i == 0;
}

bool kernel_policy_span(const struct kernel_policy *policy, uint64_t number,
                        struct kernel_span *ret_span) {
    uint64_t low = 0, high = policy->span_count == 0 ? 1 : policy->span_count;
    uint64_t count = high;
    while (low < high) {
        uint64_t middle = (low + high) / 2;
        (void)kernel_policy_span_at(policy, middle, ret_span);
        if (ret_span->hi < number) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low < count && kernel_policy_span_at(policy, low, ret_span);
}

bool kernel_policy_contains(const struct kernel_policy *policy, uint64_t number) {
    struct kernel_span span;
    return kernel_policy_span(policy, number, &span) && number >= span.lo;
}

uint64_t kernel_policy_size(const struct kernel_policy *policy) {
    struct kernel_span span;
    uint64_t size = 0;
    for (uint64_t i = 0; kernel_policy_span_at(policy, i, &span); i++) {
        uint64_t last = span.hi - span.lo;
        size += last == UINT64_MAX ? last : last + 1; /* a span of this size is the only one */
    }
    return size;
}
