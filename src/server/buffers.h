/* The loop's buffers, each for one request at a time, allocated once. Requests are parsed in the buffer
 * that they were read into; only an incomplete request is copied into memory of its connection. */
#ifndef TN_SERVER_BUFFERS_H
#define TN_SERVER_BUFFERS_H

#include "base/bytes.h"
#include "protocol/table.h"

#define SERVER_READ_BYTES (64u * 1024u)
#define SERVER_ARGS_MAX 16384u /* of one request; a bundle has 4096 values at most */

struct server_buffers {
    uint8_t *read;
    uint8_t *line; /* a request typed as a line of text */
    struct tn_bytes *argv;
    uint8_t *scratch;                 /* lists of values */
    void *page;                       /* views of a list */
    struct tn_bytes docs[2];          /* COMMAND DOCS in RESP2 and 3, made once; or NULL */
    int32_t arity[PROTOCOL_COMMANDS]; /* of each command, worked out once */
};

/* False: no memory; free them all the same. */
bool server_buffers_init(struct server_buffers *buffers);
void server_buffers_free(struct server_buffers *buffers);

#endif
