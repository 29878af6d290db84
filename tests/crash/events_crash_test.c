/* Events through crashes: whatever happens to the machine, the events that can be read afterwards
 * are those that happened, in order, and a reader that misses some learns that.
 *
 * A run is a few lives of one machine. Each opens the engine, does random things with many events,
 * takes snapshots, and ends by a power cut, by a failure at a random call, or cleanly. The listener
 * gets every event when it happens or when a replay makes it again: that is the reference. */
#include "unit/unit.h"

#include "engine/events.h"
#include "lib/enginekit.h"
#include "lib/fakeos.h"

#define LIVES 4u
#define STEPS 60u

struct fact {
    struct engine_event_id id;
    uint64_t digest;
};

struct run {
    struct fakeos *machine;
    struct tn_prng random;
    uint64_t events_max;
    struct fact *facts; /* everything that ever happened */
    size_t count, capacity;
    struct engine *engine;
    struct ekit_command command;
    struct ekit_answer answer;
    struct kernel_result lease; /* to be released */
    size_t position;            /* of the reader: how many facts it has passed */
    bool found;                 /* the reader has seen an event */
    bool lost;                  /* the reader has just been told of a hole */
};

static struct fact fact_of(const struct engine_event *event) {
    return (struct fact){.id = {event->fact.lsn, event->fact.index},
                         .digest = ekit_event_digest(event)};
}

static void assert_same(const struct fact *a, const struct fact *b) {
    assert_int_equal(engine_event_id_compare(a->id, b->id), 0);
    assert_true(a->digest == b->digest);
}

/* New, or one that was heard before. */
static void hear(void *ctx, const struct engine_event *event) {
    struct run *run = ctx;
    struct fact fact = fact_of(event);
    if (run->count == 0 || engine_event_id_compare(fact.id, run->facts[run->count - 1].id) > 0) {
        if (run->count == run->capacity) {
            run->capacity = run->capacity == 0 ? 1024 : run->capacity * 2;
            run->facts = realloc(run->facts, run->capacity * sizeof *run->facts);
            assert_non_null(run->facts);
        }
        run->facts[run->count++] = fact;
        return;
    }
    size_t i = run->count;
    while (i > 0 && engine_event_id_compare(run->facts[i - 1].id, fact.id) > 0) {
        i--;
    }
    assert_true(i > 0);
    assert_same(&fact, &run->facts[i - 1]);
}

/* ---- Reading all of it ---- */

static bool see(void *ctx, const struct engine_event *event) {
    struct run *run = ctx;
    struct fact fact = fact_of(event);
    size_t before = run->position;
    while (run->position < run->count &&
           engine_event_id_compare(run->facts[run->position].id, fact.id) < 0) {
        run->position++;
    }
    assert_true(run->position < run->count);
    assert_same(&fact, &run->facts[run->position]);
    run->lost = run->lost || (run->found && run->position > before);
    run->found = true;
    run->position++;
    return true;
}

/* Reads in steps of random sizes from the oldest event to the newest. Skipped events must be
 * reported as lost, and if no event may be missing, none is. */
static void read_all(struct run *run, bool all) {
    if (run->events_max == 0) {
        return;
    }
    struct engine_events_span span = {0};
    struct engine_event_id after = ENGINE_EVENTS_OLDEST;
    run->position = 0;
    run->found = false;
    do {
        uint32_t max = 1 + unit_below(&run->random, 100);
        run->lost = false;
        assert_int_equal(engine_events_read(run->engine, after, max, see, run, &span), TN_R_OK);
        assert_true(!run->lost || span.lost);
        assert_true(!all || !span.lost);
        assert_true(!span.more || engine_event_id_compare(span.next, after) > 0);
        after = span.next;
    } while (span.more);
    if (all) {
        assert_int_equal(run->found ? run->position : 0, run->count);
        struct engine_stats stats;
        engine_stats_read(run->engine, &stats);
        assert_true(stats.events_kept >=
                    (run->count < run->events_max ? run->count : run->events_max));
        assert_true(stats.events_kept <= run->events_max + 2 * 64);
    }
}

/* ---- Lives ---- */

static void run_options(struct run *run, struct engine_options *options,
                        struct log_local_options *local) {
    *options = (struct engine_options){
        .os = fakeos_table(run->machine),
        .no_threads = true,
        .snapshot_bytes = UINT64_MAX,
        .no_snapshot_at_close = unit_below(&run->random, 2) == 0,
        .event = hear,
        .event_ctx = run,
        .replay_events = true,
        .events_max = run->events_max,
        .max_downtime_ms = UINT64_MAX / 2,
    };
    *local =
        (struct log_local_options){.dir = "data", .segment_bytes = 64 << 10, .no_background = true};
    ekit_limits_small(options);
    if (unit_below(&run->random, 4) == 0) {
        local->use_older_snapshot = true;
    }
}

static void step(struct run *run) {
    struct log_error error;
    char holder[16];
    (void)snprintf(holder, sizeof holder, "h%u", unit_below(&run->random, 100));
    switch (unit_below(&run->random, 12)) {
    case 0:
        (void)engine_snapshot(run->engine, &error);
        break;
    case 1: /* everything expires: many events of few commands */
        fakeos_clock_advance(run->machine, 60000);
        (void)engine_tick(run->engine);
        break;
    case 2:
        (void)ekit_run(run->engine, ekit_release(&run->command, &run->lease, "a"), &run->answer);
        break;
    case 3: /* time without events */
        fakeos_clock_advance(run->machine, 1);
        (void)engine_tick(run->engine);
        break;
    default:
        for (unsigned i = 0; i < 12; i++) {
            (void)ekit_run(run->engine,
                           ekit_alloc(&run->command, "p", i == 0 ? "a" : holder, 1, NULL),
                           &run->answer);
            if (i == 0 && run->answer.result.code == TN_R_OK) {
                run->lease = run->answer.result;
            }
        }
    }
}

/* False: it could not be opened, which a fault may cause. */
static bool life_begin(struct run *run) {
    struct engine_options options;
    struct log_local_options local;
    struct log_error error;
    size_t count = run->count; /* events of a start that fails may turn out not to have happened */
    run_options(run, &options, &local);
    enum tn_status status = ekit_try_local(&options, &local, &run->engine, &error);
    if (status == TN_NOTFOUND || (status != TN_OK && local.use_older_snapshot)) {
        local.use_older_snapshot = false; /* there was none */
        run->count = count;
        status = ekit_try_local(&options, &local, &run->engine, &error);
    }
    if (status != TN_OK) {
        run->count = count;
    } else {
        (void)ekit_run(run->engine, ekit_pool(&run->command, "p", 1, 5000, 60), &run->answer);
    }
    return status == TN_OK;
}

static void life_live(struct run *run) {
    for (unsigned i = 0; i < STEPS; i++) {
        step(run);
    }
    (void)engine_close(run->engine);
    run->engine = NULL;
}

enum ending { CUT, FAILURE };

/* One bound for all lives; where events may be missing, another for each, or none are kept. */
static void choose_bound(struct run *run, enum ending ending, unsigned life) {
    static const uint64_t bounds[] = {64, 100, 300, 1000, 0};
    if (life == 0 || ending == FAILURE) {
        run->events_max = bounds[unit_below(&run->random, ending == FAILURE ? 5 : 4)];
    }
}

static void plan(struct run *run, enum ending ending, uint32_t calls) {
    uint64_t call = fakeos_calls(run->machine) + 1 + unit_below(&run->random, calls);
    if (ending == CUT) {
        fakeos_cut_call(run->machine, call);
    } else {
        fakeos_fail_call(run->machine, call, unit_below(&run->random, 2) == 0 ? TN_IO : TN_NOSPACE);
    }
}

static void run_lives(uint64_t seed, enum ending ending) {
    static struct run run;
    run = (struct run){.machine = fakeos_new(seed)};
    tn_prng_seed(&run.random, seed);
    for (unsigned life = 0; life < LIVES; life++) {
        choose_bound(&run, ending, life);
        bool early = unit_below(&run.random, 4) == 0; /* while it starts */
        if (early) {
            plan(&run, ending, 200);
        }
        if (life_begin(&run)) {
            if (!early) {
                read_all(&run, ending == CUT);
                plan(&run, ending, 1500);
            }
            life_live(&run);
        }
        fakeos_fail_call(run.machine, 0, TN_OK);
        fakeos_cut_call(run.machine, 0);
        if (unit_below(&run.random, 3) == 0) {
            fakeos_restart(run.machine);
        } else {
            fakeos_reboot(run.machine);
        }
    }
    assert_true(life_begin(&run));
    read_all(&run, ending == CUT);
    assert_true(engine_close(run.engine));
    fakeos_free(run.machine);
    free(run.facts);
}

static void after_a_power_cut_no_event_is_missing(void **state) {
    (void)state;
    struct tn_prng random = unit_random();
    for (unsigned i = 0; i < 40; i++) {
        run_lives(tn_prng_next(&random), CUT);
    }
}

static void after_a_failure_missing_events_are_told(void **state) {
    (void)state;
    struct tn_prng random = unit_random();
    for (unsigned i = 0; i < 40; i++) {
        run_lives(tn_prng_next(&random), FAILURE);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(after_a_power_cut_no_event_is_missing),
        cmocka_unit_test(after_a_failure_missing_events_are_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
