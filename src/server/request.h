/* One request on its way: the client, the command, and everything that serving it finds out. It is on
 * the stack of the function that serves it, and nothing of it outlives that call. An answer that comes
 * later has a slot. */
#ifndef TN_SERVER_REQUEST_H
#define TN_SERVER_REQUEST_H

#include "protocol/parse.h"
#include "protocol/resp.h"
#include "server/access.h"

struct server_client;
struct server_owners;
struct server_slot;

struct server_request {
    struct server_owners *owners;
    struct server_client *client;
    const struct access_user *user;
    const struct protocol_command *row;
    const struct tn_bytes *argv; /* all words of the request, including the command's */
    uint32_t argc;
    struct server_slot *slot;  /* for the answer of a write or a job */
    struct protocol_writer *w; /* for the answer of a read */
    enum engine_read_mode how; /* of a read */
    uint64_t lsn;              /* the log position that a read has shown; 0: none */
    bool more;                 /* the slice of a read ended before the reply was complete */
    bool stale;                /* a read may use this node's state although the node follows */
    bool full;                 /* the batch has no room for a write; the next one may */
    struct protocol_call call; /* the parsed request; a refusal puts the reason into its `detail` */
};

/* Sets everything but `call`, which is parsed later. */
void server_request_begin(struct server_request *request, struct server_client *client,
                          const struct access_user *user, const struct protocol_command *row,
                          const struct tn_bytes *argv, uint32_t argc);

/* Parses the call and judges whether the user may make it. */
enum tn_result server_request_parse(struct server_request *request);
enum tn_result server_request_judge(struct server_request *request);

#endif
