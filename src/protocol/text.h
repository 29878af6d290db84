/* Validates names and JSON from clients. A fault is a text with the reason; NULL: valid. */
#ifndef TN_PROTOCOL_TEXT_H
#define TN_PROTOCOL_TEXT_H

#include "base/bytes.h"

#define PROTOCOL_JSON_DEPTH 16u /* maximum nesting of objects and arrays */

/* The length of the UTF-8 character at the start of `left` bytes (at least 1); 0 if invalid:
 * overlong forms and surrogates are invalid. */
uint32_t protocol_utf8_char(const uint8_t *at, size_t left);
bool protocol_utf8_valid(struct tn_bytes text);
/* The number of bytes of an incomplete character at the end of a truncated text. */
size_t protocol_utf8_cut(const uint8_t *at, size_t len);

/* A name has 1..max bytes of valid UTF-8 and no control characters. */
const char *protocol_name_fault(struct tn_bytes name, uint32_t max);

/* Metadata and descriptions are one JSON object each, not deeper than PROTOCOL_JSON_DEPTH. */
const char *protocol_json_fault(struct tn_bytes text);

#endif
