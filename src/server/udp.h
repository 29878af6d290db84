/* The UDP listener: OpenSynaptic nodes request ids in datagrams (protocol/datagram.h).
 *
 *     datagram --rate, length, form--> exchange --writes--> engine --committed--> reply
 *
 * An exchange asks as a connection does, by a write of its own: one allocation, of one id or of n in
 * one lease, with an operation id made from the datagram, so that the same datagram again has no
 * second effect. What an operation id brings back may be out of date: a lease that is no longer live,
 * or a refusal. Then it is asked for once more, without one; a sticky pool gives the same holder the
 * same ids.
 *
 * Nothing here waits for a client or grows: datagrams that cannot be served now are dropped and
 * counted, and the node sends them again. */
#ifndef TN_SERVER_UDP_H
#define TN_SERVER_UDP_H

#include <uv.h>

#include "engine/read.h"
#include "kernel/types.h"
#include "protocol/datagram.h"
#include "server/client.h"
#include "server/count.h"

#define UDP_EXCHANGES 256u /* at once */
#define UDP_SOURCES 4096u  /* sources whose rates are known at the same time, in sets of UDP_WAYS */
#define UDP_WAYS 4u
#define UDP_NETWORKS_MAX 64u

/* ---- Sources: udp_source.c ---- */

/* An address of either family. An IPv4 address is mapped into IPv6. */
struct udp_source {
    uint8_t at[16];
};

struct udp_network {
    struct udp_source address;
    uint32_t bits;
};

struct udp_networks {
    struct udp_network of[UDP_NETWORKS_MAX];
    uint32_t count;
};

struct udp_bucket {
    struct udp_source source;
    uint64_t filled_ms; /* 0: an empty place */
    uint64_t tokens;    /* thousandths of a request */
};

/* A token bucket for each recent source. A full bucket needs no place, so another source can use
 * it. While all places of a set are in use, new sources are refused. */
struct udp_rate {
    uint64_t per_second, burst; /* 0 requests a second: no limit */
    struct udp_bucket buckets[UDP_SOURCES];
};

struct udp_source udp_source_of(const struct sockaddr *address);
/* Parses a list such as "127.0.0.1 10.0.0.0/8, ::1". False: `reason` says what is wrong. */
bool udp_networks_parse(const char *text, struct udp_networks *ret_networks, char *reason,
                        size_t room);
bool udp_networks_have(const struct udp_networks *networks, const struct udp_source *source);
/* Whether the source may send a request now. If so, the request is counted. */
bool udp_rate_take(struct udp_rate *rate, const struct udp_source *source, uint64_t now_ms);

/* ---- Exchanges: udp_exchange.c ---- */

enum udp_phase {
    UDP_ASK,   /* with the operation id */
    UDP_AGAIN, /* the answer was out of date: without the operation id */
};

struct udp_exchange {
    struct server_client client;
    struct server_udp *udp;
    struct udp_exchange *next_free;
    struct sockaddr_storage peer;
    enum udp_phase phase;
    uint16_t sequence;
    bool many;
    bool allowed;          /* may get a reply that is longer than its request */
    uint32_t datagram_len; /* of the request */
    uint32_t count;
    bool asked; /* in this phase */
    bool again; /* the answer is out of date */
    enum tn_result code;
    uint32_t key_len, meta_len;
    char key[KERNEL_HOLDER_MAX];
    char operation[PROTOCOL_UDP_OPERATION]; /* made from the datagram */
    uint8_t meta[KERNEL_META_MAX];
    uint32_t ids[PROTOCOL_UDP_COUNT_MAX];
};

struct server_udp {
    struct server_owners *owners;
    uv_udp_t socket;
    struct tn_bytes pool;
    struct udp_networks allow;
    bool listed_only; /* listens beyond loopback: drops requests of sources that are not listed */
    struct udp_exchange *free;
    struct engine_value values[PROTOCOL_UDP_COUNT_MAX]; /* the values of the answer being written */
    struct udp_rate rate;
    struct udp_exchange exchanges[UDP_EXCHANGES];
};

/* Why the UDP listener cannot use the pool. NULL: it can, or the pool does not exist. */
const char *udp_pool_fault(struct server_owners *owners, struct tn_bytes pool);
/* Begins to serve the exchange, which the caller has filled in. */
void udp_exchange_begin(struct udp_exchange *exchange);
/* Sends the failure, shortened to the length of the request, and ends the exchange. */
void udp_exchange_fail(struct udp_exchange *exchange, const char *reason, const char *detail);
/* udp.c: returns the exchange to the free ones. */
void udp_exchange_end(struct udp_exchange *exchange);
/* Sends the reply and counts it, or counts that it could not be sent. */
void udp_send(struct udp_exchange *exchange, const void *bytes, size_t len,
              enum server_udp_outcome outcome);

#endif
