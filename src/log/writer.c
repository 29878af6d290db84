/* Append, durable marks and rotation: the only code that writes frames.
 *
 * Invariants
 * 1. A frame is written only after the sync of the frame before it has returned. So every frame is
 *    the proof that all before it are durable, and only the last one can be torn.
 * 2. A mark stands where the next batch will go, and that batch overwrites it: marks cost no room.
 *    Frames and marks have physical sectors of their own, so the overwriting can destroy the mark
 *    but not the batch before it. A sector that holds an acknowledged batch is never written again.
 * 3. Every segment keeps room for one mark behind its last batch.
 * 4. A new segment gets its name after its header and first batch have been synced. Until then
 *    nothing of it is part of the log, so a failure for lack of space harms nothing.
 * 5. Once that name is durable, and before the batch is acknowledged, the segment before it gets a
 *    continued mark (proof.c). A batch is refused for sure only before it is written anywhere.
 * 6. After a failed write or sync of a segment that has its name nothing is written any more: what
 *    the disk holds is not known, and a second sync would not find it out.
 * 7. A closing mark is the last thing that a process writes. The next process overwrites it before it
 *    acknowledges anything. */
#include "log/local_state.h"

#include <string.h>

#include "base/assert.h"

/* How much of a new segment comes before its first frame. */
static size_t head_bytes(const struct log_local *log) {
    struct log_segment_header made = {.sector_bytes = log->options.sector_bytes};
    return (size_t)log_segment_begin(&made);
}

static struct log_frame frame_of(const struct log_writer *writer, const struct log_batch *batch) {
    return (struct log_frame){
        .kind = LOG_FRAME_BATCH,
        .sector_bytes = writer->header.sector_bytes,
        .seq = writer->header.seq,
        .salt = writer->header.salt,
        .first_lsn = batch->first_lsn,
        .now_ms = batch->now_ms,
        .chain = writer->chain,
        .count = batch->count,
        .len = batch->len,
        .payload = batch->payload,
    };
}

/* Where frames are encoded in the buffer: behind the place of what a segment begins with. */
static uint8_t *buffer_at(const struct log_local *log) {
    return log->writer.buffer + head_bytes(log);
}

/* Returns the frame's size. */
static size_t buffer_frame(const struct log_local *log, const struct log_frame *frame) {
    uint64_t size = log_frame_size(frame->len, frame->sector_bytes);
    TN_ASSERT(head_bytes(log) + size <= log->writer.buffer_bytes);
    return log_frame_encode(frame, buffer_at(log));
}

/* The batch is durable: the log stands behind it. */
static void writer_advance(struct log_local *log, const struct log_batch *batch, size_t size) {
    struct log_writer *writer = &log->writer;
    TN_ASSERT(writer->offset + size <= writer->header.bytes);
    TN_ASSERT(batch->first_lsn > log->position.lsn && batch->now_ms >= log->position.now_ms);
    writer->chain = log_frame_chain(buffer_at(log));
    writer->offset += size;
    log_local_lock(log);
    log->position.lsn = batch->first_lsn + batch->count - 1;
    log->position.next_lsn = log_segment_next(&writer->header, log->position.lsn + 1);
    log->position.now_ms = batch->now_ms;
    log->end.seq = writer->header.seq;
    log->end.offset = writer->offset;
    log->bytes_appended += log_local_counted(batch->len);
    log_local_unlock(log);
}

static enum tn_status sync_timed(struct log_local *log, int file) {
    const struct os *os = log->dir.os;
    uint64_t before = os->clock_boot_ns(os->ctx);
    enum tn_status status = os->sync(os->ctx, file);
    uint64_t took = os->clock_boot_ns(os->ctx) - before;
    log_local_lock(log);
    log->sync_ns_last = took;
    log_local_unlock(log);
    return status;
}

/* -- rotation ----------------------------------------------------------------------------------- */

static uint64_t rotate_bytes(const struct log_local *log, const struct log_batch *batch) {
    uint64_t usual = log->options.segment_bytes;
    if (batch == NULL) {
        return usual;
    }
    /* A batch that recovery writes again may come from a segment that was larger, or that had smaller
     * sectors. */
    uint32_t sector = log->options.sector_bytes;
    uint64_t need = head_bytes(log) + log_frame_size(batch->len, sector) + sector;
    need = (need + LOG_SEGMENT_HEADER - 1) / LOG_SEGMENT_HEADER * LOG_SEGMENT_HEADER;
    return need > usual ? need : usual;
}

static enum tn_status rotate_header(struct log_local *log, const struct log_rotation *rotation,
                                    const struct log_spare *spare,
                                    struct log_segment_header *ret_header) {
    const struct os *os = log->dir.os;
    uint64_t salt = 0;
    TN_ASSERT(rotation->batch == NULL || rotation->batch->first_lsn == log->position.next_lsn);
    enum tn_status status = os->random(os->ctx, &salt, sizeof salt);
    if (status != TN_OK) {
        return status;
    }
    *ret_header = (struct log_segment_header){
        .seq = log->writer.header.seq + (rotation->again ? 0 : 1),
        .bytes = rotate_bytes(log, rotation->batch),
        .shard = rotation->shard,
        .first_lsn = log->position.next_lsn,
        .now_ms = log->position.now_ms,
        .chain = log->writer.chain,
        .salt = salt,
        .skip_from = rotation->skip_from,
        .skip_to = rotation->skip_to,
        .sector_bytes = log->options.sector_bytes,
        .before_salt = log->writer.header.salt,
        .flags = (rotation->batch != NULL ? LOG_SEGMENT_STARTED : 0u) |
                 (spare->recycled ? LOG_SEGMENT_RECYCLED : 0u),
    };
    return TN_OK;
}

/* Everything that needs a descriptor, memory or space. Nothing of the batch is written yet. */
static enum tn_status rotate_prepare(struct log_local *log, const struct log_rotation *rotation,
                                     struct log_spare *ret_spare,
                                     struct log_segment_header *ret_header) {
    log_local_lock(log);
    bool room = log_local_segment_reserve(log);
    log_local_unlock(log);
    if (!room) {
        return TN_NOMEM;
    }
    struct log_spare spare;
    enum tn_status status =
        log_spares_take(&log->spares, rotate_bytes(log, rotation->batch), rotation->urgent, &spare);
    if (status != TN_OK) {
        return status;
    }
    status = rotate_header(log, rotation, &spare, ret_header);
    if (status == TN_OK && spare.file < 0) {
        char name[LOG_NAME_MAX];
        log_spare_name(spare.number, name);
        status = log_dir_open(&log->dir, name, OS_WRITE, &spare.file);
    }
    if (status != TN_OK) {
        log_spares_discard(&log->spares, &spare);
        return status;
    }
    *ret_spare = spare;
    return TN_OK;
}

/* Encodes header and batch. Returns the size of the batch's frame; 0: there is none. */
static size_t rotate_encode(struct log_local *log, const struct log_batch *batch,
                            const struct log_segment_header *header) {
    struct log_writer *writer = &log->writer;
    memset(writer->buffer, 0, head_bytes(log));
    log_segment_header_encode(header, writer->buffer);
    if (batch == NULL) {
        return 0;
    }
    struct log_frame frame = frame_of(writer, batch);
    frame.seq = header->seq;
    frame.salt = header->salt;
    frame.sector_bytes = header->sector_bytes;
    return buffer_frame(log, &frame);
}

/* Writes header and first batch into the spare, syncs it and gives it its name. */
static enum tn_status rotate_write(struct log_local *log, const struct log_spare *spare,
                                   const struct log_segment_header *header, size_t len) {
    const struct os *os = log->dir.os;
    TN_ASSERT(spare->file >= 0 && len <= header->bytes);
    enum tn_status status = os->write_at(os->ctx, spare->file, log->writer.buffer, len, 0);
    if (status == TN_OK) {
        status = sync_timed(log, spare->file);
    }
    if (status != TN_OK) {
        return status;
    }
    char from[LOG_NAME_MAX];
    char to[LOG_NAME_MAX];
    log_spare_name(spare->number, from);
    log_segment_name(header->seq, to);
    return log_dir_rename(&log->dir, from, to);
}

/* The segment has its name: it is the one being written from now on. */
static void rotate_adopt(struct log_local *log, bool again, int file,
                         const struct log_segment_header *header) {
    struct log_segment segment = {.header = *header, .file_bytes = header->bytes};
    log_local_lock(log);
    if (again) {
        TN_ASSERT(log->segment_count > 0);
        log->segments[log->segment_count - 1] = segment;
    } else {
        bool added = log_local_segment_add(log, &segment);
        TN_ASSERT(added); /* there was room */
    }
    log->position.shard = header->shard;
    log->position.next_lsn = log_segment_next(header, header->first_lsn);
    log_local_unlock(log);
    log->writer.file = file;
    log->writer.header = *header;
    log->writer.offset = log_segment_begin(header);
    log->writer.mark = LOG_MARK_DONE;
    log->writer.closing = false;
}

/* The replacement has durably taken the name of this one. If the disk lost that rename anyway, the
 * old file would be back, intact but without the batches written since. So it is overwritten, and
 * recovery would refuse it. */
static void rotate_spoil(struct log_local *log, int old_file) {
    static const uint8_t zeros[LOG_SEGMENT_HEADER];
    const struct os *os = log->dir.os;
    if (os->write_at(os->ctx, old_file, zeros, sizeof zeros, 0) == TN_OK) {
        (void)os->sync(os->ctx, old_file);
    }
}

/* Makes the name durable, then lets the segment before it say so: never the other way round. */
static enum tn_status rotate_finish(struct log_local *log, bool again, int old_file,
                                    const struct log_segment_header *old) {
    const struct os *os = log->dir.os;
    enum tn_status status = log_dir_sync(&log->dir);
    if (old_file < 0) {
        return status;
    }
    if (status == TN_OK && again) {
        rotate_spoil(log, old_file);
    } else if (status == TN_OK) {
        status = log_proof_continue(log, old_file, old, &log->writer.header);
    }
    (void)os->close(os->ctx, old_file);
    return status;
}

enum tn_status log_writer_rotate(struct log_local *log, struct log_rotation *rotation) {
    struct log_writer *writer = &log->writer;
    struct log_spare spare;
    struct log_segment_header header;
    enum tn_status status = rotate_prepare(log, rotation, &spare, &header);
    if (status != TN_OK) {
        return status;
    }
    size_t size = rotate_encode(log, rotation->batch, &header);
    rotation->written = true;
    status = rotate_write(log, &spare, &header, head_bytes(log) + size);
    if (status != TN_OK) {
        log_spares_discard(&log->spares, &spare);
        return status;
    }
    rotation->named = true;
    int old_file = writer->file;
    struct log_segment_header old = writer->header;
    rotate_adopt(log, rotation->again, spare.file, &header);
    status = rotate_finish(log, rotation->again, old_file, &old);
    if (status == TN_OK && rotation->batch != NULL) {
        writer_advance(log, rotation->batch, size);
    }
    return status;
}

/* -- append and marks --------------------------------------------------------------------------- */

static enum tn_status append_in_place(struct log_local *log, const struct log_batch *batch) {
    struct log_writer *writer = &log->writer;
    const struct os *os = log->dir.os;
    TN_ASSERT(writer->file >= 0 && writer->offset % writer->header.sector_bytes == 0);
    struct log_frame frame = frame_of(writer, batch);
    size_t size = buffer_frame(log, &frame);
    enum tn_status status =
        os->write_at(os->ctx, writer->file, buffer_at(log), size, writer->offset);
    if (status == TN_OK) {
        status = sync_timed(log, writer->file);
    }
    if (status != TN_OK) {
        writer->dead = true;
        return TN_IO;
    }
    writer->mark = LOG_MARK_DUE;
    writer_advance(log, batch, size);
    return TN_OK;
}

/* Nothing of it was written, and nothing but space, memory or descriptors may be wanting: the caller
 * may try again. Said once, not for each attempt; a full disk is for the caller to tell. */
static enum tn_status append_refused(struct log_local *log, enum tn_status status) {
    if (status != TN_NOSPACE && !log->writer.refused) {
        log->writer.refused = true;
        log_local_notice(log,
                         "event=log_append_refused status=%s text=\"a new segment cannot be made "
                         "(%s; the limit of open files counts too); nothing was written, writes "
                         "are refused until it can\"",
                         tn_status_name(status), tn_status_text(status));
    }
    return TN_NOSPACE;
}

static enum tn_status append_rotating(struct log_local *log, const struct log_batch *batch) {
    uint64_t shard = log->options.copy ? batch->shard : log->position.shard;
    struct log_rotation rotation = {.batch = batch, .shard = shard};
    enum tn_status status = log_writer_rotate(log, &rotation);
    if (status == TN_OK) {
        log->writer.refused = false;
        return TN_OK;
    }
    if (!rotation.written || (status == TN_NOSPACE && !rotation.named)) {
        return append_refused(log, status);
    }
    log->writer.dead = true;
    return TN_IO;
}

void log_writer_append(struct log *base, const struct log_batch *batch, log_committed *done,
                       void *ctx) {
    struct log_local *log = log_local_of(base);
    struct log_writer *writer = &log->writer;
    TN_ASSERT(log->writable);
    TN_ASSERT(batch->count > 0);
    TN_ASSERT(batch->len <= log_local_batch_max(&log->log));
    if (writer->dead) {
        done(ctx, TN_IO);
        return;
    }
    TN_ASSERT(batch->first_lsn == log->position.next_lsn);
    TN_ASSERT(batch->now_ms >= log->position.now_ms);

    uint32_t sector = writer->header.sector_bytes;
    uint64_t end = writer->offset + log_frame_size(batch->len, sector) + sector;
    bool here =
        end <= writer->header.bytes && (!log->options.copy || batch->shard == log->position.shard);
    enum tn_status status = here ? append_in_place(log, batch) : append_rotating(log, batch);
    if (status == TN_OK) {
        log_local_lock(log);
        log->appends += 1;
        log_local_unlock(log);
    }
    done(ctx, status);
}

/* Writes the mark where the next batch will go. It is no part of the chain and moves nothing. */
static enum tn_status mark_write(struct log_local *log, enum log_frame_kind kind) {
    struct log_writer *writer = &log->writer;
    const struct os *os = log->dir.os;
    TN_ASSERT(writer->offset + writer->header.sector_bytes <= writer->header.bytes);
    struct log_frame mark = {
        .kind = kind,
        .sector_bytes = writer->header.sector_bytes,
        .seq = writer->header.seq,
        .salt = writer->header.salt,
        .first_lsn = log->position.next_lsn,
        .now_ms = log->position.now_ms,
        .chain = writer->chain,
    };
    size_t size = buffer_frame(log, &mark);
    enum tn_status status =
        os->write_at(os->ctx, writer->file, buffer_at(log), size, writer->offset);
    if (status != TN_OK) {
        writer->dead = true;
        return status;
    }
    writer->mark = LOG_MARK_DONE;
    writer->closing = kind == LOG_FRAME_CLOSING;
    return TN_OK;
}

enum tn_status log_writer_idle(struct log *base) {
    struct log_local *log = log_local_of(base);
    if (log->writer.dead) {
        return TN_IO;
    }
    return log->writable && log->writer.mark == LOG_MARK_DUE ? mark_write(log, LOG_FRAME_MARK)
                                                             : TN_OK;
}

static enum tn_status mark_sync(struct log_local *log, enum log_frame_kind kind) {
    const struct os *os = log->dir.os;
    enum tn_status status = mark_write(log, kind);
    if (status == TN_OK) {
        status = os->sync(os->ctx, log->writer.file);
        log->writer.dead = status != TN_OK;
    }
    return status;
}

enum tn_status log_writer_reopen(struct log_local *log) {
    return log->writer.closing ? mark_sync(log, LOG_FRAME_MARK) : TN_OK;
}

bool log_writer_finish(struct log_local *log) {
    return !log->writer.dead && mark_sync(log, LOG_FRAME_CLOSING) == TN_OK;
}
