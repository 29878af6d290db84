/* Tests of the judges: good histories are accepted, and each violation that is put into a history
 * is detected by the judges that can see it.
 *
 * The history is recorded for the occasion, from a real server that is killed; TENURE_SEED makes
 * another one, TENURE_TRIES puts each violation in that many places. */
#include <inttypes.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
/* cmocka wants the headers above first */
#include <cmocka.h>
#include <stdio.h>
#include <unistd.h>

#include "nemesis/check.h"
#include "nemesis/nm_load.h"
#include "nemesis/violate.h"

#define OPS 2500u
#define KILLS 2u

static struct nm_history good;

static uint64_t number_from(const char *name, uint64_t standard) {
    const char *text = getenv(name);
    return text != NULL ? strtoull(text, NULL, 0) : standard;
}

static int record(void **state) {
    (void)state;
    struct nm_options options = {.seed = number_from("TENURE_SEED", 7), .clients = 8};
    struct nm_load *load = malloc(sizeof *load);
    assert_non_null(load);
    bool done = nm_load_open(load, &options);
    for (uint32_t i = 0; i < KILLS && done; i++) {
        done = nm_load_run(load, (i + 1) * OPS / (KILLS + 1)) && nm_load_death(load, 0, SIGKILL);
    }
    done = done && nm_load_run(load, OPS) && nm_load_finish(load);
    if (!done) {
        fprintf(stderr, "%s\n", load->why);
    }
    nm_history_copy(&load->history, &good);
    nm_load_close(load);
    free(load);
    return done ? 0 : -1;
}

static int forget(void **state) {
    (void)state;
    nm_history_free(&good);
    return 0;
}

static void a_good_history_is_accepted(void **state) {
    (void)state;
    struct nm_report report = {.why = ""};
    bool by_log = nm_check_log(&good, &report);
    bool by_search = nm_check_search(&good, &report);
    if (!by_log || !by_search) {
        fail_msg("seed %" PRIu64 ": %s", good.seed, report.why);
    }
    assert_true(report.answers > OPS / 2 && report.reads > OPS / 20);
    assert_true(report.searched > OPS / 4 && report.refusals > 0);
}

static void a_history_survives_its_file(void **state) {
    (void)state;
    char path[] = "/tmp/tenure-nemesis-file-XXXXXX";
    struct nm_history again;
    int file = mkstemp(path);
    assert_true(file >= 0);
    (void)close(file);
    assert_true(nm_history_save(&good, path));
    assert_true(nm_history_load(&again, path));
    (void)unlink(path);
    assert_int_equal(again.op_count, good.op_count);
    assert_memory_equal(again.ops, good.ops, good.op_count * sizeof good.ops[0]);
    assert_memory_equal(again.entries, good.entries, good.entry_count * sizeof good.entries[0]);
    assert_memory_equal(again.bytes, good.bytes, good.byte_count);
    assert_memory_equal(again.lives, good.lives, good.life_count * sizeof good.lives[0]);
    nm_history_free(&again);
}

/* Puts the violation somewhere and asks the judges; false: there was no place for it. */
static bool violation_try(const struct nm_violation *v, struct tn_prng *random) {
    struct nm_history h;
    struct nm_report report = {.why = ""};
    nm_history_copy(&good, &h);
    bool put = v->put(&h, random);
    if (put && v->by_log && nm_check_log(&h, &report)) {
        fail_msg("seed %" PRIu64 ": \"%s\" is not seen by the log", good.seed, v->name);
    }
    if (put && v->by_search && nm_check_search(&h, &report)) {
        fail_msg("seed %" PRIu64 ": \"%s\" is not seen by the search", good.seed, v->name);
    }
    nm_history_free(&h);
    return put;
}

static void every_violation_is_seen(void **state) {
    (void)state;
    struct tn_prng random;
    uint64_t tries = number_from("TENURE_TRIES", 1);
    tn_prng_seed(&random, good.seed);
    for (uint32_t i = 0; i < nm_violation_count; i++) {
        uint32_t seen = 0;
        for (uint64_t n = 0; n < tries; n++) {
            seen += violation_try(&nm_violations[i], &random);
        }
        fprintf(stderr, "  %-50s %s%s %" PRIu32 "\n", nm_violations[i].name,
                nm_violations[i].by_log ? "log" : "", nm_violations[i].by_search ? ", search" : "",
                seen);
        if (seen == 0) {
            fail_msg("seed %" PRIu64 ": no place for \"%s\"", good.seed, nm_violations[i].name);
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_good_history_is_accepted),
        cmocka_unit_test(a_history_survives_its_file),
        cmocka_unit_test(every_violation_is_seen),
    };
    return cmocka_run_group_tests(tests, record, forget);
}
