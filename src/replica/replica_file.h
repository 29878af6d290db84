/* The file `replica` in a node's data directory: how much of the local copy belongs to the cluster's log.
 *
 *      0  magic "TENURERP"                     32  u64  lsn
 *      8  u32  format, 1                       40  u64  chain: after lsn
 *     12  u32  flags                           48  u64  epoch: the newest one that was seen
 *     16  16   cluster                         56  u32  CRC32C of the bytes before
 *
 * Integers are little-endian. The file is replaced as a whole, durably. */
#ifndef TN_REPLICA_REPLICA_FILE_H
#define TN_REPLICA_REPLICA_FILE_H

#include "os/os.h"

#define REPLICA_CLUSTER_BYTES 16u

enum replica_file_flag {
    REPLICA_FILE_CHAIN = 1,   /* the chain is known */
    REPLICA_FILE_SEEDING = 4, /* the directory is being replaced by a snapshot of another node */
    REPLICA_FILE_CLOSED = 2,  /* the cluster was closed for good: the directory stands alone */
};

struct replica_file {
    uint8_t cluster[REPLICA_CLUSTER_BYTES];
    uint32_t flags;
    uint64_t lsn, chain, epoch;
};

/* TN_OK; TN_NOTFOUND; TN_CORRUPT; TN_VERSION; or why it cannot be read. */
enum tn_status replica_file_read(const struct os *os, const char *dir,
                                 struct replica_file *ret_file);
/* Durable on TN_OK. */
enum tn_status replica_file_write(const struct os *os, const char *dir,
                                  const struct replica_file *file);

#endif
