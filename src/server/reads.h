/* Reads: committed state, in order with the client's own writes. */
#ifndef TN_SERVER_READS_H
#define TN_SERVER_READS_H

#include "server/handler.h"
#include "server/slots.h"

/* read_events.c: a page of events, of which some are there; one is made at a time. */
struct server_pages {
    struct server_page *making;       /* NULL: none */
    struct server_client *making_for; /* the client that asked for it */
};

/* DONE: the reply has been written to request->w; *ret_answer describes it. */
enum server_step server_read(struct server_request *request, struct server_answer *ret_answer);
/* The client does not want its page of events any more. */
void server_page_end(struct server_pages *pages, const struct server_client *client);
/* The request of this client is answered, or refused: if it was a list that goes on, it ends. */
void server_scan_end(struct server_client *client);

/* ---- For the files that make lists ---- */

/* The log position of the read, also apart from the reply: HTTP puts it into a header. */
void read_lsn_write(struct server_request *request, struct protocol_writer *w, uint64_t lsn);
/* A page: the cursor to continue with, and its rows, which follow; then `more` pairs. */
void read_page_head(struct protocol_writer *w, uint64_t cursor, const char *name, uint32_t count,
                    uint32_t more);
/* Before row n of a page. False: there is no memory for the page, and the request is refused. */
bool read_page_room(struct server_request *request, uint32_t n);
/* A list continues where its last step ended. */
void read_scan_begin(struct server_request *request);
/* Whether the page is made now. If not, server_read continues with it later. */
bool read_scan_ends(struct server_request *request, uint32_t count);
/* read_pools.c: forgets the pools that a sorted list has found so far. */
void read_ranking_end(struct server_client *client);

#endif
