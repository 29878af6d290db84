/* What buffers.h promises. */
#include "server/buffers.h"

#include <stdlib.h>

#include "engine/read.h"
#include "protocol/parse.h"
#include "protocol/resp.h"

static size_t page_bytes(void) {
    size_t leases = PROTOCOL_PAGE_MAX * sizeof(struct engine_lease);
    size_t pools = PROTOCOL_PAGE_MAX * sizeof(struct kernel_pool_view);
    size_t values = KERNEL_BUNDLE_MAX * sizeof(struct engine_value);
    size_t most = leases > pools ? leases : pools;
    _Static_assert(sizeof(struct kernel_rule_view) <= sizeof(struct engine_lease), "a page fits");
    _Static_assert(sizeof(struct kernel_value_view) <= sizeof(struct engine_lease), "a page fits");
    _Static_assert(sizeof(struct kernel_sensor_view) <= sizeof(struct engine_lease), "a page fits");
    return most > values ? most : values;
}

bool server_buffers_init(struct server_buffers *buffers) {
    for (uint32_t i = 0; i < PROTOCOL_COMMANDS; i++) {
        buffers->arity[i] = protocol_command_arity(&protocol_table[i]);
    }
    buffers->read = malloc(SERVER_READ_BYTES);
    buffers->line = malloc(PROTOCOL_LINE_MAX);
    buffers->argv = malloc(SERVER_ARGS_MAX * sizeof *buffers->argv);
    buffers->scratch = malloc(2 * PROTOCOL_REQUEST_MAX);
    buffers->page = malloc(page_bytes());
    return buffers->read != NULL && buffers->line != NULL && buffers->argv != NULL &&
           buffers->scratch != NULL && buffers->page != NULL;
}

void server_buffers_free(struct server_buffers *buffers) {
    free(buffers->read);
    free(buffers->line);
    free(buffers->argv);
    free(buffers->scratch);
    free(buffers->page);
    for (unsigned i = 0; i < 2; i++) {
        free((void *)(uintptr_t)buffers->docs[i].at);
    }
}
