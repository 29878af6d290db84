/* Opening and closing, callbacks, snapshots and statistics. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "engine/read.h"
#include "lib/library.h"
#include "log/local.h"

/* ---- Callbacks ---- */

static void open_event(void *ctx, const struct engine_event *event) {
    struct tenure *tenure = ctx;
    struct tenure_event out;
    TN_ASSERT(event->fact.value_count <= KERNEL_BUNDLE_MAX);
    lib_event_of(event, tenure->values, &out);
    tenure->options.on_event(tenure->options.event_ctx, &out);
}

static void open_metrics(void *ctx, const struct engine_metrics *metrics) {
    struct tenure *tenure = ctx;
    struct tenure_metrics out;
    lib_metrics_of(metrics, &out);
    tenure->options.on_metrics(tenure->options.metrics_ctx, &out);
}

/* os->ctx is the tenure; the system's other calls do not look at it. */
static uint64_t open_clock_boot(void *ctx) {
    const struct tenure *tenure = ctx;
    return tenure->options.clock.boot_ms(tenure->options.clock.ctx);
}

static uint64_t open_clock_wall(void *ctx) {
    const struct tenure *tenure = ctx;
    return tenure->options.clock.wall_ms(tenure->options.clock.ctx);
}

/* ---- Opening ---- */

__attribute__((format(printf, 3, 4))) static enum tenure_status open_failed(
    struct tenure_error *error, enum tn_status status, const char *format, ...) {
    if (error != NULL) {
        va_list arguments;
        error->status = (enum tenure_status)status;
        va_start(arguments, format);
        (void)vsnprintf(error->text, sizeof error->text, format, arguments);
        va_end(arguments);
    }
    return (enum tenure_status)status;
}

static bool open_limits(const struct tenure_options *options, struct engine_options *out,
                        const char **ret_unknown) {
    for (size_t i = 0; i < options->limit_count; i++) {
        unsigned row = 0;
        *ret_unknown = options->limits[i].name;
        while (row < KERNEL_LIMIT_COUNT &&
               strcmp(options->limits[i].name, kernel_limit_rows[row].name) != 0) {
            row++;
        }
        if (row == KERNEL_LIMIT_COUNT) {
            return false;
        }
        out->limits.of[row] = options->limits[i].value;
        out->limits_mask |= (uint32_t)1 << row;
    }
    return true;
}

static void open_os(struct tenure *tenure) {
    tenure->os = *os_posix();
    if (tenure->options.clock.boot_ms != NULL && tenure->options.clock.wall_ms != NULL) {
        tenure->os.ctx = tenure;
        tenure->os.clock_boot_ms = open_clock_boot;
        tenure->os.clock_wall_ms = open_clock_wall;
    }
}

static struct engine_options open_engine_options(struct tenure *tenure) {
    const struct tenure_options *options = &tenure->options;
    return (struct engine_options){
        .os = &tenure->os,
        .max_downtime_ms = options->max_downtime_s < UINT64_MAX / 1000
                               ? options->max_downtime_s * 1000
                               : UINT64_MAX,
        .confirm_time_jump = options->confirm_time_jump,
        .manual_ticks = options->manual_ticks,
        .snapshot_bytes = options->snapshot_bytes,
        .no_snapshot_at_close = options->no_snapshot_on_close,
        .event = options->on_event != NULL ? open_event : NULL,
        .event_ctx = tenure,
        .replay_events = options->replay_events,
        .events_max = options->events_max,
        .events_dir = options->dir,
        .events_reserve_bytes = options->space_reserve_bytes,
        .metrics = options->on_metrics != NULL ? open_metrics : NULL,
        .metrics_ctx = tenure,
        .notice = options->on_notice,
        .notice_ctx = options->notice_ctx,
    };
}

static enum tn_status open_engine(struct tenure *tenure, struct engine_options *engine,
                                  struct log_error *error) {
    const struct tenure_options *options = &tenure->options;
    const struct log_local_options local = {.os = &tenure->os,
                                            .dir = options->dir,
                                            .segment_bytes = options->segment_bytes,
                                            .space_reserve_bytes = options->space_reserve_bytes,
                                            .use_older_snapshot = options->use_older_snapshot,
                                            .restored = options->restored};
    enum tn_status status = log_local_open(&local, NULL, NULL, &engine->log, error);
    if (status != TN_OK) {
        return status;
    }
    engine->store = log_local_store(engine->log);
    status = engine_open(engine, &tenure->engine, error);
    if (status == TN_OK) {
        status = engine_lead(tenure->engine, error);
        if (status != TN_OK) {
            (void)engine_close(tenure->engine);
        }
    }
    return status;
}

static void open_free(struct tenure *tenure) {
    lib_slots_free(tenure);
    free(tenure);
}

static struct tenure *open_new(const struct tenure_options *options) {
    struct tenure *tenure = aligned_alloc(64, sizeof *tenure);
    if (tenure == NULL) {
        return NULL;
    }
    memset(tenure, 0, sizeof *tenure);
    memcpy(&tenure->options, options, options->size);
    open_os(tenure);
    if (lib_slots_make(tenure) != TN_OK) {
        open_free(tenure);
        return NULL;
    }
    return tenure;
}

enum tenure_status tenure_open(const struct tenure_options *options, struct tenure **ret_tenure,
                               struct tenure_error *error) {
    struct log_error why;
    const char *unknown = NULL;
    if (options->size < offsetof(struct tenure_options, limits) ||
        options->size > sizeof *options || options->dir == NULL) {
        return open_failed(error, TN_INVALID,
                           "the options were not initialized by tenure_options_init");
    }
    struct tenure *tenure = open_new(options);
    if (tenure == NULL) {
        return open_failed(error, TN_NOMEM, "no memory for the library's buffers");
    }
    struct engine_options inner = open_engine_options(tenure);
    if (!open_limits(&tenure->options, &inner, &unknown)) {
        open_free(tenure);
        return open_failed(error, TN_INVALID, "unknown limit '%.60s'", unknown);
    }
    enum tn_status status = open_engine(tenure, &inner, &why);
    if (status != TN_OK) {
        open_free(tenure);
        return open_failed(error, status, "%s", why.text);
    }
    struct kernel_usage usage;
    struct kernel_limits limits = kernel_limits_default();
    (void)engine_usage(tenure->engine, &usage, &limits);
    tenure->bundle_max = (uint32_t)limits.of[KERNEL_LIMIT_BUNDLE];
    *ret_tenure = tenure;
    return TENURE_STATUS_OK;
}

enum tenure_status tenure_close(struct tenure *tenure) {
    if (tenure == NULL) {
        return TENURE_STATUS_OK;
    }
    bool clean = engine_close(tenure->engine);
    open_free(tenure);
    return clean ? TENURE_STATUS_OK : TENURE_STATUS_IO;
}

/* ---- Snapshots and figures ---- */

enum tenure_status tenure_snapshot(struct tenure *tenure, struct tenure_error *error) {
    struct log_error why;
    enum tn_status status = engine_snapshot(tenure->engine, &why);
    if (status != TN_OK) {
        return open_failed(error, status, "%s", why.text);
    }
    return TENURE_STATUS_OK;
}

enum tenure_result tenure_stats_read(struct tenure *tenure, struct tenure_stats *ret_stats) {
    struct engine_stats stats;
    struct kernel_usage usage = {0};
    struct kernel_limits limits;
    engine_stats_read(tenure->engine, &stats);
    enum tn_result code = engine_usage(tenure->engine, &usage, &limits);
    *ret_stats = (struct tenure_stats){
        .lsn = stats.lsn,
        .now_ms = stats.now_ms,
        .log_ahead_ms = stats.log_ahead_ms,
        .overdue_ms = stats.overdue_ms,
        .batches = stats.batches,
        .commands = stats.commands,
        .batch_commands_max = stats.batch_commands_max,
        .queue_commands = stats.queue_commands,
        .halted = (enum tenure_result)stats.stopped,
        .recovery_commands = stats.recovery_commands,
        .recovery_ns = stats.recovery_ns,
        .snapshots = stats.snapshots,
        .snapshots_failed = stats.snapshots_failed,
        .snapshot_hold_ns_max = stats.snapshot_hold_ns_max,
        .log_bytes = stats.log.log_bytes,
        .log_segments = stats.log.segments,
        .snapshot_bytes = stats.log.snapshot_bytes,
        .snapshot_lsn = stats.log.snapshot_lsn,
        .leases = usage.leases,
        .members = usage.members,
        .pools = usage.pools,
        .names = usage.names,
        .ops = usage.ops,
    };
    return (enum tenure_result)code;
}

enum tenure_result tenure_state_hash(struct tenure *tenure, uint64_t *ret_hash) {
    uint64_t lsn;
    return (enum tenure_result)engine_hash(tenure->engine, ret_hash, &lsn);
}
