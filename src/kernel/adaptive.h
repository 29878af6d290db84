/* Internal: the rate of new leases of a sticky pool, and the lease that it makes shorter (adaptive.c).
 */
#ifndef TN_KERNEL_ADAPTIVE_H
#define TN_KERNEL_ADAPTIVE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/rate.h"

struct kernel;

/* A sticky pool's rate of new leases. */
struct meter {
    uint32_t reserved;
    uint32_t pool1;          /* pool + 1 */
    uint64_t ultra_since_ms; /* rate at or above ultra without a break since then; 0: it is not */
    uint64_t floor; /* events in the window that make the rate ultra, by the policy of then */
    struct tn_rate rate;
};

/* A meter for a new sticky pool. The caller has checked that there is room for one. */
void kernel_meter_take(struct kernel *k, uint32_t pool);
void kernel_meter_drop(struct kernel *k, uint32_t pool);
/* Brings the pool's rate up to now. No-op for pools that are not sticky. */
void kernel_meter_advance(struct kernel *k, uint32_t pool);
void kernel_meter_count(struct kernel *k, uint32_t pool);
/* The meter at `clock_ms`, assuming that no more leases are counted. */
struct kernel_meter_view {
    uint64_t rate_micro;
    uint64_t effective_s;
    bool ultra_active, force_zero;
};
struct kernel_meter_view kernel_meter_read(const struct kernel *k, uint32_t pool,
                                           uint64_t clock_ms);
/* Offline leases of the pool are due at once. */
bool kernel_meter_forces(const struct kernel *k, uint32_t pool);
/* When offline leases will be forced if nothing changes; UINT64_MAX: not foreseen. */
uint64_t kernel_meter_forces_at(const struct kernel *k, uint32_t pool);

#endif
