/* Events to the broker.
 *
 * What is sent stands in a row, by the number that the broker will confirm it with, until it is; by ids
 * only, since the engine keeps the events. A connection that is lost takes the row with it, and events
 * are read again from the first that was not confirmed, which is also where a server that starts goes
 * on. So each arrives at least once, and an event's id tells a repetition. */
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

static struct amqp_publisher *publisher_of(struct amqp_link *link) {
    return &link->amqp->publisher;
}

/* ---- The row ---- */

static uint32_t window_room(const struct amqp_publisher *publisher) {
    return AMQP_WINDOW - (uint32_t)(publisher->tag_next - publisher->tag_first);
}

static struct amqp_sent *sent_at(struct amqp_publisher *publisher, uint64_t tag) {
    return &publisher->sent[tag % AMQP_WINDOW];
}

static void row_abandon(struct amqp_publisher *publisher) {
    publisher->tag_first = publisher->tag_next = 1;
    publisher->cursor = publisher->settled;
}

static bool confirm(struct amqp_link *link, const amqp_basic_ack_t *ack) {
    struct amqp_publisher *publisher = publisher_of(link);
    struct amqp *amqp = link->amqp;
    uint64_t from = ack->multiple ? publisher->tag_first : ack->delivery_tag;
    uint64_t published = 0;
    if (ack->delivery_tag < publisher->tag_first || ack->delivery_tag >= publisher->tag_next) {
        return amqp_link_fail(link, "the broker confirms what was not sent");
    }
    for (uint64_t tag = from; tag <= ack->delivery_tag; tag++) {
        sent_at(publisher, tag)->confirmed = true;
    }
    while (publisher->tag_first < publisher->tag_next &&
           sent_at(publisher, publisher->tag_first)->confirmed) {
        publisher->settled = sent_at(publisher, publisher->tag_first++)->event;
        published++;
    }
    pthread_mutex_lock(&amqp->lock);
    amqp->stats.published += published;
    pthread_mutex_unlock(&amqp->lock);
    return true;
}

/* A failure is logged once, and after the next success once more. */
static void position_told(struct amqp *amqp, enum tn_status status) {
    struct amqp_publisher *publisher = &amqp->publisher;
    if (status != TN_OK && !publisher->unkept) {
        amqp_log(amqp, "event=amqp_position_failed reason=\"%s\"", tn_status_text(status));
    }
    publisher->unkept = status != TN_OK;
}

/* ---- Sending ---- */

/* `id` empty: none. */
static bool message_send(struct amqp_link *link, amqp_bytes_t key, const char *id,
                         struct tn_bytes body, struct amqp_place event) {
    struct amqp_publisher *publisher = publisher_of(link);
    const struct amqp_options *options = &link->amqp->options;
    amqp_basic_properties_t properties = {._flags = AMQP_BASIC_CONTENT_TYPE_FLAG |
                                                    AMQP_BASIC_DELIVERY_MODE_FLAG,
                                          .content_type = amqp_cstring_bytes("application/json"),
                                          .delivery_mode = AMQP_DELIVERY_PERSISTENT};
    if (*id != '\0') {
        properties._flags |= AMQP_BASIC_MESSAGE_ID_FLAG;
        properties.message_id = amqp_cstring_bytes(id);
    }
    TN_ASSERT(window_room(publisher) > 0);
    *sent_at(publisher, publisher->tag_next++) = (struct amqp_sent){.event = event};
    return amqp_link_status(link, "publish",
                            amqp_basic_publish(link->connection, AMQP_CHANNEL,
                                               amqp_cstring_bytes(options->publish_exchange), key,
                                               0, 0, &properties,
                                               amqp_bytes_of(body.at, body.len)));
}

/* ---- Events ---- */

struct batch {
    struct amqp_publisher *publisher;
    size_t used;
    uint32_t count;
    struct {
        struct amqp_place place;
        enum kernel_event_kind kind;
        size_t at, len;
    } of[EVENTS_A_TURN];
};

/* Inside the engine's read, where nothing may wait: rendered here, sent after. */
static bool event_visit(void *ctx, const struct engine_event *event) {
    struct batch *batch = ctx;
    struct amqp_publisher *publisher = batch->publisher;
    struct engine_event_id id = {.lsn = event->fact.lsn, .index = event->fact.index};
    size_t len = publisher->link.amqp->options.render(event, id, publisher->bytes + batch->used,
                                                      AMQP_BODY_MAX - batch->used);
    if (len == 0 && batch->used > 0) {
        return false; /* no room: it comes first next time */
    }
    batch->of[batch->count].place = (struct amqp_place){.id = id, .time_ms = event->fact.now_ms};
    batch->of[batch->count].kind = event->fact.kind;
    batch->of[batch->count].at = batch->used;
    batch->of[batch->count].len = len;
    batch->count++;
    batch->used += len;
    return true;
}

static amqp_bytes_t key_make(struct amqp_link *link, const char *kind, char *out) {
    (void)snprintf(out, AMQP_NAME_MAX + 1, "%s%s", link->amqp->options.publish_prefix, kind);
    return amqp_cstring_bytes(out);
}

/* Some were dropped before they could be read: those who listen are told. In bytes of its own: those of
 * the publisher have the events that follow. */
static bool lost_send(struct amqp_link *link, struct engine_event_id oldest) {
    struct amqp *amqp = link->amqp;
    char key[AMQP_NAME_MAX + 1];
    uint8_t bytes[LOST_BYTES];
    size_t len = amqp->options.render(NULL, oldest, bytes, sizeof bytes);
    TN_ASSERT(len > 0);
    amqp_log(amqp, "event=amqp_events_lost oldest=%llu.%u", (unsigned long long)oldest.lsn,
             oldest.index);
    pthread_mutex_lock(&amqp->lock);
    amqp->stats.publish_gaps++;
    pthread_mutex_unlock(&amqp->lock);
    return message_send(link, key_make(link, "lost", key), "", tn_bytes_of(bytes, len),
                        amqp->publisher.cursor);
}

static bool batch_send(struct amqp_link *link, const struct batch *batch) {
    struct amqp_publisher *publisher = publisher_of(link);
    for (uint32_t i = 0; i < batch->count; i++) {
        char key[AMQP_NAME_MAX + 1];
        char id[PROTOCOL_EVENT_ID_TEXT];
        struct amqp_place place = batch->of[i].place;
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

/* AGAIN: there are more, and room for them. */
static enum amqp_turn events_send(struct amqp_link *link) {
    struct amqp_publisher *publisher = publisher_of(link);
    struct engine *engine = link->amqp->options.engine;
    struct engine_events_span span = {0};
    struct batch batch = {.publisher = publisher};
    uint32_t room = window_room(publisher);
    if (room < 2) { /* one for the news that some are lost */
        return AMQP_IDLE;
    }
    uint32_t most = room - 1 < EVENTS_A_TURN ? room - 1 : EVENTS_A_TURN;
    enum tn_result code =
        engine_events_read(engine, publisher->cursor.id, most, event_visit, &batch, &span);
    if (code != TN_R_OK) {
        link->wait_ms = MEMORY_WAIT_MS;
    }
    if ((span.lost && !lost_send(link, span.oldest)) || !batch_send(link, &batch)) {
        return AMQP_BROKEN;
    }
    if (engine_event_id_compare(span.next, publisher->cursor.id) > 0) {
        publisher->cursor =
            (struct amqp_place){.id = span.next}; /* some cannot be read: lost, too */
    }
    if (code != TN_R_OK) {
        return AMQP_IDLE;
    }
    return span.more || !engine_events_arm(engine, publisher->cursor.id) ? AMQP_AGAIN : AMQP_IDLE;
}

/* ---- The connection's work ---- */

static bool publisher_begin(struct amqp_link *link) {
    const struct amqp_options *options = &link->amqp->options;
    row_abandon(publisher_of(link));
    (void)amqp_exchange_declare(link->connection, AMQP_CHANNEL,
                                amqp_cstring_bytes(options->publish_exchange),
                                amqp_cstring_bytes("topic"), 0, 1, 0, 0, amqp_empty_table);
    if (!amqp_link_good(link, "exchange")) {
        return false;
    }
    (void)amqp_confirm_select(link->connection, AMQP_CHANNEL);
    return amqp_link_good(link, "confirm");
}

static enum amqp_turn answers_take(struct amqp_link *link) {
    for (unsigned i = 0; i < FRAMES_A_TURN; i++) {
        amqp_frame_t frame;
        enum amqp_turn turn = amqp_link_frame(link, &frame);
        if (turn != AMQP_AGAIN) {
            return turn;
        }
        if (frame.frame_type != AMQP_FRAME_METHOD) {
            continue;
        }
        if (frame.payload.method.id == AMQP_BASIC_NACK_METHOD) {
            (void)amqp_link_fail(link, "the broker could not take a message");
            return AMQP_BROKEN;
        }
        if (frame.payload.method.id == AMQP_BASIC_ACK_METHOD &&
            !confirm(link, frame.payload.method.decoded)) {
            return AMQP_BROKEN;
        }
    }
    return AMQP_AGAIN;
}

static enum amqp_turn publisher_turn(struct amqp_link *link) {
    struct amqp_publisher *publisher = publisher_of(link);
    enum amqp_turn turn = answers_take(link);
    position_told(link->amqp, amqp_position_save(&publisher->position, publisher->settled));
    if (turn != AMQP_AGAIN && turn != AMQP_IDLE) {
        return turn;
    }
    enum amqp_turn sent = events_send(link);
    /* Answers that have been read from the socket already are not waited for there. */
    return turn == AMQP_AGAIN && sent == AMQP_IDLE ? AMQP_AGAIN : sent;
}

/* ---- Beginning and end ---- */

void amqp_publisher_init(struct amqp *amqp) {
    struct amqp_publisher *publisher = &amqp->publisher;
    struct amqp_link *link = &publisher->link;
    link->amqp = amqp;
    link->name = "publish";
    link->begin = publisher_begin;
    link->turn = publisher_turn;
    publisher->tag_first = publisher->tag_next = 1;
}

static void starts_over(struct amqp *amqp, const char *event, const char *reason) {
    amqp_log(amqp, "event=%s file=\"%s/%s\" reason=\"%s\"", event, amqp->options.dir,
             AMQP_POSITION_FILE, reason);
}

/* Where it was; at the first time, from now on; if that is not known, all that is kept: once too often
 * is better than never. */
static enum tn_status place_find(struct amqp *amqp, enum tn_status opened,
                                 struct amqp_place *ret_place) {
    struct engine *engine = amqp->options.engine;
    bool known = false;
    if (opened == TN_NOTFOUND) {
        return amqp_place_newest(engine, ret_place);
    }
    if (opened == TN_CORRUPT) {
        starts_over(amqp, "amqp_position_damaged",
                    "all events that are kept are published once more");
        return amqp_place_oldest(engine, ret_place);
    }
    enum tn_status status = opened;
    if (status == TN_OK) {
        status = amqp_place_known(engine, *ret_place, &known);
    }
    if (status != TN_OK || known) {
        return status;
    }
    starts_over(amqp, "amqp_position_foreign",
                "it is of another log, or of later than this one: "
                "all events that are kept are published");
    return amqp_place_oldest(engine, ret_place);
}

enum tn_status amqp_publisher_open(struct amqp *amqp) {
    struct amqp_publisher *publisher = &amqp->publisher;
    const struct amqp_options *options = &amqp->options;
    publisher->bytes = malloc(AMQP_BODY_MAX);
    if (publisher->bytes == NULL) {
        return TN_NOMEM;
    }
    enum tn_status opened =
        amqp_position_open(&publisher->position, options->os, options->dir, &publisher->settled);
    enum tn_status status = place_find(amqp, opened, &publisher->settled);
    bool found = status == TN_OK;
    if (found) {
        publisher->cursor = publisher->settled;
        status = amqp_position_anchor(&publisher->position, publisher->settled);
    }
    position_told(amqp, status);
    /* If the first one is not kept, the next start would not know that there was this one. */
    return found && opened != TN_NOTFOUND ? TN_OK : status;
}

void amqp_publisher_close(struct amqp *amqp) {
    struct amqp_publisher *publisher = &amqp->publisher;
    if (publisher->position.is_open) {
        position_told(amqp, amqp_position_anchor(&publisher->position, publisher->settled));
        amqp_position_close(&publisher->position);
    }
}
