/* Lead: from what load has read to a log that can be written.
 *
 * 1. Sync the directory: the entries that were read may exist in this machine's cache only.
 * 2. If the log ends in a closing mark, nothing can be missing: go on in the newest segment. As the
 *    last step of the start an ordinary mark replaces the closing mark.
 * 3. Otherwise an acknowledged batch may be missing at the end without a trace. Begin a fresh segment
 *    whose header passes over every LSN that the newest segment can have held, so that
 *    no id is ever given twice, whatever was lost.
 *    - If the last batch is not known to be on disk, write it again, with the same LSNs, time and
 *      payload, as the first batch of the fresh segment. Reading it back proves nothing: after a failed
 *      sync the cache can hold, as clean, pages that the disk never got. A crash before the fresh
 *      segment has its name leaves things as they were; after that, the old copy is superseded.
 *    - If the newest segment has no batch but what it got its name with, the fresh one replaces it
 *      by a rename over its name: a directory sync that has failed once may have dropped the entry,
 *      and another one would not bring it back. It has one batch at most. So crashes in a row use
 *      one segment, not one each.
 * 4. Only then change anything else: set the passed-over snapshot aside, cut the unused end off the
 *    segment that was left (so that crashes in a row cost what they wrote, not a segment each),
 *    remove leftovers, adopt spares.
 */
#include <inttypes.h>
#include <string.h>

#include "base/assert.h"
#include "log/local_state.h"

#define GENERATION_ONE ((uint64_t)1 << 32)

static enum tn_status resume_failed(struct log_local *log, enum tn_status status, const char *what,
                                    struct log_error *error) {
    return log_fail(error, status, "%.300s: %s: %s; %s", log->dir.path, what,
                    tn_status_text(status),
                    status == TN_NOSPACE ? "free some space and start again" : "check the disk");
}

static enum tn_status buffer_reserve(struct log_local *log, const struct log_tail *tail) {
    const struct os *os = log->dir.os;
    uint64_t bytes = log->options.segment_bytes;
    if (log->writer.header.bytes > bytes) {
        bytes = log->writer.header.bytes;
    }
    if (tail->unmarked) {
        uint32_t sector = log->options.sector_bytes;
        uint64_t need = LOG_SEGMENT_HEADER + sector + log_frame_size(tail->batch.len, sector);
        bytes = need > bytes ? need : bytes;
    }
    void *memory = NULL;
    enum tn_status status = os->mem_reserve(os->ctx, (size_t)bytes, false, &memory);
    if (status == TN_OK) {
        log->writer.buffer = memory;
        log->writer.buffer_bytes = (size_t)bytes;
    }
    return status;
}

/* Puts the writer where the tail is, before the batch that has to be written again. */
static enum tn_status writer_place(struct log_local *log, const struct log_tail *tail) {
    log->writer.chain = tail->chain;
    log->writer.offset = tail->offset;
    log_local_lock(log); /* other threads may read the figures meanwhile */
    log->position = tail->before;
    log_local_unlock(log);
    if (log->segment_count > 0) {
        log->writer.header = log->segments[log->segment_count - 1].header;
    }
    return buffer_reserve(log, tail);
}

/* Cuts what is behind the last valid batch of the segment that was just left. */
static void old_tail_cut(struct log_local *log, struct log_segment *segment, uint64_t offset) {
    const struct os *os = log->dir.os;
    char name[LOG_NAME_MAX];
    log_segment_name(segment->header.seq, name);
    int file;
    if (offset >= segment->file_bytes || log_dir_open(&log->dir, name, OS_WRITE, &file) != TN_OK) {
        return;
    }
    if (os->truncate(os->ctx, file, offset) == TN_OK) {
        log_local_lock(log);
        segment->file_bytes = offset;
        log_local_unlock(log);
    }
    (void)os->close(os->ctx, file);
}

/* The LSNs that this start passes over: none after a clean close, and none in a copy, whose LSNs are
 * given elsewhere. */
static void skip_choose(const struct log_local *log, const struct log_tail *tail,
                        struct log_rotation *rotation) {
    if (tail->closed || (log->options.copy && !log->options.copy_begins)) {
        return;
    }
    rotation->skip_from =
        tail->unmarked ? tail->batch.first_lsn + tail->batch.count : tail->before.next_lsn;
    rotation->skip_to = log_segment_beyond(&log->writer.header);
    TN_ASSERT(rotation->skip_to > rotation->skip_from);
}

static void tail_notice(struct log_local *log, const struct log_tail *tail,
                        const struct log_rotation *rotation) {
    if (rotation->skip_to != 0) {
        log_local_notice(log,
                         "event=log_positions_skipped from=%" PRIu64 " to=%" PRIu64
                         " text=\"the log was not closed cleanly; these log positions are not "
                         "used, so that no id can be given twice\"",
                         rotation->skip_from, rotation->skip_to - 1);
    }
    if (tail->unmarked && !rotation->again) {
        log_local_notice(
            log,
            "event=log_tail_rewritten lsn=%" PRIu64 " commands=%" PRIu32
            " text=\"the last batch was not marked as synced; it is now in a new segment\"",
            tail->batch.first_lsn, tail->batch.count);
    }
}

/* A fresh segment for the end of a log that was not closed, or that has sectors too small for this
 * disk. */
static enum tn_status segment_begin(struct log_local *log, const struct log_tail *tail) {
    struct log_rotation rotation = {.batch = tail->unmarked ? &tail->batch : NULL,
                                    .shard = log->position.shard,
                                    .urgent = true,
                                    .again = tail->sole};
    skip_choose(log, tail, &rotation);
    if (rotation.skip_to > LOG_LSN_MAX) {
        return TN_INVALID;
    }
    enum tn_status status = log_writer_rotate(log, &rotation);
    if (status != TN_OK) {
        return status;
    }
    if (tail->unmarked) { /* it was counted when it was read */
        log_local_lock(log);
        log->bytes_appended -= log_local_counted(tail->batch.len);
        log_local_unlock(log);
    }
    tail_notice(log, tail, &rotation);
    if (!rotation.again) {
        TN_ASSERT(log->segment_count >= 2);
        old_tail_cut(log, &log->segments[log->segment_count - 2], tail->offset);
    }
    return TN_OK;
}

static enum tn_status writer_open(struct log_local *log) {
    char name[LOG_NAME_MAX];
    log_segment_name(log->writer.header.seq, name);
    return log_dir_open(&log->dir, name, OS_WRITE, &log->writer.file);
}

static enum tn_status tail_resume(struct log_local *log, const struct log_tail *tail) {
    if (log->segment_count == 0) {
        return TN_OK;
    }
    enum tn_status status = writer_open(log);
    if (status != TN_OK) {
        return status;
    }
    if (tail->closed && log->writer.header.sector_bytes >= log->options.sector_bytes) {
        log->writer.closing = true;
        return TN_OK;
    }
    return segment_begin(log, tail);
}

static enum tn_status writer_resume(struct log_local *log, const struct log_tail *tail) {
    enum tn_status status = tail_resume(log, tail);
    if (status != TN_OK) {
        return status;
    }
    struct log_rotation rotation = {.shard = log->position.shard, .urgent = true};
    if (log->options.restored && log->position.lsn > 0) {
        /* Its own segment: no batch of the old generation may appear under the new one. */
        rotation.shard += GENERATION_ONE;
        status = log_writer_rotate(log, &rotation);
    } else if (log->segment_count == 0) {
        status = log_writer_rotate(log, &rotation);
    }
    return status == TN_OK ? log_proof_complete(log) : status;
}

/* -- the rest of the directory ------------------------------------------------------------------ */

static void leftover_remove(struct log_local *log, const char *name) {
    (void)log_dir_remove(&log->dir, name);
    log_local_notice(log, "event=log_leftover_removed file=%s", name);
}

/* The number of snapshots, from the oldest on, that the log does not reach back to: no start can use them.
 * Their removal failed, or a crash undid it. */
static size_t snapshots_left_over(const struct log_local *log, const struct log_numbers *found) {
    size_t count = 0;
    while (log->segment_count > 0 && count < found->count &&
           found->at[count] + 1 < log->segments[0].header.first_lsn) {
        count += 1;
    }
    return count;
}

/* After a start from an older snapshot, the newer one must not be used again, nor may a left-over
 * one be taken for an older one later. So these are removed first, with the same sync. */
static enum tn_status snapshots_adopt(struct log_local *log, const struct log_numbers *found) {
    size_t first = snapshots_left_over(log, found);
    size_t count = found->count;
    for (size_t i = 0; i < first; i++) {
        char name[LOG_NAME_MAX];
        log_snapshot_name(found->at[i], name);
        leftover_remove(log, name);
    }
    if (log->options.use_older_snapshot && count > 0) {
        count -= 1;
        char from[LOG_NAME_MAX];
        char to[LOG_NAME_MAX];
        log_snapshot_name(found->at[count], from);
        log_set_aside_name(found->at[count], to);
        enum tn_status status = log_dir_rename(&log->dir, from, to);
        if (status == TN_OK) {
            status = log_dir_sync(&log->dir);
        }
        if (status != TN_OK) {
            return status;
        }
        log_local_notice(log, "event=log_snapshot_set_aside file=%s renamed=%s", from, to);
    }
    enum tn_status status = TN_OK;
    log_local_lock(log);
    for (size_t i = first; i < count && status == TN_OK; i++) {
        status = log_numbers_add(&log->snapshots, found->at[i]) ? TN_OK : TN_NOMEM;
        log->snapshot_found = found->at[i];
    }
    log_local_unlock(log);
    return status;
}

/* Only one that never was a segment: the renaming of one that was may have failed to reach the disk,
 * and then writing to it would change a segment that a crash brings back. */
static bool spare_usable(struct log_local *log, const char *name) {
    const struct os *os = log->dir.os;
    int file;
    if (log_dir_open(&log->dir, name, OS_READ, &file) != TN_OK) {
        return false;
    }
    uint64_t bytes = 0;
    uint8_t head[8] = {0};
    size_t got = 0;
    enum tn_status status = os->size(os->ctx, file, &bytes);
    if (status == TN_OK) {
        status = os->read_at(os->ctx, file, head, sizeof head, 0, &got);
    }
    (void)os->close(os->ctx, file);
    static const uint8_t zeros[sizeof head];
    return status == TN_OK && bytes == log->options.segment_bytes && got == sizeof head &&
           memcmp(head, zeros, sizeof head) == 0;
}

/* The numbers of all spares are known before the first one is made, so that no name is used twice. */
static void spares_reserve(struct log_local *log, const struct log_listing *listing) {
    for (size_t i = 0; i < listing->spares.count; i++) {
        log_spares_reserve_number(&log->spares, listing->spares.at[i]);
    }
    for (size_t i = 0; i < listing->spare_tmps.count; i++) {
        log_spares_reserve_number(&log->spares, listing->spare_tmps.at[i]);
    }
}

static void spares_adopt(struct log_local *log, const struct log_listing *listing) {
    char name[LOG_NAME_MAX];
    for (size_t i = 0; i < listing->spare_tmps.count; i++) {
        log_spare_tmp_name(listing->spare_tmps.at[i], name);
        (void)log_dir_remove(&log->dir, name);
    }
    for (size_t i = 0; i < listing->spares.count; i++) {
        log_spare_name(listing->spares.at[i], name);
        if (spare_usable(log, name)) {
            log_spares_give(&log->spares, listing->spares.at[i]);
        } else {
            (void)log_dir_remove(&log->dir, name);
        }
    }
}

/* Segments below the run that load accepted: nothing needs them. */
static void leftovers_remove(struct log_local *log, const struct log_listing *listing) {
    char name[LOG_NAME_MAX];
    for (size_t i = 0; i < listing->segments.count; i++) {
        if (log->segment_count > 0 && listing->segments.at[i] < log->segments[0].header.seq) {
            log_segment_name(listing->segments.at[i], name);
            leftover_remove(log, name);
        }
    }
    if (listing->snapshot_tmp) {
        (void)log_dir_remove(&log->dir, LOG_SNAPSHOT_TMP);
    }
}

enum tn_status log_local_resume(struct log_local *log, const struct log_tail *tail,
                                const struct log_listing *listing, struct log_error *error) {
    if (log->options.restored && log->position.lsn > 0 &&
        log->position.shard >> 32 >= LOG_GENERATIONS_MAX) {
        return log_fail(
            error, TN_INVALID,
            "%.300s: this log has been restored %u times and cannot be restored again; start "
            "without --restored if no other copy of it has been written to, or move to a new "
            "directory",
            log->dir.path, LOG_GENERATIONS_MAX);
    }
    spares_reserve(log, listing);
    enum tn_status status = log_dir_sync(&log->dir);
    if (status != TN_OK) {
        return resume_failed(log, status, "cannot sync the directory", error);
    }
    /* The spares come before the writer, which may need one on a disk that is full. */
    spares_adopt(log, listing);
    status = writer_place(log, tail);
    if (status == TN_OK) {
        status = writer_resume(log, tail);
    }
    if (status != TN_OK) {
        return resume_failed(log, status, "cannot open the end of the log for writing", error);
    }
    status = snapshots_adopt(log, &listing->snapshots);
    if (status != TN_OK) {
        return resume_failed(log, status, "cannot set a snapshot aside", error);
    }
    leftovers_remove(log, listing);
    /* Last of all: a start that fails before has given nothing, and leaves a log that is closed. */
    status = log_writer_reopen(log);
    if (status != TN_OK) {
        return resume_failed(log, status, "cannot write the end of the log", error);
    }
    log->end.seq = log->writer.header.seq;
    log->end.offset = log->writer.offset;
    log->writable = true;
    log_local_retain(log);
    if (!log->options.no_background) {
        log_spares_background(&log->spares);
    }
    return TN_OK;
}
