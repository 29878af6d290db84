/* Reads: committed state, under the state lock, with time brought up to date where it matters. */
#include "engine/internal.h"

#define READ_FENCE_MS 1000u
#define READ_OWNED_STEPS \
    50u /* steps of READ_OWNED_STEP_MS for which a read waits until the log is ours */
#define READ_OWNED_STEP_MS 20u

/* A callback runs on the thread that would apply the missing commands, so it must not wait. */
static enum tn_result wait_applied(struct engine *engine, uint64_t lsn) {
    if (atomic_load(&engine->lsn) >= lsn) {
        return TN_R_OK;
    }
    if (engine_delivering(engine)) {
        return TN_R_NOT_YET;
    }
    uint64_t started_ns = engine->os->clock_boot_ns(engine->os->ctx);
    uint64_t left_ms = READ_FENCE_MS;
    atomic_fetch_add(&engine->fence_waiters, 1);
    while (left_ms > 0 && engine_authority_sound(engine)) {
        uint32_t seen = atomic_load(&engine->applied);
        if (atomic_load(&engine->lsn) >= lsn ||
            !engine_park_wait_ms(&engine->applied, seen, left_ms)) {
            break;
        }
        uint64_t waited_ms = (engine->os->clock_boot_ns(engine->os->ctx) - started_ns) / 1000000u;
        left_ms = waited_ms < READ_FENCE_MS ? READ_FENCE_MS - waited_ms : 0;
    }
    atomic_fetch_sub(&engine->fence_waiters, 1);
    return atomic_load(&engine->lsn) >= lsn ? TN_R_OK : TN_R_NOT_YET;
}

/* Calls the reader once. True: it wants another look after a tick, and there is a use in one. The
 * first tick brings the time; further ones only help if the one before left work behind of what was
 * due at `asked_ms`. The reader judges by the clock as it is now, under the lock: waiting for the
 * lock or for a tick takes time, and a deadline may have passed meanwhile. */
static bool read_look(struct engine *engine, engine_reader *reader, void *ctx, uint64_t asked_ms,
                      bool ticked) {
    pthread_mutex_lock(&engine->state_lock);
    uint64_t state_ms = kernel_now(engine->kernel);
    uint64_t clock_ms = engine_now(engine);
    bool again = reader(ctx, engine->kernel, clock_ms > state_ms ? clock_ms : state_ms);
    bool due = kernel_next_due(engine->kernel) <= asked_ms;
    pthread_mutex_unlock(&engine->state_lock);
    return again && (due || !ticked) && !engine_delivering(engine);
}

/* If there can be no tick, because of a callback or a full disk, the answer is the state at its
 * LSN, with leases judged by the clock. */
static enum tn_result read_current(struct engine *engine, engine_reader *reader, void *ctx) {
    uint64_t asked_ms = engine_now(engine);
    bool ticked = false;
    for (;;) {
        enum tn_result verdict = engine_authority_read(engine, ENGINE_READ_CURRENT);
        if (verdict != TN_R_OK || !read_look(engine, reader, ctx, asked_ms, ticked)) {
            return verdict;
        }
        struct kernel_result tick = {0};
        engine_execute(engine, engine_tick_command(), &tick);
        if (engine_outcome(&tick) != TN_COMMITTED) {
            return tick.code == TN_R_NOSPACE ? TN_R_OK : tick.code;
        }
        ticked = true;
    }
}

/* Calls the reader once and commits no tick: the caller does that. A tick that would change only
 * the time is worth it once, which the caller counts, and not at all if the state's time is the
 * clock's. */
static enum tn_result read_at_once(struct engine *engine, enum engine_read_mode mode,
                                   engine_reader *reader, void *ctx) {
    enum tn_result verdict = engine_authority_read(engine, mode);
    if (verdict != TN_R_OK) {
        return verdict;
    }
    uint64_t asked_ms = engine_now(engine);
    bool timely = atomic_load(&engine->logged_ms) >= asked_ms;
    bool again = read_look(engine, reader, ctx, asked_ms, timely);
    verdict = engine_authority_read(engine, mode);
    if (verdict != TN_R_OK) {
        return verdict; /* the log was lost while the reader looked */
    }
    return again && mode == ENGINE_READ_NOWAIT ? TN_R_NOT_YET : TN_R_OK;
}

enum tn_result engine_wait_lsn(struct engine *engine, uint64_t lsn) {
    int cancel = engine_cancel_hold();
    enum tn_result verdict = wait_applied(engine, lsn);
    engine_cancel_allow(cancel);
    return engine_authority_sound(engine) ? verdict : TN_R_HALTED;
}

/* True: the engine leads, and surely owns the log again. Its renewal may have been late. */
static bool read_wait_owned(struct engine *engine) {
    enum tn_result verdict = engine_authority_read(engine, ENGINE_READ_CURRENT);
    for (unsigned i = 0; i < READ_OWNED_STEPS && verdict == TN_R_MASTERDOWN &&
                         engine_authority(engine) == TN_R_OK && !engine_delivering(engine);
         i++) {
        uint32_t seen = atomic_load(&engine->applied);
        (void)engine_park_wait_ms(&engine->applied, seen, READ_OWNED_STEP_MS);
        verdict = engine_authority_read(engine, ENGINE_READ_CURRENT);
    }
    return verdict == TN_R_OK;
}

/* What was read counts only if this node still owns the log afterwards. */
static enum tn_result read_owned(struct engine *engine, engine_reader *reader, void *ctx) {
    for (bool again = false;; again = true) {
        uint32_t lead = engine_authority_lead(engine);
        enum tn_result verdict = read_current(engine, reader, ctx);
        enum tn_result after = engine_authority_read(engine, ENGINE_READ_CURRENT);
        if (after == TN_R_OK && verdict != TN_R_MASTERDOWN) {
            return engine_authority_confirms(engine, lead) ? verdict : TN_R_MASTERDOWN;
        }
        if (again || !read_wait_owned(engine)) {
            return after != TN_R_OK ? after : verdict;
        }
    }
}

enum tn_result engine_read(struct engine *engine, enum engine_read_mode mode, engine_reader *reader,
                           void *ctx) {
    if (mode != ENGINE_READ_CURRENT) {
        return read_at_once(engine, mode, reader, ctx);
    }
    int cancel = engine_cancel_hold();
    enum tn_result verdict = read_owned(engine, reader, ctx);
    engine_cancel_allow(cancel);
    return verdict;
}

bool engine_is_current(struct engine *engine, uint64_t ms) {
    pthread_mutex_lock(&engine->state_lock);
    bool current = engine->kernel != NULL && kernel_now(engine->kernel) >= ms &&
                   kernel_next_due(engine->kernel) > ms;
    pthread_mutex_unlock(&engine->state_lock);
    return current;
}
