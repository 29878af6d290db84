/* The log of a cluster: log/log.h over etcd, with a local copy.
 *
 * Under a prefix, etcd holds one register and a few keys:
 *
 *   cluster          16 random bytes, written once by the node that began the cluster
 *   head             the owner of the log, and where the log ends (replica_head.h)
 *   log/%016x        one batch, by its first LSN, until it is trimmed
 *   node/NAME        the record of a node, renewed every 5 s (replica_node.h)
 *   note/NAME        small values that belong to the service, not to a node
 *
 * One node owns the log: it appends, renews its ownership every T/3, trims and compacts. The others
 * follow: they read the batches and then watch for more. Every node keeps a local copy, an ordinary data
 * directory, and next to it the file `replica`, which says how much of it belongs to the cluster's log.
 *
 * Invariants
 * 1. The head changes only by compare-and-swap on its value. A batch is in the log if and only if the
 *    swap that has it took place. The answer of `append` is true (see log/log.h).
 * 2. A node takes over only with everything applied up to the head that it swaps.
 * 3. The local copy holds a prefix of the log: batches go to it after etcd has them, in order.
 * 4. The file `replica` never names a later position than the local copy has, nor an earlier one than
 *    the newest snapshot: the chain at the end of the copy follows from the file and the batches after it.
 * 5. No log position is trimmed in etcd unless the snapshots of a majority of the registered nodes
 *    cover it.
 * 6. Nothing that comes from etcd is trusted: it is judged, then used or refused with a reason.
 *
 * A crash at any point leaves: etcd as it was before or after one transaction; a local copy that
 * ends somewhere before etcd's log; and a file that is older than the copy. From each of these
 * states a start continues by reading.
 *
 * Threads. The log's own thread drives both connections to etcd, decides (replica_owner.h), follows,
 * and calls the follower and `done`. A second thread appends to the local copy: only a snapshot waits
 * for it, and an owner or follower that is 64 MiB ahead of it. replica_state.h says which
 * member belongs to which thread. */
#ifndef TN_REPLICA_REPLICA_H
#define TN_REPLICA_REPLICA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "log/snapshot_store.h"
#include "os/os.h"
#include "replica/replica_node.h"

#define REPLICA_PREFIX_MAX 200u   /* bytes of the prefix of keys */
#define REPLICA_NOTE_NAME_MAX 32u /* bytes of the name of a note */
#define REPLICA_PREFIX_DEFAULT "/tenure/default/"
#define REPLICA_FILE "replica"       /* in the data directory */
#define REPLICA_TTL_MS_MIN 500u      /* a shorter ownership would end with every hiccup */
#define REPLICA_BATCH_MAX (1u << 20) /* bytes of a batch: etcd takes 1.5 MiB at a time */

struct etcd;

/* Why a node does not take part. Kept until it does; those marked "final" until it is restarted. */
#define REPLICA_TROUBLE_TABLE(X)                                                                   \
    X(NONE, "none", false)                                                                         \
    X(UNREACHABLE, "etcd does not answer", false)                                                  \
    X(DENIED, "etcd denies access: check user, password and certificates", false)                  \
    X(ETCD_VERSION, "this version of etcd is too old: 3.4 or later is needed", false)              \
    X(UNINITIALIZED, "there is no cluster under this prefix: start one node with --cluster-init",  \
      false)                                                                                       \
    X(NOT_EMPTY, "the prefix is not empty: a cluster can only begin under an unused prefix", true) \
    X(OTHER_CLUSTER, "this data directory belongs to another cluster", true)                       \
    X(UNRELATED,                                                                                   \
      "this data directory holds a log of its own: begin the cluster with it (--cluster-init), "   \
      "or start with an empty directory",                                                          \
      true)                                                                                        \
    X(PUT_BACK,                                                                                    \
      "etcd was put back to an older state than this node has seen: start the node with the "      \
      "highest log position with --restored",                                                      \
      true)                                                                                        \
    X(NEWER, "the log in etcd is newer than this data directory: start without --restored", true)  \
    X(GONE, "the cluster's keys are gone from etcd", true)                                         \
    X(BEHIND,                                                                                      \
      "the next log position is no longer in etcd: this node must begin with a snapshot of "       \
      "another node",                                                                              \
      true)                                                                                        \
    X(VERSION, "a newer version of Tenure has written to the log: upgrade this node", false)       \
    X(DAMAGED, "a value in etcd is damaged on every member that was asked", true)                  \
    X(DIVERGED, "the log in etcd does not continue what this node has: its chain differs", true)   \
    X(DUPLICATE, "another running node has the same name", true)                                   \
    X(COPY, "the local copy of the log cannot be written", true)                                   \
    X(NO_ROOM, "the disk of the local copy is full: free space on it, and start the node again",   \
      true)                                                                                        \
    X(ENGINE, "the engine takes no more batches", true)                                            \
    X(CLOSED, "the cluster was closed for good", false)                                            \
    X(FULL, "etcd's database is near its quota: writes are refused", false)                        \
    X(LOG_FULL,                                                                                    \
      "etcd keeps etcd_log_bytes of the log, and the snapshots of too few nodes cover them: "      \
      "writes are refused",                                                                        \
      false)                                                                                       \
    X(COPY_FULL, "the disk of the local copy is full: this node does not own the log", false)

enum replica_trouble {
#define REPLICA_TROUBLE_ENUM(name, text, final) REPLICA_TROUBLE_##name,
    REPLICA_TROUBLE_TABLE(REPLICA_TROUBLE_ENUM)
#undef REPLICA_TROUBLE_ENUM
        REPLICA_TROUBLE_COUNT
};

const char *replica_trouble_name(enum replica_trouble trouble); /* "put_back" */
const char *replica_trouble_text(enum replica_trouble trouble);
bool replica_trouble_is_final(enum replica_trouble trouble);

/* Texts are copied. 0 and NULL stand for the value in brackets. */
struct replica_options {
    const struct os *os; /* (os_posix) */
    /* The local copy: a local log (log/local.h), not loaded yet, opened with `copy`, and if this is
     * `init` with `copy_begins` and `restored` as below; else without `restored`. It becomes the
     * replica's: closing the replica closes it. Its directory is `dir`. */
    struct log *local;
    struct log_store *local_store;
    const char *dir;

    const char *const *endpoints; /* of etcd */
    unsigned endpoint_count;
    const char *ca_file, *certificate_file, *key_file; /* PEM; NULL as in etcd_client.h */
    const char *user, *password;                       /* NULL: none */
    const char *prefix;                                /* ends in '/' ("/tenure/default/") */

    const char *node;      /* name of this node, 1 to REPLICA_NODE_MAX bytes */
    const char *advertise; /* HOST:PORT of RESP for clients: `leader` of other nodes' followers */
    const char *advertise_http; /* (none) */
    const char *version;        /* version of the program (none) */
    const uint8_t *boot_id;     /* id of the machine's boot, LOG_BOOT_ID_BYTES (zeros) */
    /* Identifies the directory on the machine; no other directory has the same (a hash of
     * `dir`). */
    uint64_t place;
    /* Digest of the configuration that all nodes should share; 0: unknown. */
    uint64_t config_digest;
    uint32_t state_version; /* the newest version of the kernel's state that this node supports */

    uint32_t leader_ttl_ms;    /* T (2000) */
    uint64_t etcd_log_bytes;   /* bytes of batches kept in etcd (256 MiB) */
    uint64_t etcd_quota_bytes; /* quota of etcd's database; 0: not judged */
    bool confirm_reads;        /* log_verbs.confirm asks etcd */
    bool no_compact;           /* etcd is shared with others: never compact it */

    bool init;     /* --cluster-init: begin the cluster with this directory */
    bool restored; /* --restored: this directory counts, whatever etcd has; generation + 1 */

    /* For replica_seed: writes a snapshot of this node, of log position from_lsn or later, to the file
     * `path` (GET /v1/cluster/snapshot of node->http). TN_NOTFOUND: the node has none yet. TN_DENIED:
     * the node refuses to give it. NULL: snapshots cannot be fetched. */
    enum tn_status (*fetch)(void *ctx, const struct replica_node *node, uint64_t from_lsn,
                            const char *path, struct log_error *error);
    void *fetch_ctx;

    log_notice *notice; /* until an engine gives the log its own (none) */
    void *notice_ctx;

    /* For tests: clients made by the caller, which drives the log with replica_turn: no threads. */
    struct etcd *writer, *watcher;
};

/* Before the local log is opened (options->local is not used yet), unless `init` or `restored`: if etcd
 * no longer has what this directory needs next, fetches a snapshot of another node, and sets the old
 * files aside. *ret_lsn: of the snapshot; 0: there was none to fetch, or etcd did not answer within
 * 10 s. Blocks. TN_NOTFOUND, TN_IO, TN_LOCKED: no snapshot is available now; the caller may try again. */
enum tn_status replica_seed(const struct replica_options *options, uint64_t *ret_lsn,
                            struct log_error *error);

/* Takes over options->local, and closes it if it fails. Connects nowhere yet. */
enum tn_status replica_open(const struct replica_options *options, struct log **ret_log,
                            struct log_error *error);

/* The snapshot store to be given to the engine together with the log: the local one, behind a
 * wrapper that keeps invariant 4. */
struct log_store *replica_store(struct log *log);

/* ---- Figures and state, from any thread ---- */

enum replica_part { REPLICA_PART_WAITING, REPLICA_PART_FOLLOWING, REPLICA_PART_OWNING };

struct replica_standing {
    enum replica_part part; /* WAITING: it has not heard of the log yet, or a final trouble */
    enum replica_trouble trouble;
    char trouble_text[160]; /* details; "" if there are none */
    bool caught_up;         /* everything up to the newest head that is known has been applied */
    uint64_t epoch;         /* epoch of the newest head */
    uint64_t head_lsn, applied_lsn, copied_lsn;
    uint64_t valid_until_ms; /* in the time of os->clock_boot_ms; 0: not the owner */
    uint64_t stamp_ms; /* boot time at which the owner last showed itself, as estimated; 0: never */
    char owner[REPLICA_NODE_MAX + 1];          /* name of the node in the newest head */
    char leader[LOG_LEADER_MAX + 1];           /* RESP address of the owner; "" if none is known */
    char leader_http[REPLICA_ADDRESS_MAX + 1]; /* its HTTP address */
    uint64_t takeovers;                        /* by this node */
    uint64_t doubts;                           /* calls to etcd that ended in doubt */
    uint64_t etcd_bytes;                       /* size of etcd's database, as last reported */
    uint64_t log_bytes;   /* bytes of batches in etcd, as far as this node has seen them */
    uint64_t queue_bytes; /* waiting for the local copy */
};

void replica_standing_read(struct log *log, struct replica_standing *ret_standing);

/* The registered nodes, this one too, by name; how many. Those not heard of for an hour are kept
 * until replica_forget. */
unsigned replica_nodes(struct log *log, struct replica_node out[REPLICA_NODES_MAX]);

/* The configuration was read again: other nodes learn its digest from the next record. From any
 * thread. */
void replica_config_set(struct log *log, uint64_t digest);

/* ---- Requests, from any thread but the log's own; they wait for etcd for up to 5 s. ---- */

/* Removes a node's record. TN_OK, TN_NOTFOUND, TN_IO (no answer). */
enum tn_status replica_forget(struct log *log, const char *node);

/* By the owner whose engine has stopped leading: gives the log up for good. No node takes over, and
 * the directory may be used without the cluster. TN_OK, TN_LOST (not the owner), TN_IO. */
enum tn_status replica_close_cluster(struct log *log);
/* The next resign of the engine (engine_follow) does the same, with the same results. */
void replica_close_with_resign(struct log *log);
/* After that call: true if there was no resign. Nothing was closed, and later ones do not close. */
bool replica_close_withdraw(struct log *log);

/* ---- The directory, without a cluster ---- */

/* Whether this directory is a node's of a cluster that was not closed: then a start without the
 * cluster needs `restored`. TN_OK, TN_CORRUPT, or why the file cannot be read. */
enum tn_status replica_dir_is_member(const struct os *os, const char *dir, bool *ret_is);

/* ---- For tests ---- */

/* Steps both clients and does everything that is due at this boot time. */
void replica_turn(struct log *log, uint64_t boot_ms);
/* When to call it even if nothing happens. */
uint64_t replica_turn_next_ms(struct log *log);

#endif
