/* Time as the engine stamps it on batches.
 *
 * When the engine takes the lead, time goes on from the latest of
 *   - the last logged time, and the last time that an owner has shown without logging it;
 *   - the time of the previous owner, if the log has heard that owner: its last stamp and the boot time
 *     since then, so never ahead of the true time;
 *   - this engine's own time, if it has led before in this process;
 *   - the wall clock, only if there is neither of these two. A wall clock that is further ahead than
 *     max_downtime is refused.
 * A wall clock that is wrong on one machine so has no say while others were heard. From then on time
 * advances by the boot clock, so that nothing done to the wall clock shows. A stamp is never smaller than
 * the one before it, within this process and across its restarts, and never 0.
 *
 * The log can be ahead of the wall clock, because that clock was ahead once. The lead is measured at
 * the start and then melts: of every CLOCK_MELT milliseconds of the boot clock, one does not count,
 * until the lead is gone. So time never goes back, and leases last at most a seventh longer. */
#include <inttypes.h>
#include <stdio.h>

#include "base/assert.h"
#include "engine/internal.h"

#define CLOCK_MELT 8u
#define CLOCK_LEAD_TOLD_MS 1000u /* disciplined clocks differ by less than this */
#define CLOCK_DOWNTIME_MS_DEFAULT (30ull * 86400u * 1000u)

static uint64_t clock_read(const struct engine *engine) {
    const struct engine_clock *clock = &engine->clock;
    uint64_t boot_ms = engine->os->clock_boot_ms(engine->os->ctx);
    uint64_t base_ms;
    uint64_t since_ms;
    uint64_t lead_ms;
    uint32_t turn;
    do {
        turn = atomic_load_explicit(&clock->turn, memory_order_acquire);
        base_ms = atomic_load_explicit(&clock->base_ms, memory_order_acquire);
        since_ms = atomic_load_explicit(&clock->boot_ms, memory_order_acquire);
        lead_ms = atomic_load_explicit(&clock->lead_ms, memory_order_acquire);
    } while ((turn & 1) != 0 || atomic_load_explicit(&clock->turn, memory_order_relaxed) != turn);
    if (boot_ms <= since_ms) {
        return base_ms;
    }
    uint64_t passed_ms = boot_ms - since_ms;
    uint64_t melted_ms = passed_ms / CLOCK_MELT;
    if (melted_ms > lead_ms) {
        melted_ms = lead_ms;
    }
    uint64_t now_ms = base_ms + passed_ms - melted_ms;
    return now_ms < KERNEL_TIME_MAX ? now_ms : KERNEL_TIME_MAX;
}

/* Starts the clock at the later of the logged time and the wall clock. A time of 0 means "never"
 * wherever a time is kept, so no time is 0. */
static void clock_base(struct engine *engine, uint64_t base_ms, uint64_t lead_ms) {
    struct engine_clock *clock = &engine->clock;
    uint64_t boot_ms = engine->os->clock_boot_ms(engine->os->ctx);
    atomic_fetch_add(&clock->turn, 1);
    atomic_store(&clock->base_ms, base_ms > 0 ? base_ms : 1);
    atomic_store(&clock->boot_ms, boot_ms);
    atomic_store(&clock->lead_ms, lead_ms);
    atomic_fetch_add(&clock->turn, 1);
}

static void clock_set(struct engine *engine, const struct log_position *at, uint64_t wall_ms) {
    bool ahead = at->lsn > 0 && at->now_ms > wall_ms;
    clock_base(engine, wall_ms > at->now_ms ? wall_ms : at->now_ms,
               ahead ? at->now_ms - wall_ms : 0);
    atomic_store(&engine->last_ms, at->now_ms);
}

/* A follower never stamps anything: its clock only has to judge deadlines, for stale reads. It begins where
 * the log ends, and the log tells it the time of the owner: the wall clock of a follower has no say. */
void engine_clock_open(struct engine *engine, const struct log_position *at) {
    clock_set(engine, at, at->now_ms);
}

void engine_clock_told(struct engine *engine, uint64_t now_ms) {
    clock_base(engine, now_ms < KERNEL_TIME_MAX ? now_ms : KERNEL_TIME_MAX, 0);
}

void engine_clock_follow(struct engine *engine, uint64_t now_ms) {
    if (now_ms > atomic_load(&engine->last_ms)) {
        atomic_store(&engine->last_ms, now_ms);
    }
}

static void clock_tell_lead(struct engine *engine) {
    uint64_t lead_ms = atomic_load(&engine->clock.lead_ms);
    if (lead_ms >= CLOCK_LEAD_TOLD_MS) {
        engine_notice(engine,
                      "event=clock_ahead seconds=%" PRIu64 " reason=\"the log is ahead of the wall "
                      "clock: time goes slower by an eighth until the wall clock has caught up\"",
                      lead_ms / 1000);
    }
}

/* The first lead of this process, over a log whose last owner was not heard. */
static enum tn_status clock_begin(struct engine *engine, const struct log_position *at,
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
                       "end; correct the clock, or confirm the jump (--confirm-time-jump)",
                       (wall_ms - at->now_ms) / 1000, downtime_ms / 1000);
        return TN_TIME_JUMP;
    }
    clock_set(engine, at, wall_ms);
    clock_tell_lead(engine);
    return TN_OK;
}

/* Continues with the previous owner's time if it was heard, because this engine's own may have run
 * ahead of it since it last led. Otherwise continues with its own. Never goes back behind the end
 * of the log. */
static void clock_continue(struct engine *engine, const struct log_position *at,
                           uint64_t heard_ms) {
    struct log_position from = *at;
    uint64_t now_ms = heard_ms > 0 ? heard_ms : engine_now(engine);
    if (now_ms > from.now_ms) {
        from.now_ms = now_ms < KERNEL_TIME_MAX ? now_ms : KERNEL_TIME_MAX;
    }
    clock_set(engine, &from, from.now_ms);
}

enum tn_status engine_clock_start(struct engine *engine, const struct log_position *at,
                                  const struct log_succession *succession,
                                  struct log_error *error) {
    struct log_position from = *at;
    enum tn_status status = TN_OK;
    /* An idle owner announces the time without logging it. */
    if (succession->least_ms > from.now_ms) {
        from.now_ms =
            succession->least_ms < KERNEL_TIME_MAX ? succession->least_ms : KERNEL_TIME_MAX;
    }
    if (succession->heard_ms > 0 || engine->clock_approved) {
        clock_continue(engine, &from, succession->heard_ms);
    } else {
        status = clock_begin(engine, &from, error);
    }
    if (status == TN_OK) {
        engine->clock_approved = true;
        atomic_store(&engine->tick_not_before_ms, 0); /* it was computed in another time */
    }
    return status;
}

uint64_t engine_now(const struct engine *engine) {
    uint64_t last_ms = atomic_load_explicit(&engine->last_ms, memory_order_relaxed);
    uint64_t now_ms = clock_read(engine);
    return now_ms > last_ms ? now_ms : last_ms;
}

/* Only the leader stamps, so last_ms does not change in between. */
uint64_t engine_clock_stamp(struct engine *engine) {
    uint64_t now_ms = engine_now(engine);
    TN_ASSERT(now_ms > 0 && now_ms <= KERNEL_TIME_MAX);
    atomic_store_explicit(&engine->last_ms, now_ms, memory_order_relaxed);
    return now_ms;
}
