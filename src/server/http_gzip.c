/* Compressed answers: gzip, for clients that accept it.
 *
 * Only answers to GET and HEAD are compressed, if they are JSON or metrics of at least HTTP_GZIP_MIN bytes, or
 * files of the page. Everything happens on the loop's thread, so each turn of the loop compresses a bounded amount:
 *
 *   - a short answer (HTTP_GZIP_WHOLE) at once, with one compressor that all share, up to HTTP_GZIP_TURN bytes in a
 *     turn; beyond that, answers go out as they are;
 *   - a long one piece by piece as the client takes it: GZIP_SLICE bytes in a call of libmicrohttpd, for at most
 *     HTTP_GZIP_STREAMS answers at a time, each with a compressor of its own;
 *   - the files of the page and the description of the interface once, at the start.
 *
 * Answers to other methods stay as they are: they can contain tokens, and the length of a compressed secret beside
 * chosen text tells something about the secret. */
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <zlib.h>

#include "server/http_parts.h"
#include "server/web.h"

#define GZIP_SLICE (32u * 1024u)
#define GZIP_BITS (15 + 16) /* the largest window, in the format of gzip */
#define GZIP_MEMORY 8
#define LEVEL_FAST 1
#define LEVEL_BEST 9

/* ---- What the client accepts ---- */

/* A weight in thousandths, such as "0", "0.5", "1.000". Anything else counts as 0. */
static int weight_parse(const char *at, size_t len) {
    int weight = 0;
    if (len == 0 || len > 5 || (at[0] != '0' && at[0] != '1') || (len > 1 && at[1] != '.')) {
        return 0;
    }
    weight = (at[0] - '0') * 1000;
    for (size_t i = 2, unit = 100; i < len; i++, unit /= 10) {
        if (at[i] < '0' || at[i] > '9') {
            return 0;
        }
        weight += (at[i] - '0') * (int)unit;
    }
    return weight <= 1000 ? weight : 0;
}

/* The weight among the parameters of one coding, such as "; q=0.5". */
static int weight_of(const char *at, size_t len) {
    while (len > 0 && (*at == ';' || *at == ' ' || *at == '\t')) {
        at++;
        len--;
    }
    while (len > 0 && (at[len - 1] == ' ' || at[len - 1] == '\t')) {
        len--;
    }
    if (len == 0) {
        return 1000;
    }
    return len > 2 && (at[0] == 'q' || at[0] == 'Q') && at[1] == '=' ? weight_parse(at + 2, len - 2)
                                                                     : 0;
}

static bool coding_is(const char *at, size_t len, const char *name) {
    return strlen(name) == len && strncasecmp(at, name, len) == 0;
}

bool http_gzip_accepted(const char *header) {
    int gzip = -1, any = 0, identity = 0;
    while (header != NULL && *header != '\0') {
        size_t part = strcspn(header, ",");
        size_t begin = strspn(header, " \t");
        size_t end = strcspn(header, ";,");
        size_t len = end > begin ? end - begin : 0;
        while (len > 0 && (header[begin + len - 1] == ' ' || header[begin + len - 1] == '\t')) {
            len--;
        }
        int weight = weight_of(header + end, part - end);
        if (coding_is(header + begin, len, "gzip") || coding_is(header + begin, len, "x-gzip")) {
            gzip = weight;
        } else if (coding_is(header + begin, len, "*")) {
            any = weight;
        } else if (coding_is(header + begin, len, "identity")) {
            identity = weight;
        }
        header += part + (header[part] == ',');
    }
    gzip = gzip >= 0 ? gzip : any;
    return gzip > 0 && gzip >= identity;
}

/* ---- All at once ---- */

/* `out` has room for deflateBound bytes. Returns the length; 0: it failed. */
static size_t compress_whole(z_stream *z, const void *bytes, size_t len, void *out, size_t room) {
    union {
        const void *in;
        void *out;
    } from = {.in = bytes}; /* zlib only reads it */
    z->next_in = from.out;
    z->avail_in = (uInt)len;
    z->next_out = out;
    z->avail_out = (uInt)room;
    return deflate(z, Z_FINISH) == Z_STREAM_END ? room - z->avail_out : 0;
}

/* Compresses a file once, as small as possible. `at` is NULL: out of memory, or no gain. */
static struct http_packed packed_make(const void *bytes, size_t len) {
    struct http_packed packed = {.at = NULL};
    z_stream z = {.zalloc = NULL};
    if (len < HTTP_GZIP_MIN || deflateInit2(&z, LEVEL_BEST, Z_DEFLATED, GZIP_BITS, GZIP_MEMORY,
                                            Z_DEFAULT_STRATEGY) != Z_OK) {
        return packed;
    }
    size_t room = deflateBound(&z, len);
    uint8_t *out = malloc(room);
    size_t size = out != NULL ? compress_whole(&z, bytes, len, out, room) : 0;
    (void)deflateEnd(&z);
    if (size > 0 && size < len) {
        packed = (struct http_packed){.at = realloc(out, size), .len = size};
    }
    if (packed.at == NULL) {
        free(out);
    }
    return packed;
}

bool http_gzip_start(struct http *http) {
    http->files = calloc(web_file_count + 1, sizeof *http->files);
    if (http->files == NULL) {
        return false;
    }
    for (unsigned i = 0; i < web_file_count; i++) {
        if (strncmp(web_files[i].type, "image/png", 9) != 0) {
            http->files[i] = packed_make(web_files[i].at, web_files[i].len);
        }
    }
    http->openapi_packed = packed_make(http->openapi, http->openapi_len);
    return true;
}

void http_gzip_stop(struct http *http) {
    for (unsigned i = 0; http->files != NULL && i < web_file_count; i++) {
        free(http->files[i].at);
    }
    free(http->files);
    free(http->openapi_packed.at);
    if (http->gzip != NULL) {
        (void)deflateEnd(http->gzip);
        free(http->gzip);
    }
}

/* The compressor of short answers, ready for use. NULL: out of memory. */
static z_stream *shared_take(struct http *http) {
    if (http->gzip != NULL) {
        return deflateReset(http->gzip) == Z_OK ? http->gzip : NULL;
    }
    http->gzip = calloc(1, sizeof(z_stream));
    if (http->gzip != NULL && deflateInit2(http->gzip, LEVEL_FAST, Z_DEFLATED, GZIP_BITS,
                                           GZIP_MEMORY, Z_DEFAULT_STRATEGY) != Z_OK) {
        free(http->gzip);
        http->gzip = NULL;
    }
    return http->gzip;
}

static struct MHD_Response *whole_make(struct http *http, const struct http_source *source) {
    z_stream *z = http->gzip_turn + source->len <= HTTP_GZIP_TURN ? shared_take(http) : NULL;
    size_t room = z != NULL ? deflateBound(z, source->len) : 0;
    void *out = z != NULL ? malloc(room) : NULL;
    if (out == NULL) {
        return NULL;
    }
    http->gzip_turn += source->len;
    size_t size = compress_whole(z, source->at, source->len, out, room);
    struct MHD_Response *response =
        size > 0 ? MHD_create_response_from_buffer(size, out, MHD_RESPMEM_MUST_FREE) : NULL;
    if (response == NULL) {
        free(out);
    } else {
        source->release(source->ctx);
    }
    return response;
}

/* ---- Piece by piece ---- */

struct http_packer {
    struct http *http;
    struct http_source source;
    size_t fed;
    int flush;    /* how the current piece ends */
    bool flushed; /* the current piece is complete and its output has been taken */
    bool ended;
    z_stream z;
};

static void piece_feed(struct http_packer *packer) {
    size_t left = packer->source.len - packer->fed;
    size_t len = left < GZIP_SLICE ? left : GZIP_SLICE;
    union {
        const void *in;
        void *out;
    } from = {.in = packer->source.at + packer->fed};
    packer->z.next_in = from.out;
    packer->z.avail_in = (uInt)len;
    packer->fed += len;
    packer->flush = len == left ? Z_FINISH : Z_SYNC_FLUSH;
    packer->flushed = false;
}

/* The content reader of libmicrohttpd. Each piece ends with a flush, so that a call returns
 * something after at most one piece, however well that compresses. */
static ssize_t pieces_read(void *ctx, uint64_t at, char *out, size_t room) {
    struct http_packer *packer = ctx;
    (void)at;
    packer->z.next_out = (Bytef *)out;
    packer->z.avail_out = (uInt)room;
    while (!packer->ended && packer->z.avail_out == room) {
        if (packer->flushed) {
            piece_feed(packer);
        }
        int code = deflate(&packer->z, packer->flush);
        if (code != Z_OK && code != Z_STREAM_END && code != Z_BUF_ERROR) {
            return MHD_CONTENT_READER_END_WITH_ERROR;
        }
        packer->ended = code == Z_STREAM_END;
        packer->flushed = packer->z.avail_out > 0;
    }
    size_t len = room - packer->z.avail_out;
    return len > 0 ? (ssize_t)len : MHD_CONTENT_READER_END_OF_STREAM;
}

static void packer_free(void *ctx) {
    struct http_packer *packer = ctx;
    packer->http->gzip_streams--;
    packer->source.release(packer->source.ctx);
    (void)deflateEnd(&packer->z);
    free(packer);
}

static struct MHD_Response *pieces_make(struct http *http, const struct http_source *source) {
    struct http_packer *packer =
        http->gzip_streams < HTTP_GZIP_STREAMS ? calloc(1, sizeof *packer) : NULL;
    if (packer == NULL) {
        return NULL;
    }
    *packer = (struct http_packer){.http = http, .source = *source, .flushed = true};
    struct MHD_Response *response = NULL;
    if (deflateInit2(&packer->z, LEVEL_FAST, Z_DEFLATED, GZIP_BITS, GZIP_MEMORY,
                     Z_DEFAULT_STRATEGY) == Z_OK) {
        response = MHD_create_response_from_callback(MHD_SIZE_UNKNOWN, GZIP_SLICE, pieces_read,
                                                     packer, packer_free);
    }
    if (response == NULL) {
        (void)deflateEnd(&packer->z);
        free(packer);
        return NULL;
    }
    http->gzip_streams++;
    return response;
}

/* ---- Answers ---- */

bool http_gzip_may(const struct http_exchange *exchange, const char *type, size_t len) {
    size_t type_len = strlen(type);
    bool text = (type_len >= 4 && strcmp(type + type_len - 4, "json") == 0) ||
                strncmp(type, "text/plain", 10) == 0;
    return exchange->method != NULL && text && len >= HTTP_GZIP_MIN &&
           (strcmp(exchange->method, "GET") == 0 || strcmp(exchange->method, "HEAD") == 0);
}

struct MHD_Response *http_gzip_make(struct http_exchange *exchange,
                                    const struct http_source *source) {
    struct http *http = exchange->connection->http;
    if (!http_gzip_wanted(exchange)) {
        return NULL;
    }
    return source->len <= HTTP_GZIP_WHOLE ? whole_make(http, source) : pieces_make(http, source);
}

bool http_gzip_wanted(struct http_exchange *exchange) {
    return http_gzip_accepted(http_header_in(exchange, MHD_HTTP_HEADER_ACCEPT_ENCODING));
}

void http_gzip_headers(struct http_exchange *exchange, bool packed) {
    http_header_out(exchange, MHD_HTTP_HEADER_VARY, MHD_HTTP_HEADER_ACCEPT_ENCODING);
    if (packed) {
        http_header_out(exchange, MHD_HTTP_HEADER_CONTENT_ENCODING, "gzip");
    }
}
