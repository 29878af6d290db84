/* Whether a run does its work: a check at intervals, as the sensor's description says.
 *
 *     command     a program in the surroundings of the run: healthy if it ends with 0 in time
 *     http        GET of a URL: healthy if the answer, in time, is 2xx
 *     heartbeat   the run says so by its token: healthy if it did within each interval
 *
 * The first check comes start_seconds after the start, a heartbeat's one interval after that; one check
 * at a time. `threshold` checks in a row that fail make the run unhealthy, which is said once. */
#ifndef TN_PROCESS_RUN_HEALTH_H
#define TN_PROCESS_RUN_HEALTH_H

#include "process/run.h"

#define RUN_HEALTH_WHY_MAX 160u

struct run_health;

struct run_health_hooks {
    void (*unhealthy)(void *ctx, const char *why);
    /* The last call: its memory is freed. */
    void (*stopped)(void *ctx);
};

/* `run_options` are those of the run; their hooks are ignored. Whatever they refer to, and the
 * spec, must stay until the check has stopped. NULL: out of memory, and no calls follow. */
struct run_health *run_health_start(const struct run_options *run_options, const struct run *run,
                                    struct run_health_hooks hooks, void *ctx);
void run_health_beat(struct run_health *health);
/* Only the call of `stopped` follows, and never from inside this one. */
void run_health_stop(struct run_health *health);

#endif
