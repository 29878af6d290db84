/* Housekeeping: this node's record and the table of nodes, on every node; trimming, compaction and the
 * quota, on the owner.
 *
 * The record is swapped like the head, so that two nodes of one name notice each other. An instance says
 * from which place it runs: the boot of its machine and its directory, which only one process can use. A
 * record from the same place is of a former life and is replaced. A record from another place may be of a
 * node that lives: it is replaced only if it stands unchanged for name_wait_ms, and until then this node
 * follows but does not own the log. If it changes, another node has the name and this one stops. A node that
 * was cut off may find its name taken: then the later one of the two processes stops.
 *
 * What may be trimmed: everything that the snapshots of a majority of the registered nodes cover (so
 * that a node can always begin with a snapshot and go on from etcd), and that all nodes seen within an
 * hour have copied. When etcd keeps more than etcd_log_bytes, the majority alone decides; if that is
 * not enough, appends are refused. The newest half of etcd_log_bytes stays anyway: a node that is loading a
 * snapshot is not registered yet, and needs what came after it. An owner that has not seen so much in its
 * life does not know where that half begins, and trims without regard to it: little is appended then.
 * Trimming rides on appends, TRIM_KEYS at a time. A new owner first asks etcd for the oldest batch: earlier
 * owners have trimmed, and what this node has seen is no measure. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "replica/replica_state.h"

#define LOOK_MS 500u /* between two looks at the record of another instance */
#define TRIM_KEYS 4096u
#define NODE_AWAY_MS 3600000u
#define COMPACT_BYTES (64u << 20)
#define COMPACT_MS 300000u
#define SKEW_MS 15000 /* 10 s, and the age of a record */
#define WARN_PERCENT 70u
#define FULL_PERCENT 85u

/* ---- This node's record ---- */

static void record_text(char *out, size_t size, const char *text) {
    (void)snprintf(out, size, "%s", text);
}

/* The age of this process in milliseconds: of two processes, the later one has the smaller one. */
static uint64_t beat_next(const struct replica *r) {
    uint64_t age_ms = r->now_ms - r->keep.began_ms;
    return age_ms > r->keep.beat ? age_ms : r->keep.beat + 1;
}

static void record_make(struct replica *r, struct replica_node *node) {
    struct log_stats stats = {0};
    r->local_store->verbs->stats(r->local_store, &stats);
    memset(node, 0, sizeof *node);
    record_text(node->name, sizeof node->name, r->options.node);
    record_text(node->address, sizeof node->address, r->options.advertise);
    record_text(node->http, sizeof node->http, r->options.advertise_http);
    record_text(node->version, sizeof node->version, r->options.version);
    memcpy(node->boot_id, r->boot_id, sizeof node->boot_id);
    node->instance = r->instance;
    node->state_version = r->options.state_version;
    node->beat = r->keep.beat = beat_next(r);
    node->wall_ms = r->os->clock_wall_ms(r->os->ctx);
    node->epoch = r->owner.has_head ? r->owner.head.epoch : 0;
    node->applied_lsn = replica_applied(r);
    node->copied_lsn = replica_copy_lsn(r);
    node->snapshot_lsn = stats.snapshot_lsn;
    node->clean_epoch = atomic_load(&r->clean_epoch);
    node->config_digest = atomic_load(&r->config_digest);
}

/* Longer than a node takes to change its record, and than an owner that was cut off stays one. */
static uint64_t name_wait_ms(const struct replica *r) {
    uint64_t ttl_ms = 2 * (uint64_t)r->options.leader_ttl_ms;
    uint64_t beat_ms = REPLICA_BEAT_MS + REPLICA_BEAT_MS / 2;
    return ttl_ms > beat_ms ? ttl_ms : beat_ms;
}

static void record_named(struct replica *r, bool named) {
    r->keep.named = named;
    replica_bar_update(r);
}

/* This process has put a record, and another one has replaced it. Whether the other process is the
 * earlier one. */
static bool record_is_earlier(const struct replica *r, const struct replica_node *other) {
    const struct replica_nonce *a = &other->instance;
    const struct replica_nonce *b = &r->instance;
    if (other->beat != r->keep.beat) {
        return other->beat > r->keep.beat;
    }
    return a->words[0] != b->words[0] ? a->words[0] > b->words[0] : a->words[1] > b->words[1];
}

/* Whether the record of an instance at another place may be replaced now. */
static bool record_stands_still(struct replica *r, const struct replica_node *other) {
    struct replica_keep *keep = &r->keep;
    bool known = keep->rival_beat != 0;
    bool same = known && keep->rival_beat == other->beat &&
                replica_nonce_equal(&keep->rival, &other->instance);
    if (known && !same) {
        replica_in_trouble(r, REPLICA_TROUBLE_DUPLICATE, "node %s is at %s", r->options.node,
                           other->address);
        return false;
    }
    if (!known) {
        keep->rival = other->instance;
        keep->rival_beat = other->beat;
        keep->rival_ms = r->now_ms;
    }
    return r->now_ms - keep->rival_ms >= name_wait_ms(r);
}

/* The record is not the one that this process has put: it belongs to an earlier process of this
 * node, or to another node. */
static void record_other(struct replica *r, struct tn_bytes value) {
    struct replica_keep *keep = &r->keep;
    struct replica_node node;
    bool known = replica_node_decode(value, &node) == TN_OK;
    bool ours = known && node.instance.words[0] == r->instance.words[0];
    keep->said_len = 0;
    if (known && !ours && keep->named && record_is_earlier(r, &node)) {
        replica_in_trouble(r, REPLICA_TROUBLE_DUPLICATE, "node %s is at %s", r->options.node,
                           node.address);
        return;
    }
    if (known && !ours && !keep->named && !record_stands_still(r, &node)) {
        keep->beat_ms = r->now_ms + LOOK_MS;
        return;
    }
    keep->said_len = value.len <= sizeof keep->said ? (uint32_t)value.len : 0;
    memcpy(keep->said, value.at, keep->said_len);
    keep->beat_ms = r->now_ms;
}

static void on_beat(void *ctx, const struct etcd_answer *answer) {
    struct replica *r = ctx;
    struct replica_keep *keep = &r->keep;
    replica_clock(r);
    keep->beating = false;
    if (answer->outcome == ETCD_DONE) {
        memcpy(keep->said, keep->saying, keep->saying_len);
        keep->said_len = keep->saying_len;
        keep->beat_ms = r->now_ms + REPLICA_BEAT_MS;
        if (r->owner.role != REPLICA_OWNING || !keep->full) {
            replica_trouble_over(r, REPLICA_TROUBLE_FULL);
            replica_trouble_over(r, REPLICA_TROUBLE_LOG_FULL);
        }
        if (keep->denied) {
            keep->denied = false;
            replica_trouble_over(r, REPLICA_TROUBLE_DENIED);
        }
        if (!keep->named) { /* the table has this node from its beginning on */
            keep->list_ms = r->now_ms;
        }
        record_named(r, true);
    } else if (answer->outcome == ETCD_COMPARE_FAILED && answer->op_count == 1 &&
               answer->ops[0].found.count > 0) {
        record_other(r, answer->ops[0].found.kvs[0].value);
    } else if (answer->outcome == ETCD_COMPARE_FAILED) { /* removed */
        keep->said_len = 0;
        keep->beat_ms = r->now_ms;
    } else {
        keep->beat_ms = r->now_ms + REPLICA_BEAT_MS / 5;
        if (answer->reason == ETCD_NOSPACE) {
            replica_in_trouble(r, REPLICA_TROUBLE_FULL, "etcd has the alarm NOSPACE");
        } else if (answer->reason == ETCD_DENIED) {
            keep->denied = true;
            replica_in_trouble(r, REPLICA_TROUBLE_DENIED, "the record node/%s: %s", r->options.node,
                               answer->message);
        }
    }
}

static struct replica_key record_key(const struct replica *r, const char *name) {
    char text[8 + REPLICA_NODE_MAX];
    (void)snprintf(text, sizeof text, "node/%s", name);
    return replica_key_of(r, text);
}

static void beat(struct replica *r) {
    struct replica_keep *keep = &r->keep;
    struct replica_node node;
    struct replica_key key = record_key(r, r->options.node);
    record_make(r, &node);
    TN_ASSERT(!keep->beating); /* its answer copies `saying` */
    keep->saying_len = replica_node_encode(&node, keep->saying);
    struct etcd_compare compare = {.kind = keep->said_len > 0 ? ETCD_VALUE_IS : ETCD_ABSENT,
                                   .key = replica_key_bytes(&key),
                                   .value = tn_bytes_of(keep->said, keep->said_len)};
    struct etcd_op put = {.kind = ETCD_PUT,
                          .keys = {.key = replica_key_bytes(&key)},
                          .value = tn_bytes_of(keep->saying, keep->saying_len)};
    struct etcd_op get = {.kind = ETCD_GET, .keys = {.key = replica_key_bytes(&key)}};
    struct etcd_request request = {.verb = ETCD_TXN,
                                   .txn = {.compares = &compare,
                                           .compare_count = 1,
                                           .then = &put,
                                           .then_count = 1,
                                           .otherwise = &get,
                                           .otherwise_count = 1}};
    keep->beating =
        etcd_submit(r->writer, &request, r->now_ms + REPLICA_READ_MS, on_beat, r) == TN_OK;
    keep->beat_ms = r->now_ms + REPLICA_BEAT_MS;
}

/* ---- The table of nodes ---- */

static void node_take(struct replica *r, struct replica_node *out, unsigned *count,
                      const struct etcd_kv *kv) {
    struct replica_node node;
    if (*count == REPLICA_NODES_MAX || replica_node_decode(kv->value, &node) != TN_OK) {
        return;
    }
    node.seen_ms = r->now_ms;
    node.skew_ms = (int64_t)(node.wall_ms - r->os->clock_wall_ms(r->os->ctx));
    for (unsigned i = 0; i < r->node_count; i++) {
        const struct replica_node *before = &r->nodes[i];
        if (strcmp(before->name, node.name) != 0) {
            continue;
        }
        if (before->beat == node.beat && replica_nonce_equal(&before->instance, &node.instance)) {
            node.seen_ms = before->seen_ms;
            node.skew_ms = before->skew_ms;
            node.lives = before->lives;
        } else {
            node.lives = r->now_ms - r->keep.listed_ms < 2 * (uint64_t)REPLICA_BEAT_MS;
        }
    }
    out[(*count)++] = node;
}

/* Clocks that differ from those of most others make takeovers wait for T longer. A record that was only found
 * may be of any time: all nodes, or etcd, may have been down. */
static void skew_judge(struct replica *r) {
    unsigned others = 0;
    unsigned apart = 0;
    for (unsigned i = 0; i < r->node_count; i++) {
        const struct replica_node *node = &r->nodes[i];
        if (strcmp(node->name, r->options.node) != 0 && node->lives &&
            r->now_ms - node->seen_ms < 2 * (uint64_t)REPLICA_BEAT_MS) {
            others++;
            apart += node->skew_ms > SKEW_MS || node->skew_ms < -SKEW_MS;
        }
    }
    bool skewed = others > 0 && 2 * apart > others;
    if (skewed && !r->keep.skewed) {
        replica_notice(r, "event=replica_clock_skew text=\"the wall clock differs from those of "
                          "most other nodes by more than 10 s: set it\"");
    }
    r->keep.skewed = skewed;
    r->owner.options.wait_ms = skewed ? r->options.leader_ttl_ms : 0;
}

/* Each owner applies what its own file declares: a node whose file differs would change it at its takeover.
 * Told once for each different configuration, and again when it was the same meanwhile. */
static void config_judge(struct replica *r) {
    uint64_t ours = atomic_load(&r->config_digest);
    const struct replica_node *other = NULL;
    for (unsigned i = 0; i < r->node_count; i++) {
        const struct replica_node *node = &r->nodes[i];
        if (node->config_digest != 0 && ours != 0 && node->config_digest != ours &&
            strcmp(node->name, r->options.node) != 0 &&
            r->now_ms - node->seen_ms < 3 * (uint64_t)REPLICA_BEAT_MS) {
            other = node;
        }
    }
    if (other != NULL && r->keep.differs != (other->config_digest ^ ours)) {
        replica_notice(
            r,
            "event=replica_config_differs node=%s text=\"node %s has other declared pools, "
            "sensors, rules, limits, leader_ttl or sensor fencing in its configuration: keep "
            "the files of all nodes the same\"",
            other->name, other->name);
    }
    r->keep.differs = other != NULL ? other->config_digest ^ ours : 0;
}

static void on_listed(void *ctx, const struct etcd_answer *answer) {
    struct replica *r = ctx;
    struct replica_node *nodes = NULL;
    unsigned count = 0;
    replica_clock(r);
    r->keep.listing = false;
    if (answer->outcome != ETCD_DONE ||
        (nodes = calloc(REPLICA_NODES_MAX, sizeof *nodes)) == NULL) {
        r->keep.list_ms = r->now_ms + REPLICA_BEAT_MS / 5;
        return;
    }
    for (uint32_t i = 0; i < answer->found.count; i++) {
        node_take(r, nodes, &count, &answer->found.kvs[i]);
    }
    TN_ASSERT(count <= REPLICA_NODES_MAX);
    replica_lock(r);
    memcpy(r->nodes, nodes, count * sizeof *nodes);
    r->node_count = count;
    replica_unlock(r);
    free(nodes);
    r->keep.listed_ms = r->now_ms;
    skew_judge(r);
    config_judge(r);
    replica_leader_tell(r);
}

static bool range_send(struct replica *r, struct etcd_range range, etcd_done *done) {
    struct etcd_request request = {.verb = ETCD_RANGE, .range = range};
    return etcd_submit(r->writer, &request, r->now_ms + REPLICA_READ_MS, done, r) == TN_OK;
}

/* Somebody owns the log, and this node cannot say where clients find it. */
static bool leader_is_unknown(const struct replica *r) {
    return r->owner.has_head && r->owner.role != REPLICA_OWNING && r->leader_told[0] == '\0' &&
           (r->owner.head.flags & REPLICA_RESIGNED) == 0;
}

static void list(struct replica *r) {
    struct replica_key first = replica_key_of(r, "node/");
    struct replica_key end = replica_key_of(r, "node0");
    struct etcd_range range = {.keys = {replica_key_bytes(&first), replica_key_bytes(&end)},
                               .limit = REPLICA_RECORDS_READ};
    r->keep.listing = range_send(r, range, on_listed);
    r->keep.list_ms = r->now_ms + (leader_is_unknown(r) ? REPLICA_BEAT_MS / 10 : REPLICA_BEAT_MS);
}

/* ---- How much etcd keeps ---- */

void replica_keep_count(struct replica *r, uint64_t last_lsn, uint64_t bytes) {
    struct replica_keep *keep = &r->keep;
    keep->bytes += bytes;
    if (keep->bytes - keep->mark_bytes < r->options.etcd_log_bytes / (REPLICA_MARKS / 2)) {
        return;
    }
    if (keep->mark_count == REPLICA_MARKS) {
        keep->mark_count--;
        memmove(keep->marks, keep->marks + 1, keep->mark_count * sizeof keep->marks[0]);
    }
    TN_ASSERT(keep->mark_count < REPLICA_MARKS);
    keep->marks[keep->mark_count++] = (struct replica_mark){.lsn = last_lsn, .bytes = keep->bytes};
    keep->mark_bytes = keep->bytes;
}

/* Bytes of batches after this LSN, as far as this node has seen them; never too few. */
static uint64_t bytes_after(const struct replica_keep *keep, uint64_t lsn) {
    uint64_t before = 0;
    for (unsigned i = 0; i < keep->mark_count && keep->marks[i].lsn <= lsn; i++) {
        before = keep->marks[i].bytes;
    }
    return keep->bytes - before;
}

static int lsn_descending(const void *a, const void *b) {
    uint64_t x = *(const uint64_t *)a;
    uint64_t y = *(const uint64_t *)b;
    return (x < y) - (x > y);
}

/* The newest LSN that the snapshots of a majority of nodes cover; 0: there is none. */
static uint64_t covered_lsn(const struct replica *r) {
    uint64_t lsns[REPLICA_NODES_MAX];
    for (unsigned i = 0; i < r->node_count; i++) {
        lsns[i] = r->nodes[i].snapshot_lsn;
    }
    if (r->node_count == 0) {
        return 0;
    }
    qsort(lsns, r->node_count, sizeof lsns[0], lsn_descending);
    return lsns[r->node_count / 2];
}

static uint64_t copied_by_all(const struct replica *r) {
    uint64_t lsn = UINT64_MAX;
    for (unsigned i = 0; i < r->node_count; i++) {
        const struct replica_node *node = &r->nodes[i];
        if (r->now_ms - node->seen_ms < NODE_AWAY_MS && node->copied_lsn < lsn) {
            lsn = node->copied_lsn;
        }
    }
    return lsn;
}

/* Returns the size of etcd's database. */
static uint64_t figures_note(struct replica *r) {
    struct etcd_info writer;
    struct etcd_info watcher;
    etcd_info(r->writer, &writer);
    etcd_info(r->watcher, &watcher);
    uint64_t db_bytes = writer.db_bytes > 0 ? (uint64_t)writer.db_bytes : 0;
    replica_lock(r);
    r->standing.etcd_bytes = db_bytes;
    r->standing.doubts = writer.doubts + watcher.doubts;
    replica_unlock(r);
    return db_bytes;
}

/* Names the node that a majority without snapshots waits for: it may never come back. Told again when it is
 * another one. */
static void log_full_tell(struct replica *r, uint64_t log_bytes) {
    struct replica_keep *keep = &r->keep;
    const struct replica_node *oldest = NULL;
    uint64_t own_lsn = UINT64_MAX;
    for (unsigned i = 0; i < r->node_count; i++) {
        const struct replica_node *node = &r->nodes[i];
        if (strcmp(node->name, r->options.node) == 0) {
            own_lsn = node->snapshot_lsn;
        } else if (oldest == NULL || node->snapshot_lsn < oldest->snapshot_lsn) {
            oldest = node;
        }
    }
    bool own = oldest == NULL || own_lsn < oldest->snapshot_lsn;
    const char *name = own ? "" : oldest->name;
    if (strcmp(name, keep->log_full_of) != 0) {
        (void)snprintf(keep->log_full_of, sizeof keep->log_full_of, "%s", name);
        (void)replica_trouble_anew(r, REPLICA_TROUBLE_LOG_FULL);
    }
    if (own) {
        replica_in_trouble(r, REPLICA_TROUBLE_LOG_FULL, "%llu bytes; this node needs a snapshot",
                           (unsigned long long)log_bytes);
    } else {
        replica_in_trouble(r, REPLICA_TROUBLE_LOG_FULL,
                           "%llu bytes; the oldest snapshot is that of %s: start that node, or "
                           "remove it with tenure cluster forget",
                           (unsigned long long)log_bytes, name);
    }
}

/* Says once why appends are refused, and when that reason is over. Snapshots may only be late: that is told
 * when the next look finds it, too. */
static void full_tell(struct replica *r, bool log_full, bool db_full, uint64_t log_bytes,
                      uint64_t db_bytes) {
    struct replica_keep *keep = &r->keep;
    if (!log_full) {
        replica_trouble_over(r, REPLICA_TROUBLE_LOG_FULL);
    } else if (keep->log_full_looks > 0) {
        log_full_tell(r, log_bytes);
    }
    if (!db_full) {
        replica_trouble_over(r, REPLICA_TROUBLE_FULL);
    } else if (!log_full && (!keep->full || keep->log_full_looks > 0)) {
        replica_in_trouble(r, REPLICA_TROUBLE_FULL, "%llu bytes of batches, %llu in all",
                           (unsigned long long)log_bytes, (unsigned long long)db_bytes);
    }
    keep->log_full_looks = log_full ? keep->log_full_looks + 1 : 0;
    keep->full = log_full || db_full;
}

static void full_judge(struct replica *r, bool log_full, uint64_t log_bytes) {
    uint64_t quota = r->options.etcd_quota_bytes;
    uint64_t db_bytes = figures_note(r);
    bool near = quota > 0 && db_bytes / WARN_PERCENT >= quota / 100;
    bool db_full = quota > 0 && db_bytes / FULL_PERCENT >= quota / 100;
    replica_lock(r);
    r->standing.log_bytes = log_bytes;
    replica_unlock(r);
    if (near && !r->keep.warned) {
        replica_notice(r,
                       "event=replica_quota bytes=%llu quota=%llu text=\"etcd's database is near "
                       "its quota\"",
                       (unsigned long long)db_bytes, (unsigned long long)quota);
    }
    r->keep.warned = near;
    full_tell(r, log_full, db_full, log_bytes, db_bytes);
}

bool replica_keep_is_full(struct replica *r) {
    return r->keep.full;
}

/* ---- Trimming ---- */

uint64_t replica_keep_trim(struct replica *r) {
    return r->keep.trim_next;
}

void replica_keep_trimmed(struct replica *r, uint64_t lsn) {
    if (lsn > r->keep.trimmed) {
        r->keep.trimmed = lsn;
    }
    if (lsn == r->keep.trim_next) {
        r->keep.trim_next = 0;
        r->keep.trim_ms = 0;
    }
}

void replica_keep_lead(struct replica *r) {
    r->keep.oldest_known = false;
    r->keep.trimmed = r->keep.trim_next = 0;
    r->keep.trim_ms = r->now_ms;
    r->keep.log_full_looks = 0; /* what an earlier ownership was told of is told again */
    r->keep.full = false;
}

static bool key_lsn(struct tn_bytes key, uint64_t *ret_lsn) {
    return key.len >= REPLICA_KEY_DIGITS &&
           replica_key_read(tn_bytes_of(key.at + key.len - REPLICA_KEY_DIGITS, REPLICA_KEY_DIGITS),
                            ret_lsn);
}

/* If keys of other programs hide the oldest batch, everything that was seen counts as kept. */
static void on_oldest_key(void *ctx, const struct etcd_answer *answer) {
    struct replica *r = ctx;
    struct replica_keep *keep = &r->keep;
    uint64_t lsn = 0;
    replica_clock(r);
    keep->trimming = false;
    if (answer->outcome != ETCD_DONE || r->owner.role != REPLICA_OWNING) {
        return;
    }
    if (answer->found.count == 0 ||
        (key_lsn(answer->found.kvs[0].key, &lsn) && lsn > r->position.next_lsn)) {
        lsn = r->position.next_lsn; /* the log has no batch in etcd */
    }
    keep->oldest_known = true;
    keep->trimmed = lsn > keep->trimmed ? lsn : keep->trimmed;
    keep->trim_ms = r->now_ms;
}

static void oldest_ask(struct replica *r) {
    struct replica_key first = replica_key_log(r, 0);
    struct replica_key end = replica_key_of(r, "log0");
    struct etcd_range range = {.keys = {replica_key_bytes(&first), replica_key_bytes(&end)},
                               .limit = 1,
                               .keys_only = true};
    r->keep.trimming = range_send(r, range, on_oldest_key);
    r->keep.trim_ms = r->now_ms + REPLICA_BEAT_MS;
}

/* The keys of the oldest batches: how far one append may delete. */
static void on_trim_keys(void *ctx, const struct etcd_answer *answer) {
    struct replica *r = ctx;
    struct replica_keep *keep = &r->keep;
    uint64_t lsn = keep->trim_goal;
    replica_clock(r);
    keep->trimming = false;
    if (answer->outcome != ETCD_DONE || r->owner.role != REPLICA_OWNING) {
        return;
    }
    if (answer->found.count == 0) {
        keep->trimmed = keep->trim_goal;
        return;
    }
    if (answer->found.more && !key_lsn(answer->found.kvs[answer->found.count - 1].key, &lsn)) {
        return;
    }
    keep->trim_next = lsn < keep->trim_goal ? lsn : keep->trim_goal;
    TN_ASSERT(keep->trim_next <= keep->trim_goal);
}

/* The newest LSN after which there is half of what etcd may keep; UINT64_MAX: that is not known. */
static uint64_t half_lsn(const struct replica *r) {
    const struct replica_keep *keep = &r->keep;
    uint64_t lsn = UINT64_MAX;
    for (unsigned i = 0; i < keep->mark_count; i++) {
        if (keep->bytes - keep->marks[i].bytes < r->options.etcd_log_bytes / 2) {
            break;
        }
        lsn = keep->marks[i].lsn;
    }
    return lsn;
}

static void trim(struct replica *r) {
    struct replica_keep *keep = &r->keep;
    uint64_t covered = covered_lsn(r);
    uint64_t copied = copied_by_all(r);
    uint64_t kept = bytes_after(keep, keep->trimmed > 0 ? keep->trimmed - 1 : 0);
    bool large = kept > r->options.etcd_log_bytes;
    uint64_t goal = large || covered < copied ? covered : copied;
    uint64_t half = half_lsn(r);
    goal = half < goal ? half : goal;
    keep->trim_ms = r->now_ms + REPLICA_BEAT_MS;
    full_judge(r, bytes_after(keep, covered) > r->options.etcd_log_bytes, kept);
    if (goal + 1 <= keep->trimmed || goal == 0 || keep->trim_next != 0) {
        return;
    }
    keep->trim_goal = goal + 1;
    struct replica_key first = replica_key_log(r, 0);
    struct replica_key end = replica_key_log(r, keep->trim_goal);
    struct etcd_range range = {.keys = {replica_key_bytes(&first), replica_key_bytes(&end)},
                               .limit = TRIM_KEYS,
                               .keys_only = true};
    keep->trimming = range_send(r, range, on_trim_keys);
}

/* ---- Compaction ---- */

static void on_compacted(void *ctx, const struct etcd_answer *answer) {
    struct replica *r = ctx;
    (void)answer; /* compacted already, or by the next one */
    replica_clock(r);
    r->keep.compacting = false;
}

/* Compacts up to etcd's revision at the last check; watchers have surely passed it. */
static void compact(struct replica *r) {
    struct replica_keep *keep = &r->keep;
    int64_t revision = keep->revision_before;
    keep->revision_before = keep->revision;
    if (r->options.no_compact || revision == 0 ||
        (keep->bytes - keep->bytes_compacted < COMPACT_BYTES &&
         r->now_ms - keep->compact_ms < COMPACT_MS)) {
        return;
    }
    struct etcd_request request = {.verb = ETCD_COMPACT, .revision = revision};
    keep->bytes_compacted = keep->bytes;
    keep->compact_ms = r->now_ms;
    keep->compacting =
        etcd_submit(r->writer, &request, r->now_ms + REPLICA_READ_MS, on_compacted, r) == TN_OK;
}

/* ---- The turn ---- */

/* A cluster that was closed: the local copy may stand alone when it has everything. */
static void closed_note(struct replica *r) {
    const struct replica_head *head = &r->owner.head;
    bool closed = r->owner.has_head && (head->flags & REPLICA_CLOSED) != 0;
    if (!closed) {
        replica_trouble_over(r, REPLICA_TROUBLE_CLOSED);
    } else if (replica_copy_lsn(r) >= head->lsn) {
        replica_in_trouble(r, REPLICA_TROUBLE_CLOSED, "at log position %llu",
                           (unsigned long long)head->lsn);
        (void)replica_copy_save(r, true);
    }
}

void replica_keep_turn(struct replica *r) {
    struct replica_keep *keep = &r->keep;
    if (!r->begun || replica_is_stopped(r)) {
        return;
    }
    if (atomic_exchange(&r->beat_now, false)) {
        keep->beat_ms = r->now_ms;
    }
    if (!keep->beating && r->now_ms >= keep->beat_ms) {
        beat(r);
    }
    if (!keep->listing && r->now_ms >= keep->list_ms) {
        list(r);
        closed_note(r);
        (void)figures_note(r);
    }
    if (r->owner.role == REPLICA_OWNING && !keep->trimming && r->now_ms >= keep->trim_ms) {
        if (!keep->oldest_known) {
            oldest_ask(r);
            return;
        }
        trim(r);
        if (!keep->compacting) {
            compact(r);
        }
    }
}

uint64_t replica_keep_next_ms(const struct replica *r) {
    const struct replica_keep *keep = &r->keep;
    if (!r->begun || r->follow.stopped) {
        return UINT64_MAX;
    }
    uint64_t beat_ms = keep->beating ? UINT64_MAX : keep->beat_ms;
    uint64_t list_ms = keep->listing ? UINT64_MAX : keep->list_ms;
    uint64_t trim_ms =
        keep->trimming || r->owner.role != REPLICA_OWNING ? UINT64_MAX : keep->trim_ms;
    uint64_t next_ms = beat_ms < list_ms ? beat_ms : list_ms;
    return next_ms < trim_ms ? next_ms : trim_ms;
}
