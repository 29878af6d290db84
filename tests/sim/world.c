/* The world's own course: what happens when; see world.h. */
#include "sim/world.h"

#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
/* cmocka wants the headers above first */
#include <cmocka.h>

#include "base/hash.h"

#define DAMAGES 3u /* damages tried after a clean end, each on a copy */
#define DAY_MS ((uint64_t)86400 * 1000)

void world_trace(struct world *w, const char *format, ...) {
    char *line = w->trace[w->trace_count++ % WORLD_TRACE];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(line, sizeof w->trace[0], format, arguments);
    va_end(arguments);
}

void world_note(struct world *w, uint64_t what) {
    w->transcript = tn_hash64(&what, sizeof what, w->transcript);
}

/* ---- beginning ---- */

/* The generator's, with room for the clients. */
static void limits_choose(struct world *w) {
    w->generate.slow_drain = true;
    w->limits = w->generate.limits;
    uint64_t *of = w->limits.of;
    of[KERNEL_LIMIT_LEASES] = 40 + world_below(w, 60);
    of[KERNEL_LIMIT_MEMBERS] = 80 + world_below(w, 100);
    of[KERNEL_LIMIT_HISTORY] = 40;
    of[KERNEL_LIMIT_POOLS] += 4;
    of[KERNEL_LIMIT_RESOURCES] += WORLD_SENSORS;
    of[KERNEL_LIMIT_RULES] += WORLD_SENSORS;
    of[KERNEL_LIMIT_SENSORS] += WORLD_SENSORS;
    of[KERNEL_LIMIT_NAMES] = 64;
    of[KERNEL_LIMIT_OPS] = 24 + world_below(w, 30);
    of[KERNEL_LIMIT_OP_SECONDS] = 8 + world_below(w, 30);
    of[KERNEL_LIMIT_RATES] += 1;
    w->generate.limits = w->limits;
}

void world_open(struct world *w, uint64_t seed, uint32_t without, uint64_t steps) {
    memset(w, 0, sizeof *w);
    w->seed = seed;
    w->without = without;
    w->steps = steps;
    tn_prng_seed(&w->random, seed ^ 0x776f726c64);
    w->machine = fakeos_new(seed);
    generate_open(&w->generate, seed);
    limits_choose(w);
    static const uint64_t bounds[] = {64, 200, 1000};
    static const uint64_t sizes[] = {12 << 10, 40 << 10, UINT64_MAX};
    w->events_max = bounds[world_below(w, 3)];
    w->snapshot_bytes = sizes[world_below(w, 3)];
    if ((without >> WORLD_SNAPSHOTS & 1) != 0) {
        w->snapshot_bytes = UINT64_MAX;
    }
    w->chaos = world_below(w, 4) * 25;
    world_ledger_open(w);
    world_server_up(w);
}

void world_close(struct world *w) {
    if (w->engine != NULL) {
        (void)engine_close(w->engine);
    }
    world_ledger_close(w);
    fakeos_free(w->machine);
    free(w->listened);
}

/* ---- time ---- */

void world_pass(struct world *w, uint64_t ms) {
    fakeos_clock_advance(w->machine, ms);
    w->true_ms += ms;
}

static void wall_set(struct world *w, uint64_t ms) {
    fakeos_clock_wall_set(w->machine, ms);
    world_trace(w, "the wall clock shows %" PRIu64, ms);
}

static void clocks(struct world *w) {
    const struct os *os = fakeos_table(w->machine);
    uint64_t wall_ms = os->clock_wall_ms(os->ctx);
    uint64_t some_ms = world_below(w, 3600 * 1000);
    world_pass(w, world_below(w, 60));
    if (world_trouble(w, WORLD_CLOCKS, 6)) {
        wall_set(w, wall_ms + some_ms);
    }
    if (world_trouble(w, WORLD_CLOCKS, 6)) {
        wall_set(w, wall_ms - some_ms);
    }
    if (world_trouble(w, WORLD_CLOCKS, 1)) {
        wall_set(w, wall_ms + 31 * DAY_MS);
    }
    if (world_trouble(w, WORLD_CLOCKS, 4)) { /* suspended */
        world_pass(w, some_ms / 60);
    }
}

/* ---- requests ---- */

static void chaos(struct world *w) {
    uint32_t most = 1 + world_below(w, 8);
    for (uint32_t i = 0; i < most && w->group_count < WORLD_GROUP; i++) {
        uint64_t now_ms = world_now(w);
        w->generate.now_ms = now_ms;
        struct tn_bytes bytes = generate_next(&w->generate, &w->ledger.model);
        uint64_t later_ms = w->generate.now_ms - now_ms;
        if (world_clients_own(w, bytes)) {
            continue;
        }
        world_pass(w, later_ms < DAY_MS ? later_ms : DAY_MS);
        (void)world_group_add(w, WORLD_CLIENTS, 0, bytes);
    }
}

static void serve(struct world *w) {
    w->group_count = 0;
    world_clients_act(w);
    world_network_deliver(w);
    if (w->engine == NULL) {
        return;
    }
    if (w->step % 16 == 1) {
        world_clients_pools(w);
    }
    world_sensors_ask(w);
    world_sensors_demand(w);
    if (world_trouble(w, WORLD_CHAOS, w->chaos * 10)) {
        chaos(w);
    }
    if (world_chance(w, 10)) {
        (void)world_group_add(w, WORLD_CLIENTS, 0, world_tick_bytes());
    }
    world_server_serve(w);
}

/* ---- what happens to the server ---- */

bool world_call_failed(struct world *w) {
    return w->planned && fakeos_calls(w->machine) >= w->planned_call;
}

static void disk_fills(struct world *w) {
    uint64_t left = world_below(w, 100 << 10);
    if (w->full_until_ms == 0 && world_trouble(w, WORLD_FULL, 4)) {
        w->full_until_ms = w->true_ms + 1 + world_below(w, 20000);
        w->failed_call = true;
        w->counts.full++;
        fakeos_space_set(w->machine, fakeos_space_used(w->machine) + left);
        world_trace(w, "%" PRIu64 " bytes are left on the disk", left);
    } else if (w->full_until_ms != 0 && w->true_ms >= w->full_until_ms) {
        w->full_until_ms = 0;
        fakeos_space_set(w->machine, UINT64_MAX);
        world_trace(w, "there is room on the disk again");
        if (!w->planned && !w->halted) {
            enum tn_result code = engine_tick(w->engine);
            world_server_settle(w);
            if (code != TN_R_OK) {
                world_fail(w, "there is room again, but %s", tn_result_name(code));
            }
        }
    }
}

/* Some call in the near future. */
static void plan(struct world *w) {
    uint64_t call = fakeos_calls(w->machine) + 1 + world_below(w, 120);
    bool fails = world_trouble(w, WORLD_FAULTS, 4);
    bool power = world_trouble(w, WORLD_CUTS, 8);
    bool kill = world_trouble(w, WORLD_KILLS, 8);
    static const enum tn_status statuses[] = {TN_IO, TN_NOSPACE, TN_NOMEM};
    enum tn_status status = statuses[world_below(w, 3)];
    if (w->planned || (!fails && !power && !kill)) {
        return;
    }
    w->planned = true;
    w->planned_call = call;
    w->planned_power = power;
    if (fails) {
        fakeos_fail_call(w->machine, call, status);
    } else {
        fakeos_cut_call(w->machine, call);
    }
}

static void snapshot(struct world *w) {
    struct log_error error = {.text = ""};
    if (world_trouble(w, WORLD_SNAPSHOTS, 12)) {
        enum tn_status status = engine_snapshot(w->engine, &error);
        w->counts.snapshots += status == TN_OK;
        world_trace(w, "a snapshot: %s %.200s", tn_status_name(status), error.text);
        world_server_settle(w);
    }
}

static void look(struct world *w) {
    if (world_chance(w, 15)) {
        world_clients_verify(w);
    }
    if (!w->halted && world_chance(w, 10)) {
        world_witness_ask(w);
    }
    for (unsigned i = 0; i < WORLD_READERS; i++) {
        if (!w->halted && world_chance(w, i == 0 ? 30 : 3)) {
            world_reader_read(w, i);
        }
    }
    if (w->step % 32 == 0) {
        world_server_check(w);
    }
}

/* The planned fault has happened, or the server has halted: this life ends. */
static void afterwards(struct world *w) {
    bool cut = fakeos_is_cut(w->machine);
    bool hit = world_call_failed(w);
    bool power = w->planned_power;
    if (w->halted && !hit && !cut && !w->life_failed) {
        world_fail(w, "the server has halted, and no call had failed");
    }
    if (hit && !cut) {
        w->failed_call = w->life_failed = true;
        w->counts.faults++;
        world_trace(w, "a call failed: %s", fakeos_fault_name(w->machine));
    }
    w->planned = w->planned && !hit;
    if (cut) {
        world_server_kill(w, power);
    } else if (w->halted) {
        world_sensors_halt(w);
        (void)world_server_close(w);
    } else if (world_below(w, 200) == 0 && !w->planned) {
        world_sensors_shutdown(w);
        bool well = world_server_close(w);
        for (unsigned i = 0; i < DAMAGES && well; i++) {
            if (world_trouble(w, WORLD_DAMAGE, 700)) {
                world_damage(w);
            }
        }
    } else if (world_trouble(w, WORLD_KILLS, 2) && !w->planned) {
        world_server_kill(w, world_chance(w, 50));
    }
}

static void step(struct world *w) {
    clocks(w);
    if (w->engine == NULL && w->true_ms >= w->up_at_ms) {
        w->planned = false;
        world_server_up(w);
    }
    world_runs_pass(w);
    serve(w);
    world_sensors_check(w);
    if (w->engine != NULL) {
        world_sensors_step(w, false);
        plan(w);
        snapshot(w);
        look(w);
        disk_fills(w);
        afterwards(w);
    }
}

/* Runs all steps; at the end everything gets the time to come to rest, and is compared. */
void world_run(struct world *w) {
    for (w->step = 1; w->step <= w->steps; w->step++) {
        step(w);
    }
    fakeos_cut_call(w->machine, 0);
    fakeos_fail_call(w->machine, 0, TN_OK);
    fakeos_space_set(w->machine, UINT64_MAX);
    w->full_until_ms = 0;
    if (w->engine == NULL) {
        world_server_up(w);
    }
    if (w->halted) {
        (void)world_server_close(w);
        world_server_up(w);
    }
    world_sensors_rest(w);
    world_server_check(w);
    world_ledger_compare(w);
    world_sensors_shutdown(w);
    (void)world_server_close(w);
    world_server_up(w);
    (void)world_server_close(w);
}
