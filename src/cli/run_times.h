/* The times of `tenure run`, from the ttl of its lease. Pure.
 *
 *     renewal sent --renew--> the next --attempt--> again, on a new connection --attempt--> term
 *     term: SIGTERM --kill_after--> SIGKILL --margin--> the deadline of the lease
 *
 * A connection may die without a word. So a renewal that gets no answer leaves time for a second one, on a
 * new connection, before the command has to end, whatever the ttl and the time for ending are. */
#ifndef TN_CLI_RUN_TIMES_H
#define TN_CLI_RUN_TIMES_H

#include <stdint.h>

#define CLI_RUN_KILL_AFTER_DEFAULT UINT64_MAX
#define CLI_RUN_PAUSE_MS \
    50u /* between a failed attempt and the next; doubled with each further one */

/* In milliseconds; those up to `term` count from the sending of the last renewal that was granted. */
struct cli_run_times {
    uint64_t renew_ms;   /* the next renewal */
    uint64_t attempt_ms; /* how long it waits for an answer */
    uint64_t term_ms;    /* SIGTERM */
    uint64_t kill_after_ms, margin_ms;
};

/* More of the ttl cannot be for ending: the rest is for renewals and the margin. */
uint64_t cli_run_kill_after_most(uint64_t ttl_ms);
/* `kill_after_ms` as requested; reduced if it is more than that. */
struct cli_run_times cli_run_times_of(uint64_t ttl_ms, uint64_t kill_after_ms);

#endif
