/* First contact with the cluster; beginning one; going on after etcd was put back.
 *
 *                      the cluster is ours, and etcd has at least what we have
 *   CONTACT -----------------------------------------------------------------> DONE
 *      ^   \ restored: the head is noted
 *      |    +---> WAITING ---- 2 T later the head is the same ----+
 *      |                                                          v
 *      +--------------------- done ------------------------- SWAPPING <---- LOOKING (init: empty)
 *
 * Beginning a cluster: 1. the prefix is empty; 2. the local log can be written, so its end is known; 3.
 * the file `replica` names the new cluster; 4. one transaction puts `cluster` and `head`, if neither is
 * there. A crash before 4 leaves a file that the next --cluster-init replaces. A crash after 4 leaves a
 * cluster, and the file that belongs to it: --cluster-init once more finds that it is done.
 *
 * After etcd was put back, this node's directory counts: one transaction replaces the head, if it is
 * still the one that was found and nobody has renewed it for 2 T, and deletes all batches. Nodes that
 * are at the same log position go on from there; others begin with a snapshot. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/hash.h"
#include "log/local.h"
#include "replica/replica_state.h"

#define RETRY_MS 200u
#define GENERATION_ONE ((uint64_t)1 << 32)

/* The chain before the first batch of a cluster: two clusters never have the same one. */
static uint64_t chain_first(const uint8_t cluster[REPLICA_CLUSTER_BYTES], uint64_t lsn) {
    return tn_hash64(cluster, REPLICA_CLUSTER_BYTES, lsn);
}

static void chain_set(struct replica *r, uint64_t chain) {
    replica_lock(r);
    r->chain = chain;
    r->chain_known = true;
    replica_unlock(r);
}

/* The local log can be written, and the file says whose it is. */
static bool local_begin(struct replica *r) {
    struct log_error error = {.text = ""};
    enum tn_status status = TN_OK;
    if (!r->copy.writable) {
        status = replica_copy_lead(r, &error);
    }
    if (status == TN_OK) {
        status = replica_copy_save(r, false);
        if (status != TN_OK) {
            (void)snprintf(error.text, sizeof error.text, "the file " REPLICA_FILE ": %s",
                           tn_status_text(status));
        }
    }
    if (status !=
        TN_OK) { /* the local log can be opened for writing once in the life of a process */
        replica_in_trouble(r, status == TN_NOSPACE ? REPLICA_TROUBLE_NO_ROOM : REPLICA_TROUBLE_COPY,
                           "%.140s", error.text);
    }
    return status == TN_OK;
}

/* ---- Contact ---- */

static bool is_put_back(struct replica *r, const struct replica_head *head) {
    uint64_t applied = replica_applied(r);
    uint64_t known = r->has_file && r->file.lsn > applied ? r->file.lsn : applied;
    return head->lsn < known || (r->has_file && head->epoch < r->file.epoch) ||
           (head->lsn == applied && r->chain_known && head->chain != r->chain);
}

/* The generation after this one. False: there are no more. */
static bool generation_next(const struct replica *r, uint64_t *ret_shard) {
    *ret_shard = r->position.shard + (r->position.lsn > 0 ? GENERATION_ONE : 0);
    return *ret_shard >> 32 <= LOG_GENERATIONS_MAX;
}

static void restored_begin(struct replica *r, const struct replica_head *head) {
    uint64_t shard;
    if (head->state_version > r->options.state_version) {
        replica_version_refuse(r, head);
        return;
    }
    if (head->lsn > replica_applied(r)) {
        replica_in_trouble(r, REPLICA_TROUBLE_NEWER,
                           "etcd has log position %" PRIu64 ", this directory %" PRIu64, head->lsn,
                           replica_applied(r));
        return;
    }
    if (!generation_next(r, &shard)) {
        replica_in_trouble(r, REPLICA_TROUBLE_COPY, "it was restored too often (%u times)",
                           LOG_GENERATIONS_MAX);
        return;
    }
    r->begin.found = *head;
    r->begin.state = BEGIN_WAITING;
    uint32_t ttl_ms =
        head->ttl_ms > r->options.leader_ttl_ms ? head->ttl_ms : r->options.leader_ttl_ms;
    r->begin.next_ms = r->now_ms + 2 * (uint64_t)ttl_ms;
}

static void join(struct replica *r, const struct replica_head *head) {
    if (!r->has_file && replica_applied(r) == 0) {
        chain_set(r, chain_first(r->file.cluster, 0));
    }
    /* A copy of a closed cluster stands alone only when it is complete. */
    bool closed = (head->flags & REPLICA_CLOSED) != 0 && replica_applied(r) >= head->lsn;
    replica_copy_set(r, r->chain, closed);
    if (local_begin(r)) {
        r->has_file = true;
        r->begin.state = BEGIN_DONE;
        replica_swap_begin(r);
    }
}

void replica_begin_contact(struct replica *r, const struct replica_head *head,
                           const uint8_t cluster[REPLICA_CLUSTER_BYTES]) {
    if (r->begin.state != BEGIN_CONTACT) {
        return;
    }
    if (r->has_file && memcmp(r->file.cluster, cluster, REPLICA_CLUSTER_BYTES) != 0) {
        replica_in_trouble(r, REPLICA_TROUBLE_OTHER_CLUSTER, "prefix %s", r->options.prefix);
        return;
    }
    if (!r->has_file && r->position.lsn > 0 && !r->options.restored) {
        replica_in_trouble(r, REPLICA_TROUBLE_UNRELATED, "it ends at log position %" PRIu64,
                           r->position.lsn);
        return;
    }
    memcpy(r->file.cluster, cluster, REPLICA_CLUSTER_BYTES);
    if (r->options.restored) {
        restored_begin(r, head);
    } else if (is_put_back(r, head)) {
        replica_in_trouble(r, REPLICA_TROUBLE_PUT_BACK,
                           "etcd has log position %" PRIu64 ", this node has %" PRIu64, head->lsn,
                           replica_applied(r) > r->file.lsn ? replica_applied(r) : r->file.lsn);
    } else {
        join(r, head);
    }
}

/* ---- The transaction ---- */

static void swap_ended(struct replica *r, bool ours) {
    if (ours) {
        r->options.init = r->options.restored = false;
        r->has_file = true;
        r->begin.state = BEGIN_CONTACT;
        replica_follow_restart(r, 0);
        replica_notice(r, "event=replica_begun lsn=%" PRIu64, replica_applied(r));
    } else if (r->options.init) {
        replica_in_trouble(r, REPLICA_TROUBLE_NOT_EMPTY, "prefix %s", r->options.prefix);
    } else {
        replica_in_trouble(r, REPLICA_TROUBLE_NEWER, "another node has changed the head");
    }
}

static struct tn_bytes cluster_of(const struct replica *r) {
    return tn_bytes_of(r->file.cluster, REPLICA_CLUSTER_BYTES);
}

static bool found_is(const struct etcd_found *found, struct tn_bytes value) {
    return found->count > 0 && tn_bytes_equal(found->kvs[0].value, value);
}

/* If an earlier try was carried out and its answer was lost, another node may own the log by now. The id of a
 * cluster that was to begin shows it, because no other node knows that id. */
static void on_swapped(void *ctx, const struct etcd_answer *answer) {
    struct replica *r = ctx;
    uint8_t head[REPLICA_HEAD_BYTES];
    replica_clock(r);
    r->begin.under_way = false;
    r->begin.next_ms = r->now_ms + RETRY_MS;
    if (answer->outcome == ETCD_DONE) {
        replica_answered(r);
        swap_ended(r, true);
    } else if (answer->outcome == ETCD_COMPARE_FAILED && answer->op_count == 2) {
        replica_answered(r);
        replica_head_encode(&r->begin.head, head);
        swap_ended(r, found_is(&answer->ops[1].found, tn_bytes_of(head, sizeof head)) ||
                          (r->options.init && found_is(&answer->ops[0].found, cluster_of(r))));
    } else if (answer->reason == ETCD_DENIED || answer->reason == ETCD_UNTRUSTED) {
        replica_in_trouble(r, REPLICA_TROUBLE_DENIED, "%s", answer->message);
    } else { /* the same again, until the outcome is known */
        replica_unanswered(r, answer);
    }
}

static void swap_send(struct replica *r) {
    uint8_t found[REPLICA_HEAD_BYTES];
    uint8_t head[REPLICA_HEAD_BYTES];
    struct replica_key cluster_key = replica_key_of(r, "cluster");
    struct replica_key head_key = replica_key_of(r, "head");
    struct replica_key first = replica_key_log(r, 0);
    struct replica_key end = replica_key_of(r, "log0");
    struct tn_bytes cluster = cluster_of(r);
    bool init = r->options.init;
    replica_head_encode(&r->begin.found, found);
    replica_head_encode(&r->begin.head, head);
    struct etcd_compare compares[2] = {
        {.kind = init ? ETCD_ABSENT : ETCD_VALUE_IS,
         .key = replica_key_bytes(&cluster_key),
         .value = cluster},
        {.kind = init ? ETCD_ABSENT : ETCD_VALUE_IS,
         .key = replica_key_bytes(&head_key),
         .value = tn_bytes_of(found, sizeof found)},
    };
    struct etcd_op then[3] = {
        {.kind = ETCD_PUT,
         .keys = {.key = replica_key_bytes(&head_key)},
         .value = tn_bytes_of(head, sizeof head)},
        {.kind = ETCD_DELETE, .keys = {replica_key_bytes(&first), replica_key_bytes(&end)}},
        {.kind = ETCD_PUT, .keys = {.key = replica_key_bytes(&cluster_key)}, .value = cluster},
    };
    struct etcd_op gets[2] = {
        {.kind = ETCD_GET, .keys = {.key = replica_key_bytes(&cluster_key)}},
        {.kind = ETCD_GET, .keys = {.key = replica_key_bytes(&head_key)}},
    };
    struct etcd_request request = {.verb = ETCD_TXN,
                                   .txn = {.compares = compares,
                                           .compare_count = 2,
                                           .then = then,
                                           .then_count = 3,
                                           .otherwise = gets,
                                           .otherwise_count = 2}};
    r->begin.under_way =
        etcd_submit(r->writer, &request, r->now_ms + REPLICA_READ_MS, on_swapped, r) == TN_OK;
}

/* Makes a head that any node may take over, with everything up to where this directory ends. */
static void head_prepare(struct replica *r) {
    struct replica_head *head = &r->begin.head;
    memset(head, 0, sizeof *head);
    head->flags = REPLICA_RESIGNED;
    head->state_version = r->options.state_version;
    head->ttl_ms = r->options.leader_ttl_ms;
    head->epoch = r->begin.found.epoch > r->file.epoch ? r->begin.found.epoch : r->file.epoch;
    head->epoch++;
    replica_nonce_next(r, &head->nonce);
    head->seq = r->begin.found.seq + 1;
    head->lsn = replica_applied(r);
    head->now_ms = r->position.now_ms;
    head->shard = r->position.shard;
    head->chain = r->chain;
    head->stamp_ms = r->now_ms;
    memcpy(head->node, r->options.node, strlen(r->options.node));
}

static void init_begin(struct replica *r) {
    memset(&r->file, 0, sizeof r->file);
    if (r->os->random(r->os->ctx, r->file.cluster, sizeof r->file.cluster) != TN_OK) {
        replica_in_trouble(r, REPLICA_TROUBLE_COPY, "no random numbers");
        return;
    }
    if (!local_begin(r)) {
        return;
    }
    chain_set(r, chain_first(r->file.cluster, replica_applied(r)));
    replica_copy_set(r, r->chain, false);
    if (local_begin(r)) { /* now with the chain */
        memset(&r->begin.found, 0, sizeof r->begin.found);
        head_prepare(r);
        r->begin.state = BEGIN_SWAPPING;
    }
}

static void restored_swap(struct replica *r) {
    uint64_t shard = 0;
    (void)generation_next(r, &shard);
    if (!r->chain_known) {
        chain_set(r, chain_first(r->file.cluster, replica_applied(r)));
    }
    head_prepare(r);
    r->begin.head.shard = shard;
    r->begin.state = BEGIN_SWAPPING;
}

/* ---- Looking ---- */

static bool key_is(const struct replica *r, const struct etcd_kv *kv, const char *name) {
    struct replica_key key = replica_key_of(r, name);
    return tn_bytes_equal(kv->key, replica_key_bytes(&key));
}

/* Whether the member has reported its version, and the version is supported. */
static bool etcd_is_judged(struct replica *r) {
    struct etcd_info info;
    etcd_info(r->writer, &info);
    return info.version[0] != '\0' && replica_etcd_suits(r);
}

/* --cluster-init: all keys under the prefix, the first ones. */
static void on_looked(void *ctx, const struct etcd_answer *answer) {
    struct replica *r = ctx;
    replica_clock(r);
    r->begin.under_way = false;
    r->begin.next_ms = r->now_ms + RETRY_MS;
    if (answer->outcome != ETCD_DONE) {
        if (answer->reason == ETCD_DENIED || answer->reason == ETCD_UNTRUSTED) {
            replica_in_trouble(r, REPLICA_TROUBLE_DENIED, "%s", answer->message);
        } else {
            replica_unanswered(r, answer);
        }
        return;
    }
    replica_answered(r);
    if (!etcd_is_judged(r)) {
        return;
    }
    const struct etcd_kv *kv = answer->found.kvs;
    if (answer->found.count == 0) {
        init_begin(r);
    } else if (r->has_file && key_is(r, kv, "cluster") &&
               tn_bytes_equal(kv->value, cluster_of(r))) {
        log_local_continues(r->local); /* an earlier start has done it */
        swap_ended(r, true);
    } else {
        swap_ended(r, false);
    }
}

static void look(struct replica *r) {
    uint8_t end[REPLICA_PREFIX_MAX];
    struct tn_bytes prefix = tn_bytes_of(r->options.prefix, strlen(r->options.prefix));
    struct etcd_request request = {
        .verb = ETCD_RANGE, .range = {.keys = {prefix, etcd_prefix_end(prefix, end)}, .limit = 1}};
    r->begin.under_way =
        etcd_submit(r->writer, &request, r->now_ms + REPLICA_READ_MS, on_looked, r) == TN_OK;
}

/* Sent if no node has renewed the head for long enough: the compare shows whether that is true. */
void replica_begin_turn(struct replica *r) {
    if (r->begin.under_way || replica_is_stopped(r) || r->now_ms < r->begin.next_ms) {
        return;
    }
    switch (r->begin.state) {
    case BEGIN_LOOKING:
        look(r);
        break;
    case BEGIN_WAITING:
        restored_swap(r);
        swap_send(r);
        break;
    case BEGIN_SWAPPING:
        swap_send(r);
        break;
    default:
        break;
    }
}

uint64_t replica_begin_next_ms(const struct replica *r) {
    bool idle = r->begin.state == BEGIN_CONTACT || r->begin.state == BEGIN_DONE;
    return idle || r->begin.under_way || r->follow.stopped ? UINT64_MAX : r->begin.next_ms;
}
