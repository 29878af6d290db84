/* Iterates over JSON in place, without copies. Only for text that protocol_json_fault has accepted:
 * nothing is checked here. A value is its run of bytes in the text. */
#ifndef TN_PROTOCOL_WALK_H
#define TN_PROTOCOL_WALK_H

#include "base/bytes.h"

enum protocol_json_kind {
    PROTOCOL_JSON_OBJECT,
    PROTOCOL_JSON_ARRAY,
    PROTOCOL_JSON_STRING,
    PROTOCOL_JSON_NUMBER,
    PROTOCOL_JSON_TRUE,
    PROTOCOL_JSON_FALSE,
    PROTOCOL_JSON_NULL,
};

enum protocol_json_kind protocol_json_kind(struct tn_bytes value);

struct protocol_walk {
    const uint8_t *at, *end;
    bool object;
};

/* Iterates over the pairs of an object or the items of an array. */
struct protocol_walk protocol_walk_of(struct tn_bytes container);
/* False at the end. ret_key is a string as written; empty in an array. */
bool protocol_walk_next(struct protocol_walk *walk, struct tn_bytes *ret_key,
                        struct tn_bytes *ret_value);

/* Decodes a string into `out`. False: it has a NUL or half of a surrogate pair, or does not fit. */
bool protocol_json_text(struct tn_bytes string, struct tn_writer *out, struct tn_bytes *ret_text);

#endif
