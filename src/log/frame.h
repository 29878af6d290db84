/* Frames: one batch, or one durable mark, as bytes in a segment.
 *
 * A frame starts at a multiple of its segment's sector size (segment.h) and is padded to the next
 * one: a frame never shares a physical sector with another frame, so that writing one never rewrites
 * a sector that holds an acknowledged batch. Layout, little-endian:
 *
 *      0  u32  crc32c      of everything after it, padding included
 *      4  u32  len         payload bytes
 *      8  u64  seq         sequence number of the segment it was written for
 *     16  u64  salt        of that segment: random, so no client can forge a frame in its payload
 *     24  u64  first_lsn   of its first command; of the next command, for a mark
 *     32  u64  now_ms      time of the batch; of the batch before it, for a mark
 *     40  u64  durable_lsn first_lsn - 1: every command up to here was synced when this was written
 *     48  u64  chain       chain value of the batch before it, see log_frame_chain
 *     56  u32  count       commands; 0 for a mark
 *     60  u32  kind        enum log_frame_kind
 *     64       payload, then zeros up to the next multiple of the sector size
 *
 * Invariants: durable_lsn is first_lsn - 1, because a batch is not written before the sync of the
 * one before it has returned. A mark has no payload. Marks are leaves of the chain: nothing chains
 * to a mark, so that the next batch may overwrite it. A continued mark stands in the last sector of a
 * segment, never anywhere else, and says that the next segment exists. A closing mark is written by
 * a clean close: nothing was written after it, as long as it is there. */
#ifndef TN_LOG_FRAME_H
#define TN_LOG_FRAME_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "log/segment.h"

#define LOG_FRAME_HEADER 64u

enum log_frame_kind {
    LOG_FRAME_BATCH = 0x48435442,     /* "BTCH" */
    LOG_FRAME_MARK = 0x4b52414d,      /* "MARK" */
    LOG_FRAME_CONTINUED = 0x544e4f43, /* "CONT" */
    LOG_FRAME_CLOSING = 0x534f4c43,   /* "CLOS" */
};

struct log_frame {
    enum log_frame_kind kind;
    uint64_t seq;
    uint64_t salt;
    uint64_t first_lsn;
    uint64_t now_ms;
    uint64_t chain;
    uint32_t count;
    uint32_t len;
    uint32_t sector_bytes;  /* of the segment */
    const uint8_t *payload; /* borrowed; after decode, from the buffer */
};

/* Bytes that a frame with this payload takes, padding included. */
uint64_t log_frame_size(uint64_t payload_len, uint32_t sector_bytes);

/* Writes the frame to `out`, which has room for its size; returns that size. The count is 0 exactly
 * in a mark of any kind. The payload must not overlap `out`. */
size_t log_frame_encode(const struct log_frame *frame, uint8_t *out);

/* True if `room` bytes at `at` start with a whole frame of this segment: kind, sequence, salt,
 * lengths and checksum are right. Says nothing about its place in the log. */
bool log_frame_decode(const uint8_t *at, size_t room, const struct log_segment_header *segment,
                      struct log_frame *ret_frame);

/* Whether the bytes at `at` (LOG_FRAME_HEADER of them) look like the beginning of a frame for this
 * place, complete or not. Only for messages about a torn tail. */
bool log_frame_resembles(const uint8_t *at, uint64_t seq, uint64_t salt, uint64_t next_lsn);

/* What the next batch carries as `chain`: a checksum of this frame's header (which includes the
 * chain value before it) above the frame's own checksum. 0 before the first batch of all. */
uint64_t log_frame_chain(const uint8_t *header);

#endif
