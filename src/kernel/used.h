/* Internal: the values of a range that are not free, in order (used.c). */
#ifndef TN_KERNEL_USED_H
#define TN_KERNEL_USED_H

#include "kernel/state.h"

/* A value of the range becomes taken, or free. */
void kernel_used_set(struct kernel *k, uint32_t pool, uint64_t value);
void kernel_used_clear(struct kernel *k, uint32_t pool, uint64_t value);
/* The lowest taken value (held, cooling or cold) in from..to. False: there is none. */
bool kernel_used_next(const struct kernel *k, uint32_t pool, uint64_t from, uint64_t to,
                      uint64_t *ret_value);
/* Whether the index agrees with the bitmap. Reads all of it. */
bool kernel_used_check(const struct kernel *k);

#endif
