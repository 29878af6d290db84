#include "replica/replica_head.h"

#include <string.h>

#include "base/assert.h"
#include "base/hash.h"

#define FORMAT 1u
#define FORMAT_TTL 2u /* format of a head with ttl_ms */

static const char head_magic[8] = {'T', 'E', 'N', 'U', 'R', 'E', 'H', 'D'};
static const char batch_magic[8] = {'T', 'E', 'N', 'U', 'R', 'E', 'B', 'T'};

/* ---- The head ---- */

static void nonce_write(struct tn_writer *w, const struct replica_nonce *nonce) {
    tn_write64(w, nonce->words[0]);
    tn_write64(w, nonce->words[1]);
}

static struct replica_nonce nonce_read(struct tn_reader *r) {
    struct replica_nonce nonce;
    nonce.words[0] = tn_read64(r);
    nonce.words[1] = tn_read64(r);
    return nonce;
}

void replica_head_encode(const struct replica_head *head, uint8_t out[REPLICA_HEAD_BYTES]) {
    struct tn_writer w = tn_writer_of(out, REPLICA_HEAD_BYTES);
    tn_write_raw(&w, head_magic, sizeof head_magic);
    tn_write32(&w, head->ttl_ms != 0 ? FORMAT_TTL : FORMAT);
    tn_write32(&w, head->flags);
    tn_write32(&w, head->state_version);
    tn_write32(&w, head->ttl_ms);
    tn_write64(&w, head->epoch);
    nonce_write(&w, &head->nonce);
    tn_write64(&w, head->seq);
    tn_write64(&w, head->lsn);
    tn_write64(&w, head->batch);
    tn_write64(&w, head->now_ms);
    tn_write64(&w, head->shard);
    tn_write64(&w, head->chain);
    tn_write64(&w, head->stamp_ms);
    tn_write_raw(&w, head->node, sizeof head->node);
    tn_write32(&w, tn_crc32c(0, out, w.len));
    TN_ASSERT(!w.overflow && w.len == REPLICA_HEAD_BYTES);
}

bool replica_head_equal(const struct replica_head *a, const struct replica_head *b) {
    return a->flags == b->flags && a->state_version == b->state_version && a->ttl_ms == b->ttl_ms &&
           a->epoch == b->epoch && replica_nonce_equal(&a->nonce, &b->nonce) && a->seq == b->seq &&
           a->lsn == b->lsn && a->batch == b->batch && a->now_ms == b->now_ms &&
           a->shard == b->shard && a->chain == b->chain && a->stamp_ms == b->stamp_ms &&
           memcmp(a->node, b->node, sizeof a->node) == 0;
}

/* Magic and format, up to `newest`: TN_OK, TN_CORRUPT, TN_VERSION. */
static enum tn_status kind_read(struct tn_reader *r, const char magic[8], uint32_t newest,
                                uint32_t *ret_format) {
    char found[8];
    if (!tn_read_raw(r, found, sizeof found) || memcmp(found, magic, sizeof found) != 0) {
        return TN_CORRUPT;
    }
    *ret_format = tn_read32(r);
    if (r->bad) {
        return TN_CORRUPT;
    }
    return *ret_format >= FORMAT && *ret_format <= newest ? TN_OK : TN_VERSION;
}

enum tn_status replica_head_decode(struct tn_bytes bytes, struct replica_head *ret_head) {
    struct tn_reader r = tn_reader_of(bytes.at, bytes.len);
    struct replica_head head;
    uint32_t format;
    enum tn_status status = kind_read(&r, head_magic, FORMAT_TTL, &format);
    if (status != TN_OK) {
        return status;
    }
    if (bytes.len != REPLICA_HEAD_BYTES || tn_load32(bytes.at + REPLICA_HEAD_BYTES - 4) !=
                                               tn_crc32c(0, bytes.at, REPLICA_HEAD_BYTES - 4)) {
        return TN_CORRUPT;
    }
    memset(&head, 0, sizeof head);
    head.flags = tn_read32(&r);
    head.state_version = tn_read32(&r);
    head.ttl_ms = tn_read32(&r);
    if ((format == FORMAT_TTL) != (head.ttl_ms != 0) ||
        (head.flags & ~(uint32_t)(REPLICA_RESIGNED | REPLICA_CLOSED)) != 0) {
        return TN_CORRUPT;
    }
    head.epoch = tn_read64(&r);
    head.nonce = nonce_read(&r);
    head.seq = tn_read64(&r);
    head.lsn = tn_read64(&r);
    head.batch = tn_read64(&r);
    head.now_ms = tn_read64(&r);
    head.shard = tn_read64(&r);
    head.chain = tn_read64(&r);
    head.stamp_ms = tn_read64(&r);
    (void)tn_read_raw(&r, head.node, sizeof head.node);
    TN_ASSERT(!r.bad);
    *ret_head = head;
    return TN_OK;
}

int replica_head_order(const struct replica_head *a, const struct replica_head *b) {
    if (a->epoch != b->epoch) {
        return a->epoch < b->epoch ? -1 : 1;
    }
    return (a->seq > b->seq) - (a->seq < b->seq);
}

/* ---- Batches ---- */

static void batch_head_write(const struct log_batch *batch, const struct replica_stamp *stamp,
                             uint8_t out[REPLICA_BATCH_BYTES - 4]) {
    struct tn_writer w = tn_writer_of(out, REPLICA_BATCH_BYTES - 4);
    tn_write_raw(&w, batch_magic, sizeof batch_magic);
    tn_write32(&w, FORMAT);
    tn_write32(&w, stamp->state_version);
    tn_write64(&w, stamp->epoch);
    nonce_write(&w, &stamp->nonce);
    tn_write64(&w, batch->first_lsn);
    tn_write64(&w, batch->now_ms);
    tn_write64(&w, batch->shard);
    tn_write64(&w, stamp->chain);
    tn_write32(&w, batch->count);
    TN_ASSERT(!w.overflow && w.len == REPLICA_BATCH_BYTES - 4);
}

static uint32_t batch_crc(const uint8_t *value, uint32_t payload_len) {
    uint32_t crc = tn_crc32c(0, value, REPLICA_BATCH_BYTES - 4);
    return tn_crc32c(crc, value + REPLICA_BATCH_BYTES, payload_len);
}

void replica_batch_encode(const struct log_batch *batch, const struct replica_stamp *stamp,
                          uint8_t *out) {
    batch_head_write(batch, stamp, out);
    if (batch->len > 0) {
        memcpy(out + REPLICA_BATCH_BYTES, batch->payload, batch->len);
    }
    tn_store32(out + REPLICA_BATCH_BYTES - 4, batch_crc(out, batch->len));
}

enum tn_status replica_batch_decode(struct tn_bytes bytes, uint64_t first_lsn,
                                    struct log_batch *ret_batch, struct replica_stamp *ret_stamp) {
    struct tn_reader r = tn_reader_of(bytes.at, bytes.len);
    struct replica_stamp stamp;
    struct log_batch batch;
    uint32_t format;
    enum tn_status status = kind_read(&r, batch_magic, FORMAT, &format);
    if (status != TN_OK) {
        return status;
    }
    if (bytes.len < REPLICA_BATCH_BYTES ||
        tn_load32(bytes.at + REPLICA_BATCH_BYTES - 4) !=
            batch_crc(bytes.at, bytes.len - REPLICA_BATCH_BYTES)) {
        return TN_CORRUPT;
    }
    memset(&stamp, 0, sizeof stamp);
    memset(&batch, 0, sizeof batch);
    stamp.state_version = tn_read32(&r);
    stamp.epoch = tn_read64(&r);
    stamp.nonce = nonce_read(&r);
    batch.first_lsn = tn_read64(&r);
    batch.now_ms = tn_read64(&r);
    batch.shard = tn_read64(&r);
    stamp.chain = tn_read64(&r);
    batch.count = tn_read32(&r);
    batch.payload = bytes.at + REPLICA_BATCH_BYTES;
    batch.len = bytes.len - REPLICA_BATCH_BYTES;
    if (batch.first_lsn != first_lsn || batch.count == 0) {
        return TN_CORRUPT;
    }
    *ret_batch = batch;
    *ret_stamp = stamp;
    return TN_OK;
}

uint64_t replica_chain(uint64_t before, const struct log_batch *batch) {
    uint8_t fields[40];
    struct tn_writer w = tn_writer_of(fields, sizeof fields);
    tn_write64(&w, before);
    tn_write64(&w, batch->first_lsn);
    tn_write64(&w, batch->now_ms);
    tn_write64(&w, batch->shard);
    tn_write64(&w, batch->count);
    TN_ASSERT(!w.overflow && w.len == sizeof fields);
    return tn_hash64(batch->payload, batch->len, tn_hash64(fields, sizeof fields, 0));
}

/* ---- Keys ---- */

void replica_key_write(uint64_t first_lsn, char out[REPLICA_KEY_DIGITS]) {
    for (unsigned i = 0; i < REPLICA_KEY_DIGITS; i++) {
        out[i] = "0123456789abcdef"[(first_lsn >> (60 - 4 * i)) & 15];
    }
}

bool replica_key_read(struct tn_bytes digits, uint64_t *ret_first_lsn) {
    uint64_t value = 0;
    if (digits.len != REPLICA_KEY_DIGITS) {
        return false;
    }
    for (unsigned i = 0; i < REPLICA_KEY_DIGITS; i++) {
        uint8_t c = digits.at[i];
        bool letter = c >= 'a' && c <= 'f';
        if (!letter && (c < '0' || c > '9')) {
            return false;
        }
        value = value << 4 | (uint64_t)(letter ? c - 'a' + 10 : c - '0');
    }
    *ret_first_lsn = value;
    return true;
}
