/* Replies on their way out. While a connection is served its replies gather in the loop's output buffer;
 * at the end they are written to the socket at once. Bytes that the socket does not take are copied: one
 * buffer is with the transport, later replies gather in a second one. Both are bounded, because no more
 * requests are read while SERVER_OUT_SOFT bytes wait. */
#ifndef TN_SERVER_OUTPUT_H
#define TN_SERVER_OUTPUT_H

#include <uv.h>

#include "protocol/resp.h"

#define SERVER_REPLY_MAX (4u << 20)     /* maximum bytes of one reply */
#define SERVER_OUT_FLUSH (128u * 1024u) /* gathered replies are sent when they have this size */
#define SERVER_OUT_SOFT (256u * 1024u)  /* unsent bytes; beyond them no more requests are served */

#define SERVER_OUT_BYTES (SERVER_OUT_FLUSH + 2 * SERVER_REPLY_MAX)

struct server_connection;
struct server_counters;

/* The loop's output buffer, used by one connection at a time and empty in between. */
struct server_output {
    uv_loop_t *loop;
    struct server_counters *counters;
    uint8_t *bytes;
    size_t len;
};

/* False: no memory. */
bool server_output_init(struct server_output *output, uv_loop_t *loop,
                        struct server_counters *counters);
void server_output_free(struct server_output *output);

/* ---- Replies ---- */

struct protocol_writer server_reply_begin(struct server_connection *connection);
void server_reply_end(struct server_connection *connection, const struct protocol_writer *w);
void server_reply_bytes(struct server_connection *connection, const void *bytes, size_t len);
/* Appends the replies to writes that have been answered, up to the first one that has not. */
void server_replies_collect(struct server_connection *connection);
__attribute__((format(printf, 2, 3))) void server_reply_error(struct server_connection *connection,
                                                              const char *format, ...);
/* Never closes the connection, which may be being served. */
void server_output_flush(struct server_connection *connection);

/* ---- Messages: between replies, gathered in the connection's own memory, and sent by a flush ---- */

/* `room`: the maximum size of the message. False: out of memory. */
struct protocol_writer server_message_begin(struct server_connection *connection, size_t room);
bool server_message_end(struct server_connection *connection, const struct protocol_writer *w);
void server_messages_flush(struct server_connection *connection);

/* ---- Sending ---- */

size_t server_output_waiting(const struct server_connection *connection);
/* Whether the operating system still has unsent bytes. A client that goes on sending requests loses
 * them if the connection is closed then. */
bool server_output_unsent(const struct server_connection *connection);
/* The buffer at the transport has been sent, or the transport has failed. False: close the
 * connection. */
bool server_output_written(struct server_connection *connection, int status);
/* Frees the unsent replies of the connection. */
void server_output_drop(struct server_connection *connection);

#endif
