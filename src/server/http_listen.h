/* HTTP as the rest of the server sees it. http_parts.h is for the files of HTTP only. */
#ifndef TN_SERVER_HTTP_LISTEN_H
#define TN_SERVER_HTTP_LISTEN_H

#include <stdbool.h>
#include <stdint.h>

struct server_owners;

/* Prepares HTTP for its listeners. 0, or an error code of libuv. */
int server_http_start(struct server_owners *owners);
/* 0, or an error code of libuv. */
int server_http_listen(struct server_owners *owners, const char *host, uint16_t port,
                       uint16_t *ret_port);
/* Listens at options.http_unix. False: the reason has been logged. */
bool server_http_listen_unix(struct server_owners *owners);
uint32_t server_http_connections(const struct server_owners *owners);
/* Streams of events. */
uint32_t server_http_streams(const struct server_owners *owners);
/* Every second. */
void server_http_check(struct server_owners *owners);
/* Ends the streams and waiting requests of users that were removed. */
void server_http_review(struct server_owners *owners);
/* Sends the answers that have been completed since the last call. */
void server_http_wake(struct server_owners *owners);
/* Accepts no more requests, and stops when those being served are answered. */
void server_http_drain(struct server_owners *owners);
void server_http_stop(struct server_owners *owners);
bool server_http_stopped(const struct server_owners *owners);
void server_http_free(struct server_owners *owners);

#endif
