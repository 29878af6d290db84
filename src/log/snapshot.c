/* Writing and reading snapshot files; the layout is in snapshot.h. */
#include "log/snapshot.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "base/bytes.h"
#include "base/hash.h"

enum {
    HEADER_BYTES = 64,
    HEADER_CRC = 60,
    SECTION_HEADER_BYTES = 12,
    FOOTER_BYTES = 32,
    FOOTER_CRC = 28,
};

/* Large writes: the device sees few of them, and the small ones of the log get in between. */
#define SNAPSHOT_BUFFER_BYTES ((size_t)512 << 10)

/* Synced every so often, so that the end of a large snapshot does not flood the device with dirty
 * pages and make every append wait behind them. */
#define SNAPSHOT_SYNC_BYTES ((uint64_t)8 << 20)

static const char header_magic[8] = {'T', 'E', 'N', 'U', 'R', 'S', 'N', 'P'};
static const char footer_magic[8] = {'T', 'E', 'N', 'U', 'R', 'E', 'N', 'D'};

/* -- writing ------------------------------------------------------------------------------------ */

static void writer_flush(struct log_snapshot_writer *writer) {
    const struct os *os = writer->dir->os;
    if (writer->status != TN_OK || writer->used == 0) {
        return;
    }
    writer->status =
        os->write_at(os->ctx, writer->file, writer->buffer, writer->used, writer->offset);
    writer->offset += writer->used;
    writer->unsynced += writer->used;
    writer->used = 0;
    if (writer->status == TN_OK && writer->unsynced >= SNAPSHOT_SYNC_BYTES) {
        writer->status = os->sync(os->ctx, writer->file);
        writer->unsynced = 0;
    }
}

static void writer_put(struct log_snapshot_writer *writer, const void *bytes, size_t len) {
    const uint8_t *from = bytes;
    while (len > 0 && writer->status == TN_OK) {
        size_t room = SNAPSHOT_BUFFER_BYTES - writer->used;
        size_t step = len < room ? len : room;
        memcpy(writer->buffer + writer->used, from, step);
        writer->used += step;
        from += step;
        len -= step;
        if (writer->used == SNAPSHOT_BUFFER_BYTES) {
            writer_flush(writer);
        }
    }
}

static void writer_put_header(struct log_snapshot_writer *writer) {
    uint8_t header[HEADER_BYTES] = {0};
    memcpy(header, header_magic, sizeof header_magic);
    tn_store32(header + 8, LOG_SNAPSHOT_VERSION);
    tn_store64(header + 16, writer->at.lsn);
    tn_store64(header + 24, writer->at.now_ms);
    tn_store64(header + 32, writer->at.shard);
    tn_store32(header + HEADER_CRC, tn_crc32c(0, header, HEADER_CRC));
    writer_put(writer, header, sizeof header);
}

static void writer_put_footer(struct log_snapshot_writer *writer) {
    uint8_t footer[FOOTER_BYTES];
    memcpy(footer, footer_magic, sizeof footer_magic);
    tn_store64(footer + 8, writer->sections);
    tn_store64(footer + 16, writer->offset + writer->used + FOOTER_BYTES);
    tn_store32(footer + 24, writer->chain);
    tn_store32(footer + FOOTER_CRC, tn_crc32c(0, footer, FOOTER_CRC));
    writer_put(writer, footer, sizeof footer);
}

enum tn_status log_snapshot_writer_begin(struct log_snapshot_writer *writer,
                                         const struct log_dir *dir, const struct log_position *at) {
    TN_ASSERT(!writer->active);
    *writer = (struct log_snapshot_writer){.dir = dir, .file = -1, .at = *at};
    writer->buffer = malloc(SNAPSHOT_BUFFER_BYTES);
    if (writer->buffer == NULL) {
        return TN_NOMEM;
    }
    enum tn_status status =
        log_dir_open(dir, LOG_SNAPSHOT_TMP, OS_WRITE | OS_CREATE | OS_TRUNCATE, &writer->file);
    if (status != TN_OK) {
        free(writer->buffer);
        writer->buffer = NULL;
        return status;
    }
    writer->active = true;
    writer_put_header(writer);
    return TN_OK;
}

enum tn_status log_snapshot_writer_section(struct log_snapshot_writer *writer,
                                           const struct log_section *section) {
    TN_ASSERT(writer->active);
    TN_ASSERT(section->bytes.len <= LOG_SECTION_MAX);
    uint8_t header[SECTION_HEADER_BYTES];
    tn_store32(header, section->kind);
    tn_store32(header + 4, section->bytes.len);
    uint32_t crc = tn_crc32c(0, header, 8);
    crc = tn_crc32c(crc, section->bytes.at, section->bytes.len);
    tn_store32(header + 8, crc);
    writer->chain = tn_crc32c(writer->chain, header + 8, 4);
    writer->sections += 1;
    writer_put(writer, header, sizeof header);
    writer_put(writer, section->bytes.at, section->bytes.len);
    return writer->status;
}

static void writer_free(struct log_snapshot_writer *writer) {
    free(writer->buffer);
    *writer = (struct log_snapshot_writer){.file = -1};
}

enum tn_status log_snapshot_writer_end(struct log_snapshot_writer *writer, uint64_t *ret_bytes) {
    TN_ASSERT(writer->active);
    const struct log_dir *dir = writer->dir;
    const struct os *os = dir->os;
    writer_put_footer(writer);
    writer_flush(writer);
    uint64_t bytes = writer->offset;
    enum tn_status status = writer->status;
    if (status == TN_OK) {
        status = os->sync(os->ctx, writer->file);
    }
    enum tn_status closed = os->close(os->ctx, writer->file);
    if (status == TN_OK) {
        status = closed;
    }
    if (status == TN_OK) {
        char name[LOG_NAME_MAX];
        log_snapshot_name(writer->at.lsn, name);
        status = log_dir_rename(dir, LOG_SNAPSHOT_TMP, name);
    }
    if (status != TN_OK) {
        (void)log_dir_remove(dir, LOG_SNAPSHOT_TMP);
    } else {
        status = log_dir_sync(dir);
    }
    writer_free(writer);
    if (status == TN_OK) {
        *ret_bytes = bytes;
    }
    return status;
}

void log_snapshot_writer_abandon(struct log_snapshot_writer *writer) {
    if (!writer->active) {
        return;
    }
    const struct log_dir *dir = writer->dir;
    (void)dir->os->close(dir->os->ctx, writer->file);
    (void)log_dir_remove(dir, LOG_SNAPSHOT_TMP);
    writer_free(writer);
}

/* -- reading ------------------------------------------------------------------------------------ */

/* Reads a file from front to back. The buffer has the bytes from `at` to `at + have`. */
struct snapshot_reader {
    const struct log_dir *dir;
    const struct log_loader *loader;
    const char *remedy;
    struct log_error *error;
    char name[LOG_NAME_MAX];
    int file;
    uint64_t size;
    uint64_t offset; /* offset of `at` in the file */
    uint8_t *buffer;
    size_t capacity;
    size_t at;
    size_t have;
    uint64_t sections;
    uint32_t chain;
    struct log_position position;
};

/* Room for the largest section and much of the next; small files need less. */
#define READER_BUFFER_BYTES ((size_t)2 * LOG_SECTION_MAX)

static enum tn_status reader_damaged(struct snapshot_reader *r, const char *what) {
    return log_fail(r->error, TN_CORRUPT, "%.300s/%s: %s at offset %" PRIu64 "; %s", r->dir->path,
                    r->name, what, r->offset, r->remedy);
}

static enum tn_status reader_failed(struct snapshot_reader *r, enum tn_status status) {
    return log_fail(r->error, status, "%.300s/%s: cannot be read at offset %" PRIu64 ": %s",
                    r->dir->path, r->name, r->offset, tn_status_text(status));
}

/* Makes `need` bytes available at buffer + at; the caller has checked that the file has them. */
static enum tn_status reader_need(struct snapshot_reader *r, size_t need) {
    const struct os *os = r->dir->os;
    TN_ASSERT(need <= r->capacity);
    if (r->have >= need) {
        return TN_OK;
    }
    memmove(r->buffer, r->buffer + r->at, r->have);
    r->at = 0;
    size_t got = 0;
    enum tn_status status = os->read_at(os->ctx, r->file, r->buffer + r->have,
                                        r->capacity - r->have, r->offset + r->have, &got);
    if (status != TN_OK) {
        return reader_failed(r, status);
    }
    r->have += got;
    return r->have >= need ? TN_OK : reader_damaged(r, "the file ends early");
}

static void reader_skip(struct snapshot_reader *r, size_t len) {
    TN_ASSERT(len <= r->have);
    r->at += len;
    r->have -= len;
    r->offset += len;
}

static enum tn_status reader_header(struct snapshot_reader *r, uint64_t lsn) {
    enum tn_status status = reader_need(r, HEADER_BYTES);
    if (status != TN_OK) {
        return status;
    }
    const uint8_t *header = r->buffer + r->at;
    if (memcmp(header, header_magic, sizeof header_magic) != 0 ||
        tn_load32(header + HEADER_CRC) != tn_crc32c(0, header, HEADER_CRC)) {
        return reader_damaged(r, "the header is damaged");
    }
    uint32_t version = tn_load32(header + 8);
    if (version != LOG_SNAPSHOT_VERSION) {
        return log_fail(r->error, TN_VERSION,
                        "%.300s/%s: snapshot format %u, this program knows up to %u; start the "
                        "version of tenured that wrote it, or a newer one",
                        r->dir->path, r->name, version, LOG_SNAPSHOT_VERSION);
    }
    r->position = (struct log_position){.lsn = tn_load64(header + 16),
                                        .now_ms = tn_load64(header + 24),
                                        .shard = tn_load64(header + 32)};
    if (r->position.lsn != lsn) {
        return reader_damaged(r, "the header's LSN is not that of the file's name");
    }
    reader_skip(r, HEADER_BYTES);
    return TN_OK;
}

/* Another snapshot would most likely be of the same version. */
static const char *reader_remedy(const struct snapshot_reader *r, enum tn_status status) {
    return status == TN_VERSION ? "start the version of tenured that wrote it" : r->remedy;
}

static enum tn_status reader_section(struct snapshot_reader *r) {
    uint64_t left = r->size - FOOTER_BYTES - r->offset;
    if (left < SECTION_HEADER_BYTES) {
        return reader_damaged(r, "a section header is cut short");
    }
    enum tn_status status = reader_need(r, SECTION_HEADER_BYTES);
    if (status != TN_OK) {
        return status;
    }
    uint32_t len = tn_load32(r->buffer + r->at + 4);
    if (len > LOG_SECTION_MAX || len > left - SECTION_HEADER_BYTES) {
        return reader_damaged(r, "a section has an invalid length");
    }
    status = reader_need(r, SECTION_HEADER_BYTES + (size_t)len);
    if (status != TN_OK) {
        return status;
    }
    const uint8_t *at = r->buffer + r->at;
    uint32_t crc = tn_crc32c(tn_crc32c(0, at, 8), at + SECTION_HEADER_BYTES, len);
    if (crc != tn_load32(at + 8)) {
        return reader_damaged(r, "a section's checksum is wrong");
    }
    r->chain = tn_crc32c(r->chain, at + 8, 4);
    r->sections += 1;
    if (r->loader != NULL) {
        struct log_section section = {.kind = tn_load32(at),
                                      .bytes = tn_bytes_of(at + SECTION_HEADER_BYTES, len)};
        status = r->loader->snapshot_section(r->loader->ctx, &section);
        if (status != TN_OK) {
            return log_fail(r->error, status,
                            "%.300s/%s: the section at offset %" PRIu64 " was not accepted: %s; %s",
                            r->dir->path, r->name, r->offset, tn_status_text(status),
                            reader_remedy(r, status));
        }
    }
    reader_skip(r, SECTION_HEADER_BYTES + (size_t)len);
    return TN_OK;
}

static enum tn_status reader_footer(struct snapshot_reader *r) {
    enum tn_status status = reader_need(r, FOOTER_BYTES);
    if (status != TN_OK) {
        return status;
    }
    const uint8_t *footer = r->buffer + r->at;
    if (memcmp(footer, footer_magic, sizeof footer_magic) != 0 ||
        tn_load32(footer + FOOTER_CRC) != tn_crc32c(0, footer, FOOTER_CRC) ||
        tn_load64(footer + 8) != r->sections || tn_load64(footer + 16) != r->size ||
        tn_load32(footer + 24) != r->chain) {
        return reader_damaged(r, "the footer is damaged or does not match the sections");
    }
    return TN_OK;
}

static enum tn_status reader_accepted(struct snapshot_reader *r, enum tn_status status) {
    if (status == TN_OK) {
        return TN_OK;
    }
    return log_fail(r->error, status, "%.300s/%s: the snapshot was not accepted: %s; %s",
                    r->dir->path, r->name, tn_status_text(status), reader_remedy(r, status));
}

static enum tn_status reader_body(struct snapshot_reader *r) {
    const struct log_loader *loader = r->loader;
    enum tn_status status = TN_OK;
    if (loader != NULL) {
        status = reader_accepted(r, loader->snapshot_begin(loader->ctx, &r->position));
    }
    while (status == TN_OK && r->offset < r->size - FOOTER_BYTES) {
        status = reader_section(r);
    }
    if (status == TN_OK) {
        status = reader_footer(r);
    }
    if (status == TN_OK && loader != NULL) {
        status = reader_accepted(r, loader->snapshot_end(loader->ctx));
    }
    return status;
}

static enum tn_status reader_open(struct snapshot_reader *r, uint64_t lsn) {
    const struct os *os = r->dir->os;
    log_snapshot_name(lsn, r->name);
    enum tn_status status = log_dir_open(r->dir, r->name, OS_READ, &r->file);
    if (status != TN_OK) {
        r->file = -1;
        return reader_failed(r, status);
    }
    status = os->size(os->ctx, r->file, &r->size);
    if (status == TN_OK && r->size < HEADER_BYTES + FOOTER_BYTES) {
        return reader_damaged(r, "the file is too short for a snapshot");
    }
    if (status == TN_OK) {
        r->capacity = r->size < READER_BUFFER_BYTES ? (size_t)r->size : READER_BUFFER_BYTES;
        r->buffer = malloc(r->capacity);
        status = r->buffer == NULL ? TN_NOMEM : TN_OK;
    }
    return status == TN_OK ? reader_header(r, lsn) : reader_failed(r, status);
}

static void reader_close(struct snapshot_reader *r) {
    free(r->buffer);
    if (r->file >= 0) {
        (void)r->dir->os->close(r->dir->os->ctx, r->file);
    }
}

enum tn_status log_snapshot_peek(const struct log_dir *dir, uint64_t lsn, const char *remedy,
                                 struct log_position *ret_at, struct log_error *error) {
    struct snapshot_reader reader = {.dir = dir, .remedy = remedy, .error = error};
    enum tn_status status = reader_open(&reader, lsn);
    reader_close(&reader);
    if (status == TN_OK) {
        *ret_at = reader.position;
    }
    return status;
}

enum tn_status log_snapshot_read(const struct log_dir *dir, uint64_t lsn,
                                 const struct log_loader *loader, const char *remedy,
                                 struct log_position *ret_at, uint64_t *ret_bytes,
                                 struct log_error *error) {
    struct snapshot_reader reader = {
        .dir = dir, .loader = loader, .remedy = remedy, .error = error};
    enum tn_status status = reader_open(&reader, lsn);
    if (status == TN_OK) {
        status = reader_body(&reader);
    }
    reader_close(&reader);
    if (status == TN_OK) {
        *ret_at = reader.position;
        *ret_bytes = reader.size;
    }
    return status;
}
