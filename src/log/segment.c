/* Encoding and checking of segment headers; the layout is in segment.h. */
#include "log/segment.h"

#include <stdbool.h>
#include <string.h>

#include "base/assert.h"
#include "base/bytes.h"
#include "base/hash.h"

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
    AT_SECTOR = 80,
    AT_SKIP_FROM = 88,
    AT_SKIP_TO = 96,
    AT_CRC = 4092,
};

_Static_assert(AT_CRC + 4 == LOG_SEGMENT_HEADER, "the checksum ends the header");
_Static_assert(LOG_SEGMENT_HEADER % LOG_SECTOR_OLD == 0, "the first frame is aligned");

/* Of sectors: how many a segment has at least, when they are larger than LOG_SECTOR_LEAST. */
#define SECTORS_LEAST 64u
/* What a command takes in a frame at least: its length. */
#define COMMAND_BYTES_LEAST 4u

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
    tn_store32(out + AT_SECTOR, header->sector_bytes);
    tn_store64(out + AT_SKIP_FROM, header->skip_from);
    tn_store64(out + AT_SKIP_TO, header->skip_to);
    tn_store32(out + AT_CRC, tn_crc32c(0, out, AT_CRC));
}

static bool header_sized(const struct log_segment_header *header) {
    uint32_t sector = header->sector_bytes;
    return header->bytes >= LOG_SEGMENT_BYTES_MIN && header->bytes <= LOG_SEGMENT_BYTES_MAX &&
           header->bytes % LOG_SEGMENT_HEADER == 0 && sector >= LOG_SECTOR_OLD &&
           sector <= LOG_SECTOR_MOST && (sector & (sector - 1)) == 0 && header->bytes % sector == 0;
}

static bool header_skip_sound(const struct log_segment_header *header) {
    return (header->skip_from == 0 && header->skip_to == 0) ||
           (header->skip_from >= header->first_lsn && header->skip_to > header->skip_from &&
            header->skip_to <= LOG_LSN_MAX);
}

enum tn_status log_segment_header_decode(const uint8_t *at, struct log_segment_header *ret_header) {
    if (memcmp(at + AT_MAGIC, segment_magic, sizeof segment_magic) != 0 ||
        tn_load32(at + AT_CRC) != tn_crc32c(0, at, AT_CRC)) {
        return TN_CORRUPT;
    }
    uint32_t version = tn_load32(at + AT_VERSION);
    if (version == 0 || version > LOG_SEGMENT_VERSION) {
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
        .sector_bytes = LOG_SECTOR_OLD,
        .flags = tn_load32(at + AT_FLAGS),
    };
    if (version > 1) {
        header.sector_bytes = tn_load32(at + AT_SECTOR);
        header.skip_from = tn_load64(at + AT_SKIP_FROM);
        header.skip_to = tn_load64(at + AT_SKIP_TO);
    }
    if (header.seq == 0 || header.first_lsn == 0 || header.first_lsn > LOG_LSN_MAX ||
        !header_sized(&header) || !header_skip_sound(&header)) {
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

uint32_t log_segment_sector(uint64_t segment_bytes, uint64_t device_bytes) {
    uint32_t sector = LOG_SECTOR_LEAST;
    while (sector < device_bytes && sector < LOG_SECTOR_MOST &&
           (uint64_t)sector * 2 * SECTORS_LEAST <= segment_bytes &&
           segment_bytes % ((uint64_t)sector * 2) == 0) {
        sector *= 2;
    }
    return sector;
}

uint64_t log_segment_begin(const struct log_segment_header *header) {
    return header->sector_bytes > LOG_SEGMENT_HEADER ? header->sector_bytes : LOG_SEGMENT_HEADER;
}

uint64_t log_segment_next(const struct log_segment_header *header, uint64_t lsn) {
    return header->skip_to != 0 && lsn == header->skip_from ? header->skip_to : lsn;
}

uint64_t log_segment_beyond(const struct log_segment_header *header) {
    uint64_t base = header->skip_to > header->first_lsn ? header->skip_to : header->first_lsn;
    return base + header->bytes / COMMAND_BYTES_LEAST;
}
