/* The values of a replicated log in a shared store, as bytes: the head, and one value for each batch.
 *
 * head, REPLICA_HEAD_BYTES:
 *
 *      0  magic "TENUREHD"
 *      8  u32  format, 1 or 2                  64  u64  batch: first LSN of the last batch, its key
 *     12  u32  flags                           72  u64  now_ms: time of the log
 *     16  u32  state version of the kernel     80  u64  shard
 *     20  u32  ttl_ms: of the owner            88  u64  chain: after the last batch
 *     24  u64  epoch: of the ownership         96  u64  stamp_ms: the owner's boot clock
 *     32  16   nonce: of the ownership        104  52   node: the owner's name, padded with zeros
 *     48  u64  seq: of the swap, in all       156  u32  CRC32C of the bytes before
 *     56  u64  lsn: of the last command
 *
 * Format 1 has no ttl_ms, which is 0 there.
 *
 * batch, REPLICA_BATCH_BYTES and the payload:
 *
 *      0  magic "TENUREBT"                     48  u64  now_ms
 *      8  u32  format, 1                       56  u64  shard
 *     12  u32  state version                   64  u64  chain: before this batch
 *     16  u64  epoch                           72  u32  count: of commands
 *     24  16   nonce                           76  u32  CRC32C of everything else
 *     40  u64  first_lsn                       80       payload, as in log_batch
 *
 * Integers are little-endian. The encoding is canonical: a head that was decoded gives the same bytes
 * again, so that stores can compare heads by value. No two heads are equal, because seq grows. */
#ifndef TN_REPLICA_REPLICA_HEAD_H
#define TN_REPLICA_REPLICA_HEAD_H

#include <stdint.h>

#include "base/bytes.h"
#include "base/status.h"
#include "log/log.h"

#define REPLICA_HEAD_BYTES 160u
#define REPLICA_BATCH_BYTES 80u
#define REPLICA_NODE_MAX 52u /* bytes of a node's name */
#define REPLICA_KEY_DIGITS 16u

enum replica_flag {
    REPLICA_RESIGNED = 1, /* the owner has stopped: any node may take over at once */
    REPLICA_CLOSED = 2,   /* the log is closed for good: no node takes over */
};

struct replica_nonce {
    uint64_t words[2];
};

struct replica_head {
    uint32_t flags;
    uint32_t state_version;
    uint32_t ttl_ms; /* how long the owner counts on a head that it has put; 0: not known */
    uint64_t epoch;
    struct replica_nonce nonce;
    uint64_t seq;
    uint64_t lsn;
    uint64_t batch;
    uint64_t now_ms;
    uint64_t shard;
    uint64_t chain;
    uint64_t stamp_ms;
    uint8_t node[REPLICA_NODE_MAX]; /* not terminated */
};

void replica_head_encode(const struct replica_head *head, uint8_t out[REPLICA_HEAD_BYTES]);
/* TN_OK, TN_CORRUPT, or TN_VERSION if another format wrote it. */
enum tn_status replica_head_decode(struct tn_bytes bytes, struct replica_head *ret_head);

static inline bool replica_nonce_equal(const struct replica_nonce *a,
                                       const struct replica_nonce *b) {
    return a->words[0] == b->words[0] && a->words[1] == b->words[1];
}

/* The same swap made both: a swap that is sent again has the same bytes. All fields count, because an owner
 * whose memory was put back (a copy of a virtual machine) gives its next seq a second time. */
bool replica_head_equal(const struct replica_head *a, const struct replica_head *b);

/* Which of two heads came later: < 0, 0, > 0. Heads of one register only. */
int replica_head_order(const struct replica_head *a, const struct replica_head *b);

/* The ownership that wrote a batch, and the position that it follows. */
struct replica_stamp {
    uint32_t state_version;
    uint64_t epoch;
    struct replica_nonce nonce;
    uint64_t chain; /* before it */
};

/* The value of a batch, REPLICA_BATCH_BYTES + batch->len bytes, to `out`. */
void replica_batch_encode(const struct log_batch *batch, const struct replica_stamp *stamp,
                          uint8_t *out);
/* The batch borrows its payload from `bytes`. TN_OK, TN_CORRUPT (also if it is not the batch that
 * belongs under this key), TN_VERSION. */
enum tn_status replica_batch_decode(struct tn_bytes bytes, uint64_t first_lsn,
                                    struct log_batch *ret_batch, struct replica_stamp *ret_stamp);

/* 64 bits over everything up to and including a batch: equal chains mean equal logs. */
uint64_t replica_chain(uint64_t before, const struct log_batch *batch);

/* The last part of a batch's key: its first LSN in 16 hexadecimal digits, so that keys sort as LSNs. */
void replica_key_write(uint64_t first_lsn, char out[REPLICA_KEY_DIGITS]);
bool replica_key_read(struct tn_bytes digits, uint64_t *ret_first_lsn);

#endif
