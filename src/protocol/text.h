/* Judging texts from outside: names and JSON. A fault is a reason in words, NULL: there is none. */
#ifndef TN_PROTOCOL_TEXT_H
#define TN_PROTOCOL_TEXT_H

#include "base/bytes.h"

#define PROTOCOL_JSON_DEPTH 16u /* of objects and arrays inside each other */

/* The length of the character at the start of `left` bytes, of which there is one at least; 0 if they
 * start with none: no overlong forms, no surrogates. */
uint32_t protocol_utf8_char(const uint8_t *at, size_t left);
bool protocol_utf8_valid(struct tn_bytes text);
/* How many bytes at the end begin a character and do not end it: of text that is cut anywhere. */
size_t protocol_utf8_cut(const uint8_t *at, size_t len);

/* A name has 1..max bytes of valid UTF-8 and no control characters. */
const char *protocol_name_fault(struct tn_bytes name, uint32_t max);

/* Metadata and descriptions are one JSON object each, not deeper than PROTOCOL_JSON_DEPTH. */
const char *protocol_json_fault(struct tn_bytes text);

#endif
