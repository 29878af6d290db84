/* Questions to the log whether it is still ours, before reads are answered: in a cluster with `reads =
 * quorum`, where the owner's clock is not enough. The question goes to other machines, so a worker thread
 * of libuv waits for the answer, and the loop does not. One question is under way at a time. Its answer
 * counts for each read whose request had been received before it was asked: what a read finds in the state
 * then was so at that moment or later, after the client had sent the request. */
#ifndef TN_SERVER_CONFIRM_H
#define TN_SERVER_CONFIRM_H

#include <uv.h>

#include "kernel/result.h"
#include "server/client.h"

struct server_confirms {
    uv_work_t work;
    struct server_owners *owners;
    struct server_queue waiting; /* clients whose reads need an answer */
    uint64_t asked;              /* questions so far; the last one may be under way */
    uint64_t answered;           /* the number of the last answer */
    bool asks;                   /* a question is under way */
    bool good;                   /* the last answer: the log was ours */
    bool found;                  /* the answer that is arriving; the worker thread sets it */
};

void server_confirms_init(struct server_confirms *confirms, struct server_owners *owners);
/* Called when bytes of the client's requests arrive: answers to earlier questions do not count. */
void server_confirm_arrived(struct server_client *client);
/* OK: the client's read may be answered. NOT_YET: the client waits, and is run again. MASTERDOWN: the log
 * is not surely ours; if the client tries again, the question is asked again. */
enum tn_result server_confirm(struct server_client *client);

#endif
