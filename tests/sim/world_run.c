/* Virtual processes: the runs of sensors, with children, wills of their own, and guardians that end
 * them when their server is no more. */
#include <inttypes.h>

#include "sim/world.h"

#define NEVER UINT64_MAX

bool world_run_lives(const struct world_run *run) {
    return run->used && (run->main_dies_ms != 0 || run->child_dies_ms != 0);
}

/* A death that is due, or has been put off for ever, is brought forward. */
static void dies_by(uint64_t *dies_ms, uint64_t at_ms) {
    if (*dies_ms > at_ms) { /* 0: it is dead already */
        *dies_ms = at_ms;
    }
}

static struct world_run *run_free(struct world *w) {
    for (unsigned i = 0; i < WORLD_RUNS; i++) {
        if (!w->runs[i].used) {
            return &w->runs[i];
        }
    }
    world_fail(w, "there are more runs than there can be");
}

struct world_run *world_run_start(struct world *w, unsigned sensor, struct kernel_lease_id lease,
                                  uint64_t epoch) {
    struct world_run *run = run_free(w);
    *run = (struct world_run){.used = true,
                              .sensor = sensor,
                              .lease = lease,
                              .epoch = epoch,
                              .main_dies_ms = NEVER,
                              .starts_ms = w->true_ms + world_below(w, 300),
                              .main_is_stubborn = world_chance(w, 15),
                              .child_is_stubborn = world_chance(w, 50)};
    run->child_dies_ms = world_chance(w, 20) ? NEVER : 0;
    bool calm = w->quiet;
    if (world_chance(w, 5) && !calm) {
        run->fails = true;
    } else if (world_chance(w, 20) && !calm) {
        run->main_dies_ms = run->starts_ms + 1 + world_below(w, 5000); /* it will crash */
    }
    w->counts.runs++;
    return run;
}

void world_run_signal(struct world *w, struct world_run *run, bool kill) {
    uint64_t soon_ms = w->true_ms + 1 + world_below(w, kill ? 50 : 200);
    if (kill || !run->main_is_stubborn) {
        dies_by(&run->main_dies_ms, soon_ms);
    }
    if (kill || !run->child_is_stubborn) {
        dies_by(&run->child_dies_ms, soon_ms);
    }
}

/* The server of these runs has ended. After a power cut they are all dead; otherwise their
 * guardians end them after a while. */
void world_runs_abandon(struct world *w, bool power) {
    for (unsigned i = 0; i < WORLD_RUNS; i++) {
        struct world_run *run = &w->runs[i];
        if (!run->used) {
            continue;
        }
        run->orphan = true;
        if (power) {
            *run = (struct world_run){0};
        } else {
            uint64_t at_ms = w->true_ms + 1 + world_below(w, 3000);
            dies_by(&run->main_dies_ms, at_ms);
            dies_by(&run->child_dies_ms, at_ms);
        }
    }
}

/* Lets time pass for the runs; what their sensors learn goes through world_sensor_fact. */
void world_runs_pass(struct world *w) {
    for (unsigned i = 0; i < WORLD_RUNS; i++) {
        struct world_run *run = &w->runs[i];
        if (!run->used) {
            continue;
        }
        if (!run->said && w->true_ms >= run->starts_ms) {
            run->said = true;
            if (run->fails) {
                run->main_dies_ms = run->child_dies_ms = 0;
            }
            world_sensor_fact(w, run, run->fails ? PLAN_FACT_START_FAILED : PLAN_FACT_STARTED);
        }
        if (run->main_dies_ms != 0 && w->true_ms >= run->main_dies_ms) {
            run->main_dies_ms = 0;
            world_sensor_fact(w, run, PLAN_FACT_EXITED);
        }
        if (run->child_dies_ms != 0 && w->true_ms >= run->child_dies_ms) {
            run->child_dies_ms = 0;
        }
        if (run->said && !world_run_lives(run)) {
            run->used = false;
            world_sensor_fact(w, run, PLAN_FACT_GONE);
        }
    }
}
