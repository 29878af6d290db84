/* What payload.h promises. */
#include "engine/payload.h"

bool engine_payload_is_whole(const struct log_batch *batch) {
    struct engine_payload payload = engine_payload_of(batch->payload, batch->len);
    struct tn_bytes command;
    for (uint32_t i = 0; i < batch->count; i++) {
        if (!engine_payload_read(&payload, &command) || command.len == 0) {
            return false;
        }
    }
    return payload.at == payload.end && batch->count > 0;
}
