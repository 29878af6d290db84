/* The commands TOKEN: what they ask of the issuer, and how that is told. All but REVOKE, which is a
 * write, and ROTATE, which takes its time on another thread, are reads. Tokens are told to whoever asks
 * for them and to nobody else: they are in no log line and no event. */
#include <string.h>

#include "base/assert.h"
#include "server/internal.h"

static struct token_order order_of(const struct protocol_call *call) {
    return (struct token_order){.lease = call->command.lease,
                                .epoch = call->command.epoch,
                                .ttl_s = call->command.ttl_s,
                                .has_ttl = (call->command.fields & KERNEL_F_TTL) != 0,
                                .refresh_s = call->refresh_s,
                                .has_refresh = call->has_refresh,
                                .scope = call->scope};
}

static void pair_integer(struct protocol_writer *w, const char *name, uint64_t number) {
    protocol_write_text(w, name);
    protocol_write_integer(w, (int64_t)number);
}

/* ---- A new token ---- */

static void issued_write(struct server_request *request, const struct token_issued *issued) {
    struct protocol_writer *w = request->w;
    const struct token_claims *claims = &issued->claims;
    char id[TOKEN_ID_TEXT];
    (void)token_id_format(claims->lease, claims->epoch, id);
    protocol_write_map(w, claims->trigger_count > 0 ? 10 : 9);
    protocol_pair_text(w, "token", issued->text);
    protocol_pair_text(w, "token_type", "Bearer");
    protocol_pair_text(w, "token_id", id);
    protocol_pair_text(w, "sub", claims->subject);
    protocol_pair_text(w, "scope", claims->scope);
    pair_integer(w, "expires_in", claims->expires_s - claims->issued_s);
    pair_integer(w, "expires_at", claims->expires_s);
    pair_integer(w, "max_exp", claims->max_exp_s);
    token_triggers_write(w, claims);
    protocol_pair_number(w, "lsn", issued->lsn);
    request->lsn = issued->lsn;
    request->server->counters.tokens_issued++;
}

enum tn_result read_token_issue(struct server_request *request) {
    struct token_order order = order_of(&request->call);
    struct token_issued issued;
    enum tn_result code = token_issue(request->server->options.tokens, request->how, &order,
                                      &issued, request->call.detail);
    if (code == TN_R_OK) {
        issued_write(request, &issued);
    }
    return code;
}

enum tn_result read_token_sensor(struct server_request *request) {
    struct token_order order = order_of(&request->call);
    struct token_issued issued;
    enum tn_result code =
        token_issue_sensor(request->server->options.tokens, request->how,
                           request->call.command.name, &order, &issued, request->call.detail);
    if (code == TN_R_OK) {
        issued_write(request, &issued);
    }
    return code;
}

enum tn_result read_token_refresh(struct server_request *request) {
    struct token_order order = order_of(&request->call);
    struct token_issued issued;
    enum tn_result code = token_refresh(request->server->options.tokens, request->how,
                                        request->call.token, &order, &issued, request->call.detail);
    if (code == TN_R_OK) {
        issued_write(request, &issued);
    }
    return code;
}

/* ---- What a token is ---- */

static void state_write(struct server_request *request, const struct token_state *state) {
    struct protocol_writer *w = request->w;
    const struct token_claims *claims = &state->claims;
    bool live = state->verdict == TOKEN_LIVE;
    char id[TOKEN_ID_TEXT];
    uint32_t pairs = 1u + (live ? 0u : 1u) + (state->lsn > 0 ? 1u : 0u);
    if (state->has_claims) {
        pairs += claims->trigger_count > 0 ? 10 : 9;
    }
    protocol_write_map(w, pairs);
    protocol_pair_flag(w, "active", live);
    if (!live) {
        protocol_pair_text(w, "reason", token_verdict_name(state->verdict));
    }
    if (state->has_claims) {
        (void)token_id_format(claims->lease, claims->epoch, id);
        protocol_pair_text(w, "token_type", "Bearer");
        protocol_pair_text(w, "iss", claims->issuer);
        protocol_pair_text(w, "sub", claims->subject);
        protocol_pair_text(w, "jti", id);
        protocol_pair_text(w, "scope", claims->scope);
        pair_integer(w, "iat", claims->issued_s);
        pair_integer(w, "exp", claims->expires_s);
        pair_integer(w, "max_ttl", claims->max_ttl_s);
        pair_integer(w, "max_exp", claims->max_exp_s);
        token_triggers_write(w, claims);
    }
    if (state->lsn > 0) {
        protocol_pair_number(w, "lsn", state->lsn);
        request->lsn = state->lsn;
    }
}

enum tn_result read_token_introspect(struct server_request *request) {
    struct server *server = request->server;
    struct token_state state;
    enum tn_result code =
        token_introspect(server->options.tokens, request->how, request->call.token, &state);
    if (code == TN_R_OK) {
        server->counters.introspections[state.verdict]++;
        state_write(request, &state);
    }
    return code;
}

/* ---- Keys ---- */

enum tn_result read_token_keys(struct server_request *request) {
    const struct server *server = request->server;
    struct protocol_writer *w = request->w;
    const struct token_keys *keys = &server->options.tokens->keys;
    uint64_t now_s = token_now(server->options.tokens);
    uint32_t count = 0;
    for (uint32_t i = 0; i < keys->count; i++) {
        count += token_key_lives(&keys->of[i], now_s);
    }
    protocol_write_map(w, 1);
    protocol_write_text(w, "keys");
    protocol_write_array(w, count);
    for (uint32_t i = 0; i < keys->count; i++) {
        if (token_key_lives(&keys->of[i], now_s)) {
            protocol_write_map(w, 6);
            protocol_pair_text(w, "kty", "OKP");
            protocol_pair_text(w, "crv", "Ed25519");
            protocol_pair_text(w, "x", keys->of[i].text);
            protocol_pair_text(w, "kid", keys->of[i].kid);
            protocol_pair_text(w, "use", "sig");
            protocol_pair_text(w, "alg", "EdDSA");
        }
    }
    return TN_R_OK;
}

/* ---- Revocation: the kernel's ---- */

void write_token_revoke_committed(const struct server_slot *slot) {
    slot->server->counters.tokens_revoked++;
}

/* ---- Rotation: writing the file is not for the loop ---- */

/* Nobody else writes the keys that are read here: they change below, on the loop, when this is over. */
static void rotation_run(uv_work_t *work) {
    struct server *server = work->data;
    const struct token_issuer *issuer = server->options.tokens;
    server->rotation_status =
        token_keys_rotate(&issuer->keys, token_now(issuer), server->rotation_drop,
                          &server->rotation_keys, server->rotation_reason);
}

static void rotation_refuse(struct server *server, struct server_slot *slot,
                            struct protocol_writer *w) {
    enum tn_status status = server->rotation_status;
    enum tn_result code = status == TN_OVERLOAD  ? TN_R_TOO_LARGE
                          : status == TN_NOSPACE ? TN_R_NOSPACE
                                                 : TN_R_OVERLOADED;
    protocol_render_refusal(w, code, server->rotation_reason);
    if (w->out.overflow) {
        *w = server_slot_writer(slot);
        protocol_render_refusal(w, code, NULL);
    }
    slot->answer.code = code;
    slot->answer.http_status = (uint16_t)tn_result_http(code);
    server_log("token_keys_rotation_failed", "reason=\"%s\"", server->rotation_reason);
}

static void rotation_done(uv_work_t *work, int status) {
    struct server *server = work->data;
    struct server_slot *slot = server->rotation_slot;
    struct token_keys *keys = &server->options.tokens->keys;
    struct protocol_writer w = server_slot_writer(slot);
    TN_ASSERT(status == 0); /* it is never cancelled */
    server->rotation_slot = NULL;
    if (server->rotation_status == TN_OK) {
        token_keys_close(keys);
        *keys = server->rotation_keys;
        slot->answer.http_status = 200;
        protocol_write_map(&w, 3);
        protocol_pair_text(&w, "result", "OK");
        protocol_pair_text(&w, "kid", keys->of[0].kid);
        protocol_pair_number(&w, "keys", keys->count);
        server_log("token_keys_rotated", "kid=%s keys=%u dropped=%s", keys->of[0].kid, keys->count,
                   server->rotation_drop ? "yes" : "no");
        if (server->rotation_drop) {
            supervisor_tokens_void(server->supervisor);
        }
    } else {
        rotation_refuse(server, slot, &w);
    }
    server_slot_answered(slot, &w);
}

void job_token_rotate(struct server_request *request) {
    struct server *server = request->server;
    struct server_slot *slot = request->slot;
    if (server->rotation_slot != NULL) {
        server_slot_refuse(slot, TN_R_OVERLOADED, "the keys are being rotated; try again");
        return;
    }
    server->rotation_slot = slot;
    server->rotation_drop = (request->call.command.fields & KERNEL_F_IMMEDIATE) != 0;
    server->rotation.data = server;
    (void)uv_queue_work(&server->loop, &server->rotation, rotation_run, rotation_done);
}
