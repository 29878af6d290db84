/* Where the children of the loop's thread are born. */
#include "process/pidns.h"

#include <errno.h>
#include <sched.h>
#include <unistd.h>

#include "process/proc.h"

static int own = -1;    /* our namespace */
static bool is_entered; /* another one */

int process_pidns_enter(pid_t of) {
    if (!process_pidns_leave()) {
        return EAGAIN;
    }
    if (own < 0 && (own = process_namespace_open(0)) < 0) {
        return errno;
    }
    if (of == 0) {
        is_entered = unshare(CLONE_NEWPID) == 0;
        return is_entered ? 0 : errno;
    }
    int theirs = process_namespace_open(of);
    if (theirs < 0) {
        return errno;
    }
    int error = setns(theirs, CLONE_NEWPID) == 0 ? 0 : errno;
    is_entered = error == 0;
    (void)close(theirs);
    return error;
}

bool process_pidns_leave(void) {
    is_entered = is_entered && setns(own, CLONE_NEWPID) != 0;
    return !is_entered;
}
