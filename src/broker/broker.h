/* RabbitMQ: rules come in, events go out, by AMQP 0-9-1 and librabbitmq.
 *
 * In: messages about rules (rule_message.h) from a durable queue, one after the other. Each becomes a
 * command, with the message's id as its operation id, and is acknowledged when the command is
 * committed; a message that cannot be parsed goes to the dead-letter queue. A command that the engine
 * cannot accept now (overload, a full disk) waits, unacknowledged, and is tried again.
 *
 * Out: the engine's events from the start on; each is repeated until the broker has confirmed it.
 *
 * librabbitmq blocks, so each direction has a thread and a connection of its own: a broker that has
 * run out of memory stops reading from publishers, but rules must still come in. A
 * connection that is lost is made again, after a pause that doubles; the broker's absence changes
 * nothing else. docs/rabbitmq.md has the guarantees. */
#ifndef TN_BROKER_BROKER_H
#define TN_BROKER_BROKER_H

#include "engine/events.h"

#define BROKER_REASON_MAX 256u
#define BROKER_NAME_MAX 255u /* bytes of the name of an exchange or a queue, and of a routing key */
#define BROKER_USER "amqp"   /* the user of its commands */
#define BROKER_BODY_MAX 2097152u /* maximum bytes of a published message */

/* The address of the broker and the user there: amqp[s]://[USER@]HOST[:PORT][/VHOST]. */
struct broker_address {
    bool tls;
    int port;
    char host[256], vhost[256], user[256];
};

/* False: `reason` says why. A password in the URL is an error, because the list of processes would
 * show it. */
bool broker_address_parse(const char *url, struct broker_address *ret_address,
                          char reason[BROKER_REASON_MAX]);

/* Renders an event. Returns the length; 0: it does not fit. `event` NULL: events were lost, and
 * `oldest` is the oldest retained one. Must not wait. */
typedef size_t broker_render(const struct engine_event *event, struct engine_event_id oldest,
                             uint8_t *out, size_t room);

/* All texts are copied. */
struct broker_options {
    struct engine *engine;
    const struct os *os;
    const char *dir; /* the directory for the published position */
    struct broker_address address;
    const char *password;
    const char *ca_file;              /* for TLS: the authorities of the broker's certificate */
    const char *cert_file, *key_file; /* this server's own; empty: none */
    const char *exchange;             /* topic, durable */
    const char *queue;                /* durable; empty: nothing is consumed */
    const char *keys;                 /* routing keys for the queue, separated by blanks */
    const char *dead_letter; /* exchange (fanout) and queue for messages that cannot be parsed */
    const char *publish_exchange; /* topic, durable; empty: nothing is published */
    const char *publish_prefix;   /* of routing keys, followed by the kind of the event */
    uint16_t prefetch;
    uint16_t heartbeat_s;
    uint32_t retry_min_ms, retry_max_ms; /* delays between attempts to connect */
    broker_render *render;
    /* Receives event=... key=value; called from any thread. */
    void (*log)(void *ctx, const char *line);
    void *log_ctx;
};

struct broker;

/* Connects to nothing before broker_start. Fails if memory is short or the published position
 * cannot be read. */
enum tn_status broker_make(const struct broker_options *options, struct broker **ret_broker);
enum tn_status broker_start(struct broker *broker);
/* Ends both threads: at once if the broker responds, otherwise within a few seconds. */
void broker_stop(struct broker *broker);
/* Called after the engine is closed, which may call broker_wake until then. NULL is allowed. */
void broker_free(struct broker *broker);

/* Tells that there may be new events. From any thread; never waits. For
 * engine_options.events_ready. */
void broker_wake(struct broker *broker);

/* The outcomes of received messages. */
#define BROKER_OUTCOME_TABLE(X)                                                         \
    X(APPLIED, "applied")     /* the command was executed, or nothing had to be done */ \
    X(DUPLICATE, "duplicate") /* it had been done before */                             \
    X(MISSING, "missing")     /* about a rule that does not exist, or not yet */        \
    X(STALE, "stale")         /* older than the known state of the rule */              \
    X(MALFORMED, "malformed") /* dead-lettered: not understood */                       \
    X(REFUSED, "refused")     /* dead-lettered: the command was refused, as for a full table */

enum broker_outcome {
#define BROKER_OUTCOME_ENUM(name, text) BROKER_##name,
    BROKER_OUTCOME_TABLE(BROKER_OUTCOME_ENUM)
#undef BROKER_OUTCOME_ENUM
        BROKER_OUTCOMES
};

const char *broker_outcome_name(enum broker_outcome outcome);

struct broker_stats {
    bool consumes, publishes;                  /* whether it should consume, and publish */
    bool consume_connected, publish_connected; /* and can, now */
    uint64_t connects, failures;               /* of both connections */
    uint64_t outcomes[BROKER_OUTCOMES];
    uint64_t retries; /* repetitions of commands that the engine could not accept */
    uint64_t published;
    uint64_t publish_gaps; /* how often events were dropped before they could be published */
    char error[BROKER_REASON_MAX]; /* the last error; empty: there was none */
};

void broker_stats_read(struct broker *broker, struct broker_stats *ret_stats);

#endif
