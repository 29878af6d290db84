/* Commands about the connection and the server itself: see handler.h. */
#ifndef TN_SERVER_SESSION_H
#define TN_SERVER_SESSION_H

#include <stdbool.h>
#include <stdint.h>

struct server_connection;

/* Whether the command has no more words than can be answered in one step; false: it has been refused. */
bool session_words_fit(struct server_connection *connection, uint32_t argc);

#endif
