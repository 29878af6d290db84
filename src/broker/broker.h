/* RabbitMQ: rules come in, events go out, by AMQP 0-9-1 and librabbitmq.
 *
 * In: messages about rules (rule_message.h) from a durable queue, one after the other. Each becomes a
 * command, with the message's id as its operation id, and is acknowledged when the command is
 * committed; a message that cannot be parsed goes to the dead-letter queue. A command that the engine
 * cannot take now (overload, a full disk) waits, unacknowledged, and is tried again.
 *
 * Out: the engine's events from the start on; each is repeated until the broker has confirmed it.
 *
 * librabbitmq blocks, so each direction has a thread and a connection of its own: a broker that has
 * run out of memory stops reading from publishers, but rules must still come in. A
 * connection that is lost is made anew, after a pause that doubles; the broker's absence changes
 * nothing else. docs/rabbitmq.md has the guarantees. */
#ifndef TN_BROKER_BROKER_H
#define TN_BROKER_BROKER_H

#include "engine/events.h"

#define BROKER_REASON_MAX 256u
#define BROKER_NAME_MAX 255u /* bytes of the name of an exchange or a queue, and of a routing key */
#define BROKER_USER "amqp"   /* the user of the commands */
#define BROKER_BODY_MAX 2097152u /* bytes of one that goes out */

/* The address of the broker and our user there: amqp[s]://[USER@]HOST[:PORT][/VHOST]. */
struct broker_address {
    bool tls;
    int port;
    char host[256], vhost[256], user[256];
};

/* False: `reason` says why. A password in it is a mistake: it would be seen in the list of processes. */
bool broker_address_parse(const char *url, struct broker_address *ret_address,
                          char reason[BROKER_REASON_MAX]);

/* An event as bytes: the length, 0 if it does not fit. `event` NULL: events were lost, and `oldest` is
 * the oldest that is left. Must not wait. */
typedef size_t broker_render(const struct engine_event *event, struct engine_event_id oldest,
                             uint8_t *out, size_t room);

/* All texts are copied. */
struct broker_options {
    struct engine *engine;
    const struct os *os;
    const char *dir; /* the directory of the published position */
    struct broker_address address;
    const char *password;
    const char *ca_file;              /* of TLS: the authorities of the broker's certificate */
    const char *cert_file, *key_file; /* our own; empty: none */
    const char *exchange;             /* topic, durable */
    const char *queue;                /* durable; empty: nothing is consumed */
    const char *keys;                 /* that the queue is bound with, with blanks between them */
    const char *dead_letter; /* exchange (fanout) and queue for messages that cannot be parsed */
    const char *publish_exchange; /* topic, durable; empty: nothing is published */
    const char *publish_prefix;   /* of routing keys; the kind of the event follows */
    uint16_t prefetch;
    uint16_t heartbeat_s;
    uint32_t retry_min_ms, retry_max_ms; /* between attempts to connect */
    broker_render *render;
    void (*log)(void *ctx, const char *line); /* event=... key=value; from any thread */
    void *log_ctx;
};

struct broker;

/* Nothing happens before broker_start. Fails if there is no memory, or the published position cannot be
 * read. */
enum tn_status broker_make(const struct broker_options *options, struct broker **ret_broker);
enum tn_status broker_start(struct broker *broker);
/* Ends both threads: at once if the broker listens, else within a few seconds. */
void broker_stop(struct broker *broker);
/* After the engine is closed, which may call broker_wake until then. NULL is nothing. */
void broker_free(struct broker *broker);

/* There may be new events; from any thread, never waits. For engine_options.events_ready. */
void broker_wake(struct broker *broker);

/* The outcomes of received messages. */
#define BROKER_OUTCOME_TABLE(X)                                                      \
    X(APPLIED, "applied")     /* the command was done, or there was nothing to do */ \
    X(DUPLICATE, "duplicate") /* it had been done before */                          \
    X(MISSING, "missing")     /* about a rule that is not there, or not yet */       \
    X(STALE, "stale")         /* older than the known state of the rule */           \
    X(MALFORMED, "malformed") /* dead-lettered: not understood */                    \
    X(REFUSED, "refused")     /* dead-lettered: the command was refused, as for a full table */

enum broker_outcome {
#define BROKER_OUTCOME_ENUM(name, text) BROKER_##name,
    BROKER_OUTCOME_TABLE(BROKER_OUTCOME_ENUM)
#undef BROKER_OUTCOME_ENUM
        BROKER_OUTCOMES
};

const char *broker_outcome_name(enum broker_outcome outcome);

struct broker_stats {
    bool consumes, publishes;                  /* it is meant to */
    bool consume_connected, publish_connected; /* and can, now */
    uint64_t connects, failures;               /* of both connections */
    uint64_t outcomes[BROKER_OUTCOMES];
    uint64_t retries; /* of commands that the engine could not take */
    uint64_t published;
    uint64_t publish_gaps;         /* events were dropped before they could be published */
    char error[BROKER_REASON_MAX]; /* the last one; empty: there was none */
};

void broker_stats_read(struct broker *broker, struct broker_stats *ret_stats);

#endif
