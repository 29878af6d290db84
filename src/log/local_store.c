/* The local log's snapshot store: snapshots as files in the log's own directory. The bytes of one are at
 * the top of snapshot.h, the choice of the one to load in recover.c. */
#include <inttypes.h>

#include "base/assert.h"
#include "log/local_state.h"

/* Read from the directory: load has not listed it yet. */
static uint64_t store_newest(struct log_store *store) {
    struct log_listing listing;
    uint64_t lsn = 0;
    if (log_dir_list(&log_local_of_store(store)->dir, &listing) == TN_OK &&
        listing.snapshots.count > 0) {
        lsn = listing.snapshots.at[listing.snapshots.count - 1];
    }
    log_listing_free(&listing);
    return lsn;
}

static enum tn_status store_begin(struct log_store *store, const struct log_position *at,
                                  struct log_error *error) {
    struct log_local *log = log_local_of_store(store);
    if (!log->writable) {
        return log_fail(error, TN_DENIED, "%.300s: this log is not open for writing",
                        log->dir.path);
    }
    log_local_lock(log);
    TN_ASSERT(at->lsn <= log->position.lsn && at->shard <= log->position.shard);
    /* A copy may have begun a new generation after the snapshot's state. */
    TN_ASSERT(at->shard == log->position.shard || log->options.copy);
    TN_ASSERT(log->snapshots.count == 0 || at->lsn >= log->snapshots.at[log->snapshots.count - 1]);
    log->bytes_at_begin = log->bytes_appended;
    log_local_unlock(log);
    enum tn_status status = log_snapshot_writer_begin(&log->snapshot, &log->dir, at);
    if (status != TN_OK) {
        return log_fail(error, status, "%.300s/%s: cannot begin a snapshot: %s", log->dir.path,
                        LOG_SNAPSHOT_TMP, tn_status_text(status));
    }
    return TN_OK;
}

static enum tn_status store_section(struct log_store *store, const struct log_section *section) {
    return log_snapshot_writer_section(&log_local_of_store(store)->snapshot, section);
}

/* Enters the new snapshot into the list; the same LSN again replaces the file and the entry. */
static bool snapshots_add(struct log_local *log, const struct log_position *at, uint64_t bytes) {
    uint64_t lsn = at->lsn;
    struct log_numbers *snapshots = &log->snapshots;
    log_local_lock(log);
    bool known = snapshots->count > 0 && snapshots->at[snapshots->count - 1] == lsn;
    bool added = known || log_numbers_add(snapshots, lsn);
    if (log->snapshot_found == lsn) {
        log->snapshot_found = UINT64_MAX; /* this name is durable, we have seen to it */
    }
    log->snapshot_bytes = bytes;
    log->snapshot_ms = at->now_ms;
    log->bytes_at_snapshot = log->bytes_at_begin;
    log_local_unlock(log);
    return added;
}

static enum tn_status store_end(struct log_store *store, struct log_error *error) {
    struct log_local *log = log_local_of_store(store);
    const struct log_position at = log->snapshot.at;
    uint64_t bytes = 0;
    enum tn_status status = log_snapshot_writer_end(&log->snapshot, &bytes);
    if (status == TN_OK && !snapshots_add(log, &at, bytes)) {
        status = TN_NOMEM;
    }
    if (status != TN_OK) {
        return log_fail(error, status, "%.300s: cannot write the snapshot of LSN %" PRIu64 ": %s",
                        log->dir.path, at.lsn, tn_status_text(status));
    }
    log_local_retain(log);
    return TN_OK;
}

static void store_abandon(struct log_store *store) {
    log_snapshot_writer_abandon(&log_local_of_store(store)->snapshot);
}

static void store_stats(struct log_store *store, struct log_stats *ret_stats) {
    struct log_local *log = log_local_of_store(store);
    log_local_lock(log);
    ret_stats->snapshots = log->snapshots.count;
    ret_stats->snapshot_bytes = log->snapshot_bytes;
    ret_stats->snapshot_lsn =
        log->snapshots.count > 0 ? log->snapshots.at[log->snapshots.count - 1] : 0;
    ret_stats->snapshot_ms = log->snapshot_ms;
    ret_stats->bytes_since_snapshot = log->bytes_appended - log->bytes_at_snapshot;
    log_local_unlock(log);
}

/* Directory and lock are the log's to close. */
const struct log_store_verbs log_local_store_verbs = {
    .newest = store_newest,
    .load = log_local_store_load,
    .begin = store_begin,
    .section = store_section,
    .end = store_end,
    .abandon = store_abandon,
    .stats = store_stats,
    .close = store_abandon,
};
