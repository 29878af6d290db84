/* Linearizability: clients contend on a real server that is killed again and again, and two judges
 * examine the answers that the clients got (check.h).
 *
 * TENURE_SEED plays one seed (the first of the run otherwise). TENURE_SECONDS plays rounds with new
 * seeds for this time; each is judged by a process of its own while the next one is being played.
 * TENURE_HISTORY judges a history that a failed run has kept. */
#include <inttypes.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
/* cmocka wants the headers above first */
#include <cmocka.h>
#include <stdio.h>

#include "nemesis/nm_judge.h"
#include "nemesis/nm_load.h"
#include "sim/seeds.h"

#define ROUND_OPS 20000u
#define ROUND_OPS_LONG 60000u /* in a campaign: leases of seconds come to their end */
#define KILL_OPS 4000u        /* one kill for so many */
#define ROUND_TERMS 1u
#define CLIENTS 12u
#define DEATH_NS 3000000u /* a death comes at a random moment of so long */

static struct {
    uint64_t rounds, ops, kills, terms, stops, cuts, deaf, snapshots, unknown;
    uint64_t codes[TN_R_COUNT];
} total;

static void totals_add(const struct nm_load *load) {
    total.rounds++;
    total.ops += load->history.op_count;
    total.kills += load->done.kills;
    total.terms += load->done.terms;
    total.stops += load->done.stops;
    total.cuts += load->done.cuts;
    total.deaf += load->done.deaf;
    total.snapshots += load->done.snapshots;
    total.unknown += load->done.unknown;
    for (uint32_t i = 0; i < load->history.op_count; i++) {
        const struct nm_op *op = &load->history.ops[i];
        total.codes[op->code] += op->outcome == NM_COMMITTED;
    }
}

static void totals_tell(uint64_t ns) {
    fprintf(stderr,
            "%" PRIu64 " rounds, %" PRIu64 " operations (%" PRIu64 " lost their answer), %" PRIu64
            " kills, %" PRIu64 " clean ends, %" PRIu64 " stops, %" PRIu64 " cuts, %" PRIu64
            " deaf clients, %" PRIu64 " snapshots, %.1f s: %.1f million operations an hour\n",
            total.rounds, total.ops, total.unknown, total.kills, total.terms, total.stops,
            total.cuts, total.deaf, total.snapshots, (double)ns / 1e9,
            (double)total.ops * 3600.0 / 1e6 / ((double)ns / 1e9));
    /* The counts show whether the generator still reaches every code. */
    for (uint32_t i = 0; i < TN_R_COUNT; i++) {
        if (total.codes[i] > 0) {
            fprintf(stderr, "  %s %" PRIu64, tn_result_name((enum tn_result)i), total.codes[i]);
        }
    }
    fprintf(stderr, "\n");
}

/* Deaths are spread over the operations, each at a random moment, most of them by kill -9. */
static bool play(struct nm_load *load, uint64_t seed, uint32_t ops) {
    struct nm_options options = {.seed = seed, .clients = CLIENTS, .kill_starts = true};
    const uint32_t deaths = ops / KILL_OPS + ROUND_TERMS;
    bool good = nm_load_open(load, &options);
    uint32_t term = (uint32_t)tn_prng_below(&load->random, deaths);
    for (uint32_t i = 0; i < deaths && good; i++) {
        good = nm_load_run(load, (i + 1) * (ops / (deaths + 1)));
        bool gently = i >= term && load->done.terms < ROUND_TERMS && !load->snapshot_taken;
        good = good && nm_load_death(load, tn_prng_below(&load->random, DEATH_NS),
                                     gently ? SIGTERM : SIGKILL);
    }
    good = good && nm_load_run(load, ops) && nm_load_finish(load);
    if (!good) {
        nm_history_keep(&load->history, load->why);
        fprintf(stderr, "its directory is %s\n", load->process.dir);
    }
    totals_add(load);
    return good;
}

/* ---- Tests ---- */

static void a_history_is_linearizable_by_both_judges(void **state) {
    (void)state;
    struct nm_load *load = malloc(sizeof *load);
    assert_non_null(load);
    uint64_t start = nm_now_ns();
    bool good =
        play(load, seeds_number("TENURE_SEED", 20250601), ROUND_OPS) && nm_judge(&load->history);
    nm_load_close(load);
    free(load);
    totals_tell(nm_now_ns() - start);
    assert_true(good);
}

static void histories_are_linearizable_for_as_long_as_asked(void **state) {
    (void)state;
    struct nm_load *load = malloc(sizeof *load);
    assert_non_null(load);
    uint64_t seed = seeds_number("TENURE_SEED", 1), start = nm_now_ns();
    uint64_t end = start + seeds_number("TENURE_SECONDS", 0) * 1000000000u;
    pid_t judge_id = 0;
    bool good = true;
    while (good && nm_now_ns() < end) {
        good = play(load, seed++, ROUND_OPS_LONG);
        good = nm_judge_wait(&judge_id) && good;
        if (good) {
            judge_id = nm_judge_begin(&load->history);
        }
        nm_load_close(load);
    }
    good = nm_judge_wait(&judge_id) && good;
    free(load);
    totals_tell(nm_now_ns() - start);
    assert_true(good);
}

static void a_kept_history_is_linearizable(void **state) {
    (void)state;
    assert_true(nm_judge_kept());
}

int main(void) {
    const struct CMUnitTest one[] = {cmocka_unit_test(a_history_is_linearizable_by_both_judges)};
    const struct CMUnitTest many[] = {
        cmocka_unit_test(histories_are_linearizable_for_as_long_as_asked)};
    const struct CMUnitTest again[] = {cmocka_unit_test(a_kept_history_is_linearizable)};
    if (getenv("TENURE_HISTORY") != NULL) {
        return cmocka_run_group_tests(again, NULL, NULL);
    }
    return getenv("TENURE_SECONDS") != NULL ? cmocka_run_group_tests(many, NULL, NULL)
                                            : cmocka_run_group_tests(one, NULL, NULL);
}
