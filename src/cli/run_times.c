/* When a lease is renewed, and when its command has to end. */
#include "cli/run_times.h"

#define MARGIN_MIN_MS 500u
#define MARGIN_MAX_MS 3000u
#define KILL_AFTER_MS 10000u
#define ATTEMPT_MS 500u /* for an answer, if the ttl has so much time */

static uint64_t less(uint64_t a, uint64_t b) {
    return a < b ? a : b;
}

static uint64_t more(uint64_t a, uint64_t b) {
    return a > b ? a : b;
}

static uint64_t minus(uint64_t a, uint64_t b) {
    return a > b ? a - b : 0;
}

uint64_t cli_run_kill_after_most(uint64_t ttl_ms) {
    return ttl_ms * 2 / 5;
}

/* Two attempts end by SIGTERM. A short ttl, or a long time for ending, makes them begin earlier than at a
 * third of the ttl; only then are they shorter than a sixth. */
static void renewals_plan(struct cli_run_times *times, uint64_t ttl_ms) {
    uint64_t wanted = more(ttl_ms / 6, ATTEMPT_MS);
    uint64_t latest = minus(times->term_ms, 2 * wanted + CLI_RUN_PAUSE_MS);
    times->renew_ms = less(ttl_ms / 3, more(latest, times->term_ms / 3));
    uint64_t left = minus(times->term_ms - times->renew_ms, CLI_RUN_PAUSE_MS);
    times->attempt_ms = more(less(wanted, left / 2), 1);
}

struct cli_run_times cli_run_times_of(uint64_t ttl_ms, uint64_t kill_after_ms) {
    struct cli_run_times times = {0};
    uint64_t margin = less(more(ttl_ms / 10, MARGIN_MIN_MS), MARGIN_MAX_MS);
    times.margin_ms = less(margin, ttl_ms / 4);
    times.kill_after_ms = kill_after_ms == CLI_RUN_KILL_AFTER_DEFAULT
                              ? less(KILL_AFTER_MS, ttl_ms / 4)
                              : less(kill_after_ms, cli_run_kill_after_most(ttl_ms));
    times.term_ms = ttl_ms - times.margin_ms - times.kill_after_ms;
    renewals_plan(&times, ttl_ms);
    return times;
}
