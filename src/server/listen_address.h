/* Addresses to listen on, as text. */
#ifndef TN_SERVER_LISTEN_ADDRESS_H
#define TN_SERVER_LISTEN_ADDRESS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

/* Parses "HOST:PORT", "[HOST]:PORT" or "localhost:PORT" (127.0.0.1). False: the text is none of
 * them. */
bool server_address_split(const char *text, char host[64], uint16_t *ret_port);
/* 0, or an error code of libuv. The host must be an address, not a name. */
int server_address_make(const char *host, uint16_t port, struct sockaddr_storage *ret_address);
uint16_t server_address_port(const struct sockaddr_storage *address);
bool server_address_is_loopback(const char *host);
/* Whether the text is HOST:PORT, and on loopback unless `anywhere`. If not, `reason` says why. */
bool server_address_check(const char *text, bool anywhere, char *reason, size_t room);

#endif
