/* What memory.h promises. */
#include "server/memory.h"

#include "base/assert.h"
#include "server/server.h"

const char server_no_room[] = "too much memory is used for slow clients; try again";

static bool has_room(const struct server_memory *memory, size_t held, size_t bytes) {
    size_t most = memory->options->client_memory;
    size_t all = memory->used + bytes;
    size_t mine = held + bytes;
    uint32_t clients = memory->clients(memory->ctx);
    uint32_t limit = memory->options->connections_max;
    return all <= most || (all <= most + most / 2 && clients > 0 && mine <= most / clients) ||
           mine <= most / 2 / (clients > limit ? clients : limit);
}

bool server_memory_share(struct server_memory *memory, size_t *held, size_t bytes) {
    bool room = has_room(memory, *held, bytes);
    if (room) {
        *held += bytes;
        memory->used += bytes;
    }
    return room;
}

bool server_memory_reply(const struct server_memory *memory, size_t bytes) {
    return bytes <= SERVER_UNSENT_BYTES || has_room(memory, 0, bytes);
}

void server_memory_return(struct server_memory *memory, size_t *held, size_t bytes) {
    TN_ASSERT(bytes <= *held && *held <= memory->used);
    *held -= bytes;
    memory->used -= bytes;
}
