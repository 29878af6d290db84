/* The files of the page, which are part of the program.
 *
 * The page may load only its own files and connect only to this server: text in names and metadata
 * must never become a script. If it did, the script could not reach anything else. */
#include <stdio.h>
#include <string.h>

#include "server/http_parts.h"
#include "server/web.h"

#define ETAG_MAX 96u

static const struct web_file *file_find(const char *path) {
    for (unsigned i = 0; i < web_file_count; i++) {
        if (strcmp(path, web_files[i].path) == 0) {
            return &web_files[i];
        }
    }
    return NULL;
}

bool http_file_find(const char *path) {
    return file_find(path) != NULL;
}

/* Whether a list of tags contains this one, or matches any tag. */
static bool tag_matches(const char *wanted, const char *etag) {
    return wanted != NULL && (strstr(wanted, etag) != NULL || strcmp(wanted, "*") == 0);
}

/* Compressed bytes need a tag of their own: "abc" becomes "abc-gzip". */
static void tag_of(const struct web_file *file, bool packed, char out[ETAG_MAX]) {
    size_t len = strlen(file->etag);
    (void)snprintf(out, ETAG_MAX, "%.*s%s", (int)(len - packed), file->etag,
                   packed ? "-gzip\"" : "");
}

static void file_answer(struct http_exchange *exchange, const struct web_file *file) {
    const struct http_packed *small = &exchange->connection->http->files[file - web_files];
    bool packed = small->at != NULL && http_gzip_wanted(exchange);
    char etag[ETAG_MAX];
    tag_of(file, packed, etag);
    bool same = tag_matches(http_header_in(exchange, MHD_HTTP_HEADER_IF_NONE_MATCH), etag);
    /* The library wants a pointer that is not const, but only reads. */
    union {
        const void *in;
        void *out;
    } bytes = {.in = packed ? small->at : (const void *)file->at};
    size_t len = packed ? small->len : file->len;
    http_answer_response(
        exchange, same ? 304 : 200,
        MHD_create_response_from_buffer(same ? 0 : len, bytes.out, MHD_RESPMEM_PERSISTENT));
    if (packed && !same) {
        http_header_out(exchange, MHD_HTTP_HEADER_CONTENT_ENCODING, "gzip");
    }
    http_header_out(exchange, MHD_HTTP_HEADER_ETAG, etag);
    http_header_out(exchange, MHD_HTTP_HEADER_CACHE_CONTROL, "no-cache");
    http_header_out(exchange, MHD_HTTP_HEADER_CONTENT_TYPE, file->type);
    http_header_out(exchange, "Content-Security-Policy",
                    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; "
                    "connect-src 'self'; base-uri 'none'; form-action 'none'; "
                    "frame-ancestors 'none'");
    http_header_out(exchange, "Referrer-Policy", "no-referrer");
    http_header_out(exchange, MHD_HTTP_HEADER_VARY, "Accept, Accept-Encoding");
}

/* Serves the page to browsers only. Other clients get a list of paths. */
bool http_page_file(struct http_exchange *exchange) {
    const struct web_file *file = file_find(exchange->path);
    const char *accept = http_header_in(exchange, MHD_HTTP_HEADER_ACCEPT);
    bool browser = accept != NULL && strstr(accept, "text/html") != NULL;
    if (file == NULL || (strcmp(file->path, "/") == 0 && !browser)) {
        return false;
    }
    file_answer(exchange, file);
    return true;
}
