/* Removes snapshots older than the last two, and segments older than the older of them.
 *
 * As long as there is only one snapshot, the log from its beginning is what an operator falls back
 * to, so everything is kept. Old segments become spares while there is room for them.
 *
 * The newest one that was found at the start counts for nothing in this: if the process that made it
 * died before its directory was synced, and that sync failed later, its name is in the cache only,
 * no sync of ours will change that, and nothing reports it. So one more is kept beside it.
 *
 * Order: snapshots before segments, oldest first, so that a crash at any point leaves a contiguous
 * run of segments that covers the snapshots that matter; one directory sync for all; and only then
 * may a retired file be written again (see spare.h). Failures here cost space, not safety: what is
 * left is found and let go at the next start. */
#include "log/local_state.h"

#include <stdlib.h>
#include <string.h>

#include "base/assert.h"

/* The part of the lists that goes, moved out from under the mutex. */
struct retired {
    uint64_t *snapshots;
    size_t snapshot_count;
    struct log_segment *segments;
    size_t segment_count;
};

/* How many of the newest are kept: two that are surely on disk. */
static size_t snapshots_kept(const struct log_local *log) {
    size_t count = log->snapshots.count;
    for (size_t i = 1; i <= 2 && i <= count; i++) {
        if (log->snapshots.at[count - i] == log->snapshot_found) {
            return 3;
        }
    }
    return 2;
}

static size_t snapshots_surplus(const struct log_local *log) {
    size_t kept = snapshots_kept(log);
    return log->snapshots.count > kept ? log->snapshots.count - kept : 0;
}

/* A segment can go when the one after it starts no later than the first LSN that the oldest snapshot
 * that is kept still needs; the last one never goes. */
static size_t segments_surplus(const struct log_local *log) {
    size_t kept = snapshots_kept(log);
    if (log->snapshots.count < kept) {
        return 0;
    }
    uint64_t needed = log->snapshots.at[log->snapshots.count - kept] + 1;
    size_t surplus = 0;
    while (surplus + 1 < log->segment_count &&
           log->segments[surplus + 1].header.first_lsn <= needed) {
        surplus += 1;
    }
    TN_ASSERT(surplus == 0 || surplus < log->segment_count);
    return surplus;
}

static bool retired_take(struct log_local *log, struct retired *ret_retired) {
    size_t snapshots = snapshots_surplus(log);
    size_t segments = segments_surplus(log);
    TN_ASSERT(snapshots <= log->snapshots.count && segments <= log->segment_count);
    struct retired retired = {
        .snapshots = calloc(snapshots + 1, sizeof *retired.snapshots),
        .snapshot_count = snapshots,
        .segments = calloc(segments + 1, sizeof *retired.segments),
        .segment_count = segments,
    };
    if (retired.snapshots == NULL || retired.segments == NULL) {
        free(retired.snapshots);
        free(retired.segments);
        return false;
    }
    if (snapshots > 0) {
        memcpy(retired.snapshots, log->snapshots.at, snapshots * sizeof *retired.snapshots);
        log->snapshots.count -= snapshots;
        memmove(log->snapshots.at, log->snapshots.at + snapshots,
                log->snapshots.count * sizeof *log->snapshots.at);
    }
    if (segments > 0) {
        memcpy(retired.segments, log->segments, segments * sizeof *retired.segments);
        log->segment_count -= segments;
        memmove(log->segments, log->segments + segments,
                log->segment_count * sizeof *log->segments);
    }
    *ret_retired = retired;
    return true;
}

/* Renames the segment to a spare if one is welcome, else removes it. Returns the spare's number. */
static bool segment_retire(struct log_local *log, const struct log_segment *segment,
                           unsigned promised, uint64_t *ret_number) {
    char name[LOG_NAME_MAX];
    log_segment_name(segment->header.seq, name);
    bool whole = segment->file_bytes == log->options.segment_bytes;
    uint64_t number;
    if (whole && log_spares_offer(&log->spares, promised, &number)) {
        char spare[LOG_NAME_MAX];
        log_spare_name(number, spare);
        if (log_dir_rename(&log->dir, name, spare) == TN_OK) {
            *ret_number = number;
            return true;
        }
    }
    (void)log_dir_remove(&log->dir, name);
    return false;
}

void log_local_retain(struct log_local *log) {
    struct retired retired;
    log_local_lock(log);
    bool taken = log->holds == 0 && retired_take(log, &retired);
    log_local_unlock(log);
    if (!taken) {
        return;
    }
    for (size_t i = 0; i < retired.snapshot_count; i++) {
        char name[LOG_NAME_MAX];
        log_snapshot_name(retired.snapshots[i], name);
        (void)log_dir_remove(&log->dir, name);
    }
    uint64_t spares[LOG_SPARES_MAX];
    unsigned spare_count = 0;
    for (size_t i = 0; i < retired.segment_count; i++) {
        if (segment_retire(log, &retired.segments[i], spare_count, &spares[spare_count])) {
            spare_count += 1;
            TN_ASSERT(spare_count <= LOG_SPARES_MAX); /* more spares are never made */
        }
    }
    if (retired.snapshot_count + retired.segment_count > 0 && log_dir_sync(&log->dir) == TN_OK) {
        for (unsigned i = 0; i < spare_count; i++) {
            log_spares_give(&log->spares, spares[i]);
        }
    }
    free(retired.snapshots);
    free(retired.segments);
}
