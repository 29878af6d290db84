/* Names of channels. */
#ifndef TN_SERVER_CHANNEL_H
#define TN_SERVER_CHANNEL_H

#include "engine/events.h"

#define SERVER_CHANNEL_MAX 256u /* maximum bytes of a channel name or a pattern */

enum server_channel_kind {
    SERVER_CHANNEL_SILENT, /* any other name: no event is ever published there */
    SERVER_CHANNEL_EVENTS,
    SERVER_CHANNEL_POOL,
    SERVER_CHANNEL_HOLDER,
    SERVER_CHANNEL_METRICS,
};

struct server_channel {
    enum server_channel_kind kind;
    bool resumes;                 /* the name has ?after= and an id */
    struct engine_event_id after; /* that one */
    struct tn_bytes name;         /* without it */
    struct tn_bytes subject;      /* the name of the pool or the holder */
};

/* NULL, or what is wrong with the name. The result points into the text. */
const char *server_channel_parse(struct tn_bytes text, struct server_channel *ret_channel);
/* The same for a pattern, which can match channels of any kind. */
const char *server_pattern_parse(struct tn_bytes text, struct server_channel *ret_channel);

#endif
