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
    /* Nothing to do until the broker sends something, the thread is woken, or wait_ms has
     * passed. */
    BROKER_IDLE,
    BROKER_DEAF,   /* nothing to do until wait_ms has passed, whatever the broker sends */
    BROKER_BROKEN, /* the connection must be made again; the reason has been noted */
    BROKER_OVER,   /* the engine has stopped, so there is nothing more to do */
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
    enum broker_turn (*turn)(struct broker_link *link); /* both return soon */

    pthread_t thread;
    bool running;
    int wake;                           /* an eventfd */
    amqp_connection_state_t connection; /* NULL: none */
    uint32_t wait_ms;                   /* for BROKER_DEAF; for BROKER_IDLE if it is not 0 */
    uint32_t failures;                  /* in a row */
    struct tn_prng prng;
    char reason[BROKER_REASON_MAX];

    bool connected; /* protected by the lock of the figures */

    pthread_mutex_t lock;
    int socket; /* for other threads that close it; -1: none */
};

/* A message being received, which consists of three kinds of frames. */
struct broker_delivery {
    enum { DELIVERY_NONE, DELIVERY_HEADER, DELIVERY_BODY, DELIVERY_WHOLE } stage;
    uint64_t tag;
    uint64_t left; /* bytes of the body still to come */
    uint64_t size;
    uint64_t time_s; /* the broker's timestamp; 0: none */
    uint32_t key_len, id_len, body_len;
    char key[BROKER_NAME_MAX];
    char id[BROKER_NAME_MAX];
    uint8_t body[RULE_MESSAGE_MAX]; /* empty if the message is larger */
};

struct broker_consumer {
    struct broker_link link;
    struct broker_delivery delivery;
    uint32_t retries; /* of the current message */
    uint64_t told_ms; /* beginning of the second in which log lines are counted */
    uint32_t told;    /* lines in it */
    uint32_t untold;  /* lines suppressed in that second */
};

#define BROKER_WINDOW 256u /* messages sent and not confirmed, at most */

struct broker_sent {
    struct broker_place event;
    bool confirmed;
};

struct broker_publisher {
    struct broker_link link;
    struct broker_place cursor;      /* events up to here have been sent */
    struct broker_place confirmed;   /* events up to here have been confirmed */
    struct broker_position position; /* where `confirmed` is stored */
    bool unkept;                     /* storing it failed the last time */
    uint64_t tag_first, tag_next;    /* messages not confirmed: from first to next - 1 */
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

/* Notes the reason, and returns false. */
__attribute__((format(printf, 2, 3))) bool broker_link_fail(struct broker_link *link,
                                                            const char *format, ...);
/* Whether the last call of the library succeeded. If not, notes the call and the reason. */
bool broker_link_good(struct broker_link *link, const char *what);
bool broker_link_status(struct broker_link *link, const char *what, int status);

/* Reads one frame. AGAIN: there was one. IDLE: there is none. BROKEN: the broker has closed the
 * channel or the connection, which has been handled. */
enum broker_turn broker_link_frame(struct broker_link *link, amqp_frame_t *ret_frame);
/* Sends a heartbeat while the link does not read. */
bool broker_link_beat(struct broker_link *link);

__attribute__((format(printf, 2, 3))) void broker_log(struct broker *broker, const char *format,
                                                      ...);
/* Makes the text suitable for a quoted value of a log line. Returns `out`. */
const char *broker_log_text(struct tn_bytes text, char *out, size_t room);

static inline amqp_bytes_t broker_bytes_of(const void *at, size_t len) {
    return (amqp_bytes_t){.len = len, .bytes = (void *)(uintptr_t)at};
}

/* ---- broker_consume.c, broker_publish.c ---- */

void broker_consumer_init(struct broker *broker);
void broker_publisher_init(struct broker *broker);
/* Opens the position: where publishing continues. */
enum tn_status broker_publisher_open(struct broker *broker);
/* Called after its thread has ended, while the directory is locked. */
void broker_publisher_close(struct broker *broker);

#endif
