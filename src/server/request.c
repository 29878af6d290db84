/* What request.h promises. */
#include "server/request.h"

#include "server/buffers.h"
#include "server/client.h"
#include "server/owners.h"

void server_request_begin(struct server_request *request, struct server_client *client,
                          const struct access_user *user, const struct protocol_command *row,
                          const struct tn_bytes *argv, uint32_t argc) {
    request->owners = client->owners;
    request->client = client;
    request->user = user;
    request->row = row;
    request->argv = argv;
    request->argc = argc;
    request->slot = NULL;
    request->w = NULL;
    request->how = ENGINE_READ_AS_IS;
    request->lsn = 0;
    request->more = request->full = request->stale = false;
}

enum tn_result server_request_parse(struct server_request *request) {
    return protocol_call_parse(request->row, request->argv, request->argc,
                               request->owners->buffers->scratch, 2 * PROTOCOL_REQUEST_MAX,
                               &request->call);
}

enum tn_result server_request_judge(struct server_request *request) {
    return access_judge(request->user, request->owners->engine, request->row, &request->call,
                        request->call.detail);
}
