/* Processes in pid namespaces of their own.
 *
 * The first process of a pid namespace is its end, too: when it dies, for whatever reason, the kernel
 * kills everything else in the namespace, and tells of the death of the first only when nothing of the
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

/* The next child is born in a new namespace, as its first process; or, if `of` is not 0, in the namespace
 * of that process. 0, or the error: then children are born where we are. */
int process_pidns_enter(pid_t of);
/* Children are born where we are again. False: they are not, and nothing may be started; asked again
 * it may succeed. Without process_pidns_enter before it does nothing. */
bool process_pidns_leave(void);

#endif
