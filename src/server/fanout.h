/* From the store of events to the subscribers. */
#ifndef TN_SERVER_FANOUT_H
#define TN_SERVER_FANOUT_H

#include "server/stream.h"

#define SERVER_OUT_HARD (32u << 20) /* unsent bytes; beyond them the connection is closed */

/* Hands the next events to all subscribers that keep up. */
void server_fanout_tail(struct server_streams *streams);
void server_fanout_metrics(struct server_streams *streams, const struct engine_metrics *metrics);
/* Sends a text to all current subscribers of the channel, whatever their user. It is not retained. */
void server_fanout_say(struct server_streams *streams, const char *channel, const char *text);
/* Takes one step for each subscriber that is behind and has room. The work of all steps together is
 * bounded. */
void server_fanout_behind(struct server_streams *streams);
/* The subscriber keeps up from now on: it gets the events after `position`. */
void server_subscriber_keep_up(struct server_subscriber *subscriber,
                               struct engine_event_id position);
/* From now on the subscriber reads the store by itself, beginning at `cursor`. */
/* It goes away. */
void server_subscriber_forget(struct server_subscriber *subscriber);
void server_subscriber_fall_behind(struct server_subscriber *subscriber,
                                   struct engine_event_id cursor);
/* Called when output was sent: a subscriber that is behind may read on. */
void server_subscriber_drained(struct server_connection *connection);

#endif
