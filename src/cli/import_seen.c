/* Which line had a value first: a hash of pool and value to the line, and in a dry run to its
 * holder. A collision of two hashes is extremely unlikely and only makes a report name a wrong
 * line. */
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "cli/import.h"

static bool grow(struct import_seen *seen) {
    uint64_t capacity = seen->capacity == 0 ? 1024 : 2 * seen->capacity;
    struct import_sight *at = calloc(capacity, sizeof *at);
    if (at == NULL) {
        return false;
    }
    for (uint64_t i = 0; i < seen->capacity; i++) {
        uint64_t slot = seen->at[i].hash & (capacity - 1);
        while (seen->at[i].line != 0 && at[slot].line != 0) {
            slot = (slot + 1) & (capacity - 1);
        }
        if (seen->at[i].line != 0) {
            at[slot] = seen->at[i];
        }
    }
    free(seen->at);
    seen->at = at;
    seen->capacity = capacity;
    return true;
}

/* The entry, or an empty one with line 0. NULL: no room. */
static struct import_sight *sight(struct import_seen *seen, uint64_t hash) {
    if (2 * seen->count >= seen->capacity && (seen->count >= IMPORT_SEEN_MAX || !grow(seen))) {
        return NULL;
    }
    uint64_t slot = hash & (seen->capacity - 1);
    while (seen->at[slot].line != 0 && seen->at[slot].hash != hash) {
        slot = (slot + 1) & (seen->capacity - 1);
    }
    return &seen->at[slot];
}

uint64_t import_seen_line(struct import_seen *seen, const struct import_row *row,
                          struct tn_bytes *ret_owner) {
    uint64_t hash = tn_hash64(row->pool.at, row->pool.len, 1);
    hash = row->number != 0 ? tn_hash64(&row->number, sizeof row->number, hash)
                            : tn_hash64(row->value.at, row->value.len, hash);
    struct import_sight *at = sight(seen, hash);
    *ret_owner = tn_bytes_of("", 0);
    if (at == NULL) {
        return 0;
    }
    if (at->line != 0) {
        if (at->owner != 0) {
            const char *owner = seen->owners.at + at->owner - 1;
            *ret_owner = tn_bytes_of(owner, strlen(owner));
        }
        return at->line;
    }
    *at = (struct import_sight){.hash = hash, .line = row->line};
    seen->count++;
    if (seen->keep_owners) {
        at->owner = seen->owners.len + 1;
        cli_text_add(&seen->owners, row->holder.at, row->holder.len + 1);
        at->owner = seen->owners.failed ? 0 : at->owner;
    }
    return 0;
}

uint64_t import_seen_holder(struct import_seen *seen, const struct import_row *row) {
    uint64_t hash = tn_hash64(row->holder.at, row->holder.len, 2);
    hash = tn_hash64(row->pool.at, row->pool.len, hash);
    struct import_sight *at = sight(seen, hash);
    if (at == NULL || at->line != 0) {
        return at != NULL ? at->line : 0;
    }
    *at = (struct import_sight){.hash = hash, .line = row->line};
    seen->count++;
    return 0;
}

void import_seen_free(struct import_seen *seen) {
    free(seen->at);
    cli_text_free(&seen->owners);
    seen->at = NULL;
}
