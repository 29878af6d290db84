/* The parts that run only on the owner of the log: the supervisor of sensors, and answers to datagrams. A
 * server without a cluster runs them from its start to its end.
 *
 *     off --owner--> on --owner no more, or of another epoch--> leaving --all runs dead--> off
 *
 * The program says once a second whether this node is the owner (server_hooks.owns), after it has made its
 * preparations, such as loading the keys of tokens. Safety does not depend on that second: the log refuses
 * every other node, and guardians end the runs of a node that has lost the log. */
#ifndef TN_SERVER_ONCE_H
#define TN_SERVER_ONCE_H

#include <stdbool.h>
#include <stdint.h>

struct run_orphans;
struct server_options;
struct server_owners;
struct supervisor;

struct server_once {
    struct server_options *options; /* a change of the owner changes them */
    char url[96];                   /* of our HTTP listener, for sensors; empty: there is none */
    bool owns;
    struct supervisor *leaving; /* of an ownership that has ended; its runs are being ended */
    bool left;                  /* it is closed; freed when none of its runs is alive */
    uint64_t epoch;             /* the ownership of `supervisor` or `leaving` */
    /* Before the first ownership: runs left over from an earlier process of this node. */
    struct run_orphans *orphans;
    bool unproven; /* a left-over run is not proven dead */
    bool clean;    /* nothing that this node has started is alive */
};

/* Called before the server is ready. False: out of memory; the reason has been logged. */
bool server_once_start(struct server_owners *owners, struct server_options *options);
/* Called every second, and when the role of the engine or of the node has changed. */
void server_once_look(struct server_owners *owners);
/* The server stops: ends these parts. */
void server_once_stop(struct server_owners *owners);
bool server_once_stopped(const struct server_owners *owners);
/* Called when the loop has ended. */
void server_once_free(struct server_owners *owners);

#endif
