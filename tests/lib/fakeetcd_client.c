/* The clients of the fake etcd: queues, deadlines and connections as the real client has them. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "lib/fakeetcd_state.h"

/* A member that hangs is left after this. */
#define SILENCE_MS 1500u
#define CHANGES_MAX 256u

static struct fake_client *of(struct etcd *base) {
    return (struct fake_client *)base;
}

/* ---- Submitting ---- */

static enum tn_status submit(struct etcd *base, const struct etcd_request *request,
                             uint64_t deadline_ms, etcd_done *done, void *ctx) {
    struct fake_client *client = of(base);
    for (unsigned i = 0; i < ETCD_CALLS_MAX; i++) {
        struct fake_call *call = &client->calls[i];
        if (call->state == FAKE_FREE) {
            *call = (struct fake_call){
                .state = FAKE_QUEUED,
                .id = ++client->ids,
                .deadline_ms = deadline_ms,
                .request = fake_message_new(),
                .verb = request->verb,
                .done = done,
                .ctx = ctx,
            };
            fake_request_copy(call->request, request);
            return TN_OK;
        }
    }
    return TN_OVERLOAD;
}

static enum tn_status watch_submit(struct etcd *base, const struct etcd_watch_options *options,
                                   etcd_watched *watched, void *ctx, uint64_t *ret_watch) {
    struct fake_client *client = of(base);
    for (unsigned i = 0; i < ETCD_WATCHES_MAX; i++) {
        struct fake_watch *watch = &client->watches[i];
        if (watch->state == FAKE_FREE) {
            *watch = (struct fake_watch){
                .state = FAKE_QUEUED,
                .id = ++client->ids,
                .deadline_ms = options->deadline_ms,
                .connection = options->connection,
                .next_revision = options->start_revision,
                .ready_ms = ETCD_NEVER,
                .watched = watched,
                .ctx = ctx,
            };
            etcd_arena_init(&watch->arena, (size_t)1 << 20);
            watch->keys.key = fake_bytes_copy(&watch->arena, options->keys.key);
            watch->keys.end = fake_bytes_copy(&watch->arena, options->keys.end);
            *ret_watch = watch->id;
            return TN_OK;
        }
    }
    return TN_OVERLOAD;
}

static struct fake_watch *watch_find(struct fake_client *client, uint64_t id) {
    for (unsigned i = 0; i < ETCD_WATCHES_MAX; i++) {
        if (client->watches[i].state != FAKE_FREE && client->watches[i].id == id) {
            return &client->watches[i];
        }
    }
    return NULL;
}

static void watch_free(struct fake_watch *watch) {
    etcd_arena_free(&watch->arena);
    watch->state = FAKE_FREE;
}

static void watch_progress(struct etcd *base, uint64_t id) {
    struct fake_watch *watch = watch_find(of(base), id);
    if (watch != NULL && watch->created) {
        watch->progress = true;
    }
}

static void watch_cancel(struct etcd *base, uint64_t id) {
    struct fake_watch *watch = watch_find(of(base), id);
    if (watch != NULL) {
        watch_free(watch);
    }
}

static void leave(struct etcd *base) {
    of(base)->leave = true;
}

/* ---- Ending ---- */

/* The slot is free before `done` runs. */
static void call_finish(struct fake_client *client, struct fake_call *call,
                        const struct etcd_answer *answer, struct fake_message *message) {
    struct fake_call copy = *call;
    call->state = FAKE_FREE;
    client->doubts += answer->outcome == ETCD_DOUBT;
    copy.done(copy.ctx, answer);
    if (message != NULL) {
        fake_message_free(message);
    }
}

static void call_fail(struct fake_client *client, struct fake_call *call, enum etcd_outcome outcome,
                      enum etcd_reason reason) {
    struct etcd_answer answer = {
        .verb = call->verb,
        .outcome = outcome,
        .reason = reason,
        .grpc_status = -1,
        .message = "",
        .connection = call->state == FAKE_SENT ? client->connection : 0,
    };
    struct fake_message *held = call->state == FAKE_QUEUED ? call->request : call->answer;
    call_finish(client, call, &answer, held);
}

static void watch_end(struct fake_watch *watch, enum etcd_reason reason, int64_t compact_revision) {
    struct etcd_news news = {.kind = ETCD_WATCH_ENDED,
                             .reason = reason,
                             .compact_revision = compact_revision,
                             .message = ""};
    etcd_watched *watched = watch->watched;
    void *ctx = watch->ctx;
    watch_free(watch);
    watched(ctx, &news);
}

/* The connection is lost: calls in flight on it end, and the next member is tried. */
static void disconnect(struct fake_client *client) {
    struct fakeetcd *fake = client->fake;
    uint64_t last = client->ids;
    for (unsigned i = 0; i < ETCD_CALLS_MAX; i++) {
        struct fake_call *call = &client->calls[i];
        if (call->state == FAKE_SENT && call->id <= last) {
            call_fail(client, call, ETCD_DOUBT, ETCD_LOST);
        }
    }
    client->connection = 0;
    client->broken = client->leave = false;
    client->member = (client->member + 1) % fake->member_count;
    client->connect_ms = fake->now_ms + fake_delay(fake) + 1;
    for (unsigned i = 0; i < ETCD_WATCHES_MAX; i++) {
        struct fake_watch *watch = &client->watches[i];
        if (watch->state == FAKE_SENT && watch->id <= last) {
            watch_end(watch, ETCD_LOST, 0);
        }
    }
}

/* ---- One step ---- */

uint64_t fake_client_silent_ms(const struct fake_client *client) {
    const struct fake_member *member = &client->fake->members[client->member];
    return client->connection != 0 && member->paused ? member->paused_ms + SILENCE_MS : ETCD_NEVER;
}

static void connection_look(struct fake_client *client) {
    struct fakeetcd *fake = client->fake;
    if (client->connection != 0) {
        if (client->broken || client->leave || fake->now_ms >= fake_client_silent_ms(client)) {
            disconnect(client);
        }
        return;
    }
    client->leave = client->broken = false;
    if (fake->now_ms < client->connect_ms) {
        return;
    }
    if (fake_member_answers(fake, client->member) && !client->cut[client->member]) {
        client->connection = ++fake->connections;
        client->connects++;
    } else {
        client->member = (client->member + 1) % fake->member_count;
        client->connect_ms = fake->now_ms + 50;
    }
}

static struct fake_call *call_oldest(struct fake_client *client,
                                     bool (*wanted)(const struct fake_client *client,
                                                    const struct fake_call *call),
                                     uint64_t last) {
    struct fake_call *oldest = NULL;
    for (unsigned i = 0; i < ETCD_CALLS_MAX; i++) {
        struct fake_call *call = &client->calls[i];
        if (call->state != FAKE_FREE && call->id <= last && wanted(client, call) &&
            (oldest == NULL || call->id < oldest->id)) {
            oldest = call;
        }
    }
    return oldest;
}

static bool is_over(const struct fake_client *client, const struct fake_call *call) {
    return call->answer != NULL || client->now_ms >= call->deadline_ms;
}

static bool is_queued(const struct fake_client *client, const struct fake_call *call) {
    (void)client;
    return call->state == FAKE_QUEUED;
}

static void calls_settle(struct fake_client *client) {
    uint64_t last = client->ids;
    for (struct fake_call *call; (call = call_oldest(client, is_over, last)) != NULL;) {
        if (call->answer != NULL) {
            struct fake_message *message = call->answer;
            bool away =
                message->answer.outcome == ETCD_DOUBT && message->answer.reason != ETCD_NOSPACE;
            client->leave |= away;
            call_finish(client, call, &message->answer, message);
        } else if (call->state == FAKE_QUEUED) {
            call_fail(client, call, ETCD_SURELY_NOT, ETCD_UNREACHABLE);
        } else {
            client->leave = true;
            call_fail(client, call, ETCD_DOUBT, ETCD_TIMEOUT);
        }
    }
}

static void calls_dispatch(struct fake_client *client) {
    for (struct fake_call *call;
         client->connection != 0 && (call = call_oldest(client, is_queued, client->ids)) != NULL;) {
        struct fake_message *message = call->request;
        message->client = client;
        message->call = call->id;
        message->connection = client->connection;
        message->member = client->member;
        call->request = NULL;
        call->state = FAKE_SENT;
        fake_call_send(client->fake, message);
    }
}

/* ---- Watches ---- */

static void watch_begin(struct fake_client *client, struct fake_watch *watch) {
    struct fakeetcd *fake = client->fake;
    const struct fake_member *member = &fake->members[client->member];
    if (watch->connection != 0 && watch->connection != client->connection) {
        watch_end(watch, ETCD_LOST, 0);
        return;
    }
    watch->connection = client->connection;
    watch->state = FAKE_SENT;
    watch->next_revision =
        watch->next_revision > 0 ? watch->next_revision - member->offset : member->applied + 1;
    watch->stuck = fake_happens(fake, fake->faults.stuck_watch);
    watch->ready_ms = fake->now_ms + fake_delay(fake);
}

static void news_tell(struct fake_client *client, struct fake_watch *watch,
                      enum etcd_news_kind kind, struct etcd_change *changes, uint32_t count,
                      bool partial) {
    const struct fakeetcd *fake = client->fake;
    const struct fake_member *member = &fake->members[client->member];
    for (uint32_t i = 0; i < count; i++) {
        changes[i].kv.mod_revision += member->offset;
        changes[i].kv.create_revision += changes[i].deleted ? 0 : member->offset;
    }
    struct etcd_news news = {
        .kind = kind,
        .header = {.cluster_id = 1,
                   .member_id = 0x1000u + client->member,
                   .revision = member->applied + member->offset},
        .changes = changes,
        .change_count = count,
        .partial = partial,
        .message = "",
    };
    watch->watched(watch->ctx, &news);
}

/* Tells what the member has applied, at most CHANGES_MAX changes at a time. */
static void changes_tell(struct fake_client *client, struct fake_watch *watch) {
    struct fakeetcd *fake = client->fake;
    struct etcd_change changes[CHANGES_MAX];
    int64_t applied = fake->members[client->member].applied;
    size_t at = fakestore_find(&fake->store, watch->next_revision);
    uint64_t id = watch->id;
    while (watch->state == FAKE_SENT && watch->id == id) {
        uint32_t count =
            fakestore_changes(&fake->store, &watch->keys, &at, applied, changes, CHANGES_MAX);
        if (count == 0) {
            watch->next_revision =
                applied + 1 > watch->next_revision ? applied + 1 : watch->next_revision;
            return;
        }
        watch->next_revision = changes[count - 1].kv.mod_revision + 1;
        bool same = at < fake->store.history_count &&
                    fake->store.history[at]->revision < watch->next_revision;
        uint32_t first = count;
        if (count > 1 && fake_happens(fake, fake->faults.split) &&
            changes[count - 2].kv.mod_revision == changes[count - 1].kv.mod_revision) {
            first = count - 1;
        }
        news_tell(client, watch, ETCD_WATCH_CHANGES, changes, first, same || first < count);
        if (first < count && watch->state == FAKE_SENT && watch->id == id) {
            news_tell(client, watch, ETCD_WATCH_CHANGES, changes + first, count - first, same);
        }
    }
}

static void watch_look(struct fake_client *client, struct fake_watch *watch) {
    struct fakeetcd *fake = client->fake;
    const struct fake_member *member = &fake->members[client->member];
    uint64_t id = watch->id;
    if (member->paused || fake->now_ms < watch->ready_ms) {
        return;
    }
    watch->ready_ms = ETCD_NEVER;
    if (!watch->created) {
        watch->created = true;
        watch->deadline_ms = ETCD_NEVER;
        news_tell(client, watch, ETCD_WATCH_CREATED, NULL, 0, false);
    }
    if (watch->state != FAKE_SENT || watch->id != id || watch->stuck) {
        return;
    }
    if (watch->next_revision < fake->store.compacted) {
        watch_end(watch, ETCD_COMPACTED, fake->store.compacted + member->offset);
        return;
    }
    changes_tell(client, watch);
    if (watch->state == FAKE_SENT && watch->id == id && watch->progress) {
        watch->progress = false;
        news_tell(client, watch, ETCD_WATCH_PROGRESS, NULL, 0, false);
    }
}

/* Whether there is something to report that is not in flight yet. */
static void watch_plan(struct fake_client *client, struct fake_watch *watch) {
    struct fakeetcd *fake = client->fake;
    const struct fake_member *member = &fake->members[client->member];
    bool news = watch->progress || watch->next_revision <= member->applied;
    if (watch->ready_ms == ETCD_NEVER && news && !watch->stuck && !member->paused) {
        watch->ready_ms = fake->now_ms + fake_delay(fake);
    }
}

static void watches_step(struct fake_client *client) {
    uint64_t last = client->ids;
    for (unsigned i = 0; i < ETCD_WATCHES_MAX; i++) {
        struct fake_watch *watch = &client->watches[i];
        if (watch->state == FAKE_FREE || watch->id > last) {
            continue;
        }
        if (client->now_ms >= watch->deadline_ms) {
            client->leave |= watch->state == FAKE_SENT;
            watch_end(watch, watch->state == FAKE_SENT ? ETCD_TIMEOUT : ETCD_UNREACHABLE, 0);
            continue;
        }
        if (watch->state == FAKE_QUEUED && client->connection != 0) {
            watch_begin(client, watch);
        }
        if (watch->state == FAKE_SENT && watch->id <= last) {
            watch_plan(client, watch);
            watch_look(client, watch);
        }
    }
}

static void step(struct etcd *base, uint64_t now_ms) {
    struct fake_client *client = of(base);
    TN_ASSERT(now_ms >= client->now_ms);
    client->now_ms = now_ms;
    connection_look(client);
    calls_settle(client);
    watches_step(client);
    calls_dispatch(client);
}

/* ---- Looking ---- */

static bool watch_is_due(const struct fake_client *client, const struct fake_watch *watch) {
    const struct fakeetcd *fake = client->fake;
    const struct fake_member *member = &fake->members[client->member];
    if (watch->state == FAKE_QUEUED) {
        return client->connection != 0;
    }
    bool news = watch->progress || watch->next_revision <= member->applied;
    return !member->paused && (watch->ready_ms != ETCD_NEVER ? fake->now_ms >= watch->ready_ms
                                                             : news && !watch->stuck);
}

static uint64_t next_ms(const struct etcd *base) {
    const struct fake_client *client = (const struct fake_client *)base;
    uint64_t next = ETCD_NEVER;
    bool due = client->connection == 0 ? client->fake->now_ms >= client->connect_ms
                                       : client->broken || client->leave;
    due |= client->fake->now_ms >= fake_client_silent_ms(client);
    for (unsigned i = 0; i < ETCD_CALLS_MAX; i++) {
        const struct fake_call *call = &client->calls[i];
        if (call->state != FAKE_FREE) {
            due |= call->answer != NULL || (call->state == FAKE_QUEUED && client->connection != 0);
            next = call->deadline_ms < next ? call->deadline_ms : next;
        }
    }
    for (unsigned i = 0; i < ETCD_WATCHES_MAX; i++) {
        const struct fake_watch *watch = &client->watches[i];
        if (watch->state != FAKE_FREE) {
            due |= watch_is_due(client, watch);
            next = watch->deadline_ms < next ? watch->deadline_ms : next;
        }
    }
    return due ? 0 : next;
}

static unsigned poll_set(const struct etcd *base, struct pollfd *out, unsigned max) {
    (void)base;
    (void)out;
    (void)max;
    return 0;
}

static void info(const struct etcd *base, struct etcd_info *ret_info) {
    const struct fake_client *client = (const struct fake_client *)base;
    *ret_info = (struct etcd_info){
        .connection = client->connection,
        .member_id = client->connection != 0 ? 0x1000u + client->member : 0,
        .leader = 0x1000u + client->fake->leader,
        .connects = client->connects,
        .doubts = client->doubts,
    };
    (void)snprintf(ret_info->endpoint, sizeof ret_info->endpoint, "member%u", client->member);
    (void)snprintf(ret_info->version, sizeof ret_info->version, "%s", client->fake->version);
}

static void messages_forget(struct fake_client *client) {
    for (struct fake_message *message = client->fake->messages; message != NULL;
         message = message->next) {
        if (message->client == client) {
            message->client = NULL;
        }
    }
}

static void close_client(struct etcd *base) {
    struct fake_client *client = of(base);
    struct fake_client **at = &client->fake->clients;
    messages_forget(client);
    for (unsigned i = 0; i < ETCD_CALLS_MAX; i++) {
        struct fake_call *call = &client->calls[i];
        if (call->state == FAKE_QUEUED) {
            fake_message_free(call->request);
        } else if (call->state == FAKE_SENT && call->answer != NULL) {
            fake_message_free(call->answer);
        }
    }
    for (unsigned i = 0; i < ETCD_WATCHES_MAX; i++) {
        if (client->watches[i].state != FAKE_FREE) {
            watch_free(&client->watches[i]);
        }
    }
    while (*at != client) {
        at = &(*at)->next;
    }
    *at = client->next;
    free(client);
}

static const struct etcd_verbs verbs = {
    .submit = submit,
    .watch = watch_submit,
    .watch_progress = watch_progress,
    .watch_cancel = watch_cancel,
    .leave = leave,
    .step = step,
    .next_ms = next_ms,
    .poll_set = poll_set,
    .info = info,
    .close = close_client,
};

struct etcd *fakeetcd_client(struct fakeetcd *fake, unsigned member) {
    struct fake_client *client = calloc(1, sizeof *client);
    TN_ASSERT(client != NULL);
    client->base.verbs = &verbs;
    client->fake = fake;
    client->member = member % fake->member_count;
    client->next = fake->clients;
    fake->clients = client;
    return &client->base;
}
