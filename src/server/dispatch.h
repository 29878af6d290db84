/* From the words of a RESP request to the command that serves it. */
#ifndef TN_SERVER_DISPATCH_H
#define TN_SERVER_DISPATCH_H

#include "server/handler.h"

/* `is_line`: the request was a line of text. Only reads are served then; any other line ends the
 * connection. */
enum server_step server_dispatch(struct server_connection *connection, const struct tn_bytes *argv,
                                 uint32_t argc, bool is_line);

#endif
