/* The deadline of a run, kept by the kernel's timers on CLOCK_BOOTTIME: they go on while the sender of
 * the deadline is stopped, and time that the machine was suspended counts. */
#include <sys/timerfd.h>
#include <unistd.h>

#include "guardian/guardian.h"

static int term = -1;
static int kill = -1;

bool guardian_deadline_open(void) {
    term = timerfd_create(CLOCK_BOOTTIME, TFD_CLOEXEC | TFD_NONBLOCK);
    kill = timerfd_create(CLOCK_BOOTTIME, TFD_CLOEXEC | TFD_NONBLOCK);
    return term >= 0 && kill >= 0;
}

/* Setting a timer also clears an earlier expiry. */
static void timer_set(int timer, uint64_t at_ms) {
    struct itimerspec when = {
        .it_value = {.tv_sec = (time_t)(at_ms / 1000), .tv_nsec = (long)(at_ms % 1000) * 1000000}};
    (void)timerfd_settime(timer, TFD_TIMER_ABSTIME, &when, NULL);
}

void guardian_deadline_set(const struct run_frame_times *live) {
    timer_set(term, live->term_at_ms);
    timer_set(kill, live->kill_at_ms);
}

int guardian_deadline_term(void) {
    return term;
}

int guardian_deadline_kill(void) {
    return kill;
}

bool guardian_deadline_is_over(int descriptor) {
    uint64_t times;
    return read(descriptor, &times, sizeof times) == (ssize_t)sizeof times;
}
