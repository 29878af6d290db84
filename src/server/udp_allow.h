/* The setting udp_allow: a list of addresses and networks. */
#ifndef TN_SERVER_UDP_ALLOW_H
#define TN_SERVER_UDP_ALLOW_H

#include <stdbool.h>
#include <stddef.h>

/* Whether the text is such a list. If not, `reason` explains. */
bool server_udp_allow_check(const char *text, char *reason, size_t room);
/* Whether the list names any source. */
bool server_udp_allow_any(const char *text);

#endif
