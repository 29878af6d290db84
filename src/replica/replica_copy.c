/* The local copy of the log: a thread of its own appends the batches that etcd has confirmed to the local
 * log, so that no command waits for this node's disk; the file `replica`; and the snapshot store.
 *
 * Order on the disk: batch, then the file that counts it, then the snapshot that needs the file. So
 * after a crash the file is never ahead of the local log nor behind its newest snapshot. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "replica/replica_state.h"

struct replica_item *replica_item_new(uint32_t value_len) {
    struct replica_item *item = malloc(sizeof *item + value_len);
    if (item != NULL) {
        memset(item, 0, sizeof *item);
        item->len = value_len;
    }
    return item;
}

static void copy_lock(struct replica *r) {
    int rc = pthread_mutex_lock(&r->copy.lock);
    TN_ASSERT(rc == 0);
}

static void copy_unlock(struct replica *r) {
    int rc = pthread_mutex_unlock(&r->copy.lock);
    TN_ASSERT(rc == 0);
}

/* ---- The queue ---- */

bool replica_copy_room(struct replica *r) {
    copy_lock(r);
    bool room = r->copy.bytes < REPLICA_QUEUE_BYTES;
    r->copy.starved = !room;
    copy_unlock(r);
    return room;
}

void replica_copy_push(struct replica *r, struct replica_item *item) {
    item->next = NULL;
    copy_lock(r);
    if (r->copy.last != NULL) {
        r->copy.last->next = item;
    } else {
        r->copy.first = item;
    }
    r->copy.last = item;
    r->copy.bytes += item->len;
    pthread_cond_broadcast(&r->copy.changed);
    copy_unlock(r);
}

void replica_copy_set(struct replica *r, uint64_t chain, bool closed) {
    copy_lock(r);
    r->copy.chain = chain;
    r->copy.chain_known = r->chain_known;
    r->copy.closed = closed;
    copy_unlock(r);
}

void replica_copy_figures(struct replica *r, uint64_t *ret_lsn, uint64_t *ret_queue_bytes) {
    copy_lock(r);
    *ret_lsn = r->copy.lsn;
    *ret_queue_bytes = r->copy.bytes;
    copy_unlock(r);
}

uint64_t replica_copy_lsn(struct replica *r) {
    uint64_t lsn;
    uint64_t bytes;
    replica_copy_figures(r, &lsn, &bytes);
    return lsn;
}

bool replica_copy_has(struct replica *r, uint64_t lsn) {
    copy_lock(r);
    bool has = r->copy.lsn >= lsn;
    r->copy.starved = r->copy.starved || !has;
    copy_unlock(r);
    return has;
}

enum tn_status replica_copy_status(struct replica *r) {
    copy_lock(r);
    enum tn_status status = r->copy.failed;
    if (r->copy.full) {
        pthread_cond_broadcast(&r->copy.changed); /* the queue may have room again */
    }
    copy_unlock(r);
    return status;
}

enum replica_disk replica_copy_disk(struct replica *r) {
    enum replica_disk disk = REPLICA_DISK_DRAINED;
    copy_lock(r);
    if (r->copy.full) {
        bool stuck = r->now_ms >= r->copy.full_ms + r->options.leader_ttl_ms ||
                     r->copy.bytes >= REPLICA_QUEUE_BYTES;
        disk = stuck ? REPLICA_DISK_STUCK : REPLICA_DISK_FULL;
    } else if (r->copy.first != NULL) {
        disk = REPLICA_DISK_BUSY;
    }
    copy_unlock(r);
    return disk;
}

/* ---- The file ---- */

enum tn_status replica_copy_save(struct replica *r, bool closed) {
    struct replica_file file;
    int rc = pthread_mutex_lock(&r->file_lock);
    TN_ASSERT(rc == 0);
    copy_lock(r);
    r->copy.closed = r->copy.closed || closed;
    memcpy(file.cluster, r->file.cluster, sizeof file.cluster);
    file.flags = (r->copy.chain_known ? (uint32_t)REPLICA_FILE_CHAIN : 0) |
                 (r->copy.closed ? (uint32_t)REPLICA_FILE_CLOSED : 0);
    file.lsn = r->copy.lsn;
    file.chain = r->copy.chain;
    file.epoch = r->copy.epoch;
    copy_unlock(r);
    enum tn_status status = replica_file_write(r->os, r->options.dir, &file);
    rc = pthread_mutex_unlock(&r->file_lock);
    TN_ASSERT(rc == 0);
    return status;
}

/* ---- The copier ---- */

static void copy_done(void *ctx, enum tn_status status) {
    *(enum tn_status *)ctx = status;
}

/* Threads that wait for the copier continue without it. */
static void copy_refused(struct replica *r) {
    uint64_t now_ms = r->os->clock_boot_ms(r->os->ctx);
    copy_lock(r);
    bool news = !r->copy.full;
    if (news) {
        r->copy.full = true;
        r->copy.full_ms = now_ms;
        pthread_cond_broadcast(&r->copy.changed);
    }
    copy_unlock(r);
    if (news) {
        replica_wake(r);
    }
}

/* Appends the oldest item; TN_NOSPACE: it stays the oldest. */
static enum tn_status copy_one(struct replica *r, struct replica_item *item) {
    enum tn_status status = TN_IO;
    r->local->verbs->append(r->local, &item->batch, copy_done, &status);
    if (status == TN_NOSPACE) {
        copy_refused(r);
        return status;
    }
    copy_lock(r);
    bool starved = r->copy.starved || r->copy.full;
    r->copy.full = false;
    r->copy.first = item->next;
    if (r->copy.first == NULL) {
        r->copy.last = NULL;
    }
    r->copy.bytes -= item->len;
    r->copy.starved = false;
    if (status == TN_OK) {
        r->copy.lsn = item->batch.first_lsn + item->batch.count - 1;
        r->copy.chain = item->chain;
        r->copy.chain_known = true;
        r->copy.epoch = item->epoch;
        r->copy.closed = false; /* the copy was complete before this batch */
    } else {
        r->copy.failed = status;
    }
    pthread_cond_broadcast(&r->copy.changed);
    copy_unlock(r);
    free(item);
    if (starved || status != TN_OK) {
        replica_wake(r);
    }
    return status;
}

static void copy_rest(struct replica *r, uint64_t *save_ms, bool idle) {
    uint64_t now_ms = r->os->clock_boot_ms(r->os->ctx);
    enum tn_status status = TN_OK;
    if (idle) {
        status = r->local->verbs->idle(r->local);
    }
    if (status == TN_OK && now_ms >= *save_ms) {
        *save_ms = now_ms + REPLICA_BEAT_MS;
        status = replica_copy_save(r, false);
    }
    if (status != TN_OK && status != TN_NOSPACE) {
        copy_lock(r);
        r->copy.failed = status;
        copy_unlock(r);
        replica_wake(r);
    }
}

/* The oldest item, when there is one and it may be written; NULL at the end. */
static struct replica_item *copy_next(struct replica *r, bool refused) {
    copy_lock(r);
    r->copy.busy = false;
    if (refused && !r->copy.stop) {
        pthread_cond_wait(&r->copy.changed, &r->copy.lock); /* the log's thread retries */
    }
    while (!r->copy.stop &&
           (r->copy.first == NULL || !r->copy.writable || r->copy.failed != TN_OK)) {
        pthread_cond_wait(&r->copy.changed, &r->copy.lock);
    }
    bool may = r->copy.writable && r->copy.failed == TN_OK && !(refused && r->copy.stop);
    struct replica_item *item = may ? r->copy.first : NULL;
    r->copy.busy = item != NULL;
    copy_unlock(r);
    return item;
}

static void *copy_run(void *arg) {
    struct replica *r = arg;
    struct replica_item *item;
    uint64_t save_ms = 0;
    bool refused = false;
    while ((item = copy_next(r, refused)) != NULL) {
        refused = copy_one(r, item) == TN_NOSPACE;
        copy_lock(r);
        bool idle = r->copy.first == NULL;
        copy_unlock(r);
        copy_rest(r, &save_ms, idle);
    }
    return NULL;
}

void replica_copy_drain(struct replica *r) {
    uint64_t save_ms = UINT64_MAX;
    while (r->copy.writable && r->copy.failed == TN_OK && r->copy.first != NULL) {
        if (copy_one(r, r->copy.first) == TN_NOSPACE) {
            return;
        }
        copy_rest(r, &save_ms, r->copy.first == NULL);
    }
}

void replica_copy_init(struct replica *r) {
    int rc = pthread_mutex_init(&r->copy.lock, NULL);
    TN_ASSERT(rc == 0);
    rc = pthread_mutex_init(&r->file_lock, NULL);
    TN_ASSERT(rc == 0);
    rc = pthread_cond_init(&r->copy.changed, NULL);
    TN_ASSERT(rc == 0);
}

enum tn_status replica_copy_start(struct replica *r) {
    if (r->manual) {
        return TN_OK;
    }
    if (pthread_create(&r->copy.thread, NULL, copy_run, r) != 0) {
        return TN_NOMEM;
    }
    r->copy.has_thread = true;
    return TN_OK;
}

enum tn_status replica_copy_lead(struct replica *r, struct log_error *error) {
    struct log_position at = {0};
    TN_ASSERT(!r->copy.writable);
    enum tn_status status = r->local->verbs->lead(r->local, &at, error);
    if (status != TN_OK) {
        return status;
    }
    replica_lock(r);
    at.now_ms = r->position.now_ms;
    r->position = at;
    replica_unlock(r);
    copy_lock(r);
    r->copy.lsn = at.next_lsn - 1;
    r->copy.chain = r->chain;
    r->copy.chain_known = r->chain_known;
    r->copy.epoch = r->file.epoch;
    r->copy.writable = true;
    pthread_cond_broadcast(&r->copy.changed);
    copy_unlock(r);
    return TN_OK;
}

static void copy_free(struct replica *r) {
    while (r->copy.first != NULL) {
        struct replica_item *item = r->copy.first;
        r->copy.first = item->next;
        free(item);
    }
    pthread_cond_destroy(&r->copy.changed);
    pthread_mutex_destroy(&r->copy.lock);
    pthread_mutex_destroy(&r->file_lock);
}

bool replica_copy_close(struct replica *r) {
    copy_lock(r);
    r->copy.stop = true;
    pthread_cond_broadcast(&r->copy.changed);
    copy_unlock(r);
    if (r->copy.has_thread) {
        pthread_join(r->copy.thread, NULL);
    } else {
        replica_copy_drain(r);
    }
    bool good = !r->copy.writable || (r->copy.failed == TN_OK && r->copy.first == NULL &&
                                      replica_copy_save(r, false) == TN_OK);
    good = r->local->verbs->close(r->local) && good;
    copy_free(r);
    return good;
}

/* ---- Copies of the copy, for backups and other nodes ---- */

enum tn_status replica_hold(struct log *log, struct log_held *ret_held) {
    struct replica *r = replica_of(log);
    copy_lock(r);
    bool writable = r->copy.writable;
    copy_unlock(r);
    return writable ? r->local->verbs->hold(r->local, ret_held) : TN_DENIED;
}

void replica_release(struct log *log) {
    struct replica *r = replica_of(log);
    r->local->verbs->release(r->local);
}

/* ---- The snapshot store ---- */

static uint64_t store_newest(struct log_store *store) {
    struct replica *r = replica_of_store(store);
    return r->local_store->verbs->newest(r->local_store);
}

static enum tn_status store_load(struct log_store *store, const struct log_loader *loader,
                                 struct log_position *ret_at, struct log_error *error) {
    struct replica *r = replica_of_store(store);
    return r->local_store->verbs->load(r->local_store, loader, ret_at, error);
}

static bool store_waits(const struct replica *r, uint64_t lsn) {
    const struct replica_copy *copy = &r->copy;
    return !r->manual && copy->lsn < lsn && copy->writable && copy->failed == TN_OK &&
           !copy->full && !copy->stop;
}

/* Waits until the local log has everything that the snapshot is about. Without a cluster the local log
 * is not written, and with a full disk the wait has no end: then there is no snapshot. */
static enum tn_status store_begin(struct log_store *store, const struct log_position *at,
                                  struct log_error *error) {
    struct replica *r = replica_of_store(store);
    if (r->manual) {
        replica_copy_drain(r);
    }
    copy_lock(r);
    while (store_waits(r, at->lsn)) {
        pthread_cond_wait(&r->copy.changed, &r->copy.lock);
    }
    bool good = r->copy.writable && r->copy.lsn >= at->lsn && r->copy.failed == TN_OK;
    enum tn_status status = r->copy.full ? TN_NOSPACE : TN_IO;
    copy_unlock(r);
    if (!good) {
        (void)snprintf(error->text, sizeof error->text,
                       "%.300s: the local copy cannot be written: %s", r->options.dir,
                       tn_status_text(status));
        return status;
    }
    return r->local_store->verbs->begin(r->local_store, at, error);
}

static enum tn_status store_section(struct log_store *store, const struct log_section *section) {
    struct replica *r = replica_of_store(store);
    return r->local_store->verbs->section(r->local_store, section);
}

static void store_abandon(struct log_store *store) {
    struct replica *r = replica_of_store(store);
    r->local_store->verbs->abandon(r->local_store);
}

static enum tn_status store_end(struct log_store *store, struct log_error *error) {
    struct replica *r = replica_of_store(store);
    enum tn_status status = replica_copy_save(r, false);
    if (status != TN_OK) {
        store_abandon(store);
        (void)snprintf(error->text, sizeof error->text, "%.300s/" REPLICA_FILE ": %s",
                       r->options.dir, tn_status_text(status));
        return status;
    }
    return r->local_store->verbs->end(r->local_store, error);
}

static void store_stats(struct log_store *store, struct log_stats *ret_stats) {
    struct replica *r = replica_of_store(store);
    r->local_store->verbs->stats(r->local_store, ret_stats);
}

static void store_close(struct log_store *store) {
    struct replica *r = replica_of_store(store);
    r->local_store->verbs->close(r->local_store);
}

const struct log_store_verbs replica_store_verbs = {
    .newest = store_newest,
    .load = store_load,
    .begin = store_begin,
    .section = store_section,
    .end = store_end,
    .abandon = store_abandon,
    .stats = store_stats,
    .close = store_close,
};
