/* Requests to bytes. message_read.c is the other direction. */
#include "etcd/message.h"

#include <stdlib.h>
#include <string.h>
#include <wire.pb-c.h>

#include "base/assert.h"
#include "etcd/grpc_frame.h"

/* Memory that a large request has left behind is not kept for the small ones after it. */
#define BUFFER_KEPT ((size_t)4 << 20)

void etcd_buffer_free(struct etcd_buffer *buffer) {
    free(buffer->at);
    *buffer = (struct etcd_buffer){0};
}

static bool buffer_reserve(struct etcd_buffer *buffer, size_t bytes) {
    bool wasteful = buffer->capacity > BUFFER_KEPT && bytes <= BUFFER_KEPT;
    if (bytes <= buffer->capacity && !wasteful) {
        return true;
    }
    size_t capacity = bytes < 1024 ? 1024 : bytes;
    uint8_t *at = realloc(buffer->at, capacity);
    if (at == NULL) {
        return false;
    }
    buffer->at = at;
    buffer->capacity = capacity;
    return true;
}

static enum tn_status pack(struct etcd_buffer *out, size_t max, const ProtobufCMessage *message) {
    size_t len = protobuf_c_message_get_packed_size(message);
    if (len > max || len > UINT32_MAX) {
        return TN_INVALID;
    }
    if (!buffer_reserve(out, ETCD_FRAME_PREFIX + len)) {
        return TN_NOMEM;
    }
    etcd_frame_prefix(out->at, (uint32_t)len);
    size_t packed = protobuf_c_message_pack(message, out->at + ETCD_FRAME_PREFIX);
    TN_ASSERT(packed == len);
    out->len = ETCD_FRAME_PREFIX + len;
    return TN_OK;
}

/* The library does not change what it packs. */
static ProtobufCBinaryData binary(struct tn_bytes bytes) {
    return (ProtobufCBinaryData){.len = bytes.len, .data = (uint8_t *)(uintptr_t)bytes.at};
}

/* ---- Transactions ---- */

struct wire_op {
    EtcdWire__RequestOp op;
    union {
        EtcdWire__RangeRequest range;
        EtcdWire__PutRequest put;
        EtcdWire__DeleteRequest delete_range;
    };
};

static void compare_fill(EtcdWire__Compare *wire, const struct etcd_compare *compare) {
    enum { TARGET_VERSION = 0, TARGET_VALUE = 3 };
    etcd_wire__compare__init(wire);
    wire->key = binary(compare->key);
    if (compare->kind == ETCD_VALUE_IS) {
        wire->target = TARGET_VALUE;
        wire->operand_case = ETCD_WIRE__COMPARE__OPERAND_VALUE;
        wire->value = binary(compare->value);
    } else { /* the version of a key that does not exist is 0 */
        wire->target = TARGET_VERSION;
        wire->operand_case = ETCD_WIRE__COMPARE__OPERAND_VERSION;
        wire->version = 0;
    }
}

static void op_fill(struct wire_op *wire, const struct etcd_op *op) {
    etcd_wire__request_op__init(&wire->op);
    switch (op->kind) {
    case ETCD_PUT:
        TN_ASSERT(op->keys.end.len == 0);
        etcd_wire__put_request__init(&wire->put);
        wire->put.key = binary(op->keys.key);
        wire->put.value = binary(op->value);
        wire->op.request_case = ETCD_WIRE__REQUEST_OP__REQUEST_PUT;
        wire->op.put = &wire->put;
        break;
    case ETCD_GET:
        etcd_wire__range_request__init(&wire->range);
        wire->range.key = binary(op->keys.key);
        wire->range.range_end = binary(op->keys.end);
        wire->range.limit = op->limit;
        wire->op.request_case = ETCD_WIRE__REQUEST_OP__REQUEST_RANGE;
        wire->op.range = &wire->range;
        break;
    case ETCD_DELETE:
        etcd_wire__delete_request__init(&wire->delete_range);
        wire->delete_range.key = binary(op->keys.key);
        wire->delete_range.range_end = binary(op->keys.end);
        wire->op.request_case = ETCD_WIRE__REQUEST_OP__REQUEST_DELETE_RANGE;
        wire->op.delete_range = &wire->delete_range;
        break;
    }
}

static bool branch_fill(struct etcd_arena *arena, const struct etcd_op *ops, uint32_t count,
                        EtcdWire__RequestOp ***ret_ops) {
    struct wire_op *wires = etcd_arena_array(arena, count, sizeof *wires);
    EtcdWire__RequestOp **pointers = etcd_arena_array(arena, count, sizeof(EtcdWire__RequestOp *));
    if (wires == NULL || pointers == NULL) {
        return false;
    }
    for (uint32_t i = 0; i < count; i++) {
        op_fill(&wires[i], &ops[i]);
        pointers[i] = &wires[i].op;
    }
    *ret_ops = pointers;
    return true;
}

static bool compares_fill(struct etcd_arena *arena, const struct etcd_txn *txn,
                          EtcdWire__Compare ***ret_compares) {
    uint32_t count = txn->compare_count;
    EtcdWire__Compare *wires = etcd_arena_array(arena, count, sizeof *wires);
    EtcdWire__Compare **pointers = etcd_arena_array(arena, count, sizeof(EtcdWire__Compare *));
    if (wires == NULL || pointers == NULL) {
        return false;
    }
    for (uint32_t i = 0; i < count; i++) {
        compare_fill(&wires[i], &txn->compares[i]);
        pointers[i] = &wires[i];
    }
    *ret_compares = pointers;
    return true;
}

static enum tn_status pack_txn(struct etcd_buffer *out, struct etcd_arena *arena, size_t max,
                               const struct etcd_txn *txn) {
    TN_ASSERT(txn->compare_count <= ETCD_COMPARES_MAX);
    TN_ASSERT(txn->then_count <= ETCD_OPS_MAX && txn->otherwise_count <= ETCD_OPS_MAX);
    EtcdWire__TxnRequest wire = ETCD_WIRE__TXN_REQUEST__INIT;
    wire.n_compare = txn->compare_count;
    wire.n_success = txn->then_count;
    wire.n_failure = txn->otherwise_count;
    if (!compares_fill(arena, txn, &wire.compare) ||
        !branch_fill(arena, txn->then, txn->then_count, &wire.success) ||
        !branch_fill(arena, txn->otherwise, txn->otherwise_count, &wire.failure)) {
        return TN_NOMEM;
    }
    return pack(out, max, &wire.base);
}

/* ---- The others ---- */

static enum tn_status pack_range(struct etcd_buffer *out, size_t max,
                                 const struct etcd_range *range) {
    EtcdWire__RangeRequest wire = ETCD_WIRE__RANGE_REQUEST__INIT;
    wire.key = binary(range->keys.key);
    wire.range_end = binary(range->keys.end);
    wire.limit = range->limit;
    wire.revision = range->revision;
    wire.serializable = range->serializable;
    wire.keys_only = range->keys_only;
    return pack(out, max, &wire.base);
}

enum tn_status etcd_message_request(struct etcd_buffer *out, struct etcd_arena *arena, size_t max,
                                    const struct etcd_request *request) {
    etcd_arena_reset(arena);
    switch (request->verb) {
    case ETCD_TXN:
        return pack_txn(out, arena, max, &request->txn);
    case ETCD_RANGE:
        return pack_range(out, max, &request->range);
    case ETCD_COMPACT: {
        EtcdWire__CompactRequest wire = ETCD_WIRE__COMPACT_REQUEST__INIT;
        wire.revision = request->revision;
        return pack(out, max, &wire.base);
    }
    case ETCD_STATUS: {
        EtcdWire__StatusRequest wire = ETCD_WIRE__STATUS_REQUEST__INIT;
        return pack(out, max, &wire.base);
    }
    }
    TN_ASSERT(false);
    return TN_INVALID;
}

enum tn_status etcd_message_watch(struct etcd_buffer *out, size_t max,
                                  const struct etcd_watch_options *options) {
    EtcdWire__WatchCreate create = ETCD_WIRE__WATCH_CREATE__INIT;
    EtcdWire__WatchRequest wire = ETCD_WIRE__WATCH_REQUEST__INIT;
    create.key = binary(options->keys.key);
    create.range_end = binary(options->keys.end);
    create.start_revision = options->start_revision;
    create.fragment = true;
    wire.request_case = ETCD_WIRE__WATCH_REQUEST__REQUEST_CREATE;
    wire.create = &create;
    return pack(out, max, &wire.base);
}

enum tn_status etcd_message_progress(struct etcd_buffer *out) {
    EtcdWire__WatchProgress progress = ETCD_WIRE__WATCH_PROGRESS__INIT;
    EtcdWire__WatchRequest wire = ETCD_WIRE__WATCH_REQUEST__INIT;
    wire.request_case = ETCD_WIRE__WATCH_REQUEST__REQUEST_PROGRESS;
    wire.progress = &progress;
    return pack(out, SIZE_MAX, &wire.base);
}

enum tn_status etcd_message_log_in(struct etcd_buffer *out, const char *user,
                                   const char *password) {
    EtcdWire__AuthenticateRequest wire = ETCD_WIRE__AUTHENTICATE_REQUEST__INIT;
    wire.name = (char *)(uintptr_t)user;
    wire.password = (char *)(uintptr_t)password;
    return pack(out, SIZE_MAX, &wire.base);
}

const char *etcd_message_path(enum etcd_verb verb) {
    static const char *const paths[] = {
        [ETCD_TXN] = "/etcdserverpb.KV/Txn",
        [ETCD_RANGE] = "/etcdserverpb.KV/Range",
        [ETCD_COMPACT] = "/etcdserverpb.KV/Compact",
        [ETCD_STATUS] = "/etcdserverpb.Maintenance/Status",
    };
    TN_ASSERT((size_t)verb < sizeof paths / sizeof paths[0]);
    return paths[verb];
}
