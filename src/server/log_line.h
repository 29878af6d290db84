/* The program's log: one line on standard error for each event; from any thread. */
#ifndef TN_SERVER_LOG_LINE_H
#define TN_SERVER_LOG_LINE_H

#include <stdbool.h>

#include "os/os.h"

/* Each line begins with the time of `clock`. NULL: without a time, for a log reader that adds
 * it. */
void server_log_setup(const struct os *clock, bool json);
void server_log_json(bool json);

/* `format` is pairs with a blank between them, "port=%u reason=\"%s: %s\"", or empty: quotes hold a
 * value of several words or conversions together. Understood are %s, %.*s, %d and %u, and the last two
 * with l, ll and z. Values are quoted and escaped as they need it. */
__attribute__((format(printf, 2, 3))) void server_log(const char *event, const char *format, ...);
/* The same for a complete line of event=... key=value key="...". */
void server_log_line(const char *text);

#endif
