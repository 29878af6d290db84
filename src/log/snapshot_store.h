/* The snapshot store, as the engine sees it: snapshots of opaque sections, the newest one to begin
 * with at the next start. The local log (log/local.h) keeps one in its directory.
 *
 * Contract
 * - load is called once, before the log's: it hands over the newest whole snapshot, if there is one. It
 *   changes nothing that is stored. If it fails, close is the only call left.
 * - begin, section, end, abandon may run on another thread while the log is appended to; one snapshot
 *   at a time. Its position is the end of a committed batch, and not before the newest snapshot.
 * - close comes before the log's: an unfinished snapshot is abandoned. */
#ifndef TN_LOG_SNAPSHOT_STORE_H
#define TN_LOG_SNAPSHOT_STORE_H

#include "log/log.h"

struct log_store;

struct log_store_verbs {
    /* The position of the newest snapshot that was completed here and still exists; 0: none. load
     * may pass it over if it is told to. */
    uint64_t (*newest)(struct log_store *store);
    /* ret_at->lsn is 0 if there is none. */
    enum tn_status (*load)(struct log_store *store, const struct log_loader *loader,
                           struct log_position *ret_at, struct log_error *error);
    enum tn_status (*begin)(struct log_store *store, const struct log_position *at,
                            struct log_error *error);
    enum tn_status (*section)(struct log_store *store, const struct log_section *section);
    /* Durable on return. Removes older snapshots, and what the log no longer needs. */
    enum tn_status (*end)(struct log_store *store, struct log_error *error);
    void (*abandon)(struct log_store *store);
    /* Fills in its own figures and leaves the log's alone. */
    void (*stats)(struct log_store *store, struct log_stats *ret_stats);
    void (*close)(struct log_store *store);
};

/* The first member of every implementation. */
struct log_store {
    const struct log_store_verbs *verbs;
};

/* The snapshot, then every batch after it. */
static inline enum tn_status log_load(struct log_store *store, struct log *log,
                                      const struct log_loader *loader,
                                      struct log_position *ret_position, struct log_error *error) {
    struct log_position at = {0};
    enum tn_status status = store->verbs->load(store, loader, &at, error);
    return status == TN_OK ? log->verbs->load(log, &at, loader, ret_position, error) : status;
}

/* Closes both; false if the log could not write its mark. */
static inline bool log_close(struct log_store *store, struct log *log) {
    store->verbs->close(store);
    return log->verbs->close(log);
}

#endif
