/* What event_search.h promises. */
#include "server/event_search.h"

#include "base/assert.h"

static uint8_t lower(uint8_t byte) {
    return byte >= 'A' && byte <= 'Z' ? (uint8_t)(byte + 'a' - 'A') : byte;
}

/* How many bytes of the text match after one more byte, if `matched` of them matched before it. */
static uint32_t step(const struct server_search *search, uint32_t matched, uint8_t byte) {
    TN_ASSERT(matched < KERNEL_NOTE_MAX);
    while (search->part[matched] != byte && matched > 0) {
        matched = search->again[matched - 1];
    }
    return matched + (search->part[matched] == byte);
}

void server_search_set(struct server_search *search, struct tn_bytes part) {
    TN_ASSERT(part.len <= KERNEL_NOTE_MAX);
    search->len = part.len;
    search->looked = 0;
    for (uint32_t i = 0; i < part.len; i++) {
        search->part[i] = lower(part.at[i]);
    }
    uint32_t matched = 0;
    for (uint32_t i = 0; i < part.len; i++) {
        matched = i > 0 ? step(search, matched, search->part[i]) : 0;
        search->again[i] = (uint16_t)matched;
    }
}

bool server_search_in(struct server_search *search, struct tn_bytes whole) {
    uint32_t matched = 0;
    search->looked += whole.len;
    for (uint32_t i = 0; i < whole.len && matched < search->len; i++) {
        matched = step(search, matched, lower(whole.at[i]));
    }
    return matched == search->len;
}
