/* One request on its way: the client, the command, and everything that serving it finds out. It is on
 * the stack of the function that serves it, and nothing of it outlives that call. An answer that comes
 * later has a slot. */
#ifndef TN_SERVER_REQUEST_H
#define TN_SERVER_REQUEST_H

#include "engine/read.h"
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
    const struct tn_bytes *argv; /* the whole request, the command's words included */
    uint32_t argc;
    struct server_slot *slot;  /* of a write or a job: for the answer */
    struct protocol_writer *w; /* of a read: for the answer */
    enum engine_read_mode how; /* of a read */
    uint64_t lsn;              /* of a read: the log position that it has shown; 0: none */
    bool more;                 /* of a read: the slice is over before the reply was done */
    bool stale;                /* of a read: this node's state will do, though it follows */
    bool full;                 /* of a write: the batch has no room for it; the next one may */
    struct protocol_call call; /* parsed; a refusal leaves the reason in its `detail` */
};

/* Everything but the call, which is parsed later. */
void server_request_begin(struct server_request *request, struct server_client *client,
                          const struct access_user *user, const struct protocol_command *row,
                          const struct tn_bytes *argv, uint32_t argc);

/* Parses the call and judges whether the user may make it. */
enum tn_result server_request_parse(struct server_request *request);
enum tn_result server_request_judge(struct server_request *request);

#endif
