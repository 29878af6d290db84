/* The plan of a sensor: all short sequences of facts, and long random ones in a small world that knows
 * what is true. */
#include "unit/unit.h"

#include "supervisor/plan.h"

#define SETTLE 5000u
#define DIGEST 7u
#define DEPTH 4u

static const struct plan_terms usual = {.valid = true,
                                        .settle_ms = SETTLE,
                                        .stop_ms = 30000,
                                        .backoff_ms = 1000,
                                        .backoff_max_ms = 8000,
                                        .stable_ms = 60000,
                                        .max_restarts = 3};

/* ---- Any facts in any order ---- */

/* Sensible and senseless alike: whatever is asserted in there must hold. FOUND comes first or never. */
static const struct plan_fact any[] = {
    {.kind = PLAN_FACT_TICK},
    {.kind = PLAN_FACT_WANTED, .wanted = true, .enabled = true},
    {.kind = PLAN_FACT_WANTED, .wanted = true, .enabled = true, .at_once = true},
    {.kind = PLAN_FACT_WANTED},
    {.kind = PLAN_FACT_SPEC, .terms = {.valid = true, .max_restarts = 1}, .digest = 8},
    {.kind = PLAN_FACT_SPEC, .terms = {.valid = false}, .digest = 9},
    {.kind = PLAN_FACT_DELETED},
    {.kind = PLAN_FACT_NEW_RULE},
    {.kind = PLAN_FACT_RESET},
    {.kind = PLAN_FACT_RESTART},
    {.kind = PLAN_FACT_ALLOC_ANSWER, .code = TN_R_OK, .lease = {.lsn = 42}, .epoch = 1},
    {.kind = PLAN_FACT_ALLOC_ANSWER, .code = TN_R_BUSY},
    {.kind = PLAN_FACT_TOKEN_ANSWER, .code = TN_R_OK, .lease = {.lsn = 42}},
    {.kind = PLAN_FACT_TOKEN_ANSWER, .code = TN_R_STALE, .lease = {.lsn = 42}},
    {.kind = PLAN_FACT_TOKEN_VOID},
    {.kind = PLAN_FACT_REVOKE_ANSWER, .code = TN_R_OK},
    {.kind = PLAN_FACT_REVOKE_ANSWER, .code = TN_R_NOSPACE},
    {.kind = PLAN_FACT_REVOKE_ANSWER, .code = TN_R_STATE},
    {.kind = PLAN_FACT_RECLAIM_ANSWER, .code = TN_R_OK},
    {.kind = PLAN_FACT_RECLAIM_ANSWER, .code = TN_R_OVERLOADED},
    {.kind = PLAN_FACT_LEASE_REVOKED, .lease = {.lsn = 42}},
    {.kind = PLAN_FACT_STARTED, .pid = 1},
    {.kind = PLAN_FACT_START_FAILED},
    {.kind = PLAN_FACT_EXITED},
    {.kind = PLAN_FACT_GONE},
    {.kind = PLAN_FACT_UNPROVEN},
    {.kind = PLAN_FACT_UNHEALTHY},
    {.kind = PLAN_FACT_SHUTDOWN},
    {.kind = PLAN_FACT_HALT},
};

#define ANY (sizeof any / sizeof any[0])

static void check_effects(const struct plan *before, const struct plan *after,
                          const struct plan_effects *effects) {
    for (uint32_t i = 0; i < effects->count; i++) {
        switch (effects->of[i].kind) {
        case PLAN_EFFECT_START:
            assert_int_equal(before->run_is, PLAN_RUN_NONE);
            assert_int_equal(before->lease_is, PLAN_LEASE_ACTIVE);
            break;
        case PLAN_EFFECT_ALLOC:
            assert_int_equal(after->run_is, PLAN_RUN_NONE);
            break;
        case PLAN_EFFECT_RECLAIM:
            assert_int_equal(after->run_is, PLAN_RUN_NONE);
            break;
        case PLAN_EFFECT_KILL:
            assert_true(after->lease_is != PLAN_LEASE_ACTIVE || after->halted);
            assert_true(before->run_is >= PLAN_RUN_ALIVE);
            break;
        case PLAN_EFFECT_TERM:
            assert_true(before->run_is >= PLAN_RUN_ALIVE);
            assert_true(after->lease_is != PLAN_LEASE_ACTIVE || after->exit_first || after->halted);
            break;
        default:
            break;
        }
        assert_false(after->halted && (effects->of[i].kind == PLAN_EFFECT_ALLOC ||
                                       effects->of[i].kind == PLAN_EFFECT_REVOKE ||
                                       effects->of[i].kind == PLAN_EFFECT_RECLAIM ||
                                       effects->of[i].kind == PLAN_EFFECT_START));
    }
    assert_true(effects->wake_ms > after->now_ms || effects->wake_ms == PLAN_NEVER);
}

/* Walks all sequences of DEPTH facts from this plan, each common beginning once. */
static void walk(const struct plan *plan, uint64_t *steps) {
    struct plan way[DEPTH + 1] = {*plan};
    unsigned next[DEPTH] = {0};
    unsigned at = 0;
    while (at > 0 || next[0] < ANY) {
        if (next[at] == ANY) {
            next[at--] = 0;
            continue;
        }
        const struct plan_fact *fact = &any[next[at]++];
        struct plan_effects effects;
        uint64_t now = way[at].now_ms + (fact->kind == PLAN_FACT_TICK ? SETTLE : 1);
        way[at + 1] = way[at];
        plan_step(&way[at + 1], now, fact, &effects);
        check_effects(&way[at], &way[at + 1], &effects);
        (*steps)++;
        at += at + 1 < DEPTH;
    }
}

/* To a run. */
static struct plan run_make(bool exit_first) {
    static const struct plan_fact way[] = {
        {.kind = PLAN_FACT_WANTED, .wanted = true, .enabled = true, .at_once = true},
        {.kind = PLAN_FACT_ALLOC_ANSWER, .code = TN_R_OK, .lease = {.lsn = 42}, .epoch = 1},
        {.kind = PLAN_FACT_TOKEN_ANSWER, .code = TN_R_OK, .lease = {.lsn = 42}},
        {.kind = PLAN_FACT_STARTED, .pid = 1}};
    struct plan plan;
    struct plan_effects effects;
    plan_init(&plan, &usual, DIGEST, 1);
    plan.terms.exit_first = exit_first;
    for (unsigned i = 0; i < sizeof way / sizeof way[0]; i++) {
        plan_step(&plan, plan.now_ms + 1, &way[i], &effects);
    }
    assert_int_equal(plan.phase, PLAN_RUNNING);
    return plan;
}

static void every_short_sequence_of_facts_keeps_the_invariants(void **state) {
    struct plan plan;
    struct plan_effects effects;
    uint64_t steps = 0;
    (void)state;
    plan_init(&plan, &usual, DIGEST, 1);
    walk(&plan, &steps);
    for (unsigned i = 0; i < 2; i++) {
        plan = run_make(i == 1);
        walk(&plan, &steps);
        plan_step(&plan, plan.now_ms + 1, &(struct plan_fact){.kind = PLAN_FACT_RESTART}, &effects);
        walk(&plan, &steps);
    }
    plan.now_ms = plan.kill_at_ms - 2; /* the next is SIGKILL */
    walk(&plan, &steps);
    plan_init(&plan, &usual, DIGEST, 1);
    plan_step(&plan, 1, &(struct plan_fact){.kind = PLAN_FACT_FOUND, .lease = {.lsn = 42}},
              &effects);
    walk(&plan, &steps);
    plan_step(&plan, 2, &(struct plan_fact){.kind = PLAN_FACT_UNPROVEN}, &effects);
    assert_int_equal(plan.run_is, PLAN_RUN_UNPROVEN);
    walk(&plan, &steps);
    plan_init(&plan, &usual, DIGEST, 1);
    plan_step(&plan, 1,
              &(struct plan_fact){.kind = PLAN_FACT_FOUND, .lease = {.lsn = 42}, .abroad = true},
              &effects);
    assert_int_equal(plan.run_is, PLAN_RUN_ABROAD);
    walk(&plan, &steps);
    assert_int_equal(steps, 9 * (ANY + ANY * ANY + ANY * ANY * ANY + ANY * ANY * ANY * ANY));
}

/* ---- A small world ---- */

/* What is true, whatever the plan believes: the lease in the log, the process on the machine. */
struct small_world {
    struct tn_prng random;
    struct plan plan;
    uint64_t now, wake;
    enum { FREE, HELD, REVOKING } lease;
    uint64_t lease_lsn, next_lsn;
    bool alive, main_alive, killed;
    bool unproven;            /* an operator has to say that it is dead */
    uint64_t token_lsn;       /* LSN of the process's token */
    struct plan_fact due[16]; /* answers on their way, in no order */
    uint32_t due_count;
    uint32_t starts, orphans, unprovens, revokes_refused;
    bool wanted, faults, exit_first;
};

static void world_due(struct small_world *w, struct plan_fact fact) {
    assert_true(w->due_count < 16);
    w->due[w->due_count++] = fact;
}

static bool world_refuses(struct small_world *w) {
    return w->faults && unit_below(&w->random, 4) == 0;
}

static void world_alloc(struct small_world *w) {
    if (world_refuses(w)) {
        world_due(w, (struct plan_fact){.kind = PLAN_FACT_ALLOC_ANSWER, .code = TN_R_NOSPACE});
        return;
    }
    assert_int_equal(w->lease, FREE); /* the plan knows of every lease */
    w->lease = HELD;
    w->lease_lsn = w->next_lsn++;
    world_due(w, (struct plan_fact){.kind = PLAN_FACT_ALLOC_ANSWER,
                                    .code = TN_R_OK,
                                    .lease = {.lsn = w->lease_lsn},
                                    .epoch = 1});
}

static void world_revoke(struct small_world *w) {
    enum tn_result code = world_refuses(w)       ? TN_R_NOSPACE
                          : w->lease == FREE     ? TN_R_STATE
                          : w->lease == REVOKING ? TN_R_NOOP
                                                 : TN_R_OK;
    w->revokes_refused += code == TN_R_NOSPACE;
    if (code == TN_R_OK) {
        w->lease = REVOKING;
        world_due(
            w, (struct plan_fact){.kind = PLAN_FACT_LEASE_REVOKED, .lease = {.lsn = w->lease_lsn}});
    }
    world_due(w, (struct plan_fact){.kind = PLAN_FACT_REVOKE_ANSWER, .code = code});
}

static void world_do(struct small_world *w, const struct plan_effect *effect) {
    switch (effect->kind) {
    case PLAN_EFFECT_ALLOC:
        world_alloc(w);
        break;
    case PLAN_EFFECT_ISSUE:
    case PLAN_EFFECT_REFRESH_TOKEN:
        world_due(w, (struct plan_fact){.kind = PLAN_FACT_TOKEN_ANSWER,
                                        .code = w->lease == HELD ? TN_R_OK : TN_R_STATE,
                                        .lease = w->plan.lease,
                                        .issued_ms = w->now,
                                        .expires_ms = w->now + 100000});
        break;
    case PLAN_EFFECT_START:
        assert_false(w->alive); /* never two */
        assert_true(w->lease != FREE && w->plan.lease.lsn == w->lease_lsn);
        w->alive = true;
        w->killed = false;
        w->token_lsn = w->lease_lsn;
        w->starts++;
        w->main_alive = !world_refuses(w);
        world_due(w, (struct plan_fact){.kind = w->main_alive ? PLAN_FACT_STARTED
                                                              : PLAN_FACT_START_FAILED,
                                        .pid = 1});
        break;
    case PLAN_EFFECT_TERM:
        assert_true(w->alive);
        break;
    case PLAN_EFFECT_KILL:
        assert_true(w->alive);
        w->killed = true;
        break;
    case PLAN_EFFECT_REVOKE:
        world_revoke(w);
        break;
    case PLAN_EFFECT_RECLAIM:
        assert_false(w->alive); /* late, never early */
        assert_int_equal(w->lease, REVOKING);
        if (!world_refuses(w)) {
            w->lease = FREE;
            world_due(w, (struct plan_fact){.kind = PLAN_FACT_RECLAIM_ANSWER, .code = TN_R_OK});
        } else {
            world_due(w,
                      (struct plan_fact){.kind = PLAN_FACT_RECLAIM_ANSWER, .code = TN_R_NOSPACE});
        }
        break;
    default:
        break;
    }
}

static void world_give(struct small_world *w, struct plan_fact fact) {
    struct plan before = w->plan;
    struct plan_effects effects;
    plan_step(&w->plan, w->now, &fact, &effects);
    check_effects(&before, &w->plan, &effects);
    w->wake = effects.wake_ms;
    for (uint32_t i = 0; i < effects.count; i++) {
        world_do(w, &effects.of[i]);
    }
}

static void world_want(struct small_world *w, bool wanted, bool at_once) {
    w->wanted = wanted;
    world_give(
        w, (struct plan_fact){
               .kind = PLAN_FACT_WANTED, .wanted = wanted, .enabled = true, .at_once = at_once});
}

/* The program is killed, and comes back; what it had started lives on for a while. */
static void world_restart(struct small_world *w) {
    plan_init(&w->plan, &usual, DIGEST, w->now);
    w->plan.terms.max_restarts = 1000000;
    w->plan.terms.exit_first = w->exit_first;
    w->due_count = 0;
    w->orphans += w->alive;
    w->unproven = false;
    if (w->lease != FREE) {
        world_give(w, (struct plan_fact){.kind = PLAN_FACT_FOUND,
                                         .lease = {.lsn = w->lease_lsn},
                                         .epoch = 1,
                                         .abroad = unit_below(&w->random, 3) == 0,
                                         .revoked = w->lease == REVOKING});
    } else {
        assert_false(w->alive);
    }
    world_want(w, w->wanted, true);
    if (w->alive && unit_below(&w->random, 3) == 0) {
        w->unproven = true;
        w->unprovens++;
        world_give(w, (struct plan_fact){.kind = PLAN_FACT_UNPROVEN});
    }
    w->killed = true; /* the orphan, if there is one; otherwise it has already ended */
    if (w->lease != FREE && !w->alive) {
        world_give(w, (struct plan_fact){.kind = PLAN_FACT_GONE});
    }
}

static void world_exit(struct small_world *w) {
    if (w->main_alive) {
        w->main_alive = false;
        world_give(w, (struct plan_fact){.kind = PLAN_FACT_EXITED, .status = 256});
    } else {
        w->alive = false;
        world_give(w, (struct plan_fact){.kind = w->unproven ? PLAN_FACT_RESET : PLAN_FACT_GONE});
        w->unproven = false;
    }
}

static bool world_answers_started(const struct small_world *w) {
    for (uint32_t i = 0; i < w->due_count; i++) {
        if (w->due[i].kind == PLAN_FACT_STARTED || w->due[i].kind == PLAN_FACT_START_FAILED) {
            return true; /* these come before anything else of the run */
        }
    }
    return false;
}

static void world_answer(struct small_world *w) {
    uint32_t i = unit_below(&w->random, w->due_count);
    struct plan_fact fact = w->due[i];
    w->due[i] = w->due[--w->due_count];
    world_give(w, fact);
}

static void world_turn(struct small_world *w) {
    bool ending = w->killed || plan_state_of(&w->plan) == PLAN_STATE_STOPPING;
    w->now += unit_below(&w->random, 400);
    if (w->due_count > 0 && unit_below(&w->random, 3) > 0) {
        world_answer(w);
    } else if (w->alive && !world_answers_started(w) &&
               (ending ? unit_below(&w->random, 3) == 0
                       : w->faults && unit_below(&w->random, 20) == 0)) {
        world_exit(w);
    } else {
        world_give(w, (struct plan_fact){.kind = PLAN_FACT_TICK});
    }
}

static void world_disturb(struct small_world *w) {
    switch (unit_below(&w->random, 12)) {
    case 0:
        world_restart(w);
        break;
    case 1:
        world_give(w, (struct plan_fact){.kind = PLAN_FACT_RESTART});
        break;
    case 2:
        world_give(w, (struct plan_fact){.kind = PLAN_FACT_UNHEALTHY});
        break;
    case 3: /* an operator revokes the lease */
        if (w->lease == HELD) {
            w->lease = REVOKING;
            world_due(w, (struct plan_fact){.kind = PLAN_FACT_LEASE_REVOKED,
                                            .lease = {.lsn = w->lease_lsn}});
        }
        break;
    case 4:
        world_give(w, (struct plan_fact){.kind = PLAN_FACT_SPEC,
                                         .terms = w->plan.terms,
                                         .digest = unit_below(&w->random, 3)});
        break;
    default:
        world_want(w, unit_below(&w->random, 2) == 0, false);
    }
}

/* Without further faults the world reaches the wanted state, and any token except that of the
 * living run is dead. */
static void world_calm(struct small_world *w) {
    w->faults = false;
    for (unsigned i = 0; i < 2000; i++) {
        world_turn(w);
    }
    assert_int_equal(plan_state_of(&w->plan), w->wanted ? PLAN_STATE_RUNNING : PLAN_STATE_STOPPED);
    assert_int_equal(w->alive, w->wanted);
    assert_int_equal(w->lease, w->wanted ? HELD : FREE);
    assert_true(!w->wanted || w->token_lsn == w->lease_lsn);
}

static void random_walks_never_run_two_and_end_as_they_are_wanted(void **state) {
    struct tn_prng random = unit_random();
    struct small_world w;
    uint64_t starts = 0;
    uint64_t orphans = 0;
    uint64_t unprovens = 0;
    uint64_t refused = 0;
    (void)state;
    for (unsigned run = 0; run < 300; run++) {
        w = (struct small_world){.now = 1000, .next_lsn = 1, .exit_first = run % 2 == 1};
        tn_prng_seed(&w.random, tn_prng_next(&random));
        world_restart(&w);
        for (unsigned round = 0; round < 4; round++) {
            w.faults = true;
            for (unsigned i = 0; i < 400; i++) {
                if (unit_below(&w.random, 8) == 0 && w.due_count < 8) {
                    world_disturb(&w);
                } else {
                    world_turn(&w);
                }
            }
            world_calm(&w);
        }
        starts += w.starts;
        orphans += w.orphans;
        unprovens += w.unprovens;
        refused += w.revokes_refused;
    }
    assert_true(starts > 1000 && orphans > 100 && unprovens > 30 && refused > 100);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_short_sequence_of_facts_keeps_the_invariants),
        cmocka_unit_test(random_walks_never_run_two_and_end_as_they_are_wanted),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
