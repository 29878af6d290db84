/* The store of events: at least the last events_max of them, in memory and in files.
 *
 * Events come as records (record.h), in order, from one thread at a time (the leader). They gather in
 * blocks in a ring of memory; whole blocks are written to files by a thread of the store's own. No
 * commit ever waits for that, but when the ring is full: then the leader writes a block itself.
 * Nothing is synced but before a snapshot becomes valid (flush), when a file is full, and at the end:
 * what a crash takes is later than the snapshot, so replay tells it again.
 *
 * Failures never reach the caller: a disk that does not take a block is tried again later; meanwhile
 * the ring keeps what fits, the rest is counted and leaves a hole that readers are told of. */
#ifndef TN_ENGINE_STORE_H
#define TN_ENGINE_STORE_H

#include "engine/events.h"

struct engine_store;

struct engine_store_options {
    const struct os *os;
    const char *dir; /* NULL: in memory only */
    uint64_t events_max;
    uint64_t space_reserve_bytes; /* no new file that would leave less free */
    uint64_t flushed_lsn; /* there was a flush up to here; of the newest snapshot, used or not */
    bool no_thread;       /* the caller of append writes */
    log_notice *notice;
    void *notice_ctx;
};

/* Finds what the files have. Damage is told in a notice and costs events, never the start: the
 * failure that there is is a lack of memory. */
enum tn_status engine_store_open(const struct engine_store_options *options,
                                 struct engine_store **ret_store);

/* Replay will begin after this LSN (0: with the first). Drops what replay can tell better. Before
 * the first append. */
void engine_store_replay(struct engine_store *store, uint64_t snapshot_lsn);
/* The log ends at this LSN: events beyond it never happened. After the last append of replay. */
void engine_store_replayed(struct engine_store *store, uint64_t end_lsn);
/* The thread that writes. */
enum tn_status engine_store_start(struct engine_store *store);

/* Records in order, of all commands up to `lsn` that have not been given before. Those that are in
 * the store already are skipped. True: the caller must be told: it armed, and there are new events. */
bool engine_store_append(struct engine_store *store, struct tn_bytes records, uint64_t lsn);

/* Makes everything up to `lsn` durable; waits until that has been appended. False if the disk did not
 * take it. */
bool engine_store_flush(struct engine_store *store, uint64_t lsn);

/* Without a flush: the next replay delivers the events that are not in the files. */
void engine_store_close(struct engine_store *store);

enum tn_result engine_store_read(struct engine_store *store, struct engine_event_id after,
                                 uint32_t max, engine_event_visit *visit, void *ctx,
                                 struct engine_events_span *ret_span);
bool engine_store_arm(struct engine_store *store, struct engine_event_id after);

struct engine_store_stats {
    struct engine_event_id oldest, newest;
    uint64_t events;     /* kept */
    uint64_t file_bytes; /* on disk */
    uint64_t lost;       /* that could not be kept, for want of a disk that takes them */
    bool failing;        /* the disk does not take them now */
    uint64_t asked_ns;   /* since when the disk owes an answer, in boot time; 0: it does not */
};

/* The files as they are now, oldest first, in memory that the caller frees. False: there is no memory. */
bool engine_store_files(struct engine_store *store, struct log_file **ret_files,
                        uint32_t *ret_count);

void engine_store_stats(struct engine_store *store, struct engine_store_stats *ret_stats);

#endif
