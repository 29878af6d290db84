/* Bytes to answers. All memory comes from the arena, the library's too. */
#include <string.h>
#include <wire.pb-c.h>

#include "etcd/message.h"

static void *take(void *ctx, size_t bytes) {
    return etcd_arena_take(ctx, bytes);
}

static void leave(void *ctx, void *at) {
    (void)ctx;
    (void)at; /* the arena gives everything back at once */
}

/* The message, or NULL. Nothing of it must be freed. */
static void *unpack(struct etcd_arena *arena, const ProtobufCMessageDescriptor *descriptor,
                    struct tn_bytes bytes) {
    static const uint8_t nothing[1];
    ProtobufCAllocator allocator = {.alloc = take, .free = leave, .allocator_data = arena};
    etcd_arena_reset(arena);
    return protobuf_c_message_unpack(descriptor, &allocator, bytes.len,
                                     bytes.len > 0 ? bytes.at : nothing);
}

static struct tn_bytes bytes_of(ProtobufCBinaryData data) {
    return tn_bytes_of(data.data, data.len);
}

static bool header_fill(struct etcd_header *out, const EtcdWire__Header *wire) {
    if (wire == NULL) {
        return false;
    }
    *out = (struct etcd_header){
        .cluster_id = wire->cluster_id,
        .member_id = wire->member_id,
        .revision = wire->revision,
        .raft_term = wire->raft_term,
    };
    return true;
}

static struct etcd_kv kv_of(const EtcdWire__KeyValue *wire) {
    return (struct etcd_kv){
        .key = bytes_of(wire->key),
        .value = bytes_of(wire->value),
        .create_revision = wire->create_revision,
        .mod_revision = wire->mod_revision,
        .version = wire->version,
    };
}

static bool found_fill(struct etcd_found *out, struct etcd_arena *arena,
                       const EtcdWire__RangeResponse *wire) {
    struct etcd_kv *kvs = etcd_arena_array(arena, wire->n_kvs, sizeof *kvs);
    if (kvs == NULL || wire->n_kvs > UINT32_MAX) {
        return false;
    }
    for (size_t i = 0; i < wire->n_kvs; i++) {
        kvs[i] = kv_of(wire->kvs[i]);
    }
    *out = (struct etcd_found){
        .kvs = kvs,
        .count = (uint32_t)wire->n_kvs,
        .more = wire->more != 0,
        .total = wire->count,
    };
    return true;
}

static bool op_fill(struct etcd_op_answer *out, struct etcd_arena *arena,
                    const EtcdWire__ResponseOp *wire) {
    switch (wire->response_case) {
    case ETCD_WIRE__RESPONSE_OP__RESPONSE_RANGE:
        out->kind = ETCD_GET;
        return found_fill(&out->found, arena, wire->range);
    case ETCD_WIRE__RESPONSE_OP__RESPONSE_PUT:
        out->kind = ETCD_PUT;
        return true;
    case ETCD_WIRE__RESPONSE_OP__RESPONSE_DELETE_RANGE:
        out->kind = ETCD_DELETE;
        out->deleted = wire->delete_range->deleted;
        return true;
    default:
        return false;
    }
}

static bool read_txn(struct etcd_answer *answer, struct etcd_arena *arena, struct tn_bytes bytes) {
    const EtcdWire__TxnResponse *wire = unpack(arena, &etcd_wire__txn_response__descriptor, bytes);
    if (wire == NULL || !header_fill(&answer->header, wire->header) ||
        wire->n_responses > ETCD_OPS_MAX) {
        return false;
    }
    struct etcd_op_answer *ops = etcd_arena_array(arena, wire->n_responses, sizeof *ops);
    if (ops == NULL) {
        return false;
    }
    for (size_t i = 0; i < wire->n_responses; i++) {
        if (!op_fill(&ops[i], arena, wire->responses[i])) {
            return false;
        }
    }
    answer->outcome = wire->succeeded ? ETCD_DONE : ETCD_COMPARE_FAILED;
    answer->ops = ops;
    answer->op_count = (uint32_t)wire->n_responses;
    return true;
}

static bool read_range(struct etcd_answer *answer, struct etcd_arena *arena,
                       struct tn_bytes bytes) {
    const EtcdWire__RangeResponse *wire =
        unpack(arena, &etcd_wire__range_response__descriptor, bytes);
    return wire != NULL && header_fill(&answer->header, wire->header) &&
           found_fill(&answer->found, arena, wire);
}

static bool read_status(struct etcd_answer *answer, struct etcd_arena *arena,
                        struct tn_bytes bytes) {
    const EtcdWire__StatusResponse *wire =
        unpack(arena, &etcd_wire__status_response__descriptor, bytes);
    if (wire == NULL || !header_fill(&answer->header, wire->header)) {
        return false;
    }
    answer->status = (struct etcd_status){
        .version = tn_bytes_of(wire->version, strlen(wire->version)),
        .db_bytes = wire->db_size,
        .db_bytes_used = wire->db_size_in_use,
        .leader = wire->leader,
        .raft_index = wire->raft_index,
        .learner = wire->is_learner != 0,
    };
    return true;
}

bool etcd_message_answer(struct etcd_answer *answer, struct etcd_arena *arena, enum etcd_verb verb,
                         struct tn_bytes bytes) {
    answer->outcome = ETCD_DONE;
    switch (verb) {
    case ETCD_TXN:
        return read_txn(answer, arena, bytes);
    case ETCD_RANGE:
        return read_range(answer, arena, bytes);
    case ETCD_COMPACT: {
        const EtcdWire__CompactResponse *wire =
            unpack(arena, &etcd_wire__compact_response__descriptor, bytes);
        return wire != NULL && header_fill(&answer->header, wire->header);
    }
    case ETCD_STATUS:
        return read_status(answer, arena, bytes);
    }
    return false;
}

static bool changes_fill(struct etcd_news *news, struct etcd_arena *arena,
                         const EtcdWire__WatchResponse *wire) {
    struct etcd_change *changes = etcd_arena_array(arena, wire->n_events, sizeof *changes);
    if (changes == NULL || wire->n_events > UINT32_MAX) {
        return false;
    }
    for (size_t i = 0; i < wire->n_events; i++) {
        const EtcdWire__Event *event = wire->events[i];
        if (event->kv == NULL || event->type < 0 || event->type > 1) {
            return false;
        }
        changes[i] = (struct etcd_change){.deleted = event->type == 1, .kv = kv_of(event->kv)};
    }
    news->changes = changes;
    news->change_count = (uint32_t)wire->n_events;
    news->partial = wire->fragment != 0;
    return true;
}

bool etcd_message_news(struct etcd_news *news, struct etcd_arena *arena, struct tn_bytes bytes) {
    const EtcdWire__WatchResponse *wire =
        unpack(arena, &etcd_wire__watch_response__descriptor, bytes);
    *news = (struct etcd_news){.message = ""};
    if (wire == NULL || !header_fill(&news->header, wire->header)) {
        return false;
    }
    if (wire->canceled) { /* a refused creation is also called created */
        news->kind = ETCD_WATCH_ENDED;
        news->compact_revision = wire->compact_revision;
        news->message = wire->cancel_reason;
        return true;
    }
    if (wire->created) {
        news->kind = ETCD_WATCH_CREATED;
        return wire->n_events == 0;
    }
    news->kind = wire->n_events > 0 ? ETCD_WATCH_CHANGES : ETCD_WATCH_PROGRESS;
    return changes_fill(news, arena, wire);
}

const char *etcd_message_token(struct etcd_arena *arena, struct tn_bytes bytes) {
    const EtcdWire__AuthenticateResponse *wire =
        unpack(arena, &etcd_wire__authenticate_response__descriptor, bytes);
    return wire != NULL && wire->token[0] != '\0' ? wire->token : NULL;
}
