/* What runs on one node of a cluster only, the owner of the log: the supervisor of sensors, and answers to
 * datagrams. A server without a cluster runs it from its start to its end.
 *
 *     off --owner--> on --owner no more--> leaving --all runs dead--> off
 *
 * Whether this node is the one is the program's to say (server_hooks.owns), once a second: what must have
 * happened before, as loading the keys of tokens, has happened then. Nothing hangs on that second: the log
 * refuses whoever does not own it, and guardians end runs whose node has lost it. */
#ifndef TN_SERVER_ONCE_H
#define TN_SERVER_ONCE_H

#include <stdbool.h>
#include <stdint.h>

struct run_orphans;
struct server;
struct supervisor;

struct server_once {
    char url[96]; /* of our HTTP listener, for sensors; empty: there is none */
    bool owns;
    struct supervisor *leaving; /* of an ownership that has ended; its runs are being ended */
    bool left;      /* it is closed; some runs may live, and it is freed when none does */
    uint64_t epoch; /* of the supervisor, or of the one that is leaving */
    /* Before the first ownership: runs of an earlier life of this node. */
    struct run_orphans *orphans;
    bool unproven; /* one of them is not proven dead */
    bool clean;    /* nothing lives that this node has started */
};

/* Before the server is ready; false: there is no memory, and the reason has been logged. */
bool server_once_start(struct server *server);
/* Every second, and when the role of the engine or of the node has changed. */
void server_once_look(struct server *server);
/* The server stops: ends what runs. */
void server_once_stop(struct server *server);
bool server_once_stopped(const struct server *server);
/* When the loop does not run any more. */
void server_once_free(struct server *server);

#endif
