/* Commands over HTTP. The route finds the row of the command, the request becomes words, and from
 * there on it is served like a request over RESP. The answer is the same reply in JSON; the status
 * and the headers say what HTTP clients expect there. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/assert.h"
#include "base/hash.h"
#include "protocol/http.h"
#include "protocol/render.h"
#include "protocol/text.h"
#include "protocol/walk.h"
#include "server/access.h"
#include "server/buffers.h"
#include "server/count.h"
#include "server/handler.h"
#include "server/http_parts.h"
#include "server/jobs.h"
#include "server/output.h"
#include "server/owners.h"
#include "server/reads.h"
#include "server/request.h"
#include "server/schedule.h"
#include "server/server_role.h"
#include "server/slots.h"
#include "server/stop.h"
#include "server/write.h"

static const char json_type[] = "application/json";
static const char problem_type[] = "application/problem+json";

/* ---- Keys under way ---- */

/* While the first request with a key is in flight, a repeat is refused. The kernel would answer it
 * correctly, but only after the first one has been committed. */
static struct http_exchange **key_bucket(struct http *http, const char *key, uint32_t len) {
    return &http->keys[tn_hash64(key, len, 0) % HTTP_KEY_BUCKETS];
}

/* False: another exchange of the same user has the key. */
static bool key_remember(struct http_exchange *exchange, struct tn_bytes key) {
    struct http_exchange **bucket =
        key_bucket(exchange->connection->http, (const char *)key.at, key.len);
    if (key.len == 0 || exchange->key_len > 0) {
        return true;
    }
    for (struct http_exchange *e = *bucket; e != NULL; e = e->next_key) {
        if (e->client.login.user == exchange->client.login.user &&
            tn_bytes_equal(key, tn_bytes_of(e->key, e->key_len))) {
            return false;
        }
    }
    memcpy(exchange->key, key.at, key.len);
    exchange->key_len = key.len;
    exchange->next_key = *bucket;
    *bucket = exchange;
    return true;
}

void http_key_forget(struct http_exchange *exchange) {
    if (exchange->key_len == 0) {
        return;
    }
    struct http_exchange **at =
        key_bucket(exchange->connection->http, exchange->key, exchange->key_len);
    while (*at != exchange) {
        at = &(*at)->next_key;
    }
    *at = exchange->next_key;
    exchange->key_len = 0;
}

/* ---- Answers ---- */

#define HTTP_EVENT_ANSWER_MAX 512u /* result, id, lsn and replayed, and the id in "data" */

static void header_number(struct http_exchange *exchange, const char *name, uint64_t number) {
    char text[24];
    (void)snprintf(text, sizeof text, "%" PRIu64, number);
    http_header_out(exchange, name, text);
}

/* The Location of what a write has created. */
static void answer_location(struct http_exchange *exchange, const struct server_answer *answer) {
    char lease[PROTOCOL_LEASE_TEXT];
    char location[PROTOCOL_LEASE_TEXT + 16];
    (void)protocol_lease_format(answer->lease, lease);
    (void)snprintf(location, sizeof location, "/v1/leases/%s", lease);
    http_header_out(exchange, MHD_HTTP_HEADER_LOCATION, location);
}

/* The Retry-After header, in whole seconds, rounded up. */
static void answer_retry(struct http_exchange *exchange, const struct server_answer *answer,
                         unsigned status) {
    if ((answer->code == TN_R_EXHAUSTED || answer->code == TN_R_BUSY) && answer->retry_at_ms > 0) {
        uint64_t ms =
            answer->retry_at_ms > answer->now_ms ? answer->retry_at_ms - answer->now_ms : 0;
        header_number(exchange, MHD_HTTP_HEADER_RETRY_AFTER, (ms + 999) / 1000);
    } else if (status == 503) {
        header_number(exchange, MHD_HTTP_HEADER_RETRY_AFTER, 1);
    }
}

/* Attune's sensors read the id of their event from "data", as a number. An event emitted by a
 * sensor is the only one of its command. */
static void answer_event(struct http_exchange *exchange, uint64_t lsn, const char *text,
                         size_t len) {
    char out[HTTP_EVENT_ANSWER_MAX];
    TN_ASSERT(len > 1 && text[0] == '{');
    int size = snprintf(out, sizeof out, "{\"data\":{\"id\":%" PRIu64 "},%.*s", lsn, (int)len - 1,
                        text + 1);
    TN_ASSERT(size > 0 && (size_t)size < sizeof out);
    http_answer(exchange, 201, json_type, out, (size_t)size);
}

/* Percent-encodes all bytes that may not stand in a query. */
static void escape(struct tn_writer *w, struct tn_bytes text) {
    static const char hex[] = "0123456789ABCDEF";
    for (uint32_t i = 0; i < text.len; i++) {
        uint8_t c = text.at[i];
        bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                     c == '-' || c == '.' || c == '_' || c == '/' || c == ':';
        char escaped[3] = {'%', hex[c >> 4], hex[c & 15]};
        tn_write_raw(w, plain ? (const void *)&c : escaped, plain ? 1 : 3);
    }
}

/* Builds the query again from its arguments. */
static enum MHD_Result query_add(void *ctx, enum MHD_ValueKind kind, const char *name,
                                 size_t name_len, const char *value, size_t value_len) {
    struct tn_writer *w = ctx;
    (void)kind;
    tn_write8(w, memchr(w->at, '?', w->len) == NULL ? '?' : '&');
    escape(w, tn_bytes_of(name, name_len));
    if (value != NULL) {
        tn_write8(w, '=');
        escape(w, tn_bytes_of(value, value_len));
    }
    return MHD_YES;
}

/* The URL at which the owner of the log serves the same request. False: the owner is not known. The
 * text stays valid until the next request: it is in the scratch memory, whose words have been
 * served. */
static bool owner_location(struct http_exchange *exchange, const char **ret_location) {
    const char *http = server_role_leader_http(&exchange->client);
    char *out = (char *)exchange->connection->http->scratch;
    struct tn_writer w = tn_writer_of(out, HTTP_SCRATCH_BYTES - 1);
    if (http[0] == '\0') {
        return false;
    }
    tn_write_raw(&w, "http://", strstr(http, "://") == NULL ? 7 : 0);
    tn_write_raw(&w, http, strlen(http));
    tn_write_raw(&w, exchange->path, exchange->path_len);
    (void)MHD_get_connection_values_n(exchange->mhd, MHD_GET_ARGUMENT_KIND, query_add, &w);
    out[w.len] = '\0';
    *ret_location = out;
    return !w.overflow;
}

/* Another node owns the log: redirects the client to it. */
static void answer_elsewhere(struct http_exchange *exchange, const void *text, size_t len) {
    const char *leader = server_role_leader(&exchange->client);
    const char *location = NULL;
    unsigned status = owner_location(exchange, &location) ? 307 : 503;
    http_answer(exchange, status, problem_type, text, len);
    if (status == 307) {
        http_header_out(exchange, MHD_HTTP_HEADER_LOCATION, location);
    } else {
        http_header_out(exchange, MHD_HTTP_HEADER_RETRY_AFTER, "1");
    }
    if (leader[0] != '\0') {
        http_header_out(exchange, "Tenure-Leader", leader);
    }
}

static void answer_call(struct http_exchange *exchange, const struct protocol_command *row,
                        const struct server_answer *answer, const void *text, size_t len) {
    if (answer->code == TN_R_READONLY) {
        answer_elsewhere(exchange, text, len);
        return;
    }
    bool done = answer->code == TN_R_OK || answer->code == TN_R_NOOP;
    /* The command has created a lease if the lease's id has the command's position. A lease that
     * was only renewed is older. */
    bool leased = done && answer->has_lease && answer->lease.lsn == answer->lsn;
    bool made = leased || (answer->code == TN_R_OK && protocol_command_has(row, PROTOCOL_CREATES));
    unsigned status = made ? 201 : answer->http_status;
    if (exchange->enveloped && answer->code == TN_R_OK) {
        answer_event(exchange, answer->lsn, text, len);
    } else {
        http_answer(exchange, status, status < 400 ? json_type : problem_type, text, len);
    }
    if (leased) {
        answer_location(exchange, answer);
    } else if (made) {
        http_header_out(exchange, MHD_HTTP_HEADER_LOCATION, exchange->path);
    }
    if (answer->lsn > 0) {
        header_number(exchange, "Tenure-LSN", answer->lsn);
    }
    if (answer->replayed) {
        http_header_out(exchange, "Idempotent-Replayed", "true");
    }
    if (status == 401) {
        http_header_out(exchange, MHD_HTTP_HEADER_WWW_AUTHENTICATE, "Bearer");
    }
    answer_retry(exchange, answer, status);
}

void http_call_done(struct http_exchange *exchange) {
    struct server_slot *slot = server_slot_collect(&exchange->client);
    if (slot != NULL) {
        struct tn_bytes reply = server_slot_reply(slot);
        answer_call(exchange, slot->row, &slot->answer, reply.at, reply.len);
        server_slot_free(slot);
        http_key_forget(exchange);
    }
}

static void answer_refusal(struct http_exchange *exchange, const struct protocol_command *row,
                           enum tn_result code, const char *detail) {
    char text[PROTOCOL_PROBLEM_MAX];
    struct protocol_writer w = {.out = tn_writer_of(text, sizeof text), .encoding = PROTOCOL_JSON};
    struct server_answer answer = {.code = code, .http_status = (uint16_t)tn_result_http(code)};
    protocol_render_refusal(&w, code, detail);
    TN_ASSERT(!w.out.overflow);
    answer_call(exchange, row, &answer, text, w.out.len);
    server_count_refusal(exchange->client.owners->counters, row->id, code);
}

/* ---- Reads ---- */

/* The Link header for the next page: the same query with another cursor. */
static void answer_link(struct http_exchange *exchange, const struct protocol_http *request,
                        uint64_t cursor) {
    char link[HTTP_PATH_MAX + 1024];
    struct tn_writer w = tn_writer_of(link, sizeof link - 1);
    char number[64];
    tn_write8(&w, '<');
    tn_write_raw(&w, exchange->path, exchange->path_len);
    int len = snprintf(number, sizeof number, "?cursor=%" PRIu64, cursor);
    tn_write_raw(&w, number, (size_t)len);
    for (uint32_t i = 0; i < request->query_count; i++) {
        const struct protocol_query *argument = &request->query[i];
        if (!tn_bytes_equal(argument->name, tn_bytes_of("cursor", 6))) {
            tn_write8(&w, '&');
            escape(&w, argument->name);
            tn_write8(&w, '=');
            escape(&w, argument->value);
        }
    }
    tn_write_raw(&w, ">; rel=\"next\"", 13);
    if (!w.overflow) {
        link[w.len] = '\0';
        http_header_out(exchange, MHD_HTTP_HEADER_LINK, link);
    }
}

static void call_read(struct http_exchange *exchange, struct server_request *request,
                      const struct protocol_http *http) {
    struct server_owners *owners = exchange->client.owners;
    struct server_answer answer;
    struct protocol_writer w = {.out = tn_writer_of(owners->output->bytes, SERVER_REPLY_MAX),
                                .encoding = PROTOCOL_JSON};
    bool is_long = protocol_command_has(request->row, PROTOCOL_LONG);
    TN_ASSERT(owners->output->len == 0);
    if (is_long && schedule_must_yield(&exchange->client,
                                       protocol_command_has(request->row, PROTOCOL_SLICED))) {
        return;
    }
    request->w = &w;
    enum server_step step = server_read(request, &answer);
    request->w = NULL;
    if (step == SERVER_WAIT) {
        return;
    }
    if (is_long) {
        schedule_slice_made(owners->schedule, w.out.len);
    }
    if (w.out.overflow) {
        http_answer_problem(exchange, 413, "the reply is too large; use a smaller count");
        return;
    }
    answer_call(exchange, request->row, &answer, owners->output->bytes, w.out.len);
    if (answer.code == TN_R_OK && answer.cursor > 0) {
        answer_link(exchange, http, answer.cursor);
    }
}

/* ---- Requests ---- */

struct arguments {
    struct protocol_query of[HTTP_ARGUMENTS_MAX];
    uint32_t count;
    bool too_many;
};

static enum MHD_Result argument_add(void *ctx, enum MHD_ValueKind kind, const char *name,
                                    size_t name_len, const char *value, size_t value_len) {
    struct arguments *arguments = ctx;
    (void)kind;
    if (arguments->count == HTTP_ARGUMENTS_MAX) {
        arguments->too_many = true;
        return MHD_NO;
    }
    arguments->of[arguments->count++] = (struct protocol_query){
        .name = tn_bytes_of(name, name_len),
        .value = tn_bytes_of(value != NULL ? value : "", value != NULL ? value_len : 0)};
    return MHD_YES;
}

/* False: the request has been answered, or its method is OPTIONS. */
static bool call_route(struct http_exchange *exchange, struct protocol_route *ret_route) {
    char allow[PROTOCOL_ALLOW_MAX];
    struct http *http = exchange->connection->http;
    enum protocol_route_code code =
        protocol_route_find(tn_bytes_of(exchange->method, strlen(exchange->method)),
                            tn_bytes_of(exchange->path, exchange->path_len), http->path,
                            sizeof http->path, ret_route, allow);
    switch (code) {
    case PROTOCOL_ROUTE_OK:
        return true;
    case PROTOCOL_ROUTE_NO_METHOD:
        if (strcmp(exchange->method, MHD_HTTP_METHOD_OPTIONS) == 0) {
            http_answer(exchange, 204, json_type, "", 0);
        } else {
            http_answer_problem(exchange, 405, "this path has %s", allow);
        }
        http_header_out(exchange, MHD_HTTP_HEADER_ALLOW, allow);
        return false;
    case PROTOCOL_ROUTE_BAD_PATH:
        http_answer_problem(exchange, 400, "the path has an invalid percent-encoding");
        return false;
    default:
        http_answer_problem(exchange, 404, "unknown path; / lists all paths");
        return false;
    }
}

static void call_write(struct http_exchange *exchange, struct server_request *request,
                       struct tn_bytes key) {
    if (!key_remember(exchange, key)) {
        http_answer_unknown(exchange, 409, "a request with this Idempotency-Key is in progress");
        http_header_out(exchange, MHD_HTTP_HEADER_RETRY_AFTER, "1");
        return;
    }
    if (server_write(request) == SERVER_DONE) {
        http_call_done(exchange); /* the write may have been refused already */
    }
}

/* Serves the words as a command, as if they had come over RESP. */
static void call_words(struct http_exchange *exchange, const struct protocol_route *route,
                       const struct protocol_http *http) {
    struct server_owners *owners = exchange->client.owners;
    struct server_request request;
    char detail[PROTOCOL_DETAIL] = "";
    uint32_t argc = 0;
    enum tn_result code =
        protocol_http_words(route, http, exchange->connection->http->scratch, HTTP_SCRATCH_BYTES,
                            owners->buffers->argv, SERVER_ARGS_MAX, &argc, detail);
    server_request_begin(&request, &exchange->client,
                         access_user_of(owners->access, &exchange->client.login), route->row,
                         owners->buffers->argv, argc);
    if (code != TN_R_OK) {
        answer_refusal(exchange, route->row, code, detail);
    } else if (route->row->kind == PROTOCOL_WRITE) {
        call_write(exchange, &request, http->opid);
    } else if (route->row->kind == PROTOCOL_READ) {
        call_read(exchange, &request, http);
    } else if (server_job_begin(&request) == SERVER_DONE) {
        http_call_done(exchange);
    }
    server_count_ended(owners->counters); /* the command may have been answered at once */
}

/* Whether the request is for live events rather than a page. A page is requested by Accept, by
 * ?format=json (an argument of HTTP, not of the command), or by an argument that only a page can
 * have. */
static bool wants_stream(struct http_exchange *exchange, struct arguments *arguments) {
    const char *accept = http_header_in(exchange, MHD_HTTP_HEADER_ACCEPT);
    bool json = accept != NULL && strstr(accept, json_type) != NULL &&
                strstr(accept, "text/event-stream") == NULL;
    for (uint32_t i = 0; i < arguments->count; i++) {
        struct protocol_query *argument = &arguments->of[i];
        json = json || tn_bytes_equal(argument->name, tn_bytes_of("count", 5)) ||
               tn_bytes_equal(argument->name, tn_bytes_of("fence", 5));
        if (tn_bytes_equal(argument->name, tn_bytes_of("format", 6))) {
            json = json || tn_bytes_equal(argument->value, tn_bytes_of("json", 4));
            *argument = arguments->of[--arguments->count];
            i--;
        }
    }
    return !json;
}

/* Whether the body has a member "token". If the body is not an object, it is refused later. */
static bool body_has_token(const struct http_exchange *exchange) {
    static const char name[] = "\"token\"";
    struct tn_bytes body = tn_bytes_of(exchange->body, exchange->body_len);
    struct tn_bytes key;
    struct tn_bytes value;
    bool found = false;
    if (body.len > 0 && protocol_json_fault(body) == NULL) {
        struct protocol_walk walk = protocol_walk_of(body);
        while (!found && protocol_walk_next(&walk, &key, &value)) {
            found = tn_bytes_equal(key, tn_bytes_of(name, sizeof name - 1));
        }
    }
    return found;
}

/* Whether the bearer token in the header is an argument of the command. It is for an event, and for
 * a refresh whose body names no other token. */
static bool bearer_wanted(const struct http_exchange *exchange,
                          const struct protocol_route *route) {
    for (uint32_t i = 0; i < route->form->count; i++) {
        if (route->form->arguments[i].bind == PROTOCOL_B_BEARER) {
            return true;
        }
    }
    return protocol_command_has(route->row, PROTOCOL_BEARER) && !body_has_token(exchange);
}

static void bearer_add(struct http_exchange *exchange, struct arguments *arguments) {
    static const char scheme[] = "Bearer ";
    const char *value = http_header_in(exchange, MHD_HTTP_HEADER_AUTHORIZATION);
    if (value != NULL && strncasecmp(value, scheme, sizeof scheme - 1) == 0) {
        value += sizeof scheme - 1;
        (void)argument_add(arguments, MHD_GET_ARGUMENT_KIND, "token", 5, value, strlen(value));
    }
}

/* A large body takes milliseconds to judge, so it waits for a slice, as a long reply does. A command that
 * has such a reply, too, gets both in one slice. True: the exchange is served again later. */
static bool body_must_yield(struct http_exchange *exchange, const struct protocol_command *row) {
    struct server_client *client = &exchange->client;
    if (exchange->body_len <= HTTP_BODY_SMALL) {
        return false;
    }
    bool later = schedule_must_yield(client, false);
    client->has_turn = !later && protocol_command_has(row, PROTOCOL_LONG);
    return later;
}

void http_call(struct http_exchange *exchange) {
    struct protocol_route route;
    struct arguments arguments = {.count = 0};
    if (!call_route(exchange, &route) ||
        !http_access(exchange, (enum protocol_role)route.row->role) ||
        body_must_yield(exchange, route.row)) {
        return;
    }
    exchange->enveloped =
        protocol_command_has(route.row, PROTOCOL_ENVELOPE) && route.form == &route.row->also_form;
    const char *type = http_header_in(exchange, MHD_HTTP_HEADER_CONTENT_TYPE);
    const char *key = http_header_in(exchange, "Idempotency-Key");
    (void)MHD_get_connection_values_n(exchange->mhd, MHD_GET_ARGUMENT_KIND, argument_add,
                                      &arguments);
    if (bearer_wanted(exchange, &route)) {
        bearer_add(exchange, &arguments);
    }
    const char *reads = http_header_in(exchange, "Tenure-Read");
    exchange->client.stale = reads != NULL && strcasecmp(reads, "stale") == 0;
    bool stream =
        protocol_command_has(route.row, PROTOCOL_STREAM) && wants_stream(exchange, &arguments);
    struct protocol_http request = {
        .query = arguments.of,
        .query_count = arguments.count,
        .body = tn_bytes_of(exchange->body, exchange->body_len),
        .opid = tn_bytes_of(key != NULL ? key : "", key != NULL ? strlen(key) : 0)};
    if (exchange->body_len > 0 && type != NULL && !http_type_is_json(type)) {
        http_answer_problem(exchange, 415, "the body is %.80s, not application/json", type);
    } else if (arguments.too_many) {
        http_answer_problem(exchange, 400, "more than %u arguments", HTTP_ARGUMENTS_MAX);
    } else if (request.opid.len > HTTP_KEY_MAX) {
        http_answer_problem(exchange, 400, "an Idempotency-Key has at most %u bytes", HTTP_KEY_MAX);
    } else if (exchange->client.owners->stop->draining) {
        answer_refusal(exchange, route.row, TN_R_CLOSED, NULL);
    } else if (stream) {
        http_stream_begin(exchange, &request);
    } else {
        call_words(exchange, &route, &request);
    }
}
