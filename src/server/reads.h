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

#endif
