/* The OpenAPI 3.1 description of the HTTP interface, generated from the command table. */
#ifndef TN_PROTOCOL_OPENAPI_H
#define TN_PROTOCOL_OPENAPI_H

#include <stddef.h>

/* The document as JSON text, which the caller frees; NULL if there is no memory. `version` is the
 * server's. The result never changes: call it once at start. */
char *protocol_openapi_make(const char *version, size_t *ret_len);

#endif
