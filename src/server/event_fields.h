/* Events as clients see them, and the filters by which clients select events. */
#ifndef TN_SERVER_EVENT_FIELDS_H
#define TN_SERVER_EVENT_FIELDS_H

#include "engine/events.h"
#include "protocol/resp.h"
#include "server/event_search.h"

#define SERVER_EVENT_BYTES (2u << 20) /* maximum bytes of one rendered event */
#define SERVER_EVENTS_LOOK 10000u /* maximum number of events that one EVENTS command examines */

/* Writes one map in the writer's encoding. */
void server_event_write(struct protocol_writer *w, const struct engine_event *event);
/* Writes {"kind": "lost", "oldest": id}, for a reader that fell behind the oldest retained
 * event. */
void server_event_write_lost(struct protocol_writer *w, struct engine_event_id oldest);
void server_event_id_write(struct protocol_writer *w, struct engine_event_id id);
/* The map has room for `more` pairs, which the caller appends. */
void server_pool_metrics_write(struct protocol_writer *w, const struct engine_metrics *metrics,
                               uint32_t more);

/* Selects events that match all of these; an empty field matches any event. */
struct server_event_filter {
    struct tn_bytes pool, holder;
    struct tn_bytes kind;         /* or a prefix of kinds, such as "lease." */
    struct kernel_lease_id lease; /* LSN 0: any lease */
    struct tn_bytes value;        /* as clients see it */
    struct tn_bytes actor;
    struct server_search *text; /* part of a name, holder, value or reason; NULL: any event */
};

bool server_event_passes(const struct engine_event *event,
                         const struct server_event_filter *filter);

/* Calls `visit` once for each channel to which the event belongs. */
typedef void server_channel_visit(void *ctx, struct tn_bytes channel);
void server_event_channels(const struct engine_event *event, server_channel_visit *visit,
                           void *ctx);

#endif
