/* Sensors: the supervisor's plans (supervisor/plan.h) over the engine of this world and virtual
 * processes. The plans die with their server; what they leave is found by the next one.
 *
 * What is checked: never are there two runs of one sensor alive; as long as anything of a run lives,
 * its resource is its lease's; it starts with a token that is good, and when no token before is; a
 * run is ended after its token, if that can be; and when all has come to rest, what is wanted runs
 * and nothing else. */
#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
/* cmocka wants the headers above first */
#include <cmocka.h>

#include "sim/world.h"

#define POOL "sensors"
#define QUIET_STEPS 4000u
#define UNPROVEN_EVERY 4u /* one in so many of the runs that a server has left alive */

static struct tn_bytes text(const char *s) {
    return tn_bytes_of(s, strlen(s));
}

/* Every other sensor keeps its token until its process has ended. */
static struct plan_terms terms(unsigned index) {
    return (struct plan_terms){.valid = true,
                               .settle_ms = 200,
                               .stop_ms = 500,
                               .backoff_ms = 100,
                               .backoff_max_ms = 1000,
                               .stable_ms = 3000,
                               .max_restarts = 3,
                               .exit_first = index % 2 == 1};
}

/* ---- checks ---- */

static void tokens_check(struct world *w, unsigned index) {
    struct world_sensor *s = &w->sensors[index];
    struct kernel_lease_view view;
    if (kernel_verify(w->ledger.kernel, s->plan.lease, s->plan.epoch, &view) != TN_R_OK) {
        world_fail(w, "%s starts with a token that is not good", s->ref);
    }
    if (s->last_lease.lsn != 0 &&
        kernel_verify(w->ledger.kernel, s->last_lease, s->last_epoch, &view) == TN_R_OK) {
        world_fail(w, "%s starts while the token of its last run is good", s->ref);
    }
    s->last_lease = s->plan.lease;
    s->last_epoch = s->plan.epoch;
}

/* No run is stopped while its token is good: not even asked to end, or with exit_first not killed. */
static void stop_check(struct world *w, struct world_sensor *s, enum plan_effect_kind signal) {
    struct kernel_lease_view view;
    if (signal == PLAN_EFFECT_TERM && s->plan.exit_first) {
        return;
    }
    bool patient = w->true_ms < s->plan.patience_at_ms && !s->plan.halted;
    bool refused = s->plan.lease_is == PLAN_LEASE_REVOKE_REFUSED;
    bool first = !s->stops;
    s->stops = true;
    if (first && patient && !refused && s->plan.gentle &&
        kernel_verify(w->ledger.kernel, s->plan.lease, s->plan.epoch, &view) == TN_R_OK) {
        world_fail(w, "%s is stopped before its token", s->ref);
    }
}

void world_sensors_check(struct world *w) {
    for (unsigned i = 0; i < WORLD_RUNS; i++) {
        const struct world_run *run = &w->runs[i];
        if (!world_run_lives(run)) {
            continue;
        }
        for (unsigned j = i + 1; j < WORLD_RUNS; j++) {
            if (world_run_lives(&w->runs[j]) && w->runs[j].sensor == run->sensor) {
                world_fail(w, "two runs of %s are alive", w->sensors[run->sensor].ref);
            }
        }
        struct kernel_requested requested = {.is_text = true,
                                             .text = text(w->sensors[run->sensor].ref)};
        struct kernel_lease_view view;
        if (kernel_lease_by_value(w->ledger.kernel, text(POOL), &requested, &view) != TN_R_OK ||
            kernel_lease_id_compare(view.id, run->lease) != 0) {
            world_fail(w, "%s lives, but its resource is not its lease's any more",
                       w->sensors[run->sensor].ref);
        }
    }
}

/* ---- effects ---- */

static struct world_run *run_of(struct world *w, unsigned index) {
    for (unsigned i = 0; i < WORLD_RUNS; i++) {
        if (w->runs[i].used && w->runs[i].sensor == index && !w->runs[i].orphan) {
            return &w->runs[i];
        }
    }
    return NULL;
}

static void token_ask(struct world *w, struct world_sensor *s) {
    (void)w;
    s->token_asked = true;
}

static void effect_do(struct world *w, unsigned index, const struct plan_effect *effect) {
    struct world_sensor *s = &w->sensors[index];
    struct world_run *run = run_of(w, index);
    switch (effect->kind) {
    case PLAN_EFFECT_ALLOC:
    case PLAN_EFFECT_REVOKE:
    case PLAN_EFFECT_RECLAIM:
        s->ask = effect->kind;
        s->asks = true;
        break;
    case PLAN_EFFECT_ISSUE:
    case PLAN_EFFECT_REFRESH_TOKEN:
        token_ask(w, s);
        break;
    case PLAN_EFFECT_START:
        tokens_check(w, index);
        (void)world_run_start(w, index, s->plan.lease, s->plan.epoch);
        s->stops = false;
        world_trace(w, "%s starts", s->ref);
        break;
    case PLAN_EFFECT_TERM:
    case PLAN_EFFECT_KILL:
        stop_check(w, s, effect->kind);
        if (run != NULL) {
            world_run_signal(w, run, effect->kind == PLAN_EFFECT_KILL);
        }
        world_trace(w, "%s gets %s", s->ref, plan_effect_name(effect->kind));
        break;
    default:
        break;
    }
}

static void tell(struct world *w, unsigned index, const struct plan_fact *fact) {
    struct plan_effects effects;
    plan_step(&w->sensors[index].plan, w->true_ms, fact, &effects);
    world_note(w, fact->kind + effects.count);
    for (uint32_t i = 0; i < effects.count; i++) {
        effect_do(w, index, &effects.of[i]);
    }
}

/* ---- facts ---- */

/* A run of an earlier life is ended by its guardian; the plan only learns that it is gone. If
 * nothing proves a run dead, the plan learns it from the operator, who has checked. */
void world_sensor_fact(struct world *w, const struct world_run *run, enum plan_fact_kind kind) {
    struct world_sensor *s = &w->sensors[run->sensor];
    if (w->engine == NULL || !s->known || (run->orphan && kind != PLAN_FACT_GONE)) {
        return;
    }
    s->orphaned = s->orphaned && !run->orphan;
    if (run->orphan && s->plan.run_is == PLAN_RUN_UNPROVEN) {
        kind = PLAN_FACT_RESET;
    }
    tell(w, run->sensor, &(struct plan_fact){.kind = kind, .pid = 1 + (int64_t)run->sensor});
}

static void token_answer(struct world *w, unsigned index) {
    struct world_sensor *s = &w->sensors[index];
    struct engine_lease lease;
    enum tn_result code =
        engine_verify(w->engine, ENGINE_READ_AS_IS, s->plan.lease, s->plan.epoch, &lease);
    s->token_asked = false;
    tell(w, index,
         &(struct plan_fact){.kind = PLAN_FACT_TOKEN_ANSWER,
                             .code = code,
                             .lease = s->plan.lease,
                             .issued_ms = w->true_ms,
                             .expires_ms = w->true_ms + 2000 + world_below(w, 9000)});
}

/* Reads the current state of the sensor from the engine. */
static void read_sensor(struct world *w, unsigned index, bool at_once) {
    struct world_sensor *s = &w->sensors[index];
    struct kernel_sensor_view view;
    uint8_t spec[MODEL_SPEC] = {0};
    enum tn_result code = engine_sensor_read(w->engine, ENGINE_READ_AS_IS, text(s->ref), &view,
                                             spec, sizeof spec, NULL);
    if (code != TN_R_OK) {
        return;
    }
    if (spec[0] != s->digest) {
        s->digest = spec[0];
        tell(w, index,
             &(struct plan_fact){
                 .kind = PLAN_FACT_SPEC, .terms = terms(index), .digest = s->digest});
    }
    if (!s->orphaned &&
        (!s->told || view.wanted != s->plan.wanted || view.enabled != s->plan.enabled)) {
        s->told = true;
        tell(w, index,
             &(struct plan_fact){.kind = PLAN_FACT_WANTED,
                                 .wanted = view.wanted,
                                 .enabled = view.enabled,
                                 .at_once = at_once});
    }
}

/* ---- the life of the supervisor ---- */

/* What an earlier life left is found by its lease, and its end is seen to. */
static void find(struct world *w, unsigned index) {
    struct world_sensor *s = &w->sensors[index];
    struct kernel_requested requested = {.is_text = true, .text = text(s->ref)};
    struct engine_lease lease;
    if (engine_lease_by_value(w->engine, ENGINE_READ_AS_IS, text(POOL), &requested, &lease) !=
        TN_R_OK) {
        return;
    }
    tell(w, index,
         &(struct plan_fact){.kind = PLAN_FACT_FOUND,
                             .lease = lease.view.id,
                             .epoch = lease.view.epoch,
                             .revoked = lease.view.state == KERNEL_REVOKING});
    for (unsigned i = 0; i < WORLD_RUNS; i++) {
        if (w->runs[i].used && w->runs[i].sensor == index) {
            s->orphaned = true;
            world_run_signal(w, &w->runs[i], true);
        }
    }
    if (!s->orphaned) {
        tell(w, index, &(struct plan_fact){.kind = PLAN_FACT_GONE});
    } else if (s->plan.lease.lsn % UNPROVEN_EVERY == 0) { /* no dice: see generate_sensor.c */
        tell(w, index, &(struct plan_fact){.kind = PLAN_FACT_UNPROVEN});
    }
}

void world_sensors_begin(struct world *w) {
    for (unsigned i = 0; i < WORLD_SENSORS; i++) {
        struct world_sensor *s = &w->sensors[i];
        struct plan_terms t = terms(i);
        *s = (struct world_sensor){
            .known = true, .last_lease = s->last_lease, .last_epoch = s->last_epoch};
        snprintf(s->ref, sizeof s->ref, "s%u", i);
        plan_init(&s->plan, &t, 0, w->seed + i);
        s->plan.now_ms = w->true_ms;
        find(w, i);
    }
}

/* With its server; guardians see to what runs. */
void world_sensors_lose(struct world *w, bool power) {
    for (unsigned i = 0; i < WORLD_SENSORS; i++) {
        w->sensors[i].known = false;
    }
    world_runs_abandon(w, power);
}

void world_sensors_halt(struct world *w) {
    for (unsigned i = 0; i < WORLD_SENSORS; i++) {
        tell(w, i, &(struct plan_fact){.kind = PLAN_FACT_HALT});
    }
}

/* ---- asking the engine ---- */

static struct kernel_command command_of(enum kernel_verb verb, uint32_t fields) {
    return (struct kernel_command){.verb = verb,
                                   .rights = KERNEL_RIGHT_OPERATOR | KERNEL_RIGHT_SUPERVISOR,
                                   .fields = fields | kernel_verb_rows[verb].required,
                                   .user = text("supervisor")};
}

static bool ask_one(struct world *w, unsigned client, const struct kernel_command *c) {
    uint8_t bytes[1024];
    uint32_t len = kernel_command_encode(c, bytes, sizeof bytes);
    assert_true(len > 0);
    return world_group_add(w, client, 0, tn_bytes_of(bytes, len)) != NULL;
}

static void ask_pool(struct world *w) {
    struct kernel_policy_patch patch = {.mask = 1u << KERNEL_OPTION_KIND |
                                                1u << KERNEL_OPTION_INTERNAL};
    patch.values.of[KERNEL_OPTION_KIND] = KERNEL_SET;
    patch.values.of[KERNEL_OPTION_INTERNAL] = 1;
    struct kernel_command c = command_of(KERNEL_VERB_POOL_CREATE, 0);
    c.pool = text(POOL);
    c.policy = &patch;
    if (model_pool_find(&w->ledger.model, POOL) == MODEL_NONE) {
        (void)ask_one(w, WORLD_CLIENTS, &c);
    }
}

/* The pool and the name in it first, if they are not there. */
static bool ask_alloc(struct world *w, unsigned index) {
    struct world_sensor *s = &w->sensors[index];
    struct kernel_requested requested = {.is_text = true, .text = text(s->ref)};
    struct kernel_lease_view view;
    uint8_t list[128];
    struct tn_writer writer = tn_writer_of(list, sizeof list);
    bool room = w->group_count + 3 <= WORLD_GROUP;
    if (room) {
        ask_pool(w);
    }
    if (room &&
        kernel_lease_by_value(w->ledger.kernel, text(POOL), &requested, &view) != TN_R_NOTFOUND) {
        struct kernel_command c = command_of(KERNEL_VERB_POOL_ADD, 0);
        kernel_requested_write_text(&writer, text(s->ref));
        c.pool = text(POOL);
        c.values = tn_bytes_of(list, writer.len);
        c.value_count = 1;
        (void)ask_one(w, WORLD_CLIENTS, &c);
    }
    writer = tn_writer_of(list, sizeof list);
    kernel_claim_write(&writer, text(POOL), false, 1);
    kernel_requested_write_text(&writer, text(s->ref));
    struct kernel_command c = command_of(KERNEL_VERB_ALLOC, 0);
    c.holder = text(s->ref);
    c.claims = tn_bytes_of(list, writer.len);
    c.claim_count = 1;
    return room && ask_one(w, WORLD_SENSOR_BASE + index, &c);
}

static bool ask_lease(struct world *w, unsigned index, enum kernel_verb verb) {
    struct kernel_command c = command_of(verb, 0);
    c.lease = w->sensors[index].plan.lease;
    return ask_one(w, WORLD_SENSOR_BASE + index, &c);
}

void world_sensors_ask(struct world *w) {
    for (unsigned i = 0; i < WORLD_SENSORS; i++) {
        struct world_sensor *s = &w->sensors[i];
        bool asked = false;
        if (!s->known || !s->asks || s->plan.halted) {
            continue;
        }
        switch (s->ask) {
        case PLAN_EFFECT_ALLOC:
            asked = ask_alloc(w, i);
            break;
        case PLAN_EFFECT_REVOKE:
            asked = ask_lease(w, i, KERNEL_VERB_REVOKE);
            break;
        default:
            asked = ask_lease(w, i, KERNEL_VERB_RECLAIM);
            break;
        }
        s->asks = !asked;
    }
}

void world_sensors_answer(struct world *w, unsigned index, const struct model_result *result) {
    struct world_sensor *s = &w->sensors[index];
    static const enum plan_fact_kind facts[] = {[PLAN_EFFECT_ALLOC] = PLAN_FACT_ALLOC_ANSWER,
                                                [PLAN_EFFECT_REVOKE] = PLAN_FACT_REVOKE_ANSWER,
                                                [PLAN_EFFECT_RECLAIM] = PLAN_FACT_RECLAIM_ANSWER};
    s->answer = (struct plan_fact){.kind = facts[s->ask],
                                   .code = result->head.code,
                                   .lease = result->head.lease,
                                   .epoch = result->head.epoch};
    s->answered = true;
}

/* ---- demand ---- */

/* Rules come and go, descriptions change. */
static void demand(struct world *w) {
    char name[16];
    char trigger[16];
    uint8_t spec = (uint8_t)(1 + world_below(w, 3));
    unsigned which = world_below(w, WORLD_SENSORS);
    struct kernel_command c;
    snprintf(trigger, sizeof trigger, "t%u", which);
    if (w->step % 64 == 1 || world_below(w, 100) == 0) {
        snprintf(name, sizeof name, "s%u", which);
        c = command_of(KERNEL_VERB_SENSOR_SET, 0);
        c.enabled = world_chance(w, 90);
        c.spec = tn_bytes_of(&spec, 1);
    } else if (world_chance(w, 10)) {
        snprintf(name, sizeof name, "w%u", world_below(w, WORLD_SENSORS));
        c = command_of(KERNEL_VERB_RULE_SET, 0);
        c.enabled = world_chance(w, 60);
    } else {
        return;
    }
    c.name = text(name);
    c.trigger = text(trigger);
    (void)ask_one(w, WORLD_CLIENTS, &c);
}

void world_sensors_demand(struct world *w) {
    if (w->step == 1) {
        ask_pool(w);
    }
    if ((w->without >> WORLD_RULES & 1) == 0 && !w->quiet) {
        demand(w);
    }
}

/* ---- a step ---- */

void world_sensors_step(struct world *w, bool at_once) {
    for (unsigned i = 0; i < WORLD_SENSORS && !w->halted; i++) {
        struct world_sensor *s = &w->sensors[i];
        if (s->answered) {
            s->answered = false;
            tell(w, i, &s->answer);
        }
        if (s->token_asked) {
            token_answer(w, i);
        }
        read_sensor(w, i, at_once);
        if (s->plan.phase == PLAN_RUNNING && world_below(w, 300) == 0 && !w->quiet) {
            tell(w, i, &(struct plan_fact){.kind = PLAN_FACT_UNHEALTHY});
        }
        if (s->plan.phase == PLAN_FAILED && world_chance(w, w->quiet ? 20 : 2)) {
            tell(w, i, &(struct plan_fact){.kind = PLAN_FACT_RESET});
        }
        tell(w, i, &(struct plan_fact){.kind = PLAN_FACT_TICK});
    }
}

/* A good end: the runs first. */
void world_sensors_shutdown(struct world *w) {
    bool over = false;
    for (unsigned i = 0; i < WORLD_SENSORS; i++) {
        tell(w, i, &(struct plan_fact){.kind = PLAN_FACT_SHUTDOWN});
    }
    for (unsigned turns = 0; turns < 400 && !over && !w->halted; turns++) {
        world_pass(w, 20);
        world_runs_pass(w);
        w->group_count = 0;
        world_sensors_ask(w);
        world_server_serve(w);
        world_sensors_step(w, false);
        world_sensors_check(w);
        over = true;
        for (unsigned i = 0; i < WORLD_SENSORS; i++) {
            over = over && plan_is_over(&w->sensors[i].plan);
        }
    }
    if (!over && !w->halted) {
        world_fail(w, "the sensors do not come to their end");
    }
}

/* Tables that others have filled. */
static bool is_full(enum tn_result code) {
    return code == TN_R_LEASES_FULL || code == TN_R_MEMBERS_FULL || code == TN_R_NAMES_FULL ||
           code == TN_R_POOL_NOTFOUND || code == TN_R_BAD_VALUE; /* no room for pool or name */
}

/* Whether everything is at rest: what is wanted runs, and nothing else. */
static bool at_rest(struct world *w, unsigned *ret_sensor) {
    for (unsigned i = 0; i < WORLD_SENSORS; i++) {
        struct kernel_sensor_view view;
        bool wanted =
            kernel_sensor_read(w->ledger.kernel, text(w->sensors[i].ref), &view) == TN_R_OK &&
            view.wanted;
        bool runs = w->sensors[i].plan.phase == PLAN_RUNNING && run_of(w, i) != NULL;
        bool idle = w->sensors[i].plan.phase == PLAN_IDLE && run_of(w, i) == NULL;
        if (wanted ? !runs && !is_full(w->sensors[i].answer.code) : !idle) {
            *ret_sensor = i;
            return false;
        }
    }
    return true;
}

void world_sensors_rest(struct world *w) {
    unsigned sensor = 0;
    w->quiet = true;
    for (unsigned i = 0; i < QUIET_STEPS && !at_rest(w, &sensor); i++) {
        world_pass(w, 20);
        world_runs_pass(w);
        w->group_count = 0;
        world_sensors_ask(w);
        world_server_serve(w);
        world_sensors_step(w, false);
        world_sensors_check(w);
    }
    if (!at_rest(w, &sensor)) {
        world_fail(w, "%s does not come to rest: %s", w->sensors[sensor].ref,
                   plan_phase_name(w->sensors[sensor].plan.phase));
    }
}
