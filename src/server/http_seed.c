/* GET /v1/cluster/snapshot?from=LSN: the newest snapshot of this node, for another node of the cluster that
 * cannot go on from etcd. It must be of log position `from` or later. If it is older, the answer is 503, and
 * a new one is taken meanwhile: the other node asks again.
 *
 * The caller is no user: it proves that it has the cluster's secret, by a token made from it.
 *
 *     begin --> sending <--> reading a piece (suspended; on a thread of libuv's)
 *                  |
 *                  +--all sent, client gone, or server stopping--> over
 *
 * libmicrohttpd asks for more when the socket takes more, so a slow reader costs one piece of memory. The log
 * keeps the file from begin to the end. */
#include <inttypes.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "engine/backup.h"
#include "server/http_parts.h"
#include "server/log_line.h"
#include "server/owners.h"
#include "server/server.h"

#define SEED_PATH "/v1/cluster/snapshot"
#define SEED_PIECE_BYTES (256u * 1024u)
#define SEED_BLOCK_BYTES (32u * 1024u)
#define SEEDS_MAX 2u /* at a time */

struct http_seed {
    struct http *http;
    struct MHD_Connection *mhd;
    struct engine_backup copy;
    uint64_t offset;   /* of the next piece */
    size_t len, sent;  /* of the piece */
    bool reading;      /* a worker thread uses this struct, except for the flags */
    bool suspended;    /* the connection is suspended until the worker is done */
    bool ended, freed; /* freed: the response is gone, and the end of the worker's job frees this */
    enum tn_status status;
    uv_work_t work;
    uint8_t piece[SEED_PIECE_BYTES];
};

static const struct log_file *file_of(const struct http_seed *seed) {
    return &seed->copy.files[0].file;
}

/* ---- Sending ---- */

static void seed_free(struct http_seed *seed) {
    bool whole = seed->offset == file_of(seed)->bytes && seed->sent == seed->len;
    server_log("snapshot_sent", "file=%s whole=%s", file_of(seed)->name, whole ? "yes" : "no");
    engine_backup_end(&seed->copy);
    seed->http->seed_count--;
    free(seed);
}

static void piece_read(uv_work_t *work) {
    struct http_seed *seed = work->data;
    const char *name = file_of(seed)->name;
    seed->status = engine_backup_read(&seed->copy, tn_bytes_of(name, strlen(name)), seed->offset,
                                      seed->piece, sizeof seed->piece, &seed->len);
}

static void seed_resume(struct http_seed *seed) {
    if (seed->suspended) {
        seed->suspended = false;
        http_resume(seed->http, seed->mhd);
    }
}

static void piece_done(uv_work_t *work, int status) {
    struct http_seed *seed = work->data;
    TN_ASSERT(status == 0); /* libuv never cancels it */
    seed->reading = false;
    seed->sent = 0;
    seed->offset += seed->len;
    if (seed->status != TN_OK || seed->len == 0) { /* the file is shorter than at the beginning */
        seed->ended = true;
    }
    if (seed->freed) {
        seed_free(seed);
    } else {
        seed_resume(seed);
    }
}

/* The content reader of libmicrohttpd, which does not call it after the last byte. */
static ssize_t reader(void *ctx, uint64_t position, char *out, size_t room) {
    struct http_seed *seed = ctx;
    (void)position;
    if (seed->ended) {
        return MHD_CONTENT_READER_END_WITH_ERROR;
    }
    if (seed->sent == seed->len) {
        TN_ASSERT(!seed->reading);
        seed->reading = seed->suspended = true;
        seed->len = seed->sent = 0;
        seed->work.data = seed;
        MHD_suspend_connection(seed->mhd);
        (void)uv_queue_work(seed->http->owners->loop, &seed->work, piece_read, piece_done);
        return 0;
    }
    size_t left = seed->len - seed->sent;
    size_t some = left < room ? left : room;
    memcpy(out, seed->piece + seed->sent, some);
    seed->sent += some;
    return (ssize_t)some;
}

static void reader_free(void *ctx) {
    struct http_seed *seed = ctx;
    seed->freed = true;
    if (!seed->reading) {
        seed_free(seed);
    }
}

void http_seed_end(struct http_exchange *exchange) {
    if (exchange->seed != NULL) {
        exchange->seed->ended = true;
        seed_resume(exchange->seed);
    }
}

void http_seed_leave(struct http_exchange *exchange) {
    exchange->seed = NULL;
}

/* ---- Taking a snapshot ---- */

static void snapshot_take(uv_work_t *work) {
    struct http *http = work->data;
    struct log_error error = {.text = ""};
    enum tn_status status = engine_snapshot(http->owners->engine, &error);
    if (status != TN_OK) {
        server_log("snapshot_failed", "reason=\"for another node: %s\"", error.text);
    }
}

static void snapshot_taken(uv_work_t *work, int status) {
    struct http *http = work->data;
    (void)status;
    http->seed_making = false;
}

static void answer_later(struct http_exchange *exchange, const char *why) {
    http_answer_problem(exchange, 503, "%s; try again", why);
    http_header_out(exchange, MHD_HTTP_HEADER_RETRY_AFTER, "1");
}

static void answer_making(struct http_exchange *exchange) {
    struct http *http = exchange->connection->http;
    if (!http->seed_making && !http->draining) {
        http->seed_making = true;
        http->seed_work.data = http;
        (void)uv_queue_work(http->owners->loop, &http->seed_work, snapshot_take, snapshot_taken);
    }
    answer_later(exchange, "a snapshot is being taken");
}

/* ---- Beginning ---- */

/* Whether the caller has the cluster's secret. The time that this takes does not depend on the
 * token. */
static bool is_node(struct http_exchange *exchange, const char *token) {
    static const char scheme[] = "Bearer ";
    const char *value = http_header_in(exchange, MHD_HTTP_HEADER_AUTHORIZATION);
    return value != NULL && strncmp(value, scheme, sizeof scheme - 1) == 0 &&
           strlen(value) == sizeof scheme - 1 + SERVER_SNAPSHOT_TOKEN &&
           sodium_memcmp(value + sizeof scheme - 1, token, SERVER_SNAPSHOT_TOKEN) == 0;
}

/* False: the query has no valid number `from`. */
static bool from_read(struct http_exchange *exchange, uint64_t *ret_from) {
    const char *from = MHD_lookup_connection_value(exchange->mhd, MHD_GET_ARGUMENT_KIND, "from");
    *ret_from = 0;
    return from == NULL ||
           kernel_value_parse(KERNEL_DEC, tn_bytes_of(from, strlen(from)), ret_from);
}

static void send_begin(struct http_exchange *exchange, struct http_seed *seed) {
    struct MHD_Response *response = MHD_create_response_from_callback(
        file_of(seed)->bytes, SEED_BLOCK_BYTES, reader, seed, reader_free);
    if (response == NULL) {
        reader_free(seed);
    } else {
        exchange->seed = seed;
    }
    http_answer_response(exchange, 200, response);
    http_header_out(exchange, MHD_HTTP_HEADER_CONTENT_TYPE, "application/octet-stream");
    http_header_out(exchange, MHD_HTTP_HEADER_CACHE_CONTROL, "no-store");
}

static void send_newest(struct http_exchange *exchange) {
    struct http *http = exchange->connection->http;
    struct http_seed *seed = malloc(sizeof *seed);
    if (seed == NULL) {
        answer_later(exchange, "no memory");
        return;
    }
    memset(seed, 0, offsetof(struct http_seed, piece));
    seed->http = http;
    seed->mhd = exchange->mhd;
    enum tn_status status = engine_backup_begin(http->owners->engine, NULL, &seed->copy);
    if (status != TN_OK) {
        free(seed);
        answer_later(exchange, status == TN_DENIED ? "this node has not caught up yet"
                                                   : tn_status_text(status));
        return;
    }
    http->seed_count++;
    TN_ASSERT(seed->copy.count > 0 && seed->copy.files[0].kind == ENGINE_BACKUP_SNAPSHOT);
    server_log("snapshot_sending", "file=%s bytes=%" PRIu64, file_of(seed)->name,
               file_of(seed)->bytes);
    send_begin(exchange, seed);
}

bool http_seed(struct http_exchange *exchange) {
    struct server_owners *owners = exchange->client.owners;
    const char *token = owners->options->cluster.snapshot_token;
    struct engine_stats stats;
    uint64_t from;
    if (token == NULL || strcmp(exchange->path, SEED_PATH) != 0) {
        return false;
    }
    if (strcmp(exchange->method, MHD_HTTP_METHOD_GET) != 0) {
        http_answer_problem(exchange, 405, SEED_PATH " is read-only");
        http_header_out(exchange, MHD_HTTP_HEADER_ALLOW, "GET");
    } else if (!is_node(exchange, token)) {
        http_answer_problem(exchange, 401, "only for nodes that have the same cluster_secret_file");
        http_header_out(exchange, MHD_HTTP_HEADER_WWW_AUTHENTICATE, "Bearer");
    } else if (!from_read(exchange, &from)) {
        http_answer_problem(exchange, 400, "'from' must be a log position");
    } else if (exchange->connection->http->seed_count == SEEDS_MAX) {
        answer_later(exchange, "other nodes are being sent a snapshot");
    } else {
        engine_stats_read(owners->engine, &stats);
        if (stats.log.snapshot_lsn == 0 || stats.log.snapshot_lsn < from) {
            answer_making(exchange);
        } else {
            send_newest(exchange);
        }
    }
    return true;
}
