/* What the files of the parser share: a place in the words of a request, and the ways to take the next
 * one. Each way returns false after it has stored the reason of the refusal in the call. */
#ifndef TN_PROTOCOL_PARSE_PARTS_H
#define TN_PROTOCOL_PARSE_PARTS_H

#include "protocol/parse.h"

struct parse_cursor {
    const struct tn_bytes *argv;
    uint32_t argc;
    uint32_t at;
    struct tn_writer scratch;
    struct protocol_call *call;
    enum tn_result code; /* the result of a refusal */
};

/* Quoting what came in: its start, for people. */
#define PARSE_SHOWN(bytes) (int)((bytes).len < 40 ? (bytes).len : 40), (const char *)(bytes).at

/* Stores the reason; returns false. */
__attribute__((format(printf, 3, 4))) bool parse_refuse(struct parse_cursor *c, enum tn_result code,
                                                        const char *format, ...);
bool parse_usage(struct parse_cursor *c, const char *what);
bool parse_next(struct parse_cursor *c, const char *what, struct tn_bytes *ret_word);
bool parse_next_number(struct parse_cursor *c, const char *what, uint64_t max,
                       uint64_t *ret_number);
bool parse_next_name(struct parse_cursor *c, const char *what, uint32_t max,
                     struct tn_bytes *ret_name);
/* A duration of at most UINT32_MAX seconds. */
bool parse_next_seconds(struct parse_cursor *c, const char *what, uint64_t *ret_seconds);

/* A copy in lower case, with a NUL; false: it does not fit or has a NUL in it. */
bool parse_lower_copy(struct tn_bytes word, char *out, size_t capacity);

bool parse_bind_lease(struct parse_cursor *c);
/* Stores an argument that only reads have. */
bool parse_bind_read(struct parse_cursor *c, enum protocol_bind to);

#endif
