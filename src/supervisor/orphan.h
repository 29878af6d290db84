/* What an earlier server left running, found by its records and ended.
 *
 * A server that was killed leaves guardians whose sockets are closed: they are killing what they
 * guard, and end. For each record of this boot (record.h) we wait for that: a descriptor for the
 * guardian's pid is opened first and its start time compared afterwards, so that no other process that
 * has got its pid is ever waited for or signalled. A guardian that is not done in time is killed. Then
 * everything that can be known to belong to the run is ended: the recorded main process, its session,
 * every process that has the run's TENURE_RUN_ID in its environment, its cgroup. Only a pass over
 * all processes that finds none of these proves the run dead.
 *
 * Records of another boot are of processes that cannot live. */
#ifndef TN_SUPERVISOR_ORPHAN_H
#define TN_SUPERVISOR_ORPHAN_H

#include <uv.h>

#include "kernel/types.h"
#include "os/os.h"

struct orphans;

struct orphans_hooks {
    /* Proven dead; its record is removed. */
    void (*gone)(void *ctx, const char *ref, struct kernel_lease_id lease, uint64_t epoch);
    /* Nothing is left to wait for: the last call, and orphans_free is allowed inside. */
    void (*all_gone)(void *ctx);
};

/* TN_OK: all_gone follows, also if there are none, and never from inside the call. Else no hook is
 * called: what is in `dir` cannot be known, and nothing of it may be started. `dir` need not exist. */
enum tn_status orphans_begin(uv_loop_t *loop, const struct os *os, const char *dir,
                             struct orphans_hooks hooks, void *ctx, struct orphans **ret_orphans);
/* After all_gone; or before, to stop waiting: then no hook is called any more. */
void orphans_free(struct orphans *orphans);

/* Whether a run of this sensor is still being waited for. */
bool orphans_has(const struct orphans *orphans, const char *ref);

#endif
