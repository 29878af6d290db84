/* Every call to the operating system fails once, and the power goes during every one of them.
 *
 * A life: open, work, snapshot, work, close, with no threads, so that call n is the same in every
 * run. For each n the life is lived with a fault at call n; once on an empty disk, and once on one
 * that an earlier life left when it died, so that faults hit recovery, too. Whatever the fault:
 * nothing crashes, an OK is an OK for ever, a write that was surely rejected never shows, a halted
 * engine stays halted, and the next life finds a sound state that continues. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "lib/enginekit.h"
#include "lib/fakeos.h"

#define WRITES 24u

/* What one write was answered. */
struct heard {
    bool asked;
    enum tn_result code;
    enum tn_outcome outcome;
    uint64_t lsn;
    uint64_t value;
};

struct life {
    struct fakeos *machine;
    struct heard pool;
    struct heard writes[WRITES];
    unsigned done; /* writes of earlier lives */
    bool opened;
    bool closed_well;
    uint64_t segments; /* when it closed */
    struct ekit_command command;
    struct ekit_answer answer;
};

static const struct log_local_options LOCAL = {
    .dir = "data", .segment_bytes = 64 << 10, .no_background = true};

static void life_options(const struct life *life, struct engine_options *options) {
    *options = (struct engine_options){
        .os = fakeos_table(life->machine),
        .no_threads = true,
        .snapshot_bytes = UINT64_MAX,
        .events_max = 64, /* the store's files fail like all others */
    };
    ekit_limits_small(options);
}

static void life_note(struct life *life, struct heard *heard) {
    const struct kernel_result *result = &life->answer.result;
    *heard = (struct heard){.asked = true,
                            .code = result->code,
                            .outcome = engine_outcome(result),
                            .lsn = result->lsn,
                            .value = result->value_count > 0 ? life->answer.values[0].number : 0};
}

/* Each write is an allocation with an operation id, and long, so that segments fill up. */
static const struct ekit_command *life_write(struct life *life, unsigned n) {
    char holder[32];
    char opid[32];
    (void)snprintf(holder, sizeof holder, "holder/%u", n);
    (void)snprintf(opid, sizeof opid, "write-%u", n);
    return ekit_alloc_large(&life->command, "p", holder, 10, opid, 4000);
}

static void life_write_some(struct life *life, struct engine *engine, unsigned from, unsigned to) {
    for (unsigned n = from; n < to; n++) {
        (void)ekit_run(engine, life_write(life, n), &life->answer);
        life_note(life, &life->writes[n]);
    }
}

/* One life with whatever fault has been planned; returns whether it opened. */
static void life_live(struct life *life) {
    struct engine_options options;
    struct engine *engine;
    struct log_error error;
    life_options(life, &options);
    enum tn_status status = ekit_try_local(&options, &LOCAL, &engine, &error);
    life->opened = status == TN_OK;
    if (!life->opened) {
        assert_true(strlen(error.text) > 0);
        return;
    }
    if (life->done == 0) {
        (void)ekit_run(engine, ekit_pool(&life->command, "p", 1, 1000, 3600), &life->answer);
        life_note(life, &life->pool);
    }
    unsigned middle = (life->done + WRITES) / 2;
    life_write_some(life, engine, life->done, middle);
    (void)engine_snapshot(engine, &error);
    life_write_some(life, engine, middle, WRITES);
    struct engine_stats stats;
    engine_stats_read(engine, &stats);
    life->segments = stats.log.segments;
    life->closed_well = engine_close(engine);
}

/* Once halted, halted. */
static void life_check_halting(const struct life *life) {
    bool halted = false;
    for (unsigned n = 0; n < WRITES; n++) {
        const struct heard *heard = &life->writes[n];
        if (!heard->asked) {
            continue;
        }
        assert_true(!halted || heard->code == TN_R_HALTED);
        halted = halted || heard->code == TN_R_HALTED;
        if (heard->code != TN_R_HALTED && life->pool.code == TN_R_OK) {
            assert_true(heard->code == TN_R_OK || heard->code == TN_R_NOSPACE);
        }
    }
}

/* The next life: everything that was answered OK is present; rejected operations are not; an
 * unknown operation may be either, and repeating it settles which. */
static void life_check_next(struct life *life) {
    struct engine_options options;
    life_options(life, &options);
    struct engine *engine = ekit_open_local(&options, &LOCAL);
    ekit_check(engine);
    if (life->pool.asked && life->pool.code == TN_R_OK) {
        assert_int_equal(
            ekit_run(engine, ekit_pool(&life->command, "p", 1, 1000, 3600), &life->answer),
            TN_R_NOOP);
    } else {
        (void)ekit_run(engine, ekit_pool(&life->command, "p", 1, 1000, 3600), &life->answer);
    }
    for (unsigned n = 0; n < WRITES; n++) {
        const struct heard *heard = &life->writes[n];
        ekit_run_ok(engine, life_write(life, n), &life->answer);
        const struct kernel_result *now = &life->answer.result;
        if (heard->asked && heard->code == TN_R_OK) {
            assert_true(now->replayed);
            assert_int_equal(now->lsn, heard->lsn);
            assert_int_equal(life->answer.values[0].number, heard->value);
        } else if (!heard->asked || heard->outcome == TN_REJECTED) {
            assert_false(now->replayed);
        }
    }
    ekit_check(engine);
    uint64_t hash = ekit_hash(engine);
    assert_true(engine_close(engine));
    engine = ekit_open_local(&options, &LOCAL);
    assert_true(ekit_hash(engine) == hash);
    assert_true(engine_close(engine));
}

/* On an empty disk, or on the disk that `before` left. */
static struct life *life_new(uint64_t seed, const struct life *before) {
    struct life *life = calloc(1, sizeof *life);
    assert_non_null(life);
    if (before == NULL) {
        life->machine = fakeos_new(seed);
    } else {
        *life = *before;
        life->machine = fakeos_copy(before->machine, seed);
    }
    return life;
}

static void life_free(struct life *life) {
    fakeos_free(life->machine);
    free(life);
}

/* An earlier life that ended when the process died: a snapshot, and later writes of which the last
 * is not marked as synced. */
static struct life *life_before(void) {
    struct life *life = life_new(5, NULL);
    struct engine_options options;
    struct log_error error;
    life_options(life, &options);
    struct engine *engine = ekit_open_local(&options, &LOCAL);
    ekit_run_ok(engine, ekit_pool(&life->command, "p", 1, 1000, 3600), &life->answer);
    life_note(life, &life->pool);
    life_write_some(life, engine, 0, 5);
    assert_int_equal(engine_snapshot(engine, &error), TN_OK);
    life_write_some(life, engine, 5, 8);
    life->done = 8;
    fakeos_cut_call(life->machine, fakeos_calls(life->machine) + 1);
    (void)engine_close(engine);
    fakeos_restart(life->machine);
    return life;
}

/* How many calls a life without faults makes. */
static uint64_t life_calls(const struct life *before) {
    struct life *life = life_new(1, before);
    life_live(life);
    assert_true(life->opened && life->closed_well);
    for (unsigned n = 0; n < WRITES; n++) {
        assert_int_equal(life->writes[n].code, TN_R_OK);
    }
    uint64_t calls = fakeos_calls(life->machine);
    assert_true(life->segments >= 2); /* faults hit the change of segments, too */
    fakeos_restart(life->machine);
    life_check_next(life);
    life_free(life);
    return calls;
}

/* Three ways on: with what the cache shows, without it, and with it until it has been served. */
static void life_go_on(struct life *life, uint64_t which) {
    struct engine_options options;
    struct log_error error;
    struct engine *engine;
    if (which % 3 == 0) {
        fakeos_restart(life->machine);
        life_check_next(life);
        return;
    }
    if (which % 3 == 1) {
        fakeos_restart(life->machine);
        life_options(life, &options);
        assert_int_equal(ekit_try_local(&options, &LOCAL, &engine, &error), TN_OK);
        fakeos_cut_call(life->machine, fakeos_calls(life->machine) + 1);
        (void)engine_close(engine);
    }
    fakeos_reboot(life->machine);
    life_check_next(life);
}

static void fail_calls(const struct life *before, enum tn_status fault) {
    uint64_t calls = life_calls(before);
    for (uint64_t call = 1; call <= calls; call++) {
        struct life *life = life_new(call, before);
        fakeos_fail_call(life->machine, call, fault);
        life_live(life);
        life_check_halting(life);
        fakeos_fail_call(life->machine, 0, TN_OK);
        life_go_on(life, call);
        life_free(life);
    }
}

static void fail_every_call(enum tn_status fault) {
    struct life *before = life_before();
    fail_calls(NULL, fault);
    fail_calls(before, fault);
    life_free(before);
}

static void an_error_of_any_call_loses_no_answer(void **state) {
    (void)state;
    fail_every_call(TN_IO);
}

static void a_full_disk_at_any_call_loses_no_answer(void **state) {
    (void)state;
    fail_every_call(TN_NOSPACE);
}

static void no_descriptor_at_any_call_loses_no_answer(void **state) {
    (void)state;
    fail_every_call(TN_NOMEM);
}

static void a_refusal_of_any_call_loses_no_answer(void **state) {
    (void)state;
    fail_every_call(TN_DENIED);
}

/* From this call on every call fails; then the power fails, or the disk works again. */
static void end_calls(const struct life *before) {
    uint64_t calls = life_calls(before);
    for (uint64_t call = 1; call <= calls; call++) {
        struct life *life = life_new(1000 + call, before);
        fakeos_cut_call(life->machine, call);
        life_live(life);
        life_check_halting(life);
        life_go_on(life, call);
        life_free(life);
    }
}

static void the_end_at_any_call_loses_no_answer(void **state) {
    struct life *before = life_before();
    (void)state;
    end_calls(NULL);
    end_calls(before);
    life_free(before);
}

/* Memory is reserved when a life begins: without it, it does not, and says why; nothing is harmed. */
static void memory_that_is_refused_harms_nothing(void **state) {
    struct life *before = life_before();
    (void)state;
    uint64_t n = 0;
    uint64_t reserved = 0;
    do {
        n += 1;
        struct life *life = life_new(n, before);
        struct engine_options options;
        struct engine *engine;
        struct log_error error = {{0}};
        fakeos_fail_memory(life->machine, n);
        life_options(life, &options);
        enum tn_status status = ekit_try_local(&options, &LOCAL, &engine, &error);
        reserved = fakeos_reservations(life->machine);
        assert_int_equal(status, n <= reserved ? TN_NOMEM : TN_OK);
        assert_true(status == TN_OK || error.text[0] != '\0');
        if (status == TN_OK) {
            (void)engine_close(engine);
        }
        fakeos_fail_memory(life->machine, 0);
        life_go_on(life, n);
        life_free(life);
    } while (n <= reserved);
    assert_true(n > 10);
    life_free(before);
}

/* For any amount of free room: writes that do not fit are refused, and writing continues when there
 * is room. */
static void any_room_that_is_left_is_enough_for_nothing_but_refusals(void **state) {
    (void)state;
    for (uint64_t room = 0; room < 200000; room += 3500) {
        struct life *life = life_new(room, NULL);
        fakeos_space_set(life->machine, room);
        life_live(life);
        life_check_halting(life);
        fakeos_space_set(life->machine, UINT64_MAX);
        life_go_on(life, room / 3500);
        life_free(life);
    }
}

/* A full disk refuses writes, keeps answering reads, and continues when there is room. */
static void a_disk_that_fills_up_recovers_by_itself(void **state) {
    struct life *life = life_new(7, NULL);
    struct engine_options options;
    struct engine_lease lease;
    (void)state;
    life_options(life, &options);
    struct engine *engine = ekit_open_local(&options, &LOCAL);
    ekit_run_ok(engine, ekit_pool(&life->command, "p", 1, 100000, 3600), &life->answer);
    ekit_run_ok(engine, life_write(life, 0), &life->answer);
    struct kernel_lease_id id = life->answer.result.lease;
    fakeos_space_set(life->machine, fakeos_space_used(life->machine));
    enum tn_result code = TN_R_OK;
    for (unsigned n = 1; code == TN_R_OK; n++) {
        code = ekit_run(engine, life_write(life, n), &life->answer);
        assert_true(n < 10000);
    }
    assert_int_equal(code, TN_R_NOSPACE);
    assert_int_equal(engine_lease_read(engine, ENGINE_READ_CURRENT, id, &lease), TN_R_OK);
    fakeos_space_set(life->machine, UINT64_MAX);
    ekit_run_ok(engine, life_write(life, 20000), &life->answer);
    uint64_t hash = ekit_hash(engine);
    assert_true(engine_close(engine));
    engine = ekit_open_local(&options, &LOCAL);
    assert_true(ekit_hash(engine) == hash);
    assert_true(engine_close(engine));
    life_free(life);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_error_of_any_call_loses_no_answer),
        cmocka_unit_test(a_full_disk_at_any_call_loses_no_answer),
        cmocka_unit_test(no_descriptor_at_any_call_loses_no_answer),
        cmocka_unit_test(a_refusal_of_any_call_loses_no_answer),
        cmocka_unit_test(the_end_at_any_call_loses_no_answer),
        cmocka_unit_test(memory_that_is_refused_harms_nothing),
        cmocka_unit_test(any_room_that_is_left_is_enough_for_nothing_but_refusals),
        cmocka_unit_test(a_disk_that_fills_up_recovers_by_itself),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
