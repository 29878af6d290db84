/* The batches that a log was given, those that it acknowledged, and whether a load returns the
 * right ones.
 *
 * A load is right if it returns a prefix of the batches that were tried, byte for byte, with every
 * batch that was acknowledged; a snapshot before them must be one that was written, for a batch
 * that was acknowledged. No LSN that may have been written before is assigned again, whether its
 * batch still exists or not. The batches that a load returned count as acknowledged from then on:
 * they have been served. */
#ifndef TESTS_CRASH_LEDGER_H
#define TESTS_CRASH_LEDGER_H

#include "crash/image.h"
#include "log/local.h"

/* Batches form a tree: one that was given up stays where it was tried, because a crash at that time
 * may have left it. */
struct ledger_batch {
    const struct ledger_batch *before; /* NULL: it is the first */
    size_t number;                     /* from 1 */
    uint64_t hash;                     /* of this batch and all before it */
    uint64_t lsn_high;                 /* the largest LSN that was tried up to here */
    uint64_t lsn_high_before;          /* the largest LSN that was tried before this batch */
    struct log_batch batch;
    uint8_t payload[];
};

struct ledger_snapshot {
    uint64_t lsn;
    uint64_t digest;
};

struct ledger {
    const struct ledger_batch **batches; /* from the first to the last one tried */
    size_t tried, capacity;
    size_t acked;
    uint64_t lsn_high;          /* the largest LSN that may have been written */
    uint64_t next_lsn;          /* the next LSN, as the last load reported it */
    struct ledger_batch **made; /* the batches that this ledger has made */
    size_t made_count, made_capacity;
    struct ledger_snapshot *snapshots;
    size_t snapshot_count, snapshot_capacity;
};

void ledger_free(struct ledger *ledger);
/* As another one was, which must outlive it, when this batch was the last one tried (NULL: none) and
 * so many were acknowledged. */
void ledger_fork(struct ledger *to, const struct ledger *from, const struct ledger_batch *tip,
                 size_t acked);
const struct ledger_batch *ledger_tip(const struct ledger *ledger);

/* The LSN of the last of the first `count` batches. */
uint64_t ledger_lsn(const struct ledger *ledger, size_t count);
uint64_t ledger_hash(const struct ledger *ledger, size_t count);
uint64_t ledger_next(const struct ledger *ledger); /* the LSN of the next command */

void ledger_try(struct ledger *ledger, const struct log_batch *batch);
/* How the last one that was tried ended. */
void ledger_settle(struct ledger *ledger, enum tn_status status);
/* All but so many are given up. */
void ledger_cut(struct ledger *ledger, size_t count);

/* ---- Loading ---- */

struct ledger_result {
    enum tn_status status;
    size_t loaded;
    uint64_t hash;
    struct log_position position;
    char text[600]; /* why not, if status is not OK */
};

/* Loads a local log that has just been opened, with its store, and checks what comes. */
void ledger_load(const struct ledger *ledger, struct log *log, struct ledger_result *ret_result);

/* ---- The spy ---- */

/* A log between its user and the local log: it keeps the ledger, and notes acknowledged batches on
 * the tape. Its load fails if an acknowledged batch is missing. Closed like any log. */
enum tn_status ledger_spy(struct ledger *ledger, struct tape *tape,
                          const struct log_local_options *options, struct log **ret_log,
                          struct log_error *error);
/* The same around a log that has been loaded already. */
struct log *ledger_spy_on(struct ledger *ledger, struct tape *tape, struct log *log);
/* The store that goes with a spy. */
struct log_store *ledger_spy_store(struct log *spy);
#endif
