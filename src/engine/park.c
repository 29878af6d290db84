/* Parking on Linux: a private futex. */
#include "engine/park.h"

#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <sched.h>
#include <stddef.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define SLICE_NS 100000u /* the shortest that Linux gives */

static bool futex_wait(engine_park_word *word, uint32_t seen, const struct timespec *limit) {
    return syscall(SYS_futex, (uint32_t *)word, FUTEX_WAIT_PRIVATE, seen, limit, NULL, 0) == 0 ||
           errno != ETIMEDOUT;
}

void engine_park_wait(engine_park_word *word, uint32_t seen) {
    (void)futex_wait(word, seen, NULL);
}

bool engine_park_wait_ns(engine_park_word *word, uint32_t seen, uint64_t ns) {
    struct timespec limit = {
        .tv_sec = (time_t)(ns / 1000000000u),
        .tv_nsec = (long)(ns % 1000000000u),
    };
    return futex_wait(word, seen, &limit);
}

void engine_park_wake(engine_park_word *word) {
    (void)syscall(SYS_futex, (uint32_t *)word, FUTEX_WAKE_PRIVATE, INT_MAX, NULL, NULL, 0);
}

/* The first version of the kernel's struct sched_attr. */
struct slice {
    uint32_t size;
    uint32_t policy;
    uint64_t flags;
    int32_t nice;
    uint32_t priority;
    uint64_t runtime_ns; /* of SCHED_OTHER: the slice */
    uint64_t deadline_ns;
    uint64_t period_ns;
};

_Static_assert(sizeof(struct slice) == 48, "the layout of the kernel");

void engine_park_wakes_early(void) {
    struct slice slice = {0};
    if (syscall(SYS_sched_getattr, 0, &slice, sizeof slice, 0) == 0 &&
        slice.policy == SCHED_OTHER) {
        slice.size = sizeof slice;
        slice.runtime_ns = SLICE_NS;
        (void)syscall(SYS_sched_setattr, 0, &slice, 0);
    }
}
