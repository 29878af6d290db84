/* Any bytes as a datagram of a node: every accepted request is within its bounds, lies inside the
 * datagram, and has a holder or a reason for having none. */
#include <string.h>

#include "base/assert.h"
#include "kernel/types.h"
#include "protocol/datagram.h"
#include "protocol/detail.h"
#include "protocol/identity.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct protocol_udp_request request;
    char detail[PROTOCOL_DETAIL] = "";
    char operation[PROTOCOL_UDP_OPERATION];
    struct protocol_identity_key key;
    struct tn_bytes datagram = tn_bytes_of(data, size);
    enum protocol_udp parsed = protocol_udp_parse(datagram, &request, detail);
    if (parsed != PROTOCOL_UDP_OK) {
        TN_ASSERT((parsed == PROTOCOL_UDP_BAD) == (detail[0] != '\0'));
        return 0;
    }
    TN_ASSERT(request.count >= 1 && request.count <= PROTOCOL_UDP_COUNT_MAX);
    TN_ASSERT(request.reply_len <= PROTOCOL_UDP_REPLY_MAX);
    TN_ASSERT(request.meta.at >= data && request.meta.at + request.meta.len <= data + size);
    TN_ASSERT(request.meta.len >= 2 && request.meta.len <= KERNEL_META_MAX);
    protocol_udp_operation(datagram, datagram, operation);
    TN_ASSERT(strlen(operation) == PROTOCOL_UDP_OPERATION - 1);
    for (unsigned fallback = 0; fallback < 2; fallback++) {
        struct kernel_identity identity = {.fallback_json = fallback == 1};
        enum tn_result code = protocol_identity_derive(request.meta, &identity, &key, detail);
        TN_ASSERT(code != TN_R_OK ? detail[0] != '\0'
                                  : key.len > 0 && key.len <= KERNEL_HOLDER_MAX &&
                                        key.raw_len <= KERNEL_HOLDER_MAX);
    }
    return 0;
}
