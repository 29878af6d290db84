/* The paths of HTTP other than commands: health, metrics, the description of the interface, and the list of
 * paths.
 *
 * /livez    the loop runs. It has answered, so it does.
 * /readyz   the server takes requests: the engine has not stopped, the disk answers for the log and for
 *           the files of events, this node owns the log or has caught up with its owner, and it was not
 *           told to stop. With ?verbose each of these is a line. /healthz and /health are the same.
 * /leaderz  this node owns the log: for a proxy that sends requests to the owner only. */
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "server/access.h"
#include "server/http_parts.h"
#include "server/metrics.h"
#include "server/owners.h"
#include "server/schedule.h"
#include "server/server.h"
#include "server/server_role.h"
#include "server/stop.h"

static const char text_type[] = "text/plain; charset=utf-8";

static void page_live(struct http_exchange *exchange) {
    http_answer(exchange, 200, text_type, "ok\n", 3);
}

/* Writes a line for one check, in the format of Kubernetes. */
static void check_add(struct tn_writer *w, const char *name, bool good, const char *why) {
    char line[128];
    int len = good ? snprintf(line, sizeof line, "[+]%s ok\n", name)
                   : snprintf(line, sizeof line, "[-]%s failed: %s\n", name, why);
    tn_write_raw(w, line, (size_t)len);
}

/* A disk call that takes longer than this has stalled: writes wait for an unknown time. */
#define STALLED_NS (5ull * 1000000000u)

static bool owns_log(struct server_owners *owners) {
    const struct os *os = owners->options->os;
    struct engine_standing standing;
    engine_standing_read(owners->engine, &standing);
    return standing.role == ENGINE_LEADING &&
           engine_owned_until(owners->engine) > os->clock_boot_ms(os->ctx);
}

static void page_leader(struct http_exchange *exchange) {
    if (owns_log(exchange->client.owners)) {
        http_answer(exchange, 200, text_type, "ok\n", 3);
    } else {
        http_answer_problem(exchange, 503, "this node does not own the log");
        http_header_out(exchange, MHD_HTTP_HEADER_RETRY_AFTER, "1");
    }
}

/* NULL: this node owns the log, or has caught up with its owner. Otherwise, what is wrong. */
static const char *log_trouble(struct server_owners *owners) {
    if (owns_log(owners)) {
        return NULL;
    }
    server_role_refresh(owners->role, owners->engine);
    if (owners->role->leader[0] == '\0') {
        return "no node owns it";
    }
    return server_role_fresh(owners) ? NULL : "this node has not caught up with the owner";
}

static void page_ready(struct http_exchange *exchange) {
    struct server_owners *owners = exchange->client.owners;
    struct engine_stats stats;
    char text[512];
    struct tn_writer w = tn_writer_of(text, sizeof text);
    engine_stats_read(owners->engine, &stats);
    bool engine = stats.stopped == TN_R_OK;
    bool disk = stats.append_ns_waiting < STALLED_NS;
    bool events = stats.events_ns_waiting < STALLED_NS;
    const char *trouble = log_trouble(owners);
    bool ready = engine && disk && events && trouble == NULL && !owners->stop->draining;
    char stalled[64];
    char events_stalled[64];
    (void)snprintf(stalled, sizeof stalled, "no answer for %llu s",
                   (unsigned long long)(stats.append_ns_waiting / 1000000000u));
    (void)snprintf(events_stalled, sizeof events_stalled, "no answer for %llu s",
                   (unsigned long long)(stats.events_ns_waiting / 1000000000u));
    if (!ready || http_argument_in(exchange, "verbose")) {
        check_add(&w, "loop", true, "");
        check_add(&w, "engine", engine, tn_result_name(stats.stopped));
        check_add(&w, "disk", disk, stalled);
        check_add(&w, "events", events, events_stalled);
        check_add(&w, "log", trouble == NULL, trouble);
        check_add(&w, "serving", !owners->stop->draining, "stopping");
        tn_write_raw(&w, ready ? "readyz check passed\n" : "readyz check failed\n", 20);
    } else {
        tn_write_raw(&w, "ok\n", 3);
    }
    http_answer(exchange, ready ? 200 : 503, text_type, text, w.len);
}

/* ---- Metrics: made on another thread, shared by all simultaneous requests ---- */

/* The text is given to libmicrohttpd in parts. If it had all of it, it would write megabytes to the
 * socket in one call, which holds up the loop for milliseconds. */
#define METRICS_BLOCK_BYTES (64u * 1024u)

static ssize_t text_read(void *ctx, uint64_t at, char *out, size_t capacity) {
    const struct server_text *text = ctx;
    size_t left = text->len - (size_t)at;
    size_t len = left < capacity ? left : capacity;
    memcpy(out, text->at + at, len);
    return (ssize_t)len;
}

static void text_release(void *text) {
    server_text_release(text);
}

static struct MHD_Response *metrics_plain(struct server_text *text, size_t len) {
    struct MHD_Response *response =
        MHD_create_response_from_callback(len, METRICS_BLOCK_BYTES, text_read, text, text_release);
    if (response == NULL) {
        server_text_release(text);
    }
    return response;
}

static void metrics_done(struct server_scrape *scrape, struct server_text *text) {
    static const char type[] = "text/plain; version=0.0.4; charset=utf-8";
    struct http_exchange *exchange =
        (struct http_exchange *)((char *)scrape - offsetof(struct http_exchange, scrape));
    bool pools = scrape->pools;
    scrape->done = NULL;
    if (text == NULL) {
        http_answer_problem(exchange, 503, "no memory for the metrics; try again");
    } else {
        struct http_source source = {.at = (const uint8_t *)text->at,
                                     .len = pools ? text->len : text->short_len,
                                     .release = text_release,
                                     .ctx = text};
        bool may_pack = http_gzip_may(exchange, type, source.len);
        struct MHD_Response *packed = may_pack ? http_gzip_make(exchange, &source) : NULL;
        http_answer_response(exchange, 200,
                             packed != NULL ? packed : metrics_plain(text, source.len));
        http_header_out(exchange, MHD_HTTP_HEADER_CONTENT_TYPE, type);
        if (may_pack) {
            http_gzip_headers(exchange, packed != NULL);
        }
    }
    http_exchange_wake(exchange);
}

static void page_metrics(struct http_exchange *exchange) {
    const char *pools = MHD_lookup_connection_value(exchange->mhd, MHD_GET_ARGUMENT_KIND, "pools");
    exchange->scrape.done = metrics_done;
    /* A user that may not see all pools gets no metrics of pools. */
    exchange->scrape.pools =
        (pools == NULL || strcmp(pools, "no") != 0) &&
        !access_is_narrow(access_user_of(exchange->client.owners->access, &exchange->client.login));
    server_metrics_request(exchange->client.owners, &exchange->scrape);
}

void http_page_leave(struct http_exchange *exchange) {
    if (exchange->scrape.done != NULL) {
        server_metrics_cancel(exchange->client.owners, &exchange->scrape);
    }
}

/* ---- The description for tools, and the list of all pages ---- */

static void page_openapi(struct http_exchange *exchange) {
    struct http *http = exchange->connection->http;
    if (schedule_must_yield(&exchange->client, false)) {
        return;
    }
    bool packed = http->openapi_packed.at != NULL && http_gzip_wanted(exchange);
    http_answer_response(exchange, 200,
                         packed ? MHD_create_response_from_buffer(http->openapi_packed.len,
                                                                  http->openapi_packed.at,
                                                                  MHD_RESPMEM_PERSISTENT)
                                : MHD_create_response_from_buffer(http->openapi_len, http->openapi,
                                                                  MHD_RESPMEM_PERSISTENT));
    http_header_out(exchange, MHD_HTTP_HEADER_CONTENT_TYPE, "application/json");
    http_gzip_headers(exchange, packed);
}

static void page_index(struct http_exchange *exchange);

static const struct page {
    const char *path;
    enum protocol_role role;
    void (*serve)(struct http_exchange *exchange);
    const char *what;
} pages[] = {
    {"/", PROTOCOL_NOBODY, page_index,
     "this list; for a browser, a page that shows pools and leases"},
    {"/livez", PROTOCOL_NOBODY, page_live, "200 while the server runs"},
    {"/readyz", PROTOCOL_NOBODY, page_ready,
     "200 while the server accepts requests; ?verbose lists the checks"},
    {"/leaderz", PROTOCOL_NOBODY, page_leader, "200 on the node that owns the log"},
    {"/healthz", PROTOCOL_NOBODY, page_ready, "the same as /readyz"},
    {"/health", PROTOCOL_NOBODY, page_ready, "the same, at the path that Attune's sensors use"},
    {"/metrics", PROTOCOL_READER, page_metrics, "for Prometheus; ?pools=no omits the pools"},
    {"/openapi.json", PROTOCOL_NOBODY, page_openapi, "a description of this interface for tools"},
};
enum { PAGES = sizeof pages / sizeof pages[0] };

static void page_index(struct http_exchange *exchange) {
    char text[2048];
    int len =
        snprintf(text, sizeof text, "Tenure %s\n\n", exchange->client.owners->options->version);
    for (unsigned i = 0; i < PAGES; i++) {
        len += snprintf(text + len, sizeof text - (size_t)len, "%-16s %s\n", pages[i].path,
                        pages[i].what);
    }
    len += snprintf(text + len, sizeof text - (size_t)len, "%-16s %s\n", "/v1/...", "commands");
    len += snprintf(text + len, sizeof text - (size_t)len, "%-16s %s\n", "/auth/...",
                    "tokens; their keys are at /.well-known/jwks.json");
    http_answer(exchange, 200, text_type, text, (size_t)len);
}

/* False: the method is not GET or HEAD; the request has been answered. */
static bool page_method(struct http_exchange *exchange) {
    if (strcmp(exchange->method, "GET") == 0 || strcmp(exchange->method, "HEAD") == 0) {
        return true;
    }
    if (strcmp(exchange->method, "OPTIONS") == 0) {
        http_answer(exchange, 204, text_type, "", 0);
    } else {
        http_answer_problem(exchange, 405, "%.200s is read-only", exchange->path);
    }
    http_header_out(exchange, MHD_HTTP_HEADER_ALLOW, "GET, HEAD, OPTIONS");
    return false;
}

bool http_page(struct http_exchange *exchange) {
    if (strcmp(exchange->path, "*") == 0 && strcmp(exchange->method, "OPTIONS") == 0) {
        http_answer(exchange, 204, text_type, "", 0);
        http_header_out(exchange, MHD_HTTP_HEADER_ALLOW,
                        "GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS");
        return true;
    }
    for (unsigned i = 0; i < PAGES; i++) {
        if (strcmp(exchange->path, pages[i].path) == 0) {
            if (page_method(exchange) && http_access(exchange, pages[i].role) &&
                !http_page_file(exchange)) {
                pages[i].serve(exchange);
            }
            return true;
        }
    }
    if (http_seed(exchange)) {
        return true;
    }
    return http_file_find(exchange->path) && (!page_method(exchange) || http_page_file(exchange));
}
