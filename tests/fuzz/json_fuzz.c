/* A route and any bytes as the body of a request to it: the first byte chooses among the table's
 * routes. The same bytes as part of a reply must give JSON. */
#include <stdlib.h>
#include <string.h>

#include "protocol/text.h"
#include "words.h"

/* The route number `choice`, with a value for each parameter. */
static void route_choose(unsigned choice, struct protocol_route *route) {
    static char paths[256];
    char allow[PROTOCOL_ALLOW_MAX];
    unsigned i = choice % (2 * PROTOCOL_COMMANDS);
    while ((i % 2 == 0 ? protocol_table[i / 2].method : protocol_table[i / 2].also_method) ==
           NULL) {
        i = (i + 1) % (2 * PROTOCOL_COMMANDS);
    }
    const struct protocol_command *row = &protocol_table[i / 2];
    const char *method = i % 2 == 0 ? row->method : row->also_method;
    const char *path = i % 2 == 0 ? row->path : row->also_path;
    TN_ASSERT(protocol_route_find(tn_bytes_of(method, strlen(method)),
                                  tn_bytes_of(path, strlen(path)), paths, sizeof paths, route,
                                  allow) == PROTOCOL_ROUTE_OK);
    for (uint32_t p = 0; p < route->param_count; p++) {
        bool lease = route->params[p].value.len == 7 && route->params[p].value.at[1] == 'l';
        route->params[p].value = lease ? tn_bytes_of("0-7", 3) : tn_bytes_of("p", 1);
    }
}

/* {"a": bytes as text, "b": bytes as JSON}, in a buffer that has just enough room. */
static void reply_write(const uint8_t *bytes, size_t len) {
    size_t room = 2 * 6 * len + 32;
    uint8_t *out = malloc(room);
    TN_ASSERT(out != NULL);
    struct protocol_writer w = {.out = tn_writer_of(out, room), .encoding = PROTOCOL_JSON};
    protocol_write_map(&w, 2);
    protocol_write_text(&w, "a");
    protocol_write_bulk(&w, bytes, len);
    protocol_write_text(&w, "b");
    protocol_write_json(&w, bytes, len);
    TN_ASSERT(!w.out.overflow && w.depth == 0);
    const char *fault = protocol_json_fault(tn_bytes_of(out, w.out.len));
    /* What is as deep as may be by itself is too deep inside something. */
    TN_ASSERT(fault == NULL || strstr(fault, "deep") != NULL);
    free(out);
}

int LLVMFuzzerTestOneInput(const uint8_t *input, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *input, size_t size) {
    struct protocol_route route;
    if (size == 0 || size > PROTOCOL_REQUEST_MAX) {
        return 0;
    }
    size_t len = size - 1;
    /* A buffer of its own, so that a read beyond its end is noticed. */
    uint8_t *body = malloc(len > 0 ? len : 1);
    uint8_t *scratch = malloc(len + 256);
    TN_ASSERT(body != NULL && scratch != NULL);
    memcpy(body, input + 1, len);
    route_choose(input[0], &route);
    struct protocol_http http = {.body = tn_bytes_of(body, len)};
    fuzz_words(&route, &http, scratch, len + 256);
    reply_write(body, len);
    free(scratch);
    free(body);
    return 0;
}
