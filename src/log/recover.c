/* Load: reads a directory from its snapshot to its last batch, believes nothing unchecked, and writes
 * nothing. Steps 1 to 3 are the snapshot store's load, the others the log's.
 *
 * Algorithm
 * 1. List the directory. Take the newest snapshot (or the one before it, if told so).
 * 2. Take the longest run of segments without a gap in their sequence numbers that ends at the
 *    newest. Every header in it must verify, and the run must reach down to the snapshot.
 * 3. Hand over the snapshot. Begin at the last segment that starts no later than the first LSN after
 *    it (at the first of all, if read only: then everything is checked).
 * 4. In each segment follow the frames. Each must verify, have the LSN that is next (with the gap that
 *    the segment's header may declare), a time not before the last, and the chain value of the last.
 *    A segment that has a successor ends where the successor's first LSN is reached; frames there and
 *    after are superseded. The newest ends at a mark, or where nothing verifies.
 * 5. Where a frame should be and none verifies:
 *      - in a segment with a successor: damage; the successor proves that the frame was synced;
 *      - as the first frame of a started segment: damage; it was synced before the file had a name;
 *      - with a frame that verifies anywhere after it: damage; that frame proves the same;
 *      - with the header of a segment that begins later, there or after it: damage; that header was
 *        meant for another file, and was written after all that it covers had been synced;
 *      - otherwise it is the end of the log. What is there may be a batch that was being written
 *        when the power went: a torn tail, never acknowledged. It is cut, and said so.
 * 6. The last batch is known to be on disk if a mark, or another segment, follows it, or if it opens
 *    a started segment. If not, it may exist in this machine's cache only: see resume.c.
 *
 * The one ambiguity: damage to the last batch, when nothing follows it that proves it was synced,
 * looks like a torn tail. Marks keep that window small, and a start that cannot exclude it gives none
 * of the LSNs again that the batch could have had: see resume.c. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "log/recover.h"

/* One segment while its frames are followed. */
struct segment_scan {
    size_t index;
    const struct log_segment *segment;
    uint64_t limit_lsn; /* the successor's first LSN; UINT64_MAX for the newest */
    uint64_t offset;
};

static bool is_newest(const struct recovery *r, const struct segment_scan *scan) {
    return scan->index + 1 == r->log->segment_count;
}

/* What to do about damage in this segment. */
static const char *remedy_for(const struct recovery *r, const struct segment_scan *scan) {
    if (scan->index < r->start) {
        return "the newest snapshot does not need this file: move it and all segments before it "
               "out of the directory";
    }
    return REMEDY_BACKUP;
}

static enum tn_status damaged(struct recovery *r, const struct segment_scan *scan,
                              const char *what) {
    char name[LOG_NAME_MAX];
    log_segment_name(scan->segment->header.seq, name);
    return log_fail(r->error, TN_CORRUPT,
                    "%.250s/%s: %s at offset %" PRIu64 ", LSN %" PRIu64 "; %s", r->log->dir.path,
                    name, what, scan->offset, r->next_lsn, remedy_for(r, scan));
}

/* -- following frames --------------------------------------------------------------------------- */

static void bytes_free(struct recovery *r) {
    const struct os *os = r->log->dir.os;
    if (r->bytes != NULL) {
        os->mem_release(os->ctx, r->bytes, r->bytes_len);
        r->bytes = NULL;
    }
}

/* Segments have the same size, as a rule, so the memory is used again. It has huge pages: the faults of
 * ordinary ones take longer than reading a file that is cached. */
static bool bytes_take(struct recovery *r, uint64_t len) {
    const struct os *os = r->log->dir.os;
    void *memory;
    if (r->bytes != NULL && r->bytes_len == len) {
        return true;
    }
    bytes_free(r);
    if (os->mem_reserve(os->ctx, (size_t)len, true, &memory) != TN_OK) {
        return false;
    }
    r->bytes = memory;
    r->bytes_len = (size_t)len;
    return true;
}

static enum tn_status segment_load(struct recovery *r, const struct segment_scan *scan) {
    const struct os *os = r->log->dir.os;
    char name[LOG_NAME_MAX];
    log_segment_name(scan->segment->header.seq, name);
    if (!bytes_take(r, scan->segment->file_bytes)) {
        return log_recover_failed(r, TN_NOMEM, name, "cannot be read");
    }
    int file;
    enum tn_status status = log_dir_open(&r->log->dir, name, OS_READ, &file);
    if (status != TN_OK) {
        return log_recover_failed(r, status, name, "cannot be opened");
    }
    size_t got = 0;
    status = os->read_at(os->ctx, file, r->bytes, r->bytes_len, 0, &got);
    (void)os->close(os->ctx, file);
    if (status != TN_OK) {
        return log_recover_failed(r, status, name, "cannot be read");
    }
    return got == r->bytes_len ? TN_OK : damaged(r, scan, "the file became shorter");
}

static bool frame_at(const struct recovery *r, const struct segment_scan *scan, uint64_t offset,
                     struct log_frame *ret_frame) {
    const struct log_segment_header *header = &scan->segment->header;
    return offset < r->bytes_len &&
           log_frame_decode(r->bytes + offset, r->bytes_len - (size_t)offset, header, ret_frame);
}

/* A frame that verifies can still stand in the wrong place. */
static const char *frame_misfit(const struct recovery *r, const struct segment_scan *scan,
                                const struct log_frame *frame) {
    if (frame->first_lsn != r->next_lsn) {
        return "a frame with an unexpected LSN (an undeclared gap or a repetition)";
    }
    if (frame->now_ms < r->now_ms) {
        return "a frame whose time goes back";
    }
    if (frame->chain != r->chain) {
        return "a frame that does not follow the one before it (broken chain)";
    }
    if (frame->first_lsn + frame->count > scan->limit_lsn) {
        return "a frame that reaches beyond the beginning of the next segment";
    }
    if (frame->first_lsn <= r->snapshot.lsn &&
        frame->first_lsn + frame->count - 1 > r->snapshot.lsn) {
        return "a frame that is only partly in the snapshot";
    }
    return NULL;
}

static enum tn_status frame_deliver(struct recovery *r, const struct segment_scan *scan,
                                    const struct log_batch *batch) {
    if (batch->first_lsn <= r->snapshot.lsn) {
        return TN_OK;
    }
    r->log->bytes_appended += log_local_counted(batch->len);
    enum tn_status status = r->loader->batch(r->loader->ctx, batch);
    if (status == TN_OK) {
        return TN_OK;
    }
    char name[LOG_NAME_MAX];
    log_segment_name(scan->segment->header.seq, name);
    return log_fail(r->error, status,
                    "%.250s/%s: the batch at offset %" PRIu64 ", LSN %" PRIu64
                    " was not accepted: %s; " REMEDY_BACKUP,
                    r->log->dir.path, name, scan->offset, batch->first_lsn, tn_status_text(status));
}

/* Delivers a batch and moves behind it, remembering where the log stood before it. */
static enum tn_status frame_follow(struct recovery *r, struct segment_scan *scan,
                                   const struct log_frame *frame) {
    const struct log_segment_header *header = &scan->segment->header;
    struct log_batch batch = {
        .shard = header->shard,
        .first_lsn = frame->first_lsn,
        .now_ms = frame->now_ms,
        .payload = frame->payload,
        .len = frame->len,
        .count = frame->count,
    };
    enum tn_status status = frame_deliver(r, scan, &batch);
    if (status != TN_OK) {
        return status;
    }
    bool opens =
        scan->offset == log_segment_begin(header) && (header->flags & LOG_SEGMENT_STARTED) != 0;
    r->tail = (struct log_tail){
        .before = {.lsn = r->last_lsn,
                   .next_lsn = frame->first_lsn,
                   .now_ms = r->now_ms,
                   .shard = header->shard},
        .chain = r->chain,
        .offset = scan->offset,
        .sole = opens,
        .unmarked = !opens,
        .batch = batch,
    };
    r->chain = log_frame_chain(r->bytes + scan->offset);
    r->last_lsn = frame->first_lsn + frame->count - 1;
    r->next_lsn = log_segment_next(header, r->last_lsn + 1);
    r->now_ms = frame->now_ms;
    scan->offset += log_frame_size(frame->len, header->sector_bytes);
    return TN_OK;
}

/* The offset of a frame that verifies at or after `from`, or 0. Frames begin at sectors, but a write
 * that went astray may have left one at any multiple of 512. */
static uint64_t frame_search(const struct recovery *r, const struct segment_scan *scan,
                             uint64_t from) {
    struct log_frame frame;
    for (uint64_t offset = from; offset < r->bytes_len; offset += LOG_SECTOR_OLD) {
        if (frame_at(r, scan, offset, &frame) && frame.kind != LOG_FRAME_CONTINUED) {
            return offset;
        }
    }
    return 0;
}

/* The offset of a header, at or after `from`, that was written when this segment was in use and had
 * more than was found; or 0. */
static uint64_t stray_search(const struct recovery *r, const struct segment_scan *scan,
                             uint64_t from) {
    struct log_segment_header stray;
    for (uint64_t offset = from; offset + LOG_SEGMENT_HEADER <= r->bytes_len;
         offset += LOG_SECTOR_OLD) {
        if (log_segment_header_decode(r->bytes + offset, &stray) == TN_OK &&
            stray.before_salt == scan->segment->header.salt && stray.first_lsn > r->next_lsn) {
            return offset;
        }
    }
    return 0;
}

/* The bytes behind the end that look like an unfinished batch. Most bytes in a recycled file are
 * from its earlier use, so only those that resemble one of our frames count. */
static uint64_t torn_bytes(const struct recovery *r, const struct segment_scan *scan) {
    const struct log_segment_header *header = &scan->segment->header;
    if (scan->offset >= r->bytes_len) {
        return 0;
    }
    const uint8_t *at = r->bytes + scan->offset;
    size_t room = r->bytes_len - (size_t)scan->offset;
    if ((header->flags & LOG_SEGMENT_RECYCLED) != 0) {
        bool ours = log_frame_resembles(at, header->seq, header->salt, r->next_lsn);
        return ours ? header->sector_bytes : 0;
    }
    while (room > 0 && at[room - 1] == 0) {
        room -= 1;
    }
    return room;
}

/* Nothing verifies where the next frame of the newest segment would be: the end, or damage. */
static enum tn_status tail_end(struct recovery *r, struct segment_scan *scan) {
    const struct log_segment_header *header = &scan->segment->header;
    if (scan->offset == log_segment_begin(header) && (header->flags & LOG_SEGMENT_STARTED) != 0) {
        return damaged(r, scan, "the first frame, which was synced, is damaged");
    }
    uint64_t later = frame_search(r, scan, scan->offset + LOG_SECTOR_OLD);
    if (later != 0) {
        char what[96];
        snprintf(what, sizeof what, "a damaged frame, with a good one after it at offset %" PRIu64,
                 later);
        return damaged(r, scan, what);
    }
    uint64_t stray = stray_search(r, scan, scan->offset);
    if (stray != 0) {
        char what[96];
        snprintf(what, sizeof what,
                 "a missing frame, with the header of the next segment over it at offset %" PRIu64,
                 stray);
        return damaged(r, scan, what);
    }
    uint64_t torn = torn_bytes(r, scan);
    if (torn > 0) {
        char name[LOG_NAME_MAX];
        log_segment_name(header->seq, name);
        log_local_notice(r->log,
                         "event=log_torn_tail file=%s offset=%" PRIu64 " bytes=%" PRIu64
                         " lsn=%" PRIu64
                         " text=\"a batch that was never acknowledged is cut off the end\"",
                         name, scan->offset, torn, r->next_lsn);
        r->log->torn_tail_bytes = torn;
    }
    return TN_OK;
}

/* A mark: the end of the newest segment, and the proof that everything before it was synced. */
static enum tn_status tail_mark(struct recovery *r, struct segment_scan *scan, bool closing) {
    if (!is_newest(r, scan)) {
        return damaged(r, scan, "a mark where the next segment expects more batches");
    }
    if (frame_search(r, scan, scan->offset + LOG_SECTOR_OLD) != 0) {
        return damaged(r, scan, "a mark that is older than the frames after it");
    }
    r->tail.unmarked = false;
    r->tail.closed = closing;
    return TN_OK;
}

static enum tn_status segment_follow(struct recovery *r, struct segment_scan *scan) {
    struct log_frame frame;
    while (r->next_lsn < scan->limit_lsn) {
        if (!frame_at(r, scan, scan->offset, &frame)) {
            return is_newest(r, scan)
                       ? tail_end(r, scan)
                       : damaged(r, scan, "a damaged or missing frame, which was synced,");
        }
        const char *misfit = frame_misfit(r, scan, &frame);
        if (misfit != NULL) {
            return damaged(r, scan, misfit);
        }
        if (frame.count == 0) {
            return tail_mark(r, scan, frame.kind == LOG_FRAME_CLOSING);
        }
        enum tn_status status = frame_follow(r, scan, &frame);
        if (status != TN_OK) {
            return status;
        }
    }
    return TN_OK;
}

/* The newest segment must not refer to a newer one. */
static enum tn_status check_not_continued(struct recovery *r, const struct segment_scan *scan) {
    const struct log_segment_header *header = &scan->segment->header;
    if (!log_proof_continued_in(header, r->bytes, r->bytes_len)) {
        return TN_OK;
    }
    char name[LOG_NAME_MAX];
    log_segment_name(header->seq + 1, name);
    /* A reader needs no lock: the log may have gone on since the directory was listed. */
    const struct os *os = r->log->dir.os;
    int file;
    if (r->log->options.read_only && log_dir_open(&r->log->dir, name, OS_READ, &file) == TN_OK) {
        (void)os->close(os->ctx, file);
        return TN_OK;
    }
    return log_fail(
        r->error, TN_CORRUPT,
        "%.300s/%s: this segment is missing, but the previous segment refers to it; " REMEDY_BACKUP,
        r->log->dir.path, name);
}

/* Takes over what the header says of the log before it: at the first segment that is followed; later
 * ones must agree with what was followed. */
static enum tn_status header_follow(struct recovery *r, const struct segment_scan *scan,
                                    bool first) {
    const struct log_segment_header *header = &scan->segment->header;
    if (first) {
        r->last_lsn = header->first_lsn - 1;
        r->now_ms = header->now_ms;
        r->chain = header->chain;
    } else if (header->chain != r->chain || header->now_ms != r->now_ms ||
               header->first_lsn != r->next_lsn) {
        return damaged(r, scan, "a header that does not follow the segment before it,");
    }
    r->next_lsn = log_segment_next(header, header->first_lsn);
    /* A batch in an older segment is followed by this one's header, which proves it synced. */
    r->tail = (struct log_tail){
        .before = {.lsn = r->last_lsn,
                   .next_lsn = header->first_lsn,
                   .now_ms = r->now_ms,
                   .shard = header->shard},
        .chain = r->chain,
        .offset = log_segment_begin(header),
        .sole = true,
    };
    return TN_OK;
}

static enum tn_status segments_follow(struct recovery *r) {
    struct log_local *log = r->log;
    size_t first = log->options.read_only ? 0 : r->start;
    for (size_t i = first; i < log->segment_count; i++) {
        bool newest = i + 1 == log->segment_count;
        struct segment_scan scan = {
            .index = i,
            .segment = &log->segments[i],
            .limit_lsn = newest ? UINT64_MAX : log->segments[i + 1].header.first_lsn,
            .offset = log_segment_begin(&log->segments[i].header),
        };
        enum tn_status status = header_follow(r, &scan, i == first);
        if (status == TN_OK) {
            status = segment_load(r, &scan);
        }
        if (status == TN_OK && newest) {
            status = check_not_continued(r, &scan);
        }
        if (status == TN_OK) {
            status = segment_follow(r, &scan);
        }
        if (status != TN_OK) {
            return status;
        }
        r->tail.sole = r->tail.sole && !r->tail.closed;
        if (r->tail.sole) {
            r->tail.unmarked = r->tail.batch.count > 0; /* the segment will be replaced */
        } else if (!r->tail.unmarked) {
            r->tail.offset = scan.offset;
        }
    }
    return TN_OK;
}

/* -- the whole ---------------------------------------------------------------------------------- */

static enum tn_status snapshot_choose(struct recovery *r) {
    const struct log_numbers *snapshots = &r->listing.snapshots;
    size_t skip = r->log->options.use_older_snapshot ? 2 : 1;
    if (snapshots->count < skip) {
        return TN_OK;
    }
    r->chosen = snapshots->count - skip;
    r->have_snapshot = true;
    r->snapshot.lsn = snapshots->at[r->chosen];
    const char *remedy = skip == 1 ? REMEDY_OLDER : REMEDY_BACKUP;
    /* The list of segments is checked against the snapshot before either is handed over, so the
     * header is read first and the rest later. */
    return log_snapshot_peek(&r->log->dir, r->snapshot.lsn, remedy, &r->snapshot, r->error);
}

static enum tn_status snapshot_deliver(struct recovery *r) {
    if (!r->have_snapshot) {
        return TN_OK;
    }
    const char *remedy = r->log->options.use_older_snapshot ? REMEDY_BACKUP : REMEDY_OLDER;
    enum tn_status status = log_snapshot_read(&r->log->dir, r->snapshot.lsn, r->loader, remedy,
                                              &r->snapshot, &r->log->snapshot_bytes, r->error);
    r->log->snapshot_ms = status == TN_OK ? r->snapshot.now_ms : 0;
    return status;
}

/* A check reads the other snapshots too, after everything that matters has been handed over. */
static enum tn_status snapshots_check_others(struct recovery *r) {
    const struct log_numbers *snapshots = &r->listing.snapshots;
    for (size_t i = 0; i < snapshots->count; i++) {
        if (!log_numbers_add(&r->log->snapshots, snapshots->at[i])) {
            return log_fail(r->error, TN_NOMEM, "no memory for the list of snapshots");
        }
        if (r->have_snapshot && i == r->chosen) {
            continue;
        }
        struct log_position at;
        uint64_t bytes;
        enum tn_status status =
            log_snapshot_read(&r->log->dir, snapshots->at[i], NULL,
                              "the log can be used without this file: move it out of the directory",
                              &at, &bytes, r->error);
        if (status != TN_OK) {
            return status;
        }
    }
    return TN_OK;
}

/* Where the log stands after all that was read. */
static enum tn_status position_find(struct recovery *r) {
    struct log_local *log = r->log;
    if (log->segment_count == 0) {
        log->position = r->snapshot;
        if (!r->have_snapshot) {
            log->position.shard = log->options.shard_number;
        }
        log->position.next_lsn = log->position.lsn + 1;
        r->tail.before = log->position;
        return TN_OK;
    }
    const struct log_segment_header *newest = &log->segments[log->segment_count - 1].header;
    log->position = (struct log_position){
        .lsn = r->last_lsn, .next_lsn = r->next_lsn, .now_ms = r->now_ms, .shard = newest->shard};
    if (log->position.lsn < r->snapshot.lsn) {
        char name[LOG_NAME_MAX];
        log_segment_name(newest->seq, name);
        return log_fail(r->error, TN_CORRUPT,
                        "%.250s/%s: the log ends at LSN %" PRIu64 ", offset %" PRIu64
                        ", before the snapshot of LSN %" PRIu64 "; " REMEDY_BACKUP,
                        log->dir.path, name, log->position.lsn, r->tail.offset, r->snapshot.lsn);
    }
    if (!r->tail.unmarked && !r->tail.sole) {
        r->tail.before = log->position;
        r->tail.chain = r->chain;
    }
    return TN_OK;
}

static enum tn_status list(struct recovery *r) {
    enum tn_status status = log_dir_list(&r->log->dir, &r->listing);
    if (status != TN_OK) {
        return log_fail(r->error, status, "%.300s: the data directory cannot be listed: %s",
                        r->log->dir.path, tn_status_text(status));
    }
    return TN_OK;
}

typedef enum tn_status step(struct recovery *r);

static enum tn_status run(struct recovery *r, const struct log_loader *loader,
                          struct log_error *error, step *const steps[], size_t count) {
    enum tn_status status = TN_OK;
    r->loader = loader;
    r->error = error;
    for (size_t i = 0; i < count && status == TN_OK; i++) {
        status = steps[i](r);
    }
    return status;
}

/* The segments are judged before the snapshot is delivered, because all files must belong
 * together. */
enum tn_status log_local_store_load(struct log_store *store, const struct log_loader *loader,
                                    struct log_position *ret_at, struct log_error *error) {
    struct log_local *log = log_local_of_store(store);
    step *const steps[] = {list,
                           snapshot_choose,
                           log_recover_collect,
                           log_recover_check_gap,
                           log_recover_check_reach,
                           snapshot_deliver};
    TN_ASSERT(log->recovery == NULL && !log->writable);
    log->recovery = calloc(1, sizeof *log->recovery);
    if (log->recovery == NULL) {
        return log_fail(error, TN_NOMEM, "no memory to recover the log");
    }
    log->recovery->log = log;
    enum tn_status status =
        run(log->recovery, loader, error, steps, sizeof steps / sizeof steps[0]);
    if (status == TN_OK) {
        *ret_at = log->recovery->snapshot;
    }
    return status;
}

enum tn_status log_local_load(struct log *base, const struct log_position *from,
                              const struct log_loader *loader, struct log_position *ret_position,
                              struct log_error *error) {
    struct log_local *log = log_local_of(base);
    step *const steps[] = {segments_follow, position_find, snapshots_check_others};
    TN_ASSERT(log->recovery != NULL && from->lsn == log->recovery->snapshot.lsn);
    enum tn_status status =
        run(log->recovery, loader, error, steps, log->options.read_only ? 3 : 2);
    if (status == TN_OK) {
        *ret_position = log->position;
    }
    return status;
}

enum tn_status log_local_lead(struct log *base, struct log_position *ret_position,
                              struct log_error *error) {
    struct log_local *log = log_local_of(base);
    struct recovery *r = log->recovery;
    TN_ASSERT(r != NULL && !log->options.read_only);
    enum tn_status status = log_local_resume(log, &r->tail, &r->listing, error);
    log_local_recovery_free(log);
    if (status == TN_OK) {
        *ret_position = log->position;
    }
    return status;
}

void log_local_recovery_free(struct log_local *log) {
    if (log->recovery != NULL) {
        bytes_free(log->recovery);
        log_listing_free(&log->recovery->listing);
        free(log->recovery);
        log->recovery = NULL;
    }
}
