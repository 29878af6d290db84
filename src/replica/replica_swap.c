/* From facts to effects: what the owner's decisions (replica_owner.h) ask for, as transactions; and what
 * etcd answers, as facts.
 *
 * A swap is one transaction, the same bytes each time that it is repeated:
 *
 *   if    head = H
 *   then  put log/n (an append), put head = H', delete log/[0, trim) (an append), put a note
 *   else  get head, get log/n (an append)
 *
 * The head comes after the batch, so that whoever watches has the batch when it learns of the head. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "replica/replica_state.h"

/* ---- Answers ---- */

static struct replica_call *call_new(struct replica *r, uint64_t number, bool is_read) {
    for (unsigned i = 0; i < REPLICA_CALLS; i++) {
        struct replica_call *call = &r->calls[i];
        if (!call->used) {
            *call = (struct replica_call){.replica = r,
                                          .used = true,
                                          .is_read = is_read,
                                          .number = number,
                                          .sent_ns = r->os->clock_boot_ns(r->os->ctx)};
            return call;
        }
    }
    return NULL;
}

/* Head and batch, from the gets of a transaction. False: a value is damaged. */
static bool answer_read(struct replica *r, const struct etcd_answer *answer,
                        struct replica_fact *fact) {
    const struct replica_item *item = r->appending;
    if (answer->op_count < 1) {
        return false;
    }
    const struct etcd_found *head = &answer->ops[0].found;
    if (head->count > 0) {
        enum tn_status status = replica_head_decode(head->kvs[0].value, &fact->head);
        if (status != TN_OK) {
            replica_follow_distrust(
                r, status == TN_VERSION ? REPLICA_TROUBLE_VERSION : REPLICA_TROUBLE_DAMAGED,
                "head");
            etcd_leave(r->writer); /* this member is not asked any more, either */
            return false;
        }
        fact->has_head = true;
    }
    if (item != NULL && answer->op_count > 1 && answer->ops[1].found.count > 0) {
        struct tn_bytes value = answer->ops[1].found.kvs[0].value;
        fact->has_batch = true;
        fact->batch_is_mine = tn_bytes_equal(value, tn_bytes_of(item->value, item->len));
    }
    return true;
}

static enum replica_fact_kind swap_fact(const struct etcd_answer *answer) {
    switch (answer->outcome) {
    case ETCD_DONE:
        return REPLICA_FACT_DONE;
    case ETCD_COMPARE_FAILED:
        return REPLICA_FACT_FAILED;
    case ETCD_SURELY_NOT:
        return answer->reason == ETCD_DENIED || answer->reason == ETCD_INVALID ||
                       answer->reason == ETCD_TOO_LARGE
                   ? REPLICA_FACT_DENIED
                   : REPLICA_FACT_LATER;
    default:
        return answer->reason == ETCD_NOSPACE ? REPLICA_FACT_NOSPACE : REPLICA_FACT_DOUBT;
    }
}

static void call_took(struct replica *r, const struct replica_call *call) {
    uint64_t ns = r->os->clock_boot_ns(r->os->ctx) - call->sent_ns;
    unsigned bucket = 0;
    while (bucket < LOG_CALL_BUCKETS && ns > log_call_bound_ns(bucket)) {
        bucket++;
    }
    replica_lock(r);
    r->call_ns_sum += ns;
    r->call_histogram[bucket]++;
    replica_unlock(r);
}

static void on_answer(void *ctx, const struct etcd_answer *answer) {
    struct replica_call *call = ctx;
    struct replica *r = call->replica;
    struct replica_fact fact = {.number = call->number};
    bool is_read = call->is_read;
    replica_clock(r);
    bool good = answer->outcome == ETCD_DONE || answer->outcome == ETCD_COMPARE_FAILED;
    call->used = false;
    if (good) {
        r->keep.revision = answer->header.revision;
        call_took(r, call);
    }
    if (is_read) {
        fact.kind = good && answer_read(r, answer, &fact) ? REPLICA_FACT_READ : REPLICA_FACT_UNREAD;
    } else {
        fact.kind = swap_fact(answer);
        if (fact.kind == REPLICA_FACT_DENIED) {
            (void)snprintf(r->denied, sizeof r->denied, "%s", answer->message);
        }
        if (fact.kind == REPLICA_FACT_FAILED && !answer_read(r, answer, &fact)) {
            fact = (struct replica_fact){.kind = REPLICA_FACT_DOUBT, .number = fact.number};
        }
    }
    replica_tell(r, &fact);
}

/* ---- Requests ---- */

static struct replica_key swap_batch_key(const struct replica *r) {
    return replica_key_log(r, r->appending != NULL ? r->appending->batch.first_lsn : 0);
}

/* False: it could not be sent, and surely was not. */
static bool txn_send(struct replica *r, const struct etcd_txn *given, uint64_t number,
                     bool is_read) {
    struct etcd_txn txn = *given;
    struct replica_key head_key = replica_key_of(r, "head");
    struct replica_key batch_key = swap_batch_key(r);
    struct etcd_op gets[2] = {
        {.kind = ETCD_GET, .keys = {.key = replica_key_bytes(&head_key)}},
        {.kind = ETCD_GET, .keys = {.key = replica_key_bytes(&batch_key)}},
    };
    uint32_t get_count = r->appending != NULL ? 2 : 1;
    txn.otherwise = gets;
    txn.otherwise_count = get_count;
    if (is_read) {
        txn.then = gets;
        txn.then_count = get_count;
    }
    struct etcd_request request = {.verb = ETCD_TXN, .txn = txn};
    struct replica_call *call = call_new(r, number, is_read);
    if (call == NULL) {
        return false;
    }
    if (etcd_submit(r->writer, &request, r->now_ms + REPLICA_CALL_MS, on_answer, call) != TN_OK) {
        call->used = false;
        return false;
    }
    return true;
}

/* ---- Notes ---- */

/* The note that goes with this swap, each time that the swap is sent. */
static const struct replica_ask *note_ride(struct replica *r, const struct replica_effect *effect) {
    if (r->riding != NULL) {
        return replica_head_equal(&r->riding_on, &effect->to) ? r->riding : NULL;
    }
    if (effect->swap_kind != REPLICA_SWAP_APPEND && effect->swap_kind != REPLICA_SWAP_RENEW) {
        return NULL;
    }
    r->riding = effect->repeated ? NULL : replica_ask_next_put(r);
    if (r->riding != NULL) {
        r->riding->under_way = true;
        r->riding_on = effect->to;
    }
    return r->riding;
}

/* After each step: has the swap ended that the note rides on? */
static void note_finish(struct replica *r) {
    const struct replica_owner *o = &r->owner;
    struct replica_ask *note = r->riding;
    bool pending =
        o->swap.kind != REPLICA_SWAP_NONE && replica_head_equal(&o->swap.to, &r->riding_on);
    if (note == NULL || pending) {
        return;
    }
    r->riding = NULL;
    note->under_way = false;
    if (o->role != REPLICA_OWNING) {
        replica_ask_finish(note, TN_LOST);
    } else if (o->head.seq >= r->riding_on.seq) {
        replica_ask_finish(note, TN_OK);
    } /* otherwise it surely was not put, and goes with the next swap */
}

static void swap_send(struct replica *r, const struct replica_effect *effect) {
    uint8_t from[REPLICA_HEAD_BYTES];
    uint8_t to[REPLICA_HEAD_BYTES];
    struct replica_key head_key = replica_key_of(r, "head");
    struct replica_key batch_key = swap_batch_key(r);
    struct replica_key first_key = replica_key_log(r, 0);
    const struct replica_item *item =
        effect->swap_kind == REPLICA_SWAP_APPEND ? r->appending : NULL;
    struct replica_key trim_key = replica_key_log(r, item != NULL ? item->trim : 0);
    const struct replica_ask *note = note_ride(r, effect);
    struct etcd_op puts[4];
    uint32_t count = 0;
    replica_head_encode(&effect->from, from);
    replica_head_encode(&effect->to, to);
    struct etcd_compare compare = {.kind = ETCD_VALUE_IS,
                                   .key = replica_key_bytes(&head_key),
                                   .value = tn_bytes_of(from, sizeof from)};
    if (item != NULL) {
        puts[count++] = (struct etcd_op){.kind = ETCD_PUT,
                                         .keys = {.key = replica_key_bytes(&batch_key)},
                                         .value = tn_bytes_of(item->value, item->len)};
    }
    puts[count++] = (struct etcd_op){.kind = ETCD_PUT,
                                     .keys = {.key = replica_key_bytes(&head_key)},
                                     .value = tn_bytes_of(to, sizeof to)};
    if (item != NULL && item->trim > 0) {
        puts[count++] =
            (struct etcd_op){.kind = ETCD_DELETE,
                             .keys = {replica_key_bytes(&first_key), replica_key_bytes(&trim_key)}};
    }
    if (note != NULL) {
        puts[count++] = (struct etcd_op){
            .kind = ETCD_PUT, .keys = {.key = replica_key_bytes(&note->key)}, .value = note->value};
    }
    struct etcd_txn txn = {
        .compares = &compare, .compare_count = 1, .then = puts, .then_count = count};
    if (!txn_send(r, &txn, effect->number, false)) {
        r->swap_unsent = true;
        r->unsent_number = effect->number;
    }
}

static void read_send(struct replica *r, const struct replica_effect *effect) {
    struct etcd_txn txn = {0};
    if (!txn_send(r, &txn, effect->number, true)) {
        r->read_unsent = true;
        r->unsent_number = effect->number;
    }
}

/* ---- Effects ---- */

static void append_ends(struct replica *r, enum tn_status status) {
    struct replica_item *item = r->appending;
    log_committed *done = r->append_done;
    if (item == NULL) {
        return; /* answered already: it never got as far as the owner's decisions */
    }
    r->appending = NULL;
    if (status == TN_OK) {
        uint64_t last_lsn = item->batch.first_lsn + item->batch.count - 1;
        replica_lock(r);
        r->position.lsn = last_lsn;
        r->position.next_lsn = last_lsn + 1;
        r->position.now_ms = item->batch.now_ms;
        r->chain = item->chain;
        r->chain_known = true;
        replica_unlock(r);
        replica_keep_count(r, last_lsn, item->len);
        replica_keep_trimmed(r, item->trim);
        replica_copy_push(r, item);
    } else {
        free(item);
    }
    done(r->append_ctx, status);
}

/* Ends what the engine may be waiting for. */
static void resign_ends(struct replica *r, enum tn_status status) {
    replica_lock(r);
    if (r->resign_asked && !r->resign_over) {
        r->resign_over = true;
        r->resign_status = status;
        pthread_cond_broadcast(&r->changed);
    }
    replica_unlock(r);
}

void replica_append_refuse(struct replica *r, enum tn_status status) {
    replica_lock(r);
    bool pending = r->asked.pending;
    log_committed *done = r->asked.done;
    void *ctx = r->asked.ctx;
    r->asked.pending = false;
    replica_unlock(r);
    if (pending) {
        done(ctx, status);
    }
}

static void on_lead(struct replica *r, const struct replica_effect *effect) {
    replica_lock(r);
    r->takes = true;
    /* Without either, the wall clock counts: it must not if most other nodes have another one. */
    r->lead_heard = effect->heard || r->keep.skewed;
    r->lead_epoch = effect->to.epoch;
    r->lead_now_ms = effect->to.now_ms;
    r->lead_stamp_ms = effect->to.stamp_ms;
    r->lead_fenced_ms = effect->to.stamp_ms;
    if (effect->from.ttl_ms > effect->to.ttl_ms) { /* guardians of a longer T live longer */
        r->lead_fenced_ms += effect->from.ttl_ms - effect->to.ttl_ms;
    }
    r->position.shard = effect->to.shard;
    r->standing.takeovers++;
    replica_unlock(r);
    replica_keep_lead(r);
    replica_follow_restart(r, 0);
    replica_notice(r, "event=replica_owner epoch=%llu lsn=%llu",
                   (unsigned long long)effect->to.epoch, (unsigned long long)effect->to.lsn);
    replica_leader_tell(r);
}

/* This node has made the newest head, in this life or an earlier one. */
static bool head_is_mine(const struct replica *r) {
    return memcmp(r->owner.head.node, r->owner.options.node, REPLICA_NODE_MAX) == 0;
}

/* The resignation may be one that this node began by itself, before it was asked to close the cluster. */
static void on_follow(struct replica *r) {
    bool resigned = (r->owner.head.flags & REPLICA_RESIGNED) != 0 && head_is_mine(r);
    bool closed = resigned && (r->owner.head.flags & REPLICA_CLOSED) != 0;
    replica_lock(r);
    r->takes = false;
    bool closes = r->resign_closes;
    replica_unlock(r);
    replica_append_refuse(r, TN_LOST);
    r->close_waits = closes && closed;
    if (!r->close_waits) {
        resign_ends(r, resigned && !closes ? TN_OK : TN_LOST);
    }
    replica_notice(r, "event=replica_follower epoch=%llu lsn=%llu",
                   (unsigned long long)r->owner.head.epoch, (unsigned long long)replica_applied(r));
    replica_follow_restart(r, 0);
    replica_leader_tell(r);
}

static void on_refuse(struct replica *r, enum replica_refusal refusal) {
    switch (refusal) {
    case REPLICA_PUT_BACK:
        replica_in_trouble(r, REPLICA_TROUBLE_PUT_BACK, "this node has log position %llu",
                           (unsigned long long)replica_applied(r));
        break;
    case REPLICA_GONE:
        replica_in_trouble(r, REPLICA_TROUBLE_GONE, "prefix %s", r->options.prefix);
        break;
    case REPLICA_DENIED:
        replica_in_trouble(r, REPLICA_TROUBLE_DENIED, "%s", r->denied);
        break;
    }
}

static void effects_do(struct replica *r, const struct replica_effects *effects) {
    for (unsigned i = 0; i < effects->count; i++) {
        const struct replica_effect *effect = &effects->at[i];
        switch (effect->kind) {
        case REPLICA_DO_SWAP:
            swap_send(r, effect);
            break;
        case REPLICA_DO_READ:
            read_send(r, effect);
            break;
        case REPLICA_DO_LEAD:
            on_lead(r, effect);
            break;
        case REPLICA_DO_FOLLOW:
            on_follow(r);
            break;
        case REPLICA_DO_APPENDED:
            append_ends(r, effect->status);
            break;
        case REPLICA_DO_REFUSE:
            on_refuse(r, effect->refusal);
            break;
        }
    }
}

/* ---- Facts ---- */

static void standing_update(struct replica *r) {
    const struct replica_owner *o = &r->owner;
    bool owning = o->role == REPLICA_OWNING;
    uint64_t valid_ms = replica_owner_owns(o, 0) ? o->valid_until_ms : 0;
    atomic_store(&r->valid_until_ms, valid_ms);
    replica_lock(r);
    struct replica_standing *standing = &r->standing;
    standing->part =
        owning ? REPLICA_PART_OWNING
               : (o->role == REPLICA_HALTED ? REPLICA_PART_WAITING : REPLICA_PART_FOLLOWING);
    standing->valid_until_ms = valid_ms;
    if (o->has_head) {
        standing->epoch = o->head.epoch;
        standing->head_lsn = o->head.lsn;
        standing->caught_up = replica_applied(r) >= o->head.lsn;
        memcpy(standing->owner, o->head.node, REPLICA_NODE_MAX);
        standing->stamp_ms = owning ? o->head.stamp_ms : replica_owner_stamp(o);
        if (standing->caught_up && (owning || o->live)) { /* a head that was found may be old */
            r->was_fresh = true;
            r->fresh_ms = standing->stamp_ms < r->now_ms ? standing->stamp_ms : r->now_ms;
        }
    }
    replica_unlock(r);
}

/* A follower judges deadlines by the owner's time, not by the wall clock of its own machine. */
static void time_tell(struct replica *r, const struct replica_fact *fact) {
    bool news = fact->kind == REPLICA_FACT_SEEN || fact->kind == REPLICA_FACT_READ;
    if (news && r->owner.has_head && r->owner.role == REPLICA_FOLLOWING && !r->closing &&
        r->follower->time != NULL) {
        r->follower->time(r->follower->ctx, replica_owner_log_ms(&r->owner, r->now_ms));
    }
}

void replica_tell(struct replica *r, const struct replica_fact *fact) {
    struct replica_effects effects;
    struct replica_nonce nonce;
    if (!r->begun) {
        return;
    }
    uint64_t log_ms = 0;
    if (r->owner.role == REPLICA_OWNING && r->follower->now != NULL) {
        log_ms = r->follower->now(r->follower->ctx);
    }
    replica_nonce_next(r, &nonce);
    replica_owner_step(&r->owner, fact, r->now_ms, log_ms, &nonce, &effects);
    /* First, so that `owned` is never true for longer than the node owns the log. */
    standing_update(r);
    note_finish(r);
    time_tell(r, fact);
    effects_do(r, &effects);
}

void replica_tell_kind(struct replica *r, enum replica_fact_kind kind) {
    struct replica_fact fact = {.kind = kind};
    replica_tell(r, &fact);
}

void replica_tell_applied(struct replica *r) {
    struct replica_fact fact = {
        .kind = REPLICA_FACT_APPLIED, .lsn = replica_applied(r), .chain = r->chain};
    if (r->chain_known) {
        replica_tell(r, &fact);
    }
}

void replica_swap_begin(struct replica *r) {
    struct replica_owner_options options = {.ttl_ms = r->options.leader_ttl_ms,
                                            .doubt_ms = REPLICA_DOUBT_MS,
                                            .state_version = r->options.state_version};
    memcpy(options.node, r->options.node, strlen(r->options.node));
    replica_owner_begin(&r->owner, &options, r->now_ms);
    r->keep.began_ms = r->now_ms;
    replica_bar_update(r);
    r->begun = true;
    replica_tell_applied(r);
}

/* ---- Appends and resignations of the engine ---- */

static void append_begin(struct replica *r, const struct log_batch *batch) {
    const struct replica_head *head = &r->owner.head;
    struct replica_item *item = replica_item_new(REPLICA_BATCH_BYTES + batch->len);
    if (item == NULL) {
        replica_append_refuse(r, TN_NOSPACE);
        return;
    }
    struct replica_stamp stamp = {.state_version = r->options.state_version,
                                  .epoch = head->epoch,
                                  .nonce = head->nonce,
                                  .chain = head->chain};
    item->batch = *batch;
    item->batch.shard = head->shard;
    replica_batch_encode(&item->batch, &stamp, item->value);
    item->batch.payload = item->value + REPLICA_BATCH_BYTES;
    item->chain = replica_chain(head->chain, &item->batch);
    item->epoch = head->epoch;
    item->trim = replica_keep_trim(r);
    replica_lock(r);
    r->append_done = r->asked.done;
    r->append_ctx = r->asked.ctx;
    r->asked.pending = false;
    replica_unlock(r);
    r->appending = item;
    struct replica_fact fact = {
        .kind = REPLICA_FACT_APPEND,
        .append = {.first_lsn = batch->first_lsn,
                   .last_lsn = batch->first_lsn + batch->count - 1,
                   .now_ms = batch->now_ms,
                   .shard = item->batch.shard,
                   .chain = item->chain},
    };
    replica_tell(r, &fact);
}

static void append_turn(struct replica *r) {
    replica_lock(r);
    bool pending = r->asked.pending;
    struct log_batch batch = r->asked.batch;
    replica_unlock(r);
    if (!pending || r->appending != NULL) {
        return;
    }
    if (r->owner.role != REPLICA_OWNING) {
        replica_append_refuse(r, TN_LOST);
    } else if (replica_keep_is_full(r) || replica_copy_disk(r) == REPLICA_DISK_STUCK) {
        replica_append_refuse(r, TN_NOSPACE);
    } else if (replica_copy_room(r)) {
        append_begin(r, &batch);
    }
}

/* The head says that the cluster is closed. The directory says so when the copy is complete. */
static void close_turn(struct replica *r) {
    if (!r->close_waits) {
        return;
    }
    enum tn_status status = replica_copy_status(r);
    bool complete = replica_copy_has(r, r->owner.head.lsn);
    bool stuck = replica_copy_disk(r) == REPLICA_DISK_STUCK;
    if (status == TN_OK && !complete && !stuck) {
        return;
    }
    if (status == TN_OK) {
        status = complete ? replica_copy_save(r, true) : TN_NOSPACE;
    }
    r->close_waits = false;
    resign_ends(r, status);
}

static void resign_turn(struct replica *r) {
    replica_lock(r);
    bool asked = r->resign_asked && !r->resign_over;
    bool closes = r->resign_closes;
    replica_unlock(r);
    if (!asked || r->close_waits || r->owner.resigning ||
        r->owner.swap.kind == REPLICA_SWAP_RESIGN) {
        return;
    }
    if (r->owner.role != REPLICA_OWNING) {
        resign_ends(r, TN_LOST);
        return;
    }
    struct replica_fact fact = {.kind = REPLICA_FACT_RESIGN, .closes = closes};
    replica_tell(r, &fact);
}

static void give_up(struct replica *r) {
    if (r->owner.role == REPLICA_OWNING && !r->owner.resigning &&
        r->owner.swap.kind != REPLICA_SWAP_RESIGN) {
        replica_tell_kind(r, REPLICA_FACT_RESIGN);
    }
}

void replica_bar_update(struct replica *r) {
    replica_owner_bar(&r->owner, r->disk_barred || !r->keep.named);
}

/* An owner whose disk stays full gives the log up to a node that can keep a copy, and does not take it
 * again before its own copy is complete. */
static void disk_turn(struct replica *r) {
    enum replica_disk disk = replica_copy_disk(r);
    if (disk == REPLICA_DISK_FULL || disk == REPLICA_DISK_STUCK) {
        replica_in_trouble(r, REPLICA_TROUBLE_COPY_FULL, "%.150s", r->options.dir);
    }
    if (disk == REPLICA_DISK_STUCK) {
        r->disk_barred = true;
        replica_bar_update(r);
        give_up(r);
    } else if (disk == REPLICA_DISK_DRAINED) {
        r->disk_barred = false;
        replica_bar_update(r);
        replica_trouble_over(r, REPLICA_TROUBLE_COPY_FULL);
    }
}

/* A node in final trouble gives the log up, and does not take it again. */
static void stop_turn(struct replica *r) {
    give_up(r);
    if (r->owner.role == REPLICA_FOLLOWING) {
        replica_owner_halt(&r->owner);
        standing_update(r);
    }
}

void replica_swap_turn(struct replica *r) {
    if (!r->begun) {
        replica_append_refuse(r, TN_LOST);
        resign_ends(r, TN_LOST);
        return;
    }
    if (r->swap_unsent || r->read_unsent) {
        struct replica_fact fact = {.kind =
                                        r->swap_unsent ? REPLICA_FACT_LATER : REPLICA_FACT_UNREAD,
                                    .number = r->unsent_number};
        r->swap_unsent = r->read_unsent = false;
        replica_tell(r, &fact);
    }
    append_turn(r);
    resign_turn(r);
    close_turn(r);
    if (replica_owner_next_ms(&r->owner) <= r->now_ms) {
        replica_tell_kind(r, REPLICA_FACT_TICK);
    }
    disk_turn(r);
    enum tn_status status = replica_copy_status(r);
    if (status != TN_OK && !replica_is_stopped(r)) {
        replica_in_trouble(r, REPLICA_TROUBLE_COPY, "%s", tn_status_text(status));
    }
    if (replica_is_stopped(r)) {
        stop_turn(r);
    }
}

uint64_t replica_swap_next_ms(const struct replica *r) {
    if (!r->begun) {
        return UINT64_MAX;
    }
    return r->swap_unsent || r->read_unsent ? 0 : replica_owner_next_ms(&r->owner);
}

/* ---- Who owns the log, for the follower ---- */

/* Of another node: one that follows is not the owner, whatever the head says. */
static const char *leader_address(struct replica *r) {
    const struct replica_head *head = &r->owner.head;
    if (!r->begun || !r->owner.has_head || (head->flags & REPLICA_RESIGNED) != 0 ||
        head_is_mine(r) || replica_owner_is_silent(&r->owner, r->now_ms)) {
        return "";
    }
    for (unsigned i = 0; i < r->node_count; i++) {
        size_t len = strlen(r->nodes[i].name);
        if (memcmp(r->nodes[i].name, head->node, len) == 0 &&
            (len == REPLICA_NODE_MAX || head->node[len] == 0)) {
            replica_lock(r);
            memcpy(r->standing.leader_http, r->nodes[i].http, sizeof r->nodes[i].http);
            replica_unlock(r);
            return r->nodes[i].address;
        }
    }
    return "";
}

void replica_leader_tell(struct replica *r) {
    bool owned = r->begun && r->owner.role == REPLICA_OWNING;
    const char *leader = owned ? r->options.advertise : leader_address(r);
    if (r->closing) {
        return;
    }
    if (r->ever_told && owned == r->owned_told && strcmp(leader, r->leader_told) == 0) {
        return;
    }
    r->ever_told = true;
    r->owned_told = owned;
    (void)snprintf(r->leader_told, sizeof r->leader_told, "%s", leader);
    replica_lock(r);
    memcpy(r->standing.leader, r->leader_told, sizeof r->standing.leader);
    if (owned) {
        (void)snprintf(r->standing.leader_http, sizeof r->standing.leader_http, "%s",
                       r->options.advertise_http);
    } else if (leader[0] == '\0') {
        r->standing.leader_http[0] = '\0';
    }
    replica_unlock(r);
    r->follower->owner(r->follower->ctx, owned, owned ? "" : r->leader_told);
}
