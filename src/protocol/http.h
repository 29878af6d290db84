/* Translates HTTP requests to the words of a command: the path selects a row of the command table,
 * and path, query and JSON body provide its arguments. After that, HTTP and RESP requests are the
 * same.
 *
 * A field of the body or the query has the name of its argument: the keyword before it in lower
 * case (`ttl`, `meta`, `now`), else its own name (`holder`, `epoch`). In addition:
 *   COUNT n | VALUES n v...    "count": n or "values": [...]
 *   FROM pool ...              "from": [{"pool": ..., "count": n or "values": [...]}, ...]
 *   names of resources         "names": [...], or ?name=a&name=b
 *   options of pools           each by its own name; "range": [lo, hi], {"lo":, "hi":}, an array of
 *                              these, or text such as "1-9,20-29" or "10.0.0.0/24",
 *                              "set": true, "exclude": text or [[lo, hi], ...]
 * Integers may be strings of digits; flags are true and false; metadata and descriptions are
 * objects, or strings that contain one; a null field counts as absent. */
#ifndef TN_PROTOCOL_HTTP_H
#define TN_PROTOCOL_HTTP_H

#include "kernel/result.h"
#include "protocol/detail.h"
#include "protocol/table.h"

#define PROTOCOL_PARAMS_MAX 4u
#define PROTOCOL_QUERY_MAX 64u /* arguments of one request */
#define PROTOCOL_ALLOW_MAX 64u /* bytes for the methods of any path */

struct protocol_param {
    struct tn_bytes name;  /* in the table */
    struct tn_bytes value; /* percent-decoded, in the caller's scratch */
};

struct protocol_route {
    const struct protocol_command *row;
    const struct protocol_form *form; /* the form of this path */
    uint32_t param_count;
    struct protocol_param params[PROTOCOL_PARAMS_MAX];
};

enum protocol_route_code {
    PROTOCOL_ROUTE_OK,
    PROTOCOL_ROUTE_NO_PATH,
    PROTOCOL_ROUTE_NO_METHOD,
    PROTOCOL_ROUTE_BAD_PATH, /* invalid percent-encoding, or too long */
};

/* `path` is the raw path without the query; it must not be decoded, because a holder's slashes are
 * %2F. HEAD counts as GET. `scratch` needs the length of the path. With NO_METHOD, ret_allow has
 * the methods of the path, such as "GET, HEAD, PUT". */
enum protocol_route_code protocol_route_find(struct tn_bytes method, struct tn_bytes path,
                                             void *scratch, size_t capacity,
                                             struct protocol_route *ret_route,
                                             char ret_allow[PROTOCOL_ALLOW_MAX]);

/* One query argument, percent-decoded. */
struct protocol_query {
    struct tn_bytes name, value;
};

/* The contents of an HTTP request besides its route. */
struct protocol_http {
    const struct protocol_query *query;
    uint32_t query_count;
    struct tn_bytes body; /* empty means {} */
    struct tn_bytes opid; /* the header Idempotency-Key; empty: none. Reads ignore it */
};

/* Makes the words of the request, including the command's name, for protocol_call_parse. They point
 * into the request and into `scratch`, which needs the bytes of path, query and body, plus 256. OK;
 * or MALFORMED or TOO_LARGE, with the field in `detail`; or BAD_TOKEN if a required token is
 * missing. */
enum tn_result protocol_http_words(const struct protocol_route *route,
                                   const struct protocol_http *http, void *scratch, size_t capacity,
                                   struct tn_bytes *argv, uint32_t argv_capacity,
                                   uint32_t *ret_argc, char detail[PROTOCOL_DETAIL]);

#endif
