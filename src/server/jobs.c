/* What jobs.h promises. */
#include "server/jobs.h"

#include <stdio.h>

#include "base/assert.h"
#include "protocol/render.h"
#include "server/log_line.h"
#include "server/parts.h"

enum server_step server_job_begin(struct server_request *request) {
    request->slot = server_slot_take(&request->server->slots, request->client, request->row);
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
        server_handlers[request->row->id].job(request);
    }
    return SERVER_DONE;
}

/* ---- SNAPSHOT ---- */

static void snapshot_take(uv_work_t *work) {
    struct server *server = work->data;
    server->jobs.snapshot.status = engine_snapshot(server->engine, &server->jobs.snapshot.error);
}

static void snapshot_answer(struct server *server, struct server_slot *slot, bool taken,
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
    server_answer_job(server, slot, &w);
}

static void snapshot_taken(uv_work_t *work, int status) {
    struct server *server = work->data;
    struct server_slot *slot = server->jobs.snapshot.slot;
    bool taken = status == 0 && server->jobs.snapshot.status == TN_OK;
    server->jobs.snapshot.slot = NULL;
    server->counters.errors += !taken;
    snapshot_answer(server, slot, taken, server->jobs.snapshot.error.text);
}

void job_snapshot(struct server_request *request) {
    struct server *server = request->server;
    if (server->jobs.snapshot.slot != NULL) {
        server_slot_refuse(request->slot, TN_R_OVERLOADED, "a snapshot is being taken; try again");
        return;
    }
    server->jobs.snapshot.slot = request->slot;
    server->jobs.snapshot.work.data = server;
    (void)uv_queue_work(&server->loop, &server->jobs.snapshot.work, snapshot_take, snapshot_taken);
}

/* ---- TOKEN ROTATE: it writes the file of the keys ---- */

/* Nobody else writes the keys that are read here: they change below, on the loop, when this is over. */
static void rotation_run(uv_work_t *work) {
    struct server *server = work->data;
    const struct token_issuer *issuer = server->options.tokens;
    server->jobs.rotation.status =
        token_keys_rotate(&issuer->keys, token_now(issuer), server->jobs.rotation.drop,
                          &server->jobs.rotation.keys, server->jobs.rotation.reason);
}

static void rotation_refuse(struct server *server, struct server_slot *slot,
                            struct protocol_writer *w) {
    enum tn_status status = server->jobs.rotation.status;
    enum tn_result code = status == TN_OVERLOAD  ? TN_R_TOO_LARGE
                          : status == TN_NOSPACE ? TN_R_NOSPACE
                                                 : TN_R_OVERLOADED;
    protocol_render_refusal(w, code, server->jobs.rotation.reason);
    if (w->out.overflow) {
        *w = server_slot_writer(slot);
        protocol_render_refusal(w, code, NULL);
    }
    slot->answer.code = code;
    slot->answer.http_status = (uint16_t)tn_result_http(code);
    server_log("token_keys_rotation_failed", "reason=\"%s\"", server->jobs.rotation.reason);
}

static void rotation_done(uv_work_t *work, int status) {
    struct server *server = work->data;
    struct server_slot *slot = server->jobs.rotation.slot;
    struct token_keys *keys = &server->options.tokens->keys;
    struct protocol_writer w = server_slot_writer(slot);
    TN_ASSERT(status == 0); /* it is never cancelled */
    server->jobs.rotation.slot = NULL;
    if (server->jobs.rotation.status == TN_OK) {
        token_keys_close(keys);
        *keys = server->jobs.rotation.keys;
        slot->answer.http_status = 200;
        protocol_write_map(&w, 3);
        protocol_pair_text(&w, "result", "OK");
        protocol_pair_text(&w, "kid", keys->of[0].kid);
        protocol_pair_number(&w, "keys", keys->count);
        server_log("token_keys_rotated", "kid=%s keys=%u dropped=%s", keys->of[0].kid, keys->count,
                   server->jobs.rotation.drop ? "yes" : "no");
        if (server->jobs.rotation.drop) {
            supervisor_tokens_void(server->supervisor);
        }
    } else {
        rotation_refuse(server, slot, &w);
    }
    server_answer_job(server, slot, &w);
}

void job_token_rotate(struct server_request *request) {
    struct server *server = request->server;
    struct server_slot *slot = request->slot;
    if (server->jobs.rotation.slot != NULL) {
        server_slot_refuse(slot, TN_R_OVERLOADED, "the keys are being rotated; try again");
        return;
    }
    if (server->options.tokens->keys.verify_only) {
        server_slot_refuse(slot, TN_R_MASTERDOWN, "only the owner of the log rotates the keys");
        return;
    }
    server->jobs.rotation.slot = slot;
    server->jobs.rotation.drop = (request->call.command.fields & KERNEL_F_IMMEDIATE) != 0;
    server->jobs.rotation.work.data = server;
    (void)uv_queue_work(&server->loop, &server->jobs.rotation.work, rotation_run, rotation_done);
}
