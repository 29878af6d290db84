/* What clients make the server keep for them: requests that are not whole, replies that they have not
 * read. Each connection has bounds of its own (internal.h), but ten thousand of them together would be
 * gigabytes; so client_memory bounds them all.
 *
 * Below it everybody gets what it needs. Above it, up to one and a half times as much, whoever would
 * have more than its share of the moment, that is client_memory divided by the number of connections,
 * is refused. Above that, whoever would have more than half of client_memory divided by as many
 * connections as there may ever be. So a crowd that hoards cannot starve whoever asks for what is
 * usual, and nobody has to be searched for.
 *
 * It is never more than twice client_memory: since the last time that somebody got something by one of
 * the first two rules, when it was one and a half times at the most, everybody has got less than its
 * part of the other half. The shares of the moment alone would be no bound: a crowd that grows takes a
 * half, a third, a quarter, and so on. */
#include "base/assert.h"
#include "server/internal.h"

const char server_no_room[] = "too much is kept for those who read slowly; try again";

static bool has_room(const struct server *server, size_t held, size_t bytes) {
    size_t most = server->options.client_memory;
    size_t all = server->memory + bytes;
    size_t mine = held + bytes;
    uint32_t clients = server_clients(server);
    uint32_t limit = server->options.connections_max;
    return all <= most || (all <= most + most / 2 && clients > 0 && mine <= most / clients) ||
           mine <= most / 2 / (clients > limit ? clients : limit);
}

bool server_memory_share(struct server *server, size_t *held, size_t bytes) {
    bool room = has_room(server, *held, bytes);
    if (room) {
        *held += bytes;
        server->memory += bytes;
    }
    return room;
}

bool server_memory_reply(struct server *server, size_t bytes) {
    return bytes <= SERVER_UNSENT_BYTES || has_room(server, 0, bytes);
}

void server_memory_return(struct server *server, size_t *held, size_t bytes) {
    TN_ASSERT(bytes <= *held && *held <= server->memory);
    *held -= bytes;
    server->memory -= bytes;
}

bool server_memory_take(struct server_connection *connection, size_t bytes) {
    struct server *server = connection->server;
    if (!server_memory_share(server, &connection->memory, bytes)) {
        server->counters.dropped[SERVER_DROP_MEMORY]++;
        if (server_drop_is_told(server)) {
            server_log("client_dropped", "id=%llu reason=memory held=%zu wanted=%zu all=%zu",
                       (unsigned long long)connection->id, connection->memory, bytes,
                       server->memory);
        }
        return false;
    }
    return true;
}

void server_memory_give(struct server_connection *connection, size_t bytes) {
    server_memory_return(connection->server, &connection->memory, bytes);
}
