/* One client: a connection with several requests in flight, and the answers that arrive on it.
 *
 * Requests are numbers of operations in a history. Answers are read with the command line's reader
 * of replies and put into the operation. */
#ifndef TESTS_NEMESIS_NM_CLIENT_H
#define TESTS_NEMESIS_NM_CLIENT_H

#include "cli/reply_reader.h"
#include "nemesis/nm_history.h"

#define NM_DEPTH 16u

struct nm_client {
    int socket; /* -1: none */
    uint32_t connection;
    uint32_t depth; /* how many requests may be in flight */
    uint32_t under_way[NM_DEPTH], first, count;
    uint64_t deaf_until_ns; /* reads nothing before */
    /* Of a cluster. */
    uint32_t node;           /* the node that the client is connected to, or will be */
    bool greets;             /* the reply to HELLO has not come yet */
    bool refused;            /* the node does not own the log */
    uint16_t leader_port;    /* the owner's, as the node says; 0: none is known */
    uint64_t rests_until_ns; /* neither connects nor asks before */
    uint64_t progress_ns;    /* when data last arrived, or nothing was in flight */
    struct cli_reader reader;
    char out[NM_DEPTH * 512u];
    size_t out_len; /* not sent yet */
};

/* Connects and agrees on RESP3. */
bool nm_client_open(struct nm_client *client, uint16_t port);
/* The same, but does not wait for the reply to HELLO. */
bool nm_client_open_soon(struct nm_client *client, uint16_t port);
/* Leaves nothing; `abruptly`: with a reset. */
void nm_client_close(struct nm_client *client, bool abruptly);

/* Puts the request into the buffer and remembers that its answer is to come. */
void nm_client_ask(struct nm_client *client, const struct nm_op *op, uint32_t index);
/* Sends at most `len` bytes of the buffer and drops the rest. False: the connection is lost. */
bool nm_client_send(struct nm_client *client, size_t len);

enum nm_receive { NM_NOTHING, NM_REPLY, NM_GONE };
/* Reads the next reply, if one has arrived, into the operation that waits for it, which is
 * *ret_index. An answer that makes no sense is reported in `why`, and counts as NM_GONE. */
enum nm_receive nm_client_receive(struct nm_client *client, struct nm_history *h,
                                  uint32_t *ret_index, char *why, size_t capacity);

/* Sends a line and waits for its reply, which is in client->reader; no other request may be in
 * flight. */
bool nm_client_call(struct nm_client *client, const char *line);

#endif
