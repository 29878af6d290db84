/* Before the engine leads: what must be in the log before a request is, and the clock.
 *
 * A new log gets its first record, with the limits and a seed; a restored one the command that tells
 * generations apart. Then waiting leases are marked as unattended, before any command that could grant
 * them values. Then come the limits and the rules of this version, if they differ from those in force.
 * Each is a batch of its own. If the log is lost
 * on the way, what was committed stays, what was only prepared is undone, and the next owner goes on from there. */
#include <stdio.h>
#include <string.h>

#include "base/assert.h"
#include "engine/internal.h"
#include "engine/payload.h"

/* While the engine does not lead, no other thread uses the batches. */
static enum tn_status lead_append(struct engine *engine, const struct kernel_command *command,
                                  struct log_batch *ret_logged) {
    struct engine_batch batch = {.payload = engine->batches[0].payload, .count = 1};
    uint32_t size = kernel_command_size(command);
    TN_ASSERT(size > 0 && size <= engine->batch_bytes_max - ENGINE_PAYLOAD_HEAD_BYTES);
    uint32_t len = kernel_command_encode(command, engine_payload_put(batch.payload, size), size);
    TN_ASSERT(len == size);
    batch.len = len + ENGINE_PAYLOAD_HEAD_BYTES;
    enum tn_result verdict = engine_append_batch(engine, &batch, ret_logged);
    switch (verdict) {
    case TN_R_OK:
        return TN_OK;
    case TN_R_NOSPACE:
        return TN_NOSPACE;
    case TN_R_HALTED:
        return (enum tn_status)atomic_load(&engine->stopped_by);
    default:
        return TN_LOST;
    }
}

/* Commits one command as a batch of its own and adds its size to *bytes. The snapshot thread learns
 * of these batches only after all of them are applied, because the limits may replace the kernel's
 * tables. */
static enum tn_status lead_log_one(struct engine *engine, const struct kernel_command *command,
                                   uint64_t *bytes, struct log_error *error) {
    struct log_batch logged;
    enum tn_status status = lead_append(engine, command, &logged);
    if (status != TN_OK) {
        (void)snprintf(error->text, sizeof error->text, "the first write (%s) failed: %s",
                       kernel_verb_rows[command->verb].name, tn_status_text(status));
        return status;
    }
    engine->limits_prepared = true;
    status = engine_apply_batch(engine, &logged, NULL, NULL);
    TN_ASSERT(status == TN_OK);
    *bytes += logged.len;
    return TN_OK;
}

static struct kernel_limits lead_limits_wanted(const struct engine *engine) {
    struct kernel_limits limits =
        engine->kernel != NULL ? *kernel_limits_of(engine->kernel) : kernel_limits_default();
    for (unsigned i = 0; i < KERNEL_LIMIT_COUNT; i++) {
        if ((engine->options.limits_mask >> i & 1) != 0) {
            limits.of[i] = engine->options.limits.of[i];
        }
    }
    return limits;
}

static enum tn_status lead_limits_check(const struct kernel_limits *limits,
                                        struct log_error *error) {
    enum kernel_limit bad = kernel_limits_bad(limits);
    if (bad == KERNEL_LIMIT_COUNT) {
        return TN_OK;
    }
    const struct kernel_limit_row *row = &kernel_limit_rows[bad];
    (void)snprintf(error->text, sizeof error->text, "%s must be %llu..%llu", row->name,
                   (unsigned long long)row->low, (unsigned long long)row->high);
    return TN_INVALID;
}

/* Begins a new log: its first record has the limits and the seed of the kernel's generator. */
static enum tn_status lead_log_new(struct engine *engine, const struct log_position *at,
                                   uint64_t *bytes, struct log_error *error) {
    struct kernel_command command = {.verb = KERNEL_VERB_LIMITS,
                                     .rights = KERNEL_RIGHT_OPERATOR,
                                     .fields = KERNEL_F_LIMITS | KERNEL_F_EPOCH | KERNEL_F_EDITION,
                                     .edition = KERNEL_EDITION,
                                     .limits = lead_limits_wanted(engine)};
    enum tn_status status = lead_limits_check(&command.limits, error);
    if (status != TN_OK) {
        return status;
    }
    pthread_mutex_lock(&engine->state_lock);
    status = engine_kernel_create(engine, &command.limits, (uint32_t)at->shard);
    pthread_mutex_unlock(&engine->state_lock);
    if (status == TN_OK) {
        status = engine->os->random(engine->os->ctx, &command.epoch, sizeof command.epoch);
    }
    if (status != TN_OK) {
        (void)snprintf(error->text, sizeof error->text, "cannot create a new state: %s",
                       tn_status_text(status));
        return status;
    }
    status = lead_log_one(engine, &command, bytes, error);
    if (status != TN_OK) { /* the one that begins the log creates its state */
        pthread_mutex_lock(&engine->state_lock);
        kernel_destroy(engine->kernel);
        engine->kernel = NULL;
        pthread_mutex_unlock(&engine->state_lock);
    }
    return status;
}

static enum tn_status lead_limits_prepare(struct engine *engine,
                                          const struct kernel_limits *limits) {
    pthread_mutex_lock(&engine->state_lock);
    enum tn_status status = engine_limits_prepare(engine, limits);
    pthread_mutex_unlock(&engine->state_lock);
    return status;
}

/* Gives the tables the sizes of the limits in force again, on which the next owner's batches
 * rely. */
static void lead_limits_undo(struct engine *engine) {
    struct kernel_limits in_force = *kernel_limits_of(engine->kernel);
    enum tn_status status = lead_limits_prepare(engine, &in_force);
    if (status != TN_OK && engine_authority_sound(engine)) {
        (void)engine_role_failed(engine, status);
    }
}

static bool lead_limits_differ(const struct engine *engine, const struct kernel_limits *limits) {
    return memcmp(limits, kernel_limits_of(engine->kernel), sizeof *limits) != 0;
}

/* Makes room for the requested limits, or keeps those in force if that is permitted: then *limits
 * are those. */
static enum tn_status lead_limits_choose(struct engine *engine, struct kernel_limits *limits,
                                         struct log_error *error) {
    enum tn_status status = lead_limits_check(limits, error);
    if (status != TN_OK || !lead_limits_differ(engine, limits)) {
        return status;
    }
    status = lead_limits_prepare(engine, limits);
    if (status == TN_OK) {
        return TN_OK;
    }
    (void)snprintf(error->text, sizeof error->text, "%s",
                   status == TN_INVALID ? "the configured limits are too small for the stored data"
                                        : "no memory for the configured limits");
    if (!engine->options.limits_may_stay) {
        return status;
    }
    engine_notice(engine, "event=limits_refused reason=\"%s\"", error->text);
    error->text[0] = '\0';
    *limits = *kernel_limits_of(engine->kernel);
    return TN_OK;
}

/* Logs the requested limits and the rules of this version if they are not those in force. */
static enum tn_status lead_limits_change(struct engine *engine, uint64_t *bytes,
                                         struct log_error *error) {
    struct kernel_limits wanted = lead_limits_wanted(engine);
    enum tn_status status = lead_limits_choose(engine, &wanted, error);
    if (status != TN_OK || (!lead_limits_differ(engine, &wanted) &&
                            kernel_edition(engine->kernel) == KERNEL_EDITION)) {
        return status;
    }
    struct kernel_command command = {.verb = KERNEL_VERB_LIMITS,
                                     .rights = KERNEL_RIGHT_OPERATOR,
                                     .fields = KERNEL_F_LIMITS | KERNEL_F_EDITION,
                                     .edition = KERNEL_EDITION,
                                     .limits = wanted};
    status = lead_log_one(engine, &command, bytes, error);
    if (status != TN_OK && lead_limits_differ(engine, &wanted)) {
        lead_limits_undo(engine);
    }
    return status;
}

_Static_assert(LOG_GENERATIONS_MAX == KERNEL_RESTORES_MAX,
               "the log refuses a restore that the kernel could not tell apart");

/* Restoring a backup raises the log's generation; this command brings the state to it. */
static enum tn_status lead_restored(struct engine *engine, const struct log_position *at,
                                    uint64_t *bytes, struct log_error *error) {
    const struct kernel_command command = {.verb = KERNEL_VERB_RESTORED,
                                           .rights = KERNEL_RIGHT_OPERATOR};
    enum tn_status status = TN_OK;
    while (status == TN_OK && kernel_shard(engine->kernel) < at->shard) {
        uint64_t before = kernel_shard(engine->kernel);
        status = lead_log_one(engine, &command, bytes, error);
        if (status == TN_OK && kernel_shard(engine->kernel) == before) {
            (void)snprintf(error->text, sizeof error->text,
                           "the state was restored from a backup %llu times, and no more than that "
                           "is possible: its leases must be moved to a new directory",
                           (unsigned long long)(before >> 32));
            return TN_INVALID;
        }
    }
    if (status == TN_OK && kernel_shard(engine->kernel) != at->shard) {
        (void)snprintf(
            error->text, sizeof error->text, "the state belongs to shard %llu, the log to %llu",
            (unsigned long long)kernel_shard(engine->kernel), (unsigned long long)at->shard);
        return TN_CORRUPT;
    }
    return status;
}

/* Notes from whom the log was taken over, for the clock and for later queries. */
static void lead_succeed(struct engine *engine) {
    struct log_succession succession = {0};
    if (engine->log->verbs->succession != NULL) {
        engine->log->verbs->succession(engine->log, &succession);
    }
    pthread_mutex_lock(&engine->submit_lock);
    engine->succession = succession;
    pthread_mutex_unlock(&engine->submit_lock);
}

/* The clients of waiting leases were connected to another process, or to this one before it lost
 * the log. No lease is served before its client is back. In steps, each a batch of its own. */
static enum tn_status lead_unattend(struct engine *engine, uint64_t *bytes,
                                    struct log_error *error) {
    const struct kernel_command command = {.verb = KERNEL_VERB_UNATTEND,
                                           .rights = KERNEL_RIGHT_OPERATOR};
    enum tn_status status = TN_OK;
    while (status == TN_OK && kernel_attended(engine->kernel) > 0) {
        status = lead_log_one(engine, &command, bytes, error);
    }
    return status;
}

enum tn_status engine_lead_prepare(struct engine *engine, struct log_error *error) {
    struct log_position at = {0};
    uint64_t bytes = 0;
    enum tn_status status = engine->log->verbs->lead(engine->log, &at, error);
    if (status != TN_OK) {
        return status;
    }
    status = engine_position_check(engine, &at, error);
    if (status != TN_OK) {
        return status;
    }
    engine->lsn_least = at.next_lsn;
    lead_succeed(engine);
    status = engine_clock_start(engine, &at, &engine->succession, error);
    if (status == TN_OK && engine->kernel == NULL) {
        status = lead_log_new(engine, &at, &bytes, error);
    }
    if (status == TN_OK) {
        status = lead_restored(engine, &at, &bytes, error);
    }
    if (status == TN_OK) {
        status = lead_unattend(engine, &bytes, error);
    }
    if (status == TN_OK) {
        status = lead_limits_change(engine, &bytes, error);
    }
    if (status == TN_OK && bytes > 0) {
        engine_snapshot_appended(engine, bytes);
    }
    if (status == TN_OK) {
        status = engine_metrics_init(engine);
        if (status != TN_OK) {
            (void)snprintf(error->text, sizeof error->text, "no memory for metrics");
        }
    }
    return status;
}
