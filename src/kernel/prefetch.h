/* Internal: hints to the caches for passes over whole tables; those for commands are kernel_prefetch. */
#ifndef TN_KERNEL_PREFETCH_H
#define TN_KERNEL_PREFETCH_H

#include "kernel/kernel.h"

/* Records are read in order, which the processor foresees; their places in the maps are anywhere. A pass over all
 * leases or members calls this before it looks at one: it fetches the places of one some way ahead. */
void kernel_prefetch_pass_lease(const struct kernel *k, uint32_t lease);
void kernel_prefetch_pass_member(const struct kernel *k, uint32_t member);

#endif
