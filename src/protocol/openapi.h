/* The HTTP interface described in OpenAPI 3.1, made from the table of commands. */
#ifndef TN_PROTOCOL_OPENAPI_H
#define TN_PROTOCOL_OPENAPI_H

#include <stddef.h>

/* The document as JSON text, the caller's to free; NULL if there is no memory. `version` is that of the
 * server. It is the same each time: one call at start is enough. */
char *protocol_openapi_make(const char *version, size_t *ret_len);

#endif
