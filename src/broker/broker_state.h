/* Internal to the connections to RabbitMQ: what their files share.
 *
 * Names: amqp_link_*, amqp_consumer_*, amqp_publisher_* are ours; amqp_basic_*, amqp_queue_* and the
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

#define AMQP_CHANNEL 1u

/* What a turn of a connection's work came to. */
enum amqp_turn {
    AMQP_AGAIN,  /* there is more to do */
    AMQP_IDLE,   /* nothing until the broker, or whoever wakes it, says so; or wait_ms are over */
    AMQP_DEAF,   /* nothing until wait_ms are over, whatever the broker says meanwhile */
    AMQP_BROKEN, /* the connection is to be made anew; the reason has been noted */
    AMQP_OVER,   /* the engine has stopped: nothing to be done any more */
};

/* One connection and its thread:
 *
 *     pausing --> opening --> working --+
 *        ^           |           |      |
 *        +-- failed -+-- broken -+      +--> stopped
 */
struct amqp_link {
    struct amqp *amqp;
    const char *name;
    bool (*begin)(struct amqp_link *link);          /* connected: channel, exchanges, queues */
    enum amqp_turn (*turn)(struct amqp_link *link); /* neither waits for long */

    pthread_t thread;
    bool running;
    int wake;                           /* an eventfd */
    amqp_connection_state_t connection; /* NULL: none */
    uint32_t wait_ms;                   /* of AMQP_DEAF, and of AMQP_IDLE if it is not 0 */
    uint32_t failures;                  /* in a row */
    struct tn_prng prng;
    char reason[AMQP_REASON_MAX];

    bool connected; /* by the lock of the figures */

    pthread_mutex_t lock;
    int socket; /* for those who end it from outside; -1: none */
};

/* A message on its way in: the three kinds of frames that make it up. */
struct amqp_delivery {
    enum { DELIVERY_NONE, DELIVERY_HEADER, DELIVERY_BODY, DELIVERY_WHOLE } stage;
    uint64_t tag;
    uint64_t left; /* bytes of the body that are to come */
    uint64_t size;
    uint64_t time_s; /* as the broker tells it; 0: not said */
    uint32_t key_len, id_len, body_len;
    char key[AMQP_NAME_MAX];
    char id[AMQP_NAME_MAX];
    uint8_t body[RULE_MESSAGE_MAX]; /* of a larger one, nothing */
};

struct amqp_consumer {
    struct amqp_link link;
    struct amqp_delivery delivery;
    uint32_t retries; /* of the message at hand */
};

#define AMQP_WINDOW 256u /* messages that are sent and not confirmed */

struct amqp_sent {
    struct amqp_place event;
    bool confirmed;
};

struct amqp_publisher {
    struct amqp_link link;
    struct amqp_place cursor;      /* events up to here are sent */
    struct amqp_place settled;     /* and up to here confirmed */
    struct amqp_position position; /* and that is kept */
    bool unkept;                   /* it could not be, the last time */
    uint64_t tag_first, tag_next;  /* not confirmed: those from first to next - 1 */
    struct amqp_sent sent[AMQP_WINDOW];
    uint8_t *bytes; /* AMQP_BODY_MAX */
};

struct amqp {
    struct amqp_options options; /* texts are ours */
    _Atomic bool stopping;
    struct amqp_consumer consumer;
    struct amqp_publisher publisher;
    pthread_mutex_t lock; /* the figures */
    struct amqp_stats stats;
};

/* ---- broker_link.c ---- */

bool amqp_link_init(struct amqp_link *link);
void amqp_link_free(struct amqp_link *link);
bool amqp_link_start(struct amqp_link *link);
void amqp_link_stop(struct amqp_link *link);
void amqp_link_wake(struct amqp_link *link);

/* Notes why, and returns false. */
__attribute__((format(printf, 2, 3))) bool amqp_link_fail(struct amqp_link *link,
                                                          const char *format, ...);
/* Whether the last call of the library went well; else notes why, and what it was. */
bool amqp_link_good(struct amqp_link *link, const char *what);
bool amqp_link_status(struct amqp_link *link, const char *what, int status);

/* One frame, if there is one. What the broker says of the channel or the connection as a whole is dealt
 * with: AMQP_BROKEN. AGAIN: there is one; IDLE: none. */
enum amqp_turn amqp_link_frame(struct amqp_link *link, amqp_frame_t *ret_frame);
/* So that the broker does not take silence for death while we do not read. */
bool amqp_link_beat(struct amqp_link *link);

__attribute__((format(printf, 2, 3))) void amqp_log(struct amqp *amqp, const char *format, ...);
/* As it can stand between quotes in a line of the log; returns `out`. */
const char *amqp_log_text(struct tn_bytes text, char *out, size_t room);

static inline amqp_bytes_t amqp_bytes_of(const void *at, size_t len) {
    return (amqp_bytes_t){.len = len, .bytes = (void *)(uintptr_t)at};
}

/* ---- broker_consume.c, broker_publish.c ---- */

void amqp_consumer_init(struct amqp *amqp);
void amqp_publisher_init(struct amqp *amqp);
/* Where it was; at the first time, from now on. */
enum tn_status amqp_publisher_open(struct amqp *amqp);
/* After its thread has ended, while the directory is ours. */
void amqp_publisher_close(struct amqp *amqp);

#endif
