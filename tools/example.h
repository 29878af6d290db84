/* The example of a command as a request over HTTP. */
#ifndef TOOLS_EXAMPLE_H
#define TOOLS_EXAMPLE_H

#include <stdio.h>

#include "protocol/table.h"

/* A line for a shell with curl. The row has a route, and its example is of the form that this route
 * stands for. */
void example_curl(FILE *out, const struct protocol_command *row);

#endif
