/* What a run in a pid namespace of its own needs besides: a /proc that agrees with it, in a mount namespace
 * that nobody else sees. */
#include <errno.h>
#include <sched.h>
#include <sys/mount.h>

#include "guardian/guardian.h"

int guardian_world_make(void) {
    if (unshare(CLONE_NEWNS) != 0 ||
        /* What the machine mounts later comes in, what is mounted here does not get out. */
        mount(NULL, "/", NULL, MS_REC | MS_SLAVE, NULL) != 0 ||
        mount("proc", "/proc", "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC, NULL) != 0) {
        return errno;
    }
    return 0;
}
