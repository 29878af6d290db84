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
    if (of[KERNEL_OPTION_LO] > of[KERNEL_OPTION_HI]) {
        return KERNEL_FAULT_RANGE;
    }
    bool set = of[KERNEL_OPTION_KIND] == KERNEL_SET;
    if (set && (policy->exclude_count > 0 || of[KERNEL_OPTION_SCOPED])) {
        return KERNEL_FAULT_SET;
    }
    if (of[KERNEL_OPTION_FORMAT] == KERNEL_MAC && of[KERNEL_OPTION_HI] >> 48 != 0) {
        return KERNEL_FAULT_FORMAT;
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
        (option == KERNEL_OPTION_LO || option == KERNEL_OPTION_HI)) {
        return false;
    }
    return policy->of[KERNEL_OPTION_STICKY] != 0 || !is_adaptive(option);
}

uint64_t kernel_policy_patch_fault(const struct kernel_policy_patch *patch,
                                   struct kernel_policy *policy, uint64_t rate_window_max) {
    enum kernel_fault fault = kernel_policy_fault(policy, rate_window_max);
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

const char *kernel_option_name(unsigned option) {
    return option < KERNEL_OPTION_COUNT ? kernel_option_rows[option].name : "exclude";
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

unsigned kernel_policy_differs(const struct kernel_policy *a, const struct kernel_policy *b) {
    for (unsigned i = 0; i < KERNEL_OPTION_COUNT; i++) {
        if (a->of[i] != b->of[i] && kernel_option_applies(a, i)) {
            return i;
        }
    }
    bool same = a->exclude_count == b->exclude_count;
    for (uint64_t i = 0; same && i < a->exclude_count; i++) {
        same = a->exclude[i].lo == b->exclude[i].lo && a->exclude[i].hi == b->exclude[i].hi;
    }
    return same ? KERNEL_OPTION_ALL : KERNEL_OPTION_EXCLUDE;
}
