/* Ids and other small texts from outside: leases, tokens, events, scopes. */
#include <string.h>

#include "protocol/parse.h"

bool protocol_lease_parse(struct tn_bytes text, struct kernel_lease_id *ret_lease) {
    const uint8_t *dash = text.len > 0 ? memchr(text.at, '-', text.len) : NULL;
    if (dash == NULL) {
        return false;
    }
    size_t shard = (size_t)(dash - text.at);
    return kernel_value_parse(KERNEL_DEC, tn_bytes_of(text.at, shard), &ret_lease->shard) &&
           kernel_value_parse(KERNEL_DEC, tn_bytes_of(dash + 1, text.len - shard - 1),
                              &ret_lease->lsn);
}

bool protocol_token_id_parse(struct tn_bytes text, struct kernel_lease_id *ret_lease,
                             uint64_t *ret_epoch) {
    const uint8_t *dot = text.len > 0 ? memchr(text.at, '.', text.len) : NULL;
    size_t len = dot != NULL ? (size_t)(dot - text.at) : 0;
    return dot != NULL && protocol_lease_parse(tn_bytes_of(text.at, len), ret_lease) &&
           kernel_value_parse(KERNEL_DEC, tn_bytes_of(dot + 1, text.len - len - 1), ret_epoch);
}

bool protocol_event_id_parse(struct tn_bytes text, struct protocol_event_id *ret_id) {
    const uint8_t *dot = text.len > 0 ? memchr(text.at, '.', text.len) : NULL;
    size_t len = dot != NULL ? (size_t)(dot - text.at) : text.len;
    uint64_t lsn;
    uint64_t index = UINT32_MAX;
    if (!kernel_value_parse(KERNEL_DEC, tn_bytes_of(text.at, len), &lsn) ||
        (dot != NULL &&
         !kernel_value_parse(KERNEL_DEC, tn_bytes_of(dot + 1, text.len - len - 1), &index)) ||
        index > UINT32_MAX) {
        return false;
    }
    /* Before the first command there was nothing: 0 is the beginning. */
    *ret_id = (struct protocol_event_id){.lsn = lsn, .index = lsn > 0 ? (uint32_t)index : 0};
    return true;
}

bool protocol_scope_fits(struct tn_bytes scope) {
    bool word = false;
    if (scope.len > PROTOCOL_SCOPE_MAX) {
        return false;
    }
    for (uint32_t i = 0; i < scope.len; i++) {
        uint8_t c = scope.at[i];
        if (c == ' ' ? !word : c <= ' ' || c >= 0x7f || c == '"' || c == '\\') {
            return false;
        }
        word = c != ' ';
    }
    return word;
}
