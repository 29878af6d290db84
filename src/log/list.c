/* Load, its first part: which segments there are, and whether any is missing. */
#include <inttypes.h>

#include "log/recover.h"

enum tn_status log_recover_failed(struct recovery *r, enum tn_status status, const char *name,
                                  const char *what) {
    return log_fail(r->error, status, "%.300s/%s: %s: %s", r->log->dir.path, name, what,
                    tn_status_text(status));
}

static enum tn_status header_check(struct recovery *r, const struct log_segment *segment,
                                   uint64_t seq, bool newest) {
    char name[LOG_NAME_MAX];
    log_segment_name(seq, name);
    const struct log_segment_header *header = &segment->header;
    const char *what = NULL;
    if (header->seq != seq) {
        what = "the header at offset 0 belongs to another segment";
    } else if (newest ? segment->file_bytes != header->bytes
                      : segment->file_bytes > header->bytes) {
        what = "the size of the file is not the one in its header, or the segment after it is "
               "missing";
    } else if (r->log->segment_count > 0) {
        const struct log_segment_header *last = &r->log->segments[r->log->segment_count - 1].header;
        if (header->first_lsn < last->first_lsn || header->now_ms < last->now_ms) {
            what = "the header at offset 0 goes back in LSN or time";
        } else if ((uint32_t)header->shard != (uint32_t)last->shard ||
                   header->shard < last->shard) {
            what = "the header at offset 0 belongs to another shard";
        }
    }
    if (what == NULL) {
        return TN_OK;
    }
    return log_fail(r->error, TN_CORRUPT, "%.300s/%s: %s; " REMEDY_BACKUP, r->log->dir.path, name,
                    what);
}

static enum tn_status header_read(struct recovery *r, const char *name,
                                  struct log_segment *ret_segment) {
    const struct os *os = r->log->dir.os;
    uint8_t bytes[LOG_SEGMENT_HEADER] = {0};
    size_t got = 0;
    int file;
    enum tn_status status = log_dir_open(&r->log->dir, name, OS_READ, &file);
    if (status != TN_OK) {
        return log_recover_failed(r, status, name, "cannot be opened");
    }
    status = os->size(os->ctx, file, &ret_segment->file_bytes);
    if (status == TN_OK) {
        status = os->read_at(os->ctx, file, bytes, sizeof bytes, 0, &got);
    }
    (void)os->close(os->ctx, file);
    if (status != TN_OK) {
        return log_recover_failed(r, status, name, "the header cannot be read");
    }
    status =
        got < sizeof bytes ? TN_CORRUPT : log_segment_header_decode(bytes, &ret_segment->header);
    if (status == TN_VERSION) {
        return log_fail(r->error, status,
                        "%.300s/%s: log format newer than %u, the newest this program knows; start "
                        "the version of tenured that wrote it, or a newer one",
                        r->log->dir.path, name, LOG_SEGMENT_VERSION);
    }
    if (status != TN_OK) {
        return log_fail(r->error, status,
                        "%.300s/%s: the segment header at offset 0 is damaged; " REMEDY_BACKUP,
                        r->log->dir.path, name);
    }
    return TN_OK;
}

/* Index of the first segment of the run without gaps that ends at the newest. */
static size_t run_begin(const struct log_numbers *segments) {
    size_t begin = segments->count == 0 ? 0 : segments->count - 1;
    while (begin > 0 && segments->at[begin - 1] + 1 == segments->at[begin]) {
        begin -= 1;
    }
    return begin;
}

enum tn_status log_recover_collect(struct recovery *r) {
    const struct log_numbers *found = &r->listing.segments;
    for (size_t i = run_begin(found); i < found->count; i++) {
        struct log_segment segment = {0};
        char name[LOG_NAME_MAX];
        log_segment_name(found->at[i], name);
        enum tn_status status = header_read(r, name, &segment);
        if (status == TN_OK) {
            status = header_check(r, &segment, found->at[i], i + 1 == found->count);
        }
        if (status != TN_OK) {
            return status;
        }
        if (!log_local_segment_add(r->log, &segment)) {
            return log_recover_failed(r, TN_NOMEM, name, "cannot be listed");
        }
    }
    return TN_OK;
}

/* The snapshot up to which segments may have been removed: the second newest that ever existed,
 * including those set aside since, but not newer than what is left. */
static bool let_go_up_to(const struct log_listing *listing, uint64_t *ret_lsn) {
    const struct log_numbers *snapshots = &listing->snapshots;
    const struct log_numbers *aside = &listing->set_aside;
    if (snapshots->count == 0) {
        return false;
    }
    uint64_t newest = snapshots->at[snapshots->count - 1];
    if (aside->count > 0 && aside->at[aside->count - 1] > newest) {
        *ret_lsn = newest;
        return true;
    }
    if (snapshots->count >= 2) {
        *ret_lsn = snapshots->at[snapshots->count - 2];
    }
    return snapshots->count >= 2;
}

/* Segments below a gap are leftovers of letting old ones go, but only if even the older snapshot can
 * do without the missing one. */
enum tn_status log_recover_check_gap(struct recovery *r) {
    const struct log_numbers *found = &r->listing.segments;
    size_t begin = run_begin(found);
    if (begin == 0) {
        return TN_OK;
    }
    uint64_t lsn = 0;
    if (let_go_up_to(&r->listing, &lsn) && r->log->segments[0].header.first_lsn <= lsn + 1) {
        return TN_OK;
    }
    char name[LOG_NAME_MAX];
    log_segment_name(found->at[begin] - 1, name);
    return log_fail(r->error, TN_CORRUPT,
                    "%.300s/%s: this segment is missing, but older ones exist; " REMEDY_BACKUP,
                    r->log->dir.path, name);
}

/* Nothing at all is a new log, unless the lock file says that there was one. */
static enum tn_status check_never_begun(struct recovery *r) {
    bool begun = false;
    enum tn_status status = log_proof_begun(r->log, &begun);
    if (status != TN_OK) {
        return log_recover_failed(r, status, LOG_LOCK, "cannot be read");
    }
    if (!begun) {
        return TN_OK;
    }
    char name[LOG_NAME_MAX];
    log_segment_name(1, name);
    return log_fail(
        r->error, TN_CORRUPT,
        "%.250s/%s: this segment is missing: there was a log in this directory; " REMEDY_BACKUP
        ", or remove the file " LOG_LOCK " too to begin with an empty one",
        r->log->dir.path, name);
}

enum tn_status log_recover_check_reach(struct recovery *r) {
    struct log_local *log = r->log;
    uint64_t needed = r->snapshot.lsn + 1;
    char name[LOG_NAME_MAX];
    if (log->segment_count == 0) {
        if (!r->have_snapshot) {
            return check_never_begun(r);
        }
        if (log->options.restored || (log->options.copy && !log->options.copy_begins)) {
            return TN_OK;
        }
        log_snapshot_name(r->snapshot.lsn, name);
        return log_fail(
            r->error, TN_CORRUPT,
            "%.300s/%s: this snapshot exists, but no log segment; if this is a restored backup, "
            "start with --restored, otherwise restore the missing files",
            log->dir.path, name);
    }
    const struct log_segment_header *first = &log->segments[0].header;
    if (first->first_lsn > needed) {
        log_segment_name(first->seq, name);
        return log_fail(r->error, TN_CORRUPT,
                        "%.300s/%s: the log starts at LSN %" PRIu64 ", but LSN %" PRIu64
                        " is needed; %s",
                        log->dir.path, name, first->first_lsn, needed,
                        log->options.use_older_snapshot
                            ? "start without --use-older-snapshot, or " REMEDY_BACKUP
                            : REMEDY_BACKUP);
    }
    if (r->have_snapshot && (uint32_t)first->shard != (uint32_t)r->snapshot.shard) {
        log_snapshot_name(r->snapshot.lsn, name);
        return log_fail(r->error, TN_CORRUPT,
                        "%.300s/%s: snapshot and log belong to different shards; " REMEDY_BACKUP,
                        log->dir.path, name);
    }
    while (r->start + 1 < log->segment_count &&
           log->segments[r->start + 1].header.first_lsn <= needed) {
        r->start += 1;
    }
    return TN_OK;
}
