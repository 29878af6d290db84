/* The record of a node: the value of the key node/NAME.
 *
 *      0  magic "TENUREND"                     64  u64  copied_lsn: durable in its local copy
 *      8  u32  format, 1                       72  u64  snapshot_lsn: of its newest snapshot
 *     12  u32  state version                   80  u64  clean_epoch
 *     16  16   instance: of the process        88  u64  config_digest
 *     32  u64  beat: age of the process, ms    96  16   boot_id: of its machine
 *     40  u64  wall_ms: its wall clock        112       texts, each { u16 length; bytes }: name,
 *     48  u64  epoch: of the head it knows              address, http, version
 *     56  u64  applied_lsn                     ..  u32  CRC32C of the bytes before
 *
 * Integers are little-endian. */
#ifndef TN_REPLICA_REPLICA_NODE_H
#define TN_REPLICA_REPLICA_NODE_H

#include <stdint.h>

#include "base/bytes.h"
#include "base/status.h"
#include "replica/replica_head.h"

#define REPLICA_NODES_MAX 16u
#define REPLICA_RECORDS_READ 1024u /* keys under node/ in one answer: not all need be records */
#define REPLICA_ADDRESS_MAX 127u
#define REPLICA_LABEL_MAX 63u /* of a version */
#define REPLICA_NODE_BYTES_MAX \
    (112u + 4u * 2u + REPLICA_NODE_MAX + 2u * REPLICA_ADDRESS_MAX + REPLICA_LABEL_MAX + 4u)

struct replica_node {
    char name[REPLICA_NODE_MAX + 1];
    char address[REPLICA_ADDRESS_MAX + 1];
    char http[REPLICA_ADDRESS_MAX + 1];
    char version[REPLICA_LABEL_MAX + 1];
    uint8_t boot_id[LOG_BOOT_ID_BYTES];
    struct replica_nonce instance; /* identifies the process: its place, and a random number */
    uint32_t state_version;
    uint64_t beat;
    uint64_t wall_ms;
    uint64_t epoch;
    uint64_t applied_lsn, copied_lsn, snapshot_lsn;
    uint64_t clean_epoch;
    uint64_t config_digest;
    /* Not in the record. */
    uint64_t seen_ms; /* boot time of the reader when it last saw a change of the record */
    uint64_t age_ms;  /* since then */
    bool lives;       /* the reader has seen it change between two looks: it was not only found */
    int64_t skew_ms;  /* how far its wall clock was ahead of ours when the record was seen */
};

/* The length of the record. */
uint32_t replica_node_encode(const struct replica_node *node, uint8_t out[REPLICA_NODE_BYTES_MAX]);
/* TN_OK, TN_CORRUPT, TN_VERSION. Fields that the record does not have become 0. */
enum tn_status replica_node_decode(struct tn_bytes bytes, struct replica_node *ret_node);

#endif
