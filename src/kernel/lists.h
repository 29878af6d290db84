/* Which leases a holder has, and which a template's scopes have, in the order of the table.
 *
 * A holder's leases are linked with each other, which is enough for a few. A page of a long list must
 * begin where the one before it ended, whatever was released meanwhile. So a holder with LISTS_MIN
 * live leases also gets an ordered index of them, and keeps it until it has half as many. The leases of
 * a template's scopes have such an index always.
 *
 * Nothing of this is part of the state: it can be rebuilt, and lists are the same with and without. */
#ifndef TN_KERNEL_LISTS_H
#define TN_KERNEL_LISTS_H

#include "base/timer.h"

/* An index costs a command that takes or ends a lease a quarter of its time; a page of a list without
 * one reads all of the holder's leases, 0.1 ms for this many. */
#define LISTS_MIN 1024u

struct kernel;

struct lease_lists {
    struct tn_timer_index trees;          /* (lease, 0) */
    uint32_t *holder_live;                /* one a name: live leases */
    struct tn_timer_root *holder_roots;   /* one a name; empty: it has few */
    struct tn_timer_root *template_roots; /* one a pool; empty if it is no template */
};

/* The lease was linked to its holder's list, or is unlinked from it now. */
void kernel_lists_link(struct kernel *k, uint32_t lease);
void kernel_lists_unlink(struct kernel *k, uint32_t lease);
/* Hints the caches that the lease will be unlinked. */
void kernel_lists_prefetch(const struct kernel *k, uint32_t lease);
/* The lease has got its members, or loses them now. */
void kernel_lists_begin(struct kernel *k, uint32_t lease);
void kernel_lists_end(struct kernel *k, uint32_t lease);
/* From the tables, when they have been loaded. */
void kernel_lists_rebuild(struct kernel *k);
/* The first lease from slot `from` on; false: none. */
bool kernel_lists_next(const struct kernel *k, const struct tn_timer_root *root, uint64_t from,
                       uint32_t *ret_lease);
bool kernel_lists_check(const struct kernel *k);

#endif
