/* Policies: what a patch makes of one, and which make no sense. Pure: no pool is needed. */
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
}

struct kernel_policy kernel_policy_new(const struct kernel_policy_patch *patch) {
    struct kernel_policy policy = kernel_policy_default();
    kernel_policy_apply(&policy, patch);
    if (policy.of[KERNEL_OPTION_STICKY] && !(patch->mask >> KERNEL_OPTION_LEASE & 1)) {
        policy.of[KERNEL_OPTION_LEASE] = KERNEL_STICKY_LEASE_S;
    }
    return policy;
}

static bool excludes_sort(struct kernel_policy *policy) {
    struct kernel_span *e = policy->exclude;
    for (uint64_t i = 1; i < policy->exclude_count; i++) {
        for (uint64_t j = i; j > 0 && e[j - 1].lo > e[j].lo; j--) {
            struct kernel_span span = e[j];
            e[j] = e[j - 1];
            e[j - 1] = span;
        }
    }
    for (uint64_t i = 0; i < policy->exclude_count; i++) {
        if (e[i].lo > e[i].hi || (i > 0 && e[i].lo <= e[i - 1].hi)) {
            return false;
        }
    }
    return true;
}

/* Fractions and thresholds of the adaptive lease that would contradict each other. */
static const char *sticky_fault(const uint64_t *of, uint64_t rate_window_max) {
    if (of[KERNEL_OPTION_LEASE] == 0) {
        return "a sticky pool needs a lease above 0";
    }
    if (of[KERNEL_OPTION_LEASE] < of[KERNEL_OPTION_MIN_LEASE]) {
        return "the lease is below min_lease_seconds";
    }
    if (of[KERNEL_OPTION_RATE_WINDOW] == 0 || of[KERNEL_OPTION_RATE_WINDOW] > rate_window_max) {
        return "rate_window_seconds is 0 or above the limit rate_window_max";
    }
    return of[KERNEL_OPTION_ULTRA_RATE] < of[KERNEL_OPTION_HIGH_RATE]
               ? "ultra_rate_threshold_per_hour is below high_rate_threshold_per_hour"
               : NULL;
}

const char *kernel_policy_fault(struct kernel_policy *policy, uint64_t rate_window_max) {
    const uint64_t *of = policy->of;
    for (unsigned i = 0; i < KERNEL_OPTION_COUNT; i++) {
        if (of[i] > kernel_option_rows[i].high) {
            return "an option is above its largest value";
        }
    }
    if (!excludes_sort(policy)) {
        return "excluded spans overlap, or end before they begin";
    }
    if (of[KERNEL_OPTION_LO] > of[KERNEL_OPTION_HI]) {
        return "the range ends before it begins";
    }
    bool set = of[KERNEL_OPTION_KIND] == KERNEL_SET;
    if (set && (policy->exclude_count > 0 || of[KERNEL_OPTION_SCOPED])) {
        return "a set has no exclusions and no scopes";
    }
    if (of[KERNEL_OPTION_FORMAT] == KERNEL_MAC && of[KERNEL_OPTION_HI] >> 48 != 0) {
        return "the range is too large for MAC addresses";
    }
    if (of[KERNEL_OPTION_MAX_LEASE] != 0 && of[KERNEL_OPTION_LEASE] > of[KERNEL_OPTION_MAX_LEASE]) {
        return "the lease is above max_lease";
    }
    return of[KERNEL_OPTION_STICKY] ? sticky_fault(of, rate_window_max) : NULL;
}
