/* The UDP listener as the rest of the server sees it; udp.h is its inside. */
#ifndef TN_SERVER_UDP_LISTEN_H
#define TN_SERVER_UDP_LISTEN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct server_owners;

/* False: it does not listen; `reason` says why. */
bool server_udp_start(struct server_owners *owners, const char *host, uint16_t port,
                      uint16_t *ret_port, char *reason, size_t room);
/* Accepts no more requests; those being served are answered. */
void server_udp_drain(struct server_owners *owners);
void server_udp_free(struct server_owners *owners);

#endif
