/* The doctor and the clock: its messages when the clock is far ahead of the log, or behind it. */
#include "unit/unit.h"

#include "config/config.h"
#include "doctor/doctor_parts.h"

#define DAY_MS 86400000ull
#define LOG_MS (20000 * DAY_MS)

static uint64_t now_ms;

static uint64_t wall(void *ctx) {
    (void)ctx;
    return now_ms;
}

static void mistake(void *ctx, const char *where, const char *what) {
    (void)ctx;
    fail_msg("%s: %s", where, what);
}

/* Checks the message about the log's time, with the clock at this time. */
static void said(uint64_t at_ms, const char *level, const char *text) {
    struct os os = *os_posix();
    struct cli_settings settings = {.json = true};
    char program[] = "tenured", flag[] = "--max-downtime-days=30";
    char *flags[] = {program, flag, NULL};
    char wanted[64];
    struct doctor *doctor = calloc(1, sizeof *doctor);
    assert_non_null(doctor);
    os.clock_wall_ms = wall;
    now_ms = at_ms;
    doctor->os = &os;
    doctor->settings = &settings;
    doctor->log_ms = LOG_MS;
    assert_true(config_load(&doctor->config, &os, 2, flags, mistake, NULL));
    doctor_clock(doctor);
    (void)snprintf(wanted, sizeof wanted, "{\"level\":\"%s\",\"area\":\"clock\"", level);
    const char *last = strrchr(doctor->json.at, '{'); /* after the message about synchronization */
    assert_non_null(last);
    if (strncmp(last, wanted, strlen(wanted)) != 0 || strstr(last, text) == NULL) {
        fail_msg("not %s with '%s': %s", level, text, last);
    }
    config_free(&doctor->config);
    cli_text_free(&doctor->json);
    free(doctor);
}

static void a_clock_too_far_ahead_of_the_log_is_a_problem(void **state) {
    (void)state;
    said(LOG_MS, "ok", "0 s old");
    said(LOG_MS + 30 * DAY_MS, "ok", "2592000 s old");
    said(LOG_MS + 30 * DAY_MS + 1, "problem", "--confirm-time-jump");
}

static void a_clock_behind_the_log_is_a_warning(void **state) {
    (void)state;
    said(LOG_MS - 5000, "ok", "0 s old");
    said(LOG_MS - 6000, "warning", "6 s behind the log");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_clock_too_far_ahead_of_the_log_is_a_problem),
        cmocka_unit_test(a_clock_behind_the_log_is_a_warning),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
