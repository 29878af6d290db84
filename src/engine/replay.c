/* Recovery: the newest snapshot and every batch after it, through the same apply path as live
 * traffic. Results are dropped; events are delivered, marked as replayed, if the options say so.
 *
 * The first record of a log carries the limits, and so does a snapshot's first section: the kernel
 * is created from one or the other. Nothing here trusts what it is given to be in order, although
 * the log checks it as well: a log that cannot be replayed exactly is refused, with the place. */
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/assert.h"
#include "engine/internal.h"
#include "engine/payload.h"

struct recovery {
    struct engine *engine;
    struct log_position snapshot;
    bool in_snapshot;
    bool has_meta;
    bool replaying;         /* the store of events knows where the replay begins */
    struct log_error error; /* empty unless the error is the replay's own */
};

__attribute__((format(printf, 3, 4))) static enum tn_status recover_fail(struct log_error *error,
                                                                         enum tn_status status,
                                                                         const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    (void)vsnprintf(error->text, sizeof error->text, format, arguments);
    va_end(arguments);
    return status;
}

static enum tn_status env_reserve(void *ctx, size_t bytes, bool big, void **ret_memory) {
    const struct os *os = ctx;
    return os->mem_reserve(os->ctx, bytes, big, ret_memory);
}

static void env_release(void *ctx, void *memory, size_t bytes) {
    const struct os *os = ctx;
    os->mem_release(os->ctx, memory, bytes);
}

enum tn_status engine_kernel_create(struct engine *engine, const struct kernel_limits *limits,
                                    uint64_t shard) {
    struct kernel_env env = {
        .ctx = (void *)(uintptr_t)engine->os,
        .mem_reserve = env_reserve,
        .mem_release = env_release,
        .sink = engine_events_sink_of(engine),
        .sink_ctx = engine,
        .waited = engine_waited_keep,
        .waited_ctx = engine,
    };
    TN_ASSERT(engine->kernel == NULL);
    enum tn_status status =
        engine->os->random(engine->os->ctx, &env.hash_seed, sizeof env.hash_seed);
    if (status != TN_OK) {
        return status;
    }
    return kernel_create(&env, limits, shard, &engine->kernel);
}

/* Tables of other sizes would end the image that is being taken. No image may begin in the middle
 * of a batch, in which the caller may be. */
enum tn_status engine_limits_prepare(struct engine *engine, const struct kernel_limits *limits) {
    bool mid_batch = engine->mid_batch;
    engine->mid_batch = true;
    while (engine->imaging) {
        pthread_cond_wait(&engine->boundary, &engine->state_lock);
    }
    engine->mid_batch = mid_batch;
    if (!mid_batch) {
        pthread_cond_broadcast(&engine->boundary);
    }
    return kernel_limits_prepare(engine->kernel, limits);
}

enum tn_status engine_position_check(const struct engine *engine, const struct log_position *at,
                                     struct log_error *error) {
    uint64_t lsn = engine->kernel != NULL ? kernel_lsn(engine->kernel) : 0;
    if (at->lsn != lsn) {
        return recover_fail(error, TN_CORRUPT,
                            "the log ends at lsn %" PRIu64 ", the state at lsn %" PRIu64, at->lsn,
                            lsn);
    }
    return TN_OK;
}

static bool load_time_possible(uint64_t now_ms) {
    return now_ms > 0 && now_ms <= KERNEL_TIME_MAX;
}

/* ---- The snapshot ---- */

static enum tn_status load_snapshot_begin(void *ctx, const struct log_position *at) {
    struct recovery *recovery = ctx;
    TN_ASSERT(recovery->engine->kernel == NULL);
    if (!load_time_possible(at->now_ms)) {
        return recover_fail(&recovery->error, TN_CORRUPT,
                            "the snapshot carries the time %" PRIu64
                            " ms since 1970, which no snapshot can have",
                            at->now_ms);
    }
    recovery->snapshot = *at;
    recovery->in_snapshot = true;
    return TN_OK;
}

static enum tn_status load_meta_limits(struct recovery *recovery, struct tn_reader *r,
                                       uint32_t version) {
    struct kernel_limits limits = kernel_limits_default();
    uint32_t count = tn_read32(r);
    if (!r->bad && count > KERNEL_LIMIT_COUNT && version <= KERNEL_STATE_VERSION) {
        return recover_fail(&recovery->error, TN_VERSION, "the snapshot has unknown limits");
    }
    for (uint32_t i = 0; i < count && !r->bad; i++) {
        uint64_t limit = tn_read64(r);
        if (i < KERNEL_LIMIT_COUNT) {
            limits.of[i] = limit;
        }
    }
    if (r->bad || kernel_limits_bad(&limits) != KERNEL_LIMIT_COUNT) {
        return recover_fail(&recovery->error, TN_CORRUPT, "the snapshot's limits are damaged");
    }
    enum tn_status status =
        engine_kernel_create(recovery->engine, &limits, recovery->snapshot.shard);
    if (status != TN_OK) {
        return recover_fail(&recovery->error, status, "no memory for the snapshot's limits: %s",
                            tn_status_text(status));
    }
    return TN_OK;
}

static enum tn_status load_meta(struct recovery *recovery, struct tn_bytes bytes) {
    struct tn_reader r = tn_reader_of(bytes.at, bytes.len);
    uint32_t reader = tn_read32(&r);
    if (r.bad || reader < KERNEL_STATE_OLDEST || reader > KERNEL_STATE_VERSION) {
        return recover_fail(&recovery->error, TN_VERSION,
                            "the snapshot's state is of version %" PRIu32
                            ", this program reads %u to %u",
                            reader, KERNEL_STATE_OLDEST, KERNEL_STATE_VERSION);
    }
    uint32_t version = reader > KERNEL_STATE_OLDEST ? tn_read32(&r) : reader;
    if (version < reader) {
        return recover_fail(&recovery->error, TN_CORRUPT,
                            "the snapshot's first section is damaged");
    }
    enum tn_status status = load_meta_limits(recovery, &r, version);
    if (status != TN_OK) {
        return status;
    }
    recovery->has_meta = true;
    kernel_load_version(recovery->engine->kernel, version);
    uint32_t count = tn_read32(&r);
    for (uint32_t i = 0; i < count && !r.bad; i++) {
        struct tn_table_header header = {.id = tn_read32(&r)};
        header.record_bytes = tn_read32(&r);
        header.used = tn_read32(&r);
        header.live = tn_read32(&r);
        header.free_head = tn_read32(&r);
        if (!r.bad && !kernel_load_header(recovery->engine->kernel, &header)) {
            return recover_fail(&recovery->error, TN_CORRUPT,
                                "the snapshot has the unknown table %" PRIu32 "", header.id);
        }
    }
    if (r.bad || tn_reader_left(&r) != 0) {
        return recover_fail(&recovery->error, TN_CORRUPT,
                            "the snapshot's first section is damaged");
    }
    return TN_OK;
}

static enum tn_status load_chunk(struct recovery *recovery, struct tn_bytes bytes) {
    struct tn_reader r = tn_reader_of(bytes.at, bytes.len);
    struct tn_table_chunk chunk = {.table_id = tn_read32(&r)};
    chunk.first = tn_read32(&r);
    chunk.count = tn_read32(&r);
    chunk.bytes = bytes.at + SECTION_CHUNK_HEADER;
    if (r.bad || !recovery->has_meta ||
        !kernel_load_chunk(recovery->engine->kernel, &chunk, tn_reader_left(&r))) {
        return recover_fail(&recovery->error, TN_CORRUPT,
                            "the snapshot's records %" PRIu32 "+%" PRIu32 " of table %" PRIu32
                            " do not fit",
                            chunk.first, chunk.count, chunk.table_id);
    }
    return TN_OK;
}

static enum tn_status load_snapshot_section(void *ctx, const struct log_section *section) {
    struct recovery *recovery = ctx;
    if (section->kind == SECTION_META && !recovery->has_meta) {
        return load_meta(recovery, section->bytes);
    }
    if (section->kind == SECTION_CHUNK) {
        return load_chunk(recovery, section->bytes);
    }
    return recover_fail(&recovery->error, TN_CORRUPT,
                        "the snapshot has a section of unknown kind %" PRIu32, section->kind);
}

static enum tn_status load_snapshot_end(void *ctx) {
    struct recovery *recovery = ctx;
    struct engine *engine = recovery->engine;
    const struct log_position *at = &recovery->snapshot;
    if (!recovery->has_meta || !kernel_load_end(engine->kernel)) {
        return recover_fail(&recovery->error, TN_CORRUPT, "the snapshot's records do not agree");
    }
    char why[160] = "";
    enum tn_status status = kernel_check_status(engine->kernel, why, sizeof why);
    if (status != TN_OK) {
        return recover_fail(&recovery->error, status, "the snapshot's records do not agree: %s",
                            why);
    }
    if (kernel_lsn(engine->kernel) != at->lsn || kernel_now(engine->kernel) != at->now_ms ||
        kernel_shard(engine->kernel) != at->shard) {
        return recover_fail(&recovery->error, TN_CORRUPT,
                            "the snapshot says lsn %" PRIu64 ", its records lsn %" PRIu64, at->lsn,
                            kernel_lsn(engine->kernel));
    }
    recovery->in_snapshot = false;
    engine->recovery_snapshot_lsn = at->lsn;
    atomic_store(&engine->users_lsn, kernel_users_lsn(engine->kernel));
    atomic_store(&engine->lsn, at->lsn);
    atomic_store(&engine->next_due, kernel_next_due(engine->kernel));
    atomic_store(&engine->logged_ms, at->now_ms);
    return TN_OK;
}

/* ---- Batches ---- */

/* Events before the first batch are in the snapshot's files, or there are none. */
static void load_events_begin(struct recovery *recovery) {
    if (!recovery->replaying) {
        recovery->replaying = true;
        engine_events_replay(recovery->engine, recovery->engine->recovery_snapshot_lsn);
    }
}

/* A log without a snapshot begins with its limits. */
static enum tn_status batch_first(struct engine *engine, const struct log_batch *batch,
                                  struct log_error *error) {
    struct kernel_command command;
    struct engine_payload payload = engine_payload_of(batch->payload, batch->len);
    struct tn_bytes first = engine_payload_next(&payload);
    /* Only the very first record has a seed. Its LSN is 1, unless an earlier start crashed before
     * it and the log has skipped the LSNs that it may have given. */
    if (!kernel_command_decode(first, &command) || command.verb != KERNEL_VERB_LIMITS ||
        (command.fields & KERNEL_F_EPOCH) == 0) {
        return recover_fail(error, TN_CORRUPT,
                            "the log begins with lsn %" PRIu64
                            " and no snapshot covers the earlier commands",
                            batch->first_lsn);
    }
    if (kernel_limits_bad(&command.limits) != KERNEL_LIMIT_COUNT) {
        return recover_fail(error, TN_CORRUPT, "the limits in the log's first record are damaged");
    }
    /* Generations above 0 come from later commands, because the segment may have been rewritten. */
    pthread_mutex_lock(&engine->state_lock);
    enum tn_status status = engine_kernel_create(engine, &command.limits, (uint32_t)batch->shard);
    pthread_mutex_unlock(&engine->state_lock);
    if (status != TN_OK) {
        return recover_fail(error, status, "no memory for the logged limits: %s",
                            tn_status_text(status));
    }
    return TN_OK;
}

enum tn_status engine_batch_check(struct engine *engine, const struct log_batch *batch,
                                  struct log_error *error) {
    if (!engine_payload_is_whole(batch)) {
        return recover_fail(error, TN_CORRUPT,
                            "the batch at lsn %" PRIu64 " is not made of commands",
                            batch->first_lsn);
    }
    if (!load_time_possible(batch->now_ms)) {
        return recover_fail(error, TN_CORRUPT,
                            "the batch at lsn %" PRIu64 " carries the time %" PRIu64
                            " ms since 1970, which no batch can have",
                            batch->first_lsn, batch->now_ms);
    }
    enum tn_status status = engine->kernel == NULL ? batch_first(engine, batch, error) : TN_OK;
    if (status != TN_OK) {
        return status;
    }
    if (batch->first_lsn <= kernel_lsn(engine->kernel) ||
        batch->first_lsn > UINT64_MAX - batch->count ||
        batch->now_ms < kernel_now(engine->kernel)) {
        return recover_fail(error, TN_CORRUPT,
                            "the batch at lsn %" PRIu64 " does not follow lsn %" PRIu64,
                            batch->first_lsn, kernel_lsn(engine->kernel));
    }
    return TN_OK;
}

enum tn_status engine_batch_apply(struct engine *engine, const struct log_batch *batch,
                                  struct log_error *error) {
    enum tn_status status = engine_apply_batch(engine, batch, NULL, NULL);
    if (status == TN_VERSION) {
        return recover_fail(error, status,
                            "the batch at lsn %" PRIu64
                            " has a command that this program does not know: a newer version "
                            "logged it; start that version",
                            batch->first_lsn);
    }
    if (status != TN_OK) {
        return recover_fail(error, status,
                            "the limits logged at lsn %" PRIu64
                            " or later in its batch cannot be applied: %s",
                            batch->first_lsn, tn_status_text(status));
    }
    return TN_OK;
}

static enum tn_status load_batch(void *ctx, const struct log_batch *batch) {
    struct recovery *recovery = ctx;
    struct engine *engine = recovery->engine;
    TN_ASSERT(!recovery->in_snapshot);
    enum tn_status status = engine_batch_check(engine, batch, &recovery->error);
    if (status == TN_OK) {
        load_events_begin(recovery);
        status = engine_batch_apply(engine, batch, &recovery->error);
    }
    if (status == TN_OK) {
        engine->recovery_commands += batch->count;
    }
    return status;
}

enum tn_status engine_recover(struct engine *engine, struct log_position *ret_position,
                              struct log_error *error) {
    struct recovery recovery = {.engine = engine};
    struct log_loader loader = {
        .ctx = &recovery,
        .snapshot_begin = load_snapshot_begin,
        .snapshot_section = load_snapshot_section,
        .snapshot_end = load_snapshot_end,
        .batch = load_batch,
    };
    uint64_t started_ns = engine->os->clock_boot_ns(engine->os->ctx);
    engine->events.replaying = true;
    enum tn_status status = log_load(engine->store, engine->log, &loader, ret_position, error);
    if (status == TN_OK) {
        load_events_begin(&recovery);
    }
    engine->events.replaying = false;
    engine->recovery_ns = engine->os->clock_boot_ns(engine->os->ctx) - started_ns;
    if (status != TN_OK && recovery.error.text[0] != '\0') {
        struct log_error where = *error;
        (void)snprintf(error->text, sizeof error->text, "%.300s%s%.200s", where.text,
                       where.text[0] != '\0' ? ": " : "", recovery.error.text);
    }
    return status;
}
