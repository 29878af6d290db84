/* Snapshot files: opaque sections with a position, each checked, and whole or not at all.
 *
 * Layout, little-endian:
 *
 *   header   0  8    magic "TENURSNP"
 *            8  u32  version
 *           12  u32  0
 *           16  u64  lsn     \
 *           24  u64  now_ms   } where the log stood
 *           32  u64  shard   /
 *           40       zeros
 *           60  u32  crc32c  of the 60 bytes before it
 *   section  0  u32  kind
 *            4  u32  len     of the bytes, at most LOG_SECTION_MAX
 *            8  u32  crc32c  of kind, len and bytes
 *           12       bytes
 *   ...
 *   footer   0  8    magic "TENUREND"
 *            8  u64  number of sections
 *           16  u64  size of the file
 *           24  u32  crc32c of the sections' checksums, in order
 *           28  u32  crc32c of the 28 bytes before it
 *
 * The footer is the last 32 bytes of the file. Magic and version keep their places.
 *
 * It is written as snapshot.tmp and gets its name after it has been synced: a snapshot with a name
 * that does not verify is damage, never the trace of a crash. */
#ifndef TN_LOG_SNAPSHOT_H
#define TN_LOG_SNAPSHOT_H

#include <stdbool.h>
#include <stdint.h>

#include "log/dir.h"
#include "log/log.h"

#define LOG_SNAPSHOT_VERSION 1u

/* One snapshot being written. Zeroed means none. */
struct log_snapshot_writer {
    const struct log_dir *dir;
    int file;
    bool active;
    enum tn_status status; /* the first failure; everything after it does nothing */
    struct log_position at;
    uint8_t *buffer;
    size_t used;
    uint64_t offset;   /* offset of the buffer's first byte in the file */
    uint64_t unsynced; /* bytes written since the last sync */
    uint64_t sections;
    uint32_t chain;
};

enum tn_status log_snapshot_writer_begin(struct log_snapshot_writer *writer,
                                         const struct log_dir *dir, const struct log_position *at);
enum tn_status log_snapshot_writer_section(struct log_snapshot_writer *writer,
                                           const struct log_section *section);
/* Durable under its name on TN_OK. Otherwise gone, or, if only the last sync of the directory
 * failed, whole but perhaps not there after a crash. */
enum tn_status log_snapshot_writer_end(struct log_snapshot_writer *writer, uint64_t *ret_bytes);
void log_snapshot_writer_abandon(struct log_snapshot_writer *writer);

/* Reads and verifies the header only. */
enum tn_status log_snapshot_peek(const struct log_dir *dir, uint64_t lsn, const char *remedy,
                                 struct log_position *ret_at, struct log_error *error);

/* Reads and verifies the snapshot of this LSN and, if there is a loader, hands it over. Sections
 * arrive before the footer is checked: after a failure everything that was handed over is void.
 * `remedy` ends the error's text. */
enum tn_status log_snapshot_read(const struct log_dir *dir, uint64_t lsn,
                                 const struct log_loader *loader, const char *remedy,
                                 struct log_position *ret_at, uint64_t *ret_bytes,
                                 struct log_error *error);

#endif
