/* The requests of clients to a real server, their answers, the times of both, and the server's log.
 *
 * An operation is one request of one client. It began before its first byte was sent and ended
 * after its last answer was read, by one monotonic clock, so that "ended before the other began" is
 * true whenever it is claimed. Everything is kept in numbers of fixed size (see nm_world.h for their
 * meaning), so that a history is written to a file as it is and checked again from there. */
#ifndef TESTS_NEMESIS_NM_HISTORY_H
#define TESTS_NEMESIS_NM_HISTORY_H

#include "base/bytes.h"
#include "kernel/result.h"

#define NM_CLAIMS 2u
#define NM_VALUES 4u /* of one lease */
#define NM_NONE UINT32_MAX
#define NM_DIGESTS 3u

enum nm_verb {
    NM_ALLOC,
    NM_RESERVE,
    NM_ACTIVATE,
    NM_TOUCH,
    NM_RELEASE,
    NM_REVOKE,
    NM_ACK,
    NM_RECLAIM,
    NM_REKEY,
    NM_SWEEP,
    NM_DISOWN,
    NM_VERIFY, /* from here on: reads */
    NM_LEASE,
    NM_VALUE, /* LEASE pool/value */
    NM_VERB_COUNT,
};

enum nm_outcome {
    NM_UNKNOWN,   /* no answer, or one that leaves it open */
    NM_COMMITTED, /* for a read: answered */
    NM_REJECTED,
};

/* A value: which pool of the group, and its number there, from 1. */
struct nm_value {
    uint8_t pool, number;
};

/* Any `count` of a pool (0: "one, or what a returning holder has"), or the listed ones. */
struct nm_claim {
    uint8_t pool;
    bool any;
    uint8_t count;
    uint8_t numbers[3];
};

struct nm_op {
    uint64_t start_ns, end_ns; /* end: 0 while there is no answer */
    /* The request. */
    uint64_t lease, epoch;
    uint64_t fence;              /* of a read: the position that it must see at least; 0: none */
    uint32_t client, connection; /* connections are numbered through the whole history */
    uint32_t life;               /* life of the server to which the operation was last sent */
    uint32_t opid;               /* 0: none; of a first use: its own place + 1 */
    uint32_t repeats;            /* the operation that it repeats, or NM_NONE */
    uint16_t sends;
    uint8_t verb, group, holder; /* of a rekey: the new holder */
    uint8_t ttl_s;               /* 0: none; see nm_world.h for those of cells */
    uint8_t after_s;             /* of a revoke: its delay; 0: none */
    bool now;                    /* of a release */
    bool clash;                  /* uses the operation id of another one */
    uint8_t claim_count;
    struct nm_claim claims[NM_CLAIMS];
    /* The answer. */
    uint8_t outcome, code; /* enum nm_outcome, enum tn_result */
    bool replayed, has_lease;
    uint8_t state, got_holder;
    uint8_t value_count;
    struct nm_value values[NM_VALUES];
    uint64_t lsn, got_lease, got_epoch, deadline_ms;
    uint64_t number; /* the number in the refusal or answer, as in struct kernel_result */
    uint64_t retry_at_ms;
};

static inline bool nm_is_read(const struct nm_op *op) {
    return op->verb >= NM_VERIFY;
}

/* From a start of the server to its proven death. */
struct nm_life {
    uint64_t start_ns, end_ns;
    /* First and last LSN of the log when the life began and after it ended. */
    uint64_t first_lsn, last_lsn;
};

struct nm_entry {
    uint64_t now_ms;
    uint64_t at; /* of its bytes */
    uint32_t len;
    uint32_t life; /* in which it was written */
};

/* What a node of a cluster had made of the log up to a position. */
struct nm_digest {
    uint64_t lsn, hash;
    uint32_t node;
};

struct nm_history {
    uint64_t seed;
    uint64_t shard;
    int64_t
        wall_ns; /* In a cluster: the wall clock minus the clock of this history. 0: one server. */
    struct nm_op *ops;
    uint32_t op_count, op_capacity;
    struct nm_entry *entries; /* of the log: entries[0] is LSN 1; len 0: a start skipped the LSN */
    uint32_t entry_count, entry_capacity;
    uint8_t *bytes;
    uint64_t byte_count, byte_capacity;
    struct nm_life *lives;
    uint32_t life_count, life_capacity;
    struct nm_digest digests[NM_DIGESTS]; /* not kept in files */
    uint32_t digest_count;
};

void nm_history_free(struct nm_history *h);
/* The new one is cleared; pointers to others are void. */
struct nm_op *nm_history_op(struct nm_history *h);
struct nm_life *nm_history_life(struct nm_history *h);
void nm_history_entry(struct nm_history *h, uint64_t now_ms, struct tn_bytes bytes, uint32_t life);
struct tn_bytes nm_history_bytes(const struct nm_history *h, uint64_t lsn);
void nm_history_copy(const struct nm_history *from, struct nm_history *ret_to);

/* False: the file could not be written or read, or is none. */
bool nm_history_save(const struct nm_history *h, const char *path);
bool nm_history_load(struct nm_history *ret_h, const char *path);

/* For a failure: writes it to a file, and how to play and to judge it again to standard error. */
void nm_history_keep(const struct nm_history *h, const char *why);

/* Reads the entries that the log in this directory has beyond the known ones, as written by `life`;
 * no server may run on the directory. False and `why`: the log cannot be read, has lost an entry,
 * or contradicts the known entries. */
bool nm_history_read_log(struct nm_history *h, const char *dir, uint32_t life, char *why,
                         size_t capacity);

/* As nm_history_read_log, for a node of a cluster: its copy of the log may end before the known
 * entries do. *ret_gap: the copy begins after them, and nothing was read. */
bool nm_history_read_copy(struct nm_history *h, const char *dir, bool *ret_gap, char *why,
                          size_t capacity);

/* One line, for people. */
void nm_op_text(const struct nm_history *h, uint32_t index, char *out, size_t capacity);

#endif
