/* Cgroups of version 2, where one may be used: a run in a cgroup of its own is killed in one stroke,
 * and its cgroup says whether anything of it lives. Also part of the guardian. Only files of the cgroup
 * file system are touched. */
#ifndef TN_PROCESS_CGROUP_H
#define TN_PROCESS_CGROUP_H

#include <stdbool.h>
#include <stddef.h>

/* The directory of this process's cgroup, if the process may make cgroups below it. The texts are
 * those of /proc/self/mountinfo and /proc/self/cgroup. False: there is none, or it may not. */
bool process_cgroup_find(char *out, size_t capacity);
bool process_cgroup_find_in(const char *mounts, const char *cgroups, char *out, size_t capacity);

/* The same, if the cgroup is delegated to this process (by its owner, or by systemd's mark), so that the
 * process may manage the cgroups below it; and if a cgroup can be killed in one step. */
bool process_cgroup_delegated(char *out, size_t capacity);

/* 0, or an errno. An existing cgroup is an error: it belongs to another run. */
int process_cgroup_make(const char *path);
/* Moves the calling process into it, with everything that it starts from then on. 0, or an
 * errno. */
int process_cgroup_enter(const char *path);
/* Sends SIGKILL to all processes in it. False: this kernel cannot do that, or the cgroup no longer
 * exists. */
bool process_cgroup_kill(const char *path);
/* Whether the cgroup and those below it have no processes. True if it does not exist. */
bool process_cgroup_empty(const char *path);
/* Removes the cgroup and those below it, unless they have processes. */
void process_cgroup_remove(const char *path);

#endif
