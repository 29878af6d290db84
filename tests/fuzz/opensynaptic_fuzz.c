/* Any bytes as id_allocation.json: every entry is a lease within its bounds, or has a reason why it
 * is none. */
#include <string.h>

#include "base/assert.h"
#include "cli/opensynaptic.h"
#include "protocol/text.h"
#include "protocol/walk.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void look(struct opensynaptic_entry *entry, const struct opensynaptic_pool *pool,
                 struct tn_bytes key, struct tn_bytes value) {
    for (unsigned derive = 0; derive < 2; derive++) {
        entry->reason[0] = '\0';
        if (!opensynaptic_entry_read(entry, pool, derive == 1, key, value)) {
            TN_ASSERT(entry->result > TN_R_NOOP && entry->reason[0] != '\0');
            continue;
        }
        TN_ASSERT(entry->holder_len > 0 && entry->holder_len <= KERNEL_HOLDER_MAX);
        TN_ASSERT(entry->meta.len <= KERNEL_META_MAX);
        TN_ASSERT(entry->meta.len == 0 ||
                  protocol_json_fault(tn_bytes_of(entry->meta.at, entry->meta.len)) == NULL);
        TN_ASSERT(entry->created_ms <= pool->now_ms + 999 && entry->seen_ms <= pool->now_ms + 999);
        TN_ASSERT(entry->deadline_ms == 0 || entry->deadline_ms > pool->now_ms);
        TN_ASSERT(entry->offline_ms == 0 || entry->offline_ms >= entry->seen_ms);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static struct opensynaptic_entry entry;
    struct opensynaptic_pool pool = {
        .name = "devices", .exists = true, .sticky = true, .lo = 1, .hi = 100};
    struct tn_bytes text = tn_bytes_of(data, size);
    struct tn_bytes key;
    struct tn_bytes value;
    pool.now_ms = UINT64_C(1700000000000);
    pool.identity.fields = size % 7;
    pool.identity.fallback_json = size % 2 == 1;
    if (size == 0 || protocol_json_fault(text) != NULL) {
        return 0;
    }
    struct tn_bytes allocated = opensynaptic_member(text, "allocated");
    if (allocated.len == 0 || protocol_json_kind(allocated) != PROTOCOL_JSON_OBJECT) {
        return 0;
    }
    struct protocol_walk walk = protocol_walk_of(allocated);
    while (protocol_walk_next(&walk, &key, &value)) {
        look(&entry, &pool, key, value);
    }
    return 0;
}
