/* Runs that an earlier server left: found by their records, and ended.
 *
 * A server that was killed leaves guardians whose sockets are closed: they kill their
 * runs and end. For each record of this boot (run_record.h) we wait for that: a descriptor for the
 * guardian's pid is opened first and its start time compared afterwards, so that no other process that
 * has got its pid is ever waited for or signalled. A stopped guardian is continued. Below one that is
 * not done in time everything is ended from here, by its cgroup, with its pid namespace, or as run_tree.h
 * says; only then is it killed.
 *
 * A run is proven dead by one of these:
 *     - its guardian has removed the record: it had no child left
 *     - its guardian, the first process of the run's pid namespace, has ended
 *     - its cgroup is empty
 *     - nothing was left below its guardian before we killed that (run_tree.h)
 *     - the record is of another boot; or of a server that was the first process of its own pid namespace,
 *       as in a container, which has ended with that server
 * Without any of them the run is unproven: for example, guardian and server of a run without a cgroup and
 * a namespace were killed. The processes that can be recognized are still ended: the recorded main process,
 * its session, every process with the run's TENURE_RUN_ID in its environment. But finding none proves
 * nothing, so the record stays until an operator vouches for the run's death. */
#ifndef TN_PROCESS_RUN_ORPHAN_H
#define TN_PROCESS_RUN_ORPHAN_H

#include <uv.h>

#include "kernel/types.h"
#include "os/os.h"

struct run_orphans;

struct run_orphans_hooks {
    /* Proven dead; its record is removed. */
    void (*gone)(void *ctx, const char *ref, struct kernel_lease_id lease, uint64_t epoch);
    /* It may live, for all that can be known; its record stays. */
    void (*unproven)(void *ctx, const char *ref, struct kernel_lease_id lease, uint64_t epoch);
    /* Nothing is left to wait for: the last call, and run_orphans_free is allowed inside. */
    void (*all_gone)(void *ctx);
};

/* TN_OK: all_gone follows, also if there are none, and never from inside the call. On failure no hook
 * is called: the records in `dir` are unknown, and none of their sensors may be started. `dir` need not exist. */
enum tn_status run_orphans_begin(uv_loop_t *loop, const struct os *os, const char *dir,
                                 struct run_orphans_hooks hooks, void *ctx,
                                 struct run_orphans **ret_orphans);
/* How long the guardians of an earlier server may take until they are seen to; for tests. */
void run_orphans_patience(struct run_orphans *orphans, uint64_t ms);
/* After all_gone; or before, to stop waiting: then no hook is called any more. */
void run_orphans_free(struct run_orphans *orphans);

/* An operator vouches that nothing of the sensor's unproven run lives: removes its record. */
void run_orphans_vouch(const struct os *os, const char *dir, const char *ref);

/* Whether a run of this sensor is still being waited for, or is unproven. */
bool run_orphans_has(const struct run_orphans *orphans, const char *ref);

#endif
