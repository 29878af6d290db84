#include <stdio.h>
#include <string.h>

#include "base/assert.h"
#include "etcd/client_parts.h"

static void on_end(struct etcd_stream *stream, const struct etcd_end *end) {
    struct client_call *call = (struct client_call *)stream;
    (void)end; /* it stays in the stream */
    TN_ASSERT(call->state == CLIENT_SENT);
    call->state = CLIENT_ENDED;
}

const struct etcd_stream_events client_call_events = {.end = on_end};

/* ---- Sending ---- */

static bool needs_leader(const struct etcd_request *request) {
    switch (request->verb) {
    case ETCD_TXN:
    case ETCD_COMPACT:
        return true;
    case ETCD_RANGE:
        return !request->range.serializable;
    case ETCD_STATUS:
        return false;
    }
    return false;
}

enum tn_status client_submit(struct etcd *base, const struct etcd_request *request,
                             uint64_t deadline_ms, etcd_done *done, void *ctx) {
    struct etcd_client *client = client_of(base);
    struct client_call *call = NULL;
    for (unsigned i = 0; i < ETCD_CALLS_MAX && call == NULL; i++) {
        call = client->calls[i].state == CLIENT_FREE ? &client->calls[i] : NULL;
    }
    if (call == NULL) {
        return TN_OVERLOAD;
    }
    enum tn_status status = etcd_message_request(&call->stream.out, &client->arena_out,
                                                 client->options.request_bytes_max, request);
    if (status != TN_OK) {
        return status;
    }
    call->stream.events = &client_call_events;
    call->stream.path = etcd_message_path(request->verb);
    call->stream.needs_leader = needs_leader(request);
    call->state = CLIENT_QUEUED;
    call->verb = request->verb;
    call->order = ++client->orders;
    call->deadline_ms = deadline_ms;
    call->connection = 0;
    call->again = false;
    call->done = done;
    call->ctx = ctx;
    client->again = true;
    return TN_OK;
}

bool client_call_send(struct etcd_client *client, struct client_lane *lane,
                      struct client_call *call) {
    call->connection = lane->connection;
    call->token_count = client->token_count;
    call->stream.token = client->token[0] != '\0' ? client->token : NULL;
    if (!etcd_session_start(etcd_link_session(lane->link), &call->stream)) {
        return false;
    }
    call->state = CLIENT_SENT;
    return true;
}

/* The oldest call that waits to be sent. */
static struct client_call *first_queued(struct etcd_client *client) {
    struct client_call *first = NULL;
    for (unsigned i = 0; i < ETCD_CALLS_MAX; i++) {
        struct client_call *call = &client->calls[i];
        if (call->state == CLIENT_QUEUED && (first == NULL || call->order < first->order)) {
            first = call;
        }
    }
    return first;
}

bool client_calls_dispatch(struct etcd_client *client) {
    struct client_lane *lane = &client->lanes[LANE_ACTIVE];
    bool sent = false;
    for (struct client_call *call; (call = first_queued(client)) != NULL;) {
        if (lane->connection == 0 || !etcd_link_is_ready(lane->link) ||
            !client_token_ready(client)) {
            break;
        }
        if (!client_call_send(client, lane, call)) { /* its stream numbers are used up */
            client_leave(client, lane->connection, ETCD_LOST, "the connection takes no more calls");
            return true;
        }
        sent = true;
    }
    return sent;
}

/* ---- Ending ---- */

/* The slot is free before `done` runs, so that `done` may use it. The stream's message is valid
 * only until the next request uses the stream; it has been decoded into the arena before. */
static void call_finish(struct etcd_client *client, struct client_call *call,
                        struct etcd_answer *answer) {
    char message[ETCD_MESSAGE_MAX];
    (void)snprintf(message, sizeof message, "%s", answer->message);
    answer->message = message;
    answer->verb = call->verb;
    if (answer->outcome == ETCD_DOUBT) {
        client->doubts++;
    }
    call->state = CLIENT_FREE;
    call->done(call->ctx, answer);
}

bool client_call_message(const struct client_call *call, struct tn_bytes *ret_message) {
    if (call->stream.frame.state != ETCD_FRAME_WHOLE) {
        return false;
    }
    *ret_message = etcd_frame_message(&call->stream.frame);
    return true;
}

static void call_answer(struct etcd_client *client, struct client_call *call,
                        const struct etcd_verdict *verdict) {
    const struct etcd_end *end = &call->stream.end;
    uint64_t connection = call->connection;
    struct etcd_answer answer = {
        .outcome = verdict->outcome,
        .reason = verdict->reason,
        .grpc_status = end->grpc_status,
        .message = end->message,
        .connection = connection,
    };
    struct tn_bytes message;
    bool leave = verdict->leave;
    if (verdict->outcome == ETCD_DONE &&
        (!client_call_message(call, &message) ||
         !etcd_message_answer(&answer, &client->arena_in, call->verb, message))) {
        answer.outcome = ETCD_DOUBT;
        answer.reason = ETCD_PROTOCOL;
        leave = true;
    }
    if (leave) {
        client_leave(client, connection, answer.reason, end->message);
    } else {
        client_answered(client);
    }
    call_finish(client, call, &answer);
}

/* Back to the queue, or to the caller with what the stream's end means. */
static void call_ended(struct etcd_client *client, struct client_call *call) {
    struct etcd_verdict verdict = etcd_verdict_of(&call->stream.end);
    if (call->stream.end.kind == ETCD_END_UNSENT) {
        client_leave(client, call->connection, ETCD_UNREACHABLE, "the server takes no more calls");
        call->state = CLIENT_QUEUED;
        return;
    }
    if (verdict.log_in && client->options.user != NULL) {
        client_token_bad(client, call->token_count);
        if (!call->again) {
            call->again = true;
            call->state = CLIENT_QUEUED;
            return;
        }
    }
    call_answer(client, call, &verdict);
}

/* The deadline has passed. */
static void call_late(struct etcd_client *client, struct client_call *call) {
    bool sent = call->state == CLIENT_SENT && call->stream.sent;
    bool trusted = client->trouble != ETCD_UNTRUSTED && client->trouble != ETCD_DENIED;
    struct etcd_answer answer = {.grpc_status = -1, .message = ""};
    if (sent) {
        answer.outcome = ETCD_DOUBT;
        answer.reason = ETCD_TIMEOUT;
        answer.connection = call->connection;
    } else {
        answer.outcome = ETCD_SURELY_NOT;
        answer.reason = trusted ? ETCD_UNREACHABLE : client->trouble;
        answer.message = client->trouble_text;
    }
    if (call->state == CLIENT_SENT) {
        etcd_session_detach(&call->stream);
        client_leave(client, call->connection, ETCD_TIMEOUT, "no answer before the deadline");
    }
    call_finish(client, call, &answer);
}

/* The oldest call that has ended or is late. */
static struct client_call *first_over(struct etcd_client *client) {
    struct client_call *first = NULL;
    for (unsigned i = 0; i < ETCD_CALLS_MAX; i++) {
        struct client_call *call = &client->calls[i];
        bool over = call->state == CLIENT_ENDED ||
                    (call->state != CLIENT_FREE && client->now_ms >= call->deadline_ms);
        if (over && (first == NULL || call->order < first->order)) {
            first = call;
        }
    }
    return first;
}

bool client_calls_process(struct etcd_client *client) {
    /* Calls that `done` submits with a deadline in the past must not keep the loop in here. */
    uint64_t last = client->orders;
    bool any = false;
    for (struct client_call *call; (call = first_over(client)) != NULL && call->order <= last;) {
        any = true;
        if (call->state == CLIENT_ENDED) {
            call_ended(client, call);
        } else {
            call_late(client, call);
        }
    }
    return any;
}

void client_calls_deny(struct etcd_client *client, const char *text) {
    uint64_t last = client->orders;
    for (struct client_call *call; (call = first_queued(client)) != NULL && call->order <= last;) {
        struct etcd_answer answer = {
            .outcome = ETCD_SURELY_NOT, .reason = ETCD_DENIED, .grpc_status = -1, .message = text};
        call_finish(client, call, &answer);
    }
}

uint64_t client_calls_next_ms(const struct etcd_client *client) {
    uint64_t next_ms = ETCD_NEVER;
    for (unsigned i = 0; i < ETCD_CALLS_MAX; i++) {
        const struct client_call *call = &client->calls[i];
        if (call->state != CLIENT_FREE) {
            next_ms = client_min(next_ms, call->deadline_ms);
        }
    }
    return next_ms;
}
