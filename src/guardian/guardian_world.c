/* The mount namespace of a run in a pid namespace of its own, with a /proc that shows that pid namespace. */
#include <errno.h>
#include <sched.h>
#include <sys/mount.h>

#include "guardian/guardian.h"

int guardian_world_make(void) {
    if (unshare(CLONE_NEWNS) != 0 ||
        /* Later mounts of the machine appear here; mounts made here do not appear outside. */
        mount(NULL, "/", NULL, MS_REC | MS_SLAVE, NULL) != 0 ||
        mount("proc", "/proc", "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC, NULL) != 0) {
        return errno;
    }
    return 0;
}
