/* RESP connections. An idle connection has only its struct. While it is served, it borrows the
 * loop's buffers (buffers.h, output.h). */
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
    struct server_output *output;
    struct server_streams *streams;
    LIST_ENTRY(server_connection) place; /* place in the list of live connections or of free ones */
    uint64_t id;
    uint64_t created_ms, active_ms, progress_ms;
    size_t unsent; /* unsent bytes at the last check for progress */

    struct protocol_parser parser;
    uint8_t *in; /* bytes read that have not been parsed or served */
    uint32_t in_len, in_capacity;
    uint32_t read_turn; /* the turn of the loop in which it was last read */
    /* Since when the first request is incomplete; 0: there is no incomplete request. */
    uint64_t unfinished_ms;

    uint8_t *sending; /* bytes that the transport is sending */
    uint32_t sending_len, sending_capacity;
    uint8_t *out; /* bytes to send after `sending` */
    uint32_t out_len, out_capacity;
    size_t memory; /* bytes counted for the three buffers above: see memory.h */

    bool reading;
    bool served;    /* has been served a command that needs a log-in where users are defined */
    bool for_owner; /* this node has begun to serve it a command as the owner of the log */
    bool parted;    /* this node has lost the log: later answers are dropped; implies `leaving` */
    bool in_multi;  /* after a refused MULTI: refuses commands up to EXEC or DISCARD */
    bool leaving;   /* serves no more requests; closes when its replies are sent */
    bool ended;     /* the client has closed its side */
    bool lost;      /* its socket failed: closes after the request being served */
    bool closing;
    /* The login that the connection itself proves, by the process at a Unix-domain socket or by a
     * client certificate. */
    struct access_login arrived;
    struct server_subscriber *subscriber; /* NULL: the connection has no subscriptions */
    const struct protocol_command *last_command;
    char name[SERVER_NAME_MAX + 1];
    char library[SERVER_NAME_MAX + 1];
    char library_version[SERVER_NAME_MAX + 1];
};

_Static_assert(sizeof(struct server_connection) <= 2048, "an idle connection is cheap");

LIST_HEAD(server_connection_list, server_connection);

/* All connections, in a pool of fixed size. */
struct server_connections {
    struct server_connection *of; /* entries from `touched` on have never been used */
    uint32_t touched, count;
    uint64_t next_id;
    struct server_connection_list live, free;
    /* The next connection that this second's check looks at; NULL: the check is complete. */
    struct server_connection *looking;
    bool look_due;                     /* this second's check has not begun */
    struct server_connection *parting; /* the next connection to close after the log was lost */
    struct server_connection *judging; /* the next TLS client to judge after a reload */
    /* Disconnections logged in this second, and those only counted. */
    uint32_t drops_told, drops_untold;
};

/* Accepts the client that waits at the listener. */
void server_connection_accept(struct server_owners *owners, struct server_listener *listener);
/* Serves the requests that have been read, then sends the replies. */
void server_connection_run(struct server_connection *connection);
void server_connection_close(struct server_connection *connection);
/* Disconnects a subscriber that has too many unsent messages. */
void server_connection_overflow(struct server_connection *connection);
bool server_connection_quiet(const struct server_connection *connection);
/* Counts memory for the connection's buffers (memory.h). A refusal counts as a disconnection. */
bool server_connection_take(struct server_connection *connection, size_t bytes);
void server_connection_give(struct server_connection *connection, size_t bytes);

/* The first is called every second, the second in each turn of the loop until the check is
 * complete. */
void server_connections_check(struct server_owners *owners);
void server_connections_look(struct server_owners *owners);
/* Called before each command but those of the connection itself. */
void server_connection_asks(struct server_connection *connection,
                            const struct protocol_command *row);
/* Called with the result of each such command. False: the answer and all
 * later ones are not sent, and the connection ends. This node has served the client as the owner, has
 * lost the log since, and therefore refuses the command. Client libraries of Redis report such a
 * refusal to their user, but find the next owner and repeat the command if the connection ends. */
bool server_connection_answers(struct server_connection *connection,
                               const struct protocol_command *row, enum tn_result code);
/* After this node has lost the log: answers the requests of all connections and closes them, except
 * those that sent READONLY or only subscribe. The first function begins. The second is called in
 * each turn of the loop and returns true while there is more to do. */
void server_connections_part(struct server_owners *owners);
bool server_connections_part_step(struct server_owners *owners);
/* Closes the connections of users that were removed or whose secret was changed. */
void server_connections_review(struct server_owners *owners);
/* After a reload: disconnects TLS clients that the new settings would not admit. The first
 * function begins. The second is called in each turn of the loop and returns true while there is
 * more to do. */
void server_connections_judge(struct server_owners *owners);
bool server_connections_judge_step(struct server_owners *owners);
/* Whether to log one more disconnection. Beyond a limit for each second, disconnections are only
 * counted. */
bool server_connections_tell(struct server_connections *connections);

#endif
