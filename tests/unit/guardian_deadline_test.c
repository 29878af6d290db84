/* The deadline of a run, as its guardian keeps it. */
#include "unit/unit.h"

#include <poll.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "guardian/guardian.h"
#include "os/os.h"

#define HOUR_MS 3600000u
#define PATIENCE_MS 1000 /* the timer is ready before poll looks at its own time */

static uint64_t now_ms(void) {
    return os_posix()->clock_boot_ms(os_posix()->ctx);
}

static bool is_set(int descriptor) {
    struct itimerspec left;
    assert_int_equal(timerfd_gettime(descriptor, &left), 0);
    return left.it_value.tv_sec > 0 || left.it_value.tv_nsec > 0;
}

static int setup(void **state) {
    (void)state;
    return guardian_deadline_open() ? 0 : -1;
}

static int teardown(void **state) {
    (void)state;
    return close(guardian_deadline_term()) + close(guardian_deadline_kill());
}

static void a_time_to_come_is_waited_for(void **state) {
    (void)state;
    guardian_deadline_set(&(struct run_frame_times){.kill_at_ms = now_ms() + HOUR_MS});
    assert_true(is_set(guardian_deadline_kill()));
    assert_false(is_set(guardian_deadline_term()));
    assert_false(guardian_deadline_is_over(guardian_deadline_kill()));
    guardian_deadline_set(&(struct run_frame_times){.term_at_ms = now_ms() + HOUR_MS});
    assert_true(is_set(guardian_deadline_term()));
    assert_false(is_set(guardian_deadline_kill()));
}

static void a_time_that_has_passed_is_over(void **state) {
    (void)state;
    struct pollfd kill = {.fd = guardian_deadline_kill(), .events = POLLIN};
    guardian_deadline_set(&(struct run_frame_times){.kill_at_ms = 1});
    assert_int_equal(poll(&kill, 1, PATIENCE_MS), 1);
    assert_true(guardian_deadline_is_over(guardian_deadline_kill()));
}

static void without_a_time_nothing_is_waited_for(void **state) {
    (void)state;
    guardian_deadline_set(&(struct run_frame_times){.term_at_ms = 1, .kill_at_ms = 1});
    guardian_deadline_set(&(struct run_frame_times){0});
    assert_false(is_set(guardian_deadline_kill()));
    assert_false(guardian_deadline_is_over(guardian_deadline_kill()));
    assert_false(guardian_deadline_is_over(guardian_deadline_term()));
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(a_time_to_come_is_waited_for),
        TEST(a_time_that_has_passed_is_over),
        TEST(without_a_time_nothing_is_waited_for),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
