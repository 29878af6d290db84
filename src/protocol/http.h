/* HTTP requests as the words of a command: the path finds a row of the table, and what comes in the
 * path, the query and a JSON body goes where the row's arguments want it. From there on a request is
 * the same whichever way it came.
 *
 * A field, in the body or in the query, has the name of its argument: that of the word before it in
 * lower case (`ttl`, `meta`, `now`), else its own (`holder`, `epoch`). Besides that:
 *   COUNT n | VALUES n v...    "count": n or "values": [...]
 *   FROM pool ...              "from": [{"pool": ..., "count": n or "values": [...]}, ...]
 *   names of resources         "names": [...], or ?name=a&name=b
 *   options of pools           each by its own name; "range": [lo, hi], {"lo":, "hi":}, an array of
 *                              these, or text such as "1-9,20-29" or "10.0.0.0/24",
 *                              "set": true, "exclude": text or [[lo, hi], ...]
 * Whole numbers may be strings of digits; flags are true and false; metadata and descriptions are
 * objects, or strings that hold one; null is as if the field were not there. */
#ifndef TN_PROTOCOL_HTTP_H
#define TN_PROTOCOL_HTTP_H

#include "kernel/result.h"
#include "protocol/detail.h"
#include "protocol/table.h"

#define PROTOCOL_PARAMS_MAX 4u
#define PROTOCOL_QUERY_MAX 64u /* arguments of one request */
#define PROTOCOL_ALLOW_MAX 64u /* bytes that the methods of any path fit in */

struct protocol_param {
    struct tn_bytes name;  /* in the table */
    struct tn_bytes value; /* percent-decoded, in the caller's scratch */
};

struct protocol_route {
    const struct protocol_command *row;
    const struct protocol_form *form; /* the one that this path stands for */
    uint32_t param_count;
    struct protocol_param params[PROTOCOL_PARAMS_MAX];
};

enum protocol_route_code {
    PROTOCOL_ROUTE_OK,
    PROTOCOL_ROUTE_NO_PATH,
    PROTOCOL_ROUTE_NO_METHOD,
    PROTOCOL_ROUTE_BAD_PATH, /* it is not percent-encoded as it should be, or does not fit */
};

/* `path` as it was sent, without the query: a holder's slashes are %2F in it, so it must not have been
 * decoded. HEAD counts as GET. `scratch` of the path's length is enough. With NO_METHOD, ret_allow has
 * the methods of the path, as in "GET, HEAD, PUT". */
enum protocol_route_code protocol_route_find(struct tn_bytes method, struct tn_bytes path,
                                             void *scratch, size_t capacity,
                                             struct protocol_route *ret_route,
                                             char ret_allow[PROTOCOL_ALLOW_MAX]);

/* One argument behind the question mark, percent-decoded. */
struct protocol_query {
    struct tn_bytes name, value;
};

/* All that an HTTP request says besides its route. */
struct protocol_http {
    const struct protocol_query *query;
    uint32_t query_count;
    struct tn_bytes body; /* empty is as {} */
    struct tn_bytes opid; /* the header Idempotency-Key; empty: none. Reads ignore it */
};

/* The words of the request, the command's name included: as many as its arity allows, for
 * protocol_call_parse. They point into what came in and into `scratch`, for which as many bytes as
 * path, query and body have, and 256, are enough. OK; or MALFORMED or TOO_LARGE, with words in `detail`
 * that name the field; or BAD_TOKEN where a token is needed and none came. */
enum tn_result protocol_http_words(const struct protocol_route *route,
                                   const struct protocol_http *http, void *scratch, size_t capacity,
                                   struct tn_bytes *argv, uint32_t argv_capacity,
                                   uint32_t *ret_argc, char detail[PROTOCOL_DETAIL]);

#endif
