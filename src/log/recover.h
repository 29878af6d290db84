/* One recovery in progress. Only recover.c and list.c include this header. */
#ifndef TN_LOG_RECOVER_H
#define TN_LOG_RECOVER_H

#include "log/local_state.h"

#define REMEDY_BACKUP "restore from a backup (`tenure check DIR` lists what is readable)"
#define REMEDY_OLDER "start with --use-older-snapshot, which loses nothing"

struct recovery {
    struct log_local *log;
    const struct log_loader *loader;
    struct log_error *error;
    struct log_listing listing;

    bool have_snapshot;
    struct log_position snapshot; /* zeros if there is none */
    size_t chosen;                /* its index in listing.snapshots */
    size_t start;                 /* index of the first segment to replay */

    uint64_t last_lsn; /* position up to which batches were followed */
    uint64_t next_lsn; /* more than last_lsn + 1 where LSNs were passed over */
    uint64_t now_ms;
    uint64_t chain;

    uint8_t *bytes; /* the segment being read; the newest one's stay for the tail */
    size_t bytes_len;
    struct log_tail tail;
};

/* A call of the system that failed for this file. */
enum tn_status log_recover_failed(struct recovery *r, enum tn_status status, const char *name,
                                  const char *what);

/* The steps of list.c, in this order. Reads the headers of the run that ends at the newest segment. */
enum tn_status log_recover_collect(struct recovery *r);
/* Is it a run that may begin where it does? */
enum tn_status log_recover_check_gap(struct recovery *r);
/* Does it reach down to the snapshot? Finds the segment to start with. */
enum tn_status log_recover_check_reach(struct recovery *r);

#endif
