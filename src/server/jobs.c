/* What jobs.h promises. */
#include "server/jobs.h"

#include <stdio.h>

#include "base/assert.h"
#include "engine/engine.h"
#include "protocol/render.h"
#include "server/answer.h"
#include "server/count.h"
#include "server/log_line.h"
#include "server/owners.h"
#include "server/schedule.h"
#include "server/server.h"
#include "server/server_role.h"
#include "server/slots.h"

enum server_step server_job_begin(struct server_request *request) {
    request->slot = server_slot_take(request->owners->slots, request->client, request->row);
    if (request->slot == NULL) {
        schedule_wait(request->client);
        return SERVER_WAIT;
    }
    enum tn_result code = server_role_judge(request);
    if (code == TN_R_OK) {
        code = server_request_parse(request);
    }
    if (code == TN_R_OK) {
        code = server_request_judge(request);
    }
    if (code != TN_R_OK) {
        server_slot_refuse(request->slot, code, request->call.detail);
    } else {
        TN_ASSERT(server_handlers[request->row->id].job != NULL); /* unit/handler checks this */
        server_handlers[request->row->id].job(request);
    }
    return SERVER_DONE;
}

/* ---- SNAPSHOT ---- */

static void snapshot_take(uv_work_t *work) {
    struct server_owners *owners = work->data;
    owners->jobs->snapshot.status = engine_snapshot(owners->engine, &owners->jobs->snapshot.error);
}

static void snapshot_answer(struct server_owners *owners, struct server_slot *slot, bool taken,
                            const char *why) {
    char text[400];
    struct protocol_writer w = server_slot_writer(slot);
    bool json = slot->encoding == PROTOCOL_JSON;
    slot->answer.http_status = taken ? 200 : 500;
    (void)snprintf(text, sizeof text, "%sno snapshot: %.*s", json ? "" : "ERR ", json ? 100 : 300,
                   why);
    if (taken && json) {
        protocol_write_map(&w, 1);
        protocol_pair_text(&w, "result", "OK");
    } else if (taken) {
        protocol_write_simple(&w, "OK");
    } else if (json) {
        protocol_render_problem(&w, 500, TN_REJECTED, "Internal Server Error", text);
    } else {
        protocol_write_error(&w, text);
    }
    server_answer_job(owners, slot, &w);
}

static void snapshot_taken(uv_work_t *work, int status) {
    struct server_owners *owners = work->data;
    struct server_slot *slot = owners->jobs->snapshot.slot;
    bool taken = status == 0 && owners->jobs->snapshot.status == TN_OK;
    owners->jobs->snapshot.slot = NULL;
    owners->counters->errors += !taken;
    snapshot_answer(owners, slot, taken, owners->jobs->snapshot.error.text);
}

void job_snapshot(struct server_request *request) {
    struct server_owners *owners = request->owners;
    if (owners->jobs->snapshot.slot != NULL) {
        server_slot_refuse(request->slot, TN_R_OVERLOADED, "a snapshot is being taken; try again");
        return;
    }
    owners->jobs->snapshot.slot = request->slot;
    owners->jobs->snapshot.work.data = owners;
    (void)uv_queue_work(owners->loop, &owners->jobs->snapshot.work, snapshot_take, snapshot_taken);
}

/* ---- TOKEN ROTATE: it writes the file of the keys ---- */

/* The keys read here change only below, on the loop, after this function has returned. */
static void rotation_run(uv_work_t *work) {
    struct server_owners *owners = work->data;
    const struct token_issuer *issuer = owners->options->tokens;
    owners->jobs->rotation.status =
        token_keys_rotate(&issuer->keys, token_now(issuer), owners->jobs->rotation.drop,
                          &owners->jobs->rotation.keys, owners->jobs->rotation.reason);
}

static void rotation_refuse(struct server_owners *owners, struct server_slot *slot,
                            struct protocol_writer *w) {
    enum tn_status status = owners->jobs->rotation.status;
    enum tn_result code = status == TN_OVERLOAD  ? TN_R_TOO_LARGE
                          : status == TN_NOSPACE ? TN_R_NOSPACE
                                                 : TN_R_OVERLOADED;
    protocol_render_refusal(w, code, owners->jobs->rotation.reason);
    if (w->out.overflow) {
        *w = server_slot_writer(slot);
        protocol_render_refusal(w, code, NULL);
    }
    slot->answer.code = code;
    slot->answer.http_status = (uint16_t)tn_result_http(code);
    server_log("token_keys_rotation_failed", "reason=\"%s\"", owners->jobs->rotation.reason);
}

static void rotation_done(uv_work_t *work, int status) {
    struct server_owners *owners = work->data;
    struct server_slot *slot = owners->jobs->rotation.slot;
    struct token_keys *keys = &owners->options->tokens->keys;
    struct protocol_writer w = server_slot_writer(slot);
    TN_ASSERT(status == 0); /* libuv never cancels it */
    owners->jobs->rotation.slot = NULL;
    if (owners->jobs->rotation.status == TN_OK) {
        token_keys_close(keys);
        *keys = owners->jobs->rotation.keys;
        slot->answer.http_status = 200;
        protocol_write_map(&w, 3);
        protocol_pair_text(&w, "result", "OK");
        protocol_pair_text(&w, "kid", keys->of[0].kid);
        protocol_pair_number(&w, "keys", keys->count);
        server_log("token_keys_rotated", "kid=%s keys=%u dropped=%s", keys->of[0].kid, keys->count,
                   owners->jobs->rotation.drop ? "yes" : "no");
        if (owners->jobs->rotation.drop) {
            supervisor_tokens_void(owners->supervisor);
        }
    } else {
        rotation_refuse(owners, slot, &w);
    }
    server_answer_job(owners, slot, &w);
}

void job_token_rotate(struct server_request *request) {
    struct server_owners *owners = request->owners;
    struct server_slot *slot = request->slot;
    if (owners->jobs->rotation.slot != NULL) {
        server_slot_refuse(slot, TN_R_OVERLOADED, "the keys are being rotated; try again");
        return;
    }
    if (owners->options->tokens->keys.verify_only) {
        server_slot_refuse(slot, TN_R_MASTERDOWN, "only the owner of the log rotates the keys");
        return;
    }
    owners->jobs->rotation.slot = slot;
    owners->jobs->rotation.drop = (request->call.command.fields & KERNEL_F_IMMEDIATE) != 0;
    owners->jobs->rotation.work.data = owners;
    (void)uv_queue_work(owners->loop, &owners->jobs->rotation.work, rotation_run, rotation_done);
}
