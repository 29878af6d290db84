/* The local log: segments and snapshots in one directory, locked by one process.
 *
 * The bytes are at the top of frame.h, segment.h and snapshot.h, the recovery algorithm at the top
 * of recover.c; docs/log-format.md describes both. */
#ifndef TN_LOG_LOCAL_H
#define TN_LOG_LOCAL_H

#include "log/snapshot_store.h"
#include "os/os.h"

struct log_local_options {
    const struct os *os;
    const char *dir;        /* created if it does not exist (unless read_only) */
    uint64_t segment_bytes; /* 0 = 16 MiB; rounded up to 4096, at least 64 KiB */
    /* Sector size for new segments, a power of two; 0: the device's, at least 4096. */
    uint32_t sector_bytes;
    uint64_t shard_number;        /* for a new directory */
    uint64_t space_reserve_bytes; /* refuse (TN_NOSPACE) a new segment that would leave less free */
    bool use_older_snapshot;      /* recover from the one before the newest */
    bool read_only;               /* for check and dump: change nothing, need no lock */
    bool no_background;           /* prepare segments inline, no thread: for deterministic tests */
    bool restored; /* this directory is a restored backup: the generation goes up by one */
    /* This log is a copy of another one, which gives the LSNs and the generation: none are passed over
     * after a crash, a batch may begin a new generation, and a snapshot without a log is accepted. */
    bool copy;
    /* With `copy`: the other log continues where this one ends. LSNs are skipped after a crash, as
     * in a log of its own. */
    bool copy_begins;
};

/* Locks the directory. On failure *error says why; *ret_log is freed by close. A directory that holds
 * a snapshot and no segments is only accepted as `restored`: otherwise it is a directory that has lost
 * its log. */
enum tn_status log_local_open(const struct log_local_options *options, log_notice *notice,
                              void *notice_ctx, struct log **ret_log, struct log_error *error);

/* The store of snapshots in the same directory. Until the log leads it takes none. */
struct log_store *log_local_store(struct log *log);

/* Called before lead, on a log opened with copy_begins: the other log has continued from here
 * already, so this one neither skips LSNs nor begins a generation. */
void log_local_continues(struct log *log);

#endif
