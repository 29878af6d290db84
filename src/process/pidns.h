/* Processes in pid namespaces of their own.
 *
 * The first process of a pid namespace is its end, too: when it dies, for whatever reason, the kernel
 * kills everything else in the namespace, and reports the death of the first only when nothing of the
 * rest is left. So a guardian that is the first process of its run's namespace needs nobody to look for
 * the run: its own end is the proof, and a process in there can neither kill nor stop it.
 *
 * A process cannot go into another namespace itself; its next children can be born there. So the thread of
 * the loop enters before it starts a guardian, and leaves right after. In between it must not start
 * threads. */
#ifndef TN_PROCESS_PIDNS_H
#define TN_PROCESS_PIDNS_H

#include <stdbool.h>
#include <sys/types.h>

/* Makes the next child the first process of a new namespace, or, if `of` is not 0, a process in the
 * namespace of that process. 0, or an errno; then children stay in this namespace. */
int process_pidns_enter(pid_t of);
/* Makes further children stay in this namespace. False: it failed, and nothing may be started;
 * another call may succeed. Without an earlier process_pidns_enter it does nothing. */
bool process_pidns_leave(void);

#endif
