#include <stdio.h>
#include <string.h>

#include "base/assert.h"
#include "etcd/client_parts.h"

/* The slot is free before `watched` runs. */
static void watch_finish(struct client_watch *watch, enum etcd_reason reason,
                         int64_t compact_revision, const char *text) {
    char message[ETCD_MESSAGE_MAX];
    etcd_verdict_message(message, (const uint8_t *)text, strlen(text));
    struct etcd_news news = {
        .kind = ETCD_WATCH_ENDED,
        .reason = reason,
        .compact_revision = compact_revision,
        .message = message,
    };
    etcd_session_detach(&watch->stream);
    watch->state = CLIENT_FREE;
    watch->watched(watch->ctx, &news);
}

/* etcd has ended the watch by a message of its own. */
static void watch_canceled(struct client_watch *watch, const struct etcd_news *news) {
    struct etcd_client *client = watch->client;
    enum etcd_reason reason = etcd_verdict_cancel(news->message, news->compact_revision > 0);
    if (reason == ETCD_DENIED && client->options.user != NULL) {
        /* etcd also says this about a token that it no longer knows. */
        client_token_bad(client, watch->token_count);
    }
    if (reason == ETCD_SERVER) {
        client->leave_now = true;
    }
    watch_finish(watch, reason, news->compact_revision, news->message);
}

static void on_message(struct etcd_stream *stream, struct tn_bytes message) {
    struct client_watch *watch = (struct client_watch *)stream;
    struct etcd_client *client = watch->client;
    struct etcd_news news;
    if (!etcd_message_news(&news, &client->arena_in, message)) {
        watch_finish(watch, ETCD_PROTOCOL, 0, "not an answer to a watch");
        return;
    }
    if (news.kind == ETCD_WATCH_ENDED) {
        watch_canceled(watch, &news);
        return;
    }
    if (news.kind == ETCD_WATCH_CREATED) {
        watch->deadline_ms = ETCD_NEVER;
        client_answered(client);
    }
    watch->watched(watch->ctx, &news);
}

static void on_end(struct etcd_stream *stream, const struct etcd_end *end) {
    struct client_watch *watch = (struct client_watch *)stream;
    (void)end; /* it stays in the stream */
    TN_ASSERT(watch->state == CLIENT_SENT);
    watch->state = CLIENT_ENDED;
}

static const struct etcd_stream_events watch_events = {.message = on_message, .end = on_end};

enum tn_status client_watch(struct etcd *base, const struct etcd_watch_options *options,
                            etcd_watched *watched, void *ctx, uint64_t *ret_watch) {
    struct etcd_client *client = client_of(base);
    struct client_watch *watch = NULL;
    for (unsigned i = 0; i < ETCD_WATCHES_MAX && watch == NULL; i++) {
        watch = client->watches[i].state == CLIENT_FREE ? &client->watches[i] : NULL;
    }
    if (watch == NULL) {
        return TN_OVERLOAD;
    }
    enum tn_status status =
        etcd_message_watch(&watch->stream.out, client->options.request_bytes_max, options);
    if (status != TN_OK) {
        return status;
    }
    watch->stream.events = &watch_events;
    watch->stream.streaming = true;
    watch->stream.path = ETCD_PATH_WATCH;
    watch->stream.needs_leader = true;
    watch->client = client;
    watch->state = CLIENT_QUEUED;
    watch->id = ++client->watch_ids;
    watch->order = ++client->orders;
    watch->deadline_ms = options->deadline_ms;
    watch->connection = options->connection;
    watch->watched = watched;
    watch->ctx = ctx;
    client->again = true;
    *ret_watch = watch->id;
    return TN_OK;
}

static struct client_watch *watch_find(struct etcd_client *client, uint64_t id) {
    for (unsigned i = 0; i < ETCD_WATCHES_MAX; i++) {
        if (client->watches[i].state != CLIENT_FREE && client->watches[i].id == id) {
            return &client->watches[i];
        }
    }
    return NULL;
}

void client_watch_progress(struct etcd *base, uint64_t id) {
    struct client_watch *watch = watch_find(client_of(base), id);
    if (watch != NULL && watch->state == CLIENT_SENT && watch->deadline_ms == ETCD_NEVER) {
        etcd_session_ask_progress(&watch->stream);
        client_of(base)->again = true;
    }
}

void client_watch_cancel(struct etcd *base, uint64_t id) {
    struct client_watch *watch = watch_find(client_of(base), id);
    if (watch != NULL) {
        etcd_session_detach(&watch->stream);
        watch->state = CLIENT_FREE;
        client_of(base)->again = true;
    }
}

/* ---- In a step ---- */

static bool watch_send(struct etcd_client *client, struct client_watch *watch) {
    const struct client_lane *lane = &client->lanes[LANE_ACTIVE];
    if (lane->connection == 0 || !etcd_link_is_ready(lane->link) || !client_token_ready(client)) {
        return false;
    }
    if (watch->connection != 0 && watch->connection != lane->connection) {
        watch_finish(watch, ETCD_LOST, 0, "the connection is another one by now");
        return true;
    }
    watch->connection = lane->connection;
    watch->token_count = client->token_count;
    watch->stream.token = client->token[0] != '\0' ? client->token : NULL;
    if (!etcd_session_start(etcd_link_session(lane->link), &watch->stream)) {
        client_leave(client, lane->connection, ETCD_LOST, "the connection takes no more calls");
        return true;
    }
    watch->state = CLIENT_SENT;
    return true;
}

bool client_watches_dispatch(struct etcd_client *client) {
    bool any = false;
    for (unsigned i = 0; i < ETCD_WATCHES_MAX; i++) {
        if (client->watches[i].state == CLIENT_QUEUED) {
            any |= watch_send(client, &client->watches[i]);
        }
    }
    return any;
}

static void watch_ended(struct etcd_client *client, struct client_watch *watch) {
    const struct etcd_end *end = &watch->stream.end;
    struct etcd_verdict verdict = etcd_verdict_of(end);
    enum etcd_reason reason = verdict.outcome == ETCD_DONE ? ETCD_CANCELED : verdict.reason;
    if (verdict.log_in && client->options.user != NULL) {
        client_token_bad(client, watch->token_count);
    }
    if (verdict.leave) {
        client_leave(client, watch->connection, reason, end->message);
    }
    watch_finish(watch, reason, 0, end->message);
}

static void watch_late(struct etcd_client *client, struct client_watch *watch) {
    if (watch->state == CLIENT_QUEUED) {
        bool trusted = client->trouble != ETCD_UNTRUSTED && client->trouble != ETCD_DENIED;
        watch_finish(watch, trusted ? ETCD_UNREACHABLE : client->trouble, 0, client->trouble_text);
        return;
    }
    etcd_session_detach(&watch->stream);
    client_leave(client, watch->connection, ETCD_TIMEOUT, "the watch was not created in time");
    watch_finish(watch, ETCD_TIMEOUT, 0, "");
}

bool client_watches_process(struct etcd_client *client) {
    uint64_t last = client->orders;
    bool any = false;
    for (unsigned i = 0; i < ETCD_WATCHES_MAX; i++) {
        struct client_watch *watch = &client->watches[i];
        if (watch->order > last) {
            continue;
        }
        if (watch->state == CLIENT_ENDED) {
            watch_ended(client, watch);
            any = true;
        } else if (watch->state != CLIENT_FREE && client->now_ms >= watch->deadline_ms) {
            watch_late(client, watch);
            any = true;
        }
    }
    return any;
}

void client_watches_deny(struct etcd_client *client, const char *text) {
    uint64_t last = client->orders;
    for (unsigned i = 0; i < ETCD_WATCHES_MAX; i++) {
        if (client->watches[i].state == CLIENT_QUEUED && client->watches[i].order <= last) {
            watch_finish(&client->watches[i], ETCD_DENIED, 0, text);
        }
    }
}

uint64_t client_watches_next_ms(const struct etcd_client *client) {
    uint64_t next_ms = ETCD_NEVER;
    for (unsigned i = 0; i < ETCD_WATCHES_MAX; i++) {
        if (client->watches[i].state != CLIENT_FREE) {
            next_ms = client_min(next_ms, client->watches[i].deadline_ms);
        }
    }
    return next_ms;
}

bool client_has_watches(const struct etcd_client *client) {
    for (unsigned i = 0; i < ETCD_WATCHES_MAX; i++) {
        if (client->watches[i].state != CLIENT_FREE) {
            return true;
        }
    }
    return false;
}
