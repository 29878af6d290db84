/* Reads: committed state, in order with the client's own writes. */
#ifndef TN_SERVER_READS_H
#define TN_SERVER_READS_H

#include "server/handler.h"
#include "server/slots.h"

/* read_events.c: the unfinished page of events. One page is made at a time. */
struct server_pages {
    struct server_page *making;       /* NULL: none */
    struct server_client *making_for; /* the client that requested it */
};

/* DONE: the reply has been written to request->w, and *ret_answer describes it. */
enum server_step server_read(struct server_request *request, struct server_answer *ret_answer);
/* The client no longer wants its page of events. */
void server_page_end(struct server_pages *pages, const struct server_client *client);
/* The client's request has been answered or refused: ends its unfinished list, if there is one. */
void server_scan_end(struct server_client *client);

/* ---- For the files that make lists ---- */

/* Writes the log position of the read, and keeps it for the HTTP header. */
void read_lsn_write(struct server_request *request, struct protocol_writer *w, uint64_t lsn);
/* Begins a page: the cursor to continue with, the rows, which the caller writes next, and `more`
 * further pairs. */
void read_page_head(struct protocol_writer *w, uint64_t cursor, const char *name, uint32_t count,
                    uint32_t more);
/* Called before row n of a page. False: out of memory; the request is refused. */
bool read_page_room(struct server_request *request, uint32_t n);
/* Continues a list where its last step ended. */
void read_scan_begin(struct server_request *request);
/* Whether the page is complete for now. If not, server_read continues with it later. */
bool read_scan_ends(struct server_request *request, uint32_t count);
/* read_pools.c: frees the pools that a sorted list has found so far. */
void read_ranking_end(struct server_client *client);

#endif
