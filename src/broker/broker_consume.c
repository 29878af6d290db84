/* Rules from the broker: from frames to a message, from a message to a command, from its result to an
 * answer for the broker.
 *
 *     none --deliver--> header --> body --> whole --commit--> acknowledged
 *                                             |  ^                or dead-lettered
 *                                             +--+ not now: the engine is full, the disk is full
 *
 * A message is answered before the next one is read, so their order is kept. The consumer is an
 * exclusive one for the same reason: two servers on one queue would share out its messages. */
#include <string.h>

#include "broker/broker_state.h"

#define FRAMES_A_TURN 64u
#define RETRY_MIN_MS 50u
#define RETRY_MAX_MS 2000u
#define LINES_MAX 16u                      /* log lines about messages per second */
#define AHEAD_MAX_MS (24u * 3600u * 1000u) /* how far clocks elsewhere may be ahead of ours */

static struct broker_consumer *consumer_of(struct broker_link *link) {
    return &link->broker->consumer;
}

/* ---- Exchanges and queues ---- */

static bool exchange_declare(struct broker_link *link, const char *name, const char *type) {
    (void)amqp_exchange_declare(link->connection, BROKER_CHANNEL, amqp_cstring_bytes(name),
                                amqp_cstring_bytes(type), 0, 1, 0, 0, amqp_empty_table);
    return broker_link_good(link, "exchange");
}

static bool queue_declare(struct broker_link *link, const char *name, amqp_table_t arguments) {
    (void)amqp_queue_declare(link->connection, BROKER_CHANNEL, amqp_cstring_bytes(name), 0, 1, 0, 0,
                             arguments);
    return broker_link_good(link, "queue");
}

static bool queue_bind(struct broker_link *link, const char *queue, const char *exchange,
                       struct tn_bytes key) {
    (void)amqp_queue_bind(link->connection, BROKER_CHANNEL, amqp_cstring_bytes(queue),
                          amqp_cstring_bytes(exchange), broker_bytes_of(key.at, key.len),
                          amqp_empty_table);
    return broker_link_good(link, "binding");
}

/* Returns the next word at *at and advances *at. False: there is none. */
static bool word_next(const char **at, struct tn_bytes *ret_word) {
    const char *begin = *at + strspn(*at, " \t,");
    size_t len = strcspn(begin, " \t,");
    *at = begin + len;
    *ret_word = tn_bytes_of(begin, len);
    return len > 0;
}

static bool topology(struct broker_link *link) {
    const struct broker_options *options = &link->broker->options;
    amqp_table_entry_t entry = {.key = amqp_cstring_bytes("x-dead-letter-exchange"),
                                .value = {.kind = AMQP_FIELD_KIND_UTF8,
                                          .value.bytes = amqp_cstring_bytes(options->dead_letter)}};
    amqp_table_t arguments = {.num_entries = 1, .entries = &entry};
    if (!exchange_declare(link, options->exchange, "topic") ||
        !exchange_declare(link, options->dead_letter, "fanout") ||
        !queue_declare(link, options->dead_letter, amqp_empty_table) ||
        !queue_bind(link, options->dead_letter, options->dead_letter, tn_bytes_of("", 0)) ||
        !queue_declare(link, options->queue, arguments)) {
        return false;
    }
    const char *at = options->keys;
    struct tn_bytes key;
    while (word_next(&at, &key)) {
        if (!queue_bind(link, options->queue, options->exchange, key)) {
            return false;
        }
    }
    return true;
}

static bool consumer_begin(struct broker_link *link) {
    const struct broker_options *options = &link->broker->options;
    consumer_of(link)->delivery.stage = DELIVERY_NONE;
    if (!topology(link)) {
        return false;
    }
    (void)amqp_basic_qos(link->connection, BROKER_CHANNEL, 0, options->prefetch, 0);
    if (!broker_link_good(link, "prefetch")) {
        return false;
    }
    (void)amqp_basic_consume(link->connection, BROKER_CHANNEL, amqp_cstring_bytes(options->queue),
                             amqp_empty_bytes, 0, 0, 1, amqp_empty_table);
    return broker_link_good(link, "consume");
}

/* ---- Frames to a message ---- */

static uint32_t text_copy(char *out, amqp_bytes_t text) {
    uint32_t len = text.len < BROKER_NAME_MAX ? (uint32_t)text.len : BROKER_NAME_MAX;
    if (len > 0) {
        memcpy(out, text.bytes, len);
    }
    return len;
}

static void header_take(struct broker_delivery *delivery, const amqp_frame_t *frame) {
    const amqp_basic_properties_t *properties = frame->payload.properties.decoded;
    delivery->size = delivery->left = frame->payload.properties.body_size;
    delivery->stage = delivery->left > 0 ? DELIVERY_BODY : DELIVERY_WHOLE;
    if (properties->_flags & AMQP_BASIC_MESSAGE_ID_FLAG) {
        delivery->id_len = text_copy(delivery->id, properties->message_id);
    }
    if (properties->_flags & AMQP_BASIC_TIMESTAMP_FLAG) {
        delivery->time_s = properties->timestamp;
    }
}

static void body_take(struct broker_delivery *delivery, const amqp_frame_t *frame) {
    amqp_bytes_t part = frame->payload.body_fragment;
    uint64_t len = part.len < delivery->left ? part.len : delivery->left;
    if (delivery->size <= sizeof delivery->body) {
        memcpy(delivery->body + delivery->body_len, part.bytes, len);
        delivery->body_len += (uint32_t)len;
    }
    delivery->left -= len;
    delivery->stage = delivery->left > 0 ? DELIVERY_BODY : DELIVERY_WHOLE;
}

/* False: the frame is out of place. */
static bool frame_take(struct broker_delivery *delivery, const amqp_frame_t *frame) {
    switch (frame->frame_type) {
    case AMQP_FRAME_METHOD: {
        if (frame->payload.method.id != AMQP_BASIC_DELIVER_METHOD) {
            return true;
        }
        const amqp_basic_deliver_t *deliver = frame->payload.method.decoded;
        bool expected = delivery->stage == DELIVERY_NONE;
        delivery->stage = DELIVERY_HEADER;
        delivery->tag = deliver->delivery_tag;
        delivery->id_len = delivery->body_len = 0;
        delivery->time_s = 0;
        delivery->key_len = text_copy(delivery->key, deliver->routing_key);
        return expected;
    }
    case AMQP_FRAME_HEADER:
        if (delivery->stage != DELIVERY_HEADER) {
            return false;
        }
        header_take(delivery, frame);
        return true;
    case AMQP_FRAME_BODY:
        if (delivery->stage != DELIVERY_BODY) {
            return false;
        }
        body_take(delivery, frame);
        return true;
    default:
        return true;
    }
}

/* ---- A message to a command, and its result to an answer ---- */

static void outcome_count(struct broker *broker, enum broker_outcome outcome) {
    pthread_mutex_lock(&broker->lock);
    broker->stats.outcomes[outcome]++;
    pthread_mutex_unlock(&broker->lock);
}

/* Publishers decide how many messages arrive, but must not decide how long the log becomes.
 * Suppressed lines are counted and reported with the next one. */
static bool may_tell(struct broker *broker) {
    struct broker_consumer *consumer = &broker->consumer;
    const struct os *os = broker->options.os;
    uint64_t now_ms = os->clock_boot_ms(os->ctx);
    if (now_ms - consumer->told_ms >= 1000) {
        if (consumer->untold > 0) {
            broker_log(broker, "event=amqp_messages_untold more=%u", consumer->untold);
        }
        consumer->told_ms = now_ms;
        consumer->told = consumer->untold = 0;
    }
    bool may = consumer->told < LINES_MAX;
    consumer->told += may;
    consumer->untold += !may;
    return may;
}

static void told(struct broker *broker, const char *event, const char *reason) {
    const struct broker_delivery *delivery = &broker->consumer.delivery;
    if (!may_tell(broker)) {
        return;
    }
    char key[BROKER_NAME_MAX + 1];
    char id[BROKER_NAME_MAX + 1];
    broker_log(broker, "event=%s queue=\"%s\" routing_key=\"%s\" message_id=\"%s\" reason=\"%s\"",
               event, broker->options.queue,
               broker_log_text(tn_bytes_of(delivery->key, delivery->key_len), key, sizeof key),
               broker_log_text(tn_bytes_of(delivery->id, delivery->id_len), id, sizeof id), reason);
}

static enum broker_turn acknowledge(struct broker_link *link) {
    struct broker_consumer *consumer = consumer_of(link);
    uint64_t tag = consumer->delivery.tag;
    consumer->delivery.stage = DELIVERY_NONE;
    consumer->retries = 0;
    int status = amqp_basic_ack(link->connection, BROKER_CHANNEL, tag, 0);
    return broker_link_status(link, "acknowledge", status) ? BROKER_AGAIN : BROKER_BROKEN;
}

/* Rejects the message without redelivery: the broker moves it to the dead-letter queue. */
static enum broker_turn reject(struct broker_link *link, enum broker_outcome outcome,
                               const char *reason) {
    struct broker_consumer *consumer = consumer_of(link);
    uint64_t tag = consumer->delivery.tag;
    told(link->broker, "amqp_message_rejected", reason);
    outcome_count(link->broker, outcome);
    consumer->delivery.stage = DELIVERY_NONE;
    consumer->retries = 0;
    int status = amqp_basic_reject(link->connection, BROKER_CHANNEL, tag, 0);
    return broker_link_status(link, "reject", status) ? BROKER_AGAIN : BROKER_BROKEN;
}

/* The engine cannot accept the command now. The message stays unacknowledged, and later ones wait
 * at the broker. */
static enum broker_turn retry_later(struct broker_link *link, enum tn_result code) {
    struct broker_consumer *consumer = consumer_of(link);
    struct broker *broker = link->broker;
    if (consumer->retries++ == 0) {
        told(broker, "amqp_message_waits", tn_result_text(code));
    }
    pthread_mutex_lock(&broker->lock);
    broker->stats.retries++;
    pthread_mutex_unlock(&broker->lock);
    uint32_t shift = consumer->retries < 8 ? consumer->retries : 8;
    uint32_t ms = RETRY_MIN_MS << shift;
    link->wait_ms = ms < RETRY_MAX_MS ? ms : RETRY_MAX_MS;
    return broker_link_beat(link) ? BROKER_DEAF : BROKER_BROKEN;
}

static enum broker_turn result_take(struct broker_link *link, const struct kernel_result *result) {
    struct broker *broker = link->broker;
    switch (engine_outcome(result)) {
    case TN_COMMITTED:
        break;
    case TN_REJECTED:
        if (result->code == TN_R_CLOSED) {
            return BROKER_OVER;
        }
        if (result->code == TN_R_MALFORMED) {
            return reject(link, BROKER_REFUSED, tn_result_text(result->code));
        }
        return retry_later(link, result->code);
    case TN_UNKNOWN:
        return BROKER_OVER; /* the message is delivered again after recovery */
    }
    if (result->code == TN_R_NOTFOUND) {
        told(broker, "amqp_rule_missing", "the rule does not exist (yet)");
        outcome_count(broker, BROKER_MISSING);
        return acknowledge(link);
    }
    if (result->code == TN_R_STALE) {
        outcome_count(broker, BROKER_STALE);
        return acknowledge(link);
    }
    if (result->code != TN_R_OK && result->code != TN_R_NOOP) {
        return reject(link, BROKER_REFUSED, tn_result_text(result->code));
    }
    outcome_count(broker, result->replayed ? BROKER_DUPLICATE : BROKER_APPLIED);
    return acknowledge(link);
}

/* When the message was made; 0: unknown. A time far in the future would make all later messages
 * about the rule outdated, so it counts as unknown. */
static uint64_t time_of(const struct broker_link *link, const struct rule_message *message) {
    const struct broker_delivery *delivery = &link->broker->consumer.delivery;
    uint64_t most_us = (engine_now(link->broker->options.engine) + AHEAD_MAX_MS) * 1000;
    uint64_t time_us = message->time_us;
    if (time_us == 0 && delivery->time_s < UINT32_MAX) {
        time_us = delivery->time_s * 1000000;
    }
    return time_us <= most_us ? time_us : 0;
}

static enum broker_turn message_take(struct broker_link *link) {
    struct broker_delivery *delivery = &consumer_of(link)->delivery;
    struct rule_message message;
    struct kernel_result result = {0};
    if (delivery->size > sizeof delivery->body) {
        return reject(link, BROKER_MALFORMED, "it is too long");
    }
    const char *fault = rule_message_parse(tn_bytes_of(delivery->body, delivery->body_len),
                                           tn_bytes_of(delivery->key, delivery->key_len), &message);
    if (fault != NULL) {
        return reject(link, BROKER_MALFORMED, fault);
    }
    message.time_us = time_of(link, &message);
    struct kernel_command command = rule_message_command(&message);
    if (delivery->id_len > 0) {
        message.id_len = rule_message_opid(tn_bytes_of(delivery->id, delivery->id_len), message.id);
    }
    command.user = tn_bytes_of(BROKER_USER, strlen(BROKER_USER));
    command.opid = tn_bytes_of(message.id, message.id_len);
    engine_execute(link->broker->options.engine, &command, &result);
    return result_take(link, &result);
}

static enum broker_turn consumer_turn(struct broker_link *link) {
    struct broker_delivery *delivery = &consumer_of(link)->delivery;
    for (unsigned i = 0; i < FRAMES_A_TURN; i++) {
        enum broker_turn turn;
        if (delivery->stage == DELIVERY_WHOLE) {
            turn = message_take(link);
        } else {
            amqp_frame_t frame;
            turn = broker_link_frame(link, &frame);
            if (turn == BROKER_AGAIN && frame.channel == BROKER_CHANNEL &&
                !frame_take(delivery, &frame)) {
                (void)broker_link_fail(link, "the broker's frames are out of order");
                turn = BROKER_BROKEN;
            }
        }
        if (turn != BROKER_AGAIN) {
            return turn;
        }
    }
    return BROKER_AGAIN;
}

void broker_consumer_init(struct broker *broker) {
    struct broker_link *link = &broker->consumer.link;
    link->broker = broker;
    link->name = "consume";
    link->begin = consumer_begin;
    link->turn = consumer_turn;
}
