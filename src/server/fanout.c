/* Delivers events from the store to subscribers. A subscriber that keeps up gets the events that the tail
 * reads; one that has fallen behind reads the store by itself. This is why no event is delivered twice or
 * not at all:
 *
 *     the tail        every event up to here was delivered to all subscribers that keep up
 *     a cursor        every event up to here was read for one subscriber that has fallen behind
 *     `after`         a subscription gets only events after this one
 *
 * A subscriber falls behind between two events, and its cursor starts at the tail. When a large event goes
 * to many subscribers and memory runs short, the rest of them fall behind too, and read the event a few at
 * a time. A subscriber that has caught up has a cursor at the tail or after it. Its subscriptions get that
 * cursor as their `after`, so the events that the tail still has to read up to there are not repeated. */
#include <string.h>

#include "base/assert.h"
#include "base/glob.h"
#include "base/hash.h"
#include "server/access.h"
#include "server/channel.h"
#include "server/connection.h"
#include "server/event_fields.h"
#include "server/fanout.h"
#include "server/output.h"
#include "server/users.h"

#define TAIL_STEP 512u       /* events that the tail reads in one turn of the loop */
#define BEHIND_STEP 256u     /* events that one subscriber reads in one step while it is behind */
#define BEHIND_STEPS 4096u   /* events that all subscribers that are behind read in one turn */
#define CHANNEL_STEP 131072u /* subscriptions examined in one step, about */
#define STEPS_A_LOOK 4u      /* steps of pattern matching that count as one examined subscription */
#define STEP_BYTES (8u << 20) /* bytes of messages after which they are sent before more are made */
#define ROOM_BYTES (32u << 20) /* bytes of messages of one event, about */

/* ---- Positions ---- */

void server_subscriber_keep_up(struct server_subscriber *subscriber,
                               struct engine_event_id position) {
    struct server_streams *streams = subscriber->connection->streams;
    TN_ASSERT(subscriber->behind);
    for (struct server_subscription *s = subscriber->first; s != NULL; s = s->next_own) {
        if (engine_event_id_compare(s->after, position) < 0) {
            s->after = position;
        }
    }
    subscriber->behind = false;
    subscriber->part_done = 0;
    if (streams->keeping_up++ == 0) {
        streams->parted = false;
        streams->part_done = 0;
        streams->tail = position;
        streams->tail_more = !engine_events_arm(streams->engine, position);
        server_streams_wake(streams);
    }
}

/* Adds the subscriber to the end of the queue of subscribers that may read on. */
static void queue_push(struct server_streams *streams, struct server_subscriber *subscriber) {
    subscriber->queued = true;
    subscriber->next_run = NULL;
    *streams->run_end = subscriber;
    streams->run_end = &subscriber->next_run;
}

static struct server_subscriber *queue_pop(struct server_streams *streams) {
    struct server_subscriber *subscriber = streams->run;
    streams->run = subscriber->next_run;
    if (streams->run == NULL) {
        streams->run_end = &streams->run;
    }
    subscriber->queued = false;
    return subscriber;
}

void server_subscriber_drained(struct server_connection *connection) {
    struct server_subscriber *subscriber = connection->subscriber;
    if (subscriber != NULL && subscriber->behind && !subscriber->queued && !connection->leaving &&
        (server_output_waiting(connection) < SERVER_OUT_SOFT / 2 || subscriber->part_done > 0)) {
        queue_push(connection->streams, subscriber);
        server_streams_wake(connection->streams);
    }
}

void server_subscriber_fall_behind(struct server_subscriber *subscriber,
                                   struct engine_event_id cursor) {
    struct server_streams *streams = subscriber->connection->streams;
    if (!subscriber->behind) {
        subscriber->behind = true;
        streams->keeping_up--;
        streams->tail_more = streams->tail_more && streams->keeping_up > 0;
    }
    subscriber->cursor = cursor;
    server_subscriber_drained(subscriber->connection);
}

/* ---- Messages ---- */

/* A message that is being delivered. */
struct saying {
    struct server_streams *streams;
    struct server_subscriber *only; /* NULL: to all subscribers that keep up */
    struct engine_event_id id;
    const struct engine_event *event; /* one of these three, or */
    const struct engine_metrics *metrics;
    const char *text; /* none of them: events were lost before `id` */
};

static struct tn_bytes payload_of(const struct saying *saying) {
    struct server_streams *streams = saying->streams;
    if (streams->payload_len == 0) {
        struct protocol_writer w = {.out = tn_writer_of(streams->payload, SERVER_EVENT_BYTES),
                                    .encoding = PROTOCOL_JSON};
        if (saying->event != NULL) {
            server_event_write(&w, saying->event);
        } else if (saying->metrics != NULL) {
            server_pool_metrics_write(&w, saying->metrics, 0);
        } else if (saying->text != NULL) {
            tn_write_raw(&w.out, saying->text, strlen(saying->text));
        } else {
            server_event_write_lost(&w, saying->id);
        }
        TN_ASSERT(!w.out.overflow);
        streams->payload_len = (uint32_t)w.out.len;
    }
    return tn_bytes_of(streams->payload, streams->payload_len);
}

static void over_add(struct server_subscriber *subscriber) {
    struct server_streams *streams = subscriber->connection->streams;
    if (!subscriber->over && !subscriber->behind) {
        subscriber->over = true;
        subscriber->next_over = streams->over;
        streams->over = subscriber;
    }
}

void server_subscriber_forget(struct server_subscriber *subscriber) {
    struct server_subscriber **at = &subscriber->connection->streams->over;
    while (subscriber->over) {
        if (*at == subscriber) {
            *at = subscriber->next_over;
            subscriber->over = false;
        } else {
            at = &(*at)->next_over;
        }
    }
}

static void mark(struct server_subscriber *subscriber) {
    struct server_streams *streams = subscriber->connection->streams;
    size_t waiting = server_output_waiting(subscriber->connection);
    if (!subscriber->unsent) {
        subscriber->unsent = true;
        subscriber->next_unsent = streams->unsent;
        streams->unsent = subscriber;
    }
    if (waiting >= SERVER_OUT_SOFT) {
        over_add(subscriber);
    }
    subscriber->doomed = subscriber->doomed || waiting > SERVER_OUT_HARD;
}

/* Whether there is room for all messages of an event: a subscriber gets all of them from the tail,
 * or none. */
static bool has_room(const struct saying *saying, struct server_subscriber *subscriber) {
    if (saying->event == NULL || saying->only != NULL) {
        return true;
    }
    if (!subscriber->skips && engine_event_id_compare(subscriber->told, saying->id) != 0) {
        subscriber->told = saying->id;
        subscriber->skips = saying->streams->unsent_bytes > ROOM_BYTES;
        if (subscriber->skips) {
            over_add(subscriber);
        }
    }
    return !subscriber->skips;
}

/* Every user may learn that events were lost. A user that was deleted before an event does not get it: users
 * are looked at before each event, because a turn also reads those that are committed during it. */
static bool is_allowed(const struct saying *saying, const struct server_connection *connection) {
    const struct access_user *user =
        access_user_of(saying->streams->access, &connection->client.login);
    if (saying->event != NULL) {
        return access_sees_event(user, saying->event);
    }
    if (saying->metrics != NULL) {
        const char *pool = saying->metrics->pool;
        return user->role != PROTOCOL_NOBODY && access_pool(user, tn_bytes_of(pool, strlen(pool)));
    }
    return true;
}

static void message_put(const struct saying *saying, struct server_subscription *s,
                        struct tn_bytes channel) {
    struct server_connection *connection = s->subscriber->connection;
    if (!is_allowed(saying, connection)) {
        return;
    }
    struct tn_bytes payload = payload_of(saying);
    if (s->subscriber->doomed || connection->leaving || connection->closing ||
        !has_room(saying, s->subscriber)) {
        return;
    }
    struct protocol_writer w =
        server_message_begin(connection, (size_t)96 + s->text_len + channel.len + payload.len);
    protocol_write_push(&w, s->pattern ? 4 : 3);
    protocol_write_text(&w, s->pattern ? "pmessage" : "message");
    protocol_write_bulk(&w, s->text, s->text_len);
    if (s->pattern) {
        protocol_write_bulk(&w, channel.at, channel.len);
    }
    protocol_write_bulk(&w, payload.at, payload.len);
    s->subscriber->doomed = !server_message_end(connection, &w) || s->subscriber->doomed;
    saying->streams->unsent_bytes += w.out.len;
    mark(s->subscriber);
}

/* Sends the gathered messages, and disconnects clients that exceed their limit. */
static void unsent_flush(struct server_streams *streams) {
    streams->unsent_bytes = 0;
    while (streams->unsent != NULL) {
        struct server_subscriber *subscriber = streams->unsent;
        struct server_connection *connection = subscriber->connection;
        streams->unsent = subscriber->next_unsent;
        subscriber->unsent = false;
        if (subscriber->doomed) {
            server_connection_overflow(connection);
        } else {
            server_messages_flush(connection);
            server_subscriber_drained(connection);
        }
    }
}

/* ---- Channels ---- */

static bool hears(const struct server_subscription *s, struct tn_bytes channel, uint64_t hash) {
    struct tn_bytes name = tn_bytes_of(s->text, s->name_len);
    return s->pattern ? tn_glob_match(name, channel)
                      : s->hash == hash && tn_bytes_equal(name, channel);
}

/* Whether the subscription may get the message: subscribers that keep up do. A message that cannot
 * be read back later also goes to other subscribers that have room. */
static bool may_hear(const struct saying *saying, const struct server_subscription *s) {
    if (saying->metrics != NULL || saying->text != NULL) {
        return server_output_waiting(s->subscriber->connection) < SERVER_OUT_SOFT;
    }
    return !s->subscriber->behind && engine_event_id_compare(saying->id, s->after) > 0;
}

/* Whether the next channel of the event is handed out in this step. An event of many pools that is
 * matched with many patterns takes several steps, each of at least one channel. */
static bool channel_begin(struct server_streams *streams) {
    uint32_t index = streams->channel++;
    if (index < streams->part_done || streams->channel_left) {
        return false;
    }
    if (index > streams->part_done && streams->looked > CHANNEL_STEP) {
        streams->channel_left = true;
        streams->part_done = index;
        return false;
    }
    return true;
}

static void channel_to_all(void *ctx, struct tn_bytes channel) {
    const struct saying *saying = ctx;
    struct server_streams *streams = saying->streams;
    if (saying->event != NULL && !channel_begin(streams)) {
        return;
    }
    uint64_t hash = tn_hash64(channel.at, channel.len, streams->seed);
    struct server_subscription *s = LIST_FIRST(server_streams_bucket(streams, hash));
    for (; s != NULL; s = LIST_NEXT(s, place)) {
        streams->looked++;
        if (hears(s, channel, hash) && may_hear(saying, s)) {
            message_put(saying, s, channel);
        }
    }
    streams->looked += streams->pattern_count + streams->pattern_steps / STEPS_A_LOOK;
    for (s = LIST_FIRST(&streams->patterns); s != NULL; s = LIST_NEXT(s, place)) {
        if (may_hear(saying, s) && hears(s, channel, hash)) {
            message_put(saying, s, channel);
        }
    }
}

/* Like channel_begin, for an event that is read for one subscriber. */
static bool channel_begin_for_one(struct server_streams *streams,
                                  struct server_subscriber *subscriber) {
    uint32_t index = streams->channel++;
    if (index < subscriber->part_done || streams->channel_left) {
        return false;
    }
    if (index > subscriber->part_done && streams->looked > CHANNEL_STEP) {
        streams->channel_left = true;
        subscriber->part_done = index;
        return false;
    }
    streams->looked +=
        subscriber->channels + subscriber->patterns + subscriber->pattern_steps / STEPS_A_LOOK;
    return true;
}

static void channel_to_one(void *ctx, struct tn_bytes channel) {
    const struct saying *saying = ctx;
    if (!channel_begin_for_one(saying->streams, saying->only)) {
        return;
    }
    uint64_t hash = tn_hash64(channel.at, channel.len, saying->streams->seed);
    for (struct server_subscription *s = saying->only->first; s != NULL; s = s->next_own) {
        if (engine_event_id_compare(saying->id, s->after) > 0 && hears(s, channel, hash)) {
            message_put(saying, s, channel);
        }
    }
}

/* Says on each of the subscriber's event channels that events were lost. */
static void lost_to_one(const struct saying *saying, struct server_subscriber *subscriber) {
    for (struct server_subscription *s = subscriber->first; s != NULL; s = s->next_own) {
        bool events = s->pattern || s->kind == SERVER_CHANNEL_EVENTS ||
                      s->kind == SERVER_CHANNEL_POOL || s->kind == SERVER_CHANNEL_HOLDER;
        if (events && engine_event_id_compare(saying->id, s->after) > 0) {
            message_put(saying, s, tn_bytes_of("events", 6));
        }
    }
}

/* ---- The tail ---- */

/* The state of one turn of reading. */
struct reading {
    struct server_streams *streams;
    struct server_subscriber *only;
    struct engine_events_span span;
    bool begun;
};

/* Announces a gap before the first event that is read. */
static void gap_tell(struct reading *reading, struct engine_event_id first) {
    struct server_streams *streams = reading->streams;
    struct saying lost = {.streams = reading->streams, .id = first};
    if (!reading->begun && reading->span.lost) {
        streams->payload_len = 0;
        struct server_subscriber *all =
            reading->only != NULL ? NULL : LIST_FIRST(&streams->subscribers);
        for (struct server_subscriber *one = all; one != NULL; one = LIST_NEXT(one, place)) {
            if (!one->behind) {
                lost_to_one(&lost, one);
            }
        }
        if (reading->only != NULL) {
            lost_to_one(&lost, reading->only);
        }
    }
    reading->begun = true;
}

/* The event is complete: subscribers that had too much unsent read the store by themselves from
 * here. */
static void event_end(struct server_streams *streams, struct engine_event_id id) {
    streams->parted = false;
    streams->part_done = 0;
    while (streams->over != NULL) {
        struct server_subscriber *subscriber = streams->over;
        streams->over = subscriber->next_over;
        subscriber->over = false;
        server_subscriber_fall_behind(subscriber, subscriber->skips ? streams->tail : id);
        subscriber->skips = false;
    }
    streams->tail = id;
}

static bool tail_visit(void *ctx, const struct engine_event *event) {
    struct reading *reading = ctx;
    struct server_streams *streams = reading->streams;
    struct engine_event_id id = {.lsn = event->fact.lsn, .index = event->fact.index};
    struct saying saying = {.streams = reading->streams, .id = id, .event = event};
    if (streams->unsent_bytes > STEP_BYTES || streams->looked > CHANNEL_STEP) {
        return false;
    }
    server_users_look(streams->owners);
    if (streams->parted && engine_event_id_compare(streams->part, id) != 0) {
        event_end(streams, streams->part); /* the rest of the event is no longer retained */
    }
    reading->begun = reading->begun || streams->parted;
    gap_tell(reading, id);
    streams->payload_len = 0;
    streams->channel = 0;
    streams->channel_left = false;
    server_event_channels(event, channel_to_all, &saying);
    if (streams->channel_left) {
        streams->parted = true;
        streams->part = id;
        return false;
    }
    event_end(streams, id);
    return streams->keeping_up > 0;
}

void server_fanout_tail(struct server_streams *streams) {
    struct reading reading = {.streams = streams};
    streams->looked = 0;
    enum tn_result code = engine_events_read(streams->engine, streams->tail, TAIL_STEP, tail_visit,
                                             &reading, &reading.span);
    unsent_flush(streams);
    if (streams->keeping_up > 0) {
        streams->tail_more = reading.span.more || code == TN_R_OVERLOADED ||
                             !engine_events_arm(streams->engine, streams->tail);
    }
}

/* Sends a message that is not an event to all subscribers of the channel. */
static void say_now(struct saying *saying, struct tn_bytes channel) {
    struct server_streams *streams = saying->streams;
    streams->payload_len = 0;
    channel_to_all(saying, channel);
    /* In the middle of an event, subscribers stay: they get all of it or none. */
    while (streams->over != NULL && !streams->parted) {
        struct server_subscriber *subscriber = streams->over;
        streams->over = subscriber->next_over;
        subscriber->over = false;
        server_subscriber_fall_behind(subscriber, streams->tail);
    }
    unsent_flush(streams);
}

void server_fanout_metrics(struct server_streams *streams, const struct engine_metrics *metrics) {
    struct saying saying = {.streams = streams, .metrics = metrics};
    uint8_t name[SERVER_CHANNEL_MAX] = "metrics:";
    size_t len = strlen(metrics->pool);
    memcpy(name + 8, metrics->pool, len);
    say_now(&saying, tn_bytes_of(name, 8 + len));
}

void server_fanout_say(struct server_streams *streams, const char *channel, const char *text) {
    struct saying saying = {.streams = streams, .text = text};
    say_now(&saying, tn_bytes_of(channel, strlen(channel)));
}

/* ---- Subscribers that are behind ---- */

static bool behind_visit(void *ctx, const struct engine_event *event) {
    struct reading *reading = ctx;
    struct engine_event_id id = {.lsn = event->fact.lsn, .index = event->fact.index};
    struct saying saying = {
        .streams = reading->streams, .only = reading->only, .id = id, .event = event};
    struct server_streams *streams = reading->streams;
    struct server_subscriber *subscriber = reading->only;
    if (engine_event_id_compare(subscriber->part, id) != 0) {
        subscriber->part_done = 0; /* the rest of that event is no longer retained */
    }
    server_users_look(streams->owners);
    bool full = server_output_waiting(subscriber->connection) >= SERVER_OUT_SOFT;
    if ((full && subscriber->part_done == 0) || streams->looked > CHANNEL_STEP) {
        return false;
    }
    reading->begun = reading->begun || subscriber->part_done > 0;
    gap_tell(reading, id);
    streams->payload_len = 0;
    streams->channel = 0;
    streams->channel_left = false;
    server_event_channels(event, channel_to_one, &saying);
    subscriber->part = id;
    subscriber->part_done = streams->channel_left ? subscriber->part_done : 0;
    return !streams->channel_left;
}

/* Reads on for a subscriber that is behind. Returns the effort in events. */
static uint32_t behind_step(struct server_streams *streams, struct server_subscriber *subscriber) {
    struct server_connection *connection = subscriber->connection;
    struct reading reading = {.streams = streams, .only = subscriber};
    uint32_t subscriptions = subscriber->channels + subscriber->patterns;
    uint32_t looks = 4 * (subscriptions + subscriber->pattern_steps / STEPS_A_LOOK) + 1;
    uint32_t step = CHANNEL_STEP / looks;
    step = step < BEHIND_STEP ? step : BEHIND_STEP;
    step = step > 0 ? step : 1;
    streams->looked = 0;
    enum tn_result code = engine_events_read(streams->engine, subscriber->cursor, step,
                                             behind_visit, &reading, &reading.span);
    /* A subscriber does not catch up in the middle of an event, be it the tail's or its own. */
    struct engine_event_id tail = streams->parted ? streams->part : streams->tail;
    bool there = streams->keeping_up > 0 && engine_event_id_compare(reading.span.next, tail) >= 0;
    bool within = subscriber->part_done > 0;
    if (code == TN_R_OK) {
        subscriber->cursor = reading.span.next;
    }
    if (code == TN_R_NOTFOUND || (code == TN_R_OK && !within && (there || !reading.span.more))) {
        server_subscriber_keep_up(subscriber, subscriber->cursor);
    }
    unsent_flush(streams);
    server_subscriber_drained(connection); /* the connection may have been closed meanwhile */
    uint32_t worth = step * looks / (CHANNEL_STEP / BEHIND_STEPS);
    return worth > step ? worth : step;
}

void server_fanout_behind(struct server_streams *streams) {
    uint32_t done = 0;
    while (streams->run != NULL && done < BEHIND_STEPS) {
        done += behind_step(streams, queue_pop(streams));
    }
}
