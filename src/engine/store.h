/* The store of events: at least the last events_max of them, in memory and in files.
 *
 * Events come as records (record.h), in order, from one thread at a time (the leader). They gather in
 * blocks in a ring of memory; whole blocks are written to files by a thread of the store's own. No
 * commit ever waits for that, but when the ring is full: then the leader writes a block itself.
 * Nothing is synced but before a snapshot becomes valid (flush), when a file is full, and at the end:
 * what a crash takes is later than the snapshot, so replay regenerates it.
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
    uint64_t space_reserve_bytes; /* a new file must leave this much free */
    /* Events up to here were flushed, by the newest snapshot, whether recovery used it or not. */
    uint64_t flushed_lsn;
    bool no_thread; /* the caller of append writes the files */
    log_notice *notice;
    void *notice_ctx;
};

/* Finds what the files contain. Damage is reported in a notice and costs events, but never prevents
 * a start; only a lack of memory does. */
enum tn_status engine_store_open(const struct engine_store_options *options,
                                 struct engine_store **ret_store);

/* Replay will begin after this LSN (0: at the first). Drops the events that replay regenerates.
 * Before the first append. */
void engine_store_replay(struct engine_store *store, uint64_t snapshot_lsn);
/* The log ends at this LSN: later events never happened. After the last append of replay. */
void engine_store_replayed(struct engine_store *store, uint64_t end_lsn);
/* Starts the thread that writes the files. */
enum tn_status engine_store_start(struct engine_store *store);

/* Appends records, in order: those of all commands up to `lsn` that were not appended before.
 * Records that the store has already are skipped. True: the caller armed the store, there are new
 * events, and it must be told. */
bool engine_store_append(struct engine_store *store, struct tn_bytes records, uint64_t lsn);

/* Makes all events up to `lsn` durable, after waiting until they have been appended. False: the
 * disk did not accept them. */
bool engine_store_flush(struct engine_store *store, uint64_t lsn);

/* Closes without a flush: the next replay regenerates the events that are not in the files. */
void engine_store_close(struct engine_store *store);

enum tn_result engine_store_read(struct engine_store *store, struct engine_event_id after,
                                 uint32_t max, engine_event_visit *visit, void *ctx,
                                 struct engine_events_span *ret_span);
bool engine_store_arm(struct engine_store *store, struct engine_event_id after);

struct engine_store_stats {
    struct engine_event_id oldest, newest;
    uint64_t events;     /* kept */
    uint64_t file_bytes; /* on disk */
    uint64_t lost;       /* events that were not retained because the disk did not accept them */
    bool failing;        /* the disk does not accept events now */
    /* Since when a disk call has not returned, in boot time; 0: none is pending. */
    uint64_t asked_ns;
};

/* The current files, oldest first, in memory that the caller frees. False: out of memory. */
bool engine_store_files(struct engine_store *store, struct log_file **ret_files,
                        uint32_t *ret_count);

void engine_store_stats(struct engine_store *store, struct engine_store_stats *ret_stats);

#endif
