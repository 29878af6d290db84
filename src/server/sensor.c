/* What running sensors ask for, by the token that they were started with. */
#include <stdio.h>
#include <string.h>

#include "server/internal.h"

/* OK and the claims of a live token of a sensor, or why it is none, in words too. Where the lease
 * stands is looked up as it is now: whoever acts on it judges it again. */
static enum tn_result bearer_judge(struct server *server, struct token_state *ret_state) {
    struct protocol_call *call = &server->call;
    enum tn_result code =
        token_introspect(server->options.tokens, ENGINE_READ_AS_IS, call->token, ret_state);
    if (code != TN_R_OK) {
        return code;
    }
    if (ret_state->verdict != TOKEN_LIVE) {
        (void)snprintf(call->detail, sizeof call->detail, "the token is refused: %s",
                       token_verdict_text(ret_state->verdict));
        return TN_R_BAD_TOKEN;
    }
    if (strncmp(ret_state->claims.subject, TOKEN_SENSOR_SUBJECT, sizeof TOKEN_SENSOR_SUBJECT - 1) !=
        0) {
        (void)snprintf(call->detail, sizeof call->detail, "the token is not that of a sensor");
        return TN_R_DENIED;
    }
    return TN_R_OK;
}

static bool trigger_allowed(const struct token_claims *claims, struct tn_bytes trigger) {
    for (uint32_t i = 0; i < claims->trigger_count; i++) {
        const char *allowed = claims->triggers[i];
        if (tn_bytes_equal(tn_bytes_of(allowed, strlen(allowed)), trigger)) {
            return true;
        }
    }
    return false;
}

/* Operation ids are scoped to the run, by its lease, for every sensor counts its own. */
enum tn_result server_sensor_emit(struct server *server, struct server_emitter *emitter) {
    struct protocol_call *call = &server->call;
    struct kernel_command *command = &call->command;
    const struct token_claims *claims = &emitter->state.claims;
    char lease[PROTOCOL_LEASE_TEXT];
    enum tn_result code = bearer_judge(server, &emitter->state);
    if (code != TN_R_OK) {
        return code;
    }
    if (!trigger_allowed(claims, command->trigger)) {
        (void)snprintf(call->detail, sizeof call->detail,
                       "the token's trigger types do not have this one");
        return TN_R_DENIED;
    }
    (void)protocol_lease_format(claims->lease, lease);
    int len = snprintf(emitter->user, sizeof emitter->user, "lease:%s", lease);
    const char *ref = claims->subject + sizeof TOKEN_SENSOR_SUBJECT - 1;
    command->user = tn_bytes_of(emitter->user, (size_t)len);
    command->name = tn_bytes_of(ref, strlen(ref));
    command->lease = claims->lease;
    command->epoch = claims->epoch;
    command->fields |= KERNEL_F_NAME | KERNEL_F_LEASE | KERNEL_F_EPOCH;
    command->rights = KERNEL_RIGHT_OPERATOR | KERNEL_RIGHT_SUPERVISOR; /* it is for EMIT alone */
    return TN_R_OK;
}
