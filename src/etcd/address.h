/* Endpoints as people write them, and the addresses behind their names.
 *
 *   http://HOST:PORT   https://HOST:PORT   http://[IPV6]:PORT      PORT may be left out: 2379
 *
 * A name is looked up by a thread of its own, because the system's resolver waits. The caller
 * may give up before the answer is there. */
#ifndef TN_ETCD_ADDRESS_H
#define TN_ETCD_ADDRESS_H

#include <netinet/in.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

#define ETCD_HOST_MAX 254u
#define ETCD_ADDRESSES_MAX 8u

struct etcd_endpoint {
    bool tls;
    char host[ETCD_HOST_MAX]; /* without brackets */
    char port[6];
    char authority[ETCD_HOST_MAX + 10]; /* host:port, an address of IPv6 in brackets */
};

union etcd_socket_address {
    struct sockaddr any;
    struct sockaddr_in v4;
    struct sockaddr_in6 v6;
};

struct etcd_addresses {
    union etcd_socket_address at[ETCD_ADDRESSES_MAX];
    unsigned count;
};

/* False if the text (NUL-terminated) is no endpoint. */
bool etcd_endpoint_parse(const char *text, struct etcd_endpoint *ret_endpoint);

/* True and the address if the host is no name but an address. */
bool etcd_address_numeric(const struct etcd_endpoint *endpoint,
                          struct etcd_addresses *ret_addresses);

struct etcd_lookup;

/* NULL if it cannot be started. */
struct etcd_lookup *etcd_lookup_begin(const struct etcd_endpoint *endpoint);
/* A descriptor, owned by the lookup, that becomes readable when the lookup is complete. */
int etcd_lookup_fd(const struct etcd_lookup *lookup);
/* False: not yet. Otherwise the addresses, which the lookup owns, or why there are none, as a
 * static text. */
bool etcd_lookup_done(struct etcd_lookup *lookup, struct etcd_addresses *ret_addresses,
                      const char **ret_error);
/* The thread, if it is still waiting, ends by itself. */
void etcd_lookup_end(struct etcd_lookup *lookup);

#endif
