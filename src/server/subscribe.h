/* Subscriptions: SUBSCRIBE and the like. Their memory is bounded by connection and in all. */
#ifndef TN_SERVER_SUBSCRIBE_H
#define TN_SERVER_SUBSCRIBE_H

#include <sys/queue.h>

#include "engine/events.h"

#define SERVER_SUBSCRIPTIONS_MAX 1024u
#define SERVER_SUBSCRIBER_HASH 64u
#define SERVER_SUBSCRIPTIONS_ALL 262144u
#define SERVER_PATTERNS_ALL 16384u /* each pattern is matched with each event */
/* The maximum cost of matching one channel's name with the patterns of a connection, and of all
 * connections, in steps of tn_glob_steps. A pattern whose only * is its last byte costs one step
 * for each of its bytes. */
#define SERVER_PATTERN_TEXT 128u /* bytes of a long channel name */
#define SERVER_PATTERN_STEPS_MAX (1u << 17)
#define SERVER_PATTERN_STEPS_ALL (1u << 20)

struct server_connection;
struct server_streams;

LIST_HEAD(server_subscriptions, server_subscription);

/* One channel or pattern of one connection. */
struct server_subscription {
    struct server_subscriber *subscriber;
    struct server_subscription *next_own;  /* the next subscription of this connection */
    struct server_subscription **own_link; /* the pointer to this subscription in that list */
    struct server_subscription *next_text; /* the next one with the same hash, of this subscriber */
    LIST_ENTRY(server_subscription) place; /* in its bucket, or in the list of all patterns */
    uint64_t hash;                         /* of the name */
    struct engine_event_id after;          /* only later events are sent */
    uint16_t text_len;                     /* bytes of the channel name as the client wrote it */
    uint16_t name_len;                     /* without ?after= */
    uint8_t kind;                          /* enum server_channel_kind */
    bool pattern;
    uint8_t text[];
};

/* A connection that has subscribed. */
struct server_subscriber {
    struct server_connection *connection;
    LIST_ENTRY(server_subscriber) place; /* among all */
    struct server_subscriber *next_unsent, *next_over, *next_run;
    struct server_subscription *first;
    /* The same subscriptions by their names. */
    struct server_subscription *by_text[SERVER_SUBSCRIBER_HASH];
    uint32_t channels, patterns;
    uint32_t pattern_steps;    /* at most SERVER_PATTERN_STEPS_MAX */
    bool unsent, over, queued; /* the subscriber is on the list of the same name */
    bool behind;
    bool doomed; /* out of memory, or too much unsent: the connection will be closed */
    bool skips;  /* the current event is skipped: too much of it was sent already */
    struct engine_event_id told;   /* the last event that it got from the tail */
    struct engine_event_id cursor; /* if it is behind: it has read all events up to here */
    struct engine_event_id part;   /* if it is behind: the event of which it has a part */
    uint32_t part_done;            /* how many channels of that event are done; 0: it has no part */
};

/* Ends all subscriptions of the connection without a message. */
void server_unsubscribe_all(struct server_connection *connection);

#endif
