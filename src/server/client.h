/* A client of the server as the schedule and the engine's answers see it: a RESP connection, an HTTP
 * exchange, a UDP exchange, or the server itself when it needs a tick. Each embeds this struct.
 *
 * Order. The answers to a client's requests leave in the order of the requests. Writes go to the engine
 * at once, many may be in flight, and each has a slot in the client's queue; the reply of a slot is sent
 * when all before it have been. Anything else (reads, PING, a protocol error) is answered at once, so it
 * waits until no write of the client is in flight. Therefore a read sees the client's own writes. */
#ifndef TN_SERVER_CLIENT_H
#define TN_SERVER_CLIENT_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

#include "protocol/resp.h"
#include "server/access.h"

struct schedule;
struct server;
struct server_client;
struct server_login;
struct server_owners;
struct server_ranking;
struct server_slot;
struct server_writes;

TAILQ_HEAD(server_queue, server_client);

struct server_client {
    struct server *server;
    struct server_owners *owners;
    struct schedule *schedule;
    struct server_writes *writes;
    /* The answer at the head of its queue is there, or it waited and may try again. */
    void (*run)(struct server_client *client);
    struct server_client *next_ready;
    struct server_queue *queue; /* that it waits in; NULL: it does not wait */
    TAILQ_ENTRY(server_client) place;
    struct server_slot *first, *last; /* writes in flight, in order */
    uint64_t begun_ns;                /* when the request being served came in, by uv_hrtime */
    uint64_t fence_until_ms;          /* a read waits for a log position; 0: it does not */
    uint64_t owned_until_ms;          /* a read waits for a late renewal; 0: it does not */
    uint64_t tick_since_ms;           /* a read waits for the state to get there; 0: it does not */
    struct access_login login;        /* the user that it has logged in as */
    struct server_login *pending;     /* the user that it claims to be, until that is judged */
    int socket;                       /* for the address */
    uint32_t failures;                /* log-ins that failed on this connection */
    uint32_t inflight;
    uint64_t scan_cursor; /* of a list that has found nothing yet and goes on; 0: none does */
    uint32_t scan_steps;  /* that it has taken */
    struct server_ranking *ranking; /* of a sorted list that goes on; NULL: none does */
    uint32_t turn, share;           /* requests that may still be served in that turn of the loop */
    uint32_t round;                 /* of the queue of turns, in which it was last served */
    enum protocol_encoding encoding;
    bool secure; /* it speaks TLS */
    bool ready;
    bool waits;    /* its last request may wait in line: the next ones wait for its answer */
    bool ended;    /* it sends no more: its lease does not wait in line */
    bool as_is;    /* there are no ticks to be had: the state will do */
    bool stale;    /* it accepts the state of a node that follows the owner of the log */
    bool has_turn; /* it has waited for its turn: a long reply may be made now */
};

/* Everything else in it is zero, and becomes so. */
void server_client_init(struct server_client *client, struct server *server,
                        void (*run)(struct server_client *client));
/* Whether its user may see the lease, which has this epoch: then *ret_lease is the lease. */
bool server_client_sees(const struct server_client *client, struct kernel_lease_id id,
                        uint64_t epoch, struct engine_lease *ret_lease);
/* Whether users are defined and it has not logged in as one. */
bool server_client_is_stranger(const struct server_client *client);
/* It is going: it waits no more, and the answers in flight are dropped. */
void server_client_leave(struct server_client *client);

#endif
