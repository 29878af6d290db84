/* User and password become a token, which is sent with every call. etcd forgets tokens after a few
 * minutes and at a restart; a call that is refused for its token is sent again with a new one. */
#include <stdio.h>
#include <string.h>

#include "etcd/client_parts.h"

/* etcd hashes the password with bcrypt, which takes it a tenth of a second. */
#define LOG_IN_MS 5000u
#define LOG_IN_PAUSE_MS 1000u

static bool log_in_begin(struct etcd_client *client) {
    struct client_call *call = &client->log_in;
    struct client_lane *lane = &client->lanes[LANE_ACTIVE];
    if (etcd_message_log_in(&call->stream.out, client->options.user, client->options.password) !=
        TN_OK) {
        return false;
    }
    call->stream.events = &client_call_events;
    call->stream.path = ETCD_PATH_LOG_IN;
    call->deadline_ms = client->now_ms + LOG_IN_MS;
    client->token[0] = '\0';
    return client_call_send(client, lane, call);
}

bool client_token_ready(struct etcd_client *client) {
    if (client->options.user == NULL || client->token_good) {
        return true;
    }
    if (client->log_in.state == CLIENT_FREE && client->now_ms >= client->log_in_at_ms) {
        client->again |= log_in_begin(client);
    }
    return false;
}

void client_token_bad(struct etcd_client *client, uint64_t token_count) {
    if (client->token_count == token_count) {
        client->token_good = false;
    }
}

static void token_take(struct etcd_client *client, const char *token) {
    size_t len = strlen(token);
    memcpy(client->token, token, len + 1);
    client->token_good = true;
    client->token_count++;
}

static void log_in_denied(struct etcd_client *client, const char *text) {
    char message[ETCD_MESSAGE_MAX];
    (void)snprintf(message, sizeof message, "log-in of user %.64s: %.160s", client->options.user,
                   text);
    client_trouble(client, ETCD_DENIED, message);
    client->log_in_at_ms = client->now_ms + LOG_IN_PAUSE_MS;
    client_calls_deny(client, message);
    client_watches_deny(client, message);
}

static void log_in_ended(struct etcd_client *client) {
    struct client_call *call = &client->log_in;
    const struct etcd_end *end = &call->stream.end;
    struct etcd_verdict verdict = etcd_verdict_of(end);
    struct tn_bytes message;
    const char *token = NULL;
    call->state = CLIENT_FREE;
    if (verdict.outcome == ETCD_DONE && client_call_message(call, &message)) {
        token = etcd_message_token(&client->arena_in, message);
    }
    if (token != NULL && strlen(token) < CLIENT_TOKEN_MAX) {
        client_answered(client);
        token_take(client, token);
    } else if (verdict.outcome == ETCD_SURELY_NOT && end->kind == ETCD_END_TRAILERS) {
        client_answered(client);
        if (strstr(end->message, "authentication is not enabled") != NULL) {
            token_take(client, "");
        } else {
            log_in_denied(client, end->message);
        }
    } else {
        client_leave(client, call->connection, ETCD_SERVER, end->message);
    }
}

bool client_token_process(struct etcd_client *client) {
    struct client_call *call = &client->log_in;
    if (call->state == CLIENT_ENDED) {
        log_in_ended(client);
        return true;
    }
    if (call->state == CLIENT_SENT && client->now_ms >= call->deadline_ms) {
        etcd_session_detach(&call->stream);
        call->state = CLIENT_FREE;
        client_leave(client, call->connection, ETCD_TIMEOUT, "the log-in took too long");
        return true;
    }
    return false;
}

uint64_t client_token_next_ms(const struct etcd_client *client) {
    if (client->log_in.state == CLIENT_SENT) {
        return client->log_in.deadline_ms;
    }
    /* A log-in that may begin at once waits for a connection, not for a time. */
    return client->log_in_at_ms > client->now_ms ? client->log_in_at_ms : ETCD_NEVER;
}
