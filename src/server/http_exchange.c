/* One request and its answer. libmicrohttpd calls, in this order: `new` with the request's first
 * line; `request` with the head; `request` with each part of the body; `request` with the complete
 * request; `request` again if an answer was made while the connection was suspended; `end`. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "protocol/render.h"
#include "server/access.h"
#include "server/client.h"
#include "server/confirm.h"
#include "server/count.h"
#include "server/http_parts.h"
#include "server/memory.h"
#include "server/owners.h"
#include "server/parked.h"
#include "server/transport.h"

static struct http_connection *connection_of(struct MHD_Connection *mhd) {
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(mhd, MHD_CONNECTION_INFO_SOCKET_CONTEXT);
    return info != NULL ? info->socket_context : NULL;
}

/* ---- Answers ---- */

static void header_add(struct http_exchange *exchange, const char *name, const char *value) {
    if (exchange->response != NULL &&
        MHD_add_response_header(exchange->response, name, value) != MHD_YES) {
        exchange->broken = true;
    }
}

void http_answer_response(struct http_exchange *exchange, unsigned status,
                          struct MHD_Response *response) {
    TN_ASSERT(exchange->response == NULL);
    exchange->response = response;
    exchange->status = status;
    exchange->broken = exchange->broken || response == NULL;
    header_add(exchange, "X-Content-Type-Options", "nosniff");
    if (exchange->connection->http->draining) {
        header_add(exchange, MHD_HTTP_HEADER_CONNECTION, "close");
    }
}

/* A copy of the text. JSON ends in a newline, for terminals. NULL: out of memory. */
static char *text_copy(const char *type, const char *text, size_t *inout_len) {
    size_t type_len = strlen(type);
    size_t len = *inout_len;
    bool json = type_len >= 4 && strcmp(type + type_len - 4, "json") == 0;
    char *copy = malloc(len + 1);
    if (copy == NULL) {
        return NULL;
    }
    memcpy(copy, text, len);
    copy[len] = '\n';
    *inout_len += json && len > 0 && text[len - 1] != '\n';
    return copy;
}

static void answer_text(struct http_exchange *exchange, unsigned status, const char *type,
                        const void *text, size_t len) {
    struct MHD_Response *response = NULL;
    bool may_pack = http_gzip_may(exchange, type, len);
    size_t size = len;
    char *copy = text_copy(type, text, &size);
    struct http_source source = {
        .at = (const uint8_t *)copy, .len = size, .release = free, .ctx = copy};
    if (copy != NULL && may_pack) {
        response = http_gzip_make(exchange, &source);
    }
    bool packed = response != NULL;
    if (copy != NULL && !packed &&
        (response = MHD_create_response_from_buffer(size, copy, MHD_RESPMEM_MUST_FREE)) == NULL) {
        free(copy);
    }
    http_answer_response(exchange, status, response);
    if (len > 0) {
        header_add(exchange, MHD_HTTP_HEADER_CONTENT_TYPE, type);
    }
    header_add(exchange, MHD_HTTP_HEADER_CACHE_CONTROL, "no-store");
    if (may_pack) {
        http_gzip_headers(exchange, packed);
    }
}

void http_header_out(struct http_exchange *exchange, const char *name, const char *value) {
    header_add(exchange, name, value);
}

static void problem_answer(struct http_exchange *exchange, unsigned status, enum tn_outcome outcome,
                           const char *detail) {
    char text[PROTOCOL_PROBLEM_MAX];
    struct protocol_writer w = {.out = tn_writer_of(text, sizeof text), .encoding = PROTOCOL_JSON};
    protocol_render_problem(&w, (int)status, outcome, MHD_get_reason_phrase_for(status), detail);
    TN_ASSERT(!w.out.overflow);
    answer_text(exchange, status, "application/problem+json", text, w.out.len);
    exchange->client.owners->counters->errors++;
}

void http_answer_problem(struct http_exchange *exchange, unsigned status, const char *format, ...) {
    char detail[256];
    va_list arguments;
    va_start(arguments, format);
    (void)vsnprintf(detail, sizeof detail, format, arguments);
    va_end(arguments);
    problem_answer(exchange, status, TN_REJECTED, detail);
}

void http_answer_unknown(struct http_exchange *exchange, unsigned status, const char *detail) {
    problem_answer(exchange, status, TN_UNKNOWN, detail);
}

void http_answer(struct http_exchange *exchange, unsigned status, const char *type,
                 const void *text, size_t len) {
    if (len > HTTP_ANSWER_SMALL &&
        !server_memory_share(exchange->client.owners->memory, &exchange->memory, len)) {
        http_answer_unknown(exchange, 503, server_no_room);
        header_add(exchange, MHD_HTTP_HEADER_RETRY_AFTER, "1");
        return;
    }
    answer_text(exchange, status, type, text, len);
}

static enum MHD_Result answer_queue(struct http_exchange *exchange) {
    enum MHD_Result done = MHD_NO;
    if (exchange->broken) {
        return MHD_NO;
    }
    exchange->client.owners->counters
        ->http_answers[exchange->status < SERVER_HTTP_STATUSES ? exchange->status : 0]++;
    done = MHD_queue_response(exchange->mhd, exchange->status, exchange->response);
    MHD_destroy_response(exchange->response);
    exchange->response = NULL;
    exchange->state = HTTP_ANSWERED;
    return done;
}

void http_exchange_wake(struct http_exchange *exchange) {
    TN_ASSERT(exchange->state == HTTP_WORKING);
    exchange->state = HTTP_ANSWERED;
    http_resume(exchange->connection->http, exchange->mhd);
}

/* libmicrohttpd does not look at a suspended connection, so its end is noticed here. The client
 * leaves the line. It may have closed only its side, so it is answered. */
void http_exchange_look(struct http_exchange *exchange) {
    if (exchange->state == HTTP_WORKING && transport_ended(exchange->connection->socket)) {
        server_parked_end(exchange->client.owners->parked, &exchange->client);
    }
}

/* ---- Serving ---- */

/* Whether a browser says that a page of another site sends the request. "none" means that the user
 * typed the address. */
static bool is_cross_site(struct http_exchange *exchange) {
    const char *site = http_header_in(exchange, "Sec-Fetch-Site");
    return site != NULL && strcmp(site, "same-origin") != 0 && strcmp(site, "none") != 0;
}

static bool guarded(struct http_exchange *exchange) {
    const char *host = http_header_in(exchange, MHD_HTTP_HEADER_HOST);
    const char *origin = http_header_in(exchange, MHD_HTTP_HEADER_ORIGIN);
    bool safe = strcmp(exchange->method, "GET") == 0 || strcmp(exchange->method, "HEAD") == 0 ||
                strcmp(exchange->method, "OPTIONS") == 0;
    if (host != NULL && !exchange->client.owners->access->on && !http_host_is_ours(host)) {
        http_answer_problem(
            exchange, 421,
            "Host is '%.100s': without users, only requests to localhost or a loopback address "
            "are answered",
            host);
    } else if (!safe && origin != NULL &&
               !http_origin_is_host(origin, host, exchange->connection->secure)) {
        http_answer_problem(exchange, 403,
                            "Origin is '%.100s': pages from other sites may not write", origin);
    } else if (!safe && is_cross_site(exchange)) {
        http_answer_problem(exchange, 403, "Sec-Fetch-Site: pages from other sites may not write");
    }
    return exchange->response == NULL;
}

static void serve(struct http_exchange *exchange) {
    if (exchange->too_large) {
        http_answer_problem(exchange, 413, "a body has at most %u bytes", HTTP_BODY_MAX);
    } else if (exchange->no_room) {
        http_answer_problem(exchange, 503, "%s", server_no_room);
        http_header_out(exchange, MHD_HTTP_HEADER_RETRY_AFTER, "1");
    } else if (exchange->path_len > HTTP_PATH_MAX) {
        http_answer_problem(exchange, 414, "a path has at most %u bytes", HTTP_PATH_MAX);
    } else if (guarded(exchange) && !http_page(exchange)) {
        http_call(exchange);
    }
}

/* The write is done, or the request waited and may be tried again. */
static void exchange_run(struct server_client *client) {
    struct http_exchange *exchange = (struct http_exchange *)client;
    TN_ASSERT(exchange->state == HTTP_WORKING);
    if (client->first != NULL) {
        http_call_done(exchange);
    } else {
        serve(exchange);
    }
    if (exchange->response != NULL || exchange->broken) {
        http_exchange_wake(exchange);
    }
}

/* ---- What libmicrohttpd calls ---- */

void *http_exchange_new(void *ctx, const char *uri, struct MHD_Connection *mhd) {
    struct http *http = ctx;
    struct http_connection *connection = connection_of(mhd);
    size_t len = strcspn(uri, "?");
    if (connection == NULL) {
        return NULL;
    }
    struct http_exchange *exchange = calloc(1, sizeof *exchange);
    if (exchange == NULL) {
        return NULL;
    }
    server_client_init(&exchange->client, http->owners, exchange_run);
    exchange->client.encoding = PROTOCOL_JSON;
    exchange->client.socket = connection->client_socket;
    exchange->client.secure = connection->secure;
    exchange->client.login = connection->arrived;
    exchange->client.failures = connection->failures;
    exchange->connection = connection;
    exchange->mhd = mhd;
    exchange->path_len = len <= HTTP_PATH_MAX ? (uint32_t)len : HTTP_PATH_MAX + 1;
    memcpy(exchange->path, uri, len <= HTTP_PATH_MAX ? len : 0);
    TN_ASSERT(connection->exchange == NULL);
    connection->exchange = exchange;
    return exchange;
}

/* The bodies of all requests are client memory: a crowd that sends bodies without end leaves its share to
 * a client that has logged in, which is not known before the body is there. */
static bool body_grow(struct http_exchange *exchange, size_t need) {
    struct server_memory *memory = exchange->client.owners->memory;
    size_t twice = 2 * (size_t)exchange->body_capacity;
    size_t capacity = need < twice ? twice : need;
    size_t more = capacity - exchange->body_capacity;
    if (!server_memory_share(memory, &exchange->memory, more)) {
        return false;
    }
    uint8_t *bigger = realloc(exchange->body, capacity);
    if (bigger == NULL) {
        server_memory_return(memory, &exchange->memory, more);
        return false;
    }
    exchange->body = bigger;
    exchange->body_capacity = (uint32_t)capacity;
    return true;
}

static void body_free(struct http_exchange *exchange) {
    server_memory_return(exchange->client.owners->memory, &exchange->memory,
                         exchange->body_capacity);
    free(exchange->body);
    exchange->body = NULL;
    exchange->body_len = exchange->body_capacity = 0;
}

/* False: the body cannot be stored. */
static bool body_add(struct http_exchange *exchange, const char *data, size_t len) {
    size_t need = exchange->body_len + len;
    bool discard = exchange->too_large || exchange->no_room;
    if (!discard && need > HTTP_BODY_MAX) {
        exchange->too_large = discard = true;
    } else if (!discard && need > exchange->body_capacity && !body_grow(exchange, need)) {
        exchange->no_room = discard = true;
    }
    if (discard) {
        body_free(exchange);
        exchange->discarded += len;
        return exchange->discarded <= HTTP_DISCARD_MAX;
    }
    memcpy(exchange->body + exchange->body_len, data, len);
    exchange->body_len += (uint32_t)len;
    return true;
}

/* The head is complete. A body that announces too large a size is refused at once if the client
 * asks before sending it (Expect), or if it is too large even to discard. Otherwise it is read and
 * discarded, because a client that is still sending would not read the answer. */
static enum MHD_Result begin(struct http_exchange *exchange, const char *method) {
    const char *length = http_header_in(exchange, MHD_HTTP_HEADER_CONTENT_LENGTH);
    uint64_t bytes = 0;
    if (!http_wire_agrees(exchange->connection)) {
        return MHD_NO;
    }
    exchange->begun = true;
    exchange->method = method;
    if (length != NULL &&
        !kernel_value_parse(KERNEL_DEC, tn_bytes_of(length, strlen(length)), &bytes)) {
        bytes = UINT64_MAX;
    }
    exchange->too_large = bytes > HTTP_BODY_MAX;
    if (bytes > HTTP_DISCARD_MAX ||
        (exchange->too_large && http_header_in(exchange, MHD_HTTP_HEADER_EXPECT) != NULL)) {
        serve(exchange);
        return answer_queue(exchange);
    }
    return MHD_YES;
}

enum MHD_Result http_exchange_request(void *ctx, struct MHD_Connection *mhd, const char *url,
                                      const char *method, const char *version, const char *data,
                                      size_t *data_len, void **exchange_ctx) {
    struct http_exchange *exchange = *exchange_ctx;
    (void)ctx;
    (void)mhd;
    (void)url;
    (void)version;
    if (exchange == NULL) {
        return MHD_NO;
    }
    if (!exchange->begun) {
        return begin(exchange, method);
    }
    if (*data_len > 0) {
        bool taken = body_add(exchange, data, *data_len);
        *data_len = 0;
        return taken ? MHD_YES : MHD_NO;
    }
    if (exchange->state == HTTP_RECEIVING) {
        exchange->client.begun_ns = uv_hrtime();
        server_confirm_arrived(&exchange->client);
        serve(exchange);
        if (exchange->response == NULL && !exchange->broken) {
            exchange->state = HTTP_WORKING;
            MHD_suspend_connection(mhd);
            return MHD_YES;
        }
    }
    return answer_queue(exchange);
}

void http_exchange_end(void *ctx, struct MHD_Connection *mhd, void **exchange_ctx,
                       enum MHD_RequestTerminationCode why) {
    struct http_exchange *exchange = *exchange_ctx;
    (void)ctx;
    (void)mhd;
    (void)why;
    if (exchange == NULL) {
        return;
    }
    *exchange_ctx = NULL;
    server_client_leave(&exchange->client);
    http_key_forget(exchange);
    http_page_leave(exchange);
    http_stream_leave(exchange);
    http_seed_leave(exchange);
    body_free(exchange);
    server_memory_return(exchange->client.owners->memory, &exchange->memory, exchange->memory);
    if (exchange->response != NULL) {
        MHD_destroy_response(exchange->response);
    }
    exchange->connection->exchange = NULL;
    exchange->connection->since_ms = uv_now(exchange->client.owners->loop);
    free(exchange);
}

const char *http_header_in(struct http_exchange *exchange, const char *name) {
    return MHD_lookup_connection_value(exchange->mhd, MHD_HEADER_KIND, name);
}

static enum MHD_Result argument_seen(void *ctx, enum MHD_ValueKind kind, const char *name,
                                     const char *value) {
    struct tn_bytes *wanted = ctx;
    (void)kind;
    (void)value;
    if (tn_bytes_equal(*wanted, tn_bytes_of(name, strlen(name)))) {
        wanted->at = NULL;
        return MHD_NO;
    }
    return MHD_YES;
}

bool http_argument_in(struct http_exchange *exchange, const char *name) {
    struct tn_bytes wanted = tn_bytes_of(name, strlen(name));
    (void)MHD_get_connection_values(exchange->mhd, MHD_GET_ARGUMENT_KIND, argument_seen, &wanted);
    return wanted.at == NULL;
}
