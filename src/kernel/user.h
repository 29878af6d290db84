/* Internal: users that are added at run time, and the values that the leases of a user hold (user.c).
 * state.h has the rules for all records. */
#ifndef TN_KERNEL_USER_H
#define TN_KERNEL_USER_H

#include <stdint.h>

struct kernel;

/* A user. The kernel stores it and never judges by it: the server reads it and decides what a client
 * may do before a command is logged. */
struct user {
    uint32_t name;           /* text */
    uint32_t role;           /* from 1 to KERNEL_ROLES; never 0 in use */
    uint32_t secret;         /* text: the hash of the secret, never the secret */
    uint32_t pools, holders; /* text: patterns with blanks between them; TN_NONE: all */
    uint32_t max_values;     /* 0: no quota */
    uint64_t lsn;            /* LSN of the last change */
};

_Static_assert(sizeof(struct user) == 32, "a user is 32 bytes");

/* The lease begins to hold its values (sign +1) or no longer does (-1): its user has them, too. */
void kernel_user_count(struct kernel *k, uint32_t lease, int sign);
/* Recounts the values of all users from the leases. */
void kernel_user_rebuild(struct kernel *k);

#endif
