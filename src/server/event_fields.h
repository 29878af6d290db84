/* An event as clients see it, and the events that a client wants. */
#ifndef TN_SERVER_EVENT_FIELDS_H
#define TN_SERVER_EVENT_FIELDS_H

#include "engine/events.h"
#include "protocol/resp.h"
#include "server/event_search.h"

#define SERVER_EVENT_BYTES (2u << 20) /* one event, rendered, at the most */
#define SERVER_EVENTS_LOOK 10000u     /* events that one EVENTS looks at */

/* One map, in the writer's encoding. */
void server_event_write(struct protocol_writer *w, const struct engine_event *event);
/* {"kind": "lost", "oldest": id}: for a reader that fell behind the oldest retained event. */
void server_event_write_lost(struct protocol_writer *w, struct engine_event_id oldest);
void server_event_id_write(struct protocol_writer *w, struct engine_event_id id);
void server_pool_metrics_write(struct protocol_writer *w, const struct engine_metrics *metrics);

/* Selects events that match all of these; an empty field matches any event. */
struct server_event_filter {
    struct tn_bytes pool, holder;
    struct tn_bytes kind;         /* or the beginning of kinds: "lease." */
    struct kernel_lease_id lease; /* of LSN 0: any */
    struct tn_bytes value;        /* as it is shown */
    struct tn_bytes actor;
    struct server_search *text; /* part of a name, a holder, a value or a reason; NULL: any */
};

bool server_event_passes(const struct engine_event *event,
                         const struct server_event_filter *filter);

/* Calls with the name of each channel that the event belongs to, each once. */
typedef void server_channel_visit(void *ctx, struct tn_bytes channel);
void server_event_channels(const struct engine_event *event, server_channel_visit *visit,
                           void *ctx);

#endif
