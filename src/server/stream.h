/* Events and metrics on their way to subscribers.
 *
 *     engine's thread --events_ready--> feed --uv_async--> loop: the tail reads new events, once,
 *                                                          for all subscribers that keep up;
 *                                                          followers are woken and read themselves
 *
 * A subscriber keeps up, or it is behind: because it asked for the events after some event, or because
 * its client reads too slowly. A subscriber that is behind has a place of its own in the store and reads
 * on from there, in steps, as its output drains, until it has reached the tail.
 *
 *     keeps up --output above SERVER_OUT_SOFT, or SUBSCRIBE name?after=id--> behind
 *     behind --its place is the tail's, or the end--> keeps up
 *
 * Memory is bounded: subscriptions by SERVER_SUBSCRIPTIONS_MAX a connection and SERVER_SUBSCRIPTIONS_ALL
 * in all, unsent messages by SERVER_OUT_SOFT and the messages of one event; a client that thereby exceeds
 * SERVER_OUT_HARD is disconnected. */
#ifndef TN_SERVER_STREAM_H
#define TN_SERVER_STREAM_H

#include <uv.h>

#include "engine/engine.h"
#include "server/subscribe.h"

struct access;
struct os;
struct server_feed;
struct server_owners;

/* A reader with a place of its own in the store, such as a stream over HTTP. */
struct server_follower {
    struct server_follower *previous, *next;
    void (*wake)(struct server_follower *follower);
    bool waiting;
};

struct server_streams;

/* Wakes it once, from the loop, when there is an event later than `after`. */
void server_follow(struct server_streams *streams, struct server_follower *follower,
                   struct engine_event_id after);
void server_follow_end(struct server_streams *streams, struct server_follower *follower);

/* Whether an event that a client has seen is of another log: a different server's, or this one's before a
 * backup was restored. A client that waited for it here would miss all events up to there. In a cluster, an
 * event that this node does not have yet may be of the same log: a follower can be behind the owner, and the
 * owner behind its followers, which may get a batch before the owner knows that it is in the log. */
bool server_event_is_foreign(const struct server_owners *owners, struct engine_event_id id);

struct server_streams {
    struct server_owners *owners; /* users are brought up to date before events go out */
    struct engine *engine;
    struct server_feed *feed;
    const struct access *access;
    uv_async_t news; /* events or metrics */
    uv_idle_t work;  /* runs while there are events to read and subscribers to receive them */
    bool open;

    struct server_follower *followers;
    struct server_follower *woken; /* followers whose turn it is */

    struct engine_event_id tail; /* the subscribers that keep up have all events up to here */
    bool tail_more;              /* there are later events */
    uint32_t keeping_up;
    bool
        /* The event after the tail has been handed out for its first part_done channels only. */
        parted;
    struct engine_event_id part;
    uint32_t part_done, channel; /* channels; the current one, counted from 0 */
    bool channel_left;           /* the remaining channels are for the next turn */

    struct server_subscriptions *channels; /* by the hash of their names */
    struct server_subscriptions patterns;
    uint32_t subscriptions, pattern_count, metrics_wanted;
    uint32_t pattern_steps; /* at most SERVER_PATTERN_STEPS_ALL */
    uint64_t seed;
    LIST_HEAD(server_subscribers, server_subscriber) subscribers;
    struct server_subscriber *unsent; /* subscribers with messages that are not flushed yet */
    size_t unsent_bytes;              /* of those messages */
    size_t looked;                    /* subscriptions examined in this step of the tail */
    /* Subscribers with too many unsent messages, which will be behind. */
    struct server_subscriber *over;
    /* Subscribers that are behind and have room in their output. */
    struct server_subscriber *run, **run_end;

    uint8_t *payload; /* the current message, rendered for the first subscriber that needs it */
    uint32_t payload_len;
};

/* False: out of memory or random bytes. The caller keeps the feed and the users. */
bool server_streams_init(struct server_streams *streams, struct server_owners *owners,
                         uv_loop_t *loop, struct engine *engine, struct server_feed *feed,
                         const struct access *access, const struct os *os);
/* Called before the loop's handles are closed: no more news from the engine. */
void server_streams_stop(struct server_streams *streams);
void server_streams_free(struct server_streams *streams);
/* Has pending work done soon, if there is any. */
void server_streams_wake(struct server_streams *streams);
/* The bucket of subscriptions to channels with this hash. */
struct server_subscriptions *server_streams_bucket(struct server_streams *streams, uint64_t hash);
void server_feed_want_metrics(struct server_feed *feed, bool wanted);

#endif
