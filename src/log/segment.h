/* Segments: the files that frames live in.
 *
 * A segment is a file `%016x.log`, named by its sequence number (1, 2, ...), of fixed size, written
 * full of zeros and synced before its first use: overwriting blocks that exist needs no journal
 * commit, so each sync of the log costs one device write. Its first 4096 bytes are the header:
 *
 *      0  8    magic "TENURLOG"
 *      8  u32  version
 *     12  u32  flags, enum log_segment_flags
 *     16  u64  seq        sequence number, the same as in the name
 *     24  u64  bytes      size of the file
 *     32  u64  shard      generation << 32 | shard number
 *     40  u64  first_lsn  of the first command in it; everything below was synced before
 *     48  u64  now_ms     time of the last batch before it
 *     56  u64  chain      chain value of the last batch before it
 *     64  u64  salt       random; every frame of this segment repeats it
 *     72  u64  before_salt  salt of the segment that was in use when this one was made; 0: none was
 *     80       zeros
 *   4092  u32  crc32c     of the 4092 bytes before it
 *
 * Magic, version and crc32c keep their places in every version.
 *
 * Invariants
 * 1. A file gets a segment's name only after its header, and its first frame if it has the flag
 *    LOG_SEGMENT_STARTED, have been synced. So a header that does not verify is damage, and so is
 *    the first frame of a started segment; neither can be the trace of a crash.
 * 2. The frames that follow verify only with this header's seq and salt. What a recycled file holds
 *    from its earlier life never does.
 * 3. Frames of an older segment at or above the first_lsn of the next one are superseded by it.
 * 4. A header stands at the beginning of its file. One that is found elsewhere in a segment, with that
 *    segment's salt as its before_salt, is a write that went astray; nobody else knows the salt. */
#ifndef TN_LOG_SEGMENT_H
#define TN_LOG_SEGMENT_H

#include <stdint.h>

#include "base/status.h"

#define LOG_SEGMENT_HEADER 4096u
#define LOG_SEGMENT_VERSION 1u
#define LOG_SEGMENT_BYTES_MIN (64u << 10)
#define LOG_SEGMENT_BYTES_MAX (1u << 30)
#define LOG_SEGMENT_BYTES_DEFAULT (16u << 20)

enum log_segment_flags {
    LOG_SEGMENT_STARTED = 1, /* its first frame was synced before the file got its name */
    LOG_SEGMENT_RECYCLED =
        2, /* what follows the frames may be bytes of an earlier life, not zeros */
};

struct log_segment_header {
    uint64_t seq;
    uint64_t bytes;
    uint64_t shard;
    uint64_t first_lsn;
    uint64_t now_ms;
    uint64_t chain;
    uint64_t salt;
    uint64_t before_salt; /* 0 also if it was made before there was this field */
    uint32_t flags;
};

/* What the log remembers of each of its segments. */
struct log_segment {
    struct log_segment_header header;
    uint64_t file_bytes; /* less than header.bytes once recovery has cut its unused end */
};

/* Fills LOG_SEGMENT_HEADER bytes. */
void log_segment_header_encode(const struct log_segment_header *header, uint8_t *out);

/* TN_OK, TN_CORRUPT, or TN_VERSION if it is whole but newer than this program. */
enum tn_status log_segment_header_decode(const uint8_t *at, struct log_segment_header *ret_header);

/* The option as it is used: default, rounded, bounded. */
uint64_t log_segment_bytes(uint64_t wanted);

#endif
