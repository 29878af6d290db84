/* Crashes of the local log: the power goes, the process dies or a call fails, at every call there is.
 *
 * A workload of appends, rotations, idle moments, snapshots, closes and reopens runs over and over
 * on a fake disk, and each time another call is hit. After each, the log must come back with every
 * acknowledged batch, in order, and nothing invented; what it gave back once it must give back
 * forever. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/assert.h"
#include "lib/fakeos.h"
#include "lib/logmodel.h"

#define SEGMENT_BYTES (64u << 10)

struct machine {
    struct fakeos *fake;
    struct logmodel model;
    struct log_local_options options;
    struct log *log; /* NULL: not running */
};

static void machine_init(struct machine *m, uint64_t seed) {
    memset(m, 0, sizeof *m);
    m->fake = fakeos_new(seed);
    fakeos_physical_set(m->fake, 4096);
    logmodel_init(&m->model, seed);
    m->options = (struct log_local_options){.os = fakeos_table(m->fake),
                                            .dir = "/data",
                                            .segment_bytes = SEGMENT_BYTES,
                                            .no_background = true};
}

static void machine_free(struct machine *m) {
    if (m->log != NULL) {
        m->log->verbs->close(m->log);
    }
    logmodel_free(&m->model);
    fakeos_free(m->fake);
}

static enum tn_status machine_start(struct machine *m) {
    struct log_error error;
    enum tn_status status = logmodel_open(&m->model, &m->options, &m->log, &error);
    if (status != TN_OK) {
        m->log = NULL;
        /* Whatever a crash leaves behind is never taken for damage. */
        assert_true(status != TN_CORRUPT && status != TN_VERSION && status != TN_LOCKED);
    }
    return status;
}

static void machine_must_start(struct machine *m) {
    struct log_error error;
    enum tn_status status = logmodel_open(&m->model, &m->options, &m->log, &error);
    if (status != TN_OK) {
        fail_msg("cannot recover: %s: %s", tn_status_name(status), error.text);
    }
    TN_ASSERT(m->log != NULL);
}

static void machine_stop(struct machine *m) {
    if (m->log != NULL) {
        m->log->verbs->close(m->log);
        m->log = NULL;
    }
}

/* Appends until the first failure, as the engine would. */
static bool work_append(struct machine *m, unsigned n, uint32_t len_max) {
    return logmodel_append_many(&m->model, m->log, n, len_max) == TN_OK;
}

/* Two lives with everything a log does; ends early when something fails. */
static void work(struct machine *m) {
    for (unsigned life = 0; life < 2; life++) {
        if (m->log == NULL && machine_start(m) != TN_OK) {
            return;
        }
        if (!work_append(m, 3, 2000)) {
            return;
        }
        m->log->verbs->idle(m->log);
        if (!work_append(m, 2, 100) || !work_append(m, 4, 57000)) {
            return;
        }
        if (logmodel_snapshot(&m->model, m->log) != TN_OK || !work_append(m, 4, 50000)) {
            return;
        }
        if (logmodel_snapshot(&m->model, m->log) != TN_OK || !work_append(m, 3, 50000)) {
            return;
        }
        if (life == 0) {
            machine_stop(m);
        }
    }
}

static uint64_t work_calls(void) {
    struct machine m;
    machine_init(&m, 1);
    work(&m);
    uint64_t calls = fakeos_calls(m.fake);
    machine_free(&m);
    return calls;
}

/* After a crash: comes back, takes more, closes, comes back again. */
static void check_alive(struct machine *m) {
    machine_must_start(m);
    assert_true(work_append(m, 2, 3000));
    machine_stop(m);
    fakeos_reboot(m->fake);
    machine_must_start(m);
    machine_stop(m);
}

static void power_cut_at_every_call_loses_nothing_acknowledged(void **state) {
    (void)state;
    uint64_t calls = work_calls();
    for (uint64_t call = 1; call <= calls; call++) {
        for (uint64_t seed = 0; seed < 5; seed++) {
            struct machine m;
            machine_init(&m, call * 1000 + seed);
            fakeos_cut_call(m.fake, call);
            work(&m);
            machine_stop(&m);
            fakeos_reboot(m.fake);
            check_alive(&m);
            machine_free(&m);
        }
    }
}

static void power_cut_inside_recovery_loses_nothing_either(void **state) {
    (void)state;
    uint64_t calls = work_calls();
    for (uint64_t call = 1; call <= calls; call += 2) {
        /* The recovery is itself cut at each of its calls, on the same disk, again and again. */
        struct machine m;
        machine_init(&m, call * 77);
        fakeos_cut_call(m.fake, call);
        work(&m);
        machine_stop(&m);
        fakeos_reboot(m.fake);
        for (uint64_t step = 1; step < 200; step++) {
            fakeos_cut_call(m.fake, fakeos_calls(m.fake) + step);
            (void)machine_start(&m);
            bool whole = !fakeos_is_cut(m.fake);
            fakeos_cut_call(m.fake, 0);
            machine_stop(&m);
            if (whole) {
                break;
            }
            fakeos_reboot(m.fake);
        }
        check_alive(&m);
        machine_free(&m);
    }
}

/* The cache survives the death of a process and then is lost with the power: what was served after
 * the restart must have been made durable by it. */
static void what_a_restart_served_survives_the_next_power_cut(void **state) {
    (void)state;
    uint64_t calls = work_calls();
    for (uint64_t call = 1; call <= calls; call++) {
        for (uint64_t seed = 0; seed < 3; seed++) {
            struct machine m;
            machine_init(&m, call * 1000 + seed);
            fakeos_cut_call(m.fake, call);
            work(&m);
            machine_stop(&m);
            fakeos_restart(m.fake);
            machine_must_start(&m);
            fakeos_cut_call(m.fake, fakeos_calls(m.fake) + 1);
            machine_stop(&m);
            fakeos_reboot(m.fake);
            check_alive(&m);
            machine_free(&m);
        }
    }
}

static void one_failing_call_never_makes_a_false_promise(void **state) {
    (void)state;
    static const enum tn_status kinds[] = {TN_IO, TN_NOSPACE};
    uint64_t calls = work_calls();
    for (uint64_t call = 1; call <= calls; call++) {
        for (unsigned kind = 0; kind < 4; kind++) {
            struct machine m;
            machine_init(&m, call * 10 + kind);
            fakeos_fail_call(m.fake, call, kinds[kind % 2]);
            work(&m);
            machine_stop(&m);
            /* Both ways back: with what the cache still shows, and without it. */
            if (kind < 2) {
                fakeos_restart(m.fake);
                machine_must_start(&m);
                fakeos_cut_call(m.fake, fakeos_calls(m.fake) + 1);
                machine_stop(&m);
            }
            fakeos_reboot(m.fake);
            check_alive(&m);
            machine_free(&m);
        }
    }
}

static void status_keep(void *ctx, enum tn_status status) {
    *(enum tn_status *)ctx = status;
}

static void after_a_failed_sync_nothing_is_accepted(void **state) {
    (void)state;
    uint64_t calls = work_calls();
    for (uint64_t call = 1; call <= calls; call++) {
        struct machine m;
        machine_init(&m, call);
        fakeos_fail_call(m.fake, call, TN_IO);
        work(&m);
        bool in_append = m.log != NULL && m.model.count > m.model.acked;
        if (in_append) {
            /* The batch is in doubt, the log is dead, and stays so when the disk is well again. */
            uint64_t before = fakeos_calls(m.fake);
            struct log_batch again = m.model.batches[m.model.count - 1].batch;
            assert_int_equal(m.model.done_status, TN_IO);
            for (unsigned i = 0; i < 3; i++) {
                enum tn_status refused = TN_OK;
                m.log->verbs->append(m.log, &again, status_keep, &refused);
                assert_int_equal(refused, TN_IO);
            }
            assert_true(fakeos_calls(m.fake) == before);
            assert_false(m.log->verbs->close(m.log));
            m.log = NULL;
        }
        machine_free(&m);
    }
}

/* Crash, recover, write a little, crash: the disk must not fill up with half-empty segments. */
static void crashes_in_a_row_cost_what_they_wrote(void **state) {
    (void)state;
    struct machine m;
    machine_init(&m, 5);
    for (unsigned i = 0; i < 200; i++) {
        machine_must_start(&m);
        assert_true(work_append(&m, 1, 300));
        fakeos_cut_call(m.fake, fakeos_calls(m.fake) + 1);
        machine_stop(&m);
        fakeos_restart(m.fake);
    }
    assert_true(fakeos_space_used(m.fake) < 200 * 6000 + 4 * SEGMENT_BYTES);
    machine_must_start(&m);
    machine_free(&m);
}

static void a_crash_without_writes_between_changes_nothing(void **state) {
    (void)state;
    struct machine m;
    machine_init(&m, 6);
    machine_must_start(&m);
    assert_true(work_append(&m, 5, 3000));
    for (unsigned i = 0; i < 50; i++) {
        fakeos_cut_call(m.fake, fakeos_calls(m.fake) + 1);
        machine_stop(&m);
        if (i % 2 == 0) {
            fakeos_reboot(m.fake);
        } else {
            fakeos_restart(m.fake);
        }
        machine_must_start(&m);
    }
    assert_true(fakeos_file_count(m.fake, "/data", NULL) <= 5);
    assert_true(fakeos_space_used(m.fake) <= 4 * SEGMENT_BYTES);
    machine_free(&m);
}

/* From the older snapshot, if there is one that the log reaches down to; else in the usual way. */
static void machine_must_start_older(struct machine *m) {
    struct log_error error;
    m->options.use_older_snapshot = true;
    enum tn_status status = logmodel_open(&m->model, &m->options, &m->log, &error);
    m->options.use_older_snapshot = false;
    if (status != TN_OK) {
        m->log = NULL;
        assert_non_null(strstr(error.text, "start without --use-older-snapshot"));
        machine_must_start(m);
    }
}

/* Long random lives on one disk: many rotations and recyclings, crashes of all kinds between. */
static void long_lives_with_many_crashes(void **state) {
    (void)state;
    for (uint64_t seed = 0; seed < 12; seed++) {
        struct machine m;
        struct tn_prng prng;
        tn_prng_seed(&prng, seed);
        machine_init(&m, seed);
        for (unsigned life = 0; life < 40; life++) {
            if (tn_prng_below(&prng, 5) == 0) {
                machine_must_start_older(&m);
            } else {
                machine_must_start(&m);
            }
            uint64_t fate = fakeos_calls(m.fake) + 1 + tn_prng_below(&prng, 150);
            if (tn_prng_below(&prng, 4) > 0) {
                fakeos_cut_call(m.fake, fate);
            } else {
                fakeos_fail_call(m.fake, fate, TN_IO);
            }
            bool alive = true;
            for (unsigned step = 0; step < 30 && alive; step++) {
                switch (tn_prng_below(&prng, 8)) {
                case 0:
                    alive = logmodel_snapshot(&m.model, m.log) == TN_OK;
                    break;
                case 1:
                    // NOLINTNEXTLINE(clang-analyzer-core.NullDereference): it was opened above
                    m.log->verbs->idle(m.log);
                    break;
                case 2:
                    alive = work_append(&m, 1, 57000);
                    break;
                default:
                    alive = work_append(&m, 2, 4000);
                    break;
                }
            }
            machine_stop(&m);
            if (tn_prng_below(&prng, 3) == 0) {
                fakeos_restart(m.fake);
            } else {
                fakeos_reboot(m.fake);
            }
        }
        machine_must_start(&m);
        machine_free(&m);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(power_cut_at_every_call_loses_nothing_acknowledged),
        cmocka_unit_test(power_cut_inside_recovery_loses_nothing_either),
        cmocka_unit_test(what_a_restart_served_survives_the_next_power_cut),
        cmocka_unit_test(one_failing_call_never_makes_a_false_promise),
        cmocka_unit_test(after_a_failed_sync_nothing_is_accepted),
        cmocka_unit_test(crashes_in_a_row_cost_what_they_wrote),
        cmocka_unit_test(a_crash_without_writes_between_changes_nothing),
        cmocka_unit_test(long_lives_with_many_crashes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
