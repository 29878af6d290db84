/* One connection to one endpoint: its address, its socket, TLS, and the session on top.
 *
 *   LOOKUP ---> CONNECT ---> HANDSHAKE ---> SETTINGS ---> READY
 *      |           |             |             |          |
 *      +-----------+-------------+-------------+----------+--> DEAD
 *
 * LOOKUP is passed over for numeric addresses, HANDSHAKE without TLS. SETTINGS waits for the server's
 * first frame of HTTP/2. A link must be READY by its deadline. A dead link has ended its streams and
 * says why it died; it stays dead. */
#ifndef TN_ETCD_LINK_H
#define TN_ETCD_LINK_H

#include "etcd/address.h"
#include "etcd/grpc_session.h"
#include "etcd/tls.h"

struct pollfd;
struct etcd_link;

struct etcd_link_options {
    const struct etcd_endpoint *endpoint; /* kept by the caller, as is what `files` points to */
    struct etcd_tls_files files;
    uint32_t answer_bytes_max;
    uint64_t ready_by_ms;
};

/* NULL without memory. */
struct etcd_link *etcd_link_open(const struct etcd_link_options *options);
/* Ends the streams that are still active. */
void etcd_link_close(struct etcd_link *link);

/* Does what can be done without waiting. True if there is more to do at once. */
bool etcd_link_step(struct etcd_link *link, uint64_t now_ms);
/* When to step even if the socket is quiet. */
uint64_t etcd_link_next_ms(const struct etcd_link *link);
/* Fills in one descriptor. False: there is none to wait for. */
bool etcd_link_poll(const struct etcd_link *link, struct pollfd *out);

/* Whether bytes have come since the last time it was asked. */
bool etcd_link_heard(struct etcd_link *link);
bool etcd_link_is_dead(const struct etcd_link *link);
bool etcd_link_is_ready(const struct etcd_link *link); /* takes streams */
bool etcd_link_is_closing(const struct etcd_link *link);
enum etcd_reason etcd_link_reason(const struct etcd_link *link); /* of its death */
const char *etcd_link_error(const struct etcd_link *link);

struct etcd_session *etcd_link_session(struct etcd_link *link);

#endif
