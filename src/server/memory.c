/* What clients make the server keep for them: requests that are not whole, replies that they have not
 * read. Each connection has bounds of its own (internal.h), but ten thousand of them together would be
 * gigabytes; so client_memory bounds them all.
 *
 * Below it everybody gets what it needs. Above it, whoever would have more than its share, that is
 * client_memory divided by the number of connections, is hung up on; who stays within its share gets
 * that still. So a crowd that hoards cannot starve whoever asks for what is usual, nobody has to be
 * searched for, and all of it is never more than twice client_memory. */
#include "base/assert.h"
#include "server/internal.h"

bool server_memory_take(struct server_connection *connection, size_t bytes) {
    struct server *server = connection->server;
    size_t most = server->options.client_memory;
    if (server->memory + bytes > most &&
        connection->memory + bytes > most / server->connection_count) {
        server->counters.dropped[SERVER_DROP_MEMORY]++;
        server_log("client_dropped", "id=%llu reason=memory held=%zu wanted=%zu all=%zu",
                   (unsigned long long)connection->id, connection->memory, bytes, server->memory);
        return false;
    }
    connection->memory += bytes;
    server->memory += bytes;
    return true;
}

void server_memory_give(struct server_connection *connection, size_t bytes) {
    TN_ASSERT(bytes <= connection->memory && connection->memory <= connection->server->memory);
    connection->memory -= bytes;
    connection->server->memory -= bytes;
}
