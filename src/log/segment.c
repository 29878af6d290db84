/* Encoding and checking of segment headers; the layout is in segment.h. */
#include "log/segment.h"

#include <stdbool.h>
#include <string.h>

#include "base/assert.h"
#include "base/bytes.h"
#include "base/hash.h"
#include "log/frame.h"

enum {
    AT_MAGIC = 0,
    AT_VERSION = 8,
    AT_FLAGS = 12,
    AT_SEQ = 16,
    AT_BYTES = 24,
    AT_SHARD = 32,
    AT_FIRST_LSN = 40,
    AT_NOW = 48,
    AT_CHAIN = 56,
    AT_SALT = 64,
    AT_BEFORE_SALT = 72,
    AT_CRC = 4092,
};

_Static_assert(AT_CRC + 4 == LOG_SEGMENT_HEADER, "the checksum ends the header");
_Static_assert(LOG_SEGMENT_HEADER % LOG_FRAME_ALIGN == 0, "the first frame is aligned");

static const char segment_magic[8] = {'T', 'E', 'N', 'U', 'R', 'L', 'O', 'G'};

void log_segment_header_encode(const struct log_segment_header *header, uint8_t *out) {
    TN_ASSERT(header->seq > 0);
    TN_ASSERT(header->first_lsn > 0);
    memset(out, 0, LOG_SEGMENT_HEADER);
    memcpy(out + AT_MAGIC, segment_magic, sizeof segment_magic);
    tn_store32(out + AT_VERSION, LOG_SEGMENT_VERSION);
    tn_store32(out + AT_FLAGS, header->flags);
    tn_store64(out + AT_SEQ, header->seq);
    tn_store64(out + AT_BYTES, header->bytes);
    tn_store64(out + AT_SHARD, header->shard);
    tn_store64(out + AT_FIRST_LSN, header->first_lsn);
    tn_store64(out + AT_NOW, header->now_ms);
    tn_store64(out + AT_CHAIN, header->chain);
    tn_store64(out + AT_SALT, header->salt);
    tn_store64(out + AT_BEFORE_SALT, header->before_salt);
    tn_store32(out + AT_CRC, tn_crc32c(0, out, AT_CRC));
}

enum tn_status log_segment_header_decode(const uint8_t *at, struct log_segment_header *ret_header) {
    if (memcmp(at + AT_MAGIC, segment_magic, sizeof segment_magic) != 0 ||
        tn_load32(at + AT_CRC) != tn_crc32c(0, at, AT_CRC)) {
        return TN_CORRUPT;
    }
    uint32_t version = tn_load32(at + AT_VERSION);
    if (version != LOG_SEGMENT_VERSION) {
        return version > LOG_SEGMENT_VERSION ? TN_VERSION : TN_CORRUPT;
    }
    struct log_segment_header header = {
        .seq = tn_load64(at + AT_SEQ),
        .bytes = tn_load64(at + AT_BYTES),
        .shard = tn_load64(at + AT_SHARD),
        .first_lsn = tn_load64(at + AT_FIRST_LSN),
        .now_ms = tn_load64(at + AT_NOW),
        .chain = tn_load64(at + AT_CHAIN),
        .salt = tn_load64(at + AT_SALT),
        .before_salt = tn_load64(at + AT_BEFORE_SALT),
        .flags = tn_load32(at + AT_FLAGS),
    };
    bool sized = header.bytes >= LOG_SEGMENT_BYTES_MIN && header.bytes <= LOG_SEGMENT_BYTES_MAX &&
                 header.bytes % LOG_SEGMENT_HEADER == 0;
    if (header.seq == 0 || header.first_lsn == 0 || !sized) {
        return TN_CORRUPT;
    }
    *ret_header = header;
    return TN_OK;
}

uint64_t log_segment_bytes(uint64_t wanted) {
    if (wanted == 0) {
        return LOG_SEGMENT_BYTES_DEFAULT;
    }
    if (wanted < LOG_SEGMENT_BYTES_MIN) {
        return LOG_SEGMENT_BYTES_MIN;
    }
    if (wanted > LOG_SEGMENT_BYTES_MAX) {
        return LOG_SEGMENT_BYTES_MAX;
    }
    return (wanted + LOG_SEGMENT_HEADER - 1) / LOG_SEGMENT_HEADER * LOG_SEGMENT_HEADER;
}
