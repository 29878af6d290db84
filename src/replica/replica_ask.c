/* Requests of other threads that need etcd: notes, forgetting a node, and whether the log is ours.
 * The request is on the stack of the thread that waits for it; the log's thread sends it and reports the
 * end.
 *
 * A note is put by a swap of the head, an append or a renewal that is made for it: so only the owner can
 * put one, and what a deposed owner sends late changes nothing. */
#include <stdio.h>
#include <string.h>

#include "base/assert.h"
#include "replica/replica_state.h"

void replica_ask_finish(struct replica_ask *ask, enum tn_status status) {
    struct replica *r = ask->replica;
    replica_lock(r);
    TN_ASSERT(!ask->finished); /* its thread may end at any moment after that */
    for (struct replica_ask **at = &r->asks; *at != NULL; at = &(*at)->next) {
        if (*at == ask) {
            *at = ask->next;
            break;
        }
    }
    ask->status = status;
    ask->finished = true;
    pthread_cond_broadcast(&r->changed);
    replica_unlock(r);
}

static enum tn_status ask_got(struct replica_ask *ask, const struct etcd_answer *answer) {
    if (answer->found.count == 0) {
        return TN_NOTFOUND;
    }
    struct tn_bytes value = answer->found.kvs[0].value;
    if (value.len > ask->max) {
        return TN_INVALID;
    }
    TN_ASSERT(ask->kind == REPLICA_ASK_GET && ask->out != NULL);
    if (value.len > 0) {
        memcpy(ask->out, value.at, value.len);
    }
    ask->len = value.len;
    return TN_OK;
}

static void on_asked(void *ctx, const struct etcd_answer *answer) {
    struct replica_ask *ask = ctx;
    replica_clock(ask->replica);
    ask->under_way = false;
    switch (answer->outcome) {
    case ETCD_DONE:
        replica_ask_finish(ask, ask->kind == REPLICA_ASK_GET ? ask_got(ask, answer) : TN_OK);
        break;
    case ETCD_SURELY_NOT:
        if (answer->reason == ETCD_DENIED) {
            replica_ask_finish(ask, TN_DENIED);
        }
        break;
    default: /* the same again, until its time is up */
        break;
    }
}

static void ask_send(struct replica_ask *ask) {
    struct replica *r = ask->replica;
    struct etcd_keys keys = {.key = replica_key_bytes(&ask->key)};
    struct etcd_request request = {.verb = ETCD_RANGE, .range = {.keys = keys}};
    struct etcd_op delete = {.kind = ETCD_DELETE, .keys = keys};
    if (ask->kind == REPLICA_ASK_DELETE) {
        request =
            (struct etcd_request){.verb = ETCD_TXN, .txn = {.then = &delete, .then_count = 1}};
    }
    uint64_t deadline_ms = r->now_ms + REPLICA_CALL_MS;
    ask->under_way =
        etcd_submit(r->writer, &request, deadline_ms < ask->until_ms ? deadline_ms : ask->until_ms,
                    on_asked, ask) == TN_OK;
}

struct replica_ask *replica_ask_next_put(struct replica *r) {
    replica_lock(r);
    struct replica_ask *ask = r->asks;
    while (ask != NULL && (ask->kind != REPLICA_ASK_PUT || ask->under_way)) {
        ask = ask->next;
    }
    replica_unlock(r);
    return ask;
}

static void ask_turn(struct replica_ask *ask) {
    struct replica *r = ask->replica;
    bool is_put = ask->kind == REPLICA_ASK_PUT;
    if (ask->under_way) {
        return;
    }
    if (is_put && (!r->begun || r->owner.role != REPLICA_OWNING)) {
        replica_ask_finish(ask, TN_LOST);
    } else if (r->now_ms >= ask->until_ms) {
        replica_ask_finish(ask, TN_IO);
    } else if (is_put) {
        replica_tell_kind(r, REPLICA_FACT_RENEW);
    } else {
        ask_send(ask);
    }
}

void replica_ask_turn(struct replica *r) {
    struct replica_ask *next;
    replica_lock(r);
    struct replica_ask *ask = r->asks;
    replica_unlock(r);
    for (; ask != NULL; ask = next) {
        replica_lock(r);
        next = ask->next;
        replica_unlock(r);
        ask_turn(ask);
    }
}

void replica_ask_end(struct replica *r) {
    replica_lock(r);
    struct replica_ask *ask = r->asks;
    replica_unlock(r);
    while (ask != NULL) {
        replica_ask_finish(ask, TN_CLOSED);
        replica_lock(r);
        ask = r->asks;
        replica_unlock(r);
    }
}

static enum tn_status ask_wait(struct replica_ask *ask, uint64_t ms) {
    struct replica *r = ask->replica;
    ask->until_ms = r->os->clock_boot_ms(r->os->ctx) + ms;
    replica_lock(r);
    if (r->stop || !r->has_thread) {
        replica_unlock(r);
        return TN_CLOSED;
    }
    ask->next = r->asks;
    r->asks = ask;
    replica_unlock(r);
    replica_wake(r);
    replica_lock(r);
    while (!ask->finished) {
        pthread_cond_wait(&r->changed, &r->lock);
    }
    replica_unlock(r);
    return ask->status;
}

static bool ask_key(struct replica_ask *ask, const char *kind, const char *name, size_t max) {
    char text[16 + REPLICA_NODE_MAX];
    size_t len = strlen(name);
    if (len == 0 || len > max || strchr(name, '/') != NULL) {
        return false;
    }
    (void)snprintf(text, sizeof text, "%s/%s", kind, name);
    ask->key = replica_key_of(ask->replica, text);
    return true;
}

enum tn_status replica_note_get(struct log *log, const char *name, uint8_t *out, uint32_t room,
                                uint32_t *ret_len) {
    struct replica_ask ask = {.replica = replica_of(log), .kind = REPLICA_ASK_GET, .max = room};
    ask.out = out;
    if (!ask_key(&ask, "note", name, REPLICA_NOTE_NAME_MAX)) {
        return TN_INVALID;
    }
    enum tn_status status = ask_wait(&ask, REPLICA_ASK_MS);
    if (status == TN_OK) {
        *ret_len = (uint32_t)ask.len;
    }
    return status;
}

enum tn_status replica_note_put(struct log *log, const char *name, struct tn_bytes value) {
    struct replica_ask ask = {.replica = replica_of(log), .kind = REPLICA_ASK_PUT, .value = value};
    if (value.len > LOG_NOTE_MAX || !ask_key(&ask, "note", name, REPLICA_NOTE_NAME_MAX)) {
        return TN_INVALID;
    }
    return ask_wait(&ask, REPLICA_ASK_MS);
}

enum tn_status replica_forget(struct log *log, const char *node) {
    struct replica_ask ask = {.replica = replica_of(log), .kind = REPLICA_ASK_DELETE};
    bool known = false;
    if (!ask_key(&ask, "node", node, REPLICA_NODE_MAX)) {
        return TN_INVALID;
    }
    replica_lock(ask.replica);
    for (unsigned i = 0; i < ask.replica->node_count; i++) {
        known = known || strcmp(ask.replica->nodes[i].name, node) == 0;
    }
    replica_unlock(ask.replica);
    return known ? ask_wait(&ask, REPLICA_ASK_MS) : TN_NOTFOUND;
}

/* The epoch of this lead; false: there is none. */
static bool lead_epoch(struct replica *r, uint64_t *ret_epoch) {
    replica_lock(r);
    bool leads = r->takes;
    *ret_epoch = r->lead_epoch;
    replica_unlock(r);
    return leads;
}

/* No other node has taken the log over while the head has our epoch. */
bool replica_confirm(struct log *log) {
    struct replica *r = replica_of(log);
    uint8_t value[REPLICA_HEAD_BYTES];
    struct replica_head head;
    struct replica_ask ask = {.replica = r,
                              .kind = REPLICA_ASK_GET,
                              .key = replica_key_of(r, "head"),
                              .out = value,
                              .max = sizeof value};
    uint64_t before = 0;
    uint64_t after = 0;
    return lead_epoch(r, &before) && ask_wait(&ask, REPLICA_CALL_MS) == TN_OK &&
           replica_head_decode(tn_bytes_of(value, ask.len), &head) == TN_OK &&
           head.epoch == before && (head.flags & REPLICA_RESIGNED) == 0 && lead_epoch(r, &after) &&
           after == before;
}
