/* Subscriptions: SUBSCRIBE and the like. Their memory is bounded by connection and in all. */
#ifndef TN_SERVER_SUBSCRIBE_H
#define TN_SERVER_SUBSCRIBE_H

#include <sys/queue.h>

#include "engine/events.h"

#define SERVER_SUBSCRIPTIONS_MAX 1024u
#define SERVER_SUBSCRIBER_HASH 64u
#define SERVER_SUBSCRIPTIONS_ALL 262144u
#define SERVER_PATTERNS_ALL 16384u /* each is looked at for each event */
/* What matching patterns with one channel's name may take, in steps of tn_glob_steps: of one connection,
 * and of all. A pattern whose only * is its last byte takes as many as it has bytes. */
#define SERVER_PATTERN_TEXT 128u /* bytes of a long name */
#define SERVER_PATTERN_STEPS_MAX (1u << 17)
#define SERVER_PATTERN_STEPS_ALL (1u << 20)

struct server_connection;
struct server_streams;

LIST_HEAD(server_subscriptions, server_subscription);

/* One channel or pattern of one connection. */
struct server_subscription {
    struct server_subscriber *subscriber;
    struct server_subscription *next_own;  /* of the same connection */
    struct server_subscription **own_link; /* what points at it in that list */
    struct server_subscription *next_text; /* with the same hash, of the same subscriber */
    LIST_ENTRY(server_subscription) place; /* in its bucket, or among all patterns */
    uint64_t hash;                         /* of the name */
    struct engine_event_id after;          /* it hears of later ones only */
    uint16_t text_len;                     /* as it was asked for */
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
    struct server_subscription *by_text[SERVER_SUBSCRIBER_HASH]; /* the same, by their names */
    uint32_t channels, patterns;
    uint32_t pattern_steps;    /* SERVER_PATTERN_STEPS_MAX at the most */
    bool unsent, over, queued; /* it is on that list */
    bool behind;
    bool doomed;                   /* no memory, or too much waits for it: to be closed */
    bool skips;                    /* the event at hand: there was too much of it already */
    struct engine_event_id told;   /* the last event that it got from the tail */
    struct engine_event_id cursor; /* if it is behind: all up to here has been read for it */
    struct engine_event_id part;   /* if it is behind: the event of which it has a part */
    uint32_t part_done;            /* channels of that event that are done; 0: it has no part */
};

/* All of the connection's, without a word. */
void server_unsubscribe_all(struct server_connection *connection);

#endif
