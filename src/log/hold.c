/* Copies of the log while it is written: which files make one, and keeping them meanwhile.
 *
 * A copy is the newest snapshot and the segments after it, up to the end of the last batch that was
 * acknowledged when it began. Frames are never written again, so the bytes up to there stay as they
 * are while the log grows; the rest of the newest segment is zeros in the copy. A segment that is
 * begun meanwhile is no part of it, and neither is the mark in the segment before it that says so.
 *
 * The writer moves `end` under the mutex, together with the position, when a batch is durable: in
 * between, a rotation can have added a segment that `end` does not know yet. It is left out. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "log/local_state.h"

_Static_assert(LOG_FILE_NAME_MAX == LOG_NAME_MAX, "names of files fit");

/* The first segment that a start from the snapshot reads: the last one that begins no later than the
 * command after it. */
static size_t segment_first(const struct log_local *log, uint64_t snapshot_lsn) {
    size_t first = 0;
    while (first + 1 < log->segment_count &&
           log->segments[first + 1].header.first_lsn <= snapshot_lsn + 1) {
        first += 1;
    }
    return first;
}

/* With the mutex held. */
static void files_list(const struct log_local *log, struct log_held *held) {
    uint64_t lsn = 0;
    if (log->snapshots.count > 0) {
        lsn = log->snapshots.at[log->snapshots.count - 1];
        struct log_file *file = &held->files[held->count++];
        log_snapshot_name(lsn, file->name);
        file->bytes = file->size = log->snapshot_bytes;
        held->snapshots = 1;
    }
    for (size_t i = segment_first(log, lsn); i < log->segment_count; i++) {
        const struct log_segment *segment = &log->segments[i];
        if (segment->header.seq > log->end.seq) {
            break;
        }
        struct log_file *file = &held->files[held->count++];
        log_segment_name(segment->header.seq, file->name);
        file->size = segment->file_bytes;
        file->bytes = segment->header.seq == log->end.seq ? log->end.offset : segment->file_bytes;
        TN_ASSERT(file->bytes <= file->size);
    }
}

enum tn_status log_local_hold(struct log *base, struct log_held *ret_held) {
    struct log_local *log = log_local_of(base);
    if (!log->writable) {
        return TN_DENIED;
    }
    struct log_held held = {0};
    log_local_lock(log);
    held.files = calloc(log->segment_count + 1, sizeof *held.files);
    if (held.files != NULL) {
        held.position = log->position;
        files_list(log, &held);
        TN_ASSERT(held.count <= log->segment_count + 1);
        log->holds += 1;
    }
    log_local_unlock(log);
    if (held.files == NULL) {
        return TN_NOMEM;
    }
    *ret_held = held;
    return TN_OK;
}

void log_local_release(struct log *base) {
    struct log_local *log = log_local_of(base);
    log_local_lock(log);
    TN_ASSERT(log->holds > 0);
    log->holds -= 1;
    log_local_unlock(log);
    /* What was not removed meanwhile is removed after the next snapshot. */
}
