/* Time as the engine stamps it on batches.
 *
 * At start it continues from the later of the last logged time and the wall clock; from then on it
 * advances by the boot clock, so that nothing done to the wall clock shows. A stamp is never smaller
 * than the one before it, within this process and across its restarts, and never 0.
 *
 * The log can be ahead of the wall clock, because that clock was ahead once. The lead is measured at
 * the start and then melts: of every CLOCK_MELT milliseconds of the boot clock, one does not count,
 * until the lead is gone. So time never goes back, and leases last a seventh longer at the most. */
#include <inttypes.h>
#include <stdio.h>

#include "engine/internal.h"

#define CLOCK_MELT 8u
#define CLOCK_LEAD_TOLD_MS 1000u /* clocks that are disciplined differ by less */
#define CLOCK_DOWNTIME_MS_DEFAULT (30ull * 86400u * 1000u)

static uint64_t clock_read(const struct engine *engine) {
    uint64_t boot_ms = engine->os->clock_boot_ms(engine->os->ctx);
    if (boot_ms <= engine->clock_boot_ms) {
        return engine->clock_base_ms;
    }
    uint64_t passed_ms = boot_ms - engine->clock_boot_ms;
    uint64_t melted_ms = passed_ms / CLOCK_MELT;
    if (melted_ms > engine->clock_lead_ms) {
        melted_ms = engine->clock_lead_ms;
    }
    uint64_t now_ms = engine->clock_base_ms + passed_ms - melted_ms;
    return now_ms < KERNEL_TIME_MAX ? now_ms : KERNEL_TIME_MAX;
}

static void clock_lead_set(struct engine *engine, const struct log_position *at, uint64_t wall_ms) {
    bool ahead = at->lsn > 0 && at->now_ms > wall_ms;
    engine->clock_lead_ms = ahead ? at->now_ms - wall_ms : 0;
    if (engine->clock_lead_ms >= CLOCK_LEAD_TOLD_MS) {
        engine_notice(engine,
                      "event=clock_ahead seconds=%" PRIu64 " reason=\"the log is ahead of the wall "
                      "clock: time goes slower by an eighth until the wall clock has caught up\"",
                      engine->clock_lead_ms / 1000);
    }
}

enum tn_status engine_clock_start(struct engine *engine, const struct log_position *at,
                                  struct log_error *error) {
    uint64_t wall_ms = engine->os->clock_wall_ms(engine->os->ctx);
    uint64_t downtime_ms = engine->options.max_downtime_ms;
    if (downtime_ms == 0) {
        downtime_ms = CLOCK_DOWNTIME_MS_DEFAULT;
    }
    if (wall_ms > KERNEL_TIME_MAX) {
        (void)snprintf(
            error->text, sizeof error->text,
            "the wall clock shows %" PRIu64 " ms since 1970, which is impossible; set it", wall_ms);
        return TN_INVALID;
    }
    if (at->lsn > 0 && wall_ms > at->now_ms && wall_ms - at->now_ms > downtime_ms &&
        !engine->options.confirm_time_jump) {
        (void)snprintf(error->text, sizeof error->text,
                       "the wall clock is %" PRIu64 " s ahead of the last logged time, more than "
                       "max_downtime (%" PRIu64 " s): every lease with a deadline in between would "
                       "end; correct the clock, or confirm the jump",
                       (wall_ms - at->now_ms) / 1000, downtime_ms / 1000);
        return TN_TIME_JUMP;
    }
    engine->clock_base_ms = wall_ms > at->now_ms ? wall_ms : at->now_ms;
    if (engine->clock_base_ms == 0) {
        engine->clock_base_ms = 1; /* 0 stands for "never" wherever a time is kept */
    }
    clock_lead_set(engine, at, wall_ms);
    engine->clock_boot_ms = engine->os->clock_boot_ms(engine->os->ctx);
    atomic_store(&engine->last_ms, at->now_ms);
    return TN_OK;
}

uint64_t engine_now(const struct engine *engine) {
    uint64_t last_ms = atomic_load_explicit(&engine->last_ms, memory_order_relaxed);
    uint64_t now_ms = clock_read(engine);
    return now_ms > last_ms ? now_ms : last_ms;
}

/* Only the leader stamps, so nobody moves last_ms in between. */
uint64_t engine_clock_stamp(struct engine *engine) {
    uint64_t now_ms = engine_now(engine);
    TN_ASSERT(now_ms > 0 && now_ms <= KERNEL_TIME_MAX);
    atomic_store_explicit(&engine->last_ms, now_ms, memory_order_relaxed);
    return now_ms;
}
