/* Authority: the one place that decides whether this engine may say that a lease lives, and whether it
 * accepts writes.
 *
 * A lease lives, to a reader, only if both hold:
 *   1. The engine may speak for the log at all. engine_authority gives the reason why not: HALTED;
 *      READONLY, since another node owns the log; MASTERDOWN, since no node is known to own it. A read
 *      asks before it looks and again after it has looked, because the log can be lost in between. A
 *      reader that asks for STALE state is served by a follower as well.
 *   2. The engine's clock has not reached the lease's deadline. The state only knows the time that
 *      the log has recorded, and a tick can be impossible (a full disk, a read inside a callback) or
 *      can leave work behind (it is a bounded step). So a lease is judged by the clock as well.
 *
 * What fails 2 is shown as OVERDUE instead of its stored state, so a caller that compares with
 * ACTIVE fails closed without knowing about this page. `revoking` stays: its holder has lost its
 * authority already, and nobody else may have the values yet.
 *
 * A write asks the log and needs no clock: if the log has another owner by now, the append fails. But a
 * node that is cut off from its log learns that late, and meanwhile the write would wait. So writes are
 * refused as well, with MASTERDOWN, when the ownership ended a while ago and has not been renewed. */
#include "base/assert.h"
#include "engine/internal.h"

enum tn_result engine_authority(const struct engine *engine) {
    return (enum tn_result)atomic_load_explicit(&engine->refusal, memory_order_acquire);
}

/* A renewal may be late: a write is not refused because of a short interruption. */
#define LATE_MS 1000u

bool engine_authority_lapsed(const struct engine *engine) {
    if (TN_LIKELY(!engine->asks_owner)) {
        return false;
    }
    uint64_t until_ms = engine_owned_until(engine);
    return until_ms != UINT64_MAX &&
           (until_ms == 0 || engine->os->clock_boot_ms(engine->os->ctx) >= until_ms + LATE_MS);
}

enum tn_result engine_authority_write(const struct engine *engine) {
    enum tn_result refusal = engine_authority(engine);
    return refusal == TN_R_OK && engine_authority_lapsed(engine) ? TN_R_MASTERDOWN : refusal;
}

bool engine_authority_sound(const struct engine *engine) {
    return atomic_load(&engine->stopped_by) == TN_OK;
}

static enum tn_result authority_stale(const struct engine *engine) {
    if (!engine_authority_sound(engine)) {
        return TN_R_HALTED;
    }
    return atomic_load(&engine->lsn) > 0 ? TN_R_OK : TN_R_NOT_YET;
}

enum tn_result engine_authority_read(const struct engine *engine, enum engine_read_mode mode) {
    const struct log *log = engine->log;
    if (TN_UNLIKELY(mode == ENGINE_READ_STALE)) {
        return authority_stale(engine);
    }
    enum tn_result refusal = engine_authority(engine);
    if (TN_UNLIKELY(engine->asks_owner) && refusal == TN_R_OK && !log->verbs->owned(log)) {
        return TN_R_MASTERDOWN;
    }
    return refusal;
}

uint32_t engine_authority_lead(const struct engine *engine) {
    return atomic_load(&engine->leads);
}

bool engine_authority_confirms(const struct engine *engine, uint32_t lead) {
    struct log *log = engine->log;
    if (log->verbs->confirm == NULL || engine_delivering(engine)) {
        return true;
    }
    /* A lead that was lost and taken again since the look says nothing about the look. */
    return log->verbs->confirm(log) && engine_authority(engine) == TN_R_OK &&
           engine_authority_lead(engine) == lead;
}

bool engine_is_to_confirm(const struct engine *engine) {
    return engine->log->verbs->confirm != NULL;
}

bool engine_confirm(struct engine *engine) {
    struct log *log = engine->log;
    return log->verbs->confirm == NULL || log->verbs->confirm(log);
}

bool engine_authority_mark(struct kernel_lease_view *view, uint64_t clock_ms) {
    bool claims = view->state == KERNEL_RESERVED || view->state == KERNEL_ACTIVE ||
                  view->state == KERNEL_OFFLINE;
    bool passed = view->deadline_ms != 0 && view->deadline_ms <= clock_ms;
    if (claims && passed) {
        view->state = KERNEL_OVERDUE;
    }
    return claims && passed;
}
