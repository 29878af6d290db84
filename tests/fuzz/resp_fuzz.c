/* Any bytes as a connection would see them, in two cuts: whatever comes out is parsed as a command
 * and, if it is a write, encoded and decoded again. */
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "protocol/detail.h"
#include "protocol/identity.h"
#include "protocol/parse.h"
#include "protocol/resp.h"

#define ARGS 1024u

static uint8_t scratch[2 * PROTOCOL_REQUEST_MAX];
static uint8_t encoded[KERNEL_COMMAND_MAX];

static void run(const struct tn_bytes *argv, uint32_t argc) {
    static struct protocol_call call;
    bool container;
    const struct protocol_command *row = protocol_command_find(argv, argc, &container);
    if (row == NULL || row->kind == PROTOCOL_CONNECTION) {
        return;
    }
    int32_t arity = protocol_command_arity(row);
    if (arity > 0 ? argc != (uint32_t)arity : argc < (uint32_t)-arity) {
        return;
    }
    if (protocol_call_parse(row, argv, argc, scratch, sizeof scratch, &call) != TN_R_OK) {
        return;
    }
    if ((call.command.fields & KERNEL_F_META) != 0) {
        struct protocol_identity_key key;
        char detail[PROTOCOL_DETAIL];
        const struct kernel_identity identity = {.fields = argc % 7, .fallback_json = true};
        (void)protocol_identity_derive(call.command.meta, &identity, &key, detail);
    }
    if (row->kind == PROTOCOL_WRITE) {
        struct kernel_command decoded;
        uint32_t len = kernel_command_encode(&call.command, encoded, sizeof encoded);
        TN_ASSERT(len > 0 && kernel_command_decode(tn_bytes_of(encoded, len), &decoded));
    }
}

/* A line that became a request begins with letters only: no header of HTTP, no other protocol. */
static void check_line(const struct tn_bytes *word) {
    static const char *const methods[] = {"GET", "POST", "PUT", "OPTIONS", "HOST"};
    for (uint32_t i = 0; i < word->len; i++) {
        uint8_t c = word->at[i] | 0x20;
        TN_ASSERT(c >= 'a' && c <= 'z');
    }
    for (size_t i = 0; i < sizeof methods / sizeof methods[0]; i++) {
        TN_ASSERT(!protocol_word_is(*word, methods[i], strlen(methods[i])));
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *input, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *input, size_t size) {
    static struct tn_bytes argv[ARGS];
    static uint8_t line[PROTOCOL_LINE_MAX];
    struct protocol_parser parser = {0};
    struct protocol_request request;
    if (size == 0) {
        return 0;
    }
    uint8_t *data = malloc(size);
    TN_ASSERT(data != NULL);
    memcpy(data, input, size);
    size_t from = 0;
    size_t shown = size / 2;
    while (from < size) {
        enum protocol_parse step =
            protocol_request_parse(&parser, data + from, shown - from, line, argv, ARGS, &request);
        if (step == PROTOCOL_BAD || (step == PROTOCOL_MORE && shown == size)) {
            break;
        }
        if (step == PROTOCOL_MORE) {
            shown = size;
            continue;
        }
        TN_ASSERT(request.used > 0 && request.used <= shown - from);
        if (request.argc > 0 && request.is_line) {
            check_line(&argv[0]);
        }
        if (request.argc > 0 && request.argc <= ARGS) {
            run(argv, request.argc);
        }
        from += request.used;
    }
    free(data);
    return 0;
}
