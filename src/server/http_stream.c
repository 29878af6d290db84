/* Events as they happen, over HTTP: server-sent events, which browsers read by themselves and
 * resume by themselves.
 *
 * A stream is a place in the store of events. libmicrohttpd asks for more when the socket takes
 * more; then the next events are rendered, in a bounded step. At the end, or when a step found
 * nothing for this stream, its connection is suspended, and woken when there is something later. So
 * a slow reader delays no other client and costs one step's memory; if it falls behind the oldest retained
 * event, it is told. All streams together get HTTP_STEPS_MAX steps in one turn of the loop; the others wait in a
 * queue for the next. */
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "base/assert.h"
#include "engine/engine.h"
#include "protocol/render.h"
#include "server/access.h"
#include "server/channel.h"
#include "server/count.h"
#include "server/event_fields.h"
#include "server/event_search.h"
#include "server/http_parts.h"
#include "server/memory.h"
#include "server/output.h"
#include "server/owners.h"
#include "server/server.h"
#include "server/stream.h"
#include "server/users.h"

/* Bytes rendered in one step, besides the event that exceeds them. */
#define STREAM_STEP_BYTES (32u * 1024u)
#define STREAM_STEP_EVENTS 2000u /* events examined in one step */
#define STREAM_BLOCK_BYTES (8u * 1024u)
/* After this much silence, or half of slow_seconds if that is less, a comment is sent, which shows
 * each side that the other is alive. */
#define STREAM_QUIET_MS 15000u

/* The names of pool, holder, kind, value and actor. */
#define STREAM_NAMES_BYTES \
    (KERNEL_POOL_MAX + 2 * KERNEL_HOLDER_MAX + KERNEL_RULE_MAX + KERNEL_RESOURCE_MAX)
/* Bytes that a step compares with a filter, besides the event that exceeds them. */
#define STREAM_STEP_SEARCHED (512u * 1024u)

_Static_assert(STREAM_STEP_BYTES + SERVER_EVENT_BYTES + 256 < SERVER_OUT_BYTES, "a step fits");

struct http_stream {
    struct server_follower follower;
    struct server_owners *owners;
    struct http *http;
    struct MHD_Connection *mhd; /* NULL: the exchange has ended */
    int socket;
    struct engine_event_id cursor; /* all events up to here have been rendered */
    struct server_event_filter filter;
    struct server_search text;
    struct access_login login;
    uint8_t names[STREAM_NAMES_BYTES]; /* of the filter */
    uint8_t *bytes;                    /* rendered bytes to send */
    size_t len, sent;
    size_t memory; /* counted for those bytes: see memory.c */
    uint64_t spoke_ms;
    TAILQ_ENTRY(http_stream) place; /* in the queue of streams that wait for a step */
    bool suspended, ended, queued;
};

/* ---- Rendering ---- */

static void line(struct protocol_writer *w, const char *name, const char *value, size_t len) {
    tn_write_raw(&w->out, name, strlen(name));
    tn_write_raw(&w->out, value, len);
    tn_write8(&w->out, '\n');
}

static void render_event(struct protocol_writer *w, const struct engine_event *event) {
    char id[PROTOCOL_EVENT_ID_TEXT];
    const char *kind = kernel_event_name(event->fact.kind);
    line(w, "id: ", id, protocol_event_id_format(event->fact.lsn, event->fact.index, id));
    line(w, "event: ", kind, strlen(kind));
    tn_write_raw(&w->out, "data: ", 6);
    server_event_write(w, event);
    tn_write_raw(&w->out, "\n\n", 2);
}

static void render_lost(struct protocol_writer *w, struct engine_event_id oldest) {
    line(w, "event: ", "lost", 4);
    tn_write_raw(&w->out, "data: ", 6);
    server_event_write_lost(w, oldest);
    tn_write_raw(&w->out, "\n\n", 2);
}

struct step {
    struct http_stream *stream;
    struct protocol_writer w;
    struct engine_events_span span;
    uint64_t values; /* bytes of the values in the events examined, at most */
    bool begun;
};

/* A user that was deleted before an event does not get it. A step also has events that are committed while it is
 * made, so users are looked at before each. */
static bool is_seen(const struct http_stream *stream, const struct engine_event *event) {
    struct server_owners *owners = stream->owners;
    server_users_look(owners);
    return access_sees_event(access_user_of(owners->access, &stream->login), event);
}

static bool step_visit(void *ctx, const struct engine_event *event) {
    struct step *step = ctx;
    if (step->w.out.len >= STREAM_STEP_BYTES ||
        step->stream->text.looked + step->values >= STREAM_STEP_SEARCHED) {
        return false;
    }
    step->values += (uint64_t)event->fact.value_count * KERNEL_VALUE_TEXT_MAX;
    if (!step->begun && step->span.lost) {
        render_lost(&step->w, (struct engine_event_id){event->fact.lsn, event->fact.index});
    }
    step->begun = true;
    if (server_event_passes(event, &step->stream->filter) && is_seen(step->stream, event)) {
        render_event(&step->w, event);
        TN_ASSERT(!step->w.out.overflow);
    }
    return true;
}

static void bytes_free(struct http_stream *stream) {
    free(stream->bytes);
    stream->bytes = NULL;
    server_memory_return(stream->owners->memory, &stream->memory, stream->memory);
}

/* Keeps the rendered bytes in memory of the stream. */
static bool keep(struct http_stream *stream, const void *bytes, size_t len) {
    TN_ASSERT(stream->bytes == NULL);
    if (!server_memory_share(stream->owners->memory, &stream->memory, len)) {
        return false;
    }
    stream->bytes = malloc(len);
    if (stream->bytes == NULL) {
        bytes_free(stream);
        return false;
    }
    memcpy(stream->bytes, bytes, len);
    stream->len = len;
    stream->sent = 0;
    stream->spoke_ms = uv_now(stream->owners->loop);
    return true;
}

/* Takes the next step. False: the stream cannot continue. */
static bool fill(struct http_stream *stream) {
    struct server_owners *owners = stream->owners;
    struct step step = {.stream = stream,
                        .w = {.out = tn_writer_of(owners->output->bytes, SERVER_OUT_BYTES),
                              .encoding = PROTOCOL_JSON}};
    TN_ASSERT(owners->output->len == 0);
    stream->text.looked = 0;
    enum tn_result code = engine_events_read(owners->engine, stream->cursor, STREAM_STEP_EVENTS,
                                             step_visit, &step, &step.span);
    if (code != TN_R_OK && code != TN_R_OVERLOADED) {
        return false;
    }
    stream->cursor = step.span.next;
    bool kept = step.w.out.len == 0 || keep(stream, owners->output->bytes, step.w.out.len);
    owners->counters->dropped[SERVER_DROP_MEMORY] += !kept;
    return kept;
}

/* ---- Sending ---- */

static void resume(struct http_stream *stream) {
    if (stream->suspended) {
        stream->suspended = false;
        if (stream->queued) {
            TAILQ_REMOVE(&stream->http->queue, stream, place);
            stream->queued = false;
        }
        server_follow_end(stream->owners->streams, &stream->follower);
        http_resume(stream->http, stream->mhd);
    }
}

static void follower_wake(struct server_follower *follower) {
    resume((struct http_stream *)follower);
}

void http_streams_turn(struct http *http) {
    http->steps = 0;
    for (uint32_t i = 0; i < HTTP_STEPS_MAX && !TAILQ_EMPTY(&http->queue); i++) {
        resume(TAILQ_FIRST(&http->queue));
    }
}

/* Returns bytes to send, or the code with which the call of libmicrohttpd ends. */
static ssize_t refill(struct http_stream *stream) {
    /* A user who has lost the right gets no more events. */
    if (stream->ended ||
        access_user_of(stream->owners->access, &stream->login)->role == PROTOCOL_NOBODY) {
        return MHD_CONTENT_READER_END_OF_STREAM;
    }
    bool turn = stream->http->steps < HTTP_STEPS_MAX;
    if (turn) {
        stream->http->steps++;
        if (!fill(stream)) {
            return MHD_CONTENT_READER_END_WITH_ERROR;
        }
        if (stream->bytes != NULL) {
            return 1;
        }
        server_follow(stream->owners->streams, &stream->follower, stream->cursor);
    } else {
        TAILQ_INSERT_TAIL(&stream->http->queue, stream, place);
        stream->queued = true;
    }
    stream->suspended = true;
    MHD_suspend_connection(stream->mhd);
    return 0;
}

/* The content reader of libmicrohttpd. */
static ssize_t reader(void *ctx, uint64_t position, char *out, size_t room) {
    struct http_stream *stream = ctx;
    (void)position;
    if (stream->bytes == NULL) {
        ssize_t code = refill(stream);
        if (code <= 0) {
            return code;
        }
    }
    size_t some = stream->len - stream->sent < room ? stream->len - stream->sent : room;
    memcpy(out, stream->bytes + stream->sent, some);
    stream->sent += some;
    if (stream->sent == stream->len) {
        bytes_free(stream);
    }
    return (ssize_t)some;
}

/* The response has been freed: libmicrohttpd makes no more calls. */
static void reader_free(void *ctx) {
    struct http_stream *stream = ctx;
    server_follow_end(stream->owners->streams, &stream->follower);
    bytes_free(stream);
    free(stream);
}

/* ---- From the exchange ---- */

void http_stream_end(struct http_exchange *exchange) {
    struct http_stream *stream = exchange->stream;
    if (stream != NULL) {
        stream->ended = true;
        resume(stream);
    }
}

void http_stream_leave(struct http_exchange *exchange) {
    if (exchange->stream != NULL) {
        server_follow_end(exchange->stream->owners->streams, &exchange->stream->follower);
        exchange->stream = NULL;
        exchange->connection->http->stream_count--;
    }
}

/* libmicrohttpd does not look at the socket of a suspended connection, so its end is noticed
 * here. */
void http_stream_second(struct http_exchange *exchange) {
    struct http_stream *stream = exchange->stream;
    char byte;
    uint64_t silence = uv_now(stream->owners->loop) - stream->spoke_ms;
    if (!stream->suspended) {
        return;
    }
    if (recv(stream->socket, &byte, 1, MSG_PEEK | MSG_DONTWAIT) == 0) {
        http_stream_end(exchange);
    } else if ((silence >= STREAM_QUIET_MS ||
                silence >= 500 * (uint64_t)stream->owners->options->slow_seconds) &&
               keep(stream, ":\n\n", 3)) {
        resume(stream);
    }
}

/* ---- Beginning ---- */

/* Sets the channel of the query as a filter. NULL, or what is wrong with it. */
static const char *channel_set(struct http_stream *stream, struct tn_bytes value) {
    struct server_channel channel;
    const char *why = server_channel_parse(value, &channel);
    if (why == NULL && channel.kind == SERVER_CHANNEL_POOL) {
        stream->filter.pool = channel.subject;
    } else if (why == NULL && channel.kind == SERVER_CHANNEL_HOLDER) {
        stream->filter.holder = channel.subject;
    } else if (why == NULL && channel.kind != SERVER_CHANNEL_EVENTS) {
        why = "channel must be events, pool:NAME or holder:NAME";
    }
    return why;
}

static bool named(const struct protocol_query *argument, const char *name) {
    return tn_bytes_equal(argument->name, tn_bytes_of(name, strlen(name)));
}

/* Sets one argument of the query. NULL, or what is wrong with it. */
static const char *argument_set(struct http_stream *stream, struct tn_bytes *after,
                                const struct protocol_query *argument) {
    struct server_event_filter *filter = &stream->filter;
    struct tn_bytes value = argument->value;
    const struct {
        const char *name;
        struct tn_bytes *to;
    } texts[] = {{"after", after},        {"pool", &filter->pool},   {"holder", &filter->holder},
                 {"kind", &filter->kind}, {"value", &filter->value}, {"actor", &filter->actor}};
    for (unsigned i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        if (named(argument, texts[i].name)) {
            *texts[i].to = value;
            return NULL;
        }
    }
    if (named(argument, "channel")) {
        return channel_set(stream, value);
    }
    if (named(argument, "lease")) {
        return protocol_lease_parse(value, &filter->lease) ? NULL
                                                           : "lease: not an id such as 0-1042";
    }
    if (named(argument, "text")) {
        if (value.len > KERNEL_NOTE_MAX) {
            return "text is too long";
        }
        server_search_set(&stream->text, value);
        return NULL;
    }
    return "a stream has the arguments after, pool, holder, kind, lease, value, actor, text, channel and "
           "format";
}

/* Copies the filter's names, which are valid only during the request, into memory of the stream. */
static const char *filter_keep(struct http_stream *stream) {
    struct server_event_filter *filter = &stream->filter;
    struct tn_bytes *const names[] = {&filter->pool, &filter->holder, &filter->kind, &filter->value,
                                      &filter->actor};
    const uint32_t most[] = {KERNEL_POOL_MAX, KERNEL_HOLDER_MAX, KERNEL_RULE_MAX,
                             KERNEL_RESOURCE_MAX, KERNEL_HOLDER_MAX};
    struct tn_writer w = tn_writer_of(stream->names, sizeof stream->names);
    for (unsigned i = 0; i < sizeof names / sizeof names[0]; i++) {
        if (names[i]->len > most[i]) {
            return "a name is too long";
        }
        const uint8_t *kept = stream->names + w.len;
        tn_write_raw(&w, names[i]->at, names[i]->len);
        names[i]->at = kept;
    }
    TN_ASSERT(!w.overflow);
    return NULL;
}

/* Sets where the stream begins. Waiting for an event of another log would mean silence. */
static const char *cursor_set(struct http_stream *stream, struct tn_bytes after) {
    struct protocol_event_id id;
    if (!protocol_event_id_parse(after, &id)) {
        return "after: not an event id such as 1042.0";
    }
    stream->cursor = (struct engine_event_id){id.lsn, id.index};
    return server_event_is_foreign(stream->owners, stream->cursor)
               ? "after: later than the last event"
               : NULL;
}

static const char *stream_set(struct http_stream *stream, struct http_exchange *exchange,
                              const struct protocol_http *request) {
    const char *last = http_header_in(exchange, "Last-Event-ID");
    struct tn_bytes after = tn_bytes_of("", 0);
    struct engine_events_span span;
    const char *why = NULL;
    stream->filter = (struct server_event_filter){.pool = after,
                                                  .holder = after,
                                                  .kind = after,
                                                  .value = after,
                                                  .actor = after,
                                                  .text = &stream->text};
    for (uint32_t i = 0; i < request->query_count && why == NULL; i++) {
        why = argument_set(stream, &after, &request->query[i]);
    }
    if (last != NULL && last[0] != '\0') {
        after = tn_bytes_of(last, strlen(last)); /* a client that reconnects has read up to here */
    }
    if (why == NULL && after.len > 0) {
        why = cursor_set(stream, after);
    } else if (why == NULL && engine_events_read(stream->owners->engine, ENGINE_EVENTS_NEWEST, 0,
                                                 NULL, NULL, &span) == TN_R_OK) {
        stream->cursor = span.next;
    }
    return why != NULL ? why : filter_keep(stream);
}

/* Sends something at once, so that the head is sent, too. */
static bool keep_first(struct http_stream *stream, struct http_exchange *exchange) {
    static const char first[] = "retry: 1000\n\n";
    stream->owners = exchange->client.owners;
    stream->http = exchange->connection->http;
    stream->mhd = exchange->mhd;
    stream->socket = exchange->connection->socket;
    stream->follower.wake = follower_wake;
    stream->login = exchange->client.login;
    return keep(stream, first, sizeof first - 1);
}

void http_stream_begin(struct http_exchange *exchange, const struct protocol_http *request) {
    struct http_stream *stream = calloc(1, sizeof *stream);
    if (stream == NULL || !keep_first(stream, exchange)) {
        free(stream);
        http_answer_problem(exchange, 503, "no memory for a stream");
        return;
    }
    const char *why = stream_set(stream, exchange, request);
    if (why != NULL) {
        http_answer_problem(exchange, 400, "%s", why);
        reader_free(stream);
        return;
    }
    struct MHD_Response *response = MHD_create_response_from_callback(
        MHD_SIZE_UNKNOWN, STREAM_BLOCK_BYTES, reader, stream, reader_free);
    if (response == NULL) {
        reader_free(stream);
    } else {
        exchange->stream = stream;
        exchange->connection->http->stream_count++;
    }
    http_answer_response(exchange, 200, response);
    http_header_out(exchange, MHD_HTTP_HEADER_CONTENT_TYPE, "text/event-stream");
    http_header_out(exchange, MHD_HTTP_HEADER_CACHE_CONTROL, "no-store");
}
