/* Following: what other owners append, in order, to the engine and to the local copy.
 *
 *            read: cluster, head, batches from the next LSN on
 *   IDLE ----------------------------------------------------> READING
 *    ^  ^                                                      |   |
 *    |  +------ failed; damaged; no room in the local copy ----+   | all of it is applied
 *    |                                                             v
 *    +------ a gap, a broken chain, compacted, ended --------- WATCHING
 *
 * The read is one transaction, so its parts belong to one revision: if the next batch is not in it and
 * the head is further, that batch is gone. The watch begins at the next revision, on the same member,
 * because revisions can differ between members. An owner neither reads nor watches. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "log/segment.h"
#include "replica/replica_state.h"

#define READ_BATCHES 16u /* in one answer: 16 MiB at most */
#define RETRY_MS 50u
#define SLOW_MS 1000u /* between two looks while the node cannot do its part */
#define BAD_MAX 4u    /* reads of a damaged value, at different members */

enum applied {
    APPLIED_OK,
    APPLIED_OLD,     /* the batch had been applied before */
    APPLIED_GAP,     /* the batch is not the next one */
    APPLIED_BAD,     /* an intact store cannot contain this */
    APPLIED_VERSION, /* the batch has a newer version of the state */
    APPLIED_LATER,   /* no room */
    APPLIED_NEVER,   /* the engine accepts no more batches */
};

void replica_follow_restart(struct replica *r, uint64_t in_ms) {
    if (r->follow.state == FOLLOW_WATCHING) {
        etcd_watch_cancel(r->watcher, r->follow.watch);
    }
    if (r->follow.state != FOLLOW_READING) { /* its answer is still pending, and decides */
        r->follow.state = FOLLOW_IDLE;
    }
    r->follow.next_ms = r->now_ms + in_ms;
    r->follow.behind_ms = 0;
}

void replica_follow_distrust(struct replica *r, enum replica_trouble trouble, const char *what) {
    if (trouble == REPLICA_TROUBLE_VERSION) {
        replica_in_trouble(r, trouble, "a newer %s", what);
        replica_follow_restart(r, SLOW_MS);
        return;
    }
    r->follow.bad++;
    if (r->follow.bad >= BAD_MAX) {
        replica_in_trouble(r, trouble, "%s", what);
        return;
    }
    replica_notice(r, "event=replica_distrust value=%s reason=%s text=\"asking another member\"",
                   what, replica_trouble_name(trouble));
    etcd_leave(r->watcher);
    replica_follow_restart(r, RETRY_MS);
}

/* ---- Batches ---- */

/* What the local log and the engine rely on; the rest is the engine's to judge. */
static bool batch_is_possible(const struct replica *r, const struct log_batch *batch) {
    return batch->len <= r->local->verbs->batch_max(r->local) &&
           batch->first_lsn < LOG_LSN_MAX - batch->count && batch->now_ms >= r->position.now_ms &&
           batch->shard >= r->position.shard &&
           (uint32_t)batch->shard == (uint32_t)r->position.shard;
}

/* A fresh node does not know the shard before the first batch. */
static void shard_learn(struct replica *r, const struct log_batch *batch) {
    if (r->position.lsn == 0) {
        replica_lock(r);
        r->position.shard = batch->shard;
        replica_unlock(r);
    }
}

static enum applied batch_judge(struct replica *r, const struct log_batch *batch,
                                const struct replica_stamp *stamp) {
    if (stamp->state_version > r->options.state_version) {
        return APPLIED_VERSION;
    }
    shard_learn(r, batch);
    if (!batch_is_possible(r, batch)) {
        return APPLIED_BAD;
    }
    if (r->chain_known && stamp->chain != r->chain) {
        replica_follow_distrust(r, REPLICA_TROUBLE_DIVERGED, "chain");
        return APPLIED_LATER;
    }
    return replica_copy_room(r) ? APPLIED_OK : APPLIED_LATER;
}

static void batch_applied(struct replica *r, struct replica_item *item) {
    uint64_t last_lsn = item->batch.first_lsn + item->batch.count - 1;
    replica_lock(r);
    r->position.lsn = last_lsn;
    r->position.next_lsn = last_lsn + 1;
    r->position.now_ms = item->batch.now_ms;
    r->position.shard = item->batch.shard;
    r->chain = item->chain;
    r->chain_known = true;
    replica_unlock(r);
    replica_keep_count(r, last_lsn, item->len);
    replica_copy_push(r, item);
}

static enum applied batch_apply(struct replica *r, struct tn_bytes value,
                                const struct log_batch *batch, const struct replica_stamp *stamp) {
    struct replica_item *item = replica_item_new((uint32_t)value.len);
    if (item == NULL) {
        return APPLIED_LATER;
    }
    memcpy(item->value, value.at, value.len);
    item->batch = *batch;
    item->batch.payload = item->value + REPLICA_BATCH_BYTES;
    item->chain = replica_chain(stamp->chain, &item->batch);
    item->epoch = stamp->epoch;
    enum tn_status status = r->follower->batch(r->follower->ctx, &item->batch);
    if (status != TN_OK) {
        free(item);
        replica_in_trouble(r, REPLICA_TROUBLE_ENGINE, "%s", tn_status_text(status));
        return APPLIED_NEVER;
    }
    batch_applied(r, item);
    return APPLIED_OK;
}

/* False: a foreign key. */
static bool kv_lsn(const struct replica *r, const struct etcd_kv *kv, uint64_t *ret_lsn) {
    struct replica_key first = replica_key_log(r, 0);
    uint32_t before = first.len - REPLICA_KEY_DIGITS;
    return kv->key.len == first.len &&
           replica_key_read(tn_bytes_of(kv->key.at + before, REPLICA_KEY_DIGITS), ret_lsn);
}

static enum applied kv_apply(struct replica *r, const struct etcd_kv *kv) {
    uint64_t lsn = 0;
    struct log_batch batch;
    struct replica_stamp stamp;
    if (!kv_lsn(r, kv, &lsn)) {
        return APPLIED_OLD;
    }
    if (lsn != r->position.next_lsn) {
        return lsn < r->position.next_lsn ? APPLIED_OLD : APPLIED_GAP;
    }
    enum tn_status status = replica_batch_decode(kv->value, lsn, &batch, &stamp);
    if (status != TN_OK) {
        return status == TN_VERSION ? APPLIED_VERSION : APPLIED_BAD;
    }
    enum applied judged = batch_judge(r, &batch, &stamp);
    return judged == APPLIED_OK ? batch_apply(r, kv->value, &batch, &stamp) : judged;
}

/* What to do about one that was not applied. */
static void applied_not(struct replica *r, enum applied applied) {
    switch (applied) {
    case APPLIED_GAP:
        replica_follow_restart(r, 0);
        break;
    case APPLIED_BAD:
        replica_follow_distrust(r, REPLICA_TROUBLE_DAMAGED, "batch");
        break;
    case APPLIED_VERSION:
        replica_follow_distrust(r, REPLICA_TROUBLE_VERSION, "batch");
        break;
    default:
        replica_follow_restart(r, RETRY_MS);
        break;
    }
}

static void head_seen(struct replica *r, const struct replica_head *head) {
    struct replica_fact fact = {.kind = REPLICA_FACT_SEEN, .has_head = true, .head = *head};
    replica_tell(r, &fact);
}

/* ---- The watch ---- */

static bool change_is_head(const struct replica *r, const struct etcd_change *change) {
    struct replica_key key = replica_key_of(r, "head");
    return tn_bytes_equal(change->kv.key, replica_key_bytes(&key));
}

/* False: the watch was given up. */
static bool change_take(struct replica *r, const struct etcd_change *change) {
    struct replica_head head;
    if (change->deleted) {
        return true; /* trimmed; reading the head shows whether it is gone */
    }
    if (change_is_head(r, change)) {
        enum tn_status status = replica_head_decode(change->kv.value, &head);
        if (status != TN_OK) {
            replica_follow_distrust(
                r, status == TN_VERSION ? REPLICA_TROUBLE_VERSION : REPLICA_TROUBLE_DAMAGED,
                "head");
            return false;
        }
        /* Impossible in a store that was not put back, or a newer program owns the log now: a read
         * shows which. */
        if (head.lsn < replica_applied(r) || head.state_version > r->options.state_version) {
            replica_follow_restart(r, 0);
            return false;
        }
        replica_tell_applied(r);
        head_seen(r, &head);
        return r->follow.state == FOLLOW_WATCHING;
    }
    enum applied applied = kv_apply(r, &change->kv);
    if (applied == APPLIED_BAD || applied == APPLIED_VERSION) {
        replica_follow_restart(r, 0); /* a read shows whether it is in the log at all */
        return false;
    }
    if (applied != APPLIED_OK && applied != APPLIED_OLD) {
        applied_not(r, applied);
        return false;
    }
    return true;
}

static void on_watched(void *ctx, const struct etcd_news *news) {
    struct replica *r = ctx;
    replica_clock(r);
    if (r->follow.state != FOLLOW_WATCHING) {
        return;
    }
    if (news->kind == ETCD_WATCH_ENDED) {
        r->follow.state = FOLLOW_IDLE;
        r->follow.next_ms = r->now_ms + (news->reason == ETCD_COMPACTED ? 0 : RETRY_MS);
        return;
    }
    for (uint32_t i = 0; i < news->change_count; i++) {
        if (!change_take(r, &news->changes[i])) {
            return;
        }
    }
    replica_tell_applied(r);
}

/* Head and batches: the range [head, log0) contains both, and nothing else of ours. */
static void watch_begin(struct replica *r, const struct etcd_answer *answer) {
    struct replica_key first = replica_key_of(r, "head");
    struct replica_key end = replica_key_of(r, "log0");
    struct etcd_watch_options options = {
        .keys = {replica_key_bytes(&first), replica_key_bytes(&end)},
        .start_revision = answer->header.revision + 1,
        .connection = answer->connection,
        .deadline_ms = r->now_ms + REPLICA_READ_MS,
    };
    if (etcd_watch(r->watcher, &options, on_watched, r, &r->follow.watch) == TN_OK) {
        r->follow.state = FOLLOW_WATCHING;
        r->follow.behind_ms = 0;
    } else {
        replica_follow_restart(r, RETRY_MS);
    }
}

/* ---- The read ---- */

/* The cluster's keys are not there, or not whole. */
static void keys_missing(struct replica *r) {
    if (r->begun || r->has_file) {
        replica_in_trouble(r, REPLICA_TROUBLE_GONE, "prefix %s", r->options.prefix);
    } else {
        replica_in_trouble(r, REPLICA_TROUBLE_UNINITIALIZED, "prefix %s", r->options.prefix);
    }
    replica_follow_restart(r, SLOW_MS);
}

/* Judges cluster and head. True: this node takes part and may continue with the batches. */
static bool keys_judge(struct replica *r, const struct etcd_answer *answer,
                       struct replica_head *ret_head) {
    const struct etcd_found *cluster = &answer->ops[0].found;
    const struct etcd_found *head = &answer->ops[1].found;
    if (cluster->count == 0 || head->count == 0) {
        keys_missing(r);
        return false;
    }
    enum tn_status status = replica_head_decode(head->kvs[0].value, ret_head);
    if (status != TN_OK || cluster->kvs[0].value.len != REPLICA_CLUSTER_BYTES) {
        replica_follow_distrust(
            r, status == TN_VERSION ? REPLICA_TROUBLE_VERSION : REPLICA_TROUBLE_DAMAGED, "head");
        return false;
    }
    replica_trouble_over(r, REPLICA_TROUBLE_UNINITIALIZED);
    if (!replica_etcd_suits(r)) {
        replica_follow_restart(r, SLOW_MS);
        return false;
    }
    if (!r->begun) {
        replica_begin_contact(r, ret_head, cluster->kvs[0].value.at);
    } else if (memcmp(cluster->kvs[0].value.at, r->file.cluster, REPLICA_CLUSTER_BYTES) != 0) {
        replica_in_trouble(r, REPLICA_TROUBLE_OTHER_CLUSTER, "prefix %s", r->options.prefix);
    }
    if (!r->begun || replica_is_stopped(r)) {
        replica_follow_restart(r, SLOW_MS);
        return false;
    }
    if (ret_head->state_version > r->options.state_version) {
        replica_version_refuse(r, ret_head);
        replica_follow_restart(r, SLOW_MS);
        return false;
    }
    replica_trouble_over(r, REPLICA_TROUBLE_VERSION);
    if (ret_head->lsn < r->follow.floor_lsn) {
        replica_in_trouble(r, REPLICA_TROUBLE_PUT_BACK,
                           "etcd has log position %" PRIu64 ", this node has %" PRIu64,
                           ret_head->lsn, r->follow.floor_lsn);
        return false;
    }
    return true;
}

/* The first existing batch has the chain before it; the head has the chain at its end. */
static void chain_learn(struct replica *r, const struct replica_head *head) {
    if (!r->chain_known && head->lsn == replica_applied(r)) {
        replica_lock(r);
        r->chain = head->chain;
        r->chain_known = true;
        replica_unlock(r);
    }
}

static void batches_take(struct replica *r, const struct etcd_answer *answer,
                         const struct replica_head *head) {
    const struct etcd_found *found = &answer->ops[2].found;
    bool beyond = false;
    for (uint32_t i = 0; i < found->count && !beyond; i++) {
        uint64_t lsn = 0;
        beyond = kv_lsn(r, &found->kvs[i], &lsn) && lsn > head->lsn;
        if (beyond) { /* no owner has put it there: it is not in the log */
            break;
        }
        enum applied applied = kv_apply(r, &found->kvs[i]);
        if (applied == APPLIED_GAP) {
            replica_in_trouble(r, REPLICA_TROUBLE_BEHIND, "log position %" PRIu64,
                               r->position.next_lsn);
        }
        if (applied != APPLIED_OK && applied != APPLIED_OLD) {
            applied_not(r, applied);
            return;
        }
    }
    chain_learn(r, head);
    replica_tell_applied(r);
    /* The next batch, if it exists, is the first key of an answer. So without progress it does not
     * exist. */
    uint64_t applied = replica_applied(r);
    if (found->more && !beyond && head->lsn > applied && applied > r->follow.floor_lsn) {
        replica_follow_restart(r, 0);
        return;
    }
    if (head->lsn > applied) { /* of the same revision: the batch no longer exists */
        replica_in_trouble(r, REPLICA_TROUBLE_BEHIND, "log position %" PRIu64,
                           r->position.next_lsn);
        replica_follow_restart(r, SLOW_MS);
        return;
    }
    r->follow.bad = 0;
    if (r->owner.has_head) { /* the first one is read by the owner's decisions: it may be old */
        head_seen(r, head);
    }
    if (r->owner.role == REPLICA_FOLLOWING || r->owner.role == REPLICA_TAKING) {
        watch_begin(r, answer);
    }
}

static void on_read(void *ctx, const struct etcd_answer *answer) {
    struct replica *r = ctx;
    struct replica_head head;
    replica_clock(r);
    r->follow.state = FOLLOW_IDLE;
    if (answer->outcome != ETCD_DONE || answer->op_count != 3) {
        if (answer->reason == ETCD_DENIED || answer->reason == ETCD_UNTRUSTED) {
            replica_in_trouble(r, REPLICA_TROUBLE_DENIED, "%s", answer->message);
            replica_follow_restart(r, SLOW_MS);
        } else {
            replica_unanswered(r, answer);
            replica_follow_restart(r, RETRY_MS);
        }
        return;
    }
    replica_answered(r);
    if (r->begun && r->owner.role == REPLICA_OWNING) {
        return;
    }
    if (keys_judge(r, answer, &head)) {
        batches_take(r, answer, &head);
    }
}

static void read_begin(struct replica *r) {
    struct replica_key cluster = replica_key_of(r, "cluster");
    struct replica_key head = replica_key_of(r, "head");
    struct replica_key next = replica_key_log(r, r->position.next_lsn);
    struct replica_key end = replica_key_of(r, "log0");
    struct etcd_op gets[] = {
        {.kind = ETCD_GET, .keys = {.key = replica_key_bytes(&cluster)}},
        {.kind = ETCD_GET, .keys = {.key = replica_key_bytes(&head)}},
        {.kind = ETCD_GET,
         .keys = {replica_key_bytes(&next), replica_key_bytes(&end)},
         .limit = READ_BATCHES},
    };
    struct etcd_request request = {.verb = ETCD_TXN, .txn = {.then = gets, .then_count = 3}};
    if (etcd_submit(r->watcher, &request, r->now_ms + REPLICA_READ_MS, on_read, r) == TN_OK) {
        r->follow.state = FOLLOW_READING;
        r->follow.floor_lsn = replica_applied(r);
    } else {
        r->follow.next_ms = r->now_ms + RETRY_MS;
    }
}

/* Another read has found a head that the watch has not reported, so the watch may be stuck. */
static void watch_check(struct replica *r) {
    bool behind = r->owner.has_head && r->owner.head.lsn > replica_applied(r);
    if (!behind) {
        r->follow.behind_ms = 0;
    } else if (r->follow.behind_ms == 0) {
        r->follow.behind_ms = r->now_ms;
    } else if (r->now_ms - r->follow.behind_ms >= r->options.leader_ttl_ms / 4) {
        replica_follow_restart(r, 0);
        etcd_leave(r->watcher);
    }
}

static bool follow_may(const struct replica *r) {
    return !r->follow.stopped &&
           (r->begin.state == BEGIN_CONTACT || r->begin.state == BEGIN_DONE) &&
           !(r->begun && r->owner.role == REPLICA_OWNING);
}

void replica_follow_turn(struct replica *r) {
    if (!follow_may(r)) {
        return;
    }
    if (r->follow.state == FOLLOW_WATCHING) {
        watch_check(r);
    }
    if (r->follow.state == FOLLOW_IDLE && r->now_ms >= r->follow.next_ms) {
        read_begin(r);
    }
}

uint64_t replica_follow_next_ms(const struct replica *r) {
    if (!follow_may(r) || r->follow.state == FOLLOW_READING) {
        return UINT64_MAX;
    }
    if (r->follow.state == FOLLOW_IDLE) {
        return r->follow.next_ms;
    }
    return r->follow.behind_ms != 0 ? r->follow.behind_ms + r->options.leader_ttl_ms / 4
                                    : UINT64_MAX;
}
