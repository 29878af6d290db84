/* The payload of a batch: its commands, each { uint32 length; bytes }. Only this file knows these bytes;
 * the log stores them as they are (log/log.h), and kernel/command.h has the bytes of a command. */
#ifndef TN_ENGINE_PAYLOAD_H
#define TN_ENGINE_PAYLOAD_H

#include "base/assert.h"
#include "log/log.h"

/* What a command takes in a payload beside its own bytes. */
#define ENGINE_PAYLOAD_HEAD_BYTES ((uint32_t)sizeof(uint32_t))

/* Writes the head of a command of `len` bytes, and returns the place for these. */
static inline uint8_t *engine_payload_put(uint8_t *at, uint32_t len) {
    tn_store32(at, len);
    return at + ENGINE_PAYLOAD_HEAD_BYTES;
}

/* Walks the commands of a payload. */
struct engine_payload {
    const uint8_t *at;
    const uint8_t *end;
};

static inline struct engine_payload engine_payload_of(const uint8_t *bytes, uint32_t len) {
    return (struct engine_payload){.at = bytes, .end = bytes + len};
}

/* The next command; false: there is no whole one. */
static inline bool engine_payload_read(struct engine_payload *payload,
                                       struct tn_bytes *ret_command) {
    size_t left = (size_t)(payload->end - payload->at);
    if (left < ENGINE_PAYLOAD_HEAD_BYTES ||
        tn_load32(payload->at) > left - ENGINE_PAYLOAD_HEAD_BYTES) {
        return false;
    }
    *ret_command = (struct tn_bytes){.at = payload->at + ENGINE_PAYLOAD_HEAD_BYTES,
                                     .len = tn_load32(payload->at)};
    payload->at = ret_command->at + ret_command->len;
    return true;
}

/* The next command of a payload that we wrote or have checked. */
static inline struct tn_bytes engine_payload_next(struct engine_payload *payload) {
    struct tn_bytes command = {.at = NULL};
    bool is_whole = engine_payload_read(payload, &command);
    TN_ASSERT(is_whole);
    return command;
}

/* Whether the payload of a batch is as many commands as the batch says, and nothing else. */
bool engine_payload_is_whole(const struct log_batch *batch);

#endif
