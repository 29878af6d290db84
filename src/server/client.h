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
struct server_client;
struct server_login;
struct server_owners;
struct server_ranking;
struct server_slot;
struct server_writes;

TAILQ_HEAD(server_queue, server_client);

struct server_client {
    struct server_owners *owners;
    struct schedule *schedule;
    struct server_writes *writes;
    /* Continues with the client: the answer at the head of its queue has arrived, or the client
     * waited and may try again. */
    void (*run)(struct server_client *client);
    struct server_client *next_ready;
    struct server_queue *queue; /* the queue in which the client waits; NULL: it does not wait */
    TAILQ_ENTRY(server_client) place;
    struct server_slot *first, *last; /* writes in flight, in order */
    uint64_t begun_ns;                /* arrival of the request being served, by uv_hrtime */
    uint64_t fence_until_ms; /* until when a read waits for a log position; 0: it does not wait */
    /* Until when a read waits for a late renewal of the ownership; 0: it does not wait. */
    uint64_t owned_until_ms;
    uint64_t confirm_after;       /* questions of confirm.h that came before its requests */
    uint64_t tick_since_ms;       /* since when a read waits for a tick; 0: it does not wait */
    struct access_login login;    /* the user that it has logged in as */
    struct server_login *pending; /* a log-in that has not been compared yet */
    int socket;                   /* for the address */
    uint32_t failures;            /* failed log-ins on this connection */
    uint32_t inflight;
    /* The cursor of an unfinished list that has found nothing yet; 0: there is none. */
    uint64_t scan_cursor;
    uint32_t scan_steps;            /* the steps that this list has taken */
    struct server_ranking *ranking; /* an unfinished sorted list; NULL: there is none */
    uint32_t turn, share; /* a turn of the loop, and how many more requests may be served in it */
    uint32_t round;       /* the round of the queue of turns in which the client was last served */
    enum protocol_encoding encoding;
    bool secure; /* it speaks TLS */
    bool ready;
    bool waits;    /* its last request may wait in line: later requests wait for the answer */
    bool ended;    /* its input has ended: its lease does not wait in line */
    bool as_is;    /* no tick can be committed: the read answers from the state as it is */
    bool stale;    /* it accepts the state of a node that follows the owner (READONLY) */
    bool has_turn; /* it has waited for its turn and may make a long reply now */
};

/* Sets all other fields to zero. */
void server_client_init(struct server_client *client, struct server_owners *owners,
                        void (*run)(struct server_client *client));
/* Whether the client's user may see the lease with this epoch. If so, *ret_lease is the lease. */
bool server_client_sees(const struct server_client *client, struct kernel_lease_id id,
                        uint64_t epoch, struct engine_lease *ret_lease);
/* Whether users are defined and the client has not logged in. */
bool server_client_is_stranger(const struct server_client *client);
/* The client is going away: it stops waiting, and answers in flight are dropped. */
void server_client_leave(struct server_client *client);

#endif
