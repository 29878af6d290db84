/* From the words of a request that came over RESP to the command that serves it. */
#ifndef TN_SERVER_DISPATCH_H
#define TN_SERVER_DISPATCH_H

#include "server/handler.h"

/* `is_line`: typed as a line of text. Then only reads are served, and any other line ends the
 * connection. */
enum server_step server_dispatch(struct server_connection *connection, const struct tn_bytes *argv,
                                 uint32_t argc, bool is_line);

#endif
