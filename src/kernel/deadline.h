/* Internal: the timer index, the deadlines of leases and of cooling values by pool. */
#ifndef TN_KERNEL_DEADLINE_H
#define TN_KERNEL_DEADLINE_H

#include <stdbool.h>
#include <stdint.h>

struct kernel;

/* Makes the index agree with the lease's deadline and state. Cheap when the deadline only grew. */
void kernel_clock_lease(struct kernel *k, uint32_t lease);
/* Takes the lease out of the index. */
void kernel_clock_lease_remove(struct kernel *k, uint32_t lease);
void kernel_clock_cooling_add(struct kernel *k, uint32_t member);
void kernel_clock_cooling_remove(struct kernel *k, uint32_t member);
void kernel_clock_lease_prefetch(const struct kernel *k, uint32_t lease);
/* Puts back the entry that lease.timer_ms says it has, in a new index. */
void kernel_clock_lease_restore(struct kernel *k, uint32_t lease);
/* First entry of a clock, offline tree included. */
bool kernel_clock_first(const struct kernel *k, uint32_t clock, uint64_t *ret_when,
                        uint32_t *ret_ref);
bool kernel_clock_first_offline(const struct kernel *k, uint32_t pool, uint32_t *ret_lease);
#define CLOCK_MEMBER 0x80000000u /* a reference with this bit is a cooling member */

#endif
