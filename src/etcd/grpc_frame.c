#include "etcd/grpc_frame.h"

#include <stdlib.h>
#include <string.h>

#include "base/assert.h"

/* Memory that a large message has left behind is not kept for the small ones after it. */
#define FRAME_KEPT (4u << 20)

void etcd_frame_init(struct etcd_frame *frame, uint32_t max) {
    uint8_t *at = frame->at;
    uint32_t capacity = frame->capacity;
    if (capacity > FRAME_KEPT) {
        free(at);
        at = NULL;
        capacity = 0;
    }
    *frame = (struct etcd_frame){.max = max, .at = at, .capacity = capacity};
}

void etcd_frame_free(struct etcd_frame *frame) {
    free(frame->at);
    *frame = (struct etcd_frame){0};
}

static bool frame_reserve(struct etcd_frame *frame, uint32_t bytes) {
    if (bytes <= frame->capacity) {
        return true;
    }
    uint64_t capacity = frame->capacity < 4096 ? 4096 : (uint64_t)frame->capacity * 2;
    if (capacity < bytes) {
        capacity = bytes;
    }
    if (capacity > frame->max) {
        capacity = frame->max;
    }
    uint8_t *at = realloc(frame->at, capacity);
    if (at == NULL) {
        frame->state = ETCD_FRAME_NOMEM;
        return false;
    }
    frame->at = at;
    frame->capacity = (uint32_t)capacity;
    return true;
}

static void frame_begin(struct etcd_frame *frame) {
    const uint8_t *p = frame->prefix;
    frame->len = (uint32_t)p[1] << 24 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 8 | p[4];
    if (p[0] != 0) {
        frame->state = ETCD_FRAME_COMPRESSED;
    } else if (frame->len > frame->max) {
        frame->state = ETCD_FRAME_TOO_LARGE;
    } else if (frame->len == 0) {
        frame->state = ETCD_FRAME_WHOLE;
    }
}

size_t etcd_frame_feed(struct etcd_frame *frame, const uint8_t *bytes, size_t len) {
    size_t taken = 0;
    while (taken < len && frame->state == ETCD_FRAME_MORE) {
        if (frame->prefix_len < ETCD_FRAME_PREFIX) {
            frame->prefix[frame->prefix_len++] = bytes[taken++];
            if (frame->prefix_len == ETCD_FRAME_PREFIX) {
                frame_begin(frame);
            }
            continue;
        }
        uint32_t want = frame->len - frame->have;
        uint32_t piece = len - taken < want ? (uint32_t)(len - taken) : want;
        if (!frame_reserve(frame, frame->have + piece)) {
            break;
        }
        memcpy(frame->at + frame->have, bytes + taken, piece);
        frame->have += piece;
        taken += piece;
        if (frame->have == frame->len) {
            frame->state = ETCD_FRAME_WHOLE;
        }
    }
    return taken;
}

struct tn_bytes etcd_frame_message(const struct etcd_frame *frame) {
    TN_ASSERT(frame->state == ETCD_FRAME_WHOLE);
    return tn_bytes_of(frame->at, frame->len);
}

void etcd_frame_next(struct etcd_frame *frame) {
    TN_ASSERT(frame->state == ETCD_FRAME_WHOLE);
    frame->state = ETCD_FRAME_MORE;
    frame->prefix_len = frame->len = frame->have = 0;
}

void etcd_frame_prefix(uint8_t out[ETCD_FRAME_PREFIX], uint32_t len) {
    out[0] = 0;
    out[1] = (uint8_t)(len >> 24);
    out[2] = (uint8_t)(len >> 16);
    out[3] = (uint8_t)(len >> 8);
    out[4] = (uint8_t)len;
}
