/* From a batch to the log: the stamp, the append, and what its outcome means.
 *
 * The log may answer before append returns or later, from another thread. If this node has lost the log,
 * the engine follows that one from now on. Any other failure, but for a full disk with nothing written,
 * ends the engine's service: the log is not touched again, because a sync that failed once cannot be
 * trusted to have failed completely. */
#include "base/assert.h"
#include "engine/internal.h"

/* The local log answers before append returns, so no thread sleeps or is woken. */
enum append_state { APPEND_UNDER_WAY, APPEND_AWAITED, APPEND_DONE };

/* `ctx` is the engine. The word changes last, because the leader continues as soon as it does. */
static void append_done(void *ctx, enum tn_status status) {
    struct engine *engine = ctx;
    engine->append_ended_ns = engine->os->clock_boot_ns(engine->os->ctx);
    engine->append_status = status;
    if (atomic_exchange(&engine->appended, APPEND_DONE) == APPEND_AWAITED) {
        engine_park_wake(&engine->appended);
    }
}

static void append_await(struct engine *engine) {
    uint32_t state = APPEND_UNDER_WAY;
    if (engine->log->verbs->await != NULL) {
        engine->log->verbs->await(engine->log);
    }
    while (state != APPEND_DONE) {
        if (state == APPEND_AWAITED ||
            atomic_compare_exchange_strong(&engine->appended, &state, APPEND_AWAITED)) {
            engine_park_wait(&engine->appended, APPEND_AWAITED);
        }
        state = atomic_load(&engine->appended);
    }
}

/* There is only one writer: the leader. */
static void append_count(_Atomic uint64_t *counter, uint64_t more) {
    uint64_t before = atomic_load_explicit(counter, memory_order_relaxed);
    atomic_store_explicit(counter, before + more, memory_order_relaxed);
}

static void append_took(struct engine *engine, uint64_t ns) {
    unsigned bucket = 0;
    while (bucket < ENGINE_APPEND_BUCKETS && ns > engine_append_bound_ns(bucket)) {
        bucket++;
    }
    atomic_store_explicit(&engine->append_ns_last, ns, memory_order_relaxed);
    append_count(&engine->append_ns_sum, ns);
    append_count(&engine->append_histogram[bucket], 1);
}

void engine_log_asked(struct engine *engine, uint64_t now_ns) {
    atomic_store_explicit(&engine->log_asked_ns, now_ns, memory_order_relaxed);
}

void engine_append_begin(struct engine *engine, const struct engine_batch *batch,
                         struct log_batch *ret_logged) {
    TN_ASSERT(batch->count > 0);
    uint64_t applied_lsn = atomic_load_explicit(&engine->lsn, memory_order_relaxed);
    uint64_t last_lsn = applied_lsn > engine->durable_lsn ? applied_lsn : engine->durable_lsn;
    *ret_logged = (struct log_batch){
        .first_lsn = last_lsn >= engine->lsn_least ? last_lsn + 1 : engine->lsn_least,
        .now_ms = engine_clock_stamp(engine),
        .payload = batch->payload,
        .len = batch->len,
        .count = batch->count,
    };
    engine->append_began_ns = engine->os->clock_boot_ns(engine->os->ctx);
    engine_log_asked(engine, engine->append_began_ns);
    atomic_store_explicit(&engine->appended, APPEND_UNDER_WAY, memory_order_relaxed);
    engine->log->verbs->append(engine->log, ret_logged, append_done, engine);
}

enum tn_result engine_append_end(struct engine *engine, const struct log_batch *logged) {
    append_await(engine);
    engine_log_asked(engine, 0);
    enum tn_status status = engine->append_status;
    if (status == TN_OK) {
        append_took(engine, engine->append_ended_ns - engine->append_began_ns);
        engine->durable_lsn = logged->first_lsn + logged->count - 1;
    }
    atomic_store_explicit(&engine->log_full, status == TN_NOSPACE, memory_order_relaxed);
    atomic_fetch_add_explicit(&engine->appends, 1, memory_order_relaxed);
    switch (status) {
    case TN_OK:
        return TN_R_OK;
    case TN_NOSPACE:
        return TN_R_NOSPACE;
    default:
        return engine_role_failed(engine, status);
    }
}

enum tn_result engine_append_batch(struct engine *engine, const struct engine_batch *batch,
                                   struct log_batch *ret_logged) {
    engine_append_begin(engine, batch, ret_logged);
    return engine_append_end(engine, ret_logged);
}
