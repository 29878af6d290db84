/* Append, durable marks and rotation: the only code that writes frames.
 *
 * Invariants
 * 1. A frame is written only after the sync of the frame before it has returned. So every frame is
 *    the proof that all before it are durable, and only the last one can be torn.
 * 2. A mark stands where the next batch will go, and that batch overwrites it: marks cost no room.
 *    What a torn overwrite destroys is the mark's own word, never the batch it spoke of.
 * 3. Every segment keeps room for one mark behind its last batch.
 * 4. A new segment gets its name after its header and first batch have been synced. Until then
 *    nothing of it is part of the log, so a failure for lack of space harms nothing.
 * 5. After a failed write or sync of a segment that has its name nothing is written any more: what
 *    the disk holds is not known, and a second sync would not find it out.
 *
 * A write runs to the end of its 4096-byte page, in zeros: the system then never has to read a page
 * of a recycled segment in order to change a part of it. Those sectors hold nothing yet. */
#include "log/state.h"

#include <string.h>

#include "base/assert.h"

#define PAGE_BYTES 4096u

static uint64_t page_end(uint64_t offset) {
    return (offset + PAGE_BYTES - 1) / PAGE_BYTES * PAGE_BYTES;
}

static struct log_frame frame_of(const struct log_writer *writer, const struct log_batch *batch) {
    return (struct log_frame){
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

/* Encodes the frame behind the header's place in the buffer; returns its size. */
static size_t buffer_frame(struct log_writer *writer, const struct log_frame *frame,
                           uint64_t offset) {
    uint8_t *at = writer->buffer + LOG_SEGMENT_HEADER;
    size_t size = log_frame_encode(frame, at);
    size_t padded = (size_t)(page_end(offset + size) - offset);
    TN_ASSERT(LOG_SEGMENT_HEADER + padded <= writer->buffer_bytes);
    memset(at + size, 0, padded - size);
    return size;
}

static size_t buffer_padded(uint64_t offset, size_t size) {
    return (size_t)(page_end(offset + size) - offset);
}

/* The batch is durable: the log stands behind it. */
static void writer_advance(struct log_local *log, const struct log_batch *batch, size_t size) {
    struct log_writer *writer = &log->writer;
    writer->chain = log_frame_chain(writer->buffer + LOG_SEGMENT_HEADER);
    writer->offset += size;
    log_local_lock(log);
    log->position.lsn = batch->first_lsn + batch->count - 1;
    log->position.now_ms = batch->now_ms;
    log->bytes_appended += size;
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
    /* A batch that recovery writes again may come from a segment that was larger. */
    uint64_t need = LOG_SEGMENT_HEADER + log_frame_size(batch->len) + LOG_FRAME_ALIGN;
    return need > usual ? page_end(need) : usual;
}

static enum tn_status rotate_header(struct log_local *log, const struct log_batch *batch,
                                    uint64_t shard, const struct log_spare *spare,
                                    struct log_segment_header *ret_header) {
    const struct os *os = log->dir.os;
    uint64_t salt = 0;
    enum tn_status status = os->random(os->ctx, &salt, sizeof salt);
    if (status != TN_OK) {
        return status;
    }
    *ret_header = (struct log_segment_header){
        .seq = log->writer.header.seq + 1,
        .bytes = rotate_bytes(log, batch),
        .shard = shard,
        .first_lsn = log->position.lsn + 1,
        .now_ms = log->position.now_ms,
        .chain = log->writer.chain,
        .salt = salt,
        .flags = (batch != NULL ? LOG_SEGMENT_STARTED : 0u) |
                 (spare->recycled ? LOG_SEGMENT_RECYCLED : 0u),
    };
    return TN_OK;
}

/* Writes header and first batch into the spare, syncs it and gives it its name. */
static enum tn_status rotate_write(struct log_local *log, const struct log_spare *spare, int file,
                                   const struct log_segment_header *header, size_t len) {
    const struct os *os = log->dir.os;
    enum tn_status status = os->write_at(os->ctx, file, log->writer.buffer, len, 0);
    if (status == TN_OK) {
        status = sync_timed(log, file);
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
static bool rotate_adopt(struct log_local *log, int file, const struct log_segment_header *header) {
    const struct os *os = log->dir.os;
    struct log_segment segment = {.header = *header, .file_bytes = header->bytes};
    log_local_lock(log);
    bool added = log_local_segment_add(log, &segment);
    log->position.shard = header->shard;
    log_local_unlock(log);
    if (log->writer.file >= 0) {
        (void)os->close(os->ctx, log->writer.file);
    }
    log->writer.file = file;
    log->writer.header = *header;
    log->writer.offset = LOG_SEGMENT_HEADER;
    log->writer.mark = LOG_MARK_DONE;
    return added;
}

/* A spare that did not become a segment: better gone than used half written. */
static void rotate_discard(struct log_local *log, const struct log_spare *spare, int file) {
    const struct os *os = log->dir.os;
    char name[LOG_NAME_MAX];
    log_spare_name(spare->number, name);
    if (file >= 0) {
        (void)os->close(os->ctx, file);
    }
    (void)log_dir_remove(&log->dir, name);
}

enum tn_status log_writer_rotate(struct log_local *log, const struct log_batch *batch,
                                 uint64_t shard, bool urgent, bool *ret_named) {
    struct log_writer *writer = &log->writer;
    *ret_named = false;
    struct log_spare spare;
    enum tn_status status = log_spares_take(&log->spares, rotate_bytes(log, batch), urgent, &spare);
    if (status != TN_OK) {
        return status;
    }
    char name[LOG_NAME_MAX];
    log_spare_name(spare.number, name);
    int file = -1;
    struct log_segment_header header;
    status = rotate_header(log, batch, shard, &spare, &header);
    if (status == TN_OK) {
        status = log_dir_open(&log->dir, name, OS_WRITE, &file);
    }
    if (status != TN_OK) {
        rotate_discard(log, &spare, file);
        return status;
    }
    log_segment_header_encode(&header, writer->buffer);
    size_t size = 0;
    if (batch != NULL) {
        struct log_frame frame = frame_of(writer, batch);
        frame.seq = header.seq;
        frame.salt = header.salt;
        size = buffer_frame(writer, &frame, LOG_SEGMENT_HEADER);
    }
    size_t len = LOG_SEGMENT_HEADER + (size > 0 ? buffer_padded(LOG_SEGMENT_HEADER, size) : 0);
    status = rotate_write(log, &spare, file, &header, len);
    if (status != TN_OK) {
        rotate_discard(log, &spare, file);
        return status;
    }
    *ret_named = true;
    if (!rotate_adopt(log, file, &header)) {
        return TN_NOMEM;
    }
    status = log_dir_sync(&log->dir);
    if (status == TN_OK && batch != NULL) {
        writer_advance(log, batch, size);
    }
    return status;
}

/* -- append and marks --------------------------------------------------------------------------- */

static enum tn_status append_in_place(struct log_local *log, const struct log_batch *batch) {
    struct log_writer *writer = &log->writer;
    const struct os *os = log->dir.os;
    struct log_frame frame = frame_of(writer, batch);
    size_t size = buffer_frame(writer, &frame, writer->offset);
    enum tn_status status = os->write_at(os->ctx, writer->file, writer->buffer + LOG_SEGMENT_HEADER,
                                         buffer_padded(writer->offset, size), writer->offset);
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

static enum tn_status append_rotating(struct log_local *log, const struct log_batch *batch) {
    bool named = false;
    enum tn_status status = log_writer_rotate(log, batch, log->position.shard, false, &named);
    if (status == TN_OK || (status == TN_NOSPACE && !named)) {
        return status;
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
    TN_ASSERT(batch->len <= log_local_batch_max(log->options.segment_bytes));
    if (writer->dead) {
        done(ctx, TN_IO);
        return;
    }
    TN_ASSERT(batch->first_lsn == log->position.lsn + 1);
    TN_ASSERT(batch->now_ms >= log->position.now_ms);

    uint64_t end = writer->offset + log_frame_size(batch->len) + LOG_FRAME_ALIGN;
    enum tn_status status =
        end <= writer->header.bytes ? append_in_place(log, batch) : append_rotating(log, batch);
    if (status == TN_OK) {
        log_local_lock(log);
        log->appends += 1;
        log_local_unlock(log);
    }
    done(ctx, status);
}

/* Writes the mark where the next batch will go. It is no part of the chain and moves nothing. */
static void mark_write(struct log_local *log) {
    struct log_writer *writer = &log->writer;
    const struct os *os = log->dir.os;
    TN_ASSERT(writer->offset + LOG_FRAME_ALIGN <= writer->header.bytes);
    struct log_frame mark = {
        .seq = writer->header.seq,
        .salt = writer->header.salt,
        .first_lsn = log->position.lsn + 1,
        .now_ms = log->position.now_ms,
        .chain = writer->chain,
    };
    size_t size = buffer_frame(writer, &mark, writer->offset);
    enum tn_status status = os->write_at(os->ctx, writer->file, writer->buffer + LOG_SEGMENT_HEADER,
                                         buffer_padded(writer->offset, size), writer->offset);
    if (status != TN_OK) {
        writer->dead = true;
        return;
    }
    writer->mark = LOG_MARK_WRITTEN;
}

void log_writer_idle(struct log *base) {
    struct log_local *log = log_local_of(base);
    if (log->writable && !log->writer.dead && log->writer.mark == LOG_MARK_DUE) {
        mark_write(log);
    }
}

bool log_writer_finish(struct log_local *log) {
    struct log_writer *writer = &log->writer;
    const struct os *os = log->dir.os;
    log_writer_idle(&log->log);
    if (!writer->dead && writer->mark == LOG_MARK_WRITTEN) {
        if (os->sync(os->ctx, writer->file) == TN_OK) {
            writer->mark = LOG_MARK_DONE;
        } else {
            writer->dead = true;
        }
    }
    return !writer->dead;
}
