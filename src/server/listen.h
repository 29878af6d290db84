/* The listeners whose clients are transports: RESP over TCP, over TCP with TLS, and over a
 * Unix-domain socket, where the server knows clients by their processes; and HTTP with TLS. */
#ifndef TN_SERVER_LISTEN_H
#define TN_SERVER_LISTEN_H

#include "server/transport.h"
#include "server/unix.h"

struct server_owners;

enum server_listen {
    SERVER_LISTEN_TCP,
    SERVER_LISTEN_UNIX,
    SERVER_LISTEN_TLS,
    SERVER_LISTEN_HTTPS,
    SERVER_LISTEN_COUNT
};

struct server_listener {
    struct transport_listener socket;
    struct server_owners *owners;
    /* Accepts the client that waits at the listener. */
    void (*accept)(struct server_owners *owners, struct server_listener *listener);
    bool is_open;
    bool waiting; /* a client waits to be accepted in the next turn */
    uint16_t port;
};

struct server_listeners {
    struct server_listener of[SERVER_LISTEN_COUNT];
    struct unix_socket unix_socket; /* of SERVER_LISTEN_UNIX, while it is open */
    uint32_t accepts;               /* in this turn */
};

/* Opens a listener other than SERVER_LISTEN_UNIX. 0, or an error code of libuv. */
int server_listen_tcp(struct server_owners *owners, enum server_listen which, const char *host,
                      uint16_t port);
/* Listens at options.unix_path. False: the reason has been logged. */
bool server_listen_unix(struct server_owners *owners);
/* Stops accepting, and removes the Unix-domain socket. */
void server_listen_stop(struct server_owners *owners);
/* Called once a turn: accepts clients that were left waiting in the turn before. */
void server_listen_resume(struct server_owners *owners);
/* The path of the Unix-domain socket, or "off". */
const char *server_unix_path(const struct server_owners *owners);
/* The number of clients of all listeners, HTTP included. */
uint32_t server_clients(const struct server_owners *owners);
/* 0: the listener is not open. */
uint16_t server_listen_port(const struct server_owners *owners, enum server_listen which);

#endif
