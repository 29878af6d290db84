/* The commands TOKEN, over the issuer. All are reads except REVOKE, a write, and ROTATE, a job. A token is
 * shown only in the reply to its request: it is in no log line and no event. */
#include <string.h>

#include "protocol/render.h"
#include "server/count.h"
#include "server/handler.h"
#include "server/owners.h"
#include "server/server.h"

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
    request->owners->counters->tokens_issued++;
}

enum tn_result read_token_issue(struct server_request *request) {
    struct token_order order = order_of(&request->call);
    struct token_issued issued;
    enum tn_result code = token_issue(request->owners->options->tokens, request->how, &order,
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
        token_issue_sensor(request->owners->options->tokens, request->how,
                           request->call.command.name, &order, &issued, request->call.detail);
    if (code == TN_R_OK) {
        issued_write(request, &issued);
    }
    return code;
}

enum tn_result read_token_refresh(struct server_request *request) {
    struct token_order order = order_of(&request->call);
    struct token_issued issued;
    enum tn_result code = token_refresh(request->owners->options->tokens, request->how,
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
    struct server_owners *owners = request->owners;
    struct token_state state;
    enum tn_result code =
        token_introspect(owners->options->tokens, request->how, request->call.token, &state);
    if (code == TN_R_OK) {
        owners->counters->introspections[state.verdict]++;
        state_write(request, &state);
    }
    return code;
}

/* ---- Keys ---- */

enum tn_result read_token_keys(struct server_request *request) {
    struct server_owners *owners = request->owners;
    struct protocol_writer *w = request->w;
    const struct token_keys *keys = &owners->options->tokens->keys;
    uint64_t now_s = token_now(owners->options->tokens);
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

void write_token_revoke_committed(struct server_owners *owners, const struct server_slot *slot) {
    (void)slot;
    owners->counters->tokens_revoked++;
}
