/* Events to the broker.
 *
 * Unconfirmed events wait in a queue, keyed by delivery number. The queue has only their ids, since the
 * engine keeps the events. When a connection is lost, its queue is dropped, and events are read again
 * from the first unconfirmed one; a server that starts continues there, too. So each event arrives at
 * least once, and its id identifies a repetition. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "broker/broker_state.h"
#include "protocol/render.h"

#define FRAMES_A_TURN 64u
#define EVENTS_A_TURN 64u
#define LOST_BYTES 128u
#define MEMORY_WAIT_MS 200u

static struct broker_publisher *publisher_of(struct broker_link *link) {
    return &link->broker->publisher;
}

/* ---- The row ---- */

static uint32_t window_room(const struct broker_publisher *publisher) {
    return BROKER_WINDOW - (uint32_t)(publisher->tag_next - publisher->tag_first);
}

static struct broker_sent *sent_at(struct broker_publisher *publisher, uint64_t tag) {
    return &publisher->sent[tag % BROKER_WINDOW];
}

static void row_abandon(struct broker_publisher *publisher) {
    publisher->tag_first = publisher->tag_next = 1;
    publisher->cursor = publisher->confirmed;
}

static bool confirm(struct broker_link *link, const amqp_basic_ack_t *ack) {
    struct broker_publisher *publisher = publisher_of(link);
    struct broker *broker = link->broker;
    uint64_t from = ack->multiple ? publisher->tag_first : ack->delivery_tag;
    uint64_t published = 0;
    if (ack->delivery_tag < publisher->tag_first || ack->delivery_tag >= publisher->tag_next) {
        return broker_link_fail(link, "the broker confirmed a message that was not sent");
    }
    for (uint64_t tag = from; tag <= ack->delivery_tag; tag++) {
        sent_at(publisher, tag)->confirmed = true;
    }
    while (publisher->tag_first < publisher->tag_next &&
           sent_at(publisher, publisher->tag_first)->confirmed) {
        publisher->confirmed = sent_at(publisher, publisher->tag_first++)->event;
        published++;
    }
    pthread_mutex_lock(&broker->lock);
    broker->stats.published += published;
    pthread_mutex_unlock(&broker->lock);
    return true;
}

/* Logs the first failure, and the first success after it. */
static void position_told(struct broker *broker, enum tn_status status) {
    struct broker_publisher *publisher = &broker->publisher;
    if (status != TN_OK && !publisher->unkept) {
        broker_log(broker, "event=amqp_position_failed reason=\"%s\"", tn_status_text(status));
    }
    publisher->unkept = status != TN_OK;
}

/* ---- Sending ---- */

/* `id` empty: none. */
static bool message_send(struct broker_link *link, amqp_bytes_t key, const char *id,
                         struct tn_bytes body, struct broker_place event) {
    struct broker_publisher *publisher = publisher_of(link);
    const struct broker_options *options = &link->broker->options;
    amqp_basic_properties_t properties = {._flags = AMQP_BASIC_CONTENT_TYPE_FLAG |
                                                    AMQP_BASIC_DELIVERY_MODE_FLAG,
                                          .content_type = amqp_cstring_bytes("application/json"),
                                          .delivery_mode = AMQP_DELIVERY_PERSISTENT};
    if (*id != '\0') {
        properties._flags |= AMQP_BASIC_MESSAGE_ID_FLAG;
        properties.message_id = amqp_cstring_bytes(id);
    }
    TN_ASSERT(window_room(publisher) > 0);
    *sent_at(publisher, publisher->tag_next++) = (struct broker_sent){.event = event};
    return broker_link_status(link, "publish",
                              amqp_basic_publish(link->connection, BROKER_CHANNEL,
                                                 amqp_cstring_bytes(options->publish_exchange), key,
                                                 0, 0, &properties,
                                                 broker_bytes_of(body.at, body.len)));
}

/* ---- Events ---- */

struct batch {
    struct broker_publisher *publisher;
    size_t used;
    struct broker_place skipped; /* the last event that was passed over */
    uint32_t count;
    struct {
        struct broker_place place;
        enum kernel_event_kind kind;
        size_t at, len;
    } of[EVENTS_A_TURN];
};

/* Only administrators may see these events, and anyone may consume from an exchange. */
static bool is_private(enum kernel_event_kind kind) {
    return kind >= KERNEL_EVENT_USER_ADDED && kind <= KERNEL_EVENT_USER_DELETED;
}

/* Called inside the engine's read, which must not wait: events are rendered here and sent later. */
static bool event_visit(void *ctx, const struct engine_event *event) {
    struct batch *batch = ctx;
    struct broker_publisher *publisher = batch->publisher;
    struct engine_event_id id = {.lsn = event->fact.lsn, .index = event->fact.index};
    struct broker_place place = {.id = id, .time_ms = event->fact.now_ms};
    if (is_private(event->fact.kind)) {
        batch->skipped = place;
        return true;
    }
    size_t len = publisher->link.broker->options.render(event, id, publisher->bytes + batch->used,
                                                        BROKER_BODY_MAX - batch->used);
    if (len == 0 && batch->used > 0) {
        return false; /* no room: it is the first one next time */
    }
    batch->of[batch->count].place = place;
    batch->of[batch->count].kind = event->fact.kind;
    batch->of[batch->count].at = batch->used;
    batch->of[batch->count].len = len;
    batch->count++;
    batch->used += len;
    return true;
}

static amqp_bytes_t key_make(struct broker_link *link, const char *kind, char *out) {
    (void)snprintf(out, BROKER_NAME_MAX + 1, "%s%s", link->broker->options.publish_prefix, kind);
    return amqp_cstring_bytes(out);
}

/* Tells consumers that events were dropped before they could be read. Uses a buffer of its own,
 * because the publisher's has the events that follow. */
static bool lost_send(struct broker_link *link, struct engine_event_id oldest) {
    struct broker *broker = link->broker;
    char key[BROKER_NAME_MAX + 1];
    uint8_t bytes[LOST_BYTES];
    size_t len = broker->options.render(NULL, oldest, bytes, sizeof bytes);
    TN_ASSERT(len > 0);
    broker_log(broker, "event=amqp_events_lost oldest=%llu.%u", (unsigned long long)oldest.lsn,
               oldest.index);
    pthread_mutex_lock(&broker->lock);
    broker->stats.publish_gaps++;
    pthread_mutex_unlock(&broker->lock);
    return message_send(link, key_make(link, "lost", key), "", tn_bytes_of(bytes, len),
                        broker->publisher.cursor);
}

static bool batch_send(struct broker_link *link, const struct batch *batch) {
    struct broker_publisher *publisher = publisher_of(link);
    for (uint32_t i = 0; i < batch->count; i++) {
        char key[BROKER_NAME_MAX + 1];
        char id[PROTOCOL_EVENT_ID_TEXT];
        struct broker_place place = batch->of[i].place;
        (void)protocol_event_id_format(place.id.lsn, place.id.index, id);
        if (!message_send(link, key_make(link, kernel_event_name(batch->of[i].kind), key), id,
                          tn_bytes_of(publisher->bytes + batch->of[i].at, batch->of[i].len),
                          place)) {
            return false;
        }
        publisher->cursor = place;
    }
    return true;
}

/* AGAIN: there are more events, and room for them. */
static enum broker_turn events_send(struct broker_link *link) {
    struct broker_publisher *publisher = publisher_of(link);
    struct engine *engine = link->broker->options.engine;
    struct engine_events_span span = {0};
    struct batch batch = {.publisher = publisher};
    uint32_t room = window_room(publisher);
    if (room < 2) { /* one place is reserved for the message that events are lost */
        return BROKER_IDLE;
    }
    uint32_t most = room - 1 < EVENTS_A_TURN ? room - 1 : EVENTS_A_TURN;
    enum tn_result code =
        engine_events_read(engine, publisher->cursor.id, most, event_visit, &batch, &span);
    if (code != TN_R_OK) {
        link->wait_ms = MEMORY_WAIT_MS;
    }
    if ((span.lost && !lost_send(link, span.oldest)) || !batch_send(link, &batch)) {
        return BROKER_BROKEN;
    }
    if (engine_event_id_compare(batch.skipped.id, publisher->cursor.id) > 0) {
        publisher->cursor = batch.skipped;
    }
    if (engine_event_id_compare(span.next, publisher->cursor.id) > 0) {
        publisher->cursor =
            /* Some events cannot be read, so they count as lost. */
            (struct broker_place){.id = span.next};
    }
    if (code != TN_R_OK) {
        return BROKER_IDLE;
    }
    return span.more || !engine_events_arm(engine, publisher->cursor.id) ? BROKER_AGAIN
                                                                         : BROKER_IDLE;
}

/* ---- The connection's work ---- */

static bool publisher_begin(struct broker_link *link) {
    const struct broker_options *options = &link->broker->options;
    row_abandon(publisher_of(link));
    (void)amqp_exchange_declare(link->connection, BROKER_CHANNEL,
                                amqp_cstring_bytes(options->publish_exchange),
                                amqp_cstring_bytes("topic"), 0, 1, 0, 0, amqp_empty_table);
    if (!broker_link_good(link, "exchange")) {
        return false;
    }
    (void)amqp_confirm_select(link->connection, BROKER_CHANNEL);
    return broker_link_good(link, "confirm");
}

static enum broker_turn answers_take(struct broker_link *link) {
    for (unsigned i = 0; i < FRAMES_A_TURN; i++) {
        amqp_frame_t frame;
        enum broker_turn turn = broker_link_frame(link, &frame);
        if (turn != BROKER_AGAIN) {
            return turn;
        }
        if (frame.frame_type != AMQP_FRAME_METHOD) {
            continue;
        }
        if (frame.payload.method.id == AMQP_BASIC_NACK_METHOD) {
            (void)broker_link_fail(link, "the broker rejected a message");
            return BROKER_BROKEN;
        }
        if (frame.payload.method.id == AMQP_BASIC_ACK_METHOD &&
            !confirm(link, frame.payload.method.decoded)) {
            return BROKER_BROKEN;
        }
    }
    return BROKER_AGAIN;
}

static enum broker_turn publisher_turn(struct broker_link *link) {
    struct broker_publisher *publisher = publisher_of(link);
    enum broker_turn turn = answers_take(link);
    position_told(link->broker, broker_position_save(&publisher->position, publisher->confirmed));
    if (turn != BROKER_AGAIN && turn != BROKER_IDLE) {
        return turn;
    }
    enum broker_turn sent = events_send(link);
    /* Answers that were already read from the socket must not wait for more input. */
    return turn == BROKER_AGAIN && sent == BROKER_IDLE ? BROKER_AGAIN : sent;
}

/* ---- Beginning and end ---- */

void broker_publisher_init(struct broker *broker) {
    struct broker_publisher *publisher = &broker->publisher;
    struct broker_link *link = &publisher->link;
    link->broker = broker;
    link->name = "publish";
    link->begin = publisher_begin;
    link->turn = publisher_turn;
    publisher->tag_first = publisher->tag_next = 1;
}

static void starts_over(struct broker *broker, const char *event, const char *reason) {
    broker_log(broker, "event=%s file=\"%s/%s\" reason=\"%s\"", event, broker->options.dir,
               BROKER_POSITION_FILE, reason);
}

/* Finds where to continue: at the saved position; without one, with new events; if it is
 * unreadable, with all retained events, because publishing twice is better than never. */
static enum tn_status place_find(struct broker *broker, enum tn_status opened,
                                 struct broker_place *ret_place) {
    struct engine *engine = broker->options.engine;
    bool known = false;
    if (opened == TN_NOTFOUND) {
        return broker_place_newest(engine, ret_place);
    }
    if (opened == TN_CORRUPT) {
        starts_over(broker, "amqp_position_damaged", "all retained events are published again");
        return broker_place_oldest(engine, ret_place);
    }
    enum tn_status status = opened;
    if (status == TN_OK) {
        status = broker_place_known(engine, *ret_place, &known);
    }
    if (status != TN_OK || known) {
        return status;
    }
    starts_over(
        broker, "amqp_position_foreign",
        "it belongs to another log or is later than this log; all retained events are published");
    return broker_place_oldest(engine, ret_place);
}

enum tn_status broker_publisher_open(struct broker *broker) {
    struct broker_publisher *publisher = &broker->publisher;
    const struct broker_options *options = &broker->options;
    publisher->bytes = malloc(BROKER_BODY_MAX);
    if (publisher->bytes == NULL) {
        return TN_NOMEM;
    }
    enum tn_status opened = broker_position_open(&publisher->position, options->os, options->dir,
                                                 &publisher->confirmed);
    enum tn_status status = place_find(broker, opened, &publisher->confirmed);
    bool found = status == TN_OK;
    if (found) {
        publisher->cursor = publisher->confirmed;
        status = broker_position_anchor(&publisher->position, publisher->confirmed);
    }
    position_told(broker, status);
    /* If the first position were not durable, the next start would not know of it. */
    return found && opened != TN_NOTFOUND ? TN_OK : status;
}

void broker_publisher_close(struct broker *broker) {
    struct broker_publisher *publisher = &broker->publisher;
    if (publisher->position.is_open) {
        position_told(broker, broker_position_anchor(&publisher->position, publisher->confirmed));
        broker_position_close(&publisher->position);
    }
}
