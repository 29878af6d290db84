/* The engine on a tape: allocations, releases, ticks, snapshots and its files of events; and a start
 * with it, after which state and events must be those of what the log held. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "crash/workload_state.h"
#include "engine/internal.h"
#include "lib/enginekit.h"

#define EVENTS_MAX 64u

static void engine_options_fill(struct engine_options *options, struct tape *tape) {
    *options = (struct engine_options){
        .os = tape_os(tape),
        .no_threads = true,
        .snapshot_bytes = UINT64_MAX,
        .max_downtime_ms = UINT64_MAX / 2,
        .events_max = EVENTS_MAX,
        .events_dir = WORKLOAD_DIR,
    };
    ekit_limits_small(options);
}

static struct workload_fact fact_of(const struct engine_event *event) {
    return (struct workload_fact){.id = {event->fact.lsn, event->fact.index},
                                  .digest = ekit_event_digest(event)};
}

/* A new event, or one that a start reports again. */
static void hear(void *ctx, const struct engine_event *event) {
    struct workload *work = ctx;
    struct workload_fact fact = fact_of(event);
    size_t count = work->fact_count;
    if (count > 0 && engine_event_id_compare(fact.id, work->facts[count - 1].id) <= 0) {
        return;
    }
    if (count == work->fact_capacity) {
        work->fact_capacity = count * 2 + 256;
        work->facts = realloc(work->facts, work->fact_capacity * sizeof *work->facts);
        TN_ASSERT(work->facts != NULL);
    }
    work->facts[count] = fact;
    work->fact_count += 1;
}

/* ---- A run ---- */

static void state_keep(struct workload *work, struct engine *engine) {
    uint64_t hash;
    uint64_t lsn;
    const struct ledger *ledger = &work->ledger;
    if (engine_hash(engine, &hash, &lsn) != TN_R_OK || lsn != ledger_lsn(ledger, ledger->acked)) {
        return;
    }
    if (work->state_count == work->state_capacity) {
        work->state_capacity = work->state_capacity * 2 + 64;
        work->states = realloc(work->states, work->state_capacity * sizeof *work->states);
        TN_ASSERT(work->states != NULL);
    }
    work->states[work->state_count] =
        (struct workload_state){.batches = ledger_hash(ledger, ledger->acked), .state = hash};
    work->state_count += 1;
}

static void engine_step(struct workload *work, struct engine *engine, struct tn_prng *prng) {
    static struct ekit_command command;
    static struct ekit_answer answer;
    struct log_error error;
    char holder[24];
    snprintf(holder, sizeof holder, "h%u", (unsigned)tn_prng_below(prng, 12));
    switch (tn_prng_below(prng, 10)) {
    case 0:
        (void)engine_snapshot(engine, &error);
        break;
    case 1:
        tape_clock_advance(work->tape, 1 + tn_prng_below(prng, 40000));
        (void)engine_tick(engine);
        break;
    case 2:
    case 3:
        for (unsigned i = 0; i < 6; i++) { /* fills segments */
            ekit_alloc_large(&command, "p", holder, 3, NULL, 4000);
            (void)ekit_run(engine, &command, &answer);
            state_keep(work, engine);
        }
        break;
    case 4:
        if (answer.result.code == TN_R_OK && answer.result.lease.lsn > 0) {
            struct kernel_result lease = answer.result;
            (void)ekit_run(engine, ekit_touch(&command, &lease, "{}"), &answer);
        }
        break;
    default:
        (void)ekit_run(engine, ekit_alloc(&command, "p", holder, 1, NULL), &answer);
        break;
    }
    state_keep(work, engine);
}

static void options_hear(struct engine_options *options, struct workload *work) {
    options->event = hear;
    options->event_ctx = work;
    options->replay_events = true;
}

/* The first one of all: what it logs by itself is in the ledger, too. */
static struct engine *engine_found(struct workload *work, struct log_error *error) {
    struct log_local_options local = workload_log_options(work->tape, false);
    struct engine_options options;
    struct engine *engine = NULL;
    engine_options_fill(&options, work->tape);
    options_hear(&options, work);
    if (ledger_spy(&work->ledger, work->tape, &local, &options.log, error) != TN_OK) {
        return NULL;
    }
    options.store = ledger_spy_store(options.log);
    return ekit_try(&options, &engine, error) == TN_OK ? engine : NULL;
}

/* A later one opens the log itself, as it does in real life; from then on the ledger is kept. */
static struct engine *engine_resume(struct workload *work, bool older, struct log_error *error) {
    struct engine_options options;
    struct engine *engine = NULL;
    struct ledger_result peek;
    struct log_local_options local = workload_log_options(work->tape, older);
    engine_options_fill(&options, work->tape);
    options_hear(&options, work);
    if (!workload_peek(&work->ledger, work->tape, &peek) || peek.loaded < work->ledger.acked) {
        snprintf(error->text, sizeof error->text, "%zu of %zu batches: %.400s", peek.loaded,
                 work->ledger.acked, peek.text);
        return NULL;
    }
    if (ekit_try_local(&options, &local, &engine, error) != TN_OK) {
        return NULL;
    }
    ledger_cut(&work->ledger, peek.loaded);
    (void)tape_note(work->tape, work->ledger.acked, ledger_tip(&work->ledger));
    engine->log = ledger_spy_on(&work->ledger, work->tape, engine->log);
    engine->store = ledger_spy_store(engine->log);
    return engine;
}

static struct engine *engine_start(struct workload *work, bool older, struct log_error *error) {
    if (work->ledger.acked == 0) {
        return engine_found(work, error);
    }
    struct engine *engine = engine_resume(work, older, error);
    if (engine == NULL && older && workload_older_may_fail(error->text)) {
        engine = engine_resume(work, false, error);
    }
    return engine;
}

void workload_engine_run(struct workload *work, struct tn_prng *prng) {
    static struct ekit_command command;
    static struct ekit_answer answer;
    unsigned lives = 2 + (unsigned)tn_prng_below(prng, 2);
    unsigned faulty = workload_faulty(work->kind) ? (unsigned)tn_prng_below(prng, lives) : lives;
    for (unsigned life = 0; life < lives; life++) {
        if (life == faulty) {
            workload_plan_failure(work->tape, prng);
        } else {
            workload_plan_death(work->tape, prng);
        }
        struct log_error error = {{0}};
        bool older = life > 0 && tn_prng_below(prng, 4) == 0;
        struct engine *engine = engine_start(work, older, &error);
        if (engine == NULL) {
            if (!tape_failed(work->tape)) {
                workload_wrong(work, error.text);
            }
            tape_restart(work->tape);
            continue;
        }
        state_keep(work, engine);
        (void)ekit_run(engine, ekit_pool(&command, "p", 1, 500, 30), &answer);
        state_keep(work, engine);
        unsigned steps = 5 + (unsigned)tn_prng_below(prng, 12);
        for (unsigned i = 0; i < steps; i++) {
            engine_step(work, engine, prng);
        }
        if (tn_prng_below(prng, 3) > 0) {
            tape_kill(work->tape);
        }
        (void)engine_close(engine);
        tape_restart(work->tape);
    }
}

/* ---- A start ---- */

struct reading {
    const struct workload *work;
    uint64_t lsn; /* it is not certain that later events were ever reported */
    size_t next;  /* fact that must come next, once the first has been found */
    bool found;
    bool wrong;
};

static bool see(void *ctx, const struct engine_event *event) {
    struct reading *reading = ctx;
    const struct workload *work = reading->work;
    struct workload_fact fact = fact_of(event);
    if (fact.id.lsn > reading->lsn) {
        return true;
    }
    while (!reading->found && reading->next < work->fact_count &&
           engine_event_id_compare(work->facts[reading->next].id, fact.id) < 0) {
        reading->next += 1;
    }
    reading->found = true;
    reading->wrong = reading->wrong || reading->next >= work->fact_count ||
                     engine_event_id_compare(work->facts[reading->next].id, fact.id) != 0 ||
                     work->facts[reading->next].digest != fact.digest;
    reading->next += 1;
    return !reading->wrong;
}

/* From the oldest retained event to the newest, none is missing and none differs. A disk that
 * failed may have cost some events; then the hole must be reported. */
static const char *events_wrong(const struct workload *work, struct engine *engine, uint64_t lsn) {
    struct reading reading = {.work = work, .lsn = lsn};
    struct engine_events_span span = {0};
    struct engine_event_id after = ENGINE_EVENTS_OLDEST;
    do {
        if (engine_events_read(engine, after, 1000, see, &reading, &span) != TN_R_OK) {
            return "the events cannot be read";
        }
        if (reading.wrong) {
            return workload_faulty(work->kind) ? NULL : "an event is missing or another";
        }
        after = span.next;
    } while (span.more);
    bool more = reading.next < work->fact_count && work->facts[reading.next].id.lsn <= lsn;
    if (more && !workload_faulty(work->kind)) {
        return "the last events are missing";
    }
    return NULL;
}

static const char *engine_wrong(const struct workload *work, struct engine *engine, uint64_t lsn,
                                const struct workload_result *result) {
    static char why[256];
    bool sound = false;
    uint64_t hash = 0;
    uint64_t at = 0;
    if (engine_check(engine, &sound, why, sizeof why) != TN_R_OK || !sound) {
        return why;
    }
    if (engine_hash(engine, &hash, &at) != TN_R_OK) {
        return "the state cannot be read";
    }
    for (size_t i = 0; i < work->state_count; i++) {
        if (work->states[i].batches == result->hash && work->states[i].state != hash) {
            return "the state is another than the one after these batches";
        }
    }
    return events_wrong(work, engine, lsn);
}

bool workload_engine_start(const struct workload *work, struct tape *tape, struct ledger *ledger,
                           struct workload_result *ret_result) {
    struct log_error error = {{0}};
    struct engine_options options;
    struct engine *engine = NULL;
    struct ledger_result peek;
    uint64_t lsn = ledger_lsn(ledger, ledger->acked);
    bool readable = workload_peek(ledger, tape, &peek);
    struct log_local_options local = workload_log_options(tape, false);
    engine_options_fill(&options, tape);
    if (ekit_try_local(&options, &local, &engine, &error) != TN_OK) {
        snprintf(ret_result->text, sizeof ret_result->text, "%.500s", error.text);
        return false;
    }
    /* A new log begins with a batch of its own, with the time of this start. */
    bool fresh = !readable && ledger->acked == 0 && engine->recovery_commands == 0;
    const char *wrong = readable || fresh ? NULL : peek.text;
    if (wrong == NULL && readable) {
        ret_result->loaded = peek.loaded;
        ret_result->hash = peek.hash;
        wrong = peek.loaded == 0 ? NULL : engine_wrong(work, engine, lsn, ret_result);
    }
    if (wrong != NULL) {
        snprintf(ret_result->text, sizeof ret_result->text, "the engine: %.300s", wrong);
    }
    tape_kill(tape);
    (void)engine_close(engine);
    tape_restart(tape);
    return wrong == NULL;
}
