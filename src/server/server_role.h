/* The server's place in a cluster: whether this node owns the log, which node does, and what clients are
 * told about it. One owner, on the loop's thread.
 *
 *     engine --role sink--> server_feed_role --uv_async--> look: the flags below, and on a change
 *
 *         the log was lost     RESP connections are answered and closed, as Redis does: their clients ask
 *                              for the owner and go there. Those that said READONLY or only listen stay.
 *                              Commands that this node refuses now are not answered, if it served
 *                              their client as the owner before (server_connection_answers)
 *         another owner        the message of +switch-master, and that of +slave for the node before
 *
 * Commands are judged in two places. The engine decides, for each read and write. server_role_judge comes
 * first and refuses what a follower cannot do, before anything of the request is looked at: a follower
 * that judged a lease or a pool by its own state could say that it is not there. */
#ifndef TN_SERVER_SERVER_ROLE_H
#define TN_SERVER_SERVER_ROLE_H

#include <uv.h>

#include "engine/engine.h"
#include "server/handler.h"

struct server_owners;

/* The service name for clients of Redis Sentinel. */
#define SERVER_SERVICE "tenure"

/* A node that has not been heard for this time is shown as down. */
#define SERVER_NODE_DOWN_MS 15000u

#define SERVER_ADDRESS_MAX LOG_LEADER_MAX

struct server_node_address {
    char host[SERVER_ADDRESS_MAX + 1]; /* without brackets */
    uint16_t port;
};

struct server_role {
    uv_async_t changed;
    bool open;
    bool follows; /* in the loop's view, this node does not own the log */
    bool led;     /* owned the log at the last check */
    /* Addresses of the owner, which can be this node. Both are empty while the owner is not
     * known. */
    char leader[SERVER_ADDRESS_MAX + 1];
    char leader_http[SERVER_ADDRESS_MAX + 1];
    char owner[SERVER_ADDRESS_MAX + 1]; /* the last known owner */
    uint64_t promotions;                /* as seen by the loop, including the start */
};

/* Called when the loop and the streams exist; before the loop's handles are closed. */
void server_role_start(struct server_owners *owners);
void server_role_stop(struct server_owners *owners);
/* Called every second, in case the feed has not been called. */
void server_role_look(struct server_owners *owners);

/* Updates `leader` and `leader_http`, and nothing else. */
void server_role_refresh(struct server_role *role, struct engine *engine);

/* Called before the call is parsed. OK: this node may serve the request; request->stale says
 * whether from its own state. Otherwise READONLY or MASTERDOWN, with the reason, which may be
 * empty, in request->call.detail. */
enum tn_result server_role_judge(struct server_request *request);
/* Whether this follower's state is recent enough for a client that accepts stale state. */
bool server_role_fresh(const struct server_owners *owners);

/* The number of other nodes that can be reached, for INFO. */
uint32_t server_role_replicas(struct engine *engine);

/* The owner's address that this client can use; empty: none is known. A client of TLS never gets an
 * address without TLS. An address of RESP counts as one with TLS if its port is this node's own TLS
 * port, because the nodes of a cluster are set up alike; an address of HTTP, if it begins with
 * https://. */
const char *server_role_leader(const struct server_client *client);
const char *server_role_leader_http(const struct server_client *client);

/* Renders a refusal by the state at log position `lsn`, or by no state if `lsn` is 0. READONLY includes the
 * address of the owner. */
void server_refusal_render(const struct server_client *client, struct protocol_writer *w,
                           enum tn_result code, const char *detail, uint64_t lsn);

/* Parses HOST:PORT or [HOST]:PORT. False: the text is neither. */
bool server_node_address_split(const char *text, struct server_node_address *ret_address);

#endif
