/* Encoding and checking of frames; the layout is in frame.h. */
#include "log/frame.h"

#include <string.h>

#include "base/assert.h"
#include "base/bytes.h"
#include "base/hash.h"

enum {
    AT_CRC = 0,
    AT_LEN = 4,
    AT_SEQ = 8,
    AT_SALT = 16,
    AT_FIRST_LSN = 24,
    AT_NOW = 32,
    AT_DURABLE_LSN = 40,
    AT_CHAIN = 48,
    AT_COUNT = 56,
    AT_KIND = 60,
    AT_PAYLOAD = 64,
};

_Static_assert(AT_PAYLOAD == LOG_FRAME_HEADER, "the header ends where the payload begins");
_Static_assert(LOG_FRAME_HEADER < LOG_SECTOR_OLD, "a header never spans two sectors");

static bool frame_kind_known(uint32_t kind) {
    switch (kind) {
    case LOG_FRAME_BATCH:
    case LOG_FRAME_MARK:
    case LOG_FRAME_CONTINUED:
    case LOG_FRAME_CLOSING:
        return true;
    default:
        return false;
    }
}

uint64_t log_frame_size(uint64_t payload_len, uint32_t sector_bytes) {
    TN_ASSERT(sector_bytes > 0);
    uint64_t bytes = LOG_FRAME_HEADER + payload_len;
    return (bytes + sector_bytes - 1) / sector_bytes * sector_bytes;
}

static uint32_t frame_crc(const uint8_t *at, size_t size) {
    TN_ASSERT(size >= LOG_FRAME_HEADER);
    return tn_crc32c(0, at + AT_LEN, size - AT_LEN);
}

size_t log_frame_encode(const struct log_frame *frame, uint8_t *out) {
    TN_ASSERT(frame->len == 0 || frame->payload != NULL);
    size_t size = (size_t)log_frame_size(frame->len, frame->sector_bytes);
    TN_ASSERT(frame->first_lsn > 0);
    TN_ASSERT(frame->count > 0 || frame->len == 0);
    TN_ASSERT((frame->count > 0) == (frame->kind == LOG_FRAME_BATCH));

    tn_store32(out + AT_LEN, frame->len);
    tn_store64(out + AT_SEQ, frame->seq);
    tn_store64(out + AT_SALT, frame->salt);
    tn_store64(out + AT_FIRST_LSN, frame->first_lsn);
    tn_store64(out + AT_NOW, frame->now_ms);
    tn_store64(out + AT_DURABLE_LSN, frame->first_lsn - 1);
    tn_store64(out + AT_CHAIN, frame->chain);
    tn_store32(out + AT_COUNT, frame->count);
    tn_store32(out + AT_KIND, (uint32_t)frame->kind);
    if (frame->len > 0) {
        memcpy(out + AT_PAYLOAD, frame->payload, frame->len);
    }
    memset(out + AT_PAYLOAD + frame->len, 0, size - AT_PAYLOAD - frame->len);
    tn_store32(out + AT_CRC, frame_crc(out, size));
    return size;
}

/* Whether the fields make sense together, given that the checksum is right. */
static bool frame_sound(const uint8_t *at) {
    uint64_t first_lsn = tn_load64(at + AT_FIRST_LSN);
    uint32_t count = tn_load32(at + AT_COUNT);
    if (first_lsn == 0 || first_lsn > UINT64_MAX - count) {
        return false;
    }
    if (tn_load64(at + AT_DURABLE_LSN) != first_lsn - 1) {
        return false;
    }
    if (tn_load32(at + AT_KIND) == LOG_FRAME_BATCH) {
        return count > 0;
    }
    return count == 0 && tn_load32(at + AT_LEN) == 0;
}

bool log_frame_decode(const uint8_t *at, size_t room, const struct log_segment_header *segment,
                      struct log_frame *ret_frame) {
    TN_ASSERT(segment->sector_bytes >= LOG_FRAME_HEADER); /* a header is within a sector */
    if (room < segment->sector_bytes) {
        return false;
    }
    /* The cheap comparisons come first: a search for frames tries every sector of a segment. */
    uint32_t kind = tn_load32(at + AT_KIND);
    bool ours = tn_load64(at + AT_SEQ) == segment->seq && tn_load64(at + AT_SALT) == segment->salt;
    if (!ours || !frame_kind_known(kind)) {
        return false;
    }
    uint32_t len = tn_load32(at + AT_LEN);
    uint64_t size = log_frame_size(len, segment->sector_bytes);
    if (size > room || !frame_sound(at)) {
        return false;
    }
    if (tn_load32(at + AT_CRC) != frame_crc(at, (size_t)size)) {
        return false;
    }
    *ret_frame = (struct log_frame){
        .kind = (enum log_frame_kind)kind,
        .seq = segment->seq,
        .salt = segment->salt,
        .first_lsn = tn_load64(at + AT_FIRST_LSN),
        .now_ms = tn_load64(at + AT_NOW),
        .chain = tn_load64(at + AT_CHAIN),
        .count = tn_load32(at + AT_COUNT),
        .len = len,
        .sector_bytes = segment->sector_bytes,
        .payload = at + AT_PAYLOAD,
    };
    return true;
}

bool log_frame_resembles(const uint8_t *at, uint64_t seq, uint64_t salt, uint64_t next_lsn) {
    return tn_load64(at + AT_SEQ) == seq || tn_load64(at + AT_SALT) == salt ||
           tn_load64(at + AT_FIRST_LSN) == next_lsn;
}

uint64_t log_frame_chain(const uint8_t *header) {
    uint64_t high = tn_crc32c(0, header, LOG_FRAME_HEADER);
    return high << 32 | tn_load32(header + AT_CRC);
}
