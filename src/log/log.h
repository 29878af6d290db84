/* The ordered log, as the engine sees it: an interface with one owner.
 *
 * A log stores batches of opaque commands in order and never looks inside. Commit is asynchronous and
 * can fail or end in doubt: nothing above may assume otherwise. log_local (log/local.h) keeps the
 * batches in a directory; a replicated log implements the same verbs over a distributed store.
 * Snapshots are kept by a store of their own (log/snapshot_store.h).
 *
 * Contract
 * - load is called once, before anything else but batch_max, with the position of the snapshot that
 *   was loaded: it hands over every batch after it. It changes nothing that is stored. If it fails,
 *   what it handed over is void, and close is the only call left.
 * - start is called once, after load: from then on the log tells its follower who owns it, and hands it
 *   the batches of other owners. The local log is owned from the start and never lost.
 * - lead is called after the follower was told that the log is owned: it makes the log ready to be
 *   appended to and says from where. Until then nothing is written. TN_LOST: the log has another
 *   owner. If it fails otherwise, close is the only call left.
 * - append is called with one batch at a time, after lead: the next one only after `done` of the last
 *   one. `done` runs once, on the calling thread before append returns or later on another thread.
 *     TN_OK       the batch is durable;
 *     TN_NOSPACE  it was not written, and the log is intact: the caller may append again;
 *     TN_LOST     it is not in the log and never will be, and another node owns the log;
 *     TN_DOUBT    it may be in the log, and this node no longer owns the log: if the batch is in
 *                 it, the follower gets it like any other batch;
 *     other       it may or may not be durable, and the log accepts no more appends.
 *   An append to a log that is not owned is answered TN_LOST before append returns.
 * - The caller of lead, append or idle may hold up the follower's `batch` until it has its answer: a log
 *   never waits for `batch` to return before it gives one. resign may wait for `batch`.
 * - close makes the durable mark, if the log was led, and ends everything. After it the follower is
 *   not called. */
#ifndef TN_LOG_LOG_H
#define TN_LOG_LOG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/bytes.h"
#include "base/status.h"
#include "log/log_types.h"

/* How often a log can be `restored` from a backup: the kernel remembers where each generation began. */
#define LOG_GENERATIONS_MAX 32

/* payload: `count` commands, each { uint32 length; bytes }. LSNs are first_lsn, first_lsn + 1, ...
 * Between the last LSN of a batch and the first one of the next there may be a gap only where load
 * said that next_lsn is more than lsn + 1; replay then sees the same gap. */
struct log_batch {
    uint64_t shard; /* as in log_position; set by load, ignored by append */
    uint64_t first_lsn;
    uint64_t now_ms;
    const uint8_t *payload;
    uint32_t len;
    uint32_t count;
};

struct log_section {
    uint32_t kind;
    struct tn_bytes bytes; /* at most LOG_SECTION_MAX */
};

#define LOG_SECTION_MAX (1u << 20)

typedef void log_committed(void *ctx, enum tn_status status);

/* Receives what is stored: the snapshot from a store, the batches from a log. */
struct log_loader {
    void *ctx;
    /* Begins a snapshot; its sections follow, then snapshot_end. Not called if there is none. */
    enum tn_status (*snapshot_begin)(void *ctx, const struct log_position *at);
    enum tn_status (*snapshot_section)(void *ctx, const struct log_section *section);
    enum tn_status (*snapshot_end)(void *ctx);
    enum tn_status (*batch)(void *ctx, const struct log_batch *batch);
};

/* The follower of a log. The log calls it on a thread of its own, one call at a time, and never
 * during an append. It must stay valid until close. */
struct log_follower {
    void *ctx;
    /* The owner of the log from now on: this node; another node, whose address is `leader` (at most LOG_LEADER_MAX
     * bytes); or none, and leader is "". Does not wait for anything. */
    void (*owner)(void *ctx, bool owned, const char *leader);
    /* A batch that another owner committed, or one of this node's that was in doubt. TN_OK, or why
     * it was not applied; then no more batches are accepted. */
    enum tn_status (*batch)(void *ctx, const struct log_batch *batch);
    /* The time of the log as its owner counts it, 0 while it does not lead. Does not wait. A log that is
     * shared shows it to the next owner, for which it becomes log_succession.heard_ms. */
    uint64_t (*now)(void *ctx);
    /* The log's time now, according to its owner's heads; never ahead of the owner's. Must not
     * wait. */
    void (*time)(void *ctx, uint64_t now_ms);
};

struct log;

struct log_verbs {
    /* The largest payload that a batch may have. */
    uint64_t (*batch_max)(const struct log *log);
    enum tn_status (*load)(struct log *log, const struct log_position *from,
                           const struct log_loader *loader, struct log_position *ret_position,
                           struct log_error *error);
    enum tn_status (*start)(struct log *log, const struct log_follower *follower);
    enum tn_status (*lead)(struct log *log, struct log_position *ret_position,
                           struct log_error *error);
    /* Whether this node certainly owns the log at this moment, from any thread. NULL: from lead on, always. */
    bool (*owned)(const struct log *log);
    /* Asks the nodes that share the log whether this node owned it at some moment during the call. For reads
     * that must not rely on clocks. From any thread but the log's own; may wait for half a second. NULL: the
     * log or its user relies on clocks, or it has no other nodes. */
    bool (*confirm)(struct log *log);
    /* The boot time until which this node owns the log without a renewal; from any thread. 0: it does not
     * own it. NULL: it always does. */
    uint64_t (*owned_until)(const struct log *log);
    /* After lead. NULL: there are no other owners. */
    void (*succession)(struct log *log, struct log_succession *ret_succession);
    /* Notes: small values that go from owner to owner with the log, by name (letters, digits, '.'), the same
     * on every node; from any thread, and may wait. get: TN_NOTFOUND, or TN_INVALID if `room` is too small.
     * put: durable on return; TN_LOST if the log is not ours. NULL: the log keeps none, and its user keeps
     * them in files of its own. */
    enum tn_status (*note_get)(struct log *log, const char *name, uint8_t *out, uint32_t room,
                               uint32_t *ret_len);
    enum tn_status (*note_put)(struct log *log, const char *name, struct tn_bytes value);
    /* The registered nodes, from memory: up to `room` of them, returns their number. From any thread. NULL:
     * there are none. */
    uint32_t (*nodes)(const struct log *log, struct log_node *ret_nodes, uint32_t room);
    /* Tells other nodes, soon, that no process that this node started in `epoch` or earlier is alive
     * (its clean_epoch). 0, on a node that does not own the log: in any epoch that it knows. From
     * any thread; does not wait. */
    void (*clean)(struct log *log, uint64_t epoch);
    /* Gives the log to other nodes. Not during an append. NULL: it cannot be given up. */
    enum tn_status (*resign)(struct log *log);
    void (*append)(struct log *log, const struct log_batch *batch, log_committed *done, void *ctx);
    /* Answers to append come later, from another thread: the caller may do other work meanwhile. */
    bool answers_later;
    /* Called by the caller of append before it sleeps until `done` was called: for logs that work on their
     * caller's thread. NULL: it just sleeps. */
    void (*await)(struct log *log);
    /* Nothing will be appended for a while, so the log may write the durable mark. Called like
     * append, and not during one. TN_OK, or why it failed; then the log accepts no more appends. */
    enum tn_status (*idle)(struct log *log);
    /* For a copy of the log: from hold to release, no file that *ret_held names is removed or
     * reused. From any thread, while others append; several holds may overlap. The caller frees
     * ret_held->files. TN_NOMEM, or TN_DENIED: the log was not led. NULL: there is nothing to copy. */
    enum tn_status (*hold)(struct log *log, struct log_held *ret_held);
    void (*release)(struct log *log);
    /* Fills in its own figures and leaves the store's alone. */
    void (*stats)(struct log *log, struct log_stats *ret_stats);
    /* Closes the log. False if a mark could not be written. */
    bool (*close)(struct log *log);
};

/* The first member of every implementation. */
struct log {
    const struct log_verbs *verbs;
    /* Where its notices go; may be NULL. Set before load, by its caller. */
    log_notice *notice;
    void *notice_ctx;
};

#endif
