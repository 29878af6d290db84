/* Parking on Linux: a private futex. */
#include "engine/park.h"

#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <stddef.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

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
