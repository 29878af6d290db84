/* What shows later that a segment was there, so that a file that is missing is missed.
 *
 * A segment is missed if its neighbours know of it: those after it by their sequence number, the one
 * before it by a continued mark in its last sector, which batches never reach. The first segment has
 * none before it; for that one the lock file is not empty. Both are written after the directory
 * with the segment's name has been synced, so neither can promise a segment that a crash took, and
 * synced before anything in the segment is acknowledged, so each segment that matters is promised.
 *
 * A segment that holds nothing but what it got its name with may have that name in the cache only, and
 * syncing the directory once more would not help after that has failed once: resume.c replaces it.
 *
 * A segment that recovery has cut needs no mark: being short says the same. */
#include "base/assert.h"
#include "log/local_state.h"

static const char begun_text[] = "there is a log here: do not remove\n";

static uint64_t continued_at(const struct log_segment_header *header) {
    return header->bytes - header->sector_bytes;
}

static bool continued_decode(const struct log_segment_header *header, const uint8_t *at) {
    struct log_frame frame;
    return log_frame_decode(at, header->sector_bytes, header, &frame) &&
           frame.kind == LOG_FRAME_CONTINUED;
}

bool log_proof_continued_in(const struct log_segment_header *header, const uint8_t *bytes,
                            size_t len) {
    return len == header->bytes && continued_decode(header, bytes + continued_at(header));
}

enum tn_status log_proof_continued(const struct log_local *log, const struct log_segment *segment,
                                   bool *ret_continued) {
    const struct os *os = log->dir.os;
    const struct log_segment_header *header = &segment->header;
    if (segment->file_bytes < header->bytes) {
        *ret_continued = true;
        return TN_OK;
    }
    char name[LOG_NAME_MAX];
    log_segment_name(header->seq, name);
    int file;
    enum tn_status status = log_dir_open(&log->dir, name, OS_READ, &file);
    if (status != TN_OK) {
        return status;
    }
    uint8_t bytes[LOG_SECTOR_MOST];
    size_t got = 0;
    status = os->read_at(os->ctx, file, bytes, header->sector_bytes, continued_at(header), &got);
    (void)os->close(os->ctx, file);
    if (status == TN_OK) {
        *ret_continued = got == header->sector_bytes && continued_decode(header, bytes);
    }
    return status;
}

enum tn_status log_proof_continue(const struct log_local *log, int file,
                                  const struct log_segment_header *header,
                                  const struct log_segment_header *next) {
    const struct os *os = log->dir.os;
    uint8_t bytes[LOG_SECTOR_MOST];
    struct log_frame mark = {
        .kind = LOG_FRAME_CONTINUED,
        .sector_bytes = header->sector_bytes,
        .seq = header->seq,
        .salt = header->salt,
        .first_lsn = next->first_lsn,
        .now_ms = next->now_ms,
        .chain = next->chain,
    };
    size_t size = log_frame_encode(&mark, bytes);
    TN_ASSERT(size == header->sector_bytes);
    enum tn_status status = os->write_at(os->ctx, file, bytes, size, continued_at(header));
    return status == TN_OK ? os->sync(os->ctx, file) : status;
}

/* -- the first segment -------------------------------------------------------------------------- */

enum tn_status log_proof_begun(const struct log_local *log, bool *ret_begun) {
    const struct os *os = log->dir.os;
    int file = log->lock_file;
    *ret_begun = false;
    if (file < 0) {
        enum tn_status opened = log_dir_open(&log->dir, LOG_LOCK, OS_READ, &file);
        if (opened != TN_OK) {
            return opened == TN_NOTFOUND ? TN_OK : opened;
        }
    }
    uint64_t bytes = 0;
    enum tn_status status = os->size(os->ctx, file, &bytes);
    if (file != log->lock_file) {
        (void)os->close(os->ctx, file);
    }
    *ret_begun = bytes > 0;
    return status;
}

static enum tn_status begun_write(const struct log_local *log) {
    const struct os *os = log->dir.os;
    bool begun;
    enum tn_status status = log_proof_begun(log, &begun);
    if (status == TN_OK && !begun) {
        status = os->write_at(os->ctx, log->lock_file, begun_text, sizeof begun_text - 1, 0);
        if (status == TN_OK) {
            status = os->sync(os->ctx, log->lock_file);
        }
    }
    return status;
}

enum tn_status log_proof_complete(const struct log_local *log) {
    const struct os *os = log->dir.os;
    enum tn_status status = begun_write(log);
    if (status != TN_OK || log->segment_count < 2) {
        return status;
    }
    const struct log_segment *before = &log->segments[log->segment_count - 2];
    bool continued = false;
    status = log_proof_continued(log, before, &continued);
    if (status != TN_OK || continued) {
        return status;
    }
    char name[LOG_NAME_MAX];
    log_segment_name(before->header.seq, name);
    int file;
    status = log_dir_open(&log->dir, name, OS_WRITE, &file);
    if (status == TN_OK) {
        status = log_proof_continue(log, file, &before->header, &log->writer.header);
        (void)os->close(os->ctx, file);
    }
    return status;
}
