/* What write.h promises. */
#include "server/write.h"

#include <stdio.h>
#include <string.h>

#include "base/assert.h"
#include "protocol/identity.h"
#include "server/answer.h"
#include "server/owners.h"
#include "server/parked.h"
#include "server/refusal.h"
#include "server/schedule.h"
#include "server/sensor.h"
#include "server/server_role.h"
#include "server/slots.h"

void server_writes_init(struct server_writes *writes, struct engine *engine,
                        struct server_slots *slots, struct server_parked *parked,
                        struct server_refusals *refusals) {
    writes->engine = engine;
    writes->slots = slots;
    writes->parked = parked;
    writes->refusals = refusals;
}

/* ---- Holders ---- */

/* The kernel refuses a pool that does not exist. A lease that an earlier version granted under a
 * MAC address as it was written is found as long as it lives. */
enum tn_result server_holder_derive(struct engine *engine, struct tn_bytes pool,
                                    struct tn_bytes meta, char holder[KERNEL_HOLDER_MAX],
                                    uint32_t *ret_len, char *detail) {
    struct kernel_identity identity = {0};
    struct protocol_identity_key key;
    (void)engine_identity_read(engine, pool, &identity);
    enum tn_result code = protocol_identity_derive(meta, &identity, &key, detail);
    if (code != TN_R_OK) {
        return code;
    }
    bool raw =
        key.raw_len > 0 && engine_holder_has(engine, pool, tn_bytes_of(key.raw, key.raw_len));
    *ret_len = raw ? key.raw_len : key.len;
    memcpy(holder, raw ? key.raw : key.text, *ret_len);
    return TN_R_OK;
}

static enum tn_result holder_derive(struct server_request *request,
                                    char holder[KERNEL_HOLDER_MAX]) {
    struct protocol_call *call = &request->call;
    uint32_t len = 0;
    if ((call->command.fields & KERNEL_F_META) == 0) {
        (void)snprintf(call->detail, sizeof call->detail, "holder *: META is missing");
        return TN_R_MALFORMED;
    }
    enum tn_result code = server_holder_derive(request->client->writes->engine, call->from,
                                               call->command.meta, holder, &len, call->detail);
    call->command.holder = tn_bytes_of(holder, len);
    return code;
}

/* ---- Submission ---- */

/* Answers a command at once if the committed state refuses it and no earlier write of the client is
 * in flight. */
static bool write_refused(struct server_request *request) {
    struct server_slot *slot = request->slot;
    if (request->client->first != slot ||
        !engine_refuses(request->client->writes->engine, &request->call.command,
                        &slot->request.result)) {
        return false;
    }
    server_refusals_count(request->client->writes->refusals, &request->call.command,
                          slot->request.result.code);
    server_slot_refused(slot);
    return true;
}

enum tn_result server_write_submit(struct server_request *request) {
    struct server_writes *writes = request->client->writes;
    struct server_slot *slot = request->slot;
    TN_ASSERT(slot != NULL && slot->client == request->client && !slot->done);
    if (write_refused(request)) {
        return TN_R_OK;
    }
    slot->request.done = server_answer_done;
    slot->request.ctx = request->owners;
    bool waits = (request->call.command.fields & KERNEL_F_WAIT) != 0;
    slot->has_op = request->call.command.opid.len > 0;
    if (waits && !server_parked_begin(writes->parked, slot)) {
        (void)snprintf(request->call.detail, sizeof request->call.detail,
                       "%u clients of this server wait in line, or have just left it",
                       SERVER_SLOTS_PARKED);
        return TN_R_WAITERS_FULL;
    }
    enum tn_result code =
        engine_submit_later(writes->engine, &slot->request, &request->call.command);
    writes->submitted = true;
    if (waits && code != TN_R_OK) {
        server_parked_cancel(writes->parked, slot);
    }
    request->client->waits = waits && code == TN_R_OK;
    request->full = code == TN_R_OVERLOADED;
    return code;
}

/* Whether the user may execute the command, and the user name to log with it. */
static enum tn_result write_judge(struct server_request *request) {
    const struct access_user *user = request->user;
    struct kernel_command *command = &request->call.command;
    enum tn_result code = server_request_judge(request);
    command->user = tn_bytes_of(user->name, user->name_len);
    command->rights = user->role >= PROTOCOL_OPERATOR ? KERNEL_RIGHT_OPERATOR : 0;
    if (user->max_values > 0 && (command->fields & KERNEL_F_CLAIMS) != 0) {
        command->quota = user->max_values;
        command->fields |= KERNEL_F_QUOTA;
    }
    if (code == TN_R_OK && protocol_command_has(request->row, PROTOCOL_PROGRAMS)) {
        code = server_program_judge(request);
    }
    return code;
}

enum server_step server_write(struct server_request *request) {
    struct server_client *client = request->client;
    char holder[KERNEL_HOLDER_MAX];
    struct server_slot *slot = server_slot_take(client->writes->slots, client, request->row);
    if (slot == NULL) {
        schedule_wait(client);
        return SERVER_WAIT;
    }
    request->slot = slot;
    enum tn_result code = server_role_judge(request);
    if (code == TN_R_OK) {
        code = server_request_parse(request);
    }
    if (code == TN_R_OK && request->call.derive) {
        code = holder_derive(request, holder);
    }
    if (code == TN_R_OK) {
        code = write_judge(request);
    }
    if (code == TN_R_OK) {
        code = server_handlers[request->row->id].write(request);
    }
    /* The current batch is full. The client waits for the next batch: a refusal would punish the
     * client that came last for the requests of others. */
    if (request->full) {
        server_slot_return(client);
        schedule_wait(client);
        return SERVER_WAIT;
    }
    if (code != TN_R_OK) {
        server_slot_refuse(slot, code, request->call.detail);
    }
    return SERVER_DONE;
}

void server_writes_commit(struct server_writes *writes) {
    if (writes->submitted) {
        writes->submitted = false;
        engine_submit_now(writes->engine);
    }
}
