/* SUBSCRIBE, PSUBSCRIBE and their opposites, with Redis's replies: a confirmation for each name,
 * with the number of subscriptions after it. A request takes effect completely or is refused
 * completely. */
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "base/glob.h"
#include "base/hash.h"
#include "server/channel.h"
#include "server/connection.h"
#include "server/fanout.h"
#include "server/handler.h"
#include "server/output.h"
#include "server/schedule.h"
#include "server/stream.h"

/* ---- Tables ---- */

static bool hears_metrics(const struct server_subscription *s) {
    return s->pattern || s->kind == SERVER_CHANNEL_METRICS;
}

static void metrics_count(struct server_streams *streams, const struct server_subscription *s,
                          int change) {
    uint32_t before = streams->metrics_wanted;
    if (hears_metrics(s)) {
        streams->metrics_wanted = before + (uint32_t)change;
    }
    if ((before > 0) != (streams->metrics_wanted > 0)) {
        server_feed_want_metrics(streams->feed, before == 0);
    }
}

static uint32_t steps_of(bool pattern, struct tn_bytes name) {
    return pattern ? tn_glob_steps(name, SERVER_PATTERN_TEXT) : 0;
}

/* Where the subscription is, or would be, among those of its subscriber with the same hash. */
static struct server_subscription **subscription_place(struct server_subscriber *subscriber,
                                                       bool pattern, struct tn_bytes text) {
    uint64_t hash = tn_hash64(text.at, text.len, subscriber->connection->streams->seed);
    struct server_subscription **at = &subscriber->by_text[hash % SERVER_SUBSCRIBER_HASH];
    while (*at != NULL && ((*at)->pattern != pattern ||
                           !tn_bytes_equal(tn_bytes_of((*at)->text, (*at)->text_len), text))) {
        at = &(*at)->next_text;
    }
    return at;
}

static struct server_subscription *subscription_find(struct server_subscriber *subscriber,
                                                     bool pattern, struct tn_bytes text) {
    return subscriber != NULL ? *subscription_place(subscriber, pattern, text) : NULL;
}

static bool subscription_add(struct server_subscriber *subscriber, bool pattern,
                             struct tn_bytes text, const struct server_channel *channel,
                             struct engine_event_id after) {
    struct server_streams *streams = subscriber->connection->streams;
    struct server_subscription *s = malloc(sizeof *s + text.len);
    if (s == NULL) {
        return false;
    }
    *s = (struct server_subscription){
        .subscriber = subscriber,
        .next_own = subscriber->first,
        .hash = tn_hash64(channel->name.at, channel->name.len, streams->seed),
        .after = after,
        .text_len = (uint16_t)text.len,
        .name_len = (uint16_t)channel->name.len,
        .kind = (uint8_t)channel->kind,
        .pattern = pattern};
    memcpy(s->text, text.at, text.len);
    struct server_subscription **place = subscription_place(subscriber, pattern, text);
    s->next_text = *place;
    *place = s;
    if (subscriber->first != NULL) {
        subscriber->first->own_link = &s->next_own;
    }
    s->own_link = &subscriber->first;
    subscriber->first = s;
    struct server_subscriptions *list =
        pattern ? &streams->patterns : server_streams_bucket(streams, s->hash);
    LIST_INSERT_HEAD(list, s, place);
    *(pattern ? &subscriber->patterns : &subscriber->channels) += 1;
    streams->subscriptions++;
    streams->pattern_count += pattern;
    streams->pattern_steps += steps_of(pattern, channel->name);
    subscriber->pattern_steps += steps_of(pattern, channel->name);
    metrics_count(streams, s, +1);
    return true;
}

static void subscription_remove(struct server_subscription *s) {
    struct server_subscriber *subscriber = s->subscriber;
    struct server_streams *streams = subscriber->connection->streams;
    *s->own_link = s->next_own;
    if (s->next_own != NULL) {
        s->next_own->own_link = s->own_link;
    }
    *subscription_place(subscriber, s->pattern, tn_bytes_of(s->text, s->text_len)) = s->next_text;
    LIST_REMOVE(s, place);
    *(s->pattern ? &subscriber->patterns : &subscriber->channels) -= 1;
    streams->subscriptions--;
    streams->pattern_count -= s->pattern;
    uint32_t steps = steps_of(s->pattern, tn_bytes_of(s->text, s->name_len));
    streams->pattern_steps -= steps;
    subscriber->pattern_steps -= steps;
    metrics_count(streams, s, -1);
    free(s);
}

/* ---- Subscribers ---- */

static struct server_subscriber *subscriber_new(struct server_connection *connection) {
    struct server_streams *streams = connection->streams;
    struct server_subscriber *subscriber = calloc(1, sizeof *subscriber);
    if (subscriber == NULL) {
        return NULL;
    }
    subscriber->connection = connection;
    subscriber->behind = true; /* until server_subscriber_keep_up is called */
    LIST_INSERT_HEAD(&streams->subscribers, subscriber, place);
    connection->subscriber = subscriber;
    return subscriber;
}

static void run_remove(struct server_streams *streams, struct server_subscriber *subscriber) {
    struct server_subscriber **at = &streams->run;
    while (*at != subscriber) {
        at = &(*at)->next_run;
    }
    *at = subscriber->next_run;
    if (*at == NULL) {
        streams->run_end = at;
    }
}

static void subscriber_free(struct server_subscriber *subscriber) {
    struct server_streams *streams = subscriber->connection->streams;
    server_subscriber_forget(subscriber);
    TN_ASSERT(subscriber->first == NULL && !subscriber->unsent);
    if (!subscriber->behind) {
        streams->keeping_up--;
        streams->tail_more = streams->tail_more && streams->keeping_up > 0;
    }
    if (subscriber->queued) {
        run_remove(streams, subscriber);
    }
    LIST_REMOVE(subscriber, place);
    subscriber->connection->subscriber = NULL;
    free(subscriber);
}

void server_unsubscribe_all(struct server_connection *connection) {
    struct server_subscriber *subscriber = connection->subscriber;
    if (subscriber == NULL) {
        return;
    }
    while (subscriber->first != NULL) {
        subscription_remove(subscriber->first);
    }
    subscriber_free(subscriber);
}

/* ---- Confirmations ---- */

static void confirm(struct server_connection *connection, const char *word, bool pattern,
                    const struct tn_bytes *name) {
    const struct server_subscriber *subscriber = connection->subscriber;
    struct protocol_writer w = server_reply_begin(connection);
    protocol_write_push(&w, 3);
    protocol_write_text(&w, pattern ? word : word + 1);
    if (name != NULL) {
        protocol_write_bulk(&w, name->at, name->len);
    } else {
        protocol_write_null(&w);
    }
    protocol_write_u64(&w, subscriber != NULL ? subscriber->channels + subscriber->patterns : 0);
    server_reply_end(connection, &w);
}

/* ---- SUBSCRIBE, PSUBSCRIBE ---- */

static const char *name_parse(bool pattern, struct tn_bytes text, struct server_channel *channel) {
    return pattern ? server_pattern_parse(text, channel) : server_channel_parse(text, channel);
}

/* Whether the channel has events, to which a subscriber can go back. */
static bool hears_events(bool pattern, const struct server_channel *channel) {
    return pattern || channel->kind == SERVER_CHANNEL_EVENTS ||
           channel->kind == SERVER_CHANNEL_POOL || channel->kind == SERVER_CHANNEL_HOLDER;
}

static bool steps_allowed(struct server_connection *connection, uint64_t steps) {
    const struct server_subscriber *subscriber = connection->subscriber;
    uint32_t has = subscriber != NULL ? subscriber->pattern_steps : 0;
    if (steps <= SERVER_PATTERN_STEPS_MAX - has &&
        steps <= SERVER_PATTERN_STEPS_ALL - connection->streams->pattern_steps) {
        return true;
    }
    server_reply_error(
        connection,
        "OVERLOADED the patterns are too expensive: each costs its bytes before the first *, plus "
        "%u times the bytes after it; the limit is %u per connection and %u in all",
        SERVER_PATTERN_TEXT, SERVER_PATTERN_STEPS_MAX, SERVER_PATTERN_STEPS_ALL);
    return false;
}

/* Whether all names are valid and there is room for them. If not, the request has been refused. */
static bool subscribe_allowed(struct server_connection *connection, bool pattern,
                              const struct tn_bytes *names, uint32_t count, bool *ret_resumes) {
    const struct server_streams *streams = connection->streams;
    const struct server_subscriber *subscriber = connection->subscriber;
    uint32_t has = subscriber != NULL ? subscriber->channels + subscriber->patterns : 0;
    uint64_t steps = 0;
    *ret_resumes = false;
    for (uint32_t i = 0; i < count; i++) {
        struct server_channel channel;
        const char *why = name_parse(pattern, names[i], &channel);
        if (why == NULL && channel.resumes &&
            server_event_is_foreign(streams->owners, channel.after)) {
            why = "?after= is later than the last event";
        }
        if (why != NULL) {
            server_reply_error(connection, "ERR channel '%.*s': %s",
                               (int)(names[i].len < 200 ? names[i].len : 200),
                               (const char *)names[i].at, why);
            return false;
        }
        *ret_resumes = *ret_resumes || channel.resumes;
        steps += steps_of(pattern, channel.name);
    }
    if (count > SERVER_SUBSCRIPTIONS_MAX - has ||
        count > SERVER_SUBSCRIPTIONS_ALL - streams->subscriptions ||
        (pattern && count > SERVER_PATTERNS_ALL - streams->pattern_count)) {
        server_reply_error(
            connection,
            "OVERLOADED at most %u subscriptions per connection, %u in all, of which %u patterns",
            SERVER_SUBSCRIPTIONS_MAX, SERVER_SUBSCRIPTIONS_ALL, SERVER_PATTERNS_ALL);
        return false;
    }
    return steps_allowed(connection, steps);
}

/* Moves the positions of the connection's subscriptions up to here, so that no earlier event is
 * delivered again. */
static void positions_raise(struct server_subscriber *subscriber, struct engine_event_id position) {
    for (struct server_subscription *s = subscriber->first; s != NULL; s = s->next_own) {
        if (engine_event_id_compare(s->after, position) < 0) {
            s->after = position;
        }
    }
}

/* Adds the subscriptions. Lowers *lowest to where a resumed one begins. */
static bool subscribe_all(struct server_subscriber *subscriber, bool pattern,
                          const struct tn_bytes *names, uint32_t count,
                          struct engine_event_id newest, struct engine_event_id *lowest) {
    for (uint32_t i = 0; i < count; i++) {
        struct server_channel channel;
        (void)name_parse(pattern, names[i], &channel);
        struct engine_event_id after =
            hears_events(pattern, &channel) && channel.resumes ? channel.after : newest;
        if (subscription_find(subscriber, pattern, names[i]) == NULL) {
            if (!subscription_add(subscriber, pattern, names[i], &channel, after)) {
                return false;
            }
            *lowest = engine_event_id_compare(after, *lowest) < 0 ? after : *lowest;
        }
        confirm(subscriber->connection, "psubscribe", pattern, &names[i]);
    }
    return true;
}

static enum server_step subscribe(struct server_connection *connection, bool pattern,
                                  const struct tn_bytes *names, uint32_t count) {
    struct server_streams *streams = connection->streams;
    struct server_subscriber *subscriber = connection->subscriber;
    struct engine_events_span span = {.more = false};
    bool resumes;
    if (!subscribe_allowed(connection, pattern, names, count, &resumes)) {
        return SERVER_DONE;
    }
    if (resumes && subscriber != NULL &&
        (subscriber->behind ? subscriber->part_done > 0 : streams->parted)) {
        schedule_yield(&connection->client); /* it has received a part of the current event */
        return SERVER_WAIT;
    }
    (void)engine_events_read(streams->engine, ENGINE_EVENTS_NEWEST, 0, NULL, NULL, &span);
    struct engine_event_id position = span.newest;
    if (subscriber == NULL) {
        subscriber = subscriber_new(connection);
        if (subscriber == NULL) {
            server_reply_error(connection, "OVERLOADED no memory");
            return SERVER_DONE;
        }
        server_subscriber_keep_up(subscriber, span.newest);
    } else {
        position = subscriber->behind ? subscriber->cursor : streams->tail;
    }
    if (resumes) {
        positions_raise(subscriber, position);
    }
    struct engine_event_id lowest = position;
    if (!subscribe_all(subscriber, pattern, names, count, span.newest, &lowest)) {
        server_reply_error(connection, "OVERLOADED no memory");
        /* Out of memory after some of them were added: the client must reconnect. */
        connection->leaving = true;
    }
    if (engine_event_id_compare(lowest, position) < 0) {
        server_subscriber_fall_behind(subscriber, lowest);
    }
    return SERVER_DONE;
}

enum server_step session_subscribe(struct server_connection *connection,
                                   const struct tn_bytes *argv, uint32_t argc) {
    return subscribe(connection, false, argv + 1, argc - 1);
}

enum server_step session_psubscribe(struct server_connection *connection,
                                    const struct tn_bytes *argv, uint32_t argc) {
    return subscribe(connection, true, argv + 1, argc - 1);
}

/* ---- UNSUBSCRIBE, PUNSUBSCRIBE ---- */

static void unsubscribe_one(struct server_connection *connection, bool pattern,
                            struct tn_bytes name) {
    uint8_t copy[SERVER_CHANNEL_MAX];
    struct server_subscription *s = subscription_find(connection->subscriber, pattern, name);
    if (s != NULL) {
        /* The name may be part of the subscription that is about to be freed. */
        memcpy(copy, name.at, name.len);
        name = tn_bytes_of(copy, name.len);
        subscription_remove(s);
    }
    confirm(connection, "punsubscribe", pattern, &name);
}

static struct server_subscription *first_of(const struct server_connection *connection,
                                            bool pattern) {
    struct server_subscription *s =
        connection->subscriber != NULL ? connection->subscriber->first : NULL;
    while (s != NULL && s->pattern != pattern) {
        s = s->next_own;
    }
    return s;
}

static void unsubscribe(struct server_connection *connection, bool pattern,
                        const struct tn_bytes *names, uint32_t count) {
    if (count > SERVER_SUBSCRIPTIONS_MAX) { /* each name is searched for among all subscriptions */
        server_reply_error(connection, "OVERLOADED at most %u names at once",
                           SERVER_SUBSCRIPTIONS_MAX);
        return;
    }
    for (uint32_t i = 0; i < count; i++) {
        unsubscribe_one(connection, pattern, names[i]);
    }
    if (count == 0 && first_of(connection, pattern) == NULL) {
        confirm(connection, "punsubscribe", pattern, NULL);
    } else if (count == 0) {
        struct server_subscription *s;
        while ((s = first_of(connection, pattern)) != NULL) {
            unsubscribe_one(connection, pattern, tn_bytes_of(s->text, s->text_len));
        }
    }
    if (connection->subscriber != NULL && connection->subscriber->first == NULL) {
        subscriber_free(connection->subscriber);
    }
}

enum server_step session_unsubscribe(struct server_connection *connection,
                                     const struct tn_bytes *argv, uint32_t argc) {
    unsubscribe(connection, false, argv + 1, argc - 1);
    return SERVER_DONE;
}

enum server_step session_punsubscribe(struct server_connection *connection,
                                      const struct tn_bytes *argv, uint32_t argc) {
    unsubscribe(connection, true, argv + 1, argc - 1);
    return SERVER_DONE;
}
