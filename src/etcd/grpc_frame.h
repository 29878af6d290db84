/* gRPC's framing of messages inside a stream of HTTP/2: a byte that says whether the message is
 * compressed (we never ask for it, so 1 is a fault), its length as 32 bits, big-endian, the message.
 *
 * The assembler takes bytes as they come, in pieces of any size, and holds one message at a time. */
#ifndef TN_ETCD_GRPC_FRAME_H
#define TN_ETCD_GRPC_FRAME_H

#include <stddef.h>
#include <stdint.h>

#include "base/bytes.h"

#define ETCD_FRAME_PREFIX 5u

enum etcd_frame_state {
    ETCD_FRAME_MORE,       /* the message is incomplete, or has not begun */
    ETCD_FRAME_WHOLE,      /* the message is complete: use it, then call etcd_frame_next */
    ETCD_FRAME_TOO_LARGE,  /* final, as are those below */
    ETCD_FRAME_COMPRESSED, /* or no frame of gRPC at all */
    ETCD_FRAME_NOMEM,
};

struct etcd_frame {
    enum etcd_frame_state state;
    uint32_t max; /* the largest message that is taken */
    uint8_t prefix[ETCD_FRAME_PREFIX];
    uint32_t prefix_len;
    uint32_t len;  /* from the prefix */
    uint32_t have; /* of it */
    /* Size of `at`; it grows with what has arrived, not with what is announced. */
    uint32_t capacity;
    uint8_t *at;
};

/* Keeps the memory of an earlier frame. Before the first call, the struct must be zero. */
void etcd_frame_init(struct etcd_frame *frame, uint32_t max);
void etcd_frame_free(struct etcd_frame *frame);

/* Takes bytes up to the end of the message; returns how many. Takes none unless the state is MORE. */
size_t etcd_frame_feed(struct etcd_frame *frame, const uint8_t *bytes, size_t len);

/* After ETCD_FRAME_WHOLE: borrowed until etcd_frame_next. */
struct tn_bytes etcd_frame_message(const struct etcd_frame *frame);
void etcd_frame_next(struct etcd_frame *frame);

/* True if nothing of a message has come since the last whole one. */
static inline bool etcd_frame_is_between(const struct etcd_frame *frame) {
    return frame->state == ETCD_FRAME_MORE && frame->prefix_len == 0;
}

void etcd_frame_prefix(uint8_t out[ETCD_FRAME_PREFIX], uint32_t len);

#endif
