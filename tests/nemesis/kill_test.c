/* kill -9 of the real server at random points under load, and a ledger of the answers that clients
 * got: after each restart all of them must still hold (nm_ledger.h).
 *
 * TENURE_KILLS is the number of kills, TENURE_SEED begins with another seed. A server's directory
 * is used for fifty kills, then its history goes to the judges as well. */
#include <inttypes.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
/* cmocka wants the headers above first */
#include <cmocka.h>
#include <stdio.h>

#include "nemesis/check.h"
#include "nemesis/nm_ledger.h"

#define ROUND_KILLS 50u
#define BURST_OPS 200u
#define BURST_NS 4000000u

static struct { uint64_t kills, starts, ops, unknown, repeats, leases, values; } total;

static uint64_t number_from(const char *name, uint64_t standard) {
    const char *text = getenv(name);
    return text != NULL ? strtoull(text, NULL, 0) : standard;
}

static bool burst_and_kill(struct nm_load *load) {
    uint32_t ops = 1 + (uint32_t)tn_prng_below(&load->random, BURST_OPS);
    return nm_load_run(load, load->history.op_count + ops) &&
           nm_load_death(load, tn_prng_below(&load->random, BURST_NS), SIGKILL);
}

static bool judges_agree(struct nm_load *load) {
    struct nm_report report = {.why = ""};
    bool good = nm_check_log(&load->history, &report) && nm_check_search(&load->history, &report);
    if (!good) {
        snprintf(load->why, sizeof load->why, "%.2000s", report.why);
    }
    return good;
}

static bool round_run(uint64_t seed, uint64_t kills) {
    struct nm_options options = {.seed = seed,
                                 .clients = 8,
                                 .cells_only = true,
                                 .opids_always = true,
                                 .calm = true,
                                 .kill_starts = true};
    struct nm_ledger ledger = {.count = 0};
    struct nm_load *load = malloc(sizeof *load);
    assert_non_null(load);
    bool good = nm_load_open(load, &options);
    for (uint64_t i = 0; i < kills && good; i++) {
        good = burst_and_kill(load) && nm_ledger_audit(&ledger, load);
    }
    good = good && nm_load_finish(load) && judges_agree(load);
    if (!good) {
        nm_history_keep(&load->history, load->why);
        fprintf(stderr, "its directory is %s\n", load->process.dir);
    }
    total.kills += load->done.kills;
    total.starts += load->done.starts;
    total.ops += load->history.op_count;
    total.unknown += load->done.unknown;
    total.repeats += ledger.repeats;
    total.leases += ledger.leases;
    total.values += ledger.values;
    nm_ledger_free(&ledger);
    nm_load_close(load);
    free(load);
    return good;
}

static void what_was_acknowledged_is_there_after_kill_9(void **state) {
    (void)state;
    uint64_t kills = number_from("TENURE_KILLS", ROUND_KILLS);
    uint64_t seed = number_from("TENURE_SEED", 1), start = nm_now_ns();
    bool good = true;
    while (good && total.kills < kills) {
        uint64_t left = kills - total.kills;
        good = round_run(seed++, left < ROUND_KILLS ? left : ROUND_KILLS);
    }
    fprintf(stderr,
            "%" PRIu64 " kills under load and %" PRIu64 " during starts, %" PRIu64
            " operations (%" PRIu64 " lost their answer), %" PRIu64 " repeats, %" PRIu64
            " leases and %" PRIu64 " values audited, %.1f s\n",
            total.kills, total.starts, total.ops, total.unknown, total.repeats, total.leases,
            total.values, (double)(nm_now_ns() - start) / 1e9);
    assert_true(good);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_was_acknowledged_is_there_after_kill_9)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
