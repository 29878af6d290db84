/* Events and metrics on their way to those who listen.
 *
 *     engine's thread --events_ready--> feed --uv_async--> loop: the tail reads what is new, once,
 *                                                          and hands it to all who keep up;
 *                                                          followers are woken and read themselves
 *
 * A subscriber keeps up, or it is behind: because it asked for what happened after some event, or
 * because its client does not take what it is sent. Who is behind has a place of its own in the store
 * and reads on from there, in steps, as its output drains, until it is where the tail is.
 *
 *     keeps up --output above SERVER_OUT_SOFT, or SUBSCRIBE name?after=id--> behind
 *     behind --its place is the tail's, or the end--> keeps up
 *
 * Memory is bounded: subscriptions by SERVER_SUBSCRIPTIONS_MAX a connection and SERVER_SUBSCRIPTIONS_ALL
 * in all, what waits to be sent by SERVER_OUT_SOFT and the messages of one event; who gets beyond
 * SERVER_OUT_HARD by that is dropped. */
#ifndef TN_SERVER_STREAM_H
#define TN_SERVER_STREAM_H

#include <sys/queue.h>
#include <uv.h>

#include "engine/event.h"
#include "protocol/resp.h"

#define SERVER_SUBSCRIPTIONS_MAX 1024u
#define SERVER_SUBSCRIPTIONS_ALL 262144u
#define SERVER_PATTERNS_ALL 16384u /* each is looked at for each event */
/* What matching patterns with one channel's name may take, in steps of tn_glob_steps: of one connection,
 * and of all. A pattern whose only * is its last byte takes as many as it has bytes. */
#define SERVER_PATTERN_TEXT 128u /* bytes of a long name */
#define SERVER_PATTERN_STEPS_MAX (1u << 17)
#define SERVER_PATTERN_STEPS_ALL (1u << 20)
#define SERVER_CHANNEL_MAX 256u       /* bytes of a channel's name or a pattern */
#define SERVER_OUT_HARD (32u << 20)   /* waiting to be sent: the connection is dropped */
#define SERVER_EVENT_BYTES (2u << 20) /* one event, rendered, at the most */
#define SERVER_EVENTS_LOOK 10000u     /* events that one EVENTS looks at */

struct server;
struct server_connection;

/* ---- event.c: what an event says, and to whom ---- */

/* One map, in the writer's encoding. */
void server_event_write(struct protocol_writer *w, const struct engine_event *event);
/* {"kind": "lost", "oldest": id}: for a reader who fell behind what is kept. */
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

/* ---- channel.c: names of channels ---- */

enum server_channel_kind {
    SERVER_CHANNEL_SILENT, /* any other name: nothing is ever said there */
    SERVER_CHANNEL_EVENTS,
    SERVER_CHANNEL_POOL,
    SERVER_CHANNEL_HOLDER,
    SERVER_CHANNEL_METRICS,
};

struct server_channel {
    enum server_channel_kind kind;
    bool resumes;                 /* it ended in ?after= and an id */
    struct engine_event_id after; /* that one */
    struct tn_bytes name;         /* without it */
    struct tn_bytes subject;      /* the pool or the holder */
};

/* NULL, or what is wrong with it. Borrows from the text. */
const char *server_channel_parse(struct tn_bytes text, struct server_channel *ret_channel);
/* The same for a pattern, whose kind is never looked at. */
const char *server_pattern_parse(struct tn_bytes text, struct server_channel *ret_channel);

/* ---- stream.c: what is new ---- */

/* Somebody with a place of its own in the store, such as a stream over HTTP. */
struct server_follower {
    struct server_follower *previous, *next;
    void (*wake)(struct server_follower *follower);
    bool waiting;
};

/* Wakes it once, from the loop, when there is an event later than `after`. */
void server_follow(struct server *server, struct server_follower *follower,
                   struct engine_event_id after);
void server_follow_end(struct server *server, struct server_follower *follower);

LIST_HEAD(server_subscriptions, server_subscription);

/* One channel or pattern of one connection. */
struct server_subscription {
    struct server_subscriber *subscriber;
    struct server_subscription *next_own;  /* of the same connection */
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
    uint32_t channels, patterns;
    uint32_t pattern_steps;    /* SERVER_PATTERN_STEPS_MAX at the most */
    bool unsent, over, queued; /* it is on that list */
    bool behind;
    bool doomed;                   /* no memory, or too much waits for it: to be closed */
    bool skips;                    /* the event at hand: there was too much of it already */
    struct engine_event_id told;   /* the last event that it got from the tail */
    struct engine_event_id cursor; /* if it is behind: all up to here has been read for it */
};

struct server_streams {
    uv_async_t news; /* events or metrics */
    uv_idle_t work;  /* runs while there is something to read and somebody to take it */
    bool open;

    struct server_follower *followers;
    struct server_follower *woken; /* those of them whose turn it is */

    struct engine_event_id tail; /* all up to here have been handed to those who keep up */
    bool tail_more;              /* and there are later ones */
    uint32_t keeping_up;

    struct server_subscriptions *channels; /* by the hash of their names */
    struct server_subscriptions patterns;
    uint32_t subscriptions, pattern_count, metrics_wanted;
    uint32_t pattern_steps; /* SERVER_PATTERN_STEPS_ALL at the most */
    uint64_t seed;
    LIST_HEAD(server_subscribers, server_subscriber) subscribers;
    struct server_subscriber *unsent;         /* got messages that are not flushed yet */
    size_t unsent_bytes;                      /* of those messages */
    size_t looked;                            /* at subscriptions, in this step of the tail */
    struct server_subscriber *over;           /* got too many of them: will be behind */
    struct server_subscriber *run, **run_end; /* behind, and there is room in their output */

    uint8_t *payload; /* of the message at hand, rendered when somebody first wants it */
    uint32_t payload_len;
};

bool server_streams_init(struct server *server);
/* No more news from the engine; before the loop's handles are closed. */
void server_streams_stop(struct server *server);
void server_streams_free(struct server *server);
/* There may be something to do: see that it is done, soon. */
void server_streams_wake(struct server *server);
/* The subscriptions to channels with this hash, and others. */
struct server_subscriptions *server_streams_bucket(struct server *server, uint64_t hash);
void server_feed_want_metrics(struct server *server, bool wanted);

/* ---- subscribe.c: SUBSCRIBE and the like ---- */

/* All of the connection's, without a word. */
void server_unsubscribe_all(struct server_connection *connection);

/* ---- fanout.c: from the store to the subscribers ---- */

/* Hands the next events to all who keep up. */
void server_fanout_tail(struct server *server);
void server_fanout_metrics(struct server *server, const struct engine_metrics *metrics);
/* One step of each who is behind and has room, bounded in all. */
void server_fanout_behind(struct server *server);
/* From now on it hears what is new, after `position`: the newest event, or where it has got to. */
void server_subscriber_keep_up(struct server_subscriber *subscriber,
                               struct engine_event_id position);
/* From now on it reads for itself, from `cursor` on. */
void server_subscriber_fall_behind(struct server_subscriber *subscriber,
                                   struct engine_event_id cursor);
/* Its output may have drained: if it is behind, it reads on. */
void server_subscriber_drained(struct server_connection *connection);

#endif
