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
 *     80  u32  sector_bytes  frames begin at multiples of it; version 1 has zeros here: 512
 *     84  u32  zero
 *     88  u64  skip_from  the LSNs from here ...
 *     96  u64  skip_to    ... to just before here were passed over (see below); 0 and 0: none were
 *    104       zeros
 *   4092  u32  crc32c     of the 4092 bytes before it
 *
 * Magic, version and crc32c keep their places in every version. This program reads versions 1 and 2
 * and writes version 2.
 *
 * Passed-over LSNs: a start that cannot prove that it sees the last acknowledged batch continues
 * behind every LSN that the segment before could have given, and begins a segment that says so. When
 * the next LSN is skip_from, it becomes skip_to. That place is at the beginning of the segment, or
 * behind its first batch if that one was written again from the segment before.
 *
 * Invariants
 * 1. A file gets a segment's name only after its header, and its first frame if it has the flag
 *    LOG_SEGMENT_STARTED, have been synced. So a header that does not verify is damage, and so is
 *    the first frame of a started segment; neither can be the trace of a crash.
 * 2. The frames that follow verify only with this header's seq and salt. What a recycled file holds
 *    from its earlier life never does.
 * 3. Frames of an older segment at or above the first_lsn of the next one are superseded by it.
 * 4. A header stands at the beginning of its file. One that is found elsewhere in a segment, with that
 *    segment's salt as its before_salt, is a misdirected write; no client knows the salt. */
#ifndef TN_LOG_SEGMENT_H
#define TN_LOG_SEGMENT_H

#include <stdint.h>

#include "base/status.h"

#define LOG_SEGMENT_HEADER 4096u
#define LOG_SEGMENT_VERSION 2u
#define LOG_SECTOR_OLD 512u    /* in segments of version 1 */
#define LOG_SECTOR_LEAST 4096u /* sector size of new segments unless the device has larger ones */
#define LOG_SECTOR_MOST (64u << 10)
/* Limit for a header, so that no sum of LSNs can overflow. */
#define LOG_LSN_MAX ((uint64_t)1 << 62)
#define LOG_SEGMENT_BYTES_MIN (64u << 10)
#define LOG_SEGMENT_BYTES_MAX (1u << 30)
#define LOG_SEGMENT_BYTES_DEFAULT (16u << 20)

enum log_segment_flags {
    LOG_SEGMENT_STARTED = 1, /* its first frame was synced before the file got its name */
    LOG_SEGMENT_RECYCLED =
        2, /* the bytes behind the frames may be from an earlier use, not zeros */
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
    uint64_t skip_from;
    uint64_t skip_to;
    uint32_t sector_bytes;
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

/* The effective size for the option: default, rounded, bounded. */
uint64_t log_segment_bytes(uint64_t wanted);

/* The sector size for new segments of this size, if the device's is `device_bytes` (0: not known). */
uint32_t log_segment_sector(uint64_t segment_bytes, uint64_t device_bytes);

/* Where the first frame begins. */
uint64_t log_segment_begin(const struct log_segment_header *header);

/* The LSN that is given when `lsn` would be the next one: `lsn`, or where the skip leads. */
uint64_t log_segment_next(const struct log_segment_header *header, uint64_t lsn);

/* An LSN that is larger than any that a command in this segment can have. */
uint64_t log_segment_beyond(const struct log_segment_header *header);

#endif
