/* Internal to the reply writer: its JSON half. */
#ifndef TN_PROTOCOL_JSON_H
#define TN_PROTOCOL_JSON_H

#include "protocol/resp.h"

/* A map of `count` pairs or an array of `count` items. */
void protocol_json_open(struct protocol_writer *w, bool map, uint32_t count);
void protocol_json_string(struct protocol_writer *w, const void *bytes, size_t len);
/* A value that is already JSON text: a number, true, null. */
void protocol_json_raw(struct protocol_writer *w, const char *text, size_t len);
void protocol_json_embed(struct protocol_writer *w, const void *text, size_t len);

#endif
