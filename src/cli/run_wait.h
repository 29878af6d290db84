/* Acquires the lease of `tenure run` in a thread of its own, so that a signal ends it at once, however
 * long the line is or the server hangs. */
#ifndef TN_CLI_RUN_WAIT_H
#define TN_CLI_RUN_WAIT_H

#include "cli/run_lease.h"
#include "cli/run_terminal.h"

/* As cli_run_lease_acquire. A signal that asks `tenure` to end withdraws the request and ends the process
 * with CLI_RUN_EXIT_NOT_ACQUIRED. */
enum cli_run_answer cli_run_wait(struct cli_run_lease *lease, const struct cli_run_options *options,
                                 struct cli_client *client, struct cli_run_terminal *terminal);

#endif
