/* The environment of a command under `tenure run`: that of `tenure`, with the lease in it. */
#ifndef TN_CLI_RUN_ENVIRONMENT_H
#define TN_CLI_RUN_ENVIRONMENT_H

#include "cli/run_lease.h"

/* NAME=value texts, ending with NULL, all in one block that free() takes. NULL: no memory.
 *
 *     TENURE_LEASE, TENURE_EPOCH    the fencing token
 *     TENURE_VALUES                 pool/value, separated by blanks
 *     TENURE_<POOL>                 the values of one pool, separated by blanks
 *     TENURE_TOKEN                  a signed token, if there is one
 *
 * The name of a pool is in capital letters, every other character but a digit as _. A pool whose variable
 * would be one that means something to Tenure already, such as TENURE_PORT, is in TENURE_VALUES only. */
char **cli_run_environment_make(const struct cli_run_lease *lease, const char *token, char **from);

#endif
