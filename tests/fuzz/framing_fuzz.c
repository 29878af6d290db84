/* Any bytes as the input of an HTTP connection: the framing has the same result however the bytes
 * are split, and reads nothing after a fault. */
#include <string.h>

#include "base/assert.h"
#include "protocol/framing.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct protocol_framing whole = {0};
    struct protocol_framing parts = {0};
    size_t good = protocol_framing_feed(&whole, data, size);
    size_t at = 0;
    size_t step = 1 + (size > 0 ? data[0] % 7u : 0);
    while (at < size) {
        size_t len = step < size - at ? step : size - at;
        size_t taken = protocol_framing_feed(&parts, data + at, len);
        at += taken;
        if (taken < len) {
            break;
        }
    }
    TN_ASSERT(at == good && parts.fault == whole.fault);
    TN_ASSERT(parts.requests == whole.requests && parts.heads == whole.heads);
    TN_ASSERT((good < size) == (whole.fault != PROTOCOL_FRAMING_GOOD) && whole.heads <= good);
    TN_ASSERT(whole.head_cost <= PROTOCOL_HEAD_MAX + PROTOCOL_FIELD_COST);
    if (whole.fault != PROTOCOL_FRAMING_GOOD) {
        TN_ASSERT(protocol_framing_feed(&whole, data, size) == 0);
    }
    return 0;
}
