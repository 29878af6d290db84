/* Client memory: unfinished requests, and replies that clients have not read.
 *
 * Each connection has bounds of its own, but ten thousand of them together would be gigabytes; so
 * client_memory bounds them all. Below it every client gets what it needs. Above it, up to one and a
 * half times as much, a client that would have more than its share of the moment, that is client_memory
 * divided by the number of connections, is refused. Above that, a client that would have more than half
 * of client_memory divided by the highest number of connections that there may ever be. So a crowd that
 * hoards cannot starve a client that asks for the usual amount, and no search for the largest is needed.
 *
 * The total never exceeds twice client_memory: since the last time that a client got memory by one of
 * the first two rules, when the total was at most one and a half times, every client has got less
 * than its part of the other half. The shares of the moment alone would be no bound: a crowd that grows
 * takes a half, a third, a quarter, and so on. */
#ifndef TN_SERVER_MEMORY_H
#define TN_SERVER_MEMORY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Approximate bytes that the operating system keeps for a client. */
#define SERVER_UNSENT_BYTES (32 * 1024)
#define SERVER_ROOM_STEP 16u /* items of a list between two calls of server_memory_reply */

struct server_options;

struct server_memory {
    const struct server_options *options; /* client_memory, connections_max */
    uint32_t (*clients)(const void *ctx); /* the number of clients */
    const void *ctx;
    size_t used;
};

/* Whether a client that holds `held` bytes may have `bytes` more. False: it has its share, and
 * memory is short. */
bool server_memory_share(struct server_memory *memory, size_t *held, size_t bytes);
void server_memory_return(struct server_memory *memory, size_t *held, size_t bytes);
/* Whether there is memory for a reply of this size if the client does not read it at once. Asked
 * while a long reply is being made, so that none is completed for nothing. */
bool server_memory_reply(const struct server_memory *memory, size_t bytes);
/* The reason in such a refusal. */
extern const char server_no_room[];

#endif
