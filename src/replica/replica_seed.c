/* Seeding: a node whose next batch is no longer in etcd begins with the newest snapshot of another node.
 *
 * It happens before the local log is opened, because a state cannot be replaced while it is served:
 *
 *   1. What etcd has is read: cluster, head, the oldest batch, the nodes. If the batch after the file
 *      `replica` is there, or nothing is missing, there is nothing to do.
 *   2. A snapshot is fetched into the directory `seed`, from the node with the newest one that etcd
 *      goes on from, and checked; if that fails, from the next node.
 *   3. The file says SEEDING. From here on a start begins with 1 again, whatever it finds.
 *   4. The old segments and snapshots are moved to the directory `set-aside`. What earlier seedings have left
 *      there was removed before 3, so that a node that is seeded often does not fill its disk.
 *   5. The snapshot gets its place, and the file says its LSN; the chain follows from etcd.
 *
 * The directory is locked meanwhile. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "etcd/etcd_client.h"
#include "etcd/wait.h"
#include "log/dir.h"
#include "log/snapshot.h"
#include "replica/replica_state.h"

#define SEED_WAIT_MS 10000u /* for etcd; without it the node starts with what it has */
#define SEED_DIR "seed"
#define ASIDE_DIR "set-aside"
#define FETCHED "fetched.tmp"
#define LOOK_BATCHES 16u /* foreign keys may come first */

struct seed {
    const struct replica_options *options;
    const struct os *os;
    const char *prefix;
    struct replica_file file;
    bool has_file;
    /* What etcd has. */
    bool answered, begun;
    uint8_t cluster[REPLICA_CLUSTER_BYTES];
    struct replica_head head;
    uint64_t oldest; /* first LSN of the oldest batch; head.lsn + 1 if there is no batch */
    struct replica_node nodes[REPLICA_NODES_MAX];
    unsigned node_count;
    bool done;    /* the call has ended */
    bool refused; /* etcd denies access, or is not trusted: the replicated log says so */
    bool told;    /* that etcd does not answer has been reported */
};

/* ---- What etcd has ---- */

static void nodes_take(struct seed *seed, const struct etcd_found *found) {
    for (uint32_t i = 0; i < found->count && seed->node_count < REPLICA_NODES_MAX; i++) {
        if (replica_node_decode(found->kvs[i].value, &seed->nodes[seed->node_count]) == TN_OK) {
            seed->node_count++;
        }
    }
}

/* The first LSN of the oldest batch. Keys of other programs are passed over; false: there are only such keys in
 * the answer, and etcd has more. */
static bool oldest_take(struct seed *seed, const struct etcd_found *found) {
    size_t before = strlen(seed->prefix) + strlen("log/");
    seed->oldest = seed->head.lsn + 1;
    for (uint32_t i = 0; i < found->count; i++) {
        struct tn_bytes key = found->kvs[i].key;
        struct log_batch batch;
        struct replica_stamp stamp;
        uint64_t lsn = 0;
        if (key.len == before + REPLICA_KEY_DIGITS &&
            replica_key_read(tn_bytes_of(key.at + before, REPLICA_KEY_DIGITS), &lsn) &&
            lsn <= seed->head.lsn &&
            replica_batch_decode(found->kvs[i].value, lsn, &batch, &stamp) != TN_CORRUPT) {
            seed->oldest = lsn;
            return true;
        }
    }
    return !found->more;
}

static void not_answered(struct seed *seed, const struct etcd_answer *answer) {
    char line[ETCD_MESSAGE_MAX + 128];
    seed->refused = answer->reason == ETCD_DENIED || answer->reason == ETCD_UNTRUSTED;
    if (seed->refused || seed->told || seed->options->notice == NULL) {
        return;
    }
    seed->told = true;
    bool says = answer->message != NULL && answer->message[0] != '\0';
    (void)snprintf(line, sizeof line,
                   "event=etcd_awaited details=\"%s\" text=\"etcd does not answer yet\"",
                   says ? answer->message : etcd_reason_text(answer->reason));
    seed->options->notice(seed->options->notice_ctx, line);
}

static void on_looked(void *ctx, const struct etcd_answer *answer) {
    struct seed *seed = ctx;
    seed->done = true;
    if (answer->outcome != ETCD_DONE || answer->op_count != 4) {
        not_answered(seed, answer);
        return;
    }
    const struct etcd_found *cluster = &answer->ops[0].found;
    const struct etcd_found *head = &answer->ops[1].found;
    seed->answered = true;
    if (cluster->count == 0 || cluster->kvs[0].value.len != REPLICA_CLUSTER_BYTES ||
        head->count == 0 || replica_head_decode(head->kvs[0].value, &seed->head) != TN_OK) {
        return; /* the replicated log will report what is wrong */
    }
    memcpy(seed->cluster, cluster->kvs[0].value.at, REPLICA_CLUSTER_BYTES);
    nodes_take(seed, &answer->ops[3].found);
    seed->begun = oldest_take(seed, &answer->ops[2].found);
}

static void look(struct seed *seed, struct etcd *etcd, uint64_t now_ms) {
    char keys[6][REPLICA_PREFIX_MAX + 32];
    static const char *const names[] = {"cluster", "head",  "log/0000000000000000",
                                        "log0",    "node/", "node0"};
    struct tn_bytes bytes[6];
    for (unsigned i = 0; i < 6; i++) {
        int len = snprintf(keys[i], sizeof keys[i], "%s%s", seed->prefix, names[i]);
        bytes[i] = tn_bytes_of(keys[i], (size_t)len);
    }
    struct etcd_op gets[] = {
        {.kind = ETCD_GET, .keys = {.key = bytes[0]}},
        {.kind = ETCD_GET, .keys = {.key = bytes[1]}},
        {.kind = ETCD_GET, .keys = {bytes[2], bytes[3]}, .limit = LOOK_BATCHES},
        {.kind = ETCD_GET, .keys = {bytes[4], bytes[5]}, .limit = REPLICA_RECORDS_READ},
    };
    struct etcd_request request = {.verb = ETCD_TXN, .txn = {.then = gets, .then_count = 4}};
    seed->done = etcd_submit(etcd, &request, now_ms + REPLICA_READ_MS, on_looked, seed) != TN_OK;
}

/* A client made by the caller has no descriptors: its simulated world advances with the clock. */
static void step(const struct seed *seed, struct etcd *etcd, uint64_t until_ms) {
    if (seed->options->watcher != NULL) {
        etcd_step(etcd, seed->os->clock_boot_ms(seed->os->ctx));
    } else {
        etcd_wait(&etcd, 1, seed->os, -1, until_ms);
    }
}

static enum tn_status look_wait(struct seed *seed, struct log_error *error) {
    const struct replica_options *o = seed->options;
    struct etcd_options options = {.endpoints = o->endpoints,
                                   .endpoint_count = o->endpoint_count,
                                   .ca_file = o->ca_file,
                                   .certificate_file = o->certificate_file,
                                   .key_file = o->key_file,
                                   .user = o->user,
                                   .password = o->password};
    char why[ETCD_MESSAGE_MAX] = "";
    struct etcd *etcd = o->watcher;
    if (etcd == NULL) {
        enum tn_status status = etcd_open(&options, &etcd, why);
        if (status != TN_OK) {
            return log_fail(error, status, "etcd: %s", why);
        }
    }
    uint64_t now_ms = seed->os->clock_boot_ms(seed->os->ctx);
    uint64_t until_ms = now_ms + SEED_WAIT_MS;
    while (!seed->answered && !seed->refused && now_ms < until_ms) {
        look(seed, etcd, now_ms);
        while (!seed->done) {
            step(seed, etcd, until_ms);
        }
        now_ms = seed->os->clock_boot_ms(seed->os->ctx);
    }
    if (o->watcher == NULL) {
        etcd_close(etcd);
    }
    return TN_OK;
}

/* A log that was never the cluster's is not replaced: the replicated log refuses it. */
static bool has_own_log(const struct seed *seed) {
    struct log_dir dir = {.os = seed->os, .file = -1};
    struct log_listing listing;
    (void)snprintf(dir.path, sizeof dir.path, "%s", seed->options->dir);
    enum tn_status status = log_dir_list(&dir, &listing);
    bool has = status == TN_OK && (listing.segments.count > 0 || listing.snapshots.count > 0);
    log_listing_free(&listing);
    return has && !seed->has_file;
}

/* Whether the batches that this directory lacks are no longer in etcd. */
static bool is_needed(const struct seed *seed) {
    uint64_t has = seed->has_file ? seed->file.lsn : 0;
    if (!seed->begun) {
        return false;
    }
    if (seed->has_file && (seed->file.flags & REPLICA_FILE_SEEDING) != 0) {
        return true;
    }
    if (seed->has_file && memcmp(seed->file.cluster, seed->cluster, REPLICA_CLUSTER_BYTES) != 0) {
        return false;
    }
    if (seed->head.state_version > seed->options->state_version) {
        return false; /* a snapshot would be of that version, too: the replicated log refuses it */
    }
    return has < seed->head.lsn && has + 1 < seed->oldest && !has_own_log(seed);
}

/* ---- Fetching ---- */

/* Of the fetched file, as its header says; not verified yet. */
static enum tn_status fetched_lsn(const struct seed *seed, const char *path, uint64_t *ret_lsn) {
    uint8_t header[24];
    size_t len = 0;
    int file;
    enum tn_status status = seed->os->open(seed->os->ctx, path, OS_WRITE, &file);
    if (status != TN_OK) {
        return status;
    }
    status = seed->os->read_at(seed->os->ctx, file, header, sizeof header, 0, &len);
    if (status == TN_OK) {
        status = seed->os->sync(seed->os->ctx, file);
    }
    (void)seed->os->close(seed->os->ctx, file);
    if (status == TN_OK && len != sizeof header) {
        status = TN_CORRUPT;
    }
    if (status == TN_OK) {
        *ret_lsn = tn_load64(header + 16);
    }
    return status;
}

static enum tn_status fetch_from(struct seed *seed, const struct replica_node *node,
                                 const struct log_dir *dir, uint64_t *ret_lsn,
                                 struct log_error *error) {
    char path[LOG_PATH_MAX];
    char name[LOG_NAME_MAX];
    struct log_position at;
    uint64_t bytes;
    (void)snprintf(path, sizeof path, "%s/%s", dir->path, FETCHED);
    enum tn_status status =
        seed->options->fetch(seed->options->fetch_ctx, node, seed->oldest - 1, path, error);
    if (status != TN_OK) {
        return status;
    }
    status = fetched_lsn(seed, path, ret_lsn);
    if (status == TN_OK && (*ret_lsn + 1 < seed->oldest || *ret_lsn > seed->head.lsn)) {
        return log_fail(error, TN_NOTFOUND,
                        "node %s: its snapshot is of log position %" PRIu64
                        ", which etcd does not go on from",
                        node->name, *ret_lsn);
    }
    if (status == TN_OK) {
        log_snapshot_name(*ret_lsn, name);
        status = log_dir_rename(dir, FETCHED, name);
    }
    if (status != TN_OK) {
        return log_fail(error, status, "%.300s: the snapshot cannot be used: %s", path,
                        tn_status_text(status));
    }
    status = log_snapshot_read(dir, *ret_lsn, NULL, "it is fetched again", &at, &bytes, error);
    return status == TN_CORRUPT ? TN_IO : status; /* the next try may get it whole */
}

static int snapshot_order(const void *a, const void *b) {
    uint64_t x = ((const struct replica_node *)a)->snapshot_lsn;
    uint64_t y = ((const struct replica_node *)b)->snapshot_lsn;
    return (x < y) - (x > y);
}

static enum tn_status fetch(struct seed *seed, const struct log_dir *dir, uint64_t *ret_lsn,
                            struct log_error *error) {
    enum tn_status status = TN_NOTFOUND;
    (void)log_fail(
        error, status,
        "log position %" PRIu64 " is not in etcd, and no other node that is registered "
        "there has the log up to there, an HTTP address to fetch a snapshot from, and a program "
        "that is not newer than this one (state version %" PRIu32 ")",
        (seed->has_file ? seed->file.lsn : 0) + 1, seed->options->state_version);
    qsort(seed->nodes, seed->node_count, sizeof seed->nodes[0], snapshot_order);
    for (unsigned i = 0; i < seed->node_count && status != TN_OK; i++) {
        const struct replica_node *node = &seed->nodes[i];
        /* A node that has applied enough takes a snapshot when it is asked for one. This program cannot
         * load a snapshot of a newer one. */
        if (node->applied_lsn + 1 >= seed->oldest && node->http[0] != '\0' &&
            node->state_version <= seed->options->state_version &&
            strcmp(node->name, seed->options->node) != 0) {
            status = fetch_from(seed, node, dir, ret_lsn, error);
        }
    }
    return status;
}

/* ---- Replacing ---- */

static enum tn_status file_say(struct seed *seed, uint32_t flags, uint64_t lsn) {
    memcpy(seed->file.cluster, seed->cluster, REPLICA_CLUSTER_BYTES);
    seed->file.flags = flags;
    seed->file.lsn = lsn;
    return replica_file_write(seed->os, seed->options->dir, &seed->file);
}

static enum tn_status move(const struct log_dir *from, const char *to, const char *name) {
    char source[LOG_PATH_MAX];
    char target[LOG_PATH_MAX + LOG_NAME_MAX];
    (void)snprintf(source, sizeof source, "%s/%s", from->path, name);
    (void)snprintf(target, sizeof target, "%s/%s", to, name);
    return from->os->rename(from->os->ctx, source, target);
}

/* Segments and snapshots; spares are of no log. */
static enum tn_status set_aside(const struct log_dir *dir) {
    struct log_listing listing;
    char aside[LOG_PATH_MAX];
    char name[LOG_NAME_MAX];
    (void)snprintf(aside, sizeof aside, "%s/" ASIDE_DIR, dir->path);
    enum tn_status status = log_dir_list(dir, &listing);
    if (status == TN_OK) {
        status = dir->os->make_dir(dir->os->ctx, aside);
    }
    for (size_t i = 0; status == TN_OK && i < listing.segments.count; i++) {
        log_segment_name(listing.segments.at[i], name);
        status = move(dir, aside, name);
    }
    for (size_t i = 0; status == TN_OK && i < listing.snapshots.count; i++) {
        log_snapshot_name(listing.snapshots.at[i], name);
        status = move(dir, aside, name);
    }
    log_listing_free(&listing);
    if (status == TN_OK) {
        status = dir->os->sync_dir(dir->os->ctx, aside);
    }
    return status == TN_OK ? dir->os->sync_dir(dir->os->ctx, dir->path) : status;
}

/* What a try that did not end has moved is the node's last own log: it stays. */
static enum tn_status aside_clear(const struct seed *seed, const struct log_dir *dir) {
    struct log_dir aside = {.os = dir->os, .file = -1};
    struct log_listing listing = {0};
    char name[LOG_NAME_MAX];
    if (seed->has_file && (seed->file.flags & REPLICA_FILE_SEEDING) != 0) {
        return TN_OK;
    }
    (void)snprintf(aside.path, sizeof aside.path, "%.3800s/" ASIDE_DIR, dir->path);
    enum tn_status status = log_dir_list(&aside, &listing);
    for (size_t i = 0; status == TN_OK && i < listing.segments.count; i++) {
        log_segment_name(listing.segments.at[i], name);
        status = log_dir_remove(&aside, name);
    }
    for (size_t i = 0; status == TN_OK && i < listing.snapshots.count; i++) {
        log_snapshot_name(listing.snapshots.at[i], name);
        status = log_dir_remove(&aside, name);
    }
    log_listing_free(&listing);
    return status == TN_NOTFOUND ? TN_OK : status; /* there is no such directory yet */
}

static enum tn_status replace(struct seed *seed, const struct log_dir *dir,
                              const struct log_dir *from, uint64_t lsn, struct log_error *error) {
    char name[LOG_NAME_MAX];
    log_snapshot_name(lsn, name);
    enum tn_status status = aside_clear(seed, dir);
    if (status == TN_OK) {
        status = file_say(seed, REPLICA_FILE_SEEDING, lsn);
    }
    if (status == TN_OK) {
        status = set_aside(dir);
    }
    if (status == TN_OK) {
        status = move(from, dir->path, name);
    }
    if (status == TN_OK) {
        status = dir->os->sync_dir(dir->os->ctx, dir->path);
    }
    if (status == TN_OK) {
        status = file_say(seed, 0, lsn);
    }
    return status == TN_OK ? TN_OK
                           : log_fail(error, status, "%.300s: cannot put the snapshot in place: %s",
                                      dir->path, tn_status_text(status));
}

static enum tn_status seed_locked(struct seed *seed, const struct log_dir *dir, uint64_t *ret_lsn,
                                  struct log_error *error) {
    struct log_dir from = {.os = seed->os, .file = -1};
    int len = snprintf(from.path, sizeof from.path, "%s/" SEED_DIR, dir->path);
    if (len <= 0 || (size_t)len >= sizeof from.path) {
        return log_fail(error, TN_INVALID, "the path of the data directory is too long");
    }
    enum tn_status status = seed->os->make_dir(seed->os->ctx, from.path);
    if (status != TN_OK) {
        return log_fail(error, status, "%.300s: %s", from.path, tn_status_text(status));
    }
    status = fetch(seed, &from, ret_lsn, error);
    return status == TN_OK ? replace(seed, dir, &from, *ret_lsn, error) : status;
}

static enum tn_status seed_run(struct seed *seed, uint64_t *ret_lsn, struct log_error *error) {
    struct log_dir dir = {.os = seed->os, .file = -1};
    bool made = false;
    int lock = -1;
    (void)snprintf(dir.path, sizeof dir.path, "%s", seed->options->dir);
    enum tn_status status = log_dir_make(&dir, &made);
    if (status == TN_OK) {
        status = log_dir_lock(&dir, &lock);
    }
    if (status != TN_OK) {
        return log_fail(error, status, "%.300s: %s", dir.path, tn_status_text(status));
    }
    status = seed_locked(seed, &dir, ret_lsn, error);
    (void)seed->os->close(seed->os->ctx, lock);
    return status;
}

enum tn_status replica_seed(const struct replica_options *options, uint64_t *ret_lsn,
                            struct log_error *error) {
    struct seed *seed = calloc(1, sizeof *seed);
    *ret_lsn = 0;
    if (seed == NULL) {
        return log_fail(error, TN_NOMEM, "no memory");
    }
    seed->options = options;
    seed->os = options->os != NULL ? options->os : os_posix();
    seed->prefix = options->prefix != NULL ? options->prefix : REPLICA_PREFIX_DEFAULT;
    enum tn_status status = replica_file_read(seed->os, options->dir, &seed->file);
    seed->has_file = status == TN_OK;
    if (status == TN_NOTFOUND || status == TN_OK) {
        status = look_wait(seed, error);
    } else {
        (void)log_fail(error, status, "%.300s/" REPLICA_FILE ": %s", options->dir,
                       tn_status_text(status));
    }
    if (status == TN_OK && !seed->begun && seed->has_file &&
        (seed->file.flags & REPLICA_FILE_SEEDING) != 0) {
        status = log_fail(error, TN_IO,
                          "%.300s: it was being replaced by a snapshot of another node, and etcd "
                          "does not answer: start again when it does",
                          options->dir);
    }
    if (status == TN_OK && is_needed(seed)) {
        status = options->fetch != NULL
                     ? seed_run(seed, ret_lsn, error)
                     : log_fail(error, TN_INVALID,
                                "log position %" PRIu64 " is no longer in etcd, and there is no "
                                "way to fetch a snapshot of another node",
                                (seed->has_file ? seed->file.lsn : 0) + 1);
    }
    free(seed);
    return status;
}
