/* An event as clients see it, and the events that a client wants. */
#ifndef TN_SERVER_EVENT_FIELDS_H
#define TN_SERVER_EVENT_FIELDS_H

#include "engine/events.h"
#include "protocol/resp.h"

#define SERVER_EVENT_BYTES (2u << 20) /* one event, rendered, at the most */
#define SERVER_EVENTS_LOOK 10000u     /* events that one EVENTS looks at */

/* One map, in the writer's encoding. */
void server_event_write(struct protocol_writer *w, const struct engine_event *event);
/* {"kind": "lost", "oldest": id}: for a reader that fell behind the oldest retained event. */
void server_event_write_lost(struct protocol_writer *w, struct engine_event_id oldest);
void server_event_id_write(struct protocol_writer *w, struct engine_event_id id);
void server_pool_metrics_write(struct protocol_writer *w, const struct engine_metrics *metrics);

/* Of one pool, of one holder, of both; empty: any. */
struct server_event_filter {
    struct tn_bytes pool, holder;
};

bool server_event_passes(const struct engine_event *event,
                         const struct server_event_filter *filter);

/* Calls with the name of each channel that the event belongs to, each once. */
typedef void server_channel_visit(void *ctx, struct tn_bytes channel);
void server_event_channels(const struct engine_event *event, server_channel_visit *visit,
                           void *ctx);

#endif
