/* The loop's buffers, each for one request at a time, allocated once. Requests are parsed in the buffer
 * that they were read into; only an incomplete request is copied into memory of its connection. */
#ifndef TN_SERVER_BUFFERS_H
#define TN_SERVER_BUFFERS_H

#include "base/bytes.h"
#include "protocol/table.h"

#define SERVER_READ_BYTES (64u * 1024u)
#define SERVER_ARGS_MAX 16384u /* words of one request; a bundle has at most 4096 values */

struct server_buffers {
    uint8_t *read;
    uint8_t *line; /* a request sent as a line of text */
    struct tn_bytes *argv;
    uint8_t *scratch; /* lists of values */
    void *page;       /* views of a list */
    /* The replies to COMMAND DOCS in RESP2 and RESP3, made at the first request; or NULL. */
    struct tn_bytes docs[2];
    int32_t arity[PROTOCOL_COMMANDS]; /* the arity of each command, computed once */
};

/* False: out of memory. Call server_buffers_free in either case. */
bool server_buffers_init(struct server_buffers *buffers);
void server_buffers_free(struct server_buffers *buffers);

#endif
