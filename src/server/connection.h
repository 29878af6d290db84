/* RESP connections. An idle connection has only its struct; while it is served it borrows the loop's
 * buffers (buffers.h, output.h). */
#ifndef TN_SERVER_CONNECTION_H
#define TN_SERVER_CONNECTION_H

#include "server/client.h"
#include "server/transport.h"

#define SERVER_NAME_MAX 64u

struct server_listener;
struct server_output;
struct server_streams;
struct server_subscriber;

struct server_connection {
    struct server_client client;
    struct transport transport;
    struct server *server;
    struct server_output *output;
    struct server_streams *streams;
    LIST_ENTRY(server_connection) place; /* in the list of live or of free connections */
    uint64_t id;
    uint64_t created_ms, active_ms, progress_ms;
    size_t unsent; /* at the last look at progress */

    struct protocol_parser parser;
    uint8_t *in; /* read, and not parsed or not served yet */
    uint32_t in_len, in_capacity;
    uint32_t read_turn;     /* the turn of the loop in which it was last read */
    uint64_t unfinished_ms; /* since when a request is begun and not whole; 0: none is */

    uint8_t *sending; /* the transport's until written */
    uint32_t sending_len, sending_capacity;
    uint8_t *out; /* to be sent after that */
    uint32_t out_len, out_capacity;
    size_t memory; /* of the three buffers above: see memory.h */

    bool reading;
    bool served;    /* something was done for it that not everybody may ask for */
    bool for_owner; /* it has sent a command that only the owner of the log serves */
    bool in_multi;  /* MULTI was refused; so are the commands after it, up to EXEC or DISCARD */
    bool leaving;   /* takes no more requests; closes when its replies are sent */
    bool ended;     /* the client sends no more */
    bool lost;      /* it cannot be sent to; closes when whatever is being served is done */
    bool closing;
    /* The login that the connection itself proves: by the process at a Unix-domain socket, or by a client
     * certificate. */
    struct access_login arrived;
    struct server_subscriber *subscriber; /* NULL: it has not subscribed to anything */
    const struct protocol_command *last_command;
    char name[SERVER_NAME_MAX + 1];
    char library[SERVER_NAME_MAX + 1];
    char library_version[SERVER_NAME_MAX + 1];
};

_Static_assert(sizeof(struct server_connection) <= 2048, "an idle connection is cheap");

LIST_HEAD(server_connection_list, server_connection);

/* All connections, in a pool of as many as there may be. */
struct server_connections {
    struct server_connection *of; /* those from `touched` on are new */
    uint32_t touched, count;
    uint64_t next_id;
    struct server_connection_list live, free;
    struct server_connection *looking; /* where the look of this second goes on; NULL: it is over */
    bool look_due;                     /* and it has not begun */
    struct server_connection *parting; /* where closing goes on after the log was lost */
    struct server_connection *judging; /* where judging clients of TLS goes on after a reload */
    uint32_t drops_told, drops_untold; /* in this second: lines of the log */
};

/* Takes the client that waits at the listener. */
void server_connection_accept(struct server *server, struct server_listener *listener);
/* Serves the requests that have been read, then sends the replies. */
void server_connection_run(struct server_connection *connection);
void server_connection_close(struct server_connection *connection);
/* Too much waits to be sent to a subscriber: it is disconnected. */
void server_connection_overflow(struct server_connection *connection);
bool server_connection_quiet(const struct server_connection *connection);
/* Memory for the connection's buffers, see memory.h; one that is refused is counted as dropped. */
bool server_connection_take(struct server_connection *connection, size_t bytes);
void server_connection_give(struct server_connection *connection, size_t bytes);

/* Every second; and in each turn, until all have been looked at. */
void server_connections_check(struct server *server);
void server_connections_look(struct server *server);
/* After this node has lost the log: answers the requests of all connections and closes them, except
 * those that said READONLY or only subscribe. The first call begins; the second is one step in each turn
 * of the loop, true if more steps follow. */
void server_connections_part(struct server *server);
bool server_connections_part_step(struct server *server);
/* Closes connections whose user was removed or has another secret now. */
void server_connections_review(struct server *server);
/* After a reload: disconnects clients of TLS that would not get in again. Begins, and one step in each turn
 * of the loop, true if more steps follow. */
void server_connections_judge(struct server *server);
bool server_connections_judge_step(struct server *server);
/* Whether the log has a line for one more client that is disconnected: a crowd is counted instead. */
bool server_connections_tell(struct server_connections *connections);

#endif
