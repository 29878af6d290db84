/* Shared by the fuzz targets of HTTP: a request that was parsed becomes words, the words a call,
 * and a call that is a write is encoded and decoded again. Every refusal has a reason. */
#ifndef TESTS_FUZZ_WORDS_H
#define TESTS_FUZZ_WORDS_H

#include "base/assert.h"
#include "protocol/http.h"
#include "protocol/parse.h"
#include "protocol/resp.h"

#define FUZZ_ARGS 1024u

/* `scratch` has exactly the bytes that http.h asks for. */
static inline void fuzz_words(const struct protocol_route *route, const struct protocol_http *http,
                              uint8_t *scratch, size_t capacity) {
    static struct tn_bytes argv[FUZZ_ARGS];
    static uint8_t nested[2 * PROTOCOL_REQUEST_MAX];
    static uint8_t encoded[KERNEL_COMMAND_MAX];
    static struct protocol_call call;
    char detail[PROTOCOL_DETAIL];
    uint32_t argc;
    enum tn_result code =
        protocol_http_words(route, http, scratch, capacity, argv, FUZZ_ARGS, &argc, detail);
    if (code != TN_R_OK) {
        TN_ASSERT(detail[0] != '\0' &&
                  (code == TN_R_MALFORMED || code == TN_R_TOO_LARGE || code == TN_R_BAD_TOKEN));
        return;
    }
    const struct protocol_command *row = route->row;
    bool container;
    int32_t arity = protocol_command_arity(row);
    TN_ASSERT(arity > 0 ? argc == (uint32_t)arity : argc >= (uint32_t)-arity);
    TN_ASSERT(protocol_command_find(argv, argc, &container) == row);
    if (row->kind == PROTOCOL_CONNECTION ||
        protocol_call_parse(row, argv, argc, nested, sizeof nested, &call) != TN_R_OK) {
        return;
    }
    if (row->kind == PROTOCOL_WRITE) {
        struct kernel_command decoded;
        uint32_t len = kernel_command_encode(&call.command, encoded, sizeof encoded);
        TN_ASSERT(len > 0 && kernel_command_decode(tn_bytes_of(encoded, len), &decoded));
    }
}

#endif
