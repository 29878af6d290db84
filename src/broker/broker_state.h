/* Internal to the files of the connections to RabbitMQ.
 *
 * Names: broker_link_*, broker_consumer_*, broker_publisher_* are ours; amqp_basic_*, amqp_queue_* and the
 * like are librabbitmq's. */
#ifndef TN_BROKER_BROKER_STATE_H
#define TN_BROKER_BROKER_STATE_H

#include <amqp.h>
#include <pthread.h>
#include <stdatomic.h>

#include "base/prng.h"
#include "broker/broker.h"
#include "broker/broker_position.h"
#include "broker/rule_message.h"

#define BROKER_CHANNEL 1u

/* The outcome of one turn of a connection. */
enum broker_turn {
    BROKER_AGAIN, /* there is more to do */
    BROKER_IDLE, /* nothing until the broker sends something, the thread is woken, or wait_ms are over */
    BROKER_DEAF,   /* nothing until wait_ms are over, whatever the broker says meanwhile */
    BROKER_BROKEN, /* the connection is to be made anew; the reason has been noted */
    BROKER_OVER,   /* the engine has stopped: nothing to be done any more */
};

/* One connection and its thread:
 *
 *     pausing --> opening --> working --+
 *        ^           |           |      |
 *        +-- failed -+-- broken -+      +--> stopped
 */
struct broker_link {
    struct broker *broker;
    const char *name;
    bool (*begin)(struct broker_link *link);            /* connected: channel, exchanges, queues */
    enum broker_turn (*turn)(struct broker_link *link); /* neither waits for long */

    pthread_t thread;
    bool running;
    int wake;                           /* an eventfd */
    amqp_connection_state_t connection; /* NULL: none */
    uint32_t wait_ms;                   /* of BROKER_DEAF, and of BROKER_IDLE if it is not 0 */
    uint32_t failures;                  /* in a row */
    struct tn_prng prng;
    char reason[BROKER_REASON_MAX];

    bool connected; /* by the lock of the figures */

    pthread_mutex_t lock;
    int socket; /* for other threads that end it; -1: none */
};

/* A message on its way in: the three kinds of frames that make it up. */
struct broker_delivery {
    enum { DELIVERY_NONE, DELIVERY_HEADER, DELIVERY_BODY, DELIVERY_WHOLE } stage;
    uint64_t tag;
    uint64_t left; /* bytes of the body that are to come */
    uint64_t size;
    uint64_t time_s; /* as the broker tells it; 0: not said */
    uint32_t key_len, id_len, body_len;
    char key[BROKER_NAME_MAX];
    char id[BROKER_NAME_MAX];
    uint8_t body[RULE_MESSAGE_MAX]; /* of a larger one, nothing */
};

struct broker_consumer {
    struct broker_link link;
    struct broker_delivery delivery;
    uint32_t retries; /* of the message at hand */
    uint64_t told_ms; /* the start of the second whose lines of the log are counted */
    uint32_t told;    /* lines in it */
    uint32_t untold;  /* and those that were left out */
};

#define BROKER_WINDOW 256u /* messages that are sent and not confirmed */

struct broker_sent {
    struct broker_place event;
    bool confirmed;
};

struct broker_publisher {
    struct broker_link link;
    struct broker_place cursor;      /* events up to here are sent */
    struct broker_place confirmed;   /* and up to here confirmed */
    struct broker_position position; /* and that is kept */
    bool unkept;                     /* it could not be, the last time */
    uint64_t tag_first, tag_next;    /* not confirmed: those from first to next - 1 */
    struct broker_sent sent[BROKER_WINDOW];
    uint8_t *bytes; /* BROKER_BODY_MAX */
};

struct broker {
    struct broker_options options; /* texts are ours */
    _Atomic bool stopping;
    struct broker_consumer consumer;
    struct broker_publisher publisher;
    pthread_mutex_t lock; /* the figures */
    struct broker_stats stats;
};

/* ---- broker_link.c ---- */

bool broker_link_init(struct broker_link *link);
void broker_link_free(struct broker_link *link);
bool broker_link_start(struct broker_link *link);
void broker_link_stop(struct broker_link *link);
void broker_link_wake(struct broker_link *link);

/* Notes why, and returns false. */
__attribute__((format(printf, 2, 3))) bool broker_link_fail(struct broker_link *link,
                                                            const char *format, ...);
/* Whether the last call of the library succeeded; if not, notes the call and the reason. */
bool broker_link_good(struct broker_link *link, const char *what);
bool broker_link_status(struct broker_link *link, const char *what, int status);

/* Reads one frame, if there is one. AGAIN: there is one; IDLE: none; BROKEN: the broker closed the channel
 * or the connection, which has been handled. */
enum broker_turn broker_link_frame(struct broker_link *link, amqp_frame_t *ret_frame);
/* So that the broker does not take silence for death while we do not read. */
bool broker_link_beat(struct broker_link *link);

__attribute__((format(printf, 2, 3))) void broker_log(struct broker *broker, const char *format,
                                                      ...);
/* As it can stand between quotes in a line of the log; returns `out`. */
const char *broker_log_text(struct tn_bytes text, char *out, size_t room);

static inline amqp_bytes_t broker_bytes_of(const void *at, size_t len) {
    return (amqp_bytes_t){.len = len, .bytes = (void *)(uintptr_t)at};
}

/* ---- broker_consume.c, broker_publish.c ---- */

void broker_consumer_init(struct broker *broker);
void broker_publisher_init(struct broker *broker);
/* Where it was; at the first time, from now on. */
enum tn_status broker_publisher_open(struct broker *broker);
/* After its thread has ended, while the directory is ours. */
void broker_publisher_close(struct broker *broker);

#endif
