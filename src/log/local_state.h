/* The local log's own state. Only the files of the local log include this header.
 *
 *   local.c        open, close, the table of the log's verbs
 *   local_store.c  the snapshot store's verbs
 *   recover.c      load: from a directory to a position, checking everything on the way
 *   list.c         load: which segments there are, and whether one is missing
 *   resume.c       lead: from a position to a log that can be written
 *   writer.c       append, marks, rotation
 *   proof.c        evidence that a segment existed: continued marks, the lock file
 *   retain.c       removal of old files after a snapshot
 *   hold.c         the files of a copy, and keeping them while it is made
 *
 * Threads: the appender owns `writer`; the thread that takes a snapshot owns `snapshot`; what both
 * touch is guarded by `mutex`, which is never held during I/O. */
#ifndef TN_LOG_LOCAL_STATE_H
#define TN_LOG_LOCAL_STATE_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "log/dir.h"
#include "log/frame.h"
#include "log/local.h"
#include "log/segment.h"
#include "log/snapshot.h"
#include "log/spare.h"

/* Whether a reader can see that the last batch was synced. */
enum log_mark {
    LOG_MARK_DUE,  /* no: a mark should follow it */
    LOG_MARK_DONE, /* a mark follows it, or none is needed: the batch opens its segment */
};

/* The end of the log, as the appender sees it. */
struct log_writer {
    int file;                         /* -1: there is no segment yet */
    struct log_segment_header header; /* of the newest segment; zeros if there is none */
    uint64_t offset;                  /* offset of the next frame */
    uint64_t chain;                   /* chain after the last batch */
    enum log_mark mark;
    bool closing;    /* a closing mark stands at the end */
    bool refused;    /* the last append was refused, and the reason has been reported */
    bool dead;       /* a write or sync of log data failed: nothing is ever written again */
    uint8_t *buffer; /* room for what a segment begins with: header, then the largest frame */
    size_t buffer_bytes;
};

struct log_local {
    struct log log; /* first: what the engine holds */
    struct log_store store;
    struct log_dir dir;
    struct log_local_options options; /* effective sizes; dir and os are in `dir` */
    int lock_file;                    /* -1: read only */
    struct recovery *recovery;        /* from the store's load to lead */
    bool writable;                    /* lead has succeeded */

    struct log_spares spares;
    struct log_writer writer;
    struct log_snapshot_writer snapshot;

    pthread_mutex_t mutex; /* guards all below */
    struct log_position position;
    struct {
        uint64_t seq, offset;
    } end; /* of the last batch: in this segment, behind its frame; seq 0: there is no segment */
    uint32_t holds;               /* copies being made, during which nothing is removed */
    struct log_segment *segments; /* oldest first, without gaps; the last one is being written */
    size_t segment_count;
    size_t segment_capacity;
    struct log_numbers snapshots; /* LSNs, oldest first */
    uint64_t snapshot_found;      /* the newest when load was done; UINT64_MAX: there was none */
    uint64_t snapshot_bytes;      /* of the newest */
    uint64_t snapshot_ms;         /* the log's time in the newest */
    uint64_t bytes_appended;      /* since the loaded snapshot: see log_local_counted */
    uint64_t bytes_at_snapshot;   /* bytes_appended when the newest snapshot began */
    uint64_t bytes_at_begin;      /* the same for the one being written */
    uint64_t appends;
    uint64_t sync_ns_last;
    uint64_t torn_tail_bytes;
};

static inline struct log_local *log_local_of(struct log *log) {
    return (struct log_local *)log;
}

static inline struct log_local *log_local_of_store(struct log_store *store) {
    return (struct log_local *)(void *)((char *)store - offsetof(struct log_local, store));
}

/* What a batch counts towards the next snapshot: its bytes, without what a large sector adds to
 * them. A snapshot saves time at the next start, and padding costs none. */
static inline uint64_t log_local_counted(uint64_t payload_len) {
    return log_frame_size(payload_len, LOG_SECTOR_OLD);
}

void log_local_lock(struct log_local *log);
void log_local_unlock(struct log_local *log);

__attribute__((format(printf, 2, 3))) void log_local_notice(struct log_local *log,
                                                            const char *format, ...);

/* Makes room for one more; false if there is no memory. The caller holds the mutex or is alone. */
bool log_local_segment_reserve(struct log_local *log);
/* Adds to the end; false if there is no memory. The caller holds the mutex or is alone. */
bool log_local_segment_add(struct log_local *log, const struct log_segment *segment);

/* local.c */
uint64_t log_local_batch_max(const struct log *base);

/* local_store.c */
extern const struct log_store_verbs log_local_store_verbs;

/* recover.c */
enum tn_status log_local_store_load(struct log_store *store, const struct log_loader *loader,
                                    struct log_position *ret_at, struct log_error *error);
enum tn_status log_local_load(struct log *base, const struct log_position *from,
                              const struct log_loader *loader, struct log_position *ret_position,
                              struct log_error *error);
enum tn_status log_local_lead(struct log *base, struct log_position *ret_position,
                              struct log_error *error);
void log_local_recovery_free(struct log_local *log);

/* What recover.c found and resume.c needs. */
struct log_tail {
    /* Position before `batch`, if it is to be written again; otherwise the end. */
    struct log_position before;
    uint64_t chain;  /* chain value there */
    uint64_t offset; /* in the newest segment: where the next frame goes */
    bool closed;     /* the log ends in a closing mark: no acknowledged batch can be missing */
    bool sole; /* not closed, and no batch in the newest segment but what it got its name with */
    bool unmarked;          /* there is a last batch that is to be written again */
    struct log_batch batch; /* that batch; count 0: the segment has none */
};

/* resume.c: makes durable what was read, opens the end for writing, clears leftovers away. */
enum tn_status log_local_resume(struct log_local *log, const struct log_tail *tail,
                                const struct log_listing *listing, struct log_error *error);

/* writer.c */
void log_writer_append(struct log *base, const struct log_batch *batch, log_committed *done,
                       void *ctx);
enum tn_status log_writer_idle(struct log *base);
/* Puts an ordinary mark over a closing mark at the end, durably: from now on there may be more. */
enum tn_status log_writer_reopen(struct log_local *log);
/* Writes a durable closing mark; false if that is not possible. */
bool log_writer_finish(struct log_local *log);
/* What a new segment begins with, and how far its creation has come. */
struct log_rotation {
    const struct log_batch *batch; /* NULL: it begins empty */
    uint64_t shard;
    uint64_t skip_from, skip_to; /* LSNs that it passes over; 0: none */
    bool urgent;                 /* may use the reserved space */
    bool again; /* replaces the newest segment under its own name instead of making the next one */
    bool written; /* out: the batch may be on disk, if only in a file that is no segment */
    bool named;   /* out: that file has its name and is part of the log */
};
/* On TN_OK, the segment and the batch are durable, and the previous segment refers to it. If it
 * fails before `named`, nothing of it is part of the log. */
enum tn_status log_writer_rotate(struct log_local *log, struct log_rotation *rotation);

/* proof.c */
/* Whether the segment says that another one follows. */
enum tn_status log_proof_continued(const struct log_local *log, const struct log_segment *segment,
                                   bool *ret_continued);
/* The same for a segment that is in memory. */
bool log_proof_continued_in(const struct log_segment_header *header, const uint8_t *bytes,
                            size_t len);
/* Makes the segment in `file` say that `next` follows, durably. */
enum tn_status log_proof_continue(const struct log_local *log, int file,
                                  const struct log_segment_header *header,
                                  const struct log_segment_header *next);
/* Whether the directory ever had a segment. */
enum tn_status log_proof_begun(const struct log_local *log, bool *ret_begun);
/* Called after resuming: writes the missing evidence for the newest segment. */
enum tn_status log_proof_complete(const struct log_local *log);

/* retain.c: removes snapshots and segments that the two newest snapshots do not need, unless a copy
 * is being made. */
void log_local_retain(struct log_local *log);

/* hold.c */
enum tn_status log_local_hold(struct log *base, struct log_held *ret_held);
void log_local_release(struct log *base);

#endif
