/* Positions, figures and errors of a log: what the engine passes on to its own users. */
#ifndef TN_LOG_LOG_TYPES_H
#define TN_LOG_LOG_TYPES_H

#include <stdint.h>

/* Called for things worth a line in the log of the program: torn tail cut, recovery rewritten, ... */
typedef void log_notice(void *ctx, const char *line);

/* Of the address of another node that owns the log. */
#define LOG_LEADER_MAX 127u

/* Why an operation failed, for people: names file, offset and remedy. One line, no newline. */
struct log_error {
    char text[512];
};

/* Where a log stands. */
struct log_position {
    uint64_t lsn;    /* of the last command, 0 if there is none */
    uint64_t now_ms; /* of the last batch */
    uint64_t shard;  /* generation << 32 | shard number */
    /* Of the next command: lsn + 1, or more if LSNs were passed over. Told by load; a snapshot has no
     * use for it. */
    uint64_t next_lsn;
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
    uint64_t snapshot_lsn;   /* of the newest, 0 if none */
    uint64_t bytes_since_snapshot;
};

#endif
