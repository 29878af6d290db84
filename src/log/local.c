/* The local log: open, close and the table of verbs. Its state is in local_state.h. */
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "log/local_state.h"

#define NOTICE_MAX 1024

void log_local_lock(struct log_local *log) {
    int rc = pthread_mutex_lock(&log->mutex);
    TN_ASSERT(rc == 0);
}

void log_local_unlock(struct log_local *log) {
    int rc = pthread_mutex_unlock(&log->mutex);
    TN_ASSERT(rc == 0);
}

void log_local_notice(struct log_local *log, const char *format, ...) {
    if (log->log.notice == NULL) {
        return;
    }
    char line[NOTICE_MAX];
    va_list args;
    va_start(args, format);
    vsnprintf(line, sizeof line, format, args);
    va_end(args);
    log->log.notice(log->log.notice_ctx, line);
}

bool log_local_segment_reserve(struct log_local *log) {
    if (log->segment_count == log->segment_capacity) {
        size_t capacity = log->segment_capacity == 0 ? 16 : log->segment_capacity * 2;
        struct log_segment *segments = realloc(log->segments, capacity * sizeof *segments);
        if (segments == NULL) {
            return false;
        }
        log->segments = segments;
        log->segment_capacity = capacity;
    }
    return true;
}

bool log_local_segment_add(struct log_local *log, const struct log_segment *segment) {
    if (!log_local_segment_reserve(log)) {
        return false;
    }
    log->segments[log->segment_count] = *segment;
    log->segment_count += 1;
    return true;
}

uint64_t log_local_batch_max(const struct log *base) {
    /* Every segment keeps room for a mark behind its last batch. It depends on the size only, not on
     * the disk: a batch that fits here fits after a move to a disk with larger sectors. */
    uint64_t bytes = ((const struct log_local *)base)->options.segment_bytes;
    uint64_t sector = log_segment_sector(bytes, UINT64_MAX);
    return bytes - 2 * sector - LOG_FRAME_HEADER;
}

static void local_stats(struct log *base, struct log_stats *ret_stats) {
    struct log_local *log = log_local_of(base);
    log_local_lock(log);
    ret_stats->segments = log->segment_count;
    ret_stats->appends = log->appends;
    ret_stats->sync_ns_last = log->sync_ns_last;
    ret_stats->torn_tail_bytes = log->torn_tail_bytes;
    ret_stats->log_bytes = 0;
    for (size_t i = 0; i < log->segment_count; i++) {
        ret_stats->log_bytes += log->segments[i].file_bytes;
    }
    log_local_unlock(log);
}

static void local_free(struct log_local *log) {
    const struct os *os = log->dir.os;
    log_local_recovery_free(log);
    log_spares_destroy(&log->spares);
    if (log->writer.file >= 0) {
        (void)os->close(os->ctx, log->writer.file);
    }
    if (log->writer.buffer != NULL) {
        os->mem_release(os->ctx, log->writer.buffer, log->writer.buffer_bytes);
    }
    if (log->dir.file >= 0) {
        (void)os->close(os->ctx, log->dir.file);
    }
    /* Last: when another process gets the lock, this one must no longer write here. */
    if (log->lock_file >= 0) {
        (void)os->close(os->ctx, log->lock_file);
    }
    free(log->segments);
    free(log->snapshots.at);
    pthread_mutex_destroy(&log->mutex);
    free(log);
}

/* The lock on the directory makes it ours. */
static enum tn_status local_start(struct log *base, const struct log_follower *follower) {
    (void)base;
    follower->owner(follower->ctx, true, "");
    return TN_OK;
}

static bool local_close(struct log *base) {
    struct log_local *log = log_local_of(base);
    log_snapshot_writer_abandon(&log->snapshot);
    bool marked = !log->writable || log_writer_finish(log);
    local_free(log);
    return marked;
}

static const struct log_verbs local_verbs = {
    .batch_max = log_local_batch_max,
    .load = log_local_load,
    .start = local_start,
    .lead = log_local_lead,
    .append = log_writer_append,
    .idle = log_writer_idle,
    .hold = log_local_hold,
    .release = log_local_release,
    .stats = local_stats,
    .close = local_close,
};

/* Until the first segment is there, the directory itself may be new, or an earlier start may have
 * failed to sync it into its parent. If another user has made it, in a place that we may not read,
 * it is theirs to see to. */
static enum tn_status open_make_durable(struct log_local *log, bool made, struct log_error *error) {
    bool begun = false;
    enum tn_status status = log_proof_begun(log, &begun);
    if (status == TN_OK && !begun) {
        status = log_dir_sync_parent(&log->dir);
        if (status == TN_DENIED && !made) {
            status = TN_OK;
        }
    }
    if (status != TN_OK) {
        return log_fail(error, status, "%.300s: cannot make it durable: %s", log->dir.path,
                        tn_status_text(status));
    }
    return TN_OK;
}

/* A device that does not report its sectors is assumed to have at most 4096 bytes. */
static void sector_choose(struct log_local *log) {
    const struct os *os = log->dir.os;
    uint64_t device = 0;
    if (log->options.sector_bytes == 0) {
        if (os->sector_bytes(os->ctx, log->dir.path, &device) != TN_OK) {
            device = 0;
        }
        log->options.sector_bytes = log_segment_sector(log->options.segment_bytes, device);
    }
}

static enum tn_status open_directory(struct log_local *log, struct log_error *error) {
    if (log->options.read_only) {
        return TN_OK;
    }
    bool made = false;
    enum tn_status status = log_dir_make(&log->dir, &made);
    if (status == TN_OK) {
        const struct os *os = log->dir.os;
        status = os->open(os->ctx, log->dir.path, OS_READ | OS_DIRECTORY, &log->dir.file);
    }
    if (status != TN_OK) {
        return log_fail(error, status, "%.300s: cannot use the data directory: %s", log->dir.path,
                        tn_status_text(status));
    }
    status = log_dir_lock(&log->dir, &log->lock_file);
    if (status == TN_LOCKED) {
        return log_fail(error, status,
                        "%.300s/lock: the data directory is in use; stop the other process, or "
                        "choose another directory",
                        log->dir.path);
    }
    if (status != TN_OK) {
        return log_fail(error, status, "%.300s/lock: cannot lock it: %s", log->dir.path,
                        tn_status_text(status));
    }
    sector_choose(log);
    return open_make_durable(log, made, error);
}

enum tn_status log_local_open(const struct log_local_options *options, log_notice *notice,
                              void *notice_ctx, struct log **ret_log, struct log_error *error) {
    size_t len = strlen(options->dir);
    if (len == 0 || len >= LOG_DIR_PATH_MAX) {
        return log_fail(error, TN_INVALID, "the path of the data directory is empty or too long");
    }
    struct log_local *log = calloc(1, sizeof *log);
    if (log == NULL) {
        return log_fail(error, TN_NOMEM, "no memory for the log");
    }
    log->log = (struct log){.verbs = &local_verbs, .notice = notice, .notice_ctx = notice_ctx};
    log->store.verbs = &log_local_store_verbs;
    log->dir.os = options->os;
    log->dir.file = -1;
    memcpy(log->dir.path, options->dir, len + 1);
    log->options = *options;
    log->options.dir = log->dir.path;
    log->options.segment_bytes = log_segment_bytes(options->segment_bytes);
    log->lock_file = -1;
    log->snapshot_found = UINT64_MAX;
    log->writer.file = -1;
    log->writer.mark = LOG_MARK_DONE;
    int rc = pthread_mutex_init(&log->mutex, NULL);
    TN_ASSERT(rc == 0);
    log_spares_init(&log->spares, &log->dir, log->options.segment_bytes,
                    options->space_reserve_bytes);
    enum tn_status status = open_directory(log, error);
    if (status != TN_OK) {
        local_free(log);
        return status;
    }
    *ret_log = &log->log;
    return TN_OK;
}

struct log_store *log_local_store(struct log *log) {
    return &log_local_of(log)->store;
}

void log_local_continues(struct log *log) {
    struct log_local_options *options = &log_local_of(log)->options;
    options->copy_begins = false;
    options->restored = false; /* the other log decides about generations */
}
