/* Positions, figures and errors of a log: what the engine passes on to its own users. */
#ifndef TN_LOG_LOG_TYPES_H
#define TN_LOG_LOG_TYPES_H

#include <stdbool.h>
#include <stdint.h>

/* Called for events that deserve a line in the program's log: torn tail cut, recovery rewritten, ... */
typedef void log_notice(void *ctx, const char *line);

/* Bytes of the address of another node that owns the log. */
#define LOG_LEADER_MAX 127u
#define LOG_NODE_MAX 52u /* bytes of a node's name */
#define LOG_NODES_MAX 64u
#define LOG_NOTE_MAX (256u << 10) /* bytes of a note */
#define LOG_BOOT_ID_BYTES 16u

/* Why an operation failed: names file, offset and remedy. One line, no newline. */
struct log_error {
    char text[512];
};

/* Where a log stands. */
struct log_position {
    uint64_t lsn;    /* of the last command; 0: there is none */
    uint64_t now_ms; /* time of the last batch */
    uint64_t shard;  /* generation << 32 | shard number */
    /* Of the next command: lsn + 1, or more if LSNs were passed over. Set by load; snapshots ignore
     * it. */
    uint64_t next_lsn;
};

/* How long the calls of a replicated log to its store took, in powers of two from 64 microseconds to two
 * seconds. */
#define LOG_CALL_BUCKETS 16u
static inline uint64_t log_call_bound_ns(unsigned bucket) {
    return (uint64_t)64000 << bucket;
}

/* A file that belongs to a copy of a log and its snapshot store. */
#define LOG_FILE_NAME_MAX 64u
struct log_file {
    char name[LOG_FILE_NAME_MAX]; /* in the log's directory */
    uint64_t bytes;               /* of its content that counts; they do not change any more */
    uint64_t size;                /* size in the copy, which is filled up with zeros */
};

/* What a copy consists of. */
struct log_held {
    struct log_position position; /* the position at which the copy ends */
    struct log_file *files; /* the newest snapshot, then the segments after it, in order; malloc */
    uint32_t count;
    uint32_t snapshots; /* how many of the files are snapshots; 0 or 1 */
};

/* The figures of a log and of its snapshot store. */
struct log_stats {
    uint64_t segments;
    uint64_t log_bytes;
    uint64_t appends;
    uint64_t sync_ns_last;
    uint64_t torn_tail_bytes; /* found at load */
    /* The store's (log/snapshot_store.h). */
    uint64_t snapshots;
    uint64_t snapshot_bytes; /* of the newest */
    uint64_t snapshot_lsn;   /* of the newest snapshot; 0: none */
    uint64_t snapshot_ms;    /* the log's time there */
    uint64_t bytes_since_snapshot;
    /* A replicated log's; all 0 in others. */
    uint64_t
        /* Time since this node had every batch that the owner had committed. 0: it is the owner.
         * 2^32: it has not heard a live owner since its start. */
        stale_ms;
    uint64_t takeovers;   /* takeovers by this node since its start */
    uint64_t doubts;      /* calls to the store whose outcome was in doubt */
    uint64_t store_bytes; /* size that the store behind the log reports */
    uint64_t call_ns_sum; /* sum over all answered calls to the store */
    /* Calls that took at most log_call_bound_ns(i); the last entry: longer. */
    uint64_t call_histogram[LOG_CALL_BUCKETS + 1];
};

/* The knowledge that a node needs to take over a log. */
struct log_succession {
    uint64_t epoch; /* number of this ownership; later owners have larger ones */
    /* The log's time at this moment, if this node has heard the previous owner: that owner's time
     * plus the boot time since its last stamp, never ahead of the true time. 0: it has not heard
     * it, so only the wall clock can tell. */
    uint64_t heard_ms;
    /* A lower bound of the log's time, heard or not: the last owner has published it. 0: none has. */
    uint64_t least_ms;
    /* In boot time: when the authority of every earlier owner has ended, by that owner's clock. */
    uint64_t fenced_at_boot_ms;
};

/* A node of a replicated log, as it has registered itself. Texts are empty if they are not known. */
struct log_node {
    char name[LOG_NODE_MAX + 1];
    char address[LOG_LEADER_MAX + 1]; /* for clients: what followers are told as `leader` */
    char http[LOG_LEADER_MAX + 1];
    uint8_t boot_id[LOG_BOOT_ID_BYTES]; /* of the node's machine; zeros: unknown */
    uint64_t clean_epoch; /* no process that it started in this epoch or earlier is alive */
    uint64_t applied_lsn;
    uint64_t age_ms; /* time since it was last heard */
    bool self;
};

#endif
