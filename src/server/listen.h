/* The sockets that RESP clients connect to: one of TCP, and one of the Unix domain, whose clients are
 * known by their processes. */
#ifndef TN_SERVER_LISTEN_H
#define TN_SERVER_LISTEN_H

#include "server/transport.h"
#include "server/unix.h"

struct server;

struct server_listener {
    struct transport_listener socket;
    struct server *server;
    bool is_open;
    bool waiting; /* a client waits to be accepted in the next turn */
};

struct server_listeners {
    struct server_listener of[2];   /* by enum transport_kind */
    struct unix_socket unix_socket; /* of the second one, if it is open */
    uint16_t port;
    uint32_t accepts; /* in this turn */
};

/* 0, or a code of libuv's. */
int server_listen_tcp(struct server *server, const char *host, uint16_t port);
/* At options.unix_path. False: the reason has been logged. */
bool server_listen_unix(struct server *server);
/* Accepts no more, and removes the Unix-domain socket. */
void server_listen_stop(struct server *server);
/* Once a turn: clients that were left waiting in the turn before. */
void server_listen_resume(struct server *server);
/* Where the Unix-domain socket is, or "off". */
const char *server_unix_path(const struct server *server);

#endif
