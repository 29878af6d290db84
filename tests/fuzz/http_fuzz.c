/* Any bytes as a request line, "METHOD path?name=value&name=value", a line for the Idempotency-Key and
 * the body. */
#include <stdlib.h>
#include <string.h>

#include "words.h"

/* Up to `end`, which is skipped. */
static struct tn_bytes part(const uint8_t **at, const uint8_t *stop, uint8_t end) {
    const uint8_t *from = *at;
    const uint8_t *to = from < stop ? memchr(from, end, (size_t)(stop - from)) : NULL;
    *at = to != NULL ? to + 1 : stop;
    return tn_bytes_of(from, (size_t)((to != NULL ? to : stop) - from));
}

static uint32_t query_split(struct tn_bytes text, struct protocol_query *query, uint32_t capacity) {
    const uint8_t *at = text.at;
    const uint8_t *stop = text.at + text.len;
    uint32_t count = 0;
    while (at < stop && count < capacity) {
        struct tn_bytes pair = part(&at, stop, '&');
        const uint8_t *inner = pair.at;
        query[count].name = part(&inner, pair.at + pair.len, '=');
        query[count++].value = tn_bytes_of(inner, (size_t)(pair.at + pair.len - inner));
    }
    return count;
}

static void run(const uint8_t *data, size_t size) {
    struct protocol_query query[PROTOCOL_QUERY_MAX + 1];
    struct protocol_route route;
    char allow[PROTOCOL_ALLOW_MAX];
    const uint8_t *at = data;
    const uint8_t *stop = data + size;
    struct tn_bytes line = part(&at, stop, '\n');
    struct tn_bytes key = part(&at, stop, '\n');
    const uint8_t *inner = line.at;
    const uint8_t *end = line.at + line.len;
    struct tn_bytes method = part(&inner, end, ' ');
    struct tn_bytes path = part(&inner, end, '?');
    struct tn_bytes rest = tn_bytes_of(inner, (size_t)(end - inner));
    uint8_t *decoded = malloc(path.len + 1u);
    size_t room = path.len + rest.len + (size_t)(stop - at) + 256;
    uint8_t *scratch = malloc(room);
    TN_ASSERT(decoded != NULL && scratch != NULL);
    enum protocol_route_code code =
        protocol_route_find(method, path, decoded, path.len, &route, allow);
    if (code == PROTOCOL_ROUTE_NO_METHOD) {
        TN_ASSERT(allow[0] != '\0' && strlen(allow) < PROTOCOL_ALLOW_MAX);
    } else if (code == PROTOCOL_ROUTE_OK) {
        struct protocol_http http = {.query = query,
                                     .query_count =
                                         query_split(rest, query, PROTOCOL_QUERY_MAX + 1),
                                     .body = tn_bytes_of(at, (size_t)(stop - at)),
                                     .opid = key};
        fuzz_words(&route, &http, scratch, room);
    }
    free(scratch);
    free(decoded);
}

int LLVMFuzzerTestOneInput(const uint8_t *input, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *input, size_t size) {
    if (size == 0 || size > PROTOCOL_REQUEST_MAX) {
        return 0;
    }
    uint8_t *data = malloc(size);
    TN_ASSERT(data != NULL);
    memcpy(data, input, size);
    run(data, size);
    free(data);
    return 0;
}
